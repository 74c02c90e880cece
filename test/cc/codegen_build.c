/* Builds with compilers of all kinds: good, missing, failing, killed, hanging, talkative; and
 * what they must not do to the host program. */
#include "build_bed.h"

#define PLAIN "int entry(void) { return 42; }\n"

static void test_good(void **state)
{
    bed *b = *state;
    const char *source = PLAIN;
    tpi_build *build = start(b, &source);
    assert_int_equal(tpi_build_poll(build, -1), TPI_BUILD_READY);
    assert_string_equal(tpi_build_message(build), "");
    assert_null(tpi_build_symbol(build, "other"));
    assert_true(tpi_build_ms(build) > 0);
    expect_result(build, 42, false);
    assert_int_equal(count_files(b->cache, NULL), 1);
    assert_int_equal(count_files(b->tmp, NULL), 0);

    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        build = start(b, &source);
        assert_int_equal(tpi_build_poll(build, 0), TPI_BUILD_READY);
        best = tpi_build_ms(build) < best ? tpi_build_ms(build) : best;
        expect_result(build, 42, true);
    }
    print_message("from the cache: %.2f ms\n", best);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(best < 5);
#endif
}

/* What the flags promise: no fma where none is written, no symbols of others instead of ours. */
static void test_flags(void **state)
{
    bed *b = *state;
    const char *source = "#ifdef __FAST_MATH__\n#error fast\n#endif\n"
                         "#if MORE != 7\n#error flags\n#endif\n"
                         "static volatile float a = 1 + 0x1p-12f, c = -(1 + 0x1p-11f);\n"
                         "float rest(void) { float x = a; return x * x + c; }\n"
                         "int entry(void) { return rest() == 0; }\n";
    const char *const flags[] = {"-DMORE=7", NULL};
    const tpi_build_spec spec = {
        .n_sources = 1, .sources = &source, .entry = "entry", .flags = flags};
    tpi_build *build = tpi_build_start(&b->ctx, &spec);
    assert_non_null(build);
    expect_result(build, 1, false);
    expect_failure(start(b, &source), "flags"); /* not the object with the flag */
}

static void test_units(void **state)
{
    bed *b = *state;
    const char *const sources[] = {
        "int two(void), three(void); int entry(void) { return 10 * two() + three(); }\n",
        "int two(void) { return 2; }\n", "int three(void) { return 3; }\n"};
    const tpi_build_spec spec = {.n_sources = 3, .sources = sources, .entry = "entry"};
    for (int i = 0; i < 2; i++) {
        tpi_build *build = tpi_build_start(&b->ctx, &spec);
        assert_non_null(build);
        expect_result(build, 23, i == 1);
    }
    assert_int_equal(count_files(b->cache, NULL), 1);

    const char *const bad[] = {sources[0], "int two(void) { return 2; }\nint x = y;\n",
                               sources[2]};
    const tpi_build_spec spoiled = {.n_sources = 3, .sources = bad, .entry = "entry"};
    expect_failure(tpi_build_start(&b->ctx, &spoiled), "unit1.c:2:9");
    const tpi_build_spec less = {.n_sources = 2, .sources = sources, .entry = "entry"};
    expect_failure(tpi_build_start(&b->ctx, &less), "three");
    const tpi_build_spec none = {.n_sources = 0, .sources = sources, .entry = "entry"};
    expect_failure(tpi_build_start(&b->ctx, &none), "units");
    assert_int_equal(count_files(b->cache, NULL), 1);
}

static void test_wrong_source(void **state)
{
    bed *b = *state;
    const char *source = PLAIN "\nint more = nothing;\n";
    expect_failure(start(b, &source), "unit0.c:3:12");
    source = "int other(void) { return 1; }\n";
    expect_failure(start(b, &source), "does not define entry");
    assert_int_equal(count_files(b->cache, NULL), 0);
    assert_int_equal(count_files(b->tmp, NULL), 0);
}

