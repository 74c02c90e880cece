/* Options: a table per command says what there is; this reads them, and prints help from it. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the nearest name ------------------------------------------------------------------------ */

/* Insertions, deletions, replacements and swaps of neighbours that make b of a. */
static int distance(const char *a, const char *b)
{
    enum { LONGEST = 40 };
    int row[3][LONGEST + 1];
    const int n = (int)strlen(a), m = (int)strlen(b);
    if (n > LONGEST || m > LONGEST)
        return LONGEST;
    for (int k = 0; k <= m; k++)
        row[0][k] = k;
    for (int i = 1; i <= n; i++) {
        int *now = row[i % 3];
        const int *before = row[(i + 2) % 3], *two = row[(i + 1) % 3];
        now[0] = i;
        for (int k = 1; k <= m; k++) {
            now[k] = before[k - 1] + (a[i - 1] != b[k - 1]);
            now[k] = before[k] + 1 < now[k] ? before[k] + 1 : now[k];
            now[k] = now[k - 1] + 1 < now[k] ? now[k - 1] + 1 : now[k];
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
                two[k - 2] + 1 < now[k])
                now[k] = two[k - 2] + 1;
        }
    }
    return row[n % 3][m];
}

const char *cli_nearest(const char *word, int n, const char *const *names)
{
    const char *best = NULL;
    const size_t len = strlen(word);
    int least = len < 2 ? 1 : len < 5 ? 2 : 3; /* as many wrong letters are another word */
    for (int i = 0; i < n; i++) {
        const int d = distance(word, names[i]);
        if (d < least) {
            least = d;
            best = names[i];
        }
    }
    return best;
}

/* ---- help -------------------------------------------------------------------------------------- */

static void put_option(const option *o, FILE *out)
{
    enum { COLUMN = 26 };
    const int n =
        fprintf(out, "  --%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
    fprintf(out, "%*s", n < COLUMN ? COLUMN - n : 2, "");
    for (const char *p = o->help; *p; p++)
        if (*p == '\n')
            fprintf(out, "\n%*s", COLUMN, "");
        else
            fputc(*p, out);
    fputc('\n', out);
}

void cli_help(const command *c, FILE *out)
{
    fprintf(out, "usage: tapir %s [OPTION]... %s\n\n%s\n\noptions:\n", c->name, c->operands,
            c->about);
    for (const option *o = c->options; o->name; o++)
        put_option(o, out);
    fprintf(out, "\n%s", c->text);
}

/* ---- reading ------------------------------------------------------------------------------------ */

static int refuse_usage(const command *c, const char *fmt, ...) CLI_PRINTF(2, 3);
static int refuse_usage(const command *c, const char *fmt, ...)
{
    va_list ap;
    fprintf(stderr, "tapir: %s: ", c->name);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, " (tapir help %s)\n", c->name);
    return CLI_BAD;
}

static const option *find_option(const command *c, const char *word, size_t len)
{
    for (const option *o = c->options; o->name; o++)
        if (strlen(o->name) == len && memcmp(o->name, word, len) == 0)
            return o;
    return NULL;
}

static int refuse_option(const command *c, const char *word)
{
    const char *names[32], *body = word;
    int n = 0;
    for (const option *o = c->options; o->name && n < 32; o++)
        names[n++] = o->name;
    while (*body == '-')
        body++;
    char bare[48] = "";
    const size_t len = strcspn(body, "=");
    if (len < sizeof bare)
        memcpy(bare, body, len);
    const char *near = *bare ? cli_nearest(bare, n, names) : NULL;
    if (near)
        return refuse_usage(c, "there is no option %s; did you mean --%s?", word, near);
    return refuse_usage(c, "there is no option %s", word);
}

/* Which of "a,b,c" the word is; -1: none. */
static int choice_of(const char *choices, const char *word)
{
    const size_t len = strlen(word);
    int i = 0;
    for (const char *p = choices; *p; i++) {
        const size_t n = strcspn(p, ",");
        if (n == len && memcmp(p, word, n) == 0)
            return i;
        p += n + (p[n] == ',');
    }
    return -1;
}

static bool add_text(texts *t, const char *text, int most)
{
    if (!t->v)
        t->v = calloc((size_t)most, sizeof *t->v);
    if (!t->v)
        return false;
    t->v[t->n++] = text;
    return true;
}

