/* A model layer by layer.
 *
 * What y was computed from is gone through in program order. A node that reads a parameter is of the layer that the
 * parameter's name begins with: "block.3.attn.q.w" is of "block.3.attn.q". Others read none and are of a layer all the same:
 *   - what is computed from parameters alone, such as turned weights;
 *   - what lies between a node of the layer and its immediate dominator, the last node through which all that comes
 *     from the inputs passes on its way there; of a norm, whose scale is a parameter, what standardises too;
 *   - views before and behind.
 * Nodes of no layer are rows too, one for each line of the user's in which they follow each other. Rows of one name, ops
 * and, of no layer, line are one: a cell that C applies 100 times. */
#include "base/float_mode.h"
#include "ir/body.h"
#include "ir/notation.h"
#include "plan/work.h"
#include "tapir/params.h"

#include <inttypes.h>
#include <string.h>

/* A name in a tree: of a layer, or "" of what is of none. */
typedef struct name {
    const char *text;
    int len;
} name;

enum { MOST_OPS = 8 };

typedef struct ops {
    int n;
    const tpi_op *op[MOST_OPS]; /* each once */
    bool more;
} ops;

typedef struct row {
    name of;
    bool is_layer;
    ops ops;
    const char *word; /* what it is called in place of its ops, or NULL */
    const tp_tensor *line, *result;
    int uses;
    int64_t parameters;
    double flops, bytes;
} row;

typedef struct node {
    int dominator; /* -1: nothing, inputs meet there for the first time */
    bool from_inputs, is_layer;
    bool reads; /* parameters, or what is computed from them alone */
    bool scale; /* one of them is a scale */
    name of;
    int seen_by; /* the node for which a walk was here last */
    int reader;  /* of what is not from inputs: the first node that is and reads it; -1: none */
    int row;     /* of a node that is shown */
    int32_t slot; /* of the tensor, as a sweep around this may have left it */
} node;

typedef struct totals {
    int64_t trained, frozen, state;
    double parameter_bytes, flops, bytes;
} totals;

typedef struct summary {
    tpi_bump room;
    tpi_run_sizes sizes; /* each symbol is 1 */
    tpi_nodes all;
    node *nodes;
    row *rows;
    int n_rows, size;
    tpi_nodes counted; /* variables that a row has counted; they are marked */
} summary;

/* ---- what is of which layer -------------------------------------------------------------------- */

static const tp_tensor *variable_of(const tp_tensor *t)
{
    const tp_tensor *source = tpi_source_of(t);
    return source && source->flags & TPI_STATE && source->name ? source : NULL;
}

/* Of "in.w" it is "in", of "w" that itself. */
static name layer_of(const tp_tensor *variable)
{
    const char *dot = strrchr(variable->name, '.');
    return (name){variable->name,
                  dot ? (int)(dot - variable->name) : (int)strlen(variable->name)};
}

static bool same_name(name a, name b)
{
    return a.len == b.len && memcmp(a.text, b.text, (size_t)a.len) == 0;
}

/* What both begin with, whole parts between dots: of "a.q" and "a.out" it is "a". */
static name common(name a, name b)
{
    int len = 0;
    for (int i = 0; i <= a.len && i <= b.len; i++) {
        const bool ends_a = i == a.len || a.text[i] == '.',
                   ends_b = i == b.len || b.text[i] == '.';
        if (ends_a && ends_b)
            len = i;
        if (i == a.len || i == b.len || a.text[i] != b.text[i])
            break;
    }
    return (name){a.text, len};
}

static bool is_element(const tpi_op *op, tpi_elem e)
{
    return op && op->kind == TPI_ELEMENT && op->elem == (int8_t)e;
}

/* Does it compute nothing? */
static bool is_view(const tp_tensor *t)
{
    return t->op && (t->op->kind == TPI_VIEW || t->op->kind == TPI_PORT);
}

static int first_operand(const summary *s, const tp_tensor *t)
{
    return tpi_way_first(s->all.way, t);
}

static int end_of_operands(const summary *s, const tp_tensor *t)
{
    return t->in && t->op && t->op->kind != TPI_SOURCE ? tpi_way_end(s->all.way, t) : 0;
}

/* What was made by no op, such as a mask, does not count beside what has nothing to do with it. */
static int dominator_of_both(const summary *s, int a, int b)
{
    const int i = a, k = b;
    while (a != b)
        if (a > b)
            a = s->nodes[a].dominator;
        else
            b = s->nodes[b].dominator;
    return a >= 0 || i < 0                        ? a
           : end_of_operands(s, s->all.v[k]) == 0 ? i
           : end_of_operands(s, s->all.v[i]) == 0 ? k
                                                  : a;
}

