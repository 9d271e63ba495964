"""Loops of the host around launches: results, minimality, texts, refusals."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.program import GeneratedProgram
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.limits import DeviceLimits
from polyloop.kernel.tree import Loop, Run, show_tree
from polyloop.runtime.arguments import Binder
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.gpu import GpuModule, gpu_available
from polyloop.runtime.nvrtc import compile_cuda, nvrtc_available
from polyloop.runtime.steps import Steps
from polyloop.runtime.views import HostMemory
from polyloop.schedule.build import build_schedule
from polyloop.schedule.plan import program_tree
from polyloop.testing.brute import judge
from tests.runtime.hosts import PROGRAMS, HostProgram

F = np.float64
CASES = [(name, size) for name, program in PROGRAMS.items() for size in program.sizes]


def around(program: GeneratedProgram) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(loop.iname for loop in launch.around) for launch in program.launches)


def agree(found: Any, expected: Any) -> None:
    for name, wanted in expected.items():
        np.testing.assert_allclose(np.asarray(found[name]), wanted, rtol=1e-12, atol=1e-12)


def copied(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in given.items()}


@pytest.mark.few(12)
@pytest.mark.parametrize(("name", "size"), CASES)
def test_programs_of_launches_compute_what_numpy_says(name: str, size: int) -> None:
    program = PROGRAMS[name]
    kernel, given = program.kernel(), program.inputs(size)
    expected = program.expected(**copied(given))
    agree(pl.interpret(kernel, **given), expected)
    for found in run_on_fibres(pl.generate_code(kernel, target=pl.CudaTarget()), given).values():
        agree(found, expected)
    agree(pl.compile(kernel, target=pl.CTarget())(**copied(given)), expected)


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "size"), CASES)
def test_programs_of_launches_run_on_a_gpu(name: str, size: int) -> None:
    if not gpu_available()[0]:
        pytest.skip("no GPU")
    program = PROGRAMS[name]
    given = program.inputs(size)
    run = pl.compile(program.kernel(), target=pl.CudaTarget())
    for _ in range(2):
        agree(run(**copied(given)), program.expected(**copied(given)))


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["jacobi_plane", "lu", "colours"])
def test_calls_with_arrays_of_the_gpu_are_repeated(name: str) -> None:
    if not gpu_available()[0]:
        pytest.skip("no GPU")
    torch = pytest.importorskip("torch")
    program = PROGRAMS[name]
    size = program.sizes[-1]
    run = pl.compile(program.kernel(), target=pl.CudaTarget())
    given = program.inputs(size)
    expected = program.expected(**copied(given))
    on_gpu = {x: torch.tensor(v, device="cuda") if isinstance(v, np.ndarray) else v for x, v in given.items()}
    for _ in range(3):
        for x, value in given.items():
            if isinstance(value, np.ndarray):
                on_gpu[x].copy_(torch.tensor(value))
        agree({x: value.cpu().numpy() for x, value in dict(run(**on_gpu)).items()}, expected)
    bound = run.bind(**on_gpu)
    for x, value in given.items():
        if isinstance(value, np.ndarray):
            on_gpu[x].copy_(torch.tensor(value))
    agree({x: value.cpu().numpy() for x, value in dict(bound()).items()}, expected)


@pytest.mark.parametrize("name", PROGRAMS)
def test_only_loops_that_have_to_be_are_loops_of_the_host(name: str) -> None:
    program = PROGRAMS[name]
    assert around(pl.generate_code(program.kernel(), target=pl.CudaTarget())) == program.hosts


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "stages"])
def test_brute_force_finds_the_launches_of_the_schedule_legal(name: str) -> None:
    """Blocks of one launch run at one time, and private and shared memory is gone with its launch."""
    kernel = PROGRAMS[name].kernel()
    sizes = {parameter: 3 if parameter == "steps" else 10 for parameter in kernel.parameters}
    launches = build_schedule(kernel, DeviceLimits()).launches
    assert not [*judge(kernel, sizes, {}, launches=launches)]
    together = [*judge(kernel, sizes, {}, launches=[merged(launches)])]
    assert {violation.kind for violation in together} == {"race"}


def merged(launches: Any) -> Any:
    """Return one launch of everything."""
    trees = tuple(node for launch in launches for node in launch.tree)
    return type(launches[0])("all", trees, (), (), ())


# {{{ what stays in a launch


def steps(text: str, domain: str, *arrays: Any, tags: str = "i:g.0") -> LoopKernel:
    knl = pl.make_kernel(domain, text, [*arrays, ...], name="steps", assumptions="n >= 0")
    return pl.tag_inames(knl, tags)


def test_a_loop_that_blocks_run_on_their_own_stays_in_the_kernel() -> None:
    """Each block reads in step t what it wrote itself."""
    knl = steps("x[t + 1, i] = 2*x[t, i]", "{[t, i]: 0 <= t < 4 and 0 <= i < n}", pl.GlobalArg("x", F, shape="5, n"))
    assert around(pl.generate_code(knl)) == ((),)


def test_an_inner_loop_of_one_block_stays_in_the_kernel() -> None:
    text = """
    for t
        for i
            for k
                y[i] = y[i] + x[(i + k) % n]*x[i]  {id=sum}
            end
        end
        for j
            x[j] = y[j]  {id=back}
        end
    end
    """
    domain = "{[t, i, k, j]: 0 <= t < 3 and 0 <= i, j < n and 0 <= k < 4}"
    knl = steps(text, domain, pl.GlobalArg("x, y", F, shape="n"), tags="i:g.0, j:g.0")
    program = pl.generate_code(knl)
    assert around(program) == (("t",), ("t",))
    assert "for (int k" in program.device_code
    given = {"x": np.arange(1.0, 6), "y": np.zeros(5)}
    for found in run_on_fibres(program, given).values():
        agree(found, pl.interpret(knl, **given))


def test_neighbouring_loops_have_launches_of_their_own() -> None:
    text = """
    for t
        for i
            x[t + 1, i] = x[t, n - 1 - i] + i
        end
    end
    for s
        for j
            y[s + 1, j] = y[s, n - 1 - j] + x[3, j]
        end
    end
    """
    domain = "{[t, s, i, j]: 0 <= t, s < 3 and 0 <= i, j < n}"
    knl = steps(text, domain, pl.GlobalArg("x, y", F, shape="4, n"), tags="i:g.0, j:g.0")
    launches = build_schedule(knl, DeviceLimits()).launches
    names = [launch.name for launch in launches]
    assert program_tree(launches) == (Loop("t", (Run(names[0]),)), Loop("s", (Run(names[1]),)))
    given = {"x": np.arange(24.0).reshape(4, 6), "y": np.ones((4, 6))}
    for found in run_on_fibres(pl.generate_code(knl), given).values():
        agree(found, pl.interpret(knl, **given))


# }}}
# {{{ texts


def test_the_text_for_c_has_the_loop_around_the_blocks() -> None:
    text = pl.generate_code(PROGRAMS["lu"].kernel(), target=pl.CTarget()).device_code
    begin = text.index("void lu(")
    assert text[begin:].splitlines()[:7] == [
        "void lu(double *restrict a, int n)",
        "{",
        "    for (int k = 0; k < n - 1; ++k) {",
        "        for (int bx = (k + 1) / 8; bx < (n + 7) / 8; ++bx) {",
        "            for (int tx = max_int32(0, k - 8 * bx + 1); tx < min_int32(8, n - 8 * bx); ++tx)",
        "                a[(8 * bx + tx) * n + k] /= a[k * n + k];  // scale",
        "        }",
    ]


def test_the_text_for_cuda_says_what_the_host_launches() -> None:
    program = pl.generate_code(PROGRAMS["lu"].kernel())
    lines = program.device_code.splitlines()
    begin = lines.index("// Launches of the host, each of which ends before the next begins:")
    assert lines[begin + 1 : begin + 4] == [
        "//     for k in range(0, n - 1):",
        "//         lu_0, grid ((n + 7) / 8 - (k + 1) / 8), block (8)",
        "//         lu_1, grid ((n + 7) / 8 - (k + 1) / 8, (n + 3) / 4 - (k + 1) / 4), block (8, 4)",
    ]
    assert "lu_1(double *__restrict__ a, int n, int k)" in program.device_code
    assert "const int bx = (int)blockIdx.x + (k + 1) / 8" in program.device_code
    assert [launch.arguments for launch in program.launches] == [("a", "n", "k")] * 2


def test_an_iname_that_a_launch_does_not_use_is_no_argument() -> None:
    program = pl.generate_code(PROGRAMS["jacobi"].kernel())
    assert not any("t" in launch.arguments for launch in program.launches)


def test_the_certificate_shows_the_loops() -> None:
    certificate = pl.verify(PROGRAMS["relaxed"].kernel())
    assert certificate.program == (
        "relaxed_0", "for t", "    relaxed_1", "    relaxed_2", "relaxed_3",
    )  # fmt: skip
    assert "  for t\n      relaxed_1\n" in str(certificate)
    by = "the launches of each iteration of 't' on the host end before the next begins"
    assert by in [wait.by for wait in certificate.waits if wait.loop == "t"]
    schedule = build_schedule(PROGRAMS["relaxed"].kernel(), DeviceLimits())
    assert tuple(show_tree(program_tree(schedule.launches), str).splitlines()) == certificate.program


def test_the_number_of_launches_is_a_polynomial() -> None:
    found = pl.get_synchronization_map(PROGRAMS["relaxed"].kernel())
    launches = {str(key): value for key, value in found.items()}
    count = next(value for key, value in launches.items() if "kernel_launch" in key)
    assert count.eval_with_dict({"n": 100, "steps": 7}) == 2 + 2 * 7


def test_explain_says_how_often_the_host_launches() -> None:
    facts = pl.explain(PROGRAMS["lu"].kernel(), {"n": 64}, "H100")
    assert "the host launches 'lu_0' 63 times, for each value of 'k', on 1 to 8 blocks" in facts.notes
    assert [launch.blocks for launch in facts.launches] == [8, 128]


# }}}
# {{{ launches of a call


def bound(program: HostProgram, size: int) -> Steps:
    generated = pl.generate_code(program.kernel(), target=pl.CudaTarget())
    return Binder(generated, HostMemory()).bind(program.inputs(size)).launches


def test_grids_differ_by_iteration_and_empty_ones_are_left_out() -> None:
    found = bound(PROGRAMS["lu"], 21)
    assert found.count == len([*found]) == 40
    assert [step.grid for step in found if step.launch.name == "lu_0"] == [(3 - (k + 1) // 8, 1, 1) for k in range(20)]
    assert [step.inames["k"] for step in found][:4] == [0, 0, 1, 1]
    assert not bound(PROGRAMS["lu"], 1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_number_of_launches_is_known_without_making_them(name: str) -> None:
    for size in PROGRAMS[name].sizes:
        found = bound(PROGRAMS[name], size)
        assert found.count == len([*found])


@pytest.mark.skipif(not nvrtc_available()[0], reason="NVRTC is not installed")
def test_parameters_of_a_launch_hold_the_inames_of_its_iteration() -> None:
    program = pl.generate_code(PROGRAMS["lu"].kernel(), target=pl.CudaTarget())
    given = Binder(program, HostMemory()).bind(PROGRAMS["lu"].inputs(5))
    module, known = GpuModule(program, compile_cuda(program.device_code, "sm_90").cubin), dict[str, bytes]()
    packed = [module.parameters.of_step(step, {"a": 12345}, given, known) for step in given.launches]
    assert [struct.unpack("<Qii", buffer) for buffer in packed] == [(12345, 5, k) for k in range(4) for _ in "sU"]


# }}}
# {{{ refusals


TURNED = """
<> m = count[0]
for t
    for i
        y[i] = x[n - 1 - i]  {id=turn}
    end
    for j
        x[j] = y[j] + t  {id=back}
    end
