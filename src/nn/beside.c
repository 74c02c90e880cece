/* Sums of gradients over batches, and means of parameters over steps: variables beside parameters. */
#include "nn/held.h"
#include "tapir/train.h"

#include <string.h>

#undef TP_PLACE
#define TP_PLACE file, line

/* What is held for each of n parameters. */
typedef struct beside {
    tp_ctx *tp;
    int n;
    double decay;                /* of a mean */
    tp_tensor **w, **held, **dw; /* [n] */
    tpi_changes changes;
} beside;

struct tp_gradient_sum {
    beside b;
};
struct tp_average {
    beside b;
};

static void release(beside *b)
{
    if (!b)
        return;
    for (int i = 0; b->w && i < b->n; i++) {
        tp_release(b->w[i]);
        tp_release(b->held[i]);
    }
    tpi_changes_free(b->tp, &b->changes);
    tp_ctx *tp = b->tp;
    tp_free(tp, b->w);
    tp_free(tp, b);
}

static bool hold(const char *file, int line, beside *b, const char *part,
                 tp_tensor *const *params)
{
    b->w = tp_alloc(b->tp, 3 * (size_t)b->n * sizeof *b->w);
    if (!b->w)
        return false;
    b->held = b->w + b->n;
    b->dw = b->held + b->n;
    if (!tpi_changes_new(b->tp, &b->changes, 2 * b->n) || tp_scope_begin(b->tp) != TP_OK)
        return false;
    bool good = true;
    for (int i = 0; i < b->n && good; i++) {
        b->w[i] = tp_retain(params[i]);
        b->held[i] = tpi_held_like(file, line, params[i], part);
        good = !tp_failed(b->held[i]);
    }
    tp_scope_end(b->tp);
    return good;
}

static beside *new_beside(const char *file, int line, tp_ctx *tp, const char *what,
                          const char *part, int n, tp_tensor *const *params)
{
    if (!tp || tpi_held_check_params(file, line, tp, what, n, params) != TP_OK)
        return NULL;
    beside *b = tp_alloc(tp, sizeof *b);
    if (!b)
        return NULL;
    *b = (beside){.tp = tp, .n = n};
    if (hold(file, line, b, part, params))
        return b;
    release(b);
    return NULL;
}

/* Around what makes new values, which nothing records and which die with their scope. Not begun: no memory. */
typedef struct aside {
    bool begun, recording;
} aside;

static aside begin(beside *b)
{
    aside a = {.begun = tp_scope_begin(b->tp) == TP_OK};
    a.recording = a.begun && tp_recording(b->tp, false);
    b->changes.n = 0;
    return a;
}

/* The changes are made, unless one failed. */
static tp_tensor *end(const char *file, int line, beside *b, aside a)
{
    if (!a.begun)
        return tp_fail(b->tp, TP_E_MEMORY, "out of memory");
    tp_tensor *done = tp_keep(tpi_changes_commit(file, line, &b->changes));
    tp_recording(b->tp, a.recording);
    tp_scope_end(b->tp);
    return done;
}

/* ---- sums of gradients ------------------------------------------------------------------------ */

tp_gradient_sum *tp_gradient_sum_new_at(const char *file, int line, tp_ctx *tp, int n,
                                        tp_tensor *const *params)
{
    return (tp_gradient_sum *)new_beside(file, line, tp, "the sum of gradients", "sum", n,
                                         params);
}

tp_gradient_sum *(tp_gradient_sum_new)(tp_ctx *tp, int n, tp_tensor *const *params)
{
    return tp_gradient_sum_new_at(NULL, 0, tp, n, params);
}

void tp_gradient_sum_free(tp_gradient_sum *s)
{
    release(s ? &s->b : NULL);
}

tp_tensor *const *tpi_gradient_sums(const tp_gradient_sum *s, int *n)
{
    *n = s ? s->b.n : -1;
    return s ? s->b.held : NULL;
}

tp_tensor *tp_gradient_sum_add_at(const char *file, int line, tp_gradient_sum *s,
                                  tp_tensor *loss, double weight)
{
    if (!s || !loss)
        return tp_fail(s ? s->b.tp : tp_ctx_of(loss), TP_E_NULL,
                       s ? "the loss is NULL" : "the sum of gradients is NULL");
    beside *b = &s->b;
    const aside a = begin(b);
    if (a.begun)
        tp_grads(loss, NULL, b->n, b->w, b->dw);
    for (int i = 0; a.begun && i < b->n; i++) {
        tp_tensor *was = tpi_held_now(file, line, loss, b->held[i]);
        tpi_change(&b->changes, b->held[i], tp_add(was, tp_mul(b->dw[i], weight)));
    }
    return end(file, line, b, a);
}

