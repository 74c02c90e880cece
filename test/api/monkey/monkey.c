/* Random calls of all public functions. A finding is a crash, a report of a sanitizer, memory that is still out
 * after tp_close, or a program that does not end; it is made as short as it can be and printed.
 *
 *     monkey [--programs N] [--seed S] [--demand N]   each function succeeded and failed N times
 *     monkey --only SEED [--without 3,17,..]          one program, its calls printed
 *     monkey --list                                   the functions
 *
 * With --mode 1 a host has all floating-point exceptions unmasked; with --mode 2 it also rounds upward and has
 * no subnormals. A signal, or another mode after a call, is a finding. */
#include "monkey.h"

#include "base/float_mode.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEAST = 30, MOST = 200, BATCH = 100, SECONDS = 10, MOST_BYTES = 64 << 20 };

const row rows[] = {
#define ROW(f, ends) {#f, call_##f, ends},
#include "rows.def"
#undef ROW
};
const int n_rows = (int)(sizeof rows / sizeof *rows);

/* What processes share. */
typedef struct board {
    uint64_t seed; /* of the program that runs */
    long ok[sizeof rows / sizeof *rows], bad[sizeof rows / sizeof *rows];
} board;

/* ---- the host's floating-point mode ------------------------------------------------------------- */

static int mode_number; /* of --mode; 0: the default one */

#if defined(__SSE2__)
static const tpi_float_mode modes[] = {TPI_FLOAT_DEFAULT, 0, 2 << 13 | 1 << 15 | 1 << 6};

static void set_mode(int number)
{
    tpi_float_mode_set(modes[number]);
}

static bool is_mode(int number)
{
    return (tpi_float_mode_now() & TPI_FLOAT_CONTROL) == modes[number];
}
#else
static void set_mode(int number)
{
    if (number) {
        printf("skipped: no other floating-point modes on this processor\n");
        exit(77);
    }
}

static bool is_mode(int number)
{
    return number == 0;
}
#endif

/* ---- memory ------------------------------------------------------------------------------------- */

static size_t bytes_out;

static void *take(void *user, size_t size)
{
    (void)user;
    void *p = NULL;
    if (size > MOST_BYTES || bytes_out > MOST_BYTES - size ||
        posix_memalign(&p, 64, size ? size : 1) != 0)
        return NULL;
    bytes_out += size;
    return p;
}

static void give_back(void *user, void *p, size_t size)
{
    (void)user;
    bytes_out -= size;
    free(p);
}

/* ---- a program ------------------------------------------------------------------------------------ */

void one_call(monkey *m, uint64_t draws)
{
    const uint64_t mine = m->draws;
    m->draws = draws;
    const int i = below(m, n_rows);
    if (m->trace) {
        fprintf(m->trace, "%*s%s\n", 4 * m->depth + 4, "", rows[i].name);
        fflush(m->trace);
    }
    const int ok = rows[i].call(m);
    if (ok != NOT_MADE)
        (ok ? m->ok : m->bad)[i]++;
    if (!is_mode(mode_number)) {
        fprintf(stderr, "%s leaves another floating-point mode\n", rows[i].name);
        abort();
    }
    if (m->trace && m->tp && tp_error(m->tp) != TP_OK)
        fprintf(m->trace, "%*s  -> %s\n", 4 * m->depth + 4, "", tp_error_message(m->tp));
    if (m->depth == 0)
        tp_clear_error(m->tp);
    m->draws = mine;
}

