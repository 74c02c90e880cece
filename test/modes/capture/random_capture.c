/* Random C-like programs, run eagerly and captured: everything they note is the same.
 *
 *     random_capture [--seed N] [--count N] [--way NAME] [--fork 1] [--print 1]
 *
 * Program i has seed N + i. Those that keep the promise of a pure function run as one too. Most run by the reference and by the eager kernels, a sample by
 * compiled programs. One that differs is made smaller and printed. */
#include "c_program.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const both_way plain = {"eager", NULL, {.eager = true}, false};
static const both_way ways[] = {
    {"batch",         NULL,              {.eager = true},                                              BOTH_BATCHES},
    {"cells",         NULL,              {.engine = TP_ENGINE_TILES, .pure = true},                    BOTH_BATCHES},
    {"reference",     NULL,              {.engine = TP_ENGINE_REFERENCE},                              false       },
    {"kernels",       "/nonexistent/cc", {.engine = TP_ENGINE_AUTO},                                   false       },
    {"tiles",         NULL,              {.engine = TP_ENGINE_TILES},                                  false       },
    {"auto",          NULL,              {.engine = TP_ENGINE_AUTO},                                   true        },
    {"C",             NULL,              {.engine = TP_ENGINE_C},                                      false       },
    {"pure",          NULL,              {.engine = TP_ENGINE_REFERENCE, .pure = true},                false       },
    {"pure kernels",  "/nonexistent/cc", {.engine = TP_ENGINE_AUTO, .pure = true},                     false       },
    {"pure tiles",    NULL,              {.engine = TP_ENGINE_TILES, .pure = true},                    false       },
    {"pure, checked",
     NULL,                               {.engine = TP_ENGINE_REFERENCE, .pure = true, .check = true},
     false                                                                                                         },
    {"pure C",        NULL,              {.engine = TP_ENGINE_C, .pure = true},                        false       },
};
enum { N_WAYS = sizeof ways / sizeof *ways, SAMPLE = 50 };

/* The C compiler works for it: a sample of programs only. */
static bool compiles(const both_way *w)
{
    return w->how == BOTH_WAITS || w->opt.engine == TP_ENGINE_C;
}

/* ---- comparing --------------------------------------------------------------------------- */

static bool differs(const program *p, const both_way *way, char *why, size_t size)
{
    char *want = both_transcript(&plain, program_scenario, p);
    char *got = both_transcript(way, program_scenario, p);
    const bool wrong = both_differ(way, want, got, why, size);
    free(want);
    free(got);
    return wrong;
}

/* In a process of its own, so that one that crashes is one that is wrong. */
static bool differs_apart(const program *p, const both_way *way, bool tells)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        if (!tells &&
            (!freopen("/dev/null", "w", stderr) || !freopen("/dev/null", "w", stdout)))
            _exit(2);
        char why[2000];
        alarm(20);
        const bool wrong = differs(p, way, why, sizeof why);
        if (wrong)
            printf("%s\n", why);
        fflush(stdout);
        _exit(wrong);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("random_capture: a process of its own");
        exit(2); /* that nothing was run must not look like that nothing differed */
    }
    if (tells && WIFSIGNALED(status))
        printf("signal %d\n", WTERMSIG(status));
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/* ---- making smaller ---------------------------------------------------------------------- */

static bool try(program *p, const program *smaller, const both_way *way)
{
    if (!differs_apart(smaller, way, false))
        return false;
    *p = *smaller;
    return true;
}

