/* L-BFGS. All parameters are one vector here. What decides is read from values, as C's `while` and `if`, and all that a
 * decision leaves behind is a tensor, so that a captured function may be pure. */
#include "nn/rule.h"
#include "tapir/composites.h"
#include "tapir/indexing.h"

#undef TP_PLACE
#define TP_PLACE l->file, l->line

/* What is kept from step to step: of the last correction pairs the steps of the parameters and of the gradient, oldest
 * first, 1 / s y of each (0: there is none), the scale s y / y y of the last, and how many there were. */
enum { S, Y, RHO, GAMMA, COUNT, N_HISTORY };

enum { MOST_PAIRS = 100, MOST_EVALUATIONS = 25 };

struct tp_lbfgs {
    tp_ctx *tp;
    const char *file; /* of the call that goes on */
    int line;
    tp_lbfgs_options o;
    int n;
    tp_dtype dtype;
    int64_t size;                     /* elements of all parameters */
    tp_tensor **w, **start, **pieces; /* [n]; their values before a step; those of one vector */
    tp_tensor *history[N_HISTORY];    /* variables */
    tpi_changes changes;
    bool running; /* a step of it */
    tp_loss_function *loss;
    void *user;
};

/* ---- making ------------------------------------------------------------------------------------- */

static bool check(const char *file, int line, tp_ctx *tp, tp_lbfgs_options *o)
{
    o->history = o->history ? o->history : 10;
    o->turns = o->turns ? o->turns : 20;
    if (o->history < 1 || o->history > MOST_PAIRS)
        return tpi_rule_refuses(file, line, tp, "the history", "in 1 to 100");
    if (o->turns < 1)
        return tpi_rule_refuses(file, line, tp, "the number of turns", "above 0");
    return tpi_rule_is_below(file, line, tp, "the rate", &o->rate, 1, INFINITY) &&
           tpi_rule_is_below(file, line, tp, "the least gradient", &o->gradient, 1e-7,
                             INFINITY) &&
           tpi_rule_is_below(file, line, tp, "the least change", &o->change, 1e-9, INFINITY);
}

static bool reserve(tp_lbfgs *l)
{
    l->w = tp_alloc(l->tp, 3 * (size_t)l->n * sizeof *l->w);
    if (!l->w || !tpi_changes_new(l->tp, &l->changes, l->n + N_HISTORY))
        return false;
    l->start = l->w + l->n;
    l->pieces = l->start + l->n;
    return true;
}

/* Are they of one type? */
static bool take(tp_lbfgs *l, tp_tensor *const *params)
{
    l->dtype = tp_dtype_of(params[0]);
    for (int i = 0; i < l->n; i++) {
        if (tp_dtype_of(params[i]) != l->dtype) {
            tp_fail(l->tp, TP_E_DTYPE, "the parameters of L-BFGS are not of one type");
            return false;
        }
        l->w[i] = tp_retain(params[i]);
        l->size += tp_count(params[i]);
    }
    return true;
}

static bool hold(tp_lbfgs *l)
{
    static const char *const names[] = {"lbfgs.s", "lbfgs.y", "lbfgs.rho", "lbfgs.gamma",
                                        "lbfgs.count"};
    const int64_t pairs[2] = {l->o.history, l->size};
    static const int rank[] = {2, 2, 1, 0, 0};
    if (tp_scope_begin(l->tp) != TP_OK)
        return false;
    bool good = true;
    for (int i = 0; i < N_HISTORY && good; i++) {
        tp_tensor *init =
            tp_full(l->tp, i == COUNT ? TP_I64 : l->dtype, rank[i], pairs, i == GAMMA);
        l->history[i] = tpi_held_new(l->file, l->line, init, names[i]);
        good = !tp_failed(l->history[i]);
    }
    tp_scope_end(l->tp);
    return good;
}

tp_lbfgs *tp_lbfgs_new_at(const char *file, int line, tp_ctx *tp, const tp_lbfgs_options *opt,
                          int n, tp_tensor *const *params)
{
    tp_lbfgs_options o = opt ? *opt : (tp_lbfgs_options){0};
    if (!tp || !check(file, line, tp, &o) ||
        tpi_held_check_params(file, line, tp, "L-BFGS", n, params) != TP_OK)
        return NULL;
    tp_lbfgs *l = tp_alloc(tp, sizeof *l);
    if (!l)
        return NULL;
    *l = (tp_lbfgs){.tp = tp, .file = file, .line = line, .o = o, .n = n};
    if (reserve(l) && take(l, params) && hold(l))
        return l;
    tp_lbfgs_free(l);
    return NULL;
}

