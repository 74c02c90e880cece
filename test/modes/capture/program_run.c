/* Runs a random program: its statements over tensors, its calls, and what is noted of them. */
#include "c_program.h"

static const char *const where = "program"; /* the "file" of its statements */

typedef struct state {
    bed *b;
    const program *p;
    tp_function *called;
    tp_tensor *w, *p_, *q, *z, *old;
    tp_optimizer *adam;
    int c[2], call;
    double r[2];
} state;

/* What a body sees. */
typedef struct frame {
    tp_tensor *x, *y, *m[4], *v[4], *s[4];
    int k[4];
    double d[4];
    int64_t i;
} frame;

static void remember(state *st, tp_tensor *t)
{
    tp_tensor *was = st->old;
    st->old = tp_failed(t) ? NULL : tp_retain(t);
    tp_release(was);
}

/* d (the size of dy/dx) / dx, plus v. */
static tp_tensor *twice_at(const char *file, int line, tp_tensor *y, tp_tensor *x, tp_tensor *v)
{
    tp_tensor *g = tp_grad_at(file, line, y, x);
    if (!tp_requires_grad(g))
        return tp_add_at(file, line, g, v);
    tp_tensor *size = tp_sum_at(file, line, tp_mul_at(file, line, g, g), TP_ALL, false);
    return tp_add_at(file, line, tp_grad_at(file, line, size, x), v);
}
#define twice(...) twice_at(TP_PLACE, __VA_ARGS__)

/* Rows call it p. */
#define p p_
#undef TP_PLACE
#define TP_PLACE where, line

#define NAMES                                                                                  \
    tp_ctx *tp = st->b->tp;                                                                    \
    bed *b = st->b;                                                                            \
    tp_tensor **m = f->m, **v = f->v, **s = f->s, *x = f->x;                                   \
    int *k = f->k;                                                                             \
    double *d = f->d;                                                                          \
    const int64_t i = f->i;                                                                    \
    const int A = t->a, B = t->b, C = t->c, D = t->d, I = t->i;                                \
    (void)tp, (void)b, (void)m, (void)v, (void)s, (void)x, (void)k, (void)d, (void)i, (void)A, \
        (void)B, (void)C, (void)D, (void)I, (void)line

static void act(state *st, frame *f, const statement *t, int line)
{
    NAMES;
    switch (t->act) {
#define DO(name, weight, ...)                                                                  \
    case DO_##name:                                                                            \
        __VA_ARGS__;                                                                           \
        break;
#include "program.def"
    default:
        break;
    }
}

static bool holds(state *st, frame *f, const statement *t, int line)
{
    NAMES;
    switch (t->what) {
#define WHEN(name, ...)                                                                        \
    case WHEN_##name:                                                                          \
        return __VA_ARGS__;
#include "program.def"
    default:
        return false;
    }
}

static int times_of(state *st, frame *f, const statement *t, int line)
{
    NAMES;
    switch (t->what) {
#define TIMES(name, ...)                                                                       \
    case TIMES_##name:                                                                         \
        return __VA_ARGS__;
#include "program.def"
    default:
        return 0;
    }
}

static tp_tensor *pred_of(state *st, frame *f, const statement *t, int line)
{
    NAMES;
    switch (t->what) {
#define PRED(name, ...)                                                                        \
    case PRED_##name:                                                                          \
        return __VA_ARGS__;
#include "program.def"
    default:
        return NULL;
    }
}

#undef p

static bool run_list(state *st, frame *f, int at);

#define ALL_SLOTS                                                                              \
    &f->m[0], &f->m[1], &f->m[2], &f->m[3], &f->v[0], &f->v[1], &f->v[2], &f->v[3], &f->s[0],  \
        &f->s[1], &f->s[2], &f->s[3]

/* The body of a tp_for, and what is around it. */
static void turn(state *st, frame *f, const statement *t, int line, tp_tensor **stacked)
{
    f->v[t->d] = tp_add(f->v[t->d], tp_each(f->x));
    run_list(st, f, t->body);
    tp_emit(stacked, f->v[t->a]);
    f->i++;
}

