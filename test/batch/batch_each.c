/* tp_batch_each: samples that look at values wait, others go on, and nothing but the time is another than in the loop. */
#include "common/caught.h"
#include "forest.h"

#include <math.h>

enum { N = 40 };

/* One way of running samples: TAPIR_FIBERS, or a loop in no block. */
static const char *const ways[] = {"", "0", "reverse", NULL};
enum { WAYS = sizeof ways / sizeof *ways };

static void run_samples(tp_ctx *tp, int way, int64_t n, tp_sample_body body, void *user)
{
    setenv("TAPIR_FIBERS", ways[way] ? ways[way] : "", 1);
    if (ways[way])
        assert_int_equal(tp_batch_each(tp, n, body, user), TP_OK);
    else
        for (int64_t i = 0; i < n; i++)
            body(user, i);
    setenv("TAPIR_FIBERS", "", 1);
}

static tp_tensor *number(tp_ctx *tp, double v)
{
    return tp_tensor_new(tp, TP_F64, 0, NULL, &v);
}

/* ---- Newton's method, each sample until it is there -------------------------------------------------------------------- */

typedef struct roots {
    tp_ctx *tp;
    double of[N];
    tp_tensor *root[N];
    int steps[N], order[N], n_ended;
} roots;

static void find_root(void *user, int64_t i)
{
    roots *r = user;
    tp_tensor *a = number(r->tp, r->of[i]), *x = tp_add(tp_mul(a, 0.5), 0.5);
    while (r->steps[i] < 30 && tp_item(tp_abs(tp_sub(tp_mul(x, x), a))) > 1e-9 * r->of[i]) {
        x = tp_mul(tp_add(x, tp_div(a, x)), 0.5);
        r->steps[i]++;
    }
    r->root[i] = x;
    r->order[i] = r->n_ended++;
}

static void samples_wait_for_values(void **state)
{
    tp_ctx *tp = *state;
    static roots r[WAYS];
    double want[N];
    for (int way = WAYS - 1; way >= 0; way--) {
        const tp_batch_counts before = tp_batch_counts_of(tp);
        r[way] = (roots){.tp = tp};
        for (int i = 0; i < N; i++)
            r[way].of[i] = (1 + i * 7 % N) * (i % 3 ? 1000 : 0.25);
        run_samples(tp, way, N, find_root, &r[way]);
        for (int i = 0; i < N; i++) {
            const double got = tp_item(r[way].root[i]);
            want[i] = way == WAYS - 1 ? got : want[i];
            assert_memory_equal(&got, &want[i], sizeof got);
            assert_true(fabs(got - sqrt(r[way].of[i])) < 1e-6 * got);
            assert_int_equal(r[way].steps[i], r[WAYS - 1].steps[i]);
        }
        const tp_batch_counts now = tp_batch_counts_of(tp);
        assert_int_equal(now.samples - before.samples, ways[way] ? N : 0);
        if (!ways[way] || strcmp(ways[way], "0") == 0) {
            assert_int_equal(now.waits, before.waits);
            continue;
        }
        assert_true(now.waits - before.waits > 5 * N);
        /* as many rounds as the longest takes, of four groups each: not one kernel for each op */
        assert_true((now.ops - before.ops) > 8 * (now.kernels - before.kernels));
        assert_true(r[way].steps[r[way].order[0]] <= 30);
    }
    for (int i = 1; i < N; i++)
        assert_true(r[1].order[i] > r[1].order[i - 1]); /* as the loop */
    int later = 0;
    for (int i = 1; i < N; i++)
        later += r[0].order[i] < r[0].order[i - 1]; /* short ones end first */
    assert_true(later > 3);
}

/* ---- training ------------------------------------------------------------------------------------------------------------- */

/* A state that goes through a cell until the net says that it is enough. */
typedef struct halting {
    tp_ctx *tp;
    tp_tensor *w, *b, *stop;
    tp_function *cell;
    tp_optimizer *o;
    tp_tensor *x[N], *loss[N];
    bool back_inside;
} halting;

static void halting_cell(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const halting *h = user;
    (void)n_in, (void)n_out;
    out[0] = tp_tanh(tp_add(tp_matmul(in[0], h->w), h->b));
}

