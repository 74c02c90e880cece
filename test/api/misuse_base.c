/* Misuse of base.h. */
#include "misuse.h"

/* Each case's head looks like a call to it. */
/* clang-format off */

MISUSE(tp_status_name)
{
    (void)b, (void)what;
    assert_string_equal(tp_status_name(TP_N_STATUS), "?");
    assert_string_equal(tp_status_name((tp_status)-1), "?");
    for (int s = 0; s < TP_N_STATUS; s++)
        assert_string_not_equal(tp_status_name((tp_status)s), "?");
}

MISUSE(tp_version)
{
    (void)b, (void)what;
    int major, minor, patch;
    assert_int_equal(sscanf(tp_version(), "%d.%d.%d", &major, &minor, &patch), 3);
}

static void *no_memory(void *user, size_t size)
{
    (void)user, (void)size;
    return NULL;
}

MISUSE(tp_open)
{
    (void)b, (void)what;
    const tp_allocator none = {no_memory, unit_release, NULL};
    assert_null(tp_open(&(tp_options){.allocator = &none}));
    tp_ctx *plain = tp_open(NULL);
    assert_non_null(plain);
    tp_close(plain);
    tp_ctx *odd = tp_open(&(tp_options){.cache_dir = "", .compiler = "", .seed = UINT64_MAX});
    assert_non_null(odd);
    tp_close(odd);
}

MISUSE(tp_close)
{
    (void)b, (void)what;
    tp_close(NULL);
}

MISUSE(tp_trim)
{
    const size_t in_use = tp_memory_bytes(b->tp);
    tp_trim(NULL);
    tp_trim(b->tp);
    tp_trim(b->tp);
    assert_int_equal(tp_memory_bytes(b->tp), in_use);
}

MISUSE(tp_threads)
{
    assert_int_equal(tp_threads(NULL, 3), 0);
    assert_int_equal(tp_threads(b->tp, 0), 1);
    assert_int_equal(tp_threads(b->tp, -7), 1);
    assert_in_range(tp_threads(b->tp, 1000000), 1, 256);
    assert_int_equal(tp_threads(b->tp, 1), 1);
    assert_int_equal(tp_error(b->tp), TP_OK);
}

MISUSE(tp_seed)
{
    (void)what;
    tp_seed(NULL, 3);
    tp_seed(b->tp, UINT64_MAX);
    assert_false(tp_failed(tp_uniform(b->tp, TP_F32, TP_DIMS(3), 0, 1)));
}

MISUSE(tp_split_seed)
{
    assert_true(tp_split_seed(0, 0) != tp_split_seed(UINT64_MAX, UINT64_MAX)); /* any numbers will do */
}

MISUSE(tp_random_stream)
{
    assert_true(tp_random_stream(NULL, 3) == 0);
    assert_true(tp_random_stream(b->tp, UINT64_MAX - 1) == 0);
    BAD_BARE(b, TP_E_VALUE, SAYS(tp_random_stream(b->tp, UINT64_MAX) == UINT64_MAX - 1));
    assert_true(tp_random_stream(b->tp, 0) == UINT64_MAX - 1);
}

MISUSE(tp_random_position)
{
    (void)what;
    uint64_t seed = 1, position = 1;
    tp_random_position(NULL, &seed, &position);
    assert_true(seed == 0 && position == 0);
    tp_random_position(NULL, NULL, NULL);
    tp_random_position(b->tp, NULL, NULL);
    assert_int_equal(tp_error(b->tp), TP_OK);
}

MISUSE(tp_set_random_position)
{
    (void)what;
    tp_set_random_position(NULL, 3, 4);
    tp_set_random_position(b->tp, UINT64_MAX, UINT64_MAX); /* goes round */
    assert_false(tp_failed(tp_uniform(b->tp, TP_F32, TP_DIMS(30), 0, 1)));
}

MISUSE(tp_training)
{
    (void)what;
    assert_false(tp_training(NULL, true));
    assert_true(tp_training(b->tp, true));
}

MISUSE(tp_trains)
{
    (void)what;
    assert_false(tp_trains(NULL));
    assert_true(tp_trains(b->tp));
}

