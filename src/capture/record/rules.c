/* Sizes that vary: which are equal, and which follow from others.
 *
 * A segment is compiled for symbols. Two sizes that were equal whenever they were seen get one
 * symbol, and one that was a product or a sum of others gets an expression, because shape rules
 * can only join what they know to be equal. Each run checks that the rules hold; one that does
 * not is found again, with one observation more. */
#include "capture/capture_def.h"

#include <string.h>

enum { RULE_NONE, RULE_EQUAL, RULE_SCALED, RULE_SHIFTED, RULE_PRODUCT, RULE_DIVIDED };

static bool fits(const tpi_quantity *q, int i, int s)
{
    const tpi_quantity *x = &q[i];
    const int64_t v = x->seen[s], a = q[x->a].seen[s], b = q[x->b].seen[s];
    int64_t r;
    switch (x->rule) {
    case RULE_EQUAL:
        return v == a;
    case RULE_SCALED:
        return !__builtin_mul_overflow(a, x->c, &r) && v == r;
    case RULE_SHIFTED:
        return !__builtin_add_overflow(a, x->c, &r) && v == r;
    case RULE_PRODUCT:
        return !__builtin_mul_overflow(a, b, &r) && !__builtin_mul_overflow(r, x->c, &r) &&
               v == r;
    case RULE_DIVIDED:
        return x->c > 0 && v == a / x->c;
    default:
        return false;
    }
}

static bool fits_all(const tpi_quantity *q, int i, int n_seen)
{
    for (int s = 0; s < n_seen; s++)
        if (!fits(q, i, s))
            return false;
    return true;
}

static bool try_one(tpi_quantity *q, int i, int n_seen, int rule, int a, int b, int64_t c)
{
    q[i].rule = rule;
    q[i].a = a;
    q[i].b = b;
    q[i].c = c;
    return c != 0 && fits_all(q, i, n_seen);
}

static bool follows(tpi_quantity *q, int i, int n_seen)
{
    const int64_t v = q[i].seen[0];
    for (int a = 0; a < i; a++)
        if (q[a].symbol >= 0 && try_one(q, i, n_seen, RULE_EQUAL, a, a, 1))
            return true;
    for (int a = 0; a < i; a++) {
        const int64_t x = q[a].seen[0];
        if (q[a].symbol < 0)
            continue;
        if (x && v % x == 0 && try_one(q, i, n_seen, RULE_SCALED, a, a, v / x))
            return true;
        if (try_one(q, i, n_seen, RULE_SHIFTED, a, a, v - x))
            return true;
        if (v && x % v == 0 && try_one(q, i, n_seen, RULE_DIVIDED, a, a, x / v))
            return true;
    }
    for (int a = 0; a < i; a++)
        for (int b = 0; b <= a && q[a].symbol >= 0; b++) {
            int64_t x;
            if (q[b].symbol >= 0 && !__builtin_mul_overflow(q[a].seen[0], q[b].seen[0], &x) &&
                x > 0 && v % x == 0 && try_one(q, i, n_seen, RULE_PRODUCT, a, b, v / x))
                return true;
        }
    return false;
}

int tpi_find_rules(int n, tpi_quantity *q, int n_seen)
{
    int symbols = 0;
    for (int i = 0; i < n; i++) {
        q[i].symbol = -1;
        if (n_seen < 2 || !follows(q, i, n_seen)) {
            q[i].rule = RULE_NONE;
            q[i].symbol = symbols++;
        }
    }
    return symbols;
}

bool tpi_rule_holds(const tpi_quantity *q, int i, const int64_t *values)
{
    if (q[i].symbol >= 0)
        return true;
    tpi_quantity now[3] = {q[i], q[q[i].a], q[q[i].b]};
    now[0].seen[0] = values[i];
    now[1].seen[0] = values[q[i].a];
    now[2].seen[0] = values[q[i].b];
    now[0].a = 1;
    now[0].b = 2;
    return fits(now, 0, 0);
}

int64_t tpi_rule_dim(tpi_dims *dims, const tpi_quantity *q, int i, const int64_t *symbols)
{
    const tpi_quantity *x = &q[i];
    if (x->symbol >= 0)
        return symbols[x->symbol];
    const int64_t a = symbols[q[x->a].symbol], b = symbols[q[x->b].symbol];
    switch (x->rule) {
    case RULE_SCALED:
        return tpi_dim_mul(dims, a, x->c);
    case RULE_SHIFTED:
        return x->c < 0 ? tpi_dim_sub(dims, a, -x->c) : tpi_dim_add(dims, a, x->c);
    case RULE_PRODUCT:
        return tpi_dim_mul(dims, tpi_dim_mul(dims, a, b), x->c);
    case RULE_DIVIDED:
        return tpi_dim_div(dims, a, x->c);
    default:
        return a;
    }
}
