/* A limit of a program's memory: training steps under less and less of it keep their bits, take no more
 * than it, and a limit that cannot be kept is refused with what can. */
#include "common/unit.h"
#include <tapir/tapir.h>

enum { MOST_OUT = 12, ROOM = 1 << 16 };

typedef struct step {
    tp_ctx *tp;
    tp_graph *g;
    tp_tensor *feeds[2];
    const char *names[MOST_OUT];
    int n;
    const char *skip; /* passes */
} step;

static tp_tensor *weight(step *s, int rank, const int64_t *shape)
{
    return tp_param(tp_uniform(s->tp, TP_F32, rank, shape, -0.3, 0.3), "w");
}

/* Fetches the loss and the gradients of w[n]. */
static void finish(step *s, tp_tensor *loss, int n, tp_tensor *const *w)
{
    static const char *const names[MOST_OUT] = {"g0", "g1", "g2", "g3", "g4",  "g5",
                                                "g6", "g7", "g8", "g9", "g10", "loss"};
    tp_tensor *dw[MOST_OUT];
    assert_int_equal(tp_grads(loss, NULL, n, w, dw), TP_OK);
    for (int i = 0; i < n; i++)
        tp_name(dw[i], s->names[s->n++] = names[i]);
    tp_name(loss, s->names[s->n++] = names[MOST_OUT - 1]);
}

static void place(step *s, int rank, const int64_t *shape, int64_t n_labels, tp_tensor **x,
                  tp_tensor **labels)
{
    s->g = tp_graph_new(s->tp);
    *x = tp_placeholder(s->g, "x", TP_F32, rank, shape);
    *labels = tp_placeholder(s->g, "labels", TP_I64, 1, &n_labels);
    s->feeds[0] = tp_normal(s->tp, TP_F32, rank, shape, 0, 1);
    s->feeds[1] = tp_full(s->tp, TP_I64, 1, &n_labels, 3);
}

static void lenet(step *s)
{
    static const tp_window near =
                               {
                                   .pad_lo = {2, 2},
                                     .pad_hi = {2, 2}
    },
                           pool = {.stride = {2, 2}, .kernel = {2, 2}}, plain = {0};
    tp_tensor *x, *labels;
    place(s, TP_DIMS(4, 1, 28, 28), 4, &x, &labels);
    tp_tensor *const w[] = {weight(s, TP_DIMS(6, 1, 5, 5)),  weight(s, TP_DIMS(6, 1, 1)),
                            weight(s, TP_DIMS(16, 6, 5, 5)), weight(s, TP_DIMS(16, 1, 1)),
                            weight(s, TP_DIMS(400, 120)),    weight(s, TP_DIMS(120, 10))};
    tp_tensor *h = tp_max_pool(tp_relu(tp_add(tp_conv(x, w[0], &near), w[1])), &pool);
    h = tp_max_pool(tp_relu(tp_add(tp_conv(h, w[2], &plain), w[3])), &pool);
    h = tp_tanh(tp_matmul(tp_reshape(h, TP_DIMS(4, 400)), w[4]));
    finish(s, tp_mean(tp_cross_entropy(tp_matmul(h, w[5]), labels), TP_ALL, false), 6, w);
}

