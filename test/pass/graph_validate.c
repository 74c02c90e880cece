/* Translation validation: passes that are wrong on purpose, and what is said of them. */
#include "common/caught.h"
#include "op/op.h"
#include "pass/prune.h"
#include "run/trial.h"
#include "tapir/control.h"
#include "tapir/tapir.h"

/* ---- wrong passes ------------------------------------------------------------------------------ */

static tp_tensor *sub_is_add(tpi_rewrite *rw, const tp_tensor *t, tp_tensor *const *in)
{
    return t->op == &tpi_op_sub ? tpi_rewrite_node(rw, t, &tpi_op_add, 2, in, NULL) : NULL;
}

/* -0 + 0 is +0 */
static tp_tensor *add_of_zero(tpi_rewrite *rw, const tp_tensor *t, tp_tensor *const *in)
{
    (void)rw;
    const bool zero = t->op == &tpi_op_add && in[1]->op == &tpi_op_const &&
                      tpi_load_f64((tp_dtype)in[1]->dtype, in[1]->in[0]->data) == 0;
    return zero && in[0]->rank == t->rank ? in[0] : NULL;
}

/* x - x, but for infinities and NaN */
static tp_tensor *sub_of_same(tpi_rewrite *rw, const tp_tensor *t, tp_tensor *const *in)
{
    if (t->op != &tpi_op_sub || in[0] != in[1])
        return NULL;
    tp_tensor *zero = tpi_tensor_new(rw->ctx, TPI_AT(NULL, 0), TP_F32, 0, NULL);
    if (zero->status != TP_OK)
        return NULL;
    *(float *)(void *)zero->data = 0;
    tp_tensor *c = tpi_rewrite_const(rw, t, zero);
    const tpi_list shape = {.n = 0};
    return t->rank ? NULL : tpi_rewrite_node(rw, t, &tpi_op_broadcast, 1, &c, &shape);
}

static const tpi_pass wrong_sub = {.name = "wrong-sub", .visit = sub_is_add},
                      wrong_zero = {.name = "wrong-zero", .visit = add_of_zero},
                      wrong_same = {.name = "wrong-same", .visit = sub_of_same};

/* ---- running them ------------------------------------------------------------------------------ */

typedef struct told {
    tp_status status;
    char error[400], text[8000];
} told;

/* What is said when the passes rewrite the graph of `y`, whose placeholder is x. */
static told run(tp_ctx *tp, const tpi_pass *const *passes, tp_tensor *x, tp_tensor *y)
{
    told t = {.status = TP_OK};
    tp_tensor *feeds[] = {x}, *roots[] = {y};
    const caught c = catch_begin();
    tp_graph *g = tpi_prune(tp_graph_of(y), false, 1, feeds, 1, roots);
    const tpi_optimizing how = {.passes = passes};
    if (g)
        g = tpi_optimize_validated(g, &how, tpi_trial_by_reference, 1, feeds, 1, roots);
    catch_end(c, t.text, sizeof t.text);
    t.status = tp_error(tp);
    snprintf(t.error, sizeof t.error, "%s", tp_error_message(tp));
    assert_int_equal(g == NULL, t.status != TP_OK);
    tp_graph_free(g);
    tp_clear_error(tp);
    return t;
}

/* Lines of the report that hold a word. */
static int count(const char *text, const char *word)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)) != NULL; p++)
        n++;
    return n;
}

static tp_tensor *input(tp_ctx *tp, int rank)
{
    tp_graph *g = tp_graph_new(tp);
    const int64_t shape[] = {tp_symbol(g, "n"), tp_symbol(g, "m")};
    return tp_placeholder(g, "x", TP_F32, rank, shape);
}

static tp_tensor *longer(tp_tensor *x, int n)
{
    for (int i = 0; i < n; i++)
        x = tp_tanh(tp_mul(tp_add(x, tp_scalar_like(x, 0.5)), tp_cumsum(x, 0, false, false)));
    return x;
}

/* ---- tests -------------------------------------------------------------------------------------- */

static void right_passes_are_silent(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = input(tp, 2);
    const told t = run(tp, NULL, x, tp_sub(longer(x, 3), tp_scalar_like(x, 0)));
    assert_int_equal(t.status, TP_OK);
    assert_string_equal(t.text, "");
}