static void think(void *user, int64_t i)
{
    halting *h = user;
    tp_tensor *s = h->x[i], *still = NULL;
    for (int turn = 0; turn < 8; turn++) {
        s = tp_function_apply(h->cell, TP_TENSORS(s));
        tp_tensor *p = tp_sigmoid(tp_matmul(s, h->stop));
        still = still ? tp_mul(still, p) : p;
        if (tp_truth(tp_lt(tp_mean(still, TP_ALL, false), 0.2)))
            break;
    }
    h->loss[i] = tp_mean(tp_square(tp_sub(tp_mul(s, still), 0.3)), TP_ALL, false);
    if (h->back_inside)
        tp_backward(h->loss[i]);
}

static void train(tp_ctx *tp, int way, bool back_inside, float *parameters)
{
    uint64_t seed = 5;
    halting h = {.tp = tp,
                 .w = parameter(tp, &seed, "w", TP_DIMS(WIDTH, WIDTH)),
                 .b = parameter(tp, &seed, "b", TP_DIMS(WIDTH)),
                 .stop = parameter(tp, &seed, "stop", TP_DIMS(WIDTH, 1)),
                 .back_inside = back_inside};
    tp_tensor *all[] = {h.w, h.b, h.stop};
    h.o = tp_adam_new(tp, 0.05, NULL, 3, all);
    h.cell = tp_function_new(tp, "cell", halting_cell, &h,
                             &(tp_function_options){.pure = true, .engine = TP_ENGINE_TILES});
    for (int i = 0; i < N; i++)
        h.x[i] = tp_retain(parameter(tp, &seed, "x", TP_DIMS(1, WIDTH)));
    for (int step = 0; step < 6; step++) {
        assert_int_equal(tp_scope_begin(tp), TP_OK);
        run_samples(tp, way, N, think, &h);
        if (back_inside)
            tp_optimizer_apply(
                h.o, (tp_tensor *[]){tp_grad_of(h.w), tp_grad_of(h.b), tp_grad_of(h.stop)});
        else
            tp_optimizer_step(h.o, tp_mean(tp_stack(N, h.loss, 0), TP_ALL, false));
        for (int i = 0; i < 3; i++)
            tp_zero_grad(all[i]);
        assert_int_equal(tp_scope_end(tp), TP_OK);
    }
    for (int i = 0; i < 3; i++) {
        const size_t n = (size_t)tp_count(all[i]);
        tp_read(all[i], parameters, n * sizeof *parameters);
        parameters += n;
    }
    for (int i = 0; i < N; i++)
        tp_release(h.x[i]);
    tp_optimizer_free(h.o);
    tp_function_free(h.cell);
    assert_int_equal(tp_error(tp), TP_OK);
}

static void parameters_are_those_of_the_loop(void **state)
{
    enum { PARAMETERS = WIDTH * WIDTH + 2 * WIDTH };
    tp_ctx *tp = *state;
    float want[PARAMETERS], got[PARAMETERS];
    for (int inside = 0; inside < 2; inside++) {
        train(tp, WAYS - 1, inside, want);
        for (int way = 0; way < WAYS - 1; way++) {
            const int64_t waits = tp_batch_counts_of(tp).waits;
            train(tp, way, inside, got);
            expect_equal(got, want, PARAMETERS);
            assert_int_equal(tp_batch_counts_of(tp).waits - waits > N,
                             strcmp(ways[way], "0") != 0);
        }
    }
}

/* ---- scopes ------------------------------------------------------------------------------------------------------------------ */

typedef struct scoped {
    tp_ctx *tp;
    tp_tensor *x, *left[N], *kept[N], *far[N];
} scoped;

static void leave_some(void *user, int64_t i)
{
    scoped *s = user;
    tp_scope_begin(s->tp);
    tp_tensor *a = tp_add(s->x, (double)i);
    s->left[i] = tp_keep(tp_exp(a));
    for (int k = 0; k < i % 4; k++)
        assert_true(tp_item(tp_add(a, k)) == (double)(i + k) + 1);
    tp_scope_end(s->tp);
    s->kept[i] = tp_keep(tp_mul(s->left[i], 2)); /* to the scope outside of that of the call */
    s->far[i] = tp_retain(tp_neg(s->left[i]));
    tp_scope_begin(s->tp); /* left open */
    tp_add(s->x, 3);
}

