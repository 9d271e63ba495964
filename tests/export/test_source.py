"""Exported sources: built, linked and called; grids of launchers against those of the runtime; statuses."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.program import GeneratedProgram
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.arguments import Binder
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.runtime.views import HostMemory
from tests.runtime.hosts import PROGRAMS
from tests.transform.test_join_launches import parts

FAKE = Path(__file__).parent / "fake_cuda"
GCC = shutil.which("gcc")
F = np.float32
WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas")
pytestmark = pytest.mark.skipif(GCC is None, reason="GCC is not installed")


def axpy(name: str = "axpy") -> LoopKernel:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", "y[i] = a*x[i] + y[i]",
        [pl.GlobalArg("x, y", F, shape="n"), pl.ValueArg("a", F), pl.ValueArg("n", np.int32)],
        name=name, assumptions="n >= 1",
    )  # fmt: skip
    return knl.split_iname("i", 128, outer_tag="g.0", inner_tag="l.0")


def build(folder: Path, *arguments: str) -> None:
    assert GCC is not None
    done = subprocess.run([GCC, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def in_c(folder: Path, name: str) -> ctypes.CDLL:
    """Build the launcher of a program in C, without any warning, and load it."""
    build(folder, *WARNINGS, "-O1", "-fPIC", "-shared", "-o", "it.so", f"{name}.c", "-lm")
    return ctypes.CDLL(str(folder / "it.so"))


def text(library: ctypes.CDLL, name: str, status: int) -> str:
    function = getattr(library, f"{name}_status_text")
    function.restype = ctypes.c_char_p
    found: bytes = function(status)
    return found.decode()


def pointer(array: Any, offset: int = 0) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data + offset)


def test_statuses_say_what_is_wrong(tmp_path: Path) -> None:
    run = in_c(pl.export(axpy(), tmp_path / "axpy", pl.CTarget()), "axpy")
    x, y = np.arange(300, dtype=F), np.ones(300, F)
    a = ctypes.c_float(2.0)
    cases = [
        ((pointer(x), pointer(y), a, 300), 0, "success"),
        ((pointer(x), pointer(y), a, 0), 6001, "the kernel assumes n >= 1"),
        ((pointer(x), pointer(y), a, -1), 3001, "an extent of 'x' is negative"),
        ((None, pointer(y), a, 3), 1001, "'x' is a null pointer"),
        ((pointer(x), None, a, 3), 1002, "'y' is a null pointer"),
        ((pointer(x), pointer(y, 1), a, 3), 2002, "'y' does not begin at a multiple of 4 bytes"),
        ((pointer(y, 8), pointer(y), a, 3), 4002, "'y' is written and overlaps another array"),
        ((pointer(y, 12), pointer(y), a, 3), 0, "success"),
    ]
    before = y.copy()
    for arguments, status, says in cases[1:-1]:
        assert run.axpy(*arguments) == status
        assert text(run, "axpy", status) == says
    np.testing.assert_array_equal(y, before)
    assert run.axpy(*cases[0][0]) == 0
    np.testing.assert_array_equal(y, 2 * x + 1)
    assert run.axpy(*cases[-1][0]) == 0
    assert text(run, "axpy", 12345) == "unknown status"


def test_sizes_beyond_32_bits_are_told_and_not_wrapped(tmp_path: Path) -> None:
    knl = pl.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", "y[i, j, k] = 1",
                         [pl.GlobalArg("y", F, shape="n, n, n"), pl.ValueArg("n", np.int64)], name="fill")  # fmt: skip
    run = in_c(pl.export(knl, tmp_path, pl.CTarget()), "fill")
    y = np.zeros(64, F)
    assert run.fill(pointer(y), ctypes.c_int64(4)) == 0
    assert y.sum() == 64
    for n in (1291, 2**21, 2**22, 2**40, 2**62):  # the cube of each has more than 31 bits, of some more than 63
        status = run.fill(pointer(y), ctypes.c_int64(n))
        assert status // 1000 == 7, (n, status)
    assert run.fill(pointer(y), ctypes.c_int64(-(2**40))) // 1000 in (3, 7)


def test_elements_that_share_an_address_are_refused(tmp_path: Path) -> None:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < m and 0 <= j < n}", "y[i, j] = x[i, j]",
        [pl.GlobalArg("x", F, shape="m, n"), pl.GlobalArg("y", F, shape="m, n", strides="s, t"),
         pl.ValueArg("m, n, s, t", np.int32)], name="strided", assumptions="s >= 0 and t >= 0",
    )  # fmt: skip
    folder = pl.export(knl, tmp_path, pl.CTarget())
    run = in_c(folder, "strided")
    x = np.arange(12, dtype=F).reshape(3, 4)
    for strides, status in (((4, 1), 0), ((1, 3), 0), ((10, 2), 0), ((3, 1), 5), ((1, 1), 5), ((0, 1), 5), ((1, 2), 5)):
        y = np.zeros(64, F)
        assert run.strided(pointer(x), pointer(y), 3, 4, *strides) // 1000 == status, strides
        if not status:
            view = np.lib.stride_tricks.as_strided(y, (3, 4), tuple(4 * stride for stride in strides))
            np.testing.assert_array_equal(view, x)


MAIN = """
#include "first.h"
#include "second.h"
#include <stdio.h>
int main(void)
{
    float x[] = {1, 2, 3}, y[] = {1, 1, 1}, z[] = {0, 0, 0};
    int one = first(x, y, 2.0f, 3), two = second(y, z, 10.0f, 3), bad = second(y, z, 1.0f, 0);
    printf("%d %d %g %g %s\\n", one, two, y[2], z[2], second_status_text(bad));
    return bad == SECOND_ASSUMPTION_1 && one == FIRST_OK ? 0 : 1;
}
"""


@pytest.mark.parametrize("language", ["c", "c++"])
def test_two_kernels_are_linked_into_one_program(tmp_path: Path, language: str) -> None:
    """The same kernel twice, so that all names would meet without the prefixes."""
    for prefix in ("first", "second"):
        folder = pl.export(axpy(), tmp_path / prefix, pl.CTarget(), prefix=prefix)
        build(folder, *WARNINGS, "-c", "-I.", f"{prefix}.c", "-o", "it.o")
    (tmp_path / "main.c").write_text(MAIN)
    if language == "c++" and shutil.which("g++") is None:
        pytest.skip("G++ is not installed")
    build(tmp_path, "-x", language, "-Wall", "-Werror", "-Ifirst", "-Isecond", "-c", "main.c", "-o", "main.o")
    build(tmp_path, "-o", "main", "main.o", "first/it.o", "second/it.o", "-lm")
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("0 0 7 70 the kernel assumes n >= 1\n", 0)


OWN = """
#define OPEN {
/* double f(double x) { */ struct pair { double one, two; };
static const char *const brace = "{", quote = '"';
double table[2] = {3.0, 4.0};
typedef enum { NO, YES } answer;
struct pair both(double x) { struct pair p = {x, x}; return p; }
double
square(double x)  // of one number
{
    if (x > 0) { return both(x).one*x; }
    return x*x + (brace[0] != '{' || quote != '"') + (table[0] - 3)*NO;
}
"""


def squares(name: str) -> LoopKernel:
    square = pl.ForeignFunction("square", (np.float64,), np.float64, preamble=OWN)
    return pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = square(x[i])", functions=[square], name=name, kernel_data=[
        pl.GlobalArg("x, y", np.float64, shape="n"), pl.ValueArg("n", np.int32)])  # fmt: skip


@pytest.mark.parametrize("together", [False, True])
def test_kernels_with_functions_of_one_name_are_linked(tmp_path: Path, *, together: bool) -> None:
    """Functions of preambles are seen by no linker; a build may also make one text of all files."""
    for name in ("first", "second"):
        pl.export(axpy(name) if together else squares(name), tmp_path, pl.CTarget())
    ctype, last = ("float", ", 2.0f, 1)") if together else ("double", ", 1)")
    (tmp_path / "main.c").write_text(
        f'#include "first.h"\n#include "second.h"\nint main(void) {{\n    {ctype} x[] = {{3}}, y[] = {{0}};\n'
        f"    return first(x, y{last} || second(y, x{last};\n}}\n")
    if together:
        (tmp_path / "all.c").write_text('#include "first.c"\n#include "second.c"\n')
    parts = ["all.c"] if together else ["first.c", "second.c"]
    for part in parts:
        build(tmp_path, *WARNINGS, "-c", part)
    objects = [f"{part[:-1]}o" for part in parts]
    build(tmp_path, "main.c", *objects, "-o", "main", "-lm")
    assert subprocess.run([tmp_path / "main"], check=False).returncode == 0
    seen = subprocess.run(["nm", "-g", "--defined-only", *objects], cwd=tmp_path, capture_output=True, text=True,
                          check=True).stdout  # fmt: skip
    names = {line.split()[-1] for line in seen.splitlines() if len(line.split()) == 3}
    assert names == {f"{name}{end}" for name in ("first", "second") for end in ("", "_kernel", "_status_text")}


@pytest.mark.parametrize("target", [pl.CTarget(), pl.CudaTarget()], ids=str)
def test_names_of_the_launcher_are_none_of_the_kernel(tmp_path: Path, target: pl.Target) -> None:
    """Arguments called as the function, as its last parameter, or as variables of the launcher."""
    knl = pl.make_kernel(
        "{[pl_i]: 0 <= pl_i < pl_size_n}", "stream[pl_i] = it*pl_wide[pl_i] + status",
        [pl.GlobalArg("stream, pl_wide", F), pl.ValueArg("it, status", F), pl.ValueArg("pl_size_n", np.int32)],
    )  # fmt: skip
    knl = knl.split_iname("pl_i", 32, outer_tag="g.0", inner_tag="l.0")
    folder = pl.export(knl, tmp_path, target, prefix="it")
    build(folder, *WARNINGS, "-Wno-unused-function", f"-I{FAKE}", "-c", "it.c")


def test_a_condition_that_is_no_formula_of_sizes_is_refused(tmp_path: Path) -> None:
    arguments = [pl.GlobalArg("y", F, shape="m"), pl.GlobalArg("x", F), pl.ValueArg("m, n", np.int32)]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "y[i*j] = x[i]", arguments)
    with pytest.raises(pl.CodegenError, match="a condition that each call must fulfil is no formula of sizes") as error:
        pl.export(knl, tmp_path / "x", pl.CTarget())
    assert error.value.found[0].code == "not-exportable"
    assert error.value.found[0].notes == ("0 <= i*j < m",)


def test_errors_have_the_name_of_the_kernel(tmp_path: Path) -> None:
    with pytest.raises(pl.VerificationError) as error:
        pl.export(pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i]", name="untyped"), tmp_path)
    assert (error.value.kernel, error.value.found[0].code) == ("untyped", "unknown-dtype")


def test_exports_are_the_same_at_each_run(tmp_path: Path) -> None:
    one, two = (pl.export(axpy(), tmp_path / name, pl.CTarget()) for name in "ab")
    names = sorted(path.name for path in one.iterdir())
    assert names == ["CMakeLists.txt", "axpy.c", "axpy.h", "axpy.pc.in", "axpy_kernel.c", "manifest.json"]
    assert [(one / name).read_bytes() for name in names] == [(two / name).read_bytes() for name in names]


@pytest.mark.skipif(shutil.which("cmake") is None or shutil.which("pkg-config") is None, reason="needs both")
def test_an_installed_export_is_found_by_pkg_config(tmp_path: Path) -> None:
    """The place of ``cmake --install --prefix`` counts; an installation can be moved; absolute folders are kept."""
    folder = pl.export(axpy(), tmp_path / "axpy", pl.CTarget())
    elsewhere = tmp_path / "else where"
    run(folder, "cmake", "-S", ".", "-B", "b", "-DCMAKE_INSTALL_PREFIX=/nowhere", "-DCMAKE_INSTALL_LIBDIR=lib/some")
    run(folder, "cmake", "--build", "b")
    run(folder, "cmake", "--install", "b", "--prefix", str(elsewhere))
    elsewhere.rename(tmp_path / "moved")
    found = flags_of(tmp_path / "moved/lib/some/pkgconfig")
    (tmp_path / "main.c").write_text(
        "#include <axpy.h>\nint main(void) { return axpy(0, 0, 1.0f, 1) == 1001 ? 0 : 1; }\n")
    build(tmp_path, "main.c", "-o", "main", *found)
    assert subprocess.run([tmp_path / "main"], check=False).returncode == 0
    run(folder, "cmake", "-B", "b", f"-DCMAKE_INSTALL_LIBDIR={tmp_path}/libraries",
        f"-DCMAKE_INSTALL_INCLUDEDIR={tmp_path}/headers")
    run(folder, "cmake", "--install", "b")
    found = flags_of(tmp_path / "libraries/pkgconfig")
    assert {f"-I{tmp_path}/headers", f"-L{tmp_path}/libraries"} <= {*found}


def run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def flags_of(folder: Path) -> list[str]:
    """Return what pkg-config says of the export that is described in a folder."""
    return subprocess.run(["pkg-config", "--cflags", "--libs", "axpy"], capture_output=True, text=True, check=True,
                          env={"PKG_CONFIG_PATH": str(folder), "PATH": "/usr/bin:/bin"}).stdout.split()


# {{{ launchers of programs for CUDA, with a runtime that tells of each call


class Told:
    """A launcher built with the fake runtime, and the launches that it makes."""

    def __init__(self, kernel: LoopKernel, folder: Path, target: pl.Target) -> None:
        self.name = kernel.name
        pl.export(kernel, folder, target)
        self.program: GeneratedProgram = pl.generate_code(kernel, target)
        names = dict.fromkeys(launch.name for launch in self.program.launches)
        compile_cuda((folder / f"{self.name}_kernel.cu").read_text(), target.arch)  # NVRTC takes the device part
        renamed = {name: self._renamed(name) for name in names}
        (folder / "stubs.c").write_text("".join(f"void {name}(void) {{}}\n" for name in renamed.values()))
        build(folder, *WARNINGS, "-Wno-unused-function", f"-I{FAKE}", "-fPIC", "-shared", "-o", "it.so",
              f"{self.name}.c", "stubs.c")  # fmt: skip
        self.library = ctypes.CDLL(str(folder / "it.so"))
        self._names = {ctypes.cast(self.library[there], ctypes.c_void_p).value: name for name, there in renamed.items()}
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint),
                                ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_void_p)  # fmt: skip
        self._kept = kind(self._tell)
        ctypes.c_void_p.in_dll(self.library, "fake_told").value = ctypes.cast(self._kept, ctypes.c_void_p).value
        self.launches: list[tuple[Any, ...]] = []
        self.answer = 0

    def _renamed(self, launch: str) -> str:
        return launch.replace(self.name, f"{self.name}_kernel", 1)

    def _tell(self, function: int, sizes: Any, arguments: Any, shared: int, stream: int) -> int:
        name = self._names[function]
        launch = next(launch for launch in self.program.launches if launch.name == name)
        numbers = {}
        for place, argument in enumerate(launch.arguments):
            declared = next((a for a in self.program.arguments if a.name == argument), None)
            if hasattr(declared, "shape"):
                numbers[argument] = ctypes.c_uint64.from_address(arguments[place]).value
            elif declared is None and argument not in {array.name for array in self.program.workspace}:
                numbers[argument] = ctypes.c_int32.from_address(arguments[place]).value
        self.launches.append((name, tuple(sizes[0:3]), tuple(sizes[3:6]), shared, stream, numbers))
        return self.answer

    def __call__(self, given: Mapping[str, Any], stream: int | None = 77) -> tuple[int, dict[str, int]]:
        """Call the exported function; return its status and the sizes."""
        binding = Binder(self.program, HostMemory()).bind(given)
        self.binding = binding  # keeps the arrays
        arguments: list[Any] = []
        for entry in self.program.arguments:
            if entry.name in binding.views:
                arguments.append(ctypes.c_void_p(binding.views[entry.name].pointer))
            else:
                scalar: Any = binding.scalars[entry.name]
                arguments.append(np.ctypeslib.as_ctypes_type(scalar.dtype)(scalar.item()))
        self.launches.clear()
        status: int = self.library[self.name](*arguments, ctypes.c_void_p(stream))
        return status, dict(binding.sizes)


@pytest.mark.nvrtc
@pytest.mark.parametrize("name", PROGRAMS)
def test_launchers_launch_what_the_runtime_does(tmp_path: Path, name: str) -> None:
    program = PROGRAMS[name]
    told = Told(program.kernel(), tmp_path, pl.CudaTarget())
    for size in program.sizes:
        given = {key: v.copy() if isinstance(v, np.ndarray) else v for key, v in program.inputs(size).items()}
        status, _ = told(given)
        assert status == 0
        wanted = [(step.launch.name, step.grid, step.launch.block, step.launch.dynamic_shared_bytes, 77,
                   {n: v.pointer for n, v in told.binding.views.items() if n in step.launch.arguments}
                   | {n: v for n, v in step.inames.items() if n in step.launch.arguments})
                  for step in told.binding.launches]  # fmt: skip
        assert told.launches == wanted
    assert ctypes.c_long.in_dll(told.library, "fake_allocated").value == 0


@pytest.mark.nvrtc
def test_a_launcher_sets_counters_of_blocks_to_0(tmp_path: Path) -> None:
    told = Told(pl.join_launches(parts(), "parts"), tmp_path, pl.CudaTarget())
    status, _ = told({"a": np.zeros((20, 9), F), "y": np.zeros(20, F)})
    assert (status, [name for name, *_ in told.launches]) == (0, ["rows_0"])
    assert ctypes.c_long.in_dll(told.library, "fake_set").value == 1, "the counters, and not the sums"
    assert ctypes.c_long.in_dll(told.library, "fake_allocated").value == 0


@pytest.mark.nvrtc
def test_an_error_of_the_runtime_is_the_status(tmp_path: Path) -> None:
    told = Told(axpy(), tmp_path, pl.CudaTarget())
    told.answer = 9
    status, _ = told({"x": np.zeros(300, F), "y": np.zeros(300, F), "a": 1.0})
    assert status == 10009
    assert text(told.library, "axpy", status) == "invalid configuration argument"


@pytest.mark.nvrtc
def test_a_launcher_asks_for_much_shared_memory(tmp_path: Path) -> None:
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < 16384}", "y[i] = sum(j, x[i, j]*x[i, j])",
                         [pl.GlobalArg("x", F, shape="n, 16384"), pl.GlobalArg("y", F), ...], name="rows")
    knl = knl.tag_inames("i:g.0").add_prefetch("x", ["j"], default_tag=None)
    knl = knl.split_iname("x_dim_0" if "x_dim_0" in knl.inames else "j", 128)
    program = pl.generate_code(knl, pl.CudaTarget())
    if program.launches[0].dynamic_shared_bytes <= 48 * 1024:
        knl = knl.set_temporary_address_space("x_fetch", "local")
    told = Told(knl, tmp_path, pl.CudaTarget())
    status, _ = told({"x": np.zeros((3, 16384), F)})
    assert status == 0
    assert told.launches[0][3] == 65536
    assert ctypes.c_long.in_dll(told.library, "fake_allowed").value == 65536


@pytest.mark.skipif(shutil.which("nvcc") is None or shutil.which("cmake") is None, reason="needs nvcc and CMake")
def test_two_exports_for_cuda_are_built_by_nvcc_and_linked(tmp_path: Path) -> None:
    """Without a GPU, the functions say so."""
    for prefix in ("first", "second"):
        pl.export(axpy(), tmp_path / prefix, pl.CudaTarget("sm_90"), prefix=prefix)
    (tmp_path / "main.c").write_text(
        '#include "first.h"\n#include "second.h"\n#include <stdio.h>\n'
        "int main(void) {\n    float *x = (float *)1024, *y = (float *)4096;\n"
        "    int status = first(x, y, 1.0f, 0), other = second(x, y, 1.0f, 5, 0);\n"
        '    printf("%d %d %s\\n", status, other >= 10000, second_status_text(other));\n    return 0;\n}\n'
        .replace("1.0f, 0)", "1.0f, 0, 0)"))
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(both LANGUAGES C CUDA)\nadd_subdirectory(first)\n"
        "add_subdirectory(second)\nadd_executable(main main.c)\ntarget_link_libraries(main first second)\n")
    for command in (["cmake", "-S", ".", "-B", "b"], ["cmake", "--build", "b"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run([tmp_path / "b/main"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("6001 ")

# }}}


@pytest.mark.parametrize("where", ["file", "file/below", "nul\0"])
def test_a_place_that_cannot_be_written_is_named(where: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i]", [pl.GlobalArg("x, y", np.float32, shape="n")], name="copy")
    with pytest.raises(pl.PolyloopError) as refused:
        pl.export(knl, tmp_path / where, pl.CTarget())
    assert refused.value.codes == ("cannot-write",)
    assert (tmp_path / "file").read_text() == ""
