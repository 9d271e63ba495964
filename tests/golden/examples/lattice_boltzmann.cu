// lattice_boltzmann computes
//     for y in [0, m), x in [0, n)
//         f0 = f[0, y + 1, x + 1]
//         f1 = f[1, y + 1, x + 0]
//         f2 = f[2, y + 0, x + 1]
//         f3 = f[3, y + 1, x + 2]
//         f4 = f[4, y + 2, x + 1]
//         f5 = f[5, y + 0, x + 0]
//         f6 = f[6, y + 0, x + 2]
//         f7 = f[7, y + 2, x + 2]
//         f8 = f[8, y + 2, x + 0]
//         rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8
//         ux = (f1 - f3 + f5 - f6 - f7 + f8)/rho
//         uy = (f2 - f4 + f5 + f6 - f7 - f8)/rho
//         still = 1 - 1.5*(ux*ux + uy*uy)
//         g[0, y + 1, x + 1] = f0 - omega*(f0 - 0.4444444444444444*rho*still)
//         g[1, y + 1, x + 1] = f1 - omega*(f1 - 0.1111111111111111*rho*(still + pull(ux)))
//         g[2, y + 1, x + 1] = f2 - omega*(f2 - 0.1111111111111111*rho*(still + pull(uy)))
//         g[3, y + 1, x + 1] = f3 - omega*(f3 - 0.1111111111111111*rho*(still + pull(-ux)))
//         g[4, y + 1, x + 1] = f4 - omega*(f4 - 0.1111111111111111*rho*(still + pull(-uy)))
//         g[5, y + 1, x + 1] = f5 - omega*(f5 - 0.027777777777777776*rho*(still + pull(ux + uy)))
//         g[6, y + 1, x + 1] = f6 - omega*(f6 - 0.027777777777777776*rho*(still + pull(-ux + uy)))
//         g[7, y + 1, x + 1] = f7 - omega*(f7 - 0.027777777777777776*rho*(still + pull(-ux + -uy)))
//         g[8, y + 1, x + 1] = f8 - omega*(f8 - 0.027777777777777776*rho*(still + pull(ux + -uy)))
// Sizes: f: 9 x (m + 2) x (n + 2), g: 9 x (m + 2) x (n + 2)
// Launch: lattice_boltzmann, grid ((n + 127) / 128, m), block (128)
// Assumes: m >= 1; n >= 1; g overlaps no other array
// Indices have 32 bits: 9*(n + 2)*(m + 2), n + 255, m + 2 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(128) lattice_boltzmann(
    const float *__restrict__ f,
    float *__restrict__ g,
    float omega,
    int m,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int x = 128 * bx + tx;
    if (x < n) {
        const int offset = (by + 1) * (n + 2) + x;
        float f0 = f[offset + 1];
        const int stride = (n + 2) * (m + 2);
        float f1 = f[stride + offset];
        float f2 = f[2 * stride + by * (n + 2) + x + 1];
        float f3 = f[3 * stride + offset + 2];
        const int f_offset = (by + 2) * (n + 2);
        float f4 = f[4 * stride + f_offset + x + 1];
        float f5 = f[5 * stride + by * (n + 2) + x];
        float f6 = f[6 * stride + by * (n + 2) + x + 2];
        float f7 = f[7 * stride + f_offset + x + 2];
        float f8 = f[8 * stride + f_offset + x];
        float rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8;
        float ux = (f1 - f3 + f5 - f6 - f7 + f8) / rho;
        float uy = (f2 - f4 + f5 + f6 - f7 - f8) / rho;
        float still = 1.0f - 1.5f * (ux * ux + uy * uy);
        g[offset + 1] = f0 - omega * (f0 - 0.44444445f * rho * still);
        g[stride + offset + 1] =
            f1 - omega * (f1 - 0.11111111f * rho * (still + (3.0f * ux + 4.5f * ux * ux)));
        g[2 * stride + offset + 1] =
            f2 - omega * (f2 - 0.11111111f * rho * (still + (3.0f * uy + 4.5f * uy * uy)));
        g[3 * stride + offset + 1] =
            f3 - omega * (f3 - 0.11111111f * rho * (still + (3.0f * (-ux) + 4.5f * (-ux) * (-ux))));
        g[4 * stride + offset + 1] =
            f4 - omega * (f4 - 0.11111111f * rho * (still + (3.0f * (-uy) + 4.5f * (-uy) * (-uy))));
        g[5 * stride + offset + 1] = f5
            - omega * (
                f5
                - 0.027777778f * rho * (still + (3.0f * (ux + uy) + 4.5f * (ux + uy) * (ux + uy))));
        g[6 * stride + offset + 1] = f6
            - omega * (
                f6
                - 0.027777778f * rho * (
                    still + (3.0f * (-ux + uy) + 4.5f * (-ux + uy) * (-ux + uy))));
        g[7 * stride + offset + 1] = f7
            - omega * (
                f7
                - 0.027777778f * rho * (
                    still + (3.0f * (-ux - uy) + 4.5f * (-ux - uy) * (-ux - uy))));
        g[8 * stride + offset + 1] = f8
            - omega * (
                f8
                - 0.027777778f * rho * (still + (3.0f * (ux - uy) + 4.5f * (ux - uy) * (ux - uy))));
    }
}
