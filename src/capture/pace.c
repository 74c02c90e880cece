#include "capture/pace.h"

#include "base/clock.h"
#include "base/strbuf.h"
#include "capture/capture_def.h"

#include <inttypes.h>
#include <stdlib.h>

/* Who asks for an engine gets it. */
static bool may_choose(const tp_function *f)
{
    return f->options.engine == TP_ENGINE_AUTO && !f->options.check;
}

bool tpi_pace_begin(tp_function *f)
{
    tpi_pace *p = &f->pace;
    if (!may_choose(f))
        return false;
    if (!p->measures)
        return p->eager;
    p->start = tpi_now_ns();
    return p->n[TPI_PACE_EAGER] < p->n[TPI_PACE_CAPTURED];
}

static void measure(tpi_pace *p)
{
    p->measures = true;
    p->n[TPI_PACE_CAPTURED] = p->n[TPI_PACE_EAGER] = 0;
    p->measured_ns = 0;
}

/* Nothing was recorded or compiled for so long that what comes is likely what came. */
static void wait_for_quiet(tp_function *f)
{
    tpi_pace *p = &f->pace;
    p->quiet_calls++;
    p->quiet_steps += f->frame.position + 1;
    if (p->quiet_calls < TPI_PACE_QUIET || p->quiet_steps < TPI_PACE_STEPS ||
        !tpi_shared_done(f))
        return;
    measure(p);
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* By n calls of either kind. */
static void choose(tp_function *f, int32_t n)
{
    tpi_pace *p = &f->pace;
    for (int k = 0; k < TPI_PACE_KINDS; k++) {
        qsort(p->ns[k], (size_t)n, sizeof *p->ns[k], compare);
        p->median[k] = p->ns[k][n / 2];
    }
    const bool eager = p->median[TPI_PACE_EAGER] < p->median[TPI_PACE_CAPTURED];
    if (eager != p->eager)
        tpi_capture_log(f, f->at,
                        "from here on %s: a call takes %" PRId64 " ns so, not %" PRId64,
                        eager ? "eagerly" : "captured", p->median[eager], p->median[!eager]);
    if (eager != p->eager)
        p->rested = 0;
    if (p->rested < TPI_PACE_MOST)
        p->rested = 2 * p->rested + TPI_PACE_REST;
    p->rest = p->rested;
    p->eager = eager;
    p->measures = false;
}

static void add_measured(tp_function *f, tpi_pace_kind kind)
{
    tpi_pace *p = &f->pace;
    const int64_t ns = tpi_now_ns() - p->start;
    p->ns[kind][p->n[kind]++] = ns;
    p->measured_ns += ns;
    const int32_t n = p->n[TPI_PACE_EAGER];
    if (n == TPI_PACE_CALLS || (n >= TPI_PACE_LEAST && p->measured_ns >= TPI_PACE_NS))
        choose(f, n);
}

void tpi_pace_end(tp_function *f, bool captured)
{
    tpi_pace *p = &f->pace;
    p->eager_calls += !captured;
    if (!may_choose(f))
        return;
    if (captured && f->frame.new_steps) {
        p->quiet_calls = p->quiet_steps = p->rest = 0;
        p->measures = p->eager = false;
    } else if (p->measures) {
        add_measured(f, captured ? TPI_PACE_CAPTURED : TPI_PACE_EAGER);
    } else if (p->rest) {
        if (--p->rest == 0)
            measure(p);
    } else {
        wait_for_quiet(f);
    }
}

void tpi_pace_text(const tp_function *f, tpi_str *s)
{
    const tpi_pace *p = &f->pace;
    if (p->median[TPI_PACE_CAPTURED])
        tpi_str_printf(s,
                       "  a call takes %" PRId64 " ns captured and %" PRId64
                       " ns eagerly: %" PRId64 " calls ran eagerly\n",
                       p->median[TPI_PACE_CAPTURED], p->median[TPI_PACE_EAGER], p->eager_calls);
}
