/* Optimisers: what all of them have in common. A step is written once, with the public ops: on a concrete loss they
 * compute, on a symbolic one they add nodes. All new values are made before the first is assigned, so that a step
 * that fails changes nothing. */
#include "nn/held.h"
#include "tapir/composites.h"
#include "tapir/train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#undef TP_PLACE
#define TP_PLACE file, line

/* Parameters of one rate and decay. */
typedef struct group {
    double scale, decay;
    bool is_scaled;
} group;

struct tp_optimizer {
    tp_ctx *tp;
    const tp_optimizer_kind *kind;
    void *options;
    int n, n_states;         /* parameters; variables of each */
    tp_tensor *rate, *count; /* f64 variables */
    tp_tensor **w;           /* [n] */
    tp_tensor **state;       /* [n * n_states] */
    tp_tensor **dw;          /* [n], of one step */
    int *group_of;           /* [n] */
    group *groups;           /* [n_groups]; the first is that of who was put into none */
    int n_groups;
    bool begun; /* a step was made, */
    bool maybe; /* or some that depended on values: the count tells */
    bool running;
    tp_schedule schedule;
    tpi_changes changes;
};

/* ---- making ----------------------------------------------------------------------------------- */

static int count_states(const tp_optimizer_kind *kind)
{
    int n = 0;
    while (n < TP_STEP_STATES && kind->state[n])
        n++;
    return n;
}

/* All memory; what is there when some of it is not is freed by tp_optimizer_free. */
static bool reserve(tp_optimizer *o, const void *options)
{
    const size_t n = (size_t)o->n, k = (size_t)o->n_states;
    o->w = tp_alloc(o->tp, n * (2 + k) * sizeof *o->w);
    o->group_of = o->w ? tp_alloc(o->tp, n * sizeof *o->group_of) : NULL;
    o->groups = o->group_of ? tp_alloc(o->tp, sizeof *o->groups) : NULL;
    o->options = o->groups ? tp_alloc(o->tp, o->kind->options_size + 1) : NULL;
    if (!o->options || !tpi_changes_new(o->tp, &o->changes, (int)(n * (1 + k)) + 1))
        return false;
    o->dw = o->w + n;
    o->state = o->dw + n;
    o->n_groups = 1;
    if (options)
        memcpy(o->options, options, o->kind->options_size);
    return true;
}

static tp_tensor *own_number(const char *file, int line, tp_optimizer *o, const char *part,
                             double value)
{
    char name[80];
    snprintf(name, sizeof name, "%.60s.%s", o->kind->name, part);
    return tpi_held_new(file, line, tp_scalar(o->tp, TP_F64, value), name);
}

/* State k of w; NULL: there is none. */
static tp_tensor *first_state(const char *file, int line, const tp_optimizer *o, tp_tensor *w,
                              int k)
{
    if (!o->kind->first)
        return tpi_held_like(file, line, w, o->kind->state[k]);
    const tp_step s = {.file = file, .line = line, .w = w};
    tp_callback code = tp_callback_begin(o->tp, o->kind->name);
    tp_tensor *init = tp_callback_end(&code, o->kind->first(o->options, &s, k));
    return init ? tpi_held_beside(file, line, w, o->kind->state[k], init) : NULL;
}

/* A rate, or what it is multiplied by: a step goes down. */
static tp_status check_part(const char *file, int line, tp_ctx *tp, const char *name, double x)
{
    char text[100];
    const tp_status status = tpi_held_check_number(file, line, tp, name, x);
    if (status != TP_OK || tpi_held_in_range(x, INFINITY))
        return status;
    snprintf(text, sizeof text, "%s is below 0", name);
    return tp_status_of(tp_fail(tp, TP_E_VALUE, text));
}

static bool hold_state(const char *file, int line, tp_optimizer *o, double rate)
{
    if (tp_scope_begin(o->tp) != TP_OK)
        return false;
    o->rate = own_number(file, line, o, "rate", rate);
    o->count = own_number(file, line, o, "count", 0);
    bool good = !tp_failed(o->rate) && !tp_failed(o->count);
    for (int i = 0; i < o->n * o->n_states && good; i++) {
        o->state[i] = first_state(file, line, o, o->w[i / o->n_states], i % o->n_states);
        good = !o->state[i] || !tp_failed(o->state[i]);
    }
    tp_scope_end(o->tp);
    return good;
}

/* Is it a decay that a step can take? */
static tp_status check_decay(const char *file, int line, tp_ctx *tp, double decay)
{
    const tp_status status = tpi_held_check_number(file, line, tp, "the decay", decay);
    if (status != TP_OK || tpi_held_in_range(decay, INFINITY))
        return status;
    return tp_status_of(tp_fail(tp, TP_E_VALUE, "the decay is not at least 0"));
}

