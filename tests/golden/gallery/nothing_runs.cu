// nothing_runs computes
//     for i
//         y[i] = a[i]
//     for k = 2
//         z[0] = 5 + k
//     s[0] = sum(j, a[j]), j
// Sizes: a: n, y: n, z: 1, s: 1
// Launch: nothing_runs, grid (1), block (1)
// Assumes: n >= 0; y, z, s overlap no other array
// Indices have 32 bits: n must not exceed 2147483647

extern "C" __global__ void nothing_runs(
    const int *__restrict__ a,
    const int *__restrict__ y,
    int *__restrict__ z,
    int *__restrict__ s,
    int n)
{
    z[0] = 5 + 2;
    int acc = 0;
    s[0] = acc;
}
