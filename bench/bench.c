/* What tapir reaches, beside what the machine can do and what other systems reach, all measured in
 * the same run.
 *
 *     bench [--rounds N] [--threads N] [TEXT]    only figures whose name has TEXT in it
 *
 * PEERS_RUN is a command that measures other systems, see peer_rows.h. */
#include "bench.h"

#include "limits.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 9, MOST_ROUNDS = 99, MOST_THREADS = 64 };

typedef struct settings {
    int rounds, threads;
    const char *only;
} settings;

bool bench_wants(const bench *b, const char *name)
{
    return !b->only || strstr(name, b->only);
}

void bench_add(bench *b, figure f)
{
    f.subject = b->subject;
    if (b->n < MAX_FIGURES && bench_wants(b, f.name) && (b->threads == 1 || f.spreads))
        b->figures[b->n++] = f;
}

double bench_wall_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_now(const bench *b)
{
    return b->threads == 1 ? limit_now() : bench_wall_now();
}

static void add_all(bench *b)
{
    static const struct {
        const char *subject;
        void (*add)(bench *b);
    } all[] = {
        {"ops of next to no work", bench_add_ops     },
        {"products",               bench_add_products},
        {"loops over memory",      bench_add_loops   },
        {"captured functions",     bench_add_capture },
        {"LeNet training step",    bench_add_lenet   },
        {"control flow",           bench_add_control },
        {"Tree-LSTM",              bench_add_trees   },
        {"Many samples",           bench_add_samples },
        {"Samples that look",      bench_add_each    },
        {"models",                 bench_add_models  },
        {"training",               bench_add_train   },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all && tp_error(b->tp) == TP_OK; i++) {
        b->subject = all[i].subject;
        all[i].add(b);
    }
}

static int drop(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static bool parse(int argc, char **argv, settings *s)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
            s->rounds = atoi(argv[++i]);
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            s->threads = atoi(argv[++i]);
        else if (argv[i][0] != '-' && !s->only)
            s->only = argv[i];
        else
            return false;
    }
    return s->rounds > 0 && s->rounds <= MOST_ROUNDS && s->threads > 0 &&
           s->threads <= MOST_THREADS;
}

int main(int argc, char **argv)
{
    settings s = {.rounds = ROUNDS, .threads = 1};
    if (!parse(argc, argv, &s)) {
        fprintf(stderr, "usage: bench [--rounds 1..%d] [--threads 1..%d] [TEXT]\n", MOST_ROUNDS,
                MOST_THREADS);
        return 2;
    }
    const char *folder = getenv("TMPDIR"), *peers = getenv("PEERS_RUN");
    char cache[256];
    snprintf(cache, sizeof cache, "%s/tapir-bench-XXXXXX", folder && *folder ? folder : "/tmp");
    if (!mkdtemp(cache)) {
        perror("bench: a temporary folder");
        return 1;
    }
    bench *b = calloc(1, sizeof *b);
    bool good = false;
    if (b) {
        *b = (bench){.cache = cache,
                     .trees = access(BENCH_TREES, R_OK) == 0 ? BENCH_TREES : NULL,
                     .models = access(BENCH_MODELS, R_OK) == 0 ? BENCH_MODELS : NULL,
                     .only = s.only,
                     .peers = peers && *peers ? peers : NULL};
        b->tp = tp_open(&(tp_options){.seed = 7, .cache_dir = cache, .threads = s.threads});
        b->threads = tp_threads(b->tp, s.threads);
        limit_set_threads(b->threads);
        add_all(b);
        good = bench_measure(b, s.rounds);
        tp_close(b->tp);
    }
    free(b);
    nftw(cache, drop, 16, FTW_DEPTH | FTW_PHYS);
    return !good;
}
