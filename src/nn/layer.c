/* First values, and the tensors of layers. */
#include "nn/layer.h"

#include "nn/held.h"
#include "tapir/graph.h"
#include "tapir/linalg.h"
#include "tapir/random.h"

#include <stdarg.h>
#include <stdio.h>

tp_tensor *tpi_layer_fail(const char *file, int line, tp_ctx *tp, tp_status status,
                          const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return tp_fail(tp, status, text);
}

const char *tpi_layer_shape_text(tpi_layer_shape *room, const tp_tensor *t)
{
    size_t n = (size_t)snprintf(room->text, sizeof room->text, "[");
    for (int i = 0; i < tp_rank(t) && n < sizeof room->text; i++) {
        const int64_t size = tp_dim(t, i);
        char *symbol = size < 0 ? tp_dim_text(tp_graph_of(t), size) : NULL;
        char number[24];
        snprintf(number, sizeof number, "%lld", (long long)size);
        n += (size_t)snprintf(room->text + n, sizeof room->text - n, "%s%s", i ? ", " : "",
                              symbol      ? symbol
                              : size >= 0 ? number
                                          : "?");
        tp_free(tp_ctx_of(t), symbol);
    }
    const size_t last = sizeof room->text - sizeof "...]";
    snprintf(room->text + (n < last ? n : last), sizeof "...]", n < last ? "]" : "...]");
    return room->text;
}

/* x, or 1 for 0. */
static double or_one(double x)
{
    return tpi_held_in_range(x, 5e-324) ? 1 : x;
}

/* gain * sqrt(above / below), by ops: in C the caller's rounding would decide. */
static double spread(const char *file, int line, tp_ctx *tp, double gain, double above,
                     double below)
{
    tp_tensor *ratio = tp_div(tp_scalar(tp, TP_F64, above), tp_scalar(tp, TP_F64, below));
    return tp_item(tp_mul(tp_sqrt(ratio), gain));
}

/* The first factor of normal numbers, each column by the sign that makes it evenly spread: Mezzadri (2007). Of a
 * wide matrix the transposed one. */
static tp_tensor *orthogonal(const char *file, int line, tp_ctx *tp, double gain, int rank,
                             const int64_t *shape)
{
    if (rank < 2)
        return tpi_layer_fail(file, line, tp, TP_E_SHAPE,
                              "orthogonal values need two axes at least, not %d", rank);
    tp_tensor *x = tp_reshape(tp_normal(tp, TP_F32, rank, shape, 0, 1), TP_DIMS(shape[0], -1));
    const bool wide = tp_size(x, 0) < tp_size(x, 1);
    tp_tensor *q = NULL, *r = NULL;
    if (tp_qr(wide ? tp_swap(x, 0, 1) : x, &q, &r) != TP_OK)
        return q;
    q = tp_mul(q, tp_where(tp_lt(tp_diagonal(r, 0), 0), -1, tp_scalar(tp, TP_F32, 1)));
    return tp_mul(tp_reshape(wide ? tp_swap(q, 0, 1) : q, rank, shape), gain);
}

static tp_tensor *drawn(const char *file, int line, tp_ctx *tp, tp_init init, double gain,
                        int rank, const int64_t *shape, double n_in, double n_out)
{
    static const struct {
        double above;
        bool both, is_normal;
    } rules[] = {
        [TP_INIT_FAN_IN] = {1, false, false},
        [TP_INIT_KAIMING_UNIFORM] = {6, false, false},
        [TP_INIT_KAIMING_NORMAL] = {2, false, true },
        [TP_INIT_XAVIER_UNIFORM] = {6, true,  false},
        [TP_INIT_XAVIER_NORMAL] = {2, true,  true },
    };
    if (init == TP_INIT_ZEROS)
        return tp_full(tp, TP_F32, rank, shape, 0);
    if (init == TP_INIT_NORMAL)
        return tp_normal(tp, TP_F32, rank, shape, 0, or_one(gain));
    if (init == TP_INIT_TRUNCATED_NORMAL) {
        const double by = or_one(gain); /* twice that by an op, too: it may be a subnormal */
        const double end = tp_item(tp_mul(tp_scalar(tp, TP_F64, by), 2));
        return tp_truncated_normal(tp, TP_F32, rank, shape, 0, by, -end, end);
    }
    if (init == TP_INIT_ORTHOGONAL)
        return orthogonal(file, line, tp, or_one(gain), rank, shape);
    const double by = spread(file, line, tp, or_one(gain), rules[init].above,
                             rules[init].both ? n_in + n_out : n_in);
    return rules[init].is_normal ? tp_normal(tp, TP_F32, rank, shape, 0, by)
                                 : tp_uniform(tp, TP_F32, rank, shape, -by, by);
}

TPI_LAYER(tp_tensor *, tp_initial,
          (tp_ctx * tp, tp_init init, double gain, int rank, const int64_t *shape, int64_t n_in,
           int64_t n_out),
          tp, init, gain, rank, shape, n_in, n_out)
{
    if ((unsigned)init > TP_INIT_ORTHOGONAL)
        return tp_fail(tp, TP_E_VALUE, "there is no such initialiser");
    tp_tensor *sizes =
        tp_full(tp, TP_F32, TP_DIMS(n_in, n_out, 0), 0); /* what is no size is told as such */
    if (tp_failed(sizes))
        return sizes;
    if (n_in == 0 || n_out == 0)
        return tpi_layer_fail(file, line, tp, TP_E_SHAPE,
                              "a layer of %lld inputs and %lld outputs", (long long)n_in,
                              (long long)n_out);
    if (tp_scope_begin(tp) != TP_OK)
        return tp_fail(tp, TP_E_MEMORY, "out of memory");
    tp_tensor *t =
        tp_keep(drawn(file, line, tp, init, gain, rank, shape, (double)n_in, (double)n_out));
    tp_scope_end(tp);
    return t;
}

/* ---- tensors of layers ------------------------------------------------------------------------- */

tp_params *tpi_layer_part(const char *file, int line, tp_params *p, const char *name)
{
    return p ? tp_params_part(p, name) : NULL;
}

/* Into the tree, and out of the scope in which it was made. */
static tp_tensor *add(const char *file, int line, tp_params *part, const char *name,
                      tp_tensor *init, bool trained)
{
    return trained ? tp_params_add(part, name, init) : tp_params_add_state(part, name, init);
}

tp_tensor *tpi_layer_weight(const char *file, int line, tp_params *part,
                            const tp_layer_options *opt, int rank, const int64_t *shape,
                            int64_t n_in, int64_t n_out)
{
    const tp_init init = opt ? opt->init : TP_INIT_FAN_IN;
    tp_ctx *tp = tp_params_ctx(part);
    return add(file, line, part, "w",
               tp_initial(tp, init, opt ? opt->gain : 0, rank, shape, n_in, n_out), true);
}

tp_tensor *tpi_layer_bias(const char *file, int line, tp_params *part,
                          const tp_layer_options *opt, int64_t n_bias, int64_t n_in)
{
    if (opt && opt->no_bias)
        return NULL;
    tp_tensor *init =
        tp_initial(tp_params_ctx(part), TP_INIT_FAN_IN, 0, TP_DIMS(n_bias), n_in, 1);
    return add(file, line, part, "b", init, true);
}

tp_tensor *tpi_layer_row(const char *file, int line, tp_params *part, const char *name,
                         int64_t n, double value, bool trained)
{
    return add(file, line, part, name, tp_full(tp_params_ctx(part), TP_F32, TP_DIMS(n), value),
               trained);
}
