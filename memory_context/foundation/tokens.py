"""Exact o200k_base token counts without network.

tiktoken's expression overflows (a Rust panic) on a million spaces, so text is cut first.
"""

import hashlib
import lzma
import math
import random
import re
import threading
from binascii import a2b_base64
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import count
from typing import TYPE_CHECKING, Literal, Protocol

from .runtime.background import in_thread_if_large
from .utf8 import sayable

if TYPE_CHECKING:
    from tiktoken import Encoding

__all__ = [
    "EXACT_LIMIT_BYTES",
    "IMAGE_TOKENS",
    "O200kTokenCounter",
    "TokenCounter",
    "count_off_loop",
    "cut_to_tokens",
    "default_token_counter",
    "equal_shares",
    "shares_by_rank",
]

EXACT_LIMIT_BYTES = 2 * 1024 * 1024
"""Counts of more UTF-8 bytes are estimated."""

IMAGE_TOKENS = 1100
"""Tokens that one image counts: those of a megapixel, nearly, at OpenAI and Anthropic."""

_MOST_GROWTH = 4
_CLOSE_ENOUGH = 100  # 1% short saves counting
_RANKS_FILE = "o200k_base.tiktoken.xz"
_RANKS_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
_PATTERN = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
_LONGEST_TOKEN_BYTES = 128  # 128 spaces

# Rust's \s, which excludes U+001C to U+001F; without and with line ends
_BLANK = r"\t\x0b\x0c \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_SPACE = _BLANK + r"\r\n"
# Ends of pieces; only stable characters, as Python's and Rust's Unicode tables differ.
_BOUNDARY = re.compile(
    rf"[^{_SPACE}](?=[{_BLANK}])"
    r"|[A-Za-z0-9](?=[\r\n!-&(-/:-@\[-`{-~])"  # not before an apostrophe: 're, 'll
    rf"|[\r\n](?=[^{_SPACE}/])"  # punctuation takes these
    r"|[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])"
    r"|[a-z][a-z](?=[A-Z])"  # two: one may belong to 'rE or 'lL
    r"|[\u4e00-\u9fff](?=[，。、；：！？])"
)
_CHUNK_CHARACTERS = 16_384
_LONGEST_RUN = 16_384
_LONG_RUN = re.compile(rf"(?<![{_BLANK}])[{_BLANK}]{{{_LONGEST_RUN},}}")

_NAME_CHARACTERS = 32
_SAMPLES = 64
_SAMPLE_CHARACTERS = 16_384


class TokenCounter(Protocol):
    """Counts tokens; implement it for other models. It must not raise for any str.

    Views spell half surrogates, such as `\\ud83d`: count six characters for each.
    """

    def count(self, text: str) -> int: ...

    def is_over(self, text: str, limit_tokens: int) -> bool:
        """May stop early."""
        ...


class O200kTokenCounter:
    """Counts tokens of `o200k_base`, exactly up to 2 MB of text.

    Above, it extrapolates 64 samples and adds two standard errors, so it is seldom too low.
    """

    @property
    def is_loaded(self) -> bool:
        """Loading takes half a second."""
        return _encoding is not None

    def count(self, text: str) -> int:
        return _count_name(text) if len(text) <= _NAME_CHARACTERS else _count(text)

    def is_over(self, text: str, limit_tokens: int) -> bool:
        if len(text) > _LONGEST_TOKEN_BYTES * limit_tokens:  # a character is at least one byte
            return bool(text) or limit_tokens < 0
        if 6 * len(text) <= limit_tokens:  # four bytes a character at most, six of a half surrogate
            return False
        text, size_bytes = _measure(text)
        if size_bytes is None:
            return _estimate(text, limit_tokens) > limit_tokens
        if size_bytes <= limit_tokens:
            return False
        total = 0
        for chunk in _chunks(text):
            total += _count_chunk(chunk)
            if total > limit_tokens:
                return True
        return False


@cache
def default_token_counter() -> O200kTokenCounter:
    """Return the counter of this process."""
    return O200kTokenCounter()


async def count_off_loop(counter: TokenCounter, texts: Sequence[str]) -> list[int]:
    """Count texts, in a thread if slow."""
    is_ready = not isinstance(counter, O200kTokenCounter) or counter.is_loaded
    size = sum(map(len, texts)) if is_ready else math.inf
    return await in_thread_if_large(size, lambda: [counter.count(text) for text in texts])


