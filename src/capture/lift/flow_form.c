/* The form of a flow: loops in loops, where ways meet, what is read later. */
#include "capture/lift/lift.h"

#include <string.h>

static bool refuse(tpi_form *f, const tpi_flow *w, int block, const char *why)
{
    const tpi_basic_block *b = &f->bs->v[block];
    f->why = why;
    f->where = w->nodes[b->nodes[b->n_nodes - 1]].at;
    if (!f->where.file)
        f->where = w->nodes[b->nodes[0]].at;
    return false;
}

static tpi_bits *bits_new(tpi_form *f, int rows, int n)
{
    const size_t bytes = (size_t)rows * (size_t)tpi_bit_words(n) * sizeof(tpi_bits);
    tpi_bits *v = tpi_take(f->mem, bytes);
    if (v)
        memset(v, 0, bytes);
    return v;
}

static void bits_free(tpi_form *f, tpi_bits *v, int rows, int n)
{
    tpi_give_back(f->mem, v, (size_t)rows * (size_t)tpi_bit_words(n) * sizeof *v);
}

static tpi_bits *row(tpi_bits *v, int i, int n)
{
    return v + (size_t)i * (size_t)tpi_bit_words(n);
}

void tpi_form_free(tpi_form *f)
{
    for (int k = 0; k < f->n_loops; k++)
        bits_free(f, f->loops[k].in, 1, f->n_blocks);
    tpi_give_back(f->mem, f->loops, (size_t)f->n_loops * sizeof *f->loops);
    tpi_give_back(f->mem, f->ways, (size_t)f->n_blocks * sizeof *f->ways);
    tpi_give_back(f->mem, f->n_ways, (size_t)f->n_blocks);
    tpi_give_back(f->mem, f->join, (size_t)f->n_blocks * sizeof *f->join);
    bits_free(f, f->after, f->n, f->n);
    bits_free(f, f->live, f->n_blocks, f->bs->n_regs);
}

int tpi_form_loop_at(const tpi_form *f, int block)
{
    for (int k = 0; k < f->n_loops; k++)
        if (f->loops[k].head == block)
            return k;
    return -1;
}

/* ---- ways -------------------------------------------------------------------------------- */

static const tpi_node *last_of(const tpi_flow *w, const tpi_basic_block *b)
{
    return &w->nodes[b->nodes[b->n_nodes - 1]];
}

static bool same_line(tpi_at a, tpi_at b)
{
    return a.file && b.file && a.line == b.line && strcmp(a.file, b.file) == 0;
}

/* A guard before a loop that has always let it begin is the same C line as the one after a turn, when it leads to the
 * same turn. Then it leads out where that one does. */
static const tpi_basic_block *find_twin(const tpi_flow *w, const tpi_form *f, int block,
                                        int edge)
{
    const tpi_edge *own = &f->bs->v[block].edges[edge];
    const tpi_node *look = last_of(w, &f->bs->v[block]);
    for (int i = 0; i < f->n_blocks; i++) {
        const tpi_basic_block *b = &f->bs->v[i];
        const tpi_node *n = last_of(w, b);
        if (i == block || n->kind != TPI_STEP_LOOK || n->look != TPI_LOOK_TRUTH ||
            b->n_edges != 2 || !same_line(n->at, look->at))
            continue;
        for (int e = 0; e < 2; e++)
            if (b->edges[e].back && b->edges[e].to == own->to &&
                b->edges[e].seen[0] == own->seen[0] && !b->edges[!e].back)
                return b;
    }
    return NULL;
}

