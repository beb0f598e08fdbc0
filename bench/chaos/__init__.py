"""Whole-stack schedules: the production driver with journal, record and deliveries, in virtual time, under faults."""

from bench.chaos.schedule import run_schedule, run_schedules

__all__ = ["run_schedule", "run_schedules"]
