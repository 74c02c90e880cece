/* Einsum: operands are joined one after the other, each time by a matrix product whose rows,
 * columns and inner axis are several axes taken together. */
#include "onnx/import/import.h"

#include <string.h>

enum {
    N_LABELS = 64,
    FIRST_DOT = 52
}; /* letters, then the axes of an ellipsis from the right */

typedef struct factor {
    tp_tensor *t;
    int n;
    char label[TP_MAX_RANK]; /* of each axis */
} factor;

typedef uint64_t labels;

static labels bit(int label)
{
    return (labels)1 << label;
}

static labels set_of(const factor *f)
{
    labels s = 0;
    for (int i = 0; i < f->n; i++)
        s |= bit(f->label[i]);
    return s;
}

static int place_of(const factor *f, int label)
{
    for (int i = 0; i < f->n; i++)
        if (f->label[i] == label)
            return i;
    return -1;
}

/* ---- the equation --------------------------------------------------------------------------------- */

/* One term: its labels into f. `rank` -1: an output, whose ellipsis has n_dots axes. */
static bool read_term(tpi_onnx_op *o, tpi_span term, int rank, int *n_dots, factor *f)
{
    int letters = 0;
    bool dots = false;
    for (size_t i = 0; i < term.size; i++)
        letters += term.at[i] != '.' && term.at[i] != ' ';
    f->n = 0;
    for (size_t i = 0; i < term.size; i++) {
        const char c = term.at[i];
        if (c == ' ')
            continue;
        int label = c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= 'A' && c <= 'Z' ? c - 'A' : -1;
        int many = 1;
        if (c == '.' && !dots && i + 2 < term.size && term.at[i + 1] == '.' &&
            term.at[i + 2] == '.') {
            many = rank < 0 ? *n_dots : rank - letters;
            if (many < 0 || many > TP_MAX_RANK)
                return tpi_onnx_refuse(o, "the equation does not fit an input");
            *n_dots = many > *n_dots ? many : *n_dots;
            label = FIRST_DOT + many - 1;
            dots = true;
            i += 2;
        } else if (label < 0) {
            return tpi_onnx_refuse(o, "the equation has a character that is no label");
        }
        for (int k = 0; k < many; k++) {
            if (f->n == TP_MAX_RANK)
                return tpi_onnx_refuse(o, "more than %d axes", TP_MAX_RANK);
            f->label[f->n++] = (char)(label - k);
        }
    }
    return rank < 0 || f->n == rank || tpi_onnx_refuse(o, "the equation does not fit an input");
}

/* Without an arrow: what an ellipsis stands for, then the labels that occur once. */
static void implied_output(const factor *in, int n_in, int n_dots, factor *out)
{
    int seen[N_LABELS] = {0};
    for (int i = 0; i < n_in; i++)
        for (int k = 0; k < in[i].n; k++)
            seen[(int)in[i].label[k]]++;
    out->n = 0;
    for (int k = n_dots - 1; k >= 0 && out->n < TP_MAX_RANK; k--)
        out->label[out->n++] = (char)(FIRST_DOT + k);
    for (int k = 0; k < FIRST_DOT; k++)
        if (seen[k] == 1 && out->n < TP_MAX_RANK)
            out->label[out->n++] = (char)k;
}

/* ---- one factor ------------------------------------------------------------------------------------- */

static void drop(factor *f, int place)
{
    memmove(f->label + place, f->label + place + 1, (size_t)(f->n - place - 1));
    f->n--;
}

/* A label that is there twice: only where both places are equal. */
static void take_diagonals(tpi_onnx_op *o, factor *f)
{
    for (int j = 1; j < f->n; j++) {
        const int i = place_of(f, f->label[j]);
        if (i == j || tp_failed(f->t))
            continue;
        tp_tensor *at[2];
        for (int k = 0; k < 2; k++) {
            const int axis = k ? j : i;
            at[k] = tpi_onnx_along(o, tpi_onnx_iota(o, f->t->shape[axis], TP_I64), f->n, axis);
        }
        tp_tensor *zero = tp_scalar_like(f->t, 0);
        f->t = tp_sum(tp_where(tp_eq(at[0], at[1]), f->t, zero), TP_DIMS(j), false);
        drop(f, j--);
    }
}

