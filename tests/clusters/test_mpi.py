"""Ranks as workers: each test starts mpiexec, as root or not; rank 0 runs tests of its own, or a program."""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest

from echelon.clusters import mpi_link, mpi_worker
from echelon.clusters.mpi_peer import Peer
from echelon.clusters.shelf import Shelf
from echelon.errors import ClusterError
from echelon.stream import Journal
from tests.clusters.kinds import ONE_KIND
from tests.conftest import ROOT
from tests.stream.jobs import sum_result

pytest.importorskip("mpi4py", reason="needs the extra 'mpi'")

MPIEXEC = Path(sys.executable).with_name("mpiexec")
LIMIT_S = 100.0
ROOT_TOO = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
CONFORMANCE = ["tests/clusters/test_conformance.py", "tests/clusters/test_loaded.py"]


def mpiexec(ranks, *program, tolerant=False, **environment):
    """Return what a program on so many ranks ended with: its code, what it said, and what went wrong."""
    how = [MPIEXEC, *(["--with-ft", "ulfm"] if tolerant else []), "--oversubscribe", "-n", ranks]
    python = {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
    return subprocess.run(
        [str(word) for word in [*how, *program]],
        cwd=ROOT, env=os.environ | ROOT_TOO | ONE_THREAD | python | environment, timeout=LIMIT_S, text=True,
        stdin=subprocess.DEVNULL, capture_output=True,
    )  # fmt: skip


def pytest_on_ranks(ranks, *arguments, **more):
    """Run tests on rank 0; return how many passed and were skipped there. They must not fail."""
    program = [sys.executable, "-m", "tests.clusters.mpi_tests", "-q", "--color=no", *arguments]
    ended = mpiexec(ranks, *program, **{ONE_KIND: "mpi"}, **more)
    assert ended.returncode == 0, f"{ended.args}\n{ended.stdout}\n{ended.stderr}"
    counts = {what: int(count) for count, what in re.findall(r"(\d+) (\w+)", ended.stdout.splitlines()[-1])}
    assert not counts.keys() & {"failed", "error", "errors"}
    return counts.get("passed", 0), counts.get("skipped", 0), counts.get("deselected", 0)


def no_rank_is_left(marker):
    """Return whether every process that has the marker in its command line ends, if it has not ended yet."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended by now
            if marker.encode() in path.read_bytes():
                process = os.pidfd_open(int(path.parent.name))
                ended = select.select([process], [], [], 10.0)[0]
                os.close(process)
                if not ended:
                    return False
    return True


def test_ranks_conform():
    """All of the conformance tests but those that kill: a rank has no successor, so each of these needs a run."""
    passed, skipped, left = pytest_on_ranks(4, *CONFORMANCE, "-k", "not killed and not gone")
    assert passed >= 30
    assert skipped == 1, "only a newcomer's test has nothing to test"
    assert left == 5, "two of the tests that kill are run below"


@pytest.mark.parametrize("name", ["killed_worker_is_reported", "gone"])
def test_ranks_conform_when_one_is_killed(name):
    assert pytest_on_ranks(4, *CONFORMANCE, "-k", name, tolerant=True)[:2] == (1, 0)


def test_all_kinds_of_jobs_run_on_ranks():
    passed, skipped, _ = pytest_on_ranks(4, "tests/clusters/mpi_streams.py", "tests/clusters/mpi_series.py")
    assert passed >= 17
    assert skipped == 0


def test_streams_go_on_when_ranks_die():
    assert pytest_on_ranks(6, "tests/clusters/mpi_losses.py", tolerant=True)[:2] == (4, 0)


@pytest.mark.parametrize("workers", [3, 5, 8])
def test_large_rows_are_added_up_by_the_ranks_and_the_master_moves_each_byte_twice(workers):
    assert pytest_on_ranks(workers + 1, "tests/clusters/mpi_sums.py")[:2] == (11, 0)


def test_sums_are_right_when_ranks_die_or_hang_meanwhile():
    assert pytest_on_ranks(9, "tests/clusters/mpi_sum_losses.py", tolerant=True)[:2] == (7, 0)


def test_memory_for_rows_states_and_sums_is_given_back_when_a_job_ends_or_a_stream():
    peer = Peer(SimpleNamespace(leaving=Event(), rank=1))
    worker = object.__new__(mpi_worker.MpiWorker)
    worker._peer, worker._shelf, worker._going = peer, Shelf(), lambda: True
    for end in (lambda: worker._unload(1), lambda: peer.close(2)):
        worker._shelf.put(1, object)
        for dtype in "dB":
            peer.rooms.take(np.dtype(dtype), 1 << 21)
        held = peer.rooms.take(np.dtype("d"), 1 << 21)
        peer._spare.append(np.empty(1 << 20, np.uint8))
        assert len(peer.rooms) == 2
        end()
        assert (len(peer.rooms), len(peer._spare)) == (0, 0)
        held.fill(1.0)  # what somebody has stays


def test_a_frame_that_comes_with_the_error_of_a_known_death_is_not_lost():
    class Died(Exception):
        pass

    def test(status):
        status.source = came.pop(0)
        raise Died

    link = object.__new__(mpi_link.Link)
    link.mpi, link._status, link._posted = (
        SimpleNamespace(Exception=Died),
        SimpleNamespace(),
        SimpleNamespace(Test=test),
    )
    came = [3]
    assert link._look()
    link._posted.Test = lambda status: (_ for _ in ()).throw(Died)
    with pytest.raises(Died):
        link._look()


JOURNALED = """
import contextlib, os, signal, sys
import echelon as ec
from tests.stream.jobs import doubled, sum_job

class Fatal:
    def __init__(self, spent):
        self.spent = spent  # a file that whoever comes first to the second iteration makes, and dies

    def __call__(self, state, chunk):
        with contextlib.suppress(FileExistsError):
            if state[0] != 1.0:
                os.close(os.open(self.spent, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
        return doubled(state, chunk)

journal, spent = sys.argv[1:]
fresh = not os.path.exists(journal)
with ec.Stream("mpi", redundancy=1.0, patience_s=1e3, journal=journal) as stream:  # nobody can be done without
    if fresh:
        for seed in range(3):
            job = sum_job(seed, iterations=20)
            job.partial = Fatal(spent)
            stream.submit(job)
    print("resumed", len(stream.resumed), flush=True)
    for done in stream.deliveries():
        print("delivered", done.number, *done.result, flush=True)
"""


def test_when_the_launcher_ends_the_master_it_says_what_to_do():
    script = "import os, signal\nfrom echelon.clusters import mpi_run\nmpi_run._explain_termination()\n"
    ended = subprocess.run(
        [sys.executable, "-c", f"{script}os.kill(os.getpid(), signal.SIGTERM)"],
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert ended.returncode == -signal.SIGTERM
    assert "jobs of a stream with a journal go on when the program is started again" in ended.stderr


def test_without_fault_tolerance_the_run_ends_with_a_message_and_the_journal_resumes_it(tmp_path):
    journal, spent = tmp_path / "journal", tmp_path / "spent"
    program = [sys.executable, "-c", JOURNALED, journal, spent]
    ended = mpiexec(4, *program)
    assert spent.exists(), ended.stderr
    assert ended.returncode != 0
    assert "resumed 0" in ended.stdout
    assert "noticed that process rank" in ended.stderr  # the launcher's own words; ours may be cut off by it
    again = mpiexec(4, *program)
    assert again.returncode == 0, again.stderr
    assert "resumed 3" in again.stdout
    found = [line.split()[1:] for line in again.stdout.splitlines() if line.startswith("delivered")]
    assert [int(line[0]) for line in found] == [1, 2, 3]
    for seed, line in enumerate(found):
        np.testing.assert_allclose([float(word) for word in line[1:]], sum_result(seed, iterations=20), rtol=1e-9)
    left = Journal(journal)
    assert list(left.undelivered()) == []
    left.close()


JOBS = """
import os
import numpy as np
import echelon as ec

with open(os.environ["JOBS_LOG"], "a") as log:
    log.write("read\\n")

def jobs():
    for name in "ab":
        yield ec.SumJob(partial=lambda state, chunk: state * chunk, update=lambda state, total: total / 6.0,
                        state=np.full(3, 2.0), chunks=[1.0, 2.0, 3.0], iterations=4, name=name)
"""


def test_echelon_run_runs_jobs_on_ranks_and_only_rank_0_reads_and_writes(tmp_path):
    file, log, results = tmp_path / "some_jobs.py", tmp_path / "log", tmp_path / "results"
    file.write_text(textwrap.dedent(JOBS))
    program = [MPIEXEC.with_name("echelon"), "run", f"{file}:jobs", "--cluster", "mpi", "--results", results, "--json"]
    ended = mpiexec(3, *program, JOBS_LOG=str(log))
    assert ended.returncode == 0, ended.stderr
    assert [job["name"] for job in json.loads(ended.stdout)["jobs"]] == ["a", "b"]
    assert log.read_text() == "read\n"
    for path in sorted(results.iterdir()):
        np.testing.assert_allclose(np.load(path), np.full(3, 2.0))


def test_a_program_that_raises_ends_with_its_error_and_leaves_no_rank():
    marker = f"echelon-marker-{os.getpid()}"
    ended = mpiexec(3, sys.executable, "-c", f"import echelon as ec\nec.Stream('mpi', workers=7)  # {marker}")
    assert ended.returncode == 1
    assert ended.stderr.count("ArgumentError: workers: 7 is not allowed; must be 2, one per rank") == 1
    assert no_rank_is_left(marker)


HANGING = """
import sys, threading  # {marker}
import echelon as ec

def endless(state, chunk):
    open({begun!r}, "w").close()
    threading.Event().wait()

job = ec.SumJob(partial=endless, update=lambda state, total: state, state=1.0, chunks=[1.0, 2.0], iterations=1)
stream = ec.Stream("mpi", redundancy=1.0)
stream.submit(job)
open({begun!r}).close()  # a pipe: it opens when a worker has opened its end
stream.close(wait=False)
sys.exit(3)
"""


def test_ranks_end_with_the_program_even_if_a_part_does_not_and_its_exit_code_stays(tmp_path):
    marker, begun = f"echelon-hanging-{os.getpid()}", str(tmp_path / "begun")
    os.mkfifo(begun)
    ended = mpiexec(3, sys.executable, "-c", HANGING.format(marker=marker, begun=begun))
    assert ended.returncode == 3
    assert no_rank_is_left(marker)


def test_killing_the_master_leaves_no_rank_even_with_fault_tolerance():
    marker = f"echelon-orphan-{os.getpid()}"
    script = f"""
        import os, signal  # {marker}
        import echelon as ec
        stream = ec.Stream("mpi")
        os.kill(os.getpid(), signal.SIGKILL)
    """
    ended = mpiexec(3, sys.executable, "-c", textwrap.dedent(script), tolerant=True)
    assert ended.returncode != 0
    assert no_rank_is_left(marker)


def test_a_program_that_was_not_started_by_mpiexec_says_how_to():
    script = "import echelon as ec\nec.Stream('mpi')"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert "needs at least two ranks" in ended.stderr
    assert "mpiexec -n 6 python FILE.py" in ended.stderr


def test_without_mpi4py_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ClusterError, match=r"pip install 'echelon-compute\[mpi\]'"):
        mpi_link.library()


def test_what_is_under_way_is_helped_on_until_it_has_left_or_for_a_while(monkeypatch):
    monkeypatch.setattr(mpi_worker, "_NUDGE_S", 0.0)
    answers = iter([False, False, True, "not asked"])
    link = SimpleNamespace(leaving=Event(), flush=lambda: next(answers))
    link.leaving.set()
    mpi_worker._help_on(link)
    assert next(answers) == "not asked"
    assert not link.leaving.is_set()
    monkeypatch.setattr(mpi_worker, "_GLIMPSE_S", 0.0)
    link.flush = lambda: False
    mpi_worker._help_on(link)
    assert link.leaving.is_set(), "it is looked after again later"