static bool find_sides(const tpi_flow *w, tpi_form *f, int i)
{
    const tpi_basic_block *b = &f->bs->v[i];
    if (last_of(w, b)->look != TPI_LOOK_TRUTH)
        return refuse(
            f, w, i, "a value is read here, and C may go on by what it is: branch on tp_truth");
    for (int e = 0; e < b->n_edges; e++)
        f->ways[i][!b->edges[e].seen[0]] =
            (tpi_form_way){b->edges[e].to, b->edges[e].back, i, e};
    f->n_ways[i] = 2;
    if (b->n_edges == 2)
        return true;
    const int missing = b->edges[0].seen[0] ? 1 : 0;
    const tpi_basic_block *twin = find_twin(w, f, i, 0);
    for (int e = 0; twin && e < 2; e++)
        if (twin->edges[e].seen[0] != b->edges[0].seen[0]) {
            f->ways[i][missing] =
                (tpi_form_way){twin->edges[e].to, false, (int32_t)(twin - f->bs->v), e};
            return true;
        }
    if (f->open) {
        f->ways[i][0] = f->ways[i][!missing];
        f->n_ways[i] = 1;
        return true;
    }
    return refuse(f, w, i,
                  missing == 0
                      ? "tp_truth was never true here: call the function so that both "
                        "sides are seen, or make it a graph with tp_if and tp_while"
                      : "tp_truth was never false here: call the function so that both "
                        "sides are seen, or make it a graph with tp_if and tp_while");
}

static bool find_ways(const tpi_flow *w, tpi_form *f)
{
    f->ways = tpi_take(f->mem, (size_t)f->n_blocks * sizeof *f->ways);
    f->n_ways = tpi_take(f->mem, (size_t)f->n_blocks);
    if (!f->ways || !f->n_ways)
        return false;
    for (int i = 0; i < f->n_blocks; i++) {
        const tpi_basic_block *b = &f->bs->v[i];
        f->n_ways[i] = b->n_edges > 0;
        if (last_of(w, b)->kind == TPI_STEP_LOOK) {
            if (!find_sides(w, f, i))
                return false;
        } else if (b->n_edges) {
            f->ways[i][0] = (tpi_form_way){b->edges[0].to, b->edges[0].back, i, 0};
        }
    }
    return true;
}

/* ---- loops ------------------------------------------------------------------------------- */

/* All blocks from which a back edge to the head is reached without passing it. */
static void fill_loop(const tpi_form *f, tpi_form_loop *l)
{
    tpi_bit_add(l->in, l->head);
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < f->n_blocks; i++) {
            for (int e = 0; e < f->n_ways[i] && !tpi_bit_has(l->in, i); e++) {
                const tpi_form_way *x = &f->ways[i][e];
                if (x->to == l->head ? x->back : tpi_bit_has(l->in, x->to)) {
                    tpi_bit_add(l->in, i);
                    more = true;
                }
            }
        }
    }
    for (int i = 0; i < f->n_blocks; i++)
        l->size += tpi_bit_has(l->in, i);
}

/* Is it entered at its head alone? */
static bool has_one_door(tpi_form *f, const tpi_flow *w, const tpi_form_loop *l)
{
    for (int i = 0; i < f->n_blocks; i++)
        for (int e = 0; e < f->n_ways[i] && !tpi_bit_has(l->in, i); e++)
            if (f->ways[i][e].to != l->head && tpi_bit_has(l->in, f->ways[i][e].to))
                return refuse(f, w, i, "a loop is entered in its middle");
    return true;
}

static bool find_loops(tpi_form *f, const tpi_flow *w)
{
    int n = 0;
    for (int i = 0; i < f->n_blocks; i++)
        n += f->bs->v[i].loops;
    f->loops = tpi_take(f->mem, (size_t)n * sizeof *f->loops);
    if (!f->loops)
        return false;
    f->n_loops = n;
    memset(f->loops, 0, (size_t)n * sizeof *f->loops);
    n = 0;
    for (int i = 0; i < f->n_blocks; i++)
        if (f->bs->v[i].loops)
            f->loops[n++] = (tpi_form_loop){.head = i, .exit = -1};
    for (int k = 0; k < n; k++) {
        f->loops[k].in = bits_new(f, 1, f->n_blocks);
        if (!f->loops[k].in)
            return false;
        fill_loop(f, &f->loops[k]);
        if (!has_one_door(f, w, &f->loops[k]))
            return false;
    }
    for (int k = 1; k < n; k++) /* the largest first */
        for (int i = k; i > 0 && f->loops[i].size > f->loops[i - 1].size; i--) {
            const tpi_form_loop l = f->loops[i];
            f->loops[i] = f->loops[i - 1];
            f->loops[i - 1] = l;
        }
    f->end = f->n_blocks;
    f->n = f->n_blocks + 1 + n;
    return true;
}

