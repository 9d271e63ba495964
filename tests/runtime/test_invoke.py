from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pymbolic import parse

from polyloop.codegen.program import DeviceLaunch, GeneratedProgram, LaunchCheck
from polyloop.errors import ArgumentError, CompilerError
from polyloop.expr.dtypes import BFLOAT16
from polyloop.kernel.arrays import ArrayArg, ValueArg
from polyloop.runtime import invoke
from polyloop.runtime.invoke import CompiledKernel, load
from tests.runtime.programs import F4, I4, I8, M, N, array, at_most, axpy

X = np.arange(5, dtype=F4)


@pytest.fixture(scope="module")
def run() -> CompiledKernel:
    return load(axpy())


def refusal(kernel: CompiledKernel, **arguments: Any) -> str:
    with pytest.raises(ArgumentError) as err:
        kernel(**arguments)
    return str(err.value)


def kernel_of(text: str, *arguments: ArrayArg | ValueArg, checks: tuple[LaunchCheck, ...] = ()) -> CompiledKernel:
    """Return the C function ``f`` with the body *text*."""
    names = tuple(a.name for a in arguments)
    launch = DeviceLaunch("f", (1, 1, 1), (1, 1, 1), 0, names)
    return load(GeneratedProgram("f", "c", text, (launch,), arguments, checks))


# {{{ results


def test_outputs_are_allocated_and_sizes_solved(run: CompiledKernel) -> None:
    result = run(alpha=2, x=X, y=X)
    np.testing.assert_array_equal(result.z, 3 * X)
    assert result.z.dtype == F4


def test_a_result_is_unpacked_and_is_a_mapping(run: CompiledKernel) -> None:
    result = run(alpha=2, x=X, y=X)
    (z,) = result
    assert z is result["z"] is result.z is dict(result.items())["z"]
    assert list(result.keys()) == ["z"]
    assert "z" in result
    assert "x" not in result
    assert len(result) == 1
    assert repr(result) == "Result(z: float32(5,))"
    with pytest.raises(AttributeError, match="no output 'x'; outputs: z"):
        _ = result.x


def test_a_passed_output_is_written(run: CompiledKernel) -> None:
    z = np.zeros(5, F4)
    assert run(alpha=2, x=X, y=X, z=z).z is z
    np.testing.assert_array_equal(z, 3 * X)


def test_one_array_may_be_two_inputs_and_parts_may_interleave(run: CompiledKernel) -> None:
    twice = np.arange(10, dtype=F4)
    np.testing.assert_array_equal(run(alpha=1, x=twice[:5], y=twice[2:7]).z, twice[:5] + twice[2:7])


def test_an_empty_problem_is_fine(run: CompiledKernel) -> None:
    assert run(alpha=2, x=X[:0], y=X[:0]).z.shape == (0,)


def test_nothing_is_launched_for_a_negative_grid() -> None:
    program = axpy()
    empty = replace(program, launches=(replace(program.launches[0], grid=(N - 5, 1, 1)),))
    result = load(empty)(alpha=2, x=X, y=X, poison=True)
    assert np.isnan(result.z).all()


def test_source_is_there_and_cuda_artifacts_are_empty(run: CompiledKernel) -> None:
    assert run.source == run.program.device_code
    assert (run.ptx, run.cubin, run.resources, run.target) == ("", b"", {}, "c")
    assert repr(run) == "<CompiledKernel 'axpy' for c: alpha, x, y, z, n>"


