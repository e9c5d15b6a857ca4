"""The summary of a content: what a person would look for in it, within a limit, and how to go on."""

import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context import AgentMemory, MemoryStore, MemoryTransform, TransformError
from memory_context.tokens import default_token_counter
from memory_context.tools import RetrieveMemoryTool
from memory_context.transforms import Cut, cut, summary

COUNTER = default_token_counter()
KEY = "log_k3f9x2"
_CALL = re.compile(r"retrieve_memory\((.*?)\)[;,]")

ARTICLE = """\
The return of the beavers

Beavers were hunted to extinction in Britain by the sixteenth century, for their fur and for an oil
that perfumers prized. Since 2009 they have been brought back, first to Scotland and then to Devon.

The dams that beavers build slow rivers down. Where beavers live, floods downstream are lower, and
the rivers carry less soil. A study of the river Otter found that beaver dams cut the peak flow of floods
by a third. Mr. Jones, who farms there, was doubtful at first. He likes tea.

Not everybody is pleased. Some farmers fear that beaver dams flood fields, and anglers that the dams
stop salmon. The government pays farmers who leave room for beavers beside rivers.
""" + "".join(f"\nOn day {day} of the walk nothing of note was seen by the party at all.\n" for day in range(1, 40))

MARKDOWN = (
    "# The guide\n\nHow to install and run the thing.\n\n"
    + "".join(
        f"## Step {name}\n\n" + f"Here the {name} of the thing is described, word by word, at some length.\n" * 8 + "\n"
        for name in ("download", "configuration", "first start", "upgrade")
    )
    + "```sh\n# no heading but a comment\nmake all\n```\n"
)

CODE = (
    '"""Where orders are kept."""\n\nimport os\n\n\nclass OrderBook:\n    """All orders of one day."""\n\n'
    "    def __init__(self, path):\n        self.path = path\n        self.orders = []\n\n"
    "    def add(self, order):\n        if order.total < 0:\n            raise ValueError('failed: negative')\n"
    + "        self.orders.append(order)\n        self.count = len(self.orders)\n" * 30
    + '\n\ndef load_orders(path):\n    """Return the orders in a file."""\n    return []\n'
)

LOG = "".join(
    f"2024-05-01 12:{number // 60:02}:{number % 60:02},123 INFO worker {number % 7}: handled request {number}\n"
    + ("2024-05-01 12:05:01,000 ERROR pool: no connection to db-7 after 30 s\n" if number in (300, 400) else "")
    for number in range(600)
)

PYTEST = (
    "===== test session starts =====\n"
    + "".join(f"tests/test_{name}.py ........ [{number:3}%]\n" for number, name in enumerate("abcdefghij" * 9))
    + "===== FAILURES =====\n"
    + "    def test_login():\n>       assert login() == 1\nE       AssertionError: assert 2 == 1\n"
    + "FAILED tests/test_a.py::test_login - AssertionError: assert 2 == 1\n===== 1 failed, 299 passed in 12.31s =====\n"
)

ORDERS = {
    "status": "ok",
    "total": 812,
    "items": [{"id": number, "name": f"n{number}", "tags": ["new"]} for number in range(812)],
    "next page": None,
}

CSV = "id,name,status,price\n" + "".join(
    f'{number},"name, {number}",{"failed" if number % 10 == 3 else "ok"},{number / 2}\n' for number in range(812)
)


def _summary(content: str, limit_tokens: int = 300, **options) -> Cut:
    return cut(content, MemoryTransform.summary(limit_tokens), key=KEY, counter=COUNTER, **options)


def _split(text: str) -> tuple[str, str]:
    shown, _, footer = text.rpartition("\n[summary: ")
    return shown, "[summary: " + footer


def _follow(content: str, footer: str) -> Cut:
    call = _CALL.search(footer)
    assert call is not None, footer
    params = eval(f"dict({call[1]})")
    assert params.pop("memory_key") == KEY
    return cut(content, MemoryTransform.of(params.pop("transform"), **params), key=KEY, counter=COUNTER)


