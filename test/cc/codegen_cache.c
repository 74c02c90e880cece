/* The cache of compiled objects: which folders it refuses, damaged and false entries, several
 * processes at once, the limit on its size. */
#include "build_bed.h"

#define SOURCE(n) "int entry(void) { return " #n "; }\n"

/* ---- folders -------------------------------------------------------------------------------- */

/* The build goes on without a cache and says why; nothing stays behind. */
static void expect_refused(bed *b, const char *words)
{
    const char *source = SOURCE(42);
    for (int i = 0; i < 2; i++) {
        tpi_build *build = start(b, &source);
        assert_int_equal(tpi_build_poll(build, WAIT_MS), TPI_BUILD_READY);
        if (!strstr(tpi_build_message(build), words))
            fail_msg("\"%s\" does not say \"%s\"", tpi_build_message(build), words);
        expect_result(build, 42, false);
        assert_int_equal(count_files(b->tmp, NULL), 0);
    }
}

static void test_private(void **state)
{
    bed *b = *state;
    const char *source = SOURCE(42);
    const mode_t before = umask(0);
    expect_result(start(b, &source), 42, false);
    umask(before);
    struct stat st;
    char name[256], path[600];
    assert_int_equal(stat(b->cache, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(count_files(b->cache, name), 1);
    snprintf(path, sizeof path, "%s/%s", b->cache, name);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(st.st_mode & 0777, 0700);
}

/* Can another user open the file to write? */
static bool others_write(const char *path)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (setgid(12345) != 0 || setuid(12345) != 0)
            _exit(2);
        _exit(open(path, O_WRONLY) >= 0 ? 1 : errno == EACCES ? 0 : 3);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
    return WEXITSTATUS(status);
}

/* In a folder that others may read, with no umask, an entry is still its owner's alone; one that others could
 * have written to is made anew. */
static void test_open_entry(void **state)
{
    bed *b = *state;
    if (geteuid() != 0) {
        print_message("skipped: needs to be root\n");
        skip();
    }
    const char *source = SOURCE(42);
    char name[256], path[600];
    assert_int_equal(chmod(b->root, 0755), 0);
    assert_int_equal(mkdir(b->cache, 0755), 0);
    const mode_t before = umask(0);
    expect_result(start(b, &source), 42, false);
    assert_int_equal(count_files(b->cache, name), 1);
    snprintf(path, sizeof path, "%s/%s", b->cache, name);
    assert_false(others_write(path));
    static const mode_t modes[] = {0777, 0720, 0702};
    for (int i = 0; i < 3; i++) {
        expect_result(start(b, &source), 42, true);
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_int_equal(others_write(path), modes[i] & S_IWOTH ? 1 : 0);
        expect_result(start(b, &source), 42, false);
        assert_false(others_write(path));
    }
    assert_int_equal(count_files(b->cache, NULL), 1);
    umask(before);
}

static void test_open_folder(void **state)
{
    bed *b = *state;
    static const mode_t modes[] = {0720, 0702, 0777, 01777};
    assert_int_equal(mkdir(b->cache, 0700), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(chmod(b->cache, modes[i]), 0);
        expect_refused(b, "may be written by other users");
    }
    assert_int_equal(count_files(b->cache, NULL), 0);
    assert_int_equal(chmod(b->cache, 0755), 0); /* may be read: that does no harm */
    const char *source = SOURCE(42);
    expect_result(start(b, &source), 42, false);
    expect_result(start(b, &source), 42, true);
}

/* Who may write to a folder above could exchange what lies in it. */
static void test_open_above(void **state)
{
    bed *b = *state;
    char above[300], between[320], cache[340];
    const char *source = SOURCE(42);
    snprintf(above, sizeof above, "%s/above", b->root);
    snprintf(between, sizeof between, "%s/between", above);
    snprintf(cache, sizeof cache, "%s/cache", between);
    assert_int_equal(mkdir(above, 0700), 0);
    assert_int_equal(mkdir(between, 0700), 0);
    b->ctx.cache_dir = cache;
    expect_result(start(b, &source), 42, false);
    char *const folders[] = {above, between};
    static const mode_t modes[] = {0777, 0707, 0770};
    for (int k = 0; k < 2; k++) {
        char words[400];
        snprintf(words, sizeof words, "above it %s: may be written by other users", folders[k]);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(chmod(folders[k], modes[i]), 0);
            expect_refused(b, words);
        }
        assert_int_equal(chmod(folders[k], 01777), 0); /* as /tmp: names are their owners' */
        expect_result(start(b, &source), 42, true);
        if (geteuid() == 0) {
            snprintf(words, sizeof words, "above it %s: belongs to another user", folders[k]);
            assert_int_equal(chown(folders[k], 12345, 12345), 0);
            expect_refused(b, words);
            assert_int_equal(chown(folders[k], 0, 0), 0);
        }
        assert_int_equal(chmod(folders[k], 0755), 0);
    }
    expect_result(start(b, &source), 42, true);
}

