/* Random pure programs: tensors in variables, branches on values, loops that values end and loops of a fixed
 * number of turns, run eagerly and as pure functions. Only tensors are set in branches, so that the
 * promise is kept.
 *
 *     pure_random [--seed N] [--count N] */
#include "common/both.h"

#include <inttypes.h>

enum { VARS = 4, N = 3, MOST = 64, CALLS = 60, DEPTH = 3 };

static int64_t replayed, called;

typedef enum kind { OP, COPY, IF, WHILE, TIMES, ASSIGN, DRAW } kind;

typedef struct statement {
    kind kind;
    int op, to, a, b, line;
    int n_then, n_else; /* statements that follow, which belong to it */
    double limit;
} statement;

typedef struct program {
    int n, budget;
    bool same_line; /* as a binding of another language calls: no lines */
    statement s[MOST];
    tp_tensor *state[2];
} program;

static uint64_t pick(uint64_t *seed, uint64_t n)
{
    return (unit_random(seed) >> 20) % n;
}

static int add_some(program *p, uint64_t *seed, int depth, bool in_while);

static void add_one(program *p, uint64_t *seed, int depth, bool in_while)
{
    static const kind kinds[] = {OP, OP, OP, OP, COPY, IF, IF, IF, WHILE, TIMES, ASSIGN, DRAW};
    statement *s = &p->s[p->n++];
    *s = (statement){.kind = kinds[pick(seed, 12)],
                     .op = (int)pick(seed, 6),
                     .to = (int)pick(seed, VARS),
                     .a = (int)pick(seed, VARS),
                     .b = (int)pick(seed, VARS),
                     .line = 1000 + 10 * p->n,
                     .limit = (double)pick(seed, 5) * 0.25 - 0.5};
    if (depth == 0 && (s->kind == IF || s->kind == WHILE || s->kind == TIMES))
        s->kind = OP;
    if (s->kind == IF) {
        const int n = add_some(p, seed, depth - 1, in_while);
        s->n_then = n;
        s->n_else = pick(seed, 2) ? add_some(p, seed, depth - 1, in_while) : 0;
    } else if (s->kind == WHILE || s->kind == TIMES) {
        s->n_then = add_some(p, seed, depth - 1, s->kind == WHILE);
    }
}

static int add_some(program *p, uint64_t *seed, int depth, bool in_while)
{
    const int before = p->n, n = 1 + (int)pick(seed, 3);
    for (int i = 0; i < n && p->n < p->budget; i++)
        add_one(p, seed, depth, in_while);
    return p->n - before;
}

static void make_program(program *p, uint64_t seed)
{
    *p = (program){.budget = 6 + (int)pick(&seed, 24), .same_line = pick(&seed, 4) == 0};
    while (p->n < p->budget)
        add_one(p, &seed, DEPTH, false);
}

/* ---- running ------------------------------------------------------------------------------ */

typedef struct run {
    const program *p;
    tp_tensor *v[VARS];
} run;

static const char *file_of(const run *r)
{
    return r->p->same_line ? NULL : "random.c";
}

static tp_tensor *compute(const run *r, const statement *s)
{
    const char *file = file_of(r);
    const int line = r->p->same_line ? 0 : s->line;
    tp_tensor *a = r->v[s->a], *b = r->v[s->b];
    switch (s->op) {
    case 0:
        return tp_tanh_at(file, line, tp_add_at(file, line, a, b));
    case 1:
        return tp_sub_at(file, line, a, b);
    case 2:
        return tp_tanh_at(file, line, tp_mul_at(file, line, a, b));
    case 3:
        return tp_max_at(file, line, a, b);
    case 4:
        return tp_mul_at(file, line, a, tp_scalar_like_at(file, line, a, s->limit));
    default:
        return tp_tanh_at(file, line, tp_add_at(file, line, a, r->p->state[s->b % 2]));
    }
}

static bool holds(const run *r, const statement *s, int more)
{
    const char *file = file_of(r);
    const int line = r->p->same_line ? 0 : s->line + more;
    tp_tensor *sum = tp_sum_at(file, line, r->v[s->a], TP_ALL, false);
    return tp_truth_at(file, line,
                       tp_gt_at(file, line, sum, tp_scalar_like_at(file, line, sum, s->limit)));
}

static void run_some(run *r, int from, int n);

static void run_while(run *r, int i)
{
    const statement *s = &r->p->s[i];
    for (int turn = 0; turn < 7 && holds(r, s, 1); turn++) {
        run_some(r, i + 1, s->n_then);
        const int line = r->p->same_line ? 0 : s->line + 2; /* it ends */
        r->v[s->a] =
            tp_sub_at(file_of(r), line, tp_mul(r->v[s->a], tp_scalar_like(r->v[s->a], 0.5)),
                      tp_scalar_like(r->v[s->a], 0.25));
    }
}

