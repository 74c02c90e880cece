/* transform.h, used wrongly; test/transform has what functions that are transformed may not do. */
#include "misuse.h"

static void squares(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in;
    for (int i = 0; i < n_out; i++)
        out[i] = tp_mul(in[0], in[0]);
}

static void sets_nothing(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)in, (void)n_out, (void)out;
}

static void gives_what_it_is_given(void *user, int n_in, tp_tensor *const *in, int n_out,
                                   tp_tensor **out)
{
    (void)n_in, (void)in, (void)n_out;
    out[0] = user;
}

/* Each case's head looks like a call to it. */
/* clang-format off */

/* What all that take a function of the user's refuse; `call` has it as f, its data as user, and the arguments as x, of
 * which it takes n. It is good with squares, NULL, 1 and &b->f. */
#define FUNCTION(b, call)                                                                      \
    do {                                                                                       \
        tp_body f = squares;                                                                   \
        void *user = NULL;                                                                     \
        tp_tensor *arg = b->f, **x = &arg;                                                     \
        int n = 1;                                                                             \
        assert_false(IS_BAD(call));                                                            \
        f = NULL;                                                                              \
        BAD(b, TP_E_NULL, call);                                                               \
        f = sets_nothing;                                                                      \
        BAD_AS(b, "", TP_E_NULL, call);                                                        \
        f = gives_what_it_is_given;                                                            \
        user = b->failed;                                                                      \
        STICKS(b, call);                                                                       \
        user = b->gone;                                                                        \
        BAD_AS(b, "", TP_E_STATE, call);                                                       \
        user = b->foreign;                                                                     \
        BAD_AS(b, "", TP_E_CTX, call);                                                         \
        f = squares;                                                                           \
        n = 0;                                                                                 \
        BAD_ANYWHERE(b, call);                                                                 \
        n = -1;                                                                                \
        BAD_ANYWHERE(b, call);                                                                 \
        n = 1;                                                                                 \
        x = NULL;                                                                              \
        BAD_ANYWHERE(b, call);                                                                 \
    } while (0)
/* Bad, told to the context when one is known. */
#define BAD_ANYWHERE(b, call)                                                                  \
    do {                                                                                       \
        assert_true(IS_BAD(call));                                                             \
        tp_clear_error((b)->tp);                                                               \
    } while (0)

MISUSE(tp_vmap)
{
    tp_tensor *out[2] = {NULL, NULL}, *two[2] = {b->f, b->t};
    FUNCTION(b, tp_vmap(f, user, n, x, 1, out, NULL));
    OPERAND(b, b->f, tp_vmap(squares, NULL, 1, &x, 2, out, NULL));
    assert_true(tp_failed(out[0]) && tp_failed(out[1]));
    BAD(b, TP_E_NULL, tp_vmap(squares, NULL, 1, &b->f, 0, out, NULL));
    BAD(b, TP_E_NULL, tp_vmap(squares, NULL, 1, &b->f, -1, out, NULL));
    BAD(b, TP_E_NULL, tp_vmap(squares, NULL, 1, &b->f, 1, NULL, NULL));
    BAD(b, TP_E_SHAPE, tp_vmap(squares, NULL, 2, two, 1, out, NULL));
    two[1] = b->foreign;
    BAD(b, TP_E_CTX, tp_vmap(squares, NULL, 2, two, 1, out, NULL));
    static const int wrong[] = {2, -3, INT32_MIN, INT32_MAX, TP_SHARED, TP_SHARED - 1};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        BAD(b, TP_E_AXIS, tp_vmap(squares, NULL, 1, &b->f, 1, out, &(tp_vmap_options){.in_axes = &wrong[i]}));
        BAD(b, TP_E_AXIS, tp_vmap(squares, NULL, 1, &b->node, 1, out, &(tp_vmap_options){.out_axes = &wrong[i]}));
    }
}

MISUSE(tp_vmap_apply)
{
    what = "tp_vmap";
    FUNCTION(b, tp_vmap_apply(f, user, n, x, NULL));
    OPERAND(b, b->f, tp_vmap_apply(squares, NULL, 1, &x, NULL));
    tp_tensor *number = tp_scalar(b->tp, TP_F32, 1);
    BAD(b, TP_E_AXIS, tp_vmap_apply(squares, NULL, 1, &number, NULL));
}

