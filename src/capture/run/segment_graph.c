/* The program of a segment: its steps as a static graph. */
#include "capture/record/segment_def.h"
#include "capture/run/step_nodes.h"
#include "op/call.h"

#include <stdio.h>
#include <string.h>

/* ---- nodes ----------------------------------------------------------------------------------------- */

typedef struct building {
    const tpi_segment *s; /* NULL: nothing varies */
    const tpi_frame *fr;
    int from;
    tp_graph *g;
    tp_tensor **inputs, **nodes;
    int64_t *symbols;
    const tpi_nodes_of *others; /* of operands from before, when they are not inputs */
} building;

/* A step as it is to be declared. */
typedef struct site {
    const tpi_step *step;
    const void *attrs;
    const int64_t *shape;
} site;

static int find_varying(const tpi_segment *s, tpi_varying v)
{
    for (int i = 0; i < s->n_varying; i++)
        if (tpi_varying_order(&s->varying[i], &v) == 0)
            return i;
    return -1;
}

static int64_t dim_of(const building *b, tpi_varying v, int64_t known)
{
    const int i = b->s ? find_varying(b->s, v) : -1;
    return i < 0 ? known : tpi_rule_dim(b->g->dims, b->s->quantities, i, b->symbols);
}

static tp_tensor *operand_node(const building *b, int32_t code)
{
    if (b->others)
        return b->others->node(b->others->user, code);
    const int i = tpi_segment_maker(b->s, code);
    return i >= 0 ? b->nodes[i] : b->inputs[tpi_segment_input(b->s, code)];
}

/* Attributes with symbols in place of the sizes that vary. */
static void symbolic_attrs(const building *b, int i, const site *p, void *attrs)
{
    const tpi_step *t = p->step;
    int64_t flat[TPI_MAX_FLAT_ATTRS], out[TPI_MAX_FLAT_ATTRS];
    tpi_dims *dims = b->g->dims;
    const int n = tpi_flatten_attrs(t->op, p->attrs, flat);
    if (t->op->attrs_size)
        memcpy(attrs, p->attrs, t->op->attrs_size); /* what is in no table, too */
    for (int k = 0; k < n; k++) {
        out[k] = flat[k];
        if (!tpi_is_size(t->op, flat, k))
            continue;
        out[k] = dim_of(b, (tpi_varying){i, 0, k}, tpi_size_value(t->op, flat, p->shape, k));
        const int axis = tpi_size_axis(t->op, flat, k);
        if (axis < 0)
            continue;
        const int64_t in = operand_node(b, t->in[0])->shape[axis], size = out[k];
        if (t->op->code == TPI_OP_slice) {
            const int64_t span = tpi_dim_mul(dims, size, flat[TPI_SLICE_STEP]);
            const int64_t last = tpi_dim_add(dims, out[TPI_SLICE_LO], span);
            out[k] = tpi_dim_sub(dims, tpi_dim_add(dims, in, flat[TPI_SLICE_STEP] - 1), last);
        } else {
            const int64_t inner = flat[2 * TPI_PAD_HI + 1 + axis];
            const int64_t spread =
                tpi_dim_sub(dims, tpi_dim_mul(dims, in, inner + 1), in == 0 ? 0 : inner);
            out[k] = tpi_dim_sub(dims, tpi_dim_sub(dims, size, out[1 + axis]), spread);
        }
    }
    tpi_unflatten_attrs(t->op, out, attrs);
}

typedef struct reading {
    const building *b;
    const tpi_step *step;
} reading;

static tp_tensor *operand_of(void *user, int k)
{
    const reading *r = user;
    return operand_node(r->b, r->step->in[k]);
}

static tp_tensor *op_node(const building *b, int i, const site *p)
{
    const tpi_step *t = p->step;
    _Alignas(8) char attrs[1024];
    if (t->op == &tpi_op_result)
        return operand_node(b, t->in[0]);
    if (t->op == &tpi_op_call)
        return NULL;
    symbolic_attrs(b, i, p, attrs);
    return tpi_step_node(b->g, t->at, t->op, attrs, t->n_in, operand_of, &(reading){b, t},
                         b->others ? TPI_OWN_DRAW : i);
}

