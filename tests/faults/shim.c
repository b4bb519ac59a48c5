/*
 * A library to preload into the service, between it and the kernel (tests/e2e/faults.py starts it and reads what it
 * writes). It can
 *
 *   - fail calls: those of one kind whose numbers are in a range, with an error of choice;
 *   - kill the process before the call that would be the k-th change of a file;
 *   - add an offset to the time of day;
 *   - record each change of the files in a folder, and each fsync, in the order in which they happen: what a disk may
 *     have kept of them when the power goes is then worked out from the record.
 *
 * From the environment: FAULTS_PLAN, a file with the struct below, which is mapped and may be changed at any time;
 * FAULTS_FOLDER, that of the database, which bounds all of this but accept and the time; FAULTS_RECORD, the file of the
 * record (none if it is not set).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
#define NAME_SIZE 512

enum call { CALL_OPEN, CALL_READ, CALL_WRITE, CALL_SYNC, CALL_TRUNCATE, CALL_MAP, CALL_UNLINK, CALL_ACCEPT, CALLS };

/* tests/e2e/faults.py has its layout. */
struct plan {
    _Atomic int64_t offset;  /* seconds, of the time of day */
    _Atomic int64_t changes; /* of files, so far */
    _Atomic int64_t die_at;  /* before the change with this number; 0: never */
    struct {
        _Atomic int64_t made;              /* so far */
        _Atomic int64_t first, last, code; /* calls with these numbers fail with this errno; 0: none */
    } calls[CALLS];
};

static struct plan *plan;
static const char *folder;
static int record = -1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* the order of the record is that of the changes */

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("FAULTS_PLAN");
    if (!path) /* a cell of the service (--isolate), which has no files */
        return;
    int fd = path[0] ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0) : -1;
    void *map = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    folder = getenv("FAULTS_FOLDER");
    if (map == MAP_FAILED || !folder) {
        fprintf(stderr, "shim: FAULTS_PLAN or FAULTS_FOLDER is missing\n");
        abort();
    }
    plan = map;
    const char *file = getenv("FAULTS_RECORD");
    if (file)
        record = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* Whether this call fails, with errno. Constructors of other libraries may come before that above. */
static bool fails(enum call call)
{
    if (!plan)
        return false;
    int64_t number = atomic_fetch_add(&plan->calls[call].made, 1) + 1;
    int code = (int)atomic_load(&plan->calls[call].code);
    if (!code || number < atomic_load(&plan->calls[call].first) || number > atomic_load(&plan->calls[call].last))
        return false;
    errno = code;
    return true;
}

/* Whether the path is in the folder; its name there. */
static bool is_ours(const char *path, const char **name)
{
    size_t len = plan ? strlen(folder) : 0;
    *name = path + len + 1;
    return plan && strncmp(path, folder, len) == 0 && (path[len] == '/' || !path[len]);
}

static bool is_our_file(int fd, char path[NAME_SIZE], const char **name)
{
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, NAME_SIZE - 1);
    path[len > 0 ? len : 0] = '\0';
    return is_ours(path, name) && !strstr(path, " (deleted)");
}

/* Records a change, as a line and the data. Call with the mutex, before the change is made. */
static void note(const char *what, const char *name, int64_t offset, const void *data, size_t len)
{
    char line[NAME_SIZE + 80];
    int64_t number = atomic_fetch_add(&plan->changes, 1) + 1;
    if (number == atomic_load(&plan->die_at)) {
        kill(getpid(), SIGKILL);
        pause();
    }
    if (record < 0)
        return;
    int line_len = snprintf(line, sizeof line, "%s %lld %zu %s\n", what, (long long)offset, len, name);
    struct iovec parts[2] = {{line, (size_t)line_len}, {(void *)(uintptr_t)data, len}};
    if (writev(record, parts, 2) != (ssize_t)(len + (size_t)line_len))
        abort();
}

/* ---------------------------------------------------------------- files */

static int open_at(const char *path, int flags, va_list rest)
{
    const char *name;
    mode_t mode = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, mode_t) : 0;
    bool ours = is_ours(path, &name);
    if (ours && fails(CALL_OPEN))
        return -1;
    pthread_mutex_lock(&mutex);
    if (ours && flags & O_CREAT && syscall(SYS_faccessat, AT_FDCWD, path, F_OK) != 0)
        note("create", name, 0, NULL, 0);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (ours && fd >= 0 && flags & O_TRUNC)
        note("truncate", name, 0, NULL, 0);
    pthread_mutex_unlock(&mutex);
    return fd;
}

