/* What a file that stands alone has to name: sizes, inputs, outputs, weights, variables. */
#include "render/standalone/standalone_def.h"

#include <stdio.h>
#include <string.h>

/* ---- weights and variables --------------------------------------------------------------------- */

/* Its number. */
static int add_weight(tpi_alone *a, const tp_tensor *t, const char *name)
{
    for (int i = 0; i < a->n_weights; i++)
        if (a->weights[i].t == t)
            return i;
    tpi_alone_weight *v =
        tpi_bump_grow(&a->memory, a->weights, a->n_weights, &a->weights_size, sizeof *v);
    if (!v)
        return 0;
    a->weights = v;
    int64_t at = 0;
    if (a->n_weights) {
        const tpi_alone_weight *last = &v[a->n_weights - 1];
        at = (last->offset + (int64_t)tpi_bytes(last->t) + 63) & ~(int64_t)63;
    }
    v[a->n_weights] = (tpi_alone_weight){.t = t, .name = name, .offset = at};
    return a->n_weights++;
}

static bool add_variable(tpi_alone *a, const tp_tensor *node, const tp_tensor *t)
{
    for (int i = 0; i < a->n_variables; i++)
        if (a->variables[i].t == t)
            return true;
    if (!(t->flags & TPI_STATE)) {
        const tpi_at at = node && node->file ? TPI_AT(node->file, node->line) : a->q->at;
        tpi_fail_status(a->ctx, at, a->q->what, TP_E_STATE,
                        "a view of a variable is read: make it in the graph, from "
                        "tp_graph_read of the variable");
        return false;
    }
    tpi_alone_variable *v =
        tpi_bump_grow(&a->memory, a->variables, a->n_variables, &a->variables_size, sizeof *v);
    if (!v)
        return false;
    a->variables = v;
    v[a->n_variables++] = (tpi_alone_variable){.t = t, .weight = add_weight(a, t, t->name)};
    return true;
}

static bool find_in_buffer(tpi_alone *a, const tpi_buffer *b, int number)
{
    if (b->storage != TPI_IN_SOURCE || !b->like)
        return true;
    if (tpi_constant_of(b->like)) {
        a->weight_of[number] = add_weight(a, b->like->in[0], b->like->name);
        return true;
    }
    return !tpi_variable_of(b->like) || add_variable(a, b->like, b->like->in[0]);
}

static bool find_in_plan(tpi_alone *a, const tpi_plan *plan)
{
    bool ok = true;
    for (int i = 0; i < plan->n_buffers && ok; i++) {
        const tpi_buffer *b = &plan->buffers[i];
        ok = find_in_buffer(a, b, plan->first_buffer + i);
        for (int k = 0; b->section && k < b->section->n_bodies && ok; k++)
            ok = find_in_plan(a, b->section->plan[k]);
    }
    return ok;
}

/* ---- sizes --------------------------------------------------------------------------------------- */

static int mark_symbol(void *user, int i)
{
    tpi_alone *a = user;
    a->symbols[i].used = true;
    return 0;
}

static void mark_size(tpi_alone *a, int64_t size)
{
    tpi_dim_ask(a->dims, size, mark_symbol, a);
}

static void mark_sizes(tpi_alone *a, const tp_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const tp_tensor *t = g->nodes[i];
        for (int k = 0; k < t->rank; k++)
            mark_size(a, t->shape[k]);
        for (const tpi_attr *attr = t->op->attrs; attr && attr->name; attr++) {
            const int64_t *v =
                (const int64_t *)(const void *)((const char *)t->attrs + attr->offset);
            const int64_t n = attr->type == TPI_ATTR_DIMS ? *v++ : attr->type == TPI_ATTR_DIM;
            for (int64_t k = 0; k < n; k++)
                mark_size(a, v[k]);
        }
        tpi_body *bodies[2];
        const int n = tpi_is_block(t) ? tpi_bodies_of(t, bodies) : 0;
        for (int k = 0; k < n; k++)
            mark_sizes(a, bodies[k]->graph);
    }
}

