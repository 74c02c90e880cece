/* Training steps, loops and random numbers as C files that stand alone; what they say when a run fails;
 * what they need when nothing else is there; and small machines.
 *
 *     standalone_steps host|aarch64|cortex|free|free_long|learn|learn_long
 *
 * 77: no compiler, or nothing to run it. */
#include "common/alone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef bool (*try_fn)(const alone *a);

/* ---- what is saved --------------------------------------------------------------------------------- */

enum { N_PARAMS = 8, STEPS = 3 };

typedef struct lenet {
    tp_conv_layer conv1, conv2;
    tp_dense dense1, dense2;
} lenet;

static tp_tensor *lenet_logits(const lenet *l, tp_tensor *x, double dropped)
{
    const tp_window two = {
        .kernel = {2, 2}
    };
    x = tp_max_pool(tp_relu(tp_conv_layer_apply(&l->conv1, x)), &two);
    x = tp_max_pool(tp_relu(tp_conv_layer_apply(&l->conv2, x)), &two);
    x = tp_relu(tp_dense_apply(&l->dense1, tp_flatten(x, 1)));
    x = dropped > 0 ? tp_dropout(x, dropped) : x;
    return tp_dense_apply(&l->dense2, x);
}

/* Steps of Adam, of which the caller has the state. */
static bool lenet_step(try_fn f)
{
    tp_ctx *tp = tp_open(&(tp_options){.seed = 5});
    const lenet l = {
        .conv1 = tp_conv_layer_new(tp_params_new(tp), "conv1", 1, 6, TP_SQUARE(5, 1, 2), NULL),
        .conv2 = tp_conv_layer_new(tp_params_new(tp), "conv2", 6, 12, TP_SQUARE(5, 1, 0), NULL),
        .dense1 = tp_dense_new(tp_params_new(tp), "dense1", 12 * 5 * 5, 32, NULL),
        .dense2 = tp_dense_new(tp_params_new(tp), "dense2", 32, 10, NULL)};
    tp_tensor *const params[N_PARAMS] = {l.conv1.w,  l.conv1.b,  l.conv2.w,  l.conv2.b,
                                         l.dense1.w, l.dense1.b, l.dense2.w, l.dense2.b};
    tp_optimizer *adam =
        tp_adam_new(tp, 0.01, &(tp_adam_options){.decay = 0.01}, N_PARAMS, params);
    tp_graph *g = tp_graph_new(tp);
    const int64_t batch = tp_symbol(g, "batch");
    tp_tensor *x = tp_placeholder(g, "image", TP_F32, TP_DIMS(batch, 1, 28, 28));
    tp_tensor *y = tp_placeholder(g, "label", TP_I64, TP_DIMS(batch));
    tp_tensor *loss = tp_name(tp_cross_entropy(lenet_logits(&l, x, 0.2), y), "loss");
    tp_name(tp_optimizer_step(adam, loss), "done");
    tp_tensor *feeds[2 * STEPS];
    for (int i = 0; i < STEPS; i++) {
        const int64_t n = 4 + i;
        feeds[2 * i] = tp_uniform(tp, TP_F32, TP_DIMS(n, 1, 28, 28), 0, 1);
        feeds[2 * i + 1] = tp_cast(tp_floor(tp_uniform(tp, TP_F32, TP_DIMS(n), 0, 10)), TP_I64);
    }
    const alone a = {
        .dir = ".",
        .name = "lenet_step",
        .tp = tp,
        .g = g,
        .n_in = 2,
        .in = (const char *const[]){"image", "label"},
        .n_out = 2,
        .out = (const char *const[]){"loss",  "done" },
        .n_sets = STEPS,
        .feeds = feeds,
        .memory = 3 << 20
    };
    const bool ok = f(&a);
    tp_optimizer_free(adam);
    tp_close(tp);
    return ok;
}

