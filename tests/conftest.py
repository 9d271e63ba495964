"""Skips, with their reason, for what a machine does not have; options; the tests of the default and the quick set."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from polyloop.runtime import ccompile
from polyloop.runtime.gpu import gpu_available
from polyloop.runtime.hip.clang import hip_available
from polyloop.runtime.nvrtc import nvrtc_available
from polyloop.runtime.opencl.devices import opencl_available
from tests.samples import Recorder, mark_few, mark_quick

# How long examples take says how busy the machine is.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")
os.environ.setdefault("POLYLOOP_PROGRAM_CACHE", "0")  # tests are about what generates programs
os.environ.setdefault("POLYLOOP_TRACEBACK", "full")  # a test that fails shows the frames of the library


_AS_COMPILED: Final = frozenset({"export", "interop", "runtime", "test_examples.py", "test_gallery.py"})
"""Folders and modules whose C is optimized as that of users; elsewhere a run takes less time than -O3 would."""
_FLAGS: Final = ccompile._C_FLAGS
_QUICKLY: Final = tuple(flag.replace("-O3", "-O1") for flag in _FLAGS)


def sphinx_available() -> tuple[bool, str]:
    """Return whether the site can be built here, and if not, why."""
    missing = [name for name in ("furo", "myst_nb", "sphinx") if importlib.util.find_spec(name) is None]
    return not missing, f"not installed: {', '.join(missing)} (pip install '.[docs]')"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow cases and the quick set; skip tests of what is not there, such as a GPU."""
    mark_few(items)
    mark_quick(items)
    needs: dict[str, Callable[[], tuple[bool, str]]]
    needs = {
        "gpu": gpu_available, "hip": hip_available, "nvrtc": nvrtc_available, "opencl": opencl_available,
        "site": sphinx_available,
    }  # fmt: skip
    for marker, available in needs.items():
        marked = [item for item in items if item.get_closest_marker(marker)]
        is_there, reason = available() if marked else (True, "")
        if not is_there:
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=reason.partition("\n")[0]))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Compile C without the optimization that takes most of the time, where all that matters is what it computes."""
    part = item.path.relative_to(Path(__file__).parent).parts[0]
    is_quick = part not in _AS_COMPILED and item.get_closest_marker("slow") is None
    setattr(ccompile, "_C_FLAGS", _QUICKLY if is_quick else _FLAGS)  # noqa: B010 - a constant of the library


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--update-golden`` and ``--record-times``."""
    parser.addoption("--update-golden", action="store_true", help="write the texts that tests compare with, anew")
    parser.addoption("--record-times", action="store_true", help="measure tests, and write tests/times.json")


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled programs for all tests and the next run; measure tests if asked to."""
    cache = getattr(config, "cache", None)
    if cache is not None and "POLYLOOP_CACHE_DIR" not in os.environ:  # workers have that of the process that began
        with contextlib.suppress(OSError):
            os.environ["POLYLOOP_CACHE_DIR"] = str(cache.mkdir("polyloop") / "compiled")
    if config.getoption("--record-times"):
        config.pluginmanager.register(Recorder(is_worker=hasattr(config, "workerinput")))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let collections of garbage look at what tests make alone.

    Modules and thousands of tests are made before, and stay: to look through them takes a fifth of the time.
    """
    gc.disable()
    outcome = yield
    gc.freeze()
    gc.enable()
    return outcome


@pytest.fixture
def young_heap() -> None:
    """Let collections of garbage look at what the test makes alone, and at nothing that tests before it made."""
    gc.freeze()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function that compares a text with a file below ``tests/``, or writes it under ``--update-golden``."""
    update = bool(request.config.getoption("--update-golden"))

    def compare(name: str, text: str) -> None:
        path = Path(__file__).parent / name
        text = text.rstrip("\n") + "\n"
        if update:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{name} is missing: run pytest --update-golden, and read what it wrote"
        assert path.read_text(encoding="utf-8") == text, f"{name} differs: read the difference, then --update-golden"

    return compare
