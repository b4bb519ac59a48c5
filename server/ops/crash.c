/*
 * The handler writes the line, restores the previous handler (of a sanitizer, or the default) and returns. A fault then
 * occurs again and ends the process as usual, with a core dump; a signal that was sent is raised again. The handler
 * neither allocates, locks nor formats. A signal sent by another process says nothing about the computation of the
 * thread that receives it, and leaves no line.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/ops/crash.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STACK_BYTES 65536

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { SIGNALS = sizeof signals / sizeof signals[0] };

static struct sigaction before[SIGNALS];
static int trace = -1;
static atomic_flag traced = ATOMIC_FLAG_INIT; /* only the first fault is recorded, as the cause */
static _Thread_local struct crash_scope scope;
static _Thread_local void *stack;

struct crash_scope crash_enter(const char *name)
{
    struct crash_scope outer = scope;
    struct crash_scope inner = {{0}};
    if (name)
        memcpy(inner.name, name, strnlen(name, CRASH_NAME_SIZE - 1));
    scope = inner;
    return outer;
}

void crash_leave(const struct crash_scope *outer)
{
    scope = *outer;
}

static void write_trace(const char *name)
{
    char line[sizeof CRASH_MARK + CRASH_NAME_SIZE];
    size_t len = sizeof CRASH_MARK - 1;
    size_t name_len = strnlen(name, CRASH_NAME_SIZE - 1);
    memcpy(line, CRASH_MARK, len);
    memcpy(line + len, name_len ? name : "-", name_len ? name_len : 1);
    len += name_len ? name_len : 1;
    line[len++] = '\n';
    if (pwrite(trace, line, len, 0) == (ssize_t)len)
        (void)!ftruncate(trace, (off_t)len);
}

/* Whether the signal was caused by this process: sent by the kernel for a fault, or by itself, as abort() does. */
static bool own_fault(const siginfo_t *info)
{
    return info->si_code > 0 || info->si_pid == getpid();
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (own_fault(info) && !atomic_flag_test_and_set(&traced))
        write_trace(scope.name);
    for (size_t i = 0; i < SIGNALS; i++)
        if (signals[i] == number)
            sigaction(number, &before[i], NULL);
    if (info->si_code <= 0) /* sent by kill() or abort(): it does not occur again by itself */
        raise(number);
}

void crash_start(int file)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    trace = file;
    for (size_t i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &action, &before[i]);
}

void crash_trace(const char *name)
{
    if (trace >= 0 && !atomic_flag_test_and_set(&traced))
        write_trace(name);
}

void crash_thread_start(void)
{
    stack_t present;
    if (sigaltstack(NULL, &present) != 0 || !(present.ss_flags & SS_DISABLE))
        return; /* a sanitizer has set one */
    void *memory = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) {
        stack_t own = {.ss_sp = memory, .ss_size = STACK_BYTES};
        sigaltstack(&own, NULL);
        stack = memory;
    }
}

void crash_thread_end(void)
{
    if (stack) {
        stack_t none = {.ss_flags = SS_DISABLE};
        sigaltstack(&none, NULL);
        munmap(stack, STACK_BYTES);
        stack = NULL;
    }
}
