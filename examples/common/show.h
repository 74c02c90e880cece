/* What examples print: pictures, progress, time. */
#ifndef EXAMPLES_SHOW_H
#define EXAMPLES_SHOW_H

#include "digits.h"

double seconds_now(void);
/* A bar that replaces itself, when stdout is a terminal; nothing otherwise. */
void show_progress(const char *what, int64_t done, int64_t all);
/* Pictures side by side, two rows of pixels to a line, and a caption below each. */
void show_digits(int n, const uint8_t *const *images, const char (*captions)[20]);

#endif
