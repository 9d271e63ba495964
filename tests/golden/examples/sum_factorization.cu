extern "C" __global__ void __launch_bounds__(216) sum_factorization(const float *__restrict__ p, const float *__restrict__ u, float *__restrict__ v, int elements)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y, tz = threadIdx.z;
    __shared__ float second_value[6][6][5];
    __shared__ float first_value[6][5][5];
    if (ty < 5 && tx < 5) {
        float acc = 0.0f;  // compute_first
        #pragma unroll
        for (int i = 0; i < 5; ++i)
            acc += p[tz * 5 + i] * u[bx * 125 + i * 25 + ty * 5 + tx];  // compute_first
        first_value[tz][ty][tx] = acc;  // compute_first
    }
    float acc_0 = 0.0f;  // compute_second
    __syncthreads();
    if (tx < 5) {
        #pragma unroll
        for (int j = 0; j < 5; ++j)
            acc_0 += p[ty * 5 + j] * first_value[tz][j][tx];  // compute_second
        second_value[tz][ty][tx] = acc_0;  // compute_second
    }
    float acc_1 = 0.0f;  // insn
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < 5; ++k)
        acc_1 += p[tx * 5 + k] * second_value[tz][ty][k];  // insn
    v[bx * 216 + tz * 36 + ty * 6 + tx] = acc_1;  // insn
}
