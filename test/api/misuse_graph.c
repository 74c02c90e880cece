/* Misuse of graph.h. */
#include "misuse.h"

/* Each case's head looks like a call to it. */
/* clang-format off */

MISUSE(tp_graph_new)
{
    (void)b, (void)what;
    assert_null(tp_graph_new(NULL));
}

MISUSE(tp_graph_free)
{
    (void)what;
    tp_graph_free(NULL);
    tp_tensor *y = tp_neg(b->node);
    tp_graph_free(b->g);
    assert_true(tp_failed(y));
    assert_int_equal(tp_status_of(y), TP_E_STATE);
    assert_null(tp_graph_of(y));
    BAD_AS(b, "neg", TP_E_STATE, tp_neg(y));
}

MISUSE(tp_symbol)
{
    what = "placeholder";
    tp_symbol(NULL, "n");
    BAD(b, TP_E_SHAPE, tp_placeholder(b->g, "w", TP_F32, TP_DIMS(tp_symbol(NULL, "n"))));
    BAD(b, TP_E_SHAPE, tp_placeholder(b->g, "w", TP_F32, TP_DIMS(tp_symbol(b->g, NULL))));
    BAD(b, TP_E_SHAPE, tp_placeholder(b->g, "w", TP_F32, TP_DIMS(tp_symbol(b->g, ""))));
    tp_graph *g = tp_graph_new(b->tp);
    BAD(b, TP_E_SHAPE, tp_placeholder(b->g, "w", TP_F32, TP_DIMS(tp_symbol(g, "q"))));
}

#define DIM(fn)                                                                                \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        what = "placeholder";                                                                  \
        const int64_t n = tp_symbol(b->g, "n");                                                \
        tp_placeholder(b->g, "w", TP_F32, TP_DIMS(fn(b->g, n, 3)));                            \
        assert_int_equal(tp_error(b->tp), TP_OK);                                              \
        BAD(b, TP_E_SHAPE, tp_placeholder(b->g, "z", TP_F32, TP_DIMS(fn(NULL, n, 3))));        \
        misuse_expect_bare(b, __LINE__, #fn, TP_E_SHAPE, fn(b->g, n + 1, 3) == INT64_MIN);                                                 \
        BAD(b, TP_E_SHAPE, tp_placeholder(b->g, "z", TP_F32, TP_DIMS(fn(b->g, INT64_MIN, 3))));\
    }
DIM(tp_dim_add)
DIM(tp_dim_mul)
DIM(tp_dim_div)

MISUSE(tp_placeholder)
{
    assert_true(tp_failed(tp_placeholder(NULL, "z", TP_F32, TP_SCALAR)));
    BAD(b, TP_E_NAME, tp_placeholder(b->g, NULL, TP_F32, TP_SCALAR));
    BAD(b, TP_E_NAME, tp_placeholder(b->g, "", TP_F32, TP_SCALAR));
    BAD(b, TP_E_NAME, tp_placeholder(b->g, "x", TP_F32, TP_SCALAR));
    BAD(b, TP_E_DTYPE, tp_placeholder(b->g, "z", TP_N_DTYPES, TP_SCALAR));
    BAD(b, TP_E_DTYPE, tp_placeholder(b->g, "z", (tp_dtype)-1, TP_SCALAR));
    BAD(b, TP_E_SHAPE, tp_placeholder(b->g, "z", TP_F32, TP_DIMS(-1)));
    BAD(b, TP_E_SHAPE, tp_placeholder(b->g, "z", TP_F32, TP_DIMS(INT64_MIN)));
    BAD(b, TP_E_SHAPE, tp_placeholder(b->g, "z", TP_F32, TP_DIMS(INT64_MAX, 2)));
    BAD(b, TP_E_SHAPE, tp_placeholder(b->g, "z", TP_F32, -1, NULL));
    BAD(b, TP_E_SHAPE, tp_placeholder(b->g, "z", TP_F32, 9, (const int64_t[9]){0}));
    BAD(b, TP_E_NULL, tp_placeholder(b->g, "z", TP_F32, 2, NULL));
}

