/* Reads what ir/print.c writes. Every node is built through its op's shape rule. */
#include "ir/body.h"
#include "op/read/parser.h"

#include <string.h>

/* ---- nodes --------------------------------------------------------------------------------------- */

typedef struct text_tail { /* what ends every line of a node */
    tpi_text_type type;
    bool constant;
    int64_t index; /* of a param; -1: it is none */
    tpi_at at;
} text_tail;

/* A block whose bodies are being read. */
typedef struct tpi_text_block {
    const tpi_op *op;
    const void *attrs;
    int body, n_in; /* the body that it is in */
    const int *in;  /* its operands' places there */
} tpi_text_block;

/* `<- carried %3`, what the block around gives param `index`. */
static bool origin(tpi_reader *P, int64_t index)
{
    const tpi_text_block *b = P->in_block;
    const tpi_role role = tpi_param_role(b->op, b->attrs, index);
    if (index < 0 || role.operand >= b->n_in)
        return tpi_read_bad(P, "the block takes %d operands, none for param %lld", b->n_in,
                            (long long)index);
    if (!tpi_read_eat(P, '<') || !tpi_read_eat(P, '-'))
        return tpi_read_bad(P, "\"<-\" and what the param takes are missing");
    if (*role.word && !tpi_read_eat_word(P, role.word))
        return tpi_read_bad(P, "this is the block's %s", role.word);
    if (role.operand < 0)
        return true;
    int64_t k = 0;
    if (!tpi_read_node_number(P, b->body, &k))
        return false;
    return k == b->in[role.operand] ||
           tpi_read_bad(P, "the block's operand %lld is another node", (long long)role.operand);
}

static bool tail(tpi_reader *P, text_tail *t)
{
    if (!tpi_read_expect(P, ':') || !tpi_read_type(P, true, &t->type))
        return false;
    t->constant = tpi_read_eat_word(P, "constant");
    return (t->index < 0 || origin(P, t->index)) && tpi_read_place(P, &t->at) &&
           tpi_read_end_of_line(P);
}

/* The node that reads a concrete tensor, when it is a new one. */
static tp_tensor *source(tpi_reader *P, tp_tensor *x, const text_tail *t)
{
    const int known = P->g->n_nodes;
    if (t->constant) {
        tpi_read_bad(P, "only a computed node is marked constant");
        return NULL;
    }
    tp_tensor *node = tpi_graph_lift(P->g, t->at, x);
    if (P->g->n_nodes == known + 1)
        return node;
    if (node->status == TP_E_MEMORY)
        tpi_read_no_memory(P);
    else
        tpi_read_bad(P, "the variable is read already, or was assigned before");
    return NULL;
}

static tp_tensor *variable_node(tpi_reader *P, text_tail *t)
{
    int k = 0;
    if (!tpi_read_reference(P, '@', P->cells.n, "variable", &k) || !tail(P, t))
        return NULL;
    tp_tensor *x = P->cells.v[k];
    if (x->dtype != t->type.dtype || x->rank != t->type.rank ||
        memcmp(x->shape, t->type.shape, sizeof(int64_t) * x->rank) != 0) {
        tpi_read_bad(P, "the variable has another type or shape");
        return NULL;
    }
    char *name = x->name; /* lifting would name the node after it; the text says its name */
    x->name = NULL;
    tp_tensor *node = source(P, x, t);
    x->name = name;
    return node;
}

static tp_tensor *constant_node(tpi_reader *P, text_tail *t)
{
    tpi_read_skip_spaces(P);
    const char *start = P->p;
    const bool stored = tpi_read_eat(P, '#');
    if (stored) {
        int64_t k = 0;
        if (!tpi_read_number(P, &k))
            return NULL;
        if (k != P->n_data) {
            tpi_read_bad(P, "the next constant that is stored is #%d", P->n_data);
            return NULL;
        }
    } else {
        while (P->p < P->limit && *P->p != ':' && *P->p != '\n')
            P->p++;
    }
    const char *limit = P->p;
    if (!tail(P, t))
        return NULL;
    for (int i = 0; i < t->type.rank; i++) {
        if (tpi_dim_is_symbolic(t->type.shape[i])) {
            tpi_read_bad(P, "a constant has sizes that are numbers");
            return NULL;
        }
    }
    tp_tensor *x = stored ? tpi_read_value(P, &t->type, P->n_memory + P->n_data++)
                          : tpi_read_constant(P, start, limit, &t->type);
    return x ? source(P, x, t) : NULL;
}

