"""Threads and processes: what is compiled once, what waits, and what a fork leaves behind."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.edge import first, locks
from polyloop.runtime import cache
from polyloop.runtime.cache import CacheKey, DiskCache, open_cache
from polyloop.runtime.nvrtc import nvrtc_available
from tests.runtime.together import FACTORS, scaled

ROOT = Path(__file__).parents[2]


def at_once(work: Callable[[int], object], count: int = 16) -> list[BaseException]:
    """Run *work* in threads that begin together; return what they raised."""
    wrong, begin = list[BaseException](), threading.Barrier(count)

    def run(number: int) -> None:
        try:
            begin.wait()
            work(number)
        except BaseException as error:  # told to the test
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


@pytest.fixture
def _switches() -> Any:
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


# {{{ one compilation


def processes_and_threads(tmp_path: Path, processes: int, threads: int) -> None:
    log, go, folder = tmp_path / "log", tmp_path / "go", tmp_path / "cache"
    environment = {**os.environ, "POLYLOOP_CACHE_DIR": str(folder)}
    command = [sys.executable, "-m", "tests.runtime.together", str(log), str(go), str(threads)]
    running = [subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True) for _ in range(processes)]  # fmt: skip
    time.sleep(1)
    go.touch()
    for process in running:
        said, _ = process.communicate()
        assert process.returncode == 0, said
    compiled = Counter(line.partition(" ")[2] for line in log.read_text().splitlines())
    targets = ("c", "cuda") if nvrtc_available()[0] else ("c",)
    assert compiled == {f"scaled_{factor} {target}": 1 for factor in FACTORS for target in targets}
    store = DiskCache(folder)
    assert sum(entry.kind != "probe" for entry in store.entries()) == len(FACTORS) * len(targets)
    assert store.verify() == []
    assert [path.name for path in folder.iterdir() if path.name.startswith(".new-")] == []


def test_one_of_several_processes_compiles(tmp_path: Path) -> None:
    processes_and_threads(tmp_path, 2, 4)


@pytest.mark.slow
def test_one_of_many_processes_compiles(tmp_path: Path) -> None:
    processes_and_threads(tmp_path, 16, 16)


@pytest.mark.usefixtures("_switches")
def test_one_thread_makes_an_entry_and_the_others_wait(tmp_path: Path) -> None:
    store, made, key = DiskCache(tmp_path), list[int](), CacheKey("c", "text", "compiler")

    def make() -> dict[str, bytes]:
        made.append(threading.get_ident())
        time.sleep(0.05)
        return {"library.so": b"code"}

    got = list[dict[str, bytes]]()
    assert at_once(lambda _: got.append(store.made(key, make, {"library.so"}))) == []
    assert (len(made), len(got)) == (1, 16)
    assert all(files["library.so"] == b"code" for files in got)
    assert cache._LOCKS == {}


def test_a_failure_is_that_of_each_thread(tmp_path: Path) -> None:
    """Nothing is left locked, and the next one tries again."""
    store, key = DiskCache(tmp_path), CacheKey("c", "text", "compiler")

    def fail() -> dict[str, bytes]:
        raise ValueError("no compiler")

    wrong = at_once(lambda _: store.made(key, fail, {"library.so"}), 4)
    assert [type(error) for error in wrong] == [ValueError] * 4
    assert not any(str(tmp_path) in name for name in cache._LOCKS)
    assert store.made(key, lambda: {"library.so": b"code"}, {"library.so"}) == {"library.so": b"code"}


def test_a_process_that_is_killed_holds_nobody_up(tmp_path: Path) -> None:
    key, text = CacheKey("c", "text", "compiler"), """
import sys, time
from pathlib import Path
from polyloop.runtime.cache import CacheKey, DiskCache
def make():
    print("here", flush=True)
    time.sleep(60)
