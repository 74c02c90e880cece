/* Loss scaling: what the scale becomes, steps that are left out, and the same bits eagerly, in graphs and captured. */
#include "common/same.h"
#include "common/unit.h"
#include "tapir/tapir.h"

#include <math.h>

enum { STEPS = 24, GRAPHS = 3 };

static const tp_loss_scale_options few = {.first = 4, .growth = 2, .turns = 3, .backoff = 0.25};

/* A parameter of each float type, an optimiser and a scale. */
typedef struct bed {
    tp_tensor *w[2];
    tp_optimizer *o;
    tp_loss_scale *s;
} bed;

static bed bed_new(tp_ctx *tp)
{
    const float w[3] = {1, -2, 3};
    bed b;
    b.w[0] = tp_param(tp_tensor_new(tp, TP_F32, TP_DIMS(3), w), "w");
    b.w[1] = tp_param(tp_scalar(tp, TP_F64, 0.5), "wide");
    b.o = tp_adam_new(tp, 0.1, NULL, 2, b.w);
    b.s = tp_loss_scale_new(tp, &few);
    return b;
}

static void bed_free(bed *b)
{
    tp_optimizer_free(b->o);
    tp_loss_scale_free(b->s);
}

/* A step on the loss sum(x * w * w) * wide; an infinite x makes gradients that are not finite. */
static void body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    bed *b = user;
    tp_tensor *loss = tp_mul(tp_mul(tp_square(b->w[0]), in[0]), b->w[1]), *g[2];
    tp_grads(tp_loss_scale_apply(b->s, loss), NULL, 2, b->w, g);
    tp_tensor *finite = tp_loss_scale_unscale(b->s, 2, g, g);
    out[0] = tp_optimizer_apply_when(b->o, g, finite);
    out[1] = tp_loss_scale_update(b->s, finite);
}

static bool is_bad(int step)
{
    return step == 2 || step == 9 || step == 10 || step == 20;
}

static tp_tensor *fed(tp_ctx *tp, int step)
{
    const float x[3] = {(float)step / 8, is_bad(step) ? (step % 2 ? NAN : INFINITY) : 1, 2};
    return tp_tensor_new(tp, TP_F32, TP_DIMS(3), x);
}

/* The scale after each step, as the header says it. */
static void scale_follows(void **state)
{
    tp_ctx *tp = *state;
    bed b = bed_new(tp);
    double scale = 4;
    int turns = 0, taken = 0;
    for (int i = 0; i < STEPS; i++) {
        const tp_tensor *copy = tp_mul(b.w[0], 1);
        tp_tensor *x = fed(tp, i), *out[2];
        body(&b, 1, &x, 2, out);
        assert_true(tp_truth(out[1]));
        assert_true(tp_truth(out[0]) == !is_bad(i));
        taken += !is_bad(i);
        assert_true(tp_item(tp_optimizer_state(b.o, 1)) == taken);
        if (is_bad(i))
            assert_memory_equal(tp_data(b.w[0]), tp_data(copy), 12);
        scale *= is_bad(i) ? 0.25 : turns == 2 ? 2 : 1;
        turns = is_bad(i) || turns == 2 ? 0 : turns + 1;
        if (tp_item(tp_loss_scale_state(b.s, 0)) != scale ||
            tp_item_i64(tp_loss_scale_state(b.s, 1)) != turns)
            fail_msg("step %d: scale %g, turns %g; not %g, %d", i,
                     tp_item(tp_loss_scale_state(b.s, 0)), tp_item(tp_loss_scale_state(b.s, 1)),
                     scale, turns);
    }
    bed_free(&b);
    assert_int_equal(tp_error(tp), TP_OK);
}

/* A scale that is a power of 2 leaves no trace in gradients. */
static void unscaled(void **state)
{
    tp_ctx *tp = *state;
    bed b = bed_new(tp);
    tp_tensor *loss = tp_mul(tp_square(b.w[0]), b.w[1]), *plain[2], *g[2];
    char why[300];
    tp_grads(loss, NULL, 2, b.w, plain);
    tp_grads(tp_loss_scale_apply(b.s, loss), NULL, 2, b.w, g);
    assert_true(tp_item(g[1]) == 4 * tp_item(plain[1]));
    assert_true(tp_truth(tp_loss_scale_unscale(b.s, 2, g, g)));
    for (int i = 0; i < 2; i++)
        if (!same_tensors(g[i], plain[i], SAME_ZEROS_BITS, why, sizeof why))
            fail_msg("gradient %d: %s", i, why);
    bed_free(&b);
}

