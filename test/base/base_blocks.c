/* Blocks of the allocator: aligned and apart in every build; under the address sanitizer what is done
 * past the end of one, or after it was given back, ends the process with a report. */
#include "base/bump.h"
#include "common/unit.h"
#include "core/core.h"
#include "tapir/tapir.h"

#include <sys/wait.h>
#include <unistd.h>

enum { N_BLOCKS = 300 };

/* Sizes on either side of every class. */
static size_t size_of(int i)
{
    return i < 200 ? (size_t)i * 9 : (size_t)(i - 199) * 700 + (size_t)(i % 3);
}

static void apart(void **state)
{
    tp_ctx *tp = *state;
    unsigned char *block[N_BLOCKS];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N_BLOCKS; i++) {
            block[i] = tpi_take(&tp->mem, size_of(i));
            assert_non_null(block[i]);
            assert_int_equal((uintptr_t)block[i] % 64, 0);
            memset(block[i], i % 251, size_of(i));
        }
        for (int i = 0; i < N_BLOCKS; i++) {
            for (size_t k = 0; k < size_of(i); k++)
                if (block[i][k] != i % 251)
                    fail_msg("byte %zu of block %d of %zu was written by another", k, i,
                             size_of(i));
            tpi_give_back(&tp->mem, block[i], size_of(i));
        }
    }
}

#ifdef TPI_ADDRESS_SANITIZER

static void past_a_block(tp_ctx *tp)
{
    volatile char *p = tpi_take(&tp->mem, 64);
    p[64] = 1;
}

static void past_an_odd_block(tp_ctx *tp)
{
    volatile char *p = tpi_take(&tp->mem, 1000);
    p[1000] = 1;
}

static void after_a_block(tp_ctx *tp)
{
    volatile char *p = tpi_take(&tp->mem, 100);
    tpi_give_back(&tp->mem, (void *)p, 100);
    p[3] = 1;
}

static void past_elements(tp_ctx *tp)
{
    volatile float *p = (float *)tp_data(tp_full(tp, TP_F32, TP_DIMS(3, 5), 1));
    p[15] = 1;
}

static void before_a_resize(tp_ctx *tp)
{
    volatile char *p = tpi_take(&tp->mem, 40);
    assert_non_null(tpi_resize(&tp->mem, (void *)p, 40, 41));
    p[0] = 1;
}

static void after_a_scope(tp_ctx *tp)
{
    tp_scope_begin(tp);
    volatile float *p = (float *)tp_data(tp_full(tp, TP_F32, TP_DIMS(3, 5), 1));
    tp_scope_end(tp);
    p[0] = p[1];
}

static void past_a_header(tp_ctx *tp)
{
    volatile char *p = (char *)tp_scalar(tp, TP_F32, 1);
    p[sizeof(tp_tensor)] = 1;
}

static void a_dead_header(tp_ctx *tp)
{
    tp_scope_begin(tp);
    tp_tensor *t = tp_scalar(tp, TP_F32, 1);
    tp_scope_end(tp);
    assert_int_equal(tp_status_of(t), TP_E_STATE); /* this much is known of it */
    *(volatile int64_t *)&t->shape[0] = 1;
}

static void past_a_piece(tp_ctx *tp)
{
    tpi_bump b = TPI_BUMP(&tp->mem);
    volatile char *p = tpi_bump_take(&b, 3, 7), *q = tpi_bump_take(&b, 1, 64);
    p[20] = q[63] = 1;
    p[21] = 1;
}

static void past_all_pieces(tp_ctx *tp)
{
    tpi_bump b = TPI_BUMP(&tp->mem);
    volatile char *p = tpi_bump_take(&b, 1, 64);
    p[1000] = 1;
}

/* What the sanitizer says in a child that does it. */
static void expect_report(tp_ctx *tp, void (*wrong)(tp_ctx *tp), const char *kind)
{
    char text[4096];
    size_t n = 0;
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        wrong(tp);
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got = 1; got > 0 && n + 1 < sizeof text; n += (size_t)(got > 0 ? got : 0))
        got = read(ends[0], text + n, sizeof text - 1 - n);
    text[n] = 0;
    close(ends[0]); /* the rest of a long report is not waited for */
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status == 0 || !strstr(text, kind))
        fail_msg("no report of %s, but status %d and: %s", kind, status, text);
}

static void reported(void **state)
{
    expect_report(*state, past_a_block, "heap-buffer-overflow");
    expect_report(*state, past_an_odd_block, "heap-buffer-overflow");
    expect_report(*state, past_elements, "heap-buffer-overflow");
    expect_report(*state, after_a_block, "heap-use-after-free");
    expect_report(*state, before_a_resize, "heap-use-after-free");
    expect_report(*state, after_a_scope, "heap-use-after-free");
    expect_report(*state, past_a_header, "use-after-poison");
    expect_report(*state, a_dead_header, "use-after-poison");
    expect_report(*state, past_a_piece, "use-after-poison");
    expect_report(*state, past_all_pieces, "use-after-poison");
}

#endif

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(apart),
#ifdef TPI_ADDRESS_SANITIZER
        CASE(reported),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
