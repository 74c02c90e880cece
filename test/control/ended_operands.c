/* What a block of a graph made ends with it. Every function that takes several tensors finds such an
 * operand, whichever it is, and names it; so do those that make something like one. */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <string.h>

enum { MOST = 5 };

typedef struct call {
    const char *name;
    const char *types; /* of its operands, a letter each: see make() */
    bool (*fails)(tp_tensor **x);
} call;

static tp_tensor *make(tp_graph *g, const char *name, char type)
{
    const int64_t s[] = {2, 3}, m[] = {3, 2}, v[] = {3}, i[] = {2}, one[] = {1};
    const int64_t image[] = {1, 2, 4, 4}, kernel[] = {3, 2, 2, 2}, image_out[] = {1, 3, 3, 3};
    switch (type) {
    case 'f':
        return tp_placeholder(g, name, TP_F32, 2, s);
    case 'm':
        return tp_placeholder(g, name, TP_F32, 2, m);
    case 'v':
        return tp_placeholder(g, name, TP_F32, 1, v);
    case 'b':
        return tp_placeholder(g, name, TP_BOOL, 2, s);
    case 'p':
        return tp_placeholder(g, name, TP_BOOL, 1, one);
    case 'i':
        return tp_placeholder(g, name, TP_I64, 1, i);
    case 'a':
        return tp_placeholder(g, name, TP_I64, 2, s);
    case 'x':
        return tp_placeholder(g, name, TP_F32, 4, image);
    case 'w':
        return tp_placeholder(g, name, TP_F32, 4, kernel);
    case 'o':
        return tp_placeholder(g, name, TP_F32, 4, image_out);
    default:
        fail_msg("no type %c", type);
    }
    return NULL;
}

#define FAILS(name, call)                                                                      \
    static bool name##_fails(tp_tensor **x)                                                    \
    {                                                                                          \
        return call;                                                                           \
    }

