/* Bodies of blocks in texts and files: read back as they were, and refused where a rule is
 * broken, however deep. */
#include "ir/notation.h"
#include "ir_sample.h"

#include <unistd.h>

static const char base[] =
    "tapir 1\n"
    "symbols n turns\n"
    "@0 \"w\" = param : f32[2,2]\n"
    "%0 \"xs\" = placeholder : f32[n,1,2] ; net.c:3\n"
    "%1 \"h\" = placeholder : f32[1,2] ; net.c:4\n"
    "%2 \"w\" = variable @0 : f32[2,2] ; net.c:7\n"
    "%3 = loop %1, %0, %2 {body=(1), carried=1, slices=1, stacked=1, counted=true, "
    "count=n, length=n} : bool[] ; net.c:6\n"
    "  (1) body ; net.c:6\n"
    "    %1.0 = param {index=0} : i64[] <- turn ; net.c:6\n"
    "    %1.1 = param {index=1} : f32[1,2] <- carried %1 ; net.c:6\n"
    "    %1.2 = param {index=3} : f32[2,2] <- %2 ; net.c:7\n"
    "    %1.3 = param {index=2} : f32[1,2] <- slice %0 ; net.c:7\n"
    "    %1.4 = matmul %1.3, %1.2 : f32[1,2] ; net.c:7\n"
    "    %1.5 = mean %1.4 {axes=[0,1], keep=false} : f32[] ; net.c:8\n"
    "    %1.6 \"half\" = const 0.5 : f32[] ; net.c:8\n"
    "    %1.7 = gt %1.5, %1.6 : bool[] constant ; net.c:8\n"
    "    %1.8 = cond %1.7, %1.4 {then=(2), other=(3)} : bool[] ; net.c:8\n"
    "      (2) then ; net.c:8\n"
    "        %2.0 = param {index=0} : f32[1,2] <- %1.4 ; net.c:9\n"
    "        %2.1 \"half\" = relu %2.0 : f32[1,2] ; net.c:9\n"
    "        give %2.1\n"
    "      (3) other\n"
    "        %3.0 = const #0 : f32[20] ; net.c:11\n"
    "        %3.1 = param {index=0} : f32[1,2] <- %1.4 ; net.c:11\n"
    "        give %3.1\n"
    "    %1.9 = output %1.8 {index=0} : f32[1,2] ; net.c:8\n"
    "    %1.10 = add %1.9, %1.1 : f32[1,2] ; net.c:12\n"
    "    carry %1.10\n"
    "    stack %1.1\n"
    "%4 \"last\" = output %3 {index=0} : f32[1,2] ; net.c:6\n"
    "%5 \"all\" = output %3 {index=1} : f32[n,1,2] ; net.c:6\n"
    "%6 = const true : bool[] ; net.c:15\n"
    "%7 = loop %6, %4, %4 {body=(4), carried=2, stacked=1, pred=true, length=turns, "
    "checkpoint=true} : bool[] ; net.c:15\n"
    "  (4) body ; \"odd name.c\":-3\n"
    "    %4.0 = param {index=1} : f32[1,2] <- carried %4 ; net.c:15\n"
    "    %4.1 = param {index=2} : f32[1,2] <- carried %4 ; net.c:15\n"
    "    %4.2 = const #1 : bool[17]\n"
    "    %4.3 = const false : bool[]\n"
    "    %4.4 = param {index=0} : i64[] <- turn ; net.c:15\n"
    "    while %4.3\n"
    "    carry %4.1, %4.0\n"
    "    stack %4.4\n"
    "%8 \"trail\" = output %7 {index=2} : i64[turns] ; net.c:15\n"
    "outputs %4, %5, %8\n";

