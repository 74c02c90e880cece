/* Random loop programs, and those of DIR/NAME.loop, whose sizes are numbers. Each keeps the rules, is the same when it
 * is printed and read again, and a plain interpreter that takes points in any order leaves the same bits as another run
 * of it, and as tiles.
 *
 *     loop_random [--count N] [--seed S] [--run DIR]      random ones are of seeds S, S + 1, ... */
#include "common/loop_read.h"
#include "loop_corpus.h"
#include "loop_draw.h"
#include "lower/loop_text.h"
#include "lower/loop_verify.h"
#include "run/tiles.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

typedef struct net {
    tp_ctx *tp;
    uint64_t seed;
    const char *what; /* is checked */
    int n_programs, n_runs, n_bad;
} net;

static void complain(net *c, const tpi_loop *l, const char *why)
{
    tpi_str s = TPI_STR(&c->tp->mem);
    tpi_loop_print(l, 0, &s);
    printf("%s: %s\n%s", c->what, why, s.text ? s.text : "");
    tpi_str_free(&s);
    c->n_bad++;
}

static void run_tiles(net *c, const tpi_loop *l, loop_memories *m)
{
    void *buffers[LOOP_MEMORIES];
    tpi_value values[LOOP_MEMORIES] = {{0}};
    for (int i = 0; i < l->n_mems; i++) {
        buffers[i] = m->copy[i];
        values[i].buffer = i;
    }
    const tpi_plan plan = {.values = values};
    const tpi_team team = {.kernels = c->tp->kernels};
    tpi_nest *nest = tpi_nest_of_loop(c->tp, &plan, l);
    char *scratch = malloc(tpi_nest_scratch(nest, 1) + 64);
    tpi_nest_run(nest, &team, buffers, scratch);
    free(scratch);
    tpi_nest_free(&c->tp->mem, nest);
}

static void check_runs(net *c, const tpi_loop *l)
{
    char why[LOOP_RUN_WHY];
    loop_memories m;
    uint64_t start = c->seed; /* so that both runs begin with the same elements */
    loop_take_reached(l, &c->seed, &m);
    c->n_runs++;
    if (!loop_run(l, c->tp, NULL, m.of, m.elements, &c->seed, why) ||
        !loop_run(l, c->tp, NULL, m.copy, m.elements, &c->seed, why) ||
        !loop_compare(l, &m, "another order", why))
        complain(c, l, why);
    loop_release(&m);
    loop_take_reached(l, &start, &m);
    run_tiles(c, l, &m);
    if (!loop_run(l, c->tp, NULL, m.of, m.elements, &c->seed, why) ||
        !loop_compare(l, &m, "tiles", why))
        complain(c, l, why);
    loop_release(&m);
}

static void check_one(net *c, tp_graph *g, const tpi_loop *l)
{
    char why[LOOP_READ_WHY];
    c->n_programs++;
    const int bad = tpi_loop_verify(c->tp, l, why);
    if (bad >= 0) {
        printf("statement %d: ", bad);
        complain(c, l, why);
        return;
    }
    if (!loop_same_text(g, l, why))
        complain(c, l, why);
    check_runs(c, l);
}

static void check_random(net *c, uint64_t seed)
{
    char what[100];
    tpi_loop l;
    snprintf(what, sizeof what, "repeat with --count 1 --seed %llu", (unsigned long long)seed);
    c->what = what;
    c->seed = seed * 0x9e3779b97f4a7c15u; /* streams that do not meet */
    c->tp = tp_open(&(tp_options){.threads = 1});
    tp_graph *g = tp_graph_new(c->tp);
    tpi_bump memory = TPI_BUMP(&c->tp->mem);
    if (loop_draw(&memory, g, &c->seed, &l))
        check_one(c, g, &l);
    tpi_bump_free(&memory);
    tp_close(c->tp);
}

static void check_file(net *c, const char *path)
{
    char why[LOOP_READ_WHY];
    tpi_loop l;
    char *text = loop_read_file(path);
    c->what = path;
    c->tp = tp_open(&(tp_options){.threads = 1});
    tp_graph *g = tp_graph_new(c->tp);
    tpi_bump memory = TPI_BUMP(&c->tp->mem);
    if (loop_read(&memory, g, text, &l, why)) {
        check_one(c, g, &l);
    } else {
        printf("%s: %s\n", path, why);
        c->n_bad++;
    }
    tpi_bump_free(&memory);
    tp_close(c->tp);
    free(text);
}

static void check_files(net *c, const char *dir)
{
    char path[1000];
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (strstr(e->d_name, ".loop"))
            check_file(c, path);
    }
    if (d)
        closedir(d);
}

int main(int argc, char **argv)
{
    net c = {.n_bad = 0};
    int count = 300;
    uint64_t seed = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--count") == 0)
            count = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
        else
            check_files(&c, argv[i + 1]);
    }
    for (int i = 0; i < count && c.n_bad < 10; i++)
        check_random(&c, seed + (uint64_t)i);
    printf("%d programs, %d runs, %d wrong\n", c.n_programs, c.n_runs, c.n_bad);
    return c.n_bad != 0 || c.n_runs * 2 < count;
}
