/* Layers as values, and one after the other. */
#include "nn/layer.h"

#include <stdio.h>

/* C has no conversion from a function to void *; a struct with the function has one. */
static tp_tensor *run_function(const char *file, int line, const void *of, tp_tensor *x)
{
    const tp_layer_function *f = of;
    return f && *f ? (*f)(file, line, x)
                   : tp_fail(tp_ctx_of(x), TP_E_NULL, "the function of a layer is NULL");
}

TPI_LAYER(tp_layer, tp_layer_of_function, (const tp_layer_function *f), f)
{
    return (tp_layer){"function", run_function, f, file, line};
}

TPI_LAYER(tp_tensor *, tp_sequential_apply, (const tp_sequential *l, tp_tensor *x), l, x)
{
    if (!l || l->n < 0 || (l->n > 0 && !l->layers))
        return tp_fail(tp_ctx_of(x), TP_E_NULL, "the layers are NULL");
    for (int i = 0; i < l->n; i++) {
        const tp_layer *at = &l->layers[i];
        char text[60];
        snprintf(text, sizeof text, "layer %d has no function", i);
        if (!at->apply)
            return tp_fail(tp_ctx_of(x), TP_E_NULL, text);
        tp_callback code = tp_callback_begin(tp_ctx_of(x), at->name);
        x = tp_callback_end(&code, at->apply(at->file ? at->file : file,
                                             at->file ? at->line : line, at->of, x));
    }
    return x;
}

TPI_LAYER_OF(tp_layer_of_sequential, tp_sequential, "sequential", tp_sequential_apply(l, x))
