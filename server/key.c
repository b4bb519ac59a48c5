/*
 * `epsilond key new`: draws a key of a client. The first line that it prints is the key, the last one its line for the
 * file of --keys.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "server/commands.h"
#include "server/ops/access.h"
#include "server/ops/config.h"

int command_key(int argc, char **argv)
{
    struct config config;
    struct access_entry entry = {.scope = ACCESS_ANYONE};
    char message[256] = "", key[ACCESS_KEY_SIZE], line[ACCESS_LINE_SIZE];
    int operand = config_read(&config, CONFIG_KEY, argc, argv, message, sizeof message);
    if (operand == -2) {
        print_help();
        return 0;
    }
    if (operand >= 0 && (operand + 1 != argc || strcmp(argv[operand], "new") != 0)) {
        snprintf(message, sizeof message, "key takes one argument: new; see epsilond --help");
        operand = -1;
    }
    if (operand >= 0)
        entry.scope = access_scope_named(config.scope);
    if (operand >= 0 && entry.scope == ACCESS_ANYONE) {
        snprintf(message, sizeof message, "--scope must be read, submit or admin, not \"%.60s\"", config.scope);
        operand = -1;
    }
    if (operand >= 0 && (!access_is_name(config.group) || (config.name && !access_is_name(config.name)))) {
        snprintf(message, sizeof message,
                 "--group and --name must be words of at most %d visible ASCII characters, without a comma or an "
                 "equals sign",
                 ACCESS_NAME_MOST);
        operand = -1;
    }
    const char *wrong = operand >= 0 && config.quota ? quota_read(&entry.quota, config.quota) : NULL;
    if (wrong) {
        snprintf(message, sizeof message, "--quota: %s", wrong);
        operand = -1;
    }
    if (operand < 0) {
        fprintf(stderr, "epsilond: %s\n", message);
        return 2;
    }
    snprintf(entry.group, sizeof entry.group, "%s", config.group);
    access_draw(key, line, &entry, config.name ? config.name : "");
    printf(
        "%s\n\nThe client sends this key as \"Authorization: Bearer KEY\"; it is not stored anywhere. Add this line to "
        "the file of --keys, and send SIGHUP to the service:\n\n%s\n",
        key, line);
    sodium_memzero(key, sizeof key);
    return ferror(stdout) || fflush(stdout) != 0;
}
