"""The tokenizer: unstemmed words for compaction (several times faster), stemmed terms for search.

A name is a term as a whole and in parts: `src/LoginHandler.py` matches `login_handler` and "login handlers". Scripts
without spaces become character bigrams. Functions take any str, in linear time; Postgres `text` accepts all terms.
"""

import hashlib
import math
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache, lru_cache
from itertools import chain, groupby, pairwise, starmap
from typing import Protocol

import Stemmer

from ..patterns import regex
from ..utf8 import without_terminal_codes
from .lexicon import CODE_STOP_WORDS, ENGLISH_STOP_WORDS, FOREIGN_STOP_WORDS, HOMOGRAPHS

__all__ = [
    "QUERY_LIMIT_CHARACTERS",
    "QUERY_LIMIT_TERMS",
    "TERM_LIMIT_CHARACTERS",
    "folded",
    "parts_in",
    "places_of_parts",
    "places_of_words",
    "pointing_terms",
    "query_terms",
    "relevance",
    "telling_terms",
    "terms_of",
    "verbatim_parts",
    "verbatim_pattern",
    "words_in",
]


TERM_LIMIT_CHARACTERS = 64
"""Longer terms are hashed, to match as a whole."""
QUERY_LIMIT_TERMS = 64
QUERY_LIMIT_CHARACTERS = 65_536
"""Longer queries keep beginning and end."""

_JOINT = r"(?:://|::|\\\\|[./\\:@+-])"
_TOKEN = rf"{{0}}+(?:{_JOINT}{{0}}+)*"
_ASCII_TOKENS = regex(_TOKEN.format(r"\w"))
_JOINTS = (regex(r"://|[:@+]+"), regex(r"[/\\]+"), regex(r"\."))
"""Token separators, in order: `src/auth/login.py:42` gives `src/auth/login.py`, then `login.py`."""
_NAME_JOINT = regex(r"[-_]+")
_BACKSLASHES = regex(r"\\+")
_NUMBERS = regex(r"\d+\.\d+(?:\.\d+)*")
_PART = r"[A-Z]+s?(?![a-z])|[A-Z]?[a-z]+|[0-9]+"
"""login|Handler, HTTP|Server, URLs, sha|256."""
_PARTS = regex(rf"{_PART}|[^A-Za-z0-9]+")
_ASCII_PARTS = regex(_PART)
_SHORTEST_MEAN_PART = 3
"""Names of three or more parts, shorter on average, are hashes or Base64."""
_HASH = regex(r"(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,}", re.IGNORECASE)
_SHORT_HASH_CHARACTERS = 7  # as git abbreviates
_CONTRACTION = regex(r"(?<=[^\W\d_])(?:n't|'(?:s|re|ve|m|ll|d))\b", re.IGNORECASE)

