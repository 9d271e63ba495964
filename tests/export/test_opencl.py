"""Programs for OpenCL, exported: built, and called from C on a device."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyloop as pl

HEADERS = Path(__file__).parent / "fake_opencl"
GCC = shutil.which("gcc")
WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Werror")
TARGET = pl.OpenCLTarget()
F = np.float32
pytestmark = pytest.mark.skipif(GCC is None, reason="GCC is not installed")


def axpy() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", "y[i] = a*x[i] + y[i]",
        [pl.GlobalArg("x, y", F, shape="n"), pl.ValueArg("a", F), pl.ValueArg("n", np.int32)],
        name="axpy", assumptions="n >= 1",
    )  # fmt: skip
    return knl.split_iname("i", 128, outer_tag="g.0", inner_tag="l.0")


def steps() -> pl.LoopKernel:
    """Two launches in a loop of the host, with an array between them that no caller sees."""
    knl = pl.make_kernel(
        "{[t, i, j]: 0 <= t < steps and 0 <= i, j < n}",
        """
        for t
            <> v[i] = u[n - 1 - i] + t {id=there}
            u[j] = 2*v[j] {id=back, dep=there}
        end
        """,
        [pl.GlobalArg("u", np.int32, shape="n"), pl.ValueArg("steps", np.int32), pl.ValueArg("n", np.int32), ...],
        name="steps", assumptions="n >= 1")  # fmt: skip
    for iname in ("i", "j"):
        knl = pl.split_iname(knl, iname, 16, outer_tag="g.0", inner_tag="l.0")
    return knl


def build(folder: Path, name: str, *more: str) -> None:
    command = [str(GCC), *WARNINGS, "-O1", "-fPIC", "-shared", "-I", str(HEADERS), "-o", "it.so", f"{name}.c", *more]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_launcher_builds_without_a_warning(tmp_path: Path) -> None:
    folder = pl.export(steps(), tmp_path / "steps", target=TARGET)
    names = ["CMakeLists.txt", "manifest.json", "steps.c", "steps.h", "steps.pc.in", "steps_kernel.cl"]
    assert sorted(path.name for path in folder.iterdir()) == names
    build(folder, "steps")
    header = (folder / "steps.h").read_text()
    assert "int steps(cl_mem u, int32_t steps_, int32_t n, cl_command_queue queue);" in header
    assert "void steps_release(void);" in header
    assert "MISALIGNED" not in header
    assert "OpenCL::OpenCL" in (folder / "CMakeLists.txt").read_text()
    kernel = (folder / "steps_kernel.cl").read_text()
    assert "__kernel void" in kernel
    quoted = (folder / "steps.c").read_text()
    assert all(line.replace("\\", "\\\\").replace('"', '\\"') in quoted for line in kernel.splitlines())


def test_what_a_launcher_cannot_do_is_refused(tmp_path: Path) -> None:
    moved = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i]", [pl.GlobalArg("x", F, shape="n", offset=pl.auto),
                           pl.GlobalArg("y", F, shape="n"), ...], name="moved")  # fmt: skip
    with pytest.raises(pl.CodegenError, match=r"'x' does not begin at the start of its buffer \[not-exportable\]"):
        pl.export(moved, tmp_path, target=TARGET)
    with pytest.raises(pl.CodegenError, match=r"made by the driver of a device \[not-exportable\]"):
        pl.export(axpy(), tmp_path, target=TARGET, bundle=True)
    with pytest.raises(pl.CodegenError, match="fits no export of this kind"):
        pl.export(axpy(), tmp_path, target=TARGET, architectures=["sm_90"])


def loaded(folder: Path, name: str) -> ctypes.CDLL:
    """Build a launcher against a loader of drivers: PyOpenCL's own shows nobody its functions."""
    known = (Path(sys.prefix) / "lib" / "libOpenCL.so", ctypes.util.find_library("OpenCL"))
    library = next((str(path) for path in known if path and (not isinstance(path, Path) or path.exists())), None)
    if library is None:
        pytest.skip("no libOpenCL to link with (it comes with intel-opencl-rt, too)")
    build(folder, name, "-Wl,--no-as-needed", library if library.startswith("/") else f"-l:{library}")
    return ctypes.CDLL(str(folder / "it.so"))


@pytest.mark.opencl
def test_a_call_from_c(tmp_path: Path) -> None:
    cl: Any = importlib.import_module("pyopencl")
    arrays: Any = importlib.import_module("pyopencl.array")
    context = cl.create_some_context(interactive=False)
    queue, other = cl.CommandQueue(context), cl.Context([context.devices[0]])
    library = loaded(pl.export(axpy(), tmp_path / "axpy", target=TARGET), "axpy")
    library.axpy_status_text.restype = ctypes.c_char_p

    def axpy_of(x: Any, y: Any, n: int, on: Any = queue) -> int:
        handles = [ctypes.c_void_p(0 if b is None else b.int_ptr) for b in (x, y)]
        return int(library.axpy(*handles, ctypes.c_float(2.0), n, ctypes.c_void_p(on.int_ptr)))

    for used, on in ((context, queue), (other, cl.CommandQueue(other)), (context, queue)):
        assert used in (context, other)
        x, y = arrays.to_device(on, np.arange(300, dtype=F)), arrays.to_device(on, np.ones(300, F))
        assert axpy_of(x.data, y.data, 300, on) == 0
        np.testing.assert_array_equal(y.get(), 2 * np.arange(300, dtype=F) + 1)
    x, y = (arrays.to_device(queue, np.ones(300, F)) for _ in range(2))
    assert library.axpy_status_text(axpy_of(x.data, y.data, 0)) == b"the kernel assumes n >= 1"
    assert library.axpy_status_text(axpy_of(None, y.data, 9)) == b"'x' is a null pointer"
    said = library.axpy_status_text(axpy_of(x.data, x.data, 9))
    assert said == b"'y' is written and overlaps another array"
    unit = context.devices[0].mem_base_addr_align // 8
    first, second = x.data.get_sub_region(0, unit), x.data.get_sub_region(unit, unit)
    assert axpy_of(first, second, unit // 4) == 0  # parts of one buffer
    assert library.axpy_status_text(axpy_of(x.data, second, 300)) == said
    queue.finish()
    library.axpy_release()
    assert axpy_of(x.data, y.data, 300) == 0
    queue.finish()
    library.axpy_release()


@pytest.mark.opencl
def test_launches_in_a_loop_of_the_host_with_a_temporary(tmp_path: Path) -> None:
    cl: Any = importlib.import_module("pyopencl")
    arrays: Any = importlib.import_module("pyopencl.array")
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
    library = loaded(pl.export(steps(), tmp_path / "steps", target=TARGET), "steps")
    wanted = np.arange(50, dtype=np.int32)
    u = arrays.to_device(queue, wanted.copy())
    queue.finish()
    assert library.steps(ctypes.c_void_p(u.data.int_ptr), 4, 50, ctypes.c_void_p(queue.int_ptr)) == 0
    queue.finish()
    for t in range(4):
        wanted = 2 * (wanted[::-1] + t)
    np.testing.assert_array_equal(u.get(), wanted)
    library.steps_release()