tp_lbfgs *(tp_lbfgs_new)(tp_ctx *tp, const tp_lbfgs_options *opt, int n,
                         tp_tensor *const *params)
{
    return tp_lbfgs_new_at(NULL, 0, tp, opt, n, params);
}

void tp_lbfgs_free(tp_lbfgs *l)
{
    if (!l)
        return;
    tp_ctx *tp = l->tp;
    if (l->running) {
        tp_fail_at(NULL, 0, tp, TP_E_STATE, "L-BFGS is freed while a step of it runs");
        return;
    }
    for (int i = 0; l->w && i < l->n; i++)
        tp_release(l->w[i]);
    for (int i = 0; i < N_HISTORY; i++)
        tp_release(l->history[i]);
    tpi_changes_free(tp, &l->changes);
    tp_free(tp, l->w);
    tp_free(tp, l);
}

int tp_lbfgs_n_state(const tp_lbfgs *l)
{
    return l ? N_HISTORY : 0;
}

tp_tensor *tp_lbfgs_state(const tp_lbfgs *l, int i)
{
    return l && i >= 0 && i < N_HISTORY ? l->history[i] : NULL;
}

tp_tensor *const *tpi_lbfgs_history(const tp_lbfgs *l, int *n)
{
    *n = l ? N_HISTORY : -1;
    return l ? l->history : NULL;
}

/* ---- the loss along a direction d: phi(t) = f(x + t d) --------------------------------------------- */

/* A step length t, phi(t), phi'(t), and the gradient of f there. All but that are f64. */
typedef struct point {
    tp_tensor *t, *f, *slope, *g;
} point;

static point failed_point(tp_tensor *t)
{
    return (point){t, t, t, t};
}

static tp_tensor *real(const tp_lbfgs *l, double value)
{
    return tp_scalar(l->tp, TP_F64, value);
}

static tp_tensor *dot(const tp_lbfgs *l, tp_tensor *a, tp_tensor *b)
{
    return tp_sum(tp_mul(a, b), TP_ALL, false);
}

static tp_tensor *all_finite(const tp_lbfgs *l, tp_tensor *x)
{
    return tp_all(tp_isfinite(x), TP_ALL, false);
}

/* Of n tensors one vector. */
static tp_tensor *flattened(const tp_lbfgs *l, tp_tensor *const *t)
{
    for (int i = 0; i < l->n; i++)
        l->pieces[i] = tp_reshape(t[i], TP_DIMS(tp_count(l->w[i])));
    return tp_concat(l->n, l->pieces, 0);
}

/* l->pieces become those of the vector, in the shapes of the parameters. */
static void split(const tp_lbfgs *l, tp_tensor *x)
{
    int64_t from = 0;
    for (int i = 0; i < l->n; i++) {
        int64_t shape[TP_MAX_RANK];
        for (int a = 0; a < tp_rank(l->w[i]); a++)
            shape[a] = tp_size(l->w[i], a);
        const int64_t to = from + tp_count(l->w[i]);
        l->pieces[i] = tp_reshape(tp_slice(x, 0, from, to, 1), tp_rank(l->w[i]), shape);
        from = to;
    }
}

/* The parameters become x. NULL, or what failed. */
static tp_tensor *set_params(const tp_lbfgs *l, tp_tensor *x)
{
    split(l, x);
    for (int i = 0; i < l->n; i++) {
        tp_tensor *w = tp_assign(l->w[i], l->pieces[i]);
        if (tp_failed(w))
            return w;
    }
    return NULL;
}

static tp_tensor *call_loss(const tp_lbfgs *l)
{
    tp_callback code = tp_callback_begin(l->tp, "loss");
    tp_recording(l->tp, true);
    tp_tensor *loss = tp_callback_end(&code, l->loss(l->user));
    tp_recording(l->tp, false);
    return loss;
}

