/* Eager, reference, tiles and C program give the same bits. Many cases share one graph, because each
 * program costs a run of the compiler. */
#include "case.h"
#include "common/alone.h"
#include "common/pass_list.h"
#include "common/same.h"
#include "pass/leave.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 40, MAX_FEEDS = BATCH * CASE_MAX_IN, MAX_FETCHES = BATCH * CASE_MAX_OUT };

typedef struct batch {
    const case_options *o;
    tp_ctx *tp;
    tp_graph *g;
    case_kind kind;
    bool symbolic;
    int n;
    const op_case *cases[BATCH];
    int n_feeds;
    const char *feeds[MAX_FEEDS];
    tp_tensor *values[MAX_FEEDS];
    int n_out[BATCH]; /* results per case */
    const char *what[BATCH][CASE_MAX_OUT];
    int n_fetches;
    const char *fetches[MAX_FETCHES];
    tp_tensor *eager[MAX_FETCHES];
    char names[MAX_FEEDS + MAX_FETCHES][48];
    int n_names, serial;
} batch;

static const char *name_of(batch *b, const char *kind, int i, int k)
{
    char *name = b->names[b->n_names++];
    snprintf(name, sizeof *b->names, "%s_%s_%d_%d", b->cases[i]->op, kind, k, b->serial++);
    return name;
}

/* Sizes that are equal in a case are one symbol, but those that are 1. */
static tp_tensor *placeholder(batch *b, int i, int k)
{
    const case_operand *o = &b->cases[i]->in[k];
    int64_t shape[TP_MAX_RANK];
    for (int axis = 0; axis < o->rank; axis++) {
        char name[48];
        snprintf(name, sizeof name, "s%d_%" PRId64, i, o->shape[axis]);
        shape[axis] = b->symbolic && !o->fixed && o->shape[axis] != 1 ? tp_symbol(b->g, name)
                                                                      : o->shape[axis];
    }
    b->feeds[b->n_feeds] = name_of(b, "in", i, k);
    return tp_placeholder(b->g, b->feeds[b->n_feeds++], o->dtype, o->rank, shape);
}

static void fetch(batch *b, int i, int k, tp_tensor *t)
{
    t = tp_graph_read(b->g, t);
    if (!tp_name_of(t))
        tp_name(t, name_of(b, "out", i, k));
    b->fetches[b->n_fetches++] = tp_name_of(t);
}

/* Eager results, then the same as nodes. A case that does not build leaves the batch. */
static bool add_case(batch *b, const op_case *c)
{
    tp_ctx *tp = b->tp;
    const int i = b->n, feeds = b->n_feeds, names = b->n_names;
    tp_tensor *x[CASE_MAX_IN], *in[CASE_MAX_IN] = {0};
    case_results eager, nodes;
    b->cases[i] = c;
    case_draw_operands(tp, c, b->o->seed, false, x);
    for (int k = 0; k < c->n_in; k++)
        if (case_is_float(tp_dtype_of(x[k])))
            tp_require_grad(x[k]);
    case_evaluate(tp, c, b->kind, x, &eager);
    if (tp_error(tp) != TP_OK) {
        case_fail(b->o, c, "eager: %s", tp_error_message(tp));
        tp_clear_error(tp);
        return false;
    }
    const uint64_t random_at = tp->random_at;
    for (int k = 0; k < c->n_in; k++)
        in[k] = placeholder(b, i, k);
    case_evaluate(tp, c, b->kind, in, &nodes);
    tp->random_at = random_at;
    if (tp_error(tp) != TP_OK || nodes.n != eager.n) {
        case_fail(b->o, c, "as a graph%s, %d of %d results: %s",
                  b->symbolic ? " of symbolic sizes" : "", nodes.n, eager.n,
                  tp_error_message(tp));
        tp_clear_error(tp);
        b->n_feeds = feeds;
        b->n_names = names;
        return false;
    }
    for (int k = 0; k < c->n_in; k++)
        b->values[feeds + k] = x[k];
    for (int k = 0; k < nodes.n; k++) {
        b->what[i][k] = nodes.what[k];
        b->eager[b->n_fetches] = eager.t[k];
        fetch(b, i, k, nodes.t[k]);
    }
    b->n_out[i] = nodes.n;
    b->n++;
    return true;
}

