/* Models from anyone: what is cut, wrong, cyclic, absurd or sly is an error and nothing else. */
#include "common/unit.h"
#include "onnx_bytes.h"
#include "tapir/onnx.h"
#include "tapir/tapir.h"

#include <sys/stat.h>
#include <unistd.h>

static const int64_t two = 2, four[2] = {2, 2};
static char folder[64];

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const void *data, size_t size)
{
    FILE *f = fopen(path_of(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

/* The model is freed. */
static tp_graph *load(tp_ctx *tp, bytes m, const char *from)
{
    tp_graph *g = tp_onnx_load_bytes(tp, m.at, m.size, from, NULL);
    free(m.at);
    return g;
}

/* x [2] -> Relu -> y, with more put in by the caller. */
static bytes relu_graph(void)
{
    bytes g = {0};
    put_message(&g, TPI_PB_GRAPH_INPUT, value("x", TPI_PB_F32, 1, &two, NULL));
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value("y", TPI_PB_F32, 1, &two, NULL));
    put_message(&g, TPI_PB_GRAPH_NODE, node("Relu", NAMES("x"), NAMES("y")));
    return g;
}

static void refused(tp_ctx *tp, bytes m, const char *from, tp_status status, const char *text)
{
    tp_graph *g = load(tp, m, from);
    const char *message = tp_error_message(tp);
    if (g || tp_error(tp) != status || !strstr(message, text))
        fail_msg("expected %s \"%s\", got %s \"%s\"", tp_status_name(status), text,
                 tp_status_name(tp_error(tp)), message);
    tp_clear_error(tp);
}

/* ---- cut and changed ---------------------------------------------------------------------------- */

/* Something of everything: an initializer, a function, branches, a free dimension. */
static bytes rich_model(void)
{
    static const float weights[4] = {1, -2, 3, -4};
    static const char yes = 1;
    bytes g = {0}, branch = {0}, other = {0}, f = {0}, choose;
    put_message(&branch, TPI_PB_GRAPH_NODE, node("Neg", NAMES("t"), NAMES("u")));
    put_message(&branch, TPI_PB_GRAPH_OUTPUT, value("u", TPI_PB_F32, 2, four, NULL));
    put_message(&other, TPI_PB_GRAPH_NODE, node("Abs", NAMES("t"), NAMES("v")));
    put_message(&other, TPI_PB_GRAPH_OUTPUT, value("v", TPI_PB_F32, 2, four, NULL));
    put_message(&g, TPI_PB_GRAPH_INPUT,
                value("x", TPI_PB_F32, 2, (const int64_t[]){-1, 2}, "batch"));
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value("y", TPI_PB_F32, 0, NULL, NULL));
    put_message(&g, TPI_PB_GRAPH_INITIALIZER,
                tensor("w", TPI_PB_F32, 2, (const int64_t[]){1, 2}, weights, 8));
    put_message(&g, TPI_PB_GRAPH_INITIALIZER, tensor("c", TPI_PB_BOOL, 0, NULL, &yes, 1));
    put_message(&g, TPI_PB_GRAPH_NODE, node("Mul", NAMES("x", "w"), NAMES("t")));
    choose = node("If", NAMES("c"), NAMES("s"));
    put_message(&choose, TPI_PB_NODE_ATTRIBUTE, attr_graph("then_branch", branch));
    put_message(&choose, TPI_PB_NODE_ATTRIBUTE, attr_graph("else_branch", other));
    put_message(&g, TPI_PB_GRAPH_NODE, choose);
    bytes call = node("Twice", NAMES("s"), NAMES("y"));
    put_text(&call, TPI_PB_NODE_DOMAIN, "own");
    put_message(&g, TPI_PB_GRAPH_NODE, call);
    bytes m = model(g);
    put_text(&f, TPI_PB_FUNCTION_NAME, "Twice");
    put_text(&f, TPI_PB_FUNCTION_DOMAIN, "own");
    put_text(&f, TPI_PB_FUNCTION_INPUT, "a");
    put_text(&f, TPI_PB_FUNCTION_OUTPUT, "b");
    put_message(&f, TPI_PB_FUNCTION_NODE, node("Add", NAMES("a", "a"), NAMES("b")));
    import_opset(&f, TPI_PB_FUNCTION_OPSET_IMPORT, "", 17);
    import_opset(&m, TPI_PB_MODEL_OPSET_IMPORT, "own", 1);
    put_message(&m, TPI_PB_MODEL_FUNCTIONS, f);
    return m;
}

static void rich_model_runs(void **state)
{
    tp_ctx *tp = *state;
    const float x[2] = {5, 6}, want[2] = {-10, 24};
    tp_graph *g = load(tp, rich_model(), NULL);
    if (!g)
        fail_msg("%s", tp_error_message(tp));
    tp_tensor *in = tp_tensor_new(tp, TP_F32, 2, (const int64_t[]){1, 2}, x), *y;
    assert_int_equal(tp_graph_n_inputs(g), 1);
    assert_string_equal(tp_name_of(tp_graph_output(g, 0)), "y");
    assert_int_equal(tp_graph_run(g, TP_FEEDS({"x", in}), TP_NAMES("y"), &y), TP_OK);
    assert_memory_equal(tp_data(y), want, sizeof want);
    assert_non_null(tp_graph_variable(g, "w"));
    assert_true(tp_requires_grad(tp_graph_variable(g, "w")));
}

/* Blocks: a Loop with a fed count that stacks, in it an If on what it carries, and a Scan. */
static bytes block_model(void)
{
    static const int64_t one = 1;
    bytes g = {0}, yes = {0}, no = {0}, body = {0}, step = {0};
    put_message(&yes, TPI_PB_GRAPH_NODE, node("Neg", NAMES("v"), NAMES("n")));
    put_message(&yes, TPI_PB_GRAPH_OUTPUT, value("n", TPI_PB_F32, 1, &one, NULL));
    put_message(&no, TPI_PB_GRAPH_NODE, node("Add", NAMES("v", "s"), NAMES("a")));
    put_message(&no, TPI_PB_GRAPH_OUTPUT, value("a", TPI_PB_F32, 1, &one, NULL));
    bytes choose = node("If", NAMES("q"), NAMES("w"));
    put_message(&choose, TPI_PB_NODE_ATTRIBUTE, attr_graph("then_branch", yes));
    put_message(&choose, TPI_PB_NODE_ATTRIBUTE, attr_graph("else_branch", no));
    put_message(&body, TPI_PB_GRAPH_INPUT, value("i", TPI_PB_I64, 0, NULL, NULL));
    put_message(&body, TPI_PB_GRAPH_INPUT, value("c", TPI_PB_BOOL, 0, NULL, NULL));
    put_message(&body, TPI_PB_GRAPH_INPUT, value("v", TPI_PB_F32, 1, &one, NULL));
    put_message(&body, TPI_PB_GRAPH_NODE, node("ReduceSum", NAMES("v"), NAMES("r")));
    put_message(&body, TPI_PB_GRAPH_NODE, node("Less", NAMES("r", "s"), NAMES("q1")));
    put_message(&body, TPI_PB_GRAPH_NODE, node("Squeeze", NAMES("q1"), NAMES("q")));
    put_message(&body, TPI_PB_GRAPH_NODE, choose);
    put_message(&body, TPI_PB_GRAPH_NODE, node("Identity", NAMES("c"), NAMES("d")));
    for (int k = 0; k < 3; k++)
        put_message(
            &body, TPI_PB_GRAPH_OUTPUT,
            value(k == 0 ? "d" : "w", k == 0 ? TPI_PB_BOOL : TPI_PB_F32, k > 0, &one, NULL));
    bytes loop = node("Loop", NAMES("m", "", "s"), NAMES("last", "all"));
    put_message(&loop, TPI_PB_NODE_ATTRIBUTE, attr_graph("body", body));
    put_message(&step, TPI_PB_GRAPH_INPUT, value("u", TPI_PB_F32, 1, &one, NULL));
    put_message(&step, TPI_PB_GRAPH_INPUT, value("e", TPI_PB_F32, 1, &one, NULL));
    put_message(&step, TPI_PB_GRAPH_NODE, node("Add", NAMES("u", "e"), NAMES("f")));
    put_message(&step, TPI_PB_GRAPH_NODE, node("Mul", NAMES("f", "s"), NAMES("h")));
    put_message(&step, TPI_PB_GRAPH_OUTPUT, value("f", TPI_PB_F32, 1, &one, NULL));
    put_message(&step, TPI_PB_GRAPH_OUTPUT, value("h", TPI_PB_F32, 1, &one, NULL));
    bytes scan = node("Scan", NAMES("last", "all"), NAMES("sum", "y"));
    put_message(&scan, TPI_PB_NODE_ATTRIBUTE, attr_graph("body", step));
    put_message(&scan, TPI_PB_NODE_ATTRIBUTE, attr_int("num_scan_inputs", 1));
    put_message(&g, TPI_PB_GRAPH_INPUT, value("s", TPI_PB_F32, 1, &one, NULL));
    put_message(&g, TPI_PB_GRAPH_INPUT, value("m", TPI_PB_I64, 0, NULL, NULL));
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value("y", TPI_PB_F32, 0, NULL, NULL));
    put_message(&g, TPI_PB_GRAPH_NODE, loop);
    put_message(&g, TPI_PB_GRAPH_NODE, scan);
    return model(g);
}

