/* Einsum: operands are joined one after the other, each time by a matrix product whose rows, columns and
 * inner axis are several axes taken together. */
#include "composite/einsum.h"

#include <string.h>

typedef struct factor {
    tp_tensor *t;
    tpi_labels l;
} factor;

typedef uint64_t labels; /* a set */

static labels bit(int label)
{
    return (labels)1 << label;
}

static labels set_of(const tpi_labels *l)
{
    labels s = 0;
    for (int i = 0; i < l->n; i++)
        s |= bit(l->of[i]);
    return s;
}

static int place_of(const tpi_labels *l, int label)
{
    for (int i = 0; i < l->n; i++)
        if (l->of[i] == label)
            return i;
    return -1;
}

static int count(labels s)
{
    return __builtin_popcountll(s);
}

/* ---- sizes ----------------------------------------------------------------------------------------- */

/* Axes of one label have one size, but for those of size 1. sizes[label] of all operands. */
static tp_tensor *refuse_sizes(tpi_at at, const char *what, int n, const factor *f)
{
    int64_t sizes[64];
    for (int i = 0; i < 64; i++)
        sizes[i] = 1;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < f[i].l.n; k++) {
            const int64_t own = f[i].t->shape[k];
            int64_t *size = &sizes[(int)f[i].l.of[k]];
            if (own != 1 && *size != 1 && own != *size)
                return tpi_fail(f[i].t->ctx, at, what, TP_E_SHAPE,
                                "axis %d of operand %d, which is %s, has size %s elsewhere", k,
                                i, SHAPE(f[i].t),
                                SIZE(f[i].t->ctx, tpi_dims_of(f[i].t), *size));
            *size = *size == 1 ? own : *size;
        }
    return NULL;
}

/* ---- one factor ------------------------------------------------------------------------------------ */

static void drop(tpi_labels *l, int place)
{
    memmove(l->of + place, l->of + place + 1, (size_t)(l->n - place - 1));
    l->n--;
}

/* Axes in the order of the labels in `want`, which are f's. */
static void arrange(tpi_at at, factor *f, const tpi_labels *want)
{
    int64_t perm[TP_MAX_RANK];
    bool moved = false;
    for (int i = 0; i < want->n; i++) {
        perm[i] = place_of(&f->l, want->of[i]);
        moved |= perm[i] != i;
    }
    if (moved)
        f->t = tp_transpose(f->t, want->n, perm);
    f->l = *want;
}

static void stretch_axis(tpi_at at, factor *f, int axis, int64_t size)
{
    int64_t shape[TP_MAX_RANK];
    if (f->t->shape[axis] == size)
        return;
    memcpy(shape, f->t->shape, sizeof shape);
    shape[axis] = size;
    f->t = tp_broadcast(f->t, f->l.n, shape);
}

/* Axes i < j of one label: their diagonal is the last axis. */
static void take_diagonal(tpi_at at, factor *f, int i, int j)
{
    int64_t perm[TP_MAX_RANK];
    int n = 0;
    stretch_axis(at, f, i, f->t->shape[i] == 1 ? f->t->shape[j] : f->t->shape[i]);
    stretch_axis(at, f, j, f->t->shape[i]);
    for (int k = 0; k < f->l.n; k++)
        if (k != i && k != j)
            perm[n++] = k;
    perm[n++] = i;
    perm[n++] = j;
    f->t = tp_transpose(f->t, n, perm);
    if (f->t->status == TP_OK)
        f->t = tpi_diagonal(at, f->t, 0);
    const char label = f->l.of[i];
    drop(&f->l, j);
    drop(&f->l, i);
    f->l.of[f->l.n++] = label;
}

static void take_diagonals(tpi_at at, factor *f)
{
    for (int j = 1; j < f->l.n; j++) {
        const int i = place_of(&f->l, f->l.of[j]);
        if (i < j) {
            take_diagonal(at, f, i, j);
            j = 0;
        }
    }
}

static void sum_out(tpi_at at, factor *f, labels keep)
{
    int64_t axes[TP_MAX_RANK];
    int n = 0;
    for (int i = 0; i < f->l.n; i++)
        if (!(keep & bit(f->l.of[i])))
            axes[n++] = i;
    if (n)
        f->t = tp_sum(f->t, n, axes, false);
    for (int i = n - 1; i >= 0; i--)
        drop(&f->l, (int)axes[i]);
}

/* ---- two factors ----------------------------------------------------------------------------------- */

/* Of a join: labels that stay and both have, that one has, and that are summed. */
typedef struct parts {
    labels batch, rows, columns, inner;
} parts;

/* The labels of `from` that are in `some`, behind those that are there already. */
static void select_labels(const tpi_labels *from, labels some, tpi_labels *to)
{
    for (int i = 0; i < from->n; i++)
        if (some & bit(from->of[i]))
            to->of[to->n++] = from->of[i];
}

/* Inner axes of size 1 stretch to the other factor's. */
static void stretch(tpi_at at, factor *f, const factor *other, labels inner)
{
    for (int i = 0; i < f->l.n; i++) {
        const int k = place_of(&other->l, f->l.of[i]);
        if (k >= 0 && (inner & bit(f->l.of[i])) && f->t->shape[i] == 1)
            stretch_axis(at, f, i, other->t->shape[k]);
    }
}

