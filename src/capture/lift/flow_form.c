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
            (tpi_form_way){b->edges[e].to, b->edges[e].back, i, e, -1};
    f->n_ways[i] = 2;
    if (b->n_edges == 2)
        return true;
    const int missing = b->edges[0].seen[0] ? 1 : 0;
    const tpi_basic_block *twin = find_twin(w, f, i, 0);
    for (int e = 0; twin && e < 2; e++)
        if (twin->edges[e].seen[0] != b->edges[0].seen[0]) {
            f->ways[i][missing] =
                (tpi_form_way){twin->edges[e].to, false, (int32_t)(twin - f->bs->v), e, i};
            return true;
        }
    if (f->open) {
        f->ways[i][0] = f->ways[i][!missing];
        f->n_ways[i] = 1;
        return true;
    }
    return refuse(f, w, i, tpi_never_seen(missing == 0));
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
            f->ways[i][0] = (tpi_form_way){b->edges[0].to, b->edges[0].back, i, 0, -1};
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

/* What the register becomes on an edge of a block. */
static int set_on(const tpi_form *f, int block, int edge, int reg)
{
    const tpi_basic_block *b = &f->bs->v[block];
    int from = reg;
    for (int i = 0; i < b->n_sets; i++)
        if (b->sets[i].edge == edge && b->sets[i].to == reg &&
            !(b->sets[i].from < 0 && f->calm))
            from = b->sets[i].from;
    return from;
}

int tpi_form_from(const tpi_form *f, const tpi_form_way *x, int reg)
{
    const int from = set_on(f, x->block, x->edge, reg);
    const int first = f->bs->first_phi, behind = first + f->bs->n_phi_regs;
    if (x->guard < 0 || from < behind)
        return from;
    /* A node of the turn made it: before the first turn it is what that would begin with in its place. */
    for (int i = first; i < behind; i++)
        if (set_on(f, x->block, !x->edge, i) == from)
            return set_on(f, x->guard, 0, i);
    return -1;
}

/* What is read behind a way, before what is set on it is set. */
static void pass_way(const tpi_form *f, const tpi_form_way *x, tpi_bits *live)
{
    const tpi_bits *next = row(f->live, x->to, f->bs->n_regs);
    for (int i = 0; i < f->bs->n_regs; i++) {
        const int from = tpi_bit_has(next, i) ? tpi_form_from(f, x, i) : -1;
        if (from >= 0)
            tpi_bit_add(live, from);
    }
}

/* Backwards over a block: what its nodes make is not read before, what they read is. */
static void pass_block(const tpi_flow *w, const tpi_form *f, int i, tpi_bits *live)
{
    const tpi_basic_block *b = &f->bs->v[i];
    for (int e = 0; e < f->n_ways[i]; e++)
        pass_way(f, &f->ways[i][e], live);
    for (int k = b->n_nodes; k-- > 0;) {
        const tpi_node *n = &w->nodes[b->nodes[k]];
        if (n->kind == TPI_STEP_OP)
            tpi_bit_drop(live, f->bs->node_reg[b->nodes[k]]);
        for (int x = 0; x < n->n_in; x++)
            tpi_bit_add(live, tpi_block_reg(f->bs, w, n->in[x].source));
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
