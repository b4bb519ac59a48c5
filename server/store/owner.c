/*
 * The lock is that of flock(2), which the kernel releases when the process ends for any reason. It is on a separate
 * file, because SQLite has its own locks on the database, and closing another descriptor of the database would drop
 * them. The file is found by the real path of the database, so that two names for it do not give two locks. It is not
 * removed when the process ends, because removing a lock file may remove that of the next owner.
 *
 * A second lock is on the database itself, so that the same file under another name (a hard link, a renamed file, a
 * bind mount) also has only one owner: SQLite finds its log by name, and two logs damage the database. It is an open
 * file description lock, which is not affected by closing other descriptors, on a byte far beyond those that SQLite
 * locks, so that they do not conflict.
 *
 * One line of the file says how the process ended. It is overwritten in place, which a signal handler can do
 * (server/ops/crash.h). Its modification time is the last time at which the process is known to have been alive.
 * Further behind, the file has the number of processes that the kernel had killed because of memory shortage by then. A
 * process that is killed in this way cannot record it, but the count of the kernel (oom_kill in /proc/vmstat, for the
 * whole machine) has increased. Two numbers follow: for how long the process has been alive by the monotonic clock, and
 * how far the time of day was set meanwhile.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/store/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/ops/clock.h"

static const char running[] = "running";
static const char stopped[] = "stopped";

#define KILLS_AT 128 /* beyond the longest first line */
#define KILLS_SIZE 128
#define MS_MOST 1000000000000000 /* thirty thousand years, more than any true duration */

#define LOCKED_BYTE ((off_t)1 << 62) /* of the database: beyond its largest size, 2^48 bytes */

struct owner {
    char database[PATH_MAX];
    int fd;
    int file; /* the database */
    bool guest;
    bool has;
    atomic_bool began;
    int64_t began_at;   /* ms: the time of day, and */
    double began_clock; /* seconds: the monotonic one */
    char boot[40];      /* the boot id of the kernel; "": unknown */
    struct owner_past past;
};

/* Creates the database if it does not exist, and finds its real path. An existing one is not opened: closing it would
 * drop the locks that SQLite may have on it in this process. */
static bool find_database(const char *database, char real[PATH_MAX], char *message, size_t message_size)
{
    int fd = open(database, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    if ((fd < 0 && errno != EEXIST) || !realpath(database, real)) {
        snprintf(message, message_size, "%s", strerror(errno));
        return false;
    }
    return true;
}

static void boot_read(struct owner *owner)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!file || !fgets(owner->boot, sizeof owner->boot, file))
        owner->boot[0] = '\0';
    owner->boot[strcspn(owner->boot, "\n")] = '\0';
    if (file)
        fclose(file);
}

/* The number of processes that the kernel has killed because of memory shortage since boot; -1: unknown. */
static long long kernel_kills(void)
{
    static const char name[] = "oom_kill ";
    char line[128];
    long long kills = -1;
    FILE *file = fopen("/proc/vmstat", "re");
    while (file && kills < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, name, sizeof name - 1) == 0)
            kills = strtoll(line + sizeof name - 1, NULL, 10);
    if (file)
        fclose(file);
    return kills;
}

/* Reads what follows the first line. *starved: whether the kernel has killed more processes since the last heartbeat;
 * always false after a reboot. */