/* From its operands, which come before it. */
static void find_node(const summary *s, int i)
{
    const tp_tensor *t = s->all.v[i];
    node *n = &s->nodes[i];
    const tp_tensor *variable = variable_of(t);
    n->dominator = n->reader = n->seen_by = -1;
    if (variable) {
        const char *dot = strrchr(variable->name, '.');
        n->of = layer_of(variable);
        n->is_layer = true;
        n->scale = dot && strcmp(dot, ".scale") == 0;
        return;
    }
    if (t->op && t->op->kind == TPI_SHAPE)
        return;
    const int end = end_of_operands(s, t);
    n->from_inputs = end == 0 && (t->op ? !tpi_source_of(t) : t->rank > 0);
    bool first = true;
    for (int k = first_operand(s, t); k < end; k++) {
        const int at = t->in[k]->slot;
        const node *in = &s->nodes[at];
        if (in->from_inputs) {
            n->dominator = first ? at : dominator_of_both(s, n->dominator, at);
            first = false;
            n->from_inputs = true;
        } else if (!in->from_inputs && in->is_layer) {
            const name both = n->is_layer ? common(n->of, in->of) : in->of;
            n->of = both.len || !n->is_layer ? both : n->of;
            n->is_layer = true;
            n->scale |= in->scale;
        }
    }
    n->reads = n->is_layer && n->from_inputs;
}

static void take(const summary *s, int i, name of)
{
    s->nodes[i].is_layer = true;
    s->nodes[i].of = of;
}

/* What lies before node `at`, behind its dominator, and is of no layer is of that one's. stack: room for all nodes. */
static void take_before(const summary *s, int at, int *stack)
{
    const node *from = &s->nodes[at];
    int n = 0;
    stack[n++] = at;
    while (n > 0) {
        const tp_tensor *t = s->all.v[stack[--n]];
        for (int k = first_operand(s, t), end = end_of_operands(s, t); k < end; k++) {
            const int i = t->in[k]->slot;
            node *in = &s->nodes[i];
            if (!in->from_inputs || i <= from->dominator || in->seen_by == at ||
                (in->is_layer && !same_name(in->of, from->of)))
                continue;
            take(s, i, from->of);
            in->seen_by = at;
            stack[n++] = i;
        }
    }
}

/* The node from inputs that a view is of, or -1. */
static int viewed(const summary *s, int i)
{
    const tp_tensor *t = s->all.v[i];
    for (int k = first_operand(s, t), end = end_of_operands(s, t); k < end && is_view(t); k++)
        if (s->nodes[t->in[k]->slot].from_inputs)
            return t->in[k]->slot;
    return -1;
}

/* The views of no layer that are before node `at`. */
static void take_views(const summary *s, int at)
{
    for (int i = s->nodes[at].dominator; i >= 0 && !s->nodes[i].is_layer && viewed(s, i) >= 0;
         i = viewed(s, i))
        take(s, i, s->nodes[at].of);
}

/* Of a norm, before what reads its scale or shift: x * f(x), and before that x - f(x), which may be there twice. */
static void take_standardising(const summary *s, int at, int *stack)
{
    static const tpi_elem order[] = {TPI_ELEM_mul, TPI_ELEM_sub, TPI_ELEM_sub};
    int i = s->nodes[at].dominator;
    for (int k = 0; k < 3 && i >= 0 && !s->nodes[i].is_layer; k++) {
        if (!is_element(s->all.v[i]->op, order[k]) || s->nodes[i].dominator < 0)
            return;
        take(s, i, s->nodes[at].of);
        take_before(s, i, stack);
        i = s->nodes[i].dominator;
    }
}

/* Views of what is of a layer. */
static void take_views_behind(const summary *s)
{
    for (int i = 0; i < s->all.n; i++) {
        const int of = s->nodes[i].is_layer ? -1 : viewed(s, i);
        if (of >= 0 && s->nodes[of].is_layer)
            take(s, i, s->nodes[of].of);
    }
}

/* Who reads what is not from inputs. */
static void find_readers(const summary *s)
{
    for (int i = s->all.n - 1; i >= 0; i--) {
        const tp_tensor *t = s->all.v[i];
        const int reader = s->nodes[i].from_inputs ? i : s->nodes[i].reader;
        for (int k = first_operand(s, t), end = end_of_operands(s, t); k < end; k++) {
            node *in = &s->nodes[t->in[k]->slot];
            if (!in->from_inputs && reader >= 0 && (in->reader < 0 || reader < in->reader))
                in->reader = reader;
        }
    }
}

