/* Regions are mapped at the alignment of pinned pieces, while other threads map memory. */
#include "gpu/worker/region.h"
#include "base/rights.h"
#include "base/wake.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = (9 << 20) + 100, PAGE = 4096, PATIENCE_MS = 20000 };

/* Another thread, once, while the file is mapped: it takes the first page of the address range. */
static struct {
    bool takes;       /* … just before */
    bool takes_after; /* … just after the kernel, an old one, has refused to share the file */
    uint8_t *page;
} other;

void *__real_mmap(void *at, size_t bytes, int access, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int access, int flags, int file, off_t offset);

static void other_takes(void *at)
{
    other.page = __real_mmap(at, PAGE, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (other.page != at)
        abort();
    memset(other.page, 0x77, PAGE);
    other.takes = other.takes_after = false;
}

void *__wrap_mmap(void *at, size_t bytes, int access, int flags, int file, off_t offset)
{
    if (file >= 0 && other.takes_after) {
        if ((flags & MAP_FIXED) == MAP_FIXED)
            munmap(at, bytes); /* as the kernel does before it asks the file */
        other_takes(at);
        errno = EPERM;
        return MAP_FAILED;
    }
    if (file >= 0 && other.takes)
        other_takes(at);
    return __real_mmap(at, bytes, access, flags, file, offset);
}

/* A region whose bytes are all `value` is mapped. */
static void map(struct regions *regions, uint64_t id, int value)
{
    const int file = rights_memfd("region", BYTES);
    static char bytes[BYTES];
    memset(bytes, value, sizeof bytes);
    assert_int_equal(pwrite(file, bytes, sizeof bytes, 0), BYTES);
    const struct channel_message message = {.u.region = {.region = id, .bytes = BYTES}};
    assert_true(regions_map(regions, &message, file));
    struct pollfd mapped = {.fd = regions->wake, .events = POLLIN};
    assert_int_equal(poll(&mapped, 1, PATIENCE_MS), 1);
    wake_take(regions->wake);
    uint64_t answered;
    enum status status;
    assert_true(regions_mapped(regions, &answered, &status));
    assert_int_equal(answered, id);
    assert_int_equal(status, STATUS_OK);
    assert_false(regions_mapped(regions, &answered, &status));
    const struct region *region = ids_find(&regions->ids, id);
    assert_int_equal((uintptr_t)region->memory % BACKEND_PIN_BYTES, 0);
    assert_memory_equal(region->memory, bytes, BYTES);
}

TEST(test_other_threads_keep_their_memory)
{
    static const struct backend backend = {0};
    struct regions regions;
    struct failure failure = {0};
    const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(regions_init(&regions, &backend, wake, &failure));
    for (int i = 0; i < 2; i++) {
        other.takes = i == 0;
        other.takes_after = i == 1;
        other.page = NULL;
        map(&regions, (uint64_t)i + 1, 0x11 * (i + 1));
        assert_non_null(other.page);
        for (int k = 0; k < PAGE; k++)
            assert_int_equal(other.page[k], 0x77);
        assert_int_equal(munmap(other.page, PAGE), 0);
        regions_unmap(&regions, (uint64_t)i + 1);
    }
    regions_free(&regions);
    close(wake);
}
