/* Fused composites have the bits of their ops: of all kinds of numbers, at sizes that change, in both types, by one thread
 * and by three. Where ops are looked at one by one they are called. Without memory for a program they are, too. */
#include "common/same.h"
#include "common/unit.h"
#include "run/fused_run.h"
#include "tapir/control.h"
#include "tapir/grad.h"
#include "tapir/nn.h"
#include "tapir/random.h"

#include <math.h>

enum { CHANNELS = 24, PLACES = 12, LEAST = 16 };

/* ---- composites ---------------------------------------------------------------------------------- */

typedef tp_tensor *composite(tp_tensor *x, tp_tensor *c, tp_tensor *p);
/* x [n, CHANNELS, PLACES], c [CHANNELS] above 0, p [PLACES]. */
#define COMPOSITES(M)                                                                          \
    M(gelu, tp_gelu(x))                                                                        \
    M(gelu_tanh, tp_gelu_tanh(x))                                                              \
    M(silu, tp_silu(x))                                                                        \
    M(swish, tp_swish(x, 1.7))                                                                 \
    M(softplus, tp_softplus(x))                                                                \
    M(logsigmoid, tp_logsigmoid(x))                                                            \
    M(mish, tp_mish(x))                                                                        \
    M(elu, tp_elu(x, 1.3))                                                                     \
    M(celu, tp_celu(x, 0.7))                                                                   \
    M(selu, tp_selu(x))                                                                        \
    M(leaky_relu, tp_leaky_relu(x, 0.1))                                                       \
    M(prelu, tp_prelu(x, p))                                                                   \
    M(relu6, tp_relu6(x))                                                                      \
    M(hardsigmoid, tp_hardsigmoid(x))                                                          \
    M(hardswish, tp_hardswish(x))                                                              \
    M(threshold, tp_threshold(x, 0.1, -0.5))                                                   \
    M(shrink, tp_shrink(x, 0.5, 0.25))                                                         \
    M(glu, tp_glu(x, 1))                                                                       \
    M(swiglu, tp_swiglu(x, -1))                                                                \
    M(clip, tp_clip(x, -0.5, 2))                                                               \
    M(atan2, tp_atan2(x, p))                                                                   \
    M(fmod, tp_fmod(x, p))                                                                     \
    M(floor_div, tp_floor_div(x, p))                                                           \
    M(lerp, tp_lerp(x, p, tp_exp(p)))                                                          \
    M(softsign, tp_softsign(x))                                                                \
    M(tan, tp_tan(x))                                                                          \
    M(atan, tp_atan(x))                                                                        \
    M(asinh, tp_asinh(x))                                                                      \
    M(erfc, tp_erfc(x))                                                                        \
    M(lgamma, tp_lgamma(x))                                                                    \
    M(softmax_0, tp_softmax(x, 0))                                                             \
    M(softmax_1, tp_softmax(x, 1))                                                             \
    M(softmax_last, tp_softmax(x, -1))                                                         \
    M(log_softmax, tp_log_softmax(x, -1))                                                      \
    M(layer_norm, tp_layer_norm(x, p, tp_neg(p), 1e-5))                                        \
    M(layer_norm_bare, tp_layer_norm(x, NULL, NULL, 1e-5))                                     \
    M(layer_norm_shift, tp_layer_norm(x, NULL, p, 1e-5))                                       \
    M(rms_norm, tp_rms_norm(x, p, 1e-5))                                                       \
    M(group_norm, tp_group_norm(x, 8, c, tp_neg(c), 1e-5))                                     \
    M(instance_norm, tp_instance_norm(x, c, NULL, 1e-5))                                       \
    M(batch_norm, tp_batch_norm(x, c, tp_neg(c), c, c, 1e-5))                                  \
    M(normalize, tp_normalize(x, 2, 1, 1e-12))                                                 \
    M(normalize_inf, tp_normalize(x, INFINITY, -1, 0))                                         \
    M(cumprod_0, tp_cumprod(x, 0, false, true))                                                \
    M(cumprod_last, tp_cumprod(x, -1, true, false))                                            \
    M(grid_sample, sampled(x, TP_INTERPOLATE_LINEAR, TP_PAD_ZEROS, false))                     \
    M(grid_sample_cubic, sampled(x, TP_INTERPOLATE_CUBIC, TP_PAD_REFLECT, true))
