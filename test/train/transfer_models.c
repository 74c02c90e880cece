/* transfer_models KIND WEIGHTS IN.npz OUT.npz: makes a model, takes its weights from a file with PyTorch's names and
 * layouts, and writes what it gives for x of IN as y. Kinds are those of `models`. */
#include <tapir/tapir.h>

#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2 };

typedef struct model {
    tp_params *p;
    tp_archive *weights; /* sizes are those of the file */
    tp_tensor *x;
} model;

static int64_t size_of(const model *m, const char *name, int axis)
{
    const tp_archive_entry *e = tp_archive_find(m->weights, name);
    return e && axis < e->rank ? e->shape[axis] : 0;
}

/* ---- resnet18 as torchvision names it ----------------------------------------------------------------- */

static const tp_transfer resnet18_rows[] = {
    {.from = "*.num_batches_tracked", .to = NULL    },
    {.from = "*.running_mean",        .to = "*.mean"},
    {.from = "*.running_var",         .to = "*.var" },
    {.from = "fc.weight",             .to = "fc.w",   .turn = true},
    {.from = "fc.bias",                               .to = "fc.b"                            },
    {.from = "*conv*.weight",                               .to = "*conv*.w"},
    {.from = "*downsample.0.weight",                               .to = "*downsample.0.w"                     },
    {.from = "*.weight",                               .to = "*.scale"      },
    {.from = "*.bias",                               .to = "*.shift"                       },
};

typedef struct pair {
    tp_conv_layer conv;
    tp_norm_layer norm;
} pair;

static pair make_pair(tp_params *p, const char *conv, const char *norm, int64_t c, int64_t oc,
                      const tp_window *w)
{
    const tp_layer_options o = {.no_bias = true};
    pair l;
    l.conv = tp_conv_layer_new(p, conv, c, oc, w, &o);
    l.norm = tp_batch_norm_new(p, norm, oc, 0, 0);
    return l;
}

static tp_tensor *apply_pair(const pair *l, tp_tensor *x)
{
    return tp_norm_layer_apply(&l->norm, tp_conv_layer_apply(&l->conv, x));
}

typedef struct residual {
    pair first, second, down;
    bool has_down;
} residual;

static residual make_residual(tp_params *p, int64_t c, int64_t oc, int64_t stride)
{
    residual r = {.has_down = stride != 1 || c != oc};
    r.first = make_pair(p, "conv1", "bn1", c, oc, TP_SQUARE(3, stride, 1));
    r.second = make_pair(p, "conv2", "bn2", oc, oc, TP_SQUARE(3, 1, 1));
    if (r.has_down)
        r.down = make_pair(tp_params_part(p, "downsample"), "0", "1", c, oc,
                           TP_SQUARE(1, stride, 0));
    return r;
}

static tp_tensor *apply_residual(const residual *r, tp_tensor *x)
{
    tp_tensor *y = apply_pair(&r->second, tp_relu(apply_pair(&r->first, x)));
    return tp_relu(tp_add(y, r->has_down ? apply_pair(&r->down, x) : x));
}

/* Made, and used when the weights are there. */
static residual blocks[4][2];
static pair stem;
static tp_dense head;

static void make_resnet18(model *m)
{
    const int64_t c = size_of(m, "conv1.weight", 0);
    stem =
        make_pair(m->p, "conv1", "bn1", size_of(m, "conv1.weight", 1), c, TP_SQUARE(7, 2, 3));
    int64_t in = c;
    for (int i = 0; i < 4; i++) {
        char name[] = "layer1";
        name[5] = (char)('1' + i);
        const int64_t out = c << i;
        for (int k = 0; k < 2; k++, in = out)
            blocks[i][k] =
                make_residual(tp_params_nth(m->p, name, k), in, out, i > 0 && k == 0 ? 2 : 1);
    }
    head = tp_dense_new(m->p, "fc", in, size_of(m, "fc.weight", 0), NULL);
}

static tp_tensor *apply_resnet18(model *m)
{
    tp_tensor *y = tp_max_pool(tp_relu(apply_pair(&stem, m->x)), TP_SQUARE(3, 2, 1));
    for (int i = 0; i < 8; i++)
        y = apply_residual(&blocks[i / 2][i % 2], y);
    return tp_dense_apply(&head, tp_flatten(tp_global_avg_pool(y), 1));
}

/* ---- GPT-2: matrices are not turned, and one has q, k and v ------------------------------------------- */

