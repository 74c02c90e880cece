/* capture.h, used wrongly. */
#include "misuse.h"

static void adding(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user;
    if (n_in == 2 && n_out > 0)
        out[0] = tp_add(in[0], in[1]);
}

/* Eager and captured. */
static tp_function *function_of(bed *b, bool eager)
{
    tp_function *f =
        tp_function_new(b->tp, "adding", adding, b,
                        &(tp_function_options){.engine = TP_ENGINE_REFERENCE, .eager = eager});
    assert_non_null(f);
    return f;
}

MISUSE(tp_function_new)
{
    assert_null(tp_function_new(NULL, "f", adding, NULL, NULL));
    BAD(b, TP_E_NULL, (void *)tp_function_new(b->tp, NULL, adding, NULL, NULL));
    BAD(b, TP_E_NULL, (void *)tp_function_new(b->tp, "f", NULL, NULL, NULL));
    const tp_function_options opt = {.engine = (tp_engine)9};
    BAD(b, TP_E_VALUE, (void *)tp_function_new(b->tp, "f", adding, NULL, &opt));
    tp_function_free(tp_function_new(b->tp, "", adding, NULL, NULL));
}

static void freeing(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_out;
    tp_function_free(*(tp_function **)user);
    out[0] = tp_neg(in[n_in - 1]);
}

MISUSE(tp_function_free)
{
    tp_function_free(NULL);
    for (int eager = 0; eager < 2; eager++) {
        tp_function *f = tp_function_new(b->tp, "freeing", freeing, &f,
                                         &(tp_function_options){.eager = eager});
        const tp_tensor *y = tp_function_apply(f, 1, &b->f);
        BAD_BARE(b, TP_E_STATE, SAYS(true));
        assert_false(tp_failed(y));
        tp_function_free(f);
    }
}

MISUSE(tp_function_call)
{
    tp_tensor *out[2], *in[] = {b->f, b->f};
    assert_int_equal(tp_function_call(NULL, 2, in, 1, out), TP_E_NULL);
    for (int k = 0; k < 4; k++) {
        tp_function *f = function_of(b, k % 2);
        BAD(b, TP_E_NULL, tp_function_call(f, -1, in, 1, out));
        BAD(b, TP_E_NULL, tp_function_call(f, 2, NULL, 1, out));
        BAD(b, TP_E_NULL, tp_function_call(f, 2, in, -1, out));
        BAD(b, TP_E_NULL, tp_function_call(f, 2, in, 1, NULL));
        if (k > 1) /* after good calls, too */
            for (int i = 0; i < 3; i++)
                assert_int_equal(tp_function_call(f, 2, in, 1, out), TP_OK);
        assert_true(tp_function_call(f, 2, in, 2, out) != TP_OK); /* one is not set */
        assert_false(tp_failed(out[0]));
        assert_true(tp_failed(out[1]));
        assert_int_equal(tp_error(b->tp), TP_E_NULL);
        tp_clear_error(b->tp);
        assert_true(tp_function_call(f, 1, in, 1, out) != TP_OK);
        assert_true(tp_failed(out[0]));
        tp_clear_error(b->tp);
        assert_int_equal(tp_function_call(f, 2, in, 0, NULL), TP_OK);
        in[1] = b->c;
        assert_int_equal(tp_function_call(f, 2, in, 1, out), TP_OK);
        in[1] = b->f;
        tp_function_free(f);
    }
}

MISUSE(tp_function_apply)
{
    tp_tensor *in[] = {b->f, b->f};
    assert_true(tp_failed(tp_function_apply(NULL, 2, in)));
    for (int k = 0; k < 4; k++) {
        tp_function *f = function_of(b, k % 2);
        for (int i = 0; i < 3 && k > 1; i++)
            assert_false(tp_failed(tp_function_apply(f, 2, in)));
        tp_tensor *const bad[] = {NULL, b->failed, b->gone, b->foreign, b->dead};
        for (int i = 0; i < 5; i++) { /* what the body does with it is told */
            assert_true(tp_failed(tp_function_apply(f, TP_TENSORS(b->f, bad[i]))));
            assert_true(tp_failed(tp_function_apply(f, TP_TENSORS(bad[i], b->c))));
        }
        tp_clear_error(b->tp);
        tp_clear_error(b->other);
        assert_true(tp_failed(tp_function_apply(f, TP_TENSORS(b->f, b->t))));
        assert_int_equal(tp_error(b->tp), TP_E_SHAPE);
        tp_clear_error(b->tp);
        assert_true(tp_is_symbolic(tp_function_apply(f, TP_TENSORS(b->f, b->node))));
        assert_false(tp_failed(tp_function_apply(f, 2, in)));
        tp_function_free(f);
    }
}