static tp_tensor *sampled(tp_tensor *x, tp_interpolation mode, tp_padding padding, bool corners)
{
    tp_tensor *image = tp_reshape(x, TP_DIMS(-1, CHANNELS, 3, PLACES / 3));
    tp_tensor *grid = tp_reshape(x, TP_DIMS(-1, CHANNELS / 2, PLACES, 2));
    return tp_grid_sample(image, grid, mode, padding, corners);
}

#define DEFINE(name, y)                                                                        \
    static tp_tensor *name##_made(tp_tensor *x, tp_tensor *c, tp_tensor *p)                    \
    {                                                                                          \
        (void)c, (void)p;                                                                      \
        return y;                                                                              \
    }
COMPOSITES(DEFINE)
static const struct {
    const char *name;
    composite *f;
} composites[] = {
#define LIST(name, y) {#name, name##_made},
    COMPOSITES(LIST)
#undef LIST
};
enum { N = sizeof composites / sizeof *composites };

/* ---- numbers ------------------------------------------------------------------------------------- */

static tp_tensor *numbers(tp_ctx *tp, tp_dtype dtype, int rank, const int64_t *shape,
                          bool special)
{
    static const double specials[] = {0.0,    -0.0,  INFINITY, -INFINITY, NAN,  1e-42,
                                      -1e-42, 3e38,  -3e38,    88.8f,     -104, 1,
                                      -1.0,   1e-20, 0.5,      709.8};
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    double *v = malloc((size_t)n * sizeof *v);
    assert_non_null(v);
    uint64_t seed = 7;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t r = unit_random(&seed);
        v[i] = special && r % 5 == 0 ? specials[r / 5 % 16] : (double)(r >> 40) * 0x1p-21 - 4;
    }
    tp_tensor *x = tp_cast(tp_tensor_new(tp, TP_F64, rank, shape, v), dtype);
    free(v);
    return x;
}

typedef struct operands {
    tp_tensor *x, *c, *p;
} operands;

static operands operands_of(tp_ctx *tp, tp_dtype dtype, int64_t n, bool special)
{
    return (operands){numbers(tp, dtype, TP_DIMS(n, CHANNELS, PLACES), special),
                      tp_exp(numbers(tp, dtype, TP_DIMS(CHANNELS), false)),
                      numbers(tp, dtype, TP_DIMS(PLACES), false)};
}

/* The ops are called. */
static tp_tensor *by_ops(composite *f, operands o)
{
    tp_ctx *tp = o.x->ctx;
    tp->unfolding = true;
    tp_tensor *y = f(o.x, o.c, o.p);
    tp->unfolding = false;
    return y;
}

static void same(const char *name, tp_tensor *got, tp_tensor *want)
{
    char why[256];
    if (!same_tensors(got, want, SAME_ZEROS_BITS, why, sizeof why))
        fail_msg("%s: %s", name, why);
}

/* ---- bits ---------------------------------------------------------------------------------------- */

static void compare_at(tp_ctx *tp, int i, tp_dtype dtype, int64_t n, bool special)
{
    tp_scope_begin(tp);
    const operands o = operands_of(tp, dtype, n, special);
    tp_tensor *want = by_ops(composites[i].f, o);
    for (int call = 0; call < 3; call++)
        same(composites[i].name, composites[i].f(o.x, o.c, o.p), want);
    tp_scope_end(tp);
}

static void bits_are_those_of_the_ops(void **state)
{
    tp_ctx *tp = *state;
    assert_non_null(tpi_fused_run); /* which links it */
    for (int threads = 1; threads <= 3; threads += 2) {
        tp_threads(tp, threads);
        for (int i = 0; i < N; i++)
            for (int type = TP_F32; type <= TP_F64; type++)
                for (int special = 0; special < 2; special++)
                    for (int n = LEAST; n < LEAST + 5; n += 4)
                        compare_at(tp, i, (tp_dtype)type, n, special);
    }
    assert_int_equal(tp_error(tp), TP_OK);
}

/* The second call makes a program, which is kept until the context is trimmed; from then on there is nothing between x
 * and the result. */
