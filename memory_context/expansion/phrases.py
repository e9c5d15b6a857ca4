"""Phrases that point to what was before: to an earlier conversation, a habit, a preference.

Mainly English; of other languages only the few most usual ways to say "like last time" and "my usual".
"""

import re

__all__ = ["asks_for_the_past", "hints_at_the_past"]

_TELL = r"(?:tell|say|mention|ask|decide|agree|choose|pick|use|set|discuss|talk|recommend|suggest|call|name|do)\b"
_TOLD = (
    r"(?:told|said|mentioned|asked|decided|agreed|chose|picked|used|set|discussed|talked|recommended|suggested|gave|sent"
    r"|shared|showed|made|wrote|had|liked|loved|bought|ordered|visited|booked|planned|settled|went|saw|read|watched"
    r"|tried|started|promised|saved|requested|wanted|arranged|created|built|hired|met|drafted|spoke)\b"
)
_HAVE = r"(?:'d|'ve| had| have)?"
_THEN = r"(?:time|session|conversation|chat|discussion|trip|visit|call|meeting)\b"
_WHEN = r"(?:week|month|year|quarter|sprint|night|weekend|spring|summer|autumn|fall|winter|season|christmas|\w+day)\b"
_USUAL = r"(?:usual|normal|regular|standard|default|preferred|favou?rite|typical|customary|go-to)\b"

