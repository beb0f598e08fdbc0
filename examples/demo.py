"""Example 2 of the stream paper, live: five unequal workers train a real model, with the uniform split and with ours.

Five processes of this machine stand for the paper's workers: each takes the times that its law draws, scaled down so
that the whole demonstration takes under a minute. The jobs are those of `digits.py`.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import echelon as ec
from echelon import plots
from echelon.simulation import RoundSampler
from echelon.simulation.simulated_jobs import departures
from echelon.stream import read_record
from echelon.stream.recorded import record_timeline

sys.path.insert(0, str(Path(__file__).parent))
import digits

HERE = Path(__file__).parent
RULES = ("uniform", "theorem2")
PENALTY = 0.01


def main() -> None:
    """Run the demonstration and leave its records and its picture in a folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the records and the picture")
    parser.add_argument("--jobs", type=int, default=20, help="jobs in the stream")
    parser.add_argument("--scale", type=float, default=0.05, help="what the paper's times are multiplied by")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    console = Console()

    # ten iterations a job instead of fifty, at the same load: jobs arrive five times as often
    paper = ec.read_profile(HERE / "example2.toml")
    rate = paper.workload.arrivals.rate * paper.workload.iterations / digits.STEPS
    profile = paper.with_workload(iterations=digits.STEPS, arrivals=ec.Arrivals.poisson(rate)).scaled(arguments.scale)
    arrivals = np.cumsum(np.random.default_rng(1).exponential(profile.workload.arrivals.mean, arguments.jobs))
    console.print(
        f"{len(profile.workers)} worker processes, {profile.workload.tasks} coded tasks an iteration of which any "
        f"{profile.workload.critical} are enough; {arguments.jobs} jobs of {digits.STEPS} iterations, one about every "
        f"{profile.workload.arrivals.mean:.2g} s, each of which trains a classifier of digits.\n"
    )
    table = Table(title="Measured, and predicted exactly or by simulation of these very arrivals", title_justify="left")
    for column in ("split", "rows", "iteration (ms)", "predicted", "delay of a job (s)", "predicted"):
        table.add_column(column, justify="left" if column == "split" else "right", no_wrap=column == "rows")
    expected = digits.plain(PENALTY)
    drawn, axes = plots.figure(len(RULES), height=2.8)
    for axis, rule in zip(axes, RULES, strict=True):
        plan = ec.schemes.any_k(ec.split_rows(profile, rule).counts, profile.workload.critical)
        path = arguments.out / f"{rule}.run"
        results = run(profile, rule, arrivals, path)
        record = read_record(path)
        worst = max(float(np.abs(result[0] - expected).max()) for result in results)
        assert worst < 1e-8 * np.abs(expected).max(), f"{rule}: the model differs by {worst}"
        delays = [record.departures[job] - record.arrivals[job] for job in record.arrivals]
        rounds = [seen.end - seen.start for seen in record.rounds]
        table.add_row(
            rule,
            " ".join(map(str, plan.counts)),
            f"{1e3 * np.mean(rounds):.1f}",
            f"{1e3 * ec.predict_jobs(plan, profile).iteration_mean:.1f}",
            f"{np.mean(delays):.2f}",
            f"{delay_for(plan, profile, arrivals):.2f}",
        )
        plots.draw_timeline(axis, record_timeline(record), profile.names, f"{rule} split, as measured")
    console.print(table)
    console.print(
        f"Every model equals that of a single process to 1e-8; it gets {digits.accuracy(expected):.1%} of the test "
        "digits right."
    )
    plots.share_time(axes)
    plots.save(drawn, arguments.out / "timeline.png")
    console.print(
        f"Picture: {arguments.out / 'timeline.png'}; more by: echelon report {arguments.out / 'theorem2.run'}"
    )


def run(profile: ec.Profile, rule: str, arrivals: np.ndarray, path: Path) -> list[tuple[np.ndarray, np.ndarray, int]]:
    """Run the stream on emulated workers and return the results."""
    job = digits.job(PENALTY)
    with ec.Stream(
        emulate=profile, profile=profile, split=rule, adapt=False, redundancy=profile.workload.redundancy, record=path
    ) as stream:
        start = time.monotonic()
        for arrival in arrivals:
            time.sleep(max(0.0, start + arrival - time.monotonic()))
            stream.submit(job)
        return [done.result for done in stream.deliveries()]


def delay_for(plan: ec.Plan, profile: ec.Profile, arrivals: np.ndarray, streams: int = 2000) -> float:
    """Return the mean delay of jobs that arrive at these times, over many simulated streams."""
    rng = np.random.default_rng(2)
    sampler = RoundSampler(plan, ec.delays.task_laws(profile), profile.speeds.link)
    jobs, iterations = len(arrivals), profile.workload.iterations
    seen, _ = sampler.draw(sampler.begin(streams, rng), streams, jobs * iterations, rng)
    services = seen.times.reshape(streams, jobs, iterations).sum(axis=2)
    return float((departures(np.tile(arrivals, (streams, 1)), services) - arrivals).mean())


if __name__ == "__main__":
    main()