/* ---- running ----------------------------------------------------------------------------- */

static void compare(const batch *b, tp_tensor **out, const char *how)
{
    int at = 0;
    for (int i = 0; i < b->n; i++)
        for (int k = 0; k < b->n_out[i]; k++, at++) {
            char why[800];
            if (!same_tensors(out[at], b->eager[at], SAME_ZEROS_BITS, why, sizeof why))
                case_fail(b->o, b->cases[i], "%s%s, %s number %d: %s", how,
                          b->kind.wrapped ? ", between other ops" : "", b->what[i][k], k, why);
        }
}

static void blame(const batch *b, const char *how)
{
    case_fail(b->o, b->cases[0], "%s, with the %d cases from here on: %s", how, b->n,
              tp_error_message(b->tp));
    tp_clear_error(b->tp);
}

static void run(const batch *b, tp_graph *g, const char *how, const tp_compile_options *options)
{
    tp_tensor *out[MAX_FETCHES];
    tp_ctx *tp = b->tp;
    tp_program *p =
        tp_graph_compile(g, b->n_feeds, b->feeds, b->n_fetches, b->fetches, options);
    if (!p) {
        blame(b, how);
        return;
    }
    tp_seed(tp, b->o->seed);
    if (tp_program_run(p, b->values, out) != TP_OK)
        blame(b, how);
    else
        compare(b, out, how);
    const char *used = options->engine == TP_ENGINE_C       ? "c"
                       : options->engine == TP_ENGINE_TILES ? "tiles"
                                                            : "reference";
    if (tp_error(tp) == TP_OK && strcmp(tp_program_engine(p), used) != 0)
        case_fail(b->o, b->cases[0], "%s ran on %s", how, tp_program_engine(p));
    tp_program_free(p);
}

/* The text of the graph parses to a graph with the same text; its file loads to one too, which
 * computes the same, unless a kernel of the user's does, which is in no text. */
static void through_text_and_file(const batch *b)
{
    static const tp_compile_options reference = {.engine = TP_ENGINE_REFERENCE};
    tp_ctx *tp = b->tp;
    const bool runs = tpi_leaves_as_it_is(b->g);
    char *text = tp_graph_text(b->g), path[] = "op_cases_XXXXXX";
    tp_graph *parsed = text ? tp_graph_parse(tp, text, strlen(text)) : NULL;
    char *again = parsed ? tp_graph_text(parsed) : NULL;
    if (!again)
        blame(b, "parsing the text of the graph");
    else if (strcmp(text, again) != 0)
        case_fail(b->o, b->cases[0],
                  "the text of the %d cases from here on changes when it is "
                  "parsed and printed again",
                  b->n);
    else if (runs)
        run(b, parsed, "parsed from text", &reference);
    if (parsed && tp_graph_verify(parsed) != TP_OK)
        blame(b, "verifying the parsed graph");
    tp_free(tp, text);
    tp_free(tp, again);
    tp_graph_free(parsed);

    const int fd = mkstemp(path);
    tp_graph *loaded = NULL;
    if (fd >= 0 && tp_graph_save(b->g, path) == TP_OK)
        loaded = tp_graph_load(tp, path);
    if (loaded && runs)
        run(b, loaded, "saved and loaded", &reference);
    else if (!loaded)
        blame(b, "saving and loading the graph");
    tp_graph_free(loaded);
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
}

/* As a C file that stands alone: by one compiler, or by all. */
static void run_alone(const batch *b, int number)
{
    enum { N_HOSTS = 4 };
    char name[24];
    snprintf(name, sizeof name, "cases_%d", number);
    tp_seed(b->tp, b->o->seed);
    const alone a = {.dir = b->o->dump ? b->o->dump : ".",
                     .name = name,
                     .tp = b->tp,
                     .g = b->g,
                     .n_in = b->n_feeds,
                     .n_out = b->n_fetches,
                     .in = b->feeds,
                     .out = b->fetches,
                     .n_sets = 1,
                     .feeds = b->values,
                     .options = {.beside = number % 4 == 1}};
    if (!alone_write(&a)) {
        blame(b, "as a C file");
        return;
    }
    for (int i = 0; i < N_HOSTS; i++) {
        const alone_target *t = &alone_hosts[i];
        if ((b->o->all || number / 6 % N_HOSTS == i) && alone_has(t) &&
            !alone_try(a.dir, name, t))
            case_fail(b->o, b->cases[0], "as a C file, %s, with the %d cases from here on",
                      t->name, b->n);
    }
}

