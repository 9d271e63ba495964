// runs_of_equal_values computes
//     for i in [0, n)
//         s[i] = if(i == 0 or a[i] != a[i - 1], 1, 0)
//         c[i] = s[i] + if(i >= 1, c[i - 1], 0)
// Sizes: a: n, s: n, c: n
// Launch: runs_of_equal_values, grid (1), block (1)
// Assumes: n >= 0; s, c overlap no other array
// Indices have 32 bits: n must not exceed 2147483647

extern "C" __global__ void runs_of_equal_values(
    const int *a,
    int *__restrict__ s,
    int *__restrict__ c,
    int n)
{
    for (int i = 0; i < n; ++i) {
        s[i] = i == 0 || a[i] != a[i - 1] ? 1 : 0;
        c[i] = (unsigned int)s[i] + (i >= 1 ? c[i - 1] : 0);
    }
}
