/* Every program of block_cases.c and state_cases.c in every way: values, gradients and gradients of gradients, what is
 * assigned and what is drawn afterwards have the bits of the eager run.
 *
 *     block_run [--way NAME] [--case NAME] [--order 0|1|2] [--c 0|1]
 *
 * --c: 0 leaves out what is compiled by the C compiler, 1 everything else. Each run is a process of
 * its own. */
#include "block_cases.h"

#include <inttypes.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum kind { EAGER, MATCHED, PURE, GRAPH } kind;

typedef struct way {
    const char *name;
    kind kind;
    tp_engine engine;
    const char *compiler; /* NULL: the usual one */
    const char *skip;     /* passes of a graph */
} way;

static const char no_cc[] = "/nonexistent/cc";
static const way eager = {"eager", EAGER, TP_ENGINE_REFERENCE, NULL, NULL};
static const way ways[] = {
    {"reference",                GRAPH,   TP_ENGINE_REFERENCE, NULL,  NULL                   },
    {"reference without passes", GRAPH,   TP_ENGINE_REFERENCE, NULL,  "fold,algebra,cse,fuse"},
    {"tiles",                    GRAPH,   TP_ENGINE_TILES,     NULL,  NULL                   },
    {"tiles without fusion",     GRAPH,   TP_ENGINE_TILES,     NULL,  "cse,fuse"             },
    {"matched by reference",     MATCHED, TP_ENGINE_REFERENCE, NULL,  NULL                   },
    {"matched by kernels",       MATCHED, TP_ENGINE_AUTO,      no_cc, NULL                   },
    {"matched by tiles",         MATCHED, TP_ENGINE_TILES,     NULL,  NULL                   },
    {"pure by reference",        PURE,    TP_ENGINE_REFERENCE, NULL,  NULL                   },
    {"pure by tiles",            PURE,    TP_ENGINE_TILES,     NULL,  NULL                   },
    {"C",                        GRAPH,   TP_ENGINE_C,         NULL,  NULL                   },
    {"C without fusion",         GRAPH,   TP_ENGINE_C,         NULL,  "fuse"                 },
    {"auto",                     GRAPH,   TP_ENGINE_AUTO,      NULL,  NULL                   },
    {"pure by C",                PURE,    TP_ENGINE_C,         NULL,  NULL                   },
};
enum { N_WAYS = sizeof ways / sizeof *ways, CALLS = 7, N_IN = 4, N_OF = 5, N_STATE = 6 };
enum { MOST_OUT = BLOCK_OUTS + 2 * N_OF + N_STATE };

typedef struct job {
    const block_case *c;
    const way *w;
    int order; /* of derivatives */
} job;

typedef struct body_state {
    state st;
    const job *j;
} body_state;

/* ---- the body -------------------------------------------------------------------------------- */

static tp_tensor *asked(tp_tensor *x)
{
    return tp_require_grad(tp_detach(x));
}

/* One number that depends on all the floats in t[]. */
static tp_tensor *weighed(tp_tensor *like, int n, tp_tensor *const *t)
{
    tp_tensor *sum = tp_scalar_like(like, 0.5);
    for (int i = 0; i < n; i++)
        if (t[i] && tp_dtype_of(t[i]) == TP_F32)
            sum = tp_add(sum, tp_mean(tp_mul(t[i], tp_sigmoid(t[i])), TP_ALL, false));
    return sum;
}

BODY(run_body)
{
    body_state *b = user;
    state *st = &b->st;
    const job *j = b->j;
    tp_tensor *x = in[0], *v = in[1], *s = in[2];
    if (j->order) {
        x = asked(x);
        v = asked(v);
        s = asked(s);
    }
    for (int i = 0; i < n_out; i++)
        out[i] = NULL;
    j->c->run(st, x, v, s, in[3], out);
    tp_tensor *const of[N_OF] = {x, v, s, st->w, st->p};
    for (int order = 1, n = BLOCK_OUTS, first = 0; order <= j->order; order++) {
        tp_grads(weighed(s, n - first, out + first), NULL, N_OF, of, out + n);
        first = n;
        n += N_OF;
    }
    for (int i = 0; i < n_out; i++)
        out[i] = out[i] ? out[i] : tp_scalar(st->tp, TP_F32, 0);
}