/* A link above the cache is followed when nobody else could have made it. */
static void test_link_above(void **state)
{
    bed *b = *state;
    char real[300], link[300], cache[320], loop[300];
    const char *source = SOURCE(42);
    snprintf(real, sizeof real, "%s/real", b->root);
    snprintf(link, sizeof link, "%s/link", b->root);
    snprintf(cache, sizeof cache, "%s/./cache/", link);
    snprintf(loop, sizeof loop, "%s/loop", b->root);
    assert_int_equal(mkdir(real, 0700), 0);
    b->ctx.cache_dir = cache;
    for (int i = 0; i < 3; i++) {
        char to[300];
        snprintf(to, sizeof to, "../%s/real", strrchr(b->root, '/') + 1);
        assert_int_equal(symlink(i == 0 ? "real" : i == 1 ? to : real, link), 0);
        expect_result(start(b, &source), 42, i > 0);
        assert_int_equal(unlink(link), 0);
    }
    assert_int_equal(symlink(loop, loop), 0);
    assert_int_equal(symlink(loop, link), 0);
    expect_refused(b, "symbolic links");
    if (geteuid() == 0) {
        assert_int_equal(unlink(link), 0);
        assert_int_equal(symlink(real, link), 0);
        assert_int_equal(lchown(link, 12345, 12345), 0);
        expect_refused(b, "belongs to another user");
    }
}

static void test_link(void **state)
{
    bed *b = *state;
    char real[300], slash[320];
    snprintf(real, sizeof real, "%s/real", b->root);
    assert_int_equal(mkdir(real, 0700), 0);
    assert_int_equal(symlink(real, b->cache), 0);
    expect_refused(b, "is a symbolic link");
    snprintf(slash, sizeof slash, "%s//", b->cache);
    b->ctx.cache_dir = slash;
    expect_refused(b, "is a symbolic link");
    assert_int_equal(count_files(real, NULL), 0);
}

static void test_foreign(void **state)
{
    bed *b = *state;
    if (geteuid() != 0) {
        print_message("skipped: needs to be root\n");
        skip();
    }
    assert_int_equal(mkdir(b->cache, 0700), 0);
    assert_int_equal(chown(b->cache, 12345, 12345), 0);
    expect_refused(b, "belongs to another user");
    assert_int_equal(count_files(b->cache, NULL), 0);
}

static void test_no_folder(void **state)
{
    bed *b = *state;
    write_text(b->cache, "a file\n");
    expect_refused(b, "Not a directory");
    char below[310], nowhere[] = "/proc/no/such/folder";
    snprintf(below, sizeof below, "%s/below", b->cache);
    b->ctx.cache_dir = below;
    expect_refused(b, "Not a directory");
    b->ctx.cache_dir = nowhere;
    expect_refused(b, "No such file");
    char *lengthy = malloc(5001);
    assert_non_null(lengthy);
    memset(lengthy, 'x', 5000);
    lengthy[0] = '/';
    lengthy[5000] = 0;
    b->ctx.cache_dir = lengthy;
    expect_refused(b, "too long");
    free(lengthy);
}

