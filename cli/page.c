/* What is drawn: a box per op, with the weights and constants it reads as lines within, so that
 * the flow of data stays in sight. The box of a block has drawings of its bodies within. The places
 * come from layout.c. */
#include "page.h"

#include "layout.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_HEIGHT = 14, LONGEST = 46, MOST_BOXES = 20000, MOST_LINES = 9 };
static const double char_width = 6.7; /* of the font below, 11 px */

typedef struct drawing { /* of a body, or of what is in none */
    const page *p;
    const ir_body *b;
    const struct drawing *outer; /* of what its block is in; NULL: none */
    bool *part;                  /* of nodes: is drawn within its readers */
    int n, n_nodes;              /* boxes; those of nodes, before those of results */
    box *boxes;
    int *node;   /* box -> node; of the box of a result: its node */
    int *box_of; /* node -> box; -1: part of others */
    int *operands;
    const char **result;   /* of the box of a result: its word */
    int *order;            /* and which of those of that word it is; -1: the only kind */
    struct drawing *inner; /* of the bodies of its blocks, in order */
    int n_inner;
    layout l;
    double x, y; /* of its left upper corner */
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
    "svg rect{stroke:#888}svg rect.body{stroke:#bbb;fill:#fafafa}"
    "svg path{fill:none;stroke:#999}\n"
    "g.found rect{stroke:#d00;stroke-width:3}g.chosen rect{stroke:#000;stroke-width:2}\n"
    "@media print{#facts{display:none}}\n"
    "</style>\n";

static const char script[] =
    "<script>\n"
    "const "
    "s=document.querySelector('svg'),v=s.viewBox.baseVal,boxes=s.querySelectorAll('g.b');\n"
    "const about=document.getElementById('about');let from=null,was=null;\n"
    /* All of it, where that can be read; otherwise the first box and what is around it. */
    "function begin(){was=s.getBoundingClientRect();const "
    "w=+s.dataset.w,most=1.25*was.width,all=w<=most;\n"
    " v.width=all?Math.max(w,Math.min(was.width,2*w)):most;"
    "v.height=v.width*was.height/was.width;\n"
    " const b=all||!boxes.length?{x:0,width:w}:boxes[0].getBBox();"
    "v.x=b.x+b.width/2-v.width/2;v.y=0;}\n"
    /* What is in the middle stays there, as large as it is. */
    "function resize(){const r=s.getBoundingClientRect(),k=v.width/was.width;\n"
    " if(!r.width||!r.height)return;v.x+=k*(was.width-r.width)/2;"
    "v.y+=k*(was.height-r.height)/2;\n v.width=k*r.width;v.height=k*r.height;was=r;}\n"
    "s.addEventListener('wheel',e=>{e.preventDefault();const r=s.getBoundingClientRect();\n"
    " const "
    "k=Math.exp(e.deltaY*0.0015),fx=(e.clientX-r.left)/r.width,fy=(e.clientY-r.top)/r.height;\n"
    " v.x+=v.width*fx*(1-k);v.y+=v.height*fy*(1-k);v.width*=k;v.height*=k;},{passive:false});\n"
    "s.addEventListener('mousedown',e=>{from=[e.clientX,e.clientY,v.x,v.y];});\n"
    "addEventListener('mousemove',e=>{if(!from)return;const "
    "k=v.width/s.getBoundingClientRect().width;\n"
    " v.x=from[2]-(e.clientX-from[0])*k;v.y=from[3]-(e.clientY-from[1])*k;});\n"
    "addEventListener('mouseup',()=>{from=null;});addEventListener('resize',resize);begin();\n"
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
    return n->is.value;
}

/* Weights, constants, what only moves one of them (a bias that is reshaped), and what a body takes
 * of them. */
