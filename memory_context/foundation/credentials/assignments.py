"""Credentials recognised by a name: `DB_PASSWORD=…`, `"api_key": "…"`, `Authorization: …`, `mein Passwort ist …`.

RE2 finds the names and each is judged within a bounded reach, so this is linear.
"""

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Literal

from ..patterns import LinePattern, at_first_use, regex
from ..utf8 import from_utf8, to_utf8
from .lexicon import NAMES_PATTERN, CredentialName, Sort, name_of, names_a_credential

__all__ = ["is_placeholder", "is_random", "named_credentials", "states_a_credential"]

_KEY_WORD = (
    r"(?:passw(?:or)?d|pass(?:phrase|code)?|pwd|pswd|secret|token|key|auth|credentials?|sig|signature)"
    r"(?:[_-]?(?:value|base64|b64|plain|text|base|prod|staging|dev|old|new|\d{1,3}))?"
)
_ASSIGNED = at_first_use(
    LinePattern,
    _KEY_WORD + r"(?:\\*[\"']?[\])]?[ \t]{0,8}(?:[:=]|[ \t]\|[ \t])|>[^<\s]|[ \t]+\\*[\"'`][^ \t]|[ \t]+[^\s-]{6}"
    r"|\\*[\"'][ \t]*,|\\*[\"']?[ \t]*$"
    r"|\\*[\"'][ \t]+(?:value|content))",
    ignore_case=True,
)
"""The last word of a name, and the separator before its value."""
_WORD = regex(_KEY_WORD.encode() + rb"(?![A-Za-z0-9_])", re.IGNORECASE)
_HEADER = at_first_use(
    LinePattern,
    r"\b(?:(?:proxy-)?authorization\b.{1,8}?\b(?:basic|bearer|token|apikey|bot|digest)|bearer)[ \t]+[^\s\"']"
    r"|(?:set-)?cookie\\*[\"']?[ \t]*[:=]"
    r"|(?:^|[\s\"'\[,])(?:-u|--user)(?:[ \t=]|\\*[\"'],[ \t]*)*\\*[\"']?[A-Za-z0-9._%+@-]{1,64}:[^\s:]",
    ignore_case=True,
)

_NamedSort = Sort | Literal["token", "variable", "random"]
"""`token`: must have a digit; `variable`: a key if it is one of the environment; `random`: must look random."""

_SAID = at_first_use(LinePattern, NAMES_PATTERN, ignore_case=True, limit=len(NAMES_PATTERN))
"""A name of the lexicon."""
_VARIABLE = at_first_use(
    LinePattern,
    r"^[ \t]*(?:export[ \t]+|-[ \t]+)?[A-Z][A-Z0-9_]{2,60}=[\"']?[A-Za-z0-9_.~+/-]{32,200}=?=?[\"']?[ \t]*$",
)
"""A line of a file of variables whose value may be a key, whatever the name says."""