end
"""
COUNTED = [pl.GlobalArg("x, y", F, shape="n"), pl.GlobalArg("count", np.int32, shape="1")]


def test_a_loop_whose_bounds_are_in_memory_is_refused() -> None:
    with pytest.raises(pl.TransformError) as error:
        steps(TURNED, "{[t, i, j]: 0 <= t < m and 0 <= i, j < n}", *COUNTED, tags="i:g.0, j:g.0")
    assert error.value.codes == ("illegal-parallel",)
    why = "the host cannot run the loop 't' around launches: its bounds are read from memory ('m')"
    assert f"  Note: {why}" in str(error.value).splitlines()


def test_a_bound_of_memory_is_read_in_each_launch() -> None:
    """The host knows an upper bound, and threads know the other, which they read in the launch."""
    text = TURNED.replace("<> m = count[0]\n", "").replace("        y[i]", "        <> m = count[0]\n        y[i]")
    text = text.replace("{id=turn}", "{id=turn, if=t < m}").replace("{id=back}", "{id=back, if=t < count[0]}")
    knl = steps(text, "{[t, i, j]: 0 <= t < 5 and 0 <= i, j < n}", *COUNTED, tags="i:g.0, j:g.0")
    assert around(pl.generate_code(knl)) == (("t",), ("t",))
    given = {"x": np.arange(6.0), "y": np.zeros(6), "count": np.array([3], np.int32)}
    for found in run_on_fibres(pl.generate_code(knl), given).values():
        agree(found, pl.interpret(knl, **given))


def test_a_private_value_that_lives_from_one_iteration_to_the_next_is_refused() -> None:
    text = """
    for i
        <> s[i] = a[i]  {id=begin}
    end
    for t
        for j
            s[j] = s[j] + a[(j + t) % n]  {id=add}
        end
        for k
            a[k] = a[n - 1 - k]  {id=turn, if=2*k < n}
        end
    end
    """
    knl = pl.make_kernel(
        "{[t, i, j, k]: 0 <= t < 3 and 0 <= i, j, k < n}", text, [pl.GlobalArg("a", F, shape="n"), ...],
        assumptions="n >= 0",
    )  # fmt: skip
    knl = pl.tag_inames(knl, "i:g.0, j:g.0, k:g.0")
    moved = pl.generate_code(knl)  # undecided temporaries go to global memory
    assert [array.name for array in moved.workspace] == ["s"]
    with pytest.raises(pl.VerificationError) as error:
        pl.generate_code(pl.set_temporary_address_space(knl, "s", "private"))
    assert "private-across-launches" in error.value.codes


@pytest.mark.parametrize("target", [pl.CTarget(), pl.CudaTarget()])
def test_launches_of_another_kind_are_refused(target: Any) -> None:
    with pytest.raises(pl.CompilerError) as error:
        pl.compile(PROGRAMS["jacobi"].kernel(), target=target, launches="later")
    assert str(error.value).splitlines() == [
        "compile on kernel 'jacobi': launches='later' is not supported [unsupported-launches]",
        '  Hint: leave it out, or pass "host", "graph" or "cooperative"',
    ]


# }}}


def test_a_value_passes_from_one_iteration_of_the_host_to_the_next() -> None:
    """The launch that writes it is the launch that reads it, one iteration later."""
    knl = pl.make_kernel(
        "{[t, i]: 0 <= t < steps and 0 <= i < n}",
        """
        for t
            v[i] = a[i] + t {id=first}
            p[i] = if(t > 0, p[i], 0) + v[n - 1 - i] {id=sum, dep=first}
            out[t, i] = p[i] {dep=sum}
        end
        """,
        [pl.GlobalArg("a, v", F, shape="n"), pl.GlobalArg("out", F, shape="steps, n"),
         pl.TemporaryVariable("p", F, shape="n"), ...],
        assumptions="n >= 1 and steps >= 1", silenced_warnings=["read-before-write"],
    ).tag_inames({"i": "g.0"})  # fmt: skip
    a = np.arange(5.0)
    given = {"a": a, "v": np.zeros(5), "out": np.zeros((3, 5)), "steps": 3, "n": 5}
    expected = np.cumsum([a[::-1] + t for t in range(3)], axis=0)
    program = pl.generate_code(knl, target=pl.CudaTarget())
    assert around(program) == (("t",), ("t",))
    for found in run_on_fibres(program, copied(given)).values():
        agree(found, {"out": expected})


def test_an_inner_loop_of_the_host_divides_no_other_loop() -> None:
    """Both statements of the first loop are one launch: the second loop alone has a loop inside."""
    knl = pl.make_kernel(
        "{[t, s, r, i]: 0 <= t, s, r < steps and 0 <= i < n}",
        """
        for t
            v[i] = u[n - 1 - i] + 1 {id=flipped}
            w[i] = 2*v[i] {id=doubled, dep=flipped}
            u[i] = w[n - 1 - i] {id=back, dep=doubled}
        end
        for s
            x[i] = u[i] {id=start, dep=back}
            for r
                y[i] = x[n - 1 - i] {id=there, dep=start}
                x[i] = y[n - 1 - i] + 1 {id=again, dep=there}
            end
            u[i] = x[n - 1 - i] {id=end, dep=again}
        end
        """,
        [pl.GlobalArg("u, v, w, x, y", F, shape="n"), ...], assumptions="n >= 1 and steps >= 1",
        loop_priority=["t, i", "s, r, i"],
    ).tag_inames({"i": "g.0"})  # fmt: skip
    program = pl.generate_code(knl, target=pl.CudaTarget())
    assert around(program) == (("t",), ("t",), ("s",), ("s", "r"), ("s", "r"), ("s",))
