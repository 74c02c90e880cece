/* Kernels of the user's own: eagerly, in graphs by each engine, in blocks and captured functions, in files by their
 * reference, and what is refused. The cases of own_kernel (modes/op) hold them to the same bits everywhere. */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <math.h>
#include <unistd.h>

static const float *values(tp_tensor *t)
{
    const float *v = tp_data(tp_contiguous(t));
    assert_non_null(v);
    return v;
}

static void expect_same(tp_tensor *got, tp_tensor *want)
{
    assert_int_equal(tp_count(got), tp_count(want));
    const float *a = values(got), *b = values(want);
    for (int64_t i = 0; i < tp_count(want); i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("element %d: expected %.9g, got %.9g", (int)i, (double)b[i], (double)a[i]);
}

static void expect_failure(tp_tensor *t, tp_status status, const char *text)
{
    assert_int_equal(tp_status_of(t), status);
    if (!strstr(tp_error_text(t), text))
        fail_msg("\"%s\" is not in \"%s\"", text, tp_error_text(t));
    tp_clear_error(tp_ctx_of(t));
}

/* ---- a kernel: y = (x + shift) * x, where shift is one i32 per column --------------------------------- */

typedef struct calls {
    int n;
    bool fails, off;
} calls;

static bool compute(void *user, int n_in, const tp_elements *in, const tp_elements *out)
{
    calls *c = user;
    const float *x = in[0].data;
    const int32_t *shift = in[1].data;
    float *y = out->data;
    const int64_t columns = out->shape[out->rank - 1];
    c->n++;
    assert_int_equal(n_in, 2);
    assert_int_equal(in[0].dtype, TP_F32);
    assert_int_equal(in[1].dtype, TP_I32);
    assert_int_equal(out->dtype, TP_F32);
    assert_int_equal(in[0].count, out->count);
    assert_int_equal(in[1].count, columns);
    for (int64_t i = 0; i < out->count; i++) {
        const float sum = x[i] + (float)shift[i % columns];
        y[i] = sum * x[i] + (c->off ? 1.0f : 0.0f);
    }
    return !c->fails;
}

static tp_tensor *reference(void *user, int n_in, tp_tensor *const *in)
{
    (void)user, (void)n_in;
    return tp_mul(tp_add(in[0], tp_cast(in[1], TP_F32)), in[0]);
}

static const tp_kernel kernel = {.name = "shifted", .compute = compute, .reference = reference},
                       bare = {.name = "bare", .compute = compute},
                       checked = {.name = "checked",
                                  .compute = compute,
                                  .reference = reference,
                                  .check = true};

/* The same line for all of them. */
static tp_tensor *apply(const tp_kernel *k, calls *c, tp_tensor *x, tp_tensor *shift)
{
    const int64_t shape[2] = {tp_dim(x, 0), tp_dim(x, 1)};
    tp_tensor *in[2] = {x, shift};
    return tp_kernel_apply(k, c, 2, in, TP_F32, 2, shape);
}

static tp_tensor *operand(tp_ctx *tp)
{
    const float v[6] = {-1.5f, 0.25f, 2, 3, -0.5f, 1};
    return tp_require_grad(tp_tensor_new(tp, TP_F32, TP_DIMS(2, 3), v));
}

static tp_tensor *shifts(tp_ctx *tp)
{
    const int32_t v[3] = {1, -2, 3};
    return tp_tensor_new(tp, TP_I32, TP_DIMS(3), v);
}

/* ---- eagerly ---------------------------------------------------------------------------------------- */

static void test_eager(void **state)
{
    calls c = {0};
    tp_tensor *x = operand(*state), *s = shifts(*state), *in[2] = {x, s};
    tp_tensor *y = apply(&kernel, &c, x, s), *want = reference(NULL, 2, in);
    expect_same(y, want);
    assert_int_equal(c.n, 1);
    expect_same(tp_grad(tp_mul(y, x), x), tp_grad(tp_mul(want, x), x));
    expect_same(tp_grad(tp_grad(tp_mul(y, y), x), x),
                tp_grad(tp_grad(tp_mul(want, want), x), x));
    assert_int_equal(tp_backward(y), TP_OK);
    expect_same(tp_grad_of(x), tp_grad(want, x));
    assert_false(tp_requires_grad(tp_grad_of(x)));
    assert_int_equal(c.n, 1); /* gradients are the reference's */
}

/* Operands with gaps, in another order, repeated; none at all. */
static void test_layouts(void **state)
{
    tp_ctx *tp = *state;
    calls c = {0};
    tp_tensor *x = operand(tp), *s = shifts(tp);
    tp_tensor *rows = tp_broadcast(tp_slice(x, 0, 1, 2, 1), TP_DIMS(4, 3));
    tp_tensor *back = tp_flip(s, TP_DIMS(0));
    expect_same(apply(&kernel, &c, rows, back),
                reference(NULL, 2, (tp_tensor *[]){rows, back}));
    tp_tensor *tall = tp_transpose(x, TP_DIMS(1, 0)),
              *wide = tp_concat(2, (tp_tensor *[]){tall, tall}, 1);
    tp_tensor *turned = tp_transpose(tp_slice(wide, 1, 0, 2, 1), TP_DIMS(1, 0));
    expect_same(apply(&kernel, &c, turned, s), reference(NULL, 2, (tp_tensor *[]){turned, s}));
    assert_int_equal(c.n, 2);
    tp_tensor *none = tp_slice(x, 0, 0, 0, 1);
    assert_int_equal(tp_count(apply(&kernel, &c, none, s)), 0);
    assert_int_equal(c.n, 2); /* nothing to compute */
    expect_same(tp_grad(apply(&kernel, &c, none, s), x), tp_full(tp, TP_F32, TP_DIMS(2, 3), 0));
}

/* Where one operand is computed from the other, or is it, gradients are not counted twice. */
static bool product(void *user, int n_in, const tp_elements *in, const tp_elements *out)
{
    (void)user, (void)n_in;
    const float *a = in[0].data, *b = in[1].data;
    float *y = out->data;
    for (int64_t i = 0; i < out->count; i++)
        y[i] = a[i] * b[i];
    return true;
}

static tp_tensor *product_of(void *user, int n_in, tp_tensor *const *in)
{
    (void)user, (void)n_in;
    return tp_mul(in[0], in[1]);
}

static void test_operands_that_depend(void **state)
{
    static const tp_kernel k = {.name = "product", .compute = product, .reference = product_of};
    tp_tensor *x = operand(*state), *same[2] = {x, x}, *chain[2] = {x, tp_square(x)};
    expect_same(tp_grad(tp_kernel_apply(&k, NULL, 2, same, TP_F32, TP_DIMS(2, 3)), x),
                tp_mul(x, 2));
    expect_same(tp_grad(tp_kernel_apply(&k, NULL, 2, chain, TP_F32, TP_DIMS(2, 3)), x),
                tp_grad(tp_mul(chain[0], chain[1]), x));
}

static void test_check(void **state)
{
    tp_ctx *tp = *state;
    calls c = {0};
    tp_tensor *x = operand(tp), *s = shifts(tp);
    expect_same(apply(&checked, &c, x, s), apply(&kernel, &c, x, s));
    c.off = true;
    expect_failure(apply(&checked, &c, x, s), TP_E_VALUE,
                   "checked: element 0 is 1.75, and 0.75");
    tp_kernel alone = checked;
    alone.reference = NULL;
    expect_failure(apply(&alone, &c, x, s), TP_E_STATE, "has no reference");
}

/* ---- graphs ------------------------------------------------------------------------------------------- */

/* In a loop, beside its gradient. */
static tp_tensor *turned(calls *c, tp_tensor *x, tp_tensor *s)
{
    tp_tensor *h = x;
    tp_for (3, &h)
        h = tp_tanh(apply(&kernel, c, h, s));
    return h;
}

static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
static const char *const names[] = {"reference", "tiles", "c"};

static void wait_for_c(tp_program *p, tp_engine engine)
{
    if (engine == TP_ENGINE_C)
        assert_int_equal(tp_program_wait(p), TP_OK);
}

static void test_graphs(void **state)
{
    tp_ctx *tp = *state;
    calls c = {0};
    tp_tensor *x = operand(tp), *s = shifts(tp), *got[4];
    tp_tensor *h = turned(&c, x, s);
    tp_tensor *flipped =
        tp_transpose(tp_flip(tp_transpose(x, TP_DIMS(1, 0)), TP_DIMS(1)), TP_DIMS(1, 0));
    tp_tensor *want[4] = {apply(&kernel, &c, x, s), h, tp_grad(h, x),
                          apply(&kernel, &c, flipped, s)};
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *in = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"), 3));
    tp_name(apply(&kernel, &c, in, s), "y");
    tp_tensor *last = turned(&c, in, s);
    tp_name(last, "h");
    tp_name(tp_grad(last, in), "dx");
    flipped = tp_transpose(tp_flip(tp_transpose(in, TP_DIMS(1, 0)), TP_DIMS(1)), TP_DIMS(1, 0));
    tp_name(apply(&kernel, &c, flipped, s), "z");
    assert_int_equal(tp_graph_verify(g), TP_OK);
    for (int e = 0; e < 3; e++) {
        const tp_compile_options options = {.engine = engines[e]};
        tp_program *p =
            tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("y", "h", "dx", "z"), &options);
        wait_for_c(p, engines[e]);
        c.n = 0;
        assert_int_equal(tp_program_run(p, &x, got), TP_OK);
        assert_string_equal(tp_program_engine(p), names[e]);
        assert_in_range(c.n, 5, 8); /* turns are computed again for their gradients */
        for (int i = 0; i < 4; i++)
            expect_same(got[i], want[i]);
        if (engines[e] == TP_ENGINE_C) { /* no address in its text */
            char address[32];
            snprintf(address, sizeof address, "%llu", (unsigned long long)(uintptr_t)&c);
            assert_null(strstr(tp_program_source(p), address));
        }
    }
}

