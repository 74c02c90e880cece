/* What is drawn: a box per op, with the weights and constants it reads as lines within, so that
 * the flow of data stays in sight. The places come from layout.c. */
#include "page.h"

#include "layout.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_HEIGHT = 14, LONGEST = 46, MOST_BOXES = 20000, MOST_LINES = 9 };
static const double char_width = 6.7; /* of the font below, 11 px */

typedef struct drawing {
    const page *p;
    bool *part; /* of nodes: is drawn within its readers */
    int n;      /* boxes */
    box *boxes;
    int *node;   /* box -> node; of the box of an output: its node */
    int *box_of; /* node -> box; -1: part of others */
    int *operands;
    layout l;
} drawing;

static const char head[] =
    "<style>\n"
    "body{margin:0;font:13px "
    "sans-serif;color:#222;background:#fafafa;display:flex;height:100vh}\n"
    "#facts{width:300px;padding:14px;overflow:auto;border-right:1px solid #ddd;background:#fff;"
    "box-sizing:border-box;flex:none}\n"
    "#facts h1{font-size:15px;margin:0 0 10px;overflow-wrap:anywhere}\n"
    "#facts dt{color:#777;margin-top:8px}#facts dd{margin:0;white-space:pre-wrap;"
    "overflow-wrap:anywhere}\n"
    "#find{width:100%;box-sizing:border-box;padding:5px;margin-top:12px}\n"
    "#about{white-space:pre-wrap;font:11px monospace;margin-top:12px;overflow-wrap:anywhere}\n"
    "#view{flex:1;overflow:hidden;cursor:grab}svg{width:100%;height:100%}\n"
    "svg text{font:11px monospace;fill:#222}svg .op{font-weight:bold}svg .dim{fill:#777}\n"
    "svg rect{stroke:#888}svg path{fill:none;stroke:#999}\n"
    "g.found rect{stroke:#d00;stroke-width:3}g.chosen rect{stroke:#000;stroke-width:2}\n"
    "@media print{#facts{display:none}}\n"
    "</style>\n";

static const char script[] =
    "<script>\n"
    "const "
    "s=document.querySelector('svg'),v=s.viewBox.baseVal,boxes=s.querySelectorAll('g.b');\n"
    "const about=document.getElementById('about');let from=null;\n"
    "function fit(){const r=s.getBoundingClientRect(),w=+s.dataset.w;\n"
    " v.width=Math.max(w,Math.min(r.width,2*w));v.height=v.width*r.height/r.width;"
    "v.x=(w-v.width)/2;v.y=0;}\n"
    "s.addEventListener('wheel',e=>{e.preventDefault();const r=s.getBoundingClientRect();\n"
    " const "
    "k=Math.exp(e.deltaY*0.0015),fx=(e.clientX-r.left)/r.width,fy=(e.clientY-r.top)/r.height;\n"
    " v.x+=v.width*fx*(1-k);v.y+=v.height*fy*(1-k);v.width*=k;v.height*=k;},{passive:false});\n"
    "s.addEventListener('mousedown',e=>{from=[e.clientX,e.clientY,v.x,v.y];});\n"
    "addEventListener('mousemove',e=>{if(!from)return;const "
    "k=v.width/s.getBoundingClientRect().width;\n"
    " v.x=from[2]-(e.clientX-from[0])*k;v.y=from[3]-(e.clientY-from[1])*k;});\n"
    "addEventListener('mouseup',()=>{from=null;});addEventListener('resize',fit);fit();\n"
    "for(const g of boxes)g.addEventListener('click',()=>{\n"
    " for(const o of boxes)o.classList.toggle('chosen',o===g);\n"
    " about.textContent=g.querySelector('title').textContent;});\n"
    "document.getElementById('find').addEventListener('input',e=>{\n"
    " const q=e.target.value.toLowerCase();let first=null;\n"
    " for(const g of boxes){const hit=q&&g.querySelector('title').textContent.toLowerCase()"
    ".includes(q);\n"
    "  g.classList.toggle('found',!!hit);if(hit&&!first)first=g;}\n"
    " if(first){const "
    "b=first.getBBox();v.x=b.x+b.width/2-v.width/2;v.y=b.y+b.height/2-v.height/2;}\n"
    "});\n"
    "</script>\n";

