"""The phrases by which people ask to remember something, or state or order it outright, in English and German.

All are matched at the start of a sentence: what stands further in is often another's, or so only under a condition.
"""

import re

from memory_context.foundation.patterns import regex

# fmt: off
__all__ = [
    "ENDED", "EVERYTHING", "FACTS", "FICTION", "FORGET", "IT", "LEAD_INS", "LIFTED", "NOT_OF_USER", "ORDERS",
    "PREFERENCES", "REMEMBER_THAT", "RULE_WORDS", "TAIL", "VETOES",
]
# fmt: on


def _pattern(*parts: str) -> "re.Pattern[str]":
    written = "|".join(f"(?:{part})" for part in parts)
    return regex(written.replace("'", "['’]"), re.IGNORECASE)  # telephones write ’


LEAD_INS = _pattern(
    r"^(?:ok(?:ay)?|thanks?|thank you|please(?! note)|hi|hello|hey|and|also|but|so|by the way|btw|oh|well|yes|no|just|"
    r"p\.?s\.?|bitte(?! merken)|übrigens|danke|und|aber|ach|ja|nein|hallo)\b[,:!.]?\s+"
)
_REMEMBER = (
    r"(?:(?:can|could|would|will) you )?(?:please |bitte )?(?:do |also )?(?:remember|don't forget|do not forget|"
    r"keep in mind|bear in mind|merke? dir|merken|vergiss (?:bitte )?nicht|denke? (?:bitte )?daran)"
    r"(?: bitte| please| noch| auch| also)*"
)
_MY = r"(?:my|our|meine?|unsere?)"
_I = r"(?:i|we|ich|wir)"
REMEMBER_THAT = _pattern(
    rf"{_REMEMBER}(?:(?:,? (?:that|dass|daß)|\s?[:,]) (?=\S+ \S+)|(?= (?:i'm|(?:{_I}|{_MY}) \S+) \S+))"
)
IT = _pattern(rf"{_REMEMBER} (?:it|this|that|das)(?=\W*$|[,;] | (?:please|bitte)\b)")
"""Asks to remember the sentence before."""

NOT_OF_USER = _pattern(
    r"^(?:you|your|you're|he|she|they|it|it's|this|these|those|as|once|on|to|if|du|er|sie|es)\b",
    r"^(?:i|we) (?:want|need|would like|am trying|are trying) |^(?:my|our|the) (?:goal|aim|task|question|problem)\b",
    r"\b(?:must|should|needs to|(?:the|this) (?:article|text|essay|story|post|code|project|task|prompt))\b",
    r"^(?:\S+ ){0,3}(?:it|this|that|them|das|es|so)[.!]?$",
    r"^(?!.*\b(?:i|i'm|my|me|our|we|us|ich|mein\w*|mir|mich|unser\w*|wir|uns)\b)",
)
"""Content that "remember that …" points at in the task at hand, unless the request stands alone."""

_NO_REFERENCE = (
    r"(?!(?:this|these|those|that(?! (?:all|every|no|my|our|you)\b)|it|them|your?|his|her|their|how|what|when|where|"
    r"the|an?|to|some|either|both|one|diese\w*|das|es|die (?:erste|zweite|dritte|andere|letzte)|not to (?:say|answer|"
    r"share|tell))\b)"
)
_NO_ORDER = (
    r"(?!(?:the|an?|my|your|our|his|her|their|this|that|these|those|there|it|he|she|they|in|on|at|of|to|for|same|with|"
    r"been|seen|heard|remember|had|has|was|is|are|happy|sunny|again|mind|worry|ever|gonna|going|good|bad|better|more|less|"
    r"enough|knew|saw|say|know|think|thought|understand|see|have|care|get|got|want|went|came|did|break|stay|before|"
    r"after|wieder|noch|dasselbe|\w+ing|\w*[^\Ws]s|\w+ly|\w+(?<!n)ed)\b)"
)
"""Words that make "always …" and "never …" a report or an idiom."""
_DO = (
    r"(?:nutze?|verwende|benutze?|nimm|antworte|schreibe?|sprich|formatiere|zeige?|mache?|gib|nenne?|sende|schicke?|"
    r"frage?|prüfe|teste|speichere?|sortiere|erkläre?|lösche)"
)
_HABIT = r"(?:use|write|want|deploy|commit|squash|drink|eat|travel|work|read|nutze|verwende|trinke|esse|fahre)"
PREFERENCES = _pattern(
    rf"{_I} (?:strongly |really |generally |usually |also |always )*(?:prefer|bevorzugen?) {_NO_REFERENCE}\S+",
    rf"{_I} (?:(?:always|never) {_HABIT}|{_HABIT} (?:\S+ )?(?:immer|nie|niemals)\b) (?!it\b|this\b|that\b)\S+",
    rf"(?:always|never|don't ever|i want you to (?:always|never)) {_NO_ORDER}[a-z]{{2,}}\b(?! ?(?:=|\()) \S+",
    rf"(?:{_DO} (?:\S+ ){{0,3}}?)?(?:immer|nie|niemals|stets) (?!wieder|noch|dasselbe)\S+",
)