/* [batch.., rows.., inner..] as [batch.., rows, inner], where each of the two is one axis. */
static tp_tensor *as_matrix(tpi_at at, const factor *f, int n_batch, int n_rows)
{
    tpi_dims *dims = tpi_dims_of(f->t);
    const int64_t *shape = f->t->shape;
    int64_t flat[TP_MAX_RANK];
    memcpy(flat, shape, sizeof flat);
    const int inner = n_batch + n_rows;
    flat[n_batch] = tpi_sizes_product(dims, n_rows, shape + n_batch);
    flat[n_batch + 1] = tpi_sizes_product(dims, f->l.n - inner, shape + inner);
    return tp_reshape(f->t, n_batch + 2, flat);
}

/* With nothing to sum, [batch.., rows..] and [batch.., columns..] are multiplied element by element. */
static tp_tensor *times(tpi_at at, const factor *a, const factor *b, int n_batch)
{
    int64_t left[TP_MAX_RANK], right[TP_MAX_RANK];
    const int rank = a->l.n + b->l.n - n_batch;
    for (int i = 0; i < rank; i++) {
        left[i] = i < a->l.n ? a->t->shape[i] : 1;
        right[i] = i < n_batch  ? b->t->shape[i]
                   : i < a->l.n ? 1
                                : b->t->shape[i - a->l.n + n_batch];
    }
    return tp_mul(tp_reshape(a->t, rank, left), tp_reshape(b->t, rank, right));
}

static tp_tensor *matrix_product(tpi_at at, const factor *a, const factor *b, const parts *p)
{
    const int n_batch = count(p->batch), n_rows = count(p->rows), n_inner = count(p->inner);
    int64_t shape[TP_MAX_RANK];
    int rank = n_batch;
    tp_tensor *y =
        tp_matmul(as_matrix(at, a, n_batch, n_rows), as_matrix(at, b, n_batch, n_inner));
    memcpy(shape, y->shape, sizeof shape);
    for (int i = 0; i < n_rows; i++)
        shape[rank++] = a->t->shape[n_batch + i];
    for (int i = n_batch + n_inner; i < b->l.n; i++)
        shape[rank++] = b->t->shape[i];
    return tp_reshape(y, rank, shape);
}

/* a becomes their product, in which the labels `later` are still needed. */
static tp_tensor *join(tpi_at at, const char *what, factor *a, factor *b, labels later)
{
    const labels in_a = set_of(&a->l), in_b = set_of(&b->l), both = in_a & in_b;
    sum_out(at, a, in_b | later);
    sum_out(at, b, in_a | later);
    const parts p = {both & later, set_of(&a->l) & ~both, set_of(&b->l) & ~both, both & ~later};
    const int rank = count(p.batch | p.rows | p.columns);
    if (rank > TP_MAX_RANK || (p.inner && count(p.batch) + 2 > TP_MAX_RANK))
        return tpi_fail(a->t->ctx, at, what, TP_E_SHAPE, "a product has more than %d axes",
                        TP_MAX_RANK);
    tpi_labels left = {0}, right = {0}, out = {0};
    select_labels(&a->l, p.batch, &left);
    select_labels(&a->l, p.batch, &right);
    select_labels(&a->l, p.rows, &left);
    out = left;
    select_labels(&a->l, p.inner, &left);
    select_labels(&a->l, p.inner, &right);
    select_labels(&b->l, p.columns, &right);
    select_labels(&b->l, p.columns, &out);
    stretch(at, a, b, p.inner);
    stretch(at, b, a, p.inner);
    arrange(at, a, &left);
    arrange(at, b, &right);
    a->t = p.inner ? matrix_product(at, a, b, &p) : times(at, a, b, count(p.batch));
    a->l = out;
    return a->t->status == TP_OK ? NULL : a->t;
}

/* ---- all of it ------------------------------------------------------------------------------------- */

tp_tensor *tpi_einsum_of(tpi_at at, const char *what, const tpi_einsum *e, int n,
                         tp_tensor *const *xs)
{
    factor f[TPI_EINSUM_OPERANDS];
    for (int i = 0; i < n; i++)
        f[i] = (factor){.t = xs[i], .l = e->in[i]};
    tp_tensor *failed = refuse_sizes(at, what, n, f);
    for (int i = 0; i < n && !failed; i++)
        take_diagonals(at, &f[i]);
    for (int i = 1; i < n && !failed; i++) {
        labels later = set_of(&e->out);
        for (int k = i + 1; k < n; k++)
            later |= set_of(&f[k].l);
        failed = join(at, what, &f[0], &f[i], later);
    }
    if (failed)
        return failed;
    sum_out(at, &f[0], set_of(&e->out));
    arrange(at, &f[0], &e->out);
    return f[0].t;
}

TPI_COMPOSITE(tp_einsum, (const char *equation, int n, tp_tensor *const *xs), equation, n, xs)
{
    const char *what = "einsum";
    tp_tensor *in[TPI_EINSUM_OPERANDS];
    tpi_einsum e;
    tp_tensor *failed = tpi_together(at, what, n, TPI_EINSUM_OPERANDS, xs, in);
    if (failed)
        return failed;
    if (!equation)
        return tpi_fail(in[0]->ctx, at, what, TP_E_NULL, "the equation is NULL");
    for (int i = 0; i < n; i++)
        if (in[i]->dtype == TP_BOOL)
            return tpi_fail(in[i]->ctx, at, what, TP_E_DTYPE,
                            "operand %d is bool; tp_cast it to a number first", i);
    if (!tpi_einsum_read(&e, equation, n, in))
        return tpi_fail(in[0]->ctx, at, what, TP_E_VALUE, "%s: \"%.100s\"", e.why, equation);
    return tpi_einsum_of(at, what, &e, n, in);
}
