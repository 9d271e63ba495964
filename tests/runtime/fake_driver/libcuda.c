/* The part of the CUDA driver that launches need, on host memory: what a kernel does is told to a function of a test.
   Signatures are those of cuda.h. One device, of compute capability 9.0. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OK 0
#define INVALID_VALUE 1
#define NOT_INITIALIZED 3
#define INVALID_CONTEXT 201
#define NOT_FOUND 500
#define NEEDS_CONTEXT if (getpid() != process) return NOT_INITIALIZED; if (!top) return INVALID_CONTEXT

typedef void (*told)(const char *name, const unsigned *sizes, const char *parameters, size_t size, void *stream);
told fake_told;
long fake_memory, fake_modules, fake_retained, fake_graphs, fake_cooperative, fake_events;
static int initialised, process;
static __thread long stack[64];
static __thread int top;
#define PRIMARY 0x1000

int cuInit(unsigned flags) { initialised = 1; process = getpid(); return flags ? INVALID_VALUE : OK; }
int cuDriverGetVersion(int *version) { *version = 13000; return OK; }
int cuDeviceGetCount(int *count) { *count = 1; return initialised ? OK : NOT_INITIALIZED; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal ? 101 : OK; }
int cuDeviceGetName(char *name, int length, int device) { (void)device; snprintf(name, length, "fake"); return OK; }
int cuDeviceGetUuid_v2(char *uuid, int device) { (void)device; memset(uuid, 1, 16); return OK; }
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == 75 ? 9 : attribute == 16 ? 3 : 0;
    return OK;
}
int cuGetExportTable(const void **table, const void *which) { (void)which; *table = NULL; return NOT_FOUND; } /* NVRTC asks */
int cuGetErrorString(int status, const char **text) { *text = status == 201 ? "invalid device context" : "an error"; return OK; }
int cuGetErrorName(int status, const char **text) { (void)status; *text = "CUDA_ERROR"; return OK; }

int cuDevicePrimaryCtxRetain(long *context, int device) { fake_retained++; *context = PRIMARY + device; return OK; }
int cuDevicePrimaryCtxRelease_v2(int device) { (void)device; fake_retained--; return OK; }
int cuCtxGetCurrent(long *context) { *context = top ? stack[top - 1] : 0; return OK; }
int cuCtxPushCurrent_v2(long context) { stack[top++] = context; return context ? OK : INVALID_CONTEXT; }
int cuCtxPopCurrent_v2(long *context)
{
    NEEDS_CONTEXT;
    top--;
    if (context) *context = stack[top];
    return OK;
}
int cuCtxGetDevice(int *device) { NEEDS_CONTEXT; *device = 0; return OK; }
int cuCtxSynchronize(void) { NEEDS_CONTEXT; return OK; }

int cuMemAlloc_v2(uint64_t *pointer, size_t size)
{
    NEEDS_CONTEXT;
    if (!size) return INVALID_VALUE;
    *pointer = (uint64_t)aligned_alloc(256, (size + 255) / 256 * 256);
    fake_memory++;
    return OK;
}
int cuMemFree_v2(uint64_t pointer) { NEEDS_CONTEXT; free((void *)pointer); fake_memory--; return OK; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) { NEEDS_CONTEXT; memcpy((void *)to, from, size); return OK; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { NEEDS_CONTEXT; memcpy(to, (void *)from, size); return OK; }
int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t size) { NEEDS_CONTEXT; memcpy((void *)to, (void *)from, size); return OK; }
int cuMemsetD8_v2(uint64_t to, unsigned char byte, size_t size) { NEEDS_CONTEXT; memset((void *)to, byte, size); return OK; }
int cuMemAllocAsync(uint64_t *pointer, size_t size, void *stream) { (void)stream; return cuMemAlloc_v2(pointer, size); }
int cuMemFreeAsync(uint64_t pointer, void *stream) { (void)stream; return cuMemFree_v2(pointer); }
int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t size, void *stream)
{
    (void)stream;
    return cuMemsetD8_v2(to, byte, size);
}

int cuEventCreate(void **event, unsigned flags) { NEEDS_CONTEXT; *event = malloc(1); fake_events++; return flags > 2; }
int cuEventRecord(void *event, void *stream) { (void)stream; NEEDS_CONTEXT; return event ? OK : INVALID_VALUE; }
int cuEventSynchronize(void *event) { return event ? OK : INVALID_VALUE; }
int cuEventElapsedTime(float *time, void *begin, void *end) { *time = 3; return begin && end ? OK : INVALID_VALUE; }
int cuEventElapsedTime_v2(float *time, void *begin, void *end) { return cuEventElapsedTime(time, begin, end); }
int cuEventDestroy_v2(void *event) { free(event); fake_events--; return OK; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) { (void)stream; return event && !flags ? OK : INVALID_VALUE; }
int cuStreamSynchronize(void *stream) { (void)stream; NEEDS_CONTEXT; return OK; }
int cuStreamGetCtx(void *stream, long *context) { *context = (long)stream; return OK; } /* streams are named as theirs */
int cuStreamIsCapturing(void *stream, int *status) { (void)stream; *status = 0; return OK; }

