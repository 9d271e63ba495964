"""Launcher of an exported program for OpenCL, in C: the program as text, built at the first call in a context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polyloop.codegen.program import DeviceLaunch, HostCondition
from polyloop.export.header import signature
from polyloop.export.interface import Array, Interface, refused
from polyloop.export.launcher import Launcher, kernel_text, launcher_text, quoted
from polyloop.export.status import DEVICE, KIND

__all__ = ["program_texts"]

_NARROW = 32
_MOST_CONTEXTS = 8
_BUILD = """\
#if defined(_MSC_VER)
#define @own_of_thread __declspec(thread)
#else
#define @own_of_thread _Thread_local
#endif

static @own_of_thread struct {
    cl_context context;
    cl_device_id device;
    cl_program program;
} @built[@most];

/* The program for the context and the device of a queue; a thread keeps those of the last contexts. */
static cl_int @program_of(cl_command_queue queue, cl_context *context, cl_program *program)
{
    cl_device_id device;
    cl_device_fp_config rounding = 0;
    cl_int error = clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof *context, context, NULL);
    int n;
    if (error == CL_SUCCESS)
        error = clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    if (error != CL_SUCCESS)
        return error;
    for (n = 0; n < @most; ++n)
        if (@built[n].program != NULL && @built[n].context == *context && @built[n].device == device) {
            *program = @built[n].program;
            return CL_SUCCESS;
        }
    *program = clCreateProgramWithSource(*context, sizeof @text / sizeof *@text, (const char **)@text, NULL, &error);
    if (error != CL_SUCCESS)
        return error;
    if (clGetDeviceInfo(device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof rounding, &rounding, NULL) != CL_SUCCESS)
        rounding = 0;
    error = clBuildProgram(*program, 1, &device, rounding & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT
        ? "-cl-std=CL@version -cl-fp32-correctly-rounded-divide-sqrt" : "-cl-std=CL@version", NULL, NULL);
    if (error != CL_SUCCESS || (error = clRetainContext(*context)) != CL_SUCCESS) {
        clReleaseProgram(*program);
        return error;
    }
    if (@built[@most - 1].program != NULL) {
        clReleaseProgram(@built[@most - 1].program);
        clReleaseContext(@built[@most - 1].context);
    }
    for (n = @most - 1; n > 0; --n)
        @built[n] = @built[n - 1];
    @built[0].context = *context;
    @built[0].device = device;
    @built[0].program = *program;
    return CL_SUCCESS;
}

void @prefix_release(void)
{
    int n;
    for (n = 0; n < @most; ++n)
        if (@built[n].program != NULL) {
            clReleaseProgram(@built[n].program);
            clReleaseContext(@built[n].context);
            @built[n].program = NULL;
        }
}

/* The buffer that has the memory of another one, and where that begins in it. */
static cl_mem @whole(cl_mem buffer, size_t *offset)
{
    cl_mem parent = NULL;
    *offset = 0;
    if (clGetMemObjectInfo(buffer, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof parent, &parent, NULL) != CL_SUCCESS
        || parent == NULL || clGetMemObjectInfo(buffer, CL_MEM_OFFSET, sizeof *offset, offset, NULL) != CL_SUCCESS)
        return buffer;
    return parent;
}