/* What is there is used, nothing is added. */
static void test_read_only(void **state)
{
    bed *b = *state;
    const char *source = SOURCE(42), *other = SOURCE(43);
    expect_result(start(b, &source), 42, false);
    assert_int_equal(chmod(b->cache, 0500), 0);
    if (geteuid() == 0) { /* which may write everywhere: as somebody else */
        assert_int_equal(chmod(b->root, 0755), 0);
        assert_int_equal(chown(b->tmp, 12345, 12345), 0);
        assert_int_equal(chown(b->cache, 12345, 12345), 0);
        char name[256], path[600];
        count_files(b->cache, name);
        snprintf(path, sizeof path, "%s/%s", b->cache, name);
        assert_int_equal(chown(path, 12345, 12345), 0);
    }
    const pid_t pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && (setgid(12345) != 0 || setuid(12345) != 0))
            _exit(2);
        if (access(b->cache, R_OK) != 0)
            _exit(77);
        tpi_build *hit = start(b, &source), *miss = start(b, &other);
        if (tpi_build_poll(hit, WAIT_MS) != TPI_BUILD_READY || !tpi_build_from_cache(hit))
            _exit(3);
        if (tpi_build_poll(miss, WAIT_MS) != TPI_BUILD_READY || call_entry(miss) != 43 ||
            !strstr(tpi_build_message(miss), "Permission denied"))
            _exit(4);
        tpi_build_free(hit);
        tpi_build_free(miss);
        _exit(count_files(b->tmp, NULL) == 0 ? 0 : 5);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("skipped: another user cannot enter %s\n", b->root);
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(count_files(b->cache, NULL), 1);
}

/* Which folder it is when the program names none. */
static void test_choice(void **state)
{
    bed *b = *state;
    const char *source = SOURCE(42);
    char home[300], xdg[300], expected[340];
    snprintf(home, sizeof home, "%s/home", b->root);
    snprintf(xdg, sizeof xdg, "%s/xdg/deep", b->root);
    const char *old_home = getenv("HOME"), *old_xdg = getenv("XDG_CACHE_HOME");
    b->ctx.cache_dir = NULL;

    setenv("HOME", home, 1);
    unsetenv("XDG_CACHE_HOME");
    expect_result(start(b, &source), 42, false);
    snprintf(expected, sizeof expected, "%s/.cache/tapir", home);
    assert_int_equal(count_files(expected, NULL), 1);

    setenv("XDG_CACHE_HOME", xdg, 1);
    expect_result(start(b, &source), 42, false);
    snprintf(expected, sizeof expected, "%s/tapir", xdg);
    assert_int_equal(count_files(expected, NULL), 1);

    setenv("TAPIR_CACHE", b->cache, 1);
    expect_result(start(b, &source), 42, false);
    assert_int_equal(count_files(b->cache, NULL), 1);
    unsetenv("TAPIR_CACHE");

    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    expect_refused(b, "there is no HOME");
    if (old_home)
        setenv("HOME", old_home, 1);
    if (old_xdg)
        setenv("XDG_CACHE_HOME", old_xdg, 1);
}

/* ---- entries -------------------------------------------------------------------------------- */

static char *read_all(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *size = (size_t)ftell(f);
    rewind(f);
    char *data = malloc(*size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *size, f), *size);
    data[*size] = 0;
    fclose(f);
    return data;
}