static bool add_nodes(building *b)
{
    const tpi_segment *s = b->s;
    char name[24];
    for (int i = 0; i < s->n_symbols; i++) {
        snprintf(name, sizeof name, "s%d", i);
        b->symbols[i] = tp_symbol(b->g, name);
    }
    for (int i = 0; i < s->n_inputs; i++) {
        const tpi_input *x = &s->inputs[i];
        int64_t shape[TP_MAX_RANK];
        for (int a = 0; a < x->rank; a++)
            shape[a] = dim_of(b, (tpi_varying){-1, i, a}, x->shape[a]);
        b->inputs[i] = tpi_program_input(b->g, i, (tp_dtype)x->dtype, x->rank, shape);
        if (b->inputs[i]->status != TP_OK)
            return false;
    }
    for (int i = 0; i < s->n_steps; i++) {
        const tpi_pending *p = &b->fr->pending[b->from + i];
        const tpi_step *t = p->step;
        if (t->kind == TPI_STEP_SCALAR && !s->given[i])
            b->nodes[i] = tpi_graph_lift(b->g, t->at, t->scalar ? t->scalar : p->value);
        else if (t->kind == TPI_STEP_OP && !s->given[i])
            b->nodes[i] = op_node(b, i, &(site){t, tpi_attrs_of(p), p->value->shape});
        if (b->nodes[i] &&
            (b->nodes[i]->status != TP_OK || b->nodes[i]->dtype != p->value->dtype ||
             b->nodes[i]->rank != p->value->rank))
            return false;
    }
    for (int i = 0; i < s->n_steps; i++) {
        if (s->output_of[i] >= 0 &&
            (!b->nodes[i] || !tpi_program_output(b->g, s->output_of[i], b->nodes[i])))
            return false;
    }
    return true;
}

/* ---- for others: into a graph of theirs --------------------------------------------------------- */

static bool global_symbols(building *b)
{
    const tpi_segment *s = b->s;
    for (int i = 0; i < s->n_varying; i++) {
        const tpi_varying *v = &s->varying[i];
        if (s->quantities[i].symbol < 0)
            continue;
        if (v->step >= 0)
            return false; /* C alone knows it */
        const tp_tensor *in = operand_node(b, s->inputs[v->index].code);
        b->symbols[s->quantities[i].symbol] = in->shape[v->at];
    }
    return true;
}

tp_tensor *tpi_segment_declare(tp_graph *g, const tpi_step *first, int i, const tpi_step *t,
                               const tpi_nodes_of *nodes)
{
    const tpi_segment *s = first->segment;
    if (s && i < s->n_steps && s->given[i])
        return tpi_fail(g->ctx, t->at, t->op->name, TP_E_SHAPE,
                        "a place that C computes varied from turn to turn");
    if (s && (i >= s->n_steps || !s->n_varying))
        s = NULL;
    building b = {.s = s, .g = g, .others = nodes};
    const size_t bytes = s ? (size_t)s->n_symbols * sizeof *b.symbols : 0;
    b.symbols = tpi_take(&g->ctx->mem, bytes);
    if (!b.symbols)
        return tpi_no_memory(g->ctx, t->at, NULL);
    tp_tensor *y;
    if (s && !global_symbols(&b))
        y = tpi_fail(g->ctx, t->at, t->op->name, TP_E_SHAPE,
                     "a size that C computes varied from call to call");
    else
        y = op_node(&b, i, &(site){t, t->attrs, t->shape});
    tpi_give_back(&g->ctx->mem, b.symbols, bytes);
    return y;
}

static tp_program *compile(tp_function *f, tp_graph *g, tpi_at at, int n_in, int n_out,
                           tp_engine engine)
{
    const size_t n = (size_t)(n_in + n_out);
    char(*names)[16] = tpi_take(&f->ctx->mem, n * sizeof *names);
    const char **list = tpi_take(&f->ctx->mem, n * sizeof *list);
    tp_program *p = NULL;
    for (int i = 0; i < n_in + n_out && names && list; i++) {
        snprintf(names[i], sizeof names[i], "%c%d", i < n_in ? 'i' : 'o',
                 i < n_in ? i : i - n_in);
        list[i] = names[i];
    }
    const tp_compile_options opt = {.engine = engine};
    if (names && list)
        p = tp_graph_compile_at(at.file, at.line, g, n_in, list, n_out, list + n_in, &opt);
    tpi_give_back(&f->ctx->mem, names, n * sizeof *names);
    tpi_give_back(&f->ctx->mem, (void *)list, n * sizeof *list);
    return p;
}

/* Which of our symbols the program's are. */
static void find_symbols(tp_ctx *ctx, tpi_shared *p)
{
    const int n = p->program->n_symbols;
    p->symbol_of = tpi_take(&ctx->mem, (size_t)n * sizeof *p->symbol_of);
    p->failed = !p->symbol_of;
    for (int i = 0; i < n && p->symbol_of; i++) {
        const char *name = tpi_dim_symbol_name(p->program->graph->dims, i);
        int number = 0;
        if (sscanf(name, "s%d", &number) != 1)
            p->failed = true;
        p->symbol_of[i] = number;
    }
    if (!p->symbol_of) {
        tp_program_free(p->program);
        p->program = NULL;
    }
}

static void put_unwritten(const tp_graph *g, tpi_str *out)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const tp_tensor *t = g->nodes[i];
        tpi_body *bodies[2];
        const int n = tpi_is_block(t) ? tpi_bodies_of(t, bodies) : 0;
        for (int k = 0; k < n; k++)
            put_unwritten(bodies[k]->graph, out);
        if (!t->op->own)
            continue;
        const size_t end = tpi_text_attrs(t->op);
        tpi_str_add(out, (const char *)t->attrs + end, t->op->attrs_size - end);
    }
}

