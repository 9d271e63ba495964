extern "C" __global__ void __launch_bounds__(256) fields_to_rows_within_a_warp(const float *__restrict__ a, float *__restrict__ b, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float t[8][32];
    t[ty][tx] = a[bx * 256 + ty * 32 + tx];  // load
    __syncwarp();
    b[bx * 256 + ty * 32 + tx] = t[ty][4 * (tx % 8) + tx / 8];  // store
}