static void second_call_is_fused(void **state)
{
    tp_ctx *tp = *state;
    for (int i = 0; i < N; i++) {
        tp_trim(tp);
        assert_null(tp->fused);
        tp_scope_begin(tp);
        const operands o = operands_of(tp, TP_F32, LEAST, false);
        composites[i].f(o.x, o.c, o.p);
        composites[i].f(o.x, o.c, o.p);
        assert_non_null(tp->fused);
        const size_t before = tp_memory_bytes(tp);
        const tp_tensor *y = composites[i].f(o.x, o.c, o.p);
        const size_t result = (size_t)tp_count(y) * sizeof(float);
        if (tp_memory_bytes(tp) > before + result + 2000)
            fail_msg("%s is not fused: %zu bytes", composites[i].name,
                     tp_memory_bytes(tp) - before - result);
        tp_scope_end(tp);
    }
    assert_int_equal(tp_error(tp), TP_OK);
}

/* What tiles ran for long is compiled. */
static void compiled_in_the_end(void **state)
{
    tp_ctx *tp = *state;
    static composite *const some[] = {gelu_made,       shrink_made,     softplus_made,
                                      softmax_1_made,  layer_norm_made, group_norm_made,
                                      batch_norm_made, prelu_made};
    enum { N_SOME = sizeof some / sizeof *some };
    const operands o = operands_of(tp, TP_F32, LEAST, true);
    tp_tensor *want[N_SOME];
    gelu_made(o.x, o.c, o.p);
    tpi_fused_programs *f = (tpi_fused_programs *)tp->fused;
    f->due_ns = 0;
    for (int i = 0; i < N_SOME; i++) {
        want[i] = by_ops(some[i], o);
        for (int call = 0; call < 2; call++)
            some[i](o.x, o.c, o.p);
    }
    int n = 0;
    for (int i = 0; i < TPI_FUSED_PROGRAMS; i++)
        n += f->entries[i].program && tp_program_wait(f->entries[i].program) == TP_OK;
    if (n == 0 && system("cc --version > /dev/null 2>&1") != 0) {
        print_message("skipped: there is no C compiler\n");
        skip();
    }
    assert_int_equal(n, N_SOME);
    for (int i = 0; i < N_SOME; i++) {
        same("compiled", some[i](o.x, o.c, o.p), want[i]);
        const operands other = operands_of(tp, TP_F32, LEAST + 3, true);
        same("compiled, of another size", some[i](other.x, other.c, other.p),
             by_ops(some[i], other));
    }
    for (int i = 0; i < TPI_FUSED_PROGRAMS; i++)
        if (f->entries[i].program)
            assert_string_equal(tp_program_engine(f->entries[i].program), "c");
}

/* More programs than are kept. */
static void many_numbers(void **state)
{
    tp_ctx *tp = *state;
    const operands o = operands_of(tp, TP_F32, LEAST, false);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 40; i++) {
            tp_scope_begin(tp);
            tp->unfolding = true;
            tp_tensor *want = tp_elu(o.x, 0.1 * i);
            tp->unfolding = false;
            for (int call = 0; call < 2; call++)
                same("elu", tp_elu(o.x, 0.1 * i), want);
            tp_scope_end(tp);
        }
}

static void views_and_lines(void **state)
{
    tp_ctx *tp = *state;
    const operands o = operands_of(tp, TP_F32, 2 * LEAST, false);
    tp_tensor *gaps = tp_slice(o.x, 0, 0, TP_END, 2);
    tp_tensor *line = tp_reshape(o.x, TP_DIMS(-1));
    tp_tensor *one = tp_reshape(o.x, TP_DIMS(1, -1));
    tp->unfolding = true;
    tp_tensor *want[] = {tp_softmax(gaps, 1), tp_softmax(line, 0), tp_softmax(one, 1),
                         tp_prelu(one, one)};
    tp->unfolding = false;
    for (int call = 0; call < 3; call++) {
        same("gaps", tp_softmax(gaps, 1), want[0]);
        same("line", tp_softmax(line, 0), want[1]);
        same("one", tp_softmax(one, 1), want[2]);
        same("slope", tp_prelu(one, tp_reshape(line, TP_DIMS(1, -1))), want[3]);
    }
}

