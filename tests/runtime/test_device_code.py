"""Device code of others: options, headers, linking, convergent functions, line information, SASS."""

from __future__ import annotations

import functools
import importlib
import os
import pickle
import re
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.program import DeviceCode
from polyloop.errors import CodegenError, CompilerError
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.cuda import disassembler
from polyloop.runtime.cuda.linking import linked
from tests.interop.libraries import numba_module

F4 = np.float32
Row: Any = pl.Array[F4, "n"]  # type: ignore[misc]
TRIPLE = 'extern "C" __device__ float triple(float x) { return 3.0f * x; }'


def thrice(x: Any) -> Any:
    return 3 * x


def kernel(
    preamble: str = 'extern "C" __device__ float triple(float x);', assumptions: str = "", **more: Any
) -> LoopKernel:  # fmt: skip
    function = pl.ForeignFunction("triple", (F4,), F4, preamble={"cuda": preamble}, reference=thrice, **more)
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = triple(x[i])", [pl.GlobalArg("x, z", F4, shape="n"), ...],
                         name="thrice", functions=[function], assumptions=assumptions)
    return pl.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")


@functools.cache
def device_code(kind: str, source: str = TRIPLE) -> bytes:
    """Return *source* as another compiler gives it."""
    if kind == "fatbin":
        return fatbin(device_code("LTOIR", source))
    nvrtc: Any = importlib.import_module("cuda.bindings.nvrtc")
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"lib.cu", 0, None, None)
    more = b"-dlto" if kind == "LTOIR" else b"--relocatable-device-code=true"
    (status,) = nvrtc.nvrtcCompileProgram(program, 2, [b"--gpu-architecture=sm_90", more])
    assert status == 0
    _, size = getattr(nvrtc, f"nvrtcGet{kind}Size")(program)
    data = b" " * size
    getattr(nvrtc, f"nvrtcGet{kind}")(program, data)
    return bytes(data)


def fatbin(code: bytes) -> bytes:
    library: Any = pytest.importorskip("cuda.bindings.nvfatbin")
    handle = library.create([], 0)
    library.add_ltoir(handle, code, len(code), "90", "triple", "")
    found = bytearray(library.size(handle))
    library.get(handle, found)
    library.destroy(handle)
    return bytes(found)


# {{{ linking


@pytest.mark.nvrtc
@pytest.mark.parametrize("kind", ["LTOIR", "PTX", "CUBIN", "fatbin"])
def test_functions_of_other_compilers_are_linked(kind: str) -> None:
    pytest.importorskip("cuda.bindings.nvjitlink")
    run = pl.compile(kernel(), target=pl.CudaTarget(link=[device_code(kind)]))
    assert list(run.resources) == ["thrice"]
    assert run.cubin.startswith(b"\x7fELF")
    assert "call.uni" in run.ptx  # of the text alone
    assert pickle.loads(pickle.dumps(run)).cubin == run.cubin


@pytest.mark.nvrtc
def test_lto_puts_the_function_in_place() -> None:
    apart = pl.compile(kernel(), target=pl.CudaTarget(link=[device_code("CUBIN")]))
    inside = pl.compile(kernel(), target=pl.CudaTarget(link=[device_code("LTOIR")]))
    assert b"triple" in apart.cubin
    assert len(inside.cubin) < len(apart.cubin)


@pytest.mark.nvrtc
def test_code_that_changes_is_linked_anew(tmp_path: Path) -> None:
    file = tmp_path / "triple.ltoir"
    file.write_bytes(device_code("LTOIR"))
    first = pl.CudaTarget(link=[file])
    file.write_bytes(device_code("LTOIR", TRIPLE.replace("3.0f", "5.0f")))
    second = pl.CudaTarget(link=[str(file)])
    assert first != second
    assert pl.compile(kernel(), target=first).cubin != pl.compile(kernel(), target=second).cubin
    assert repr(first.build.linked) == f"(<{len(device_code('LTOIR'))} bytes of 'triple.ltoir'>,)"