MISUSE(tp_trap_nan)
{
    (void)what;
    assert_false(tp_trap_nan(NULL, true));
    assert_false(tp_trap_nan(b->tp, true));
    assert_true(tp_trap_nan(b->tp, false));
}

MISUSE(tp_memory_bytes)
{
    (void)what;
    assert_int_equal(tp_memory_bytes(NULL), 0);
    assert_true(tp_memory_bytes(b->tp) > 0);
}

MISUSE(tp_alloc)
{
    assert_null(tp_alloc(NULL, 3));
    BAD_BARE(b, TP_E_MEMORY, tp_alloc(b->tp, SIZE_MAX));
    BAD_BARE(b, TP_E_MEMORY, tp_alloc(b->tp, SIZE_MAX - 8));
    BAD_BARE(b, TP_E_MEMORY, tp_alloc(b->tp, SIZE_MAX / 2 + 1));
    char *p = tp_alloc(b->tp, 0);
    assert_non_null(p); /* left to tp_close */
}

MISUSE(tp_free)
{
    (void)what;
    tp_free(NULL, NULL);
    tp_free(b->tp, NULL);
    void *p = tp_alloc(b->tp, 70000);
    tp_free(NULL, p);
    tp_free(b->tp, p);
}

MISUSE(tp_error)
{
    (void)b, (void)what;
    assert_int_equal(tp_error(NULL), TP_E_NULL);
}

MISUSE(tp_error_message)
{
    (void)what;
    assert_string_equal(tp_error_message(NULL), "the context is NULL");
    assert_string_equal(tp_error_message(b->tp), "");
    tp_add(b->f, b->t);
    char first[400];
    snprintf(first, sizeof first, "%s", tp_error_message(b->tp));
    tp_cast(b->f, TP_N_DTYPES); /* the first stays */
    assert_string_equal(tp_error_message(b->tp), first);
    tp_clear_error(b->tp);
}

MISUSE(tp_clear_error)
{
    (void)what;
    tp_clear_error(NULL);
    tp_clear_error(b->tp);
}

MISUSE(tp_interrupt)
{
    tp_interrupt(NULL);
    tp_interrupt(b->tp);
    tp_interrupt(b->tp);
    assert_int_equal(tp_error(b->tp), TP_OK);
    BAD_AS(b, "tp_truth", TP_E_STOPPED, SAYS(!tp_truth(tp_scalar(b->tp, TP_F32, 1))));
}

MISUSE(tp_abandon)
{
    (void)what;
    tp_abandon(NULL);
    tp_abandon(b->tp);
    tp_abandon(b->tp);
    assert_int_equal(tp_error(b->tp), TP_OK);
}

MISUSE(tp_fail)
{
    what = "";
    assert_true(tp_failed(tp_fail(NULL, TP_E_VALUE, "x")));
    BAD(b, TP_E_VALUE, tp_fail(b->tp, TP_OK, "x"));
    BAD(b, TP_E_VALUE, tp_fail(b->tp, TP_N_STATUS, "x"));
    BAD(b, TP_E_SHAPE, tp_fail(b->tp, TP_E_SHAPE, NULL));
    BAD(b, TP_E_SHAPE, tp_fail(b->tp, TP_E_SHAPE, "%s%n"));
}

MISUSE(tp_scope_begin)
{
    (void)b, (void)what;
    assert_int_equal(tp_scope_begin(NULL), TP_E_NULL);
}

MISUSE(tp_scope_end)
{
    assert_int_equal(tp_scope_end(NULL), TP_E_NULL);
    BAD(b, TP_E_STATE, tp_scope_end(b->tp));
    tp_tensor *v = b->f;
    tp_for (1, &v) {
        BAD(b, TP_E_STATE, tp_scope_end(b->tp)); /* the turn's */
    }
}

