"""Chunks and states are read-only for the user's functions, on every cluster."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import echelon as ec
from echelon.jobs.calling import call, shown

INSIDE = ["virtual", "threads"]
EVERYWHERE = [*INSIDE, "processes"]
Pair = namedtuple("Pair", "x y")

SHAPES = {
    "array": lambda x: x,
    "tuple": lambda x: (x, 1.0),
    "dict": lambda x: {"x": x, "deep": [x]},
    "list": lambda x: [x, {"y": x}],
}


def first(chunk):
    """Return the array of a chunk of any of the shapes."""
    return chunk if isinstance(chunk, np.ndarray) else chunk["x"] if isinstance(chunk, dict) else chunk[0]


def doubling(state, chunk):
    """Change the chunk in place, as a partial must not."""
    x = first(chunk)
    x *= 2.0
    return x.sum() * 0 + state


def job(partial, chunks, **options):
    return ec.SumJob(
        partial=partial, update=lambda w, total: total, state=1.0, chunks=chunks, iterations=3, **options
    )  # fmt: skip


@pytest.fixture(scope="module")
def streams():
    """One stream per cluster for all tests."""
    with (
        ec.Stream("virtual", workers=2) as virtual,
        ec.Stream("threads", workers=2) as threads,
        ec.Stream("processes", workers=2) as processes,
    ):
        yield {"virtual": virtual, "threads": threads, "processes": processes}


@pytest.mark.parametrize("cluster", EVERYWHERE)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_partial_that_changes_its_chunk_fails_and_is_told_what_to_do(streams, cluster, shape):
    chunks = [SHAPES[shape](np.full(3, float(i))) for i in range(4)]
    with pytest.raises(ec.errors.JobFailed, match="read-only") as failed:
        streams[cluster].submit(job(doubling, chunks), deliver=False).result()
    assert "copies=True" in str(failed.value)
    assert [first(chunk).tolist() for chunk in chunks] == [[float(i)] * 3 for i in range(4)]


@pytest.mark.parametrize("cluster", EVERYWHERE)
def test_with_copies_a_partial_may_change_what_it_is_given(streams, cluster):
    def partial(state, chunk):
        chunk["x"] *= 2.0
        state["w"] += 1.0
        return chunk["x"].sum() + 0 * state["w"]

    chunks = [{"x": np.ones(3)} for _ in range(4)]
    changing = ec.SumJob(
        partial=partial, update=lambda w, total: {"w": total}, state={"w": np.zeros(1)}, chunks=chunks, iterations=3,
        copies=True,
    )  # fmt: skip
    result = streams[cluster].submit(changing, deliver=False).result()
    assert result["w"] == pytest.approx(24.0)
    assert all((chunk["x"] == 1).all() for chunk in chunks)


@pytest.mark.parametrize("cluster", EVERYWHERE)
def test_a_partial_that_changes_the_state_fails_and_is_told_what_to_do(streams, cluster):
    def partial(state, chunk):
        state["w"] += chunk
        return state["w"]

    state = {"w": np.zeros(2)}
    changing = ec.SumJob(
        partial=partial, update=lambda w, total: {"w": total}, state=state, chunks=[1.0, 2.0], iterations=2
    )
    with pytest.raises(ec.errors.JobFailed, match="copies=True"):
        streams[cluster].submit(changing, deliver=False).result()


@pytest.mark.parametrize("cluster", EVERYWHERE)
def test_what_a_partial_puts_into_its_containers_is_gone_with_the_call(streams, cluster):
    def partial(state, chunk):
        chunk["x"] = chunk["x"] + 1.0
        chunk["seen"].append(1)
        return chunk["x"] * len(chunk["seen"])

    chunks = [{"x": np.zeros(1), "seen": []} for _ in range(3)]
    assert streams[cluster].submit(job(partial, chunks), deliver=False).result() == pytest.approx(3.0)
    assert chunks == [{"x": 0.0, "seen": []}] * 3


@pytest.mark.parametrize("cluster", INSIDE)
def test_blocks_are_shown_data_that_they_can_not_change(streams, cluster):
    def prepare(state, chunk):
        return {"residual": chunk * state}

    def partial(shared, chunk, at):
        shared["residual"] += 1.0
        return shared["residual"][at]

    plan = ec.schemes.block_coordinate(2, [2, 1])
    changing = ec.BlockJob(
        partial=partial, prepare=prepare, update=lambda w, g: w - g, state=np.ones(3), chunks=[np.ones(3)] * 2,
        plan=plan, iterations=1,
    )  # fmt: skip
    with pytest.raises(ec.errors.JobFailed, match="copies=True"):
        streams[cluster].submit(changing, deliver=False).result()


def test_chunks_that_are_loaded_are_read_only_too(streams):
    with pytest.raises(ec.errors.JobFailed, match="copies=True"):
        streams["virtual"].submit(
            ec.SumJob(partial=doubling, update=lambda w, t: t, state=1.0, load=lambda i: np.ones(2), parts=2,
                      iterations=2),
            deliver=False,
        ).result()  # fmt: skip


def test_what_is_shown_has_the_types_it_had():
    held = Pair(np.ones(2), OrderedDict(a=[np.ones(1), "text"], b={1, 2}))
    seen = shown(held)
    assert type(seen) is Pair
    assert type(seen.y) is OrderedDict
    assert not seen.x.flags.writeable
    assert not seen.y["a"][0].flags.writeable
    assert seen.y["b"] == {1, 2}
    assert seen.y["b"] is not held.y["b"]
    assert held.x.flags.writeable


def test_an_array_that_is_read_only_already_and_an_object_are_shown_as_they_are():
    array, thing = np.frombuffer(bytes(8)), object()
    assert shown(array) is array
    assert shown(thing) is thing


def test_another_value_error_gets_no_advice():
    def wrong():
        raise ValueError("something else")

    with pytest.raises(ValueError, match="something else") as raised:
        call(wrong, copies=False)
    assert not hasattr(raised.value, "__notes__")