/* `base` with the first `from` after `after` replaced; freed by the caller. */
static char *changed(const char *after, const char *from, const char *to)
{
    const char *start = strstr(base, after), *at = start ? strstr(start, from) : NULL;
    if (!at)
        fail_msg("\"%s\", \"%s\" is not in the text", after, from);
    char *text = malloc(sizeof base + strlen(to));
    const size_t head = (size_t)(at - base);
    memcpy(text, base, head);
    strcpy(text + head, to);
    strcat(text, at + strlen(from));
    return text;
}

static tp_graph *read_text(tp_ctx *tp, const char *text)
{
    tp_graph *g = tp_graph_parse(tp, text, strlen(text));
    if (!g)
        fail_msg("%s", tp_error_message(tp));
    if (tp_graph_verify(g) != TP_OK)
        fail_msg("%s", tp_error_message(tp));
    return g;
}

static void reads_back(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = read_text(tp, base);
    char *text = tp_graph_text(g);
    assert_string_equal(text, base);
    tp_free(tp, text);
    const tpi_loop_attrs *a = g->nodes[3]->attrs;
    const tpi_body *b = a->body;
    assert_ptr_equal(b->graph->parent, g);
    assert_int_equal(b->n_params, 4);
    assert_int_equal(b->params[2]->index, 3);
    assert_int_equal(b->params[3]->index, 2);
    assert_int_equal(b->outputs[0]->index, 10);
    assert_int_equal(b->outputs[1]->index, 1);
    assert_true(b->graph->nodes[7]->flags & TPI_CONSTANT);
    /* Names are of their body; outside, only what is outside is found. */
    assert_null(tpi_graph_by_name(g, "half", 4));
    assert_non_null(tpi_graph_by_name(b->graph, "half", 4));
    assert_true(tp_failed(tp_graph_find(g, "half")));
    tp_clear_error(tp);
    assert_int_equal(tp_graph_n_inputs(g), 2);
    assert_int_equal(tp_graph_n_outputs(g), 3);
    assert_int_equal(tp_graph_n_variables(g), 1);
    assert_string_equal(tp_graph_nth_variable(g, 0)->name, "w");
    /* A body stands in a text of its own, but is no graph for itself. */
    text = tp_graph_text(b->graph);
    assert_non_null(strstr(text, "%3 = param {index=2} : f32[1,2] ; net.c:7\n"));
    assert_null(tp_graph_parse(tp, text, strlen(text)));
    EXPECT_ERROR(tp, TP_E_FORMAT, "only a body has params");
    tp_free(tp, text);
    assert_int_equal(tp_graph_save(b->graph, "body.tapir"), TP_E_STATE);
    EXPECT_ERROR(tp, TP_E_STATE,
                 "the graph is the body of a block: save the graph that the block is in");
    tp_name(g->nodes[3], "block");
    assert_int_equal(tp_graph_set_outputs(g, 1, &g->nodes[3]), TP_E_VALUE);
    EXPECT_ERROR(tp, TP_E_VALUE, "output 0 is a block, which is read through its outputs");
}

