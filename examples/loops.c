/* Loops that end when a value says so, each written as a plain C `while` and as a tp_while:
 *
 *     Collatz            n -> 3n + 1 or n / 2 until it is 1; a branch in a loop
 *     Newton             a root to a tolerance, and its gradient
 *     ODE                steps of a size that adapts to the error, and the gradient
 *     beam search        stops as soon as all beams have ended; the gradient of the best score
 *     power iteration    an eigenvector to a tolerance, and gradients of its value and of itself
 *
 * The plain form runs eagerly, captured, and declared pure; the other one eagerly, in a captured
 * function, and in a static graph, where the loop, and the gradient's loop back, are compiled with
 * a number of turns that only a run knows. Values and gradients are held against closed forms.
 *
 *     loops [--engine reference|tiles|auto|c] [--times] */
#include "forms.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 64 }; /* elements of any argument or result */

#define BODY(name)                                                                             \
    static void name(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
#define UNUSED (void)user, (void)n_in, (void)n_out

/* A tensor that gradients may be asked of; in a graph any is. */
static tp_tensor *asked(tp_tensor *x)
{
    return tp_require_grad(tp_detach(x));
}

static tp_tensor *times(tp_tensor *x, double factor)
{
    return tp_mul(x, factor);
}

static tp_tensor *plus(tp_tensor *x, double more)
{
    return tp_add(x, more);
}

static tp_tensor *above(tp_tensor *x, double bound)
{
    return tp_gt(x, bound);
}

static tp_tensor *largest(tp_tensor *x)
{
    return tp_reduce_max(tp_abs(x), TP_ALL, false);
}

/* What a check finds: how far something is from what it should be. */
static double farther(double worst, double got, double right)
{
    const double off = fabs(got - right) / fmax(1, fabs(right));
    return off <= worst ? worst : off; /* a NaN stays */
}

/* ---- Collatz: n i64 [] -> steps i64 [] ---------------------------------------------------- */

static void collatz_inputs(tp_ctx *tp, int64_t call, tp_tensor **in)
{
    in[0] = tp_scalar(tp, TP_I64, (double)(call * 7 % 61 + 1));
}

static tp_tensor *is_odd(tp_tensor *n)
{
    return tp_eq(tp_mod(n, 2), 1);
}

static tp_tensor *half(tp_tensor *n)
{
    return tp_div(n, 2);
}

BODY(collatz_plain)
{
    UNUSED;
    tp_tensor *n = in[0], *steps = tp_scalar_like(n, 0);
    while (tp_truth(above(n, 1))) {
        if (tp_truth(is_odd(n)))
            n = plus(times(n, 3), 1);
        else
            n = half(n);
        steps = plus(steps, 1);
    }
    out[0] = steps;
}

BODY(collatz_blocks)
{
    UNUSED;
    tp_tensor *n = in[0], *steps = tp_scalar_like(n, 0);
    tp_while (above(n, 1), &n, &steps) {
        tp_if (is_odd(n), &n) {
            n = plus(times(n, 3), 1);
        }
        tp_else
        {
            n = half(n);
        }
        steps = plus(steps, 1);
    }
    out[0] = steps;
}

static double collatz_check(const double (*in)[MOST], const double (*out)[MOST])
{
    int64_t n = (int64_t)in[0][0], steps = 0;
    for (; n > 1; steps++)
        n = n % 2 ? 3 * n + 1 : n / 2;
    return farther(0, out[0][0], (double)steps);
}

/* ---- Newton: a f64 [8] -> z with z^3 + z = a, dz/da = 1 / (3z^2 + 1) ----------------------- */

static void newton_inputs(tp_ctx *tp, int64_t call, tp_tensor **in)
{
    const double size = 1 + (double)(call * 7 % 20);
    in[0] = drawn(tp, (uint64_t)call, TP_F64, TP_DIMS(8), -size, size);
}

static tp_tensor *residual(tp_tensor *z, tp_tensor *a)
{
    return tp_sub(tp_add(tp_mul(tp_square(z), z), z), a);
}

static tp_tensor *newton_step(tp_tensor *z, tp_tensor *a)
{
    return tp_sub(z, tp_div(residual(z, a), plus(times(tp_square(z), 3), 1)));
}

static tp_tensor *is_far(tp_tensor *z, tp_tensor *a)
{
    return above(largest(residual(z, a)), 1e-11);
}

BODY(newton_plain)
{
    UNUSED;
    tp_tensor *a = asked(in[0]), *z = a;
    while (tp_truth(is_far(z, a)))
        z = newton_step(z, a);
    out[0] = z;
    if (n_out > 1)
        out[1] = tp_grad(z, a);
}

BODY(newton_blocks)
{
    UNUSED;
    tp_tensor *a = asked(in[0]), *z = a;
    tp_while (is_far(z, a), &z) {
        z = newton_step(z, a);
    }
    out[0] = z;
    if (n_out > 1)
        out[1] = tp_grad(z, a);
}

static double newton_check(const double (*in)[MOST], const double (*out)[MOST])
{
    double worst = 0;
    for (int i = 0; i < 8; i++) {
        const double z = out[0][i];
        worst = farther(worst, z * z * z + z, in[0][i]);
        worst = farther(worst, out[1][i], 1 / (3 * z * z + 1));
    }
    return worst;
}

/* ---- ODE: y' = -k y from y0 at 0 to y at 1, by Bogacki and Shampine's pair of orders 3 and 2:
 * y0, k f64 [3] -> y, its gradients to y0 and k -------------------------------------------- */

static const double tolerance = 1e-8;

static void ode_inputs(tp_ctx *tp, int64_t call, tp_tensor **in)
{
    in[0] = drawn(tp, (uint64_t)call, TP_F64, TP_DIMS(3), 0.5, 1.5);
    in[1] = drawn(tp, (uint64_t)call + 1000, TP_F64, TP_DIMS(3), 0.5, 2 + 0.5 * (double)call);
}

/* One step of size h: y after it; and the error, which is no matter of gradients. */
static tp_tensor *ode_step(tp_tensor *y, tp_tensor *k, tp_tensor *h, tp_tensor **error)
{
    tp_tensor *f1 = tp_neg(tp_mul(k, y));
    tp_tensor *f2 = tp_neg(tp_mul(k, tp_add(y, tp_mul(times(h, 0.5), f1))));
    tp_tensor *f3 = tp_neg(tp_mul(k, tp_add(y, tp_mul(times(h, 0.75), f2))));
    tp_tensor *slope =
        tp_add(tp_add(times(f1, 2.0 / 9), times(f2, 1.0 / 3)), times(f3, 4.0 / 9));
    tp_tensor *next = tp_add(y, tp_mul(h, slope));
    tp_tensor *f4 = tp_neg(tp_mul(k, next));
    tp_tensor *off = tp_add(tp_add(times(f1, -5.0 / 72), times(f2, 1.0 / 12)),
                            tp_add(times(f3, 1.0 / 9), times(f4, -1.0 / 8)));
    *error = tp_detach(largest(tp_mul(h, off)));
    return next;
}

/* The size of the next step after one of size h. */
static tp_tensor *next_size(tp_tensor *h, tp_tensor *error)
{
    tp_tensor *ratio = tp_div(tolerance, error);
    tp_tensor *factor = times(tp_pow(ratio, 1.0 / 3), 0.9);
    return tp_mul(h, tp_clip(factor, 0.2, 5));
}

static tp_tensor *what_is_left(tp_tensor *h, tp_tensor *t)
{
    return tp_min(h, tp_sub(1, t));
}

static tp_tensor *is_good(tp_tensor *error)
{
    return tp_le(error, tolerance);
}

static tp_tensor *is_before_end(tp_tensor *t)
{
    return tp_lt(t, 1);
}

BODY(ode_plain)
{
    UNUSED;
    tp_tensor *y0 = asked(in[0]), *k = asked(in[1]), *y = y0;
    tp_tensor *t = tp_scalar_like(y, 0), *h = tp_scalar_like(y, 0.25);
    while (tp_truth(is_before_end(t))) {
        tp_tensor *error, *step = what_is_left(h, t), *next = ode_step(y, k, step, &error);
        if (tp_truth(is_good(error))) {
            y = next;
            t = tp_add(t, step);
        }
        h = next_size(step, error);
    }
    out[0] = y;
    if (n_out > 1)
        tp_grads(y, NULL, 2, (tp_tensor *const[]){y0, k}, out + 1);
}

BODY(ode_blocks)
{
    UNUSED;
    tp_tensor *y0 = asked(in[0]), *k = asked(in[1]), *y = y0;
    tp_tensor *t = tp_scalar_like(y, 0), *h = tp_scalar_like(y, 0.25);
    tp_while (is_before_end(t), &t, &h, &y) {
        tp_tensor *error, *step = what_is_left(h, t), *next = ode_step(y, k, step, &error);
        tp_if (is_good(error), &y, &t) {
            y = next;
            t = tp_add(t, step);
        }
        h = next_size(step, error);
    }
    out[0] = y;
    if (n_out > 1)
        tp_grads(y, NULL, 2, (tp_tensor *const[]){y0, k}, out + 1);
}

static double ode_check(const double (*in)[MOST], const double (*out)[MOST])
{
    double worst = 0;
    for (int i = 0; i < 3; i++) {
        const double y0 = in[0][i], k = in[1][i];
        worst = farther(worst, out[0][i], y0 * exp(-k));
        worst = farther(worst, out[1][i], exp(-k));
        worst = farther(worst, out[2][i], -y0 * exp(-k));
    }
    return worst;
}

/* ---- beam search: what follows a token [TOKENS, TOKENS] (logits), the first token i64 [] ->
 * the best score [], its tokens [LONGEST], turns taken [], the score's gradient to the logits,
 * which END ends ----------------------------------------------------------------------------- */

enum { TOKENS = 6, BEAMS = 3, LONGEST = 10, END = 0 };

typedef struct beams {
    tp_tensor *scores, *last, *tokens, *turn; /* [BEAMS], [BEAMS], [BEAMS, LONGEST], [] */
} beams;

static void beam_inputs(tp_ctx *tp, int64_t call, tp_tensor **in)
{
    const double to_end = 2 * (double)(call % 4) / 3; /* some end soon, some never */
    in[0] = drawn(tp, (uint64_t)call, TP_F32, TP_DIMS(TOKENS, TOKENS), -1, 1);
    tp_tensor *ends = tp_one_hot(tp_scalar(tp, TP_I64, END), TOKENS, TP_F32);
    in[0] = tp_add(in[0], times(ends, to_end));
    in[1] = tp_scalar(tp, TP_I64, (double)(1 + call % (TOKENS - 1)));
}

static beams beams_begin(tp_tensor *first)
{
    tp_ctx *tp = tp_ctx_of(first);
    beams b;
    b.last = tp_broadcast(first, TP_DIMS(BEAMS));
    b.turn = tp_scalar_like(first, 0);
    b.tokens = tp_full(tp, TP_I64, TP_DIMS(BEAMS, LONGEST), END);
    /* one beam at first: the others are hopeless */
    tp_tensor *place = tp_arange(tp, TP_F32, BEAMS, 0, 1);
    b.scores = times(tp_min(place, 1), -1e9);
    return b;
}

static tp_tensor *beams_go_on(tp_tensor *last, tp_tensor *turn)
{
    tp_tensor *alive = tp_ne(last, END);
    tp_tensor *n = tp_sum(tp_cast(alive, TP_I64), TP_ALL, false);
    return tp_and(above(n, 0), tp_lt(turn, LONGEST));
}

/* A beam that has ended goes on as it is; the others with every token. The best ones stay. */
static void beams_turn(tp_tensor *follow, beams *b)
{
    tp_ctx *tp = tp_ctx_of(follow);
    tp_tensor *ended = tp_unsqueeze(tp_eq(b->last, END), 1);
    tp_tensor *token = tp_arange(tp, TP_F32, TOKENS, 0, 1);
    tp_tensor *only_end = times(tp_min(token, 1), -1e9);
    tp_tensor *more = tp_where(ended, only_end, tp_gather(follow, b->last, 0));
    tp_tensor *all = tp_reshape(tp_add(tp_unsqueeze(b->scores, 1), more), TP_DIMS(-1));
    tp_tensor *best = tp_argtopk(all, 0, BEAMS, true);
    b->scores = tp_take_along(all, best, 0);
    tp_tensor *from = tp_div(best, TOKENS);
    b->last = tp_mod(best, TOKENS);
    tp_tensor *here = tp_eq(tp_arange(tp, TP_I64, LONGEST, 0, 1), b->turn);
    b->tokens = tp_where(here, tp_unsqueeze(b->last, 1), tp_gather(b->tokens, from, 0));
    b->turn = plus(b->turn, 1);
}

static void beams_end(tp_tensor *logits, const beams *b, int n_out, tp_tensor **out)
{
    out[0] = tp_select(b->scores, 0, 0);
    out[1] = tp_select(b->tokens, 0, 0);
    out[2] = b->turn;
    if (n_out > 3)
        out[3] = tp_grad(out[0], logits);
}

BODY(beam_plain)
{
    UNUSED;
    tp_tensor *logits = asked(in[0]), *follow = tp_log_softmax(logits, 1);
    beams b = beams_begin(in[1]);
    while (tp_truth(beams_go_on(b.last, b.turn)))
        beams_turn(follow, &b);
    beams_end(logits, &b, n_out, out);
}

BODY(beam_blocks)
{
    UNUSED;
    tp_tensor *logits = asked(in[0]), *follow = tp_log_softmax(logits, 1);
    beams b = beams_begin(in[1]);
    tp_while (beams_go_on(b.last, b.turn), &b.scores, &b.last, &b.tokens, &b.turn) {
        beams_turn(follow, &b);
    }
    beams_end(logits, &b, n_out, out);
}

/* The score is what the tokens say; a logit's gradient: how often its token followed minus how often
 * it was to be expected. */
static double beam_check(const double (*in)[MOST], const double (*out)[MOST])
{
    double score = 0, gradient[MOST] = {0}, worst = 0;
    int at = (int)in[1][0], turns = 0;
    for (int i = 0; i < (int)out[2][0] && at != END; i++, turns++) {
        const double *row = in[0] + at * TOKENS;
        const int next = (int)out[1][i];
        double sum = 0;
        for (int k = 0; k < TOKENS; k++)
            sum += exp(row[k]);
        for (int k = 0; k < TOKENS; k++)
            gradient[at * TOKENS + k] -= exp(row[k]) / sum;
        gradient[at * TOKENS + next] += 1;
        score += row[next] - log(sum);
        at = next;
    }
    worst = farther(worst, out[0][0], score);
    for (int i = 0; i < TOKENS * TOKENS; i++)
        worst = farther(worst, out[3][i], gradient[i]);
    return turns == 0 || (at != END && turns < LONGEST) ? INFINITY : worst;
}

/* ---- power iteration: a symmetric f64 [5, 5], c [5] -> its largest eigenvalue [], the
 * eigenvector v [5], the gradients of the value and of c . v to a -------------------------- */

enum { N = 5 };

/* Eigenvalues, and eigenvectors as the columns of a reflection. */
static void spectrum(int64_t call, double *values, double (*vectors)[N])
{
    double u[N], size = 0;
    for (int i = 0; i < N; i++) {
        values[i] = pow(0.3 + 0.02 * (double)call, i) * 3;
        u[i] = sin(1 + i + (double)call);
        size += u[i] * u[i];
    }
    u[0] += u[0] < 0 ? -2 : 2; /* the first one is not orthogonal to where we start */
    size = 0;
    for (int i = 0; i < N; i++)
        size += u[i] * u[i];
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            vectors[i][k] = (i == k) - 2 * u[i] * u[k] / size;
}

static void power_inputs(tp_ctx *tp, int64_t call, tp_tensor **in)
{
    double values[N], q[N][N], a[N][N] = {{0}}, c[N];
    call = call * 7 % 10;
    spectrum(call, values, q);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            for (int j = 0; j < N; j++)
                a[i][k] += q[i][j] * values[j] * q[k][j];
    for (int i = 0; i < N; i++)
        c[i] = i - 1.5;
    in[0] = tp_tensor_new(tp, TP_F64, TP_DIMS(N, N), a);
    in[1] = tp_tensor_new(tp, TP_F64, TP_DIMS(N), c);
    in[2] = tp_scalar(tp, TP_I64, (double)call); /* for the check */
}

static tp_tensor *power_step(tp_tensor *a, tp_tensor *v, tp_tensor **change)
{
    tp_tensor *w = tp_matmul(a, v);
    tp_tensor *next = tp_mul(w, tp_rsqrt(tp_sum(tp_square(w), TP_ALL, false)));
    *change = tp_detach(largest(tp_sub(next, v)));
    return next;
}

static tp_tensor *power_start(tp_tensor *a)
{
    return tp_broadcast(tp_scalar_like(a, 1 / sqrt(N)), TP_DIMS(N));
}

static void power_end(tp_tensor *a, tp_tensor *v, tp_tensor *c, int n_out, tp_tensor **out)
{
    out[0] = tp_sum(tp_mul(v, tp_matmul(a, v)), TP_ALL, false);
    out[1] = v;
    if (n_out < 4)
        return;
    out[2] = tp_grad(out[0], a);
    out[3] = tp_grad(tp_sum(tp_mul(c, v), TP_ALL, false), a);
}

BODY(power_plain)
{
    UNUSED;
    tp_tensor *a = asked(in[0]), *v = power_start(a), *change = tp_scalar_like(a, 1);
    while (tp_truth(above(change, 1e-13)))
        v = power_step(a, v, &change);
    power_end(a, v, in[1], n_out, out);
}

BODY(power_blocks)
{
    UNUSED;
    tp_tensor *a = asked(in[0]), *v = power_start(a), *change = tp_scalar_like(a, 1);
    tp_while (above(change, 1e-13), &v, &change) {
        v = power_step(a, v, &change);
    }
    power_end(a, v, in[1], n_out, out);
}

/* d value / da = v v';  d (c . v) / da = (the sum over the others of q (q . c) / (value - its)) v'. */
static double power_check(const double (*in)[MOST], const double (*out)[MOST])
{
    double values[N], q[N][N], worst = 0, left[N] = {0};
    spectrum((int64_t)in[2][0], values, q);
    const double sign = out[1][0] * q[0][0] < 0 ? -1 : 1;
    for (int j = 1; j < N; j++) {
        double dot = 0;
        for (int i = 0; i < N; i++)
            dot += q[i][j] * in[1][i];
        for (int i = 0; i < N; i++)
            left[i] += q[i][j] * dot / (values[0] - values[j]);
    }
    worst = farther(worst, out[0][0], values[0]);
    for (int i = 0; i < N; i++) {
        worst = farther(worst, out[1][i], sign * q[i][0]);
        for (int k = 0; k < N; k++) {
            worst = farther(worst, out[2][i * N + k], q[i][0] * q[k][0]);
            worst = farther(worst, out[3][i * N + k], sign * left[i] * q[k][0]);
        }
    }
    return worst;
}

/* ---- all ---------------------------------------------------------------------------------- */

typedef struct loop {
    const char *name;
    tp_body plain, blocks;
    int n_in, n_out, n_values; /* results that are no gradients come first */
    int64_t calls;
    void (*inputs)(tp_ctx *tp, int64_t call, tp_tensor **in);
    double (*check)(const double (*in)[MOST], const double (*out)[MOST]);
    double bound; /* of what the check finds */
} loop;

static const loop loops[] = {
    {"Collatz",         collatz_plain, collatz_blocks, 1, 1, 1, 30, collatz_inputs, collatz_check, 0   },
    {"Newton",          newton_plain,  newton_blocks,  1, 2, 1, 20, newton_inputs,  newton_check,  1e-5},
    {"ODE",             ode_plain,     ode_blocks,     2, 3, 1, 8,  ode_inputs,     ode_check,     1e-5},
    {"beam search",     beam_plain,    beam_blocks,    2, 4, 3, 24, beam_inputs,    beam_check,    1e-4},
    {"power iteration", power_plain,   power_blocks,   3, 4, 2, 10, power_inputs,   power_check,
     1e-8                                                                                              },
};

/* How far the results of all calls are from what they should be. */
static double worst_of(const loop *l, const outcome *o)
{
    double in[FORMS_MOST][MOST], out[FORMS_MOST][MOST], worst = o->good ? 0 : INFINITY;
    tp_ctx *tp = tp_open(NULL);
    for (int64_t i = 0; i < l->calls && worst < INFINITY; i++) {
        tp_tensor *given[FORMS_MOST];
        tp_scope_begin(tp);
        l->inputs(tp, i, given);
        for (int k = 0; k < l->n_in; k++)
            tp_read(tp_cast(given[k], TP_F64), in[k],
                    (size_t)tp_count(given[k]) * sizeof(double));
        tp_scope_end(tp);
        for (int k = 0; k < l->n_out; k++)
            if (outcome_read(o, i, k, out[k], MOST) < 0)
                worst = INFINITY;
        const double found = l->check((const double(*)[MOST])in, (const double(*)[MOST])out);
        worst = found <= worst ? worst : found;
    }
    worst = tp_error(tp) == TP_OK ? worst : INFINITY;
    tp_close(tp);
    return worst;
}

/* The values of the plain form and of the one with blocks. */
static bool equal_values(const loop *l, const outcome *a, const outcome *b)
{
    for (int64_t i = 0; i < l->calls; i++)
        for (int k = 0; k < l->n_values; k++) {
            double x[MOST], y[MOST];
            const int64_t n = outcome_read(a, i, k, x, MOST);
            if (n < 0 || n != outcome_read(b, i, k, y, MOST) ||
                memcmp(x, y, (size_t)n * sizeof *x) != 0)
                return false;
        }
    return true;
}

/* The plain form, and the one with blocks: with gradients, and without, which is where a function that
 * is declared pure becomes a loop itself. */
static bool run(const loop *l, const options *how)
{
    static const form matched[] = {FORM_MATCHED}, pure[] = {FORM_PURE},
                      block_forms[] = {FORM_MATCHED, FORM_GRAPH};
    char name[100];
    work w = {.name = name,
              .body = l->plain,
              .n_in = l->n_in,
              .n_out = l->n_out,
              .calls = l->calls,
              .inputs = l->inputs};
    outcome plain, blocks;
    snprintf(name, sizeof name, "%s, plain C while", l->name);
    bool good = work_show(&w, 1, matched, how, &plain);
    good = show_error("off by", worst_of(l, &plain), l->bound) && good;
    work values = w;
    values.n_out = l->n_values;
    values.calls = 4 * l->calls;
    good = work_show(&values, 1, pure, how, NULL) && good;
    snprintf(name, sizeof name, "%s, tp_while", l->name);
    w.body = l->blocks;
    good = work_show(&w, 2, block_forms, how, &blocks) && good;
    good = show_error("off by", worst_of(l, &blocks), l->bound) && good;
    const bool equal = equal_values(l, &plain, &blocks);
    printf("%s, plain C and blocks: %s values\n", l->name, equal ? "equal" : "DIFFERENT");
    outcome_free(&plain);
    outcome_free(&blocks);
    return good && equal;
}

int main(int argc, char **argv)
{
    options how;
    if (!parse_options(argc, argv, &how))
        return 2;
    bool good = true;
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
        good = run(&loops[i], &how) && good;
    return !good;
}
