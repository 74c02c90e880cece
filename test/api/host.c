/* What is the host's: text and files are the same in a locale with a decimal comma, and calls that succeed
 * leave errno as it was. */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[] = "api_host-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[4][200];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
    return path[next];
}

/* ---- locale --------------------------------------------------------------------------------- */

static bool has_comma(void)
{
    return strcmp(localeconv()->decimal_point, ",") == 0;
}

/* A locale that writes 0,5: one that is installed, or one made here. */
static bool take_comma(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "pl_PL.UTF-8"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (setlocale(LC_ALL, names[i]) && has_comma())
            return true;
    char make[500];
    snprintf(make, sizeof make, "localedef --no-archive -i de_DE -f UTF-8 %s >%s 2>&1",
             in_folder("de_DE.UTF-8"), in_folder("localedef.log"));
    if (system(make) != 0)
        fprintf(stderr, "localedef: see its log\n");
    char *all = realpath(folder, NULL);
    setenv("LOCPATH", all, 1);
    free(all);
    return setlocale(LC_ALL, "de_DE.UTF-8") && has_comma();
}

enum { MOST_TEXT = 1 << 20 };

static size_t add_file(char *to, size_t n, const char *name)
{
    FILE *f = fopen(in_folder(name), "rb");
    assert_non_null(f);
    n += fread(to + n, 1, MOST_TEXT - n, f);
    fclose(f);
    return n;
}

static size_t add_text(char *to, size_t n, const char *text)
{
    assert_true(text && n + strlen(text) < MOST_TEXT);
    memcpy(to + n, text, strlen(text));
    return n + strlen(text);
}

/* All that is written with numbers in it, one after the other. */
static size_t all_texts(char *to)
{
    tp_ctx *tp = tp_open(NULL);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(3));
    tp_tensor *c = tp_tensor_new(tp, TP_F32, TP_DIMS(3), (float[3]){0.5f, 1.25e-9f, 3e20f});
    tp_tensor *y =
        tp_name(tp_mul(tp_clip(tp_add(x, c), -0.75, 1234.5), tp_scalar_like(x, 0.1)), "y");
    assert_int_equal(tp_graph_set_outputs(g, TP_TENSORS(y)), TP_OK);
    char text[400];
    size_t n = 0;
    tp_format(c, text, sizeof text);
    n = add_text(to, n, text);
    FILE *f = fopen(in_folder("print"), "wb");
    assert_non_null(f);
    assert_int_equal(
        tp_print(tp_tensor_new(tp, TP_F64, TP_DIMS(2), (double[2]){0.5, -7.125}), f), TP_OK);
    fclose(f);
    n = add_file(to, n, "print");
    char *graph = tp_graph_text(g);
    n = add_text(to, n, graph);
    assert_int_equal(tp_graph_save(g, in_folder("g.tapir")), TP_OK);
    n = add_file(to, n, "g.tapir");
    assert_int_equal(tp_onnx_save(g, in_folder("g.onnx"), TP_NAMES("x"), TP_NAMES("y")), TP_OK);
    n = add_file(to, n, "g.onnx");
    tp_graph *back = tp_graph_parse(tp, graph, strlen(graph));
    assert_non_null(back);
    tp_program *p = tp_graph_compile(back, TP_NAMES("x"), TP_NAMES("y"), NULL);
    assert_non_null(p);
    tp_tensor *out;
    assert_int_equal(tp_program_run(p, &c, &out), TP_OK);
    tp_format(out, text, sizeof text);
    n = add_text(to, n, text);
    assert_int_equal(tp_graph_save_c(g, in_folder("g.c"), TP_NAMES("x"), TP_NAMES("y"), NULL),
                     TP_OK);
    n = add_file(to, n, "g.c");
    tp_free(tp, graph);
    assert_int_equal(tp_error(tp), TP_OK);
    n = add_text(to, n, tp_error_text(tp_uniform(tp, TP_F32, TP_DIMS(1), 1.5, 0.5)));
    tp_close(tp);
    return n;
}

static void comma(void **state)
{
    (void)state;
    char *plain = malloc(MOST_TEXT), *other = malloc(MOST_TEXT);
    assert_true(plain && other);
    const size_t n = all_texts(plain);
    if (take_comma()) {
        char half[8];
        snprintf(half, sizeof half, "%.1f", 0.5);
        assert_string_equal(half, "0,5"); /* the host's own stays */
        const size_t m = all_texts(other);
        for (size_t i = 0; i < n && i < m; i++)
            if (plain[i] != other[i])
                fail_msg("at byte %zu: \"%.40s\", and with a comma \"%.40s\"", i, plain + i,
                         other + i);
        assert_int_equal(n, m);
        snprintf(half, sizeof half, "%.1f", 0.5);
        assert_string_equal(half, "0,5");
        setlocale(LC_ALL, "C");
    } else {
        print_message(
            "skipped: no locale with a decimal comma is installed, and localedef makes none\n");
    }
    free(plain);
    free(other);
}

