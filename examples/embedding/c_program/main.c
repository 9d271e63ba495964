/* A program without Python: a product and some time steps by the library that generate.py writes. */

#include <stdio.h>

#include "heat.h"
#include "matvec.h"

enum { N = 1000 };

static double u[N], v[N];

int main(void)
{
    const double a[] = {1, 2, 3, 4, 5, 6}, x[] = {1, 0, -1};
    double y[2];
    int status = matvec_run(a, x, y, 2, 3);
    printf("%s: %g %g\n", matvec_message(status), y[0], y[1]);
    status = matvec_run(a, x, y, 0, 3);
    printf("%s\n", matvec_message(status));
    u[N / 2] = 1;
    status = heat_run(u, v, N, 100);
    double sum = 0;
    for (int i = 0; i < N; ++i)
        sum += u[i];
    printf("%s: %.6f\n", heat_message(status), sum);
    return status;
}
