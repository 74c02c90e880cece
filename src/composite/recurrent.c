/* RNN, GRU, LSTM: cells, and loops of them over sequences. The products with the inputs are one product for
 * all steps; a step itself has only those with the state. */
#include "composite/composite.h"
#include "core/dim.h"

typedef struct cell {
    tpi_at at;
    const char *what;
    int n_gates;
    int64_t m; /* of the state; may be symbolic */
    tpi_dims *dims;
    tp_recurrent_options opt;
    tp_recurrent of; /* the weights, beside each other */
} cell;

/* ---- a step ------------------------------------------------------------------------------------- */

/* k: 0 of the gates, 1 of what is new, 2 of an LSTM's state. */
static tp_tensor *activate(const cell *r, int k, tp_tensor *x)
{
    const tpi_at at = r->at;
    if (r->opt.clip > 0)
        x = tp_clip(x, -r->opt.clip, r->opt.clip);
    if (!r->opt.activation)
        return k == 0 ? tp_sigmoid(x) : tp_tanh(x);
    tp_tensor *y = r->opt.activation(r->opt.user, k, x);
    return y ? y : tpi_fail(x->ctx, at, r->what, TP_E_NULL, "an activation is NULL");
}

/* Gates from `first` on, n of them, of [..., gates * m]. */
static tp_tensor *gates(const cell *r, tp_tensor *x, int first, int n)
{
    const tpi_at at = r->at;
    return tp_slice(x, -1, tpi_dim_mul(r->dims, r->m, first),
                    tpi_dim_mul(r->dims, r->m, first + n), 1);
}

/* x + h * r for all gates. */
static tp_tensor *with_state(const cell *r, tp_tensor *x, tp_tensor *h)
{
    const tpi_at at = r->at;
    return tp_add(x, tp_matmul(h, r->of.r));
}

static void step_rnn(const cell *r, tp_tensor *x, tp_tensor **v)
{
    v[0] = activate(r, 1, with_state(r, x, v[0]));
}

/* The reset gate times h, or, unless that is done before, times what h becomes. */
static tp_tensor *reset_state(const cell *r, tp_tensor *zr, tp_tensor *all, tp_tensor *h)
{
    const tpi_at at = r->at;
    if (r->opt.reset_before)
        return tp_matmul(tp_mul(gates(r, zr, 1, 1), h), gates(r, r->of.r, 2, 1));
    tp_tensor *rh = gates(r, all, 2, 1);
    rh = r->of.rb ? tp_add(rh, r->of.rb) : rh;
    return tp_mul(gates(r, zr, 1, 1), rh);
}

/* Gates z, r, n. */
static void step_gru(const cell *r, tp_tensor *x, tp_tensor **v)
{
    const tpi_at at = r->at;
    tp_tensor *xn = gates(r, x, 2, 1);
    tp_tensor *all = tp_matmul(v[0], r->opt.reset_before ? gates(r, r->of.r, 0, 2) : r->of.r);
    tp_tensor *two = r->opt.reset_before ? all : gates(r, all, 0, 2);
    tp_tensor *zr = activate(r, 0, tp_add(gates(r, x, 0, 2), two));
    tp_tensor *n = activate(r, 1, tp_add(xn, reset_state(r, zr, all, v[0])));
    v[0] = tp_add(n, tp_mul(gates(r, zr, 0, 1), tp_sub(v[0], n)));
}

/* Peephole k times the cell's state, added to a gate. */
static tp_tensor *peep(const cell *r, tp_tensor *gate, int k, tp_tensor *c)
{
    const tpi_at at = r->at;
    if (!r->of.peephole)
        return gate;
    return tp_add(gate, tp_mul(gates(r, r->of.peephole, k, 1), c));
}

