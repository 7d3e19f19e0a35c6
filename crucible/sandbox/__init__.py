"""Running a stranger's commands: boxes with nothing of the host in them."""

from crucible.sandbox.box import HOME, BoxResult, run_in_box
from crucible.sandbox.compat import (
    DockerSandbox,
    GradeResult,
    Sandbox,
    SubprocessSandbox,
    command_grader,
)
from crucible.sandbox.files import Entry, check_path, materialize, tree_digest
from crucible.sandbox.policy import SandboxPolicy
from crucible.sandbox.probe import box_problem, require_box
from crucible.sandbox.session import run_in_session, session_state
from crucible.sandbox.workspace import Workspace

__all__ = [
    "HOME",
    "BoxResult",
    "DockerSandbox",
    "Entry",
    "GradeResult",
    "Sandbox",
    "SandboxPolicy",
    "SubprocessSandbox",
    "Workspace",
    "box_problem",
    "check_path",
    "command_grader",
    "materialize",
    "require_box",
    "run_in_box",
    "run_in_session",
    "session_state",
    "tree_digest",
]
