"""What the kernel says of a process of this machine, without asking the process."""

_EXITING = 0x4  # PF_EXITING, of the flags of its main thread
_FLAGS = 6  # their place behind its name
_LONGEST = 1024  # bytes that are read


def state(pid: int) -> str:
    """Return the letter of a process's state: R, S, D, T (stopped), t (traced), Z (ended); X if there is none.

    >>> import os
    >>> state(os.getpid())
    'R'
    """
    return _fields(pid)[0].decode()


def stopped(pid: int) -> bool:
    """Return whether a process is stopped (SIGSTOP) or held by a debugger."""
    return state(pid) in "Tt"


def ending(pid: int) -> bool:
    """Return whether a process has ended or begun to: from then on its devices' memory may be given back."""
    fields = _fields(pid)
    return fields[0] in b"ZX" or bool(int(fields[_FLAGS]) & _EXITING)


def _fields(pid: int) -> list[bytes]:
    """Return what stands behind the name of a process; the state of none where there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as stat:
            return stat.read(_LONGEST).rpartition(b")")[2].split() or [b"X"]  # its name may have brackets and blanks
    except OSError:
        return [b"X"]
