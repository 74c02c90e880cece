/* What an eager op costs that has next to nothing to compute. */
#include "bench.h"

enum { SCOPE = 100 }; /* ops per scope: a small training step */

typedef struct operands {
    tp_ctx *tp;
    tp_tensor *x, *w, *b;
} operands;

static operands *drawn(tp_ctx *tp, bool recorded)
{
    operands *o = tp_alloc(tp, sizeof *o);
    if (!o)
        return NULL;
    tp_tensor *t[3];
    for (int i = 0; i < 3; i++) {
        t[i] = tp_uniform(tp, TP_F32, TP_DIMS(8), 0, 1);
        if (recorded)
            tp_require_grad(t[i]);
    }
    *o = (operands){tp, t[0], t[1], t[2]};
    return o;
}

static void add(void *arg, int64_t n)
{
    const operands *o = arg;
    while (n > 0) {
        tp_scope_begin(o->tp);
        for (int i = 0; i < SCOPE && n > 0; i++, n--)
            tp_add(o->x, o->w);
        tp_scope_end(o->tp);
    }
}

static void mul(void *arg, int64_t n)
{
    const operands *o = arg;
    while (n > 0) {
        tp_scope_begin(o->tp);
        for (int i = 0; i < SCOPE && n > 0; i++, n--)
            tp_mul(o->x, o->w);
        tp_scope_end(o->tp);
    }
}

static tp_tensor *chain(const operands *o)
{
    tp_tensor *h = o->x;
    for (int i = 0; i < 10; i++)
        h = tp_add(tp_mul(h, o->w), o->b);
    return tp_sum(h, TP_ALL, false);
}

static void chain_forward(void *arg, int64_t n)
{
    const operands *o = arg;
    for (; n > 0; n--) {
        tp_scope_begin(o->tp);
        chain(o);
        tp_scope_end(o->tp);
    }
}

static void chain_backward(void *arg, int64_t n)
{
    const operands *o = arg;
    for (; n > 0; n--) {
        tp_scope_begin(o->tp);
        tp_zero_grad(o->x);
        tp_zero_grad(o->w);
        tp_zero_grad(o->b);
        tp_backward(chain(o));
        tp_scope_end(o->tp);
    }
}

void bench_add_ops(bench *b)
{
    operands *plain = drawn(b->tp, false), *recorded = drawn(b->tp, true);
    const char *add8 = "ops/add8", *mul8 = "ops/mul8", *chain8 = "ops/chain20_8";
    figure f = {.unit = "ns", .scale = 1e9};

    f.arg = plain;
    f.peer_metric = "forward";
    f.name = "add of 8 floats", f.run = add, f.peer_workload = add8;
    bench_add(b, f);
    f.name = "mul of 8 floats", f.run = mul, f.peer_workload = mul8;
    bench_add(b, f);

    f.arg = recorded;
    f.peer_metric = "record";
    f.name = "add of 8 floats, recorded", f.run = add, f.peer_workload = add8;
    bench_add(b, f);
    f.name = "mul of 8 floats, recorded", f.run = mul, f.peer_workload = mul8;
    bench_add(b, f);

    f.peer_workload = chain8, f.peer_scale = 20;
    f.name = "chain of 20 ops, recorded", f.run = chain_forward;
    bench_add(b, f);
    f.name = "chain of 20 ops, and backward", f.run = chain_backward;
    f.peer_metric = "forward+backward";
    bench_add(b, f);
}
