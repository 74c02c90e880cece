#include "base/float_mode.h"
#include "tapir/train.h"

static bool is_better(const tp_patience *p, double value)
{
    return value == value &&
           (!p->begun || (p->rises ? value - p->best : p->best - value) > p->margin);
}

bool tp_patience_over(tp_patience *p, double value)
{
    TPI_DEFAULT_FLOAT_MODE;
    if (!p)
        return false;
    p->better = is_better(p, value);
    if (p->better) {
        p->begun = true;
        p->best = value;
        p->since = 0;
        return false;
    }
    const bool over = ++p->since >= p->turns;
    p->since = over ? 0 : p->since;
    return over;
}
