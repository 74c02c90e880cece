/* Random programs that look at values, one for each sample: as a loop, and by tp_batch_each together, one after the other and
 * from the last one on. Results, gradients, random numbers and what was read have equal bits.
 *
 *     each_random [--seed N] [--count N] */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <inttypes.h>

enum {
    WIDTH = 4,
    STATES = 3, /* of a sample */
    MATRICES = 2,
    MOST_STEPS = 12,
    MOST_SAMPLES = 9,
    MOST_TURNS = 4,
    VALUES = 4000
};

/* ---- a program ------------------------------------------------------------------------------------------------------------ */

typedef enum step_kind {
    ADDED,
    MULTIPLIED,
    SQUASHED,
    BY_MATRIX,
    CELL,      /* a pure function */
    GATHERED,  /* by an index that is computed */
    REPEATED,  /* while its mean is small, and so many times at most */
    TURNED,    /* if the mean is positive */
    READ,      /* C decides by what it read */
    NOISE,     /* from the stream of the context */
    OWN_NOISE, /* from one of the sample's own */
    SCOPED,
    BACK,      /* tp_backward */
    OWN_GRADS, /* tp_grads */
    NESTED,    /* a tp_batch_each in it */
    GRADIENTS, /* what tp_backward has added up, and maybe from nothing again */
    UNRECORDED,
    IN_A_BLOCK, /* tp_if, and a tp_while */
    DRAWN_BACK, /* a gradient of the user's, which draws */
    STEPS
} step_kind;

typedef struct step {
    step_kind kind;
    int a, b, which, turns;
} step;

typedef struct program {
    uint64_t seed;
    int n_samples, n_steps;
    step steps[MOST_STEPS];
    /* While it runs: */
    tp_ctx *tp;
    tp_tensor *matrix[MATRICES], *bias, *table;
    tp_function *cell;
    tp_tensor *start[MOST_SAMPLES], *loss[MOST_SAMPLES], *out[MOST_SAMPLES][STATES + 1];
    float read[MOST_SAMPLES];
} program;

static program program_of(uint64_t seed)
{
    program p = {.seed = seed};
    uint64_t s = seed * 2654435761u + 99;
    p.n_samples = 1 + unit_below(&s, MOST_SAMPLES);
    p.n_steps = 2 + unit_below(&s, MOST_STEPS - 1);
    for (int i = 0; i < p.n_steps; i++)
        p.steps[i] = (step){(step_kind)unit_below(&s, STEPS), unit_below(&s, STATES),
                            unit_below(&s, STATES), unit_below(&s, MATRICES),
                            unit_below(&s, MOST_TURNS + 1)};
    return p;
}

static void cell(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const program *p = user;
    (void)n_in, (void)n_out;
    tp_tensor *z = tp_add(tp_matmul(tp_add(in[0], in[1]), p->matrix[0]), p->bias);
    out[0] = tp_mul(tp_sigmoid(z), tp_tanh(in[0]));
}

static double mean_of(tp_tensor *t)
{
    return tp_item(tp_mean(t, TP_ALL, false));
}

/* ---- a sample --------------------------------------------------------------------------------------------------------------- */

typedef struct inner {
    const program *p;
    tp_tensor *x, *y[2];
} inner;

static void inner_body(void *user, int64_t i)
{
    inner *n = user;
    tp_tensor *x = tp_matmul(n->x, n->p->matrix[i]);
    n->y[i] = tp_truth(tp_gt(tp_mean(x, TP_ALL, false), 0)) ? tp_tanh(x) : tp_neg(x);
}

static tp_tensor *gathered(const program *p, tp_tensor *x)
{
    tp_tensor *at = tp_argmax(tp_reshape(x, TP_DIMS(WIDTH)), 0, false);
    return tp_reshape(tp_gather(p->table, at, 0), TP_DIMS(1, WIDTH));
}

static tp_tensor *repeated(const program *p, const step *o, tp_tensor *x)
{
    for (int turn = 0; turn < o->turns && tp_truth(tp_lt(tp_mean(x, TP_ALL, false), 0.4));
         turn++)
        x = tp_add(tp_tanh(tp_matmul(x, p->matrix[o->which])), 0.1);
    return x;
}

static tp_tensor *noise(const program *p, int64_t sample, bool own)
{
    const uint64_t was = own ? tp_random_stream(p->tp, (uint64_t)(100 + sample)) : 0;
    tp_tensor *y = tp_normal(p->tp, TP_F32, TP_DIMS(1, WIDTH), 0, 0.1);
    if (own)
        tp_random_stream(p->tp, was);
    return y;
}

static tp_tensor *small(tp_tensor *t)
{
    return tp_tanh(tp_mul(t, 0.3));
}

static void square_it(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_square(in[0]);
}

static void draw_back(void *user, const tp_vjp *v)
{
    (void)user;
    v->din[0] = tp_mul(v->dout[0], tp_uniform_like(v->in[0], 0, 1));
}

