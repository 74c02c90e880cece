/* Recurrent layers, one on top of the other, in one direction or both. */
#include "nn/held.h"
#include "nn/layer.h"

/* ---- weights -------------------------------------------------------------------------------------- */

/* A parameter, uniform in +-1 / sqrt(m). */
static tp_tensor *weight(const char *file, int line, tp_params *part, const char *name,
                         int rank, const int64_t *shape, int64_t m)
{
    tp_ctx *tp = tp_params_ctx(part);
    return tp_params_add(part, name, tp_initial(tp, TP_INIT_FAN_IN, 0, rank, shape, m, 1));
}

/* Of one direction: k inputs, a state of m numbers, `all` of them in all gates. After an error w and r are the failed
 * tensor. */
static tp_recurrent weights(const char *file, int line, tp_params *part, int64_t k, int64_t m,
                            int64_t all, bool no_bias)
{
    tp_recurrent w = {.w = weight(file, line, part, "w", TP_DIMS(k, all), m)};
    w.r = tp_failed(w.w) ? w.w : weight(file, line, part, "r", TP_DIMS(m, all), m);
    if (no_bias || tp_failed(w.r))
        return (tp_recurrent){.w = tp_failed(w.r) ? w.r : w.w, .r = w.r};
    w.wb = weight(file, line, part, "wb", TP_DIMS(all), m);
    w.rb = tp_failed(w.wb) ? w.wb : weight(file, line, part, "rb", TP_DIMS(all), m);
    return tp_failed(w.rb) ? (tp_recurrent){.w = w.rb, .r = w.rb} : w;
}

/* What is no size is told as such; NULL: all are good. */
static tp_tensor *refuse_sizes(const char *file, int line, tp_ctx *tp, int n_layers, int64_t k,
                               int64_t m)
{
    tp_tensor *t = tp_full(tp, TP_F32, TP_DIMS(k, m, 0), 0);
    int64_t most;
    if (tp_failed(t))
        return t;
    if (k < 1 || m < 1 || __builtin_mul_overflow(m, 4, &most))
        return tp_fail(tp, TP_E_SHAPE,
                       "a recurrent layer of no inputs, of no state, or too large");
    return n_layers >= 0 && n_layers <= TP_MAX_RECURRENT
               ? NULL
               : tp_fail(tp, TP_E_VALUE, "a recurrent layer has 1 to 8 layers");
}

/* The weights of layer i, which has k inputs; false: an error. */
static bool add_layer(const char *file, int line, tp_recurrent_layer *l, tp_params *part, int i,
                      int64_t k, int64_t m)
{
    char name[] = "0";
    name[0] = (char)('0' + i);
    tp_params *own = tpi_layer_part(file, line, part, name);
    for (int d = 0; d <= l->options.both; d++) {
        tp_params *of = d ? tpi_layer_part(file, line, own, "back") : own;
        l->w[i][d] = weights(file, line, of, k, m, l->n_gates * m, l->options.no_bias);
        if (tp_failed(l->w[i][d].w)) {
            l->w[0][0] = l->w[i][d];
            return false;
        }
    }
    return true;
}

static tp_recurrent_layer layer(const char *file, int line, tp_params *p, const char *name,
                                int n_gates, int64_t k, int64_t m,
                                const tp_recurrent_layer_options *opt)
{
    tp_recurrent_layer l = {.n_gates = n_gates};
    tp_params *part = tpi_layer_part(file, line, p, name);
    if (opt)
        l.options = *opt;
    tp_tensor *failed = refuse_sizes(file, line, tp_params_ctx(part), l.options.layers, k, m);
    if (failed) {
        l.w[0][0] = (tp_recurrent){.w = failed, .r = failed};
        return l;
    }
    l.options.layers += l.options.layers == 0;
    for (int i = 0; i < l.options.layers; i++)
        if (!add_layer(file, line, &l, part, i, i == 0 ? k : m * (1 + l.options.both), m))
            break;
    return l;
}

#define MAKER(f, n_gates)                                                                      \
    TPI_LAYER(tp_recurrent_layer, f,                                                           \
              (tp_params * p, const char *name, int64_t k, int64_t m,                          \
               const tp_recurrent_layer_options *opt),                                         \
              p, name, k, m, opt)                                                              \
    {                                                                                          \
        return layer(file, line, p, name, n_gates, k, m, opt);                                 \
    }
MAKER(tp_lstm_new, 4)
MAKER(tp_gru_new, 3)
MAKER(tp_rnn_new, 1)

/* ---- use ------------------------------------------------------------------------------------------ */

