/* stencil_kernel.cuh as a string: the build names the file. */
#include "gpu/compile/source.h"

__asm__(".pushsection .rodata\n"
        ".global kernel_header\n"
        "kernel_header:\n"
        ".incbin \"" KERNEL_HEADER_FILE "\"\n"
        ".byte 0\n"
        ".popsection\n");
