/* What a program says of itself: its graph after some passes, its kernels and memory, its work. */
#include "common/unit.h"
#include <tapir/tapir.h>

/* y = softmax(x w + 0), where x has `rows` rows. */
static tp_graph *sample(tp_ctx *tp, int64_t rows)
{
    tp_graph *g = tp_graph_new(tp);
    if (rows < 0)
        rows = tp_symbol(g, "rows");
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(rows, 4));
    tp_tensor *w = tp_param(tp_full(tp, TP_F32, TP_DIMS(4, 3), 0.5), "w");
    tp_tensor *zero = tp_add(tp_scalar(tp, TP_F32, 1), tp_scalar(tp, TP_F32, -1));
    tp_name(tp_softmax(tp_add(tp_matmul(x, w), tp_mul(zero, tp_scalar_like(x, 1))), 1), "y");
    return g;
}

static tp_program *compile(tp_graph *g, const char *stop_after)
{
    const char *const feeds[] = {"x"}, *const fetches[] = {"y"};
    /* kernel by kernel: what bands do to memory is graph_bands.c's */
    const tp_compile_options opt = {
        .engine = TP_ENGINE_TILES, .stop_after = stop_after, .skip_passes = "bands"};
    return tp_graph_compile(g, 1, feeds, 1, fetches, &opt);
}

static int lines_with(tp_ctx *tp, char *text, const char *word)
{
    int n = 0;
    assert_non_null(text);
    for (const char *p = text; (p = strstr(p, word)) != NULL; p += strlen(word))
        n++;
    tp_free(tp, text);
    return n;
}

static void stops_after_a_pass(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = sample(tp, 5);
    tp_program *whole = compile(g, NULL), *none = compile(g, "prune"),
               *fold = compile(g, "fold");
    assert_non_null(none);
    /* 0 * 1 is there until it is folded */
    assert_int_equal(lines_with(tp, tp_graph_text(tp_program_graph(none)), " = mul "),
                     lines_with(tp, tp_graph_text(tp_program_graph(fold)), " = mul ") + 1);
    assert_true(tp_program_stats_of(fold).nodes < tp_program_stats_of(none).nodes);
    assert_true(tp_program_stats_of(whole).nodes <= tp_program_stats_of(fold).nodes);

    float values[20], y[3][15];
    for (int i = 0; i < 20; i++)
        values[i] = (float)(i % 7) - 2.5F;
    tp_tensor *x = tp_tensor_new(tp, TP_F32, TP_DIMS(5, 4), values);
    tp_program *const all[] = {whole, none, fold};
    for (int i = 0; i < 3; i++) {
        tp_tensor *out[1];
        assert_int_equal(tp_program_run(all[i], &x, out), TP_OK);
        tp_read(out[0], y[i], sizeof y[i]);
    }
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_memory_equal(y[0], y[2], sizeof y[0]);
}

/* h is read again behind another product: there it is computed once more. */
static void makes_cheap_values_again(void **state)
{
    static const char *const feeds[] = {"x"}, *const fetches[] = {"y"};
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(2, 2));
    tp_tensor *h = tp_add(tp_matmul(x, x), tp_scalar_like(x, 1));
    tp_name(tp_mul(tp_matmul(tp_tanh(h), x), h), "y");
    const float values[4] = {0.5F, -1, 0.25F, 2};
    tp_tensor *in = tp_tensor_new(tp, TP_F32, TP_DIMS(2, 2), values), *out[1];
    float y[2][4];
    for (int i = 0; i < 2; i++) {
        const tp_compile_options opt = {.engine = TP_ENGINE_TILES,
                                        .skip_passes = i ? "remake" : NULL};
        tp_program *p = tp_graph_compile(g, 1, feeds, 1, fetches, &opt);
        assert_non_null(p);
        assert_int_equal(lines_with(tp, tp_graph_text(tp_program_graph(p)), " = add "), 2 - i);
        assert_int_equal(tp_program_run(p, &in, out), TP_OK);
        tp_read(out[0], y[i], sizeof y[i]);
    }
    assert_memory_equal(y[0], y[1], sizeof y[0]);
}

