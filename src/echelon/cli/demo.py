"""`echelon demo`: Example 2 of the stream paper, live on this machine, with the uniform split and with ours."""

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from echelon import checks
from echelon.arrays import FloatArray
from echelon.cli import demo_job
from echelon.cli.console import out, print_table
from echelon.cli.report import write_page
from echelon.delays import task_laws
from echelon.plan import Plan
from echelon.prediction import predict_jobs
from echelon.profile import Arrivals, Profile
from echelon.schemes import any_k
from echelon.search.splits import split_rows
from echelon.seeds import generators
from echelon.simulation import RoundSampler
from echelon.simulation.simulated_jobs import departures
from echelon.stream import Stream, read_record
from echelon.stream.timeline import Timeline, record_timeline
from echelon.stream.what_if import what_if

RULES = {"uniform": "equal shares", "theorem2": "shares by Theorem 2"}
_DRAWN_JOBS = 4


def demo(
    folder: Annotated[Path, typer.Option("--out", help="Folder for records, picture and page.")] = Path("demo"),
    jobs: Annotated[int, typer.Option(help="Jobs in the stream.")] = 20,
    scale: Annotated[float, typer.Option(help="What the paper's times are multiplied by.")] = 0.05,
) -> None:
    """Let five unequal workers train a model, by an equal split and by ours; measure, and compare with predictions.

    Five processes of this machine stand for the workers of the paper's Example 2: each takes the times that its law
    draws, scaled down so that the whole demonstration takes under a minute.
    """
    from echelon import plots
    from echelon.papers.stream_workers import example2

    checks.whole("jobs", jobs, least=1, most=10**4)
    checks.number("scale", scale, above=0)
    folder.mkdir(parents=True, exist_ok=True)
    # ten iterations per job instead of fifty, at the same load: jobs arrive five times as often
    paper = example2()
    rate = paper.workload.arrivals.rate * paper.workload.iterations / demo_job.STEPS
    profile = paper.with_workload(iterations=demo_job.STEPS, arrivals=Arrivals.poisson(rate)).scaled(scale)
    chance, services = generators(1)
    arrivals = np.cumsum(chance.exponential(profile.workload.arrivals.mean, jobs))
    out.print(
        f"{len(profile.workers)} worker processes, {profile.workload.tasks} coded tasks per iteration of which any "
        f"{profile.workload.critical} are enough; {jobs} jobs of {demo_job.STEPS} iterations, one about every "
        f"{profile.workload.arrivals.mean:.2g} s, each of which trains a classifier of digits.\n"
    )
    expected = demo_job.plain()
    rows = []
    panels: dict[str, Timeline] = {}
    for rule, title in RULES.items():
        plan = any_k(split_rows(profile, rule).counts, profile.workload.critical)
        path = folder / f"{rule}.run"
        worst = max(float(np.abs(result - expected).max()) for result in _run(profile, rule, arrivals, path))
        assert worst < 1e-8 * np.abs(expected).max(), f"{rule}: the model differs by {worst}"
        record = read_record(path)
        delays = [record.departures[job] - record.arrivals[job] for job in record.arrivals]
        rounds = [seen.end - seen.start for seen in record.rounds]
        rows.append(
            [
                rule,
                " ".join(map(str, plan.counts)),
                f"{1e3 * np.mean(rounds):.1f}",
                f"{1e3 * predict_jobs(plan, profile).iteration_mean:.1f}",
                f"{np.mean(delays):.2f}",
                f"{_delay_for(plan, profile, arrivals, services):.2f}",
            ]
        )
        seen = record_timeline(record, most_rounds=_DRAWN_JOBS * demo_job.STEPS, horizon=np.inf)
        panels[title] = seen.since(float(seen.arrivals[0]))
    print_table(
        "Measured, and predicted exactly or by simulation of these very arrivals",
        ["split", "rows", "iteration (ms)", "predicted", "delay of a job (s)", "predicted"],
        rows,
    )
    out.print(
        f"Every model equals that of a single process to 1e-8; it gets {demo_job.accuracy(expected):.1%} of the test "
        "digits right."
    )
    plots.save(plots.timelines(panels, profile.names), folder / "timeline.png")
    first = folder / "uniform.run"
    write_page(first, what_if(read_record(first)), folder / "report.html")
    out.print(
        f"Picture: {folder / 'timeline.png'}; the run with equal shares as a page for a browser: "
        f"{folder / 'report.html'}; more by: echelon report {folder / 'theorem2.run'}",
        markup=False,
        soft_wrap=True,
    )


def _run(profile: Profile, rule: str, arrivals: FloatArray, path: Path) -> list[FloatArray]:
    """Run the stream on emulated workers and return the models."""
    job = demo_job.job()
    with Stream(
        emulate=profile, profile=profile, split=rule, adapt=False, redundancy=profile.workload.redundancy, record=path
    ) as stream:
        stream.submit(job)  # the first one's code is made now, so the clock of arrivals starts behind it
        start = time.monotonic() - arrivals[0]
        for arrival in arrivals[1:]:
            time.sleep(max(0.0, start + arrival - time.monotonic()))
            stream.submit(job)
        return [done.result for done in stream.deliveries()]


def _delay_for(
    plan: Plan, profile: Profile, arrivals: FloatArray, rng: np.random.Generator, streams: int = 2000
) -> float:
    """Return the mean delay of jobs that arrive at these times, over many simulated streams."""
    sampler = RoundSampler(plan, task_laws(profile), profile.speeds.link)
    jobs, iterations = len(arrivals), profile.workload.iterations
    seen, _ = sampler.draw(sampler.begin(streams, rng), streams, jobs * iterations, rng)
    services = seen.times.reshape(streams, jobs, iterations).sum(axis=2)
    return float((departures(np.tile(arrivals, (streams, 1)), services) - arrivals).mean())