/* A value of a call, which is a node inside of that. */
static bool is_result(const tp_tensor *t)
{
    return tpi_token_of(t) && t->op->kind != TPI_PORT;
}

/* Rows are made of what is left: each node that is not of weights alone. */
static bool is_shown(const summary *s, int i)
{
    const tp_tensor *t = s->all.v[i];
    return s->nodes[i].from_inputs && end_of_operands(s, t) > 0 && !is_result(t) &&
           t->op->kind != TPI_EFFECT;
}

/* What is of no layer has the name that those before and behind it have in common. */
static void name_between(const summary *s)
{
    const name none = {"", 0};
    int last = -1;
    for (int i = 0; i <= s->all.n; i++) {
        if (i < s->all.n && !(is_shown(s, i) && s->nodes[i].is_layer))
            continue;
        const name before = last < 0 ? none : s->nodes[last].of,
                   behind = i == s->all.n ? none : s->nodes[i].of;
        for (int k = last + 1; k < i; k++)
            s->nodes[k].of = is_shown(s, k) ? common(before, behind) : s->nodes[k].of;
        last = i;
    }
}

static bool find_layers(summary *s)
{
    int *stack = tpi_bump_take(&s->room, (size_t)s->all.n, sizeof *stack);
    s->nodes = tpi_bump_take(&s->room, (size_t)s->all.n, sizeof *s->nodes);
    if (!s->nodes)
        return false;
    for (int i = 0; i < s->all.n; i++) {
        s->nodes[i].slot = s->all.v[i]->slot;
        s->all.v[i]->slot = i;
    }
    for (int i = 0; i < s->all.n; i++)
        find_node(s, i);
    name norm = {"", 0};
    for (int i = 0; i < s->all.n; i++) {
        const node *n = &s->nodes[i];
        if (!n->reads || n->dominator < 0)
            continue;
        take_before(s, i, stack);
        take_views(s, i);
        norm = n->scale ? n->of : norm;
        if (same_name(n->of, norm))
            take_standardising(s, i, stack);
    }
    take_views_behind(s);
    find_readers(s);
    name_between(s);
    return true;
}

/* ---- rows -------------------------------------------------------------------------------------- */

static void add_op(ops *o, const tpi_op *op)
{
    for (int i = 0; i < o->n; i++)
        if (o->op[i] == op)
            return;
    o->more |= o->n == MOST_OPS;
    if (o->n < MOST_OPS)
        o->op[o->n++] = op;
}

static bool same_ops(const ops *a, const ops *b)
{
    return a->n == b->n && a->more == b->more &&
           memcmp(a->op, b->op, (size_t)a->n * sizeof *a->op) == 0;
}

static bool same_line(const tp_tensor *a, const tp_tensor *b)
{
    return a->line == b->line &&
           (a->file == b->file || (a->file && b->file && strcmp(a->file, b->file) == 0));
}

/* The layer that a node which reads its parameters is known by, beside moves and a bias; or NULL. */
static const char *word_of(const node *n, const tp_tensor *t)
{
    const tpi_op *op = t->op;
    return op->convolving && op->packed_axes ? "conv"
           : op->convolving                  ? "conv_transpose"
           : op->contract                    ? "dense"
           : op->index_in                    ? "embedding"
           : n->scale                        ? "norm"
                                             : NULL;
}

/* Is it no result of a layer, if there is another? */
static bool is_aside(const tp_tensor *t)
{
    return tpi_is_block(t) || (is_view(t) && t->op->kind != TPI_PORT);
}

static void add_node(summary *s, row *r, const tp_tensor *t)
{
    add_op(&r->ops, t->op);
    if (!r->result || is_aside(r->result) || !is_aside(t))
        r->result = t;
    if (is_view(t))
        return;
    r->flops += tpi_node_operations(&s->sizes, t);
    r->bytes += tpi_is_block(t) ? 0 : tpi_node_bytes(&s->sizes, t);
    if (s->nodes[t->slot].reads && !r->word)
        r->word = word_of(&s->nodes[t->slot], t);
}