MISUSE(tp_graph_of)
{
    (void)what;
    assert_null(tp_graph_of(NULL));
    assert_null(tp_graph_of(b->f));
    assert_null(tp_graph_of(b->failed));
    assert_null(tp_graph_of(b->dead));
    assert_null(tp_graph_of(b->gone));
}

MISUSE(tp_graph_read)
{
    OPERAND(b, b->f, tp_graph_read(b->g, x));
    assert_true(tp_failed(tp_graph_read(NULL, b->f)));
    BAD(b, TP_E_CTX, tp_graph_read(b->g, b->foreign));
    tp_graph *g = tp_graph_new(b->tp);
    BAD(b, TP_E_CTX, tp_graph_read(g, b->node));
}

MISUSE(tp_group)
{
    what = "group";
    OPERAND(b, b->f, tp_group(2, (tp_tensor *[]){x, b->node}));
    BAD_NIL(b, tp_group(0, NULL));
    BAD_NIL(b, tp_group(-1, &b->f));
    BAD_NIL(b, tp_group(2, NULL));
    BAD(b, TP_E_CTX, tp_group(2, (tp_tensor *[]){b->node, b->foreign}));
}

MISUSE(tp_graph_find)
{
    assert_true(tp_failed(tp_graph_find(NULL, "x")));
    BAD(b, TP_E_NAME, tp_graph_find(b->g, NULL));
    BAD(b, TP_E_NAME, tp_graph_find(b->g, ""));
    BAD(b, TP_E_NAME, tp_graph_find(b->g, "no such"));
}

MISUSE(tp_graph_variable)
{
    assert_true(tp_failed(tp_graph_variable(NULL, "x")));
    BAD(b, TP_E_NAME, tp_graph_variable(b->g, NULL));
    BAD(b, TP_E_NAME, tp_graph_variable(b->g, "x"));
    tp_tensor *one = tp_variable(b->f, "twice"), *two = tp_variable(b->f, "twice");
    tp_graph_read(b->g, one);
    tp_graph_read(b->g, one);
    assert_ptr_equal(tp_graph_variable(b->g, "twice"), one);
    tp_graph_read(b->g, two);
    BAD(b, TP_E_NAME, tp_graph_variable(b->g, "twice"));
}

MISUSE(tp_graph_n_variables)
{
    assert_int_equal(tp_graph_n_variables(NULL), 0);
    tp_graph_read(b->g, b->var);
    tp_graph_read(b->g, tp_select(b->var, 0, 0)); /* a view of one is none */
    assert_int_equal(tp_graph_n_variables(b->g), 1);
}

MISUSE(tp_graph_nth_variable)
{
    assert_true(tp_failed(tp_graph_nth_variable(NULL, 0)));
    BAD(b, TP_E_VALUE, tp_graph_nth_variable(b->g, -1));
    BAD(b, TP_E_VALUE, tp_graph_nth_variable(b->g, 0));
    tp_graph_read(b->g, b->var);
    assert_ptr_equal(tp_graph_nth_variable(b->g, 0), b->var);
}

MISUSE(tp_graph_n_inputs)
{
    (void)what;
    assert_int_equal(tp_graph_n_inputs(NULL), 0);
    assert_int_equal(tp_graph_n_inputs(b->g), 2);
}

MISUSE(tp_graph_input)
{
    assert_true(tp_failed(tp_graph_input(NULL, 0)));
    assert_ptr_equal(tp_graph_input(b->g, 1), b->batch);
    BAD(b, TP_E_VALUE, tp_graph_input(b->g, 2));
    BAD(b, TP_E_VALUE, tp_graph_input(b->g, -1));
}

MISUSE(tp_graph_n_nodes)
{
    (void)what;
    assert_int_equal(tp_graph_n_nodes(NULL), 0);
    assert_int_equal(tp_graph_n_nodes(b->g), 2);
    tp_neg(b->node);
    assert_int_equal(tp_graph_n_nodes(b->g), 3);
}

MISUSE(tp_graph_node)
{
    (void)what;
    tp_graph *const graphs[] = {NULL, b->g, b->g, b->g};
    const int numbers[] = {0, -1, tp_graph_n_nodes(b->g), INT32_MAX};
    for (int i = 0; i < 4; i++) {
        const tp_node n = tp_graph_node(graphs[i], numbers[i]);
        assert_true(!n.op && !n.name && !n.value && !n.takes && n.rank == 0);
        assert_true(n.view_of == -1 && n.from == -1);
        assert_int_equal(n.n_operands + n.n_attributes + n.n_bodies, 0);
    }
    assert_string_equal(tp_graph_node(b->g, 0).op, "placeholder");
}

