"""`python -m bench.planted`: bugs planted one at a time into a copy of the package, and which tests catch each.

Bugs in master and driver must be caught by the whole-stack schedules (`bench.chaos`), those in the clusters, and of
how soon late rows are given to others, by tests. A bug whose place is gone, or that nothing catches, ends the command
with exit code 1.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.results import markdown_table, replace_section

ROOT = Path(__file__).parents[1]
SCHEDULES = 2000  # a bug must be caught within this many
LIMIT_S = 900.0
TESTS = [
    f"tests/clusters/test_{name}.py"
    for name in ("shelf", "places", "memory", "mailbox", "processes", "hardship", "start_and_end")
]
TESTS += ["tests/clusters/test_conformance.py", "tests/clusters/test_loaded.py", "tests/stream/test_liveness.py"]
TESTS += ["-k", "not [ray"]


@dataclass(frozen=True)
class Bug:
    """A text in a file, and what replaces it.

    tests: whether the tests of the clusters must catch it, instead of the schedules.
    """

    name: str
    file: str
    old: str
    new: str
    tests: bool = False


DRIVER, MACHINE, COLLECTION = "stream/driver.py", "master/machine.py", "master/collection.py"
STEPS = "stream/stepping.py"
ROWS = "stream/round_messages.py"
DELIVERER, INTAKE, UNKEPT = "stream/deliverer.py", "stream/intake.py", "stream/unkept.py"
WORKER, MEMORY, PROCESSES = "clusters/worker.py", "clusters/memory.py", "clusters/processes.py"
NURSERY, THREADS, CREW = "clusters/nursery.py", "clusters/threads.py", "clusters/crew.py"

NONE = Bug("none", "", "", "")  # for a copy without a bug
BUGS = [
    Bug("the driver skips a purge", DRIVER, "                self._cluster.purge(round)\n", ""),
    Bug(
        "the master skips a purge", MACHINE,
        "return [Purge(self.round), *nearly, Update(self.job, self.round)]",
        "return [*nearly, Update(self.job, self.round)]",
    ),
    Bug(
        "a round that may end before it is exact ends with nothing", "endings/policy.py",
        "return self._since if self._sums.share > TIES else None", "return self._since",
    ),
    Bug(
        "what a round gives is scaled, and told as if it were not", "stream/approximating.py",
        "scale**2 * squares - 2 * scale * total + whole", "squares - 2 * total + whole",
    ),
    Bug(
        "a slot that is not recovered is left out though rows of it came", COLLECTION,
        "return [(slot, rows) for slot, rows in came if rows]",
        "return [(slot, rows) for slot, rows in came if len(rows) > 1]",
    ),
    Bug("jobs are served out of order", MACHINE, "self.job = self.queue.popleft()", "self.job = self.queue.pop()"),
    Bug(
        "a delivery that is there overtakes one that is not", DELIVERER,
        "return None if first is None or (earlier is not None and earlier < first) else first",
        "return first",
    ),
    Bug(
        "an orphan is forgotten", COLLECTION,
        "return self._lacking(held | self._pooled())\n", "return self._lacking(held | self._pooled())[1:]\n",
    ),
    Bug(
        "one row too few is enough", "codes/tracker.py",
        "len(self._seen) >= self._threshold", "len(self._seen) >= self._threshold - 1",
    ),
    Bug(
        "one row more than enough is waited for", "codes/tracker.py",
        "len(self._seen) >= self._threshold", "len(self._seen) >= min(self._threshold + 1, len(self._rows))",
    ),
    Bug(
        "the driver accepts a late message", DRIVER,
        "if seen is None or running is None or round != seen.round:", "if seen is None or running is None:",
    ),
    Bug(
        "the master accepts a late message", MACHINE,
        "        if round != self.round or self.phase is not Phase.COLLECTING or collection is None:\n",
        "        if self.phase is not Phase.COLLECTING or collection is None:\n",
    ),
    Bug(
        "a step is journalled before its state", DELIVERER,
        "                    running.state,\n                    running.iteration,\n",
        "                    (lambda kept: (kept.get(running.number, running.job.state),\n"
        "                        kept.__setitem__(running.number, running.state))[0]\n"
        "                    )(self.__dict__.setdefault('_states', {})),\n"
        "                    running.iteration,\n",
    ),
    Bug(
        "a job is marked as delivered too early", DELIVERER,
        "        if self._journal is not None and error is not None:\n",
        "        if self._journal is not None and outcome is Outcome.DONE:\n"
        "            self._journal.delivered(running.number)\n"
        "        if self._journal is not None and error is not None:\n",
    ),
    Bug(
        "the cancel of a job that waits is lost", MACHINE,
        "            return [Deliver(event.job, Outcome.CANCELLED)]\n", "            return []\n",
    ),
    Bug(
        "the journal does not hear of a cancel", DELIVERER,
        "                self._journal.dropped(running.number)\n", "                pass\n",
    ),
    Bug(
        "a job is resumed from the iteration before", INTAKE,
        "*kept, store, entry.iteration, entry.error, entry.residual, key",
        "*kept, store, max(0, entry.iteration - 1), entry.error, entry.residual, key",
    ),
    Bug(
        "two workers' places are swapped", DRIVER,
        "                self.places[worker] = place\n",
        "                self.places[worker] = place ^ 1 if place ^ 1 < self._cluster.workers else place\n",
    ),
    Bug(
        "lanes are given to the wrong places", "stream/planning.py",
        "by_place = {self._places[worker]: worker for worker in workers}",
        "by_place = dict(zip(sorted(self._places[worker] for worker in workers), workers, strict=True))",
    ),
    Bug(
        "the memory of a late message is not given back", DRIVER,
        "            self._cluster.release(message)\n            self._observers.tell(Observer.received, "
        '_arrival((*arrival, "late")))\n',
        '            self._observers.tell(Observer.received, _arrival((*arrival, "late")))\n',
    ),
    Bug(
        "the memory of a repeated message is not given back", DRIVER,
        "        if not new or form != expected:\n            self._cluster.release(message)\n",
        "        if not new or form != expected:\n            pass\n",
    ),
    Bug(
        "memory is given back before it is used", ROWS,
        "        self._held[message.slot, message.row] = message\n",
        "        self._held[message.slot, message.row] = message\n"
        "        self._cluster.release(message)\n",
    ),
    Bug(
        "messages of a job that failed are not given back", DRIVER,
        "            self._steps.drop()\n            self._rows.drop()\n",
        "            self._steps.drop()\n            self._rows.drop({})\n",
    ),
    Bug(
        "messages that came ahead are not given back", "stream/ahead.py",
        "        for message in self.messages.values():\n            self._cluster.release(message)\n", "",
    ),
    Bug(
        "the last outstanding handle is never ended at close", DELIVERER,
        "            left = list(self._handles.values())\n            self._handles.clear()",
        "            left = list(self._handles.values())[:-1]\n            self._handles.clear()",
    ),
    Bug(
        "error_estimate is that of the last iteration", STEPS,
        "running.error_estimate = running.error_estimate.worst(seen.error_estimate)",
        "running.error_estimate = seen.error_estimate",
    ),
    Bug(
        "error_estimate is lost on resume", INTAKE,
        "*kept, store, entry.iteration, entry.error, entry.residual, key",
        "*kept, store, entry.iteration, residual=entry.residual, key",
    ),
    Bug("a round is left out of the record", DRIVER, "seen, store in rounds:\n", "seen, store in rounds[1:]:\n"),
    Bug(
        "the alarm of a silent round is never set again", MACHINE,
        "            self.moved = False\n            return [self._timer(event.time)]",
        "            self.moved = False\n            return []",
    ),
    Bug(
        "nobody looks whether workers hang", DRIVER,
        "            self._liveness.look(now)\n", "            self._liveness.due = math.inf\n",
    ),
    Bug(
        "what late workers owe is given to nobody", MACHINE,
        "self._mend(collection) if self.late or not waiting else []", "[]", tests=True,
    ),
    Bug("a worker that joins gets no work", MACHINE, "if len(self.workers) > 1:\n", "if self.workers:\n"),
    Bug(
        "a full journal fails the job as if its code had raised", UNKEPT,
        "        except JournalFull:\n            self._left.append((job, tell, then))\n            self._wait()\n"
        "            return False\n",
        "        except ZeroDivisionError:\n            return False\n",
    ),
    Bug(
        "a result that its handle gave is not marked as delivered", DELIVERER,
        "        try:\n            self._mark(number)\n", "        try:\n            pass\n",
    ),
    Bug(
        "a step that a full journal refused counts as kept", UNKEPT,
        "            return False\n", "            return True\n",
    ),
    Bug(
        "a row that was rejected is taken to be there", COLLECTION, "            self.received.discard(at)\n", "",
    ),
    Bug(
        "the memory of a wrong message is not given back", "stream/verifying.py",
        "        self._blame.name(message)\n        self._cluster.release(message)\n",
        "        self._blame.name(message)\n",
    ),
    Bug(
        "a row that was lost before it was added up is kept", ROWS,
        "self._held.pop((message.slot, message.row))", "self._held[message.slot, message.row]",
    ),
    Bug(
        "a round whose rows were lost before they were added up counts as done", MACHINE,
        "return self._next_round() if event.round == self.round and self.phase is Phase.UPDATING else []",
        "return self._end(Outcome.DONE) if event.round == self.round and self.phase is Phase.UPDATING else []",
    ),
    Bug(
        "the loss of a row while it is added up is not heard", STEPS,
        "if self._adding is None or not self._adding.collected.unread():", "if True:",
    ),
    Bug(
        "messages of a job that is cancelled while they are added up are not given back", STEPS,
        "        self._cluster.add(seen.round, tuple(wanted.values()))\n",
        "        self._cluster.add(seen.round, tuple(wanted.values()))\n        self._rows.owner = None\n",
    ),
    Bug(
        "rows that can be read are forgotten when others were lost before they were added up", ROWS,
        "        self._weights, self._forms = {}, {}\n",
        "        self._held, self._weights, self._forms = {}, {}, {}\n",
    ),
    Bug(
        "weights are kept when rows were lost before they were added up", ROWS,
        "        self._weights, self._forms = {}, {}\n", "        self._forms = {}\n",
    ),
    Bug(
        "a round is added up although a chosen row was lost", STEPS,
        "if running.job.added and collected.unread():", "if False:",
    ),
    Bug(
        "a block that is free may be given back", MEMORY,
        "        if not self.memory[offset - _HEAD]:\n", "        if False:\n", tests=True,
    ),
    Bug(
        "a block is given back twice by its worker", WORKER,
        "            self._arena.give_back(self._block & ~frames.DEVICE)\n            self._block = frames.NOWHERE\n",
        "            self._arena.give_back(self._block & ~frames.DEVICE)\n", tests=True,
    ),
    Bug(
        "a block that was sent is used again by its worker", WORKER,
        "        block, self._block = self._block, frames.NOWHERE\n", "        block = self._block\n", tests=True,
    ),
    Bug(
        "a block is kept after its message was abandoned", WORKER,
        "            self._arena.give_back(self._block & ~frames.DEVICE)\n            self._block = frames.NOWHERE\n",
        "            self._block = frames.NOWHERE\n", tests=True,
    ),
    Bug(
        "a state is overwritten while it is read", MEMORY,
        "return round is None or not self._in_use(round)", "return True", tests=True,
    ),
    Bug(
        "a worker does not say which state it reads", WORKER,
        "        self._board.read(self._place, lane.round)\n", "", tests=True,
    ),
    Bug(
        "nobody asks who reads a state", PROCESSES,
        "round > self._board.over() or self._board.readers(round)", "round > self._board.over()", tests=True,
    ),
    Bug(
        "orders to a full mailbox are dropped", "clusters/mailbox.py",
        "                self._watch(True)\n                return\n",
        "                self._watch(True)\n                self.outbox.popleft()\n                return\n",
        tests=True,
    ),
    Bug(
        "the workers' parent does not watch its master", NURSERY,
        "        poll.register(os.pidfd_open(master_pid), select.POLLIN)\n", "        pass\n", tests=True,
    ),
    Bug(
        "the workers' parent does not end with its socket", NURSERY,
        "            if not order:\n                break\n",
        "            if not order:\n                poll.unregister(control)\n                continue\n", tests=True,
    ),
    Bug(
        "a dead worker is taken to read on", CREW, "        self._board.read(handle.place, 0)\n", "", tests=True,
    ),
    Bug(
        "a dead worker is taken to be at its row", CREW,
        "        self._board.work(handle.place, 0, 0, 0)\n", "", tests=True,
    ),
    Bug(
        "a successor does not know earlier work", PROCESSES,
        "        for key in self._works:\n            self._send_work(handle, key)\n", "", tests=True,
    ),
    Bug(
        "a child that a part forked goes on as a second worker", WORKER,
        "            os._exit(1)\n", "            pass\n", tests=True,
    ),
    Bug(
        "a worker that waits is taken to compute", WORKER,
        "        self._board.work(self._place, 0, 0, 0)\n", "", tests=True,
    ),
    Bug(
        "descriptors under way to a worker are not counted", "clusters/mailbox.py",
        "self._under_way += 1", "self._under_way += 0", tests=True,
    ),
    Bug(
        "free blocks are not joined", "clusters/blocks.py", "            if free and before:\n",
        "            if False:\n", tests=True,
    ),
    Bug(
        "a thread that died has no successor", THREADS,
        "        for place in self._places.due(self.now()):\n", "        for place in ():\n", tests=True,
    ),
    Bug(
        "a worker's number is used again", "clusters/places.py", "itertools.count().__next__", "lambda: 0", tests=True,
    ),
    Bug(
        "work is made each time it is asked for", "clusters/shelf.py",
        "                self.pop(key)\n                self._made[key] = made\n", "                return made\n",
        tests=True,
    ),
    Bug(
        "the next job's slots are not stopped", MEMORY,
        "        if slot < SLOTS or is_ahead(slot):\n", "        if slot < SLOTS:\n", tests=True,
    ),
]  # fmt: skip


def caught(bug: Bug) -> str:
    """Plant a bug and return what caught it, or an empty text."""
    with TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("src", "tests", "bench", "examples"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        if bug is NONE:
            return _by_tests(copy) or _by_schedules(copy)
        path = copy / "src" / "echelon" / bug.file
        text = path.read_text(encoding="utf-8")
        if text.count(bug.old) < 1:
            raise SystemExit(f"{bug.name}: {bug.file} no longer has {bug.old!r}")
        path.write_text(text.replace(bug.old, bug.new, 1), encoding="utf-8")
        return _by_tests(copy) if bug.tests else _by_schedules(copy)


def _run(copy: Path, *command: str) -> str:
    environment = os.environ | {"PYTHONPATH": f"{copy / 'src'}{os.pathsep}{copy}"}
    try:
        run = subprocess.run(
            [sys.executable, *command], cwd=copy, env=environment, capture_output=True, text=True, timeout=LIMIT_S,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return ""
    return run.stdout + run.stderr if run.returncode else ""


def _by_schedules(copy: Path) -> str:
    said = _run(copy, "-m", "bench.chaos", "--first", "0", "--count", str(SCHEDULES))
    found = re.search(r"schedule (\d+) failed", said)
    return "" if found is None else f"schedule {found.group(1)}: {said.strip().splitlines()[-1][:100]}"


def _by_tests(copy: Path) -> str:
    said = _run(copy, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--timeout", "90", *TESTS)
    found = re.search(r"^(?:FAILED|ERROR) (tests/\S+)", said, re.MULTILINE)
    return "" if found is None else f"`{found.group(1)}`"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.planted", description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, help="Markdown file whose section 'planted' is to be replaced")
    parser.add_argument("--only", help="a text that the bug's name contains")
    arguments = parser.parse_args()
    clean = caught(NONE)
    if clean:
        raise SystemExit(f"without any bug: {clean}")
    chosen = [bug for bug in BUGS if arguments.only is None or arguments.only in bug.name]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = []
        for bug, found in zip(chosen, pool.map(caught, chosen), strict=True):
            print(f"{bug.name}: {found or 'NOT CAUGHT'}", flush=True)
            rows.append([bug.name, f"`{bug.file}`", found.replace("|", "/") or "**nothing**"])
    missed = sum(1 for row in rows if row[2] == "**nothing**")
    text = (
        f"{len(rows)} bugs, each planted alone into a copy of the package: those of master and driver against "
        f"{SCHEDULES} whole-stack schedules at most (the number is that of the first schedule that failed), those of "
        f"the clusters against their tests. Not caught: {missed}.\n\n"
        + markdown_table(["bug", "in", "caught by"], rows)
    )
    if arguments.results is not None:
        replace_section(arguments.results, "planted", text)
    if missed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
