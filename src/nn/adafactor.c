#include "nn/rule.h"
#include "tapir/composites.h"

enum { PART, MOST, KEEP };

/* Of what it keeps: the mean of squares of gradients; of a matrix those of its rows and columns instead. */
enum { V, ROW, COL };

static tp_tensor *first(const void *options, const tp_step *s, int k)
{
    (void)options;
    const int rank = tp_rank(s->w);
    if ((rank < 2) != (k == V))
        return NULL;
    int64_t shape[TP_MAX_RANK];
    for (int a = 0; a < rank; a++)
        shape[a] = tp_size(s->w, a);
    if (k != V)
        shape[k == ROW ? rank - 1 : rank - 2] = 1;
    return tp_full(tp_ctx_of(s->w), tp_dtype_of(s->w), rank, shape, 0);
}

/* t^-power, min(rate, 1 / sqrt(t)), 1 - rate * decay */
static void numbers(const void *options, tp_step *s)
{
    const tp_adafactor_options *o = options;
    s->number[PART] = tp_pow(s->count, -o->power);
    s->number[MOST] = tp_min(s->rate, tp_rsqrt(s->count));
    if (!tpi_held_in_range(s->decay, 5e-324))
        s->number[KEEP] = tp_sub(1, tp_mul(s->rate, s->decay));
}

/* a, by a part of the way toward b */
static tp_tensor *toward(const tp_step *s, tp_tensor *a, tp_tensor *b)
{
    return tp_add(a, tp_mul(tp_sub(b, a), s->number[PART]));
}

static tp_tensor *root_mean_square(const tp_step *s, tp_tensor *x)
{
    return tp_sqrt(tp_mean(tp_square(x), TP_ALL, false));
}

/* The mean of squares of each element; what is kept of it moves on. */
static tp_tensor *mean_of_squares(tp_step *s, double eps)
{
    tp_tensor *squares = tp_square(s->g);
    if (s->state[V])
        return s->state[V] = toward(s, s->state[V], squares);
    tp_tensor *row = toward(s, s->state[ROW], tp_mean(squares, TP_DIMS(-1), true));
    tp_tensor *col = toward(s, s->state[COL], tp_mean(squares, TP_DIMS(-2), true));
    s->state[ROW] = row;
    s->state[COL] = col;
    return tp_div(tp_mul(row, col), tp_max(tp_mean(row, TP_DIMS(-2), true), eps));
}

static void update(const void *options, tp_step *s)
{
    const tp_adafactor_options *o = options;
    tp_tensor *const *k = s->number;
    const double own = tp_dtype_of(s->w) == TP_F64 ? 0x1p-52 : 0x1p-23;
    const double eps = tpi_held_in_range(o->eps1, 5e-324) ? own : o->eps1;
    tp_tensor *v = tp_max(mean_of_squares(s, eps), tp_square(tp_scalar_like(s->g, eps)));
    tp_tensor *u = tp_mul(s->g, tp_rsqrt(v));
    tp_tensor *way =
        o->absolute ? s->rate : tp_mul(tp_max(root_mean_square(s, s->w), o->eps2), k[MOST]);
    way = tp_div(way, tp_max(tp_div(root_mean_square(s, u), o->clip), 1));
    s->w = tp_sub(k[KEEP] ? tp_mul(s->w, k[KEEP]) : s->w, tp_mul(way, u));
}

TPI_RULE_MAKER(tp_adafactor_new, tp_adafactor_options)
{
    static const tp_optimizer_kind kind = {
        .name = "adafactor",
        .state = {"v", "row", "col"},
        .numbers = numbers,
        .update = update,
        .options_size = sizeof o,
        .first = first
    };
    if (!tpi_rule_is_below(file, line, tp, "the power", &o.power, 0.8, INFINITY) ||
        !tpi_rule_is_below(file, line, tp, "eps1", &o.eps1, 0, INFINITY) ||
        !tpi_rule_is_below(file, line, tp, "eps2", &o.eps2, 1e-3, INFINITY) ||
        !tpi_rule_is_below(file, line, tp, "the clipping", &o.clip, 1, INFINITY))
        return NULL;
    return tp_optimizer_new_at(file, line, tp, &kind, &o, rate, o.decay, n, params);
}
