/* Loop programs of nests: those of the golden corpus, and of random graphs. Each keeps the rules, is the same when it
 * is printed and read again, and a plain interpreter and tiles leave the same bits in all memory, symbols being any
 * sizes.
 *
 *     loop_nests [--count N] [--seed S]
 *     loop_nests --verify DIR      each DIR/NAME.loop breaks the rule that its line with "; error: " names */
#include "golden/golden_corpus.h"
#include "loop_read.h"
#include "loop_run.h"
#include "lower/loop_text.h"
#include "lower/loop_verify.h"
#include "lower/nest.h"
#include "run/program.h"
#include "run/tiles.h"
#include "same.h"

#include <dirent.h>
#include <stdlib.h>

typedef struct net {
    tp_ctx *tp;
    uint64_t seed;
    const char *what; /* the graph */
    bool orders;      /* also at the sizes around what their orders take together */
    int n_programs, n_runs, n_bad;
} net;

static void complain(net *n, const tpi_loop *l, const char *why)
{
    tpi_str s = TPI_STR(&n->tp->mem);
    tpi_loop_print(l, 0, &s);
    printf("%s: %s\n%s", n->what, why, s.text ? s.text : "");
    tpi_str_free(&s);
    n->n_bad++;
}

/* ---- text ---------------------------------------------------------------------------------------------------- */

static void check_text(net *n, tp_graph *g, const tpi_loop *l)
{
    char why[LOOP_READ_WHY];
    tpi_loop again;
    tpi_str first = TPI_STR(&n->tp->mem), second = TPI_STR(&n->tp->mem);
    tpi_loop_print(l, 0, &first);
    if (!loop_read(g, first.text, &again, why)) {
        complain(n, l, why);
    } else {
        for (int i = 0; i < l->n_stmts && i < again.n_stmts; i++)
            again.stmt[i].node = l->stmt[i].node; /* places are no part of it */
        tpi_loop_print(&again, 0, &second);
        if (strcmp(first.text, second.text) != 0)
            complain(n, l, "it reads as another program");
        tpi_loop_free(&again);
    }
    tpi_str_free(&first);
    tpi_str_free(&second);
}

/* ---- runs ---------------------------------------------------------------------------------------------------- */

static void fill(net *n, tp_dtype t, int64_t count, char *to)
{
    const size_t size = tp_dtype_size(t);
    for (int64_t i = 0; i < count; i++) {
        const double v = (double)(int64_t)(loop_random(&n->seed) % 4001) / 1000 - 2;
        const int64_t whole = t == TP_BOOL || t >= TP_U8 ? v > 0 : (int64_t)(v * 3);
        if (t >= TP_F32)
            tpi_store_f64(t, to + (size_t)i * size, v);
        else
            memcpy(to + (size_t)i * size, &whole, size);
    }
}

typedef struct memories {
    char *of[TPI_MAX_NEST_OPERANDS + TPI_MAX_NEST_NODES],
        *copy[TPI_MAX_NEST_OPERANDS + TPI_MAX_NEST_NODES];
    int64_t elements[TPI_MAX_NEST_OPERANDS + TPI_MAX_NEST_NODES];
} memories;

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

static bool take_memories(net *n, const tp_program *p, const tpi_plan *plan, const tpi_loop *l,
                          memories *m)
{
    for (int i = 0; i < l->n_mems; i++) {
        if (l->mem[i].row)
            continue;
        const tp_dtype t = (tp_dtype)l->mem[i].type;
        m->elements[i] = elements_of(p, plan->values[l->mem[i].node].node);
        if (m->elements[i] < 0)
            return false;
        const size_t bytes = (size_t)m->elements[i] * tp_dtype_size(t);
        m->of[i] = malloc(bytes + !bytes);
        m->copy[i] = malloc(bytes + !bytes);
        fill(n, t, m->elements[i], m->of[i]);
        memcpy(m->copy[i], m->of[i], bytes);
    }
    return true;
}

