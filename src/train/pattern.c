#include "train/pattern.h"

#include <string.h>

int tpi_pattern_stars(const char *pattern)
{
    int n = 0;
    for (; *pattern; pattern++)
        n += *pattern == '*';
    return n;
}

/* The last * stands for what comes before `end`, too. */
static void stretch(tpi_stars *stars, int n, const char *end)
{
    if (stars && n)
        stars->length[n - 1] = (size_t)(end - stars->at[n - 1]);
}

bool tpi_pattern_fits(const char *pattern, const char *name, tpi_stars *stars)
{
    const char *behind = NULL,
               *from = NULL; /* the last *, and what comes after what it stands for */
    int n = 0;
    for (;;) {
        if (*pattern == '*') {
            behind = ++pattern;
            from = name;
            if (stars)
                stars->at[n] = name;
            stretch(stars, ++n, name);
        } else if (*pattern == *name) {
            if (!*name)
                break;
            pattern++;
            name++;
        } else if (behind && *from) {
            pattern = behind;
            name = ++from;
            stretch(stars, n, name);
        } else {
            return false;
        }
    }
    if (stars)
        stars->n = n;
    return true;
}

void tpi_pattern_put(tpi_str *out, const char *pattern, const tpi_stars *stars)
{
    for (int n = 0; *pattern; pattern++) {
        if (*pattern != '*')
            tpi_str_add(out, pattern, 1);
        else
            tpi_str_add(out, stars->at[n], stars->length[n]), n++;
    }
}