MISUSE(tp_callback_begin)
{
    (void)what; /* the errors are those of scopes */
    tp_callback none = tp_callback_begin(NULL, "none");
    assert_ptr_equal(tp_callback_end(&none, b->f), b->f);
    tp_callback c = tp_callback_begin(b->tp, NULL);
    STICKS(b, tp_scope_end(b->tp));
    tp_scope_begin(b->tp);
    tp_tensor *y = tp_neg(b->f);
    tp_scope_begin(b->tp);
    assert_ptr_equal(tp_callback_end(&c, y), y);
    STICKS(b, tp_scope_end(b->tp));
    assert_false(tp_failed(tp_neg(y)));
    /* one inside, which is left open, ends with the other */
    c = tp_callback_begin(b->tp, "outer");
    const tp_callback inner = tp_callback_begin(b->tp, "inner");
    assert_ptr_equal(inner.tp, b->tp);
    assert_null(tp_callback_end(&c, NULL));
    tp_callback late = inner; /* a second end of it does nothing */
    assert_null(tp_callback_end(&late, NULL));
    assert_int_equal(tp_scope_begin(b->tp), TP_OK);
    assert_int_equal(tp_scope_end(b->tp), TP_OK);
}

MISUSE(tp_callback_end)
{
    (void)what;
    assert_ptr_equal(tp_callback_end(NULL, b->f), b->f);
    assert_null(tp_callback_end(NULL, NULL));
    tp_tensor *const odd[] = {b->failed, b->gone, b->foreign, b->node, b->f, tp_neg(NULL)};
    for (int i = 0; i < 6; i++) {
        tp_callback c = tp_callback_begin(b->tp, "odd");
        assert_ptr_equal(tp_callback_end(&c, odd[i]), odd[i]);
        assert_ptr_equal(tp_callback_end(&c, odd[i]), odd[i]); /* the second time nothing */
    }
}

MISUSE(tp_keep)
{
    assert_null(tp_keep(NULL));
    assert_ptr_equal(tp_keep(b->failed), b->failed);
    assert_ptr_equal(tp_keep(b->f), b->f); /* no scope is open */
    if (b->dead)
        BAD_BARE(b, TP_E_STATE, SAYS(tp_keep(b->dead) == b->dead));
    assert_ptr_equal(tp_keep(b->gone), b->gone);
    tp_tensor *nil = tp_neg(NULL);
    assert_ptr_equal(tp_keep(nil), nil);
}

MISUSE(tp_retain)
{
    assert_null(tp_retain(NULL));
    assert_ptr_equal(tp_retain(b->failed), b->failed); /* left to tp_close */
    assert_ptr_equal(tp_retain(b->failed), b->failed);
    assert_ptr_equal(tp_retain(b->f), b->f);
    assert_ptr_equal(tp_retain(b->f), b->f);
    assert_ptr_equal(tp_retain(b->f), b->f);
    assert_ptr_equal(tp_retain(b->gone), b->gone);
    if (b->dead)
        BAD_BARE(b, TP_E_STATE, SAYS(tp_retain(b->dead) == b->dead));
    tp_tensor *nil = tp_neg(NULL);
    assert_ptr_equal(tp_retain(nil), nil);
}

MISUSE(tp_release)
{
    tp_release(NULL);
    tp_release(tp_neg(NULL));
    BAD_BARE(b, TP_E_STATE, (tp_release(b->f), (tp_status)TP_E_STATE));
    tp_retain(b->f);
    tp_release(b->f);
    BAD_BARE(b, TP_E_STATE, (tp_release(b->f), (tp_status)TP_E_STATE));
    BAD_BARE(b, TP_E_STATE, (tp_release(b->dead), (tp_status)TP_E_STATE));
}

const misuse misuse_base[] = {
    LISTED(tp_status_name),
    LISTED(tp_version),
    LISTED(tp_open),
    LISTED(tp_close),
    LISTED(tp_threads),
    LISTED(tp_trim),
    LISTED(tp_seed),
    LISTED(tp_split_seed),
    LISTED(tp_random_stream),
    LISTED(tp_random_position),
    LISTED(tp_set_random_position),
    LISTED(tp_training),
    LISTED(tp_trains),
    LISTED(tp_trap_nan),
    LISTED(tp_memory_bytes),
    LISTED(tp_alloc),
    LISTED(tp_free),
    LISTED(tp_error),
    LISTED(tp_error_message),
    LISTED(tp_clear_error),
    LISTED(tp_interrupt),
    LISTED(tp_abandon),
    LISTED(tp_fail),
    LISTED(tp_scope_begin),
    LISTED(tp_scope_end),
    LISTED(tp_callback_begin),
    LISTED(tp_callback_end),
    LISTED(tp_keep),
    LISTED(tp_retain),
    LISTED(tp_release),
    {0},
};