static void test_runner(void **state)
{
    tp_ctx *tp = *state;
    calls c = {0};
    tp_tensor *x = operand(tp), *s = shifts(tp), *want = apply(&kernel, &c, x, s);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *in = tp_placeholder(g, "x", TP_F32, TP_DIMS(2, 3));
    tp_name(apply(&kernel, &c, in, s), "y");
    const tp_compile_options options = {.engine = TP_ENGINE_C};
    tp_program *p = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("y"), &options);
    tp_runner *r = tp_runner_new(p, &x);
    assert_non_null(r);
    float y[6];
    const void *from[1] = {values(x)};
    void *to[1] = {y};
    assert_int_equal(tp_runner_run(r, from, to), TP_OK);
    assert_memory_equal(y, values(want), sizeof y);
    c.fails = true;
    assert_int_equal(tp_runner_run(r, from, to), TP_E_VALUE);
    tp_runner_free(r);
}

/* Variables are as they were, and the next run is good. */
static void test_a_kernel_fails(void **state)
{
    tp_ctx *tp = *state;
    calls c = {.fails = true};
    tp_tensor *x = tp_detach(operand(tp)), *s = shifts(tp), *got;
    expect_failure(apply(&kernel, &c, x, s), TP_E_VALUE,
                   "shifted: its function compute gave false");
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *v = tp_variable(tp_full(tp, TP_F32, TP_DIMS(2, 3), 0), "v");
    tp_tensor *in = tp_placeholder(g, "x", TP_F32, TP_DIMS(2, 3));
    tp_name(tp_assign(v, apply(&kernel, &c, in, s)), "y");
    for (int e = 0; e < 3; e++) {
        const tp_compile_options options = {.engine = engines[e]};
        tp_program *p = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("y"), &options);
        wait_for_c(p, engines[e]);
        c.fails = true;
        assert_int_equal(tp_program_run(p, &x, &got), TP_E_VALUE);
        EXPECT_ERROR_WITH(tp, TP_E_VALUE, "op_own_kernel.c");
        assert_true(values(v)[0] == 0);
        c.fails = false;
        assert_int_equal(tp_program_run(p, &x, &got), TP_OK);
        expect_same(v, apply(&kernel, &c, x, s));
        tp_assign(v, tp_mul(x, 0));
    }
}

