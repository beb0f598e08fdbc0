"""Training with torch: gradients of any model, recovered from the workers that are quick enough.

    losses = train(model, loss, data, optimizer, steps=1000, batch_size=256, workers=8, redundancy=1.3)

or, in your own loop, in place of ``loss(model(inputs), targets).backward()``:

    coded = CodedGradient(model, loss, data, stream=stream, batch_size=256)
    value = coded.backward()

For slow networks, rounds of local steps that end with a quorum of the workers:

    local = LocalSGD(model, loss, data, stream=stream, optimizer=partial(torch.optim.SGD, lr=0.05), quorum=0.75)
    told = local.round()
Lightning's Trainer and that of transformers: `echelon.torch.lightning` and `echelon.torch.hf_trainer`, which are loaded
only when you import them.

Networks by layers: what each pass costs, measured, and training whose gradient is recovered layer by layer.

    layers = Layers(model, loss)                                 # loss: a sum over samples
    costs = layers.measure(chunk)
    found = echelon.blocks.optimise_layers(workers, costs, law)  # found.why says so where one block is best
    plan = echelon.schemes.block_coordinate(workers, levels=found.levels, tasks=found.tasks)
    stream.submit(layers.job(plan=plan, chunks=chunks, rate=1e-3, iterations=100))

Import it by name; `import echelon` alone does not load torch.
"""

from importlib.util import find_spec

if find_spec("torch") is None:
    raise ModuleNotFoundError("echelon.torch needs torch; pip install 'echelon-compute[torch]'", name="torch")

from echelon.torch.coded_gradient import CodedGradient
from echelon.torch.evaluating import Evaluated, Evaluation
from echelon.torch.layers import Layers
from echelon.torch.local_sgd import LocalSGD
from echelon.torch.seeding import seeded
from echelon.torch.trained import Trained, Validated
from echelon.torch.training import train
from echelon.torch.watching import watch

__all__ = [
    "CodedGradient", "Evaluated", "Evaluation", "Layers", "LocalSGD", "Trained", "Validated", "seeded", "train",
    "watch",
]  # fmt: skip