MISUSE(tp_node_operand)
{
    (void)what;
    tp_neg(b->node);
    const int last = tp_graph_n_nodes(b->g) - 1;
    assert_true(tp_node_operand(b->g, last, 0) >= 0);
    assert_int_equal(tp_node_operand(NULL, 0, 0), -1);
    assert_int_equal(tp_node_operand(b->g, -1, 0), -1);
    assert_int_equal(tp_node_operand(b->g, last + 1, 0), -1);
    assert_int_equal(tp_node_operand(b->g, last, 1), -1);
    assert_int_equal(tp_node_operand(b->g, last, -1), -1);
}

MISUSE(tp_node_attribute)
{
    (void)what;
    tp_cast(b->node, TP_F64);
    const int last = tp_graph_n_nodes(b->g) - 1;
    const char *name = "unchanged";
    assert_null(tp_node_attribute(NULL, 0, 0, &name));
    assert_null(tp_node_attribute(b->g, -1, 0, &name));
    assert_null(tp_node_attribute(b->g, last + 1, 0, &name));
    assert_null(tp_node_attribute(b->g, last, 1, &name));
    assert_null(tp_node_attribute(b->g, last, -1, &name));
    assert_string_equal(name, "unchanged");
    char *to = tp_node_attribute(b->g, last, 0, &name);
    assert_string_equal(name, "to");
    assert_string_equal(to, "f64");
    tp_free(b->tp, to);
}

MISUSE(tp_node_body_of)
{
    (void)what;
    tp_tensor *h = b->node;
    tp_for (3, &h)
        h = tp_neg(h);
    int i = tp_graph_n_nodes(b->g) - 1;
    while (i > 0 && !tp_graph_node(b->g, i).n_bodies)
        i--;
    const tp_graph *body = tp_node_body_of(b->g, i, 0).graph;
    assert_int_equal(tp_graph_n_outputs(body), 1);
    assert_int_equal(tp_node_of_output(body, 0), tp_graph_n_nodes(body) - 1);
    assert_int_equal(tp_node_of_output(body, 1), -1);
    assert_null(tp_node_body_of(NULL, i, 0).graph);
    assert_null(tp_node_body_of(b->g, i, 1).graph);
    assert_null(tp_node_body_of(b->g, i, -1).graph);
    assert_null(tp_node_body_of(b->g, 0, 0).graph);
    assert_null(tp_node_body_of(b->g, -1, 0).graph);
    assert_null(tp_node_body_of(b->g, INT32_MAX, 0).word);
}

MISUSE(tp_node_of_output)
{
    (void)what;
    assert_int_equal(tp_node_of_output(NULL, 0), -1);
    assert_int_equal(tp_node_of_output(b->g, 0), -1);
    tp_graph_set_outputs(b->g, 1, &b->node);
    assert_string_equal(tp_graph_node(b->g, tp_node_of_output(b->g, 0)).name,
                        tp_name_of(b->node));
    assert_int_equal(tp_node_of_output(b->g, -1), -1);
    assert_int_equal(tp_node_of_output(b->g, 1), -1);
}

MISUSE(tp_dim_text)
{
    tp_graph *other = tp_graph_new(b->tp);
    char *text = tp_dim_text(b->g, tp_dim_add(b->g, tp_symbol(b->g, "n"), 3));
    assert_string_equal(text, "n+3");
    tp_free(b->tp, text);
    assert_null(tp_dim_text(NULL, 3));
    BAD_BARE(b, TP_E_SHAPE, tp_dim_text(b->g, -1));
    BAD_BARE(b, TP_E_SHAPE, tp_dim_text(b->g, INT64_MIN));
    BAD_BARE(b, TP_E_SHAPE, tp_dim_text(other, tp_symbol(b->g, "n")));
}

MISUSE(tp_graph_n_outputs)
{
    (void)what;
    assert_int_equal(tp_graph_n_outputs(NULL), 0);
    assert_int_equal(tp_graph_n_outputs(b->g), 0);
}

