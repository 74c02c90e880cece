/* Bands: kernels that are run together over parts of a space of outer places and rows, so that what one
 * leaves is still near when the next one reads it. Which kernels could be is the plan's to say
 * (plan/steps.c), which of them are is worked out here, for the sizes of a run. */
#ifndef TAPIR_BAND_HOST_H
#define TAPIR_BAND_HOST_H

#include "kernel/host/team_host.h"

/* Members that run together, and their parts: so many outer places, or rows of one of them. */
typedef struct tpi_band_cut {
    int n;
    bool folds; /* parts of a thread have one place for what is gone when a part is done */
    int64_t outers, row_parts; /* how many parts along each */
    int64_t outer, rows;       /* of the largest part */
    int64_t step;    /* rows of all parts of an outer place but the last, the largest */
    int64_t threads; /* that the work is worth */
} tpi_band_cut;

/* From member `first` on. n is 1 when it runs by itself; then there is one part. */
tpi_band_cut tpi_band_next(const tpi_team *t, const tpk_band *b, int first);
/* Part `number` of them. */
tpk_part tpi_band_part(const tpk_band *b, const tpi_band_cut *c, int64_t number);

/* The functions of tpk_library. `part` is the band's outer places where these are not all that its kernels
 * have. */
void tpi_band_run(const tpk_env *env, const tpk_band *b, tpk_part *part);
int64_t tpi_band_products_ws(const tpk_library *library, const tpk_band *b, int i,
                             const tpk_products *p, int64_t *keeps);
int64_t tpi_band_convolution_ws(const tpk_library *library, const tpk_band *b, int i,
                                const tpk_convolution *c);

#endif