static void refusals(void **state)
{
    /* clang-format off */
    static const struct {
        const char *after, *from, *to, *error;
    } cases[] = {
        {"(1) body", "(1)", "(2)", "the next body is (1)"},
        {"%3 = loop", "body=(1)", "body=(2)", "the next body is (1)"},
        {"%3 = loop", "body=(1)", "body=1", "'(' is missing"},
        {"(1) body", "body", "then", "this is the block's \"body\""},
        {"      (3) other", "(3)", "", "body (3) is missing"},
        {"      (3) other", "other", "then", "this is the block's \"other\""},
        {"%1.0 = ", "%1.0", "%0",
         "\"carry\" and what the body gives are missing, or its next node, %1.0"},
        {"%1.0 = ", "%1.0", "%1.1", "the next of these lines is %1.0"},
        {"%1.0 = ", "<- turn", "", "\"<-\" and what the param takes are missing"},
        {"%1.0 = ", "<- turn", "<- %1", "this is the block's turn"},
        {"%1.1 = ", "carried %1", "slice %1", "this is the block's carried"},
        {"%1.1 = ", "carried %1", "carried %0", "the block's operand 0 is another node"},
        {"%1.1 = ", "carried %1", "carried %1.0", "the line should end here"},
        {"%1.2 = ", "index=3", "index=4", "the block takes 3 operands, none for param 4"},
        {"%1.2 = ", "index=3", "index=-1", "a param has an index"},
        {"%1.2 = ", "index=3", "index=9223372036854775807", "none for param"},
        {"%4.4 = ", "index=0} : i64[] <- turn", "index=2} : f32[1,2] <- carried %4",
         "params have the indices 0, 1 and so on, each once"},
        {"%4.0 = ", "f32[1,2] <-", "f32[2,2] <-",
         "operand 1, f32 [1, 2], is not what the block takes: f32 [2, 2]"},
        {"%1.4 = ", "%1.3", "%3", "nodes of this body are %1.0, %1.1 and so on"},
        {"%1.4 = ", "%1.3", "%2.3", "nodes of this body are %1.0, %1.1 and so on"},
        {"%1.4 = ", "%1.3", "%1", "'.' is missing"},
        {"%1.4 = ", "%1.3", "%1.4", "no node %4 comes before this line"},
        {"%1.4 = ", "%1.3", "%1.-1", "comes before this line"},
        {"%1.6 ", "const 0.5", "variable @0", "a body has no variable"},
        {"%1.6 ", "const 0.5", "placeholder", "a body has no placeholder"},
        {"%1.10 = ", "add", "assign", "a body has no assign"},
        {"%1.10 = ", "%1.9", "%1.8", "operand 0 is a block"},
        {"%1.9 = ", "index=0", "index=1", "output 1 is not one of the block's 1"},
        {"%1.9 = ", "%1.8", "%1.7", "operand 0 is no block"},
        {"%1.10 = ", "carry %1.10", "give %1.10", "\"carry\" and what the body gives"},
        {"%1.10 = ", "carry %1.10", "carry %1.8", "a block is read through its outputs"},
        {"%1.10 = ", "carry %1.10", "carry %1.11", "no node %1.11 is in this body"},
        {"%1.10 = ", "carry %1.10", "carry %10", "nodes of this body are %1.0"},
        {"%1.10 = ", "carry %1.10", "carry %1.10, %1.1", "2 values are given here, not 1"},
        {"%1.10 = ", "carry %1.10", "carry %1.7",
         "goes in as f32 [1, 2] and comes out as bool"},
        {"%1.10 = ", "    stack %1.1\n", "", "\"stack\" and what the body gives"},
        {"%2.1 ", "give %2.1", "give", "the sides give 0 and 1 outputs"},
        {"%2.1 ", "give %2.1", "give %2.1, %2.0", "the sides give 2 and 1 outputs"},
        {"%2.1 ", "    give %2.1\n", "", "\"give\" and what the body gives"},
        {"%3.1 = ", "param {index=0} : f32[1,2] <- %1.4", "const [0, 0] : f32[1,2]",
         "1 operands for 1 and 0 params"},
        {"%3 = loop", "carried=1", "carried=-1", "is absurd"},
        {"%3 = loop", ", carried=1", "", "this is the block's slice"},
        {"%3 = loop", "carried=1", "carried=0", "attribute carried is zero, and is left out"},
        {"%3 = loop", "carried=1", "carried=-9223372036854775808", "is absurd"},
        {"%3 = loop", "carried=1", "carried=9223372036854775807", "is absurd"},
        {"%3 = loop", "carried=1", "carried=2147483647", "this is the block's carried"},
        {"%3 = loop", ", slices=1", "", "the number of a node are missing"},
        {"%3 = loop", "stacked=1", "stacked=2", "1 values are given here, not 2"},
        {"%3 = loop", "counted", "pred=true, counted", "operand 1 is another node"},
        {"%3 = loop", ", counted=true", "", "it has no condition and no count"},
        {"%3 = loop", "length=n", "length=turns", "length is not count"},
        {"%3 = loop", "%1, %0, %2", "%1, %0", "the block takes 2 operands, none for param 3"},
        {"%7 = loop", "length=turns", "length=5", "length is no symbol of its own"},
        {"%7 = loop", "while %4.3", "while %4.2", "the condition is not one bool"},
        {"%7 = loop", "while %4.3", "while", "0 values are given here, not 1"},
        {"%7 = loop", "length", "back=true, length", "need a count"},
        {"outputs", "%4,", "%3,", "an output is a line with a name"},
        {"%3 = loop", "counted=true", "counted=true, pred=true", "no such attribute, or not here"},
        {"%3 = loop", "counted=true", "counted=true, speed=3", "no such attribute"},
        {"%3 = loop", "counted=true", "counted=false", "counted is zero"},
        {"%1.8 = ", "then=(2), ", "", "attribute then of cond is missing"},
        {"symbols", "f32[n,1,2]", "f32[turns,1,2]", "is not what the block takes"},
    };
    /* clang-format on */
    tp_ctx *tp = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = changed(cases[i].after, cases[i].from, cases[i].to);
        const tp_graph *g = tp_graph_parse(tp, text, strlen(text));
        if (g || tp_error(tp) != TP_E_FORMAT || !strstr(tp_error_message(tp), cases[i].error))
            fail_msg("case %zu: %s -> %s gave: %s\nnot: %s", i, cases[i].from, cases[i].to,
                     tp_error_message(tp), cases[i].error);
        tp_clear_error(tp);
        free(text);
    }
}

