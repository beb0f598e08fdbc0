"""Speed of simulated rounds of a multi-message plan, against event loops over the same messages."""

import numpy as np

import echelon as ec
from bench.multi_message_loop import RATE, SHIFT, draw_paces, plain_round, tuned_round
from bench.results import markdown_table
from bench.timing import best_of
from echelon.simulation import RoundSampler

ROUNDS, LOOP_ROUNDS, CHECKED = 100_000, 1_000, 2_000


def report() -> str:
    plan = ec.schemes.multi_message(workers=40, load=10, clusters=4, order=6)
    law = ec.delays.RoundPace(base=ec.delays.ShiftedExponential(shift=SHIFT, rate=RATE))
    rng = np.random.default_rng(1)
    took = best_of(
        {
            "vectorised": lambda: ec.simulate_rounds(plan, law, rounds=ROUNDS),
            "plain": lambda: [plain_round(plan, draw_paces(40, rng)) for _ in range(LOOP_ROUNDS)],
            "tuned": lambda: [tuned_round(plan, draw_paces(40, rng)) for _ in range(LOOP_ROUNDS)],
        },
        repeats=7,
    )
    each = {name: seconds / (ROUNDS if name == "vectorised" else LOOP_ROUNDS) for name, seconds in took.items()}
    labels = {
        "vectorised": ("`simulate`: times, both loads", ""),
        "plain": ("event loop, all messages in a heap", "≥ 100"),
        "tuned": ("event loop, next messages made one by one", ""),
    }
    rows = [
        [
            label,
            f"{1e6 * each[name]:.2f} µs",
            f"{1 / each[name]:,.0f}",
            f"{each[name] / each['vectorised']:.0f}",
            wanted,
        ]
        for name, (label, wanted) in labels.items()
    ]
    return "\n\n".join(
        [
            "Rounds of GC-MMC-1 (40 workers, load 10, 4 clusters, order 6) under model (5), paces drawn anew each "
            f"round by every path. Shortest of 7 runs, all in one process. {_agreement(plan, law)}",
            markdown_table(["path", "a round", "rounds a second", "time / `simulate`", "wanted"], rows),
        ]
    )


def _agreement(plan: ec.Plan, law: ec.delays.Delay) -> str:
    """Check that all paths give the same for the same paces."""
    rng = np.random.default_rng(2)
    sampler = RoundSampler(plan, law, np.zeros(40))
    seen, _ = sampler.draw(sampler.begin(1, rng), 1, CHECKED, rng)
    paces = law.sample((40, CHECKED, 1), np.random.default_rng(2))[..., 0].T.tolist()
    for loop in (plain_round, tuned_round):
        times, loads = zip(*(loop(plan, some) for some in paces), strict=True)
        np.testing.assert_allclose(seen.times[0], times, rtol=1e-12)
        np.testing.assert_array_equal(seen.load[0], loads)
    return f"On the same {CHECKED} draws all three agree in time and load."