PUBLIC int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    int fd = open_at(path, flags, rest);
    va_end(rest);
    return fd;
}

PUBLIC int open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    int fd = open_at(path, flags, rest);
    va_end(rest);
    return fd;
}

PUBLIC ssize_t pread64(int fd, void *data, size_t len, off64_t offset)
{
    char path[NAME_SIZE];
    const char *name;
    return is_our_file(fd, path, &name) && fails(CALL_READ) ? -1 : syscall(SYS_pread64, fd, data, len, offset);
}

PUBLIC ssize_t pread(int fd, void *data, size_t len, off_t offset)
{
    return pread64(fd, data, len, offset);
}

PUBLIC ssize_t pwrite64(int fd, const void *data, size_t len, off64_t offset)
{
    char path[NAME_SIZE];
    const char *name;
    if (!is_our_file(fd, path, &name))
        return syscall(SYS_pwrite64, fd, data, len, offset);
    if (fails(CALL_WRITE))
        return -1;
    pthread_mutex_lock(&mutex);
    note("write", name, offset, data, len);
    ssize_t written = syscall(SYS_pwrite64, fd, data, len, offset);
    pthread_mutex_unlock(&mutex);
    return written;
}

PUBLIC ssize_t pwrite(int fd, const void *data, size_t len, off_t offset)
{
    return pwrite64(fd, data, len, offset);
}

/* The disk need not be asked: a process that is killed keeps what it wrote, and the record says what was safe. */
static int sync_file(int fd, bool all)
{
    char path[NAME_SIZE];
    const char *name;
    if (!is_our_file(fd, path, &name))
        return (int)syscall(all ? SYS_fsync : SYS_fdatasync, fd);
    if (fails(CALL_SYNC))
        return -1;
    pthread_mutex_lock(&mutex);
    note("sync", strlen(path) > strlen(folder) ? name : ".", 0, NULL, 0);
    pthread_mutex_unlock(&mutex);
    return 0;
}

PUBLIC int fsync(int fd)
{
    return sync_file(fd, true);
}

PUBLIC int fdatasync(int fd)
{
    return sync_file(fd, false);
}

PUBLIC int ftruncate64(int fd, off64_t len)
{
    char path[NAME_SIZE];
    const char *name;
    if (!is_our_file(fd, path, &name))
        return (int)syscall(SYS_ftruncate, fd, len);
    if (fails(CALL_TRUNCATE))
        return -1;
    pthread_mutex_lock(&mutex);
    note("truncate", name, len, NULL, 0);
    int status = (int)syscall(SYS_ftruncate, fd, len);
    pthread_mutex_unlock(&mutex);
    return status;
}

PUBLIC int ftruncate(int fd, off_t len)
{
    return ftruncate64(fd, len);
}

PUBLIC void *mmap64(void *address, size_t len, int access, int flags, int fd, off64_t offset)
{
    char path[NAME_SIZE];
    const char *name;
    if (fd >= 0 && is_our_file(fd, path, &name) && fails(CALL_MAP))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, address, len, access, flags, fd, offset); // NOLINT
}

PUBLIC int unlink(const char *path)
{
    const char *name;
    bool ours = is_ours(path, &name);
    if (ours && fails(CALL_UNLINK))
        return -1;
    pthread_mutex_lock(&mutex);
    if (ours)
        note("unlink", name, 0, NULL, 0);
    int status = (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    pthread_mutex_unlock(&mutex);
    return status;
}

/* ---------------------------------------------------------------- the rest */

PUBLIC int accept4(int fd, __SOCKADDR_ARG address, socklen_t *restrict len, int flags)
{
    return fails(CALL_ACCEPT) ? -1 : (int)syscall(SYS_accept4, fd, address.__sockaddr__, len, flags);
}

PUBLIC int clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    if (plan && status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += atomic_load(&plan->offset);
    return status;
}

PUBLIC time_t time(time_t *stored)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (stored)
        *stored = now.tv_sec;
    return now.tv_sec;
}

PUBLIC int gettimeofday(struct timeval *restrict stored, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *stored = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}
