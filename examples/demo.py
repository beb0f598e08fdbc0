"""Example 2 of the stream paper: plan it, simulate the uniform split against ours, draw two pictures."""

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import echelon as ec
from echelon import plots
from echelon.theory import lower_bound, queued_bound

HERE = Path(__file__).parent
OMEGAS = np.round(np.arange(1.0, 1.51, 0.02), 2)
RULES = ("uniform", "theorem2")


def main() -> None:
    """Run the demonstration and leave its pictures in a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the pictures")
    parser.add_argument("--seeds", type=int, default=20, help="simulated streams of 1000 jobs")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    console = Console()

    profile = ec.read_profile(HERE / "example2.toml")
    job = profile.job
    bound = lower_bound(profile.speeds, job.critical, job.iterations)
    queued = queued_bound(job.arrivals, bound)
    console.print(
        f"Five unequal workers, {job.tasks} coded tasks an iteration of which any {job.critical} are enough, "
        f"{job.iterations} iterations a job, a job every {job.arrivals.mean:g} s.\n"
    )
    table = Table(title="Delay of a job from arrival to delivery, in seconds", title_justify="left")
    for column in ("split", "rows", "predicted", "simulated, 99 %", "computing"):
        table.add_column(column, justify="left" if column == "split" else "right")
    plans = {rule: ec.schemes.any_k(ec.split_rows(profile, rule).counts, job.critical) for rule in RULES}
    for rule, plan in plans.items():
        with console.status(f"simulating {rule}"):
            seen = ec.simulate(plan, profile, seeds=arguments.seeds)
        assert seen.utilisation is not None
        table.add_row(
            rule,
            " ".join(map(str, plan.counts)),
            f"{ec.predict(plan, profile).delay:.2f}",
            f"{seen.delay.mean:.2f} [{seen.delay.low:.2f}, {seen.delay.high:.2f}]",
            f"{seen.utilisation.min():.0%} to {seen.utilisation.max():.0%}",
        )
    table.add_row("lower bound", "", f"{queued:.2f}", "", "")
    console.print(table)

    draw_timelines(profile, plans, arguments.out / "timeline.png")
    draw_delays(profile, bound, queued, arguments.out / "delay.png")
    console.print(f"Pictures: {arguments.out / 'timeline.png'}, {arguments.out / 'delay.png'}")


def draw_timelines(profile: ec.Profile, plans: dict[str, ec.Plan], path: Path) -> None:
    """Draw who is busy when in the first jobs, for both splits over the same arrivals."""
    short = profile.with_job(iterations=10, arrivals=ec.Arrivals.poisson(0.08))
    drawn, axes = plots.figure(len(plans), height=2.8)
    for axis, (rule, plan) in zip(axes, plans.items(), strict=True):
        plots.draw_timeline(axis, ec.timeline(plan, short, jobs=4, seed=3), short.names, f"{rule} split")
    plots.share_time(axes)
    plots.save(drawn, path)


def draw_delays(profile: ec.Profile, bound: float, queued: float, path: Path) -> None:
    """Draw the exact delay against the redundancy, with the bounds."""
    styles = {"uniform": {"color": "tab:red"}, "theorem2": {"color": "tab:blue"}}
    curves = {}
    for rule in RULES:
        delays = []
        for omega in OMEGAS:
            coded = profile.with_job(redundancy=float(omega))
            plan = ec.schemes.any_k(ec.split_rows(coded, rule).counts, coded.job.critical)
            delays.append(ec.predict(plan, coded).delay)
        curves[f"{rule} split"] = (np.array(delays), styles[rule])
    level = np.ones(len(OMEGAS))
    curves["lower bound with its queue"] = (queued * level, {"color": "black", "linestyle": "--"})
    curves["lower bound (9)"] = (bound * level, {"color": "black", "linestyle": ":"})
    drawn, axes = plots.figure()
    plots.draw_curves(axes[0], OMEGAS, curves, "redundancy: tasks handed out / tasks needed", "mean delay of a job (s)")
    axes[0].set_yscale("log")
    axes[0].set_title("The uniform split without redundancy is unstable: it has no delay", loc="left", fontsize=9)
    plots.save(drawn, path)


if __name__ == "__main__":
    main()
