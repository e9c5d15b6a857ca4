import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.foundation.compactors.compactor import Hint, Result
from memory_context.foundation.compactors.registry import Compactors
from memory_context.foundation.errors import TransformError
from memory_context.foundation.tokens import default_token_counter
from memory_context.memory.transforms import filter as filtering
from memory_context.memory.transforms import jsonpath
from memory_context.memory.transforms.slicing import Cut
from memory_context.memory.transforms.transform import FULL, MemoryTransform, cut

COUNTER = default_token_counter()
LINES_500 = "".join(f"line {number} of the log\n" for number in range(1, 501))

_ATOMS = st.sampled_from(
    [
        "a",
        "bb",
        "foo",
        "Foo",
        "foofoo",
        "\n",
        "\n\n",
        "\r\n",
        " ",
        "é",
        "字",
        "😀",
        "\x00",
        "\ud800",
        "\u2028",
        "[",
        "]",
        "x" * 450,
    ]
)
_CONTENT = st.lists(_ATOMS, max_size=60).map("".join)
_CALL = re.compile(r"(?:Next|Before): retrieve_memory\((.*)\)\]$", re.DOTALL)


def _cut(content: str, transform: MemoryTransform, **options) -> Cut:
    return cut(content, transform, key="log_k3f9x2", counter=COUNTER, **options)


def _split(text: str) -> tuple[str, str]:
    shown, _, footer = text.rpartition("\n[")
    return shown, "[" + footer


def _next(footer: str) -> MemoryTransform | None:
    call = _CALL.search(footer)
    if not call:
        return None
    params = eval(f"dict({call[1]})")
    assert params.pop("memory_key") == "log_k3f9x2"
    return MemoryTransform.of(**{"name": params.pop("transform", "full"), **params})


def _read_on(content: str, transform: MemoryTransform, **options) -> str:
    parts: list[str] = []
    following: MemoryTransform | None = transform
    while following is not None:
        shown = _cut(content, following, **options)
        if shown.is_whole:
            return shown.text
        part, footer = _split(shown.text)
        parts.append(part)
        following = _next(footer)
    return "".join(parts)


@given(_CONTENT)
def test_full_is_the_exact_content(content):
    """Byte for byte, with no footer."""
    assert _cut(content, FULL) == Cut(content, True, "all of")


@given(_CONTENT.filter(bool), st.data())
def test_following_the_next_calls_reads_the_whole_content(content, data):
    """By lines or by characters, whatever the size of the steps."""
    count = content.count("\n") + (not content.endswith("\n"))
    by_lines = MemoryTransform.excerpt(start_line=1, end_line=data.draw(st.integers(1, count)))
    by_chars = MemoryTransform.excerpt(start_char=1, end_char=data.draw(st.integers(1, len(content))))
    first = MemoryTransform.first_n(data.draw(st.integers(1, 50)), data.draw(st.sampled_from(["lines", "tokens"])))
    for transform in (by_lines, by_chars, first):
        assert _read_on(content, transform) == content


@given(st.lists(_ATOMS, max_size=400).map("".join), st.integers(150, 400))
def test_following_the_next_calls_within_a_limit_reads_the_whole_content(content, limit):
    """No answer exceeds the limit, its footer included."""
    following: MemoryTransform | None = FULL
    parts: list[str] = []
    while following is not None:
        shown = _cut(content, following, answer_limit_tokens=limit)
        assert COUNTER.count(shown.text) <= limit
        part, footer = (shown.text, "") if shown.is_whole else _split(shown.text)
        parts.append(part)
        following = _next(footer)
    assert "".join(parts) == content


def test_footer_has_the_range_and_the_next_call():
    """The form that models read."""
    shown = _cut(LINES_500, MemoryTransform.first_n(50), token_count=2340)
    assert not shown.is_whole
    assert shown.label == "lines 1-50 of"
    assert _split(shown.text) == (
        "".join(LINES_500.splitlines(keepends=True)[:50]),
        '[lines 1-50 of 500 (2,340 tokens in all). Next: retrieve_memory(memory_key="log_k3f9x2", '
        "start_line=51, end_line=100)]",
    )


