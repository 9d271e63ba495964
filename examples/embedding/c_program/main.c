/* Solves Poisson's equation on a square of n by n points with two exported kernels; the edges are zero.
 *
 * poisson N STEPS FILE writes the solution as doubles.
 */
#include "jacobi_step.h"
#include "residual.h"

#include <stdio.h>
#include <stdlib.h>

static int failed(const char *what, int status, const char *text)
{
    fprintf(stderr, "%s: %s (status %d)\n", what, text, status);
    return status ? 2 : 0;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: poisson N STEPS FILE\n");
        return 1;
    }
    const int n = atoi(argv[1]), steps = atoi(argv[2]);
    const size_t count = n > 0 ? (size_t)n * (size_t)n : 0;
    double *f = calloc(count + 1, sizeof *f), *u = calloc(count + 1, sizeof *u), *next = calloc(count + 1, sizeof *next);
    double squares = 0.0;
    int status, step, code = 0;
    if (f == NULL || u == NULL || next == NULL)
        return 3;
    for (size_t k = 0; k < count; ++k)
        f[k] = 1.0 / (double)(k + 1);

    for (step = 0; step < steps; ++step) {
        double *other = u;
        if ((status = jacobi_step(f, u, next, n)) != JACOBI_STEP_OK) {
            code = failed("jacobi_step", status, jacobi_step_status_text(status));
            goto done;
        }
        u = next;
        next = other;
    }
    if ((status = residual(f, u, &squares, n)) != RESIDUAL_OK) {
        code = failed("residual", status, residual_status_text(status));
        goto done;
    }
    printf("%.17g\n", squares);

    FILE *file = fopen(argv[3], "wb");
    if (file == NULL || fwrite(u, sizeof *u, count, file) != count)
        code = 4;
    if (file != NULL && fclose(file) != 0)
        code = 4;
done:
    free(f);
    free(u);
    free(next);
    return code;
}
