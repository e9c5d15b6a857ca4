"""Finds what a request refers to outside the visible context, in English and German.

Signs: a return to the past, a definite phrase of a thing that is not visible, a pronoun without antecedent, a bare
reply to nothing.
"""

import re
from collections.abc import Iterable
from functools import cached_property

from memory_context.foundation.patterns import regex
from memory_context.foundation.text.tokenize import folded, terms_of

from . import lexicon
from .candidates import ExpansionRequest

__all__ = ["NOT_VISIBLE", "asks_something", "find_missing"]

NOT_VISIBLE = "is not visible"
_QUOTE = "ʘ"  # stands for a quotation
_QUOTED = regex(
    r"```.*?(?:```|\Z)|`[^`\n]+`|\"[^\"\n]{1,400}\"|“[^”]{1,400}”|„[^“”]{1,400}[“”]|«[^»]{1,400}»"
    r"|(?<!\w)'(?! )[^'\n]{1,400}(?:'\w[^'\n]{0,400}){0,4}'(?!\w)|https?://\S+",
    re.DOTALL,
)
_PASTED = regex(r":(?:[ \t]*\n|\s+\S.*\S)", re.DOTALL)  # "translate this: …"
_SENTENCE = regex(r"[^.?!\n]+(?:[.?!](?!\s|$)[^.?!\n]*)*[.?!]*")
_WORD = regex(r"[^\W_](?:[\w./:@+#'-]*\w)?|[,;:()]")
_NOUN_PHRASE_WORDS, _COMPLEMENT_WORDS, _FRAGMENT_WORDS, _ORDER_CHARACTERS = 4, 5, 10, 120
_LEAST_PREFIX = 5
_TOLD_TERMS = 3


def find_missing(asked: ExpansionRequest, *, has_named: bool = False) -> str:
    """Return what the request refers to outside the visible context; "" if it is concrete.

    With `has_named` a named reference resolves its pronouns.
    """
    prose = _prose(asked.request)
    if lexicon.STATEMENT.search(prose):
        return ""
    asks_for_knowledge = lexicon.GENERAL_QUESTION.match(prose) and not lexicon.PERSONAL.search(prose)
    if match := None if asks_for_knowledge else lexicon.PAST.search(prose):
        return f"asks for the past: {' '.join(match[0].split())!r}"
    if has_named:
        return ""
    words = [word.lower() for word in _WORD.findall(prose) if word[0].isalnum()]
    is_reply = lexicon.REPLIES.issuperset(words) and not lexicon.COURTESIES.issuperset(words)
    if is_reply and not asked.last_answer:
        return f"{' '.join(words[:5])!r} replies to nothing"
    reader = _Reader(asked, has_text=_PASTED.search(prose) is not None)
    missing = reader.german_order(prose)
    for sentence in () if missing else _SENTENCE.finditer(prose):
        if missing := reader.missing_in(_Sentence(sentence[0])):
            break
    return missing


def asks_something(message: str, *, is_users: bool = True) -> bool:
    """Return whether a message asks a question or gives an order; another agent's order needs a verb of `REQUESTS`.

    A user's order begins with any verb, since few lines of users only tell something.
    """
    prose = _prose(message)
    if lexicon.STATEMENT.search(prose):
        return False
    for match in _SENTENCE.finditer(prose):
        sentence = _Sentence(match[0])
        if "?" in match[0] or (is_users and sentence.is_question):
            return True
        if sentence.is_order and (is_users or sentence.has_verb_of_request):
            return True
    return False


def _prose(message: str) -> str:
    return _QUOTED.sub(f" {_QUOTE} ", message.replace("’", "'"))


