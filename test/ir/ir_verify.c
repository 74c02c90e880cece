/* The verifier: a graph in which any node is spoiled in any way is found out, and the message
 * names the node. */
#include "ir/body.h"
#include "ir/check.h"
#include "ir_sample.h"
#include "tapir/nn.h"

typedef struct spoiling {
    tp_ctx *ctx;
    tp_graph *root, *g; /* what is checked; it, or a body, whose nodes are spoiled */
    int body;           /* its number in the text, 0: none */
    long caught;
} spoiling;

/* The graph must be broken now, at node i when i >= 0. */
static void expect_broken(spoiling *s, int i, const char *how)
{
    char node[40] = "";
    if (i >= 0 && s->body)
        snprintf(node, sizeof node, "node %%%d.%d ", s->body, i);
    else if (i >= 0)
        snprintf(node, sizeof node, "node %%%d ", i);
    const tp_status status = tp_graph_verify(s->root);
    const char *message = tp_error_message(s->ctx);
    if (status != TP_E_BUG || !strstr(message, node))
        fail_msg("node %%%d (%s) with %s: %s \"%s\"", i, i < 0 ? "" : s->g->nodes[i]->op->name,
                 how, tp_status_name(status), message);
    tp_clear_error(s->ctx);
    s->caught++;
}

static void spoil_type(spoiling *s, int i)
{
    tp_tensor *t = s->g->nodes[i];
    const tp_tensor was = *t;
    t->dtype = TP_N_DTYPES;
    expect_broken(s, i, "no element type");
    t->dtype = was.dtype;
    t->rank = TP_MAX_RANK + 1;
    expect_broken(s, i, "rank 9");
    t->rank = was.rank;
    t->status = TP_E_SHAPE;
    expect_broken(s, i, "a failure");
    t->status = TP_OK;
    if (t->rank) {
        t->shape[0] = -5;
        expect_broken(s, i, "a size of -5");
        t->shape[0] = was.shape[0];
    }
    if (t->op->infer) {
        t->dtype = t->dtype == TP_F64 ? TP_I8 : TP_F64;
        expect_broken(s, i, "another element type");
        t->dtype = was.dtype;
        if (t->rank) {
            t->shape[t->rank - 1] = 12345;
            expect_broken(s, i, "another size");
        } else {
            t->shape[0] = 1;
            t->rank = 1;
            expect_broken(s, i, "another rank");
        }
    }
    t->rank = was.rank;
    memcpy(t->shape, was.shape, sizeof was.shape);
}

static void spoil_operands(spoiling *s, int i)
{
    tp_tensor *t = s->g->nodes[i];
    if (t->op->n_in >= 0 && t->n_in) {
        t->n_in--;
        expect_broken(s, i, "an operand less");
        t->n_in++;
    }
    for (int k = 0; k < t->n_in; k++) {
        tp_tensor *const was = t->in[k];
        t->in[k] = t;
        expect_broken(s, i, "itself as operand");
        if (i + 1 < s->g->n_nodes) {
            t->in[k] = s->g->nodes[s->g->n_nodes - 1];
            expect_broken(s, i, "a later operand");
        }
        t->in[k] = NULL;
        expect_broken(s, i, "no operand");
        t->in[k] = was;
    }
    const tpi_op *const op = t->op;
    t->op = op->n_in == 1 ? &tpi_op_assign : &tpi_op_const;
    expect_broken(s, i, "another op");
    t->op = op;
}

static void spoil_attrs(spoiling *s, int i)
{
    const tp_tensor *t = s->g->nodes[i];
    for (const tpi_attr *a = t->op->attrs; a && a->name; a++) {
        int64_t *p = (int64_t *)(uintptr_t)((const char *)t->attrs + a->offset);
        const int64_t was = *p;
        if (a->type == TPI_ATTR_BODY) {
            *p = 0;
            expect_broken(s, i, "no body");
            *p = was;
            continue;
        }
        if (a->type == TPI_ATTR_F64 ||
            (a->type == TPI_ATTR_INT && strcmp(a->name, "axis") != 0))
            continue;
        *p = a->type == TPI_ATTR_DIM ? -5 : 99;
        expect_broken(s, i, a->name);
        *p = -1;
        expect_broken(s, i, a->name);
        *p = was;
        if (a->type == TPI_ATTR_DIMS && was > 0) {
            const int64_t size = p[1];
            p[1] = -5;
            expect_broken(s, i, a->name);
            p[1] = size;
        }
    }
}

