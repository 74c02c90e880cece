/* Random programs: eager, reference and C give the same bits, forward and backward, with passes
 * left out in turn.
 *
 *     diff_random [--seed N] [--count N] [--batch N] [--way NAME]
 *
 * Program i has seed N + i. Several share a graph, because a run of the compiler is what costs.
 * One that fails is made smaller and printed as IR text. */
#include "random_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_BATCH = 8,
    MAX_FEEDS = MAX_BATCH * MAX_INPUTS,
    MAX_FETCHES = MAX_BATCH * MAX_RESULTS
};

typedef struct bed {
    tp_ctx *tp;
    tp_graph *g;
    int n_feeds, n_fetches;
    char feed_names[MAX_FEEDS][32], fetch_names[MAX_FETCHES][32];
    const char *feeds[MAX_FEEDS], *fetches[MAX_FETCHES];
    tp_tensor *values[MAX_FEEDS], *eager[MAX_FETCHES];
    const program *owner[MAX_FETCHES];
} bed;

typedef struct how {
    tp_engine engine;
    const char *skip, *text;
} how;

static const how ways[] = {
    {TP_ENGINE_REFERENCE, NULL,                    "reference"               },
    {TP_ENGINE_REFERENCE, "fold,algebra,cse",      "reference without passes"},
    {TP_ENGINE_TILES,     NULL,                    "tiles"                   },
    {TP_ENGINE_TILES,     "fuse,algebra,cse,fold", "tiles without passes"    },
    {TP_ENGINE_C,         NULL,                    "C"                       },
    {TP_ENGINE_C,         "fuse",                  "C without fuse"          },
    {TP_ENGINE_C,         "algebra",               "C without algebra"       },
    {TP_ENGINE_C,         "cse",                   "C without cse"           },
    {TP_ENGINE_C,         "fold",                  "C without fold"          },
    {TP_ENGINE_C,         "fuse,algebra,cse,fold", "C without passes"        },
};
enum { N_WAYS = sizeof ways / sizeof *ways, N_ALWAYS = 5 };

static int n_constant; /* programs whose sizes could not be symbols */

/* ---- building ---------------------------------------------------------------------------- */

static bool declare(bed *b, const program *p, int number, bool symbolic, tp_tensor **out)
{
    tp_tensor *in[MAX_INPUTS];
    for (int i = 0; i < p->n_inputs; i++) {
        int64_t shape[TP_MAX_RANK];
        for (int k = 0; k < p->rank[i]; k++) {
            char name[32];
            snprintf(name, sizeof name, "p%d_n%" PRId64, number, p->shape[i][k]);
            shape[k] = symbolic && p->shape[i][k] > 1 ? tp_symbol(b->g, name) : p->shape[i][k];
        }
        snprintf(b->feed_names[b->n_feeds + i], sizeof *b->feed_names, "p%d%s_x%d", number,
                 symbolic ? "" : "c", i);
        in[i] = tp_placeholder(b->g, b->feed_names[b->n_feeds + i], TP_F32, p->rank[i], shape);
    }
    program_run(p, in, out);
    const bool good = tp_error(b->tp) == TP_OK;
    if (!good && !symbolic)
        printf("program %" PRIu64 " is no graph: %s\n", p->seed, tp_error_message(b->tp));
    tp_clear_error(b->tp);
    return good;
}

static bool add_program(bed *b, const program *p, int number, bool symbolic)
{
    tp_tensor *out[MAX_RESULTS], *in[MAX_INPUTS];
    program_inputs(b->tp, p, in);
    const int n = program_run(p, in, b->eager + b->n_fetches);
    if (tp_error(b->tp) != TP_OK) {
        printf("program %" PRIu64 " fails eagerly: %s\n", p->seed, tp_error_message(b->tp));
        return false;
    }
    const bool as_symbols = symbolic && declare(b, p, number, true, out);
    n_constant += symbolic && !as_symbols;
    if (!as_symbols && !declare(b, p, number, false, out))
        return false;
    for (int i = 0; i < p->n_inputs; i++) {
        b->feeds[b->n_feeds] = b->feed_names[b->n_feeds];
        b->values[b->n_feeds++] = in[i];
    }
    for (int i = 0; i < n; i++) {
        tp_tensor *t = tp_graph_read(b->g, out[i]);
        snprintf(b->fetch_names[b->n_fetches], sizeof *b->fetch_names, "p%d_y%d", number, i);
        if (!tp_name_of(t))
            tp_name(t, b->fetch_names[b->n_fetches]);
        b->owner[b->n_fetches] = p;
        b->fetches[b->n_fetches++] = tp_name_of(t);
    }
    return true;
}

static bed *open_bed(void)
{
    bed *b = calloc(1, sizeof *b);
    if (!b)
        abort();
    b->tp = tp_open(NULL);
    b->g = tp_graph_new(b->tp);
    tp_scope_begin(b->tp);
    return b;
}

static void close_bed(bed *b)
{
    tp_close(b->tp);
    free(b);
}

/* ---- comparing --------------------------------------------------------------------------- */

