"""Every test run has a disk cache of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYLOOP_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield
