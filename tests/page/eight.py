"""A run of eight worker processes, of which one is slow, and a browser without a window to look at it."""

import os
import shutil
import signal
from contextlib import contextmanager

import echelon as ec
from tests.stream.jobs import linear_job

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SLOW, FACTOR = 5, 3.0  # its place, and how many times as long it takes
PART_S = 0.02
LONGEST_MS = 60_000


def browser_path():
    """Return where the system's browser is, None if there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def browsing():
    """Run the system's browser; it opens nothing but what it is given."""
    from playwright.sync_api import sync_playwright  # not at the top: programs without a browser come here, too

    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        try:
            yield found
        finally:
            found.close()


class Tab:
    """A tab of a browser, with all that it asked for and all that its scripts complained of."""

    def __init__(self, browser, url, *, width=1280, height=900, scheme="light"):
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.page.set_default_timeout(LONGEST_MS)
        self.asked, self.complaints = [], []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "console", lambda said: self.complaints.append(said.text) if said.type in ("error", "warning") else None
        )
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.goto(url)

    def until(self, script, *values):
        """Wait until a function of the latest state, and of these values, is true."""
        self.page.wait_for_function(
            f"values => window.echelon.state !== null && ({script})(window.echelon.state, ...values)", arg=list(values)
        )

    def state(self):
        """Return the state that the page has."""
        return self.page.evaluate("window.echelon.state")

    def shown(self):
        """Return the values that elements say they show, by the name of what they show."""
        return self.page.evaluate(
            "Object.fromEntries([...document.querySelectorAll('[data-of]')].map(node => [node.dataset.of,"
            " {value: node.dataset.value ?? null, text: node.textContent}]))"
        )

    def frames(self):
        """Wait until what came last is drawn."""
        self.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def eight(**options):
    """Return a stream over eight processes of which one takes three times as long."""
    means = [PART_S * (FACTOR if place == SLOW else 1.0) for place in range(8)]
    workers = [ec.Worker(f"w{place + 1}", mean=mean, std=0.2 * mean) for place, mean in enumerate(means)]
    workload = ec.Workload(critical=24, redundancy=1.25, iterations=100, arrivals=ec.Arrivals.poisson(1e-6))
    cluster = ec.clusters.ProcessCluster(emulate=ec.Profile(workload, workers))
    given = {"split": "uniform", "adapt": False, "redundancy": 1.25, "page": True, "progress": False, **options}
    return ec.Stream(cluster, **given), cluster


def job(name, iterations, seed=1):
    """Return a job of 24 parts whose rows each cost as much as a part."""
    return linear_job(seed, size=48, parts=24, iterations=iterations, name=name)


def kill(cluster, worker):
    """Kill a worker as the system would, at once."""
    os.kill(cluster.pids()[worker], signal.SIGKILL)
