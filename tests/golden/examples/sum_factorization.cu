extern "C" __global__ void __launch_bounds__(216) sum_factorization(const float *__restrict__ p, const float *__restrict__ u, float *__restrict__ v, int elements)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y, tz = threadIdx.z;
    __shared__ float first_value[6][5][5];
    if (ty < 5 && tx < 5) {
        float acc = 0.0f;  // compute_first
        #pragma unroll
        for (int i = 0; i < 5; ++i)
            acc += p[tz * 5 + i] * u[bx * 125 + i * 25 + ty * 5 + tx];  // compute_first
        first_value[tz][ty][tx] = acc;  // compute_first
    }
    __syncthreads();
    float second_value[6][6][5];
    for (int a_ = 0; a_ < 6; ++a_) {
        for (int b_ = 0; b_ < 6; ++b_) {
            for (int k_ = 0; k_ < 5; ++k_) {
                float acc_0 = 0.0f;  // compute_second
                #pragma unroll
                for (int j = 0; j < 5; ++j)
                    acc_0 += p[b_ * 5 + j] * first_value[a_][j][k_];  // compute_second
                second_value[a_][b_][k_] = acc_0;  // compute_second
            }
        }
    }
    float acc_1 = 0.0f;  // insn
    #pragma unroll
    for (int k = 0; k < 5; ++k)
        acc_1 += p[tx * 5 + k] * second_value[tz][ty][k];  // insn
    v[bx * 216 + tz * 36 + ty * 6 + tx] = acc_1;  // insn
}