static bool is_of(const tpi_shared *p, const char *text, const tpi_str *unwritten)
{
    return strcmp(p->text, text) == 0 && p->unwritten.len == unwritten->len &&
           (!unwritten->len || memcmp(p->unwritten.text, unwritten->text, unwritten->len) == 0);
}

tpi_shared *tpi_shared_for(tp_function *f, tp_graph *g, tpi_at at, int n_in, int n_out,
                           bool waits)
{
    tpi_mem *m = &f->ctx->mem;
    char *text = tp_graph_text(g);
    tpi_str unwritten = TPI_STR(m);
    put_unwritten(g, &unwritten);
    const bool known = text && !unwritten.failed;
    for (tpi_shared *p = f->programs; p && known; p = p->next)
        if (is_of(p, text, &unwritten)) {
            tp_free(f->ctx, text);
            tpi_str_free(&unwritten);
            return p;
        }
    tpi_shared *p = known ? tpi_take(m, sizeof *p) : NULL;
    if (!p) {
        tp_free(f->ctx, text);
        tpi_str_free(&unwritten);
        return NULL;
    }
    *p = (tpi_shared){.next = f->programs,
                      .text = text,
                      .unwritten = unwritten,
                      .waits = waits && tpi_has_compiler(f)};
    p->program = compile(f, g, at, n_in, n_out,
                         p->waits              ? TP_ENGINE_TILES
                         : tpi_has_compiler(f) ? TP_ENGINE_AUTO
                                               : f->options.engine);
    f->programs = p;
    if (!p->program) {
        p->failed = true;
        return p;
    }
    if (p->waits)
        p->program->engine = TP_ENGINE_AUTO;
    tpi_object_remove(&p->program->owned); /* the function owns it */
    f->stats.compilations += !p->waits;
    find_symbols(f->ctx, p);
    return p;
}

void tpi_segment_build(tpi_segment *s, tpi_frame *fr, int from)
{
    tp_ctx *ctx = fr->ctx;
    building b = {.s = s, .fr = fr, .from = from};
    const size_t in = (size_t)s->n_inputs * sizeof *b.inputs,
                 nodes = (size_t)s->n_steps * sizeof *b.nodes,
                 symbols = (size_t)s->n_symbols * sizeof *b.symbols;
    tpi_aside earlier;
    tpi_error_aside(ctx, &earlier);
    b.g = tp_graph_new(ctx);
    b.inputs = tpi_take(&ctx->mem, in);
    b.nodes = tpi_take(&ctx->mem, nodes);
    b.symbols = tpi_take(&ctx->mem, symbols);
    bool ok = b.g && b.inputs && b.nodes && b.symbols && tp_scope_begin(ctx) == TP_OK;
    if (ok) {
        ctx->caller.recording = true;
        memset(b.nodes, 0, nodes);
        ok = add_nodes(&b);
        const int64_t before = fr->f->stats.compilations;
        if (ok)
            s->program =
                tpi_shared_for(fr->f, b.g, s->step->at, s->n_inputs, s->n_outputs, false);
        if (fr->f->stats.compilations != before)
            tpi_capture_log(
                fr->f, s->step->at, "a program for %d steps, %d kernels: %s", s->n_steps,
                s->program->program ? s->program->program->stats.kernels : 0, s->why_new);
        tp_scope_end(ctx);
    }
    s->programs++;
    if (!ok) /* the next run has one observation more */
        tpi_capture_log(fr->f, s->step->at, "no program yet: %s", tp_error_message(ctx));
    tpi_forget_error(ctx);
    tpi_error_back(ctx, &earlier);
    tpi_give_back(&ctx->mem, b.inputs, in);
    tpi_give_back(&ctx->mem, b.nodes, nodes);
    tpi_give_back(&ctx->mem, b.symbols, symbols);
    tp_graph_free(b.g);
}

void tpi_shared_free(tp_function *f)
{
    for (tpi_shared *p = f->programs, *next; p; p = next) {
        next = p->next;
        const int n = p->program ? p->program->n_symbols : 0;
        const int n_pointers = p->program ? p->program->n_feeds + p->program->n_roots : 0;
        tpi_give_back(&f->ctx->mem, p->symbol_of, (size_t)n * sizeof *p->symbol_of);
        tpi_give_back(&f->ctx->mem, p->pointers, (size_t)n_pointers * sizeof *p->pointers);
        tp_program_free(p->program);
        tp_free(f->ctx, p->text);
        tpi_str_free(&p->unwritten);
        tpi_give_back(&f->ctx->mem, p, sizeof *p);
    }
    f->programs = NULL;
}
