"""GPT-2 of transformers, trained plainly and through a cluster: losses side by side, and what a step costs.

    python -m bench.gpt2 --device cuda --autocast bfloat16 --repeats 10
    python -m bench.gpt2 --device cuda --autocast bfloat16 --deterministic --workers 1

Weights and texts are random, nothing is downloaded. Dropout is 0, so that runs can be compared. On a GPU two plain
trainings differ, since its kernels add in any order: each kind is trained several times, and a permutation test says
whether the two kinds can be told apart. With `--deterministic` and one worker they should not differ by a single bit.
It needs transformers, and accelerate for the part with its Trainer.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

import echelon as ec
from bench.results import markdown_table
from echelon.torch import CodedGradient

WARMED = 5  # steps that are not timed
SHOWN = 6  # losses of a run that are printed
TYPES = {"none": None, "bfloat16": torch.bfloat16, "float16": torch.float16}
PERMUTATIONS, SEED = 9999, 1
Run = tuple[np.ndarray, float]  # losses, and seconds per step
LossOf = Callable[[dict[str, Tensor], Any], Tensor]


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.gpt2", description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where all compute")
    parser.add_argument("--autocast", choices=tuple(TYPES), default="none")
    parser.add_argument("--cluster", choices=("processes", "threads"), default="processes")
    for name, value in {
        "workers": 2, "steps": 40, "batch": 8, "length": 64, "layers": 2, "width": 128, "heads": 4, "vocabulary": 1000,
    }.items():  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--redundancy", type=float, default=1.0)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument(
        "--repeats", type=int, default=5, help="trainings of each kind; with fewer than 4, p can't be below 0.05"
    )
    parser.add_argument("--deterministic", action="store_true", help="kernels of torch that give the same each time")
    given = parser.parse_args()
    if given.repeats < 2:
        parser.error(
            f"--repeats {given.repeats} is not allowed; must be 2 or more, to tell what plain trainings differ by"
        )
    return given


def model(given: argparse.Namespace) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=given.vocabulary, n_positions=given.length, n_embd=given.width, n_layer=given.layers,
        n_head=given.heads, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return GPT2LMHeadModel(config).to(given.device).train()


def texts(given: argparse.Namespace) -> Tensor:
    """Return texts that can be learned: every token follows from the one before, or, one time in four, from chance."""
    chance = np.random.default_rng(2)
    after = chance.permutation(given.vocabulary)
    found = np.empty((4 * given.batch, given.length), np.int64)
    found[:, 0] = chance.integers(given.vocabulary, size=len(found))
    for place in range(1, given.length):
        drawn = chance.integers(given.vocabulary, size=len(found))
        found[:, place] = np.where(chance.random(len(found)) < 0.25, drawn, after[found[:, place - 1]])
    return torch.from_numpy(found)


def trained(
    given: argparse.Namespace, some: Tensor, made: Any, loss_of: Callable[[dict[str, Tensor], Any], Tensor]
) -> Run:
    """Train by a loop of one's own, in which a loss comes from somewhere."""
    optimizer = torch.optim.AdamW(made.parameters(), lr=given.rate)
    scaler = torch.amp.GradScaler(given.device, enabled=given.autocast == "float16")
    losses, times = [], []
    for step in range(given.steps):
        start = time.perf_counter()
        tokens = some[step % 4 * given.batch :][: given.batch].to(given.device)
        optimizer.zero_grad()
        loss = loss_of({"input_ids": tokens, "labels": tokens}, scaler if scaler.is_enabled() else None)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(made.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
        _finish(given)
        times.append(time.perf_counter() - start)
    return np.array(losses), float(np.median(times[WARMED:]))


def plain(given: argparse.Namespace, some: Tensor) -> Run:
    """Train without a cluster."""
    made, kind = model(given), TYPES[given.autocast]

    def loss_of(batch: dict[str, Tensor], scaler: Any) -> Tensor:
        with torch.autocast(given.device, kind or torch.bfloat16, enabled=kind is not None):
            found: Tensor = made(**batch).loss
        return found

    return trained(given, some, made, loss_of)


def coded(given: argparse.Namespace, some: Tensor, stream: ec.Stream) -> Run:
    made = model(given)
    with CodedGradient(
        made, None, None, stream=stream, device=_device(given), autocast=TYPES[given.autocast]
    ) as gradient:
        return trained(given, some, made, lambda batch, scaler: gradient.loss(batch, scaler=scaler))


def by_trainer(given: argparse.Namespace, some: Tensor, stream: ec.Stream | None) -> Run:
    """Train by transformers' Trainer, on a cluster if there is a stream."""
    from transformers import Trainer, TrainerCallback, TrainingArguments

    from echelon.torch.hf_trainer import EchelonGradients

    class Clock(TrainerCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.times: list[float] = []

        def on_step_begin(self, *told: Any, **named: Any) -> None:
            _finish(given)
            self._start = time.perf_counter()

        def on_step_end(self, *told: Any, **named: Any) -> None:
            _finish(given)
            self.times.append(time.perf_counter() - self._start)

    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        told = TrainingArguments(
            output_dir=folder, max_steps=given.steps, per_device_train_batch_size=given.batch,
            learning_rate=given.rate, lr_scheduler_type="constant", logging_steps=1, report_to="none",
            save_strategy="no", disable_tqdm=True,
            use_cpu=given.device == "cpu", bf16=given.autocast == "bfloat16", fp16=given.autocast == "float16",
        )  # fmt: skip
        data = [{"input_ids": tokens, "labels": tokens} for tokens in some]
        trainer = Trainer(model(given), told, train_dataset=data, callbacks=[clock])
        trainer.log = lambda logs, *rest: trainer.state.log_history.append(logs)  # and print nothing
        if stream is None:
            trainer.train()
        else:
            with EchelonGradients(trainer, stream, device=_device(given)):
                trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return np.array(losses), float(np.median(clock.times[WARMED:]))


def _device(given: argparse.Namespace) -> str:
    return "cuda:auto" if given.device == "cuda" else "cpu"


def _finish(given: argparse.Namespace) -> None:
    if given.device == "cuda":
        torch.cuda.synchronize()


def report(given: argparse.Namespace) -> str:
    some = texts(given)
    with ec.Stream(given.cluster, workers=given.workers, redundancy=given.redundancy) as stream:
        pairs = [
            ("a plain loop", lambda: plain(given, some), "with `CodedGradient`", lambda: coded(given, some, stream))
        ]
        if find_spec("accelerate") is not None:
            pairs.append((
                "Trainer", lambda: by_trainer(given, some, None),
                "with `EchelonGradients`", lambda: by_trainer(given, some, stream),
            ))  # fmt: skip
        rows = []
        for name, train, through, train_through in pairs:
            runs = [(train(), train_through()) for _ in range(given.repeats)]  # in turns
            rows += compared(name, through, [one for one, _ in runs], [other for _, other in runs])
    shown = [f"loss {step + 1}" for step in _shown(given.steps)]
    weights = sum(weight.numel() for weight in model(given).parameters())
    return (
        f"GPT-2 of {weights} random weights, {given.batch} texts of {given.length} tokens per step, rate "
        f"{given.rate:g}, on {given.device}, autocast {given.autocast}{', deterministic' * given.deterministic}; "
        f"{given.workers} {given.cluster}, redundancy {given.redundancy}; torch {torch.__version__}. {given.repeats} "
        "trainings of each kind, in turns: losses are those of the first; differences are the largest in any step, of "
        "any two plain trainings, and of any coded one from any plain one; p is the chance of being as far apart where "
        f"both are the same ({PERMUTATIONS} permutations of the labels). Times are medians of steps after the first "
        f"{WARMED}."
        + ("" if len(rows) > 2 else " The Trainer was not tried: accelerate is not installed.")
        + f"\n\n{markdown_table(['', *shown, 'differ by', 'p', 'ms', 'ratio'], rows)}"
    )


def compared(name: str, through: str, plain_runs: list[Run], coded_runs: list[Run]) -> list[list[str]]:
    """Return a row on plain trainings, and one on those through a cluster beside them."""
    losses = np.array([found for found, _ in (*plain_runs, *coded_runs)])
    apart, count = abs(losses[:, None] - losses).max(axis=2), len(plain_runs)
    took = [float(np.median([seconds for _, seconds in runs])) for runs in (plain_runs, coded_runs)]
    shown = _shown(losses.shape[1])
    found = (
        (name, losses[0], apart[:count, :count].max(), "", took[0]),
        (through, losses[count], apart[:count, count:].max(), f"{likely(apart, count):.2f}", took[1]),
    )
    return [
        [kind, *(f"{value:.4f}" for value in some[shown]), f"{off:.1e}", p, f"{1e3 * s:.1f}", f"{s / took[0]:.2f}"]
        for kind, some, off, p, s in found
    ]


def likely(apart: np.ndarray, count: int) -> float:
    """Return how often runs of one kind would be as far from the first `count` as the others are, by chance; nan where
    some distance is not finite.

    The distance is that of the energy statistic: twice the mean between the kinds, less the means within each.
    """

    def energy(order: np.ndarray) -> float:
        some = apart[np.ix_(order, order)]
        return float(2 * some[:count, count:].mean() - some[:count, :count].mean() - some[count:, count:].mean())

    if not np.isfinite(apart).all():
        return float("nan")
    rng, given = np.random.default_rng(SEED), np.arange(len(apart))
    found, slack = energy(given), 1e-12
    drawn = [energy(rng.permutation(given)) >= found - slack for _ in range(PERMUTATIONS)]
    return (1 + sum(drawn)) / (1 + PERMUTATIONS)


def _shown(steps: int) -> list[int]:
    return np.linspace(0, steps - 1, SHOWN).astype(int).tolist()


def main() -> None:
    given = options()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if given.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # for workers, too, which take over the rest
        torch.use_deterministic_algorithms(True)
    print(report(given))


if __name__ == "__main__":
    main()