static void block_model_runs(void **state)
{
    tp_ctx *tp = *state;
    static const float s[] =
        {
            2, -1, 5
    },
                       want[][3] = {{24, 36, 52}, {1, -1, -2}};
    tp_graph *g = load(tp, block_model(), NULL);
    if (!g)
        fail_msg("%s", tp_error_message(tp));
    assert_int_equal(tp_graph_verify(g), TP_OK);
    tp_tensor *all = tp_sum(tp_graph_output(g, 0), TP_ALL, false); /* 28 s^2, -2 s^2 */
    tp_name(tp_grad(all, tp_graph_input(g, 0)), "ds");
    static const float slopes[] = {112, 4, 0};
    for (int i = 0; i < 3; i++) {
        const int64_t turns = i < 2 ? 3 : -1; /* none */
        tp_tensor *x = tp_tensor_new(tp, TP_F32, TP_DIMS(1), &s[i]),
                  *m = tp_tensor_new(tp, TP_I64, TP_SCALAR, &turns), *y[2];
        assert_int_equal(tp_graph_run(g, TP_FEEDS({"s", x}, {"m", m}), TP_NAMES("y", "ds"), y),
                         TP_OK);
        assert_int_equal(tp_count(y[0]), i < 2 ? 3 : 0);
        if (i < 2)
            assert_memory_equal(tp_data(y[0]), want[i], sizeof want[i]);
        assert_true(*(const float *)tp_data(y[1]) == slopes[i]);
    }
}

static void truncated_model(tp_ctx *tp, bytes m)
{
    int loaded = 0;
    for (size_t n = 0; n < m.size; n++) {
        char *copy = malloc(n + 1); /* so that a sanitizer sees a read beyond it */
        assert_non_null(copy);
        memcpy(copy, m.at, n);
        tp_graph *g = tp_onnx_load_bytes(tp, copy, n, NULL, NULL);
        if (g ? tp_graph_verify(g) != TP_OK : tp_error(tp) == TP_OK)
            fail_msg("cut at %zu: a graph that is wrong, or no reason", n);
        loaded += g != NULL;
        tp_graph_free(g);
        tp_clear_error(tp);
        free(copy);
    }
    assert_true(loaded < 3);
    free(m.at);
}

static void truncated(void **state)
{
    truncated_model(*state, rich_model());
    truncated_model(*state, block_model());
}

static void change_each_byte(tp_ctx *tp, bytes m)
{
    for (size_t i = 0; i < m.size; i++)
        for (int bit = 0; bit < 8; bit++) {
            m.at[i] = (char)(m.at[i] ^ (1 << bit));
            tp_graph *g = tp_onnx_load_bytes(tp, m.at, m.size, NULL, NULL);
            if (g ? tp_graph_verify(g) != TP_OK : tp_error(tp) == TP_OK)
                fail_msg("byte %zu, bit %d: a graph that is wrong, or no reason: %s", i, bit,
                         tp_error_message(tp));
            assert_int_not_equal(tp_error(tp), TP_E_BUG);
            tp_graph_free(g);
            tp_clear_error(tp);
            m.at[i] = (char)(m.at[i] ^ (1 << bit));
        }
    free(m.at);
}

static void each_byte_changed(void **state)
{
    change_each_byte(*state, rich_model());
    change_each_byte(*state, block_model());
}

/* ---- attributes ------------------------------------------------------------------------------------ */

