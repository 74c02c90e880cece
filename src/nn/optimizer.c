/* Optimisers. A step is written once, with the public ops: on a concrete loss they compute, on
 * a symbolic one they add nodes. All new values are made before the first is assigned, so that
 * a step that fails changes nothing. */
#include "tapir/nn.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#undef TP_PLACE
#define TP_PLACE file, line

typedef struct update {
    tp_tensor *var, *value;
} update;

/* Numbers of one step, of the element type of the parameters they are for. */
typedef struct step_scalars {
    tp_tensor *rate;  /* adam: divided by 1 - beta1^t */
    tp_tensor *scale; /* adam: 1 / sqrt(1 - beta2^t) */
    tp_tensor *keep;  /* adam: what decay leaves of w, or NULL */
} step_scalars;

struct tp_optimizer {
    tp_ctx *tp;
    bool adam;
    int n;                             /* parameters */
    double beta1, beta2, eps, decay;   /* sgd: beta1 is the momentum */
    double rest1, rest2;               /* adam: 1 - beta1, 1 - beta2 */
    tp_tensor *rate, *power1, *power2; /* f64 variables: the rate, beta1^t, beta2^t */
    tp_tensor **w, **m, **v;           /* [n]: parameters, and state (NULL: none) */
    tp_tensor **dw;                    /* [n], of one step, as all that follows */
    update *updates;                   /* [3 * n + 2] */
    int n_updates;
    tp_tensor **done;   /* [3 * n + 2]: what the assignments gave */
    tp_tensor *slots[]; /* w, m, v, dw, done */
};

/* ---- making ----------------------------------------------------------------------------------- */

/* A variable of our own, which outlives the open scope. */
static tp_tensor *hold(const char *file, int line, tp_tensor *init, const char *name)
{
    return tp_retain(tp_variable(init, name));
}

/* The same, failed ones too: tp_optimizer_free releases them. */
static tp_tensor *zeros_like(const char *file, int line, tp_tensor *w, char part)
{
    tp_ctx *tp = tp_ctx_of(w);
    const char *name = tp_name_of(w);
    const size_t length = name ? strlen(name) : 0;
    char *full = tp_alloc(tp, length + 3);
    if (!full)
        return tp_retain(tp_fail(tp, TP_E_MEMORY, "out of memory"));
    memcpy(full, name ? name : "", length);
    full[length] = '.';
    full[length + 1] = part;
    int64_t shape[TP_MAX_RANK];
    for (int a = 0; a < tp_rank(w); a++)
        shape[a] = tp_size(w, a);
    tp_tensor *zeros = tp_full(tp, tp_dtype_of(w), tp_rank(w), shape, 0);
    tp_tensor *var = hold(file, line, zeros, full);
    tp_free(tp, full);
    return var;
}

static bool good_params(const char *file, int line, tp_ctx *tp, int n, tp_tensor *const *params)
{
    if (n < 1 || n > 1 << 24 || !params) {
        tp_fail(tp, n < 1 ? TP_E_VALUE : TP_E_NULL, "an optimizer needs parameters");
        return false;
    }
    for (int i = 0; i < n; i++) {
        const tp_tensor *w = params[i];
        const char *why = NULL;
        tp_status status = tp_status_of(w);
        if (!w) {
            why = "is NULL";
        } else if (status != TP_OK) {
            why = tp_error_text(w);
        } else if (tp_ctx_of(w) != tp) {
            why = "is of another context";
            status = TP_E_CTX;
        } else if (tp_is_symbolic(w) || !tp_requires_grad(w) || !tp_name_of(w)) {
            why = "was not made by tp_param";
            status = TP_E_STATE;
        }
        for (int k = 0; k < i && !why; k++) {
            why = params[k] == w ? "is there twice" : NULL;
            status = why ? TP_E_VALUE : status;
        }
        if (why) {
            char text[300];
            snprintf(text, sizeof text, "parameter %d of the optimizer %s", i, why);
            tp_fail(tp, status, text);
            return false;
        }
    }
    return true;
}

/* Is 0 <= x < limit? By the bits, which have the order of numbers without a sign: a host may have
 * floating-point exceptions unmasked, which a comparison would raise. */
static bool in_range(double x, double limit)
{
    uint64_t bits, end;
    memcpy(&bits, &x, sizeof bits);
    memcpy(&end, &limit, sizeof end);
    return bits < end || bits == (uint64_t)1 << 63;
}

static bool is_finite(double x)
{
    return in_range(x, INFINITY) || in_range(-x, INFINITY);
}

