/* Calls of graphs, programs, captured functions, blocks and ONNX. Bodies make calls of
 * their own. */
#include "monkey.h"

#include <stdlib.h>
#include <string.h>

/* ---- graphs ----------------------------------------------------------------------------------- */

CALL(tp_graph_new)
{
    tp_graph *g = tp_graph_new(ctx(m));
    const int i = below(m, KEPT);
    const bool is = g != NULL, keep = !m->depth && (!m->graph[i] || !below(m, i ? 2 : 24));
    tp_graph_free(keep ? m->graph[i] : g);
    if (keep) {
        drop_symbolic(m);
        m->graph[i] = g;
    }
    return is;
}

CALL(tp_graph_free)
{
    const int i = below(m, KEPT);
    if (m->depth || below(m, i ? 3 : 24))
        return NOT_MADE;
    tp_graph_free(m->graph[i]);
    m->graph[i] = NULL;
    drop_symbolic(m);
    return 1;
}

CALL(tp_symbol)
{
    tp_graph *g = graph(m);
    return is_size(tp_symbol(g, below(m, 2) ? "n" : name(m)));
}

#define OF_SIZES(f)                                                                            \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_graph *g = graph(m);                                                                \
        const int64_t a = below(m, 2) ? tp_symbol(g, "n") : size(m);                           \
        return is_size(BOTH(m, f, g, a, size(m)));                                             \
    }
OF_SIZES(tp_dim_add)
OF_SIZES(tp_dim_mul)
OF_SIZES(tp_dim_div)

CALL(tp_placeholder)
{
    list l;
    tp_graph *g = graph(m);
    const tp_dtype t = below(m, 3) ? TP_F32 : dtype(m);
    sizes(m, &l);
    if (below(m, 3) == 0)
        l.own[0] = tp_symbol(g, "n");
    return put(m, tp_placeholder(g, name(m), t, l.n, l.v));
}

CALL(tp_graph_of)
{
    return tp_graph_of(tensor(m)) != NULL;
}

CALL(tp_graph_read)
{
    tp_graph *g = graph(m);
    return put(m, tp_graph_read(g, number_like(m)));
}

CALL(tp_graph_find)
{
    tp_graph *g = graph(m);
    return put(m, tp_graph_find(g, name(m)));
}

CALL(tp_graph_variable)
{
    tp_graph *g = graph(m);
    return put(m, tp_graph_variable(g, name(m)));
}

CALL(tp_graph_n_variables)
{
    return tp_graph_n_variables(graph(m)) > 0;
}

CALL(tp_graph_nth_variable)
{
    tp_graph *g = graph(m);
    return put(m, tp_graph_nth_variable(g, below(m, 4) - 1));
}

CALL(tp_graph_n_inputs)
{
    return tp_graph_n_inputs(graph(m)) > 0;
}

CALL(tp_graph_input)
{
    tp_graph *g = graph(m);
    return put(m, tp_graph_input(g, below(m, 3) - 1));
}

CALL(tp_graph_n_outputs)
{
    return tp_graph_n_outputs(graph(m)) > 0;
}

CALL(tp_graph_output)
{
    tp_graph *g = graph(m);
    if (below(m, 4) == 0) {
        tp_tensor *y = tp_graph_find(g, "y");
        tp_graph_set_outputs(g, 1, &y);
    }
    return put(m, tp_graph_output(g, below(m, 2) ? 0 : below(m, 3) - 1));
}

CALL(tp_graph_set_outputs)
{
    many l;
    tp_graph *g = graph(m);
    tensors(m, &l, 1 + below(m, 2));
    if (below(m, 2)) {
        l.of[0] = tp_graph_find(g, "y");
        l.n = 1;
    }
    return done(tp_graph_set_outputs(g, l.n, l.in));
}

CALL(tp_graph_run)
{
    many l;
    tp_graph *g = graph(m);
    tensors(m, &l, 1);
    const bool fits = below(m, 3) == 0;
    const char *to = name(m);
    const tp_feed feeds[1] = {
        {fits ? "x" : to, fits ? fresh(m, TP_F32, TP_DIMS(2, 3)) : number_like(m)}
    };
    const char *const *of = names(m, out_names);
    const tp_status s = tp_graph_run(g, fits || below(m, 2), feeds, l.n, of, l.out);
    return put_many(m, &l, s);
}