/* What an operator does not have, or not so, is refused; what the writer of a model notes for itself is not. */
static void attributes(void **state)
{
    static const struct {
        const char *op, *name, *text; /* text NULL: an int, 8 */
        const char *refusal;          /* NULL: none */
    } tries[] = {
        {"LeakyRelu",    "beta",   NULL,  "LeakyRelu (node \"\", opset 17): attribute \"beta\""},
        {"LeakyRelu",    "alpha",  NULL,  "attribute alpha is no float"                        },
        {"LeakyRelu",    "_alpha", NULL,  NULL                                                 },
        {"DepthToSpace", "mode",   "ABC", "mode \"ABC\" is not supported"                      },
        {"Squeeze",      "axes",   NULL,  "attribute axes is operand 1 in this operator set"   },
        {"Cast",         "to",     NULL,  "element type string is not supported"               },
        {"EyeLike",      "dtype",  NULL,  "element type string is not supported"               },
        {"Softmax",      "axis",   NULL,  "axis 8 is out of range for rank 1"                  },
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        bytes n = node(tries[i].op, NAMES("x"), NAMES("z")), g = relu_graph();
        put_message(&n, TPI_PB_NODE_ATTRIBUTE,
                    tries[i].text ? attr_text(tries[i].name, tries[i].text)
                                  : attr_int(tries[i].name, 8));
        put_message(&g, TPI_PB_GRAPH_NODE, n);
        if (tries[i].refusal)
            refused(*state, model(g), NULL, TP_E_VALUE, tries[i].refusal);
        else
            tp_graph_free(load(*state, model(g), NULL));
    }
    assert_int_equal(tp_error(*state), TP_OK);
}

/* ---- graphs that are none -------------------------------------------------------------------------- */

static void cycles_and_missing(void **state)
{
    tp_ctx *tp = *state;
    bytes g = {0};
    put_message(&g, TPI_PB_GRAPH_NODE, node("Neg", NAMES("b"), NAMES("a")));
    put_message(&g, TPI_PB_GRAPH_NODE, node("Neg", NAMES("a"), NAMES("b")));
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value("b", TPI_PB_F32, 1, &two, NULL));
    refused(tp, model(g), NULL, TP_E_FORMAT, "reads \"b\", which only a later node gives");

    g = (bytes){0};
    put_message(&g, TPI_PB_GRAPH_NODE, node("Neg", NAMES("a"), NAMES("a")));
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value("a", TPI_PB_F32, 1, &two, NULL));
    refused(tp, model(g), NULL, TP_E_FORMAT, "reads \"a\", which nothing gives");

    g = relu_graph();
    put_message(&g, TPI_PB_GRAPH_NODE, node("Neg", NAMES("x"), NAMES("y")));
    refused(tp, model(g), NULL, TP_E_FORMAT, "\"y\" is given to two values");

    g = relu_graph();
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value("z", TPI_PB_F32, 1, &two, NULL));
    refused(tp, model(g), NULL, TP_E_FORMAT, "nothing gives the output \"z\"");

    g = relu_graph();
    put_message(&g, TPI_PB_GRAPH_NODE, node("Add", NAMES("x"), NAMES("z")));
    refused(tp, model(g), NULL, TP_E_VALUE, "Add (node \"\", opset 17): input 1 is missing");

    g = relu_graph();
    put_message(&g, TPI_PB_GRAPH_NODE, node("Foo", NAMES("x"), NAMES("z")));
    put_message(&g, TPI_PB_GRAPH_NODE, node("Bar", NAMES("x"), NAMES("w")));
    refused(tp, model(g), NULL, TP_E_VALUE,
            "operator Foo (node \"\", opset 17) is not supported, nor are: Bar");

    refused(tp, (bytes){calloc(1, 1), 0, 0}, NULL, TP_E_FORMAT, "this is no ONNX model");
}

/* A function that calls itself, and functions that call each other twice: 2^40 nodes. */
static void deep_functions(void **state)
{
    tp_ctx *tp = *state;
    for (int kind = 0; kind < 2; kind++) {
        bytes g = {0};
        put_message(&g, TPI_PB_GRAPH_INPUT, value("x", TPI_PB_F32, 1, &two, NULL));
        bytes call = node("f0", NAMES("x"), NAMES("y"));
        put_text(&call, TPI_PB_NODE_DOMAIN, "own");
        put_message(&g, TPI_PB_GRAPH_NODE, call);
        put_message(&g, TPI_PB_GRAPH_OUTPUT, value("y", TPI_PB_F32, 1, &two, NULL));
        bytes m = model(g);
        for (int i = 0; i < (kind ? 40 : 1); i++) {
            char own[16], next[16];
            snprintf(own, sizeof own, "f%d", i);
            snprintf(next, sizeof next, "f%d", kind ? i + 1 : i);
            bytes f = {0};
            put_text(&f, TPI_PB_FUNCTION_NAME, own);
            put_text(&f, TPI_PB_FUNCTION_DOMAIN, "own");
            put_text(&f, TPI_PB_FUNCTION_INPUT, "a");
            put_text(&f, TPI_PB_FUNCTION_OUTPUT, "c");
            for (int k = 0; k < 2; k++) {
                bytes n = kind && i == 39
                              ? node("Neg", NAMES(k ? "b" : "a"), NAMES(k ? "c" : "b"))
                              : node(next, NAMES(k ? "b" : "a"), NAMES(k ? "c" : "b"));
                if (!kind || i < 39)
                    put_text(&n, TPI_PB_NODE_DOMAIN, "own");
                put_message(&f, TPI_PB_FUNCTION_NODE, n);
            }
            import_opset(&f, TPI_PB_FUNCTION_OPSET_IMPORT, "", 17);
            put_message(&m, TPI_PB_MODEL_FUNCTIONS, f);
        }
        refused(tp, m, NULL, TP_E_VALUE, kind ? "the model becomes more than" : "deep");
    }
}

static void deep_branches(void **state)
{
    tp_ctx *tp = *state;
    static const char yes = 1;
    bytes branch = {0};
    put_message(&branch, TPI_PB_GRAPH_NODE, node("Neg", NAMES("x"), NAMES("y")));
    put_message(&branch, TPI_PB_GRAPH_OUTPUT, value("y", TPI_PB_F32, 1, &two, NULL));
    for (int i = 0; i < 100; i++) {
        bytes n = node("If", NAMES("c"), NAMES("y")), outer = {0};
        put_message(&n, TPI_PB_NODE_ATTRIBUTE, attr_graph("then_branch", branch));
        put_message(&n, TPI_PB_NODE_ATTRIBUTE, attr_graph("else_branch", (bytes){0}));
        put_message(&outer, TPI_PB_GRAPH_NODE, n);
        put_message(&outer, TPI_PB_GRAPH_OUTPUT, value("y", TPI_PB_F32, 1, &two, NULL));
        branch = outer;
    }
    put_message(&branch, TPI_PB_GRAPH_INITIALIZER, tensor("c", TPI_PB_BOOL, 0, NULL, &yes, 1));
    put_message(&branch, TPI_PB_GRAPH_INPUT, value("x", TPI_PB_F32, 1, &two, NULL));
    refused(tp, model(branch), NULL, TP_E_VALUE, "branches lie in branches more than 64 deep");
}

/* ---- absurd sizes ------------------------------------------------------------------------------------ */

