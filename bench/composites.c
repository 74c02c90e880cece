/* What composites take, in milliseconds of this thread: eagerly, and compiled, by tiles and as C.
 *
 *     composites                      lists their rows: name, operands at two sizes, PyTorch's expression
 *     composites NAME SIZE            prints the three medians of one; SIZE 0 lies in cache, 1 does not
 *     composites NAME SIZE gradient   prints the median of an eager call and the gradients of all its float operands */
#include "limits.h"
#include <tapir/tapir.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_IN = 8, MOST_OUT = 2, ROUNDS = 15 };
static const double batch_s = 2e-3; /* of the calls between two looks at the clock, at least */
static const double warm_s = 1;     /* of calls before those that are measured eagerly */

static const int64_t last[] = {-1}, third[] = {2}, first[] = {0};
static const int64_t pooled[] = {7, 7}, image[] = {56, 56}, by_2[] = {2, 2},
                     by_3[] = {0, 0, 3, 3};
static const tp_window three = {
    .kernel = {3, 3},
      .stride = {2, 2},
      .pad_lo = {1, 1},
      .pad_hi = {1, 1},
      .count_pad = true
};
static const tp_window two =
                           {
                               .kernel = {2, 2}
},
                       stride_2 = {.stride = {2, 2}};

static const int64_t *twice(const tp_tensor *x, int64_t *sizes)
{
    sizes[0] = 2 * tp_size(x, 2);
    sizes[1] = 2 * tp_size(x, 3);
    return sizes;
}

static tp_tensor *folded(tp_tensor *x)
{
    int64_t sizes[2] = {0};
    while (sizes[0] * sizes[0] < 4 * tp_size(x, 2))
        sizes[0]++;
    sizes[1] = sizes[0];
    return tp_fold(x, 2, sizes, &three);
}

static tp_tensor *smaller(tp_tensor *x)
{
    static const int64_t sizes[] = {24, 24};
    static const tp_resize_options options = {
        .mode = TP_INTERPOLATE_LINEAR, .antialias = true, .exclude_outside = true};
    return tp_resize(x, 2, sizes, &options);
}

typedef void composite(tp_tensor **y, int64_t *sizes, tp_tensor **x);
#define ROW(name, small, large, torch, ...)                                                    \
    static void row_##name(tp_tensor **y, int64_t *sizes, tp_tensor **x)                       \
    {                                                                                          \
        tp_tensor *a = x[0], *b = x[1], *c = x[2], *d = x[3], *e = x[4], *f = x[5], *g = x[6]; \
        (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)sizes;                     \
        __VA_ARGS__;                                                                           \
    }
#include "composites.def"
#undef ROW

/* clang-format off */
static const struct row {
    const char *name, *operands[2], *torch;
    composite *f;
} rows[] = {
#define ROW(name, small, large, torch, ...) {#name, {small, large}, torch, row_##name},
#include "composites.def"
#undef ROW
};
/* clang-format on */
enum { N_ROWS = sizeof rows / sizeof *rows };

/* One of a row's operands, as composites.def writes them; NULL: there is no other. */
static tp_tensor *operand(tp_ctx *tp, const char **text)
{
    char *s = (char *)(*text + strspn(*text, " ")), kind = *s;
    if (!kind)
        return NULL;
    const int64_t number = strtoll(s + 1, &s, 10);
    int64_t shape[TP_MAX_RANK];
    int rank = 0;
    do
        shape[rank++] = strtoll(s + 1, &s, 10);
    while (*s == 'x' && rank < TP_MAX_RANK);
    *text = s;
    switch (kind) {
    case 'u':
        return tp_uniform(tp, TP_F32, rank, shape, 0, 1);
    case 's':
        return tp_sort(tp_normal(tp, TP_F32, rank, shape, 0, 1), -1, false);
    case 'b':
        return tp_cast(tp_randint(tp, TP_I64, rank, shape, 0, 2), TP_BOOL);
    case 'i':
        return tp_randint(tp, TP_I64, rank, shape, 0, number);
    case 'c':
        return tp_full(tp, TP_I64, rank, shape, (double)number);
    default:
        return tp_normal(tp, TP_F32, rank, shape, 0, 1);
    }
}

typedef struct work {
    tp_ctx *tp;
    const struct row *row;
    tp_program *program; /* NULL: eagerly */
    tp_tensor *in[MOST_IN];
    bool goes_back;
    tp_tensor *marked[MOST_IN],
        *dy; /* then: what gradients are asked of, the weights of the result */
    int n_marked;
} work;

