/* Random programs of nested blocks, `tp_while` of a length that only the run knows among them: values,
 * gradients and gradients of gradients of a graph have the bits of the eager run.
 *
 *     random_blocks [--count N] [--seed N] [--order 0|1|2] [--show 1]
 *     random_blocks --found 1      the seeds that once differed
 *
 * A program is a function of its seed alone: each statement draws from a generator that its block
 * begins with, so that every turn is the same code. Zeros of either sign are equal here: where
 * a block reaches no gradient a graph adds zeros. */
#include "common/same.h"
#include "tapir/control.h"
#include "tapir/tapir.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 3, N_OF = 4, MOST_OUT = 2 + 2 * N_OF };

static const uint64_t found[] = {
    4176, 6077, 6910, 8801, 8926, /* NaN of another sign */
};

typedef struct world {
    tp_ctx *tp;
    tp_tensor *x, *v, *s, *k, *p; /* [n, 4], [4], [], [] i64, [4] */
    bool show;
} world;

/* The two values that statements change, [4] each. */
typedef struct pair {
    tp_tensor *a, *b;
} pair;

static unsigned draw(uint64_t *seed, unsigned n)
{
    *seed += 0x9E3779B97F4A7C15u;
    uint64_t z = *seed;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (unsigned)((z ^ z >> 31) % n);
}

static void line(const world *w, int depth, const char *what, unsigned n)
{
    if (w->show)
        printf("%*s%s %u\n", 2 * (DEEPEST - depth), "", what, n);
}

static tp_tensor *expression(const world *w, unsigned kind, tp_tensor *a, tp_tensor *b)
{
    switch (kind) {
    case 0:
        return tp_tanh(tp_add(a, b));
    case 1:
        return tp_mul(tp_sin(a), b);
    case 2:
        return tp_sub(a, tp_mul(b, w->p));
    case 3:
        return tp_add(tp_mul(a, w->s), tp_cos(b));
    case 4:
        return tp_mul(tp_sigmoid(a), w->v);
    case 5:
        return tp_sub(tp_tanh(tp_mul(a, b)), w->p);
    default:
        return tp_cos(tp_sub(a, w->v));
    }
}

static void change(const world *w, uint64_t *seed, int depth, pair *to)
{
    const unsigned which = draw(seed, 3), kind = draw(seed, 7);
    line(w, depth, which == 0 ? "a" : which == 1 ? "b" : "both", kind);
    tp_tensor *const a = to->a;
    if (which == 1)
        to->b = expression(w, kind, to->b, a);
    else
        to->a = expression(w, kind, which ? to->b : a, which ? a : to->b);
    if (which == 2)
        to->b = a;
}

static void block(const world *w, uint64_t seed, int depth, pair *to);

static void branch(const world *w, uint64_t seed, int depth, pair *to)
{
    tp_tensor *m = tp_mean(to->a, TP_ALL, false);
    tp_tensor *pred = tp_gt(m, tp_scalar_like(m, 0.1 * ((int)draw(&seed, 5) - 2)));
    line(w, depth, "if", 0);
    tp_if (pred, &to->a, &to->b) {
        block(w, seed + 1, depth - 1, to);
    }
    tp_else
    {
        line(w, depth, "else", 0);
        block(w, seed + 2, depth - 1, to);
    }
}

static void over_rows(const world *w, uint64_t seed, int depth, pair *to)
{
    tp_tensor *ys = NULL;
    const bool stacks = draw(&seed, 2);
    line(w, depth, "for rows", stacks);
    tp_for (tp_dim(w->x, 0), &to->a, &to->b) {
        to->a = tp_add(to->a, tp_each(w->x));
        block(w, seed, depth - 1, to);
        if (stacks)
            tp_emit(&ys, tp_mul(to->a, to->b));
    }
    if (stacks)
        to->b = tp_add(to->b, tp_sum(ys, TP_DIMS(0), false));
}

static void twice(const world *w, uint64_t seed, int depth, pair *to)
{
    line(w, depth, "for", 2);
    tp_for (2, &to->a, &to->b) {
        block(w, seed, depth - 1, to);
    }
}

static void times_k(const world *w, uint64_t seed, int depth, pair *to)
{
    tp_tensor *i = w->k;
    line(w, depth, "while", 0);
    tp_while (tp_gt(i, tp_scalar_like(i, 0)), &to->a, &to->b, &i) {
        block(w, seed, depth - 1, to);
        i = tp_sub(i, tp_scalar_like(i, 1));
    }
}

static void block(const world *w, uint64_t seed, int depth, pair *to)
{
    static void (*const blocks[])(const world *, uint64_t, int,
                                  pair *) = {branch, over_rows, twice, times_k, times_k};
    const int n = 1 + (int)draw(&seed, 3);
    for (int i = 0; i < n; i++) {
        const unsigned what = draw(&seed, depth > 0 ? 8 : 3);
        if (what < 3)
            change(w, &seed, depth, to);
        else
            blocks[what - 3](w, seed * 31 + what, depth, to);
    }
}

