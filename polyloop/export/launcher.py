"""Launcher of an exported program, in C: checks, temporary arrays, loops of the host, launches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from polyloop.codegen.program import DeviceLaunch, HostCondition
from polyloop.export.header import signature
from polyloop.export.interface import Array, Interface, Number, ctype_of, tree_of
from polyloop.export.linkage import internal
from polyloop.export.status import DEVICE, KIND, Status, statuses
from polyloop.export.trees import Tree, c_text

__all__ = ["Launcher", "kernel_text", "launcher_text", "quoted"]

_NARROW = 32
_DEFAULT_SHARED = 48 * 1024

# Sizes are 64-bit numbers, and a sum or product that does not fit is told, not wrapped.
_ARITHMETIC = """\
static int64_t @plus(int64_t a, int64_t b, int *wide)
{
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) {
        *wide = 1;
        return 0;
    }
    return a + b;
}

static int64_t @times(int64_t a, int64_t b, int *wide)
{
    if (a == 0 || b == 0)
        return 0;
    if (a > 0 ? (b > 0 ? a > INT64_MAX / b : b < INT64_MIN / a) : (b > 0 ? a < INT64_MIN / b : a < INT64_MAX / b)) {
        *wide = 1;
        return 0;
    }
    return a * b;
}

static int64_t @floor_div(int64_t a, int64_t b, int *wide)
{
    if (b == 0 || (a == INT64_MIN && b == -1)) {
        *wide = 1;
        return 0;
    }
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t @modulo(int64_t a, int64_t b, int *wide)
{
    return @plus(a, -@times(b, @floor_div(a, b, wide), wide), wide);
}

static int64_t @min(int64_t a, int64_t b, int *wide)
{
    (void)wide;
    return a < b ? a : b;
}

static int64_t @max(int64_t a, int64_t b, int *wide)
{
    (void)wide;
    return a > b ? a : b;
}
"""
_LAYOUTS = """\
typedef struct {
    int64_t low, high; /* elements from the first one */
    int is_empty, is_negative, may_share;
} @layout;

static @layout @layout_of(int axes, const int64_t *shape, const int64_t *strides, int *wide)
{
    @layout found = {0, 1, 0, 0, 0};
    int64_t reached = 0, passed = -1; /* distance reached along axes of smaller strides, the last such stride */
    int axis, other, next;
    for (axis = 0; axis < axes; ++axis) {
        const int64_t reach = @times(shape[axis] - (shape[axis] > INT64_MIN), strides[axis], wide);
        found.is_negative |= shape[axis] < 0;
        found.is_empty |= shape[axis] == 0;
        if (reach < 0)
            found.low = @plus(found.low, reach, wide);
        else
            found.high = @plus(found.high, reach, wide);
    }
    for (axis = 0; axis < axes; ++axis) { /* axes with two elements or more, in the order of their strides */
        for (next = -1, other = 0; other < axes; ++other) {
            const int64_t step = @absolute(strides[other]);
            if (shape[other] > 1 && step > passed && (next < 0 || step < @absolute(strides[next])))
                next = other;
        }
        if (next < 0)
            break;
        passed = @absolute(strides[next]);
        for (other = 0; other < axes; ++other)
            found.may_share |= other != next && shape[other] > 1 && @absolute(strides[other]) == passed;
        found.may_share |= passed <= reached;
        reached = @plus(reached, @times(shape[next] - 1, passed, wide), wide);
    }
    return found;
}

static int @overlap(uintptr_t a, @layout x, int64_t x_bytes, uintptr_t b, @layout y, int64_t y_bytes)
{
    if (x.is_empty || y.is_empty)
        return 0;
    return a + (uintptr_t)(x.low * x_bytes) < b + (uintptr_t)(y.high * y_bytes)
        && b + (uintptr_t)(y.low * y_bytes) < a + (uintptr_t)(x.high * x_bytes);
}
"""
_ABSOLUTE = """\
static int64_t @absolute(int64_t a)
{
    return a < 0 ? (a == INT64_MIN ? INT64_MAX : -a) : a;
}
"""


class Launcher:
    """Text of one launcher; names of the launcher begin with ``mark``, which no parameter does."""

    def __init__(self, interface: Interface, kernel_file: str) -> None:
        self._interface, self._kernel_file, self._mark = interface, kernel_file, interface.mark
        self._program = interface.program
        self._sizes = {number.name: f"{self._mark}size_{number.spelling}" for number in interface.integers}
        self._status = {(status.kind, status.about): status for status in statuses(interface)}
        self._helpers = (_ARITHMETIC + "\n" + _ABSOLUTE + "\n" + _LAYOUTS).replace("@", self._mark)

    def text(self) -> str:
        """Return the whole file."""
        interface = self._interface
        first = [f'#include "{interface.prefix}.h"', "", "#include <stddef.h>", "#include <stdlib.h>"]
        if interface.is_cuda:
            first += ["#include <cuda_runtime_api.h>", ""]
            names = dict.fromkeys(launch.name for launch in self._program.launches)
            first += [f"extern void {name}(void); /* only its address is used */" for name in names]
        else:
            first += ["", f'#include "{self._kernel_file}"']
        return "\n".join([
            *first, "", self._unused(), self._helpers, *self._status_function(), "",
            *(self._run() if interface.is_cuda else ()), signature(interface), "{", *self._body(), "}", "",
        ])  # fmt: skip

    def _unused(self) -> str:
        return ('#if defined(__GNUC__)\n#pragma GCC diagnostic ignored "-Wunused-function"\n'
                '#pragma GCC diagnostic ignored "-Wunused-variable"\n'
                '#pragma GCC diagnostic ignored "-Wunused-parameter"\n#endif\n')

    def _status_function(self) -> Iterator[str]:
        interface = self._interface
        yield f"const char *{interface.prefix}_status_text(int status)"
        yield "{"
        if interface.is_cuda:
            yield f"    if (status >= {DEVICE * KIND})"
            yield f"        return cudaGetErrorString((cudaError_t)(status - {DEVICE * KIND}));"
        yield "    switch (status) {"
        yield "    case 0:"
        yield '        return "success";'
        for status in self._status.values():
            if status.kind != "device_error":
                yield f"    case {status.name(interface.prefix)}:"
                yield f"        return {quoted(status.text)};"
        yield "    default:"
        yield '        return "unknown status";'
        yield "    }"
        yield "}"

    def _c(self, tree: Tree, more: Sequence[str] = ()) -> str:
        return c_text(tree, {**self._sizes, **{iname: f"{self._mark}iname_{iname}" for iname in more}}, self._mark)

    def _return(self, kind: str, about: int) -> str:
        status: Status = self._status[kind, about]
        return f"return {status.name(self._interface.prefix)};"

    def _body(self) -> Iterator[str]:
        interface, mark = self._interface, self._mark
        yield f"    int {mark}wide = 0;"
        for number in interface.integers:
            yield f"    const int64_t {self._sizes[number.name]} = (int64_t){number.spelling};"
        for array in (*interface.arrays, *interface.workspace):
            for what, trees in (("shape", array.shape), ("strides", array.strides)):
                listed = ", ".join(map(self._c, trees)) or "1"
                yield f"    const int64_t {mark}{what}_{array.spelling}[] = {{{listed}}};"
            axes = max(1, len(array.shape))
            yield (f"    const {mark}layout {mark}layout_{array.spelling} = {mark}layout_of({axes}, "
                   f"{mark}shape_{array.spelling}, {mark}strides_{array.spelling}, &{mark}wide);")
        for number in interface.integers:
            if number.dtype.kind == "u" and number.dtype.itemsize == 8:
                yield f"    if ({number.spelling} > INT64_MAX)"
                yield f"        {self._return('index_overflow', 0)}"
        yield f"    if ({mark}wide)"
        yield f"        {self._return('index_overflow', 0)}"
        yield from self._array_checks()
        for kind, checks in (("assumption", self._program.checks), ("index_overflow", self._program.index_checks)):
            for about, check in enumerate(checks, 1):
                yield f"    if (!({self._c(tree_of(self._program, check.condition))}))"
                keys = ("index_overflow", 0), (kind, about)
                wide, false = (self._status[key].name(interface.prefix) for key in keys)
                yield f"        return {mark}wide ? {wide} : {false};"
        yield f"    if ({mark}wide)"
        yield f"        {self._return('index_overflow', 0)}"
        yield from self._device_calls() if interface.is_cuda else self._host_call()

    def _array_checks(self) -> Iterator[str]:
        interface, mark = self._interface, self._mark
        for about, array in enumerate(interface.parameters, 1):
            if not isinstance(array, Array):
                continue
            layout = f"{mark}layout_{array.spelling}"
            yield f"    if ({layout}.is_negative)"
            yield f"        {self._return('bad_size', about)}"
            yield f"    if ({array.spelling} == NULL && !{layout}.is_empty)"
            yield f"        {self._return('null_pointer', about)}"
            if array.alignment > 1 and not interface.is_opencl:
                yield f"    if ((uintptr_t){array.spelling} % {array.alignment} != 0)"
                yield f"        {self._return('misaligned', about)}"
            if array.is_written:
                yield f"    if (!{layout}.is_empty && {layout}.may_share)"
                yield f"        {self._return('overlapping_elements', about)}"
        for about, array in enumerate(interface.parameters, 1):
            others = [other for other in interface.arrays if other is not array]
            if not isinstance(array, Array) or not array.is_written or not others:
                continue
            pairs = [self._overlap(array, other) for other in others]
            yield "    if (" + "\n        || ".join(pairs) + ")"
            yield f"        {self._return('overlapping_arguments', about)}"

    def _overlap(self, one: Array, other: Array) -> str:
        parts = (f"(uintptr_t){a.spelling}, {self._mark}layout_{a.spelling}, {a.dtype.itemsize}" for a in (one, other))
        return f"{self._mark}overlap({', '.join(parts)})"

    def _pointer(self, array: Array) -> str:
        """Return the pointer that functions are passed: that of the element at offset 0."""
        base = f"{self._mark}space_{array.spelling}" if array in self._interface.workspace else array.spelling
        pointer = f"(void *){base}"
        if array.offset == 0:
            return pointer
        offset = self._c(["*", array.offset, array.dtype.itemsize])
        return f"(void *)((char *){base} - {offset})"

    def _sizes_of_workspace(self) -> Iterator[tuple[Array, str]]:
        mark = self._mark
        for array in self._interface.workspace:
            layout = f"{mark}layout_{array.spelling}"
            count = f"{layout}.is_empty || {layout}.is_negative ? 1 : {layout}.high - {layout}.low"
            yield array, f"(size_t){mark}times({count}, {array.dtype.itemsize}, &{mark}wide)"

    def _host_call(self) -> Iterator[str]:
        interface, mark = self._interface, self._mark
        (launch,) = self._program.launches
        spaces = [*self._sizes_of_workspace()]
        for array, _ in spaces:
            yield f"    char *{mark}space_{array.spelling} = NULL;"
        if spaces:
            yield f"    int {mark}status = 0;"
        for array, size in spaces:
            # calloc of whole cache lines: vector instructions may ask for the alignment of one
            yield "    {"
            yield f"        const size_t {mark}bytes = {size};"
            yield f"        if (!{mark}wide)"
            yield f"            {mark}space_{array.spelling} = aligned_alloc(64, ({mark}bytes + 63) / 64 * 64);"
            yield f"        if ({mark}space_{array.spelling} == NULL)"
            yield f"            {mark}status = {self._status['no_memory', 0].name(interface.prefix)};"
            yield "    }"
        found = {e.name: self._pointer(e) if isinstance(e, Array) else e.spelling
                 for e in (*interface.parameters, *interface.workspace)}
        call = f"{launch.name}({', '.join(found[name] for name in launch.arguments)});"
        yield from (f"    if (!{mark}status)", f"        {call}") if spaces else (f"    {call}",)
        for array, _ in spaces:
            yield f"    free({mark}space_{array.spelling});"
        yield f"    return {f'{mark}status' if spaces else '0'};"

    def _device_calls(self) -> Iterator[str]:
        interface, mark = self._interface, self._mark
        spaces = [*self._sizes_of_workspace()]
        passed = self._passed()
        for array, _ in spaces:
            yield f"    void *{mark}space_{array.spelling} = NULL;"
        yield f"    int {mark}status = {mark}run({self._arguments(passed, launches=False)});"
        for array, size in spaces:
            is_zeroed = array.name in self._program.zeroed
            yield f"    if (!{mark}status) {{"
            yield f"        const size_t {mark}bytes = {size};"
            kind = "cudaError_t" if is_zeroed else "const cudaError_t"
            yield f"        {kind} {mark}error = {mark}wide ? cudaErrorMemoryAllocation"
            yield f"            : cudaMallocAsync(&{mark}space_{array.spelling}, {mark}bytes, stream);"
            if is_zeroed:
                yield f"        if ({mark}error == cudaSuccess)"
                place = f"{mark}space_{array.spelling}"
                yield f"            {mark}error = cudaMemsetAsync({place}, 0, {mark}bytes, stream);"
            yield f"        if ({mark}error == cudaErrorMemoryAllocation)"
            yield f"            {mark}status = {self._status['no_memory', 0].name(interface.prefix)};"
            yield f"        else if ({mark}error != cudaSuccess)"
            yield f"            {mark}status = {DEVICE * KIND} + (int){mark}error;"
            yield "    }"
        yield f"    if (!{mark}status)"
        yield f"        {mark}status = {mark}run({self._arguments(passed, launches=True)});"
        for array, _ in spaces:
            yield f"    if ({mark}space_{array.spelling} != NULL) {{"
            yield f"        const cudaError_t {mark}error = cudaFreeAsync({mark}space_{array.spelling}, stream);"
            yield f"        if (!{mark}status && {mark}error != cudaSuccess)"
            yield f"            {mark}status = {DEVICE * KIND} + (int){mark}error;"
            yield "    }"
        yield f"    return {mark}status;"

    def _passed(self) -> tuple[Array | Number, ...]:
        return (*self._interface.parameters, *self._interface.workspace)

    def _arguments(self, passed: Sequence[Array | Number], *, launches: bool) -> str:
        found = [self._pointer(e) if isinstance(e, Array) else e.spelling for e in passed]
        return ", ".join([*found, "stream", str(int(launches))])

    def _run(self) -> Iterator[str]:
        """Yield the function that runs the launches, or looks whether a device can have their grids."""
        mark = self._mark
        parameters = [f"{'void *' if isinstance(e, Array) else f'{e.ctype} '}{e.spelling}" for e in self._passed()]
        yield "/* Launch if do_launch is not 0, else look whether a device can have all grids. */"
        yield f"static int {mark}run({', '.join([*parameters, 'cudaStream_t stream', f'int {mark}do_launch'])})"
        yield "{"
        yield f"    int {mark}wide = 0;"
        for number in self._interface.integers:
            yield f"    const int64_t {self._sizes[number.name]} = (int64_t){number.spelling};"
        numbered = [*enumerate(self._program.launches, 1)]
        yield from self._launches(numbered, 0, "    ")
        yield "    return 0;"
        yield "}"
        yield ""

    def _launches(self, launches: Sequence[tuple[int, DeviceLaunch]], depth: int, indent: str) -> Iterator[str]:
        """Yield launches in the same first *depth* loops, in the others."""

        def key(entry: tuple[int, DeviceLaunch]) -> object:
            around = entry[1].around
            return around[depth] if around[depth:] else None

        mark = self._mark
        for loop, group in groupby(launches, key=key):
            members = [*group]
            first = members[0][1]
            if loop is None:
                for about, launch in members:
                    yield from self._launch(about, launch, indent)
                continue
            own, outer = first.around[depth], [around.iname for around in first.around[:depth]]
            lower, upper = (self._c(tree_of(self._program, bound), outer) for bound in (own.lower, own.upper))
            name = f"{mark}iname_{own.iname}"
            head = f"int64_t {name} = {lower}, {name}_end = {upper}; {name} < {name}_end; {name} += {own.step}"
            yield f"{indent}for ({head}) {{"
            if own.test is not None:
                yield from self._test(own.test, outer, indent + "    ")
            yield from self._launches(members, depth + 1, indent + "    ")
            yield f"{indent}}}"

    def _launch(self, about: int, launch: DeviceLaunch, indent: str) -> Iterator[str]:
        mark = self._mark
        inames = [loop.iname for loop in launch.around]
        grid = [self._c(tree_of(self._program, extent), inames) for extent in launch.grid]
        most = launch.max_grid or (2**31 - 1, 65535, 65535)
        inside = indent + "    "
        yield f"{indent}{{ /* {launch.name} */"
        yield f"{inside}const int64_t {mark}grid[3] = {{{', '.join(grid)}}};"
        yield f"{inside}if ({mark}wide)"
        yield f"{inside}    {self._return('index_overflow', 0)}"
        sides = [*enumerate(most)]
        yield f"{inside}int {mark}holds = {' && '.join(f'{mark}grid[{k}] > 0' for k, _ in sides)};"
        if launch.condition is not None:
            yield f"{inside}if ({mark}holds)"
            yield from self._condition(launch.condition, inames, inside)
        yield f"{inside}if ({mark}holds) {{"
        yield f"{inside}    if ({' || '.join(f'{mark}grid[{k}] > {limit}' for k, limit in sides)})"
        yield f"{inside}        {self._return('grid_too_large', about)}"
        yield f"{inside}    if ({mark}do_launch) {{"
        yield from self._start(launch, inside + "        ")
        yield f"{inside}    }}"
        yield f"{inside}}}"
        yield f"{indent}}}"

    def _test(self, test: HostCondition, inames: Sequence[str], indent: str) -> Iterator[str]:
        """Yield the end of a loop whose condition does not hold; memory is read only between launches."""
        mark = self._mark
        yield f"{indent}int {mark}holds = 1;"
        if test.elements:
            yield f"{indent}if ({mark}do_launch) {{"
            yield from self._condition(test, inames, indent + "    ")
            yield f"{indent}}}"
        else:
            yield from self._condition(test, inames, indent)
        yield f"{indent}if (!{mark}holds)"
        yield f"{indent}    break;"

    def _condition(self, condition: HostCondition, inames: Sequence[str], indent: str) -> Iterator[str]:
        """Yield a block that finds whether *condition* holds, whose text has the names of the kernel file."""
        mark, inside = self._mark, indent + "    "
        if condition.is_whole:
            yield f"{indent}{{"
            yield f"{inside}{mark}holds = {self._c(tree_of(self._program, condition.condition), inames)};"
            yield f"{inside}if ({mark}wide)"
            yield f"{inside}    {self._return('index_overflow', 0)}"
            yield f"{indent}}}"
            return
        renamed = dict(self._program.renamed)
        spelt = {entry.name: entry.spelling for entry in self._passed()}
        arrays = dict.fromkeys(element.array for element in condition.elements)
        names = [name for name, _ in condition.types if name not in {element.name for element in condition.elements}]
        index = "int64_t" if self._program.index_bits != _NARROW else "int32_t"
        yield f"{indent}{{"
        for number, array in enumerate(arrays):
            yield f"{inside}const char *const {mark}from_{number} = (const char *){spelt[array]};"
        given = {name: f"({index}){mark}iname_{name}" for name in inames} | spelt
        others = [name for name in names if renamed.get(name, name) != given[name]]
        for number, name in enumerate(others):
            dtype = dict(condition.types)[name]
            yield f"{inside}const {ctype_of(dtype)} {mark}value_{number} = {given[name]};"
        yield f"{inside}{{"
        within = inside + "    "
        for number, name in enumerate(others):
            kind = ctype_of(dict(condition.types)[name])
            yield f"{within}const {kind} {renamed.get(name, name)} = {mark}value_{number};"
        if arrays:
            yield f"{within}cudaError_t {mark}error = cudaSuccess;"
        for number, array in enumerate(arrays):
            elements, name = [e for e in condition.elements if e.array == array], renamed.get(array, array)
            yield f"{within}{ctype_of(elements[0].dtype)} {name}[{1 + max(e.place for e in elements)}];"
            for element in elements:
                size = element.dtype.itemsize
                yield f"{within}if ({mark}error == cudaSuccess)"
                yield (f"{within}    {mark}error = cudaMemcpyAsync(&{name}[{element.place}], {mark}from_{number} + "
                       f"{element.place * size}, {size}, cudaMemcpyDeviceToHost, stream);")
        if arrays:
            yield f"{within}if ({mark}error == cudaSuccess)"
            yield f"{within}    {mark}error = cudaStreamSynchronize(stream);"
            yield f"{within}if ({mark}error != cudaSuccess)"
            yield f"{within}    return {DEVICE * KIND} + (int){mark}error;"
        yield f"{within}{mark}holds = {condition.text};"
        yield f"{inside}}}"
        yield f"{indent}}}"

    def _start(self, launch: DeviceLaunch, indent: str) -> Iterator[str]:
        mark, wide = self._mark, self._program.index_bits != _NARROW
        spelt = {entry.name: entry.spelling for entry in self._passed()}
        for loop in launch.around:
            yield (f"{indent}{'int64_t' if wide else 'int32_t'} {mark}value_{loop.iname} = "
                   f"({'int64_t' if wide else 'int32_t'}){mark}iname_{loop.iname};")
            spelt[loop.iname] = f"{mark}value_{loop.iname}"
        addresses = ", ".join(f"(void *)&{spelt[name]}" for name in launch.arguments) or "NULL"
        x, y, z = (f"(unsigned int){mark}grid[{k}]" for k in range(3))
        yield f"{indent}void *{mark}arguments[] = {{{addresses}}};"
        yield f"{indent}const dim3 {mark}blocks = {{{x}, {y}, {z}}};"
        yield f"{indent}const dim3 {mark}threads = {{{', '.join(map(str, launch.block))}}};"
        yield f"{indent}cudaError_t {mark}error = cudaSuccess;"
        dynamic = launch.dynamic_shared_bytes
        if dynamic > _DEFAULT_SHARED:
            yield (f"{indent}{mark}error = cudaFuncSetAttribute((const void *){launch.name}, "
                   f"cudaFuncAttributeMaxDynamicSharedMemorySize, {dynamic});")
        yield f"{indent}if ({mark}error == cudaSuccess)"
        yield (f"{indent}    {mark}error = cudaLaunchKernel((const void *){launch.name}, {mark}blocks, {mark}threads, "
               f"{mark}arguments, {dynamic}, stream);")
        yield f"{indent}if ({mark}error != cudaSuccess)"
        yield f"{indent}    return {DEVICE * KIND} + (int){mark}error;"


def quoted(text: str) -> str:
    """Return *text* as a literal of C."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("??", "?\\?")
    return f'"{escaped}"'


def launcher_text(interface: Interface, kernel_file: str) -> str:
    """Return the text of the launcher; that of a program in C includes *kernel_file*."""
    return Launcher(interface, kernel_file).text()


def kernel_text(interface: Interface) -> str:
    """Return the text of the kernel next to the launcher; that of a program in C shows a linker no other names."""
    text = interface.program.device_code
    return text if interface.is_cuda or interface.is_opencl else internal(text, interface.prefix)
