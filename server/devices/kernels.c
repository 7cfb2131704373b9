#include "server/devices/kernels.h"

#include "base/log.h"
#include "server/devices/device.h"
#include "server/devices/kernel_files.h"
#include "server/users/memory.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(struct kernel_image) + COMPILER_CODE_BYTES <= CHANNEL_KERNEL_BYTES,
               "the channel takes it");

enum kernel_state {
    KERNEL_WAITS, /* for the compiler */
    KERNEL_FILED, /* … and is not in a file: */
    KERNEL_READ,  /* a file is looked for */
    KERNEL_COMPILING,
    KERNEL_KEPT,
    KERNEL_REFUSED /* it did not compile, or ended workers: not tried again while it has its slot */
};

struct kernel {
    struct kernel_key key;
    uint32_t architecture;
    enum kernel_state state;
    struct user *user; /* who asked first */
    uint64_t number;   /* of all that there were: 1, … */
    uint64_t used;     /* kernels->clock */
    bool was_lost;     /* a compiler has ended with it */
    bool is_suspect;   /* a worker has ended soon after it got it */
    uint8_t *image;    /* KEPT */
    uint64_t image_bytes;
    char name[KERNEL_FILE_NAME]; /* of its file */
};

enum file_task { FILE_READ, FILE_WRITE, FILE_REMOVE };

/* A thread's work on a file. */
struct file_work {
    uv_work_t request;
    struct kernels *kernels;
    uint64_t number; /* of the kernel */
    enum file_task task;
    struct kernel_key key;
    char name[KERNEL_FILE_NAME];
    uint8_t *image; /* that is written, or was read; owned */
    uint64_t bytes;
};

static void go_on(struct kernels *kernels);

static bool is_under_way(const struct kernel *kernel)
{
    return kernel->state <= KERNEL_COMPILING;
}

static struct kernel *find(const struct kernels *kernels, const struct kernel_key *key,
                           uint32_t architecture)
{
    for (int i = 0; i < DEVICE_KERNELS; i++) {
        struct kernel *kernel = kernels->slots[i];
        if (kernel && kernel->architecture == architecture && kernel->key.points == key->points &&
            memcmp(&kernel->key, key, sizeof *key) == 0)
            return kernel;
    }
    return NULL;
}

/* The first of that state; the first that was asked for. NULL: there is none. */
static struct kernel *first_of(const struct kernels *kernels, enum kernel_state state)
{
    struct kernel *first = NULL;
    for (int i = 0; i < DEVICE_KERNELS; i++) {
        struct kernel *kernel = kernels->slots[i];
        if (kernel && kernel->state == state && (!first || kernel->number < first->number))
            first = kernel;
    }
    return first;
}

static void free_slot(struct kernels *kernels, int slot)
{
    struct kernel *kernel = kernels->slots[slot];
    kernels->slots[slot] = NULL;
    if (!kernel)
        return;
    memory_release(kernel->user, sizeof *kernel + kernel->image_bytes);
    kernel->user->kernels.kept--;
    free(kernel->image);
    free(kernel);
}

/* --- to the workers --- */

static void send_kernel(struct device *device, int slot)
{
    const struct kernel *kernel = device->devices->kernels.slots[slot];
    const struct channel_message message = {
        .type = CHANNEL_KERNEL, .u.kernel = {.slot = (uint64_t)slot, .bytes = kernel->image_bytes}};
    if (device->state != DEVICE_READY || device->info.architecture != kernel->architecture ||
        device->kernels.number[slot] == kernel->number)
        return;
    const int descriptor = channel_sealed(kernel->image, kernel->image_bytes);
    if (descriptor < 0)
        return;
    if (device_pass(device, &message, descriptor)) {
        device->kernels.number[slot] = kernel->number;
        device->kernels.at_ns[slot] = uv_hrtime();
    }
    close(descriptor);
}

static void send_all(struct kernels *kernels, int slot)
{
    LIST_EACH (struct device, device, &kernels->devices->list, link)
        send_kernel(device, slot);
}

