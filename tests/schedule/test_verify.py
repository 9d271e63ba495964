"""Certificates: what was proven, what keeps threads apart, what is assumed, and what is let pass."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.dataflow.address_spaces import place
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tree import Barrier, Loop, Scope, Tree
from polyloop.proof.obligation import Claim
from polyloop.schedule.build import build_schedule
from polyloop.schedule.waits import waits
from polyloop.sync.races import needs
from polyloop.target.certificate import Certificate

F = np.float32


def product() -> LoopKernel:
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k] * b[k, j])",
        [pl.GlobalArg("a, b, c", F, shape="n, n"), ...],
        assumptions="n >= 1",
        name="product",
    )
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 16)
    knl = pl.add_prefetch(knl, "a", ["i_inner", "k_inner"])
    return pl.add_prefetch(knl, "b", ["k_inner", "j_inner"])


def scan() -> LoopKernel:
    data = [pl.GlobalArg("a, x", F, shape="n"), ...]
    return pl.make_kernel("{[i]: 1 <= i < n}", "x[i] = x[i-1] + a[i]", data, name="scan")


def made(text: str, domain: str = "{[i]: 0 <= i < n}", data: Any = (), **options: Any) -> LoopKernel:
    return pl.make_kernel(domain, text, [*data, ...], name="made", **options)


def claims(certificate: Certificate, claim: Claim) -> list[str]:
    return [proof.subject.strip("'") for proof in certificate.proofs if proof.claim is claim]


# {{{ what is proven


def test_the_certificate_of_a_product_names_every_obligation() -> None:
    certificate = pl.verify(product())
    assert certificate.is_proven
    assert claims(certificate, Claim.COVERAGE) == ["insn"]
    assert claims(certificate, Claim.VALUES) == ["a_fetch", "b_fetch"]
    assert claims(certificate, Claim.REDUCTION) == ["acc"]
    assert claims(certificate, Claim.ORDER) == ["c"]
    assert claims(certificate, Claim.RACES) == ["a_fetch", "b_fetch", "c"]
    assert claims(certificate, Claim.BOUNDS) == ["a", "b", "c", "a_fetch", "b_fetch"]
    assert claims(certificate, Claim.DEVICE) == ["threads", "shared memory"]
    assert claims(certificate, Claim.BARRIERS) == ["a_fetch", "b_fetch"]
    assert all(proof.ms > 0 and proof.by and not proof.found for proof in certificate.proofs)


def test_few_relations_are_looked_at_for_a_product() -> None:
    assert 5 < pl.verify(product()).relations <= 30


def test_what_is_proven_once_keeps_its_figures() -> None:
    knl = product()
    pl.generate_code(knl, target=pl.CudaTarget())
    first, second = pl.verify(knl), pl.verify(knl)
    assert first.proofs == second.proofs
    assert first.ms == second.ms > 0


def test_a_certificate_reads_as_a_table() -> None:
    certificate = pl.verify(product())
    lines = str(certificate).splitlines()
    assert lines[0] == "certificate of kernel 'product' for cuda: 18 obligations proven"
    assert "  values (dataflow through the temporary, against the program's reads)" in lines
    assert max(map(len, lines)) <= 120
    assert repr(certificate) == "<Certificate of 'product' for cuda: 18 obligations proven>"


def test_a_certificate_lists_what_made_another_program() -> None:
    knl = made("y[i] = sum(k, 3*x[i, k])", "{[i, k]: 0 <= i < n and 0 <= k < 8}", [pl.GlobalArg("x", F, shape="n, 8")])
    assert pl.verify(pl.split_iname(knl, "i", 16)).rewrites == ()
    certificate = pl.verify(pl.hoist_reduction_factors(knl))
    assert certificate.rewrites == ("hoist_reduction_factors()",)
    assert "what made another program of it, on purpose" in str(certificate)


def test_integers_that_are_computed_ahead_are_named_in_the_argument() -> None:
    knl = made("y[i] = 2*3*x[i]", data=[pl.GlobalArg("x", F, shape="n")])
    (proof,) = [proof for proof in pl.verify(pl.fold_constants(knl)).proofs if proof.claim is Claim.OPERANDS]
    assert proof.by == "operands side by side, up to integers computed ahead"


def test_many_obligations_of_one_kind_are_summed_up() -> None:
    knl = made("\n".join(f"y{k}[i] = x[i] + {k}" for k in range(20)), data=[pl.GlobalArg("x", F, shape="n")])
    text = str(pl.verify(knl))
    assert "the same of 13 more" in text
    assert len(text.splitlines()) < 60


def test_a_certificate_is_data() -> None:
    data = json.loads(pl.verify(product()).to_json())
    assert data["proven"] is True
    assert data["unchecked"] == []
    assert {"claim", "subject", "says", "by", "relations", "ms", "found"} == data["proofs"][0].keys()
    assert {"array", "first", "second", "loop", "scope", "by"} == data["waits"][0].keys()
    checks = {entry["condition"]: entry["error"] for entry in data["assumptions"]}
    assert checks["n >= 1"] == "assumption-violated"


def test_a_kernel_without_threads_has_a_certificate() -> None:
    certificate = pl.verify(scan(), target=pl.CTarget())
    assert certificate.target == "c"
    assert certificate.waits == ()
    assert claims(certificate, Claim.RACES) == ["x"]


def test_ordered_terms_are_an_obligation() -> None:
    knl = made(
        "y[i] = reduce(ordered(sum), k, x[i, k])", "{[i, k]: 0 <= i, k < n}", [pl.GlobalArg("x", F, shape="n, n")]
    )
    assert len(claims(pl.verify(knl), Claim.TERMS)) == 1


def test_what_does_not_hold_is_an_error() -> None:
    knl = made(
        "<> u[i] = x[i] {id=u}\n<> v[i] = 2*x[i] {id=v}\ny[i] = u[i] + v[i]",
        "{[i]: 0 <= i < 16}",
        [
            pl.GlobalArg("x", F, shape=16),
            *(pl.TemporaryVariable(t, F, shape=16, address_space="local", base_storage="s") for t in "uv"),
        ],
    )
    knl = pl.tag_inames(knl, "i:l.0")
    with pytest.raises(pl.VerificationError) as error:
        pl.verify(knl)
    assert error.value.codes == ("storage-in-use",)


# }}}
# {{{ what keeps threads apart


def test_every_wait_names_its_barrier() -> None:
    found = {(w.array, w.first, w.second, w.loop): w.by for w in pl.verify(product()).waits}
    before = "the block barrier before loop 'k_inner' in loop 'k_outer'"
    assert found["a_fetch", "fetch_a", "insn", None] == before
    assert found["b_fetch", "insn", "fetch_b", "k_outer"] == "the block barrier at the end of loop 'k_outer'"


def test_a_dependence_between_blocks_is_met_by_two_launches() -> None:
    knl = made("x[i] = a[i] {id=p}\ny[i] = x[n-1-i] {id=q}", data=[pl.GlobalArg("a, x", F, shape="n")])
    found = pl.verify(pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")).waits
    assert Scope.GRID in {wait.scope for wait in found}
    assert {wait.by for wait in found} == {"launch 'made_0' ends before 'made_1' begins"}


def without_barriers(tree: Tree) -> Tree:
    kept = [replace(node, body=without_barriers(node.body)) if isinstance(node, Loop) else node for node in tree]
    return tuple(node for node in kept if not isinstance(node, Barrier))


def test_a_missing_barrier_is_noticed() -> None:
    knl = product()
    schedule = build_schedule(knl, pl.CudaTarget().limits)
    placement = place(knl)
    wanted = [*needs(placement, "a_fetch"), *needs(placement, "b_fetch")]
    assert all(wait.by for wait in waits(wanted, schedule.launches))
    (launch,) = schedule.launches
    torn = replace(launch, tree=without_barriers(launch.tree))
    assert not any(wait.by for wait in waits(wanted, [torn]))


# }}}
# {{{ bounds


def test_a_tile_that_is_too_small_is_out_of_bounds() -> None:
    knl = product()
    small = replace(knl.temporaries["a_fetch"], shape=(16, 15))
    knl = replace(knl, temporaries={**knl.temporaries, "a_fetch": small})
    with pytest.raises(pl.VerificationError) as error:
        pl.generate_code(knl, target=pl.CudaTarget())
    assert error.value.codes == ("out-of-bounds",)
    assert "'a_fetch' is accessed outside of its shape (16, 15)" in str(error.value)
    assert "touches a_fetch[" in str(error.value)


def test_the_box_around_a_triangle_is_proven_to_stay_inside() -> None:
    domain, data = "{[i, j]: 0 <= i < n and 0 <= j <= i}", [pl.GlobalArg("a", F, shape="n, n")]
    knl = pl.split_iname(made("a[i, j] = a[i, j] + j", domain, data), "i", 16, outer_tag="g.0")
    knl = pl.prioritize_loops(pl.split_iname(knl, "j", 16), "i_outer, j_outer, i_inner, j_inner")
    knl = pl.buffer_array(knl, "a", ["i_inner", "j_inner"], fetch_bounding_box=True)
    assert claims(pl.verify(knl), Claim.BOUNDS) == ["a", "a_buf"]


def test_a_condition_of_the_launch_counts_in_the_proof_of_bounds() -> None:
    knl = made("y[i] = x[i + 2]", data=[pl.GlobalArg("x", F, shape="m")])
    certificate = pl.verify(pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0"))
    assert "x" in claims(certificate, Claim.BOUNDS)
    assert "out-of-bounds" in {assumption.error for assumption in certificate.assumptions}


# }}}
# {{{ what is assumed


def assumed(knl: LoopKernel) -> dict[str, str]:
    return {assumption.what: assumption.error for assumption in pl.verify(knl).assumptions}


def test_what_a_call_checks_is_listed_with_its_code() -> None:
    found = assumed(product())
    assert found["the kernel assumes n >= 1"] == "assumption-violated"
    assert found["n*n <= 2147483647; otherwise it is compiled with 64-bit indices"] == "index-overflow"
    assert found["'c' shares no memory with another argument"] == "overlapping-arguments"


def test_where_data_decides_it_is_the_users_word() -> None:
    knl = made(
        "y[i] = x[p[i]]", data=[pl.GlobalArg("x", F, shape="m"), pl.GlobalArg("p", np.int32, shape="n")]
    )
    assert assumed(knl)["data keeps x[..] in 'insn' inside of 'x'"] == ""
    says = {proof.subject: proof.says for proof in pl.verify(knl).proofs if proof.claim is Claim.BOUNDS}
    assert says["'x'"] == "each access to 'x' stays inside of its shape (m), as far as data does not decide"
    assert says["'p'"] == "each access to 'p' stays inside of its shape (n)"


def test_a_denied_conflict_is_the_users_word() -> None:
    knl = made(
        "for i\n  x[p[i]] = a[i] {id=put}\n  y[i] = x[i] {id=get, nosync=put}\nend",
        data=[pl.GlobalArg("a, x", F, shape="n"), pl.GlobalArg("p", np.int32, shape="n")],
    )
    words = [what for what, code in assumed(knl).items() if not code]
    assert "'get' and 'put' access no common element where that is left open (nosync)" in words


def test_foreign_functions_and_c_text_are_the_users_word() -> None:
    knl = made(
        "y[i] = twice(x[i])",
        data=[pl.GlobalArg("x", F, shape="n")],
        functions=[pl.ForeignFunction("twice", (F,), F, preamble="static float twice(float x) { return 2*x; }")],
    )
    assert any(what.startswith("'twice' has no side effects") for what in assumed(knl))


# }}}
# {{{ the budget

SWEEP = "x[i, j] = x[i-1, j] + x[i, j-1] {id=step}\ny[i, j] = 2*x[i, j] {id=copy}"


def sweep() -> LoopKernel:
    data = [pl.GlobalArg("x, y", F, shape="n, n"), ...]
    return pl.make_kernel("{[i, j]: 1 <= i, j < n}", SWEEP, data, name="sweep")


def test_a_question_that_takes_too_long_is_not_proven_and_names_the_pair() -> None:
    knl = sweep()
    with pytest.raises(pl.VerificationError) as error:
        pl.verify(knl, max_operations=500)
    assert set(error.value.codes) == {"not-proven"}
    text = str(error.value)
    assert "not proven: each read of 'x' sees the write that it sees in the program" in text
    assert "ISL gave up after 500 operations" in text
    assert "'copy'" in text
    assert "pl.operation_budget(" in text
    assert "pl.unchecked(" in text
    assert pl.verify(knl).is_proven


@pytest.mark.parametrize("operations", [1, 10, 100, 200, 400, 700, 1000, 2000])
def test_no_budget_makes_an_illegal_step_legal(operations: int) -> None:
    knl = sweep()
    with pl.operation_budget(operations), pytest.raises(pl.TransformError) as error:
        pl.tag_inames(knl, "j:l.0")
    assert set(error.value.codes) <= {"not-proven", "illegal-parallel"}
    with pytest.raises(pl.TransformError) as error:
        pl.tag_inames(knl, "j:l.0")
    assert error.value.codes == ("illegal-parallel",)


def test_the_budget_holds_for_code_generation_too() -> None:
    knl = sweep()
    with pl.operation_budget(200), pytest.raises(pl.VerificationError) as error:
        pl.generate_code(knl)
    assert set(error.value.codes) == {"not-proven"}
    assert "sweep(" in pl.generate_code(knl).device_code


def test_the_budget_holds_where_a_kernel_is_made() -> None:
    with pl.operation_budget(100), pytest.raises(pl.KernelError) as error:
        sweep()
    assert "not-proven" in error.value.codes
    assert "not proven: whether 'x' is read before it is written" in str(error.value)
    assert pl.verify(sweep()).is_proven


@pytest.mark.parametrize("given", [0, -3, 1.5, None, True])
def test_a_budget_is_a_number_of_operations(given: Any) -> None:
    with pytest.raises(pl.VerificationError) as error, pl.operation_budget(given):
        pass
    assert error.value.codes == ("bad-budget",)


# }}}
