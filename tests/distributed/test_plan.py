"""Plans: regions against enumeration, the proof, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polyloop as pl
from polyloop.distributed.completeness import incompleteness
from polyloop.distributed.plan import Exchange, Node, Plan, Repeat, Run, Send
from polyloop.distributed.regions import boxes_of
from tests.distributed import programs
from tests.distributed.programs import compare

D = np.float64


def without(nodes: tuple[Node, ...], number: int) -> tuple[Node, ...]:
    """Return the nodes of a plan without one exchange."""
    found: list[Node] = []
    for node in nodes:
        match node:
            case Exchange():
                found += [] if node.number == number else [node]
            case Run():
                found.append(replace(node, during=tuple(entry for entry in node.during if entry.number != number)))
            case Repeat():
                found.append(replace(node, body=without(node.body, number)))
            case _:
                found.append(node)
    return tuple(found)


def with_needed(nodes: tuple[Node, ...], number: int, change: Any) -> tuple[Node, ...]:
    """Return the nodes of a plan with other elements in one exchange."""
    found: list[Node] = []
    for node in nodes:
        match node:
            case Exchange():
                found.append(replace(node, needed=change(node.needed)) if node.number == number else node)
            case Run():
                found.append(replace(node, during=tuple(
                    replace(entry, needed=change(entry.needed)) if entry.number == number else entry
                    for entry in node.during)))
            case Repeat():
                found.append(replace(node, body=with_needed(node.body, number, change)))
            case _:
                found.append(node)
    return tuple(found)


CASES = [(programs.heat(), (2, 2)), (programs.heat_1d_mesh(), (3,)), (programs.history(), (3,)),
         (programs.product(), (2, 2)), (programs.boundaries(), (4,)), (programs.transpose(), (3,)),
         (programs.conjugate_gradients(), (3,))]


@pytest.mark.parametrize(("case", "mesh"), CASES, ids=str)
def test_no_exchange_can_be_left_out(case: programs.Case, mesh: tuple[int, ...]) -> None:
    plan = case.divided(mesh).plan(**case.sizes)
    assert incompleteness(plan) == ()
    assert plan.exchanges
    for exchange in plan.exchanges:
        less = Plan(plan.regions, plan.locals, without(plan.nodes, exchange.number))
        assert {entry.code for entry in incompleteness(less)} == {"incomplete-exchange"}


@pytest.mark.parametrize(("case", "mesh"), CASES, ids=str)
def test_no_element_of_an_exchange_can_be_left_out(case: programs.Case, mesh: tuple[int, ...]) -> None:
    plan = case.divided(mesh).plan(**case.sizes)
    for exchange in plan.exchanges:
        for pick in (lambda needed: needed.wrap().lexmin(), lambda needed: needed.wrap().lexmax()):
            change = lambda needed, pick=pick: needed.subtract(pick(needed).unwrap())  # noqa: E731
            less = Plan(plan.regions, plan.locals, with_needed(plan.nodes, exchange.number, change))
            assert incompleteness(less), exchange.field


def test_the_finding_names_the_rank_the_instance_and_the_element() -> None:
    case = programs.heat_1d_mesh(n=9)
    plan = case.divided((3,)).plan(**case.sizes)
    found, = incompleteness(Plan(plan.regions, plan.locals, without(plan.nodes, 0)))
    assert found.message == "rank 0 reads an element that it neither owns nor has received"
    assert found.notes == ("instance (t=0, i=2, j=1, k=1) of 'insn' reads u[3, 1, 1]", "sizes: steps=3, n=9; mesh 3")


def test_an_exchange_moved_behind_a_write_is_found() -> None:
    """An exchange in front of the loop brings the first values alone: the proof looks at times."""
    case = programs.heat_1d_mesh()
    plan = case.divided((2,)).plan(**case.sizes)
    exchange, = plan.exchanges
    place = len(plan.regions.mesh)
    early = replace(exchange, hosts=(), needed=exchange.needed.project_out(pl_in(), place, 1))
    moved = Plan(plan.regions, plan.locals, (early, *without(plan.nodes, exchange.number)))
    found, = incompleteness(moved)
    assert found.notes[0].startswith("instance (t=1, ")


def pl_in() -> Any:
    import islpy  # noqa: PLC0415 - for one word

    return islpy.dim_type.in_


def test_what_does_not_change_is_sent_once() -> None:
    """Coefficients that no statement writes are exchanged in front of the loop; their reader reads the halo."""
    kernel = pl.make_kernel(
        "{[t, i]: 0 <= t < steps and 1 <= i < n - 1}",
        """
        for t
            for i
                v[i] = k[i - 1]*u[i - 1] + k[i + 1]*u[i + 1]
            end
            for i
                u[i] = v[i]
            end
        end
        """, [pl.GlobalArg("u, v, k", D, shape="n"), ...], name="k", assumptions="n >= 3 and steps >= 1")
    blocks = dict.fromkeys("uvk", "block")
    plan = pl.distribute(kernel, blocks, "i:mesh.0", (2,)).plan(n=10, steps=4)
    assert [(entry.field.array, entry.hosts) for entry in plan.exchanges] == [("k", ()), ("u", ("t",))]
    traffic = pl.distribute(kernel, blocks, "i:mesh.0", (2,)).explain(n=10, steps=4)
    assert {entry.array: entry.bytes for entry in traffic.exchanges} == {"k": 16, "u": 4 * 16}
    compare(programs.Case(kernel, blocks, "i:mesh.0", {"n": 10, "steps": 4}), (3,))


def test_messages_say_what_box_and_whether_it_is_packed() -> None:
    case = programs.heat(n=8)
    plan = case.divided((2, 2)).plan(**case.sizes)
    exchange, = plan.exchanges
    found = plan.messages(exchange, (0, 0), {"t": 0})
    assert [(entry.source, entry.box, entry.is_contiguous, entry.size) for entry in found] == [
        (1, ((1, 4), (4, 5), (1, 7)), False, 3 * 6 * 8),
        (2, ((4, 5), (1, 4), (1, 7)), False, 3 * 6 * 8),
    ]


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 14), st.integers(1, 5), st.lists(st.integers(-3, 3), min_size=1, max_size=3), st.booleans())
def test_received_elements_are_those_of_enumeration(n: int, ranks: int, offsets: list[int], is_backward: bool) -> None:
    """Boxes hold what instances of a rank read and it does not own, and at most half as much besides."""
    sign = "n - 1 - i" if is_backward else "i"
    reads = [f"x[{sign} + {offset}]" for offset in offsets]
    kernel = pl.make_kernel("{[i]: 3 <= i < n - 3}", f"y[i] = {' + '.join(reads)}",
                            [pl.GlobalArg("x, y", D, shape="n"), ...], assumptions="n >= 1")
    plan = pl.distribute(kernel, {"x": "block", "y": "block"}, "i:mesh.0", (ranks,)).plan(n=n)
    block = -(-n // ranks)
    for rank in range(ranks):
        wanted = {(n - 1 - i if is_backward else i) + offset for i in range(3, n - 3) if i // block == rank
                  for offset in offsets}
        wanted = {element for element in wanted if element // block != rank}
        found = {element for exchange in plan.exchanges for message in plan.messages(exchange, (rank,), {})
                 if message.source != rank
                 for element in range(*message.box[0]) if message.source == element // block}
        own = {element for exchange in plan.exchanges for message in plan.messages(exchange, (rank,), {})
               if message.source != rank for element in range(*message.box[0])}
        assert found == own
        assert wanted <= found
        if not is_backward:
            assert 2*len(found) <= 3*len(wanted)


def test_windows_that_nothing_in_the_loop_writes_are_filled_ahead() -> None:
    case = programs.product()
    plan = case.divided((2, 2)).plan(**case.sizes)
    assert [(entry.field.name, entry.is_ahead) for entry in plan.exchanges] == [("a_part", True), ("b_part", True)]
    assert not any(entry.is_ahead for entry in case.divided((2, 2), overlap=False).plan(**case.sizes).exchanges)
    written = programs.sparse()
    plan = written.divided((2,)).plan(**written.sizes)
    assert [(entry.field.name, entry.is_ahead) for entry in plan.exchanges] == [("x_part", False)]
    early = with_ahead(plan.nodes)
    assert incompleteness(plan) == ()
    assert [entry.code for entry in incompleteness(Plan(plan.regions, plan.locals, early))] == ["incomplete-exchange"]


def with_ahead(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return the nodes of a plan in which each exchange runs ahead."""
    return tuple(
        replace(node, is_ahead=True) if isinstance(node, Exchange)
        else replace(node, body=with_ahead(node.body)) if isinstance(node, Repeat) else node
        for node in nodes)