/* Two values, the gradients of a number of them, and those of a number of these. */
static void run(const world *w, uint64_t seed, int order, tp_tensor **out)
{
    pair to = {tp_mul(tp_sin(w->v), w->p), w->v};
    tp_tensor *const of[N_OF] = {w->x, w->v, w->s, w->p};
    block(w, seed, DEEPEST, &to);
    out[0] = to.a;
    out[1] = to.b;
    tp_tensor *sum = tp_mean(tp_add(tp_mul(to.a, to.a), tp_sin(to.b)), TP_ALL, false);
    for (int k = 0; k < order; k++) {
        tp_tensor **g = out + 2 + k * N_OF;
        tp_grads(sum, NULL, N_OF, of, g);
        sum = tp_scalar(w->tp, TP_F32, 0);
        for (int i = 0; i < N_OF; i++)
            sum = tp_add(sum, tp_mean(tp_mul(g[i], tp_sigmoid(g[i])), TP_ALL, false));
    }
}

/* ---- eager and in a graph ---------------------------------------------------------------------- */

static world inputs(tp_ctx *tp, uint64_t seed)
{
    float v[4 * 5 + 1];
    for (int i = 0; i < 4 * 5 + 1; i++)
        v[i] = (float)((int)draw(&seed, 2001) - 1000) / 700;
    const int n = 1 + (int)draw(&seed, 3), k = (int)draw(&seed, 4);
    return (world){.tp = tp,
                   .x = tp_tensor_new(tp, TP_F32, TP_DIMS(n, 4), v),
                   .v = tp_tensor_new(tp, TP_F32, TP_DIMS(4), v + 12),
                   .s = tp_scalar(tp, TP_F32, v[20]),
                   .k = tp_scalar(tp, TP_I64, k),
                   .p = tp_param(tp_tensor_new(tp, TP_F32, TP_DIMS(4), v + 16), "p")};
}

static void run_graph(world *w, uint64_t seed, int order, tp_tensor **out)
{
    static const char *const feeds[] = {"x", "v", "s", "k"};
    const int n_out = 2 + order * N_OF;
    tp_tensor *const in[] = {w->x, w->v, w->s, w->k}, *made[MOST_OUT];
    char names[MOST_OUT][16];
    const char *fetches[MOST_OUT];
    tp_graph *g = tp_graph_new(w->tp);
    world here = *w;
    here.x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"), 4));
    here.v = tp_placeholder(g, "v", TP_F32, TP_DIMS(4));
    here.s = tp_placeholder(g, "s", TP_F32, TP_SCALAR);
    here.k = tp_placeholder(g, "k", TP_I64, TP_SCALAR);
    here.show = false;
    run(&here, seed, order, made);
    for (int i = 0; i < n_out; i++) {
        snprintf(names[i], sizeof names[i], "y%d", i);
        fetches[i] = names[i];
        tp_name(tp_add(tp_graph_read(g, made[i]), tp_scalar_like(made[i], -0.0)), names[i]);
    }
    tp_graph_verify(g);
    const tp_compile_options opt = {.engine = TP_ENGINE_REFERENCE};
    tp_program *p = tp_graph_compile(g, 4, feeds, n_out, fetches, &opt);
    if (p)
        tp_program_run(p, in, out);
}

static bool differs(uint64_t seed, int order, bool show)
{
    tp_ctx *tp = tp_open(NULL);
    world w = inputs(tp, seed);
    tp_tensor *want[MOST_OUT], *got[MOST_OUT] = {NULL};
    run_graph(&w, seed, order, got);
    w.show = show;
    w.x = tp_require_grad(w.x);
    w.v = tp_require_grad(w.v);
    w.s = tp_require_grad(w.s);
    run(&w, seed, order, want);
    bool bad = tp_error(tp) != TP_OK;
    if (bad)
        printf("%s\n", tp_error_message(tp));
    for (int i = 0; i < 2 + order * N_OF && !bad; i++) {
        char why[400];
        bad = !same_tensors(got[i], want[i], SAME_ZEROS_EQUAL, why, sizeof why);
        if (bad)
            printf("output %d: %s\n", i, why);
    }
    tp_close(tp);
    if (bad)
        printf("repeat: random_blocks --count 1 --seed %llu --order %d --show 1\n",
               (unsigned long long)seed, order);
    return bad;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1;
    int count = 100, only = -1, n_bad = 0;
    bool show = false, again = false;
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--count") == 0)
            count = atoi(value);
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--order") == 0)
            only = atoi(value);
        else if (strcmp(argv[i], "--found") == 0)
            again = atoi(value) != 0;
        else
            show = strcmp(argv[i], "--show") == 0 && atoi(value) != 0;
    }
    if (again)
        count = sizeof found / sizeof *found;
    for (int i = 0; i < count; i++)
        for (int order = 0; order <= 2; order++)
            if (only < 0 || order == only)
                n_bad += differs(again ? found[i] : seed + (uint64_t)i, order, show);
    printf("%d programs, %d failed\n", count, n_bad);
    return n_bad != 0 || count <= 0;
}
