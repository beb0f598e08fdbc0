"""The public stream: submit jobs, iterate over deliveries; with records, a journal and a display."""

from echelon.stream.handle import Delivery, Handle, Progress
from echelon.stream.journal import Journal
from echelon.stream.kept import Kept
from echelon.stream.observer import Arrival, Observer, RoundSeen, Running
from echelon.stream.record import Record
from echelon.stream.record_reader import read_record
from echelon.stream.stream import Stream

__all__ = [
    "Arrival", "Delivery", "Handle", "Journal", "Kept", "Observer", "Progress", "Record",
    "RoundSeen", "Running", "Stream", "read_record",
]  # fmt: skip