CALL(tp_graph_verify)
{
    return done(tp_graph_verify(graph(m)));
}

CALL(tp_graph_text)
{
    return text(m, tp_graph_text(graph(m)));
}

CALL(tp_graph_dot)
{
    return text(m, tp_graph_dot(graph(m)));
}

/* The text is the context's of the tensor. */
static int tape(monkey *m, char *(*of)(const tp_tensor *y))
{
    const tp_tensor *x = tensor(m);
    char *s = of(x);
    tp_free(tp_ctx_of(x), s);
    return s != NULL;
}

CALL(tp_tape_text)
{
    return tape(m, tp_tape_text);
}

CALL(tp_tape_dot)
{
    return tape(m, tp_tape_dot);
}

/* Keeps a graph that was read, or frees it. */
static int keep_graph(monkey *m, tp_graph *g)
{
    const int i = below(m, KEPT);
    if (g && !m->graph[i] && !m->depth)
        m->graph[i] = g;
    else
        tp_graph_free(g);
    return g != NULL;
}

CALL(tp_graph_parse)
{
    tp_ctx *tp = ctx(m);
    if (!text(m, tp_graph_text(graph(m))))
        strcpy(m->buffer, "graph\n");
    const size_t n = strlen(m->buffer);
    if (n && below(m, 3) == 0)
        m->buffer[next(m) % n] = (char)(32 + below(m, 90));
    return keep_graph(m, tp_graph_parse(tp, rarely(m) ? NULL : m->buffer, n));
}

CALL(tp_graph_save)
{
    tp_graph *g = graph(m);
    return done(tp_graph_save(g, path_of(m, "tapir")));
}

CALL(tp_graph_load)
{
    tp_ctx *tp = ctx(m);
    return keep_graph(m, tp_graph_load(tp, path_of(m, "tapir")));
}

/* What is in the file, perhaps with a byte changed, or not all of it. */
static size_t read_file(monkey *m, const char *of)
{
    FILE *f = of ? fopen(of, "rb") : NULL;
    size_t n = f ? fread(m->buffer, 1, BUFFER, f) : 0;
    if (f)
        fclose(f);
    if (n && below(m, 3) == 0)
        m->buffer[next(m) % n] = (char)below(m, 256);
    return n && below(m, 6) == 0 ? (size_t)(next(m) % n) : n;
}

CALL(tp_graph_load_bytes)
{
    tp_ctx *tp = ctx(m);
    const size_t n = read_file(m, path_of(m, "tapir"));
    return keep_graph(m, tp_graph_load_bytes(tp, rarely(m) ? NULL : m->buffer, n));
}

CALL(tp_graph_save_c)
{
    tp_graph *g = graph(m);
    const tp_c_options opt = {.name = rarely(m) ? "a b" : NULL,
                              .beside = below(m, 2),
                              .state = below(m, 2),
                              .memory_limit = rarely(m) ? 100 : 0};
    const char *const *in = names(m, in_names), *const *out = names(m, out_names);
    const int n_in = below(m, 8) > 0, n_out = below(m, 8) > 0;
    const char *to = below(m, 4) ? "a.c" : path(m);
    return done(tp_graph_save_c(g, to, n_in, in, n_out, out, below(m, 2) ? &opt : NULL));
}

/* ---- programs ----------------------------------------------------------------------------------- */

static program *a_program(monkey *m)
{
    return &m->program[which(m)];
}

static int keep_program(monkey *m, program made)
{
    const int i = below(m, KEPT);
    if (m->depth || (i == 0 && below(m, 12))) {
        tp_program_free(made.p);
        return made.p != NULL;
    }
    tp_runner_free(m->runner[i]);
    m->runner[i] = NULL;
    tp_program_free(m->program[i].p);
    m->program[i] = made;
    return made.p != NULL;
}

static tp_engine engine(monkey *m)
{
    return below(m, 12)  ? TP_ENGINE_TILES
           : below(m, 4) ? TP_ENGINE_REFERENCE
                         : (tp_engine)below(m, 5);
}