/* phi'(t); infinite where the gradient is not finite: the sum of such products may be no number. */
static tp_tensor *slope_along(const tp_lbfgs *l, tp_tensor *g, tp_tensor *d)
{
    tp_tensor *finite = all_finite(l, g);
    tp_tensor *slope = tp_cast(dot(l, tp_where(finite, g, 0), d), TP_F64);
    return tp_where(finite, slope, real(l, (double)INFINITY));
}

/* Where the parameters are; d NULL: along nothing yet. */
static point evaluate(const tp_lbfgs *l, tp_tensor *t, tp_tensor *d)
{
    if (tp_scope_begin(l->tp) != TP_OK)
        return failed_point(tp_fail(l->tp, TP_E_MEMORY, "out of memory"));
    tp_tensor *loss = call_loss(l);
    tp_tensor *failed = tpi_held_refuse_loss(l->file, l->line, l->tp, "L-BFGS", loss);
    if (!failed && tp_is_symbolic(loss))
        failed =
            tp_fail(l->tp, TP_E_STATE,
                    "L-BFGS goes on by values, which a graph does not have: make its step in a "
                    "captured function");
    point p = failed_point(failed);
    if (!failed) {
        tp_grads(loss, NULL, l->n, l->w, l->pieces);
        p.t = t;
        p.f = tp_cast(tp_sum(loss, TP_ALL, false), TP_F64);
        p.g = flattened(l, l->pieces);
        p.slope = d ? slope_along(l, p.g, d) : p.f;
        if (tp_failed(p.g) || tp_failed(p.slope))
            p = failed_point(tp_failed(p.g) ? p.g : p.slope);
    }
    tp_keep(p.f);
    tp_keep(p.slope);
    tp_keep(p.g);
    tp_scope_end(l->tp);
    return p;
}

static tp_tensor *along(const tp_lbfgs *l, tp_tensor *x, tp_tensor *d, tp_tensor *t)
{
    return tp_add(x, tp_mul(d, tp_cast(t, l->dtype)));
}

static point evaluate_at(const tp_lbfgs *l, tp_tensor *x, tp_tensor *d, tp_tensor *t)
{
    tp_tensor *failed = set_params(l, along(l, x, d, t));
    return failed ? failed_point(failed) : evaluate(l, t, d);
}

/* ---- the line search: Nocedal and Wright, Numerical Optimization (2006), 3.5 and 3.6 --------------- */

/* Does the loss decrease enough (3.6a), and is it below that of another point? Not where it is NaN. */
static tp_tensor *decreases(const tp_lbfgs *l, const point *p, const point *start,
                            const point *other)
{
    tp_tensor *most = tp_add(start->f, tp_mul(tp_mul(p->t, start->slope), 1e-4));
    return tp_and(tp_le(p->f, most), tp_lt(p->f, other->f));
}

/* Does it not fulfil the curvature condition (3.6b)? NaN does not. */
static tp_tensor *is_steep(const tp_lbfgs *l, const point *p, const point *start)
{
    return tp_not(tp_le(tp_abs(p->slope), tp_mul(start->slope, -0.9)));
}

/* x, or 1 where it, or what was asked about before, is not finite: no op that follows makes a NaN of it. */
static tp_tensor *sound(const tp_lbfgs *l, tp_tensor *x, tp_tensor **all)
{
    *all = tp_and(*all, tp_isfinite(x));
    return tp_where(*all, x, 1);
}

/* The same of what is asked about x. */
static tp_tensor *sound_if(const tp_lbfgs *l, tp_tensor *x, tp_tensor *is, tp_tensor **all)
{
    *all = tp_and(*all, is);
    return tp_where(*all, x, 1);
}

