/* Samples that look at values, by tp_batch_each: a parser that acts on its own scores, beside a loop over the sentences, and what
 * a look costs. */
#include "bench.h"
#include "limits.h"

#include <stdlib.h>

enum { HIDDEN = 256, SENTENCES = 32, LONGEST = 40, GATES = 5 };

/* ---- a parser ------------------------------------------------------------------------------------------------------- */

typedef struct parser {
    tp_ctx *tp;
    tp_tensor *words; /* [SENTENCES * LONGEST, HIDDEN] */
    tp_dense track, join, turn;
    tp_function *of_turn, *of_join;
    tp_optimizer *sgd;
    int length[SENTENCES];
    tp_tensor *loss[SENTENCES];
} parser;

typedef struct state {
    tp_tensor *h, *c; /* [1, HIDDEN] */
} state;

static void lstm(int n_kept, tp_tensor *gates, tp_tensor *const *kept, tp_tensor **out)
{
    tp_tensor *g[GATES];
    tp_split(gates, 1, 3 + n_kept, NULL, g);
    out[1] = tp_mul(tp_sigmoid(g[0]), tp_tanh(g[2]));
    for (int i = 0; i < n_kept; i++)
        out[1] = tp_add(out[1], tp_mul(tp_sigmoid(g[3 + i]), kept[i]));
    out[0] = tp_mul(tp_sigmoid(g[1]), tp_tanh(out[1]));
}

/* c of two trees, h of both and of the tracker -> h, c of one. */
static void join_cell(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const parser *p = user;
    (void)n_in, (void)n_out;
    lstm(2, tp_dense_apply(&p->join, tp_concat(3, in + 2, 1)), in, out);
}

/* c of the tracker; its h, and those of the next word and of the two trees on top -> h, c, a score of the turn. */
static void turn_cell(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const parser *p = user;
    (void)n_in, (void)n_out;
    lstm(1, tp_dense_apply(&p->track, tp_concat(4, in + 1, 1)), in, out);
    out[2] = tp_dense_apply(&p->turn, out[0]);
}

static void parse(void *user, int64_t i)
{
    parser *p = user;
    const int n = p->length[i];
    state word[LONGEST], stack[LONGEST + 2];
    for (int k = 0; k < n; k++) {
        word[k].h = tp_slice(p->words, 0, i * LONGEST + k, i * LONGEST + k + 1, 1);
        word[k].c = word[k].h;
    }
    tp_tensor *none = tp_full(p->tp, TP_F32, TP_DIMS(1, HIDDEN), 0), *out[3], *loss = NULL;
    state now = {none, none};
    stack[0] = stack[1] = now;
    for (int k = 0, next = 0, top = 1; k < 2 * n - 1; k++) {
        const state *two = stack + top - 1;
        tp_function_call(
            p->of_turn, 5,
            (tp_tensor *[]){now.c, now.h, next < n ? word[next].h : none, two[0].h, two[1].h},
            3, out);
        now = (state){out[0], out[1]};
        bool joins = top > 2;
        if (next < n && joins) {
            tp_tensor *score = tp_mean(out[2], TP_ALL, false);
            loss = loss ? tp_add(loss, tp_square(score)) : tp_square(score);
            joins = tp_truth(tp_gt(score, 0));
        }
        if (!joins) {
            stack[++top] = word[next++];
            continue;
        }
        tp_function_call(p->of_join, 5,
                         (tp_tensor *[]){two[0].c, two[1].c, two[0].h, two[1].h, now.h}, 2,
                         out);
        stack[--top] = (state){out[0], out[1]};
    }
    tp_tensor *end = tp_mean(tp_square(now.h), TP_ALL, false);
    p->loss[i] = loss ? tp_add(end, loss) : end;
}

static void step(parser *p, bool together)
{
    if (together)
        tp_batch_each(p->tp, SENTENCES, parse, p);
    for (int i = 0; i < SENTENCES && !together; i++)
        parse(p, i);
    tp_optimizer_step(p->sgd, tp_mean(tp_stack(SENTENCES, p->loss, 0), TP_ALL, false));
}