static void what_bodies_leave_is_in_the_scope_of_the_call(void **state)
{
    tp_ctx *tp = *state;
    for (int way = 0; way < WAYS - 1; way++) {
        static scoped s;
        s = (scoped){.tp = tp, .x = number(tp, 1)};
        tp_scope_begin(tp);
        tp_scope_begin(tp);
        run_samples(tp, way, N, leave_some, &s);
        for (int i = 0; i < N; i++) {
            const double want = exp((double)i + 1);
            assert_true(fabs(tp_item(s.left[i]) - want) < 1e-9 * want);
            assert_true(tp_item(s.kept[i]) == 2 * tp_item(s.left[i]));
        }
        tp_scope_end(tp);
        assert_true(tp_item(s.kept[3]) > 0);
        assert_true(tp_failed(tp_neg(s.left[3])));
        tp_clear_error(tp);
        tp_scope_end(tp);
        assert_true(tp_failed(tp_neg(s.kept[3])));
        tp_clear_error(tp);
        for (int i = 0; i < N; i++) {
            assert_true(tp_item(s.far[i]) < 0);
            tp_release(s.far[i]);
        }
    }
    assert_int_equal(tp_error(tp), TP_OK);
}

static void keep_outer(void *user, int64_t i)
{
    scoped *s = user;
    if (tp_truth(tp_gt(tp_add(s->x, (double)i), 0)) && i == 1)
        tp_keep(s->x);
}

static void a_tensor_from_outside_can_be_kept(void **state)
{
    tp_ctx *tp = *state;
    scoped s = {.tp = tp};
    tp_scope_begin(tp);
    s.x = number(tp, 4);
    run_samples(tp, 0, 3, keep_outer, &s);
    tp_scope_end(tp);
    assert_true(tp_item(s.x) == 4);
}

/* ---- random numbers ------------------------------------------------------------------------------------------------------------ */

typedef struct draws {
    tp_ctx *tp;
    bool own, shared;
    float v[N];
} draws;

static void draw(void *user, int64_t i)
{
    draws *d = user;
    if (d->own)
        tp_random_stream(d->tp, d->shared ? 7 : (uint64_t)(10 + i));
    tp_tensor *x = tp_uniform(d->tp, TP_F32, 0, NULL, 0, 1);
    for (int turn = 0; turn < 20 && tp_truth(tp_gt(x, 0.3 + 0.01 * (double)i)); turn++)
        x = tp_mul(x, tp_uniform(d->tp, TP_F32, 0, NULL, 0.5, 1));
    d->v[i] = (float)tp_item(x);
}

static void draws_are_those_of_the_loop(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++) {
        draws want = {.own = own}, got = {.own = own};
        int64_t waits = 0;
        for (int way = WAYS - 1; way >= 0; way--) {
            tp_ctx *tp = tp_open(&(tp_options){.seed = 3});
            draws *d = way == WAYS - 1 ? &want : &got;
            d->tp = tp;
            run_samples(tp, way, N, draw, d);
            if (way < WAYS - 1) /* in the loop the last stream stays */
                assert_int_equal(tp_random_stream(tp, 0), 0);
            expect_equal(d->v, want.v, N);
            waits = tp_batch_counts_of(tp).waits;
            tp_close(tp);
        }
        assert_true(waits > N);
    }
}

static void a_stream_is_one_sample_s(void **state)
{
    tp_ctx *tp = *state;
    for (int way = 0; way < WAYS - 1; way++) {
        draws d = {.tp = tp, .own = true, .shared = true};
        run_samples(tp, way, 3, draw, &d);
        EXPECT_ERROR_WITH(tp, TP_E_STATE, "drawn from stream 7");
        tp_clear_error(tp);
    }
}

/* ---- the order of the loop ------------------------------------------------------------------------------------------------- */

typedef struct shared {
    tp_ctx *tp;
    tp_tensor *w, *x[N], *seen[N];
    tp_hook *hook;
    tp_state *state;
    int which, n_seen, order[N];
} shared;

/* It waits the longer the smaller i is, so that without turns the last one would come first. */
static void wait_a_while(const shared *s, int64_t i)
{
    tp_tensor *x = tp_add(s->x[i], 1);
    for (int turn = 0; turn < 6 - i; turn++)
        x = tp_mul(x, tp_item(x) > 0 ? 0.5 : 2);
}

static void use_gradients(void *user, int64_t i)
{
    shared *s = user;
    wait_a_while(s, i);
    if (i % 2)
        tp_zero_grad(s->w);
    tp_backward(tp_mul(tp_mul(s->w, s->w), s->x[i]));
    s->seen[i] = tp_mul(tp_grad_of(s->w), 1);
}

