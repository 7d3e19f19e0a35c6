"""The system calls that a box may not make, as a classic BPF program for the kernel's filter.

A list of what is denied: what reaches the kernel beyond files, processes and clocks, holds memory
outside the limits, or opens any socket but a UNIX one. Everything else keeps working, threads and
process pools included. Sources: ``seccomp(2)``, ``linux/filter.h``, and the system call tables of
the kernel (``asm/unistd_64.h``, ``asm-generic/unistd.h``).
"""

from __future__ import annotations

import errno
import functools
import platform
import struct
from dataclasses import dataclass

from crucible.errors import SandboxUnavailableError

__all__ = ["DENIED", "filter_program", "machine_abi"]

_LOAD, _JUMP_EQ, _JUMP_GE, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NR, _ARCH, _ARGUMENTS = 0, 4, 16

_AF_UNIX = 1
_NEW_NAMESPACES = 0x7E020080
"""Every ``CLONE_NEW…`` flag of ``clone(2)``."""
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_X32_BIT = 0x40000000


@dataclass(frozen=True, slots=True)
class Abi:
    """What the filter must know of a machine: its audit number, and the numbers of the calls
    whose arguments count."""

    audit: int
    column: int
    clone: int
    clone3: int
    socket: int
    ioctl: int
    has_x32: bool


_ABIS = {
    "x86_64": Abi(0xC000003E, 0, clone=56, clone3=435, socket=41, ioctl=16, has_x32=True),
    "aarch64": Abi(0xC00000B7, 1, clone=220, clone3=435, socket=198, ioctl=29, has_x32=False),
}

DENIED: dict[str, tuple[int | None, int | None]] = {
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    # namespaces and mounts
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    # the machine
    "acct": (163, 89),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "_sysctl": (156, None),
    "sysfs": (139, None),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "nfsservctl": (180, 42),
    "lookup_dcookie": (212, 18),
    # parts of the kernel with a history
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # memory and messages outside the limits of a process
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "mq_timedsend": (242, 182),
    "mq_timedreceive": (243, 183),
    "mq_notify": (244, 184),
    "mq_getsetattr": (245, 185),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "get_mempolicy": (239, 236),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
}
"""Call → its number on x86_64 and aarch64, None where the machine has no such call."""


def machine_abi() -> Abi:
    """The ABI of this machine.

    Raises:
        SandboxUnavailableError: if it is one whose system calls are not known here.
    """
    abi = _ABIS.get(platform.machine())
    if abi is None or struct.calcsize("P") != 8:
        raise SandboxUnavailableError(
            f"the system calls of {platform.machine()} are not known to the sandbox "
            f"(known: {', '.join(_ABIS)})"
        )
    return abi


@functools.cache
def filter_program() -> bytes:
    """The filter as an array of ``struct sock_filter``.

    Another architecture than the machine's own ends the process, the x32 calls and all in
    :data:`DENIED` fail with EPERM, ``clone3`` with ENOSYS (its flags cannot be read, and libraries
    fall back to ``clone``), a socket that is no UNIX socket with EAFNOSUPPORT.

    Raises:
        SandboxUnavailableError: as :func:`machine_abi`.
    """
    abi = machine_abi()
    refuse = _ERRNO | errno.EPERM
    code: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCH),
        (_JUMP_EQ, 1, 0, abi.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NR),
    ]
    if abi.has_x32:
        code += [(_JUMP_GE, 0, 1, _X32_BIT), (_RETURN, 0, 0, refuse)]
    for numbers in DENIED.values():
        number = numbers[abi.column]
        if number is not None:
            code += [(_JUMP_EQ, 0, 1, number), (_RETURN, 0, 0, refuse)]
    code += [(_JUMP_EQ, 0, 1, abi.clone3), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    code += [
        (_JUMP_EQ, 0, 4, abi.clone),
        (_LOAD, 0, 0, _ARGUMENTS),
        (_JUMP_SET, 0, 1, _NEW_NAMESPACES),
        (_RETURN, 0, 0, refuse),
        (_RETURN, 0, 0, _ALLOW),
        (_JUMP_EQ, 0, 4, abi.socket),
        (_LOAD, 0, 0, _ARGUMENTS),
        (_JUMP_EQ, 1, 0, _AF_UNIX),
        (_RETURN, 0, 0, _ERRNO | errno.EAFNOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
        (_JUMP_EQ, 0, 5, abi.ioctl),
        (_LOAD, 0, 0, _ARGUMENTS + 8),
        (_JUMP_EQ, 1, 0, _TIOCSTI),
        (_JUMP_EQ, 0, 1, _TIOCLINUX),
        (_RETURN, 0, 0, refuse),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)
