/* The table of a model's layers. */
#include "common/unit.h"
#include "tapir/tapir.h"

static tp_tensor *zeros(tp_ctx *tp, int rank, const int64_t *shape)
{
    return tp_full(tp, TP_F32, rank, shape, 0);
}

static void expect(tp_ctx *tp, const tp_params *p, tp_tensor *y, const char *text)
{
    char *got = tp_summary(p, y);
    assert_non_null(got);
    assert_string_equal(got, text);
    tp_free(tp, got);
}

/* A line of the table has it. */
static void expect_line(tp_ctx *tp, const tp_params *p, tp_tensor *y, const char *line)
{
    char *got = tp_summary(p, y);
    assert_non_null(got);
    if (!strstr(got, line))
        fail_msg("no \"%s\" in\n%s", line, got);
    tp_free(tp, got);
}

typedef struct mlp {
    tp_dense in, out;
} mlp;

static mlp mlp_new(tp_params *p)
{
    return (mlp){tp_dense_new(p, "in", 784, 128, NULL), tp_dense_new(p, "out", 128, 10, NULL)};
}

static tp_tensor *mlp_apply(const mlp *m, tp_tensor *x)
{
    return tp_dense_apply(&m->out, tp_relu(tp_dense_apply(&m->in, x)));
}

static void perceptron(void **state)
{
    tp_ctx *tp = *state;
    tp_params *p = tp_params_new(tp);
    const mlp m = mlp_new(p);
    expect(tp, p, mlp_apply(&m, zeros(tp, TP_DIMS(32, 784))),
           "layer  kind   result       params   flops    bytes\n"
           "in     dense  f32[32,128]  100480  6.43 M  32.8 kB\n"
           "       relu   f32[32,128]          4.10 k  16.4 kB\n"
           "out    dense  f32[32,10]     1290  82.2 k  2.56 kB\n"
           "all                        101770  6.51 M  51.7 kB\n"
           "parameters: 101770 trained, 0 frozen, 0 of state; 407 kB\n");
}

/* Layers of two trees with one name are one row, with the parameters of both. */
static void two_trees(void **state)
{
    tp_ctx *tp = *state;
    tp_params *p[2] = {tp_params_new(tp), tp_params_new(tp)};
    tp_tensor *y = zeros(tp, TP_DIMS(2, 8));
    for (int i = 0; i < 2; i++) {
        const tp_dense l = tp_dense_new(p[i], "same", 8, 8, NULL);
        y = tp_dense_apply(&l, y);
    }
    expect(tp, p[0], y,
           "layer  kind   result    params  flops  bytes\n"
           "same   dense  f32[2,8]     144    544  256 B\n"
           "all                        144    544  256 B\n"
           "parameters: 144 trained, 0 frozen, 0 of state; 576 B\n");
}

/* Sizes that are symbols. */
static void of_a_graph(void **state)
{
    tp_ctx *tp = *state;
    tp_params *p = tp_params_new(tp);
    const mlp m = mlp_new(p);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"), 784));
    expect(tp, NULL, mlp_apply(&m, x),
           "layer  kind   result      params   flops    bytes\n"
           "in     dense  f32[n,128]  100480   201 k  1.02 kB\n"
           "       relu   f32[n,128]             128    512 B\n"
           "out    dense  f32[n,10]     1290  2.57 k     80 B\n"
           "all                       101770   204 k  1.62 kB\n"
           "parameters: 101770 trained, 0 frozen, 0 of state; 407 kB\n"
           "counted as 1: n\n");
}

