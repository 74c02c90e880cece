/* TAPIR_LOG=error: the first error of each call is a line on standard error, once, and with the user's line; what the
 * library tries and does otherwise is none. */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <unistd.h>

static FILE *to;
static int kept;

static void begin(void)
{
    fflush(stderr);
    to = tmpfile();
    kept = dup(STDERR_FILENO);
    assert_non_null(to);
    assert_true(kept >= 0 && dup2(fileno(to), STDERR_FILENO) >= 0);
    setenv("TAPIR_LOG", "error", 1);
}

/* The log from begin on is these lines, each without its end of the file's name. */
static void expect_log(int n, const char *const *lines)
{
    char line[1100];
    int seen = 0;
    unsetenv("TAPIR_LOG");
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(to);
    while (fgets(line, sizeof line, to)) {
        if (seen >= n)
            fail_msg("one line more: %s", line);
        line[strcspn(line, "\n")] = 0;
        const char *found = strstr(line, lines[seen]);
        if (strncmp(line, "tapir: error: ", 14) != 0 || !found ||
            strcmp(found, lines[seen]) != 0)
            fail_msg("line %d is \"%s\", not \"...%s\"", seen, line, lines[seen]);
        seen++;
    }
    fclose(to);
    assert_int_equal(seen, n);
}

static void each_once(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *a = tp_full(tp, TP_F32, TP_DIMS(2, 3), 1),
              *b = tp_full(tp, TP_F32, TP_DIMS(2), 1);
    begin();
    const int line = __LINE__ + 1;
    tp_tensor *y = tp_relu(tp_add(tp_add(a, b), 1));
    y = tp_matmul(y, a); /* passed on, no error more */
    tp_item(y);
    tp_add(b, tp_scalar(tp, TP_F32, 0));
    tp_softmax(a, 7);
    tp_fail(tp, TP_E_VALUE, "of my own");
    char first[200];
    snprintf(first, sizeof first, "%s:%d: add: sizes do not broadcast: [2, 3] and [2]",
             __FILE__, line);
    expect_log(3, (const char *const[]){first, "softmax: axis 7 is out of range for [2, 3]",
                                        ": of my own"});
    assert_string_equal(tp_error_message(tp), first);
    tp_clear_error(tp);
}

static void look_up(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_gather(tp_mul(in[0], 2), tp_add(in[1], 0), 0);
}

static const char outside[] = ": gather: index 9 at position 0 is out of range for size 3";

/* Replays and programs are left before the op tells of it. */
static void in_functions(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(3), 1);
    for (int pure = 0; pure < 2; pure++) {
        tp_function *f =
            tp_function_new(tp, "look_up", look_up, NULL, &(tp_function_options){.pure = pure});
        tp_tensor *y;
        for (int i = 0; i < 6; i++)
            assert_int_equal(
                tp_function_call(f, 2, (tp_tensor *[]){x, tp_scalar(tp, TP_I64, i % 3)}, 1, &y),
                TP_OK);
        begin();
        y = tp_function_apply(f, 2, (tp_tensor *[]){x, tp_scalar(tp, TP_I64, 9)});
        if (!tp_failed(y))
            tp_item(y);
        expect_log(1, (const char *const[]){outside});
        assert_int_equal(tp_error(tp), TP_E_VALUE);
        tp_clear_error(tp);
    }
}

static void in_graphs(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *in[] = {tp_placeholder(g, "x", TP_F32, TP_DIMS(3)),
                       tp_placeholder(g, "i", TP_I64, TP_SCALAR)},
              *y;
    look_up(NULL, 2, in, 1, &y);
    tp_name(y, "y");
    begin();
    tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(3), 1);
    assert_int_equal(
        tp_graph_run(g, TP_FEEDS({"x", x}, {"i", tp_scalar(tp, TP_I64, 9)}), TP_NAMES("y"), &y),
        TP_E_VALUE);
    expect_log(1, (const char *const[]){outside});
    tp_clear_error(tp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(each_once), CASE(in_functions), CASE(in_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