static int set_option(const command *c, const option *o, const char *word, void *settings,
                      int argc)
{
    char *at = (char *)settings + o->at, *end = NULL;
    switch (o->kind) {
    case OPTION_SWITCH:
        *(bool *)at = true;
        return CLI_GOOD;
    case OPTION_TEXT:
        *(const char **)(void *)at = word;
        return CLI_GOOD;
    case OPTION_TEXTS:
        return add_text((texts *)(void *)at, word, argc) ? CLI_GOOD : cli_no_memory();
    case OPTION_COUNT: {
        errno = 0;
        const long long v = strtoll(word, &end, 10);
        if (errno || end == word || *end || v < o->least || v > o->most)
            return refuse_usage(c, "--%s takes a number from %lld to %lld, not %s", o->name,
                                (long long)o->least, (long long)o->most, word);
        *(int64_t *)(void *)at = v;
        return CLI_GOOD;
    }
    case OPTION_NUMBER: {
        const double v = strtod(word, &end);
        if (end == word || *end || !(v >= 0) || v > 1e300)
            return refuse_usage(c, "--%s takes a number, 0 or greater, not %s", o->name, word);
        *(double *)(void *)at = v;
        return CLI_GOOD;
    }
    case OPTION_CHOICE: {
        const int v = choice_of(o->choices, word);
        if (v < 0)
            return refuse_usage(c, "--%s takes one of %s, not %s", o->name, o->choices, word);
        *(int *)(void *)at = v;
        return CLI_GOOD;
    }
    }
    return CLI_BAD;
}

/* argv[*i] starts with a dash; moves on over its value. */
static int read_option(const command *c, int argc, char **argv, int *i, void *settings)
{
    const char *word = argv[*i];
    const size_t len = strncmp(word, "--", 2) == 0 ? strcspn(word + 2, "=") : 0;
    const option *o = len ? find_option(c, word + 2, len) : NULL;
    if (!o)
        return refuse_option(c, word);
    const char *value = word[2 + len] ? word + 2 + len + 1 : NULL;
    if (value && o->kind == OPTION_SWITCH)
        return refuse_usage(c, "--%s takes no value", o->name);
    if (!value && o->kind != OPTION_SWITCH) {
        if (*i + 1 >= argc)
            return refuse_usage(c, "--%s needs a value: --%s %s", o->name, o->name, o->value);
        value = argv[++*i];
    }
    return set_option(c, o, value, settings, argc);
}

static bool asks_for_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

bool cli_parse(const command *c, int argc, char **argv, void *settings, texts *operands,
               int *status)
{
    bool only_operands = false;
    *operands = (texts){0};
    *status = CLI_GOOD;
    for (int i = 1; i < argc && *status == CLI_GOOD; i++) {
        const char *word = argv[i];
        if (!only_operands && strcmp(word, "--") == 0) {
            only_operands = true;
        } else if (!only_operands && asks_for_help(word)) {
            cli_help(c, stdout);
            return false;
        } else if (!only_operands && word[0] == '-' && word[1]) {
            *status = read_option(c, argc, argv, &i, settings);
        } else if (!add_text(operands, word, argc)) {
            *status = cli_no_memory();
        }
    }
    if (*status == CLI_GOOD && operands->n < c->least_operands)
        *status =
            refuse_usage(c, "no %.*s is given; usage: tapir %s [OPTION]... %s",
                         (int)strcspn(c->operands, "."), c->operands, c->name, c->operands);
    else if (*status == CLI_GOOD && operands->n > c->most_operands)
        *status = refuse_usage(c, "%s is one too many: it takes %s",
                               operands->v[c->most_operands], c->operands);
    return *status == CLI_GOOD;
}

void cli_parsed_free(const command *c, void *settings, texts *operands)
{
    for (const option *o = c->options; o->name; o++)
        if (o->kind == OPTION_TEXTS)
            free(((texts *)(void *)((char *)settings + o->at))->v);
    free(operands->v);
}

int cli_threads(tp_ctx *tp, int64_t n)
{
    const int now = tp_threads(tp, (int)n);
    if (now == 1 && n > 1)
        cli_refuse(
            NULL,
            "--threads %lld: one computes: there is one processor, or libpthreadpool is not "
            "there (TAPIR_LOG=threads says why)",
            (long long)n);
    return now;
}

tp_engine cli_engine_of(int choice)
{
    static const tp_engine engines[] = {TP_ENGINE_AUTO, TP_ENGINE_REFERENCE, TP_ENGINE_TILES,
                                        TP_ENGINE_C};
    return engines[choice];
}