/* ---- gradients ----------------------------------------------------------------------------------- */

/* How x is used beside the composite. */
typedef enum around { ALONE, BEFORE, AFTER, BEFORE_AND_AFTER, N_AROUND } around;

/* A loss that weighs each element otherwise; of a sum of all, where elements weigh alike, for ALONE. */
static tp_tensor *loss_of(composite *f, const operands *o, around a)
{
    tp_tensor *before = a & BEFORE ? tp_tanh(o->x) : NULL;
    tp_tensor *y = f(o->x, o->c, o->p), *loss = tp_sum(y, TP_ALL, false);
    if (a != ALONE)
        loss = tp_sum(tp_mul(tp_sin(y), y), TP_ALL, false);
    if (a & AFTER)
        loss = tp_add(loss, tp_sum(tp_mul(tp_mul(o->x, o->x), 0.3), TP_ALL, false));
    return before ? tp_add(loss, tp_sum(before, TP_ALL, false)) : loss;
}

typedef struct gradients {
    tp_tensor *loss, *dx, *dc, *dp, *ddx;
} gradients;

/* The operands need not all be marked: `marked` has a bit of each. */
static gradients gradients_of(composite *f, tp_dtype dtype, int64_t n, bool special, around a,
                              int marked, bool ops, tp_ctx *tp)
{
    operands o = operands_of(tp, dtype, n, special);
    tp_tensor **const all[] = {&o.x, &o.c, &o.p};
    for (int i = 0; i < 3; i++)
        if (marked >> i & 1)
            tp_require_grad(*all[i]);
    tp->unfolding = ops;
    gradients g = {.loss = loss_of(f, &o, a)};
    if (tp_requires_grad(g.loss)) {
        assert_int_equal(tp_backward(g.loss), TP_OK);
        tp_tensor **const of[] = {&g.dx, &g.dc, &g.dp};
        for (int i = 0; i < 3; i++)
            if (marked >> i & 1)
                *of[i] = tp_grad_of(*all[i]);
    }
    if (marked == 7 && dtype == TP_F64) {
        tp_tensor *dx = tp_grad(g.loss, o.x);
        if (tp_requires_grad(dx))
            g.ddx = tp_grad(tp_sum(tp_mul(dx, dx), TP_ALL, false), o.x);
    }
    tp->unfolding = false;
    return g;
}

static void same_gradients(const char *name, const gradients *got, const gradients *want)
{
    tp_tensor *const all[][2] = {
        {got->loss, want->loss},
        {got->dx,   want->dx  },
        {got->dc,   want->dc  },
        {got->dp,   want->dp  },
        {got->ddx,  want->ddx }
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_equal(all[i][0] == NULL, all[i][1] == NULL);
        if (all[i][0])
            same(name, all[i][0], all[i][1]);
    }
}

/* The gradients of recorded ones have the bits of those of their ops, also where operands have a sum already, and so
 * have the gradients of gradients. */
static void gradients_are_those_of_the_ops(void **state)
{
    tp_ctx *tp = *state;
    for (int i = 0; i < N; i++)
        for (int type = TP_F32; type <= TP_F64; type++)
            for (int k = 0; k < 2 * N_AROUND; k++) {
                const int marked = k == 3 ? 1 : k == 5 ? 6 : 7;
                for (int call = k > 0; call < 2; call++) { /* the first makes it a program */
                    tp_scope_begin(tp);
                    gradients g[2];
                    for (int ops = 0; ops < 2; ops++)
                        g[ops] =
                            gradients_of(composites[i].f, (tp_dtype)type, LEAST, k >= N_AROUND,
                                         (around)(k % N_AROUND), marked, ops, tp);
                    same_gradients(composites[i].name, &g[0], &g[1]);
                    tp_scope_end(tp);
                }
            }
    assert_int_equal(tp_error(tp), TP_OK);
}