class _Sentence:
    def __init__(self, text: str) -> None:
        self.words = _WORD.findall(text)
        self.lower = [word.lower().partition("'")[0] for word in self.words]
        starts = (i for i, word in enumerate(self.lower) if word not in lexicon.LEAD_INS and word[0].isalnum())
        self.verb_at = next(starts, len(self.words))
        self.verb = self.at(self.verb_at)
        leads, follows = {*self.lower[: self.verb_at]}, {*self.lower[self.verb_at + 1 : self.verb_at + 3]}
        asks = not lexicon.QUESTION_WORDS.isdisjoint(self.lower[:2])
        asks_advice = asks and not {"do", "does", "can", "could", "should", "would", "to"}.isdisjoint(self.lower[1:3])
        makes_new = self.verb in lexicon.CREATIONS and not lexicon.INDEFINITE.isdisjoint(follows)
        self.is_of_speaker = not leads.isdisjoint(("i", "we")) and "you" not in leads
        tells = not leads.isdisjoint(("i", "we")) and leads.isdisjoint(("need", "want", "like", "let", "can", "could"))
        self.is_general = asks_advice or makes_new or self.verb in lexicon.THOUGHTS
        self.is_question = asks or self.at(0) in lexicon.YES_OR_NO
        self.is_order = not (self.is_question or tells or not self.verb or self.verb in lexicon.FUNCTION_WORDS)
        is_fragment = self.verb in lexicon.DETERMINERS and len(self.words) <= _FRAGMENT_WORDS
        self.may_lack = self.is_order or self.is_question or is_fragment

    def at(self, i: int) -> str:
        return self.lower[i] if 0 <= i < len(self.lower) else ""

    @property
    def has_verb_of_request(self) -> bool:
        """True if it begins with such a verb, also after a name and a comma."""
        after_name = self.lower[self.verb_at + 2 :] if self.at(self.verb_at + 1) == "," else []
        second = next((word for word in after_name if word not in lexicon.LEAD_INS), "")
        is_alone = len(self.words) < 2  # "APPROVE" ends a conversation
        return not (is_alone or self.is_of_speaker) and not lexicon.REQUESTS.isdisjoint((self.verb, second))

    def noun_phrase(self, i: int) -> list[str]:
        end = i + 1
        while end < len(self.words) and end <= i + _NOUN_PHRASE_WORDS and _is_content(self.lower[end]):
            end += 1
        return self.words[i + 1 : end]