static bool shrink_once(program *p, const both_way *way)
{
    bool any = false;
    for (int at = p->n - 1; at >= 0; at--)
        for (int how = 0; how < N_CUTS; how++) {
            program t = *p;
            any |= program_cut(&t, at, (cut)how) && try(p, &t, way);
        }
    for (int calls = 1; calls < p->calls; calls++) {
        program t = *p;
        t.calls = calls;
        any |= try(p, &t, way);
    }
    for (int i = 0; i < 5; i++) {
        program t = *p;
        bool *const flags[] = {&t.marks, &t.outside, &t.moves};
        if (i < 3 ? !*flags[i] : i == 3 ? t.fixed_size : t.second == 0)
            continue;
        if (i < 3)
            *flags[i] = false;
        else if (i == 3)
            t.fixed_size = true;
        else
            t.second = 0;
        any |= try(p, &t, way);
    }
    return any;
}

static void report(const program *p, const both_way *way, const char *name)
{
    program least = *p;
    for (int i = 0; i < 10 && shrink_once(&least, way); i++)
        ;
    printf("FAILED program %" PRIu64 " by %s; %d statements of %d:\n", p->seed, way->name,
           program_size(&least), program_size(p));
    program_print(&least, stdout);
    differs_apart(&least, way, true);
    printf("repeat: %s --seed %" PRIu64 " --count 1 --way %s\n", name, p->seed, way->name);
    fflush(stdout);
}

/* ---- all --------------------------------------------------------------------------------- */

static char crash_text[100]; /* what is said when the library crashes */

static void crashed(int number)
{
    if (write(STDOUT_FILENO, crash_text, strlen(crash_text)) < 0)
        _exit(3);
    signal(number, SIG_DFL);
    raise(number);
}

static void watch_for_crashes(void)
{
#ifdef __SANITIZE_ADDRESS__ /* says more by itself */
    const int numbers[] = {SIGABRT};
#else
    const int numbers[] = {SIGABRT, SIGSEGV, SIGFPE, SIGBUS};
#endif
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        signal(numbers[i], crashed);
}

typedef struct settings {
    uint64_t seed;
    int64_t count;
    const char *way;
    bool apart, prints;
} settings;

static bool run_one(const program *p, const both_way *way, const settings *s, const char *name)
{
    char why[2000];
    snprintf(crash_text, sizeof crash_text,
             "crashed; repeat: --fork 1 --count 1 --seed %" PRIu64 " --way %s\n", p->seed,
             way->name);
    const bool wrong =
        s->apart ? differs_apart(p, way, false) : differs(p, way, why, sizeof why);
    if (wrong)
        report(p, way, name);
    return !wrong;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* what was found is there when time runs out */
    settings s = {.seed = 1, .count = 200};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0)
            s.seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--count") == 0)
            s.count = atoll(argv[i + 1]);
        else if (strcmp(argv[i], "--way") == 0)
            s.way = argv[i + 1];
        else if (strcmp(argv[i], "--fork") == 0)
            s.apart = atoi(argv[i + 1]) != 0;
        else if (strcmp(argv[i], "--print") == 0)
            s.prints = atoi(argv[i + 1]) != 0;
    }
    watch_for_crashes();
    const bool compiler = system("cc --version > /dev/null 2>&1") == 0;
    int n_failed = 0;
    int64_t n_statements = 0, n_runs = 0;
    for (int64_t at = 0; at < s.count && n_failed < 5; at++) {
        program p;
        program_make(s.seed + (uint64_t)at, &p);
        n_statements += program_size(&p);
        if (s.prints)
            program_print(&p, stdout);
        for (int w = 0; w < N_WAYS; w++) {
            if ((ways[w].opt.pure && !p.pure) ||
                (s.way ? strcmp(s.way, ways[w].name) != 0
                       : compiles(&ways[w]) && (!compiler || at % SAMPLE != w)))
                continue;
            n_runs++;
            if (!run_one(&p, &ways[w], &s, argv[0])) {
                n_failed++;
                break;
            }
        }
    }
    printf("%" PRId64 " programs of %" PRId64 " statements together, %" PRId64
           " captured runs, seeds from %" PRIu64 ", %d failed\n",
           s.count, n_statements, n_runs, s.seed, n_failed);
    return n_failed != 0;
}