int cuModuleLoadData(void **module, const char *image)
{
    NEEDS_CONTEXT;
    if (memcmp(image, "\177ELF", 4)) return 200;
    *module = malloc(1);
    fake_modules++;
    return OK;
}
int cuModuleUnload(void *module) { NEEDS_CONTEXT; free(module); fake_modules--; return OK; }
int cuModuleGetFunction(char **function, void *module, const char *name)
{
    (void)module;
    *function = strdup(name);
    return OK;
}
int cuFuncSetAttribute(void *function, int attribute, int value) { (void)value; return function && attribute == 8 ? OK : INVALID_VALUE; }

static int run(const char *function, const unsigned *sizes, void **extra, void *stream)
{
    NEEDS_CONTEXT;
    if (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4]) return INVALID_VALUE;
    fake_told(function, sizes, extra[1], *(size_t *)extra[3], stream);
    return OK;
}
typedef struct { unsigned sizes[6], shared; void *stream, *attributes; unsigned count; } Config;
int cuLaunchKernelEx(const Config *config, const char *function, void **parameters, void **extra)
{
    if (parameters || config->count) return INVALID_VALUE;
    if (config->stream && (long)config->stream != stack[top - 1]) return 400;
    return run(function, config->sizes, extra, config->stream);
}
int cuLaunchKernel(const char *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra)
{
    (void)shared;
    NEEDS_CONTEXT;
    if (stream && (long)stream != stack[top - 1]) return 400;
    unsigned sizes[] = {x, y, z, bx, by, bz};
    if (extra) return run(function, sizes, extra, stream);
    fake_told(function, sizes, (const char *)parameters, (size_t)-1, stream); /* pointers to the arguments */
    return OK;
}
int cuPointerGetAttribute(void *value, int attribute, uint64_t pointer)
{
    if (!pointer) return INVALID_VALUE;
    if (attribute == 1) *(long *)value = PRIMARY;
    if (attribute == 9) *(int *)value = 0;
    return OK;
}
int cuLaunchCooperativeKernel(const char *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                              unsigned bz, unsigned shared, void *stream, void **parameters)
{
    (void)shared;
    NEEDS_CONTEXT;
    unsigned sizes[] = {x, y, z, bx, by, bz};
    fake_cooperative++;
    fake_told(function, sizes, (const char *)parameters, 0, stream);
    return OK;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared)
{
    (void)function, (void)threads, (void)shared;
    *blocks = 2;
    return OK;
}

typedef struct { const char *function; unsigned sizes[6], shared; void **parameters, **extra, *kernel, *context; } Params;
typedef struct Node { Params params; char *buffer; size_t size; struct Node *next; } Node;
static void keep(Node *node, const Params *params)
{
    node->params = *params;
    node->size = *(size_t *)params->extra[3];
    node->buffer = memcpy(malloc(node->size + 1), params->extra[1], node->size);
}
int cuGraphCreate(Node **graph, unsigned flags) { *graph = calloc(1, sizeof(Node)); fake_graphs++; return flags; }
int cuGraphAddKernelNode_v2(Node **node, Node *graph, Node **before, size_t count, const Params *params)
{
    if (count != (before != NULL)) return INVALID_VALUE;
    *node = calloc(1, sizeof(Node));
    keep(*node, params);
    while (graph->next) graph = graph->next;
    graph->next = *node;
    return OK;
}
int cuGraphInstantiateWithFlags(Node **executable, Node *graph, unsigned long long flags) { *executable = graph; return flags ? INVALID_VALUE : OK; }
int cuGraphExecKernelNodeSetParams_v2(Node *executable, Node *node, const Params *params) { (void)executable; keep(node, params); return OK; }
int cuGraphLaunch(Node *executable, void *stream)
{
    NEEDS_CONTEXT;
    for (Node *node = executable->next; node; node = node->next)
        fake_told(node->params.function, node->params.sizes, node->buffer, node->size, stream);
    return OK;
}
int cuGraphExecDestroy(Node *executable) { return executable ? OK : INVALID_VALUE; }
int cuGraphDestroy(Node *graph) { free(graph); fake_graphs--; return OK; }

int cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status)
{
    char name[128];
    (void)version, (void)flags;
    static void *self;
    if (!self) {
        Dl_info found;
        dladdr((void *)cuInit, &found);
        self = dlopen(found.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    }
    const char *endings[] = {"_v3", "_v2", ""};
    for (int k = 0; k < 3; k++) {
        snprintf(name, sizeof name, "%s%s", symbol, endings[k]);
        *function = dlsym(self, name);
        if (*function) {
            if (status) *status = 0;
            return OK;
        }
    }
    if (status) *status = 1;
    return NOT_FOUND;
}