MISUSE(tp_graph_output)
{
    tp_tensor *const out[] = {b->node};
    assert_true(tp_failed(tp_graph_output(NULL, 0)));
    BAD(b, TP_E_VALUE, tp_graph_output(b->g, 0));
    assert_int_equal(tp_graph_set_outputs(b->g, 1, out), TP_OK);
    assert_ptr_equal(tp_graph_output(b->g, 0), b->node);
    BAD(b, TP_E_VALUE, tp_graph_output(b->g, 1));
    BAD(b, TP_E_VALUE, tp_graph_output(b->g, -1));
}

MISUSE(tp_graph_set_outputs)
{
    tp_tensor *const nameless[] = {tp_neg(b->node)}, *const concrete[] = {b->f};
    assert_int_equal(tp_graph_set_outputs(NULL, 0, NULL), TP_E_NULL);
    OPERAND(b, b->node, tp_graph_set_outputs(b->g, 1, &x));
    BAD(b, TP_E_NULL, tp_graph_set_outputs(b->g, 1, NULL));
    BAD(b, TP_E_VALUE, tp_graph_set_outputs(b->g, -1, nameless));
    BAD(b, TP_E_NAME, tp_graph_set_outputs(b->g, 1, nameless));
    BAD(b, TP_E_CTX, tp_graph_set_outputs(b->g, 1, concrete));
    assert_int_equal(tp_graph_n_outputs(b->g), 1); /* what was set stays */
    assert_int_equal(tp_graph_set_outputs(b->g, 0, NULL), TP_OK);
    assert_int_equal(tp_graph_n_outputs(b->g), 0);
}

MISUSE(tp_graph_run)
{
    what = "tp_graph_run|tp_graph_compile|tp_program_run";
    tp_tensor *out[2] = {NULL, NULL};
    tp_name(tp_neg(b->node), "z");
    static const char *const z[] = {"z", "z"}, *const missing[] = {"z", NULL};
    static const char *const unknown[] = {"q"}, *const other[] = {"y"};
    assert_int_not_equal(tp_graph_run(NULL, TP_FEEDS({"x", b->f}), 1, z, out), TP_OK);
    BAD(b, TP_E_NAME, tp_graph_run(b->g, 0, NULL, 1, z, out)); /* not fed */
    assert_true(tp_failed(out[0]));
    BAD(b, TP_E_NULL, tp_graph_run(b->g, 1, NULL, 1, z, out));
    BAD(b, TP_E_NULL, tp_graph_run(b->g, TP_FEEDS({NULL, b->f}), 1, z, out));
    BAD(b, TP_E_NULL, tp_graph_run(b->g, TP_FEEDS({"x", b->f}), 1, NULL, out));
    BAD(b, TP_E_NULL, tp_graph_run(b->g, TP_FEEDS({"x", b->f}), 2, missing, out));
    BAD(b, TP_E_NULL, tp_graph_run(b->g, TP_FEEDS({"x", b->f}), 1, z, NULL));
    BAD(b, TP_E_NAME, tp_graph_run(b->g, TP_FEEDS({"x", b->f}), 1, unknown, out));
    BAD(b, TP_E_NAME, tp_graph_run(b->g, TP_FEEDS({"no such", b->f}), 1, z, out));
    BAD(b, TP_E_NAME, tp_graph_run(b->g, TP_FEEDS({"x", b->f}, {"x", b->f}), 1, z, out));
    BAD(b, TP_E_NAME, tp_graph_run(b->g, TP_FEEDS({"x", b->f}), 1, other, out));
    assert_int_not_equal(tp_graph_run(b->g, -1, NULL, 1, z, out), TP_OK);
    tp_clear_error(b->tp);
    assert_int_not_equal(tp_graph_run(b->g, TP_FEEDS({"x", b->f}), 0, z, out), TP_OK);
    tp_clear_error(b->tp);
    assert_int_not_equal(tp_graph_run(b->g, TP_FEEDS({"x", b->f}), -1, z, out), TP_OK);
    tp_clear_error(b->tp);
    BAD(b, TP_E_SHAPE,
           tp_graph_run(b->g, TP_FEEDS({"x", b->t}), 1, z, out));
    BAD(b, TP_E_DTYPE,
           tp_graph_run(b->g, TP_FEEDS({"x", b->flag}), 1, z, out));
    BAD(b, TP_E_SYMBOLIC,
           tp_graph_run(b->g, TP_FEEDS({"x", b->node}), 1, z, out));
    BAD(b, TP_E_CTX,
           tp_graph_run(b->g, TP_FEEDS({"x", b->foreign}), 1, z, out));
    BAD(b, TP_E_NULL,
           tp_graph_run(b->g, TP_FEEDS({"x", NULL}), 1, z, out));
    BAD(b, TP_E_STATE,
           tp_graph_run(b->g, TP_FEEDS({"x", b->gone}), 1, z, out));
    STICKS(b, tp_graph_run(b->g, TP_FEEDS({"x", b->failed}), 1, z, out));
    assert_true(tp_failed(out[0]));
    assert_int_equal(tp_graph_run(b->g, TP_FEEDS({"x", b->f}), 2, z, out), TP_OK);
    assert_false(tp_failed(out[0]) || tp_failed(out[1]));
}

