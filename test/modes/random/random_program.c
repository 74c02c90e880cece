#include "random_program.h"

#include <math.h>
#include <string.h>

static uint64_t next(uint64_t *s)
{
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return *s * UINT64_C(0x2545f4914f6cdd1d);
}

static int below(uint64_t *s, int n)
{
    return (int)(next(s) >> 33) % n;
}

/* ---- making ------------------------------------------------------------------------------ */

/* What kind of program a seed makes: mostly short ones, since those are looked at soon; some long
 * ones, where passes meet; some of large values, which are cut over threads. */
typedef struct style {
    int fewest, more; /* steps */
    int64_t most_elements;
    int order;
} style;

enum { SMALL = 3000, LARGE = 40000 };

static style style_of(uint64_t *s)
{
    const int kind = below(s, 10), order = below(s, 8);
    if (kind < 7)
        return (style){3, 10, SMALL, order == 0 ? 0 : order == 1 ? 2 : 1};
    if (kind < 9)
        return (style){16, 28, SMALL, order == 0 ? 0 : 1};
    return (style){2, 5, LARGE, order < 4 ? 0 : 1};
}

/* Finite and small, so that bits tell something; and not too many. */
static bool is_useful(tp_tensor *t, int64_t most_elements)
{
    if (tp_failed(t) || tp_rank(t) > 4 || tp_count(t) > most_elements || tp_count(t) == 0 ||
        tp_dtype_of(t) != TP_F32)
        return false;
    const float *v = tp_data(tp_contiguous(t));
    for (int64_t i = 0; v && i < tp_count(t); i++)
        if (!(fabsf(v[i]) < 1e4f))
            return false;
    return v;
}

void program_make(tp_ctx *tp, uint64_t seed, program *p)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 17, 70, 300};
    uint64_t s = seed * UINT64_C(0x9e3779b97f4a7c15) + 77;
    for (int i = 0; i < 16; i++)
        next(&s);
    const style of = style_of(&s);
    const bool large = of.most_elements == LARGE;
    *p = (program){.seed = seed, .order = of.order};
    p->n_inputs = 2 + below(&s, MAX_INPUTS - 1);
    const int64_t common[2] = {sizes[1 + below(&s, 5)],
                               sizes[large ? 7 + below(&s, 2) : below(&s, 8)]};
    for (int i = 0; i < p->n_inputs; i++) {
        p->rank[i] = 1 + below(&s, 3);
        for (int k = 0; k < p->rank[i]; k++) {
            const int from_end = p->rank[i] - 1 - k;
            p->shape[i][k] =
                from_end < 2 && below(&s, 4) ? common[from_end] : sizes[below(&s, 6)];
        }
    }
    tp_tensor *v[MAX_VALUES];
    program_inputs(tp, p, false, v);
    const int want = of.fewest + below(&s, of.more);
    int n = p->n_inputs;
    for (int tries = 0; p->n_steps < want && tries < 1000; tries++) {
        step t = {.kind = below(&s, n_step_kinds), .i = below(&s, 64), .j = below(&s, 64)};
        t.a = below(&s, 2)   ? n - 1
              : below(&s, 3) ? n - 1 - below(&s, n < 6 ? n : 6)
                             : below(&s, n);
        t.b = below(&s, n);
        t.c = below(&s, n);
        if (step_is_costly(&t) && below(&s, 2))
            continue;
        tp_tensor *y = step_apply(&t, v);
        const bool useful = y && is_useful(y, of.most_elements);
        tp_clear_error(tp);
        if (!useful)
            continue;
        p->steps[p->n_steps++] = t;
        v[n++] = y;
    }
    for (int at = n - 1; p->n_wanted < MAX_WANTED && at >= 0; at -= 1 + below(&s, 4))
        p->wanted[p->n_wanted++] = at;
    program_trim(p);
}

void program_inputs(tp_ctx *tp, const program *p, bool other, tp_tensor **in)
{
    uint64_t s = p->seed + 12345 + other;
    for (int i = 0; i < p->n_inputs; i++) {
        static float data[1 << 17];
        int64_t shape[TP_MAX_RANK], n = 1;
        for (int k = 0; k < p->rank[i]; k++) {
            shape[k] = p->shape[i][k] + (other && p->shape[i][k] > 1);
            n *= shape[k];
        }
        for (int64_t k = 0; k < n; k++)
            data[k] = (float)(int64_t)next(&s) * 0x1p-62f;
        in[i] = tp_tensor_new(tp, TP_F32, p->rank[i], shape, data);
        if (next(&s) >> 63) /* turned in memory */
            in[i] = tp_transpose(tp_contiguous(tp_transpose(in[i], TP_ALL)), TP_ALL);
        tp_require_grad(in[i]);
    }
}

static tp_tensor *add_mean(tp_tensor *loss, tp_tensor *y)
{
    tp_tensor *mean = tp_mean(tp_mul(y, tp_sigmoid(y)), TP_ALL, false);
    return loss ? tp_add(loss, mean) : mean;
}

int program_run(const program *p, tp_tensor *const *in, tp_tensor **out)
{
    tp_tensor *v[MAX_VALUES], *loss = NULL;
    memcpy(v, in, sizeof *v * (size_t)p->n_inputs);
    for (int i = 0; i < p->n_steps; i++)
        v[p->n_inputs + i] = step_apply(&p->steps[i], v);
    int n = p->n_wanted;
    for (int i = 0; i < n; i++) {
        out[i] = v[p->wanted[i]];
        loss = add_mean(loss, out[i]);
    }
    for (int order = 0; order < p->order; order++) {
        tp_grads(loss, NULL, p->n_inputs, in, out + n);
        loss = NULL;
        for (int i = 0; i < p->n_inputs; i++)
            loss = add_mean(loss, out[n++]);
    }
    return n;
}

bool program_has_block(const program *p)
{
    for (int i = 0; i < p->n_steps; i++)
        if (step_is_block(&p->steps[i]))
            return true;
    return false;
}

void program_trim(program *p)
{
    bool needed[MAX_VALUES] = {false};
    int place[MAX_VALUES], n = 0;
    for (int i = 0; i < p->n_wanted; i++)
        needed[p->wanted[i]] = true;
    for (int i = p->n_steps - 1; i >= 0; i--) {
        const step *s = &p->steps[i];
        const unsigned reads = needed[p->n_inputs + i] ? step_reads(s) : 0;
        needed[s->a] |= reads & 1;
        needed[s->b] |= reads & 2;
        needed[s->c] |= reads & 4;
    }
    for (int i = 0; i < p->n_inputs; i++)
        place[i] = i;
    for (int i = 0; i < p->n_steps; i++) {
        if (!needed[p->n_inputs + i])
            continue;
        const step s = p->steps[i];
        place[p->n_inputs + i] = p->n_inputs + n;
        p->steps[n] = s;
        const unsigned reads = step_reads(&s); /* others may be gone */
        p->steps[n].a = place[s.a];
        p->steps[n].b = reads & 2 ? place[s.b] : place[s.a];
        p->steps[n++].c = reads & 4 ? place[s.c] : place[s.a];
    }
    for (int i = 0; i < p->n_wanted; i++)
        p->wanted[i] = place[p->wanted[i]];
    p->n_steps = n;
}
