/* Steps down the gradient of a large table of which few rows were read.
 *
 *     %s = scatter_add 0, %i, %dy      %g = mul %rate, %s      %w1 = sub %w, %g       (all [v, d])
 *  -> %r = the rows of %s that %i names, [n, d]
 *     %w1 = scatter (sub %w, (mul %rate, 0)), %i, (sub (gather %w, %i), (mul %rate, %r))
 *
 * The gradient is zeros but for a few rows, and so is what numbers make of it: it is never there. All rows
 * of the table become what they become with a gradient of 0, then those that have one are put in
 * their places. Each element is computed by the same ops from the same numbers as before, so this
 * keeps the bits, whatever the numbers are. Where %w1 is what the table %w becomes, a program writes
 * these rows only, unless w - rate * 0 is not w (run/patch.c).
 *
 * With a momentum, or by Adam, all rows change in every step, and the gradient stays as it is.
 *
 * A sum is made where the last index that names its row stands: all of them find it there. */
#include "ir/factors.h"
#include "op/op.h"
#include "op/sizes.h"
#include "pass/pass.h"

#include <string.h>

enum { LEAST_ELEMENTS = 1 << 14, LEAST_ROWS = 1 << 12, RARE = 4, DEPTH = 8 };

/* Does the index name few of the rows of a table that is worth it? An index of a size that only a run
 * tells is taken to be short beside thousands of rows. */
static bool names_few(const tp_tensor *table, const tp_tensor *index)
{
    int64_t elements = 1, n = 1;
    for (int i = 0; i < table->rank; i++) {
        if (tpi_dim_is_symbolic(table->shape[i]))
            return false;
        elements *= table->shape[i];
    }
    for (int i = 0; i < index->rank; i++) {
        if (tpi_dim_is_symbolic(index->shape[i]))
            return elements >= LEAST_ELEMENTS && table->shape[0] >= LEAST_ROWS;
        n *= index->shape[i];
    }
    return index->rank > 0 && elements >= LEAST_ELEMENTS && n <= table->shape[0] / RARE;
}

static bool repeats_number(const tp_tensor *t)
{
    const tp_tensor *one = tpi_stretched_by(t);
    return one && tpi_is_number(one);
}

static bool is_sum(const tp_tensor *t)
{
    return t->op->updates == TPI_UPDATES_BY_ADDING && t->op->slices &&
           tpi_attr_int(t, "axis") == 0 && repeats_number(t->in[0]) && names_few(t, t->in[1]);
}

/* The sum that x, of the shape of t, is made of with numbers only; NULL: it is not, or of several. */
static const tp_tensor *sum_of(const tp_tensor *t, const tp_tensor *x, int depth)
{
    if (!tpi_same_shape(x, t) || depth == 0)
        return NULL;
    if (is_sum(x))
        return x;
    if (x->op->kind != TPI_ELEMENT)
        return NULL;
    const tp_tensor *sum = NULL;
    for (int k = 0; k < x->n_in; k++) {
        if (tpi_is_number(x->in[k]))
            continue;
        const tp_tensor *one = sum_of(t, x->in[k], depth - 1);
        if (!one || (sum && one != sum))
            return NULL;
        sum = one;
    }
    return sum;
}

/* The same ops as those from `sum` to x on another operand in its place. */
static tp_tensor *made_of(tp_tensor *x, const tp_tensor *sum, tp_tensor *other)
{
    tp_tensor *in[3];
    if (x == sum)
        return other;
    for (int k = 0; k < x->n_in; k++)
        in[k] = tpi_is_number(x->in[k]) ? x->in[k] : made_of(x->in[k], sum, other);
    return tpi_apply(TPI_AT(x->file, x->line), x->op, x->n_in, in, x->attrs);
}

/* What has a slice of the table for each of its indices, as [n, ...]. */
static tp_tensor *in_rows(tpi_at at, tp_tensor *x, const tp_tensor *table,
                          const tp_tensor *flat)
{
    int64_t shape[TP_MAX_RANK];
    memcpy(shape, table->shape, sizeof shape);
    shape[0] = flat->shape[0];
    return tp_reshape_at(at.file, at.line, x, table->rank, shape);
}

/* The sums that the indices name. */
static tp_tensor *summed(const tp_tensor *sum, tp_tensor *flat)
{
    const tpi_at at = TPI_AT(sum->file, sum->line);
    tp_tensor *number, *last = tpi_last_writer(at, flat, sum->shape[0], &number);
    tp_tensor *x = in_rows(at, sum->in[2], sum, flat);
    if (x->status != TP_OK)
        return x;
    tp_tensor *none = tp_broadcast_at(at.file, at.line, sum->in[0]->in[0], x->rank, x->shape);
    tp_tensor *sums = tp_scatter_add_at(at.file, at.line, none, last, x, 0);
    return tp_gather_at(at.file, at.line, sums, last, 0);
}

static tp_tensor *sparse(tpi_rewrite *rw, const tp_tensor *t, tp_tensor *const *in)
{
    const tpi_at at = TPI_AT(t->file, t->line);
    if (t->op != &tpi_op_sub || in[0]->op->kind != TPI_SOURCE || rw->to->parent ||
        !tpi_same_shape(in[0], t))
        return NULL;
    const tp_tensor *sum = sum_of(t, in[1], DEPTH);
    if (!sum)
        return NULL;
    tp_tensor *index = sum->in[1], *flat = tp_flatten_at(at.file, at.line, index, 0);
    if (flat->status != TP_OK)
        return flat;
    tp_tensor *rest =
        tp_sub_at(at.file, at.line, in[0], made_of(in[1], sum, sum->in[0]->in[0]));
    tp_tensor *table = tp_gather_at(at.file, at.line, in[0], index, 0);
    tp_tensor *steps = made_of(in[1], sum, summed(sum, flat));
    tp_tensor *rows = tp_sub_at(at.file, at.line, in_rows(at, table, t, flat), steps);
    return tp_scatter_at(at.file, at.line, rest, flat, rows, 0);
}

const tpi_pass tpi_pass_sparse = {
    .name = "sparse", .about = "steps in which few rows of a table change", .visit = sparse};
