/*
 * Every allocation is identified by the stack that it is requested from. The lines that have failed are found from the
 * return addresses, through addr2line; the existing lines, by reading the sources. A line that allocates twice must
 * have failed at two addresses.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/unit/memory/scarcity.h"

#include <execinfo.h>
#include <fftw3.h>
#include <ftw.h>
#include <gsl/gsl_roots.h>
#include <lapacke.h>
#include <pthread.h>
#include <regex.h>
#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/test.h"

enum { DEPTH = SCARCITY_WHOLE + 8, SITES_MAX = 4096, LINES_MAX = 1024, ASKED_AT_ONCE = 128, TRIES = 4 };

static struct {
    pthread_mutex_t mutex;
    bool counting, for_ever, struck, fresh;
    size_t count, nth, depth;
    ptrdiff_t live; /* blocks of our own code */
    uint64_t *stacks;
    const char **callers; /* [request]: its return address, beside the hash of its stack */
    size_t stacks_capacity;
    const char *sites[SITES_MAX]; /* return addresses of those that failed */
    size_t sites_len;
    void *stack[DEPTH]; /* of the first that failed */
    int stack_len;
} now = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Inside a call of ours that is treated as a whole, every request succeeds. */
static _Thread_local bool within;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void __real_free(void *block);

/* ------------------------------------------------------------ who asks */

/* From the frames of the call site on. */
static uint64_t stack_hash(const char *site)
{
    void *frames[DEPTH];
    int len = backtrace(frames, DEPTH), first = 0;
    uint64_t hash = 0xcbf29ce484222325u;
    while (first + 1 < len && frames[first] != site)
        first++;
    for (int i = first; i < len && i < first + (int)now.depth; i++)
        hash = (hash ^ (uint64_t)(uintptr_t)frames[i]) * 0x100000001b3u;
    return hash;
}

static void note_stack(uint64_t hash, const char *site)
{
    if (now.count > now.stacks_capacity) {
        now.stacks_capacity = 2 * now.count;
        now.stacks = __real_realloc(now.stacks, now.stacks_capacity * sizeof *now.stacks);
        now.callers = __real_realloc(now.callers, now.stacks_capacity * sizeof *now.callers);
        if (!now.stacks || !now.callers)
            abort();
    }
    now.stacks[now.count - 1] = hash;
    now.callers[now.count - 1] = site;
}

static bool has_failed(const char *site)
{
    for (size_t i = 0; i < now.sites_len; i++)
        if (now.sites[i] == site)
            return true;
    return false;
}

static void note_site(const char *site)
{
    if (has_failed(site))
        return;
    if (now.sites_len == SITES_MAX)
        abort();
    now.sites[now.sites_len++] = site;
}

/* Whether the allocation that is requested here fails. */
static bool fails(const char *site)
{
    if (within)
        return false;
    pthread_mutex_lock(&now.mutex);
    bool fail = false;
    if (now.counting) {
        now.count++;
        if (now.nth == 0)
            note_stack(stack_hash(site), site);
        fail = now.count == now.nth || (now.for_ever && now.nth > 0 && now.count > now.nth);
        if (fail && !now.struck)
            now.stack_len = backtrace(now.stack, DEPTH);
        now.struck |= fail;
        if (fail)
            note_site(site);
    }
    pthread_mutex_unlock(&now.mutex);
    return fail;
}

static void *held(void *block, ptrdiff_t change)
{
    if (block && !within)
        __atomic_add_fetch(&now.live, change, __ATOMIC_RELAXED);
    return block;
}

void scarcity_begin(size_t nth, bool for_ever)
{
    pthread_mutex_lock(&now.mutex);
    now.nth = nth;
    now.for_ever = for_ever;
    now.count = 0;
    now.struck = false;
    now.counting = true;
    pthread_mutex_unlock(&now.mutex);
}

size_t scarcity_end(void)
{
    pthread_mutex_lock(&now.mutex);
    now.counting = false;
    size_t count = now.count;
    pthread_mutex_unlock(&now.mutex);
    return count;
}

bool scarcity_struck(void)
{
    return now.struck;
}

void *scarcity_give(size_t size)
{
    void *block = __real_malloc(size ? size : 1);
    if (!block)
        abort();
    return held(block, 1);
}