static void convolutions(void **state)
{
    tp_ctx *tp = *state;
    tp_params *p = tp_params_new(tp);
    const tp_conv_layer conv = tp_conv_layer_new(p, "conv", 1, 6, TP_SQUARE(5, 1, 2), NULL);
    const tp_norm_layer norm = tp_batch_norm_new(p, "norm", 6, 0, 0);
    const tp_dense out = tp_dense_new(p, "out", 6 * 14 * 14, 10, NULL);
    tp_dense_new(p, "old.out", 84, 10, NULL);
    const tp_pool_layer halve = {
        .kind = TP_POOL_MAX, .window = {.kernel = {2, 2}, .stride = {2, 2}}
    };
    tp_params_freeze(tp_params_part(p, "conv"), true);
    tp_training(tp, true);
    tp_tensor *h = tp_conv_layer_apply(&conv, zeros(tp, TP_DIMS(8, 1, 28, 28)));
    h = tp_norm_layer_apply(&norm, h);
    h = tp_relu(h);
    h = tp_pool_layer_apply(&halve, h);
    h = tp_flatten(h, 1);
    expect(tp, p, tp_dense_apply(&out, h),
           "layer    kind      result          params   flops    bytes\n"
           "conv     conv      f32[8,6,28,28]     156  1.92 M   301 kB\n"
           "norm     norm      f32[8,6,28,28]      24   263 k   753 kB\n"
           "         relu      f32[8,6,28,28]          37.6 k   151 kB\n"
           "         max_pool  f32[8,6,14,14]                  37.6 kB\n"
           "out      dense     f32[8,10]        11770   188 k    640 B\n"
           "old.out  not read                     850                 \n"
           "all                                 12800  2.41 M  1.24 MB\n"
           "parameters: 12632 trained, 156 frozen, 12 of state; 51.2 kB\n");
}

static void transformer(void **state)
{
    tp_ctx *tp = *state;
    tp_params *p = tp_params_new(tp);
    const tp_embedding words = tp_embedding_new(p, "words", 1000, 64, -1);
    const tp_transformer_block block =
        tp_transformer_block_new(p, "block", 64, 4, &(tp_transformer_options){.causal = true});
    tp_tensor *h = tp_embedding_apply(&words, tp_full(tp, TP_I64, TP_DIMS(2, 16), 0));
    h = tp_transformer_block_apply(&block, h, NULL, NULL);
    h = tp_matmul(h, tp_transpose(words.table, TP_DIMS(1, 0)));
    expect(tp, p, h,
           "layer           kind                  result          params   flops    bytes\n"
           "words           embedding             f32[2,16,64]     64000          8.19 kB\n"
           "block.norm1     norm                  f32[2,16,64]       128  16.4 k  49.7 kB\n"
           "block.attn.q    dense                 f32[2,16,64]      4160   264 k  16.4 kB\n"
           "block.attn.k    dense                 f32[2,16,64]      4160   264 k  16.4 kB\n"
           "block.attn.v    dense                 f32[2,16,64]      4160   264 k  16.4 kB\n"
           "block.attn      mul, matmul, add ...  f32[2,4,16,16]           143 k  58.4 kB\n"
           "block.attn.out  dense                 f32[2,16,64]      4160   264 k  16.4 kB\n"
           "block           add                   f32[2,16,64]            2.05 k  8.19 kB\n"
           "block.norm2     norm                  f32[2,16,64]       128  16.4 k  49.7 kB\n"
           "block.up        dense                 f32[2,16,256]    16640  1.06 M  65.5 kB\n"
           "block           mul, erf, add         f32[2,16,256]           41.0 k   164 kB\n"
           "block.down      dense                 f32[2,16,64]     16448  1.05 M  16.4 kB\n"
           "                add                   f32[2,16,64]            2.05 k  8.19 kB\n"
           "words           dense                 f32[32,1000]            4.10 M   128 kB\n"
           "all                                                   113984  7.48 M   622 kB\n"
           "parameters: 113984 trained, 0 frozen, 0 of state; 456 kB\n");
}

