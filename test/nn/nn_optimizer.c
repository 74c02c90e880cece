/* Optimisers: against numbers computed by hand and by the formulas in double, eager against
 * graph bit for bit, what is refused, and what is left in memory. */
#include "common/unit.h"
#include "tapir/nn.h"
#include "tapir/random.h"
#include "tapir/train.h"

#include <math.h>

enum { STEPS = 20, N = 3 };

/* Of each a maker, and one step written out from the header's formulas: w and what is kept, in double. */
typedef struct kept {
    double w, m, v, top;
} kept;

typedef struct kind {
    const char *name;
    tp_optimizer *(*make)(tp_ctx *tp, double rate, int n, tp_tensor *const *params);
    void (*step)(kept *k, double g, double rate, int t);
} kind;

#define MAKER(name, maker, options, ...)                                                       \
    static tp_optimizer *name##_make(tp_ctx *tp, double rate, int n, tp_tensor *const *params) \
    {                                                                                          \
        return maker(tp, rate, &(options){__VA_ARGS__}, n, params);                            \
    }

static tp_optimizer *sgd_make(tp_ctx *tp, double rate, int n, tp_tensor *const *params)
{
    return tp_sgd_new(tp, rate, NULL, n, params);
}

static void sgd_step(kept *k, double g, double rate, int t)
{
    (void)t;
    k->w -= rate * g;
}

MAKER(momentum, tp_sgd_new, tp_sgd_options, .momentum = 0.9)
static void momentum_step(kept *k, double g, double rate, int t)
{
    (void)t;
    k->v = 0.9 * k->v + g;
    k->w -= rate * k->v;
}

MAKER(nesterov, tp_sgd_new, tp_sgd_options, .momentum = 0.5, .decay = 0.01, .nesterov = true)
static void nesterov_step(kept *k, double g, double rate, int t)
{
    (void)t;
    g += 0.01 * k->w;
    k->v = 0.5 * k->v + g;
    k->w -= rate * (g + 0.5 * k->v);
}

static double adam_of(kept *k, double g, double beta1, double beta2, double eps, bool top,
                      int t)
{
    k->m = beta1 * k->m + (1 - beta1) * g;
    k->v = beta2 * k->v + (1 - beta2) * g * g;
    k->top = fmax(k->top, k->v);
    const double m = k->m / (1 - pow(beta1, t));
    const double v = (top ? k->top : k->v) / (1 - pow(beta2, t));
    return m / (sqrt(v) + eps);
}

static tp_optimizer *adam_make(tp_ctx *tp, double rate, int n, tp_tensor *const *params)
{
    return tp_adam_new(tp, rate, NULL, n, params);
}

static void adam_step(kept *k, double g, double rate, int t)
{
    k->w -= rate * adam_of(k, g, 0.9, 0.999, 1e-8, false, t);
}

MAKER(adamw, tp_adam_new, tp_adam_options, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6,
      .decay = 0.1)
static void adamw_step(kept *k, double g, double rate, int t)
{
    k->w = (1 - rate * 0.1) * k->w - rate * adam_of(k, g, 0.8, 0.99, 1e-6, false, t);
}

MAKER(amsgrad, tp_adam_new, tp_adam_options, .beta1 = -1, .beta2 = 0.5, .amsgrad = true)
static void amsgrad_step(kept *k, double g, double rate, int t)
{
    k->w -= rate * adam_of(k, g, 0, 0.5, 1e-8, true, t);
}

MAKER(rmsprop, tp_rmsprop_new, tp_rmsprop_options, .decay = 0.02)
static void rmsprop_step(kept *k, double g, double rate, int t)
{
    (void)t;
    g += 0.02 * k->w;
    k->v = 0.99 * k->v + (1 - 0.99) * g * g;
    k->w -= rate * g / (sqrt(k->v) + 1e-8);
}

MAKER(centered, tp_rmsprop_new, tp_rmsprop_options, .alpha = 0.8, .eps = 1e-3, .momentum = 0.3,
      .centered = true)
static void centered_step(kept *k, double g, double rate, int t)
{
    (void)t;
    k->v = 0.8 * k->v + (1 - 0.8) * g * g;
    k->m = 0.8 * k->m + (1 - 0.8) * g;
    k->top = 0.3 * k->top + g / (sqrt(k->v - k->m * k->m) + 1e-3);
    k->w -= rate * k->top;
}

MAKER(adagrad, tp_adagrad_new, tp_adagrad_options, .decay = 0.1)
static void adagrad_step(kept *k, double g, double rate, int t)
{
    (void)t;
    g += 0.1 * k->w;
    k->v += g * g;
    k->w -= rate * g / (sqrt(k->v) + 1e-10);
}

MAKER(lion, tp_lion_new, tp_lion_options, .decay = 0.2)
static void lion_step(kept *k, double g, double rate, int t)
{
    (void)t;
    const double way = 0.9 * k->m + (1 - 0.9) * g;
    k->w = (1 - rate * 0.2) * k->w - rate * ((way > 0) - (way < 0));
    k->m = 0.99 * k->m + (1 - 0.99) * g;
}

MAKER(adafactor, tp_adafactor_new, tp_adafactor_options, .power = 0.7, .decay = 0.1)
static void adafactor_step(kept *k, double g, double rate, int t)
{
    k->v += pow(t, -0.7) * (g * g - k->v);
    double u = g / sqrt(fmax(k->v, 0x1p-104));
    u /= fmax(1, fabs(u));
    k->w =
        (1 - rate * 0.1) * k->w - fmax(1e-3, fabs(k->w)) * fmin(rate, 1 / sqrt((double)t)) * u;
}

MAKER(absolute, tp_adafactor_new, tp_adafactor_options, .clip = 0.5, .absolute = true)
static void absolute_step(kept *k, double g, double rate, int t)
{
    k->v += pow(t, -0.8) * (g * g - k->v);
    const double u = g / sqrt(fmax(k->v, 0x1p-104));
    k->w -= rate * u / fmax(1, fabs(u) / 0.5);
}

