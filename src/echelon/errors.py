"""What can go wrong, by whose fault it is.

    EchelonError
    ├── ArgumentError       the caller: an argument out of range; the text names it, its value and what is allowed
    │   ├── ProfileError    the profile: a file or a worker that can't be meant as written
    │   └── CannotEvaluate  the plan: this evaluator can't say what it does; the text says why, and what can
    ├── NoClosedForm        the law: it has no exact answer; sample instead
    ├── NotDecodable        the rows: too few of them, or too badly conditioned, to recover what is wanted
    │   └── NotFinite       the parts: inf or NaN in rows that combine several, which hide what the sum is
    ├── JobFailed           the job: its own code raised, or killed its workers; `__cause__` is what it raised
    ├── RemoteError         the job: stands for an exception of a worker that can't be brought here as it is
    ├── ClusterError        the machine: workers can't be started, or are not available here
    ├── JournalError        the disk: a journal can't be read or written; its stream ends, and goes on when opened again
    │   └── JournalFull     the disk: no room, for now; the stream waits, and goes on when there is some
    ├── CorruptMessages     the workers: messages contradict each other, and it is not known which are wrong
    └── IllegalEvent        the driver: an event that can't happen to the master as it stands; nothing has changed

Arguments are the caller's fault in Python's own words, too: `ArgumentError` is a ``ValueError``.
"""


class EchelonError(Exception):
    """Root of the errors that echelon raises on purpose."""


class ArgumentError(EchelonError, ValueError):
    """An argument that is not allowed; the text names it, its value and what is."""


class ProfileError(ArgumentError):
    """A profile that can't be meant as written; the text names the source, the key and what is allowed."""


class CannotEvaluate(ArgumentError):
    """A plan that this evaluator can't do, with the reason, and what else can."""


class NoClosedForm(EchelonError):
    """The sum of task times of this law has no closed form, so there is no exact answer."""


class NotDecodable(EchelonError):
    """The rows received do not recover the target, or only with more noise than is allowed."""


class NotFinite(NotDecodable):
    """Parts that are not finite, in rows that combine several: the sum may be inf or NaN, and can't be told."""


class CorruptMessages(EchelonError):
    """Messages that can't all be right, with more of them wrong than can be found."""


class ClusterError(EchelonError):
    """Workers can't be started, or are not available on this machine."""


class JournalError(EchelonError):
    """A journal can't be read or written any more, so its stream ends."""


class JournalFull(JournalError):
    """A journal can't be written now, as on a full disk: nothing was written, and a later try may do better."""


class JobFailed(EchelonError):
    """A job's own code raised, on a worker or on the master, or its rows killed too many workers.

    `__cause__` is the exception that was raised, without the frames of its traceback, which would hold on to data; or a
    `RemoteError` if it could not be brought here; None where nothing was raised.

    traceback: where it was raised, as text; also a note, so that it is shown with this error.
    worker, place: where that was; None on the master.
    slot, row: what the worker computed; None where that is not known.
    chunks: the numbers of the chunks that it was computed from; empty where that is not known, or there are none.
    """

    traceback: str = ""
    worker: int | None = None
    place: int | None = None
    slot: int | None = None
    row: int | None = None
    chunks: tuple[int, ...] = ()


class RemoteError(EchelonError):
    """Stands for an exception of a worker that can't be pickled, or is too large; the text has its type and its own."""


class IllegalEvent(EchelonError):
    """An event that can't happen now: the driver's fault. The master did not change."""
