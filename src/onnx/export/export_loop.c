/* A loop leaves as Scan when its number of turns is a size and it goes over something or stacks
 * something, else as Loop.
 *
 * The number of a turn is an element that a Scan goes over. Runtimes do not run a Scan without turns:
 * one that may have none is a side of an If, whose other side gives what is carried as it came, and
 * stacks of no elements. In a Loop slices are gathered, and what is stacked from the last turn to the
 * first is turned around. */
#include "core/dim.h"
#include "onnx/export/export_inner.h"

typedef struct looping {
    const tp_tensor *t;
    const tpi_loop_attrs *a;
    tpi_ports *p;
    bool scan;     /* leaves as Scan */
    bool numbers;  /* that goes over the numbers of the turns, too */
    bool drawn;    /* where random numbers go on is carried, too */
    bool counts;   /* and the number of turns of a Loop: only that tells `length` */
    tpi_val turn;  /* in the body: the number of the turn, in a Loop of the iteration */
    tpi_val go_on; /* and the condition that a Loop gives it */
    tpi_val *out;  /* what the body gives */
    int n_out;
} looping;

static tpi_val scalar_of(tpi_export *x, tpi_val v)
{
    return tpi_reshape(x, v, NULL, 0, NULL);
}

/* ---- bodies ------------------------------------------------------------------------------------ */

/* Inputs of the block for n params. */
static void take_params(tpi_export *x, tp_tensor *const *params, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        x->now.value_of[params[k]->index] =
            tpi_block_input(x, (tp_dtype)params[k]->dtype, params[k]);
}

/* All that the body takes, before anything is computed in it. */
static void take_inputs(tpi_export *x, looping *l)
{
    tp_tensor *const *params = l->a->body->params + 1;
    if (!l->scan) {
        l->turn = tpi_block_scalar(x, TP_I64);
        l->go_on = tpi_block_scalar(x, TP_BOOL);
    }
    take_params(x, params, l->a->n_carried);
    for (int i = 0; i < x->n_streams && l->drawn; i++)
        tpi_random_from(x, i, tpi_block_input(x, TP_I64, NULL));
    if (l->counts)
        tpi_block_input(x, TP_I64, NULL);
    if (l->scan)
        take_params(x, params + l->a->n_carried, l->a->n_slices);
    if (l->numbers)
        l->turn = tpi_block_scalar(x, TP_I64);
}

/* The number of the turn, and what the params stand for that are no inputs: operands are values of
 * the graph around. */
static void set_params(tpi_export *x, const looping *l, const tpi_exported *was)
{
    const tpi_body *b = l->a->body;
    const int first = (int)l->a->has_pred, carried = (int)l->a->n_carried;
    const int slices = (int)l->a->n_slices;
    tpi_val turn = l->turn;
    if (l->a->back && !l->scan) {
        const tpi_val last = tpi_put(x, "Sub", TPI_V(tpi_size(x, l->a->count), tpi_int(x, 1)));
        turn = tpi_put(x, "Sub", TPI_V(scalar_of(x, last), turn));
    }
    x->now.value_of[b->params[0]->index] = turn;
    for (int k = carried + (l->scan ? slices : 0); k < b->n_params - 1; k++) {
        const tpi_val outer = was->value_of[l->t->in[first + k]->index];
        x->now.value_of[b->params[1 + k]->index] =
            k < carried + slices ? tpi_put(x, "Gather", TPI_V(outer, turn)) : outer;
    }
}

static void add_output(tpi_export *x, looping *l, tpi_val v)
{
    if (x->status != TP_OK)
        return;
    l->out[l->n_out] = tpi_own_output(x, v, l->n_out, l->out);
    l->n_out++;
}

/* A Loop's condition, all that is carried, and what is stacked and asked for. */
static void export_outputs(tpi_export *x, looping *l)
{
    const tpi_body *b = l->a->body;
    const int first = (int)l->a->has_pred, stacked = first + (int)l->a->n_carried;
    tp_tensor **asked = tpi_export_take(x, (size_t)b->n_outputs, sizeof *asked);
    int n = 0;
    if (!asked)
        return;
    for (int i = 0; i < b->n_outputs; i++)
        if (i < stacked || l->p->used[i - first])
            asked[n++] = b->outputs[i];
    tpi_export_needed(x, n, asked);
    if (!l->scan)
        add_output(x, l, first ? tpi_value_of(x, asked[0]) : l->go_on);
    for (int i = first; i < stacked; i++)
        add_output(x, l, tpi_value_of(x, asked[i]));
    for (int i = 0; i < x->n_streams && l->drawn; i++)
        add_output(x, l, tpi_random_now(x, i));
    if (l->counts) {
        const int64_t one = 1;
        const tpi_val turns =
            tpi_put(x, "Add", TPI_V(l->turn, tpi_constant(x, TP_I64, 0, 1, &one)));
        add_output(x, l, tpi_reshape(x, turns, NULL, 1, &one));
    }
    for (int i = stacked; i < n; i++)
        add_output(x, l, tpi_value_of(x, asked[i]));
}

