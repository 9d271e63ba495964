// groups computes
//     for g in [0, m)
//         low = group[g]
//         high = group[g + 1]
//         t = 0.0f
//         for s in [low, high)
//             begin = first[s]
//             stop = first[s + 1]
//             t = max(t, sum(j, x[j])), j in [begin, stop)
//         y[g] = t
// Sizes: group: (m + 1), first: (n + 1), x: entries, y: m
// Assumes: entries >= 0; m >= 1; n >= 1; y overlaps no other array
// Indices have 64 bits: 32 do not hold sums of numbers from memory, or constants like these

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#ifndef POLYLOOP_MIN_INT64
#define POLYLOOP_MIN_INT64
static inline int64_t min_int64(int64_t a, int64_t b) { return a < b ? a : b; }
#endif
#ifndef POLYLOOP_FLOORDIV_INT64
#define POLYLOOP_FLOORDIV_INT64
static inline int64_t floordiv_int64(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
#endif

void groups(
    const int *restrict group,
    const int *restrict first,
    const float *restrict x,
    float *restrict y,
    int m_arg,
    int n,
    int entries)
{
    const int64_t m = (int64_t)m_arg;
    for (int64_t bx = 0; bx < (m + 1) / 2; ++bx) {
        int low[2];
        int high[2];
        float t[2][32];
        for (int64_t ty = 0; ty < min_int64(2LL, m - 2 * bx); ++ty) {
            const int64_t g = 2 * bx + ty;
            for (int64_t tx = 0; tx < 32; ++tx) {
                low[ty] = group[g];
                high[ty] = group[g + 1];
                t[ty][tx] = 0.0f;
            }
        }
        float acc[2][32];
        for (int64_t ty = 0; ty < min_int64(2LL, m - 2 * bx); ++ty) {
            for (int64_t s = (int64_t)low[ty]; s < (int64_t)high[ty]; ++s) {
                for (int64_t tx = 0; tx < 32; ++tx) {
                    int begin = first[s];
                    int stop = first[s + 1];
                    acc[ty][tx] = 0.0f;
                    for (int64_t j_outer = floordiv_int64((int64_t)begin - tx + 31, 32);
                            32 * j_outer < (int64_t)stop - tx;
                            ++j_outer)
                        acc[ty][tx] += x[32 * j_outer + tx];
                }
                float total = 0.0f;
                for (int64_t tx = 0; tx < 32; ++tx)
                    total += acc[ty][tx];
                for (int64_t tx = 0; tx < 32; ++tx)
                    acc[ty][tx] = total;
                for (int64_t tx = 0; tx < 32; ++tx)
                    t[ty][tx] = fmaxf(t[ty][tx], acc[ty][tx]);
            }
        }
        for (int64_t ty = 0; ty < min_int64(2LL, m - 2 * bx); ++ty)
            y[2 * bx + ty] = t[ty][0];
    }
}
