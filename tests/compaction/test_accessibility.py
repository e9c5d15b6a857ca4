"""Accessibility trees: what can be clicked and filled, by its reference."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_context.compaction.compactor import Result
from memory_context.compaction.readers.accessibility import read_accessibility
from memory_context.compaction.reading import Reading

from .sound import read_soundly, spoiled

PLAYWRIGHT = """\
### Page state
- Page URL: https://shop.example.org/cart
- Page Title: Cart
- Page Snapshot:
```yaml
- banner [ref=e2]:
  - link "Home" [ref=e3] [cursor=pointer]:
    - /url: /
- main [ref=e10]:
  - heading "Your cart" [level=1] [ref=e11]
  - alert [ref=e12]: Coupon expired
  - textbox "Coupon code" [ref=e13]: SAVE10
  - checkbox "Gift wrap" [checked] [ref=e14]
  - button "Apply" [ref=e15]
  - button "Check out" [disabled] [ref=e16]
  - list:
    - listitem: Tea
    - listitem: Cup
```
"""
NUMBERED = """\
Tab 0 (current): Shop

[1] RootWebArea 'Shop' focused: True
\t[42] link 'Home'
\t[43] textbox 'Search' required: False value: tea
\t[44] button 'Go'
\t[45] StaticText 'and more'
\t[46] heading 'Results'
"""
DEVTOOLS = """\
uid=1_0 RootWebArea "Shop"
  uid=1_1 link "Home"
  uid=1_2 textbox "Search" value="tea"
  uid=1_3 button "Go"
  uid=1_4 heading "Results" level="1"
"""
INDEXED = """\
Current url: https://shop.example.org/
[0]<a href=/>Home</a>
[1]<input type=text placeholder='Search' value='tea'/>
[12]<button aria-label=Go>Go</button>
*[13]<a>Next</a>
some text
"""
SAMPLES = [PLAYWRIGHT, NUMBERED, DEVTOOLS, INDEXED]


def read(content: str) -> Reading:
    reading = read_soundly(read_accessibility, Result(content, "browser_snapshot"))
    assert reading is not None
    return reading


def test_a_snapshot_tells_page_alerts_inputs_and_buttons_with_their_references() -> None:
    reading = read(PLAYWRIGHT)
    assert reading.description.startswith("page snapshot Cart, 12 elements")
    assert list(reading.facts) == [
        "page: Cart https://shop.example.org/cart",
        "alert: Coupon expired",
        "inputs: Coupon code [e13] = 'SAVE10'; Gift wrap [e14] = 'checked'",
        "buttons: Apply [e15]; Check out [e16]",
        "headings: Your cart",
        "2 buttons, 1 banner, 1 link, 1 main, 1 heading",
    ]
    assert reading.names[1:4] == ["Coupon expired [e12]", "Coupon code [e13]", "Gift wrap [e14]"]
    assert reading.names[-1] == "Home [e3]"


@pytest.mark.parametrize(
    ("content", "search", "go", "home"),
    [(NUMBERED, "43", "44", "42"), (DEVTOOLS, "1_2", "1_3", "1_1"), (INDEXED, "1", "12", "0")],
)
def test_other_tools_trees_tell_the_same(content: str, search: str, go: str, home: str) -> None:
    reading = read(content)
    assert f"inputs: Search [{search}] = 'tea'" in reading.facts
    assert f"buttons: Go [{go}]" in reading.facts
    assert f"Home [{home}]" in reading.names


def test_controls_are_shown_first_and_areas_name_what_is_left_out() -> None:
    reading = read(PLAYWRIGHT)
    shown = [PLAYWRIGHT[passage.start : passage.end] for passage in reading.landmarks]
    assert shown[:2] == ["- alert [ref=e12]: Coupon expired", '- textbox "Coupon code" [ref=e13]: SAVE10']
    assert [name for _, name in reading.labels] == ["main", "heading Your cart"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "- foo: bar\n- item one\n- text: hello\n- link to x\n",
        "- name: a\n  value: 1\n- name: b\n  value: 2\n",
        "[12] some footnote\n[13] another\n[14] third\n[15] fourth\n",
        "# list\n\n- button\n- link\n- heading\n- list\n",
    ],
)
def test_other_contents_are_left_to_other_readers(content: str) -> None:
    assert read_accessibility(Result(content, "tool")) is None


@pytest.mark.parametrize(
    "content",
    [
        PLAYWRIGHT + '- link "' * 100_000,
        PLAYWRIGHT + '  - link "' + '\\"' * 300_000,
        PLAYWRIGHT + "\n- link " + "[ref=e1] " * 100_000,
        (" " * 1000 + "\n") * 1000,
        INDEXED + "[1]<a " * 100_000,
    ],
)
def test_hostile_trees_are_survived(content: str) -> None:
    read_soundly(read_accessibility, Result(content, "tool"))


def test_of_a_huge_tree_a_window_is_read() -> None:
    content = "- Page URL: https://x.example/\n" + "".join(f'- link "Item {n}" [ref=e{n}]\n' for n in range(100_000))
    reading = read(content)
    assert "+ elements" in reading.description
    assert max(passage.end for passage in reading.landmarks) <= 500_000


@settings(deadline=None)
@given(spoiled(SAMPLES) | st.text())
def test_any_text_is_read_soundly(content: str) -> None:
    read_soundly(read_accessibility, Result(content, "tool"))
