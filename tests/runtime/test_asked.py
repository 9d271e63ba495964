"""Conditions that the host decides: results, numbers of launches, texts, every way to start them, refusals."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.limits import DeviceLimits
from polyloop.runtime.arguments import Binder, Binding
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.gpu import gpu_available
from polyloop.runtime.views import HostMemory
from polyloop.schedule.build import build_schedule
from polyloop.target.cuda import with_one_launch
from polyloop.testing.brute import judge
from tests.export.test_source import Told
from tests.runtime.asked import ASKED
from tests.runtime.fake_machine import Machine, got, machine_of
from tests.runtime.test_host_loops import agree, around, copied

F = np.float64
CASES = [(name, size) for name, program in ASKED.items() for size in program.sizes]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    with machine_of(monkeypatch) as found:
        yield found


def bound(knl: LoopKernel, given: dict[str, Any]) -> Binding:
    return Binder(pl.generate_code(knl, target=pl.CudaTarget()), HostMemory()).bind(given)


@pytest.mark.parametrize(("name", "size"), CASES)
def test_programs_compute_what_numpy_says(name: str, size: int) -> None:
    program = ASKED[name]
    kernel, given = program.kernel(), program.inputs(size)
    expected = program.expected(**copied(given))
    agree(pl.interpret(kernel, **given), expected)
    for found in run_on_fibres(pl.generate_code(kernel, target=pl.CudaTarget()), given).values():
        agree(found, expected)
    agree(pl.compile(kernel, target=pl.CTarget())(**copied(given)), expected)


@pytest.mark.parametrize("name", ASKED)
def test_loops_of_the_host(name: str) -> None:
    assert around(pl.generate_code(ASKED[name].kernel(), target=pl.CudaTarget())) == ASKED[name].hosts


@pytest.mark.parametrize("name", ASKED)
def test_brute_force_finds_the_launches_legal(name: str) -> None:
    kernel = ASKED[name].kernel()
    for temporary in kernel.temporaries:  # those between launches are moved by the schedule, which brute force is not
        kernel = pl.set_temporary_address_space(kernel, temporary, "global")
    sizes = dict.fromkeys(kernel.parameters, 3) | {"n": 10}
    launches = build_schedule(kernel, DeviceLimits()).launches
    assert not [*judge(kernel, sizes, {}, launches=launches)]


# {{{ texts


def head(program: pl.GeneratedProgram) -> list[str]:
    lines = program.device_code.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("// Launches of the host"))
    end = next(n for n, line in enumerate(lines) if line.startswith("// Assumes"))
    return [line.removeprefix("//     ") for line in lines[begin + 1 : end]]


def test_the_text_says_what_the_host_asks() -> None:
    assert head(pl.generate_code(ASKED["relax"].kernel())) == [
        "relax_0, grid (1), block (1)",
        "for it in range(0, most), while it_goes_on[0]:",
        "    relax_1, grid ((n + 7) / 8), block (8)",
        "    relax_2, grid (1), block (1)",
        "    relax_3, grid ((n + 7) / 8), block (8)",
        "    relax_4, grid (1), block (1)",
    ]
    assert head(pl.generate_code(ASKED["updated"].kernel())) == [
        "for t in range(0, steps):",
        "    updated_0, grid ((n + 7) / 8), block (8)",
        "    updated_1, grid ((n + 7) / 8), block (8), if beta != 0.0",
        "    updated_2, grid ((n + 7) / 8), block (8), if floormod_int32(t * t, m) == 1",
        "    updated_3, grid ((n + 7) / 8), block (8), if floormod_int32(t * t, m) == 1",
    ]


def test_threads_ask_for_memory_alone() -> None:
    """An iteration may change what is read, so threads ask, too; numbers that are passed stay the same."""
    text = pl.generate_code(ASKED["updated"].kernel()).device_code
    assert "beta !=" not in text[text.index('extern "C"') :]
    functions = pl.generate_code(ASKED["relax"].kernel()).device_code.split('extern "C"')[2:]
    assert len(functions) == 4
    assert all(re.search(r"if \(.*it_goes_on\[0\]", text) for text in functions)


def test_the_text_for_c_has_a_plain_loop() -> None:
    text = pl.generate_code(ASKED["relax"].kernel(), target=pl.CTarget()).device_code
    assert "for (int it = 0; it < most && it_goes_on[0]; ++it) {" in text
    text = pl.generate_code(ASKED["updated"].kernel(), target=pl.CTarget()).device_code
    assert "        if (beta != 0.0) {\n            for (int bx = 0;" in text


def test_a_program_of_one_launch_leaves_the_question_to_its_threads() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = beta*x[i] {if=beta != 0}",
                         [pl.GlobalArg("x, y", F, shape="n"), pl.ValueArg("beta", F), ...])  # fmt: skip
    program = pl.generate_code(knl.split_iname("i", 8, outer_tag="g.0", inner_tag="l.0"))
    assert program.launches[0].condition is None
    assert "if (i < n && beta != 0.0)" in program.device_code


# }}}
# {{{ what is launched


@pytest.mark.parametrize("size", [0, 2, 8])
def test_sizes_of_a_known_residue_are_asked_as_they_are(size: int) -> None:
    """The text counts ``n`` in twos, which is no number that the host has."""
    knl = pl.make_kernel(
        "{[i]: 1 <= i < n - 1}", "x[i] = n {if=level[0] > 0, id=set}\nlevel[0] = 0 {dep=set}",
        [pl.GlobalArg("x", F, shape="n"), pl.GlobalArg("level", np.int32, shape=1), ...], assumptions="n >= 0",
    )  # fmt: skip
    knl = knl.split_iname("i", 2, outer_tag="g.0").assume("n mod 2 = 0")
    given = {"x": np.zeros(size), "level": np.array([1], np.int32), "n": size}
    wanted = {"x": np.array([size if 0 < i < size - 1 else 0 for i in range(size)], F)}
    for found in run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget()), copied(given)).values():
        agree(found, wanted)


def read_from(binding: Binding) -> Any:
    raise AssertionError(f"'{binding.program.kernel}' reads nothing")


def test_launches_are_left_out() -> None:
    given = ASKED["updated"].inputs(5)
    knl = ASKED["updated"].kernel()
    names = [step.launch.name[-1] for step in bound(knl, given).launches]
    assert names == [*"01", *"0123", *"0123", *"01", *"0123"]
    names = [step.launch.name[-1] for step in bound(knl, given | {"beta": 0.0}).launches]
    assert names == [*"0", *"023", *"023", *"0", *"023"]
    steps = bound(knl, given | {"beta": -0.0}).launches
    assert steps.count == len([*steps]) == 11


def test_a_nan_is_compared_as_threads_do() -> None:
    given = ASKED["updated"].inputs(5) | {"beta": np.nan, "steps": 1}
    assert [step.launch.name[-1] for step in bound(ASKED["updated"].kernel(), given).launches] == [*"01"]


def test_a_loop_ends_when_memory_says_so() -> None:
    binding = bound(ASKED["drained"].kernel(), ASKED["drained"].inputs(5))
    left = iter([2, 1, 0, 3, 2, 1, 0, 4, 3, 2, 1, 0])
    names = [step.launch.name[-1] for step in binding.launches.asking(lambda _: np.int32(next(left)))]
    assert names == [*"0", *"123" * 2, *"0", *"123" * 3, *"0", *"123" * 4]
    assert next(left, None) is None
    assert binding.launches.count == len([*binding.launches]) == 3 * (1 + 9 * 3)
    assert binding.launches.has_reads


def test_another_number_is_another_call(machine: Machine) -> None:
    """No call with one number is repeated for another one."""
    run = pl.compile(ASKED["updated"].kernel(), target=pl.CTarget())
    for target in (run, machine.compile(ASKED["updated"].kernel(), "host")):
        for beta in (0.5, 0.0, 0.5, 0.0, 0.0):
            given = ASKED["updated"].inputs(37) | {"beta": beta}
            agree(got(target(**copied(given))), ASKED["updated"].expected(**copied(given)))


# }}}
# {{{ calls on a machine whose driver runs threads on fibres


@pytest.mark.nvrtc
@pytest.mark.parametrize("how", ["host", "cooperative"])
@pytest.mark.parametrize("name", ASKED)
def test_calls(name: str, how: str, machine: Machine) -> None:
    program, run = ASKED[name], machine.compile(ASKED[name].kernel(), how)
    for size in program.sizes:
        given = program.inputs(size)
        agree(got(run(**copied(given))), program.expected(**copied(given)))
    assert not machine.cuda.memory


@pytest.mark.nvrtc
@pytest.mark.parametrize("how", ["host", "cooperative"])
def test_bound_calls_ask_each_time(how: str, machine: Machine) -> None:
    machine.driver.stack.append(object())
    program, run = ASKED["drained"], machine.compile(ASKED["drained"].kernel(), how)
    given = program.inputs(37)
    arrays = {x: machine.array(v) if isinstance(v, np.ndarray) else v for x, v in given.items()}
    call = run.bind(**arrays)
    assert call.launches == how
    x = given["x"]
    for _ in range(3):
        call()
        x = program.expected(**{**given, "x": x})["x"]
        np.testing.assert_allclose(arrays["x"].get(), x)


def test_the_text_of_one_launch_has_a_test_behind_the_barrier() -> None:
    text = pl.generate_code(ASKED["drained"].kernel(), target=with_one_launch(pl.CudaTarget())).device_code
    lines = text[text.index("    for (int step") :].splitlines()
    assert lines[:12] == [
        "    for (int step = 0; step < list[0]; ++step) {",
        "        const int *const launch = list + 1 + 5 * step;",
        "        if (launch[0] < 0) {",
        "            bool goes_on = true;",
        "            switch (launch[1]) {",
        "            case 0: { goes_on = level[0] > 0; } break;",
        "            }",
        "            wait_for_blocks(state, awaited += gridDim.x);",
        "            if (!goes_on)",
        "                step = launch[2] - 1;",
        "            continue;",
        "        }",
    ]


@pytest.mark.gpu
@pytest.mark.parametrize("how", ["host", "cooperative"])
@pytest.mark.parametrize(("name", "size"), CASES)
def test_programs_run_on_a_gpu(name: str, size: int, how: str) -> None:
    if not gpu_available()[0]:
        pytest.skip("no GPU")
    program, run = ASKED[name], pl.compile(ASKED[name].kernel(), target=pl.CudaTarget(), launches=how)
    given = program.inputs(size)
    for _ in range(3):
        agree(run(**copied(given)), program.expected(**copied(given)))


@pytest.mark.gpu
@pytest.mark.parametrize("how", ["host", "cooperative"])
def test_bound_calls_run_on_a_gpu(how: str) -> None:
    if not gpu_available()[0]:
        pytest.skip("no GPU")
    torch = pytest.importorskip("torch")
    program, run = ASKED["drained"], pl.compile(ASKED["drained"].kernel(), target=pl.CudaTarget(), launches=how)
    given = program.inputs(3000)
    arrays = {x: torch.tensor(v, device="cuda") if isinstance(v, np.ndarray) else v for x, v in given.items()}
    call, x = run.bind(**arrays), given["x"]
    for _ in range(3):
        call()
        x = program.expected(**{**given, "x": x})["x"]
        np.testing.assert_allclose(arrays["x"].cpu().numpy(), x)


# }}}
# {{{ export


@pytest.mark.nvrtc
def test_an_exported_launcher_reads_between_its_launches(tmp_path: Path) -> None:
    """The launches only tell that they were; the test changes the element that the launcher reads."""
    told = Told(ASKED["drained"].kernel(), tmp_path, pl.CudaTarget())
    given = ASKED["drained"].inputs(5)
    given["level"][0] = 1
    status, _ = told(given)
    assert status == 0
    assert len(told.launches) == 3 * (1 + 9 * 3)
    given["level"][0] = 0
    status, _ = told(given)
    assert status == 0
    assert [name[-1] for name, *_ in told.launches] == [*"000"]
    assert ctypes.c_long.in_dll(told.library, "fake_copies").value == 3 * 9 + 3


@pytest.mark.nvrtc
@pytest.mark.parametrize("size", [0, 5, 36])
def test_an_exported_launcher_leaves_out_launches(tmp_path: Path, size: int) -> None:
    told = Told(ASKED["updated"].kernel(), tmp_path, pl.CudaTarget())
    status, _ = told(ASKED["updated"].inputs(size))
    assert status == 0
    assert [name[-1] for name, *_ in told.launches] == [step.launch.name[-1] for step in told.binding.launches]


def test_a_bundle_holds_no_conditions_on_numbers(tmp_path: Path) -> None:
    with pytest.raises(pl.CodegenError) as error:
        pl.export(ASKED["updated"].kernel(), tmp_path, pl.CudaTarget(), bundle=True)
    assert error.value.codes == ("not-exportable",)
    assert "the host decides whether a launch runs: beta != 0.0" in str(error.value)


# }}}
# {{{ what a host cannot decide


TEXT = """
for t
    for i
        y[i] = x[n - 1 - i] {{id=turn, if={condition}}}
    end
    for j
        x[j] = y[j] + 1 {{id=back, if={condition}}}
    end
    go[0] = go[0] - 1 {{id=count, if={condition}}}
