"""The Trainer of transformers trains as it does alone, with gradients from a stream."""

import warnings
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from transformers import (
    GPT2Config,
    GPT2ForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
    Trainer,
    TrainingArguments,
)

import echelon as ec
from echelon.errors import ArgumentError
from echelon.torch import CodedGradient
from echelon.torch.hf_trainer import EchelonGradients
from tests.torch.tiny_gpt2 import gpt2, plain_losses, texts, together

STEPS = 6
CHECKPOINTING = "activation_checkpointing"  # as newer releases call it
if not hasattr(TrainingArguments, CHECKPOINTING):
    CHECKPOINTING = "gradient_checkpointing"


@pytest.fixture(scope="module", autouse=True)
def one_thread_of_torch():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def stream():
    """One of them is late in every step: threads share torch's generator with the framework, which draws by it, too."""
    with ec.Stream("threads", workers=3, redundancy=1.5) as one:
        yield one


def trained(folder, stream=None, *, model=None, data=None, kind=Trainer, resume=None, options=None, **arguments):
    """A Trainer that has trained, alone or with gradients of a stream, and its losses."""
    named = {
        "per_device_train_batch_size": 6, "max_steps": STEPS, "learning_rate": 0.01, "logging_steps": 1,
        "report_to": "none", "use_cpu": True, "disable_tqdm": True, "save_strategy": "no", "seed": 3,
    }  # fmt: skip
    told = TrainingArguments(output_dir=str(folder), **named | arguments)
    trainer = kind(model or gpt2(), told, train_dataset=data or texts(18), **options or {})
    if stream is None:
        trainer.train(resume_from_checkpoint=resume)
    else:
        with EchelonGradients(trainer, stream):
            trainer.train(resume_from_checkpoint=resume)
    return trainer, [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def weights(trainer):
    return torch.cat([weight.detach().reshape(-1) for weight in trainer.model.parameters()])


def check_alike(folder, stream, precise=1e-4, *, make=gpt2, **named):
    """Train alone and with a stream; losses and weights must be the same, up to rounding."""
    alone, wanted = trained(folder, model=make(), **named)
    coded, found = trained(folder, stream, model=make(), **named)
    assert len(wanted) == STEPS
    np.testing.assert_allclose(found, wanted, rtol=precise)
    before = torch.cat([weight.detach().reshape(-1) for weight in make().parameters()])
    moved = (weights(alone) - before).norm()
    assert moved > 0.05
    assert (weights(coded) - weights(alone)).norm() < 10 * precise * moved
    return coded


def plainly_summed(outputs, labels, num_items_in_batch=None):
    """A loss function of the user's."""
    logits = outputs["logits"][:, :-1].flatten(0, 1)
    found = nn.functional.cross_entropy(logits, labels[:, 1:].flatten(), reduction="sum")
    return found / num_items_in_batch


class Weighted(Trainer):
    """A Trainer with a loss of its own, which asks the Trainer for numbers."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.share, self.tokens = 0.5, torch.linspace(0.5, 1.5, 10)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss = super().compute_loss(model, inputs, num_items_in_batch=num_items_in_batch)
        logits = model(inputs["input_ids"]).logits
        extra = (logits.square().mean(dim=2) * self.tokens).sum() * self.share / num_items_in_batch
        return loss + self.args.weight_decay * extra


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"gradient_accumulation_steps": 2, "max_grad_norm": 0.3, "lr_scheduler_type": "cosine", "warmup_steps": 2},
        {"label_smoothing_factor": 0.1, "optim": "sgd", "learning_rate": 0.3},
        {"options": {"compute_loss_func": plainly_summed}},
        {"kind": Weighted, "weight_decay": 0.1},
        {CHECKPOINTING: True},
    ],
    ids=["as it is", "accumulated and clipped", "smoothed", "own function", "own class", "checkpointed"],
)
def test_training_is_that_of_the_trainer_alone(tmp_path, stream, named):
    """Texts have unequal numbers of tokens, so chunks and accumulated batches do."""
    check_alike(tmp_path, stream, data=texts(18, ignored=0.9), **named)


def test_losses_in_bfloat16_are_those_of_the_trainer_alone_up_to_its_rounding(tmp_path, stream):
    coded = check_alike(tmp_path, stream, precise=2.0**-7, bf16=True)
    exact, _ = trained(tmp_path)
    assert (weights(coded) - weights(exact)).norm() > 1e-4  # it was not float32


def classifier():
    torch.manual_seed(4)
    config = GPT2Config(
        vocab_size=24, n_positions=10, n_embd=16, n_layer=1, n_head=2, num_labels=3, pad_token_id=0, bos_token_id=0,
        eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    return GPT2ForSequenceClassification(config)


def test_a_mean_over_samples_stays_one_whatever_the_chunks(tmp_path, stream):
    """Eight samples on three workers."""
    data = [{"input_ids": text["input_ids"], "labels": text["input_ids"][0] % 3} for text in texts(24)]
    check_alike(tmp_path, stream, make=classifier, data=data, per_device_train_batch_size=8)


class Deaf(PreTrainedModel):
    """It takes any argument, and divides its loss by nothing but its samples; part of it by items, if `partly`."""

    config_class = PreTrainedConfig

    def __init__(self, partly=False):
        super().__init__(PreTrainedConfig())
        torch.manual_seed(5)
        self.partly, self.layer = partly, nn.Linear(10, 1)

    def forward(self, input_ids, labels=None, **named):
        loss = (self.layer(input_ids.float()) / 10).square().mean()
        if self.partly:
            loss = loss + self.layer.bias.abs().sum() / named["num_items_in_batch"]
        return {"loss": loss}


def test_a_model_that_ignores_the_number_of_items_is_noticed(tmp_path, stream):
    check_alike(tmp_path, stream, make=Deaf, data=texts(18, ignored=0.5))
    with pytest.raises(ArgumentError, match="divides in part"):
        trained(tmp_path, stream, model=Deaf(partly=True))


def test_a_training_goes_on_from_a_checkpoint_with_the_same_dropout(tmp_path, stream):
    named = {"gradient_accumulation_steps": 2, "save_strategy": "steps", "save_steps": 3}
    whole, losses = trained(tmp_path, stream, model=gpt2(dropout=0.3), **named)
    resume = str(tmp_path / "checkpoint-3")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the Trainer's own, of loaded random states
        again, found = trained(tmp_path, stream, model=gpt2(dropout=0.3), resume=resume, **named)
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    torch.testing.assert_close(weights(again), weights(whole), rtol=1e-4, atol=1e-5)


def test_evaluation_is_the_trainers_own(tmp_path, stream):
    named = {"eval_strategy": "steps", "eval_steps": 2, "options": {"eval_dataset": texts(4, ignored=0.5)}}
    seen = []
    for some in (None, stream):
        trainer, _ = trained(tmp_path, some, **named)
        seen.append([entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry])
    assert len(seen[0]) == STEPS // 2
    np.testing.assert_allclose(seen[1], seen[0], rtol=1e-4)


def test_gpt2_learns_as_fast_through_a_coded_gradient_as_two_plain_runs_agree(stream):
    """Plain runs are alike to the bit; those that pass a batch back in pieces differ by rounding, and so it may."""
    some = texts(24)
    batches = [together(some[6 * i : 6 * i + 6]) for i in range(4)] * 8
    optimizer = partial(torch.optim.AdamW, lr=0.003)
    models = [gpt2() for _ in range(4)]
    plain, again, pieces = (
        np.array(plain_losses(model, batches, optimizer(model.parameters()), parts))
        for model, parts in zip(models, (1, 1, 3), strict=False)
    )
    coded_optimizer, found = optimizer(models[3].parameters()), []
    with CodedGradient(models[3], None, None, stream=stream) as coded:
        for batch in batches:
            coded_optimizer.zero_grad()
            found.append(float(coded.backward(batch)))
            coded_optimizer.step()
    assert (plain == again).all()
    assert plain[0] - plain[-1] > 0.1
    assert abs(found - plain).max() < 8 * abs(pieces - plain).max() < 1e-4


def test_a_worker_that_is_a_process_finds_the_same_for_one_model_after_another(tmp_path):
    """By then the Trainer has wrapped the forward pass of the first for bfloat16."""
    given, _ = trained(tmp_path, max_steps=1, bf16=True)

    def losses():
        trainer.train()
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]

    trainer = Weighted(model_init=lambda: gpt2(), args=given.args, train_dataset=texts(18))
    trainer.args.max_steps = STEPS
    wanted = losses()
    with EchelonGradients(trainer, cluster="processes", workers=1, chunks=2):
        for _ in range(2):
            np.testing.assert_allclose(losses(), wanted, rtol=2.0**-7)


def test_a_trainer_is_its_own_again_when_closed(tmp_path, stream):
    trainer, _ = trained(tmp_path, stream)
    assert "compute_loss" not in vars(trainer)
    one = EchelonGradients(trainer, stream)
    with pytest.raises(ArgumentError, match="replaced"):
        EchelonGradients(trainer, stream)
    one.close()
    one.close()
    trainer.train()


class Asking(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        return super().compute_loss(model, inputs) * self.teacher(inputs)


def test_what_workers_do_not_have_is_said(tmp_path, stream):
    with pytest.raises(ec.errors.EchelonError) as caught:
        trained(tmp_path, stream, kind=Asking)
    assert "'teacher'; of the Trainer, workers have" in f"{caught.value} {caught.value.__cause__}"


def test_what_can_not_be_the_same_is_refused(tmp_path, stream):
    trainer, _ = trained(tmp_path, stream, max_steps=1)
    for named, said in (
        ({"trainer": "one"}, "trainer: 'one'"),
        ({"stream": 3}, "stream: 3"),
        ({"stream": stream, "workers": 3}, "workers: not allowed together with a stream"),
        ({"seed": -1}, "seed: -1"),
    ):
        with pytest.raises(ArgumentError, match=said):
            EchelonGradients(**{"trainer": trainer} | named)
        assert "compute_loss" not in vars(trainer)
    with pytest.raises(ArgumentError, match="messages: 'narrow'"), EchelonGradients(trainer, stream, messages="narrow"):
        trainer.train()
    with pytest.raises(ArgumentError, match="a tensor of 1 samples beside one of 6"):
        trained(tmp_path, stream, options={"data_collator": lambda some: together(some) | {"more": torch.ones(1)}})