/* One's own, as train.h shows it. */
static void sign_update(const void *options, tp_step *s)
{
#pragma push_macro("TP_PLACE")
#undef TP_PLACE
#define TP_PLACE s->file, s->line
    (void)options;
    s->w = tp_sub(s->w, tp_mul(s->rate, tp_sign(s->g)));
#pragma pop_macro("TP_PLACE")
}

static tp_optimizer *sign_make(tp_ctx *tp, double rate, int n, tp_tensor *const *params)
{
    static const tp_optimizer_kind sign = {.name = "sign", .update = sign_update};
    return tp_optimizer_new(tp, &sign, NULL, rate, 0, n, params);
}

static void sign_step(kept *k, double g, double rate, int t)
{
    (void)t;
    k->w -= rate * ((g > 0) - (g < 0));
}

#define KIND(name)                                                                             \
    {                                                                                          \
#name, name##_make, name##_step                                                        \
    }
static const kind kinds[] = {KIND(sgd),     KIND(momentum), KIND(nesterov),  KIND(adam),
                             KIND(adamw),   KIND(amsgrad),  KIND(rmsprop),   KIND(centered),
                             KIND(adagrad), KIND(lion),     KIND(adafactor), KIND(absolute),
                             KIND(sign)};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* ---- numbers ---------------------------------------------------------------------------------- */

/* loss = w^2, so that g = 2 w */
static double by_hand(const kind *k, double w, double rate, int steps)
{
    kept s = {.w = w};
    for (int t = 1; t <= steps; t++)
        k->step(&s, 2 * s.w, rate, t);
    return s.w;
}

static void follows_the_formulas(void **state)
{
    tp_ctx *tp = *state;
    for (int i = 0; i < N_KINDS; i++) {
        tp_tensor *w = tp_param(tp_scalar(tp, TP_F64, 1.5), "w");
        tp_optimizer *o = kinds[i].make(tp, 0.05, 1, &w);
        for (int t = 1; t <= STEPS; t++) {
            tp_scope_begin(tp);
            assert_true(tp_truth(tp_optimizer_step(o, tp_square(w))));
            tp_scope_end(tp);
            const double got = tp_item(w), right = by_hand(&kinds[i], 1.5, 0.05, t);
            if (!(fabs(got - right) <= 1e-12))
                fail_msg("%s, step %d: w is %.17g, not %.17g", kinds[i].name, t, got, right);
        }
        tp_optimizer_free(o);
    }
    assert_int_equal(tp_error(tp), TP_OK);
}

/* By arithmetic on paper: loss = sum(c * w), so that g = c at each step. */
static void first_steps_on_paper(void **state)
{
    tp_ctx *tp = *state;
    const double start[2] = {1, -2}, c[2] = {0.5, -4};
    tp_tensor *slope = tp_tensor_new(tp, TP_F64, TP_DIMS(2), c);

    /* v = g, then 0.5 g + g = 1.5 g: w - 0.1 g - 0.15 g. */
    tp_tensor *w = tp_param(tp_tensor_new(tp, TP_F64, TP_DIMS(2), start), "w");
    tp_optimizer *o = tp_sgd_new(tp, 0.1, &(tp_sgd_options){.momentum = 0.5}, 1, &w);
    for (int t = 0; t < 2; t++)
        tp_optimizer_step(o, tp_mul(w, slope));
    double got[2];
    tp_read(w, got, sizeof got);
    assert_true(fabs(got[0] - 0.875) < 1e-15 && fabs(got[1] - -1) < 1e-15);
    tp_optimizer_free(o);

    /* A constant gradient makes m' = g and v' = g^2: each step is the rate, whatever its size. */
    w = tp_param(tp_tensor_new(tp, TP_F64, TP_DIMS(2), start), "w");
    o = tp_adam_new(tp, 0.1, &(tp_adam_options){.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-300}, 1,
                    &w);
    for (int t = 0; t < 3; t++)
        tp_optimizer_step(o, tp_mul(w, slope));
    tp_read(w, got, sizeof got);
    assert_true(fabs(got[0] - 0.7) < 1e-14 && fabs(got[1] - -1.7) < 1e-14);
    tp_optimizer_free(o);
}