/* Parts with zeros around them, one of which is -0, are joined; without algebra they are padded and added. */
static void joins_padded_parts(void **state)
{
    static const char *const feeds[] = {"x", "k"}, *const fetches[] = {"y"};
    static const int64_t sizes[] = {1, 3, 2};
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(2, 6)), *part[3];
    tp_tensor *k = tp_placeholder(g, "k", TP_F32, TP_DIMS(2, 2));
    tp_split(x, 1, 3, sizes, part);
    tp_tensor *rest = tp_pad(tp_exp(part[0]), 2, (int64_t[]){0, 0}, (int64_t[]){0, 5}, 0);
    tp_tensor *squares =
        tp_pad(tp_mul(part[1], part[1]), 2, (int64_t[]){0, 1}, (int64_t[]){0, 2}, 0);
    tp_tensor *zeros = tp_pad(tp_mul(part[2], k), 2, (int64_t[]){0, 4}, (int64_t[]){0, 0}, 0);
    tp_name(tp_add(tp_add(zeros, squares), rest), "y");
    const float values[12] = {0.5F, -1, 0.25F, 2, 1, -2, 0, 0.5F, -0.0F, 3, -1, 4};
    static const float minus[4] = {-0.0F, -0.0F, 1, -0.0F};
    tp_tensor *in[] = {tp_tensor_new(tp, TP_F32, TP_DIMS(2, 6), values),
                       tp_tensor_new(tp, TP_F32, TP_DIMS(2, 2), minus)},
              *out[1];
    float y[2][12];
    for (int i = 0; i < 2; i++) {
        const tp_compile_options opt = {.engine = TP_ENGINE_TILES,
                                        .skip_passes = i ? "algebra" : NULL};
        tp_program *p = tp_graph_compile(g, 2, feeds, 1, fetches, &opt);
        assert_non_null(p);
        assert_int_equal(lines_with(tp, tp_graph_text(tp_program_graph(p)), " = pad "), 3 * i);
        assert_int_equal(lines_with(tp, tp_graph_text(tp_program_graph(p)), " = concat "),
                         1 - i);
        assert_int_equal(tp_program_run(p, in, out), TP_OK);
        tp_read(out[0], y[i], sizeof y[i]);
    }
    assert_memory_equal(y[0], y[1], sizeof y[0]);
}

/* z = tanh(z w' + exp(w) summed up): the turned matrix and the sum are made before the loop. */
static void moves_out_of_loops(void **state)
{
    static const char *const feeds[] = {"z", "w"}, *const fetches[] = {"y"};
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *z = tp_placeholder(g, "z", TP_F32, TP_DIMS(2, 3));
    tp_tensor *w = tp_placeholder(g, "w", TP_F32, TP_DIMS(3, 3));
    tp_for (4, &z) {
        tp_tensor *sum = tp_sum(tp_exp(w), TP_ALL, false);
        z = tp_tanh(tp_add(tp_matmul(z, tp_swap(w, 0, 1)), sum));
    }
    tp_name(z, "y");
    float values[9], y[2][6];
    for (int i = 0; i < 9; i++)
        values[i] = (float)i / 8 - 0.5F;
    tp_tensor *in[] = {tp_tensor_new(tp, TP_F32, TP_DIMS(2, 3), values),
                       tp_tensor_new(tp, TP_F32, TP_DIMS(3, 3), values)},
              *out[1];
    for (int i = 0; i < 2; i++) {
        const tp_compile_options opt = {.engine = TP_ENGINE_TILES,
                                        .skip_passes = i ? "hoist" : NULL};
        tp_program *p = tp_graph_compile(g, 2, feeds, 1, fetches, &opt);
        assert_non_null(p);
        char *text = tp_graph_text(tp_program_graph(p));
        assert_non_null(text);
        const char *loop = strstr(text, " = loop ");
        assert_int_equal(strstr(text, " = transpose ") < loop, i == 0);
        assert_int_equal(strstr(text, " = sum ") < loop, i == 0);
        tp_free(tp, text);
        assert_int_equal(tp_program_run(p, in, out), TP_OK);
        tp_read(out[0], y[i], sizeof y[i]);
    }
    assert_memory_equal(y[0], y[1], sizeof y[0]);
}

static void counts_work(void **state)
{
    tp_ctx *tp = *state;
    tp_program *p = compile(sample(tp, -1), NULL);
    assert_true(tp_program_stats_of(p).flops == 0);
    for (int rows = 3; rows <= 5; rows += 2) {
        tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(rows, 4), 1), *out[1];
        assert_int_equal(tp_program_run(p, &x, out), TP_OK);
        assert_true(tp_program_stats_of(p).flops == 2.0 * rows * 4 * 3);
    }

    /* groups, stride and padding: 2 * y's elements * taps of a filter */
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(2, 4, 9, 9));
    tp_tensor *w = tp_full(tp, TP_F32, TP_DIMS(6, 2, 3, 3), 1);
    const tp_window window = {
        .stride = {2, 2},
          .pad_lo = {1, 1},
          .pad_hi = {1, 1},
          .groups = 2
    };
    tp_name(tp_conv(x, w, &window), "y");
    tp_tensor *in = tp_full(tp, TP_F32, TP_DIMS(2, 4, 9, 9), 1), *out[1];
    p = compile(g, NULL);
    assert_int_equal(tp_program_run(p, &in, out), TP_OK);
    assert_true(tp_program_stats_of(p).flops == 2.0 * (2 * 6 * 5 * 5) * (2 * 3 * 3));
}