DiskCache(Path(sys.argv[1])).made(CacheKey("c", "text", "compiler"), make, {"library.so"})
"""
    with subprocess.Popen([sys.executable, "-c", text, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        process.kill()
    begin = time.perf_counter()
    assert DiskCache(tmp_path).made(key, lambda: {"library.so": b"code"}, {"library.so"})["library.so"] == b"code"
    assert time.perf_counter() - begin < 30


def test_a_directory_without_locks_is_used_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform == "win32":
        pytest.skip("no file locks")

    def refuse(*_: object) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    found = DiskCache(tmp_path).made(CacheKey("c", "text", "compiler"), lambda: {"a": b"1"}, {"a"})
    assert found == {"a": b"1"}


@pytest.mark.usefixtures("_switches")
def test_a_text_is_generated_once() -> None:
    knl, texts = scaled(7), list[object]()
    assert at_once(lambda _: texts.append(pl.generate_code(knl, target=pl.CTarget()))) == []
    assert len(texts) == 16
    assert all(text is texts[0] for text in texts)

# }}}


# {{{ calls


@pytest.mark.usefixtures("_switches")
def test_calls_of_one_kernel_from_many_threads() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = s*x[i] + t", [pl.GlobalArg("x, z", float, shape="n"),
                                                                    pl.ValueArg("s, t", float), ...], name="line")
    run = pl.compile(knl, target=pl.CTarget())
    x = np.arange(50.0)

    def calls(number: int) -> None:
        z = np.empty_like(x)
        step = run.bind(x=x, z=np.empty_like(x), s=float(number), t=1.0)
        for turn in range(200):
            run(x=x, z=z, s=float(number), t=float(turn))  # recognized, with new numbers
            np.testing.assert_array_equal(z, number * x + turn)
            few = x[: 10 + turn % 7]
            np.testing.assert_array_equal(run(x=few, s=1.0, t=float(number)).z, few + number)
            np.testing.assert_array_equal(step().z, number * x + 1)

    assert at_once(calls, 8) == []


@pytest.mark.usefixtures("_switches")
def test_kernels_that_are_specialized_from_many_threads() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = 2*x[i]", name="twice")
    run = pl.compile(knl, target=pl.CTarget())

    def calls(number: int) -> None:
        x = np.arange(20).astype((np.float32, np.float64, np.int32, np.int64)[number % 4])
        for _ in range(20):
            z = run(x=x).z
            assert z.dtype == x.dtype
            np.testing.assert_array_equal(z, 2 * x)

    assert at_once(calls, 8) == []
    assert len(run.specializations) == 4  # type: ignore[attr-defined]


def test_transforms_and_proofs_from_many_threads() -> None:
    """ISL's limit on steps is one of the process: threads take turns, and the budget of one is not that of others."""
    data = [pl.GlobalArg("a, b", float, shape="n, n"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "b[i, j] = 2*a[j, i]", data)

    def work(number: int) -> None:
        with pl.time_budget(20 + number):
            made = pl.split_iname(knl, "i", 4 + number, outer_tag="g.0", inner_tag="l.0")
            assert pl.verify(made).is_proven

    assert at_once(work, 6) == []

# }}}


# {{{ processes


def _doubled(number: int) -> bool:
    run = pl.compile(scaled(2), target=pl.CTarget())
    x = np.arange(10.0) + number
    return bool(np.array_equal(run(x=x).z, 2 * x))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_multiprocessing(method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method}")
    assert _doubled(0)  # the parent has used the kernel, and compiled
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(_doubled, range(4)) == [True] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_while_others_compile_leaves_no_lock_behind() -> None:
    """Locks that threads of the parent hold are none of the child's."""
    store, inside, go_on = open_cache(), threading.Event(), threading.Event()
    assert store is not None
    key = CacheKey("c", "a fork", "compiler")

    def make() -> dict[str, bytes]:
        inside.set()
        go_on.wait(30)
        return {"a": b"1"}

    thread = threading.Thread(target=store.made, args=(key, make, {"a"}))
    thread.start()
    inside.wait()
    child = os.fork()
    if not child:
        # another entry, of another file of locks: that of the first one is the thread's, which goes on in the parent
        fine = store.made(CacheKey("c", "another", "compiler"), lambda: {"a": b"2"}, {"a"}) == {"a": b"2"}
        os._exit(0 if fine and cache._LOCKS == {} else 1)
    try:
        assert os.waitpid(child, 0)[1] == 0
    finally:
        go_on.set()
        thread.join()
    assert store.read(key) == {"a": b"1"}


def _forked(check: Callable[[], bool]) -> int:
    """Return the status of a child that only checks; one that waits for a lock is ended."""
    child = os.fork()
    if not child:
        signal.alarm(60)
        os._exit(0 if check() else 1)
    return os.waitpid(child, 0)[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_every_lock_that_another_thread_holds_is_free_in_a_child() -> None:
    """Of ISL, of compilers, of kernels that are opened or specialized: a child compiles and calls what it likes."""
    kept, inside, go_on = pl.compile(_thrice(), target=pl.CTarget()), threading.Event(), threading.Event()
    data = pl.dumps(pl.compile(_thrice().add_dtypes({"x": np.float64}), target=pl.CTarget()))

    def hold() -> None:
        with contextlib.ExitStack() as held:
            for lock in [*locks._ALL]:
                held.enter_context(lock.now)
            inside.set()
            go_on.wait(60)

    def works() -> bool:
        x = np.arange(5.0)
        return np.array_equal(kept(x=x).z, 3 * x) and np.array_equal(pl.loads(data)(x=x).z, 3 * x)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    try:
        assert _forked(works) == 0
    finally:
        go_on.set()
        thread.join()


def _thrice() -> pl.LoopKernel:
    return pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = 3*x[i]", name="thrice")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_waits_for_modules_that_another_thread_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child would have half of a module, and wait for good for the lock that Python keeps for it."""
    begun, done = threading.Event(), list[bool]()

    def load(name: str) -> object:
        begun.set()
        time.sleep(0.2)
        done.append(True)
        return sys.modules[name]

    monkeypatch.setattr(first, "import_module", load)
    thread = threading.Thread(target=first.imported, args=("polyloop.errors",))
    thread.start()
    begun.wait()
    assert _forked(lambda: done == [True] and first._LOCK.acquire(blocking=False)) == 0
    thread.join()

# }}}
