// triad computes
//     for i in [0, n)
//         a[i] = b[i] + 3*c[i]
// Sizes: a: n, b: n, c: n
// Assumes: n >= 0; a overlaps no other array
// Indices have 32 bits: n, n + 271 must not exceed 2147483647

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#ifndef POLYLOOP_MIN_INT32
#define POLYLOOP_MIN_INT32
static inline int min_int32(int a, int b) { return a < b ? a : b; }
#endif
#ifndef POLYLOOP_MAX_INT32
#define POLYLOOP_MAX_INT32
static inline int max_int32(int a, int b) { return a > b ? a : b; }
#endif
#ifndef POLYLOOP_STORE_PAST_CACHES
#define POLYLOOP_STORE_PAST_CACHES
// Stores a vector that caches need not keep; where it does not begin at a multiple of its bytes, in
// smaller parts.
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif
static inline void store_past_caches(void *to, const void *line, int bytes)
{
    char *target = (char *)to;
    const char *source = (const char *)line;
    const uintptr_t place = (uintptr_t)to | (uintptr_t)bytes;
#if defined(__AVX512F__)
    if (place % 64 == 0) {
        for (int n = 0; n < bytes; n += 64)
            _mm512_stream_si512((__m512i *)(target + n), _mm512_loadu_si512(source + n));
        return;
    }
#endif
#if defined(__AVX__)
    if (place % 32 == 0) {
        for (int n = 0; n < bytes; n += 32)
            _mm256_stream_si256(
                (__m256i *)(target + n), _mm256_loadu_si256((const __m256i *)(source + n)));
        return;
    }
#endif
#if defined(__SSE2__)
    if (place % 16 == 0) {
        for (int n = 0; n < bytes; n += 16)
            _mm_stream_si128(
                (__m128i *)(target + n), _mm_loadu_si128((const __m128i *)(source + n)));
        return;
    }
#endif
    memcpy(target, source, (size_t)bytes);
}

// Lets other threads see what this one stored past the caches.
static inline void show_stores(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}
#endif

void triad(float *restrict a, const float *restrict b, const float *restrict c, int n)
{
    #pragma omp parallel
    {
        #pragma omp for nowait
        for (int bx = 0; bx < (n + 127) / 128; ++bx) {
            // Full tiles, without tests; the others begin at i_inner_outer_full.
            const int i_inner_outer_full = min_int32(n / 16 - 8 * bx, 8);
            for (int i_inner_outer = 0; i_inner_outer < i_inner_outer_full; ++i_inner_outer) {
                _Alignas(64) float a_line[16];
                #pragma omp simd
                for (int i_inner_inner = 0; i_inner_inner < 16; ++i_inner_inner) {
                    const int i = 128 * bx + 16 * i_inner_outer + i_inner_inner;
                    a_line[i_inner_inner] = b[i] + 3.0f * c[i];
                }
                store_past_caches(&a[128 * bx + 16 * i_inner_outer], a_line, 64);
            }
            for (int i_inner_outer = max_int32(0, i_inner_outer_full);
                    i_inner_outer < min_int32(8, (n + 15) / 16 - 8 * bx);
                    ++i_inner_outer) {
                #pragma omp simd
                for (int i_inner_inner = 0;
                        i_inner_inner < min_int32(16, n - 128 * bx - 16 * i_inner_outer);
                        ++i_inner_inner) {
                    const int i = 128 * bx + 16 * i_inner_outer + i_inner_inner;
                    a[i] = b[i] + 3.0f * c[i];
                }
            }
        }
        show_stores();
    }
}