static void absurd_sizes(void **state)
{
    tp_ctx *tp = *state;
    const int64_t huge[2] = {INT64_C(1) << 40, INT64_C(1) << 40}, minus = -1, large = 1 << 30;
    const char data[8] = {0};
    const struct {
        int rank;
        const int64_t *dims;
        size_t size;
        const char *text;
    } tries[] = {
        {2, huge,                                         8, "has a size of 1099511627776 on axis 1"},
        {1, &minus,                                       8, "has a size of -1 on axis 0"           },
        {1, &large,                                       8, "does not have the 1073741824 elements"},
        {1, &two,                                         7, "does not have the 2 elements"         },
        {0, NULL,                                         0, "does not have the 1 elements"         },
        {9, (const int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1}, 4, "more than 8 axes"                     },
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        bytes g = relu_graph();
        put_message(&g, TPI_PB_GRAPH_INITIALIZER,
                    tensor("w", TPI_PB_F32, tries[i].rank, tries[i].dims, data, tries[i].size));
        put_message(&g, TPI_PB_GRAPH_NODE, node("Neg", NAMES("w"), NAMES("v")));
        refused(tp, model(g), NULL, i == 5 ? TP_E_VALUE : TP_E_FORMAT, tries[i].text);
    }
    const int type[2] = {TPI_PB_TEXT, 99};
    const char *const name[2] = {"type string, which is not supported", "type ?"};
    for (int i = 0; i < 2; i++) {
        bytes g = relu_graph();
        put_message(&g, TPI_PB_GRAPH_INITIALIZER, tensor("w", type[i], 1, &two, data, 8));
        put_message(&g, TPI_PB_GRAPH_NODE, node("Neg", NAMES("w"), NAMES("v")));
        refused(tp, model(g), NULL, TP_E_VALUE, name[i]);
    }
}

/* Small files that ask for much are given nodes, not memory. */
static void much_from_little(void **state)
{
    tp_ctx *tp = *state;
    const unit_memory *memory = tp->mem.user.user;
    const int64_t shape[2] = {1 << 19, 1 << 20},
                  n = 2; /* an axis of 2^40 and more is refused */
    bytes g = {0};
    put_message(&g, TPI_PB_GRAPH_INITIALIZER, tensor("s", TPI_PB_I64, 1, &n, shape, 16));
    put_message(&g, TPI_PB_GRAPH_INITIALIZER,
                tensor("r", TPI_PB_I64, 1, &n, (const int64_t[]){2, 2}, 16));
    put_message(&g, TPI_PB_GRAPH_NODE, node("ConstantOfShape", NAMES("s"), NAMES("a")));
    put_message(&g, TPI_PB_GRAPH_NODE, node("Tile", NAMES("a", "r"), NAMES("b")));
    put_message(&g, TPI_PB_GRAPH_NODE, node("Expand", NAMES("a", "s"), NAMES("c")));
    put_message(&g, TPI_PB_GRAPH_NODE, node("Add", NAMES("a", "c"), NAMES("d")));
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value("d", TPI_PB_F32, 2, shape, NULL));
    const size_t before = memory->bytes;
    tp_graph *loaded = load(tp, model(g), NULL);
    if (!loaded)
        fail_msg("%s", tp_error_message(tp));
    assert_true(memory->bytes - before < 1 << 20);
}

/* A function of domain "own" with one output, "b". */
static bytes function(const char *name, int n_in)
{
    bytes f = {0};
    put_text(&f, TPI_PB_FUNCTION_NAME, name);
    put_text(&f, TPI_PB_FUNCTION_DOMAIN, "own");
    for (int i = 0; i < n_in; i++) {
        char input[16];
        snprintf(input, sizeof input, "a%d", i);
        put_text(&f, TPI_PB_FUNCTION_INPUT, input);
    }
    put_text(&f, TPI_PB_FUNCTION_OUTPUT, "b");
    import_opset(&f, TPI_PB_FUNCTION_OPSET_IMPORT, "", 17);
    return f;
}

/* Node number i: what the one before gave becomes v<i+1>; the graph's input is v0. */
static void put_step(bytes *g, const char *op, const char *domain, int i)
{
    char in[16], out[16];
    snprintf(in, sizeof in, "v%d", i);
    snprintf(out, sizeof out, "v%d", i + 1);
    bytes n = node(op, NAMES(in), NAMES(out));
    put_text(&n, TPI_PB_NODE_DOMAIN, domain);
    put_message(g, TPI_PB_GRAPH_NODE, n);
}

enum { WIDE_CALLS, LONG_NAMES, BRANCHES, MANY_MISSING, MANY_FUNCTIONS, N_LARGE };

/* Files of some hundred kilobytes that ask for much, each in its way. */
static bytes large_model(int kind)
{
    enum { MANY = 20000 };
    bytes g = {0}, functions = {0};
    put_message(&g, TPI_PB_GRAPH_INPUT, value("v0", TPI_PB_F32, 1, &two, NULL));
    if (kind == WIDE_CALLS || kind == LONG_NAMES || kind == BRANCHES) {
        bytes f = function("f", kind == WIDE_CALLS ? MANY : 1), inner;
        char *name = malloc(MANY + 1);
        assert_non_null(name);
        memset(name, 'n', MANY);
        name[MANY] = 0;
        if (kind == LONG_NAMES) {
            put_message(&f, TPI_PB_FUNCTION_NODE, node("Neg", NAMES("a0"), NAMES(name)));
            inner = node("Neg", NAMES(name), NAMES("b"));
        } else if (kind == BRANCHES) {
            bytes branch = {0}, choose;
            for (int i = 0; i < MANY; i++) {
                char weight[16];
                snprintf(weight, sizeof weight, "w%d", i);
                put_message(&branch, TPI_PB_GRAPH_INITIALIZER,
                            tensor(weight, TPI_PB_F32, 0, NULL, NULL, 0));
            }
            put_message(&branch, TPI_PB_GRAPH_OUTPUT, value("a0", TPI_PB_F32, 1, &two, NULL));
            bytes c = {0};
            put_text(&c, TPI_PB_ATTRIBUTE_NAME, "value");
            put_int(&c, TPI_PB_ATTRIBUTE_TYPE, TPI_PB_TENSOR);
            put_message(&c, TPI_PB_ATTRIBUTE_T, tensor("", TPI_PB_BOOL, 0, NULL, "\1", 1));
            bytes constant = node("Constant", NULL, NAMES("c"));
            put_message(&constant, TPI_PB_NODE_ATTRIBUTE, c);
            put_message(&f, TPI_PB_FUNCTION_NODE, constant);
            choose = node("If", NAMES("c"), NAMES("b"));
            put_message(&choose, TPI_PB_NODE_ATTRIBUTE, attr_graph("then_branch", branch));
            put_message(&choose, TPI_PB_NODE_ATTRIBUTE, attr_graph("else_branch", (bytes){0}));
            inner = choose;
        } else {
            inner = node("Neg", NAMES("a0"), NAMES("b"));
        }
        free(name);
        put_message(&f, TPI_PB_FUNCTION_NODE, inner);
        put_message(&functions, TPI_PB_MODEL_FUNCTIONS, f);
    }
    for (int i = 0; i < MANY; i++) {
        char name[16] = "f";
        if (kind >= MANY_MISSING)
            snprintf(name, sizeof name, "f%d", i);
        put_step(&g, name, "own", i);
        if (kind == MANY_FUNCTIONS) {
            bytes f = function(name, 1);
            put_message(&f, TPI_PB_FUNCTION_NODE, node("Neg", NAMES("a0"), NAMES("b")));
            put_message(&functions, TPI_PB_MODEL_FUNCTIONS, f);
        }
    }
    if (kind == MANY_FUNCTIONS) /* what it is refused for */
        put_step(&g, "Frobnicate", "", MANY);
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value("v1", TPI_PB_F32, 1, &two, NULL));
    bytes m = model(g);
    put(&m, functions.at, functions.size);
    free(functions.at);
    return m;
}

