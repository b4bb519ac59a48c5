/*
 * `epsilond backup`: copies a database to which a server may be writing.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>

#include "server/commands.h"
#include "server/ops/config.h"
#include "server/ops/signals.h"
#include "server/store/store.h"

#define GRACE_SECONDS 3.5 /* for removing the incomplete copy */

/* On the signal thread: the disk does not respond. */
static int overdue(void *unused)
{
    (void)unused;
    return 1;
}

int command_backup(int argc, char **argv)
{
    struct config config;
    char message[1024] = "cannot start a thread";
    int operand = config_read(&config, CONFIG_BACKUP, argc, argv, message, sizeof message);
    if (operand == -2) {
        print_help();
        return 0;
    }
    if (operand >= 0 && argc - operand != 1) {
        snprintf(message, sizeof message,
                 "backup requires one file name, of the copy to be created; see epsilond --help");
        operand = -1;
    }
    if (operand < 0) {
        fprintf(stderr, "epsilond: %s\n", message);
        return 2;
    }
    signals_start();
    int64_t jobs = signals_watch(GRACE_SECONDS, overdue, NULL)
                       ? store_backup(config.db, argv[operand], signals_asked, message, sizeof message)
                       : -1;
    if (jobs < 0) {
        fprintf(stderr, "epsilond: %s\n", message);
        return 1;
    }
    printf("%lld jobs of %s copied to %s\n", (long long)jobs, config.db, argv[operand]);
    return 0;
}
