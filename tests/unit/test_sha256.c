/* SHA-256 against the examples of FIPS 180-4 and its test suite (NIST CAVP). */
#include "base/sha256.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

static void assert_digest(const void *bytes, size_t count, size_t piece, const char *expected)
{
    struct sha256 hash;
    uint8_t digest[SHA256_BYTES];
    char text[2 * SHA256_BYTES + 1];
    sha256_init(&hash);
    for (size_t at = 0; at < count; at += piece)
        sha256_add(&hash, (const char *)bytes + at, count - at < piece ? count - at : piece);
    sha256_end(&hash, digest);
    for (int i = 0; i < SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(text, expected);
}

TEST(messages_of_the_standard_have_its_digests)
{
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    static char million[1000000];
    assert_digest("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_digest("abc", 3, 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_digest(two_blocks, sizeof two_blocks - 1, 7,
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    memset(million, 'a', sizeof million);
    assert_digest(million, sizeof million, 4096,
                  "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(padding_is_right_at_every_length_about_a_block)
{
    /* Of n bytes 'b', n = 55, 56, 63, 64: where the length just fits, or does not. */
    static const struct {
        size_t count;
        const char *digest;
    } lengths[] = {{55, "eb2c86e932179f4ba13fe8715a26124b77d6bad290b9b4c1cc140cf633300c19"},
                   {56, "a5fc6e203a4c2b657d0d153885932414b2ffc6a93f0f8bf8b3183315e5a7212c"},
                   {63, "94e419fabac7f930810f9636354042f8c1426d2f834d4ab65c93dc1e69326b13"},
                   {64, "a0fab1377f49a759b57f63318262ebe89fabfc990e8e93ceac2984561482b9d4"}};
    char bytes[64];
    memset(bytes, 'b', sizeof bytes);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        assert_digest(bytes, lengths[i].count, 5, lengths[i].digest);
}