def smoothed(**sizes: int) -> programs.Case:
    """Two arrays that are changed in turn: the elements of one can go while the other one is computed."""
    kernel = pl.make_kernel(
        "{[i]: 1 <= i < n - 1}",
        """
        for i
            u[i] = 2*u[i] {id=first}
        end
        for i
            w[i] = w[i] + 1 {id=between}
        end
        for i
            v[i] = u[i - 1] + u[i + 1] + w[i] {id=last}
        end
        """, [pl.GlobalArg("u, v, w", D, shape="n"), ...], name="smoothed", assumptions="n >= 3")
    return programs.Case(kernel, dict.fromkeys("uvw", "block"), "i:mesh.0", {"n": 11, **sizes})


def shown(nodes: tuple[Node, ...]) -> list[str]:
    """Return the order of the statements of a plan."""
    found = []
    for node in nodes:
        match node:
            case Send():
                found.append(f"send {node.exchange.field.array}")
            case Exchange():
                found.append(f"receive {node.field.array}")
            case Run():
                found += [*(f"receive {entry.field.array} beside" for entry in node.during),
                          " and ".join(node.phase.instructions)]
            case Repeat():
                found += [f"for {node.iname}", *shown(node.body)]
    return found


def test_elements_are_sent_as_soon_as_nothing_writes_them() -> None:
    """Sending stands in front of what touches neither array, behind what writes it; a panel in front of its loop."""
    apart = smoothed()
    for case, mesh, expected in (
        (apart, (3,), ["first and between", "receive u beside", "last"]),
        (programs.product(), (2, 2), ["send a", "send b", "insn", "for panel", "receive a", "receive b", "insn_1"]),
    ):
        plan = case.divided(mesh).plan(**case.sizes)
        assert shown(plan.nodes) == expected
        assert compare(case, mesh) == compare(case, mesh, overlap=False)