static tp_program *compile(bed *b)
{
    static const char *const x[] = {"x"}, *const z[] = {"z"};
    tp_name(tp_neg(b->node), "z");
    tp_program *p = tp_graph_compile(
        b->g, 1, x, 1, z, &(tp_compile_options){.engine = TP_ENGINE_REFERENCE});
    assert_non_null(p);
    return p;
}

MISUSE(tp_graph_compile)
{
    static const char *const x[] = {"x", "x"}, *const z[] = {"z"}, *const unknown[] = {"no"};
    static const char *const null[] = {NULL};
    tp_program_free(compile(b));
    assert_null(tp_graph_compile(NULL, 1, x, 1, z, NULL));
    BAD(b, TP_E_NULL, tp_graph_compile(b->g, 1, NULL, 1, z, NULL));
    BAD(b, TP_E_NULL, tp_graph_compile(b->g, 1, x, 1, NULL, NULL));
    BAD(b, TP_E_VALUE, tp_graph_compile(b->g, -1, x, 1, z, NULL));
    BAD(b, TP_E_VALUE, tp_graph_compile(b->g, 1, x, 0, z, NULL));
    BAD(b, TP_E_VALUE, tp_graph_compile(b->g, 1, x, -1, z, NULL));
    BAD(b, TP_E_NAME, tp_graph_compile(b->g, 1, unknown, 1, z, NULL));
    BAD(b, TP_E_NAME, tp_graph_compile(b->g, 1, x, 1, unknown, NULL));
    BAD(b, TP_E_NAME, tp_graph_compile(b->g, 1, null, 1, z, NULL));
    BAD(b, TP_E_NAME, tp_graph_compile(b->g, 1, x, 1, null, NULL));
    BAD(b, TP_E_NAME, tp_graph_compile(b->g, 2, x, 1, z, NULL));
    BAD(b, TP_E_NAME, tp_graph_compile(b->g, 0, NULL, 1, z, NULL));
    const tp_compile_options odd = {.engine = (tp_engine)7};
    BAD(b, TP_E_VALUE, tp_graph_compile(b->g, 1, x, 1, z, &odd));
    const tp_compile_options no_pass = {.skip_passes = "fold,no such pass"};
    BAD(b, TP_E_NAME, tp_graph_compile(b->g, 1, x, 1, z, &no_pass));
    const tp_compile_options limit = {.memory_limit = -1};
    BAD(b, TP_E_VALUE, tp_graph_compile(b->g, 1, x, 1, z, &limit));
    const tp_compile_options no_stop = {.stop_after = "fuse"};
    BAD(b, TP_E_NAME, tp_graph_compile(b->g, 1, x, 1, z, &no_stop));
}

MISUSE(tp_program_free)
{
    (void)what;
    tp_program_free(NULL);
    tp_program_free(compile(b));
}

