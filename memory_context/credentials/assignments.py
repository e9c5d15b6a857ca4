"""Credentials recognised by a name: `DB_PASSWORD=…`, `"api_key": "…"`, `Authorization: …`; RE2 keeps this linear."""

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from ..patterns import LinePattern

__all__ = ["is_placeholder", "is_random", "named_credentials"]

_KEY_WORD = (
    r"(?:passw(?:or)?d|pass(?:phrase|code)?|pwd|pswd|secret|token|key|auth|credentials?|sig|signature)"
    r"(?:[_-]?(?:value|base64|b64|plain|text|base|prod|staging|dev|old|new|\d{1,3}))?"
)
_ASSIGNED = LinePattern(
    _KEY_WORD + r"(?:\\*[\"']?[\])]?[ \t]{0,8}(?:[:=]|[ \t]\|[ \t])|>[^<\s]|[ \t]+\\*[\"'`][^ \t]|[ \t]+[^\s-]{6}"
    r"|\\*[\"'][ \t]*,|\\*[\"']?[ \t]*$"
    r"|\\*[\"'][ \t]+(?:value|content))",
    ignore_case=True,
)
"""The last word of a name, and the separator before its value."""
_WORD = re.compile(_KEY_WORD.encode() + rb"(?![A-Za-z0-9_])", re.IGNORECASE)
_HEADER = LinePattern(
    r"\b(?:(?:proxy-)?authorization\b.{1,8}?\b(?:basic|bearer|token|apikey|bot|digest)|bearer)[ \t]+[^\s\"']"
    r"|(?:set-)?cookie\\*[\"']?[ \t]*[:=]"
    r"|(?:^|[\s\"'\[,])(?:-u|--user)(?:[ \t=]|\\*[\"'],[ \t]*)*\\*[\"']?[A-Za-z0-9._%+@-]{1,64}:[^\s:]",
    ignore_case=True,
)