static void go_back(const work *w, tp_tensor *y)
{
    tp_tensor *dx[MOST_IN];
    tp_recording(w->tp, false);
    tp_grads(y, w->dy, w->n_marked, w->marked, dx);
    tp_recording(w->tp, true);
}

static void call(work *w)
{
    tp_tensor *y[MOST_OUT];
    int64_t sizes[TP_MAX_RANK];
    tp_scope_begin(w->tp);
    if (w->program)
        tp_program_run(w->program, w->in, y);
    else
        w->row->f(y, sizes, w->in);
    if (w->goes_back)
        go_back(w, y[0]);
    tp_scope_end(w->tp);
}

static double batch(work *w, int n)
{
    const double start = limit_now();
    for (int i = 0; i < n; i++)
        call(w);
    return limit_now() - start;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double wall_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of a steady state: what is compiled behind its back when it was called for some time is. */
static double median_ms(work *w)
{
    double took[ROUNDS];
    int n = 1;
    const double begin = wall_now();
    while (wall_now() - begin < (w->program ? 0 : warm_s))
        call(w);
    for (int i = 0; i < 3; i++)
        call(w);
    while (batch(w, n) < batch_s && tp_error(w->tp) == TP_OK)
        n *= 2;
    for (int i = 0; i < ROUNDS; i++)
        took[i] = batch(w, n) / n;
    qsort(took, ROUNDS, sizeof *took, by_value);
    return 1e3 * took[ROUNDS / 2];
}

static tp_program *compiled(tp_ctx *tp, const work *w, tp_engine engine)
{
    static const char *const in[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    static const char *const out[] = {"y0", "y1"};
    tp_graph *graph = tp_graph_new(tp);
    tp_tensor *x[MOST_IN] = {NULL}, *y[MOST_OUT] = {NULL};
    int64_t sizes[TP_MAX_RANK];
    int n_in = 0, n_out = 0;
    for (; w->in[n_in]; n_in++) {
        const tp_tensor *t = w->in[n_in];
        for (int i = 0; i < tp_rank(t); i++)
            sizes[i] = tp_size(t, i);
        x[n_in] = tp_placeholder(graph, in[n_in], tp_dtype_of(t), tp_rank(t), sizes);
    }
    w->row->f(y, sizes, x);
    for (; n_out < MOST_OUT && y[n_out]; n_out++)
        tp_name(y[n_out], out[n_out]);
    const tp_compile_options options = {.engine = engine};
    return tp_graph_compile(graph, n_in, in, n_out, out, &options);
}

/* Marks the float operands; false: the row has no gradient. */
static bool mark(work *w)
{
    tp_tensor *y[MOST_OUT];
    int64_t sizes[TP_MAX_RANK];
    for (int i = 0; w->in[i]; i++)
        if (tp_dtype_of(w->in[i]) >= TP_F32)
            w->marked[w->n_marked++] = tp_require_grad(w->in[i]);
    w->row->f(y, sizes, w->in);
    w->goes_back = tp_requires_grad(y[0]);
    if (w->goes_back)
        w->dy = tp_detach(tp_exp(y[0]));
    return w->goes_back;
}

static int measure(const struct row *row, const char *operands, bool gradient)
{
    static const tp_engine engine[] = {TP_ENGINE_AUTO, TP_ENGINE_TILES, TP_ENGINE_C};
    tp_ctx *tp = tp_open(&(tp_options){.threads = 1});
    work w = {.tp = tp, .row = row};
    for (int i = 0; i < MOST_IN - 1; i++)
        w.in[i] = operand(tp, &operands);
    const int n = !gradient ? 3 : mark(&w) ? 1 : 0;
    for (int i = 0; i < n && tp_error(tp) == TP_OK; i++) {
        w.program = i ? compiled(tp, &w, engine[i]) : NULL;
        printf("%.5f\n", median_ms(&w));
    }
    if (tp_error(tp) != TP_OK)
        fprintf(stderr, "%s: %s\n", row->name, tp_error_message(tp));
    const int status = tp_error(tp) != TP_OK;
    tp_close(tp);
    return status;
}

int main(int argc, char **argv)
{
    for (int i = 0; i < N_ROWS; i++)
        if (argc == 1)
            printf("%s\t%s\t%s\t%s\n", rows[i].name, rows[i].operands[0], rows[i].operands[1],
                   rows[i].torch);
        else if (argc < 5 && strcmp(argv[1], rows[i].name) == 0)
            return measure(&rows[i], rows[i].operands[argc > 2 && argv[2][0] == '1'],
                           argc == 4);
    if (argc > 1)
        fprintf(stderr, "usage: composites [NAME 0|1 [gradient]]\n");
    return argc > 1 ? 2 : 0;
}
