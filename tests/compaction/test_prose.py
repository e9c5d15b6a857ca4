"""Running text in any script: first and last sentences, sections, names, dates and amounts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_context.compaction.compactor import Result
from memory_context.compaction.readers.prose import read_prose
from memory_context.compaction.reading import Reading

from .sound import read_soundly, spoiled

REPORT = """\
Annual report

The company Fennwick Traders opened four shops in Lisbon on 3 March 2023, and sales rose to $4.5 million. Its founder, \
Maria da Silva, had expected less.

Outlook

Next year the company wants to open two more in Porto. Costs are going to grow by 12% because rents rise. Nobody \
knows whether the weather will be good.
"""
CHINESE = (
    "河边的老图书馆在二〇一九年重新开放。馆里现在有四万册书，每天大约有2,300人来访。馆长说，明年还要再建一个阅览室。"
    * 5
)
ARABIC = (
    "افتتحت المكتبة القديمة بجوار النهر من جديد. يزورها كل يوم نحو ألفي قارئ، وفيها أربعون ألف كتاب في شتى العلوم. " * 3
)
HINDI = "नदी के किनारे का पुराना पुस्तकालय फिर से खुल गया है। यहाँ हर दिन बहुत से लोग पढ़ने आते हैं और किताबें ले जाते हैं। " * 4
RUSSIAN = (
    "Старая библиотека у реки снова открыта для всех. Каждый день сюда приходят сотни читателей, чтобы взять книги. "
    * 3
)
SAMPLES = [REPORT, CHINESE, ARABIC, HINDI, RUSSIAN]


def read(content: str) -> Reading:
    reading = read_soundly(read_prose, Result(content, "ask"))
    assert reading is not None
    return reading


def test_a_text_tells_its_first_sentences_sections_figures_and_end() -> None:
    reading = read(REPORT)
    assert reading.description == "text: Annual report, 4 paragraphs, 59 words"
    assert reading.facts[0].startswith("The company Fennwick Traders opened four shops")
    assert "sections: Annual report; Outlook" in reading.facts
    assert "Costs are going to grow by 12% because rents rise." in reading.facts
    assert reading.facts[-1].startswith("Nobody knows")
    assert [name for _, name in reading.labels] == ["Annual report", "Outlook"]


def test_names_dates_and_amounts_are_kept() -> None:
    names = read(REPORT).names
    assert list(names[:2]) == ["Fennwick Traders", "Maria da Silva"]
    assert {"3 March 2023", "$4.5 million", "12%"} <= set(names)
    assert all(name in REPORT for name in names)


@pytest.mark.parametrize(
    ("content", "first"),
    [
        (CHINESE, "河边的老图书馆在二〇一九年重新开放。"),
        (ARABIC, "افتتحت المكتبة القديمة بجوار النهر من جديد."),
        (HINDI, "नदी के किनारे का पुराना पुस्तकालय फिर से खुल गया है।"),
        (RUSSIAN, "Старая библиотека у реки снова открыта для всех."),
    ],
)
def test_sentences_are_found_in_other_scripts(content: str, first: str) -> None:
    assert read(content).facts[0] == first


@pytest.mark.parametrize(
    "content",
    [
        "",
        "Too short to need a reader.",
        "def foo(x):\n    return x + 1\n\nclass Bar:\n    def baz(self):\n        print('hello world')\n" * 10,
        "\n".join(f"src/module_{n}.py" for n in range(50)),
        "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo" * 50,
        "2024-01-01 12:00:00 INFO starting server on port 8080\n" * 20,
        "foo bar\n" * 100,
        '{"key": "value", "other": [1, 2, 3]}\n' * 20,
        "const value = items.map((item) => item.name);\n" * 20,
        "漢字" * 400,
    ],
)
def test_what_is_not_mostly_sentences_is_left(content: str) -> None:
    assert read_prose(Result(content, "tool")) is None


@pytest.mark.parametrize(
    "content",
    [
        REPORT.replace("\n", " ") * 3000,
        REPORT * 20 + "." * 500_000,
        REPORT * 20 + "Ab " * 200_000,
        REPORT + " " * 500_000,
        REPORT * 20 + "\x00\ud800" * 50_000,
    ],
)
def test_hostile_texts_are_survived(content: str) -> None:
    read_soundly(read_prose, Result(content, "tool"))


def test_of_a_huge_text_head_and_tail_are_read() -> None:
    content = "Intro\n\n" + REPORT * 20_000 + "\nAt the very end the auditors agreed with all of it.\n"
    reading = read(content)
    assert f"{len(content):,} characters" in reading.description
    assert reading.facts[-1] == "At the very end the auditors agreed with all of it."


@settings(deadline=None)
@given(spoiled(SAMPLES) | st.text() | st.text(min_size=200, alphabet="aB .\n1é漢。"))
def test_any_text_is_read_soundly(content: str) -> None:
    read_soundly(read_prose, Result(content, "tool"))
