/* Endless loops are stopped by tp_interrupt, from another thread and from a signal handler, and by a limit
 * of turns; the context is usable afterwards. */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum { SOON_US = 30000, LATE_S = 20, LIMIT = 50 };

/* ---- who interrupts --------------------------------------------------------------------------- */

static void *interrupt_soon(void *tp)
{
    usleep(SOON_US);
    tp_interrupt(tp);
    return NULL;
}

static pthread_t begin(tp_ctx *tp)
{
    pthread_t thread;
    alarm(LATE_S); /* what goes on is ended by SIGALRM */
    assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, tp), 0);
    return thread;
}

/* What failed was stopped, and from then on all works again. */
static void end(tp_ctx *tp, pthread_t thread, tp_status status, int line)
{
    char place[60];
    pthread_join(thread, NULL);
    alarm(0);
    assert_int_equal(status, TP_E_STOPPED);
    assert_int_equal(tp_error(tp), TP_E_STOPPED);
    snprintf(place, sizeof place, "interrupt.c:%d: ", line);
    if (!strstr(tp_error_message(tp), place) || !strstr(tp_error_message(tp), "tp_interrupt"))
        fail_msg("line %d: %s", line, tp_error_message(tp));
    tp_clear_error(tp);
}

static tp_tensor *number(tp_ctx *tp, double v)
{
    return tp_scalar(tp, TP_F64, v);
}

/* ---- eagerly ---------------------------------------------------------------------------------- */

/* Counts h from 0 while it is at most `last`; NAN: for ever. */
static tp_tensor *count(tp_tensor *h, tp_tensor *last, int *line)
{
    *line = __LINE__ + 1;
    tp_while (tp_not(tp_gt(h, last)), &h) {
        h = tp_add(h, tp_scalar_like(h, 1));
    }
    return h;
}

static void eager_loop(void **state)
{
    tp_ctx *tp = *state;
    int line;
    const pthread_t thread = begin(tp);
    tp_tensor *h = count(number(tp, 0), number(tp, NAN), &line);
    end(tp, thread, tp_status_of(h), line);
    assert_true(tp_item(count(number(tp, 0), number(tp, 9), &line)) == 10);
}

/* The inner one is stopped, and the outer one, which does not use it, too. */
static void nested_loops(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *h = number(tp, 0), *k = number(tp, 0);
    const pthread_t thread = begin(tp);
    const int line = __LINE__ + 2;
    tp_while (tp_ge(h, tp_scalar_like(h, 0)), &h) {
        tp_for (1000000000, &k) {
            k = tp_add(k, tp_scalar_like(k, 1));
        }
        k = number(tp, 0);
        h = tp_add(h, tp_scalar_like(h, 1));
    }
    end(tp, thread, tp_status_of(h), line);
}

static void loop_of_c(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *h = number(tp, 0);
    const pthread_t thread = begin(tp);
    const int line = __LINE__ + 1;
    while (tp_truth(tp_ge(h, tp_scalar_like(h, 0)))) {
        tp_scope_begin(tp);
        h = tp_keep(tp_mul(h, h));
        tp_scope_end(tp);
    }
    end(tp, thread, tp_error(tp), line);
    tp_interrupt(tp);
    assert_true(isnan(tp_item(h)));
    unit_expect(tp, TP_E_STOPPED, "(tp_clear_error lets it run again)", __LINE__ - 1);
    assert_true(tp_item(h) == 0);
}

static tp_ctx *interrupted; /* by the handler */

static void on_signal(int number)
{
    (void)number;
    tp_interrupt(interrupted);
}

static void from_a_signal(void **state)
{
    tp_ctx *tp = *state;
    int line;
    struct sigaction now = {.sa_handler = on_signal}, before;
    interrupted = tp;
    assert_int_equal(sigaction(SIGALRM, &now, &before), 0);
    const struct itimerval soon = {.it_value.tv_usec = SOON_US};
    assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
    tp_tensor *h = count(number(tp, 0), number(tp, NAN), &line);
    sigaction(SIGALRM, &before, NULL);
    assert_int_equal(tp_status_of(h), TP_E_STOPPED);
    tp_clear_error(tp);
}

