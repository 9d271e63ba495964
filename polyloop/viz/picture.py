"""``Picture``: SVG for notebooks and files, and plain text for terminals."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from polyloop.display import Shown
from polyloop.edge.calls import public
from polyloop.edge.checks import OneOf
from polyloop.errors import ArgumentError, Diagnostic
from polyloop.viz.svg import Canvas, Label, svg_text

__all__ = ["Picture", "picture_of"]


@dataclass(frozen=True, eq=False)
class Picture(Shown):
    """A picture: a notebook shows it, ``print`` gives it as text, ``save`` writes it to a file.

    Attributes
    ----------
    title
        The subject in a few words, for readers who cannot see it, too.
    text
        The same as plain text.
    size
        Width and height [pixels].
    labels
        The texts in it, with the boxes that they take.
    """

    title: str
    text: str
    size: tuple[float, float]
    items: tuple[str, ...] = field(repr=False)
    labels: tuple[Label, ...] = field(repr=False)

    @public
    def svg(self, theme: Annotated[str, OneOf("auto", "light", "dark")] = "auto") -> str:
        """Return the picture as an SVG document of its own.

        Parameters
        ----------
        theme
            ``"auto"``: the colours that the reader's system prefers; or ``"light"``, or ``"dark"``.
        """
        return svg_text(self.size, self.items, self.title, theme)

    def _repr_svg_(self) -> str:
        return svg_text(self.size, self.items, self.title)

    def _repr_html_(self) -> None:
        """Leave it to the SVG."""

    @public
    def save(self, path: str | Path, theme: Annotated[str, OneOf("auto", "light", "dark")] = "auto") -> Path:
        """Write the picture to *path*, which ends in ``.svg``, or its text if it ends in ``.txt``; return the path.

        Raises
        ------
        ArgumentError
            ``bad-picture-file`` for another ending, or if the file cannot be written.
        """
        target = Path(path)
        if target.suffix not in (".svg", ".txt"):
            raise _bad(target, "its name ends in neither .svg nor .txt", 'picture.save("loops.svg")')
        text = f"{self.text}\n" if target.suffix == ".txt" else svg_text(self.size, self.items, self.title, theme)
        try:
            target.write_text(text, encoding="utf-8")
        except (OSError, ValueError) as error:  # of a zero in a name
            hint = "name a folder that is there, and that can be written to"
            raise _bad(target, getattr(error, "strerror", str(error)), hint) from error
        return target

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        width, height = self.size
        return f"<Picture: {self.title}, {width:.0f} x {height:.0f}>"


def _bad(path: Path, why: str, hint: str) -> ArgumentError:
    found = Diagnostic("bad-picture-file", f"cannot save a picture as '{path}': {why}", hints=(hint,))
    return ArgumentError("save", None, [found])


def picture_of(canvas: Canvas, title: str, text: str) -> Picture:
    """Return the picture on *canvas*."""
    return Picture(title, text, (canvas.width, canvas.height), tuple(canvas.items), tuple(canvas.labels))