_THING = (
    r"(?:[\w.-]+ ){0,2}?(?:name|birthday|e-?mail(?: address)?|address|(?<!order )(?<!reservation )(?<!booking )number|"
    r"phone|time ?zone|language|editor|shell|browser|keyboard|laptop|database|db|team|company|employer|department|"
    r"manager|boss|doctor|wife|husband|partner|(?:grand)?(?:son|daughter|mother|father)|dog|cat|sister|brother|child|"
    r"car|bike|bank|city|country|handle|username|diet|job|profession|\w*server|cluster|repository|repo|branch|account|"
    r"office|school|university|allergy|(?:preferred|favou?rite|default|primary) [\w-]+|Geburtstag|Adresse|\w*nummer|"
    r"Zeitzone|Sprache|Datenbank|Firma|Chef|Chefin|Arzt|Ärztin|Frau|Mann|Sohn|Tochter|Mutter|Vater|Schwester|Bruder|"
    r"Kind|Hund|Katze|Auto|Büro|Schule|Beruf|Lieblings\w+|bevorzugte\w* \w+|Standard\w+)"
)
_NO_STATE = (
    r"(?!(?:not|down|up|broken|slow|stuck|red|green|full|empty|gone|wrong|missing|locked|dead|fine|ok|okay|ready|none|"
    r"lost|late|working|too|very|so|still|been|back|offline|online|here|there|that|how|what|why|about|in|on|at|the|"
    r"set|(?-i:[a-z]{3,}ed)|\w+ing|kaputt|langsam|rot|weg|leer|voll|nicht|noch|zu|sehr|gerade|falsch|fertig)\b"
    r"(?<!beijing))"
)
FACTS = _pattern(
    rf"{_MY} {_THING} (?:is|are|ist|sind|heißt|heisst|lautet|has changed to) {_NO_STATE}\S+",
    rf"{_MY} [\w -]{{2,40}}? (?:(?:is|are) (?:called|named)|heißt|heisst) (?!(?:twice|again|with|from|by|an?|"
    rf"every|home|back|up|off|for)\b)\S+",
    rf"{_MY} (?:favou?rite colou?r|Lieblingsfarbe) (?:is|ist) (?!not|nicht)\S+",
    r"(?:ich hei(?:ß|ss)e|nenne? mich|call me) (?!(?:back|later|when|if|an? |the |at |by )\b)\S+",
)
"""Matches a possession of the user with its value ("my database is Orders"), but no passing state ("is broken")."""
ENDED = _pattern(
    rf"(?:{_I}|i'm|i am|ich bin|{_MY} [\w -]{{2,40}}?|don't|do not) (?:.* )?(?:no longer|any ?(?:more|longer)|"
    rf"nicht mehr|kein\w* .*mehr)\b"
)
"""Says that something holds no longer; worth a line only if it ends a statement that is known."""

VETOES = _pattern(
    r"\?\s*$|^(?:what|which|who|whose|where|why|how|is|are|was|were|do|does|did|has|have|should|shall|may|wie|wer|wo|"
    r"warum|weißt|kennst|welche\w*)\b",
    r"\b(?:maybe|perhaps|probably|possibly|not sure|i guess|i think|i suppose|i wonder|vielleicht|ich glaube|ich denke|"
    r"vermutlich)\b",
    r"\b(?:today|tonight|this time|for now|just this once|right now|at the moment|for this (?:task|file|one)|diesmal|"
    r"heute|gerade|momentan|vorerst|im moment)\b",
    r"\b(?:used to|früher|misspelled|i forgot|rather not|lieber nicht)\b",
    r"\b(?:do not|don't|needn't|need not|no need to|can't|cannot|couldn't|nicht|nie) (?:need to |have to )?(?:remember|"
    r"recall|merken)\b|\bmerke? dir (?:das |es )?nicht\b|\bforget (?:that|what|about)\b(?<!don't forget that)"
    r"(?<!not forget that)",
    r"\bif\b|\bunless\b|\bin case\b|\bfalls\b|\bwenn\b|\b(?:would|could|might) (?:be|prefer|like|love)\b|\bhätte\b|"
    r"\bwürde\b",
    r"\b(?:said|says?|saying|wrote|writes|stated|told|tells|claims?|according to|mentioned|replied|asked|sagte?|"
    r"sagen|schrieb|schreibt|steht|laut|meinte?|behauptet)\b",
    r"\b(?:first|second|third|last|next|previous|new|above|following|same|current|remaining|earlier|later|cheaper) "
    r"(?:\w+ )?(?:option|one|version|idea|approach|draft|file|flight|seat|appointment|variante)s?\b|"
    r"\b(?:on this one|that price)\b",
    r"[{}]|\[\w|=>|==|\w\(\)|^\s*[#$/]|</",
)
"""Questions, hedges, passing wishes, the past, negated requests, conditions, reported speech, choices at hand, code."""

