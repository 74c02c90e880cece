/* One context used by two threads at once is noticed. Which of them is where is certain here: the second
 * one comes while the first is asking for memory in the middle of an op, or of a run. */
#include "tapir/tapir.h"
#include "unit/unit.h"

#include <pthread.h>

enum { N = 1 << 16 }; /* bytes of no small block: the allocator is asked for each */

typedef struct meeting {
    unit_memory memory;
    tp_ctx *tp;
    tp_tensor *a, *out;
    tp_program *program;
    bool invites, runs; /* the second thread is to come; it runs the program */
    tp_status status;
    char text[200];
} meeting;

static void *come(void *user)
{
    meeting *m = user;
    if (m->runs) {
        m->status = tp_program_run(m->program, &m->a, &m->out);
    } else {
        m->out = tp_neg(m->a);
        m->status = tp_status_of(m->out);
    }
    snprintf(m->text, sizeof m->text, "%s", tp_error_text(m->out));
    return NULL;
}

static void *alloc(void *user, size_t size)
{
    meeting *m = user;
    if (m->invites) {
        m->invites = false;
        pthread_t other;
        assert_int_equal(pthread_create(&other, NULL, come, m), 0);
        pthread_join(other, NULL);
    }
    return unit_alloc(&m->memory, size);
}

static void release(void *user, void *p, size_t size)
{
    meeting *m = user;
    unit_release(&m->memory, p, size);
}

static void noticed(void **unused)
{
    (void)unused;
    static const char *const feed[] = {"x"}, *const fetch[] = {"y"};
    static const char words[] = "another thread is computing in the context: each needs one of "
                                "its own, or its turn";
    meeting m = {.status = TP_OK};
    const tp_allocator a = {alloc, release, &m};
    m.tp = tp_open(&(tp_options){.allocator = &a});
    m.a = tp_full(m.tp, TP_F32, TP_DIMS(N), 2);
    tp_graph *g = tp_graph_new(m.tp);
    tp_name(tp_exp(tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n")))), "y");
    m.program = tp_graph_compile(g, 1, feed, 1, fetch,
                                 &(tp_compile_options){.engine = TP_ENGINE_TILES});
    for (int i = 0; i < 4; i++) {
        m.invites = true;
        m.runs = i % 2;
        tp_tensor *y = NULL;
        if (i < 2)
            y = tp_exp(m.a);
        else
            assert_int_equal(tp_program_run(m.program, &m.a, &y), TP_OK);
        assert_false(m.invites);
        assert_false(tp_failed(y)); /* who was there first goes on */
        assert_int_equal(m.status, TP_E_STATE);
        assert_string_equal(m.text, words);
        char end[200];
        snprintf(end, sizeof end, "%s: %s", m.runs ? "tp_program_run" : "neg", words);
        const char *message = tp_error_message(m.tp), *at = strstr(message, end);
        if (!strstr(message, "crowd.c:") || !at || strcmp(at, end) != 0)
            fail_msg("\"%s\" has no place, or does not end in \"%s\"", message, end);
        tp_clear_error(m.tp);
    }
    /* one after the other is no mistake */
    pthread_t other;
    m.runs = true;
    assert_int_equal(pthread_create(&other, NULL, come, &m), 0);
    pthread_join(other, NULL);
    assert_int_equal(m.status, TP_OK);
    assert_true(tp_item(tp_slice(m.out, 0, 7, 8, 1)) ==
                tp_item(tp_exp(tp_scalar(m.tp, TP_F32, 2))));
    tp_close(m.tp);
    assert_int_equal(m.memory.bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(noticed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