uint32_t kernels_count(const struct device *device)
{
    uint32_t count = 0;
    for (int i = 0; i < DEVICE_KERNELS; i++)
        count += device->kernels.number[i] != 0;
    return count;
}

/* --- files --- */

static void on_file_thread(uv_work_t *request)
{
    struct file_work *work = request->data;
    if (work->task == FILE_WRITE)
        kernel_file_write(work->kernels->folder, work->name, work->image, work->bytes);
    else if (work->task == FILE_REMOVE)
        kernel_file_remove(work->kernels->folder, work->name);
    else
        work->image = kernel_file_read(work->kernels->folder, work->name, &work->key, &work->bytes);
}

static int slot_of(const struct kernels *kernels, uint64_t number)
{
    int slot = 0;
    while (slot < DEVICE_KERNELS &&
           !(kernels->slots[slot] && kernels->slots[slot]->number == number))
        slot++;
    return slot;
}

/* It is kept from here on; takes the image. */
static void keep(struct kernels *kernels, int slot, uint8_t *image, uint64_t bytes)
{
    struct kernel *kernel = kernels->slots[slot];
    kernel->state = KERNEL_KEPT;
    kernel->image = image;
    kernel->image_bytes = bytes;
    memory_hold(kernel->user, bytes);
    send_all(kernels, slot);
}

static void on_file(uv_work_t *request, int status)
{
    struct file_work *work = request->data;
    struct kernels *kernels = work->kernels;
    const int slot = slot_of(kernels, work->number);
    if (status == 0 && work->task == FILE_READ && !kernels->compiler.closed &&
        slot < DEVICE_KERNELS) {
        if (work->image)
            keep(kernels, slot, work->image, work->bytes);
        else
            kernels->slots[slot]->state =
                kernels->compiler.state == COMPILER_UNUSABLE ? KERNEL_REFUSED : KERNEL_FILED;
        work->image = NULL;
    }
    free(work->image);
    free(work);
    go_on(kernels);
}

/* The thread writes a copy of its own. False: no memory. */
static bool begin_file(struct kernels *kernels, const struct kernel *kernel, enum file_task task)
{
    struct file_work *work = calloc(1, sizeof *work);
    if (!work)
        return false;
    *work = (struct file_work){.kernels = kernels,
                               .number = kernel->number,
                               .task = task,
                               .key = kernel->key,
                               .bytes = kernel->image_bytes};
    memcpy(work->name, kernel->name, sizeof work->name);
    work->request.data = work;
    work->image = task == FILE_WRITE ? malloc(work->bytes) : NULL;
    if (work->image)
        memcpy(work->image, kernel->image, work->bytes);
    if ((task == FILE_WRITE && !work->image) ||
        uv_queue_work(kernels->devices->loop, &work->request, on_file_thread, on_file) != 0) {
        free(work->image);
        free(work);
        return false;
    }
    return true;
}

/* Has the worker had it for longer than a kernel takes that ends its worker? */
static bool is_trusted(const struct kernels_sent *sent, int slot, const struct kernel *kernel,
                       uint64_t now_ns)
{
    return sent->number[slot] == kernel->number && now_ns - sent->at_ns[slot] >= KERNELS_TRIAL_NS;
}

/* It is not sent any more. */
static void refuse(struct kernel *kernel)
{
    log_warning("a stencil of %u points goes without a kernel of its own: two workers ended soon "
                "after they got it",
                kernel->key.points);
    memory_release(kernel->user, kernel->image_bytes);
    free(kernel->image);
    kernel->image = NULL;
    kernel->image_bytes = 0;
    kernel->state = KERNEL_REFUSED;
}