/* Against PyTorch's formula in NumPy: five steps of the loss sum(c * w + w * w / 2). */
static void adafactor_of_matrices(void **state)
{
    tp_ctx *tp = *state;
    static const struct {
        int rank;
        int64_t shape[3];
        double decay, clip, w[12];
    } rows[] = {
        {2,
         {2, 3},
         0,            0,
         {1.2008940054181458, 0.76933721821717871, 0.25, -0.28753034586746362,
          -0.58988413825123887, -1.2435681438059503}                                              },
        {2,
         {2, 3},
         0.1,          0.5,
         {0.72717249377105231, 0.72051826021672349, 0.2180193924390936, -0.32767593748826895,
          -0.18201915623393816, -0.9048803129147075}                                              },
        {3,
         {2, 2, 3},
         0,            0,
         {1.2453405012108552, 0.75075900490527103, 0.25, -0.2493545182525147,
          -0.75211735830380877, -1.2550132870600834, -1.7496726356764019, -1.6247883296505996,
          -2.3902022054868151, -3.1999679935663994, -2.0113484175796099, -2.977613421355322}      },
        {1, {4},    0, 0,   {0.69570751159976418, 0.75000197105223243, 0.25, -0.25000197105223243}},
        {0, {0},    0, 0,   {-0.013944927653460688}                                               }
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double first[12], c[12], got[12];
        for (int k = 0; k < 12; k++) {
            first[k] = ((7 * k + 3) % 11 - 5) / 4.0;
            c[k] = k * 0.5 - 1.25;
        }
        tp_tensor *slope = tp_tensor_new(tp, TP_F64, rows[i].rank, rows[i].shape, c),
                  *w = tp_param(tp_tensor_new(tp, TP_F64, rows[i].rank, rows[i].shape, first),
                                "w");
        const tp_adafactor_options opt = {.decay = rows[i].decay, .clip = rows[i].clip};
        tp_optimizer *o = tp_adafactor_new(tp, 0.6, &opt, 1, &w);
        const int n_state = rows[i].rank < 2 ? 1 : 2; /* of a matrix the rows and columns */
        assert_int_equal(tp_optimizer_n_state(o), 2 + n_state);
        assert_string_equal(tp_name_of(tp_optimizer_state(o, 2)),
                            n_state == 1 ? "w.v" : "w.row");
        assert_null(tp_optimizer_state(o, 2 + n_state));
        for (int t = 0; t < 5; t++)
            tp_optimizer_step(o, tp_add(tp_mul(slope, w), tp_mul(tp_square(w), 0.5)));
        assert_int_equal(tp_read(w, got, (size_t)tp_count(w) * sizeof *got), TP_OK);
        for (int k = 0; k < (int)tp_count(w); k++)
            if (!(fabs(got[k] - rows[i].w[k]) <= 1e-13))
                fail_msg("row %zu, element %d: %.17g, not %.17g", i, k, got[k], rows[i].w[k]);
        tp_optimizer_free(o);
    }
    tp_tensor *w = tp_param(tp_full(tp, TP_F32, TP_DIMS(4, 2, 3), 0), "w");
    tp_optimizer *o = tp_adafactor_new(tp, 0.6, NULL, 1, &w);
    assert_int_equal(tp_count(tp_optimizer_state(o, 2)), 8);
    assert_int_equal(tp_count(tp_optimizer_state(o, 3)), 12);
    tp_optimizer_free(o);
}

/* One's own: what is kept has shapes and first values of its own, and some parameters have none. */
static tp_tensor *own_first(const void *options, const tp_step *s, int k)
{
    const int bad = *(const int *)options;
    tp_ctx *tp = tp_ctx_of(s->w);
    if (bad == 1)
        return tp_fail(tp, TP_E_VALUE, "spoiled first value");
    return k == 1 && tp_rank(s->w) == 0 ? NULL
                                        : tp_full(tp, TP_F64, TP_DIMS(2), 10.0 * (k + 1));
}

static void own_update(const void *options, tp_step *s)
{
    const int bad = *(const int *)options;
    s->state[0] = tp_add(s->state[0], 1);
    if (bad == 2) /* of another shape */
        s->state[0] = tp_sum(s->state[0], TP_ALL, false);
    if (bad == 3)
        s->state[0] = NULL;
    s->w = tp_sub(s->w, tp_mul(s->g, s->rate));
}

static void states_of_ones_own(void **state)
{
    tp_ctx *tp = *state;
    static const tp_optimizer_kind own = {
        .name = "own",
        .state = {"a", "b"},
        .update = own_update,
        .options_size = sizeof(int),
        .first = own_first
    };
    tp_tensor *w[2] = {tp_param(tp_scalar(tp, TP_F32, 1), "u"),
                       tp_param(tp_full(tp, TP_F32, TP_DIMS(3), 2), "v")};
    static const char *const names[] = {"own.rate", "own.count", "u.a", "v.a", "v.b"};
    for (int bad = 0; bad < 4; bad++) {
        tp_optimizer *o = tp_optimizer_new(tp, &own, &bad, 0.5, 0, 2, w);
        if (bad == 1) {
            assert_null(o);
            EXPECT_ERROR(tp, TP_E_VALUE, "spoiled first value");
            continue;
        }
        assert_int_equal(tp_optimizer_n_state(o), 5);
        for (int i = 0; i < 5; i++)
            assert_string_equal(tp_name_of(tp_optimizer_state(o, i)), names[i]);
        const double before = tp_item(w[0]);
        tp_tensor *done = tp_optimizer_step(o, tp_mul(w[1], w[0]));
        if (bad == 2)
            EXPECT_ERROR(tp, TP_E_SHAPE, "a new value is not of its variable's shape and type");
        else if (bad == 3)
            EXPECT_ERROR(tp, TP_E_NULL, "a new value is NULL");
        else
            assert_true(tp_truth(done));
        double a[2], b[2];
        tp_read(tp_optimizer_state(o, 2), a, sizeof a);
        tp_read(tp_optimizer_state(o, 4), b, sizeof b);
        assert_true(a[1] == (bad ? 10 : 11) && b[1] == 20);
        assert_true((tp_item(w[0]) == before) == (bad > 0));
        assert_true(tp_item(tp_optimizer_state(o, 1)) == !bad);
        tp_optimizer_free(o);
    }
}

/* What a rule of somebody's does to the optimiser that calls it, and to scopes. */
typedef struct meddler {
    tp_ctx *tp;
    tp_optimizer *o;
    int how;
} meddler;

static tp_tensor *meddling_first(const void *options, const tp_step *s, int k)
{
    meddler *const *m = options;
    (void)k;
    tp_scope_begin((*m)->tp);
    return tp_scalar_like(s->w, 1);
}

static void meddling_numbers(const void *options, tp_step *s)
{
    meddler *const *m = options;
    (void)s;
    tp_scope_begin((*m)->tp);
}

static void meddling_update(const void *options, tp_step *s)
{
    meddler *m = *(meddler *const *)options;
    tp_tensor *g = tp_scalar(m->tp, TP_F32, 1);
    s->w = tp_sub(s->w, 1);
    if (m->how == 0)
        tp_scope_begin(m->tp);
    if (m->how == 1)
        tp_optimizer_free(m->o);
    if (m->how == 2)
        tp_optimizer_apply(m->o, &g);
    if (m->how == 3)
        tp_optimizer_step(m->o, g);
    if (m->how == 4)
        tp_optimizer_schedule(m->o, &(tp_schedule){0});
    if (m->how == 5)
        tp_scope_end(m->tp);
}

