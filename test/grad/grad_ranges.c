/* The gradient of what only ranges are read of: the bits of the sum, the newest first, of each range's
 * gradient with zeros around it; eagerly, matched and in graphs, with -0 among the gradients. */
#include "common/unit.h"
#include "tapir/capture.h"
#include "tapir/control.h"
#include "tapir/graph.h"
#include "tapir/nn.h"
#include "tapir/random.h"

#include <string.h>

enum { ROWS = 3, COLUMNS = 7, MOST = 5, N = ROWS * COLUMNS };

/* Ranges of x along an axis, of which some may be equal, empty, or overlap, and what each is multiplied by. */
typedef struct ranges {
    int n, axis;
    int64_t lo[MOST], hi[MOST];
    bool later, earlier; /* x is read as a whole, too, behind the ranges or before them; */
    float whole[2][N];   /* multiplied by */
    float by[MOST][N];
} ranges;

static ranges draw(uint64_t *seed)
{
    static const float values[] = {0, -0.0F, 1.5F, -2.25F, 0x1p-100F, 3e30F};
    ranges r = {.n = 1 + (int)(unit_random(seed) >> 33) % MOST,
                .axis = (int)(unit_random(seed) >> 63),
                .later = unit_random(seed) >> 62 == 0,
                .earlier = unit_random(seed) >> 61 == 0};
    const bool apart = unit_random(seed) >> 63, equal = unit_random(seed) >> 62 == 0;
    const int size = r.axis ? COLUMNS : ROWS;
    for (int i = 0; i < r.n; i++) {
        const int64_t from = apart && i ? r.hi[i - 1] : 0;
        r.lo[i] = from + (int64_t)(unit_random(seed) >> 33) % (size + 1 - from);
        r.hi[i] = r.lo[i] + (int64_t)(unit_random(seed) >> 33) % (size + 1 - r.lo[i]);
        if (equal)
            r.lo[i] = r.lo[0], r.hi[i] = r.hi[0];
        for (int k = 0; k < N; k++)
            r.by[i][k] = values[(unit_random(seed) >> 33) % (equal ? 2 : 6)];
    }
    for (int k = 0; k < 2 * N; k++)
        r.whole[k / N][k % N] = values[(unit_random(seed) >> 33) % 6];
    return r;
}

static bool has(const ranges *r, int i, int k)
{
    const int64_t at = r->axis ? k % COLUMNS : k / COLUMNS;
    return r->lo[i] <= at && at < r->hi[i];
}

/* The definition. */
static void sum_up(const ranges *r, float *dx)
{
    for (int k = 0; k < N; k++) {
        float sum = r->later ? r->whole[0][k] : has(r, r->n - 1, k) ? r->by[r->n - 1][k] : 0;
        for (int i = r->n - (r->later ? 1 : 2); i >= 0; i--)
            sum += has(r, i, k) ? r->by[i][k] : 0;
        dx[k] = r->earlier ? sum + r->whole[1][k] : sum;
    }
}

static tp_tensor *whole(tp_tensor *x, const float *by)
{
    tp_tensor *t = tp_tensor_new(tp_ctx_of(x), TP_F32, TP_DIMS(ROWS, COLUMNS), by);
    return tp_sum(tp_mul(x, t), TP_ALL, false);
}

static tp_tensor *loss_of(tp_tensor *x, const ranges *r)
{
    tp_ctx *tp = tp_ctx_of(x);
    tp_tensor *y = r->earlier ? whole(x, r->whole[1]) : tp_scalar(tp, TP_F32, 0);
    for (int i = 0; i < r->n; i++) {
        tp_tensor *by = tp_tensor_new(tp, TP_F32, TP_DIMS(ROWS, COLUMNS), r->by[i]);
        tp_tensor *part = tp_slice(x, r->axis, r->lo[i], r->hi[i], 1);
        by = tp_slice(by, r->axis, r->lo[i], r->hi[i], 1);
        y = tp_add(y, tp_sum(tp_mul(part, by), TP_ALL, false));
    }
    return r->later ? tp_add(y, whole(x, r->whole[0])) : y;
}

static void expect(const char *mode, uint64_t seed, const tp_tensor *dx, const float *want)
{
    const float *got = tp_data(dx);
    assert_non_null(got);
    for (int k = 0; k < N; k++)
        if (memcmp(&got[k], &want[k], sizeof *got) != 0)
            fail_msg("%s, seed %#llx, element %d: %a, not %a", mode, (unsigned long long)seed,
                     k, (double)got[k], (double)want[k]);
}

static void gradient(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    tp_tensor *x = tp_require_grad(tp_mul(in[0], tp_scalar_like(in[0], 1)));
    out[0] = tp_grad(loss_of(x, user), x);
}

static void matched(tp_ctx *tp, uint64_t seed, tp_tensor *x, ranges *r, const float *want)
{
    tp_function *f = tp_function_new(tp, "gradient", gradient, r, NULL);
    for (int call = 0; call < 3; call++)
        expect("matched", seed, tp_function_apply(f, TP_TENSORS(x)), want);
    tp_function_free(f);
}

typedef tp_tensor *loss_fn(tp_tensor *x, const ranges *r);