static tp_tensor *assign(tpi_reader *P, const text_tail *t)
{
    tp_tensor *var = P->in.v[0], *v = P->in.v[1], *x = var;
    while (x->op == &tpi_op_assign)
        x = x->in[0];
    if (x->op != &tpi_op_variable) {
        tpi_read_bad(P, "what is assigned is a variable or its newest value");
        return NULL;
    }
    const int known = P->g->n_nodes;
    tpi_aside earlier;
    tpi_error_aside(P->ctx, &earlier);
    tp_tensor *node = tp_assign_at(t->at.file, t->at.line, var, v);
    if (node->status != TP_OK && node->status != TP_E_MEMORY)
        tpi_forget_error(P->ctx);
    tpi_error_back(P->ctx, &earlier);
    if (node->status == TP_E_MEMORY)
        tpi_read_no_memory(P);
    else if (node->status != TP_OK || P->g->n_nodes != known + 1 || node->in[0] != var ||
             node->in[1] != v)
        tpi_read_bad(P, "this cannot be assigned here: %s", tp_error_text(node));
    return P->failed ? NULL : node;
}

/* Operands of the line, into P->in. */
static bool operands(tpi_reader *P)
{
    P->in.n = 0;
    while (!tpi_read_next_is(P, '{') && !tpi_read_next_is(P, ':')) {
        int64_t i = 0;
        if ((P->in.n && !tpi_read_expect(P, ',')) || !tpi_read_node_number(P, P->body, &i))
            return false;
        if (i < 0 || i >= P->g->n_nodes)
            return tpi_read_bad(P, "no node %%%lld comes before this line", (long long)i);
        tpi_nodes_push(&P->in, P->g->nodes[i]);
        if (P->in.failed)
            return tpi_read_no_memory(P);
    }
    return true;
}

/* Is a node of this type what the op's rules give for its operands? */
static bool check(tpi_reader *P, const tpi_op *op, int n_in, tp_tensor *const *in,
                  const void *attrs, const text_tail *t)
{
    tpi_rule_error why;
    if (!tpi_check_attrs(P->g->dims, op, attrs, &why))
        return tpi_read_bad(P, "%s", why.text);
    if (!op->infer)
        return true;
    tpi_infer q = {.op = op,
                   .at = TPI_AT(NULL, 0),
                   .ctx = P->ctx,
                   .dims = P->g->dims,
                   .n_in = n_in,
                   .in = in,
                   .attrs = attrs};
    const tp_status s = tpi_infer_again(&q, &why);
    if (s == TP_E_MEMORY)
        return tpi_read_no_memory(P);
    return (s == TP_OK &&
            tpi_check_answer(&q, t->type.dtype, t->type.rank, t->type.shape, &why)) ||
           tpi_read_bad(P, "%s", why.text);
}

static tp_tensor *block(tpi_reader *P, const tpi_op *op, void *attrs, const text_tail *t);