/* ---- lines of a box ------------------------------------------------------------------------------ */

static bool is_value(const ir_node *n)
{
    return n->cell >= 0 || n->value;
}

/* Weights, constants, and what only moves one of them: a bias that is reshaped. */
static void find_parts(drawing *d)
{
    static const char *const moves[] = {"reshape", "transpose", "broadcast"};
    for (int i = 0; i < d->p->v->n_nodes; i++) {
        const ir_node *n = &d->p->v->nodes[i];
        d->part[i] = is_value(n);
        for (size_t k = 0; k < sizeof moves / sizeof *moves && n->n_in == 1; k++)
            d->part[i] |= d->part[n->in[0]] && strcmp(n->op, moves[k]) == 0;
    }
    for (int i = 0; i < d->p->n_out; i++) { /* an output is seen */
        const ir_node *n = ir_find(d->p->v, d->p->out[i]);
        if (n && !is_value(n))
            d->part[n - d->p->v->nodes] = false;
    }
}

static const char *colour_of(const ir_node *n)
{
    static const char *const heavy[] = {"matmul", "conv", "conv_dx", "conv_dw"};
    static const char *const moves[] = {"reshape", "transpose", "broadcast", "slice", "flip",
                                        "copy",    "pad",       "concat",    "gather"};
    for (size_t i = 0; i < sizeof heavy / sizeof *heavy; i++)
        if (strcmp(n->op, heavy[i]) == 0)
            return "#ffd8a8";
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        if (strcmp(n->op, moves[i]) == 0)
            return "#e9ecef";
    if (strcmp(n->op, "placeholder") == 0)
        return "#a5d8ff";
    return strcmp(n->op, "assign") == 0 ? "#ffc9c9" : "#ffffff";
}

typedef struct lines {
    int n;
    char text[MOST_LINES][200];
} lines;

static const char ellipsis[] = "\xe2\x80\xa6";

static void add_line(lines *l, const char *fmt, ...) CLI_PRINTF(2, 3);
static void add_line(lines *l, const char *fmt, ...)
{
    if (l->n == MOST_LINES)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(l->text[l->n], sizeof l->text[0], fmt, ap);
    va_end(ap);
    char *text = l->text[l->n++];
    int shown = 0;
    for (char *p = text; *p; p++) { /* cut between characters */
        shown += ((unsigned char)*p & 0xc0) != 0x80;
        if (shown > LONGEST) {
            memcpy(p, ellipsis, sizeof ellipsis);
            break;
        }
    }
    if (l->n == MOST_LINES)
        memcpy(text, ellipsis, sizeof ellipsis);
}

/* Broken where they fit. */
static void add_attrs(lines *l, const char *attrs)
{
    enum { FITS = 40 };
    for (const char *p = attrs, *end; *p; p = end + strspn(end, ", ")) {
        end = p;
        do { /* one more: up to the comma behind its list */
            end += strspn(end, ", ");
            end += strcspn(end, "[,");
            end += *end == '[' ? strcspn(end, "]") + 1 : 0;
        } while (*end && end - p < FITS - 12);
        add_line(l, "%.*s", (int)(end - p), p);
    }
}

static void add_part(lines *l, const ir *v, int operand, const ir_node *n)
{
    char moves[80] = "";
    const ir_node *x = n;
    for (; !is_value(x); x = &v->nodes[x->in[0]]) {
        const size_t used = strlen(moves);
        snprintf(moves + used, sizeof moves - used, "%s ", x->op);
    }
    const char *name = x->cell >= 0 ? v->cells[x->cell].name : x->name;
    if (x->value && *x->value != '#')
        add_line(l, "%d: %s%s", operand, moves, x->value);
    else
        add_line(l, "%d: %s%s %s[%s]", operand, moves,
                 name           ? name
                 : x->cell >= 0 ? "variable"
                                : "constant",
                 n->dtype, n->dims);
}

