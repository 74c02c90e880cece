/* Functions of one sample, run on many: beside the same written for many. */
#include "bench.h"
#include "lenet.h"
#include "limits.h"

#include <stdlib.h>

enum { SAMPLES = 64, ROUNDS = 15 };

/* Two ways to one thing. */
typedef struct pair {
    tp_ctx *tp;
    tp_program *one, *other;
    tp_tensor *feeds[2];
    int n_out;
} pair;

static double seconds_of(pair *p, tp_program *program)
{
    tp_tensor *out[16];
    tp_scope_begin(p->tp);
    const double start = limit_now();
    tp_program_run(program, p->feeds, out);
    const double seconds = limit_now() - start;
    tp_scope_end(p->tp);
    return seconds;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of ratios of runs in turn. */
static double ratio(void *arg)
{
    pair *p = arg;
    double r[ROUNDS];
    if (!p->one || !p->other)
        return 0;
    for (int i = 0; i < 3; i++) {
        seconds_of(p, p->one);
        seconds_of(p, p->other);
    }
    for (int i = 0; i < ROUNDS; i++) {
        const double one = seconds_of(p, p->one);
        r[i] = one / seconds_of(p, p->other);
    }
    qsort(r, ROUNDS, sizeof *r, ascending);
    return r[ROUNDS / 2];
}

static tp_program *compile(pair *p, tp_graph *g, const char *prefix)
{
    static const char *const names[2][10] = {
        {"a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"},
        {"b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8", "b9"}
    };
    static const char *const feeds[2] = {"x", "y"};
    const tp_compile_options c = {.engine = TP_ENGINE_C};
    tp_program *made =
        tp_graph_compile(g, p->feeds[1] ? 2 : 1, feeds, p->n_out, names[*prefix == 'b'], &c);
    if (made)
        tp_program_wait(made);
    return made;
}

static void name_all(const pair *p, tp_tensor **out, char prefix)
{
    char name[3] = {prefix, '0', 0};
    for (int i = 0; i < p->n_out; i++, name[1]++)
        tp_name(out[i], name);
}

/* ---- the network of the digits: 784 - 128 - 10 ------------------------------------------------------- */

typedef struct digits {
    tp_dense dense[2];
} digits;

static tp_tensor *logits_of(const digits *net, tp_tensor *x)
{
    return tp_dense_apply(&net->dense[1], tp_relu(tp_dense_apply(&net->dense[0], x)));
}

static void logits_of_one(void *user, int n_in, tp_tensor *const *in, int n_out,
                          tp_tensor **out)
{
    (void)n_in, (void)n_out;
    out[0] = tp_squeeze(logits_of(user, tp_unsqueeze(in[0], 0)), 0);
}

static bool digits_new(pair *p, tp_ctx *tp, digits *net)
{
    net->dense[0] = tp_dense_new(tp_params_new(tp), "dense1", 784, 128, NULL);
    net->dense[1] = tp_dense_new(tp_params_new(tp), "dense2", 128, 10, NULL);
    *p = (pair){.tp = tp, .n_out = 1};
    p->feeds[0] = tp_retain(tp_uniform(tp, TP_F32, TP_DIMS(SAMPLES, 784), 0, 1));
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(SAMPLES, 784)), *y[2];
    y[0] = tp_vmap_apply(logits_of_one, net, 1, &x, NULL);
    y[1] = logits_of(net, x);
    name_all(p, &y[0], 'a');
    name_all(p, &y[1], 'b');
    p->one = compile(p, g, "a");
    p->other = compile(p, g, "b");
    return p->one && p->other;
}

/* ---- LeNet: gradients of each sample's loss, and of their mean -------------------------------------------- */

static void gradients_of_one(void *user, int n_in, tp_tensor *const *in, int n_out,
                             tp_tensor **out)
{
    lenet *net = user;
    (void)n_in;
    tp_tensor *loss = lenet_loss(net, tp_unsqueeze(in[0], 0), tp_unsqueeze(in[1], 0));
    tp_grads(loss, NULL, n_out, net->params, out);
}

static bool gradients_new(pair *p, tp_ctx *tp, lenet *net)
{
    *net = lenet_new(tp);
    *p = (pair){.tp = tp, .n_out = 10};
    p->feeds[0] = tp_retain(tp_uniform(tp, TP_F32, TP_DIMS(SAMPLES, 1, 28, 28), 0, 1));
    p->feeds[1] = tp_retain(tp_randint(tp, TP_I64, TP_DIMS(SAMPLES), 0, 10));
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *in[2] = {tp_placeholder(g, "x", TP_F32, TP_DIMS(SAMPLES, 1, 28, 28)),
                        tp_placeholder(g, "y", TP_I64, TP_DIMS(SAMPLES))};
    tp_tensor *each[10], *summed[10];
    tp_vmap(gradients_of_one, net, 2, in, 10, each, NULL);
    tp_grads(lenet_loss(net, in[0], in[1]), NULL, 10, net->params, summed);
    name_all(p, each, 'a');
    name_all(p, summed, 'b');
    p->one = compile(p, g, "a");
    p->other = compile(p, g, "b");
    return p->one && p->other;
}

/* ---- samples that go their own ways, beside the loop over samples ---------------------------------------- */

enum { HIDDEN = 256, LONGEST = 8 };

/* With untrained weights a sample's pace says after how many turns or layers, 1 to 8, it is done. */
typedef struct steps {
    tp_recurrent cell;
    tp_dense layer[LONGEST], head[LONGEST]; /* a cell has one head */
} steps;