#define OPS(X)                                                                                 \
    X(tp_add, "ff", x[0], x[1])                                                                \
    X(tp_sub, "ff", x[0], x[1])                                                                \
    X(tp_mul, "ff", x[0], x[1])                                                                \
    X(tp_div, "ff", x[0], x[1])                                                                \
    X(tp_pow, "ff", x[0], x[1])                                                                \
    X(tp_min, "ff", x[0], x[1])                                                                \
    X(tp_max, "ff", x[0], x[1])                                                                \
    X(tp_mod, "ff", x[0], x[1])                                                                \
    X(tp_eq, "ff", x[0], x[1])                                                                 \
    X(tp_ne, "ff", x[0], x[1])                                                                 \
    X(tp_lt, "ff", x[0], x[1])                                                                 \
    X(tp_le, "ff", x[0], x[1])                                                                 \
    X(tp_gt, "ff", x[0], x[1])                                                                 \
    X(tp_ge, "ff", x[0], x[1])                                                                 \
    X(tp_and, "bb", x[0], x[1])                                                                \
    X(tp_or, "bb", x[0], x[1])                                                                 \
    X(tp_xor, "bb", x[0], x[1])                                                                \
    X(tp_where, "bff", x[0], x[1], x[2])                                                       \
    X(tp_recur, "ff", x[0], x[1], 0, false)                                                    \
    X(tp_gather, "fi", x[0], x[1], 0)                                                          \
    X(tp_take_along, "fa", x[0], x[1], 0)                                                      \
    X(tp_scatter_add, "fif", x[0], x[1], x[2], 0)                                              \
    X(tp_scatter, "fif", x[0], x[1], x[2], 0)                                                  \
    X(tp_scatter_max, "fif", x[0], x[1], x[2], 0)                                              \
    X(tp_scatter_min, "fif", x[0], x[1], x[2], 0)                                              \
    X(tp_scatter_mul, "fif", x[0], x[1], x[2], 0)                                              \
    X(tp_put_along_add, "faf", x[0], x[1], x[2], 0)                                            \
    X(tp_concat, "ffff", 4, x, 0)                                                              \
    X(tp_stack, "ffff", 4, x, 0)                                                               \
    X(tp_matmul, "fm", x[0], x[1])                                                             \
    X(tp_conv, "xw", x[0], x[1], NULL)                                                         \
    X(tp_conv_dx, "ow", x[0], x[1], TP_DIMS(4, 4), NULL)                                       \
    X(tp_conv_dw, "xo", x[0], x[1], TP_DIMS(2, 2), NULL)                                       \
    X(tp_conv_transpose, "ow", x[0], x[1], NULL, NULL)                                         \
    X(tp_cross_entropy, "fi", x[0], x[1])                                                      \
    X(tp_cross_entropy_with, "fiv", x[0], x[1], &(tp_loss_options){.weights = x[2]})           \
    X(tp_nll, "fiv", x[0], x[1], &(tp_loss_options){.weights = x[2]})                          \
    X(tp_l1, "ff", x[0], x[1], TP_MEAN)                                                        \
    X(tp_huber, "ff", x[0], x[1], 1, TP_MEAN)                                                  \
    X(tp_hinge, "ff", x[0], x[1], TP_MEAN)                                                     \
    X(tp_bce, "ff", x[0], x[1], TP_MEAN)                                                       \
    X(tp_bce_with_logits, "ffvv", x[0], x[1], x[2], x[3], TP_MEAN)                             \
    X(tp_kl_div, "ff", x[0], x[1], TP_MEAN)                                                    \
    X(tp_poisson_nll, "ff", x[0], x[1], TP_MEAN)                                               \
    X(tp_cosine_similarity, "ff", x[0], x[1], 1, 0)                                            \
    X(tp_cosine_loss, "ffi", x[0], x[1], x[2], 0, TP_MEAN)                                     \
    X(tp_triplet, "fff", x[0], x[1], x[2], 1, TP_MEAN)                                         \
    X(tp_ctc_loss, "faii", tp_unsqueeze(x[0], 0), x[1], x[2], x[3], 0, TP_MEAN)                \
    X(tp_rms_norm, "fv", x[0], x[1], 1e-5)                                                     \
    X(tp_group_norm, "fvv", x[0], 3, x[1], x[2], 1e-5)                                         \
    X(tp_instance_norm, "x", x[0], NULL, NULL, 1e-5)                                           \
    X(tp_attention, "xxxxx", x[0], x[1], x[2],                                                 \
      &(tp_attention_options){.past_key = x[3], .past_value = x[4]}, NULL)                     \
    X(tp_rotary, "xxx", x[0], tp_slice(x[1], 3, 0, 2, 1), tp_slice(x[2], 3, 0, 2, 1), false)   \
    X(tp_mse, "ff", x[0], x[1])                                                                \
    X(tp_layer_norm, "fvv", x[0], x[1], x[2], 1e-5)                                            \
    X(tp_batch_norm, "fvvvv", x[0], x[1], x[2], x[3], x[4], 1e-5)                              \
    X(tp_linear, "fmi", x[0], x[1], tp_cast(x[2], TP_F32))                                     \
    X(tp_group, "fff", 3, x)                                                                   \
    X(tp_grad, "ff", x[0], x[1])                                                               \
    X(tp_neg, "f", x[0])                                                                       \
    X(tp_extent, "f", x[0], TP_ALL, TP_F32)                                                    \
    X(tp_scalar_like, "f", x[0], 3)                                                            \
    X(tp_uniform_like, "f", x[0], 0, 1)                                                        \
    X(tp_normal_like, "f", x[0], 0, 1)                                                         \
    X(tp_dropout, "f", x[0], 0.5)                                                              \
    X(tp_dot, "vv", x[0], x[1])                                                                \
    X(tp_outer, "vv", x[0], x[1])                                                              \
    X(tp_kron, "ff", x[0], x[1])                                                               \
    X(tp_tensordot, "fm", x[0], x[1], 1, (const int64_t[]){1}, (const int64_t[]){0})           \
    X(tp_einsum, "fm", "ij,jk->ki", 2, x)                                                      \
    X(tp_cumprod, "f", x[0], 0, false, false)                                                  \
    X(tp_quantile, "f", x[0], 0.3, 0, false)                                                   \
    X(tp_diagonal, "f", x[0], 0)                                                               \
    X(tp_diag, "f", x[0], 1)                                                                   \
    X(tp_tril, "f", x[0], 0)                                                                   \
    X(tp_tile, "f", x[0], TP_DIMS(2))                                                          \
    X(tp_roll, "f", x[0], 1, 0)

#define OP(f, types, ...) FAILS(f, tp_failed(f(__VA_ARGS__)))
OPS(OP)
#undef OP

FAILS(tp_grads, tp_grads(x[0], x[1], 2, x + 2, (tp_tensor *[2]){NULL, NULL}) != TP_OK)

FAILS(tp_meshgrid, tp_meshgrid(2, x, (tp_tensor *[2]){NULL, NULL}) != TP_OK)

