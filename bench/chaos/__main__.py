"""`python -m bench.chaos`: the production driver in virtual time under seeded faults, schedule after schedule."""

import argparse
import logging
import time

from bench.chaos.schedule import Tally, run_schedules


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="run this one schedule")
    parser.add_argument("--seconds", type=float, default=60.0, help="how many seconds to run new schedules")
    parser.add_argument("--count", type=int, help="how many schedules to run instead")
    parser.add_argument("--first", type=int, help="seed to start from; by default the clock chooses it")
    arguments = parser.parse_args()
    logging.getLogger("echelon").setLevel(logging.CRITICAL)
    tally = Tally()
    if arguments.seed is not None:
        run_schedules(arguments.seed, 1, tally)
        print(f"schedule {arguments.seed}: every promise kept, {tally.lives} lives, {tally.events} events")
        return
    first = time.time_ns() // 10**6 % 10**9 * 1000 if arguments.first is None else arguments.first
    start = time.monotonic()

    def more() -> bool:
        if arguments.count is not None:
            return tally.schedules < arguments.count
        return time.monotonic() - start < arguments.seconds

    while more():
        run_schedules(first + tally.schedules, 50, tally)
        passed = time.monotonic() - start
        print(
            f"\r{tally.schedules} schedules from seed {first} on, {tally.lives} lives, every promise kept; "
            f"{tally.schedules / passed:.0f} schedules and {tally.events / passed:.0f} events a second",
            end="", flush=True,
        )  # fmt: skip
    print()


if __name__ == "__main__":
    main()
