"""Skips, with their reason, for what a machine does not have; and the tests of the quick set."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from polyloop.runtime.gpu import gpu_available
from polyloop.runtime.hip.clang import hip_available
from polyloop.runtime.nvrtc import nvrtc_available
from polyloop.runtime.opencl.devices import opencl_available

# How long examples take says how busy the machine is.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")
os.environ.setdefault("POLYLOOP_TRACEBACK", "full")  # a test that fails shows the frames of the library

_EACH: Final = frozenset(
    {"dataflow", "expr", "kernel", "optimize", "poly", "program", "schedule", "sync", "test_golden.py", "verification"}
)
"""Folders and modules of which the quick set has the first case of each test."""
_SAMPLED: Final = frozenset({"codegen", "cost", "creation", "frontend", "transform"})
"""Folders of which it has the first case of every fourth test."""
_LONG: Final = frozenset(
    {
        "test_binders.py", "test_distance_test.py", "test_hostile_names.py", "test_map_domain.py", "test_one_file.py",
        "test_parallel_reductions.py", "test_precompute.py", "test_reference.py", "test_scans.py",
        "test_scans_carried_last.py", "test_tensorize.py", "test_tensorize_float64.py", "test_written_barriers.py",
    }
)  # fmt: skip
"""Modules that take seconds a test, of which it has none."""


def sphinx_available() -> tuple[bool, str]:
    """Return whether the site can be built here, and if not, why."""
    missing = [name for name in ("furo", "myst_nb", "sphinx") if importlib.util.find_spec(name) is None]
    return not missing, f"not installed: {', '.join(missing)} (pip install '.[docs]')"


def _mark_quick(items: list[pytest.Item]) -> None:
    root, seen, sampled = Path(__file__).parent, set[tuple[Path, str]](), 0
    for item in items:
        name = getattr(item, "originalname", item.name)
        folder = item.path.relative_to(root).parts[0]
        is_new = (item.path, name) not in seen
        seen.add((item.path, name))
        if not is_new or item.path.name in _LONG or any(map(item.get_closest_marker, ("slow", "gpu"))):
            continue
        sampled += folder in _SAMPLED
        if folder in _EACH or (folder in _SAMPLED and sampled % 4 == 0):
            item.add_marker(pytest.mark.quick)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the quick set; skip tests marked ``gpu``, ``hip``, ``nvrtc``, ``opencl`` or ``site`` where there is none."""
    _mark_quick(items)
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


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--update-golden``."""
    parser.addoption("--update-golden", action="store_true", help="write the texts that tests compare with, anew")


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
