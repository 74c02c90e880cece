#include "base/float_mode.h"
#include "ir/notation.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIGITS = 40 };

/* ---- strings --------------------------------------------------------------------------------- */

int tpi_utf8_length(const char *p, const char *limit)
{
    const unsigned char *b = (const unsigned char *)p;
    if (p >= limit)
        return 0;
    if (b[0] < 0x80)
        return 1;
    const int n = b[0] < 0xc2 ? 0 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : b[0] < 0xf5 ? 4 : 0;
    if (n == 0 || limit - p < n)
        return 0;
    for (int i = 1; i < n; i++) {
        if ((b[i] & 0xc0) != 0x80)
            return 0;
    }
    /* The shortest form only, no surrogates, nothing past the last code point. */
    if ((b[0] == 0xe0 && b[1] < 0xa0) || (b[0] == 0xed && b[1] > 0x9f) ||
        (b[0] == 0xf0 && b[1] < 0x90) || (b[0] == 0xf4 && b[1] > 0x8f))
        return 0;
    return n;
}

void tpi_put_string(tpi_str *s, const char *text, size_t len)
{
    const char *limit = text + len;
    tpi_str_put(s, "\"");
    for (const char *p = text; p < limit;) {
        const unsigned char c = (unsigned char)*p;
        const int n = tpi_utf8_length(p, limit);
        if (c == '"' || c == '\\') {
            tpi_str_printf(s, "\\%c", c);
        } else if (c == '\n') {
            tpi_str_put(s, "\\n");
        } else if (n == 0 || c < 0x20 || c == 0x7f) {
            tpi_str_printf(s, "\\x%02x", c);
        } else {
            tpi_str_add(s, p, (size_t)n);
            p += n;
            continue;
        }
        p++;
    }
    tpi_str_put(s, "\"");
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

const char *tpi_scan_string(const char *p, const char *limit, char *out, size_t *len)
{
    *len = 0;
    if (p >= limit || *p++ != '"')
        return NULL;
    while (p < limit && *p != '"') {
        char c = *p++;
        if (c == '\n' || c == 0)
            return NULL;
        if (c == '\\') {
            if (p >= limit)
                return NULL;
            c = *p++;
            if (c == 'n') {
                c = '\n';
            } else if (c == 'x') {
                if (limit - p < 2 || hex_digit(p[0]) < 0 || hex_digit(p[1]) < 0)
                    return NULL;
                c = (char)(hex_digit(p[0]) * 16 + hex_digit(p[1]));
                p += 2;
                if (c == 0)
                    return NULL;
            } else if (c != '"' && c != '\\') {
                return NULL;
            }
        }
        out[(*len)++] = c;
    }
    return p < limit ? p + 1 : NULL;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* The digits of |v| with `precision` of them, no zeros at the end, and the exponent of the
 * first one. */
static void digits_of(double v, int precision, char *digits, int *exponent)
{
    char text[MOST_DIGITS + 16];
    tpi_print(text, sizeof text, "%.*e", precision - 1, fabs(v));
    int n = 0;
    const char *p = text;
    for (; *p && *p != 'e'; p++) {
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    }
    *exponent = *p ? atoi(p + 1) : 0;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = 0;
}

static double value_of(const char *digits, int exponent)
{
    char text[MOST_DIGITS + 32];
    snprintf(text, sizeof text, "%se%d", digits, exponent);
    return strtod(text, NULL);
}

static void put_finite(tpi_str *s, double v, bool is_f32)
{
    char digits[MOST_DIGITS];
    int exponent = 0;
    for (int precision = 1; precision <= 17; precision++) {
        digits_of(v, precision, digits, &exponent);
        const double back = value_of(digits, exponent - (int)strlen(digits) + 1);
        if (is_f32 ? (float)back == (float)fabs(v) : back == fabs(v))
            break;
    }
    const int n = (int)strlen(digits);
    if (signbit(v))
        tpi_str_put(s, "-");
    if (exponent < -5 || exponent > 16) {
        tpi_str_printf(s, "%c%s%se%d", digits[0], n > 1 ? "." : "", digits + 1, exponent);
    } else if (exponent < 0) {
        tpi_str_printf(s, "0.%.*s%s", -1 - exponent, "0000", digits);
    } else if (n <= exponent + 1) {
        tpi_str_printf(s, "%s%.*s", digits, exponent + 1 - n, "0000000000000000");
    } else {
        tpi_str_printf(s, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
    }
}

static void put_float(tpi_str *s, double v, bool is_f32, uint64_t bits, uint64_t plain_nan)
{
    if (isnan(v) && bits == plain_nan)
        tpi_str_put(s, "nan");
    else if (isnan(v))
        tpi_str_printf(s, "nan(%" PRIx64 ")", bits);
    else if (isinf(v))
        tpi_str_put(s, v < 0 ? "-inf" : "inf");
    else
        put_finite(s, v, is_f32);
}

static const uint64_t nan_f32 = 0x7fc00000, nan_f64 = 0x7ff8000000000000;

void tpi_put_f64(tpi_str *s, double v)
{
    TPI_DEFAULT_FLOAT_MODE;
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_float(s, v, false, bits, nan_f64);
}

void tpi_put_element(tpi_str *s, tp_dtype dtype, const void *p)
{
    TPI_DEFAULT_FLOAT_MODE;
    if (dtype == TP_F32) {
        float v;
        uint32_t bits;
        memcpy(&v, p, sizeof v);
        memcpy(&bits, p, sizeof bits);
        put_float(s, (double)v, true, bits, nan_f32);
    } else if (dtype == TP_F64) {
        double v;
        memcpy(&v, p, sizeof v);
        tpi_put_f64(s, v);
    } else if (dtype == TP_U64) {
        uint64_t v;
        memcpy(&v, p, sizeof v);
        tpi_str_printf(s, "%" PRIu64, v);
    } else if (dtype == TP_BOOL) {
        tpi_str_put(s, *(const char *)p ? "true" : "false");
    } else {
        tpi_str_printf(s, "%" PRId64, tpi_load_i64(dtype, p));
    }
}

static const char *scan_word(const char *p, const char *limit, const char *word)
{
    const size_t n = strlen(word);
    return (size_t)(limit - p) >= n && memcmp(p, word, n) == 0 ? p + n : NULL;
}

static const char *scan_u64(const char *p, const char *limit, uint64_t *v)
{
    *v = 0;
    const char *start = p;
    for (; p < limit && *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(*v, (uint64_t)10, v) ||
            __builtin_add_overflow(*v, (uint64_t)(*p - '0'), v))
            return NULL;
    }
    return p > start ? p : NULL;
}

const char *tpi_scan_i64(const char *p, const char *limit, int64_t *v)
{
    const bool minus = p < limit && *p == '-';
    uint64_t u;
    p = scan_u64(p + minus, limit, &u);
    if (!p || u > (uint64_t)INT64_MAX + minus)
        return NULL;
    *v = (int64_t)(minus ? 0 - u : u);
    return p;
}

/* A float's bits when it is written as nan or nan(bits). */
static const char *scan_nan(const char *p, const char *limit, uint64_t plain, uint64_t *bits)
{
    p = scan_word(p, limit, "nan");
    *bits = plain;
    if (!p || p >= limit || *p != '(')
        return p;
    const char *start = ++p;
    *bits = 0;
    for (; p < limit && hex_digit(*p) >= 0 && p - start < 16; p++)
        *bits = *bits << 4 | (uint64_t)hex_digit(*p);
    return p > start && p < limit && *p == ')' ? p + 1 : NULL;
}

static const char *scan_real(const char *p, const char *limit, double *v)
{
    const bool minus = p < limit && *p == '-';
    p += minus;
    const char *word = scan_word(p, limit, "inf");
    if (word) {
        *v = minus ? -(double)INFINITY : (double)INFINITY;
        return word;
    }
    char digits[MOST_DIGITS];
    int n = 0;
    int64_t exponent = 0;
    bool point = false;
    for (; p < limit && ((*p >= '0' && *p <= '9') || (*p == '.' && !point && n > 0)); p++) {
        if (*p == '.') {
            point = true;
            continue;
        }
        if (n == MOST_DIGITS - 1)
            return NULL;
        digits[n++] = *p;
        exponent -= point;
    }
    digits[n] = 0;
    if (n == 0)
        return NULL;
    if (p < limit && *p == 'e') {
        int64_t e;
        p = tpi_scan_i64(p + 1, limit, &e);
        if (!p || e < -9999 || e > 9999)
            return NULL;
        exponent += e;
    }
    const double size = value_of(digits, (int)exponent);
    if (isinf(size))
        return NULL;
    *v = minus ? -size : size;
    return p;
}

const char *tpi_scan_f64(const char *p, const char *limit, double *v)
{
    TPI_DEFAULT_FLOAT_MODE;
    uint64_t bits;
    const char *end = scan_nan(p, limit, nan_f64, &bits);
    if (!end)
        return scan_real(p, limit, v);
    memcpy(v, &bits, sizeof bits);
    return isnan(*v) ? end : NULL;
}

static const char *scan_f32(const char *p, const char *limit, void *out)
{
    uint64_t bits;
    const char *end = scan_nan(p, limit, nan_f32, &bits);
    float v;
    if (end) {
        const uint32_t low = (uint32_t)bits;
        memcpy(&v, &low, sizeof v);
        memcpy(out, &low, sizeof low);
        return isnan(v) && bits <= UINT32_MAX ? end : NULL;
    }
    double wide;
    end = scan_real(p, limit, &wide);
    if (!end)
        return NULL;
    v = (float)wide;
    memcpy(out, &v, sizeof v);
    return isinf(v) && !isinf(wide) ? NULL : end;
}

const char *tpi_scan_element(const char *p, const char *limit, tp_dtype dtype, void *out)
{
    TPI_DEFAULT_FLOAT_MODE;
    if (dtype == TP_F32)
        return scan_f32(p, limit, out);
    if (dtype == TP_F64) {
        double v = 0;
        p = tpi_scan_f64(p, limit, &v);
        memcpy(out, &v, sizeof v);
        return p;
    }
    if (dtype == TP_U64) {
        uint64_t v;
        p = scan_u64(p, limit, &v);
        memcpy(out, &v, sizeof v);
        return p;
    }
    if (dtype == TP_BOOL) {
        const char *yes = scan_word(p, limit, "true");
        *(char *)out = yes != NULL;
        return yes ? yes : scan_word(p, limit, "false");
    }
    int64_t v;
    p = tpi_scan_i64(p, limit, &v);
    if (!p)
        return NULL;
    int64_t low, high;
    switch (dtype) {
    case TP_I8:
        low = INT8_MIN, high = INT8_MAX;
        break;
    case TP_I16:
        low = INT16_MIN, high = INT16_MAX;
        break;
    case TP_I32:
        low = INT32_MIN, high = INT32_MAX;
        break;
    case TP_U8:
        low = 0, high = UINT8_MAX;
        break;
    case TP_U16:
        low = 0, high = UINT16_MAX;
        break;
    case TP_U32:
        low = 0, high = UINT32_MAX;
        break;
    default:
        low = INT64_MIN, high = INT64_MAX;
    }
    if (v < low || v > high)
        return NULL;
    /* The low bytes, in this machine's order. */
    const size_t size = tp_dtype_size(dtype);
    const char *bytes = (const char *)&v;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    bytes += sizeof v - size;
#endif
    memcpy(out, bytes, size);
    return p;
}

/* ---- stored values ------------------------------------------------------------------------------ */

void tpi_swap_bytes(char *p, size_t bytes, size_t elem)
{
    for (size_t at = 0; at < bytes; at += elem) {
        for (size_t i = at, j = at + elem - 1; i < j; i++, j--) {
            const char c = p[i];
            p[i] = p[j];
            p[j] = c;
        }
    }
}
