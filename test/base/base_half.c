/* Floats of 16 bits: each comes back, and what lies between two goes to the nearest, by one rounding. */
#include "base/half.h"
#include "common/unit.h"

#include <math.h>

static bool is_nan(tpi_half type, uint16_t h)
{
    return type == TPI_FLOAT16 ? (h & 0x7fff) > 0x7c00 : (h & 0x7fff) > 0x7f80;
}

static void expect(tpi_half type, double v, uint16_t want)
{
    const uint16_t got = tpi_half_of_double(type, v);
    if (got != want)
        fail_msg("type %d: %a is %#x, not %#x", (int)type, v, got, want);
    if ((double)(float)v == v && tpi_half_of_float(type, (float)v) != want)
        fail_msg("type %d: as a float %a is %#x, not %#x", (int)type, v,
                 tpi_half_of_float(type, (float)v), want);
}

/* h and the next one: the middle goes to the even one, what is a little off it to the nearer one. */
static void between(tpi_half type, uint16_t h, double end)
{
    const double a = (double)tpi_half_to_float(type, h),
                 next = (double)tpi_half_to_float(type, h + 1);
    const double middle = a + ((isinf(next) ? end : next) - a) / 2;
    expect(type, middle, h & 1 ? h + 1 : h);
    expect(type, nextafter(middle, 0), h);
    expect(type, nextafter(middle, INFINITY), h + 1);
    expect(type, -middle, 0x8000 | (h & 1 ? h + 1 : h));
    expect(type, -nextafter(middle, 0), 0x8000 | h);
    if ((double)(float)middle == middle) {
        expect(type, (double)nextafterf((float)middle, 0), h);
        expect(type, (double)nextafterf((float)middle, INFINITY), h + 1);
    }
}

static void all(void **state)
{
    (void)state;
    for (tpi_half type = TPI_FLOAT16; type <= TPI_BFLOAT16; type++) {
        const uint16_t inf = type == TPI_FLOAT16 ? 0x7c00 : 0x7f80;
        for (uint32_t h = 0; h < 0x10000; h++) {
            const float f = tpi_half_to_float(type, (uint16_t)h);
            const uint16_t back = tpi_half_of_float(type, f);
            assert_true(is_nan(type, (uint16_t)h) == (isnan(f) != 0));
            if (is_nan(type, (uint16_t)h) ? !is_nan(type, back) : back != h)
                fail_msg("type %d: %#x came back as %#x", (int)type, h, back);
            if (h < inf)
                between(type, (uint16_t)h, type == TPI_FLOAT16 ? 0x1p16 : 0x1p128);
        }
        expect(type, 1e300, inf);
        expect(type, -1e300, 0x8000 | inf);
        expect(type, 1e-300, 0);
        expect(type, -5e-324, 0x8000);
        expect(type, 1e-45, 0);
        assert_true(is_nan(type, tpi_half_of_double(type, (double)NAN)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
