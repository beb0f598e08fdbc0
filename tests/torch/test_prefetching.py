"""Processes that read ahead: the same gradients, and none of them outlives its worker."""

import gc
import os
import signal
import time
from pathlib import Path

import pytest
import torch
from torch import nn

import echelon as ec
from echelon.torch import CodedGradient
from echelon.torch.losses import Losses
from echelon.torch.samples import source
from echelon.torch.sources import At
from tests.torch.networks import Augmented, Failing, Sharded, Words, padded, perceptron

CROSS = nn.CrossEntropyLoss()


@pytest.fixture(scope="module")
def processes():
    with ec.Stream("processes", workers=2, redundancy=1.5) as one:
        yield one


def losses(stream, data, loaders, steps=6, deadly=None, **options):
    """The losses of some steps, with a deed before each of them."""
    found, model = [], perceptron(torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with CodedGradient(
        model, CROSS, data, stream=stream, batch_size=12, loaders=loaders, seed=4, **options
    ) as coded:  # fmt: skip
        for step in range(steps):
            if deadly is not None:
                deadly(step)
            optimizer.zero_grad()
            found.append(float(coded.backward()))
            optimizer.step()
    return found


def status(pid):
    """State and parent of a process; None if it has ended."""
    try:
        kept = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if kept[0] == "Z" else (kept[0], int(kept[1]))


def ours(pid):
    """Whether a process descends from this one."""
    while pid > 1 and pid != os.getpid():
        found = status(pid)
        pid = 0 if found is None else found[1]
    return pid == os.getpid()


def children(parents):
    """Processes whose parent is one of these, which must descend from this one."""
    assert all(map(ours, parents)), "process numbers, not numbers of workers"
    listed = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    found = {pid: status(pid) for pid in listed}
    return {pid for pid, known in found.items() if known is not None and known[1] in parents}


def kill(pid):
    """Kill a process that descends from this one, and no other."""
    assert ours(pid)
    os.kill(pid, signal.SIGKILL)


def gone(pids, within_s=20.0):
    """Whether all of these end in time."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if not any(map(status, pids)):
            return True
        os.sched_yield()
    return False


def workers_of(stream):
    """The processes of a stream's workers."""
    return set(stream._cluster.pids().values())


@pytest.mark.parametrize("cluster", ["processes", "threads"])
@pytest.mark.parametrize("data", [Augmented(), Sharded(50)], ids=["items", "a shard each"])
def test_chunks_read_ahead_are_the_same_and_no_process_is_left(cluster, data, request):
    if cluster == "processes":
        stream = request.getfixturevalue("processes")
        parents = workers_of(stream)
        found = losses(stream, data, loaders=2)
        assert gone(children(parents))
        assert found == pytest.approx(losses(stream, data, loaders=0), rel=1e-10)
        return
    before = children({os.getpid()})
    with ec.Stream("threads", workers=2, redundancy=1.5) as stream:
        found = losses(stream, data, loaders=2)
        wanted = losses(stream, data, loaders=0)
    assert gone(children({os.getpid()}) - before)
    assert found == pytest.approx(wanted, rel=1e-10)


def test_loaders_die_with_their_worker_and_by_themselves_and_the_losses_stay_the_same(processes):
    cluster, killed = processes._cluster, []

    def deed(step):
        if step == 2:
            killed.extend(children(workers_of(processes)))
            for pid in killed:
                kill(pid)
        if step == 4:
            number, pid = max(cluster.pids().items())
            killed.extend([pid, *children({pid})])
            cluster.kill(number)

    found = losses(processes, Augmented(), loaders=2, steps=8, deadly=deed)
    assert len(killed) >= 2  # a loader, and a worker
    assert gone(killed)
    assert found == pytest.approx(losses(processes, Augmented(), loaders=0, steps=8), rel=1e-10)
    assert gone(children(workers_of(processes)))


@pytest.mark.parametrize("cluster", ["processes", "threads"])
def test_what_a_loader_raises_fails_the_step_with_its_traceback(cluster, request):
    model = perceptron(torch.float64)
    with ec.Stream("threads", workers=2) as threads:
        stream = request.getfixturevalue("processes") if cluster == "processes" else threads
        with (
            CodedGradient(model, CROSS, Failing(), stream=stream, loaders=2) as coded,
            pytest.raises(ec.JobFailed, match="item 7 can't be read") as caught,
        ):
            coded.backward()
    assert "in __getitem__" in caught.value.traceback


@pytest.mark.parametrize("raises", [False, True])
def test_loaders_end_with_their_source_without_a_collection(raises):
    """What a loader that died or raised leaves behind does not hold the source of the others."""
    before = children({os.getpid()})
    gc.collect()
    gc.disable()
    try:
        ahead = made(Failing() if raises else Augmented(30), 30 if raises else 6, loaders=2)
        if raises:
            with pytest.raises(OSError, match="item 7 can't be read"):
                ahead.read(At(0), [0, 1, 2])
        else:
            ahead.read(At(0), [0, 1, 2])
            for pid in children({os.getpid()}) - before:
                kill(pid)
            for step in range(1, 5):
                ahead.read(At(step), [0, 1, 2])
        there = children({os.getpid()}) - before
        assert there
        del ahead
        assert gone(there)
    finally:
        gc.enable()


def made(data, batch_size, collate=None, loaders=1):
    return source(
        data, batch_size=batch_size, chunks=3, seed=1, collate=collate, loaders=loaders, losses=Losses(None, None)
    )


def test_what_was_read_ahead_is_used_and_each_item_read_once(tmp_path):
    """A worker whose step has several rows: none of them drops what was read for another."""
    ahead = made(Augmented(30, tmp_path), 6, loaders=2)
    for step in range(4):
        for chunks in ([0, 1], [2]):
            found = ahead.read(At(step), chunks)
            plain = made(Augmented(30), 6, loaders=0).read(At(step), chunks)
            assert torch.equal(found.samples[0], plain.samples[0])
    ahead.read(At(4), [0, 1, 2])  # the last of the epoch: what follows is of the next
    ahead.__del__()
    items = sorted(number for read in ahead._source._dataset.read().values() for number in read)
    assert [items.count(number) for number in range(30)].count(1) + len(items) - 30 >= 24
    assert len(items) <= 36  # the epoch, and what was read for the step that never came


def test_chunks_that_can_not_be_one_batch_are_read_one_by_one():
    ahead, plain = (made(Words(), 9, padded, loaders) for loaders in (1, 0))
    for step in range(3):
        assert (ahead.read(At(step), [0, 1, 2]) is None) == (plain.read(At(step), [0, 1, 2]) is None)
        for chunk in range(3):
            one, other = (some.read(At(step), [chunk]) for some in (ahead, plain))
            assert one.sizes == other.sizes == (3,)
            assert torch.equal(one.samples["words"], other.samples["words"])
    ahead.__del__()


def test_other_cuts_are_read_anew_and_what_was_read_for_the_old_ones_is_dropped():
    ahead, plain = (made(Augmented(30), 6, None, loaders) for loaders in (2, 0))
    cuts = [None, (0, 1, 2, 6), (0, 1, 2, 6), (0, 4, 5, 6)]
    for step, some in enumerate(cuts):
        found, wanted = (one.read(At(step, some), [0, 2]) for one in (ahead, plain))
        assert found.sizes == wanted.sizes
        assert torch.equal(found.samples[0], wanted.samples[0])
        assert {at.step for at, *_ in ahead._ahead} <= {step, step + 1}
    ahead.__del__()


def test_a_loader_that_has_died_is_noticed_where_nothing_was_read_ahead_either(caplog):
    ahead, plain = (made(Augmented(30), 6, None, loaders) for loaders in (1, 0))
    ahead.read(At(0), [0])
    kill(next(iter(ahead._loaders[0]._processes)))
    for step, chunk in ((5, 1), (6, 1)):
        assert torch.equal(
            ahead.read(At(step), [chunk]).samples[0], plain.read(At(step), [chunk]).samples[0]
        )  # fmt: skip
    assert "a process that reads data has died" in caplog.text
    ahead.__del__()