/* Forward and back keep x, and nothing between. */
static void a_tape_keeps_nothing_between(void **state)
{
    tp_ctx *tp = *state;
    for (int call = 0; call < 3; call++) {
        tp_scope_begin(tp);
        const operands o = operands_of(tp, TP_F32, LEAST, false);
        tp_require_grad(o.x);
        const size_t before = tp_memory_bytes(tp);
        tp_tensor *y = tp_gelu(o.x);
        const size_t result = (size_t)tp_count(o.x) * sizeof(float);
        if (call == 2 && tp_memory_bytes(tp) > before + result + 2000)
            fail_msg("%zu bytes are kept", tp_memory_bytes(tp) - before - result);
        assert_int_equal(tp_backward(tp_sum(y, TP_ALL, false)), TP_OK);
        tp_scope_end(tp);
    }
}

/* Who reads a tape sees the ops, in their order. */
static void a_tape_shows_the_ops(void **state)
{
    tp_ctx *tp = *state;
    char *text[4];
    for (int call = 0; call < 4; call++) { /* the first makes the numbers in it */
        tp_scope_begin(tp);
        const operands o = operands_of(tp, TP_F32, LEAST, false);
        tp_require_grad(o.x);
        tp->unfolding = call < 2;
        tp_tensor *x = tp_mul(o.x, 2), *y = tp_gelu(tp_layer_norm(x, NULL, o.p, 1e-5));
        tp_tensor *z = tp_add(tp_silu(y), tp_softmax(x, 1));
        tp->unfolding = false;
        text[call] = tp_tape_text(z);
        assert_non_null(text[call]);
        tp_scope_end(tp);
    }
    assert_string_equal(text[2], text[1]);
    assert_string_equal(text[3], text[1]);
    for (int i = 0; i < 4; i++)
        tp_free(tp, text[i]);
}

static tp_tensor *in_turns(tp_tensor *x, tp_tensor *c, tp_tensor *p)
{
    tp_tensor *h = x, *last = x;
    (void)c;
    tp_for (3, &h, &last) {
        last = tp_silu(tp_layer_norm(h, p, tp_neg(p), 1e-5));
        h = tp_add(tp_tanh(h), last);
    }
    return tp_mul(h, last);
}

/* Turns of a loop are calls on the tape. */
static void gradients_through_turns(void **state)
{
    tp_ctx *tp = *state;
    for (int type = TP_F32; type <= TP_F64; type++)
        for (int k = 0; k < N_AROUND; k++)
            for (int call = 0; call < 3; call++) {
                tp_scope_begin(tp);
                gradients g[2];
                for (int ops = 0; ops < 2; ops++)
                    g[ops] = gradients_of(in_turns, (tp_dtype)type, LEAST, false, (around)k, 7,
                                          ops, tp);
                same_gradients("turns", &g[0], &g[1]);
                tp_scope_end(tp);
            }
    assert_int_equal(tp_error(tp), TP_OK);
}

/* A scale that was assigned since is refused, as its product would; a shift is not read; and what else is a
 * variable is not fused. */
static void assigned_operands(void **state)
{
    tp_ctx *tp = *state;
    for (int call = 0; call < 3; call++) {
        tp_scope_begin(tp);
        const operands o = operands_of(tp, TP_F32, LEAST, false);
        tp_tensor *scale = tp_param(tp_neg(o.p), "gamma"), *shift = tp_param(o.p, "shift");
        tp_tensor *v = tp_param(o.x, "v"), *x = tp_require_grad(o.x);
        tp_tensor *y = tp_sum(tp_layer_norm(x, scale, shift, 1e-5), TP_ALL, false);
        tp_tensor *z = tp_sum(tp_sin(tp_softmax(v, -1)), TP_ALL, false);
        tp->unfolding = true;
        tp_tensor *want = tp_sum(tp_sin(tp_softmax(v, -1)), TP_ALL, false);
        tp->unfolding = false;
        tp_assign(shift, tp_exp(o.p));
        assert_int_equal(tp_backward(y), TP_OK);
        tp_assign(v, tp_neg(o.x));
        same("softmax", tp_grad(z, v), tp_grad(want, v));
        tp_assign(scale, tp_exp(o.p));
        assert_int_equal(tp_backward(y), TP_E_STATE);
        assert_non_null(strstr(tp_error_message(tp),
                               "operand 1 gamma was assigned after it was used here"));
        tp_clear_error(tp);
        tp_no_grad(tp) /* nothing of it is read for a shift */
            assert_false(tp_failed(tp_grad(y, shift)));
        assert_true(tp_failed(tp_grad(y, x)));
        assert_non_null(strstr(tp_error_message(tp),
                               "mul: operand 1 gamma was assigned after it was used here"));
        tp_clear_error(tp);
        tp_scope_end(tp);
    }
}