/* What is known while a graph is compiled may be computed then; where it fails it is left to the run. */
static void test_constants(void **state)
{
    tp_ctx *tp = *state;
    calls c = {0};
    tp_tensor *x = tp_detach(operand(tp)), *s = shifts(tp), *got,
              *want = apply(&kernel, &c, x, s);
    tp_graph *g = tp_graph_new(tp);
    tp_name(tp_neg(apply(&kernel, &c, tp_graph_read(g, x), s)), "y");
    c.fails = true;
    tp_program *p = tp_graph_compile(g, 0, NULL, TP_NAMES("y"), NULL);
    assert_non_null(p);
    assert_int_equal(tp_program_run(p, NULL, &got), TP_E_VALUE);
    EXPECT_ERROR_WITH(tp, TP_E_VALUE, "shifted: its function compute gave false");
    c.fails = false;
    assert_int_equal(tp_program_run(p, NULL, &got), TP_OK);
    expect_same(got, tp_neg(want));
}

static void test_a_text_has_no_kernel(void **state)
{
    tp_ctx *tp = *state;
    calls c = {0};
    tp_tensor *x = operand(tp), *s = shifts(tp), *got;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *in = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"), 3));
    tp_name(apply(&kernel, &c, in, s), "y");
    char *text = tp_graph_text(g);
    assert_non_null(strstr(text, "own_kernel %"));
    tp_graph *back = tp_graph_parse(tp, text, strlen(text));
    tp_free(tp, text);
    assert_int_equal(tp_graph_verify(back), TP_OK);
    for (int e = 0; e < 3; e++) {
        const tp_compile_options options = {.engine = engines[e]};
        tp_program *p = tp_graph_compile(back, TP_NAMES("x"), TP_NAMES("y"), &options);
        wait_for_c(p, engines[e]);
        assert_int_equal(tp_program_run(p, &x, &got), TP_E_STATE);
        EXPECT_ERROR_WITH(tp, TP_E_STATE, "was a C function");
    }
    expect_failure(tp_grad(tp_graph_find(back, "y"), tp_graph_find(back, "x")), TP_E_STATE,
                   "was a C function");
}

