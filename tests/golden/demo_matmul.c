// matmul computes
//     for i in [0, n), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, n)
// Sizes: a: n x n, b: n x n, c: n x n
// Assumes: n >= 1; c overlaps no other array
// Indices have 32 bits: n*n, n + 31 must not exceed 2147483647

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#ifndef POLYLOOP_MIN_INT32
#define POLYLOOP_MIN_INT32
static inline int min_int32(int a, int b) { return a < b ? a : b; }
#endif

void matmul(const float *restrict a, const float *restrict b, float *restrict c, int n)
{
    for (int by = 0; by < (n + 15) / 16; ++by) {
        for (int bx = 0; bx < (n + 15) / 16; ++bx) {
            float acc[16][16];
            for (int ty = 0; ty < min_int32(16, n - 16 * by); ++ty) {
                for (int tx = 0; tx < min_int32(16, n - 16 * bx); ++tx)
                    acc[ty][tx] = 0.0f;
            }
            // Full tiles, without tests; the others begin at k_outer_full.
            const int k_outer_full = n / 16;
            float a_fetch[16][16];
            float b_fetch[16][16];
            for (int k_outer = 0; k_outer < k_outer_full; ++k_outer) {
                for (int ty = 0; ty < 16; ++ty) {
                    const int i = 16 * by + ty;
                    for (int tx = 0; tx < 16; ++tx) {
                        const int j = 16 * bx + tx;
                        if (i < n)
                            a_fetch[ty][tx] = a[i * n + 16 * k_outer + tx];
                        if (j < n)
                            b_fetch[ty][tx] = b[(16 * k_outer + ty) * n + j];
                    }
                }
                for (int ty = 0; ty < min_int32(16, n - 16 * by); ++ty) {
                    for (int tx = 0; tx < min_int32(16, n - 16 * bx); ++tx) {
                        for (int k_inner = 0; k_inner < 16; ++k_inner)
                            acc[ty][tx] += a_fetch[ty][k_inner] * b_fetch[k_inner][tx];
                    }
                }
            }
            for (int k_outer = k_outer_full; k_outer < (n + 15) / 16; ++k_outer) {
                for (int ty = 0; ty < 16; ++ty) {
                    const int i = 16 * by + ty;
                    for (int tx = 0; tx < 16; ++tx) {
                        const int j = 16 * bx + tx;
                        if (i < n && 16 * k_outer + tx < n)
                            a_fetch[ty][tx] = a[i * n + 16 * k_outer + tx];
                        if (16 * k_outer + ty < n && j < n)
                            b_fetch[ty][tx] = b[(16 * k_outer + ty) * n + j];
                    }
                }
                for (int ty = 0; ty < min_int32(16, n - 16 * by); ++ty) {
                    for (int tx = 0; tx < min_int32(16, n - 16 * bx); ++tx) {
                        for (int k_inner = 0; k_inner < n - 16 * k_outer; ++k_inner)
                            acc[ty][tx] += a_fetch[ty][k_inner] * b_fetch[k_inner][tx];
                    }
                }
            }
            for (int ty = 0; ty < min_int32(16, n - 16 * by); ++ty) {
                for (int tx = 0; tx < min_int32(16, n - 16 * bx); ++tx)
                    c[(16 * by + ty) * n + 16 * bx + tx] = acc[ty][tx];
            }
        }
    }
}