/* A scaled loss, whose step is left out where a gradient is not finite. */
static bool scaled_step(try_fn f)
{
    tp_ctx *tp = tp_open(NULL);
    const tp_loss_scale_options few = {.first = 4, .turns = 2, .backoff = 0.25};
    tp_tensor *w = tp_param(tp_full(tp, TP_F32, TP_DIMS(3), 0.5), "w"), *grad;
    tp_optimizer *adam = tp_adam_new(tp, 0.1, NULL, 1, &w);
    tp_loss_scale *scale = tp_loss_scale_new(tp, &few);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(3));
    tp_tensor *loss = tp_name(tp_sum(tp_mul(tp_square(w), x), TP_ALL, false), "loss");
    tp_grads(tp_loss_scale_apply(scale, loss), NULL, 1, &w, &grad);
    tp_tensor *finite = tp_loss_scale_unscale(scale, 1, &grad, &grad);
    tp_name(tp_optimizer_apply_when(adam, &grad, finite), "taken");
    tp_name(tp_loss_scale_update(scale, finite), "updated");
    tp_tensor *feeds[2 * STEPS];
    for (int i = 0; i < 2 * STEPS; i++) {
        const float v[3] = {(float)i, i == 2 ? 3e38f : 1, -2}; /* 3e38 * 4 is infinite */
        feeds[i] = tp_tensor_new(tp, TP_F32, TP_DIMS(3), v);
    }
    const alone a = {
        .dir = ".",
        .name = "scaled_step",
        .tp = tp,
        .g = g,
        .n_in = 1,
        .in = (const char *const[]){"x"       },
        .n_out = 3,
        .out = (const char *const[]){ "loss", "taken", "updated"},
        .n_sets = 2 * STEPS,
        .feeds = feeds,
        .memory = 1 << 20
    };
    const bool ok = f(&a);
    tp_optimizer_free(adam);
    tp_loss_scale_free(scale);
    tp_close(tp);
    return ok;
}

/* ---- learning ------------------------------------------------------------------------------------ */

enum { SIDE = 8, BATCH = 8, CLASSES = 3, FEW_STEPS = 40, MANY_STEPS = 300 };

/* Bars that lie, stand, or lean; somewhere, and in noise. */
static void draw_batch(uint64_t *s, float *image, int64_t *label)
{
    for (int b = 0; b < BATCH; b++) {
        *s = *s * 6364136223846793005u + 1442695040888963407u;
        const int kind = (int)(*s >> 40) % CLASSES, at = (int)(*s >> 50) % SIDE;
        label[b] = kind;
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                const int line = kind == 0 ? y : kind == 1 ? x : (x + y) % SIDE;
                *s = *s * 6364136223846793005u + 1442695040888963407u;
                *image++ = (line == at ? 1.0f : 0) + (float)(*s >> 40) * 0x1p-26f;
            }
    }
}

/* Did it learn? Each batch is new, so what it knows at the end it was not shown. */
static bool has_learned(const alone *a, int steps)
{
    enum { END = 8 };
    double loss[2] = {0, 0};
    int64_t right = 0;
    for (int i = 0; i < steps; i++) {
        const tp_tensor *const *out = (const tp_tensor *const *)a->results + i * a->n_out;
        loss[0] += i < END ? tp_item(out[0]) / (double)END : 0;
        loss[1] += i >= steps - END ? tp_item(out[0]) / (double)END : 0;
        right += i >= steps - END ? tp_item_i64(out[1]) : 0;
    }
    printf("%d steps: loss %g, then %g; %d of the last %d images right\n", steps, loss[0],
           loss[1], (int)right, END * BATCH);
    return loss[1] < 0.5 * loss[0] && right > END * BATCH * 3 / 4;
}

