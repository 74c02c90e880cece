/* Elementwise ops by rows: axes that run together in all operands are joined, the innermost is
 * given to a row kernel, the others are walked. An operand whose innermost stride is neither 0
 * nor 1 is gathered into a small buffer first. */
#include "kernel/host/team_host.h"
#include "op/elementwise.h"

#include <string.h>

enum { MAX_IN = 3, CHUNK = 512 };

typedef struct walk {
    int rank;
    int64_t n[TP_MAX_RANK];
    int64_t stride[MAX_IN][TP_MAX_RANK]; /* bytes */
} walk;

static void join_axes(walk *w, const tpi_run *r)
{
    const tp_tensor *out = r->out;
    w->rank = 0;
    for (int axis = 0; axis < out->rank; axis++) {
        if (out->shape[axis] == 1)
            continue;
        int64_t s[MAX_IN];
        for (int k = 0; k < r->n_in; k++) {
            const tp_tensor *x = r->in[k];
            const int own = axis - (out->rank - x->rank);
            s[k] = own < 0 || x->shape[own] == 1 ? 0 : x->stride[own] * tpi_elem_size(x);
        }
        bool joins = w->rank > 0;
        for (int k = 0; k < r->n_in && joins; k++)
            joins = w->stride[k][w->rank - 1] == s[k] * out->shape[axis];
        const int at = joins ? w->rank - 1 : w->rank++;
        w->n[at] = joins ? w->n[at] * out->shape[axis] : out->shape[axis];
        for (int k = 0; k < r->n_in; k++)
            w->stride[k][at] = s[k];
    }
    if (w->rank == 0) {
        w->rank = 1;
        w->n[0] = 1;
        for (int k = 0; k < r->n_in; k++)
            w->stride[k][0] = 0;
    }
}

static void gather(char *to, const char *from, int64_t n, int64_t stride, size_t size)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(to + (size_t)i * size, from + i * stride, size);
}

/* One innermost row in which some operand has to be gathered first. */
static void row_in_chunks(const tpi_run *r, tpi_row_fn f, const walk *w, char *y,
                          const char *const *x)
{
    _Alignas(64) char tmp[MAX_IN][CHUNK * 8];
    const int last = w->rank - 1;
    const size_t y_size = tp_dtype_size((tp_dtype)r->out->dtype);
    for (int64_t i = 0; i < w->n[last]; i += CHUNK) {
        const int64_t n = w->n[last] - i < CHUNK ? w->n[last] - i : CHUNK;
        const void *p[MAX_IN] = {NULL, NULL, NULL};
        for (int k = 0; k < r->n_in; k++) {
            const size_t size = tp_dtype_size((tp_dtype)r->in[k]->dtype);
            const int64_t stride = w->stride[k][last];
            p[k] = x[k] + i * stride;
            if (stride != (int64_t)size) {
                gather(tmp[k], p[k], n, stride, size);
                p[k] = tmp[k];
            }
        }
        f(n, y + (size_t)i * y_size, p[0], p[1], p[2]);
    }
}

/* Operands like the result, all without gaps: one row. */
static bool is_one_row(const tpi_run *r)
{
    const tp_tensor *out = r->out;
    for (int k = 0; k < r->n_in; k++) {
        const tp_tensor *x = r->in[k];
        if (!(x->flags & TPI_CONTIGUOUS) || x->rank != out->rank)
            return false;
        for (int i = 0; i < out->rank; i++)
            if (x->shape[i] != out->shape[i])
                return false;
    }
    return true;
}

/* The parts of one op that threads compute: of a row, or of the outermost axis. */
typedef struct job {
    const tpi_run *r;
    const walk *w; /* NULL: one row */
    tpi_row_fn f;
    bool direct;  /* no operand has to be gathered */
    int64_t each; /* per part: elements of the row, or places of the axis */
} job;

enum {
    STEP = 4096 /* elements: parts of a row begin on a page */
};

static void row_part(void *env, size_t part)
{
    const job *j = env;
    const tpi_run *r = j->r;
    const int64_t from = (int64_t)part * j->each, n = tpi_count(r->out);
    const void *p[MAX_IN] = {NULL, NULL, NULL};
    if (from >= n)
        return;
    for (int k = 0; k < r->n_in; k++)
        p[k] = (const char *)r->in[k]->data + from * tpi_elem_size(r->in[k]);
    j->f(n - from < j->each ? n - from : j->each,
         (char *)r->out->data + from * tpi_elem_size(r->out), p[0], p[1], p[2]);
}

