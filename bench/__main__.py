"""`python -m bench`: print every measurement, and put it into docs/results.md where asked."""

import argparse
from pathlib import Path

from bench import (
    block_layers,
    block_live,
    code_errors,
    code_speed,
    engines,
    live_runs,
    message_speed,
    multi_message_live,
    multi_message_speed,
    planning_speed,
    products,
    stream_speed,
)
from bench.results import replace_section

REPORTS = {
    "Simulation of a stream": stream_speed.report,
    "Simulation of single rounds": multi_message_speed.report,
    "Planning": planning_speed.report,
    "Decoding: speed": code_speed.report,
    "Decoding: errors": code_errors.report,
    "Live: messages": message_speed.report,
    "Live: runs": live_runs.report,
    "Live: multi-message schemes": multi_message_live.report,
    "Live: block coordinates": block_live.report,
    "Live: layers of networks": block_layers.report,
    "Live: chains of products": products.report,
    "Live: Ray and MPI": engines.report,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--results", type=Path, help="Markdown file whose section 'bench' is to be replaced")
    arguments = parser.parse_args()
    parts = []
    for title, report in REPORTS.items():
        parts.append(f"### {title}\n\n{report()}")
        print(parts[-1], end="\n\n", flush=True)
    if arguments.results is not None:
        replace_section(arguments.results, "bench", "\n\n".join(parts))


if __name__ == "__main__":
    main()
