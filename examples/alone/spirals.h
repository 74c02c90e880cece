/* Points on two spirals, batch by batch: for train.c and learn.c, which share nothing else. */
#ifndef SPIRALS_H
#define SPIRALS_H

#include <stdint.h>

enum { BATCH = 32, BEFORE = 100, AFTER = 300 };

/* Turned a little from point to point, and so without functions of a library. */
static inline void draw_batch(int number, float *points, int64_t *sides)
{
    for (int i = 0; i < BATCH; i++) {
        const int at = (number * BATCH + i) * 37 % 64;
        float x = 0.1f, y = 0;
        for (int k = 0; k < at; k++) {
            const float turned = 0.99f * x - 0.08f * y;
            y = 0.08f * x + 0.99f * y;
            x = turned * 1.03f;
            y *= 1.03f;
        }
        sides[i] = i % 2;
        points[2 * i] = i % 2 ? -x : x;
        points[2 * i + 1] = i % 2 ? -y : y;
    }
}

#endif
