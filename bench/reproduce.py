"""`python -m bench.reproduce`: every paper's figures, tables and claims, and the claims into docs/results.md."""

import argparse
import csv
from pathlib import Path

from bench.results import markdown_table, replace_section
from echelon.cli.reproduce import reproduce
from echelon.papers import PAPERS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.reproduce", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for PNG and CSV files")
    parser.add_argument("--results", type=Path, help="Markdown file whose sections are to be replaced")
    arguments = parser.parse_args()
    for name in PAPERS:
        reproduce(name, arguments.out / name)
        if arguments.results is not None:
            with (arguments.out / name / "claims.csv").open(encoding="utf-8", newline="") as file:
                columns, *rows = csv.reader(file)
            replace_section(arguments.results, f"reproduce {name}", markdown_table(columns, rows))


if __name__ == "__main__":
    main()