static void sum_out(tpi_onnx_op *o, factor *f, labels keep)
{
    int64_t axes[TP_MAX_RANK];
    int n = 0;
    for (int i = 0; i < f->n; i++)
        if (!(keep & bit(f->label[i])))
            axes[n++] = i;
    if (n)
        f->t = tp_sum(f->t, n, axes, false);
    for (int i = n - 1; i >= 0; i--)
        drop(f, (int)axes[i]);
}

/* Axes in the order of the labels in `want`. */
static void arrange(tpi_onnx_op *o, factor *f, int n, const char *want)
{
    int64_t perm[TP_MAX_RANK];
    bool moved = false;
    for (int i = 0; i < n; i++) {
        perm[i] = place_of(f, want[i]);
        moved |= perm[i] != i;
        if (perm[i] < 0)
            f->t = NULL;
    }
    if (f->t && moved)
        f->t = tp_transpose(f->t, n, perm);
    memmove(f->label, want, (size_t)n);
}

/* ---- two factors -------------------------------------------------------------------------------------- */

/* The labels of f that are in `some`, behind those that are in `out` already. */
static int select_labels(const factor *f, labels some, char *out, int n)
{
    for (int i = 0; i < f->n; i++)
        if (some & bit(f->label[i]))
            out[n++] = f->label[i];
    return n;
}

/* An axis of size 1 stretches to the other factor's. */
static void stretch(tpi_onnx_op *o, factor *f, const factor *other)
{
    int64_t shape[TP_MAX_RANK];
    bool any = false;
    if (tp_failed(f->t) || tp_failed(other->t))
        return;
    for (int i = 0; i < f->n; i++) {
        const int k = place_of(other, f->label[i]);
        shape[i] = f->t->shape[i];
        if (k >= 0 && shape[i] == 1 && other->t->shape[k] != 1) {
            shape[i] = other->t->shape[k];
            any = true;
        }
    }
    if (any)
        f->t = tp_broadcast(tpi_onnx_for_shape(o, f->t, f->n, shape), f->n, shape);
}

/* Axes of one label have one size, but for 1. */
static void agree(tpi_onnx_op *o, factor *a, factor *b)
{
    for (int i = 0; i < a->n && !tp_failed(a->t) && !tp_failed(b->t); i++) {
        const int k = place_of(b, a->label[i]);
        if (k >= 0 && a->t->shape[i] != 1 && b->t->shape[k] != 1)
            tpi_onnx_agree_on(o, &a->t, i, &b->t, k);
    }
}