def test_the_proof_has_the_times_of_sending_and_of_receiving() -> None:
    """A send in front of a write, and one without its receive, leave reads without their elements."""
    case = programs.product()
    plan = case.divided((2, 2)).plan(**case.sizes)
    assert incompleteness(plan) == ()
    sends = [node for node in plan.nodes if isinstance(node, Send)]
    for send in sends:
        rest = tuple(node for node in plan.nodes if node is not send)
        assert incompleteness(Plan(plan.regions, plan.locals, rest))
        received_before = (send, *without(plan.nodes, send.exchange.number))
        assert incompleteness(Plan(plan.regions, plan.locals, received_before))
    case = smoothed()
    plan = case.divided((3,), overlap=False).plan(**case.sizes)
    exchange, = plan.exchanges
    marked = replace(exchange, is_sent=True)
    nodes = tuple(marked if node is exchange else node for node in plan.nodes)
    place = nodes.index(marked)
    assert incompleteness(Plan(plan.regions, plan.locals, (*nodes[:place], Send(exchange), *nodes[place:]))) == ()
    found, = incompleteness(Plan(plan.regions, plan.locals, (Send(exchange), *nodes)))
    assert found.code == "incomplete-exchange"


def test_boxes_are_disjoint_and_cover() -> None:
    import islpy as isl  # noqa: PLC0415 - for this test alone

    cross = isl.Set("{ [i, j] : (0 <= i < 5 and j = 2) or (i = 2 and 0 <= j < 5) }")
    boxes = boxes_of(cross)
    points = [point for box in boxes for point in product(*(range(*axis) for axis in box))]
    assert len(points) == len(set(points)) == 9
    turned = isl.Set("{ [i, j] : (i = 2 and 0 <= j < 2) or (0 <= i < 5 and j = 2) or (i = 2 and 3 <= j < 5) }")
    assert boxes_of(turned) == boxes == [((0, 2), (2, 3)), ((2, 3), (0, 5)), ((3, 5), (2, 3))]
    assert boxes_of(isl.Set("{ [i] : 0 <= i < 29 and i mod 2 = 0 }")) == [((0, 29),)]


