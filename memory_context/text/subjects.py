"""The subject of a statement about a user: a newer statement about the same subject replaces the older one."""

import re

from .lexicon import FILLERS, NEGATIONS
from .tokenize import folded

__all__ = ["subject_of"]

_MY = r"(?:my|our|mein|meine|unser|unsere|mon|ma|mes|notre|mi|mis|nuestr[oa]|meu|minha|nosso|nossa|(?:il |la )?mi[oa])"
_IS = r"(?:is|are|was|will be|has been|ist|sind|war|lautet|heisst|est|sont|es|son|e|sao|sono)"
_NOW = r"(?:now|from now on|ab jetzt|jetzt|nun|maintenant|ahora|agora|adesso|also|please|bitte) "
_EDGES = " .,;:!\"'`“”„‘’«»()[]…"
_LANGUAGES = (
    r"(?:in|auf|en|em) (?:english|german|french|spanish|portuguese|italian|deutsch|englisch|franzosisch|spanisch)"
)

_HAS = re.compile(rf"{_MY} ((?:[\w@#+./-]+ ){{1,4}}?)(?:{_IS}|(?:has )?changed to)\b")
_FIXED = (
    (re.compile(r"(?:you can |please )?(?:call me|i am called|ich heisse|nenn mich|nenne mich) "), "my name"),
    (
        re.compile(r"(?:i live in|i moved to|i am based in|ich wohne in|ich lebe in|j'habite|vivo en|moro em) "),
        "my home",
    ),
    (re.compile(r"(?:i work (?:at|for)|ich arbeite (?:bei|fur)|je travaille chez|trabajo en) "), "my employer"),
    (re.compile(rf"(?:[\w-]+ ){{1,3}}?(?:[\w-]+ )?{_LANGUAGES}\b"), "language of answers"),
)
_SPEAKS = re.compile(r"\b(?:answer|reply|respond|write|talk|speak|antworte|schreib|schreibe|sprich|reponds|responde)\b")
_PREFERS = re.compile(
    r"(?:i|we|ich|wir|je|yo)? ?(?:prefer|prefers|bevorzuge|bevorzugen|prefere|prefiero|prefiro|preferisco) (.+?)"
    r" (?:over|to|rather than|instead of|gegenuber|statt|anstatt|vor|plutot que|a|antes que) (.+)"
)
_USES = re.compile(
    r"(?:i |we |ich |wir )?(?:use|verwende|verwenden|nutze|nutzen|benutze|nimm) .+? (for|as|fur|als) (.+)"
)
_HABIT = re.compile(r"(?:always|never|don't|do not|immer|nie|niemals|toujours|jamais|siempre|nunca|sempre|mai)")
_HABIT_WORDS = (
    FILLERS
    | NEGATIONS
    | {"we", "wir", "do", "je", "should", "ever", "always", "immer", "toujours", "siempre", "sempre"}
)
_OF_USER = re.compile(r"^(?:the )?user (\w+?)s? ")
_LIMIT_CHARACTERS = 120


def subject_of(statement: str) -> str | None:
    """Return what a statement says something about, such as "my database"; None if only its own words tell.

    Rules: "my X is Y" is about X, "I prefer A over B" about the pair, "use A for B" about B, "always X" and "never X"
    about X, and names, homes, employers and the language of answers have subjects of their own.
    """
    text = re.sub(_NOW, "", " ".join(folded(statement).replace("i'm ", "i am ").split()).strip(_EDGES) + " ").strip()
    found = _said_of(_OF_USER.sub(r"i \1 ", re.sub(r"^(?:the )?user's ", "my ", text)))
    return found[:_LIMIT_CHARACTERS] if found else None


def _said_of(text: str) -> str | None:
    if has := _HAS.match(text):
        return f"my {' '.join(has[1].split())}"
    for pattern, subject in _FIXED:
        if pattern.match(text) and (subject != "language of answers" or _SPEAKS.search(text)):
            return subject
    is_negated = any(word in NEGATIONS for word in text.replace("n't", " not").split())
    if prefers := _PREFERS.match(text):
        return f"prefer {' | '.join(sorted(part.strip(_EDGES) for part in prefers.groups()))}"
    if not is_negated and (uses := _USES.search(text)):
        return f"use {uses[1]} {uses[2].strip(_EDGES)}"
    if _HABIT.search(text):
        words = [word.strip(_EDGES) for word in text.replace("n't", " not").split()]
        return f"habit {' '.join(word for word in words if word and word not in _HABIT_WORDS)}"
    return None
