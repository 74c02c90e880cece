#include "c_program.h"

#include <ctype.h>

static const struct {
    const char *name;
    int weight;
    const char *text;
} dos[] = {
#define DO(name, weight, ...) {#name, weight, #__VA_ARGS__},
#include "program.def"
};

static const char *const whens[] = {
#define WHEN(name, ...) #__VA_ARGS__,
#include "program.def"
};

static const char *const numbers[] = {
#define TIMES(name, ...) #__VA_ARGS__,
#include "program.def"
};

static const char *const preds[] = {
#define PRED(name, ...) #__VA_ARGS__,
#include "program.def"
};

/* ---- making ------------------------------------------------------------------------------ */

static int below(uint64_t *s, int n)
{
    return (int)(unit_random(s) >> 33) % n;
}

/* May a pure function do it? It keeps nothing in C but tensors, and has no effect but on them. */
static bool is_pure(const char *text)
{
    static const char *const words[] = {
        "k[",       "d[",   "st->c",   "st->r",          "st->old", "note_",
        "remember", "say(", "tp_seed", "tp_clear_error", "tp_item", "st->call"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(text, words[i]))
            return false;
    return true;
}

/* Is a function that does it replayed? It assigns whole variables that it reads by no view, and leaves
 * no gradients. */
static bool is_replayed(const char *text)
{
    static const char *const words[] = {"tp_assign(tp_",   "tp_assign(v[", "tp_backward",
                                        "tp_select(st->w", "= st->p",      "= st->q",
                                        "= st->z",         "tp_grad_of"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(text, words[i]))
            return false;
    return true;
}

static int pick_do(uint64_t *s, const program *p)
{
    int sum = 0;
    for (int i = 0; i < N_DO; i++)
        sum += dos[i].weight;
    for (;;) {
        int at = below(s, sum), i = 0;
        while (at >= dos[i].weight)
            at -= dos[i++].weight;
        if ((!p->pure || is_pure(dos[i].text)) && (!p->replays || is_replayed(dos[i].text)))
            return i;
    }
}

/* One of n rows. */
static int pick_row(uint64_t *s, bool pure, int n, const char *const *texts)
{
    int i = below(s, n);
    while (pure && !is_pure(texts[i]))
        i = below(s, n);
    return i;
}

/* A list of about `want` statements; its first one. */
static int make_list(uint64_t *s, program *p, int want, int depth, bool loop, bool calls)
{
    int first = NONE, *link = &first;
    for (int k = 0; k < want && p->n < MAX_STATEMENTS; k++) {
        const int at = p->n++, r = depth < 3 ? below(s, 100) : 50 + below(s, 50);
        statement t = {.act = pick_do(s, p),
                       .d = below(s, 2 + 2 * below(s, 2)), /* more often what is returned */
                       .a = below(s, 4),
                       .b = below(s, 4),
                       .c = below(s, 4),
                       .i = below(s, 8),
                       .next = NONE,
                       .body = NONE,
                       .other = NONE};
        const int inner = 1 + below(s, 5);
        if (r < 10) {
            t.act = A_IF;
            t.what = pick_row(s, p->pure, N_WHEN, whens);
            t.body = make_list(s, p, inner, depth + 1, loop, calls);
            if (below(s, 2))
                t.other = make_list(s, p, inner, depth + 1, loop, calls);
        } else if (r < 15) {
            t.act = A_FOR;
            t.what = pick_row(s, p->pure, N_TIMES, numbers);
            t.body = make_list(s, p, inner, depth + 1, true, calls);
        } else if (r < 17) {
            t.act = A_SCOPE;
            t.body = make_list(s, p, inner, depth + 1, loop, calls);
        } else if (r < 19) {
            t.act = A_SILENT;
            t.body = make_list(s, p, inner, depth + 1, loop, calls);
        } else if (r < 23 && calls) {
            t.act = A_CALL;
        } else if (r >= 23 && r < 31) { /* no break leaves a block */
            t.act = r < 27 ? B_IF : r < 29 ? B_WHILE : B_FOR;
            t.what = below(s, N_PRED);
            t.body = make_list(s, p, inner, depth + 1, false, calls);
            if (t.act == B_IF && below(s, 2))
                t.other = make_list(s, p, inner, depth + 1, false, calls);
        } else if (r >= 97 && loop) {
            t.act = A_BREAK;
            t.what = pick_row(s, p->pure, N_WHEN, whens);
        }
        p->all[at] = t;
        *link = at;
        link = &p->all[at].next;
    }
    return first;
}

void program_make(uint64_t seed, program *p)
{
    uint64_t s = seed * UINT64_C(0x9e3779b97f4a7c15) + 99;
    for (int i = 0; i < 16; i++)
        unit_random(&s);
    *p = (program){.seed = seed, .calls = 3 + below(&s, 9)};
    const int size = below(&s, 4) ? 5 + below(&s, 12) : 15 + below(&s, 25);
    const bool calls = below(&s, 2);
    p->pure = below(&s, 3) == 0;
    p->replays = p->pure && below(&s, 3);
    p->called = calls ? make_list(&s, p, 2 + below(&s, 6), 1, false, false) : NONE;
    p->main = make_list(&s, p, size, 0, false, calls);
    p->fixed_size = below(&s, 2);
    p->marks = below(&s, 3) == 0;
    p->outside = below(&s, 3) == 0;
    p->moves = below(&s, 2);
    p->second = p->replays ? 0 : below(&s, 6);
    p->outside = p->outside && !p->replays;
}

