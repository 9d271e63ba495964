/* The part of the CUDA runtime that launchers use, which tells a test of each call. */
#ifndef FAKE_CUDA_RUNTIME_API_H
#define FAKE_CUDA_RUNTIME_API_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef enum { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorInvalidConfiguration = 9 } cudaError_t;
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
typedef struct CUstream_st *cudaStream_t;
typedef struct dim3 {
    unsigned int x, y, z;
} dim3;

typedef int (*fake_launch)(const void *function, const unsigned int *grid_and_block, void **arguments, size_t shared,
                           cudaStream_t stream);
fake_launch fake_told; /* a common symbol of all files: tests build one */
long fake_allocated, fake_allowed, fake_copies, fake_set;

static const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorInvalidConfiguration ? "invalid configuration argument" : "an error";
}

static cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value)
{
    (void)function, (void)attribute;
    fake_allowed = value;
    return cudaSuccess;
}

static cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                                    cudaStream_t stream)
{
    const unsigned int sizes[] = {grid.x, grid.y, grid.z, block.x, block.y, block.z};
    return (cudaError_t)fake_told(function, sizes, arguments, shared, stream);
}

enum cudaMemcpyKind { cudaMemcpyDeviceToHost = 2 };

static cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                   cudaStream_t stream)
{
    (void)kind, (void)stream;
    memcpy(to, from, bytes);
    fake_copies += 1;
    return cudaSuccess;
}

static cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

static cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    *pointer = malloc(bytes);
    fake_allocated += 1;
    return *pointer == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
}

static cudaError_t cudaMemsetAsync(void *pointer, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    memset(pointer, value, bytes);
    fake_set += 1;
    return cudaSuccess;
}

static cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream)
{
    (void)stream;
    free(pointer);
    fake_allocated -= 1;
    return cudaSuccess;
}

#endif
