/* Calls of what makes, reads and keeps tensors, of contexts, and of gradients. */
#include "monkey.h"

#include <stdlib.h>
#include <string.h>

/* ---- tensors --------------------------------------------------------------------------------------- */

static const float elements[256] = {1, -2, 0.5f, 3, 0, -1, 2, 4};
static float own_memory[256];

CALL(tp_tensor_new)
{
    list l;
    tp_ctx *tp = ctx(m);
    const tp_dtype t = dtype(m);
    sizes(m, &l);
    int64_t bytes = 8;
    for (int i = 0; i < l.n && i < TP_MAX_RANK; i++)
        bytes = l.own[i] < 0 || l.own[i] > 64 || bytes > 1024 ? 4096 : bytes * l.own[i];
    const bool fits = bytes <= (int64_t)sizeof elements;
    return put(m, tp_tensor_new(tp, t, l.n, l.v, fits ? elements : NULL));
}

CALL(tp_tensor_wrap)
{
    list l;
    tp_ctx *tp = ctx(m);
    sizes(m, &l);
    l.n = l.n > 2 ? 2 : l.n;
    for (int i = 0; i < 2; i++)
        l.own[i] = l.own[i] > 4 ? 4 : l.own[i];
    const tp_dtype t = below(m, 3) ? TP_F32 : dtype(m);
    return put(m, tp_tensor_wrap(tp, t, l.n, l.v, rarely(m) ? NULL : own_memory, NULL, NULL));
}

CALL(tp_full)
{
    list l;
    tp_ctx *tp = ctx(m);
    const tp_dtype t = dtype(m);
    sizes(m, &l);
    return put(m, tp_full(tp, t, l.n, l.v, number(m)));
}

CALL(tp_scalar)
{
    tp_ctx *tp = ctx(m);
    const tp_dtype t = dtype(m);
    return put(m, tp_scalar(tp, t, number(m)));
}

CALL(tp_arange)
{
    tp_ctx *tp = ctx(m);
    const tp_dtype t = below(m, 2) ? TP_I64 : dtype(m);
    const int64_t n = size(m);
    const double start = number(m);
    return put(m, tp_arange(tp, t, n, below(m, 2) ? 0 : start, below(m, 2) ? 1 : number(m)));
}

CALL(tp_eye)
{
    tp_ctx *tp = ctx(m);
    const tp_dtype t = dtype(m);
    const int64_t height = size(m), width = size(m);
    return put(m, tp_eye(tp, t, height, width, index_of(m)));
}

CALL(tp_linspace)
{
    tp_ctx *tp = ctx(m);
    const tp_dtype t = dtype(m);
    const double lo = number(m), hi = number(m);
    return put(m, tp_linspace(tp, t, lo, hi, size(m)));
}

CALL(tp_variable)
{
    tp_tensor *x = tensor(m);
    return put(m, tp_variable(x, name(m)));
}

CALL(tp_param)
{
    tp_tensor *x = number_like(m);
    return put(m, tp_param(x, name(m)));
}

CALL(tp_assign)
{
    tp_tensor *v = variable(m), *x = fellow(m, v);
    return put(m, tp_assign(v, x));
}

CALL(tp_name)
{
    tp_tensor *x = tensor(m);
    return put(m, tp_name(x, name(m)));
}

CALL(tp_name_of)
{
    return tp_name_of(tensor(m)) != NULL;
}

CALL(tp_failed)
{
    return !tp_failed(tensor(m));
}

CALL(tp_status_of)
{
    return done(tp_status_of(tensor(m)));
}

CALL(tp_error_text)
{
    const char *s = tp_error_text(tensor(m));
    return s && strlen(s) == 0;
}

CALL(tp_is_symbolic)
{
    return tp_is_symbolic(tensor(m));
}

CALL(tp_ctx_of)
{
    return tp_ctx_of(below(m, 12) ? tensor(m) : NULL) != NULL;
}

