"""Every model of the registry against its definition, over all patterns of small sizes."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.errors import ArgumentError
from echelon.stragglers import MODELS, Arbitrary, Bursts, StragglerModel, keeps_to
from tests.stragglers.naive import CASES, every_pattern, naive

BY_CASE = pytest.mark.parametrize(("model", "workers", "rounds"), CASES, ids=lambda value: str(value))


def alone(worker: int, rounds: int, workers: int) -> np.ndarray:
    pattern = np.zeros((rounds, workers), dtype=bool)
    pattern[:, worker] = True
    return pattern


def random_pattern(model: StragglerModel, workers: int, rounds: int, rng: np.random.Generator) -> np.ndarray:
    """Return a conforming pattern that is sparse or dense: a worst one, with some stragglers taken out."""
    worst = model.worst_patterns(workers, rounds, rng, 1)[0] if rounds else np.zeros((0, workers), dtype=bool)
    return worst & (rng.random(worst.shape) < rng.choice([0.3, 0.7, 1.0]))


@st.composite
def models_and_seeds(draw):
    window = draw(st.integers(1, 7))
    workers = draw(st.integers(1, 6))
    if draw(st.booleans()):
        model: StragglerModel = Arbitrary(count=draw(st.integers(0, workers * window - 1)), window=window)
    else:
        length = draw(st.integers(1, window))
        most = workers - (length == window)
        model = Bursts(workers_at_once=draw(st.integers(0, most)), length=length, window=window)
    return model, workers, draw(st.integers(0, 2**32 - 1))


def test_the_cases_hold_every_registered_model():
    assert {type(model) for model, _, _ in CASES} == set(MODELS.values())


@BY_CASE
def test_a_pattern_conforms_by_definition_and_all_patterns_are_these(model, workers, rounds):
    for few in range(rounds + 1):
        conforming = {p.tobytes() for p in every_pattern(few, workers) if naive(model, p)}
        assert {p.tobytes() for p in every_pattern(few, workers) if model.conforms(p)} == conforming
        found = [p.tobytes() for p in model.all_patterns(workers, few)]
        assert set(found) == conforming
        assert len(found) == len(conforming)


@BY_CASE
def test_a_worker_may_straggle_throughout_if_that_alone_conforms(model, workers, rounds):
    for past in range(rounds):
        for history in model.all_patterns(workers, past):
            for ahead in range(model.window + 3):
                expected = [naive(model, np.concatenate([history, alone(j, ahead, workers)])) for j in range(workers)]
                assert model.may_straggle(history, ahead).tolist() == expected


@BY_CASE
def test_a_worker_may_straggle_throughout_only_if_some_pattern_says_so(model, workers, rounds):
    """What line 13 of Algorithm 2 asks, with whatever the other workers do in the rounds to come."""
    possible: dict[tuple[bytes, int], np.ndarray] = {}
    for pattern in model.all_patterns(workers, rounds):
        for past in range(rounds):
            key = (pattern[:past].tobytes(), past)
            possible[key] = possible.get(key, np.zeros(workers, dtype=bool)) | pattern[past:].all(axis=0)
    for (history, past), may in possible.items():
        known = np.frombuffer(history, dtype=bool).reshape(past, workers)
        assert model.may_straggle(known, rounds - past).tolist() == may.tolist()


@BY_CASE
def test_the_limits_are_what_the_next_round_may_hold_and_no_more(model, workers, rounds):
    choices = every_pattern(1, workers)
    for past in range(rounds):
        for history in model.all_patterns(workers, past):
            limits = model.limits(history)
            for choice in choices:
                assert keeps_to(limits, choice[0]) == naive(model, np.concatenate([history, choice]))


@BY_CASE
def test_most_is_the_most_of_a_window(model, workers, rounds):
    window = model.all_patterns(workers, model.window)
    assert max(int(pattern.sum()) for pattern in window) == min(model.most, workers * model.window)


@given(models_and_seeds())
def test_larger_models_agree_with_their_definition(case):
    model, workers, seed = case
    rng = np.random.default_rng(seed)
    history = random_pattern(model, workers, int(rng.integers(0, 3 * model.window)), rng)
    assert model.conforms(history)
    for pattern in rng.random((5, 2 * model.window, workers)) < rng.random((5, 1, 1)) / 2:
        assert model.conforms(pattern) == naive(model, pattern)
    for ahead in range(model.window + 2):
        expected = [naive(model, np.concatenate([history, alone(j, ahead, workers)])) for j in range(workers)]
        assert model.may_straggle(history, ahead).tolist() == expected
    for choice in rng.random((10, 1, workers)) < rng.random((10, 1, 1)):
        assert keeps_to(model.limits(history), choice[0]) == naive(model, np.concatenate([history, choice]))


@given(models_and_seeds())
def test_no_straggler_can_be_added_to_a_worst_pattern(case):
    model, workers, seed = case
    rounds = model.window + 2
    for pattern in model.worst_patterns(workers, rounds, np.random.default_rng(seed), 3):
        assert naive(model, pattern)
        for t, j in np.argwhere(~pattern):
            more = pattern.copy()
            more[t, j] = True
            assert not naive(model, more)


def test_worst_patterns_come_from_the_generator_alone():
    model = Arbitrary(count=3, window=3)
    draws = [model.worst_patterns(3, 6, np.random.default_rng(seed), 4) for seed in (1, 1, 2)]
    assert (draws[0] == draws[1]).all()
    assert (draws[0] != draws[2]).any()


@given(models_and_seeds())
def test_only_the_last_rounds_of_a_history_matter(case):
    model, workers, seed = case
    rng = np.random.default_rng(seed)
    history = random_pattern(model, workers, 3 * model.window, rng)
    late = history[len(history) - model.window + 1 :]
    assert (model.longest(history) == model.longest(late)).all()
    assert model.limits(history) == model.limits(late)


def test_a_longer_run_is_never_easier():
    model = Bursts(workers_at_once=2, length=3, window=5)
    for history in model.all_patterns(3, 4):
        may = [model.may_straggle(history, ahead) for ahead in range(8)]
        assert all((more <= less).all() for less, more in pairwise(may))


def test_the_shortcut_for_line_13_would_send_out_uncoded_work_that_never_returns():
    """Ruling 3: P = 2, W = 2, N = 2, and worker 1 straggles from round 3 on."""
    model = Arbitrary(count=2, window=2)
    pattern = np.zeros((6, 2), dtype=bool)
    pattern[2:, 0] = True
    assert model.conforms(pattern)
    history, ahead = pattern[:4], 2
    left = model.count - int(history[-1:].sum())
    assert left < ahead  # the shortcut: worker 1 can't straggle in both of rounds 5 and 6 …
    assert model.may_straggle(history, ahead)[0]  # … but it can, and in this pattern it does


def test_models_refuse_what_leaves_no_result():
    Arbitrary(count=7, window=4).check_workers(2)
    Bursts(workers_at_once=2, length=3, window=4).check_workers(2)
    for model in (
        Arbitrary(count=8, window=4),
        Bursts(workers_at_once=2, length=4, window=4),
        Bursts(workers_at_once=3, length=2, window=4),
    ):
        with pytest.raises(ArgumentError, match="is not allowed with 2 workers"):
            model.check_workers(2)
        with pytest.raises(ArgumentError, match="is not allowed with 2 workers"):
            model.worst_patterns(2, 4, np.random.default_rng(1), 1)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Arbitrary(count=-1, window=4), "count: -1"),
        (lambda: Arbitrary(count=1, window=0), "window: 0"),
        (lambda: Bursts(workers_at_once=-1, length=1, window=2), "workers_at_once: -1"),
        (lambda: Bursts(workers_at_once=1, length=3, window=2), "length: 3"),
        (lambda: Arbitrary(count=1, window=2).conforms(np.zeros((2, 2))), "pattern: float64"),
        (lambda: Arbitrary(count=1, window=2).conforms(np.zeros((2, 0), dtype=bool)), "pattern: bool"),
        (lambda: Arbitrary(count=1, window=2).limits(np.zeros(2, dtype=bool)), "history: bool"),
        (lambda: Bursts(workers_at_once=1, length=1, window=2).longest([[True]]), "history:"),
        (lambda: Arbitrary(count=1, window=2).may_straggle(np.zeros((0, 2), dtype=bool), -1), "rounds: -1"),
        (lambda: next(Arbitrary(count=1, window=2).all_patterns(5, 9)), "45 is not allowed"),
    ],
)
def test_wrong_arguments_are_named(make, named):
    with pytest.raises(ArgumentError, match=named):
        make()