static tp_tensor *computed(tpi_reader *P, const tpi_op *op, text_tail *t)
{
    uint64_t attrs[64] = {0};
    tpi_rule_error why;
    if (op->attrs_size > sizeof attrs) {
        tpi_read_bad(P, "the attributes of %s are too large", op->name);
        return NULL;
    }
    if (!operands(P))
        return NULL;
    if (!tpi_check_operands(op, P->in.n, &why) ||
        !tpi_check_reads(op, P->in.n, P->in.v, &why)) {
        tpi_read_bad(P, "%s", why.text);
        return NULL;
    }
    if (!tpi_read_attributes(P, op, (char *)attrs) || !tail(P, t))
        return NULL;
    if (op->kind == TPI_BLOCK)
        return block(P, op, attrs, t);
    if (!check(P, op, P->in.n, P->in.v, attrs, t))
        return NULL;
    P->ctx->caller.recording = !t->constant;
    tp_tensor *node =
        op == &tpi_op_assign
            ? assign(P, t)
            : tpi_graph_node(P->g, t->at, op, P->in.n, P->in.v, op->attrs_size ? attrs : NULL,
                             t->type.dtype, t->type.rank, t->type.shape);
    P->ctx->caller.recording = true;
    if (node && node->status != TP_OK) {
        tpi_read_no_memory(P);
        return NULL;
    }
    return node;
}

/* `param {index=1} : f32[3] <- carried %0` */
static tp_tensor *param(tpi_reader *P, text_tail *t)
{
    tpi_index_attrs a = {0}, *own;
    if (!tpi_read_attributes(P, &tpi_op_param, (char *)&a))
        return NULL;
    t->index = a.index;
    if (a.index < 0) {
        tpi_read_bad(P, "a param has an index");
        return NULL;
    }
    if (!tail(P, t))
        return NULL;
    P->ctx->caller.recording = !t->constant;
    tp_tensor *node =
        tpi_body_param(P->g->body, t->at, t->type.dtype, t->type.rank, t->type.shape, NULL);
    P->ctx->caller.recording = true;
    if (node->status != TP_OK) {
        tpi_read_no_memory(P);
        return NULL;
    }
    memcpy(&own, &node->attrs, sizeof own); /* sorted when all of the body is read */
    own->index = a.index;
    return node;
}

static tp_tensor *node_of(tpi_reader *P, const tpi_op *op, text_tail *t)
{
    tpi_rule_error why;
    if (!tpi_check_place(op, P->g->body, &why)) {
        tpi_read_bad(P, "%s", why.text);
        return NULL;
    }
    if (op == &tpi_op_variable)
        return variable_node(P, t);
    if (op == &tpi_op_const)
        return constant_node(P, t);
    return op == &tpi_op_param ? param(P, t) : computed(P, op, t);
}

/* `%3 "y" = mul %1, %2 : f32[batch,10] ; net.c:8` */
static bool node_line(tpi_reader *P)
{
    int64_t k = 0;
    tpi_text_name name;
    if (!tpi_read_node_number(P, P->body, &k))
        return false;
    if (k != P->g->n_nodes)
        return P->body ? tpi_read_bad(P, "the next of these lines is %%%d.%d", P->body,
                                      P->g->n_nodes)
                       : tpi_read_bad(P, "the next of these lines is %%%d", P->g->n_nodes);
    if (!tpi_read_maybe_name(P, &name))
        return false;
    const char *start = P->p;
    tp_tensor *node = NULL;
    text_tail t = {.index = -1};
    if (name.text && tpi_graph_by_name(P->g, name.text, name.len)) {
        tpi_read_bad(P, "the name is taken by a line before");
    } else if (tpi_read_expect(P, '=')) {
        const size_t n = tpi_read_word(P, &start);
        const tpi_op *op = tpi_op_find(start, n);
        if (!op) {
            P->p = start;
            tpi_read_bad(P, "no op is called so");
        } else if (op == &tpi_op_placeholder && (!name.text || !*name.text)) {
            tpi_read_bad(P, "a placeholder needs a name");
        } else {
            node = node_of(P, op, &t);
        }
    }
    if (node && name.text && tpi_graph_name(P->g, node, name.text) != TP_OK) {
        tpi_read_no_memory(P);
        node = NULL;
    }
    tpi_strfree(&P->ctx->mem, name.text);
    return node != NULL;
}

/* ---- bodies ---------------------------------------------------------------------------------- */

/* Is the next line a node of the body that is read? */
static bool is_own_line(tpi_reader *P)
{
    int64_t k = 0;
    if (!tpi_read_next_is(P, '%'))
        return false;
    const char *end = tpi_scan_i64(P->p + 1, P->limit, &k);
    return end && k == P->body && end < P->limit && *end == '.';
}