static void is_left_alone(void **state)
{
    tp_ctx *tp = *state;
    static const tp_optimizer_kind own = {.name = "meddler",
                                          .state = {"one"},
                                          .numbers = meddling_numbers,
                                          .update = meddling_update,
                                          .options_size = sizeof(meddler *),
                                          .first = meddling_first};
    static const char *const texts[] = {
        NULL,
        "the optimizer is freed while a step of it runs",
        "a step of this optimizer runs already",
        "a step of this optimizer runs already",
        "a schedule in a step",
        "the body of \"meddler\" ends a scope that it did not begin"};
    for (int how = 0; how < 6; how++) {
        tp_tensor *w = tp_param(tp_scalar(tp, TP_F32, 3), "w"), *g = tp_scalar(tp, TP_F32, 1);
        meddler m = {.tp = tp, .how = how}, *options = &m;
        m.o = tp_optimizer_new(tp, &own, &options, 0.1, 0, 1, &w);
        assert_true(tp_item(tp_optimizer_state(m.o, 2)) == 1);
        assert_int_equal(tp_scope_end(tp), TP_E_STATE);
        tp_clear_error(tp);
        assert_true(tp_truth(tp_optimizer_apply(m.o, &g)));
        if (texts[how])
            EXPECT_ERROR(tp, TP_E_STATE, texts[how]);
        assert_string_equal(tp_error_message(tp), "");
        assert_true(tp_item(w) == 2);
        assert_int_equal(tp_scope_end(tp), TP_E_STATE);
        tp_clear_error(tp);
        tp_optimizer_free(m.o);
    }
}

static void rate_changes(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w = tp_param(tp_scalar(tp, TP_F32, 1), "w");
    tp_optimizer *o = tp_sgd_new(tp, 0.25, NULL, 1, &w);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_SCALAR);
    tp_name(tp_optimizer_step(o, tp_mul(x, w)), "train");
    tp_tensor *out, *one = tp_scalar(tp, TP_F32, 1);
    tp_graph_run(g, TP_FEEDS({"x", one}), TP_NAMES("train"), &out);
    assert_true(tp_item(w) == 0.75);
    assert_int_equal(tp_optimizer_set_rate(o, 0.5), TP_OK);
    tp_graph_run(g, TP_FEEDS({"x", one}), TP_NAMES("train"), &out);
    assert_true(tp_item(w) == 0.25);
    tp_optimizer_step(o, tp_mul(one, w));
    assert_true(tp_item(w) == -0.25);
    tp_optimizer_free(o); /* the graph still has what it needs */
    tp_graph_run(g, TP_FEEDS({"x", one}), TP_NAMES("train"), &out);
    assert_true(tp_item(w) == -0.75);
    assert_string_equal(tp_error_message(tp), "");
}

/* ---- eager and graph ---------------------------------------------------------------------------- */

/* A small network with parameters of both float types, one of which the loss does not use. */
typedef struct net {
    tp_dense a, b;
    tp_tensor *wide, *idle, *params[6];
} net;

static net net_new(tp_ctx *tp)
{
    net n;
    tp_seed(tp, 42);
    n.a = tp_dense_new(tp_params_new(tp), "a", N, 5, NULL);
    n.b = tp_dense_new(tp_params_new(tp), "b", 5, 2, NULL);
    n.wide = tp_param(tp_uniform(tp, TP_F64, TP_DIMS(2), -1, 1), "wide");
    n.idle = tp_param(tp_uniform(tp, TP_F32, TP_DIMS(4), -1, 1), "idle");
    tp_tensor *const params[6] = {n.a.w, n.a.b, n.b.w, n.b.b, n.wide, n.idle};
    memcpy(n.params, params, sizeof params);
    return n;
}

static tp_tensor *loss_of(const net *n, tp_tensor *x)
{
    tp_tensor *h = tp_dense_apply(&n->b, tp_tanh(tp_dense_apply(&n->a, x)));
    return tp_mean(tp_square(tp_sub(tp_mul(h, n->wide), tp_scalar_like(h, 1))), TP_ALL, false);
}

static void same_bits_as_a_graph(void **state)
{
    tp_ctx *tp = *state;
    for (int i = 0; i < N_KINDS; i++) {
        net a = net_new(tp), b = net_new(tp);
        tp_optimizer *oa = kinds[i].make(tp, 0.03, 6, a.params);
        tp_optimizer *ob = kinds[i].make(tp, 0.03, 6, b.params);
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "batch"), N));
        tp_tensor *loss = tp_name(loss_of(&b, x), "loss");
        tp_name(tp_optimizer_step(ob, loss), "train");
        for (int t = 0; t < STEPS; t++) {
            tp_scope_begin(tp);
            tp_tensor *value = tp_normal(tp, TP_F32, TP_DIMS(1 + t % 4, N), 0, 1), *out[2];
            loss = loss_of(&a, value);
            assert_true(tp_truth(tp_optimizer_step(oa, loss)));
            tp_graph_run(g, TP_FEEDS({"x", value}), TP_NAMES("loss", "train"), out);
            assert_string_equal(tp_error_message(tp), "");
            const double la = tp_item(loss), lb = tp_item(out[0]);
            if (memcmp(&la, &lb, sizeof la) != 0)
                fail_msg("%s, step %d: loss %.17g eagerly, %.17g in the graph", kinds[i].name,
                         t, la, lb);
            for (int k = 0; k < 6; k++) {
                const size_t size =
                    (size_t)tp_count(a.params[k]) * tp_dtype_size(tp_dtype_of(a.params[k]));
                if (memcmp(tp_data(a.params[k]), tp_data(b.params[k]), size) != 0)
                    fail_msg("%s, step %d: parameter %s differs", kinds[i].name, t,
                             tp_name_of(a.params[k]));
            }
            tp_scope_end(tp);
        }
        tp_optimizer_free(oa);
        tp_optimizer_free(ob);
        tp_graph_free(g);
    }
}