static void test_missing_compiler(void **state)
{
    bed *b = *state;
    const char *source = PLAIN;
    char name[] = "no-such-compiler", path[] = "/no/such/compiler", words[] = "gcc -m64";
    b->ctx.compiler = name;
    expect_failure(start(b, &source), "\"no-such-compiler\": not found in PATH");
    b->ctx.compiler = path;
    expect_failure(start(b, &source), "\"/no/such/compiler\": No such file");
    b->ctx.compiler = words;
    expect_failure(start(b, &source), "without arguments");
    b->ctx.compiler = b->tmp;
    expect_failure(start(b, &source), "not a program");
    b->ctx.compiler = b->compiler;
    snprintf(b->compiler, sizeof b->compiler, "%s/text", b->root);
    write_text(b->compiler, "not a program\n");
    assert_int_equal(chmod(b->compiler, 0700), 0);
    expect_failure(start(b, &source), "Exec format error");
    assert_int_equal(count_files(b->cache, NULL), 0);

    b->ctx.compiler = NULL;
    setenv("TAPIR_CC", "another-compiler", 1);
    expect_failure(start(b, &source), "\"another-compiler\"");
    setenv("TAPIR_CC", "", 1); /* as if it were not set */
    expect_result(start(b, &source), 42, false);
    unsetenv("TAPIR_CC");
}

static void test_found_compilers(void **state)
{
    bed *b = *state;
    const char *source = PLAIN;
    char gcc[] = "gcc", clang[] = "clang";
    b->ctx.compiler = gcc;
    expect_result(start(b, &source), 42, false);
    if (access("/usr/bin/clang", X_OK) == 0) {
        b->ctx.compiler = clang;
        expect_result(start(b, &source), 42, false); /* another compiler, another entry */
        const char *wrong = PLAIN "int x = y;\n";
        expect_failure(start(b, &wrong), "unit0.c:2:9");
    } else {
        print_message("clang is not installed\n");
    }
    /* A relative path, and a program that looks at its folder. */
    char here[1024], script[] = "./mycc";
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(b->root), 0);
    write_text("mycc", "#!/bin/sh\nexec cc \"$@\"\n");
    assert_int_equal(chmod("mycc", 0700), 0);
    b->ctx.compiler = script;
    tpi_build *build = start(b, &source);
    assert_int_equal(chdir(here), 0);
    expect_result(build, 42, false);
}

static void test_failing_compilers(void **state)
{
    bed *b = *state;
    const char *source = PLAIN;
    use_script(b, "exit 0");
    expect_failure(start(b, &source), "made no object");
    use_script(b, "exit 3");
    expect_failure(start(b, &source), "exit status 3, no output");
    use_script(b, "echo on one; echo on two >&2; exit 1");
    expect_failure(start(b, &source), "exit status 1: on one\non two");
    use_script(b, "kill -9 $$");
    expect_failure(start(b, &source), "killed by signal 9");
    use_script(b, "echo so far; kill -SEGV $$");
    expect_failure(start(b, &source), "killed by signal 11: so far");
    use_script(b, "echo rubbish >program.so");
    expect_failure(start(b, &source), "not a shared object");
    use_script(b, "cc \"$@\" && truncate -s 300 program.so");
    expect_failure(start(b, &source), "cut short");
    use_script(b, "cc \"$@\" && truncate -s 4500 program.so"); /* headers whole, data not */
    expect_failure(start(b, &source), "cut short");
    use_script(b, "mkdir program.so");
    expect_failure(start(b, &source), "made no object");
    use_script(b, "cat unit0.c; exit 1");
    expect_failure(start(b, &source), "exit status 1: int entry(void) { return 42; }");
    assert_int_equal(count_files(b->tmp, NULL), 0);
}

/* Files end after so many bytes, as on a full disk: of our own, or of the compiler. */
static void test_full_disk(void **state)
{
    bed *b = *state;
    const char *source = PLAIN;
    struct rlimit was;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < 2; i++) {
        const struct rlimit limit = {.rlim_cur = i ? 300 : 10, .rlim_max = was.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        tpi_build *build = start(b, &source);
        tpi_build_poll(build, -1);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
        expect_failure(build, i ? "cc: " : "File too large");
        assert_int_equal(count_files(b->tmp, NULL), 0);
        assert_int_equal(count_files(b->cache, NULL), 0);
    }
    tpi_build *build = start(b, &source);
    expect_result(build, 42, false);
}

static void read_pids(const char *path, int pids[2])
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d %d", &pids[0], &pids[1]), 2);
    fclose(f);
}

/* Gone, or waiting for init to notice. */
static bool is_gone(int pid)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    for (int i = 0; i < 200; i++) {
        FILE *f = fopen(path, "r");
        if (!f)
            return true;
        const char *got = fgets(text, sizeof text, f);
        fclose(f);
        const char *after = got ? strrchr(text, ')') : NULL;
        if (!got || (after && after[2] == 'Z'))
            return true;
        usleep(10000);
    }
    return false;
}