/* Params in order, each of them there once. */
static bool sort_params(tpi_reader *P, tpi_body *b)
{
    const size_t bytes = (size_t)b->n_params * sizeof *b->params;
    tp_tensor **sorted = tpi_take(&P->ctx->mem, bytes);
    if (!sorted)
        return tpi_read_no_memory(P);
    if (bytes)
        memset(sorted, 0, bytes);
    bool ok = true;
    for (int i = 0; i < b->n_params && ok; i++) {
        const int64_t k = ((const tpi_index_attrs *)b->params[i]->attrs)->index;
        ok = k < b->n_params && !sorted[k];
        if (ok)
            sorted[k] = b->params[i];
    }
    if (ok && bytes)
        memcpy(b->params, sorted, bytes);
    tpi_give_back(&P->ctx->mem, sorted, bytes);
    return ok || tpi_read_bad(P, "params have the indices 0, 1 and so on, each once");
}

/* `carry %1.4, %1.2`: `n` outputs of the body, any number when n is -1. */
static bool results(tpi_reader *P, tpi_body *b, const char *word, int64_t n)
{
    int64_t count = 0, i = 0;
    if (!tpi_read_eat_word(P, word))
        return tpi_read_bad(
            P, "\"%s\" and what the body gives are missing, or its next node, %%%d.%d", word,
            P->body, P->g->n_nodes);
    while (!tpi_read_at_line_end(P)) {
        if ((count && !tpi_read_expect(P, ',')) || !tpi_read_node_number(P, P->body, &i))
            return false;
        if (i < 0 || i >= P->g->n_nodes)
            return tpi_read_bad(P, "no node %%%d.%lld is in this body", P->body, (long long)i);
        if (tpi_is_block(P->g->nodes[i]))
            return tpi_read_bad(P, "a block is read through its outputs");
        if (count++ == INT32_MAX / 2 || !tpi_body_output(b, P->g->nodes[i]))
            return tpi_read_no_memory(P);
    }
    if (n >= 0 && count != n)
        return tpi_read_bad(P, "%lld values are given here, not %lld", (long long)count,
                            (long long)n);
    tpi_read_next_line(P);
    return true;
}

static bool all_results(tpi_reader *P, tpi_body *b, const tpi_op *op, const void *attrs)
{
    const tpi_loop_attrs *loop = attrs;
    if (op != &tpi_op_loop)
        return results(P, b, "give", -1);
    return (!loop->has_pred || results(P, b, "while", 1)) &&
           (!loop->n_carried || results(P, b, "carry", loop->n_carried)) &&
           (!loop->n_stacked || results(P, b, "stack", loop->n_stacked));
}

static bool node_line(tpi_reader *P);

/* `(2) then ; net.c:7`, the nodes, and what it gives. */
static bool body(tpi_reader *P, const tpi_text_block *outer, const char *word, int number,
                 tpi_body *b)
{
    int64_t k = 0;
    if (!tpi_read_next_is(P, '('))
        return tpi_read_bad(P, "body (%d) is missing", number);
    tpi_read_eat(P, '(');
    if (!tpi_read_number(P, &k))
        return false;
    if (k != number)
        return tpi_read_bad(P, "the next body is (%d)", number);
    if (!tpi_read_expect(P, ')'))
        return false;
    if (tpi_read_next_is(P, '%'))
        return tpi_read_bad(P, "nodes of this body are %%%d.0, %%%d.1 and so on", P->body,
                            P->body);
    if (!tpi_read_eat_word(P, word))
        return tpi_read_bad(P, "this is the block's \"%s\"", word);
    if (!tpi_read_place(P, &b->at) || !tpi_read_end_of_line(P))
        return false;
    tp_graph *const g = P->g;
    const tpi_text_block *const in_block = P->in_block;
    const int in_body = P->body;
    P->g = b->graph;
    P->in_block = outer;
    P->body = number;
    bool ok = true;
    for (tpi_read_next_line(P); ok && is_own_line(P); tpi_read_next_line(P))
        ok = node_line(P);
    ok = ok && sort_params(P, b) && all_results(P, b, outer->op, outer->attrs);
    P->g = g;
    P->in_block = in_block;
    P->body = in_body;
    return ok;
}