/* ---- around a step ------------------------------------------------------------------------------ */

/* Given gradients, the bits are those of a step on the loss; in a graph too. */
static void apply_is_step(void **state)
{
    tp_ctx *tp = *state;
    for (int i = 0; i < N_KINDS; i++) {
        net a = net_new(tp), b = net_new(tp), c = net_new(tp);
        tp_optimizer *o[3] = {kinds[i].make(tp, 0.03, 6, a.params),
                              kinds[i].make(tp, 0.03, 6, b.params),
                              kinds[i].make(tp, 0.03, 6, c.params)};
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(4, N)), *dw[6], *out;
        tp_grads(loss_of(&c, x), NULL, 6, c.params, dw);
        tp_name(tp_optimizer_apply(o[2], dw), "train");
        for (int t = 0; t < 3; t++) {
            tp_tensor *value = tp_normal(tp, TP_F32, TP_DIMS(4, N), 0, 1);
            tp_optimizer_step(o[0], loss_of(&a, value));
            tp_grads(loss_of(&b, value), NULL, 6, b.params, dw);
            assert_true(tp_truth(tp_optimizer_apply(o[1], dw)));
            tp_graph_run(g, TP_FEEDS({"x", value}), TP_NAMES("train"), &out);
        }
        for (int k = 0; k < 6; k++) {
            const size_t size =
                (size_t)tp_count(a.params[k]) * tp_dtype_size(tp_dtype_of(a.params[k]));
            assert_memory_equal(tp_data(a.params[k]), tp_data(b.params[k]), size);
            assert_memory_equal(tp_data(a.params[k]), tp_data(c.params[k]), size);
        }
        dw[2] = tp_sum(dw[2], TP_ALL, false);
        assert_int_equal(tp_status_of(tp_optimizer_apply(o[1], dw)), TP_E_SHAPE);
        assert_int_equal(tp_status_of(tp_optimizer_apply(o[1], NULL)), TP_E_NULL);
        tp_clear_error(tp);
        for (int k = 0; k < 3; k++)
            tp_optimizer_free(o[k]);
        tp_graph_free(g);
    }
}

static double part(const tp_schedule *s, int t)
{
    if (t < s->warmup)
        return (t + 1.0) / (double)s->warmup;
    const double p = fmin(1, (double)(t - s->warmup) / (double)(s->steps - s->warmup));
    switch (s->kind) {
    case TP_CONSTANT:
        return 1;
    case TP_COSINE:
        return s->last + (1 - s->last) * (1 + cos(3.14159265358979323846 * p)) / 2;
    case TP_LINEAR:
        return s->last + (1 - s->last) * (1 - p);
    case TP_EXPONENTIAL:
        return pow(s->last, p);
    case TP_STAIRS:
        return pow(s->last, floor((double)(t - s->warmup) / (double)s->steps));
    }
    return NAN;
}

static void schedules(void **state)
{
    tp_ctx *tp = *state;
    static const tp_schedule all[] = {
        {TP_CONSTANT,    3, 0,  0   },
        {TP_COSINE,      0, 8,  0   },
        {TP_COSINE,      4, 10, 0.1 },
        {TP_LINEAR,      2, 7,  0.25},
        {TP_EXPONENTIAL, 1, 9,  0.01},
        {TP_STAIRS,      2, 3,  0.5 },
        {TP_STAIRS,      0, 4,  0.1 }
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tp_tensor *w = tp_param(tp_scalar(tp, TP_F64, 100), "w");
        tp_optimizer *o = tp_sgd_new(tp, 0.5, NULL, 1, &w);
        assert_int_equal(tp_optimizer_schedule(o, &all[i]), TP_OK);
        for (int t = 0; t < 14; t++) {
            const double before = tp_item(w);
            tp_optimizer_step(o, tp_mul(w, 1)); /* a gradient of 1 */
            const double taken = before - tp_item(w), right = 0.5 * part(&all[i], t);
            if (!(fabs(taken - right) <= 1e-13))
                fail_msg("schedule %zu, step %d: a rate of %.17g, not %.17g", i, t, taken,
                         right);
        }
        assert_int_equal(tp_optimizer_schedule(o, &all[i]), TP_E_STATE);
        tp_clear_error(tp);
        tp_optimizer_free(o);
    }
    tp_tensor *w = tp_param(tp_scalar(tp, TP_F64, 1), "w");
    tp_optimizer *o = tp_sgd_new(tp, 0.5, NULL, 1, &w);
    static const tp_schedule bad[] = {
        {TP_COSINE,           5,  5, 0  },
        {TP_STAIRS,           0,  0, 1  },
        {TP_LINEAR,           -1, 5, 0  },
        {(tp_schedule_kind)5, 0,  5, 0  },
        {TP_LINEAR,           0,  5, NAN}
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(tp_optimizer_schedule(o, &bad[i]), TP_E_VALUE);
        tp_clear_error(tp);
    }
    assert_int_equal(tp_optimizer_schedule(o, NULL), TP_E_NULL);
    assert_int_equal(tp_optimizer_schedule(NULL, &all[0]), TP_E_NULL);
    tp_clear_error(tp);
    tp_optimizer_free(o);
}

