/* A process is killed while it saves, again and again, by every function that writes a file: a file is there
 * as it was before or as it is to be, and what was left over is gone after the next save. */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROWS = 256 };
static int kills = 6; /* of each; or the argument */

static char folder[] = "killed_saves-XXXXXX";

typedef struct bed {
    tp_ctx *tp;
    tp_tensor *x;
    tp_graph *g;
    tp_program *p;
    tp_function *f;
    char path[200];
} bed;

static void body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_exp(in[0]);
}

static void bed_open(bed *b)
{
    b->tp = tp_open(NULL);
    b->x = tp_normal(b->tp, TP_F32, TP_DIMS(ROWS, ROWS), 0, 1);
    b->g = tp_graph_new(b->tp);
    tp_tensor *x = tp_placeholder(b->g, "x", TP_F32, TP_DIMS(ROWS, ROWS));
    tp_tensor *y = tp_name(tp_matmul(x, b->x), "y");
    assert_int_equal(tp_graph_set_outputs(b->g, TP_TENSORS(y)), TP_OK);
    const tp_compile_options c = {.engine = TP_ENGINE_TILES};
    b->p = tp_graph_compile(b->g, TP_NAMES("x"), TP_NAMES("y"), &c);
    assert_non_null(b->p);
    tp_tensor *out;
    assert_int_equal(tp_program_profile(b->p, true), TP_OK);
    assert_int_equal(tp_program_run(b->p, &b->x, &out), TP_OK);
    b->f = tp_function_new(b->tp, "f", body, NULL, NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(tp_status_of(tp_function_apply(b->f, TP_TENSORS(b->x))), TP_OK);
    assert_int_equal(tp_error(b->tp), TP_OK);
}

static tp_status save_npy(bed *b)
{
    return tp_npy_save(b->x, b->path);
}
static tp_status save_graph(bed *b)
{
    return tp_graph_save(b->g, b->path);
}
static tp_status save_onnx(bed *b)
{
    return tp_onnx_save(b->g, b->path, TP_NAMES("x"), TP_NAMES("y"));
}
static tp_status save_onnx_tensor(bed *b)
{
    return tp_onnx_tensor_save(b->x, b->path);
}
static tp_status save_onnx_value(bed *b)
{
    return tp_onnx_value_save(b->tp, b->path, "sequence(tensor(float))", 1, &b->x);
}
static tp_status save_onnx_function(bed *b)
{
    return tp_onnx_save_function(b->f, b->path, TP_NAMES("x"), TP_NAMES("y"));
}
static tp_status save_c(bed *b)
{
    return tp_graph_save_c(b->g, b->path, TP_NAMES("x"), TP_NAMES("y"), NULL);
}
static tp_status save_function_c(bed *b)
{
    return tp_function_save_c(b->f, b->path, TP_NAMES("x"), TP_NAMES("y"), NULL);
}
static tp_status save_state(bed *b)
{
    tp_state *s = tp_state_new(b->tp);
    tp_scope_begin(b->tp);
    tp_state_add(s, NULL, tp_variable(b->x, "x"));
    tp_scope_end(b->tp);
    const tp_status status = tp_state_save(s, b->path);
    tp_state_free(s);
    return status;
}
static tp_status save_archive(bed *b)
{
    return tp_archive_save(b->tp, b->path, 1, &(tp_archive_item){"x", b->x, NULL});
}
static tp_status save_profile(bed *b)
{
    return tp_program_profile_save(b->p, b->path);
}

static const struct {
    const char *name, *file;
    tp_status (*save)(bed *b);
} saves[] = {
    {"tp_npy_save",             "x.npy",         save_npy          },
    {"tp_graph_save",           "g.tapir",       save_graph        },
    {"tp_onnx_save",            "g.onnx",        save_onnx         },
    {"tp_onnx_tensor_save",     "x.pb",          save_onnx_tensor  },
    {"tp_onnx_value_save",      "v.pb",          save_onnx_value   },
    {"tp_onnx_save_function",   "f.onnx",        save_onnx_function},
    {"tp_graph_save_c",         "g.c",           save_c            },
    {"tp_function_save_c",      "f.c",           save_function_c   },
    {"tp_state_save",           "x.safetensors", save_state        },
    {"tp_archive_save",         "x.npz",         save_archive      },
    {"tp_program_profile_save", "p.json",        save_profile      },
};
enum { N_SAVES = sizeof saves / sizeof *saves };

/* Files in the folder, and how many of them are temporary. */
static int count_files(int *temporary)
{
    DIR *d = opendir(folder);
    assert_non_null(d);
    int n = 0;
    *temporary = 0;
    for (const struct dirent *e; (e = readdir(d));) {
        n += e->d_name[0] != '.';
        *temporary += strncmp(e->d_name, ".tapir", 6) == 0;
    }
    closedir(d);
    return n;
}

/* Of its bytes, or of the last two. */
static uint64_t hash_of(const char *path, bool varies)
{
    FILE *f = fopen(path, "rb");
    if (f && varies)
        fseek(f, -2, SEEK_END);
    uint64_t h = 1469598103934665603u;
    for (int c; f && (c = getc(f)) != EOF;)
        h = (h ^ (uint64_t)c) * 1099511628211u;
    if (f)
        fclose(f);
    return h;
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Saves, and is killed so many microseconds after it began; true if it had left something. */
static bool killed_after(bed *b, int which, unsigned us)
{
    int ends[2], temporary;
    char byte = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (write(ends[1], &byte, 1) == 1)
            while (saves[which].save(b) == TP_OK)
                continue;
        _exit(1);
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    usleep(us);
    kill(pid, SIGKILL);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail_msg("%s: ended before it was killed, status %d", saves[which].name, status);
    close(ends[0]);
    close(ends[1]);
    count_files(&temporary);
    return temporary > 0;
}

static void killed(void **state)
{
    (void)state;
    static bed b;
    uint64_t seed = 7;
    int left = 0;
    bed_open(&b);
    for (int i = 0; i < N_SAVES; i++) {
        const bool varies = saves[i].save == save_profile; /* the times in it */
        int temporary;
        snprintf(b.path, sizeof b.path, "%s/%s", folder, saves[i].file);
        const double began = now_us();
        if (saves[i].save(&b) != TP_OK)
            fail_msg("%s: %s", saves[i].name, tp_error_message(b.tp));
        const unsigned took = (unsigned)(now_us() - began) + 1;
        const uint64_t whole = hash_of(b.path, varies);
        const int files = count_files(&temporary);
        assert_int_equal(temporary, 0);
        for (int k = 0; k < kills; k++) {
            left += killed_after(&b, i, (unsigned)(unit_random(&seed) % (2 * took)));
            if (hash_of(b.path, varies) != whole)
                fail_msg("%s: the file is neither the old nor the new one", saves[i].name);
        }
        assert_int_equal(saves[i].save(&b), TP_OK);
        if (count_files(&temporary) != files || temporary)
            fail_msg("%s: files are left over: %d temporary ones", saves[i].name, temporary);
        if (hash_of(b.path, varies) != whole)
            fail_msg("%s: another file", saves[i].name);
    }
    print_message("%d of %d kills left a temporary file\n", left, N_SAVES * kills);
    assert_true(left > 0); /* or nothing was tested */
    tp_close(b.tp);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        kills = atoi(argv[1]);
    if (!mkdtemp(folder))
        return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char remove[100];
    snprintf(remove, sizeof remove, "rm -rf %s", folder);
    return system(remove) == 0 ? failed : 1;
}