/* ------------------------------------------------------------ our own code's calls */

#define SITE ((const char *)__builtin_return_address(0))

void *__wrap_malloc(size_t size)
{
    return fails(SITE) ? NULL : held(__real_malloc(size), 1);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails(SITE) ? NULL : held(__real_calloc(count, size), 1);
}

void *__wrap_realloc(void *block, size_t size)
{
    return fails(SITE) ? NULL : held(__real_realloc(block, size), block ? 0 : 1);
}

char *__wrap_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = fails(SITE) ? NULL : held(__real_malloc(size), 1);
    return copy ? memcpy(copy, text, size) : NULL;
}

void __wrap_free(void *block)
{
    held(block, -1);
    __real_free(block);
}

void __real_fftw_free(void *block);

void __wrap_fftw_free(void *block)
{
    held(block, -1);
    __real_fftw_free(block);
}

/* ------------------------------------------------------------ calls that fail as a whole */

/* `failure` is what a failing call returns; `owns` says whether the call makes a block. */
#define WRAP(type, name, parameters, failure, owns, ...) \
    type __real_##name parameters;                       \
    type __wrap_##name parameters                        \
    {                                                    \
        if (fails(SITE))                                 \
            return failure;                              \
        bool outer = within;                             \
        within = true;                                   \
        type made = __real_##name(__VA_ARGS__);          \
        within = outer;                                  \
        if (owns)                                        \
            held((void *)(uintptr_t)made, 1);            \
        return made;                                     \
    }

WRAP(double *, fftw_alloc_real, (size_t n), NULL, true, n)
WRAP(fftw_complex *, fftw_alloc_complex, (size_t n), NULL, true, n)
WRAP(double *, eps__fft_alloc_real, (size_t n), NULL, true, n)
WRAP(fftw_complex *, eps__fft_alloc_complex, (size_t n), NULL, true, n)
WRAP(char *, fftw_sprint_plan, (fftw_plan plan), NULL, true, plan)
WRAP(fftw_plan, fftw_plan_dft_r2c_1d, (int n, double *in, fftw_complex *out, unsigned flags), NULL, false, n, in, out,
     flags)
WRAP(fftw_plan, fftw_plan_dft_c2r_1d, (int n, fftw_complex *in, double *out, unsigned flags), NULL, false, n, in, out,
     flags)
WRAP(gsl_root_fsolver *, gsl_root_fsolver_alloc, (const gsl_root_fsolver_type *type), NULL, false, type)
WRAP(lapack_int, LAPACKE_dsyevd,
     (int layout, char job, char half, lapack_int n, double *a, lapack_int lda, double *values),
     LAPACK_WORK_MEMORY_ERROR, false, layout, job, half, n, a, lda, values)
WRAP(lapack_int, LAPACKE_dgesdd,
     (int layout, char job, lapack_int m, lapack_int n, double *a, lapack_int lda, double *s, double *u, lapack_int ldu,
      double *vt, lapack_int ldvt),
     LAPACK_WORK_MEMORY_ERROR, false, layout, job, m, n, a, lda, s, u, ldu, vt, ldvt)
WRAP(lapack_int, LAPACKE_dgecon,
     (int layout, char norm, lapack_int n, const double *a, lapack_int lda, double anorm, double *reciprocal),
     LAPACK_WORK_MEMORY_ERROR, false, layout, norm, n, a, lda, anorm, reciprocal)
WRAP(lapack_int, LAPACKE_dgetri, (int layout, lapack_int n, double *a, lapack_int lda, const lapack_int *pivots),
     LAPACK_WORK_MEMORY_ERROR, false, layout, n, a, lda, pivots)

/* ------------------------------------------------------------ SQLite's hooks */

/* SQLite asks for the size of its blocks; what it keeps for itself is no leak of ours, and is not counted. */
static void *sqlite_malloc(int size)
{
    size_t *block = fails(SITE) ? NULL : __real_malloc(sizeof(max_align_t) + (size_t)size);
    if (!block)
        return NULL;
    *block = (size_t)size;
    return (char *)block + sizeof(max_align_t);
}

static void sqlite_free(void *block)
{
    if (block)
        __real_free((char *)block - sizeof(max_align_t));
}