/* The body as a block. */
static int32_t export_body(tpi_export *x, looping *l)
{
    const tpi_body *b = l->a->body;
    tpi_exported was;
    l->out = tpi_export_take(x, (size_t)(b->n_outputs + 2 + x->n_streams), sizeof *l->out);
    const int32_t block = tpi_block_begin(x);
    if (x->status == TP_OK && tpi_export_enter(x, b, &was)) {
        take_inputs(x, l);
        set_params(x, l, &was);
        export_outputs(x, l);
        tpi_block_end(x, l->n_out, l->out);
        tpi_export_leave(x, &was);
    }
    return block;
}

/* ---- the operator ------------------------------------------------------------------------------ */

/* 0, 1, ... of all turns: i64[count]. */
static tpi_val all_turns(tpi_export *x, const looping *l)
{
    const tpi_val zero = tpi_scalar(x, TP_I64, 0), one = tpi_scalar(x, TP_I64, 1);
    return tpi_put(x, "Range", TPI_V(zero, scalar_of(x, tpi_size(x, l->a->count)), one));
}

/* A Loop's count and condition (0 where there is none), what is carried, what a Scan goes over. */
static int operands_of(tpi_export *x, const looping *l, tpi_val *in)
{
    const tpi_loop_attrs *a = l->a;
    const int first = (int)a->has_pred, carried = (int)a->n_carried;
    int n = 0;
    if (!l->scan) {
        in[n++] = a->counted ? scalar_of(x, tpi_size(x, a->count)) : 0;
        in[n++] = first ? tpi_in(x, l->t, 0) : 0;
    }
    for (int k = 0; k < carried; k++)
        in[n++] = tpi_in(x, l->t, first + k);
    for (int i = 0; i < x->n_streams && l->drawn; i++)
        in[n++] = tpi_random_now(x, i);
    if (l->counts)
        in[n++] = tpi_int(x, 0);
    for (int k = 0; k < a->n_slices && l->scan; k++)
        in[n++] = tpi_in(x, l->t, first + carried + k);
    if (l->numbers)
        in[n++] = all_turns(x, l);
    return n;
}

/* A list of equal numbers. */
static void put_ways(tpi_export *x, const char *name, int64_t n)
{
    int64_t *ways = tpi_export_take(x, (size_t)n, sizeof *ways);
    for (int64_t i = 0; ways && i < n; i++)
        ways[i] = 1;
    if (ways)
        tpi_put_ints(x, name, n, ways);
}

static void put_attrs(tpi_export *x, const looping *l, int32_t body, int n_stacked)
{
    const int64_t n_xs = l->a->n_slices + l->numbers;
    tpi_put_body(x, 0, body);
    if (x->status != TP_OK || !l->scan)
        return;
    tpi_put_int(x, "num_scan_inputs", n_xs);
    if (l->a->back)
        put_ways(x, "scan_input_directions", n_xs);
    if (l->a->back && n_stacked)
        put_ways(x, "scan_output_directions", n_stacked);
}

/* What a Loop stacked, in the order of numbers. Runtimes that take no turn know the rank of it only. */
static tpi_val stacked_result(tpi_export *x, const looping *l, int index, tpi_val v)
{
    tp_dtype dtype;
    int rank;
    int64_t shape[TP_MAX_RANK + 1], all = INT64_MIN;
    tpi_output_type(l->t, index, &dtype, &rank, shape);
    if (l->a->back) {
        const tpi_val end = tpi_ints(x, 1, &all), minus = tpi_int(x, -1);
        v = tpi_put(x, "Slice", TPI_V(v, minus, end, tpi_int(x, 0), minus));
    }
    bool free = false;
    for (int i = 1; i < rank; i++)
        free |= tpi_dim_is_symbolic(shape[i]);
    if (!free)
        return v;
    v = tpi_put(x, "Reshape", TPI_V(v, tpi_sizes(x, rank, shape)));
    tpi_put_int(x, "allowzero", 1);
    return v;
}

/* The number of turns taken, when it is a size of its own. */
static void note_length(tpi_export *x, const looping *l, tpi_val stacked, tpi_val counted)
{
    tpi_val v = counted;
    if (l->a->length == l->a->count && l->a->counted)
        return;
    if (!v) {
        v = tpi_put_typed(x, "Shape", TP_I64, TPI_V(stacked));
        tpi_put_int(x, "start", 0);
        tpi_put_int(x, "end", 1);
    }
    tpi_note_size(x, l->a->length, v);
}

/* What is carried, where random numbers go on, the number of turns, what is stacked. What a Loop
 * stacked is made of its results when all of them have been named. */
