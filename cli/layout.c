/* Four steps. A box's layer is one below the lowest it has a line from. A value read further down
 * gets a point in each layer on its way, shared by all its readers. Items of a layer are
 * ordered, in sweeps down and up, by the mean place of their neighbours. Then each wants to be
 * where its neighbours are on average, and those of a layer are moved apart as little as can be
 * (least squares under an order: neighbours that would overlap are pooled). */
#include "layout.h"

#include <stdlib.h>

enum { SWEEPS = 10, SHIFTS = 60 };
static const double gap_x = 18, gap_y = 26, margin = 20, point_width = 6;

typedef struct item { /* a box or a point */
    double width, x, wish;
    int layer, n_up, n_down;
    int *up, *down; /* items of the neighbouring layers */
} item;

typedef struct pool { /* items of a layer that stand side by side */
    int first;
    double sum, weight; /* of their wishes */
} pool;

typedef struct work {
    int n_boxes, n_items, n_layers;
    box *boxes;
    item *items;
    int *lines;  /* memory of up and down */
    int *order;  /* items by layer */
    int *start;  /* order[start[l]] .. order[start[l + 1]) */
    double *key; /* of items, when they are sorted */
    pool *pools; /* room for one layer */
} work;

/* ---- layers ------------------------------------------------------------------------------------- */

/* near[i] is -1 at first, and in the end the layer of the last reader. */
static void find_layers(work *w, int *near)
{
    for (int i = 0; i < w->n_boxes; i++) {
        item *t = &w->items[i];
        for (int k = 0; k < w->boxes[i].n_in; k++) {
            const int above = w->items[w->boxes[i].in[k]].layer + 1;
            t->layer = above > t->layer ? above : t->layer;
        }
    }
    for (int i = w->n_boxes - 1; i >= 0;
         i--) { /* what starts a line stands near its first reader */
        const box *b = &w->boxes[i];
        item *t = &w->items[i];
        if ((b->n_in == 0 || b->late) && near[i] > 0)
            t->layer = near[i] - 1;
        for (int k = 0; k < b->n_in; k++) {
            int *first = &near[b->in[k]];
            *first = *first < 0 || t->layer < *first ? t->layer : *first;
        }
    }
    for (int i = 0; i < w->n_boxes; i++)
        near[i] = -1;
    for (int i = 0; i < w->n_boxes; i++)
        for (int k = 0; k < w->boxes[i].n_in; k++) {
            int *last = &near[w->boxes[i].in[k]];
            *last = w->items[i].layer > *last ? w->items[i].layer : *last;
        }
}

/* Items of the points of every box; their number. */
static int count_points(const work *w, const int *last)
{
    int n = 0;
    for (int i = 0; i < w->n_boxes; i++)
        if (last[i] > w->items[i].layer + 1)
            n += last[i] - w->items[i].layer - 1;
    return n;
}

static void make_points(work *w, layout *l, const int *last)
{
    int at = 0;
    for (int i = 0; i < w->n_boxes; i++) {
        w->boxes[i].first = -1;
        for (int layer = w->items[i].layer + 1; layer < last[i]; layer++) {
            if (w->boxes[i].first < 0)
                w->boxes[i].first = at;
            l->points[at] = (waypoint){.of = i};
            w->items[w->n_boxes + at] = (item){.width = point_width, .layer = layer};
            at++;
        }
    }
}

/* The item that box i's line to a reader in `layer` comes from last. */
static int source_item(const work *w, int i, int layer)
{
    const int steps = layer - w->items[i].layer - 1;
    return steps > 0 ? w->n_boxes + w->boxes[i].first + steps - 1 : i;
}

/* Calls for each line between neighbouring layers: counts, or fills in when there is room. */
static void add_line(work *w, int from, int to, bool fill)
{
    item *a = &w->items[from], *b = &w->items[to];
    if (fill) {
        a->down[a->n_down] = to;
        b->up[b->n_up] = from;
    }
    a->n_down++;
    b->n_up++;
}

static void add_lines(work *w, const layout *l, bool fill)
{
    for (int p = 0; p < l->n_points; p++) {
        const int of = l->points[p].of;
        const bool first = w->boxes[of].first == p;
        add_line(w, first ? of : w->n_boxes + p - 1, w->n_boxes + p, fill);
    }
    for (int i = 0; i < w->n_boxes; i++)
        for (int k = 0; k < w->boxes[i].n_in; k++)
            add_line(w, source_item(w, w->boxes[i].in[k], w->items[i].layer), i, fill);
}

