"""Reading pictures for the demo."""

from __future__ import annotations

import importlib
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from polyloop.cli.pictures import read_picture, shipped_picture
from polyloop.errors import ArgumentError


def test_the_shipped_picture_is_divided_by_no_tile() -> None:
    picture = shipped_picture()
    assert picture.shape == (254, 217)
    assert picture.dtype == np.float32
    assert all(extent % tile for extent in picture.shape for tile in (4, 8, 16, 32))
    assert picture.std() > 40  # a photograph, not a flat field


def test_both_copies_of_the_shipped_picture_are_equal() -> None:
    with files("polyloop").joinpath("data/portrait.png").open("rb") as stream:
        pixels = np.asarray(Image.open(stream))
    np.testing.assert_array_equal(shipped_picture(), pixels)


def test_a_colour_png_is_read_as_grayscale(tmp_path: Path) -> None:
    path = tmp_path / "colour.png"
    Image.new("RGB", (7, 5), (255, 255, 255)).save(path)
    picture = read_picture(path)
    assert picture.shape == (5, 7)
    assert (picture == 255).all()


def test_an_array_file_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "field.npy"
    np.save(path, np.arange(12.0).reshape(3, 4))
    np.testing.assert_array_equal(read_picture(path), np.arange(12.0, dtype=np.float32).reshape(3, 4))


def refusal(path: Path) -> str:
    with pytest.raises(ArgumentError) as error:
        read_picture(path)
    return str(error.value).replace(str(path), "FILE")


HINT = "\n  Hint: pass --image a PNG file, or a two-dimensional array saved with numpy.save"


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    message = "demo: cannot use picture 'FILE': there is no such file [bad-picture]" + HINT
    assert refusal(tmp_path / "none.png") == message


def test_a_file_that_is_no_picture_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.png"
    path.write_text("not a picture")
    assert "cannot identify image file" in refusal(path)


def test_an_array_file_with_objects_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "objects.npy"
    np.save(path, np.array([{}, None]), allow_pickle=True)
    assert "allow_pickle=False" in refusal(path)


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.zeros((4, 4, 3)), "a grayscale picture of at least 3 x 3 pixels is needed, this has shape (4, 4, 3)"),
        (np.zeros((2, 9)), "a grayscale picture of at least 3 x 3 pixels is needed, this has shape (2, 9)"),
        (np.full((4, 4), "x"), "its pixels are not real numbers but <U1"),
        (np.full((4, 4), np.inf), "it has pixels that are not finite"),
    ],
)
def test_an_array_that_is_no_picture_is_refused(tmp_path: Path, array: np.ndarray, reason: str) -> None:
    path = tmp_path / "array.npy"
    np.save(path, array)
    assert refusal(path) == f"demo: cannot use picture 'FILE': {reason} [bad-picture]" + HINT


def test_png_without_pillow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(b"")

    def absent(name: str) -> ModuleType:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    assert refusal(path) == (
        "demo: reading 'FILE' needs Pillow, which is not installed [no-picture-reader]\n"
        "  Hint: pip install pillow, or pass a two-dimensional array saved with numpy.save as a .npy file"
    )
