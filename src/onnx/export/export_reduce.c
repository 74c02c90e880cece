/* Reductions, scans and sizes as operators of ONNX. */
#include "core/dim.h"
#include "onnx/export/emit.h"

#include <string.h>

/* Runtimes order no u64: with its top bit turned it is ordered like i64. Others stay as they are. */
static tpi_val ordered(tpi_export *x, tpi_val v)
{
    if (tpi_type(x, v) != TP_U64)
        return v;
    const uint64_t top = UINT64_C(1) << 63;
    return tpi_as(x, tpi_put(x, "Sub", TPI_V(v, tpi_constant(x, TP_U64, 0, 1, &top))), TP_I64);
}

static tpi_val unordered(tpi_export *x, tpi_val v)
{
    const uint64_t top = UINT64_C(1) << 63;
    return tpi_put(x, "Add", TPI_V(tpi_as(x, v, TP_U64), tpi_constant(x, TP_U64, 0, 1, &top)));
}

/* The type in which runtimes find the greatest or least of elements of `type`. */
static tp_dtype extremum_type(const char *name, tp_dtype type)
{
    /* the order of i64 is wrong in ONNX Runtime */
    return type == TP_U32 ? TP_F64 : tpi_work_type(name, type == TP_U64 ? TP_I64 : type);
}

static bool is_extremum(const tp_tensor *t)
{
    return t->op->code == TPI_OP_reduce_max || t->op->code == TPI_OP_reduce_min;
}

tpi_val tpi_export_reduce(tpi_export *x, const tp_tensor *t, const char *name)
{
    const tpi_list *axes = tpi_attr_list(t, "axes");
    tpi_val v = tpi_in(x, t, 0);
    if (axes->n == 0)
        return tpi_export_same(x, t);
    const bool turned = is_extremum(t) && tpi_type(x, v) == TP_U64;
    if (turned)
        v = ordered(x, v);
    const tp_dtype type = (tp_dtype)t->dtype;
    const tp_dtype work =
        is_extremum(t) ? extremum_type(name, type) : tpi_work_type(name, tpi_type(x, v));
    const bool listed = t->op->code == TPI_OP_sum; /* its axes are an operand */
    const tpi_val in[] = {tpi_as(x, v, work), listed ? tpi_ints(x, axes->n, axes->v) : 0};
    v = tpi_put_alike(x, name, t, 1 + listed, in);
    return turned ? unordered(x, v) : tpi_as(x, v, (tp_dtype)t->dtype);
}

/* Which sources go where, bool [n, m, 1...], so that it broadcasts against [..., n, m, b...]. */
static tpi_val goes_there(tpi_export *x, const tp_tensor *t, int axis, int64_t m)
{
    static const int64_t off_on[] = {0, 1};
    const tpi_val index = tpi_reshape(x, tpi_in(x, t, 1), NULL, 1, &m);
    const tpi_val values = tpi_constant(x, TP_I64, 1, 2, off_on);
    const tpi_val hot =
        tpi_put_typed(x, "OneHot", TP_I64, TPI_V(index, tpi_size(x, t->shape[axis]), values));
    tpi_put_int(x, "axis", 0);
    int64_t shape[TP_MAX_RANK + 1] = {t->shape[axis], m, 1, 1, 1, 1, 1, 1, 1};
    return tpi_reshape(x, tpi_as(x, hot, TP_BOOL), NULL, t->rank - axis + 1, shape);
}

/* ScatterND has no maximum before operator set 18: each element looks at every source, of which those that go
 * elsewhere count as the element itself. */
tpi_val tpi_export_scatter_extremum(tpi_export *x, const tp_tensor *t, const char *name)
{
    const int axis = (int)tpi_attr_int(t, "axis");
    const tp_dtype type = (tp_dtype)t->dtype, work = extremum_type(name, type);
    int64_t shape[TP_MAX_RANK];
    memcpy(shape, t->shape, sizeof shape);
    const int64_t m = shape[axis] = tpi_size_product(x, t->in[1]->rank, t->in[1]->shape);
    tpi_val v = tpi_in(x, t, 0), src = tpi_reshape(x, tpi_in(x, t, 2), NULL, t->rank, shape);
    v = tpi_as(x, ordered(x, v), work);
    src = tpi_as(x, ordered(x, src), work);
    v = tpi_put(x, "Unsqueeze", TPI_V(v, tpi_int(x, axis + 1)));
    src = tpi_put(x, "Unsqueeze", TPI_V(src, tpi_int(x, axis)));
    src = tpi_choose(x, goes_there(x, t, axis, m), src, v);
    const tpi_val all = tpi_put(x, "Concat", TPI_V(v, src));
    tpi_put_int(x, "axis", axis + 1);
    const tpi_val y = tpi_put(x, name, TPI_V(all));
    tpi_put_ints(x, "axes", 1, (const int64_t[]){axis + 1});
    tpi_put_int(x, "keepdims", 0);
    return type == TP_U64 ? unordered(x, y) : tpi_as(x, y, type);
}

