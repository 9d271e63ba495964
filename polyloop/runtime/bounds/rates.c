/* Rates of a processor: bytes that are read, and operations of vectors, by all threads in a second. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <omp.h>

#pragma STDC FP_CONTRACT ON

#if defined(__AVX512F__)
#define WIDTH 64
#elif defined(__AVX__)
#define WIDTH 32
#else
#define WIDTH 16
#endif

typedef uint64_t words __attribute__((vector_size(WIDTH)));

int vector_bytes(void) { return WIDTH; }
int threads(void) { return omp_get_max_threads(); }

static words read_all(const words *p, int64_t n)
{
    words sums[8];
    memset(sums, 0, sizeof sums);
    /* four streams, as one does not keep a core's requests under way */
    for (int64_t i = 0; i + 2 <= n / 4; i += 2)
#pragma GCC unroll 8
        for (int k = 0; k < 8; ++k)
            sums[k] ^= p[k / 2 * (n / 4) + i + k % 2];
    for (int k = 1; k < 8; ++k)
        sums[0] ^= sums[k];
    return sums[0];
}

/* Bytes that all threads read in a second, each from `bytes` of its own, piece by piece, a piece `rounds` times: the best
   piece of `repeats`, as another program may have a core meanwhile; negative without memory. */
double reading(int64_t bytes, int64_t piece, int rounds, int repeats, int team)
{
    double best = 0.0, start = 0.0;
    int failed = 0;
    #pragma omp parallel num_threads(team)
    {
        const int64_t n = piece / WIDTH, pieces = bytes / piece;
        words *own = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096), found;
        memset(&found, 0, sizeof found);
        if (own == NULL) {
            #pragma omp atomic write
            failed = 1;
        } else {
            memset(own, 1, bytes);
        }
        for (int64_t repeat = 0; repeat < repeats * pieces; ++repeat) {
            #pragma omp barrier
            #pragma omp master
            start = omp_get_wtime();
            #pragma omp barrier
            for (int round = 0; own != NULL && round < rounds; ++round) {
                found ^= read_all(own + repeat % pieces * n, n);
                __asm__ volatile("" : : "r"(own), "r"(&found) : "memory");
            }
            #pragma omp barrier
            #pragma omp master
            {
                const double rate = (double)(n / 8 * 8 * WIDTH) * rounds * team / (omp_get_wtime() - start);
                if (rate > best)
                    best = rate;
            }
        }
        free(own);
    }
    return failed ? -1.0 : best;
}

/* Operations on numbers of TYPE that all threads do in a second, with CHAINS results under way. */
#define CHAINS 12
#define OPERATIONS(NAME, TYPE, COUNT, STEP)                                                                       \
    double NAME(int rounds, int repeats, int team)                                                                \
    {                                                                                                             \
        typedef TYPE lanes __attribute__((vector_size(WIDTH)));                                                   \
        double best = 0.0, start = 0.0;                                                                           \
        _Pragma("omp parallel num_threads(team)")                                                                 \
        {                                                                                                         \
            lanes x[CHAINS], a, b;                                                                                \
            memset(x, 0, sizeof x);                                                                               \
            memset(&a, 0, sizeof a);                                                                              \
            memset(&b, 0, sizeof b);                                                                              \
            __asm__ volatile("" : "+m"(a), "+m"(b), "+m"(x));                                                     \
            for (int repeat = 0; repeat < repeats; ++repeat) {                                                    \
                _Pragma("omp barrier")                                                                            \
                _Pragma("omp master")                                                                             \
                start = omp_get_wtime();                                                                          \
                _Pragma("omp barrier")                                                                            \
                for (int round = 0; round < rounds; ++round) {                                                    \
                    _Pragma("GCC unroll 12")                                                                      \
                    for (int k = 0; k < CHAINS; ++k)                                                              \
                        x[k] = STEP;                                                                              \
                }                                                                                                 \
                _Pragma("omp barrier")                                                                            \
                _Pragma("omp master")                                                                             \
                {                                                                                                 \
                    const double each = (double)COUNT * CHAINS * (WIDTH / sizeof(TYPE));                          \
                    const double rate = each * rounds * team / (omp_get_wtime() - start);                         \
                    if (rate > best)                                                                              \
                        best = rate;                                                                              \
                }                                                                                                 \
            }                                                                                                     \
            __asm__ volatile("" : : "m"(x));                                                                      \
        }                                                                                                         \
        return best;                                                                                              \
    }

OPERATIONS(single_sums, float, 1, x[k] + b)
OPERATIONS(single_fused, float, 2, x[k] * a + b)
OPERATIONS(double_sums, double, 1, x[k] + b)
OPERATIONS(double_fused, double, 2, x[k] * a + b)