/* A net like LeNet, small enough for an emulated machine: Adam's steps, on a batch of its own each. */
static bool learning(try_fn f, int steps)
{
    tp_ctx *tp = tp_open(&(tp_options){.seed = 3});
    const lenet l = {
        .conv1 = tp_conv_layer_new(tp_params_new(tp), "conv1", 1, 4, TP_SQUARE(3, 1, 1), NULL),
        .conv2 = tp_conv_layer_new(tp_params_new(tp), "conv2", 4, 6, TP_SQUARE(3, 1, 0), NULL),
        .dense1 = tp_dense_new(tp_params_new(tp), "dense1", 6, 12, NULL),
        .dense2 = tp_dense_new(tp_params_new(tp), "dense2", 12, CLASSES, NULL)};
    tp_tensor *const params[N_PARAMS] = {l.conv1.w,  l.conv1.b,  l.conv2.w,  l.conv2.b,
                                         l.dense1.w, l.dense1.b, l.dense2.w, l.dense2.b};
    tp_optimizer *adam = tp_adam_new(tp, 0.03, NULL, N_PARAMS, params);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "image", TP_F32, TP_DIMS(BATCH, 1, SIDE, SIDE));
    tp_tensor *y = tp_placeholder(g, "label", TP_I64, TP_DIMS(BATCH));
    tp_tensor *logits = lenet_logits(&l, x, 0);
    tp_tensor *loss = tp_name(tp_cross_entropy(logits, y), "loss");
    tp_name(tp_sum(tp_cast(tp_eq(tp_argmax(logits, 1, false), y), TP_I64), TP_ALL, false),
            "right");
    tp_name(tp_optimizer_step(adam, loss), "done");
    tp_tensor *feeds[2 * MANY_STEPS], *results[3 * MANY_STEPS];
    uint64_t s = 77;
    for (int i = 0; i < steps; i++) {
        float image[BATCH * SIDE * SIDE];
        int64_t label[BATCH];
        draw_batch(&s, image, label);
        feeds[2 * i] = tp_tensor_new(tp, TP_F32, TP_DIMS(BATCH, 1, SIDE, SIDE), image);
        feeds[2 * i + 1] = tp_tensor_new(tp, TP_I64, TP_DIMS(BATCH), label);
    }
    const alone a = {
        .dir = ".",
        .name = steps == MANY_STEPS ? "learning_long" : "learning",
        .tp = tp,
        .g = g,
        .n_in = 2,
        .in = (const char *const[]){"image",  "label"},
        .n_out = 3,
        .out = (const char *const[]){ "loss", "right",  "done"},
        .n_sets = steps,
        .feeds = feeds,
        .results = results,
        .memory = 1 << 20
    };
    const bool ok = f(&a) && has_learned(&a, steps);
    tp_optimizer_free(adam);
    tp_close(tp);
    return ok;
}

/* ---- other programs ------------------------------------------------------------------------------ */

/* By Winograd's tiles: convolutions of constant weights and of others, whose tiles do not fit evenly. */
static bool tiled_convs(try_fn f)
{
    const tp_window same = {
        .pad_lo = {1, 1},
          .pad_hi = {1, 1}
    };
    tp_ctx *tp = tp_open(&(tp_options){.seed = 9});
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "batch"), 16, 21, 18));
    tp_tensor *w = tp_placeholder(g, "w", TP_F32, TP_DIMS(16, 24, 3, 3));
    tp_tensor *steady = tp_normal(tp, TP_F32, TP_DIMS(24, 16, 3, 3), 0, 0.1);
    tp_name(tp_relu(tp_conv(tp_relu(tp_conv(x, steady, &same)), w, &same)), "y");
    tp_tensor *feeds[4];
    for (int i = 0; i < 2; i++) {
        feeds[2 * i] = tp_normal(tp, TP_F32, TP_DIMS(4 * i + 1, 16, 21, 18), 0, 1);
        feeds[2 * i + 1] = tp_normal(tp, TP_F32, TP_DIMS(16, 24, 3, 3), 0, 0.1);
    }
    const char *const in[] = {"x", "w"}, *const out[] = {"y"};
    tp_tensor *known[2] = {NULL, NULL};
    tp_program *p =
        tp_graph_compile(g, 2, in, 1, out, &(tp_compile_options){.engine = TP_ENGINE_TILES});
    for (int i = 0; p && i < 2; i++)
        tp_program_run(p, feeds + 2 * i, &known[i]);
    const alone a = {.dir = ".",
                     .name = "tiled_convs",
                     .tp = tp,
                     .g = g,
                     .n_in = 2,
                     .in = in,
                     .n_out = 1,
                     .out = out,
                     .n_sets = 2,
                     .feeds = feeds,
                     .known = known};
    const bool ok = tp_error(tp) == TP_OK && f(&a);
    tp_close(tp);
    return ok;
}

/* The step of a captured function, which has been called before, with two sizes. */
typedef struct learner {
    tp_dense layer;
    tp_optimizer *sgd;
    tp_tensor *steps; /* counted by ops on it alone */
} learner;