/* Gates i, o, f, c; peepholes i, o, f. */
static void step_lstm(const cell *r, tp_tensor *x, tp_tensor **v)
{
    const tpi_at at = r->at;
    tp_tensor *all = with_state(r, x, v[0]);
    tp_tensor *in = activate(r, 0, peep(r, gates(r, all, 0, 1), 0, v[1]));
    tp_tensor *c = tp_mul(in, activate(r, 1, gates(r, all, 3, 1)));
    tp_tensor *kept =
        r->opt.couple ? tp_sub(1, in) : activate(r, 0, peep(r, gates(r, all, 2, 1), 2, v[1]));
    v[1] = c = tp_add(tp_mul(kept, v[1]), c);
    tp_tensor *out = activate(r, 0, peep(r, gates(r, all, 1, 1), 1, c));
    v[0] = tp_mul(out, activate(r, 2, c));
}

typedef void (*step_function)(const cell *r, tp_tensor *x, tp_tensor **v);
/* By the number of gates. */
static const step_function steps[] = {[1] = step_rnn, [3] = step_gru, [4] = step_lstm};

static int n_states(const cell *r)
{
    return r->n_gates == 4 ? 2 : 1;
}

/* ---- what is refused ----------------------------------------------------------------------------- */

/* NULL, or the failed tensor: t is no good operand beside x, or not of x's type and that shape. */
static tp_tensor *refuse_shape(const cell *r, const tp_tensor *x, const char *name,
                               tp_tensor *t, int rank, const int64_t *shape)
{
    tp_tensor *failed = tpi_refuse_operand(x->ctx, r->at, r->what, 1, t);
    if (failed)
        return failed;
    if (t->dtype != x->dtype)
        return tpi_fail(x->ctx, r->at, r->what, TP_E_DTYPE, "x is %s and %s %s",
                        tp_dtype_name((tp_dtype)x->dtype), name,
                        tp_dtype_name((tp_dtype)t->dtype));
    bool same = t->rank == rank;
    for (int i = 0; i < rank && same; i++)
        same = t->shape[i] == shape[i];
    return same ? NULL
                : tpi_fail(x->ctx, r->at, r->what, TP_E_SHAPE, "%s is %s, not %s for x %s",
                           name, SHAPE(t), SIZES(x->ctx, r->dims, rank, shape), SHAPE(x));
}

/* Takes the weights of one direction; NULL, or the failed tensor. */
static tp_tensor *take_weights(cell *r, tp_tensor *x, const tp_recurrent *w)
{
    tp_tensor *failed = tpi_refuse_operand(x->ctx, r->at, r->what, 1, w->w);
    if (failed || (failed = tpi_refuse_operand(x->ctx, r->at, r->what, 2, w->r)))
        return failed;
    if (w->r->rank != 2)
        return tpi_fail(x->ctx, r->at, r->what, TP_E_SHAPE, "r is %s, not a matrix",
                        SHAPE(w->r));
    r->m = w->r->shape[0];
    const int64_t all = tpi_dim_mul(r->dims, r->m, r->n_gates);
    const int64_t of_w[2] = {x->shape[x->rank - 1], all}, of_r[2] = {r->m, all};
    const int64_t peeps = tpi_dim_mul(r->dims, r->m, 3);
    if ((failed = refuse_shape(r, x, "w", w->w, 2, of_w)) ||
        (failed = refuse_shape(r, x, "r", w->r, 2, of_r)) ||
        (w->wb && (failed = refuse_shape(r, x, "wb", w->wb, 1, &all))) ||
        (w->rb && (failed = refuse_shape(r, x, "rb", w->rb, 1, &all))) ||
        (w->peephole && (failed = refuse_shape(r, x, "peephole", w->peephole, 1, &peeps))))
        return failed;
    r->of = (tp_recurrent){.w = tpi_beside(r->at, x, w->w),
                           .r = tpi_beside(r->at, x, w->r),
                           .wb = tpi_beside(r->at, x, w->wb),
                           .rb = tpi_beside(r->at, x, w->rb),
                           .peephole = tpi_beside(r->at, x, w->peephole)};
    return NULL;
}

/* ---- one direction ------------------------------------------------------------------------------- */

/* x * w and what can be added to it for all steps at once. Of a GRU that resets after its product the
 * last of rb stays for the step. */