CALL(tp_dtype_of)
{
    return tp_dtype_size(tp_dtype_of(tensor(m))) > 0;
}

CALL(tp_rank)
{
    return tp_rank(tensor(m)) > 0;
}

CALL(tp_size)
{
    const tp_tensor *x = tensor(m);
    return tp_size(x, axis(m)) >= 0;
}

CALL(tp_dim)
{
    const tp_tensor *x = tensor(m);
    return is_size(tp_dim(x, axis(m)));
}

CALL(tp_count)
{
    return tp_count(tensor(m)) > 0;
}

CALL(tp_read)
{
    const tp_tensor *x = number_like(m);
    const int64_t n = x && !tp_failed(x) && !tp_is_symbolic(x) ? tp_count(x) : 0;
    const size_t bytes = n > 0 && n < 1000 ? (size_t)n * tp_dtype_size(tp_dtype_of(x)) : 0;
    char *to = rarely(m) ? NULL : m->buffer;
    return done(tp_read(x, to, rarely(m) ? (size_t)below(m, 64) : bytes));
}

CALL(tp_data)
{
    const tp_tensor *x = some_number(m);
    const char *p = tp_data(x);
    const int64_t n = p ? tp_count(x) : 0;
    if (n > 0)
        m->buffer[0] = (char)(p[0] + p[n * (int64_t)tp_dtype_size(tp_dtype_of(x)) - 1]);
    return p != NULL;
}

CALL(tp_item)
{
    const double v = tp_item(number_like(m));
    return v == v;
}

CALL(tp_item_i64)
{
    return tp_item_i64(integers(m)) != 0;
}

CALL(tp_truth)
{
    return tp_truth(number_like(m));
}

CALL(tp_print)
{
    const tp_tensor *x = some_number(m);
    return done(tp_print(x, rarely(m) ? NULL : m->null));
}

CALL(tp_format)
{
    const tp_tensor *x = tensor(m);
    const size_t most = (size_t)below(m, 200);
    return tp_format(x, most ? m->buffer : NULL, most) > 0;
}

CALL(tp_npy_load)
{
    tp_ctx *tp = ctx(m);
    return put(m, tp_npy_load(tp, path_of(m, "npy")));
}

CALL(tp_npy_parse)
{
    static const char good[] =
        "\x93NUMPY\x01\x00\x46\x00{'descr': '<f4', 'fortran_order': False, "
        "'shape': (2, 3), }          \n" /* 6 + 2 + 2 + 70 */
        "0123012301230123012301230";
    char bytes[sizeof good];
    memcpy(bytes, good, sizeof good);
    size_t n = sizeof good - 2;
    if (!below(m, 3))
        bytes[below(m, (int)sizeof good)] = (char)below(m, 256);
    if (!below(m, 3))
        n = (size_t)below(m, (int)sizeof good);
    tp_ctx *tp = ctx(m);
    return put(m, tp_npy_parse(tp, rarely(m) ? NULL : bytes, n));
}

CALL(tp_npy_save)
{
    const tp_tensor *x = some_number(m);
    return done(tp_npy_save(x, path_of(m, "npy")));
}

CALL(tp_npy_save_f16)
{
    const tp_tensor *x = number_like(m);
    return done(tp_npy_save_f16(x, path_of(m, "npy")));
}

/* ---- contexts ---------------------------------------------------------------------------------------- */

CALL(tp_status_name)
{
    return strlen(tp_status_name((tp_status)(below(m, 30) - 3))) > 0;
}

CALL(tp_version)
{
    (void)m;
    return strlen(tp_version()) > 0;
}

tp_ctx *open_other(uint64_t seed)
{
    return tp_open(
        &(tp_options){.seed = seed, .compiler = "false", .cache_dir = ".", .max_turns = 8});
}

CALL(tp_open)
{
    tp_ctx *tp = open_other(next(m));
    const bool ok = tp != NULL;
    tp_close(tp);
    return ok;
}

