/* Reads what print.c writes. The text may come from anyone: every number is checked where it
 * is read, and every node is built through its op's shape rule. */
#include "ir/check.h"
#include "ir/notation.h"

#include <stdlib.h>
#include <string.h>

/* Of variables and constants whose values are not in the text; a short text must not take all
 * memory. */
static const int64_t zero_bytes_max = (int64_t)1 << 30;

typedef struct parser {
    tp_ctx *ctx;
    tpi_at at;
    const char *what;
    const char *p, *limit, *line_start;
    int line;
    tp_graph *g;
    tpi_nodes cells; /* concrete */
    tpi_nodes in;    /* operands of the line being read */
    char *scratch;   /* as long as the text */
    int n_blobs, n_memory, n_data;
    const tpi_blob *blobs;
    int64_t zero_bytes;
    uint64_t refused; /* of the context's memory, at the start */
    bool failed;
} parser;

typedef struct text_type {
    tp_dtype dtype;
    int rank;
    int64_t shape[TP_MAX_RANK];
} text_type;

typedef struct text_name {
    char *text; /* NUL-terminated copy; NULL when none */
    size_t len;
} text_name;

static bool no_memory(parser *P)
{
    P->failed = true;
    tpi_no_memory(P->ctx, P->at, P->what);
    return false;
}

__attribute__((format(printf, 2, 3))) static bool bad(parser *P, const char *fmt, ...)
{
    if (P->failed)
        return false;
    if (P->ctx->mem.refused != P->refused) /* sizes and rules fail then too */
        return no_memory(P);
    tpi_why why;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why.text, sizeof why.text, fmt, ap);
    va_end(ap);
    P->failed = true;
    tpi_fail_status(P->ctx, P->at, P->what, TP_E_FORMAT, "line %d, column %d: %s", P->line,
                    (int)(P->p - P->line_start) + 1, why.text);
    return false;
}

/* ---- words ----------------------------------------------------------------------------------- */

static void skip_spaces(parser *P)
{
    while (P->p < P->limit && *P->p == ' ')
        P->p++;
}

static bool next_is(parser *P, char c)
{
    skip_spaces(P);
    return P->p < P->limit && *P->p == c;
}

static bool eat(parser *P, char c)
{
    if (!next_is(P, c))
        return false;
    P->p++;
    return true;
}

static bool expect(parser *P, char c)
{
    return eat(P, c) || bad(P, "'%c' is missing", c);
}

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

static size_t word(parser *P, const char **start)
{
    skip_spaces(P);
    *start = P->p;
    while (P->p < P->limit && is_word_char(*P->p))
        P->p++;
    return (size_t)(P->p - *start);
}

static bool eat_word(parser *P, const char *expected)
{
    skip_spaces(P);
    const size_t n = strlen(expected);
    const char *end = P->p + n;
    if ((size_t)(P->limit - P->p) < n || memcmp(P->p, expected, n) != 0 ||
        (end < P->limit && is_word_char(*end)))
        return false;
    P->p = end;
    return true;
}

static bool number(parser *P, int64_t *v)
{
    skip_spaces(P);
    const char *end = tpi_scan_i64(P->p, P->limit, v);
    if (!end)
        return bad(P, "a whole number is missing, or does not fit 64 bits");
    P->p = end;
    return true;
}

/* "%3": one of those before `n`. */
static bool reference(parser *P, char sign, int n, const char *kind, int *i)
{
    int64_t v = 0;
    if (!eat(P, sign))
        return bad(P, "'%c' and the number of a %s are missing", sign, kind);
    if (!number(P, &v))
        return false;
    if (v < 0 || v >= n)
        return bad(P, "no %s %c%lld comes before this line", kind, sign, (long long)v);
    *i = (int)v;
    return true;
}

static bool string(parser *P, size_t *len)
{
    const char *end = tpi_scan_string(P->p, P->limit, P->scratch, len);
    if (!end)
        return bad(P, "a quoted name is malformed");
    P->scratch[*len] = 0;
    P->p = end;
    return true;
}

/* The name, if one comes, in a copy that drop_name gives back. */
static bool maybe_name(parser *P, text_name *name)
{
    *name = (text_name){0};
    if (!next_is(P, '"'))
        return true;
    if (!string(P, &name->len))
        return false;
    name->text = tpi_strdup(P->ctx, P->scratch);
    return name->text || no_memory(P);
}

