/* What the tests of codegen/ share: an empty folder, a bare context, compilers that are scripts,
 * and builds that are waited for. */
#ifndef TAPIR_BUILD_BED_H
#define TAPIR_BUILD_BED_H

#include "cc/build.h"
#include "cc/cache.h"
#include "cc/loader.h"
#include "cc/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define BED __attribute__((unused)) static

enum {
    WAIT_MS = 120000 /* for a machine that is very busy */
};

typedef struct bed {
    char root[256]; /* emptied and removed at the end */
    char cache[300];
    char tmp[300]; /* TMPDIR of the test */
    char compiler[300];
    tp_ctx ctx; /* memory, compiler and cache folder are all that a build asks of it */
} bed;

BED void remove_tree(const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return;
    if (!S_ISDIR(st.st_mode)) {
        unlink(path);
        return;
    }
    chmod(path, 0700);
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));) {
        char inner[1024];
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            remove_tree(inner);
    }
    if (d)
        closedir(d);
    rmdir(path);
}

BED int bed_setup(void **state)
{
    bed *b = calloc(1, sizeof *b);
    if (!b)
        return -1;
    /* Not below the build folder: who made the folders above that is not for us to say. */
    snprintf(b->root, sizeof b->root, "/tmp/bed-XXXXXX");
    if (!mkdtemp(b->root))
        return -1;
    snprintf(b->cache, sizeof b->cache, "%s/cache", b->root);
    snprintf(b->tmp, sizeof b->tmp, "%s/tmp", b->root);
    if (mkdir(b->tmp, 0700) != 0)
        return -1;
    setenv("TMPDIR", b->tmp, 1);
    unsetenv("TAPIR_CC");
    unsetenv("TAPIR_CACHE");
    tpi_mem_init(&b->ctx.mem, NULL);
    b->ctx.cache_dir = b->cache;
    *state = b;
    return 0;
}

BED int bed_teardown(void **state)
{
    bed *b = *state;
    tpi_undones_free(&b->ctx.undone, &b->ctx.mem);
    const size_t left = b->ctx.mem.in_use;
    tpi_mem_done(&b->ctx.mem);
    remove_tree(b->root);
    unsetenv("TMPDIR");
    free(b);
    if (left)
        print_error("%zu bytes were not given back\n", left);
    return left ? -1 : 0;
}

BED double ms_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

BED void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* Makes this shell script the compiler. */
BED void use_script(bed *b, const char *body)
{
    static int n;
    char text[2000];
    snprintf(b->compiler, sizeof b->compiler, "%s/cc%d", b->root, n++);
    snprintf(text, sizeof text, "#!/bin/sh\n%s\n", body);
    write_text(b->compiler, text);
    assert_int_equal(chmod(b->compiler, 0700), 0);
    b->ctx.compiler = b->compiler;
}

/* A build of one unit that defines int entry(void). */
BED tpi_build *start_limit(bed *b, const char *const *source, int limit_ms)
{
    const tpi_build_spec spec = {
        .n_sources = 1, .sources = source, .entry = "entry", .limit_ms = limit_ms};
    tpi_build *build = tpi_build_start(&b->ctx, &spec);
    assert_non_null(build);
    return build;
}

BED tpi_build *start(bed *b, const char *const *source)
{
    return start_limit(b, source, 0);
}

BED int call_entry(const tpi_build *build)
{
    void *const address = tpi_build_symbol(build, "entry");
    assert_non_null(address);
    int (*entry)(void);
    memcpy(&entry, &address, sizeof entry);
    return entry();
}

/* Waits for READY, calls entry(), frees. */
BED void expect_result(tpi_build *build, int value, bool from_cache)
{
    if (tpi_build_poll(build, WAIT_MS) != TPI_BUILD_READY)
        fail_msg("not ready: %s", tpi_build_message(build));
    assert_int_equal(call_entry(build), value);
    assert_int_equal(tpi_build_from_cache(build), from_cache);
    tpi_build_free(build);
}

/* Waits for FAILED with these words in the message, frees. */
BED void expect_failure(tpi_build *build, const char *words)
{
    assert_int_equal(tpi_build_poll(build, WAIT_MS), TPI_BUILD_FAILED);
    assert_null(tpi_build_symbol(build, "entry"));
    if (!strstr(tpi_build_message(build), words))
        fail_msg("\"%s\" does not say \"%s\"", tpi_build_message(build), words);
    tpi_build_free(build);
}

/* Files in a folder; -1 when it is not there. The name of one of them goes to name[256]. */
BED int count_files(const char *dir, char *name)
{
    DIR *d = opendir(dir);
    if (!d)
        return -1;
    int n = 0;
    for (const struct dirent *e; (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (name)
            snprintf(name, 256, "%s", e->d_name);
        n++;
    }
    closedir(d);
    return n;
}

#endif
