/* The rules of loop programs. Each DIR/NAME.loop breaks the one that its line with "; error: " names, or none, and the
 * damages below break those that no text can. Together they raise every message of lower/loop_verify.c.
 *
 *     loop_rules DIR */
#include "common/loop_read.h"
#include "lower/loop_verify.h"

#include <dirent.h>
#include <stdlib.h>

enum { MOST_MESSAGES = 100 };

typedef struct rules {
    const char *dir;
    tp_ctx *tp;
    tpi_bump memory;
    tpi_loop l;
    int n_programs, n_bad, n_messages;
    char message[MOST_MESSAGES][TPI_LOOP_WHY]; /* of the source: formats */
    bool raised[MOST_MESSAGES];
} rules;

/* ---- messages ------------------------------------------------------------------------------------------------ */

/* All texts in the parentheses that begin at p. */
static void find_texts(rules *r, const char *p)
{
    int depth = 0;
    do {
        depth += (*p == '(') - (*p == ')');
        if (*p == '"' && r->n_messages < MOST_MESSAGES) {
            const size_t n = strcspn(++p, "\"");
            snprintf(r->message[r->n_messages++], TPI_LOOP_WHY, "%.*s", (int)n, p);
            p += n;
        }
    } while (*p && p++ && depth > 0);
}

static void find_messages(rules *r)
{
    char path[1000];
    const char *tree = getenv("TAPIR_SOURCE");
    snprintf(path, sizeof path, "%s/src/lower/loop_verify.c", tree ? tree : ".");
    char *text = loop_read_file(path);
    for (const char *p = text; (p = strstr(p, " bad(")); p += 5)
        find_texts(r, p + 4);
    free(text);
}

/* Is it what the format prints? A number or a word may stand for what begins with %. */
static bool is_like(const char *format, const char *text)
{
    if (*format != '%')
        return *format == *text && (!*format || is_like(format + 1, text + 1));
    for (; *text; text++)
        if (is_like(format + 2, text + 1))
            return true;
    return false;
}

static void note_raised(rules *r, const char *why)
{
    bool known = false;
    for (int i = 0; i < r->n_messages; i++)
        if (is_like(r->message[i], why))
            known = r->raised[i] = true;
    if (!known)
        printf("a message that the source has not: %s\n", why);
    r->n_bad += !known;
}

static void check_all_raised(rules *r)
{
    for (int i = 0; i < r->n_messages; i++)
        if (!r->raised[i])
            printf("no program raises: %s\n", r->message[i]);
    for (int i = 0; i < r->n_messages; i++)
        r->n_bad += !r->raised[i];
    r->n_bad += r->n_messages == 0;
}

/* ---- programs ------------------------------------------------------------------------------------------------ */

/* DIR/NAME, as r->l in a context of its own, and its text; NULL: it is none, and nothing is to be closed. */
static char *open_program(rules *r, const char *name)
{
    char path[1000], why[LOOP_READ_WHY];
    snprintf(path, sizeof path, "%s/%s", r->dir, name);
    char *text = loop_read_file(path);
    r->tp = tp_open(NULL);
    r->memory = TPI_BUMP(&r->tp->mem);
    r->n_programs++;
    if (loop_read(&r->memory, tp_graph_new(r->tp), text, &r->l, why))
        return text;
    printf("%s: %s\n", path, why);
    r->n_bad++;
    tpi_bump_free(&r->memory);
    tp_close(r->tp);
    free(text);
    return NULL;
}

static void close_program(rules *r, char *text)
{
    tpi_bump_free(&r->memory);
    tp_close(r->tp);
    free(text);
}

/* Axes are in the line of their region. */
static int in_line(const tpi_loop *l, int statement)
{
    while (statement > 0 && statement < l->n_stmts && l->stmt[statement].kind == TPI_LOOP_AXIS)
        statement--;
    return statement;
}

static void check(rules *r, const char *what, const char *want, int statement)
{
    char why[TPI_LOOP_WHY] = "";
    const int got = tpi_loop_verify(r->tp, &r->l, why);
    if (*why)
        note_raised(r, why);
    if (strcmp(want, why) == 0 && in_line(&r->l, got) == in_line(&r->l, statement) &&
        tp_error(r->tp) == TP_OK)
        return;
    printf("%s: statement %d: \"%s\", not %d: \"%s\"\n", what, got, why, statement, want);
    r->n_bad++;
}