static void write_all(const char *path, const char *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* Builds it and finds its entry. */
static void make_entry(bed *b, const char *source, int value, char path[600])
{
    char name[256];
    remove_tree(b->cache);
    expect_result(start(b, &source), value, false);
    assert_int_equal(count_files(b->cache, name), 1);
    snprintf(path, 600, "%s/%s", b->cache, name);
}

static void test_damaged(void **state)
{
    bed *b = *state;
    const char *source = SOURCE(42);
    char path[600];
    size_t size;
    make_entry(b, source, 42, path);
    char *good = read_all(path, &size);
    const size_t cuts[] = {0, 1, 16, 63, 64, 100, size / 2, size - 41, size - 40, size - 1};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        unlink(path);
        write_all(path, good, cuts[i]);
        expect_result(start(b, &source), 42, false);
        expect_result(start(b, &source), 42, true);
    }
    for (size_t i = 0; i < 24; i++) { /* a changed bit, the last ones in the trailer */
        const size_t at = i < 12 ? i * (size / 12) : size - 1 - (i - 12) * 3;
        good[at] ^= 0x10;
        unlink(path);
        write_all(path, good, size);
        good[at] ^= 0x10;
        tpi_build *build = start(b, &source);
        if (tpi_build_from_cache(build))
            fail_msg("a bit of byte %zu of %zu was changed", at, size);
        expect_result(build, 42, false);
    }
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_result(start(b, &source), 42, false);
    expect_result(start(b, &source), 42, true);
    unlink(path);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    expect_result(start(b, &source), 42, false);
    expect_result(start(b, &source), 42, true);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0); /* nobody writes: opening it must not wait */
    expect_result(start(b, &source), 42, false);
    expect_result(start(b, &source), 42, true);
    unlink(path); /* as it was: found again */
    write_all(path, good, size);
    expect_result(start(b, &source), 42, true);
    assert_int_equal(count_files(b->cache, NULL), 1);
    free(good);
}

/* Sizes at the end of an entry: trailer of cc/cache.c. */
static size_t object_size(const char *entry, size_t size)
{
    uint64_t n;
    memcpy(&n, entry + size - 32, sizeof n);
    return (size_t)n;
}

static void seal(const char *path, const tpi_piece *text)
{
    const int fd = open(path, O_RDWR | O_APPEND);
    assert_true(fd >= 0);
    assert_int_equal(tpi_cache_seal(fd, text, 1), 0);
    close(fd);
}

/* Entries whose checksum is right and whose object is not what it should be. */
static void test_false_objects(void **state)
{
    bed *b = *state;
    const char *source = SOURCE(42), *other = "int no_entry(void) { return 1; }\n";
    char path[600], object[300];
    size_t size;
    make_entry(b, source, 42, path);
    char *good = read_all(path, &size);
    const size_t n = object_size(good, size);
    assert_true(n > 64 && n < size);
    const tpi_piece text = {good + n, size - n - 40};
    assert_non_null(strstr(text.text, source));
    snprintf(object, sizeof object, "%s/object", b->root);

    /* Nothing, rubbish, part of an object, an object without the entry. */
    for (int i = 0; i < 4; i++) {
        char command[1000];
        write_all(object, i == 1 ? "rubbish" : good, i == 0 ? 0 : i == 1 ? 7 : n / 2);
        if (i == 3) {
            snprintf(command, sizeof command, "%s.c", object);
            write_text(command, other);
            snprintf(command, sizeof command, "cc -shared -fPIC -o %s %s.c", object, object);
            assert_int_equal(system(command), 0);
        }
        seal(object, &text);
        assert_int_equal(rename(object, path), 0);
        expect_result(start(b, &source), 42, false);
        expect_result(start(b, &source), 42, true);
    }
    free(good);
}

__attribute__((format(printf, 1, 2))) static void sh(const char *format, ...)
{
    char command[4000];
    va_list ap;
    va_start(ap, format);
    vsnprintf(command, sizeof command, format, ap);
    va_end(ap);
    assert_int_equal(system(command), 0);
}