tp_tensor *(tp_gradient_sum_add)(tp_gradient_sum *s, tp_tensor *loss, double weight)
{
    return tp_gradient_sum_add_at(NULL, 0, s, loss, weight);
}

static tp_tensor *zeros(const char *file, int line, tp_tensor *like)
{
    int64_t shape[TP_MAX_RANK];
    for (int a = 0; a < tp_rank(like); a++)
        shape[a] = tp_dim(like, a);
    return tp_broadcast(tp_scalar_like(like, 0), tp_rank(like), shape);
}

tp_tensor *tp_gradient_sum_take_at(const char *file, int line, tp_gradient_sum *s,
                                   tp_tensor *like, tp_tensor **out)
{
    if (!s || !out)
        return tp_fail(s ? s->b.tp : NULL, TP_E_NULL,
                       "the sum of gradients, or what takes it, is NULL");
    beside *b = &s->b;
    for (int i = 0; i < b->n; i++) /* a copy: the variable will be zeros */
        out[i] = tp_mul(tpi_held_now(file, line, like, b->held[i]), 1);
    const aside a = begin(b);
    for (int i = 0; a.begun && i < b->n; i++)
        tpi_change(&b->changes, b->held[i], zeros(file, line, out[i]));
    return end(file, line, b, a);
}

tp_tensor *(tp_gradient_sum_take)(tp_gradient_sum *s, tp_tensor *like, tp_tensor **out)
{
    return tp_gradient_sum_take_at(NULL, 0, s, like, out);
}

/* ---- means of parameters ---------------------------------------------------------------------- */

tp_average *tp_average_new_at(const char *file, int line, tp_ctx *tp, double decay, int n,
                              tp_tensor *const *params)
{
    if (!tp || tpi_held_check_number(file, line, tp, "the decay", decay) != TP_OK)
        return NULL;
    if (!tpi_held_in_range(decay, 1)) {
        tp_fail(tp, TP_E_VALUE, "the decay is not in [0, 1)");
        return NULL;
    }
    beside *b = new_beside(file, line, tp, "the average", "mean", n, params);
    if (!b)
        return NULL;
    b->decay = decay;
    for (int i = 0; i < n; i++)
        tp_assign(b->held[i], params[i]);
    return (tp_average *)b;
}

tp_average *(tp_average_new)(tp_ctx *tp, double decay, int n, tp_tensor *const *params)
{
    return tp_average_new_at(NULL, 0, tp, decay, n, params);
}

void tp_average_free(tp_average *a)
{
    release(a ? &a->b : NULL);
}

tp_tensor *const *tpi_average_means(const tp_average *a, int *n)
{
    *n = a ? a->b.n : -1;
    return a ? a->b.held : NULL;
}

tp_tensor *tp_average_update_at(const char *file, int line, tp_average *average,
                                tp_tensor *after)
{
    if (!average)
        return tp_fail(after ? tp_ctx_of(after) : NULL, TP_E_NULL, "the average is NULL");
    beside *b = &average->b;
    const aside a = begin(b);
    for (int i = 0; a.begun && i < b->n; i++) {
        tp_tensor *mean = tpi_held_now(file, line, after, b->held[i]);
        tp_tensor *way = tp_sub(tpi_held_now(file, line, after, b->w[i]), mean);
        tp_tensor *part = tp_sub(1, tp_scalar_like(mean, b->decay));
        tpi_change(&b->changes, b->held[i], tp_add(mean, tp_mul(way, part)));
    }
    return end(file, line, b, a);
}

tp_tensor *(tp_average_update)(tp_average *a, tp_tensor *after)
{
    return tp_average_update_at(NULL, 0, a, after);
}

tp_status tp_average_swap_at(const char *file, int line, tp_average *average)
{
    if (!average)
        return TP_E_NULL;
    beside *b = &average->b;
    const aside a = begin(b);
    for (int i = 0; a.begun && i < b->n; i++) { /* of copies */
        tpi_change(&b->changes, b->w[i], tp_mul(b->held[i], 1));
        tpi_change(&b->changes, b->held[i], tp_mul(b->w[i], 1));
    }
    return tp_status_of(end(file, line, b, a));
}

tp_status(tp_average_swap)(tp_average *a)
{
    return tp_average_swap_at(NULL, 0, a);
}
