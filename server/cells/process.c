/*
 * One cell as a process: its start, its end, and the bytes in between.
 *
 * It is this very program, started anew (/proc/self/exe) and never a fork of the service, whose threads might hold a
 * lock at that moment. It inherits the standard error and its end of a socket pair, and nothing else: no descriptor, no
 * variable but those on which numbers or sanitizers depend, no blocked signal.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "server/cells/cell.h"
#include "server/cells/confine.h"
#include "server/cells/internal.h"

#define HELLO_SECONDS 60.0 /* with a sanitizer on a busy machine */
#define END_SECONDS 5.0    /* for the end of a cell whose connection is closed */
#define PROGRAM "/proc/self/exe"

/* Variables that a cell inherits. The first ones may change the last bits of numbers, so they must be the same. */
static const char *const inherited[] = {"OPENBLAS_CORETYPE", "GLIBC_TUNABLES", "LD_LIBRARY_PATH", "LD_PRELOAD",
                                        "ASAN_OPTIONS",      "UBSAN_OPTIONS",  "LSAN_OPTIONS",    "TSAN_OPTIONS"};
enum { INHERITED = sizeof inherited / sizeof inherited[0] };

/* ---------------------------------------------------------------- starting */

/* The variables, which point into *texts, to be freed together. */
static void environment(char *variables[INHERITED + 1], char *texts[INHERITED])
{
    size_t len = 0;
    for (size_t i = 0; i < INHERITED; i++) {
        const char *value = getenv(inherited[i]);
        texts[i] = NULL;
        if (value && asprintf(&texts[i], "%s=%s", inherited[i], value) >= 0)
            variables[len++] = texts[i];
    }
    variables[len] = NULL;
}

/* Returns 0 or an error number. */
static int spawn(pid_t *pid, int fd, char *const *argv)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    char *variables[INHERITED + 1], *texts[INHERITED];
    sigemptyset(&none);
    sigfillset(&all);
    environment(variables, texts);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    int code = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    code = code ? code : posix_spawnattr_setsigmask(&attributes, &none);
    code = code ? code : posix_spawnattr_setsigdefault(&attributes, &all);
    code = code ? code : posix_spawn_file_actions_adddup2(&files, fd, CELL_FD);
    code = code ? code : posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    code = code ? code : posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    code = code ? code : posix_spawn_file_actions_addclosefrom_np(&files, CELL_FD + 1);
    code = code ? code : posix_spawn(pid, PROGRAM, &files, &attributes, argv, variables);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    for (size_t i = 0; i < INHERITED; i++)
        free(texts[i]);
    return code;
}

static bool start(struct cell *cell, const struct config *config, char *message, size_t message_size)
{
    char memory[24], threads[24];
    int ends[2];
    snprintf(memory, sizeof memory, "%" PRIu64, confine_address_space(config->max_bytes, config->workers));
    snprintf(threads, sizeof threads, "%" PRIu64, config->workers);
    char *const argv[] = {(char *)(uintptr_t) "epsilond",
                          (char *)(uintptr_t)CELL_COMMAND,
                          memory,
                          threads,
                          (char *)(uintptr_t)cell_kind_name(cell->kind),
                          NULL};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        snprintf(message, message_size, "no connection: %s", strerror(errno));
        return false;
    }
    int code = spawn(&cell->pid, ends[1], argv);
    close(ends[1]);
    cell->fd = ends[0];
    if (code) {
        cell->pid = 0;
        snprintf(message, message_size, "no process: %s", strerror(code));
    }
    return !code;
}

/* Returns whether it is of this very version. */
static bool greet(struct cell *cell, char *message, size_t message_size)
{
    uint8_t kind = 0;
    struct unpack payload;
    struct hello hello = {0};
    double deadline = clock_monotonic() + HELLO_SECONDS;
    enum intake_next next = INTAKE_MORE;
    while (next == INTAKE_MORE && clock_monotonic() < deadline && cell__receive(cell, 100))
        next = intake_take(&cell->intake, &kind, &payload);
    if (next != INTAKE_FRAME || kind != MESSAGE_HELLO || !message_read_hello(&payload, &hello)) {
        snprintf(message, message_size, "the process does not answer");
        return false;
    }
    if (hello.accounting != EPS_ACCOUNTING_VERSION || strcmp(hello.version, EPS_VERSION) != 0) {
        snprintf(message, message_size,
                 "the process is epsilond %s (accounting version %d), and this is epsilond %s (accounting version %d)",
                 hello.version, hello.accounting, EPS_VERSION, EPS_ACCOUNTING_VERSION);
        return false;
    }
    cell->confined = hello.confined;
    memcpy(cell->why, hello.why, sizeof cell->why);
    return true;
}

