"""Lists of files and of hits in files: how many, where, of what sort."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.compaction.compactor import Result
from memory_context.compaction.readers.listing import read_listing
from memory_context.compaction.reading import Reading

from .sound import bash, read_soundly, spoiled

GREP = """\
shop/cart.py:12:    def total(self, tax):
shop/cart.py:40:        return self.total(0)
shop/cart.py:44:        print(self.total(1))
shop/main.py:3:print(cart.total(0.2))
tests/test_cart.py:9:    assert cart.total(0) == 3
tests/test_cart.py:19:    assert cart.total(1) == 6
"""
CONTEXT = (
    "shop/cart.py-11-\nshop/cart.py:12:    def total(self):\nshop/cart.py-13-        pass\n--\nshop/main.py:3:total()\n"
)
HEADING = "shop/cart.py\n12:    def total(self):\n40:        self.total(0)\n\nshop/main.py\n3:print(cart.total())\n"
TOOL = """\
Found 3 matches
/app/shop/cart.py:
  Line 12: def total(self):
  Line 40: self.total()

/app/main.py:
  Line 3: total()
"""
COUNTS = 'Found 5 matches for "total" in /app:\n/app/shop/cart.py (3 matches)\n/app/main.py (2 matches)\n'
ONE_FILE = "12:    def total(self, tax):\n40:        return self.total(0)\n44:        print(self.total(1))\n"
LS = """\
total 24
drwxr-xr-x 4 root root  4096 Jan  1 10:00 .
drwxr-xr-x 9 root root  4096 Jan  1 10:00 ..
-rw-r--r-- 1 root root  1200 Jan  1 10:00 README.md
-rw-r--r-- 1 root root   900 Jan  1  2023 setup.py
drwxr-xr-x 2 root root  4096 Jan  1 10:00 shop
lrwxrwxrwx 1 root root    12 Jan  1 10:00 latest -> releases/1.2
"""
LS_R = "/app:\nREADME.md  setup.py  shop\n\n/app/shop:\n__init__.py  cart.py\n\n/app/shop/data:\nprices.csv\n"
FIND = "./README.md\n./shop/__init__.py\n./shop/cart.py\n./shop/data/prices.csv\n./tests/test_cart.py\n"
TREE = """\
.
├── README.md
├── shop
│   ├── cart.py
│   └── data
│       └── prices.csv
└── tests
    └── test_cart.py