/* Every line without one of its bytes, or not there: refused, or a graph by all rules. */
static void spoiled(void **state)
{
    tp_ctx *tp = *state;
    char *text = malloc(sizeof base);
    int graphs = 0;
    for (size_t at = 0; at + 1 < sizeof base; at++) {
        for (int whole = 0; whole < 2; whole++) { /* a byte, or the rest of the line */
            const size_t n = whole ? strcspn(base + at, "\n") + 1 : 1;
            memcpy(text, base, at);
            memcpy(text + at, base + at + n, sizeof base - at - n);
            tp_graph *g = tp_graph_parse(tp, text, strlen(text));
            if (g ? tp_graph_verify(g) != TP_OK : tp_error(tp) != TP_E_FORMAT)
                fail_msg("byte %zu: %s\n%s", at, tp_error_message(tp), text);
            graphs += g != NULL;
            tp_graph_free(g);
            tp_clear_error(tp);
        }
    }
    print_message("%d texts with something less are graphs all the same\n", graphs);
    free(text);
}

/* Loops in loops, `depth` of them, and nothing behind the innermost one. */
static char *nested(int depth)
{
    char *text = malloc((size_t)depth * 300 + 100), *p = text;
    p += sprintf(p, "tapir 1\n%%0 = const true : bool[]\n");
    for (int k = 1; k <= depth; k++) {
        char outer[32], own[32];
        snprintf(outer, sizeof outer, k == 1 ? "%%0" : "%%%d.0", k - 1);
        snprintf(own, sizeof own, k == 1 ? "%%1" : "%%%d.1", k - 1);
        p += sprintf(p,
                     "%s = loop %s {body=(%d), carried=1, counted=true, count=2} : bool[]\n"
                     "(%d) body\n"
                     "%%%d.0 = param {index=1} : bool[] <- carried %s\n",
                     own, outer, k, k, k, outer);
    }
    for (int k = depth; k >= 1; k--)
        p += sprintf(p, "%%%d.%d = param {index=0} : i64[] <- turn\ncarry %%%d.0\n", k,
                     k == depth ? 1 : 2, k);
    return text;
}