CALL(tp_graph_compile)
{
    tp_compile_options opt = {.engine = engine(m), .freeze = below(m, 2)};
    if (rarely(m))
        opt.skip_passes = below(m, 2) ? "fold,fuse" : "nothing";
    if (rarely(m))
        opt.stop_after = below(m, 2) ? "fold" : "nothing";
    if (rarely(m))
        opt.memory_limit = 100 * (below(m, 20) - 1);
    tp_graph *g = graph(m);
    program made = {.n_in = 1, .n_out = 1};
    if (below(m, 3) == 0) { /* one that can be run by a runner */
        g = tp_graph_new(m->tp);
        tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(2, 3));
        tp_name(tp_relu(tp_add(x, x)), "y");
        made.is_plain = 1;
    }
    const char *const *in = names(m, in_names), *const *out = names(m, out_names);
    made.p = tp_graph_compile(g, 1, in, 1, out, below(m, 4) ? &opt : NULL);
    if (made.is_plain)
        tp_graph_free(g);
    return made.p && keep_program(m, made);
}

CALL(tp_program_free)
{
    if (below(m, 3))
        return NOT_MADE;
    keep_program(m, (program){0});
    return 1;
}

CALL(tp_program_run)
{
    many out;
    const program *p = a_program(m);
    tp_tensor *const feed = below(m, 2) ? number_like(m) : fresh(m, TP_F32, TP_DIMS(2, 3));
    tensors(m, &out, p->n_out);
    out.n = p->n_out;
    return put_many(m, &out,
                    tp_program_run(p->p, rarely(m) ? NULL : (tp_tensor *[]){feed}, out.out));
}

CALL(tp_program_wait)
{
    return done(tp_program_wait(a_program(m)->p));
}

CALL(tp_program_engine)
{
    const char *s = tp_program_engine(a_program(m)->p);
    return s && strlen(s) > 0;
}

CALL(tp_program_source)
{
    return tp_program_source(a_program(m)->p) != NULL;
}

CALL(tp_program_stats_of)
{
    return tp_program_stats_of(a_program(m)->p).kernels > 0;
}

CALL(tp_program_graph)
{
    return tp_program_graph(a_program(m)->p) != NULL;
}

CALL(tp_program_text)
{
    return text(m, tp_program_text(a_program(m)->p));
}

CALL(tp_program_loops_text)
{
    return text(m, tp_program_loops_text(a_program(m)->p));
}

CALL(tp_program_memory_text)
{
    return text(m, tp_program_memory_text(a_program(m)->p));
}

CALL(tp_program_profile)
{
    tp_program *p = a_program(m)->p;
    return done(tp_program_profile(p, below(m, 4) > 0));
}

CALL(tp_program_profile_text)
{
    return text(m, tp_program_profile_text(a_program(m)->p));
}

CALL(tp_program_profile_trace)
{
    return text(m, tp_program_profile_trace(a_program(m)->p));
}

CALL(tp_program_profile_save)
{
    tp_program *p = a_program(m)->p;
    return done(tp_program_profile_save(p, path_of(m, "json")));
}

CALL(tp_runner_new)
{
    const int i = which(m);
    tp_tensor *const feed = below(m, 2) ? number_like(m) : fresh(m, TP_F32, TP_DIMS(2, 3));
    const program *p = &m->program[i];
    tp_runner *r = tp_runner_new(p->p, rarely(m) ? NULL : (tp_tensor *[]){feed});
    const bool made = r != NULL;
    if (m->runner[i] || m->depth || !p->is_plain) /* its sizes are not known here */
        tp_runner_free(r);
    else
        m->runner[i] = r;
    return made;
}

CALL(tp_runner_free)
{
    tp_runner **r = &m->runner[which(m)];
    if (m->depth || below(m, 6))
        return NOT_MADE;
    tp_runner_free(*r);
    *r = NULL;
    return 1;
}

CALL(tp_runner_run)
{
    tp_runner *r = m->runner[which(m)];
    const float in[6] = {1, -2, 3};
    float out[6];
    return done(tp_runner_run(r, rarely(m) ? NULL : (const void *[]){in},
                              rarely(m) ? NULL : (void *[]){out}));
}

/* ---- bodies ---------------------------------------------------------------------------------------- */