static tp_tensor *drawn_back(tp_tensor *x)
{
    static const tp_custom rule = {
        .name = "noisy", .forward = square_it, .backward = draw_back};
    tp_tensor *own = tp_require_grad(tp_detach(x)), *dx;
    tp_grads(tp_custom_apply(&rule, NULL, 1, &own), NULL, 1, &own, &dx);
    return dx;
}

static tp_tensor *in_blocks(tp_tensor *x, tp_tensor *y)
{
    tp_if (tp_gt(tp_mean(x, TP_ALL, false), 0), &x)
        x = tp_add(tp_tanh(x), tp_mul(y, 0.5));
    tp_while (tp_lt(tp_mean(x, TP_ALL, false), 0.3), &x)
        x = tp_add(tp_mul(tp_tanh(x), 0.5), 0.25);
    return x;
}

static tp_tensor *do_step(program *p, const step *o, int64_t i, tp_tensor **v)
{
    tp_tensor *a = v[o->a], *b = v[o->b], *y = a, *dx[2];
    inner n = {
        p, a, {NULL, NULL}
    };
    switch (o->kind) {
    case ADDED:
        return tp_add(a, b);
    case MULTIPLIED:
        return tp_mul(a, b);
    case SQUASHED:
        return tp_tanh(a);
    case BY_MATRIX:
        return tp_add(tp_matmul(a, p->matrix[o->which]), p->bias);
    case CELL:
        tp_function_call(p->cell, 2, (tp_tensor *[]){a, b}, 1, &y);
        return y;
    case GATHERED:
        return tp_add(a, gathered(p, b));
    case REPEATED:
        return repeated(p, o, a);
    case TURNED:
        return tp_truth(tp_gt(tp_mean(a, TP_ALL, false), 0)) ? tp_neg(b) : tp_mul(a, 0.5);
    case READ:
        p->read[i] += (float)mean_of(a);
        return p->read[i] > 0.05f ? tp_add(a, 0.25) : a;
    case NOISE:
    case OWN_NOISE:
        return tp_add(a, noise(p, i, o->kind == OWN_NOISE));
    case SCOPED:
        tp_scope_begin(p->tp);
        y = tp_keep(tp_sub(tp_square(a), tp_mul(b, 0.5)));
        tp_scope_end(p->tp);
        return y;
    case BACK:
        if (tp_requires_grad(a))
            tp_backward(tp_mean(tp_square(small(a)), TP_ALL, false));
        return a;
    case OWN_GRADS:
        tp_grads(tp_mean(small(tp_mul(a, b)), TP_ALL, false), NULL, 1, &p->matrix[o->which],
                 dx);
        return tp_add(a, tp_slice(tp_detach(dx[0]), 0, 0, 1, 1));
    case NESTED:
        tp_batch_each(p->tp, 2, inner_body, &n);
        return tp_add(n.y[0], n.y[1]);
    case GRADIENTS:
        if (o->turns == 0)
            tp_zero_grad(p->matrix[o->which]);
        y = tp_grad_of(p->matrix[o->which]);
        return tp_add(a, tp_slice(small(y), 0, 0, 1, 1));
    case UNRECORDED:
        tp_no_grad(p->tp) y = tp_tanh(tp_matmul(a, p->matrix[o->which]));
        return tp_add(y, b);
    case IN_A_BLOCK:
        return in_blocks(a, b);
    case DRAWN_BACK:
        return tp_add(a, tp_mul(drawn_back(b), 0.1));
    default:
        return NULL;
    }
}

static void body(void *user, int64_t i)
{
    program *p = user;
    tp_tensor *v[STATES] = {p->start[i], tp_mul(p->start[i], 0.5), p->bias};
    v[2] = tp_reshape(v[2], TP_DIMS(1, WIDTH));
    for (int k = 0; k < p->n_steps; k++) {
        v[p->steps[k].b] = do_step(p, &p->steps[k], i, v);
        if (k % 3 == 2)
            v[p->steps[k].b] = small(v[p->steps[k].b]);
    }
    p->loss[i] = tp_mean(tp_square(tp_concat(STATES, v, 1)), TP_ALL, false);
    for (int k = 0; k < STATES; k++)
        p->out[i][k] = v[k];
}

/* ---- all of them ---------------------------------------------------------------------------------------------------------- */

typedef enum way { AS_LOOP, IN_BLOCK, ALONE, TOGETHER, REVERSED, IN_BLOCK_TOGETHER, WAYS } way;
static const char *const way_names[WAYS] = {
    "a loop",   "a loop in a tp_batch",  "one after the other", "together",
    "reversed", "together in a tp_batch"};

typedef struct outcome {
    float v[VALUES];
    int n;
    tp_status status;
    char error[200];
} outcome;

static int64_t n_waits;

static tp_tensor *random_tensor(tp_ctx *tp, uint64_t *seed, int64_t rows, bool marked)
{
    float v[WIDTH * WIDTH];
    for (int64_t i = 0; i < rows * WIDTH; i++)
        v[i] = (float)(unit_random(seed) >> 40) * 0x1p-23f - 1;
    tp_tensor *t = tp_tensor_new(tp, TP_F32, TP_DIMS(rows, WIDTH), v);
    return marked ? tp_require_grad(t) : t;
}

