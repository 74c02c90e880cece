/* Random programs: eager, reference, tiles, C and a C file that stands alone give the same bits,
 * forward and backward, with passes left out in turn, at two sets of sizes.
 *
 *     diff_random [--seed N] [--count N] [--batch N] [--threads N] [--way NAME]
 *                 [--near BYTES] [--c N] [--alone N] [--dir DIR]
 *
 * Program i has seed N + i. Several share a graph, because a run of the compiler is what costs: every
 * batch goes by the reference and by tiles, one of --c by C, one of --alone into a C file (in DIR), each
 * of these in the next of its ways. Caches are taken to be small by turns, as if programs were large ones.
 * One that fails is made smaller and printed as IR text. */
#include "common/alone.h"
#include "common/pass_list.h"
#include "common/same.h"
#include "op/random_position.h"
#include "random_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_BATCH = 32,
    MAX_FEEDS = MAX_BATCH * MAX_INPUTS,
    MAX_FETCHES = MAX_BATCH * MAX_RESULTS,
    N_SETS = 2, /* of sizes */
    MAX_WAYS = 64,
    SEED = 5
};

typedef struct bed {
    tp_ctx *tp;
    tp_graph *g;
    int n_programs, n_feeds, n_fetches, n_sets, first_node;
    const program *programs[MAX_BATCH];
    int first_feed[MAX_BATCH], first_fetch[MAX_BATCH];
    char feed_names[MAX_FEEDS][32], fetch_names[MAX_FETCHES][32];
    const char *feeds[MAX_FEEDS], *fetches[MAX_FETCHES];
    tp_tensor *values[N_SETS * MAX_FEEDS];
    tp_tensor *want[N_SETS][MAX_FETCHES]; /* eager; of the reference when that has run */
    bool loose[MAX_FETCHES];              /* the eager one may have a zero of another sign */
    const program *owner[MAX_FETCHES];
} bed;

typedef enum kind { PLAIN, BY_C, ALONE } kind;

typedef struct way {
    kind kind;
    tp_engine engine;
    const char *skip;
    const alone_target *target;
    char name[1100];
} way;

typedef struct run {
    uint64_t seed;
    int count, batch, threads, only_threads, c_share, alone_share;
    int near,
        only_near; /* bytes of the second cache; 0: the machine's, 1: kernels are cut by chance, -1: by turns */
    const char *only, *dir, *program;
    way ways[MAX_WAYS];
    int n_ways, n_failed, n_steps;
    int n_constant;          /* programs whose sizes could not be symbols */
    int n_compiled, n_alone; /* batches */
    bool met[TPI_N_OPS];     /* ops */
} run;

/* ---- ways --------------------------------------------------------------------------------- */

static way *add_way(run *r, kind k, tp_engine engine, const char *skip)
{
    static const char *const names[] = {
        [TP_ENGINE_REFERENCE] = "reference", [TP_ENGINE_TILES] = "tiles", [TP_ENGINE_C] = "C"};
    way *w = &r->ways[r->n_ways++];
    *w = (way){.kind = k, .engine = engine, .skip = skip};
    snprintf(w->name, sizeof w->name, "%s%s%s", names[engine], skip ? " without " : "",
             !skip               ? ""
             : strchr(skip, ',') ? "passes"
                                 : skip);
    return w;
}

/* The reference first: the others are compared with it. */
static void list_ways(run *r)
{
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    static char passes[MOST_PASSES][MOST_PASS_NAME];
    const int n_passes = pass_list(passes);
    for (int e = 0; e < 3; e++) {
        const kind k = engines[e] == TP_ENGINE_C ? BY_C : PLAIN;
        add_way(r, k, engines[e], NULL);
        add_way(r, k, engines[e], tpi_pass_names);
        for (int i = 0; i < n_passes && e > 0; i++)
            add_way(r, k, engines[e], passes[i]);
    }
    for (const alone_target *t = alone_hosts; t->name; t++) {
        way *w = add_way(r, ALONE, TP_ENGINE_C, NULL);
        w->target = t;
        snprintf(w->name, sizeof w->name, "alone by %s", t->name);
    }
}

/* ---- building ---------------------------------------------------------------------------- */

/* Is a size of a node, of symbols, 1 at a set of sizes? Eager ops then see an axis over which nothing is
 * broadcast and nothing needs to be added up, which a graph cannot know. */
