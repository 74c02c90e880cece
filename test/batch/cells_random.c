/* Random functions as cells: random programs of ops, called for random structures in a tp_batch and without one. Results,
 * gradients, and gradients of gradients have equal bits.
 *
 *     cells_random [--seed N] [--count N] */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <inttypes.h>

enum {
    WIDTH = 4,
    MOST_ROWS = 3,
    MATRICES = 2,
    VECTORS = 2,
    MOST_OPS = 14,
    MOST_IN = 3,
    MOST_OUT = 3
};

/* ---- a function ------------------------------------------------------------------------------------------------------- */

typedef enum op_kind {
    ADD,
    SUB,
    MUL,
    TANH,
    SIGMOID,
    SQUARE,
    RELU,
    BY_MATRIX,
    BY_VECTOR,
    PLUS_VECTOR,
    SCALED,
    HALVES,
    SOFTMAX,
    NORM,
    ROW_MEAN,
    COLUMN_SUM,
    LARGEST,
    DETACHED,
    TURNED_PRODUCT,
    OPS
} op_kind;

typedef struct op {
    op_kind kind;
    int a, b, which;
} op;

typedef struct program {
    uint64_t seed;
    int n_in, n_out, rows, n_ops;
    op ops[MOST_OPS];
    int out[MOST_OUT];
    bool marked[MATRICES + VECTORS]; /* gradients are asked of these */
    tp_tensor *matrix[MATRICES], *vector[VECTORS];
} program;

static program program_of(uint64_t seed)
{
    program p = {.seed = seed};
    uint64_t s = seed * 2654435761u + 17;
    p.n_in = 1 + unit_below(&s, MOST_IN);
    p.n_out = 1 + unit_below(&s, MOST_OUT);
    p.rows = 1 + unit_below(&s, MOST_ROWS);
    p.n_ops = p.n_out + 1 + unit_below(&s, MOST_OPS - MOST_OUT);
    for (int i = 0; i < p.n_ops; i++) {
        const int there = p.n_in + i;
        /* newer values are likelier, so that most are used */
        const int near = there - 1 - unit_below(&s, there < 3 ? there : 3);
        p.ops[i] =
            (op){(op_kind)unit_below(&s, OPS), near, unit_below(&s, there), unit_below(&s, 2)};
    }
    for (int i = 0; i < p.n_out; i++)
        p.out[i] = p.n_in + p.n_ops - 1 - i;
    for (int i = 0; i < MATRICES + VECTORS; i++)
        p.marked[i] = unit_below(&s, 5) > 0;
    return p;
}

static tp_tensor *apply(const program *p, const op *o, tp_tensor *a, tp_tensor *b)
{
    tp_tensor *w = p->matrix[o->which], *v = p->vector[o->which];
    const int64_t last = 1, first = 0;
    tp_tensor *half[2];
    switch (o->kind) {
    case ADD:
        return tp_add(a, b);
    case SUB:
        return tp_sub(a, b);
    case MUL:
        return tp_mul(a, b);
    case TANH:
        return tp_tanh(a);
    case SIGMOID:
        return tp_sigmoid(a);
    case SQUARE:
        return tp_mul(tp_square(a), 0.25);
    case RELU:
        return tp_relu(a);
    case BY_MATRIX:
        return tp_matmul(a, w);
    case BY_VECTOR:
        return tp_mul(a, v);
    case PLUS_VECTOR:
        return tp_add(a, v);
    case SCALED:
        return tp_sub(1, tp_mul(a, 0.5));
    case HALVES:
        tp_split(tp_concat(2, (tp_tensor *[]){a, b}, 1), 1, 2, NULL, half);
        return tp_mul(half[0], tp_neg(half[1]));
    case SOFTMAX:
        return tp_softmax(a, 1);
    case NORM:
        return tp_layer_norm(a, v, NULL, 1e-3);
    case ROW_MEAN:
        return tp_add(b, tp_mean(a, 1, &last, true));
    case COLUMN_SUM:
        return tp_add(b, tp_sum(a, 1, &first, true));
    case LARGEST:
        return tp_mul(b, tp_reduce_max(a, 1, &last, true));
    case DETACHED:
        return tp_add(tp_detach(a), b);
    default:
        return tp_matmul(
            a, tp_matmul(tp_transpose(b, 2, (int64_t[]){1, 0}), b)); /* [WIDTH, WIDTH] of b */
    }
}