/* The word of a layer that is no such one: a cell has products and more. */
static void check_word(row *r)
{
    const bool norm = r->word && strcmp(r->word, "norm") == 0;
    for (int i = 0; i < r->ops.n && r->word && !norm; i++) {
        const tpi_op *op = r->ops.op[i];
        const bool known = op->kind == TPI_VIEW || op->contract || op->index_in ||
                           is_element(op, TPI_ELEM_add);
        r->word = known ? r->word : NULL;
    }
}

/* Views beside other ops are left out of their names. */
static void drop_views(ops *o)
{
    int n = 0;
    for (int i = 0; i < o->n; i++)
        if (o->op[i]->kind != TPI_VIEW && o->op[i]->kind != TPI_PORT)
            o->op[n++] = o->op[i];
    o->n = n ? n : o->n;
}

/* The first row of the layer, or -1. */
static int layer_row(const summary *s, name of)
{
    for (int i = 0; i < s->n_rows; i++)
        if (s->rows[i].is_layer && same_name(s->rows[i].of, of))
            return i;
    return -1;
}

/* As a use of a row that there is, or as a new one: its number. */
static int add_row(summary *s, const row *r)
{
    const int first =
        r->is_layer && r->result && is_aside(r->result) ? layer_row(s, r->of) : -1;
    if (first >= 0) /* views of what it gave before */
        return first;
    for (int i = 0; i < s->n_rows; i++) {
        row *old = &s->rows[i];
        if (old->is_layer != r->is_layer || !same_name(old->of, r->of) ||
            !same_ops(&old->ops, &r->ops) || !(r->is_layer || same_line(old->line, r->line)))
            continue;
        old->uses++;
        old->result = r->result;
        old->parameters += r->parameters;
        old->flops += r->flops;
        old->bytes += r->bytes;
        return i;
    }
    row *rows = tpi_bump_grow(&s->room, s->rows, s->n_rows, &s->size, sizeof *rows);
    if (!rows)
        return 0;
    s->rows = rows;
    rows[s->n_rows] = *r;
    return s->n_rows++;
}

static void find_rows(summary *s)
{
    for (int i = 0; i < s->all.n;) {
        if (!is_shown(s, i)) {
            i++;
            continue;
        }
        const node *first = &s->nodes[i];
        row r = {.of = first->of, .is_layer = first->is_layer, .line = s->all.v[i], .uses = 1};
        const int begin = i;
        for (; i < s->all.n; i++) {
            const node *n = &s->nodes[i];
            if (!is_shown(s, i))
                continue;
            if (n->is_layer != r.is_layer || !same_name(n->of, r.of) ||
                !(r.is_layer || same_line(s->all.v[i], r.line)))
                break;
            add_node(s, &r, s->all.v[i]);
        }
        drop_views(&r.ops);
        check_word(&r);
        const int number = add_row(s, &r);
        for (int k = begin; k < i; k++)
            s->nodes[k].row = number;
    }
}

/* Each variable is of the row that reads it first; what is counted is marked. */
static void count_parameters(summary *s)
{
    for (int i = 0; i < s->all.n; i++) {
        tp_tensor *variable = (tp_tensor *)variable_of(s->all.v[i]);
        const int reader = s->nodes[i].reader;
        if (!variable || variable->flags & TPI_MARK || reader < 0 || !is_shown(s, reader))
            continue;
        tpi_nodes_push(&s->counted, variable);
        if (s->counted.failed)
            return;
        variable->flags |= TPI_MARK;
        s->rows[s->nodes[reader].row].parameters += tp_count(variable);
    }
}

/* Parameters of the tree that y does not read. */
static void find_unread(summary *s, const tp_params *p)
{
    for (int i = 0, n = tp_params_n(p); i < n; i++) {
        const tp_tensor *t = tp_params_tensor(p, i);
        if (t->flags & TPI_MARK)
            continue;
        const int of = layer_row(s, layer_of(t));
        if (of >= 0 &&
            !(t->flags & TPI_REQUIRES)) { /* a running mean: training does not read it */
            s->rows[of].parameters += tp_count(t);
            continue;
        }
        const row r = {.of = layer_of(t),
                       .is_layer = true,
                       .word = "not read",
                       .line = t,
                       .uses = 1,
                       .parameters = tp_count(t)};
        add_row(s, &r);
    }
}

static void add_variable(totals *sum, const tp_tensor *t)
{
    const int64_t n = tp_count(t);
    *(t->flags & TPI_REQUIRES ? &sum->trained : &sum->state) += n;
    sum->parameter_bytes += (double)n * (double)tp_dtype_size((tp_dtype)t->dtype);
}

