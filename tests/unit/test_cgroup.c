/* The memory that control groups leave, for artificial trees of /proc and /sys. */
#include "base/cgroup.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[] = "/tmp/test_cgroup.XXXXXX";

static void write_file(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s", root, name);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0755);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int begin(void **state)
{
    strcpy(root + strlen(root) - 6, "XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int end(void **state)
{
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

TEST(none_is_no_limit, begin, end)
{
    assert_true(cgroup_memory(root).limit == UINT64_MAX);
    write_file("/proc/self/cgroup", "0::/a/b\n");
    assert_true(cgroup_memory(root).limit == UINT64_MAX);
    write_file("/sys/fs/cgroup/a/b/memory.max", "max\n");
    assert_true(cgroup_memory(root).limit == UINT64_MAX);
}

TEST(the_least_of_those_around_it, begin, end)
{
    write_file("/proc/self/cgroup", "0::/system.slice/fdserver.service\n");
    write_file("/sys/fs/cgroup/system.slice/fdserver.service/memory.max", "max\n");
    write_file("/sys/fs/cgroup/system.slice/memory.max", "8589934592\n");
    assert_int_equal(cgroup_memory(root).limit, UINT64_C(8) << 30);
    write_file("/sys/fs/cgroup/system.slice/fdserver.service/memory.max", "1073741824\n");
    assert_int_equal(cgroup_memory(root).limit, UINT64_C(1) << 30);
}

TEST(in_a_container_the_root_counts, begin, end)
{
    write_file("/proc/self/cgroup", "0::/\n");
    write_file("/sys/fs/cgroup/memory.max", "2147483648\n");
    assert_int_equal(cgroup_memory(root).limit, UINT64_C(2) << 30);
    write_file("/proc/self/cgroup", "0::/not/seen/here\n");
    assert_int_equal(cgroup_memory(root).limit, UINT64_C(2) << 30);
}

TEST(version_1, begin, end)
{
    write_file("/proc/self/cgroup",
               "9:name=systemd:/x\n5:cpu,memory,io:/docker/1f\n3:memoryless:/y\n0::/z\n");
    write_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(cgroup_memory(root).limit > UINT64_C(1) << 62);
    write_file("/sys/fs/cgroup/memory/docker/1f/memory.limit_in_bytes", "536870912\n");
    assert_int_equal(cgroup_memory(root).limit, 512 << 20);
}

TEST(what_is_used_is_not_free, begin, end)
{
    assert_true(cgroup_memory(root).free == UINT64_MAX);
    write_file("/proc/self/cgroup", "0::/a/b\n");
    write_file("/sys/fs/cgroup/a/b/memory.max", "1000000\n");
    assert_int_equal(cgroup_memory(root).free, 1000000);
    write_file("/sys/fs/cgroup/a/b/memory.current", "600000\n");
    write_file("/sys/fs/cgroup/a/b/memory.stat", "anon 1\ninactive_file 200000\n");
    assert_int_equal(cgroup_memory(root).free, 600000);
    write_file("/sys/fs/cgroup/a/memory.max", "900000\n"); /* the least is not of the least limit */
    assert_int_equal(cgroup_memory(root).free, 600000);
    assert_int_equal(cgroup_memory(root).limit, 900000);
    write_file("/sys/fs/cgroup/a/memory.current", "950000\n");
    assert_int_equal(cgroup_memory(root).free, 0);
}

TEST(what_is_used_by_version_1, begin, end)
{
    write_file("/proc/self/cgroup", "5:memory:/a\n");
    write_file("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000000\n");
    write_file("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "700000\n");
    write_file("/sys/fs/cgroup/memory/a/memory.stat",
               "inactive_file 1\ntotal_inactive_file 100000\n");
    assert_int_equal(cgroup_memory(root).free, 400000);
}