def equal_shares(wanted: Sequence[int], room: int) -> list[int]:
    """Return shares of a room of so many tokens: equal ones, plus what others leave of theirs."""
    shares = [0] * len(wanted)
    for done, index in enumerate(sorted(range(len(wanted)), key=lambda index: wanted[index])):
        shares[index] = min(wanted[index], max(room // (len(wanted) - done), 0))
        room -= shares[index]
    return shares


def shares_by_rank(wanted: Sequence[int], room: int, least: int) -> list[int]:
    """Return shares of a room of so many tokens: the first whole as far as it goes, and at least `least` for each.

    Equal ones if there is no room for that.
    """
    shares = [min(one, least) for one in wanted]
    if sum(shares) > room:
        return equal_shares(wanted, room)
    for index, one in enumerate(wanted):
        shares[index] += min(one - shares[index], room - sum(shares))
    return shares


def cut_to_tokens(
    text: str,
    limit_tokens: int,
    counter: TokenCounter,
    side: Literal["start", "end"] = "start",
    characters_per_token: float = 4.0,
) -> str:
    """Return about the longest prefix (or suffix) within a token limit, at most 1% short.

    The work depends on the limit, not on the text.
    """
    if limit_tokens <= 0:
        return ""

    def part(length: int) -> str:
        return text[:length] if side == "start" else text[len(text) - length :]

    enough = limit_tokens - limit_tokens // _CLOSE_ENOUGH
    aim = limit_tokens * (1 - 0.5 / _CLOSE_ENOUGH)
    fits, fits_tokens, over, over_tokens = 0, 0, len(text) + 1, 0
    length = min(max(int(aim * characters_per_token), 1), len(text))
    step = 0
    while True:
        step += 1
        tokens = counter.count(part(length))
        if tokens > limit_tokens:
            over, over_tokens = length, tokens
        else:
            fits, fits_tokens = length, tokens
        if over - fits <= 1 or fits_tokens >= enough:
            return part(fits)
        # interpolate; bisect every fourth step
        if not over_tokens:
            length = min(int(fits * min(aim / max(fits_tokens, 1), _MOST_GROWTH)), len(text))
        elif step % 4:
            length = fits + int((over - fits) * (aim - fits_tokens) / (over_tokens - fits_tokens))
        else:
            length = (fits + over) // 2
        length = min(max(length, fits + 1), over - 1)


_encoding: "Encoding | None" = None
_loading = threading.Lock()


def _load() -> "Encoding":
    global _encoding
    if _encoding is None:
        with _loading:
            if _encoding is None:
                _encoding = _read_encoding()
    return _encoding


def _read_encoding() -> "Encoding":
    from tiktoken import Encoding

    file = files("memory_context.foundation") / "data" / _RANKS_FILE
    try:
        data = lzma.decompress(file.read_bytes())
    except (OSError, lzma.LZMAError) as error:
        raise RuntimeError(f"{file} is missing or damaged ({error}); reinstall memory-context") from error
    if (digest := hashlib.sha256(data).hexdigest()) != _RANKS_SHA256:
        raise RuntimeError(f"{file} has sha256 {digest}, not {_RANKS_SHA256}; reinstall memory-context")
    ranks = dict(zip(map(a2b_base64, data.split()[::2]), count()))  # the known file has them in order
    return Encoding("o200k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={})


@cache
def _blanks_encoding() -> "Encoding":
    """Return an encoding for which a run of blanks is one piece."""
    from tiktoken import Encoding

    blanks = re.sub(f"[^{_BLANK}]", "", "".join(map(chr, range(0x3001)))).encode()
    # blanks suffice for a run; all tokens would cost 0.2 s and 35 MB
    encoding = _load()
    tokens = [token for token in encoding.token_byte_values() if not token.strip(blanks)]
    return Encoding(
        "o200k_base_blanks",
        pat_str=r"(?s:.+)",
        mergeable_ranks={token: encoding.encode_single_token(token) for token in tokens},
        special_tokens={},
    )


def _count(text: str) -> int:
    text, size_bytes = _measure(text)
    if size_bytes is None:
        return _estimate(text, None)
    return sum(map(_count_chunk, _chunks(text)))


_count_name = lru_cache(maxsize=1000)(_count)  # names of tools and sources come with every message


def _measure(text: str) -> tuple[str, int | None]:
    if len(text) > EXACT_LIMIT_BYTES:
        return text, None
    if text.isascii():
        return text, len(text)
    text = sayable(text)  # as views show it
    size_bytes = len(text.encode())
    return text, size_bytes if size_bytes <= EXACT_LIMIT_BYTES else None


def _chunks(text: str) -> Iterator[str]:
    """Yield parts whose counts add up exactly to the whole's."""
    start = 0
    while len(text) - start > _CHUNK_CHARACTERS and (end := _BOUNDARY.search(text, start + _CHUNK_CHARACTERS)):
        yield text[start : end.end()]
        start = end.end()
    yield text[start:]


def _count_chunk(chunk: str) -> int:
    encoding = _load()
    total = start = 0
    if len(chunk) > _LONGEST_RUN:
        for run in _LONG_RUN.finditer(chunk):
            follower = chunk[run.end() : run.end() + 1]
            if follower in ("\r", "\n"):
                continue  # `\s*[\r\n]+` takes the run without a stack
            # the last blank belongs to the next piece
            end = run.end() - 1 if follower else run.end()
            total += len(encoding.encode_ordinary(chunk[start : run.start()]))
            total += len(_blanks_encoding().encode_ordinary(chunk[run.start() : end]))
            start = end
    return total + len(encoding.encode_ordinary(chunk[start:]))


def _estimate(text: str, limit_tokens: int | None) -> int:
    stratum = len(text) / _SAMPLES
    length = min(_SAMPLE_CHARACTERS, math.ceil(stratum))
    # random, against periodic texts
    places = random.Random(len(text))
    counts: list[int] = []
    total = 0
    for index in range(_SAMPLES):
        start = int(index * stratum + places.random() * max(stratum - length, 0))
        sample = sayable(text[start : start + length])
        counts.append(sum(map(_count_chunk, _chunks(sample))))
        total += counts[-1]
        if limit_tokens is not None and total > limit_tokens:
            return total
    mean = total / _SAMPLES
    variance = sum((count - mean) ** 2 for count in counts) / (_SAMPLES - 1)
    unseen = max(0.0, 1 - length / stratum)
    return math.ceil((mean + 2 * math.sqrt(variance / _SAMPLES * unseen)) * max(len(text) / length, _SAMPLES))