static void save_one(void *user, int64_t i)
{
    shared *s = user;
    wait_a_while(s, i);
    assert_int_equal(tp_npy_save(tp_add(s->x[i], 0), "each.npy"), TP_OK);
}

static void square_it(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_square(in[0]);
}

static void draw_back(void *user, const tp_vjp *v)
{
    (void)user;
    v->din[0] = tp_mul(v->dout[0], tp_uniform(tp_ctx_of(v->dout[0]), TP_F32, 0, NULL, 0, 1));
}

static void draw_in_gradient(void *user, int64_t i)
{
    static const tp_custom rule = {
        .name = "noisy", .forward = square_it, .backward = draw_back};
    shared *s = user;
    wait_a_while(s, i);
    tp_tensor *x = tp_require_grad(tp_add(s->x[i], 0)), *dx;
    tp_grads(tp_custom_apply(&rule, NULL, 1, &x), NULL, 1, &x, &dx);
    s->seen[i] = dx;
}

static void note_order(void *user, int64_t i)
{
    shared *s = user;
    if (tp_item(tp_add(s->x[i], 1)) > 0)
        s->order[s->n_seen++] = (int)i;
}

static void shared_begin(shared *s, tp_ctx *tp)
{
    *s = (shared){.tp = tp, .w = tp_param(tp_scalar(tp, TP_F32, 0.5), "w")};
    for (int i = 0; i < 6; i++)
        s->x[i] = tp_scalar(tp, TP_F32, 1 + 0.1 * i);
}

static void what_others_see_comes_in_order(void **state)
{
    (void)state;
    static const tp_sample_body bodies[] = {use_gradients, save_one, draw_in_gradient};
    for (int k = 0; k < 3; k++) {
        float want[6] = {0}, got[6];
        for (int way = WAYS - 1; way >= 0; way--) {
            tp_ctx *tp = tp_open(&(tp_options){.seed = 5});
            shared s;
            shared_begin(&s, tp);
            run_samples(tp, way, 6, bodies[k], &s);
            for (int i = 0; i < 6; i++)
                got[i] = k == 1 ? (float)tp_item(tp_npy_load(tp, "each.npy"))
                                : (float)tp_item(s.seen[i]);
            assert_int_equal(tp_error(tp), TP_OK);
            if (way == WAYS - 1)
                memcpy(want, got, sizeof got);
            expect_equal(got, want, 6);
            tp_close(tp);
        }
    }
    remove("each.npy");
}

static void the_last_one_goes_on_first(void **state)
{
    shared s;
    shared_begin(&s, *state);
    run_samples(s.tp, 2, 6, note_order, &s);
    for (int i = 0; i < 6; i++)
        assert_int_equal(s.order[i], 5 - i);
}

/* A mark that comes behind samples, the first of which read the tensor last. */
static void read_late(void *user, int64_t i)
{
    shared *s = user;
    wait_a_while(s, i);
    s->seen[i] = tp_mul(s->x[5], s->x[4]);
}

static void a_late_mark_is_told(void **state)
{
    for (int way = 0; way < WAYS; way++) {
        shared s;
        shared_begin(&s, *state);
        run_samples(s.tp, way, 3, read_late, &s);
        tp_tensor *first = s.seen[0];
        tp_require_grad(s.x[5]);
        tp_tensor *y = tp_add(tp_mul(s.x[5], 2), first), *dx;
        tp_grads(y, NULL, 1, &s.x[5], &dx);
        assert_true(tp_failed(dx));
        tp_clear_error(s.tp);
    }
}

/* ---- mistakes -------------------------------------------------------------------------------------------------------------------- */

typedef struct mistakes {
    tp_ctx *tp;
    tp_tensor *table, *w, *at[N], *y[N], *shared;
    bool done[N];
} mistakes;

static void gather_one(void *user, int64_t i)
{
    mistakes *m = user;
    tp_tensor *row = tp_gather(m->table, tp_add(m->at[i], m->at[i]), 0);
    m->done[i] = tp_truth(tp_gt(row, 0));
    m->y[i] = tp_add(row, 1);
}