3 directories, 4 files
"""
MARKED = "[FILE] README.md\n[DIR] shop\n[FILE] setup.py\n[DIR] tests\n"
EDITOR = """\
Here's the files and directories up to 2 levels deep in /app, excluding hidden items:
/app
/app/setup.py
/app/shop
/app/shop/cart.py
"""
SAMPLES = [GREP, CONTEXT, HEADING, TOOL, COUNTS, ONE_FILE, LS, LS_R, FIND, TREE, MARKED, EDITOR]


def tool(content: str, name: str, **arguments: str) -> Result:
    return Result(content, name, json.dumps(arguments))


def read(result: Result) -> Reading:
    reading = read_soundly(read_listing, result)
    assert reading is not None
    return reading


@pytest.mark.parametrize(
    ("result", "total", "names"),
    [
        (bash(GREP, "grep -rn total ."), "6 hits in 3 files", ["shop/main.py", "tests/test_cart.py", "shop/cart.py"]),
        (bash(GREP, "cd /app && git grep -n total | head -50"), "6 hits in 3 files", ["shop/main.py"]),
        (bash(CONTEXT, "grep -rn -C1 total ."), "2 hits in 2 files", ["shop/cart.py", "shop/main.py"]),
        (bash(HEADING, "rg total"), "3 hits in 2 files", ["shop/main.py", "shop/cart.py"]),
        (tool(TOOL, "grep", pattern="total"), "3 hits in 2 files; the tool says: Found 3 matches", ["/app/main.py"]),
        (
            tool(COUNTS, "search_dir", search_term="total"),
            '5 hits in 2 files; the tool says: Found 5 matches for "total" in /app:',
            ["/app/main.py"],
        ),
        (bash(ONE_FILE, "grep -n total shop/cart.py"), "3 hits in 1 file", ["shop/cart.py"]),
        (
            bash("a.py:import os\na.py:import re\nb.py:import os\n", "grep -r import ."),
            "3 hits in 2 files",
            ["b.py", "a.py"],
        ),
        (Result(GREP, "lookup"), "6 hits in 3 files", ["shop/main.py"]),
    ],
)
def test_hits_are_counted_and_files_with_few_come_first(result: Result, total: str, names: list[str]) -> None:
    reading = read(result)
    assert reading.facts[0] == total
    assert list(reading.names[: len(names)]) == names


def test_hit_that_defines_is_a_fact_and_the_first_landmark() -> None:
    reading = read(bash(GREP, "grep -rn total ."))
    assert reading.facts[1] == "shop/cart.py:12 def total(self, tax):"
    first = reading.landmarks[0]
    assert GREP[first.start : first.end].startswith("shop/cart.py:12:")


def test_lines_of_hits_are_told() -> None:
    assert "shop/cart.py: 3 hits, lines 12, 40, 44" in read(bash(GREP, "grep -rn total .")).facts


def test_description_says_what_was_searched() -> None:
    assert read(bash(GREP, "grep -rn 'total' .")).description == "search results for total, 6 hits in 3 files"


@pytest.mark.parametrize(
    ("result", "count", "names"),
    [
        (bash(LS, "ls -la"), "4 entries, 1 of them folders", ["README.md", "setup.py", "shop", "latest"]),
        (bash(FIND, "find . -type f"), "5 entries", ["./README.md", "./shop/__init__.py", "./shop/cart.py"]),
        (bash(TREE, "tree"), "7 entries", ["README.md", "shop", "cart.py", "data", "prices.csv"]),
        (
            tool(MARKED, "list_directory", path="/app"),
            "4 entries, 2 of them folders",
            ["README.md", "shop", "setup.py"],
        ),
        (tool(EDITOR, "editor", command="view", path="/app"), "4 entries", ["/app", "/app/setup.py", "/app/shop"]),
        (bash(FIND, "rg --files | sort"), "5 entries", ["./README.md"]),
        (bash(FIND, "git ls-files"), "5 entries", ["./README.md"]),
    ],
)
def test_entries_are_counted_and_named(result: Result, count: str, names: list[str]) -> None:
    reading = read(result)
    assert reading.facts[0] == count
    assert list(reading.names[: len(names)]) == names


def test_entries_are_counted_by_folder_and_type() -> None:
    reading = read(bash(LS_R, "ls -R /app"))
    assert reading.facts[0] == "6 entries, 3 of them folders"
    assert reading.facts[1] == "by folder under /app: . (3), shop (3)"
    assert reading.facts[2] == "by type: .py 3, .md 1, .csv 1"
    assert [name for _, name in reading.labels] == ["/app", "/app/shop", "/app/shop/data"]


def test_listing_that_the_tool_cut_says_so() -> None:
    content = EDITOR + "/app/shop/ca<response clipped>"
    assert "the tool left out further entries" in read(tool(content, "editor", command="view", path="/app")).facts


@pytest.mark.parametrize(
    "result",
    [
        bash("", "grep -rn total ."),
        bash("grep: shop: No such file or directory", "grep total shop"),
        bash("2024-01-01 10:00:00 start\n2024-01-01 10:00:01 stop\n" * 9, "./run.sh"),
        bash("shop/cart.py:12: error: bad type\nshop/cart.py:19: error: bad type\nshop/a.py:1: note: x\n", "mypy ."),
        bash("src/a.c:12:5: error: bad\nsrc/a.c:14:5: warning: odd\nsrc/b.c:1:1: error: bad\n", "make"),
        Result("1. Cart\n2. Shop\n- one\n- two\n" * 10, "web_search", '{"query": "cart"}'),
        Result("A page about a/b testing.\nIt has lines.\n" * 10, "view_page"),
        Result("     1\tdef f():\n     2\t    return 1\n     3\t\n     4\tx = f()\n", "view", '{"path": "a.py"}'),
        Result('{"files": ["a.py", "b.py"]}', "list_files"),
    ],
    ids=range(9),
)
def test_other_content_is_left_alone(result: Result) -> None:
    assert read_listing(result) is None


@given(
    content=spoiled(SAMPLES) | st.text(max_size=300),
    command=st.sampled_from(["grep -rn x .", "ls -la", "ls -R", "find .", "tree", "rg x", ""]),
)
def test_spoiled_lists_are_read_soundly(content: str, command: str) -> None:
    read_soundly(read_listing, bash(content, command))
    read_soundly(read_listing, Result(content, "grep_search", '{"pattern": "x"}'))


@pytest.mark.parametrize("command", ["grep -rn x .", "ls -lR", "find .", "tree", "ls"])
@pytest.mark.parametrize(
    "content",
    [
        "a" * 1_000_000,
        "a:1:" * 250_000,
        "a/" * 500_000,
        "│   " * 250_000,
        "".join(f"d{n}/f.py:{n}:x\n" for n in range(60_000)),
        "".join(f"./d{n}/e{n}/f{n}.x{n}\n" for n in range(50_000)),
        "\x00\ud800/\n" * 200_000,
    ],
    ids=range(7),
)
def test_hostile_lists_cost_bounded_facts(content: str, command: str) -> None:
    reading = read_soundly(read_listing, bash(content, command))
    assert reading is None or len("".join(reading.facts)) <= 12 * 200


def test_counts_of_hits_are_added_up() -> None:
    reading = read(bash("shop/cart.py:12\nshop/main.py:3\nshop/empty.py:0\n", "grep -rc total shop"))
    assert reading.facts[0] == "15 hits in 2 files"
    assert reading.facts[1] == "shop/cart.py: 12 hits"


def test_search_that_shows_every_line_of_a_file_is_a_search() -> None:
    reading = read(bash("1:class A:\n2-    pass\n3:class B:\n4-    pass\n", "grep -n -C1 class shop.py"))
    assert reading.facts[0] == "2 hits in 1 file"


def test_folder_with_many_files_before_the_next_one_is_told() -> None:
    content = "app:\n" + "".join(f"m{n}.py\n" for n in range(40)) + "\napp/data:\nprices.csv\n"
    reading = read(bash(content, "ls -R app"))
    assert reading.facts[0] == "41 entries, 2 of them folders"
    assert not any("app:" in name for name in reading.names)


def test_folders_right_below_the_root_are_told_apart() -> None:
    reading = read(bash("/etc\n/etc/ssh\n/etc/xml\n/usr\n/usr/lib\n/opt\n", "find / -maxdepth 2"))
    assert any("etc (2)" in line and "usr (1)" in line for line in reading.facts)


def test_columns_and_dates_are_no_paths() -> None:
    table = "NAME  READY\n" + "".join(f"web-{n}  1/1  Running\n" for n in range(30))
    dates = "id,price,day\n" + "".join(f"{n},8{n}.5,2026-03-17\n" for n in range(30))
    assert read_soundly(read_listing, Result(table, "run")) is None
    assert read_soundly(read_listing, Result(dates, "run")) is None