static void groups(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w[3];
    static const char *const names[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++)
        w[i] = tp_param(tp_scalar(tp, TP_F64, 2), names[i]);
    tp_optimizer *o = tp_adam_new(tp, 0.1, &(tp_adam_options){.decay = 0.5}, 3, w);
    assert_int_equal(tp_optimizer_group(o, 0.25, 0, 1, &w[1]), TP_OK);
    assert_int_equal(tp_optimizer_group(o, 2, 0.1, 1, &w[2]), TP_OK);
    assert_int_equal(tp_optimizer_group(o, 3, 0.1, 2, w), TP_E_VALUE);
    EXPECT_ERROR(tp, TP_E_VALUE, ": parameter 1 of the group, b, is in a group already");
    tp_optimizer_step(o, tp_add(tp_add(w[0], w[1]), w[2]));
    /* the first step of a constant gradient is the rate */
    assert_true(fabs(tp_item(w[0]) - (2 * (1 - 0.1 * 0.5) - 0.1)) < 1e-7);
    assert_true(fabs(tp_item(w[1]) - (2 - 0.025)) < 1e-7);
    assert_true(fabs(tp_item(w[2]) - (2 * (1 - 0.2 * 0.1) - 0.2)) < 1e-7);
    assert_int_equal(tp_optimizer_group(o, 1, 0, 1, w), TP_E_STATE);
    tp_clear_error(tp);
    tp_optimizer_free(o);
    o = tp_adam_new(tp, 0.1, NULL, 2, w);
    assert_int_equal(tp_optimizer_group(o, 1, 0, 1, &w[2]), TP_E_VALUE);
    EXPECT_ERROR(tp, TP_E_VALUE, ": parameter 0 of the group, c, is not the optimizer's");
    assert_int_equal(tp_optimizer_group(o, 1, -1, 1, w), TP_E_VALUE);
    tp_clear_error(tp);
    /* its variables, as they are saved */
    assert_int_equal(tp_optimizer_n_state(o), 2 + 2 * 2);
    static const char *const variables[] = {"adam.rate", "adam.count", "a.m",
                                            "a.v",       "b.m",        "b.v"};
    for (int i = 0; i < 6; i++)
        assert_string_equal(tp_name_of(tp_optimizer_state(o, i)), variables[i]);
    assert_null(tp_optimizer_state(o, 6));
    assert_null(tp_optimizer_state(o, -1));
    assert_true(tp_optimizer_rate(o) == 0.1);
    assert_true(isnan(tp_optimizer_rate(NULL)));
    tp_optimizer_free(o);
}

static void clipping(void **state)
{
    tp_ctx *tp = *state;
    const float a[2] = {3, 0}, b[1] = {-4};
    tp_tensor *g[2] = {tp_tensor_new(tp, TP_F32, TP_DIMS(2), a),
                       tp_tensor_new(tp, TP_F32, TP_DIMS(1), b)},
              *out[2];
    assert_true(tp_item(tp_clip_norm(2, g, 1, out)) == 5);
    assert_true(fabs(tp_item(tp_slice(out[0], 0, 0, 1, 1)) - 0.6) < 1e-6 &&
                fabs(tp_item(out[1]) + 0.8) < 1e-6);
    assert_true(tp_item(tp_clip_norm(2, g, 7, out)) == 5);
    assert_memory_equal(tp_data(out[0]), a, sizeof a); /* short enough: as it was */
    assert_int_equal(tp_clip_value(2, g, 1, g), TP_OK);
    assert_true(tp_item(tp_slice(g[0], 0, 0, 1, 1)) == 1 && tp_item(g[1]) == -1);
    g[1] = tp_full(tp, TP_F32, TP_DIMS(1), NAN);
    assert_true(isnan(tp_item(tp_clip_norm(2, g, 1, out))));
    assert_int_equal(tp_status_of(tp_clip_norm(0, g, 1, out)), TP_E_NULL);
    assert_int_equal(tp_clip_value(2, NULL, 1, out), TP_E_NULL);
    tp_clear_error(tp);
}

/* Two halves of a batch, each weighed by a half, eagerly and in two graphs. */
static void sums(void **state)
{
    tp_ctx *tp = *state;
    net a = net_new(tp), b = net_new(tp);
    tp_optimizer *oa = tp_adam_new(tp, 0.01, NULL, 6, a.params),
                 *ob = tp_adam_new(tp, 0.01, NULL, 6, b.params);
    tp_gradient_sum *sa = tp_gradient_sum_new(tp, 6, a.params),
                    *sb = tp_gradient_sum_new(tp, 6, b.params);
    tp_graph *more = tp_graph_new(tp), *apply = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(more, "x", TP_F32, TP_DIMS(2, N)), *dw[6], *done;
    tp_name(tp_gradient_sum_add(sb, loss_of(&b, x), 0.5), "sum");
    tp_tensor *like = tp_placeholder(apply, "like", TP_F32, TP_SCALAR);
    tp_tensor *taken = tp_gradient_sum_take(sb, like, dw);
    tp_name(tp_group(2, (tp_tensor *[]){tp_optimizer_apply(ob, dw), taken}), "train");
    for (int t = 0; t < 3; t++) {
        tp_tensor *batch = tp_normal(tp, TP_F32, TP_DIMS(4, N), 0, 1);
        for (int half = 0; half < 2; half++) {
            tp_tensor *part = tp_contiguous(tp_slice(batch, 0, 2 * half, 2 * half + 2, 1));
            assert_true(tp_truth(tp_gradient_sum_add(sa, loss_of(&a, part), 0.5)));
            tp_graph_run(more, TP_FEEDS({"x", part}), TP_NAMES("sum"), &done);
        }
        tp_tensor *whole[6], *sum[6];
        tp_grads(loss_of(&a, batch), NULL, 6, a.params, whole);
        assert_true(tp_truth(tp_gradient_sum_take(sa, NULL, sum)));
        for (int i = 0; i < 5; i++)
            assert_true(fabs(tp_item(tp_sum(tp_sub(sum[i], whole[i]), TP_ALL, false))) < 1e-5);
        assert_true(tp_truth(tp_optimizer_apply(oa, sum)));
        tp_graph_run(apply, TP_FEEDS({"like", tp_scalar(tp, TP_F32, 0)}), TP_NAMES("train"),
                     &done);
        assert_string_equal(tp_error_message(tp), "");
        for (int i = 0; i < 6; i++)
            assert_memory_equal(tp_data(a.params[i]), tp_data(b.params[i]),
                                (size_t)tp_count(a.params[i]) *
                                    tp_dtype_size(tp_dtype_of(a.params[i])));
    }
    tp_gradient_sum_free(sa);
    tp_gradient_sum_free(sb);
    tp_gradient_sum_free(NULL);
    assert_null(tp_gradient_sum_new(tp, 0, a.params));
    assert_int_equal(tp_status_of(tp_gradient_sum_add(NULL, x, 1)), TP_E_NULL);
    tp_clear_error(tp);
    tp_optimizer_free(oa);
    tp_optimizer_free(ob);
}