# Thai, Lao, Burmese, Khmer, Chinese, Japanese, and Korean, which joins particles.
_UNSPACED_CHARACTER = (
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u312f\u31a0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_compiled = cache(re.compile)  # at first use: texts in ASCII need none of these patterns
_UNSPACED = f"({_UNSPACED_CHARACTER}+)"
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0963\u0966-\u0dff"  # no `\\w`
_BLOCKS_WITH_MARKS = ((0x300, 0x2100), (0x2C00, 0x3100), (0xA600, 0xAC00), (0xFB00, 0xFE30))
_VERBATIM = rf"{_UNSPACED_CHARACTER}|(?:(?!{_UNSPACED_CHARACTER})[\w{_MARKS}])+"
# Accents, and points of Hebrew and Arabic; not vowel signs, which distinguish words.
_ACCENTS = "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670]+"
_LETTERS = str.maketrans(
    {"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ħ": "h", "Ħ": "H", "ŧ": "t", "Ŧ": "T", "ı": "i"}
    | {"æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ß": "ss", "ẞ": "SS"}
)
_LETTER = "[" + "".join(map(chr, _LETTERS)) + "]"
# Possible runs of combining marks, which normalisation sorts in quadratic time.
_ENDLESS = "([^\x00-\u02ff\u3041-\u3096\u30a0-\u30ff\u3400-\u9fff\uac00-\ud7ff\U00020000-\U0003ffff]{128})"
_CACHED_TOKENS = 1 << 14


_NAME_OR_WORD = regex(r"((?<=[\w,;] )[A-Z]\w+)|\w+")

_WORD = regex(r"[^\W\d]\w{2,}")
_WORD_OR_BREAK = regex(rf"{_WORD.pattern}|\n")
_ASCII_WORD_OR_BREAK = regex(_WORD_OR_BREAK.pattern, re.ASCII)  # takes two thirds of the time
_PART_OR_BREAK = regex(rf"{_PART}|\n")
_COMMON_WORDS = ENGLISH_STOP_WORDS | CODE_STOP_WORDS
_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


def words_in(text: str) -> frozenset[str]:
    """Return the unstemmed words and names of a text, without stop words."""
    return frozenset(_WORD.findall(text)) - _COMMON_WORDS


def parts_in(text: str) -> frozenset[str]:
    """Return the lower-case parts of words and names, without stop words and single characters."""
    return frozenset(map(str.lower, _ASCII_PARTS.findall(text))) - _COMMON_WORDS - _CHARACTERS


def places_of_words(texts: Sequence[str]) -> dict[str, list[int]]:
    """Return the indices of the texts that hold each unstemmed word, stop words too; they hold no line break.

    One scan for all of them is several times faster.
    """
    joined = "\n".join(texts)
    pattern = _ASCII_WORD_OR_BREAK if joined.isascii() else _WORD_OR_BREAK
    return _places(pattern.findall(joined))


def places_of_parts(texts: Sequence[str]) -> dict[str, list[int]]:
    """Return the indices of the texts that hold each part, as `places_of_words` does."""
    return _places(map(str.lower, _PART_OR_BREAK.findall("\n".join(texts))))


def _places(found: Iterable[str]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    index = 0
    for text in found:
        if text == "\n":
            index += 1
        elif text in places:
            places[text].append(index)
        else:
            places[text] = [index]
    return places


def terms_of(text: str) -> list[str]:
    """Return all terms of a text in order, with repetitions.

    Terms are folded (NFKC, case, accents), without NUL and lone surrogates; `user's` is `user`.
    """
    return list(chain.from_iterable(map(_terms_of_token, _tokens_of(text))))


def folded(text: str) -> str:
    """Return a text without case and accents, like terms."""
    return (text if text.isascii() else _fold(text)).casefold()


def verbatim_parts(text: str) -> list[str]:
    """Return the words of a text as written; where a script parts no words, its characters."""
    return _compiled(_VERBATIM).findall(text)


def verbatim_pattern(quote: str, between: str = r"[\W_]") -> str:
    """Return a regular expression, of Python and of Postgres, for a quote with anything such between its words.

    Scripts that part no words may hold or lack blanks anywhere, and a quote may begin inside a run of them.
    """
    parts = verbatim_parts(quote)
    is_unspaced = [_compiled(_UNSPACED).match(part) is not None for part in parts]
    pattern = "" if not parts or is_unspaced[0] else r"(?<!\w)"
    for index, part in enumerate(parts):
        if index:
            pattern += between + ("*" if is_unspaced[index - 1] or is_unspaced[index] else "+")
        pattern += part
    return pattern + ("" if not parts or is_unspaced[-1] else r"(?!\w)")


def query_terms(text: str) -> list[str]:
    """Return up to `QUERY_LIMIT_TERMS` distinct terms of a query, in order; the longest, as most specific, stay.

    English stop words are dropped unless nothing else is left: `how` is rare in code and would weigh much.
    """
    if len(text) > QUERY_LIMIT_CHARACTERS:
        half = QUERY_LIMIT_CHARACTERS // 2
        text = f"{text[:half]} {text[-half:]}"
    tokens = _tokens_of(text)
    said = [token for token in tokens if token.casefold() not in ENGLISH_STOP_WORDS]
    terms = _distinct_terms(said) or _distinct_terms(tokens)
    if len(terms) > QUERY_LIMIT_TERMS:
        kept = set(sorted(terms, key=len, reverse=True)[:QUERY_LIMIT_TERMS])
        terms = [term for term in terms if term in kept]
    return terms


def pointing_terms(text: str) -> frozenset[str]:
    """Return the terms of a query's numbers and names: words with a digit, or capitalised inside a sentence."""
    words = _NAME_OR_WORD.finditer(text[:QUERY_LIMIT_CHARACTERS])
    return frozenset(_distinct_terms([word[0] for word in words if word[1] or any(map(str.isdigit, word[0]))]))


def telling_terms(terms: Iterable[str]) -> list[str]:
    """Return the terms that are no stop words of six languages."""
    return [term for term in terms if term not in _stop_terms()]


@cache
def _stop_terms() -> frozenset[str]:
    words = ENGLISH_STOP_WORDS.union(*FOREIGN_STOP_WORDS.values()) - (HOMOGRAPHS - ENGLISH_STOP_WORDS)
    return words.union(chain.from_iterable(map(_terms_of_token, words)))


def _distinct_terms(tokens: list[str]) -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(map(_terms_of_token, tokens))))


def _tokens_of(text: str) -> list[str]:
    text = without_terminal_codes(text)
    if text.isascii():
        return _ASCII_TOKENS.findall(_CONTRACTION.sub("", text) if "'" in text else text)
    return _any_tokens().findall(_CONTRACTION.sub("", _fold(text)))


