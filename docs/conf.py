"""The site: python -m sphinx -W docs docs/_build/html."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]

import tfbaselines  # noqa: E402  The paths come first.

project = "tfbaselines"
author = "the authors of tfbaselines"
release = version = tfbaselines.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml", "generated", "algorithm_tables"]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
exclude_patterns = ["_build", "_generated"]

html_theme = "furo"
html_title = "tfbaselines"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_show_sphinx = False
html_copy_source = False
suppress_warnings = ["toc.empty_glob"]

pygments_style = "tango"
pygments_dark_style = "monokai"