def test_footer_of_the_end_opens_the_part_before():
    """Reading backwards works the same way."""
    shown = _cut(LINES_500, MemoryTransform.last_n(2))
    part, footer = _split(shown.text)
    assert part == "line 499 of the log\nline 500 of the log\n"
    assert _next(footer) == MemoryTransform.excerpt(start_line=497, end_line=498)
    shown = _cut(LINES_500, MemoryTransform.last_n(100, "tokens"))
    assert _split(shown.text)[0].endswith("line 500 of the log\n")
    assert COUNTER.count(_split(shown.text)[0]) <= 100
    shown = _cut(LINES_500, MemoryTransform.last_n(400), answer_limit_tokens=300)
    assert COUNTER.count(shown.text) <= 300
    assert "line 500 of" in shown.text
    assert "line 102 of" not in shown.text


def test_a_range_partly_outside_is_clipped_and_one_outside_names_the_valid_range():
    """So that the next call of the model is right."""
    assert "[lines 490-500 of 500" in _cut(LINES_500, MemoryTransform.excerpt(start_line=490, end_line=900)).text
    assert "That is the end." in _cut(LINES_500, MemoryTransform.excerpt(start_line=490)).text
    with pytest.raises(TransformError, match="the content has 500 lines; send start_line between 1 and 500"):
        _cut(LINES_500, MemoryTransform.excerpt(start_line=501))
    with pytest.raises(TransformError, match="has 3 characters; send start_char between 1 and 3"):
        _cut("abc", MemoryTransform.excerpt(start_char=4))
    with pytest.raises(TransformError, match="the content is empty"):
        _cut("", MemoryTransform.excerpt(start_line=1))


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("fulll", {}, "there is no transform 'fulll'; send one of full, excerpt"),
        ("full", {"words": 3}, "full takes no parameters, not 'words'"),
        ("full", {"pattern": "a", "start_line": 3}, "not 'start_line'; send for example pattern="),
        (
            "excerpt",
            {"start_line": 1, "end_char": 9},
            "needs a range, either of lines or of characters; send for example",
        ),
        ("excerpt", {"start_line": 1, "start_char": 2}, "either of lines or of characters"),
        ("excerpt", {"start_line": 9, "end_line": 3}, "start_line=9 after end_line=3"),
        ("excerpt", {"start_line": 0}, "counts from 1"),
        ("excerpt", {"start_line": "5"}, "needs start_line as int, not '5'"),
        ("excerpt", {"lines": 5}, "takes start_line, end_line, start_char, end_char, not 'lines'"),
        ("first_n", {"n": 0}, "needs n of at least 1, not 0"),
        ("last_n", {"n": -1}, "needs n of at least 1, not -1"),
        ("first_n", {"n": 3, "unit": "words"}, "not 'words'"),
        ("filtered", {}, "needs either pattern or json_path"),
        ("filtered", {"pattern": "a", "json_path": "$"}, "needs either pattern or json_path"),
        ("filtered", {"json_path": "$", "ignore_case": True}, "with pattern only"),
        ("filtered", {"pattern": "a", "max_matches": 5000}, "max_matches between 1 and 1000, not 5000"),
        ("filtered", {"pattern": "a", "first_match": True}, "needs first_match as int, not True"),
    ],
)
def test_wrong_call_is_refused_with_a_right_one(name, params, message):
    """In a sentence a model can act on."""
    with pytest.raises(TransformError, match=re.escape(message)):
        MemoryTransform.of(name, **params)


@pytest.mark.parametrize(
    ("params", "implied"),
    [
        ({}, MemoryTransform.full()),
        ({"pattern": "a", "ignore_case": True}, MemoryTransform.filtered(pattern="a", ignore_case=True)),
        ({"json_path": "$.a", "start_line": None}, MemoryTransform.filtered(json_path="$.a")),
        ({"end_char": 9}, MemoryTransform.excerpt(end_char=9)),
        ({"n": 3}, MemoryTransform.first_n(3)),
        ({"limit_tokens": 90}, MemoryTransform.summary(90)),
    ],
)
def test_parameters_imply_their_transform(params: dict[str, Any], implied: MemoryTransform):
    """Models need not name it, and what they are told to call does not, either."""
    assert MemoryTransform.of(**params) == MemoryTransform.of("full", **params) == implied
    assert "transform" not in implied.call("log_k3f9x2")