MISUSE(tp_program_run)
{
    tp_program *p = compile(b);
    tp_tensor *out[1] = {NULL};
    assert_int_not_equal(tp_program_run(NULL, &b->f, out), TP_OK);
    OPERAND(b, b->f, tp_program_run(p, &x, out));
    BAD(b, TP_E_NULL, tp_program_run(p, NULL, out));
    assert_true(tp_failed(out[0]));
    BAD(b, TP_E_NULL, tp_program_run(p, &b->f, NULL));
    BAD(b, TP_E_SHAPE, tp_program_run(p, &b->t, out));
    BAD(b, TP_E_CTX, tp_program_run(p, &b->foreign, out));
    BAD(b, TP_E_SYMBOLIC, tp_program_run(p, &b->node, out));
}

MISUSE(tp_program_wait)
{
    assert_int_not_equal(tp_program_wait(NULL), TP_OK);
    BAD_BARE(b, TP_E_COMPILER, tp_program_wait(compile(b)));
}

MISUSE(tp_program_engine)
{
    (void)what;
    assert_string_equal(tp_program_engine(NULL), "none");
    tp_program_engine(compile(b));
}

MISUSE(tp_program_source)
{
    (void)what;
    assert_null(tp_program_source(NULL));
    assert_null(tp_program_source(compile(b)));
}

MISUSE(tp_program_graph)
{
    (void)what;
    assert_null(tp_program_graph(NULL));
    assert_non_null(tp_program_graph(compile(b)));
}

MISUSE(tp_program_text)
{
    (void)what;
    assert_null(tp_program_text(NULL));
    char *text = tp_program_text(compile(b));
    assert_non_null(text);
    tp_free(b->tp, text);
}

MISUSE(tp_program_profile)
{
    (void)what;
    assert_int_equal(tp_program_profile(NULL, true), TP_E_NULL);
    tp_program *p = compile(b);
    assert_int_equal(tp_program_profile(p, false), TP_OK);
    assert_int_equal(tp_program_profile(p, true), TP_E_STATE); /* it has no kernels */
    tp_clear_error(b->tp);
}

MISUSE(tp_program_profile_text)
{
    (void)what;
    assert_null(tp_program_profile_text(NULL));
    assert_null(tp_program_profile_text(compile(b)));
    assert_int_equal(tp_error(b->tp), TP_E_STATE);
    tp_clear_error(b->tp);
}

MISUSE(tp_program_profile_trace)
{
    (void)what;
    assert_null(tp_program_profile_trace(NULL));
    assert_null(tp_program_profile_trace(compile(b)));
    assert_int_equal(tp_error(b->tp), TP_E_STATE);
    tp_clear_error(b->tp);
}

MISUSE(tp_program_profile_save)
{
    what = "tp_program_profile_save";
    tp_program *p = compile(b);
    assert_int_equal(tp_program_profile_save(NULL, "t"), TP_E_NULL);
    BAD(b, TP_E_NULL, tp_program_profile_save(p, NULL));
    assert_int_equal(tp_program_profile_save(p, "t"), TP_E_STATE);
    assert_non_null(strstr(tp_error_message(b->tp), "tp_program_profile_trace: no run"));
    tp_clear_error(b->tp);
}

MISUSE(tp_program_loops_text)
{
    (void)what;
    assert_null(tp_program_loops_text(NULL));
    char *text = tp_program_loops_text(compile(b));
    assert_non_null(text);
    tp_free(b->tp, text);
}

MISUSE(tp_program_memory_text)
{
    (void)what;
    assert_null(tp_program_memory_text(NULL));
    char *text = tp_program_memory_text(compile(b));
    assert_non_null(text);
    tp_free(b->tp, text);
}

MISUSE(tp_runner_new)
{
    (void)what;
    assert_null(tp_runner_new(NULL, NULL));
    assert_null(tp_runner_new(compile(b), &b->f)); /* for the reference engine: no C code */
    assert_int_equal(tp_error(b->tp), TP_E_COMPILER);
    tp_clear_error(b->tp);
}

MISUSE(tp_runner_free)
{
    (void)b, (void)what;
    tp_runner_free(NULL);
}

MISUSE(tp_runner_run)
{
    (void)b, (void)what;
    assert_int_equal(tp_runner_run(NULL, NULL, NULL), TP_E_NULL);
}

MISUSE(tp_program_stats_of)
{
    (void)b, (void)what;
    assert_int_equal(tp_program_stats_of(NULL).nodes, 0);
}

