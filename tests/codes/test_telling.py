"""What verification may say, for every family: no honest message is accused, and what can be told is told."""

import numpy as np
import pytest

from echelon.codes import Code, fractional_repetition, reed_solomon, verify
from echelon.codes.distance import components, tells
from echelon.linalg import row_space
from tests.codes.families import KNOWN, SMALL, arcs

CASES = {f"{name}-{i}": make for name, makes in SMALL.items() for i, make in enumerate(makes)}
CASES |= {name: lambda code=code: code for name, code in KNOWN.items()}
CASES["repeated 4"] = lambda: fractional_repetition(rows=12, load=4)
CASES["repeated 6"] = lambda: fractional_repetition(rows=12, load=6)
CASES["several messages"] = lambda: reed_solomon(np.concatenate([arcs(10, 6), arcs(10, 8)]))


def encoded(code, draw, dtype, width):
    messages = np.stack(code.encode(draw.standard_normal((code.matrix.shape[1], width))))
    return messages.astype(np.result_type(dtype, np.complex64) if np.iscomplexobj(messages) else dtype)


def spanned(matrix, rows, row):
    """Return whether a row is a combination of others."""
    rank = np.linalg.matrix_rank
    return bool(rows) and rank(matrix[rows], tol=1e-8) == rank(matrix[[*rows, row]], tol=1e-8)


def decided(code, rows, wrong):
    """Return whether one wrong message can be told, by ranks alone: whichever other message is left out, it is seen.

    Of three copies none can be told: two may be wrong alike.
    """
    others = [row for row in rows if row != wrong]
    if not spanned(code.matrix, others, wrong):
        return False
    lengths = np.linalg.norm(code.matrix, axis=1)
    copies = [
        row
        for row in rows
        if abs(abs(code.matrix[row] @ code.matrix[wrong].conj()) - lengths[row] * lengths[wrong]) < 1e-9
    ]
    rest = [row for row in rows if row not in copies]
    if len(copies) == 3 and not spanned(code.matrix, rest, wrong):
        return False
    return all(spanned(code.matrix, [row for row in others if row != one], wrong) for one in others)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(CASES))
def test_one_gross_error_is_named_wherever_the_code_can_tell_it(name, dtype):
    """One entry + 5, in random sets of rows; in float32 7 to 50 % were not named."""
    code, draw = CASES[name](), np.random.default_rng(2)
    for _ in range(40 if code.rows < 24 else 12):
        rows = draw.choice(code.rows, draw.integers(code.threshold, code.rows + 1), replace=False).tolist()
        messages = encoded(code, draw, dtype, 50)
        wrong = int(draw.choice(rows))
        messages[wrong, draw.integers(50)] += 5
        said = verify(code, rows, [messages[row] for row in rows])
        if decided(code, rows, wrong):
            assert (said.told, said.corrupt) == (True, (wrong,))
        else:
            assert said.corrupt == ()
            assert said.clean == (not spanned(code.matrix, [row for row in rows if row != wrong], wrong))


def independently(draw, messages, rows):
    messages[rows] += draw.standard_normal(messages[rows].shape) * 10.0 ** draw.uniform(0, 3)


def alike(draw, messages, rows):
    messages[rows] += draw.standard_normal(messages.shape[1])


def by_one(draw, messages, rows):
    messages[rows] += 1


def with_zeros(draw, messages, rows):
    messages[rows] = 0


def with_another_sign(draw, messages, rows):
    messages[rows] *= -1


WAYS = [independently, alike, by_one, with_zeros, with_another_sign]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(CASES))
def test_no_honest_message_is_accused_where_it_is_told(name, dtype):
    """Up to half as many wrong messages as there are checks, wrong alike or not, in random sets of rows."""
    code, draw = CASES[name](), np.random.default_rng(3)
    for trial in range(60 if code.rows < 24 else 20):
        rows = draw.choice(code.rows, draw.integers(code.threshold, code.rows + 1), replace=False).tolist()
        messages = encoded(code, draw, dtype, 12)
        checks = len(rows) - np.linalg.matrix_rank(code.matrix[rows], tol=1e-8)
        wrong = draw.choice(rows, draw.integers(0, min(6, checks // 2) + 1), replace=False)
        WAYS[trial % len(WAYS)](draw, messages, wrong)
        said = verify(code, rows, [messages[row] for row in rows])
        assert said.checks == checks
        if said.told:
            assert set(said.corrupt) <= set(wrong.tolist())
        else:
            assert said.corrupt == ()
        if not len(wrong):
            assert said.clean


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_two_equal_wrong_messages_of_three_are_not_told(dtype):
    """Fractional repetition, (12, 3): the honest one was accused."""
    code, draw = fractional_repetition(rows=12, load=3), np.random.default_rng(1)
    for trial in range(20):
        messages = encoded(code, draw, dtype, 20)
        group = 3 * (trial % 4)
        messages[[group, group + 1]] += draw.standard_normal(20)
        said = verify(code, range(12), list(messages))
        assert (said.clean, said.told, said.corrupt) == (False, False, ())


def test_a_clear_majority_of_copies_tells():
    for load, wrong, told in ((4, 1, True), (4, 2, False), (5, 1, True), (5, 2, False), (6, 2, True), (6, 3, False)):
        code = fractional_repetition(rows=2 * load, load=load)
        messages = encoded(code, np.random.default_rng(1), np.float64, 20)
        messages[:wrong] += 1
        said = verify(code, range(2 * load), list(messages))
        assert said.told == told
        assert said.corrupt == (tuple(range(wrong)) if told else ())


def test_rows_that_check_each_other_are_found():
    space = row_space(fractional_repetition(rows=6, load=3).matrix[[0, 1, 3, 4, 5]])
    assert [some.tolist() for some in components(space.cancel)] == [[0, 1], [2, 3, 4]]
    single = row_space(fractional_repetition(rows=6, load=3).matrix[[0, 3, 4]])
    assert [some.tolist() for some in components(single.cancel)] == [[1, 2]]


def test_what_a_code_without_promises_can_tell_is_searched_for():
    """Three parts, their sum, and a weighted sum twice: the distance through each row, by trying all small vectors."""
    matrix = np.concatenate([np.eye(3), np.ones((1, 3)), [[1, 2, 3]], [[1, 2, 3.0]]])
    code = Code(matrix=matrix, target=np.ones((1, 3)), threshold=6, counting=False)
    cancel = row_space(code.matrix).cancel
    for place in range(6):
        # a vector B x with two entries, one of them here, would make the other row a rival
        weights = [
            np.count_nonzero(np.abs(code.matrix @ x) > 1e-9)
            for x in np.array(np.meshgrid(*[np.arange(-3, 4)] * 3)).reshape(3, -1).T
            if abs(code.matrix[place] @ x) > 1e-9
        ]
        assert tells(code, cancel, [place]) == (min(weights) >= 3)