static bool end_of_line(parser *P)
{
    skip_spaces(P);
    if (P->p < P->limit && *P->p != '\n')
        return bad(P, "the line should end here");
    return true;
}

static bool at_line_end(parser *P)
{
    skip_spaces(P);
    return P->p >= P->limit || *P->p == '\n';
}

static void next_line(parser *P)
{
    while (P->p < P->limit && *P->p == '\n') {
        P->line_start = ++P->p;
        P->line++;
    }
}

/* ---- types, attributes, places ------------------------------------------------------------- */

static bool dtype(parser *P, int64_t *out)
{
    const char *start;
    const size_t n = word(P, &start);
    for (int t = 0; t < TP_N_DTYPES; t++) {
        const char *name = tp_dtype_name((tp_dtype)t);
        if (strlen(name) == n && memcmp(name, start, n) == 0) {
            *out = t;
            return true;
        }
    }
    P->p = start;
    return bad(P, "no element type is called so");
}

/* A size of the graph; `symbolic` false: a number. */
static bool size(parser *P, bool symbolic, int64_t *out)
{
    skip_spaces(P);
    const int known = tpi_dim_n_symbols(P->g->dims);
    const char *end = P->p;
    *out = tpi_dim_parse(symbolic ? P->g->dims : NULL, P->p, P->limit, &end);
    if (*out == TPI_NO_DIM || !tpi_dim_is_size(symbolic ? P->g->dims : NULL, *out))
        return bad(P, symbolic ? "this is no size" : "this is no number of elements");
    if (tpi_dim_n_symbols(P->g->dims) != known)
        return bad(P, "a symbol is not in the line of symbols");
    P->p = end;
    return true;
}

static bool list(parser *P, bool sizes, bool symbolic, int64_t *n, int64_t *v)
{
    *n = 0;
    if (!expect(P, '['))
        return false;
    if (eat(P, ']'))
        return true;
    do {
        if (*n == TP_MAX_RANK)
            return bad(P, "more than %d numbers in a list", TP_MAX_RANK);
        if (sizes ? !size(P, symbolic, &v[*n]) : !number(P, &v[*n]))
            return false;
        ++*n;
    } while (eat(P, ','));
    return expect(P, ']');
}

static bool type(parser *P, bool symbolic, text_type *t)
{
    int64_t code = 0, rank = 0, bytes;
    if (!dtype(P, &code) || !list(P, true, symbolic, &rank, t->shape))
        return false;
    t->dtype = (tp_dtype)code;
    t->rank = (int)rank;
    bytes = 8;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] > 0 && __builtin_mul_overflow(bytes, t->shape[i], &bytes))
            return bad(P, "the sizes multiply beyond 2^63 bytes");
    return true;
}

static bool attr(parser *P, const tpi_attr *a, char *p)
{
    int64_t v = 0;
    tpi_list l = {0};
    double f = 0;
    const char *end;
    switch (a->type) {
    case TPI_ATTR_INT:
        if (!number(P, &v))
            return false;
        break;
    case TPI_ATTR_BOOL:
        v = eat_word(P, "true");
        if (!v && !eat_word(P, "false"))
            return bad(P, "true or false is missing");
        break;
    case TPI_ATTR_DTYPE:
        if (!dtype(P, &v))
            return false;
        break;
    case TPI_ATTR_DIM:
        if (!size(P, true, &v))
            return false;
        break;
    case TPI_ATTR_F64:
        skip_spaces(P);
        end = tpi_scan_f64(P->p, P->limit, &f);
        if (!end)
            return bad(P, "a number is missing");
        P->p = end;
        memcpy(p, &f, sizeof f);
        return true;
    case TPI_ATTR_LIST:
    case TPI_ATTR_DIMS:
        if (!list(P, a->type == TPI_ATTR_DIMS, true, &l.n, l.v))
            return false;
        memcpy(p, &l, sizeof l);
        return true;
    case TPI_ATTR_BODY:
        return bad(P, "a body is missing");
    }
    memcpy(p, &v, sizeof v);
    return true;
}

static bool attributes(parser *P, const tpi_op *op, char *attrs)
{
    if (!op->attrs)
        return true;
    if (!expect(P, '{'))
        return false;
    for (const tpi_attr *a = op->attrs; a->name; a++) {
        if (a != op->attrs && !expect(P, ','))
            return false;
        if (!eat_word(P, a->name))
            return bad(P, "attribute %s is missing", a->name);
        if (!expect(P, '=') || !attr(P, a, attrs + a->offset))
            return false;
    }
    return expect(P, '}');
}

