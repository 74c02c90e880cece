/* RNN, GRU, LSTM: the layers of nn.h, whose gates have the same order, a direction at a time. */
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
    bool first_reverse;
    tp_recurrent_options opt; /* but for the direction */
    activation acts[MOST_ACTIVATIONS];
    const activation *act; /* of the direction at hand */
} cell;

/* An RNN has one activation, of what is new. */
static tp_tensor *activate(void *user, int k, tp_tensor *x)
{
    const cell *r = user;
    return activated(r->o, x, &r->act[r->n_acts == 1 ? 0 : k]);
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
    const double clip = tpi_onnx_float(o, "clip");
    r->opt = (tp_recurrent_options){
        .batch_first = tpi_onnx_int(o, "layout") != 0,
        .reset_before = r->n_gates == 3 && tpi_onnx_int(o, "linear_before_reset") == 0,
        .couple = r->n_gates == 4 && tpi_onnx_int(o, "input_forget") != 0,
        .clip = clip > 0 ? clip : 0,
        .activation = activate,
        .user = r};
    if (x->rank != 3 || w->rank != 3)
        return tpi_onnx_refuse(o, "x is %s, w is %s: three axes are needed", SHAPE(x),
                               SHAPE(w));
    r->steps = x->shape[r->opt.batch_first];
    r->batch = x->shape[!r->opt.batch_first];
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
    return tp_select(tpi_onnx_in(o, i), has_batch && r->opt.batch_first, d);
}

/* ---- one direction ----------------------------------------------------------------------------------------- */

/* Half of the biases b [2 * gates * hidden], of the inputs or of the state; NULL when there are none. */
static tp_tensor *bias(const cell *r, tp_tensor *b, int half)
{
    tpi_onnx_op *o = r->o;
    const int64_t n = r->n_gates * r->hidden;
    return b ? tp_slice(tpi_onnx_fitted(o, b, 0, 2 * n), 0, half * n, (half + 1) * n, 1) : NULL;
}

/* The states after all steps, and h after each, as x has its axes. */
static bool run_direction(cell *r, tp_tensor *x, int d, int n_states, tp_tensor **out)
{
    tpi_onnx_op *o = r->o;
    tp_tensor *product[2] = {x, tp_swap(tp_select(o->x[1], 0, d), 0, 1)};
    tpi_onnx_agree_product(o, product);
    tp_tensor *of_h = tp_swap(tp_select(tpi_onnx_in(o, 2), 0, d), 0, 1);
    of_h = tpi_onnx_fitted(o, of_h, 0, r->hidden);
    tp_tensor *b = of_direction(r, 3, d, false), *peephole = of_direction(r, 7, d, false);
    const tp_recurrent w = {.w = product[1],
                            .r = tpi_onnx_fitted(o, of_h, 1, r->n_gates * r->hidden),
                            .wb = bias(r, b, 0),
                            .rb = bias(r, b, 1),
                            .peephole = peephole};
    for (int i = 0; i < n_states; i++) {
        out[i] = of_direction(r, 5 + i, d, true);
        out[i] = out[i] ? tpi_onnx_fitted(o, out[i], 0, r->batch) : NULL;
    }
    r->act = r->acts + d * r->n_acts;
    r->opt.reverse = d == 1 || r->first_reverse;
    x = tp_graph_read(o->g, product[0]); /* a loop in any case */
    out[n_states] = n_states == 2     ? tp_lstm(x, &w, &r->opt, &out[0], &out[1])
                    : r->n_gates == 3 ? tp_gru(x, &w, &r->opt, &out[0])
                                      : tp_rnn(x, &w, &r->opt, &out[0]);
    return tpi_onnx_good(o, out[n_states]);
}

/* ---- all ------------------------------------------------------------------------------------------------------ */

/* The lengths of the sequences [batch]; NULL when all have all steps. */
static bool read_lengths(cell *r)
{
    tpi_onnx_op *o = r->o;
    tpi_onnx_ints k;
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
    r->opt.lengths = t ? tpi_onnx_fitted(o, t, 0, r->batch) : NULL;
    return t;
}

static bool run_cell(cell *r, int n_states)
{
    tpi_onnx_op *o = r->o;
    tp_tensor *x = o->x[0], *out[3], *of[3][2];
    if (!read_cell(r, x, o->x[1]) || !read_lengths(r))
        return false;
    for (int d = 0; d < r->n_dirs; d++) {
        if (!run_direction(r, x, d, n_states, out))
            return false;
        for (int k = 0; k <= n_states; k++)
            of[k][d] = out[k];
    }
    const int dir_axis = r->opt.batch_first ? 2 : 1;
    bool ok = !tpi_onnx_wants(o, 0) ||
              tpi_onnx_out(o, 0, tp_stack(r->n_dirs, of[n_states], dir_axis));
    for (int k = 0; k < n_states && ok; k++)
        ok = !tpi_onnx_wants(o, 1 + k) ||
             tpi_onnx_out(o, 1 + k, tp_stack(r->n_dirs, of[k], r->opt.batch_first));
    return ok;
}

bool tpi_onnx_import_rnn(tpi_onnx_op *o)
{
    cell r = {.o = o, .n_gates = 1, .n_acts = 1};
    return run_cell(&r, 1);
}

bool tpi_onnx_import_gru(tpi_onnx_op *o)
{
    cell r = {.o = o, .n_gates = 3, .n_acts = 2};
    return run_cell(&r, 1);
}

bool tpi_onnx_import_lstm(tpi_onnx_op *o)
{
    cell r = {.o = o, .n_gates = 4, .n_acts = 3};
    return run_cell(&r, 2);
}