/* The op, the name, what it reads of weights and constants, attributes, the type. */
static void lines_of(const drawing *d, const ir_node *n, lines *l)
{
    const ir *v = d->p->v;
    l->n = 0;
    add_line(l, "%s", strcmp(n->op, "placeholder") == 0 ? "input" : n->op);
    if (n->name)
        add_line(l, "%s", n->name);
    add_attrs(l, n->attrs);
    for (int k = 0; k < n->n_in; k++)
        if (d->part[n->in[k]])
            add_part(l, v, k, &v->nodes[n->in[k]]);
    add_line(l, "%s[%s]", n->dtype, n->dims);
}

static double width_of(const lines *l)
{
    int longest = 4;
    for (int i = 0; i < l->n; i++) {
        int n = 0;
        for (const char *p = l->text[i]; *p; p++)
            n += ((unsigned char)*p & 0xc0) != 0x80;
        longest = n > longest ? n : longest;
    }
    return longest * char_width + 16;
}

/* ---- boxes ------------------------------------------------------------------------------------------ */

static bool make_boxes(drawing *d)
{
    const ir *v = d->p->v;
    size_t n_operands = (size_t)d->p->n_out + 1;
    for (int i = 0; i < v->n_nodes; i++)
        n_operands += (size_t)v->nodes[i].n_in;
    const size_t room = (size_t)v->n_nodes + (size_t)d->p->n_out + 1;
    d->boxes = calloc(room, sizeof *d->boxes);
    d->node = calloc(room, sizeof *d->node);
    d->box_of = calloc(room, sizeof *d->box_of);
    d->part = calloc(room, sizeof *d->part);
    d->operands = calloc(n_operands, sizeof *d->operands);
    if (!d->boxes || !d->node || !d->box_of || !d->part || !d->operands)
        return false;
    find_parts(d);
    int *p = d->operands;
    for (int i = 0; i < v->n_nodes; i++) {
        const ir_node *n = &v->nodes[i];
        d->box_of[i] = -1;
        if (d->part[i])
            continue;
        lines l;
        lines_of(d, n, &l);
        box *b = &d->boxes[d->n];
        *b = (box){.width = width_of(&l), .height = l.n * LINE_HEIGHT + 8, .in = p};
        b->late = strcmp(n->op, "placeholder") != 0;
        for (int k = 0; k < n->n_in; k++)
            if (!d->part[n->in[k]]) {
                *p++ = d->box_of[n->in[k]];
                b->late &= d->boxes[p[-1]].late;
                b->n_in++;
            }
        d->box_of[i] = d->n;
        d->node[d->n++] = i;
    }
    for (int i = 0; i < d->p->n_out; i++) {
        const ir_node *n = ir_find(v, d->p->out[i]);
        if (!n || is_value(n))
            continue;
        d->boxes[d->n] =
            (box){.width = 8 * char_width + 16, .height = LINE_HEIGHT + 8, .in = p, .n_in = 1};
        d->node[d->n++] = (int)(n - v->nodes);
        *p++ = d->box_of[n - v->nodes];
    }
    return true;
}

static bool is_output(const drawing *d, int i)
{
    return d->box_of[d->node[i]] != i;
}

static void put_box(const drawing *d, int i)
{
    const box *b = &d->boxes[i];
    const ir *v = d->p->v;
    const ir_node *n = &v->nodes[d->node[i]];
    const bool output = is_output(d, i);
    lines l = {.n = 1, .text = {"output"}};
    if (!output)
        lines_of(d, n, &l);
    printf("<g class=\"b\"><title>%%%d ", d->node[i]);
    put_html_text(stdout, n->name ? n->name : "");
    printf("\n%s", n->op);
    for (int k = 0; k < n->n_in; k++)
        printf("%s%%%d", k ? ", " : " ", n->in[k]);
    printf("\n");
    put_html_text(stdout, n->attrs);
    printf("\n%s[", n->dtype);
    put_html_text(stdout, n->dims);
    printf("]\n");
    put_html_text(stdout, n->place);
    printf("</title><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%d\" "
           "fill=\"%s\"/>",
           b->x - b->width / 2, b->y, b->width, b->height,
           output || strcmp(n->op, "placeholder") == 0 ? 11 : 3,
           output ? "#b2f2bb" : colour_of(n));
    for (int k = 0; k < l.n; k++) {
        printf("<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">",
               k == 0         ? "op"
               : k == l.n - 1 ? "dim"
                              : "",
               b->x - b->width / 2 + 8, b->y + LINE_HEIGHT * (k + 1));
        put_html_text(stdout, l.text[k]);
        printf("</text>");
    }
    printf("</g>\n");
}