static void draw_one(run *r, const statement *s, int line)
{
    tp_ctx *tp = tp_ctx_of(r->v[s->a]);
    const uint64_t was = tp_random_stream(tp, s->b % 3 ? 0 : 4);
    r->v[s->to] = tp_uniform_like_at(file_of(r), line, r->v[s->a], -1, 1);
    tp_random_stream(tp, was);
}

static void run_one(run *r, int i)
{
    const statement *s = &r->p->s[i];
    const int line = r->p->same_line ? 0 : s->line;
    if (s->kind == OP)
        r->v[s->to] = compute(r, s);
    else if (s->kind == COPY)
        r->v[s->to] = r->v[s->a];
    else if (s->kind == DRAW)
        draw_one(r, s, line);
    else if (s->kind == ASSIGN)
        tp_assign_at(file_of(r), line, r->p->state[s->b % 2], r->v[s->a]);
    else if (s->kind == WHILE)
        run_while(r, i);
    else if (s->kind == TIMES)
        for (int k = 0; k < 2 + s->op % 2; k++)
            run_some(r, i + 1, s->n_then);
    else if (holds(r, s, 0))
        run_some(r, i + 1, s->n_then);
    else
        run_some(r, i + 1 + s->n_then, s->n_else);
}

static void run_some(run *r, int from, int n)
{
    for (int i = from; i < from + n;) {
        run_one(r, i);
        i += 1 + r->p->s[i].n_then + r->p->s[i].n_else;
    }
}

BODY(random_body)
{
    run r = {.p = user};
    for (int i = 0; i < VARS; i++)
        r.v[i] = in[i % 2];
    run_some(&r, 0, r.p->n);
    for (int i = 0; i < VARS; i++)
        out[i] = r.v[i];
}

static void scenario(bed *b)
{
    program *p = (program *)b->given;
    for (int i = 0; i < 2; i++)
        p->state[i] = tp_variable(pattern(b->tp, TP_DIMS(N), 0.05 * (i + 1)), "state");
    tp_function *f = make_pure(b, "random", random_body, p);
    uint64_t seed = 99;
    for (int call = 0; call < CALLS; call++) {
        tp_scope_begin(b->tp);
        tp_tensor *in[] = {draw(b->tp, &seed, 1, (int64_t[]){N}),
                           draw(b->tp, &seed, 1, (int64_t[]){N})};
        tp_tensor *out[VARS];
        tp_function_call(f, 2, in, VARS, out);
        for (int i = 0; i < VARS; i++)
            note(b, "v", out[i]);
        for (int i = 0; i < 2; i++)
            note(b, "state", p->state[i]);
        tp_scope_end(b->tp);
    }
    if (b->eager)
        return;
    const tp_function_stats s = tp_function_stats_of(f);
    b->n_made = 0;
    replayed += s.calls - s.user_calls;
    called += s.calls;
}

static void print_some(const program *p, int from, int n, int depth)
{
    static const char *const names[] = {"op", "copy", "if", "while", "times", "assign", "draw"};
    for (int i = from; i < from + n;) {
        const statement *s = &p->s[i];
        printf("%*s%d: %s op%d v%d <- v%d, v%d; %g\n", 4 * depth, "", s->line, names[s->kind],
               s->op, s->to, s->a, s->b, s->limit);
        print_some(p, i + 1, s->n_then, depth + 1);
        if (s->n_else)
            printf("%*selse\n", 4 * depth, "");
        print_some(p, i + 1 + s->n_then, s->n_else, depth + 1);
        i += 1 + s->n_then + s->n_else;
    }
}

static bool is_right(uint64_t seed)
{
    static const both_way ways[] = {
        {"eager",     NULL,              {.eager = true},                 false},
        {"reference", NULL,              {.engine = TP_ENGINE_REFERENCE}, false},
        {"auto",      "/nonexistent/cc", {.engine = TP_ENGINE_AUTO},      false},
    };
    program p;
    make_program(&p, seed);
    char *eager = both_transcript(&ways[0], scenario, &p), why[2000];
    const both_way *way = &ways[1 + seed % 2];
    char *got = both_transcript(way, scenario, &p);
    const bool wrong = both_differ(way, eager, got, why, sizeof why);
    if (wrong)
        printf("FAILED program %" PRIu64 " (%d statements%s): %s\nrepeat: --seed %" PRIu64
               " --count 1\n",
               seed, p.n, p.same_line ? ", no lines" : "", why, seed);
    if (wrong)
        print_some(&p, 0, p.n, 1);
    free(eager);
    free(got);
    return !wrong;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1, count = 100;
    int failed = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--count") == 0)
            count = strtoull(argv[i + 1], NULL, 10);
    }
    for (uint64_t i = 0; i < count && failed < 10; i++)
        failed += !is_right(seed + i);
    printf("%" PRIu64 " programs, %" PRId64 " calls, %" PRId64 " of them replayed, %d failed\n",
           count, called, replayed, failed);
    return failed != 0;
}
