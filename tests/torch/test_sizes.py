"""Chunks as large as their workers are quick: the same gradient, in nearly the shortest time."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

import echelon as ec
from echelon.clusters import VirtualCluster
from echelon.clusters.faults import Crash, Faults, Slowdown
from echelon.errors import ArgumentError
from echelon.profile import Speeds
from echelon.torch import CodedGradient
from echelon.torch.sizes import Sizes
from tests.torch.networks import (
    Augmented,
    Pictures,
    chunk_by_chunk,
    digits,
    one_after_another,
    perceptron,
    plain_gradient,
    read_by_chunk,
    resnet18,
)

CROSS, WIDE = nn.CrossEntropyLoss(), digits(np.float64)
ONE_SLOW = (4.0, 1.0, 1.0, 1.0, 1.0, 1.0)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Two would wait for each other, on a machine that has other work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def profile(means, scale=1.0, link=0.0):
    """Workers that take these times for a part, each time the same."""
    work = ec.Workload(critical=len(means), redundancy=1.0, iterations=1, arrivals=ec.Arrivals.poisson(1.0))
    listed = [ec.Worker(f"w{i}", mean=scale * mean, std=0.0, link=scale * link) for i, mean in enumerate(means)]
    return ec.Profile(work, listed)


@pytest.fixture(scope="module")
def processes():
    with ec.Stream("processes", redundancy=1.5, emulate=profile(ONE_SLOW, scale=0.03)) as one:
        yield one


def over_ideal(coded, stream, steps, means=ONE_SLOW):
    """How many times the ideal each step takes: all samples over the sum of speeds, links aside."""
    ratios = []
    for _ in range(steps):
        share = len(coded.batch(coded.step)) / coded._sizes.samples
        start = stream.now()
        coded.backward()
        ratios.append((stream.now() - start) / (share * len(means) / sum(1 / mean for mean in means)))
    return np.array(ratios)


def same_gradient(model, coded, data=WIDE):
    wanted, value = plain_gradient(model, CROSS, data, coded.batch(coded.step))
    model.zero_grad()
    assert float(coded.backward()) == pytest.approx(float(value), rel=1e-11)
    for weight, other in zip(model.parameters(), wanted, strict=True):
        torch.testing.assert_close(weight.grad, other, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("sizes", ["speed", [1, 2, 3, 4], [1e-6, 1, 1, 1e3], np.array([5.0, 1, 1, 1])])
@pytest.mark.parametrize("batch_size", [None, 70, 4])
def test_the_gradient_is_that_of_the_whole_batch_however_it_is_cut(sizes, batch_size):
    """70 of 300 samples: the last batch of an epoch is smaller, so that some chunks may be empty."""
    model = perceptron(torch.float64)
    with (
        ec.Stream("virtual", emulate=profile((4.0, 1.0, 2.0, 0.5))) as stream,
        CodedGradient(model, CROSS, WIDE, stream=stream, batch_size=batch_size, sizes=sizes) as coded,
    ):
        for _ in range(6):
            same_gradient(model, coded)
            parts = [coded.batch(coded.step, chunk) for chunk in range(4)]
            assert np.concatenate(parts).tolist() == coded.batch(coded.step).tolist()
        coded._sizes.cuts = (0, *sorted(np.random.default_rng(1).choice(range(1, coded._sizes.samples), 3, False)),
            coded._sizes.samples)  # fmt: skip
        same_gradient(model, coded)


def normalising():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 10)).double()


@pytest.mark.parametrize("sizes", ["equal", "speed", [1, 1, 200]])
@pytest.mark.parametrize(("samples", "batch_size"), [(36, 31), (5, 3)])
def test_no_chunk_has_one_sample_where_they_are_normalised(sizes, samples, batch_size):
    """One worker of three is much slower; the last batch of an epoch has 5 samples, or 2."""
    model, data = normalising(), tuple(some[:samples] for some in WIDE)
    other, smallest = deepcopy(model), []
    with (
        ec.Stream("virtual", emulate=profile((60.0, 1.0, 1.0)), redundancy=1.0) as stream,
        CodedGradient(model, CROSS, data, stream=stream, batch_size=batch_size, sizes=sizes) as coded,
    ):
        for step in range(8):
            value = float(coded.backward())
            parts = [coded.batch(step, chunk) for chunk in range(3)]
            smallest.append(min(map(len, parts)))
            assert 1 not in map(len, parts)
            assert sorted(np.concatenate(parts)) == sorted(coded.batch(step))
            assert value == pytest.approx(chunk_by_chunk(other, CROSS, data, parts), rel=1e-9)
        if batch_size == 31:
            assert smallest[-2] == (10 if sizes == "equal" else 2)  # and so the slow worker goes on showing its speed
        model.eval()  # samples are not normalised any more
        coded.backward()
    for one, two in zip(model.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("cluster", ["threads", "virtual"])
def test_batches_that_are_handed_in_are_cut_so_too_and_one_sample_is_refused_in_words(cluster):
    model = normalising()
    other = deepcopy(model)
    with (
        ec.Stream(cluster, workers=3, redundancy=1.5) as stream,
        CodedGradient(model, CROSS, None, stream=stream) as coded,
    ):
        inputs, targets = (torch.as_tensor(some[:5]) for some in WIDE)
        wanted = chunk_by_chunk(other, CROSS, (inputs, targets), [range(3), range(3, 5)])
        assert float(coded.backward((inputs, targets))) == pytest.approx(wanted, rel=1e-9)
        with pytest.raises(ec.JobFailed, match="chunks: one of 1 sample is not allowed where the model normalises"):
            coded.backward((inputs[:1], targets[:1]))


def test_given_shares_are_those_of_the_chunks():
    with (
        ec.Stream("virtual", workers=4) as stream,
        CodedGradient(perceptron(), CROSS, digits(), stream=stream, batch_size=100, sizes=[1, 2, 3, 4]) as coded,
    ):
        assert [len(coded.batch(0, chunk)) for chunk in range(4)] == [10, 20, 30, 40]


@pytest.mark.parametrize("link", [0.0, 0.05])
def test_steps_take_the_ideal_time_once_speeds_were_seen(link):
    with (
        ec.Stream("virtual", emulate=profile(ONE_SLOW, link=link)) as stream,
        CodedGradient(perceptron(), CROSS, digits(), stream=stream, batch_size=240, sizes="speed") as coded,
    ):
        ratios = over_ideal(coded, stream, 14)  # every second batch is a small one, of 60 samples
        cuts = coded._sizes.cuts
    assert ratios[0] > 2.0
    assert ratios[4::2].max() <= 1.05 + link
    assert ratios[5::2].max() <= 1.1 + 5 * link  # counts of 3 or 11 samples are rounded, and links don't shrink
    assert abs(cuts[1] - 240 / 21) < 1
    assert np.ptp(np.diff(cuts)[1:]) <= 1


def test_a_declared_profile_is_believed_from_the_first_step():
    known = profile(ONE_SLOW)
    with (
        ec.Stream("virtual", emulate=known, profile=known) as stream,
        CodedGradient(perceptron(), CROSS, digits(), stream=stream, sizes="speed") as coded,
    ):
        assert over_ideal(coded, stream, 4).max() <= 1.05


def test_speeds_that_change_are_followed():
    """From 60 s to 120 s, another worker takes three times as long."""
    faults = Faults(np.random.default_rng(1), incidents=(Slowdown(time=60.0, place=3, length=60.0, factor=3.0),))
    with (
        ec.Stream(VirtualCluster(emulate=profile(ONE_SLOW), faults=faults)) as stream,
        CodedGradient(perceptron(), CROSS, digits(), stream=stream, batch_size=300, sizes="speed") as coded,
    ):
        slow = np.array(ONE_SLOW) * [1, 1, 1, 3, 1, 1]
        ratios = {"before": [], "slow": [], "after": []}
        while stream.now() < 180.0:
            part = "before" if stream.now() < 58 else "slow" if 60 <= stream.now() < 118 else "after"
            at = stream.now()
            found = float(over_ideal(coded, stream, 1, slow if part == "slow" else ONE_SLOW)[0])
            if not (58 <= at < 60 or 118 <= at < 120):
                ratios[part].append(found)
    for part, found in ratios.items():
        assert np.mean(np.array(found[6:]) <= 1.05) > 0.95, part
        assert len(found) > 20


def test_a_worker_that_dies_and_comes_back_changes_no_gradient_and_its_size_returns():
    faults = Faults(np.random.default_rng(1), incidents=(Crash(time=20.5, place=2, notice=0.5, restart=3.0),))
    model = perceptron(torch.float64)
    with (
        ec.Stream(VirtualCluster(emulate=profile(ONE_SLOW), faults=faults)) as stream,
        CodedGradient(model, CROSS, WIDE, stream=stream, batch_size=300, sizes="speed") as coded,
    ):
        while stream.now() < 30.0:
            same_gradient(model, coded)
        assert over_ideal(coded, stream, 12)[-1] <= 1.05


def test_emulated_workers_get_what_they_are_quick_for(processes):
    """The slow one takes an eighth of a second per equal chunk, beside which computing is little."""
    model = perceptron(torch.float64)
    with CodedGradient(model, CROSS, WIDE, stream=processes, batch_size=210, sizes="speed") as coded:
        for _ in range(8):
            same_gradient(model, coded)
        assert 5 <= coded._sizes.cuts[1] <= 20  # an equal chunk has 35, a quarter of what others have is 10


def test_items_are_augmented_alike_whatever_their_chunk():
    model, data = perceptron(torch.float64), Augmented()
    with (
        ec.Stream("virtual", emulate=profile((3.0, 1.0, 1.0))) as stream,
        CodedGradient(model, CROSS, data, stream=stream, batch_size=20, sizes="speed", seed=7) as coded,
    ):
        for step in range(5):
            coded._at(None)  # cuts as the step will have them
            wanted = one_after_another(model, CROSS, read_by_chunk(Augmented(), coded, step, 7))
            kept = [weight.grad.clone() for weight in model.parameters()]
            model.zero_grad()
            assert float(coded.backward()) == pytest.approx(wanted, rel=1e-11)
            for weight, other in zip(model.parameters(), kept, strict=True):
                torch.testing.assert_close(weight.grad, other, rtol=1e-9, atol=1e-13)


def test_other_sizes_must_save_something():
    sizes = Sizes(100, 2)
    sizes.follow(Speeds(np.array([1.03, 1.0]), np.zeros(2), np.zeros(2)))
    assert sizes.cuts == (0, 50, 100)
    sizes.follow(Speeds(np.array([1e9, 1.0]), np.zeros(2), np.zeros(2)))
    assert sizes.cuts == (0, 1, 100)  # never none, or nobody would see that it is quick again


@pytest.mark.parametrize(
    "cuts",
    [3, "abc", (0, 5), (0, 5, 5, 7, 300), (1, 5, 6, 7, 300), (0, 5, 6, 7, 299), (0, 5.0, 6, 7, 300)],
)
def test_cuts_that_can_not_be_resumed_are_refused(cuts):
    with (
        ec.Stream("virtual", workers=4) as stream,
        CodedGradient(perceptron(), CROSS, digits(), stream=stream, sizes="speed") as coded,
        pytest.raises(ArgumentError, match=r"cuts: .* is not allowed; must be 5 whole numbers"),
    ):
        coded.load_state_dict(coded.state_dict() | {"cuts": cuts})


def train(model, optimizer, coded, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        coded.backward()
        optimizer.step()


@pytest.mark.parametrize("redundancy", [1.0, 1.5])
def test_trainings_go_on_where_they_were_stopped(redundancy):
    """At ten points by chance: bit for bit without a code, and up to rounding where other rows may come first."""
    steps, stops = 20, sorted(np.random.default_rng(5).choice(range(1, 20), 10, replace=False).tolist())

    def begun():
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 10)).double()
        return model, torch.optim.Adam(model.parameters(), lr=0.01)

    def coded_of(model, stream):
        return CodedGradient(model, CROSS, Augmented(90), stream=stream, batch_size=24, seed=3)

    with ec.Stream("threads", workers=3, redundancy=redundancy) as stream:
        model, optimizer = begun()
        with coded_of(model, stream) as coded:
            train(model, optimizer, coded, steps)
        saved = None
        for before, stop in zip([0, *stops], [*stops, steps], strict=True):
            other, stepping = begun()
            with coded_of(other, stream) as coded:
                if saved is not None:
                    for one, kept in zip((other, stepping, coded), saved, strict=True):
                        one.load_state_dict(kept)
                    assert coded.step == before
                train(other, stepping, coded, stop - before)
                saved = deepcopy((other.state_dict(), stepping.state_dict(), coded.state_dict()))
    for one, kept in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        if redundancy == 1.0:
            assert torch.equal(one, kept)
        else:
            torch.testing.assert_close(one, kept, rtol=1e-6, atol=1e-9)


def test_a_residual_network_trains_as_in_a_plain_loop_though_a_worker_is_slow_and_two_die(processes):
    """Batches normalised, pictures shifted and mirrored; six processes that die one after another."""
    steps, data, model = 8, Pictures(96, 8), resnet18(width=2)
    other = deepcopy(model)
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.05, momentum=0.9) for one in (model, other)]
    with CodedGradient(model, CROSS, data, stream=processes, batch_size=48, seed=2) as coded:
        for step in range(steps):
            if step in (3, 5):
                processes._cluster.kill(max(processes._cluster.pids()))
            for optimizer in optimizers:
                optimizer.zero_grad()
            found, wanted = (
                float(coded.backward()),
                one_after_another(other, CROSS, read_by_chunk(data, coded, step, 2)),
            )
            assert found == pytest.approx(wanted, rel=1e-5)
            for optimizer in optimizers:
                optimizer.step()
    for one, two in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-7)