static void errors_tell_the_sample_and_others_go_on(void **state)
{
    tp_ctx *tp = *state;
    const int64_t five = 5;
    for (int way = 0; way < WAYS - 1; way++) {
        mistakes m = {.tp = tp, .table = tp_add(tp_arange(tp, TP_F32, 8, 0, 1), 1)};
        for (int i = 0; i < 6; i++)
            m.at[i] = tp_tensor_new(tp, TP_I64, 0, NULL, i == 4 ? &five : &(int64_t){i % 3});
        run_samples(tp, way, 6, gather_one, &m);
        EXPECT_ERROR_WITH(tp, TP_E_VALUE, "of range for size 8 (sample 4)");
        tp_clear_error(tp);
        for (int i = 0; i < 6; i++)
            assert_int_equal(tp_failed(m.y[i]), i == 4);
        assert_true(tp_item(m.y[5]) == 6);
    }
}

static void use_another_s(void *user, int64_t i)
{
    mistakes *m = user;
    tp_tensor *mine = tp_add(m->table, (double)i);
    if (i == 0)
        m->shared = mine;
    m->y[i] = tp_add(mine, i ? m->shared : mine);
}

static void assign_outer(void *user, int64_t i)
{
    mistakes *m = user;
    m->done[i] = tp_failed(tp_assign(m->w, tp_mul(m->w, 2)));
    tp_tensor *mine = tp_variable(tp_add(m->table, (double)i), "mine");
    tp_assign(mine, tp_mul(mine, 3));
    m->y[i] = mine;
}

static void what_samples_share_is_refused(void **state)
{
    tp_ctx *tp = *state;
    for (int way = 0; way < 2; way++) {
        mistakes m = {.tp = tp, .table = number(tp, 1), .w = tp_param(number(tp, 5), "w")};
        run_samples(tp, way, 3, use_another_s, &m);
        EXPECT_ERROR_WITH(tp, TP_E_STATE, "another sample");
        tp_clear_error(tp);
        assert_true(tp_item(m.y[0]) == 2 && tp_failed(m.y[1]) && tp_failed(m.y[2]));
        run_samples(tp, way, 3, assign_outer, &m);
        EXPECT_ERROR_WITH(tp, TP_E_STATE, "tp_assign: a sample of tp_batch_each changes");
        tp_clear_error(tp);
        for (int i = 0; i < 3; i++)
            assert_true(m.done[i]);
        for (int i = 0; i < 3; i++)
            assert_true(tp_item(m.y[i]) == 3 * (i + 1));
        assert_true(tp_item(m.w) == 5);
    }
}

static tp_tensor *same(void *user, tp_tensor *g)
{
    (void)user;
    return g;
}

static void change_shared(void *user, int64_t i)
{
    shared *s = user;
    tp_tensor *plain = s->x[i];
    if (s->which == 0)
        tp_require_grad(plain);
    else if (s->which == 1)
        tp_name(plain, "mine");
    else if (s->which == 2)
        tp_hook_on(s->w, s->hook);
    else if (s->which == 3)
        tp_trap_nan(s->tp, true);
    else if (s->which == 4)
        tp_seed(s->tp, 7);
    else if (s->which == 5)
        tp_state_load(s->state, "each.state", NULL);
    else
        tp_batch_left((tp_batch_block[]){
            {.tp = s->tp, .queue = s->tp->frame}
        });
}

static void what_others_read_is_not_changed(void **state)
{
    tp_ctx *tp = *state;
    for (int way = 0; way < 2; way++)
        for (int which = 0; which < 7; which++) {
            shared s;
            shared_begin(&s, tp);
            s.which = which;
            s.hook = tp_hook_new(tp, same, NULL);
            s.state = tp_state_new(tp);
            tp_batch (tp)
                run_samples(tp, way, 1, change_shared, &s);
            EXPECT_ERROR_WITH(tp, TP_E_STATE,
                              which < 6 ? "changes what other samples see"
                                        : "leaves the block");
            tp_clear_error(tp);
            assert_false(tp_requires_grad(s.x[0]));
            assert_null(tp_name_of(s.x[0]));
            assert_int_equal(tp->n_hung, 0);
            tp_hook_free(s.hook);
            tp_state_free(s.state);
        }
}

/* ---- what a body sets ------------------------------------------------------------------------------------------------------------ */