static void the_wrong_rewrite_is_named(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = input(tp, 2);
    tp_tensor *y = longer(x, 4);
    tp_tensor *z = tp_sub(y, tp_exp(x));
    const int line = __LINE__ - 1;
    char place[200];
    const told t = run(tp, (const tpi_pass *[]){&tpi_pass_fold, &wrong_sub, NULL}, x,
                       tp_mean(longer(z, 3), TP_ALL, false));
    snprintf(place, sizeof place, "graph_validate.c:%d: wrong-sub: ", line);
    assert_int_equal(t.status, TP_E_BUG);
    assert_non_null(strstr(t.error, place));
    assert_non_null(strstr(t.error, "rewrites sub"));
    assert_non_null(strstr(t.text, "pass wrong-sub changes the bits of a result; rewrite 1"));
    /* two operands that are fed, and the node */
    assert_int_equal(count(t.text, "= placeholder"), 4);
    assert_int_equal(count(t.text, "= sub"), 1);
    assert_int_equal(count(t.text, "= add"), 1);
    assert_int_equal(count(t.text, "= tanh"), 0);
    assert_int_equal(count(t.text, "is fed"), 2);
}

static void a_sign_of_zero_is_seen(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = input(tp, 2);
    const told t = run(tp, (const tpi_pass *[]){&wrong_zero, NULL}, x,
                       tp_add(tp_neg(x), tp_scalar_like(x, 0)));
    assert_int_equal(t.status, TP_E_BUG);
    assert_non_null(strstr(t.text, "was 0, and is -0"));
}

static void ends_of_numbers_are_seen(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_placeholder(tp_graph_new(tp), "x", TP_F32, TP_DIMS(40));
    tp_tensor *all = tp_sum(x, TP_ALL, false);
    const told t =
        run(tp, (const tpi_pass *[]){&wrong_same, NULL}, x, tp_cos(tp_sub(all, all)));
    assert_int_equal(t.status, TP_E_BUG);
    assert_non_null(strstr(t.text, "was nan, and is 0"));
}

static void bodies_of_blocks_are_looked_at(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = input(tp, 1), *h = x, *k = tp_tanh(x);
    tp_for (3, &h) {
        h = tp_sub(tp_mul(h, k), x);
    }
    const told t = run(tp, (const tpi_pass *[]){&wrong_sub, NULL}, x, tp_exp(h));
    assert_int_equal(t.status, TP_E_BUG);
    assert_non_null(strstr(t.text, "of sub ; "));
    assert_int_equal(count(t.text, "= loop"), 2);
    assert_int_equal(count(t.text, "= exp"), 0);
}

/* A loop that does not end on what is drawn, and sizes that no small number fits. */
static void what_cannot_be_run_is_let_be(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_placeholder(tp_graph_new(tp), "x", TP_F32, TP_SCALAR), *h = x;
    tp_while (tp_lt(h, tp_scalar_like(h, 1e9)), &h) {
        h = tp_sub(h, tp_scalar_like(h, 1));
    }
    const told t = run(tp, (const tpi_pass *[]){&wrong_sub, NULL}, x, h);
    assert_int_equal(t.status, TP_OK);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *w = tp_uniform(tp, TP_F32, TP_DIMS(1, 1, 90), -1, 1);
    tp_tensor *y = tp_placeholder(g, "y", TP_F32, TP_DIMS(1, 1, tp_symbol(g, "n")));
    y = tp_sub(tp_conv(y, w, NULL), tp_scalar_like(y, 1));
    const told u = run(tp, (const tpi_pass *[]){&wrong_sub, NULL}, tp_graph_find(g, "y"), y);
    assert_int_equal(u.status, TP_OK);
}

static void compile(tp_graph *g, int n, const char *const *fetches)
{
    tp_program *p = tp_graph_compile(g, 1, (const char *[]){"x"}, n, fetches,
                                     &(tp_compile_options){.engine = TP_ENGINE_TILES});
    assert_non_null(p);
    tp_program_free(p);
}

static void the_environment_asks_for_it(void **state)
{
    tp_ctx *tp = *state;
    setenv("TAPIR_VALIDATE", "1", 1);
    tp_tensor *x = input(tp, 2), *y = tp_name(longer(x, 2), "y"), *dx;
    tp_grads(tp_mean(y, TP_ALL, false), NULL, 1, &x, &dx);
    tp_name(dx, "dx");
    compile(tp_graph_of(y), 2, (const char *[]){"y", "dx"});
    /* that it does: what it cannot run is told */
    x = tp_placeholder(tp_graph_new(tp), "x", TP_F32, TP_DIMS(1 << 17));
    tp_name(tp_neg(tp_neg(x)), "y");
    const caught c = catch_begin();
    setenv("TAPIR_LOG", "validate", 1);
    compile(tp_graph_of(x), 1, (const char *[]){"y"});
    unsetenv("TAPIR_LOG");
    char text[400];
    catch_end(c, text, sizeof text);
    assert_non_null(strstr(text, "not run"));
    unsetenv("TAPIR_VALIDATE");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(right_passes_are_silent),        CASE(the_wrong_rewrite_is_named),
        CASE(a_sign_of_zero_is_seen),         CASE(ends_of_numbers_are_seen),
        CASE(bodies_of_blocks_are_looked_at), CASE(what_cannot_be_run_is_let_be),
        CASE(the_environment_asks_for_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
