/* The gradient of what slices at places are read of, as an embedding: the bits of the sum, the newest node first, of each
 * node's gradient, in which what comes to one place is added up first; eagerly, in a tp_batch, matched and in graphs. */
#include "common/unit.h"
#include "tapir/batching.h"
#include "tapir/capture.h"
#include "tapir/control.h"
#include "tapir/grad.h"
#include "tapir/graph.h"
#include "tapir/nn.h"
#include "tapir/random.h"

#include <math.h>
#include <string.h>

enum { A = 3, B = 9, C = 4, N = A * B * C, NODES = 5, SLICES = 4, OTHER = N / A };

/* Reads of x [A, B, C] along an axis: at so many places, an index [n] or [2, n / 2], multiplied by what each is. */
typedef struct reads {
    int n, axis, size, inner, count[NODES];
    bool square[NODES], waits[NODES];
    int64_t at[NODES][SLICES];
    bool later, earlier; /* x is read as a whole, too, behind them or before; */
    float whole[2][N];   /* multiplied by */
    float by[NODES][OTHER * SLICES];
} reads;

static float value(uint64_t *seed)
{
    static const float odd[] = {0, -0.0F, 0x1p-100F, 3e30F, INFINITY, -INFINITY};
    const uint64_t r = unit_random(seed) >> 33;
    return r % 4 ? (float)(r % 100003) / 777 - 60 : odd[r / 4 % (r % 16 ? 4 : 6)];
}

static int64_t below(uint64_t *seed, int64_t n)
{
    return (int64_t)(unit_random(seed) >> 33) % n;
}

static reads draw(uint64_t *seed)
{
    static const int sizes[] = {A, B, C}, inner[] = {B * C, C, 1};
    reads r = {.n = 1 + (int)below(seed, NODES),
               .axis = (int)below(seed, 3),
               .later = below(seed, 4) == 0,
               .earlier = below(seed, 4) == 0};
    const bool apart = below(seed, 4) == 0;
    r.size = sizes[r.axis];
    r.inner = inner[r.axis];
    for (int i = 0; i < r.n; i++) {
        r.square[i] = below(seed, 3) == 0;
        r.waits[i] = below(seed, 8) == 0;
        r.count[i] =
            r.square[i] ? 2 * (int)below(seed, SLICES / 2 + 1) : (int)below(seed, SLICES + 1);
        for (int k = 0; k < SLICES; k++)
            r.at[i][k] = apart ? i % r.size : below(seed, 2 * r.size) - r.size;
        for (int k = 0; k < OTHER * SLICES; k++)
            r.by[i][k] = value(seed);
    }
    for (int k = 0; k < 2 * N; k++)
        r.whole[k / N][k % N] = value(seed);
    return r;
}

/* What node i gives element k: of its slices [outer, n, inner] those at the place of k, one after the other. */
static float given(const reads *r, int i, int k)
{
    const int outer = k / (r->size * r->inner), place = k / r->inner % r->size;
    float sum = 0;
    for (int s = 0; s < r->count[i]; s++)
        if ((r->at[i][s] + r->size) % r->size == place)
            sum += r->by[i][(outer * r->count[i] + s) * r->inner + k % r->inner];
    return sum;
}

static void sum_up(const reads *r, float *dx)
{
    for (int k = 0; k < N; k++) {
        float sum = r->later ? r->whole[0][k] : given(r, r->n - 1, k);
        for (int i = r->n - (r->later ? 1 : 2); i >= 0; i--)
            sum += given(r, i, k);
        dx[k] = r->earlier ? sum + r->whole[1][k] : sum;
    }
}

/* What gives x the gradient `by`, whatever x is. */
static tp_tensor *times(tp_tensor *x, const float *by)
{
    int64_t shape[TP_MAX_RANK];
    for (int i = 0; i < tp_rank(x); i++)
        shape[i] = tp_size(x, i);
    tp_tensor *t = tp_tensor_new(tp_ctx_of(x), TP_F32, tp_rank(x), shape, by);
    return tp_sum(tp_mul(x, t), TP_ALL, false);
}

static tp_tensor *loss_of(tp_tensor *x, const reads *r)
{
    tp_ctx *tp = tp_ctx_of(x);
    tp_tensor *y = r->earlier ? times(x, r->whole[1]) : tp_scalar(tp, TP_F32, 0);
    for (int i = 0; i < r->n; i++) {
        const int64_t n = r->count[i], flat[] = {n}, square[] = {2, n / 2};
        tp_tensor *index = tp_tensor_new(tp, TP_I64, r->square[i] ? 2 : 1,
                                         r->square[i] ? square : flat, r->at[i]);
        index = r->waits[i] ? tp_add(index, 0) : index; /* in a tp_batch */
        y = tp_add(y, times(tp_gather(x, index, r->axis), r->by[i]));
    }
    return r->later ? tp_add(y, times(x, r->whole[0])) : y;
}

