/* Kernels of one instruction set as a table, for programs that are compiled at run time and call
 * them in place of carrying their text. The functions are those of reduce.h, gemm.h
 * and conv.h. */
#ifndef TPK_LIBRARY_H
#define TPK_LIBRARY_H

#include "view.h"

#define TPK_LIBRARY_CONV(name, t)                                                              \
    size_t (*name##_ws_##t)(const tpk_conv *c);                                                \
    void (*name##_##t)(const tpk_conv *c, const tpk_##t *a, const tpk_##t *b, tpk_##t *out,    \
                       void *ws)

#define TPK_LIBRARY_REDUCE(op, t)                                                              \
    tpk_##t (*reduce_##op##_##t)(const tpk_##t *x, int64_t n);                                 \
    tpk_##t (*reduce_##op##_block_##t)(const tpk_##t *x, int64_t n, int lanes)

#define TPK_LIBRARY_OF(t)                                                                      \
    TPK_LIBRARY_REDUCE(sum, t);                                                                \
    TPK_LIBRARY_REDUCE(prod, t);                                                               \
    TPK_LIBRARY_REDUCE(max, t);                                                                \
    TPK_LIBRARY_REDUCE(min, t);                                                                \
    size_t (*gemm_ws_##t)(int64_t m, int64_t n, int64_t k);                                    \
    void (*gemm_##t)(int64_t m, int64_t n, int64_t k, const tpk_##t *a, int64_t a_rs,          \
                     int64_t a_cs, const tpk_##t *b, int64_t b_rs, int64_t b_cs, tpk_##t *c,   \
                     int64_t c_rs, void *ws);                                                  \
    size_t (*gemm_packed_b_size_##t)(int64_t n, int64_t k);                                    \
    void (*gemm_pack_b_##t)(int64_t n, int64_t k, const tpk_##t *b, int64_t b_rs,              \
                            int64_t b_cs, tpk_##t *packed);                                    \
    void (*gemm_packed_b_##t)(int64_t m, int64_t n, int64_t k, const tpk_##t *a, int64_t a_rs, \
                              int64_t a_cs, const tpk_##t *packed, tpk_##t *c, int64_t c_rs,   \
                              void *ws);                                                       \
    TPK_LIBRARY_CONV(conv, t);                                                                 \
    TPK_LIBRARY_CONV(conv_dx, t);                                                              \
    TPK_LIBRARY_CONV(conv_dw, t);                                                              \
    size_t (*conv_packed_w_size_##t)(const tpk_conv *c);                                       \
    int (*conv_way_##t)(const tpk_conv *c);                                                    \
    void (*conv_pack_w_##t)(const tpk_conv *c, const tpk_##t *w, tpk_##t *packed, void *ws);   \
    void (*conv_packed_w_##t)(const tpk_conv *c, const tpk_##t *x, const tpk_##t *packed,      \
                              tpk_##t *y, void *ws)

struct tpk_library;

/* A kernel of a program. part: its number, and from which place of the axis that is shared to which; NULL:
 * all of them. */
typedef int64_t (*tpk_kernel)(void **p, int64_t *s, int64_t *random, const char *packed,
                              void *scratch, int64_t *fail, const int64_t *a,
                              const struct tpk_library *library, const int64_t *part);

/* A step of a program: its function, where its arguments begin, and the number of its first kernel. */
typedef struct tpk_step {
    tpk_kernel run;
    int64_t at, kernel;
} tpk_step;

/* Which steps run side by side. */
typedef struct tpk_waves {
    const int32_t *steps; /* by step: how many from it on do; 0: it runs alone */
    /* Runs those; returns what the entry of a program does. */
    int64_t (*run)(const struct tpk_waves *waves, const tpk_step *steps, int64_t first,
                   const int64_t *args, void **p, int64_t *s, int64_t *random,
                   const char *packed, void *scratch, int64_t *fail);
} tpk_waves;

typedef struct tpk_library {
    TPK_LIBRARY_OF(f32);
    TPK_LIBRARY_OF(f64);
    /* The same spread over the threads of a team, with workspaces of so many bytes. */
    const void *team;
    size_t (*products_ws)(const void *team, const tpk_products *p);
    void (*products)(const void *team, const tpk_products *p, void *ws);
    size_t (*convolution_ws)(const void *team, const tpk_convolution *c);
    void (*convolution)(const void *team, const tpk_convolution *c, void *ws);
    tpk_tiles (*conv_tiles)(const tpk_conv *c);    /* of an f32 conv */
    tpk_tiles (*conv_dx_tiles)(const tpk_conv *c); /* and of a conv_dx */
    /* Runs a kernel for parts of the places 0 to n, each but the last a multiple of `step`: as
     * many as `work` scalar operations are worth, at most `threads`. */
    void (*spread)(const struct tpk_library *library, tpk_kernel kernel, double work, int64_t n,
                   int64_t step, void **p, int64_t *s, void *scratch, const int64_t *a);
    int64_t threads;
    const tpk_waves *waves; /* NULL: none */
    /* Unless NULL told which kernel begins: its number; -1 before the first, behind the last one
     * their number. */
    void (*tick)(void *watch, int kernel);
    void *watch;
    /* By kernel of the program: the kernel of an op that is called, of its element type. */
    int64_t (*const *call)(const tpk_view *in, const tpk_view *out, const int64_t *attr);
} tpk_library;

#endif
