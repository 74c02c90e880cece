/* What a graph takes and gives: set, printed, read, saved. */
#include "ir_sample.h"

#include <unistd.h>

static tp_graph *sample(tp_ctx *tp)
{
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = MUST(tp_placeholder(g, "x", TP_F32, TP_DIMS(2, 3)));
    tp_tensor *n = MUST(tp_placeholder(g, "n", TP_F32, TP_DIMS(3)));
    tp_tensor *a = MUST(tp_name(tp_add(x, n), "a b\"\n")), *y = MUST(tp_name(tp_neg(x), "y"));
    tp_tensor *const outputs[] = {y, a, y};
    assert_int_equal(tp_graph_set_outputs(g, 3, outputs), TP_OK);
    return g;
}

static void check(tp_graph *g)
{
    assert_non_null(g);
    assert_int_equal(tp_graph_n_inputs(g), 2);
    assert_string_equal(tp_name_of(tp_graph_input(g, 0)), "x");
    assert_string_equal(tp_name_of(tp_graph_input(g, 1)), "n");
    assert_int_equal(tp_graph_n_outputs(g), 3);
    assert_string_equal(tp_name_of(tp_graph_output(g, 0)), "y");
    assert_string_equal(tp_name_of(tp_graph_output(g, 1)), "a b\"\n");
    assert_ptr_equal(tp_graph_output(g, 2), tp_graph_output(g, 0));
}

static void as_text(void **state)
{
    tp_ctx *tp = *state;
    char *text = tp_graph_text(sample(tp));
    assert_non_null(strstr(text, "\noutputs %3, %2, %3\n"));
    tp_graph *g = tp_graph_parse(tp, text, strlen(text));
    check(g);
    char *again = tp_graph_text(g);
    assert_string_equal(text, again);
    tp_free(tp, text);
    tp_free(tp, again);
}

static void as_file(void **state)
{
    tp_ctx *tp = *state;
    char path[] = "ir_ports_XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(tp_graph_save(sample(tp), path), TP_OK);
    check(tp_graph_load(tp, path));
    remove(path);
}

static void malformed(void **state)
{
    tp_ctx *tp = *state;
    static const char *const ends[] = {
        "outputs",     "outputs ",  "outputs %2",    "outputs %-1",           "outputs %1",
        "outputs %0,", "outputs 0", "outputs %0 %0", "outputs %0\noutputs %0"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char text[200];
        snprintf(text, sizeof text,
                 "tapir 1\n%%0 \"x\" = placeholder : f32[]\n%%1 = neg %%0 : f32[]\n%s\n",
                 ends[i]);
        if (tp_graph_parse(tp, text, strlen(text)))
            fail_msg("read: %s", ends[i]);
        assert_int_equal(tp_error(tp), TP_E_FORMAT);
        tp_clear_error(tp);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(as_text), CASE(as_file), CASE(malformed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