static bool is_file_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_-+./", c));
}

static bool place(parser *P, tpi_at *at)
{
    *at = TPI_AT(NULL, 0);
    if (!eat(P, ';'))
        return true;
    skip_spaces(P);
    const char *start = P->p;
    size_t len;
    if (next_is(P, '"')) {
        if (!string(P, &len))
            return false;
        start = P->scratch;
    } else {
        while (P->p < P->limit && is_file_char(*P->p))
            P->p++;
        len = (size_t)(P->p - start);
        if (len == 0)
            return bad(P, "a file name is missing");
    }
    at->file = tpi_graph_intern(P->g, start, len);
    if (!at->file)
        return no_memory(P);
    int64_t line = 0;
    if (!expect(P, ':') || !number(P, &line))
        return false;
    if (line < INT32_MIN || line > INT32_MAX)
        return bad(P, "a line number is out of range");
    at->line = (int)line;
    return true;
}

/* ---- values ------------------------------------------------------------------------------------ */

static bool copy_stored(parser *P, tp_tensor *x, const tpi_blob *b, size_t bytes)
{
    memcpy(x->data, b->bytes, bytes);
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
        tpi_swap_bytes(x->data, bytes, tp_dtype_size(b->dtype));
    for (size_t i = 0; b->dtype == TP_BOOL && i < bytes; i++)
        if (x->data[i] != 0 && x->data[i] != 1)
            return bad(P, "a bool that is stored is neither 0 nor 1");
    return true;
}

/* A tensor with the values of blob `k`, or zeros when the text stands alone. */
static tp_tensor *value(parser *P, const text_type *t, int k)
{
    size_t bytes = tp_dtype_size(t->dtype);
    for (int i = 0; i < t->rank; i++)
        bytes *= (size_t)t->shape[i];
    const tpi_blob *b = P->blobs ? &P->blobs[k] : NULL;
    if (P->blobs && (k >= P->n_blobs || b->dtype != t->dtype || b->rank != t->rank ||
                     memcmp(b->shape, t->shape, sizeof(int64_t) * (size_t)t->rank) != 0)) {
        bad(P, "the value that is stored for this line has another type or shape");
        return NULL;
    }
    if (!b && (bytes > (size_t)zero_bytes_max ||
               (P->zero_bytes += (int64_t)bytes) > zero_bytes_max)) {
        bad(P, "values that are not in the text take more than 1 GiB");
        return NULL;
    }
    tp_tensor *x = tpi_tensor_new(P->ctx, TPI_AT(NULL, 0), t->dtype, t->rank, t->shape);
    if (x->status != TP_OK) {
        no_memory(P);
        return NULL;
    }
    if (!b)
        memset(x->data, 0, bytes);
    return !b || copy_stored(P, x, b, bytes) ? x : NULL;
}

static tp_tensor *view(parser *P, int64_t offset, const tpi_list *strides, tp_tensor *of,
                       const text_type *t)
{
    int64_t low = offset, high = offset, count = 1;
    bool ok = strides->n == t->rank && (int)t->dtype == of->dtype;
    for (int i = 0; i < t->rank; i++)
        count *= t->shape[i] ? 1 : 0;
    for (int i = 0; i < t->rank && ok && count; i++) {
        int64_t span, *end = strides->v[i] < 0 ? &low : &high;
        ok = !__builtin_mul_overflow(t->shape[i] - 1, strides->v[i], &span) &&
             !__builtin_add_overflow(*end, span, end);
    }
    const int64_t room = tpi_count(of);
    if (!ok || low < 0 || high < 0 || (count ? high >= room : offset != 0)) {
        bad(P, "the view reaches outside of the memory it is of");
        return NULL;
    }
    tp_tensor *x = tpi_tensor(P->ctx, TPI_AT(NULL, 0), t->dtype, t->rank, t->shape);
    if (!x) {
        no_memory(P);
        return NULL;
    }
    memcpy(x->stride, strides->v, sizeof(int64_t) * (size_t)t->rank);
    tpi_tensor_share(x, of, offset);
    tpi_note_contiguous(x);
    return x;
}

