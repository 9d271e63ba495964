"""Skips, with their reason, for what a machine does not have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from polyloop.runtime.gpu import gpu_available
from polyloop.runtime.nvrtc import nvrtc_available


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked ``gpu`` or ``nvrtc`` where there is none."""
    for marker, available in (("gpu", gpu_available), ("nvrtc", nvrtc_available)):
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
