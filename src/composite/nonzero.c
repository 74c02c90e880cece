/* Results whose size values decide: nonzero, masked_select, unique. Everything is found at the size of the operand,
 * the chosen first; then as many are taken as there are. Eagerly, and in a captured function, C looks at their
 * number; in a graph a tp_while counts up to it, and the size of what that stacks is one that the run binds. */
#include "composite/composite.h"
#include "tapir/control.h"

#include <string.h>

/* ---- as many as there are ------------------------------------------------------------------------ */

/* How many there are: a number that C has read, or 0, 1, ... for as many as a run finds. */
typedef struct many {
    tp_tensor *failed; /* NULL: neither */
    tp_tensor *turns;  /* NULL: n of them */
    int64_t n;
} many;

static many count_now(tpi_at at, tp_tensor *n)
{
    const double v = tp_item(n);
    if (v >= 0)
        return (many){.n = (int64_t)v};
    /* the run was stopped, or what comes before it failed */
    return (many){.failed = tpi_fail(n->ctx, at, "nonzero", (tp_status)n->ctx->status,
                                     "how many there are is not known")};
}

static many count_up(tpi_at at, tp_tensor *n)
{
    tp_tensor *i = tpi_whole(at, n, 0), *one = tpi_whole(at, n, 1), *turns = NULL;
    tp_while (tp_lt(i, n), &i) {
        tp_emit(&turns, i);
        i = tp_add(i, one);
    }
    return turns ? (many){.turns = turns} : (many){.failed = i};
}

static many how_many(tpi_at at, tp_tensor *chosen)
{
    tp_tensor *n = tp_sum(tp_cast(chosen, TP_I64), TP_ALL, false);
    if (tp_failed(n))
        return (many){.failed = n};
    return n->graph ? count_up(at, n) : count_now(at, n);
}

/* The first so many. */
static tp_tensor *first_of(tpi_at at, tp_tensor *all, many m)
{
    return m.failed  ? m.failed
           : m.turns ? tp_gather(all, m.turns, 0)
                     : tp_slice(all, 0, 0, m.n, 1);
}

/* Of chosen [n]: the places of those that are, in order, and behind them the others. */
static tp_tensor *places_first(tpi_at at, tp_tensor *chosen)
{
    return tp_argsort(chosen, 0, true);
}

static tp_tensor *places_of(tpi_at at, tp_tensor *chosen)
{
    tp_tensor *first = places_first(at, chosen);
    return first_of(at, first, how_many(at, chosen));
}

/* ---- nonzero, masked_select ------------------------------------------------------------------------- */

/* Numbers in row-major order of x's axes as coordinates [n, rank]. */
static tp_tensor *coordinates(tpi_at at, tp_tensor *x, tp_tensor *left)
{
    tp_tensor *axes[TP_MAX_RANK];
    if (x->rank == 0)
        return tp_slice(tp_unsqueeze(left, 1), 1, 0, 0, 1);
    for (int i = x->rank - 1; i >= 0; i--) {
        tp_tensor *size = tp_extent(x, 1, (int64_t[]){i}, TP_I64);
        axes[i] = i > 0 ? tp_mod(left, size) : left;
        left = i > 0 ? tp_div(left, size) : left;
    }
    return tp_stack(x->rank, axes, 1);
}

TPI_COMPOSITE(tp_nonzero, (tp_tensor * x), x)
{
    tp_tensor *failed = tpi_refuse_operand(NULL, at, "nonzero", 0, x);
    if (failed)
        return failed;
    tp_tensor *chosen = tp_cast(tp_flatten(x, 0), TP_BOOL);
    return coordinates(at, x, places_of(at, chosen));
}

/* The shape that both are broadcast to; false: there is none. */
static bool shape_of_both(const tp_tensor *a, const tp_tensor *b, int *rank, int64_t *shape)
{
    bool fits = true;
    *rank = a->rank > b->rank ? a->rank : b->rank;
    for (int i = 1; i <= *rank; i++) {
        const int64_t p = i <= a->rank ? a->shape[a->rank - i] : 1;
        const int64_t q = i <= b->rank ? b->shape[b->rank - i] : 1;
        shape[*rank - i] = p == 1 ? q : p;
        fits &= p == q || p == 1 || q == 1;
    }
    return fits;
}

TPI_COMPOSITE(tp_masked_select, (tp_tensor * x, tp_tensor *mask), x, mask)
{
    const char *what = "masked_select";
    tp_tensor *failed = tpi_refuse_operands(at, what, TPI_IN(x, mask));
    int64_t shape[TP_MAX_RANK];
    int rank;
    if (failed)
        return failed;
    if (mask->dtype != TP_BOOL)
        return tpi_fail(x->ctx, at, what, TP_E_DTYPE, "the mask is %s, not bool",
                        tp_dtype_name((tp_dtype)mask->dtype));
    if (!shape_of_both(x, mask, &rank, shape))
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "x is %s, and the mask %s", SHAPE(x),
                        SHAPE(mask));
    tp_tensor *of_x = tpi_beside(at, mask, x), *of_mask = tpi_beside(at, x, mask);
    tp_tensor *all = tp_flatten(tp_broadcast(of_x, rank, shape), 0);
    tp_tensor *chosen = tp_flatten(tp_broadcast(of_mask, rank, shape), 0);
    return tp_gather(all, places_of(at, chosen), 0);
}

