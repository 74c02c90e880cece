/* The n-th allocation of the command's process fails, for every n (or every k-th): it prints what it always
 * prints, or says what failed and exits with a code of its own; it does not crash.
 *
 *     alloc_command TAPIR FAIL_MALLOC FOLDER [--step K] [--only N] COMMAND...
 *
 * COMMAND, one argument, is a line as "run linear.onnx --input x=x.npy", in FOLDER. */
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_WORDS = 16, MOST_TEXT = 1 << 16 };

extern char **environ;

typedef struct outcome {
    int status;
    char out[MOST_TEXT], err[MOST_TEXT];
} outcome;

typedef struct sweep {
    const char *tapir, *preload, *line;
    char *word[MOST_WORDS + 1]; /* of the line */
    char work[40];              /* a folder */
    long total;                 /* allocations of a run */
} sweep;

static void path_of(const sweep *s, const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", s->work, name);
}

static void read_text(const sweep *s, const char *name, char *text)
{
    char path[80];
    path_of(s, name, path, sizeof path);
    FILE *f = fopen(path, "rb");
    const size_t n = f ? fread(text, 1, MOST_TEXT - 1, f) : 0;
    text[n] = 0;
    if (f)
        fclose(f);
}

static bool run(sweep *s, long n, outcome *o)
{
    char out[80], err[80], count[80], at[40];
    path_of(s, "out", out, sizeof out);
    path_of(s, "err", err, sizeof err);
    path_of(s, "count", count, sizeof count);
    snprintf(at, sizeof at, "%ld", n);
    setenv("FAIL_MALLOC_AT", at, 1);
    setenv("FAIL_MALLOC_COUNT", count, 1);
    setenv("LD_PRELOAD", s->preload, 1);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&files, 2, err, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t child;
    const int failed = posix_spawn(&child, s->tapir, &files, NULL, s->word, environ);
    unsetenv("LD_PRELOAD");
    posix_spawn_file_actions_destroy(&files);
    if (failed || waitpid(child, &o->status, 0) != child) {
        printf("%s cannot be run\n", s->tapir);
        return false;
    }
    read_text(s, "out", o->out);
    read_text(s, "err", o->err);
    return true;
}

/* NULL: as it should be. */
static const char *wrong(const outcome *o, const outcome *want)
{
    if (!WIFEXITED(o->status))
        return "it ended by a signal";
    if (WEXITSTATUS(o->status) == WEXITSTATUS(want->status) && strcmp(o->out, want->out) == 0)
        return NULL;
    if (WEXITSTATUS(o->status) == 1 && strstr(o->out, "out of memory"))
        return NULL; /* of `tapir test`, in the list of what failed */
    if (WEXITSTATUS(o->status) == WEXITSTATUS(want->status))
        return "it printed something else";
    if (WEXITSTATUS(o->status) == 0)
        return "it says that all is well";
    return o->err[0] ? NULL : "it failed and said nothing";
}

static int sweep_all(sweep *s, long step, long only)
{
    static outcome want, got;
    char text[MOST_TEXT];
    int n_bad = 0;
    /* The first run fills the cache. */
    if (!run(s, 0, &want) || !run(s, 0, &want))
        return 1;
    read_text(s, "count", text);
    s->total = strtol(text, NULL, 10);
    if (s->total < 5) {
        printf("%s: %ld allocations are too few\n%s%s", s->line, s->total, want.out, want.err);
        return 1;
    }
    long n_run = 0;
    for (long n = only ? only : 1; n <= (only ? only : s->total) && n_bad < 10; n += step) {
        if (!run(s, n, &got))
            return n_bad + 1;
        n_run++;
        const char *what = wrong(&got, &want);
        if (!what)
            continue;
        n_bad++;
        printf("tapir %s: allocation %ld of %ld failed: %s (status 0x%x)\n%.900s%.900s"
               "    repeat: LD_PRELOAD=%s FAIL_MALLOC_AT=%ld tapir %s\n",
               s->line, n, s->total, what, (unsigned)got.status, got.out, got.err, s->preload,
               n, s->line);
    }
    printf("tapir %s: %ld of %ld allocations failed, %d badly\n", s->line, n_run, s->total,
           n_bad);
    return n_bad;
}

static int sweep_line(const char *tapir, const char *preload, const char *line, long step,
                      long only)
{
    sweep s = {.tapir = tapir, .preload = preload, .line = line, .work = "/tmp/alloc_XXXXXX"};
    char words[500], command[100];
    if (!mkdtemp(s.work)) {
        perror(s.work);
        return 1;
    }
    snprintf(words, sizeof words, "%s", line);
    int n = 0;
    char tapir_word[] = "tapir";
    s.word[n++] = tapir_word;
    for (char *w = strtok(words, " "); w && n < MOST_WORDS; w = strtok(NULL, " "))
        s.word[n++] = w;
    char cache[80];
    path_of(&s, "cache", cache, sizeof cache);
    setenv("TAPIR_CACHE", cache, 1);
    const int n_bad = sweep_all(&s, step, only);
    snprintf(command, sizeof command, "rm -rf '%s'", s.work);
    return system(command) != 0 ? 1 : n_bad;
}

int main(int argc, char **argv)
{
    long step = 1, only = 0;
    int at = 4, n_bad = 0;
    setenv("TAPIR_THREADS", "1", 1);
    for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2)
        *(strcmp(argv[at], "--only") == 0 ? &only : &step) = strtol(argv[at + 1], NULL, 10);
    if (at >= argc || step < 1 || chdir(argv[3]) != 0) {
        fprintf(stderr, "usage: alloc_command TAPIR FAIL_MALLOC FOLDER [--step K] [--only N] "
                        "COMMAND...\n");
        return 2;
    }
    for (; at < argc; at++)
        n_bad += sweep_line(argv[1], argv[2], argv[at], step, only);
    return n_bad != 0;
}