@pytest.mark.nvrtc
def test_what_nobody_defines_is_refused() -> None:
    with pytest.raises(CompilerError) as error:
        pl.compile(kernel(), target=pl.CudaTarget())
    assert error.value.codes == ("nvrtc-failed",)
    assert "pl.CudaTarget(link=[..])" in str(error.value)
    other = device_code("LTOIR", TRIPLE.replace("triple", "other"))
    with pytest.raises(CompilerError) as error:
        pl.compile(kernel(), target=pl.CudaTarget(link=[other]))
    assert error.value.codes == ("link-failed",)
    assert "triple" in error.value.found[0].notes[2]


@pytest.mark.nvrtc
def test_what_is_no_device_code_is_refused() -> None:
    with pytest.raises(CompilerError) as error:
        linked(device_code("LTOIR"), [DeviceCode("notes.txt", b"no device code")], "sm_90")
    assert error.value.codes == ("link-failed",)
    assert "<14 bytes of 'notes.txt'>" in str(error.value)


def test_a_linker_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    linking: Any = importlib.import_module("polyloop.runtime.cuda.linking")
    linking._library.cache_clear()
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvjitlink", None)
    try:
        with pytest.raises(CompilerError) as error:
            linking.linker_version()
        assert error.value.codes == ("no-nvjitlink",)
    finally:
        linking._library.cache_clear()

# }}}


# {{{ options and headers


HEADER = "#pragma once\nnamespace mylib { template <class T> __device__ T thrice(T x) { return 3 * x; } }\n"


@pytest.mark.nvrtc
def test_headers_of_a_library_of_cuda_cpp(tmp_path: Path) -> None:
    (tmp_path / "mylib.cuh").write_text(HEADER)
    knl = kernel('#include "mylib.cuh"', c_name={"cuda": "mylib::thrice"})
    run = pl.compile(knl, target=pl.CudaTarget(options=[f"-I{tmp_path}"]))
    assert "mylib::thrice(x[i])" in run.source
    first = run.cubin
    (tmp_path / "mylib.cuh").write_text(HEADER.replace("3", "5"))
    assert pl.compile(knl, target=pl.CudaTarget(options=[f"-I{tmp_path}"])).cubin != first  # headers are read each time
    with pytest.raises(CompilerError, match="nvrtc-failed"):
        pl.compile(knl, target=pl.CudaTarget())


@pytest.mark.nvrtc
def test_options_reach_the_compiler() -> None:
    preamble = "#if __cplusplus < 202002L\n#error old\n#endif\n#ifndef FACTOR\n#error none\n#endif\n"
    knl = kernel(preamble + TRIPLE.replace("3.0f", "FACTOR"))
    target = pl.CudaTarget(std="c++20", options=["--define-macro=FACTOR=3.0f", "--maxrregcount=32"])
    assert pl.compile(knl, target=target).cubin
    assert repr(target) == (
        "pl.CudaTarget('sm_90', options=['--define-macro=FACTOR=3.0f', '--maxrregcount=32'], std='c++20')")
    assert eval(repr(target)) == target
    with pytest.raises(CompilerError):
        pl.compile(knl, target=pl.CudaTarget(options=["-DFACTOR=3.0f"]))


@pytest.mark.parametrize(("given", "message"), [
    ({"options": "-G"}, "options='-G' is no list"),
    ({"options": ["G"]}, "'G' is no option of NVRTC"),
    ({"options": [7]}, "7 is no option of NVRTC"),
    ({"options": ["-arch=sm_70"]}, "'-arch=sm_70' is an option that polyloop gives by itself"),
    ({"options": ["--std=c++14"]}, "'--std=c++14' is an option that polyloop gives by itself"),
    ({"options": ["-lineinfo"]}, "'-lineinfo' is an option that polyloop gives by itself"),
    ({"std": "c++11"}, "std='c++11' is no version of C++ that generated text can be compiled as"),
    ({"link": [3]}, "link has 3, which is no device code"),
    ({"link": [b""]}, "link has b'', which is no device code"),
])  # fmt: skip
def test_options_that_there_are_not(given: dict[str, Any], message: str) -> None:
    with pytest.raises(CodegenError) as error:
        pl.CudaTarget(**given)
    assert error.value.codes == ("bad-cuda-option",)
    assert message in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CodegenError) as error:
        pl.CudaTarget(link=[tmp_path / "none.ltoir"])
    assert error.value.codes == ("no-file",)

# }}}