end
"""


@pytest.mark.parametrize(
    ("condition", "asks"),
    [
        ("go[0] > 0", True), ("go[1] < 3", True), ("real[0] < tol", True), ("real[0]*tol < 2", True),
        ("real[0] > -tol", True), ("go[0] > 0 and real[0] < tol", True), ("go[0] > 0 or go[1] > 0", True),
        ("not go[0] > 0", True), ("go[0] % 2 == 0", False), ("tol > 1", True), ("narrow[0] > 0", False),
        ("real[0]*tol + real[0] < 2", False), ("sqrt(real[0]) < tol", False), ("long_one[n - 1] > 0", False),
        ("long_one[0] > 0", False), ("go[go[0]] > 0", False), ("go[0] + t > 0", False), ("t > go[0]", False),
    ],
)  # fmt: skip
def test_conditions_that_end_a_loop(condition: str, asks: bool) -> None:
    knl = pl.make_kernel(
        "{[t, i, j]: 0 <= t < 5 and 0 <= i, j < n}", TEXT.format(condition=condition),
        [pl.GlobalArg("x, y", F, shape="n"), pl.GlobalArg("go", np.int32, shape=2), pl.ValueArg("tol", F),
         pl.GlobalArg("real", F, shape=1), pl.GlobalArg("narrow", np.float16, shape=1),
         pl.GlobalArg("long_one", F, shape="n"), ...],
        assumptions="n >= 1",
    )  # fmt: skip
    for iname in "ij":
        knl = knl.split_iname(iname, 8, outer_tag="g.0", inner_tag="l.0")
    tests = {loop.test is not None for launch in pl.generate_code(knl).launches for loop in launch.around}
    assert tests == {asks}


def test_a_loop_with_an_effect_outside_of_the_condition_goes_on() -> None:
    text = TEXT.format(condition="go[0] > 0").replace("{id=count, if=go[0] > 0}", "{id=count}")
    knl = pl.make_kernel(
        "{[t, i, j]: 0 <= t < 5 and 0 <= i, j < n}", text,
        [pl.GlobalArg("x, y", F, shape="n"), pl.GlobalArg("go", np.int32, shape=2), ...], assumptions="n >= 1",
    )  # fmt: skip
    for iname in "ij":
        knl = knl.split_iname(iname, 8, outer_tag="g.0", inner_tag="l.0")
    program = pl.generate_code(knl)
    assert [loop.test for launch in program.launches for loop in launch.around] == [None] * 3
    given = {"x": np.arange(9.0), "y": np.zeros(9), "go": np.array([3, 0], np.int32)}
    for found in run_on_fibres(program, given).values():
        agree(found, pl.interpret(knl, **given))


def test_a_graph_of_a_loop_that_ends_is_refused() -> None:
    with pytest.raises(pl.CompilerError) as error:
        pl.compile(ASKED["relax"].kernel(), target=pl.CudaTarget(), launches="graph")
    assert str(error.value).splitlines() == [
        "compile on kernel 'relax': launches='graph' is not supported [unsupported-launches]",
        "  Note: the loop 'it' goes on while it_goes_on[0], which the host reads",
        "  Note: a graph has all launches of all iterations",
        "  Hint: leave it out, or pass launches=\"cooperative\", whose blocks read it",
    ]


def test_explain_says_that_the_host_reads() -> None:
    facts = pl.explain(ASKED["relax"].kernel(), {"n": 64, "most": 100}, "H100")
    wanted = ("a call has up to 401 launches; unless pl.compile is told otherwise, the host starts them one after the "
              "other: it reads between them whether a loop goes on")  # fmt: skip
    assert wanted in facts.notes

# }}}


# {{{ affine conditions


AFFINE = {
    "t % 3 == 1": [1, 4],
    "t >= 2 and m > 3": [2, 3, 4, 5, 6],
    "m > t": [0, 1, 2, 3],
    "m < 2": [],
    "t % m == 2": [2, 6],
    "j < t and t % 2 == 0": [2, 4, 6],
}


def affine(condition: str) -> LoopKernel:
    knl = pl.make_kernel(
        "{[t, i, j]: 0 <= t < steps and 0 <= i, j < n}",
        TEXT.replace("if={condition}}", "}").replace("{{id=turn, }}", "{id=turn}").split("    go[0]")[0]
        .replace("{{id=back, }}", f"{{id=back, if={condition}}}") + "end",
        [pl.GlobalArg("x, y", F, shape="n"), pl.ValueArg("m", np.int32), ...], name="affine",
        assumptions="n >= 0 and steps >= 0", silenced_warnings=["unused-variable"],
    )  # fmt: skip
    for iname in "ij":
        knl = knl.split_iname(iname, 8, outer_tag="g.0", inner_tag="l.0")
    return knl


@pytest.mark.parametrize("condition", AFFINE)
def test_the_host_asks_what_is_affine_in_its_inames(condition: str) -> None:
    knl = affine(condition)
    given = {"x": _values(20), "y": np.zeros(20), "m": 4, "steps": 7, "n": 20}
    steps = [*bound(knl, given).launches]
    assert [step.inames["t"] for step in steps if step.launch.name == "affine_1"] == AFFINE[condition]
    expected = pl.interpret(knl, **given)
    for found in run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget()), given).values():
        agree(found, dict(expected))
    agree(pl.compile(knl, target=pl.CTarget())(**copied(given)), dict(expected))
    body = pl.generate_code(knl).device_code.split("affine_1(")[-1]
    assert not {"t %", "m", "floormod"} & {*body.partition("{")[2].split()}


def _values(n: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(n).random(n)


@pytest.mark.nvrtc
@pytest.mark.parametrize("condition", AFFINE)
def test_an_exported_launcher_asks_it(tmp_path: Path, condition: str) -> None:
    told = Told(affine(condition), tmp_path, pl.CudaTarget())
    status, _ = told({"x": _values(20), "y": np.zeros(20), "m": 4, "steps": 7, "n": 20})
    assert status == 0
    assert [name[-1] for name, *_ in told.launches] == [step.launch.name[-1] for step in told.binding.launches]

# }}}
