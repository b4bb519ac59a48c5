/*
 * What every command says to --help.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>

#include "lib/epsilon.h"
#include "server/commands.h"
#include "server/ops/config.h"

void print_help(void)
{
    printf("epsilond %s: how much noise do I need, and what epsilon did I get\n\n"
           "  epsilond serve [OPTION...]           the service\n"
           "  epsilond solve [OPTION...] [FILE|-]  one job, a JSON document; prints the finished job\n"
           "  epsilond backup [OPTION...] FILE     copies the database, while a server may write to it\n"
           "  epsilond --help | --version\n\n"
           "Every option is also read from the environment, by the name in parentheses; the command line wins.\n\n"
           "serve:\n",
           EPS_VERSION);
    config_help(stdout, CONFIG_SERVE);
    printf("\nsolve:\n");
    config_help(stdout, CONFIG_SOLVE);
    printf("\nbackup:\n");
    config_help(stdout, CONFIG_BACKUP);
}
