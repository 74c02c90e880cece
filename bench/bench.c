/* What tapir reaches on one core, beside what the machine can do, measured in the same run, and
 * beside what other systems reached.
 *
 *     bench [--rounds N] [TEXT]    only figures whose name has TEXT in it
 *
 * Each round measures every limit and every figure once; what is printed are the medians over
 * the rounds. PEERS_JSONL names a file of other systems' results, see peer_rows.h. */
#include "bench.h"

#include "limits.h"
#include "peer_rows.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 9, MOST_ROUNDS = 99, WALL_ROUNDS = 3 };
static const double sample_s = 20e-3; /* of one figure in one round, at least */

typedef struct result {
    int64_t times; /* works in a sample */
    int n;
    double seconds[MOST_ROUNDS]; /* of one work */
    double share[MOST_ROUNDS];   /* of the limit of the same round */
} result;

typedef struct settings {
    int rounds;
    const char *only;
} settings;

bool bench_wants(const bench *b, const char *name)
{
    return !b->only || strstr(name, b->only);
}

void bench_add(bench *b, figure f)
{
    if (b->n < MAX_FIGURES && bench_wants(b, f.name))
        b->figures[b->n++] = f;
}

double bench_wall_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds_of(const figure *f, int64_t times)
{
    if (f->timed)
        return f->timed(f->arg, times);
    const double start = f->wall ? bench_wall_now() : limit_now();
    f->run(f->arg, times);
    return (f->wall ? bench_wall_now() : limit_now()) - start;
}

static void calibrate(const figure *f, result *r)
{
    r->times = 1;
    while (!f->wall && seconds_of(f, r->times) < sample_s)
        r->times *= 2;
}

static void measure(const bench *b, result *results, int rounds, double *fma, double *copy)
{
    for (int i = 0; i < b->n; i++)
        calibrate(&b->figures[i], &results[i]);
    for (int round = 0; round < rounds && tp_error(b->tp) == TP_OK; round++) {
        fma[round] = limit_fma_f32().median;
        copy[round] = limit_copy(CACHED_BYTES).median;
        for (int i = 0; i < b->n; i++) {
            const figure *f = &b->figures[i];
            result *r = &results[i];
            if (f->wall && round >= WALL_ROUNDS)
                continue;
            const double s = seconds_of(f, r->times) / (double)r->times;
            r->seconds[r->n] = s;
            r->share[r->n++] = f->work / s / (f->limit == BOUND_FMA ? fma : copy)[round];
        }
    }
}

static void print(const figure *f, result *r, const peer_rows *peers)
{
    const double seconds = limit_of(r->seconds, r->n).median;
    const double value = f->rate ? f->scale / seconds : f->scale * seconds;
    printf("%-34s %9.4g %-8s", f->name, value, f->unit);
    if (f->limit == BOUND_NONE)
        printf("%12s", "");
    else
        printf(" %4.0f %% %-4s ", 100 * limit_of(r->share, r->n).median,
               f->limit == BOUND_FMA ? "fma" : "copy");
    double peer = 0;
    const peer_row *best =
        peer_rows_best(peers, f->peer_workload, f->peer_metric, f->peer_system, f->rate, &peer);
    if (best) {
        peer *= f->peer_scale > 0 ? f->peer_scale : 1;
        printf(" %9.4g %-20s %6.2f", peer, best->system, f->rate ? peer / value : value / peer);
    }
    printf("\n");
}

static int drop(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void print_all(const bench *b, result *results, const settings *s, double *fma,
                      double *copy)
{
    peer_rows peers = {0};
    const char *path = getenv("PEERS_JSONL");
    if (path && *path && !peer_rows_read(path, &peers))
        fprintf(stderr, "bench: cannot read %s\n", path);
    const limit peak = limit_of(fma, s->rounds), bytes = limit_of(copy, s->rounds);
    printf("one thread, medians of %d rounds\n", s->rounds);
    printf("%-34s %9.4g %-8s (%.4g to %.4g)\n", "limit: fused multiply-adds", peak.median,
           "GFLOP/s", peak.low, peak.high);
    printf("%-34s %9.4g %-8s (%.4g to %.4g)\n", "limit: copying 4 MiB", bytes.median, "GB/s",
           bytes.low, bytes.high);
    printf("\n%-34s %9s %-8s %-11s %9s %-20s %6s\n", "figure", "tapir", "", "of limit",
           peers.n ? "peer" : "", "", peers.n ? "time/peer's" : "");
    for (int i = 0; i < b->n; i++)
        print(&b->figures[i], &results[i], &peers);
    struct stat library;
    if (stat(BENCH_LIBRARY, &library) == 0)
        printf("%-34s %9.4g %-8s\n", "shared library, stripped", 1e-3 * (double)library.st_size,
               "KB");
    peer_rows_free(&peers);
}

static bool run(bench *b, const settings *s)
{
    bench_add_ops(b);
    bench_add_kernels(b);
    bench_add_capture(b);
    bench_add_lenet(b);
    bench_add_models(b);
    bench_add_control(b);
    bench_add_trees(b);
    result *results = calloc((size_t)b->n + 1, sizeof *results);
    if (!results)
        return false;
    double fma[MOST_ROUNDS], copy[MOST_ROUNDS];
    if (tp_error(b->tp) == TP_OK)
        measure(b, results, s->rounds, fma, copy);
    const bool good = tp_error(b->tp) == TP_OK;
    if (good)
        print_all(b, results, s, fma, copy);
    else
        fprintf(stderr, "bench: %s\n", tp_error_message(b->tp));
    free(results);
    return good;
}

static bool parse(int argc, char **argv, settings *s)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
            s->rounds = atoi(argv[++i]);
        else if (argv[i][0] != '-' && !s->only)
            s->only = argv[i];
        else
            return false;
    }
    return s->rounds > 0 && s->rounds <= MOST_ROUNDS;
}

int main(int argc, char **argv)
{
    settings s = {.rounds = ROUNDS};
    if (!parse(argc, argv, &s)) {
        fprintf(stderr, "usage: bench [--rounds 1..%d] [TEXT]\n", MOST_ROUNDS);
        return 2;
    }
    const char *folder = getenv("TMPDIR");
    char cache[256];
    snprintf(cache, sizeof cache, "%s/tapir-bench-XXXXXX", folder && *folder ? folder : "/tmp");
    if (!mkdtemp(cache)) {
        perror("bench: a temporary folder");
        return 1;
    }
    bench b = {.cache = cache,
               .trees = access(BENCH_TREES, R_OK) == 0 ? BENCH_TREES : NULL,
               .models = access(BENCH_MODELS, R_OK) == 0 ? BENCH_MODELS : NULL,
               .only = s.only};
    b.tp = tp_open(&(tp_options){.seed = 7, .cache_dir = cache});
    const bool good = run(&b, &s);
    tp_close(b.tp);
    nftw(cache, drop, 16, FTW_DEPTH | FTW_PHYS);
    return !good;
}
