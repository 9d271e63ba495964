"""Kernels in JAX programs on a GPU: the launcher of the exported kernel over the CUDA driver, on XLA's stream.

The launcher is text for the CUDA runtime.  What it calls of that is defined here by functions of the driver, whose
addresses Python passes: neither a toolkit nor headers are needed.  The machine code is loaded once, for all devices
(``cuLibraryLoadData``), when JAX first runs the kernel.
"""
# ruff: noqa: ANN401  # arrays and devices of JAX

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from polyloop.errors import CompilerError, Diagnostic
from polyloop.interop.native import Native
from polyloop.interop.operands import Operands, library_of
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.ccompile import open_library
from polyloop.runtime.foreign.view import library
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.target.base import Target
from polyloop.target.cuda import CudaTarget

__all__ = ["DRIVER", "OnGpu", "gpu_target", "has_gpu", "is_on_gpu"]

_STEP: Final = "jax.call"
DRIVER: Final = (
    "cuInit", "cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction", "cuFuncSetAttribute", "cuStreamGetCtx",
    "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuLaunchKernel", "cuMemAllocAsync", "cuMemFreeAsync",
    "cuMemcpyAsync", "cuStreamSynchronize", "cuGetErrorString", "cuMemsetD8Async",
)  # fmt: skip
"""The functions of the driver that a launcher calls, in the order in which their addresses are passed."""

