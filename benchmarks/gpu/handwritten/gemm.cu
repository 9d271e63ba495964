// c = a b in single precision: blocks of 128 by 128, warps of 32 by 64, threads of 2 by 2 pieces of 4 by 4 elements.
// Two tiles of each operand in shared memory, the next one on its way in registers, one barrier a step; the tile of a
// is stored transposed.  Rows have a multiple of 4 elements.  EXACT: tiles divide the sizes.
#define STEP 8

static __device__ float4 four_of(const float *at, bool inside)
{
    return inside ? *(const float4 *)at : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

extern "C" __global__ void __launch_bounds__(256, 2)
gemm(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int m, int n, int p)
{
    __shared__ __align__(16) float a_tile[2][STEP][132];
    __shared__ __align__(16) float b_tile[2][STEP][128];
    const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    const int row = 128 * blockIdx.y, column = 128 * blockIdx.x;
    const int a_row = thread / 2, a_k = 4 * (thread % 2), b_k = thread / 32, b_column = 4 * (thread % 32);
    const int i = 32 * (warp % 4) + 4 * (lane / 8), j = 64 * (warp / 4) + 4 * (lane % 8);
    const bool a_inside = EXACT || row + a_row < m, b_inside = EXACT || column + b_column < n;
    const float *a_from = &a[(long long)(row + a_row) * p + a_k];
    const float *b_from = &b[(long long)b_k * n + column + b_column];

    float sums[2][4][2][4] = {};
    float4 a_next = four_of(a_from, a_inside && (EXACT || a_k < p));
    float4 b_next = four_of(b_from, b_inside && (EXACT || b_k < p));
    for (int k = 0, turn = 0; k < p; k += STEP, turn ^= 1) {
        a_tile[turn][a_k][a_row] = a_next.x;
        a_tile[turn][a_k + 1][a_row] = a_next.y;
        a_tile[turn][a_k + 2][a_row] = a_next.z;
        a_tile[turn][a_k + 3][a_row] = a_next.w;
        *(float4 *)&b_tile[turn][b_k][b_column] = b_next;
        __syncthreads();
        a_from += STEP;
        b_from += (long long)STEP * n;
        a_next = four_of(a_from, a_inside && k + STEP + a_k < p);
        b_next = four_of(b_from, b_inside && k + STEP + b_k < p);
        #pragma unroll
        for (int t = 0; t < STEP; ++t) {
            float a_part[2][4], b_part[2][4];
            *(float4 *)a_part[0] = *(const float4 *)&a_tile[turn][t][i];
            *(float4 *)a_part[1] = *(const float4 *)&a_tile[turn][t][i + 16];
            *(float4 *)b_part[0] = *(const float4 *)&b_tile[turn][t][j];
            *(float4 *)b_part[1] = *(const float4 *)&b_tile[turn][t][j + 32];
            #pragma unroll
            for (int x = 0; x < 8; ++x)
                #pragma unroll
                for (int y = 0; y < 8; ++y)
                    sums[x / 4][x % 4][y / 4][y % 4] += a_part[x / 4][x % 4] * b_part[y / 4][y % 4];
        }
    }
    #pragma unroll
    for (int x = 0; x < 8; ++x)
        #pragma unroll
        for (int y = 0; y < 2; ++y) {
            const int to_row = row + i + 16 * (x / 4) + x % 4, to_column = column + j + 32 * y;
            if (EXACT || (to_row < m && to_column < n))
                *(float4 *)&c[(long long)to_row * n + to_column] = *(const float4 *)sums[x / 4][x % 4][y];
        }
}