/* An LSTM over 50 turns. */
static void lstm(step *s)
{
    enum { TURNS = 50, ROWS = 4, WIDTH = 16 };
    tp_tensor *x, *labels;
    place(s, TP_DIMS(TURNS, ROWS, WIDTH), ROWS, &x, &labels);
    tp_tensor *const w[] = {weight(s, TP_DIMS(WIDTH, 4 * WIDTH)),
                            weight(s, TP_DIMS(WIDTH, 4 * WIDTH)), weight(s, TP_DIMS(4 * WIDTH)),
                            weight(s, TP_DIMS(WIDTH, 10))};
    tp_tensor *h = tp_graph_read(s->g, tp_full(s->tp, TP_F32, TP_DIMS(ROWS, WIDTH), 0)), *c = h;
    tp_for (TURNS, &h, &c) {
        tp_tensor *z = tp_add(tp_add(tp_matmul(tp_each(x), w[0]), tp_matmul(h, w[1])), w[2]);
        tp_tensor *i = tp_sigmoid(tp_slice(z, 1, 0, WIDTH, 1)),
                  *f = tp_sigmoid(tp_slice(z, 1, WIDTH, 2 * WIDTH, 1)),
                  *o = tp_sigmoid(tp_slice(z, 1, 2 * WIDTH, 3 * WIDTH, 1)),
                  *u = tp_tanh(tp_slice(z, 1, 3 * WIDTH, 4 * WIDTH, 1));
        c = tp_add(tp_mul(f, c), tp_mul(i, u));
        h = tp_mul(o, tp_tanh(c));
    }
    finish(s, tp_mean(tp_cross_entropy(tp_matmul(h, w[3]), labels), TP_ALL, false), 4, w);
}

static tp_tensor *attention(tp_tensor *q, tp_tensor *k, tp_tensor *v)
{
    tp_tensor *scores = tp_div(tp_matmul(q, tp_swap(k, -1, -2)), tp_scalar_like(q, 4));
    return tp_matmul(tp_softmax(scores, -1), v);
}

static void transformer(step *s)
{
    enum { T = 24, D = 16 };
    tp_tensor *x, *labels;
    place(s, TP_DIMS(T, D), T, &x, &labels);
    tp_tensor *const w[] = {weight(s, TP_DIMS(D, D)),     weight(s, TP_DIMS(D, D)),
                            weight(s, TP_DIMS(D, D)),     weight(s, TP_DIMS(D, D)),
                            weight(s, TP_DIMS(D)),        weight(s, TP_DIMS(D)),
                            weight(s, TP_DIMS(D, 4 * D)), weight(s, TP_DIMS(4 * D, D))};
    tp_tensor *h = x;
    for (int layer = 0; layer < 2; layer++) {
        tp_tensor *n = tp_layer_norm(h, w[4], w[5], 1e-5);
        tp_tensor *a = attention(tp_matmul(n, w[0]), tp_matmul(n, w[1]), tp_matmul(n, w[2]));
        h = tp_add(h, tp_matmul(a, w[3]));
        n = tp_layer_norm(h, w[4], w[5], 1e-5);
        h = tp_add(h, tp_matmul(tp_gelu(tp_matmul(n, w[6])), w[7]));
    }
    finish(s, tp_mean(tp_cross_entropy(h, labels), TP_ALL, false), 8, w);
}

static tp_program *compile(const step *s, tp_engine engine, int64_t limit)
{
    const char *const feeds[] = {"x", "labels"};
    return tp_graph_compile(
        s->g, 2, feeds, s->n, s->names,
        &(tp_compile_options){.engine = engine, .memory_limit = limit, .skip_passes = s->skip});
}

/* Its results, one behind the other; the arena's bytes. */
static int64_t run(const step *s, tp_program *p, char *bytes, size_t *size)
{
    tp_tensor *out[MOST_OUT];
    tp_scope_begin(s->tp);
    if (tp_program_run(p, s->feeds, out) != TP_OK)
        fail_msg("%s", tp_error_message(s->tp));
    *size = 0;
    for (int i = 0; i < s->n; i++) {
        const size_t n = (size_t)tp_count(out[i]) * sizeof(float);
        assert_true(*size + n <= ROOM * sizeof(float));
        tp_read(out[i], bytes + *size, n);
        *size += n;
    }
    tp_scope_end(s->tp);
    const int64_t arena = tp_program_stats_of(p).arena_bytes;
    tp_program_free(p);
    return arena;
}