/* ---- of text --------------------------------------------------------------------------------------------------- */

/* The statement of the line with "; error: ", and what it says; -1: there is no such line. A line is a statement and
 * its axes, or the end of a region. */
static int expected(const tpi_loop *l, const char *text, char why[TPI_LOOP_WHY])
{
    const char *mark = strstr(text, "; error: ");
    int line = -1, i = 0; /* line 0 is that of the operands */
    why[0] = 0;
    if (!mark)
        return -1;
    snprintf(why, TPI_LOOP_WHY, "%.*s", (int)strcspn(mark + 9, "\n"), mark + 9);
    for (const char *c = text; c < mark; c++)
        line += *c == '\n';
    for (; i < l->n_stmts; i++) {
        for (int k = 0; k < i; k++)
            line -= l->stmt[k].kind == TPI_LOOP_EACH && l->stmt[k].end == i;
        if (l->stmt[i].kind != TPI_LOOP_AXIS && line-- == 0)
            break;
    }
    return i;
}

static void check_files(rules *r)
{
    char want[TPI_LOOP_WHY];
    DIR *d = opendir(r->dir);
    for (const struct dirent *e; d && (e = readdir(d));) {
        char *text = strstr(e->d_name, ".loop") ? open_program(r, e->d_name) : NULL;
        if (!text)
            continue;
        const int statement = expected(&r->l, text, want);
        check(r, e->d_name, want, statement);
        close_program(r, text);
    }
    if (d)
        closedir(d);
}

/* ---- in memory ------------------------------------------------------------------------------------------------- */

typedef enum field { KIND, TYPE, FOLD, END, NUMBER } field;

/* fine.loop with one member of one statement changed: what no text has. */
static const struct damage {
    int statement;
    field field;
    int value;
    const char *want;
} damages[] = {
    {0,  KIND,   TPI_LOOP_ROW,   "a program begins with a region"              },
    {0,  END,    9,              "the region does not end in the one around it"},
    {2,  NUMBER, 0,              "t0 is no row"                                },
    {2,  TYPE,   TP_I32,         "t2 has another type elsewhere"               },
    {3,  END,    3,              "the region does not end in the one around it"},
    {3,  END,    99,             "the region does not end in the one around it"},
    {4,  NUMBER, 2,              "there is no axis i2"                         },
    {5,  NUMBER, 99,             "there is no such address"                    },
    {5,  TYPE,   TP_I32,         "the memory is f32, not i32"                  },
    {6,  KIND,   TPI_LOOP_AXIS,  "an axis does not come first in its region"   },
    {8,  FOLD,   TPI_N_REDUCES,  "there is no such fold or order"              },
    {12, KIND,   TPI_LOOP_KINDS, "there is no such statement"                  }
};

static void damage_one(tpi_loop_stmt *s, const struct damage *d)
{
    switch (d->field) {
    case KIND:
        s->kind = (uint8_t)d->value;
        break;
    case TYPE:
        s->type = (uint8_t)d->value;
        break;
    case FOLD:
        s->fold = (uint8_t)d->value;
        break;
    case END:
        s->end = d->value;
        break;
    case NUMBER:
        s->number = d->value;
        break;
    }
}

static void check_damages(rules *r)
{
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        char *text = open_program(r, "fine.loop");
        if (!text)
            return;
        damage_one(&r->l.stmt[damages[i].statement], &damages[i]);
        check(r, "damaged fine.loop", damages[i].want, damages[i].statement);
        close_program(r, text);
    }
}

int main(int argc, char **argv)
{
    static rules r;
    if (argc < 2)
        return 2;
    r.dir = argv[1];
    find_messages(&r);
    check_files(&r);
    check_damages(&r);
    check_all_raised(&r);
    printf("%d programs, %d messages, %d wrong\n", r.n_programs, r.n_messages, r.n_bad);
    return r.n_bad != 0;
}
