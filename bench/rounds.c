/* Measures the figures and prints them. A round goes through the subjects; of each it measures the
 * limits that bind its figures, the figures, and in the first rounds, which are few since such
 * things take their time, the peers. */
#include "bench.h"
#include "limits.h"
#include "peer_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_ROUNDS = 99, SLOW_ROUNDS = 3 };
static const double sample_s = 20e-3; /* of one figure in one round, at least */

/* The limits of one subject in one round, and of all: 0 where no figure needs them. */
enum { FMA, READ, COPY = READ + LIMIT_LEVELS, LIMITS = COPY + LIMIT_LEVELS };

typedef struct result {
    int64_t times; /* works in a sample */
    int n;
    double value[MOST_ROUNDS]; /* seconds of one work, or what was told */
    double share[MOST_ROUNDS]; /* of the limit of the same round */
    int bound;                 /* which; -1: none */
} result;

typedef struct rounds {
    bench *b;
    int n;
    result *results;
    double *limits[LIMITS]; /* as often as they were measured */
    int n_limits[LIMITS];
    peer_rows rows;
    bool peers_failed;
} rounds;

/* ---- limits ----------------------------------------------------------------------------------- */

static double limit_measure(int which)
{
    if (which == FMA)
        return limit_fma_f32().median;
    return which < COPY ? limit_read(limit_level_bytes((limit_level)(which - READ))).median
                        : limit_copy(limit_level_bytes((limit_level)(which - COPY))).median;
}

/* The limit of its bytes: reading, when next to nothing is written. -1: none. */
static int bytes_limit(const figure *f)
{
    const double bytes = f->gb_read + f->gb_written;
    if (bytes <= 0)
        return -1;
    return (f->gb_written < 0.1 * f->gb_read ? READ : COPY) + (int)limit_level_of(1e9 * bytes);
}

static bool needs(const figure *f, int which)
{
    return which == FMA ? f->gflop > 0 : bytes_limit(f) == which;
}

static void measure_limits(rounds *r, int from, int to, double now[LIMITS])
{
    for (int l = 0; l < LIMITS; l++) {
        now[l] = 0;
        for (int i = from; i < to && now[l] <= 0; i++)
            if (needs(&r->b->figures[i], l))
                now[l] = limit_measure(l);
        if (now[l] > 0)
            r->limits[l][r->n_limits[l]++] = now[l];
    }
}

/* The share of the limit that binds: of those, the one that alone would take longest. */
static double share_of(const figure *f, double seconds, const double now[LIMITS], int *bound)
{
    const int bytes = bytes_limit(f);
    const double compute = f->gflop > 0 && now[FMA] > 0 ? f->gflop / now[FMA] : 0;
    const double move =
        bytes >= 0 && now[bytes] > 0 ? (f->gb_read + f->gb_written) / now[bytes] : 0;
    *bound = move > compute ? bytes : compute > 0 ? FMA : -1;
    return (move > compute ? move : compute) / seconds;
}

/* ---- rounds ----------------------------------------------------------------------------------- */

static double sample(const rounds *r, const figure *f, int64_t times)
{
    if (f->told)
        return f->told(f->arg);
    if (f->timed)
        return f->timed(f->arg, times) / (double)times;
    const double start = f->slow ? bench_wall_now() : bench_now(r->b);
    f->run(f->arg, times);
    return ((f->slow ? bench_wall_now() : bench_now(r->b)) - start) / (double)times;
}

static void calibrate(rounds *r)
{
    for (int i = 0; i < r->b->n; i++) {
        const figure *f = &r->b->figures[i];
        int64_t *times = &r->results[i].times;
        *times = 1;
        while (!f->slow && !f->told && sample(r, f, *times) * (double)*times < sample_s)
            *times *= 2;
    }
}

static void measure_peers(rounds *r, int from, int to)
{
    const char *asked[MAX_FIGURES];
    int n = 0;
    for (int i = from; i < to; i++) {
        const char *workload = r->b->figures[i].peer_workload;
        bool known = !workload;
        for (int k = 0; k < n && !known; k++)
            known = strcmp(asked[k], workload) == 0;
        if (!known)
            asked[n++] = workload;
    }
    if (n && !peer_rows_run(&r->rows, r->b->peers, n, asked, r->b->threads))
        r->peers_failed = true;
}

static void measure_subject(rounds *r, int round, int from, int to)
{
    double now[LIMITS];
    measure_limits(r, from, to, now);
    for (int i = from; i < to; i++) {
        const figure *f = &r->b->figures[i];
        result *to_fill = &r->results[i];
        if (f->slow && round >= SLOW_ROUNDS)
            continue;
        const double v = sample(r, f, to_fill->times);
        to_fill->value[to_fill->n] = v;
        to_fill->share[to_fill->n++] = share_of(f, v, now, &to_fill->bound);
    }
    if (r->b->peers && round < SLOW_ROUNDS)
        measure_peers(r, from, to);
}