/* Puts `with` in the place of `folder`, as another user. */
static void exchange(const char *folder, const char *with)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char away[700];
        snprintf(away, sizeof away, "%s.away", folder);
        if (setgid(12345) != 0 || setuid(12345) != 0)
            _exit(1);
        _exit(rename(folder, away) == 0 && rename(with, folder) == 0 ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Between the look at the cache and the load of an object any folder of its path is exchanged for one with a
 * false entry; then the entry itself, after it was read. It is what was looked at that runs. */
static void test_exchanged(void **state)
{
    bed *b = *state;
    if (geteuid() != 0) {
        print_message("skipped: needs to be root\n");
        skip();
    }
    assert_int_equal(chmod(b->root, 0755), 0);
    char one[300], two[320], cache[340], name[256], entry[700], evil[300];
    const char *source = SOURCE(42);
    size_t size;
    snprintf(one, sizeof one, "%s/one", b->root);
    snprintf(two, sizeof two, "%s/two", one);
    snprintf(cache, sizeof cache, "%s/three", two);
    snprintf(evil, sizeof evil, "%s/evil", b->root);
    assert_int_equal(mkdir(one, 0755), 0);
    assert_int_equal(mkdir(two, 0755), 0);
    setenv("TMPDIR", "/tmp", 1); /* not below what is opened */
    b->ctx.cache_dir = cache;
    expect_result(start(b, &source), 42, false);
    assert_int_equal(count_files(cache, name), 1);
    snprintf(entry, sizeof entry, "%s/%s", cache, name);
    char *good = read_all(entry, &size);
    const size_t n = object_size(good, size);
    const tpi_piece text = {good + n, size - n - 40};

    /* A false entry, with the right name, text and checksum. */
    sh("cd %s && echo 'int entry(void) { return 66; }' >evil.c && cc -shared -fPIC -o "
       "evil evil.c",
       b->root);
    seal(evil, &text);
    char *const folders[] = {one, two, cache, entry};
    for (int i = 0; i < 4; i++) {
        const char *it = folders[i], *rest = entry + strlen(it);
        tpi_cache c;
        char with[720], why[500];
        int fd;
        snprintf(with, sizeof with, "%s.with", it);
        sh("mkdir -p \"$(dirname '%s%s')\" && cp '%s' '%s%s'", with, rest, evil, with, rest);
        assert_true(tpi_cache_open(&c, cache, why, sizeof why));
        if (i == 3)
            assert_int_equal(tpi_cache_find(&c, name, &text, 1, &fd), TPI_CACHE_HIT);
        sh("chmod 0777 \"$(dirname '%s')\"", it);
        exchange(it, with);
        if (i < 3)
            assert_int_equal(tpi_cache_find(&c, name, &text, 1, &fd), TPI_CACHE_HIT);
        void *object = tpi_object_load(fd, why, sizeof why);
        assert_non_null(object);
        int (*function)(void);
        void *const address = tpi_object_symbol(object, "entry");
        memcpy(&function, &address, sizeof function);
        assert_int_equal(function(), 42);
        tpi_object_unload(object);
        close(fd);
        tpi_cache_close(&c);
        expect_refused(b, "may be written by other users");
        sh("rm -r '%s' && mv '%s.away' '%s' && chmod 0755 '%s' '%s' '%s'", it, it, it, b->root,
           one, two);
        assert_int_equal(chmod(cache, 0700), 0);
        expect_result(start(b, &source), 42, true);
    }
    free(good);
}

/* Objects at one descriptor, one after the other, while all are loaded: none is taken for another. */
static void test_same_descriptor(void **state)
{
    bed *b = *state;
    enum { N = 4 };
    void *objects[N];
    for (int i = 0; i < N; i++) {
        char path[300], why[500];
        snprintf(path, sizeof path, "%s/object%d", b->root, i);
        sh("echo 'int entry(void) { return %d; }' >%s.c && cc -shared -fPIC -o %s %s.c", i,
           path, path, path);
        const int fd = open(path, O_RDONLY);
        assert_true(fd >= 0 && fd < 100);
        assert_int_equal(dup2(fd, 100), 100);
        close(fd);
        objects[i] = tpi_object_load(100, why, sizeof why);
        assert_non_null(objects[i]);
        assert_ptr_equal(tpi_object_load(100, why, sizeof why), objects[i]);
        tpi_object_unload(objects[i]);
        close(100);
    }
    for (int i = 0; i < N; i++) {
        int (*entry)(void);
        void *const address = tpi_object_symbol(objects[i], "entry");
        memcpy(&entry, &address, sizeof entry);
        assert_int_equal(entry(), i);
        tpi_object_unload(objects[i]);
    }
}

/* A good entry of another program under this one's name: the text decides, not the name. */
static void test_compares(void **state)
{
    bed *b = *state;
    const char *first = SOURCE(42), *second = SOURCE(43);
    char path[600], name[256], other[600];
    size_t size, other_size;
    make_entry(b, second, 43, path);
    snprintf(other, sizeof other, "%s", path);
    char *entry = read_all(other, &other_size);
    make_entry(b, first, 42, path);
    unlink(path);
    write_all(path, entry, other_size);
    tpi_build *held = start(b, &second); /* and loaded, from its own name */
    assert_int_equal(tpi_build_poll(held, WAIT_MS), TPI_BUILD_READY);
    for (int i = 0; i < 2; i++) {
        tpi_build *build = start(b, &first);
        assert_int_equal(tpi_build_poll(build, WAIT_MS), TPI_BUILD_READY);
        assert_non_null(strstr(tpi_build_message(build), "another program"));
        expect_result(build, 42, false);
    }
    assert_int_equal(call_entry(held), 43);
    tpi_build_free(held);
    char *after = read_all(path, &size);
    assert_true(size == other_size && memcmp(after, entry, size) == 0);
    assert_int_equal(count_files(b->cache, name), 2);
    assert_int_equal(count_files(b->tmp, NULL), 0);
    free(after);
    free(entry);
}

/* A compiler that was replaced makes new entries. */
static void test_new_compiler(void **state)
{
    bed *b = *state;
    const char *source = SOURCE(42);
    use_script(b, "exec cc \"$@\"");
    expect_result(start(b, &source), 42, false);
    expect_result(start(b, &source), 42, true);
    write_text(b->compiler, "#!/bin/sh\nexec cc -DNEW \"$@\"\n");
    expect_result(start(b, &source), 42, false);
    assert_int_equal(count_files(b->cache, NULL), 2);
}

/* ---- several processes ---------------------------------------------------------------------- */

static void test_at_once(void **state)
{
    bed *b = *state;
    enum { N = 4, ROUNDS = 3 };
    for (int round = 0; round < ROUNDS; round++) {
        char text[100];
        snprintf(text, sizeof text, "int entry(void) { return %d; }\n", round + 100);
        const char *source = text;
        int gate[2];
        assert_int_equal(pipe(gate), 0);
        pid_t pids[N];
        for (int i = 0; i < N; i++) {
            pids[i] = fork();
            assert_true(pids[i] >= 0);
            if (pids[i] == 0) {
                char c;
                close(gate[1]);
                if (read(gate[0], &c, 1) != 0) /* until all are there */
                    _exit(2);
                tpi_build *build = start(b, &source);
                const bool ready = tpi_build_poll(build, WAIT_MS) == TPI_BUILD_READY;
                _exit(ready && call_entry(build) == round + 100 ? 0 : 1);
            }
        }
        close(gate[0]);
        close(gate[1]);
        for (int i = 0; i < N; i++) {
            int status;
            assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
            assert_int_equal(status, 0);
        }
        assert_int_equal(count_files(b->cache, NULL), round + 1); /* and no scratch folders */
        expect_result(start(b, &source), round + 100, true);
    }
}

/* Two contexts of one program hold the same object. */
static void test_shared(void **state)
{
    bed *b = *state;
    const char *source = SOURCE(42);
    tpi_build *first = start(b, &source);
    assert_int_equal(tpi_build_poll(first, WAIT_MS), TPI_BUILD_READY);
    tpi_build *second = start(b, &source);
    assert_true(tpi_build_from_cache(second));
    tpi_build_free(first);
    expect_result(second, 42, true);
}

/* ---- the limit ------------------------------------------------------------------------------ */

static void put_old(const char *dir, const char *name, size_t size, int age_s)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (size) {
        char *zeros = calloc(1, size);
        assert_non_null(zeros);
        write_all(path, zeros, size);
        free(zeros);
    } else {
        assert_int_equal(mkdir(path, 0700), 0);
    }
    struct timespec times[2];
    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= age_s;
    times[1] = times[0];
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static bool has(const bed *b, const char *name)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", b->cache, name);
    return access(path, F_OK) == 0;
}