def test_a_content_within_the_limit_is_given_whole():
    """There is nothing to choose."""
    assert _summary("two\nlines") == Cut("two\nlines", True, "all of")
    assert _summary("") == Cut("", True, "all of")


def test_an_article_is_told_by_its_title_and_its_central_sentences():
    """Sentences are whole, also across line ends; what the article repeats is not."""
    shown = _summary(ARTICLE, 200)
    body, footer = _split(shown.text)
    assert not shown.is_whole
    assert shown.label == "summary of"
    assert body.startswith("1: The return of the beavers\n")
    assert "A study of the river Otter found that beaver dams cut the peak flow of floods by a third." in body
    assert "He likes tea." not in body
    assert body.count("of the walk nothing of note") <= 2
    assert re.match(r"\[summary: \d+ passages from \d+ lines \([\d,]+ tokens in all\)\. Around line \d+: ", footer)


def test_markdown_is_told_by_its_headings():
    """Not by the comments in its code."""
    body, _ = _split(_summary(MARKDOWN, 60).text)
    headings = [line.partition(": ")[2] for line in body.split("\n") if ": #" in line]
    steps = [f"## Step {name}" for name in ("download", "configuration", "first start", "upgrade")]
    assert headings == ["# The guide", *steps]


def test_source_code_is_told_by_its_definitions_and_docstrings():
    """In their order and with their lines; what raises an error reports none."""
    body, footer = _split(_summary(CODE, 120).text)
    for expected in (
        '1: """Where orders are kept."""',
        "6: class OrderBook:",
        '7:     """All orders of one day."""',
        "13:     def add(self, order):",
        "def load_orders(path):",
    ):
        assert expected in body
    assert "raise ValueError" not in body
    numbers = [int(line.partition(":")[0]) for line in body.split("\n")]
    assert numbers == sorted(numbers)
    assert footer.startswith(f"[summary: {len(numbers)} of {CODE.count(chr(10))} lines (")


def test_source_code_with_line_numbers_is_source_code():
    """As tools that read files give it."""
    numbered = "".join(f"{number:6}\t{line}\n" for number, line in enumerate(CODE.split("\n"), 1))
    body, _ = _split(_summary(numbered, 150).text)
    assert "6\tclass OrderBook:" in body
    assert "def load_orders(path):" in body


def test_a_log_is_told_by_its_errors_and_how_often_lines_come():
    """Lines that differ in their numbers only are one; the footer leads to the error."""
    body, footer = _split(_summary(LOG).text)
    assert "ERROR pool: no connection to db-7 after 30 s (and 1 more like it)" in body
    assert "INFO worker 0: handled request 0 (and 599 more like it)" in body
    assert "Around line 302" in footer
    assert "302" not in body.partition("ERROR")[2]
    assert "ERROR pool" in _follow(LOG, footer).text


def test_the_output_of_a_test_run_is_told_by_failures_and_totals():
    """Whatever the limit."""
    for limit in (100, 300):
        body, _ = _split(_summary(PYTEST, limit).text)
        assert "FAILED tests/test_a.py::test_login - AssertionError: assert 2 == 1" in body
        assert "===== 1 failed, 299 passed in 12.31s =====" in body


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_document_is_told_by_its_keys_and_counts(indent):
    """In one line or in many; the footer's path opens a part."""
    content = json.dumps(ORDERS, indent=indent)
    body, footer = _split(_summary(content).text)
    assert body.split("\n")[:5] == [
        "$: object, 4 keys: status, total, items, next page",
        '$.status: "ok"',
        "$.total: 812",
        "$.items: list, 812 objects with id, name, tags",
        "$.items[0]: object, 3 keys: id, name, tags",
    ]
    assert '$["next page"]: null' in body
    assert footer.startswith("[summary: what is in a JSON document of ")
    assert _follow(content, footer).text.startswith('$.items[0]: {"id":0,"name":"n0"')


