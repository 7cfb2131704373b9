/* Runs a fuzz target without a fuzzer: on each named file whole, truncated at every byte, and with
 * every byte in turn set to 0xff (inside a payload, with some bytes). Without files it fails, so
 * that an empty corpus cannot pass. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* From an allocation of the exact size, so that a sanitizer detects reads past its end. */
static void run(const uint8_t *bytes, size_t length)
{
    uint8_t *copy = malloc(length ? length : 1);
    if (!copy)
        abort();
    memcpy(copy, bytes, length);
    LLVMFuzzerTestOneInput(copy, length);
    free(copy);
}

int main(int count, char **names)
{
    static uint8_t bytes[1 << 16];
    for (int i = 1; i < count; i++) {
        FILE *file = fopen(names[i], "rb");
        if (!file) {
            perror(names[i]);
            return 1;
        }
        const size_t length = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        run(bytes, length);
        for (size_t at = 0; at < length; at += at < 256 || at + 64 > length ? 1 : 61) {
            run(bytes, at);
            const uint8_t kept = bytes[at];
            bytes[at] = 0xff;
            run(bytes, length);
            bytes[at] = kept;
        }
    }
    printf("%d inputs\n", count - 1);
    return count > 1 ? 0 : 1;
}
