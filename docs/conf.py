"""Settings of the site: ``python -m sphinx -W -b html docs docs/_build/html``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]
# Notebooks are executed by processes of their own, as a newcomer would see them.
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
os.environ["POLYLOOP_PROGRESS"] = "0"
os.environ.pop("POLYLOOP_TRACEBACK", None)

project = "polyloop"
author = "polyloop developers"
copyright = author  # noqa: A001 - Sphinx' name for it

extensions = ["flowcharts", "gallery", "myst_nb", "public_names", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "_ext"]
nitpicky = True
smartquotes_action = "D"  # dashes; quotes and dots stay as they are written
highlight_language = "none"
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

myst_enable_extensions = ["attrs_block", "deflist"]
myst_heading_anchors = 3

nb_execution_mode = "force"
nb_execution_timeout = 120
nb_execution_raise_on_error = True

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
maximum_signature_line_length = 90
napoleon_attr_annotations = False
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "furo"
html_title = "polyloop"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
