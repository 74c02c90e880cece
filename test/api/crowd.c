/* One context used by two threads at once is noticed. Which of them is where is certain here: the second
 * one comes while the first is asking for memory in the middle of an op, or of a run. */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <pthread.h>

enum { N = 1 << 16 }; /* bytes of no small block: the allocator is asked for each */

struct door;

typedef struct meeting {
    unit_memory memory;
    tp_ctx *tp;
    tp_tensor *a, *out, *param, *variable;
    tp_graph *graph;
    tp_program *program;
    tp_function *function;
    const struct door *door; /* that the second thread comes through; NULL: as below */
    bool invites, runs;      /* the second thread is to come; it runs the program */
    bool in_body;            /* it comes between the ops of a body */
    tp_status status;
    char text[200];
} meeting;

/* ---- where a thread enters a context ---------------------------------------------------------- */

static void zeros(meeting *m)
{
    tp_tensor_new(m->tp, TP_F32, TP_DIMS(N), NULL);
}

static void wrap(meeting *m)
{
    static float memory[4];
    tp_tensor_wrap(m->tp, TP_F32, TP_DIMS(4), memory, NULL, NULL);
}

static void full(meeting *m)
{
    tp_full(m->tp, TP_F32, TP_DIMS(N), 2);
}

static void scalar(meeting *m)
{
    tp_scalar(m->tp, TP_F32, 2);
}

static void scalar_like(meeting *m)
{
    tp_scalar_like(m->a, 2);
}

static void arange(meeting *m)
{
    tp_arange(m->tp, TP_F32, N, 0, 1);
}

static void uniform(meeting *m)
{
    tp_uniform(m->tp, TP_F32, TP_DIMS(N), 0, 1);
}

static void normal_like(meeting *m)
{
    tp_normal_like(m->a, 0, 1);
}

static void parse(meeting *m)
{
    tp_npy_parse(m->tp, "", 0);
}

static void load(meeting *m)
{
    tp_npy_load(m->tp, "crowd.npy");
}

static void variable(meeting *m)
{
    tp_variable(m->a, "v");
}

static void param(meeting *m)
{
    tp_param(m->a, "p");
}

static void assign(meeting *m)
{
    tp_assign(m->variable, m->a);
}

static void op(meeting *m)
{
    tp_exp(m->a);
}

static void node(meeting *m)
{
    tp_exp(tp_graph_find(m->graph, "x"));
}

static void placeholder(meeting *m)
{
    tp_placeholder(m->graph, "z", TP_F32, TP_DIMS(2));
}

static void graph_read(meeting *m)
{
    tp_graph_read(m->graph, m->a);
}

static void require_grad(meeting *m)
{
    tp_require_grad(m->param);
}

static void backward(meeting *m)
{
    tp_backward(m->out);
}

static void grad_of(meeting *m)
{
    tp_grad_of(m->param);
}

static void zero_grad(meeting *m)
{
    tp_zero_grad(m->param);
}

static void grad(meeting *m)
{
    tp_grad(m->out, m->param);
}

static void call(meeting *m)
{
    tp_function_apply(m->function, 1, &m->a);
}

static void run(meeting *m)
{
    tp_tensor *y;
    tp_program_run(m->program, &m->a, &y);
}

static void scope_begin(meeting *m)
{
    tp_scope_begin(m->tp);
}

static void scope_end(meeting *m)
{
    tp_scope_end(m->tp);
}

static void keep(meeting *m)
{
    tp_keep(m->a);
}

static void retain(meeting *m)
{
    tp_retain(m->a);
}

static void release_one(meeting *m)
{
    tp_release(m->param);
}

typedef struct door {
    const char *what; /* the word of the error */
    void (*enter)(meeting *m);
    bool works; /* asks for memory, so that another one comes in the middle of it */
} door;

