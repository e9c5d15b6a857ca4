"""Logs of commits: how many, the newest and the oldest, by whom."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_context.compaction.compactor import Result
from memory_context.compaction.readers.commits import read_commits

from .sound import bash, read_soundly, spoiled

LOG = "\n".join(
    f"commit {n:040x}\nAuthor: Ann{n % 2} <ann@example.org>\nDate:   2026-03-1{n}\n\n    Mend part {n}\n\n    Why.\n"
    f"\n shop/cart.py | {n} +\n 1 file changed\n"
    for n in range(3)
)
ONE_LINE = "* 1a2b3c4 (HEAD -> main, tag: v1) Newest\n* 2b3c4d5 Second\n| * 3c4d5e6 Oldest\n"


def test_newest_and_oldest_authors_and_files_are_told() -> None:
    reading = read_soundly(read_commits, bash(LOG, "git log --stat"))
    assert reading is not None
    assert reading.description.startswith("git log, 3 commits")
    assert reading.facts[:4] == [
        "newest: 000000000000 Mend part 0 (2026-03-10)",
        "oldest: 000000000000 Mend part 2 (2026-03-12)",
        "by: Ann0 (2), Ann1 (1)",
        "most changed: shop/cart.py (3)",
    ]
    assert [LOG[span.start :][:6] for span, _ in reading.labels] == ["commit"] * 3


def test_one_line_for_each_commit_is_read_with_and_without_a_graph() -> None:
    reading = read_soundly(read_commits, bash(ONE_LINE, "git log --oneline --graph"))
    assert reading is not None
    assert list(reading.facts) == ["newest: 1a2b3c4 Newest", "oldest: 3c4d5e6 Oldest", "2b3c4d5 Second"]
    assert list(reading.names) == ["1a2b3c4", "2b3c4d5", "3c4d5e6"]


@pytest.mark.parametrize("content", ["1a2b3c4 looks like one\n2b3c4d5 too\n", "commit to it\n"])
def test_what_is_no_log_is_left_alone(content: str) -> None:
    assert read_soundly(read_commits, Result(content, "notes")) is None


@settings(max_examples=60)
@given(st.one_of(st.text(), spoiled([LOG, ONE_LINE])))
def test_spoiled_logs_are_read_soundly(content: str) -> None:
    read_soundly(read_commits, bash(content, "git log"))


@pytest.mark.parametrize("content", ["commit abcdef0\n" * 70_000, "1a2b3c4 " + "x " * 500_000, "commit " + "a" * 10**6])
def test_hostile_logs_cost_bounded_facts(content: str) -> None:
    reading = read_soundly(read_commits, bash(content, "git log"))
    assert reading is None or len("".join(reading.facts)) <= 12 * 200