/* The minimum of the cubic through both points (3.59), kept within bounds; the middle of them where there is none. */
static tp_tensor *interpolate(const tp_lbfgs *l, const point *a, const point *b, tp_tensor *lo,
                              tp_tensor *hi)
{
    tp_tensor *width = tp_sub(b->t, a->t), *all = tp_ne(width, 0);
    tp_tensor *fa = sound(l, a->f, &all), *fb = sound(l, b->f, &all);
    tp_tensor *sa = sound(l, a->slope, &all), *sb = sound(l, b->slope, &all);
    tp_tensor *secant = tp_mul(tp_div(tp_sub(fb, fa), tp_where(all, width, 1)), 3);
    tp_tensor *d1 = tp_sub(sound(l, tp_add(sa, sb), &all), sound(l, secant, &all));
    tp_tensor *square = tp_sub(sound(l, tp_square(d1), &all), sound(l, tp_mul(sa, sb), &all));
    tp_tensor *root = tp_sqrt(sound_if(l, square, tp_ge(square, 0), &all));
    tp_tensor *d2 = tp_mul(root, tp_sign(width));
    tp_tensor *above = sound(l, tp_sub(tp_add(sb, d2), d1), &all);
    tp_tensor *below = sound(l, tp_add(tp_sub(sb, sa), tp_mul(d2, 2)), &all);
    tp_tensor *part = tp_div(above, sound_if(l, below, tp_ne(below, 0), &all));
    tp_tensor *t = sound(l, tp_sub(b->t, tp_mul(width, sound(l, part, &all))), &all);
    tp_tensor *middle = tp_mul(tp_add(lo, hi), 0.5);
    return tp_where(all, tp_min(tp_max(t, lo), hi), middle);
}

/* A longer step than p. */
static tp_tensor *extrapolate(const tp_lbfgs *l, const point *previous, const point *p)
{
    tp_tensor *lo = tp_add(p->t, tp_mul(tp_sub(p->t, previous->t), 0.01));
    return interpolate(l, previous, p, lo, tp_mul(p->t, 10));
}

/* Between both, and a tenth of their distance from either. */
static tp_tensor *interpolate_within(const tp_lbfgs *l, const point *a, const point *b)
{
    tp_tensor *tenth = tp_mul(tp_abs(tp_sub(b->t, a->t)), 0.1);
    return interpolate(l, a, b, tp_add(tp_min(a->t, b->t), tenth),
                       tp_sub(tp_max(a->t, b->t), tenth));
}

static point select_point(const tp_lbfgs *l, tp_tensor *first, const point *a, const point *b)
{
    return (point){tp_where(first, a->t, b->t), tp_where(first, a->f, b->f),
                   tp_where(first, a->slope, b->slope), tp_where(first, a->g, b->g)};
}

/* Algorithm 3.6: the bracket lo, hi becomes shorter, until its lower end is not steep. */
static point zoom(const tp_lbfgs *l, tp_tensor *x, tp_tensor *d, const point *start, point lo,
                  point hi, tp_tensor *evaluations)
{
    tp_tensor *longest = tp_cast(tp_reduce_max(tp_abs(d), TP_ALL, false), TP_F64);
    for (;;) {
        tp_tensor *width = tp_mul(tp_abs(tp_sub(hi.t, lo.t)), longest);
        tp_tensor *on = tp_and(is_steep(l, &lo, start), tp_gt(width, l->o.change));
        if (!tp_truth(tp_and(on, tp_lt(evaluations, MOST_EVALUATIONS))))
            return lo;
        const point p = evaluate_at(l, x, d, interpolate_within(l, &lo, &hi));
        tp_tensor *is_lower = decreases(l, &p, start, &lo);
        tp_tensor *rises = tp_ge(tp_mul(p.slope, tp_sub(hi.t, lo.t)), 0);
        const point other = select_point(l, rises, &lo, &hi),
                    low = select_point(l, is_lower, &p, &lo);
        hi = select_point(l, is_lower, &other, &p);
        lo = low;
        evaluations = tp_add(evaluations, 1);
    }
}

/* Algorithm 3.5, with a first step length t: longer ones, until two of them bracket an acceptable one. */
static point line_search(const tp_lbfgs *l, tp_tensor *x, tp_tensor *d, const point *start,
                         tp_tensor *t)
{
    point previous = *start, p = evaluate_at(l, x, d, t);
    tp_tensor *evaluations = tp_scalar(l->tp, TP_I64, 1);
    for (;;) {
        tp_tensor *on = tp_and(decreases(l, &p, start, &previous), is_steep(l, &p, start));
        on = tp_and(on, tp_lt(p.slope, 0));
        if (!tp_truth(tp_and(on, tp_lt(evaluations, MOST_EVALUATIONS))))
            break;
        const point longer = evaluate_at(l, x, d, extrapolate(l, &previous, &p));
        previous = p;
        p = longer;
        evaluations = tp_add(evaluations, 1);
    }
    tp_tensor *is_lower = decreases(l, &p, start, &previous);
    const point lo = select_point(l, is_lower, &p, &previous),
                hi = select_point(l, is_lower, &previous, &p);
    return zoom(l, x, d, start, lo, hi, evaluations);
}