MISUSE(tp_function_watch)
{
    static const int flag = 1;
    static const char many[4097];
    assert_int_equal(tp_function_watch(NULL, &flag, sizeof flag), TP_E_NULL);
    tp_function *f = function_of(b, false);
    BAD(b, TP_E_NULL, tp_function_watch(f, NULL, 4));
    BAD(b, TP_E_VALUE, tp_function_watch(f, many, sizeof many));
    assert_int_equal(tp_function_watch(f, many, 4095), TP_OK);
    BAD(b, TP_E_VALUE, tp_function_watch(f, &flag, 2)); /* beside those */
    tp_function_free(f);
}

MISUSE(tp_function_stats_of)
{
    assert_int_equal(tp_function_stats_of(NULL).calls, 0);
    tp_function *f = function_of(b, false);
    assert_int_equal(tp_function_stats_of(f).segments, 0);
    tp_function_apply(f, TP_TENSORS(b->f, b->t)); /* which fails */
    tp_clear_error(b->tp);
    assert_int_equal(tp_function_stats_of(f).calls, 1);
    assert_int_equal(tp_function_stats_of(f).user_calls, 1);
}

MISUSE(tp_function_text)
{
    assert_null(tp_function_text(NULL));
    for (int k = 0; k < 2; k++) { /* of what never ran, and of what failed */
        tp_function *f = function_of(b, k == 1);
        char *text = tp_function_text(f);
        assert_non_null(strstr(text, "adding"));
        tp_free(b->tp, text);
        tp_function_apply(f, TP_TENSORS(b->f, b->t));
        tp_clear_error(b->tp);
        tp_free(b->tp, tp_function_text(f));
    }
}

MISUSE(tp_function_save_c)
{
    const char *x[] = {"x", "z", NULL}, *y[] = {"y", NULL};
    tp_tensor *in[] = {b->f, tp_neg(b->f)};
    assert_int_equal(tp_function_save_c(NULL, "/nowhere/n.c", 2, x, 1, y, NULL), TP_E_NULL);
    tp_function *f = function_of(b, true);
    tp_function_apply(f, 2, in);
    BAD(b, TP_E_STATE, tp_function_save_c(f, "/nowhere/n.c", 2, x, 1, y, NULL)); /* eager */
    tp_function_free(f);
    f = function_of(b, false);
    BAD(b, TP_E_STATE,
        tp_function_save_c(f, "/nowhere/n.c", 2, x, 1, y, NULL)); /* not called */
    tp_function_apply(f, 2, in);
    BAD(b, TP_E_NULL, tp_function_save_c(f, NULL, 2, x, 1, y, NULL));
    BAD(b, TP_E_NULL, tp_function_save_c(f, "/nowhere/n.c", 2, NULL, 1, y, NULL));
    BAD(b, TP_E_NULL, tp_function_save_c(f, "/nowhere/n.c", 2, x, 1, NULL, NULL));
    BAD(b, TP_E_NULL, tp_function_save_c(f, "/nowhere/n.c", 2, x, 2, y, NULL));
    BAD(b, TP_E_VALUE, tp_function_save_c(f, "/nowhere/n.c", -1, x, 1, y, NULL));
    BAD(b, TP_E_VALUE, tp_function_save_c(f, "/nowhere/n.c", 2, x, 0, y, NULL));
    BAD(b, TP_E_VALUE, tp_function_save_c(f, "/nowhere/n", 2, x, 1, y, NULL));
    BAD(b, TP_E_STATE, tp_function_save_c(f, "/nowhere/n.c", 1, x, 1, y, NULL));
    BAD(b, TP_E_IO, tp_function_save_c(f, "/nowhere/n.c", 2, x, 1, y, NULL));
    tp_function_free(f);
}

MISUSE(tp_function_wait)
{
    assert_int_equal(tp_function_wait(NULL), TP_E_NULL);
    assert_int_equal(tp_function_wait(function_of(b, true)), TP_OK);
    assert_int_equal(tp_function_wait(function_of(b, false)), TP_OK);
}

/* a line each, for misuse_list.sh */
/* clang-format off */
const misuse misuse_capture[] = {
    LISTED(tp_function_new),
    LISTED(tp_function_free),
    LISTED(tp_function_call),
    LISTED(tp_function_apply),
    LISTED(tp_function_watch),
    LISTED(tp_function_stats_of),
    LISTED(tp_function_text),
    LISTED(tp_function_wait),
    LISTED(tp_function_save_c),
    {0},
};
/* clang-format on */