/* Memory stays in proportion to the file, or below what the limit of nodes allows. */
static void large_files(void **state)
{
    static const struct {
        const char *text;
        size_t times; /* the file's size */
    } want[N_LARGE] = {
        [WIDE_CALLS] = {"the model becomes more than", 300},
        [LONG_NAMES] = {"the model becomes more than", 300},
        [BRANCHES] = {"the model becomes more than", 300},
        [MANY_MISSING] = {"is not supported, nor are",   100},
        [MANY_FUNCTIONS] = {"Frobnicate",                  100},
    };
    (void)state;
    for (int kind = 0; kind < N_LARGE; kind++) {
        unit_memory memory = {0};
        tp_ctx *tp = unit_open(&memory);
        bytes m = large_model(kind);
        const size_t size = m.size;
        refused(tp, m, NULL, TP_E_VALUE, want[kind].text);
        if (memory.most > want[kind].times * size)
            fail_msg("kind %d: %zu bytes for a file of %zu", kind, memory.most, size);
        tp_close(tp);
    }
}

/* ---- external data -------------------------------------------------------------------------------------- */

static bytes external_model(const char *location, const char *offset)
{
    bytes g = {0};
    put_message(&g, TPI_PB_GRAPH_INPUT, value("x", TPI_PB_F32, 1, &two, NULL));
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value("y", TPI_PB_F32, 1, &two, NULL));
    put_message(&g, TPI_PB_GRAPH_INITIALIZER, external("w", TPI_PB_F32, 2, location, offset));
    put_message(&g, TPI_PB_GRAPH_NODE, node("Mul", NAMES("x", "w"), NAMES("y")));
    return model(g);
}

static void external_paths(void **state)
{
    tp_ctx *tp = *state;
    const float w[4] = {0, 0, 3, 4};
    char here[160];
    write_file("w.bin", w, sizeof w);
    mkdir(path_of("sub"), 0700);
    write_file("sub/w.bin", w, sizeof w);
    assert_int_equal(symlink("/etc/passwd", path_of("link.bin")), 0);
    assert_int_equal(symlink("/etc", path_of("out")), 0);
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    const char *const good[] = {"w.bin", "sub/w.bin", "./w.bin", "sub/./w.bin"};
    for (int i = 0; i < 4; i++) {
        tp_graph *g = load(tp, external_model(good[i], "8"), folder);
        if (!g)
            fail_msg("%s: %s", good[i], tp_error_message(tp));
        const float *got = tp_data(tp_graph_variable(g, "w"));
        assert_true(got[0] == 3 && got[1] == 4);
    }
    const char *const path = "the path is to be relative";
    refused(tp, external_model("/etc/passwd", "0"), folder, TP_E_FORMAT, path);
    refused(tp, external_model("../w.bin", "0"), folder, TP_E_FORMAT, path);
    refused(tp, external_model("sub/../../w.bin", "0"), folder, TP_E_FORMAT, path);
    refused(tp, external_model("sub//w.bin", "0"), folder, TP_E_FORMAT, path);
    refused(tp, external_model("", "0"), folder, TP_E_FORMAT, "is no path");
    refused(tp, external_model("link.bin", "0"), folder, TP_E_IO, "symbolic link");
    refused(tp, external_model("out/passwd", "0"), folder, TP_E_IO, "symbolic link");
    refused(tp, external_model("pipe", "0"), folder, TP_E_IO, "is no regular file");
    refused(tp, external_model("sub", "0"), folder, TP_E_IO, "is no regular file");
    refused(tp, external_model("none", "0"), folder, TP_E_IO,
            "\"none\": No such file or directory (it has to lie in the folder of the model)");
    refused(tp, external_model("w.bin", "9"), folder, TP_E_FORMAT, "is too short");
    refused(tp, external_model("w.bin", "9223372036854775807"), folder, TP_E_FORMAT,
            "is too short");
    refused(tp, external_model("w.bin", "99999999999999999999"), folder, TP_E_FORMAT,
            "damaged");
    refused(tp, external_model("w.bin", "-8"), folder, TP_E_FORMAT, "damaged");
    refused(tp, external_model("w.bin", "0"), NULL, TP_E_IO, "lies in no folder");
    snprintf(here, sizeof here, "/tmp/%s/w.bin", folder);
    refused(tp, external_model(here, "0"), folder, TP_E_FORMAT, path);
}

/* ---- names ------------------------------------------------------------------------------------------------ */