/* ---- functions -------------------------------------------------------------------------------- */

typedef struct counter {
    tp_tensor *total;
    int runs;
} counter;

/* A loop of C on a value, and one of control.h. */
static void counting(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    counter *c = user;
    int line;
    (void)n_in, (void)n_out;
    c->runs++;
    tp_tensor *h = tp_scalar_like(in[0], 0);
    while (tp_truth(tp_not(tp_gt(h, in[0]))))
        h = tp_add(h, tp_scalar_like(h, 1));
    out[0] = tp_add(h, count(tp_neg(h), in[1], &line));
    tp_assign(c->total, tp_add(c->total, out[0]));
}

static tp_tensor *call_with(tp_function *f, tp_ctx *tp, double a, double b)
{
    tp_tensor *in[] = {number(tp, a), number(tp, b)};
    return tp_function_apply(f, 2, in);
}

static void function_of(tp_ctx *tp, bool pure)
{
    counter c = {.total = tp_variable(number(tp, 0), "total")};
    const tp_function_options opt = {.pure = pure, .engine = TP_ENGINE_TILES};
    tp_function *f = tp_function_new(tp, "counting", counting, &c, &opt);
    double total = 0;
    for (int i = 0; i < 8; i++) { /* h is 4, then from -4 to 3 */
        assert_true(tp_item(call_with(f, tp, 3, 2)) == 7);
        total += 7;
    }
    assert_int_equal(c.runs < 8, pure);
    for (int side = 0; side < 2; side++) { /* the loop of C, the other */
        pthread_t thread = begin(tp);
        tp_tensor *y = call_with(f, tp, side ? 3 : NAN, NAN);
        pthread_join(thread, NULL);
        alarm(0);
        assert_int_equal(tp_status_of(y), TP_E_STOPPED);
        const int runs = c.runs;
        assert_int_equal(tp_status_of(call_with(f, tp, 3, 2)), TP_E_STOPPED);
        assert_int_equal(c.runs, runs); /* the body does not begin */
        tp_clear_error(tp);
        assert_true(tp_item(c.total) == total);
        assert_true(tp_item(call_with(f, tp, 3, 2)) == 7);
        total += 7;
        assert_true(tp_item(c.total) == total);
    }
}

/* A loop of C that is ended by tp_truth alone, and nothing behind it that would fail. */
static void looping(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    tp_tensor *h = tp_scalar_like(in[0], 0);
    while (tp_truth(tp_not(tp_gt(h, in[0]))))
        h = tp_add(h, tp_scalar_like(h, 1));
    out[0] = h;
}

static void function_that_returns(void **state)
{
    tp_ctx *tp = *state;
    for (int way = 0; way < 3; way++) {
        const tp_function_options opt = {.eager = way == 1, .pure = way == 2};
        tp_function *f = tp_function_new(tp, "looping", looping, NULL, &opt);
        tp_tensor *in = number(tp, NAN), *out;
        pthread_t thread = begin(tp);
        const tp_status status = tp_function_call(f, 1, &in, 1, &out);
        assert_int_equal(tp_status_of(out), TP_E_STOPPED);
        pthread_join(thread, NULL);
        alarm(0);
        assert_int_equal(status, TP_E_STOPPED);
        tp_clear_error(tp);
        in = number(tp, 3);
        assert_true(tp_item(tp_function_apply(f, 1, &in)) == 4);
    }
}

static void captured_function(void **state)
{
    function_of(*state, false);
}

static void pure_function(void **state)
{
    function_of(*state, true);
}

/* ---- programs --------------------------------------------------------------------------------- */