static void compare(net *n, const tpi_loop *l, const memories *m)
{
    char why[100];
    for (int i = 0; i < l->n_mems; i++) {
        const tp_dtype t = (tp_dtype)l->mem[i].type;
        const size_t size = tp_dtype_size(t);
        for (int64_t k = 0; k < m->elements[i] && !l->mem[i].row; k++)
            if (!same_value(t, m->of[i] + (size_t)k * size, m->copy[i] + (size_t)k * size,
                            SAME_ZEROS_BITS)) {
                snprintf(why, sizeof why, "v%d[%lld]: %.9g by tiles, not %.9g", i, (long long)k,
                         tpi_load_f64(t, m->copy[i] + (size_t)k * size),
                         tpi_load_f64(t, m->of[i] + (size_t)k * size));
                complain(n, l, why);
                return;
            }
    }
}

static void check_run(net *n, tp_program *p, const tpi_plan *plan, const tpi_kernel *k)
{
    char why[LOOP_RUN_WHY];
    tpi_loop l;
    memories *m = calloc(1, sizeof *m);
    void **buffers = calloc((size_t)p->plan->all_buffers + 1, sizeof *buffers);
    if (!tpi_lower_nest(plan, k, p->symbols, NULL, &l))
        abort();
    if (take_memories(n, p, plan, &l, m)) {
        for (int i = 0; i < l.n_mems; i++)
            if (!l.mem[i].row)
                buffers[plan->first_buffer + plan->values[l.mem[i].node].buffer] = m->copy[i];
        tpi_nest *nest = tpi_nest_new(p, plan, k);
        char *scratch = malloc(tpi_nest_scratch(nest, 1) + 64);
        tpi_nest_run(nest, &p->team, buffers, scratch);
        n->n_runs++;
        if (loop_run(&l, n->tp, m->of, m->elements, &n->seed, why))
            compare(n, &l, m);
        else
            complain(n, &l, why);
        free(scratch);
        tpi_nest_free(&n->tp->mem, nest);
    }
    for (int i = 0; i < l.n_mems; i++) {
        free(m->of[i]);
        free(m->copy[i]);
    }
    free(m);
    free(buffers);
    tpi_loop_free(&l);
}

/* ---- programs ------------------------------------------------------------------------------------------------ */

/* The program that C is printed from, where a band or microbatch computes parts of the nest: outer places, rows. */
static void check_boxes(net *n, const tpi_plan *plan, const tpi_kernel *k)
{
    char why[TPI_LOOP_WHY];
    for (int outer = 0; outer < k->rank && !((k->reduced >> outer) & 1); outer++)
        for (int row = -1; row < k->rank; row++) {
            tpi_nest_box box = {.n_outer = outer, .row = row};
            tpi_loop l;
            if (row >= 0 && (row < outer || (k->reduced >> row) & 1))
                continue;
            if (!tpi_lower_nest(plan, k, NULL, &box, &l))
                abort();
            if (tpi_loop_verify(&l, why) >= 0)
                complain(n, &l, why);
            if (box.n_outer > l.kept || box.row >= l.kept ||
                (row >= 0 && box.row < box.n_outer))
                complain(n, &l, "outer places or rows are no kept axes");
            tpi_loop_free(&l);
        }
}

/* Sizes around the blocks and lanes of the orders. */
static const int64_t orders[] = {0,    0,    1,    1,     15,       15,   16,   16,
                                 17,   17,   255,  255,   256,      256,  257,  257,
                                 4095, 4095, 4096, 4096,  4097,     4097, 8191, 8191,
                                 8192, 8192, 8193, 12289, 3 * 4096, 12289};

