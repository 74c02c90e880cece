/* Graphs walked node by node: what the walk tells is what the text says. */
#include "ir/notation.h"
#include "ir_sample.h"

typedef struct writer {
    tpi_str s;
    tp_ctx *tp;
    int n_long, n_bodies; /* numbers given away */
} writer;

static void put_owned(writer *w, char *text)
{
    assert_non_null(text);
    tpi_str_put(&w->s, text);
    tp_free(w->tp, text);
}

static void put_attrs(writer *w, const tp_graph *g, int i, const tp_node *n)
{
    for (int k = 0; k < n->n_bodies; k++)
        tpi_str_printf(&w->s, "%s%s=(%d)", k ? ", " : " {", tp_node_body_of(g, i, k).word,
                       w->n_bodies + 1 + k);
    for (int k = 0; k < n->n_attributes; k++) {
        const char *name = NULL;
        char *value = tp_node_attribute(g, i, k, &name);
        tpi_str_printf(&w->s, "%s%s=", k + n->n_bodies ? ", " : " {", name);
        put_owned(w, value);
    }
    tpi_str_put(&w->s, n->n_bodies + n->n_attributes ? "}" : "");
}

static void put_what(writer *w, const tp_graph *g, int i, const tp_node *n, int body)
{
    tpi_str_printf(&w->s, " = %s", n->op);
    if (n->value && strcmp(n->op, "variable") == 0) {
        tpi_str_put(&w->s, " @");
    } else if (n->value && n->n_attributes) {
        const char *name;
        tpi_str_put(&w->s, " ");
        put_owned(w, tp_node_attribute(g, i, 0, &name));
        assert_string_equal(name, "value");
    } else if (n->value) {
        tpi_str_printf(&w->s, " #%d", w->n_long++);
    } else {
        for (int k = 0; k < n->n_operands; k++) {
            tpi_str_put(&w->s, k ? ", " : " ");
            tpi_put_number(&w->s, body, tp_node_operand(g, i, k));
        }
        put_attrs(w, g, i, n);
    }
}

static void put_type(writer *w, const tp_graph *g, const tp_node *n)
{
    tpi_str_printf(&w->s, " : %s[", tp_dtype_name(n->dtype));
    for (int k = 0; k < n->rank; k++) {
        tpi_str_put(&w->s, k ? "," : "");
        put_owned(w, tp_dim_text(g, n->shape[k]));
    }
    tpi_str_put(&w->s, n->constant ? "] constant" : "]");
}

static void put_outputs(writer *w, const tp_graph *g, const char *word, int body, int *k, int n)
{
    if (n)
        tpi_str_put(&w->s, word);
    for (int i = 0; i < n; i++) {
        tpi_str_put(&w->s, i ? ", " : " ");
        tpi_put_number(&w->s, body, tp_node_of_output(g, (*k)++));
    }
    tpi_str_put(&w->s, n ? "\n" : "");
}

static int number_of(writer *w, const tp_graph *g, int i, const char *attribute)
{
    const char *name = NULL;
    char *value;
    int number = 0;
    for (int k = 0; (value = tp_node_attribute(g, i, k, &name)) != NULL; k++) {
        if (strcmp(name, attribute) == 0)
            number = strcmp(value, "true") == 0 ? 1 : atoi(value);
        tp_free(w->tp, value);
    }
    return number;
}

static void put_level(writer *w, const tp_graph *g, int body, int around);

static void put_bodies(writer *w, const tp_graph *g, int i, const tp_node *n, int body)
{
    const int first = w->n_bodies + 1;
    w->n_bodies += n->n_bodies;
    for (int k = 0; k < n->n_bodies; k++) {
        const tp_node_body b = tp_node_body_of(g, i, k);
        int from = 0;
        tpi_str_printf(&w->s, "(%d) %s", first + k, b.word);
        tpi_put_place(&w->s, b.file, b.line);
        tpi_str_put(&w->s, "\n");
        char *const alone[] = {tp_graph_text(b.graph), tp_graph_dot(b.graph)};
        assert_true(alone[0] && strstr(alone[0], "%0") && alone[1] && strstr(alone[1], "n0"));
        tp_free(w->tp, alone[0]);
        tp_free(w->tp, alone[1]);
        put_level(w, b.graph, first + k, body);
        const bool loop = strcmp(n->op, "loop") == 0;
        const int all = tp_graph_n_outputs(b.graph);
        put_outputs(w, b.graph, "give", first + k, &from, loop ? 0 : all);
        put_outputs(w, b.graph, "while", first + k, &from, loop && number_of(w, g, i, "pred"));
        put_outputs(w, b.graph, "carry", first + k, &from,
                    loop ? number_of(w, g, i, "carried") : 0);
        put_outputs(w, b.graph, "stack", first + k, &from, all - from);
    }
}

static void put_level(writer *w, const tp_graph *g, int body, int around)
{
    for (int i = 0; i < tp_graph_n_nodes(g); i++) {
        const tp_node n = tp_graph_node(g, i);
        assert_non_null(n.op);
        tpi_put_number(&w->s, body, i);
        if (n.name) {
            tpi_str_put(&w->s, " ");
            tpi_put_string(&w->s, n.name, strlen(n.name));
        }
        put_what(w, g, i, &n, body);
        put_type(w, g, &n);
        if (n.takes) {
            tpi_str_printf(&w->s, " <- %s%s", n.takes, *n.takes && n.from >= 0 ? " " : "");
            if (n.from >= 0)
                tpi_put_number(&w->s, around, n.from);
        }
        tpi_put_place(&w->s, n.file, n.line);
        tpi_str_put(&w->s, "\n");
        put_bodies(w, g, i, &n, body);
    }
}