static void expect_same_state(int step, const char *mode, const bed *a, const bed *b)
{
    char why[300];
    for (int i = 0; i < tp_optimizer_n_state(a->o) + 4; i++) {
        tp_tensor *x = i < 2   ? a->w[i]
                       : i < 4 ? tp_loss_scale_state(a->s, i - 2)
                               : tp_optimizer_state(a->o, i - 4);
        tp_tensor *y = i < 2   ? b->w[i]
                       : i < 4 ? tp_loss_scale_state(b->s, i - 2)
                               : tp_optimizer_state(b->o, i - 4);
        if (!same_tensors(y, x, SAME_ZEROS_BITS, why, sizeof why))
            fail_msg("step %d, %s: %s: %s", step, mode, tp_name_of(x), why);
    }
}

static void same_bits(void **state)
{
    tp_ctx *tp = *state;
    static const struct {
        const char *name;
        tp_engine engine;
    } graphs[GRAPHS] = {
        {"graph, by the reference", TP_ENGINE_REFERENCE},
        {"graph, by tiles",         TP_ENGINE_TILES    },
        {"graph, by C",             TP_ENGINE_C        }
    };
    bed b[1 + GRAPHS + 2];
    for (int i = 0; i < 1 + GRAPHS + 2; i++)
        b[i] = bed_new(tp);
    tp_tensor *out[2], *x;
    tp_program *p[GRAPHS];
    for (int i = 0; i < GRAPHS; i++) {
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *in = tp_placeholder(g, "x", TP_F32, TP_DIMS(3));
        body(&b[1 + i], 1, &in, 2, out);
        tp_name(out[0], "taken");
        tp_name(out[1], "updated");
        const char *const x_only[] = {"x"}, *const both[] = {"taken", "updated"};
        assert_int_equal(tp_onnx_save(g, "never.onnx", 1, x_only, 2, both), TP_E_VALUE);
        EXPECT_ERROR(tp, TP_E_VALUE,
                     "assign: a model changes no variables: ask for outputs that need no "
                     "assignment");
        p[i] = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("taken", "updated"),
                                &(tp_compile_options){.engine = graphs[i].engine});
    }
    assert_string_equal(tp_error_message(tp), "");
    tp_function *f[2];
    for (int i = 0; i < 2; i++)
        f[i] =
            tp_function_new(tp, "step", body, &b[1 + GRAPHS + i],
                            &(tp_function_options){.engine = TP_ENGINE_TILES, .pure = i == 1});
    for (int i = 0; i < STEPS; i++) {
        x = fed(tp, i);
        body(&b[0], 1, &x, 2, out);
        const bool taken = tp_truth(out[0]);
        for (int k = 0; k < GRAPHS; k++) {
            assert_int_equal(tp_program_run(p[k], &x, out), TP_OK);
            assert_true(tp_truth(out[0]) == taken && tp_truth(out[1]));
            expect_same_state(i, graphs[k].name, &b[0], &b[1 + k]);
        }
        for (int k = 0; k < 2; k++) {
            assert_int_equal(tp_function_call(f[k], 1, &x, 2, out), TP_OK);
            assert_true(tp_truth(out[0]) == taken && tp_truth(out[1]));
            expect_same_state(i, k ? "pure" : "captured", &b[0], &b[1 + GRAPHS + k]);
        }
    }
    for (int i = 0; i < 1 + GRAPHS + 2; i++)
        bed_free(&b[i]);
    for (int i = 0; i < 2; i++)
        tp_function_free(f[i]);
    assert_string_equal(tp_error_message(tp), "");
}

