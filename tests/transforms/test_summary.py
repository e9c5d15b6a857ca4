"""The summary of a content: what a person would look for in it, within a limit, and how to go on."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context import AgentMemory, MemoryStore, MemoryTransform, TransformError
from memory_context.foundation.tokens import default_token_counter
from memory_context.memory.transforms.slicing import Cut
from memory_context.memory.transforms.transform import cut
from memory_context.recall.tools.items import RetrieveMemoryTool
from tests.support.growth import assert_linear

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
    shown, _, footer = text.rpartition("\n[summary of ")
    return shown, "[summary of " + footer


def _follow(content: str, footer: str) -> Cut:
    call = _CALL.search(footer)
    assert call is not None, footer
    params = eval(f"dict({call[1]})")
    assert params.pop("memory_key") == KEY
    return cut(content, MemoryTransform.of(params.pop("transform", "full"), **params), key=KEY, counter=COUNTER)


def test_content_within_the_limit_is_given_whole():
    """There is nothing to choose."""
    assert _summary("two\nlines") == Cut("two\nlines", True, "all of")
    assert _summary("") == Cut("", True, "all of")


def test_summary_names_the_lines_it_leaves_out_and_opens_the_first_of_them():
    """Beginning and end are shown verbatim; the footer's call shows the lines behind the beginning."""
    body, footer = _split(_summary(ARTICLE).text)
    assert "The return of the beavers\n\nBeavers were hunted to extinction" in body
    gap = re.search(r"\[… lines (\d+)-(\d+) left out …\]", body)
    assert gap is not None
    opened = _follow(ARTICLE, footer)
    assert opened.label.startswith(f"lines {int(gap[1])}-")
    assert ARTICLE.split("\n")[int(gap[1]) - 1] in opened.text
    assert ARTICLE.rstrip().split("\n")[-1] in body
    assert re.match(r"\[summary of \d+ lines \([\d,]+ tokens in all\)\. Next: ", footer)


def test_summary_of_markdown_names_the_headings_it_leaves_out():
    """As labels of the gap, so that each can be asked for."""
    body, _ = _split(_summary(MARKDOWN).text)
    headings = ["# The guide", *(f"## Step {name}" for name in ("download", "configuration", "first start", "upgrade"))]
    assert all(heading in body for heading in headings)


def test_summary_of_source_code_names_what_it_defines():
    """Definitions beyond the passages are among the names."""
    for content in (CODE, "".join(f"{number:6}\t{line}\n" for number, line in enumerate(CODE.split("\n"), 1))):
        body, _ = _split(_summary(content, 150).text)
        assert "Where orders are kept" in body
        assert "OrderBook" in body
        assert "load_orders" in body


def test_summary_of_a_log_tells_its_only_error():
    """Wherever it stands."""
    content = LOG.replace("2024-05-01 12:05:01,000 ERROR pool: no connection to db-7 after 30 s\n", "", 1)
    body, _ = _split(_summary(content).text)
    assert "ERROR pool: no connection to db-7 after 30 s" in body


def test_summary_of_a_test_run_tells_failures_and_totals():
    """With the verdict in the description; whatever the limit."""
    for limit in (100, 300):
        body, _ = _split(_summary(PYTEST, limit).text)
        assert body.startswith("test log, 1 failed, 299 passed in 12.31s, 97 lines\n")
        assert "test_login" in body


@pytest.mark.parametrize("indent", [None, 2])
def test_summary_of_json_tells_records_and_fields(indent: int | None):
    """In one line or in many."""
    content = json.dumps(ORDERS, indent=indent)
    body, footer = _split(_summary(content).text)
    assert body.startswith("JSON, 812 records in items: id, name, tags\n")
    assert "status: ok; total: 812" in body
    assert _follow(content, footer).text


def test_summary_of_a_table_shows_its_header_and_both_ends():
    """Rows are whole lines."""
    body, _ = _split(_summary(CSV).text)
    assert 'id,name,status,price\n0,"name, 0",ok,0.0\n' in body
    assert body.endswith('811,"name, 811",ok,405.5')


def test_summary_of_one_long_line_opens_characters():
    """There are no lines to name."""
    content = " ".join(ARTICLE.split("\n"))
    body, footer = _split(_summary(content, 200).text)
    gap = re.search(r"\[… characters (\d+)-(\d+) left out …\]", body)
    assert gap is not None
    assert f"start_char={gap[1]}," in footer
    assert _follow(content, footer).label.startswith(f"characters {gap[1]}-")


