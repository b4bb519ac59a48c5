/*
 * epsilond: selects the command. Process-wide state (libsodium, the umask) is set here, before any thread starts.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/epsilon.h"
#include "server/cells/cell.h"
#include "server/commands.h"

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    umask(S_IRWXG | S_IRWXO); /* databases must be private */
    if (sodium_init() < 0) {
        fprintf(stderr, "epsilond: cannot initialise libsodium\n");
        return 1;
    }
    if (strcmp(command, "serve") == 0)
        return command_serve(argc - 1, argv + 1);
    if (strcmp(command, "solve") == 0)
        return command_solve(argc - 1, argv + 1);
    if (strcmp(command, "backup") == 0)
        return command_backup(argc - 1, argv + 1);
    if (strcmp(command, "doctor") == 0)
        return command_doctor(argc - 1, argv + 1);
    if (strcmp(command, "key") == 0)
        return command_key(argc - 1, argv + 1);
    if (strcmp(command, "worker") == 0)
        return command_worker(argc - 1, argv + 1);
    if (strcmp(command, CELL_COMMAND) == 0) /* not for users, so it is not in --help */
        return command_cell(argc - 1, argv + 1);
    if (strcmp(command, "--version") == 0 || strcmp(command, "-V") == 0) {
        printf("epsilond %s (accounting version %d)\n", EPS_VERSION, EPS_ACCOUNTING_VERSION);
        return 0;
    }
    if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0) {
        print_help();
        return 0;
    }
    fprintf(stderr, "epsilond: %s%s%s; see epsilond --help\n", *command ? "no command \"" : "missing command", command,
            *command ? "\"" : "");
    return 2;
}
