/* clang-format off */
/* Blocks in all their forms, nested, in C and in C++: compiled by compile.sh with every warning on. */
#include <tapir/tapir.h>

static tp_tensor *positive(tp_tensor *t)
{
    return tp_gt(tp_mean(t, TP_ALL, false), tp_scalar_like(t, 0));
}

tp_tensor *nested(tp_tensor *x, tp_tensor *v);

tp_tensor *nested(tp_tensor *x, tp_tensor *v)
{
    tp_ctx *tp = tp_ctx_of(x);
    tp_tensor *ys = NULL, *zs = NULL;
    tp_if (positive(v), &v)
        v = tp_neg(v);
    tp_if (positive(v), &v)
        v = tp_neg(v);
    tp_else v = tp_sin(v);
    tp_if (positive(v), &v) {
        v = tp_neg(v);
    }
    tp_else tp_if (positive(x), &v)
    {
        v = tp_cos(v);
    }
    tp_else
    {
        v = tp_exp(v);
    }
    if (tp_rank(v) == 1) {
        tp_if (positive(v), &v) {
            v = tp_neg(v);
        }
    } else {
        tp_for (2, &v)
            v = tp_neg(v);
    }
    for (int i = 0; i < 2; i++)
        tp_if (positive(v), &v) {
            v = tp_neg(v);
            continue;
        }
    tp_for (tp_dim(x, 0), &v) {
        tp_tensor *row = tp_each(x);
        tp_while (positive(row), &row, &v) {
            row = tp_sub(row, tp_scalar_like(row, 1));
            tp_if (positive(v),
                   &v,
                   &row) {
                v = tp_add(v, tp_cast(tp_turn(tp), TP_F32));
            }
            tp_else
            {
                tp_for_back (
                    3,
                    &v) {
                    tp_checkpoint(tp);
                    v = tp_mul(v, v);
                    tp_emit(&zs, v);
                }
            }
        }
        tp_emit(&ys, row);
    }
    return tp_add(v, ys);
}
