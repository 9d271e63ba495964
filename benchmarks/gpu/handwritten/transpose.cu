// Tiles of 64 by 64, read and written by float4; rows of the tile are padded, so that a column is in different banks.
extern "C" __global__ void __launch_bounds__(256) transpose(const float *__restrict__ a, float *__restrict__ b, int n)
{
    __shared__ float tile[64][65];
    const int x = threadIdx.x % 16, y = threadIdx.x / 16;
    const int row = 64 * blockIdx.y, column = 64 * blockIdx.x;
    #pragma unroll
    for (int step = 0; step < 64; step += 16) {
        const int i = row + step + y, j = column + 4 * x;
        if (i < n && j < n) {
            const float4 four = *(const float4 *)&a[(long long)i * n + j];
            tile[step + y][4 * x] = four.x;
            tile[step + y][4 * x + 1] = four.y;
            tile[step + y][4 * x + 2] = four.z;
            tile[step + y][4 * x + 3] = four.w;
        }
    }
    __syncthreads();
    #pragma unroll
    for (int step = 0; step < 64; step += 16) {
        const int i = column + step + y, j = row + 4 * x;
        if (i < n && j < n) {
            const float4 four = make_float4(tile[4 * x][step + y], tile[4 * x + 1][step + y],
                                            tile[4 * x + 2][step + y], tile[4 * x + 3][step + y]);
            *(float4 *)&b[(long long)i * n + j] = four;
        }
    }
}
