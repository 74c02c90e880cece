/* tapir test: runs test cases, each in a process of its own, so that one that crashes or hangs is
 * a result like any other. */
#include "cases.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct settings {
    bool list, json;
    int engine;
    int64_t jobs, timeout, threads;
    double rtol, atol;
} settings;

enum { ENGINE_BOTH, ENGINE_REFERENCE, ENGINE_TILES, ENGINE_C };
enum { MOST_JOBS = 256 };

static const option options[] = {
    CLI_SWITCH(list, "list", "a line for every case, not only for those that do not pass"),
    CLI_CHOICE(engine, "engine", "both|reference|tiles|c", "both,reference,tiles,c",
               "what computes them (both)"),
    CLI_COUNT(jobs, "jobs", "N", 1, MOST_JOBS,
              "cases at a time (one per processor and thread)"),
    CLI_THREADS(""),
    CLI_COUNT(timeout, "timeout", "SECONDS", 1, 1000000,
              "a case that takes longer has failed (600)"),
    CLI_OPTION(OPTION_NUMBER, rtol, "rtol", "X",
               "relative tolerance (1e-3; where ONNX has another: that)"),
    CLI_OPTION(OPTION_NUMBER, atol, "atol", "X", "absolute tolerance (1e-7, likewise)"),
    CLI_SWITCH(json, "json", "the same as JSON"),
    CLI_OPTIONS_END,
};

static const char *const verdict_names[] = {"pass", "FAIL", "skip"};

/* ---- processes --------------------------------------------------------------------------------------- */

typedef struct job {
    pid_t pid; /* 0: none */
    int pipe, which;
    double deadline;
    size_t got; /* bytes of the result */
} job;

typedef struct testing {
    const settings *s;
    case_options opt;
    const test_cases *cases;
    case_result *results;
    bool *done;
    int n_printed, n_jobs;
    job jobs[MOST_JOBS];
    int count[N_VERDICTS];
} testing;

static void run_in_child(const testing *t, int which, int fd)
{
    case_result r;
    memset(&r, 0, sizeof r);
    case_run(&t->cases->v[which], &t->opt, &r);
    const char *p = (const char *)&r;
    for (size_t left = sizeof r; left;) {
        const ssize_t n = write(fd, p, left);
        if (n <= 0)
            break;
        p += n;
        left -= (size_t)n;
    }
    _exit(0);
}

static bool start_job(testing *t, job *j, int which)
{
    int fds[2];
    if (pipe(fds) != 0)
        return false;
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* which ends what it has under way */
        close(fds[0]);
        run_in_child(t, which, fds[1]);
    }
    close(fds[1]);
    if (pid < 0) {
        close(fds[0]);
        return false;
    }
    *j = (job){.pid = pid,
               .pipe = fds[0],
               .which = which,
               .deadline = cli_now_ms() + (double)t->s->timeout * 1e3};
    return true;
}

static void put_case(const testing *t, int i)
{
    const case_result *r = &t->results[i];
    if (t->s->json) {
        printf("%s\n  {\"case\": ", i ? "," : "");
        put_json_text(stdout, t->cases->v[i].name);
        printf(", \"result\": \"%s\", \"reason\": ",
               r->verdict == CASE_FAILED ? "fail" : verdict_names[r->verdict]);
        put_json_text(stdout, r->reason);
        printf("}");
    } else if (t->s->list || r->verdict != CASE_PASSED) {
        printf("%s %s", verdict_names[r->verdict], t->cases->v[i].name);
        printf("%s", *r->reason ? ": " : "");
        put_plain_text(stdout, r->reason);
        printf("\n");
    }
}

/* It may have a compiler under way, which it ends. */
static void kill_job(const job *j)
{
    const double until = cli_now_ms() + 200;
    kill(j->pid, SIGTERM);
    struct pollfd fd = {.fd = j->pipe, .events = POLLIN};
    while (cli_now_ms() < until && !(fd.revents & POLLHUP))
        poll(&fd, 1, 20);
    kill(j->pid, SIGKILL);
}

