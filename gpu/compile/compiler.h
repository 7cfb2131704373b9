/* What the front and fdcompile say to each other, over a stream socket that is fdcompile's
 * descriptor COMPILER_DESCRIPTOR:
 *
 *   fdcompile → front   compiler_hello, once: it has warmed NVRTC up and locked itself in
 *   front → fdcompile   compiler_order, one at a time
 *   fdcompile → front   compiler_reply and the kernel's code (a cubin)
 *
 * fdcompile ends when the socket closes. It can hang or die of what it compiles; the front then
 * starts another. Both are of one build. */
#pragma once

#include "gpu/compile/source.h"

enum {
    COMPILER_DESCRIPTOR = 3,
    COMPILER_CODE_BYTES = 4 << 20,  /* at most */
    COMPILER_MEMORY_BYTES = 1 << 30 /* that it may take beside what NVRTC has when warm */
};

struct compiler_hello {
    uint32_t nvrtc; /* 1000 × major + 10 × minor version; 0: it cannot be used, since: */
    char text[124];
};

struct compiler_order {
    uint32_t architecture; /* 10 × major + minor version of the compute capability */
    struct kernel_key key;
};

struct compiler_reply {
    uint32_t bytes; /* of the code that follows; 0: it did not compile, since: */
    char text[124];
};