/* Something of each kind to begin with. */
static void begin(monkey *m, uint64_t seed)
{
    static const tp_allocator memory = {take, give_back, NULL};
    static const float v[6] = {1, 2, 3, -1, 0, 0.5f};
    static const int64_t places[2] = {1, 0};
    m->tp = tp_open(&(tp_options){.allocator = &memory,
                                  .seed = seed,
                                  .compiler = seed % 4 ? "false" : NULL,
                                  .cache_dir = ".",
                                  .max_turns = 8});
    m->other = open_other(seed);
    m->alien = tp_full(m->other, TP_F32, TP_DIMS(2, 3), 1);
    tp_tensor *x = tp_tensor_new(m->tp, TP_F32, TP_DIMS(2, 3), v);
    tp_graph *g = m->graph[0] = tp_graph_new(m->tp);
    m->graph[1] = tp_graph_new(m->tp);
    tp_tensor *p = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"), 3));
    tp_tensor *w = tp_param(tp_full(m->tp, TP_F32, TP_DIMS(3), 1), "w");
    tp_tensor *first[] = {
        x,
        tp_tensor_new(m->tp, TP_F32, TP_DIMS(3, 2), v),
        tp_require_grad(tp_full(m->tp, TP_F32, TP_DIMS(2, 3), 0.5)),
        tp_scalar(m->tp, TP_F32, 2),
        tp_tensor_new(m->tp, TP_I64, TP_DIMS(2), places),
        tp_scalar(m->tp, TP_I64, 1),
        tp_cast(x, TP_F64),
        tp_gt(x, tp_scalar_like(x, 0)),
        tp_full(m->tp, TP_F32, TP_DIMS(1, 2, 4, 4), 1),
        tp_full(m->tp, TP_F32, TP_DIMS(2, 2, 2, 2), -1),
        w,
        p,
        tp_relu(p),
        tp_name(tp_add(tp_mul(p, p), w), "y"),
        tp_cast(p, TP_I64),
        tp_variable(tp_full(m->tp, TP_F32, TP_DIMS(3), 0), "v"),
    };
    for (int i = 0; i < SLOTS; i++)
        m->slot[i] = first[(uint64_t)i % (sizeof first / sizeof *first)];
    m->optimizer[0] = tp_sgd_new(m->tp, 0.1, NULL, 1, &w);
    begin_objects(m, seed);
}

static void end(monkey *m)
{
    for (int i = 0; i < KEPT; i++) {
        tp_runner_free(m->runner[i]);
        tp_program_free(m->program[i].p);
        tp_function_free(m->function[i]);
        tp_optimizer_free(m->optimizer[i]);
        tp_release(m->retained[i]);
        tp_graph_free(m->graph[i]);
        tp_free(m->tp, m->memory[i]);
    }
    tp_close(m->tp);
    tp_close(m->other);
}

/* left[i]: call i is not made; NULL: all are. False: memory is still out. */
static bool run_program(board *b, uint64_t seed, const char *left, FILE *trace)
{
    monkey m = {.ok = b->ok, .bad = b->bad, .trace = trace, .draws = seed};
    b->seed = seed;
    alarm(SECONDS);
    m.buffer = malloc(BUFFER);
    m.null = fopen("/dev/null", "w");
    set_mode(mode_number);
    begin(&m, seed);
    const int n = LEAST + below(&m, MOST - LEAST + 1);
    for (int i = 0; i < n; i++) {
        const uint64_t draws = next(&m);
        if (left && left[i])
            continue;
        if (trace)
            fprintf(trace, "%3d", i);
        one_call(&m, draws);
    }
    end(&m);
    set_mode(0);
    fclose(m.null);
    free(m.buffer);
    alarm(0);
    if (bytes_out)
        fprintf(stderr, "%zu bytes are still out after tp_close\n", bytes_out);
    return bytes_out == 0;
}

/* ---- findings --------------------------------------------------------------------------------------- */

/* In a process of its own; what it says goes to `quiet` or to where this one's goes. */
static bool fails(board *b, uint64_t seed, const char *left, bool quiet)
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        if (quiet && (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)))
            _exit(3);
        const bool ok = run_program(b, seed, left, quiet ? NULL : stdout);
        exit(ok ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    return status != 0;
}

