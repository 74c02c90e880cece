/* Forward mode against reverse mode twice: the gradient is linear in what it is handed, and its gradient by that is the
 * derivative along a direction. In f64. The values are those of the function, bit by bit. */
#include "case.h"
#include "common/same.h"

#include <math.h>
#include <string.h>

typedef struct directed {
    tp_ctx *tp;
    const op_case *c;
    tp_tensor *x[CASE_MAX_IN], *d[CASE_MAX_IN]; /* d: NULL of what is no float */
} directed;

static void body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const directed *m = user;
    tp_tensor *x[CASE_MAX_IN] = {0};
    (void)n_out;
    memcpy(x, in, sizeof *x * (size_t)n_in);
    out[0] = m->c->call(m->tp, x);
}

/* By reverse mode twice; NULL: it has none. */
static tp_tensor *twice_back(const directed *m, tp_tensor *y)
{
    tp_tensor *sum = NULL, *xs[CASE_MAX_IN], *dx[CASE_MAX_IN], *dir[CASE_MAX_IN], *part;
    tp_tensor *dy =
        tp_require_grad(tp_detach(tp_full(m->tp, tp_dtype_of(y), tp_rank(y), y->shape, 0)));
    int n = 0;
    for (int k = 0; k < m->c->n_in; k++)
        if (m->d[k]) {
            dir[n] = m->d[k];
            xs[n++] = m->x[k];
        }
    if (!tp_requires_grad(y) || tp_grads(y, dy, n, xs, dx) != TP_OK)
        return NULL;
    for (int k = 0; k < n; k++) {
        if (!tp_requires_grad(dx[k])) /* it does not depend on y's weights */
            continue;
        if (tp_grads(dx[k], dir[k], 1, &dy, &part) != TP_OK)
            return NULL;
        sum = sum ? tp_add(sum, part) : part;
    }
    return sum ? sum : dy;
}

static void compare(const case_options *o, const directed *m, tp_tensor *got, tp_tensor *want)
{
    got = tp_contiguous(got);
    want = tp_contiguous(want);
    const double *g = tp_data(got), *w = tp_data(want);
    double most = 1;
    for (int64_t i = 0; i < tp_count(want); i++)
        most = isfinite(w[i]) && fabs(w[i]) > most ? fabs(w[i]) : most;
    for (int64_t i = 0; i < tp_count(want); i++)
        if (!(fabs(g[i] - w[i]) <= 1e-10 * most) && !(isnan(w[i]) && isnan(g[i])) &&
            g[i] != w[i]) {
            case_fail(o, m->c, "jvp: element %d is %.17g, by reverse mode twice %.17g", (int)i,
                      g[i], w[i]);
            return;
        }
}

/* What values decide the size of, and assignments. */
static bool is_refused(const directed *m)
{
    const char *message = tp_error_message(m->tp);
    return strstr(message, "values decide how many turns") ||
           (strcmp(m->c->op, "assign") == 0 && strstr(message, "assigns a variable"));
}

/* False: reverse mode has no second gradient here. */
static bool run(const case_options *o, directed *m)
{
    tp_ctx *tp = m->tp;
    tp_tensor *y, *dy, *x[CASE_MAX_IN] = {0};
    char why[600];
    memcpy(x, m->x, sizeof x);
    tp_seed(tp, 1);
    tp_tensor *alone = m->c->call(tp, x);
    if (tp_error(tp) != TP_OK || tp_dtype_of(alone) != TP_F64)
        return false;
    tp_tensor *want = twice_back(m, alone);
    if (tp_error(tp) != TP_OK || !want)
        return false;
    tp_seed(tp, 1);
    tp_jvp(body, m, m->c->n_in, m->x, m->d, 1, &y, &dy);
    if (tp_error(tp) != TP_OK) {
        if (!is_refused(m))
            case_fail(o, m->c, "jvp: %s", tp_error_message(tp));
    } else if (!same_tensors(tp_contiguous(y), alone, SAME_ZEROS_BITS, why, sizeof why))
        case_fail(o, m->c, "jvp, the value: %s", why);
    else
        compare(o, m, dy, want);
    return true;
}

int case_mode_jvp(const case_options *o, op_case *cases, int n)
{
    int looked_at = 0;
    for (int i = 0; i < n; i++) {
        const op_case *c = &cases[i];
        if (!case_wanted(o, c) || c->fails != TP_OK || c->n_in == 0)
            continue;
        directed m = {.tp = tp_open(NULL), .c = c};
        tp_scope_begin(m.tp);
        case_draw_operands(m.tp, c, o->seed, true, m.x);
        tp_seed(m.tp, o->seed);
        bool any = false,
             plain = true; /* where slopes are infinite the two have NaN at different places */
        for (int k = 0; k < c->n_in; k++) {
            if (!case_is_float(tp_dtype_of(m.x[k])))
                continue;
            m.d[k] = tp_normal_like(m.x[k], 0, 1);
            tp_require_grad(m.x[k]);
            any = true;
            plain &= c->in[k].draw != DRAW_SPECIAL && tp_count(m.x[k]) > 0;
        }
        looked_at += any && plain && run(o, &m);
        tp_close(m.tp);
    }
    return looked_at;
}