def test_poison_fills_what_the_kernel_does_not_write(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_of("void f(float *a, int n) { a[0] = 1; }\n", array("a", [N], inp=False, out=True),
                       ValueArg("n", I4))
    assert np.isnan(kernel(n=4, poison=True).a[1:]).all()
    monkeypatch.setenv("POLYLOOP_POISON", "1")
    assert np.isnan(kernel(n=4).a[1:]).all()


def test_layout_of_allocated_outputs_follows_the_kernel() -> None:
    fortran = kernel_of("void f(float *a, int n, int m) { a[1] = 7; }\n",
                        array("a", [N, M], inp=False, out=True, order="F"), ValueArg("n", I4), ValueArg("m", I4))
    result = fortran(n=2, m=3, poison=True)
    assert result.a.strides == (4, 8)
    assert result.a[1, 0] == 7
    padded = kernel_of("void f(float *a, int n) { a[8] = 7; }\n",
                       ArrayArg("a", F4, (N, N), (8, 1), "C", False, True), ValueArg("n", I4))
    assert padded(n=3).a[1, 0] == 7


def test_scratch_arrays_are_allocated_and_not_returned() -> None:
    kernel = kernel_of("void f(float *s, float *a, int n) { s[n-1] = 3; a[0] = s[n-1]; }\n",
                       array("s", [N], inp=False), array("a", [1], inp=False, out=True), ValueArg("n", I4))
    result = kernel(n=9)
    assert list(result.keys()) == ["a"]
    assert result.a[0] == 3


@pytest.mark.parametrize(("name", "ctype", "value"), [
    ("int8", "signed char", -3), ("uint16", "unsigned short", 65535), ("int64", "long long", -2**62),
    ("bool", "_Bool", True), ("float32", "float", 1.5), ("float64", "double", 0.1),
    ("complex64", "float _Complex", 1 + 2j), ("complex128", "double _Complex", 3 - 4j),
])
def test_values_arrive_as_they_are(name: str, ctype: str, value: complex) -> None:
    dtype = np.dtype(name)
    kernel = kernel_of(f"void f({ctype} v, {ctype} *a, int n) {{ a[0] = v; }}\n", ValueArg("v", dtype),
                       array("a", [1], inp=False, out=True, dtype=dtype), ValueArg("n", I4))
    assert kernel(v=value, n=1).a[0] == value


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16])
def test_a_half_is_passed_as_a_float(dtype: np.dtype[Any]) -> None:
    kernel = kernel_of("void f(float v, float *b) { b[0] = v; }\n", ValueArg("v", dtype),
                       array("b", [1], inp=False, out=True))
    assert kernel(v=0.1).b[0] == np.asarray(0.1).astype(dtype).astype(F4)


def test_what_c_has_no_type_for_cannot_be_passed_by_value() -> None:
    with pytest.raises(CompilerError) as err:
        kernel_of("void f(long v) {}\n", ValueArg("v", np.dtype("M8[s]")))
    assert str(err.value) == """\
compile on kernel 'f': 'v' of type datetime64[s] cannot be passed by value to C [unsupported-argument-type]
  Hint: pass it as an array of one element"""

# }}}


# {{{ sizes


@pytest.mark.parametrize("shape", ["n", "2*n", "n + 1", "3*n - 2", "(n + 1)*2"])
def test_a_size_is_solved_from_an_affine_shape(shape: str) -> None:
    kernel = kernel_of("void f(const float *a, int *b, int n) { b[0] = n; }\n", array("a", [parse(shape)]),
                       array("b", [1], inp=False, out=True, dtype=I4), ValueArg("n", I4))
    for n in (1, 7):
        extent = eval(shape, {"n": n})
        assert kernel(a=np.zeros(extent, F4)).b[0] == n


def test_sizes_are_solved_one_after_the_other_and_from_strides() -> None:
    kernel = kernel_of("void f(const float *a, const float *c, int *b, int n, int m, int ld) { b[0] = n; b[1] = m; "
                       "b[2] = ld; }\n", ArrayArg("a", F4, (N, M), (parse("ld"), 1)), array("c", [N * M + 1]),
                       array("b", [3], inp=False, out=True, dtype=I4), *(ValueArg(k, I4) for k in ("n", "m", "ld")))
    a = np.zeros((3, 8), F4)[:, :5]
    assert kernel(a=a, c=np.zeros(16, F4)).b.tolist() == [3, 5, 8]
    assert refusal(kernel, a=a, c=np.zeros(17, F4)) == """\
call on kernel 'f': 'c' does not fit the other arrays [inconsistent-size]
  Note: axis 0 of 'c' is 17, and must be n*m + 1 = 16
  Note: axis 1 of 'a' is 5, which gives m = 5
  Note: axis 0 of 'a' is 3, which gives n = 3
  Hint: pass arrays whose shapes agree"""


