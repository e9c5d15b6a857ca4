"""Finds what a request refers to outside the visible context.

Signs: a return to the past, a pronoun without antecedent, an unknown definite phrase, a verb without object.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

from memory_context.foundation.text.tokenize import folded, terms_of

from . import lexicon
from .candidates import ExpansionRequest
from .meanings import english_terms, meanings_of

__all__ = ["NOT_VISIBLE", "asks_something", "find_missing"]

NOT_VISIBLE = "is not visible"
_QUOTE = "ʘ"  # stands for a quotation
_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]+`|\"[^\"\n]{1,400}\"|“[^”]{1,400}”|„[^“”]{1,400}[“”]|«[^»]{1,400}»"
    r"|(?<!\w)'(?! )[^'\n]{1,400}(?:'\w[^'\n]{0,400}){0,4}'(?!\w)|https?://\S+",
    re.DOTALL,
)
_TEXT_AFTER_ORDER = re.compile(rf"^(\W*(?:{lexicon.TEXT_ORDER})\b[^:\n]{{0,100}}:)\s+\S.*", re.IGNORECASE | re.DOTALL)
_PASTED = re.compile(r":[ \t]*\n")
_SENTENCE = re.compile(r"[^.?!\n。？！]+(?:[.?!。？！](?!\s|$)[^.?!\n。？！]*)*[.?!。？！]*")
_WORD = re.compile(r"[^\W_](?:[\w./:@+#'-]*\w)?|[,;:()]")
_NOUN_PHRASE_WORDS, _COMPLEMENT_WORDS, _FRAGMENT_WORDS = 4, 5, 10
_FOREIGN_ORDER_CHARACTERS = 120
_KEPT_CHARACTERS = 600
_LEAST_PREFIX = 5
_TOLD_TERMS = 3


def find_missing(asked: ExpansionRequest, *, has_named: bool = False) -> str:
    """Return what the request refers to outside the visible context; "" if it is concrete.

    With `has_named` a named reference resolves its pronouns.
    """
    prose = _QUOTED.sub(f" {_QUOTE} ", asked.request.replace("’", "'"))
    prose = _TEXT_AFTER_ORDER.sub(rf"\1 {_QUOTE}", prose)
    if lexicon.STATEMENT.search(prose):
        return ""
    is_general = lexicon.GENERAL_QUESTION.match(prose) is not None
    asks_for_knowledge = is_general and not lexicon.PERSONAL.search(prose)
    if match := (None if asks_for_knowledge else lexicon.PAST.search(prose)) or lexicon.FOREIGN_PAST.search(prose):
        return f"asks for the past: {' '.join(match[0].split())!r}"
    if has_named:
        return ""
    reader = _Reader(asked, has_text=_PASTED.search(prose) is not None)
    missing = reader.bare_reply(prose) or reader.foreign_order(prose)
    for sentence in () if missing else _SENTENCE.finditer(prose):
        if missing := reader.missing_in(_Sentence(sentence[0])):
            break
    if not missing and not asked.last_answer and not is_general and (match := lexicon.POINTS_BACK.search(prose)):
        return f"points back: {' '.join(match[0].split())!r}"
    return missing


def asks_something(message: str, *, is_users: bool = True) -> bool:
    """Return whether a message asks a question or gives an order; another agent's order needs a verb of `REQUESTS`.

    A user's order begins with any verb, since few lines of users only tell something.
    """
    prose = _QUOTED.sub(f" {_QUOTE} ", message.replace("’", "'"))
    if lexicon.STATEMENT.search(prose):
        return False
    for match in _SENTENCE.finditer(prose):
        sentence = _Sentence(match[0])
        if sentence.is_question and (is_users or "?" in match[0]):
            return True
        if re.search(r"[?？]\W*$", match[0]) or (
            sentence.is_order and (is_users or sentence.has_verb(lexicon.REQUESTS))
        ):
            return True
    return False


class _Sentence:
    def __init__(self, text: str) -> None:
        self.words = _WORD.findall(text)
        self.lower = [word.lower().partition("'")[0] for word in self.words]
        starts = (i for i, word in enumerate(self.lower) if word not in lexicon.LEAD_INS and word[0].isalnum())
        self.verb_at = next(starts, len(self.words))
        self.verb = self.at(self.verb_at)
        begins, follows = {*self.lower[:2]}, self.lower[self.verb_at + 1 : self.verb_at + 3]
        leads = {*self.lower[: self.verb_at]}
        asks = not begins.isdisjoint(lexicon.QUESTION_WORDS)
        asks_advice = asks and not lexicon.ADVICE.isdisjoint(self.lower[1:3])
        makes_new = self.verb in lexicon.CREATIONS and not lexicon.INDEFINITE.isdisjoint(follows)
        self.is_of_speaker = not leads.isdisjoint(("i", "we")) and "you" not in leads
        tells = not leads.isdisjoint(("i", "we")) and leads.isdisjoint(lexicon.WISHES)
        is_fragment = self.verb in lexicon.DETERMINERS and len(self.words) <= _FRAGMENT_WORDS
        self.is_general = asks_advice or makes_new or self.verb in lexicon.VERBS_OF_THOUGHT
        self.is_question = asks or self.at(0) in lexicon.YES_OR_NO
        self.is_order = not (self.is_question or tells or not self.verb or self.verb in lexicon.FUNCTION_WORDS)
        self.may_lack = self.is_order or self.is_question or is_fragment

    def at(self, i: int) -> str:
        return self.lower[i] if 0 <= i < len(self.lower) else ""

    def has_verb(self, verbs: Collection[str]) -> bool:
        """Return whether it begins with one of these verbs, also after a name and a comma."""
        is_alone = len(self.words) < 2  # "APPROVE" ends a conversation
        after_name = self.at(self.verb_at + 1) == "," and self._after_name() in verbs
        return not (is_alone or self.is_of_speaker) and (self.verb in verbs or after_name)

    def _after_name(self) -> str:
        rest = self.lower[self.verb_at + 2 :]
        return next((word for word in rest if word not in lexicon.LEAD_INS), "")

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
        self._is_told = False  # a statement was read

    def _is_visible(self, terms: Iterable[str], *, in_answer: bool = True) -> bool:
        """Return True if a visible word shares a term's stem: "delivered" for "delivery", "database" for "db"."""
        terms = [form for term in terms for form in (term, lexicon.SHORT_FOR.get(term)) if form]
        starts = {term[: max(_LEAST_PREFIX, len(term) - 3)].removesuffix("e") for term in terms}
        texts = self._visible if in_answer else self._visible[1:]
        return any(_has_prefix(start, text) for start in starts for text in texts)

    @cached_property
    def _visible(self) -> list[str]:
        candidates = "\n".join(
            f"{one.ref.description} {one.source} {one.ref.key} {one.kept_text[:_KEPT_CHARACTERS]}"
            for one in self._asked.references
        )
        return [folded(text) for text in (self._asked.last_answer, candidates, *self._asked.visible_texts())]

    def bare_reply(self, prose: str) -> str:
        words = [word.lower() for word in _WORD.findall(prose) if word[0].isalnum()]
        is_reply = words and lexicon.REPLIES.issuperset(words) and not lexicon.COURTESIES.issuperset(words)
        return f"{' '.join(words[:5])!r} replies to nothing" if is_reply and not self._asked.last_answer else ""

    def foreign_order(self, prose: str) -> str:
        """Find the definite object of a short foreign order."""
        match = lexicon.FOREIGN_ORDER.match(prose) if len(prose) <= _FOREIGN_ORDER_CHARACTERS else None
        is_own = match is not None and lexicon.OWN_PHRASE.match(f"'{match['determiner']}") is not None
        if match is None or (self._asked.last_answer and not is_own):
            return ""
        if lexicon.ENGLISH.search(prose) or re.search(r"[\dʘ:?]", prose):
            return ""
        noun = folded(match["noun"])
        meant = (term for one in meanings_of(noun, is_english=False) for term in english_terms(one.concept))
        phrase = match["determiner"] + match["noun"]
        return "" if self._is_visible([*terms_of(noun), *meant]) else f"{phrase!r} {NOT_VISIBLE}"

    def missing_in(self, sentence: _Sentence) -> str:
        found = ""
        for i, word in enumerate(sentence.lower):
            missing = self._pronoun(sentence, i) if word in lexicon.PRONOUNS else ""
            if not missing and sentence.may_lack and (word in lexicon.DETERMINERS or word in lexicon.KIN):
                missing = self._definite(sentence, i)
            if missing and not missing.endswith(NOT_VISIBLE):
                return missing
            found = missing if not found or lexicon.OWN_PHRASE.match(missing) else found
            self._mention(sentence, i)
        if found:
            return found
        self._is_told = self._is_told or (not sentence.may_lack and len(self._mentioned) >= _TOLD_TERMS)
        lacks_object = sentence.is_order and sentence.verb in lexicon.ACTIONS and not self._mentioned
        if lacks_object and not self._has_text and not self._asked.last_answer:
            return f"{sentence.verb!r} has no object"
        return ""

    def _mention(self, sentence: _Sentence, i: int) -> None:
        word = sentence.words[i]
        self._has_text = self._has_text or word == _QUOTE
        if _is_content(sentence.lower[i]) and (
            i > sentence.verb_at or (i == sentence.verb_at and not sentence.is_order)
        ):
            self._mentioned.update(terms_of(word))

    def _pronoun(self, sentence: _Sentence, i: int) -> str:
        word, before, after = sentence.at(i), sentence.at(i - 1), sentence.at(i + 1)
        is_dummy = (word in lexicon.DUMMIES and before in lexicon.BE) or (word == "it" and after in lexicon.BE)
        is_determiner = word in lexicon.DEMONSTRATIVES and after and _is_content(after)
        has_antecedent = self._mentioned or self._is_near(sentence, i) or len(self._asked.references) == 1
        return "" if has_antecedent or is_dummy or is_determiner else f"{word!r} has no antecedent"

    def _is_near(self, sentence: _Sentence, i: int) -> bool:
        return self._has_text or bool(self._asked.last_answer) or ":" in sentence.lower[i:]

    def _definite(self, sentence: _Sentence, i: int) -> str:
        determiner = sentence.at(i)
        words = [determiner] if determiner in lexicon.KIN else sentence.noun_phrase(i)
        lower = [word.lower() for word in words]
        is_own = determiner in lexicon.OWN
        terms = {term for word in words for term in terms_of(word)}
        if words and not self._is_told and any(map(_is_name, words)):
            return self._named(sentence, i, words)
        if not words or self._is_told or self._is_general(sentence, i, lower):
            return ""
        if not is_own and (self._has_complement(sentence, i + 1 + len(words)) or self._is_part(sentence)):
            return ""
        if determiner in lexicon.DEMONSTRATIVES and self._is_deictic(sentence, i):
            return ""
        is_asked = is_own and self._asked.last_answer.rstrip().endswith("?")  # a question answers nothing
        if terms & self._mentioned or self._is_visible(terms, in_answer=not is_asked):
            return ""
        phrase = lower if determiner in lexicon.KIN else [determiner, *lower]
        return f"{' '.join(phrase)!r} {NOT_VISIBLE}"

    def _named(self, sentence: _Sentence, i: int, words: Sequence[str]) -> str:
        """Find a thing named in an order to use it, such as "the Orders database"; paths and quotations are exact."""
        is_used = sentence.is_order and sentence.verb in lexicon.USES and not self._has_text
        is_exact = _QUOTE in words or any(map(_is_exact, words))
        if not is_used or is_exact or self._has_complement(sentence, i + 1 + len(words)):
            return ""
        names = {term for word in words if _is_name(word) for term in terms_of(word)}
        is_seen = bool(names & self._mentioned) or self._is_visible(names)
        return "" if is_seen else f"{' '.join([sentence.at(i), *words])!r} {NOT_VISIBLE}"

    def _is_general(self, sentence: _Sentence, i: int, lower: Sequence[str]) -> bool:
        """True for common knowledge ("the world") and idioms."""
        if sentence.at(i) in lexicon.OWN:
            return not lexicon.OWN_GENERIC.isdisjoint(lower) or sentence.is_general
        is_term = len(lower) > 1 and not lexicon.KINDS.isdisjoint(lower)
        return sentence.is_general or is_term or not lexicon.GENERIC.isdisjoint(lower)

    def _has_complement(self, sentence: _Sentence, end: int) -> bool:
        """True if the words after a phrase identify it."""
        link, following = sentence.at(end), sentence.words[end : end + _COMPLEMENT_WORDS]
        if link in (":", "(", _QUOTE) or link in lexicon.CLAUSES:
            return True
        if link not in lexicon.PREPOSITIONS:
            return False
        if sentence.is_question and link in ("of", "in", "about"):
            return True
        is_indefinite = not lexicon.INDEFINITE.isdisjoint(word.lower() for word in following)
        return is_indefinite or any(map(_is_name, following))

    def _is_part(self, sentence: _Sentence) -> bool:
        """True for parts of a visible or requested text: "the title"."""
        needs_it = sentence.verb in lexicon.ACTIONS or sentence.verb in lexicon.APPLIES
        return self._has_text or bool(self._asked.last_answer and not needs_it)

    def _is_deictic(self, sentence: _Sentence, i: int) -> bool:
        """True if "this thing" points nearby, or "that" is a conjunction."""
        is_conjunction = sentence.at(i) == "that" and i - 1 > sentence.verb_at
        is_around_us = not lexicon.AROUND_US.isdisjoint(sentence.lower[i : i + 4])
        return is_conjunction or is_around_us or bool(self._mentioned) or self._is_near(sentence, i)


def _is_content(word: str) -> bool:
    return word[0].isalnum() and word not in lexicon.FUNCTION_WORDS


def _is_exact(word: str) -> bool:
    return any(char.isdigit() or char in "_/@#" for char in word) or "." in word[1:-1]


def _is_name(word: str) -> bool:
    """True for proper names; acronyms such as DB are none."""
    return word == _QUOTE or _is_exact(word) or (word[0].isupper() and not word.isupper())


def _has_prefix(prefix: str, text: str) -> bool:
    """str.find is ten times faster than a regular expression."""
    at = text.find(prefix)
    while at > 0 and text[at - 1].isalnum():
        at = text.find(prefix, at + 1)
    return at >= 0
