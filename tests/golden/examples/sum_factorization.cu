// sum_factorization computes
//     for e in [0, elements), a in [0, 6), b in [0, 6), c in [0, 6)
//         v[e, a, b, c] = sum(k, p[c, k]*second(a, b, k)), k in [0, 5), j in [0, 5), i in [0, 5)
// Sizes: p: 6 x 5, u: elements x 5 x 5 x 5, v: elements x 6 x 6 x 6
// Launch: sum_factorization, grid (elements), block (6, 6, 6)
// Assumes: elements >= 1; v overlaps no other array
// Indices have 32 bits: 125*elements, 216*elements must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(216) sum_factorization(
    const float *__restrict__ p,
    const float *__restrict__ u,
    float *__restrict__ v,
    int elements)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y, tz = threadIdx.z;
    __shared__ float first_value[6][5][5];
    if (ty < 5 && tx < 5) {
        float acc = 0.0f;
        #pragma unroll
        for (int i = 0; i < 5; ++i)
            acc += p[tz * 5 + i] * u[bx * 125 + i * 25 + ty * 5 + tx];
        first_value[tz][ty][tx] = acc;
    }
    __syncthreads();  // first_value: reads follow writes
    float second_value[6][6][5];
    for (int a_ = 0; a_ < 6; ++a_) {
        for (int b_ = 0; b_ < 6; ++b_) {
            for (int k_ = 0; k_ < 5; ++k_) {
                float acc_0 = 0.0f;
                #pragma unroll
                for (int j = 0; j < 5; ++j)
                    acc_0 += p[b_ * 5 + j] * first_value[a_][j][k_];
                second_value[a_][b_][k_] = acc_0;
            }
        }
    }
    float acc_1 = 0.0f;
    #pragma unroll
    for (int k = 0; k < 5; ++k)
        acc_1 += p[tx * 5 + k] * second_value[tz][ty][k];
    v[bx * 216 + tz * 36 + ty * 6 + tx] = acc_1;
}