def of_numba(output: str) -> bytes:
    """Return the function as Numba compiles it, which needs no GPU."""
    cuda, types = numba_module("numba.cuda"), numba_module("numba.types")
    code, _ = cuda.compile(lambda x: x * types.float32(3), types.float32(types.float32), device=True, abi="c",
                           abi_info={"abi_name": "triple"}, cc=(9, 0), output=output)
    return bytes(code) if output == "ltoir" else str(code).encode()


@pytest.mark.nvrtc
def test_a_function_that_numba_compiled_is_part_of_the_loop() -> None:
    """Its LTO-IR is inlined, so that the machine code is that of the same function from NVRTC; its PTX is called."""
    run, own = (pl.compile(kernel(), target=pl.CudaTarget("sm_90", link=[code]))
                for code in (of_numba("ltoir"), device_code("LTOIR")))
    assert b"triple" not in run.cubin
    assert run.resources == own.resources
    called = pl.compile(kernel(), target=pl.CudaTarget("sm_90", link=[of_numba("ptx")]))
    assert b"triple" in called.cubin
    assert called.resources["thrice"].registers > own.resources["thrice"].registers


@pytest.mark.nvrtc
def test_templates_are_called_by_their_arguments(tmp_path: Path) -> None:
    (tmp_path / "powers.cuh").write_text("""
        namespace powers {
        template <int N, class T> __device__ T power(T x) { T p = 1; for (int k = 0; k < N; ++k) p *= x; return p; }
        }""")
    cube = pl.ForeignFunction("cube", (F4,), F4, c_name={"cuda": "powers::power<3, float>"},
                              preamble={"cuda": '#include "powers.cuh"'})
    knl = pl.make_kernel("{[i]: 0 <= i < 9}", "z[i] = cube(x[i])", [pl.GlobalArg("x, z", F4, shape="9")],
                         functions=[cube], name="cubes")
    assert pl.loads(pl.dumps(knl)) == knl
    run = pl.compile(knl, target=pl.CudaTarget(options=[f"-I{tmp_path}"]))
    assert "z[i] = powers::power<3, float>(x[i]);" in run.source
    with pytest.raises(CompilerError) as error:
        pl.compile(knl, target=pl.CudaTarget())
    assert error.value.found[0].hints == ('say where the header is: pl.CudaTarget(options=["-I.."])',)
    with pytest.raises(CompilerError) as error:
        pl.compile(knl, target=pl.CudaTarget(options=["-Wfoo"]))
    assert "which are not all those of nvcc" in error.value.found[0].hints[0]


# {{{ convergence

FIRST_OF_BLOCK = """
__device__ float triple(float x) { __shared__ float t[128]; t[threadIdx.x] = x; __syncthreads(); return t[0]; }
"""


@pytest.mark.nvrtc
def test_a_convergent_function_is_called_by_all_threads() -> None:
    run = pl.compile(kernel(FIRST_OF_BLOCK, "n mod 128 = 0", convergent=True), target=pl.CudaTarget())
    assert "    z[i] = triple(x[i]);\n" in run.source
    assert "if" not in run.source[run.source.index('extern "C"'):]


def test_a_convergent_function_is_refused_under_conditions_on_threads() -> None:
    with pytest.raises(CodegenError) as error:
        pl.generate_code(kernel(FIRST_OF_BLOCK, convergent=True), target=pl.CudaTarget())
    assert str(error.value) == (
        "generate_code on kernel 'thrice': 'triple' is convergent, and would be called where not all threads of a "
        "block may be [divergent-call]\n"
        "  Note: it would stand under '128 * bx + tx < n', which may depend on the thread, or on data\n"
        "  Hint: take the value outside of the condition into a temporary\n"
        '  Hint: let blocks be full: pl.assume(knl, "n mod 128 = 0")')
    assert "triple" in pl.generate_code(kernel(FIRST_OF_BLOCK), target=pl.CudaTarget()).device_code  # not declared so


@pytest.mark.parametrize("text", ["z[i] = triple(x[i]) if x[i] > 0 else 0", "z[i] = triple(x[i])  {if=x[i] > 0}",
                                  "z[i] = sum(j, triple(x[j]))"])