/* Those of the tree, and what else y reads. Marks end. */
static totals find_totals(summary *s, const tp_params *p)
{
    totals sum = {0};
    int64_t of_tree = 0;
    for (int i = 0, n = tp_params_n(p); i < n; i++) {
        tp_tensor *t = tp_params_tensor(p, i);
        add_variable(&sum, t);
        t->flags &= (uint8_t)~TPI_MARK;
    }
    of_tree = sum.trained;
    sum.trained = tp_params_count(p);
    sum.frozen = of_tree - sum.trained;
    for (int i = 0; i < s->counted.n; i++)
        if (s->counted.v[i]->flags & TPI_MARK) {
            s->counted.v[i]->flags &= (uint8_t)~TPI_MARK;
            add_variable(&sum, s->counted.v[i]);
        }
    for (int i = 0; i < s->n_rows; i++) {
        sum.flops += s->rows[i].flops;
        sum.bytes += s->rows[i].bytes;
    }
    return sum;
}

/* ---- the table --------------------------------------------------------------------------------- */

enum { NAME, KIND, RESULT, PARAMETERS, FLOPS, BYTES, N_COLUMNS };

/* Three digits: "12.3 M". */
static void put_amount(tpi_str *s, double v, const char *of)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P"};
    int unit = 0;
    while (v >= 999.5 && unit < 5) {
        v /= 1000;
        unit++;
    }
    tpi_str_printf(s, "%.*f%s%s%s",
                   !unit || v >= 99.95 ? 0
                   : v >= 9.995        ? 1
                                       : 2,
                   v, unit || *of ? " " : "", units[unit], of);
}

/* The end of a long one. */
static void put_name(tpi_str *s, name of)
{
    enum { MOST = 32 };
    int from = of.len > MOST ? of.len - MOST + 3 : 0;
    while (from && from < of.len && (of.text[from] & 0xc0) == 0x80)
        from++; /* whole characters */
    tpi_str_put(s, from ? "..." : "");
    tpi_str_add(s, of.text + from, (size_t)(of.len - from));
}

static void put_ops(tpi_str *s, const row *r)
{
    enum { MOST = 20 };
    const size_t begin = s->len;
    if (r->uses > 1 && r->result)
        tpi_str_printf(s, "%d x ", r->uses);
    if (r->word) {
        tpi_str_put(s, r->word);
        return;
    }
    for (int i = 0; i < r->ops.n; i++) {
        if (i && s->len - begin + strlen(r->ops.op[i]->name) + 2 > MOST) {
            tpi_str_put(s, " ...");
            return;
        }
        tpi_str_printf(s, "%s%s", i ? ", " : "", r->ops.op[i]->name);
    }
    tpi_str_put(s, r->ops.more ? " ..." : "");
}

static void put_count(tpi_str *s, int64_t n)
{
    if (n)
        tpi_str_printf(s, "%" PRId64, n);
}

static void put_cell(tpi_str *s, const tpi_dims *dims, const row *r, int column)
{
    const tp_tensor *t = r->result;
    if (column == NAME)
        put_name(s, r->of);
    else if (column == KIND)
        put_ops(s, r);
    else if (column == RESULT && t)
        tpi_put_type(s, dims, (tp_dtype)t->dtype, t->rank, t->shape);
    else if (column == PARAMETERS)
        put_count(s, r->parameters);
    else if (column == FLOPS && r->flops > 0)
        put_amount(s, r->flops, "");
    else if (column == BYTES && r->bytes > 0)
        put_amount(s, r->bytes, "B");
}

/* A cell in a column of that width; the first three stand left, numbers right. */
static void put_padded(tpi_str *s, const tpi_str *cell, int column, int width)
{
    const int pad = width > (int)cell->len ? width - (int)cell->len : 0;
    tpi_str_put(s, column ? "  " : "");
    if (column >= PARAMETERS)
        tpi_str_printf(s, "%*s", pad, "");
    tpi_str_add(s, cell->text ? cell->text : "", cell->len);
    if (column < PARAMETERS)
        tpi_str_printf(s, "%*s", pad, "");
    s->failed |= cell->failed;
}

static const char *const heads[N_COLUMNS] = {"layer",  "kind",  "result",
                                             "params", "flops", "bytes"};

/* A row of the table, the one of sums, or (NULL) that of heads. With `width` it is printed; else its cells widen
 * that. */
