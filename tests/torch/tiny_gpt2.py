"""A GPT-2 of a few thousand random weights, texts of random tokens, and a plain loop over them."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

VOCABULARY, LENGTH = 24, 10


def gpt2(dtype=torch.float32, dropout=0.0):
    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=16, n_layer=2, n_head=2, resid_pdrop=dropout,
        embd_pdrop=dropout, attn_pdrop=dropout, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return GPT2LMHeadModel(config).to(dtype)


def texts(count, *, ignored=0.0):
    """Each text is a list of tokens and which of them count: texts differ in how many where some are ignored."""
    chance = torch.Generator().manual_seed(2)
    tokens = torch.randint(VOCABULARY, (count, LENGTH), generator=chance)
    skipped = torch.rand(count, LENGTH, generator=chance) < ignored * torch.rand(count, 1, generator=chance)
    labels = tokens.masked_fill(skipped, -100)
    return [
        {"input_ids": one, "labels": wanted, "attention_mask": torch.ones_like(one)}
        for one, wanted in zip(tokens, labels, strict=True)
    ]


def together(some):
    return {name: torch.stack([one[name] for one in some]) for name in some[0]}


def plain_losses(model, batches, optimizer, pieces=1):
    """Losses of a plain loop; each batch passed back in so many pieces of equal size."""
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        total = 0.0
        for piece in zip(*(values.chunk(pieces) for values in batch.values()), strict=True):
            loss = model(**dict(zip(batch, piece, strict=True))).loss / pieces
            loss.backward()
            total += float(loss.detach())
        optimizer.step()
        losses.append(total)
    return losses