void kernels_worker_lost(struct device *device)
{
    struct kernels *kernels = &device->devices->kernels;
    const struct kernels_sent *sent = &device->kernels;
    const uint64_t now_ns = uv_hrtime();
    for (int i = 0; i < DEVICE_KERNELS && !kernels->compiler.closed; i++) {
        struct kernel *kernel = kernels->slots[i];
        if (!kernel || kernel->state != KERNEL_KEPT || sent->number[i] != kernel->number ||
            is_trusted(sent, i, kernel, now_ns))
            continue;
        if (kernels->folder)
            begin_file(kernels, kernel, FILE_REMOVE);
        if (kernel->is_suspect)
            refuse(kernel);
        kernel->is_suspect = true;
    }
    memset(&device->kernels, 0, sizeof device->kernels);
}

/* --- the compiler --- */

static void on_compiled(struct compiler *compiler, const uint8_t *code, uint32_t bytes,
                        const char *why)
{
    struct kernels *kernels = LIST_ENTRY(compiler, struct kernels, compiler);
    struct kernel *kernel = first_of(kernels, KERNEL_COMPILING);
    const uint64_t image_bytes = sizeof(struct kernel_image) + bytes;
    struct kernel_image *image = bytes ? calloc(1, image_bytes) : NULL;
    if (!image) {
        log_warning("a stencil of %u points goes without a kernel of its own: %s",
                    kernel->key.points, bytes ? "no memory" : why);
        kernel->state = KERNEL_REFUSED;
        return;
    }
    image->key = kernel->key;
    memcpy(image->code, code, bytes);
    keep(kernels, slot_of(kernels, kernel->number), (uint8_t *)image, image_bytes);
    if (kernels->folder)
        begin_file(kernels, kernel, FILE_WRITE);
}

/* Not always by its fault: it is tried once more. */
static void on_lost(struct compiler *compiler)
{
    struct kernel *kernel =
        first_of(LIST_ENTRY(compiler, struct kernels, compiler), KERNEL_COMPILING);
    kernel->state = kernel->was_lost ? KERNEL_REFUSED : KERNEL_FILED;
    kernel->was_lost = true;
}

static void on_changed(struct compiler *compiler)
{
    struct kernels *kernels = LIST_ENTRY(compiler, struct kernels, compiler);
    for (int i = 0; i < DEVICE_KERNELS && compiler->state == COMPILER_UNUSABLE; i++)
        if (kernels->slots[i] && is_under_way(kernels->slots[i]) &&
            kernels->slots[i]->state != KERNEL_READ)
            kernels->slots[i]->state = KERNEL_REFUSED;
    go_on(kernels);
}

/* Where there is a folder, look into it first, which takes the compiler's version. */
static void look_for_file(struct kernels *kernels, struct kernel *kernel)
{
    kernel->state = KERNEL_FILED;
    if (kernels->folder &&
        kernel_file_name(&kernel->key, kernel->architecture, kernels->compiler.nvrtc,
                         kernel->name) &&
        begin_file(kernels, kernel, FILE_READ))
        kernel->state = KERNEL_READ;
}

static void go_on(struct kernels *kernels)
{
    struct compiler *compiler = &kernels->compiler;
    struct kernel *kernel;
    if (compiler->state == COMPILER_UNUSABLE)
        return;
    while (compiler->nvrtc && (kernel = first_of(kernels, KERNEL_WAITS)))
        look_for_file(kernels, kernel);
    kernel = first_of(kernels, compiler->nvrtc ? KERNEL_FILED : KERNEL_WAITS);
    if (!kernel)
        return;
    if (compiler->state == COMPILER_DOWN)
        compiler_start(compiler);
    else if (compiler->state == COMPILER_IDLE) {
        kernel->state = KERNEL_COMPILING;
        compiler_order(compiler, kernel->architecture, &kernel->key);
    }
}

/* --- admission --- */

/* A slot for one more of the user's: a free one, else that of the longest unused, where the user
 * has many of the user's own. −1: none now. */
static int find_slot(const struct kernels *kernels, const struct user *user)
{
    const bool has_many = user->kernels.kept >= KERNELS_OF_USER;
    int best = -1;
    for (int i = 0; i < DEVICE_KERNELS; i++) {
        const struct kernel *kernel = kernels->slots[i];
        if (!kernel && !has_many)
            return i;
        if (!kernel || is_under_way(kernel) || (has_many && kernel->user != user))
            continue;
        if (best < 0 || kernel->used < kernels->slots[best]->used)
            best = i;
    }
    return best;
}

