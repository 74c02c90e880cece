/* Errors in units in the last place, against MPFR, and arguments to look for them at. */
#ifndef TAPIR_TEST_ULP_H
#define TAPIR_TEST_ULP_H

#include "kernel/text/elem.h"

#include <math.h>
#include <mpfr.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*mpfr_unary)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);

static inline int mpfr_sigmoid(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t rnd)
{
    mpfr_neg(y, x, rnd);
    mpfr_exp(y, y, rnd);
    mpfr_add_ui(y, y, 1, rnd);
    return mpfr_ui_div(y, 1, y, rnd);
}

static uint64_t seed = 1;

static inline uint64_t next_random(void)
{
    uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline double unit_random(void)
{
    return (double)(next_random() >> 11) * 0x1p-53;
}

/* |got - exact| / ulp(exact) for a format of `bits` bits with the least exponent `least`. An
 * overflowed result counts as 2^(most + 1). */
static inline double ulp_error(double got, mpfr_srcptr exact, int bits, int least)
{
    if (isnan(got) || mpfr_nan_p(exact)) {
        return isnan(got) && mpfr_nan_p(exact) ? 0 : INFINITY;
    }
    if (mpfr_inf_p(exact)) {
        return isinf(got) && (got < 0) == (mpfr_sgn(exact) < 0) ? 0 : INFINITY;
    }
    mpfr_t d;
    mpfr_init2(d, 200);
    if (isinf(got)) {
        mpfr_set_si_2exp(d, got < 0 ? -1 : 1, bits == 24 ? 128 : 1024, MPFR_RNDN);
    } else {
        mpfr_set_d(d, got, MPFR_RNDN);
    }
    mpfr_sub(d, d, exact, MPFR_RNDN);
    long e = mpfr_zero_p(exact) ? least : mpfr_get_exp(exact) - 1;
    e = e < least ? least : e;
    const long most = bits == 24 ? 127 : 1023;
    e = e > most ? most : e;
    mpfr_mul_2si(d, d, bits - 1 - e, MPFR_RNDN);
    double r = fabs(mpfr_get_d(d, MPFR_RNDN));
    if (isinf(got) && mpfr_get_exp(exact) > most + 1) {
        r = 0;
    }
    mpfr_clear(d);
    return r;
}

#endif
