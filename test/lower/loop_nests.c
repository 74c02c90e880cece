/* Loop programs of nests: those of the golden corpus, and of random graphs. Each keeps the rules, is the same when it
 * is printed and read again, and a plain interpreter, tiles and the interpreter box by box leave the same bits in all
 * memory, symbols being any sizes.
 *
 *     loop_nests [--count N] [--seed S] */
#include "common/loop_read.h"
#include "loop_corpus.h"
#include "lower/loop_text.h"
#include "lower/loop_verify.h"
#include "run/program.h"
#include "run/tiles.h"

#include <stdlib.h>
#include <string.h>

typedef struct net {
    uint64_t seed;
    int n_programs, n_runs, n_bad;
} net;

static void complain(net *n, const loop_case *c, const tpi_loop *l, const char *why)
{
    tpi_str s = TPI_STR(&c->tp->mem);
    tpi_loop_print(l, 0, &s);
    printf("%s: %s\n%s", c->what, why, s.text ? s.text : "");
    tpi_str_free(&s);
    n->n_bad++;
}

/* ---- runs ---------------------------------------------------------------------------------------------------- */

static void run_tiles(const loop_case *c, const tpi_loop *l, const loop_memories *m)
{
    tp_program *p = c->program;
    void **buffers = calloc((size_t)p->plan->all_buffers + 1, sizeof *buffers);
    for (int i = 0; i < l->n_mems; i++)
        if (!l->mem[i].row)
            buffers[c->plan->first_buffer + c->plan->values[l->mem[i].node].buffer] =
                m->copy[i];
    tpi_nest *nest = tpi_nest_new(p, c->plan, c->nest);
    char *scratch = malloc(tpi_nest_scratch(nest, 1) + 64);
    tpi_nest_run(nest, &p->team, buffers, scratch);
    free(scratch);
    tpi_nest_free(&c->tp->mem, nest);
    free(buffers);
}

/* The program that C is printed from, where threads, a band or a microbatch compute parts of the nest; a way to cut it
 * that is drawn. */
static bool run_boxes(net *n, const loop_case *c, loop_memories *m, char why[LOOP_RUN_WHY])
{
    const tpi_kernel *k = c->nest;
    tpi_bump memory = TPI_BUMP(&c->tp->mem);
    tpi_loop l;
    int outer = 0; /* kept axes that come first */
    while (outer < k->rank && !((k->reduced >> outer) & 1))
        outer++;
    outer = (int)(loop_random(&n->seed) % (uint64_t)(outer + 1));
    const int row = outer + (int)(loop_random(&n->seed) % (uint64_t)(k->rank - outer + 1));
    tpi_nest_box box = {.n_outer = outer, .row = row};
    if (row == k->rank || ((k->reduced >> row) & 1))
        box.row = -1;
    if (!tpi_lower_nest(&memory, c->plan, k, c->program->symbols, &box, &l))
        abort();
    const bool ok = loop_run_boxes(&l, c->tp, &box, m->copy, m->elements, &n->seed, why) &&
                    loop_compare(&l, m, "boxes", why);
    tpi_bump_free(&memory);
    return ok;
}

static void check_run(net *n, const loop_case *c)
{
    char why[LOOP_RUN_WHY];
    tpi_bump memory = TPI_BUMP(&c->tp->mem);
    tpi_loop l;
    loop_memories m;
    uint64_t start = n->seed; /* so that boxes begin with the same elements */
    if (!tpi_lower_nest(&memory, c->plan, c->nest, c->program->symbols, NULL, &l))
        abort();
    if (loop_take(c, &l, &n->seed, &m)) {
        n->n_runs++;
        run_tiles(c, &l, &m);
        if (!loop_run(&l, c->tp, NULL, m.of, m.elements, &n->seed, why) ||
            !loop_compare(&l, &m, "tiles", why))
            complain(n, c, &l, why);
        loop_release(&m);
        loop_take(c, &l, &start, &m);
        if (!loop_run(&l, c->tp, NULL, m.of, m.elements, &n->seed, why) ||
            !run_boxes(n, c, &m, why))
            complain(n, c, &l, why);
    }
    loop_release(&m);
    tpi_bump_free(&memory);
}

/* ---- programs ------------------------------------------------------------------------------------------------ */

/* The programs for parts of the nest, with outer places and rows of all kinds, whose sizes are symbols. */
static void check_boxes(net *n, const loop_case *c)
{
    const tpi_kernel *k = c->nest;
    char why[TPI_LOOP_WHY];
    for (int outer = 0; outer < k->rank && !((k->reduced >> outer) & 1); outer++)
        for (int row = -1; row < k->rank; row++) {
            tpi_nest_box box = {.n_outer = outer, .row = row};
            tpi_bump memory = TPI_BUMP(&c->tp->mem);
            tpi_loop l;
            if (row >= 0 && (row < outer || (k->reduced >> row) & 1))
                continue;
            if (!tpi_lower_nest(&memory, c->plan, k, NULL, &box, &l))
                abort();
            if (tpi_loop_verify(c->tp, &l, why) >= 0)
                complain(n, c, &l, why);
            if (box.n_outer > l.kept || box.row >= l.kept ||
                (row >= 0 && box.row < box.n_outer))
                complain(n, c, &l, "outer places or rows are no kept axes");
            tpi_bump_free(&memory);
        }
}

static void check_nest(void *user, const loop_case *c)
{
    net *n = user;
    char why[LOOP_READ_WHY];
    tpi_bump memory = TPI_BUMP(&c->tp->mem);
    tpi_loop l;
    if (!tpi_lower_nest(&memory, c->plan, c->nest, NULL, NULL, &l))
        abort();
    n->n_programs++;
    if (tpi_loop_verify(c->tp, &l, why) >= 0)
        complain(n, c, &l, why);
    if (!loop_same_text(c->program->graph, &l, why))
        complain(n, c, &l, why);
    check_boxes(n, c);
    tpi_bump_free(&memory);
    for (int run = 0; loop_set_sizes(c, run, &n->seed); run++)
        check_run(n, c);
}

int main(int argc, char **argv)
{
    net n = {.seed = 1};
    int count = 40;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--count") == 0)
            count = atoi(argv[i + 1]);
        else
            n.seed = strtoull(argv[i + 1], NULL, 10);
    }
    n.n_bad += loop_corpus(count, n.seed, check_nest, &n);
    printf("%d programs, %d runs, %d wrong\n", n.n_programs, n.n_runs, n.n_bad);
    return n.n_bad != 0 || n.n_programs == 0 || n.n_runs < n.n_programs;
}