/* Variables, which are made before any block. */
static tp_tensor *assigned, *mean, *var;

static void make_variables(tp_ctx *tp)
{
    assigned = tp_variable(tp_full(tp, TP_F32, TP_DIMS(2, 3), 0), "assigned");
    mean = tp_variable(tp_full(tp, TP_F32, TP_DIMS(3), 0), "mean");
    var = tp_variable(tp_full(tp, TP_F32, TP_DIMS(3), 1), "var");
}

/* A variable has its value changed from outside of the block by a value of inside. */
static bool tp_assign_fails(tp_tensor **x)
{
    return tp_failed(tp_assign(assigned, x[0]));
}

static bool tp_batch_norm_train_fails(tp_tensor **x)
{
    return tp_failed(tp_batch_norm_train(x[0], x[1], x[2], mean, var, 0.1, 1e-5));
}

static bool tp_if_fails(tp_tensor **x)
{
    tp_tensor *a = x[1], *b = x[2];
    tp_if (tp_reshape(x[0], TP_SCALAR), &a, &b) {
        a = tp_neg(a);
        b = tp_neg(b);
    }
    return tp_failed(a) || tp_failed(b);
}

static bool tp_while_fails(tp_tensor **x)
{
    tp_tensor *a = x[1], *b = x[2];
    tp_while (tp_and(tp_reshape(x[0], TP_SCALAR),
                     tp_lt(tp_sum(a, TP_ALL, false), tp_sum(b, TP_ALL, false))),
              &a, &b) {
        a = tp_neg(a);
        b = tp_neg(b);
    }
    return tp_failed(a) && tp_failed(b);
}

static bool tp_for_fails(tp_tensor **x)
{
    tp_tensor *a = x[0], *b = x[1], *ys = NULL;
    tp_for (2, &a, &b) {
        a = tp_add(a, tp_each(x[2]));
        b = tp_add(b, tp_each(x[3]));
        tp_emit(&ys, b);
    }
    return tp_failed(a) && tp_failed(b);
}

static bool tp_emit_fails(tp_tensor **x)
{
    tp_tensor *a = x[0], *ys = NULL;
    bool failed = false;
    tp_for (2, &a) {
        a = tp_neg(a);
        failed = tp_emit(&ys, x[1]) != TP_OK;
    }
    return failed || tp_failed(a);
}

static void add_all(void *user, int n, tp_tensor **v, int n_xs, tp_tensor *const *xs, int n_ys,
                    tp_tensor **ys)
{
    (void)user, (void)n, (void)n_ys;
    for (int i = 0; i < n_xs; i++)
        v[0] = tp_add(v[0], xs[i]);
    ys[0] = v[0];
}

static bool tp_scan_fails(tp_tensor **x)
{
    tp_tensor *v = x[0], *ys = NULL;
    return tp_scan(2, NULL, add_all, NULL, 1, &v, 2, x + 1, 1, &ys) != TP_OK;
}

static void negate_all(void *user, int n, tp_tensor **v)
{
    (void)user;
    for (int i = 0; i < n; i++)
        v[i] = tp_neg(v[i]);
}

static bool tp_cond_fails(tp_tensor **x)
{
    tp_tensor *v[] = {x[1], x[2]};
    return tp_cond(tp_reshape(x[0], TP_SCALAR), negate_all, NULL, NULL, 2, v) != TP_OK;
}

static tp_tensor *is_less(void *user, int n, tp_tensor *const *v)
{
    (void)user, (void)n;
    return tp_lt(tp_sum(v[0], TP_ALL, false), tp_sum(v[1], TP_ALL, false));
}

static bool tp_while_loop_fails(tp_tensor **x)
{
    tp_tensor *v[] = {x[0], x[1]};
    return tp_while_loop(is_less, negate_all, NULL, 2, v) != TP_OK;
}

static void add_in(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_out;
    out[0] = in[0];
    for (int i = 1; i < n_in; i++)
        out[0] = tp_add(out[0], in[i]);
}

static bool tp_function_call_fails(tp_tensor **x)
{
    tp_function *f = tp_function_new(tp_ctx_of(x[0]), "sums", add_in, NULL, NULL);
    tp_tensor *y = NULL;
    const bool failed = tp_function_call(f, 3, x, 1, &y) != TP_OK;
    return failed && tp_failed(y);
}

