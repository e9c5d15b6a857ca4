"""What a value beside a key word looks like: random as a credential is, a placeholder for one, or code and words."""

import math
import re
from collections import Counter

__all__ = ["is_placeholder", "is_random", "is_word_or_code"]

_LEAST_RANDOM_BYTES = 12
_LEAST_ENTROPY = 3.0  # bits a character; 16 random hexadecimal digits have 3.3, English words about 2.8
_LONG_RUN_BYTES, _HIGH_ENTROPY = 20, 3.5  # without separators, as no name is that long
_LEAST_CHANGES = 0.2  # of the places between two characters: from letter to digit, from upper to lower case

_UUID = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_STAND_INS = frozenset(
    b"none null nil true false undefined yes no on off required optional hidden masked encrypted string str int bytes "
    b"any password passwd pass passwort pwd pw secret token key user username todo na n/a empty test".split()
)
_TEMPLATE = re.compile(rb"[\[({<%$#]|([*x#._-])\1\1|\xe2\x80\xa2\xe2\x80\xa2", re.IGNORECASE)
"""How a value begins that stands for another: a variable, a template, `xxxx`, asterisks, bullets."""
_SPEAKS_OF_ITSELF = re.compile(
    rb"\$[{(]|\{\{|<[a-z_ -]+>|%[(s]|\.\.\.|\xe2\x80\xa6|\*\*\*\*|xxxx|redacted|example|placeholder|change[_-]?me|"
    rb"replace|your[_-]|my[_-]?(?:secret|token|password|api)|dummy|insert",
    re.IGNORECASE,
)
_WORDS = re.compile(rb"[A-Za-z]*|[A-Za-z_$][A-Za-z_]*\d{0,2}(?:(?:\.|->|::|\?\.)[A-Za-z_]\w*)+")
_SEPARATORS = b"-_."
_CLASSES = bytes.maketrans(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", b"A" * 26 + b"a" * 26 + b"0" * 10
)
_CHANGE = re.compile(rb"A(?=0)|a(?=[A0])|0(?=[Aa])")
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{24,}={0,2}")
_HEX_NUMBER = re.compile(rb"0x[0-9a-fA-F]+")
_FILE = re.compile(
    rb"(?:\.{0,2}/|~/|[A-Za-z]:\\).*|.*/.*\.[a-z]{1,5}|.*\.(?:py|js|ts|json|ya?ml|txt|md|pem|key|crt|html)"
)


def is_placeholder(value: bytes) -> bool:
    """Whether a value stands for a credential instead of being one: a variable, a template, asterisks, `changeme`."""
    if _TEMPLATE.match(value) or value.strip(b"*])}>").lower() in _STAND_INS or value.count(b"*") == len(value):
        return True
    return _SPEAKS_OF_ITSELF.search(value) is not None


def is_word_or_code(value: bytes) -> bool:
    """Whether a value is a word, a number, a name such as `settings.db_password`, a path or a URL."""
    if _WORDS.fullmatch(value) or b"://" in value or (_FILE.fullmatch(value) and not _is_base64(value)):
        return True
    pieces = [piece for piece in re.split(rb"[_-]", value) if piece]
    return (
        value.replace(b".", b"").isdigit()
        or _HEX_NUMBER.fullmatch(value) is not None
        or all(piece.isalpha() for piece in pieces)
    )


def _is_base64(value: bytes) -> bool:
    """Whether a value with slashes is base64 instead of a path."""
    if not _BASE64.fullmatch(value):
        return False
    return b"+" in value or value.endswith(b"=") or any(map(is_random, value.split(b"/")))


def is_random(value: bytes) -> bool:
    """Whether a value has been made by chance: long, letters and digits, mixed as no names are."""
    if len(value) < _LEAST_RANDOM_BYTES:
        return False
    if _UUID.fullmatch(value):
        return True
    joined = value.translate(None, _SEPARATORS)
    classes = joined.translate(_CLASSES)
    if b"0" not in classes or not (b"a" in classes or b"A" in classes):
        return False
    entropy = _entropy(value)
    is_one_run = len(joined) == len(value) >= _LONG_RUN_BYTES
    return entropy >= _LEAST_ENTROPY and (
        _changes(classes) >= _LEAST_CHANGES or (is_one_run and entropy >= _HIGH_ENTROPY)
    )


def _entropy(value: bytes) -> float:
    """Return Shannon's entropy of a value's characters, in bits for each."""
    length = len(value)
    return (
        math.log2(length) - sum([count * math.log2(count) for count in Counter(value).values() if count > 1]) / length
    )


def _changes(classes: bytes) -> float:
    """Return how often neighbours are of different classes; a capital that begins a word is no change."""
    return len(_CHANGE.findall(classes)) / max(len(classes) - 1, 1)
