"""The command line, called in this process."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polyloop.cli import demo, doctor
from polyloop.cli.main import main
from polyloop.cli.problems import Problem, matmul_problem
from polyloop.errors import CompilerError, Diagnostic
from polyloop.runtime.ccompile import find_compiler

KERNELS = """
import polyloop as pl

base = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2 * x[i]", [pl.GlobalArg("x, y", "float32"), ...], name="twice")
size = 17


def split():
    return pl.split_iname(base, "i", 32, outer_tag="g.0", inner_tag="l.0")


def refused():
    return pl.split_iname(base, "j", 32)
"""


@pytest.fixture
def kernels(tmp_path: Path) -> str:
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    return str(path)


def shown(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    captured = capsys.readouterr()
    return captured.out, captured.err


# {{{ show


def test_show_prints_the_cuda_source_of_a_kernel(kernels: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", f"{kernels}:split"]) == 0
    out, err = shown(capsys)
    assert 'extern "C" __global__' in out
    assert "32 * bx + tx" in out
    assert err == ""


def test_show_prints_the_c_source_of_a_kernel(kernels: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", f"{kernels}:base", "--target", "c"]) == 0
    out, _ = shown(capsys)
    assert "void twice(" in out
    assert "__global__" not in out


def test_show_prints_the_hip_source_of_a_kernel(kernels: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", f"{kernels}:split", "--target", "hip"]) == 0
    out, _ = shown(capsys)
    assert out.startswith("// HIP C++ for gfx942: waves of 64 lanes")


@pytest.mark.hip
def test_hip_prints_the_resource_usage_of_a_kernel(
    kernels: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kernel.hsaco"
    assert main(["hip", f"{kernels}:split", "--arch", "gfx90a", "--arch", "gfx1100", "--output", str(path)]) == 0
    out, _ = shown(capsys)
    words = [line.split()[0] for line in out.splitlines() if line]
    assert words == ["gfx90a", "kernel", "twice", "gfx1100", "kernel", "twice"]
    assert path.read_bytes().startswith(b"\x7fELF")


def test_show_suggests_the_kernel_that_was_meant(kernels: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", f"{kernels}:bass"]) == 2
    _, err = shown(capsys)
    assert err == "show: no kernel 'bass' [unknown-kernel]\n  Hint: did you mean 'base'?\n"


def test_show_refuses_what_is_not_a_kernel(kernels: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", f"{kernels}:size"]) == 2
    _, err = shown(capsys)
    assert err == (
        f"show: 'size' in '{kernels}' is of type int, not a kernel [not-a-kernel]\n"
        "  Hint: name a LoopKernel, or a function without arguments that returns one\n"
    )


@pytest.mark.parametrize("where", ["kernels.py", ":name", "kernels.py:", "kernels.py:a-b"])
def test_show_refuses_what_names_no_kernel(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", where]) == 2
    _, err = shown(capsys)
    assert err == f"show: '{where}' does not name a kernel [bad-kernel-path]\n  Hint: write it FILE.py:NAME\n"


def test_show_refuses_a_file_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "nowhere.py:knl"]) == 2
    _, err = shown(capsys)
    assert err == "show: there is no file 'nowhere.py' [bad-kernel-path]\n  Hint: write it FILE.py:NAME\n"


def test_show_refuses_a_file_that_is_not_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kernels.txt"
    path.write_text(KERNELS)
    assert main(["show", f"{path}:base"]) == 2
    _, err = shown(capsys)
    assert err == f"show: '{path}' is not a Python file [bad-kernel-path]\n  Hint: name a file that ends in .py\n"


def test_a_refused_transform_is_printed_without_a_traceback(kernels: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", f"{kernels}:refused"]) == 2
    _, err = shown(capsys)
    assert err.startswith("split_iname on kernel 'twice': no iname 'j' [unknown-iname]")
    assert "Traceback" not in err


# }}}
# {{{ demo


def test_the_demo_as_json_has_three_kernels_that_are_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--json"]) == 0
    facts = json.loads(shown(capsys)[0])
    assert facts["ok"] is True
    assert [kernel["name"] for kernel in facts["kernels"]] == ["axpy", "matmul", "stencil"]
    for kernel in facts["kernels"]:
        assert kernel["ok"] is True
        assert 0 <= kernel["max_error"] < 1e-3
        assert 0 < kernel["seconds_to_source"] < 5
        assert "1000" in kernel["ran_on"] or "254 x 217" in kernel["ran_on"]


def test_the_demo_prints_kernel_transforms_source_and_outcome(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ramp.npy"
    np.save(path, np.add.outer(np.arange(45.0), np.arange(50.0) ** 2))
    assert main(["demo", "--image", str(path)]) == 0
    out, _ = shown(capsys)
    assert "sum(k" in out
    assert "pl.split_iname(knl, " in out
    assert out.count('extern "C" __global__') == 3
    assert out.count("__shared__ float") == 3
    assert "45 x 50 pixels" in out
    assert out.count("Largest error against NumPy") == 3
    assert "ms to source" in out


def test_a_wrong_result_makes_the_exit_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong_problem(n: int) -> Problem:
        problem = matmul_problem(min(n, 40))
        want = problem.want.copy()
        want[-1, -1] += 1
        return replace(problem, want=want)

    monkeypatch.setattr(demo, "matmul_problem", wrong_problem)
    assert main(["demo", "--json"]) == 1
    facts = json.loads(shown(capsys)[0])
    assert facts["ok"] is False
    assert [kernel["ok"] for kernel in facts["kernels"]] == [True, False, True]
    assert facts["kernels"][1]["max_error"] == pytest.approx(1, rel=1e-3)


def test_a_picture_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--image", "nowhere.png"]) == 2
    out, err = shown(capsys)
    assert out == ""
    assert err.startswith("demo: cannot use picture 'nowhere.png': there is no such file [bad-picture]")


# }}}
# {{{ doctor


def test_the_doctor_says_what_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    out, _ = shown(capsys)
    names = [line[5:].split("  ")[0] for line in out.splitlines()]
    assert names[:5] == ["Python", "polyloop", "islpy", "pymbolic", "numpy"]
    assert {"C compiler", "C++ compiler", "NVRTC", "pycuda", "GPU"} <= set(names)
    assert find_compiler().command[0] in out


def test_the_doctor_says_which_compilers_it_looked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(language: str) -> None:
        note, hint = f"looked for {language}", "install one"
        raise CompilerError("compile", None, [Diagnostic("no-c-compiler", "no compiler", (note,), (hint,))])

    monkeypatch.setattr(doctor, "find_compiler", none)
    assert main(["doctor"]) == 0
    assert "no   C compiler    looked for c; install one" in shown(capsys)[0]


# }}}


def test_no_command_prints_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([])
    assert stop.value.code == 2
    assert "demo" in shown(capsys)[1]


def test_explain_prints_what_bounds_a_kernel(kernels: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", f"{kernels}:split", "n=100000", "--device", "A100"]) == 0
    assert capsys.readouterr().out.startswith("twice on NVIDIA A100, n = 100000\nbound by DRAM: at least 392 ns")
    assert main(["explain", f"{kernels}:split", "n=100000", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dram_bytes"] == 800000


def test_explain_refuses_a_size_that_is_none(kernels: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", f"{kernels}:split", "n:100"]) == 2
    assert capsys.readouterr().err == (
        "explain: 'n:100' is no size [bad-sizes]\n  Hint: write it NAME=SIZE, such as n=1024\n"
    )
