/* Where the random nodes of a run draw from. */
#include "run/program.h"

tpi_random_attrs tpi_session_draw(const tpi_session *s, const tp_tensor *node)
{
    tpi_random_attrs a;
    tpi_program_attrs(s->p, node, &a);
    for (int i = 0; s->draws && i < s->draws->n; i++) {
        const struct tpi_draw *d = &s->draws->v[i];
        if (d->node == a.at) {
            a.seed = d->seed;
            a.at = d->at;
            return a;
        }
    }
    return tpi_random_position(&a, s->p->ctx);
}