/* ---- captured functions ----------------------------------------------------------------------------------- */

typedef struct stepping {
    calls *c;
    const tp_kernel *k;
    tp_tensor *s;
} stepping;

static void step(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const stepping *t = user;
    out[0] = tp_sigmoid(apply(t->k, t->c, in[0], t->s));
    out[1] = tp_grad(out[0], in[0]);
}

static void captured(tp_ctx *tp, bool pure, tp_engine engine)
{
    calls c = {0}, others = {.off = true};
    stepping t = {&c, &kernel, shifts(tp)}, off = {&others, &kernel, t.s};
    const tp_function_options options = {.engine = engine, .pure = pure};
    tp_function *f = tp_function_new(tp, "step", step, &t, &options);
    tp_tensor *x = operand(tp), *want[2], *got[2];
    step(&t, 1, &x, 2, want);
    tp_tensor *outer = tp_grad(want[0], x);
    for (int turn = 0; turn < 6; turn++) {
        const int before = c.n;
        assert_int_equal(tp_function_call(f, 1, &x, 2, got), TP_OK);
        expect_same(got[0], want[0]);
        expect_same(got[1], want[1]);
        expect_same(tp_grad(got[0], x), outer);
        assert_true(c.n > before);
        tp_function_wait(f);
    }
    if (!pure) { /* another user is another call */
        step(&off, 1, &x, 2, want);
        t.c = &others;
        assert_int_equal(tp_function_call(f, 1, &x, 2, got), TP_OK);
        expect_same(got[0], want[0]);
    }
    t.c->fails = true;
    tp_function_call(f, 1, &x, 2, got);
    EXPECT_ERROR_WITH(tp, TP_E_VALUE, "its function compute gave false");
    t.c->fails = false;
    assert_int_equal(tp_function_call(f, 1, &x, 2, got), TP_OK);
    expect_same(got[0], want[0]);
    tp_function_free(f);
}

static void test_captured(void **state)
{
    captured(*state, false, TP_ENGINE_TILES);
    captured(*state, false, TP_ENGINE_C);
}

static void test_pure(void **state)
{
    captured(*state, true, TP_ENGINE_TILES);
    captured(*state, true, TP_ENGINE_C);
}

/* ---- with a gradient of one's own ---------------------------------------------------------------------------- */

static void forward(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    out[0] = apply(&bare, user, in[0], in[1]);
}

static void backward(void *user, const tp_vjp *v)
{
    tp_tensor *in[2] = {v->dout[0], v->in[0]};
    static const tp_kernel k = {.name = "product", .compute = product};
    (void)user;
    v->din[0] = tp_kernel_apply(&k, NULL, 2, in, TP_F32, TP_DIMS(2, 3));
}