/* Of one axis, where the gradient of a shift is that of the result. */
static void one_axis(void **state)
{
    tp_ctx *tp = *state;
    for (int call = 0; call < 3; call++) {
        tp_tensor *d[2][3];
        tp_scope_begin(tp);
        for (int ops = 0; ops < 2; ops++) {
            tp_tensor *x[3];
            for (int i = 0; i < 3; i++)
                x[i] = tp_require_grad(numbers(tp, TP_F32, TP_DIMS(5000), i == 1));
            tp->unfolding = ops;
            tp_tensor *y = tp_layer_norm(x[0], x[1], x[2], 1e-5);
            assert_int_equal(tp_backward(tp_sum(y, TP_ALL, false)), TP_OK);
            tp->unfolding = false;
            for (int i = 0; i < 3; i++)
                d[ops][i] = tp_grad_of(x[i]);
        }
        for (int i = 0; i < 3; i++)
            same("one axis", d[0][i], d[1][i]);
        tp_scope_end(tp);
    }
}

static void walk(void *user, const tp_vjp *v)
{
    tp_ctx *tp = user;
    char *text = tp_tape_text(v->in[0]);
    tp_free(tp, text);
    const bool was = tp_recording(tp, true);
    tp_tensor *dx;
    tp_grads(tp_sum(tp_sin(v->in[0]), TP_ALL, false), NULL, 1, &v->in[0], &dx);
    tp_recording(tp, was);
    v->din[0] = tp_mul(dx, v->dout[0]);
}

static void sine(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_sin(in[0]);
}

/* dx[0] of a step by the fused composites and by their ops. */
static void same_steps(tp_ctx *tp, tp_tensor *(*step)(tp_ctx *tp, operands o))
{
    for (int call = 0; call < 3; call++) {
        tp_tensor *dx[2];
        tp_scope_begin(tp);
        for (int ops = 0; ops < 2; ops++) {
            const operands o = operands_of(tp, TP_F32, LEAST, false);
            tp->unfolding = ops;
            dx[ops] = step(tp, o);
            tp->unfolding = false;
        }
        same("dx", dx[0], dx[1]);
        tp_scope_end(tp);
    }
    assert_int_equal(tp_error(tp), TP_OK);
}

static tp_tensor *custom_step(tp_ctx *tp, operands o)
{
    static const tp_custom rule = {.name = "sine", .forward = sine, .backward = walk};
    tp_require_grad(o.x);
    tp_tensor *y = tp_softmax(tp_silu(o.x), -1), *z = tp_custom_apply(&rule, tp, 1, &y);
    assert_int_equal(tp_backward(tp_sum(tp_sin(tp_softmax(z, -1)), TP_ALL, false)), TP_OK);
    return tp_grad_of(o.x);
}

/* Functions of the user's walk over a tape while a sweep does. */
static void custom_gradients_walk_over_the_tape(void **state)
{
    same_steps(*state, custom_step);
}

static tp_tensor *unrecorded(tp_tensor *y, tp_tensor *x, tp_tensor *other)
{
    tp_tensor *xs[] = {x, other}, *dx[2];
    tp_no_grad(tp_ctx_of(x)) assert_int_equal(
        tp_grads(tp_sum(tp_sin(y), TP_ALL, false), NULL, other ? 2 : 1, xs, dx), TP_OK);
    return dx[0];
}

static tp_tensor *marked_after_use(tp_ctx *tp, operands o)
{
    (void)tp;
    tp_gelu(o.x);
    tp_require_grad(o.x);
    return unrecorded(tp_softmax(tp_silu(o.x), 1), o.x, NULL);
}

static tp_tensor *beside_another(tp_ctx *tp, operands o)
{
    tp_require_grad(o.x);
    tp_tensor *other = tp_require_grad(numbers(tp, TP_F32, TP_DIMS(3), false));
    return unrecorded(tp_slice(tp_softmax(tp_silu(o.x), 1), 0, 0, 2, 1), o.x, other);
}

