"""The state of a model, step by step: looked at again where it has changed, and handed to a job that is kept."""

import logging
from typing import Any

import torch
from torch import nn

from echelon.clusters.cuda import NotShared
from echelon.errors import ArgumentError, JobFailed
from echelon.stream import Kept, Stream
from echelon.torch.checking import check_replicas, check_weights
from echelon.torch.device_numbers import DeviceNumbers
from echelon.torch.devices import checked_device
from echelon.torch.parameters import Setting, State, Walk, changed, hull, state
from echelon.torch.passes import trained
from echelon.torch.sources import At

log = logging.getLogger("echelon.torch")


class States:
    """What a kept job computes from, on workers that compute on some device. walk: what the model is like now."""

    def __init__(self, model: nn.Module, stream: Stream, device: str) -> None:
        if not isinstance(model, nn.Module):
            raise ArgumentError(f"model: {type(model).__name__} is not allowed; must be a torch.nn.Module")
        if not isinstance(stream, Stream):
            raise ArgumentError(f"stream: {type(stream).__name__} is not allowed; must be an echelon.Stream")
        self._model, self.walk = model, _walked(model)
        self._kinds, self._settings = self.walk.kinds, self.walk.settings
        self._changed: tuple[Setting, ...] = ()
        on_gpus = checked_device(device) != "cpu" and _on_gpu(model)
        self._shares = on_gpus and stream.one_host
        if on_gpus and not self._shares:
            log.warning(
                "weights and gradients go through the host's memory: the workers may be on other machines, which can't "
                "open that of this one's GPU"
            )
        self._numbers: DeviceNumbers | None = None
        self.residual = 0.0  # of the last result

    @property
    def dtype(self) -> torch.dtype:
        """The type of the parameters that are trained."""
        return self.walk.trained[0].dtype

    def hull(self) -> nn.Module:
        """Return the model without its numbers."""
        return hull(self._model)

    def look(self) -> None:
        """Check a model that has changed since the last step."""
        if self.walk.same():
            return
        walk = _walked(self._model)
        if walk.shapes != self.walk.shapes:
            raise ArgumentError("model: its parameters or buffers have other names, types or shapes than at the start")
        if walk.kinds != self._kinds:
            raise ArgumentError("model: its modules are of other kinds, or in another order, than at the start")
        if [tensor.device for tensor in walk.tensors] != [tensor.device for tensor in self.walk.tensors]:
            self._numbers = None
        self.walk, self._changed = walk, changed(walk, self._settings)

    def ask(self, kept: Kept, at: At, scale: float = 1.0, *, evaluates: bool = False) -> Any:
        """Return what a kept job finds for the model as it is now; evaluates: as if `eval` had been called."""
        try:
            return self._result(kept, self._state(at, scale, evaluates=evaluates))
        except JobFailed as error:
            if not self._shares or not isinstance(error.__cause__, NotShared):
                raise
            self._host_only(error.__cause__)
            return self._result(kept, self._state(at, scale, evaluates=evaluates))

    def _result(self, kept: Kept, asked: State) -> Any:
        handle = kept.submit(asked)
        try:
            found = handle.result()
        except BaseException:
            handle.cancel()  # an interrupted call no longer waits for it
            raise
        finally:
            asked.asking.end()
        self.residual = handle.delivery().residual
        return found

    def _state(self, at: At, scale: float, *, evaluates: bool) -> State:
        made = self._made(at, scale)._replace(changed=self._changed)
        return made._replace(trains=bytes(len(made.trains))) if evaluates else made

    def _made(self, at: At, scale: float) -> State:
        if self._shares:
            try:
                if self._numbers is None:
                    self._numbers = DeviceNumbers(self.walk.tensors)
                return state(self.walk, at, self._numbers, scale)
            except NotShared as error:
                self._host_only(error)
        return state(self.walk, at, None, scale)

    def _host_only(self, error: NotShared) -> None:
        log.warning("the GPU's memory can't be shared with workers, and all goes through the host's: %s", error)
        self._shares, self._numbers = False, None

    def close(self) -> None:
        """Give back memory of a device."""
        self._numbers = None


def _on_gpu(model: nn.Module) -> bool:
    return next(model.parameters()).is_cuda


def _walked(model: nn.Module) -> Walk:
    check_weights(trained(model))
    check_weights(list(model.parameters()))
    check_replicas(model)
    return Walk(model)