static void learn(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const learner *l = user;
    if (n_in != 2 || n_out != 2)
        return;
    tp_tensor *y = tp_dense_apply(&l->layer, in[0]);
    out[0] = tp_mean(tp_square(tp_sub(y, in[1])), TP_ALL, false);
    tp_optimizer_step(l->sgd, out[0]);
    tp_assign(l->steps, tp_add(l->steps, tp_scalar_like(l->steps, 1)));
    tp_random_stream(tp_ctx_of(y), 1);
    tp_uniform(tp_ctx_of(y), TP_F32, TP_DIMS(3), 0, 1); /* nothing reads it */
    tp_random_stream(tp_ctx_of(y), 0);
    tp_uniform(tp_ctx_of(y), TP_F32, TP_DIMS(3), 0, 1);
    tp_random_stream(tp_ctx_of(y), 1);
    out[1] =
        tp_add(tp_uniform(tp_ctx_of(y), TP_F32, TP_DIMS(2), 0, 1), tp_cast(l->steps, TP_F32));
    tp_random_stream(tp_ctx_of(y), 0);
}

static bool captured_step(try_fn f)
{
    tp_ctx *tp = tp_open(&(tp_options){.seed = 11});
    learner l = {.layer = tp_dense_new(tp_params_new(tp), "layer", 5, 3, NULL),
                 .steps =
                     tp_variable(tp_scalar(tp, TP_I64, 0), "position_1")}; /* as of a stream */
    tp_tensor *const params[] = {l.layer.w, l.layer.b, l.steps};
    l.sgd = tp_sgd_new(tp, 0.1, &(tp_sgd_options){.momentum = 0.9}, 2, params);
    tp_function *step = tp_function_new(tp, "learn", learn, &l,
                                        &(tp_function_options){.engine = TP_ENGINE_REFERENCE});
    tp_tensor *feeds[2 * STEPS];
    for (int i = 0; i < STEPS; i++) {
        feeds[2 * i] = tp_normal(tp, TP_F32, TP_DIMS(4 + i, 5), 0, 1);
        feeds[2 * i + 1] = tp_normal(tp, TP_F32, TP_DIMS(4 + i, 3), 0, 1);
        tp_tensor *out[2];
        tp_function_call(step, 2, feeds + 2 * i, 2, out);
    }
    const alone a = {
        .dir = ".",
        .name = "captured_step",
        .tp = tp,
        .f = step,
        .n_variables = 3,
        .variables = params,
        .n_in = 2,
        .in = (const char *const[]){"x",    "y"    },
        .n_out = 2,
        .out = (const char *const[]){"loss", "noise"},
        .n_sets = STEPS,
        .feeds = feeds,
        .memory = 1 << 20
    };
    const bool ok = f(&a);
    tp_optimizer_free(l.sgd);
    tp_close(tp);
    return ok;
}

/* Steps of L-BFGS from points that it has begun at before: its line searches go ways that are known. */
typedef struct fit {
    tp_tensor *w[2], *curvature;
    tp_lbfgs *l;
} fit;

static tp_tensor *bowl(void *user)
{
    const fit *f = user;
    tp_tensor *all = tp_mul(tp_square(tp_sub(f->w[0], f->w[1])), f->curvature);
    return tp_add(tp_sum(all, TP_ALL, false), tp_square(f->w[1]));
}

static void fit_from(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const fit *f = user;
    if (n_in != 1 || n_out != 2)
        return;
    tp_assign(f->w[0], tp_mul(in[0], 1));
    out[0] = tp_lbfgs_step(f->l, bowl, user);
    out[1] = tp_mul(f->w[0], 1);
}

