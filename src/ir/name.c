#include "core/variable.h"
#include "ir/graph_def.h"

#include <string.h>

tp_tensor *(tp_name)(tp_tensor *t, const char *name)
{
    const tpi_at at = TPI_AT(tpi_is_live(t) ? t->file : NULL, tpi_is_live(t) ? t->line : 0);
    if (!tpi_is_live(t) || t->status != TP_OK)
        return tpi_refuse_operand(t ? t->ctx : NULL, at, "tp_name", 0, t);
    if (!name || !*name)
        return tpi_fail(t->ctx, at, "tp_name", name ? TP_E_NAME : TP_E_NULL, "the name is %s",
                        name ? "empty" : "NULL");
    if (t->name && strcmp(t->name, name) == 0)
        return t;
    if (tpi_is_kept_number(t))
        return tpi_fail_kept_number(t, at, "tp_name");
    if (tpi_is_shared(t->ctx, t))
        return tpi_fail_shared(t->ctx, at, "tp_name");
    tpi_note_effect(t->ctx, t, TPI_LOOK_MARK);
    if (!t->graph)
        return tpi_set_name(t, name) ? t : tpi_no_memory(t->ctx, at, "tp_name");
    if (t->name)
        return tpi_fail(t->ctx, at, "tp_name", TP_E_NAME,
                        "the node has the name \"%s\" and keeps it; it cannot be \"%s\" too",
                        t->name, name);
    if (tpi_graph_by_name(t->graph, name, strlen(name)))
        return tpi_fail(t->ctx, at, "tp_name", TP_E_NAME,
                        "another node of the graph has the name \"%s\"", name);
    return tpi_graph_named(t->graph, t, name);
}
