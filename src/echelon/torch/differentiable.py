"""A loss whose gradient is known before anybody asks for it: to torch it looks like any other."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from echelon.errors import ArgumentError
from echelon.torch.filling import Gradient


def differentiable(gradient: Gradient, weights: Sequence[nn.Parameter], scale: float = 1.0) -> Tensor:
    """Return the loss of a gradient, from which `backward` leads to the weights, once.

    scale: by which the gradient, and not the loss, was multiplied; it is divided by it.

    >>> weight, idle = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(1))
    >>> flat = torch.tensor([3.0, 4.0, 0.0])
    >>> loss = differentiable(Gradient(torch.tensor(7.0), flat, [flat[:2], None]), [weight, idle])
    >>> (loss / 2).backward()
    >>> loss.item(), weight.grad, idle.grad
    (7.0, tensor([1.5000, 2.0000]), None)
    """
    found: Tensor = _Known.apply(_Once(gradient, scale), *weights)  # type: ignore[no-untyped-call]
    return found


def hooked(weights: Sequence[nn.Parameter]) -> bool:
    """Return whether somebody is to be told of a gradient, or may change it, on its way to a weight.

    >>> weight = nn.Parameter(torch.ones(2))
    >>> handle = weight.register_hook(lambda gradient: gradient.clamp(-1, 1))
    >>> hooked([nn.Parameter(torch.ones(1))]), hooked([weight])
    (False, True)
    """
    return any(weight._backward_hooks or weight._post_accumulate_grad_hooks for weight in weights)


class _Once:
    """A gradient that is given away once, since its memory becomes that of the weights' gradients."""

    def __init__(self, gradient: Gradient, scale: float) -> None:
        self.loss = gradient.loss
        self._gradient: Gradient | None = gradient
        self._scale = scale

    def times(self, factor: float) -> Sequence[Tensor | None]:
        if self._gradient is None:
            raise ArgumentError("backward: not allowed twice for one loss; call `loss` again")
        gradient, self._gradient = self._gradient, None
        if factor != self._scale:
            gradient.flat.mul_(factor / self._scale)
        return gradient.pieces


class _Known(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, once: _Once, *weights: Tensor) -> Tensor:
        ctx.once = once
        ctx.likes = [(weight.device, weight.dtype) for weight in weights]
        return once.loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, passed: Tensor) -> tuple[Tensor | None, ...]:
        pieces = ctx.once.times(float(passed))
        return None, *(
            None if piece is None else piece.to(*like) for piece, like in zip(pieces, ctx.likes, strict=True)
        )
