/* Names by patterns, in which * stands for any characters. */
#ifndef TAPIR_PATTERN_H
#define TAPIR_PATTERN_H

#include "base/strbuf.h"

enum { TPI_MOST_STARS = 8 };

/* What each * of a pattern stood for. */
typedef struct tpi_stars {
    int n;
    const char *at[TPI_MOST_STARS];
    size_t length[TPI_MOST_STARS];
} tpi_stars;

int tpi_pattern_stars(const char *pattern);
/* Does it fit all of the name? Each * but the last stands for as little as can be. `stars`, of a pattern with no more
 * than there is room for: what they stand for; or NULL. */
bool tpi_pattern_fits(const char *pattern, const char *name, tpi_stars *stars);
/* A pattern with those in place of its own. */
void tpi_pattern_put(tpi_str *out, const char *pattern, const tpi_stars *stars);

#endif