/* The lines of nodes and bodies, without indentation and the numbers of variables. */
static void plain(char *text)
{
    char *to = text;
    for (char *line = text, *next; *line; line = next) {
        next = strchr(line, '\n') + 1;
        char *from = line + strspn(line, " ");
        const bool head = strchr("@to", *from) || strncmp(from, "symbols", 7) == 0;
        char *cell = strstr(from, " = variable @");
        if (cell && cell < next) {
            cell += strlen(" = variable @");
            memmove(to, from, (size_t)(cell - from));
            to += cell - from;
            from = cell + strspn(cell, "0123456789");
        }
        if (!head) {
            memmove(to, from, (size_t)(next - from));
            to += next - from;
        }
    }
    *to = 0;
}

static void as_the_text(tp_ctx *tp, const tp_graph *g)
{
    writer w = {.s = TPI_STR(&tp->mem), .tp = tp};
    put_level(&w, g, 0, 0);
    char *text = tp_graph_text(g);
    assert_non_null(text);
    plain(text);
    assert_false(w.s.failed);
    assert_string_equal(w.s.text, text);
    tp_free(tp, text);
    tpi_str_free(&w.s);
}

static void samples(void **state)
{
    as_the_text(*state, sample_every_op(*state));
    as_the_text(*state, sample_blocks(*state));
    as_the_text(*state, sample_odd(*state));
}

/* After passes, and with blocks in blocks of which some were replaced. */
static void of_programs(void **state)
{
    static const char *const feeds[] = {"xs", "h"}, *const fetches[] = {"last", "all", "trail"};
    static const char *const stages[] = {"prune", "hoist", "cse", NULL};
    tp_graph *g = sample_blocks(*state);
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        const tp_compile_options opt = {
            .engine = TP_ENGINE_REFERENCE, .freeze = i > 1, .stop_after = stages[i]};
        tp_program *p = tp_graph_compile(g, 2, feeds, 3, fetches, &opt);
        assert_non_null(p);
        as_the_text(*state, tp_program_graph(p));
    }
}

static void values(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    const int64_t n = tp_symbol(g, "n");
    tp_tensor *w = MUST(tp_param(sample_data(tp, TP_F32, TP_DIMS(17)), "w"));
    tp_tensor *x = MUST(tp_placeholder_at("net.c", 8, g, "x", TP_F32, TP_DIMS(n, 17)));
    MUST(tp_mul(MUST(tp_add(x, w)), MUST(sample_data(tp, TP_F32, TP_DIMS(17)))));
    tp_tensor *y = MUST(tp_name(tp_sum(x, TP_DIMS(1), true), "y"));
    tp_graph_set_outputs(g, 1, &y);
    assert_int_equal(tp_graph_n_nodes(g), 6);
    const tp_node first = tp_graph_node(g, 0), variable = tp_graph_node(g, 1);
    assert_string_equal(first.op, "placeholder");
    assert_string_equal(first.file, "net.c");
    assert_int_equal(first.line, 8);
    assert_int_equal(first.rank, 2);
    assert_true(first.shape[0] == n && first.shape[1] == 17 && !first.value && !first.takes);
    assert_ptr_equal(variable.value, w);
    assert_int_equal(variable.n_operands + variable.n_attributes, 0);
    assert_int_equal(tp_node_operand(g, 1, 0), -1);
    const tp_node constant = tp_graph_node(g, 3); /* too long for the text */
    assert_int_equal(constant.n_attributes, 0);
    assert_int_equal(tp_count(constant.value), 17);
    assert_int_equal(tp_node_operand(g, 2, 1), 1);
    assert_int_equal(tp_node_operand(g, 2, 2), -1);
    assert_int_equal(tp_node_of_output(g, 0), 5);
    char *keep = tp_node_attribute(g, 5, 1, NULL);
    assert_string_equal(keep, "true");
    tp_free(tp, keep);
    assert_int_equal(tp_error(tp), TP_OK);
}

/* A view is one of the variable, wherever that is read, or of the first view. */
static void views(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *v = MUST(tp_variable(sample_data(tp, TP_F32, TP_DIMS(4, 6)), "v"));
    tp_tensor *hidden = MUST(tp_variable(sample_data(tp, TP_F32, TP_DIMS(4, 6)), "hidden"));
    tp_tensor *const reads[] = {MUST(tp_select(v, 0, 1)), MUST(tp_scalar(tp, TP_F32, 2)),
                                MUST(tp_select(hidden, 0, 2)), v,
                                MUST(tp_flip(hidden, TP_DIMS(0)))};
    const int expected[] = {3, -1, 2, -1, 2};
    for (int i = 0; i < 5; i++)
        MUST(tp_graph_read(g, reads[i]));
    for (int i = 0; i < 5; i++)
        assert_int_equal(tp_graph_node(g, i).view_of, expected[i]);
}

static void out_of_memory(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = MUST(tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"))));
    MUST(tp_sum(x, TP_ALL, false));
    unit_memory *m = tp->mem.user.user;
    m->fail_at = m->calls + 1;
    while (tp_node_attribute(g, 1, 0, NULL)) /* memory is kept for reuse: until that is gone */
        ;
    assert_int_equal(tp_error(tp), TP_E_MEMORY);
    tp_clear_error(tp);
    while (tp_dim_text(g, tp_dim(x, 0)))
        ;
    assert_int_equal(tp_error(tp), TP_E_MEMORY);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(samples), CASE(of_programs), CASE(values),
                                              CASE(views), CASE(out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
