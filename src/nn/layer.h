/* What layers share. */
#ifndef TAPIR_LAYER_H
#define TAPIR_LAYER_H

#include "tapir/nn.h"

/* tp_fail with a text of a format. */
tp_tensor *tpi_layer_fail(const char *file, int line, tp_ctx *tp, tp_status status,
                          const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* "[2, n, 3]" of a good tensor; where there is no room for all sizes "[2, n, ...]". */
typedef struct tpi_layer_shape {
    char text[100];
} tpi_layer_shape;
const char *tpi_layer_shape_text(tpi_layer_shape *room, const tp_tensor *t);

/* p's part "name", an error when that cannot be. */
tp_params *tpi_layer_part(const char *file, int line, tp_params *p, const char *name);
/* The parameter "w" of a layer of n_in inputs for each output and n_out outputs of each input, and its bias "b" of
 * n_bias numbers, NULL when there is none. */
tp_tensor *tpi_layer_weight(const char *file, int line, tp_params *part,
                            const tp_layer_options *opt, int rank, const int64_t *shape,
                            int64_t n_in, int64_t n_out);
tp_tensor *tpi_layer_bias(const char *file, int line, tp_params *part,
                          const tp_layer_options *opt, int64_t n_bias, int64_t n_in);
/* A parameter, or a state, of n equal numbers. */
tp_tensor *tpi_layer_row(const char *file, int line, tp_params *part, const char *name,
                         int64_t n, double value, bool trained);

/* Defines a function on a layer, name and name_at, whose body follows. */
#define TPI_LAYER(type, name, params, ...)                                                     \
    static type name##_made(const char *file, int line, TPI_LAYER_LIST params);                \
    type name##_at(const char *file, int line, TPI_LAYER_LIST params)                          \
    {                                                                                          \
        return name##_made(file, line, __VA_ARGS__);                                           \
    }                                                                                          \
    type(name) params                                                                          \
    {                                                                                          \
        return name##_made(NULL, 0, __VA_ARGS__);                                              \
    }                                                                                          \
    static type name##_made(const char *file, int line, TPI_LAYER_LIST params)
#define TPI_LAYER_LIST(...) __VA_ARGS__

/* Defines what makes a tp_layer of a layer l, maker and maker_at; `call` is what l makes of x. */
#define TPI_LAYER_OF(maker, type, text, call)                                                  \
    static tp_tensor *maker##_run(const char *file, int line, const void *of, tp_tensor *x)    \
    {                                                                                          \
        const type *l = of;                                                                    \
        return call;                                                                           \
    }                                                                                          \
    tp_layer maker##_at(const char *file, int line, const type *l)                             \
    {                                                                                          \
        return (tp_layer){text, maker##_run, l, file, line};                                   \
    }                                                                                          \
    tp_layer(maker)(const type *l)                                                             \
    {                                                                                          \
        return maker##_at(NULL, 0, l);                                                         \
    }

#undef TP_PLACE
#define TP_PLACE file, line

#endif
