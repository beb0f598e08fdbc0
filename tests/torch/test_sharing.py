"""Weights that workers share with the master: nobody may write into them, and nobody else sees it if one does."""

import numpy as np
import pytest
import torch
from torch import nn

import echelon as ec
from echelon.clusters import ThreadCluster, seat
from echelon.clusters.cuda import NotShared
from echelon.errors import ArgumentError, JobFailed
from echelon.torch import CodedGradient
from echelon.torch.devices import checked_device, resolved
from echelon.torch.pages import address


class Clamped(nn.Module):
    """A layer whose forward pass writes into its weights past torch's own count, if it is told to."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(80, 80, dtype=torch.float64))
        self.register_buffer("writes", torch.zeros(1))

    def forward(self, x):
        if self.writes[0] > 0:
            self.weight.data[3, 3] = 7.0
        return x @ self.weight


DATA = torch.ones(8, 80, dtype=torch.float64), torch.zeros(8, 80, dtype=torch.float64)


@pytest.fixture(scope="module")
def stream():
    with ec.Stream("processes", workers=2) as stream:
        yield stream


def test_a_forward_pass_that_writes_into_shared_weights_is_refused_and_what_it_wrote_is_gone(stream):
    model, loss = Clamped(), nn.MSELoss()
    with CodedGradient(model, loss, DATA, stream=stream) as coded:
        coded.backward()
        right = model.weight.grad.clone()
        model.writes.fill_(1.0)
        with pytest.raises(JobFailed, match="writes into parameters"):
            coded.backward()
        assert float(model.weight.detach()[3, 3]) == 1.0
        model.writes.fill_(0.0)
        for _ in range(4):  # in every memory that states lie in
            model.zero_grad()
            coded.backward()
            assert torch.equal(model.weight.grad, right)


def test_an_embedding_that_rescales_its_weights_is_refused(stream):
    model = nn.Sequential(nn.Embedding(500, 40, max_norm=0.1), nn.Flatten(), nn.Linear(80, 2))
    data = torch.arange(16).reshape(8, 2), torch.zeros(8, 2)
    with (
        CodedGradient(model, nn.MSELoss(), data, stream=stream) as coded,
        pytest.raises(JobFailed, match="writes into buffers or parameters"),
    ):
        coded.backward()


def test_a_gradient_that_is_held_is_not_overwritten_by_the_next(stream):
    model = nn.Linear(600, 600)
    data = torch.ones(4, 600), torch.ones(4, 600)
    with CodedGradient(model, nn.MSELoss(), data, stream=stream) as coded:
        coded.backward()
        held, copy = model.weight.grad, model.weight.grad.clone()
        for step in range(3):
            model.zero_grad()
            with torch.no_grad():
                model.weight += 1.0 + step
            coded.backward()
            assert not torch.equal(model.weight.grad, copy)
        assert torch.equal(held, copy)


def test_backward_writes_the_message_and_the_model_s_gradients_are_views_of_the_total():
    def kept(rooms):
        return {address(room) for some in rooms._rooms.values() for room in some}

    cluster, came = ThreadCluster(2), set()
    combine = cluster.combine

    def combined(weights, messages):
        came.update(address(message.segments[0]) for message in messages)
        return combine(weights, messages)

    cluster.combine = combined
    model, data = nn.Linear(600, 600), (torch.ones(4, 600), torch.ones(4, 600))
    with ec.Stream(cluster) as stream, CodedGradient(model, nn.MSELoss(), data, stream=stream) as coded:
        for _ in range(6):
            model.zero_grad()
            coded.backward()
            (total,) = {weight.grad.untyped_storage().data_ptr() for weight in model.parameters()}
            assert total in kept(cluster._rooms)
        written = set().union(*(kept(worker.rooms) for worker in cluster._threads.values()))
        assert came
        assert came <= written


def test_gradients_add_up_over_several_calls(stream):
    model = nn.Linear(600, 10, dtype=torch.float64)
    data = torch.ones(4, 600, dtype=torch.float64), torch.ones(4, 10, dtype=torch.float64)
    with CodedGradient(model, nn.MSELoss(), data, stream=stream) as coded:
        coded.backward()
        once = model.weight.grad.clone()
        coded.backward()
        torch.testing.assert_close(model.weight.grad, 2 * once)


def test_layers_that_are_replaced_or_frozen_between_steps_count(stream):
    model = nn.Sequential(nn.Linear(60, 60), nn.Linear(60, 2))
    data = torch.ones(4, 60), torch.ones(4, 2)
    with CodedGradient(model, nn.MSELoss(), data, stream=stream) as coded:
        coded.backward()
        model.zero_grad()
        model[0].requires_grad_(False)
        model[1] = nn.Linear(60, 2)
        loss = coded.backward()
        assert model[0].weight.grad is None
        wanted = nn.MSELoss()(model(data[0]), data[1])
        torch.testing.assert_close(loss, wanted.detach())
        wanted_grad = torch.autograd.grad(wanted, model[1].weight)[0]
        torch.testing.assert_close(model[1].weight.grad, wanted_grad)
        model[1] = nn.Linear(60, 3)
        with pytest.raises(ArgumentError, match="other names, types or shapes"):
            coded.backward()


class Warm(nn.Linear):
    """A layer whose outputs are divided by a temperature, in a way that has a name."""

    def __init__(self):
        super().__init__(60, 2)
        self.temperature = 1.0

    def forward(self, inputs):
        sign = -1.0 if getattr(self, "way", "plain") == "turned" else 1.0
        return super().forward(inputs) * sign / self.temperature


def test_settings_of_modules_are_those_of_the_step(stream):
    model, data = nn.Sequential(nn.Linear(60, 60), Warm(), nn.Dropout(0.0)), (torch.ones(9, 60), torch.ones(9, 2))

    def same():
        with CodedGradient(model, nn.MSELoss(), data, stream=stream) as fresh:
            model.zero_grad()
            wanted, gradient = fresh.backward(), model[1].weight.grad.clone()
        model.zero_grad()
        found = coded.backward()
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(model[1].weight.grad, gradient)
        coded.step = 0
        return float(found)

    with CodedGradient(model, nn.MSELoss(), data, stream=stream) as coded:
        found = [same()]
        for temperature, way, rate in (
            (2.0, "plain", 0.0),
            (2.0, "turned", 0.0),
            (3.0, "plain", 0.5),
            (1.0, "plain", 0),
        ):
            model[1].temperature, model[1].way, model[2].p = temperature, way, rate
            found.append(same())
        assert len(set(found[:4])) == 4
        assert found[4] == pytest.approx(found[0])
        model[2] = nn.ReLU()
        with pytest.raises(ArgumentError, match="model: its modules are of other kinds, or in another order"):
            coded.backward()


def ours_and_torch_s(model, data, *, cluster="processes", **options):
    """Return our loss, our gradients and the loss of torch, whose gradients the model has then."""
    with (
        ec.Stream(cluster, **options) as stream,
        CodedGradient(model, nn.MSELoss(), data, stream=stream) as coded,
    ):
        value = coded.backward()
        found = [weight.grad.clone() for weight in model.parameters()]
    model.zero_grad()
    wanted = nn.MSELoss()(model(data[0]), data[1])
    wanted.backward()
    return value, found, wanted.detach()


def test_one_worker_without_redundancy_gives_the_very_gradient_of_torch():
    model = nn.Sequential(nn.Linear(300, 300), nn.Tanh(), nn.Linear(300, 3))
    data = torch.randn(16, 300), torch.randn(16, 3)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as on the worker
    try:
        value, found, wanted = ours_and_torch_s(model, data, workers=1)
    finally:
        torch.set_num_threads(threads)
    assert value == wanted
    assert all(torch.equal(one, weight.grad) for one, weight in zip(found, model.parameters(), strict=True))


@pytest.mark.parametrize(
    ("cluster", "workers", "redundancy"), [("processes", 4, 1.0), ("threads", 4, 1.4), ("threads", 8, 1.5)]
)
def test_gradients_of_several_workers_are_those_of_torch_to_the_last_digits_of_float32(cluster, workers, redundancy):
    generator = torch.Generator().manual_seed(1)
    model = nn.Sequential(nn.Linear(300, 600), nn.Tanh(), nn.Linear(600, 300))
    data = torch.randn(64, 300, generator=generator), torch.randn(64, 300, generator=generator)
    value, found, wanted = ours_and_torch_s(model, data, cluster=cluster, workers=workers, redundancy=redundancy)
    assert float(value) == pytest.approx(float(wanted), rel=1e-6)
    for one, weight in zip(found, model.parameters(), strict=True):
        assert one.dtype == torch.float32
        assert (one - weight.grad).norm() <= 1e-6 * weight.grad.norm()


@pytest.mark.parametrize("device", ["tpu", "cpu:1", "cuda:x", "cuda:-1", ""])
def test_devices_that_torch_does_not_know_are_refused(device):
    with pytest.raises(ArgumentError, match="device: "):
        checked_device(device)


def test_devices_are_dealt_out_by_place(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    dealt = []
    for place in range(5):
        seat.take(place, process=False)
        dealt.append(resolved("cuda:auto").index)
    seat.take(0, process=False)
    assert dealt == [0, 1, 2, 0, 1]
    assert resolved("cuda:2") == torch.device("cuda", 2)
    assert np.all([resolved("cpu").type == "cpu", resolved("cuda").index == 0])


def test_without_shared_memory_of_a_gpu_all_goes_through_the_host_and_the_log_says_so_once(stream, monkeypatch, caplog):
    model = nn.Linear(400, 400)
    data = torch.ones(4, 400), torch.ones(4, 400)

    def refused(tensors):
        raise NotShared("no CUDA here")

    monkeypatch.setattr("echelon.torch.states.DeviceNumbers", refused)
    with CodedGradient(model, nn.MSELoss(), data, stream=stream) as coded:
        coded._states._shares = True  # as if its model were on a GPU
        losses = [float(coded.backward()) for _ in range(2)]
    assert losses[0] == losses[1]
    (said,) = [record.getMessage() for record in caplog.records if record.name == "echelon.torch"]
    assert said == "the GPU's memory can't be shared with workers, and all goes through the host's: no CUDA here"


class Closed:
    """Numbers of a model that no worker can open."""

    name = b"closed"

    def __init__(self, tensors):
        pass

    def write(self, tensors):
        pass

    def open(self):
        raise NotShared("cuIpcOpenMemHandle failed with CUDA error 1")

    def __reduce__(self):
        return Closed, ((),)


def test_where_workers_can_not_open_the_memory_of_a_gpu_the_step_is_had_through_the_host(stream, monkeypatch, caplog):
    model = nn.Linear(400, 400)
    data = torch.ones(4, 400), torch.ones(4, 400)
    monkeypatch.setattr("echelon.torch.states.DeviceNumbers", Closed)
    with CodedGradient(model, nn.MSELoss(), data, stream=stream) as coded:
        right = float(coded.backward())
        coded._states._shares = True  # as if its model were on a GPU
        caplog.clear()
        assert [float(coded.backward()) for _ in range(2)] == [right, right]
    (said,) = [record.getMessage() for record in caplog.records if record.name == "echelon.torch"]
    assert said.endswith("cuIpcOpenMemHandle failed with CUDA error 1")


def test_where_workers_may_be_on_other_machines_than_the_model_s_gpu_the_log_says_so_once(stream, monkeypatch, caplog):
    model, data = nn.Linear(4, 4), (torch.ones(4, 4), torch.ones(4, 4))
    monkeypatch.setattr("echelon.torch.states._on_gpu", lambda model: True)
    monkeypatch.setattr("echelon.torch.states.checked_device", str)
    for one_host, device in ((True, "cuda"), (False, "cpu"), (False, "cuda")):
        assert not caplog.records
        monkeypatch.setattr(ec.Stream, "one_host", property(lambda _, one_host=one_host: one_host))
        with CodedGradient(model, nn.MSELoss(), data, stream=stream, device=device) as coded:
            assert coded._states._shares is (one_host and device == "cuda")
    (said,) = [record.getMessage() for record in caplog.records if record.name == "echelon.torch"]
    assert said.startswith("weights and gradients go through the host's memory")