static bool has_ones(const bed *b)
{
    enum { MOST_SYMBOLS = 1024, TURNS = 1000 };
    static int64_t symbols[MOST_SYMBOLS];
    for (int set = 0; set < N_SETS; set++) {
        for (int i = 0; i < tpi_dim_n_symbols(b->g->dims) && i < MOST_SYMBOLS; i++) {
            const char *n = strstr(tpi_dim_symbol_name(b->g->dims, i), "_n");
            symbols[i] = (n ? atoi(n + 2) : TURNS) + set;
        }
        for (int i = b->first_node; i < b->g->n_nodes; i++)
            for (int k = 0; k < b->g->nodes[i]->rank; k++) {
                const int64_t size = b->g->nodes[i]->shape[k];
                if (tpi_dim_is_symbolic(size) && tpi_dim_eval(b->g->dims, size, symbols) == 1)
                    return true;
            }
    }
    return false;
}

static bool declare(bed *b, const program *p, bool symbolic, tp_tensor **out)
{
    const int number = b->n_programs;
    tp_tensor *in[MAX_INPUTS];
    b->first_node = b->g->n_nodes;
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
    const uint64_t random_at = b->tp->random_at;
    program_run(p, in, out);
    b->tp->random_at = random_at;
    const bool good = tp_error(b->tp) == TP_OK && !(symbolic && has_ones(b));
    if (!good && !symbolic)
        printf("program %" PRIu64 " is no graph: %s\n", p->seed, tp_error_message(b->tp));
    tp_clear_error(b->tp);
    return good;
}

/* May sizes be symbols? In a graph of its own: draws that are left in one go on being its draws. */
static bool takes_symbols(bed *b, const program *p)
{
    tp_graph *const shared = b->g;
    tp_tensor *out[MAX_RESULTS];
    b->g = tp_graph_new(b->tp);
    const bool takes = b->g && declare(b, p, true, out);
    tp_graph_free(b->g);
    b->g = shared;
    return takes;
}

static bool eagerly(bed *b, int number, int set, bool other)
{
    const program *p = b->programs[number];
    tp_tensor **in = b->values + set * MAX_FEEDS + b->first_feed[number];
    tpi_positions begins;
    if (!tpi_positions_note(b->tp, &begins))
        return false;
    program_inputs(b->tp, p, other, in);
    program_run(p, in, b->want[set] + b->first_fetch[number]);
    const bool good = tp_error(b->tp) == TP_OK;
    if (!good)
        tpi_positions_back(b->tp, &begins);
    tpi_positions_free(b->tp, &begins);
    return good;
}

static bool add_program(run *r, bed *b, const program *p)
{
    tp_tensor *out[MAX_RESULTS];
    const int number = b->n_programs;
    b->programs[number] = p;
    b->first_feed[number] = b->n_feeds;
    b->first_fetch[number] = b->n_fetches;
    if (!eagerly(b, number, 0, false)) {
        printf("program %" PRIu64 " fails eagerly: %s\n", p->seed, tp_error_message(b->tp));
        tp_clear_error(b->tp);
        return false;
    }
    const bool as_symbols = takes_symbols(b, p);
    r->n_constant += !as_symbols;
    if (!declare(b, p, as_symbols, out))
        return false;
    for (int i = 0; i < p->n_inputs; i++, b->n_feeds++)
        b->feeds[b->n_feeds] = b->feed_names[b->n_feeds];
    const int n = p->n_wanted + p->order * p->n_inputs;
    for (int i = 0; i < n; i++, b->n_fetches++) {
        char *name = b->fetch_names[b->n_fetches];
        tp_tensor *t = tp_graph_read(b->g, out[i]);
        snprintf(name, sizeof *b->fetch_names, "p%d_y%d", number, i);
        if (!tp_name_of(t) && tp_failed(tp_name(t, name)))
            return false;
        b->owner[b->n_fetches] = p;
        b->loose[b->n_fetches] = i >= p->n_wanted && program_has_block(p);
        b->fetches[b->n_fetches] = tp_name_of(t);
    }
    b->n_programs++;
    return true;
}

/* The second set: sizes that are larger by one, where the program takes them. */
static void add_sizes(bed *b)
{
    b->n_sets = N_SETS;
    for (int i = 0; i < b->n_programs; i++) {
        const tp_tensor *x = tp_graph_find(b->g, b->feeds[b->first_feed[i]]);
        bool other = strchr(tp_name_of(x), 'c') == NULL && eagerly(b, i, 1, true);
        tp_clear_error(b->tp);
        if (!other && !eagerly(b, i, 1, false)) /* other numbers are drawn */
            b->n_sets = 1;
    }
    tp_clear_error(b->tp);
}