static void run_block(state *st, frame *f, const statement *t, int line)
{
    tp_ctx *tp = st->b->tp;
    const int64_t was = f->i;
    tp_tensor *stacked = NULL, *n = tp_scalar(tp, TP_I64, t->i % 4);
    f->i = 0;
    switch (t->act) {
    case B_IF:
        f->i = was;
        tp_if (pred_of(st, f, t, line), ALL_SLOTS) {
            run_list(st, f, t->body);
        }
        tp_else
        {
            run_list(st, f, t->other);
        }
        break;
    case B_WHILE:
        tp_while (tp_and(tp_gt(n, tp_scalar(tp, TP_I64, 0)), pred_of(st, f, t, line)), &n,
                  ALL_SLOTS) {
            n = tp_sub(n, tp_scalar(tp, TP_I64, 1));
            run_list(st, f, t->body);
            f->i++;
        }
        break;
    default:
        if (t->i % 2) {
            tp_for_back (tp_size(f->x, 0), ALL_SLOTS) {
                turn(st, f, t, line, &stacked);
            }
        } else {
            tp_for (tp_size(f->x, 0), ALL_SLOTS) {
                turn(st, f, t, line, &stacked);
            }
        }
        f->m[t->d] = stacked;
    }
    f->i = was;
}

/* False: a break is under way. */
static bool run_list(state *st, frame *f, int at)
{
    bool goes_on = true;
    for (; at != NONE && goes_on; at = st->p->all[at].next) {
        const statement *t = &st->p->all[at];
        const int line = at;
        switch (t->act) {
        case A_IF:
            goes_on = run_list(st, f, holds(st, f, t, line) ? t->body : t->other);
            break;
        case A_FOR: {
            const int64_t was = f->i;
            const int n = times_of(st, f, t, line);
            for (f->i = 0; f->i < n; f->i++)
                if (!run_list(st, f, t->body))
                    break;
            f->i = was;
            break;
        }
        case A_BREAK:
            goes_on = !holds(st, f, t, line);
            break;
        case A_SCOPE:
            tp_scope_begin(st->b->tp);
            goes_on = run_list(st, f, t->body);
            for (int k = 0; k < 4; k++) {
                tp_keep(f->m[k]);
                tp_keep(f->v[k]);
                tp_keep(f->s[k]);
            }
            tp_scope_end(st->b->tp);
            break;
        case A_SILENT: {
            const bool was = tp_recording(st->b->tp, false);
            goes_on = run_list(st, f, t->body);
            tp_recording(st->b->tp, was);
            break;
        }
        case B_IF:
        case B_WHILE:
        case B_FOR:
            run_block(st, f, t, line);
            break;
        case A_CALL: {
            tp_tensor *out[3];
            tp_function_call(st->called, TP_TENSORS(f->m[t->a], f->v[t->b]), 3, out);
            f->m[t->d] = out[0];
            f->v[t->d] = out[1];
            f->s[t->d] = out[2];
            break;
        }
        default:
            act(st, f, t, line);
        }
    }
    return goes_on;
}

static void body(state *st, int first, tp_tensor *const *in, tp_tensor **out)
{
    frame f = {.x = in[0], .y = in[1]};
    for (int k = 0; k < 4; k++) {
        f.m[k] = f.x;
        f.v[k] = f.y;
        f.s[k] = st->z;
        f.d[k] = 1;
    }
    run_list(st, &f, first);
    out[0] = f.m[0];
    out[1] = f.v[0];
    out[2] = f.s[0];
    for (int k = 0; k < 3 && st->p->replays; k++) { /* values that are no variables */
        const int line = 1000 + k;
        out[k] = tp_detach(tp_add(out[k], tp_scalar_like(out[k], 0)));
    }
}

BODY(main_body)
{
    state *st = user;
    body(st, st->p->main, in, out);
}

BODY(called_body)
{
    state *st = user;
    body(st, st->p->called, in, out);
}

#undef TP_PLACE
#define TP_PLACE __FILE__, __LINE__

/* ---- calls ------------------------------------------------------------------------------- */

static void note_all(bed *b, const state *st)
{
    note(b, "w", st->w);
    note(b, "p", st->p_);
    note(b, "q", st->q);
    note(b, "z", st->z);
    note(b, "dw", tp_grad_of(st->w));
    note(b, "dp", tp_grad_of(st->p_));
    say(b, "c %d %d r %.9g %.9g", st->c[0], st->c[1], st->r[0], st->r[1]);
}

