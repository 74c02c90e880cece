/* What the body does besides ops: errors, scopes, calls of itself and of others, graphs, reads and
 * prints. */
#include "common/both.h"

#include <string.h>
#include <unistd.h>

typedef struct world {
    bed *b;
    int n, depth;
    double rate;
    tp_tensor *w, *v, *old;
    tp_function *f, *g;
    tp_graph *graph;
    tp_program *program;
} world;

/* ---- errors ------------------------------------------------------------------------------ */

BODY(shaped)
{
    world *s = user;
    tp_assign(s->w, tp_add(s->w, tp_scalar_like(s->w, 1)));
    tp_tensor *y = tp_matmul(in[0], s->v); /* refused when the sizes do not fit */
    out[1] = tp_neg(s->w);
    out[0] = tp_relu(y);
}

static void wrong_sizes(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = {.b = b};
    s.w = tp_variable(pattern(tp, TP_DIMS(2), 0.1), "w");
    s.v = pattern(tp, TP_DIMS(3, 2), 0.1);
    tp_function *f = make(b, "shaped", shaped, &s);
    for (int i = 0; i < 10; i++) {
        tp_tensor *out[2], *x = pattern(tp, TP_DIMS(2, i % 4 == 2 ? 4 : 3), 0.1);
        say(b, "%s", tp_status_name(tp_function_call(f, TP_TENSORS(x), 2, out)));
        note(b, "y", out[0]);
        note(b, "w", out[1]);
        note_error(b, "shaped");
        settle(b);
    }
}

BODY(indexed)
{
    world *s = user;
    tp_tensor *before = tp_mul(s->w, tp_scalar_like(s->w, 2));
    tp_assign(s->w, before);
    tp_tensor *noise = tp_normal_like(before, 0, 1);
    out[0] = tp_gather(in[0], in[1], 0); /* fails when an index is out of range */
    tp_assign(s->v, tp_add(s->v, noise));
    out[1] = tp_add(out[0], tp_scalar_like(in[0], 1));
    out[2] = tp_square(in[0]);
    if (s->n == 1)
        say(s->b, "inside: %s", tp_status_name(tp_error(s->b->tp)));
    if (s->n == 2)
        say(s->b, "failed %d %s", tp_failed(out[1]), tp_error_text(out[1]));
    if (s->n == 3) {
        say(s->b, "message %s", tp_error_message(s->b->tp));
        tp_clear_error(s->b->tp);
    }
    if (s->n == 4)
        say(s->b, "status %s", tp_status_name(tp_status_of(out[0])));
    if (s->n == 5)
        tp_clear_error(s->b->tp);
    if (s->n == 6 && tp_truth(tp_gt(tp_sum(out[0], TP_ALL, false), tp_scalar_like(in[0], 0))))
        out[2] = tp_exp(out[2]);
    tp_assign(s->w, tp_add(s->w, tp_scalar_like(s->w, 0.5)));
}

/* What is assigned before and after the op that fails is what it is eagerly. */
static void index_out_of_range(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = {.b = b};
    s.w = tp_variable(pattern(tp, TP_DIMS(2), 0.1), "w");
    s.v = tp_variable(pattern(tp, TP_DIMS(2), 0.3), "v");
    tp_function *f = make(b, "indexed", indexed, &s);
    tp_tensor *x = pattern(tp, TP_DIMS(4, 2), 0.1);
    for (int i = 0; i < 28; i++) {
        const int64_t at[2] = {i % 3, i % 2 ? 4 + i : -1};
        tp_tensor *out[3], *index = tp_tensor_new(tp, TP_I64, TP_DIMS(2), at);
        s.n = i / 2 % 7;
        say(b, "%s", tp_status_name(tp_function_call(f, TP_TENSORS(x, index), 3, out)));
        for (int k = 0; k < 3; k++)
            note(b, "out", out[k]);
        note(b, "w", s.w);
        note(b, "v", s.v);
        note_error(b, "indexed");
        note(b, "drawn", tp_uniform(tp, TP_F32, TP_DIMS(1), 0, 1));
        if (i == 15)
            settle(b);
    }
}

