/* Goes on learning where train.c has left off, with step.c and nothing else. (step.c has the same bits
 * with any options; the points are drawn here, where nothing is to be contracted.)
 *
 *     ./train step.c
 *     cc -O2 -ffp-contract=off -I. -Iexamples/alone examples/alone/learn.c step.c -o learn */
#include "spirals.h"

#include <stdio.h>
#include <step.h> /* made by train.c */

static char memory[1 << 18];
static step_state state;

int main(void)
{
    float points[2 * BATCH], loss = 0;
    int64_t sides[BATCH];
    const step_inputs in = {.points = points, .sides = sides};
    step_outputs out = {.loss = &loss};
    step_fault fault = {0, 0};
    step_init(&state);
    int code = step_prepare(memory, sizeof memory, &fault);
    for (int i = BEFORE; i < BEFORE + AFTER && code == step_ok; i++) {
        draw_batch(i, points, sides);
        code = step_run(memory, &state, &in, &out, &fault);
        if (i % 50 == 49)
            printf("step %d: loss %.9g\n", i + 1, (double)loss);
    }
    if (code != step_ok)
        fprintf(stderr, "learn: code %d, op %d\n", code, (int)fault.op);
    return code;
}