static bed *open_bed(const run *r)
{
    bed *b = calloc(1, sizeof *b);
    if (!b)
        abort();
    b->tp = tp_open(&(tp_options){.threads = r->threads, .seed = SEED});
    if (r->near)
        b->tp->near_bytes = b->tp->far_bytes = r->near;
    b->tp->chance = r->near == 1;
    b->g = tp_graph_new(b->tp);
    tp_scope_begin(b->tp);
    return b;
}

static void close_bed(bed *b)
{
    tp_close(b->tp);
    free(b);
}

static void note_ops(run *r, const tp_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        tpi_body *bodies[2];
        const tp_tensor *t = g->nodes[i];
        r->met[t->op->code] = true;
        const int n = tpi_is_block(t) ? tpi_bodies_of(t, bodies) : 0;
        for (int k = 0; k < n; k++)
            note_ops(r, bodies[k]->graph);
    }
}

/* ---- comparing --------------------------------------------------------------------------- */

/* The first program whose results are not the same, or NULL. Of the reference, which comes first, they
 * are what the others are compared with. */
static const program *compare(bed *b, const way *w, int set, tp_tensor **out, char *why,
                              size_t size)
{
    const bool first = w->engine == TP_ENGINE_REFERENCE && !w->skip;
    for (int i = 0; i < b->n_fetches; i++) {
        const same_zeros zeros = first && b->loose[i] ? SAME_ZEROS_EQUAL : SAME_ZEROS_BITS;
        char text[400];
        if (!same_tensors(out[i], b->want[set][i], zeros, text, sizeof text)) {
            snprintf(why, size, "%s%s: %s%s", b->fetches[i], set ? " at other sizes" : "", text,
                     first ? " (eager)" : " (reference)");
            return b->owner[i];
        }
        if (first)
            b->want[set][i] = out[i];
    }
    return NULL;
}

/* A program that does not compile or run is blamed on the first. */
static const program *run_program(bed *b, const way *w, char *why, size_t size)
{
    static tp_tensor *out[MAX_FETCHES];
    const program *wrong = NULL;
    tp_program *p =
        tp_graph_compile(b->g, b->n_feeds, b->feeds, b->n_fetches, b->fetches,
                         &(tp_compile_options){.engine = w->engine, .skip_passes = w->skip});
    tp_seed(b->tp, SEED);
    for (int set = 0; set < b->n_sets && !wrong; set++) {
        if (p && tp_program_run(p, b->values + set * MAX_FEEDS, out) == TP_OK) {
            wrong = compare(b, w, set, out, why, size);
            continue;
        }
        snprintf(why, size, "%s", tp_error_message(b->tp));
        wrong = b->owner[0];
    }
    tp_clear_error(b->tp);
    tp_program_free(p);
    return wrong;
}

/* Whose result the first line is that the C file prints otherwise. */
static const program *blame(const bed *b, const char *path, char *why, size_t size)
{
    char got_path[1200], got[100], want[100];
    snprintf(got_path, sizeof got_path, "%s.got", path);
    FILE *g = fopen(got_path, "r");
    snprintf(got_path, sizeof got_path, "%s.expected", path);
    FILE *e = fopen(got_path, "r");
    const program *wrong = b->owner[0];
    snprintf(why, size, "it does not compile, or prints too little");
    for (int i = 0; g && e && fgets(got, sizeof got, g) && fgets(want, sizeof want, e); i++)
        if (strcmp(got, want) != 0) {
            const int k = i % b->n_fetches;
            snprintf(why, size, "%s%s: other bits", b->fetches[k],
                     i < b->n_fetches ? "" : " at other sizes");
            wrong = b->owner[k];
            break;
        }
    if (g)
        fclose(g);
    if (e)
        fclose(e);
    return wrong;
}

static const program *run_alone(const run *r, bed *b, const way *w, char *why, size_t size)
{
    static tp_tensor *feeds[N_SETS * MAX_FEEDS], *known[N_SETS * MAX_FETCHES];
    char path[1100];
    for (int set = 0; set < b->n_sets; set++) {
        memcpy(feeds + set * b->n_feeds, b->values + set * MAX_FEEDS,
               (size_t)b->n_feeds * sizeof *feeds);
        memcpy(known + set * b->n_fetches, b->want[set], (size_t)b->n_fetches * sizeof *known);
    }
    tp_seed(b->tp, SEED);
    const alone a = {.dir = r->dir,
                     .name = "random",
                     .tp = b->tp,
                     .g = b->g,
                     .n_in = b->n_feeds,
                     .n_out = b->n_fetches,
                     .in = b->feeds,
                     .out = b->fetches,
                     .n_sets = b->n_sets,
                     .feeds = feeds,
                     .known = known,
                     .memory = (int64_t)1 << 28};
    snprintf(path, sizeof path, "%s/random", r->dir);
    if (!alone_write(&a)) {
        snprintf(why, size, "it is not written");
        return b->owner[0];
    }
    return alone_try(r->dir, a.name, w->target) ? NULL : blame(b, path, why, size);
}

