extern "C" __global__ void __launch_bounds__(128) lattice_boltzmann(const float *__restrict__ f, float *__restrict__ g, float omega, int m, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int x = 128 * bx + tx;
    if (x < n) {
        float f0 = f[(by + 1) * (n + 2) + x + 1];  // insn
        float f1 = f[(n + 2) * (m + 2) + (by + 1) * (n + 2) + x];  // insn_1
        float f2 = f[2 * (n + 2) * (m + 2) + by * (n + 2) + x + 1];  // insn_2
        float f3 = f[3 * (n + 2) * (m + 2) + (by + 1) * (n + 2) + x + 2];  // insn_3
        float f4 = f[4 * (n + 2) * (m + 2) + (by + 2) * (n + 2) + x + 1];  // insn_4
        float f5 = f[5 * (n + 2) * (m + 2) + by * (n + 2) + x];  // insn_5
        float f6 = f[6 * (n + 2) * (m + 2) + by * (n + 2) + x + 2];  // insn_6
        float f7 = f[7 * (n + 2) * (m + 2) + (by + 2) * (n + 2) + x + 2];  // insn_7
        float f8 = f[8 * (n + 2) * (m + 2) + (by + 2) * (n + 2) + x];  // insn_8
        float rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8;  // insn_9
        float ux = (f1 - f3 + f5 - f6 - f7 + f8) / rho;  // insn_10
        float uy = (f2 - f4 + f5 + f6 - f7 - f8) / rho;  // insn_11
        float still = 1.0f - 1.5f * (ux * ux + uy * uy);  // insn_12
        g[(by + 1) * (n + 2) + x + 1] = f0 - omega * (f0 - 0.44444445f * rho * still);  // insn_13
        g[(n + 2) * (m + 2) + (by + 1) * (n + 2) + x + 1] = f1 - omega * (f1 - 0.11111111f * rho * (still + (3.0f * ux + 4.5f * ux * ux)));  // insn_14
        g[2 * (n + 2) * (m + 2) + (by + 1) * (n + 2) + x + 1] = f2 - omega * (f2 - 0.11111111f * rho * (still + (3.0f * uy + 4.5f * uy * uy)));  // insn_15
        g[3 * (n + 2) * (m + 2) + (by + 1) * (n + 2) + x + 1] = f3 - omega * (f3 - 0.11111111f * rho * (still + (3.0f * (-ux) + 4.5f * (-ux) * (-ux))));  // insn_16
        g[4 * (n + 2) * (m + 2) + (by + 1) * (n + 2) + x + 1] = f4 - omega * (f4 - 0.11111111f * rho * (still + (3.0f * (-uy) + 4.5f * (-uy) * (-uy))));  // insn_17
        g[5 * (n + 2) * (m + 2) + (by + 1) * (n + 2) + x + 1] = f5 - omega * (f5 - 0.027777778f * rho * (still + (3.0f * (ux + uy) + 4.5f * (ux + uy) * (ux + uy))));  // insn_18
        g[6 * (n + 2) * (m + 2) + (by + 1) * (n + 2) + x + 1] = f6 - omega * (f6 - 0.027777778f * rho * (still + (3.0f * (-ux + uy) + 4.5f * (-ux + uy) * (-ux + uy))));  // insn_19
        g[7 * (n + 2) * (m + 2) + (by + 1) * (n + 2) + x + 1] = f7 - omega * (f7 - 0.027777778f * rho * (still + (3.0f * (-ux - uy) + 4.5f * (-ux - uy) * (-ux - uy))));  // insn_20
        g[8 * (n + 2) * (m + 2) + (by + 1) * (n + 2) + x + 1] = f8 - omega * (f8 - 0.027777778f * rho * (still + (3.0f * (ux - uy) + 4.5f * (ux - uy) * (ux - uy))));  // insn_21
    }
}
