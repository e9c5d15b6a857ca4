"""Web pages and search results: title, sections, links, forms, hits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_context.compaction.compactor import Result
from memory_context.compaction.readers import markup
from memory_context.compaction.readers.page import read_page
from memory_context.compaction.reading import Reading

from .sound import read_soundly, spoiled

GUIDE = """\
Title: A guide to heat pumps

URL Source: https://energy.example.org/guide

Published Time: 2024-05-01

Markdown Content:
[Home](https://energy.example.org/) [Blog](https://energy.example.org/blog) [Home](https://energy.example.org/)

We use cookies to make this site work better for you and for everyone else in the whole wide world, please accept them.

# A guide to heat pumps

A heat pump takes warmth out of the air and brings it into the house, with a third of the power of a heater.

## Costs

A pump for a house costs 14,000 euro, and a [grant](https://energy.example.org/grants/2024/pumps.html) pays a third.

Noise
-----

Modern pumps are quiet: at a distance of three metres most are no louder than a refrigerator in the next room is.
"""
HITS = """\
Found 3 results for 'heat pumps':

1. [Heat pump](https://wiki.example.org/Heat_pump_(device))

A heat pump is ...

2. [Prices of pumps](https://prices.example.com/pumps?sort=1)

Compare ...

3. [Forum](https://forum.example.net/t/42)
"""
TITLED_HITS = """\
Title: Heat pump
URL: https://wiki.example.org/Heat_pump
Description: A heat pump is

Title: Prices
URL: https://prices.example.com/pumps
Description: Compare

Title: Forum
URL: https://forum.example.net/t/42
"""
INDENTED_HITS = """\
1. Heat pump – an introduction
   ID: 11
   URL: https://wiki.example.org/Heat_pump
   Points: 3

2. Prices
   ID: 12
   URL: https://prices.example.com/pumps

3. Forum
   ID: 13
   URL: https://forum.example.net/t/42
"""
HTML = """\
<!DOCTYPE html><html><head><title>Sign in &amp; go</title><meta name="description" content="Members only">
<script>var a = "<h1>no heading</h1>";</script></head><body><!-- <h1>none either</h1> -->
<nav><a href="/">Home</a><p>Here is the navigation with many words that nobody wants to read first.</p></nav>
<h1>Welcome</h1><p>This is the main text of the page, which is long enough to be shown as a paragraph of its own.</p>
<form action="/login" method="post"><input name="email" type="email"><input type="hidden" name="csrf" value="t0k3n">
<button>Sign in</button></form><table><tr><td>1</td></tr></table><a href="/help/account/reset.html">Forgot?</a>
</body></html>
"""
SAMPLES = [GUIDE, HITS, TITLED_HITS, INDENTED_HITS, HTML]


def read(content: str) -> Reading:
    reading = read_soundly(read_page, Result(content, "fetch"))
    assert reading is not None
    return reading


def shown(content: str, reading: Reading) -> list[str]:
    return [content[passage.start : passage.end] for passage in reading.landmarks]


def test_a_page_tells_title_address_and_sections() -> None:
    reading = read(GUIDE)
    assert reading.description.startswith("page A guide to heat pumps, 3 headings, 4 links")
    assert reading.facts[0] == "title: A guide to heat pumps https://energy.example.org/guide"
    assert "sections: A guide to heat pumps; Costs; Noise" in reading.facts
    assert [name for _, name in reading.labels] == ["A guide to heat pumps", "Costs", "Noise"]


def test_specific_links_come_before_navigation() -> None:
    assert list(read(GUIDE).names[:2]) == [
        "https://energy.example.org/guide",
        "https://energy.example.org/grants/2024/pumps.html",
    ]
    assert read(GUIDE).names[-1] == "https://energy.example.org/"


def test_main_text_is_shown_before_cookie_banners() -> None:
    passages = shown(GUIDE, read(GUIDE))
    assert passages[0] == "# A guide to heat pumps"
    assert passages[1].startswith("A heat pump takes warmth")
    assert passages[-1].startswith("We use cookies")


@pytest.mark.parametrize("content", [HITS, TITLED_HITS, INDENTED_HITS])
def test_search_results_are_told_hit_by_hit(content: str) -> None:
    reading = read(content)
    assert reading.description.startswith("3 search results")
    assert any(line.startswith("Heat pump") and "https://wiki.example.org/Heat_pump" in line for line in reading.facts)
    assert [name.split()[0] for _, name in reading.labels] == ["Heat", "Prices", "Forum"]
    assert reading.names[1].startswith("https://prices.example.com/pumps")
    assert all(name in content for name in reading.names)


def test_an_address_with_brackets_stays_whole() -> None:
    assert read(HITS).names[0] == "https://wiki.example.org/Heat_pump_(device)"


def test_html_tells_title_forms_links_and_tables() -> None:
    reading = read(HTML)
    assert reading.description.startswith("HTML page Sign in & go")
    assert "Members only" in reading.facts
    assert "form POST /login: email (email) csrf (hidden)=t0k3n Sign in (button)" in reading.facts
    assert "tables: 1" in reading.facts
    assert "sections: Welcome" in reading.facts
    assert reading.names[0] == "/help/account/reset.html"
    assert not any("navigation" in text for text in shown(HTML, reading))


def test_html_may_be_introduced_by_its_tool() -> None:
    assert read(f"Here is the raw content:\nContents of https://a.example/:\n{HTML}").description.startswith(
        "HTML page"
    )


@pytest.mark.parametrize(
    "content",
    [
        "",
        "plain text only\nfoo",
        "# Title\nimport x\n\n# Other\ndef foo():\n    return 1\n\n\n# Third\nx = 2\n\n\ny = 3\n",
        "see https://a.example and https://b.example",
        "1. one\n2. two\n3. three\n",
        '{"url": "https://a.example"}',
    ],
)
def test_other_contents_are_left_to_other_readers(content: str) -> None:
    assert read_page(Result(content, "tool")) is None


@pytest.mark.parametrize(
    "content",
    [
        GUIDE + "[a" * 200_000,
        GUIDE + "[](" * 200_000,
        "<html></b>" + "<a " * 200_000,
        "<html></b>" + "<!--" * 200_000,
        "<html></b>" + "<script>" * 100_000,
        "<html></b>" + '<form action="' * 50_000,
        "1. ab\n" * 100_000,
        "a\n---\n" * 100_000,
        "#" * 500_000,
    ],
)
def test_hostile_pages_are_survived(content: str) -> None:
    read_soundly(read_page, Result(content, "tool"))


def test_of_an_html_bomb_only_some_tags_are_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    examined = 0
    take = markup._take  # pyright: ignore[reportPrivateUsage]

    def counting(*arguments: object) -> None:
        nonlocal examined
        examined += 1
        take(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(markup, "_take", counting)
    read_page(Result("<html></b>" + "<h1>" * 1_000_000, "fetch"))
    assert 0 < examined <= 10_001


@settings(deadline=None)
@given(spoiled(SAMPLES) | st.text() | st.text(alphabet="<>/ah1p=\"'![]() \n#-"))
def test_any_text_is_read_soundly(content: str) -> None:
    read_soundly(read_page, Result(content, "fetch"))
    read_soundly(read_page, Result("<html></p>" + content, "fetch"))


def test_comments_of_a_configuration_are_no_headings() -> None:
    block = "# What this is for\n# and how it is set\n# by those who know\n\nlevel = 3\n\n"
    assert read_soundly(read_page, Result(block * 20, "read_file")) is None