static bool tp_function_apply_fails(tp_tensor **x)
{
    tp_function *f = tp_function_new(tp_ctx_of(x[0]), "sums", add_in, NULL, NULL);
    return tp_failed(tp_function_apply(f, 3, x));
}

/* clang-format off */
static const call calls[] = {
#define OP(f, types, ...) {#f, types, f##_fails},
    OPS(OP)
#undef OP
    {"tp_grads", "ffff", tp_grads_fails},
    {"tp_meshgrid", "vv", tp_meshgrid_fails},
    {"tp_assign", "f", tp_assign_fails},
    {"tp_batch_norm_train", "fvv", tp_batch_norm_train_fails},
    {"tp_if", "pff", tp_if_fails},
    {"tp_while", "pff", tp_while_fails},
    {"tp_for, tp_each", "vvff", tp_for_fails},
    {"tp_emit", "ff", tp_emit_fails},
    {"tp_scan", "vff", tp_scan_fails},
    {"tp_cond", "pff", tp_cond_fails},
    {"tp_while_loop", "ff", tp_while_loop_fails},
    {"tp_function_call", "fff", tp_function_call_fails},
    {"tp_function_apply", "fff", tp_function_apply_fails},
};
/* clang-format on */

/* How many operands are of an ended block, and whether another block is open around the call. */
typedef enum around { NOTHING, A_BLOCK, AN_INNER_BLOCK, N_AROUND } around;
static const char *const around_names[] = {"behind the block", "in another block",
                                           "in the block around it"};

/* A block makes operands like x[n]. */
static void make_in_block(tp_tensor *listed, int n, tp_tensor *const *x, tp_tensor **made)
{
    tp_for (2, &listed) {
        listed = tp_neg(listed);
        for (int i = 0; i < n; i++)
            made[i] = tp_dtype_of(x[i]) == TP_BOOL ? tp_not(x[i]) : tp_neg(x[i]);
    }
}

static bool told(tp_ctx *tp, const call *c, tp_tensor **x, unsigned ended, around where)
{
    const bool failed = c->fails(x);
    const char *text = tp_error_message(tp);
    if (failed && tp_error(tp) == TP_E_STATE && strstr(text, "has ended: list a variable"))
        return true;
    print_error("%s, operands %#x of an ended block, %s: %s, error: %s\n", c->name, ended,
                around_names[where], failed ? "fails" : "succeeds", text);
    return false;
}

static const char *const names[MOST] = {"a", "b", "c", "d", "e"};

static bool find_ended(const call *c, unsigned ended, around where)
{
    tp_ctx *tp = tp_open(NULL);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x[MOST], *made[MOST], *h = make(g, "h", 'f');
    const int n = (int)strlen(c->types);
    make_variables(tp);
    for (int i = 0; i < n; i++)
        x[i] = make(g, names[i], c->types[i]);
    bool ok = true;
    if (where == NOTHING) {
        make_in_block(h, n, x, made);
        for (int i = 0; i < n; i++)
            x[i] = ended >> i & 1 ? made[i] : x[i];
        ok = told(tp, c, x, ended, where);
    } else {
        if (where == A_BLOCK)
            make_in_block(h, n, x, made);
        tp_for (3, &h) {
            h = tp_neg(h);
            if (where == AN_INNER_BLOCK)
                make_in_block(h, n, x, made);
            for (int i = 0; i < n; i++)
                x[i] = ended >> i & 1 ? made[i] : x[i];
            ok = told(tp, c, x, ended, where);
        }
    }
    tp_close(tp);
    return ok;
}

static void each_operand_is_found(void **state)
{
    (void)state;
    int bad = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const unsigned all = (1u << strlen(calls[i].types)) - 1;
        for (unsigned ended = 1; ended <= all; ended++)
            for (around where = NOTHING; where < N_AROUND; where++)
                bad += !find_ended(&calls[i], ended, where);
    }
    assert_int_equal(bad, 0);
}

/* The one that the loop of the issue has. */
static void a_later_operand(void **state)
{
    (void)state;
    tp_ctx *tp = tp_open(NULL);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *h = tp_placeholder(g, "h", TP_F32, TP_DIMS(2)), *k = h;
    tp_for (3, &h) {
        k = tp_add(k, h);
        h = k;
    }
    assert_true(tp_failed(tp_add(h, k)));
    assert_non_null(strstr(tp_error_message(tp), "add of line"));
    tp_clear_error(tp);
    assert_false(tp_failed(tp_neg(h)));
    tp_close(tp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_later_operand),
                                       cmocka_unit_test(each_operand_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