tp_optimizer *tp_optimizer_new_at(const char *file, int line, tp_ctx *tp,
                                  const tp_optimizer_kind *kind, const void *options,
                                  double rate, double decay, int n, tp_tensor *const *params)
{
    if (!tp)
        return NULL;
    if (!kind || !kind->name || !kind->update || (kind->options_size > 0 && !options)) {
        tp_fail(tp, TP_E_NULL, "a kind of optimizer needs a name, a rule and its options");
        return NULL;
    }
    if (check_part(file, line, tp, "the rate", rate) != TP_OK ||
        check_decay(file, line, tp, decay) != TP_OK ||
        tpi_held_check_params(file, line, tp, "the optimizer", n, params) != TP_OK)
        return NULL;
    tp_optimizer *o = tp_alloc(tp, sizeof *o);
    if (!o)
        return NULL;
    *o = (tp_optimizer){.tp = tp, .kind = kind, .n = n, .n_states = count_states(kind)};
    if (!reserve(o, options)) {
        tp_optimizer_free(o);
        return NULL;
    }
    o->groups[0] = (group){1, decay, false};
    for (int i = 0; i < n; i++)
        o->w[i] = tp_retain(params[i]);
    if (hold_state(file, line, o, rate))
        return o;
    tp_optimizer_free(o);
    return NULL;
}

tp_optimizer *(tp_optimizer_new)(tp_ctx *tp, const tp_optimizer_kind *kind, const void *options,
                                 double rate, double decay, int n, tp_tensor *const *params)
{
    return tp_optimizer_new_at(NULL, 0, tp, kind, options, rate, decay, n, params);
}

void tp_optimizer_free(tp_optimizer *o)
{
    if (!o)
        return;
    if (o->running) {
        tp_fail_at(NULL, 0, o->tp, TP_E_STATE,
                   "the optimizer is freed while a step of it runs");
        return;
    }
    for (int i = 0; o->dw && i < o->n; i++)
        tp_release(o->w[i]);
    for (int i = 0; o->state && i < o->n * o->n_states; i++)
        tp_release(o->state[i]);
    tp_release(o->rate);
    tp_release(o->count);
    tpi_changes_free(o->tp, &o->changes);
    void *const own[] = {o->w, o->group_of, o->groups, o->options, o};
    tp_ctx *tp = o->tp;
    for (int i = 0; i < 5; i++)
        tp_free(tp, own[i]);
}

/* ---- asking and setting ---------------------------------------------------------------------- */

tp_status tp_optimizer_set_rate_at(const char *file, int line, tp_optimizer *o, double rate)
{
    if (!o)
        return TP_E_NULL;
    tp_status status = check_part(file, line, o->tp, "the rate", rate);
    if (status == TP_OK)
        status = tp_scope_begin(o->tp);
    if (status == TP_OK) {
        status = tp_status_of(tp_assign(o->rate, tp_scalar(o->tp, TP_F64, rate)));
        tp_scope_end(o->tp);
    }
    return status;
}

tp_status(tp_optimizer_set_rate)(tp_optimizer *o, double rate)
{
    return tp_optimizer_set_rate_at(NULL, 0, o, rate);
}

double tp_optimizer_rate(const tp_optimizer *o)
{
    return o ? tp_item_at(NULL, 0, o->rate) : (double)NAN;
}

static tp_status refuse_begun(const char *file, int line, const tp_optimizer *o,
                              const char *what)
{
    const bool begun = o->begun || (o->maybe && tp_item_i64(o->count) > 0);
    if (!begun && !o->running)
        return TP_OK;
    char text[100];
    snprintf(text, sizeof text, "%s %s", what, begun ? "after the first step" : "in a step");
    return tp_status_of(tp_fail(o->tp, TP_E_STATE, text));
}

static int index_of(const tp_optimizer *o, const tp_tensor *w)
{
    int i = 0;
    while (i < o->n && o->w[i] != w)
        i++;
    return i;
}

