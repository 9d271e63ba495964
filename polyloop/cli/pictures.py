"""Input image of the stencil demo."""

from __future__ import annotations

import importlib
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyloop.errors import ArgumentError, Diagnostic

__all__ = ["Picture", "read_picture", "shipped_picture"]

Picture: TypeAlias = NDArray[np.float32]

_MIN_EXTENT: Final = 3


def shipped_picture() -> Picture:
    """Return the photograph that comes with the package (254 x 217, see ``data/README.md``)."""
    with files("polyloop").joinpath("data/portrait.npy").open("rb") as stream:
        return np.asarray(np.load(stream, allow_pickle=False), np.float32)


def read_picture(path: Path) -> Picture:
    """Read a picture as grayscale.

    Parameters
    ----------
    path
        A ``.npy`` file with a two-dimensional array, or a picture in any format that Pillow reads.

    Raises
    ------
    ArgumentError
        ``bad-picture``, ``no-picture-reader``.
    """
    if not path.is_file():
        raise _bad(path, "there is no such file")
    pixels = _load_npy(path) if path.suffix == ".npy" else _load_with_pillow(path)
    if pixels.ndim != 2 or min(pixels.shape) < _MIN_EXTENT:
        raise _bad(path, f"a grayscale picture of at least 3 x 3 pixels is needed, this has shape {pixels.shape}")
    if pixels.dtype.kind not in "buif":
        raise _bad(path, f"its pixels are not real numbers but {pixels.dtype}")
    picture = pixels.astype(np.float32)
    if not np.isfinite(picture).all():
        raise _bad(path, "it has pixels that are not finite")
    return picture


def _bad(path: Path, message: str) -> ArgumentError:
    return ArgumentError(
        "demo",
        None,
        [
            Diagnostic(
                "bad-picture",
                f"cannot use picture '{path}': {message}",
                hints=("pass --image a PNG file, or a two-dimensional array saved with numpy.save",),
            )
        ],
    )


def _load_npy(path: Path) -> NDArray[np.generic]:
    try:
        loaded = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise _bad(path, str(error)) from error
    return np.asarray(loaded)


def _pillow(path: Path) -> ModuleType:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError as error:
        found = Diagnostic(
            "no-picture-reader",
            f"reading '{path}' needs Pillow, which is not installed",
            hints=("pip install pillow, or pass a two-dimensional array saved with numpy.save as a .npy file",),
        )
        raise ArgumentError("demo", None, [found]) from error


def _load_with_pillow(path: Path) -> NDArray[np.generic]:
    pillow = _pillow(path)
    try:
        with pillow.open(path) as opened:
            return np.asarray(opened.convert("L"))
    except (pillow.UnidentifiedImageError, OSError, SyntaxError) as error:
        raise _bad(path, str(error)) from error
