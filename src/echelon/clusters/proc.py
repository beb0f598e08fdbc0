"""What the kernel says of a process of this machine, without asking the process."""


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
