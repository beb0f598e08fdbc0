"""What the kernel says of a process of this machine, without asking the process."""

_EXITING = 0x4  # PF_EXITING, of the flags of its main thread


def state(pid: int) -> str:
    """Return the letter of a process's state: R, S, D, T (stopped), t (traced), Z (ended); X if there is none.

    >>> import os
    >>> state(os.getpid())
    'R'
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read(512).rpartition(b")")[2].split()[0].decode()  # its name may have brackets and blanks
    except (OSError, IndexError):
        return "X"


def stopped(pid: int) -> bool:
    """Return whether a process is stopped (SIGSTOP) or held by a debugger."""
    return state(pid) in "Tt"


def ending(pid: int) -> bool:
    """Return whether a process has ended or begun to: from then on its devices' memory may be given back."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            state, *fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return True
    return state in "ZX" or bool(int(fields[5]) & _EXITING)