static void find_parts(drawing *d)
{
    static const char *const moves[] = {"reshape", "transpose", "broadcast"};
    const ir_node *nodes = d->b->nodes;
    for (int i = 0; i < d->b->n_nodes; i++) {
        const ir_node *n = &nodes[i];
        d->part[i] = is_value(n);
        for (size_t k = 0; k < sizeof moves / sizeof *moves && n->is.n_operands == 1; k++)
            d->part[i] |= d->part[n->in[0]] && strcmp(n->is.op, moves[k]) == 0;
        if (n->is.takes && !*n->is.takes && n->is.from >= 0 && d->outer)
            d->part[i] = d->outer->part[n->is.from];
    }
    for (int i = 0; i < d->b->n_results; i++) /* a result is seen */
        d->part[d->b->results[i].node] = false;
    for (int i = 0; i < d->p->n_out && !d->outer; i++) {
        const ir_node *n = ir_find(d->p->v, d->p->out[i]);
        if (n && !is_value(n))
            d->part[n - nodes] = false;
    }
}

static bool is_input(const ir_node *n)
{
    return n->is.takes || strcmp(n->is.op, "placeholder") == 0;
}

static const char *colour_of(const ir_node *n)
{
    static const char *const heavy[] = {"matmul", "conv", "conv_dx", "conv_dw"};
    static const char *const moves[] = {"reshape", "transpose", "broadcast", "slice", "flip",
                                        "copy",    "pad",       "concat",    "gather"};
    for (size_t i = 0; i < sizeof heavy / sizeof *heavy; i++)
        if (strcmp(n->is.op, heavy[i]) == 0)
            return "#ffd8a8";
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        if (strcmp(n->is.op, moves[i]) == 0)
            return "#e9ecef";
    if (is_input(n))
        return n->is.takes ? "#d0ebff" : "#a5d8ff";
    if (n->is.n_bodies)
        return "#fff5f5";
    return strcmp(n->is.op, "assign") == 0 ? "#ffc9c9" : "#ffffff";
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
static void add_attrs(lines *l, const ir_node *n)
{
    enum { FITS = 28 };
    char line[200] = "";
    for (int k = 0; k < n->n_attrs; k++) {
        const size_t used = strlen(line);
        snprintf(line + used, sizeof line - used, "%s%s=%s", used ? ", " : "", n->attr[k].name,
                 n->attr[k].value);
        if (strlen(line) < FITS && k + 1 < n->n_attrs)
            continue;
        add_line(l, "%s", line);
        *line = 0;
    }
}

static void add_part(lines *l, const drawing *d, int operand, const ir_node *n)
{
    char moves[80] = "";
    const ir_node *x = n;
    while (!is_value(x)) {
        const size_t used = strlen(moves);
        if (x->is.takes) {
            d = d->outer;
            x = &d->b->nodes[x->is.from];
            continue;
        }
        snprintf(moves + used, sizeof moves - used, "%s ", x->is.op);
        x = &d->b->nodes[x->in[0]];
    }
    const char *name = x->value ? x->is.name : tp_name_of(x->is.value);
    if (x->value && *x->value != '#')
        add_line(l, "%d: %s%s", operand, moves, x->value);
    else
        add_line(l, "%d: %s%s %s[%s]", operand, moves,
                 name       ? name
                 : x->value ? "constant"
                            : "variable",
                 tp_dtype_name(n->is.dtype), n->dims);
}

/* "if"; "for n, while" */
static void add_block(lines *l, const ir_node *n)
{
    if (strcmp(n->is.op, "cond") == 0) {
        add_line(l, "if");
        return;
    }
    /* Those that are 0 or false are left out. */
    const char *count = ir_attr_of(n, "count");
    const bool pred = ir_attr_of(n, "pred"), fixed = ir_attr_of(n, "counted");
    add_line(l, "%s%s%s%s", fixed ? "for " : "",
             !fixed  ? ""
             : count ? count
                     : "0",
             ir_attr_of(n, "back") ? ", backwards"
             : fixed && pred       ? ", "
                                   : "",
             pred ? "while" : "");
    if (ir_attr_of(n, "checkpoint"))
        add_line(l, "checkpoint");
}

/* "carried 0" comes back as "carry 0"; else what it takes. */
static void add_param(lines *l, const drawing *d, const ir_node *n)
{
    const char *word = *n->is.takes ? n->is.takes : "captured";
    const ir_node *of = d->outer && n->is.from >= 0 ? &d->outer->b->nodes[n->is.from] : NULL;
    const int body = d->outer ? (int)(d->outer->b - d->p->v->bodies) : 0;
    if (strcmp(word, "carried") == 0)
        add_line(l, "%s %d", word, atoi(ir_attr_of(n, "index")) - 1);
    else if (of && of->is.name)
        add_line(l, "%s of %s", word, of->is.name);
    else if (of && body)
        add_line(l, "%s of %%%d.%d", word, body, n->is.from);
    else if (of)
        add_line(l, "%s of %%%d", word, n->is.from);
    else
        add_line(l, "%s", word);
}

/* The op, the name, what it reads of weights and constants, attributes, the type. */
static void lines_of(const drawing *d, const ir_node *n, lines *l)
{
    l->n = 0;
    if (n->is.n_bodies)
        add_block(l, n);
    else if (n->is.takes)
        add_param(l, d, n);
    else if (strcmp(n->is.op, "output") == 0)
        add_line(l, "output %s", ir_attr_of(n, "index"));
    else
        add_line(l, "%s", is_input(n) ? "input" : n->is.op);
    if (n->is.name)
        add_line(l, "%s", n->is.name);
    if (n->value)
        add_line(l, "%s", n->value);
    if (!n->is.n_bodies && !n->is.takes && strcmp(n->is.op, "output") != 0)
        add_attrs(l, n);
    for (int k = 0; k < n->is.n_operands; k++)
        if (d->part[n->in[k]])
            add_part(l, d, k, &d->b->nodes[n->in[k]]);
    if (!n->is.n_bodies)
        add_line(l, "%s[%s]", tp_dtype_name(n->is.dtype), n->dims);
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

static const double inner_gap = 8;

static bool make(drawing *d);

/* The drawings of a block's bodies stand side by side, below its lines. */
static bool make_inner(drawing *d, const ir_node *n, box *b)
{
    double width = inner_gap, height = 0;
    for (int k = 0; k < n->is.n_bodies; k++) {
        drawing *in = &d->inner[d->n_inner++];
        *in = (drawing){.p = d->p, .b = &d->p->v->bodies[n->body + k], .outer = d};
        if (!make(in))
            return false;
        width += in->l.width + inner_gap;
        height = in->l.height > height ? in->l.height : height;
    }
    b->width = width > b->width ? width : b->width;
    b->height += height + (double)LINE_HEIGHT + inner_gap;
    return true;
}

/* Of what comes out: a box below the node. */
static void make_result(drawing *d, int **operands, int node, const char *word, int order)
{
    d->result[d->n] = word;
    d->order[d->n] = order;
    d->boxes[d->n] = (box){
        .width = 8 * char_width + 16, .height = LINE_HEIGHT + 8, .in = *operands, .n_in = 1};
    d->node[d->n++] = node;
    *(*operands)++ = d->box_of[node];
}

static bool make_boxes(drawing *d)
{
    const ir_body *b = d->b;
    const size_t n_results = (size_t)b->n_results + (size_t)(d->outer ? 0 : d->p->n_out);
    const size_t room = (size_t)b->n_nodes + n_results + 1;
    size_t n_operands = n_results + 1, n_inner = 1;
    for (int i = 0; i < b->n_nodes; i++) {
        n_operands += (size_t)b->nodes[i].is.n_operands;
        n_inner += (size_t)b->nodes[i].is.n_bodies;
    }
    d->boxes = calloc(room, sizeof *d->boxes);
    d->node = calloc(room, sizeof *d->node);
    d->box_of = calloc(room, sizeof *d->box_of);
    d->part = calloc(room, sizeof *d->part);
    d->result = calloc(room, sizeof *d->result);
    d->order = calloc(room, sizeof *d->order);
    d->operands = calloc(n_operands, sizeof *d->operands);
    d->inner = calloc(n_inner, sizeof *d->inner);
    if (!d->boxes || !d->node || !d->box_of || !d->part || !d->result || !d->order ||
        !d->operands || !d->inner)
        return false;
    find_parts(d);
    int *p = d->operands;
    for (int i = 0; i < b->n_nodes; i++) {
        const ir_node *n = &b->nodes[i];
        d->box_of[i] = -1;
        if (d->part[i])
            continue;
        lines l;
        lines_of(d, n, &l);
        box *to = &d->boxes[d->n];
        *to = (box){.width = width_of(&l), .height = l.n * LINE_HEIGHT + 8, .in = p};
        to->late = !is_input(n);
        for (int k = 0; k < n->is.n_operands; k++)
            if (!d->part[n->in[k]]) {
                *p++ = d->box_of[n->in[k]];
                to->late &= d->boxes[p[-1]].late;
                to->n_in++;
            }
        if (n->is.n_bodies && !make_inner(d, n, to))
            return false;
        d->box_of[i] = d->n;
        d->node[d->n++] = i;
    }
    d->n_nodes = d->n;
    for (int i = 0, order = 0; i < b->n_results; i++) {
        const char *word = b->results[i].word;
        order = i && strcmp(word, b->results[i - 1].word) == 0 ? order + 1 : 0;
        make_result(d, &p, b->results[i].node, word, strcmp(word, "while") == 0 ? -1 : order);
    }
    for (int i = 0; i < d->p->n_out && !d->outer; i++) {
        const ir_node *n = ir_find(d->p->v, d->p->out[i]);
        if (n && !is_value(n))
            make_result(d, &p, (int)(n - b->nodes), "output", -1);
    }
    return true;
}

static bool make(drawing *d)
{
    return make_boxes(d) && layout_boxes(&d->l, d->n, d->boxes);
}

static void unmake(drawing *d)
{
    for (int i = 0; i < d->n_inner; i++)
        unmake(&d->inner[i]);
    layout_free(&d->l);
    free(d->boxes);
    free(d->node);
    free(d->box_of);
    free(d->part);
    free(d->result);
    free(d->order);
    free(d->operands);
    free(d->inner);
}

/* "%3", "%2.3" */
static void put_number(const drawing *d, int node)
{
    const int body = (int)(d->b - d->p->v->bodies);
    if (body)
        printf("%%%d.%d", body, node);
    else
        printf("%%%d", node);
}

/* The line of the text, in short. */
static void put_title(const drawing *d, int node)
{
    const ir_node *n = &d->b->nodes[node];
    printf("<title>");
    put_number(d, node);
    printf(" ");
    put_html_text(stdout, n->is.name ? n->is.name : "");
    printf("\n%s", n->is.op);
    for (int k = 0; k < n->is.n_operands; k++) {
        printf("%s", k ? ", " : " ");
        put_number(d, n->in[k]);
    }
    if (n->is.takes && d->outer) {
        printf(" &lt;- %s ", n->is.takes);
        if (n->is.from >= 0)
            put_number(d->outer, n->is.from);
    }
    printf("\n");
    put_html_text(stdout, n->attrs);
    printf("\n%s[", tp_dtype_name(n->is.dtype));
    put_html_text(stdout, n->dims);
    printf("]\n");
    put_html_text(stdout, n->place);
    printf("</title>");
}

static void put_all(const drawing *d);

/* Frames of the bodies in box b, from `y` on; `inner` are the drawings. */
static void put_inner(const drawing *d, const box *b, drawing *inner, int n, double y)
{
    double width = inner_gap;
    for (int k = 0; k < n; k++)
        width += inner[k].l.width + inner_gap;
    double x = d->x + b->x - width / 2 + inner_gap;
    for (int k = 0; k < n; k++) {
        drawing *in = &inner[k];
        printf("<rect class=\"body\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
               "rx=\"6\"/><text class=\"dim\" x=\"%.1f\" y=\"%.1f\">",
               x, y, in->l.width, in->l.height + (double)LINE_HEIGHT, x + 8,
               y + (double)LINE_HEIGHT - 1);
        put_html_text(stdout, in->b->word);
        printf(" ");
        put_html_text(stdout, in->b->place);
        printf("</text>\n");
        in->x = x;
        in->y = y + (double)LINE_HEIGHT;
        put_all(in);
        x += in->l.width + inner_gap;
    }
}

/* `inner`: the drawings of its bodies. */
static void put_box(const drawing *d, int i, drawing *inner)
{
    const box *b = &d->boxes[i];
    const ir_node *n = &d->b->nodes[d->node[i]];
    const char *result = d->result[i];
    const double x = d->x + b->x - b->width / 2, y = d->y + b->y;
    lines l = {.n = 1};
    if (result && d->order[i] >= 0)
        snprintf(l.text[0], sizeof l.text[0], "%s %d", result, d->order[i]);
    else if (result)
        snprintf(l.text[0], sizeof l.text[0], "%s", result);
    else
        lines_of(d, n, &l);
    printf("<g class=\"b\">");
    put_title(d, d->node[i]);
    printf("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%d\" "
           "fill=\"%s\"/>",
           x, y, b->width, b->height, result || is_input(n) ? 11 : 3,
           result ? "#b2f2bb" : colour_of(n));
    for (int k = 0; k < l.n; k++) {
        printf("<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">",
               k == 0                            ? "op"
               : k == l.n - 1 && !n->is.n_bodies ? "dim"
                                                 : "",
               x + 8, y + LINE_HEIGHT * (k + 1));
        put_html_text(stdout, l.text[k]);
        printf("</text>");
    }
    printf("</g>\n");
    if (!result && n->is.n_bodies)
        put_inner(d, b, inner, n->is.n_bodies, y + l.n * LINE_HEIGHT + 8);
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
    double x = d->x + a->x, y = d->y + a->y + a->height;
    printf("<path d=\"M%.1f %.1f", x, y);
    for (int p = a->first; p >= 0 && p < d->l.n_points; p++) {
        const waypoint *w = &d->l.points[p];
        if (w->of != from || w->y + w->height > b->y)
            break;
        put_curve(x, y, d->x + w->x, d->y + w->y);
        x = d->x + w->x;
        y = d->y + w->y + w->height;
        printf("V%.1f", y);
    }
    put_curve(x, y, d->x + b->x, d->y + b->y);
    printf("\" marker-end=\"url(#tip)\"/>\n");
}

static void put_all(const drawing *d)
{
    for (int i = 0; i < d->n; i++)
        for (int k = 0; k < d->boxes[i].n_in; k++)
            put_edge(d, d->boxes[i].in[k], i);
    for (int i = 0, inner = 0; i < d->n; i++) {
        put_box(d, i, d->inner + inner);
        inner += i < d->n_nodes ? d->b->nodes[d->node[i]].is.n_bodies : 0;
    }
}

static void put_drawing(const drawing *d)
{
    printf("<div id=\"view\"><svg xmlns=\"http://www.w3.org/2000/svg\" data-w=\"%.0f\" "
           "viewBox=\"0 0 %.0f %.0f\">\n<defs><marker id=\"tip\" markerWidth=\"8\" "
           "markerHeight=\"8\" refX=\"7\" refY=\"4\" orient=\"auto\"><path d=\"M0 1L7 4L0 7z\" "
           "style=\"fill:#777;stroke:none\"/></marker></defs>\n",
           d->l.width, d->l.width, d->l.height);
    put_all(d);
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
        if (!*p->facts[i][1])
            continue;
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
    drawing d = {.p = p, .b = p->v->bodies};
    int status = CLI_GOOD;
    if (p->v->n_all > MOST_BOXES)
        status = cli_refuse(p->title, "%d nodes are too many to be drawn; --format dot or json",
                            p->v->n_all);
    else if (!make(&d))
        status = cli_no_memory();
    else
        put_page(&d);
    unmake(&d);
    return status;
}
