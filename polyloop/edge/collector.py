"""Python's garbage collector during a call: it looks through what the call makes less often.

A call makes many small objects that last as long as the kernel: expressions, forms, statements.  With Python's
thresholds each of them is looked at several times before it counts as old, and all old ones again and again, which is a
tenth of the time of a long chain of steps.  Modules that are imported last as long as the process, and are looked at as
often: a tenth of the time from the start of a process to its first kernel.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["AT_ONCE", "rare_collections"]

AT_ONCE: Final = 50_000
"""Objects that are made, less those that are gone, between two collections in a call: some 5 MB."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let the collector run after :data:`AT_ONCE` new objects inside of the ``with``.

    It is left alone where it is off, or runs as rarely by itself; and so is a threshold that is set meanwhile.  A
    thread that enters while another one is inside changes nothing, and leaves nothing behind.
    """
    before = gc.get_threshold()
    if not 0 < before[0] < AT_ONCE:
        yield
        return
    inside = (AT_ONCE, *before[1:])
    gc.set_threshold(*inside)
    try:
        yield
    finally:
        if gc.get_threshold() == inside:
            gc.set_threshold(*before)
