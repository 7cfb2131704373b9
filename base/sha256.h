/* SHA-256 (FIPS 180-4). */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32 };

struct sha256 {
    uint32_t state[8];
    uint64_t bytes; /* added so far */
    uint8_t block[64];
};

/* init, add any number of times, then end, which gives the digest of all bytes added. */
void sha256_init(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *bytes, size_t count);
void sha256_end(struct sha256 *hash, uint8_t digest[SHA256_BYTES]);