static void expect(const char *mode, uint64_t seed, const tp_tensor *dx, const float *want)
{
    const float *got = tp_data(dx);
    assert_non_null(got);
    for (int k = 0; k < N; k++)
        if (memcmp(&got[k], &want[k], sizeof *got) != 0 && !(isnan(got[k]) && isnan(want[k])))
            fail_msg("%s, seed %#llx, element %d: %a, not %a", mode, (unsigned long long)seed,
                     k, (double)got[k], (double)want[k]);
}

static void gradient(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    tp_tensor *x = tp_require_grad(tp_mul(in[0], 1));
    out[0] = tp_grad(loss_of(x, user), x);
}

static void in_graph(tp_ctx *tp, uint64_t seed, tp_tensor *x, const reads *r, const float *want)
{
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *p = tp_placeholder(g, "x", TP_F32, TP_DIMS(A, B, C)), *out;
    tp_name(tp_grad(loss_of(p, r), p), "dx");
    tp_program *run = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("dx"),
                                       &(tp_compile_options){.engine = TP_ENGINE_TILES});
    assert_int_equal(tp_program_run(run, &x, &out), TP_OK);
    expect("tiles", seed, out, want);
    tp_program_free(run);
    tp_graph_free(g);
}

static void in_other_modes(tp_ctx *tp, uint64_t seed, tp_tensor *x, reads *r, const float *want)
{
    tp_function *f = tp_function_new(tp, "gradient", gradient, r, NULL);
    for (int call = 0; call < 3; call++)
        expect("matched", seed, tp_function_apply(f, TP_TENSORS(x)), want);
    tp_function_free(f);
    in_graph(tp, seed, x, r, want);
}

/* As an optimiser asks: without a record. */
static tp_tensor *unrecorded(tp_tensor *y, tp_tensor *x)
{
    tp_tensor *dx = NULL;
    tp_no_grad(tp_ctx_of(x)) dx = tp_grad(y, x);
    return dx;
}

static void all_modes(void **state)
{
    tp_ctx *tp = *state;
    uint64_t seed = 2026;
    const size_t budget = tp_batch_budget(tp, 1 << 20);
    for (int round = 0; round < 400; round++) {
        const uint64_t start = seed;
        reads r = draw(&seed);
        float want[N];
        sum_up(&r, want);
        tp_scope_begin(tp);
        tp_tensor *x = tp_require_grad(tp_uniform(tp, TP_F32, TP_DIMS(A, B, C), -1, 1)),
                  *dx = NULL;
        expect("recorded", start, tp_grad(loss_of(x, &r), x), want);
        expect("eager", start, unrecorded(loss_of(x, &r), x), want);
        tp_batch_budget(tp, round % 3 ? budget : (size_t)below(&seed, 4000));
        tp_batch (tp)
            dx = unrecorded(loss_of(x, &r), x);
        expect("tp_batch", start, dx, want);
        if (round % 10 == 0)
            in_other_modes(tp, start, x, &r, want);
        tp_backward(loss_of(x, &r));
        expect("tp_backward", start, tp_grad_of(x), want);
        tp_zero_grad(x);
        tp_batch (tp)
            tp_backward(loss_of(x, &r));
        expect("tp_backward in a tp_batch", start, tp_grad_of(x), want);
        assert_int_equal(tp_error(tp), TP_OK);
        tp_scope_end(tp);
    }
}

/* A table of 60,000 rows of which 200 nodes read two each is written once: contributions as large as the table would be two at
 * a time. */
static void the_table_is_written_once(void **state)
{
    (void)state;
    enum { TABLE = 60000, WIDTH = 16, READS = 200 };
    unit_memory memory = {0};
    tp_ctx *tp = unit_open(&memory);
    tp_tensor *table = tp_require_grad(tp_full(tp, TP_F32, TP_DIMS(TABLE, WIDTH), 1));
    tp_tensor *y = tp_scalar(tp, TP_F32, 0);
    for (int i = 0; i < READS; i++) {
        const int64_t at[] = {i, 2 * i};
        tp_tensor *rows = tp_gather(table, tp_tensor_new(tp, TP_I64, TP_DIMS(2), at), 0);
        y = tp_add(y, tp_sum(rows, TP_ALL, false));
    }
    const size_t before = memory.bytes, size = TABLE * WIDTH * sizeof(float);
    memory.most = before;
    const float *dx = tp_data(unrecorded(y, table));
    assert_non_null(dx);
    assert_in_range(memory.most - before, size, size + size / 2);
    for (int i = 0; i < 2 * READS; i++)
        assert_true(dx[i * WIDTH] == (float)((i < READS) + (i % 2 == 0)));
    unit_close(tp, &memory);
}