static void test_hanging(void **state)
{
    bed *b = *state;
    const char *source = PLAIN;
    char body[700], pids_at[300];
    int pids[2];
    snprintf(pids_at, sizeof pids_at, "%s/pids", b->root);
    snprintf(body, sizeof body, "sleep 1000 & echo $$ $! >%s; wait", pids_at);
    use_script(b, body);
    double began = ms_now();
    tpi_build *build = start_limit(b, &source, 3000);
    assert_int_equal(tpi_build_poll(build, 0), TPI_BUILD_RUNNING);
    assert_int_equal(tpi_build_poll(build, 20), TPI_BUILD_RUNNING);
    expect_failure(build, "longer than 3.0 s");
    assert_true(ms_now() - began >= 3000);
    assert_true(ms_now() - began < 30000);
    read_pids(pids_at, pids);
    assert_true(is_gone(pids[0]));
    assert_true(is_gone(pids[1]));
    assert_int_equal(count_files(b->cache, NULL), 0);

    /* Freed while it runs. */
    unlink(pids_at);
    build = start(b, &source);
    while (access(pids_at, F_OK) != 0)
        assert_int_equal(tpi_build_poll(build, 10), TPI_BUILD_RUNNING);
    usleep(50000);
    began = ms_now();
    tpi_build_free(build);
    assert_true(ms_now() - began < 5000);
    read_pids(pids_at, pids);
    assert_true(is_gone(pids[0]));
    assert_true(is_gone(pids[1]));
    assert_int_equal(count_files(b->cache, NULL), 0);
}

/* It ends and leaves a child behind that keeps its output open: that is no reason to wait. */
static void test_left_behind(void **state)
{
    bed *b = *state;
    const char *source = PLAIN;
    use_script(b, "sleep 1000 & exec cc \"$@\"");
    const double began = ms_now();
    expect_result(start(b, &source), 42, false);
    assert_true(ms_now() - began < 60000);
    /* One that closes its output early is waited for all the same. */
    use_script(b, "exec >/dev/null 2>&1; sleep 0.2; exec cc \"$@\"");
    expect_result(start(b, &source), 42, false);
}

static void test_endless_output(void **state)
{
    bed *b = *state;
    const char *source = PLAIN;
    use_script(b, "exec yes 0123456789");
    tpi_build *build = start_limit(b, &source, 300);
    expect_failure(build, "longer than");
    use_script(b, "head -c 100000 /dev/zero | tr '\\0' x; exit 2");
    build = start(b, &source);
    assert_int_equal(tpi_build_poll(build, WAIT_MS), TPI_BUILD_FAILED);
    assert_true(strlen(tpi_build_message(build)) < 2400);
    expect_failure(build, "exit status 2: xxxx");
}

/* A compiler that begins when open_gate is called. */
static void use_gated(bed *b)
{
    char body[700];
    snprintf(body, sizeof body, "until test -e %s/gate; do sleep 0.02; done; exec cc \"$@\"",
             b->root);
    use_script(b, body);
}

static void open_gate(const bed *b)
{
    char path[300];
    snprintf(path, sizeof path, "%s/gate", b->root);
    write_text(path, "");
}

/* Who is asked for once starts no compiler; what is in the cache is there at once. */
static void test_second_poll(void **state)
{
    bed *b = *state;
    const char *source = PLAIN;
    const tpi_build_spec spec = {
        .n_sources = 1, .sources = &source, .entry = "entry", .second = true};
    char ran[300], script[400];
    snprintf(ran, sizeof ran, "%s/ran", b->root);
    snprintf(script, sizeof script, "touch '%s'\nexec cc \"$@\"", ran);
    use_script(b, script);
    tpi_build *build = tpi_build_start(&b->ctx, &spec);
    assert_non_null(build);
    assert_int_equal(tpi_build_poll(build, 0), TPI_BUILD_RUNNING);
    usleep(50000);
    assert_int_not_equal(access(ran, F_OK), 0);
    expect_result(build, 42, false);
    assert_int_equal(access(ran, F_OK), 0);
    build = tpi_build_start(&b->ctx, &spec);
    assert_non_null(build);
    assert_int_equal(tpi_build_poll(build, 0), TPI_BUILD_READY);
    tpi_build_free(build);
    build = tpi_build_start(&b->ctx, &(tpi_build_spec){.n_sources = 1,
                                                       .sources = (const char *[]){"int"},
                                                       .entry = "entry",
                                                       .second = true});
    tpi_build_free(build); /* it never ran */
}

