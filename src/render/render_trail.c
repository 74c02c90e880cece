/* What a stage that is done late needs of the row before: its places, and values of the row. */
#include "render/render_trail.h"

#define PUT(...) tpi_str_printf(&n->r->body, __VA_ARGS__)
#define LINE(...) (PUT("%*s", 4 * n->depth, ""), PUT(__VA_ARGS__))

static int name_at(const tpi_loops *n, int i)
{
    return tpi_render_name(n->r, n->k->nodes[i]);
}

static const char *type_at(const tpi_loops *n, int i)
{
    return tp_dtype_name((tp_dtype)tpi_loops_value_at(n, i)->node->dtype);
}

/* What lies in the memory of an operand would be read too late. */
static bool is_written_over(const tpi_loops *n)
{
    for (int i = 0; i < n->n_reads; i++)
        if (n->plan->values[n->reads[i].layout.root].over >= 0)
            return true;
    return false;
}

bool tpi_trail_of(const tpi_loops *n, tpi_trail *late)
{
    bool any = false;
    for (int i = 0; i < n->k->n_nodes; i++)
        late->used[i] = false;
    for (int i = 0; i < n->k->n_nodes; i++) {
        const tpi_value *v = tpi_loops_value_at(n, i);
        if (late->taken[i] && (tpi_loops_is_kept(n, i) || n->home[i] != 1))
            return false;
        for (int o = 0; late->computed[i] && o < v->node->n_in; o++) {
            const tpi_value *x = tpi_loops_inner_operand(n, v, o);
            if (!x && !tpi_loops_is_literal(n, v, o))
                return false;
            for (int k = 0; x && x->row && k < n->k->n_nodes; k++)
                late->used[k] |= tpi_loops_value_at(n, k) == x;
        }
        any |= late->computed[i];
    }
    return any && !is_written_over(n);
}

void tpi_trail_begin(tpi_loops *n, const tpi_trail *late)
{
    LINE("int late = 0;\n");
    for (int a = 0; a < n->rank; a++)
        if (!n->reduced[a])
            LINE("int64_t l%d = 0;\n", a);
    for (int i = 0; i < n->k->n_nodes; i++)
        if (late->used[i])
            LINE("tpk_%s y%d = 0;\n", type_at(n, i), name_at(n, i));
}

static void put_places(tpi_loops *n)
{
    for (int a = 0; a < n->rank; a++)
        if (!n->reduced[a])
            LINE("l%d = i%d;\n", a, a);
}

void tpi_trail_first(tpi_loops *n)
{
    LINE("if (!late) {\n");
    n->depth++;
    put_places(n);
    n->depth--;
    LINE("}\n");
}

void tpi_trail_names(tpi_loops *n, const tpi_trail *late)
{
    for (int a = 0; a < n->rank; a++)
        if (!n->reduced[a])
            LINE("const int64_t i%d = l%d;\n", a, a), LINE("(void)i%d;\n", a);
    for (int i = 0; i < n->k->n_nodes; i++)
        if (late->used[i])
            LINE("const tpk_%s x%d = y%d;\n", type_at(n, i), name_at(n, i), name_at(n, i));
}

void tpi_trail_keep(tpi_loops *n, const tpi_trail *late)
{
    LINE("late = 1;\n");
    put_places(n);
    for (int i = 0; i < n->k->n_nodes; i++)
        if (late->used[i])
            LINE("y%d = x%d;\n", name_at(n, i), name_at(n, i));
}
