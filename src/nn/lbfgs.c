/* L-BFGS. All parameters are one vector here. What decides is read from values, as C's `while` and `if`, and all that a
 * decision leaves behind is a tensor, so that a captured function may be pure. */
#include "nn/rule.h"
#include "tapir/composites.h"
#include "tapir/indexing.h"

#undef TP_PLACE
#define TP_PLACE l->file, l->line

/* What is kept from step to step: of the last moves of the parameters and of the gradient, oldest first, 1 / s y of each
 * (0: there is none), the scale s y / y y of the last, and how many there were. */
enum { S, Y, RHO, GAMMA, COUNT, N_KEPT };

enum { MOST_PAIRS = 100, TRIES = 25 };

struct tp_lbfgs {
    tp_ctx *tp;
    const char *file; /* of the call that goes on */
    int line;
    tp_lbfgs_options o;
    int n;
    tp_dtype dtype;
    int64_t size;                   /* elements of all parameters */
    tp_tensor **w, **start, **part; /* [n]; their values before a step; parts of one vector */
    tp_tensor *kept[N_KEPT];        /* variables */
    tpi_changes changes;
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
    if (!l->w || !tpi_changes_new(l->tp, &l->changes, l->n + N_KEPT))
        return false;
    l->start = l->w + l->n;
    l->part = l->start + l->n;
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
    for (int i = 0; i < N_KEPT && good; i++) {
        tp_tensor *init =
            tp_full(l->tp, i == COUNT ? TP_I64 : l->dtype, rank[i], pairs, i == GAMMA);
        l->kept[i] = tpi_held_new(l->file, l->line, init, names[i]);
        good = !tp_failed(l->kept[i]);
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
    for (int i = 0; l->w && i < l->n; i++)
        tp_release(l->w[i]);
    for (int i = 0; i < N_KEPT; i++)
        tp_release(l->kept[i]);
    tpi_changes_free(tp, &l->changes);
    tp_free(tp, l->w);
    tp_free(tp, l);
}

int tp_lbfgs_n_state(const tp_lbfgs *l)
{
    return l ? N_KEPT : 0;
}

tp_tensor *tp_lbfgs_state(const tp_lbfgs *l, int i)
{
    return l && i >= 0 && i < N_KEPT ? l->kept[i] : NULL;
}

/* ---- the loss along a line ----------------------------------------------------------------------- */

/* A place x + at * d: the loss there, its slope along d, its gradient. All but that are f64. */
typedef struct point {
    tp_tensor *at, *f, *slope, *g;
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

/* Of n tensors one vector. */
static tp_tensor *joined(const tp_lbfgs *l, tp_tensor *const *t)
{
    for (int i = 0; i < l->n; i++)
        l->part[i] = tp_reshape(t[i], TP_DIMS(tp_count(l->w[i])));
    return tp_concat(l->n, l->part, 0);
}

/* l->part becomes the vector's parts in the shapes of the parameters. */
static void part(const tp_lbfgs *l, tp_tensor *x)
{
    int64_t from = 0;
    for (int i = 0; i < l->n; i++) {
        int64_t shape[TP_MAX_RANK];
        for (int a = 0; a < tp_rank(l->w[i]); a++)
            shape[a] = tp_size(l->w[i], a);
        const int64_t to = from + tp_count(l->w[i]);
        l->part[i] = tp_reshape(tp_slice(x, 0, from, to, 1), tp_rank(l->w[i]), shape);
        from = to;
    }
}

/* The parameters become x. NULL, or what failed. */
static tp_tensor *go(const tp_lbfgs *l, tp_tensor *x)
{
    part(l, x);
    for (int i = 0; i < l->n; i++) {
        tp_tensor *w = tp_assign(l->w[i], l->part[i]);
        if (tp_failed(w))
            return w;
    }
    return NULL;
}

/* Where the parameters are. */
static point look(const tp_lbfgs *l, tp_tensor *at, tp_tensor *d)
{
    if (tp_scope_begin(l->tp) != TP_OK)
        return failed_point(tp_fail(l->tp, TP_E_MEMORY, "out of memory"));
    tp_recording(l->tp, true);
    tp_tensor *loss = l->loss(l->user);
    tp_recording(l->tp, false);
    tp_tensor *failed = tpi_held_refuse_loss(l->file, l->line, l->tp, "L-BFGS", loss);
    if (!failed && tp_is_symbolic(loss))
        failed =
            tp_fail(l->tp, TP_E_STATE,
                    "L-BFGS goes on by values, which a graph does not have: make its step in a "
                    "captured function");
    point p = failed_point(failed);
    if (!failed) {
        tp_grads(loss, NULL, l->n, l->w, l->part);
        p.at = at;
        p.f = tp_cast(tp_sum(loss, TP_ALL, false), TP_F64);
        p.g = joined(l, l->part);
        p.slope = d ? tp_cast(dot(l, p.g, d), TP_F64) : p.f;
        if (tp_failed(p.g) || tp_failed(p.slope))
            p = failed_point(tp_failed(p.g) ? p.g : p.slope);
    }
    tp_keep(p.f);
    tp_keep(p.slope);
    tp_keep(p.g);
    tp_scope_end(l->tp);
    return p;
}

static tp_tensor *moved(const tp_lbfgs *l, tp_tensor *x, tp_tensor *d, tp_tensor *at)
{
    return tp_add(x, tp_mul(d, tp_cast(at, l->dtype)));
}

static point look_at(const tp_lbfgs *l, tp_tensor *x, tp_tensor *d, tp_tensor *at)
{
    tp_tensor *failed = go(l, moved(l, x, d, at));
    return failed ? failed_point(failed) : look(l, at, d);
}

/* ---- the line search: Nocedal and Wright, Numerical Optimization (2006), 3.5 and 3.6 --------------- */

/* Does the loss fall enough (3.6a), and is it below that of another point? Not where it is NaN. */
static tp_tensor *falls(const tp_lbfgs *l, const point *p, const point *start,
                        const point *other)
{
    tp_tensor *most = tp_add(start->f, tp_mul(tp_mul(p->at, start->slope), 1e-4));
    return tp_and(tp_le(p->f, most), tp_lt(p->f, other->f));
}

/* Is it steep (not 3.6b)? NaN is. */
static tp_tensor *is_steep(const tp_lbfgs *l, const point *p, const point *start)
{
    return tp_not(tp_le(tp_abs(p->slope), tp_mul(start->slope, -0.9)));
}

/* The least place of the cubic through both points (3.59), kept within bounds; between them where there is none. */
static tp_tensor *between(const tp_lbfgs *l, const point *a, const point *b, tp_tensor *lo,
                          tp_tensor *hi)
{
    tp_tensor *width = tp_sub(b->at, a->at);
    tp_tensor *d1 =
        tp_sub(tp_add(a->slope, b->slope), tp_mul(tp_div(tp_sub(b->f, a->f), width), 3));
    tp_tensor *d2 =
        tp_mul(tp_sqrt(tp_sub(tp_square(d1), tp_mul(a->slope, b->slope))), tp_sign(width));
    tp_tensor *part = tp_div(tp_sub(tp_add(b->slope, d2), d1),
                             tp_add(tp_sub(b->slope, a->slope), tp_mul(d2, 2)));
    tp_tensor *at = tp_sub(b->at, tp_mul(width, part));
    tp_tensor *middle = tp_mul(tp_add(lo, hi), 0.5);
    return tp_where(tp_isfinite(at), tp_min(tp_max(at, lo), hi), middle);
}

/* Further out than p. */
static tp_tensor *beyond(const tp_lbfgs *l, const point *before, const point *p)
{
    tp_tensor *lo = tp_add(p->at, tp_mul(tp_sub(p->at, before->at), 0.01));
    return between(l, before, p, lo, tp_mul(p->at, 10));
}

/* Between both, and a tenth of the way from either. */
static tp_tensor *inside(const tp_lbfgs *l, const point *a, const point *b)
{
    tp_tensor *tenth = tp_mul(tp_abs(tp_sub(b->at, a->at)), 0.1);
    return between(l, a, b, tp_add(tp_min(a->at, b->at), tenth),
                   tp_sub(tp_max(a->at, b->at), tenth));
}

static point choose(const tp_lbfgs *l, tp_tensor *first, const point *a, const point *b)
{
    return (point){tp_where(first, a->at, b->at), tp_where(first, a->f, b->f),
                   tp_where(first, a->slope, b->slope), tp_where(first, a->g, b->g)};
}

/* The lower point of an interval is made better, until it is not steep. */
static point zoom(const tp_lbfgs *l, tp_tensor *x, tp_tensor *d, const point *start, point lo,
                  point hi, tp_tensor *tries)
{
    tp_tensor *longest = tp_cast(tp_reduce_max(tp_abs(d), TP_ALL, false), TP_F64);
    for (;;) {
        tp_tensor *width = tp_mul(tp_abs(tp_sub(hi.at, lo.at)), longest);
        tp_tensor *on = tp_and(is_steep(l, &lo, start), tp_gt(width, l->o.change));
        if (!tp_truth(tp_and(on, tp_lt(tries, TRIES))))
            return lo;
        const point p = look_at(l, x, d, inside(l, &lo, &hi));
        tp_tensor *is_lower = falls(l, &p, start, &lo);
        tp_tensor *rises = tp_ge(tp_mul(p.slope, tp_sub(hi.at, lo.at)), 0);
        const point other = choose(l, rises, &lo, &hi), low = choose(l, is_lower, &p, &lo);
        hi = choose(l, is_lower, &other, &p);
        lo = low;
        tries = tp_add(tries, 1);
    }
}

/* From `start`, with a first step of `at`. */
static point search(const tp_lbfgs *l, tp_tensor *x, tp_tensor *d, const point *start,
                    tp_tensor *at)
{
    point before = *start, p = look_at(l, x, d, at);
    tp_tensor *tries = tp_scalar(l->tp, TP_I64, 1);
    for (;;) {
        tp_tensor *on = tp_and(falls(l, &p, start, &before), is_steep(l, &p, start));
        on = tp_and(on, tp_lt(p.slope, 0));
        if (!tp_truth(tp_and(on, tp_lt(tries, TRIES))))
            break;
        const point further = look_at(l, x, d, beyond(l, &before, &p));
        before = p;
        p = further;
        tries = tp_add(tries, 1);
    }
    tp_tensor *is_lower = falls(l, &p, start, &before);
    const point lo = choose(l, is_lower, &p, &before), hi = choose(l, is_lower, &before, &p);
    return zoom(l, x, d, start, lo, hi, tries);
}

/* ---- a step ------------------------------------------------------------------------------------- */

/* -H g, with H the inverse Hessian that the pairs say (7.4). */
static tp_tensor *direction(const tp_lbfgs *l, tp_tensor *const *kept, tp_tensor *g)
{
    tp_tensor *d = tp_neg(g), *alpha[MOST_PAIRS];
    for (int i = l->o.history - 1; i >= 0; i--) {
        alpha[i] = tp_mul(tp_select(kept[RHO], 0, i), dot(l, tp_select(kept[S], 0, i), d));
        d = tp_sub(d, tp_mul(tp_select(kept[Y], 0, i), alpha[i]));
    }
    d = tp_mul(d, kept[GAMMA]);
    for (int i = 0; i < l->o.history; i++) {
        tp_tensor *beta =
            tp_mul(tp_select(kept[RHO], 0, i), dot(l, tp_select(kept[Y], 0, i), d));
        d = tp_add(d, tp_mul(tp_select(kept[S], 0, i), tp_sub(alpha[i], beta)));
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
static void add_pair(const tp_lbfgs *l, tp_tensor **kept, tp_tensor *s, tp_tensor *y)
{
    const double least = l->dtype == TP_F64 ? 0x1p-52 : 0x1p-23;
    tp_tensor *sy = dot(l, s, y), *yy = dot(l, y, y), *curves = tp_gt(sy, tp_mul(yy, least));
    tp_tensor *const more[] = {pushed(l, kept[S], s), pushed(l, kept[Y], y),
                               pushed(l, kept[RHO], tp_reciprocal(sy)), tp_div(sy, yy),
                               tp_add(kept[COUNT], 1)};
    for (int i = 0; i < N_KEPT; i++)
        kept[i] = tp_where(curves, more[i], kept[i]);
}

/* The first length that is tried; without a pair the direction has no scale. */
static tp_tensor *first_length(const tp_lbfgs *l, tp_tensor *const *kept, tp_tensor *g)
{
    tp_tensor *sum = tp_cast(tp_sum(tp_abs(g), TP_ALL, false), TP_F64);
    tp_tensor *careful = tp_min(tp_reciprocal(sum), 1);
    return tp_mul(tp_where(tp_eq(kept[COUNT], 0), careful, real(l, 1)), l->o.rate);
}

/* What changes in a step, until it is assigned. */
typedef struct way {
    tp_tensor *x, *kept[N_KEPT], *turns;
    tp_tensor *goes_on; /* a bool: the last turn changed something */
    point now;
} way;

/* One line search; false: the gradient shows no way down. */
static bool turn(const tp_lbfgs *l, way *v)
{
    tp_tensor *d = direction(l, v->kept, v->now.g);
    v->now.slope = tp_cast(dot(l, v->now.g, d), TP_F64);
    if (tp_failed(v->now.slope))
        v->now = failed_point(v->now.slope);
    if (!tp_truth(tp_lt(v->now.slope, -l->o.change)))
        return false;
    const point next = search(l, v->x, d, &v->now, first_length(l, v->kept, v->now.g));
    tp_tensor *x = moved(l, v->x, d, next.at), *s = tp_sub(x, v->x);
    tp_tensor *longest = tp_cast(tp_reduce_max(tp_abs(s), TP_ALL, false), TP_F64);
    tp_tensor *fell = tp_ge(tp_abs(tp_sub(next.f, v->now.f)), l->o.change);
    v->goes_on = tp_and(tp_gt(longest, l->o.change), fell);
    add_pair(l, v->kept, s, tp_sub(next.g, v->now.g));
    v->x = x;
    v->now = next;
    v->now.at = real(l, 0);
    v->turns = tp_add(v->turns, 1);
    return true;
}

static void keep(const way *v)
{
    tp_tensor *const all[] = {v->x,     v->turns,     v->goes_on, v->now.at,
                              v->now.f, v->now.slope, v->now.g};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tp_keep(all[i]);
    for (int i = 0; i < N_KEPT; i++)
        tp_keep(v->kept[i]);
}

static bool goes_on(const tp_lbfgs *l, const way *v)
{
    tp_tensor *steepest = tp_cast(tp_reduce_max(tp_abs(v->now.g), TP_ALL, false), TP_F64);
    tp_tensor *on = tp_and(v->goes_on, tp_gt(steepest, l->o.gradient));
    return tp_truth(tp_and(on, tp_lt(v->turns, l->o.turns)));
}

static void descend(const tp_lbfgs *l, way *v)
{
    v->now = look(l, real(l, 0), NULL);
    while (goes_on(l, v)) {
        if (tp_scope_begin(l->tp) != TP_OK) {
            v->now = failed_point(tp_fail(l->tp, TP_E_MEMORY, "out of memory"));
            return;
        }
        const bool more = turn(l, v);
        keep(v);
        tp_scope_end(l->tp);
        if (!more)
            return;
    }
}

/* All changes are made, or the parameters are what they were. */
static tp_tensor *step(tp_lbfgs *l)
{
    way v = {.x = joined(l, l->w), .turns = tp_scalar(l->tp, TP_I64, 0)};
    v.goes_on = tp_eq(v.turns, 0);
    for (int i = 0; i < l->n; i++) /* copies */
        l->start[i] = tp_mul(l->w[i], 1);
    for (int i = 0; i < N_KEPT; i++)
        v.kept[i] = tp_mul(l->kept[i], 1);
    for (int i = 0; i < l->n; i++)
        if (tp_failed(l->start[i]))
            return l->start[i];
    descend(l, &v);
    tp_tensor *loss = v.now.f;
    l->changes.n = 0;
    part(l, v.x);
    for (int i = 0; i < l->n; i++)
        tpi_change(&l->changes, l->w[i], l->part[i]);
    for (int i = 0; i < N_KEPT; i++)
        tpi_change(&l->changes, l->kept[i], v.kept[i]);
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
    l->file = file;
    l->line = line;
    l->loss = loss;
    l->user = user;
    if (tp_scope_begin(l->tp) != TP_OK)
        return tp_fail(l->tp, TP_E_MEMORY, "out of memory");
    const bool was = tp_recording(l->tp, false);
    tp_tensor *f = tp_keep(step(l));
    tp_recording(l->tp, was);
    tp_scope_end(l->tp);
    return f;
}

tp_tensor *(tp_lbfgs_step)(tp_lbfgs *l, tp_loss_function *loss, void *user)
{
    return tp_lbfgs_step_at(NULL, 0, l, loss, user);
}