static bool same_bits(tp_tensor *got, tp_tensor *want, char *why, size_t size)
{
    if (tp_failed(got) || tp_failed(want)) {
        snprintf(why, size, "%s", tp_error_text(tp_failed(got) ? got : want));
        return false;
    }
    bool same = tp_dtype_of(got) == TP_F32 && tp_rank(got) == tp_rank(want);
    for (int i = 0; same && i < tp_rank(want); i++)
        same = got->shape[i] == want->shape[i];
    if (!same) {
        snprintf(why, size, "%s, eager %s", SHAPE(got), SHAPE(want));
        return false;
    }
    const float *g = tp_data(tp_contiguous(got)), *w = tp_data(tp_contiguous(want));
    for (int64_t i = 0; i < tp_count(want); i++) {
        const bool both_nan = g[i] != g[i] && w[i] != w[i];
        if (memcmp(&g[i], &w[i], sizeof *g) == 0 || both_nan)
            continue;
        snprintf(why, size, "f32 %s differs first at %" PRId64 ": %.9g, eager %.9g",
                 SHAPE(want), i, (double)g[i], (double)w[i]);
        return false;
    }
    return true;
}

/* The first program of the bed that is not the same this way, or NULL. A program that does not
 * compile or run is blamed on the first. */
static const program *first_wrong(bed *b, const how *h, char *why, size_t size)
{
    static tp_tensor *out[MAX_FETCHES];
    const program *wrong = NULL;
    tp_program *p =
        tp_graph_compile(b->g, b->n_feeds, b->feeds, b->n_fetches, b->fetches,
                         &(tp_compile_options){.engine = h->engine, .skip_passes = h->skip});
    if (!p || tp_program_run(p, b->values, out) != TP_OK) {
        snprintf(why, size, "%s", tp_error_message(b->tp));
        wrong = b->owner[0];
    }
    for (int i = 0; i < b->n_fetches && !wrong; i++)
        if (!same_bits(out[i], b->eager[i], why, size))
            wrong = b->owner[i];
    tp_clear_error(b->tp);
    tp_program_free(p);
    return wrong;
}

/* ---- making smaller ---------------------------------------------------------------------- */

static bool is_wrong(const program *p, const how *h, char *why, size_t size, char **text)
{
    bed *b = open_bed();
    bool wrong = add_program(b, p, 0, true) && first_wrong(b, h, why, size);
    if (wrong && text)
        *text = tp_graph_text(b->g);
    if (wrong && text && *text)
        printf("%s", *text);
    close_bed(b);
    return wrong;
}

static void report(const program *p, const how *h, const char *name)
{
    char why[600] = "";
    program least = *p;
    if (!is_wrong(p, h, why, sizeof why, NULL)) {
        printf("program %" PRIu64 " fails only together with others\n", p->seed);
        return;
    }
    for (int gradients = 0; gradients < 2; gradients++)
        for (int k = 0; k < p->n_steps;
             k++) { /* the shortest prefix of which one value is wrong */
            program t = *p;
            t.gradients = gradients;
            t.n_wanted = 1;
            t.wanted[0] = p->n_inputs + k;
            program_trim(&t);
            if (t.n_steps < least.n_steps && is_wrong(&t, h, why, sizeof why, NULL)) {
                least = t;
                gradients = 2;
                break;
            }
        }
    char *text = NULL;
    printf("FAILED program %" PRIu64 " by %s, %d steps of %d:\n", p->seed, h->text,
           least.n_steps, p->n_steps);
    is_wrong(&least, h, why, sizeof why, &text);
    printf("    %s\n    repeat: %s --seed %" PRIu64 " --count 1\n", why, name, p->seed);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* what was found is there when time runs out */
    uint64_t seed = 1;
    int count = 60, batch = 6, n_failed = 0, n_steps = 0;
    const char *only = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--count") == 0)
            count = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--batch") == 0)
            batch = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--way") == 0)
            only = argv[i + 1];
    }
    batch = batch < 1 ? 1 : batch > MAX_BATCH ? MAX_BATCH : batch;
    for (int at = 0; at < count && n_failed < 5; at += batch) {
        static program programs[MAX_BATCH];
        bed *b = open_bed();
        const int number = at / batch;
        for (int i = 0; i < batch && at + i < count; i++) {
            tp_ctx *scratch = tp_open(NULL);
            tp_scope_begin(scratch);
            program_make(scratch, seed + (uint64_t)(at + i), &programs[i]);
            tp_close(scratch);
            n_steps += programs[i].n_steps;
            n_failed += !add_program(b, &programs[i], i, true);
        }
        for (int w = 0; w < N_WAYS; w++) {
            char why[600] = "";
            const bool turn = w < N_ALWAYS || w - N_ALWAYS == number % (N_WAYS - N_ALWAYS);
            if (only ? strcmp(only, ways[w].text) != 0 : count > 1 && !turn)
                continue;
            const program *wrong = first_wrong(b, &ways[w], why, sizeof why);
            if (wrong) {
                n_failed++;
                printf("%s\n", why);
                report(wrong, &ways[w], argv[0]);
                break;
            }
        }
        close_bed(b);
    }
    printf("%d programs of %d steps together, %d with constant sizes, seeds from %" PRIu64
           ", %d failed\n",
           count, n_steps, n_constant, seed, n_failed);
    return n_failed != 0 || n_constant > count / 2;
}
