#include "nn/held.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#undef TP_PLACE
#define TP_PLACE file, line

tp_tensor *tpi_held_new(const char *file, int line, tp_tensor *init, const char *name)
{
    return tp_retain(tp_variable(init, name));
}

tp_tensor *tpi_held_beside(const char *file, int line, tp_tensor *w, const char *part,
                           tp_tensor *init)
{
    tp_ctx *tp = tp_ctx_of(w);
    if (tp_ctx_of(init) != tp)
        return tp_retain(
            tp_fail(tp, TP_E_CTX, "the first value of a state is of another context"));
    const char *name = tp_name_of(w);
    const size_t size = (name ? strlen(name) : 0) + strlen(part) + 2;
    char *full = tp_alloc(tp, size);
    if (!full)
        return tp_retain(tp_fail(tp, TP_E_MEMORY, "out of memory"));
    snprintf(full, size, "%s.%s", name ? name : "", part);
    tp_tensor *var = tpi_held_new(file, line, init, full);
    tp_free(tp, full);
    return var;
}

tp_tensor *tpi_held_like(const char *file, int line, tp_tensor *w, const char *part)
{
    int64_t shape[TP_MAX_RANK];
    for (int a = 0; a < tp_rank(w); a++)
        shape[a] = tp_size(w, a);
    tp_tensor *zeros = tp_full(tp_ctx_of(w), tp_dtype_of(w), tp_rank(w), shape, 0);
    return tpi_held_beside(file, line, w, part, zeros);
}

tp_tensor *tpi_held_now(const char *file, int line, const tp_tensor *like, tp_tensor *var)
{
    tp_graph *g = like ? tp_graph_of(like) : NULL;
    return g ? tp_graph_read(g, var) : var;
}

bool tpi_held_are_alike(const tp_tensor *a, const tp_tensor *b)
{
    bool alike = tp_ctx_of(a) == tp_ctx_of(b) && tp_rank(a) == tp_rank(b) &&
                 tp_dtype_of(a) == tp_dtype_of(b);
    for (int i = 0; alike && i < tp_rank(a); i++)
        alike = tp_dim(a, i) == tp_dim(b, i);
    return alike;
}

/* ---- arguments --------------------------------------------------------------------------------- */

/* NULL, or what is wrong with params[i]. */
static const char *wrong(const tp_ctx *tp, tp_tensor *const *params, int i, tp_status *status)
{
    const tp_tensor *w = params[i];
    *status = tp_status_of(w);
    if (!w)
        return "is NULL";
    if (*status != TP_OK)
        return tp_error_text(w);
    if (tp_ctx_of(w) != tp) {
        *status = TP_E_CTX;
        return "is of another context";
    }
    if (tp_is_symbolic(w) || !tp_requires_grad(w) || !tp_name_of(w)) {
        *status = TP_E_STATE;
        return "was not made by tp_param";
    }
    *status = TP_E_VALUE;
    for (int k = 0; k < i; k++)
        if (params[k] == w)
            return "is there twice";
    return NULL;
}

tp_status tpi_held_check_params(const char *file, int line, tp_ctx *tp, const char *what, int n,
                                tp_tensor *const *params)
{
    char text[300];
    if (n < 1 || n > 1 << 24 || !params) {
        snprintf(text, sizeof text, "%s needs parameters", what);
        return tp_status_of(tp_fail(tp, n < 1 ? TP_E_VALUE : TP_E_NULL, text));
    }
    for (int i = 0; i < n; i++) {
        tp_status status;
        const char *why = wrong(tp, params, i, &status);
        if (why) {
            snprintf(text, sizeof text, "parameter %d of %s %s", i, what, why);
            return tp_status_of(tp_fail(tp, status, text));
        }
    }
    return TP_OK;
}

bool tpi_held_in_range(double x, double limit)
{
    uint64_t bits, end;
    memcpy(&bits, &x, sizeof bits);
    memcpy(&end, &limit, sizeof end);
    return bits < end || bits == (uint64_t)1 << 63;
}

