/* Where the random nodes of a run draw from. */
#include "run/program.h"

void tpi_session_draw(const tpi_session *s, const tp_tensor *node, tpi_random_attrs *a)
{
    const int64_t number = ((const tpi_random_attrs *)node->attrs)->at;
    for (int i = 0; s->draws && i < s->draws->n; i++) {
        const struct tpi_draw *d = &s->draws->v[i];
        if (d->node == number) {
            a->seed = d->seed;
            a->at = d->at;
            return;
        }
    }
    *a = tpi_random_position(a, s->p->ctx);
}
