"""Every law in the registry is held to the same promises; a new line there is tested from then on."""

from inspect import Parameter, signature
from itertools import pairwise

import numpy as np
import pytest
from numpy.polynomial import Chebyshev

from echelon import delays
from echelon.delays import DELAYS, Deterministic, RoundPace, ShiftedExponential, Straggler
from echelon.errors import ArgumentError

# mean and std that every family can take on
MEAN, STD = 2.0, 1.9
# a spread at which a family with a heavy tail still has a fourth moment
LIGHT = {"pareto": 0.5}
# what a family can't do without
NEEDED = {"trace": {"times": [0.5, 1.0, 1.5, 3.0]}, "recorded": {"times": [0.5, 1.0, 1.5, 3.0]}}


@pytest.fixture(params=sorted(DELAYS), name="law")
def fitted(request):
    return delays.fit(request.param, MEAN, STD, **NEEDED.get(request.param, {}))


def test_fitting_keeps_the_mean(law):
    assert law.mean == pytest.approx(MEAN, rel=1e-12)


def test_samples_are_positive_of_the_right_shape_and_type(law):
    times = law.sample((3, 50, 4), np.random.default_rng(1))
    assert times.shape == (3, 50, 4)
    assert times.dtype == np.float64
    assert (times > 0).all()
    assert np.isfinite(times).all()


def test_the_same_seed_gives_the_same_draw(law):
    one, two = (law.sample((2, 40, 3), np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_the_sample_mean_agrees_with_the_mean(law):
    """At 99.9 % over independent runs, so that memory from round to round does not spoil the interval."""
    runs = law.sample((400, 200, 3), np.random.default_rng(7)).mean(axis=(1, 2))
    half = 3.29 * runs.std(ddof=1) / np.sqrt(len(runs))
    assert abs(runs.mean() - law.mean) <= half + 1e-12


@pytest.mark.parametrize("name", sorted(DELAYS))
def test_the_sample_deviation_agrees_with_std(name):
    """At 99.9 %, by means of squares over independent runs; the spread is one whose fourth moment is finite."""
    law = delays.fit(name, MEAN, LIGHT.get(name, STD), **NEEDED.get(name, {}))
    times = law.sample((400, 200, 3), np.random.default_rng(8))
    squares = np.square(times - law.mean).mean(axis=(1, 2))
    half = 3.29 * squares.std(ddof=1) / np.sqrt(len(squares))
    assert abs(squares.mean() - law.std**2) <= half + 1e-12


def test_advancing_in_pieces_follows_the_same_law_as_at_once(law):
    """The means of the first and the last of five pieces agree with the law's at 99.9 %."""
    rng = np.random.default_rng(3)
    state = law.begin(300, rng)
    pieces = []
    for _ in range(5):
        times, state = law.advance(state, (300, 40, 2), rng)
        assert times.shape == (300, 40, 2)
        pieces.append(times)
    for piece in (pieces[0], pieces[-1]):
        runs = piece.mean(axis=(1, 2))
        assert abs(runs.mean() - law.mean) <= 3.29 * runs.std(ddof=1) / np.sqrt(300) + 1e-12


def test_closed_sums_are_the_distribution_of_sampled_sums(law):
    """By a Kolmogorov bound at 99.9 %: sqrt(ln(2/0.001)/2/n) for n independent rounds."""
    if not law.closed:
        with pytest.raises(delays.base.NoClosedForm):
            law.sums(range(1, 3), np.array([1.0]))
        return
    rounds = law.sample((20_000, 1, 6), np.random.default_rng(11))[:, 0].cumsum(axis=1)
    times = np.linspace(0.1, 30, 200)
    exact = law.sums(range(0, 7), times)
    assert exact.shape == (200, 7)
    np.testing.assert_array_equal(exact[:, 0], 1.0)
    for k in range(1, 7):
        # constant laws jump: allow for float noise at the jump by looking on both sides of it
        below = np.searchsorted(np.sort(rounds[:, k - 1]), times * (1 - 1e-9), side="right") / 20_000
        above = np.searchsorted(np.sort(rounds[:, k - 1]), times * (1 + 1e-9), side="right") / 20_000
        slack = np.sqrt(np.log(2 / 0.001) / 2 / 20_000)
        assert (exact[:, k] <= above + slack).all()
        assert (exact[:, k] >= below - slack).all()


def test_sums_before_time_zero_and_of_no_task(law):
    if law.closed:
        exact = law.sums(range(0, 3), np.array([-1.0, 0.0]))
        np.testing.assert_array_equal(exact[0], 0.0)
        np.testing.assert_array_equal(exact[1], [1.0, 0.0, 0.0])


def test_laws_are_values(law):
    assert law == type(law)(**{name: getattr(law, name) for name in law.__dataclass_fields__})
    assert "object at" not in repr(law)


def test_parameters_are_checked_before_they_are_used(law):
    """A wrong value of any keyword of `fit` is refused in one line, like a wrong argument anywhere."""
    for name, parameter in signature(type(law).fit).parameters.items():
        if parameter.kind is Parameter.KEYWORD_ONLY:
            for wrong in ("x", float("nan"), -1):
                with pytest.raises(ArgumentError, match=name):
                    type(law).fit(MEAN, STD, **{name: wrong})


@pytest.mark.parametrize("name", sorted(DELAYS))
def test_a_parameter_that_no_law_knows_is_refused(name):
    with pytest.raises(ArgumentError, match=f"parameters: flavour not allowed for law {name}"):
        delays.fit(name, MEAN, STD, flavour=3)


ROUGH = [
    Straggler(base=ShiftedExponential(shift=1.0, rate=1.0), probability=0.1, slowdown=5.0),
    Straggler(base=Deterministic(time=1.0), probability=0.1, slowdown=2.5),
    RoundPace(base=ShiftedExponential(shift=0.4, rate=2.0)),
    RoundPace(base=Straggler(base=ShiftedExponential(shift=0.3, rate=1.0), probability=0.3, slowdown=3.0)),
]


def test_sums_are_smooth_but_at_the_places_that_a_law_names():
    """Between 0, jumps and kinks a polynomial follows the distribution functions of sums to nine digits."""
    fitted = [delays.fit(name, MEAN, STD, **NEEDED.get(name, {})) for name in sorted(DELAYS)]
    for law in [*(law for law in fitted if law.closed), *ROUGH]:
        end = 6 * law.mean
        named = np.concatenate([law.atoms(range(1, 4)), law.kinks(range(1, 4))])
        cuts = np.unique([0.2, *np.linspace(0.2, end, 6), *named[(named > 0.2) & (named < end)]])
        for low, high in pairwise(cuts):
            # a jump sits on the edge
            inner = low + (high - low) * np.array([1e-9, 1 - 1e-9])
            for count in (1, 2, 3):

                def one(times, law=law, count=count):
                    return law.sums(range(count, count + 1), times)[:, 0]

                smooth = Chebyshev.interpolate(one, 30, domain=inner)
                times = np.linspace(*inner, 101)
                np.testing.assert_allclose(smooth(times), one(times), atol=1e-9, err_msg=f"{law} in {low}, {high}")
