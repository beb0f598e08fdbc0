"""Pages that are no doctests: tests/test_contributing.py runs the files in them, in a copy of the package."""

collect_ignore = ["CONTRIBUTING.md", "docs/guide/scheme.md"]