/* ---- where ways meet --------------------------------------------------------------------- */

/* Where edge e of a place leads: a turn ends at its loop's own place, which leads out of the loop. -1: there
 * is no such edge; -2: it is not known yet. */
static int leads_to(const tpi_form *f, int place, int e)
{
    if (place == f->end)
        return -1;
    if (place > f->end) {
        const int exit = f->loops[place - f->end - 1].exit;
        return e > 0 ? -1 : exit < 0 ? -2 : exit;
    }
    const tpi_form_way *x = &f->ways[place][e];
    if (f->n_ways[place] == 0)
        return e == 0 ? f->end : -1;
    if (e >= f->n_ways[place])
        return -1;
    if (!x->back)
        return x->to;
    const int k = tpi_form_loop_at(f, x->to);
    return f->loops[k].exit < 0 ? -2 : f->end + 1 + k;
}

/* What all ways on from each place pass. A way that is not known yet says nothing. */
static void find_after(tpi_form *f)
{
    const int words = tpi_bit_words(f->n);
    memset(f->after, 0xff, (size_t)f->n * (size_t)words * sizeof *f->after);
    memset(row(f->after, f->end, f->n), 0, (size_t)words * sizeof *f->after);
    tpi_bit_add(row(f->after, f->end, f->n), f->end);
    for (bool more = true; more;) {
        more = false;
        for (int i = f->n; i-- > 0;) {
            tpi_bits *own = row(f->after, i, f->n);
            for (int e = 0, to; (to = leads_to(f, i, e)) != -1; e++) {
                if (to < 0)
                    continue;
                const tpi_bits *other = row(f->after, to, f->n);
                for (int k = 0; k < words; k++) {
                    tpi_bits v = own[k] & other[k];
                    if (k == i / 64)
                        v |= own[k] & UINT64_C(1) << (i % 64);
                    more |= v != own[k];
                    own[k] = v;
                }
            }
        }
    }
}

static int count_bits(const tpi_bits *v, int n)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        count += tpi_bit_has(v, i);
    return count;
}

/* The nearest place behind `place` that all ways pass, of those not in `out`; -1: none. */
static int nearest(const tpi_form *f, int place, const tpi_bits *out)
{
    int found = -1, most = 0;
    const tpi_bits *own = row(f->after, place, f->n);
    for (int i = 0; i < f->n; i++) {
        if (i == place || !tpi_bit_has(own, i) ||
            (out && i < f->n_blocks && tpi_bit_has(out, i)))
            continue;
        const int count = count_bits(row(f->after, i, f->n), f->n);
        if (count < f->n && count > most) {
            most = count;
            found = i;
        }
    }
    return found;
}

static bool find_joins(tpi_form *f, const tpi_flow *w)
{
    f->after = bits_new(f, f->n, f->n);
    f->join = tpi_take(f->mem, (size_t)f->n_blocks * sizeof *f->join);
    if (!f->after || !f->join)
        return false;
    for (int k = 0; k < f->n_loops; k++) {
        find_after(f);
        f->loops[k].exit = nearest(f, f->loops[k].head, f->loops[k].in);
        if (f->loops[k].exit < 0)
            return refuse(f, w, f->loops[k].head, "no call has left this loop");
    }
    find_after(f);
    for (int i = 0; i < f->n_blocks; i++) {
        f->join[i] = nearest(f, i, NULL);
        if (f->join[i] < 0)
            return refuse(f, w, i, "no call came to a good end from here");
    }
    return true;
}