static void names_kernels_and_buffers(void **state)
{
    tp_ctx *tp = *state;
    tp_program *p = compile(sample(tp, 5), NULL);
    assert_int_equal(lines_with(tp, tp_program_text(p), " = call {"), 1);
    assert_int_equal(lines_with(tp, tp_program_text(p), " = loop over [5,3!] {"), 1);
    assert_int_equal(lines_with(tp, tp_program_text(p), " = fed \"x\" : f32[5,4]\n"), 1);
    assert_int_equal(lines_with(tp, tp_program_text(p), " = variable \"w\" : f32[4,3]\n"), 1);
    assert_int_equal(lines_with(tp, tp_program_text(p), " \"y\" : f32[5,3]\n"), 1);
    assert_int_equal(lines_with(tp, tp_program_text(p), " 60 bytes at 0 : f32[5,3]\n"), 1);
    assert_int_equal(lines_with(tp, tp_program_text(p), "\narena 64 bytes\n"), 1);

    const char *const feeds[] = {"x"}, *const fetches[] = {"y"}; /* a constant keeps its name */
    const tp_compile_options frozen = {.engine = TP_ENGINE_REFERENCE, .freeze = true};
    p = tp_graph_compile(sample(tp, 5), 1, feeds, 1, fetches, &frozen);
    assert_int_equal(lines_with(tp, tp_program_text(p), " = constant \"w\" : f32[4,3]\n"), 1);

    p = compile(sample(tp, -1), NULL); /* sizes are not known before a run */
    assert_int_equal(lines_with(tp, tp_program_text(p), "bytes"), 0);
    tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(5, 4), 1), *out[1];
    assert_int_equal(tp_program_run(p, &x, out), TP_OK);
    assert_int_equal(lines_with(tp, tp_program_text(p), "\narena 64 bytes\n"), 1);
}

/* h = x w, y = tanh(h w2) w3: at each product what it reads and what it writes is in use. */
static void tells_of_memory(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"), 16));
    tp_tensor *h = tp_matmul(x, tp_full(tp, TP_F32, TP_DIMS(16, 32), 1));
    tp_name(h, "h");
    h = tp_tanh(tp_matmul(h, tp_full(tp, TP_F32, TP_DIMS(32, 48), 1)));
    tp_name(tp_matmul(h, tp_full(tp, TP_F32, TP_DIMS(48, 2), 1)), "y");
    tp_program *p = compile(g, NULL);
    assert_int_equal(lines_with(tp, tp_program_memory_text(p),
                                " 128*n 192*n  ##..      %4 \"h\" : f32[n,32]\n"),
                     1);
    assert_int_equal(lines_with(tp, tp_program_memory_text(p), " 192*n     0  .##.  "), 1);
    assert_int_equal(lines_with(tp, tp_program_memory_text(p), "\narena = 384*n bytes\n"), 1);
    for (int64_t n = 1; n < 9; n += 3) {
        char line[60];
        tp_tensor *in = tp_full(tp, TP_F32, TP_DIMS(n, 16), 1), *out[1];
        assert_int_equal(tp_program_run(p, &in, out), TP_OK);
        snprintf(line, sizeof line, "\narena %d bytes, all in use at k2\n", (int)(384 * n));
        assert_int_equal(lines_with(tp, tp_program_memory_text(p), line), 1);
    }
}

/* What is in bodies is told with the numbers of the graph's text, and counted once per turn. */
static void names_bodies(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(4, 4));
    tp_tensor *p = tp_placeholder(g, "p", TP_BOOL, 0, NULL);
    tp_for (3, &x) {
        tp_if (p, &x) {
            x = tp_matmul(x, x);
        }
        tp_else
        {
            x = tp_neg(tp_tanh(x));
        }
    }
    tp_name(x, "y");
    const char *const feeds[] = {"x", "p"}, *const fetches[] = {"y"};
    tp_program *program = tp_graph_compile(g, 2, feeds, 1, fetches, NULL);
    if (!program)
        fail_msg("%s", tp_error_message(tp));
    char *text = tp_graph_text(tp_program_graph(program));
    assert_non_null(strstr(text, "%2.1 = matmul"));
    tp_free(tp, text);
    assert_int_equal(lines_with(tp, tp_program_text(program), "\nbody (1) of k"), 1);
    assert_int_equal(lines_with(tp, tp_program_text(program), "\n  body (2) of k"), 1);
    assert_int_equal(lines_with(tp, tp_program_text(program), " {%2.1 matmul} "), 1);
    assert_int_equal(lines_with(tp, tp_program_text(program), " {%3.1 tanh, %3.2 neg} "), 1);
    tp_tensor *in[] = {tp_full(tp, TP_F32, TP_DIMS(4, 4), 1), tp_scalar(tp, TP_BOOL, 1)}, *y;
    assert_int_equal(tp_program_run(program, in, &y), TP_OK);
    assert_true(tp_program_stats_of(program).flops == 3 * 2 * 4 * 4 * 4);
    tp_program_free(program);
}