static void averages(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w = tp_param(tp_scalar(tp, TP_F64, 8), "w");
    tp_average *a = tp_average_new(tp, 0.75, 1, &w);
    tp_assign(w, tp_scalar(tp, TP_F64, 4));
    assert_true(tp_truth(tp_average_update(a, NULL))); /* 8 + (4 - 8) / 4 */
    assert_int_equal(tp_average_swap(a), TP_OK);
    assert_true(tp_item(w) == 7);
    assert_int_equal(tp_average_swap(a), TP_OK);
    assert_true(tp_item(w) == 4);
    /* in a graph, after the step */
    tp_optimizer *o = tp_sgd_new(tp, 1, NULL, 1, &w);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F64, TP_SCALAR), *out;
    tp_name(tp_average_update(a, tp_optimizer_step(o, tp_mul(x, w))), "train");
    tp_graph_run(g, TP_FEEDS({"x", tp_scalar(tp, TP_F64, 1)}), TP_NAMES("train"), &out);
    assert_true(tp_item(w) == 3);
    tp_average_swap(a);
    assert_true(tp_item(w) == 6); /* 7 + (3 - 7) / 4 */
    tp_average_free(a);
    tp_average_free(NULL);
    tp_optimizer_free(o);
    assert_null(tp_average_new(tp, 1, 1, &w));
    tp_clear_error(tp);
    assert_int_equal(tp_average_swap(NULL), TP_E_NULL);
}

static void patience(void **state)
{
    (void)state;
    tp_patience p = {.turns = 2, .margin = 0.1};
    static const double loss[] = {NAN, 3, 2.95, 2, NAN, 1.95, 1, 1, 1, 1};
    static const bool over[] = {false, false, false, false, false,
                                true,  false, false, true,  false};
    static const int since[] = {1, 0, 1, 0, 1, 0, 0, 1, 0, 1};
    for (int i = 0; i < 10; i++) {
        assert_int_equal(tp_patience_over(&p, loss[i]), over[i]);
        assert_int_equal(p.since, since[i]);
        assert_true(p.better == (i == 1 || i == 3 || i == 6));
    }
    assert_true(p.best == 1);
    tp_patience rises = {.turns = 1, .rises = true};
    assert_false(tp_patience_over(&rises, 0.5));
    assert_false(tp_patience_over(&rises, 0.6));
    assert_true(tp_patience_over(&rises, 0.6));
    assert_false(tp_patience_over(NULL, 1));
}

/* ---- misuse and memory ---------------------------------------------------------------------------- */

static void refused(tp_ctx *tp, const tp_optimizer *o, tp_status status, const char *text)
{
    assert_null(o);
    assert_int_equal(tp_error(tp), status);
    assert_non_null(strstr(tp_error_message(tp), text));
    assert_non_null(strstr(tp_error_message(tp), "nn_optimizer.c:"));
    tp_clear_error(tp);
}

static void refuses_to_be_made(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w = tp_param(tp_scalar(tp, TP_F32, 1), "w");
    tp_tensor *plain = tp_variable(tp_scalar(tp, TP_F32, 1), "plain");
    tp_tensor *twice[2] = {w, w}, *hole[2] = {w, NULL};
    refused(tp, tp_sgd_new(tp, 0.1, NULL, 0, &w), TP_E_VALUE, "needs parameters");
    refused(tp, tp_sgd_new(tp, 0.1, NULL, 1, NULL), TP_E_NULL, "needs parameters");
    refused(tp, tp_sgd_new(tp, 0.1, NULL, 2, hole), TP_E_NULL,
            "parameter 1 of the optimizer is NULL");
    refused(tp, tp_sgd_new(tp, 0.1, NULL, 2, twice), TP_E_VALUE,
            "parameter 1 of the optimizer is there twice");
    refused(tp, tp_sgd_new(tp, 0.1, NULL, 1, &plain), TP_E_STATE, "tp_param");
    refused(tp, tp_sgd_new(tp, NAN, NULL, 1, &w), TP_E_VALUE, "rate");
    refused(tp, tp_sgd_new(tp, 0.1, &(tp_sgd_options){.momentum = 1}, 1, &w), TP_E_VALUE,
            "momentum");
    refused(tp, tp_adam_new(tp, 0.1, &(tp_adam_options){.beta1 = 0.9, .beta2 = NAN}, 1, &w),
            TP_E_VALUE, "beta");
    refused(tp, tp_adam_new(tp, 0.1, &(tp_adam_options){.beta1 = 0.9, .eps = -1}, 1, &w),
            TP_E_VALUE, "eps");
    tp_tensor *bad = tp_fail(tp, TP_E_SHAPE, "spoiled before");
    tp_clear_error(tp);
    refused(tp, tp_sgd_new(tp, 0.1, NULL, 1, &bad), TP_E_SHAPE, "spoiled before");
    assert_null(tp_sgd_new(NULL, 0.1, NULL, 1, &w));
    tp_optimizer_free(NULL);
    assert_int_equal(tp_optimizer_set_rate(NULL, 1), TP_E_NULL);
}