static void beat_read(struct owner *owner, bool *starved)
{
    enum { KILLS, ALIVE, SET, NUMBERS };
    long long numbers[NUMBERS];
    size_t len = 0; /* older versions wrote the first number only */
    char text[KILLS_SIZE];
    ssize_t size = pread(owner->fd, text, sizeof text - 1, KILLS_AT);
    text[size > 0 ? size : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    size_t boot_len = strcspn(text, " ");
    for (char *at = text + boot_len, *end; len < NUMBERS; len++, at = end) {
        numbers[len] = strtoll(at, &end, 10);
        if (end == at)
            break;
    }
    bool this_boot = boot_len && strlen(owner->boot) == boot_len && memcmp(text, owner->boot, boot_len) == 0;
    *starved = len > KILLS && this_boot && kernel_kills() > numbers[KILLS];
    bool known = len > SET && numbers[ALIVE] >= 0 && numbers[ALIVE] < MS_MOST && numbers[SET] > -MS_MOST &&
                 numbers[SET] < MS_MOST;
    owner->past.alive_ms = known ? numbers[ALIVE] : -1;
    owner->past.set_ms = known ? numbers[SET] : 0;
}

/* Reads what an earlier process wrote: "stopped", "running" with its number, or the line of crash.h. */
static void past_read(struct owner *owner)
{
    char text[KILLS_AT];
    struct stat status;
    bool starved;
    ssize_t len = pread(owner->fd, text, sizeof text - 1, 0);
    text[len > 0 ? len : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    owner->past = (struct owner_past){.end = OWNER_STOPPED};
    if (fstat(owner->fd, &status) == 0)
        owner->past.last_beat = (int64_t)status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1000000;
    beat_read(owner, &starved);
    if (strncmp(text, running, sizeof running - 1) == 0) {
        owner->past.end = starved ? OWNER_STARVED : OWNER_VANISHED;
    } else if (strncmp(text, CRASH_MARK, sizeof CRASH_MARK - 1) == 0) {
        const char *name = text + sizeof CRASH_MARK - 1;
        owner->past.end = OWNER_CRASHED;
        if (strlen(name) == CRASH_NAME_SIZE - 1)
            memcpy(owner->past.name, name, CRASH_NAME_SIZE);
    }
}

/* Describes the owner, as far as the file says. */
static void name_other(int fd, char *message, size_t message_size)
{
    char text[64];
    ssize_t len = pread(fd, text, sizeof text - 1, 0);
    text[len > 0 ? len : 0] = '\0';
    bool named = strncmp(text, "running ", 8) == 0 && text[8] >= '1' && text[8] <= '9';
    snprintf(message, message_size,
             "another epsilond%s%.*s%s uses it; use another database (--db) for this one, or stop the other",
             named ? " (process " : "", named ? (int)strcspn(text + 8, "\n") : 0, named ? text + 8 : "",
             named ? ")" : "");
}

/* Opens and locks the file. Guests take a shared lock, so that they do not exclude each other. */
static bool take_lock(struct owner *owner, char *message, size_t message_size)
{
    char path[PATH_MAX + sizeof "-lock"];
    snprintf(path, sizeof path, "%s-lock", owner->database);
    owner->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    owner->has = owner->fd >= 0 && flock(owner->fd, (owner->guest ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0;
    if (owner->has || (owner->guest && owner->fd >= 0 && errno == EWOULDBLOCK))
        return true;
    if (owner->fd >= 0 && errno == EWOULDBLOCK)
        name_other(owner->fd, message, message_size);
    else
        snprintf(message, message_size, "cannot lock %.200s: %s", path, strerror(errno));
    return false;
}

bool owner_one_name(const char *database, char *message, size_t message_size)
{
    struct stat status;
    bool several = stat(database, &status) == 0 && status.st_nlink > 1;
    if (several) {
        snprintf(message, message_size,
                 "the file has %lu names (hard links), each with its own log, and two logs damage it; remove the other "
                 "names",
                 (unsigned long)status.st_nlink);
    }
    return !several;
}

/* Only the owner of FILE-lock opens the database, so SQLite has no locks on it in this process yet. If the file system
 * does not support these locks, FILE-lock is the only one. */
static bool take_file(struct owner *owner, char *message, size_t message_size)
{
    struct flock lock = {
        .l_type = owner->guest ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCKED_BYTE, .l_len = 1};
    owner->file = owner->has ? open(owner->database, O_RDWR | O_CLOEXEC) : -1;
    if (owner->file >= 0 && fcntl(owner->file, F_OFD_SETLK, &lock) != 0 && (errno == EAGAIN || errno == EACCES)) {
        snprintf(message, message_size,
                 "another epsilond has opened it under another name; stop it, or use another database (--db) for this "
                 "one");
        return false;
    }
    return true;
}

struct owner *owner_claim(const char *database, bool guest, char *message, size_t message_size)
{
    struct owner *owner = calloc(1, sizeof *owner);
    if (!owner) {
        snprintf(message, message_size, "out of memory");
        return NULL;
    }
    owner->guest = guest;
    owner->fd = owner->file = -1;
    if (!find_database(database, owner->database, message, message_size) || !take_lock(owner, message, message_size) ||
        !owner_one_name(owner->database, message, message_size) || !take_file(owner, message, message_size)) {
        owner_release(owner);
        return NULL;
    }
    boot_read(owner);
    past_read(owner);
    return owner;
}

bool owner_has(const struct owner *owner)
{
    return owner->has;
}

void owner_yield(struct owner *owner)
{
    if (owner->guest && owner->has) {
        struct flock none = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = LOCKED_BYTE, .l_len = 1};
        if (owner->file >= 0) /* it stays open: closing it would drop the locks of SQLite */
            fcntl(owner->file, F_OFD_SETLK, &none);
        flock(owner->fd, LOCK_UN);
        owner->has = false;
    }
}

int64_t owner_past_since(const struct owner_past *past, int64_t began_at)
{
    int64_t ms = past->last_beat - began_at;
    if (past->alive_ms < 0)
        return ms;
    if (past->set_ms < 0) /* perhaps after the beginning */
        ms -= past->set_ms;
    return ms < past->alive_ms ? ms : past->alive_ms;
}

const char *owner_database(const struct owner *owner)
{
    return owner->database;
}

struct owner_past owner_past(const struct owner *owner)
{
    return owner->past;
}

/* If the line cannot be written, the old one remains; at worst a crash is attributed less precisely. */
static void say(struct owner *owner, const char *line)
{
    size_t len = strlen(line);
    if (!owner->guest && pwrite(owner->fd, line, len, 0) == (ssize_t)len)
        (void)!ftruncate(owner->fd, (off_t)len);
}

void owner_begin(struct owner *owner)
{
    char line[64];
    snprintf(line, sizeof line, "%s %ld\n", running, (long)getpid());
    say(owner, line);
    owner->began_at = clock_now_ms();
    owner->began_clock = clock_monotonic();
    atomic_store(&owner->began, true);
    owner_beat(owner);
}

/* Until owner_begin(), the numbers are those of the previous process. */
void owner_beat(struct owner *owner)
{
    char line[KILLS_SIZE];
    int len = 0;
    long long kills = atomic_load(&owner->began) ? kernel_kills() : -1;
    if (kills >= 0 && owner->boot[0]) {
        long long alive = (long long)((clock_monotonic() - owner->began_clock) * 1000);
        long long set = (long long)(clock_now_ms() - owner->began_at) - alive;
        len = snprintf(line, sizeof line, "%s %lld %lld %lld\n", owner->boot, kills, alive, set);
    }
    if (!owner->guest && (len <= 0 || pwrite(owner->fd, line, (size_t)len, KILLS_AT) != len))
        futimens(owner->fd, NULL);
}

void owner_stop(struct owner *owner)
{
    char line[64];
    snprintf(line, sizeof line, "%s\n", stopped);
    say(owner, line);
}

int owner_file(const struct owner *owner)
{
    return owner->fd;
}

void owner_release(struct owner *owner)
{
    if (owner) {
        if (owner->fd >= 0)
            close(owner->fd);
        if (owner->file >= 0)
            close(owner->file);
        free(owner);
    }
}