/* `@2 "w" = state : f32[3]` */
static bool cell(parser *P)
{
    int64_t k = 0;
    text_name name;
    P->p++;
    if (!number(P, &k))
        return false;
    if (k != P->cells.n)
        return bad(P, "the next of these lines is @%d", P->cells.n);
    if (!maybe_name(P, &name))
        return false;
    tp_tensor *x = NULL;
    text_type t;
    if (!expect(P, '=')) {
    } else if (eat_word(P, "view")) {
        int of = 0;
        int64_t offset = 0;
        tpi_list strides = {0};
        if (reference(P, '@', P->cells.n, "memory", &of) && expect(P, '{') &&
            (eat_word(P, "offset") || bad(P, "offset is missing")) && expect(P, '=') &&
            number(P, &offset) && expect(P, ',') &&
            (eat_word(P, "strides") || bad(P, "strides is missing")) && expect(P, '=') &&
            list(P, false, false, &strides.n, strides.v) && expect(P, '}') && expect(P, ':') &&
            type(P, false, &t))
            x = view(P, offset, &strides, P->cells.v[of], &t);
    } else {
        const bool param = eat_word(P, "param");
        if (!param && !eat_word(P, "state"))
            bad(P, "state, param or view is missing");
        else if (expect(P, ':') && type(P, false, &t))
            x = value(P, &t, P->n_memory++);
        if (x && param && t.dtype != TP_F32 && t.dtype != TP_F64) {
            bad(P, "a param is f32 or f64");
            x = NULL;
        }
        if (x)
            x->flags |=
                (uint8_t)(TPI_VARIABLE | TPI_STATE | (param ? TPI_LEAF | TPI_REQUIRES : 0));
    }
    if (!x) {
        tpi_strfree(P->ctx, name.text);
        return false;
    }
    x->name = name.text;
    tpi_nodes_push(&P->cells, x);
    return P->cells.failed ? no_memory(P) : end_of_line(P);
}

/* The elements between `p` and `limit`. */
static tp_tensor *constant(parser *P, const char *p, const char *limit, const text_type *t)
{
    const size_t elem = tp_dtype_size(t->dtype);
    int64_t count = 1;
    for (int i = 0; i < t->rank; i++)
        count *= t->shape[i];
    if (count > limit - p) {
        bad(P, "the type has more elements than there are values");
        return NULL;
    }
    tp_tensor *x = tpi_tensor_new(P->ctx, TPI_AT(NULL, 0), t->dtype, t->rank, t->shape);
    if (x->status != TP_OK) {
        no_memory(P);
        return NULL;
    }
    bool ok = t->rank == 0 || (p < limit && *p++ == '[');
    for (int64_t i = 0; i < count && ok; i++) {
        ok = i == 0 || (p < limit && *p++ == ',');
        while (p < limit && *p == ' ')
            p++;
        p = ok ? tpi_scan_element(p, limit, t->dtype, x->data + (size_t)i * elem) : NULL;
        ok = p != NULL;
    }
    ok = ok && (t->rank == 0 || (p < limit && *p++ == ']'));
    while (ok && p < limit && *p == ' ')
        p++;
    if (!ok || p != limit) {
        bad(P, "the values do not fit the type");
        return NULL;
    }
    return x;
}

/* ---- nodes --------------------------------------------------------------------------------------- */

typedef struct text_tail { /* what ends every line of a node */
    text_type type;
    bool constant;
    tpi_at at;
} text_tail;

static bool tail(parser *P, text_tail *t)
{
    if (!expect(P, ':') || !type(P, true, &t->type))
        return false;
    t->constant = eat_word(P, "constant");
    return place(P, &t->at) && end_of_line(P);
}

/* The node that reads a concrete tensor, when it is a new one. */
static tp_tensor *source(parser *P, tp_tensor *x, const text_tail *t)
{
    const int known = P->g->n_nodes;
    if (t->constant) {
        bad(P, "only a computed node is marked constant");
        return NULL;
    }
    tp_tensor *node = tpi_graph_lift(P->g, t->at, x);
    if (P->g->n_nodes == known + 1)
        return node;
    if (node->status == TP_E_MEMORY)
        no_memory(P);
    else
        bad(P, "the variable is read already, or was assigned before");
    return NULL;
}