static void set_all(void *user, int64_t i)
{
    shared *s = user;
    tp_recording(s->tp, i % 2);
    tp_training(s->tp, i % 2);
    tp_random_stream(s->tp, (uint64_t)(40 + i));
    wait_a_while(s, i);
    tp_tensor *y = tp_mul(s->w, s->x[i]);
    s->n_seen += tp_requires_grad(y) == (i % 2 == 1) && tp_trains(s->tp) == (i % 2 == 1) &&
                 tp_random_stream(s->tp, 0) == (uint64_t)(40 + i);
}

static void nested_set_all(void *user, int64_t i)
{
    shared *s = user;
    (void)i;
    tp_batch_each(s->tp, 6, set_all, s);
    s->which += tp_trains(s->tp) && tp_random_stream(s->tp, 3) == 3;
}

static void what_a_body_sets_is_its_own(void **state)
{
    for (int way = 0; way < WAYS - 1; way++)
        for (int nested = 0; nested < 2; nested++)
            for (int trap = 0; trap < 2; trap++) {
                shared s;
                shared_begin(&s, *state);
                tp_random_stream(s.tp, 3);
                tp_trap_nan(s.tp, trap);
                run_samples(s.tp, way, nested ? 2 : 6, nested ? nested_set_all : set_all, &s);
                tp_trap_nan(s.tp, false);
                assert_int_equal(s.n_seen, nested ? 12 : 6);
                assert_int_equal(s.which, nested ? 2 : 0);
                assert_true(tp_trains(s.tp) && tp_random_stream(s.tp, 0) == 3);
                assert_true(tp_requires_grad(tp_neg(s.w)));
            }
}

/* As if a million were made in each turn. */
static void make_many(void *user, int64_t i)
{
    mistakes *m = user;
    int n = 0;
    while (n < 30 && !tp_failed(m->y[i])) {
        m->tp->caller.seq += 1 << 20;
        m->y[i] = tp_add(m->w, n++);
    }
    m->done[i] = n == 15;
}

static void too_many_tensors(void **state)
{
    tp_ctx *tp = *state;
    for (int way = 0; way < 2; way++) {
        mistakes m = {.tp = tp, .w = tp_param(number(tp, 5), "w")};
        m.y[0] = m.y[1] = m.w;
        run_samples(tp, way, 2, make_many, &m);
        EXPECT_ERROR_WITH(tp, TP_E_LIMIT, "tensors in one sample (sample 0)");
        tp_clear_error(tp);
        assert_true(m.done[0] && m.done[1]);
    }
}

static void count(void *user, int64_t i)
{
    (void)i;
    ++*(int *)user;
}

static void arguments_are_checked(void **state)
{
    tp_ctx *tp = *state;
    int n = 0;
    assert_int_equal(tp_batch_each(NULL, 3, count, &n), TP_E_NULL);
    assert_int_equal(tp_batch_each(tp, 3, NULL, &n), TP_E_NULL);
    EXPECT_ERROR_WITH(tp, TP_E_NULL, "body");
    tp_clear_error(tp);
    assert_int_equal(tp_batch_each(tp, -1, count, &n), TP_E_VALUE);
    assert_int_equal(tp_batch_each(tp, INT32_MAX, count, &n), TP_E_VALUE);
    tp_clear_error(tp);
    assert_int_equal(n, 0);
    assert_int_equal(tp_batch_each(tp, 0, count, &n), TP_OK);
    assert_int_equal((tp_batch_each)(tp, 4, count, &n), TP_OK);
    assert_int_equal(n, 4);
    assert_null(tp->frame);
}

/* ---- where it is called ---------------------------------------------------------------------------------------------------------- */

typedef struct nested {
    tp_ctx *tp;
    tp_tensor *x[N][3];
    double sum[N];
    int64_t outer;
} nested;

static void inner(void *user, int64_t k)
{
    nested *n = user;
    tp_tensor *x = n->x[n->outer][k];
    if (tp_truth(tp_gt(x, 4)))
        x = tp_neg(x);
    n->sum[n->outer] += tp_item(tp_add(x, 1));
}

typedef struct one_of {
    nested *all;
    int64_t i;
} one_of;

static void inner_of(void *user, int64_t k)
{
    const one_of *o = user;
    nested n = *o->all;
    n.outer = o->i;
    n.sum[o->i] = 0;
    inner(&n, k);
    o->all->sum[o->i] += n.sum[o->i];
}

static void outer(void *user, int64_t i)
{
    one_of o = {user, i};
    assert_int_equal(tp_batch_each(o.all->tp, 3, inner_of, &o), TP_OK);
}