/* A step that is left out makes no NaN that the trap would see; it is no first step either. */
static void left_out(void **state)
{
    tp_ctx *tp = *state;
    tp_trap_nan(tp, true);
    tp_tensor *w = tp_param(tp_scalar(tp, TP_F32, 1.5), "w"), *g, *finite;
    tp_optimizer *o[3] = {tp_adam_new(tp, 0.1, NULL, 1, &w),
                          tp_adagrad_new(tp, 0.1, NULL, 1, &w),
                          tp_rmsprop_new(tp, 0.1, NULL, 1, &w)};
    tp_loss_scale *s = tp_loss_scale_new(tp, &few);
    for (int i = 0; i < 3; i++) {
        g = tp_scalar(tp, TP_F32, INFINITY);
        finite = tp_loss_scale_unscale(s, 1, &g, &g);
        assert_false(tp_truth(tp_optimizer_apply_when(o[i], &g, finite)));
        assert_int_equal(tp_optimizer_group(o[i], 0.5, 0, 1, &w), TP_OK);
        assert_int_equal(tp_optimizer_schedule(o[i], &(tp_schedule){.warmup = 2}), TP_OK);
        assert_string_equal(tp_error_message(tp), "");
        g = tp_scalar(tp, TP_F32, 1);
        assert_true(tp_truth(tp_optimizer_apply_when(o[i], &g, tp_scalar(tp, TP_BOOL, 1))));
        assert_int_equal(tp_optimizer_group(o[i], 0.5, 0, 1, &w), TP_E_STATE);
        EXPECT_ERROR(tp, TP_E_STATE, "a group after the first step");
        assert_int_equal(tp_optimizer_schedule(o[i], &(tp_schedule){0}), TP_E_STATE);
        EXPECT_ERROR(tp, TP_E_STATE, "a schedule after the first step");
        tp_optimizer_free(o[i]);
    }
    tp_loss_scale_free(s);
    tp_trap_nan(tp, false);
}

/* At both ends the scale stays. */
static void ends(void **state)
{
    tp_ctx *tp = *state;
    const tp_loss_scale_options high = {.first = 0x1p127, .turns = 1},
                                low = {.first = 0x1p-126, .turns = 1};
    tp_loss_scale *s = tp_loss_scale_new(tp, &high);
    tp_loss_scale_update(s, tp_scalar(tp, TP_BOOL, 1));
    assert_true(tp_item(tp_loss_scale_state(s, 0)) == 0x1p127);
    tp_loss_scale_free(s);
    s = tp_loss_scale_new(tp, &low);
    tp_loss_scale_update(s, tp_scalar(tp, TP_BOOL, 0));
    assert_true(tp_item(tp_loss_scale_state(s, 0)) == 0x1p-126);
    tp_loss_scale_free(s);
    s = tp_loss_scale_new(tp, NULL);
    assert_true(tp_item(tp_loss_scale_state(s, 0)) == 65536);
    assert_string_equal(tp_name_of(tp_loss_scale_state(s, 0)), "loss_scale.scale");
    assert_string_equal(tp_name_of(tp_loss_scale_state(s, 1)), "loss_scale.turns");
    assert_null(tp_loss_scale_state(s, 2));
    tp_loss_scale_free(s);
}

/* Every allocation fails in turn: the weights change whole or not at all. */
static void survives_no_memory(void **state)
{
    (void)state;
    bool done = false;
    for (long fail_at = 1; !done; fail_at++) {
        unit_memory m = {0};
        tp_ctx *tp = unit_open(&m);
        tp_tensor *w = tp_param(tp_scalar(tp, TP_F32, 1.5), "w"), *g = NULL;
        tp_optimizer *o = tp_sgd_new(tp, 0.5, NULL, 1, &w);
        m.fail_at = m.calls + fail_at;
        tp_scope_begin(tp);
        tp_loss_scale *s = tp_loss_scale_new(tp, &few);
        tp_grads(tp_loss_scale_apply(s, tp_square(w)), NULL, 1, &w, &g);
        tp_tensor *finite = tp_loss_scale_unscale(s, 1, &g, &g);
        tp_tensor *taken = tp_optimizer_apply_when(o, &g, finite);
        done = tp_truth(taken) && !tp_failed(tp_loss_scale_update(s, finite));
        m.fail_at = 0;
        assert_true(tp_item(w) == 1.5 || tp_item(w) == 0);
        if (!done)
            assert_int_equal(tp_error(tp), TP_E_MEMORY);
        tp_scope_end(tp);
        tp_close(tp);
        assert_int_equal(m.bytes, 0);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(scale_follows), CASE(unscaled),
                                              CASE(same_bits),     CASE(left_out),
                                              CASE(ends),          CASE(survives_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