#define TEXT(fn)                                                                               \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        (void)what;                                                                            \
        assert_null(fn(NULL));                                                                 \
        char *text = fn(b->g);                                                                 \
        assert_non_null(text);                                                                 \
        tp_free(b->tp, text);                                                                  \
    }
TEXT(tp_graph_text)
TEXT(tp_graph_dot)

#define TAPE(fn)                                                                               \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        (void)what;                                                                            \
        assert_null(fn(NULL));                                                                 \
        assert_null(fn(tp_neg(NULL)));                                                         \
        assert_null(fn(b->failed));                                                            \
        assert_null(fn(b->gone));                                                              \
        assert_null(fn(b->dead));                                                              \
        tp_clear_error(b->tp);                                                                 \
        tp_free(b->tp, fn(b->f));                                                              \
        tp_free(b->tp, fn(tp_neg(b->param)));                                                  \
        tp_free(b->tp, fn(tp_neg(b->node)));                                                   \
        tp_clear_error(b->tp);                                                                 \
    }
TAPE(tp_tape_text)
TAPE(tp_tape_dot)

MISUSE(tp_graph_parse)
{
    assert_null(tp_graph_parse(NULL, "x", 1));
    BAD(b, TP_E_NULL, tp_graph_parse(b->tp, NULL, 4));
    BAD(b, TP_E_FORMAT, tp_graph_parse(b->tp, "", 0));
    BAD(b, TP_E_FORMAT, tp_graph_parse(b->tp, "nonsense\n", 9));
}

MISUSE(tp_graph_verify)
{
    (void)what;
    assert_int_not_equal(tp_graph_verify(NULL), TP_OK);
    assert_int_equal(tp_graph_verify(b->g), TP_OK);
}

MISUSE(tp_graph_save_c)
{
    const char *x[] = {"x", NULL}, *y[] = {"y"}, *none[] = {"none"};
    tp_graph *g = tp_graph_new(b->tp);
    tp_tensor *n = tp_placeholder(g, "x", TP_F32, TP_SCALAR);
    tp_name(tp_neg(n), "y");
    assert_int_equal(tp_graph_save_c(NULL, "/nowhere/n.c", 1, x, 1, y, NULL), TP_E_NULL);
    BAD(b, TP_E_NULL, tp_graph_save_c(g, NULL, 1, x, 1, y, NULL));
    BAD(b, TP_E_VALUE, tp_graph_save_c(g, "/nowhere/n", 1, x, 1, y, NULL));
    BAD(b, TP_E_VALUE, tp_graph_save_c(g, "/nowhere/.c", 1, x, 1, y, NULL));
    BAD(b, TP_E_VALUE, tp_graph_save_c(g, "", 1, x, 1, y, NULL));
    BAD(b, TP_E_NULL, tp_graph_save_c(g, "/nowhere/n.c", 1, NULL, 1, y, NULL));
    BAD(b, TP_E_NULL, tp_graph_save_c(g, "/nowhere/n.c", 1, x, 1, NULL, NULL));
    BAD(b, TP_E_NAME, tp_graph_save_c(g, "/nowhere/n.c", 2, x, 1, y, NULL));
    BAD(b, TP_E_NAME, tp_graph_save_c(g, "/nowhere/n.c", 0, x, 1, y, NULL)); /* x is not fed */
    BAD(b, TP_E_NAME, tp_graph_save_c(g, "/nowhere/n.c", 1, x, 1, none, NULL));
    BAD(b, TP_E_VALUE, tp_graph_save_c(g, "/nowhere/n.c", 1, x, 0, y, NULL));
    BAD(b, TP_E_IO, tp_graph_save_c(g, "/nowhere/n.c", 1, x, 1, y, NULL));
    const char *view[] = {"of view", "step"}, *late[] = {"late"};
    tp_tensor *v = tp_variable(b->c, "v");
    tp_name(tp_add(n, tp_select(v, 0, 1)), "of view");
    tp_name(tp_assign(v, tp_mul(v, n)), "step");
    BAD_BARE(b, TP_E_STATE, tp_graph_save_c(g, "/nowhere/n.c", 1, x, 2, view, NULL));
    tp_tensor *left = n, *all = NULL;
    tp_while (tp_gt(left, tp_scalar_like(n, 0)), &left) {
        tp_emit(&all, left);
        left = tp_sub(left, tp_scalar_like(n, 1));
    }
    all = tp_max_pool(tp_reshape(all, TP_DIMS(1, 1, -1)), &(tp_window){.kernel = {3}});
    tp_name(tp_sum(all, TP_ALL, false), "late");
    what = "max_pool";
    BAD_BARE(b, TP_E_COMPILER, tp_graph_save_c(g, "/nowhere/n.c", 1, x, 1, late, NULL));
    tp_graph_free(g);
}

