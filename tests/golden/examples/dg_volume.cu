// dg_volume computes
//     for e in [0, elements), i in [0, 20)
//         for r in [0, 3)
//             along[r] = sum(j, d[r, i, j]*u[e, j]), j in [0, 20)
//         for x in [0, 3)
//             grad[x, e, i] = sum(s, drdx[x, s, e]*along[s]), s in [0, 3)
// Sizes: d: 3 x 20 x 20, u: elements x 20, drdx: 3 x 3 x elements, grad: 3 x elements x 20
// Launch: dg_volume, grid ((elements + 15) / 16), block (20, 4)
// Assumes: elements >= 1; grad overlaps no other array
// Indices have 32 bits: 20*elements, 9*elements, 60*elements, elements + 35 must not exceed
//     2147483647

extern "C" __global__ void __launch_bounds__(80) dg_volume(
    const float *__restrict__ d,
    const float *__restrict__ u,
    const float *__restrict__ drdx,
    float *__restrict__ grad,
    int elements)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float u_fetch[16][20];
    __shared__ float d_fetch[3][20][21];
    if (16 * bx + 15 < elements) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        #pragma unroll
        for (int u_dim_0_outer = 0; u_dim_0_outer < 4; ++u_dim_0_outer)
            u_fetch[4 * u_dim_0_outer + ty][tx] = u[(16 * bx + 4 * u_dim_0_outer + ty) * 20 + tx];
        #pragma unroll
        for (int d_dim_0 = 0; d_dim_0 < 3; ++d_dim_0) {
            #pragma unroll
            for (int d_dim_1_outer = 0; d_dim_1_outer < 5; ++d_dim_1_outer)
                d_fetch[d_dim_0][4 * d_dim_1_outer + ty][tx] =
                    d[d_dim_0 * 400 + (4 * d_dim_1_outer + ty) * 20 + tx];
        }
        __syncthreads();  // u_fetch, d_fetch: reads follow writes
        float acc[4];
        float along[4][3];
        #pragma unroll
        for (int r = 0; r < 3; ++r) {
            #pragma unroll
            for (int e_inner_inner = 0; e_inner_inner < 4; ++e_inner_inner)
                acc[e_inner_inner] = 0.0f;
            for (int j = 0; j < 20; ++j) {
                #pragma unroll
                for (int e_inner_inner = 0; e_inner_inner < 4; ++e_inner_inner)
                    acc[e_inner_inner] += d_fetch[r][tx][j] * u_fetch[4 * ty + e_inner_inner][j];
            }
            #pragma unroll
            for (int e_inner_inner = 0; e_inner_inner < 4; ++e_inner_inner)
                along[e_inner_inner][r] = acc[e_inner_inner];
        }
        float acc_0[4];
        #pragma unroll
        for (int x = 0; x < 3; ++x) {
            #pragma unroll
            for (int e_inner_inner = 0; e_inner_inner < 4; ++e_inner_inner)
                acc_0[e_inner_inner] = 0.0f;
            #pragma unroll
            for (int s = 0; s < 3; ++s) {
                #pragma unroll
                for (int e_inner_inner = 0; e_inner_inner < 4; ++e_inner_inner)
                    acc_0[e_inner_inner] +=
                        drdx[x * 3 * elements + s * elements + 16 * bx + 4 * ty + e_inner_inner]
                            * along[e_inner_inner][s];
            }
            #pragma unroll
            for (int e_inner_inner = 0; e_inner_inner < 4; ++e_inner_inner)
                grad[x * 20 * elements + (16 * bx + 4 * ty + e_inner_inner) * 20 + tx] =
                    acc_0[e_inner_inner];
        }
    } else {
        if (16 * bx + ty < elements) {
            #pragma unroll
            for (int u_dim_0_outer = 0; u_dim_0_outer < 4; ++u_dim_0_outer) {
                if (16 * bx + 4 * u_dim_0_outer + ty < elements)
                    u_fetch[4 * u_dim_0_outer + ty][tx] =
                        u[(16 * bx + 4 * u_dim_0_outer + ty) * 20 + tx];
            }
        }
        #pragma unroll
        for (int d_dim_0 = 0; d_dim_0 < 3; ++d_dim_0) {
            #pragma unroll
            for (int d_dim_1_outer = 0; d_dim_1_outer < 5; ++d_dim_1_outer)
                d_fetch[d_dim_0][4 * d_dim_1_outer + ty][tx] =
                    d[d_dim_0 * 400 + (4 * d_dim_1_outer + ty) * 20 + tx];
        }
        __syncthreads();  // u_fetch, d_fetch: reads follow writes
        if (16 * bx + 4 * ty < elements) {
            float acc[4];
            float along[4][3];
            #pragma unroll
            for (int r = 0; r < 3; ++r) {
                #pragma unroll
                for (int e_inner_inner = 0; e_inner_inner < 4; ++e_inner_inner) {
                    if (16 * bx + 4 * ty + e_inner_inner < elements)
                        acc[e_inner_inner] = 0.0f;
                }
                for (int j = 0; j < 20; ++j) {
                    #pragma unroll
                    for (int e_inner_inner = 0; e_inner_inner < 4; ++e_inner_inner) {
                        if (16 * bx + 4 * ty + e_inner_inner < elements)
                            acc[e_inner_inner] +=
                                d_fetch[r][tx][j] * u_fetch[4 * ty + e_inner_inner][j];
                    }
                }
                #pragma unroll
                for (int e_inner_inner = 0; e_inner_inner < 4; ++e_inner_inner) {
                    if (16 * bx + 4 * ty + e_inner_inner < elements)
                        along[e_inner_inner][r] = acc[e_inner_inner];
                }
            }
            float acc_0[4];
            #pragma unroll
            for (int x = 0; x < 3; ++x) {
                #pragma unroll
                for (int e_inner_inner = 0; e_inner_inner < 4; ++e_inner_inner) {
                    if (16 * bx + 4 * ty + e_inner_inner < elements)
                        acc_0[e_inner_inner] = 0.0f;
                }
                #pragma unroll
                for (int s = 0; s < 3; ++s) {
                    #pragma unroll
                    for (int e_inner_inner = 0; e_inner_inner < 4; ++e_inner_inner) {
                        const int e = 16 * bx + 4 * ty + e_inner_inner;
                        if (e < elements)
                            acc_0[e_inner_inner] +=
                                drdx[x * 3 * elements + s * elements + e] * along[e_inner_inner][s];
                    }
                }
                #pragma unroll
                for (int e_inner_inner = 0; e_inner_inner < 4; ++e_inner_inner) {
                    const int e = 16 * bx + 4 * ty + e_inner_inner;
                    if (e < elements)
                        grad[x * 20 * elements + e * 20 + tx] = acc_0[e_inner_inner];
                }
            }
        }
    }
}
