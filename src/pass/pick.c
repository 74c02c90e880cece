/* One element of each row, without the others: what a cross entropy takes of its logarithms, and what its
 * gradient adds to.
 *
 *     %2 = take_along (sub %x, %r), %i         ->     %2 = sub (take_along %x, %i), %r
 *     %3 = put_along_add 0, %i, %y                    (all [n, c], but %i, %r and %y [n, 1])
 *     %4 = sum (neg %3) {axes=[1]}             ->     %4 = add (neg %y), (take_along 0, %i)
 *     %5 = add %3, %e                          ->     %5 = put_along_add (add %e, 0), %i, %y
 *
 * The first two leave nothing to do but for the elements that are named; by the last, a few elements of
 * what a nest computes are changed where they lie, and no zeros are. An element is added to once, so
 * the order of the two additions to it is that of one: %y + 0 is %y, and %y + %e is %e + %y. */
#include "ir/factors.h"
#include "op/op.h"
#include "op/sizes.h"
#include "pass/pass.h"

#include <string.h>

enum { DEPTH = 8, FEW = 4 };

static int64_t axis_of(const tp_tensor *t)
{
    return tpi_attr_int(t, "axis");
}

/* ---- take_along: elementwise ops behind it ------------------------------------------------------ */

/* The one value in memory from which t computes what varies along the axis; NULL: there are more. */
static tp_tensor *source_of(tp_tensor *t, int64_t axis, int depth)
{
    tp_tensor *source = NULL;
    if (t->op->kind != TPI_ELEMENT)
        return t;
    for (int k = 0; k < t->n_in; k++) {
        tp_tensor *x = t->in[k];
        if (tpi_passed_from(t, k, (int)axis) < 0)
            continue;
        tp_tensor *one =
            depth > 0 && tpi_same_shape(x, t) ? source_of(x, axis, depth - 1) : NULL;
        if (!one || (source && source != one))
            return NULL;
        source = one;
    }
    return source;
}

/* t of other elements of its source. */
static tp_tensor *made_of(tp_tensor *t, int64_t axis, const tp_tensor *source, tp_tensor *taken)
{
    tp_tensor *in[3];
    if (t == source)
        return taken;
    for (int k = 0; k < t->n_in; k++)
        in[k] = tpi_passed_from(t, k, (int)axis) < 0 ? t->in[k]
                                                     : made_of(t->in[k], axis, source, taken);
    return tpi_apply(TPI_AT(t->file, t->line), t->op, t->n_in, in, t->attrs);
}

static tp_tensor *take_first(const tp_tensor *t, tp_tensor *const *in)
{
    const int64_t axis = axis_of(t);
    tp_tensor *x = in[0];
    if (t->shape[axis] != 1 &&
        (tpi_dim_is_symbolic(t->shape[axis]) || tpi_dim_is_symbolic(x->shape[axis]) ||
         t->shape[axis] > x->shape[axis] / FEW))
        return NULL;
    for (int i = 0; i < x->rank; i++)
        if (i != axis && t->shape[i] != x->shape[i])
            return NULL;
    tp_tensor *source = x->op->kind == TPI_ELEMENT ? source_of(x, axis, DEPTH) : NULL;
    if (!source)
        return NULL;
    tp_tensor *taken = tp_take_along_at(t->file, t->line, source, in[1], (int)axis);
    return made_of(x, axis, source, taken);
}

/* ---- put_along_add: one addition to each row of zeros ------------------------------------------------ */

/* Is it one, and nothing else? */
static bool puts_one(const tp_tensor *t)
{
    const double zero = 0;
    const bool adds =
        t->op->updates == TPI_UPDATES_BY_ADDING && t->op->index_in && !t->op->slices;
    if (!adds || t->in[1]->shape[axis_of(t)] != 1)
        return false;
    const tp_tensor *rest = tpi_stretched_by(t->in[0]);
    return rest && tpi_constant_of(rest) && tpi_count(rest->in[0]) == 1 &&
           memcmp(rest->in[0]->data, &zero, tp_dtype_size((tp_dtype)rest->dtype)) == 0;
}

static tp_tensor *add_zero(const tp_tensor *t, tp_tensor *x, const tp_tensor *put)
{
    return tp_add_at(t->file, t->line, x, put->in[0]->in[0]);
}

/* Of the sum of what is put, or of what is taken away. The zero that is added is one of those it was put
 * into, so that the index is still looked at. */
static tp_tensor *sum_of_one(const tp_tensor *t, tp_tensor *const *in)
{
    const tpi_reduce_attrs *a = t->attrs;
    const bool less = in[0]->op == &tpi_op_neg;
    const tp_tensor *put = less ? in[0]->in[0] : in[0];
    if (!puts_one(put) || a->axes.n != 1 || a->axes.v[0] != axis_of(put))
        return NULL;
    tp_tensor *y = put->in[2];
    for (int i = 0; i < y->rank; i++)
        if (i != a->axes.v[0] && y->shape[i] != put->shape[i])
            return NULL;
    y = less ? tp_neg_at(t->file, t->line, y) : y;
    tp_tensor *zero =
        tp_take_along_at(put->file, put->line, put->in[0], put->in[1], (int)axis_of(put));
    return tp_reshape_at(t->file, t->line, tp_add_at(t->file, t->line, y, zero), t->rank,
                         t->shape);
}

static tp_tensor *put_last(const tp_tensor *t, tp_tensor *const *in)
{
    for (int k = 0; k < 2; k++) {
        tp_tensor *put = in[k], *other = in[1 - k];
        if (puts_one(put) && tpi_same_shape(put, t) && tpi_same_shape(other, t) &&
            other->op->kind == TPI_ELEMENT)
            return tp_put_along_add_at(t->file, t->line, add_zero(t, other, put), put->in[1],
                                       put->in[2], (int)axis_of(put));
    }
    return NULL;
}

static tp_tensor *pick(tpi_rewrite *rw, const tp_tensor *t, tp_tensor *const *in)
{
    (void)rw;
    const bool sums = t->op->kind == TPI_REDUCE && t->op->fold == TPI_REDUCE_SUM;
    return tpi_reads_elements(t->op)  ? take_first(t, in)
           : sums && !t->op->by_count ? sum_of_one(t, in)
           : t->op == &tpi_op_add     ? put_last(t, in)
                                      : NULL;
}

const tpi_pass tpi_pass_pick = {
    .name = "pick", .about = "one element of each row, without the others", .visit = pick};