static const tp_transfer gpt2_rows[] = {
    {.from = "h.*.attn.bias",          .to = NULL                                       }, /* the mask */
    {.from = "h.*.attn.c_attn.weight", .to = "h.*.attn.q.w",                              .pieces = 3, .take = "0"},
    {.from = "h.*.attn.c_attn.weight",                     .to = "h.*.attn.k.w",                                                                      .pieces = 3, .take = "1"},
    {.from = "h.*.attn.c_attn.weight",.to = "h.*.attn.v.w",.pieces = 3, .take = "2"},
    {.from = "h.*.attn.c_attn.bias",                                .to = "h.*.attn.q.b",                                                  .pieces = 3, .take = "0"},
    {.from = "h.*.attn.c_attn.bias",                     .to = "h.*.attn.k.b",                                                                                                   .pieces = 3, .take = "1"},
    {.from = "h.*.attn.c_attn.bias",   .to = "h.*.attn.v.b", .pieces = 3, .take = "2"},
    {.from = "h.*.attn.c_proj.weight",                     .to = "h.*.attn.out.w"                                                                     },
    {.from = "h.*.attn.c_proj.bias",.to = "h.*.attn.out.b"},
    {.from = "h.*.mlp.c_*.weight",                                .to = "h.*.mlp.*.w"                                                   },
    {.from = "h.*.mlp.c_*.bias",                     .to = "h.*.mlp.*.b"                                                          },
    {.from = "*ln_*.weight", .to = "*ln_*.scale"       },
    {.from = "*ln_*.bias",   .to = "*ln_*.shift"                                      },
    {.from = "*.weight",     .to = "*.table"   },
};

typedef struct transformer_block {
    tp_norm_layer ln_1, ln_2;
    tp_attention_layer attn;
    tp_dense fc, proj;
} transformer_block;

static struct gpt2 {
    tp_embedding wte, wpe;
    transformer_block h[LAYERS];
    tp_norm_layer ln_f;
} gpt2;

static void make_gpt2(model *m)
{
    const int64_t n = size_of(m, "wte.weight", 1);
    gpt2.wte = tp_embedding_new(m->p, "wte", size_of(m, "wte.weight", 0), n, -1);
    gpt2.wpe = tp_embedding_new(m->p, "wpe", size_of(m, "wpe.weight", 0), n, -1);
    for (int i = 0; i < LAYERS; i++) {
        tp_params *p = tp_params_nth(m->p, "h", i), *mlp = tp_params_part(p, "mlp");
        transformer_block *b = &gpt2.h[i];
        b->ln_1 = tp_layer_norm_new(p, "ln_1", n, 0);
        b->attn = tp_attention_layer_new(p, "attn", n, 2, 0, NULL);
        b->ln_2 = tp_layer_norm_new(p, "ln_2", n, 0);
        b->fc = tp_dense_new(mlp, "fc", n, 4 * n, NULL);
        b->proj = tp_dense_new(mlp, "proj", 4 * n, n, NULL);
    }
    gpt2.ln_f = tp_layer_norm_new(m->p, "ln_f", n, 0);
}

static tp_tensor *apply_gpt2(model *m)
{
    const tp_attention_options causal = {.causal = true};
    tp_ctx *tp = tp_ctx_of(m->x);
    tp_tensor *places = tp_arange(tp, TP_I64, tp_size(m->x, 1), 0, 1);
    tp_tensor *y =
        tp_add(tp_embedding_apply(&gpt2.wte, m->x), tp_embedding_apply(&gpt2.wpe, places));
    for (int i = 0; i < LAYERS; i++) {
        const transformer_block *b = &gpt2.h[i];
        tp_tensor *a = tp_norm_layer_apply(&b->ln_1, y);
        y = tp_add(y, tp_attention_layer_apply(&b->attn, a, NULL, &causal, NULL));
        a = tp_dense_apply(&b->fc, tp_norm_layer_apply(&b->ln_2, y));
        y = tp_add(y, tp_dense_apply(&b->proj, tp_gelu_tanh(a)));
    }
    y = tp_norm_layer_apply(&gpt2.ln_f, y);
    return tp_matmul(y, tp_transpose(gpt2.wte.table, TP_DIMS(1, 0)));
}

/* ---- recurrent layers, both directions: gates are in another order ------------------------------------ */

#define RECURRENT(GATES)                                                                       \
    {.from = "rnn.weight_ih_l*_reverse", .to = "rnn.*.back.w", .turn = true, GATES},           \
        {.from = "rnn.weight_hh_l*_reverse", .to = "rnn.*.back.r", .turn = true, GATES},       \
        {.from = "rnn.bias_ih_l*_reverse", .to = "rnn.*.back.wb", GATES},                      \
        {.from = "rnn.bias_hh_l*_reverse", .to = "rnn.*.back.rb", GATES},                      \
        {.from = "rnn.weight_ih_l*", .to = "rnn.*.w", .turn = true, GATES},                    \
        {.from = "rnn.weight_hh_l*", .to = "rnn.*.r", .turn = true, GATES},                    \
        {.from = "rnn.bias_ih_l*", .to = "rnn.*.wb", GATES},                                   \
    {                                                                                          \
        .from = "rnn.bias_hh_l*", .to = "rnn.*.rb", GATES                                      \
    }

