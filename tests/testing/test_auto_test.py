"""``auto_test_vs_ref``: a Loopy script's test and timing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl

C = pl.CTarget()


def axpy(name: str = "axpy", extra: str = "") -> pl.LoopKernel:
    data = [pl.GlobalArg("x, y", np.float32, shape="n"), pl.ValueArg("alpha", np.float32), ...]
    return pl.make_kernel("{[i]: 0 <= i < n}", f"z[i] = alpha*x[i] + y[i]{extra}", data, name=name)


def test_a_loopy_script_gets_its_times_and_rates(capsys: pytest.CaptureFixture[str]) -> None:
    split = pl.split_iname(axpy("split"), "i", 32, outer_tag="g.0", inner_tag="l.0")
    found = pl.auto_test_vs_ref(
        axpy(), None, split, op_count=[2e-9], op_label=["GFlop"], parameters={"n": 100, "alpha": 2.5}, target=C
    )
    names = {"elapsed_wall", "elapsed_event", "ref_elapsed_wall", "ref_elapsed_event", "timing_rounds", "report"}
    assert found.keys() == names
    assert 0 < found["elapsed_wall"] < 1
    assert found["report"].sizes == ({"n": 100},)
    printed = capsys.readouterr().out
    assert "void split(" in printed
    assert "elapsed: " in printed
    assert printed.count("GFlop/s") == 2


def test_a_kernel_alone_is_timed_and_not_checked(capsys: pytest.CaptureFixture[str]) -> None:
    found = pl.auto_test_vs_ref(axpy(), parameters={"n": 10}, quiet=True, warmup_rounds=0, target=C)
    assert found.keys() == {"elapsed_wall", "elapsed_event", "timing_rounds"}
    assert capsys.readouterr().out == ""


def test_a_wrong_kernel_is_caught() -> None:
    with pytest.raises(pl.VerificationError, match=r"z\[0\] is"):
        pl.auto_test_vs_ref(axpy(), None, axpy("wrong", " + 0.1"), parameters={"n": 10}, quiet=True, target=C)


def test_a_judge_of_the_user_decides() -> None:
    def lenient(result: Any, reference: Any) -> tuple[bool, str]:
        return bool(np.abs(result - reference).max() < 1), "more than 1 apart"

    near, far = axpy("near", " + 0.1"), axpy("far", " + 2")
    pl.auto_test_vs_ref(axpy(), None, near, parameters={"n": 10}, check_result=lenient, quiet=True, target=C)
    with pytest.raises(pl.VerificationError) as caught:
        pl.auto_test_vs_ref(axpy(), None, far, parameters={"n": 10}, check_result=lenient, quiet=True, target=C)
    assert str(caught.value) == (
        "auto_test_vs_ref on kernel 'far': 'z' is not what 'axpy' computes [not-equivalent]\n"
        "  Note: more than 1 apart\n"
        "  Note: judged by check_result, for n = 10\n"
        "  Hint: see what check_result asks for"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dump_binary": True}, "dump_binary means nothing here [no-such-option]"),
        ({"blacklist_ref_vendors": ["pocl"]}, "blacklist_ref_vendors means nothing here [no-such-option]"),
        ({"ref_entrypoint": "main"}, "there is no entry point 'main' [no-such-option]"),
        ({"parameters": {}}, "the size 'n' is not given [bad-sizes]"),
        ({"parameters": {"n": 3, "beta": 1}}, "no argument 'beta' [unknown-argument]"),
        ({"parameters": {"n": [3, 4]}}, "one size at a time [bad-sizes]"),
    ],
)
def test_what_means_nothing_here_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(pl.ArgumentError) as caught:
        pl.auto_test_vs_ref(axpy(), None, axpy(), **{"parameters": {"n": 3}, "quiet": True, "target": C, **options})
    assert said in str(caught.value)
