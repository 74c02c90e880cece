/* vmap(f)[i] is f of sample i, bit by bit, forward and backward: with samples along each axis of each operand alone,
 * and along some axis of all. */
#include "case.h"
#include "common/same.h"

#include <stdio.h>
#include <string.h>

enum { SAMPLES = 3 };

typedef struct mapped {
    tp_ctx *tp;
    const op_case *c;
    case_results each[SAMPLES]; /* f of sample i alone */
    tp_tensor *x[SAMPLES][CASE_MAX_IN];
    bool shared[CASE_MAX_IN]; /* in this run: all samples have operand k of sample 0 */
    int axis[CASE_MAX_IN];
    int n_out;
} mapped;

static void body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const mapped *m = user;
    case_results r;
    tp_tensor *x[CASE_MAX_IN] = {0};
    memcpy(x, in, sizeof *x * (size_t)n_in);
    case_evaluate(m->tp, m->c, (case_kind){0}, x, &r);
    for (int k = 0; k < n_out; k++)
        out[k] = r.t[k < r.n ? k : 0];
}

static void describe(const mapped *m, char *text, size_t size)
{
    size_t n = 0;
    *text = 0;
    for (int k = 0; k < m->c->n_in && n < size; k++)
        n += (size_t)snprintf(text + n, size - n, m->shared[k] ? " shared" : " axis %d",
                              m->axis[k]);
}

static void compare(const case_options *o, const mapped *m, tp_tensor *const *out,
                    const int *out_axes)
{
    char how[200], why[600];
    describe(m, how, sizeof how);
    for (int k = 0; k < m->n_out; k++)
        for (int i = 0; i < SAMPLES; i++) {
            tp_tensor *one = tp_contiguous(tp_select(out[k], out_axes[k], i));
            if (!same_tensors(one, m->each[i].t[k], SAME_ZEROS_BITS, why, sizeof why)) {
                case_fail(o, m->c, "vmap,%s: %s number %d of sample %d: %s", how,
                          m->each[i].what[k], k, i, why);
                return;
            }
        }
}

/* Alone, with the operands that this run has. False: not all are as the first. */
static bool evaluate_alone(mapped *m)
{
    for (int i = 0; i < SAMPLES; i++) {
        tp_tensor *x[CASE_MAX_IN];
        for (int k = 0; k < m->c->n_in; k++)
            x[k] = m->x[m->shared[k] ? 0 : i][k];
        tp_seed(m->tp, 1);
        case_evaluate(m->tp, m->c, (case_kind){0}, x, &m->each[i]);
        if (tp_error(m->tp) != TP_OK)
            return false;
        for (int k = 0; k < m->each[i].n; k++)
            if (m->each[i].n != m->each[0].n ||
                !tpi_same_shape(m->each[i].t[k], m->each[0].t[k]))
                return false;
    }
    m->n_out = m->each[0].n;
    return true;
}

/* Which is one of one sample. */
static bool has_own_gradient(const op_case *c)
{
    return strcmp(c->op, "custom") == 0 || strcmp(c->op, "own_kernel") == 0;
}

/* Sizes that values decide differ from sample to sample; some compositions need all axes that there can be; and a
 * gradient of the user's own is refused where another one may be asked around it. */
static bool is_refused(const mapped *m)
{
    static const char *const by_values[] = {"nonzero", "masked_select", "unique", "ragged",
                                            "lstm"};
    const char *message = tp_error_message(m->tp);
    for (size_t i = 0; i < sizeof by_values / sizeof *by_values; i++)
        if (strncmp(m->c->op, by_values[i], strlen(by_values[i])) == 0 &&
            strstr(message, "samples may have different numbers"))
            return true;
    if (strcmp(m->c->op, "assign") == 0)
        return strstr(message, "assigns a variable");
    if (has_own_gradient(m->c))
        return strstr(message, "its own gradient is one of one sample");
    return tp_error(m->tp) == TP_E_AXIS && strstr(message, "with the axis of the samples");
}

static void run(const case_options *o, mapped *m)
{
    const op_case *c = m->c;
    tp_ctx *tp = m->tp;
    int in_axes[CASE_MAX_IN], out_axes[CASE_MAX_OUT];
    tp_tensor *in[CASE_MAX_IN], *out[CASE_MAX_OUT], *row[SAMPLES];
    char how[200];
    if (!evaluate_alone(m)) { /* sizes that values decide, numbers outside */
        tp_clear_error(tp);
        return;
    }
    for (int k = 0; k < c->n_in; k++) {
        in_axes[k] = m->shared[k] ? TP_SHARED : m->axis[k];
        for (int i = 0; i < SAMPLES; i++)
            row[i] = m->x[i][k];
        in[k] = m->shared[k] ? row[0] : tp_stack(SAMPLES, row, m->axis[k]);
        in[k] = has_own_gradient(c) ? tp_detach(in[k]) : in[k];
    }
    for (int k = 0; k < m->n_out; k++)
        out_axes[k] = k % (tp_rank(m->each[0].t[k]) + 1);
    tp_seed(tp, 1);
    tp_vmap(body, m, c->n_in, in, m->n_out, out,
            &(tp_vmap_options){.in_axes = in_axes, .out_axes = out_axes, .same_draws = true});
    if (tp_error(tp) == TP_OK) {
        compare(o, m, out, out_axes);
        return;
    }
    describe(m, how, sizeof how);
    if (!is_refused(m))
        case_fail(o, c, "vmap,%s: %s", how, tp_error_message(tp));
    tp_clear_error(tp);
}

