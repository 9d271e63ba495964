// layer_norm_gradient computes
//     for i in [0, n)
//         mean_sum[i] = sum(k_sum, x[i, k_sum]), k_sum in [0, m)
//         mean[i] = mean_sum[i]/m
//         variance_sum[i] = sum(k_sum_0, (x[i, k_sum_0] - mean[i])**2), k_sum_0 in [0, m)
//         variance[i] = variance_sum[i]/m
//         scale[i] = rsqrt(variance[i] + 1e-05)
//     for i in [0, n)
//         scale_bar[i] = sum(k_sum_1, grad_y[i, k_sum_1]*(x[i, k_sum_1] - mean[i])*gamma[k_sum_1]),
//             k_sum_1 in [0, m)
//         variance_bar[i] = -0.5*scale_bar[i]*rsqrt(variance[i] + 1e-05)/(variance[i] + 1e-05)
//         variance_sum_bar[i] = variance_bar[i]/m
//         mean_bar[i] = sum(k_sum_2, -2*variance_sum_bar[i]*(x[i, k_sum_2] - mean[i])
//             - grad_y[i, k_sum_2]*scale[i]*gamma[k_sum_2]), k_sum_2 in [0, m)
//         mean_sum_bar[i] = mean_bar[i]/m
//     for i in [0, n), k in [0, m)
//         grad_x[i, k] = mean_sum_bar[i] + 2*variance_sum_bar[i]*(x[i, k] - mean[i])
//             + grad_y[i, k]*scale[i]*gamma[k]
//     for k_0 in [0, m)
//         grad_gamma[k_0] = sum(i_sum, grad_y[i_sum,
//             k_0]*(x[i_sum, k_0] - mean[i_sum])*scale[i_sum]), i_sum in [0, n)
//     for k_1 in [0, m)
//         grad_beta[k_1] = sum(i_sum_0, grad_y[i_sum_0, k_1]), i_sum_0 in [0, n)
// Sizes: x: n x m, gamma: m, grad_y: n x m, grad_x: n x m, grad_gamma: m, grad_beta: m
// Launch: layer_norm_gradient_0, grid (n), block (256)
// Launch: layer_norm_gradient_1, grid ((m + 255) / 256), block (256)
// Assumes: m >= 1; n >= 1; grad_x, grad_gamma, grad_beta overlap no other array
// Indices have 32 bits: n*m, m, n, m + 768 must not exceed 2147483647

// The sum of x over the 256 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float layer_norm_gradient_block_sum_float32(
    float x,
    float *partial)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = x;
    __syncthreads();  // the part of each warp is there
    x = partial[0];
    #pragma unroll
    for (int n = 1; n < 8; ++n)
        x += partial[n];
    return x;
}
#ifndef POLYLOOP_SQUARE_FLOAT32
#define POLYLOOP_SQUARE_FLOAT32
static __device__ __forceinline__ float square_float32(float a) { return a * a; }
#endif

extern "C" __global__ void __launch_bounds__(256) layer_norm_gradient_0(
    const float *x,
    const float *gamma,
    int m,
    int n,
    const float *grad_y,
    float *__restrict__ grad_x,
    float *mean,
    float *__restrict__ variance,
    float *scale,
    float *__restrict__ mean_sum,
    float *__restrict__ variance_sum,
    float *__restrict__ scale_bar,
    float *__restrict__ variance_bar,
    float *variance_sum_bar,
    float *__restrict__ mean_bar,
    float *mean_sum_bar)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float partial[8];
    __shared__ float partial_0[8];
    __shared__ float partial_1[8];
    __shared__ float partial_2[8];
    float acc = 0.0f;  // mean_sum
    for (int k_sum = tx; k_sum < m; k_sum += 256)
        acc += x[bx * m + k_sum];  // mean_sum
    acc = layer_norm_gradient_block_sum_float32(acc, partial);  // mean_sum
    if (tx == 0) {
        mean_sum[bx] = acc;  // mean_sum
        mean[bx] = mean_sum[bx] / m;
    }
    float acc_0 = 0.0f;  // variance_sum
    __syncthreads();  // mean: reads follow writes
    for (int k_sum_0 = tx; k_sum_0 < m; k_sum_0 += 256)
        acc_0 += square_float32(x[bx * m + k_sum_0] - mean[bx]);  // variance_sum
    acc_0 = layer_norm_gradient_block_sum_float32(acc_0, partial_0);  // variance_sum
    if (tx == 0) {
        variance_sum[bx] = acc_0;  // variance_sum
        variance[bx] = variance_sum[bx] / m;
        scale[bx] = rsqrtf(variance[bx] + 1e-05f);
    }
    float acc_1 = 0.0f;  // insn_2_bar
    for (int k_sum_1 = tx; k_sum_1 < m; k_sum_1 += 256)
        // insn_2_bar
        acc_1 += grad_y[bx * m + k_sum_1] * (x[bx * m + k_sum_1] - mean[bx]) * gamma[k_sum_1];
    acc_1 = layer_norm_gradient_block_sum_float32(acc_1, partial_1);  // insn_2_bar
    if (tx == 0) {
        scale_bar[bx] = acc_1;  // insn_2_bar
        // insn_1_bar
        variance_bar[bx] =
            -0.5f * scale_bar[bx] * rsqrtf(variance[bx] + 1e-05f) / (variance[bx] + 1e-05f);
        variance_sum_bar[bx] = variance_bar[bx] / m;  // variance_sum_bar
    }
    float acc_2 = 0.0f;  // insn_bar
    __syncthreads();  // variance_sum_bar: reads follow writes
    for (int k_sum_2 = tx; k_sum_2 < m; k_sum_2 += 256)
        // insn_bar
        acc_2 += -2.0f * variance_sum_bar[bx] * (x[bx * m + k_sum_2] - mean[bx])
            - grad_y[bx * m + k_sum_2] * scale[bx] * gamma[k_sum_2];
    acc_2 = layer_norm_gradient_block_sum_float32(acc_2, partial_2);  // insn_bar
    if (tx == 0) {
        mean_bar[bx] = acc_2;  // insn_bar
        mean_sum_bar[bx] = mean_bar[bx] / m;  // mean_sum_bar
    }
    __syncthreads();  // mean_sum_bar: reads follow writes
    for (int k = tx; k < m; k += 256)
        // grad_x
        grad_x[bx * m + k] = mean_sum_bar[bx]
            + 2.0f * variance_sum_bar[bx] * (x[bx * m + k] - mean[bx])
            + grad_y[bx * m + k] * scale[bx] * gamma[k];
}

extern "C" __global__ void __launch_bounds__(256) layer_norm_gradient_1(
    const float *__restrict__ x,
    int m,
    int n,
    const float *__restrict__ grad_y,
    float *__restrict__ grad_gamma,
    float *__restrict__ grad_beta,
    const float *__restrict__ mean,
    const float *__restrict__ scale)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int k_0 = 256 * bx + tx;
    if (k_0 < m) {
        float acc_3 = 0.0f;  // grad_gamma
        for (int i_sum = 0; i_sum < n; ++i_sum)
            // grad_gamma
            acc_3 += grad_y[i_sum * m + k_0] * (x[i_sum * m + k_0] - mean[i_sum]) * scale[i_sum];
        grad_gamma[k_0] = acc_3;  // grad_gamma
        float acc_4 = 0.0f;  // grad_beta
        for (int i_sum_0 = 0; i_sum_0 < n; ++i_sum_0)
            acc_4 += grad_y[i_sum_0 * m + k_0];  // grad_beta
        grad_beta[k_0] = acc_4;  // grad_beta
    }
}