/* What is asked for is looked for all over the tape, where it was used before it was marked, or y is none of it. */
static void what_is_asked_for_is_looked_for(void **state)
{
    same_steps(*state, marked_after_use);
    same_steps(*state, beside_another);
}

/* Of an operand that is marked after it was used beside a marked one. */
static void late_mark_beside_a_marked_operand(void **state)
{
    tp_ctx *tp = *state;
    for (int call = 0; call < 3; call++) {
        tp_scope_begin(tp);
        const operands o = operands_of(tp, TP_F32, LEAST, false);
        tp_require_grad(o.p);
        tp_tensor *y = tp_layer_norm(o.x, o.p, NULL, 1e-5);
        tp_require_grad(o.x);
        assert_int_equal(tp_backward(tp_sum(y, TP_ALL, false)), TP_E_STATE);
        tp_clear_error(tp);
        tp_scope_end(tp);
    }
}

/* ---- who looks at ops ------------------------------------------------------------------------------ */

static void trap_tells_of_the_op(void **state)
{
    tp_ctx *tp = *state;
    const operands o = operands_of(tp, TP_F32, LEAST, false);
    tp_tensor *x = tp_where(tp_gt(o.x, 3), -INFINITY, o.x); /* times a sigmoid of 0 */
    for (int call = 0; call < 3; call++)
        tp_silu(x);
    assert_int_equal(tp_error(tp), TP_OK);
    tp_trap_nan(tp, true);
    assert_true(tp_failed(tp_silu(x)));
    assert_non_null(strstr(tp_error_message(tp), "run_fused.c"));
    assert_non_null(strstr(tp_error_message(tp), "mul: "));
    tp_clear_error(tp);
}

/* A gradient that is asked for too late is refused as it is of ops. */
static void late_mark_is_noticed(void **state)
{
    tp_ctx *tp = *state;
    for (int call = 0; call < 3; call++) {
        tp_scope_begin(tp);
        const operands o = operands_of(tp, TP_F32, LEAST, false);
        tp_tensor *y = tp_gelu(o.x);
        tp_require_grad(o.x);
        assert_true(tp_failed(tp_grad(tp_sum(tp_mul(y, o.x), TP_ALL, false), o.x)));
        assert_int_equal(tp_error(tp), TP_E_STATE);
        tp_clear_error(tp);
        tp_scope_end(tp);
    }
}

static void refusals_stay(void **state)
{
    tp_ctx *tp = *state;
    const operands o = operands_of(tp, TP_F32, LEAST, false);
    for (int call = 0; call < 3; call++) {
        assert_true(tp_failed(tp_softmax(o.x, 3)));
        EXPECT_ERROR(tp, TP_E_AXIS, "softmax: axis 3 is out of range for [16, 24, 12]");
        assert_true(tp_failed(tp_layer_norm(o.x, o.c, NULL, 1e-5)));
        assert_int_equal(tp_error(tp), TP_E_SHAPE);
        tp_clear_error(tp);
        assert_true(tp_failed(tp_layer_norm(o.x, o.p, NULL, -1)));
        assert_int_equal(tp_error(tp), TP_E_VALUE);
        tp_clear_error(tp);
    }
}

/* What was the error stays the error. */
static void earlier_error_stays(void **state)
{
    tp_ctx *tp = *state;
    const operands o = operands_of(tp, TP_F32, LEAST, false);
    assert_true(tp_failed(tp_softmax(o.x, 7)));
    char before[256];
    snprintf(before, sizeof before, "%s", tp_error_message(tp));
    for (int call = 0; call < 3; call++)
        assert_false(tp_failed(tp_gelu(o.x)));
    assert_string_equal(tp_error_message(tp), before);
    tp_clear_error(tp);
}

/* ---- memory ------------------------------------------------------------------------------------------ */