def test_convergent_functions_and_data(text: str) -> None:
    function = pl.ForeignFunction("triple", (F4,), F4, preamble={"cuda": FIRST_OF_BLOCK}, convergent=True)
    knl = pl.make_kernel("{[i, j]: 0 <= i < 128 and 0 <= j <= i}", text,
                         [pl.GlobalArg("x, z", F4, shape="128")], functions=[function], name="k")
    with pytest.raises(CodegenError) as error:
        pl.generate_code(pl.tag_inames(knl, "i:l.0"), target=pl.CudaTarget())
    assert error.value.codes == ("divergent-call",)


def through_text(convergent: bool, assumptions: str = "") -> pl.LoopKernel:
    data = [pl.GlobalArg("x, z", F4, shape="n"), ...]
    text = pl.CInstruction("i", "z[i] = triple(x[i]);", {"x[i]"}, ["z[i]"], convergent=convergent)
    knl = pl.make_kernel("{[i]: 0 <= i < n}", [text], data, name="through", assumptions=assumptions,
                         preambles=[("triple", FIRST_OF_BLOCK)])  # fmt: skip
    return pl.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")


def test_convergent_text_is_refused_under_conditions_on_threads() -> None:
    with pytest.raises(CodegenError) as error:
        pl.generate_code(through_text(True), target=pl.CudaTarget())
    assert str(error.value) == (
        "generate_code on kernel 'through': the C text of 'insn' is convergent, and would stand where not all threads "
        "of a block may be [divergent-call]\n"
        "  Note: it would stand under '128 * bx + tx < n', which may depend on the thread, or on data\n"
        "  Hint: take the instruction outside of the condition\n"
        '  Hint: let blocks be full: pl.assume(knl, "n mod 128 = 0")')
    assert "triple" in pl.generate_code(through_text(False), target=pl.CudaTarget()).device_code
    full = pl.generate_code(through_text(True, "n mod 128 = 0"), target=pl.CudaTarget()).device_code
    assert "triple(x[i]);" in full


@pytest.mark.parametrize("tag", ["g.0", "l.0"])
def test_calls_with_effects_keep_their_order(tag: str) -> None:
    """A function that writes memory is called in C text, whose declaration is what the proofs rely on."""
    push = "static void push(float x, int *count, float *kept) { kept[*count] = x; *count += 1; }"
    text = pl.CInstruction("i", "push(x[i], count, kept);", {"x[i]", "count[0]", "kept[0]"}, ["count[0]", "kept[i]"])
    knl = pl.make_kernel("{[i]: 0 <= i < n}", [text], [
        pl.GlobalArg("x, kept", F4, shape="n"), pl.GlobalArg("count", np.int32, shape="1"), ...], name="pushed",
        preambles=[("push", push)], assumptions="n >= 1")  # fmt: skip
    run = pl.compile(pl.split_iname(knl, "i", 4), target=pl.CTarget())
    x, count, kept = np.arange(10, dtype=F4), np.zeros(1, np.int32), np.zeros(10, F4)
    run(x=x, count=count, kept=kept)
    assert (count.tolist(), kept.tolist()) == ([10], x.tolist())
    with pytest.raises(pl.PolyloopError) as error:
        pl.generate_code(pl.tag_inames(knl, {"i": tag}), target=pl.CudaTarget())
    assert "count" in str(error.value)
    with pytest.raises(pl.TransformError):
        pl.map_domain(knl, "{[i] -> [j]: j = -i}")

# }}}


# {{{ lines


def test_statements_name_their_lines() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "<> t = 2*x[i]\n\nz[i] = t + 1",
                         [pl.GlobalArg("x, z", F4, shape="n"), ...], name="lined")
    knl = pl.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    text = pl.generate_code(knl, target=pl.CudaTarget(lineinfo=True)).device_code
    last = text.splitlines().index("    }")
    assert text.endswith(f"""
    if (i < n) {{
#line 1 "lined.loops"
        float t = 2.0f * x[i];
#line 3 "lined.loops"
        z[i] = t + 1.0f;
#line {last + 1} "lined.cu"
    }}
}}
""")
    plain = pl.generate_code(knl, target=pl.CudaTarget()).device_code
    assert "#line" not in plain
    assert [line for line in text.splitlines() if not line.startswith("#line")] == plain.splitlines()