@pytest.mark.parametrize("name", ["excerpt", "first_n", "last_n"])
def test_range_defaults_to_fifty_lines(name: str):
    """Models leave the arguments out: that is answered, with how to go on."""
    content = "\n".join(f"line {number}" for number in range(1, 201))
    shown = cut(content, MemoryTransform.of(name), key="k", counter=COUNTER)
    first = 151 if name == "last_n" else 1
    assert shown.text.startswith(f"line {first}\n")
    assert f"line {first + 49}\n" in shown.text
    assert f"line {first + 50}\n" not in shown.text
    assert not shown.is_whole


def test_parameters_that_are_none_count_as_not_sent():
    """Tools have all parameters, most of them None."""
    assert MemoryTransform.of("first_n", n=3, pattern=None, start_line=None) == MemoryTransform.first_n(3)


@given(
    content=st.text(alphabet=st.sampled_from("abX \n\r\x00\ud800字"), max_size=300)
    | st.text(alphabet="ab", min_size=400, max_size=900),
    word=st.sampled_from(["a", "ab", "X", "字", "\x00", "aba", "zz"]),
)
def test_filtered_finds_the_lines_that_a_plain_search_finds(content, word):
    """Shown as grep -n shows them; in long lines each occurrence."""
    lines = content.split("\n")
    expected = [n for n, line in enumerate(lines, 1) if word in line]
    transform = MemoryTransform.filtered(
        pattern=re.escape(word) if word != "\x00" else r"\x00", context_lines=0, max_matches=1000
    )
    shown = _cut(content, transform).text
    if not expected:
        assert shown.startswith("[no match of")
        return
    part, footer = _split(shown)
    found = {}
    for row in part.split("\n"):
        if row == "--":
            continue
        if long := re.match(r"line (\d+), chars (\d+)-(\d+): (.*)$", row, re.DOTALL):
            found[int(long[1])] = None
            excerpt = MemoryTransform.excerpt(start_char=int(long[2]), end_char=int(long[3]))
            around = _cut(content, excerpt)
            assert (around.text if around.is_whole else _split(around.text)[0]) == long[4].strip("…")
            assert word in long[4]
        else:
            number, _, text = row.partition(": ")
            found[int(number)] = text
    assert sorted(found) == expected
    assert all(text is None or text == lines[number - 1] for number, text in found.items())
    total = sum(line.count(word) if len(line) > 400 else 1 for line in lines if word in line)
    assert f"of {total:,} in" in footer


def test_context_lines_are_marked_and_merged():
    """As grep does it."""
    content = "\n".join("abcXdefghXXi")
    shown = _cut(content, MemoryTransform.filtered(pattern="X", context_lines=1, max_matches=2))
    part, footer = _split(shown.text)
    assert part == "3- c\n4: X\n5- d\n--\n9- h\n10: X\n11- X"
    assert shown.label == "matches of 'X' in"
    assert footer.startswith("[matches 1-2 of 3 in 12 lines (")
    following = _next(footer)
    assert following == MemoryTransform.filtered(pattern="X", context_lines=1, max_matches=2, first_match=3)
    assert _cut(content, following).text.endswith("That is the last.]")
    with pytest.raises(TransformError, match="there are 3 matches; send first_match between 1 and 3"):
        _cut(content, MemoryTransform.filtered(pattern="X", first_match=4))


def test_coloured_lines_match_and_show_as_plain_ones():
    """Unless the pattern asks for the codes, or positions in a long line are told, which are those of the content."""
    content = "\x1b[1m\x1b[31mFAILED\x1b[0m tests/\x1b[32ma.py\x1b[0m\n\x1b[2mok\x1b[0m"
    assert (
        _split(_cut(content, MemoryTransform.filtered(pattern="^FAILED tests/a")).text)[0]
        == "1: FAILED tests/a.py\n2- ok"
    )
    assert "\x1b[31mFAILED" in _cut(content, MemoryTransform.filtered(pattern=r"\x1b\[31m")).text
    long = f"{content}\n\x1b[32m{'x' * 500} needle\x1b[0m"
    found = re.search(r"chars (\d+)-(\d+): …(.*)$", _cut(long, MemoryTransform.filtered(pattern="needle")).text, re.M)
    assert long[int(found[1]) - 1 : int(found[2])] == found[3]


