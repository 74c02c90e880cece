/* The kernels of one instruction set, as a table that is chosen when a context is opened.
 * The files of src/kernel/isa are compiled once per set; each copy fills one table. */
#ifndef TAPIR_KERNELS_HOST_H
#define TAPIR_KERNELS_HOST_H

#include "kernel/abi/library.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TPI_N_ELEMENT_TYPES = 11 }; /* in the order of tp_dtype */

typedef enum tpi_elem {
#define ELEM(class, n_in, name, effort) TPI_ELEM_##name,
#include "kernel/text/elem.def"
#undef ELEM
    TPI_N_ELEMS
} tpi_elem;

/* The types that have rows. */
enum { TPI_ROW_bool, TPI_ROW_i32, TPI_ROW_i64, TPI_ROW_f32, TPI_ROW_f64, TPI_N_ROW_TYPES };

/* y[i] = f(a[i], b[i], c[i]) for n contiguous elements; unused operands are NULL. */
typedef void (*tpi_row_fn)(int64_t n, void *y, const void *a, const void *b, const void *c);
enum { TPI_ROW_VECTORS, TPI_ROW_A_SCALAR, TPI_ROW_B_SCALAR, TPI_N_ROWS };

/* Of a type in the order of tp_dtype; TPI_N_ROW_TYPES: it has none. */
static inline int tpi_row_type(int type)
{
    enum { NONE = TPI_N_ROW_TYPES };
    static const uint8_t of[TPI_N_ELEMENT_TYPES] = {
        TPI_ROW_bool, NONE, NONE, TPI_ROW_i32, TPI_ROW_i64, NONE,
        NONE,         NONE, NONE, TPI_ROW_f32, TPI_ROW_f64};
    return of[type];
}

/* Reductions of docs/numerics.md. rows: y[i] = reduction of the n contiguous elements at
 * x[i * stride]. columns: y[j] over the rows i of x[i * stride + j], j < n. more: y[j] goes on with
 * these rows, in their order. */
typedef void (*tpi_reduce)(int64_t rows, int64_t n, const void *x, int64_t stride, void *y);
enum { TPI_REDUCE_SUM, TPI_REDUCE_PROD, TPI_REDUCE_MAX, TPI_REDUCE_MIN, TPI_N_REDUCES };

/* Called kernels (tpi_call of ir/node.h) that are compiled for each instruction set. 0: it is not. */
typedef int64_t tpi_isa_call_fn(const tpk_view *in, const tpk_view *out, const int64_t *attr);
typedef tpi_isa_call_fn *tpi_isa_call;
enum {
    TPI_ISA_of_op = -1,
    TPI_ISA_random = 1,
    TPI_ISA_add_rows,
    TPI_ISA_gather,
    TPI_ISA_take_along,
    TPI_N_ISA_CALLS
};

/* The greatest prime factor of a length that is transformed as it is. */
enum { TPI_FFT_MOST = 79 };

/* Instruction sets by number. */
enum { TPI_SET_base, TPI_SET_avx2, TPI_SET_avx512, TPI_N_SETS };

typedef struct tpi_kernels {
    const char *isa;                    /* "base", "avx2", "avx512" */
    int set;                            /* TPI_SET_... */
    const struct tpi_kernels *narrower; /* has the rows that are not worth a wider copy */
    /* By op, TPI_ROW_... of the first data operand, and which operand is one element used n times.
     * NULL: ask the narrower set, at last the reference. */
    const tpi_row_fn (*row)[TPI_N_ROW_TYPES][TPI_N_ROWS];
    const tpi_row_fn (*cast)[TPI_N_ELEMENT_TYPES]; /* [from][to]; NULL as above */
    const tpi_reduce (*reduce_rows)[2];            /* [TPI_REDUCE_...]; f32, f64 */
    const tpi_reduce (*reduce_columns)[2];
    const tpi_reduce (*reduce_more)[2];
    const tpk_library *library;            /* products, single reductions */
    tpi_isa_call call[TPI_N_ISA_CALLS][2]; /* f32, f64; NULL: the one for all sets */
} tpi_kernels;

extern const tpi_kernels tpi_kernels_base;
extern const tpk_library tpi_isa_conv_library_base;
#if defined(__x86_64__)
extern const tpi_kernels tpi_kernels_avx2, tpi_kernels_avx512;
extern const tpk_library tpi_isa_conv_library_avx2, tpi_isa_conv_library_avx512;
#endif

/* The widest that this machine and its system run. Base when `base_only`. */
const tpi_kernels *tpi_kernels_choose(bool base_only);

#endif
