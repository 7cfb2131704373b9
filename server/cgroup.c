#include "server/cgroup.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

/* "max", and whatever else is no number, is no limit. */
static uint64_t read_limit(const char *path)
{
    uint64_t limit = UINT64_MAX;
    FILE *file = fopen(path, "re");
    if (!file)
        return limit;
    if (fscanf(file, "%" SCNu64, &limit) != 1)
        limit = UINT64_MAX;
    fclose(file);
    return limit;
}

/* The least limit from the group up to the mount's root. A group that cannot be seen from here, as
 * in a container, counts as that root. */
static uint64_t least(const char *mount, char *group, const char *name)
{
    uint64_t limit = UINT64_MAX;
    for (char *end = group + strlen(group);; end = strrchr(group, '/')) {
        char path[2 * PATH_BYTES];
        if (end)
            *end = 0;
        const int length = snprintf(path, sizeof path, "%s%s/%s", mount, group, name);
        const uint64_t own =
            length > 0 && (size_t)length < sizeof path ? read_limit(path) : UINT64_MAX;
        limit = own < limit ? own : limit;
        if (!end || end == group)
            return limit;
    }
}

/* Is it among the names, which commas part? */
static bool has_name(const char *names, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = names; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && strncmp(at, name, length) == 0)
            return true;
    return false;
}

uint64_t cgroup_memory_bytes(const char *root)
{
    char path[PATH_BYTES], line[PATH_BYTES];
    uint64_t limit = UINT64_MAX;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) { /* number:controllers:group */
        line[strcspn(line, "\n")] = 0;
        char *rest = line;
        strsep(&rest, ":");
        const char *controllers = strsep(&rest, ":");
        const bool unified = controllers && !*controllers;
        if (!rest || (!unified && !has_name(controllers, "memory")))
            continue;
        snprintf(path, sizeof path, "%s/sys/fs/cgroup%s", root, unified ? "" : "/memory");
        const uint64_t own = least(path, rest, unified ? "memory.max" : "memory.limit_in_bytes");
        limit = own < limit ? own : limit;
    }
    if (file)
        fclose(file);
    return limit;
}