_RUNTIME: Final = r"""
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef int cudaError_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct dim3 { unsigned int x, y, z; } dim3;
enum { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorInvalidValue = 1 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaMemcpyKind { cudaMemcpyDeviceToHost = 2 };

static struct {
    int (*Init)(unsigned int);
    int (*LibraryLoadData)(void **, const void *, void *, void *, unsigned int, void *, void *, unsigned int);
    int (*LibraryGetKernel)(void **, void *, const char *);
    int (*KernelGetFunction)(void **, void *);
    int (*FuncSetAttribute)(void *, int, int);
    int (*StreamGetCtx)(cudaStream_t, void **);
    int (*CtxPushCurrent)(void *);
    int (*CtxPopCurrent)(void **);
    int (*LaunchKernel)(void *, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                        unsigned int, cudaStream_t, void **, void **);
    int (*MemAllocAsync)(unsigned long long *, size_t, cudaStream_t);
    int (*MemFreeAsync)(unsigned long long, cudaStream_t);
    int (*MemcpyAsync)(unsigned long long, unsigned long long, size_t, cudaStream_t);
    int (*StreamSynchronize)(cudaStream_t);
    int (*GetErrorString)(int, const char **);
    int (*MemsetD8Async)(unsigned long long, unsigned char, size_t, cudaStream_t);
} pl_driver;
static const void *pl_code;
static pthread_mutex_t pl_lock = PTHREAD_MUTEX_INITIALIZER;
{DEFINED}
static const struct { const void *function; const char *name; } pl_names[] = { {NAMES} };
static void *pl_kernels[sizeof pl_names / sizeof *pl_names];
static int pl_is_loaded;

void pl_begin(void *const *functions, const void *code)
{
    size_t number;
    for (number = 0; number < sizeof pl_driver / sizeof *functions; ++number)
        ((void **)&pl_driver)[number] = functions[number];
    pl_code = code;
}

static int pl_load(void)
{
    int status = 0;
    size_t number;
    pthread_mutex_lock(&pl_lock);
    if (!pl_is_loaded) {
        void *loaded = NULL;
        status = pl_driver.Init(0);
        if (status == 0)
            status = pl_driver.LibraryLoadData(&loaded, pl_code, NULL, NULL, 0, NULL, NULL, 0);
        for (number = 0; status == 0 && number < sizeof pl_names / sizeof *pl_names; ++number)
            status = pl_driver.LibraryGetKernel(&pl_kernels[number], loaded, pl_names[number].name);
        pl_is_loaded = status == 0;
    }
    pthread_mutex_unlock(&pl_lock);
    return status;
}

static const char *cudaGetErrorString(cudaError_t error)
{
    const char *text = NULL;
    return pl_driver.GetErrorString(error, &text) == 0 && text != NULL ? text : "an error of the driver";
}

static cudaError_t pl_found(const void *function, void **kernel)
{
    size_t number;
    for (number = 0; number < sizeof pl_names / sizeof *pl_names; ++number)
        if (pl_names[number].function == function)
            return pl_driver.KernelGetFunction(kernel, pl_kernels[number]);
    return cudaErrorInvalidValue;
}

static inline cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value)
{
    void *kernel = NULL;
    const int status = pl_found(function, &kernel);
    return status == 0 ? pl_driver.FuncSetAttribute(kernel, (int)attribute, value) : status;
}

static inline cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                                           size_t shared, cudaStream_t stream)
{
    void *kernel = NULL;
    const int status = pl_found(function, &kernel);
    return status == 0 ? pl_driver.LaunchKernel(kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                                (unsigned int)shared, stream, arguments, NULL) : status;
}

static inline cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t stream)
{
    unsigned long long address = 0;
    const int status = pl_driver.MemAllocAsync(&address, bytes, stream);
    *pointer = (void *)(uintptr_t)address;
    return status;
}

static inline cudaError_t cudaMemsetAsync(void *pointer, int value, size_t bytes, cudaStream_t stream)
{
    return pl_driver.MemsetD8Async((unsigned long long)(uintptr_t)pointer, (unsigned char)value, bytes, stream);
}

static inline cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream)
{
    return pl_driver.MemFreeAsync((unsigned long long)(uintptr_t)pointer, stream);
}

static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                          cudaStream_t stream)
{
    (void)kind;
    return pl_driver.MemcpyAsync((unsigned long long)(uintptr_t)to, (unsigned long long)(uintptr_t)from, bytes, stream);
}

static inline cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return pl_driver.StreamSynchronize(stream);
}

static __thread cudaStream_t pl_stream;
"""
_PARTS: Final[Mapping[str, str]] = {
    "REASON": "this is the handler for a GPU",
    "BEGIN": r"""
    void *hosts[COUNT] = {0}, *context = NULL;
    int is_pushed = 0, has_numbers = 0, fault = 0;
    XLA_FFI_Stream_Get_Args asked = {0};""",
    "COPY": "fault = fault ? fault : cudaMemcpyAsync(to, source, (size_t)bytes, cudaMemcpyDeviceToHost, pl_stream);",
    # numbers are in the memory of the GPU, and parameters of launches: the host has to have them
    "PREPARE": r"""
    for (each = 0; each < COUNT && !fault; ++each) {
        const XLA_FFI_Buffer *buffer;
        int64_t bytes = @_places[each].bytes;
        if (!@_places[each].number)
            continue;
        buffer = frame->args.args[@_places[each].operand];
        for (axis = 0; axis < buffer->rank; ++axis)
            bytes *= buffer->dims[axis];
        hosts[each] = malloc((size_t)(bytes > 0 ? bytes : 1));
        if (hosts[each] == NULL)
            fault = cudaErrorMemoryAllocation;
        else if (bytes > 0)
            fault = cudaMemcpyAsync(hosts[each], buffer->data, (size_t)bytes, cudaMemcpyDeviceToHost, pl_stream);
        data[each] = hosts[each];
        has_numbers = 1;
    }
    if (has_numbers && !fault)
        fault = cudaStreamSynchronize(pl_stream);
    if (fault)
        status = 10000 + fault;
    else""",
    "FINISH": r"""
    for (int host = 0; host < COUNT; ++host)
        free(hosts[host]);
    if (is_pushed)
        pl_driver.CtxPopCurrent(&context);""",
    "ENTER": r"""
    asked.struct_size = sizeof asked;
    asked.ctx = frame->ctx;
    {
        XLA_FFI_Error *error = frame->api->XLA_FFI_Stream_Get(&asked);
        if (error != NULL)
            return error;
    }
    pl_stream = (cudaStream_t)asked.stream;
    fault = pl_load();
    if (!fault && pl_stream != NULL && (fault = pl_driver.StreamGetCtx(pl_stream, &context)) == 0)
        is_pushed = (fault = pl_driver.CtxPushCurrent(context)) == 0;
    if (fault)
        return @_error(frame, cudaGetErrorString(fault));
""",
}
"""Parts of the handler on a GPU, by the names that ``jaxcall`` has for them."""