static tp_tensor *read_variable(parser *P, text_tail *t)
{
    int k = 0;
    if (!reference(P, '@', P->cells.n, "variable", &k) || !tail(P, t))
        return NULL;
    tp_tensor *x = P->cells.v[k];
    if (x->dtype != t->type.dtype || x->rank != t->type.rank ||
        memcmp(x->shape, t->type.shape, sizeof(int64_t) * x->rank) != 0) {
        bad(P, "the variable has another type or shape");
        return NULL;
    }
    char *name = x->name; /* lifting would name the node after it; the text says its name */
    x->name = NULL;
    tp_tensor *node = source(P, x, t);
    x->name = name;
    return node;
}

static tp_tensor *read_constant(parser *P, text_tail *t)
{
    skip_spaces(P);
    const char *start = P->p;
    const bool stored = eat(P, '#');
    if (stored) {
        int64_t k = 0;
        if (!number(P, &k))
            return NULL;
        if (k != P->n_data) {
            bad(P, "the next constant that is stored is #%d", P->n_data);
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
            bad(P, "a constant has sizes that are numbers");
            return NULL;
        }
    }
    tp_tensor *x = stored ? value(P, &t->type, P->n_memory + P->n_data++)
                          : constant(P, start, limit, &t->type);
    return x ? source(P, x, t) : NULL;
}

static tp_tensor *assign(parser *P, const text_tail *t)
{
    tp_tensor *var = P->in.v[0], *v = P->in.v[1], *x = var;
    while (x->op == &tpi_op_assign)
        x = x->in[0];
    if (x->op != &tpi_op_variable) {
        bad(P, "what is assigned is a variable or its newest value");
        return NULL;
    }
    const int known = P->g->n_nodes;
    const tp_status was = P->ctx->status;
    tp_tensor *node = tp_assign_at(t->at.file, t->at.line, var, v);
    if (was == TP_OK && node->status != TP_OK && node->status != TP_E_MEMORY)
        tp_clear_error(P->ctx);
    if (node->status == TP_E_MEMORY)
        no_memory(P);
    else if (node->status != TP_OK || P->g->n_nodes != known + 1 || node->in[0] != var ||
             node->in[1] != v)
        bad(P, "this cannot be assigned here: %s", tp_error_text(node));
    return P->failed ? NULL : node;
}

static tp_tensor *computed(parser *P, const tpi_op *op, text_tail *t)
{
    uint64_t attrs[64] = {0};
    if (op->attrs_size > sizeof attrs) {
        bad(P, "the attributes of %s are too large", op->name);
        return NULL;
    }
    P->in.n = 0;
    while (!next_is(P, '{') && !next_is(P, ':')) {
        int i = 0;
        if ((P->in.n && !expect(P, ',')) || !reference(P, '%', P->g->n_nodes, "node", &i))
            return NULL;
        tpi_nodes_push(&P->in, P->g->nodes[i]);
        if (P->in.failed) {
            no_memory(P);
            return NULL;
        }
    }
    tpi_why why;
    if (!tpi_check_operands(op, P->in.n, &why)) {
        bad(P, "%s", why.text);
        return NULL;
    }
    if (!attributes(P, op, (char *)attrs) || !tail(P, t))
        return NULL;
    if (!tpi_check_attrs(P->g->dims, op, attrs, &why)) {
        bad(P, "%s", why.text);
        return NULL;
    }
    if (op->infer) {
        tpi_infer q = {.op = op,
                       .at = TPI_AT(NULL, 0),
                       .ctx = P->ctx,
                       .dims = P->g->dims,
                       .n_in = P->in.n,
                       .in = P->in.v,
                       .attrs = attrs};
        const tp_status s = tpi_infer_again(&q, &why);
        if (s == TP_E_MEMORY)
            no_memory(P);
        else if (s != TP_OK ||
                 !tpi_check_answer(&q, t->type.dtype, t->type.rank, t->type.shape, &why))
            bad(P, "%s", why.text);
        if (P->failed)
            return NULL;
    }
    P->ctx->recording = !t->constant;
    tp_tensor *node =
        op == &tpi_op_assign
            ? assign(P, t)
            : tpi_graph_node(P->g, t->at, op, P->in.n, P->in.v, op->attrs_size ? attrs : NULL,
                             t->type.dtype, t->type.rank, t->type.shape);
    P->ctx->recording = true;
    if (node && node->status != TP_OK) {
        no_memory(P);
        return NULL;
    }
    return node;
}