/* The operand in a type in which the operator orders it. */
static tpi_val in_order(tpi_export *x, const tp_tensor *t, const char *name)
{
    const tpi_val v = ordered(x, tpi_in(x, t, 0));
    return tpi_as(x, v, tpi_work_type(name, tpi_type(x, v)));
}

tpi_val tpi_export_arg(tpi_export *x, const tp_tensor *t, const char *name)
{
    const tpi_val y = tpi_put_typed(x, name, TP_I64, TPI_V(in_order(x, t, name)));
    tpi_put_shared(x, t);
    return y;
}

/* The places are the second result. */
tpi_val tpi_export_argtopk(tpi_export *x, const tp_tensor *t)
{
    const tpi_val k = tpi_size(x, tpi_attr_int(t, "k"));
    tpi_put(x, "TopK", TPI_V(in_order(x, t, "TopK"), k));
    const tpi_val y = tpi_put_result(x, TP_I64);
    tpi_put_shared(x, t);
    const int64_t from = tpi_attr_int(t, "from");
    return from ? tpi_cut(x, y, tpi_attr_int(t, "axis"), tpi_int(x, from), k, 1) : y;
}

tpi_val tpi_export_cumsum(tpi_export *x, const tp_tensor *t)
{
    const int64_t axis = tpi_attr_int(t, "axis");
    const tpi_val place = tpi_constant(x, TP_I64, 0, 1, &axis);
    const tpi_val v = tpi_in(x, t, 0);
    const tpi_val work = tpi_as(x, v, tpi_work_type("CumSum", tpi_type(x, v)));
    return tpi_as(x, tpi_put_alike(x, "CumSum", t, TPI_V(work, place)), (tp_dtype)t->dtype);
}

/* v with a row of zeros behind the others; reverse: before them. */
static tpi_val one_more(tpi_export *x, tpi_val v, int rank, const int64_t *row, bool reverse)
{
    int64_t shape[TP_MAX_RANK] = {1};
    memcpy(shape + 1, row, sizeof(int64_t) * (size_t)(rank - 1));
    const tpi_val zeros = tpi_expand(x, tpi_scalar(x, tpi_type(x, v), 0), rank, shape);
    const tpi_val all = tpi_put(x, "Concat", TPI_V(reverse ? zeros : v, reverse ? v : zeros));
    tpi_put_int(x, "axis", 0);
    return all;
}

/* The axis of a Scan is brought to the front by us: along another one, of no elements, ONNX Runtime divides by
 * 0. Nor does it run a Scan without turns: where that may be there is one turn more, whose result is cut off. */
typedef struct scanned {
    int64_t row[TP_MAX_RANK], front[TP_MAX_RANK], back[TP_MAX_RANK];
    bool any; /* its size is not known */
} scanned;

static scanned axis_in_front(const tp_tensor *t, int64_t axis)
{
    scanned s = {.any = tpi_dim_is_symbolic(t->shape[axis])};
    for (int i = 0; i < t->rank; i++) {
        s.front[i] = i == 0 ? axis : i <= axis ? i - 1 : i;
        s.back[s.front[i]] = i;
        if (i > 0)
            s.row[i - 1] = t->shape[s.front[i]];
    }
    return s;
}

static tpi_val to_front(tpi_export *x, tpi_val v, const tp_tensor *t, const scanned *s,
                        bool reverse)
{
    v = tpi_permute(x, v, t->rank, s->front);
    return s->any ? one_more(x, v, t->rank, s->row, reverse) : v;
}

static tpi_val from_front(tpi_export *x, tpi_val y, const tp_tensor *t, const scanned *s,
                          bool reverse)
{
    if (s->any)
        y = tpi_cut(x, y, 0, tpi_int(x, reverse), tpi_int(x, reverse ? INT64_MAX : -1), 1);
    return tpi_permute(x, y, t->rank, s->back);
}

/* The row of a that is taken first is not read, and may be infinite: it becomes 0. */
static tpi_val without_first(tpi_export *x, tpi_val a, int rank, const int64_t *row,
                             bool reverse)
{
    a = tpi_cut(x, a, 0, tpi_int(x, !reverse), tpi_int(x, reverse ? -1 : INT64_MAX), 1);
    return one_more(x, a, rank, row, !reverse);
}

