"""`python -m bench.reproduce`: every paper's figures, tables and claims, and the claims into docs/results.md."""

import argparse
from pathlib import Path

from bench.results import replace_section
from echelon.cli.console import out, progress
from echelon.papers import PAPERS
from echelon.papers.claims import markdown, table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.reproduce", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for PNG and CSV files")
    parser.add_argument("--results", type=Path, help="Markdown file whose sections are to be replaced")
    arguments = parser.parse_args()
    for name, reproduce in PAPERS.items():
        folder = arguments.out / name
        folder.mkdir(parents=True, exist_ok=True)
        with progress(f"reproducing {name}") as tick:
            claims = reproduce(folder, progress=tick)
        out.print(table(claims))
        out.print(f"Figures and tables are in {folder}.")
        if arguments.results is not None:
            replace_section(arguments.results, f"reproduce {name}", markdown(claims))


if __name__ == "__main__":
    main()
