// axpy computes
//     for i in [0, n)
//         z[i] = alpha*x[i] + y[i]
// Sizes: x: n, y: n, z: n
// Assumes: n >= 1; z overlaps no other array
// Indices have 32 bits: n, n + 511 must not exceed 2147483647

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#ifndef POLYLOOP_MIN_INT32
#define POLYLOOP_MIN_INT32
static inline int min_int32(int a, int b) { return a < b ? a : b; }
#endif

void axpy(const float *restrict x, const float *restrict y, float *restrict z, float alpha, int n)
{
    for (int bx = 0; bx < (n + 255) / 256; ++bx) {
        for (int tx = 0; tx < min_int32(256, n - 256 * bx); ++tx) {
            const int i = 256 * bx + tx;
            z[i] = alpha * x[i] + y[i];
        }
    }
}
