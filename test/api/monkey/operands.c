/* Where arguments come from: mostly good ones, now and then none, failed, symbolic, of an ended block or
 * scope, of another context, or integers that look like a size. */
#include "base/float_mode.h"
#include "monkey.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* ---- draws ------------------------------------------------------------------------------------ */

uint64_t next(monkey *m)
{
    uint64_t z = m->draws += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

int below(monkey *m, int n)
{
    return (int)(next(m) % (uint64_t)n);
}

bool rarely(monkey *m)
{
    return below(m, 24) == 0;
}

tp_ctx *ctx(monkey *m)
{
    return below(m, 10) ? m->tp : NULL;
}

tp_tensor *tensor(monkey *m)
{
    const int k = below(m, 60);
    return k == 0 ? NULL : k == 1 ? m->alien : m->slot[below(m, SLOTS)];
}

/* One that is like `x`, so that two fit together more often. */
tp_tensor *fellow(monkey *m, tp_tensor *x)
{
    for (int i = 0; i < 6 && below(m, 8); i++) {
        tp_tensor *y = tensor(m);
        if (y && x && tp_dtype_of(x) == tp_dtype_of(y) && tp_rank(x) == tp_rank(y))
            return y;
    }
    return tensor(m);
}

/* Concrete and of floats, as far as there is one. */
tp_tensor *number_like(monkey *m)
{
    tp_tensor *x = tensor(m);
    for (int i = 0; i < 8 && below(m, 8); i++) {
        if (x && !tp_failed(x) && tp_dtype_of(x) <= TP_F64 && !tp_is_symbolic(x))
            break;
        x = tensor(m);
    }
    return x;
}

tp_tensor *some_number(monkey *m)
{
    return below(m, 4) ? number_like(m) : tensor(m);
}

tp_tensor *integers(monkey *m)
{
    tp_tensor *x = tensor(m);
    for (int i = 0; i < 12 && below(m, 10); i++) {
        if (x && !tp_failed(x) && tp_dtype_of(x) == TP_I64)
            break;
        x = tensor(m);
    }
    return x;
}

int which(monkey *m)
{
    return below(m, 3) ? 0 : below(m, KEPT);
}

tp_tensor *fresh(monkey *m, tp_dtype t, int rank, const int64_t *shape)
{
    return tp_full(m->tp, t, rank, shape, below(m, 3));
}

tp_tensor *image(monkey *m)
{
    return below(m, 2) ? fresh(m, TP_F32, TP_DIMS(1, 4, 4, 4)) : tensor(m);
}

tp_graph *graph(monkey *m)
{
    return rarely(m) ? NULL : m->graph[which(m)];
}

tp_tensor *variable(monkey *m)
{
    const tp_graph *g = graph(m);
    const int n = g ? tp_graph_n_variables(g) : 0;
    return n > 0 && below(m, 3) ? tp_graph_nth_variable((tp_graph *)g, below(m, n)) : tensor(m);
}

int64_t handle(monkey *m)
{
    tp_graph *g = m->graph[below(m, KEPT)];
    const int64_t n = tp_symbol(g, below(m, 2) ? "n" : "m");
    switch (below(m, 5)) {
    case 0:
        return n > INT64_MIN / 4 ? n + below(m, 3) - 1 : n;
    case 1:
        return n > INT64_MIN / 4 ? n * 2 : n;
    case 2:
        return n / (1 + below(m, 3));
    default:
        return n;
    }
}

int64_t size(monkey *m)
{
    static const int64_t odd[] = {-1, 0, INT64_MAX, INT64_MIN, 100, -2};
    const int k = below(m, 30);
    return k < 2 ? handle(m) : k == 2 ? odd[below(m, 6)] : 1 + below(m, 4);
}

int64_t index_of(monkey *m)
{
    static const int64_t odd[] = {INT64_MAX, INT64_MIN, 1000000000, -7};
    const int k = below(m, 30);
    return k == 0 ? handle(m) : k == 1 ? odd[below(m, 4)] : below(m, 8) - 4;
}

int axis(monkey *m)
{
    static const int odd[] = {INT_MAX, INT_MIN, 9, -9};
    return below(m, 20) ? below(m, 5) - 2 : odd[below(m, 4)];
}

list *sizes(monkey *m, list *l)
{
    l->n = below(m, 4);
    l->v = l->own;
    for (int i = 0; i <= TP_MAX_RANK; i++)
        l->own[i] = size(m);
    if (rarely(m))
        l->n = below(m, 2) ? -1 : TP_MAX_RANK + 1;
    if (rarely(m))
        l->v = NULL;
    return l;
}

/* The sizes of x, as often as not with one of them changed. */
list *sizes_like(monkey *m, const tp_tensor *x, list *l)
{
    sizes(m, l);
    if (!x || tp_failed(x) || !below(m, 4))
        return l;
    l->n = tp_rank(x);
    for (int i = 0; i < l->n; i++)
        l->own[i] = tp_dim(x, i);
    if (l->n && below(m, 2))
        l->own[below(m, l->n)] = below(m, 2) ? -1 : size(m);
    return l;
}

list *axes(monkey *m, const tp_tensor *x, list *l)
{
    const int rank = x && !tp_failed(x) ? tp_rank(x) : 3;
    l->v = l->own;
    for (int i = 0; i <= TP_MAX_RANK; i++)
        l->own[i] = i;
    l->n = rank ? below(m, rank + 1) : 0;
    for (int i = 0; i < 3 && l->n > 1; i++) {
        const int a = below(m, rank), b = below(m, rank);
        const int64_t t = l->own[a];
        l->own[a] = l->own[b];
        l->own[b] = t;
    }
    if (rarely(m))
        l->own[0] = index_of(m);
    if (rarely(m))
        l->n = below(m, 2) ? -1 : TP_MAX_RANK + 1;
    if (below(m, 40) == 0)
        l->v = NULL;
    return l;
}

double number(monkey *m)
{
    static const double odd[] = {NAN, INFINITY, -INFINITY, 1e300, -1e-300, 0, 1e-310, -5e-324};
    static const double plain[] = {0, 1, -1, 0.5, 2, 0.1, 3, 1e-5};
    const int k = below(m, 40);
    if (k > 1)
        return k < 5 ? odd[below(m, 8)] : plain[below(m, 8)];
    const int64_t h = handle(m);
    TPI_DEFAULT_FLOAT_MODE;
    return k == 0 ? (double)h : 1 / (double)h;
}

tp_dtype dtype(monkey *m)
{
    const int k = below(m, 30);
    return k == 0 ? (tp_dtype)below(m, 40) : k < 20 ? TP_F32 : (tp_dtype)below(m, 11);
}

const char *name(monkey *m)
{
    static const char *const odd[] = {NULL, "", "a b", "%", "x\n", "n"};
    static const char *const plain[] = {"x", "y", "z", "w", "v"};
    return rarely(m) ? odd[below(m, 6)] : plain[below(m, 5)];
}

const char *path(monkey *m)
{
    static const char *const paths[] = {"a.npy",   "b.npy",  "a.tapir", "b.tapir",
                                        "a.onnx",  "b.onnx", "a.pb",    "a.json",
                                        "/none/x", NULL,     ""};
    return paths[below(m, below(m, 4) ? 8 : 11)];
}

const char *path_of(monkey *m, const char *ending)
{
    static char of[32];
    if (!below(m, 8))
        return path(m);
    snprintf(of, sizeof of, "%c.%s", 'a' + below(m, 2), ending);
    return of;
}

const tp_window *window(monkey *m, tp_window *w, bool kernel)
{
    memset(w, 0, sizeof *w);
    for (int i = 0; i < 3; i++) {
        w->kernel[i] = kernel ? 1 + below(m, 2) : 0;
        w->stride[i] = below(m, 3);
        w->pad_lo[i] = below(m, 2);
        w->pad_hi[i] = below(m, 2);
        w->dilation[i] = below(m, 3);
    }
    if (rarely(m))
        w->stride[below(m, 3)] = index_of(m);
    if (rarely(m))
        w->groups = index_of(m);
    w->count_pad = below(m, 2);
    return below(m, 12) ? w : NULL;
}

many *tensors(monkey *m, many *l, int n)
{
    tp_tensor *first = tensor(m);
    l->n = rarely(m) ? below(m, 3) - 1 : n;
    l->in = below(m, 40) ? l->of : NULL;
    l->out = below(m, 40) ? l->of : NULL;
    l->of[0] = first;
    for (int i = 1; i < 5; i++)
        l->of[i] = fellow(m, first);
    return l;
}

/* Names of inputs and outputs that graphs mostly have. */
const char *const in_names[] = {"x"}, *const out_names[] = {"y"};
static const char *const no_names[] = {NULL};

const char *const *names(monkey *m, const char *const *good)
{
    return below(m, 16) ? good : below(m, 2) ? no_names : NULL;
}

/* ---- results ---------------------------------------------------------------------------------- */

bool is_size(int64_t d)
{
    return d >= 0 || (d < -((int64_t)1 << 61) && d > INT64_MIN);
}

int put(monkey *m, tp_tensor *t)
{
    const bool ok = t && !tp_failed(t);
    if (ok || below(m, 4) == 0) /* failed ones are operands too, but not most of them */
        m->slot[below(m, SLOTS)] = t;
    return ok;
}

int done(tp_status s)
{
    return s == TP_OK;
}

int put_many(monkey *m, const many *l, tp_status s)
{
    for (int i = 0; s == TP_OK && l->out && i < l->n; i++)
        put(m, l->of[i]);
    return done(s);
}

int text(monkey *m, char *s)
{
    if (s && strlen(s) < BUFFER)
        strcpy(m->buffer, s);
    tp_free(m->tp, s);
    return s != NULL;
}

/* What is symbolic is gone with its graph. */
void drop_symbolic(monkey *m)
{
    for (int i = 0; i < SLOTS; i++)
        if (m->slot[i] && (tp_failed(m->slot[i]) || tp_is_symbolic(m->slot[i])))
            m->slot[i] = NULL;
}

int put_both(monkey *m, tp_tensor *a, tp_tensor *b)
{
    const int ok = a && !tp_failed(a);
    put(m, a);
    put(m, b);
    return ok;
}