def test_summary_shows_escaped_text_inside_a_wrapper_verbatim():
    """As a compactor does: passages are those of the content, so that the footer's offsets fit."""
    content = json.dumps([{"type": "text", "text": LOG}])
    body, footer = _split(_summary(content, 400).text)
    assert "ERROR pool: no connection to db-7 after 30 s" in body
    assert _follow(content, footer).text


def test_credentials_stay_in_a_summary_as_in_every_other_transform():
    """The reader can open the content whole."""
    content = "password=tulip-4711-garden\n" + LOG
    assert "tulip-4711-garden" in _summary(content).text


def test_model_summary_is_shown_as_such():
    """Cut at a sentence if it is too long."""
    shown = _summary(LOG, 60, model_summary="The pool lost db-7. " * 30)
    body, footer = _split(shown.text)
    assert body.startswith("A model wrote this summary; ")
    assert body.endswith("The pool lost db-7.")
    assert _follow(LOG, footer).is_whole


def test_same_content_gives_the_same_summary():
    """Byte for byte."""
    for content in (ARTICLE, CODE, LOG, CSV):
        assert _summary(content).text == _summary(content).text


@pytest.mark.parametrize(
    ("limit_tokens", "message"),
    [
        (49, 'summary needs limit_tokens between 50 and 4000, not 49; send for example transform="summary"'),
        (4001, "summary needs limit_tokens between 50 and 4000, not 4001"),
        ("300", "summary needs limit_tokens as int, not '300'"),
    ],
)
def test_wrong_limit_is_refused_with_the_right_one(limit_tokens, message):
    """In a sentence a model can act on."""
    with pytest.raises(TransformError, match=re.escape(message)):
        MemoryTransform.of("summary", limit_tokens=limit_tokens)
    with pytest.raises(TransformError, match=re.escape("summary takes limit_tokens, not 'n'")):
        MemoryTransform.of("summary", n=3)


def test_summary_and_footer_respect_the_limit_of_the_answer():
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
def test_summary_of_any_content_respects_the_limit_and_its_call_works(content, limit, answer_limit, times):
    """Never an error."""
    content *= times
    shown = _summary(content, limit, answer_limit_tokens=answer_limit)
    assert COUNTER.count(shown.text) <= (answer_limit or 10_000)
    if shown.is_whole:
        assert shown.text == content
        return
    body, footer = _split(shown.text) if "\n[summary of " in shown.text else ("", shown.text)
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
def test_summary_of_any_json_respects_the_limit_and_its_call_works(document, is_ascii):
    """Names of any kind included."""
    content = json.dumps([document], ensure_ascii=is_ascii) + " \n" * 200 + "\n" * 300
    shown = _summary(content, 50)
    if not shown.is_whole:
        body, footer = _split(shown.text)
        assert COUNTER.count(body) <= 50
        assert _follow(content, footer).text


@pytest.mark.parametrize(
    ("beginning", "unit"),
    [
        ("", "\n"),
        ("", " "),
        ("", "a"),
        ("", "word and word. "),
        ("", ". "),
        ("", "["),
        ("", "\x00\ud800"),
        ("", "".join(f"def f{number}(self):\n    return {number}\n" for number in range(600))),
        ("", "".join(f"ERROR: {hex(number)} failed\n" for number in range(900))),
        ('a,b\n"', ","),
    ],
    ids=lambda text: repr(text[:12]),
)
def test_summary_takes_linear_time_and_respects_the_limit(beginning: str, unit: str):
    assert_linear(lambda text: _summary(beginning + text, token_count=300_000), unit, characters=10_000)
    shown = _summary(beginning + unit * (100_000 // len(unit)), token_count=300_000)
    assert COUNTER.count(_split("\n" + shown.text)[0]) <= 300


async def test_agent_reads_the_summary_of_a_stored_item(store: MemoryStore):
    """The stored content stays whole."""
    memory = AgentMemory(store, "alice")
    ref = await memory.store(LOG, source="run shell")
    item = await memory.retrieve(ref.key, MemoryTransform.summary(limit_tokens=100))
    assert item is not None
    assert not item.is_whole
    assert item.label == "summary of"
    assert "ERROR pool: no connection" in item.content
    assert f'retrieve_memory(memory_key="{ref.key}", start_line=1, end_line=50)' in item.content
    assert f"({ref.token_count:,} tokens in all)" in item.content
    whole = await memory.retrieve(ref.key)
    assert whole is not None
    assert whole.content == LOG


def test_tool_offers_the_summary():
    """With the parameter the transform takes."""
    args = RetrieveMemoryTool.args_model.model_validate({"memory_key": KEY, "transform": "summary", "limit_tokens": 80})
    params = args.model_dump(exclude={"memory_key", "transform"}, exclude_none=True)
    assert MemoryTransform.of("summary", **params) == MemoryTransform.summary(80)