static bool is_zero(double x)
{
    return in_range(x, 5e-324);
}

/* Are they numbers that a tensor would take? */
static bool are_numbers(const char *file, int line, tp_ctx *tp, int n, const double *v)
{
    bool good = tp_scope_begin(tp) == TP_OK;
    if (!good)
        return false;
    for (int i = 0; i < n && good; i++)
        good = !tp_failed(tp_scalar(tp, TP_F64, v[i]));
    tp_scope_end(tp);
    return good;
}

static tp_optimizer *optimizer_new(const char *file, int line, tp_ctx *tp, double rate, int n,
                                   tp_tensor *const *params)
{
    if (!is_finite(rate)) {
        tp_fail(tp, TP_E_VALUE, "the rate is not finite");
        return NULL;
    }
    if (!tp || !good_params(file, line, tp, n, params))
        return NULL;
    const size_t k = (size_t)n;
    tp_optimizer *o = tp_alloc(tp, sizeof *o + (7 * k + 2) * sizeof *o->slots);
    update *updates = o ? tp_alloc(tp, (3 * k + 2) * sizeof *updates) : NULL;
    if (!updates) {
        tp_free(tp, o);
        return NULL;
    }
    o->tp = tp;
    o->n = n;
    o->w = o->slots;
    o->m = o->w + n;
    o->v = o->m + n;
    o->dw = o->v + n;
    o->done = o->dw + n;
    o->updates = updates;
    for (int i = 0; i < n; i++)
        o->w[i] = tp_retain(params[i]);
    return o;
}

/* 1 - x */
static tp_tensor *rest(const char *file, int line, tp_tensor *x)
{
    return tp_sub(1, x);
}

/* Makes the state; frees the optimiser when that cannot be had. */
static tp_optimizer *with_state(const char *file, int line, tp_optimizer *o, double rate)
{
    tp_ctx *tp = o->tp;
    bool good = tp_scope_begin(tp) == TP_OK;
    if (good) {
        o->rate =
            hold(file, line, tp_scalar(tp, TP_F64, rate), o->adam ? "adam.rate" : "sgd.rate");
        good = !tp_failed(o->rate);
        if (o->adam) {
            o->power1 = hold(file, line, tp_scalar(tp, TP_F64, 1), "adam.power1");
            o->power2 = hold(file, line, tp_scalar(tp, TP_F64, 1), "adam.power2");
            /* By ops: in C the caller's rounding would decide. */
            o->rest1 = tp_item(rest(file, line, tp_scalar(tp, TP_F64, o->beta1)));
            o->rest2 = tp_item(rest(file, line, tp_scalar(tp, TP_F64, o->beta2)));
            good = good && !tp_failed(o->power1) && !tp_failed(o->power2) &&
                   is_finite(o->rest1) && is_finite(o->rest2);
        }
        for (int i = 0; i < o->n && good; i++) {
            if (o->adam)
                o->m[i] = zeros_like(file, line, o->w[i], 'm');
            if (o->adam || !is_zero(o->beta1))
                o->v[i] = zeros_like(file, line, o->w[i], 'v');
            good = !(o->m[i] && tp_failed(o->m[i])) && !(o->v[i] && tp_failed(o->v[i]));
        }
        tp_scope_end(tp);
    }
    if (good)
        return o;
    tp_optimizer_free(o);
    return NULL;
}

tp_optimizer *tp_sgd_new_at(const char *file, int line, tp_ctx *tp, double rate,
                            double momentum, int n, tp_tensor *const *params)
{
    if (!are_numbers(file, line, tp, 1, &momentum))
        return NULL;
    if (!in_range(momentum, 1)) {
        tp_fail(tp, TP_E_VALUE, "the momentum is not in [0, 1)");
        return NULL;
    }
    tp_optimizer *o = optimizer_new(file, line, tp, rate, n, params);
    if (!o)
        return NULL;
    o->beta1 = momentum;
    return with_state(file, line, o, rate);
}

tp_optimizer *(tp_sgd_new)(tp_ctx *tp, double rate, double momentum, int n,
                           tp_tensor *const *params)
{
    return tp_sgd_new_at(NULL, 0, tp, rate, momentum, n, params);
}