/* The same of a step forward and back. */
static long steps_with(long fail_at, bool once)
{
    unit_memory memory = {0};
    tp_ctx *tp = unit_open(&memory);
    assert_non_null(tp);
    operands o = operands_of(tp, TP_F32, LEAST, false);
    tp_require_grad(o.x);
    tp_require_grad(o.p);
    tp->unfolding = true;
    tp_backward(tp_sum(tp_softmax(tp_layer_norm(o.x, o.p, NULL, 1e-5), 1), TP_ALL, false));
    tp->unfolding = false;
    tp_tensor *want[2] = {tp_grad_of(o.x), tp_grad_of(o.p)};
    assert_int_equal(tp_error(tp), TP_OK);
    const long before = memory.calls;
    unit_fail(&memory, fail_at, once);
    int failed = 0;
    for (int call = 0; call < 3; call++) {
        tp_zero_grad(o.x);
        tp_zero_grad(o.p);
        tp_scope_begin(tp);
        tp_tensor *y = tp_softmax(tp_layer_norm(o.x, o.p, NULL, 1e-5), 1);
        char *text = call < 2 ? NULL : tp_tape_text(y);
        tp_free(tp, text);
        const tp_status status = tp_backward(tp_sum(y, TP_ALL, false));
        if (status == TP_OK) {
            same("dx", tp_grad_of(o.x), want[0]);
            same("dp", tp_grad_of(o.p), want[1]);
        } else {
            assert_int_equal(status, TP_E_MEMORY);
            failed++;
        }
        tp_scope_end(tp);
        tp_clear_error(tp);
    }
    if (once)
        assert_true(failed <= 1); /* of what there was no memory for is made the next time */
    const long calls = memory.calls - before;
    unit_fail(&memory, 0, false);
    unit_close(tp, &memory);
    return calls;
}

static void memory_runs_out_on_the_way_back(void **state)
{
    (void)state;
    unit_fail_each(steps_with, 1000);
}

/* Each allocation fails, once or with all that follow: there are the bits, or an error of memory. */
static long calls_with(long fail_at, bool once)
{
    unit_memory memory = {0};
    tp_ctx *tp = unit_open(&memory);
    assert_non_null(tp);
    const operands o = operands_of(tp, TP_F32, LEAST, false);
    tp_tensor *want = by_ops(gelu_made, o);
    assert_int_equal(tp_error(tp), TP_OK);
    const long before = memory.calls;
    unit_fail(&memory, fail_at, once);
    tp_tensor *y[3];
    for (int call = 0; call < 3; call++)
        y[call] = tp_gelu(o.x);
    const long calls = memory.calls - before;
    unit_fail(&memory, 0, false);
    for (int call = 0; call < 3; call++)
        if (tp_failed(y[call]))
            assert_int_equal(tp_status_of(y[call]), TP_E_MEMORY);
        else
            same("gelu", y[call], want);
    unit_close(tp, &memory);
    return calls;
}

static void memory_runs_out(void **state)
{
    (void)state;
    unit_fail_each(calls_with, 1000);
}

/* What a program needs while it runs is not kept: as large as x, for the maxima of columns. */
static void nothing_large_is_kept(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_uniform(tp, TP_F32, TP_DIMS(1024, 512), -1, 1);
    const size_t bytes = (size_t)tp_count(x) * sizeof(float), before = tp_memory_bytes(tp);
    for (int i = 0; i < 3; i++) {
        tp_scope_begin(tp);
        assert_false(tp_failed(tp_softmax(x, 0)));
        tp_scope_end(tp);
    }
    assert_non_null(tp->fused);
    if (tp_memory_bytes(tp) - before > bytes / 2)
        fail_msg("%zu bytes are kept beside x of %zu", tp_memory_bytes(tp) - before, bytes);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(bits_are_those_of_the_ops),
        CASE(second_call_is_fused),
        CASE(compiled_in_the_end),
        CASE(many_numbers),
        CASE(views_and_lines),
        CASE(gradients_are_those_of_the_ops),
        CASE(a_tape_keeps_nothing_between),
        CASE(gradients_through_turns),
        CASE(a_tape_shows_the_ops),
        CASE(assigned_operands),
        CASE(one_axis),
        CASE(custom_gradients_walk_over_the_tape),
        CASE(what_is_asked_for_is_looked_for),
        CASE(late_mark_beside_a_marked_operand),
        CASE(trap_tells_of_the_op),
        CASE(late_mark_is_noticed),
        CASE(refusals_stay),
        CASE(earlier_error_stays),
        CASE(memory_runs_out),
        CASE(memory_runs_out_on_the_way_back),
        CASE(nothing_large_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
