/*
 * Prints the --help text of all commands.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>

#include "lib/epsilon.h"
#include "server/commands.h"
#include "server/ops/config.h"

void print_help(void)
{
    printf("epsilond %s: differential-privacy accounting\n\n"
           "  epsilond serve [OPTION...]           run the service\n"
           "  epsilond solve [OPTION...] [FILE|-]  solve one job, a JSON document, and print the result\n"
           "  epsilond backup [OPTION...] FILE     copy the database; a server may be writing to it\n"
           "  epsilond doctor [OPTION...]          check what serve would need; takes its options\n"
           "  epsilond key [OPTION...] new         print a new key for a client, and its line for --keys\n"
           "  epsilond worker [OPTION...]          compute for servers on other machines, through a broker\n"
           "  epsilond --help | --version\n\n"
           "Options can also be set by the environment variables in parentheses; the command line takes precedence.\n\n"
           "serve:\n",
           EPS_VERSION);
    config_help(stdout, CONFIG_SERVE);
    printf("\nsolve:\n");
    config_help(stdout, CONFIG_SOLVE);
    printf("\nbackup:\n");
    config_help(stdout, CONFIG_BACKUP);
    printf("\nworker:\n");
    config_help(stdout, CONFIG_WORKER);
    printf("\nkey:\n");
    config_help(stdout, CONFIG_KEY);
}