BODY(refusing)
{
    world *s = user;
    tp_ctx *tp = s->b->tp;
    tp_tensor *y = tp_exp(in[0]);
    if (s->n % 3 == 1)
        y = tp_add(y, tp_fail(tp, TP_E_VALUE, "refused by the test"));
    if (s->n % 4 == 2) {
        tp_cast(y, TP_N_DTYPES);
        say(s->b, "inside: %s", tp_error_message(tp));
        tp_clear_error(tp);
    }
    if (s->n % 5 == 3)
        tp_add(y, NULL);
    out[0] = tp_neg(y);
}

static void errors_of_its_own(bed *b)
{
    world s = {.b = b};
    tp_function *f = make(b, "refusing", refusing, &s);
    tp_tensor *x = pattern(b->tp, TP_DIMS(2), 0.1);
    for (s.n = 0; s.n < 24; s.n++) {
        note(b, "y", call1(f, x));
        if (s.n % 7 != 4) /* an error that was there before the call stays the first */
            note_error(b, "refusing");
        if (s.n == 11)
            settle(b);
    }
    note_error(b, "left");
    note(b, "of a failed argument",
         call1(f, tp_matmul(x, tp_neg(tp_concat(2, (tp_tensor *[]){x, x}, 0)))));
    note_error(b, "failed argument");
    note(b, "of NULL", call1(f, NULL));
    note_error(b, "NULL");
}

/* ---- scopes ------------------------------------------------------------------------------ */

BODY(scoped)
{
    world *s = user;
    tp_ctx *tp = s->b->tp;
    tp_tensor *y = in[0], *kept[4];
    for (int i = 0; i < 4; i++) {
        tp_scope_begin(tp);
        tp_tensor *t = tp_sin(tp_add(y, tp_scalar_like(y, i)));
        y = tp_keep(tp_mul(t, t));
        kept[i] = tp_keep(tp_cos(t));
        tp_exp(t);
        tp_scope_end(tp);
    }
    if (s->old) { /* of the call before */
        y = tp_add(y, s->old);
        if (s->n % 3 == 0)
            note(s->b, "old", s->old);
        tp_release(s->old);
    }
    s->old = tp_retain(tp_tanh(kept[1]));
    out[0] = tp_concat(4, kept, 0);
    out[1] = y;
    tp_keep(y);
}

static void scopes_inside(bed *b)
{
    world s = {.b = b};
    tp_function *f = make(b, "scoped", scoped, &s);
    tp_tensor *x = pattern(b->tp, TP_DIMS(2), 0.1), *out[2];
    for (s.n = 0; s.n < 12; s.n++) {
        tp_scope_begin(b->tp);
        tp_function_call(f, TP_TENSORS(x), 2, out);
        if (s.n % 2)
            note(b, "retained", s.old);
        note(b, "all", out[0]);
        note(b, "y", out[1]);
        tp_scope_end(b->tp);
        if (s.n == 5)
            settle(b);
    }
    note(b, "retained", s.old);
    tp_release(s.old);
    EXPECT_RECORDINGS(b, f, 4);
}

BODY(unbalanced)
{
    const world *s = user;
    tp_ctx *tp = s->b->tp;
    tp_tensor *y = tp_exp(in[0]);
    if (s->n == 1)
        say(s->b, "end %s", tp_status_name(tp_scope_end(tp))); /* one that is not its own */
    if (s->n == 2)
        tp_scope_begin(tp); /* and one that is left open */
    out[0] = tp_mul(y, y);
}

static void scopes_of_others(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = {.b = b};
    tp_function *f = make(b, "unbalanced", unbalanced, &s);
    tp_tensor *x = pattern(tp, TP_DIMS(2), 0.1);
    for (int i = 0; i < 9; i++) {
        s.n = i % 3;
        tp_scope_begin(tp);
        tp_tensor *mine = tp_neg(x);
        tp_tensor *y = call1(f, x);
        note(b, "y", y);
        note(b, "mine", mine);
        const bool named = strstr(tp_error_message(tp), "unbalanced") != NULL;
        if (s.n == 1 && !named)
            fail_msg("%s: the error does not name the function: \"%s\"", b->way->name,
                     tp_error_message(tp));
        note_error(b, "unbalanced");
        say(b, "end %s", tp_status_name(tp_scope_end(tp)));
        settle(b);
    }
    say(b, "no scope is open: %s", tp_status_name(tp_scope_end(tp)));
    tp_clear_error(tp);
}

