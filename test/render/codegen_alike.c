/* What the text of a program is made of: kernels that are alike are one function, many that are not
 * are several translation units; the bits are those of the reference. */
#include "cc/build.h"
#include "common/unit.h"
#include "run/program.h"
#include <tapir/tapir.h>

enum { N = 40 };

static tp_program *compile(tp_graph *g, tp_engine engine, const char *skip)
{
    const tp_compile_options c = {.engine = engine, .skip_passes = skip};
    tp_program *p = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("y"), &c);
    assert_non_null(p);
    return p;
}

static int count(const char *text, const char *word)
{
    int n = 0;
    assert_non_null(text);
    for (; (text = strstr(text, word)) != NULL; text += strlen(word))
        n++;
    return n;
}

/* Runs g by C and by the reference on 6 x 6 numbers. */
static tp_program *same_bits(tp_ctx *tp, tp_graph *g, const char *skip)
{
    float data[36], y[2][36] = {{0}};
    for (int i = 0; i < 36; i++)
        data[i] = 0.07f * (float)(i - 11);
    tp_tensor *x = tp_tensor_new(tp, TP_F32, TP_DIMS(6, 6), data), *out = NULL;
    tp_program *p = compile(g, TP_ENGINE_C, skip), *r = compile(g, TP_ENGINE_REFERENCE, skip);
    assert_int_equal(tp_program_wait(p), TP_OK);
    assert_int_equal(tp_program_run(p, &x, &out), TP_OK);
    assert_string_equal(tp_program_engine(p), "c");
    assert_int_equal(tp_read(out, y[0], sizeof y[0]), TP_OK);
    assert_int_equal(tp_program_run(r, &x, &out), TP_OK);
    assert_int_equal(tp_read(out, y[1], sizeof y[1]), TP_OK);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    return p;
}

/* Products and what follows them differ in buffers and constants, and views in where they begin. */
static tp_program *products(tp_ctx *tp, int n, const char *skip)
{
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(6, 6)), *h = x;
    for (int i = 0; i < n; i++)
        h = tp_tanh(tp_add(tp_matmul(h, x), tp_scalar_like(h, i % 5 ? 0.25 * i : -0.0)));
    tp_name(h, "y");
    tp_program *p = same_bits(tp, g, skip);
    assert_in_range(tp_program_stats_of(p).kernels, n, 2 * n);
    return p;
}

static void test_alike(void **state)
{
    tp_program *p = products(*state, N, "bands");
    assert_in_range(count(tp_program_source(p), "noinline)) int64_t k"), 1, 4);
}

/* Members of bands too, and there is no text for the bands. */
static void test_bands(void **state)
{
    tp_program *p = products(*state, 10 * N, NULL);
    assert_in_range(p->plan->n_steps, 1, p->plan->n_kernels - 1);
    assert_in_range(count(tp_program_source(p), "noinline)) int64_t k"), 1, 4);
    assert_in_range(count(tp_program_source(p), "products_ws"), 1, 4);
}

/* Sums over rows of sizes of their own: too much text for one compiler, if there are more. */
static void test_units(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(6, 6)), *h = x;
    for (int i = 0; i < N; i++) {
        tp_tensor *wide =
            tp_concat(i + 2, (tp_tensor * [N + 2]){x, h, x, x, x, x, x, x, x, x, x, x, x, x,
                                                   x, x, x, x, x, x, x, x, x, x, x, x, x, x,
                                                   x, x, x, x, x, x, x, x, x, x, x, x, x, x},
                      1);
        tp_tensor *e = tp_exp(tp_mul(wide, tp_scalar_like(wide, 0.1)));
        h = tp_mul(h, tp_sigmoid(tp_sum(tp_mul(e, tp_tanh(wide)), 1, (int64_t[]){1}, true)));
    }
    tp_name(h, "y");
    const tp_program *p = same_bits(tp, g, "bands");
    const int units = count(tp_program_source((tp_program *)p), "#if UNIT == ") - 2;
    print_message("%d units, %d processors\n", units, tpi_build_cpus());
    assert_true(tpi_build_cpus() > 1 ? units > 1 : units < 2);
}

static const struct CMUnitTest tests[] = {CASE(test_alike), CASE(test_bands), CASE(test_units)};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
