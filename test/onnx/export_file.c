/* tp_onnx_save, tp_onnx_tensor_save and blocks: what is refused, what is left behind, and what
 * happens when memory runs out. That the models are right is seen by others (CMakeLists.txt). */
#include "common/unit.h"
#include "onnx/export/export.h"
#include "tapir/tapir.h"

#include <sys/stat.h>
#include <unistd.h>

static const char path[] = "export_file_model.onnx",
                  data_path[] = "export_file_model.onnx.data";

static tp_tensor *input(tp_graph *g, const char *name)
{
    return tp_placeholder(g, name, TP_F32, TP_DIMS(tp_symbol(g, "n"), 4));
}

static tp_tensor *weight(tp_ctx *tp, const char *name, int64_t rows, int64_t columns)
{
    return tp_param(tp_normal(tp, TP_F32, TP_DIMS(rows, columns), 0, 1), name);
}

static long size_of(const char *file)
{
    struct stat st;
    return stat(file, &st) == 0 ? (long)st.st_size : -1;
}

/* No file of ours is left in this folder. */
static void expect_nothing_left(void)
{
    assert_int_equal(size_of(path), -1);
    assert_int_equal(size_of(data_path), -1);
    assert_int_equal(system("ls export_file_model.onnx* *.tapir-* >/dev/null 2>&1") == 0, 0);
}

#define SAVE(g, inputs, output)                                                                \
    tp_onnx_save(g, path, (int)(sizeof(inputs) / sizeof *(inputs)), inputs, 1,                 \
                 (const char *const[]){output})

static void refusals_of_names(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    const char *const x_name[] = {"x"}, *const unknown[] = {"z"}, *const twice[] = {"x", "x"};
    const char *const outputs[] = {"y", "y"};
    tp_scope_begin(tp);
    tp_tensor *x = input(g, "x"), *other = input(g, "other");
    tp_name(tp_add(x, tp_exp(other)), "y");
    SAVE(g, x_name, "y");
    EXPECT_ERROR(
        tp, TP_E_NAME,
        "placeholder: what is asked for needs the placeholder \"other\" [n, 4], which is "
        "not among the inputs");
    SAVE(g, unknown, "y");
    EXPECT_ERROR(tp, TP_E_NAME, "tp_onnx_save: the graph has no node \"z\"");
    SAVE(g, twice, "y");
    EXPECT_ERROR(tp, TP_E_NAME, "tp_onnx_save: \"x\" is named twice");
    SAVE(g, x_name, NULL);
    EXPECT_ERROR(tp, TP_E_NAME, "tp_onnx_save: the graph has no node \"(null)\"");
    tp_onnx_save(g, path, 1, x_name, 2, outputs);
    EXPECT_ERROR(tp, TP_E_NAME, "tp_onnx_save: \"y\" is named twice");
    tp_onnx_save(g, path, 1, x_name, 0, outputs);
    EXPECT_ERROR(tp, TP_E_VALUE,
                 "tp_onnx_save: 1 inputs and 0 outputs: a model has one output at least");
    tp_onnx_save(g, NULL, 1, x_name, 1, outputs);
    EXPECT_ERROR(tp, TP_E_NULL, "tp_onnx_save: the path or names are NULL");
    tp_onnx_save(g, path, 1, NULL, 1, outputs);
    EXPECT_ERROR(tp, TP_E_NULL, "tp_onnx_save: the path or names are NULL");
    assert_int_equal(tp_onnx_save(NULL, path, 1, x_name, 1, outputs), TP_E_NULL);
    expect_nothing_left();
}

static void refusals_of_ops(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    const char *const x_name[] = {"x"}, *const h_name[] = {"h"};
    tp_scope_begin(tp);
    tp_tensor *x = input(g, "x");
    tp_tensor *v = tp_variable(tp_full(tp, TP_F32, TP_DIMS(4), 0), "v");
    tp_name(tp_assign(v, tp_sum(x, TP_DIMS(0), false)), "now");
    SAVE(g, x_name, "now");
    EXPECT_ERROR(
        tp, TP_E_VALUE,
        "assign: a model changes no variables: ask for outputs that need no assignment");
    tp_tensor *h = tp_name(tp_flatten(x, 0), "h"); /* of 4*n elements */
    tp_name(tp_mul(h, tp_extent(x, TP_DIMS(0), TP_F32)), "y");
    SAVE(g, h_name, "y");
    EXPECT_ERROR(
        tp, TP_E_NAME,
        "extent: the size \"n\" is needed, but no input has an axis of just that size: "
        "name one among the inputs");
    tp_tensor *size = tp_placeholder(g, "of", TP_F32, TP_DIMS(1, 1, tp_symbol(g, "k")));
    tp_tensor *image = tp_placeholder(g, "image", TP_F32, TP_DIMS(1, 1, 9));
    tp_name(tp_grad(tp_sum(tp_conv(image, size, NULL), TP_ALL, false), image), "gradient");
    static const char *const windowed[] = {"image", "of"};
    SAVE(g, windowed, "gradient");
    EXPECT_ERROR(tp, TP_E_VALUE, "the size of the window is not a number");
    expect_nothing_left();
}

