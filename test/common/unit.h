/* What the unit tests share: cmocka and its includes, and a context per test.
 *
 *     static const struct CMUnitTest tests[] = {CASE(something)};
 *
 * runs `static void something(void **state)` with `tp_ctx *tp = *state`, and checks that
 * nothing is in use when the context has closed. */
#ifndef TAPIR_UNIT_H
#define TAPIR_UNIT_H

#include "core/core.h"
#include "tapir/tensor.h"

/* cmocka.h needs the others before it. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
/* clang-format on */

/* Counts what is out, and fails the call number `fail_at` and all after it (0: none). */
typedef struct unit_memory {
    size_t bytes;
    long calls, fail_at, fail_once;
    size_t most; /* bytes at any time */
} unit_memory;

static inline void *unit_alloc(void *user, size_t size)
{
    unit_memory *m = user;
    m->calls++;
    if ((m->fail_at && m->calls >= m->fail_at) || m->calls == m->fail_once)
        return NULL;
    void *p = NULL;
    if (posix_memalign(&p, 64, size ? size : 1) != 0)
        return NULL;
    m->bytes += size;
    m->most = m->bytes > m->most ? m->bytes : m->most;
    return p;
}

static inline void unit_release(void *user, void *p, size_t size)
{
    unit_memory *m = user;
    m->bytes -= size;
    free(p);
}

static inline tp_ctx *unit_open(unit_memory *m)
{
    const tp_allocator a = {unit_alloc, unit_release, m};
    return tp_open(&(tp_options){.allocator = &a});
}

static inline int unit_setup(void **state)
{
    static unit_memory memory;
    memory = (unit_memory){0};
    *state = unit_open(&memory);
    return *state ? 0 : -1;
}

static inline int unit_teardown(void **state)
{
    const unit_memory *m = ((tp_ctx *)*state)->mem.user.user;
    tp_close(*state);
    if (m->bytes)
        fprintf(stderr, "%zu bytes are still out after tp_close\n", m->bytes);
    return m->bytes ? -1 : 0;
}

/* From here on the call number `at` fails, alone (`once`) or with all that follow; 0: none. */
static inline void unit_fail(unit_memory *m, long at, bool once)
{
    m->fail_at = at && !once ? m->calls + at : 0;
    m->fail_once = at && once ? m->calls + at : 0;
}

/* Closes, and looks whether all was given back. */
static inline void unit_close(tp_ctx *tp, const unit_memory *m)
{
    tp_close(tp);
    assert_int_equal(m->bytes, 0);
}

/* `run` does its work in a context of its own, with unit_fail, and gives how many calls that took; about
 * `most` of them fail. */
static inline void unit_fail_each(long (*run)(long at, bool once), long most)
{
    const long calls = run(0, false);
    for (long at = 1; at <= calls; at += 1 + (calls - 1) / most) {
        run(at, false);
        run(at, true);
    }
}

/* `work` sets y[n] in a context of its own, in which each allocation fails: what fails has no memory, and nothing is
 * lost. */
typedef void (*unit_work)(tp_ctx *tp, tp_tensor **y);
static inline long unit_work_with(unit_work work, int n, long at, bool once)
{
    enum { MOST = 8 };
    unit_memory memory = {0};
    tp_ctx *tp = unit_open(&memory);
    tp_tensor *y[MOST];
    assert_non_null(tp);
    assert_true(n <= MOST);
    const long before = memory.calls;
    unit_fail(&memory, at, once);
    work(tp, y);
    const long calls = memory.calls - before;
    unit_fail(&memory, 0, false);
    for (int i = 0; i < n; i++)
        if (tp_failed(y[i]) && tp_error(tp) != TP_E_MEMORY)
            fail_msg("result %d, allocation %ld%s: %s", i, at, once ? " alone" : "",
                     tp_error_message(tp));
    unit_close(tp, &memory);
    return calls;
}
static inline void unit_no_memory(unit_work work, int n)
{
    const long calls = unit_work_with(work, n, 0, false);
    for (long at = 1; at <= calls; at += calls > 2000 ? 7 : 1) {
        unit_work_with(work, n, at, false);
        unit_work_with(work, n, at, true);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, unit_setup, unit_teardown)

/* The context's error is `status`, its text ends in `text` and names this file; it is cleared. */
static inline void unit_expect(tp_ctx *tp, tp_status status, const char *text, int line)
{
    const char *message = tp_error_message(tp);
    const size_t n = strlen(message), m = strlen(text);
    if (tp_error(tp) != status || n < m || strcmp(message + n - m, text) != 0)
        fail_msg("line %d: expected %s \"...%s\", got %s \"%s\"", line, tp_status_name(status),
                 text, tp_status_name(tp_error(tp)), message);
    tp_clear_error(tp);
}
#define EXPECT_ERROR(tp, status, text) unit_expect((tp), (status), (text), __LINE__)

/* The same of a text that has `part` in it. */
static inline void unit_expect_part(tp_ctx *tp, tp_status status, const char *part, int line)
{
    if (tp_error(tp) != status || !strstr(tp_error_message(tp), part))
        fail_msg("line %d: expected %s \"...%s...\", got %s \"%s\"", line,
                 tp_status_name(status), part, tp_status_name(tp_error(tp)),
                 tp_error_message(tp));
    tp_clear_error(tp);
}
#define EXPECT_ERROR_WITH(tp, status, part) unit_expect_part((tp), (status), (part), __LINE__)

/* xorshift64*: the same numbers everywhere. */
static inline uint64_t unit_random(uint64_t *s)
{
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return *s * UINT64_C(0x2545f4914f6cdd1d);
}

/* From 0 to below n. */
static inline int unit_below(uint64_t *s, int n)
{
    return (int)((unit_random(s) >> 33) % (uint64_t)n);
}

#endif
