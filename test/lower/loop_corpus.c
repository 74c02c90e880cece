#include "loop_corpus.h"

#include "common/golden_corpus.h"
#include "common/same.h"
#include "loop_run.h"
#include "op/elementwise.h"
#include "run/program.h"

#include <math.h>
#include <stdlib.h>

typedef struct drawing {
    loop_case c; /* of the nest that is visited */
    uint64_t seed;
    loop_visit *visit;
    void *user;
    int n_bad;
} drawing;

/* ---- random graphs ------------------------------------------------------------------------------------------- */

static uint64_t pick(drawing *n, uint64_t below)
{
    return loop_random(&n->seed) % below;
}

static tp_tensor *reduced(drawing *n, tp_tensor *x)
{
    static tp_tensor *(*const all[])(tp_tensor *, int, const int64_t *, bool) = {
        (tp_sum), (tp_mean), (tp_reduce_max), (tp_reduce_min), (tp_prod)};
    const int64_t axis = (int64_t)pick(n, (uint64_t)tp_rank(x));
    return all[pick(n, 5)](x, 1, &axis, true);
}

static tp_tensor *element(drawing *n, tp_tensor *x, tp_tensor *y)
{
    switch (pick(n, 12)) {
    case 0:
        return tp_exp(tp_sub(x, tp_reduce_max(x, TP_DIMS(-1), true)));
    case 1:
        return tp_tanh(x);
    case 2:
        return tp_mul(x, y);
    case 3:
        return tp_where(tp_lt(x, y), x, tp_neg(y));
    case 4:
        return tp_relu(tp_add(x, y));
    case 5:
        return tp_cast(tp_cast(x, TP_I32), TP_F32);
    case 6:
        return tp_softmax(x, -1);
    case 7:
        return tp_div(x, tp_add(tp_abs(y), tp_full(n->c.tp, TP_F32, TP_SCALAR, 1.5)));
    case 8:
        return tp_transpose(x, TP_DIMS(1, 0, 2));
    default:
        return tp_sub(x, y);
    }
}

static void draw(drawing *n, tp_graph *g)
{
    const int64_t a = tp_symbol(g, "a"), b = tp_symbol(g, "b"),
                  last = pick(n, 2)            ? tp_symbol(g, "c")
                         : (int64_t)pick(n, 2) ? 5
                                               : 1;
    const bool square = pick(n, 2);
    tp_tensor *x[12] = {tp_placeholder(g, "x", TP_F32, TP_DIMS(a, square ? a : b, last)),
                        tp_placeholder(g, "y", TP_F32, TP_DIMS(1, square ? a : b, 1)),
                        tp_placeholder(g, "z", TP_F32, TP_DIMS(last))};
    int at = 3;
    x[1] = tp_add(x[0], x[1]);
    x[2] = tp_mul(x[0], x[2]);
    for (; at < 12; at++) {
        tp_tensor *v = x[pick(n, (uint64_t)at)], *w = x[pick(n, (uint64_t)at)];
        if (!square)
            v = tp_add(v, w);
        x[at] = pick(n, 3) == 0 ? tp_sub(v, reduced(n, v))
                : square        ? element(n, v, w)
                                : tp_mul(v, tp_sigmoid(w));
    }
    tp_tensor *out[3] = {tp_name(x[11], "p"), tp_name(tp_neg(x[10]), "q"),
                         tp_name(tp_exp(reduced(n, x[9])), "r")};
    tp_graph_set_outputs(g, 3, out);
}

/* Every fold, of each axis. */
static void draw_orders(tp_graph *g)
{
    static tp_tensor *(*const all[])(tp_tensor *, int, const int64_t *, bool) = {
        (tp_sum), (tp_mean), (tp_reduce_max), (tp_reduce_min), (tp_prod)};
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    tp_tensor *x =
        tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "rows"), tp_symbol(g, "columns")));
    tp_tensor *out[10];
    for (int i = 0; i < 10; i++) {
        const int64_t axis = i / 5;
        out[i] = tp_name(all[i % 5](i % 2 ? tp_tanh(x) : x, 1, &axis, true), names[i]);
    }
    tp_graph_set_outputs(g, 10, out);
}