BODY(helper_body)
{
    out[0] = tp_mul(tp_tanh(in[0]), tp_add(in[1], in[0]));
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void state_new(bed *b, state *st)
{
    tp_ctx *tp = b->tp;
    uint64_t seed = 5;
    st->tp = tp;
    st->w = tp_param(draw(tp, &seed, TP_DIMS(4, 4)), "w");
    st->p = tp_param(draw(tp, &seed, TP_DIMS(4)), "p");
    st->q = tp_variable(draw(tp, &seed, TP_DIMS(4)), "q");
    st->z = tp_variable(tp_scalar(tp, TP_F32, 0.25), "z");
    st->mean = tp_variable(draw(tp, &seed, TP_DIMS(4)), "mean");
    st->var = tp_variable(tp_full(tp, TP_F32, TP_DIMS(4), 1), "var");
    st->adam = tp_adam_new(tp, 0.05, NULL, 2, (tp_tensor *const[]){st->w, st->p});
    st->helper = make(b, "helper", helper_body, NULL);
}

static void inputs(tp_ctx *tp, int call, tp_tensor **in)
{
    static const int ks[CALLS] = {2, 0, 1, 3, -1, 5, 2};
    uint64_t seed = (uint64_t)call * 99 + 3;
    unit_random(&seed);
    in[0] = draw(tp, &seed, TP_DIMS(1 + call * 2 % 5, 4));
    in[1] = draw(tp, &seed, TP_DIMS(4));
    in[2] = tp_mul(draw(tp, &seed, TP_SCALAR), tp_scalar(tp, TP_F32, call % 3 ? 1 : -1));
    in[3] = tp_scalar(tp, TP_I64, ks[call]);
}

static void note_results(bed *b, int n, tp_tensor *const *out)
{
    char name[20];
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "out %d", i);
        note(b, name, tp_detach(out[i]));
    }
    note_error(b, "error");
}

static void note_state(bed *b, const state *st)
{
    tp_tensor *const all[N_STATE] = {st->w, st->p, st->q, st->z, st->mean, st->var};
    for (int i = 0; i < N_STATE; i++)
        note(b, tp_name_of(all[i]), all[i]);
    note(b, "drawn", tp_uniform(b->tp, TP_F32, TP_DIMS(2), 0, 1));
}

static void run_function(bed *b, body_state *s)
{
    const job *j = s->j;
    const int n_out = BLOCK_OUTS + j->order * N_OF;
    tp_function *f = make(b, j->c->name, run_body, s);
    for (int call = 0; call < 2 * CALLS; call++) {
        tp_tensor *in[N_IN], *out[MOST_OUT];
        tp_scope_begin(b->tp);
        inputs(b->tp, call % CALLS, in);
        tp_function_call(f, N_IN, in, n_out, out);
        note_results(b, n_out, out);
        note_state(b, &s->st);
        tp_scope_end(b->tp);
        if (call == CALLS)
            settle(b);
    }
}

static tp_program *build(bed *b, body_state *s, int n_out, tp_graph *g)
{
    static const char *const x[N_IN] = {"x", "v", "s", "k"};
    const state *st = &s->st;
    tp_tensor *const all[N_STATE] = {st->w, st->p, st->q, st->z, st->mean, st->var};
    char names[MOST_OUT][16];
    const char *fetches[MOST_OUT];
    tp_tensor *out[MOST_OUT];
    const int64_t n = tp_symbol(g, "n");
    tp_tensor *const in[N_IN] = {tp_placeholder(g, x[0], TP_F32, TP_DIMS(n, 4)),
                                 tp_placeholder(g, x[1], TP_F32, TP_DIMS(4)),
                                 tp_placeholder(g, x[2], TP_F32, TP_SCALAR),
                                 tp_placeholder(g, x[3], TP_I64, TP_SCALAR)};
    run_body(s, N_IN, in, n_out, out);
    for (int i = 0; i < N_STATE; i++) /* so that what is assigned is fetched */
        out[n_out + i] = tp_mul(tp_graph_read(g, all[i]), tp_scalar_like(all[i], 1));
    for (int i = 0; i < n_out + N_STATE; i++) {
        snprintf(names[i], sizeof names[i], "y%d", i);
        fetches[i] = names[i];
        tp_name(tp_graph_read(g, out[i]), names[i]);
    }
    if (getenv("CONTROL_SHOW"))
        printf("%s\n", tp_graph_text(g));
    if (tp_graph_verify(g) != TP_OK)
        say(b, "not verified: %s", tp_error_message(b->tp));
    return tp_graph_compile(
        g, N_IN, x, n_out + N_STATE, fetches,
        &(tp_compile_options){.engine = s->j->w->engine, .skip_passes = s->j->w->skip});
}

static void run_graph(bed *b, body_state *s)
{
    const int n_out = BLOCK_OUTS + s->j->order * N_OF;
    tp_graph *g = tp_graph_new(b->tp);
    tp_program *p = build(b, s, n_out, g);
    note_error(b, "building");
    for (int call = 0; call < 2 * CALLS && p; call++) {
        tp_tensor *in[N_IN], *out[MOST_OUT];
        tp_scope_begin(b->tp);
        inputs(b->tp, call % CALLS, in);
        tp_program_run(p, in, out);
        note_results(b, n_out, out);
        note_state(b, &s->st);
        tp_scope_end(b->tp);
        if (call == CALLS && b->way->how == BOTH_WAITS && tp_program_wait(p) != TP_OK)
            note_error(b, "waiting");
    }
    const char *by = s->j->w->engine == TP_ENGINE_C       ? "c"
                     : s->j->w->engine == TP_ENGINE_TILES ? "tiles"
                                                          : NULL;
    if (p && by && strcmp(tp_program_engine(p), by) != 0)
        say(b, "ran by %s", tp_program_engine(p));
}