static bool fits(try_fn f)
{
    tp_ctx *tp = tp_open(NULL);
    const double curvature[3] = {1, 4, 9};
    fit s = {
        .w = {tp_param(tp_full(tp, TP_F64, TP_DIMS(3), 1), "w"),
              tp_param(tp_scalar(tp, TP_F64, 1), "b")},
        .curvature = tp_tensor_new(tp, TP_F64, TP_DIMS(3), curvature)
    };
    s.l = tp_lbfgs_new(tp, &(tp_lbfgs_options){.turns = 2, .history = 2}, 2, s.w);
    tp_function *step =
        tp_function_new(tp, "fit", fit_from, &s,
                        &(tp_function_options){.engine = TP_ENGINE_REFERENCE, .pure = true});
    tp_tensor *feeds[STEPS], *variables[7] = {s.w[0], s.w[1]};
    for (int i = 0; i < STEPS; i++)
        feeds[i] = tp_full(tp, TP_F64, TP_DIMS(3), i + 1);
    for (int i = 0; i < 4 * STEPS; i++) {
        tp_tensor *out[2];
        tp_function_call(step, 1, &feeds[i % STEPS], 2, out);
    }
    for (int i = 0; i < 5; i++)
        variables[2 + i] = tp_lbfgs_state(s.l, i);
    const alone a = {
        .dir = ".",
        .name = "fits",
        .tp = tp,
        .f = step,
        .n_variables = 7,
        .variables = variables,
        .n_in = 1,
        .in = (const char *const[]){"from"},
        .n_out = 2,
        .out = (const char *const[]){ "loss",   "w"},
        .n_sets = STEPS,
        .feeds = feeds,
        .memory = 1 << 20
    };
    const bool ok = f(&a);
    tp_lbfgs_free(s.l);
    tp_close(tp);
    return ok;
}

/* As many turns as the values want, the path kept. */
static bool root_loop(try_fn f)
{
    tp_ctx *tp = tp_open(NULL);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *a0 = tp_placeholder(g, "number", TP_F64, TP_SCALAR);
    tp_tensor *z = a0, *path = NULL;
    tp_tensor *err = tp_abs(tp_sub(tp_mul(z, z), a0));
    tp_while (tp_gt(err, tp_scalar_like(err, 1e-9)), &z, &err) {
        z = tp_mul(tp_add(z, tp_div(a0, z)), tp_scalar_like(z, 0.5));
        err = tp_abs(tp_sub(tp_mul(z, z), a0));
        tp_emit(&path, z);
    }
    tp_name(z, "root");
    tp_name(path, "path");
    tp_tensor *feeds[] = {tp_scalar(tp, TP_F64, 2), tp_scalar(tp, TP_F64, 1e6),
                          tp_scalar(tp, TP_F64, 1)};
    const alone a = {
        .dir = ".",
        .name = "root_loop",
        .tp = tp,
        .g = g,
        .n_in = 1,
        .in = (const char *const[]){"number"},
        .n_out = 2,
        .out = (const char *const[]){ "root",  "path"},
        .n_sets = 3,
        .feeds = feeds,
        .memory = 1 << 20
    };
    const bool ok = f(&a);
    tp_close(tp);
    return ok;
}

/* Functions whose last bits tell a fused multiply-add and a square root that are not exact. */
static bool functions(try_fn f)
{
    tp_ctx *tp = tp_open(&(tp_options){.seed = 3});
    tp_graph *g = tp_graph_new(tp);
    const char *out[32];
    int n = 0;
    for (int wide = 0; wide < 2; wide++) {
        tp_tensor *x = tp_placeholder(g, wide ? "wide" : "x", wide ? TP_F64 : TP_F32,
                                      TP_DIMS(tp_symbol(g, "n"), 16));
        tp_tensor *y[] = {
            tp_exp(x),           tp_log(tp_abs(x)),    tp_exp2(x),
            tp_log2(tp_abs(x)),  tp_log10(tp_abs(x)),  tp_expm1(x),
            tp_log1p(tp_abs(x)), tp_tanh(x),           tp_sin(x),
            tp_erf(x),           tp_erfinv(tp_sin(x)), tp_sqrt(tp_abs(x)),
            tp_gelu(x),          tp_pow(tp_abs(x), x), tp_matmul(x, tp_swap(x, 0, 1)),
            tp_softmax(x, -1)};
        for (size_t i = 0; i < sizeof y / sizeof *y; i++) {
            char *name = tp_alloc(tp, 16);
            snprintf(name, 16, "y%d", n);
            tp_name(y[i], name);
            out[n++] = name;
        }
    }
    tp_tensor *feeds[] = {tp_normal(tp, TP_F32, TP_DIMS(9, 16), 0, 3),
                          tp_normal(tp, TP_F64, TP_DIMS(9, 16), 0, 3)};
    const alone a = {
        .dir = ".",
        .name = "functions",
        .tp = tp,
        .g = g,
        .n_in = 2,
        .in = (const char *const[]){"x", "wide"},
        .n_out = n,
        .out = out,
        .n_sets = 1,
        .feeds = feeds,
        .memory = 1 << 20
    };
    const bool ok = f(&a);
    tp_close(tp);
    return ok;
}