static void shrink(board *b, uint64_t seed)
{
    char left[MOST] = {0};
    board own = *b; /* what is tried does not count */
    for (int step = MOST / 2; step > 0; step /= 2)
        for (int at = 0; at < MOST; at += step) {
            char trial[MOST];
            memcpy(trial, left, sizeof trial);
            memset(trial + at, 1, (size_t)(at + step > MOST ? MOST - at : step));
            if (memcmp(trial, left, sizeof trial) != 0 && fails(&own, seed, trial, true))
                memcpy(left, trial, sizeof left);
        }
    printf("\n---- seed %llu, the calls that it takes\n", (unsigned long long)seed);
    fails(&own, seed, left, false);
    printf("repeat: monkey --mode %d --only %llu --without ", mode_number,
           (unsigned long long)seed);
    for (int i = 0; i < MOST; i++)
        if (left[i])
            printf("%d,", i);
    printf("\n");
}

/* Programs [first, first + n), a process for BATCH of them; those after a finding in a new one. */
static int run_all(board *b, uint64_t first, long n)
{
    int findings = 0;
    for (long at = 0; at < n;) {
        const long end_of = at + BATCH < n ? at + BATCH : n;
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0) {
            if (!freopen("/dev/null", "w", stdout))
                _exit(3);
            for (long i = at; i < end_of; i++)
                if (!run_program(b, first + (uint64_t)i, NULL, NULL))
                    exit(1);
            exit(0); /* where leaks are looked for */
        }
        int status;
        waitpid(child, &status, 0);
        at = end_of;
        if (at % 10000 == 0)
            fprintf(stderr, "%ld of %ld programs, %d findings\n", at, n, findings);
        if (status == 0)
            continue;
        findings++;
        const uint64_t seed = b->seed;
        printf("seed %llu: %s %d\n", (unsigned long long)seed,
               WIFSIGNALED(status) ? "signal" : "exit status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        if (findings <= 10)
            shrink(b, seed);
        at = (long)(seed - first) + 1;
    }
    return findings;
}

static int table(const board *b, long demand)
{
    int missing = 0;
    printf("%-28s %10s %10s\n", "function", "succeeded", "failed");
    for (int i = 0; i < n_rows; i++) {
        const bool enough = (rows[i].ends == NO_SUCCESS || b->ok[i] >= demand) &&
                            (rows[i].ends == NO_FAILURE || b->bad[i] >= demand);
        printf("%-28s %10ld %10ld%s\n", rows[i].name, b->ok[i], b->bad[i],
               enough ? "" : "  too few");
        missing += !enough;
    }
    return missing;
}

static uint64_t number_of(int argc, char **argv, const char *option, uint64_t otherwise)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], option) == 0)
            return strtoull(argv[i + 1], NULL, 10);
    return otherwise;
}

static const char *text_of(int argc, char **argv, const char *option)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], option) == 0)
            return argv[i + 1];
    return "";
}

static int only(board *b, uint64_t seed, const char *without)
{
    char left[MOST] = {0};
    for (const char *s = without; *s; s += strcspn(s, ","), s += *s == ',')
        left[strtoul(s, NULL, 10) % MOST] = 1;
    return run_program(b, seed, left, stdout) ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--list") == 0) {
        for (int i = 0; i < n_rows; i++)
            printf("%s\n", rows[i].name);
        return 0;
    }
    mode_number = (int)number_of(argc, argv, "--mode", 0) % 3;
    set_mode(mode_number);
    set_mode(0);
    char folder[] = "/tmp/monkey-XXXXXX";
    board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b == MAP_FAILED || !mkdtemp(folder) || chdir(folder) != 0)
        return 2;
    int status;
    const uint64_t one = number_of(argc, argv, "--only", UINT64_MAX);
    if (one != UINT64_MAX) {
        status = only(b, one, text_of(argc, argv, "--without"));
    } else {
        const long n = (long)number_of(argc, argv, "--programs", 1000);
        const uint64_t first = number_of(argc, argv, "--seed", 1);
        const int findings = run_all(b, first, n);
        const int missing = table(b, (long)number_of(argc, argv, "--demand", 0));
        printf("%ld programs from seed %llu: %d findings, %d functions called too seldom\n", n,
               (unsigned long long)first, findings, missing);
        status = findings || missing;
    }
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) != 0 ? 2 : status;
}