def test_matches_in_a_megabyte_on_one_line_are_shown_with_the_characters_around_them():
    """Not the whole line."""
    content = json.dumps([{"id": number, "name": f"näme {number}"} for number in range(30_000)], ensure_ascii=False)
    shown = _cut(content, MemoryTransform.filtered(pattern=r'"id": 1777\d,', context_chars=50))
    part, footer = _split(shown.text)
    rows = part.split("\n")
    assert "matches 1-10 of 10 in 1 lines" in footer
    assert len(part) < 2000
    first = re.match(r"line 1, chars (\d+)-(\d+): …(.*)…$", rows[0])
    assert content[int(first[1]) - 1 : int(first[2])] == first[3]
    assert '"id": 17770,' in first[3]


def test_matches_within_a_limit_continue_with_the_next_call():
    """No match is skipped and none shown twice."""
    numbers: list[str] = []
    following: MemoryTransform | None = MemoryTransform.filtered(
        pattern=r"line \d*7 ", context_lines=0, max_matches=100
    )
    while following is not None:
        shown = _cut(LINES_500, following, answer_limit_tokens=300)
        assert COUNTER.count(shown.text) <= 300
        part, footer = _split(shown.text)
        numbers += re.findall(r"^(\d+): ", part, re.MULTILINE)
        following = _next(footer)
    assert numbers == [str(number) for number in range(7, 501, 10)]


def test_a_match_larger_than_the_limit_is_cut():
    """The footer says so, and how to go on."""
    content = ("needle " + "9Z%q" * 90 + "\n") * 3
    shown = _cut(content, MemoryTransform.filtered(pattern="needle", context_lines=2), answer_limit_tokens=250)
    assert COUNTER.count(shown.text) <= 250
    assert "; match 1 is cut." in shown.text
    assert _next(_split(shown.text)[1]).first_match == 2


def test_answer_without_a_match_says_what_to_try():
    """Ignoring case, one line at a time, or a carriage return."""
    shown = _cut("Error: x\r\n", MemoryTransform.filtered(pattern="error"))
    assert "Ignoring case there are 1." in shown.text
    assert _next(shown.text) == MemoryTransform.filtered(pattern="error", ignore_case=True)
    assert "never across a line end" in _cut("a\nb", MemoryTransform.filtered(pattern=r"a\nb")).text
    assert r"\r?$" in _cut("a\r\n", MemoryTransform.filtered(pattern="a$")).text
    assert "1: a" in _cut("a\r\n", MemoryTransform.filtered(pattern=r"a\r?$")).text
    assert "[no match of 'z' in 500 lines (" in _cut(LINES_500, MemoryTransform.filtered(pattern="z")).text
    long = MemoryTransform.filtered(pattern="ERROR" * 150)
    assert COUNTER.count(_cut("error" * 150, long, answer_limit_tokens=400).text) <= 400


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(?=x)", "no look-around"),
        ("(?<!x)y", "no look-behind"),
        (r"(a)\1", "no back-references"),
        ("(?P<n>a)(?P=n)", "no back-references"),
        ("(?>a)", "no atomic groups"),
        (r"a\Z", r"use \z"),
        ("a(", "put a backslash before"),
        ("x{2000}", "repeat counts above 1000"),
        ("", "the pattern is empty"),
        ("x" * 1001, "at most 1,000"),
    ],
)
def test_unusable_pattern_is_refused_with_what_the_engine_lacks(pattern, message, capfd):
    """And prints nothing."""
    with pytest.raises(TransformError, match=re.escape(message)):
        _cut("abc", MemoryTransform.filtered(pattern=pattern))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(a*)*b", "(?:a?){200}a{200}b"])
@pytest.mark.thorough
def test_catastrophic_patterns_end_in_time(pattern):
    """A megabyte would take Python's re for ever."""
    assert _cut("a" * 1_000_000, MemoryTransform.filtered(pattern=pattern)).text


