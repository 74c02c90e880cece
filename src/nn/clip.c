/* Gradients made smaller. */
#include "tapir/composites.h"
#include "tapir/train.h"

#undef TP_PLACE
#define TP_PLACE file, line

static tp_tensor *refuse(const char *file, int line, int n, tp_tensor *const *g,
                         tp_tensor **out)
{
    return n < 1 || !g || !out ? tp_fail(n < 1 || !g ? NULL : tp_ctx_of(g[0]), TP_E_NULL,
                                         "there are no gradients to clip")
                               : NULL;
}

tp_tensor *tp_clip_norm_at(const char *file, int line, int n, tp_tensor *const *g, double most,
                           tp_tensor **out)
{
    tp_tensor *norm = refuse(file, line, n, g, out);
    if (norm)
        return norm;
    for (int i = 0; i < n; i++) {
        tp_tensor *squares = tp_sum(tp_square(g[i]), TP_ALL, false);
        norm = norm ? tp_add(norm, squares) : squares;
    }
    norm = tp_sqrt(norm);
    tp_tensor *part = tp_min(tp_div(most, tp_add(norm, 1e-6)), 1);
    for (int i = 0; i < n; i++)
        out[i] = tp_mul(g[i], tp_cast(part, tp_dtype_of(g[i])));
    return norm;
}

tp_tensor *(tp_clip_norm)(int n, tp_tensor *const *g, double most, tp_tensor **out)
{
    return tp_clip_norm_at(NULL, 0, n, g, most, out);
}

tp_status tp_clip_value_at(const char *file, int line, int n, tp_tensor *const *g, double most,
                           tp_tensor **out)
{
    tp_tensor *failed = refuse(file, line, n, g, out);
    for (int i = 0; i < n && !failed; i++) {
        out[i] = tp_clip(g[i], -most, most);
        failed = tp_failed(out[i]) ? out[i] : NULL;
    }
    return failed ? tp_status_of(failed) : TP_OK;
}

tp_status(tp_clip_value)(int n, tp_tensor *const *g, double most, tp_tensor **out)
{
    return tp_clip_value_at(NULL, 0, n, g, most, out);
}