/* What the function computes on all operands' samples, along the first axis; what is wrong is printed. */
static void check_all(const case_options *o, mapped *m, tp_tensor *const *out, const char *how)
{
    tp_ctx *tp = m->tp;
    char why[600];
    if (tp_error(tp) != TP_OK) {
        if (!is_refused(m))
            case_fail(o, m->c, "%s: %s", how, tp_error_message(tp));
        tp_clear_error(tp);
        return;
    }
    for (int k = 0; k < m->n_out; k++)
        for (int i = 0; i < SAMPLES; i++) {
            tp_tensor *one = tp_contiguous(tp_select(out[k], 0, i));
            if (!same_tensors(one, m->each[i].t[k], SAME_ZEROS_BITS, why, sizeof why)) {
                case_fail(o, m->c, "%s: %s number %d of sample %d: %s", how, m->each[i].what[k],
                          k, i, why);
                return;
            }
        }
}

static const tp_vmap_options same_draws = {.same_draws = true};

/* A vmap of one sample inside of each sample of another. */
static void outer_body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    tp_tensor *x[CASE_MAX_IN];
    for (int k = 0; k < n_in; k++)
        x[k] = tp_unsqueeze(in[k], 0);
    tp_vmap(body, user, n_in, x, n_out, out, &same_draws);
    for (int k = 0; k < n_out; k++)
        out[k] = tp_select(out[k], 0, 0);
}

static void run_in_graph(const case_options *o, mapped *m, tp_tensor *const *in)
{
    tp_ctx *tp = m->tp;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x[CASE_MAX_IN], *out[CASE_MAX_OUT];
    tp_feed feeds[CASE_MAX_IN];
    const char *names[CASE_MAX_OUT];
    char text[CASE_MAX_IN + CASE_MAX_OUT][16];
    for (int k = 0; k < m->c->n_in; k++) {
        int64_t shape[TP_MAX_RANK];
        for (int axis = 0; axis < tp_rank(in[k]); axis++)
            shape[axis] = axis ? tp_dim(in[k], axis) : tp_symbol(g, "samples");
        snprintf(text[k], sizeof text[k], "x%d", k);
        x[k] = tp_placeholder(g, text[k], tp_dtype_of(in[k]), tp_rank(in[k]), shape);
        feeds[k] = (tp_feed){text[k], in[k]};
    }
    tp_vmap(body, m, m->c->n_in, x, m->n_out, out, &same_draws);
    for (int k = 0; k < m->n_out && tp_error(tp) == TP_OK; k++) {
        snprintf(text[CASE_MAX_IN + k], sizeof text[0], "y%d", k);
        if (!tp_name_of(out[k]))
            tp_name(out[k], text[CASE_MAX_IN + k]);
        names[k] = tp_name_of(out[k]);
    }
    tp_seed(tp, 1);
    if (tp_error(tp) == TP_OK)
        tp_graph_run(g, m->c->n_in, feeds, m->n_out, names, out);
    check_all(o, m, out, "vmap in a graph");
    tp_graph_free(g);
}

/* In other surroundings: of all operands' samples. */
static void run_around(const case_options *o, mapped *m)
{
    tp_tensor *in[CASE_MAX_IN], *out[CASE_MAX_OUT], *row[SAMPLES];
    if (!evaluate_alone(m)) {
        tp_clear_error(m->tp);
        return;
    }
    for (int k = 0; k < m->c->n_in; k++) {
        for (int i = 0; i < SAMPLES; i++)
            row[i] = m->x[i][k];
        in[k] = tp_stack(SAMPLES, row, 0);
    }
    tp_seed(m->tp, 1);
    tp_vmap(outer_body, m, m->c->n_in, in, m->n_out, out, &same_draws);
    check_all(o, m, out, "vmap of vmap");
    run_in_graph(o, m, in);
}

static void run_ways(const case_options *o, mapped *m)
{
    const op_case *c = m->c;
    for (int k = 0; k < c->n_in; k++) { /* all */
        m->axis[k] = c->line % (c->in[k].rank + 1);
        if (c->in[k].rank == TP_MAX_RANK)
            return;
    }
    run(o, m);
    run_around(o, m);
    for (int only = 0; only < c->n_in && c->n_in > 1; only++) {
        for (int k = 0; k < c->n_in; k++)
            m->shared[k] = k != only;
        for (m->axis[only] = 0; m->axis[only] <= c->in[only].rank; m->axis[only]++)
            run(o, m);
    }
}

int case_mode_vmap(const case_options *o, op_case *cases, int n)
{
    int looked_at = 0;
    for (int i = 0; i < n; i++) {
        if (!case_wanted(o, &cases[i]) || cases[i].fails != TP_OK || cases[i].n_in == 0)
            continue;
        mapped m = {.tp = tp_open(NULL), .c = &cases[i]};
        tp_seed(m.tp, o->seed);
        tp_scope_begin(m.tp);
        for (int s = 0; s < SAMPLES; s++) {
            case_draw_operands(m.tp, m.c, o->seed + (uint64_t)s, false, m.x[s]);
            for (int k = 0; k < m.c->n_in; k++)
                if (case_is_float(tp_dtype_of(m.x[s][k])))
                    tp_require_grad(m.x[s][k]);
        }
        run_ways(o, &m);
        tp_close(m.tp);
        looked_at++;
    }
    return looked_at;
}