static bool is_count(int64_t n)
{
    return n >= 0 && n <= INT32_MAX;
}

static bool bodies(tpi_reader *P, const tpi_text_block *b)
{
    const tpi_loop_attrs *loop = b->attrs;
    if (b->op == &tpi_op_loop &&
        !(is_count(loop->n_carried) && is_count(loop->n_slices) && is_count(loop->n_stacked)))
        return tpi_read_bad(P, "a number of carried values, slices or outputs is absurd");
    int number = P->n_bodies + 1;
    for (const tpi_attr *a = b->op->attrs; a->name; a++)
        number -= a->type == TPI_ATTR_BODY;
    tpi_read_next_line(P);
    for (const tpi_attr *a = b->op->attrs; a->name; a++) {
        tpi_body *inner;
        if (a->type != TPI_ATTR_BODY)
            continue;
        memcpy(&inner, (const char *)b->attrs + a->offset, sizeof inner);
        if (!body(P, b, a->name, number++, inner))
            return false;
    }
    return true;
}

/* A block whose line is read, with its operands in P->in: its bodies, then its node. */
static tp_tensor *block(tpi_reader *P, const tpi_op *op, void *attrs, const text_tail *t)
{
    const int n = P->in.n;
    const size_t in_bytes = (size_t)n * sizeof(tp_tensor *), bytes = (size_t)n * sizeof(int);
    tp_tensor **in = tpi_take(&P->ctx->mem, in_bytes), *node = NULL;
    int *places = tpi_take(&P->ctx->mem, bytes);
    const tpi_text_block b = {
        .op = op, .attrs = attrs, .body = P->body, .n_in = n, .in = places};
    const tpi_reader head = *P;
    if (in && places) {
        memcpy(in, P->in.v, in_bytes);
        for (int i = 0; i < n; i++)
            places[i] = in[i]->index;
        if (bodies(P, &b)) {
            const char *const p = P->p, *const line_start = P->line_start;
            const int line = P->line;
            P->p = head.p, P->line_start = head.line_start, P->line = head.line;
            P->ctx->caller.recording = !t->constant;
            if (check(P, op, n, in, attrs, t))
                node = tpi_graph_node(P->g, t->at, op, n, in, attrs, t->type.dtype,
                                      t->type.rank, t->type.shape);
            P->ctx->caller.recording = true;
            P->p = p, P->line_start = line_start, P->line = line;
        }
    } else {
        tpi_read_no_memory(P);
    }
    tpi_give_back(&P->ctx->mem, in, in_bytes);
    tpi_give_back(&P->ctx->mem, places, bytes);
    if (node && node->status != TP_OK) {
        tpi_read_no_memory(P);
        node = NULL;
    }
    return node;
}

/* ---- texts ------------------------------------------------------------------------------------------ */

static bool symbols(tpi_reader *P)
{
    while (!tpi_read_at_line_end(P)) {
        int known = tpi_dim_n_symbols(P->g->dims), i;
        const char *end = P->p;
        const int64_t d = tpi_dim_parse(P->g->dims, P->p, P->limit, &end);
        if (d == TPI_NO_DIM || !tpi_dim_as_symbol(P->g->dims, d, &i) || i != known)
            return tpi_read_bad(P, "a symbol is malformed, or named twice");
        P->p = end;
    }
    return true;
}

/* `outputs %3, %5` */
static bool outputs(tpi_reader *P)
{
    P->in.n = 0;
    do {
        int64_t k = 0;
        if (!tpi_read_expect(P, '%') || !tpi_read_number(P, &k))
            return false;
        if (k < 0 || k >= P->g->n_nodes || !P->g->nodes[k]->name)
            return tpi_read_bad(P, "an output is a line with a name");
        if (tpi_is_block(P->g->nodes[k]))
            return tpi_read_bad(P, "a block is read through its outputs");
        tpi_nodes_push(&P->in, P->g->nodes[k]);
    } while (tpi_read_eat(P, ','));
    if (!tpi_read_end_of_line(P))
        return false;
    tpi_read_next_line(P);
    if (P->in.failed || tp_graph_set_outputs(P->g, P->in.n, P->in.v) != TP_OK)
        return tpi_read_no_memory(P);
    return true;
}

