"""Which device a worker computes on."""

import torch

from echelon import checks
from echelon.clusters import seat
from echelon.errors import ArgumentError

AUTO = "cuda:auto"


def checked_device(device: str) -> str:
    """Return the name of a device that torch finds here: "cpu", "cuda", "cuda:auto", or one by its number.

    >>> checked_device("cpu")
    'cpu'
    """
    checks.instance("device", device, str)
    kind, _, number = device.partition(":")
    if kind not in ("cpu", "cuda") or (number and (kind == "cpu" or not (number == "auto" or number.isdecimal()))):
        raise ArgumentError(
            f"device: {device!r} is not allowed; must be 'cpu', 'cuda', 'cuda:auto' or such as 'cuda:1'"
        )
    if kind == "cuda" and not torch.cuda.is_available():
        raise ArgumentError(f"device: {device!r} is not allowed; must be 'cpu', as torch finds no CUDA device here")
    if number.isdecimal() and int(number) >= torch.cuda.device_count():
        raise ArgumentError(f"device: {device!r} is not allowed; torch finds {torch.cuda.device_count()} devices here")
    return device


def resolved(device: str) -> torch.device:
    """Return the device of this worker: with "cuda:auto", those of its machine are dealt out by place."""
    if device == AUTO:
        return torch.device("cuda", seat.mine() % max(1, torch.cuda.device_count()))
    return torch.device("cuda", 0) if device == "cuda" else torch.device(device)