def has_gpu() -> bool:
    """Return whether JAX has an NVIDIA GPU."""
    try:
        return any(device.platform == "gpu" for device in library_of(_STEP, "jax").devices("cuda"))
    except RuntimeError:
        return False


def is_on_gpu(value: Any) -> bool:
    """Return whether *value* is an array of JAX on a GPU."""
    return library(value) == "jax" and any(place.platform == "gpu" for place in value.devices())


def gpu_target(kernel: LoopKernel) -> Target:
    """Return the target of JAX's GPU; that of the kernel, if it is one for CUDA."""
    if isinstance(kernel.target, Target) and kernel.target.name == "cuda":
        return kernel.target
    (first, *_) = library_of(_STEP, "jax").devices("cuda")
    major, minor = str(first.compute_capability).split(".")
    return CudaTarget(f"sm_{major}{minor}")


@dataclass(frozen=True)
class OnGpu(Native):
    """The text of a kernel's launcher for a GPU, and its handler."""

    @staticmethod
    def of(operands: Operands) -> OnGpu:
        """Return the native function of these operands, which takes a stream behind them."""
        return OnGpu(operands, ("pl_stream",))

    @property
    def parts(self) -> Mapping[str, str]:
        """Parts of the handler that differ from those on a CPU."""
        return _PARTS

    @property
    def text(self) -> str:
        """The source: the driver's part, the launcher, and the function for batches."""
        plain = Native(self.operands, self.last).text
        plain = plain.replace(self.operands.program.device_code, "")
        plain = plain.replace("#include <cuda_runtime_api.h>", "", 1)
        names = list(dict.fromkeys(launch.name for launch in self.operands.program.launches))
        declared = re.compile(r"^extern void \w+\(void\);.*$", re.MULTILINE)
        defined = "\n".join(f"static void {name}(void) {{ }}" for name in names)
        listed = ", ".join(f'{{(const void *){name}, "{name}"}}' for name in names)
        runtime = _RUNTIME.replace("{DEFINED}", defined).replace("{NAMES}", listed)
        return runtime + declared.sub("", plain)

    def handler(self, text: str, driver: Any = None) -> Any:
        """Return the function that XLA calls, of the library *text*; the driver is by default that of the system.

        Raises
        ------
        CompilerError
            ``no-gpu``: there is no driver, or an old one; as :func:`polyloop.compile`.
        """
        program = self.operands.program
        found = _MADE.get(text)
        if found is None or driver is not None:
            code = compile_cuda(program.device_code, self.operands.target.arch, build=program.build).cubin
            functions = (ctypes.c_void_p * len(DRIVER))(*_addresses(self.operands.kernel.name, driver))
            kept, loaded = ctypes.create_string_buffer(code, len(code)), open_library(text)
            loaded.pl_begin(functions, kept)
            found = _MADE.setdefault(text, (loaded, kept, driver)) if driver is None else (loaded, kept, driver)
            _KEPT.append(found)
        return getattr(found[0], f"{self.interface.prefix}_handler")


_MADE: Final[dict[str, tuple[Any, Any, Any]]] = {}
_KEPT: Final[list[tuple[Any, Any, Any]]] = []
"""Libraries that JAX may call until the process ends, and the code that they load."""


def _addresses(kernel: str, driver: Any) -> list[int | None]:
    try:
        found = ctypes.CDLL("libcuda.so.1") if driver is None else driver
        return [ctypes.cast(getattr(found, name), ctypes.c_void_p).value for name in DRIVER]
    except (OSError, AttributeError) as error:
        raise CompilerError(_STEP, kernel, [Diagnostic(
            "no-gpu", "the CUDA driver cannot be used", (str(error),), ("it has to be of CUDA 12 or later",))
        ]) from None