/* Is none of the user's under way, and not too much begun of late? */
static bool may_begin(const struct kernels *kernels, const struct user *user, uint64_t now_ns)
{
    for (int i = 0; i < DEVICE_KERNELS; i++)
        if (kernels->slots[i] && kernels->slots[i]->user == user && is_under_way(kernels->slots[i]))
            return false;
    return user->kernels.next_ns <= now_ns + (KERNELS_AT_ONCE - 1) * KERNELS_EVERY_NS;
}

static void admit(struct kernels *kernels, const struct kernel_key *key, uint32_t architecture,
                  struct user *user)
{
    struct failure failure = {0};
    const uint64_t now_ns = uv_hrtime();
    const bool may =
        kernels->compiler.state != COMPILER_UNUSABLE && may_begin(kernels, user, now_ns);
    const int slot = may ? find_slot(kernels, user) : -1;
    struct kernel *kernel = slot < 0 ? NULL : memory_new(user, sizeof *kernel, NULL, &failure);
    if (!kernel)
        return;
    free_slot(kernels, slot);
    *kernel = (struct kernel){.key = *key,
                              .architecture = architecture,
                              .user = user,
                              .number = ++kernels->last,
                              .used = ++kernels->clock};
    kernels->slots[slot] = kernel;
    user->kernels.kept++;
    user->kernels.next_ns =
        (user->kernels.next_ns > now_ns ? user->kernels.next_ns : now_ns) + KERNELS_EVERY_NS;
    go_on(kernels);
}

static bool has_padding(const struct job *job)
{
    bool pads = false;
    for (int a = 0; a < job->axes; a++)
        for (int s = 0; s < SIDE_COUNT; s++) {
            const struct side side = side_of(job, a, s);
            pads |= kernel_pads(&side);
        }
    return pads;
}

void kernels_use(struct device *device, struct user *user, const struct job *job,
                 const uint8_t *block)
{
    struct kernels *kernels = &device->devices->kernels;
    struct kernel_key key;
    int64_t n[AXIS_COUNT];
    if (!device->info.architecture || job->operator_id != OPERATOR_STENCIL ||
        job_points(job) <= KERNEL_LEAST_POINTS)
        return;
    for (int a = 0; a < AXIS_COUNT; a++)
        n[a] = (int64_t)job->n[a];
    const void *offsets = job_block_at(job, block, BLOCK_OFFSETS);
    if (!kernel_key_init(&key, job->dtype, n, has_padding(job), job->more.stencil_points,
                         offsets) ||
        kernel_is_common(&key))
        return;
    struct kernel *kernel = find(kernels, &key, device->info.architecture);
    if (!kernel) {
        admit(kernels, &key, device->info.architecture, user);
        return;
    }
    kernel->used = ++kernels->clock;
    if (kernel->state != KERNEL_KEPT)
        return;
    const int slot = slot_of(kernels, kernel->number);
    if (kernel->is_suspect && is_trusted(&device->kernels, slot, kernel, uv_hrtime()))
        kernel->is_suspect = false; /* the worker that ended did so by chance */
    send_kernel(device, slot);
}

void kernels_open(struct kernels *kernels, struct devices *devices)
{
    const char *folder = devices->config->kernel_cache;
    kernels->devices = devices;
    kernels->folder = folder && *folder && kernel_files_open(folder) ? folder : NULL;
    kernels->compiler.changed = on_changed;
    kernels->compiler.compiled = on_compiled;
    kernels->compiler.lost = on_lost;
    compiler_open(&kernels->compiler, devices->loop);
}

void kernels_free(struct kernels *kernels)
{
    for (int i = 0; i < DEVICE_KERNELS; i++)
        free_slot(kernels, i);
}