/* What is there stays when saving fails. */
static void files(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    const char *const x_name[] = {"x"}, *const y_name[] = {"y"};
    tp_scope_begin(tp);
    tp_tensor *x = input(g, "x");
    tp_name(tp_matmul(x, weight(tp, "w", 4, 4)), "y");
    assert_int_equal(SAVE(g, x_name, "y"), TP_OK);
    const long size = size_of(path);
    assert_true(size > 100);
    assert_int_equal(SAVE(g, y_name, "x"), TP_E_NAME);
    tp_clear_error(tp);
    assert_int_equal(size_of(path), size);
    unlink(path);
    tp_onnx_save(g, "/nowhere/at/all.onnx", 1, x_name, 1, y_name);
    EXPECT_ERROR(tp, TP_E_IO, "/nowhere/at/all.onnx: No such file or directory");
    tp_onnx_save(g, ".", 1, x_name, 1, y_name);
    EXPECT_ERROR(tp, TP_E_IO, "tp_onnx_save: .: Is a directory");
    expect_nothing_left();
}

static char *bytes_of(const char *file, size_t *size)
{
    FILE *f = fopen(file, "rb");
    assert_non_null(f);
    char *bytes = malloc(1 << 20);
    *size = fread(bytes, 1, 1 << 20, f);
    fclose(f);
    return bytes;
}

static tp_status save_net(tp_ctx *tp, tp_graph *g, int64_t inline_bytes)
{
    tp_tensor *x = tp_graph_find(g, "x"), *y = tp_graph_find(g, "y");
    const tpi_onnx_block block = {.outputs = &y};
    const tpi_onnx_saving m = {.what = "export_file",
                               .g = g,
                               .n_in = 1,
                               .in = &x,
                               .in_names = (const char *const[]){"x"},
                               .n_out = 1,
                               .out_names = (const char *const[]){"y"},
                               .block = &block,
                               .inline_bytes = inline_bytes};
    return tp_error(tp) == TP_OK ? tpi_onnx_write(&m, path) : tp_error(tp);
}

/* A bit of everything: views, sizes, constants, names, random numbers, a loop. */
static tp_graph *make_net(tp_ctx *tp)
{
    tp_graph *g = tp_graph_new(tp);
    if (!g)
        return NULL;
    tp_tensor *w = weight(tp, "w", 4, 300);
    tp_tensor *x = input(g, "x");
    tp_tensor *h = tp_matmul(x, tp_flip(w, TP_DIMS(1)));
    tp_tensor *back = tp_matmul(tp_softmax(h, -1), tp_swap(w, 0, 1));
    tp_tensor *noise = tp_dropout(back, 0.5), *s = tp_sum(noise, TP_DIMS(0), false), *ys = NULL;
    tp_for_back (tp_dim(noise, 0), &s) {
        s = tp_tanh(tp_add(s, tp_each(noise)));
        tp_emit(&ys, s);
    }
    tp_name(tp_add(noise, tp_slice(tp_concat(2, (tp_tensor *[]){ys, noise}, 1), 1, 2, 6, 1)),
            "y");
    return g;
}

static void same_bytes(void **state)
{
    tp_ctx *tp = *state;
    size_t size[2];
    char *bytes[2];
    tp_scope_begin(tp);
    tp_graph *g = make_net(tp);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(save_net(tp, g, 0), TP_OK);
        bytes[i] = bytes_of(path, &size[i]);
        unlink(path);
    }
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(bytes[0], bytes[1], size[0]);
    free(bytes[0]);
    free(bytes[1]);
}