static void take(outcome *o, tp_tensor *t)
{
    if (tp_failed(t))
        return;
    const int n = (int)tp_count(t);
    assert_true(o->n + n <= VALUES);
    tp_read(t, o->v + o->n, (size_t)n * sizeof *o->v);
    o->n += n;
}

static void run_samples(program *p, way w)
{
    if (w == AS_LOOP || w == IN_BLOCK)
        for (int i = 0; i < p->n_samples; i++)
            body(p, i);
    else
        tp_batch_each(p->tp, p->n_samples, body, p);
}

static void use(const program *made, way w, outcome *o)
{
    program p = *made;
    tp_ctx *tp = p.tp = tp_open(&(tp_options){.seed = p.seed});
    uint64_t s = p.seed + 3;
    tp_tensor *xs[MATRICES + 2], *dx[MATRICES + 2];
    int n = 0;
    assert_non_null(tp);
    *o = (outcome){.status = TP_OK};
    for (int i = 0; i < MATRICES; i++)
        xs[n++] = p.matrix[i] = random_tensor(tp, &s, WIDTH, true);
    xs[n++] = p.table = random_tensor(tp, &s, WIDTH, true);
    p.bias = tp_require_grad(tp_reshape(random_tensor(tp, &s, 1, false), TP_DIMS(WIDTH)));
    xs[n++] = p.bias;
    for (int i = 0; i < p.n_samples; i++)
        p.start[i] = random_tensor(tp, &s, 1, i % 2);
    p.cell = tp_function_new(tp, "cell", cell, &p,
                             &(tp_function_options){.pure = true, .engine = TP_ENGINE_TILES});
    setenv("TAPIR_FIBERS", w == ALONE ? "0" : w == REVERSED ? "reverse" : "", 1);
    tp_scope_begin(tp);
    const bool block = w == IN_BLOCK || w == IN_BLOCK_TOGETHER;
    tp_batch_block b = block ? tp_batch_begin(tp) : (tp_batch_block){0};
    run_samples(&p, w);
    tp_tensor *loss = tp_mean(tp_stack(p.n_samples, p.loss, 0), TP_ALL, false);
    tp_grads(loss, NULL, n, xs, dx);
    if (block)
        tp_batch_left(&b);
    take(o, loss);
    for (int i = 0; i < p.n_samples; i++) {
        for (int k = 0; k < STATES; k++)
            take(o, p.out[i][k]);
        o->v[o->n++] = p.read[i];
    }
    for (int i = 0; i < n; i++)
        take(o, dx[i]);
    for (int i = 0; i < n; i++)
        take(o, tp_grad_of(xs[i]));
    take(o, tp_normal(tp, TP_F32, TP_DIMS(4), 0, 1));
    n_waits += w >= TOGETHER ? tp_batch_counts_of(tp).waits : 0;
    tp_scope_end(tp);
    o->status = tp_error(tp);
    snprintf(o->error, sizeof o->error, "%s", tp_error_message(tp));
    tp_close(tp);
}

/* Bits, but for signs of NaN (docs/numerics.md). */
static bool is_same(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
}

static bool agrees(const program *p, way w, const outcome *want, const char *name)
{
    static outcome got;
    use(p, w, &got);
    int at = 0;
    while (at < want->n && at < got.n && is_same(got.v[at], want->v[at]))
        at++;
    const bool same = want->n == got.n && at == want->n && want->status == got.status;
    if (!same)
        printf("seed %" PRIu64
               ", %s: %d values, %s (%s); %d, %s (%s) as a loop; value %d is %a, "
               "not %a\nrepeat: %s --seed %" PRIu64 " --count 1\n",
               p->seed, way_names[w], got.n, tp_status_name(got.status), got.error, want->n,
               tp_status_name(want->status), want->error, at, (double)got.v[at],
               (double)want->v[at], name, p->seed);
    return same;
}

int main(int argc, char **argv)
{
    static outcome want;
    uint64_t seed = 1;
    int64_t count = 150, failed = 0, good = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--count") == 0)
            count = atoll(argv[i + 1]);
    }
    for (int64_t i = 0; i < count && failed < 5; i++) {
        const program p = program_of(seed + (uint64_t)i);
        use(&p, AS_LOOP, &want);
        good += want.status == TP_OK;
        for (way w = IN_BLOCK; w < WAYS; w++)
            failed += !agrees(&p, w, &want, argv[0]);
    }
    printf("%" PRId64 " random programs for samples, %" PRId64
           " without an error, seeds from %" PRIu64 ", %" PRId64 " waits, %" PRId64 " failed\n",
           count, good, seed, n_waits, failed);
    const bool is_test = count < 100 || (good * 10 > count * 9 && n_waits > 10 * count);
    if (!is_test)
        printf("too few run without an error, or wait: that is no test\n");
    return failed != 0 || !is_test;
}