/* ---- what is read later ------------------------------------------------------------------ */

static int reg_of(const tpi_flow *w, const tpi_basic_blocks *bs, tpi_source s)
{
    return s.kind == TPI_SOURCE_EXTERN ? s.n
           : s.kind == TPI_SOURCE_NODE ? bs->node_reg[s.n]
                                       : w->vars[s.n].reg + w->vars[s.n].age;
}

/* Backwards over a node: what it sets is not read before, what it reads is. */
static void pass_node(const tpi_flow *w, const tpi_basic_blocks *bs, int node, tpi_bits *live)
{
    const tpi_node *n = &w->nodes[node];
    for (int i = 0; i < w->n_vars && n->kind == TPI_STEP_OP; i++) {
        const tpi_var *v = &w->vars[i];
        if (!tpi_var_follows(v, node))
            continue;
        tpi_bit_drop(live, v->reg);
        if (v->age && tpi_bit_has(live, v->reg + 1)) {
            tpi_bit_drop(live, v->reg + 1);
            tpi_bit_add(live, v->reg);
        }
    }
    if (n->kind == TPI_STEP_OP)
        tpi_bit_drop(live, bs->node_reg[node]);
    for (int k = 0; k < n->n_in; k++)
        tpi_bit_add(live, reg_of(w, bs, n->in[k].source));
}

/* What is read behind a way, before what is set on it is set. */
static void pass_way(const tpi_form *f, const tpi_form_way *x, tpi_bits *live)
{
    const tpi_bits *next = row(f->live, x->to, f->bs->n_regs);
    const tpi_basic_block *b = &f->bs->v[x->block];
    for (int i = 0; i < f->bs->n_regs; i++) {
        if (!tpi_bit_has(next, i))
            continue;
        int reg = i;
        for (int k = 0; k < b->n_sets; k++)
            if (b->sets[k].edge == x->edge && b->sets[k].to == i)
                reg = b->sets[k].from;
        tpi_bit_add(live, reg);
    }
}

static void pass_block(tpi_flow *w, const tpi_form *f, int i, tpi_bits *live)
{
    const tpi_basic_block *b = &f->bs->v[i];
    for (int e = 0; e < f->n_ways[i]; e++)
        pass_way(f, &f->ways[i][e], live);
    for (int k = b->n_nodes; k-- > 0;)
        pass_node(w, f->bs, b->nodes[k], live);
    for (int p = 0; p < b->n_in; p++) {
        const tpi_port *port = &b->in[p];
        if (!port->soft)
            tpi_bit_add(live, port->reg);
        if (!port->soft && port->alt >= 0)
            tpi_bit_add(live, port->alt);
        for (int k = 0; k < port->n_rivals; k++)
            tpi_bit_add(live, port->rivals[k]);
    }
}

static bool find_live(tpi_flow *w, tpi_form *f)
{
    const int n = f->bs->n_regs, words = tpi_bit_words(n);
    f->live = bits_new(f, f->n_blocks, n);
    tpi_bits *live = bits_new(f, 1, n);
    for (bool more = f->live && live; more;) {
        more = false;
        for (int i = f->n_blocks; i-- > 0;) {
            tpi_bits *own = row(f->live, i, n);
            memset(live, 0, (size_t)words * sizeof *live);
            pass_block(w, f, i, live);
            more |= memcmp(own, live, (size_t)words * sizeof *live) != 0;
            memcpy(own, live, (size_t)words * sizeof *live);
        }
    }
    const bool ok = f->live && live;
    bits_free(f, live, 1, n);
    return ok;
}