def test_a_search_that_takes_too_long_stops_and_says_so(monkeypatch):
    """Many matches that each look ahead to the end of a long line are quadratic in any engine."""
    monkeypatch.setattr(filtering, "_SEARCH_SECONDS", 0.2)
    shown = _cut("a" * 1_000_000, MemoryTransform.filtered(pattern="a(.*q)?", max_matches=3))
    assert "of at least " in shown.text
    with pytest.raises(TransformError, match="took longer than"):  # with and without colours, in the time of one search
        _cut(f"\x1b[31m{'a' * 1_000_000}", MemoryTransform.filtered(pattern="a(.*q)?", max_matches=3))
    with pytest.raises(TransformError, match="took longer than"):
        _cut("a" * 1_000_000, MemoryTransform.filtered(pattern="a(.*q)?", first_match=900_000))
    with pytest.raises(TransformError, match="too complex for a line"):
        _cut("a" * 30_000_000, MemoryTransform.filtered(pattern=r"(\pL{1,20}x){1,5}"))


def test_empty_matches_are_skipped():
    """They would match every line."""
    assert (
        _split(_cut("bxb\nb\nxx", MemoryTransform.filtered(pattern="x*", context_lines=0)).text)[0]
        == "1: bxb\n--\n3: xx"
    )
    assert _cut("abc", MemoryTransform.filtered(pattern="^|$")).text.startswith("[no match")


def test_a_json_path_gives_values_with_their_paths():
    """One a line, compact, capped, with the total."""
    content = json.dumps({"items": [{"id": n, "my-name": f"ü{n}"} for n in range(50)]})
    shown = _cut(content, MemoryTransform.filtered(json_path="$.items[*]['my-name']", max_matches=2))
    part, footer = _split(shown.text)
    assert part == '$.items[0]["my-name"]: "ü0"\n$.items[1]["my-name"]: "ü1"'
    assert footer.startswith("[values 1-2 of 50 in 1 lines (")
    assert _next(footer) == MemoryTransform.filtered(json_path="$.items[*]['my-name']", max_matches=2, first_match=3)
    shown = _cut(content, MemoryTransform.filtered(json_path="$.items[?@.id > 47]"))
    assert _split(shown.text)[0] == '$.items[48]: {"id":48,"my-name":"ü48"}\n$.items[49]: {"id":49,"my-name":"ü49"}'
    assert "[no value at '$.nothing' in" in _cut(content, MemoryTransform.filtered(json_path="$.nothing")).text


ORDERS = [{"id": f"ORD-{n}", "total": n} for n in range(40)]
INSIDE = json.dumps({"count": 40, "orders": ORDERS}, indent=1)


@pytest.mark.parametrize(
    "content",
    [
        json.dumps([{"type": "text", "text": INSIDE, "annotations": None}]),
        json.dumps({"content": [{"type": "text", "text": INSIDE}], "isError": False}),
        json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": INSIDE}]}}),
        json.dumps({"type": "text", "text": INSIDE}),
        f"meta=None content=[TextContent(type='text', text={INSIDE!r}, annotations=None)] isError=False",
        json.dumps(INSIDE),
        json.dumps([{"type": "text", "text": json.dumps([{"type": "text", "text": INSIDE}])}]),
        json.dumps({"result": INSIDE}),
        json.dumps({"output": INSIDE, "isError": False}),
        f"Response:\n```json\n{INSIDE}\n```",
    ],
    ids=["list", "result", "rpc", "item", "repr", "string", "twice", "field", "field and flag", "fence"],
)
def test_a_json_path_reads_the_inside_of_a_wrapper(content: str):
    """As the description does."""
    shown = _cut(content, MemoryTransform.filtered(json_path="$.orders[?@.id == 'ORD-17']"))
    assert _split(shown.text)[0] == '$.orders[17]: {"id":"ORD-17","total":17}'
    kept = Compactors().compact(Result(content, "list_orders"), Hint())
    assert "JSON, 40 records in orders: id, total" in kept.description


def test_a_json_path_of_the_wrapper_and_of_lines_is_read_too():
    wrapped = json.dumps([{"type": "text", "text": INSIDE}])
    assert _split(_cut(wrapped, MemoryTransform.filtered(json_path="$[0].type")).text)[0] == '$[0].type: "text"'
    assert "[no value at '$.nothing' in" in _cut(wrapped, MemoryTransform.filtered(json_path="$.nothing")).text
    lines = "\n".join(map(json.dumps, ORDERS))
    two = json.dumps([{"type": "text", "text": json.dumps(one)} for one in ORDERS])
    for content in (lines, two, str(ORDERS)):
        shown = _cut(content, MemoryTransform.filtered(json_path="$[17].id"))
        assert _split(shown.text)[0] == '$[17].id: "ORD-17"'