/* Of all layers' states those of layer i, as one layer takes them, or NULL. */
static tp_tensor *state_of(const char *file, int line, const tp_recurrent_layer *l, int i,
                           tp_tensor *all)
{
    if (!all)
        return NULL;
    return l->options.both ? tp_slice(all, 0, 2 * i, 2 * i + 2, 1) : tp_select(all, 0, i);
}

/* One layer: its states v are those before it, and become those after it. */
static tp_tensor *apply_one(const char *file, int line, const tp_recurrent_layer *l, int i,
                            tp_tensor *x, tp_tensor *lengths, tp_tensor **v)
{
    const tp_recurrent_options opt = {
        .batch_first = l->options.batch_first, .both = l->options.both, .lengths = lengths};
    switch (l->n_gates) {
    case 4:
        return tp_lstm(x, l->w[i], &opt, &v[0], &v[1]);
    case 3:
        return tp_gru(x, l->w[i], &opt, &v[0]);
    case 1:
        return tp_rnn(x, l->w[i], &opt, &v[0]);
    default:
        return tp_fail(tp_ctx_of(x), TP_E_VALUE, "there is no such recurrent layer");
    }
}

/* The states of all layers, side by side. */
static tp_tensor *join(const char *file, int line, const tp_recurrent_layer *l,
                       tp_tensor *const *v)
{
    return l->options.both ? tp_concat(l->options.layers, v, 0)
                           : tp_stack(l->options.layers, v, 0);
}

/* NULL, or the failed tensor: h or c is no state of so many layers. */
static tp_tensor *refuse_state(const char *file, int line, const tp_recurrent_layer *l,
                               tp_tensor *x, tp_tensor *state)
{
    if (!state || tp_failed(state))
        return state;
    const int n = l->options.layers * (1 + l->options.both);
    return tp_rank(state) == 3 && tp_size(state, 0) == n
               ? NULL
               : tp_fail(tp_ctx_of(x), TP_E_SHAPE,
                         "a state is not [layers, n, m], or [layers * 2, n, m] of both "
                         "directions");
}

/* NULL, or the failed tensor. */
static tp_tensor *refuse(const char *file, int line, const tp_recurrent_layer *l, tp_tensor *x,
                         tp_tensor *const *state)
{
    if (!l)
        return tp_fail(tp_ctx_of(x), TP_E_NULL, "the layer is NULL");
    if (l->options.layers < 1 || l->options.layers > TP_MAX_RECURRENT)
        return tp_fail(tp_ctx_of(x), TP_E_VALUE, "a recurrent layer has 1 to 8 layers");
    tp_tensor *failed = refuse_state(file, line, l, x, state[0]);
    return failed ? failed : refuse_state(file, line, l, x, state[1]);
}

/* The states become those after the last step, or the failed tensor that is the result. */
static tp_tensor *apply(const char *file, int line, const tp_recurrent_layer *l, tp_tensor *x,
                        tp_tensor *lengths, tp_tensor **state)
{
    tp_tensor *v[2][TP_MAX_RECURRENT];
    tp_tensor *failed = refuse(file, line, l, x, state);
    for (int i = 0; !failed && i < l->options.layers; i++) {
        tp_tensor *own[2] = {state_of(file, line, l, i, state[0]),
                             state_of(file, line, l, i, state[1])};
        if (i > 0 && !tpi_held_in_range(l->options.dropout, 5e-324))
            x = tp_dropout_apply(x, l->options.dropout);
        x = apply_one(file, line, l, i, x, lengths, own);
        v[0][i] = own[0];
        v[1][i] = own[1];
        failed = tp_failed(x) ? x : NULL;
    }
    for (int k = 0; k < 2; k++)
        state[k] = failed                     ? failed
                   : k < 1 || l->n_gates == 4 ? join(file, line, l, v[k])
                                              : state[k];
    return failed ? failed : x;
}

TPI_LAYER(tp_tensor *, tp_recurrent_layer_apply,
          (const tp_recurrent_layer *l, tp_tensor *x, tp_tensor *lengths, tp_tensor **h,
           tp_tensor **c),
          l, x, lengths, h, c)
{
    const bool has_c = c && l && l->n_gates == 4;
    tp_tensor *state[2] = {h ? *h : NULL, has_c ? *c : NULL};
    tp_tensor *y = apply(file, line, l, x, lengths, state);
    if (h)
        *h = state[0];
    if (has_c)
        *c = state[1];
    return y;
}

TPI_LAYER_OF(tp_layer_of_recurrent, tp_recurrent_layer, "recurrent",
             tp_recurrent_layer_apply(l, x, NULL, NULL, NULL))
