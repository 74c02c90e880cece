/* Seed and position of a context. */
#include "core/core.h"
#include "kernel/text/philox.h"
#include "tapir/random.h"

void tp_seed(tp_ctx *tp, uint64_t seed)
{
    tp_set_random_position(tp, seed, 0);
}

void tp_random_position(tp_ctx *tp, uint64_t *seed, uint64_t *position)
{
    if (tp) /* what is pending may have to draw yet */
        tpi_look_at_all(tp, TPI_AT(NULL, 0), TPI_LOOK_OTHER);
    if (seed)
        *seed = tp ? tp->seed : 0;
    if (position)
        *position = tp ? tp->random_at : 0;
}

void tp_set_random_position(tp_ctx *tp, uint64_t seed, uint64_t position)
{
    if (tp) {
        tpi_look_at_all(tp, TPI_AT(NULL, 0), TPI_LOOK_OTHER); /* a replay would leave it out */
        tp->seed = seed;
        tp->random_at = position;
    }
}

uint64_t tp_split_seed(uint64_t seed, uint64_t i)
{
    const tpk_words b = tpk_philox(seed, UINT64_MAX, i); /* ops draw from stream 0 */
    return (uint64_t)b.w[1] << 32 | b.w[0];
}