def refused(
    text: str, arrays: dict[str, str], over: str, data: list[Any] | None = None,
    domain: str = "{[i, j]: 0 <= i, j < n}",
) -> pl.Diagnostic:
    """Return the finding of a division."""
    kernel = pl.make_kernel(domain, text, [*(data or [pl.GlobalArg("x, y", D, shape="n")]), ...], name="knl",
                            silenced_warnings="*", assumptions="n >= 1")
    with pytest.raises(pl.KernelError) as err:
        pl.distribute(kernel, arrays, over)
    found: pl.Diagnostic = err.value.found[0]
    return found


def test_a_recurrence_along_a_divided_loop_names_two_instances_and_their_ranks() -> None:
    found = refused("y[i] = y[i - 1] + x[i]", {"x": "block", "y": "block"}, "i:mesh.0", domain="{[i]: 1 <= i < n}")
    assert found.code == "message-inside"
    assert found.notes == (
        "instance (i=1) of 'insn' writes y[1], which instance (i=2) of 'insn' reads",
        "along mesh.0 with blocks of 2: rank 0 runs the first, rank 1 the second",
    )
    assert found.witness is not None
    assert found.witness.element == (1,)


def test_writes_to_what_others_own_are_refused() -> None:
    assert refused("y[i] = x[i]", {"x": "block"}, "i:mesh.0", domain="{[i]: 0 <= i < n}").code == "not-the-owner"
    found = refused("y[k[i]] = x[i]", {"x": "block", "y": "block", "k": "block"}, "i:mesh.0",
                    domain="{[i]: 0 <= i < n}",
                    data=[pl.GlobalArg("x, y", D, shape="n"), pl.GlobalArg("k", np.int32, shape="n")])
    assert found.code == "not-the-owner"
    assert "depends on data" in found.message


@pytest.mark.parametrize(("arrays", "over", "code"), [
    ({"x": "block"}, "k:mesh.0", "unknown-iname"),
    ({"z": "block"}, "i:mesh.0", "unknown-array"),
    ({"x": "block"}, "i", "bad-distribution"),
    ({"x": "blocks"}, "i:mesh.0", "bad-distribution"),
    ({"x": "block, block"}, "i:mesh.0", "bad-distribution"),
    ({"x": "block.1"}, "i:mesh.0", "bad-distribution"),
    ({"x": "block"}, "i:mesh.1", "bad-distribution"),
    ({"x": "block"}, "i:mesh.0, i:mesh.1", "bad-distribution"),
])
def test_divisions_that_say_nothing_are_refused(arrays: dict[str, str], over: str, code: str) -> None:
    assert refused("y[i] = x[i]", arrays, over, domain="{[i]: 0 <= i < n}").code == code


def test_a_mesh_of_another_rank_is_refused() -> None:
    case = programs.heat()
    with pytest.raises(pl.KernelError) as err:
        pl.distribute(case.kernel, case.arrays, case.over, (4,))
    assert err.value.codes == ("mesh-mismatch",)
    divided = pl.distribute(case.kernel, case.arrays, case.over)
    with pytest.raises(pl.ArgumentError) as missing:
        divided.plan(**case.sizes)
    assert missing.value.codes == ("mesh-mismatch",)
    with pytest.raises(pl.ArgumentError) as other:
        divided.plan((2, 2), n=5)
    assert other.value.codes == ("missing-size",)


def test_a_transformed_kernel_is_refused() -> None:
    case = programs.transpose()
    with pytest.raises(pl.KernelError) as err:
        pl.distribute(pl.split_iname(case.kernel, "j", 4), case.arrays, case.over)
    assert err.value.codes == ("bad-distribution",)


def test_a_reduction_that_engines_do_not_have_is_refused() -> None:
    found = refused("y[i] = argmax(j, x[j], j).index", {"x": "block"}, "j:mesh.0",
                    data=[pl.GlobalArg("x", D, shape="n"), pl.GlobalArg("y", np.int32, shape="n")])
    assert found.code in {"not-combinable", "bad-distribution"}


