"""Work for the tests of clusters: importable, so that worker processes find it."""

import os
import select

import numpy as np

from echelon.clusters import Attached, Remembers
from tests.clusters.desk import LIMIT_S


class Scaled:
    """Row r combines parts r and r + 1 with weights 1 and 2; part p is p + state, as an array of some size.

    With a gate, every part first waits for its token there.
    """

    def __init__(self, size=3, gate=None):
        self.size, self.gate = size, gate

    def row(self, slot, row):
        return (row, row + 1), np.array([1.0, 2.0])

    def part(self, state, part):
        if self.gate is not None:
            self.gate.pass_one()
        return np.full(self.size, part + float(np.sum(state)))

    def expected(self, state, row):
        return np.full(self.size, 3 * row + 2 + 3 * float(np.sum(state)))


class Gate:
    """A named pipe with a token for every part that may be computed: workers wait there, wherever they run."""

    def __init__(self, folder, name="gate"):
        self.path = str(folder / name)
        os.mkfifo(self.path)
        self.held = os.open(self.path, os.O_RDWR)  # as long as somebody could write, readers wait

    def let_through(self, parts):
        os.write(self.held, b"." * parts)

    def pass_one(self):
        with open(self.path, "rb", buffering=0) as pipe:
            pipe.read(1)

    def ring(self):
        """Leave a token, from a worker; `wait_for_one` takes it."""
        with open(self.path, "wb", buffering=0) as pipe:
            pipe.write(b".")

    def wait_for_one(self):
        assert select.select([self.held], [], [], LIMIT_S)[0], "no worker came there"
        os.read(self.held, 1)

    def close(self):
        os.unlink(self.path)  # first: whoever came to a pipe without a writer would wait for ever
        os.close(self.held)


class Plain:
    """Row r is part r: whatever `make` returns."""

    def __init__(self, make):
        self.make = make

    def row(self, slot, row):
        return (row,), np.ones(1)

    def part(self, state, part):
        return self.make(state, part)


class Reader(Plain):
    """A part rings a bell, waits at a gate, and only then looks at the state: it is the state's sum, of some size."""

    def __init__(self, bell, gate, size=1, parts=1):
        self.bell, self.gate, self.size, self.parts = bell, gate, size, parts

    def row(self, slot, row):
        return range(row, row + self.parts), np.ones(self.parts)

    def part(self, state, part):
        self.bell.ring()
        self.gate.pass_one()
        return np.full(self.size, float(np.sum(state)))


class Reused(Plain):
    """Every part is written into the same memory: its number, over and over."""

    def __init__(self, size):
        self.memory = None
        self.size = size

    def part(self, state, part):
        if self.memory is None:
            self.memory = np.empty(self.size)
        self.memory[:] = part
        return self.memory


class Hybrid:
    """Rows 0, 1 and 2 are parts, row 3 is their sum; a part is how many parts were computed so far."""

    def __init__(self):
        self.computed = 0

    def row(self, slot, row):
        return ((0, 1, 2), np.ones(3)) if row == 3 else ((row,), np.ones(1))

    def part(self, state, part):
        self.computed += 1
        return np.array([float(self.computed)])


class Deadly(Plain):
    """Ends the process in which it is unpickled."""

    def __init__(self):
        super().__init__(raises)

    def __setstate__(self, state):
        os._exit(1)

    def __getstate__(self):
        return {"nothing": 1}


def raises(state, part):
    if part == 2:
        raise RuntimeError("part two is no good")
    return np.ones(1)


def tree(state, part):
    return {"sum": np.full((2, 2), float(part)), "more": (np.float32(part) * np.ones(2, dtype=np.float32), 3)}


def counted(state, part):
    """Return how often this process was asked for a part so far: shows what is computed again."""
    COUNTS[part] = COUNTS.get(part, 0) + 1
    return np.array([float(sum(COUNTS.values()))])


COUNTS = {}


def uneven(state, part):
    return np.ones(2 + part)


def text(state, part):
    return "not a number"


class Looked(Attached):
    """A state that names keys of what was loaded beside the work."""

    def __init__(self, keys):
        self.keys, self.find = keys, None

    def attach(self, find):
        self.find = find


def added(state, part):
    """Return the part, plus the sum of all that the state names."""
    return np.array([part + sum(float(np.sum(state.find(key))) for key in state.keys)])


def same_object(state, part):
    """Return whether a key gives the same object each time it is asked for, and one that can't be written."""
    first, second = state.find(state.keys[0]), state.find(state.keys[0])
    return np.array([float(first is second), float(getattr(first, "flags", None) is None or first.flags.writeable)])


class Counting(Remembers):
    """A part is how often its worker has computed it."""

    def row(self, slot, row):
        return (row,), np.ones(1)

    def part(self, state, part):
        raise AssertionError("it goes on from what its worker remembers")

    def go_on(self, state, part, memory, wanted):
        assert wanted()
        memory[part] = memory.get(part, 0) + 1
        return np.array([float(memory[part])])
