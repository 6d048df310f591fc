/* SHA-256 after FIPS 180-4. */
#include "lpprobe.h"

#include <string.h>

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

#define ROR(x, n) (((x) >> (n)) | ((x) << (32 - (n))))

static void compress(uint32_t state[8], const uint8_t *block, size_t blocks)
{
    uint32_t w[64];

    for (; blocks; blocks--, block += 64) {
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];

        for (int i = 0; i < 16; i++) {
            uint32_t word;
            memcpy(&word, block + 4 * i, 4);
            w[i] = __builtin_bswap32(word);
        }
        for (int i = 16; i < 64; i++) {
            uint32_t s0 = ROR(w[i - 15], 7) ^ ROR(w[i - 15], 18) ^ (w[i - 15] >> 3);
            uint32_t s1 = ROR(w[i - 2], 17) ^ ROR(w[i - 2], 19) ^ (w[i - 2] >> 10);
            w[i] = w[i - 16] + s0 + w[i - 7] + s1;
        }
        for (int i = 0; i < 64; i++) {
            uint32_t t1 = h + (ROR(e, 6) ^ ROR(e, 11) ^ ROR(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i];
            uint32_t t2 = (ROR(a, 2) ^ ROR(a, 13) ^ ROR(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
            h = g, g = f, f = e, e = d + t1;
            d = c, c = b, b = a, a = t1 + t2;
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d;
        state[4] += e, state[5] += f, state[6] += g, state[7] += h;
    }
}

void sha256_init(Sha256 *sha)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(sha->state, start, sizeof start);
    sha->length = 0;
    sha->fill = 0;
}

void sha256_update(Sha256 *sha, const void *data, size_t size)
{
    const uint8_t *from = data;

    sha->length += size;
    if (sha->fill) {
        size_t take = 64 - sha->fill < size ? 64 - sha->fill : size;
        memcpy(sha->block + sha->fill, from, take);
        sha->fill += take, from += take, size -= take;
        if (sha->fill < 64)
            return;
        compress(sha->state, sha->block, 1);
        sha->fill = 0;
    }
    compress(sha->state, from, size / 64);
    memcpy(sha->block, from + size / 64 * 64, size % 64);
    sha->fill = size % 64;
}

void sha256_hex(Sha256 *sha, char hex[65])
{
    static const char digits[] = "0123456789abcdef";
    uint64_t bits = sha->length * 8;
    uint8_t tail[72] = {0x80};
    size_t pad = (sha->fill < 56 ? 56 : 120) - sha->fill;

    for (int i = 0; i < 8; i++)
        tail[pad + i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_update(sha, tail, pad + 8);
    for (int i = 0; i < 64; i++)
        hex[i] = digits[sha->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    hex[64] = 0;
}