/* Makes some calls inside, with these tensors in some slots; the slots are what they were afterwards.
 * Gives something for each of v. */
static void inside(monkey *m, uint64_t draws, int n, tp_tensor *const *in, int n_out,
                   tp_tensor **out)
{
    tp_tensor *before[SLOTS];
    const uint64_t mine = m->draws;
    memcpy(before, m->slot, sizeof before);
    m->draws = draws;
    m->depth++;
    for (int i = 0; i < n && in; i++)
        for (int k = 0; k < 5; k++)
            m->slot[below(m, SLOTS)] = in[i];
    const int calls = m->depth > DEEPEST ? 0 : below(m, 7);
    for (int i = 0; i < calls; i++)
        one_call(m, next(m));
    for (int i = 0; i < n_out; i++)
        out[i] = n && in && below(m, 3) ? BOTH(m, tp_mul, in[i % n], in[i % n]) : tensor(m);
    m->depth--;
    memcpy(m->slot, before, sizeof before);
    m->draws = mine;
}

void run_body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const drawn_body *b = user;
    if (b->draws % 2 || n_in < 1)
        inside(b->m, b->draws, n_in, in, n_out, out);
    for (int i = 0; i < n_out && b->draws % 2 == 0 && n_in > 0; i++)
        out[i] = tp_relu(tp_mul(in[i % n_in], in[0]));
}

static void run_block(void *user, int n, tp_tensor **v)
{
    const drawn_body *b = user;
    tp_tensor *in[5];
    for (int i = 0; i < n; i++) /* v is NULL where there are none */
        in[i] = v[i];
    inside(b->m, b->draws, n, in, n, v);
}

static tp_tensor *run_pred(void *user, int n, tp_tensor *const *v)
{
    const drawn_body *b = user;
    (void)n;
    return tp_lt(tp_sum(v[0], TP_ALL, false), tp_scalar_like(v[0], (double)(b->draws % 20)));
}

static void run_scan(void *user, int n, tp_tensor **v, int n_xs, tp_tensor *const *x, int n_ys,
                     tp_tensor **y)
{
    const drawn_body *b = user;
    tp_tensor *in[5];
    for (int i = 0; i < n; i++) /* v is NULL where there are none */
        in[i] = v[i];
    inside(b->m, b->draws, n, in, n, v);
    for (int i = 0; i < n_ys; i++)
        y[i] = n_xs ? x[i % n_xs] : v[0];
}

/* ---- captured functions ------------------------------------------------------------------------------ */

enum { MOST_BODIES = 64 };

CALL(tp_function_new)
{
    static drawn_body bodies[MOST_BODIES]; /* they outlive the call */
    static int n_bodies;
    const tp_function_options opt = {.engine = engine(m),
                                     .eager = rarely(m),
                                     .pure = below(m, 3) == 0,
                                     .check = below(m, 2)};
    const int i = below(m, KEPT);
    drawn_body *b = &bodies[n_bodies++ % MOST_BODIES];
    *b = (drawn_body){m, next(m)};
    if (m->depth || (i == 0 && m->function[i] && below(m, 12)))
        return NOT_MADE;
    tp_function_free(m->function[i]);
    tp_ctx *tp = ctx(m);
    const char *of = name(m);
    m->function[i] =
        tp_function_new(tp, of, rarely(m) ? NULL : run_body, b, below(m, 4) ? &opt : NULL);
    return m->function[i] != NULL;
}

CALL(tp_function_free)
{
    tp_function **f = &m->function[below(m, KEPT)];
    if (m->depth || below(m, 8))
        return NOT_MADE;
    tp_function_free(*f);
    *f = NULL;
    return 1;
}

static tp_function *function(monkey *m)
{
    return m->function[which(m)];
}

CALL(tp_function_call)
{
    many in, out;
    tp_function *f = function(m);
    if (m->depth > 1)
        return NOT_MADE;
    tensors(m, &in, 1 + below(m, 2));
    tensors(m, &out, 1 + below(m, 2));
    if (below(m, 2))
        in.of[0] = in.of[1] = fresh(m, TP_F32, TP_DIMS(2, 3));
    return put_many(m, &out, tp_function_call(f, in.n, in.in, out.n, out.out));
}