static void measures_kernels(void **state)
{
    tp_ctx *tp = *state;
    const char *const feeds[] = {"x"}, *const fetches[] = {"y"};
    tp_graph *g = sample(tp, -1);
    tp_program *p =
        tp_graph_compile(g, 1, feeds, 1, fetches, &(tp_compile_options){.engine = TP_ENGINE_C});
    tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(300, 4), 0.25), *out[1];
    assert_int_equal(tp_program_run(p, &x, out), TP_OK);
    assert_null(tp_program_profile_text(p)); /* it was off */
    assert_non_null(strstr(tp_error_message(tp), "tp_program_profile(p, true)"));
    tp_clear_error(tp);
    assert_int_equal(tp_program_profile(p, true), TP_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(tp_program_run(p, &x, out), TP_OK);
    const int kernels = tp_program_stats_of(p).kernels;
    char *text = tp_program_profile_text(p);
    assert_non_null(strstr(text, "  3 runs\n"));
    assert_non_null(strstr(text, "graph_inspect.c:"));
    assert_non_null(strstr(text, "matmul"));
    assert_int_equal(lines_with(tp, text, "\n"), kernels + 3); /* head, sum, limits */
    assert_int_equal(lines_with(tp, tp_program_profile_trace(p), "\"ph\": \"X\""), kernels);
    /* a product of 300 x 4 and 4 x 3: 7,200 operations, and 4,800 + 48 + 3,600 bytes */
    assert_int_equal(
        lines_with(tp, tp_program_profile_trace(p), "\"bytes\": 8448, \"flops\": 7200,"), 1);
    assert_int_equal(tp_program_profile(p, false), TP_OK);
    assert_int_equal(tp_program_run(p, &x, out), TP_OK);
    assert_null(tp_program_profile_trace(p));
}

/* The trace of one run of `y` for x of 4 rows of 16, whose kernel is one. */
static void moves(tp_ctx *tp, tp_tensor *y, int bytes)
{
    const char *const feeds[] = {"x"}, *const fetches[] = {"y"};
    const tp_compile_options tiles = {.engine = TP_ENGINE_TILES, .freeze = true};
    char word[40];
    tp_name(y, "y");
    tp_program *p = tp_graph_compile(tp_graph_of(y), 1, feeds, 1, fetches, &tiles);
    tp_tensor *x = tp_arange(tp, TP_F32, 64, 0, 1), *out[1];
    x = tp_reshape(x, TP_DIMS(4, 16));
    assert_int_equal(tp_program_profile(p, true), TP_OK);
    assert_int_equal(tp_program_run(p, &x, out), TP_OK);
    snprintf(word, sizeof word, "\"bytes\": %d,", bytes);
    char *text = tp_program_profile_trace(p);
    if (!strstr(text, word) || strstr(strstr(text, word) + 1, "\"bytes\""))
        fail_msg("not %s: %s", word, text);
    tp_free(tp, text);
}

static tp_tensor *rows(tp_ctx *tp)
{
    return tp_placeholder(tp_graph_new(tp), "x", TP_F32, TP_DIMS(4, 16));
}

/* Each byte once: of two halves of x all of it, of one half that; of a table what is taken; of a loop
 * in each turn. */
static void counts_bytes(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = rows(tp), *a = tp_slice(x, 1, 0, 8, 1), *b = tp_slice(x, 1, 8, 16, 1);
    moves(tp, tp_mul(tp_mul(a, b), a), 4 * 16 * 4 + 4 * 8 * 4);
    moves(tp, tp_exp(tp_slice(rows(tp), 1, 8, 16, 1)), 2 * 4 * 8 * 4);
    const int64_t picked[] = {3, 1};
    tp_tensor *index = tp_tensor_new(tp, TP_I64, TP_DIMS(2), picked);
    moves(tp, tp_gather(rows(tp), index, 0), 2 * 2 * 16 * 4 + 2 * 8);
    tp_tensor *z = rows(tp);
    tp_for (5, &z) {
        z = tp_exp(z);
    }
    moves(tp, z, 5 * 2 * 4 * 16 * 4);
    x = rows(tp);
    moves(tp, tp_mul(x, tp_reshape(x, TP_DIMS(4, 16))), 2 * 4 * 16 * 4);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(stops_after_a_pass), CASE(makes_cheap_values_again),
        CASE(joins_padded_parts), CASE(moves_out_of_loops),
        CASE(counts_work),        CASE(names_kernels_and_buffers),
        CASE(names_bodies),       CASE(measures_kernels),
        CASE(tells_of_memory),    CASE(counts_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
