/* Every case of cases.def in one mode.
 *
 *     op_cases MODE [--case OP or OP/N] [--seed N] [--all] [--third N] [--dump DIR]
 *
 * MODE: graph   eager = reference = C program, alone and between other ops, with passes left
 *               out, forward and backward, after printing and parsing, after saving and loading
 *       grad    first and second gradient in f64 against differences
 *       fail    failed and missing operands; refusals
 *       cover   every op of ops.def and every function of ops.h, composites.h, indexing.h, linalg.h,
 *               random.h, nn.h and ragged.h has a case
 *       factors  axis factors: parts of a result are those of parts of the operands
 *       vmap    tp_vmap over samples gives what each sample gives alone
 *       jvp     tp_jvp gives what reverse mode gives that is gone through twice
 *       dump    operands and results as .npy files into DIR, for numpy.py
 *       onnx    models with operands and results into DIR, for test/outside/export
 *       validate  graphs are compiled for the reference: with TAPIR_VALIDATE=1 each pass is looked at
 *       alone   C files that stand alone, in DIR (some of them, or --all)
 * --all: slow; every pass left out in turn, second gradients in C programs too. --third: which third of the cases are C
 * programs in mode graph, or of some of them C files in mode alone: another each day; with --case or --all all are. */
#include "case.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int n_failures;

bool case_wanted(const case_options *o, const op_case *c)
{
    if (!o->only)
        return true;
    return strcmp(o->only, strchr(o->only, '/') ? c->name : c->op) == 0;
}

void case_fail(const case_options *o, const op_case *c, const char *format, ...)
{
    char shapes[300], text[1500];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    n_failures++;
    if (n_failures > 40)
        return;
    printf(
        "FAILED %s (test/modes/op/cases.def:%d) %s\n    %s\n    repeat: %s %s --case %s --seed "
        "%" PRIu64 "\n",
        c->name, c->line, case_shapes(c, shapes, sizeof shapes), text, o->program, o->mode,
        c->name, o->seed);
    fflush(stdout);
}

int case_failures(void)
{
    return n_failures;
}

/* ---- results ----------------------------------------------------------------------------- */

static void add_result(case_results *r, tp_tensor *t, const char *what)
{
    r->t[r->n] = t;
    r->what[r->n++] = what;
}

/* Elementwise, so that it fuses with what reads it; a different mix of numbers. */
static tp_tensor *produced(tp_tensor *x)
{
    if (!case_is_float(tp_dtype_of(x)))
        return x;
    tp_tensor *small = tp_lt(tp_abs(x), tp_scalar_like(x, 0.5));
    return tp_where(small, x,
                    tp_sub(tp_mul(x, tp_scalar_like(x, 1.25)), tp_scalar_like(x, 0.125)));
}

static tp_tensor *consumed(tp_tensor *y)
{
    if (tp_dtype_of(y) == TP_BOOL)
        return tp_not(y);
    tp_tensor *twice = tp_add(y, y);
    if (!case_is_float(tp_dtype_of(y)))
        return tp_neg(tp_max(twice, y));
    tp_tensor *bent = tp_add(tp_sigmoid(y), tp_neg(twice));
    if (tp_rank(y) == 0)
        return bent;
    return tp_sub(bent, tp_mean(tp_relu(y), TP_DIMS(-1), true));
}

/* d(y)/dx for the float operands, weighed by y itself. */
static int gradients(const op_case *c, tp_tensor *y, tp_tensor *const *x, case_results *r,
                     const char *what)
{
    tp_tensor *xs[CASE_MAX_IN], *dx[CASE_MAX_IN];
    int n = 0;
    for (int i = 0; i < c->n_in; i++)
        if (case_is_float(tp_dtype_of(x[i])))
            xs[n++] = x[i];
    if (n == 0 || tp_failed(y) || !case_is_float(tp_dtype_of(y)))
        return 0;
    tp_grads(y, y, n, xs, dx);
    for (int i = 0; i < n; i++)
        add_result(r, dx[i], what);
    return n;
}

void case_evaluate(tp_ctx *tp, const op_case *c, case_kind kind, tp_tensor *const *x,
                   case_results *r)
{
    r->n = 0;
    tp_tensor *in[CASE_MAX_IN] = {0};
    for (int i = 0; i < c->n_in; i++)
        in[i] = kind.wrapped ? produced(x[i]) : x[i];
    tp_tensor *y = c->call(tp, in);
    add_result(r, y, "result");
    if (tp_failed(y))
        return;
    if (kind.wrapped) {
        y = consumed(y);
        add_result(r, y, "result consumed");
    }
    const int at = r->n, n = gradients(c, y, x, r, "gradient");
    if (kind.second && n > 0)
        gradients(c, r->t[at], x, r, "second gradient");
}

/* ---- command line ------------------------------------------------------------------------ */

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(const case_options *o, op_case *cases, int n);
    } modes[] = {
        {"graph",    case_mode_graph  },
        {"grad",     case_mode_grad   },
        {"fail",     case_mode_fail   },
        {"cover",    case_mode_cover  },
        {"factors",  case_mode_factors},
        {"dump",     case_mode_dump   },
        {"onnx",     case_mode_onnx   },
        {"alone",    case_mode_graph  },
        {"validate", case_mode_graph  },
        {"vmap",     case_mode_vmap   },
        {"jvp",      case_mode_jvp    }
    };
    setvbuf(stdout, NULL, _IOLBF, 0); /* what was found is there when time runs out */
    case_options o = {.mode = argc > 1 ? argv[1] : "", .program = argv[0], .seed = 1};
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--all") == 0)
            o.all = true;
        else if (strcmp(argv[i], "--case") == 0 && i + 1 < argc)
            o.only = argv[++i];
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            o.seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--dump") == 0 && i + 1 < argc)
            o.dump = argv[++i];
        else if (strcmp(argv[i], "--third") == 0 && i + 1 < argc)
            o.third = atoi(argv[++i]);
        else
            o.mode = "";
    }
    int n;
    op_case *cases = case_list(&n);
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
        if (strcmp(modes[m].name, o.mode) == 0) {
            const int looked_at = modes[m].run(&o, cases, n);
            printf("%s: %d runs of %d cases, %d failures, seed %" PRIu64 "\n", o.mode,
                   looked_at, n, n_failures, o.seed);
            return n_failures || looked_at == 0;
        }
    fprintf(stderr, "usage: op_cases MODE [--case OP or OP/N] [--seed N] [--all] "
                    "[--third N] [--dump DIR]\n"
                    "MODE: graph, grad, fail, cover, factors, dump, onnx, vmap, jvp, validate or alone\n");
    return 2;
}