CALL(tp_function_apply)
{
    many in;
    tp_function *f = function(m);
    if (m->depth > 1)
        return NOT_MADE;
    tensors(m, &in, 1 + below(m, 2));
    if (below(m, 2))
        in.of[0] = in.of[1] = fresh(m, TP_F32, TP_DIMS(2, 3));
    return put(m, tp_function_apply(f, in.n, in.in));
}

CALL(tp_function_watch)
{
    static const int64_t watched[4] = {1, 2, 3, 4};
    tp_function *f = function(m);
    return done(tp_function_watch(f, rarely(m) ? NULL : watched, (size_t)below(m, 33)));
}

CALL(tp_function_stats_of)
{
    return tp_function_stats_of(function(m)).calls > 0;
}

CALL(tp_function_text)
{
    return text(m, tp_function_text(function(m)));
}

CALL(tp_function_wait)
{
    return done(tp_function_wait(function(m)));
}

CALL(tp_function_save_c)
{
    tp_function *f = function(m);
    const char *const *in = names(m, in_names), *const *out = names(m, out_names);
    return done(tp_function_save_c(f, below(m, 4) ? "b.c" : path(m), 1, in, 1, out, NULL));
}

/* A program, a function and a runner to begin with. */
void begin_objects(monkey *m, uint64_t seed)
{
    static drawn_body plain;
    const tp_compile_options opt = {.engine = seed % 4 ? TP_ENGINE_TILES : TP_ENGINE_C};
    tp_graph *g = tp_graph_new(m->tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(2, 3));
    tp_name(tp_relu(tp_add(x, x)), "y");
    m->program[0] = (program){tp_graph_compile(g, 1, in_names, 1, out_names, &opt), 1, 1, 1};
    tp_graph_free(g);
    plain = (drawn_body){m, 0};
    m->function[0] = tp_function_new(m->tp, "f", run_body, &plain, NULL);
    tp_function_apply(m->function[0], 1, (tp_tensor *[]){m->slot[0]});
    if (seed % 4 == 0) {
        tp_tensor *y;
        tp_program_profile(m->program[0].p, true);
        tp_program_run(m->program[0].p, (tp_tensor *[]){m->slot[0]}, &y);
        m->runner[0] = tp_runner_new(m->program[0].p, (tp_tensor *[]){m->slot[0]});
    }
}

/* ---- blocks ------------------------------------------------------------------------------------------ */

static uint64_t later(monkey *m)
{
    return next(m);
}

static tp_tensor *condition(monkey *m)
{
    tp_tensor *x = number_like(m);
    return below(m, 8) ? tp_gt(tp_sum(x, TP_ALL, false), tp_scalar_like(x, 0)) : tensor(m);
}

static int if_block(monkey *m)
{
    tp_tensor *pred = condition(m), *a = tensor(m), *b = fellow(m, a);
    const uint64_t first = later(m), second = later(m);
    if (m->depth > DEEPEST)
        return NOT_MADE;
    tp_if (pred, &a, &b) {
        inside(m, first, 1, &a, 1, &b);
    }
    tp_else
    {
        inside(m, second, 1, &b, 1, &a);
    }
    return put_both(m, a, b);
}

static int while_block(monkey *m)
{
    tp_tensor *a = number_like(m), *b = fellow(m, a), *i = tp_scalar(m->tp, TP_F32, 0);
    const double turns = below(m, 4);
    const uint64_t first = later(m);
    if (m->depth > DEEPEST)
        return NOT_MADE;
    tp_while (tp_lt(i, tp_scalar_like(i, turns)), &i, &a, &b) {
        inside(m, first, 1, &a, 1, &b);
        i = tp_add(i, tp_scalar_like(i, 1));
    }
    return put_both(m, a, b);
}

static int for_block(monkey *m)
{
    tp_tensor *a = tensor(m), *b = fellow(m, a), *xs = tensor(m), *ys = NULL;
    const int64_t turns = below(m, 8) ? below(m, 4) : size(m);
    const uint64_t first = later(m);
    const int back = below(m, 2), each = below(m, 3), emit = below(m, 2), odd = below(m, 12);
    if (m->depth > DEEPEST)
        return NOT_MADE;
    TP_FOR(back, turns, &a, &b)
    {
        inside(m, first, 1, &a, 1, &b);
        if (each == 0)
            b = tp_each(xs);
        if (emit)
            tp_emit(&ys, a);
        if (odd == 0)
            break;
    }
    if (emit)
        put(m, ys);
    return put_both(m, a, b);
}

