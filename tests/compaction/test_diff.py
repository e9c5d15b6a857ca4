"""Diffs: which files and functions change, and by how much."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.compaction.analyzers.diff import analyze_diff
from memory_context.compaction.compactor import Analysis, Result

from .sound import analyze_soundly, bash, spoiled

pytestmark = pytest.mark.thorough

CART = """\
diff --git a/shop/cart.py b/shop/cart.py
index 1111111..2222222 100644
--- a/shop/cart.py
+++ b/shop/cart.py
@@ -10,6 +10,7 @@ class Cart:
     def total(self):
         amount = 0
-        for item in self.items:
+        for item in self.sorted():
+            self.check(item)
             amount += item.price
         return amount

@@ -40,4 +41,3 @@ def tax(amount):
     rate = 0.2
--- an old note
     if amount < 0:
         return 0
"""
OTHERS = """\
diff --git a/docs/new.md b/docs/new.md
new file mode 100644
index 0000000..3333333
--- /dev/null
+++ b/docs/new.md
@@ -0,0 +1,2 @@
+# New
+text
diff --git a/old.txt b/old.txt
deleted file mode 100644
index 4444444..0000000
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/logo.png b/logo.png
index 5555555..6666666 100644
Binary files a/logo.png and b/logo.png differ
"""
SHOW = "commit 0123456789abcdef0123\nAuthor: A <a@b.c>\nDate:   Mon Jan 1\n\n    Sort the cart\n\n" + CART
PLAIN = "--- cart.c\t2024-01-01\n+++ cart.c\t2024-01-02\n@@ -1,2 +1,2 @@\n-int a;\n+int b;\n int c;\n"
SAMPLES = [CART + OTHERS, SHOW, PLAIN]


def read(content: str, command: str = "git diff") -> Analysis:
    analysis = analyze_soundly(analyze_diff, bash(content, command))
    assert analysis is not None
    return analysis


def test_files_are_counted_with_their_changed_lines() -> None:
    analysis = read(CART + OTHERS)
    assert analysis.facts == [
        "4 files changed, 4 lines added, 3 removed",
        "shop/cart.py +2 -2 in Cart, tax",
        "docs/new.md new +2 -0",
        "old.txt deleted +0 -1",
        "logo.png binary +0 -0",
    ]
    assert analysis.names == ["shop/cart.py", "docs/new.md", "old.txt", "logo.png", "Cart", "tax"]


def test_changed_line_that_looks_like_a_header_is_counted_as_a_line() -> None:
    """`-- an old note` was removed: its line begins with `--- `."""
    assert "shop/cart.py +2 -2 in Cart, tax" in read(CART).facts


def test_plain_diff_is_read() -> None:
    analysis = read(PLAIN, "diff -u old/cart.c cart.c")
    assert analysis.facts[1] == "cart.c +1 -1"
    assert analysis.description == "diff of cart.c, 1 file, +1 -1, 6 lines"


def test_diff_that_was_cut_short_is_read_as_far_as_it_goes() -> None:
    assert read(CART[:300]).names[0] == "shop/cart.py"


@pytest.mark.parametrize(
    ("content", "arguments"),
    [
        ("", {"command": "git diff"}),
        ("On branch main\nnothing to commit\n", {"command": "git status"}),
        ('TEXT = """\n' + CART + '"""\n', {"path": "tests/test_diff.py"}),
        ("A page about diffs.\n" * 400 + CART, {"url": "https://example.com"}),
        ("title: x\n---\nname: y\n+++ z\n", {"command": "cat a.yaml"}),
    ],
)
def test_other_content_is_left_alone(content: str, arguments: dict[str, str]) -> None:
    assert analyze_diff(Result(content, "tool", json.dumps(arguments))) is None


@given(content=spoiled(SAMPLES) | st.text(max_size=300))
def test_spoiled_diffs_are_read_soundly(content: str) -> None:
    analyze_soundly(analyze_diff, bash(content, "git diff"))


@pytest.mark.parametrize(
    "content",
    [
        "diff --git a/x b/x\n" * 50_000,
        CART + "@@ -1,999999999 +1,999999999 @@ f\n" + "+" * 1_000_000,
        CART + "@@ -1,9 +1,9 @@\n+a\n b\n" * 60_000,
        "diff --git a/" + "x b/" * 250_000,
    ],
    ids=range(4),
)
def test_hostile_diffs_cost_bounded_facts(content: str) -> None:
    analysis = read(content)
    assert len("".join(analysis.facts)) <= 12 * 200