/* They reach no generated C unescaped: it compiles, and computes what it should. */
static void sly_names(void **state)
{
    tp_ctx *tp = *state;
    static const char *const names[] = {
        "\"; system(\"x\"); \"", "*/ int x; /*",    "a\nb",     "a\\",      "\?\?/", "%s%n%d",
        "// \\\n#error",         "#include <none>", "\x01\x7f", "\xc3\xa9", "'",     "a\rb",
    };
    const int n = (int)(sizeof names / sizeof *names);
    const float two_ones[2] = {1, 1};
    bytes g = {0};
    put_message(&g, TPI_PB_GRAPH_INPUT,
                value(names[0], TPI_PB_F32, 1, &(int64_t){-1}, names[1]));
    for (int i = 0; i + 1 < n; i++) {
        char weight[64];
        snprintf(weight, sizeof weight, "w%s", names[i]);
        put_message(&g, TPI_PB_GRAPH_INITIALIZER,
                    tensor(weight, TPI_PB_F32, 0, NULL, &(float){2}, sizeof(float)));
        bytes mul = node(i % 2 ? "Mul" : "Add", NAMES(names[i], weight), NAMES(names[i + 1]));
        put_text(&mul, TPI_PB_NODE_NAME, names[i]);
        put_message(&g, TPI_PB_GRAPH_NODE, mul);
    }
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value(names[n - 1], TPI_PB_F32, 1, &two, NULL));
    tp_graph *loaded = load(tp, model(g), NULL);
    if (!loaded)
        fail_msg("%s", tp_error_message(tp));
    assert_int_equal(tp_graph_verify(loaded), TP_OK);
    tp_tensor *x = tp_tensor_new(tp, TP_F32, 1, &two, two_ones), *a = NULL, *b = NULL;
    const char *const feed[] = {names[0]}, *const fetch[] = {names[n - 1]};
    const tp_compile_options ref = {.engine = TP_ENGINE_REFERENCE}, c = {.engine = TP_ENGINE_C};
    tp_program *p = tp_graph_compile(loaded, 1, feed, 1, fetch, &ref);
    tp_program *q = tp_graph_compile(loaded, 1, feed, 1, fetch, &c);
    if (tp_program_run(p, &x, &a) != TP_OK || tp_program_run(q, &x, &b) != TP_OK)
        fail_msg("%s", tp_error_message(tp));
    assert_memory_equal(tp_data(a), tp_data(b), 2 * sizeof(float));

    bytes bad = relu_graph();
    put_message(&bad, TPI_PB_GRAPH_NODE, node("Neg", NAMES("x"), NAMES("a\xff")));
    refused(tp, model(bad), NULL, TP_E_FORMAT, "is not UTF-8");
    bad = relu_graph();
    bytes nul = node("Neg", NAMES("x"), NAMES("z"));
    put_bytes(&nul, TPI_PB_NODE_NAME, "a\0b", 3);
    put_message(&bad, TPI_PB_GRAPH_NODE, nul);
    refused(tp, model(bad), NULL, TP_E_FORMAT, "has a NUL in it");
}

/* Of a long path a message has the end, which begins with a whole character. */
static void long_paths(void **state)
{
    tp_ctx *tp = *state;
    for (int odd = 0; odd < 2; odd++) {
        char name[100] = "a";
        for (int i = 0; i < 40; i++)
            memcpy(name + odd + 2 * i, "\xc3\xa9", 3);
        write_file(name, "no model", 8);
        for (int kind = 0; kind < 2; kind++) {
            if (kind)
                tp_onnx_tensor_load(tp, path_of(name));
            else
                assert_null(tp_onnx_load(tp, path_of(name), NULL));
            const char *cut = strstr(tp_error_message(tp), ": ...\xc3\xa9");
            if (!cut || !strstr(cut, "\xc3\xa9: "))
                fail_msg("\"%s\"", tp_error_message(tp));
            tp_clear_error(tp);
        }
    }
}

/* ---- values of inputs, fixed sizes ---------------------------------------------------------------------------- */

static void values_at_load(void **state)
{
    tp_ctx *tp = *state;
    const int64_t n = 2, shape[2] = {1, 4};
    bytes g = {0};
    put_message(&g, TPI_PB_GRAPH_INPUT, value("x", TPI_PB_F32, 2, four, NULL));
    put_message(&g, TPI_PB_GRAPH_INPUT, value("s", TPI_PB_I64, 1, &two, NULL));
    put_message(&g, TPI_PB_GRAPH_NODE, node("Reshape", NAMES("x", "s"), NAMES("y")));
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value("y", TPI_PB_F32, 2, shape, NULL));
    bytes m = model(g);
    assert_null(tp_onnx_load_bytes(tp, m.at, m.size, NULL, NULL));
    assert_non_null(strstr(tp_error_message(tp), "input 1 (\"s\") has to be known"));
    tp_clear_error(tp);
    bool became[2];
    const tp_feed values[2] = {
        {"x",  tp_full(tp,       TP_F32, 2, four, 1)    },
        {NULL, tp_tensor_new(tp, TP_I64, 1, &n,   shape)}
    };
    tp_graph *loaded = tp_onnx_load_bytes(
        tp, m.at, m.size, NULL,
        &(tp_onnx_load_options){.n_values = 2, .values = values, .became_constant = became});
    if (!loaded)
        fail_msg("%s", tp_error_message(tp));
    assert_true(!became[0] && became[1] && tp_graph_n_inputs(loaded) == 1);
    assert_int_equal(tp_size(tp_graph_output(loaded, 0), 1), 4);
    free(m.at);
}

/* y = c ? -x : x of the sizes in `other` */
static bytes choosing_model(int n_other)
{
    const int64_t n = n_other;
    const float zeros[4] = {0};
    bytes g = {0}, yes = {0}, no = {0}, choose = node("If", NAMES("c"), NAMES("y"));
    put_message(&g, TPI_PB_GRAPH_INPUT, value("x", TPI_PB_F32, 1, &two, NULL));
    put_message(&g, TPI_PB_GRAPH_INPUT, value("c", TPI_PB_BOOL, 0, NULL, NULL));
    put_message(&yes, TPI_PB_GRAPH_NODE, node("Neg", NAMES("x"), NAMES("u")));
    put_message(&yes, TPI_PB_GRAPH_OUTPUT, value("u", TPI_PB_F32, 1, &two, NULL));
    put_message(&no, TPI_PB_GRAPH_INITIALIZER,
                tensor("v", TPI_PB_F32, 1, &n, zeros, (size_t)n * sizeof *zeros));
    put_message(&no, TPI_PB_GRAPH_OUTPUT, value("v", TPI_PB_F32, 1, &n, NULL));
    put_message(&choose, TPI_PB_NODE_ATTRIBUTE, attr_graph("then_branch", yes));
    put_message(&choose, TPI_PB_NODE_ATTRIBUTE, attr_graph("else_branch", no));
    put_message(&g, TPI_PB_GRAPH_NODE, choose);
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value("y", TPI_PB_F32, 1, &two, NULL));
    return model(g);
}

