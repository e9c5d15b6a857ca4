"""MCP results in the wrappers that frameworks print: the text inside, and readings put back into place."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.foundation.compactors.analyzers.describe import describe_content
from memory_context.foundation.compactors.analyzers.wrapper import unwrapped
from memory_context.foundation.compactors.compactor import Analysis, Hint, Result
from memory_context.foundation.compactors.compose import Reading, composed
from memory_context.foundation.compactors.registry import Compactors
from memory_context.foundation.text.landmarks import Passage
from memory_context.foundation.tokens import default_token_counter

from .sound import spoiled

TEXT = "first line\nsaid \"x\" and 'y' \\ back\ttab é 😀 end\n"
FLAGS = {None: "", True: ', "isError": true', False: ', "isError": false'}


def contents_repr(text: str, flag: bool = False) -> str:
    return f"meta=None content=[TextContent(type='text', text={text!r}, annotations=None)] isError={flag}"


def as_result(text: str, flag: bool | None = None, ascii_only: bool = True) -> str:
    item = json.dumps({"type": "text", "text": text}, ensure_ascii=ascii_only)
    return f'{{"content": [{item}]{FLAGS[flag]}}}'


def as_call_result(text: str) -> str:
    return f"CallToolResult(meta=None, content=[TextContent(type='text', text={text!r})], isError=True)"


WRAPPERS = {
    "repr": contents_repr,
    "call result": as_call_result,
    "JSON": as_result,
    "JSON, unescaped": lambda text: as_result(text, ascii_only=False),
    "indented JSON": lambda text: json.dumps({"_meta": None, "content": [{"type": "text", "text": text}]}, indent=2),
    "one text": lambda text: json.dumps({"type": "text", "text": text, "annotations": None, "_meta": {"a": 1}}),
    "one text alone": lambda text: json.dumps({"text": text, "type": "text"}, indent=1),
    "repr of one text": lambda text: str({"type": "text", "text": text}),
    "list": lambda text: json.dumps([{"type": "text", "text": text, "annotations": None, "meta": None}]),
    "list, text first": lambda text: json.dumps([{"text": text, "type": "text"}]),
    "repr of a list": lambda text: repr([{"type": "text", "text": text}]),
    "JSON-RPC": lambda text: '{"jsonrpc": "2.0", "id": 1, "result": ' + as_result(text) + "}",
    "event": lambda text: 'event: message\ndata: {"jsonrpc": "2.0", "id": 1, "result": ' + as_result(text) + "}",
    "JSON in repr": lambda text: contents_repr(as_result(text)),
    "JSON in a string": lambda text: json.dumps(as_result(text)),
    "three deep": lambda text: json.dumps([{"type": "text", "text": contents_repr(as_result(text))}]),
}
SAMPLES = [wrap(TEXT * 3) for wrap in WRAPPERS.values()]


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
@pytest.mark.parametrize("text", [TEXT, "x", '{"a": "b\\n"}', "it's", 'say "hi"', "lone \ud800 and \x00 and \r\n"])
def test_text_inside_a_wrapper_is_exact(wrap: "type[str]", text: str) -> None:
    assert unwrapped(wrap(text)).text == text


def test_several_texts_are_joined_and_images_skipped() -> None:
    items = [{"type": "text", "text": "one"}, {"type": "image", "data": "QUJD" * 99}, {"type": "text", "text": "two"}]
    assert unwrapped(json.dumps({"content": items})).text == "one\ntwo"
    image = "ImageContent(type='image', data='QUJD', mimeType='image/png')"
    texts = "TextContent(type='text', text='one'), {}, TextContent(type='text', text=\"two's\")"
    assert unwrapped(f"meta=None content=[{texts.format(image)}] isError=False").text == "one\ntwo's"


def test_structured_content_does_not_repeat_the_text() -> None:
    item = {"type": "text", "text": '{"n": 1}'}
    content = json.dumps({"content": [item], "structuredContent": {"items": [item]}, "isError": False})
    assert unwrapped(content).text == '{"n": 1}'


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_wrapper_that_was_cut_off_gives_its_remaining_text(wrap: "type[str]") -> None:
    whole = wrap("word " * 1000)
    inner = unwrapped(whole[: len(whole) // 2]).text
    assert inner.startswith("word word")
    assert len(inner) > 2000


def test_long_escaped_strings_are_unwrapped_and_plain_ones_left() -> None:
    long = "line of words\n" * 30
    assert unwrapped(json.dumps(long)).text == long
    assert unwrapped(repr(long)).text == long
    assert unwrapped(repr([long, "end"])).text == f"{long}\nend"
    assert not unwrapped('"Hello," he said. "Goodbye."').is_wrapped
    assert not unwrapped('["a", "b"]').is_wrapped


@pytest.mark.parametrize(
    "content",
    [
        "",
        "words",
        '{"type": "text"}',
        '{"type": "text", "text": "a note", "children": [1]}',
        '{"type": "text", "text": "one"} {"type": "text", "text": "two"}',
        '{"type": "post", "text": "a note"}',
        '{"content": "abc"}',
        '{"content": [{"type": "thing"}]}',
        '[{"text": "a tweet", "id": 1}]',
        "[1, 2]",
    ],
)
def test_similar_data_is_not_unwrapped(content: str) -> None:
    assert not unwrapped(content).is_wrapped


@pytest.mark.parametrize(
    ("content", "flag"),
    [
        (contents_repr("x", True), True),
        (contents_repr("x", False), False),
        (as_result("x", True), True),
        (as_result("x", False), False),
        (as_result("x"), None),
        ('{"isError": true, "content": [{"type": "text", "text": "x"}]}', True),
        (contents_repr(as_result("x", True), False), True),
        (as_result("the flag is isError=True"), None),
        ("isError=False and so on, in words", None),
    ],
)
def test_error_flag_is_that_of_a_wrapper_not_of_its_text(content: str, flag: bool | None) -> None:
    assert unwrapped(content).has_failed is flag


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_outside_passages_hold_the_same_text(wrap: "type[str]") -> None:
    text = TEXT * 5 + "the needle\n" + TEXT

    content = wrap(text)
    start = text.index("the needle")
    needle, hay = unwrapped(content).outside([Passage(start, start + 10), Passage(0, start)])
    assert content[needle.start : needle.end] == "the needle"
    assert content[hay.start : hay.start + 10] == "first line"
    assert hay.end == content.index("the needle")


def test_error_flag_decides_unless_the_text_reports_a_failure() -> None:
    failed, unsure = Analysis("log", has_failed=True), Analysis("log")
    for flag, read, expected in [
        (False, failed, "failed"),
        (False, unsure, "succeeded"),
        (True, unsure, "failed"),
        (None, unsure, "succeeded"),
    ]:
        compacted = composed(Reading(Result(as_result("x", flag), "tool"), read), Hint())
        assert compacted.status == f"tool {expected}."


def test_records_inside_two_wrappers_are_read() -> None:
    rows = [{"id": f"r-{n}", "title": "a\n'b'"} for n in range(5)]
    content = contents_repr(as_result(json.dumps(rows)))
    compacted = Compactors(analyzers=[describe_content]).compact(Result(content, "tool"), Hint())
    assert "JSON, 5 records: id, title" in compacted.description


def test_definitions_inside_a_wrapper_are_labelled_in_the_original() -> None:
    """What an excerpt leaves out is named by what is defined there, where that stands in the content as it came."""
    code = "".join(f"def f_{n}(x):\n    return '{n}'\n" for n in range(400))
    content = as_result(code)
    compacted = Compactors().compact(Result(content, "tool"), Hint(excerpt_limit_tokens=300))
    passage, name = compacted.labels[3]
    assert name == "def f_3(x)"
    assert content[passage.start : passage.end].startswith("def f_3(x)")
    assert compacted.excerpt


@pytest.mark.parametrize(
    "content",
    [
        "[" * 300_000,
        '[{"type": "text", "text": "' + '\\"' * 300_000,
        "meta=None content=[TextContent(type='text', text='" + "\\'" * 300_000,
        '[{"type": "text", "text": "' + '"}, {"type": "text", "text": "' * 20_000,
        '"[\\"' * 100_000,
        "'" * 300_000,
        "meta=None content=[" + "TextContent(" * 50_000,
    ],
)
def test_hostile_wrappers_are_survived(content: str) -> None:
    unwrapped(content)


def test_texts_and_layers_are_bounded() -> None:
    content = json.dumps([{"type": "text", "text": "x"}] * 2000)
    inner = unwrapped(content).text
    assert inner.count("x") == 500
    deep = "core"
    for _ in range(8):
        deep = as_result(deep)
    assert unwrapped(unwrapped(deep).text).text == "core"


@given(spoiled(SAMPLES) | st.text())
def test_any_text_is_unwrapped_soundly(content: str) -> None:
    inner = unwrapped(content)
    length = len(inner.text)
    passages = [Passage(length * part // 9, length * (part + 1) // 9) for part in range(9)]
    outside = inner.outside(inner.split(passages))
    assert [one.start for one in outside] == sorted(one.start for one in outside)
    assert all(0 <= one.start <= one.end <= len(content) for one in outside)
    assert inner == unwrapped(content)


@given(st.text(), st.sampled_from(list(WRAPPERS)))
def test_any_text_survives_its_wrapper(text: str, wrapper: str) -> None:
    assert unwrapped(WRAPPERS[wrapper](text)).text in (text, unwrapped(text).text)


def test_single_mcp_text_is_described_named_and_excerpted_by_the_text_inside() -> None:
    """The passages stand in the content as it came, within the limit, and none shows what stands between two texts."""
    log = "".join(f"{n:02}:00 built target_{n}\n" for n in range(1, 60)) + "ValueError: disk full\n" + "line\n" * 2000
    content = json.dumps({"type": "text", "text": log, "annotations": None})
    hint = Hint(task="Which line says disk full?", excerpt_limit_tokens=500)
    compacted = Compactors(analyzers=[]).compact(Result(content, "build"), hint)
    assert compacted.description == "output of build, 2,060 lines"
    assert "target_16" in compacted.facts
    assert not {"annotations", "type"} & {*compacted.facts.split(", ")}
    shown = [content[one.start : one.end] for one in compacted.excerpt or ()]
    assert any("ValueError: disk full" in one for one in shown)
    assert default_token_counter().count("\n".join(shown)) <= 500
    image = {"type": "image", "data": "QUJD" * 9999, "mimeType": "image/png"}
    content = json.dumps([{"type": "text", "text": "a portrait"}, image, {"type": "text", "text": "by Vincent"}])
    compacted = Compactors().compact(Result(content, "museum"), hint)
    assert [content[one.start : one.end] for one in compacted.excerpt or ()] == ["a portrait", "by Vincent"]