/* ---- a step ------------------------------------------------------------------------------------- */

/* -H g, with H the inverse Hessian that the pairs approximate (7.4). */
static tp_tensor *direction(const tp_lbfgs *l, tp_tensor *const *history, tp_tensor *g)
{
    tp_tensor *d = tp_neg(g), *alpha[MOST_PAIRS];
    for (int i = l->o.history - 1; i >= 0; i--) {
        alpha[i] =
            tp_mul(tp_select(history[RHO], 0, i), dot(l, tp_select(history[S], 0, i), d));
        d = tp_sub(d, tp_mul(tp_select(history[Y], 0, i), alpha[i]));
    }
    d = tp_mul(d, history[GAMMA]);
    for (int i = 0; i < l->o.history; i++) {
        tp_tensor *beta =
            tp_mul(tp_select(history[RHO], 0, i), dot(l, tp_select(history[Y], 0, i), d));
        d = tp_add(d, tp_mul(tp_select(history[S], 0, i), tp_sub(alpha[i], beta)));
    }
    return d;
}

/* rows without the first, and `row` behind them */
static tp_tensor *pushed(const tp_lbfgs *l, tp_tensor *rows, tp_tensor *row)
{
    tp_tensor *both[] = {rows, tp_unsqueeze(row, 0)};
    return tp_slice(tp_concat(2, both, 0), 0, 1, l->o.history + 1, 1);
}

/* A pair more, unless the loss does not curve upward along it. */
static void add_pair(const tp_lbfgs *l, tp_tensor **history, tp_tensor *s, tp_tensor *y)
{
    const double least = l->dtype == TP_F64 ? 0x1p-52 : 0x1p-23;
    tp_tensor *sy = dot(l, s, y), *yy = dot(l, y, y), *curves = tp_gt(sy, tp_mul(yy, least));
    sy = tp_where(curves, sy, 1);
    yy = tp_where(curves, yy, 1);
    tp_tensor *const more[] = {pushed(l, history[S], s), pushed(l, history[Y], y),
                               pushed(l, history[RHO], tp_reciprocal(sy)), tp_div(sy, yy),
                               tp_add(history[COUNT], 1)};
    for (int i = 0; i < N_HISTORY; i++)
        history[i] = tp_where(curves, more[i], history[i]);
}

/* Without a pair the direction has no scale. */
static tp_tensor *first_length(const tp_lbfgs *l, tp_tensor *const *history, tp_tensor *g)
{
    tp_tensor *sum = tp_cast(tp_sum(tp_abs(g), TP_ALL, false), TP_F64);
    tp_tensor *careful = tp_min(tp_reciprocal(sum), 1);
    return tp_mul(tp_where(tp_eq(history[COUNT], 0), careful, real(l, 1)), l->o.rate);
}

/* What changes in a step, until it is assigned. */
typedef struct iterate {
    tp_tensor *x, *history[N_HISTORY], *n; /* of line searches so far */
    tp_tensor *moves;                      /* a bool: the last one changed something */
    point now;
} iterate;

/* One line search; false: d is no direction of descent. */
static bool search_once(const tp_lbfgs *l, iterate *v)
{
    tp_tensor *d = direction(l, v->history, v->now.g);
    v->now.slope = tp_cast(dot(l, v->now.g, d), TP_F64);
    if (tp_failed(v->now.slope))
        v->now = failed_point(v->now.slope);
    if (!tp_truth(tp_lt(v->now.slope, -l->o.change)))
        return false;
    const point next = line_search(l, v->x, d, &v->now, first_length(l, v->history, v->now.g));
    tp_tensor *x = along(l, v->x, d, next.t), *s = tp_sub(x, v->x);
    tp_tensor *longest = tp_cast(tp_reduce_max(tp_abs(s), TP_ALL, false), TP_F64);
    tp_tensor *fell = tp_ge(tp_abs(tp_sub(next.f, v->now.f)), l->o.change);
    v->moves = tp_and(tp_gt(longest, l->o.change), fell);
    add_pair(l, v->history, s, tp_sub(next.g, v->now.g));
    v->x = x;
    v->now = next;
    v->now.t = real(l, 0);
    v->n = tp_add(v->n, 1);
    return true;
}

