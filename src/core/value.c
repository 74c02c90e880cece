/* Asking tensors, and values out of them. */
#include "base/float_mode.h"
#include "core/dim.h"

#include <math.h>
#include <string.h>

/* ---- asking --------------------------------------------------------------------------------- */

/* Whether a pending op failed shows when it has run. */
static void settle_errors(const tp_tensor *t)
{
    if (tpi_is_live(t) && t->ctx && t->ctx->frame && t->flags & TPI_LAZY)
        t->ctx->frame->rules->before_error(t->ctx, true);
}

bool(tp_failed)(const tp_tensor *t)
{
    settle_errors(t);
    return !tpi_is_live(t) || t->status != TP_OK;
}

tp_status(tp_status_of)(const tp_tensor *t)
{
    if (!t)
        return TP_E_NULL;
    settle_errors(t);
    return t->refs > 0 ? (tp_status)t->status : TP_E_STATE;
}

const char *(tp_error_text)(const tp_tensor *t)
{
    if (!t)
        return "the tensor is NULL";
    if (t->refs <= 0)
        return "the tensor was used after its scope ended";
    settle_errors(t);
    if (t->status == TP_OK)
        return "";
    if (t->ctx && !t->error)
        return "the tensor is of a graph that was freed";
    if (t == &tpi_crowd)
        return "another thread is computing in the context: each needs one of its own, or its "
               "turn";
    return t->error ? t->error->text : "an operand is NULL, or has no context";
}

bool(tp_is_symbolic)(const tp_tensor *t)
{
    if (tpi_is_live(t))
        tpi_note_symbol(t);
    return tpi_is_live(t) && t->graph;
}

tp_ctx *(tp_ctx_of)(const tp_tensor *t)
{
    return tpi_is_live(t) ? t->ctx : NULL;
}

tp_dtype(tp_dtype_of)(const tp_tensor *t)
{
    settle_errors(t);
    return tpi_is_live(t) ? (tp_dtype)t->dtype : TP_F32;
}

int(tp_rank)(const tp_tensor *t)
{
    settle_errors(t);
    return tpi_is_live(t) ? t->rank : 0;
}

/* False when `t` is no good tensor; the error is set. */
static bool good(tpi_at at, const char *what, const tp_tensor *t)
{
    settle_errors(t);
    return tpi_is_live(t) && t->status == TP_OK
               ? true
               : !tpi_refuse_operand(t ? t->ctx : NULL, at, what, 0, t);
}

int64_t tp_size_at(const char *file, int line, const tp_tensor *t, int axis)
{
    const tpi_at at = TPI_AT(file, line);
    if (!good(at, "tp_size", t))
        return -1;
    const int i = tpi_axis(axis, t->rank);
    if (i < 0) {
        tpi_fail_status(t->ctx, at, "tp_size", TP_E_AXIS, "axis %d of %s", axis, SHAPE(t));
        return -1;
    }
    if (t->shape[i] < 0) {
        tpi_fail_status(t->ctx, at, "tp_size", TP_E_SYMBOLIC,
                        "axis %d of %s is known only when the graph is run: tp_dim gives it as "
                        "a symbolic size",
                        axis, SHAPE(t));
        return -1;
    }
    return t->shape[i];
}

TPI_BARE(int64_t, tp_size, (const tp_tensor *t, int axis), t, axis)

int64_t(tp_dim)(const tp_tensor *t, int axis)
{
    if (!good(TPI_AT(NULL, 0), "tp_dim", t))
        return TPI_NO_DIM;
    const int i = tpi_axis(axis, t->rank);
    if (i < 0) {
        tpi_fail_status(t->ctx, TPI_AT(NULL, 0), "tp_dim", TP_E_AXIS, "axis %d of %s", axis,
                        SHAPE(t));
        return TPI_NO_DIM;
    }
    return t->shape[i];
}

int64_t(tp_count)(const tp_tensor *t)
{
    settle_errors(t);
    if (!tpi_is_live(t) || t->status != TP_OK)
        return -1;
    for (int i = 0; i < t->rank; i++) {
        if (t->shape[i] < 0)
            return -1;
    }
    return tpi_count(t);
}

/* ---- values --------------------------------------------------------------------------------- */