/* What some values, fetched as well, come down to: so they are of few nests. */
static tp_tensor *one_of(tp_tensor *c, tp_dtype t, int n, tp_tensor *const *x)
{
    tp_tensor *one = x[0];
    for (int i = 1; i < n; i++)
        one = tp_where(c, tp_cast(x[i], t), one);
    return one;
}

/* Every elementwise op of a type, casts, and folds of rows and columns. */
static void draw_ops(tp_graph *g, tp_dtype t)
{
    static tp_tensor *(*const folds[])(tp_tensor *, int, const int64_t *, bool) = {
        (tp_reduce_max), (tp_reduce_min), (tp_sum), (tp_prod)};
    const int64_t n = tp_symbol(g, "n"), m = tp_symbol(g, "m");
    tp_tensor *x = tp_placeholder(g, "x", t, TP_DIMS(n, m)),
              *y = tp_placeholder(g, "y", t, TP_DIMS(n, m)),
              *c = tp_placeholder(g, "c", TP_BOOL, TP_DIMS(n, m)), *out[64];
    int n_out = 0;
    for (int i = 0; i < TPI_N_OPS; i++) {
        const tpi_op *op = tpi_ops[i];
        tp_tensor *in[3] = {x, y};
        if (op->kind != TPI_ELEMENT || op->attrs || !tpi_elem_scalar((tpi_elem)op->elem, t))
            continue;
        if (op->call_dtype == 1)
            in[0] = c, in[1] = x, in[2] = y;
        out[n_out++] = tpi_apply(TPI_AT(NULL, 0), op, op->n_in, in, NULL);
    }
    for (int to = 0; to < TP_N_DTYPES; to++)
        if (to != (int)t)
            out[n_out++] = tp_cast(x, (tp_dtype)to);
    out[n_out] = one_of(c, t, n_out, out);
    n_out++;
    for (int i = 0; i < (t == TP_BOOL ? 4 : 8); i++) {
        const int64_t axis = i % 2;
        out[n_out++] = folds[i / 2](x, 1, &axis, false);
    }
    for (int i = 0; i < n_out; i++) {
        char name[20];
        snprintf(name, sizeof name, "out%d", i);
        out[i] = tp_name(out[i], name);
    }
    tp_graph_set_outputs(g, n_out, out);
}

/* ---- the corpus ---------------------------------------------------------------------------------------------- */

static void visit_plan(drawing *n, tp_program *p, const tpi_plan *plan)
{
    for (int i = 0; i < plan->n_kernels; i++) {
        const tpi_section *s = plan->sections ? plan->sections[plan->kernels[i].root] : NULL;
        if (plan->kernels[i].kind == TPI_KERNEL_LOOP) {
            n->c.program = p;
            n->c.plan = plan;
            n->c.nest = &plan->kernels[i];
            n->visit(n->user, &n->c);
        }
        for (int k = 0; s && k < s->n_bodies; k++)
            visit_plan(n, p, s->plan[k]);
    }
}

static void visit_graph(drawing *n, tp_graph *g)
{
    enum { MOST = 64 };
    const char *in[MOST], *out[MOST];
    const int n_in = tp_graph_n_inputs(g), n_out = tp_graph_n_outputs(g);
    for (int i = 0; i < n_in; i++)
        in[i] = tp_name_of(tp_graph_input(g, i));
    for (int i = 0; i < n_out; i++)
        out[i] = tp_name_of(tp_graph_output(g, i));
    tp_program *p = tp_error(n->c.tp)
                        ? NULL
                        : tp_graph_compile(g, n_in, in, n_out, out,
                                           &(tp_compile_options){.engine = TP_ENGINE_TILES});
    if (p) {
        visit_plan(n, p, p->plan);
    } else {
        printf("%s: %s\n", n->c.what, tp_error_message(n->c.tp));
        n->n_bad++;
    }
}

