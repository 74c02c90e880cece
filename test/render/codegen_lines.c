/* TAPIR_DEBUG_C: a program's text says which lines of the user's files its parts were made for, and
 * whatever their names are, it stays C. Without it there is no such word. */
#include "common/unit.h"
#include <tapir/tapir.h>

/* No name of a file can leave its string, or end the line. */
static const char odd_name[] = "od\"d\\ na\nme*/?\?/.c";

static tp_program *compile(tp_ctx *tp)
{
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(4, 4));
    tp_tensor *h = tp_matmul_at("first.c", 11, x, x);
    h = tp_tanh_at(odd_name, 12, h);
    h = tp_sub_at("third.c", 13, h, tp_sum_at("sum.c", 14, h, 1, (int64_t[]){1}, true));
    tp_name(h, "y");
    const tp_compile_options c = {.engine = TP_ENGINE_C};
    tp_program *p = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("y"), &c);
    assert_non_null(p);
    return p;
}

static void run(tp_ctx *tp, tp_program *p, float y[16])
{
    float data[16];
    for (int i = 0; i < 16; i++)
        data[i] = 0.01f * (float)i;
    tp_tensor *x = tp_tensor_new(tp, TP_F32, TP_DIMS(4, 4), data), *out = NULL;
    assert_int_equal(tp_program_wait(p), TP_OK);
    assert_int_equal(tp_program_run(p, &x, &out), TP_OK);
    assert_string_equal(tp_program_engine(p), "c");
    tp_read(out, y, 16 * sizeof *y);
}

static void test_lines(void **state)
{
    tp_ctx *tp = *state;
    float plain[16], y[16];
    tp_program *p = compile(tp);
    assert_null(strstr(tp_program_source(p), "#line"));
    run(tp, p, plain);
    setenv("TAPIR_DEBUG_C", "1", 1);
    p = compile(tp);
    unsetenv("TAPIR_DEBUG_C");
    const char *text = tp_program_source(p);
    assert_non_null(strstr(text, "\n#line 11 \"first.c\"\n"));
    assert_non_null(strstr(text, "\n#line 12 \"od\\042d\\134\\040na\\012me*/?\?/.c\"\n"));
    assert_non_null(strstr(text, "\n#line 13 \"third.c\"\n"));
    assert_non_null(strstr(text, "\n#line 14 \"sum.c\"\n"));
    run(tp, p, y);
    assert_memory_equal(plain, y, sizeof y);
}

static const struct CMUnitTest tests[] = {CASE(test_lines)};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