def test_a_table_is_told_by_its_columns_and_counts():
    """Quoted delimiters included; a log whose lines have a comma is none."""
    body, footer = _split(_summary(CSV).text)
    assert body.split("\n") == [
        "table: 812 rows, 4 columns: id, name, status, price",
        "column id: numbers from 0 to 811",
        "column name: 812 different, such as name, 0",
        "column status: ok (731), failed (81)",
        "column price: numbers from 0.0 to 405.5",
        "first row: 0,name, 0,ok,0.0",
        "last row: 811,name, 811,ok,405.5",
    ]
    assert _follow(CSV, footer).text.startswith("id,name,status,price\n0,")
    assert "table" not in _summary(LOG).text


def test_one_long_line_is_told_by_passages_that_can_be_opened():
    """With the characters where they are."""
    content = " ".join(ARTICLE.split("\n"))
    body, footer = _split(_summary(content, 200).text)
    for row in body.split("\n"):
        match = re.match(r"line 1, chars (\d+)-(\d+): (.*)$", row)
        assert match is not None
        assert content[int(match[1]) - 1 : int(match[2])] == match[3]
    assert "beaver dams cut the peak flow" in body
    assert "start_char=" in footer
    assert _follow(content, footer).label.startswith("characters ")


def test_a_list_of_search_results_is_told_by_its_titles():
    """They are links, not headings."""
    content = "".join(
        f"{number}. [All about {name}](https://example.org/{name})\n"
        + f"Words on {name}, and more words. " * 9
        + "\n\n"
        for number, name in enumerate(("beavers", "otters", "voles", "herons"), 1)
    )
    body, _ = _split(_summary(content, 200).text)
    assert re.findall(r"\[All about (\w+)\]", body) == ["beavers", "otters", "voles", "herons"]


def test_the_same_content_gives_the_same_summary():
    """Byte for byte."""
    for content in (ARTICLE, CODE, LOG, CSV):
        assert _summary(content).text == _summary(content).text


def test_a_content_too_long_to_be_looked_at_whole_says_so(monkeypatch: pytest.MonkeyPatch):
    """And its end can still be searched."""
    monkeypatch.setattr(summary, "SUMMARIZED_CHARACTERS", 5_000)
    body, footer = _split(_summary(LOG).text)
    seen = LOG.rfind("\n", 0, 5_000) + 1
    assert f"; looked at the first {seen:,} of {len(LOG):,} characters." in footer
    assert "ERROR" not in body


def test_many_units_are_thinned_out_but_keep_what_plays_a_role(monkeypatch: pytest.MonkeyPatch):
    """So that the work stays bounded."""
    monkeypatch.setattr(summary, "_RANKED_UNITS", 5)
    words = [f"{first}{second}" for first in "abcdefghijkl" for second in "mnopqrstuvwxyz"]
    content = "\n".join([*(f"{word} {word}{word} some" for word in words), "ERROR: disk full", "the last"])
    assert "ERROR: disk full" in _summary(content).text


@pytest.mark.parametrize(
    ("limit_tokens", "message"),
    [
        (49, 'summary needs limit_tokens between 50 and 4000, not 49; send for example transform="summary"'),
        (4001, "summary needs limit_tokens between 50 and 4000, not 4001"),
        ("300", "summary needs limit_tokens as int, not '300'"),
    ],
)
def test_a_wrong_limit_is_answered_with_the_right_one(limit_tokens, message):
    """In a sentence a model can act on."""
    with pytest.raises(TransformError, match=re.escape(message)):
        MemoryTransform.of("summary", limit_tokens=limit_tokens)
    with pytest.raises(TransformError, match=re.escape("summary takes limit_tokens, not 'n'")):
        MemoryTransform.of("summary", n=3)


def test_the_limit_of_the_answer_holds_with_the_footer():
    """As a tool's answer must; a limit without room for the footer is refused."""
    for content in (ARTICLE, CODE, LOG, PYTEST, CSV, json.dumps(ORDERS)):
        for limit in (150, 200, 500):
            assert COUNTER.count(_summary(content, 4000, answer_limit_tokens=limit).text) <= limit
        with pytest.raises(ValueError, match="has no room for the footer"):
            _summary(content, answer_limit_tokens=20)