CALL(tp_close)
{
    if (m->depth)
        return NOT_MADE;
    for (int i = 0; i < SLOTS; i++)
        if (m->slot[i] && tp_ctx_of(m->slot[i]) != m->tp)
            m->slot[i] = NULL;
    for (int i = 0; i < KEPT; i++)
        if (m->retained[i] && tp_ctx_of(m->retained[i]) != m->tp) {
            tp_release(m->retained[i]);
            m->retained[i] = NULL;
        }
    tp_close(m->other);
    m->other = open_other(next(m));
    m->alien = tp_full(m->other, TP_F32, TP_DIMS(2, 3), 1);
    return 1;
}

CALL(tp_seed)
{
    tp_seed(ctx(m), next(m));
    return 1;
}

CALL(tp_split_seed)
{
    const uint64_t seed = next(m), i = next(m);
    return tp_split_seed(seed, i) == tp_split_seed(seed, i);
}

CALL(tp_random_stream)
{
    tp_ctx *tp = ctx(m);
    const uint64_t stream = below(m, 8) ? (uint64_t)below(m, 5) : UINT64_MAX;
    tp_random_stream(tp, stream);
    return tp && stream != UINT64_MAX;
}

CALL(tp_random_position)
{
    uint64_t seed, position;
    tp_random_position(ctx(m), &seed, below(m, 2) ? &position : NULL);
    return 1;
}

CALL(tp_set_random_position)
{
    tp_ctx *tp = ctx(m);
    const uint64_t seed = next(m);
    tp_set_random_position(tp, seed, next(m));
    return 1;
}

CALL(tp_threads)
{
    tp_ctx *tp = ctx(m);
    return tp_threads(tp, below(m, 4) ? 1 : below(m, 5) - 1) > 0;
}

CALL(tp_memory_bytes)
{
    return tp_memory_bytes(ctx(m)) > 0;
}

CALL(tp_trim)
{
    tp_trim(ctx(m));
    return 1;
}

CALL(tp_alloc)
{
    void **kept = &m->memory[below(m, KEPT)];
    tp_free(m->tp, *kept);
    tp_ctx *tp = ctx(m);
    *kept = tp_alloc(tp, rarely(m) ? SIZE_MAX - 8 : (size_t)below(m, 300));
    return *kept != NULL;
}

CALL(tp_free)
{
    void **kept = &m->memory[below(m, KEPT)];
    tp_free(m->tp, *kept);
    *kept = NULL;
    return 1;
}

CALL(tp_error)
{
    return done(tp_error(ctx(m)));
}

CALL(tp_error_message)
{
    tp_ctx *tp = ctx(m);
    if (below(m, 8) == 0)
        tp_fail(tp, TP_E_VALUE, "the monkey fails");
    const char *s = tp_error_message(tp);
    return s && strlen(s) > 0;
}

CALL(tp_clear_error)
{
    tp_clear_error(ctx(m));
    return 1;
}

CALL(tp_fail)
{
    tp_ctx *tp = ctx(m);
    put(m, tp_fail(tp, (tp_status)(1 + below(m, 8)), rarely(m) ? NULL : "the monkey fails"));
    return 1;
}

CALL(tp_interrupt)
{
    tp_interrupt(ctx(m));
    return 1;
}

CALL(tp_abandon)
{
    if (m->depth)
        return NOT_MADE;
    tp_abandon(ctx(m));
    return 1;
}

CALL(tp_training)
{
    return tp_training(ctx(m), below(m, 4) > 0);
}

CALL(tp_trains)
{
    return tp_trains(ctx(m));
}

CALL(tp_trap_nan)
{
    tp_ctx *tp = ctx(m);
    if (below(m, 8) == 0)
        tp_trap_nan(tp, true);
    return tp_trap_nan(tp, below(m, 8) == 0);
}

CALL(tp_scope_begin)
{
    return done(tp_scope_begin(ctx(m)));
}