/* ---- how it is tried ------------------------------------------------------------------------------- */

static bool on_hosts(const alone *a)
{
    bool ok = alone_write(a);
    for (const alone_target *t = alone_hosts; t->name; t++)
        ok = (!alone_has(t) || alone_try(a->dir, a->name, t)) && ok;
    return ok;
}

static bool on_aarch64(const alone *a)
{
    return alone_write(a) && alone_try(a->dir, a->name, &alone_aarch64);
}

static bool on_cortex(const alone *a)
{
    return alone_write(a) && alone_try(a->dir, a->name, &alone_cortex_m3) &&
           alone_try(a->dir, a->name, &alone_cortex_m4);
}

static bool on_m4(const alone *a)
{
    return alone_write(a) && alone_try(a->dir, a->name, &alone_cortex_m4);
}

/* With nothing beside it there may be three names that are not its own; small machines have the
 * compiler's helpers too, all of which begin alike. The first compilers are those that add most of their own. */
static bool by_compilers(const alone *a, size_t n)
{
    static const char *const compilers[] = {"gcc -O3 -march=native",
                                            "clang -O3",
                                            "arm-none-eabi-gcc -mcpu=cortex-m3 -mthumb -O2",
                                            "gcc -O0",
                                            "clang -O0",
                                            "aarch64-linux-gnu-gcc -O2"};
    bool ok = alone_write(a);
    for (size_t i = 0; i < sizeof compilers / sizeof *compilers && i < n; i++) {
        char text[1000];
        const alone_target t = {compilers[i], compilers[i], "", ""};
        if (!alone_has(&t))
            continue;
        snprintf(
            text, sizeof text,
            "%s -std=c11 -ffreestanding -nostdlib -c %s.c -o %s.free.o && nm -u %s.free.o | "
            "awk '{print $NF}' | grep -vxE 'mem(cpy|set|move)|__aeabi_[a-z0-9_]*' ; "
            "test $? = 1",
            compilers[i], a->name, a->name, a->name);
        if (system(text) != 0) {
            printf("FAILED %s needs more than that, by %s\n", a->name, compilers[i]);
            ok = false;
        }
    }
    return ok;
}

static bool on_nothing(const alone *a)
{
    return by_compilers(a, 3);
}

static bool on_nothing_by_all(const alone *a)
{
    return by_compilers(a, SIZE_MAX);
}

/* ---- failing ----------------------------------------------------------------------------------------- */

static const char failing_main[] =
    "#include \"failing.h\"\n#include <stdio.h>\n#include <string.h>\n\n"
    "static char memory[1 << 20];\nstatic float table[8], picked[8], path[64], sum[4];\n"
    "static uint8_t done;\n"
    "static failing_state state, before;\n\n"
    "static void try(int64_t n, int64_t bytes, int64_t index, float end, int64_t most)\n{\n"
    "    failing_fault fault = {-7, -7};\n"
    "    const failing_sizes sizes = {.n = n, .most_turns = most};\n"
    "    const int64_t at[2] = {0, index};\n"
    "    const failing_inputs in = {.table = table, .index = at, .end = &end};\n"
    "    failing_outputs out = {.picked = picked, .path = path, .sum = sum, .done = &done};\n"
    "    int code = failing_prepare(&sizes, memory, bytes, &fault);\n"
    "    if (!code)\n        code = failing_run(memory, &state, &in, &out, &fault);\n"
    "    printf(\"%d %s%s\\n\", code, fault.op == -7 ? \"none\" : fault.op < 0 ? \"no op\" : "
    "\"op\",\n"
    "           memcmp(&state, &before, sizeof state) ? \", state changed\" : \"\");\n"
    "    if (code == failing_e_index)\n        printf(\"position %d\\n\", "
    "(int)fault.position);\n"
    "}\n\n"
    "int main(void)\n{\n    failing_fault fault;\n"
    "    failing_outputs out = {.picked = picked, .path = path, .sum = sum, .done = &done};\n"
    "    const failing_inputs in = {.table = table};\n"
    "    failing_init(&state);\n    before = state;\n"
    "    printf(\"%d\\n\", failing_run(memory, &state, &in, &out, &fault));\n"
    "    try(1, sizeof memory, 0, 3, 4);\n"
    "    try(-1, sizeof memory, 0, 3, 4);\n"
    "    try((int64_t)1 << 50, sizeof memory, 0, 3, 4);\n"
    "    try(4, 100, 0, 3, 4);\n"
    "    try(4, sizeof memory, 4, 3, 4);\n"
    "    try(4, sizeof memory, -5, 3, 4);\n"
    "    try(4, sizeof memory, 3, 30, 4);\n"
    "    try(4, sizeof memory, 3, 3, 4);\n"
    "    return 0;\n}\n";