def test_regular_expressions_in_a_json_path_are_linear():
    """`match` and `search` run on RE2, `=~` is refused."""
    content = json.dumps([{"name": "a" * 100_000 + "!"}, {"name": "aaa"}])
    shown = _cut(content, MemoryTransform.filtered(json_path="$[?match(@.name, '(a+)+')]"))
    assert _split(shown.text)[0] == '$[1]: {"name":"aaa"}'
    assert "$[0]:" in _cut(content, MemoryTransform.filtered(json_path="$[?search(@.name, '(a+)+!')]")).text
    with pytest.raises(TransformError, match=r"written search\(@.name, 'pattern'\)"):
        _cut(content, MemoryTransform.filtered(json_path="$[?@.name =~ /(a+)+$/]"))
    with pytest.raises(TransformError, match="no look-around"):
        _cut(content, MemoryTransform.filtered(json_path="$[?search(@.name, '(?=a)')]"))


@pytest.mark.parametrize(
    ("content", "path", "message"),
    [
        ("not json", "$.a", "is not JSON"),
        ('{"a": 1}', "a", "unusable"),
        ('{"a": 1}', "$[" * 400, "unusable"),
        ('{"a": 1}', "$" + "[?(@.a" * 150, "unusable"),
        ("[" * 100_000 + "]" * 100_000, "$..*", "nested too deeply"),
        ("[" * 300 + "]" * 300, "$..*", "cannot be evaluated"),
        ('"text"', "$", "single JSON value"),
        ("1" * 5000, "$", "send a pattern"),
    ],
)
def test_unusable_json_is_refused_with_a_remedy(content, path, message):
    """Never a crash."""
    with pytest.raises(TransformError, match=re.escape(message)):
        _cut(content, MemoryTransform.filtered(json_path=path))


@pytest.mark.parametrize(
    "path", ["$..*..*..*..nothing", "$[*,*,*,*][*,*,*,*][*,*,*,*].nothing", "$[?count(@..*..*..*) < 0]"]
)
def test_json_path_work_is_bounded(path, monkeypatch):
    """Also inside filters, and where nothing is found."""
    monkeypatch.setattr(jsonpath, "_STEPS", 2_000)
    content = json.dumps([[[[1, 2]] * 10] * 10] * 10)
    with pytest.raises(TransformError, match="visits too much"):
        _cut(content, MemoryTransform.filtered(json_path=path))


def test_a_json_path_with_too_many_values_gives_the_first_and_says_so(monkeypatch):
    """The budget ends the count, not the answer."""
    monkeypatch.setattr(jsonpath, "_STEPS", 2000)
    shown = _cut(json.dumps(list(range(5000))), MemoryTransform.filtered(json_path="$..*", max_matches=2)).text
    assert shown.startswith("$[0]: 0\n$[1]: 1\n[values 1-2 of at least ")


def test_surrogates_and_nul_survive_every_transform():
    """As they are, in content that Postgres and UTF-8 refuse."""
    content = "a\ud800\x00b\r\n" * 100 + "é\udfff needle \x00"
    assert _split(_cut(content, MemoryTransform.excerpt(start_line=1, end_line=1)).text)[0] == "a\ud800\x00b\r\n"
    assert "101: é\udfff needle \x00" in _cut(content, MemoryTransform.filtered(pattern="needle")).text
    assert _cut(content, MemoryTransform.filtered(pattern="\ud800")).text
    long = "\ud800é" * 500 + "needle"
    assert "line 1, chars 801-1006: …" in _cut(long, MemoryTransform.filtered(pattern="needle")).text


def test_a_limit_without_room_for_the_footer_is_refused():
    """With the least that does."""
    with pytest.raises(ValueError, match=r"answer_limit_tokens=20 has no room for the footer; use at least \d+"):
        _cut(LINES_500, FULL, answer_limit_tokens=20)
