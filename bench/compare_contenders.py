"""Who takes part in the comparison, and what each does."""

from dataclasses import dataclass

from bench.compare_jobs import SAME
from bench.compare_lines import lines_of


@dataclass(frozen=True)
class Contender:
    """Who takes part, by which package, in which module (`run(case) -> Run`), and what it does.

    others: its further modules.
    """

    name: str
    package: str
    module: str
    how: str
    others: tuple[str, ...] = ()

    @property
    def lines(self) -> int:
        """How many lines of code it took."""
        return lines_of([self.module, *self.others])


OURS = Contender(
    "echelon",
    "echelon",
    "compare_echelon",
    'knows the laws of its workers (`profile=`) and chooses the strategy by them (`strategy="auto"`); a worker that '
    "dies is replaced, and what it had to do is given to others",
)
CONTENDERS = [
    OURS,
    Contender(
        "Ray, documented",
        "ray",
        "compare_ray",
        "`ActorPool.map_unordered` over the parts, with an actor for each worker that Ray restarts when it dies "
        "(`max_restarts`, `max_task_retries`)",
    ),
    Contender(
        "Ray, by hand",
        "ray",
        "compare_ray_hand",
        "the plan below: an actor takes its lane in one call and streams the results, and `ray.wait` over the streams "
        "tells the driver whom to give more; a call of the next round ends what is left of the one before; the parts "
        "of an actor that died go to others, and a new one is started in its place",
        ("compare_hand",),
    ),
    Contender(
        "Dask, documented",
        "distributed",
        "compare_dask",
        "`LocalCluster` of processes with a thread each; data is scattered to all of them, and an iteration is one "
        "`client.map` over the parts and one `gather`; the scheduler gives parts of a worker that died to others, and "
        "its nanny starts another one",
    ),
    Contender(
        "Dask, by hand",
        "distributed",
        "compare_dask_hand",
        "the plan below: an actor on each worker, one call for each part straight to it (`direct_to_workers`), from "
        "an asynchronous client; actors learn of the next round and drop what is left of the one before; the parts of "
        "an actor that died go to others",
        ("compare_hand",),
    ),
    Contender(
        "torch, documented",
        "torch",
        "compare_torch",
        "equal shares over gloo: training by `DistributedDataParallel`, the solve by `all_reduce` of the product; "
        "where a rank dies all fail, and as many new ones as are left go on from the state before (forked, and with a "
        "checkpoint that costs nothing: less than `torchrun` takes)",
    ),
    Contender(
        "torch, by hand",
        "torch",
        "compare_torch_hand",
        "the same with uneven batches, by the shares of Theorem 2; an `all_reduce` waits for every rank, so that there "
        "are no copies and nothing is pulled",
        ("compare_torch",),
    ),
]


def introduction() -> str:
    """Return what the tables show, and what each contender knows and does."""
    how = "\n".join(f"- {one.name} ({one.lines} lines): {one.how}." for one in CONTENDERS)
    return (
        "Mean time of an iteration, live, and that of the others as a multiple of echelon's in the same repeat: the "
        "median of all repeats, and in brackets the least and the most. Contenders take turns within a repeat. Workers "
        "are processes that sleep: the j-th part that a worker does in a round takes the j-th draw of its law for that "
        "seed, worker and round, whoever drives it, and an order that finds it idle comes after the delay of its link. "
        f"Results are computed for real, and all contenders end within {SAME:g} of what a single process computes. "
        "Clusters are scaled so that an iteration takes as long as the title says by echelon's strategy, as predicted. "
        "A part that has begun is finished, needed or not, as real code would do it. The worker that is killed "
        "(`kill -9`) dies in the middle of an iteration, when half of them are done. The first iteration, which brings "
        "the data to the workers, is left out, and so is all that comes before it.\n\n"
        f"{how}\n\n"
        "The plan that is carried out by hand (row 'by hand') is the best one without a code that `ec.advise` finds, "
        "with its shares, its pool and its copies; in rounds of 5 ms it is one message per worker in the shares of "
        "Theorem 2, because copies and a message per part cost Ray more there than they save. It is given: the lines "
        "that finding it would take are not counted. Lines are those of the modules of this comparison that a "
        "contender consists of, imports included, without blank lines, comments and docstrings; what starts an "
        "engine, what emulates the cluster and what the jobs compute is in other modules."
    )
