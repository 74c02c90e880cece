/* Sizes: an int64, or a handle of an expression over symbols.
 *
 * A handle lies between -2^62 and -2^61 and has a fixed pattern in its low bits, and two of one
 * table differ by 2^40 at least, so that the sums, differences, multiples and quotients people
 * form from them by mistake are recognised as no size. Expressions are interned
 * in their graph's table in a normal form (a sum of terms; a term is an integer times a sorted
 * product of symbols and divisions), so equal expressions have equal handles. */
#ifndef TAPIR_DIM_H
#define TAPIR_DIM_H

#include "base/strbuf.h"
#include "core/core.h"

#include <string.h>

/* One per graph. */
tpi_dims *tpi_dims_new(tp_ctx *ctx);
void tpi_dims_free(tpi_dims *d);

#define TPI_NO_DIM INT64_MIN /* not a size: bad operand, overflow or no memory */

static inline bool tpi_dim_is_symbolic(int64_t d)
{
    return d < -((int64_t)1 << 40) && ((uint64_t)d & 0xffffff) == 0x5a5a5a;
}
/* Is it what C arithmetic makes of handles, or one of them? Numbers that far from 0 mean nothing
 * as a size, an index or an axis, but for those at the ends, which mean "to the end". */
static inline bool tpi_is_spoilt(int64_t v)
{
    const uint64_t size = v < 0 ? 0 - (uint64_t)v : (uint64_t)v, least = (uint64_t)1 << 40;
    return size - least < ((uint64_t)1 << 63) - 2 * least;
}
/* The same where a handle is taken as it is. */
static inline bool tpi_is_spoilt_size(int64_t v)
{
    return tpi_is_spoilt(v) && !tpi_dim_is_symbolic(v);
}
/* Is it a handle, a number near one, twice or half of that, 1 / one of these, or with the other sign,
 * where C may have a handle? The least and the greatest int64 are none. By the bits, since a host may
 * have floating-point exceptions unmasked, which a comparison would raise. */
static inline bool tpi_is_near_handle(const tp_ctx *ctx, double v)
{
    uint64_t size; /* of numbers without a sign it has their order */
    memcpy(&size, &v, sizeof size);
    size &= INT64_MAX;
    const bool is = (size - 0x43ae000000000000 <=
                         0x43e1000000000000 - 0x43ae000000000000 /* 0x1.ep59, 0x1.1p63 */
                     && size != 0x43e0000000000000 /* 0x1p63 */) ||
                    size - 0x3bfe000000000000 <=
                        0x3c22000000000000 - 0x3bfe000000000000; /* 0x1.ep-64, 0x1.2p-61 */
    return is && ctx->has_symbols && !ctx->reads_file;
}
/* The errors of such numbers. */
tp_tensor *tpi_fail_spoilt(tp_ctx *ctx, tpi_at at, const char *what, tp_status status,
                           int64_t v);
tp_tensor *tpi_fail_near_handle(tp_ctx *ctx, tpi_at at, const char *what, double v);
/* Is `d` a number >= 0 or a handle of this very table? */
bool tpi_dim_is_size(const tpi_dims *table, int64_t d);

/* Every result of these is a size >= 0, a handle or TPI_NO_DIM; a TPI_NO_DIM operand gives
 * TPI_NO_DIM. Subtraction may make an expression that is negative for some sizes; evaluation
 * tells. `table` may be NULL when all operands are numbers. */
int64_t tpi_dim_symbol(tpi_dims *table, const char *name); /* [A-Za-z_][A-Za-z0-9_.]* */
int64_t tpi_dim_add(tpi_dims *table, int64_t a, int64_t b);
int64_t tpi_dim_sub(tpi_dims *table, int64_t a, int64_t b);
int64_t tpi_dim_mul(tpi_dims *table, int64_t a, int64_t b);
int64_t tpi_dim_div(tpi_dims *table, int64_t a, int64_t b); /* floor, b > 0 */
int64_t tpi_dim_min(tpi_dims *table, int64_t a,
                    int64_t b); /* neither may be negative in a run */
/* What `d` is when divisions in it that are multiplied by their divisor come out even: n of 2*(n/2). */
int64_t tpi_dim_even(tpi_dims *table, int64_t d);
/* Is b at least a, whatever the symbols are? */
bool tpi_dim_at_most(const tpi_dims *table, int64_t a, int64_t b);
/* How long it is, in terms and what they are made of; of a number 0. */
int tpi_dim_weight(const tpi_dims *table, int64_t d);
/* From now on, until `note` is NULL, each symbolic difference is told: in shape rules, what must
 * not be negative in a run. */
void tpi_dim_watch(tpi_dims *table, void (*note)(void *user, int64_t d), void *user);

int tpi_dim_n_symbols(const tpi_dims *table);
const char *tpi_dim_symbol_name(const tpi_dims *table, int i);
/* If `d` is nothing but symbol number i: true. */
bool tpi_dim_as_symbol(const tpi_dims *table, int64_t d, int *i);
/* Of an expression of one term its integer: 3 of 3*batch*seq; else 0. */
int64_t tpi_dim_factor(const tpi_dims *table, int64_t d);
/* Value for the symbols' values (>= 0); TPI_NO_DIM on overflow, when negative, or when a divisor
 * is 0. */
int64_t tpi_dim_eval(const tpi_dims *table, int64_t d, const int64_t *symbols);
/* The same for a stride, which may be negative: a number or an expression. */
int64_t tpi_dim_eval_stride(const tpi_dims *table, int64_t d, const int64_t *symbols);
/* "2*batch+1" ; numbers too. Also what tpi_dim_parse reads (NULL table: numbers only);
 * `*end` is set behind it; TPI_NO_DIM when malformed. A division is written (a)/b, or n/b of a
 * symbol; the lesser of two min(a,b). */
void tpi_dim_print(const tpi_dims *table, int64_t d, tpi_str *out);
int64_t tpi_dim_parse(tpi_dims *table, const char *text, const char *limit, const char **end);
/* The same as a C expression of int64_t over variables named `prefix` and the symbol's number;
 * floor division of non-negative numbers is C's, TPK_LEAST of kernel/text/target.h the lesser of two. */
void tpi_dim_print_c(const tpi_dims *table, int64_t d, const char *prefix, tpi_str *out);
/* How an expression is computed from its symbols, bottom up, in steps of the caller's. Each gives
 * what stands for its result; tpi_dim_build gives the last one. `op` is one of + - * /, or < for the
 * lesser of two. */
typedef struct tpi_dim_steps {
    int (*number)(void *user, int64_t n);
    int (*symbol)(void *user, int i);
    int (*apply)(void *user, char op, int a, int b);
} tpi_dim_steps;
int tpi_dim_build(const tpi_dims *table, int64_t d, const tpi_dim_steps *steps, void *user);
/* Asks of() about every symbol of a size. What it says of the first of them of which it does not say 0; 0: of
 * none, or the size is a number. */
int tpi_dim_ask(const tpi_dims *table, int64_t d, int (*of)(void *user, int symbol),
                void *user);
/* The handle of an equal expression in another table. */
int64_t tpi_dim_import(tpi_dims *to, const tpi_dims *from, int64_t d);

#endif