static tp_tensor *inputs(cell *r, tp_tensor *x)
{
    const tpi_at at = r->at;
    tp_tensor *xw = tp_matmul(x, r->of.w), *wb = r->of.wb, *rb = r->of.rb;
    if (!rb)
        return wb ? tp_add(xw, wb) : xw;
    if (r->n_gates != 3 || r->opt.reset_before)
        return tp_add(xw, wb ? tp_add(wb, rb) : rb);
    r->of.rb = gates(r, rb, 2, 1);
    tp_tensor *last = wb ? gates(r, wb, 2, 1) : tpi_zeros(at, rb, 1, &r->m);
    tp_tensor *first = gates(r, rb, 0, 2);
    first = wb ? tp_add(gates(r, wb, 0, 2), first) : first;
    tp_tensor *parts[] = {first, last};
    return tp_add(xw, tp_concat(2, parts, 0));
}

/* A state before the first step, of x [..., n, k]: what is given, or zeros. */
static tp_tensor *first_state(const cell *r, tp_tensor *x, int64_t n, tp_tensor *given)
{
    const int64_t shape[2] = {n, r->m};
    if (!given)
        return tpi_zeros(r->at, x, 2, shape);
    tp_tensor *failed = refuse_shape(r, x, "the state", given, 2, shape);
    return failed ? failed : tpi_beside(r->at, x, given);
}

typedef struct sequence {
    const cell *r;
    tp_tensor *lengths; /* [n, 1], or NULL */
} sequence;

/* A turn of the loop: where a sequence has ended the states stay, and what comes out is 0. */
static void turn(void *user, int n, tp_tensor **v, int n_xs, tp_tensor *const *x, int n_ys,
                 tp_tensor **y)
{
    const sequence *s = user;
    const tpi_at at = s->r->at;
    tp_tensor *was[2] = {v[0], n > 1 ? v[1] : NULL};
    steps[s->r->n_gates](s->r, x[n_xs - 1], v);
    y[n_ys - 1] = v[0];
    if (!s->lengths)
        return;
    tp_tensor *goes_on = tp_gt(s->lengths, tp_turn(s->lengths->ctx));
    y[n_ys - 1] = tp_where(goes_on, v[0], 0);
    for (int i = 0; i < n; i++)
        v[i] = tp_where(goes_on, v[i], was[i]);
}

/* Runs one direction over x, from the states v on, which become the last ones. The result is as x has
 * its axes. */
static tp_tensor *run(cell *r, bool back, tp_tensor *x, tp_tensor *lengths, tp_tensor **v)
{
    const tpi_at at = r->at;
    const int64_t n = x->shape[!r->opt.batch_first], count = x->shape[r->opt.batch_first];
    tp_tensor *xw = inputs(r, x), *y = NULL;
    xw = r->opt.batch_first ? tp_swap(xw, 0, 1) : xw;
    for (int i = 0; i < n_states(r); i++)
        v[i] = first_state(r, x, n, v[i]);
    sequence s = {.r = r, .lengths = lengths};
    const tp_scan_options opt = {.back = back};
    if (tp_scan(count, &opt, turn, &s, n_states(r), v, 1, &xw, 1, &y) != TP_OK)
        return y && y->status != TP_OK ? y : v[0];
    if (!y) /* there were no turns */
        y = tpi_zeros(at, x, 3, (int64_t[]){0, n, r->m});
    return r->opt.batch_first ? tp_swap(y, 0, 1) : y;
}

/* ---- all ------------------------------------------------------------------------------------------ */

/* x in the graph of the first of them that is symbolic. */
static tp_tensor *beside_any(tpi_at at, tp_tensor *x, int n, tp_tensor *const *in)
{
    for (int i = 0; i < n && !x->graph; i++)
        if (tpi_is_live(in[i]))
            x = tpi_beside(at, in[i], x);
    return x;
}

static tp_tensor *beside_weights(tpi_at at, tp_tensor *x, const tp_recurrent *w)
{
    return beside_any(at, x, TPI_IN(w->w, w->r, w->wb, w->rb, w->peephole));
}

