/* Gradients against differences, failures, and whether every op has a case. */
#include "case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double tolerance_of(const char *name)
{
#define TOLERANCE(op, f32, f64, reason)                                                        \
    if (strcmp(name, #op) == 0)                                                                \
        return f64;
#include "tolerance.def"
#undef TOLERANCE
    return 0;
}

/* ---- gradients --------------------------------------------------------------------------- */

typedef struct grad_user {
    tp_ctx *tp;
    const op_case *c;
    uint64_t seed;
} grad_user;

static tp_tensor *value_of(void *user, int n, tp_tensor *const *xs)
{
    const grad_user *u = user;
    tp_tensor *x[CASE_MAX_IN] = {0};
    memcpy(x, xs, sizeof *x * (size_t)n);
    tp_seed(u->tp, u->seed); /* the same random numbers each time */
    return u->c->call(u->tp, x);
}

static tp_tensor *gradient_of(void *user, int n, tp_tensor *const *xs)
{
    const grad_user *u = user;
    tp_tensor *dx[CASE_MAX_IN], *of[CASE_MAX_IN];
    int n_of = 0;
    for (int i = 0; i < n; i++)
        if (tp_dtype_of(xs[i]) == TP_F64)
            of[n_of++] = tp_require_grad(xs[i]);
    tp_tensor *y = value_of(user, n, xs);
    const int64_t count = tp_count(y); /* weights that do not depend on x */
    tp_tensor *weights = tp_cos(tp_arange(u->tp, TP_F64, count < 0 ? 0 : count, 1, 0.7));
    tp_grads(y, tp_reshape(weights, tp_rank(y), y->shape), n_of, of, dx);
    for (int i = 0; i < n_of; i++)
        dx[i] = tp_flatten(dx[i], 0);
    return tp_concat(n_of, dx, 0);
}

/* Are differences of it meaningful, and few enough? */
static bool can_differ(const op_case *c, tp_tensor *y, int64_t most)
{
    int n_float = 0;
    int64_t elements = 0;
    for (int i = 0; i < c->n_in; i++) {
        const case_operand *o = &c->in[i];
        int64_t n = 1;
        for (int k = 0; k < o->rank; k++)
            n *= o->shape[k];
        if (!case_is_float(o->dtype))
            continue;
        n_float++;
        elements += n;
        if (o->draw != DRAW_RANGE)
            return false;
    }
    return n_float > 0 && elements > 0 && elements <= most && tp_dtype_of(y) == TP_F64;
}

static void check(const case_options *o, const grad_user *u, tp_checked_function f,
                  tp_tensor **x, const char *what, const char *tolerance)
{
    double error = (double)NAN;
    const double most = tolerance_of(tolerance);
    const tp_status s = tp_grad_check(f, (void *)u, u->c->n_in, x, &error);
    if (s != TP_OK)
        case_fail(o, u->c, "%s: %s", what, tp_error_message(u->tp));
    else if (!(error <= most))
        case_fail(o, u->c, "%s: %.3g off the difference quotient, %.3g is allowed", what, error,
                  most);
    tp_clear_error(u->tp);
}

int case_mode_grad(const case_options *o, op_case *cases, int n)
{
    int looked_at = 0;
    for (int i = 0; i < n; i++) {
        const op_case *c = &cases[i];
        if (!case_wanted(o, c) || c->fails != TP_OK)
            continue;
        tp_ctx *tp = tp_open(NULL);
        tp_scope_begin(tp);
        const grad_user u = {tp, c, o->seed};
        tp_tensor *x[CASE_MAX_IN];
        case_draw_operands(tp, c, o->seed, true, x);
        tp_tensor *y = c->n_in ? value_of((void *)&u, c->n_in, x) : NULL;
        tp_clear_error(tp);
        if (y && can_differ(c, y, o->all ? 2000 : 300)) {
            looked_at++;
            check(o, &u, value_of, x, "gradient", "gradient");
            if (can_differ(c, y, o->all ? 300 : 64))
                check(o, &u, gradient_of, x, "second gradient", "second_gradient");
        }
        tp_close(tp);
    }
    return looked_at;
}

/* ---- failures ---------------------------------------------------------------------------- */

static bool names_line(const op_case *c, const char *text)
{
    char place[40];
    snprintf(place, sizeof place, "cases.def:%d: ", c->line);
    return strstr(text, place) != NULL;
}

static void expect_refusal(const case_options *o, const op_case *c, tp_ctx *tp, tp_tensor *y,
                           tp_status status, const char *what)
{
    if (!tp_failed(y) || tp_status_of(y) != status)
        case_fail(o, c, "%s: expected %s, got %s: %s", what, tp_status_name(status),
                  tp_status_name(tp_status_of(y)), tp_error_text(y));
    else if (!names_line(c, tp_error_text(y)))
        case_fail(o, c, "%s: the error does not name the line: %s", what, tp_error_text(y));
    else if (strcmp(tp_error_message(tp), tp_error_text(y)) != 0)
        case_fail(o, c, "%s: the context has another error: %s", what, tp_error_message(tp));
    tp_clear_error(tp);
}

/* The same refusal while a graph is built, or when it is run. */
static void refused_by_graph(const case_options *o, const op_case *c, tp_ctx *tp, tp_tensor **x,
                             tp_engine engine)
{
    const char *names[] = {"a", "b", "c", "d", "e", "f"}, *y_name = "y";
    const char *what = engine == TP_ENGINE_C ? "as a graph, by C" : "as a graph, by reference";
    tp_tensor *in[CASE_MAX_IN] = {0}, *out;
    tp_graph *g = tp_graph_new(tp);
    for (int i = 0; i < c->n_in; i++)
        in[i] = tp_placeholder(g, names[i], c->in[i].dtype, c->in[i].rank, c->in[i].shape);
    tp_tensor *y = c->call(tp, in);
    if (tp_failed(y)) {
        expect_refusal(o, c, tp, y, c->fails, "while a graph is built");
    } else {
        tp_name(y, y_name);
        tp_program *p = tp_graph_compile(g, c->n_in, names, 1, &y_name,
                                         &(tp_compile_options){.engine = engine});
        const tp_status s = p ? tp_program_run(p, x, &out) : tp_error(tp);
        if (s != c->fails || !names_line(c, tp_error_message(tp)))
            case_fail(o, c, "%s: expected %s, got %s: %s", what, tp_status_name(c->fails),
                      tp_status_name(s), tp_error_message(tp));
        tp_program_free(p);
    }
    tp_graph_free(g);
    tp_clear_error(tp);
}

static void check_refusal(const case_options *o, const op_case *c, tp_ctx *tp, tp_tensor **x)
{
    expect_refusal(o, c, tp, c->call(tp, x), c->fails, "eager");
    if (c->n_in > 0) {
        refused_by_graph(o, c, tp, x, TP_ENGINE_REFERENCE);
        if (c->fails == TP_E_VALUE)
            refused_by_graph(o, c, tp, x, TP_ENGINE_C);
    }
}

static void check_operand(const case_options *o, const op_case *c, tp_ctx *tp, tp_tensor **x,
                          int i)
{
    char what[80];
    tp_tensor *was = x[i];
    tp_tensor *failed = tp_reshape_at("earlier.c", 77, tp_scalar(tp, TP_F32, 1), TP_DIMS(2, 3));
    char first[300];
    snprintf(first, sizeof first, "%s", tp_error_text(failed));
    tp_clear_error(tp);
    x[i] = failed;
    tp_tensor *y = c->call(tp, x);
    if (!tp_failed(y) || strcmp(tp_error_text(y), first) != 0)
        case_fail(o, c, "failed operand %d: the result %s: %s", i,
                  tp_failed(y) ? "has another error" : "is good", tp_error_text(y));
    if (tp_error(tp) != TP_OK)
        case_fail(o, c, "failed operand %d: a second error: %s", i, tp_error_message(tp));
    tp_clear_error(tp);

    x[i] = NULL;
    y = c->call(tp, x);
    snprintf(what, sizeof what, "operand %d is NULL", i);
    if (c->in[i].optional) {
        if (tp_failed(y))
            case_fail(o, c, "operand %d is NULL and optional: %s", i, tp_error_text(y));
    } else if (!tp_failed(y) || tp_status_of(y) != TP_E_NULL) {
        case_fail(o, c, "%s: got %s: %s", what, tp_status_name(tp_status_of(y)),
                  tp_error_text(y));
    } else if (c->n_in > 1 && !names_line(c, tp_error_text(y))) {
        case_fail(o, c, "%s: the error does not name the line: %s", what, tp_error_text(y));
    }
    tp_clear_error(tp);
    x[i] = was;
}

int case_mode_fail(const case_options *o, op_case *cases, int n)
{
    int looked_at = 0;
    tp_ctx *tp = tp_open(NULL);
    for (int i = 0; i < n; i++) {
        const op_case *c = &cases[i];
        if (!case_wanted(o, c))
            continue;
        tp_scope_begin(tp);
        tp_tensor *x[CASE_MAX_IN];
        case_draw_operands(tp, c, o->seed, false, x);
        looked_at++;
        if (c->fails != TP_OK)
            check_refusal(o, c, tp, x);
        for (int k = 0; k < c->n_in && c->fails == TP_OK; k++)
            check_operand(o, c, tp, x, k);
        tp_scope_end(tp);
    }
    tp_close(tp);
    return looked_at;
}

/* ---- cover ------------------------------------------------------------------------------- */

static bool has_case(const op_case *cases, int n, const char *op, size_t length)
{
    for (int i = 0; i < n; i++)
        if (strlen(cases[i].op) == length && memcmp(cases[i].op, op, length) == 0 &&
            cases[i].fails == TP_OK)
            return true;
    return false;
}

/* Functions that a header of include/tapir declares, up to its layers, whose parameters no case can make. */
static int cover_header(const op_case *cases, int n, const char *header, int least)
{
    char path[1024], line[512];
    const char *source = getenv("TAPIR_SOURCE");
    int missing = 0, seen = 0;
    snprintf(path, sizeof path, "%s/include/tapir/%s", source ? source : ".", header);
    FILE *f = fopen(path, "r");
    if (!f) {
        printf("%s cannot be read: set TAPIR_SOURCE\n", path);
        return 1;
    }
    while (fgets(line, sizeof line, f) && strncmp(line, "/* ---- layers", 14) != 0) {
        const char *at = strncmp(line, "TP_FN(", 6) == 0 ? strstr(line, ", tp_") : NULL;
        if (!at)
            continue;
        at += 5;
        const size_t length = strcspn(at, ",");
        seen++;
        if (!has_case(cases, n, at, length)) {
            printf("tp_%.*s of %s has no case in test/modes/op/cases.def\n", (int)length, at,
                   header);
            missing++;
        }
    }
    fclose(f);
    return missing + (seen < least);
}

static int cover_functions(const op_case *cases, int n)
{
    return cover_header(cases, n, "ops.h", 50) + cover_header(cases, n, "composites.h", 30) +
           cover_header(cases, n, "indexing.h", 20) + cover_header(cases, n, "linalg.h", 15) +
           cover_header(cases, n, "random.h", 4) + cover_header(cases, n, "nn.h", 8) +
           cover_header(cases, n, "ragged.h", 20);
}

/* Every op of ops.def: in the graph of some case, forward or backward. */
static int cover_ops(op_case *cases, int n)
{
    bool seen[TPI_N_OPS] = {false};
    int missing = 0;
    for (int i = 0; i < n; i++) {
        const op_case *c = &cases[i];
        if (c->fails != TP_OK)
            continue;
        tp_ctx *tp = tp_open(NULL);
        tp_graph *g = tp_graph_new(tp);
        const char *names[] = {"a", "b", "c", "d", "e", "f"};
        tp_tensor *in[CASE_MAX_IN] = {0};
        case_results r;
        for (int k = 0; k < c->n_in; k++)
            in[k] = tp_placeholder(g, names[k], c->in[k].dtype, c->in[k].rank, c->in[k].shape);
        case_evaluate(tp, c, (case_kind){.second = true}, in, &r);
        for (int k = 0; k < g->n_nodes; k++)
            seen[g->nodes[k]->op->code] = true;
        tp_close(tp);
    }
    /* what blocks and their gradients are made of: test/modes/blocks runs its programs in every mode */
    static const tpi_opcode blocks[] = {TPI_OP_param,  TPI_OP_cond,     TPI_OP_loop,
                                        TPI_OP_output, TPI_OP_enter,    TPI_OP_row,
                                        TPI_OP_stack,  TPI_OP_add_rows, TPI_OP_assume};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        seen[blocks[i]] = true;
    for (int i = 0; i < TPI_N_OPS; i++)
        if (!seen[i]) {
            printf("op %s of ops.def is in no case of test/modes/op/cases.def\n",
                   tpi_ops[i]->name);
            missing++;
        }
    return missing;
}

int case_mode_cover(const case_options *o, op_case *cases, int n)
{
    (void)o;
    const int missing = cover_functions(cases, n) + cover_ops(cases, n);
    printf("%d missing\n", missing);
    return missing ? 0 : n;
}

/* ---- dump -------------------------------------------------------------------------------- */

/* DIR/list.txt has a line per case: name, line, number of operands, the call as written. */
int case_mode_dump(const case_options *o, op_case *cases, int n)
{
    char path[1200];
    int looked_at = 0;
    if (!o->dump)
        return 0;
    snprintf(path, sizeof path, "%s/list.txt", o->dump);
    FILE *list = fopen(path, "w");
    if (!list) {
        printf("%s cannot be written\n", path);
        return 0;
    }
    tp_ctx *tp = tp_open(NULL);
    for (int i = 0; i < n; i++) {
        const op_case *c = &cases[i];
        if (!case_wanted(o, c) || c->fails != TP_OK)
            continue;
        tp_scope_begin(tp);
        tp_tensor *x[CASE_MAX_IN];
        case_draw_operands(tp, c, o->seed, false, x);
        tp_tensor *y = c->call(tp, x);
        for (int k = 0; k <= c->n_in; k++) {
            snprintf(path, sizeof path, "%s/%d_%s.npy", o->dump, c->line,
                     k == c->n_in ? "y" : (const char *[]){"0", "1", "2", "3", "4", "5"}[k]);
            if (tp_npy_save(k == c->n_in ? y : x[k], path) != TP_OK)
                case_fail(o, c, "%s", tp_error_message(tp));
            tp_clear_error(tp);
        }
        fprintf(list, "%s\t%d\t%d\t%s\n", c->name, c->line, c->n_in, c->text);
        looked_at++;
        tp_scope_end(tp);
    }
    tp_close(tp);
    return fclose(list) == 0 ? looked_at : 0;
}
