/* Where the random nodes of a run draw from. */
#include "run/program.h"

tpi_random_attrs tpi_session_draw(const tpi_session *s, const tp_tensor *node, int64_t count)
{
    const tpi_random_attrs *a = node->attrs;
    for (int i = 0; s->draws && i < s->draws->n; i++) {
        const struct tpi_draw *d = &s->draws->v[i];
        if (d->node == a->at) {
            tpi_random_attrs placed = *a;
            placed.seed = d->seed;
            placed.at = d->at;
            return placed;
        }
    }
    return tpi_random_position(a, s->p->ctx, count);
}
