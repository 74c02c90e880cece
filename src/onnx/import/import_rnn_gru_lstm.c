/* RNN, GRU, LSTM as loops. The products with the inputs are one product for all steps; a step itself
 * only has those with the state. */
#include "onnx/import/import.h"

#include <string.h>

/* ---- activations ---------------------------------------------------------------------------------- */

enum { MOST_ACTIVATIONS = 6 };

/* Name, how many numbers it takes, alpha and beta unless they are given, and what becomes of x. */
#define ACTIVATIONS(A)                                                                         \
    A(Sigmoid, 0, 0, 0, tp_sigmoid(x))                                                         \
    A(Tanh, 0, 0, 0, tp_tanh(x))                                                               \
    A(Relu, 0, 0, 0, tp_relu(x))                                                               \
    A(Affine, 2, 1, 0, affine(o, x, alpha, beta))                                              \
    A(LeakyRelu, 1, 0.01, 0, tp_leaky_relu(x, alpha))                                          \
    A(ThresholdedRelu, 1, 1, 0, tp_threshold(x, alpha, 0))                                     \
    A(ScaledTanh, 2, 1, 1, affine(o, tp_tanh(affine(o, x, beta, 0)), alpha, 0))                \
    A(HardSigmoid, 2, 0.2, 0.5, tp_clip(affine(o, x, alpha, beta), 0, 1))                      \
    A(Elu, 1, 1, 0, tp_elu(x, alpha))                                                          \
    A(Softsign, 0, 0, 0, tp_softsign(x))                                                       \
    A(Softplus, 0, 0, 0, tp_softplus(x))

#define ROW(name, ...) ROW_##name,
enum { ACTIVATIONS(ROW) N_ACTIVATIONS };

typedef struct activation {
    int row; /* of the table */
    double alpha, beta;
} activation;

static const struct {
    char name[16];
    int n_numbers;
    double alpha, beta;
} activations[] = {
#define FACTS(name, n, alpha, beta, x) {#name, n, alpha, beta},
    ACTIVATIONS(FACTS)};

static tp_tensor *affine(tpi_onnx_op *o, tp_tensor *x, double alpha, double beta)
{
    return tpi_onnx_plus(o, tpi_onnx_times(o, x, alpha), beta);
}

static tp_tensor *activated(tpi_onnx_op *o, tp_tensor *x, const activation *a)
{
    const double alpha = a->alpha, beta = a->beta;
    switch (a->row) {
#define RESULT(name, n, a, b, result)                                                          \
    case ROW_##name:                                                                           \
        return result;
        ACTIVATIONS(RESULT)
    }
    return NULL;
}

/* Names differ in case from writer to writer. */
static bool is_name(tpi_span s, const char *name)
{
    bool same = s.size == strlen(name);
    for (size_t i = 0; i < s.size && same; i++)
        same = (s.at[i] | 0x20) == (name[i] | 0x20);
    return same;
}

/* ---- the cell ---------------------------------------------------------------------------------------- */

typedef struct cell {
    tpi_onnx_op *o;
    int n_gates, n_acts; /* of one direction */
    int64_t hidden, batch, steps;
    int n_dirs;
    bool first_reverse, batch_first, reset_after, couple;
    double clip; /* 0: none */
    activation acts[MOST_ACTIVATIONS];
    /* of the direction at hand */
    const activation *act;
    tp_tensor *recurrent, *recurrent_bias, *peephole; /* R turned; GRU: of gate h, or NULL */
} cell;

typedef struct state {
    tp_tensor *h, *c; /* [batch, hidden]; c of an LSTM only */
} state;

static tp_tensor *activate(const cell *r, int k, tp_tensor *x)
{
    tpi_onnx_op *o = r->o;
    if (r->clip > 0)
        x = tp_clip(x, -r->clip, r->clip);
    return activated(o, x, &r->act[k]);
}

/* Gates from `first` on, n of them, of [batch, gates * hidden]. */
static tp_tensor *gates(const cell *r, tp_tensor *x, int first, int n)
{
    tpi_onnx_op *o = r->o;
    return tp_slice(x, -1, first * r->hidden, (first + n) * r->hidden, 1);
}

/* x + h * R for all gates. */
static tp_tensor *with_state(const cell *r, tp_tensor *x, tp_tensor *h)
{
    tpi_onnx_op *o = r->o;
    return tp_add(x, tp_matmul(h, r->recurrent));
}

