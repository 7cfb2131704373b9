/* Compiled kernels in a folder of the server's own, a file each:
 *
 *   name      SHA-256 of all that the code depends on: source, architecture, NVRTC's version
 *   content   SHA-256 of the rest; struct kernel_image with its code
 *
 * A file that is broken, of another kernel or of another owner is as good as none. When the folder
 * has more than KERNEL_FILES_BYTES, the files used longest ago go. Any thread; these functions wait
 * for the disk. */
#pragma once

#include "gpu/compile/source.h"

enum {
    KERNEL_FILE_NAME = 65, /* with the NUL */
    KERNEL_FILES_MOST = 4096
};
#define KERNEL_FILES_BYTES (UINT64_C(256) << 20)

/* Is it a folder of this process's user that nobody else may write? It is made where there is none,
 * of mode 0700. False: a line of the log says why not. */
bool kernel_files_open(const char *folder);

/* False: no memory. */
bool kernel_file_name(const struct kernel_key *key, uint32_t architecture, uint32_t nvrtc,
                      char name[KERNEL_FILE_NAME]);

/* The image in the file, of *bytes, which is the caller's to free; NULL: there is none for the key.
 */
uint8_t *kernel_file_read(const char *folder, const char *name, const struct kernel_key *key,
                          uint64_t *bytes);

/* Write it, under another name until it is whole. A failure is logged. */
void kernel_file_write(const char *folder, const char *name, const uint8_t *image, uint64_t bytes);

/* If it is there. */
void kernel_file_remove(const char *folder, const char *name);
