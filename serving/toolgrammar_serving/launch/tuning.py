"""What a process does once it is up: what lives as long as the server is not looked at again by the collector, and
freed memory goes back."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from typing import Final

#: Young objects until a collection; Python's own number is 700 to 2,000.
YOUNG: Final = 20_000


#: Open files of a process, if the system allows as many: a stream needs one.
DESCRIPTORS: Final = 65_536
#: ``M_ARENA_MAX`` of glibc's ``mallopt``.
_ARENA_MAX: Final = -8


def one_arena() -> None:
    """Have all threads allocate from one arena (glibc). Call it before any thread is started.

    Everything here runs on one loop; the few threads beside it allocate what the loop frees. In arenas of their
    own that memory is never whole again, and a server with many streams grows in steps for ever.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL("libc.so.6").mallopt(_ARENA_MAX, 1)


def many_descriptors() -> None:
    """Raise the soft limit on open files, often 1,024, towards the hard one."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def settle() -> None:
    """Call it when everything is loaded and before the first request."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 50)
    trim()


def trim() -> None:
    """Give freed memory back to the system, where the C library can (glibc)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL("libc.so.6").malloc_trim(0)
