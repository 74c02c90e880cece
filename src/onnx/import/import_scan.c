/* Scan: a loop over axes of its inputs. Up to operator set 8 it has a batch in front, and is a loop
 * over that, too; one that goes back begins at the end of each sequence. */
#include "onnx/import/import_inner.h"

#include <string.h>

typedef struct scanning {
    tpi_onnx_op *o;
    tpi_onnx_sub *sub;
    int first; /* operand that is the first state */
    int n_states, n_xs, n_ys;
    tpi_onnx_ints x_axes, x_ways, y_axes, y_ways; /* n 0: all 0 */
    bool back;
    tp_tensor *lengths; /* set 8: of all sequences, i64[batch]; or NULL */
    tp_tensor *length;  /* and of the one at hand, i64 */
} scanning;

static int64_t of_list(const tpi_onnx_ints *list, int i)
{
    return list->n ? list->v[i] : 0;
}

/* A list of so many numbers, or none. */
static bool read_list(tpi_onnx_op *o, const char *name, int n, tpi_onnx_ints *out)
{
    return tpi_onnx_read_list(o, name, out) &&
           (out->n == 0 || out->n == n ||
            tpi_onnx_refuse(o, "%s has %d numbers for %d values", name, out->n, n));
}

static bool read_ways(tpi_onnx_op *o, const char *name, int n, tpi_onnx_ints *out)
{
    if (!read_list(o, name, n, out))
        return false;
    for (int i = 0; i < out->n; i++)
        if (out->v[i] != 0 && out->v[i] != 1)
            return tpi_onnx_refuse(o, "%s has the number %lld", name, (long long)out->v[i]);
    return true;
}

static bool read_scan(scanning *s)
{
    tpi_onnx_op *o = s->o;
    const bool batch = o->opset < 9;
    const int64_t n_xs = tpi_onnx_int(o, "num_scan_inputs");
    s->first = batch;
    s->sub = tpi_onnx_sub_of(o, "body");
    if (!s->sub)
        return false;
    const tpi_onnx_graph *g = &s->sub->g;
    if (n_xs < 1 || n_xs > o->n_in - s->first || g->n_inputs != o->n_in - s->first ||
        g->n_outputs < o->n_in - s->first - n_xs || o->n_out > g->n_outputs)
        return tpi_onnx_refuse(
            o,
            "its body takes %d and gives %d, with %d inputs, of which it goes "
            "over %lld, and %d results",
            g->n_inputs, g->n_outputs, o->n_in - s->first, (long long)n_xs, o->n_out);
    s->n_xs = (int)n_xs;
    s->n_states = o->n_in - s->first - s->n_xs;
    s->n_ys = g->n_outputs - s->n_states;
    if (batch)
        return read_ways(o, "directions", s->n_xs, &s->x_ways);
    return read_list(o, "scan_input_axes", s->n_xs, &s->x_axes) &&
           read_ways(o, "scan_input_directions", s->n_xs, &s->x_ways) &&
           read_list(o, "scan_output_axes", s->n_ys, &s->y_axes) &&
           read_ways(o, "scan_output_directions", s->n_ys, &s->y_ways);
}

/* ---- axes and ways ----------------------------------------------------------------------------- */

static tp_tensor *turned(tpi_onnx_op *o, tp_tensor *x, bool turn)
{
    return turn ? tp_flip(x, TP_DIMS(0)) : x;
}

/* What goes the same way needs no copy; then all turns go that way. */
static bool goes_back(const scanning *s)
{
    bool back = s->x_ways.n > 0;
    for (int i = 0; i < s->n_xs && back; i++)
        back = of_list(&s->x_ways, i) == 1;
    return back;
}

/* Input i, its axis in front, to be gone over in the order of the turns. */
static tp_tensor *read_x(scanning *s, int i)
{
    tpi_onnx_op *o = s->o;
    tp_tensor *x = tp_graph_read(o->g, tpi_onnx_in(o, s->first + s->n_states + i));
    if (tp_failed(x))
        return x;
    const int axis = x->rank ? tpi_axis(of_list(&s->x_axes, i), x->rank) : -1;
    if (axis < 0)
        return tpi_fail(o->ctx, o->at, NULL, TP_E_VALUE, "axis %lld is out of range for %s",
                        (long long)of_list(&s->x_axes, i), SHAPE(x));
    return turned(o, tpi_onnx_move_axis(o, x, axis, 0), of_list(&s->x_ways, i) != s->back);
}

static bool give_y(scanning *s, int i, tp_tensor *y)
{
    tpi_onnx_op *o = s->o;
    const int axis = tpi_axis(of_list(&s->y_axes, i), y->rank);
    if (axis < 0)
        return tpi_onnx_refuse(o, "axis %lld is out of range for %s",
                               (long long)of_list(&s->y_axes, i), SHAPE(y));
    y = turned(o, y, of_list(&s->y_ways, i) != s->back);
    return tpi_onnx_out(o, s->n_states + i, tpi_onnx_move_axis(o, y, 0, axis));
}

/* ---- turns --------------------------------------------------------------------------------------- */

/* Past the end of a sequence a state stays, and what is stacked is 0. */
static void hold(scanning *s, const tpi_onnx_loop *l, tp_tensor **out)
{
    tpi_onnx_op *o = s->o;
    if (!s->length)
        return;
    tp_tensor *goes_on = tp_lt(l->turn, s->length);
    for (int i = 0; i < s->n_states + s->n_ys; i++)
        if (!tp_failed(out[i]))
            out[i] = tp_where(goes_on, out[i],
                              i < s->n_states
                                  ? l->carried[i]
                                  : tp_cast(tp_scalar(o->ctx, TP_I64, 0), tp_dtype_of(out[i])));
}

