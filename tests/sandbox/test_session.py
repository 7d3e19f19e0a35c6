from __future__ import annotations

from collections.abc import Iterator

import pytest
from boxes import needs_box

from crucible.sandbox import SandboxPolicy, Workspace, run_in_session, session_state

STATE = "/run/session/state"

pytestmark = [pytest.mark.box, needs_box]


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    """An empty workspace."""
    with Workspace(SandboxPolicy(timeout_s=5)) as made:
        yield made


def outputs(workspace: Workspace, *commands: str) -> list[str]:
    return [run_in_session(workspace, command).stdout.decode() for command in commands]


def test_folder_variables_and_functions_are_carried(workspace: Workspace) -> None:
    out = outputs(
        workspace,
        "mkdir -p a/b; cd a/b; x=1; export Y='two words'; z=(3 'f o'); declare -A m=([k]=v)",
        'pwd; echo "$x|$Y|${z[1]}|${m[k]}"; env | grep Y=; f() { echo "f $1 $x"; }',
        "f 7; cd; x=5; readonly r=9",
        "pwd; f 8; echo $r; unset x",
        'echo "[$x]"',
    )
    assert out[1:] == [
        "/home/agent/a/b\n1|two words|f o|v\nY=two words\n",
        "f 7 1\n",
        "/home/agent\nf 8 5\n9\n",
        "[]\n",
    ]


def test_values_of_any_kind_are_carried(workspace: Workspace) -> None:
    value = "a\nb\t'\"$(x)`\\ ü \x01"
    run_in_session(workspace, f"IFS=,; v={_quoted(value)}; e=; printf -v w '%s' \"$v\"")
    result = run_in_session(workspace, 'printf %s "$v"; printf "|%s|%s" "${e-unset}" "$IFS"')
    assert result.stdout.decode() == f"{value}||,"


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


def test_the_status_is_the_commands_own(workspace: Workspace) -> None:
    for command, status in [("true", 0), ("false", 1), ("exit 3", 3), ("kill -9 $$", -9)]:
        assert run_in_session(workspace, command).exit_code == status, command
    assert run_in_session(workspace, "x=1; exit 4").exit_code == 4
    assert outputs(workspace, "echo $x") == ["1\n"]


@pytest.mark.parametrize(
    "command",
    [
        "cat <<EOF\nx",
        "echo 'unbalanced",
        "exec true",
        "set -e; false",
        "exec >&-",
        "read x; cat",
        "trap '' EXIT; exit 1",
        "trap : DEBUG",
        "set -u; echo $nothing",
        "set -f -C",
        "printf() { echo own; }; cd() { :; }; declare() { :; }",
        "kill -9 $$",
        "( exit 5 )",
    ],
)
def test_no_command_breaks_the_session(workspace: Workspace, command: str) -> None:
    run_in_session(workspace, "kept=yes")
    assert run_in_session(workspace, command).stopped is None
    assert outputs(workspace, 'echo "$kept" > f; cat f') == ["yes\n"]


def test_nothing_of_the_machinery_shows(workspace: Workspace) -> None:
    names = outputs(workspace, "echo $# $0; compgen -v | grep ^__; declare -F; echo $LINENO")[0]
    assert names == "0 bash\n1\n"
    errors = run_in_session(workspace, "echo\nno-such-program").stderr
    assert errors == b"bash: line 2: no-such-program: command not found\n"


def test_a_command_may_be_longer_than_an_argument(workspace: Workspace) -> None:
    assert outputs(workspace, f"x={'a' * 300_000}; echo ${{#x}}") == ["300000\n"]


def test_the_state_is_read_without_following_anything(workspace: Workspace) -> None:
    assert session_state(workspace) == b""
    run_in_session(workspace, "x=1")
    assert b'declare -- x="1"' in session_state(workspace)
    run_in_session(workspace, f"rm {STATE}; ln -s /etc/passwd {STATE}; exec true")
    assert session_state(workspace) == b""
    run_in_session(workspace, f"rm -f {STATE}; mkfifo {STATE}; exec true")
    assert session_state(workspace) == b""


def test_two_sessions_leave_the_same_state(workspace: Workspace) -> None:
    commands = ["x=$RANDOM; y=$(date +%N); z=$SRANDOM; cd /tmp"]
    outputs(workspace, *commands)
    with Workspace(workspace.policy) as another:
        outputs(another, *commands)
        assert session_state(another) == session_state(workspace)