static void put_results(tpi_export *x, looping *l, int32_t body, int n_in, const tpi_val *in)
{
    tpi_ports *p = l->p;
    const int carried = (int)l->a->n_carried;
    tpi_results r = {l->scan ? "Scan" : "Loop", 0, n_in, in};
    tpi_val counted = 0, stacked = 0;
    int n_stacked = 0;
    for (int i = 0; i < carried; i++)
        p->value[i] = tpi_next_result(x, &r, tpi_port_type(l->t, i));
    for (int i = 0; i < x->n_streams && l->drawn; i++)
        tpi_random_from(x, i, tpi_next_result(x, &r, TP_I64));
    if (l->counts)
        counted = tpi_next_result(x, &r, TP_I64);
    for (int i = carried; i < p->n; i++)
        if (p->used[i]) {
            stacked = p->value[i] = tpi_next_result(x, &r, tpi_port_type(l->t, i));
            n_stacked++;
        }
    put_attrs(x, l, body, n_stacked);
    if (x->status == TP_OK && l->a->length && (stacked || counted))
        note_length(x, l, stacked, counted);
    for (int i = carried; i < p->n && !l->scan && x->status == TP_OK; i++)
        if (p->used[i])
            p->value[i] = stacked_result(x, l, i, p->value[i]);
}

static void export_turns(tpi_export *x, looping *l)
{
    const int32_t body = export_body(x, l);
    const size_t most =
        (size_t)l->a->n_carried + (size_t)l->a->n_slices + 3 + (size_t)x->n_streams;
    tpi_val *in = tpi_export_take(x, most, sizeof *in);
    if (x->status == TP_OK)
        put_results(x, l, body, operands_of(x, l, in), in);
}

/* ---- a Scan that may have no turns --------------------------------------------------------------- */

/* What a side gives: outputs that are asked for, and where random numbers go on. */
static int32_t end_side(tpi_export *x, const looping *l, int32_t block, tpi_val *out)
{
    const tpi_ports *p = l->p;
    int n = 0;
    for (int i = 0; i < p->n; i++)
        if (p->used[i]) {
            out[n] = tpi_own_output(x, p->value[i], n, out);
            n++;
        }
    for (int i = 0; i < x->n_streams && l->drawn && x->status == TP_OK; i++) {
        out[n] = tpi_own_output(x, tpi_random_now(x, i), n, out);
        n++;
    }
    tpi_block_end(x, n, out);
    return block;
}

static int32_t export_some_turns(tpi_export *x, looping *l, tpi_val *out)
{
    const int32_t block = tpi_block_begin(x);
    x->depth++; /* blocks in it are deeper */
    export_turns(x, l);
    x->depth--;
    return end_side(x, l, block, out);
}

static int32_t export_no_turns(tpi_export *x, looping *l, tpi_val *out)
{
    const int32_t block = tpi_block_begin(x);
    for (int i = 0; i < l->p->n && x->status == TP_OK; i++) {
        tp_dtype dtype;
        int rank;
        int64_t shape[TP_MAX_RANK + 1];
        if (!l->p->used[i])
            continue;
        tpi_output_type(l->t, i, &dtype, &rank, shape);
        l->p->value[i] = i < l->a->n_carried
                             ? tpi_in(x, l->t, i)
                             : tpi_expand(x, tpi_scalar(x, dtype, 0), rank, shape);
    }
    return end_side(x, l, block, out);
}

static void export_guarded(tpi_export *x, looping *l)
{
    tpi_val *out = tpi_export_take(x, (size_t)(l->p->n + x->n_streams), sizeof *out);
    tpi_export_stream *drawn = tpi_random_copy(x);
    const tpi_val zero = tpi_scalar(x, TP_I64, 0);
    const tpi_val any = tpi_put_typed(x, "Greater", TP_BOOL,
                                      TPI_V(scalar_of(x, tpi_size(x, l->a->count)), zero));
    const int32_t some = x->status == TP_OK ? export_some_turns(x, l, out) : 0;
    x->now.drawn = drawn;
    const int32_t none = x->status == TP_OK ? export_no_turns(x, l, out) : 0;
    if (x->status == TP_OK)
        tpi_export_if(x, any, some, none, l->t, l->p, l->drawn);
}

/* ---- which operator -------------------------------------------------------------------------------- */

static bool reads_turn(const tpi_body *b)
{
    const tp_tensor *turn = b->params[0];
    bool any = false;
    for (int i = 0; i < b->n_outputs; i++)
        any |= b->outputs[i] == turn;
    for (int i = 0; i < b->graph->n_nodes && !any; i++)
        for (int k = 0; k < b->graph->nodes[i]->n_in; k++)
            any |= b->graph->nodes[i]->in[k] == turn;
    return any;
}

void tpi_export_loop(tpi_export *x, const tp_tensor *t, tpi_ports *p)
{
    looping l = {.t = t, .a = t->attrs, .p = p};
    bool stacks = false;
    for (int i = (int)l.a->n_carried; i < p->n; i++)
        stacks |= p->used[i];
    l.drawn = tpi_graph_draws(l.a->body->graph);
    l.scan = l.a->counted && !l.a->has_pred && l.a->count != 0 && (stacks || l.a->n_slices);
    l.numbers = l.scan && (l.a->n_slices == 0 || reads_turn(l.a->body));
    l.counts = tpi_dim_is_symbolic(l.a->length) && l.a->has_pred && !stacks;
    if (l.scan && tpi_dim_is_symbolic(l.a->count))
        export_guarded(x, &l);
    else
        export_turns(x, &l);
}