static void run(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const program *p = user;
    tp_tensor *v[MOST_IN + MOST_OPS];
    for (int i = 0; i < n_in; i++)
        v[i] = in[i];
    for (int i = 0; i < p->n_ops; i++)
        v[n_in + i] = apply(p, &p->ops[i], v[p->ops[i].a], v[p->ops[i].b]);
    for (int i = 0; i < n_out; i++)
        out[i] = v[p->out[i]];
}

/* ---- a use of it -------------------------------------------------------------------------------------------------------- */

enum { LEAVES = 5, CALLS = 12, VALUES = 4000 };

typedef struct outcome {
    float v[VALUES];
    int n;
    tp_status status;
} outcome;

static tp_tensor *random_tensor(tp_ctx *tp, uint64_t *seed, int64_t rows, bool marked)
{
    float v[WIDTH * WIDTH];
    const int64_t n = (rows ? rows : 1) * WIDTH;
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)(unit_random(seed) >> 40) * 0x1p-23f - 1;
    tp_tensor *t = rows ? tp_tensor_new(tp, TP_F32, TP_DIMS(rows, WIDTH), v)
                        : tp_tensor_new(tp, TP_F32, TP_DIMS(WIDTH), v);
    if (marked)
        tp_require_grad(t);
    return t;
}

static void take(outcome *o, tp_tensor *t)
{
    if (tp_failed(t)) {
        o->status = tp_error(tp_ctx_of(t));
        return;
    }
    const int n = (int)tp_count(t);
    assert_true(o->n + n <= VALUES);
    tp_read(t, o->v + o->n, (size_t)n * sizeof *o->v);
    o->n += n;
}

/* Each call takes values that are there: leaves, and results of calls before it. */
static tp_tensor *calls(const program *p, tp_function *f, uint64_t seed, tp_tensor **v,
                        outcome *o, bool last)
{
    int n = LEAVES;
    tp_tensor *loss = NULL;
    for (int i = 0; i < CALLS; i++) {
        tp_tensor *in[MOST_IN], *out[MOST_OUT];
        for (int k = 0; k < p->n_in; k++)
            in[k] = v[unit_below(&seed, n)];
        tp_function_call(f, p->n_in, in, p->n_out, out);
        for (int k = 0; k < p->n_out; k++) {
            v[n++] = out[k];
            if (unit_below(&seed, 3) == 0) {
                tp_tensor *one = tp_mean(tp_tanh(out[k]), TP_ALL, false);
                loss = loss ? tp_add(loss, one) : one;
            }
        }
    }
    for (int i = LEAVES; i < n && last; i++)
        take(o, v[i]);
    return loss ? loss : tp_mean(v[n - 1], TP_ALL, false);
}