static state step_rnn(const cell *r, tp_tensor *x, state was)
{
    return (state){.h = activate(r, 0, with_state(r, x, was.h))};
}

/* Gates z, r, h. */
static state step_gru(const cell *r, tp_tensor *x, state was)
{
    tpi_onnx_op *o = r->o;
    tp_tensor *xh = gates(r, x, 2, 1);
    tp_tensor *zr, *rh;
    if (r->reset_after) {
        tp_tensor *all = tp_matmul(was.h, r->recurrent);
        zr = activate(r, 0, tp_add(gates(r, x, 0, 2), gates(r, all, 0, 2)));
        rh = gates(r, all, 2, 1);
        rh = r->recurrent_bias ? tp_add(rh, r->recurrent_bias) : rh;
        rh = tp_mul(gates(r, zr, 1, 1), rh);
    } else {
        tp_tensor *two = tp_matmul(was.h, gates(r, r->recurrent, 0, 2));
        zr = activate(r, 0, tp_add(gates(r, x, 0, 2), two));
        rh = tp_matmul(tp_mul(gates(r, zr, 1, 1), was.h), gates(r, r->recurrent, 2, 1));
    }
    tp_tensor *h = activate(r, 1, tp_add(xh, rh));
    tp_tensor *z = gates(r, zr, 0, 1);
    return (state){.h = tp_add(h, tp_mul(z, tp_sub(was.h, h)))};
}

/* Peephole k times the cell's state, added to a gate. */
static tp_tensor *peep(const cell *r, tp_tensor *gate, int k, tp_tensor *c)
{
    tpi_onnx_op *o = r->o;
    if (!r->peephole)
        return gate;
    return tp_add(gate, tp_mul(gates(r, r->peephole, k, 1), c));
}