/* ---- functions in functions -------------------------------------------------------------- */

BODY(descend)
{
    world *s = user;
    tp_tensor *y = tp_mul(in[0], tp_scalar_like(in[0], 0.5));
    if (s->depth-- > 0) {
        tp_tensor *left = call1(s->f, tp_add(y, s->w));
        tp_tensor *right = s->depth % 2 ? call1(s->f, left) : left;
        y = tp_add(tp_tanh(right), y);
    }
    tp_assign(s->w, tp_add(s->w, y));
    out[0] = y;
}

static void recursion(bed *b)
{
    world s = {.b = b};
    s.w = tp_variable(pattern(b->tp, TP_DIMS(2), 0.1), "w");
    s.f = make(b, "descend", descend, &s);
    tp_tensor *x = pattern(b->tp, TP_DIMS(2), 0.3);
    for (int i = 0; i < 14; i++) {
        s.depth = i < 2 ? 5 : i % 7; /* the first call calls itself while it is recorded */
        note(b, "y", call1(s.f, x));
        note(b, "w", s.w);
        say(b, "depth %d", s.depth);
        if (i == 8)
            settle(b);
    }
}

BODY(ping)
{
    world *s = user;
    out[0] = s->depth-- > 0 ? call1(s->g, tp_sin(in[0])) : tp_square(in[0]);
}

BODY(pong)
{
    world *s = user;
    out[0] = s->depth-- > 0 ? tp_add(call1(s->f, in[0]), in[0]) : tp_neg(in[0]);
}

static void two_that_call_each_other(bed *b)
{
    world s = {.b = b};
    s.f = make(b, "ping", ping, &s);
    s.g = make(b, "pong", pong, &s);
    tp_tensor *x = pattern(b->tp, TP_DIMS(3), 0.1);
    for (int i = 0; i < 16; i++) {
        s.depth = i * 5 % 8;
        note(b, "y", call1(i % 3 == 2 ? s.g : s.f, x));
        if (i == 9)
            settle(b);
    }
}

BODY(inner)
{
    world *s = user;
    tp_tensor *y = tp_matmul(in[0], s->w);
    if (tp_truth(tp_gt(tp_sum(y, TP_ALL, false), tp_scalar_like(y, 0))))
        y = tp_neg(y);
    tp_assign(s->v, tp_add(s->v, tp_scalar_like(s->v, 1)));
    out[0] = y;
}

BODY(outer)
{
    world *s = user;
    tp_tensor *y = tp_add(in[0], s->v);
    tp_tensor *a = call1(s->f, y);
    tp_tensor *c = call1(s->n % 4 == 3 ? s->g : s->f, tp_sub(a, in[0]));
    out[0] = tp_mul(c, s->v); /* what the inner ones assigned */
    out[1] = a;
    if (s->n % 5 == 4)
        say(s->b, "sum %.9g", tp_item(tp_sum(c, TP_ALL, false)));
}

static void functions_in_functions(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = {.b = b};
    s.w = tp_variable(pattern(tp, TP_DIMS(2, 2), 0.1), "w");
    s.v = tp_variable(tp_full(tp, TP_F32, TP_DIMS(2), 0.5), "v");
    s.f = make(b, "inner", inner, &s);
    s.g = make(b, "other", inner, &s);
    tp_function *f = make(b, "outer", outer, &s);
    uint64_t seed = 4;
    for (s.n = 0; s.n < 16; s.n++) {
        tp_tensor *x = draw(tp, &seed, TP_DIMS(2, 2)), *out[2];
        if (s.n % 3 == 2) /* alone, too */
            note(b, "alone", call1(s.f, x));
        tp_function_call(f, TP_TENSORS(x), 2, out);
        note(b, "y", out[0]);
        note(b, "a", out[1]);
        note(b, "v", s.v);
        if (s.n == 7)
            settle(b);
    }
}