/* ---- unique ----------------------------------------------------------------------------------------- */

/* Rows moved on by one along the first axis, or back, and `value` where none comes to. */
static tp_tensor *moved(tpi_at at, tp_tensor *row, bool back, double value)
{
    int64_t lo[TP_MAX_RANK] = {0}, hi[TP_MAX_RANK] = {0};
    (back ? hi : lo)[0] = 1;
    tp_tensor *longer = tp_pad(row, tp_rank(row), lo, hi, value);
    return back ? tp_slice(longer, 0, 1, TP_END, 1) : tp_slice(longer, 0, 0, -1, 1);
}

/* Which of sorted rows [n, ...] differ from the one before. */
static tp_tensor *begins(tpi_at at, tp_tensor *row)
{
    tp_tensor *differs = tp_ne(row, moved(at, row, false, 0));
    if (tp_rank(differs) == 2)
        differs = tp_reduce_max(differs, TP_DIMS(1), false);
    if (tp_failed(differs))
        return differs;
    tp_tensor *none = tp_cast(tpi_whole(at, differs, 0), TP_BOOL);
    return tp_or(moved(at, tp_broadcast(none, 1, differs->shape), false, 1), differs);
}

/* The places of rows [n] or [n, width] in their order, by their first element, then by the second ...; equal
 * ones stay in order. */
static tp_tensor *order_of(tpi_at at, tp_tensor *row)
{
    if (tp_failed(row) || row->rank == 1)
        return tp_argsort(row, 0, false);
    tp_tensor *order = tpi_iota(at, tpi_whole(at, row, 1), row->shape[0]);
    for (int64_t k = row->shape[1] - 1; k >= 0 && !tp_failed(order); k--) {
        tp_tensor *column = tp_gather(tp_select(row, 1, k), order, 0);
        order = tp_gather(order, tp_argsort(column, 0, false), 0);
    }
    return order;
}

typedef struct kinds {
    tp_tensor *first, *kind, *count;
} kinds;

/* Those that are not wanted are NULL. */
static kinds kinds_of(tpi_at at, tp_tensor *row, bool kind, bool count)
{
    tp_tensor *order = order_of(at, row);
    if (tp_failed(order))
        return (kinds){order, order, order};
    tp_tensor *is = begins(at, tp_gather(row, order, 0));
    const many m = how_many(at, is);
    tp_tensor *from = first_of(at, places_first(at, is), m), *one = tpi_whole(at, order, 1);
    kinds k = {.first = tp_gather(order, from, 0)};
    if (count) {
        tp_tensor *to = first_of(at, places_first(at, moved(at, is, true, 1)), m);
        k.count = tp_add(tp_sub(to, from), one);
    }
    if (kind) {
        tp_tensor *number = tp_sub(tp_cumsum(tp_cast(is, TP_I64), 0, false, false), one);
        k.kind = tp_scatter(order, order, number, 0);
    }
    return k;
}

static tp_tensor *give_kinds(kinds k, tp_tensor *y, tp_tensor **first, tp_tensor **kind,
                             tp_tensor **count)
{
    if (first)
        *first = k.first;
    if (kind)
        *kind = k.kind;
    if (count)
        *count = k.count;
    return y;
}

static tp_tensor *give_failed(tp_tensor *failed, tp_tensor **first, tp_tensor **kind,
                              tp_tensor **count)
{
    return give_kinds((kinds){failed, failed, failed}, failed, first, kind, count);
}

TPI_COMPOSITE(tp_unique,
              (tp_tensor * x, tp_tensor **first, tp_tensor **kind, tp_tensor **count), x, first,
              kind, count)
{
    tp_tensor *failed = tpi_refuse_operand(NULL, at, "unique", 0, x);
    if (failed)
        return give_failed(failed, first, kind, count);
    tp_tensor *all = tp_flatten(x, 0);
    kinds k = kinds_of(at, all, kind, count);
    if (k.kind && !tp_failed(k.kind))
        k.kind = tp_reshape(k.kind, x->rank, x->shape);
    return give_kinds(k, tp_gather(all, k.first, 0), first, kind, count);
}

/* Slices of x along an axis as rows [n, width]. */
static tp_tensor *rows_of(tpi_at at, tp_tensor *x, int axis)
{
    int64_t perm[TP_MAX_RANK];
    for (int i = 0; i < x->rank; i++)
        perm[i] = i == 0 ? axis : i <= axis ? i - 1 : i;
    return tp_flatten(tp_transpose(x, x->rank, perm), 1);
}

TPI_COMPOSITE(tp_unique_along,
              (tp_tensor * x, int axis, tp_tensor **first, tp_tensor **kind, tp_tensor **count),
              x, axis, first, kind, count)
{
    const char *what = "unique_along";
    tp_tensor *failed;
    const int place = tpi_own_axis(at, what, x, axis, &failed);
    for (int i = 0; !failed && i < x->rank; i++)
        if (i != place && x->shape[i] < 0)
            failed = tpi_fail(x->ctx, at, what, TP_E_SHAPE,
                              "axis %d of x %s has no size that is a number, as all but axis "
                              "%d have to have",
                              i, SHAPE(x), place);
    if (failed)
        return give_failed(failed, first, kind, count);
    const kinds k = kinds_of(at, rows_of(at, x, place), kind, count);
    return give_kinds(k, tp_gather(x, k.first, place), first, kind, count);
}