/* NULL, or the failed tensor: x is none of `rank` axes, or an option is no good. */
static tp_tensor *refuse_input(cell *r, int rank, tp_tensor *x, const tp_recurrent *w,
                               const tp_recurrent_options *opt)
{
    tp_tensor *failed = tpi_refuse_float(
        r->at, r->what, TPI_IN(x, w ? w->w : NULL, w ? w->r : NULL)); /* one has a context */
    if (failed)
        return failed;
    r->opt = opt ? *opt : (tp_recurrent_options){0};
    if (!w)
        return tpi_fail(x->ctx, r->at, r->what, TP_E_NULL, "the weights are NULL");
    if (x->rank != rank)
        return tpi_fail(x->ctx, r->at, r->what, TP_E_SHAPE, "x is %s, not of %d axes", SHAPE(x),
                        rank);
    if (tpi_is_near_handle(x->ctx, r->opt.clip))
        return tpi_fail_near_handle(x->ctx, r->at, r->what, r->opt.clip);
    if (!(r->opt.clip >= 0))
        return tpi_fail(x->ctx, r->at, r->what, TP_E_VALUE, "clip is %g, not at least 0",
                        r->opt.clip);
    return NULL;
}

/* The lengths as [n, 1], i64, or NULL: there are none; *failed: they are no good. */
static tp_tensor *take_lengths(const cell *r, tp_tensor *x, tp_tensor **failed)
{
    const tpi_at at = r->at;
    tp_tensor *l = r->opt.lengths;
    if (!l || (*failed = tpi_refuse_operand(x->ctx, at, r->what, 3, l)))
        return NULL;
    if (l->rank == 1 && l->shape[0] == x->shape[!r->opt.batch_first] && l->dtype != TP_BOOL &&
        l->dtype < TP_F32)
        return tp_unsqueeze(tpi_lengths_of(at, r->what, "lengths", tpi_beside(at, x, l), x,
                                           r->opt.batch_first, failed),
                            1);
    *failed = tpi_fail(x->ctx, at, r->what, TP_E_SHAPE,
                       "lengths are %s %s, not one integer for each sequence of x %s",
                       tp_dtype_name((tp_dtype)l->dtype), SHAPE(l), SHAPE(x));
    return NULL;
}

/* The states of direction d before the first step, of both or of the one. */
static tp_tensor *take_states(const cell *r, tp_tensor *x, int d, tp_tensor *const *state,
                              tp_tensor **v)
{
    const tpi_at at = r->at;
    const int64_t shape[3] = {2, x->shape[!r->opt.batch_first], r->m};
    tp_tensor *failed = NULL;
    for (int k = 0; k < n_states(r) && !failed; k++) {
        v[k] = state[k];
        if (!v[k] || !r->opt.both)
            continue;
        failed = refuse_shape(r, x, "the state", v[k], 3, shape);
        v[k] = failed ? v[k] : tp_select(tpi_beside(at, x, v[k]), 0, d);
    }
    return failed;
}

/* Both directions, or the one: y; the states become the last ones. */
static tp_tensor *run_all(cell *r, tp_tensor *x, const tp_recurrent *w, tp_tensor *lengths,
                          tp_tensor **state)
{
    const tpi_at at = r->at;
    const bool both = r->opt.both;
    tp_tensor *y[2], *v[2][2], *failed;
    for (int d = 0; d <= both; d++) {
        if ((failed = take_weights(r, x, &w[d])) ||
            (failed = take_states(r, x, d, state, v[d])))
            return failed;
        y[d] = run(r, both ? d : r->opt.reverse, x, lengths, v[d]);
        if (y[d]->status != TP_OK)
            return y[d];
    }
    for (int k = 0; k < n_states(r); k++)
        state[k] = both ? tp_stack(2, ((tp_tensor *[]){v[0][k], v[1][k]}), 0) : v[0][k];
    return both ? tp_concat(2, y, 2) : y[0];
}