BODY(making)
{
    world *s = user;
    tp_function *f = make(s->b, "inside", inner, s);
    tp_tensor *y = call1(f, in[0]);
    discard(s->b, f);
    tp_function_free(s->f); /* the one that runs: an error */
    say(s->b, "%s", tp_status_name(tp_error(s->b->tp)));
    tp_clear_error(s->b->tp);
    out[0] = tp_add(y, in[0]);
}

static void functions_made_inside(bed *b)
{
    world s = {.b = b};
    s.w = tp_variable(pattern(b->tp, TP_DIMS(2, 2), 0.1), "w");
    s.v = tp_variable(tp_full(b->tp, TP_F32, TP_DIMS(2), 0.5), "v");
    s.f = make(b, "making", making, &s);
    tp_tensor *x = pattern(b->tp, TP_DIMS(2, 2), 0.2);
    for (int i = 0; i < 5; i++)
        note(b, "y", call1(s.f, x));
}

/* ---- graphs inside, and functions in graphs ---------------------------------------------- */

BODY(running_graphs)
{
    world *s = user;
    tp_tensor *y = tp_add(in[0], s->w), *z[2];
    say(s->b, "run %s",
        tp_status_name(tp_graph_run(s->graph, TP_FEEDS({"x", y}), TP_NAMES("y", "step"), z)));
    tp_tensor *t = tp_mul(z[0], s->w); /* what the run assigned */
    tp_assign(s->w, tp_mul(s->w, tp_scalar_like(s->w, 0.75)));
    tp_tensor *p[2];
    say(s->b, "program %s", tp_status_name(tp_program_run(s->program, &t, p)));
    if (s->n % 3 == 1) { /* built and run inside */
        tp_graph *g = tp_graph_new(s->b->tp);
        tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(2));
        tp_tensor *q = tp_name(tp_sub(tp_exp(x), t), "q"), *got;
        say(s->b, "symbolic %d", tp_is_symbolic(q));
        tp_graph_run(g, TP_FEEDS({"x", y}), TP_NAMES("q"), &got);
        t = tp_add(t, got);
        tp_graph_free(g);
    }
    out[0] = tp_add(t, p[0]);
    out[1] = z[1];
}

static void graphs_inside(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = {.b = b};
    s.w = tp_variable(pattern(tp, TP_DIMS(2), 0.1), "w");
    s.graph = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(s.graph, "x", TP_F32, TP_DIMS(2));
    tp_tensor *y = tp_name(tp_mul(tp_tanh(x), s.w), "y");
    tp_name(tp_assign(s.w, tp_add(y, tp_scalar_like(y, 0.25))), "step");
    const tp_compile_options opt = {.engine = TP_ENGINE_REFERENCE};
    s.program = tp_graph_compile(s.graph, TP_NAMES("x"), TP_NAMES("y", "step"), &opt);
    tp_function *f = make(b, "running_graphs", running_graphs, &s);
    for (s.n = 0; s.n < 10; s.n++) {
        tp_tensor *out[2];
        tp_function_call(f, TP_TENSORS(pattern(tp, TP_DIMS(2), 0.1 * s.n)), 2, out);
        note(b, "y", out[0]);
        note(b, "step", out[1]);
        note(b, "w", s.w);
        if (s.n == 5)
            settle(b);
    }
    note_error(b, "graphs");
}

BODY(layered)
{
    world *s = user;
    tp_tensor *y = tp_tanh(tp_matmul(in[0], s->w));
    if (s->depth > 0)
        y = call1(s->f, y);
    if (s->n)
        y = tp_mul(y, tp_scalar_like(y, s->n));
    if (s->rate > 0 && tp_truth(tp_gt(tp_sum(y, TP_ALL, false), tp_scalar_like(y, s->rate))))
        y = tp_neg(y);
    out[0] = y;
    out[1] = tp_sum(y, TP_DIMS(1), false);
}

BODY(squaring)
{
    out[0] = tp_square(in[0]);
}

