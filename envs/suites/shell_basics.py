"""``shell-basics``: tasks over files in a Linux shell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crucible.suites import Suite, SuiteWorld

__all__ = ["suite"]

SALES = "".join(
    f"{day},{shop},{amount}\n"
    for day, shop, amount in [
        ("day", "shop", "amount"),
        ("2024-03-01", "north", 120),
        ("2024-03-01", "south", 80),
        ("2024-03-02", "north", 95),
        ("2024-03-02", "south", 140),
        ("2024-03-03", "north", 60),
    ]
)
LOG = (
    "10:01 INFO start\n10:02 ERROR disk full\n10:03 INFO retry\n"
    "10:04 ERROR disk full\n10:05 WARN slow\n10:06 ERROR timeout\n"
)


def _world(
    name: str,
    task: str,
    *,
    files: Mapping[str, str],
    goal: Sequence[Mapping[str, Any]],
    oracle: Sequence[str],
    wrong: Sequence[str],
) -> SuiteWorld:
    kwargs = {"files": dict(files), "task": task, "goal": list(goal)}
    return SuiteWorld(name, "terminal", kwargs, lambda seed: oracle, lambda seed: wrong)


def _equals(path: str, text: str, *, weight: float = 1.0) -> dict[str, Any]:
    return {"check": "file_equals", "path": path, "text": text, "weight": weight}


suite = Suite(
    "shell-basics",
    "1",
    "files, text and small scripts in a Linux shell",
    (
        _world(
            "sort-unique",
            "Write the distinct lines of names.txt, sorted, to sorted.txt.",
            files={"names.txt": "eve\nbob\nana\nbob\ncarl\nana\n"},
            goal=[_equals("sorted.txt", "ana\nbob\ncarl\neve\n")],
            oracle=["sort -u names.txt > sorted.txt"],
            wrong=["sort names.txt > sorted.txt"],
        ),
        _world(
            "count-errors",
            "Write the number of ERROR lines of app.log to errors.txt, and the distinct error "
            "messages (what follows ERROR and a space), sorted, to messages.txt.",
            files={"app.log": LOG},
            goal=[_equals("errors.txt", "3\n"), _equals("messages.txt", "disk full\ntimeout\n")],
            oracle=[
                "head -n 3 app.log",
                "grep -c ERROR app.log > errors.txt",
                "grep ERROR app.log | sed 's/.*ERROR //' | sort -u > messages.txt",
            ],
            wrong=[
                "grep -c ERROR app.log > errors.txt",
                "grep ERROR app.log | sort -u > messages.txt",
            ],
        ),
        _world(
            "sum-by-shop",
            "sales.csv has the columns day, shop, amount and a heading. Write one line per shop, "
            "`shop total`, sorted by shop, to totals.txt, and the name of the shop with the "
            "highest total to best.txt.",
            files={"sales.csv": SALES},
            goal=[_equals("totals.txt", "north 275\nsouth 220\n"), _equals("best.txt", "north\n")],
            oracle=[
                "cat sales.csv",
                "tail -n +2 sales.csv | awk -F, '{t[$2]+=$3} END {for (s in t) print s, t[s]}'"
                " | sort > totals.txt",
                "sort -k2 -n totals.txt | tail -n 1 | cut -d' ' -f1 > best.txt",
            ],
            wrong=[
                "echo north > best.txt",
                "awk -F, '{t[$2]+=$3} END {for (s in t) print s, t[s]}' sales.csv > totals.txt",
            ],
        ),
        _world(
            "tidy-up",
            "Move every .txt file into text/ and every .csv file into tables/, and delete every "
            ".tmp file.",
            files={"a.txt": "a\n", "b.txt": "b\n", "c.csv": "1,2\n", "x.tmp": "", "y.tmp": ""},
            goal=[
                _equals("text/a.txt", "a\n"),
                _equals("text/b.txt", "b\n"),
                _equals("tables/c.csv", "1,2\n"),
                {"check": "file_absent", "path": "a.txt"},
                {"check": "file_absent", "path": "x.tmp"},
                {"check": "file_absent", "path": "y.tmp"},
            ],
            oracle=["mkdir text tables", "mv *.txt text/", "mv *.csv tables/", "rm *.tmp"],
            wrong=["mkdir text", "cp *.txt text/", "rm x.tmp"],
        ),
        _world(
            "write-a-script",
            "Write an executable script greet.sh that prints `Hello, NAME!` for its first "
            "argument, and `Hello, world!` without one.",
            files={"README": "Scripts start with #!/bin/bash here.\n"},
            goal=[
                {"check": "file_matches", "path": "greet.sh", "pattern": "^#!/bin/bash"},
                {
                    "check": "command_succeeds",
                    "name": "greets a name",
                    "command": "test \"$(./greet.sh Ada)\" = 'Hello, Ada!'",
                },
                {
                    "check": "command_succeeds",
                    "name": "greets the world",
                    "command": "test \"$(./greet.sh)\" = 'Hello, world!'",
                },
            ],
            oracle=[
                "cat README",
                "printf '%s\\n' '#!/bin/bash' 'echo \"Hello, ${1:-world}!\"' > greet.sh",
                "chmod +x greet.sh",
            ],
            wrong=[
                "printf '%s\\n' '#!/bin/bash' 'echo \"Hello, $1!\"' > greet.sh",
                "chmod +x greet.sh",
            ],
        ),
        _world(
            "rename-by-date",
            "Each file in photos/ begins with a line `taken YYYY-MM-DD`. Rename each to that date "
            "with the ending .jpg, in photos/, and list the new names, sorted, in index.txt.",
            files={
                "photos/IMG_1": "taken 2024-05-02\nx\n",
                "photos/IMG_2": "taken 2023-12-31\ny\n",
                "photos/IMG_3": "taken 2024-01-15\nz\n",
            },
            goal=[
                _equals("photos/2024-05-02.jpg", "taken 2024-05-02\nx\n"),
                _equals("photos/2023-12-31.jpg", "taken 2023-12-31\ny\n"),
                _equals("photos/2024-01-15.jpg", "taken 2024-01-15\nz\n"),
                {"check": "file_absent", "path": "photos/IMG_1"},
                _equals("index.txt", "2023-12-31.jpg\n2024-01-15.jpg\n2024-05-02.jpg\n"),
            ],
            oracle=[
                "ls photos && head -n 1 photos/*",
                'for f in photos/IMG_*; do d=$(head -n 1 "$f" | cut -d" " -f2); '
                'mv "$f" "photos/$d.jpg"; done',
                "ls photos > index.txt",
            ],
            wrong=[
                "mv photos/IMG_1 photos/2024-05-02.jpg",
                "mv photos/IMG_2 photos/2023-12-30.jpg",
            ],
        ),
        _world(
            "fix-config",
            "In app.ini change the port to 8080 and turn debug off, and leave every other line as "
            "it is. Keep the old file as app.ini.bak.",
            files={"app.ini": "[server]\nhost = localhost\nport = 80\ndebug = on\nworkers = 4\n"},
            goal=[
                _equals(
                    "app.ini",
                    "[server]\nhost = localhost\nport = 8080\ndebug = off\nworkers = 4\n",
                    weight=2.0,
                ),
                _equals(
                    "app.ini.bak",
                    "[server]\nhost = localhost\nport = 80\ndebug = on\nworkers = 4\n",
                ),
            ],
            oracle=[
                "cp app.ini app.ini.bak",
                "sed -i 's/^port = .*/port = 8080/; s/^debug = .*/debug = off/' app.ini",
            ],
            wrong=["cp app.ini app.ini.bak", "sed -i 's/80/8080/' app.ini"],
        ),
    ),
)