static void scenario(bed *b)
{
    const job *j = b->given;
    body_state s = {.j = j};
    state_new(b, &s.st);
    (j->w->kind == GRAPH ? run_graph : run_function)(b, &s);
    tp_optimizer_free(s.st.adam);
}

/* ---- all -------------------------------------------------------------------------------------- */

static both_way base_of(const way *w)
{
    return (both_way){
        .name = w->name,
        .compiler = w->compiler,
        .opt = {.engine = w->engine,
                .eager = w->kind == EAGER || w->kind == GRAPH,
                .pure = w->kind == PURE},
        .how = w->engine == TP_ENGINE_AUTO && !w->compiler ? BOTH_WAITS : BOTH_GOES_ON
    };
}

static const char *program_name;

/* Is it wrong by this way, in this process? */
static int differs(const job *j, const char *want)
{
    const both_way base = base_of(j->w);
    char why[2000];
    char *got = both_transcript(&base, scenario, j);
    const bool wrong = both_differ(&base, want, got, why, sizeof why);
    if (wrong)
        printf("%s\n", why);
    free(got);
    return wrong;
}

/* A process ends with it when it has told what is wrong. */
enum { TOLD = 3 };

/* Is something wrong, as a process of its own finds, which ends when it hangs? */
static bool fails_apart(int (*find)(const job *, const char *), const job *j, const char *want,
                        int seconds)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm((unsigned)seconds);
        const int wrong = find(j, want);
        fflush(stdout);
        _exit(wrong);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("block_run: a process of its own");
        exit(2);
    }
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == TOLD))
        return WEXITSTATUS(status) != 0;
    if (WIFSIGNALED(status))
        printf("signal %d\n", WTERMSIG(status));
    printf("FAILED %s, derivatives of order %d, by %s\n"
           "repeat: %s --case %s --order %d",
           j->c->name, j->order, j->w->name, program_name, j->c->name, j->order);
    printf(j->w == &eager ? "\n" : " --way '%s'\n", j->w->name);
    return true;
}

static bool chosen[N_WAYS];

/* All ways that are chosen, beside what the eager run gives. */
static int all_ways(const job *oracle, const char *nothing)
{
    (void)nothing;
    const both_way plain = base_of(&eager);
    char *want = both_transcript(&plain, scenario, oracle);
    if (getenv("CONTROL_SHOW"))
        printf("%s", want);
    int wrong = 0;
    for (int w = 0; w < N_WAYS; w++) {
        const job j = {oracle->c, &ways[w], oracle->order};
        wrong += chosen[w] && fails_apart(differs, &j, want, 120);
    }
    free(want);
    return wrong ? TOLD : 0;
}

static int choose(const char *only_way, int only_c, bool compiler)
{
    int n = 0;
    for (int w = 0; w < N_WAYS; w++) {
        const bool compiles =
            (ways[w].engine == TP_ENGINE_AUTO || ways[w].engine == TP_ENGINE_C) &&
            !ways[w].compiler;
        chosen[w] = (!only_way || strcmp(only_way, ways[w].name) == 0) &&
                    (only_c < 0 || compiles == only_c) && (!compiles || compiler);
        n += chosen[w];
    }
    return n;
}

int main(int argc, char **argv)
{
    const char *only_way = NULL, *only_case = NULL;
    int only_order = -1, only_c = -1, n = 0, n_failed = 0;
    program_name = argv[0];
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--way") == 0)
            only_way = argv[i + 1];
        else if (strcmp(argv[i], "--case") == 0)
            only_case = argv[i + 1];
        else if (strcmp(argv[i], "--order") == 0)
            only_order = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--c") == 0)
            only_c = atoi(argv[i + 1]);
    }
    const bool compiler = system("cc --version > /dev/null 2>&1") == 0;
    const int n_programs = n_block_cases + n_state_cases,
              n_ways = choose(only_way, only_c, compiler);
    for (int c = 0; c < n_programs; c++) {
        const block_case *program =
            c < n_block_cases ? &block_cases[c] : &state_cases[c - n_block_cases];
        if (only_case && strcmp(only_case, program->name) != 0)
            continue;
        for (int order = 0; order <= (program->gradients ? 2 : 0); order++) {
            if (only_order >= 0 && order != only_order)
                continue;
            const job oracle = {program, &eager, order};
            n += n_ways;
            n_failed += fails_apart(all_ways, &oracle, NULL, 120 * N_WAYS);
        }
    }
    printf("%d runs of %d programs, %d programs and orders failed\n", n, n_programs, n_failed);
    if (n == 0 && !compiler) {
        printf("skipped: there is no C compiler\n");
        return 77;
    }
    return n_failed != 0 || n == 0;
}