MISUSE(tp_jvp)
{
    tp_tensor *out[2] = {NULL, NULL}, *dout[2] = {NULL, NULL}, *none = NULL;
    FUNCTION(b, tp_jvp(f, user, n, x, &b->f, 1, out, dout));
    OPERAND(b, b->f, tp_jvp(squares, NULL, 1, &x, &b->f, 2, out, dout));
    assert_true(tp_failed(out[1]) && tp_failed(dout[1]));
    assert_int_equal(tp_jvp(squares, NULL, 1, &b->f, &none, 1, out, dout), TP_OK);
    STICKS(b, tp_jvp(squares, NULL, 1, &b->f, &b->failed, 1, out, dout));
    BAD(b, TP_E_STATE, tp_jvp(squares, NULL, 1, &b->f, &b->gone, 1, out, dout));
    BAD(b, TP_E_CTX, tp_jvp(squares, NULL, 1, &b->f, &b->foreign, 1, out, dout));
    BAD(b, TP_E_SHAPE, tp_jvp(squares, NULL, 1, &b->f, &b->t, 1, out, dout));
    BAD(b, TP_E_DTYPE, tp_jvp(squares, NULL, 1, &b->f, &b->along, 1, out, dout));
    BAD(b, TP_E_DTYPE, tp_jvp(squares, NULL, 1, &b->i, &b->i, 1, out, dout));
    BAD(b, TP_E_NULL, tp_jvp(squares, NULL, 1, &b->f, NULL, 1, out, dout));
    BAD(b, TP_E_NULL, tp_jvp(squares, NULL, 1, &b->f, &b->f, 1, NULL, dout));
    BAD(b, TP_E_NULL, tp_jvp(squares, NULL, 1, &b->f, &b->f, 1, out, NULL));
    BAD(b, TP_E_NULL, tp_jvp(squares, NULL, 1, &b->f, &b->f, 0, out, dout));
    BAD(b, TP_E_NULL, tp_jvp(squares, NULL, 1, &b->f, &b->f, -1, out, dout));
}

/* Of an argument, by its number. */
#define OF_ARGUMENT(b, call)                                                                   \
    for (int of = -1; of < 2; of++) {                                                          \
        if (of == 0)                                                                           \
            OPERAND(b, b->f, call);                                                            \
        tp_tensor *x = of ? b->f : b->i;                                                       \
        BAD(b, of ? TP_E_VALUE : TP_E_DTYPE, call);                                            \
    }

MISUSE(tp_jacobian)
{
    FUNCTION(b, tp_jacobian(f, user, n, x, 0));
    OF_ARGUMENT(b, tp_jacobian(squares, NULL, 1, &x, of));
    tp_tensor *deep = tp_full(b->tp, TP_F32, TP_DIMS(1, 1, 1, 1, 1), 1);
    BAD(b, TP_E_AXIS, tp_jacobian(squares, NULL, 1, &deep, 0));
}

MISUSE(tp_hessian)
{
    what = "tp_hessian|tp_jacobian";
    FUNCTION(b, tp_hessian(f, user, n, x, 0));
    OF_ARGUMENT(b, tp_hessian(squares, NULL, 1, &x, of));
}

MISUSE(tp_hvp)
{
    what = "tp_hvp|tp_jvp";
    FUNCTION(b, tp_hvp(f, user, n, x, 0, b->f));
    OF_ARGUMENT(b, tp_hvp(squares, NULL, 1, &x, of, b->f));
    BAD(b, TP_E_NULL, tp_hvp(squares, NULL, 1, &b->f, 0, NULL));
    BAD(b, TP_E_SHAPE, tp_hvp(squares, NULL, 1, &b->f, 0, b->t));
    BAD(b, TP_E_CTX, tp_hvp(squares, NULL, 1, &b->f, 0, b->foreign));
    STICKS(b, tp_hvp(squares, NULL, 1, &b->f, 0, b->failed));
    BAD(b, TP_E_STATE, tp_hvp(squares, NULL, 1, &b->f, 0, b->gone));
}

const misuse misuse_transform[] = {
    LISTED(tp_vmap),
    LISTED(tp_vmap_apply),
    LISTED(tp_jvp),
    LISTED(tp_jacobian),
    LISTED(tp_hessian),
    LISTED(tp_hvp),
    {0},
};