/* A layer over sequences. After an error the states are the failed tensor, too. */
static tp_tensor *layer(cell *r, tp_tensor *x, const tp_recurrent *w,
                        const tp_recurrent_options *opt, tp_tensor **state)
{
    tp_tensor *y = refuse_input(r, 3, x, w, opt), *lengths = NULL;
    if (!y && r->opt.both && r->opt.reverse)
        y = tpi_fail(x->ctx, r->at, r->what, TP_E_VALUE,
                     "both directions, and reverse: which is one of them");
    if (!y) {
        for (int d = 0; d <= r->opt.both; d++)
            x = beside_weights(r->at, x, &w[d]);
        x = beside_any(r->at, x, TPI_IN(state[0], state[1], r->opt.lengths));
        r->dims = tpi_dims_of(x);
        y = x->status == TP_OK ? NULL : x;
    }
    if (!y) {
        lengths = take_lengths(r, x, &y);
    }
    y = y ? y : run_all(r, x, w, lengths, state);
    for (int k = 0; k < 2 && y->status != TP_OK; k++)
        state[k] = y;
    return y;
}

/* One step. After an error the states are the failed tensor. */
static void step(cell *r, tp_tensor *x, const tp_recurrent *w, const tp_recurrent_options *opt,
                 tp_tensor **state)
{
    tp_tensor *failed = refuse_input(r, 2, x, w, opt);
    if (!failed) {
        x = beside_any(r->at, beside_weights(r->at, x, w), TPI_IN(state[0], state[1]));
        r->dims = tpi_dims_of(x);
        failed = x->status == TP_OK ? take_weights(r, x, w) : x;
    }
    for (int k = 0; k < n_states(r) && !failed; k++) {
        state[k] = first_state(r, x, x->shape[0], state[k]);
        failed = state[k]->status == TP_OK ? NULL : state[k];
    }
    if (!failed)
        steps[r->n_gates](r, inputs(r, x), state);
    for (int k = 0; k < 2 && failed; k++)
        state[k] = failed;
}

#define CELL(name, gates)                                                                      \
    TPI_COMPOSITE(tp_##name##_cell,                                                            \
                  (tp_tensor * x, tp_tensor * h, const tp_recurrent *w,                        \
                   const tp_recurrent_options *opt),                                           \
                  x, h, w, opt)                                                                \
    {                                                                                          \
        cell r = {.at = at, .what = #name "_cell", .n_gates = gates};                          \
        tp_tensor *state[2] = {h, NULL};                                                       \
        step(&r, x, w, opt, state);                                                            \
        return state[0];                                                                       \
    }                                                                                          \
    TPI_COMPOSITE(tp_##name,                                                                   \
                  (tp_tensor * x, const tp_recurrent *w, const tp_recurrent_options *opt,      \
                   tp_tensor **h),                                                             \
                  x, w, opt, h)                                                                \
    {                                                                                          \
        cell r = {.at = at, .what = #name, .n_gates = gates};                                  \
        tp_tensor *state[2] = {h ? *h : NULL, NULL};                                           \
        tp_tensor *y = layer(&r, x, w, opt, state);                                            \
        if (h)                                                                                 \
            *h = state[0];                                                                     \
        return y;                                                                              \
    }
CELL(rnn, 1)
CELL(gru, 3)

TPI_COMPOSITE(tp_lstm_cell,
              (tp_tensor * x, tp_tensor *h, tp_tensor **c, const tp_recurrent *w,
               const tp_recurrent_options *opt),
              x, h, c, w, opt)
{
    cell r = {.at = at, .what = "lstm_cell", .n_gates = 4};
    tp_tensor *state[2] = {h, c ? *c : NULL};
    step(&r, x, w, opt, state);
    if (c)
        *c = state[1];
    return state[0];
}

TPI_COMPOSITE(tp_lstm,
              (tp_tensor * x, const tp_recurrent *w, const tp_recurrent_options *opt,
               tp_tensor **h, tp_tensor **c),
              x, w, opt, h, c)
{
    cell r = {.at = at, .what = "lstm", .n_gates = 4};
    tp_tensor *state[2] = {h ? *h : NULL, c ? *c : NULL};
    tp_tensor *y = layer(&r, x, w, opt, state);
    if (h)
        *h = state[0];
    if (c)
        *c = state[1];
    return y;
}