/* Has `t` a value? If not, the error says how to come by it. */
static tp_status with_value(tpi_at at, const char *what, const tp_tensor *t, const char *cure,
                            tpi_look look)
{
    if (!good(at, what, t))
        return tp_status_of(t) == TP_OK ? TP_E_STATE : tp_status_of(t);
    if (t->ctx->frame && !t->graph) {
        tpi_look_at(at, t, look);
        if (t->status != TP_OK)
            return (tp_status)t->status;
    }
    if (t->graph)
        return tpi_fail_status(t->ctx, at, what, TP_E_SYMBOLIC,
                               "the value of a symbolic tensor is known only when its graph is "
                               "run: %s",
                               cure);
    if (t->ctx->tracing && t->flags & TPI_VARIABLE)
        return tpi_fail_status(
            t->ctx, at, what, TP_E_SYMBOLIC,
            "a block of a graph is open, in which the value of a variable is "
            "known only when the graph is run: %s",
            cure);
    return TP_OK;
}

static const char fetch[] = "give it a name (tp_name) and fetch it with tp_graph_run";

tp_status tp_read_at(const char *file, int line, const tp_tensor *t, void *out,
                     size_t size_bytes)
{
    const tpi_at at = TPI_AT(file, line);
    const tp_status s = with_value(at, "tp_read", t, fetch, TPI_LOOK_READ);
    if (s != TP_OK)
        return s;
    const size_t bytes = tpi_bytes(t);
    if (size_bytes != bytes)
        return tpi_fail_status(t->ctx, at, "tp_read", TP_E_SHAPE,
                               "%s %s has %zu bytes, room is given for %zu",
                               tp_dtype_name((tp_dtype)t->dtype), SHAPE(t), bytes, size_bytes);
    if (!out && bytes)
        return tpi_fail_status(t->ctx, at, "tp_read", TP_E_NULL,
                               "the place to read to is NULL");
    tpi_copy_out(t, out);
    return TP_OK;
}

TPI_BARE(tp_status, tp_read, (const tp_tensor *t, void *out, size_t size_bytes), t, out,
         size_bytes)

const void *tp_data_at(const char *file, int line, const tp_tensor *t)
{
    const tpi_at at = TPI_AT(file, line);
    if (with_value(at, "tp_data", t, fetch, TPI_LOOK_READ) != TP_OK)
        return NULL;
    if (!(t->flags & TPI_CONTIGUOUS)) {
        tpi_fail_status(t->ctx, at, "tp_data", TP_E_STATE,
                        "the elements of this view %s do not lie in a row: tp_contiguous makes "
                        "a copy in which they do, tp_read copies them out",
                        SHAPE(t));
        return NULL;
    }
    t->buf->exposed = true;
    return t->data;
}

TPI_BARE(const void *, tp_data, (const tp_tensor *t), t)

static bool one_element(tpi_at at, const char *what, const tp_tensor *t, const char *cure,
                        tpi_look look)
{
    if (with_value(at, what, t, cure, look) != TP_OK ||
        tpi_refuse_interrupted(t->ctx, at, what))
        return false;
    if (tpi_count(t) == 1)
        return true;
    tpi_fail_status(t->ctx, at, what, TP_E_SHAPE, "%s has %lld elements, not 1", SHAPE(t),
                    (long long)tpi_count(t));
    return false;
}

double tp_item_at(const char *file, int line, const tp_tensor *t)
{
    return one_element(TPI_AT(file, line), "tp_item", t, fetch, TPI_LOOK_READ)
               ? tpi_load_f64((tp_dtype)t->dtype, t->data)
               : (double)NAN;
}

TPI_BARE(double, tp_item, (const tp_tensor *t), t)

int64_t tp_item_i64_at(const char *file, int line, const tp_tensor *t)
{
    return one_element(TPI_AT(file, line), "tp_item_i64", t, fetch, TPI_LOOK_READ)
               ? tpi_load_i64((tp_dtype)t->dtype, t->data)
               : 0;
}

TPI_BARE(int64_t, tp_item_i64, (const tp_tensor *t), t)

bool tp_truth_at(const char *file, int line, const tp_tensor *t)
{
    TPI_DEFAULT_FLOAT_MODE;
    static const char cure[] =
        "tp_if and tp_while branch and loop inside a graph, tp_where chooses "
        "between two tensors; or call the C function with concrete ones";
    const tpi_at at = TPI_AT(file, line);
    if (!one_element(at, "tp_truth", t, cure, TPI_LOOK_TRUTH))
        return false;
    const bool truth = tpi_load_f64((tp_dtype)t->dtype, t->data) != 0;
    if (t->ctx->frame)
        t->ctx->frame->rules->answered(t->ctx, at, t, truth);
    return truth;
}

TPI_BARE(bool, tp_truth, (const tp_tensor *t), t)