static void test_limit(void **state)
{
    bed *b = *state;
    tpi_cache c;
    char why[500], name[64];
    assert_true(tpi_cache_open(&c, b->cache, why, sizeof why));
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "%032d.so", i);
        put_old(b->cache, name, 1000,
                100 * ((i + 5) % 10 + 1)); /* 4 is the oldest, 5 the newest */
    }
    put_old(b->cache, "README", 5000, 100000); /* not ours */
    put_old(b->cache, "folder", 0, 100000);
    struct timespec old[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};

    tpi_cache_trim(&c, &b->ctx.mem, 10000); /* fits */
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "%032d.so", i);
        assert_true(has(b, name));
    }
    tpi_cache_trim(&c, &b->ctx.mem, 8000); /* down to 6000 */
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "%032d.so", i);
        assert_int_equal(has(b, name), i == 0 || i >= 5);
    }
    assert_true(has(b, "README") && has(b, "folder"));
    tpi_cache_trim(&c, &b->ctx.mem, 0);
    assert_int_equal(count_files(b->cache, NULL), 2);
    tpi_cache_close(&c);

    /* A hit is a use. */
    const char *source = SOURCE(42);
    char path[600], full[256];
    struct stat st;
    make_entry(b, source, 42, path);
    assert_int_equal(count_files(b->cache, full), 1);
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    expect_result(start(b, &source), 42, true);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_mtim.tv_sec > 1000000);
}