static tp_graph *begin_graph(drawing *n, const char *what)
{
    n->c.what = what;
    n->c.tp = tp_open(&(tp_options){.seed = 1, .threads = 1});
    tp_scope_begin(n->c.tp);
    return tp_graph_new(n->c.tp);
}

static void end_graph(drawing *n, tp_graph *g)
{
    visit_graph(n, g);
    tp_close(n->c.tp);
}

static void visit_ops(drawing *n)
{
    n->c.corners = true;
    for (int t = 0; t < TP_N_DTYPES; t++) {
        char what[60];
        snprintf(what, sizeof what, "every op of %s", tp_dtype_name((tp_dtype)t));
        tp_graph *g = begin_graph(n, what);
        draw_ops(g, (tp_dtype)t);
        end_graph(n, g);
    }
    n->c.corners = false;
}

int loop_corpus(int count, uint64_t seed, loop_visit *visit, void *user)
{
    drawing n = {.seed = seed, .visit = visit, .user = user};
    for (const golden_case *c = golden_corpus; c->name; c++) {
        tp_graph *g = begin_graph(&n, c->name);
        c->draw(n.c.tp, g);
        end_graph(&n, g);
    }
    n.c.orders = true;
    tp_graph *folds = begin_graph(&n, "orders");
    draw_orders(folds);
    end_graph(&n, folds);
    n.c.orders = false;
    visit_ops(&n);
    for (int i = 0; i < count; i++) {
        char what[60];
        snprintf(what, sizeof what, "random graph of seed %llu", (unsigned long long)n.seed);
        tp_graph *g = begin_graph(&n, what);
        draw(&n, g);
        end_graph(&n, g);
    }
    return n.n_bad;
}

/* ---- sizes --------------------------------------------------------------------------------------------------- */

/* Sizes around the blocks and lanes of the orders. */
static const int64_t orders[] = {0,    0,    1,    1,     15,       15,   16,   16,
                                 17,   17,   255,  255,   256,      256,  257,  257,
                                 4095, 4095, 4096, 4096,  4097,     4097, 8191, 8191,
                                 8192, 8192, 8193, 12289, 3 * 4096, 12289};

bool loop_set_sizes(const loop_case *c, int run, uint64_t *seed)
{
    int64_t *symbols = c->program->symbols;
    const int n_symbols = tpi_dim_n_symbols(c->program->graph->dims);
    const int n_random = n_symbols < 2 ? n_symbols + 1 : 3;
    const size_t order = (size_t)(run - n_random);
    if (run < n_random) { /* one of them large, or none */
        for (int s = 0; s < n_symbols; s++)
            symbols[s] = 4 + (int64_t)(loop_random(seed) % (s + 1 == run ? 300 : 5));
        return true;
    }
    if (!c->orders || order >= sizeof orders / sizeof *orders)
        return false;
    symbols[order % 2] = orders[order];
    symbols[1 - order % 2] = 3;
    return true;
}

/* ---- memories ------------------------------------------------------------------------------------------------ */

/* Small numbers; `corners`: half of them any bits, or at an end of what the type has. */
static double small_number(uint64_t *seed)
{
    return (double)(int64_t)(loop_random(seed) % 4001) / 1000 - 2;
}

static double corner(uint64_t *seed)
{
    static const double all[] = {0.0,     -0.0,   INFINITY, -INFINITY, NAN,    1e-40,
                                 -1e-310, 0.5,    0x1p31,   -0x1p31,   0x1p63, -0x1p63,
                                 88.7,    -103.9, 2.5,      -3.5};
    return all[loop_random(seed) % (sizeof all / sizeof *all)];
}

