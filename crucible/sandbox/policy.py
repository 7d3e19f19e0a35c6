"""The limits of a box. They come from the caller; a dataset can only lower them."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["SandboxPolicy"]

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SandboxPolicy:
    """What one command, and one workspace, may use at most.

    ``timeout_s`` is wall-clock time of a command; ``output_bytes`` applies to each of stdout and
    stderr; ``memory_bytes`` to the resident memory of all its processes together.
    """

    timeout_s: float = 10.0
    cpu_s: int = 10
    memory_bytes: int = 512 * MIB
    address_space_bytes: int = 1024 * MIB
    num_processes: int = 64
    num_files: int = 256
    file_bytes: int = 32 * MIB
    output_bytes: int = 256 * 1024
    workspace_bytes: int = 64 * MIB
    workspace_inodes: int = 20_000

    def as_prlimit(self) -> list[str]:
        """The options of ``prlimit`` for one process."""
        return [
            f"--nproc={self.num_processes}",
            f"--as={self.address_space_bytes}",
            f"--cpu={self.cpu_s}",
            f"--fsize={self.file_bytes}",
            f"--nofile={self.num_files}",
            "--core=0",
            "--memlock=0",
            "--msgqueue=0",
        ]

    def lowered(self, *, timeout_s: float | None = None) -> SandboxPolicy:
        """This policy with a shorter time-out, where the one that is asked for is shorter.

        What asks may be a dataset, so nothing it says can raise a limit.
        """
        if timeout_s is None or not 0 < timeout_s < self.timeout_s:
            return self
        return replace(self, timeout_s=float(timeout_s))
