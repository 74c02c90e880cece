/* Kernels of one instruction set as a table, for programs that are compiled at run time and call
 * them in place of carrying their text. The functions are those of reduce.h, gemm.h
 * and conv.h. */
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

/* A box of a space of outer places and rows, computed by one thread; or else, without the rest, so many
 * of the first places with all of their rows, shared out as all would be. `keep` is the end of memory that is the same for all parts
 * of one thread, and `fresh` says that the last one was not of this outer place. */
typedef struct tpk_part {
    int64_t places; /* 0: it is a box */
    int64_t place;  /* number among those that run side by side */
    int64_t o0, o1, r0, r1;
    int64_t outer; /* of the whole space */
    char *keep;
    int fresh;
} tpk_part;

/* A kernel of a program; of a space it does a part, or all: NULL. */
typedef int64_t (*tpk_kernel)(void **p, int64_t *s, int64_t *random, const char *packed,
                              void *scratch, int64_t *fail, const int64_t *a,
                              const struct tpk_library *library, tpk_part *part);

/* One of the kernels of a band. */
typedef struct tpk_member {
    tpk_kernel kernel;
    const int64_t *a;
    double work;      /* multiply-adds, or what takes as long */
    double made;      /* bytes of its result, per row */
    double shared;    /* bytes that every part reads again, */
    double per_outer; /* and those of them that only parts of the same outer place do */
    int64_t least;    /* rows that a part should have at least, */
    int64_t step;     /* and a multiple of which; of a convolution as few as it may have */
    int64_t grain;    /* what parts have to be a multiple of; 0: nothing */
    int under;        /* has its result no memory but that of one that is written over it? */
    uint32_t reads;   /* members whose results it reads, as bits */
    /* Its result, where that has memory of its own that none but members from `since` to `until` see: */
    int until, since;             /* until 0: it has not */
    int64_t buffer;               /* which of p */
    int64_t outer_step, row_step; /* bytes */
} tpk_member;

/* Kernels that are run together over parts of a space that all of them share. */
typedef struct tpk_band {
    int n;
    int64_t first; /* its number, for the profile; -1: is not told */
    int64_t outer, rows;
    int64_t buffers; /* how many p has */
    const tpk_member *v;
} tpk_band;

/* A step of a program: its function, where its arguments begin, and the number of its first kernel. */
typedef struct tpk_step {
    tpk_kernel run;
    int64_t at, kernel;
} tpk_step;

/* Which steps do not simply run one after the other. */
typedef struct tpk_waves {
    const int32_t *steps; /* by step: how many from it on; 0: none */
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
    void (*products)(const void *team, const tpk_products *p, void *ws, tpk_part *part);
    size_t (*convolution_ws)(const void *team, const tpk_convolution *c);
    void (*convolution)(const void *team, const tpk_convolution *c, void *ws,
                        const tpk_part *part);
    /* Channels of a conv of one group of which its parts have multiples, but for the last one. */
    int64_t (*channel_step)(const void *team, const tpk_convolution *c);
    int (*conv_taps)(const tpk_conv *c);           /* TPK_TAPS_TOGETHER or TPK_TAPS_APART */
    tpk_tiles (*conv_tiles)(const tpk_conv *c);    /* of an f32 conv */
    tpk_tiles (*conv_dx_tiles)(const tpk_conv *c); /* and of a conv_dx */
    /* A kernel that is called, for each place of the first two axes, of elements of so many bytes. */
    void (*planes)(const void *team,
                   int64_t (*call)(const tpk_view *in, const tpk_view *out,
                                   const int64_t *attr),
                   int n_in, const tpk_view *in, const tpk_view *out, const int64_t *attr,
                   int64_t size);
    /* Runs a kernel for parts of its space: as many as `work` of its ops are worth, at most
     * `threads`; of outer places each but the last takes a multiple of `step`, or of few ones, rows. */
    void (*spread)(const struct tpk_library *library, tpk_kernel kernel, double work,
                   int64_t outer, int64_t rows, int64_t step, void **p, int64_t *s,
                   void *scratch, const int64_t *a);
    /* A band, and the scratch memory that a thread needs for its member `i`: a workspace, and what it
     * keeps. */
    void (*band)(const struct tpk_library *library, const tpk_band *b, tpk_part *part, void **p,
                 int64_t *s, int64_t *random, const char *packed, void *scratch, int64_t *fail);
    int64_t (*band_products_ws)(const struct tpk_library *library, const tpk_band *b, int i,
                                const tpk_products *p, int64_t *keeps);
    int64_t (*band_convolution_ws)(const struct tpk_library *library, const tpk_band *b, int i,
                                   const tpk_convolution *c);
    int64_t threads;
    int64_t scratch;              /* bytes that a run has of it */
    const tpk_waves *waves;       /* NULL: none */
    const volatile int32_t *stop; /* loops give up before their next turn: it is not 0, */
    int64_t max_turns;            /* or they have had so many */
    /* Unless NULL told which kernel begins: its number; -1 before the first, behind the last one
     * their number. */
    void (*tick)(void *watch, int kernel);
    void *watch;
    /* By kernel of the program: the kernel of an op that is called, of its element type. */
    int64_t (*const *call)(const tpk_view *in, const tpk_view *out, const int64_t *attr);
} tpk_library;

#endif