static const program *first_wrong(const run *r, bed *b, const way *w, char *why, size_t size)
{
    return w->kind == ALONE ? run_alone(r, b, w, why, size) : run_program(b, w, why, size);
}

/* ---- making smaller ---------------------------------------------------------------------- */

/* A program, and those of its batch that it is wrong together with. */
typedef struct suspect {
    run *r;
    const way *w;
    char why[600];
    bool print;
    int n, which;            /* programs of the batch; the one */
    const program *programs; /* of the batch */
    bool with[MAX_BATCH];
} suspect;

static bool is_wrong(void *user, const program *p)
{
    suspect *s = user;
    char why[600] = "";
    bed *b = open_bed(s->r);
    const int n_constant = s->r->n_constant;
    bool wrong = true;
    for (int i = 0; i < s->n && wrong; i++)
        if (i == s->which || s->with[i])
            wrong = add_program(s->r, b, i == s->which ? p : &s->programs[i]);
    if (wrong) {
        add_sizes(b);
        const bool reference = run_program(b, &s->r->ways[0], why, sizeof why) != NULL;
        if (s->w != &s->r->ways[0]) /* what the reference gets wrong is another matter */
            wrong = !reference && first_wrong(s->r, b, s->w, why, sizeof why);
        else
            wrong = reference;
    }
    s->r->n_constant = n_constant;
    char *text = wrong && s->print ? tp_graph_text(b->g) : NULL;
    if (text)
        printf("%s", text);
    tp_free(b->tp, text);
    if (wrong)
        memcpy(s->why, why, sizeof why);
    close_bed(b);
    return wrong;
}

/* Whom it needs to be wrong: nobody, mostly. */
static bool fewest_others(suspect *s, const program *p)
{
    if (is_wrong(s, p))
        return true;
    memset(s->with, true, sizeof s->with);
    bool wrong = is_wrong(s, p);
    for (int i = 0; i < s->n && wrong; i++) {
        s->with[i] = false;
        s->with[i] = i != s->which && !is_wrong(s, p);
    }
    return wrong;
}

static void report(run *r, int n, const program *programs, const program *p, const way *w)
{
    suspect s = {.r = r, .w = w, .n = n, .which = (int)(p - programs), .programs = programs};
    program least = *p;
    bool single = true;
    if (fewest_others(&s, p))
        program_shrink(&least, is_wrong, &s);
    for (int i = 0; i < n; i++)
        single &= !s.with[i];
    printf("FAILED program %" PRIu64 " by %s, %d threads, %d steps of %d%s:\n", p->seed,
           w->name, r->threads, least.n_steps, p->n_steps,
           single ? "" : ", together with others");
    s.print = true;
    is_wrong(&s, &least);
    printf("    %s\n    repeat: %s --seed %" PRIu64
           " --count %d --batch %d --threads %d --near %d --way "
           "\"%s\"\n",
           s.why, r->program, single ? p->seed : programs[0].seed, single ? 1 : n,
           single ? 1 : n, r->threads, r->near, w->name);
    fflush(stdout);
}

/* ---- all of them --------------------------------------------------------------------------- */

/* Is it this way's turn? */
static bool has_turn(const run *r, const way *w, int number)
{
    int first = 0, n = 0;
    const int share = w->kind == BY_C ? r->c_share : w->kind == ALONE ? r->alone_share : 1;
    if (r->only)
        return w == r->ways || strcmp(r->only, w->name) == 0;
    if (w->kind == PLAIN || r->count == 1)
        return w->kind != ALONE || alone_has(w->target);
    while (r->ways[first].kind != w->kind)
        first++;
    while (first + n < r->n_ways && r->ways[first + n].kind == w->kind)
        n++;
    return share > 0 && number % share == share / 2 &&
           number / share % n == (int)(w - r->ways) - first &&
           (w->kind != ALONE || alone_has(w->target));
}