tp_status tp_optimizer_group_at(const char *file, int line, tp_optimizer *o, double scale,
                                double decay, int n, tp_tensor *const *params)
{
    if (!o)
        return TP_E_NULL;
    tp_status status = refuse_begun(file, line, o, "a group");
    if (status == TP_OK)
        status = check_part(file, line, o->tp, "the scale", scale);
    if (status == TP_OK)
        status = check_decay(file, line, o->tp, decay);
    if (status == TP_OK)
        status = tpi_held_check_params(file, line, o->tp, "the group", n, params);
    if (status != TP_OK)
        return status;
    for (int i = 0; i < n; i++) {
        const int k = index_of(o, params[i]);
        char text[200];
        if (k < o->n && o->group_of[k] == 0)
            continue;
        snprintf(text, sizeof text, "parameter %d of the group, %.100s, is %s", i,
                 tp_name_of(params[i]),
                 k < o->n ? "in a group already" : "not the optimizer's");
        return tp_status_of(tp_fail(o->tp, TP_E_VALUE, text));
    }
    const size_t size = (size_t)o->n_groups * sizeof *o->groups;
    group *groups = tp_alloc(o->tp, size + sizeof *groups);
    if (!groups)
        return TP_E_MEMORY;
    memcpy(groups, o->groups, size);
    groups[o->n_groups] = (group){scale, decay, true};
    tp_free(o->tp, o->groups);
    o->groups = groups;
    for (int i = 0; i < n; i++)
        o->group_of[index_of(o, params[i])] = o->n_groups;
    o->n_groups++;
    return TP_OK;
}

tp_status(tp_optimizer_group)(tp_optimizer *o, double scale, double decay, int n,
                              tp_tensor *const *params)
{
    return tp_optimizer_group_at(NULL, 0, o, scale, decay, n, params);
}

tp_status tp_optimizer_schedule_at(const char *file, int line, tp_optimizer *o,
                                   const tp_schedule *s)
{
    if (!o)
        return TP_E_NULL;
    const char *why = !s                                      ? "the schedule is NULL"
                      : (unsigned)s->kind > TP_STAIRS         ? "there is no such schedule"
                      : s->warmup < 0                         ? "warmup is below 0"
                      : s->kind == TP_STAIRS && s->steps <= 0 ? "steps are not above 0"
                      : s->kind != TP_CONSTANT && s->kind != TP_STAIRS && s->steps <= s->warmup
                          ? "steps are not above warmup"
                          : NULL;
    if (why)
        return tp_status_of(tp_fail(o->tp, s ? TP_E_VALUE : TP_E_NULL, why));
    tp_status status =
        tpi_held_check_number(file, line, o->tp, "the last part of the rate", s->last);
    if (status == TP_OK)
        status = refuse_begun(file, line, o, "a schedule");
    if (status == TP_OK)
        o->schedule = *s;
    return status;
}

tp_status(tp_optimizer_schedule)(tp_optimizer *o, const tp_schedule *s)
{
    return tp_optimizer_schedule_at(NULL, 0, o, s);
}

/* State i of those that parameters have; i < 0: NULL, and all are counted. */
static tp_tensor *nth_state(const tp_optimizer *o, int i, int *n)
{
    *n = 0;
    for (int k = 0; k < o->n * o->n_states; k++)
        if (o->state[k] && (*n)++ == i)
            return o->state[k];
    return NULL;
}

int tp_optimizer_n_state(const tp_optimizer *o)
{
    int n = 0;
    if (o)
        nth_state(o, -1, &n);
    return o ? 2 + n : 0;
}

tp_tensor *tp_optimizer_state(const tp_optimizer *o, int i)
{
    int n;
    if (!o || i < 0)
        return NULL;
    return i == 0 ? o->rate : i == 1 ? o->count : nth_state(o, i - 2, &n);
}

/* ---- a step ------------------------------------------------------------------------------------- */

/* The part of the rate that step `count` = 1, 2, ... takes. NULL: all of it. */
static tp_tensor *part_of_rate(const char *file, int line, const tp_schedule *s,
                               tp_tensor *count)
{
    tp_tensor *behind = tp_sub(count, (double)(1 + s->warmup)), *part = NULL;
    if (s->kind == TP_STAIRS) {
        part = tp_pow(s->last, tp_floor(tp_div(behind, (double)s->steps)));
    } else if (s->kind != TP_CONSTANT) {
        tp_tensor *p = tp_clip(tp_div(behind, (double)(s->steps - s->warmup)), 0, 1);
        tp_tensor *left = tp_sub(1, p);
        if (s->kind == TP_EXPONENTIAL)
            part = tp_pow(s->last, p);
        else if (s->kind == TP_COSINE)
            left = tp_mul(tp_add(1, tp_cos(tp_mul(p, 3.14159265358979323846))), 0.5);
        if (!part) /* last + (1 - last) * left, by ops: in C the caller's rounding would decide */
            part = tp_add(tp_mul(left, tp_sub(1, tp_scalar_like(left, s->last))), s->last);
    }
    if (s->warmup == 0)
        return part;
    tp_tensor *rise = tp_div(count, (double)s->warmup);
    return tp_where(tp_lt(behind, 0), rise, part ? part : tp_number(rise, 1));
}

