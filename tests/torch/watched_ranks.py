"""What four ranks do for the tests of `watch`: each writes what it found into a file of its own."""

import pickle
from contextlib import nullcontext
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from echelon.errors import ArgumentError
from echelon.torch import watch
from echelon.torch.stamp_exchange import Exchange
from echelon.torch.stamping import DeviceClock

RANKS, SLOW, TRUTH = 4, 2, 1.3
PASS_S, LOADING_S, STEPS = 0.1, 0.02, 40
LONGEST_S = 60.0  # that a rank waits for others; all of it takes about ten


class Ticking:
    """A clock that goes on by what a rank is said to compute, and stands while it waits."""

    lag = 0

    def __init__(self):
        self.now = 1000.0 * (1 + dist.get_rank())  # no two clocks agree

    def mark(self):
        return self.now

    def seconds(self, start, stop):
        return stop - start


class Event:
    """An event of a device that takes its time from a clock."""

    def __init__(self, clock):
        self.at, self.synchronized = clock.now, False

    def synchronize(self):
        self.synchronized = True

    def elapsed_time(self, other):
        assert self.synchronized
        assert other.synchronized
        return 1e3 * (other.at - self.at)


class Net(nn.Module):
    """Three layers in buckets of their own; a forward pass takes the time it is told, where it is one of a step."""

    def __init__(self, clock=None, pass_s=0.0):
        super().__init__()
        torch.manual_seed(7)
        self.layers = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
        self.clock, self.pass_s = clock, pass_s

    def forward(self, inputs):
        if self.clock is not None and torch.is_grad_enabled():
            self.clock.now += self.pass_s
        return self.layers(inputs)


def distributed(net=None, **options):
    return DistributedDataParallel(Net() if net is None else net, bucket_cap_mb=0.01, **options)


def trained(model, steps, *, clock=None, passes=1, seed=0):
    """Take some steps, and return the gradients of each."""
    torch.manual_seed(100 * seed + dist.get_rank())
    optimizer, found = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(steps):
        optimizer.zero_grad()
        if clock is not None:
            clock.now += LOADING_S
            with torch.no_grad():
                model(torch.randn(2, 8))  # a look at the model on the way is no step
        for k in range(passes):
            with model.no_sync() if k < passes - 1 else nullcontext():
                model(torch.randn(16, 8)).square().mean().backward()
        optimizer.step()
        found.append([weight.grad.clone() for weight in model.parameters()])
    return found


def same(one, other):
    return len(one) == len(other) and all(
        torch.equal(a, b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True)
    )


def ticking():
    clock = Ticking()
    return clock, distributed(Net(clock, PASS_S * (TRUTH if dist.get_rank() == SLOW else 1.0)))


def scored(folder):
    """Watch ranks of which one takes 1.3 times as long; two passes a step, of which one is under `no_sync`."""
    clock, model = ticking()
    found = {}
    with watch(model, record=folder / "run.jsonl", every=16, keep=30, clock=clock) as watcher:
        try:
            watcher.report()
        except ArgumentError as error:
            found["early"] = str(error)
        gradients = trained(model, STEPS, clock=clock, passes=2)
        if dist.get_rank() == 0:  # one rank alone may ask
            found["alone"] = watcher.report(advice=False)
        watcher.gather()
    found["equal"] = same(gradients, trained(distributed(), STEPS, clock=Ticking(), passes=2))
    found["report"] = watcher.report(advice=dist.get_rank() == 0)
    found["stamps"] = watcher.stamps
    found["profile"] = watcher.profile()
    watcher.close()  # twice is fine
    return found


def on_a_device(folder):
    """Watch with events, which are read later."""
    clock, model = ticking()
    watcher = watch(model, every=8, clock=DeviceClock(lambda: Event(clock)))
    trained(model, 12, clock=clock)
    read = watcher.stamps
    watcher.gather()
    return {"read": len(read), "report": watcher.report(advice=False)}


def among_three(folder):
    """Train on some of the ranks, whose number is no power of two."""
    group = dist.new_group([0, 1, 3])
    if dist.get_rank() == 2:
        return {}
    model, plain = (distributed(process_group=group) for _ in range(2))
    watcher = watch(model, every=2)
    equal = same(trained(model, 6), trained(plain, 6))
    watcher.gather()
    return {"equal": equal, "report": watcher.report(advice=False)}


def own_hook(folder):
    """Train with a hook of one's own."""
    watched, plain = distributed(), distributed()
    watcher = watch(watched, hook=fp16_compress_hook, state=dist.group.WORLD)
    plain.register_comm_hook(dist.group.WORLD, fp16_compress_hook)
    equal = same(trained(watched, 6), trained(plain, 6))
    watcher.gather()
    return {"equal": equal, "steps": watcher.report(advice=False).steps}


def refused(folder):
    """Return what is said of models that have a hook."""
    hooked, built_in, watched = distributed(), distributed(), distributed()
    hooked.register_comm_hook(None, allreduce_hook)
    built_in._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
    watch(watched)
    said = []
    for model in (hooked, built_in, watched):
        try:
            watch(model)
        except ArgumentError as error:
            said.append(str(error))
    return {"said": said}


def closed_one_by_one(folder):
    """Close each rank's watcher at a step of its own, and count the gathers of 100 steps."""
    begun = []
    begin = Exchange.begin
    Exchange.begin = lambda self, rows: (begun.append(len(rows)), begin(self, rows))[1]
    try:
        clock, model = ticking()
        watcher = watch(model, every=4, clock=clock)
        trained(model, 3 + 5 * dist.get_rank(), clock=clock)
        watcher.close()
        trained(model, 100 - 3 - 5 * dist.get_rank(), clock=clock)
    finally:
        Exchange.begin = begin
    return {"begun": begun, "report": watcher.report(advice=False), "waiting": len(watcher._steps)}


def uneven(folder):
    """Let one rank run out of batches before the others."""
    clock, model = ticking()
    watcher = watch(model, every=4, clock=clock)
    with model.join():
        for _ in range(7 if dist.get_rank() == 1 else 11):
            model(torch.randn(16, 8)).square().mean().backward()
    watcher.gather()
    return {"report": watcher.report(advice=False)}


CASES = (scored, on_a_device, among_three, own_hook, refused, closed_one_by_one, uneven)


def rank(number, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder / 'store'}", rank=number, world_size=RANKS,
        timeout=timedelta(seconds=LONGEST_S),
    )  # fmt: skip
    found = {case.__name__: case(folder) for case in CASES}
    (folder / f"{number}.pickle").write_bytes(pickle.dumps(found))
    dist.destroy_process_group()


def run(folder: Path):
    """Return what each rank found, by the name of the case."""
    context = get_context("spawn")
    processes = [context.Process(target=rank, args=(number, folder)) for number in range(RANKS)]
    try:
        for process in processes:
            process.start()
        for process in processes:
            process.join(2 * LONGEST_S)
        assert [process.exitcode for process in processes] == [0] * RANKS
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
            process.join()
    return [pickle.loads((folder / f"{number}.pickle").read_bytes()) for number in range(RANKS)]