_NAME_REACH = 80
_SAID_REACH = 120  # bytes from a name to its value
_NAME_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.$@-"
_NAME_WORD = regex(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
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

_OTHER_SECRETS = frozenset(b"existing pull tls name ref from".split())

_OPENING = regex(rb"(?:\\*[\"'])?[\])]?[ \t]*(?:=>|:=|[:=]|(?<=[ \t])\|(?=[ \t]))?[ \t]*(?P<quote>\\*[\"'`])?|>")
_PAIR = regex(
    rb"\\*[\"']?[ \t]*,?\s{0,40}(?:\\*[\"'])?(?:value|content)(?:\\*[\"'])?[ \t]*[:=][ \t]*(?P<quote>\\*[\"'`])?",
    re.IGNORECASE,
)
"""`{"name": "DB_PASSWORD", "value": "…"}`, `- name: DB_PASSWORD`, below it `value: …`, `name="password" value="…"`."""
_QUOTED = {quote: regex(rb"[^\r\n" + re.escape(quote) + rb"\\]{1,4096}") for quote in (b'"', b"'", b"`")}
_BARE = regex(rb"[^\s\"'`,;&<>(){}\[\]\\]{1,4096}")
_TEXT_OF_XML = regex(rb"[^\s<>]{1,4096}(?=</)")
_CODE = regex(rb"\|\||&&|=>|\(|^[=!\])},;|]")
_BEHIND_A_QUOTE = (b"]", b")", b"}", b",", b";", b"|")
"""Beginnings of text after a closing quotation mark."""
_LOGIN = regex(rb"\blogin[ \t]+\S+[ \t]+password$|\bmachine[ \t]+\S+.{0,100}password$|--?[a-z][a-z-]*$", re.IGNORECASE)
_COOKIE = regex(rb"([A-Za-z0-9_.-]{1,80})=([^;\s\"'\\,]{12,4096})")
_COOKIE_NAME = regex(
    rb"sess|(?:^|[._-])sid$|auth|token|csrf|xsrf|jwt|login|remember|identity|credential", re.IGNORECASE
)
_BARE_HEADER = regex(rb"[^\s\"'\\,<>]{4,8192}")
_LINE_REACH = 4096
_LEAST_PASSWORD, _LEAST_KEY, _LEAST_WORDS, _LEAST_LONE_KEY = 5, 8, 3, 32

_ASCII_RUN = regex(rb"[!-~]{4,}")
_AT_THE_END = regex("(?:[.:?*_]|»|”|“|’|」|』|。|，|、|？)+$".encode())  # not `!`, which ends passwords
_DIGIT = regex(rb"\d")
_LETTER = regex(rb"[A-Za-z\x80-\xff]")
_COMPOUNDS = (b"passwort", b"kennwort", b"wachtwoord", b"password", b"passord")
_NO_VALUE = regex(
    rb"\d{1,3}-[a-z]+$|\d{4}-\d\d-\d\d|(?:sha|md|aes|base|utf|argon|pbkdf|rsa|hmac|bcrypt|scrypt|oauth|v)-?\d"
    rb"|[^@\s]+@[^@\s]+\.[a-z]+$",
    re.IGNORECASE,
)
"""Words after "password" in prose that are no password: `8-stellig`, a date, `SHA-256`, an address."""
_NO_KEY = regex(
    rb"sha\d*|hash|digest|checksum|sum|etag|integrity|commit|revision|rev|version|build|tag|uuid|guid|fingerprint|image"
    rb"|path|dirs?|home|url|uri|host|file|trace|span|cursor|public|_ids?$",
    re.IGNORECASE,
)
_SENTENCE = frozenset(
    b"a an the is are was be not no your my to for of and or in on must please has have this password token secret key "
    b"credential credentials".split()
)


_LEAST_RANDOM_BYTES = 12
_LEAST_ENTROPY = 3.0  # bits a character; 16 random hex digits have 3.3, English words 2.8
_LONG_RUN_BYTES, _HIGH_ENTROPY = 20, 3.5  # no name is that long without separators
_LEAST_CHANGES = 0.2  # share of neighbours of different classes

_UUID = regex(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_STAND_INS = frozenset(
    b"none null nil true false undefined yes no on off required optional hidden masked encrypted string str int bytes "
    b"any password passwd pass passwort kennwort pwd pw secret token key user username todo na n/a empty test "
    b"value unset".split()
)
_TEMPLATE = regex(rb"[\[({<%$#]|([*x#._-])\1\1|\xe2\x80\xa2\xe2\x80\xa2", re.IGNORECASE)
"""Beginning of a variable, a template, `xxxx`, asterisks, bullets."""
_SPEAKS_OF_ITSELF = regex(
    rb"\$[{(]|\{\{|<[a-z_ -]+>|%[(s]|\.\.\.|\xe2\x80\xa6|\*\*\*\*|xxxx|redacted|example|placeholder|change[_-]?me|"
    rb"replace|your[_-]|my[_-]?(?:secret|token|password|api)|dummy|insert",
    re.IGNORECASE,
)
_WORDS = regex(rb"[A-Za-z]*|[A-Za-z_$][A-Za-z_]*\d{0,2}(?:(?:\.|->|::|\?\.)[A-Za-z_]\w*)+")
_SEPARATORS = b"-_."
_CLASSES = bytes.maketrans(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", b"A" * 26 + b"a" * 26 + b"0" * 10
)
_CHANGE = regex(rb"A(?=0)|a(?=[A0])|0(?=[Aa])")
_BASE64 = regex(rb"[A-Za-z0-9+/]{24,}={0,2}")
_TOKEN = regex(rb"[\w~+/=-]*\d[\w~+/=-]*")
_LABEL = regex(rb"[A-Z][a-z]+\.?|.*[({].*")
_NAME = regex(rb"[A-Za-z_\x80-\xff][\w\x80-\xff-]*")
_HEX = regex(rb"[0-9a-fA-F]+")
_HEX_NUMBER = regex(rb"0x[0-9a-fA-F]+")
_FILE = regex(rb"(?:\.{0,2}/|~/|[A-Za-z]:\\).*|.*/.*\.[a-z]{1,5}|.*\.(?:py|js|ts|json|ya?ml|txt|md|pem|key|crt|html)")


def named_credentials(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and kind in UTF-8 text, not in order."""
    for pattern, span_of in ((_ASSIGNED, _assigned), (_SAID, _said), (_VARIABLE, _variable)):
        for span in _spans(data, pattern, span_of):
            yield *span, "named"
    done = 0
    for start, end in _HEADER.spans(data, 0, len(data), deadline=math.inf):
        if start < done:
            continue
        if b"cookie" in data[start:end].lower():
            done = data.find(b"\n", end, end + _LINE_REACH)
            done = done if done >= 0 else min(end + _LINE_REACH, len(data))
            for cookie in _COOKIE.finditer(data, end, done):
                if _COOKIE_NAME.search(cookie[1]) and is_random(cookie[2]):
                    yield *cookie.span(2), "cookie"
        elif (span := _of_header(data, start, end)) is not None:
            done = span[1]
            yield *span, "header"


def states_a_credential(text: str) -> bool:
    """Return whether a text says what a password or key is, even by a plain word, which no mask finds."""
    data = to_utf8(text)
    return any(_spans(data, _SAID, lambda data, start, end: _said(data, start, end, is_any_value=True)))


def _spans(
    data: bytes, pattern: LinePattern, span_of: Callable[[bytes, int, int], tuple[int, int] | None]
) -> Iterator[tuple[int, int]]:
    done = 0
    for start, end in pattern.spans(data, 0, len(data), deadline=math.inf):
        span = span_of(data, start, end) if start >= done else None
        if span is not None:
            done = span[1]
            yield span


# --- names in files and code


def _assigned(data: bytes, start: int, _: int) -> tuple[int, int] | None:
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
    if value is None or data[value.end() : value.end() + 1] in (b"(", b"["):
        return None
    is_env = name.isupper() and opening[0].strip(b"\\\"'") == b"="
    return value.span() if _counts(value[0], sort, is_quoted=bool(quote), is_env=is_env) else None


@lru_cache(maxsize=1024)
def _sort_of(name: bytes) -> _NamedSort | None:
    """Return the sort of a credential's name."""
    words = [word.lower() for word in _NAME_WORD.findall(name)]
    while len(words) > 1 and (words[-1] in _SUFFIXES or words[-1].isdigit()):
        words.pop()
    if not words or words[0] == b"on" or b"public" in words:  # a handler such as onPassword, a public key
        return None
    last, before = words[-1], words[-2] if len(words) > 1 else b""
    if last in _PASSWORDS or last.endswith((b"password", b"passwd", b"passphrase")):
        return "password"
    if last == b"token":
        if before in _OTHER_TOKENS:
            return None
        return "key" if before in _KEYS else "variable" if name.isupper() else "token"
    if last == b"key":
        if before in _KEYS:
            return "key"
        return "variable" if before and name.isupper() and before not in _OTHER_KEYS else None
    if last in (b"sig", b"signature"):
        return "random" if last == b"sig" or before in (b"amz", b"goog") else None
    if last == b"secret":
        return "random" if before in _OTHER_SECRETS else "key"
    if last in _JOINED:
        return "key"
    return "random" if last in (b"auth", b"credential", b"credentials") else None


def _variable(data: bytes, start: int, end: int) -> tuple[int, int] | None:
    """Return the value of a variable that is a key by its looks: long, random, and no checksum or id."""
    name, _, value = data[start:end].partition(b"=")
    value = value.strip(b" \t\"'")
    if _NO_KEY.search(name) or not is_random(value) or is_word_or_code(value) or is_placeholder(value):
        return None
    if _HEX.fullmatch(value) or _UUID.fullmatch(value):
        return None
    at = data.index(value, start + len(name), end)
    return at, at + len(value)


# --- names of the lexicon, in prose too


def _said(data: bytes, start: int, end: int, *, is_any_value: bool = False) -> tuple[int, int] | None:
    """Return what is said, or assigned, to be the value of a name of the lexicon."""
    name = data[start:end]
    known = name_of(from_utf8(name))
    if known is None or not _is_whole_name(data, start, end, known):
        return None
    opening = known.opening.match(data, end, end + _SAID_REACH)
    if opening is None or (opening["is"] is None and known.language == "en" and name.isalpha() and not is_any_value):
        return None  # the rules of identifiers have judged it
    quote: bytes = opening["quote"] or b""
    is_plain_quote = quote[-1:] in _QUOTED
    value = (_QUOTED[quote[-1:]] if is_plain_quote else _BARE).match(data, opening.end())
    if value is None or data[value.end() : value.end() + 1] in (b"(", b"["):
        return None
    found = value[0]
    if known.is_unspaced and (ascii_run := _ASCII_RUN.match(found)):
        found = ascii_run[0]  # of `tanuki42です`
    if not is_plain_quote:
        found = _AT_THE_END.sub(b"", found)
    span = value.start(), value.start() + len(found)
    if is_any_value:
        return span if found and not is_placeholder(found) else None
    if opening["is"] is None:
        is_env = name.isupper() and opening[0] == b"="
        is_credential = not _NO_VALUE.match(found) and _counts(found, known.sort, is_quoted=bool(quote), is_env=is_env)
    else:
        is_credential = _is_said_value(found, known.sort, is_quoted=bool(quote))
    return span if is_credential else None


def _is_whole_name(data: bytes, start: int, end: int, known: CredentialName) -> bool:
    """Return whether a name is a whole word, the end of a compound or of an identifier."""
    if known.is_unspaced:
        return True
    if _LETTER.match(data, end):
        return False
    before = data[start - 1 : start] if start else b""
    if known.language == "en":
        return not before or before not in _NAME_BYTES
    if not _LETTER.match(before):
        return True
    is_capital = data[start : start + 1].isupper() and before.islower()
    return is_capital or data[start:end].lower().endswith(_COMPOUNDS)


def _is_said_value(value: bytes, sort: Sort, *, is_quoted: bool) -> bool:
    """Return whether prose names a credential: quoted, or as no word of a sentence is."""
    if len(value) < _LEAST_PASSWORD or is_placeholder(value):
        return False
    if is_quoted:
        return b" " not in value
    if _NO_VALUE.match(value) or _CODE.search(value):
        return False
    if sort == "key":
        return len(value) >= _LEAST_RANDOM_BYTES and _DIGIT.search(value) is not None and not is_word_or_code(value)
    return (value.isdigit() and len(value) > _LEAST_PASSWORD) or not is_word_or_code(value)


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


def _counts(value: bytes, sort: _NamedSort, *, is_quoted: bool = False, is_env: bool = False) -> bool:
    """Return whether it is a credential; `NAME=value` is never code."""
    if not is_quoted:
        value = value.rstrip(b".:!?")
    is_code = value.startswith(_BEHIND_A_QUOTE) if is_quoted else _CODE.search(value) is not None
    if is_code or len(value) < _LEAST_PASSWORD or is_placeholder(value):
        return False
    if sort == "variable":
        sort = "key" if is_env else "random"
    if b" " in value:
        return sort in ("password", "key") and is_quoted and (is_env or _is_passphrase(value))
    if sort == "password":
        return not value.isdigit() if is_env else not is_word_or_code(value)
    if is_random(value) and not is_word_or_code(value):
        return True
    if sort == "key":
        return _is_plain_key(value, is_quoted=is_quoted, is_env=is_env)
    is_mixed = is_quoted and len(value) >= _LEAST_KEY and _TOKEN.fullmatch(value) and not is_word_or_code(value)
    return sort == "token" and bool(is_mixed)


def _is_plain_key(value: bytes, *, is_quoted: bool, is_env: bool) -> bool:
    """Return whether a key that does not look random is one: no path, address, or name of a variable or a key."""
    if b"://" in value or (_FILE.fullmatch(value) and not _is_base64(value)):
        return False
    if is_env:
        return not value.isdigit() or len(value) >= _LEAST_KEY
    if (
        len(value) < _LEAST_KEY
        or _LABEL.fullmatch(value)
        or (_WORDS.fullmatch(value) and (b"." in value or not is_quoted))
    ):
        return False
    if _NAME.fullmatch(value) and names_a_credential(value.decode("utf-8", "replace")):
        return False
    if is_quoted or not is_word_or_code(value):
        return True
    return value.isdigit() or (_HEX_NUMBER.fullmatch(value) is not None and len(value) > _LONG_RUN_BYTES)


def _is_passphrase(value: bytes) -> bool:
    """Return whether words are a passphrase rather than a sentence about one."""
    words = value.split(b" ")
    is_plain = len(words) >= _LEAST_WORDS and all(word.isalnum() and not word[:1].isupper() for word in words)
    return is_plain and not _SENTENCE.intersection(words)


def is_placeholder(value: bytes) -> bool:
    """Return whether a value stands for a credential: a variable, a template, asterisks, `changeme`."""
    if _TEMPLATE.match(value) or value.strip(b"*])}>").lower() in _STAND_INS or value.count(b"*") == len(value):
        return True
    return _SPEAKS_OF_ITSELF.search(value) is not None


def is_word_or_code(value: bytes) -> bool:
    """Return whether a value is a word, number, name such as `settings.password`, path or URL."""
    if _WORDS.fullmatch(value) or b"://" in value or (_FILE.fullmatch(value) and not _is_base64(value)):
        return True
    pieces = [piece for piece in re.split("[_-]", value.decode("utf-8", "replace")) if piece]
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
    changes = len(_CHANGE.findall(classes)) / max(len(classes) - 1, 1)  # an initial capital is not one
    return entropy >= _LEAST_ENTROPY and (changes >= _LEAST_CHANGES or (is_one_run and entropy >= _HIGH_ENTROPY))


def _entropy(value: bytes) -> float:
    length = len(value)
    return (
        math.log2(length) - sum([count * math.log2(count) for count in Counter(value).values() if count > 1]) / length
    )