MISUSE(tp_graph_save)
{
    assert_int_not_equal(tp_graph_save(NULL, "g"), TP_OK);
    BAD(b, TP_E_NULL, tp_graph_save(b->g, NULL));
    BAD(b, TP_E_IO, tp_graph_save(b->g, ""));
    BAD(b, TP_E_IO, tp_graph_save(b->g, "/nowhere/g"));
    BAD(b, TP_E_IO, tp_graph_save(b->g, "/"));
}

MISUSE(tp_graph_load)
{
    assert_null(tp_graph_load(NULL, "g"));
    BAD(b, TP_E_NULL, tp_graph_load(b->tp, NULL));
    BAD(b, TP_E_IO, tp_graph_load(b->tp, ""));
    BAD(b, TP_E_IO, tp_graph_load(b->tp, "/nowhere/g"));
    BAD(b, TP_E_IO, tp_graph_load(b->tp, "/dev/null"));
}

MISUSE(tp_graph_load_bytes)
{
    what = "tp_graph_load_bytes|tp_graph_load";
    assert_null(tp_graph_load_bytes(NULL, "x", 1));
    BAD(b, TP_E_NULL, tp_graph_load_bytes(b->tp, NULL, 9));
    BAD(b, TP_E_FORMAT, tp_graph_load_bytes(b->tp, "", 0));
    BAD(b, TP_E_FORMAT, tp_graph_load_bytes(b->tp, "nonsense", 8));
}

const misuse misuse_graph[] = {
    LISTED(tp_graph_new),
    LISTED(tp_graph_free),
    LISTED(tp_symbol),
    LISTED(tp_dim_add),
    LISTED(tp_dim_mul),
    LISTED(tp_dim_div),
    LISTED(tp_placeholder),
    LISTED(tp_graph_of),
    LISTED(tp_graph_read),
    LISTED(tp_group),
    LISTED(tp_graph_find),
    LISTED(tp_graph_variable),
    LISTED(tp_graph_n_variables),
    LISTED(tp_graph_nth_variable),
    LISTED(tp_graph_n_inputs),
    LISTED(tp_graph_input),
    LISTED(tp_graph_n_outputs),
    LISTED(tp_graph_output),
    LISTED(tp_graph_set_outputs),
    LISTED(tp_graph_run),
    LISTED(tp_graph_compile),
    LISTED(tp_program_free),
    LISTED(tp_program_run),
    LISTED(tp_program_wait),
    LISTED(tp_program_engine),
    LISTED(tp_program_source),
    LISTED(tp_program_graph),
    LISTED(tp_program_text),
    LISTED(tp_runner_new),
    LISTED(tp_runner_free),
    LISTED(tp_runner_run),
    LISTED(tp_program_loops_text),
    LISTED(tp_program_memory_text),
    LISTED(tp_program_profile),
    LISTED(tp_program_profile_text),
    LISTED(tp_program_profile_trace),
    LISTED(tp_program_profile_save),
    LISTED(tp_program_stats_of),
    LISTED(tp_graph_n_nodes),
    LISTED(tp_graph_node),
    LISTED(tp_node_operand),
    LISTED(tp_node_attribute),
    LISTED(tp_node_body_of),
    LISTED(tp_node_of_output),
    LISTED(tp_dim_text),
    LISTED(tp_graph_text),
    LISTED(tp_graph_dot),
    LISTED(tp_tape_text),
    LISTED(tp_tape_dot),
    LISTED(tp_graph_parse),
    LISTED(tp_graph_verify),
    LISTED(tp_graph_save),
    LISTED(tp_graph_save_c),
    LISTED(tp_graph_load),
    LISTED(tp_graph_load_bytes),
    {0},
};
