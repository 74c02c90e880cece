/* Runs a fuzz target as a plain test: every file of a corpus folder, then mutations of them
 * that are the same on every machine.
 *
 *     fuzz_NAME FOLDER N         all files, the empty input, and N mutations
 *     fuzz_NAME FOLDER N ONLY    input number ONLY of those, alone
 *
 * A crash names the input's number and the command that repeats it. */
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Of the sanitizers' runtime, when it is linked. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

#define MOST_BYTES ((size_t)1 << 20)

typedef struct input {
    char *name;
    uint8_t *data;
    size_t size;
} input;

static const char *program, *folder, *count; /* as given */
static char last_words[1024];                /* printed if the input that runs now crashes */
static size_t last_words_size;

static void say_last_words(void)
{
    if (write(2, last_words, last_words_size) < 0)
        _exit(3);
}

static void on_signal(int number)
{
    say_last_words();
    signal(number, SIG_DFL);
    raise(number);
}

static void fail(const char *what, const char *which)
{
    fprintf(stderr, "fuzz: %s: %s\n", which, what);
    exit(2);
}

static void *must(void *p)
{
    if (!p)
        fail("out of memory", program);
    return p;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const input *)a)->name, ((const input *)b)->name);
}

static void load(input *in, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    if (!f)
        fail("cannot be opened", path);
    in->name = must(strdup(name));
    in->data = must(malloc(MOST_BYTES));
    in->size = fread(in->data, 1, MOST_BYTES, f);
    if (ferror(f) || !feof(f))
        fail("cannot be read, or is over 1 MiB", path);
    fclose(f);
}

static size_t load_all(input **all)
{
    size_t n = 1;
    input *in = must(calloc(1, sizeof *in)); /* input 0 is the empty one */
    in[0].name = must(strdup(""));
    in[0].data = must(malloc(1));
    DIR *dir = opendir(folder);
    if (!dir)
        fail("no such folder", folder);
    for (const struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        in = must(realloc(in, (n + 1) * sizeof *in));
        load(&in[n++], e->d_name);
    }
    closedir(dir);
    qsort(in, n, sizeof *in, by_name); /* readdir has no order */
    *all = in;
    return n;
}

static uint64_t next(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static size_t below(uint64_t *state, size_t n)
{
    return n ? (size_t)(next(state) % n) : 0;
}

/* One to eight edits: flip, set, insert, remove, or copy a piece of another input over. */
static size_t mutate(uint8_t *d, size_t size, const input *all, size_t n_all, uint64_t seed)
{
    static const uint8_t odd[] = {0, 1, 0x7f, 0x80, 0xff, '0', '9', '-', '"', '\n', '%', '['};
    uint64_t s = seed;
    for (size_t edits = 1 + below(&s, 8); edits--;) {
        const size_t at = below(&s, size + 1);
        const size_t room = MOST_BYTES - size, rest = size - at;
        switch (next(&s) % 6) {
        case 0:
            if (rest)
                d[at] ^= (uint8_t)(1u << (next(&s) % 8));
            break;
        case 1:
            if (rest)
                d[at] = odd[below(&s, sizeof odd)];
            break;
        case 2: {
            const size_t n = 1 + below(&s, 8);
            if (n > room)
                break;
            memmove(d + at + n, d + at, rest);
            for (size_t i = 0; i < n; i++)
                d[at + i] = (uint8_t)next(&s);
            size += n;
            break;
        }
        case 3: {
            const size_t n = below(&s, (rest < 32 ? rest : 32) + 1);
            memmove(d + at, d + at + n, rest - n);
            size -= n;
            break;
        }
        case 4: { /* repeat what stands here: long numbers, deep nesting */
            const size_t n = below(&s, (rest < 64 ? rest : 64) + 1);
            if (n > room)
                break;
            memmove(d + at + n, d + at, rest);
            size += n;
            break;
        }
        default: {
            const input *other = &all[below(&s, n_all)];
            const size_t from = below(&s, other->size + 1);
            size_t n = below(&s, other->size - from + 1);
            if (n > MOST_BYTES - at)
                n = MOST_BYTES - at;
            memcpy(d + at, other->data + from, n);
            if (at + n > size)
                size = at + n;
        }
        }
    }
    return size;
}

/* A copy of just this size, so that reading past its end is seen by the sanitizer. */
static void run(size_t number, const char *from, const uint8_t *data, size_t size)
{
    const int n = snprintf(last_words, sizeof last_words,
                           "\ninput %zu, from \"%s\"; repeat it with: %s %s %s %zu\n", number,
                           from, program, folder, count, number);
    last_words_size = n < 0 || (size_t)n >= sizeof last_words ? 0 : (size_t)n;

    uint8_t *exact = must(malloc(size ? size : 1));
    memcpy(exact, data, size);
    if (LLVMFuzzerTestOneInput(exact, size)) {
        say_last_words();
        fail("the target refused an input", program);
    }
    free(exact);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        fail("usage: fuzz_NAME FOLDER N [ONLY]", argv[0]);
    program = argv[0];
    folder = argv[1];
    count = argv[2];
    const size_t n_mutations = strtoul(count, NULL, 10);

    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(say_last_words);
    } else {
        signal(SIGSEGV, on_signal);
        signal(SIGBUS, on_signal);
        signal(SIGFPE, on_signal);
        signal(SIGILL, on_signal);
    }
    signal(SIGABRT, on_signal);

    input *all;
    const size_t n_all = load_all(&all);
    const size_t first = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    const size_t end = argc > 3 ? first + 1 : n_all + n_mutations;
    uint8_t *buffer = must(malloc(MOST_BYTES));
    for (size_t i = first; i < end; i++) {
        uint64_t seed = i;
        const input *in = &all[i < n_all ? i : below(&seed, n_all)];
        memcpy(buffer, in->data, in->size);
        const size_t size = i < n_all ? in->size : mutate(buffer, in->size, all, n_all, seed);
        run(i, in->name, buffer, size);
    }
    printf("%zu inputs, %zu of them files of %s\n", end - first, n_all - 1, folder);

    for (size_t i = 0; i < n_all; i++) {
        free(all[i].name);
        free(all[i].data);
    }
    free(all);
    free(buffer);
    return 0;
}