static void symbolic_arguments(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = {.b = b, .depth = 1};
    s.w = tp_param(pattern(tp, TP_DIMS(3, 3), 0.1), "w");
    s.f = make(b, "squaring", squaring, NULL);
    tp_function *f = make(b, "layered", layered, &s);
    for (int i = 0; i < 6; i++) {
        s.n = i % 3;
        tp_tensor *concrete[2], *in = pattern(tp, TP_DIMS(2, 3), 0.1);
        if (i % 2)
            tp_function_call(f, TP_TENSORS(in), 2, concrete);
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"), 3)), *out[2];
        say(b, "%s", tp_status_name(tp_function_call(f, TP_TENSORS(x), 2, out)));
        note(b, "symbolic", out[0]);
        tp_name(out[0], "y");
        tp_tensor *dw = tp_name(tp_grad(out[1], s.w), "dw");
        note(b, "dw", dw);
        tp_tensor *got[2];
        tp_graph_run(g, TP_FEEDS({"x", in}), TP_NAMES("y", "dw"), got);
        note(b, "y", got[0]);
        note(b, "dw", got[1]);
        if (i % 2) {
            note(b, "concrete", concrete[0]);
            note(b, "dw", tp_grad(concrete[1], s.w));
        }
        s.rate = 1e-9; /* a branch on what is not known yet */
        tp_function_call(f, TP_TENSORS(x), 2, out);
        note(b, "refused", out[0]);
        note_error(b, "refused");
        s.rate = 0;
        note(b, "after it", call1(s.f, in));
        tp_graph_free(g);
        settle(b);
    }
}

/* ---- reading and printing ---------------------------------------------------------------- */

BODY(reading)
{
    world *s = user;
    tp_tensor *y = tp_mul(in[0], s->w), *m = tp_mean(y, TP_ALL, false);
    char text[100];
    float v[4];
    switch (s->n) {
    case 0:
        note_print(s->b, y);
        break;
    case 1:
        say(s->b, "%d: %s", (int)tp_format(m, text, sizeof text), text);
        break;
    case 2: {
        const tp_status status = tp_read(y, v, sizeof v);
        say(s->b, "read %s %.9g", tp_status_name(status), (double)v[3]);
        break;
    }
    case 3:
        say(s->b, "read too little %s", tp_status_name(tp_read(y, v, 3)));
        tp_clear_error(s->b->tp);
        break;
    case 4:
        say(s->b, "item %.17g, %lld", tp_item(m), (long long)tp_item_i64(tp_exp(m)));
        break;
    case 5:
        say(s->b, "truth %d %d", tp_truth(m), tp_truth(tp_mul(m, tp_scalar_like(m, 0))));
        break;
    case 6: {
        char path[] = "/tmp/attack_flow_XXXXXX";
        close(mkstemp(path));
        tp_tensor *turned = tp_transpose(y, TP_ALL);
        say(s->b, "save %s", tp_status_name(tp_npy_save(turned, path)));
        tp_tensor *loaded = tp_npy_load(s->b->tp, path);
        note(s->b, "loaded", loaded);
        y = tp_add(y, tp_transpose(loaded, TP_ALL));
        unlink(path);
        break;
    }
    case 7: {
        const float *p = tp_data(tp_flip(y, TP_DIMS(0)));
        say(s->b, "a view with gaps %d", p != NULL);
        tp_clear_error(s->b->tp);
        p = tp_data(tp_contiguous(tp_flip(y, TP_DIMS(0))));
        say(s->b, "in a row %.9g", (double)(p ? p[1] : 0));
        break;
    }
    case 8:
        say(s->b, "no single element %d", tp_truth(y));
        tp_clear_error(s->b->tp);
        break;
    case 9:
        y = tp_item(m) > 0 ? tp_neg(y) : tp_mul(y, tp_scalar_like(y, tp_item(m)));
        break;
    default:
        break;
    }
    tp_assign(s->w, tp_sub(s->w, tp_mul(y, tp_scalar_like(y, 0.125))));
    out[0] = tp_add(y, m);
}

static void reads_inside(bed *b)
{
    world s = {.b = b};
    s.w = tp_variable(pattern(b->tp, TP_DIMS(2, 2), 0.1), "w");
    tp_function *f = make(b, "reading", reading, &s);
    for (int i = 0; i < 36; i++) {
        s.n = i * 7 % 12;
        note(b, "y", call1(f, pattern(b->tp, TP_DIMS(2, 2), 0.05 * (i % 5 - 2))));
        if (i == 17)
            settle(b);
    }
    note(b, "w", s.w);
}

