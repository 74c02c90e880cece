#include "tapir/train.h"

#include <string.h>

/* By the bits: a host may have floating-point exceptions unmasked, which a comparison would raise. */
static bool is_nan(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & INT64_MAX) > 0x7ff0000000000000;
}

static bool is_better(const tp_patience *p, double value)
{
    return !is_nan(value) &&
           (!p->begun || (p->rises ? value - p->best : p->best - value) > p->margin);
}

bool tp_patience_over(tp_patience *p, double value)
{
    if (!p)
        return false;
    if (is_better(p, value)) {
        p->begun = true;
        p->best = value;
        p->since = 0;
        return false;
    }
    const bool over = ++p->since >= p->turns;
    p->since = over ? 0 : p->since;
    return over;
}
