/* Drawings: every node and operand is there, and any name is a label. Graphviz is the judge when
 * it is installed. */
#include "ir/body.h"
#include "ir_sample.h"

#include <unistd.h>

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
        n++;
    return n;
}

/* The nodes of a graph and of the bodies in it, and the lines between them. */
static int count_all(const tp_graph *g, int *edges)
{
    int nodes = g->n_nodes;
    for (int i = 0; i < g->n_nodes; i++) {
        const tp_tensor *t = g->nodes[i];
        tpi_body *bodies[2];
        if (tpi_is_block(t)) {
            const tpi_loop_attrs *loop = t->op == &tpi_op_loop ? t->attrs : NULL;
            const int n = tpi_bodies_of(t, bodies);
            for (int k = 0; k < n; k++) {
                nodes += count_all(bodies[k]->graph, edges);
                *edges += bodies[k]->n_params; /* the turn's is from the loop itself */
            }
            *edges += loop ? (int)(2 * loop->has_pred + loop->n_carried) : 1;
        } else if (t->op == &tpi_op_output) { /* from each body */
            *edges += tpi_bodies_of(t->in[0], bodies);
        } else if (t->op->kind != TPI_SOURCE) {
            *edges += t->n_in;
        }
    }
    return nodes;
}

static void check(const tp_graph *g, const char *dot)
{
    int edges = 0;
    const int nodes = count_all(g, &edges), ends = count(dot, "shape=point");
    assert_int_equal(count(dot, ", fillcolor="), nodes);
    assert_int_equal(count(dot, " -> "), edges + ends);
    for (const char *p = dot; *p; p++) /* nothing that breaks a line or an encoding */
        assert_true(*p == '\n' || (unsigned char)*p >= 0x20);
}

/* The nodes and edges that Graphviz reads, -1 when it is not there. */
static int graphviz(const char *dot, int *edges)
{
    char path[] = "/var"
                  "/tmp/tapir-dot-XXXXXX",
         command[100], line[8192];
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, dot, strlen(dot)), strlen(dot));
    close(fd);
    snprintf(command, sizeof command, "dot -Tplain %s 2>&1", path);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    int nodes = 0;
    *edges = 0;
    while (fgets(line, sizeof line, f)) {
        nodes += strncmp(line, "node ", 5) == 0;
        *edges += strncmp(line, "edge ", 5) == 0;
        if (strncmp(line, "Error", 5) == 0 || strncmp(line, "Warning", 7) == 0)
            fail_msg("dot says: %s", line);
    }
    unlink(path);
    return pclose(f) == 0 ? nodes : -1;
}

static void drawings(void **state)
{
    tp_ctx *tp = *state;
    const tp_graph *graphs[] = {sample_every_op(tp), sample_odd(tp), sample_blocks(tp)};
    const bool judge = system("dot -V >/dev/null 2>&1") == 0;
    for (int k = 0; k < 3; k++) {
        char *dot = tp_graph_dot(graphs[k]);
        assert_non_null(dot);
        check(graphs[k], dot);
        int edges;
        if (judge) {
            const int ends = count(dot, "shape=point");
            assert_int_equal(graphviz(dot, &edges), count(dot, ", fillcolor=") + ends);
            assert_int_equal(edges, count(dot, " -> "));
        }
        tp_free(tp, dot);
    }
    if (!judge)
        print_message("skipped: dot is not installed, so the drawings were not read by it\n");
}

static void labels(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x =
        tp_placeholder_at("a\"b.c", 1, g, "q\"uo\\te\n\xff\xc3\xa4", TP_F32, TP_DIMS(2));
    tp_sum_at("net.c", 2, x, TP_DIMS(0), true);
    char *dot = tp_graph_dot(g);
    assert_non_null(strstr(dot, "label=\"q\\\"uo\\\\te\\\\x0a\\\\xff\xc3\xa4\\nplaceholder\", "
                                "tooltip=\"%0 : f32[2] ; a\\\"b.c:1\""));
    assert_non_null(strstr(dot, "label=\"sum\\n{axes=[0], keep=true}\""));
    assert_non_null(strstr(dot, "n0 -> n1 [label=\"f32[2]\"]"));
    tp_free(tp, dot);
    assert_null(tp_graph_dot(NULL));
    assert_null(tp_tape_dot(NULL));
    tp_tensor *w = tp_param(tp_full(tp, TP_F32, TP_DIMS(3), 2), "w");
    dot = tp_tape_dot(tp_mul(w, w));
    assert_int_equal(count(dot, " -> "), 3);
    assert_non_null(strstr(dot, "label=\"w\\nvariable\""));
    tp_free(tp, dot);
}

/* Drawing and checking, with the n-th allocation failing, for every n. */
static void out_of_memory(void **state)
{
    (void)state;
    int drawn = 0,
        checked = 0; /* both samples in turn: done when both were, one after the other */
    for (long n = 1; drawn < 2 || checked < 2; n++) {
        for (int k = 0; k < 2; k++) {
            unit_memory m = {0};
            tp_ctx *tp = unit_open(&m);
            tp_graph *g = n % 2 ? sample_odd(tp) : sample_blocks(tp);
            m.fail_at = m.calls + n;
            if (k == 0) {
                char *dot = tp_graph_dot(g);
                drawn = dot ? drawn + 1 : 0;
                assert_int_equal(tp_error(tp), dot ? TP_OK : TP_E_MEMORY);
            } else {
                const tp_status s = tp_graph_verify(g);
                checked = s == TP_OK ? checked + 1 : 0;
                assert_int_equal(s, checked ? TP_OK : TP_E_MEMORY);
            }
            tp_close(tp);
            assert_int_equal(m.bytes, 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(drawings), CASE(labels), CASE(out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
