/* Pictures of digits: read from the MNIST files, or drawn. */
#ifndef EXAMPLES_DIGITS_H
#define EXAMPLES_DIGITS_H

#include <stdint.h>

enum { DIGIT_SIDE = 28, DIGIT_BYTES = DIGIT_SIDE * DIGIT_SIDE };

typedef struct digits {
    int64_t n;
    uint8_t *images; /* [n, 28, 28], 0 is background */
    uint8_t *labels; /* [n], 0 to 9 */
} digits;

/* Reads `which`-images-idx3-ubyte(.gz) and `which`-labels-idx1-ubyte(.gz) in a folder; at most
 * `most` of them. 0 when that is not possible, and then stderr says why. */
int digits_read(const char *folder, const char *which, int64_t most, digits *out);
/* Draws n digits by hand: strokes, each time of another size, slant, weight and place. */
int digits_draw(int64_t n, uint64_t seed, digits *out);
void digits_free(digits *d);

#endif