static void walk_part(void *env, size_t part)
{
    const job *j = env;
    const tpi_run *r = j->r;
    const walk *w = j->w;
    const int last = w->rank - 1;
    const int64_t from = last ? (int64_t)part * j->each : 0;
    int64_t rows = last ? w->n[0] - from < j->each ? w->n[0] - from : j->each : 1;
    int64_t y_step = w->n[last] * tpi_elem_size(r->out), skip = y_step;
    for (int i = 1; i < last; i++) {
        rows *= w->n[i];
        skip *= w->n[i];
    }
    const char *x[MAX_IN] = {NULL, NULL, NULL};
    for (int k = 0; k < r->n_in; k++)
        x[k] = (const char *)r->in[k]->data + from * w->stride[k][0];
    char *y = (char *)r->out->data + from * skip;
    int64_t at[TP_MAX_RANK] = {from};
    for (int64_t i = 0; i < rows; i++, y += y_step) {
        if (j->direct)
            j->f(w->n[last], y, x[0], x[1], x[2]);
        else
            row_in_chunks(r, j->f, w, y, x);
        for (int axis = last - 1; axis >= 0; axis--) {
            const bool more = ++at[axis] < w->n[axis];
            for (int k = 0; k < r->n_in; k++)
                x[k] += more ? w->stride[k][axis] : -w->stride[k][axis] * (w->n[axis] - 1);
            if (more)
                break;
            at[axis] = 0;
        }
    }
}

/* Several operations an element, by and large. */
static int64_t parts_of(const tpi_team *t, int64_t elements)
{
    return tpi_team_parts(t, 4.0 * (double)elements);
}

bool tpi_elem_rows(tpi_run *r, const tpi_row_fn row[TPI_N_ROWS])
{
    const tpi_team team = {.kernels = r->ctx->kernels, .pool = r->ctx->pool};
    const int64_t n = tpi_count(r->out), parts = parts_of(&team, n);
    job j = {.r = r, .f = row[TPI_ROW_VECTORS]};
    if (is_one_row(r)) {
        j.each = ((n + parts - 1) / parts + STEP - 1) / STEP * STEP;
        tpi_pool_run(team.pool, row_part, &j, (size_t)parts);
        return true;
    }
    walk w;
    join_axes(&w, r);
    const int last = w.rank - 1;
    bool direct = true;
    int scalars = 0;
    for (int k = 0; k < r->n_in; k++) {
        const int64_t s = w.stride[k][last];
        if (s == 0 && w.n[last] > 1)
            scalars |= 1 << k;
        else
            direct &= s == tpi_elem_size(r->in[k]) || w.n[last] == 1;
    }
    if (scalars) {
        const tpi_row_fn other = scalars == 1   ? row[TPI_ROW_A_SCALAR]
                                 : scalars == 2 ? row[TPI_ROW_B_SCALAR]
                                                : NULL;
        if (direct && other)
            j.f = other;
        else
            direct = false;
    }
    if (n == 0)
        return true;
    j.w = &w;
    j.direct = direct;
    j.each = last ? (w.n[0] + parts - 1) / parts : 1;
    tpi_pool_run(team.pool, walk_part, &j, last ? (size_t)((w.n[0] + j.each - 1) / j.each) : 1);
    return true;
}

bool tpi_elem_fast(tpi_run *r)
{
    const tpi_row_fn *row =
        tpi_rows_of(r->ctx, (tpi_elem)r->op->elem, r->in[r->op->call_dtype]->dtype);
    return row[0] ? tpi_elem_rows(r, row) : tpi_elem_kernel(r);
}

tpi_element tpi_element_of(const tp_ctx *ctx, const tpi_op *op, tp_dtype from, tp_dtype to)
{
    if (op == &tpi_op_cast)
        return (tpi_element){.row = {tpi_cast_row(ctx, (int)from, (int)to)},
                             .scalar = tpi_cast_scalar(from, to)};
    const tpi_elem e = (tpi_elem)op->elem;
    tpi_element f = {.scalar = tpi_elem_scalar(e, from)};
    memcpy(f.row, tpi_rows_of(ctx, e, (int)from), sizeof f.row);
    return f;
}

/* ---- shapes and types ------------------------------------------------------------------------- */

typedef enum class { FLOAT, NUM, BIT, COMPARE, ANY } class;

static const uint8_t class_of[TPI_N_ELEMS] = {
#define ELEM(class, n_in, name, effort) [TPI_ELEM_##name] = class,
#include "kernel/text/elem.def"
#undef ELEM
};

static const char *cure_of(class c, int n_in)
{
    return c == FLOAT  ? "tp_cast it to f32 or f64 first"
           : c == NUM  ? "tp_cast it to a number first"
           : n_in == 1 ? "compare it with 0 for a bool"
                       : "compare floats first";
}

bool tpi_elem_infer(tpi_infer *q)
{
    const class c = (class)class_of[q->op->elem];
    const tp_dtype t = (tp_dtype)q->in[0]->dtype;
    if (!tpi_elem_scalar((tpi_elem)q->op->elem, t))
        return tpi_refuse(q, TP_E_DTYPE, "not for elements of type %s: %s", tp_dtype_name(t),
                          cure_of(c, q->n_in));
    if (q->n_in == 1)
        return tpi_infer_like(q, 0);
    return tpi_infer_met(q, 0, 1) && tpi_infer_broadcast(q, c == COMPARE ? TP_BOOL : t);
}
