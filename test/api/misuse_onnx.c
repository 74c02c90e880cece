/* Misuse of onnx.h. Models themselves: test/onnx/onnx_hostile.c. */
#include "misuse.h"
#include "tapir/onnx.h"

/* Each case's head looks like a call to it. */
/* clang-format off */

static const char nowhere[] = "no/such/folder/model.onnx";

MISUSE(tp_onnx_load)
{
    assert_null(tp_onnx_load(NULL, nowhere, NULL));
    BAD(b, TP_E_NULL, tp_onnx_load(b->tp, NULL, NULL));
    BAD(b, TP_E_IO, tp_onnx_load(b->tp, nowhere, NULL));
    BAD(b, TP_E_IO, tp_onnx_load(b->tp, "/", NULL));
}

MISUSE(tp_onnx_load_bytes)
{
    const tp_onnx_dim no_name = {NULL, 1}, negative = {"n", -1};
    const tp_feed no_value = {"x", NULL}, symbolic = {"x", b->node}, foreign = {"x", b->foreign};
    const tp_onnx_sequence unnamed = {NULL, 0, NULL}, tensorless = {"x", 1, NULL},
                           symbols = {"x", 1, &symbolic.value};
    const tp_onnx_load_options wrong[] = {
        {.n_dims = -1}, {.n_dims = 1}, {.n_dims = 1, .dims = &no_name},
        {.n_dims = 1, .dims = &negative}, {.n_values = -1}, {.n_values = 1},
        {.n_values = 1, .values = &no_value}, {.n_values = 1, .values = &symbolic},
        {.n_values = 1, .values = &foreign},
        {.n_sequences = -1}, {.n_sequences = 1}, {.n_sequences = 1, .sequences = &unnamed},
        {.n_sequences = 1, .sequences = &tensorless}, {.n_sequences = 1, .sequences = &symbols},
    };
    assert_null(tp_onnx_load_bytes(NULL, "", 0, NULL, NULL));
    BAD(b, TP_E_NULL, tp_onnx_load_bytes(b->tp, NULL, 1, NULL, NULL));
    BAD(b, TP_E_FORMAT, tp_onnx_load_bytes(b->tp, "", 0, NULL, NULL));
    BAD(b, TP_E_FORMAT, tp_onnx_load_bytes(b->tp, "not a model", 11, "/", NULL));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        BAD(b, TP_E_VALUE, tp_onnx_load_bytes(b->tp, "", 0, NULL, &wrong[i]));
}

MISUSE(tp_onnx_summary)
{
    assert_null(tp_onnx_summary(NULL, nowhere));
    BAD(b, TP_E_NULL, tp_onnx_summary(b->tp, NULL));
    BAD(b, TP_E_IO, tp_onnx_summary(b->tp, nowhere));
}

MISUSE(tp_onnx_value_load)
{
    tp_tensor *out[1];
    int n = 7;
    assert_int_equal(tp_onnx_value_load(NULL, nowhere, "float", 1, out, &n), TP_E_NULL);
    BAD(b, TP_E_NULL, tp_onnx_value_load(b->tp, NULL, "float", 1, out, &n));
    BAD(b, TP_E_NULL, tp_onnx_value_load(b->tp, nowhere, NULL, 1, out, &n));
    BAD(b, TP_E_NULL, tp_onnx_value_load(b->tp, nowhere, "float", 1, NULL, &n));
    BAD(b, TP_E_NULL, tp_onnx_value_load(b->tp, nowhere, "float", 1, out, NULL));
    BAD(b, TP_E_IO, tp_onnx_value_load(b->tp, nowhere, "float", 1, out, &n));
    assert_int_equal(n, 0);
}

MISUSE(tp_onnx_value_save)
{
    static const char type[] = "sequence(float)";
    tp_tensor *const one[] = {b->f}, *const node[] = {b->node}, *const none[] = {NULL};
    assert_int_equal(tp_onnx_value_save(NULL, nowhere, type, 1, one), TP_E_NULL);
    BAD(b, TP_E_NULL, tp_onnx_value_save(b->tp, NULL, type, 1, one));
    BAD(b, TP_E_NULL, tp_onnx_value_save(b->tp, nowhere, NULL, 1, one));
    BAD(b, TP_E_NULL, tp_onnx_value_save(b->tp, nowhere, type, 1, NULL));
    BAD(b, TP_E_NULL, tp_onnx_value_save(b->tp, nowhere, type, 1, none));
    BAD(b, TP_E_VALUE, tp_onnx_value_save(b->tp, nowhere, type, -1, one));
    BAD(b, TP_E_VALUE, tp_onnx_value_save(b->tp, nowhere, "optional(float)", -2, one));
    BAD(b, TP_E_VALUE, tp_onnx_value_save(b->tp, nowhere, "float", 0, one));
    BAD(b, TP_E_SYMBOLIC, tp_onnx_value_save(b->tp, nowhere, type, 1, node));
    BAD(b, TP_E_IO, tp_onnx_value_save(b->tp, nowhere, type, 1, one));
}