def _fold(text: str) -> str:
    text = unicodedata.normalize("NFKD", _compiled(_ENDLESS).sub(r"\1 ", text.replace("’", "'")))
    text = _compiled(_LETTER).sub(lambda match: _LETTERS[ord(match[0])], _compiled(_ACCENTS).sub("", text))
    return unicodedata.normalize("NFC", text)


@cache
def _any_tokens() -> re.Pattern[str]:
    """`_ASCII_TOKENS` plus vowel signs, which `\\w` excludes; compiled lazily."""
    codes = chain.from_iterable(starmap(range, _BLOCKS_WITH_MARKS))
    marks = [code for code in codes if unicodedata.category(chr(code))[0] == "M"]
    runs = groupby(enumerate(marks), lambda one: one[1] - one[0])  # ranges compile in a fifth of the time
    ranges = ([code for _, code in run] for _, run in runs)
    return re.compile(_TOKEN.format(rf"[\w{''.join(f'{chr(one[0])}-{chr(one[-1])}' for one in ranges)}]"))


def _terms_of_token(token: str) -> tuple[str, ...]:
    if len(token) <= TERM_LIMIT_CHARACTERS:
        return _terms_of_short_token(token)
    return tuple(_split_token(token))


@lru_cache(maxsize=_CACHED_TOKENS)
def _terms_of_short_token(token: str) -> tuple[str, ...]:
    return tuple(_split_token(token))


def _split_token(token: str, level: int = 0) -> Iterator[str]:
    """Yield a path, address, version or name, whole and in parts."""
    if level == len(_JOINTS):
        yield from _split_name(token)
        return
    pieces = _JOINTS[level].split(token)
    if len(pieces) > 1:
        yield _capped(_BACKSLASHES.sub("/", token.casefold()))
        if level == len(_JOINTS) - 1:
            yield from _versions(token)
    for piece in pieces:
        yield from _split_token(piece, level + 1)


def _versions(dotted: str) -> Iterator[str]:
    """Yield `3.11.7` and `3.11` of `v3.11.7-rc1`."""
    for number in _NUMBERS.findall(dotted):
        if number != dotted:
            yield _capped(number)
        if number.count(".") > 1:
            yield _capped(".".join(number.split(".", 2)[:2]))


def _split_name(name: str) -> Iterator[str]:
    words = [word for word in _NAME_JOINT.split(name) if word]
    if not name.isascii() and _compiled(_UNSPACED).search(name):
        for word in words:
            for index, run in enumerate(_compiled(_UNSPACED).split(word)):
                yield from _pairs(run) if index % 2 else _split_words([run] if run else [])
        return
    yield from _split_words(words)


def _split_words(words: list[str]) -> Iterator[str]:
    """Yield a name's joined form, then its parts: `LoginHandler` gives `loginhandler` first."""
    parts = [part for word in words for part in _parts_of(word)]
    if len(parts) > 1:
        yield _term("".join(words))
    yield from map(_term, parts)
    for word in words:
        if _HASH.fullmatch(word):
            yield word[:_SHORT_HASH_CHARACTERS].casefold()


def _parts_of(word: str) -> list[str]:
    if len(word) > TERM_LIMIT_CHARACTERS:
        return [word]
    parts = _PARTS.findall(word)
    return parts if len(parts) <= 2 or len(word) >= _SHORTEST_MEAN_PART * len(parts) else [word]


def _pairs(run: str) -> Iterator[str]:
    return map("".join, pairwise(run)) if len(run) > 1 else iter((run,))


def _term(word: str) -> str:
    folded = word.casefold()
    if len(folded) <= TERM_LIMIT_CHARACTERS and folded.isascii() and folded.isalpha():
        return _of_thread.stemmer.stemWord(folded)
    return _capped(folded)


def _capped(term: str) -> str:
    if len(term) <= TERM_LIMIT_CHARACTERS:
        return term
    return "#" + hashlib.blake2b(term.encode(), digest_size=16).hexdigest()


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...


class _OfThread(threading.local):
    """One stemmer per thread, since stemmers are not thread-safe."""

    def __init__(self) -> None:
        # Cache size 0: terms are cached here already.
        self.stemmer: _Stemmer = Stemmer.Stemmer("english", 0)  # pyright: ignore[reportUnknownMemberType]  # no stubs


_of_thread = _OfThread()


def relevance(having: Mapping[int, Set[str]], count: int) -> list[float]:
    """Return per passage the sum of its wanted words' weights, log(1 + N / n) where n of N passages have the word.

    Args:
        having: Wanted words by passage index; passages without any may be missing.
    """
    counts = Counter(chain.from_iterable(having.values()))
    weights = {word: math.log(1 + count / having_it) for word, having_it in counts.items()}
    values = [0.0] * count
    for index, words in having.items():
        values[index] = sum(weights[word] for word in sorted(words))  # sorted: float sums are reproducible
    return values
