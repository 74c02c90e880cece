#include "digits.h"

#include "dice.h"
#include "idx_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- from files ------------------------------------------------------------------------------ */

static int read_array(const char *folder, const char *which, const char *kind, idx_array *out)
{
    char path[1000];
    const char *wrong = NULL;
    for (int packed = 1; packed >= 0; packed--) {
        snprintf(path, sizeof path, "%s/%s-%s-ubyte%s", folder, which, kind,
                 packed ? ".gz" : "");
        FILE *f = fopen(path, "rb");
        if (f || !packed) {
            wrong = idx_read(path, out);
            if (f)
                fclose(f);
            break;
        }
    }
    if (wrong)
        fprintf(stderr, "%s: %s\n", path, wrong);
    return !wrong;
}

int digits_read(const char *folder, const char *which, int64_t most, digits *out)
{
    idx_array images = {.data = NULL}, labels = {.data = NULL};
    int good = read_array(folder, which, "images-idx3", &images) &&
               read_array(folder, which, "labels-idx1", &labels);
    if (good &&
        (images.rank != 3 || images.shape[1] != DIGIT_SIDE || images.shape[2] != DIGIT_SIDE ||
         labels.rank != 1 || images.shape[0] < 1 || labels.shape[0] != images.shape[0])) {
        fprintf(stderr, "%s: the %s files are not as many 28 x 28 pictures as labels\n", folder,
                which);
        good = 0;
    }
    for (int64_t i = 0; good && i < labels.shape[0]; i++) {
        if (labels.data[i] > 9) {
            fprintf(stderr, "%s: label %lld is %d\n", folder, (long long)i, labels.data[i]);
            good = 0;
        }
    }
    *out = (digits){.images = images.data, .labels = labels.data};
    if (good)
        out->n = images.shape[0] < most ? images.shape[0] : most;
    else
        digits_free(out);
    return good;
}

void digits_free(digits *d)
{
    free(d->images);
    free(d->labels);
    *d = (digits){.n = 0};
}

/* ---- drawn ------------------------------------------------------------------------------------- */

/* The points of each digit's stroke, x and y from 0 to 99, two characters each. */
static const char *const strokes[10] = {
    "4508302122382053216733854992688379687850773470185508",
    "3026501051305050507050905091",
    "223028165008701776346550456825882090508981907990",
    "2415500872167228703657465047604875588072718658922992",
    "647863956180612062085024354420627063826280628062",
    "7610501129112728264549406848775876736589429222842284",
    "6609442029422266308550927284756660504453276326652665",
    "19123511651180127023603950584678409140914091",
    "5047312727155008731669295047287726855094728373625047",
    "7230584740462636241550077215723071506575549254925492",
};

typedef struct point {
    double x, y;
} point;

static double distance(point p, point a, point b)
{
    const double dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
    double t = length > 0 ? ((p.x - a.x) * dx + (p.y - a.y) * dy) / length : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}

static void draw(uint8_t *image, int digit, uint64_t *state)
{
    const char *stroke = strokes[digit];
    const int n = (int)strlen(stroke) / 4;
    const double turn = dice_between(state, -0.25, 0.25),
                 slant = dice_between(state, -0.2, 0.3);
    const double wide = dice_between(state, 13, 20), high = dice_between(state, 17, 22);
    const double right = dice_between(state, -2, 2), down = dice_between(state, -2, 2);
    const double weight = dice_between(state, 0.6, 1.6);
    point p[16];
    for (int i = 0; i < n; i++) {
        const char *at = stroke + 4 * i;
        const double x = (at[0] - '0') * 10 + at[1] - '0', y = (at[2] - '0') * 10 + at[3] - '0';
        const double u = (x / 100 - 0.5 + dice_between(state, -0.03, 0.03)) * wide;
        const double v = (y / 100 - 0.5 + dice_between(state, -0.03, 0.03)) * high;
        const double s = u - slant * v;
        p[i].x = (double)DIGIT_SIDE / 2 + s * cos(turn) - v * sin(turn) + right;
        p[i].y = (double)DIGIT_SIDE / 2 + s * sin(turn) + v * cos(turn) + down;
    }
    for (int i = 0; i < DIGIT_BYTES; i++) {
        const point here = {i % DIGIT_SIDE + 0.5, i / DIGIT_SIDE + 0.5};
        double nearest = 1e9;
        for (int k = 1; k < n; k++) {
            const double d = distance(here, p[k - 1], p[k]);
            nearest = d < nearest ? d : nearest;
        }
        double ink = 255 * (weight + 0.5 - nearest) + dice_between(state, -25, 25);
        ink = nearest > weight + 2 ? 0 : ink;
        image[i] = (uint8_t)(ink < 0 ? 0 : ink > 255 ? 255 : ink);
    }
}

int digits_draw(int64_t n, uint64_t seed, digits *out)
{
    const size_t count = (size_t)n;
    *out = (digits){.n = n, .images = malloc(count * DIGIT_BYTES), .labels = malloc(count)};
    if (!out->images || !out->labels) {
        fprintf(stderr, "out of memory for %lld digits\n", (long long)n);
        digits_free(out);
        return 0;
    }
    for (int64_t i = 0; i < n; i++) {
        out->labels[i] = (uint8_t)dice(&seed, 10);
        draw(out->images + i * DIGIT_BYTES, out->labels[i], &seed);
    }
    return 1;
}
