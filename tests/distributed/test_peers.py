"""Copies from GPU to GPU in one process: the calls of the driver and their order, on a driver of host memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from threading import Lock, get_ident
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.distributed.engines import inprocess
from polyloop.distributed.engines.peers import Place
from tests.distributed import programs
from tests.distributed.programs import Case

MAIN = 7


class FakePeers:
    """The driver of GPUs in host memory, a context for each thread.

    Kernels run at once on the main stream.  What is on another stream runs when the main stream waits for an event
    behind it, as late as it may; a copy that does not wait for what both GPUs had launched is an error.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.events: dict[int, tuple[str, int]] = {}  # number -> stream or "main", context
        self.queues: dict[int, list[Callable[[], object]]] = {}
        self.waited: dict[int, set[int]] = {}
        self.alive: set[int] = set()
        self.copies: list[int] = []
        self.count = 100

    def new(self) -> int:
        self.count += 1
        return self.count

    def call(self, name: str, *arguments: Any) -> None:
        with self.lock:
            getattr(self, name)(*arguments)

    def cuCtxGetCurrent(self, found: Any) -> None:  # noqa: N802 - of the driver
        found._obj.value = get_ident()

    def cuStreamCreate(self, found: Any, flags: Any) -> None:  # noqa: N802
        assert flags.value == 1
        found._obj.value = self.new()
        self.queues[found._obj.value] = []
        self.waited[found._obj.value] = set()

    def cuEventCreate(self, found: Any, flags: Any) -> None:  # noqa: N802
        assert flags.value == 2
        found._obj.value = self.new()
        self.alive.add(found._obj.value)

    def cuEventRecord(self, event: Any, stream: Any) -> None:  # noqa: N802
        self.events[event.value] = ("main" if stream.value == MAIN else str(stream.value), get_ident())

    def cuStreamWaitEvent(self, stream: Any, event: Any, flags: Any) -> None:  # noqa: N802
        del flags
        where, context = self.events[event.value]
        if stream.value != MAIN:
            assert where == "main"
            self.waited[stream.value].add(context)
            return
        for run in self.queues[int(where)]:
            run()
        self.queues[int(where)].clear()

    def cuEventDestroy_v2(self, event: Any) -> None:  # noqa: N802
        self.alive.remove(event.value)

    def cuCtxEnablePeerAccess(self, context: Any, flags: Any) -> None:  # noqa: N802
        assert context.value != get_ident()
        raise pl.CompilerError("call", None, [pl.Diagnostic("driver-failed", "peer access is enabled already")])

    def cuMemcpyPeerAsync(  # noqa: N802
        self, to: Any, mine: Any, source: Any, other: Any, size: Any, stream: Any
    ) -> None:
        assert mine.value == get_ident()
        assert self.waited[stream.value] >= {mine.value, other.value}, "a copy before the data are there"
        self.waited[stream.value].clear()
        self.waited[stream.value].add(mine.value)
        self.copies.append(size.value)
        self.queues[stream.value].append(partial(ctypes.memmove, to.value, source.value, size.value))

    def place(self, ordinal: int) -> Place:
        del ordinal
        return Place(self, lambda: MAIN, lambda buffer: isinstance(buffer, np.ndarray))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakePeers:
    found = FakePeers()
    monkeypatch.setattr(inprocess, "gpu_place", found.place)
    return found


def run_on(case: Case, mesh: tuple[int, ...], devices: list[int], *, exact: bool) -> int:
    """Compare a program on GPUs with the undivided kernel, and return the bytes sent."""
    divided, expected = case.divided(mesh), case.expected()

    def program(engine: pl.Engine) -> tuple[dict[str, Any], int]:
        run = divided.compile(engine, pl.CTarget())
        found = case.on_rank(run)
        return found, run.sent

    results = pl.run_ranks(len(devices), program, timeout=60, devices=devices)
    for arrays, _ in results:
        for name, value in arrays.items():
            np.testing.assert_allclose(value, expected[name], rtol=0 if exact else 1e-12, err_msg=name)
    return sum(sent for _, sent in results)


@pytest.mark.parametrize(("case", "mesh", "exact"), [
    (programs.heat(), (2, 2), True), (programs.product(), (1, 3), True), (programs.extremes(), (3,), False),
    (programs.columns(), (3,), False), (programs.sparse(n=5), (4,), True), (programs.heat_1d_mesh(n=5), (4,), True),
], ids=str)
def test_messages_are_ordered_copies(case: Case, mesh: tuple[int, ...], exact: bool, fake: FakePeers) -> None:
    count = int(np.prod(mesh))
    sent = run_on(case, mesh, [*range(count)], exact=exact)
    assert not fake.alive, "events that nothing destroys"
    if case.kernel.name == "heat":
        gathers = sum(fake.copies) - sent  # of whole arrays, to compare them
        assert gathers > 0
        assert sent == case.divided(mesh).explain(**case.sizes).bytes
    assert fake.copies


def test_a_rank_that_offers_nothing_is_lost(fake: FakePeers) -> None:
    def program(engine: pl.Engine) -> None:
        if engine.rank == 0:
            engine.start([], [(1, np.zeros(3))])()

    with pytest.raises(pl.CommunicationError) as err:
        pl.run_ranks(2, program, timeout=0.3, devices=(0, 1))
    assert err.value.codes == ("rank-lost",)


def test_messages_of_another_length_are_refused(fake: FakePeers) -> None:
    def program(engine: pl.Engine) -> None:
        other = 1 - engine.rank
        engine.start([(other, np.zeros(3))], [(other, np.zeros(4))])()

    with pytest.raises(pl.CommunicationError, match="32 bytes from rank"):
        pl.run_ranks(2, program, timeout=5, devices=(0, 1))


def test_devices_are_named_for_all_ranks() -> None:
    with pytest.raises(pl.ArgumentError) as err:
        pl.run_ranks(2, lambda _: None, devices=(0,))
    assert err.value.codes == ("mesh-mismatch",)


def test_a_gpu_that_is_not_there_is_no_engine() -> None:
    with pytest.raises(pl.CommunicationError) as err:
        pl.run_ranks(1, lambda _: None, devices=(99,))
    assert err.value.codes == ("no-engine",)


@pytest.mark.gpu
@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("devices", [(0, 0), (0, 1)], ids=["one", "two"])
def test_programs_run_on_gpus_of_one_process(devices: tuple[int, ...]) -> None:
    torch: Any = import_module("torch")
    if torch.cuda.device_count() <= max(devices):
        pytest.skip(f"{torch.cuda.device_count()} GPUs are here")
    for case in (programs.heat_1d_mesh(n=33, steps=5), programs.columns(), programs.extremes(), programs.sparse()):
        divided, expected = case.divided((2,)), case.expected()

        def program(engine: pl.Engine, case: Case = case, divided: pl.DistributedKernel = divided) -> dict[str, Any]:
            found = case.on_rank(divided.compile(engine, pl.CudaTarget()), lambda array: torch.from_numpy(array).cuda())
            torch.cuda.synchronize()
            return {name: value.cpu().numpy() for name, value in found.items()}

        for arrays in pl.run_ranks(2, program, devices=devices):
            for name, value in arrays.items():
                np.testing.assert_allclose(value, expected[name], rtol=1e-12, atol=1e-12, err_msg=name)