static bool connect(work *w, const layout *l)
{
    add_lines(w, l, false);
    size_t n = 1;
    for (int i = 0; i < w->n_items; i++)
        n += (size_t)w->items[i].n_up + (size_t)w->items[i].n_down;
    w->lines = malloc(n * sizeof *w->lines);
    if (!w->lines)
        return false;
    int *p = w->lines;
    for (int i = 0; i < w->n_items; i++) {
        item *t = &w->items[i];
        t->up = p;
        t->down = p += t->n_up;
        p += t->n_down;
        t->n_up = t->n_down = 0;
    }
    add_lines(w, l, true);
    return true;
}

static bool fill_layers(work *w)
{
    for (int i = 0; i < w->n_items; i++)
        w->n_layers = w->items[i].layer >= w->n_layers ? w->items[i].layer + 1 : w->n_layers;
    w->start = calloc((size_t)w->n_layers + 2, sizeof *w->start);
    if (!w->start)
        return false;
    for (int i = 0; i < w->n_items; i++)
        w->start[w->items[i].layer + 2]++;
    for (int k = 2; k < w->n_layers + 2; k++)
        w->start[k] += w->start[k - 1];
    for (int i = 0; i < w->n_items; i++) /* moves each start on to the next one's place */
        w->order[w->start[w->items[i].layer + 1]++] = i;
    return true;
}

/* ---- order ----------------------------------------------------------------------------------------- */

static void sort_layer(work *w, int layer)
{
    int *v = w->order + w->start[layer];
    const int n = w->start[layer + 1] - w->start[layer];
    for (int i = 1; i < n; i++) { /* stable, and layers are nearly sorted */
        const int t = v[i];
        int k = i;
        for (; k > 0 && w->key[v[k - 1]] > w->key[t]; k--)
            v[k] = v[k - 1];
        v[k] = t;
    }
}

static void number_layer(work *w, int layer)
{
    for (int i = w->start[layer]; i < w->start[layer + 1]; i++)
        w->items[w->order[i]].x = i - w->start[layer];
}

static void order_layer(work *w, int layer, bool down)
{
    for (int i = w->start[layer]; i < w->start[layer + 1]; i++) {
        const item *t = &w->items[w->order[i]];
        const int n = down ? t->n_up : t->n_down, *near = down ? t->up : t->down;
        double sum = 0;
        for (int k = 0; k < n; k++)
            sum += w->items[near[k]].x;
        w->key[w->order[i]] = n ? sum / n : t->x;
    }
    sort_layer(w, layer);
    number_layer(w, layer);
}

static void find_order(work *w)
{
    for (int layer = 0; layer < w->n_layers; layer++)
        number_layer(w, layer);
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        const bool down = sweep % 2 == 0;
        for (int i = 1; i < w->n_layers; i++)
            order_layer(w, down ? i : w->n_layers - 1 - i, down);
    }
}

/* ---- places ----------------------------------------------------------------------------------------- */

/* Lines that run through points are to be straight, so they pull harder. */
static double weight_of(const work *w, int i)
{
    return i < w->n_boxes ? 1 : 4;
}

/* The places nearest to the wishes at which nothing overlaps: with the distances taken off, places
 * have to rise; runs of items that would fall share the mean of their wishes. */
static void place_layer(work *w, int layer)
{
    const int *v = w->order + w->start[layer];
    const int n = w->start[layer + 1] - w->start[layer];
    double *const off = w->key;
    double at = 0;
    for (int i = 0; i < n; i++) {
        off[i] = at;
        at += w->items[v[i]].width / 2 + gap_x;
        at += i + 1 < n ? w->items[v[i + 1]].width / 2 : 0;
    }
    int n_pools = 0;
    for (int i = 0; i < n; i++) {
        const double weight = weight_of(w, v[i]);
        pool *p = &w->pools[n_pools++];
        *p = (pool){i, weight * (w->items[v[i]].wish - off[i]), weight};
        for (; n_pools > 1 && p[-1].sum / p[-1].weight > p->sum / p->weight; n_pools--, p--) {
            p[-1].sum += p->sum;
            p[-1].weight += p->weight;
        }
    }
    for (int p = 0; p < n_pools; p++) {
        const int end = p + 1 < n_pools ? w->pools[p + 1].first : n;
        for (int k = w->pools[p].first; k < end; k++)
            w->items[v[k]].x = w->pools[p].sum / w->pools[p].weight + off[k];
    }
}

