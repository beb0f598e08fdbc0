"""One cluster for many tests, each of which finds it as if it were new: round 1 is next, nothing is loaded."""

from echelon.clusters import Down, Message, Trouble, Up


class Lent:
    """A cluster that is used again; `close` gives it back.

    Rounds of a test are counted from where those of the last one ended; what is late from there is dropped.
    """

    def __init__(self, cluster, places, first):
        self.cluster, self.places, self.first, self.last = cluster, places, first, first
        self.workers = cluster.workers
        self.keys = set()
        self.greeted = False

    def __getattr__(self, name):
        return getattr(self.cluster, name)

    def load(self, key, work):
        self.keys.add(key)
        self.cluster.load(key, work)

    def unload(self, key):
        self.keys.remove(key)
        self.cluster.unload(key)

    def broadcast(self, round, key, state):
        self.last = max(self.last, self.first + round)
        self.cluster.broadcast(self.first + round, key, state)

    def assign(self, worker, round, tasks):
        self.cluster.assign(worker, self.first + round, tasks)

    def purge(self, round):
        self.cluster.purge(self.first + round)

    def stop(self, round, slot):
        self.cluster.stop(self.first + round, slot)

    def poll(self, timeout_s):
        if not self.greeted:
            while len(self.places) < self.workers:
                self._heard()
            self.greeted = True
            return [Up(worker, place) for worker, place in self.places.items()]
        return self._heard(timeout_s)

    def _heard(self, timeout_s=None):
        return [report for report in map(self._mine, self.cluster.poll(timeout_s)) if report is not None]

    def _mine(self, report):
        match report:
            case Up(worker=worker, place=place):
                self.places[worker] = place
            case Down(worker=worker, place=place, reason=reason, at=at):
                del self.places[worker]
                return Down(worker, place, reason, None if at is None else (at[0] - self.first, *at[1:]))
            case Message():
                return report._replace(round=report.round - self.first) if report.round > self.first else None
            case Trouble(worker=worker, round=round, cause=cause):
                return Trouble(worker, round - self.first, cause) if round > self.first else None
        return report

    def close(self):
        for handle in self.cluster._handles.values():
            if handle.tasks:  # it may wait for something that never comes
                self.cluster.kill(handle.number)
        self.cluster.purge(self.last)
        for key in self.keys:
            self.cluster.unload(key)
        self.keys = set()