static double seconds(parser *p, bool together)
{
    const double start = limit_now();
    tp_scope_begin(p->tp);
    if (together)
        tp_batch (p->tp)
            step(p, true);
    else
        step(p, false);
    tp_scope_end(p->tp);
    return limit_now() - start;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of steps together over those in a loop, in turn. */
static double ratio(void *arg)
{
    enum { TURNS = 5 };
    double v[TURNS];
    seconds(arg, true);
    seconds(arg, false);
    for (int i = 0; i < TURNS; i++) {
        const double together = seconds(arg, true);
        v[i] = together / seconds(arg, false);
    }
    qsort(v, TURNS, sizeof *v, by_size);
    return v[TURNS / 2];
}

static void parser_make(parser *p, tp_ctx *tp)
{
    const tp_function_options pure = {.pure = true};
    tp_params *all = tp_params_new(tp);
    *p = (parser){
        .tp = tp,
        .words = tp_retain(tp_uniform(tp, TP_F32, TP_DIMS(SENTENCES * LONGEST, HIDDEN), -1, 1)),
        .track = tp_dense_new(all, "track", 4 * HIDDEN, 4 * HIDDEN, NULL),
        .join = tp_dense_new(all, "join", 3 * HIDDEN, 5 * HIDDEN, NULL),
        .turn = tp_dense_new(all, "turn", HIDDEN, 1, NULL)};
    p->of_turn = tp_function_new(tp, "turn", turn_cell, p, &pure);
    p->of_join = tp_function_new(tp, "join", join_cell, p, &pure);
    p->sgd = tp_sgd_new(tp, 1e-3, NULL, TP_TRAINED(all));
    for (int i = 0; i < SENTENCES; i++)
        p->length[i] = 5 + i * 13 % (LONGEST - 4);
}

/* ---- looks ------------------------------------------------------------------------------------------------------------ */

enum { LOOKERS = 256, TURNS = 100 };

typedef struct lookers {
    tp_ctx *tp;
    tp_tensor *one;
    bool look;
} lookers;

static void add_up(void *user, int64_t i)
{
    const lookers *l = user;
    tp_tensor *x = l->one;
    (void)i;
    for (int turn = 0; turn < TURNS; turn++) {
        x = tp_add(x, l->one);
        if (l->look)
            tp_item(x);
    }
}

static double seconds_of_lookers(lookers *l, bool look)
{
    const double start = limit_now();
    l->look = look;
    tp_scope_begin(l->tp);
    tp_batch_each(l->tp, LOOKERS, add_up, l);
    tp_scope_end(l->tp);
    return (limit_now() - start) / (LOOKERS * TURNS);
}

/* Of a look, with the way to the others and back. */
static double look_ns(void *arg)
{
    enum { TIMES = 9 };
    double v[TIMES];
    for (int i = 0; i < TIMES; i++) {
        const double with = seconds_of_lookers(arg, true);
        v[i] = 1e9 * (with - seconds_of_lookers(arg, false));
    }
    qsort(v, TIMES, sizeof *v, by_size);
    return v[TIMES / 2];
}

void bench_add_each(bench *b)
{
    static const char *const parser_name =
        "SPINN, hidden 256, training, over the loop over samples";
    static const char *const look_name = "a look that waits, and going on";
    parser *p = bench_wants(b, parser_name) ? tp_alloc(b->tp, sizeof *p) : NULL;
    lookers *l = bench_wants(b, look_name) ? tp_alloc(b->tp, sizeof *l) : NULL;
    if (p) {
        parser_make(p, b->tp);
        bench_add(
            b, (figure){parser_name, "", .told = ratio, .arg = p, .slow = true, .goal = 0.5});
    }
    if (l) {
        *l = (lookers){.tp = b->tp, .one = tp_retain(tp_scalar(b->tp, TP_F32, 1))};
        bench_add(
            b, (figure){look_name, "ns", .told = look_ns, .arg = l, .slow = true, .goal = 60});
    }
}
