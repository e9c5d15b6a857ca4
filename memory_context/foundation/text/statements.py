"""Short statements: which words carry their meaning, when two say the same, and when one replaces another.

A statement replaces an older one if both answer the same question. Courtesies and quotations add nothing.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from ..patterns import regex
from .lexicon import COURTESIES, ENGLISH_STOP_WORDS, FILLERS, GREETINGS, NEGATIONS
from .tokenize import folded, query_terms, telling_terms, terms_of

__all__ = [
    "adds_nothing",
    "canonical_words",
    "ends_another",
    "has_relative_time",
    "indices_of_ended",
    "is_courtesy",
    "is_question",
    "is_supported",
    "may_replace",
    "replaces_others",
    "says_nothing",
    "subject_of",
    "unchangeable_words",
]


_NOT = regex(r"n['’]t\b", re.IGNORECASE)
_DAYS = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch|sonnabend"
_RELATIVE_TIME = regex(
    r"\b(?:today|tonight|tomorrow|yesterday|soon|recently|currently|ago|heute|morgen|gestern|vorgestern|übermorgen|bald|"
    r"kürzlich|derzeit|(?:this|next|last|coming|diese\w*|nächste\w*|letzte\w*|kommende\w*) (?:"
    rf"week(?:end)?|month|year|spring|summer|autumn|fall|winter|time|woche(?:nende)?|monat|jahr|{_DAYS})|"
    rf"(?:on|by|until|am|bis) (?:{_DAYS})|(?:in|vor|since|seit) (?:an?|one|two|three|\d+|ein\w*|zwei|drei) "
    r"(?:hour|day|week|month|year|stunde|tag|woche|monat|jahr)\w*)\b",
    re.IGNORECASE,
)
_EDGES = ".,;:!\"'`“”„‘’«»()[]…"


def canonical_words(text: str) -> tuple[str, ...]:
    """Return the words of a statement in order, without case, punctuation and fillers.

    Equal words mean the same statement. Numbers, paths and names within a sentence stay as written.
    """
    kept = [word for word in _words(text.replace("?", " ? ")) if folded(word) not in FILLERS]
    return tuple(folded(word) if index == 0 or word.islower() else word for index, word in enumerate(kept))


def has_relative_time(text: str) -> bool:
    """Return whether a statement means another day whenever it is said: "next month", "on Friday", "vor drei Tagen"."""
    return _RELATIVE_TIME.search(text) is not None


def unchangeable_words(text: str) -> frozenset[str]:
    """Return numbers, names, dates and paths as written, and "not" for any negation: no paraphrase may change them."""
    return frozenset(map(_unchangeable, _words(text))) - {""}


def is_supported(statement: str, sources: Iterable[str]) -> bool:
    """Return whether each unchangeable word of a statement stands in a source, and no negation was added or dropped.

    The first word begins with a capital in any case: another form of it in a source is enough.
    """
    sources = list(sources)
    known = frozenset[str]().union(*map(unchangeable_words, sources))
    words = set(unchangeable_words(statement))
    first = next((word for word in _words(statement) if folded(word) not in FILLERS), "")
    said = chain.from_iterable(map(terms_of, sources))
    if first.istitle() and (folded(first) in ENGLISH_STOP_WORDS or not set(terms_of(first)).isdisjoint(said)):
        words.discard(first)
    return words <= known and ("not" in words) == ("not" in known)


def _words(text: str) -> list[str]:
    return [word for part in _NOT.sub(" not", text).split() if (word := part.strip(_EDGES))]


def _unchangeable(word: str) -> str:
    word = word.rstrip("?")
    lower = folded(word)
    if lower in NEGATIONS:
        return "not"
    return "" if lower in FILLERS or (word.isalpha() and word.islower()) else word


_KNOWN_SHARE = 0.8
_LONGEST_COURTESY, _COURTESY_CHARACTERS = 12, 400  # words, characters
_SENTENCE = regex(r"[^.!?。！？\n]+[.!?。！？]*")
_QUESTION = regex(
    r"^\W*(?:what|where|when|which|who|whom|whose|why|how|is|are|was|were|do|does|did|can|could|would|will|should|have|has"
    r"|was|wo|wann|welche[rsnm]?|wer|wen|wem|wessen|warum|wieso|wie|qué|dónde|cuándo|cuál|quién|cómo|où|quand|quel(?:le)?s?"
    r"|qui|pourquoi|comment)\b(?=.*[?？])",
    re.IGNORECASE,
)


def says_nothing(text: str) -> bool:
    """Return whether a text is a greeting, thanks or a mere "noted"."""
    return _has_only(text, COURTESIES)


def is_courtesy(text: str) -> bool:
    """Return whether a text only greets or thanks: unlike "yes" and "do it again", it asks for nothing."""
    return _has_only(text, GREETINGS)


def _has_only(text: str, words: frozenset[str]) -> bool:
    said = re.findall(r"[^\W_]+", text[: _COURTESY_CHARACTERS + 1].casefold())
    return len(text) <= _COURTESY_CHARACTERS and len(said) <= _LONGEST_COURTESY and words.issuperset(said)


def is_question(text: str) -> bool:
    """Return whether a text asks, and does nothing else but greet."""
    said = [one for one in _SENTENCE.findall(text) if one.strip() and not says_nothing(one)]
    return bool(said) and all(one.rstrip().endswith(("?", "？")) or _QUESTION.match(one) for one in said)


def adds_nothing(text: str, known: Iterable[str]) -> bool:
    """Return whether one of the known texts has nearly all words of a text that tell something."""
    told = {term for term in query_terms(text) if term not in COURTESIES}
    return any(len(told & set(terms_of(one))) >= _KNOWN_SHARE * len(told) for one in known) if told else True


_MY = r"(?:my|our|mein|meine|unser|unsere)"
_IS = r"is|are|ist|sind|lautet"
_CALLED = r"(?:is|are) (?:called|named)|heisst|heissen"
_NOW = regex(r"\b(?:now|from now on|ab jetzt|ab sofort|jetzt|nun|inzwischen),? ", re.I)
_POLITE = regex(r"\b(?:please|bitte) ", re.IGNORECASE)
_ALSO = regex(r"\b(?:also|too|another|second|other|auch|zweite\w*|ander\w+|weitere\w*)\b", re.IGNORECASE)
_CHANGED = regex(
    r"\b(?:now|instead|changed|switched|moved|relocated|renamed|replaced|jetzt|nun|stattdessen|gewechselt|umgezogen)\b",
    re.IGNORECASE,
)
_EDGES_OF_PARTS = " .,;:!\"'`“”„‘’«»()[]…"

_HAS = regex(rf"{_MY} ((?:[\w@#+./'’-]+ ){{1,4}}?)(?:(?P<called>{_CALLED})|(?P<changed>(?:has )?changed to)|{_IS}) ")
_CHOSEN = regex(
    r"(?:favou?rite|preferred|default|main|primary|usual|lieblings\w*|bevorzugte\w*|standard\w*)\b|(?:.* )?(?:editor|"
    r"shell|browser|font|theme|time ?zone|zeitzone|language|sprache|name|nickname|birthday|geburtstag)$"
)
_IDENTIFIED = regex(
    r"(?:.* )?(?:e-?mail|e-?mail-?adresse|address|adresse|\w*number|\w*nummer|phone|telefon|locale|currency|handle|"
    r"username|account|domain|database|db|datenbank|\w*server|host|cluster|\w*branch|\w*zweig|repo|repository|region|"
    r"company|firma|employer|arbeitgeber|team|department|abteilung|boss|chef|chefin|manager|bank)$"
)
"""One value at a time, which names or identifies it. Of relatives, pets and vehicles people have several."""
_NO_VALUE = regex(
    r"(?:an?|the|ein\w*|kein\w*|der|die|das|in|im|on|at|an|am|auf|bei|of|to|for|from|with|by|under|near|between|not|no|"
    r"nicht|very|too|so|still|always|never|mostly|only|just|right|wrong|up|down|off|here|there|more|less|my|our|your|"
    r"broken|slow|fast|old|new|full|empty|good|bad|great|nice|open|closed|big|small|large|ready|fine|ok|okay|gone|lost|"
    r"late|kaputt|langsam|schnell|alt|neu|voll|leer|gut|schlecht|zu|sehr)\b"
)
_VERB_FORM = regex(r"[a-z]+ing\b|[a-z]{3,}ed\b(?<!red)")
_NAME_LIKE = regex(r"[^\W\d_a-zà-ÿ]|\S*[\w][./:@_-]\w|\+?\d[\d /-]{4,}$|(?=\S*\d)[a-z]")
_FIXED = (
    (regex(r"(?:i am called|ich heisse) "), "my name"),
    (regex(r"(?:you can )?(?:call me|nenne? mich) "), "my nickname"),
    (
        regex(r"i am based in |i (?:live in|moved to) |ich (?:wohne|lebe) in "),
        "my home",
    ),
    (regex(r"i work (?:at|for) |ich arbeite (?:bei|fur) "), "my employer"),
)
_LANGUAGE = regex(
    r"(?:(?:i )?prefers? (?:answers|replies|responses) in|(?:(?:always|only|you|me|to|answer|reply|respond|write|talk|"
    r"speak|antworte|schreib|schreibe|sprich|mir|immer|nur) )+(?:in|auf)) "
    r"(?:english|german|french|spanish|portuguese|italian|deutsch|englisch|franzosisch|spanisch)\b"
)
_PREFERS = regex(
    r"(?:i|we|ich|wir)? ?(?:prefer|prefers|bevorzuge|bevorzugen) (.+?) (?:over|to|rather than|instead of|gegenuber|"
    r"statt|anstatt|vor) (.+)"
)
_HABIT = regex(r"\b(?:always|never|don't|do not|immer|nie|niemals)\b")
_HABIT_WORDS = FILLERS | NEGATIONS | {"we", "wir", "do", "should", "ever", "always", "immer"}
_OF_USER = regex(r"^(?:the )?user (\w+?)s? ")
_SPELLED = ("favorite", "favourite"), ("color", "colour"), ("time zone", "timezone")
_LIMIT_CHARACTERS = 120

_ENDED = regex(
    r"\bno longer\b|\bnicht (?:mehr|länger)\b|(?:\b(?:not|never|cannot)|n['’]t)\b.*\bany ?(?:more|longer)\b|"
    r"\bkein\w*\b.* mehr\b",
    re.IGNORECASE,
)
_ENDS = regex(
    r"\bno longer\b|\bnicht (?:mehr|länger)\b|\b(?:not|never|cannot)\b|n['’]t\b|\bany ?(?:more|longer)\b|\bkein\w*\b|"
    r"\bmehr\b",
    re.IGNORECASE,
)
_CONTRAST = regex(r"(?:[,;]? (?:but|sondern|and now|und jetzt|und nun)|[,;] (?:now|jetzt|nun))\b.*", re.IGNORECASE)
_POINTS_BACK = regex(r"\b(?:there|it|that|this|these|those|so|them|dort|das|dies\w*)\W*$", re.IGNORECASE)
_ADVERBS = {"always", "never", "usually", "please", "also", "really", "still", "just", "immer", "nie", "bitte", "auch"}
_SPEAKERS = {"i", "we", "ich", "wir", "user", "i'm", "we're", "i've", "im"}
_OWNED = {"my", "our", "mein", "meine", "meinen", "meinem", "unser", "unsere", "unseren"}
_LINKED = regex(r"(\S+) (?:and|or|und|oder) (\S+)", re.IGNORECASE)


def subject_of(statement: str) -> str | None:
    """Return the question that a statement answers, such as "my database"; None if no rule tells one.

    Rules: "my X is NAME" of things of which a person has one, "I prefer A over B" of the pair, "always X" and "never X"
    of X; names, homes, employers and the language of answers have questions of their own. "My X is ADJECTIVE" and
    "my X is in …" answer others.
    """
    if _ALSO.search(statement) or ends_another(statement):
        return None
    plain = _POLITE.sub("", _NOW.sub("", f"{statement} "))
    plain = re.sub(r"\b([Ii])['’]m\b", r"\1 am", " ".join(plain.split()))
    text = f"{folded(plain).strip(_EDGES_OF_PARTS)} "
    text = _OF_USER.sub(r"i \1 ", re.sub(r"^(?:the )?user's ", "my ", text))
    found = _question(text, plain.split())
    for american, british in _SPELLED:
        found = found and found.replace(american, british)
    return found[:_LIMIT_CHARACTERS] if found else None


def replaces_others(statement: str) -> bool:
    """Return whether a statement replaces older answers to its question.

    "My dog is called Rex" may speak of a second dog, while "is now called Rex" and "my server is called heron" replace.
    """
    has = _HAS.match(f"{folded(_NOW.sub('', statement))} ")
    if has is None or _is_single(has[1].strip()):
        return True
    return has["changed"] is not None or _CHANGED.search(statement) is not None


def may_replace(newer: str, older: str) -> bool:
    """Return False if the rules tell that a statement answers another question than the older one, so both hold."""
    question = subject_of(older)
    return question in (None, subject_of(newer)) or ends_another(newer) or _CHANGED.search(newer) is not None


def ends_another(statement: str) -> bool:
    """Return whether a statement says that something holds no longer."""
    return _ENDED.search(statement) is not None


def indices_of_ended(statement: str, others: Iterable[str]) -> Iterator[int]:
    """Yield the indices of the statements that "I no longer …" or "… not any more" ends: those that say it did hold."""
    said = _CONTRAST.sub("", statement)
    terms = _telling(said)
    if not ends_another(said) or not terms or _POINTS_BACK.search(_ENDS.sub("", said).strip()):
        return
    for index, other in enumerate(others):
        is_positive = not NEGATIONS & set(folded(other).replace("n't", " not").split()) and not ends_another(other)
        if is_positive and terms <= _telling(other) and _holder(said) == _holder(other) and _is_one(other, terms):
            yield index


def _question(text: str, words: list[str]) -> str | None:
    if has := _HAS.match(text):
        thing, rest = " ".join(has[1].split()), text[has.end() :]
        is_answer = has["called"] or has["changed"] or (_is_single(thing) and _is_value(thing, rest, words))
        return f"my {thing}" if rest.strip() and is_answer else None
    for pattern, question in _FIXED:
        if found := pattern.match(text):
            return question if _is_value(question, text[found.end() :], words) else None
    if _LANGUAGE.match(text):
        return "language of answers"
    if prefers := _PREFERS.match(text):
        return f"prefer {' | '.join(sorted(part.strip(_EDGES_OF_PARTS) for part in prefers.groups()))}"
    if _HABIT.search(text):
        said = [word.strip(_EDGES_OF_PARTS) for word in text.replace("n't", " not").split()]
        return f"habit {' '.join(word for word in said if word and word not in _HABIT_WORDS)}"
    return None


def _is_single(thing: str) -> bool:
    return bool(_CHOSEN.match(thing) or _IDENTIFIED.match(thing))


def _is_value(thing: str, rest: str, words: list[str]) -> bool:
    """Return whether the rest of a statement names something, by its first word as it was written."""
    is_free = _CHOSEN.match(thing) is not None or thing in ("my name", "my nickname", "my home")
    written = " ".join(words[-len(rest.split()) :]).strip(_EDGES_OF_PARTS) if rest.strip() else ""
    if not written or _NO_VALUE.match(rest) or _VERB_FORM.match(written):
        return False
    return is_free or _NAME_LIKE.match(written) is not None


def _telling(statement: str) -> frozenset[str]:
    plain = _ENDS.sub(" ", statement)
    return frozenset(telling_terms(terms_of(plain))) - NEGATIONS - _ADVERBS - {"user"}


def _holder(statement: str) -> str:
    """Return whom a statement is about: the user, something of the user's, or another by name."""
    words = [folded(word).strip(_EDGES_OF_PARTS) for word in _ENDS.sub(" ", statement).split()]
    words = [word for word in words if word and word not in _ADVERBS and word not in ("the", "don't", "do")]
    first = words[0] if words else ""
    if first in _OWNED or first == "user's":
        return "my"
    return "i" if first in _SPEAKERS else first


def _is_one(statement: str, terms: frozenset[str]) -> bool:
    """Return False if a statement says something else beside these terms: "tea and coffee", "… and I avoid soy"."""
    for left, right in _LINKED.findall(statement):
        if folded(right) in _SPEAKERS | _OWNED or bool(_telling(left) & terms) != bool(_telling(right) & terms):
            return False
    return ";" not in statement
