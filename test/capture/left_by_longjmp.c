/* Bodies of functions and blocks that are left by longjmp: tp_close returns, and nothing stays. */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <setjmp.h>
#include <unistd.h>

enum { CALLS = 6, PATIENCE = 20 };

typedef struct place {
    tp_ctx *tp;
    tp_tensor *w;
    tp_function *inner;
    jmp_buf *out; /* NULL: return */
    int kind, turns;
} place;

enum { IN_BODY, IN_SCOPES, IN_LOOP, IN_BRANCH, IN_CALL, IN_GRAPH, N_KINDS };

static void leave(const place *p, int kind)
{
    if (p->out && p->kind == kind)
        longjmp(*p->out, 1);
}

static void inner_body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    place *p = user;
    out[0] = tp_tanh(in[0]);
    leave(p, IN_CALL);
}

static void body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    place *p = user;
    tp_tensor *h = tp_matmul(in[0], p->w); /* waits when the function is captured */
    tp_assign(p->w, tp_mul(p->w, tp_scalar_like(h, 0.5)));
    leave(p, IN_BODY);
    tp_scope_begin(p->tp);
    tp_scope_begin(p->tp);
    tp_exp(h);
    leave(p, IN_SCOPES);
    tp_scope_end(p->tp);
    tp_scope_end(p->tp);
    tp_for (3, &h) {
        h = tp_sin(h);
        tp_if (tp_gt(tp_sum(h, TP_ALL, false), tp_scalar_like(h, 0)), &h) {
            h = tp_neg(h);
            leave(p, IN_BRANCH);
        }
        tp_else
        {
            leave(p, IN_BRANCH);
        }
        leave(p, IN_LOOP);
    }
    out[0] = tp_function_apply(p->inner, 1, &h);
}

static void in_graph(const place *p)
{
    tp_graph *g = tp_graph_new(p->tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"), 300));
    tp_for (3, &x) {
        x = tp_matmul(x, p->w);
        tp_if (tp_gt(tp_sum(x, TP_ALL, false), tp_scalar_like(x, 0)), &x) {
            x = tp_exp(x);
            leave(p, IN_GRAPH);
        }
    }
}

static void try(int kind, const tp_function_options *opt)
{
    unit_memory memory = {0};
    tp_ctx *volatile tp = unit_open(&memory);
    static place p; /* after a longjmp locals may be anything */
    static jmp_buf back;
    p = (place){.tp = tp, .kind = kind};
    p.w = tp_variable(tp_normal(tp, TP_F32, TP_DIMS(300, 300), 0, 1), "w");
    p.inner = tp_function_new(tp, "inner", inner_body, &p, opt);
    tp_function *f = tp_function_new(tp, "f", body, &p, opt);
    for (volatile int i = 0; i < CALLS; i++) {
        tp_scope_begin(tp);
        p.out = i == CALLS - 1 ? &back : NULL;
        if (setjmp(back) == 0) {
            tp_tensor *x = tp_normal(tp, TP_F32, TP_DIMS(2, 300), 0, 1);
            tp_item(tp_sum(tp_function_apply(f, 1, &x), TP_ALL, false));
            in_graph(&p);
        }
        if (i < CALLS - 1)
            tp_scope_end(tp);
    }
    alarm(PATIENCE);
    tp_close(tp);
    alarm(0);
    if (memory.bytes)
        fail_msg("kind %d: %zu bytes are still out after tp_close", kind, memory.bytes);
}

static void everywhere(void **unused)
{
    (void)unused;
    for (int kind = 0; kind < N_KINDS; kind++)
        for (int way = 0; way < 4; way++)
            try(kind,
                &(tp_function_options){.eager = way == 0, .pure = way >= 2, .check = way == 3});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(everywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