static void find_places(work *w)
{
    for (int layer = 0; layer < w->n_layers; layer++) {
        double at = 0;
        for (int i = w->start[layer]; i < w->start[layer + 1]; i++) {
            item *t = &w->items[w->order[i]];
            t->x = at + t->width / 2;
            at += t->width + gap_x;
        }
    }
    for (int shift = 0; shift < SHIFTS; shift++) {
        const bool down = shift % 2 == 0;
        for (int l = 0; l < w->n_layers; l++) {
            const int layer = down ? l : w->n_layers - 1 - l;
            for (int i = w->start[layer]; i < w->start[layer + 1]; i++) {
                item *t = &w->items[w->order[i]];
                const bool use_up = (down && t->n_up) || !t->n_down;
                const int n = use_up ? t->n_up : t->n_down, *near = use_up ? t->up : t->down;
                double sum = 0;
                for (int k = 0; k < n; k++)
                    sum += w->items[near[k]].x;
                t->wish = n ? sum / n : t->x;
            }
            place_layer(w, layer);
        }
    }
}

static void hand_over(const work *w, layout *l)
{
    double left = 0, right = 0, y = margin;
    for (int i = 0; i < w->n_items; i++) {
        const item *t = &w->items[i];
        left = i == 0 || t->x - t->width / 2 < left ? t->x - t->width / 2 : left;
        right = i == 0 || t->x + t->width / 2 > right ? t->x + t->width / 2 : right;
    }
    for (int layer = 0; layer < w->n_layers; layer++) {
        double height = 0;
        for (int i = w->start[layer]; i < w->start[layer + 1]; i++)
            if (w->order[i] < w->n_boxes && w->boxes[w->order[i]].height > height)
                height = w->boxes[w->order[i]].height;
        for (int i = w->start[layer]; i < w->start[layer + 1]; i++) {
            const int k = w->order[i];
            const double x = w->items[k].x - left + margin;
            if (k < w->n_boxes) {
                w->boxes[k].x = x;
                w->boxes[k].y = y + (height - w->boxes[k].height) / 2;
            } else {
                l->points[k - w->n_boxes].x = x;
                l->points[k - w->n_boxes].y = y;
                l->points[k - w->n_boxes].height = height;
            }
        }
        y += height + gap_y;
    }
    l->width = right - left + 2 * margin;
    l->height = y - gap_y + margin;
}

bool layout_boxes(layout *l, int n, box *boxes)
{
    work w = {.n_boxes = n, .boxes = boxes, .items = calloc((size_t)n + 1, sizeof *w.items)};
    int *last = calloc((size_t)n + 1, sizeof *last);
    *l = (layout){0};
    bool ok = w.items && last;
    for (int i = 0; i < n && ok; i++) {
        w.items[i].width = boxes[i].width;
        last[i] = -1;
    }
    if (ok) {
        find_layers(&w, last);
        l->n_points = count_points(&w, last);
        w.n_items = n + l->n_points;
        const size_t room = (size_t)w.n_items + 1;
        item *items = realloc(w.items, room * sizeof *items);
        w.items = items ? items : w.items;
        l->points = malloc(room * sizeof *l->points);
        w.order = malloc(room * sizeof *w.order);
        w.key = malloc(room * sizeof *w.key);
        w.pools = malloc(room * sizeof *w.pools);
        ok = items && l->points && w.order && w.key && w.pools;
    }
    if (ok)
        make_points(&w, l, last);
    ok = ok && connect(&w, l) && fill_layers(&w);
    if (ok) {
        find_order(&w);
        find_places(&w);
        hand_over(&w, l);
    }
    free(last);
    free(w.items);
    free(w.lines);
    free(w.order);
    free(w.start);
    free(w.key);
    free(w.pools);
    return ok;
}

void layout_free(layout *l)
{
    free(l->points);
}
