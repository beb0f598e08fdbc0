"""The strategy of a stream's jobs that bring none of their own."""

import logging
from dataclasses import replace
from threading import Lock

import numpy as np

from echelon.arrays import FloatArray
from echelon.jobs import IterativeJob
from echelon.profile import Arrivals, Profile, Worker, Workload
from echelon.schemes import CodedPlan
from echelon.stream.pacing import Pacing

log = logging.getLogger("echelon.stream")

CHANGED = 1.3  # how much a speed must have changed to ask for advice again
_LEAST_SPREAD = 1e-3  # of a mean, where nothing was seen to vary


class Strategist:
    """Asks for advice when the first job of a size comes, and again when workers are no longer what they were.

    profile: what is known of the workers beforehand; without, the first job runs by the stream's redundancy and shows
    their speeds.
    """

    def __init__(self, profile: Profile | None, pacing: Pacing, seed: int) -> None:
        self.overlap = False  # whether jobs should overlap, as is best for the last one planned
        self._profile, self._pacing, self._seed = profile, pacing, seed
        # by work, parts and bytes: speeds then, the plan, and whether jobs should overlap
        self._known: dict[tuple[str, int, float, float], tuple[FloatArray, CodedPlan, bool]] = {}
        self._lock = Lock()

    def plan(self, job: IterativeJob) -> CodedPlan | None:
        """Return the plan for a job, or None for the stream's own split; may take seconds."""
        if job.plan is not None or job.by_slot or job.own_code is not None:
            return job.plan
        if not self._pacing.known:
            return None
        with self._lock:
            work = "linear" if job.stacked else "gradient"
            means = self._pacing.means.copy()
            message, state = _sizes(job)
            kind = work, job.parts, message, state
            if kind not in self._known or _changed(self._known[kind][0], means):
                from echelon.search import advise  # half of the package, which other streams do not need

                advice = advise(
                    self._seen(job), work=work, bytes_per_message=message, bytes_of_state=state, seed=self._seed
                )
                log.info("%d parts: %s", job.parts, advice.why)
                best = advice.best_for(type(job).__name__)
                plan = best.plan()
                assert isinstance(plan, CodedPlan)
                self._known[kind] = means, plan, best.strategy.overlap
            _, plan, self.overlap = self._known[kind]
            return plan

    def _seen(self, job: IterativeJob) -> Profile:
        """Return the workers as they are believed to be now."""
        speeds = self._pacing.speeds()
        if self._profile is not None and not _changed(self._profile.speeds.mean, speeds.mean):
            return self._profile.with_workload(critical=job.parts)  # with the laws that it names
        rows = zip(speeds.mean.tolist(), speeds.std.tolist(), speeds.link.tolist(), strict=True)
        workers = [
            Worker(f"w{place + 1}", mean=mean, std=max(std, _LEAST_SPREAD * mean), link=link)
            for place, (mean, std, link) in enumerate(rows)
        ]
        if self._profile is not None:
            return replace(self._profile, workers=workers).with_workload(critical=job.parts)
        # how jobs will arrive is not known: aim at the shortest iteration
        described = Workload(critical=job.parts, redundancy=1.0, iterations=1, arrivals=Arrivals.poisson(1e-9))
        return Profile(described, workers)


def _sizes(job: IterativeJob) -> tuple[float, float]:
    """Return the bytes of a message and of the state, as far as they are known before a job runs.

    The size of a sum's parts is only seen when they come.
    """
    return job.message_bytes, float(getattr(job.state, "nbytes", 0))


def _changed(before: FloatArray, now: FloatArray) -> bool:
    """Return whether workers have other speeds, relative to one another: other work may take any time per part."""
    ratio = (now / now.mean()) / (before / before.mean())
    return bool(ratio.max() > CHANGED or ratio.min() * CHANGED < 1) or bool(np.isnan(ratio).any())