static bool run_body(scanning *s, tpi_onnx_loop *l, tp_tensor **out)
{
    tpi_onnx_op *o = s->o;
    tpi_onnx_env f;
    const int n = s->n_states + s->n_xs;
    tpi_onnx_value **in = tpi_onnx_take(o->im->m, (size_t)n, sizeof(tpi_onnx_value *));
    for (int i = 0; i < n && in; i++) /* slices are behind what is carried */
        in[i] = tpi_onnx_new_value(o->im, l->carried[i]);
    if (!in || !tpi_onnx_sub_run(o, s->sub, &f, n, in))
        return false;
    for (int i = 0; i < s->n_states + s->n_ys; i++) {
        tpi_onnx_value *v = tpi_onnx_sub_output(o, s->sub, &f, i);
        if (!v || !(out[i] = tpi_onnx_tensor_of(o->im, v, true)))
            return false;
    }
    hold(s, l, out);
    return true;
}

/* in[]: the states, and what is gone over, [turns, ...]. out[]: the states after all turns, and what
 * is stacked, [turns, ...]. */
static bool run_turns(scanning *s, tp_tensor *const *in, tp_tensor **out)
{
    const tp_tensor *x = in[s->n_states];
    if (!tpi_onnx_good(s->o, x))
        return false;
    if (x->rank == 0)
        return tpi_onnx_refuse(s->o, "a scalar has no axis to go over");
    tpi_onnx_loop l = {
        .n_carried = s->n_states, .n_slices = s->n_xs, .count = x->shape[0], .back = s->back};
    const bool ok = tpi_onnx_loop_begin(s->o, &l, in) && run_body(s, &l, out);
    tpi_onnx_loop_leave(&l);
    return ok && tpi_onnx_loop_end(&l, NULL, NULL, s->n_ys, out);
}

/* ---- with a batch ---------------------------------------------------------------------------------- */

/* All operands have the batch in front. */
static bool run_batch(scanning *s, tp_tensor *const *in, tp_tensor **out)
{
    tpi_onnx_op *o = s->o;
    const int n = s->n_states + s->n_xs;
    tp_tensor **all = tpi_onnx_take(o->im->m, (size_t)n + 1, sizeof *all);
    if (!all)
        return false;
    memcpy(all, in, (size_t)n * sizeof *all);
    all[n] = s->lengths;
    tpi_onnx_loop l = {.n_slices = n + (s->lengths != NULL),
                       .count = in[s->n_states]->shape[0]};
    bool ok = tpi_onnx_loop_begin(o, &l, all);
    s->length = ok && s->lengths ? l.slice[n] : NULL;
    ok = ok && run_turns(s, l.slice, out);
    tpi_onnx_loop_leave(&l);
    return ok && tpi_onnx_loop_end(&l, NULL, NULL, s->n_states + s->n_ys, out);
}

/* Input i, [batch, turns, ...], in the order of the turns; NULL: it is refused. */
static tp_tensor *read_batch(scanning *s, int i)
{
    tpi_onnx_op *o = s->o;
    tp_tensor *x = tp_graph_read(o->g, tpi_onnx_in(o, s->first + s->n_states + i));
    if (!tpi_onnx_good(o, x))
        return NULL;
    if (x->rank < 2)
        return tpi_onnx_refuse(o, "%s has no batch and sequence", SHAPE(x));
    if (!of_list(&s->x_ways, i))
        return x;
    return s->lengths ? tpi_onnx_reversed(o, x, s->lengths, 1, 0) : tp_flip(x, TP_DIMS(1));
}

static bool read_lengths(scanning *s)
{
    tpi_onnx_op *o = s->o;
    if (s->first == 0 || !tpi_onnx_has(o, 0))
        return true;
    tp_tensor *lengths = tpi_onnx_good_in(o, 0);
    if (!lengths)
        return false;
    if (lengths->rank != 1)
        return tpi_onnx_refuse(o, "its lengths are %s, not one for each sequence",
                               SHAPE(lengths));
    s->lengths = tp_cast(lengths, TP_I64);
    return tpi_onnx_good(o, s->lengths);
}

bool tpi_onnx_import_scan(tpi_onnx_op *o)
{
    scanning s = {.o = o};
    if (!read_scan(&s) || !read_lengths(&s))
        return false;
    tp_tensor **in = tpi_onnx_take(o->im->m, (size_t)(s.n_states + s.n_xs), sizeof *in);
    tp_tensor **out = tpi_onnx_take(o->im->m, (size_t)(s.n_states + s.n_ys), sizeof *out);
    if (!out)
        return false;
    s.back = s.first == 0 && goes_back(&s);
    for (int i = 0; i < s.n_states; i++)
        in[i] = tpi_onnx_in(o, s.first + i);
    for (int i = 0; i < s.n_xs; i++)
        if (!(in[s.n_states + i] = s.first ? read_batch(&s, i) : read_x(&s, i)))
            return false;
    bool ok = s.first ? run_batch(&s, in, out) : run_turns(&s, in, out);
    for (int i = 0; i < s.n_states && ok; i++)
        ok = tpi_onnx_out(o, i, out[i]);
    for (int i = 0; i < s.n_ys && ok; i++)
        ok = !tpi_onnx_wants(o, s.n_states + i) ||
             (s.first ? tpi_onnx_out(o, s.n_states + i, out[s.n_states + i])
                      : give_y(&s, i, out[s.n_states + i]));
    return ok;
}