static void test_a_kernel_as_gradient(void **state)
{
    static const tp_custom rule = {.name = "both", .forward = forward, .backward = backward};
    tp_ctx *tp = *state;
    calls c = {0};
    tp_tensor *x = operand(tp), *in[2] = {x, shifts(tp)};
    tp_tensor *y = tp_custom_apply(&rule, &c, 2, in);
    expect_same(y, reference(NULL, 2, in));
    expect_same(tp_grad(y, x), x);
    expect_failure(
        tp_grad(apply(&bare, &c, x, in[1]), x), TP_E_STATE,
        "bare: the kernel has no reference, whose gradient would be its own: give it one, "
        "or call it within a tp_custom");
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *p = tp_placeholder(g, "x", TP_F32, TP_DIMS(2, 3));
    tp_tensor *failed = tp_grad(apply(&bare, &c, p, in[1]), p);
    expect_failure(failed, TP_E_STATE, "bare: the kernel has no reference");
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

static char *path_of(char *path, size_t size, const char *end)
{
    snprintf(path, size, "/tmp/tapir_own_kernel_%d%s", (int)getpid(), end);
    return path;
}

static void model_gives(tp_ctx *tp, const char *path, tp_tensor *x, tp_tensor *want)
{
    tp_graph *g = tp_onnx_load(tp, path, NULL);
    tp_tensor *got;
    assert_int_equal(tp_graph_run(g, TP_FEEDS({"x", x}), TP_NAMES("h"), &got), TP_OK);
    for (int64_t i = 0; i < tp_count(want); i++)
        assert_true(fabsf(values(got)[i] - values(want)[i]) < 1e-5f);
    tp_graph_free(g);
}

static void one_step(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const stepping *t = user;
    tp_tensor *h = apply(t->k, t->c, in[0], t->s);
    out[0] = tp_truth(tp_sum(h, TP_ALL, false)) ? tp_tanh(h) : h;
}

static void test_files(void **state)
{
    tp_ctx *tp = *state;
    char onnx[64], c_file[64], header[64];
    calls c = {0};
    stepping t = {&c, &kernel, shifts(tp)}, none = {&c, &bare, t.s};
    tp_tensor *x = operand(tp), *want = turned(&c, x, t.s), *out;
    path_of(onnx, sizeof onnx, ".onnx");
    path_of(c_file, sizeof c_file, ".c");
    path_of(header, sizeof header, ".h");
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *in = tp_placeholder(g, "x", TP_F32, TP_DIMS(2, 3));
    tp_name(turned(&c, in, t.s), "h");
    tp_name(apply(&bare, &c, in, t.s), "bare");
    const int n_nodes = tp_graph_n_nodes(g);
    assert_int_equal(tp_onnx_save(g, onnx, TP_NAMES("x"), TP_NAMES("h")), TP_OK);
    model_gives(tp, onnx, x, want);
    assert_int_equal(tp_graph_save_c(g, c_file, TP_NAMES("x"), TP_NAMES("h"), NULL), TP_OK);
    assert_int_equal(tp_onnx_save(g, onnx, TP_NAMES("x"), TP_NAMES("bare")), TP_E_STATE);
    EXPECT_ERROR_WITH(tp, TP_E_STATE,
                      "bare: the kernel has no reference, which a file could have");
    assert_int_equal(tp_graph_save_c(g, c_file, TP_NAMES("x"), TP_NAMES("bare"), NULL),
                     TP_E_STATE);
    EXPECT_ERROR_WITH(tp, TP_E_STATE, "op_own_kernel.c");
    assert_int_equal(tp_graph_n_nodes(g), n_nodes);
    for (int pure = 0; pure < 2; pure++) {
        const tp_function_options options = {.engine = TP_ENGINE_TILES, .pure = pure};
        tp_function *f = tp_function_new(tp, "one_step", one_step, &t, &options);
        tp_tensor *less = tp_mul(x, 0);
        for (int turn = 0; turn < 3; turn++) {
            tp_function_call(f, 1, &less, 1, &out);
            tp_function_call(f, 1, &x, 1, &out);
        }
        assert_int_equal(tp_onnx_save_function(f, onnx, TP_NAMES("x"), TP_NAMES("h")), TP_OK);
        model_gives(tp, onnx, x, out);
        assert_int_equal(tp_function_save_c(f, c_file, TP_NAMES("x"), TP_NAMES("h"), NULL),
                         TP_OK);
        tp_function_free(f);
        f = tp_function_new(tp, "one_step", one_step, &none, &options);
        tp_function_call(f, 1, &less, 1, &out);
        tp_function_call(f, 1, &x, 1, &out);
        assert_int_equal(tp_onnx_save_function(f, onnx, TP_NAMES("x"), TP_NAMES("h")),
                         TP_E_STATE);
        EXPECT_ERROR_WITH(tp, TP_E_STATE, "bare: the kernel has no reference");
        assert_int_equal(tp_function_save_c(f, c_file, TP_NAMES("x"), TP_NAMES("h"), NULL),
                         TP_E_STATE);
        EXPECT_ERROR_WITH(tp, TP_E_STATE, "bare: the kernel has no reference");
        tp_function_free(f);
    }
    unlink(onnx), unlink(c_file), unlink(header);
}

/* ---- what is wrong ----------------------------------------------------------------------------------------------- */

static tp_tensor *too_small(void *user, int n_in, tp_tensor *const *in)
{
    (void)user, (void)n_in;
    return tp_sum(in[0], TP_ALL, false);
}

static tp_tensor *nothing(void *user, int n_in, tp_tensor *const *in)
{
    (void)user, (void)n_in, (void)in;
    return NULL;
}

static void test_bad_references(void **state)
{
    tp_ctx *tp = *state;
    calls c = {0};
    tp_tensor *x = operand(tp), *s = shifts(tp);
    tp_kernel k = kernel;
    k.reference = too_small;
    expect_failure(tp_grad(apply(&k, &c, x, s), x), TP_E_SHAPE,
                   "shifted: its result is f32 [2, 3], and that of the reference f32 []");
    k.reference = nothing;
    expect_failure(tp_grad(apply(&k, &c, x, s), x), TP_E_NULL,
                   "its function reference gave NULL");
    assert_int_equal(tp_backward(apply(&k, &c, x, s)), TP_E_NULL);
    tp_clear_error(tp);
}

static bool makes_nan(void *user, int n_in, const tp_elements *in, const tp_elements *out)
{
    (void)user, (void)n_in, (void)in;
    for (int64_t i = 0; i < out->count; i++)
        ((float *)out->data)[i] = i == 4 ? NAN : 0;
    return true;
}

static void test_trapped_nan(void **state)
{
    static const tp_kernel k = {.name = "nan", .compute = makes_nan};
    tp_ctx *tp = *state;
    tp_tensor *x = operand(tp);
    tp_trap_nan(tp, true);
    expect_failure(tp_kernel_apply(&k, NULL, 1, &x, TP_F32, TP_DIMS(2, 3)), TP_E_VALUE,
                   "own_kernel");
}

/* Bytes of bools are 0 or 1, whatever it wrote. */
static bool marks(void *user, int n_in, const tp_elements *in, const tp_elements *out)
{
    (void)user, (void)n_in;
    for (int64_t i = 0; i < out->count; i++)
        ((uint8_t *)out->data)[i] = ((const float *)in[0].data)[i] > 0 ? 7 : 0;
    return true;
}

static void test_bools(void **state)
{
    static const tp_kernel k = {.name = "marks", .compute = marks};
    tp_tensor *x = operand(*state),
              *y = tp_kernel_apply(&k, NULL, 1, &x, TP_BOOL, TP_DIMS(2, 3));
    const uint8_t *v = tp_data(y), want[6] = {0, 1, 1, 1, 0, 1};
    assert_memory_equal(v, want, sizeof want);
    assert_false(tp_requires_grad(y));
}

/* Whichever allocation fails: an error, and nothing is lost. */
static void test_out_of_memory(void **state)
{
    (void)state;
    for (long at = 1, done = 0; !done; at++) {
        unit_memory m = {0};
        calls c = {0};
        tp_ctx *tp = unit_open(&m);
        tp_tensor *x = operand(tp), *s = shifts(tp);
        tp_tensor *rows = tp_broadcast(x, TP_DIMS(200, 2, 3));
        tp_tensor *many = tp_reshape(tp_slice(rows, 1, 0, 1, 1), TP_DIMS(200, 3));
        tp_tensor *wide = tp_broadcast(tp_slice(many, 0, 0, 1, 1), TP_DIMS(200, 3));
        m.fail_at = m.calls + at;
        tp_tensor *y = apply(&kernel, &c, wide, s), *dx = tp_grad(y, x);
        done = m.calls < m.fail_at;
        if (!done)
            assert_true(tp_status_of(dx) == TP_E_MEMORY);
        else
            assert_int_equal(tp_status_of(dx), TP_OK);
        m.fail_at = 0;
        tp_close(tp);
        assert_int_equal(m.bytes, 0);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(test_eager),          CASE(test_layouts),        CASE(test_operands_that_depend),
        CASE(test_check),          CASE(test_graphs),         CASE(test_runner),
        CASE(test_a_kernel_fails), CASE(test_constants),      CASE(test_a_text_has_no_kernel),
        CASE(test_captured),       CASE(test_pure),           CASE(test_a_kernel_as_gradient),
        CASE(test_files),          CASE(test_bad_references), CASE(test_trapped_nan),
        CASE(test_bools),          CASE(test_out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