/* The child has written all, or died, or is killed now. */
static void end_job(testing *t, job *j, bool late)
{
    case_result *r = &t->results[j->which];
    int status = 0;
    if (late)
        kill_job(j);
    close(j->pipe);
    while (waitpid(j->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (late) {
        r->verdict = CASE_FAILED;
        snprintf(r->reason, sizeof r->reason, "it took more than %lld seconds",
                 (long long)t->s->timeout);
    } else if (j->got < sizeof *r || !WIFEXITED(status)) {
        r->verdict = CASE_FAILED;
        snprintf(r->reason, sizeof r->reason, "it crashed: %s",
                 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "it ended early");
    }
    r->reason[sizeof r->reason - 1] = 0;
    t->count[r->verdict]++;
    t->done[j->which] = true;
    j->pid = 0;
    for (; t->n_printed < t->cases->n && t->done[t->n_printed]; t->n_printed++)
        put_case(t, t->n_printed);
}

static void read_job(testing *t, job *j)
{
    case_result *r = &t->results[j->which];
    const ssize_t n = read(j->pipe, (char *)r + j->got, sizeof *r - j->got);
    if (n > 0)
        j->got += (size_t)n;
    if (n == 0 || (n < 0 && errno != EINTR) || j->got == sizeof *r)
        end_job(t, j, false);
}

static void wait_for_jobs(testing *t)
{
    struct pollfd fds[MOST_JOBS];
    job *of[MOST_JOBS];
    nfds_t n = 0;
    double next = cli_now_ms() + 1e6;
    for (int i = 0; i < t->n_jobs; i++)
        if (t->jobs[i].pid) {
            of[n] = &t->jobs[i];
            fds[n++] = (struct pollfd){.fd = t->jobs[i].pipe, .events = POLLIN};
            next = t->jobs[i].deadline < next ? t->jobs[i].deadline : next;
        }
    const double left = next - cli_now_ms();
    poll(fds, n, left > 0 ? (int)left + 1 : 0);
    for (nfds_t i = 0; i < n; i++)
        if (fds[i].revents)
            read_job(t, of[i]);
        else if (cli_now_ms() > of[i]->deadline)
            end_job(t, of[i], true);
}

static bool run_all(testing *t)
{
    for (int next = 0, running = 1; next < t->cases->n || running;) {
        running = 0;
        for (int i = 0; i < t->n_jobs; i++) {
            if (!t->jobs[i].pid && next < t->cases->n && start_job(t, &t->jobs[i], next))
                next++;
            running += t->jobs[i].pid != 0;
        }
        if (!running && next < t->cases->n) {
            cli_refuse(NULL, "no process can be started: %s", strerror(errno));
            return false;
        }
        if (running)
            wait_for_jobs(t);
    }
    return true;
}

/* ---- the table of reasons ---------------------------------------------------------------------------- */

typedef struct row {
    char text[120];
    verdict verdict;
    int n;
} row;

typedef struct table {
    int n, size;
    row *v;
} table;

static void count_reason(table *t, verdict v, const char *text)
{
    int i = 0;
    while (i < t->n && (t->v[i].verdict != v || strcmp(t->v[i].text, text) != 0))
        i++;
    if (i == t->n && t->n == t->size) {
        const int size = t->size ? t->size * 2 : 64;
        row *rows = realloc(t->v, (size_t)size * sizeof *rows);
        if (!rows)
            return; /* a line of the summary is missing, no result */
        t->v = rows;
        t->size = size;
    }
    if (i == t->n) {
        t->v[t->n] = (row){.verdict = v};
        snprintf(t->v[t->n++].text, sizeof t->v->text, "%s", text);
    }
    t->v[i].n++;
}

/* A reason without what differs from case to case: names and numbers. */
static void common_part(const char *reason, char *out, size_t size)
{
    size_t n = 0;
    for (const char *p = reason; *p && n + 5 < size;) {
        if (strncmp(p, " (node ", 7) == 0 && strchr(p, ')')) {
            p = strchr(p, ')') + 1;
        } else if (*p == '"' && strchr(p + 1, '"')) {
            p = strchr(p + 1, '"') + 1;
            memcpy(out + n, "...", 3);
            n += 3;
        } else {
            out[n++] = *p++;
        }
    }
    out[n] = 0;
    char *element = strstr(out, ": element ");
    if (element && strstr(element, ", expected "))
        snprintf(element, (size_t)(out + size - element), ": a wrong number");
}

/* Every operator that a reason says is missing, by its name: "operator A (node ...) is not
 * supported, nor are: B, C". False when it says something else. */
static bool count_operators(table *t, const char *reason)
{
    static const char first[] = "operator ", more[] = "nor are: ";
    if (strncmp(reason, first, sizeof first - 1) != 0 || !strstr(reason, ") is not supported"))
        return false;
    const char *p = reason + sizeof first - 1;
    for (bool list = false; p; list = true) {
        char text[120];
        const size_t n = strcspn(p, list ? "," : " ");
        snprintf(text, sizeof text, "operator %.*s is not supported", n < 80 ? (int)n : 80, p);
        count_reason(t, CASE_SKIPPED, text);
        const char *next = list ? strchr(p, ',') : strstr(p, more);
        p = next && list ? next + 2 : next ? next + sizeof more - 1 : NULL;
    }
    return true;
}

static int by_verdict_and_text(const void *a, const void *b)
{
    const row *x = a, *y = b;
    return x->verdict != y->verdict ? (int)x->verdict - (int)y->verdict
                                    : strcmp(x->text, y->text);
}

static void put_table(const testing *t)
{
    table rows = {0};
    for (int i = 0; i < t->cases->n; i++)
        if (t->results[i].verdict != CASE_PASSED &&
            !count_operators(&rows, t->results[i].reason)) {
            char text[sizeof rows.v->text];
            common_part(t->results[i].reason, text, sizeof text);
            count_reason(&rows, t->results[i].verdict, text);
        }
    if (rows.v)
        qsort(rows.v, (size_t)rows.n, sizeof *rows.v, by_verdict_and_text);
    if (rows.n && !t->s->json)
        printf("\nreasons:\n");
    for (int i = 0; i < rows.n && rows.v; i++) {
        const row *r = &rows.v[i];
        if (t->s->json) {
            printf("%s\n  {\"reason\": ", i ? "," : "");
            put_json_text(stdout, r->text);
            printf(", \"result\": \"%s\", \"cases\": %d}",
                   r->verdict == CASE_FAILED ? "fail" : "skip", r->n);
        } else {
            printf("%6d  %s  ", r->n, verdict_names[r->verdict]);
            put_plain_text(stdout, r->text);
            printf("\n");
        }
    }
    free(rows.v);
}

/* ---- all together ---------------------------------------------------------------------------------------- */

static int test_cases_all(const settings *s, const test_cases *cases)
{
    testing t = {.s = s, .cases = cases};
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN) / (s->threads ? (long)s->threads : 1);
    t.n_jobs = (int)(s->jobs ? s->jobs : cpus > MOST_JOBS ? MOST_JOBS : cpus > 1 ? cpus : 1);
    t.opt =
        (case_options){.reference = s->engine == ENGINE_BOTH || s->engine == ENGINE_REFERENCE,
                       .tiles = s->engine == ENGINE_TILES,
                       .c = s->engine == ENGINE_BOTH || s->engine == ENGINE_C,
                       .threads = (int)s->threads,
                       .rtol = s->rtol,
                       .atol = s->atol};
    t.results = calloc((size_t)cases->n + 1, sizeof *t.results);
    t.done = calloc((size_t)cases->n + 1, sizeof *t.done);
    bool ok = t.results && t.done;
    if (!ok)
        cli_no_memory();
    if (ok && s->json)
        printf("{\"cases\": [");
    ok = ok && run_all(&t);
    if (ok && s->json)
        printf("\n], \"reasons\": [");
    if (ok)
        put_table(&t);
    if (ok && s->json)
        printf("\n], \"passed\": %d, \"failed\": %d, \"skipped\": %d}\n", t.count[CASE_PASSED],
               t.count[CASE_FAILED], t.count[CASE_SKIPPED]);
    else if (ok)
        printf("%d passed, %d failed, %d skipped\n", t.count[CASE_PASSED], t.count[CASE_FAILED],
               t.count[CASE_SKIPPED]);
    free(t.results);
    free(t.done);
    return !ok ? CLI_BAD : t.count[CASE_FAILED] ? CLI_DIFFERS : CLI_GOOD;
}

static int run(int argc, char **argv)
{
    settings s = {.rtol = -1, .atol = -1, .timeout = 600};
    texts operands;
    test_cases cases = {0};
    int status;
    const bool ok = cli_parse(&cli_test, argc, argv, &s, &operands, &status);
    if (ok) {
        for (int i = 0; i < operands.n && !cases.failed; i++) {
            const int before = cases.n;
            cases_find(&cases, operands.v[i]);
            if (!cases.failed && cases.n == before) {
                cli_refuse(operands.v[i],
                           "there is no model.onnx in it or in folders below it");
                cases.failed = true;
            }
        }
        status = cases.failed ? CLI_BAD : test_cases_all(&s, &cases);
    }
    cases_free(&cases);
    cli_parsed_free(&cli_test, &s, &operands);
    return status;
}

const command cli_test = {
    .name = "test",
    .operands = "DIR...",
    .about = "Runs ONNX test cases and compares the results.",
    .text =
        "A case is a folder with model.onnx and folders test_data_set_N of input_K and "
        "output_K,\n"
        ".pb or .npy (or one such set beside the model). DIR is a case, or holds cases at any\n"
        "depth. Floats are compared as ONNX's own runner does, all else has to be equal.\n"
        "\n"
        "A case fails when a value is wrong, or it crashes or hangs. It is skipped when it "
        "needs\n"
        "what tapir does not have: the reason names the operator. The last line counts:\n"
        "N passed, N failed, N skipped. The exit code is 0 when none failed, 1 otherwise.\n"
        "\n"
        "examples:\n"
        "  tapir test onnx/backend/test/data/node\n"
        "  tapir test node/test_add node/test_sub --list\n"
        "  tapir test models --engine c --atol 1e-4\n",
    .options = options,
    .least_operands = 1,
    .most_operands = 1 << 20,
    .run = run,
};