/* Which loop sets a late symbol. */
static void find_loops(tpi_alone *a, const tpi_plan *plan)
{
    for (int i = 0; i < plan->n_values && plan->sections; i++) {
        const tpi_section *s = plan->sections[i];
        int symbol;
        if (!s)
            continue;
        for (int k = 0; k < s->n_bodies; k++)
            find_loops(a, s->plan[k]);
        const tpi_loop_attrs *loop = s->node->attrs;
        if (tpi_loop_of(s->node) && loop->has_pred &&
            tpi_dim_as_symbol(a->dims, loop->length, &symbol))
            a->symbols[symbol].loop = plan->first_kernel + plan->values[i].kernel;
    }
}

/* ---- names ------------------------------------------------------------------------------------- */

static void name_ports(tpi_alone *a)
{
    const tpi_standalone *q = a->q;
    tpi_str in = TPI_STR(&a->ctx->mem), out = TPI_STR(&a->ctx->mem),
            state = TPI_STR(&a->ctx->mem), sizes = TPI_STR(&a->ctx->mem);
    char stream[TPI_STREAM_NAME];
    for (int i = 0; i < q->n_in; i++)
        tpi_c_name_new(&a->in[i], &in, q->in_names[i], "x");
    for (int i = 0; i < q->n_out; i++)
        tpi_c_name_new(&a->out[i], &out, q->out_names[i], "y");
    tpi_str_put(&state, "|seed|position|");
    for (int i = 0; i < a->plan->n_streams; i++)
        tpi_str_printf(&state, "%s|", tpi_alone_position(a->plan->streams[i], stream));
    for (int i = 0; i < a->n_variables; i++)
        tpi_c_name_new(&a->variables[i].name, &state, a->variables[i].t->name, "variable");
    for (int i = 0; i < a->n_symbols; i++) {
        tpi_alone_symbol *s = &a->symbols[i];
        const char *name = tpi_dim_symbol_name(a->dims, i);
        char most[80];
        snprintf(most, sizeof most, s->late ? "most_%s" : "%s", name);
        tpi_c_name_new(&s->name, &sizes, most, "n");
        if (s->late)
            tpi_c_name_new(&s->count, &out, name, "n");
    }
    a->memory.failed |= in.failed || out.failed || state.failed || sizes.failed;
    tpi_str_free(&in);
    tpi_str_free(&out);
    tpi_str_free(&state);
    tpi_str_free(&sizes);
}

/* ---- all ----------------------------------------------------------------------------------------- */

static bool take_lists(tpi_alone *a)
{
    tpi_bump *m = &a->memory;
    const size_t n = (size_t)a->plan->all_buffers;
    a->n_symbols = tpi_dim_n_symbols(a->dims);
    a->weight_of = tpi_bump_take(m, n, sizeof *a->weight_of);
    a->refuses = tpi_bump_take(m, (size_t)a->plan->all_kernels, sizeof *a->refuses);
    a->symbols = tpi_bump_take(m, (size_t)a->n_symbols, sizeof *a->symbols);
    a->in = tpi_bump_take(m, (size_t)a->q->n_in, sizeof *a->in);
    a->out = tpi_bump_take(m, (size_t)a->q->n_out, sizeof *a->out);
    if (!m->failed)
        memset(a->weight_of, -1, n * sizeof *a->weight_of);
    return !m->failed;
}

bool tpi_alone_find(tpi_alone *a)
{
    const tpi_standalone *q = a->q;
    bool ok = take_lists(a) && find_in_plan(a, a->plan);
    for (int i = 0; i < q->n_writes && ok; i++)
        ok = add_variable(a, q->roots[q->n_out + i], q->written[i]);
    if (!ok || a->memory.failed)
        return false;
    mark_sizes(a, q->graph);
    find_loops(a, a->plan);
    for (int i = 0; i < a->n_symbols; i++) {
        a->symbols[i].late = q->late[i];
        a->sized |= a->symbols[i].used;
    }
    for (int i = 0; i < a->plan->n_kernels; i++)
        a->n_random += a->plan->graph->nodes[a->plan->kernels[i].root]->op->draws;
    a->state = a->n_variables || a->n_random || a->plan->draws;
    name_ports(a);
    return !a->memory.failed;
}