/* What a killed process left goes with the next build; what another one uses stays. */
static void test_left_over(void **state)
{
    bed *b = *state;
    const char *source = SOURCE(42), *other = SOURCE(43);
    for (int i = 0; i < 2; i++) {
        const char *folder = i ? b->tmp : b->cache, *live = i ? "tapir-build-abc" : "build-abc";
        const char *dead = i ? "tapir-build-dead" : "build-dead";
        char path[400], why[500];
        tpi_scratch s;
        remove_tree(b->cache);
        if (i)
            write_text(b->cache, "no folder");
        else
            assert_int_equal(mkdir(b->cache, 0700), 0);
        put_old(folder, live, 0, 0);
        put_old(folder, dead, 0, 0);
        snprintf(path, sizeof path, "%s/unit0.c", dead);
        put_old(folder, path, 10, 0);
        snprintf(path, sizeof path, "%s/%s", folder, live);
        const int fd = open(path, O_RDONLY | O_DIRECTORY);
        assert_true(fd >= 0);
        const int dir = open(folder, O_RDONLY | O_DIRECTORY);
        assert_true(tpi_lock_new(fd, dir, live));
        tpi_build *build = start(b, &source);
        snprintf(path, sizeof path, "%s/%s", folder, dead);
        assert_int_not_equal(access(path, F_OK), 0);
        snprintf(path, sizeof path, "%s/%s", folder, live);
        assert_int_equal(access(path, F_OK), 0);
        /* A build that runs is not in the way of another one. */
        tpi_build *second = start(b, &other);
        assert_true(tpi_scratch_make(&s, &b->ctx, dir, i ? NULL : folder, why, sizeof why));
        tpi_scratch_remove(&s);
        close(fd);
        close(dir);
        expect_result(build, 42, false);
        expect_result(second, 43, false);
        expect_result(start(b, &(const char *){SOURCE(44)}), 44, false);
        assert_int_not_equal(access(path, F_OK), 0);
    }
}

/* Temporary files go where nobody else can exchange them, or nowhere. */
static void test_open_tmp(void **state)
{
    bed *b = *state;
    const char *source = SOURCE(42);
    write_text(b->cache, "no folder");
    assert_int_equal(chmod(b->tmp, 0777), 0);
    char words[400];
    snprintf(words, sizeof words, "TMPDIR %s: may be written by other users", b->tmp);
    expect_failure(start(b, &source), words);
    assert_int_equal(chmod(b->tmp, 01777), 0);
    expect_result(start(b, &source), 42, false);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, bed_setup, bed_teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_private),         CASE(test_open_folder),  CASE(test_link),
        CASE(test_open_above),      CASE(test_link_above),   CASE(test_exchanged),
        CASE(test_same_descriptor), CASE(test_left_over),    CASE(test_open_tmp),
        CASE(test_foreign),         CASE(test_no_folder),    CASE(test_read_only),
        CASE(test_choice),          CASE(test_damaged),      CASE(test_false_objects),
        CASE(test_compares),        CASE(test_new_compiler), CASE(test_at_once),
        CASE(test_shared),          CASE(test_limit),        CASE(test_open_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