/* Many small contributions to one tensor, in a tp_batch: one sum, the newest first, and few kernels. */
static void a_bias_of_many_calls(void **state)
{
    tp_ctx *tp = *state;
    enum { MANY = 50, WIDTH = 3 };
    uint64_t seed = 5;
    float by[MANY][WIDTH], want[WIDTH];
    for (int k = 0; k < MANY * WIDTH; k++)
        by[k / WIDTH][k % WIDTH] = (float)below(&seed, 1000003) / 777;
    for (int k = 0; k < WIDTH; k++) {
        want[k] = by[MANY - 1][k];
        for (int i = MANY - 2; i >= 0; i--)
            want[k] += by[i][k];
    }
    tp_tensor *b = tp_require_grad(tp_full(tp, TP_F32, TP_DIMS(WIDTH), 0.5)), *y[MANY];
    tp_batch (tp) {
        for (int i = 0; i < MANY; i++)
            y[i] = times(b, by[i]);
        tp_backward(tp_sum(tp_stack(MANY, y, 0), TP_ALL, false));
    }
    const float *got = tp_data(tp_grad_of(b));
    for (int k = 0; k < WIDTH; k++)
        if (memcmp(&got[k], &want[k], sizeof *got) != 0)
            fail_msg("element %d: %a, not %a", k, (double)got[k], (double)want[k]);
    assert_true(tp_batch_counts_of(tp).kernels < MANY);
}

/* A graph that is made in a tp_batch is made of what it always is: its loop reads sums in the order of its ops. */
static tp_tensor *around_a_loop(tp_tensor *b)
{
    tp_tensor *y = tp_scalar_like(b, 0);
    tp_for (2, &y) {
        y = tp_add(y, tp_sum(tp_mul(b, b), TP_ALL, false));
    }
    for (int i = 0; i < 6; i++)
        y = tp_add(y, tp_sum(tp_sin(tp_mul(b, 1 + i)), TP_ALL, false));
    return y;
}

static char *text_of_gradient(tp_ctx *tp)
{
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *b = tp_placeholder(g, "b", TP_F32, TP_DIMS(3));
    tp_no_grad(tp) tp_name(tp_grad(around_a_loop(b), b), "db");
    char *text = tp_graph_text(g);
    tp_graph_free(g);
    return text;
}

static void graphs_are_what_they_are(void **state)
{
    tp_ctx *tp = *state;
    char *outside = text_of_gradient(tp), *inside = NULL;
    tp_batch (tp)
        inside = text_of_gradient(tp);
    assert_non_null(outside);
    assert_string_equal(inside, outside);
    tp_free(tp, inside);
    tp_free(tp, outside);
}

static void what_was_assigned_since(void **state)
{
    tp_ctx *tp = *state;
    const int64_t at[] = {0, 1};
    tp_tensor *x = tp_param(tp_full(tp, TP_F32, TP_DIMS(3, 2), 1), "x");
    tp_tensor *places = tp_variable(tp_tensor_new(tp, TP_I64, TP_DIMS(2), at), "places");
    tp_tensor *y = tp_mul(tp_gather(x, places, 0), tp_gather(x, places, 0));
    tp_assign(places, tp_tensor_new(tp, TP_I64, TP_DIMS(2), (int64_t[]){2, 2}));
    assert_true(tp_failed(unrecorded(tp_sum(y, TP_ALL, false), x)));
    EXPECT_ERROR_WITH(tp, TP_E_STATE, "was assigned after it was used here");
}

static void some_sums(tp_ctx *tp, tp_tensor **y)
{
    tp_tensor *x = tp_require_grad(tp_full(tp, TP_F32, TP_DIMS(4, 2), 1));
    tp_tensor *twice =
        tp_gather(x, tp_tensor_new(tp, TP_I64, TP_DIMS(2), (int64_t[]){1, 1}), 0);
    tp_tensor *once = tp_gather(x, tp_tensor_new(tp, TP_I64, TP_DIMS(1), (int64_t[]){3}), 0);
    y[0] = unrecorded(tp_sum(tp_mul(twice, once), TP_ALL, false), x);
    tp_batch (tp) {
        tp_tensor *sum = tp_sum(tp_mul(x, 2), TP_ALL, false);
        for (int i = 0; i < 5; i++)
            sum = tp_add(sum, tp_sum(tp_mul(x, i), TP_ALL, false));
        y[1] = unrecorded(sum, x);
    }
}

static void memory_runs_out(void **state)
{
    (void)state;
    unit_no_memory(some_sums, 2);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(all_modes),
        CASE(the_table_is_written_once),
        CASE(a_bias_of_many_calls),
        CASE(graphs_are_what_they_are),
        CASE(what_was_assigned_since),
        CASE(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
