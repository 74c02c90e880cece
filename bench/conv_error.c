/* Convolutions of 3 by 3 and blocks of them, with all gradients, whose errors conv_error.py measures.
 *
 *     conv_error FOLDER [--direct]
 *
 * FOLDER/list.txt has a line "NAME KIND PAD" for each case. Operands are FOLDER/NAME.x.npy, NAME.w0.npy and so on, and
 * NAME.dy.npy, the weights of the result's elements; what is written is NAME.y.npy, NAME.dx.npy, NAME.dw0.npy ... */
#include <tapir/tapir.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MOST_WEIGHTS = 3 };

static const char *folder;

static const char *path_of(const char *name, const char *what, int i)
{
    static char path[600];
    if (i < 0)
        snprintf(path, sizeof path, "%s/%s.%s.npy", folder, name, what);
    else
        snprintf(path, sizeof path, "%s/%s.%s%d.npy", folder, name, what, i);
    return path;
}

static tp_tensor *conv(tp_tensor *x, tp_tensor *w, int64_t pad)
{
    return tp_conv(x, w,
                   &(tp_window){
                       .stride = {1,   1  },
                         .pad_lo = {pad, pad},
                         .pad_hi = {pad, pad}
    });
}

/* How many weights there are, or 0. */
static int weights_of(const char *kind)
{
    return strcmp(kind, "conv") == 0         ? 1
           : strcmp(kind, "basic") == 0      ? 2
           : strcmp(kind, "bottleneck") == 0 ? 3
                                             : 0;
}

/* A convolution, or a block as ResNets have them, without normalisations. */
static tp_tensor *compute(int n, tp_tensor *x, tp_tensor *const *w, int64_t pad)
{
    if (n == 1)
        return conv(x, w[0], pad);
    tp_tensor *h = tp_relu(conv(x, w[0], n == 2));
    h = n == 2 ? conv(h, w[1], 1) : conv(tp_relu(conv(h, w[1], 1)), w[2], 0);
    return tp_relu(tp_add(x, h));
}

static bool run(tp_ctx *tp, const char *name, const char *kind, int64_t pad)
{
    tp_tensor *xs[MOST_WEIGHTS + 1], *dx[MOST_WEIGHTS + 1];
    const int n = weights_of(kind);
    xs[0] = tp_require_grad(tp_npy_load(tp, path_of(name, "x", -1)));
    for (int i = 0; i < n; i++)
        xs[i + 1] = tp_require_grad(tp_npy_load(tp, path_of(name, "w", i)));
    tp_tensor *y = compute(n, xs[0], xs + 1, pad);
    tp_grads(y, tp_npy_load(tp, path_of(name, "dy", -1)), n + 1, xs, dx);
    tp_npy_save(y, path_of(name, "y", -1));
    tp_npy_save(dx[0], path_of(name, "dx", -1));
    for (int i = 0; i < n; i++)
        tp_npy_save(dx[i + 1], path_of(name, "dw", i));
    return n > 0 && tp_error(tp) == TP_OK;
}

int main(int argc, char **argv)
{
    char name[64], kind[64];
    int pad, status = 0;
    folder = argc > 1 ? argv[1] : ".";
    const bool direct = argc > 2 && strcmp(argv[2], "--direct") == 0;
    char path[600];
    snprintf(path, sizeof path, "%s/list.txt", folder);
    FILE *list = fopen(path, "r");
    tp_ctx *tp = tp_open(&(tp_options){.direct_conv = direct});
    if (!list || !tp)
        return 2;
    while (status == 0 && fscanf(list, "%63s %63s %d", name, kind, &pad) == 3) {
        if (tp_scope_begin(tp) != TP_OK || !run(tp, name, kind, pad)) {
            fprintf(stderr, "conv_error: %s: %s\n", name, tp_error_message(tp));
            status = 1;
        }
        tp_scope_end(tp);
    }
    fclose(list);
    tp_close(tp);
    return status;
}