double tp_optimizer_step_rate(const tp_optimizer *o)
{
    if (!o || tp_scope_begin(o->tp) != TP_OK)
        return (double)NAN;
    tp_tensor *rate = tp_scalar_at(NULL, 0, o->tp, TP_F64, tp_item_at(NULL, 0, o->rate));
    tp_tensor *count = tp_scalar_at(NULL, 0, o->tp, TP_F64, tp_item_at(NULL, 0, o->count));
    /* By an op: a host may have exceptions unmasked, and NaN tells of an error. */
    count = tp_max_at(NULL, 0, count, tp_scalar_at(NULL, 0, o->tp, TP_F64, 1));
    tp_tensor *part = part_of_rate(NULL, 0, &o->schedule, count);
    const double now = tp_item_at(NULL, 0, part ? tp_mul_at(NULL, 0, rate, part) : rate);
    tp_scope_end_at(NULL, 0, o->tp);
    return now;
}

/* Numbers of a group and type, made once a step. */
typedef struct made {
    bool is;
    tp_step step;
} made;

static void make_numbers(const char *file, int line, tp_optimizer *o, const group *g,
                         tp_dtype dtype, tp_tensor *rate, tp_tensor *count, tp_step *s)
{
    *s = (tp_step){.file = file, .line = line, .count = count, .decay = g->decay};
    s->rate = g->is_scaled ? tp_mul(rate, g->scale) : rate;
    if (o->kind->numbers) {
        tp_callback code = tp_callback_begin(o->tp, o->kind->name);
        o->kind->numbers(o->options, s);
        tp_callback_end(&code, NULL);
    }
    s->rate = tp_cast(s->rate, dtype);
    for (int k = 0; k < TP_STEP_NUMBERS; k++)
        s->number[k] = s->number[k] ? tp_cast(s->number[k], dtype) : NULL;
}

static void update(const char *file, int line, tp_optimizer *o, int i, const tp_tensor *like,
                   tp_step s)
{
    tp_tensor **state = o->state + i * o->n_states;
    s.w = tpi_held_now(file, line, like, o->w[i]);
    s.g = o->dw[i];
    for (int k = 0; k < o->n_states; k++)
        s.state[k] = state[k] ? tpi_held_now(file, line, like, state[k]) : NULL;
    tp_callback code = tp_callback_begin(o->tp, o->kind->name);
    o->kind->update(o->options, &s);
    tp_callback_end(&code, NULL);
    tpi_change(&o->changes, o->w[i], s.w);
    for (int k = 0; k < o->n_states; k++)
        if (state[k])
            tpi_change(&o->changes, state[k], s.state[k]);
}

/* Fills o->changes; a scope per parameter keeps little more than the new values. */
static bool plan(const char *file, int line, tp_optimizer *o, const tp_tensor *like)
{
    made *numbers = tp_alloc(o->tp, (size_t)(2 * o->n_groups) * sizeof *numbers);
    if (!numbers)
        return false;
    tp_tensor *count = tp_add(tpi_held_now(file, line, like, o->count), 1);
    tp_tensor *rate = tpi_held_now(file, line, like, o->rate);
    tp_tensor *part = part_of_rate(file, line, &o->schedule, count);
    rate = part ? tp_mul(rate, part) : rate;
    o->changes.n = 0;
    tpi_change(&o->changes, o->count, count);
    bool good = true;
    for (int i = 0; i < o->n && good; i++) {
        const tp_dtype dtype = tp_dtype_of(o->w[i]);
        made *mine = &numbers[2 * o->group_of[i] + (dtype == TP_F64)];
        if (!mine->is)
            make_numbers(file, line, o, &o->groups[o->group_of[i]], dtype, rate, count,
                         &mine->step);
        mine->is = true;
        good = tp_scope_begin(o->tp) == TP_OK;
        if (good) {
            update(file, line, o, i, like, mine->step);
            tp_scope_end(o->tp);
        }
    }
    tp_free(o->tp, numbers);
    return good;
}

/* With o->dw, in the graph of `like`. `when` NULL: always. */
static tp_tensor *step(const char *file, int line, tp_optimizer *o, const tp_tensor *like,
                       tp_tensor *when)
{
    for (int i = 0; i < o->n; i++)
        if (tp_failed(o->dw[i]))
            return o->dw[i];
    for (int i = 0; i < o->n && when; i++) /* what is left out makes no NaN on its way */
        o->dw[i] = tp_where(when, o->dw[i], 0);
    if (!plan(file, line, o, like))
        return tp_fail(o->tp, TP_E_MEMORY, "out of memory");
    if (when)
        tpi_changes_when(file, line, &o->changes, like, when);
    tp_tensor *done = tpi_changes_commit(file, line, &o->changes);
    if (!tp_failed(done))
        *(when && !tp_is_symbolic(done) ? &o->maybe : &o->begun) = true;
    if (!when || tp_failed(done))
        return done;
    return tp_is_symbolic(done) ? tp_and(when, done) : when; /* nothing can fail any more */
}

