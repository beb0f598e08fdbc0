"""`python -m bench`: print every measurement, and put it into docs/results.md where asked."""

import argparse
from pathlib import Path

from bench import (
    advice_live,
    block_layers,
    block_live,
    code_errors,
    code_speed,
    data_plane,
    default_virtual,
    engines,
    lambda_codes,
    live_runs,
    local_sgd,
    message_speed,
    message_through_stream,
    multi_message_live,
    multi_message_speed,
    operators,
    overlap_live,
    page,
    planning_speed,
    policies,
    ports_virtual,
    products,
    residual_speed,
    resnet,
    sizes_by_speed,
    stream_speed,
    torch_training,
    verify_virtual,
    virtual_live,
    watched,
    what_if_live,
)
from bench.results import part, parts, replace_section

REPORTS = {
    "Simulation of a stream": stream_speed.report,
    "Simulation of single rounds": multi_message_speed.report,
    "Codes on recorded workers": lambda_codes.report,
    "Planning": planning_speed.report,
    "Decoding: speed": code_speed.report,
    "Decoding: errors": code_errors.report,
    "Decoding: how near rows come": residual_speed.report,
    "Live: messages": message_speed.report,
    "Live: a message through Stream beside the bare cluster": message_through_stream.report,
    "Live: runs": live_runs.report,
    "Live: multi-message schemes": multi_message_live.report,
    "Live: block coordinates": block_live.report,
    "Live: layers of networks": block_layers.report,
    "Live: chains of products": products.report,
    "Live: SciPy's solvers": operators.report,
    "Live: training with torch": torch_training.report,
    "Live: watched ranks": watched.report,
    "Live: chunks as large as workers are quick": sizes_by_speed.report,
    "Live: a residual network": resnet.report,
    "Data plane": data_plane.report,
    "Live: Ray and MPI": engines.report,
    "Live: several jobs at once": overlap_live.report,
    "Rounds that end by policies": policies.report,
    "Live: advice": advice_live.report,
    "Live: what another strategy would have taken": what_if_live.report,
    "The page of a run": page.report,
    "By default, beside the best advice": default_virtual.report,
    "Live and in virtual time": virtual_live.report,
    "In virtual time: wrong results": verify_virtual.report,
    "In virtual time: two data planes": ports_virtual.report,
    "In virtual time: local SGD with a quorum": local_sgd.report,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--results", type=Path, help="Markdown file whose section 'bench' is to be replaced")
    parser.add_argument("--only", choices=REPORTS, action="append", help="a measurement to make; may be repeated")
    arguments = parser.parse_args()
    known = {} if arguments.results is None or not arguments.only else parts(arguments.results, "bench")
    for title in arguments.only or REPORTS:
        known[title] = REPORTS[title]()
        print(part(title, known[title]), end="\n\n", flush=True)
    if arguments.results is not None:
        text = "\n\n".join(part(title, known[title]) for title in REPORTS if title in known)
        replace_section(arguments.results, "bench", text)


if __name__ == "__main__":
    main()