static void spoil_place(spoiling *s, int i)
{
    tp_tensor *t = s->g->nodes[i];
    t->index++;
    expect_broken(s, i, "another index");
    t->index--;
    t->graph = NULL;
    expect_broken(s, -1, "no graph");
    t->graph = s->g;
    if (i == 0)
        return;
    s->g->nodes[i] = s->g->nodes[i - 1];
    expect_broken(s, i, "the node before again");
    s->g->nodes[i] = t;
    if (!t->name)
        return;
    const tp_tensor *first = tpi_graph_by_name(s->g, "x", 1);
    char *const name = t->name;
    t->name = first ? first->name : NULL;
    if (first && first != t)
        expect_broken(s, i, "another node's name");
    t->name = name;
}

static void spoil_lifted(spoiling *s)
{
    for (int i = 0; i < s->g->lifted_size; i++) {
        tpi_lifted *l = &s->g->lifted[i];
        const tpi_lifted was = *l;
        if (!l->concrete)
            continue;
        l->node = s->g->nodes[0];
        expect_broken(s, -1, "a lifted tensor read by another node");
        l->node = was.node->in[0]->graph ? s->g->nodes[0] : was.node->in[0];
        expect_broken(s, -1, "a lifted tensor for a node");
        *l = (tpi_lifted){0};
        expect_broken(s, -1, "a lifted tensor less");
        *l = was;
    }
}

/* Params, outputs and belongings of body `b`, of node i of s->g. */
static void spoil_body(spoiling *s, int i, tpi_body *b)
{
    tp_graph *const g = b->graph;
    g->parent = s->g->parent ? NULL : g;
    expect_broken(s, i, "a body of another graph");
    g->parent = s->g;
    g->body = NULL;
    expect_broken(s, i, "a body that its graph does not know");
    g->body = b;
    for (int k = 0; k < b->n_params; k++) {
        tp_tensor *const was = b->params[k];
        b->params[k] = s->g->nodes[0];
        expect_broken(s, i, "a param that is another node");
        b->params[k] = was;
        tpi_index_attrs *attrs;
        memcpy(&attrs, &was->attrs, sizeof attrs);
        attrs->index++;
        expect_broken(s, i, "a param with another index");
        attrs->index--;
    }
    if (b->n_params) {
        b->n_params--;
        expect_broken(s, i, "a param less");
        b->n_params++;
    }
    for (int k = 0; k < b->n_outputs; k++) {
        tp_tensor *const was = b->outputs[k];
        b->outputs[k] = s->g->nodes[0];
        expect_broken(s, i, "an output from outside");
        b->outputs[k] = was;
    }
    if (b->n_outputs) {
        b->n_outputs--;
        expect_broken(s, i, "an output less");
        b->n_outputs++;
    }
}

/* All of s->g, and of the bodies in it; *n_bodies: the numbers given away. */
static void spoil_all(spoiling *s, int *n_bodies)
{
    for (int i = 0; i < s->g->n_nodes; i++) {
        tp_tensor *const t = s->g->nodes[i];
        spoil_type(s, i);
        spoil_operands(s, i);
        spoil_attrs(s, i);
        spoil_place(s, i);
        if (!tpi_is_block(t))
            continue;
        tpi_body *bodies[2];
        const int n = tpi_bodies_of(t, bodies), first = *n_bodies + 1;
        *n_bodies += n;
        for (int k = 0; k < n; k++) {
            spoil_body(s, i, bodies[k]);
            spoiling inner = *s;
            inner.g = bodies[k]->graph;
            inner.body = first + k;
            spoil_all(&inner, n_bodies);
            s->caught = inner.caught;
        }
    }
}

