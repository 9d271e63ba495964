"""Skips, with their reason, for what a machine does not have."""

from __future__ import annotations

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
