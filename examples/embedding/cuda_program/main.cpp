// Solves Poisson's equation on a square of n by n points with two exported kernels on a GPU; the edges are zero.
//
// poisson N STEPS FILE writes the solution as doubles.
#include "jacobi_step.h"
#include "residual.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

void check(cudaError_t error)
{
    if (error != cudaSuccess)
        throw std::runtime_error(cudaGetErrorString(error));
}

// An array in the memory of the GPU.
class Array {
public:
    explicit Array(const std::vector<double> &values)
    {
        const size_t bytes = values.size() * sizeof(double);
        check(cudaMalloc(reinterpret_cast<void **>(&data_), bytes));
        check(cudaMemcpy(data_, values.data(), bytes, cudaMemcpyHostToDevice));
    }
    ~Array() { cudaFree(data_); }
    Array(const Array &) = delete;
    Array &operator=(const Array &) = delete;

    double *get() const { return data_; }
    void read(std::vector<double> &values, cudaStream_t stream) const
    {
        check(cudaMemcpyAsync(values.data(), data_, values.size() * sizeof(double), cudaMemcpyDeviceToHost, stream));
        check(cudaStreamSynchronize(stream));
    }

private:
    double *data_ = nullptr;
};

void check(const char *what, int status, const char *text)
{
    if (status != 0)
        throw std::runtime_error(std::string(what) + ": " + text + " (status " + std::to_string(status) + ")");
}

void solve(int n, int steps, const char *path)
{
    std::vector<double> values(n > 0 ? size_t(n) * size_t(n) : 1), squares(1);
    Array zeros(values), other(values), sum(squares);
    for (size_t k = 0; k < values.size(); ++k)
        values[k] = 1.0 / double(k + 1);
    Array f(values);
    cudaStream_t stream;
    check(cudaStreamCreate(&stream));

    double *u = zeros.get(), *next = other.get();
    for (int step = 0; step < steps; ++step) {
        const int status = jacobi_step(f.get(), u, next, n, stream);
        check("jacobi_step", status, jacobi_step_status_text(status));
        std::swap(u, next);
    }
    const int status = residual(f.get(), u, sum.get(), n, stream);
    check("residual", status, residual_status_text(status));
    sum.read(squares, stream);
    (u == zeros.get() ? zeros : other).read(values, stream);
    check(cudaStreamDestroy(stream));
    std::printf("%.17g\n", squares[0]);

    std::FILE *file = std::fopen(path, "wb");
    if (file == nullptr)
        throw std::runtime_error(std::string("cannot write ") + path);
    const size_t written = std::fwrite(values.data(), sizeof(double), values.size(), file);
    if (std::fclose(file) != 0 || written != values.size())
        throw std::runtime_error(std::string("cannot write ") + path);
}

}  // namespace

int main(int argc, char **argv)
{
    if (argc != 4) {
        std::fprintf(stderr, "usage: poisson N STEPS FILE\n");
        return 1;
    }
    try {
        solve(std::atoi(argv[1]), std::atoi(argv[2]), argv[3]);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 2;
    }
    return 0;
}
