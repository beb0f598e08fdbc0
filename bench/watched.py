"""Watched ranks: the score of one that is slowed, what watching costs, and advice beside what `CodedGradient` takes."""

from typing import Any

import numpy as np

from bench.results import markdown_table


def report() -> str:
    from bench import watched_ranks as ranks  # not at the top: it loads torch, slowly

    seen, advice = ranks.on_ranks(ranks.RANKS, ranks.scored)[0]
    seconds, micros = ranks.on_ranks(2, ranks.overhead)[0]
    return "\n\n".join((_told(seen), _cost(seconds, micros), _taken(seen, advice)))


def _told(seen: Any) -> str:
    from bench.watched_ranks import RANKS, SLOW, TRUTH

    slow = seen.ranks[SLOW]
    others = max(abs(one.score - 1) for one in seen.ranks if one.rank != SLOW)
    return (
        f"{RANKS} processes, gloo; rank {SLOW} waits {TRUTH} times as long per sample as the others. Truth of its "
        f"score: {TRUTH} (wanted: 0.05 off at most), of the others' 1.\n\n"
        + markdown_table(
            ["named", "kind", "score", "off", "others off by at most", "a step (ms)", "waiting", "by speed (ms)"],
            [
                [
                    f"rank {seen.slowest.rank}",
                    seen.slowest.kind,
                    f"{slow.score:.3f}",
                    f"{slow.score - TRUTH:+.3f}",
                    f"{others:.3f}",
                    f"{1e3 * seen.step_s:.1f}",
                    f"{seen.waiting:.1%}",
                    f"{1e3 * seen.by_speed_s:.1f}",
                ]
            ],
        )
    )


def _cost(seconds: dict[int, dict[str, Any]], micros: float) -> str:
    rows, turns = [], 0
    for batch, by_name in seconds.items():
        plain, turns = by_name["plain"], len(by_name["plain"])
        half = 0.98 * np.sqrt(turns)  # order statistics that hold the median in 95 of 100 cases
        for name, times in by_name.items():
            row = [str(batch) if times is plain else "", name]
            for ratios, of in zip(np.sort(times / plain, axis=0).T, np.median(times, axis=0), strict=True):
                low, high = ratios[int(turns / 2 - half)], ratios[int(turns / 2 + half)]
                row += [f"{1e3 * of:.2f}", f"{100 * (low - 1):+.1f} to {100 * (high - 1):+.1f} %"]
            rows.append(row)
    return (
        f"What watching costs: two ranks of one thread each, steps in turns; medians of {turns}, and intervals at 95 % "
        "of the median ratio to the plain step of the same turn, by the clock and by what the process computed. "
        'Wanted: 1 %. "again" is a second plain model: what the machine adds by itself. "torch\'s hook" is its own '
        f"`allreduce_hook`: what any hook in Python costs. The marks alone take {micros:.0f} µs a step.\n\n"
        + markdown_table(["batch", "", "ms a step", "beside plain", "computing (ms)", "beside plain"], rows)
    )


def _taken(seen: Any, advice: Any) -> str:
    from bench.watched_ranks import STEPS, live
    from echelon.torch.watch_report import for_gradients

    suited = list(for_gradients(advice))
    coded = [one for one in suited if one.strategy.family == "coded"][:1]
    rows = []
    for one in dict.fromkeys((suited[0], *coded)):
        taken, takes = live(one), one.iteration
        rows.append([one.name, f"{1e3 * takes:.1f}", f"{1e3 * taken:.1f}", f"{100 * (taken / takes - 1):+.1f} %"])
    return (
        f"Advice on these stamps (the best, and the best code) beside what `CodedGradient` "
        f"then takes with workers as slow, in the median of {STEPS} steps; DDP took "
        f"{1e3 * seen.step_s:.1f} ms. Wanted: 10 % off at most, of the best.\n\n"
        + markdown_table(["strategy", "advised (ms)", "taken (ms)", "off"], rows)
    )