/* `%3 "y" = mul %1, %2 : f32[batch,10] ; net.c:8` */
static bool node_line(parser *P)
{
    int64_t k = 0;
    text_name name;
    P->p++;
    if (!number(P, &k))
        return false;
    if (k != P->g->n_nodes)
        return bad(P, "the next of these lines is %%%d", P->g->n_nodes);
    if (!maybe_name(P, &name))
        return false;
    const char *start = P->p;
    tp_tensor *node = NULL;
    text_tail t;
    if (name.text && tpi_graph_by_name(P->g, name.text, name.len)) {
        bad(P, "the name is taken by a line before");
    } else if (expect(P, '=')) {
        const size_t n = word(P, &start);
        const tpi_op *op = tpi_op_find(start, n);
        if (!op) {
            P->p = start;
            bad(P, "no op is called so");
        } else if (op == &tpi_op_placeholder && (!name.text || !*name.text)) {
            bad(P, "a placeholder needs a name");
        } else if (op == &tpi_op_variable) {
            node = read_variable(P, &t);
        } else if (op == &tpi_op_const) {
            node = read_constant(P, &t);
        } else {
            node = computed(P, op, &t);
        }
    }
    if (node && name.text && !tpi_graph_name(P->g, node, name.text)) {
        no_memory(P);
        node = NULL;
    }
    tpi_strfree(P->ctx, name.text);
    return node != NULL;
}

/* ---- texts ------------------------------------------------------------------------------------------ */

static bool symbols(parser *P)
{
    while (!at_line_end(P)) {
        int known = tpi_dim_n_symbols(P->g->dims), i;
        const char *end = P->p;
        const int64_t d = tpi_dim_parse(P->g->dims, P->p, P->limit, &end);
        if (d == TPI_NO_DIM || !tpi_dim_as_symbol(P->g->dims, d, &i) || i != known)
            return bad(P, "a symbol is malformed, or named twice");
        P->p = end;
    }
    return true;
}

/* `outputs %3, %5` */
static bool outputs(parser *P)
{
    P->in.n = 0;
    do {
        int64_t k = 0;
        if (!expect(P, '%') || !number(P, &k))
            return false;
        if (k < 0 || k >= P->g->n_nodes || !P->g->nodes[k]->name)
            return bad(P, "an output is a line with a name");
        tpi_nodes_push(&P->in, P->g->nodes[k]);
    } while (eat(P, ','));
    if (!end_of_line(P))
        return false;
    next_line(P);
    if (P->in.failed || tp_graph_set_outputs(P->g, P->in.n, P->in.v) != TP_OK)
        return no_memory(P);
    return true;
}

static bool lines(parser *P)
{
    if (!eat_word(P, "tapir") || !eat_word(P, "1") || !end_of_line(P))
        return bad(P, "this is no text of a graph (\"tapir 1\" comes first)");
    next_line(P);
    if (eat_word(P, "symbols") && !symbols(P))
        return false;
    for (next_line(P); next_is(P, '@'); next_line(P))
        if (!cell(P))
            return false;
    for (; next_is(P, '%'); next_line(P))
        if (!node_line(P))
            return false;
    if (eat_word(P, "outputs") && !outputs(P))
        return false;
    if (P->p < P->limit)
        return bad(P, "a node's line starts with %%");
    if (P->blobs && P->n_blobs != P->n_memory + P->n_data)
        return bad(P, "%d values are stored, the text names %d", P->n_blobs,
                   P->n_memory + P->n_data);
    return true;
}

tp_graph *tpi_parse(tp_ctx *ctx, tpi_at at, const char *what, const char *text,
                    size_t size_bytes, int n_blobs, const tpi_blob *blobs)
{
    parser P = {.ctx = ctx,
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
    struct tpi_frame *frame = tpi_frame_leave(ctx, at);
    const bool recording = ctx->recording;
    ctx->recording = true;
    P.g = tp_graph_new(ctx);
    P.scratch = tpi_take(&ctx->mem, size_bytes + 1);
    if (!P.g || !P.scratch)
        no_memory(&P);
    else
        lines(&P);
    tpi_give_back(&ctx->mem, P.scratch, size_bytes + 1);
    tpi_nodes_free(&P.in);
    tpi_nodes_free(&P.cells);
    ctx->recording = recording;
    if (P.failed) {
        tp_graph_free(P.g);
        P.g = NULL;
    }
    tp_scope_end(ctx);
    tpi_frame_return(ctx, frame);
    return P.g;
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