static void check_nest(net *n, tp_program *p, const tpi_plan *plan, const tpi_kernel *k)
{
    char why[TPI_LOOP_WHY];
    tpi_loop l;
    if (!tpi_lower_nest(plan, k, NULL, NULL, &l))
        abort();
    n->n_programs++;
    if (tpi_loop_verify(&l, why) >= 0)
        complain(n, &l, why);
    check_text(n, p->graph, &l);
    check_boxes(n, plan, k);
    tpi_loop_free(&l);
    const int n_symbols = tpi_dim_n_symbols(p->graph->dims);
    for (int i = 0; i <= n_symbols && i < 3; i++) { /* one of them large, or none */
        for (int s = 0; s < n_symbols; s++)
            p->symbols[s] = 4 + (int64_t)(loop_random(&n->seed) % (s + 1 == i ? 300 : 5));
        check_run(n, p, plan, k);
    }
    for (size_t i = 0; i < sizeof orders / sizeof *orders && n->orders; i++) {
        p->symbols[i % 2] = orders[i];
        p->symbols[1 - i % 2] = 3;
        check_run(n, p, plan, k);
    }
}

static void check_plan(net *n, tp_program *p, const tpi_plan *plan)
{
    for (int i = 0; i < plan->n_kernels; i++) {
        const tpi_section *s = plan->sections ? plan->sections[plan->kernels[i].root] : NULL;
        if (plan->kernels[i].kind == TPI_KERNEL_LOOP)
            check_nest(n, p, plan, &plan->kernels[i]);
        for (int k = 0; s && k < s->n_bodies; k++)
            check_plan(n, p, s->plan[k]);
    }
}

static void check_graph(net *n, tp_graph *g)
{
    enum { MOST = 10 };
    const char *in[MOST], *out[MOST];
    const int n_in = tp_graph_n_inputs(g), n_out = tp_graph_n_outputs(g);
    for (int i = 0; i < n_in; i++)
        in[i] = tp_name_of(tp_graph_input(g, i));
    for (int i = 0; i < n_out; i++)
        out[i] = tp_name_of(tp_graph_output(g, i));
    tp_program *p = tp_error(n->tp)
                        ? NULL
                        : tp_graph_compile(g, n_in, in, n_out, out,
                                           &(tp_compile_options){.engine = TP_ENGINE_TILES});
    if (p) {
        check_plan(n, p, p->plan);
    } else {
        printf("%s: %s\n", n->what, tp_error_message(n->tp));
        n->n_bad++;
    }
}

/* ---- random graphs ------------------------------------------------------------------------------------------- */

static uint64_t pick(net *n, uint64_t below)
{
    return loop_random(&n->seed) % below;
}

static tp_tensor *reduced(net *n, tp_tensor *x)
{
    static tp_tensor *(*const all[])(tp_tensor *, int, const int64_t *, bool) = {
        (tp_sum), (tp_mean), (tp_reduce_max), (tp_reduce_min), (tp_prod)};
    const int64_t axis = (int64_t)pick(n, (uint64_t)tp_rank(x));
    return all[pick(n, 5)](x, 1, &axis, true);
}

static tp_tensor *element(net *n, tp_tensor *x, tp_tensor *y)
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
        return tp_div(x, tp_add(tp_abs(y), tp_full(n->tp, TP_F32, TP_SCALAR, 1.5)));
    case 8:
        return tp_transpose(x, TP_DIMS(1, 0, 2));
    default:
        return tp_sub(x, y);
    }
}

static void draw(net *n, tp_graph *g)
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
static void draw_orders(tp_ctx *tp, tp_graph *g)
{
    static tp_tensor *(*const all[])(tp_tensor *, int, const int64_t *, bool) = {
        (tp_sum), (tp_mean), (tp_reduce_max), (tp_reduce_min), (tp_prod)};
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    tp_tensor *x =
        tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "rows"), tp_symbol(g, "columns")));
    tp_tensor *out[10];
    (void)tp;
    for (int i = 0; i < 10; i++) {
        const int64_t axis = i / 5;
        out[i] = tp_name(all[i % 5](i % 2 ? tp_tanh(x) : x, 1, &axis, true), names[i]);
    }
    tp_graph_set_outputs(g, 10, out);
}