static void memory_runs_out(void **state)
{
    (void)state;
    bool done = false;
    for (int beside = 0; beside < 2; beside++, done = false)
        for (long n = 1; !done; n++) {
            unit_memory memory = {0};
            tp_ctx *tp = unit_open(&memory);
            tp_scope_begin(tp);
            tp_graph *g = make_net(tp);
            assert_int_equal(tp_error(tp), TP_OK);
            memory.fail_at = memory.calls + n;
            const tp_status status = save_net(tp, g, beside ? 1000 : 0);
            done = memory.calls < memory.fail_at;
            memory.fail_at = 0;
            if (done) {
                assert_int_equal(status, TP_OK);
                assert_true(size_of(path) > 0);
                assert_int_equal(size_of(data_path), beside ? 4800 : -1);
                unlink(path);
                unlink(data_path);
            } else {
                assert_int_equal(status, TP_E_MEMORY);
                assert_int_equal(tp_error(tp), TP_E_MEMORY);
                expect_nothing_left();
            }
            tp_close(tp);
            assert_int_equal(memory.bytes, 0);
        }
}

/* ---- blocks ------------------------------------------------------------------------------ */

static tp_status save_block(tp_graph *g, tp_tensor *x, const tpi_onnx_block *block)
{
    const tpi_onnx_saving m = {.what = "export_file",
                               .g = g,
                               .n_in = 1,
                               .in = &x,
                               .in_names = (const char *const[]){"x"},
                               .n_out = 1,
                               .out_names = (const char *const[]){"y"},
                               .block = block};
    return tpi_onnx_write(&m, path);
}

static void sides_that_differ(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_scope_begin(tp);
    tp_tensor *x = input(g, "x"), *flat = tp_flatten(x, 0), *whole = tp_cast(x, TP_I32);
    tp_tensor *c = tp_gt(tp_mean(x, TP_ALL, false), tp_scalar_like(x, 0));
    const tpi_onnx_block sides[] = {{.outputs = &x}, {.outputs = &flat}, {.outputs = &whole}};
    tpi_onnx_block top = {.condition = c, .then_block = &sides[0], .else_block = &sides[1]};
    assert_int_equal(save_block(g, x, &top), TP_E_VALUE);
    EXPECT_ERROR(
        tp, TP_E_VALUE,
        "reshape: output \"y\" is f32 with 2 axes on one side of a branch, and f32 with 1 "
        "on another");
    top.else_block = &sides[2];
    assert_int_equal(save_block(g, x, &top), TP_E_VALUE);
    EXPECT_ERROR(
        tp, TP_E_VALUE,
        "cast: output \"y\" is f32 with 2 axes on one side of a branch, and i32 with 2 "
        "on another");
    expect_nothing_left();
}

/* Files hold thirty branches in each other. */
static void deep_branches(void **state)
{
    enum { DEPTH = 31 };
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_scope_begin(tp);
    tp_tensor *x = input(g, "x"), *y[DEPTH + 1];
    tpi_onnx_block side[DEPTH], way[DEPTH], end = {.outputs = &y[DEPTH]};
    tp_tensor *c = tp_gt(tp_mean(x, TP_ALL, false), tp_scalar_like(x, 0));
    for (int i = 0; i <= DEPTH; i++)
        y[i] = i ? tp_add(y[i - 1], x) : x;
    for (int i = DEPTH - 1; i >= 0; i--) {
        side[i] = (tpi_onnx_block){.outputs = &y[i]};
        way[i] = (tpi_onnx_block){.condition = c,
                                  .then_block = &side[i],
                                  .else_block = i == DEPTH - 1 ? &end : &way[i + 1]};
    }
    assert_int_equal(save_block(g, x, &way[0]), TP_E_VALUE);
    EXPECT_ERROR(tp, TP_E_VALUE,
                 "gt: the condition is below 30 others, more than files can hold");
    assert_int_equal(save_block(g, x, &way[1]), TP_OK);
    unlink(path);
    expect_nothing_left();
}

/* How many operators of that type the file has: field 4 of a node. */
static int count_operators(const char *type)
{
    size_t size;
    char *bytes = bytes_of(path, &size), field[10];
    const size_t n = (size_t)snprintf(field, sizeof field, "\"%c%s", (char)strlen(type), type);
    int found = 0;
    for (size_t i = 0; i + n <= size; i++)
        found += memcmp(bytes + i, field, n) == 0;
    free(bytes);
    return found;
}

static void expect_operators(tp_graph *g, tp_tensor *y, int scans, int loops, int ifs)
{
    const char *const x_name[] = {"x"};
    tp_name(y, "y");
    assert_int_equal(SAVE(g, x_name, "y"), TP_OK);
    assert_int_equal(count_operators("Scan"), scans);
    assert_int_equal(count_operators("Loop"), loops);
    assert_int_equal(count_operators("If"), ifs);
    unlink(path);
}

