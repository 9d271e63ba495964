"""Whatever the library accepts agrees with the reference interpreter: in C, and in CUDA C in three thread orders.

The reproducer of a failure (seed, kernel, transforms) is printed as a note of the exception.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from polyloop.errors import CompilerError
from polyloop.runtime.ccompile import find_compiler
from polyloop.runtime.gpu import gpu_available
from tests.properties.agreement import check_chain


def _has_compilers() -> bool:
    try:
        find_compiler("c")
        find_compiler("c++")
    except CompilerError:
        return False
    return True


pytestmark = pytest.mark.skipif(not _has_compilers(), reason="no C and C++ compiler")


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYLOOP_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_accepted_chains_agree_with_the_interpreter(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 10):
        check_chain(seed, counts)
    assert counts["compared"] >= 2, counts


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 2200, 40))
def test_accepted_chains_agree_with_the_interpreter_at_length(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 40):
        check_chain(seed, counts)
    assert counts["compared"] >= 8, counts


@pytest.mark.gpu
@pytest.mark.skipif(not gpu_available()[0], reason=gpu_available()[1] or "a GPU is there")
@pytest.mark.parametrize("first", range(5000, 5600, 100))
def test_accepted_chains_agree_with_the_interpreter_on_a_gpu(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 100):
        check_chain(seed, counts, gpu=True)
    print(dict(counts))
    assert counts["compared"] >= 20, counts