/* NULL, or the error: the user's code that a step calls makes another. */
static tp_tensor *refuse_running(const char *file, int line, const tp_optimizer *o)
{
    return o->running ? tp_fail(o->tp, TP_E_STATE, "a step of this optimizer runs already")
                      : NULL;
}

tp_tensor *tp_optimizer_step_at(const char *file, int line, tp_optimizer *o, tp_tensor *loss)
{
    if (!o)
        return tp_fail(tp_ctx_of(loss), TP_E_NULL, "the optimizer is NULL");
    tp_tensor *failed = refuse_running(file, line, o);
    if (!failed)
        failed = tpi_held_refuse_loss(file, line, o->tp, "the optimizer", loss);
    if (failed)
        return failed;
    if (tp_scope_begin(o->tp) != TP_OK)
        return tp_fail(o->tp, TP_E_MEMORY, "out of memory");
    const bool was = tp_recording(o->tp, false);
    o->running = true;
    tp_grads(loss, NULL, o->n, o->w, o->dw);
    tp_tensor *done = step(file, line, o, loss, NULL);
    o->running = false;
    tp_recording(o->tp, was);
    tp_keep(done);
    tp_scope_end(o->tp);
    return done;
}

tp_tensor *(tp_optimizer_step)(tp_optimizer *o, tp_tensor *loss)
{
    return tp_optimizer_step_at(NULL, 0, o, loss);
}

/* NULL, or why g is no gradient of w. */
static tp_tensor *refuse_gradient(const char *file, int line, tp_optimizer *o,
                                  const tp_tensor *w, tp_tensor *g, int i)
{
    char text[100];
    if (g && tp_failed(g))
        return g;
    if (g && tpi_held_are_alike(g, w))
        return NULL;
    snprintf(text, sizeof text, "gradient %d is %s", i,
             g ? "not of its parameter's shape and type" : "NULL");
    return tp_fail(o->tp, g ? TP_E_SHAPE : TP_E_NULL, text);
}

static tp_tensor *apply(const char *file, int line, tp_optimizer *o, tp_tensor *const *grads,
                        tp_tensor *when)
{
    if (!o || !grads)
        return tp_fail(o ? o->tp : NULL, TP_E_NULL,
                       o ? "the gradients are NULL" : "the optimizer is NULL");
    const tp_tensor *like = when && tp_is_symbolic(when) ? when : NULL;
    tp_tensor *failed = refuse_running(file, line, o);
    if (failed)
        return failed;
    for (int i = 0; i < o->n; i++) {
        failed = refuse_gradient(file, line, o, o->w[i], grads[i], i);
        if (failed)
            return failed;
        o->dw[i] = grads[i];
        like = tp_is_symbolic(grads[i]) ? grads[i] : like;
    }
    if (tp_scope_begin(o->tp) != TP_OK)
        return tp_fail(o->tp, TP_E_MEMORY, "out of memory");
    const bool was = tp_recording(o->tp, false);
    o->running = true;
    tp_tensor *done = step(file, line, o, like, when);
    o->running = false;
    tp_recording(o->tp, was);
    tp_keep(done);
    tp_scope_end(o->tp);
    return done;
}

tp_tensor *tp_optimizer_apply_at(const char *file, int line, tp_optimizer *o,
                                 tp_tensor *const *grads)
{
    return apply(file, line, o, grads, NULL);
}

tp_tensor *(tp_optimizer_apply)(tp_optimizer *o, tp_tensor *const *grads)
{
    return tp_optimizer_apply_at(NULL, 0, o, grads);
}

tp_tensor *tp_optimizer_apply_when_at(const char *file, int line, tp_optimizer *o,
                                      tp_tensor *const *grads, tp_tensor *when)
{
    tp_tensor *failed = tpi_held_refuse_flag(file, line, o ? o->tp : NULL, "when", when);
    return failed ? failed : apply(file, line, o, grads, when);
}

tp_tensor *(tp_optimizer_apply_when)(tp_optimizer *o, tp_tensor *const *grads, tp_tensor *when)
{
    return tp_optimizer_apply_when_at(NULL, 0, o, grads, when);
}
