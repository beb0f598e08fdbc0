"""Made-up runs in the form in which the page gets them: plausible, and the same each time."""

import numpy as np

HOSTILE = "</script><img src=x onerror=\"document.title='taken'\">"
TRACEBACK = """Traceback (most recent call last):
  File "worker.py", line 212, in _compute
    return self.job.part(chunk, state)
  File "fit.py", line 48, in part
    return design[rows].T @ (design[rows] @ state - target[rows])
ValueError: matmul: Input operand 1 has a mismatch in its core dimension 0 (size 48 is different from 50)
"""


def run(
    *,
    workers=8,
    rounds=240,
    seed=7,
    slow=None,
    killed=None,
    back=(),
    rows=4,
    needed=None,
    jobs=6,
    over=True,
    unit=0.012,
    names=None,
    failed=0,
    hostile=False,
    first=1,
):
    """Return {"state", "rounds"} of a run; `slow` is a place, `killed` a dict of places and the rounds they died in."""
    rng = np.random.default_rng(seed)
    killed = killed or {}
    names = names or [f"w{place + 1}" for place in range(workers)]
    if hostile:
        names = [f"{HOSTILE}{place}" for place in range(workers)]
    pace = unit * (1 + 0.12 * rng.random(workers))
    if slow is not None:
        pace[slow] *= 2.6
    total = workers * rows
    needed = needed or max(1, int(0.8 * total))
    clock, told, lasted, used = 0.31, [], [], np.zeros((3, workers), dtype=int)
    busy, awaited, spent, marks = np.zeros(workers), np.zeros(workers), np.zeros(3), []
    each = max(1, rounds // max(1, jobs))
    for n in range(first, first + rounds):
        job = (n - first) // each + 1
        if (n - first) % each == 0 and n > first:
            clock += float(rng.exponential(6 * unit))
        for place, when in killed.items():
            if n == when:
                marks.append(_mark(clock + unit, "down", place, f"{names[place]} was lost: killed by signal 9"))
                marks.append(_mark(clock + 1.2 * unit, "replan", None, "new shares: the rows of those there"))
            if place in back and n == when + 40:
                marks.append(_mark(clock, "up", place, f"a new worker sits at {names[place]}"))
        there = [
            place
            for place in range(workers)
            if place not in killed or n < killed[place] or (place in back and n >= killed[place] + 40)
        ]
        times = {place: np.cumsum(pace[place] * (0.7 + 0.3 * rng.exponential(1.4, rows))) for place in there}
        ends = sorted(time for of in times.values() for time in of)
        end = float(ends[min(needed, len(ends)) - 1])
        tasks = []
        for place in there:
            done = int(np.searchsorted(times[place], end, side="right"))
            stops = [0.0, *times[place].tolist()]
            if done:
                tasks.append([place, 0.0, stops[done], 0, done])
            if done < rows:
                late = rng.random() < 0.25
                stop = min(stops[done + 1], end + 2 * unit) if late else end
                tasks.append([place, stops[done], stop, 1 if late else 2, 1 if late else rows - done])
            used[0, place] += done
            used[1 if done < rows and tasks[-1][3] == 1 else 2, place] += rows - done
        for place, begin, stop, use, _ in tasks:
            busy[place] += stop - begin
            spent[use] += stop - begin
        awaited[max(there, key=lambda place: times[place][min(rows, needed // workers) - 1])] += 0.2 * end
        told.append(
            {
                "n": n,
                "job": job,
                "name": f"fit {job}",
                "iteration": (n - first) % each + 1,
                "start": clock,
                "end": clock + end,
                "tasks": [[p, round(b, 6), round(s, 6), u, r] for p, b, s, u, r in tasks],
            }
        )
        lasted.append(end)
        clock += end + 0.05 * unit
    state = {
        "title": HOSTILE if hostile else "digits.run",
        "over": over,
        "clock": clock,
        "running": not over,
        "names": names,
        "split": "theorem2",
        "redundancy": round(total / needed, 3),
        "cluster": "ProcessCluster",
        "rounds": first + rounds - 1,
        "now": None,
        "workers": _workers(names, pace, used, busy, awaited, clock, killed, back, rounds, slow),
        "round_s": histogram(np.array(lasted), "exact law of a round on this profile"),
        "delay_s": None,
        "queue": {
            "open": 0 if over else 2,
            "submitted": jobs + 2,
            "done": jobs - failed,
            "failed": failed,
            "cancelled": 0,
            "arrivals_per_s": jobs / clock if clock else None,
            "service_s": each * float(np.mean(lasted or [0])) or None,
            "load": 0.62 if rounds else None,
            "says": "stable: jobs take 0.62 of the time between arrivals",
            "series": _queue(rng, clock, jobs) if rounds else [],
        },
        "price": {
            "useful_s": float(spent[0]),
            "late_s": float(spent[1]),
            "purged_s": float(spent[2]),
            "useful_bytes": int(used[0].sum()) * 4096,
            "wasted_bytes": int(used[1].sum()) * 4096,
            "says": "of each 5 s that workers computed, 1 s bought that nobody waits for the slowest",
        },
        "errors": {
            "decoding": 3.1e-15 if rounds else None,
            "decoding_most": 4.7e-14 if rounds else None,
            "residual": 0.0 if rounds else None,
            "residual_most": 2.4e-3 if rounds else None,
            "series": [
                [r["end"], 0.0 if i % 3 else 10 ** rng.uniform(-5, -2.6), 10 ** rng.uniform(-15.2, -13.4)]
                for i, r in enumerate(told)
            ],
        },
        "jobs": _jobs(jobs, each, clock, failed, over, told, hostile),
        "marks": marks,
        "advice": _advice(names, slow, awaited, clock) if rounds else "",
        "what_if": None,
    }
    if rounds:
        delays = np.array([job["ended"] - job["arrived"] for job in state["jobs"] if job["state"] == "done"])
        state["delay_s"] = histogram(delays, None)
        if not over:
            state["now"] = {
                "job": jobs,
                "name": HOSTILE if hostile else f"fit {jobs}",
                "iteration": 12,
                "iterations": 40,
                "start": clock - 0.4 * lasted[-1],
                "needed": needed,
                "came": int(0.6 * needed),
                "missing": [
                    p for p in range(workers) if state["workers"][p]["state"] != "gone" and (p % 3 == 1 or p == slow)
                ],
                "expected_s": float(np.mean(lasted)),
            }
    return {"state": state, "rounds": told}


def what_if(state):
    """Return what other strategies would have taken, as a report brings it."""
    clock = state["clock"]
    strategies = [
        {"name": name, "family": family, "seconds": clock * share, "saved": clock * (1 - share), "error": clock * 0.006}
        for name, family, share in [
            ("by speed, redundancy 1.25", "coded", 0.71),
            ("cyclic code, 2 stragglers", "coded", 0.74),
            ("two copies of each part", "replicated", 0.76),
            ("shares by speed", "uncoded", 0.79),
            ("equal shares", "uncoded", 1.18),
        ]
    ]
    waited = [
        {"name": worker["name"], "rounds": 40 - place, "seconds": worker["awaited_s"], "most": 0.2}
        for place, worker in enumerate(state["workers"])
    ]
    return {
        "sentence": f"Of {clock:.0f} s, {clock * 0.31:.0f} were spent waiting for {state['names'][0]}; "
        f"a code by speed would have saved {clock * 0.29:.0f} s.",
        "rounds": state["rounds"],
        "replayed": state["rounds"] - 2,
        "seconds": clock,
        "strategies": strategies,
        "waited": sorted(waited, key=lambda one: -one["seconds"]),
        "notes": ["2 rounds with losses are left out"],
    }


def histogram(values, says, bins=24):
    if not len(values):
        return None
    counts, edges = np.histogram(values, bins=min(bins, max(4, len(values) // 4)))
    law = None
    if says:
        middle, spread = values.mean(), values.std() or 1.0
        shape = np.exp(-0.5 * (((edges[1:] + edges[:-1]) / 2 - middle) / spread) ** 2)
        law = (shape / shape.sum() * len(values)).tolist()
    p50, p95 = np.quantile(values, [0.5, 0.95]).tolist()
    return {
        "edges": edges.tolist(),
        "counts": counts.tolist(),
        "law": law,
        "says": says or "",
        "mean": float(values.mean()),
        "p50": p50,
        "p95": p95,
        "count": len(values),
    }


def _workers(names, pace, used, busy, awaited, clock, killed, back, rounds, slow):
    told = []
    for place, name in enumerate(names):
        gone = place in killed and place not in back
        measured = rounds > 0
        told.append(
            {
                "name": name,
                "state": "gone"
                if gone
                else "at work"
                if measured and place % 3
                else "idle"
                if measured
                else "starting",
                "pace_s": float(pace[place]) if measured else None,
                "score": float(pace[place] / pace.min()) if measured else None,
                "own": 1.0 + 0.01 * place if measured else None,
                "kind": None
                if not measured
                else "chronic"
                if place == slow
                else "once"
                if place % 5 == 3
                else "on time",
                "used": int(used[0, place]),
                "late": int(used[1, place]),
                "purged": int(used[2, place]),
                "wrong": 0,
                "losses": int(place in killed),
                "reason": "killed by signal 9" if gone else None,
                "awaited_s": float(awaited[place]),
                "busy": float(min(1.0, busy[place] / clock)) if measured else None,
            }
        )
    return told


def _queue(rng, clock, jobs):
    times = np.sort(rng.uniform(0, clock, 6 * jobs))
    return [[0.0, 0]] + [
        [float(time), int(depth)] for time, depth in zip(times, rng.poisson(1.6, len(times)), strict=True)
    ]


def _jobs(jobs, each, clock, failed, over, told, hostile):
    listed = []
    for number in range(1, (jobs if told else 0) + 1):
        mine = [one for one in told if one["job"] == number] or told[-1:]
        bad = number <= failed
        listed.append(
            {
                "job": number,
                "name": HOSTILE if hostile else f"fit {number}",
                "arrived": max(0.0, mine[0]["start"] - 0.2),
                "ended": mine[-1]["end"],
                "state": "failed" if bad else "done",
                "iteration": each // 2 if bad else each,
                "iterations": each,
                "eta_s": None,
                "error": (TRACEBACK * 8 + (HOSTILE if hostile else "")) if bad else None,
            }
        )
    opened = (
        []
        if over or not told
        else [
            {
                "job": jobs + 1,
                "name": f"fit {jobs + 1}",
                "arrived": clock - 1.0,
                "ended": None,
                "state": "running",
                "iteration": 12,
                "iterations": 40,
                "eta_s": 2.2,
                "error": None,
            },
            {
                "job": jobs + 2,
                "name": "open end",
                "arrived": clock - 0.4,
                "ended": None,
                "state": "waiting",
                "iteration": 0,
                "iterations": None,
                "eta_s": None,
                "error": None,
            },
        ]
    )
    return opened + listed[::-1]


def _advice(names, slow, awaited, clock):
    place = int(awaited.argmax()) if slow is None else slow
    return (
        f"Rounds waited {awaited[place]:.1f} of {clock:.1f} s for {names[place]}; by speed it would have fewer rows: "
        'set split="theorem2" with a measured profile, or let the stream learn (adapt=True).'
    )


def _mark(time, kind, place, text):
    return {"time": time, "kind": kind, "place": place, "text": text}