static void check_drawn(net *n, void (*corpus)(tp_ctx *, tp_graph *))
{
    n->tp = tp_open(&(tp_options){.seed = 1, .threads = 1});
    tp_scope_begin(n->tp);
    tp_graph *g = tp_graph_new(n->tp);
    if (corpus)
        corpus(n->tp, g);
    else
        draw(n, g);
    check_graph(n, g);
    tp_close(n->tp);
}

/* ---- the rules ----------------------------------------------------------------------------------------------- */

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 16);
    if (!f || fread(text, 1, (1 << 16) - 1, f) == 0)
        text[0] = 0;
    if (f)
        fclose(f);
    return text;
}

/* The statement of the line with "; error: ", and what it says. */
static int expected(const char *text, char why[TPI_LOOP_WHY])
{
    const char *mark = strstr(text, "; error: ");
    int line = 0;
    for (const char *c = text; mark && c < mark; c++)
        line += *c == '\n';
    if (mark)
        snprintf(why, TPI_LOOP_WHY, "%.*s", (int)strcspn(mark + 9, "\n"), mark + 9);
    return line;
}

/* The line of a statement: each has one, but axes, which are in that of their region; a region's end has one too. */
static int line_of(const tpi_loop *l, int statement)
{
    int line = 0;
    for (int i = 0; i <= statement; i++) {
        for (int k = 0; k < i; k++)
            line += l->stmt[k].kind == TPI_LOOP_EACH && l->stmt[k].end == i;
        line += l->stmt[i].kind != TPI_LOOP_AXIS;
    }
    return line;
}

static void check_rule(net *n, const char *path)
{
    char want[TPI_LOOP_WHY] = "", why[LOOP_READ_WHY] = "";
    tpi_loop l;
    char *text = read_file(path);
    const int line = expected(text, want);
    n->what = path;
    n->n_programs++;
    n->tp = tp_open(NULL);
    tp_graph *g = tp_graph_new(n->tp);
    if (!loop_read(g, text, &l, why)) {
        printf("%s: %s\n", path, why);
        n->n_bad++;
    } else {
        const int got = tpi_loop_verify(&l, why);
        if (got < 0 ? *want : !*want || strcmp(want, why) != 0 || line_of(&l, got) != line) {
            printf("%s: statement %d: \"%s\", not line %d: \"%s\"\n", path, got,
                   got < 0 ? "fine" : why, line + 1, want);
            n->n_bad++;
        }
        tpi_loop_free(&l);
    }
    tp_close(n->tp);
    free(text);
}

static void check_rules(net *n, const char *dir)
{
    char path[1000];
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (!strstr(e->d_name, ".loop"))
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        check_rule(n, path);
    }
    if (d)
        closedir(d);
}

int main(int argc, char **argv)
{
    net n = {.seed = 1};
    int count = 40;
    const char *rules = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--count") == 0)
            count = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--seed") == 0)
            n.seed = strtoull(argv[i + 1], NULL, 10);
        else
            rules = argv[i + 1];
    }
    if (rules)
        check_rules(&n, rules);
    for (const golden_case *c = golden_corpus; c->name && !rules; c++) {
        n.what = c->name;
        check_drawn(&n, c->draw);
    }
    n.what = "orders";
    n.orders = true;
    if (!rules)
        check_drawn(&n, draw_orders);
    n.orders = false;
    for (int i = 0; i < count && !rules; i++) {
        char what[60];
        snprintf(what, sizeof what, "random graph of seed %llu", (unsigned long long)n.seed);
        n.what = what;
        check_drawn(&n, NULL);
    }
    printf("%d programs, %d runs, %d wrong\n", n.n_programs, n.n_runs, n.n_bad);
    return n.n_bad != 0 || n.n_programs == 0 || (!rules && n.n_runs < n.n_programs);
}
