import asyncio
import subprocess
import sys
import threading
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.foundation import tokens
from memory_context.foundation.runtime.background import LARGE_CHARACTERS
from memory_context.foundation.tokens import (
    EXACT_LIMIT_BYTES,
    O200kTokenCounter,
    TokenCounter,
    count_off_loop,
    cut_to_tokens,
    default_token_counter,
    equal_shares,
)
from memory_context.foundation.utf8 import sayable
from tests.support.waiting import PATIENT_SECONDS

COUNTER = default_token_counter()

# Words whose edges are where cutting could go wrong, joined without anything between.
_ATOMS = st.sampled_from(
    [
        *(
            "a",
            "Z",
            "the",
            "'re",
            "'lL",
            "'rE",
            "'S",
            "7",
            "1234",
            "/",
            "//",
            "!",
            "#-",
            "_",
            "字",
            "，",
            "é",
            "ß",
            "😀",
        ),
        *(" ", "  ", "\t", "\n", "\r\n", "\r", "\u00a0", "\u2028", "\u3000", "\x1c", "\x85"),
        *("\u0301", "\x00", "\ud800", "ſ", "½"),
    ]
)
_MIXED = st.lists(_ATOMS, max_size=60).map("".join)
_RUNS = st.lists(
    st.tuples(
        st.sampled_from(
            [" ", "\t", "\n", " \n", "\u00a0", "\r\n ", "  \t", "a", "A", "字", "\u0301", "!", "1", "aB", "b2"]
        ),
        st.integers(1, 20_000),
    ).map(lambda pair: pair[0] * pair[1])
    | _MIXED,
    min_size=1,
    max_size=4,
).map("".join)
_ANY_TEXT = st.text(st.characters(), max_size=200)


@cache
def _plain():
    """tiktoken as it is, with the same ranks."""
    return tokens._load()


def _truth(text: str) -> int:
    return len(_plain().encode_ordinary(sayable(text)))


@given(_MIXED | _ANY_TEXT)
def test_counts_are_those_of_tiktoken(text):
    """Short texts of any kind, lone surrogates included."""
    assert COUNTER.count(text) == _truth(text)


@given(_RUNS)
def test_counts_stay_exact_across_chunks_and_long_runs(text):
    """Runs up to 20,000 characters, where tiktoken alone still works."""
    assert COUNTER.count(text) == _truth(text)