static void refuses_a_step(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w = tp_param(tp_scalar(tp, TP_F32, 1), "w");
    tp_optimizer *o = tp_sgd_new(tp, 0.1, NULL, 1, &w);
    tp_tensor *loss = tp_scalar(tp, TP_F32, 3); /* of nothing */
    assert_int_equal(tp_status_of(tp_optimizer_step(o, loss)), TP_E_STATE);
    assert_int_equal(tp_status_of(tp_optimizer_step(o, NULL)), TP_E_NULL);
    assert_int_equal(tp_status_of(tp_optimizer_step(NULL, loss)), TP_E_NULL);
    const bool was = tp_recording(tp, false);
    loss = tp_square(w);
    tp_recording(tp, was);
    assert_int_equal(tp_status_of(tp_optimizer_step(o, loss)), TP_E_STATE);
    loss = tp_square(w);
    tp_assign(w, tp_scalar(tp, TP_F32, 2)); /* what was recorded is stale */
    assert_int_equal(tp_status_of(tp_optimizer_step(o, loss)), TP_E_STATE);
    assert_true(tp_item(w) == 2);
    tp_tensor *bad = tp_add(loss, NULL);
    assert_ptr_equal(tp_optimizer_step(o, bad), bad);
    assert_int_equal(tp_optimizer_set_rate(o, INFINITY), TP_E_VALUE);
    assert_true(tp_recording(tp, true));
}

static void leaves_nothing_behind(void **state)
{
    tp_ctx *tp = *state;
    net a = net_new(tp);
    for (int i = 0; i < 2 * N_KINDS; i++) {
        const bool warm =
            i >= N_KINDS; /* lists inside the context have grown as far as they do */
        tp_trim(tp);      /* numbers that are kept */
        const size_t before = tp_memory_bytes(tp);
        tp_scope_begin(tp);
        tp_optimizer *o = kinds[i % N_KINDS].make(tp, 0.03, 6, a.params);
        tp_scope_end(tp);
        tp_trim(tp);
        const size_t made = tp_memory_bytes(tp);
        for (int t = 0; t < 3; t++) {
            tp_scope_begin(tp);
            tp_tensor *x = tp_normal(tp, TP_F32, TP_DIMS(4, N), 0, 1);
            assert_true(tp_truth(tp_optimizer_step(o, loss_of(&a, x))));
            tp_scope_end(tp);
            tp_trim(tp);
            if (warm)
                assert_int_equal(tp_memory_bytes(tp), made);
        }
        tp_optimizer_free(o);
        if (warm)
            assert_int_equal(tp_memory_bytes(tp), before);
    }
}

/* Every allocation fails in turn: no crash, no leak, and no parameter half changed. */
static void survives_no_memory(void **state)
{
    (void)state;
    for (int i = 0; i < N_KINDS; i++) {
        bool done = false;
        for (long fail_at = 1; !done; fail_at++) {
            unit_memory m = {0};
            tp_ctx *tp = unit_open(&m);
            assert_non_null(tp);
            tp_tensor *w = tp_param(tp_scalar(tp, TP_F64, 1.5), "w");
            tp_tensor *b = tp_param(tp_scalar(tp, TP_F64, 0.5), "b");
            assert_int_equal(tp_error(tp), TP_OK);
            m.fail_at = m.calls + fail_at;
            tp_scope_begin(tp);
            tp_optimizer *o = kinds[i].make(tp, 0.05, 2, (tp_tensor *[]){w, b});
            tp_tensor *ok = tp_optimizer_step(o, tp_square(tp_mul(w, b)));
            done = !tp_failed(ok);
            m.fail_at = 0;
            if (!done) {
                assert_int_equal(tp_error(tp), TP_E_MEMORY);
                assert_true(tp_item(w) == 1.5 && tp_item(b) == 0.5);
            }
            tp_scope_end(tp);
            if (fail_at % 2)
                tp_optimizer_free(o);
            tp_close(tp);
            assert_int_equal(m.bytes, 0);
        }
    }
}

/* The state's names are made out of memory of their own, for which there is none. */
static void releases_what_it_retained(void **state)
{
    (void)state;
    static char name[100001];
    memset(name, 'w', sizeof name - 1);
    for (int i = 0; i < N_KINDS; i++) {
        bool done = false;
        for (long n = 1; !done; n++) {
            unit_memory m = {0};
            tp_ctx *tp = unit_open(&m);
            tp_tensor *w = tp_param(tp_scalar(tp, TP_F64, 1.5), name);
            const uint64_t failures = tp->failures;
            m.fail_once = m.calls + n;
            tp_optimizer *o = kinds[i].make(tp, 0.05, 1, &w);
            done = m.calls < m.fail_once;
            assert_true(o || (!done && tp_error(tp) == TP_E_MEMORY));
            if (tp->failures - failures >
                2) /* no memory, and the state's tensor that says so */
                fail_msg("%s, allocation %ld: something was released that was not retained",
                         kinds[i].name, n);
            tp_close(tp);
            assert_int_equal(m.bytes, 0);
        }
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(follows_the_formulas),
        CASE(first_steps_on_paper),
        CASE(adafactor_of_matrices),
        CASE(states_of_ones_own),
        CASE(is_left_alone),
        CASE(rate_changes),
        CASE(same_bits_as_a_graph),
        CASE(apply_is_step),
        CASE(schedules),
        CASE(groups),
        CASE(clipping),
        CASE(sums),
        CASE(averages),
        CASE(patience),
        CASE(refuses_to_be_made),
        CASE(refuses_a_step),
        CASE(leaves_nothing_behind),
        CASE(survives_no_memory),
        CASE(releases_what_it_retained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
