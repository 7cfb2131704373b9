#include "gpu/compile/nvrtc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* As nvrtc.h declares them, which need not be installed. */
typedef struct program *nvrtc_program;

static struct {
    int (*version)(int *major, int *minor);
    int (*create)(nvrtc_program *program, const char *text, const char *name, int headers,
                  const char *const *header_texts, const char *const *header_names);
    int (*compile)(nvrtc_program program, int count, const char *const *options);
    int (*code_bytes)(nvrtc_program program, size_t *bytes);
    int (*code)(nvrtc_program program, char *code);
    int (*log_bytes)(nvrtc_program program, size_t *bytes);
    int (*log)(nvrtc_program program, char *log);
    int (*destroy)(nvrtc_program *program);
} nvrtc;

static void *open_library(void)
{
    /* The names of the versions that kernels were compiled with; then a toolkit's usual place,
     * which the loader often does not know. */
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12",
                                        "/usr/local/cuda/lib64/libnvrtc.so.13",
                                        "/usr/local/cuda/lib64/libnvrtc.so.12"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

uint32_t nvrtc_open(char *why, size_t room)
{
    int major, minor;
    void *library = open_library();
    if (!library) {
        snprintf(why, room, "libnvrtc.so of CUDA 12 or 13 is not installed");
        return 0;
    }
    const struct {
        const char *name;
        void *place;
    } functions[] = {
        {"nvrtcVersion", &nvrtc.version},        {"nvrtcCreateProgram", &nvrtc.create},
        {"nvrtcCompileProgram", &nvrtc.compile}, {"nvrtcGetCUBINSize", &nvrtc.code_bytes},
        {"nvrtcGetCUBIN", &nvrtc.code},          {"nvrtcGetProgramLogSize", &nvrtc.log_bytes},
        {"nvrtcGetProgramLog", &nvrtc.log},      {"nvrtcDestroyProgram", &nvrtc.destroy}};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        /* POSIX lets a pointer of dlsym() be a function's. */
        void *const function = dlsym(library, functions[i].name);
        if (!function) {
            snprintf(why, room, "libnvrtc.so has no %s", functions[i].name);
            return 0;
        }
        *(void **)functions[i].place = function;
    }
    if (nvrtc.version(&major, &minor) != 0) {
        snprintf(why, room, "libnvrtc.so does not tell its version");
        return 0;
    }
    return (uint32_t)(1000 * major + 10 * minor);
}

static void tell_log(nvrtc_program program, char *why, size_t room)
{
    size_t bytes = 0;
    char *log = nvrtc.log_bytes(program, &bytes) == 0 && bytes ? malloc(bytes) : NULL;
    if (log && nvrtc.log(program, log) == 0)
        snprintf(why, room, "%s", log);
    else
        snprintf(why, room, "NVRTC did not compile it");
    free(log);
}

void *nvrtc_compile(const char *text, uint32_t architecture, size_t *bytes, char *why, size_t room)
{
    static const char *const header_name = "stencil_kernel.cuh";
    const char *const header_text = kernel_header;
    nvrtc_program program = NULL;
    char option[40];
    void *code = NULL;
    snprintf(option, sizeof option, "--gpu-architecture=sm_%u", architecture);
    const char *const options[] = {option, "--std=c++17", "--fmad=false"};
    if (nvrtc.create(&program, text, "stencil.cu", 1, &header_text, &header_name) != 0) {
        snprintf(why, room, "NVRTC takes no program");
        return NULL;
    }
    if (nvrtc.compile(program, (int)(sizeof options / sizeof *options), options) != 0)
        tell_log(program, why, room);
    else if (nvrtc.code_bytes(program, bytes) != 0 || *bytes == 0 || !(code = malloc(*bytes)))
        snprintf(why, room, "there is no code, or no memory for it");
    else if (nvrtc.code(program, code) != 0) {
        snprintf(why, room, "NVRTC gives no code");
        free(code);
        code = NULL;
    }
    nvrtc.destroy(&program);
    return code;
}