void tpi_form_live(const tpi_form *f, int place, tpi_bits *live)
{
    const int n = f->bs->n_regs;
    if (place == f->end)
        return;
    const int block = place > f->end ? f->loops[place - f->end - 1].head : place;
    for (int i = 0; i < tpi_bit_words(n); i++)
        live[i] |= row(f->live, block, n)[i];
}

void tpi_form_live_behind(const tpi_form *f, int block, tpi_bits *live)
{
    for (int e = 0; e < f->n_ways[block]; e++)
        pass_way(f, &f->ways[block][e], live);
}

bool tpi_form_find(tpi_flow *w, tpi_form *f)
{
    f->mem = &w->ctx->mem;
    f->bs = w->blocks;
    f->n_blocks = w->blocks->n;
    return find_ways(w, f) && find_loops(f, w) && find_joins(f, w) && find_live(w, f);
}

/* ---- doubts ------------------------------------------------------------------------------ */

enum { MOST_HOLDERS = 8 };

/* Ways through the blocks from where a value is made: which registers hold it, and has what makes it
 * doubtful been passed? The holders are the port's register and those it is set from. */
typedef struct tour {
    const tpi_flow *w;
    const tpi_form *f;
    const tpi_doubt *d;
    int target;
    int n_holders;
    int32_t holder[MOST_HOLDERS], var[MOST_HOLDERS]; /* var: of age 0 there; -1 */
    tpi_bits *seen;
    int32_t *list; /* states that were reached */
    int n;
} tour;

static int var_of(const tpi_flow *w, int reg, int *age)
{
    for (int i = 0; i < w->n_vars; i++) {
        *age = reg - w->vars[i].reg;
        if (*age >= 0 && *age <= w->vars[i].age)
            return i;
    }
    return -1;
}

static void add_holder(tour *t, int reg)
{
    int age;
    for (int i = 0; i < t->n_holders; i++)
        if (t->holder[i] == reg)
            return;
    if (t->n_holders == MOST_HOLDERS)
        return; /* sources of sets are fewer */
    const int var = var_of(t->w, reg, &age);
    t->holder[t->n_holders] = reg;
    t->var[t->n_holders++] = var >= 0 && age == 0 ? var : -1;
    if (var >= 0 && age == 1)
        add_holder(t, t->w->vars[var].reg);
}

static void add_holders(tour *t, int reg)
{
    add_holder(t, reg);
    for (int i = 0; i < t->f->n_blocks; i++)
        for (int k = 0; k < t->f->bs->v[i].n_sets; k++)
            if (t->f->bs->v[i].sets[k].to == reg)
                add_holder(t, t->f->bs->v[i].sets[k].from);
}

static int holder_at(const tour *t, int reg)
{
    for (int i = 0; i < t->n_holders; i++)
        if (t->holder[i] == reg)
            return i;
    return -1;
}

/* Who holds it behind node k of a block; `made`: that node makes it. */
static unsigned pass_maker(const tour *t, int node, unsigned held, bool made)
{
    unsigned now = held;
    for (int i = 0; i < t->n_holders; i++) {
        const bool follows = t->var[i] >= 0 && tpi_var_follows(&t->w->vars[t->var[i]], node);
        const int older = follows ? holder_at(t, t->holder[i] + 1) : -1;
        if (older >= 0 && t->w->vars[t->var[i]].age)
            now = (now & ~(1u << older)) | (held >> i & 1) << older;
        if (follows || t->f->bs->node_reg[node] == t->holder[i])
            now = (now & ~(1u << i)) | (unsigned)made << i;
    }
    return now;
}

static unsigned pass_places(const tour *t, int block, int from, unsigned held)
{
    const tpi_basic_block *b = &t->f->bs->v[block];
    for (int k = from; k < b->n_nodes; k++)
        if (t->w->nodes[b->nodes[k]].kind == TPI_STEP_OP)
            held = pass_maker(t, b->nodes[k], held, false);
    return held;
}