/* x [HIDDEN], pace [] -> h [HIDDEN]: a cell takes turns until the sample halts. */
static void adaptive_time(void *user, int n_in, tp_tensor *const *in, int n_out,
                          tp_tensor **out)
{
    const steps *s = user;
    (void)n_in, (void)n_out;
    tp_tensor *x = tp_unsqueeze(in[0], 0), *h = tp_mul(x, 0);
    tp_tensor *halted = tp_scalar_like(in[1], 0);
    tp_while (tp_lt(halted, 0.99), &h, &halted) {
        h = tp_gru_cell(x, h, &s->cell, NULL);
        tp_tensor *p = tp_reshape(tp_sigmoid(tp_dense_apply(&s->head[0], h)), TP_SCALAR);
        halted = tp_add(halted, tp_mul(in[1], tp_mul(p, 2)));
    }
    out[0] = tp_squeeze(h, 0);
}

/* x [HIDDEN], pace [] -> h [HIDDEN]: layers in a row, each with a head that says how sure it is. */
static void early_exit(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const steps *s = user;
    (void)n_in, (void)n_out;
    tp_tensor *h = tp_unsqueeze(in[0], 0), *sure = tp_scalar_like(in[1], 0);
    for (int i = 0; i < LONGEST; i++) {
        tp_if (tp_lt(sure, 0.99), &h, &sure) {
            h = tp_add(h, tp_relu(tp_dense_apply(&s->layer[i], h)));
            tp_tensor *p = tp_softmax(tp_dense_apply(&s->head[i], h), 1);
            p = tp_mul(tp_reduce_max(p, TP_ALL, false), 8);
            sure = tp_add(sure, tp_mul(in[1], p));
        }
    }
    out[0] = tp_squeeze(h, 0);
}

static tp_tensor *in_a_loop(tp_body body, void *user, tp_tensor *const *in)
{
    tp_tensor *ys = NULL, *none = tp_scalar_like(in[1], 0);
    tp_for (SAMPLES, &none) {
        tp_tensor *one[2] = {tp_each(in[0]), tp_each(in[1])}, *y;
        body(user, 2, one, 1, &y);
        tp_emit(&ys, y);
    }
    return ys;
}

static bool steps_new(pair *p, tp_ctx *tp, tp_body body, steps *s)
{
    tp_params *params = tp_params_new(tp);
    s->cell = tp_gru_new(params, "cell", HIDDEN, HIDDEN, NULL).w[0][0];
    for (int i = 0; i < LONGEST; i++) {
        tp_params *part = tp_params_nth(params, "layer", i);
        s->layer[i] = tp_dense_new(part, "dense", HIDDEN, HIDDEN, NULL);
        s->head[i] = tp_dense_new(part, "head", HIDDEN, body == adaptive_time ? 1 : 10, NULL);
    }
    float pace[SAMPLES];
    for (int i = 0; i < SAMPLES; i++)
        pace[i] = 1.0f / (float)(1 + i * 5 % LONGEST);
    *p = (pair){.tp = tp, .n_out = 1};
    p->feeds[0] = tp_retain(tp_uniform(tp, TP_F32, TP_DIMS(SAMPLES, HIDDEN), 0, 1));
    p->feeds[1] = tp_retain(tp_tensor_new(tp, TP_F32, TP_DIMS(SAMPLES), pace));
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *in[2] = {tp_placeholder(g, "x", TP_F32, TP_DIMS(SAMPLES, HIDDEN)),
                        tp_placeholder(g, "y", TP_F32, TP_DIMS(SAMPLES))};
    tp_tensor *together = tp_vmap_apply(body, s, 2, in, NULL);
    tp_tensor *alone = in_a_loop(body, s, in);
    name_all(p, &together, 'a');
    name_all(p, &alone, 'b');
    p->one = compile(p, g, "a");
    p->other = compile(p, g, "b");
    return p->one && p->other;
}

static void add_steps(bench *b, const char *name, tp_body body)
{
    pair *p = tp_alloc(b->tp, sizeof *p);
    steps *s = tp_alloc(b->tp, sizeof *s);
    if (p && s && bench_wants(b, name) && steps_new(p, b->tp, body, s))
        bench_add(b, (figure){name, "", .told = ratio, .arg = p, .slow = true, .goal = 0.5});
}

void bench_add_samples(bench *b)
{
    static const char *const digits_name = "digits, 64 samples, tp_vmap over batched";
    static const char *const lenet_name = "LeNet, 64 samples, gradients each over summed";
    pair *p = tp_alloc(b->tp, 2 * sizeof *p);
    digits *d = tp_alloc(b->tp, sizeof *d);
    lenet *l = tp_alloc(b->tp, sizeof *l);
    if (!p || !d || !l)
        return;
    if (bench_wants(b, digits_name) && digits_new(&p[0], b->tp, d))
        bench_add(b, (figure){digits_name, "", .told = ratio, .arg = &p[0], .slow = true,
                              .goal = 1.05});
    if (bench_wants(b, lenet_name) && gradients_new(&p[1], b->tp, l))
        bench_add(
            b, (figure){lenet_name, "", .told = ratio, .arg = &p[1], .slow = true, .goal = 3});
    add_steps(b, "adaptive time, hidden 256, over the loop over samples", adaptive_time);
    add_steps(b, "early exit, hidden 256, over the loop over samples", early_exit);
}