static void samples_in_samples_come_one_after_the_other(void **state)
{
    tp_ctx *tp = *state;
    static nested n;
    n = (nested){.tp = tp};
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 3; k++)
            n.x[i][k] = tp_add(number(tp, i), k);
    tp_batch (tp)
        run_samples(tp, 0, 8, outer, &n);
    for (int i = 0; i < 8; i++) {
        double want = 0;
        for (int k = 0; k < 3; k++)
            want += i + k > 4 ? 1 - (i + k) : i + k + 1;
        assert_true(n.sum[i] == want);
    }
}

static void halve(void *user, int64_t i)
{
    tp_tensor **x = user;
    while (tp_truth(tp_gt(x[i], 1)))
        x[i] = tp_mul(x[i], 0.5);
}

/* Samples of another context in a sample, which look at values of both. */
typedef struct two {
    tp_ctx *tp[2];
    tp_tensor *x[N], *y[N];
    int64_t outer;
} two;

static void of_other(void *user, int64_t k)
{
    const two *t = user;
    const int64_t i = t->outer;
    tp_tensor *x = tp_mul(t->x[i], 2);
    for (int turn = 0; turn < 3 + k; turn++)
        if (tp_truth(tp_lt(t->y[k], 5)) && tp_item(x) > 0)
            ((two *)user)->y[k] = tp_add(t->y[k], tp_item(x) + turn);
}

static void of_one(void *user, int64_t i)
{
    two *t = user, own = *t;
    own.outer = i;
    for (int k = 0; k < 3; k++)
        own.y[k] = number(t->tp[1], 0.25 * k);
    tp_batch_each(t->tp[1], 3, of_other, &own);
    double sum = 0;
    for (int k = 0; k < 3; k++)
        sum += tp_item(own.y[k]);
    while (tp_truth(tp_lt(t->x[i], 20)))
        t->x[i] = tp_add(tp_mul(t->x[i], 1.5), sum);
}

static void contexts_do_not_meet(void **state)
{
    static two t[WAYS];
    t[0].tp[0] = *state;
    t[0].tp[1] = tp_open(NULL);
    for (int way = WAYS - 1; way >= 0; way--) {
        memcpy(t[way].tp, t[0].tp, sizeof t[0].tp);
        for (int i = 0; i < 6; i++)
            t[way].x[i] = number(t[0].tp[0], 0.5 + i);
        run_samples(t[0].tp[0], way, 6, of_one, &t[way]);
        for (int i = 0; i < 6; i++)
            assert_true(tp_item(t[way].x[i]) == tp_item(t[WAYS - 1].x[i]));
    }
    assert_int_equal(tp_error(t[0].tp[0]), TP_OK);
    assert_int_equal(tp_error(t[0].tp[1]), TP_OK);
    tp_close(t[0].tp[1]);
}

static void captured(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    tp_tensor *x[2] = {in[0], in[1]};
    (void)n_in, (void)n_out;
    tp_batch_each(user, 2, halve, x);
    out[0] = tp_add(x[0], x[1]);
}

static void in_a_captured_function_it_is_a_loop(void **state)
{
    tp_ctx *tp = *state;
    tp_function *f =
        tp_function_new(tp, "captured", captured, tp,
                        &(tp_function_options){.pure = true, .engine = TP_ENGINE_TILES});
    for (int i = 0; i < 6; i++) {
        tp_tensor *y =
            tp_function_apply(f, TP_TENSORS(number(tp, 6), number(tp, i % 2 ? 3 : 5)));
        assert_true(tp_item(y) == 0.75 + (i % 2 ? 0.75 : 0.625));
    }
    assert_true(tp_function_stats_of(f).user_calls < 6);
    tp_function_free(f);
}

/* More than wait at a time. */
static void many_samples(void **state)
{
    enum { MANY = 3000 };
    tp_ctx *tp = *state;
    static tp_tensor *x[MANY];
    for (int i = 0; i < MANY; i++)
        x[i] = number(tp, 1 << i % 7);
    run_samples(tp, 0, MANY, halve, x);
    for (int i = 0; i < MANY; i++)
        assert_true(tp_item(x[i]) == 1);
    tp_trim(tp);
    assert_null(tp->fibers);
}

/* ---- bodies that are left ---------------------------------------------------------------------------------------------------------- */