CALL(tp_if_begin)
{
    return if_block(m);
}

CALL(tp_if_next)
{
    tp_block *none = NULL;
    return below(m, 4) ? if_block(m) : tp_if_next(below(m, 2) ? &none : NULL);
}

CALL(tp_if_side)
{
    return below(m, 4) ? if_block(m) : tp_if_side(NULL);
}

CALL(tp_while_begin)
{
    return while_block(m);
}

CALL(tp_while_next)
{
    tp_block *none = NULL;
    return below(m, 4) ? while_block(m) : tp_while_next(below(m, 2) ? &none : NULL, tensor(m));
}

CALL(tp_for_begin)
{
    return for_block(m);
}

CALL(tp_for_next)
{
    tp_block *none = NULL;
    return below(m, 4) ? for_block(m) : tp_for_next(below(m, 2) ? &none : NULL);
}

CALL(tp_block_left)
{
    tp_block *none = NULL;
    if (below(m, 4))
        return for_block(m);
    tp_block_left(below(m, 2) ? &none : NULL);
    return 1;
}

/* Mostly in a loop, whose variable has the element's type and sizes as often as not. */
CALL(tp_each)
{
    tp_tensor *xs = tensor(m), *h = tensor(m), *x = NULL;
    if (below(m, 2)) {
        xs = fresh(m, TP_F32, TP_DIMS(2, 3));
        h = fresh(m, TP_F32, TP_DIMS(3));
    }
    if (below(m, 4))
        tp_for (2, &h)
            h = x = tp_each(xs);
    return put(m, x ? h : tp_each(xs));
}

CALL(tp_emit)
{
    static tp_tensor *old; /* of a loop that is over, or none */
    tp_tensor *h = tensor(m), *ys = NULL, *y = below(m, 4) ? NULL : tensor(m);
    int ok = NOT_MADE;
    if (below(m, 4))
        tp_for (2, &h)
            ok = done(tp_emit(rarely(m) ? NULL : &ys, y ? y : h));
    if (ok == NOT_MADE)
        return done(tp_emit(rarely(m) ? NULL : &old, y ? y : h));
    put(m, ys);
    return ok;
}

/* A variable for a loop, in a graph as often as not. */
static tp_tensor *loop_variable(monkey *m)
{
    tp_tensor *i = tp_scalar(m->tp, TP_I64, 0);
    return m->graph[0] && below(m, 2) ? tp_graph_read(m->graph[0], i) : i;
}

CALL(tp_turn)
{
    tp_ctx *tp = ctx(m);
    tp_tensor *i = loop_variable(m), *turn = NULL;
    if (below(m, 4) == 0)
        tp_for (2, &i)
            i = turn = tp_turn(tp);
    return put(m, turn ? i : tp_turn(tp));
}

CALL(tp_checkpoint)
{
    tp_ctx *tp = ctx(m);
    tp_tensor *i = loop_variable(m);
    int ok = NOT_MADE;
    if (below(m, 4) == 0)
        tp_for (2, &i)
            ok = done(tp_checkpoint(tp));
    return ok == NOT_MADE ? done(tp_checkpoint(tp)) : ok;
}

CALL(tp_cond)
{
    many v;
    tp_tensor *pred = condition(m);
    drawn_body b = {m, later(m)};
    tensors(m, &v, 1 + below(m, 2));
    if (m->depth > DEEPEST)
        return NOT_MADE;
    const tp_status s = tp_cond(pred, rarely(m) ? NULL : run_block,
                                below(m, 3) ? run_block : NULL, &b, v.n, v.out);
    return put_many(m, &v, s);
}

CALL(tp_while_loop)
{
    many v;
    drawn_body b = {m, later(m)};
    tensors(m, &v, 1 + below(m, 2));
    if (m->depth > DEEPEST)
        return NOT_MADE;
    const tp_status s = tp_while_loop(rarely(m) ? NULL : run_pred, rarely(m) ? NULL : run_block,
                                      &b, v.n, v.out);
    return put_many(m, &v, s);
}