/* Under falling limits until one is refused; then under the least that the refusal tells. */
static void falls(step *s, const char *name, double least_share)
{
    static float whole[ROOM], part[ROOM];
    size_t size, same;
    const int64_t all = run(s, compile(s, TP_ENGINE_TILES, 0), (char *)whole, &size);
    int64_t limit = all, least = 0;
    assert_true(all > 0);
    while (!least) {
        tp_program *p = compile(s, TP_ENGINE_TILES, limit);
        if (!p) {
            const char *text = tp_error_message(s->tp), *is = strstr(text, "kernels is ");
            assert_int_equal(tp_error(s->tp), TP_E_LIMIT);
            assert_non_null(strstr(text, "graph_budget.c:"));
            assert_non_null(strstr(text, " f32["));
            assert_non_null(is);
            least = strtoll(is + strlen("kernels is "), NULL, 10);
            tp_clear_error(s->tp);
            break;
        }
        const int64_t arena = run(s, p, (char *)part, &same);
        if (arena > limit || same != size || memcmp(whole, part, size) != 0)
            fail_msg("%s: limit %lld: %lld bytes, %s results", name, (long long)limit,
                     (long long)arena, arena > limit ? "too many" : "other");
        limit = arena - arena / 8 - 64;
    }
    print_message("%s: %lld bytes, %lld at least\n", name, (long long)all, (long long)least);
    assert_true((double)least <= least_share * (double)all);
    assert_true(least > limit);
    static const tp_engine engines[] = {TP_ENGINE_TILES, TP_ENGINE_C, TP_ENGINE_REFERENCE};
    for (int i = 0; i < 3; i++) {
        tp_program *p = compile(s, engines[i], least);
        assert_non_null(p);
        run(s, p, (char *)part, &same);
        assert_memory_equal(whole, part, size);
    }
}

/* Sizes that only a run tells: it is refused when they take too much, and others still run. */
static void sizes_of_a_run(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"), 16));
    tp_tensor *h = tp_matmul(x, tp_full(tp, TP_F32, TP_DIMS(16, 32), 1));
    tp_name(tp_matmul(tp_tanh(h), tp_full(tp, TP_F32, TP_DIMS(32, 2), 1)), "y");
    const char *const feeds[] = {"x"}, *const fetches[] = {"y"};
    const tp_compile_options opt = {.engine = TP_ENGINE_TILES, .memory_limit = 3000};
    tp_program *p = tp_graph_compile(g, 1, feeds, 1, fetches, &opt);
    assert_non_null(p);
    for (int64_t n = 8; n < 32;
         n += 4) { /* one of [n, 32]: tanh is written over what it reads */
        tp_tensor *in = tp_full(tp, TP_F32, TP_DIMS(n, 16), 1), *out[1];
        const bool fits = n * 32 * (int64_t)sizeof(float) <= opt.memory_limit;
        assert_int_equal(tp_program_run(p, &in, out), fits ? TP_OK : TP_E_LIMIT);
        if (fits) {
            assert_true(tp_program_stats_of(p).arena_bytes <= opt.memory_limit);
            continue;
        }
        assert_non_null(strstr(tp_error_message(tp), "the limit is 3000 bytes, and these sizes "
                                                     "take "));
        assert_non_null(strstr(tp_error_message(tp), "tanh f32[n,32] "));
        tp_clear_error(tp);
    }
    assert_int_equal(tp_graph_save_c(g, "no_file.c", 1, feeds, 1, fetches,
                                     &(tp_c_options){.memory_limit = 3000}),
                     TP_E_SHAPE);
    EXPECT_ERROR(tp, TP_E_SHAPE, "a memory limit takes sizes that are numbers");
}

static void steps_under_less(void **state)
{
    step s = {.tp = *state};
    lenet(&s);
    falls(&s, "lenet", 1); /* nothing but the first convolution and what reads it */
    s = (step){.tp = *state};
    lstm(&s);
    falls(&s, "lstm",
          0.7); /* what carries a weight's gradient through a loop is twice its size */
    s = (step){.tp = *state, .skip = "algebra,cse"}; /* what a split loop leaves is dead then */
    lstm(&s);
    falls(&s, "lstm, not simplified", 0.7);
    s = (step){.tp = *state};
    transformer(&s);
    falls(&s, "transformer", 0.6);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(sizes_of_a_run),
        CASE(steps_under_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