static bool lines(tpi_reader *P)
{
    if (!tpi_read_eat_word(P, "tapir") || !tpi_read_eat_word(P, "1") ||
        !tpi_read_end_of_line(P))
        return tpi_read_bad(P, "this is no text of a graph (\"tapir 1\" comes first)");
    tpi_read_next_line(P);
    if (tpi_read_eat_word(P, "symbols") && !symbols(P))
        return false;
    for (tpi_read_next_line(P); tpi_read_next_is(P, '@'); tpi_read_next_line(P))
        if (!tpi_read_cell(P))
            return false;
    for (; tpi_read_next_is(P, '%'); tpi_read_next_line(P))
        if (!node_line(P))
            return false;
    if (tpi_read_eat_word(P, "outputs") && !outputs(P))
        return false;
    if (P->p < P->limit)
        return tpi_read_bad(P, "a node's line starts with %%");
    tpi_rule_error why;
    if (P->n_bodies &&
        !tpi_check_turns(P->ctx, P->g->dims, P->g->n_nodes, P->g->nodes, false, &why))
        return tpi_read_bad(P, "%s", why.text);
    if (P->blobs && P->n_blobs != P->n_memory + P->n_data)
        return tpi_read_bad(P, "%d values are stored, the text names %d", P->n_blobs,
                            P->n_memory + P->n_data);
    return true;
}

tp_graph *tpi_parse(tp_ctx *ctx, tpi_at at, const char *what, const char *text,
                    size_t size_bytes, int n_blobs, const tpi_blob *blobs)
{
    tpi_reader P = {.ctx = ctx,
                    .at = at,
                    .what = what,
                    .p = text,
                    .limit = text + size_bytes,
                    .line_start = text,
                    .line = 1,
                    .cells = {.ctx = ctx},
                    .in = {.ctx = ctx},
                    .refused = ctx->mem.refused,
                    .n_blobs = n_blobs,
                    .blobs = blobs};
    if (size_bytes > INT32_MAX) {
        tpi_fail_status(ctx, at, what, TP_E_FORMAT, "the text is longer than 2 GiB");
        return NULL;
    }
    if (tp_scope_begin(ctx) != TP_OK)
        return NULL;
    const tpi_paused around = tpi_pause(ctx, at);
    const bool recording = ctx->caller.recording;
    ctx->caller.recording = true;
    P.g = P.root = tp_graph_new(ctx);
    P.scratch = tpi_take(&ctx->mem, size_bytes + 1);
    if (!P.g || !P.scratch)
        tpi_read_no_memory(&P);
    else
        lines(&P);
    tpi_give_back(&ctx->mem, P.scratch, size_bytes + 1);
    tpi_nodes_free(&P.in);
    tpi_nodes_free(&P.cells);
    ctx->caller.recording = recording;
    if (P.failed) {
        tp_graph_free(P.root);
        P.root = NULL;
    }
    tp_scope_end(ctx);
    tpi_resume(ctx, around);
    return P.root;
}

tp_graph *tp_graph_parse_at(const char *file, int line, tp_ctx *tp, const char *text,
                            size_t size_bytes)
{
    const tpi_at at = TPI_AT(file, line);
    if (!tp)
        return NULL;
    if (!text) {
        tpi_fail_status(tp, at, "tp_graph_parse", TP_E_NULL, "the text is NULL");
        return NULL;
    }
    return tpi_parse(tp, at, "tp_graph_parse", text, size_bytes, 0, NULL);
}

TPI_BARE(tp_graph *, tp_graph_parse, (tp_ctx * tp, const char *text, size_t size_bytes), tp,
         text, size_bytes)