/* y = count(0, last), and as many turns in a loop in a loop; `total` is assigned. */
static tp_program *compile(tp_ctx *tp, tp_engine engine, tp_tensor *total, int *line)
{
    static const char *const feeds[] = {"last"}, *const fetches[] = {"y"};
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *last = tp_placeholder(g, "last", TP_F64, TP_SCALAR);
    tp_tensor *y = count(tp_graph_read(g, number(tp, 0)), last, line);
    tp_tensor *z = tp_graph_read(g, number(tp, 0));
    tp_for (3, &z) {
        tp_for (5, &z) {
            z = tp_add(z, tp_sub(y, y));
        }
    }
    tp_name(tp_assign(total, tp_add(y, z)), "y");
    tp_program *p =
        tp_graph_compile(g, 1, feeds, 1, fetches, &(tp_compile_options){.engine = engine});
    assert_non_null(p);
    if (engine == TP_ENGINE_C)
        assert_int_equal(tp_program_wait(p), TP_OK);
    return p;
}

static tp_tensor *run(tp_program *p, tp_ctx *tp, double last)
{
    tp_tensor *in = number(tp, last), *out = NULL;
    tp_program_run(p, &in, &out);
    return out;
}

static void program_of(tp_ctx *tp, tp_engine engine)
{
    int line;
    tp_tensor *total = tp_variable(number(tp, 0), "total");
    tp_program *p = compile(tp, engine, total, &line);
    assert_true(tp_item(run(p, tp, 40)) == 41);
    const pthread_t thread = begin(tp);
    tp_tensor *y = run(p, tp, NAN);
    end(tp, thread, tp_status_of(y), line);
    assert_true(tp_item(total) == 41);
    tp_interrupt(tp);
    assert_int_equal(tp_status_of(run(p, tp, 40)), TP_E_STOPPED);
    tp_clear_error(tp);
    assert_true(tp_item(run(p, tp, 20)) == 21);
    assert_true(tp_item(total) == 21);
}

static void program_by_reference(void **state)
{
    program_of(*state, TP_ENGINE_REFERENCE);
}

static void program_by_tiles(void **state)
{
    program_of(*state, TP_ENGINE_TILES);
}

static void program_by_c(void **state)
{
    program_of(*state, TP_ENGINE_C);
}

/* A compiler that hangs: nobody waits for it any longer, and it may go on later. */
static void compiler(void **state)
{
    (void)state;
    char script[] = "interrupt-cc-XXXXXX", cache[] = "interrupt-cache-XXXXXX", path[400];
    const int fd = mkstemp(script);
    assert_true(fd >= 0 && mkdtemp(cache));
    static const char text[] = "#!/bin/sh\nsleep 1000\n";
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    assert_int_equal(fchmod(fd, 0700), 0);
    close(fd);
    assert_non_null(realpath(script, path));
    tp_ctx *own = tp_open(&(tp_options){.compiler = path, .cache_dir = cache});
    tp_graph *g = tp_graph_new(own);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(3)), *y;
    tp_name(tp_exp(x), "y");
    tp_tensor *feed = tp_tensor_new(own, TP_F32, TP_DIMS(3), (float[3]){0});
    const tp_compile_options c = {.engine = TP_ENGINE_C};
    tp_program *p = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("y"), &c);
    assert_non_null(p);
    for (int i = 0; i < 2; i++) {
        const pthread_t thread = begin(own);
        const tp_status status = i ? tp_program_run(p, &feed, &y) : tp_program_wait(p);
        pthread_join(thread, NULL);
        alarm(0);
        assert_int_equal(status, TP_E_STOPPED);
        assert_non_null(strstr(tp_error_message(own), "tp_interrupt"));
        tp_clear_error(own);
    }
    tp_close(own);
    unlink(script);
    assert_int_equal(rmdir(cache), 0); /* and nothing is in it */
}

