"""One file for each paper's figures, tables and claims. A new paper is one file and one line in `PAPERS`."""

from collections.abc import Callable

from echelon.papers import block, mmc, sequential, stream, traces
from echelon.papers.claims import Claim

PAPERS: dict[str, Callable[..., list[Claim]]] = {
    "block": block.reproduce,
    "mmc": mmc.reproduce,
    "sequential": sequential.reproduce,
    "stream": stream.reproduce,
    "traces": traces.reproduce,
}