@pl.kernel
def doubled(x: Row, z: Row, n: int) -> None:
    for i in range(n):
        z[i] = 2 * x[i]


@pytest.mark.nvrtc
def test_kernels_of_python_functions_lead_to_the_script() -> None:
    knl = pl.split_iname(doubled, "i", 128, outer_tag="g.0", inner_tag="l.0")
    run = pl.compile(knl, target=pl.CudaTarget(lineinfo=True))
    line = next(k for k, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "z[i] = 2 * x[i]" in text)
    assert f'#line {line} "{__file__}"' in run.source
    assert re.search(rf"\.loc\s+\d+ {line} ", run.ptx)
    assert Path(__file__).name in run.ptx
    assert b".debug_line" in run.cubin

# }}}


# {{{ SASS


def tool(folder: Path, text: str) -> None:
    folder.mkdir(exist_ok=True)
    script = folder / "nvdisasm"
    script.write_text(f"#!{sys.executable}\n{text}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)


@pytest.mark.nvrtc
@pytest.mark.skipif(not hasattr(os, "fork"), reason="scripts are programs on POSIX systems alone")
def test_sass_is_what_the_tool_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "print(sys.argv[1:-1], data[1:4].decode(), len(data))"
    tool(tmp_path, f"import sys; data = open(sys.argv[-1], 'rb').read(); {said}")
    monkeypatch.setenv("PATH", str(tmp_path))
    run = pl.compile(kernel(TRIPLE), target=pl.CudaTarget())
    assert run.sass == f"['-c', '-g'] ELF {len(run.cubin)}\n"
    tool(tmp_path, "import sys; sys.exit('what is this')")
    with pytest.raises(CompilerError) as error:
        _ = run.sass
    assert error.value.codes == ("disassembler-failed",)
    assert error.value.found[0].notes == ("what is this",)


@pytest.mark.nvrtc
def test_sass_of_the_real_tool() -> None:
    if not any(shutil.which("nvdisasm", path=place) for place in disassembler._places()):
        pytest.skip("nvdisasm is not installed")
    run = pl.compile(doubled_on_gpu(), target=pl.CudaTarget(lineinfo=True))
    assert "STG.E" in run.sass
    assert Path(__file__).name in run.sass  # lines of the user's


def doubled_on_gpu() -> LoopKernel:
    return pl.split_iname(doubled, "i", 128, outer_tag="g.0", inner_tag="l.0")


@pytest.mark.nvrtc
def test_without_a_tool_the_places_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disassembler, "_places", lambda: iter([str(tmp_path)]))
    run = pl.compile(kernel(TRIPLE), target=pl.CudaTarget())
    with pytest.raises(CompilerError) as error:
        _ = run.sass
    assert error.value.codes == ("no-disassembler",)
    assert "pip install nvidia-cuda-nvdisasm" in error.value.found[0].hints


def test_programs_for_the_cpu_have_no_machine_code_of_a_gpu() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = 2*x[i]", [pl.GlobalArg("x, z", F4, shape="n"), ...])
    run = pl.compile(knl, target=pl.CTarget())
    assert (run.sass, run.ptx, run.cubin, dict(run.resources)) == ("", "", b"", {})

# }}}


# {{{ on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["LTOIR", "PTX", "CUBIN", "fatbin"])
def test_gpu_calls_functions_of_other_compilers(kind: str) -> None:
    run = pl.compile(kernel(), target=pl.CudaTarget(link=[device_code(kind)]))
    x = np.arange(1000, dtype=F4)
    np.testing.assert_array_equal(run(x=x).z, 3 * x)


@pytest.mark.gpu
def test_gpu_calls_a_function_that_numba_compiled() -> None:
    x = np.arange(1000, dtype=F4)
    run = pl.compile(kernel(), target=pl.CudaTarget(link=[of_numba("ltoir")]))
    np.testing.assert_array_equal(run(x=x).z, 3 * x)


@pytest.mark.gpu
def test_gpu_convergent_functions_meet() -> None:
    run = pl.compile(kernel(FIRST_OF_BLOCK, "n mod 128 = 0", convergent=True), target=pl.CudaTarget(lineinfo=True))
    x = np.arange(512, dtype=F4)
    np.testing.assert_array_equal(run(x=x).z, np.repeat(x[::128], 128))

# }}}
