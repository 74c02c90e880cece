/* Files are read within limits and written whole or not at all. */
#include "base/file.h"
#include "common/unit.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "base_file-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[3][200];
    static int next;
    next = (next + 1) % 3;
    snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
    return path[next];
}

static size_t largest; /* of the pieces that were written */

/* In place of the C library's, for the library too. */
ssize_t write(int fd, const void *data, size_t size)
{
    largest = size > largest ? size : largest;
    return syscall(SYS_write, fd, data, size);
}

static int files(void)
{
    DIR *d = opendir(folder);
    int n = 0;
    for (const struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static bool write_file(tp_ctx *tp, const char *path, const char *text, tpi_writer *w)
{
    tpi_file_begin(w, &tp->mem, &tp->undone, path);
    for (const char *p = text; *p; p++)
        tpi_file_put(w, p, 1);
    tpi_file_put(w, NULL, 0);
    return tpi_file_end(w);
}

static void expect_content(tp_ctx *tp, const char *path, const char *text)
{
    tpi_file_bytes b;
    tpi_file_error e;
    assert_true(tpi_file_read(&tp->mem, path, 1000, &b, &e));
    assert_int_equal(b.size, strlen(text));
    assert_memory_equal(b.data, text, b.size);
    tpi_file_free(&tp->mem, &b);
}

static void whole(void **state)
{
    tp_ctx *tp = *state;
    tpi_writer w;
    const char *path = in_folder("a");
    assert_true(write_file(tp, path, "first", &w));
    expect_content(tp, path, "first");
    assert_true(write_file(tp, path, "second", &w));
    expect_content(tp, path, "second");
    assert_true(write_file(tp, path, "", &w));
    expect_content(tp, path, "");
    assert_int_equal(files(), 1);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    const mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(st.st_mode & 0777, 0666 & ~mask);
    unlink(path);
}

static void or_not_at_all(void **state)
{
    tp_ctx *tp = *state;
    tpi_writer w;
    const char *path = in_folder("b");
    assert_true(write_file(tp, path, "old", &w));

    tpi_file_begin(&w, &tp->mem, &tp->undone, path);
    tpi_file_put(&w, "new", 3);
    expect_content(tp, path, "old");
    tpi_file_abandon(&w);
    expect_content(tp, path, "old");
    assert_int_equal(files(), 1);

    /* The disk is full after 4096 bytes. */
    struct rlimit was, small = {4096, 4096};
    getrlimit(RLIMIT_FSIZE, &was);
    small.rlim_max = was.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    static const char zeros[10000];
    tpi_file_begin(&w, &tp->mem, &tp->undone, path);
    tpi_file_put(&w, zeros, sizeof zeros);
    tpi_file_put(&w, zeros, sizeof zeros);
    const bool ok = tpi_file_end(&w);
    setrlimit(RLIMIT_FSIZE, &was);
    assert_false(ok);
    assert_int_equal(w.error.status, TP_E_IO);
    assert_non_null(strstr(w.error.text, "File too large"));
    assert_non_null(strstr(w.error.text, path));
    expect_content(tp, path, "old");
    assert_int_equal(files(), 1);
    unlink(path);
}

/* Killed in a save: what it leaves goes with the next save. What another save writes now stays. */
static void killed(void **state)
{
    tp_ctx *tp = *state;
    tpi_writer w, now;
    assert_true(write_file(tp, in_folder("k"), "old", &w));
    tpi_file_begin(&now, &tp->mem, &tp->undone, in_folder("now"));
    for (int i = 0; i < 3; i++) {
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            tpi_writer two[2];
            for (int k = 0; k < 2; k++) {
                tpi_file_begin(&two[k], &tp->mem, &tp->undone, in_folder("k"));
                tpi_file_put(&two[k], "new", 3);
            }
            raise(SIGKILL);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(files(), 2 + 2);
    }
    expect_content(tp, in_folder("k"), "old");
    tpi_file_put(&now, "now", 3);
    assert_true(write_file(tp, in_folder("k"), "new", &w));
    assert_int_equal(files(), 2);
    assert_true(tpi_file_end(&now));
    assert_int_equal(files(), 2);
    expect_content(tp, in_folder("k"), "new");
    expect_content(tp, in_folder("now"), "now");

    /* One that is given up by tp_abandon fails, in a fork of the process nothing is. */
    tpi_file_begin(&w, &tp->mem, &tp->undone, in_folder("k"));
    const pid_t pid = fork();
    if (pid == 0) {
        tp_abandon(tp);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(files(), 3);
    tp_abandon(tp);
    assert_int_equal(files(), 2);
    assert_false(tpi_file_end(&w));
    expect_content(tp, in_folder("k"), "new");
    unlink(in_folder("k"));
    unlink(in_folder("now"));
}

/* Names that are taken by what is no file of ours: they are left alone. */
static void taken(void **state)
{
    tp_ctx *tp = *state;
    tpi_writer w;
    assert_int_equal(mkfifo(in_folder(".tapir-0"), 0600), 0);
    assert_int_equal(symlink("nowhere", in_folder(".tapir-1")), 0);
    assert_int_equal(mkdir(in_folder(".tapir-2"), 0700), 0);
    assert_true(write_file(tp, in_folder("t"), "text", &w));
    expect_content(tp, in_folder("t"), "text");
    assert_int_equal(files(), 4);
    unlink(in_folder("t"));
    rmdir(in_folder(".tapir-2"));
    unlink(in_folder(".tapir-1"));
    unlink(in_folder(".tapir-0"));
}

static void no_place(void **state)
{
    tp_ctx *tp = *state;
    tpi_writer w;
    assert_false(write_file(tp, in_folder("none/c"), "x", &w));
    assert_non_null(strstr(w.error.text, "none/c: No such file or directory"));
    assert_false(write_file(tp, folder, "x", &w));
    assert_non_null(strstr(w.error.text, "Is a directory"));
    assert_false(write_file(tp, NULL, "x", &w));
    assert_int_equal(w.error.status, TP_E_NULL);
    assert_false(write_file(tp, "/dev/null", "x", &w)); /* it would be replaced by a file */
    assert_string_equal(w.error.text, "/dev/null: is there and is no regular file");
    assert_false(write_file(tp, "", "x", &w));
    char name[400] = {0};
    memset(name, 'n', sizeof name - 1);
    assert_false(write_file(tp, name, "x", &w));
    assert_non_null(strstr(w.error.text, "nnn: File name too long"));
    assert_int_equal(files(), 0);
}

/* Who is to end by a signal does not wait for gigabytes to be written. */
static void pieces(void **state)
{
    tp_ctx *tp = *state;
    const size_t size = (5 << 20) + 7;
    char *data = test_malloc(size);
    memset(data, 'x', size);
    data[size - 1] = 'y';
    tpi_writer w;
    tpi_file_bytes b;
    tpi_file_error e;
    largest = 0;
    tpi_file_begin(&w, &tp->mem, &tp->undone, in_folder("p"));
    tpi_file_put(&w, data, size);
    assert_true(tpi_file_end(&w));
    assert_in_range(largest, 1, 1 << 20);
    assert_true(tpi_file_read(&tp->mem, in_folder("p"), size, &b, &e));
    assert_int_equal(b.size, size);
    assert_memory_equal(b.data, data, size);
    tpi_file_free(&tp->mem, &b);
    test_free(data);
    unlink(in_folder("p"));
}

static void limits(void **state)
{
    tp_ctx *tp = *state;
    tpi_writer w;
    tpi_file_bytes b;
    tpi_file_error e;
    const char *path = in_folder("d");
    assert_true(write_file(tp, path, "0123456789", &w));
    assert_true(tpi_file_read(&tp->mem, path, 10, &b, &e));
    tpi_file_free(&tp->mem, &b);
    assert_false(tpi_file_read(&tp->mem, path, 9, &b, &e));
    assert_int_equal(e.status, TP_E_IO);
    assert_non_null(strstr(e.text, "d: has more than the 9 bytes allowed"));
    assert_null(b.data);
    assert_true(tpi_file_read(&tp->mem, path, SIZE_MAX, &b, &e));
    assert_int_equal(b.size, 10);
    tpi_file_free(&tp->mem, &b);
    unlink(path);
    assert_false(tpi_file_read(&tp->mem, folder, 9, &b, &e));
    assert_non_null(strstr(e.text, "Is a directory"));
    assert_false(tpi_file_read(&tp->mem, "/dev/zero", 9, &b, &e));
    assert_string_equal(e.text, "/dev/zero: is neither a file nor a pipe");
    assert_false(tpi_file_read(&tp->mem, NULL, 9, &b, &e));
    assert_int_equal(e.status, TP_E_NULL);
}

static void pipes(void **state)
{
    tp_ctx *tp = *state;
    const char *path = in_folder("pipe");
    char command[400];
    tpi_file_bytes b;
    tpi_file_error e;
    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(command, sizeof command, "head -c 300000 /dev/zero >%s &", path);
    assert_int_equal(system(command), 0);
    assert_true(tpi_file_read(&tp->mem, path, 300000, &b, &e));
    assert_int_equal(b.size, 300000);
    tpi_file_free(&tp->mem, &b);
    assert_int_equal(system(command), 0);
    assert_false(tpi_file_read(&tp->mem, path, 299999, &b, &e));
    assert_non_null(strstr(e.text, "has more than the 299999 bytes allowed"));
    unlink(path);
}

int main(void)
{
    if (!mkdtemp(folder)) {
        perror(folder);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        CASE(whole),    CASE(or_not_at_all), CASE(killed), CASE(taken),
        CASE(no_place), CASE(limits),        CASE(pipes),  CASE(pieces),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
