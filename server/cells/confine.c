/*
 * The list of system calls is that of glibc's memory, threads and clocks, of reading and writing, and of ending. It is
 * checked at once: a filter that does not hold counts as none.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/cells/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "server/cells/message.h"

#define PROGRAM_BYTES (UINT64_C(2) << 30)           /* libraries, caches and fragments */
#define THREAD_BYTES (UINT64_C(2) * (8 + 64) << 20) /* a stack and an arena of malloc(), for each of two threads */
#define FILES_MOST 16                               /* descriptors */

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || defined EPS_COVERAGE
#define INSTRUMENTED true
#else
#define INSTRUMENTED false
#endif

uint64_t confine_address_space(uint64_t bytes, uint64_t threads)
{
    return 2 * bytes + PROGRAM_BYTES + threads * THREAD_BYTES;
}

/* ---------------------------------------------------------------- limits */

static bool limit(int resource, uint64_t most)
{
    struct rlimit present;
    if (getrlimit((__rlimit_resource_t)resource, &present) != 0)
        return false;
    if (present.rlim_max != RLIM_INFINITY && present.rlim_max < most)
        most = present.rlim_max; /* a stricter one stays */
    const struct rlimit limits = {most, most};
    return setrlimit((__rlimit_resource_t)resource, &limits) == 0;
}

/* The first candidate of the kernel when memory runs out, before the service. */
static void go_first(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)!write(fd, "500", 3);
    close(fd);
}

/* ---------------------------------------------------------------- system calls */

static const int allowed[] = {
    /* what is open */
    SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev), SCMP_SYS(recvfrom), SCMP_SYS(sendto),
    SCMP_SYS(close),
    /* memory; see also deny_code() */
    SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(sysinfo),
    /* threads; see also allow_threads() */
    SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(rseq), SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity),
    SCMP_SYS(set_tid_address), SCMP_SYS(getcpu), SCMP_SYS(membarrier), SCMP_SYS(gettid), SCMP_SYS(getpid),
    SCMP_SYS(getrusage),
    /* time and chance */
    SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(clock_nanosleep), SCMP_SYS(nanosleep),
    SCMP_SYS(gettimeofday), SCMP_SYS(getrandom), SCMP_SYS(restart_syscall),
    /* signals and the end */
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack), SCMP_SYS(exit),
    SCMP_SYS(exit_group)};

/* No computation makes these by mistake. */
static const int fatal[] = {
    SCMP_SYS(execve),           SCMP_SYS(execveat), SCMP_SYS(fork),   SCMP_SYS(vfork),
    SCMP_SYS(socket),           SCMP_SYS(connect),  SCMP_SYS(bind),   SCMP_SYS(listen),
    SCMP_SYS(accept),           SCMP_SYS(accept4),  SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev)};

/* Memory is never executable. */
static int deny_code(scmp_filter_ctx filter)
{
    const struct scmp_arg_cmp no_code = SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0);
    int code = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, no_code);
    return code ? code : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, no_code);
}

/* A thread of this process, not a process. The flags of clone3() are in memory, where a filter cannot see them; glibc
 * then calls clone(). Limits are read, for the stack of a thread, not set. Signals go to this process alone, as abort()
 * sends them. */
static int allow_threads(scmp_filter_ctx filter)
{
    const struct scmp_arg_cmp thread = SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD);
    const struct scmp_arg_cmp no_new = SCMP_A2(SCMP_CMP_EQ, 0, 0);
    const struct scmp_arg_cmp own = SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid(), 0);
    int code = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1, thread);
    code = code ? code : seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    code = code ? code : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1, no_new);
    return code ? code : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, own);
}

/* Returns 0, or a negative errno. */
static int filter_calls(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int code = filter ? 0 : -ENOMEM;
    for (size_t i = 0; !code && i < sizeof allowed / sizeof allowed[0]; i++)
        code = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
    for (size_t i = 0; !code && i < sizeof fatal / sizeof fatal[0]; i++)
        code = seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, fatal[i], 0);
    code = code ? code : deny_code(filter);
    code = code ? code : allow_threads(filter);
    code = code ? code : seccomp_load(filter);
    seccomp_release(filter);
    return code;
}

/* Whether the filter holds: a file that everyone can read cannot be opened. */
static bool holds(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd < 0 && errno == EPERM;
}

unsigned confine(uint64_t address_space, char *message, size_t message_size)
{
    unsigned confined = 0;
    message[0] = '\0';
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    go_first();
    limit(RLIMIT_CORE, 0);
    if (INSTRUMENTED) {
        snprintf(message, message_size, "this build is instrumented, which needs address space and system calls");
        return 0;
    }
    limit(RLIMIT_NOFILE, FILES_MOST);
    if (limit(RLIMIT_AS, address_space))
        confined |= CONFINED_MEMORY;
    else
        snprintf(message, message_size, "setrlimit(RLIMIT_AS): %s", strerror(errno));
    int code = filter_calls();
    if (!code && holds())
        confined |= CONFINED_CALLS;
    else
        snprintf(message, message_size, "seccomp(2), which some sandboxes do not have: %s",
                 code ? strerror(-code) : "the filter does not hold");
    return confined;
}
