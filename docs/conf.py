"""Settings of the documentation: `make docs` builds it, offline, and the pages load nothing from elsewhere."""

import sys
from pathlib import Path

import echelon

sys.path.insert(0, str(Path(__file__).parent / "_sphinx"))

project = "echelon"
author = "the authors of echelon"
copyright = author
version = release = echelon.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "house_style", "mathml"]
exclude_patterns = ["_sphinx"]
html_static_path = ["_sphinx/static"]
html_css_files = ["house.css"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 110
# named, and not linked: what is not ours, for there are no inventories of other projects to fetch, and types that are
# only passed on from one of our functions to the next
nitpick_ignore_regex = [
    (r"py:.*", r"(?!echelon\.)[\w.]+(\[.*)?"),
    (r"py:class", r"echelon\.\w+\.\w+\.\w+"),
    (r"py:class", r"echelon\.arrays\.\w+"),
]

smartquotes = False
html_theme = "furo"
html_title = "echelon"
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"
