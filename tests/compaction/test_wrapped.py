"""MCP results in the wrappers that frameworks print: the text inside, and readings put back into place."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_context.compaction.compactor import Result
from memory_context.compaction.excerpt import Passage
from memory_context.compaction.readers.records import read_json
from memory_context.compaction.readers.wrapped import read_wrapped, unwrap
from memory_context.compaction.reading import Reading

from .sound import read_soundly, spoiled

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
def test_the_text_inside_comes_out_exactly(wrap: "type[str]", text: str) -> None:
    assert unwrap(wrap(text)) == text


def test_several_texts_are_joined_and_images_passed_over() -> None:
    items = [{"type": "text", "text": "one"}, {"type": "image", "data": "QUJD" * 99}, {"type": "text", "text": "two"}]
    assert unwrap(json.dumps({"content": items})) == "one\ntwo"
    image = "ImageContent(type='image', data='QUJD', mimeType='image/png')"
    texts = "TextContent(type='text', text='one'), {}, TextContent(type='text', text=\"two's\")"
    assert unwrap(f"meta=None content=[{texts.format(image)}] isError=False") == "one\ntwo's"


def test_structured_content_does_not_repeat_the_text() -> None:
    item = {"type": "text", "text": '{"n": 1}'}
    content = json.dumps({"content": [item], "structuredContent": {"items": [item]}, "isError": False})
    assert unwrap(content) == '{"n": 1}'


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_a_wrapper_that_was_cut_off_gives_what_is_there(wrap: "type[str]") -> None:
    whole = wrap("word " * 1000)
    inner = unwrap(whole[: len(whole) // 2])
    assert inner is not None
    assert inner.startswith("word word")
    assert len(inner) > 2000


def test_long_escaped_strings_are_unwrapped_and_plain_ones_left() -> None:
    long = "line of words\n" * 30
    assert unwrap(json.dumps(long)) == long
    assert unwrap(repr(long)) == long
    assert unwrap(repr([long, "end"])) == f"{long}\nend"
    assert unwrap('"Hello," he said. "Goodbye."') is None
    assert unwrap('["a", "b"]') is None


@pytest.mark.parametrize(
    "content",
    ["", "words", '{"content": "abc"}', '{"content": [{"type": "thing"}]}', '[{"text": "a tweet", "id": 1}]', "[1, 2]"],
)
def test_data_that_only_looks_similar_is_left_alone(content: str) -> None:
    assert unwrap(content) is None


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
def test_the_error_flag_is_that_of_a_wrapper(content: str, flag: bool | None) -> None:
    reading = read_wrapped(Result(content, "tool"), lambda inner: Reading("anything"))
    assert (reading.has_failed if reading else None) is flag


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_passages_are_put_where_the_same_text_stands(wrap: "type[str]") -> None:
    text = TEXT * 5 + "the needle\n" + TEXT

    def find_needle(result: Result) -> Reading | None:
        start = result.content.index("the needle")
        return Reading("text", landmarks=[Passage(start, start + 10)], labels=[(Passage(0, start), "hay")])

    content = wrap(text)
    reading = read_wrapped(Result(content, "tool"), find_needle)
    assert reading is not None
    assert content[reading.landmarks[0].start : reading.landmarks[0].end] == "the needle"
    hay = reading.labels[0][0]
    assert content[hay.start : hay.start + 10] == "first line"
    assert hay.end == content.index("the needle")


def test_the_flag_decides_unless_the_text_reports_a_failure() -> None:
    def failed(result: Result) -> Reading | None:
        return Reading("log", has_failed=True)

    def unsure(result: Result) -> Reading | None:
        return Reading("log")

    for flag, read, expected in [
        (False, failed, True),
        (False, unsure, False),
        (True, unsure, True),
        (None, unsure, None),
    ]:
        reading = read_wrapped(Result(as_result("x", flag), "tool"), read)
        assert reading is not None
        assert reading.has_failed is expected


def test_nothing_is_read_without_a_wrapper_or_a_reader_that_knows() -> None:
    assert read_wrapped(Result("words", "tool"), lambda _: Reading("x")) is None
    assert read_wrapped(Result(as_result("words"), "tool"), lambda _: None) is None


def test_records_inside_two_wrappers_are_labelled_in_the_original() -> None:
    rows = [{"id": f"r-{n}", "title": "a\n'b'"} for n in range(5)]
    content = contents_repr(as_result(json.dumps(rows)))
    reading = read_soundly(lambda result: read_wrapped(result, read_json), Result(content, "tool"))
    assert reading is not None
    assert "r-3" in reading.names
    passage, name = reading.labels[3]
    assert name == "r-3"
    assert "r-3" in content[passage.start : passage.end]
    assert "r-2" not in content[passage.start : passage.end]


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
    unwrap(content)


def test_only_so_many_texts_and_layers_are_unwrapped() -> None:
    content = json.dumps([{"type": "text", "text": "x"}] * 2000)
    inner = unwrap(content)
    assert inner is not None
    assert inner.count("x") == 500
    deep = "core"
    for _ in range(8):
        deep = as_result(deep)
    left = unwrap(deep)
    assert left is not None
    assert unwrap(left) == "core"


@settings(deadline=None)
@given(spoiled(SAMPLES) | st.text())
def test_any_text_is_unwrapped_soundly(content: str) -> None:
    def everywhere(result: Result) -> Reading | None:
        length = len(result.content)
        passages = [Passage(length * part // 9, length * (part + 1) // 9) for part in range(9)]
        return Reading("text", landmarks=passages, labels=[(passage, "part") for passage in passages])

    read_soundly(lambda result: read_wrapped(result, everywhere), Result(content, "tool"))


@settings(deadline=None)
@given(st.text(), st.sampled_from(list(WRAPPERS)))
def test_any_text_survives_its_wrapper(text: str, wrapper: str) -> None:
    assert unwrap(WRAPPERS[wrapper](text)) in (text, unwrap(text))