static void every_node(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *graphs[] = {sample_every_op(tp), sample_odd(tp)};
    for (int k = 0; k < 2; k++) {
        spoiling s = {.ctx = tp, .root = graphs[k], .g = graphs[k]};
        int n_bodies = 0;
        spoil_all(&s, &n_bodies);
        assert_int_equal(n_bodies, k == 0 ? 8 : 0);
        spoil_lifted(&s);
        if (tp_graph_verify(s.g) != TP_OK)
            fail_msg("the graph was put back, and: %s", tp_error_message(tp));
        for (int i = 0; i < s.g->n_nodes; i++)
            assert_false(s.g->nodes[i]->flags & TPI_MARK);
        print_message("%ld spoiled graphs of %d nodes were found out\n", s.caught,
                      s.g->n_nodes);
    }
}

/* What is wrong in a body, or about it, and how it is said. */
static void in_bodies(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *n = tp_placeholder_at("net.c", 1, g, "n", TP_F32, TP_DIMS(3));
    tp_tensor *p = tp_placeholder_at("net.c", 1, g, "p", TP_BOOL, 0, NULL);
    tpi_body *sides[2];
    for (int k = 0; k < 2; k++) {
        sides[k] = tpi_body_new(g, TPI_AT("net.c", 2));
        tp_tensor *x = tpi_body_param(sides[k], TPI_AT("net.c", 3), TP_F32, 1, n->shape, n);
        assert_true(tpi_body_output(sides[k], tp_neg_at("net.c", 4 + k, x)));
    }
    tp_tensor *in[] = {p, n};
    tp_tensor *c = tpi_cond_node(g, TPI_AT("net.c", 2),
                                 &(tpi_cond_attrs){.then = sides[0], .other = sides[1]}, 2, in);
    tp_tensor *y = tpi_output_node(g, TPI_AT("net.c", 2), c, 0);
    assert_int_equal(tp_graph_verify(g), TP_OK);
    tp_tensor *neg = sides[1]->graph->nodes[1];
    neg->dtype = TP_I8;
    assert_int_equal(tp_graph_verify(g), TP_E_BUG);
    EXPECT_ERROR(tp, TP_E_BUG,
                 "net.c:5: verify: node %2.1 (neg): it is i8[3], its rule gives "
                 "f32[3]");
    neg->dtype = TP_F32;
    neg->in[0] = sides[0]->graph->nodes[0];
    assert_int_equal(tp_graph_verify(g), TP_E_BUG);
    EXPECT_ERROR(tp, TP_E_BUG,
                 "net.c:5: verify: node %2.1 (neg): operand 0 comes before its "
                 "user");
    neg->in[0] = sides[1]->graph->nodes[0];
    const tpi_op *const op = y->op;
    y->op = &tpi_op_group;
    assert_int_equal(tp_graph_verify(g), TP_E_BUG);
    EXPECT_ERROR(tp, TP_E_BUG,
                 "net.c:2: verify: node %3 (group): operand 0 is a block, which is "
                 "read through its outputs");
    y->op = op;
    const tpi_op *const negates = neg->op;
    neg->op = &tpi_op_variable;
    assert_int_equal(tp_graph_verify(g), TP_E_BUG);
    EXPECT_ERROR(tp, TP_E_BUG,
                 "net.c:5: verify: node %2.1 (variable): a body has no variable: "
                 "what it reads is a param, what it changes an output");
    neg->op = negates;
    assert_int_equal(tp_graph_verify(g), TP_OK);
}

