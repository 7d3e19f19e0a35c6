"""Commands whose output would differ from run to run on a host, and does not in a box.

What is not pinned, and so not in the table: monotonic clocks and what measures with them, the
release of the kernel, ``/proc/self`` and mountinfo, races of parallel processes, ``mktemp`` (the C
library asks the kernel for randomness itself), and programs that are linked statically.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time

import pytest
from boxes import needs_box, ordinary_user

from crucible.sandbox import BoxResult, Workspace, run_in_box, run_in_session
from crucible.sandbox.pin import find_pin
from crucible.sandbox.runtime import find_runtime

pytestmark = [pytest.mark.box, needs_box]

LONG = os.environ.get("CRUCIBLE_TEST_LONG") == "1"
PYTHON = str(find_runtime().python) if find_pin() else "python3"


def python(code: str) -> str:
    return shlex.join([PYTHON, "-c", code])


ALWAYS = {
    "04 df": "df -h . | tail -1; du -sk .",
    "08 set order and hash": python("print({'a', 'b', 'c'}, hash('x'))"),
    "13 processes": "ps -eo pid,ppid,comm",
    "14 process ids": "echo $$ $PPID $BASHPID; sleep 0 & echo $!",
    "15 who and where": "hostname; whoami; id; pwd; env | sort; nproc",
    "17 uptime and load": "cat /proc/uptime /proc/loadavg /proc/meminfo /proc/cpuinfo /proc/stat",
    "18 boot id": "cat /proc/sys/kernel/random/boot_id /proc/sys/kernel/random/uuid",
    "19 traceback": python("import json; json.loads(chr(123))") + "; no-such-program; cat none",
    "24 columns and order": "touch b A a B; ls; printf 'b\\nA\\na\\n' | sort",
    "25 listing": "touch z y x; ls -U | sort",
    "29 urandom": "head -c 16 /dev/urandom | od -An -tx1; head -c 16 /dev/random | od -An -tx1",
    "33 random uuid": "cat /proc/sys/kernel/random/uuid",
    "07 addresses": python("print(object(), id(object()))"),
}
PINNED = {
    "01 ls -la": "echo x > f; mkdir d; ls -la --time-style=full-iso",
    "03 stat": "echo x > f; stat -c '%x %y %z' f .; find . -newermt 2024-01-02",
    "05 date": "date; date +%s.%N; " + python("import time; print(time.time(), time.ctime())"),
    "10 randomness": python(
        "import uuid, os, random, secrets, tempfile; print(uuid.uuid4(), os.urandom(8), "
        "random.random(), secrets.token_hex(4), tempfile.mkdtemp())"
    ),
    "11 shell randomness": "echo $RANDOM $SRANDOM $EPOCHSECONDS $EPOCHREALTIME",
    "12 shuf and awk": "seq 9 | shuf | tr '\\n' ' '; awk 'BEGIN { srand(); print rand() }'",
    "22 archives": "mkdir d; echo > d/f; tar c d | md5sum; tar cz d | md5sum; gzip -c d/f | md5sum",
    "22 zip": "echo x > f; "
    + python("import zipfile; zipfile.ZipFile('z', 'w').write('f')")
    + "; md5sum z",
    "23 git": "git init -q . 2>&1; echo x > f; git add f; git -c user.name=a -c user.email=b@c "
    "commit -qm m; git log --format=%H%n%cd",
    "26 new file": "touch new; stat -c %y new",
    "27 parent": "stat -c %y .",
    "28 logging": python(
        "import logging, email.utils; logging.basicConfig(format='%(asctime)s %(process)d')\n"
        "logging.warning(1); print(email.utils.formatdate())"
    ),
}
COMMANDS = ALWAYS | (PINNED if find_pin() else {})


def run_once(script: str) -> BoxResult:
    with Workspace() as workspace:
        return run_in_box(workspace, ["bash", "-c", script])


@pytest.fixture(scope="module")
def runs() -> list[dict[str, BoxResult]]:
    """Every command in fresh workspaces, in rounds that are more than a second apart."""
    rounds = []
    for number in range(6 if LONG else 2):
        if number:
            time.sleep(1.1)
        rounds.append({name: run_once(script) for name, script in COMMANDS.items()})
    return rounds


@pytest.mark.xdist_group("determinism")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_the_same_in_every_run(runs: list[dict[str, BoxResult]], name: str) -> None:
    first = runs[0][name]
    assert first.stdout or first.stderr, first
    assert all(found[name] == first for found in runs)


def test_a_compiler_pins_the_clock() -> None:
    if find_pin() is None:
        pytest.skip("there is no C compiler here: clock and randomness are not pinned")
    assert run_once("date -u +%Y-%m-%dT%H:%M:%S").stdout == b"2024-01-01T00:00:00\n"


def test_every_command_of_a_session_is_a_second_later() -> None:
    if find_pin() is None:
        pytest.skip("there is no C compiler here: clock and randomness are not pinned")
    with Workspace() as workspace:
        times = [run_in_session(workspace, "date +%S; touch f$RANDOM").stdout for _ in range(3)]
        assert times == [b"00\n", b"01\n", b"02\n"]
        listed = run_in_session(workspace, "ls -l --time-style=+%S f* | cut -d' ' -f6").stdout
    assert sorted(listed.split()) == [b"01", b"02", b"03"]


@pytest.mark.parametrize(
    "code",
    [
        "import time; time.sleep(0.05)",
        "import threading; threading.Event().wait(0.05)",
        "import subprocess; subprocess.run(['sleep', '0.05'], timeout=5)",
        "import queue; q = queue.Queue()\ntry: q.get(timeout=0.05)\nexcept queue.Empty: pass",
        "import asyncio; asyncio.run(asyncio.wait_for(asyncio.sleep(0.05), 5))",
        "import time; end = time.time() + 0.05\nwhile time.time() < end: pass",
    ],
)
def test_waiting_works_under_a_pinned_clock(code: str) -> None:
    with Workspace() as workspace:
        result = run_in_box(workspace, [PYTHON, "-c", code])
    assert result == BoxResult(0, b"", b""), result


@pytest.mark.skipif(not LONG, reason="set CRUCIBLE_TEST_LONG=1 to compare with another user")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")
def test_root_and_an_ordinary_user_see_the_same(runs: list[dict[str, BoxResult]]) -> None:
    shells = {name: script for name, script in COMMANDS.items() if PYTHON not in script}
    code = """
import json, sys
from crucible.sandbox import Workspace, run_in_box
for name, script in json.loads(sys.argv[1]).items():
    with Workspace() as workspace:
        print(json.dumps([name, run_in_box(workspace, ["bash", "-c", script]).stdout.hex()]))
"""
    with ordinary_user() as (command, environment):
        done = subprocess.run(
            [*command, "-c", code, json.dumps(shells)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    found = dict(json.loads(line) for line in done.stdout.splitlines())
    assert len(found) == len(shells)
    for name in shells:
        assert bytes.fromhex(found[name]) == runs[0][name].stdout, name
