"""What-if against what really happens: a run of emulated workers replayed, and live runs of the same strategies.

Each cluster is run live in equal shares and recorded; the record is replayed, and every strategy that the replay names
is then run live, by the very plan that was replayed, on workers that draw the same times. Emulated workers sleep, so
several runs go on at once.
"""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench.advice_live import light_job
from bench.emulated import SLOW, cluster, equal, unequal
from bench.results import markdown_table
from echelon import Stream
from echelon.plan import Plan
from echelon.profile import Profile
from echelon.search.strategies import BASELINE, STRATEGIES
from echelon.stream import Record, read_record
from echelon.stream.what_if import what_if

ROUNDS = 120  # few are enough, since replay and live runs see the same times
PART_S = 0.12  # mean time of a part of the quickest worker, beside which messages take next to nothing
AT_ONCE = 3
WANTED = 0.03
SEED = 7


def clusters() -> list[tuple[str, str, Profile]]:
    paces, slow = equal(6, "round_pace", 0.5), equal(6, "straggler", 1.3, **SLOW)
    return [
        ("five steady and one three times slower", "gradient", cluster(24, unequal([1, 1, 1, 1, 1, 3], 0.3))),
        ("six whose pace changes by the round", "gradient", cluster(24, paces)),
        ("six equal, each five times slower in 10 % of rounds", "linear", cluster(24, slow)),
    ]


def report() -> str:
    rows, off, said = [], list[float](), list[str]()
    with ProcessPoolExecutor(AT_ONCE, mp_context=get_context("spawn")) as pool:
        chosen = [(name, work, profile.scaled(PART_S)) for name, work, profile in clusters()]
        equal_shares = [
            pool.submit(_live, work, profile, next(STRATEGIES[work](profile, [], 1)).plan())
            for _, work, profile in chosen
        ]
        records = [run.result() for run in equal_shares]
        found = [what_if(record, work=work) for (_, work, _), record in zip(chosen, records, strict=True)]
        runs = [
            [pool.submit(_live, work, profile, one.plan()) for one in all_.strategies if one.name != BASELINE]
            for (_, work, profile), all_ in zip(chosen, found, strict=True)
        ]
        for (name, _, _), all_, record, others in zip(chosen, found, records, runs, strict=True):
            said.append(f"- {name}: {all_.sentence}")
            waiting = iter(others)
            for number, one in enumerate(all_.strategies):
                live = _mean(record if one.name == BASELINE else next(waiting).result())
                replayed, error = (value / len(record.rounds) for value in (one.seconds, one.error))
                off.append(replayed / live - 1)
                rows.append(
                    [
                        "" if number else name,
                        one.name,
                        f"{1e3 * replayed:.1f} ± {1e3 * error:.1f}",
                        f"{1e3 * live:.1f}",
                        f"{off[-1]:+.1%}",
                    ]
                )
    head = ["cluster", "strategy", "replayed ms", "live ms", "off"]
    return (
        f"Emulated worker processes, {ROUNDS} rounds each; the quickest takes {PART_S} s per part on average. The run "
        "in equal shares was recorded and replayed; the others then ran live, on the same times. ± holds in 99 of 100 "
        f"cases, for what is saved. Largest difference: {max(map(abs, off)):.1%} (wanted: {WANTED:.0%}).\n\n"
        f"{markdown_table(head, rows)}\n\n" + "\n".join(said)
    )


def _mean(record: Record) -> float:
    return float(np.mean([seen.end - seen.start for seen in record.rounds]))


def _live(work: str, profile: Profile, plan: Plan) -> Record:
    """Return the record of a live run by a plan, without its first round, which loads the work."""
    job = light_job(work, profile.workload.critical, plan, ROUNDS + 1)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        # nothing is given out again for being late: a plan is compared, and not what a stream does beside it
        with Stream(
            "processes", emulate=profile, seed=SEED, progress=False, record=path, patience_s=1e3
        ) as stream:  # fmt: skip
            stream.submit(job).result()
        record = read_record(path)
    record.rounds = record.rounds[1:]
    return record


if __name__ == "__main__":
    print(report())