_NAME_REACH = 80
_NAME_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.$@-"
_NAME_WORD = re.compile(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SUFFIXES = frozenset(b"value base64 b64 plain text base prod staging dev old new".split())

_PASSWORDS = frozenset((b"password", b"passwd", b"passphrase", b"passcode", b"pwd", b"pass", b"pswd"))
_VERBS = frozenset((b"pass", b"key"))
_KEYS = frozenset(
    b"api access secret private signing encryption auth account master shared service subscription storage app "
    b"application deploy webhook hmac jwt consumer client admin sas license server".split()
)
_JOINED = frozenset(
    b"apikey accesskey secretkey privatekey authkey accountkey sharedaccesskey authtoken accesstoken apitoken "
    b"clientsecret appsecret secretaccesskey sharedkey masterkey appkey signingkey encryptionkey".split()
)
_OTHER_TOKENS = frozenset(
    b"page next continuation sync cursor pad eos bos unk sep cls mask special max min start end stop first last resume "
    b"progress prev previous per total prompt completion input output new num sample change delta position list "
    b"idempotency client_request dedup image media sub word text".split()
)
_OTHER_KEYS = frozenset(
    b"public primary foreign partition sort cache memory object row hash routing idempotency dedup lookup unique index "
    b"composite map dict json group message hot short host known s3 pub registry translation i18n issue".split()
)

_OPENING = re.compile(rb"(?:\\*[\"'])?[\])]?[ \t]*(?:=>|:=|[:=]|(?<=[ \t])\|(?=[ \t]))?[ \t]*(?P<quote>\\*[\"'`])?|>")
_PAIR = re.compile(
    rb"\\*[\"']?[ \t]*,?\s{0,40}(?:\\*[\"'])?(?:value|content)(?:\\*[\"'])?[ \t]*[:=][ \t]*(?P<quote>\\*[\"'`])?",
    re.IGNORECASE,
)
"""`{"name": "DB_PASSWORD", "value": "…"}`, `- name: DB_PASSWORD`, below it `value: …`, `name="password" value="…"`."""
_QUOTED = {quote: re.compile(rb"[^\r\n" + re.escape(quote) + rb"\\]{1,4096}") for quote in (b'"', b"'", b"`")}
_BARE = re.compile(rb"[^\s\"'`,;&<>(){}\[\]\\]{1,4096}")
_TEXT_OF_XML = re.compile(rb"[^\s<>]{1,4096}(?=</)")
_CODE = re.compile(rb"\|\||&&|=>|\(|^[=!\])},;|]")
_BEHIND_A_QUOTE = (b"]", b")", b"}", b",", b";", b"|")
"""Beginnings of text after a closing quotation mark."""
_LOGIN = re.compile(
    rb"\blogin[ \t]+\S+[ \t]+password$|\bmachine[ \t]+\S+.{0,100}password$|--?[a-z][a-z-]*$", re.IGNORECASE
)
_COOKIE = re.compile(rb"([A-Za-z0-9_.-]{1,80})=([^;\s\"'\\,]{12,4096})")
_COOKIE_NAME = re.compile(
    rb"sess|(?:^|[._-])sid$|auth|token|csrf|xsrf|jwt|login|remember|identity|credential", re.IGNORECASE
)
_BARE_HEADER = re.compile(rb"[^\s\"'\\,<>]{4,8192}")
_LINE_REACH = 4096
_LEAST_PASSWORD = 5


_LEAST_RANDOM_BYTES = 12
_LEAST_ENTROPY = 3.0  # bits a character; 16 random hex digits have 3.3, English words 2.8
_LONG_RUN_BYTES, _HIGH_ENTROPY = 20, 3.5  # no name is that long without separators
_LEAST_CHANGES = 0.2  # share of neighbours of different classes

_UUID = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_STAND_INS = frozenset(
    b"none null nil true false undefined yes no on off required optional hidden masked encrypted string str int bytes "
    b"any password passwd pass passwort pwd pw secret token key user username todo na n/a empty test".split()
)
_TEMPLATE = re.compile(rb"[\[({<%$#]|([*x#._-])\1\1|\xe2\x80\xa2\xe2\x80\xa2", re.IGNORECASE)
"""Beginning of a variable, a template, `xxxx`, asterisks, bullets."""
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


def named_credentials(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and kind in UTF-8 text, not in order."""
    done = 0
    for start, _ in _ASSIGNED.spans(data, 0, len(data), deadline=math.inf):
        span = _assigned(data, start) if start >= done else None
        if span is not None:
            done = span[1]
            yield *span, "named"
    done = 0
    for start, end in _HEADER.spans(data, 0, len(data), deadline=math.inf):
        if start < done:
            continue
        if b"cookie" in data[start:end].lower():
            done = data.find(b"\n", end, end + _LINE_REACH)
            done = done if done >= 0 else min(end + _LINE_REACH, len(data))
            yield from _cookies(data, end, done)
        elif (span := _of_header(data, start, end)) is not None:
            done = span[1]
            yield *span, "header"


def _assigned(data: bytes, start: int) -> tuple[int, int] | None:
    """Return the credential assigned to the name whose last word begins here."""
    word = _WORD.match(data, start)
    if word is None:
        return None
    word_end = word.end()
    reached = data[max(start - _NAME_REACH, 0) : word_end]
    name = reached[len(reached.rstrip(_NAME_BYTES)) :]
    sort = _sort_of(name)
    if sort is None:
        return None
    if data[word_end : word_end + 1] == b">":  # <password>…</password>
        value = _TEXT_OF_XML.match(data, word_end + 1)
        return value.span() if value and _counts(value[0], sort, is_quoted=True) else None
    opening = _PAIR.match(data, word_end) or _OPENING.match(data, word_end)
    if opening is None:
        return None
    quote: bytes = opening["quote"] or b""
    sign = opening[0].strip(b" \t\"'`\\])")
    if not sign and name.lower() in _VERBS:
        return None
    if not sign and not quote and not _LOGIN.search(data, max(start - _NAME_REACH, 0), word_end):
        return None  # `password hunter2` counts in .netrc and options, not in prose
    value = (_QUOTED[quote[-1:]] if quote else _BARE).match(data, opening.end())
    if value is None or b" " in value[0] or data[value.end() : value.end() + 1] in (b"(", b"["):
        return None
    is_env = name.isupper() and opening[0].strip(b"\\\"'") == b"="
    return value.span() if _counts(value[0], sort, is_quoted=bool(quote), is_env=is_env) else None


@lru_cache(maxsize=1024)
def _sort_of(name: bytes) -> str | None:
    """Return "password" or "key" for a credential's name."""
    words = [word.lower() for word in _NAME_WORD.findall(name)]
    while len(words) > 1 and (words[-1] in _SUFFIXES or words[-1].isdigit()):
        words.pop()
    if not words or words[0] == b"on" or b"public" in words:  # a handler such as onPassword, a public key
        return None
    last, before = words[-1], words[-2] if len(words) > 1 else b""
    if last in _PASSWORDS or last.endswith((b"password", b"passwd", b"passphrase")):
        return "password"
    if last == b"token":
        return None if before in _OTHER_TOKENS else "key"
    if last == b"key":
        if before in _KEYS:
            return "key"
        return "key" if before and name.isupper() and before not in _OTHER_KEYS else None
    if last in (b"sig", b"signature"):
        return "key" if last == b"sig" or before in (b"amz", b"goog") else None
    if last in _JOINED or last in (b"secret", b"auth", b"credential", b"credentials"):
        return "key"
    return None


def _counts(value: bytes, sort: str, *, is_quoted: bool = False, is_env: bool = False) -> bool:
    """Return whether it is a credential; keys must look random, `NAME=value` is never code."""
    if not is_quoted:
        value = value.rstrip(b".:!?")
    is_code = value.startswith(_BEHIND_A_QUOTE) if is_quoted else _CODE.search(value) is not None
    if is_code or is_placeholder(value):
        return False
    if sort == "key":
        return is_random(value) and not is_word_or_code(value)
    if is_env:
        return len(value) >= _LEAST_PASSWORD and not value.isdigit()
    return len(value) >= _LEAST_PASSWORD and not is_word_or_code(value)


def _cookies(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    for cookie in _COOKIE.finditer(data, start, end):
        if _COOKIE_NAME.search(cookie[1]) and is_random(cookie[2]):
            yield *cookie.span(2), "cookie"


def _of_header(data: bytes, start: int, end: int) -> tuple[int, int] | None:
    value = _BARE_HEADER.match(data, end - 1)
    if value is None or is_placeholder(value[0]):
        return None
    lead = data[start:end].lower()
    if b"authorization" in lead or b"bearer" in lead:
        is_credential = _is_basic(value[0]) if b"basic" in lead else is_random(value[0])
    else:
        is_credential = not is_word_or_code(value[0]) and _CODE.search(value[0]) is None
    return value.span() if is_credential else None


def _is_basic(value: bytes) -> bool:
    """Return whether a value is `user:password` in base64 (RFC 7617)."""
    try:
        return b":" in base64.b64decode(value + b"=" * (-len(value) % 4))
    except (binascii.Error, ValueError):
        return False


# --- values


def is_placeholder(value: bytes) -> bool:
    """Return whether a value stands for a credential: a variable, a template, asterisks, `changeme`."""
    if _TEMPLATE.match(value) or value.strip(b"*])}>").lower() in _STAND_INS or value.count(b"*") == len(value):
        return True
    return _SPEAKS_OF_ITSELF.search(value) is not None


def is_word_or_code(value: bytes) -> bool:
    """Return whether a value is a word, number, name such as `settings.password`, path or URL."""
    if _WORDS.fullmatch(value) or b"://" in value or (_FILE.fullmatch(value) and not _is_base64(value)):
        return True
    pieces = [piece for piece in re.split(rb"[_-]", value) if piece]
    return (
        value.replace(b".", b"").isdigit()
        or _HEX_NUMBER.fullmatch(value) is not None
        or all(piece.isalpha() for piece in pieces)
    )


def _is_base64(value: bytes) -> bool:
    if not _BASE64.fullmatch(value):
        return False
    return b"+" in value or value.endswith(b"=") or any(map(is_random, value.split(b"/")))


def is_random(value: bytes) -> bool:
    """Return whether a value is long and mixes letters and digits as no name does."""
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
    length = len(value)
    return (
        math.log2(length) - sum([count * math.log2(count) for count in Counter(value).values() if count > 1]) / length
    )


def _changes(classes: bytes) -> float:
    """Return the share of class changes; an initial capital is not one."""
    return len(_CHANGE.findall(classes)) / max(len(classes) - 1, 1)