static void run_batch(batch *b, int number)
{
    if (b->n == 0)
        return;
    if (strcmp(b->o->mode, "alone") == 0) {
        if (b->o->all || b->o->only || number % 18 == b->o->third % 3 * 6)
            run_alone(b, number);
        return;
    }
    if (tp_graph_verify(b->g) != TP_OK)
        blame(b, "verifying the graph");
    run(b, b->g, "reference", &(tp_compile_options){.engine = TP_ENGINE_REFERENCE});
    if (strcmp(b->o->mode, "validate") == 0)
        return;
    run(b, b->g, "reference, no passes",
        &(tp_compile_options){.engine = TP_ENGINE_REFERENCE, .skip_passes = tpi_pass_names});
    run(b, b->g, "tiles", &(tp_compile_options){.engine = TP_ENGINE_TILES});
    char passes[MOST_PASSES + 1][MOST_PASS_NAME];
    const int n_passes = pass_list(passes) + 1; /* the last: all */
    /* A run of the compiler takes longer than all else: one forty of three is a C program, and of ops between others one of
     * twelve, each with another pass left out; -1: with all passes. */
    const int step = b->kind.wrapped ? 4 : 1;
    const bool in_c =
        b->o->all || b->o->only || number % (3 * step) == b->o->third % 3 * step;
    const int only = b->kind.wrapped ? number / 4 % (n_passes + 1) - 1 : -1;
    if (in_c && (b->o->all || only < 0))
        run(b, b->g, "C", &(tp_compile_options){.engine = TP_ENGINE_C});
    for (int i = 0; i < n_passes; i++) {
        const char *skip = i == n_passes - 1 ? tpi_pass_names : passes[i];
        char how[1000];
        snprintf(how, sizeof how, "tiles without %s", skip);
        run(b, b->g, how,
            &(tp_compile_options){.engine = TP_ENGINE_TILES, .skip_passes = skip});
        if (!in_c || (!b->o->all && i != only))
            continue;
        snprintf(how, sizeof how, "C without %s", skip);
        run(b, b->g, how, &(tp_compile_options){.engine = TP_ENGINE_C, .skip_passes = skip});
    }
    if (!b->kind.wrapped)
        through_text_and_file(b);
}

/* Between other ops, integers meet little that is new: only with --all. */
static bool has_float(const op_case *c)
{
    for (int i = 0; i < c->n_in; i++)
        if (case_is_float(c->in[i].dtype))
            return true;
    return false;
}

static bool draws_random(const op_case *c)
{
    static const char *const names[] = {"dropout", "bernoulli", "categorical", "gamma",
                                        "random_stream"};
    bool does = strstr(c->op, "_like");
    for (int i = 0; i < 5; i++)
        does |= strcmp(c->op, names[i]) == 0;
    return does;
}

int case_mode_graph(const case_options *o, op_case *cases, int n)
{
    int looked_at = 0, number = 0;
    batch *b = malloc(sizeof *b);
    if (!b)
        return 0;
    for (int wrapped = 0; wrapped < 2; wrapped++)
        for (int random = 0; random < 2; random++)
            for (int at = 0; at < n;) {
                *b = (batch){.o = o,
                             .tp = tp_open(NULL),
                             .kind = {.wrapped = wrapped},
                             .symbolic = !wrapped};
                b->g = tp_graph_new(b->tp);
                tp_seed(b->tp, o->seed);
                tp_scope_begin(b->tp);
                for (; at < n && b->n < BATCH; at++) {
                    b->kind.second = o->all || o->only || (!wrapped && at % 3 == 0);
                    if (case_wanted(o, &cases[at]) && cases[at].fails == TP_OK &&
                        draws_random(&cases[at]) == random && cases[at].n_in > 0 &&
                        (!wrapped || o->all || has_float(&cases[at])))
                        looked_at += add_case(b, &cases[at]);
                }
                run_batch(b, number++);
                tp_close(b->tp);
            }
    free(b);
    return looked_at;
}