/* An If on what is fed: a choice when both sides have one size; else it has to be offered. */
static void fed_condition(void **state)
{
    tp_ctx *tp = *state;
    const float x[2] =
        {
            5, -6
    },
                want[2][2] = {{0, 0}, {-5, 6}};
    tp_tensor *in = tp_tensor_new(tp, TP_F32, 1, &two, x), *y, *c[2];
    tp_graph *g = load(tp, choosing_model(2), NULL);
    if (!g)
        fail_msg("%s", tp_error_message(tp));
    for (int i = 0; i < 2; i++) {
        c[i] = tp_tensor_new(tp, TP_BOOL, 0, NULL, &(bool){i});
        assert_int_equal(tp_graph_run(g, TP_FEEDS({"x", in}, {"c", c[i]}), TP_NAMES("y"), &y),
                         TP_OK);
        for (int k = 0; k < 2; k++)
            assert_true(((const float *)tp_data(y))[k] == want[i][k]);
    }
    refused(tp, choosing_model(4), NULL, TP_E_VALUE,
            "output 0 is f32 [2] or f32 [4], and its condition depends on what is fed: offer "
            "that in "
            "values");
    bytes m = choosing_model(4);
    bool became = false;
    const tp_feed offer = {"c", c[0]};
    g = tp_onnx_load_bytes(
        tp, m.at, m.size, NULL,
        &(tp_onnx_load_options){.n_values = 1, .values = &offer, .became_constant = &became});
    free(m.at);
    if (!g)
        fail_msg("%s", tp_error_message(tp));
    assert_true(became && tp_size(tp_graph_output(g, 0), 0) == 4);
}

static void fixed_dimensions(void **state)
{
    tp_ctx *tp = *state;
    const tp_onnx_dim dim = {"batch", 3};
    bytes m = rich_model();
    tp_graph *g = tp_onnx_load_bytes(tp, m.at, m.size, NULL,
                                     &(tp_onnx_load_options){.n_dims = 1, .dims = &dim});
    if (!g)
        fail_msg("%s", tp_error_message(tp));
    assert_int_equal(tp_size(tp_graph_input(g, 0), 0), 3);
    free(m.at);
}

/* The options name what the model has, and once. */
static void names_in_options(void **state)
{
    tp_ctx *tp = *state;
    bytes m = rich_model();
    const int64_t shape[2] = {1, 2};
    tp_tensor *t = tp_full(tp, TP_F32, 2, shape, 1);
    const tp_onnx_dim dims[] = {
        {"batch", 3},
        {"batch", 3},
        {"seq",   3}
    };
    const tp_feed values[] = {
        {"x",  t},
        {NULL, t},
        {"w",  t}
    };
    const struct {
        tp_onnx_load_options opt;
        const char *text;
    } wrong[] = {
        {{.n_dims = 2, .dims = dims},                                "the options fix the dimension \"batch\" twice"},
        {{.n_dims = 1, .dims = dims + 2},
         "a dimension \"seq\" that is not free in the model: free are \"batch\""                                    },
        {{.n_values = 2, .values = values},
         "value 1 of the options is for no input: the model"                                                        },
        {{.n_values = 1, .values = values + 2},
         "a value for \"w\", which is no input of the model: inputs are \"x\""                                      },
        {{.n_values = 2, .values = (tp_feed[]){{"x", t}, {"x", t}}},
         "the options have two values for the input \"x\""                                                          },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_null(tp_onnx_load_bytes(tp, m.at, m.size, NULL, &wrong[i].opt));
        if (tp_error(tp) != TP_E_NAME || !strstr(tp_error_message(tp), wrong[i].text))
            fail_msg("expected \"%s\", got \"%s\"", wrong[i].text, tp_error_message(tp));
        tp_clear_error(tp);
    }
    free(m.at);
}

/* Branches on a fed condition in one another: each is a cond in a body. */
static void deep_blocks(void **state)
{
    tp_ctx *tp = *state;
    for (int depth = 40; depth < 80; depth += 30) {
        bytes inner = {0};
        put_message(&inner, TPI_PB_GRAPH_NODE, node("Neg", NAMES("x"), NAMES("y0")));
        for (int i = 0;; i++) {
            char name[16], next[16];
            snprintf(name, sizeof name, "y%d", i);
            snprintf(next, sizeof next, "y%d", i + 1);
            put_message(&inner, TPI_PB_GRAPH_OUTPUT, value(name, TPI_PB_F32, 1, &two, NULL));
            bytes choose = node("If", NAMES("p"), NAMES(i == depth ? "y" : next)), other = {0};
            put_message(&other, TPI_PB_GRAPH_NODE, node("Abs", NAMES("x"), NAMES("o")));
            put_message(&other, TPI_PB_GRAPH_OUTPUT, value("o", TPI_PB_F32, 1, &two, NULL));
            put_message(&choose, TPI_PB_NODE_ATTRIBUTE, attr_graph("then_branch", inner));
            put_message(&choose, TPI_PB_NODE_ATTRIBUTE, attr_graph("else_branch", other));
            inner = (bytes){0};
            put_message(&inner, TPI_PB_GRAPH_NODE, choose);
            if (i == depth)
                break;
        }
        put_message(&inner, TPI_PB_GRAPH_INPUT, value("x", TPI_PB_F32, 1, &two, NULL));
        put_message(&inner, TPI_PB_GRAPH_INPUT, value("p", TPI_PB_BOOL, 0, NULL, NULL));
        put_message(&inner, TPI_PB_GRAPH_OUTPUT, value("y", TPI_PB_F32, 1, &two, NULL));
        if (depth == 70) {
            refused(tp, model(inner), NULL, TP_E_STATE, "blocks nest deeper than");
            continue;
        }
        tp_graph *g = load(tp, model(inner), NULL);
        if (!g)
            fail_msg("%s", tp_error_message(tp));
        for (char p = 0; p < 2; p++) {
            const float x[2] =
                {
                    -1, 2
            },
                        want[2][2] = {{1, 2}, {1, -2}};
            tp_tensor *feed = tp_tensor_new(tp, TP_F32, TP_DIMS(2), x),
                      *taken = tp_tensor_new(tp, TP_BOOL, TP_SCALAR, &p), *y;
            assert_int_equal(
                tp_graph_run(g, TP_FEEDS({"x", feed}, {"p", taken}), TP_NAMES("y"), &y), TP_OK);
            assert_memory_equal(tp_data(y), want[(int)p], sizeof want[0]);
        }
    }
}

