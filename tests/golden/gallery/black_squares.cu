// black_squares computes
//     black[0] = sum((i, j), a[i, j]), i in [0, n), j in [0, n) with j % 2 == i % 2
// Sizes: black: 1, a: n x n
// Launch: black_squares, grid (1), block (1)
// Assumes: n >= 0; black overlaps no other array
// Indices have 32 bits: n*n, n + 1 must not exceed 2147483647

extern "C" __global__ void black_squares(int *__restrict__ black, const int *__restrict__ a, int n)
{
    int acc = 0;
    for (int i = 0; i < n; ++i) {
        for (int j = 1 - ((i + 1) % 2); j < n; j += 2)
            acc += (unsigned int)a[i * n + j];
    }
    black[0] = acc;
}
