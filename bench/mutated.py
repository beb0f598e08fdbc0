"""`python -m bench.mutated`: damaged profiles, records and journals, and what the commands that read them say.

Each file is a good one with one to three random changes: bytes flipped, lines dropped, repeated or swapped, numbers
replaced by what is no number there, keys renamed, the end cut off, a part repeated hundreds of times. A command may
succeed, or say one line and end with exit code 2. Anything else is printed, with the seed that makes the file again.
"""

import argparse
import io
import json
import os
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import echelon as ec
from echelon.cli import main as command_line
from echelon.clusters.faults import Crash, Faults

SECONDS, GIGABYTES = 5, 1
VALUES = (
    "nan", "inf", "-inf", "1e308", "-1", "-0.5", "0", "1e-320", "0.5", '"7"', '""', "true", "null", "[]", "[[1]]", "{}",
    "1e400", "123456789012", "9" * 30, "9" * 5000, '"\\u0000"', '"[/b]"', "7",
)  # fmt: skip
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
TEXT = re.compile(r'"[^"\n]*"(?!\s*[:=])')
TEXTS = ("", "[/b]", "[red]", "$x^{$", "\\", "a\nb", "\0", "\x1b[2J", "ü" * 300, "7", "w1", "done", "\ud800", "trace")
NAME = re.compile(r'"?[a-z_]{2,}"?(?=\s*[:=])')
PROFILE = """[workload]
critical = 6
redundancy = 1.5
iterations = 3
interarrival = { times = [9.0, 12.0, 7.5] }
[[worker]]
name = "a"
mean = 0.5
std = 0.6
link = 0.01
law = "straggler"
parameters = { probability = 0.2, slowdown = 4 }
[[worker]]
name = "b"
mean = 0.25
std = 0.25
link = 0.0
law = "trace"
parameters = { times = [0.5, 0.25, 1.5] }
[costs]
message = 1e-4
bandwidth = 1e9
"""


def profiles() -> list[bytes]:
    """Return good profiles: the paper's five workers, and one with other laws, costs and recorded arrivals."""
    return [(Path(__file__).parents[1] / "examples" / "example2.toml").read_bytes(), PROFILE.encode()]


def records(folder: Path) -> list[bytes]:
    """Return good records: of a stream that loses a worker, of a plan with several slots, of jobs begun ahead."""
    crash = Faults(np.random.default_rng(1), incidents=(Crash(time=2.0, place=1, notice=0.1, restart=0.5),))
    several = ec.schemes.multi_message(workers=4, load=2, clusters=2, order=1)
    made = [
        _record(folder / "plain.run", ec.clusters.VirtualCluster(3, faults=crash), None),
        _record(folder / "slots.run", ec.clusters.VirtualCluster(4), several),
        _record(folder / "ahead.run", ec.clusters.VirtualCluster(3), None, overlap=True),
    ]
    return [path.read_bytes() for path in made]


def journals(folder: Path) -> list[bytes]:
    """Return a good journal: of jobs that were done and not taken, and of one that failed."""
    path = folder / "jobs.db"
    with ec.Stream("virtual", workers=2, redundancy=1.0, journal=path, progress=False) as stream:
        for divisor in (0.0, 1.0, 2.0):
            job = ec.SumJob(
                partial=_divided,
                update=lambda x, total: total,
                state=1.0,
                chunks=np.array([divisor, 1.0]),
                iterations=2,
            )
            stream.submit(job)
    return [path.read_bytes()]


def _divided(state: float, chunk: np.ndarray) -> float:
    if not chunk:
        raise ZeroDivisionError
    return state / float(chunk)