/* Loop(m) { x = Concat(x, x) }: of another size after each turn. */
static bytes doubling(int64_t turns)
{
    bytes g = {0}, body = {0};
    put_message(&body, TPI_PB_GRAPH_INPUT, value("i", TPI_PB_I64, 0, NULL, NULL));
    put_message(&body, TPI_PB_GRAPH_INPUT, value("c", TPI_PB_BOOL, 0, NULL, NULL));
    put_message(&body, TPI_PB_GRAPH_INPUT, value("v", TPI_PB_F32, 1, &two, NULL));
    bytes join = node("Concat", NAMES("v", "v"), NAMES("w"));
    put_message(&join, TPI_PB_NODE_ATTRIBUTE, attr_int("axis", 0));
    put_message(&body, TPI_PB_GRAPH_NODE, join);
    put_message(&body, TPI_PB_GRAPH_OUTPUT, value("c", TPI_PB_BOOL, 0, NULL, NULL));
    put_message(&body, TPI_PB_GRAPH_OUTPUT, value("w", TPI_PB_F32, 1, &two, NULL));
    bytes loop = node("Loop", NAMES("m", "", "x"), NAMES("y"));
    put_message(&loop, TPI_PB_NODE_ATTRIBUTE, attr_graph("body", body));
    put_message(&g, TPI_PB_GRAPH_INPUT, value("x", TPI_PB_F32, 1, &two, NULL));
    if (turns >= 0)
        put_message(&g, TPI_PB_GRAPH_INITIALIZER, tensor("m", TPI_PB_I64, 0, NULL, &turns, 8));
    else
        put_message(&g, TPI_PB_GRAPH_INPUT, value("m", TPI_PB_I64, 0, NULL, NULL));
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value("y", TPI_PB_F32, 1, &two, NULL));
    put_message(&g, TPI_PB_GRAPH_NODE, loop);
    return model(g);
}

static void turns_written_out(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = load(tp, doubling(3), NULL);
    assert_non_null(g);
    assert_int_equal(tp_size(tp_graph_output(g, 0), 0), 16);
    refused(tp, doubling(-1), NULL, TP_E_VALUE,
            "carried value 0 goes into a turn as f32 [2] and comes out as f32 [4]");
    refused(tp, doubling(1 << 20), NULL, TP_E_SHAPE, "");
    const int64_t turns = 2;
    const tp_feed m = {"m", tp_tensor_new(tp, TP_I64, TP_SCALAR, &turns)};
    bytes free_count = doubling(-1);
    g = tp_onnx_load_bytes(tp, free_count.at, free_count.size, NULL,
                           &(tp_onnx_load_options){.n_values = 1, .values = &m});
    assert_non_null(g);
    assert_int_equal(tp_size(tp_graph_output(g, 0), 0), 8);
    free(free_count.at);
}

/* y = SequenceAt(x, 1), and x itself. */
static bytes sequence_model(void)
{
    static const int64_t one = 1;
    bytes g = {0}, sequence = {0}, type = {0}, port = {0}, element = {0}, elem_type = {0};
    put_int(&elem_type, TPI_PB_TENSOR_TYPE_ELEM_TYPE, TPI_PB_F32);
    put_message(&element, TPI_PB_TYPE_TENSOR, elem_type);
    put_message(&sequence, TPI_PB_TYPE_INNER_ELEM_TYPE, element);
    put_message(&type, TPI_PB_TYPE_SEQUENCE, sequence);
    put_text(&port, TPI_PB_VALUE_INFO_NAME, "x");
    put_message(&port, TPI_PB_VALUE_INFO_TYPE, type);
    put_message(&g, TPI_PB_GRAPH_INPUT, port);
    put_message(&g, TPI_PB_GRAPH_INITIALIZER, tensor("k", TPI_PB_I64, 0, NULL, &one, 8));
    put_message(&g, TPI_PB_GRAPH_NODE, node("SequenceAt", NAMES("x", "k"), NAMES("y")));
    put_message(&g, TPI_PB_GRAPH_NODE, node("SequenceErase", NAMES("x", "k"), NAMES("z")));
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value("y", TPI_PB_F32, 0, NULL, NULL));
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value("z", TPI_PB_F32, 0, NULL, NULL));
    return model(g);
}

static void sequences_in_options(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *like[] = {tp_full(tp, TP_F32, TP_DIMS(2), 1),
                         tp_full(tp, TP_F32, TP_DIMS(3), 2)};
    const tp_onnx_sequence right = {"x", 2, like}, none = {"x", -1, NULL},
                           other = {"k", 2, like};
    const tp_onnx_sequence twice[] = {right, right};
    const struct {
        int n;
        const tp_onnx_sequence *said;
        tp_status status;
        const char *text;
    } cases[] = {
        {0, NULL,   TP_E_VALUE, "input \"x\" is a sequence: say in sequences"},
        {1, &none,  TP_E_VALUE, "input \"x\" cannot have -1 tensors"         },
        {1, &other, TP_E_NAME,  "a sequence for \"k\""                       },
        {2, twice,  TP_E_NAME,  "say twice what the input \"x\" has"         },
        {1, &right, TP_OK,      ""                                           },
    };
    bytes m = sequence_model();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tp_graph *g = tp_onnx_load_bytes(
            tp, m.at, m.size, NULL,
            &(tp_onnx_load_options){.n_sequences = cases[i].n, .sequences = cases[i].said});
        if (tp_error(tp) != cases[i].status || !strstr(tp_error_message(tp), cases[i].text))
            fail_msg("case %zu: %s", i, tp_error_message(tp));
        tp_clear_error(tp);
        if (!g)
            continue;
        assert_int_equal(tp_graph_n_inputs(g), 2);
        assert_string_equal(tp_name_of(tp_graph_input(g, 1)), "x.1");
        assert_int_equal(tp_graph_n_outputs(g), 2);
        assert_string_equal(tp_name_of(tp_graph_output(g, 1)), "z.0");
        assert_int_equal(tp_size(tp_graph_output(g, 1), 0), 2);
    }
    free(m.at);
}

/* Every allocation fails once. */
static void fail_each_allocation(bytes m)
{
    bool done = false;
    for (long at = 1; !done; at++) {
        unit_memory own = {0};
        tp_ctx *tp = unit_open(&own);
        own.fail_at = own.calls + at;
        tp_graph *g = tp_onnx_load_bytes(tp, m.at, m.size, NULL, NULL);
        done = g != NULL;
        if (!done)
            assert_int_equal(tp_error(tp), TP_E_MEMORY);
        tp_close(tp);
        if (own.bytes)
            fail_msg("allocation %ld failed: %zu bytes are still out", at, own.bytes);
    }
    free(m.at);
}

static void no_memory(void **state)
{
    (void)state;
    fail_each_allocation(rich_model());
    fail_each_allocation(block_model());
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(rich_model_runs),      CASE(truncated),          CASE(each_byte_changed),
        CASE(attributes),           CASE(cycles_and_missing), CASE(deep_functions),
        CASE(deep_branches),        CASE(absurd_sizes),       CASE(much_from_little),
        CASE(external_paths),       CASE(sly_names),          CASE(values_at_load),
        CASE(fixed_dimensions),     CASE(no_memory),          CASE(large_files),
        CASE(names_in_options),     CASE(fed_condition),      CASE(long_paths),
        CASE(block_model_runs),     CASE(deep_blocks),        CASE(turns_written_out),
        CASE(sequences_in_options),
    };
    strcpy(folder, "onnx_hostile_XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[160];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) ? 1 : failed;
}