static void visit(tour *t, int block, bool passed, unsigned held)
{
    const int state = ((block << t->n_holders) + (int)held) * 2 + passed;
    if (!held || tpi_bit_has(t->seen, state))
        return;
    tpi_bit_add(t->seen, state);
    t->list[t->n++] = state;
}

static void go_on(tour *t, int block, bool passed, unsigned held)
{
    for (int e = 0; e < t->f->n_ways[block]; e++) {
        const tpi_form_way *x = &t->f->ways[block][e];
        const tpi_basic_block *b = &t->f->bs->v[x->block];
        unsigned now = held;
        for (int k = 0; k < b->n_sets; k++) {
            const int to = holder_at(t, b->sets[k].to), from = holder_at(t, b->sets[k].from);
            if (b->sets[k].edge == x->edge && to >= 0)
                now = (now & ~(1u << to)) | (from >= 0 ? held >> from & 1 : 0) << to;
        }
        const bool here = t->d->block == x->block && t->d->edge == x->edge;
        visit(t, x->to, passed || here, now);
    }
}

static void set_out(tour *t)
{
    const tpi_flow *w = t->w;
    if (t->d->made >= 0) {
        const tpi_node *n = &w->nodes[t->d->made];
        const unsigned held = pass_maker(t, t->d->made, 0, true);
        go_on(t, n->block, false, pass_places(t, n->block, n->place + 1, held));
        return;
    }
    unsigned held = 0;
    for (int i = 0; i < t->n_holders; i++) {
        const tpi_reg *r = &t->f->bs->regs[t->holder[i]];
        held |= (unsigned)(r->ext >= 0 || r->init >= 0) << i;
    }
    visit(t, w->nodes[w->nodes[TPI_ENTRY_NODE].edges[0].to].block, false, held);
}

static bool may_happen(tour *t)
{
    set_out(t);
    for (int done = 0; done < t->n; done++) {
        const int state = t->list[done] / 2, block = state >> t->n_holders;
        const bool passed = t->list[done] % 2;
        const unsigned held = (unsigned)state & ((1u << t->n_holders) - 1);
        if (block == t->target && passed && held & 1)
            return true;
        go_on(t, block, passed || (t->d->block == block && t->d->edge < 0),
              pass_places(t, block, 0, held));
    }
    return false;
}

/* Is what makes it doubtful the stand-in's value from then on? */
static bool is_made_by(const tpi_flow *w, const tpi_form *f, int reg, const tpi_doubt *d)
{
    int age;
    const int var = reg < 0 ? -1 : var_of(w, reg, &age);
    const tpi_basic_block *b = &f->bs->v[d->block];
    bool made = false;
    for (int k = 0; k < b->n_nodes && var >= 0 && d->edge < 0; k++)
        made |= tpi_var_follows(&w->vars[var], b->nodes[k]);
    return made;
}

tpi_doubtful tpi_form_doubtful(tpi_flow *w, const tpi_form *f, int block, const tpi_port *p)
{
    tour t = {.w = w, .f = f, .target = block};
    add_holders(&t, p->reg);
    const size_t states = (size_t)f->n_blocks << (t.n_holders + 1),
                 bytes = (size_t)tpi_bit_words((int)states) * sizeof(tpi_bits);
    tpi_doubtful found = TPI_NO_DOUBT;
    t.seen = tpi_take(f->mem, bytes);
    t.list = tpi_take(f->mem, states * sizeof *t.list);
    if (!t.seen || !t.list)
        found = TPI_NOT_FOUND;
    for (int i = 0; i < p->n_doubts && found < TPI_AS_IT_IS; i++) {
        t.d = &p->doubts[i];
        t.n = 0;
        memset(t.seen, 0, bytes);
        if (may_happen(&t))
            found = is_made_by(w, f, p->alt, t.d) ? TPI_STAND_IN : TPI_AS_IT_IS;
    }
    tpi_give_back(f->mem, t.seen, bytes);
    tpi_give_back(f->mem, t.list, states * sizeof *t.list);
    return found;
}