typedef struct leaving {
    tp_ctx *tp;
    tp_tensor *x[N], *kept;
    jmp_buf back;
    int turns;
} leaving;

static void leave_at_third(void *user, int64_t i)
{
    leaving *l = user;
    tp_tensor *x = tp_add(l->x[i], 1);
    for (int turn = 0; turn < 5; turn++) {
        x = tp_mul(x, 1.5);
        l->turns += tp_truth(tp_gt(x, 0));
        if (i == 3 && turn == 2) {
            l->kept = x;
            longjmp(l->back, 1);
        }
    }
}

/* What it was doing is given up, and nothing is lost, whatever comes next: an op, the end of a scope, or of all. */
static void leave_by_longjmp(int way, int end)
{
    unit_memory memory = {0};
    static leaving l;
    l = (leaving){.tp = unit_open(&memory)};
    tp_scope_begin(l.tp);
    for (int i = 0; i < 6; i++)
        l.x[i] = number(l.tp, i);
    if (setjmp(l.back) == 0) {
        run_samples(l.tp, way, 6, leave_at_third, &l);
        fail_msg("it came back");
    }
    enum {
        BELOW = 64 << 10
    }; /* frames that ended with the jump; the sanitizer saw one of another stack */
    tpi_somebodys((char *)__builtin_frame_address(0) - BELOW, BELOW);
    setenv("TAPIR_FIBERS", "", 1);
    if (end == 0) {
        tp_tensor *y = tp_add(l.x[1], 4);
        assert_true(tp_item(y) == 5);
        assert_true(tp_item(tp_mul(l.kept, 2)) == 2 * 4 * 1.5 * 1.5 * 1.5);
        assert_int_equal(tp_batch_each(l.tp, 3, halve, l.x + 1), TP_OK);
        assert_int_equal(tp_scope_end(l.tp), TP_OK);
    } else if (end == 1) {
        assert_int_equal(tp_scope_end(l.tp), TP_OK);
    }
    unit_close(l.tp, &memory);
}

static void a_body_can_be_left_by_longjmp(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS - 1; way++)
        for (int end = 0; end < 3; end++)
            if (end == 2 || strcmp(ways[way], "0") !=
                                0) /* else it is noticed where less of the stack is used */
                leave_by_longjmp(way, end);
}

/* ---- memory --------------------------------------------------------------------------------------------------------------------------- */

static long calls_with(long fail_at, bool once)
{
    unit_memory memory = {0};
    tp_ctx *tp = unit_open(&memory);
    tp_tensor *x[8] = {NULL};
    assert_non_null(tp);
    for (int i = 0; i < 8; i++)
        x[i] = number(tp, i + 1);
    const long before = memory.calls;
    unit_fail(&memory, fail_at, once);
    const tp_status status = tp_batch_each(tp, 8, halve, x);
    const long calls = memory.calls - before;
    unit_fail(&memory, 0, false);
    assert_true(status == TP_OK || status == TP_E_MEMORY);
    for (int i = 0; i < 8 && tp_error(tp) == TP_OK; i++)
        assert_true(tp_item(x[i]) <= 1);
    assert_true(tp_error(tp) == TP_OK || tp_error(tp) == TP_E_MEMORY);
    assert_null(tp->frame);
    unit_close(tp, &memory);
    return calls;
}

static void memory_runs_out(void **state)
{
    (void)state;
    unit_fail_each(calls_with, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(samples_wait_for_values),
        CASE(parameters_are_those_of_the_loop),
        CASE(what_bodies_leave_is_in_the_scope_of_the_call),
        CASE(a_tensor_from_outside_can_be_kept),
        CASE(draws_are_those_of_the_loop),
        CASE(a_stream_is_one_sample_s),
        CASE(what_others_see_comes_in_order),
        CASE(the_last_one_goes_on_first),
        CASE(a_late_mark_is_told),
        CASE(what_others_read_is_not_changed),
        CASE(what_a_body_sets_is_its_own),
        CASE(errors_tell_the_sample_and_others_go_on),
        CASE(what_samples_share_is_refused),
        CASE(too_many_tensors),
        CASE(arguments_are_checked),
        CASE(samples_in_samples_come_one_after_the_other),
        CASE(contexts_do_not_meet),
        CASE(in_a_captured_function_it_is_a_loop),
        CASE(many_samples),
        CASE(a_body_can_be_left_by_longjmp),
        CASE(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