static void test_does_not_wait(void **state)
{
    bed *b = *state;
    const char *source = PLAIN, *another = "int entry(void) { return 43; }\n";
    use_gated(b);
    tpi_build *build = start(b, &source), *second = start(b, &another);
    for (int i = 0; i < 10; i++)
        assert_int_equal(tpi_build_poll(build, 0), TPI_BUILD_RUNNING);
    const double began = ms_now();
    assert_int_equal(tpi_build_poll(build, 50), TPI_BUILD_RUNNING);
    assert_true(ms_now() - began >= 50);
    assert_int_equal(tpi_build_poll(second, 0), TPI_BUILD_RUNNING);
    open_gate(b);
    expect_result(second, 43, false);
    expect_result(build, 42, false);
}

/* What the compiler sees of the host: nothing it could harm or keep. */
static void test_child(void **state)
{
    bed *b = *state;
    const char *source = PLAIN;
    setenv("LANG", "de_DE.UTF-8", 1);
    setenv("LC_ALL", "de_DE.UTF-8", 1);
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGCHLD);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    signal(SIGPIPE, SIG_IGN);
    const int leak = open("/dev/null", O_RDONLY); /* a host's descriptor without O_CLOEXEC */
    assert_true(leak > 2);
    char body[800];
    snprintf(body, sizeof body,
             "echo in=$(readlink /proc/self/fd/0)\n"
             "test -e /proc/$$/fd/%d && echo leaked\n"
             "echo lang=$LC_ALL,$LANG\n"
             "echo tmp=$(test \"$TMPDIR\" = \"$PWD\" && echo here)\n"
             "grep -h 'Sig[BI]' /proc/$$/status | tr '\\t' ' '\n"
             "exit 1",
             leak);
    use_script(b, body);
    tpi_build *build = start(b, &source);
    assert_int_equal(tpi_build_poll(build, WAIT_MS), TPI_BUILD_FAILED);
    close(leak);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    unsetenv("LC_ALL");
    unsetenv("LANG");
    const char *said = tpi_build_message(build);
    assert_non_null(strstr(said, "in=/dev/null\n"));
    assert_non_null(strstr(said, "lang=C,\n"));
    assert_non_null(strstr(said, "tmp=here\n"));
    assert_non_null(strstr(said, "SigBlk: 0000000000000000\n"));
    /* 32 and 33 are glibc's own, which its posix_spawn leaves ignored. */
    const char *ignored = strstr(said, "SigIgn: ");
    assert_non_null(ignored);
    assert_true((strtoull(ignored + 8, NULL, 16) & ~(3ull << 31)) == 0);
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    assert_null(strstr(said, "leaked"));
#endif
    tpi_build_free(build);
}

static int seen; /* by the handler */

static void reap_all(int sig)
{
    (void)sig;
    const int kept = errno;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        seen++;
    errno = kept;
}

/* A host that reaps our children: the object is judged by itself, and not kept. */
static void test_host_reaps(void **state)
{
    bed *b = *state;
    const char *source = PLAIN;
    for (int i = 0; i < 2; i++) {
        struct sigaction own = {.sa_handler = i ? reap_all : SIG_IGN}, now, before;
        sigaction(SIGCHLD, &own, &before);
        expect_result(start(b, &source), 42, false);
        assert_int_equal(count_files(b->cache, NULL), 0);
        const char *wrong = PLAIN "int x = y;\n";
        expect_failure(start(b, &wrong), "unit0.c:2:9");
        use_script(b, "sleep 1000");
        expect_failure(start_limit(b, &wrong, 100), "longer");
        b->ctx.compiler = NULL;
        sigaction(SIGCHLD, &before, &now);
        assert_true(now.sa_handler == own.sa_handler);
    }
    assert_true(seen > 0);
}