CALL(tp_scan)
{
    many v, xs, ys;
    drawn_body b = {m, later(m)};
    const tp_scan_options opt = {.back = below(m, 2), .checkpoint = below(m, 2)};
    tensors(m, &v, 1 + below(m, 2));
    tensors(m, &xs, below(m, 2));
    tensors(m, &ys, below(m, 2));
    const int64_t turns = below(m, 8) ? below(m, 4) : size(m);
    if (m->depth > DEEPEST)
        return NOT_MADE;
    const tp_status s = tp_scan(turns, below(m, 2) ? &opt : NULL, rarely(m) ? NULL : run_scan,
                                &b, v.n, v.out, xs.n, xs.in, ys.n, ys.out);
    put_many(m, &ys, s);
    return put_many(m, &v, s);
}

/* ---- ONNX ------------------------------------------------------------------------------------------------ */

static const tp_onnx_load_options *load_options(monkey *m, tp_onnx_load_options *opt)
{
    static const tp_onnx_dim dims[] = {
        {"n",   3},
        {"x_0", 2}
    };
    *opt = (tp_onnx_load_options){.n_dims = below(m, 3), .dims = rarely(m) ? NULL : dims};
    return below(m, 3) ? NULL : opt;
}

CALL(tp_onnx_load)
{
    tp_onnx_load_options opt;
    tp_ctx *tp = ctx(m);
    const char *of = path_of(m, "onnx");
    return keep_graph(m, tp_onnx_load(tp, of, load_options(m, &opt)));
}

CALL(tp_onnx_load_bytes)
{
    tp_onnx_load_options opt;
    tp_ctx *tp = ctx(m);
    const size_t n = read_file(m, path_of(m, "onnx"));
    const char *bytes = rarely(m) ? NULL : m->buffer;
    return keep_graph(
        m, tp_onnx_load_bytes(tp, bytes, n, below(m, 2) ? "." : NULL, load_options(m, &opt)));
}

CALL(tp_onnx_summary)
{
    tp_ctx *tp = ctx(m);
    return text(m, tp_onnx_summary(tp, path_of(m, "onnx")));
}

CALL(tp_onnx_tensor_load)
{
    tp_ctx *tp = ctx(m);
    return put(m, tp_onnx_tensor_load(tp, path_of(m, "pb")));
}

CALL(tp_onnx_tensor_save)
{
    const tp_tensor *x = some_number(m);
    return done(tp_onnx_tensor_save(x, path_of(m, "pb")));
}

static const char *value_type(monkey *m)
{
    static const char *const types[] = {"seq(tensor(float))", "optional(tensor(float))",
                                        "tensor(float)", "", NULL};
    return types[below(m, below(m, 3) ? 3 : 5)];
}

CALL(tp_onnx_value_load)
{
    many l;
    int n = 0;
    tp_ctx *tp = ctx(m);
    const char *of = path_of(m, "pb"), *type = value_type(m);
    tensors(m, &l, 5);
    const tp_status s = tp_onnx_value_load(tp, of, type, l.n > 5 ? 5 : l.n, l.out, &n);
    l.n = n < 0 ? 0 : n;
    return put_many(m, &l, s);
}

CALL(tp_onnx_value_save)
{
    many l;
    tp_ctx *tp = ctx(m);
    const char *of = path_of(m, "pb"), *type = value_type(m);
    tensors(m, &l, 1);
    return done(tp_onnx_value_save(tp, of, type, l.n, l.in));
}

CALL(tp_onnx_save)
{
    tp_graph *g = graph(m);
    const char *const *in = names(m, in_names), *const *out = names(m, out_names);
    return done(tp_onnx_save(g, path_of(m, "onnx"), below(m, 8) > 0, in, 1, out));
}

CALL(tp_onnx_save_function)
{
    tp_function *f = function(m);
    const char *const *in = names(m, in_names), *const *out = names(m, out_names);
    return done(tp_onnx_save_function(f, path_of(m, "onnx"), 1, in, 1, out));
}