tp_optimizer *tp_adam_new_at(const char *file, int line, tp_ctx *tp, double rate, double beta1,
                             double beta2, double eps, double decay, int n,
                             tp_tensor *const *params)
{
    if (!are_numbers(file, line, tp, 4, (const double[]){beta1, beta2, eps, decay}))
        return NULL;
    if (!in_range(beta1, 1) || !in_range(beta2, 1)) {
        tp_fail(tp, TP_E_VALUE, "beta1 and beta2 are not both in [0, 1)");
        return NULL;
    }
    if (!in_range(eps, INFINITY) || !in_range(decay, INFINITY)) {
        tp_fail(tp, TP_E_VALUE, "eps and decay are not both finite and at least 0");
        return NULL;
    }
    tp_optimizer *o = optimizer_new(file, line, tp, rate, n, params);
    if (!o)
        return NULL;
    o->adam = true;
    o->beta1 = beta1;
    o->beta2 = beta2;
    o->eps = eps;
    o->decay = decay;
    return with_state(file, line, o, rate);
}

tp_optimizer *(tp_adam_new)(tp_ctx *tp, double rate, double beta1, double beta2, double eps,
                            double decay, int n, tp_tensor *const *params)
{
    return tp_adam_new_at(NULL, 0, tp, rate, beta1, beta2, eps, decay, n, params);
}

void tp_optimizer_free(tp_optimizer *o)
{
    if (!o)
        return;
    for (int i = 0; i < 3 * o->n; i++) /* w, m, v */
        tp_release(o->slots[i]);
    tp_release(o->rate);
    tp_release(o->power1);
    tp_release(o->power2);
    tp_ctx *tp = o->tp;
    tp_free(tp, o->updates);
    tp_free(tp, o);
}

tp_status tp_optimizer_set_rate_at(const char *file, int line, tp_optimizer *o, double rate)
{
    if (!o)
        return TP_E_NULL;
    if (!is_finite(rate))
        return tp_status_of(tp_fail(o->tp, TP_E_VALUE, "the rate is not finite"));
    if (tp_scope_begin(o->tp) != TP_OK)
        return TP_E_MEMORY;
    const tp_status status = tp_status_of(tp_assign(o->rate, tp_scalar(o->tp, TP_F64, rate)));
    tp_scope_end(o->tp);
    return status;
}

tp_status(tp_optimizer_set_rate)(tp_optimizer *o, double rate)
{
    return tp_optimizer_set_rate_at(NULL, 0, o, rate);
}

/* ---- a step ------------------------------------------------------------------------------------- */

/* A variable as the loss's graph reads it, or itself. */
static tp_tensor *now(const char *file, int line, const tp_tensor *loss, tp_tensor *var)
{
    tp_graph *g = tp_graph_of(loss);
    return g ? tp_graph_read(g, var) : var;
}

static void plan(tp_optimizer *o, tp_tensor *var, tp_tensor *value)
{
    o->updates[o->n_updates++] = (update){var, tp_keep(value)};
}

/* x * value */
static tp_tensor *times(const char *file, int line, tp_tensor *x, double value)
{
    return tp_mul(x, value);
}

/* The step's numbers are computed in f64 and rounded once, to the parameters' type. */
static step_scalars scalars_of(const char *file, int line, tp_optimizer *o,
                               const tp_tensor *loss, tp_dtype dtype, tp_tensor *power1,
                               tp_tensor *power2)
{
    step_scalars s = {.rate = now(file, line, loss, o->rate)};
    if (!is_zero(o->decay))
        s.keep = tp_cast(rest(file, line, times(file, line, s.rate, o->decay)), dtype);
    if (o->adam) {
        s.rate = tp_div(s.rate, rest(file, line, power1));
        s.scale = tp_cast(tp_rsqrt(rest(file, line, power2)), dtype);
    }
    s.rate = tp_cast(s.rate, dtype);
    return s;
}

static void sgd_update(const char *file, int line, tp_optimizer *o, int i,
                       const tp_tensor *loss, const step_scalars *s)
{
    tp_tensor *step = o->dw[i], *w = now(file, line, loss, o->w[i]);
    if (o->v[i]) {
        tp_tensor *v = now(file, line, loss, o->v[i]);
        step = tp_add(times(file, line, v, o->beta1), step);
        plan(o, o->v[i], step);
    }
    plan(o, o->w[i], tp_sub(w, tp_mul(s->rate, step)));
}

