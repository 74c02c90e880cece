/* Every function of include/tapir called wrongly: NULL, failed, dead, freed and foreign
 * operands, types and sizes that do not fit, absurd counts. See misuse.h. */
#include "misuse.h"

static const misuse *const lists[] = {
    misuse_base,      misuse_tensor,    misuse_ops,      misuse_composites, misuse_arrays,
    misuse_functions, misuse_indexing,  misuse_linalg,   misuse_random,     misuse_grad,
    misuse_graph,     misuse_nn,        misuse_train,    misuse_onnx,       misuse_capture,
    misuse_control,   misuse_transform, misuse_batching, misuse_ragged};
enum { N_LISTS = sizeof lists / sizeof *lists };

static const char *the_case; /* which runs now */

/* `what` lists names with '|' between them; "": any will do. */
static bool named(const char *text, const char *what)
{
    const size_t n = strcspn(text, ":");
    for (const char *p = what; *p;) {
        const size_t len = strcspn(p, "|");
        const size_t skip = strncmp(p, "tp_", 3) == 0 ? 3 : 0;
        if ((n == len && memcmp(text, p, n) == 0) ||
            (n == len - skip && memcmp(text, p + skip, n) == 0))
            return true;
        p += len + (p[len] == '|');
    }
    return !*what;
}

void misuse_expect(bed *b, const char *file, int line, const char *what, tp_status status,
                   bool bad)
{
    const char *message = tp_error_message(b->tp);
    const size_t n_file = strlen(file);
    int at = 0, n = 0; /* a call of several lines may be placed on any of them */
    if (strncmp(message, file, n_file) == 0)
        sscanf(message + n_file, ":%d: %n", &at, &n);
    n += (int)n_file;
    if (!bad)
        fail_msg("%s: line %d: a bad call gave a good result (%s)", the_case, line, message);
    if (tp_error(b->tp) != status)
        fail_msg("%s: line %d: expected %s, got %s \"%s\"", the_case, line,
                 tp_status_name(status), tp_status_name(tp_error(b->tp)), message);
    if (at < line || at > line + 3)
        fail_msg("%s: line %d: the message does not begin with the caller's place: \"%s\"",
                 the_case, line, message);
    if (!named(message + n, what))
        fail_msg("%s: line %d: the message does not name %s: \"%s\"", the_case, line, what,
                 message);
    tp_clear_error(b->tp);
}

void misuse_expect_bare(bed *b, int line, const char *what, tp_status status, bool bad)
{
    const char *message = tp_error_message(b->tp);
    if (!bad)
        fail_msg("%s: line %d: a bad call gave a good result (%s)", the_case, line, message);
    if (tp_error(b->tp) != status)
        fail_msg("%s: line %d: expected %s, got %s \"%s\"", the_case, line,
                 tp_status_name(status), tp_status_name(tp_error(b->tp)), message);
    if (!strstr(message, what))
        fail_msg("%s: line %d: the message does not name %s: \"%s\"", the_case, line, what,
                 message);
    tp_clear_error(b->tp);
}

static void lay(bed *b, tp_ctx *tp, tp_ctx *other)
{
    *b = (bed){.tp = tp, .other = other, .g = tp_graph_new(tp)};
    b->f = tp_full(tp, TP_F32, TP_DIMS(2, 3), 0.5);
    b->t = tp_full(tp, TP_F32, TP_DIMS(3, 2), 0.25);
    b->c = tp_full(tp, TP_F32, TP_DIMS(3), 2);
    b->i = tp_full(tp, TP_I64, TP_DIMS(2), 0);
    b->along = tp_full(tp, TP_I64, TP_DIMS(2, 3), 0);
    b->flag = tp_full(tp, TP_BOOL, TP_DIMS(2, 3), 1);
    b->image = tp_full(tp, TP_F32, TP_DIMS(1, 2, 4, 4), 1);
    b->kernel = tp_full(tp, TP_F32, TP_DIMS(3, 2, 2, 2), 1);
    b->image_out = tp_full(tp, TP_F32, TP_DIMS(1, 3, 3, 3), 1);
    b->var = tp_variable(b->f, "v");
    b->param = tp_param(b->f, "p");
    b->node = tp_placeholder(b->g, "x", TP_F32, TP_DIMS(2, 3));
    b->batch = tp_placeholder(b->g, "y", TP_F32, TP_DIMS(tp_symbol(b->g, "n"), 3));
    b->foreign = tp_full(other, TP_F32, TP_DIMS(2, 3), 1);
    tp_graph *gone = tp_graph_new(tp);
    b->gone = tp_placeholder(gone, "x", TP_F32, TP_DIMS(2, 3));
    tp_graph_free(gone);
    tp_scope_begin(tp);
    b->dead = tp_full(tp, TP_F32, TP_DIMS(2, 3), 1);
    tp_scope_end(tp);
    assert_int_equal(tp_error(tp), TP_OK);
    b->failed = tp_add(b->f, b->t);
    assert_int_equal(tp_error(tp), TP_E_SHAPE);
    tp_clear_error(tp);
}

/* Still able to compute? */
static void still_works(tp_ctx *tp, const char *name)
{
    const float x[] = {1, 2, 3};
    tp_scope_begin(tp);
    tp_tensor *sum = tp_sum(tp_tensor_new(tp, TP_F32, TP_DIMS(3), x), TP_ALL, false);
    if (tp_item(sum) != 6 || tp_error(tp) != TP_OK)
        fail_msg("%s: the context does not compute any more: %s", name, tp_error_message(tp));
    tp_scope_end(tp);
}

static void every_function(void **state)
{
    (void)state;
    const char *only = getenv("MISUSE_ONLY");
    for (int l = 0; l < N_LISTS; l++)
        for (const misuse *m = lists[l]; m->name; m++) {
            if (only && strcmp(only, m->name) != 0)
                continue;
            the_case = m->name;
            unit_memory memory = {0}, other_memory = {0};
            tp_ctx *tp = unit_open(&memory), *other = unit_open(&other_memory);
            bed b;
            lay(&b, tp, other);
            m->run(&b);
            if (tp_error(tp) != TP_OK)
                fail_msg("%s: an error is left: %s", m->name, tp_error_message(tp));
            still_works(tp, m->name);
            tp_close(tp);
            tp_close(other);
            if (memory.bytes || other_memory.bytes)
                fail_msg("%s: %zu bytes are still out after tp_close", m->name,
                         memory.bytes + other_memory.bytes);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_function)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
