"""Kernels in the user's own spelling, run on every target: see ``base.py``; each module here adds some."""

from importlib import import_module
from pkgutil import iter_modules

from tests.gallery.base import GALLERY, Example

__all__ = ["GALLERY", "Example"]

for _module in sorted(found.name for found in iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")
