"""Skips, with their reason, for what a machine does not have."""

from __future__ import annotations

import importlib
import importlib.util

import pytest


def _missing_gpu() -> str | None:
    if importlib.util.find_spec("pycuda") is None:
        return "PyCUDA is not installed"
    try:
        driver = importlib.import_module("pycuda.driver")
        driver.init()
        count = driver.Device.count()
    except (ImportError, RuntimeError) as error:
        return f"no CUDA driver: {error}"
    return None if count else "no NVIDIA GPU"


def _missing_nvrtc() -> str | None:
    try:
        importlib.import_module("cuda.core")
        nvrtc = importlib.import_module("cuda.bindings.nvrtc")
        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        return f"NVRTC is not installed: {error}"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked ``gpu`` or ``nvrtc`` where there is none."""
    for marker, missing in (("gpu", _missing_gpu), ("nvrtc", _missing_nvrtc)):
        marked = [item for item in items if item.get_closest_marker(marker)]
        reason = missing() if marked else None
        if reason is not None:
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=reason))
