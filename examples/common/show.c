#include "show.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void show_progress(const char *what, int64_t done, int64_t all)
{
    if (!isatty(STDOUT_FILENO))
        return;
    const int width = 40, full = (int)(done * width / all);
    if (done == all) {
        printf("\r\033[K");
    } else {
        printf("\r  %s [", what);
        for (int i = 0; i < width; i++)
            putchar(i < full ? '=' : ' ');
        printf("] %3d %%", (int)(100 * done / all));
    }
    fflush(stdout);
}

void show_digits(int n, const uint8_t *const *images, const char (*captions)[20])
{
    const int edge = 4; /* empty in MNIST: 20 columns each, four to a line of 80 */
    for (int y = edge - 2; y < DIGIT_SIDE - edge + 2; y += 2) {
        for (int i = 0; i < n; i++) {
            for (int x = edge; x < DIGIT_SIDE - edge; x++) {
                const uint8_t *p = images[i] + y * DIGIT_SIDE + x;
                const int upper = p[0] > 90, lower = p[DIGIT_SIDE] > 90;
                fputs(upper ? lower ? "█" : "▀" : lower ? "▄" : " ", stdout);
            }
        }
        putchar('\n');
    }
    for (int i = 0; i < n; i++)
        printf("%-20s", captions[i]);
    putchar('\n');
}