static void fill(bool corners, tp_dtype t, uint64_t *seed, int64_t count, char *to)
{
    const size_t size = tp_dtype_size(t);
    for (int64_t i = 0; i < count; i++, to += size) {
        const double v = small_number(seed);
        const int64_t whole = t == TP_BOOL || t >= TP_U8 ? v > 0 : (int64_t)(v * 3);
        const uint64_t any = loop_random(seed);
        if (corners && t != TP_BOOL && any >> 63)
            memcpy(to, &any, size);
        else if (corners && t >= TP_F32 && (any >> 62 & 1))
            tpi_store_f64(t, to, corner(seed));
        else if (t >= TP_F32)
            tpi_store_f64(t, to, v);
        else
            memcpy(to, &whole, size);
    }
}

/* How many elements the memory of a node has; -1: too many, or its sizes are none. */
static int64_t elements_of(const tp_program *p, const tp_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) {
        const int64_t size = tpi_dim_eval(p->graph->dims, t->shape[i], p->symbols);
        if (size < 0 || size > 100000)
            return -1;
        n *= size;
    }
    return n > 1000000 ? -1 : n;
}

/* Memory of m->elements each. */
static void take(const tpi_loop *l, bool corners, uint64_t *seed, loop_memories *m)
{
    for (int i = 0; i < l->n_mems; i++) {
        const tp_dtype t = (tp_dtype)l->mem[i].type;
        if (l->mem[i].row)
            continue;
        m->bytes[i] = (size_t)m->elements[i] * tp_dtype_size(t);
        m->of[i] = malloc(m->bytes[i] + !m->bytes[i]);
        m->copy[i] = malloc(m->bytes[i] + !m->bytes[i]);
        fill(corners, t, seed, m->elements[i], m->of[i]);
        memcpy(m->copy[i], m->of[i], m->bytes[i]);
    }
}

bool loop_take(const loop_case *c, const tpi_loop *l, uint64_t *seed, loop_memories *m)
{
    *m = (loop_memories){0};
    for (int i = 0; i < l->n_mems; i++) {
        if (l->mem[i].row)
            continue;
        m->elements[i] = elements_of(c->program, c->plan->values[l->mem[i].node].node);
        if (m->elements[i] < 0)
            return false;
    }
    take(l, c->corners, seed, m);
    return true;
}

void loop_take_reached(const tpi_loop *l, uint64_t *seed, loop_memories *m)
{
    *m = (loop_memories){0};
    for (int i = 0; i < l->n_ats; i++) {
        const tpi_loop_at *at = &l->at[i];
        int64_t n = at->offset + 1;
        for (int a = 0; a < l->rank; a++)
            n += at->stride[a] > 0 && l->size[a] > 0 ? at->stride[a] * (l->size[a] - 1) : 0;
        if (!l->mem[at->mem].row && n > m->elements[at->mem])
            m->elements[at->mem] = n;
    }
    take(l, false, seed, m);
}

bool loop_compare(const tpi_loop *l, const loop_memories *m, const char *by,
                  char why[LOOP_RUN_WHY])
{
    for (int i = 0; i < l->n_mems; i++) {
        const tp_dtype t = (tp_dtype)l->mem[i].type;
        const size_t size = tp_dtype_size(t);
        for (int64_t k = 0; k < m->elements[i]; k++)
            if (!same_value(t, m->of[i] + (size_t)k * size, m->copy[i] + (size_t)k * size,
                            SAME_ZEROS_BITS)) {
                snprintf(why, LOOP_RUN_WHY, "v%d[%lld]: %.9g by %s, not %.9g", i, (long long)k,
                         tpi_load_f64(t, m->copy[i] + (size_t)k * size), by,
                         tpi_load_f64(t, m->of[i] + (size_t)k * size));
                return false;
            }
    }
    return true;
}

void loop_release(loop_memories *m)
{
    for (int i = 0; i < LOOP_MEMORIES; i++) {
        free(m->of[i]);
        free(m->copy[i]);
    }
}