/* A Scan that carries y, from 0: its body says y = a y + b. */
tpi_val tpi_export_recur(tpi_export *x, const tp_tensor *t)
{
    const tp_dtype type = (tp_dtype)t->dtype;
    const int64_t axis = tpi_attr_int(t, "axis"), reverse = tpi_attr_int(t, "reverse");
    if (t->shape[axis] == 0)
        return tpi_put(x, "Identity", TPI_V(tpi_in(x, t, 1)));
    const scanned s = axis_in_front(t, axis);
    tpi_val a = to_front(x, tpi_in(x, t, 0), t, &s, reverse);
    a = without_first(x, a, t->rank, s.row, reverse);
    const tpi_val b = to_front(x, tpi_in(x, t, 1), t, &s, reverse);
    const tpi_val zero = tpi_expand(x, tpi_scalar(x, type, 0), t->rank - 1, s.row);
    const int32_t body = tpi_block_begin(x);
    const tpi_val before = tpi_block_input(x, type, NULL);
    const tpi_val a_row = tpi_block_input(x, type, NULL),
                  b_row = tpi_block_input(x, type, NULL);
    const tpi_val product = tpi_put(x, "Mul", TPI_V(a_row, before));
    const tpi_val y_row = tpi_put(x, "Add", TPI_V(product, b_row));
    const tpi_val again = tpi_put(x, "Identity", TPI_V(y_row));
    tpi_block_end(x, TPI_V(y_row, again));
    tpi_put(x, "Scan", TPI_V(zero, a, b));
    const tpi_val y = tpi_put_result(x, type);
    tpi_put_body(x, 0, body);
    tpi_put_int(x, "num_scan_inputs", 2);
    tpi_put_ints(x, "scan_input_directions", 2, (const int64_t[]){reverse, reverse});
    tpi_put_ints(x, "scan_output_directions", 1, &reverse);
    return from_front(x, y, t, &s, reverse);
}

/* The body of a Scan that carries the best row so far, from the first on, its places, and the number of the
 * turn. `name` compares a row with it. */
static int32_t running_body(tpi_export *x, const char *name, tp_dtype type)
{
    const int32_t body = tpi_block_begin(x);
    const tpi_val best = tpi_block_input(x, type, NULL);
    const tpi_val place = tpi_block_input(x, TP_I64, NULL);
    const tpi_val turn = tpi_block_scalar(x, TP_I64), row = tpi_block_input(x, type, NULL);
    tpi_val beats = tpi_put_typed(x, name, TP_BOOL, TPI_V(row, best));
    if (type >= TP_F32) { /* NaN does */
        const tpi_val number = tpi_put_typed(x, "Equal", TP_BOOL, TPI_V(row, row));
        beats = tpi_put(x, "Or", TPI_V(beats, tpi_put(x, "Not", TPI_V(number))));
    }
    const tpi_val better = tpi_choose(x, beats, row, best);
    const tpi_val at = tpi_choose(x, beats, turn, place);
    const tpi_val next = tpi_put(x, "Add", TPI_V(turn, tpi_scalar(x, TP_I64, 1)));
    const tpi_val again = tpi_put(x, "Identity", TPI_V(at));
    tpi_block_end(x, TPI_V(better, at, next, again));
    return body;
}

tpi_val tpi_export_running(tpi_export *x, const tp_tensor *t, const char *name)
{
    const int64_t axis = tpi_attr_int(t, "axis");
    const tpi_val zero = tpi_scalar(x, TP_I64, 0);
    if (t->shape[axis] == 0)
        return tpi_expand(x, zero, t->rank, t->shape);
    const scanned s = axis_in_front(t, axis);
    const tpi_val v = to_front(x, in_order(x, t, "Where"), t, &s, false);
    const tpi_val one = tpi_cut(x, v, 0, tpi_int(x, 0), tpi_int(x, 1), 1);
    const tpi_val first = tpi_reshape(x, one, NULL, t->rank - 1, s.row);
    const tpi_val places = tpi_expand(x, zero, t->rank - 1, s.row);
    const int32_t body = running_body(x, name, tpi_type(x, v));
    tpi_put(x, "Scan", TPI_V(first, places, zero, v));
    tpi_put_result(x, TP_I64);
    tpi_put_result(x, TP_I64);
    const tpi_val y = tpi_put_result(x, TP_I64);
    tpi_put_body(x, 0, body);
    tpi_put_int(x, "num_scan_inputs", 1);
    return from_front(x, y, t, &s, false);
}

tpi_val tpi_export_running_value(tpi_export *x, const tp_tensor *t, const char *name)
{
    const tpi_val place = tpi_export_running(x, t, name);
    const tpi_val y = tpi_put(x, "GatherElements", TPI_V(tpi_in(x, t, 0), place));
    tpi_put_int(x, "axis", tpi_attr_int(t, "axis"));
    return y;
}

tpi_val tpi_export_extent(tpi_export *x, const tp_tensor *t)
{
    const tpi_list *axes = tpi_attr_list(t, "axes");
    int64_t n = 1;
    for (int i = 0; i < axes->n; i++)
        n = tpi_dim_mul(x->now.g->dims, n, t->in[0]->shape[axes->v[i]]);
    if (!tpi_dim_is_symbolic(n))
        return tpi_as(x, tpi_constant(x, TP_I64, 0, 1, &n), (tp_dtype)t->dtype);
    return tpi_as(x, tpi_reshape(x, tpi_size(x, n), NULL, 0, NULL), (tp_dtype)t->dtype);
}