MISUSE(tp_onnx_tensor_load)
{
    assert_true(tp_failed(tp_onnx_tensor_load(NULL, nowhere)));
    BAD(b, TP_E_NULL, tp_onnx_tensor_load(b->tp, NULL));
    BAD(b, TP_E_IO, tp_onnx_tensor_load(b->tp, nowhere));
}

MISUSE(tp_onnx_tensor_save)
{
    OPERAND(b, b->f, tp_onnx_tensor_save(x, "misuse_onnx.pb"));
    remove("misuse_onnx.pb");
    BAD(b, TP_E_NULL, tp_onnx_tensor_save(b->f, NULL));
    BAD(b, TP_E_IO, tp_onnx_tensor_save(b->f, nowhere));
    BAD(b, TP_E_SYMBOLIC, tp_onnx_tensor_save(b->node, nowhere));
}

MISUSE(tp_onnx_save)
{
    const char *x[] = {"x", NULL}, *none[] = {"none"};
    tp_graph *g = tp_graph_new(b->tp);
    tp_name(tp_neg(tp_placeholder(g, "x", TP_F32, TP_SCALAR)), "y");
    assert_int_equal(tp_onnx_save(NULL, nowhere, 1, x, 1, x), TP_E_NULL);
    BAD(b, TP_E_NULL, tp_onnx_save(g, NULL, 1, x, TP_NAMES("y")));
    BAD(b, TP_E_NULL, tp_onnx_save(g, nowhere, 1, NULL, TP_NAMES("y")));
    BAD(b, TP_E_NULL, tp_onnx_save(g, nowhere, 1, x, 1, NULL));
    BAD(b, TP_E_NAME, tp_onnx_save(g, nowhere, 2, x, TP_NAMES("y")));
    BAD(b, TP_E_VALUE, tp_onnx_save(g, nowhere, 1, x, 0, x));
    BAD(b, TP_E_NAME, tp_onnx_save(g, nowhere, 1, x, 1, none));
    BAD(b, TP_E_NAME, tp_onnx_save(g, nowhere, 1, none, TP_NAMES("y")));
    BAD(b, TP_E_IO, tp_onnx_save(g, nowhere, 1, x, TP_NAMES("y")));
    tp_graph_free(g);
}

static void negative(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user;
    if (n_in == 1 && n_out == 1)
        out[0] = tp_neg(in[0]);
}

MISUSE(tp_onnx_save_function)
{
    const char *x[] = {"x", NULL}, *y[] = {"y"};
    tp_function *f = tp_function_new(b->tp, "negative", negative, NULL, NULL);
    assert_int_equal(tp_onnx_save_function(NULL, nowhere, 1, x, 1, y), TP_E_NULL);
    BAD(b, TP_E_STATE, tp_onnx_save_function(f, nowhere, 1, x, 1, y)); /* not called yet */
    tp_function_apply(f, 1, &b->f);
    BAD(b, TP_E_NULL, tp_onnx_save_function(f, NULL, 1, x, 1, y));
    BAD(b, TP_E_NULL, tp_onnx_save_function(f, nowhere, 1, NULL, 1, y));
    BAD(b, TP_E_NULL, tp_onnx_save_function(f, nowhere, 1, x, 1, NULL));
    BAD(b, TP_E_NULL, tp_onnx_save_function(f, nowhere, 2, x, 1, y));
    BAD(b, TP_E_VALUE, tp_onnx_save_function(f, nowhere, -1, x, 1, y));
    BAD(b, TP_E_VALUE, tp_onnx_save_function(f, nowhere, 1, x, 0, y));
    BAD(b, TP_E_STATE, tp_onnx_save_function(f, nowhere, 0, x, 1, y));
    BAD(b, TP_E_IO, tp_onnx_save_function(f, nowhere, 1, x, 1, y));
    tp_function_free(f);
}


const misuse misuse_onnx[] = {
    LISTED(tp_onnx_load),
    LISTED(tp_onnx_save),
    LISTED(tp_onnx_save_function),
    LISTED(tp_onnx_load_bytes),
    LISTED(tp_onnx_summary),
    LISTED(tp_onnx_tensor_load),
    LISTED(tp_onnx_value_load),
    LISTED(tp_onnx_value_save),
    LISTED(tp_onnx_tensor_save),
    {0},
};