# What stands only in the user's memories.
_PAST = (
    rf"(?:like|as|than|same|way)\b[^.?!\n]{{0,40}}\b"
    rf"(?:(?:the )?last (?:{_THEN}|{_WHEN})|before\b|usual|always|yesterday)",
    rf"(?:last|previous) {_THEN}",
    rf"(?:the|that|those|my|our) (?:[\w-]+ ){{1,3}}(?:from|of) (?:last {_WHEN}|yesterday|before\b|the other day)",
    rf"as (?:we|i|you|already|previously|originally)\b(?: \w+){{0,2}} {_TOLD}",
    r"as (?:agreed|discussed|decided|usual|always|before|planned|promised|arranged|requested)\b",
    r"we(?:'d|'ve| had| have)?(?: \w+)? (?:agreed|discussed|decided|talked|settled|chose|picked|spoke)\b",
    rf"(?:did|have|had) (?:i|we) (?:\w+ )?(?:{_TELL}|{_TOLD})",
    rf"(?:that|which|what|where|when|who|how|whom) (?:i|we){_HAVE} (?:\w+ )?{_TOLD}",
    rf"(?:the|that|those) (?:[\w-]+ ){{1,3}}(?:i|we){_HAVE} (?:\w+ )?{_TOLD}",
    rf"[\w-]+ the (?:[\w-]+ ){{1,2}}{_TOLD}(?! (?:to|by)\b)",
    r"(?:the|that|those|what) (?:[\w-]+ ){0,3}(?:i|we)"
    r"(?:'m|'re| am| are| was| were|'ve been| have been) \w+(?:ing|ed|en)\b",
    r"(?:the|that) (?:[\w-]+ ){1,3}(?:i|we) (?:like|use|love|prefer|follow)\b",
    rf"last {_WHEN}'s \w+",
    r"(?:like|as) (?:for|in|on|at|with) (?:the|our|my)\b",
    r"(?:who|when|where|which) did (?:i|we)\b|how did we\b|back then\b",
    r"(?:the way|what|how|which) (?:the )?\w+ (?:wants|likes|prefers|needs|expects|asked)\b",
    r"(?:the|that|those) (?:[\w-]+ ){1,3}(?:i'm|i am|we're) \w+",
    r"how(?:'s| is| are) (?:the|my|our) [\w ]{1,30}(?:going|doing|coming along)\b",
    r"(?:i|we) (?:haven't|have not|never|didn't) (?:\w+ ){1,4}(?:yet|before)\b",
    r"i(?:'ve| have| had)? (?:already |once )?(?:told|given|sent|showed|shown) you",
    r"i (?:already |once )?(?:mentioned|told you|gave you)",
    rf"(?:my|our|their|his|her|\w+'s) {_USUAL}",
    r"the usual\b",
    r"(?:the way|how|what|which|where|like) (?:i|we) (?:usually|always|normally|typically|like|prefer|want)\b",
    r"(?:things?|keywords?|ones?|\w+s) (?:i|we) (?:usually|always|normally|typically|prefer)\b",
    r"(?:do |can |did )?you (?:still |even )?(?:remember|recall)\b",
    r"(?:to|than|like|as) what (?:it|they|this|that) (?:was|were|had|did|used)\b",
    r"where (?:did )?(?:we|i) (?:had )?(?:leave off|left off|stop|stopped|were)\b",
    r"how (?:much|many|often|long|far) [\w ]{0,25}\b(?:did|have) (?:i|we)\b",
    r"do (?:i|we) (?:still )?have (?:any|an?|the)\b",
    r"are we (?:with|on|at) (?:the|my|our)\b",
    r"(?:know|remembered|learned|saved|stored|noted) about (?:me|us|my|our)\b",
    r"the other day\b",
    r"you know (?:why|what|which|who|where|how)\b",
    r"(?:my|our) preferences?\b",
    r"who am i\b",
)
_PAST_ELSEWHERE = (
    # German
    r"wie (?:beim |das )?(?:letzte[nsm]?|vorige[nsm]?) (?:mal|woche|monat|jahr)",
    r"^\W*(?:(?:wie (?:heißt|ist|war|lautet)|was (?:ist|war)|wo|wann|wer|welche\w*)\b[^?]{0,30}"
    r"\b(?:mein|unser)(?:e[rnms]?)?\b)",
    r"wie (?:immer|üblich|gewohnt|besprochen|vereinbart|abgemacht|gehabt|zuletzt)\b",
    r"\b(?:mein|unser|die|das|der|den)e?[rnms]? (?:übliche|gewohnte|bevorzugte|lieblings)\w*",
    r"habe? ich (?:dir|ihnen) (?:\w+ )?(?:gesagt|erzählt)|erinnerst du dich|weißt du noch|\bletzte woche|\bneulich\b",
    # French
    r"comme (?:la dernière fois|d'habitude|convenu|toujours|avant|prévu|on a dit)|\bhabituel(?:le)?s?\b",
    r"(?:t'ai|vous ai|avais) (?:dit|parlé|montré)|tu te souviens",
    r"dont (?:on|nous) (?:a|avons) parlé|la semaine dernière",
    r"\bpréférée?s?\b|^\W*(?:quel\w*|où|quand|qui) (?:est|sont|était)[^?]{0,20} (?:mon|ma|mes|notre|nos)\b",
    # Spanish, Italian, Portuguese
    r"como (?:la última vez|siempre|acordamos|quedamos|de costumbre|antes|da última vez|sempre|combinamos|hablamos)",
    r"\b(?:lo|la|el) de siempre|\bhabitual(?:es)?\b|\bte (?:dije|conté|mencioné)|\brecuerdas\b|la semana pasada",
    r"^\W*(?:cuál\w*|dónde|cuándo|quién) (?:es|son|está|era)[^?]{0,20} (?:mi|mis|nuestr\w+)\b",
    r"come (?:l'ultima volta|al solito|sempre)",
    # Chinese, Japanese, Korean
    r"上次|上回|昨天的|上一次|之前(?:说|提|讨论|聊|用|的)|老样子|照旧|像以前|说好|约定|平时一样|还记得|我(?:常用|喜欢)的",
    r"昨日の|続き|前回|いつもの|いつも(?:通り|どおり)|この前|先日|以前(?:話|言|の)|覚えて",
    r"지난번|저번|평소(?:처럼|대로)|늘 하던|기억나|전에 (?:말|얘기)",
)
# What may as well stand in the conversation at hand.
_HINTS = (
    r"(?:earlier|previous(?:ly)?|once more|yesterday)\b",
    rf"you{_HAVE} (?:\w+ )?(?:{_TOLD}|showed|proposed|found|did|began)",
    r"any (?:news|updates?|progress|luck)\b(?! (?:about|on|from|in|of)\b)",
    r"the (?:same|other|old|first|second|third|last) (?:one|thing|way|approach|version)s?\b",
    r"the same \w+",
    r"その|あの|这个|那个|这件|那件|그 |저 ",
)
_GENERAL = re.compile(
    r"^\W*(?:(?:can|could|would|will) you |please )*(?:wh?at|how|why|who|when|where|which|explain|describe|define)\b",
    re.IGNORECASE,
)
_PERSONAL = re.compile(r"\b(?:i|me|my|mine|we|us|our|ours|you|your)\b", re.IGNORECASE)


def _any_of(phrases: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(rf"(?<![\w'])(?:{phrase})" for phrase in phrases), re.IGNORECASE)


_ASKS = _any_of(_PAST)
_ASKS_ELSEWHERE = re.compile("|".join(_PAST_ELSEWHERE), re.IGNORECASE)
_HINT = _any_of(_HINTS)


def asks_for_the_past(text: str) -> str:
    """Return the words that ask for an earlier conversation or a preference, or "".

    A question that speaks of nobody ("what is the usual treatment of a cold") asks for knowledge.
    """
    is_knowledge = _GENERAL.match(text) and not _PERSONAL.search(text)
    match = (None if is_knowledge else _ASKS.search(text)) or _ASKS_ELSEWHERE.search(text)
    return " ".join(match[0].split()) if match else ""


def hints_at_the_past(text: str) -> str:
    """Return the words that point back, perhaps only within this conversation, or ""."""
    match = None if _GENERAL.match(text) else _HINT.search(text)
    return " ".join(match[0].split()) if match else ""
