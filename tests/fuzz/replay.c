/*
 * Replays a corpus without a fuzzer: every argument is a file, or a folder whose files are read. So every input that
 * was ever found guards every build, by any compiler.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int replay_file(const char *path, size_t len)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(len ? len : 1); /* of the exact length: an overrun hits the allocator's fence at once */
    int status = -1;

    if (file && data && fread(data, 1, len, file) == len) {
        LLVMFuzzerTestOneInput(data, len);
        status = 0;
    }
    if (status != 0)
        perror(path);
    free(data);
    if (file)
        fclose(file);
    return status;
}

static int replay(const char *path, size_t *count)
{
    struct stat about;
    struct dirent *entry;
    int status = 0;

    if (stat(path, &about) != 0) {
        perror(path);
        return -1;
    }
    if (!S_ISDIR(about.st_mode)) {
        ++*count;
        return replay_file(path, (size_t)about.st_size);
    }
    DIR *folder = opendir(path);
    while (folder && (entry = readdir(folder))) {
        char below[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        if (replay(below, count) != 0)
            status = -1;
    }
    if (folder)
        closedir(folder);
    return folder ? status : -1;
}

int main(int argc, char **argv)
{
    size_t count = 0;
    int status = 0;

    for (int i = 1; i < argc; i++) {
        if (replay(argv[i], &count) != 0)
            status = 1;
    }
    if (count == 0) {
        fprintf(stderr, "replay: no inputs\n");
        return 1;
    }
    printf("%zu inputs replayed\n", count);
    return status;
}
