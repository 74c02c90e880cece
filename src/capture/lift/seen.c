/* What tp_truth tells as nodes, and ways that no recording took: an index that is out of range fails the run
 * there. */
#include "capture/lift/lift.h"

tp_tensor *tpi_truth_of(tpi_at at, tp_tensor *t)
{
    if (t->status == TP_OK && t->dtype != TP_BOOL)
        t = tp_ne_at(at.file, at.line, t, tp_scalar_like_at(at.file, at.line, t, 0));
    return t->status == TP_OK && t->rank > 0 ? tp_reshape_at(at.file, at.line, t, 0, NULL) : t;
}

const char *tpi_never_seen(bool truth)
{
    return truth ? "tp_truth was never true here: call the function so that both sides are "
                   "seen, or make it a graph with tp_if and tp_while"
                 : "tp_truth was never false here: call the function so that both sides are "
                   "seen, or make it a graph with tp_if and tp_while";
}

tp_tensor *tpi_seen_all(tpi_at at, tp_graph *g)
{
    return tpi_graph_lift(g, at, tp_scalar_at(at.file, at.line, g->ctx, TP_I64, 0));
}

/* The index of the one element, or of none: the run fails at the line of the look. */
tp_tensor *tpi_seen(tpi_at at, tp_tensor *seen, tp_tensor *truth, bool was)
{
    tp_tensor *unseen = was ? tp_not_at(at.file, at.line, truth) : truth;
    return tp_gather_at(at.file, at.line,
                        tp_reshape_at(at.file, at.line, seen, 1, (const int64_t[]){1}),
                        tp_cast_at(at.file, at.line, unseen, TP_I64), 0);
}

/* The draw is made, though nothing may read it: those behind it lie where they lay. */
tp_tensor *tpi_drawn(tpi_at at, tp_tensor *seen, tp_tensor *draw)
{
    tp_tensor *made = tp_group_at(at.file, at.line, 1, &draw);
    return tp_add_at(at.file, at.line, seen,
                     tp_cast_at(at.file, at.line, tp_not_at(at.file, at.line, made), TP_I64));
}

tp_tensor *tpi_if_seen(tpi_at at, tp_tensor *seen, tp_tensor *y)
{
    return tp_where_at(
        at.file, at.line,
        tp_ge_at(at.file, at.line, seen, tp_scalar_like_at(at.file, at.line, seen, 0)), y,
        tp_scalar_like_at(at.file, at.line, y, 0));
}