static void go_over(tpi_str *s, const tpi_dims *dims, const row *r, int *widen,
                    const int *width)
{
    for (int c = 0; c < N_COLUMNS; c++) {
        tpi_str cell = TPI_STR(s->mem);
        if (r)
            put_cell(&cell, dims, r, c);
        else
            tpi_str_put(&cell, heads[c]);
        if (width)
            put_padded(s, &cell, c, width[c]);
        else
            widen[c] = widen[c] > (int)cell.len ? widen[c] : (int)cell.len;
        s->failed |= cell.failed;
        tpi_str_free(&cell);
    }
    if (width)
        tpi_str_put(s, "\n");
}

static void put_table(tpi_str *s, const summary *m, const totals *sum)
{
    const tpi_dims *dims = m->sizes.dims;
    const row all = {
        .of = {"all", 3},
        .word = "",
        .parameters = sum->trained + sum->frozen + sum->state,
        .flops = sum->flops,
        .bytes = sum->bytes
    };
    int width[N_COLUMNS] = {0};
    go_over(s, dims, NULL, width, NULL);
    for (int i = 0; i < m->n_rows; i++)
        go_over(s, dims, &m->rows[i], width, NULL);
    go_over(s, dims, &all, width, NULL);
    go_over(s, dims, NULL, NULL, width);
    for (int i = 0; i < m->n_rows; i++)
        go_over(s, dims, &m->rows[i], NULL, width);
    go_over(s, dims, &all, NULL, width);
    tpi_str_printf(
        s, "parameters: %" PRId64 " trained, %" PRId64 " frozen, %" PRId64 " of state; ",
        sum->trained, sum->frozen, sum->state);
    put_amount(s, sum->parameter_bytes, "B");
    tpi_str_put(s, "\n");
    const int n = dims ? tpi_dim_n_symbols(dims) : 0;
    for (int i = 0; i < n; i++)
        tpi_str_printf(s, "%s%s%s", i ? ", " : "counted as 1: ", tpi_dim_symbol_name(dims, i),
                       i + 1 < n ? "" : "\n");
}

static bool is_recorded(const tp_tensor *y)
{
    return y->op && y->in;
}

static bool summarize(summary *m, const tp_params *p, const tp_tensor *y, totals *sum)
{
    tp_tensor *root = (tp_tensor *)y;
    const int n = m->sizes.dims ? tpi_dim_n_symbols(m->sizes.dims) : 0;
    int64_t *ones = tpi_bump_take(&m->room, (size_t)n + 1, sizeof *ones);
    for (int i = 0; i < n && ones; i++)
        ones[i] = 1;
    m->sizes.symbols = ones;
    if (!ones || !tpi_collect(&m->all, 1, &root, NULL, NULL) || !find_layers(m))
        return false;
    find_rows(m);
    if (!m->room.failed)
        count_parameters(m);
    find_unread(m, p);
    *sum = find_totals(m, p);
    return !m->room.failed && !m->counted.failed;
}

char *(tp_summary)(const tp_params *p, const tp_tensor *y)
{
    TPI_DEFAULT_FLOAT_MODE;
    static const char what[] = "tp_summary";
    const tpi_at at = TPI_AT(NULL, 0);
    if (tpi_is_live(y) && y->ctx) /* all that it was computed from is shown, not y alone */
        tpi_look_at_all(y->ctx, at, TPI_LOOK_SHOW);
    if (!tpi_is_live(y) || y->status != TP_OK)
        return NULL;
    if (p && tp_params_ctx(p) != y->ctx) {
        tpi_fail_status(y->ctx, at, what, TP_E_CTX, "the tree is of another context");
        return NULL;
    }
    if (!is_recorded(y)) {
        tpi_fail_status(
            y->ctx, at, what, TP_E_STATE,
            "it was not recorded by which ops the tensor was computed: recording is off, "
            "or no parameter is among what it was computed from");
        return NULL;
    }
    summary m = {
        .room = TPI_BUMP(&y->ctx->mem),
        .sizes = {.dims = tpi_dims_of(y)},
        .all = {.ctx = y->ctx,          .way = TPI_WAY_VALUES},
        .counted = {.ctx = y->ctx                     }
    };
    totals sum = {0};
    tpi_str s = TPI_STR(&y->ctx->mem);
    if (summarize(&m, p, y, &sum))
        put_table(&s, &m, &sum);
    else
        s.failed = true;
    for (int i = 0; m.nodes && i < m.all.n; i++)
        m.all.v[i]->slot = m.nodes[i].slot;
    tpi_nodes_free(&m.all);
    tpi_nodes_free(&m.counted);
    tpi_bump_free(&m.room);
    return tpi_str_hand_over(y->ctx, &s, what);
}