/* ---- printing ---------------------------------------------------------------------------- */

/* A row's text, its one-letter names replaced by the statement's numbers. */
static void put_text(const statement *t, const char *text, FILE *out)
{
    for (const char *c = text; *c; c++) {
        const bool alone =
            !(c > text && (isalnum(c[-1]) || c[-1] == '_')) && !isalnum(c[1]) && c[1] != '_';
        static const char letters[] = "DABCI";
        const char *at = alone ? strchr(letters, *c) : NULL;
        if (at)
            fprintf(out, "%d", (const int[]){t->d, t->a, t->b, t->c, t->i}[at - letters]);
        else
            fputc(*c, out);
    }
}

static void put_list(const program *p, int at, int depth, FILE *out)
{
    for (; at != NONE; at = p->all[at].next) {
        const statement *t = &p->all[at];
        fprintf(out, "/* %3d */ %*s", at, depth * 4, "");
        if (t->act < N_DO) {
            put_text(t, dos[t->act].text, out);
            fprintf(out, ";\n");
            continue;
        }
        switch (t->act) {
        case A_IF:
            fprintf(out, "if (");
            put_text(t, whens[t->what], out);
            fprintf(out, ") {\n");
            break;
        case A_FOR:
            fprintf(out, "for (int i = 0, n = ");
            put_text(t, numbers[t->what], out);
            fprintf(out, "; i < n; i++) {\n");
            break;
        case B_IF:
            fprintf(out, "tp_if (");
            put_text(t, preds[t->what], out);
            fprintf(out, ", all) {\n");
            break;
        case B_WHILE:
            fprintf(out, "n = %d; tp_while (n > 0 and ", t->i % 4);
            put_text(t, preds[t->what], out);
            fprintf(out, ", &n, all) { n = n - 1;\n");
            break;
        case B_FOR:
            fprintf(out,
                    "tp_for%s (tp_size(x, 0), all) { v[%d] += tp_each(x); and at its end: "
                    "tp_emit(&m[%d], v[%d]);\n",
                    t->i % 2 ? "_back" : "", t->d, t->d, t->a);
            break;
        case A_BREAK:
            fprintf(out, "if (");
            put_text(t, whens[t->what], out);
            fprintf(out, ") break;\n");
            continue;
        case A_SCOPE:
            fprintf(out, "scope { /* tp_scope_begin ... tp_keep(all slots); tp_scope_end */\n");
            break;
        case A_SILENT:
            fprintf(out, "without_recording {\n");
            break;
        default:
            fprintf(out, "m[%d], v[%d], s[%d] = called(m[%d], v[%d]);\n", t->d, t->d, t->d,
                    t->a, t->b);
            continue;
        }
        put_list(p, t->body, depth + 1, out);
        if (t->other != NONE) {
            fprintf(out, "          %*s} else {\n", depth * 4, "");
            put_list(p, t->other, depth + 1, out);
        }
        fprintf(out, "          %*s}\n", depth * 4, "");
    }
}

void program_print(const program *p, FILE *out)
{
    static const char *const seconds[] = {"a new tensor", "st->q",     "st->w row 1",
                                          "st->p",        "x's row 0", "a marked tensor"};
    static const char head[] = "          m[all] = x; v[all] = y; s[all] = st->z; k[all] = 0; "
                               "d[all] = 1; i = 0;\n";
    if (p->called != NONE) {
        fprintf(out, "called(x, y) -> m[0], v[0], s[0]\n%s", head);
        put_list(p, p->called, 0, out);
    }
    fprintf(out, "main(x, y) -> m[0], v[0], s[0]\n%s", head);
    put_list(p, p->main, 0, out);
    fprintf(out, "%s%d calls, %s sizes, y is %s%s%s%s\n",
            p->replays ? "pure and replayed; "
            : p->pure  ? "pure; "
                       : "",
            p->calls, p->fixed_size ? "equal" : "different", seconds[p->second],
            p->marks ? ", x is marked at times" : "",
            p->outside ? ", gradients asked from outside" : "",
            p->moves ? ", state changed between calls" : "");
}

/* ---- making smaller ---------------------------------------------------------------------- */

/* The place that holds statement `at`. */
static int *find(program *p, int *list, int at)
{
    for (int *link = list; *link != NONE; link = &p->all[*link].next) {
        if (*link == at)
            return link;
        int *in = find(p, &p->all[*link].body, at);
        in = in ? in : find(p, &p->all[*link].other, at);
        if (in)
            return in;
    }
    return NULL;
}

static int count(const program *p, int at)
{
    int n = 0;
    for (; at != NONE; at = p->all[at].next)
        n += 1 + count(p, p->all[at].body) + count(p, p->all[at].other);
    return n;
}

int program_size(const program *p)
{
    return count(p, p->main) + count(p, p->called);
}

bool program_cut(program *p, int at, cut how)
{
    int *link = find(p, &p->main, at);
    link = link ? link : find(p, &p->called, at);
    if (!link)
        return false;
    const statement *t = &p->all[at];
    const int inner = how == CUT_TO_BODY ? t->body : how == CUT_TO_OTHER ? t->other : NONE;
    if (how != CUT_OUT && inner == NONE)
        return false;
    *link = inner == NONE ? t->next : inner;
    if (inner == NONE)
        return true;
    int last = inner;
    while (p->all[last].next != NONE)
        last = p->all[last].next;
    p->all[last].next = t->next;
    return true;
}
