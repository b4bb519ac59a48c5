/*
 * Confines this process to computing: limits on memory and files, and a list of the system calls that it may make.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_CELLS_CONFINE_H
#define SERVER_CELLS_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The address space of a process that may use so many threads and `bytes` for a job, by estimate: twice the estimate,
 * room for the program and its caches, and the stack and heap of each thread. */
uint64_t confine_address_space(uint64_t bytes, uint64_t threads);

/*
 * Call once, before threads are created: the process has no core dump, is the first to go when the machine runs out of
 * memory, ignores the signals by which services are stopped, and ends with the thread that started it. Its address
 * space is at most so many bytes, and no file can be opened any more.
 *
 * From then on it may compute, create threads, and read and write what is open. Other system calls fail with EPERM, as
 * for opening files; those that would create a socket or a process, or trace or replace one, end the process with
 * SIGSYS.
 *
 * Returns what is in force, as bits of enum confinement. Not all are where the system has no seccomp(2), or in a build
 * that is instrumented, which needs address space and system calls of its own; the message says why. If both are, it
 * is "".
 */
unsigned confine(uint64_t address_space, char *message, size_t message_size);

#endif