BODY(until)
{
    const world *s = user;
    tp_tensor *x = in[0], *two = tp_scalar_like(x, 2);
    int steps = 0;
    for (;; steps++) { /* Newton's square root */
        tp_tensor *next = tp_div(tp_add(x, tp_div(in[0], x)), two);
        const double moved = tp_item(tp_reduce_max(tp_abs(tp_sub(next, x)), TP_ALL, false));
        x = next;
        if (!(moved > 1e-4) || steps > 40)
            break;
    }
    say(s->b, "%d steps", steps);
    out[0] = x;
}

static void loop_until_a_value(bed *b)
{
    world s = {.b = b};
    tp_function *f = make(b, "until", until, &s);
    for (int i = 0; i < 20; i++) {
        tp_tensor *x = tp_full(b->tp, TP_F32, TP_DIMS(3), 0.5 + i * i * (i % 4));
        note(b, "root", call1(f, x));
        if (i == 10)
            settle(b);
    }
    EXPECT_RECORDINGS(b, f, 12);
}

/* ---- so many calls that it is measured what is faster --------------------------------------- */

BODY(changing)
{
    world *s = user;
    tp_tensor *h = tp_add(in[0], tp_normal_like(in[0], 0, 0.01));
    for (int i = 0; i < 40; i++) {
        h = tp_tanh(tp_add(tp_matmul(h, s->w), s->v));
        if (i % 16 == 15 && tp_truth(tp_gt(tp_sum(h, TP_ALL, false), tp_scalar_like(h, 0))))
            h = tp_neg(h);
    }
    tp_assign(s->old,
              tp_mul(tp_add(s->old, tp_mean(h, TP_DIMS(0), false)), tp_scalar_like(h, 0.5)));
    tp_assign(s->w, tp_sub(s->w, tp_mul(tp_grad(tp_mean(h, TP_ALL, false), s->w),
                                        tp_scalar_like(h, s->rate))));
    out[0] = tp_mul(h, s->old);
    out[1] = s->n % 50 == 49 ? tp_matmul(h, h) : tp_relu(out[0]); /* which fails */
}

static void as_fast_as_eager(bed *b)
{
    enum { CALLS = 400 };
    world s = {.b = b, .rate = 0.5};
    s.w = tp_param(pattern(b->tp, TP_DIMS(2, 2), 0.05), "w");
    s.v = tp_param(pattern(b->tp, TP_DIMS(2), 0.02), "v");
    s.old = tp_variable(pattern(b->tp, TP_DIMS(2), 0.1), "old");
    tp_function *f = make(b, "changing", changing, &s);
    for (s.n = 0; s.n < CALLS; s.n++) {
        tp_scope_begin(b->tp);
        tp_tensor *x = pattern(b->tp, TP_DIMS(3, 2), 0.1 * (s.n % 7 - 3)), *out[2];
        tp_function_call(f, TP_TENSORS(x), 2, out);
        note(b, "y", out[0]);
        note(b, "z", out[1]);
        note(b, "dv", tp_grad(tp_mean(out[0], TP_ALL, false), s.v));
        note_error(b, "error");
        tp_scope_end(b->tp);
        if (s.n % 50 == 10)
            settle(b);
    }
    note(b, "old", s.old);
    note(b, "w", s.w);
    char *text = tp_function_text(f);
    if (b->way->opt.engine == TP_ENGINE_AUTO && !b->eager)
        assert_non_null(strstr(text, " ns eagerly"));
    else
        assert_null(strstr(text, " ns eagerly"));
    tp_free(b->tp, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ATTACK(wrong_sizes),
        ATTACK(index_out_of_range),
        ATTACK(errors_of_its_own),
        ATTACK(scopes_inside),
        ATTACK(scopes_of_others),
        ATTACK(recursion),
        ATTACK(two_that_call_each_other),
        ATTACK(functions_in_functions),
        ATTACK(functions_made_inside),
        ATTACK(graphs_inside),
        ATTACK(symbolic_arguments),
        ATTACK(reads_inside),
        ATTACK(loop_until_a_value),
        ATTACK(as_fast_as_eager),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