tp_status tpi_held_check_number(const char *file, int line, tp_ctx *tp, const char *name,
                                double x)
{
    if (!tpi_held_in_range(x, INFINITY) && !tpi_held_in_range(-x, INFINITY)) {
        char text[100];
        snprintf(text, sizeof text, "%s is not finite", name);
        return tp_status_of(tp_fail(tp, TP_E_VALUE, text));
    }
    tp_status status = tp_scope_begin(tp);
    if (status == TP_OK) {
        status = tp_status_of(tp_scalar(tp, TP_F64, x));
        tp_scope_end(tp);
    }
    return status;
}

tp_tensor *tpi_held_refuse_flag(const char *file, int line, tp_ctx *tp, const char *name,
                                tp_tensor *t)
{
    char text[100];
    if (t && tp_failed(t))
        return t;
    const bool same = t && (!tp || tp_ctx_of(t) == tp);
    if (same && tp_dtype_of(t) == TP_BOOL && tp_rank(t) == 0)
        return NULL;
    snprintf(text, sizeof text, "%s is %s", name,
             !t      ? "NULL"
             : !same ? "of another context"
                     : "no bool []");
    return tp_fail(t && !tp ? tp_ctx_of(t) : tp,
                   !t      ? TP_E_NULL
                   : !same ? TP_E_CTX
                           : TP_E_DTYPE,
                   text);
}

tp_tensor *tpi_held_refuse_loss(const char *file, int line, tp_ctx *tp, const char *what,
                                tp_tensor *loss)
{
    char text[100];
    if (!loss)
        return tp_fail(tp, TP_E_NULL, "the loss is NULL");
    if (tp_failed(loss))
        return loss;
    snprintf(text, sizeof text, "the loss is of another context than %s", what);
    if (tp_ctx_of(loss) != tp)
        return tp_fail(tp, TP_E_CTX, text);
    if (!tp_requires_grad(loss))
        return tp_fail(tp, TP_E_STATE,
                       "the loss was computed from nothing that requires a gradient, or while "
                       "recording was off");
    return NULL;
}

/* ---- changes ------------------------------------------------------------------------------------ */

bool tpi_changes_new(tp_ctx *tp, tpi_changes *c, int size)
{
    *c = (tpi_changes){.size = size, .var = tp_alloc(tp, 3 * (size_t)size * sizeof *c->var)};
    if (!c->var)
        return false;
    c->value = c->var + size;
    c->done = c->value + size;
    return true;
}

void tpi_changes_free(tp_ctx *tp, tpi_changes *c)
{
    tp_free(tp, c->var);
}

void tpi_change(tpi_changes *c, tp_tensor *var, tp_tensor *value)
{
    c->var[c->n] = var;
    c->value[c->n++] = tp_keep(value);
}

void tpi_changes_when(const char *file, int line, tpi_changes *c, const tp_tensor *like,
                      tp_tensor *when)
{
    for (int i = 0; i < c->n; i++)
        if (c->value[i])
            c->value[i] =
                tp_where(when, c->value[i], tpi_held_now(file, line, like, c->var[i]));
}

tp_tensor *tpi_changes_commit(const char *file, int line, tpi_changes *c)
{
    for (int i = 0; i < c->n; i++) {
        if (!c->value[i] || tp_failed(c->value[i]))
            return c->value[i]
                       ? c->value[i]
                       : tp_fail(tp_ctx_of(c->var[i]), TP_E_NULL, "a new value is NULL");
        if (!tp_is_symbolic(c->value[i]) && !tpi_held_are_alike(c->var[i], c->value[i]))
            return tp_fail(tp_ctx_of(c->var[i]), TP_E_SHAPE,
                           "a new value is not of its variable's shape and type");
    }
    /* Concrete: the answer first, since it takes memory and the assignments take none, so that all of them are done
     * or none. */
    tp_tensor *answer = tp_is_symbolic(c->value[0]) ? NULL : tp_group(c->n, c->value);
    if (answer && tp_failed(answer))
        return answer;
    for (int i = 0; i < c->n; i++) {
        c->done[i] = tp_assign(c->var[i], c->value[i]);
        if (tp_failed(c->done[i]))
            return c->done[i];
    }
    return answer ? answer : tp_group(c->n, c->done);
}
