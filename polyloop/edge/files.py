"""Files that others may have changed: read as plain files, and to a limit."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

__all__ = ["plain_content"]

_READ: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def plain_content(path: Path, most: int, *, follow: bool = False) -> bytes:
    """Return the first *most* bytes of a plain file.

    Parameters
    ----------
    follow
        True if the file may be a symbolic link.

    Raises
    ------
    OSError
        It cannot be read, or is no plain file, such as a folder, or a pipe that a reader would wait for.
    """
    descriptor = os.open(path, _READ | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"'{path.name}' is no plain file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(min(most, status.st_size))  # memory for no more than there is
    finally:
        os.close(descriptor)