def test_kernels_of_ranks_are_transformed_like_others() -> None:
    case = programs.heat_1d_mesh()
    divided = case.divided((2,))
    assert [*divided.kernels] == ["heat_0", "heat_1"]
    tiled = divided.transformed("heat_0", lambda knl: pl.split_iname(knl, "i", 2))
    assert "i_outer" in tiled.kernels["heat_0"].inames
    with pytest.raises(pl.ArgumentError) as unknown:
        divided.transformed("heat_7", lambda knl: knl)
    assert unknown.value.codes == ("unknown-kernel",)
    with pytest.raises(pl.ArgumentError) as wrong:
        divided.transformed("heat_0", lambda _: divided.kernels["heat_1"])
    assert wrong.value.codes == ("wrong-kernel",)
    expected = case.expected()["u"]

    def program(engine: pl.Engine) -> Any:
        return case.on_rank(tiled.compile(engine, pl.CTarget()))["u"]

    for found in pl.run_ranks(2, program):
        np.testing.assert_array_equal(found, expected)


def calls(count: int, call: Any) -> pl.PolyloopError:
    """Return the error of a call on ranks that are threads."""
    case = programs.heat_1d_mesh()
    divided = case.divided((count,))
    with pytest.raises(pl.PolyloopError) as err:
        pl.run_ranks(count, lambda engine: call(divided.compile(engine, pl.CTarget()), case, engine), timeout=2)
    return err.value


def test_a_part_of_another_shape_is_refused() -> None:
    def call(run: pl.RankProgram, case: programs.Case, engine: pl.Engine) -> None:
        run(**{**case.inputs(), **case.sizes, **case.scalars})

    error = calls(2, call)
    assert error.codes == ("wrong-part",)
    assert "has the part u[" in str(error)


def test_ranks_that_disagree_are_found_at_the_first_call() -> None:
    def call(run: pl.RankProgram, case: programs.Case, engine: pl.Engine) -> None:
        run.plan(**{**case.sizes, "n": 9 + engine.rank})

    error = calls(3, call)
    assert error.codes == ("ranks-disagree",)


def test_a_rank_that_fails_ends_the_others() -> None:
    def call(run: pl.RankProgram, case: programs.Case, engine: pl.Engine) -> None:
        if engine.rank == 1:
            raise ZeroDivisionError
        run.plan(**case.sizes)

    case = programs.heat_1d_mesh()
    divided = case.divided((2,))
    with pytest.raises(ZeroDivisionError):
        pl.run_ranks(2, lambda engine: call(divided.compile(engine, pl.CTarget()), case, engine), timeout=30)


def test_a_rank_that_never_answers_is_an_error_after_the_timeout() -> None:
    def call(run: pl.RankProgram, case: programs.Case, engine: pl.Engine) -> None:
        if engine.rank == 0:
            run.plan(**case.sizes)

    error = calls(2, call)
    assert error.codes == ("rank-lost",)


@pytest.mark.parametrize("count", [1, 3])
def test_an_engine_of_another_size_is_refused(count: int) -> None:
    divided = programs.heat_1d_mesh().divided((2,))
    with pytest.raises(pl.ArgumentError) as err:
        pl.run_ranks(count, divided.compile)
    assert err.value.codes == ("mesh-mismatch",)


def test_arguments_that_are_missing_or_unknown_are_refused() -> None:
    def missing(run: pl.RankProgram, case: programs.Case, engine: pl.Engine) -> None:
        run(**case.sizes)

    def unknown(run: pl.RankProgram, case: programs.Case, engine: pl.Engine) -> None:
        run(w=1, **case.sizes)

    assert calls(1, missing).codes == ("missing-argument",)
    assert calls(1, unknown).codes == ("unknown-argument",)


@pytest.mark.parametrize("mesh", [(1, 1), (2, 1), (1, 3), (2, 2)])
def test_parts_move_between_programs_that_divide_otherwise(mesh: tuple[int, ...]) -> None:
    planes, rows = programs.product(), programs.transpose()
    kernel = pl.make_kernel("{[i, j]: 0 <= i < m and 0 <= j < l}", "a[i, j] = 2*a[i, j]",
                            [pl.GlobalArg("a", D, shape="m, l"), ...], name="twice", assumptions="m >= 1 and l >= 1")
    whole = np.random.default_rng(3).random((10, 21))
    sizes = {"m": 10, "n": 7, "l": 21}
    first = planes.divided(mesh)
    others = [pl.distribute(kernel, {"a": spelled}, over)
              for spelled, over in (("*, block", "j:mesh.0"), ("block, *", "i:mesh.0"))]

    def program(engine: pl.Engine) -> list[Any]:
        run = first.compile(engine, pl.CTarget())
        part, found = run.scatter("a", whole, **sizes), []
        for other in others:
            there = other.compile(engine, pl.CTarget())
            moved = there.redistribute("a", part, run, **sizes)
            there(a=moved, m=10, l=21)
            back = run.redistribute("a", moved, there, **sizes)
            found += [there.gather("a", moved, **sizes), run.gather("a", back, **sizes)]
        return found

    for found in pl.run_ranks(int(np.prod(mesh)), program):
        for array in found:
            np.testing.assert_array_equal(array, 2*whole)
    with pytest.raises(pl.ArgumentError) as err:
        pl.run_ranks(1, lambda engine: planes.divided((1, 1)).compile(engine, pl.CTarget()).redistribute(
            "a", whole, rows.divided((1,)).compile(engine, pl.CTarget()), **sizes))
    assert err.value.codes == ("unknown-array",)


