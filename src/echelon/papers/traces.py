"""The recorded times that came with the paper on sequential gradient coding (ICLR 2023): what codes take on them.

Codes with few copies of each part on the recording of a small network, the chains of the paper on the same rounds
(`trace_chains`), and the recording of a residual network, whose workers take some 16 s for any data at all.
"""

from collections.abc import Callable
from pathlib import Path

from echelon import plots
from echelon.delays import RecordedTimes
from echelon.errors import ArgumentError
from echelon.files import read_times
from echelon.papers import trace_chains
from echelon.papers.claims import BEYOND, Claim, run_steps, verdict, write_csv
from echelon.papers.trace_codes import Placed, Recording

TABLE = Path("examples") / "lambda" / "lambda.npz"
TOLERANCE = 1e-3  # seconds in all, of figures that were computed by sorting the table
SORTED = {"uncoded": 48.240, "cyclic": 27.541, "repetition, 4 copies": 22.643, "repetition, 8 copies": 20.540}
GRAPH = 20.8  # the most that a graph with 8 copies may take
MEDIAN = 19.68
LEAST = 0.02  # of the residual network's loads: below is a call without data, which is another thing
SHOWN = (2, 4, 8, 16)  # copies


def recorded(family: str) -> RecordedTimes:
    """Return a family of the recorded table, which lies in a checkout beside the package."""
    beside = Path(__file__).parents[3] / TABLE
    found = beside if beside.is_file() else TABLE
    if not found.is_file():
        raise ArgumentError(f"table: {TABLE} is not here; run in a checkout of the project, or give --table FILE.npz")
    return read_times(found, family)


def reproduce(folder: Path, *, seed: int = 1, progress: Callable[[int, int], None] | None = None) -> list[Claim]:
    """Write PNG and CSV files into `folder`; return the claims with verdicts."""
    return run_steps(folder, seed, (_codes, _chains, _residual_network), progress)


def _codes(folder: Path, seed: int) -> list[Claim]:
    """Compare the evaluator, the master in virtual time, and what sorting the table gives."""
    known = Recording(recorded("cnn"))
    best = known.best_cyclic()
    placed = {
        "uncoded": known.uncoded(),
        "cyclic": known.cyclic(best.s),
        "repetition, 4 copies": known.repetition(4),
        "repetition, 8 copies": known.repetition(8),
        "graph, 8 copies": known.graph(8, seed=seed),
    }
    took = {name: known.seconds(one) for name, one in placed.items()}
    driven = {name: known.in_virtual_time(one) for name, one in placed.items()}
    write_csv(folder / "codes.csv", ["code", "seconds", "virtual_time"], [[n, took[n], driven[n]] for n in placed])
    _draw(folder, known, seed)
    claims = [
        Claim(
            "CNN",
            f"{name}{f', s = {best.s}' if name == 'cyclic' else ''}: {known.table.rounds} rounds",
            f"{stated:.3f} s",
            f"{took[name]:.3f} s; {driven[name]:.3f} s in virtual time",
            verdict(max(abs(took[name] - stated), abs(driven[name] - stated)) <= TOLERANCE),
            f"time of a call without data and {known.slope:.3f} s times the share of the data; by sorting the table",
        )
        for name, stated in SORTED.items()
    ]
    name, median = "graph, 8 copies", known.median()
    claims.append(
        Claim(
            "CNN",
            f"{name}: little more than the median worker, {MEDIAN} s",
            f"at most {GRAPH} s",
            f"{took[name]:.3f} s; {driven[name]:.3f} s in virtual time; the median worker {median:.2f} s",
            verdict(max(took[name], driven[name]) <= GRAPH and abs(median - MEDIAN) < 0.01),
            "a random graph, ended with the first rows that give the sum",
        )
    )
    sparse = min(took["repetition, 8 copies"], took[name])
    claims.append(
        Claim(
            "CNN",
            "8 copies take a quarter less than the best cyclic code, of which any n - s rows are enough",
            "a quarter",
            f"{1 - sparse / took['cyclic']:.0%} less than s = {best.s}",
            verdict(sparse <= 0.76 * took["cyclic"]),
            "a cyclic code must have as many rows of all, a sparse one the right few",
        )
    )
    return claims


def _draw(folder: Path, known: Recording, seed: int) -> None:
    drawn, (axis,) = plots.figure()
    axis.plot(SHOWN, [known.seconds(known.repetition(copies)) for copies in SHOWN], "o-", label="repetition")
    axis.plot(SHOWN, [known.seconds(known.graph(copies, seed=seed)) for copies in SHOWN], "s-", label="graph")
    axis.axhline(known.best_cyclic().seconds, color="tab:red", label="best cyclic code")
    axis.axhline(known.median(), color="tab:grey", linestyle="--", label="median worker")
    axis.set_xscale("log", base=2)
    axis.set_xlabel("copies of each part")
    axis.set_ylabel(f"{known.table.rounds} rounds (s)")
    axis.legend()
    plots.save(drawn, folder / "copies.png")


def _chains(folder: Path, seed: int) -> list[Claim]:
    return trace_chains.chains(folder, recorded("cnn"))


def _residual_network(folder: Path, seed: int) -> list[Claim]:
    """Take each code at the load that it has, between those recorded from `LEAST` up."""
    table = recorded("resnet18").above(LEAST)
    known = Recording(table, load=LEAST)

    def seconds(placed: Placed) -> float:
        return Recording(table, load=max(LEAST, placed.share)).seconds(placed)

    every = known.workers - 1
    took = {
        "uncoded": seconds(known.uncoded()),
        "repetition, 4 copies": seconds(known.repetition(4)),
        "repetition, 8 copies": seconds(known.repetition(8)),
        "graph, 8 copies": seconds(known.graph(8, seed=seed)),
        "cyclic, s = 35": seconds(known.counted(35)),
        "all data everywhere": seconds(known.counted(every)),
    }
    write_csv(folder / "residual_network.csv", ["code", "seconds"], [[name, found] for name, found in took.items()])
    least = min(took, key=lambda name: took[name])
    told = "; ".join(f"{name} {found:.0f} s" for name, found in took.items())
    return [
        Claim(
            "ResNet-18",
            f"sparse placements on {table.rounds} rounds with a fixed cost for any data",
            "nothing",
            told,
            BEYOND,
            f"each code at its own load, at least {LEAST}; most workers take 16 s whatever they compute, and one in "
            f"twenty takes 3 s: no code that needs many workers gains much, and '{least}' is quickest",
        )
    ]