/* A loop's length is known behind it, and only there. */
static void turns(void **state)
{
    tp_ctx *tp = *state;
    static const char text[] =
        "tapir 1\n"
        "symbols n turns\n"
        "%%0 \"x\" = placeholder : f32[%s]\n"
        "%%1 = const true : bool[]\n"
        "%%2 = loop %%1, %%1 {body=(1), carried=1, stacked=1, pred=true, length=%s} : bool[]\n"
        "  (1) body\n"
        "    %%1.0 = param {index=0} : i64[] <- turn\n"
        "    %%1.1 = param {index=1} : bool[] <- carried %%1\n"
        "    %%1.2 = const false : bool[]\n"
        "    %%1.3 = broadcast %%1.2 {shape=[%s]} : bool[%s]\n"
        "    while %%1.2\n"
        "    carry %%1.1\n"
        "    stack %%1.1\n"
        "%%3 = output %%2 {index=1} : bool[%s]\n"
        "%%4 = loop %%1, %%1 {body=(2), carried=1, pred=true%s} : bool[]\n"
        "  (2) body\n"
        "    %%2.0 = param {index=0} : i64[] <- turn\n"
        "    %%2.1 = param {index=1} : bool[] <- carried %%1\n"
        "    %%2.2 = const false : bool[]\n"
        "    %%2.3 = broadcast %%2.2 {shape=[%s]} : bool[%s]\n"
        "    while %%2.2\n"
        "    carry %%2.1\n";
    /* clang-format off */
    static const struct {
        const char *x, *length, *inside, *other, *inside_other, *why;
    } cases[] = {
        {"n", "turns", "n", "", "turns", NULL},
        {"turns", "turns", "n", "", "n", "%0 (placeholder): size turns is not known here"},
        {"2*turns+n", "turns", "n", "", "n", "%0 (placeholder): size turns is not known here"},
        {"n", "turns", "turns", "", "n", "%1.3 (broadcast): size turns is not known here"},
        {"turns", "n", "3", "", "turns", NULL},
        {"n", "2*turns", "3", "", "n", "length is no symbol of its own"},
        {"n", "3", "3", "", "n", "length is no symbol of its own"},
        {"3", "turns", "3", ", length=turns", "n", "%4 (loop): length is turns, which a loop before"},
        {"3", "turns", "3", ", length=n", "n", "%2.3 (broadcast): size n is not known here"},
        {"3", "turns", "3", ", length=n", "turns", NULL},
        {"3", "turns", "3", ", length=7", "turns", "%4 (loop): length is no symbol of its own"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char full[2048];
        snprintf(full, sizeof full, text, cases[i].x, cases[i].length, cases[i].inside,
                 cases[i].inside, cases[i].length, cases[i].other, cases[i].inside_other,
                 cases[i].inside_other);
        tp_graph *g = tp_graph_parse(tp, full, strlen(full));
        if (!g != !!cases[i].why || (!g && !strstr(tp_error_message(tp), cases[i].why)))
            fail_msg("case %zu: %s", i, tp_error_message(tp));
        tp_clear_error(tp);
        tp_graph_free(g);
    }
}

static void messages(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder_at("net.c", 1, g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"), 3));
    tp_tensor *y = tp_name(tp_sum_at("net.c", 2, x, TP_DIMS(1), false), "y");
    y->dtype = TP_I8;
    assert_int_equal(tp_graph_verify(g), TP_E_BUG);
    EXPECT_ERROR(tp, TP_E_BUG,
                 "net.c:2: verify: node %1 (sum y): it is i8[n], its rule gives f32[n]");
    assert_int_equal(tpi_verify(tp, "pass cse", g->dims, g->n_nodes, g->nodes), TP_E_BUG);
    EXPECT_ERROR(
        tp, TP_E_BUG,
        "net.c:2: verify: pass cse: node %1 (sum y): it is i8[n], its rule gives f32[n]");
    y->dtype = TP_F32;
    /* An error that is there already stays the first one. */
    tp_add(x, NULL);
    y->rank = 0;
    assert_int_equal(tp_graph_verify(g), TP_E_BUG);
    assert_int_equal(tp_error(tp), TP_E_NULL);
    tp_clear_error(tp);
    y->rank = 1;
    assert_int_equal(tp_graph_verify(g), TP_OK);
    assert_int_equal(tp_graph_verify(NULL), TP_E_NULL);
}

static void a_recorded_past(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w = tp_param(tp_full(tp, TP_F32, TP_DIMS(3, 2), 2), "w");
    tp_tensor *y =
        tp_mean(tp_square(tp_matmul(tp_full(tp, TP_F32, TP_DIMS(4, 3), 1), w)), TP_ALL, false);
    tpi_nodes past = {.ctx = tp};
    assert_true(tpi_collect(&past, 1, &y, NULL, NULL));
    assert_true(past.n >= 4);
    assert_int_equal(tpi_verify(tp, NULL, NULL, past.n, past.v), TP_OK);
    tp_tensor *const first = past.v[0];
    past.v[0] = past.v[past.n - 1];
    past.v[past.n - 1] = first;
    assert_int_equal(tpi_verify(tp, NULL, NULL, past.n, past.v), TP_E_BUG);
    tp_clear_error(tp);
    tpi_nodes_free(&past);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(every_node), CASE(in_bodies), CASE(turns),
                                       CASE(messages), CASE(a_recorded_past)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