def test_the_time_model_adds_what_is_not_hidden() -> None:
    """A GPU's bound of the kernels, and messages of a latency and a bandwidth, counted by hand."""
    kernel = pl.make_kernel(
        "{[t, i]: 0 <= t < steps and 1 <= i < n - 1}",
        """
        for t
            for i
                v[i] = u[i - 1] + u[i + 1]
            end
            for i
                u[i] = v[i]
            end
        end
        """, [pl.GlobalArg("u, v", D, shape="n"), ...], name="line", assumptions="n >= 3 and steps >= 0")
    divided = pl.distribute(kernel, {"u": "block", "v": "block"}, "i:mesh.0", (4,))
    for name in divided.kernels:
        divided = divided.transformed(name, lambda knl: pl.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0"))
    link = pl.Link(latency=1.0, bandwidth=16.0)
    found = divided.explain(None, link, "H100", n=1 << 20, steps=3)
    assert found.bytes == 3 * 6 * 8
    assert found.seconds == found.hidden == 3 * (2*1.0 + 16/16)  # two neighbours in the middle, 8 bytes of each
    sizes = {"n": 1 << 20, "steps": 3, "lo0": 1 << 18, "n0": 1 << 18, "at0": 0, "u_n0": (1 << 18) + 2,
             "v_n0": 1 << 18}
    one, two = (pl.explain(knl, sizes, "H100").seconds for knl in divided.kernels.values())
    assert found.computing == pytest.approx(3 * (one + two))
    assert found.total == found.seconds
    assert "computation: " in str(found)
    quick = divided.explain(None, pl.Link(1e-9, 1e15), "H100", n=1 << 20, steps=3)
    assert quick.total == quick.computing


def test_a_kernel_has_no_parameter_for_a_loop_around_that_changes_nothing_in_it() -> None:
    """Its calls in all iterations have the same arguments, and are checked once."""
    same, other = programs.heat(), programs.history()
    kernels = same.divided((2, 2)).kernels.values()
    assert all("t" not in {entry.name for entry in knl.arguments} for knl in kernels)
    assert all("t" in {entry.name for entry in knl.arguments} for knl in other.divided((2,)).kernels.values())


def test_messages_arrive_in_the_order_in_which_exchanges_began() -> None:
    def program(engine: pl.Engine) -> list[float]:
        other, buffers = 1 - engine.rank, [np.zeros(1), np.zeros(1)]
        first = engine.start([(other, np.array([1.0]))], [(other, buffers[0])])
        second = engine.start([(other, np.array([2.0]))], [(other, buffers[1])])
        second()
        first()
        return [float(buffer[0]) for buffer in buffers]

    assert pl.run_ranks(2, program) == [[1, 2], [1, 2]]


def test_a_kernel_divided_prints_its_phases() -> None:
    assert str(programs.layer_norm().divided((2,))).splitlines() == [
        "kernel norm, divided",
        "    norm_0: mean_sum",
        "    sum of 'mean_sum' over mesh.0",
        "    norm_1: insn, var_sum",
        "    sum of 'var_sum' over mesh.0",
        "    norm_2: insn_1, insn_2",
    ]
    assert "c_part" not in str(programs.product().divided((2, 2)))
    assert "        a_part: what it reads of 'a' elsewhere" not in str(programs.heat().divided((2, 2)))
    assert "a_part: what it reads of 'a' elsewhere" in str(programs.product().divided((2, 2)))