static const door doors[] = {
    {"tp_tensor_new",    zeros,        true },
    {"tp_tensor_wrap",   wrap,         false},
    {"tp_full",          full,         true },
    {"tp_scalar",        scalar,       false},
    {"tp_scalar_like",   scalar_like,  false},
    {"tp_arange",        arange,       true },
    {"uniform",          uniform,      true },
    {"normal",           normal_like,  true },
    {"tp_npy_parse",     parse,        false},
    {"tp_npy_load",      load,         false},
    {"tp_variable",      variable,     true },
    {"tp_param",         param,        true },
    {"assign",           assign,       false},
    {"exp",              op,           true },
    {"exp",              node,         false},
    {"placeholder",      placeholder,  false},
    {"tp_graph_read",    graph_read,   false},
    {"tp_require_grad",  require_grad, false},
    {"tp_backward",      backward,     true },
    {"tp_grad_of",       grad_of,      false},
    {"tp_zero_grad",     zero_grad,    false},
    {"tp_grad",          grad,         true },
    {"tp_function_call", call,         true },
    {"tp_program_run",   run,          true },
    {"tp_scope_begin",   scope_begin,  false},
    {"tp_scope_end",     scope_end,    false},
    {"tp_keep",          keep,         false},
    {"tp_retain",        retain,       false},
    {"tp_release",       release_one,  false},
};
enum { N_DOORS = sizeof doors / sizeof *doors };

static void *come(void *user)
{
    meeting *m = user;
    if (m->door) {
        m->door->enter(m);
        return NULL;
    }
    if (m->runs) {
        m->status = tp_program_run(m->program, &m->a, &m->out);
    } else {
        m->out = tp_neg(m->a);
        m->status = tp_status_of(m->out);
    }
    snprintf(m->text, sizeof m->text, "%s", tp_error_text(m->out));
    return NULL;
}

static void invite(meeting *m)
{
    pthread_t other;
    m->invites = false;
    assert_int_equal(pthread_create(&other, NULL, come, m), 0);
    pthread_join(other, NULL);
}

static void *alloc(void *user, size_t size)
{
    meeting *m = user;
    if (m->invites && !m->in_body)
        invite(m);
    return unit_alloc(&m->memory, size);
}

static void release(void *user, void *p, size_t size)
{
    meeting *m = user;
    unit_release(&m->memory, p, size);
}

static const char words[] = "another thread is computing in the context: each needs one of "
                            "its own, or its turn";
static const char *const feed[] = {"x"}, *const fetch[] = {"y"};

static void noticed(void **unused)
{
    (void)unused;
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

static void body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    meeting *m = user;
    (void)n_in, (void)n_out;
    out[0] = tp_exp(in[0]);
    if (m->invites && m->in_body)
        invite(m);
}

/* The one who was there first works on, the one who comes through the door does nothing, and it is told. */
static void expect_told(meeting *m, const door *first, const door *second)
{
    tp_trim(m->tp); /* so that the allocator is asked */
    m->door = second;
    m->invites = true;
    const size_t before = tp_memory_bytes(m->tp);
    if (m->in_body)
        call(m);
    else
        first->enter(m);
    if (m->invites)
        fail_msg("nobody came into %s", first->what);
    char end[200];
    snprintf(end, sizeof end, "%s: %s", second->what, words);
    const char *message = tp_error_message(m->tp), *at = strstr(message, end);
    if (tp_error(m->tp) != TP_E_STATE || !at || strcmp(at, end) != 0)
        fail_msg("into %s%s through %s: \"%s\", not \"%s\"", m->in_body ? "the body of " : "",
                 first->what, second->what, message, end);
    tp_clear_error(m->tp);
    assert_true(tp_memory_bytes(m->tp) >= before);
}

static void at_each_door(void **unused)
{
    (void)unused;
    meeting m = {.status = TP_OK};
    const tp_allocator a = {alloc, release, &m};
    m.tp = tp_open(&(tp_options){.allocator = &a});
    m.a = tp_full(m.tp, TP_F32, TP_DIMS(N), 2);
    m.variable = tp_variable(m.a, "v");
    m.param = tp_retain(tp_param(m.a, "p"));
    m.out = tp_exp(m.param);
    m.graph = tp_graph_new(m.tp);
    tp_name(tp_exp(tp_placeholder(m.graph, "x", TP_F32, TP_DIMS(N))), "y");
    m.program = tp_graph_compile(m.graph, 1, feed, 1, fetch,
                                 &(tp_compile_options){.engine = TP_ENGINE_TILES});
    m.function = tp_function_new(m.tp, "f", body, &m, &(tp_function_options){.eager = true});
    tp_scope_begin(m.tp); /* in which tp_keep does something */
    for (int i = 0; i < N_DOORS; i++) {
        for (int k = 0; k < N_DOORS; k++)
            if (doors[i].works)
                expect_told(&m, &doors[i], &doors[k]);
        m.in_body = true;
        expect_told(&m, &doors[i], &doors[i]);
        m.in_body = false;
    }
    tp_release(m.param);
    tp_close(m.tp);
    assert_int_equal(m.memory.bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(noticed),
                                       cmocka_unit_test(at_each_door)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