def _record(path: Path, cluster: ec.clusters.Cluster, plan: ec.Plan | None, *, overlap: bool = False) -> Path:
    chunks = np.arange(4.0 if plan else 6.0)
    with ec.Stream(cluster, redundancy=1.5, record=path, overlap=overlap, progress=False) as stream:
        for number in range(3):
            job = ec.SumJob(
                partial=lambda x, chunk: chunk * x, update=lambda x, total: total / 15, state=1.0, chunks=chunks,
                iterations=4, name=f"job {number}", plan=plan,
            )  # fmt: skip
            stream.submit(job)
        list(stream.deliveries())
    return path


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a damaged version of a file."""
    for _ in range(int(rng.choice([1, 1, 2, 3]))):
        data = CHANGES[rng.integers(len(CHANGES))](data, rng)
    return data


def _flipped(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    for at in rng.integers(0, max(1, len(changed)), 3) if changed else ():
        changed[at] ^= 1 << rng.integers(8)
    return bytes(changed)


def _lines(data: bytes, rng: np.random.Generator) -> bytes:
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        return data
    one, other = rng.integers(0, len(lines), 2)
    match rng.integers(3):
        case 0:
            del lines[one]
        case 1:
            lines.insert(one, lines[other])
        case _:
            lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def _replaced(pattern: re.Pattern[str], by: Callable[[str, np.random.Generator], str]) -> Callable[..., bytes]:
    def change(data: bytes, rng: np.random.Generator) -> bytes:
        text = data.decode("utf-8", "surrogateescape")
        found = list(pattern.finditer(text))
        if not found:
            return data
        match = found[rng.integers(len(found))]
        new = by(match.group(), rng)
        return (text[: match.start()] + new + text[match.end() :]).encode("utf-8", "surrogateescape")

    return change


def _scaled(number: str, power: int) -> str:
    """Return a number times a power of ten; a whole one stays whole, so that it may be taken for what it was."""
    return str(int(number) * 10**power) if number.isdecimal() and power > 0 else f"{float(number) * 10.0**power:.6g}"


def _cut(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: rng.integers(0, len(data) + 1)]


def _huge(data: bytes, rng: np.random.Generator) -> bytes:
    start, stop = np.sort(rng.integers(0, len(data) + 1, 2))
    return data[:stop] + data[start : start + 2000] * 300 + data[stop:]


_number = _replaced(NUMBER, lambda old, rng: VALUES[rng.integers(len(VALUES))])
_other_size = _replaced(NUMBER, lambda old, rng: _scaled(old, int(rng.integers(-9, 13))))
_text = _replaced(TEXT, lambda old, rng: json.dumps(TEXTS[rng.integers(len(TEXTS))]))
_key = _replaced(NAME, lambda old, rng: ("x" + old, old[:-1], '"kind"', "place", '"names"', "mean")[rng.integers(6)])
CHANGES = (_flipped, _lines, _lines, *[_number] * 4, *[_other_size] * 4, _text, _key, _cut, _huge)


def commands(kind: str, path: Path) -> list[list[str]]:
    """Return the commands that read a file of a kind."""
    if kind == "profile":
        few = ["--seeds", "2", "--jobs", "1"]
        return [["plan", str(path)], ["plan", str(path), "--json"], ["simulate", str(path), *few]]
    if kind == "journal":
        return [["journal", str(path)], ["journal", str(path), "--json"], ["journal", str(path), "--drop", "1"]]
    out = str(path.with_suffix(".toml"))
    return [["report", str(path), "--json"], ["report", str(path)], ["trace", str(path), "--out", out]]


@dataclass(frozen=True, slots=True)
class Case:
    """One damaged file and the command that is to read it."""

    seed: int
    kind: str
    data: bytes
    command: int

    @classmethod
    def drawn(cls, seed: int, good: dict[str, list[bytes]]) -> "Case":
        """Return the case of a seed."""
        rng = np.random.default_rng(seed)
        kind = list(good)[rng.integers(len(good))]
        whole = good[kind][rng.integers(len(good[kind]))]
        return cls(seed, kind, mutated(whole, rng), int(rng.integers(3)))

    def run(self, folder: Path) -> str:
        """Return what is wrong with how the command ended, in words; nothing where it succeeded or said one line."""
        path = folder / f"mutated.{self.kind}"
        for beside in ("-wal", "-shm", ".lock"):  # what SQLite and a journal leave beside a file
            path.with_name(path.name + beside).unlink(missing_ok=True)
        path.write_bytes(self.data)
        return outcome(commands(self.kind, path)[self.command])[1]


def outcome(arguments: list[str]) -> tuple[int, str]:
    """Run a command; return its exit code, and what is wrong with how it ended."""
    heard = io.BytesIO()
    said = io.TextIOWrapper(heard, encoding="utf-8", errors="backslashreplace", write_through=True)
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # refuses what a terminal would
    before = sys.argv
    sys.argv = ["echelon", *arguments]
    try:
        with redirect_stderr(said), redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("error")
            command_line()
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    except BaseException:
        return 1, f"echelon {' '.join(arguments)}\n{traceback.format_exc()}"
    else:
        code = 0
    finally:
        sys.argv = before
    error = heard.getvalue().decode()
    fine = error == "" if code == 0 else code == 2 and error.startswith("echelon: ") and error.count("\n") == 1
    if fine and len(error) > 2000:
        return code, f"echelon {' '.join(arguments)}: a line of {len(error)} letters: {error[:200]}"
    return code, "" if fine else f"echelon {' '.join(arguments)}: exit code {code}, and said {error!r}"


def in_a_child(case: Case, folder: Path) -> tuple[str, float, float]:
    """Run a case in a process of its own; return what is wrong, its seconds, and its gigabytes at most."""
    told, tell = os.pipe()
    start = time.monotonic()
    child = os.fork()
    if not child:
        os.close(told)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(2 * SECONDS)
        wrong = case.run(folder)
        os.write(tell, wrong.encode("utf-8", "replace")[-4000:])
        os._exit(0)
    os.close(tell)
    with os.fdopen(told, "rb") as pipe:
        wrong = pipe.read().decode()
    _, status, used = os.wait4(child, 0)
    if status:
        wrong = f"command {case.command} of a {case.kind}: ended by signal {os.WTERMSIG(status)}"
    seconds, gigabytes = time.monotonic() - start, used.ru_maxrss / 2**20
    if not wrong and (seconds > SECONDS or gigabytes > GIGABYTES):
        wrong = f"command {case.command} of a {case.kind}: {seconds:.1f} s, {gigabytes:.2f} GB"
    return wrong, seconds, gigabytes


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.mutated", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000, help="how many files")
    parser.add_argument("--first", type=int, default=0, help="seed of the first; each has its own")
    parser.add_argument("--keep", type=Path, help="write the files of this run that ended badly to this folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        good = {"profile": profiles(), "record": records(folder), "journal": journals(folder)}
        for kind, files in good.items():  # the good ones load what the others need, before any child is forked
            for data in files:
                path = folder / f"good.{kind}"
                path.write_bytes(data)
                for command in commands(kind, path):
                    code, wrong = outcome(command)
                    assert code == 0, f"{kind}: {data!r}\n{wrong}"
        kinds: Counter[str] = Counter()
        bad, slowest, largest = 0, 0.0, 0.0
        for seed in range(arguments.first, arguments.first + arguments.count):
            case = Case.drawn(seed, good)
            wrong, seconds, gigabytes = in_a_child(case, folder)
            kinds[case.kind] += 1
            slowest, largest = max(slowest, seconds), max(largest, gigabytes)
            if wrong:
                bad += 1
                print(f"seed {seed}: {wrong}\n", flush=True)
                if arguments.keep is not None:
                    arguments.keep.mkdir(parents=True, exist_ok=True)
                    (arguments.keep / f"{seed}.{case.kind}").write_bytes(case.data)
    print(json.dumps({**kinds, "bad": bad, "slowest_s": round(slowest, 2), "largest_gb": round(largest, 3)}))
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