static int subject_end(const bench *b, int from)
{
    int to = from + 1;
    while (to < b->n && b->figures[to].subject == b->figures[from].subject)
        to++;
    return to;
}

static void measure(rounds *r)
{
    calibrate(r);
    for (int round = 0; round < r->n; round++)
        for (int from = 0, to; from < r->b->n && tp_error(r->b->tp) == TP_OK; from = to) {
            to = subject_end(r->b, from);
            measure_subject(r, round, from, to);
        }
}

/* ---- the table ---------------------------------------------------------------------------------- */

static const char *limit_text(int which, char text[16])
{
    if (which == FMA)
        return "fma";
    snprintf(text, 16, "%s %s", limit_level_name((limit_level)((which - READ) % LIMIT_LEVELS)),
             which < COPY ? "read" : "copy");
    return text;
}

static void print_limits(rounds *r)
{
    char text[16];
    for (int i = 0; i < LIMITS; i++) {
        if (!r->n_limits[i])
            continue;
        const limit l = limit_of(r->limits[i], r->n_limits[i]);
        printf("limit: %-31s %9.4g %-8s (%.4g to %.4g)\n", limit_text(i, text), l.median,
               i == FMA ? "GFLOP/s" : "GB/s", l.low, l.high);
    }
}

static void print_figure(const rounds *r, int at)
{
    const figure *f = &r->b->figures[at];
    result *got = &r->results[at];
    char text[16] = "";
    const double raw = limit_of(got->value, got->n).median;
    const double value = f->told ? raw : f->rate ? f->scale / raw : f->scale * raw;
    printf("%-38s %9.4g %-8s", f->name, value, f->unit);
    if (got->bound >= 0)
        printf("%5.0f %% %-11s", 100 * limit_of(got->share, got->n).median,
               limit_text(got->bound, text));
    else
        printf("%7s %-11s", "", "");
    double peer = 0;
    const peer_row *best = peer_rows_best(&r->rows, f->peer_workload, f->peer_metric,
                                          f->peer_system, f->rate, &peer);
    if (best) {
        peer *= f->peer_scale > 0 ? f->peer_scale : 1;
        printf(" %9.4g %-16.16s %6.3f", peer, best->system,
               f->rate ? peer / value : value / peer);
        if (f->goal > 0)
            printf(" goal %.2f", f->goal);
    } else if (f->goal > 0) {
        printf(" %9.4g %-16s %6.3f", f->goal, "goal", value / f->goal);
    }
    printf("\n");
}

static void print_all(rounds *r)
{
    const bench *b = r->b;
    printf("%d thread%s, medians of %d rounds\n", b->threads, b->threads == 1 ? "" : "s", r->n);
    print_limits(r);
    if (!b->peers)
        printf("no peers: PEERS_RUN names no command that measures them\n");
    else if (r->peers_failed)
        printf("some peers could not be measured\n");
    printf("\n%-38s %9s %-8s%7s %-11s %9s %-16s %6s\n", "figure", "tapir", "", "of", "limit",
           b->peers ? "peer" : "", "", b->peers ? "time / peer's" : "");
    for (int i = 0; i < b->n; i++) {
        if (i == 0 || b->figures[i].subject != b->figures[i - 1].subject)
            printf("-- %s\n", b->figures[i].subject);
        if (r->results[i].n)
            print_figure(r, i);
    }
    struct stat library;
    if (b->threads == 1 && stat(BENCH_LIBRARY, &library) == 0)
        printf("%-38s %9.4g %-8s\n", "shared library, stripped", 1e-3 * (double)library.st_size,
               "KB");
}

bool bench_measure(bench *b, int n)
{
    rounds r = {.b = b, .n = n, .results = calloc((size_t)b->n + 1, sizeof *r.results)};
    bool room = r.results;
    for (int i = 0; i < LIMITS; i++) {
        r.limits[i] = calloc((size_t)(n * (b->n + 1)), sizeof **r.limits);
        room &= r.limits[i] != NULL;
    }
    if (room && tp_error(b->tp) == TP_OK)
        measure(&r);
    const bool good = room && tp_error(b->tp) == TP_OK;
    if (good)
        print_all(&r);
    else
        fprintf(stderr, "bench: %s\n", room ? tp_error_message(b->tp) : "out of memory");
    for (int i = 0; i < LIMITS; i++)
        free(r.limits[i]);
    free(r.results);
    peer_rows_free(&r.rows);
    return good;
}