/* A curve that leaves and arrives straight down. */
static void put_curve(double x, double y, double to_x, double to_y)
{
    const double bend = (to_y - y) / 2;
    printf("C%.1f %.1f %.1f %.1f %.1f %.1f", x, y + bend, to_x, to_y - bend, to_x, to_y);
}

/* From the lower edge of `from`, through the points above `to`. Readers share the way: the
 * part that an earlier reader has drawn is drawn again, at the same place. */
static void put_edge(const drawing *d, int from, int to)
{
    const box *a = &d->boxes[from], *b = &d->boxes[to];
    double x = a->x, y = a->y + a->height;
    printf("<path d=\"M%.1f %.1f", x, y);
    for (int p = a->first; p >= 0 && p < d->l.n_points; p++) {
        const waypoint *w = &d->l.points[p];
        if (w->of != from || w->y + w->height > b->y)
            break;
        put_curve(x, y, w->x, w->y);
        printf("V%.1f", w->y + w->height);
        x = w->x;
        y = w->y + w->height;
    }
    put_curve(x, y, b->x, b->y);
    printf("\" marker-end=\"url(#tip)\"/>\n");
}

static void put_drawing(const drawing *d)
{
    printf("<div id=\"view\"><svg xmlns=\"http://www.w3.org/2000/svg\" data-w=\"%.0f\" "
           "viewBox=\"0 0 %.0f %.0f\">\n<defs><marker id=\"tip\" markerWidth=\"8\" "
           "markerHeight=\"8\" refX=\"7\" refY=\"4\" orient=\"auto\"><path d=\"M0 1L7 4L0 7z\" "
           "style=\"fill:#777;stroke:none\"/></marker></defs>\n",
           d->l.width, d->l.width, d->l.height);
    for (int i = 0; i < d->n; i++)
        for (int k = 0; k < d->boxes[i].n_in; k++)
            put_edge(d, d->boxes[i].in[k], i);
    for (int i = 0; i < d->n; i++)
        put_box(d, i);
    printf("</svg></div>\n");
}

static void put_page(const drawing *d)
{
    const page *p = d->p;
    printf("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>");
    put_html_text(stdout, p->title);
    printf("</title>\n%s</head><body>\n<div id=\"facts\"><h1>", head);
    put_html_text(stdout, p->title);
    printf("</h1><dl>\n");
    for (int i = 0; i < p->n_facts; i++) {
        printf("<dt>%s</dt><dd>", p->facts[i][0]);
        put_html_text(stdout, p->facts[i][1]);
        printf("</dd>\n");
    }
    printf("</dl><input id=\"find\" placeholder=\"find a name, an op, a size\">"
           "<div id=\"about\">wheel: zoom, drag: move, click: details</div></div>\n");
    put_drawing(d);
    printf("%s</body></html>\n", script);
}

int page_write(const page *p)
{
    drawing d = {.p = p};
    int status = CLI_GOOD;
    if (p->v->n_nodes > MOST_BOXES)
        status = cli_refuse(p->title, "%d nodes are too many to be drawn; --format dot or json",
                            p->v->n_nodes);
    else if (!make_boxes(&d) || !layout_boxes(&d.l, d.n, d.boxes))
        status = cli_no_memory();
    else
        put_page(&d);
    layout_free(&d.l);
    free(d.boxes);
    free(d.node);
    free(d.box_of);
    free(d.part);
    free(d.operands);
    return status;
}