static const tp_transfer lstm_rows[] = {RECURRENT(TP_LSTM_GATES)};
static const tp_transfer gru_rows[] = {RECURRENT(TP_GRU_GATES)};

static tp_recurrent_layer rnn;

static void make_recurrent(model *m, bool lstm)
{
    const tp_recurrent_layer_options o = {.layers = LAYERS, .both = true};
    const int64_t k = size_of(m, "rnn.weight_ih_l0", 1), n = size_of(m, "rnn.weight_hh_l0", 1);
    rnn = lstm ? tp_lstm_new(m->p, "rnn", k, n, &o) : tp_gru_new(m->p, "rnn", k, n, &o);
}

static void make_lstm(model *m)
{
    make_recurrent(m, true);
}

static void make_gru(model *m)
{
    make_recurrent(m, false);
}

static tp_tensor *apply_recurrent(model *m)
{
    return tp_recurrent_layer_apply(&rnn, m->x, NULL, NULL, NULL);
}

/* ---- a convolution, and attention as nn.MultiheadAttention has it: one matrix, to be turned ----------- */

#define FUSED(which, i)                                                                        \
    {.from = "attn.in_proj_weight",                                                            \
     .to = "attn." which ".w",                                                                 \
     .turn = true,                                                                             \
     .pieces = 3,                                                                              \
     .take = i},                                                                               \
    {                                                                                          \
        .from = "attn.in_proj_bias", .to = "attn." which ".b", .pieces = 3, .take = i          \
    }

static const tp_transfer mixed_rows[] = {
    FUSED("q", "0"),
    FUSED("k", "1"),
    FUSED("v", "2"),
    {.from = "attn.out_proj.weight", .to = "attn.out.w", .turn = true},
    {.from = "attn.out_proj.bias",                              .to = "attn.out.b"                    },
    {.from = "*.weight",                              .to = "*.w"          },
    {.from = "*.bias",                              .to = "*.b"                      },
};

static struct mixed {
    tp_conv_layer conv;
    tp_attention_layer attn;
} mixed;

static void make_mixed(model *m)
{
    const int64_t n = size_of(m, "conv.weight", 0);
    mixed.conv = tp_conv_layer_new(m->p, "conv", size_of(m, "conv.weight", 1), n,
                                   TP_SQUARE(3, 2, 1), NULL);
    mixed.attn = tp_attention_layer_new(m->p, "attn", n, 2, 0, NULL);
}

/* Places of the image attend to each other. */
static tp_tensor *apply_mixed(model *m)
{
    tp_tensor *y = tp_flatten(tp_relu(tp_conv_layer_apply(&mixed.conv, m->x)), 2);
    y = tp_transpose(y, TP_DIMS(0, 2, 1));
    return tp_attention_layer_apply(&mixed.attn, y, NULL, NULL, NULL);
}

/* ---- all ---------------------------------------------------------------------------------------------- */

#define MODEL(name, make, apply)                                                               \
    {                                                                                          \
#name, make, apply, name##_rows, sizeof name##_rows / sizeof *name##_rows              \
    }
static const struct {
    const char *name;
    void (*make)(model *m);
    tp_tensor *(*apply)(model *m);
    const tp_transfer *rows;
    int n_rows;
} models[] = {
    MODEL(resnet18, make_resnet18, apply_resnet18), MODEL(gpt2, make_gpt2, apply_gpt2),
    MODEL(lstm, make_lstm, apply_recurrent),        MODEL(gru, make_gru, apply_recurrent),
    MODEL(mixed, make_mixed, apply_mixed),
};
enum { N_MODELS = sizeof models / sizeof *models };

static void run(tp_ctx *tp, int kind, char **paths)
{
    model m = {.p = tp_params_new(tp), .weights = tp_archive_open(tp, paths[0])};
    m.x = tp_archive_tensor(tp_archive_open(tp, paths[1]), "x");
    models[kind].make(&m);
    tp_state *s = tp_state_new(tp);
    tp_state_add_params(s, NULL, m.p);
    if (tp_state_transfer(s, paths[0], models[kind].n_rows, models[kind].rows) != TP_OK)
        return;
    const tp_archive_item y = {"y", models[kind].apply(&m), NULL};
    tp_archive_save(tp, paths[2], 1, &y);
}

int main(int argc, char **argv)
{
    int kind = 0;
    while (argc == 5 && kind < N_MODELS && strcmp(models[kind].name, argv[1]) != 0)
        kind++;
    if (argc != 5 || kind == N_MODELS) {
        fprintf(stderr, "usage: transfer_models KIND WEIGHTS IN.npz OUT.npz\n");
        return 2;
    }
    tp_ctx *tp = tp_open(NULL);
    tp_training(tp, false);
    run(tp, kind, argv + 2);
    const bool failed = tp_error(tp) != TP_OK;
    if (failed)
        fprintf(stderr, "transfer_models: %s: %s\n", argv[1], tp_error_message(tp));
    tp_close(tp);
    return failed;
}