static void hand_out(const iterate *v)
{
    tp_tensor *const all[] = {v->x, v->n, v->moves, v->now.t, v->now.f, v->now.slope, v->now.g};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tp_keep(all[i]);
    for (int i = 0; i < N_HISTORY; i++)
        tp_keep(v->history[i]);
}

static bool goes_on(const tp_lbfgs *l, const iterate *v)
{
    tp_tensor *steepest = tp_cast(tp_reduce_max(tp_abs(v->now.g), TP_ALL, false), TP_F64);
    tp_tensor *on = tp_and(v->moves, tp_gt(steepest, l->o.gradient));
    return tp_truth(tp_and(on, tp_lt(v->n, l->o.turns)));
}

static void minimize(const tp_lbfgs *l, iterate *v)
{
    v->now = evaluate(l, real(l, 0), NULL);
    while (goes_on(l, v)) {
        if (tp_scope_begin(l->tp) != TP_OK) {
            v->now = failed_point(tp_fail(l->tp, TP_E_MEMORY, "out of memory"));
            return;
        }
        const bool more = search_once(l, v);
        hand_out(v);
        tp_scope_end(l->tp);
        if (!more)
            return;
    }
}

/* All changes are made, or the parameters are what they were. */
static tp_tensor *step(tp_lbfgs *l)
{
    iterate v = {.x = flattened(l, l->w), .n = tp_scalar(l->tp, TP_I64, 0)};
    v.moves = tp_eq(v.n, 0);
    for (int i = 0; i < l->n; i++) /* copies */
        l->start[i] = tp_mul(l->w[i], 1);
    for (int i = 0; i < N_HISTORY; i++)
        v.history[i] = tp_mul(l->history[i], 1);
    for (int i = 0; i < l->n; i++)
        if (tp_failed(l->start[i]))
            return l->start[i];
    minimize(l, &v);
    tp_tensor *loss = v.now.f;
    l->changes.n = 0;
    split(l, v.x);
    /* Copies: C that stands alone assigns what is computed here. */
    for (int i = 0; i < l->n; i++)
        tpi_change(&l->changes, l->w[i], tp_mul(l->pieces[i], 1));
    for (int i = 0; i < N_HISTORY; i++)
        tpi_change(&l->changes, l->history[i], tp_mul(v.history[i], 1));
    tp_tensor *done =
        tp_failed(loss) ? loss : tpi_changes_commit(l->file, l->line, &l->changes);
    for (int i = 0; tp_failed(done) && i < l->n; i++)
        tp_assign(l->w[i], l->start[i]);
    return tp_failed(done) ? done : loss;
}

tp_tensor *tp_lbfgs_step_at(const char *file, int line, tp_lbfgs *l, tp_loss_function *loss,
                            void *user)
{
    if (!l || !loss)
        return tp_fail_at(file, line, l ? l->tp : NULL, TP_E_NULL,
                          l ? "the function of the loss is NULL" : "L-BFGS is NULL");
    if (l->running)
        return tp_fail_at(file, line, l->tp, TP_E_STATE, "a step of this L-BFGS runs already");
    l->file = file;
    l->line = line;
    l->loss = loss;
    l->user = user;
    if (tp_scope_begin(l->tp) != TP_OK)
        return tp_fail(l->tp, TP_E_MEMORY, "out of memory");
    const bool was = tp_recording(l->tp, false);
    l->running = true;
    tp_tensor *f = tp_keep(step(l));
    l->running = false;
    tp_recording(l->tp, was);
    tp_scope_end(l->tp);
    return f;
}

tp_tensor *(tp_lbfgs_step)(tp_lbfgs *l, tp_loss_function *loss, void *user)
{
    return tp_lbfgs_step_at(NULL, 0, l, loss, user);
}