static void depth(void **state)
{
    tp_ctx *tp = *state;
    char *text = nested(TPI_MAX_NESTING);
    tp_graph *g = read_text(tp, text);
    char *dot = tp_graph_dot(g);
    assert_non_null(dot);
    tp_free(tp, dot);
    free(text);
    const int more[] = {TPI_MAX_NESTING + 1, 20000};
    for (int i = 0; i < 2; i++) {
        text = nested(more[i]);
        assert_null(tp_graph_parse(tp, text, strlen(text)));
        EXPECT_ERROR(tp, TP_E_FORMAT, "bodies nest deeper than 64");
        free(text);
    }
    tp_graph *inner = tp_graph_new(tp);
    for (int i = 0; i < TPI_MAX_NESTING; i++) {
        tpi_body *b = tpi_body_new(inner, TPI_AT("net.c", i));
        assert_non_null(b);
        inner = b->graph;
    }
    assert_null(tpi_body_new(inner, TPI_AT(__FILE__, 7)));
    EXPECT_ERROR(tp, TP_E_STATE, "blocks nest deeper than 64");
}

/* What was saved and loaded gives the bits of what was built. */
static void runs_as_before(void **state)
{
    tp_ctx *tp = *state;
    char path[] = "/var"
                  "/tmp/tapir-bodies-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    tp_graph *g = sample_blocks(tp);
    assert_int_equal(tp_graph_save(g, path), TP_OK);
    tp_graph *graphs[] = {g, tp_graph_load(tp, path)};
    unlink(path);
    if (!graphs[1])
        fail_msg("%s", tp_error_message(tp));
    const char *const in[] = {"xs", "h"}, *const out[] = {"last", "all", "trail", "count"};
    tp_tensor *feeds[] = {sample_data(tp, TP_F32, TP_DIMS(3, 2, 4)),
                          sample_data(tp, TP_F32, TP_DIMS(2, 4))};
    tp_tensor *y[2][4];
    for (int k = 0; k < 2; k++) {
        tp_program *p = tp_graph_compile(graphs[k], 2, in, 4, out,
                                         &(tp_compile_options){.engine = TP_ENGINE_REFERENCE});
        if (!p || tp_program_run(p, feeds, y[k]) != TP_OK)
            fail_msg("%s", tp_error_message(tp));
        tp_program_free(p);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(tpi_bytes(y[0][i]), tpi_bytes(y[1][i]));
        assert_memory_equal(y[0][i]->data, y[1][i]->data, tpi_bytes(y[0][i]));
    }
}

/* A text that is read inside an open block is no part of it. */
static void read_in_a_block(void **state)
{
    static const char text[] = "tapir 1\n"
                               "@0 \"v\" = state : f32[2]\n"
                               "%0 = variable @0 : f32[2]\n"
                               "%1 = neg %0 : f32[2] ; net.c:1\n"
                               "%2 = assign %0, %1 : f32[2] ; net.c:2\n";
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(2));
    tp_for (3, &x) {
        tp_graph *h = read_text(tp, text);
        char *again = tp_graph_text(h);
        assert_string_equal(again, text);
        tp_free(tp, again);
        x = tp_neg(x);
    }
    assert_int_equal(tp_error(tp), TP_OK);
    assert_int_equal(tp_graph_verify(g), TP_OK);
    assert_false(tp_failed(x));
}

/* With the n-th allocation failing, for every n. */
static void out_of_memory(void **state)
{
    (void)state;
    for (long n = 1;; n++) {
        unit_memory m = {0};
        tp_ctx *tp = unit_open(&m);
        m.fail_at = m.calls + n;
        tp_graph *g = tp_graph_parse(tp, base, strlen(base));
        char *text = g ? tp_graph_text(g) : NULL;
        const bool done = text != NULL;
        assert_int_equal(tp_error(tp), done ? TP_OK : TP_E_MEMORY);
        tp_free(tp, text);
        tp_close(tp);
        assert_int_equal(m.bytes, 0);
        if (done)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(reads_back),     CASE(refusals),        CASE(spoiled),       CASE(depth),
        CASE(runs_as_before), CASE(read_in_a_block), CASE(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