/* Counts to n in a block, so that the number of turns is no size of the program. */
static tp_runner *counter_of(tp_ctx *tp)
{
    static const char *const feeds[] = {"n"}, *const fetches[] = {"y"};
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *n = tp_placeholder(g, "n", TP_F64, TP_SCALAR);
    tp_tensor *k = tp_graph_read(g, number(tp, 0));
    tp_for (1, &k) {
        tp_while (tp_lt(k, n), &k) {
            k = tp_add(k, tp_scalar_like(k, 1));
        }
    }
    tp_name(k, "y");
    tp_program *p =
        tp_graph_compile(g, 1, feeds, 1, fetches, &(tp_compile_options){.engine = TP_ENGINE_C});
    tp_tensor *few = number(tp, 7);
    tp_runner *r = tp_runner_new(p, &few);
    assert_non_null(r);
    return r;
}

static void runner(void **state)
{
    tp_ctx *tp = *state;
    tp_runner *r = counter_of(tp);
    double in = 7, out = 0;
    const void *const ins[] = {&in};
    void *const outs[] = {&out};
    assert_int_equal(tp_runner_run(r, ins, outs), TP_OK);
    assert_true(out == 7);
    in = INFINITY;
    const pthread_t thread = begin(tp);
    assert_int_equal(tp_runner_run(r, ins, outs), TP_E_STOPPED);
    pthread_join(thread, NULL);
    alarm(0);
    tp_clear_error(tp);
    in = 7;
    assert_int_equal(tp_runner_run(r, ins, outs), TP_OK);
}

/* ---- a limit of turns ------------------------------------------------------------------------- */

static void expect_limit(tp_ctx *tp, const tp_tensor *t, int line)
{
    char place[60];
    snprintf(place, sizeof place, "interrupt.c:%d: ", line);
    assert_int_equal(tp_status_of(t), TP_E_LIMIT);
    assert_int_equal(tp_error(tp), TP_E_LIMIT);
    if (!strstr(tp_error_message(tp), place) || !strstr(tp_error_message(tp), "50 turns"))
        fail_msg("line %d: %s", line, tp_error_message(tp));
    tp_clear_error(tp);
}

static void limit(void **state)
{
    (void)state;
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    tp_ctx *tp = tp_open(&(tp_options){.max_turns = LIMIT});
    int line;
    assert_true(tp_item(count(number(tp, 0), number(tp, LIMIT - 1), &line)) == (double)LIMIT);
    expect_limit(tp, count(number(tp, 0), number(tp, LIMIT), &line), line);
    tp_tensor *h = number(tp, 0);
    const int counted = __LINE__ + 1;
    tp_for (LIMIT + 1, &h) {
        h = tp_add(h, tp_scalar_like(h, 1));
    }
    expect_limit(tp, h, counted);
    for (int i = 0; i < 3; i++) {
        tp_program *p = compile(tp, engines[i], tp_variable(number(tp, 0), "total"), &line);
        assert_true(tp_item(run(p, tp, LIMIT - 1)) == (double)LIMIT);
        expect_limit(tp, run(p, tp, LIMIT), line);
        assert_true(tp_item(run(p, tp, LIMIT - 1)) == (double)LIMIT);
    }
    tp_runner *r = counter_of(tp);
    for (int more = 0; more < 2; more++) {
        double in = LIMIT + more, out = 0;
        const tp_status status =
            tp_runner_run(r, (const void *const[]){&in}, (void *const[]){&out});
        assert_int_equal(status, more ? TP_E_LIMIT : TP_OK);
        assert_true(more || out == (double)LIMIT);
    }
    tp_close(tp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(eager_loop),
        CASE(nested_loops),
        CASE(loop_of_c),
        CASE(from_a_signal),
        CASE(function_that_returns),
        CASE(captured_function),
        CASE(pure_function),
        CASE(program_by_reference),
        CASE(program_by_tiles),
        CASE(program_by_c),
        CASE(compiler),
        CASE(runner),
        cmocka_unit_test(limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
