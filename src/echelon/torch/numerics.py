"""Settings of torch that hold for a whole process and change what it computes: workers take the program's own.

They are the default type, deterministic algorithms, the precision of products, kernels of attention, and `_BACKENDS`.
`torch.backends.mkldnn.fp32_precision` is not among them: in torch 2.13 it sets that of all others.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import torch

_BACKENDS = (  # attributes of `torch.backends`; the wider ones first, which change those behind them
    "fp32_precision", "cudnn.fp32_precision", "cuda.matmul.fp32_precision", "cudnn.conv.fp32_precision",
    "cudnn.rnn.fp32_precision", "mkldnn.matmul.fp32_precision", "mkldnn.conv.fp32_precision",
    "mkldnn.rnn.fp32_precision", "cudnn.allow_tf32", "cudnn.enabled", "cudnn.benchmark", "cudnn.deterministic",
    "mkldnn.enabled", "mkldnn.deterministic", "cuda.matmul.allow_fp16_accumulation",
)  # fmt: skip
_ATTENTION = ("flash", "mem_efficient", "math", "cudnn")
_REDUCED = ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")
_REFUSED = AttributeError, AssertionError, RuntimeError  # a torch without it, or in which old and new names were mixed


class _Setting(NamedTuple):
    read: Callable[[], Any]
    write: Callable[[Any], None]


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _be_deterministic(how: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(how[0], warn_only=how[1])


def _of_backends(name: str) -> _Setting:
    path, _, attribute = name.rpartition(".")

    def write(value: Any) -> None:
        setattr(attrgetter(path)(torch.backends) if path else torch.backends, attribute, value)

    return _Setting(partial(attrgetter(name), torch.backends), write)


def _of_attention(kind: str) -> _Setting:
    found = torch.backends.cuda
    return _Setting(getattr(found, f"{kind}_sdp_enabled"), getattr(found, f"enable_{kind}_sdp"))


def _reduced_attention() -> Any:  # looked up when it is needed: torch 2.4 has none
    return torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()  # type: ignore[no-untyped-call]


def _reduce_attention(value: bool) -> None:
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(value)


def _of_reductions(name: str) -> _Setting:
    """What a product of half precision may do; and, in newer versions, whether it may be split along its sums."""

    def read() -> Any:
        products = torch.backends.cuda.matmul
        split = getattr(products, f"{name}_split_k", None)
        return getattr(products, name) if split is None else (getattr(products, name), split)

    def write(value: Any) -> None:
        setattr(torch.backends.cuda.matmul, name, value)

    return _Setting(read, write)


_SETTINGS = (
    _Setting(torch.get_default_dtype, torch.set_default_dtype),
    _Setting(_deterministic, _be_deterministic),
    _Setting(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    _Setting(_reduced_attention, _reduce_attention),
    *map(_of_attention, _ATTENTION),
    *map(_of_reductions, _REDUCED),
    *map(_of_backends, _BACKENDS),
)
Numerics = tuple[Any, ...]  # what each of the settings is; None where it can't be read


def numerics() -> Numerics:
    """Return the settings of this process.

    >>> torch.float32 in numerics()
    True
    """
    return tuple(map(_read, _SETTINGS))


@contextmanager
def computing_by(wanted: Numerics) -> Iterator[None]:
    """Have this process compute by some settings; afterwards they are as they were before.

    >>> wanted = numerics()
    >>> torch.set_float32_matmul_precision("medium")
    >>> with computing_by(wanted):
    ...     torch.get_float32_matmul_precision()
    'highest'
    >>> torch.get_float32_matmul_precision()
    'medium'
    >>> torch.set_float32_matmul_precision("highest")
    """
    before = numerics()
    try:
        _settle(before, wanted)
        yield
    finally:
        _settle(numerics(), before)


def _settle(now: Numerics, wanted: Numerics) -> None:
    if now == wanted:
        return
    for setting, value in zip(_SETTINGS, wanted, strict=True):  # some change others
        if value is not None and _read(setting) != value:
            with suppress(*_REFUSED):
                setting.write(value)


def _read(setting: _Setting) -> Any:
    try:
        return setting.read()
    except _REFUSED:
        return None