/* Which loops are Scan, and which of these are a side of If: those that may have no turns. */
static void operators_of_loops(void **state)
{
    tp_ctx *tp = *state;
    for (int which = 0; which < 6; which++) {
        tp_scope_begin(tp);
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *x =
            which == 0 ? tp_placeholder(g, "x", TP_F32, TP_DIMS(5, 4)) : input(g, "x");
        tp_tensor *s = tp_sum(x, TP_DIMS(0), false), *ys = NULL, *dx;
        switch (which) {
        case 0: /* over something of a known size, there and back */
        case 1: /* of a free size */
            tp_for (tp_dim(x, 0), &s) {
                s = tp_tanh(tp_mul(s, tp_each(x)));
            }
            dx = tp_grad(tp_sum(s, TP_ALL, false), x);
            expect_operators(g, dx, 2, 0, which ? 2 : 0);
            break;
        case 2: /* stacks alone, from the last turn to the first */
            tp_for_back (3, &s) {
                s = tp_tanh(s);
                tp_emit(&ys, s);
            }
            expect_operators(g, ys, 1, 0, 0);
            break;
        case 3: /* nothing but a value that is carried; nobody asks for what is stacked */
            tp_for (3, &s) {
                s = tp_tanh(s);
                tp_emit(&ys, s);
            }
            expect_operators(g, s, 0, 1, 0);
            break;
        case 4: /* a condition; what goes back over its turns may have none */
            tp_while (tp_lt(tp_sum(s, TP_ALL, false), tp_scalar(tp, TP_F32, 9)), &s) {
                s = tp_add(tp_mul(s, s), tp_scalar(tp, TP_F32, 1));
            }
            dx = tp_grad(tp_sum(s, TP_ALL, false), x);
            expect_operators(g, dx, 1, 1, 1);
            break;
        default: /* of no turns */
            tp_for (0, &s) {
                s = tp_tanh(s);
            }
            expect_operators(g, tp_exp(s), 0, 1, 0);
        }
        tp_scope_end(tp);
    }
    expect_nothing_left();
}

/* ---- tensors ----------------------------------------------------------------------------- */

static void tensors(void **state)
{
    tp_ctx *tp = *state;
    tp_scope_begin(tp);
    for (tp_dtype type = TP_BOOL; type < TP_N_DTYPES; type++) {
        tp_tensor *even = tp_cast(tp_arange(tp, TP_F32, 24, 0, 1), type);
        tp_tensor *const shapes[] = {tp_swap(tp_reshape(even, TP_DIMS(2, 3, 4)), 0, 2),
                                     tp_full(tp, type, TP_SCALAR, 1),
                                     tp_full(tp, type, TP_DIMS(3, 0), 0)};
        for (int i = 0; i < 3; i++) {
            assert_int_equal(tp_onnx_tensor_save(shapes[i], path), TP_OK);
            tp_tensor *again = tp_onnx_tensor_load(tp, path), *want = tp_contiguous(shapes[i]);
            assert_int_equal(tp_error(tp), TP_OK);
            assert_int_equal(tp_dtype_of(again), type);
            assert_true(tpi_same_shape(again, want));
            if (tp_count(want) > 0)
                assert_memory_equal(tp_data(again), tp_data(want), tpi_bytes(want));
        }
    }
    unlink(path);
    tp_graph *g = tp_graph_new(tp);
    assert_int_equal(tp_onnx_tensor_save(input(g, "x"), path), TP_E_SYMBOLIC);
    EXPECT_ERROR(tp, TP_E_SYMBOLIC,
                 "a symbolic tensor has no elements; save a result of a run");
    assert_int_equal(tp_onnx_tensor_save(NULL, path), TP_E_NULL);
    tp_tensor *t = tp_scalar(tp, TP_F32, 1);
    assert_int_equal(tp_onnx_tensor_save(t, NULL), TP_E_NULL);
    EXPECT_ERROR(tp, TP_E_NULL, "the path is NULL");
    assert_int_equal(tp_onnx_tensor_save(tp_add(t, NULL), path), TP_E_NULL);
    tp_clear_error(tp);
    expect_nothing_left();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(refusals_of_names), CASE(refusals_of_ops), CASE(files),
        CASE(same_bytes),        CASE(memory_runs_out), CASE(sides_that_differ),
        CASE(deep_branches),     CASE(tensors),         CASE(operators_of_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