/* not prepared; a slice that is too small, sizes that are none or too large (2); too little memory;
 * indices; turns; and at last a run that is good */
static const char failing_expected[] = "3\n1 op\n1 no op\n1 no op\n2 no op\n"
                                       "4 op\nposition 1\n4 op\nposition 1\n5 op\n"
                                       "0 none, state changed\n";

static bool write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    const bool ok = f && fputs(text, f) >= 0;
    return f && fclose(f) == 0 && ok;
}

/* A slice, an index, a loop, and an assignment that a run that fails has not done. */
static bool failing(void)
{
    tp_ctx *tp = tp_open(NULL);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *table = tp_placeholder(g, "table", TP_F32, TP_DIMS(tp_symbol(g, "n")));
    tp_tensor *index = tp_placeholder(g, "index", TP_I64, TP_DIMS(2));
    tp_tensor *end = tp_placeholder(g, "end", TP_F32, TP_SCALAR);
    tp_tensor *count = tp_variable(tp_full(tp, TP_F32, TP_DIMS(2), 0), "count");
    tp_tensor *i = tp_scalar_like(end, 0), *path = NULL;
    tp_while (tp_lt(i, end), &i) {
        i = tp_add(i, tp_scalar_like(i, 1));
        tp_emit(&path, i);
    }
    tp_name(path, "path");
    tp_tensor *picked = tp_name(tp_gather(table, index, 0), "picked");
    tp_assign(count, tp_add(tp_add(count, picked), tp_scalar_like(picked, 1)));
    tp_name(tp_add(tp_slice(table, 0, 2, TP_END, 1), tp_scalar_like(table, 0)), "sum");
    tp_name(tp_group(1, (tp_tensor *[]){tp_graph_read(g, count)}), "done");
    const char *const in[] = {"table", "index", "end"}, *const out[] = {"picked", "path", "sum",
                                                                        "done"};
    bool ok = tp_graph_save_c(g, "failing.c", 3, in, 4, out, NULL) == TP_OK &&
              write_text("failing_main.c", failing_main) &&
              write_text("failing.expected", failing_expected);
    if (!ok)
        printf("FAILED failing: %s\n", tp_error_message(tp));
    for (const alone_target *t = alone_hosts; t->name && ok; t++)
        ok = !alone_has(t) || alone_try(".", "failing", t);
    tp_close(tp);
    return ok;
}

int main(int argc, char **argv)
{
    const char *where = argc > 1 ? argv[1] : "host";
    const bool cortex = strcmp(where, "cortex") == 0, free = strncmp(where, "free", 4) == 0,
               aarch64 = strcmp(where, "aarch64") == 0;
    const bool learn = strncmp(where, "learn", 5) == 0;
    const try_fn f = cortex     ? on_cortex
                     : aarch64  ? on_aarch64
                     : !free    ? on_hosts
                     : where[4] ? on_nothing_by_all
                                : on_nothing;
    if (((cortex || learn) && !(alone_has(&alone_cortex_m3) && alone_has(&alone_cortex_m4))) ||
        (aarch64 && !alone_has(&alone_aarch64))) {
        printf("skipped: no compiler for %s, or nothing that runs it\n", where);
        return 77;
    }
    if (learn)
        return !(where[5] ? learning(on_cortex, MANY_STEPS) : learning(on_m4, FEW_STEPS));
    bool ok = lenet_step(f);
    ok = captured_step(f) && ok;
    ok = scaled_step(f) && ok;
    ok = fits(f) && ok;
    ok = root_loop(f) && ok;
    ok = functions(f) && ok;
    ok = (cortex || tiled_convs(f)) && ok;
    if (!cortex && !aarch64 && !free)
        ok = failing() && ok;
    return !ok;
}