/* A host that forks while a compiler runs: the copy may free, and takes nothing away. */
static void test_host_forks(void **state)
{
    bed *b = *state;
    const char *source = PLAIN;
    use_gated(b);
    tpi_build *build = start(b, &source), *polled = start(b, &source);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        tpi_build_free(build);
        const tpi_build_state s = tpi_build_poll(polled, -1);
        tpi_build_free(polled);
        _exit(s == TPI_BUILD_FAILED ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    open_gate(b);
    expect_result(build, 42, false);
    expect_result(polled, 42, false);
}

static int count_fds(void)
{
    return count_files("/proc/self/fd", NULL);
}

/* ---- memory that runs out ------------------------------------------------------------------- */

typedef struct scarce {
    int left;
    size_t out;
} scarce;

static void *scarce_alloc(void *user, size_t size)
{
    scarce *s = user;
    if (s->left-- <= 0)
        return NULL;
    s->out++;
    return aligned_alloc(64, (size + 63) / 64 * 64);
}

static void scarce_release(void *user, void *p, size_t size)
{
    (void)size;
    ((scarce *)user)->out--;
    free(p);
}

static void test_memory(void **state)
{
    bed *b = *state;
    /* Long texts, so that blocks do not fit into what earlier ones left. */
    const size_t size = 200000;
    char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, ' ', size);
    memcpy(text, PLAIN, strlen(PLAIN));
    text[size] = 0;
    const char *const sources[] = {text, "int second;\n"};
    const int fds = count_fds();
    int n = 0;
    for (bool done = false; !done; n++) {
        scarce s = {.left = n};
        const tp_allocator a = {scarce_alloc, scarce_release, &s};
        tp_ctx ctx = {.cache_dir = b->cache};
        tpi_mem_init(&ctx.mem, &a);
        const tpi_build_spec spec = {.n_sources = 2, .sources = sources, .entry = "entry"};
        tpi_build *build = tpi_build_start(&ctx, &spec);
        if (build) {
            done = tpi_build_poll(build, WAIT_MS) == TPI_BUILD_READY;
            if (done)
                assert_int_equal(call_entry(build), 42);
            else
                assert_non_null(strstr(tpi_build_message(build), "Cannot allocate memory"));
        }
        tpi_build_free(build);
        tpi_undones_free(&ctx.undone, &ctx.mem);
        assert_int_equal(ctx.mem.in_use, 0);
        tpi_mem_done(&ctx.mem);
        assert_int_equal(s.out, 0);
        assert_int_equal(count_fds(), fds);
        assert_true(n < 1000);
    }
    assert_true(n > 1);
    free(text);
}

static void test_log(void **state)
{
    bed *b = *state;
    const char *source = PLAIN;
    char path[300], text[4000];
    snprintf(path, sizeof path, "%s/log", b->root);
    for (int on = 0; on < 3; on++) {
        static const char *const kinds[] = {"", "pass,compile", "all"};
        setenv("TAPIR_LOG", kinds[on], 1);
        const int kept = dup(2), file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        assert_true(kept >= 0 && file >= 0);
        dup2(file, 2);
        tpi_build *build = start(b, &source);
        const tpi_build_state s = tpi_build_poll(build, WAIT_MS);
        dup2(kept, 2);
        close(kept);
        assert_int_equal(s, TPI_BUILD_READY);
        tpi_build_free(build);
        const ssize_t n = pread(file, text, sizeof text - 1, 0);
        close(file);
        assert_true(n >= 0);
        text[n] = 0;
        assert_int_equal(n == 0, on == 0);
        if (on) {
            assert_int_equal(memcmp(text, "tapir: compile: ", 16), 0);
            assert_non_null(strstr(text, "from the cache"));
        }
    }
    unsetenv("TAPIR_LOG");
}

static int fds_before;

static int count_at_start(void **state)
{
    (void)state;
    fds_before = count_fds();
    return 0;
}

static int count_at_end(void **state)
{
    (void)state;
    const int n = count_fds();
    if (n != fds_before)
        print_error("%d descriptors at the start, %d at the end\n", fds_before, n);
    return n == fds_before ? 0 : -1;
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, bed_setup, bed_teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_good),
        CASE(test_flags),
        CASE(test_units),
        CASE(test_wrong_source),
        CASE(test_missing_compiler),
        CASE(test_found_compilers),
        CASE(test_failing_compilers),
        CASE(test_full_disk),
        CASE(test_hanging),
        CASE(test_left_behind),
        CASE(test_endless_output),
        CASE(test_second_poll),
        CASE(test_does_not_wait),
        CASE(test_child),
        CASE(test_host_reaps),
        CASE(test_host_forks),
        CASE(test_memory),
        CASE(test_log),
    };
    return cmocka_run_group_tests(tests, count_at_start, count_at_end);
}