static void in_graph(tp_ctx *tp, uint64_t seed, tp_tensor *x, const ranges *r, loss_fn *loss,
                     const float *want)
{
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *p = tp_placeholder(g, "x", TP_F32, TP_DIMS(ROWS, COLUMNS)), *out;
    tp_name(tp_grad(loss(p, r), p), "dx");
    for (int e = 0; e < 2; e++) {
        const tp_compile_options opt = {.engine = e ? TP_ENGINE_TILES : TP_ENGINE_REFERENCE};
        tp_program *run = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("dx"), &opt);
        assert_int_equal(tp_program_run(run, &x, &out), TP_OK);
        expect(e ? "tiles" : "reference", seed, out, want);
        tp_program_free(run);
    }
    tp_graph_free(g);
}

static void all_modes(void **state)
{
    tp_ctx *tp = *state;
    uint64_t seed = 2024;
    for (int round = 0; round < 300; round++) {
        const uint64_t start = seed;
        ranges r = draw(&seed);
        float want[N];
        sum_up(&r, want);
        tp_scope_begin(tp);
        tp_tensor *x = tp_require_grad(tp_uniform(tp, TP_F32, TP_DIMS(ROWS, COLUMNS), -1, 1));
        expect("eager", start, tp_grad(loss_of(x, &r), x), want);
        if (round % 10 == 0) {
            matched(tp, start, x, &r, want);
            in_graph(tp, start, x, &r, loss_of, want);
        }
        tp_backward(loss_of(x, &r));
        expect("tp_backward", start, tp_grad_of(x), want);
        assert_int_equal(tp_error(tp), TP_OK);
        tp_scope_end(tp);
    }
}

/* The ranges are of what a turn makes, which is read behind it, too: a sum that begins with something. */
static tp_tensor *loss_of_turn(tp_tensor *x, const ranges *r)
{
    tp_ctx *tp = tp_ctx_of(x);
    tp_tensor *h = x, *s = tp_scalar(tp, TP_F32, 0);
    tp_for (1, &h, &s) {
        h = tp_mul(h, tp_scalar_like(x, 1));
        s = tp_add(s, loss_of(h, r));
    }
    tp_tensor *by = tp_tensor_new(tp, TP_F32, TP_DIMS(ROWS, COLUMNS), r->by[0]);
    return tp_add(s, tp_sum(tp_mul(h, by), TP_ALL, false));
}

static void of_a_turn(void **state)
{
    tp_ctx *tp = *state;
    uint64_t seed = 77;
    for (int round = 0; round < 200; round++) {
        const uint64_t start = seed;
        const ranges r = draw(&seed);
        float want[N];
        tp_scope_begin(tp);
        tp_tensor *x = tp_require_grad(tp_uniform(tp, TP_F32, TP_DIMS(ROWS, COLUMNS), -1, 1));
        assert_int_equal(tp_read(tp_grad(loss_of_turn(x, &r), x), want, sizeof want), TP_OK);
        tp_backward(loss_of_turn(x, &r));
        expect("tp_backward of a turn", start, tp_grad_of(x), want);
        if (round % 10 == 0)
            in_graph(tp, start, x, &r, loss_of_turn, want);
        tp_scope_end(tp);
    }
}

/* Empty and small ranges whose gradients fail give an error. */
static void that_fail(void **state)
{
    tp_ctx *tp = *state;
    tp_trap_nan(tp, true);
    for (int size = 0; size < 3; size++) {
        tp_tensor *x = tp_require_grad(tp_full(tp, TP_F32, TP_DIMS(8), 0));
        tp_tensor *z = tp_scalar(tp, TP_F32, 0);
        for (int i = 0; i < 12; i++)
            z = tp_add(z, tp_sum(tp_slice(x, 0, i % 4, i % 4 + size, 1), TP_ALL, false));
        tp_tensor *dx = tp_grad(tp_mul(tp_sqrt(z), tp_scalar(tp, TP_F32, 0)), x);
        assert_int_equal(tp_status_of(dx), TP_E_VALUE);
        tp_clear_error(tp);
    }
    tp_trap_nan(tp, false);
}

/* The sweep that joins them is itself swept. */
static tp_tensor *steepness(void *user, int n, tp_tensor *const *in)
{
    (void)user, (void)n;
    tp_tensor *x = in[0], *y = tp_scalar_like(x, 0);
    if (!tp_requires_grad(x))
        tp_require_grad(x);
    const bool was = tp_recording(tp_ctx_of(x), true);
    for (int i = 0; i < 4; i++)
        y = tp_add(y, tp_sum(tp_sin(tp_mul(tp_select(x, 1, i), tp_select(x, 1, i + 1))), TP_ALL,
                             false));
    tp_tensor *dx = tp_grad(y, x);
    tp_recording(tp_ctx_of(x), was);
    return tp_sum(tp_square(dx), TP_ALL, false);
}

static void of_the_gradient(void **state)
{
    tp_ctx *tp = *state;
    double error = 1;
    tp_tensor *x = tp_uniform(tp, TP_F64, TP_DIMS(2, COLUMNS), -1, 1);
    assert_int_equal(tp_grad_check(steepness, NULL, 1, &x, &error), TP_OK);
    if (!(error < 1e-6))
        fail_msg("error %g: %s", error, tp_error_message(tp));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(all_modes), CASE(of_a_turn), CASE(that_fail),
                                              CASE(of_the_gradient)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