/* What is applied in one way is one row, and its parameters count once. */
static void repeated(void **state)
{
    tp_ctx *tp = *state;
    tp_params *p = tp_params_new(tp);
    const tp_dense cell = tp_dense_new(p, "cell", 8, 8, NULL),
                   out = tp_dense_new(p, "a.very.long.name.of.a.layer.that.is.the.last", 8, 2,
                                      NULL);
    tp_tensor *x = zeros(tp, TP_DIMS(4, 8));
    for (int i = 0; i < 100; i++)
        x = tp_tanh(tp_dense_apply(&cell, x));
    expect(tp, p, tp_dense_apply(&out, x),
           "layer                             kind         result    params   flops    bytes\n"
           "cell                              100 x dense  f32[4,8]      72  54.4 k  25.6 kB\n"
           "cell                              99 x tanh    f32[4,8]          3.17 k  12.7 kB\n"
           "                                  tanh         f32[4,8]              32    128 B\n"
           "...e.of.a.layer.that.is.the.last  dense        f32[4,2]      18     136     64 B\n"
           "all                                                          90  57.7 k  38.5 kB\n"
           "parameters: 90 trained, 0 frozen, 0 of state; 360 B\n");
    tp_tensor *w = tp_params_find(p, "cell.w"), *y = x;
    for (int i = 0; i < 80; i++) /* nothing is gone through twice */
        w = tp_add(w, w);
    for (int i = 0; i < 80; i++)
        y = tp_add(y, y);
    expect_line(tp, p, tp_add(tp_matmul(x, w), y), "parameters: 90 trained");
}

static void sequences(void **state)
{
    tp_ctx *tp = *state;
    tp_params *p = tp_params_new(tp);
    const tp_recurrent_layer lstm = tp_lstm_new(p, "lstm", 16, 32, NULL);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(20, 8, 16));
    expect(tp, p, tp_recurrent_layer_apply(&lstm, x, NULL, NULL, NULL),
           "layer   kind               result        params   flops   bytes\n"
           "lstm.0  matmul, add, loop  f32[20,8,32]    6400  2.05 M  164 kB\n"
           "all                                        6400  2.05 M  164 kB\n"
           "parameters: 6400 trained, 0 frozen, 0 of state; 25.6 kB\n");
}

static void refused(void **state)
{
    tp_ctx *tp = *state, *other = tp_open(NULL);
    tp_params *p = tp_params_new(tp), *foreign = tp_params_new(other);
    const mlp m = mlp_new(p);
    tp_tensor *x = zeros(tp, TP_DIMS(2, 784)), *y = mlp_apply(&m, x);
    assert_null(tp_summary(foreign, y));
    EXPECT_ERROR(tp, TP_E_CTX, "tp_summary: the tree is of another context");
    assert_null(tp_summary(p, x));
    EXPECT_ERROR(tp, TP_E_STATE,
                 "tp_summary: it was not recorded by which ops the tensor was computed: "
                 "recording is off, or no parameter is among what it was computed from");
    tp_params_free(foreign);
    tp_close(other);
}

/* Every allocation fails in turn. */
static void survives_no_memory(void **state)
{
    (void)state;
    bool done = false;
    for (long fail_at = 1; !done; fail_at++) {
        unit_memory memory = {0};
        tp_ctx *tp = unit_open(&memory);
        tp_params *p = tp_params_new(tp);
        const mlp m = mlp_new(p);
        tp_tensor *y = mlp_apply(&m, zeros(tp, TP_DIMS(2, 784)));
        memory.fail_at = memory.calls + fail_at;
        char *text = tp_summary(p, y);
        memory.fail_at = 0;
        done = text;
        assert_int_equal(tp_error(tp), done ? TP_OK : TP_E_MEMORY);
        tp_clear_error(tp);
        tp_free(tp, text);
        expect_line(tp, p, y, "in     dense");
        tp_params_free(p);
        tp_close(tp);
        assert_int_equal(memory.bytes, 0);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(perceptron),   CASE(two_trees),   CASE(of_a_graph),
        CASE(convolutions), CASE(transformer), CASE(repeated),
        CASE(sequences),    CASE(refused),     CASE(survives_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