static void adam_update(const char *file, int line, tp_optimizer *o, int i,
                        const tp_tensor *loss, const step_scalars *s)
{
    tp_tensor *g = o->dw[i], *w = now(file, line, loss, o->w[i]);
    tp_tensor *m = now(file, line, loss, o->m[i]), *v = now(file, line, loss, o->v[i]);
    m = tp_add(times(file, line, m, o->beta1), times(file, line, g, o->rest1));
    v = tp_add(times(file, line, v, o->beta2), times(file, line, tp_mul(g, g), o->rest2));
    plan(o, o->m[i], m);
    plan(o, o->v[i], v);
    tp_tensor *below = tp_mul(tp_sqrt(v), s->scale);
    below = tp_add(below, o->eps);
    if (s->keep)
        w = tp_mul(w, s->keep);
    plan(o, o->w[i], tp_sub(w, tp_mul(s->rate, tp_div(m, below))));
}

/* Fills o->updates; a scope per parameter keeps little more than the new values. */
static bool plan_all(const char *file, int line, tp_optimizer *o, tp_tensor *loss)
{
    tp_tensor *power1 = NULL, *power2 = NULL;
    o->n_updates = 0;
    if (tp_grads(loss, NULL, o->n, o->w, o->dw) != TP_OK)
        return true; /* the failed gradients tell */
    if (o->adam) {
        power1 = times(file, line, now(file, line, loss, o->power1), o->beta1);
        power2 = times(file, line, now(file, line, loss, o->power2), o->beta2);
        plan(o, o->power1, power1);
        plan(o, o->power2, power2);
    }
    step_scalars s[2] = {
        {NULL, NULL, NULL},
        {NULL, NULL, NULL}
    }; /* of f32 and f64 */
    for (int i = 0; i < o->n; i++) {
        const tp_dtype dtype = tp_dtype_of(o->w[i]);
        step_scalars *mine = &s[dtype == TP_F64];
        if (!mine->rate)
            *mine = scalars_of(file, line, o, loss, dtype, power1, power2);
        if (tp_scope_begin(o->tp) != TP_OK)
            return false;
        (o->adam ? adam_update : sgd_update)(file, line, o, i, loss, mine);
        tp_scope_end(o->tp);
    }
    return true;
}

/* The first failed tensor among what the step needs, or NULL. */
static tp_tensor *first_failed(const tp_optimizer *o)
{
    for (int i = 0; i < o->n_updates; i++)
        if (tp_failed(o->updates[i].value))
            return o->updates[i].value;
    for (int i = 0; i < o->n && o->n_updates == 0; i++)
        if (tp_failed(o->dw[i]))
            return o->dw[i];
    return NULL;
}

static tp_tensor *commit(const char *file, int line, tp_optimizer *o)
{
    tp_tensor *failed = first_failed(o);
    if (failed)
        return failed;
    /* Concrete: the answer first, since it takes memory and the assignments take none, so that
     * all of them are done or none. */
    tp_tensor *answer = NULL;
    if (o->n_updates && !tp_is_symbolic(o->updates[0].value)) {
        for (int i = 0; i < o->n_updates; i++)
            o->done[i] = o->updates[i].value;
        answer = tp_group(o->n_updates, o->done);
        if (tp_failed(answer))
            return answer;
    }
    for (int i = 0; i < o->n_updates; i++) {
        o->done[i] = tp_assign(o->updates[i].var, o->updates[i].value);
        if (tp_failed(o->done[i]))
            return o->done[i];
    }
    return answer ? answer : tp_group(o->n_updates, o->done);
}

tp_tensor *tp_optimizer_step_at(const char *file, int line, tp_optimizer *o, tp_tensor *loss)
{
    if (!o)
        return tp_fail(tp_ctx_of(loss), TP_E_NULL, "the optimizer is NULL");
    if (!loss)
        return tp_fail(o->tp, TP_E_NULL, "the loss is NULL");
    if (tp_failed(loss))
        return loss;
    if (tp_ctx_of(loss) != o->tp)
        return tp_fail(o->tp, TP_E_CTX, "the loss is of another context than the optimizer");
    if (!tp_requires_grad(loss))
        return tp_fail(o->tp, TP_E_STATE,
                       "the loss was computed from nothing that requires a gradient, or while "
                       "recording was off");
    if (tp_scope_begin(o->tp) != TP_OK)
        return tp_fail(o->tp, TP_E_MEMORY, "out of memory");
    const bool was = tp_recording(o->tp, false);
    tp_tensor *done = plan_all(file, line, o, loss)
                          ? commit(file, line, o)
                          : tp_fail(o->tp, TP_E_MEMORY, "out of memory");
    tp_recording(o->tp, was);
    tp_keep(done);
    tp_scope_end(o->tp);
    return done;
}

tp_tensor *(tp_optimizer_step)(tp_optimizer *o, tp_tensor *loss)
{
    return tp_optimizer_step_at(NULL, 0, o, loss);
}
