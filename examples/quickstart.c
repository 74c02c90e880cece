/* The gradient of y = x * x + 3 at x = 2, twice: computed as each line runs, and as a graph that
 * is built first and fed later. The function f is written once. */
#include <tapir/tapir.h>

#include <stdio.h>

static tp_tensor *f(tp_tensor *x)
{
    return tp_add(tp_mul(x, x), 3);
}

int main(void)
{
    tp_ctx *tp = tp_open(NULL);

    tp_tensor *x = tp_require_grad(tp_scalar(tp, TP_F32, 2));
    tp_tensor *y = f(x);
    tp_tensor *dy = tp_grad(y, x);
    tp_tensor *d2y = tp_grad(dy, x); /* a gradient is an ordinary tensor */
    printf("eager:  x = 2  y = %g  dy/dx = %g  d2y/dx2 = %g\n", tp_item(y), tp_item(dy),
           tp_item(d2y));

    tp_graph *g = tp_graph_new(tp);
    x = tp_placeholder(g, "x", TP_F32, TP_SCALAR);
    y = tp_name(f(x), "y");
    dy = tp_name(tp_grad(y, x), "dy");
    tp_name(tp_grad(dy, x), "d2y");
    for (int at = 2; at <= 3; at++) {
        tp_tensor *out[3], *value = tp_scalar(tp, TP_F32, at);
        tp_graph_run(g, TP_FEEDS({"x", value}), TP_NAMES("y", "dy", "d2y"), out);
        printf("graph:  x = %d  y = %g  dy/dx = %g  d2y/dx2 = %g\n", at, tp_item(out[0]),
               tp_item(out[1]), tp_item(out[2]));
    }

    const bool failed = tp_error(tp) != TP_OK;
    if (failed)
        fprintf(stderr, "quickstart: %s\n", tp_error_message(tp));
    tp_close(tp);
    return failed;
}