static void use(const program *made, bool batched, int order, outcome *o)
{
    program p = *made;
    tp_ctx *tp = tp_open(NULL);
    uint64_t s = p.seed + 3;
    tp_tensor *v[LEAVES + CALLS * MOST_OUT], *xs[MATRICES + VECTORS + LEAVES],
        *dx[MATRICES + VECTORS + LEAVES];
    int n = 0;
    assert_non_null(tp);
    *o = (outcome){.status = TP_OK};
    for (int i = 0; i < MATRICES; i++)
        xs[n++] = p.matrix[i] = random_tensor(tp, &s, WIDTH, p.marked[i]);
    for (int i = 0; i < VECTORS; i++)
        xs[n++] = p.vector[i] = random_tensor(tp, &s, 0, p.marked[MATRICES + i]);
    for (int i = 0; i < LEAVES; i++)
        xs[n++] = v[i] = random_tensor(tp, &s, p.rows, unit_below(&s, 3) > 0);
    int asked = 0;
    for (int i = 0; i < n; i++)
        if (tp_requires_grad(xs[i]))
            xs[asked++] = xs[i];
    const tp_function_options options = {
        .pure = batched, .eager = !batched, .engine = TP_ENGINE_TILES};
    tp_function *f = tp_function_new(tp, "random", run, &p, &options);
    const bool was = tp_recording(tp, order > 0);
    tp_batch_block b = batched ? tp_batch_begin(tp) : (tp_batch_block){0};
    tp_tensor *loss = calls(&p, f, s, v, o, false);
    if (order > 0 && asked && tp_requires_grad(loss)) {
        tp_recording(tp, order > 1);
        tp_grads(loss, NULL, asked, xs, dx);
        if (order > 1) {
            tp_tensor *norm = tp_scalar(tp, TP_F32, 0);
            for (int i = 0; i < asked; i++)
                norm = tp_add(norm, tp_mean(tp_square(dx[i]), TP_ALL, false));
            tp_recording(tp, false);
            if (tp_requires_grad(norm))
                tp_grads(norm, NULL, asked, xs, dx);
        }
    } else {
        asked = 0;
    }
    if (batched)
        tp_batch_left(&b);
    tp_recording(tp, was);
    take(o, loss);
    for (int i = LEAVES; i < LEAVES + CALLS * p.n_out; i++)
        take(o, v[i]);
    for (int i = 0; i < asked; i++)
        take(o, dx[i]);
    o->status = tp_error(tp);
    tp_close(tp);
}

/* Bits, but for signs of NaN (docs/numerics.md). */
static bool is_same(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
}

static int64_t n_cells;

static bool agrees(const program *p, int order, const char *name)
{
    static outcome want, got;
    use(p, false, order, &want);
    use(p, true, order, &got);
    bool same = want.n == got.n && want.status == got.status;
    int at = 0;
    while (same && at < want.n && is_same(got.v[at], want.v[at]))
        at++;
    same = same && at == want.n;
    if (!same)
        printf("seed %" PRIu64
               ", order %d: %d values, %s; %d, %s without the block; value %d is %a, not %a\n"
               "repeat: %s --seed %" PRIu64 " --count 1\n",
               p->seed, order, got.n, tp_status_name(got.status), want.n,
               tp_status_name(want.status), at, (double)got.v[at], (double)want.v[at], name,
               p->seed);
    return same;
}

/* Is it one that a tp_batch takes as a whole? */
static void count_cell(const program *made)
{
    program p = *made;
    tp_ctx *tp = tp_open(NULL);
    uint64_t s = p.seed + 3;
    assert_non_null(tp);
    for (int i = 0; i < MATRICES; i++)
        p.matrix[i] = random_tensor(tp, &s, WIDTH, p.marked[i]);
    for (int i = 0; i < VECTORS; i++)
        p.vector[i] = random_tensor(tp, &s, 0, p.marked[MATRICES + i]);
    tp_tensor *in[MOST_IN], *out[MOST_OUT];
    for (int i = 0; i < p.n_in; i++)
        in[i] = random_tensor(tp, &s, p.rows, true);
    tp_function *f =
        tp_function_new(tp, "random", run, &p, &(tp_function_options){.pure = true});
    for (int i = 0; i < 2; i++)
        tp_batch (tp)
            tp_function_call(f, p.n_in, in, p.n_out, out);
    n_cells += tp_function_stats_of(f).user_calls == 1; /* the first call runs the body */
    tp_close(tp);
}

int main(int argc, char **argv)
{
    uint64_t seed = 1;
    int64_t count = 300, failed = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--count") == 0)
            count = atoll(argv[i + 1]);
    }
    for (int64_t i = 0; i < count && failed < 5; i++) {
        const program p = program_of(seed + (uint64_t)i);
        for (int order = 0; order < 3; order++)
            failed += !agrees(&p, order, argv[0]);
        count_cell(&p);
    }
    printf("%" PRId64 " random functions, %" PRId64 " of them cells, seeds from %" PRIu64
           ", %" PRId64 " failed\n",
           count, n_cells, seed, failed);
    if (count >= 100 && n_cells * 3 < count)
        printf("fewer than a third are cells: that is no test\n");
    return failed != 0 || (count >= 100 && n_cells * 3 < count);
}