static int @buffers_overlap(cl_mem a, @layout x, int64_t x_bytes, cl_mem b, @layout y, int64_t y_bytes)
{
    size_t first, second;
    if (x.is_empty || y.is_empty)
        return 0;
    return @whole(a, &first) == @whole(b, &second) && @overlap(first, x, x_bytes, second, y, y_bytes);
}
"""


class _OpenCLLauncher(Launcher):
    """Text of one launcher, whose function takes buffers and a queue."""

    def __init__(self, interface: Interface, version: str) -> None:
        super().__init__(interface, "")
        build = _BUILD.replace("@prefix", interface.prefix).replace("@most", str(_MOST_CONTEXTS))
        self._build = build.replace("@version", version).replace("@", interface.mark)

    def text(self) -> str:
        """Return the whole file."""
        interface, lines = self._interface, self._program.device_code.splitlines()
        quotations = ",\n".join(f"    {quoted(line)[:-1]}\\n\"" for line in lines)
        source = f"static const char *const {self._mark}text[] = {{\n{quotations}\n}};\n"
        return "\n".join([
            f'#include "{interface.prefix}.h"', "", "#include <stddef.h>", "#include <stdlib.h>", "",
            self._unused(), source, self._helpers, self._build, *self._status_function(), "", *self._run(),
            signature(interface), "{", *self._body(), "}", "",
        ])  # fmt: skip

    def _array_checks(self) -> Iterator[str]:
        yield from super()._array_checks()
        for about, array in enumerate(self._interface.parameters, 1):
            if isinstance(array, Array):  # no buffer has elements ahead of its first one
                layout = f"{self._mark}layout_{array.spelling}"
                yield f"    if (!{layout}.is_empty && {layout}.low < 0)"
                yield f"        {self._return('bad_size', about)}"

    def _overlap(self, one: Array, other: Array) -> str:
        parts = (f"{a.spelling}, {self._mark}layout_{a.spelling}, {a.dtype.itemsize}" for a in (one, other))
        return f"{self._mark}buffers_overlap({', '.join(parts)})"

    def _failed(self, error: str) -> str:
        return f"{DEVICE * KIND} - (int){error}"

    def _run(self) -> Iterator[str]:
        """Yield the function that runs the launches, or looks whether a device can have their grids."""
        mark = self._mark
        parameters = [f"{'cl_mem' if isinstance(e, Array) else e.ctype} {e.spelling}" for e in self._passed()]
        parameters += ["cl_command_queue queue", f"cl_program {mark}program"]
        yield "/* Launch if there is a program, else look whether a device can have all grids. */"
        yield f"static int {mark}run({', '.join(parameters)})"
        yield "{"
        yield f"    const int {mark}do_launch = {mark}program != NULL;"
        yield f"    int {mark}wide = 0;"
        for number in self._interface.integers:
            yield f"    const int64_t {self._sizes[number.name]} = (int64_t){number.spelling};"
        yield from self._launches([*enumerate(self._program.launches, 1)], 0, "    ")
        yield "    return 0;"
        yield "}"
        yield ""

    def _condition(self, condition: HostCondition, inames: Sequence[str], indent: str) -> Iterator[str]:
        if not condition.is_whole:
            raise refused(self._program, f"the host decides whether a launch runs: {condition.text}",
                          "a launcher for OpenCL reads no memory", "call it from Python, or let threads decide")
        yield from super()._condition(condition, inames, indent)

    def _start(self, launch: DeviceLaunch, indent: str) -> Iterator[str]:
        mark, kind = self._mark, "int64_t" if self._program.index_bits != _NARROW else "int32_t"
        spelt = {entry.name: entry.spelling for entry in self._passed()}
        for loop in launch.around:
            yield f"{indent}const {kind} {mark}value_{loop.iname} = ({kind}){mark}iname_{loop.iname};"
            spelt[loop.iname] = f"{mark}value_{loop.iname}"
        block = (*launch.block, 1, 1, 1)[:3]
        extents = ", ".join(f"(size_t){mark}grid[{k}] * {block[k]}" for k in range(3))
        yield f"{indent}const size_t {mark}items[3] = {{{extents}}};"
        yield f"{indent}const size_t {mark}group[3] = {{{', '.join(map(str, block))}}};"
        yield f"{indent}cl_int {mark}error;"
        yield f"{indent}cl_kernel {mark}kernel = clCreateKernel({mark}program, \"{launch.name}\", &{mark}error);"
        for number, name in enumerate(launch.arguments):
            yield f"{indent}if ({mark}error == CL_SUCCESS)"
            yield (f"{indent}    {mark}error = clSetKernelArg({mark}kernel, {number}, sizeof {spelt[name]}, "
                   f"&{spelt[name]});")
        yield f"{indent}if ({mark}error == CL_SUCCESS)"
        given = f"queue, {mark}kernel, 3, NULL, {mark}items, {mark}group, 0, NULL, NULL"
        yield f"{indent}    {mark}error = clEnqueueNDRangeKernel({given});"
        if len(self._program.launches) > 1 or launch.around:  # also on a queue without an order
            yield f"{indent}if ({mark}error == CL_SUCCESS)"
            yield f"{indent}    {mark}error = clEnqueueBarrierWithWaitList(queue, 0, NULL, NULL);"
        yield f"{indent}if ({mark}kernel != NULL)"
        yield f"{indent}    clReleaseKernel({mark}kernel);"
        yield f"{indent}if ({mark}error != CL_SUCCESS)"
        yield f"{indent}    return {self._failed(f'{mark}error')};"

    def _call(self) -> Iterator[str]:
        """Yield the end of the function: the program, temporary buffers, and the launches."""
        interface, mark = self._interface, self._mark
        spaces = [*self._sizes_of_workspace()]
        passed = [f"{mark}space_{e.spelling}" if e in interface.workspace else e.spelling for e in self._passed()]
        yield f"    cl_context {mark}context = NULL;"
        yield f"    cl_program {mark}program = NULL;"
        for array, _ in spaces:
            yield f"    cl_mem {mark}space_{array.spelling} = NULL;"
        yield f"    int {mark}status = {mark}run({', '.join([*passed, 'queue', 'NULL'])});"
        yield f"    if (!{mark}status) {{"
        yield f"        const cl_int {mark}error = {mark}program_of(queue, &{mark}context, &{mark}program);"
        yield f"        if ({mark}error != CL_SUCCESS)"
        yield f"            {mark}status = {self._failed(f'{mark}error')};"
        yield "    }"
        for array, size in spaces:
            name = f"{mark}space_{array.spelling}"
            yield f"    if (!{mark}status) {{"
            yield f"        cl_int {mark}error = CL_MEM_OBJECT_ALLOCATION_FAILURE;"
            yield f"        const size_t {mark}bytes = {size};"
            yield f"        if (!{mark}wide)"
            given = f"{mark}context, CL_MEM_READ_WRITE, {mark}bytes, NULL, &{mark}error"
            yield f"            {name} = clCreateBuffer({given});"
            yield f"        if ({mark}error != CL_SUCCESS)"
            yield f"            {mark}status = {self._status['no_memory', 0].name(interface.prefix)};"
            yield "    }"
        yield f"    if (!{mark}status)"
        yield f"        {mark}status = {mark}run({', '.join([*passed, 'queue', f'{mark}program'])});"
        for array, _ in spaces:  # the driver keeps a buffer until commands with it are done
            yield f"    if ({mark}space_{array.spelling} != NULL)"
            yield f"        clReleaseMemObject({mark}space_{array.spelling});"
        yield f"    return {mark}status;"

    _host_call = _call


def program_texts(interface: Interface, kernel_file: str, architecture: str) -> tuple[str, str]:
    """Return the text of the kernel, and that of the launcher, of a program for any target.

    Parameters
    ----------
    architecture
        For OpenCL it begins with the version of the language.

    Raises
    ------
    CodegenError
        ``not-exportable``.
    """
    if not interface.is_opencl:
        return kernel_text(interface), launcher_text(interface, kernel_file)
    if moved := [array.name for array in interface.arrays if array.offset != 0]:
        raise refused(interface.program, f"'{moved[0]}' does not begin at the start of its buffer",
                      "a function takes buffers that begin with the first element", "leave out offset=")
    return kernel_text(interface), _OpenCLLauncher(interface, architecture.partition(" ")[0]).text()