/* Gates i, o, f, c; peepholes i, o, f. */
static state step_lstm(const cell *r, tp_tensor *x, state was)
{
    tpi_onnx_op *o = r->o;
    tp_tensor *all = with_state(r, x, was.h);
    tp_tensor *in = activate(r, 0, peep(r, gates(r, all, 0, 1), 0, was.c));
    tp_tensor *c = tp_mul(in, activate(r, 1, gates(r, all, 3, 1)));
    tp_tensor *kept = r->couple ? tp_sub(tp_scalar_like(in, 1), in)
                                : activate(r, 0, peep(r, gates(r, all, 2, 1), 2, was.c));
    c = tp_add(tp_mul(kept, was.c), c);
    tp_tensor *out = activate(r, 0, peep(r, gates(r, all, 1, 1), 1, c));
    return (state){.h = tp_mul(out, activate(r, 2, c)), .c = c};
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static bool read_activations(cell *r)
{
    tpi_onnx_op *o = r->o;
    double alpha[MOST_ACTIVATIONS], beta[MOST_ACTIVATIONS];
    int n_alpha, n_beta, n = 0, row = 0;
    const int wanted = r->n_acts * r->n_dirs;
    if (!tpi_onnx_floats(o, "activation_alpha", MOST_ACTIVATIONS, &n_alpha, alpha) ||
        !tpi_onnx_floats(o, "activation_beta", MOST_ACTIVATIONS, &n_beta, beta))
        return false;
    for (int i = 0; i < wanted; i++) /* Sigmoid, Tanh, Tanh; RNN: Tanh */
        r->acts[i].row = r->n_acts == 1 || i % r->n_acts > 0;
    const tpi_onnx_attr *a = tpi_onnx_attr_of(o, "activations");
    if (a) {
        tpi_onnx_list l = tpi_onnx_list_open(a);
        for (tpi_span name; tpi_onnx_next_text(&l, &name); n++) {
            for (row = 0; row < N_ACTIVATIONS && !is_name(name, activations[row].name);)
                row++;
            if (row == N_ACTIVATIONS)
                return tpi_onnx_refuse(o, "activation \"%.*s\" is not supported",
                                       TPI_SPAN(name));
            if (n < wanted)
                r->acts[n].row = row;
        }
        if (n != 0 && n != wanted)
            return tpi_onnx_refuse(o, "%d activations where %d are needed", n, wanted);
    }
    for (int i = 0, at = 0, bt = 0; i < wanted;
         i++) { /* given to those that take some, in order */
        const int k = r->acts[i].row, takes = activations[k].n_numbers;
        r->acts[i].alpha = takes > 0 && at < n_alpha ? alpha[at++] : activations[k].alpha;
        r->acts[i].beta = takes > 1 && bt < n_beta ? beta[bt++] : activations[k].beta;
    }
    return true;
}

enum { FORWARD, REVERSE, BIDIRECTIONAL }; /* as the table has them */

static bool read_cell(cell *r, tp_tensor *x, tp_tensor *w)
{
    tpi_onnx_op *o = r->o;
    const int way = tpi_onnx_choice(o, "direction");
    r->n_dirs = way == BIDIRECTIONAL ? 2 : 1;
    r->first_reverse = way == REVERSE;
    r->batch_first = tpi_onnx_int(o, "layout") != 0;
    r->reset_after = r->n_gates == 3 && tpi_onnx_int(o, "linear_before_reset") != 0;
    r->couple = r->n_gates == 4 && tpi_onnx_int(o, "input_forget") != 0;
    r->clip = tpi_onnx_float(o, "clip");
    if (x->rank != 3 || w->rank != 3)
        return tpi_onnx_refuse(o, "x is %s, w is %s: three axes are needed", SHAPE(x),
                               SHAPE(w));
    r->steps = x->shape[r->batch_first];
    r->batch = x->shape[!r->batch_first];
    r->hidden = tpi_onnx_given(o, "hidden_size") ? tpi_onnx_int(o, "hidden_size")
                                                 : w->shape[1] / r->n_gates;
    if (r->hidden < 1 || w->shape[0] != r->n_dirs || r->hidden > INT32_MAX ||
        w->shape[1] != r->hidden * r->n_gates)
        return tpi_onnx_refuse(o,
                               "w is %s for %d directions, %d gates and a hidden size of %lld",
                               SHAPE(w), r->n_dirs, r->n_gates, (long long)r->hidden);
    return tpi_onnx_spend(o, r->n_dirs * 30) && read_activations(r);
}

/* Operand i, [directions, ...] or with the batch first, of direction d; NULL when left out. */
static tp_tensor *of_direction(const cell *r, int i, int d, bool has_batch)
{
    tpi_onnx_op *o = r->o;
    if (!tpi_onnx_has(o, i))
        return NULL;
    return tp_select(tpi_onnx_in(o, i), has_batch && r->batch_first, d);
}

/* ---- one direction ----------------------------------------------------------------------------------------- */

/* b [2 * gates * hidden]: what can be added to the inputs' products at once, and (GRU) the rest. */
static tp_tensor *add_bias(cell *r, tp_tensor *xw, tp_tensor *b)
{
    tpi_onnx_op *o = r->o;
    if (!b)
        return xw;
    tp_tensor *of_x = gates(r, b, 0, r->n_gates), *of_h = gates(r, b, r->n_gates, r->n_gates);
    if (r->n_gates != 3 || !r->reset_after)
        return tp_add(xw, tp_add(of_x, of_h));
    tp_tensor *parts[] = {tp_add(gates(r, of_x, 0, 2), gates(r, of_h, 0, 2)),
                          gates(r, of_x, 2, 1)};
    r->recurrent_bias = gates(r, of_h, 2, 1);
    return tp_add(xw, tp_concat(2, parts, 0));
}

/* Where the sequence has ended `was` stays, or (without) zero comes. */
static tp_tensor *unless_ended(tpi_onnx_op *o, tp_tensor *goes_on, tp_tensor *now,
                               tp_tensor *was)
{
    if (!goes_on)
        return now;
    return tp_where(goes_on, now, was ? was : tp_scalar_like(now, 0));
}

typedef state (*step_function)(const cell *r, tp_tensor *x, state was);

/* A state before the first step: what is given, or zeros. */
static tp_tensor *first_state(const cell *r, int i, int d, tp_tensor *x)
{
    tpi_onnx_op *o = r->o;
    const int64_t shape[2] = {r->batch, r->hidden};
    tp_tensor *given = of_direction(r, i, d, true);
    return given
               ? tpi_onnx_fitted(o, given, 0, r->batch)
               : tp_broadcast(tpi_onnx_for_shape(o, tp_scalar_like(x, 0), 2, shape), 2, shape);
}

/* A turn of the loop; out[]: the states, and h where the sequence has not ended. */
static void run_step(const cell *r, const tpi_onnx_loop *l, step_function step, tp_tensor *lens,
                     tp_tensor **out)
{
    tpi_onnx_op *o = r->o;
    const int n = l->n_carried;
    tp_tensor *goes_on = lens ? tp_gt(lens, tp_cast(l->turn, tp_dtype_of(lens))) : NULL;
    const state was = {.h = l->carried[0], .c = n > 1 ? l->carried[1] : NULL};
    const state now = step(r, l->slice[0], was);
    out[n] = unless_ended(o, goes_on, now.h, NULL);
    out[0] = unless_ended(o, goes_on, now.h, was.h);
    if (n > 1)
        out[1] = unless_ended(o, goes_on, now.c, was.c);
}

/* The states after all steps, and h after each, as x has its axes. */
static bool run_direction(cell *r, tp_tensor *x, int d, step_function step, tp_tensor *lens,
                          int n_states, tp_tensor **out)
{
    tpi_onnx_op *o = r->o;
    tp_tensor *w = tp_swap(tp_select(o->x[1], 0, d), 0, 1), *in[3];
    r->recurrent = tp_swap(tp_select(tpi_onnx_in(o, 2), 0, d), 0, 1);
    r->recurrent_bias = NULL;
    r->peephole = of_direction(r, 7, d, false);
    r->act = r->acts + d * r->n_acts;
    tp_tensor *product[2] = {x, w};
    tpi_onnx_agree_product(o, product);
    tp_tensor *xw =
        add_bias(r, tp_matmul(product[0], product[1]), of_direction(r, 3, d, false));
    for (int i = 0; i < n_states; i++)
        in[i] = first_state(r, 5 + i, d, x);
    in[n_states] = r->batch_first ? tp_swap(xw, 0, 1) : xw;
    tpi_onnx_loop l = {.n_carried = n_states,
                       .n_slices = 1,
                       .count = r->steps,
                       .back = d == 1 || r->first_reverse};
    const bool ok = tpi_onnx_loop_begin(o, &l, in);
    if (ok)
        run_step(r, &l, step, lens, out);
    tpi_onnx_loop_leave(&l);
    if (!ok || !tpi_onnx_loop_end(&l, NULL, NULL, 1, out))
        return false;
    out[n_states] = r->batch_first ? tp_swap(out[n_states], 0, 1) : out[n_states];
    return true;
}

/* ---- all ------------------------------------------------------------------------------------------------------ */

/* The lengths of the sequences [batch, 1]; NULL when all have all steps. */
static bool read_lengths(cell *r, tp_tensor **lens)
{
    tpi_onnx_op *o = r->o;
    tpi_onnx_ints k;
    *lens = NULL;
    if (!tpi_onnx_has(o, 4))
        return true;
    if (tpi_onnx_try_ints(o, 4, &k)) {
        bool all = true;
        for (int i = 0; i < k.n; i++)
            all &= k.v[i] == r->steps;
        if (all)
            return true;
    }
    tp_tensor *t = tpi_onnx_good_in(o, 4);
    *lens = t ? tp_unsqueeze(tpi_onnx_fitted(o, t, 0, r->batch), 1) : NULL;
    return t;
}

static bool run_cell(cell *r, step_function step, int n_states)
{
    tpi_onnx_op *o = r->o;
    tp_tensor *x = o->x[0], *lens, *out[2][3], *of[3][2];
    if (!read_cell(r, x, o->x[1]) || !read_lengths(r, &lens))
        return false;
    for (int d = 0; d < r->n_dirs; d++) {
        if (!run_direction(r, x, d, step, lens, n_states, out[d]))
            return false;
        for (int k = 0; k <= n_states; k++)
            of[k][d] = out[d][k];
    }
    const int dir_axis = r->batch_first ? 2 : 1;
    bool ok = !tpi_onnx_wants(o, 0) ||
              tpi_onnx_out(o, 0, tp_stack(r->n_dirs, of[n_states], dir_axis));
    for (int k = 0; k < n_states && ok; k++)
        ok = !tpi_onnx_wants(o, 1 + k) ||
             tpi_onnx_out(o, 1 + k, tp_stack(r->n_dirs, of[k], r->batch_first));
    return ok;
}

bool tpi_onnx_import_rnn(tpi_onnx_op *o)
{
    cell r = {.o = o, .n_gates = 1, .n_acts = 1};
    return run_cell(&r, step_rnn, 1);
}

bool tpi_onnx_import_gru(tpi_onnx_op *o)
{
    cell r = {.o = o, .n_gates = 3, .n_acts = 2};
    return run_cell(&r, step_gru, 1);
}

bool tpi_onnx_import_lstm(tpi_onnx_op *o)
{
    cell r = {.o = o, .n_gates = 4, .n_acts = 3};
    return run_cell(&r, step_lstm, 2);
}
