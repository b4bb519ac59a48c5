/*
 * The commands of the program. Each gets its own argv (its name is argv[0]) and returns the exit status.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_COMMANDS_H
#define SERVER_COMMANDS_H

int command_serve(int argc, char **argv);
int command_solve(int argc, char **argv);
int command_backup(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_key(int argc, char **argv);
int command_worker(int argc, char **argv);

/* Prints the help text, for --help of any command. */
void print_help(void);

#endif