static void run_batch(run *r, int number, int n, const program *programs)
{
    static const int threads[] = {1, 2, 1, 3, 1, 7}, nears[] = {0, 100, 3000, 400, 1};
    r->threads = r->only_threads ? r->only_threads : threads[number % 6];
    r->near = r->only_near >= 0 ? r->only_near : nears[number % 5];
    bed *b = open_bed(r);
    for (int i = 0; i < n; i++)
        r->n_failed += !add_program(r, b, &programs[i]);
    add_sizes(b);
    note_ops(r, b->g);
    for (int w = 0; w < r->n_ways && b->n_programs; w++) {
        char why[600] = "";
        if (!has_turn(r, &r->ways[w], number))
            continue;
        r->n_compiled += r->ways[w].kind == BY_C;
        r->n_alone += r->ways[w].kind == ALONE;
        const program *wrong = first_wrong(r, b, &r->ways[w], why, sizeof why);
        if (wrong) {
            r->n_failed++;
            printf("%s: %s\n", r->ways[w].name, why);
            report(r, n, programs, wrong, &r->ways[w]);
            break;
        }
    }
    close_bed(b);
}

/* Variables and calls are what the tests of capture are about; rows, stacks and copies are
 * of tapes; what is assumed is of imported models; slopes of gamma numbers have no gradient, and kernels of the
 * user's own have cases. */
static bool all_met(const run *r)
{
    static const tpi_opcode apart[] = {TPI_OP_variable,    TPI_OP_assign,    TPI_OP_group,
                                       TPI_OP_call,        TPI_OP_result,    TPI_OP_row,
                                       TPI_OP_stack,       TPI_OP_copy,      TPI_OP_assume,
                                       TPI_OP_gamma_slope, TPI_OP_own_kernel};
    bool all = true;
    for (int i = 0; i < TPI_N_OPS; i++) {
        bool met = r->met[i];
        for (size_t k = 0; k < sizeof apart / sizeof *apart; k++)
            met |= apart[k] == (tpi_opcode)i;
        if (!met)
            printf("no program has a node %s\n", tpi_ops[i]->name);
        all &= met;
    }
    return all;
}

static void read_options(run *r, int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--seed") == 0)
            r->seed = strtoull(value, NULL, 10);
        else if (strcmp(name, "--way") == 0)
            r->only = value;
        else if (strcmp(name, "--dir") == 0)
            r->dir = value;
        else if (strcmp(name, "--count") == 0)
            r->count = atoi(value);
        else if (strcmp(name, "--batch") == 0)
            r->batch = atoi(value);
        else if (strcmp(name, "--threads") == 0)
            r->only_threads = atoi(value);
        else if (strcmp(name, "--near") == 0)
            r->only_near = atoi(value);
        else if (strcmp(name, "--c") == 0)
            r->c_share = atoi(value);
        else if (strcmp(name, "--alone") == 0)
            r->alone_share = atoi(value);
    }
    r->batch = r->batch < 1 ? 1 : r->batch > MAX_BATCH ? MAX_BATCH : r->batch;
}

int main(int argc, char **argv)
{
    enum { ENOUGH = 200, FAILURES = 5 };
    static run r = {.seed = 1,
                    .count = 60,
                    .batch = 12,
                    .only_near = -1,
                    .c_share = 1,
                    .dir = ".",
                    .n_steps = 0};
    static program programs[MAX_BATCH];
    setvbuf(stdout, NULL, _IOLBF, 0); /* what was found is there when time runs out */
    r.program = argv[0];
    read_options(&r, argc, argv);
    list_ways(&r);
    for (int at = 0; at < r.count && r.n_failed < FAILURES; at += r.batch) {
        int n = 0;
        for (; n < r.batch && at + n < r.count; n++) {
            tp_ctx *scratch = tp_open(&(tp_options){.seed = SEED});
            tp_scope_begin(scratch);
            program_make(scratch, r.seed + (uint64_t)(at + n), &programs[n]);
            tp_close(scratch);
            r.n_steps += programs[n].n_steps;
        }
        run_batch(&r, at / r.batch, n, programs);
    }
    const bool met = r.count < ENOUGH || all_met(&r);
    printf("%d programs of %d steps together, %d with constant sizes, seeds from %" PRIu64
           "; %d runs by C, %d C files; %d failed\n",
           r.count, r.n_steps, r.n_constant, r.seed, r.n_compiled, r.n_alone, r.n_failed);
    return r.n_failed != 0 || (r.count >= ENOUGH && r.n_constant > r.count / 2) || !met;
}
