/* What a program that is compiled at run time calls: a table of functions.
 *
 * The table has the kernels of one instruction set (reduce.h, gemm.h, conv.h), so that programs need not
 * contain their text, and the functions that share work among threads. */
#ifndef TPK_LIBRARY_H
#define TPK_LIBRARY_H

#include "kernel/abi/view.h"

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

/* A part of a kernel's work, which is a space: outer places, each with rows. It is the box of outer places o0 to o1 and
 * rows r0 to r1, which one thread computes; or, `shared`, the threads share all rows of these places like the whole. */
typedef struct tpk_part {
    int shared;
    int channels;  /* of a convolution, the rows are output channels */
    int64_t place; /* this part's number among those that run side by side */
    int64_t o0, o1, r0, r1;
    int64_t outer; /* how many outer places the whole space has */
    char *keep;    /* the end of memory that stays the same for all parts of one thread */
    int fresh;     /* that thread's last part was not of this outer place */
} tpk_part;

struct tpk_called;

/* What a run hands to each kernel of the program. */
typedef struct tpk_env {
    void **p;           /* buffers by number */
    int64_t *s;         /* the symbols' values */
    int64_t *random;    /* seed and position of each draw */
    const char *packed; /* constants */
    void *scratch;
    int64_t *fail;                    /* three numbers */
    const struct tpk_called *kernels; /* by number */
    const int64_t *args;              /* the table of arguments */
    const struct tpk_library *library;
} tpk_env;

/* A kernel of a program, and its row of the table of arguments. It computes the part; if that is NULL, all of its
 * space. */
typedef int64_t (*tpk_kernel)(const tpk_env *env, const int64_t *a, tpk_part *part);

/* A kernel, and where its row of the table of arguments begins. */
typedef struct tpk_called {
    tpk_kernel kernel;
    int64_t at;
} tpk_called;

typedef struct tpk_library {
    TPK_LIBRARY_OF(f32);
    TPK_LIBRARY_OF(f64);
    /* Products and convolutions that the threads of `team` share. Each takes a workspace, whose bytes the
     * function ..._ws tells; for a team that is NULL, none. */
    const void *team;
    size_t (*products_ws)(const void *team, const tpk_products *p);
    void (*products)(const void *team, const tpk_products *p, void *ws, tpk_part *part);
    size_t (*convolution_ws)(const void *team, const tpk_convolution *c);
    void (*convolution)(const void *team, const tpk_convolution *c, void *ws,
                        const tpk_part *part);
    int (*conv_taps)(const tpk_conv *c);           /* TPK_TAPS_TOGETHER or TPK_TAPS_APART */
    tpk_tiles (*conv_tiles)(const tpk_conv *c);    /* of an f32 conv */
    tpk_tiles (*conv_dx_tiles)(const tpk_conv *c); /* and of a conv_dx */
    /* Calls a kernel for each place of the first two axes. An element has `size` bytes. */
    void (*planes)(const void *team,
                   int64_t (*call)(const tpk_view *in, const tpk_view *out,
                                   const int64_t *attr),
                   int n_in, const tpk_view *in, const tpk_view *out, const int64_t *attr,
                   int64_t size);
    /* Runs a kernel as parts of its outer places o0 to o1: as many as `work` of its ops are worth, at most
     * `threads`. Each part but the last has a multiple of `step` outer places; if there are few of these, parts
     * are cut along the rows. */
    void (*spread)(const tpk_env *env, tpk_kernel kernel, double work, int64_t o0, int64_t o1,
                   int64_t rows, int64_t step, const int64_t *a);
    /* Runs the program, whose kernels are numbered from 0 to n - 1, and returns what its entry does; kernels of
     * a body in a row that do not fail. The run has decided which run together in parts. */
    int64_t (*run)(const tpk_env *env, int64_t n);
    void (*band)(const tpk_env *env, int64_t first, int64_t n);
    const void *cuts; /* how it decided (plan/cut.h); NULL: each kernel runs by itself */
    int64_t threads;
    const volatile int32_t *stop; /* not 0: loops end with an error before their next turn */
    int64_t max_turns;            /* a loop that would take more turns ends with an error */
    /* Called before each kernel with its number, before the first one with -1, and after the last one with
     * the number of kernels. NULL: no profile is taken. */
    void (*tick)(void *watch, int kernel);
    void *watch;
    /* By kernel of the program that is a call: the op's kernel for the element type. */
    int64_t (*const *call)(const tpk_view *in, const tpk_view *out, const int64_t *attr);
    /* Calls the kernel of the user's that this kernel of the program is; 0, or 1: it could not. */
    int64_t (*own)(const void *program, int64_t kernel, const tpk_view *in, const tpk_view *out,
                   void *room);
    const void *program;
} tpk_library;

#endif
