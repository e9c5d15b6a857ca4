"""Whether a request can be understood from what is at hand, by rules.

A request is ambiguous if it needs something nobody gave: an earlier conversation or a preference, a thing that is only
pointed at ("it", "the report", "my server"), or a parameter it leaves out ("deploy"). At hand are the request itself,
the last answer, the references and what the view shows in full. Deterministic; reads a few thousand characters.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..text import folded, terms_of
from .lexicon import (
    ACTIONS,
    AROUND_US,
    BE,
    CLAUSES,
    COURTESIES,
    DETERMINERS,
    FUNCTION_WORDS,
    GENERIC,
    KIN,
    KINDS,
    LEAD_INS,
    NUMERALS,
    OWN,
    OWN_GENERIC,
    POSTMODIFIERS,
    PRONOUNS,
    QUESTION_WORDS,
    REPLIES,
    THINKING,
    YES_OR_NO,
)
from .models import CandidateReference
from .phrases import asks_for_the_past, hints_at_the_past

__all__ = ["VisibleContext", "find_missing"]

_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]+`|\"[^\"\n]{1,400}\"|“[^”]{1,400}”|„[^“”]{1,400}[“”]|«[^»]{1,400}»"
    r"|(?<!\w)'(?! )[^'\n]{1,400}(?:'\w[^'\n]{0,400}){0,4}'(?!\w)|https?://\S+",
    re.DOTALL,
)
_TO_WORK_ON = re.compile(
    r"^(\W*(?:(?:can|could|would|will) you )?(?:please )?"
    r"(?:translate|proofread|rewrite|rephrase|paraphrase|correct|summari[sz]e|classify|spell|convert|format|sort|parse"
    r"|anal[yi][sz]e|shorten|improve|polish|explain|count)\b[^:\n]{0,100}:)\s+\S.*",
    re.IGNORECASE | re.DOTALL,
)
"""What an order to work on a text has behind its colon is the text."""
_PASTED = re.compile(r":[ \t]*\n")
_SENTENCE = re.compile(r"[^.?!\n。？！]+(?:[.?!。？！](?!\s|$)[^.?!\n。？！]*)*[.?!。？！]*")
_WORD = re.compile(r"[^\W_](?:[\w./:@+#'-]*\w)?|[,;:()]")
_KEPT_CHARACTERS = 600
_MARK = "ʘ"  # stands for what was quoted
_PHRASE_WORDS = 4
_FRAGMENT_WORDS = 8
_FOREIGN_CHARACTERS = 120
_NO_OBJECT = ("to", "into", "again", "now")
_SUBJECTS = ("i", "we", "you", "he", "she", "it", "they")
_INDEFINITE = ("a", "an", "any", "each", "every", "all", "some")
_CONTENT_FOLLOWS = frozenset(("saying", "says", "stating", "telling", "asking", "about"))
_REACH_WORDS = 8
_DEMONSTRATIVES = ("this", "that", "these", "those")


@dataclass(frozen=True)
class VisibleContext:
    """What a request may refer to without saying it.

    Attributes:
        last_answer: The agent's last answer, cut.
        references: What is on offer.
        visible_texts: The texts the view shows in full; read only for the few words in question.
    """

    last_answer: str
    references: Sequence[CandidateReference]
    visible_texts: Callable[[], Iterable[str]]


_TELLING = re.compile(
    r"^\W*(?:please )?(?:remember|note|keep in mind|be aware|fyi|for your information|for future reference"
    r"|for the record|from now on|save|store|memori[sz]e)\b(?! (?:when|what|how|where|who|which|me|the|our)\b)"
    r"|\b(?:remember|note|keep in mind|memori[sz]e) (?:that|this|it)\W*$|\bplease (?:note|remember)\b"
    r"|^\W*(?:my|our)\b[^?.]*\b(?:is|are|was|were)\b[^?]*$"
    r"|^\W*i (?:prefer|like|live|work|use|am|always|never|don't)\b[^?]*$",
    re.IGNORECASE,
)
"""The user gives something to remember instead of asking for it."""

_FOREIGN_ORDER = re.compile(
    r"^\W*(?!(?:explique|erklär|beschreib|décri|describ|trad[ui]|übersetz|explica|écri|escrib|schreib|compar))"
    r"[^\W\d_]{3,}(?: [^\W\d_]+){0,2} (?:le |la |les |l'|den |dem |das |die |el |los |las |il |lo )"
    r"(?P<thing>[^\W\d_]{3,})",
    re.IGNORECASE,
)
_ENGLISH = re.compile(r"\b(?:the|is|to|of|and|for|you|my|please)\b", re.IGNORECASE)


def find_missing(request: str, around: VisibleContext, *, has_named: bool = False) -> str:
    """Return what the request needs and nobody gave, in a few words; "" if it is concrete.

    Args:
        request: The user's words, a few thousand characters.
        around: What is at hand.
        has_named: Whether the request names a reference, which is then what it points to.
    """
    prose = _QUOTED.sub(f" {_MARK} ", request.replace("’", "'"))
    prose = _TO_WORK_ON.sub(rf"\1 {_MARK}", prose)
    if _TELLING.search(prose):
        return ""
    if past := asks_for_the_past(prose):
        return f"asks for the past: {past!r}"
    if has_named:
        return ""
    reading = _Reading(around, has_pasted=_PASTED.search(prose) is not None)
    if missing := reading.of_reply(prose) or reading.of_foreign_order(prose):
        return missing
    for match in _SENTENCE.finditer(prose):
        if missing := reading.of_sentence(match[0]):
            return missing
    if not around.last_answer and (hint := hints_at_the_past(prose)):
        return f"points back: {hint!r}"
    return ""


class _Sentence:
    """The words of a sentence and what kind it is."""

    def __init__(self, text: str) -> None:
        self.words = _WORD.findall(text)
        self.lower = [word.lower().partition("'")[0] for word in self.words]
        starts = (i for i, word in enumerate(self.lower) if word not in LEAD_INS and word[0].isalnum())
        self.verb_at = next(starts, len(self.words))
        self.opening = self.at(self.verb_at)
        self.is_question = bool({*self.lower[:2]} & QUESTION_WORDS) or self.at(0) in YES_OR_NO
        speaks_to_me = self.opening in ("tell", "give", "show") and self.at(self.verb_at + 1) == "me"
        asks_why = not {"how", "why"}.isdisjoint(self.lower[:2]) or not {"mean", "means"}.isdisjoint(self.lower)
        self.is_general = self.opening in THINKING or speaks_to_me or asks_why
        self.is_order = not self.is_question and bool(self.opening) and self.opening not in FUNCTION_WORDS
        is_fragment = self.opening in DETERMINERS and len(self.words) <= _FRAGMENT_WORDS
        self.may_lack = (self.is_order or self.is_question or is_fragment) and not self.is_general

    def at(self, i: int) -> str:
        """Return a word in lower case, or ""."""
        return self.lower[i] if 0 <= i < len(self.lower) else ""

    def phrase_end(self, i: int) -> int:
        """Return where the phrase ends whose determiner stands at `i`."""
        end = i + 1
        while end < len(self.words) and end <= i + _PHRASE_WORDS and _is_content(self.lower[end]):
            end += 1
        return end


class _Reading:
    """Reads a request sentence by sentence and keeps what it has mentioned."""

    def __init__(self, around: VisibleContext, *, has_pasted: bool) -> None:
        self._around = around
        self._mentioned: set[str] = set()
        self._is_given = False  # something was quoted, pasted, or named by a name
        self._is_quoted = has_pasted
        self._has_read = False  # a whole sentence
        self._texts: list[str] | None = None

    def of_reply(self, prose: str) -> str:
        """Return a reply that replies to nothing."""
        words = [word.lower() for word in _WORD.findall(prose) if word[0].isalnum()]
        if self._around.last_answer or not words or not REPLIES.issuperset(words) or COURTESIES.issuperset(words):
            return ""
        return f"{' '.join(words[:5])!r} replies to nothing"

    def of_foreign_order(self, prose: str) -> str:
        """Return the definite thing that a short French, German, Spanish or Italian order is about."""
        match = _FOREIGN_ORDER.match(prose)
        if match is None or "?" in prose or len(prose) > _FOREIGN_CHARACTERS or _ENGLISH.search(prose):
            return ""
        if any(char.isdigit() or char == ":" for char in prose) or _MARK in prose or self._around.last_answer:
            return ""
        return "" if self._is_at_hand(terms_of(match["thing"])) else f"{match['thing']!r} is not at hand"

    def of_sentence(self, text: str) -> str:
        """Return what a sentence lacks."""
        sentence = _Sentence(text)
        for i, word in enumerate(sentence.lower):
            missing = ""
            if word in PRONOUNS:
                missing = self._pronoun(sentence, i)
            if not missing and word in DETERMINERS and sentence.may_lack:
                missing = self._definite(sentence, i)
            if not missing and word in KIN and sentence.is_order and not self._is_at_hand([word]):
                missing = f"{word!r} is not at hand"
            if missing:
                return missing
            self._mention(sentence, i)
        self._has_read = self._has_read or bool(self._mentioned)
        return self._object(sentence)

    def _object(self, sentence: _Sentence) -> str:
        """Return a verb that says to do something and not to what."""
        if not sentence.is_order or sentence.opening not in ACTIONS or self._is_given or self._around.last_answer:
            return ""
        if self._mentioned and sentence.at(sentence.verb_at + 1) not in _NO_OBJECT:
            return ""
        return f"{sentence.opening!r} without saying what"

    def _mention(self, sentence: _Sentence, i: int) -> None:
        word = sentence.words[i]
        if word == _MARK:
            self._is_quoted = self._is_given = True
        elif not _is_content(sentence.lower[i]) or i < sentence.verb_at:
            return
        elif (i > 0 and word[0].isupper()) or _is_exact(word):
            self._is_given = True
        if i != sentence.verb_at or not sentence.is_order:
            self._mentioned.update(terms_of(word))

    def _pronoun(self, sentence: _Sentence, i: int) -> str:
        """Return a pronoun that nothing stands for."""
        word, follower = sentence.at(i), sentence.at(i + 1)
        if self._mentioned or self._is_given or self._around.last_answer or len(self._around.references) == 1:
            return ""
        if self._is_quoted or ":" in sentence.lower[i:]:
            return ""
        if word in _DEMONSTRATIVES and follower and _is_content(follower):
            return ""  # a determiner
        if (word in ("it", "that", "this") and sentence.at(i - 1) in BE) or (word == "it" and follower in BE):
            return ""  # is it possible to, it is said that
        return f"{word!r} without an antecedent"

    def _definite(self, sentence: _Sentence, i: int) -> str:
        """Return a definite phrase that nothing stands for."""
        determiner, end = sentence.at(i), sentence.phrase_end(i)
        words, lower = sentence.words[i + 1 : end], sentence.lower[i + 1 : end]
        is_own = determiner in OWN
        if not words or sentence.at(end) in (":", "(") or _MARK in words or any(map(_is_name, words)):
            return ""
        if not (OWN_GENERIC if is_own else GENERIC).isdisjoint(lower):
            return ""
        if not is_own and (self._is_specified(sentence, end) or self._is_part(sentence, i) or _names_itself(words)):
            return ""
        if determiner in _DEMONSTRATIVES and self._is_pointed_at(sentence, i, lower):
            return ""
        terms = {term for word in words for term in terms_of(word)}
        if terms & self._mentioned or self._is_at_hand(terms, is_own=is_own):
            return ""
        return f"{' '.join([determiner, *lower])!r} is not at hand"

    def _is_part(self, sentence: _Sentence, i: int) -> bool:
        """Whether a definite phrase is a part of what is at hand or is to be made, as "the title" of a text."""
        before = sentence.lower[:i]
        if self._is_quoted or i > sentence.verb_at + _REACH_WORDS or not _CONTENT_FOLLOWS.isdisjoint(before):
            return True
        if self._mentioned and not {"and", "then"}.isdisjoint(before[sentence.verb_at :]):
            return True  # run it and show the output
        return bool(self._around.last_answer) and sentence.opening not in ACTIONS

    def _is_pointed_at(self, sentence: _Sentence, i: int, words: Sequence[str]) -> bool:
        """Whether "this thing" points to something: in the request, in the answer, or around us."""
        follows_content = i > 0 and _is_content(sentence.at(i - 1)) and i - 1 != sentence.verb_at
        is_conjunction = sentence.at(i) == "that" and follows_content  # make sure that tests pass
        is_near = self._is_given or self._has_read or bool(self._around.last_answer) or ":" in sentence.lower[i:]
        return is_conjunction or is_near or not AROUND_US.isdisjoint(words)

    def _is_specified(self, sentence: _Sentence, end: int) -> bool:
        """Whether what follows a definite phrase says which thing is meant."""
        after = sentence.at(end)
        if after == _MARK or (after in CLAUSES and sentence.at(end + 1) not in _SUBJECTS):
            return True
        if after not in POSTMODIFIERS:
            return False
        if (sentence.is_question and after in ("of", "in", "about")) or sentence.at(end + 1) in _INDEFINITE:
            return True
        following = sentence.words[end + 1 : end + 5]
        if not NUMERALS.isdisjoint(word.lower() for word in following):
            return True
        terms = {term for word in following if _is_content(word.lower()) for term in terms_of(word)}
        return (
            any(map(_is_name, following))
            or _MARK in following
            or bool(terms & self._mentioned)
            or self._is_at_hand(terms)
        )

    def _is_at_hand(self, terms: Iterable[str], *, is_own: bool = False) -> bool:
        """Whether one of the terms begins a word of what is at hand; a question does not give what it asks for."""
        if self._texts is None:
            around = self._around
            offered = "\n".join(
                f"{one.ref.description} {one.source} {one.ref.key} {one.kept_text[:_KEPT_CHARACTERS]}"
                for one in around.references
            )
            self._texts = [folded(around.last_answer), folded(offered)]
            self._texts += [folded(text) for text in around.visible_texts()]
        is_asking = is_own and self._texts[0].rstrip().endswith("?")
        texts = self._texts[1 if is_asking else 0 :]
        # only the beginning of a term, as stems differ: "delivery", "delivered"
        return any(_begins_a_word(term[: max(5, len(term) - 3)], text) for term in terms for text in texts)


def _is_content(word: str) -> bool:
    return word[0].isalnum() and word not in FUNCTION_WORDS


def _is_exact(word: str) -> bool:
    """Whether a word is a number, a path, a file or an identifier."""
    return any(char.isdigit() or char in "_/@#" for char in word) or "." in word[1:-1]


def _is_name(word: str) -> bool:
    """Whether a word inside a sentence names one thing; an acronym such as DB does not."""
    return _is_exact(word) or (word[0].isupper() and not word.isupper())


def _names_itself(words: Sequence[str]) -> bool:
    """Whether a definite phrase is the name of something: the variable FOO, the merge sort algorithm, the last five."""
    lower = [word.lower() for word in words]
    if any(word.endswith("est") for word in lower) or not NUMERALS.isdisjoint(lower):
        return True
    return len(words) > 1 and (lower[-1] in KINDS or (words[-1].isupper() and not words[0].isupper()))


def _begins_a_word(term: str, text: str) -> bool:
    """Whether a word of the text begins with the term; str.find, as a regular expression takes ten times as long."""
    at = text.find(term)
    while at > 0 and text[at - 1].isalnum():
        at = text.find(term, at + 1)
    return at >= 0
