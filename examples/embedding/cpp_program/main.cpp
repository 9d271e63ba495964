// Solves Poisson's equation on a square of n by n points with two exported kernels; the edges are zero.
//
// poisson N STEPS FILE writes the solution as doubles.
#include "jacobi_step.h"
#include "residual.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void check(const char *what, int status, const char *text)
{
    if (status != 0)
        throw std::runtime_error(std::string(what) + ": " + text + " (status " + std::to_string(status) + ")");
}

void solve(int n, int steps, const char *path)
{
    const std::size_t count = n > 0 ? std::size_t(n) * std::size_t(n) : 1;
    std::vector<double> f(count), u(count), next(count);
    for (std::size_t k = 0; k < count; ++k)
        f[k] = 1.0 / double(k + 1);

    for (int step = 0; step < steps; ++step) {
        const int status = jacobi_step(f.data(), u.data(), next.data(), n);
        check("jacobi_step", status, jacobi_step_status_text(status));
        u.swap(next);
    }
    double squares = 0.0;
    const int status = residual(f.data(), u.data(), &squares, n);
    check("residual", status, residual_status_text(status));
    std::printf("%.17g\n", squares);

    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char *>(u.data()), std::streamsize(count * sizeof(double)));
    file.close();
    if (!file)
        throw std::runtime_error(std::string("cannot write ") + path);
}

}  // namespace

int main(int argc, char **argv)
{
    if (argc != 4) {
        std::cerr << "usage: poisson N STEPS FILE\n";
        return 1;
    }
    try {
        solve(std::atoi(argv[1]), std::atoi(argv[2]), argv[3]);
    } catch (const std::exception &error) {
        std::cerr << error.what() << "\n";
        return 2;
    }
    return 0;
}