/* ---- errno ---------------------------------------------------------------------------------- */

/* A number that no call sets. */
enum { OURS = 4711 };

static void keeps(const char *what, int line)
{
    if (errno != OURS)
        fail_msg("line %d: %s left errno %d (%s)", line, what, errno, strerror(errno));
}
#define KEEPS(call) (errno = OURS, (void)(call), keeps(#call, __LINE__))

static void body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_exp(in[0]);
}

/* By a compiler and from the cache. */
static void programs(tp_ctx *tp, tp_graph *g, tp_tensor *feed)
{
    static const tp_engine engines[] = {TP_ENGINE_C, TP_ENGINE_C, TP_ENGINE_TILES,
                                        TP_ENGINE_REFERENCE, TP_ENGINE_AUTO};
    tp_program *p;
    tp_tensor *out;
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        const tp_compile_options c = {.engine = engines[i]};
        KEEPS(p = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("y"), &c));
        if (engines[i] == TP_ENGINE_C)
            KEEPS(tp_program_wait(p));
        KEEPS(tp_program_run(p, &feed, &out));
        KEEPS(tp_program_run(p, &feed, &out));
        KEEPS(tp_program_free(p));
        assert_int_equal(tp_error(tp), TP_OK);
    }
}

static void errno_stays(void **state)
{
    (void)state;
    char cache[200], text[400];
    snprintf(cache, sizeof cache, "%s/a/cache", folder);
    tp_ctx *tp;
    tp_tensor *x, *y;
    tp_graph *g;
    KEEPS(tp = tp_open(&(tp_options){.cache_dir = cache}));
    KEEPS(tp_threads(tp, 3));
    KEEPS(x = tp_tensor_new(tp, TP_F32, TP_DIMS(3), (float[3]){1e-40f, 0.5f, 100}));
    KEEPS(tp_exp(x));
    KEEPS(tp_pow(tp_cast(x, TP_F64), tp_scalar(tp, TP_F64, 1e5)));
    KEEPS(tp_tensor_new(tp, TP_F32, TP_DIMS(4096, 4096), NULL));
    KEEPS(tp_matmul(tp_normal(tp, TP_F32, TP_DIMS(300, 300), 0, 1),
                    tp_normal(tp, TP_F32, TP_DIMS(300, 300), 0, 1)));
    KEEPS(tp_format(x, text, sizeof text));
    KEEPS(tp_npy_save(x, in_folder("x.npy")));
    KEEPS(tp_npy_save(x, in_folder("x.npy")));
    KEEPS(tp_npy_load(tp, in_folder("x.npy")));
    FILE *f = fopen(in_folder("print"), "w");
    assert_non_null(f);
    KEEPS(tp_print(x, f));
    fclose(f);

    KEEPS(g = tp_graph_new(tp));
    KEEPS(y = tp_placeholder(g, "x", TP_F32, TP_DIMS(3)));
    KEEPS(y = tp_name(tp_softmax(tp_mul(y, tp_scalar_like(y, 1e-42)), 0), "y"));
    KEEPS(tp_graph_set_outputs(g, TP_TENSORS(y)));
    programs(tp, g, x);
    KEEPS(tp_graph_save(g, in_folder("g.tapir")));
    KEEPS(tp_graph_load(tp, in_folder("g.tapir")));
    KEEPS(tp_onnx_save(g, in_folder("g.onnx"), TP_NAMES("x"), TP_NAMES("y")));
    KEEPS(tp_onnx_load(tp, in_folder("g.onnx"), NULL));
    KEEPS(tp_graph_save_c(g, in_folder("g.c"), TP_NAMES("x"), TP_NAMES("y"), NULL));

    tp_function *fn;
    KEEPS(fn = tp_function_new(tp, "f", body, NULL, NULL));
    for (int i = 0; i < 4; i++)
        KEEPS(tp_function_apply(fn, TP_TENSORS(x)));
    KEEPS(tp_function_wait(fn));
    KEEPS(tp_function_free(fn));
    assert_int_equal(tp_error(tp), TP_OK);
    KEEPS(tp_close(tp));
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errno_stays),
        cmocka_unit_test(comma),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char remove[100];
    snprintf(remove, sizeof remove, "rm -rf %s", folder);
    return system(remove) == 0 ? failed : 1;
}