def test_a_shape_that_no_size_fits_is_refused() -> None:
    kernel = kernel_of("void f(const float *a, int n) { }\n", array("a", [2 * N]), ValueArg("n", I4))
    assert refusal(kernel, a=X) == """\
call on kernel 'f': no integer 'n' fits 'a' [inconsistent-size]
  Note: axis 0 of 'a' is 5, and must be 2*n
  Hint: check the shape of 'a'"""


def test_a_size_that_follows_from_nothing_must_be_passed() -> None:
    kernel = kernel_of("void f(const float *a, int n) { }\n", array("a", [N // 2]), ValueArg("n", I4))
    assert refusal(kernel, a=X) == """\
call on kernel 'f': the size 'n' follows from no array that was passed [missing-argument]
  Hint: pass n= as an integer"""
    kernel(a=X, n=11)


def test_an_extent_that_is_a_number_is_named_once() -> None:
    kernel = kernel_of("void f(const float *a) { }\n", array("a", [4]))
    assert refusal(kernel, a=X) == """\
call on kernel 'f': 'a' has shape (5,), expected (4,) [wrong-shape]
  Note: axis 0 of 'a' is 5, and must be 4
  Hint: the kernel declares 'a' as (4,)"""


def test_arrays_that_disagree_are_both_named(run: CompiledKernel) -> None:
    assert refusal(run, alpha=1, x=X, y=X[:4]) == """\
call on kernel 'axpy': 'y' does not fit the other arrays [inconsistent-size]
  Note: axis 0 of 'y' is 4, and must be n = 5
  Note: axis 0 of 'x' is 5, which gives n = 5
  Hint: pass arrays whose shapes agree"""


def test_an_explicit_size_is_checked(run: CompiledKernel) -> None:
    run(alpha=1, x=X, y=X, n=5)
    run(alpha=1, x=X, y=X, n=np.int64(5))
    assert refusal(run, alpha=1, x=X, y=X, n=6) == """\
call on kernel 'axpy': 'x' has shape (5,), expected (6,) [wrong-shape]
  Note: axis 0 of 'x' is 5, and must be n = 6
  Note: n = 6 was passed
  Hint: the kernel declares 'x' as (n,)"""


def test_a_negative_extent_of_an_output_is_refused() -> None:
    kernel = kernel_of("void f(const float *a, float *b, int n) { }\n", array("a", [N]),
                       array("b", [N - 9], inp=False, out=True), ValueArg("n", I4))
    assert refusal(kernel, a=X) == """\
call on kernel 'f': 'b' would have the negative shape (-4,) [wrong-shape]
  Note: axis 0 of 'a' is 5, which gives n = 5
  Hint: pass larger arrays or sizes"""

# }}}


# {{{ refusals


def test_a_missing_array_is_named(run: CompiledKernel) -> None:
    assert refusal(run, alpha=1, x=X) == """\
call on kernel 'axpy': the array 'y' was not passed [missing-argument]
  Note: it is an input
  Hint: pass y="""


def test_a_missing_value_is_named(run: CompiledKernel) -> None:
    assert refusal(run, x=X, y=X) == """\
call on kernel 'axpy': the value 'alpha' was not passed [missing-argument]
  Hint: pass alpha= as float32"""


def test_an_unknown_argument_gets_the_nearest_name(run: CompiledKernel) -> None:
    assert refusal(run, alpah=1, x=X, y=X) == """\
call on kernel 'axpy': no argument 'alpah' [unknown-argument]
  Hint: did you mean 'alpha'?"""


def test_a_wrong_dtype_says_how_to_convert(run: CompiledKernel) -> None:
    assert refusal(run, alpha=1, x=X.astype(np.float64), y=X) == """\
call on kernel 'axpy': 'x' has dtype float64, expected float32 [wrong-dtype]
  Hint: pass x.astype(np.float32)"""
    assert "has dtype >f4, expected float32" in refusal(run, alpha=1, x=X.astype(">f4"), y=X)


def test_a_wrong_number_of_axes_is_refused(run: CompiledKernel) -> None:
    assert refusal(run, alpha=1, x=X.reshape(1, 5), y=X) == """\
call on kernel 'axpy': 'x' has 2 axes, and the kernel has 1 [wrong-shape]
  Note: its shape is (1, 5), the kernel's is (n,)
  Hint: reshape 'x'"""


def test_strides_must_be_those_of_the_kernel(run: CompiledKernel) -> None:
    assert refusal(run, alpha=1, x=np.arange(10, dtype=F4)[::2], y=X) == """\
call on kernel 'axpy': 'x' is not stored as the kernel reads it [wrong-strides]
  Note: its strides are (2,) elements, the kernel was generated for (1,)
  Hint: pass np.ascontiguousarray(x), or .contiguous() of a Torch tensor
  Hint: or declare 'x' with strides=pl.auto in the kernel to take any strides"""


def test_a_transposed_view_is_recognised() -> None:
    kernel = kernel_of("void f(const float *a, int n) { }\n", array("a", [N, N]), ValueArg("n", I4))
    square = np.zeros((3, 3), F4)
    assert refusal(kernel, a=square.T) == """\
call on kernel 'f': 'a' is not stored as the kernel reads it [wrong-strides]
  Note: its strides are (1, 3) elements, the kernel was generated for (3, 1)
  Note: it is stored in the other order: 'a' may be a transposed view (.T)
  Hint: pass np.ascontiguousarray(a), or .contiguous() of a Torch tensor
  Hint: or declare 'a' with strides=pl.auto in the kernel to take any strides"""
    fortran = kernel_of("void f(const float *a, int n) { }\n", array("a", [N, N], order="F"), ValueArg("n", I4))
    fortran(a=square.T)
    assert refusal(fortran, a=square).count("Hint: pass np.asfortranarray(a)\n") == 1


def test_strides_of_axes_of_one_element_do_not_matter() -> None:
    kernel = kernel_of("void f(const float *a, int n, int m) { }\n", array("a", [N, M]), ValueArg("n", I4),
                       ValueArg("m", I4))
    kernel(a=np.zeros((3, 8), F4)[:1, :5])
    kernel(a=np.zeros((4, 1), F4))


def test_elements_must_be_whole_elements_apart(run: CompiledKernel) -> None:
    record = np.zeros(5, np.dtype([("f", F4), ("b", np.int8)], align=False))
    assert refusal(run, alpha=1, x=record["f"], y=X) == """\
call on kernel 'axpy': the elements of 'x' are not a whole number of elements apart [wrong-strides]
  Note: its strides are (5,) bytes, its elements have 4 bytes
  Hint: pass np.ascontiguousarray(x)"""


def test_arrays_must_be_aligned(run: CompiledKernel) -> None:
    raw = np.zeros(21 + 16, np.uint8)
    start = -raw.__array_interface__["data"][0] % 4 + 1
    text = refusal(run, alpha=1, x=raw[start:start + 20].view(F4), y=X)
    assert text.startswith("call on kernel 'axpy': 'x' does not begin at a multiple of 4 bytes [misaligned-argument]")


def test_a_read_only_output_is_refused(run: CompiledKernel) -> None:
    z = np.zeros(5, F4)
    z.flags.writeable = False
    assert refusal(run, alpha=1, x=X, y=X, z=z) == """\
call on kernel 'axpy': 'z' is written by the kernel and is read-only [read-only-output]
  Hint: pass a copy of 'z', or leave it out to have it allocated"""
    run(alpha=1, x=z, y=z)


def test_a_written_array_must_not_overlap_another(run: CompiledKernel) -> None:
    both = np.zeros(10, F4)
    low = both.__array_interface__["data"][0]
    assert refusal(run, alpha=1, x=both[:5], y=X, z=both[4:9]) == f"""\
call on kernel 'axpy': 'z' is written and overlaps 'x' [overlapping-arguments]
  Note: 'z' lies at {low + 16:#x} to {low + 36:#x}, 'x' at {low:#x} to {low + 20:#x}
  Hint: pass a copy of 'x'"""
    run(alpha=1, x=both[:5], y=X, z=both[5:])


def test_interleaved_arrays_do_not_overlap() -> None:
    kernel = kernel_of("void f(const float *a, float *b, int n) { for (int i = 0; i < n; i++) b[2*i] = a[2*i]; }\n",
                       ArrayArg("a", F4, (N,), (2,)), ArrayArg("b", F4, (N,), (2,), "C", False, True),
                       ValueArg("n", I4))
    both = np.arange(10, dtype=F4)
    kernel(a=both[::2], b=both[1::2])
    np.testing.assert_array_equal(both, [0, 0, 2, 2, 4, 4, 6, 6, 8, 8])


@pytest.mark.parametrize(("value", "message"), [
    ("2", "'alpha' must be a real number, not str '2'"),
    (2j, "'alpha' must be a real number, not complex 2j"),
    (True, "'alpha' must be a real number, not bool True"),
])
def test_a_value_of_the_wrong_type_is_refused(run: CompiledKernel, value: object, message: str) -> None:
    assert refusal(run, alpha=value, x=X, y=X) == f"""\
call on kernel 'axpy': {message} [wrong-type]
  Hint: the kernel takes 'alpha' as float32"""


@pytest.mark.parametrize("value", [5.0, "5", True])
def test_a_size_must_be_an_integer(run: CompiledKernel, value: object) -> None:
    assert refusal(run, alpha=1, x=X, y=X, n=value) == f"""\
call on kernel 'axpy': 'n' must be an integer, not {type(value).__name__} {value!r} [wrong-type]
  Hint: pass int(n)"""


def test_an_integer_must_fit_its_type() -> None:
    kernel = kernel_of("void f(int v, float *a, int n) { }\n", ValueArg("v", I4), array("a", [N], inp=False, out=True),
                       ValueArg("n", I4))
    assert refusal(kernel, v=2**31, n=1) == """\
call on kernel 'f': 'v' = 2147483648 does not fit int32 [wrong-type]
  Note: int32 holds -2147483648 to 2147483647
  Hint: declare 'v' as int64 in the kernel"""


def test_a_list_is_not_an_array(run: CompiledKernel) -> None:
    assert refusal(run, alpha=1, x=[1.0], y=X) == """\
call on kernel 'axpy': 'x' must be an array [wrong-type]
  Note: it is a builtins.list
  Hint: pass np.asarray(x)"""


def test_a_device_array_is_refused_on_the_cpu(run: CompiledKernel) -> None:
    class OnDevice:
        @property
        def __cuda_array_interface__(self) -> dict[str, object]:
            return {"shape": (5,), "typestr": "<f4", "data": (4096, False), "version": 3}

    assert "'x' is on a GPU, and this kernel runs on the CPU [wrong-device]" in refusal(run, alpha=1, x=OnDevice(), y=X)


def test_a_stream_is_refused_on_the_cpu(run: CompiledKernel) -> None:
    with pytest.raises(CompilerError) as err:
        run(alpha=1, x=X, y=X, stream=7)
    assert err.value.codes == ("no-stream",)


def test_checks_are_made_at_every_new_size() -> None:
    kernel = load(axpy(checks=(at_most("n", 5, "the kernel was generated for n <= 5"),)))
    kernel(alpha=1, x=X, y=X)
    six = np.zeros(6, F4)
    assert refusal(kernel, alpha=1, x=six, y=six) == """\
call on kernel 'axpy': the kernel was generated for n <= 5 [assumption-violated]
  Note: n <= 5 is false for n = 6
  Note: axis 0 of 'x' is 6, which gives n = 6
  Hint: pass sizes that the kernel was made for, or make a kernel without the assumption"""


def test_a_cached_plan_does_not_hide_a_later_mistake(run: CompiledKernel) -> None:
    for _ in range(2):
        run(alpha=1, x=X, y=X)
        assert "[wrong-dtype]" in refusal(run, alpha=1, x=X.astype(np.int32), y=X)
        assert "[overlapping-arguments]" in refusal(run, alpha=1, x=X, y=X, z=X)
        assert "[wrong-type]" in refusal(run, alpha="1", x=X, y=X)

# }}}


# {{{ width of indices

SMALL = (at_most("n", 5, "32-bit indices reach 5 elements"),)


def test_large_sizes_use_a_program_with_wide_indices() -> None:
    asked = []

    def regenerate(bits: int) -> GeneratedProgram:
        asked.append(bits)
        return axpy(bits=bits)

    kernel = load(axpy(index_checks=SMALL), regenerate)
    kernel(alpha=2, x=X, y=X)
    assert asked == []
    large = np.arange(9, dtype=F4)
    for _ in range(2):
        np.testing.assert_array_equal(kernel(alpha=2, x=large, y=large).z, 3 * large)
    assert asked == [64]
    np.testing.assert_array_equal(kernel(alpha=2, x=X, y=X).z, 3 * X)


def test_without_another_program_large_sizes_are_refused() -> None:
    large = np.zeros(9, F4)
    expected = """\
call on kernel 'axpy': 32-bit indices reach 5 elements [index-overflow]
  Note: n <= 5 is false for n = 9
  Hint: generate the kernel with 64-bit indices (index_bits=64)"""
    assert refusal(load(axpy(index_checks=SMALL)), alpha=2, x=large, y=large) == expected
    still = load(axpy(index_checks=SMALL), lambda bits: axpy(bits=bits, index_checks=SMALL))
    hints = "generate the kernel with 64-bit indices (index_bits=64)", "pass smaller arrays or sizes"
    assert refusal(still, alpha=2, x=large, y=large) == expected.replace(*hints)


def test_a_size_beyond_int32_is_passed_to_the_wide_program(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "void f(TYPE n, long long *a) { a[0] = n; }\n"
    launch = DeviceLaunch("f", (1, 1, 1), (1, 1, 1), 0, ("n", "a"))

    def program(bits: int) -> GeneratedProgram:
        checks = (at_most("n", 2**31 - 1, "sizes fit 32 bits"),) if bits == 32 else ()
        return GeneratedProgram("f", "c", text.replace("TYPE", "int" if bits == 32 else "long long"), (launch,),
                                (ValueArg("n", I4 if bits == 32 else I8),
                                 array("a", [1], inp=False, out=True, dtype=I8)), index_checks=checks, index_bits=bits)

    assert load(program(32), program)(n=2**40).a[0] == 2**40

# }}}


def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(CompilerError) as err:
        load(replace(axpy(), target="fortran"))
    assert err.value.codes == ("unknown-target",)


@pytest.mark.nvrtc
def test_a_cuda_kernel_without_a_gpu_has_all_but_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyloop.runtime.gpu.gpu_available", lambda: (False, "PyCUDA is not installed"))
    kernel = invoke.load(axpy("cuda"))
    assert kernel.architecture == "sm_90"
    assert ".target sm_90" in kernel.ptx
    assert kernel.cubin.startswith(b"\x7fELF")
    assert kernel.resources["axpy"].registers > 0
    with pytest.raises(CompilerError) as err:
        kernel(alpha=2, x=X, y=X)
    assert str(err.value) == """\
call on kernel 'axpy': a CUDA kernel was called, and there is no usable GPU [no-gpu]
  Note: PyCUDA is not installed
  Hint: compile for the C target to run on the CPU; .source, .ptx, .cubin and .resources work without a GPU"""
