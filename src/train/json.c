#include "train/json.h"

#include "ir/notation.h"

#include <string.h>

bool tpi_json_no_memory(tpi_json *j)
{
    return tpi_file_fail(j->error, TP_E_MEMORY, j->path, "out of memory");
}

static void skip_space(tpi_json *j)
{
    while (j->at < j->limit && *j->at && strchr(" \t\n\r", *j->at))
        j->at++;
}

char tpi_json_next(tpi_json *j)
{
    skip_space(j);
    return j->at < j->limit ? *j->at : 0;
}

bool tpi_json_eat(tpi_json *j, char c)
{
    const bool is = tpi_json_next(j) == c;
    j->at += is;
    return is;
}

bool tpi_json_expect(tpi_json *j, char c)
{
    return tpi_json_eat(j, c) || TPI_JSON_BAD(j, "%s has no '%c' at byte %lld", j->what, c,
                                              (long long)(j->at - j->begin));
}

/* Four hexadecimal digits; below 0: there are none. */
static int32_t read_hex(tpi_json *j)
{
    int32_t v = 0;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        const char c = j->at < j->limit ? *j->at++ : 0;
        const char *d = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 'a' - 'A' : c) : NULL;
        if (!d)
            return -1;
        v = v * 16 + (int32_t)(d - digits);
    }
    return v;
}

/* What follows "\u", perhaps the first half of a pair; 0 and what is no character are refused. */
static bool read_code(tpi_json *j, tpi_str *out)
{
    int32_t c = read_hex(j);
    if (c >= 0xd800 && c < 0xdc00 && j->limit - j->at >= 2 && j->at[0] == '\\' &&
        j->at[1] == 'u') {
        j->at += 2;
        const int32_t low = read_hex(j);
        c = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00)
                                          : -1;
    }
    if (c <= 0 || (c >= 0xd800 && c < 0xe000))
        return TPI_JSON_BAD(j, "%s has a \\u that is no character", j->what);
    const int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
    char bytes[4] = {(char)(first[more] | c >> (6 * more))};
    for (int i = 1; i <= more; i++)
        bytes[i] = (char)(0x80 | (c >> (6 * (more - i)) & 0x3f));
    tpi_str_add(out, bytes, (size_t)more + 1);
    return true;
}

static bool read_escape(tpi_json *j, tpi_str *out)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char c = j->at < j->limit ? *j->at++ : 0;
    if (c == 'u')
        return read_code(j, out);
    const char *at = c ? strchr(letters, c) : NULL;
    if (!at)
        return TPI_JSON_BAD(j, "%s has an escape that JSON lacks", j->what);
    tpi_str_add(out, meant + (at - letters), 1);
    return true;
}

bool tpi_json_string(tpi_json *j, tpi_str *out)
{
    if (!tpi_json_expect(j, '"'))
        return false;
    while (j->at < j->limit && *j->at != '"') {
        if (*j->at == '\\') {
            j->at++;
            if (!read_escape(j, out))
                return false;
            continue;
        }
        const int n = (unsigned char)*j->at < 0x20 ? 0 : tpi_utf8_length(j->at, j->limit);
        if (n <= 0)
            return TPI_JSON_BAD(j, "a string of %s has a byte %d", j->what,
                                (unsigned char)*j->at);
        tpi_str_add(out, j->at, (size_t)n);
        j->at += n;
    }
    tpi_str_add(out, "", 1);
    return out->failed ? tpi_json_no_memory(j) : tpi_json_expect(j, '"');
}

bool tpi_json_word(tpi_json *j, char *word, size_t size)
{
    tpi_str s = TPI_STR(j->mem);
    bool ok = tpi_json_string(j, &s);
    if (ok && s.len > size)
        ok = TPI_JSON_BAD(j, "%s has an unexpected \"%.30s\"", j->what, s.text);
    if (ok)
        memcpy(word, s.text, s.len);
    tpi_str_free(&s);
    return ok;
}

static bool read_number(tpi_json *j, int64_t *out)
{
    skip_space(j);
    const char *first = j->at;
    int64_t v = 0;
    for (; j->at < j->limit && *j->at >= '0' && *j->at <= '9'; j->at++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *j->at - '0', &v))
            return TPI_JSON_BAD(j, "%s has a number beyond 2^63", j->what);
    const bool is = j->at > first && (*first != '0' || j->at == first + 1);
    *out = v;
    return is || TPI_JSON_BAD(j, "%s has no number at byte %lld", j->what,
                              (long long)(first - j->begin));
}

int tpi_json_naturals(tpi_json *j, int most, int64_t *v)
{
    if (!tpi_json_expect(j, '['))
        return -1;
    if (tpi_json_eat(j, ']'))
        return 0;
    for (int n = 0; n < most;) {
        if (!read_number(j, &v[n++]))
            return -1;
        if (tpi_json_eat(j, ']'))
            return n;
        if (!tpi_json_expect(j, ','))
            return -1;
    }
    TPI_JSON_BAD(j, "%s has a list of more than %d numbers", j->what, most);
    return -1;
}

bool tpi_json_object(tpi_json *j, bool (*member)(tpi_json *j, void *user), void *user)
{
    if (!tpi_json_expect(j, '{'))
        return false;
    if (tpi_json_eat(j, '}'))
        return true;
    do {
        if (!member(j, user))
            return false;
    } while (tpi_json_eat(j, ','));
    return tpi_json_expect(j, '}');
}

bool tpi_json_end(tpi_json *j)
{
    skip_space(j);
    return j->at == j->limit || TPI_JSON_BAD(j, "something follows %s's object", j->what);
}

/* A number or a word. */
static bool skip_literal(tpi_json *j)
{
    const char *first = j->at;
    for (; j->at < j->limit; j->at++) {
        const char c = *j->at, small = (char)(c | 32);
        if (!(c >= '0' && c <= '9') && !(small >= 'a' && small <= 'z') && c != '.' &&
            c != '+' && c != '-')
            break;
    }
    return j->at > first || TPI_JSON_BAD(j, "%s has no value at byte %lld", j->what,
                                         (long long)(first - j->begin));
}

static bool skip_string(tpi_json *j)
{
    tpi_str s = TPI_STR(j->mem);
    const bool ok = tpi_json_string(j, &s);
    tpi_str_free(&s);
    return ok;
}

static bool skip_value(tpi_json *j, int depth)
{
    const char c = tpi_json_next(j);
    if (c == '"')
        return skip_string(j);
    if (c != '{' && c != '[')
        return skip_literal(j);
    if (depth == 0)
        return TPI_JSON_BAD(j, "%s is nested too deeply", j->what);
    const char end = c == '{' ? '}' : ']';
    j->at++;
    if (tpi_json_eat(j, end))
        return true;
    do {
        if (c == '{' && !(skip_string(j) && tpi_json_expect(j, ':')))
            return false;
        if (!skip_value(j, depth - 1))
            return false;
    } while (tpi_json_eat(j, ','));
    return tpi_json_expect(j, end);
}

bool tpi_json_skip(tpi_json *j)
{
    enum { DEEPEST = 64 };
    return skip_value(j, DEEPEST);
}

/* ---- writing ---------------------------------------------------------------------------------------- */

void tpi_json_put_string(tpi_str *s, const char *text)
{
    tpi_str_put(s, "\"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            tpi_str_printf(s, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            tpi_str_printf(s, "\\u%04x", *text);
        else
            tpi_str_add(s, text, 1);
    }
    tpi_str_put(s, "\"");
}