static int sqlite_size(void *block)
{
    return block ? (int)*(size_t *)(void *)((char *)block - sizeof(max_align_t)) : 0;
}

static void *sqlite_realloc(void *block, int size)
{
    size_t *grown =
        fails(SITE) ? NULL : __real_realloc((char *)block - sizeof(max_align_t), sizeof(max_align_t) + (size_t)size);
    if (!grown)
        return NULL;
    *grown = (size_t)size;
    return (char *)grown + sizeof(max_align_t);
}

static int sqlite_round(int size)
{
    return (size + 15) & ~15;
}

static int sqlite_init(void *unused)
{
    (void)unused;
    return SQLITE_OK;
}

static void sqlite_shutdown(void *unused)
{
    (void)unused;
}

void scarcity_hook_sqlite(void)
{
    static const sqlite3_mem_methods methods = {.xMalloc = sqlite_malloc,
                                                .xFree = sqlite_free,
                                                .xRealloc = sqlite_realloc,
                                                .xSize = sqlite_size,
                                                .xRoundup = sqlite_round,
                                                .xInit = sqlite_init,
                                                .xShutdown = sqlite_shutdown};
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &methods), SQLITE_OK);
}

/* ------------------------------------------------------------ each in turn */

static void run_one(void (*body)(void *user), void (*check)(void *user, bool struck), void *user, size_t nth,
                    bool for_ever, bool first)
{
    ptrdiff_t before = now.live;
    scarcity_begin(nth, for_ever);
    body(user);
    scarcity_end();
    check(user, now.struck);
    if (now.live != before && !first)
        fail_msg("%td blocks were left behind where allocation %zu failed%s", now.live - before, nth,
                 for_ever ? ", and all after it" : "");
}

static bool is_chosen(size_t at, size_t count, bool all)
{
    size_t before = 0, after = 0;
    if (now.fresh && has_failed(now.callers[at]))
        return all;
    for (size_t i = 0; i < count && !all; i++)
        if (now.stacks[i] == now.stacks[at])
            *(i < at ? &before : &after) += i != at;
    return before == 0 || (now.depth == SCARCITY_WHOLE && (before == 1 || after == 0));
}

size_t scarcity_each(void (*body)(void *user), void (*check)(void *user, bool struck), void *user, size_t depth)
{
    now.fresh = depth == SCARCITY_FRESH;
    now.depth = now.fresh ? 1 : depth < SCARCITY_WHOLE ? depth : SCARCITY_WHOLE;
    run_one(body, check, user, 0, false, true); /* allocations that a process makes once */
    run_one(body, check, user, 0, false, false);
    size_t count = now.count, runs = 0;
    bool all = getenv("SCARCITY_ALL") != NULL;
    bool *chosen = __real_calloc(count + 1, sizeof *chosen);
    uint64_t *stacks = __real_calloc(count + 1, sizeof *stacks);
    if (!chosen || !stacks)
        abort();
    for (size_t i = 0; i < count; i++) {
        chosen[i] = is_chosen(i, count, all);
        stacks[i] = now.stacks[i];
    }
    for (size_t i = 0; i < count; i++)
        for (int for_ever = 0; chosen[i] && for_ever < 2; for_ever++)
            for (int tries = 0; tries < TRIES; tries++) {
                run_one(body, check, user, i + 1, for_ever, false);
                runs += now.struck;
                if (!now.struck || now.stacks[i] == stacks[i])
                    break; /* otherwise another thread has asked in between: it is the wrong request */
            }
    __real_free(chosen);
    __real_free(stacks);
    return runs;
}

/* ------------------------------------------------------------ which lines */

struct line {
    char place[160]; /* "lib/solve/solve.c:152" */
    char text[200];
    size_t asks, struck;
};

static struct {
    regex_t asking;
    struct line lines[LINES_MAX];
    size_t len;
} sources;