_ATOMS = [
    *(
        "a",
        "word ",
        "Foo. Bar ",
        "foo_bar",
        "\n",
        "\n\n",
        "\r\n",
        " ",
        "\t",
        "é",
        "字。",
        "😀",
        "\x00",
        "\ud800",
        "\u2028",
    ),
    *(
        "# ",
        "## x\n",
        "def f(x):\n",
        "class A:\n",
        '"""',
        "```\n",
        "ERROR: no\n",
        "12 failed",
        "1,2\n",
        "a,b\n",
        "=====\n",
    ),
    *("{", "}", "[", "]", '"k": 1,', "2024-01-01 12:00:00 ", "x" * 450, "9" * 90, "of the ", "- ", "İ", "١٢ ", "\x1c"),
]


@given(
    st.lists(st.sampled_from(_ATOMS), max_size=150).map("".join) | st.text(st.characters(exclude_categories=())),
    st.integers(50, 400),
    st.none() | st.integers(160, 400),
    st.integers(1, 8),
)
def test_any_content_has_a_summary_within_the_limit_whose_call_works(content, limit, answer_limit, times):
    """Never an error."""
    content *= times
    shown = _summary(content, limit, answer_limit_tokens=answer_limit)
    assert COUNTER.count(shown.text) <= (answer_limit or 10_000)
    if shown.is_whole:
        assert shown.text == content
        return
    body, footer = _split(shown.text) if "\n[summary: " in shown.text else ("", shown.text)
    assert COUNTER.count(body) <= limit
    assert _follow(content, footer).text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
        lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=20), inner, max_size=9),
        max_leaves=60,
    ),
    st.booleans(),
)
def test_any_json_document_has_a_summary_within_the_limit_whose_call_works(document, is_ascii):
    """Names of any kind included."""
    content = json.dumps([document], ensure_ascii=is_ascii) + " \n" * 200 + "\n" * 300
    shown = _summary(content, 50)
    if not shown.is_whole:
        body, footer = _split(shown.text)
        assert COUNTER.count(body) <= 50
        assert _follow(content, footer).text


@pytest.mark.parametrize(
    "content",
    [
        "\n" * 1_000_000,
        " " * 1_000_000,
        "a" * 1_000_000,
        "word and word. " * 70_000,
        ". " * 500_000,
        "[" * 1_000_000,
        "\x00\ud800" * 500_000,
        "".join(f"def f{number}(self):\n    return {number}\n" for number in range(30_000)),
        "".join(f"ERROR: {hex(number)} failed\n" for number in range(40_000)),
        'a,b\n"' + "," * 1_000_000,
    ],
    ids=lambda content: repr(content[:12]),
)
def test_summary_of_a_megabyte_takes_linear_time(content):
    """Processor time of this thread, which other programs do not lengthen; quadratic work would take minutes."""
    started = time.thread_time()
    shown = _summary(content, token_count=300_000)
    assert time.thread_time() - started < 8
    assert COUNTER.count(_split("\n" + shown.text)[0]) <= 300


async def test_an_agent_reads_the_summary_of_what_is_stored(store: MemoryStore):
    """The stored content stays whole."""
    memory = AgentMemory(store, "alice")
    ref = await memory.store(LOG, source="run shell")
    item = await memory.retrieve(ref.key, MemoryTransform.summary(limit_tokens=100))
    assert item is not None
    assert not item.is_whole
    assert item.label == "summary of"
    assert "ERROR pool: no connection" in item.content
    assert f'retrieve_memory(memory_key="{ref.key}", transform="excerpt", start_line=292, end_line=312)' in item.content
    assert f"({ref.token_count:,} tokens in all)" in item.content
    whole = await memory.retrieve(ref.key)
    assert whole is not None
    assert whole.content == LOG


def test_the_tool_offers_the_summary():
    """With the parameter the transform takes."""
    args = RetrieveMemoryTool.args_model.model_validate({"memory_key": KEY, "transform": "summary", "limit_tokens": 80})
    params = args.model_dump(exclude={"memory_key", "transform"}, exclude_none=True)
    assert MemoryTransform.of("summary", **params) == MemoryTransform.summary(80)