class _Reader:
    """Reads sentences in order, with the terms mentioned so far."""

    def __init__(self, asked: ExpansionRequest, *, has_text: bool) -> None:
        self._asked = asked
        self._mentioned: set[str] = set()
        self._has_text = has_text  # quoted or pasted
        self._is_told = False  # a statement was read, whose things have articles from then on

    def german_order(self, prose: str) -> str:
        """Return the definite object of a short German order."""
        match = lexicon.GERMAN_ORDER.match(prose) if len(prose) <= _ORDER_CHARACTERS else None
        if match is None or lexicon.ENGLISH.search(prose) or re.search(r"[\dʘ:?]", prose):
            return ""
        phrase = f"{match['determiner']} {match['noun']}"
        is_own = lexicon.OWN_PHRASE.match(f"'{phrase}") is not None
        is_known = (self._asked.last_answer and not is_own) or self._is_visible(terms_of(folded(match["noun"])))
        return "" if is_known else f"{phrase!r} {NOT_VISIBLE}"

    def missing_in(self, sentence: _Sentence) -> str:
        found = ""
        for i, word in enumerate(sentence.lower):
            missing = self._pronoun(sentence, i) if word in lexicon.PRONOUNS else ""
            if not missing and sentence.may_lack and word in lexicon.DETERMINERS:
                missing = self._definite(sentence, i)
            if missing and not missing.endswith(NOT_VISIBLE):
                return missing
            found = missing if not found or lexicon.OWN_PHRASE.match(missing) else found
            self._has_text = self._has_text or sentence.words[i] == _QUOTE
            is_verb = i == sentence.verb_at and sentence.is_order
            if i >= sentence.verb_at and not is_verb and _is_content(word):
                self._mentioned.update(terms_of(sentence.words[i]))
        self._is_told = self._is_told or (not sentence.may_lack and len(self._mentioned) >= _TOLD_TERMS)
        return found

    def _pronoun(self, sentence: _Sentence, i: int) -> str:
        word, before, after = sentence.at(i), sentence.at(i - 1), sentence.at(i + 1)
        is_dummy = (word in ("it", "this", "that") and before in lexicon.BE) or (word == "it" and after in lexicon.BE)
        is_determiner = word in lexicon.DEMONSTRATIVES and after and _is_content(after)
        return "" if is_dummy or is_determiner or self._has_antecedent else f"{word!r} has no antecedent"

    @property
    def _has_antecedent(self) -> bool:
        is_near = self._has_text or bool(self._asked.last_answer)
        return is_near or bool(self._mentioned) or len(self._asked.references) == 1

    def _definite(self, sentence: _Sentence, i: int) -> str:
        determiner, words = sentence.at(i), sentence.noun_phrase(i)
        if not words or self._is_told or sentence.is_general or not lexicon.GENERIC.isdisjoint(map(str.lower, words)):
            return ""
        if any(map(_is_name, words)) or (determiner in lexicon.DEMONSTRATIVES and self._has_antecedent):
            return ""
        is_own = determiner in lexicon.OWN
        # "the title" may be a part of the last answer or of quoted text
        is_part = self._has_text or (self._asked.last_answer and sentence.verb not in lexicon.ACTIONS)
        if not is_own and (is_part or self._has_complement(sentence, i + 1 + len(words))):
            return ""
        terms = {term for word in words for term in terms_of(word)}
        is_asked = is_own and self._asked.last_answer.rstrip().endswith("?")  # a question answers nothing
        if terms & self._mentioned or self._is_visible(terms, in_answer=not is_asked):
            return ""
        return f"{' '.join([determiner, *map(str.lower, words)])!r} {NOT_VISIBLE}"

    def _has_complement(self, sentence: _Sentence, end: int) -> bool:
        """Return whether the words after a phrase identify it: "of Norway", "that fail"."""
        link, following = sentence.at(end), sentence.words[end : end + _COMPLEMENT_WORDS]
        if link not in lexicon.PREPOSITIONS and link != _QUOTE:
            return False
        if link not in ("of", "in", "from", "for", "on", "at", "about", "by", "with"):
            return True
        is_indefinite = not lexicon.INDEFINITE.isdisjoint(word.lower() for word in following)
        asks_about = sentence.is_question and link in ("of", "in", "about")
        return asks_about or is_indefinite or any(map(_is_name, following))

    def _is_visible(self, terms: Iterable[str], *, in_answer: bool = True) -> bool:
        """Return True if a visible word shares a term's stem: "delivered" for "delivery", "database" for "db"."""
        terms = [form for term in terms for form in (term, lexicon.SHORT_FOR.get(term)) if form]
        starts = {term[: max(_LEAST_PREFIX, len(term) - 3)].removesuffix("e") for term in terms}
        texts = self._visible if in_answer else self._visible[1:]
        return any(_has_prefix(start, text) for start in starts for text in texts)

    @cached_property
    def _visible(self) -> list[str]:
        references = (one.words.text for one in self._asked.references)
        return [folded(self._asked.last_answer), *references, *self._asked.visible_texts()]


def _is_content(word: str) -> bool:
    return word[0].isalnum() and word not in lexicon.FUNCTION_WORDS


def _is_name(word: str) -> bool:
    """Return True for quotations, paths, numbers and proper names; acronyms such as DB are none."""
    is_exact = any(char.isdigit() or char in "_/@#" for char in word) or "." in word[1:-1]
    return word == _QUOTE or is_exact or (word[0].isupper() and not word.isupper())


def _has_prefix(prefix: str, text: str) -> bool:
    """str.find is ten times faster than a regular expression."""
    at = text.find(prefix)
    while at > 0 and text[at - 1].isalnum():
        at = text.find(prefix, at + 1)
    return at >= 0