static tp_tensor *second_argument(state *st, tp_tensor *x, uint64_t *seed)
{
    switch (st->p->second) {
    case 1:
        return st->q;
    case 2:
        return tp_select(st->w, 0, 1);
    case 3:
        return st->p_;
    case 4:
        return tp_select(x, 0, 0);
    case 5:
        return tp_require_grad(draw(st->b->tp, seed, TP_DIMS(4)));
    default:
        return draw(st->b->tp, seed, TP_DIMS(4));
    }
}

static void gradients_from_outside(bed *b, state *st, tp_tensor *x, tp_tensor *const *out)
{
    tp_tensor *loss = tp_scalar(b->tp, TP_F32, 0);
    for (int i = 0; i < 3; i++)
        if (!tp_failed(out[i]))
            loss = tp_add(loss, tp_mean(tp_mul(out[i], tp_sigmoid(out[i])), TP_ALL, false));
    if (!tp_requires_grad(loss))
        return;
    if (tp_requires_grad(x))
        note(b, "dx", tp_grad(loss, x));
    if (st->call % 2)
        note(b, "d loss / dp", tp_grad(loss, st->p_));
    else
        say(b, "%s", tp_status_name(tp_backward(loss)));
}

static void one_call(bed *b, state *st, tp_function *f, uint64_t *seed, tp_tensor **held)
{
    tp_ctx *tp = b->tp;
    const program *p = st->p;
    const int64_t n = p->fixed_size ? 3 : 1 + (int64_t)(unit_random(seed) >> 40) % 5;
    say(b, "call %d", st->call);
    tp_tensor *x = draw(tp, seed, TP_DIMS(n, 4)), *out[3];
    if (p->marks && unit_random(seed) >> 63)
        tp_require_grad(x);
    tp_tensor *y = second_argument(st, x, seed);
    tp_status status = TP_OK;
    if (b->way->how == BOTH_BATCHES)
        tp_batch(tp) status = tp_function_call(f, TP_TENSORS(x, y), 3, out);
    else
        status = tp_function_call(f, TP_TENSORS(x, y), 3, out);
    say(b, "%s", tp_status_name(status));
    note_error(b, "error");
    if (p->moves && st->call % 3 == 1) { /* before the results are read */
        tp_assign(st->q, tp_neg(y));
        tp_zero_grad(st->p_);
    }
    note(b, "m", out[0]);
    note(b, "v", out[1]);
    note(b, "s", out[2]);
    if (p->outside)
        gradients_from_outside(b, st, x, out);
    note_error(b, "error outside");
    note_all(b, st);
    if (p->moves)
        note(b, "drawn", tp_uniform(tp, TP_F32, TP_DIMS(1), 0, 1));
    *held = tp_failed(out[0]) ? NULL : tp_retain(out[0]);
}

void program_scenario(bed *b)
{
    enum { MOST = 16 };
    tp_ctx *tp = b->tp;
    state st = {
        .b = b, .p = b->given, .r = {0.5, 0.25}
    };
    uint64_t seed = st.p->seed + 4242;
    unit_random(&seed);
    st.w = tp_param(draw(tp, &seed, TP_DIMS(4, 4)), "w");
    st.p_ = tp_param(draw(tp, &seed, TP_DIMS(4)), "p");
    st.q = tp_variable(draw(tp, &seed, TP_DIMS(4)), "q");
    st.z = tp_variable(tp_scalar(tp, TP_F32, 0.25), "z");
    st.adam = tp_adam_new(tp, 0.05, NULL, 2, (tp_tensor *const[]){st.w, st.p_});
    st.called = make(b, "called", called_body, &st);
    tp_function *f = make(b, "main", main_body, &st);
    tp_tensor *held[MOST] = {NULL};
    for (st.call = 0; st.call < st.p->calls && st.call < MOST; st.call++) {
        tp_scope_begin(tp);
        one_call(b, &st, f, &seed, &held[st.call]);
        say(b, "scope %s", tp_status_name(tp_scope_end(tp)));
        if (st.call == 2)
            settle(b);
    }
    for (int i = 0; i < st.call; i++) { /* results of all calls, still as they were */
        if (held[i])
            note(b, "held", held[i]);
        tp_release(held[i]);
    }
    tp_release(st.old);
    tp_optimizer_free(st.adam);
}