static int read_source(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status, (void)walk;
    size_t len = strlen(path);
    if (type != FTW_F || len < 2 || strcmp(path + len - 2, ".c") != 0)
        return 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char text[512];
    for (size_t number = 1; fgets(text, sizeof text, file); number++) {
        size_t asks = 0;
        regmatch_t match;
        for (const char *at = text; regexec(&sources.asking, at, 1, &match, 0) == 0; at += match.rm_eo)
            asks++;
        if (!asks || strncmp(text, "    ", 4) != 0) /* calls are indented, comments and definitions are not */
            continue;
        assert_true(sources.len < LINES_MAX);
        struct line *line = &sources.lines[sources.len++];
        *line = (struct line){.asks = asks};
        snprintf(line->place, sizeof line->place, "%s:%zu", path, number);
        snprintf(line->text, sizeof line->text, "%.*s", (int)strcspn(text, "\n"), text);
    }
    fclose(file);
    return 0;
}

/* The output of addr2line for the addresses in this program, one line each; an address is a return address, after its
 * call. */
static FILE *places_of(const char *const *sites, size_t len, const char *options)
{
    extern const char __executable_start, etext;
    char command[64 + 20 * ASKED_AT_ONCE];
    int used = snprintf(command, sizeof command, "addr2line -e /proc/%d/exe %s", (int)getpid(), options);
    assert_true(len <= ASKED_AT_ONCE);
    for (size_t i = 0; i < len; i++)
        if (sites[i] >= &__executable_start && sites[i] <= &etext)
            used += snprintf(command + used, sizeof command - (size_t)used, " %tx", sites[i] - 1 - &__executable_start);
    FILE *told = popen(command, "r");
    assert_non_null(told);
    return told;
}

void scarcity_explain(char *text, size_t size)
{
    FILE *told = places_of((const char *const *)now.stack, (size_t)now.stack_len, "-s -f -i -p");
    char line[512];
    size_t used = 0;
    text[0] = '\0';
    while (fgets(line, sizeof line, told))
        if (used + strlen(line) + 8 < size && !strstr(line, "scarcity"))
            used += (size_t)snprintf(text + used, size - used, "#     %s", line);
    pclose(told);
}

static void count_struck(void)
{
    char text[512];
    for (size_t next = 0; next < now.sites_len; next += ASKED_AT_ONCE) {
        size_t left = now.sites_len - next;
        FILE *told = places_of(now.sites + next, left < ASKED_AT_ONCE ? left : ASKED_AT_ONCE, "");
        while (fgets(text, sizeof text, told)) {
            text[strcspn(text, " \n")] = '\0';
            size_t whole = strlen(text);
            for (size_t i = 0; i < sources.len; i++) {
                size_t place = strlen(sources.lines[i].place);
                if (whole > place && text[whole - place - 1] == '/' &&
                    strcmp(text + whole - place, sources.lines[i].place) == 0)
                    sources.lines[i].struck++;
            }
        }
        assert_int_equal(pclose(told), 0);
    }
}

size_t scarcity_unstruck(const char *folder, const struct scarcity_exception *exceptions, size_t len, size_t *total)
{
    static const char asking[] = "(^|[^_a-z])(malloc|calloc|realloc|strdup|fftw_alloc_[a-z]*|eps__fft_alloc_[a-z]*|"
                                 "fftw_plan_dft_[a-z0-9_]*|fftw_sprint_plan|gsl_[a-z_]*_alloc|"
                                 "LAPACKE_d(syevd|gesdd|gecon|getri))\\(";
    assert_int_equal(regcomp(&sources.asking, asking, REG_EXTENDED), 0);
    sources.len = 0;
    assert_int_equal(nftw(folder, read_source, 16, FTW_PHYS), 0);
    regfree(&sources.asking);
    count_struck();
    size_t wrong = 0;
    bool used[64] = {false};
    assert_true(len <= 64);
    for (size_t i = 0; i < sources.len; i++) {
        const struct line *line = &sources.lines[i];
        size_t named = 0;
        while (named < len && !(strncmp(line->place, exceptions[named].file, strlen(exceptions[named].file)) == 0 &&
                                strstr(line->text, exceptions[named].text)))
            named++;
        if (named < len)
            used[named] = true;
        if (line->struck >= line->asks || named < len)
            continue;
        wrong++;
        print_error("# %s: %zu of %zu struck: %s\n", line->place, line->struck, line->asks, line->text);
    }
    for (size_t i = 0; i < len; i++) {
        wrong += !used[i];
        if (!used[i])
            print_error("# no line is the exception %s: %s\n", exceptions[i].file, exceptions[i].text);
    }
    *total = sources.len;
    return wrong;
}