struct cell *cell__start(const struct config *config, enum cell_kind kind, char *message, size_t message_size)
{
    struct cell *cell = calloc(1, sizeof *cell);
    if (!cell) {
        snprintf(message, message_size, "out of memory");
        return NULL;
    }
    cell->fd = -1;
    cell->kind = kind;
    if (start(cell, config, message, message_size) && greet(cell, message, message_size))
        return cell;
    cell__end(cell, CELL_MALFORMED);
    return NULL;
}

/* ---------------------------------------------------------------- ending */

static void wait_ms(long milliseconds)
{
    struct timespec time = {.tv_nsec = milliseconds * 1000000};
    nanosleep(&time, NULL);
}

/* Waits for its end, for some time; then kills it. */
static int reap(pid_t pid)
{
    int status = 0;
    double deadline = clock_monotonic() + END_SECONDS;
    pid_t ended;
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && clock_monotonic() < deadline)
        wait_ms(1);
    if (ended == 0) {
        kill(pid, SIGKILL);
        ended = waitpid(pid, &status, 0);
    }
    return ended == pid ? status : 0;
}

/* What its status says. */
static enum cell_end end_of(int status, struct cell_death *death)
{
    if (!WIFSIGNALED(status)) {
        int code = WEXITSTATUS(status);
        snprintf(death->words, sizeof death->words, "exit status %d", code);
        return code ? CELL_CRASHED : CELL_ORDERLY;
    }
    int number = WTERMSIG(status);
    snprintf(death->words, sizeof death->words, "signal %d (%s)", number, strsignal(number));
    if (number == SIGSYS)
        return CELL_FORBIDDEN;
    bool fault = number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL || number == SIGABRT ||
                 number == SIGTRAP;
    return fault ? CELL_CRASHED : CELL_KILLED;
}

struct cell_death cell__end(struct cell *cell, enum cell_end end)
{
    struct cell_death death = {.end = end};
    if (cell->pid && (end == CELL_OVERDUE || end == CELL_MALFORMED))
        kill(cell->pid, SIGKILL);
    if (cell->fd >= 0)
        close(cell->fd);
    if (cell->pid) {
        enum cell_end told = end_of(reap(cell->pid), &death);
        if (end != CELL_OVERDUE && end != CELL_MALFORMED)
            death.end = told;
    }
    intake_clear(&cell->intake);
    packet_clear(&cell->packet);
    free(cell);
    return death;
}

/* ---------------------------------------------------------------- bytes */

bool cell__send(struct cell *cell, double seconds)
{
    const struct packet *packet = &cell->packet;
    double deadline = clock_monotonic() + seconds;
    for (size_t sent = 0; sent < packet->len;) {
        ssize_t len = send(cell->fd, packet->bytes + sent, packet->len - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (len < 0 && errno == EAGAIN && clock_monotonic() < deadline) {
            struct pollfd fd = {.fd = cell->fd, .events = POLLOUT};
            (void)poll(&fd, 1, 100);
        } else if (len < 0 && errno != EINTR) {
            return false;
        }
        sent += len > 0 ? (size_t)len : 0;
    }
    return true;
}

void cell__tell(struct cell *cell)
{
    /* A Unix socket takes a frame this short as a whole, or not at all. */
    assert(cell->packet.len < 64);
    (void)!send(cell->fd, cell->packet.bytes, cell->packet.len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool cell__receive(struct cell *cell, int milliseconds)
{
    struct pollfd fd = {.fd = cell->fd, .events = POLLIN};
    if (poll(&fd, 1, milliseconds) <= 0)
        return true;
    size_t room = 0;
    uint8_t *at = intake_room(&cell->intake, &room);
    ssize_t len = at ? recv(cell->fd, at, room, MSG_DONTWAIT) : 0;
    if (len > 0)
        intake_filled(&cell->intake, (size_t)len);
    return len > 0 || (len < 0 && (errno == EINTR || errno == EAGAIN));
}

bool cell__well(struct cell *cell)
{
    struct pollfd fd = {.fd = cell->fd, .events = POLLIN};
    return poll(&fd, 1, 0) == 0 && cell->intake.len == cell->intake.taken;
}
