#include "ir/factors.h"

void tpi_pass_axes(tpi_factor *f, int first, int end, int by)
{
    for (int i = first; i < end; i++)
        f[i] = (tpi_factor){TPI_AXIS_PASSED, (int8_t)(i + by)};
}

void tpi_whole_factors(const tp_tensor *node, int k, tpi_factor *f)
{
    (void)node, (void)k, (void)f;
}

void tpi_same_factors(const tp_tensor *node, int k, tpi_factor *f)
{
    tpi_pass_axes(f, 0, node->in[k]->rank, 0);
}

void tpi_stretch_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    const tp_tensor *x = t->in[k];
    const int more = t->rank - x->rank;
    tpi_pass_axes(f, 0, x->rank, more);
    for (int i = 0; i < x->rank; i++)
        if (x->shape[i] != t->shape[i + more])
            f[i].use = TPI_AXIS_STRETCHED;
}

void tpi_along_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    const int64_t *axis = t->attrs;
    tpi_same_factors(t, k, f);
    f[*axis].use = TPI_AXIS_WHOLE;
}

static void reduce_axes(const tp_tensor *t, tpi_factor *f)
{
    const tpi_reduce_attrs *a = t->attrs;
    int next = 0, to = 0;
    for (int i = 0; i < t->in[0]->rank; i++) {
        const bool reduced = next < a->axes.n && a->axes.v[next] == i;
        f[i] = reduced ? (tpi_factor){TPI_AXIS_REDUCED, (int8_t)(TP_MAX_RANK + i)}
                       : (tpi_factor){TPI_AXIS_PASSED, (int8_t)to};
        next += reduced;
        to += !reduced || a->keep;
    }
}

void tpi_factors_of(const tp_tensor *t, int k, tpi_factor f[TP_MAX_RANK])
{
    for (int i = 0; i < TP_MAX_RANK; i++)
        f[i] = (tpi_factor){TPI_AXIS_WHOLE, TPI_NO_FACTOR};
    if (t->op->factors)
        t->op->factors(t, k, f);
    else if (t->op->kind == TPI_ELEMENT)
        tpi_stretch_factors(t, k, f);
    else if (t->op->kind == TPI_REDUCE)
        reduce_axes(t, f);
}

int tpi_passed_from(const tp_tensor *t, int k, int axis)
{
    tpi_factor f[TP_MAX_RANK];
    tpi_factors_of(t, k, f);
    for (int i = 0; i < t->in[k]->rank; i++)
        if (f[i].use == TPI_AXIS_PASSED && f[i].id == axis)
            return i;
    return -1;
}

bool tpi_passes(const tp_tensor *t, int axis)
{
    bool some = false;
    for (int k = 0; k < t->n_in; k++) {
        tpi_factor f[TP_MAX_RANK];
        tpi_factors_of(t, k, f);
        for (int i = 0; i < t->in[k]->rank; i++) {
            if (f[i].id != axis || f[i].use == TPI_AXIS_STRETCHED)
                continue;
            if (f[i].use != TPI_AXIS_PASSED)
                return false;
            some = true;
        }
    }
    return some;
}

tp_tensor *tpi_stretched_by(const tp_tensor *t)
{
    if (t->op->kind != TPI_VIEW)
        return NULL;
    tpi_factor f[TP_MAX_RANK];
    tpi_factors_of(t, 0, f);
    const int own = t->in[0]->rank, more = t->rank - own;
    bool repeats = false;
    for (int i = 0; i < more; i++)
        repeats |= t->shape[i] != 1;
    for (int i = 0; i < own; i++) {
        repeats |= f[i].use == TPI_AXIS_STRETCHED;
        if (f[i].id != i + more)
            return NULL;
    }
    return repeats ? t->in[0] : NULL;
}

bool tpi_turns_axes(const tp_tensor *t)
{
    int last = -1;
    bool ascend = true;
    tpi_factor f[TP_MAX_RANK];
    tpi_factors_of(t, 0, f);
    for (int i = 0; i < t->in[0]->rank && ascend; i++) {
        ascend = f[i].use != TPI_AXIS_PASSED || f[i].id > last;
        last = f[i].use == TPI_AXIS_PASSED ? f[i].id : last;
    }
    return !ascend;
}

bool tpi_is_product(const tp_tensor *t)
{
    tpi_factor f[TP_MAX_RANK];
    if (!t->op->contract)
        return false;
    tpi_factors_of(t, 0, f);
    return f[t->in[0]->rank - 1].use == TPI_AXIS_REDUCED;
}