@given(_MIXED)
def test_every_cut_is_at_a_safe_boundary(text):
    """With chunks of a single character each boundary of the expression is used, and the count stays the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "_CHUNK_CHARACTERS", 1)
        prepared = sayable(text)
        chunks = list(tokens._chunks(prepared))
        assert "".join(chunks) == prepared
        assert sum(map(tokens._count_chunk, chunks)) == _truth(text)


@pytest.mark.parametrize("before", ["", "x", "!", "\n", "!\n", " \n "])
@pytest.mark.parametrize("after", ["", "x", "!", "\n", "\n x", "1"])
@pytest.mark.parametrize("blank", [" ", "\t", "\u00a0", " \t"])
@pytest.mark.thorough
def test_long_white_space_counts_as_tiktoken_counts_it(before, after, blank):
    """Whatever stands around the run."""
    text = before + blank * 18_000 + after
    assert COUNTER.count(text) == _truth(text)


@pytest.mark.thorough
def test_a_million_spaces_are_counted_and_nothing_is_printed():
    """tiktoken panics there and prints a Rust backtrace; also proves that no network is needed."""
    program = (
        "import socket\n"
        "def refuse(*a, **k): raise AssertionError('network')\n"
        "socket.socket.connect = refuse\n"
        "from memory_context.foundation.tokens import O200kTokenCounter\n"
        "counter = O200kTokenCounter()\n"
        "for text in (' ' * 1_000_000, ' ' * 1_500_000 + 'x', '\\t' * 1_000_000 + '\\n', '\\x00' * 1000, '\\ud800'):\n"
        "    print(counter.count(text))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENT_SECONDS, check=True
    )
    assert done.stderr == ""
    counts = [int(line) for line in done.stdout.split()]
    assert counts[0] == -(-1_000_000 // 128)
    assert counts[4] == _truth("\ud800")


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "字" * 500_000,
        "\u0301" * 500_000,
        " \n" * 500_000,
        "\ud800" * 300_000,
        "\x00" * 1_000_000,
        "!" * 10**6,
    ],
    ids=["letters", "ideographs", "marks", "blank lines", "surrogates", "nul", "punctuation"],
)
@pytest.mark.thorough
def test_long_pieces_are_counted_exactly(text):
    """A piece of a million bytes is slow to merge, but bounded."""
    assert COUNTER.count(text) == _truth(text)


@pytest.mark.parametrize("unit", ["The quick brown fox.\n", '{"id": 17, "name": "ü"},', "字符，"])
@pytest.mark.thorough
def test_an_estimate_above_two_megabytes_is_close_and_hardly_below(unit):
    """Sampled stretches see even content as it is."""
    text = unit * (3 * EXACT_LIMIT_BYTES // len(unit.encode()))
    truth = sum(map(tokens._count_chunk, tokens._chunks(text)))
    assert 0.99 * truth <= COUNTER.count(text) <= 1.05 * truth


def test_an_estimate_of_uneven_content_is_hardly_below():
    """A sixth of the content is far denser in tokens than the rest."""
    text = "lorem ipsum dolor " * 200_000 + "9Z%q" * 180_000
    truth = sum(map(tokens._count_chunk, tokens._chunks(text)))
    assert 0.95 * truth <= COUNTER.count(text) <= 1.6 * truth


@given(_MIXED | _RUNS, st.integers(-1, 400))
def test_is_over_agrees_with_the_count(text, limit):
    """Whatever shortcut it takes."""
    assert COUNTER.is_over(text, limit) == (COUNTER.count(text) > limit)


def test_is_over_agrees_with_the_count_at_the_very_limit():
    """Also for estimated text, and just on the edge."""
    for text in ("word " * 5000, "字" * 20_000, "x1 " * 900_000, " " * 128_000):
        count = COUNTER.count(text)
        assert not COUNTER.is_over(text, count)
        assert COUNTER.is_over(text, count - 1)


def test_a_huge_text_is_over_a_small_limit_without_being_counted(monkeypatch):
    """A token has at most 128 bytes."""
    monkeypatch.setattr(tokens, "_count_chunk", lambda chunk: pytest.fail("counted"))
    assert COUNTER.is_over("a" * 10_000_000, 500)
    assert not COUNTER.is_over("字" * 1000, 3000)


def test_no_token_is_longer_than_the_shortcut_assumes():
    """The ranks say so."""
    assert max(map(len, _plain().token_byte_values())) == tokens._LONGEST_TOKEN_BYTES


class _Characters:
    def count(self, text: str) -> int:
        return len(text)

    def is_over(self, text: str, limit_tokens: int) -> bool:
        return len(text) > limit_tokens


@given(
    _MIXED | _RUNS, st.integers(-1, 200), st.sampled_from(["start", "end"]), st.sampled_from([COUNTER, _Characters()])
)
def test_a_cut_is_within_the_limit_and_about_as_long_as_it_can_be(text, limit, side, counter):
    """A prefix or suffix that fits and is at most a hundredth of the limit shorter than it could be."""
    part = cut_to_tokens(text, limit, counter, side)
    assert text.startswith(part) if side == "start" else text.endswith(part)
    assert not part or counter.count(part) <= limit
    assert part == cut_to_tokens(text, limit, counter, side)
    if part != text and limit > 0:
        longer = text[: len(part) + 1] if side == "start" else text[-len(part) - 1 :]
        assert counter.count(part) >= limit - limit // 100 or counter.count(longer) > limit


def test_cutting_ten_megabytes_counts_only_about_as_much_as_is_kept():
    """The work depends on the limit."""
    counted = 0

    class Watching(_Characters):
        def count(self, text: str) -> int:
            nonlocal counted
            counted += len(text)
            return COUNTER.count(text)

        def is_over(self, text: str, limit_tokens: int) -> bool:
            return COUNTER.is_over(text, limit_tokens)

    text = "some words of a log line 12345\n" * 330_000
    assert 990 <= COUNTER.count(cut_to_tokens(text, 1000, Watching(), "end")) <= 1000
    assert counted < 100_000


async def test_long_text_is_counted_in_a_thread_and_short_text_at_once():
    """So that the event loop goes on."""
    places: list[bool] = []

    class Placed(_Characters):
        def count(self, text: str) -> int:
            places.append(threading.current_thread() is threading.main_thread())
            return len(text)

    assert await count_off_loop(Placed(), ["x", "x" * (LARGE_CHARACTERS - 1)]) == [
        1,
        LARGE_CHARACTERS - 1,
    ]
    assert await count_off_loop(Placed(), ["x", "x" * LARGE_CHARACTERS]) == [1, LARGE_CHARACTERS]
    assert places == [True, True, False, False]


async def test_the_ranks_are_loaded_in_a_thread(monkeypatch):
    """Half a second would block the loop even for a short text."""
    threads: list[threading.Thread] = []
    encoding = tokens._load()
    monkeypatch.setattr(tokens, "_encoding", None)
    monkeypatch.setattr(tokens, "_read_encoding", lambda: threads.append(threading.current_thread()) or encoding)
    assert not COUNTER.is_loaded
    assert await asyncio.gather(*(count_off_loop(COUNTER, ["hello world"]) for _ in range(8))) == [[2]] * 8
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


def test_damaged_ranks_are_a_clear_error(monkeypatch):
    """Not a wrong count."""
    monkeypatch.setattr(tokens, "_RANKS_SHA256", "0" * 64)
    with pytest.raises(RuntimeError, match=r"o200k_base\.tiktoken\.xz has sha256 446a.*reinstall"):
        tokens._read_encoding()
    monkeypatch.setattr(tokens, "_RANKS_FILE", "gone.xz")
    with pytest.raises(RuntimeError, match="missing or damaged"):
        tokens._read_encoding()


def test_the_default_counter_is_shared():
    """One set of ranks a process."""
    counter: TokenCounter = default_token_counter()
    assert counter is default_token_counter()
    assert isinstance(counter, O200kTokenCounter)


@given(st.lists(st.integers(0, 500), max_size=12), st.integers(-50, 3000))
def test_equal_shares_fill_the_room_and_give_nobody_more_than_wanted(wanted: list[int], room: int) -> None:
    """Whoever gets less than wanted gets at least as much as anybody else, but for the rounding."""
    shares = equal_shares(wanted, room)
    assert all(0 <= share <= most for share, most in zip(shares, wanted, strict=True))
    assert sum(shares) <= max(room, 0)
    if any(share < most for share, most in zip(shares, wanted, strict=True)):
        assert sum(shares) == max(room, 0)
        least = min(share for share, most in zip(shares, wanted, strict=True) if share < most)
        assert max(shares) <= least + 1