static bool join(tpi_onnx_op *o, factor *a, factor *b, labels later)
{
    const labels in_a = set_of(a), in_b = set_of(b);
    sum_out(o, a, in_b | later);
    sum_out(o, b, in_a | later);
    agree(o, a, b);
    stretch(o, a, b);
    stretch(o, b, a);
    const labels both = in_a & in_b, batch = both & later, inner = both & ~later;
    char left[TP_MAX_RANK] = {0}, right[TP_MAX_RANK] = {0};
    const int n_batch = select_labels(a, batch, left, 0);
    const int n_rows = select_labels(a, ~both, left, n_batch) - n_batch;
    const int n_left = select_labels(a, inner, left, n_batch + n_rows);
    const int n_inner = n_left - n_batch - n_rows;
    for (int i = 0; i < n_batch + n_inner; i++)
        right[i] = left[i < n_batch ? i : i + n_rows];
    const int n_right = select_labels(b, ~both, right, n_batch + n_inner);
    const int n_columns = n_right - n_batch - n_inner;
    arrange(o, a, n_left, left);
    arrange(o, b, n_right, right);
    if (tp_failed(a->t) || tp_failed(b->t))
        return tpi_onnx_out(o, 0, tp_failed(a->t) ? a->t : b->t);
    const int rank = n_batch + n_rows + n_columns;
    if (rank > TP_MAX_RANK || n_batch + 2 > TP_MAX_RANK)
        return tpi_onnx_refuse(o, "more than %d axes", TP_MAX_RANK);
    int64_t sa[TP_MAX_RANK], sb[TP_MAX_RANK], sy[TP_MAX_RANK];
    for (int i = 0; i < n_batch; i++) {
        sa[i] = a->t->shape[i];
        sb[i] = b->t->shape[i];
    }
    for (int i = 0; i < rank; i++)
        sy[i] = i < n_batch + n_rows ? a->t->shape[i] : b->t->shape[i - n_rows + n_inner];
    sa[n_batch] = tpi_onnx_dim_product(o, n_rows, a->t->shape + n_batch);
    sa[n_batch + 1] = tpi_onnx_dim_product(o, n_inner, a->t->shape + n_batch + n_rows);
    sb[n_batch] = tpi_onnx_dim_product(o, n_inner, b->t->shape + n_batch);
    sb[n_batch + 1] = tpi_onnx_dim_product(o, n_columns, b->t->shape + n_batch + n_inner);
    tp_tensor *y =
        tp_matmul(tp_reshape(a->t, n_batch + 2, sa), tp_reshape(b->t, n_batch + 2, sb));
    a->t = tp_reshape(y, rank, sy);
    memcpy(a->label + n_batch + n_rows, right + n_batch + n_inner, (size_t)n_columns);
    a->n = rank;
    return true;
}

/* ---- all of it ------------------------------------------------------------------------------------------ */

static tpi_span cut(tpi_span *rest, char at)
{
    const char *found = rest->size ? memchr(rest->at, at, rest->size) : NULL;
    tpi_span term = *rest;
    if (found) {
        term.size = (size_t)(found - rest->at);
        rest->at = found + 1;
        rest->size -= term.size + 1;
    } else {
        rest->size = 0;
    }
    return term;
}

static bool read_equation(tpi_onnx_op *o, factor *in, factor *out)
{
    tpi_span right = tpi_onnx_text(o, "equation"), left = cut(&right, '-');
    const bool arrow = right.at != left.at || right.size;
    int n_dots = 0;
    for (int i = 0; i < o->n_in; i++) {
        in[i].t = tpi_onnx_in(o, i);
        if (tp_failed(in[i].t))
            return tpi_onnx_out(o, 0, in[i].t);
        if (!read_term(o, cut(&left, ','), tp_rank(in[i].t), &n_dots, &in[i]))
            return false;
    }
    if (left.size)
        return tpi_onnx_refuse(o, "the equation has more terms than there are inputs");
    if (!arrow) {
        implied_output(in, o->n_in, n_dots, out);
        return true;
    }
    if (right.size == 0 || right.at[0] != '>')
        return tpi_onnx_refuse(o, "the equation has no arrow where one begins");
    return read_term(o, (tpi_span){right.at + 1, right.size - 1}, -1, &n_dots, out);
}

tp_tensor *tpi_onnx_import_einsum(tpi_onnx_op *o)
{
    enum { MAX_FACTORS = 16 };
    factor in[MAX_FACTORS] = {0}, out = {0};
    if (o->n_in < 1 || o->n_in > MAX_FACTORS)
        return tpi_onnx_refuse(o, "%d inputs: 1 to %d are supported", o->n_in, MAX_FACTORS);
    if (!read_equation(o, in, &out))
        return NULL;
    for (int i = 0; i < o->n_in; i++)
        take_diagonals(o, &in[i]);
    for (int i = 1; i < o->n_in; i++) {
        labels later = set_of(&out);
        for (int k = i + 1; k < o->n_in; k++)
            later |= set_of(&in[k]);
        if (!join(o, &in[0], &in[i], later))
            return NULL;
    }
    sum_out(o, &in[0], set_of(&out));
    if (in[0].n != out.n)
        return tpi_onnx_refuse(o, "the result has a label that is in no input, or one twice");
    arrange(o, &in[0], out.n, out.label);
    if (!in[0].t)
        return tpi_onnx_refuse(o, "the result has a label that is in no input");
    return in[0].t;
}
