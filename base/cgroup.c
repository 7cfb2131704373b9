#include "base/cgroup.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

/* What a version calls its files, and the key in the last of them. */
struct names {
    const char *folder, *limit, *used, *cached; /* the last in memory.stat */
};
static const struct names version_1 = {"/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                       "total_inactive_file "};
static const struct names version_2 = {"", "memory.max", "memory.current", "inactive_file "};

uint64_t cgroup_number(const char *folder, const char *name, const char *key, uint64_t otherwise)
{
    char path[3 * PATH_BYTES], line[256];
    uint64_t number = otherwise;
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = length > 0 && (size_t)length < sizeof path ? fopen(path, "re") : NULL;
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0 &&
            sscanf(line + strlen(key), "%" SCNu64, &number) == 1)
            break;
    if (file)
        fclose(file);
    return number;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void measure(struct cgroup_memory *memory, const char *folder, const struct names *names)
{
    const uint64_t limit = cgroup_number(folder, names->limit, "", UINT64_MAX);
    if (limit == UINT64_MAX)
        return;
    const uint64_t used = cgroup_number(folder, names->used, "", 0);
    const uint64_t cached = cgroup_number(folder, "memory.stat", names->cached, 0);
    memory->limit = less(memory->limit, limit);
    memory->free = less(memory->free, limit - less(limit, used - less(used, cached)));
}

/* From the group up to the mount's root. A group that cannot be seen from here, as in a container,
 * counts as that root. */
static void measure_all(struct cgroup_memory *memory, const char *mount, char *group,
                        const struct names *names)
{
    for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
        char folder[2 * PATH_BYTES];
        *end = 0;
        const int length = snprintf(folder, sizeof folder, "%s%s", mount, group);
        if (length >= 0 && (size_t)length < sizeof folder)
            measure(memory, folder, names);
    }
}

static bool has_memory(char *controllers)
{
    for (char *name; (name = strsep(&controllers, ","));)
        if (strcmp(name, "memory") == 0)
            return true;
    return false;
}

struct cgroup_memory cgroup_memory(const char *root)
{
    char path[PATH_BYTES], line[PATH_BYTES];
    struct cgroup_memory memory = {UINT64_MAX, UINT64_MAX};
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) { /* number:controllers:group */
        line[strcspn(line, "\n")] = 0;
        char *rest = line;
        strsep(&rest, ":");
        char *controllers = strsep(&rest, ":");
        const bool unified = controllers && !*controllers;
        if (!rest || (!unified && !has_memory(controllers)))
            continue;
        const struct names *names = unified ? &version_2 : &version_1;
        snprintf(path, sizeof path, "%s/sys/fs/cgroup%s", root, names->folder);
        measure_all(&memory, path, rest, names);
    }
    if (file)
        fclose(file);
    return memory;
}
