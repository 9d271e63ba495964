// Floyd-Warshall by blocks of 64 x 64: the own block, its row and column, and the rest, as one writes them by hand.

#define B 64
#define THREADS 16
#define PART (B / THREADS)

static __device__ void load(float (*t)[B], const float *d, int n, int row, int column)
{
    for (int i = threadIdx.y; i < B; i += THREADS)
        for (int j = threadIdx.x; j < B; j += THREADS)
            t[i][j] = d[(size_t)(B * row + i) * n + B * column + j];
}

static __device__ void store(float *d, float (*t)[B], int n, int row, int column)
{
    for (int i = threadIdx.y; i < B; i += THREADS)
        for (int j = threadIdx.x; j < B; j += THREADS)
            d[(size_t)(B * row + i) * n + B * column + j] = t[i][j];
}

// t[i][j] = min(t[i][j], a[i][k] + b[k][j]) for one k after the other; a or b may be t.
static __device__ void relax(float (*t)[B], float (*a)[B], float (*b)[B])
{
    for (int k = 0; k < B; ++k) {
        __syncthreads();
        float left[PART], top[PART], now[PART][PART];
        for (int i = 0; i < PART; ++i)
            left[i] = a[threadIdx.y + THREADS * i][k];
        for (int j = 0; j < PART; ++j)
            top[j] = b[k][threadIdx.x + THREADS * j];
        for (int i = 0; i < PART; ++i)
            for (int j = 0; j < PART; ++j)
                now[i][j] = fminf(t[threadIdx.y + THREADS * i][threadIdx.x + THREADS * j], left[i] + top[j]);
        __syncthreads();
        for (int i = 0; i < PART; ++i)
            for (int j = 0; j < PART; ++j)
                t[threadIdx.y + THREADS * i][threadIdx.x + THREADS * j] = now[i][j];
    }
    __syncthreads();
}

extern "C" __global__ void own(float *d, int n, int kb)
{
    __shared__ float t[B][B];
    load(t, d, n, kb, kb);
    relax(t, t, t);
    store(d, t, n, kb, kb);
}

extern "C" __global__ void cross(float *d, int n, int kb)
{
    __shared__ float t[B][B], diagonal[B][B];
    const int other = blockIdx.x;
    if (other == kb)
        return;
    load(diagonal, d, n, kb, kb);
    if (blockIdx.y == 0) {
        load(t, d, n, kb, other);
        relax(t, diagonal, t);
        store(d, t, n, kb, other);
    } else {
        load(t, d, n, other, kb);
        relax(t, t, diagonal);
        store(d, t, n, other, kb);
    }
}

extern "C" __global__ void rest(float *d, int n, int kb)
{
    __shared__ float left[B][B], top[B][B];
    const int row = blockIdx.y, column = blockIdx.x;
    if (row == kb || column == kb)
        return;
    load(left, d, n, row, kb);
    load(top, d, n, kb, column);
    __syncthreads();
    float best[PART][PART];
    for (int i = 0; i < PART; ++i)
        for (int j = 0; j < PART; ++j)
            best[i][j] = d[(size_t)(B * row + threadIdx.y + THREADS * i) * n + B * column + threadIdx.x + THREADS * j];
#pragma unroll 8
    for (int k = 0; k < B; ++k)
        for (int i = 0; i < PART; ++i)
            for (int j = 0; j < PART; ++j)
                best[i][j] = fminf(best[i][j], left[threadIdx.y + THREADS * i][k] + top[k][threadIdx.x + THREADS * j]);
    for (int i = 0; i < PART; ++i)
        for (int j = 0; j < PART; ++j)
            d[(size_t)(B * row + threadIdx.y + THREADS * i) * n + B * column + threadIdx.x + THREADS * j] = best[i][j];
}