FICTION = _pattern(
    r"\b(?:imagine|pretend|suppose|let's say|role-?play|stell dir vor|angenommen|nehmen wir an|fictional|"
    r"hypothetical|imaginary)\b",
    r"\b(?:translate|übersetze?|rewrite|paraphrase|proofread|how do you say)\b",
    r"\b(?:write|draft|compose|schreibe?|verfasse) (?:me )?(?:an? |einen? |eine )?(?:\w+ )?(?:story|(?:e-?)?mail|"
    r"letter|poem|song|novel|post|tweet|brief|gedicht|sentence|message)\b",
    r"\b(?:in|im|of) (?:the|my|our|this|an?|einem?|dem|meine[mr]?) (?:\w+ )?(?:novel|story|book|game|film|movie|play|"
    r"poem|scene|world|roman|spiel|geschichte|buch|film|lyrics)\b",
    r"\byou(?: are|'re| will be|'ll be) (?:now |going to )?(?:an? |the |playing |acting |(?-i:[A-Z])\w+)",
    r"\bdu bist (?:jetzt |nun )?(?:ein|eine)\b|\b(?:act|behave|pose|answer|respond|speak|talk) (?:exactly |"
    r"only )?(?:as|like) ",
    r"\b(?:your|in|break(?:ing)?) (?:character|role|persona)\b|\byou(?: will| must| shall|'ll) (?:play|act|obey|"
    r"pretend)\b",
)
"""Begins a story, a role, or a text to write or translate, which states nothing about the user."""

_AT_ONCE = r"(?:^|[,;:–—] |\b(?:and|but|also|please|so|then|und|aber|bitte) )"
ORDERS = _pattern(
    rf"{_AT_ONCE}(?:please |bitte )?(?:always|never|don't|do not|avoid|no longer|stop \w+ing|immer|nie|niemals|stets)\b"
    rf" {_NO_ORDER}",
    r"\b(?:from now on|in (?:the )?future|going forward|ab jetzt|ab sofort|künftig|in zukunft|von nun an)\b",
    r"\b(?:must|should|shall|may) (?:not|never|always|only)\b|\bdu (?:sollst|darfst|musst) (?:nie|nicht|immer|nur)\b",
    r"\b(?:nicht|kein\w*) [^.]{0,60}\b(?:ändern|anfassen|löschen|verwenden|benutzen|nutzen|schreiben|umbenennen)\b",
    rf"^{_DO}\b.*\b(?:immer|nie|niemals|stets|kein\w*|nicht)\b",
    r"\b(?:rules?|regeln?)\b[^.]{0,60}:",
    r"\b(?:keep|leave) .{1,60}\b(?:as (?:it|they) (?:is|are)|alone|untouched|unchanged)\b",
    r"^(?:no|nein|actually|correction|korrektur)[,:] \S+ \S+",
    r"^(?:use|take|nimm|verwende) .*\b(?:instead of|not|statt|anstatt)\b",
    r"^(?:let's|we'll|we will|i|we|wir|ich) (?:go with|stick (?:to|with)|decided|nehmen|bleiben bei|"
    r"haben entschieden)\b",
)
"""A rule, correction or decision for the session, whose views keep it; nothing lasting of the user."""
LIFTED = _pattern(
    r"^(?:you (?:may|can|are allowed to|need not|don't (?:have|need) to)|feel free to|du (?:darfst|kannst|"
    r"musst nicht))\b"
)
FORGET = _pattern(
    r"^(?:forget|drop|ignore|lift|cancel|scrap|disregard|remove|vergiss|streiche?|ignoriere)\b.*\b(?:rules?|"
    r"instructions?|what i said|regeln?|anweisung(?:en)?|was ich gesagt habe)\b|^(?:forget|vergiss) (?:that|it|das)\W*$"
)
"""Take orders back: what they forbade is allowed, or they are named."""
EVERYTHING = _pattern(r"\b(?:all|everything|alle|alles)\b")
RULE_WORDS = frozenset(
    {"forget", "drop", "ignor", "lift", "cancel", "scrap", "disregard", "remov", "rule", "instruct", "said", "allow"}
    | {"feel", "free", "need", "may", "can", "now", "vergiss", "streich", "ignorier", "regel", "anweisung", "jetzt"}
    | {"darfst", "kannst", "musst"}
)
"""Of requests to take an order back, as terms: they say nothing of which."""

TAIL = regex(
    r"(?:,? (?:so please|but (?:i|we|is|how|what|can|could)|and (?:i|we) (?:want|need|would|wish|wonder))|"
    r", (?:so (?:i|we|it|there|can|could|what|how|please)|which (?:is why|means)|(?:and |but )?(?:can|could|what|how|"
    r"please)|(?:and|but) (?:i|we))|"
    r" (?:give|write|create|generate|tell|help|suggest|explain) (?:me|an?|the|\d+))\b.*$",
    re.IGNORECASE | re.DOTALL,
)
"""A request or conclusion behind a statement."""