CALL(tp_scope_end)
{
    tp_ctx *tp = ctx(m);
    if (below(m, 12) == 0)
        tp_scope_begin(tp);
    return done(tp_scope_end(tp));
}

CALL(tp_keep)
{
    return put(m, tp_keep(tensor(m)));
}

CALL(tp_retain)
{
    tp_tensor **kept = &m->retained[below(m, KEPT)], *x = tensor(m);
    if (*kept || (x && tp_is_symbolic(x)))
        return NOT_MADE;
    *kept = tp_retain(x);
    return put(m, *kept);
}

CALL(tp_release)
{
    tp_tensor **kept = &m->retained[below(m, KEPT)];
    if (!*kept && below(m, 4) == 0)
        *kept = tp_retain(fresh(m, TP_F32, TP_DIMS(2)));
    const bool was = *kept != NULL;
    tp_release(*kept);
    *kept = NULL;
    return was;
}

CALL(tp_dtype_name)
{
    return strlen(tp_dtype_name((tp_dtype)below(m, 20))) > 1;
}

CALL(tp_dtype_size)
{
    return tp_dtype_size((tp_dtype)below(m, 20)) > 0;
}

CALL(tp_promote)
{
    const tp_dtype a = dtype(m);
    return tp_dtype_size(tp_promote(a, dtype(m))) > 0;
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

CALL(tp_requires_grad)
{
    return tp_requires_grad(tensor(m));
}

CALL(tp_recording)
{
    tp_ctx *tp = ctx(m);
    return tp_recording(tp, below(m, 8) > 0);
}

CALL(tp_backward)
{
    return done(tp_backward(number_like(m)));
}

CALL(tp_zero_grad)
{
    tp_zero_grad(tensor(m));
    return 1;
}

CALL(tp_grads)
{
    many x, dx;
    tp_tensor *y = tensor(m), *dy = below(m, 2) ? NULL : fellow(m, y);
    const int n = 1 + below(m, 3);
    tensors(m, &x, n);
    tensors(m, &dx, n);
    dx.n = x.n;
    if (below(m, 8) == 0) {
        for (int i = 0; i < 5; i++)
            x.of[i] = tp_require_grad(fresh(m, TP_F32, TP_DIMS(2, 3)));
        y = tp_square(x.of[0]);
        dy = NULL;
    }
    return put_many(m, &dx, tp_grads(y, dy, x.n, x.in, dx.out));
}

static tp_tensor *checked(void *user, int n, tp_tensor *const *xs)
{
    (void)user;
    return tp_sum(tp_mul(xs[0], xs[n - 1]), TP_ALL, false);
}

CALL(tp_grad_check)
{
    double error;
    tp_tensor *x = number_like(m);
    if (x && !tp_failed(x) && !tp_is_symbolic(x) && tp_count(x) > 100)
        return NOT_MADE; /* that takes a sum for each element */
    tp_tensor *of[2] = {tp_cast(x, TP_F64), tp_cast(x, TP_F64)};
    return done(tp_grad_check(rarely(m) ? NULL : checked, m, 1 + below(m, 2), of,
                              rarely(m) ? NULL : &error));
}

/* ---- gradients of one's own --------------------------------------------------------------------------------- */

CALL(tp_callback_begin)
{
    tp_callback c = tp_callback_begin(ctx(m), rarely(m) ? NULL : "monkey");
    if (below(m, 2))
        tp_scope_begin(ctx(m));
    return put(m, tp_callback_end(&c, tp_neg(tensor(m))));
}

CALL(tp_callback_end)
{
    tp_callback c = tp_callback_begin(ctx(m), "monkey");
    tp_callback_end(rarely(m) ? NULL : &c, NULL);
    return put(m, tp_callback_end(&c, tensor(m)));
}

CALL(tp_batch_begin)
{
    tp_tensor *y = NULL;
    tp_batch (ctx(m)) {
        y = tp_add(tp_exp(tensor(m)), tensor(m));
        put(m, y);
        put(m, tp_mul(tensor(m), y));
    }
    return !tp_failed(y);
}

CALL(tp_batch_next)
{
    tp_batch_block b = tp_batch_begin(ctx(m));
    const int turns = tp_batch_next(&b) + tp_batch_next(&b);
    return below(m, 2) ? turns == 1 : tp_batch_next(below(m, 2) ? &b : NULL);
}

CALL(tp_batch_left)
{
    tp_batch_block b = tp_batch_begin(ctx(m));
    put(m, tp_neg(tensor(m)));
    tp_batch_left(&b);
    return true;
}

typedef struct samples {
    monkey *m;
    tp_tensor *x, *y[5];
} samples;

/* It looks, draws, keeps, takes gradients, and sometimes another sample's tensor. */
static void run_sample(void *user, int64_t i)
{
    samples *s = user;
    tp_ctx *tp = tp_ctx_of(s->x);
    tp_tensor *x = tp_mul(s->x, (double)i + 0.5);
    switch (below(s->m, 8)) {
    case 0:
        x = tp_truth(tp_gt(tp_sum(x, TP_ALL, false), 1)) ? tp_tanh(x) : tp_neg(x);
        break;
    case 1:
        x = tp_add(x, tp_normal_like(x, 0, 1));
        break;
    case 2:
        tp_scope_begin(tp);
        x = tp_keep(tp_square(x));
        if (below(s->m, 2))
            tp_scope_end(tp);
        break;
    case 3:
        tp_backward(tp_sum(tp_square(x), TP_ALL, false));
        break;
    case 4:
        x = tp_add(x, s->y[below(s->m, 5)]);
        break;
    case 5:
        tp_batch_each(tp, below(s->m, 3) - 1, i ? run_sample : NULL, s);
        break;
    default:
        tp_item(x);
    }
    s->y[i % 5] = tp_add(x, 1);
}

CALL(tp_batch_each)
{
    samples s = {.m = m, .x = tensor(m)};
    for (int i = 0; i < 5; i++)
        s.y[i] = tensor(m);
    const int n = rarely(m) ? -1 : below(m, 6);
    tp_ctx *tp = below(m, 8) ? tp_ctx_of(s.x) : ctx(m);
    const tp_status status = tp_batch_each(tp, n, rarely(m) ? NULL : run_sample, &s);
    for (int i = 0; i < 5; i++)
        put(m, s.y[i]);
    return status == TP_OK;
}

CALL(tp_batch_budget)
{
    tp_ctx *tp = ctx(m);
    const size_t was = tp_batch_budget(tp, (size_t)below(m, 100000));
    return was > 0;
}

CALL(tp_batch_counts_of)
{
    return tp_batch_counts_of(ctx(m)).ops >= 0;
}

CALL(tp_batch_measure)
{
    tp_ctx *tp = ctx(m);
    const bool on = below(m, 2) == 0;
    tp_batch_measure(tp, on);
    return tp_batch_measure(tp, on) == on;
}

CALL(tp_no_grad_begin)
{
    tp_ctx *tp = ctx(m);
    tp_no_grad(tp) put(m, tp_neg(tensor(m)));
    return tp != NULL;
}

CALL(tp_no_grad_next)
{
    tp_no_grad_block b = tp_no_grad_begin(ctx(m));
    const int turns = tp_no_grad_next(&b) + tp_no_grad_next(&b);
    return below(m, 2) ? turns == 1 : tp_no_grad_next(&b);
}

CALL(tp_no_grad_left)
{
    tp_no_grad_block b = tp_no_grad_begin(ctx(m));
    tp_no_grad_left(&b);
    return 1;
}

/* Good rules, ones that do nothing, and ones that give what does not fit. */
static void own_forward(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    monkey *m = user;
    for (int i = 0; i < n_out; i++)
        out[i] = rarely(m) ? NULL
                 : i == 1  ? tp_argmax(in[0], 0, false)
                           : tp_square(in[i % n_in]);
    if (rarely(m))
        tp_scope_begin(m->tp);
}

static void own_backward(void *user, const tp_vjp *v)
{
    monkey *m = user;
    for (int i = 0; i < v->n_in; i++)
        v->din[i] = rarely(m)    ? tensor(m)
                    : i % 2 == 0 ? tp_mul(v->dout[0], tp_mul(v->in[0], 2))
                                 : NULL;
}

static const tp_custom *rule_of(monkey *m)
{
    static const tp_custom rule = {"own", own_forward, own_backward, false},
                           checked = {"own", own_forward, own_backward, true};
    return rarely(m) ? NULL : below(m, 8) ? &rule : &checked;
}

CALL(tp_custom_call)
{
    many x, y;
    const tp_custom *rule = rule_of(m);
    tensors(m, &x, 1 + below(m, 3));
    tensors(m, &y, 1 + below(m, 3));
    return put_many(m, &y, tp_custom_call(rule, m, x.n, x.in, y.n, y.out));
}

CALL(tp_custom_apply)
{
    many x;
    const tp_custom *rule = rule_of(m);
    tensors(m, &x, 1 + below(m, 2));
    return put(m, tp_custom_apply(rule, m, x.n, x.in));
}

CALL(tp_straight_through)
{
    tp_tensor *x = number_like(m);
    return put(m, tp_straight_through(below(m, 2) ? tp_floor(x) : fellow(m, x), x));
}

static tp_tensor *own_hook(void *user, tp_tensor *g)
{
    monkey *m = user;
    return rarely(m) ? tensor(m) : below(m, 2) ? NULL : tp_neg(g);
}

CALL(tp_hook_new)
{
    tp_hook *h = tp_hook_new(ctx(m), rarely(m) ? NULL : own_hook, m);
    if (below(m, 4))
        tp_hook_free(h);
    return h != NULL;
}

CALL(tp_hook_free)
{
    tp_hook_free(rarely(m) ? NULL : tp_hook_new(ctx(m), own_hook, m));
    return 1;
}

CALL(tp_hooked)
{
    tp_hook *h = rarely(m) ? NULL : tp_hook_new(m->tp, own_hook, m);
    tp_tensor *y = tp_hooked(number_like(m), h);
    if (below(m, 2))
        tp_hook_free(h);
    return put(m, y);
}

CALL(tp_hook_on)
{
    tp_hook *h = rarely(m) ? NULL : tp_hook_new(m->tp, own_hook, m);
    tp_tensor *x = below(m, 2) ? number_like(m) : tp_require_grad(number_like(m));
    const int good = done(tp_hook_on(x, h));
    tp_hook_free(h);
    return good;
}

/* ---- kernels of one's own ------------------------------------------------------------------------------------- */

static bool own_compute(void *user, int n_in, const tp_elements *in, const tp_elements *out)
{
    const bool some = in[n_in - 1].count > 0;
    (void)user;
    memset(out->data, some ? *(const char *)in[n_in - 1].data & 1 : 0,
           (size_t)out->count * tp_dtype_size(out->dtype));
    return out->count != 3;
}

/* Good ones, and ones of another shape. */
static tp_tensor *own_reference(void *user, int n_in, tp_tensor *const *in)
{
    monkey *m = user;
    return rarely(m) ? NULL : rarely(m) ? tensor(m) : tp_square(in[n_in - 1]);
}

CALL(tp_kernel_apply)
{
    static const tp_kernel kernels[] = {
        {"own", own_compute, own_reference, false},
        {"own", own_compute, own_reference, true },
        {"own", own_compute, NULL,          false}
    };
    many x;
    list l;
    const tp_kernel *k = rarely(m) ? NULL : &kernels[below(m, 3)];
    tensors(m, &x, 1 + below(m, 2));
    sizes(m, &l);
    const tp_dtype t = dtype(m);
    return put(m, tp_kernel_apply(k, m, x.n, x.in, t, l.n, l.v));
}
