"""Words and phrases of the rules, in English and German: properties of a language, never of one request."""

import re

from memory_context.foundation.patterns import regex
from memory_context.foundation.text.lexicon import ENGLISH_STOP_WORDS, FOREIGN_DETERMINERS
from memory_context.foundation.text.tokenize import terms_of

# fmt: off
__all__ = [
    "ACTIONS", "BE", "COURTESIES", "CREATIONS", "DEMONSTRATIVES", "DETERMINERS", "ENGLISH", "FUNCTION_WORDS",
    "GENERAL_QUESTION", "GENERIC", "GERMAN_DETERMINERS", "GERMAN_ORDER", "INDEFINITE", "IN_RECORDS", "KNOWLEDGE",
    "LEAD_INS", "OWN", "OWN_PHRASE", "PAST", "PERSONAL", "PREPOSITIONS", "PRONOUNS", "QUESTION_WORDS", "REPLIES",
    "REQUESTS", "SAID", "SHORT_FOR", "STATEMENT", "THOUGHTS", "WEAK", "WHEN", "YES_OR_NO",
]
# fmt: on


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _phrases(phrases: str) -> re.Pattern[str]:
    """Compile phrases, one a line, that begin at a word's start."""
    lines = filter(None, map(str.strip, phrases.splitlines()))
    return regex(rf"(?<![\w'])(?:{'|'.join(lines)})", re.IGNORECASE)


FUNCTION_WORDS = ENGLISH_STOP_WORDS | _words("""
    anything around asap back behind below didn doesn don done down every everything get gets got instead isn let might
    must near nothing now ok one onto per please since someone something soon still thanks till today tomorrow toward us
    via within without won yes yet
""")
DETERMINERS = _words("the this that these those my our")
DEMONSTRATIVES = _words("this that these those")
GERMAN_DETERMINERS = FOREIGN_DETERMINERS["de"]
OWN = _words("my our")
PRONOUNS = _words("it them this that these those him her they he she")
BE = _words("is are was were am be been has have had does do did will should can must = :")
PREPOSITIONS = _words("of in from for on at about by with that which who whose where named called between under : (")
INDEFINITE = _words("a an any each every all some two three four five six seven eight nine ten")
GENERIC = _words("""
    world sun moon earth internet web weather sky sea time day week month year morning evening night weekend future past
    moment present user users public government economy market law brain heart body difference best worst most least
    first second third following next rest whole entire way point fact question answer example case problem end
    beginning start middle top bottom left right basics idea concept meaning reason cause steps latest oldest newest
    current largest smallest biggest highest lowest longest shortest fastest slowest cheapest nearest only main pros
    cons advantage advantages same news president universe planet ocean language terminal command line cloud last
    name opinion mind understanding goal own mistake part life code codebase machine computer directory folder repo
    repository conversation session library module framework algorithm method class keyword operator protocol word
    variable environment
""")  # common knowledge, idioms, and what surrounds the agent
LEAD_INS = _words("""
    please pls u kindly now then also and so ok okay hey hi hello well just can could would will you i we want need
    like to let lets go ahead try quickly again thanks great first next finally help me
""")
QUESTION_WORDS = _words("what wat whats when where which who whom whose why how")
YES_OR_NO = _words("is are was were does do did has have any")
THOUGHTS = _words("explain describe define list calculate compute derive prove suggest count teach name")
ACTIONS = _words("""
    deploy connect run restart start stop send email mail share upload publish merge push release book order reserve buy
    schedule call cancel pay reply respond fix continue proceed resume finish complete undo revert rollback retry redo
    update delete remove submit sync import export invite remind notify ping renew switch enable disable install
    configure rename move open close post print rerun repeat clean archive assign approve reject turn transfer
    forward refund commit rebase squash use apply follow reuse adopt
""")
CREATIONS = _words("write create generate make draft build add design implement compose invent plan play translate")
REQUESTS = (
    ACTIONS
    | CREATIONS
    | THOUGHTS
    | _words("""
    review read find look search show tell give get fetch verify test try ask provide confirm answer summarize summarise
    analyze analyse compare choose decide improve change set wait consider evaluate investigate recommend report
    propose brainstorm query load check
""")
)  # of one agent to another
REPLIES = ACTIONS | _words("""
    the yes yeah yep yup sure ok okay no nope again more next continue proceed go on ahead do it that this so please
    then now just one first second third last former latter both all none same option choice two ja nein
""")
COURTESIES = _words("ok okay please thanks thx so now then danke")
SHORT_FOR = {
    "db": "database", "repo": "repository", "app": "application", "config": "configuration", "env": "environment",
    "prod": "production", "docs": "documentation",
}  # fmt: skip
WEAK = frozenset(term for word in _words("""
    change check code command content data end error exit fail failed file found full get input item key lines list
    load long message more name new next number open output page part print quote read reference remember result
    return run save script search see send set show size start state status step stop store stored succeed succeeded
    summarise summary take task tell test text thing tool tool_call total try type update use user value way word work
    write kb mb rows json html csv txt md py http https www com org net
""") for term in terms_of(word))  # fmt: skip
"""Of tools and their outputs: two references that share only such a word are not alike."""

STATEMENT = regex(
    r"^\W*(?:please )?(?:remember|note|keep in mind|be aware|fyi|for your information|for future reference"
    r"|for the record|from now on|save|store|memori[sz]e|merke? dir)\b"
    r"(?! (?:when|what|how|where|who|which|me|the|our)\b)"
    r"|\b(?:remember|note|keep in mind|memori[sz]e) (?:that|this|it)\W*$|\bplease (?:note|remember)\b"
    r"|^\W*(?:my|our)\b[^?.]*\b(?:is|are|was|were)\b[^?]*$"
    r"|^\W*i (?:prefer|like|live|work|use|am|always|never|don't)\b[^?]*$",
    re.IGNORECASE,
)  # tells instead of asking
GENERAL_QUESTION = regex(
    r"^\W*(?:(?:can|could|would|will) you |please )*(?:wh?at|how|why|who|when|where|which|explain|describe|define)\b",
    re.IGNORECASE,
)
PERSONAL = regex(r"\b(?:i|me|my|mine|we|us|our|ours|you|your)\b", re.IGNORECASE)
ENGLISH = regex(r"\b(?:the|is|to|of|and|for|you|my|please)\b", re.IGNORECASE)
KNOWLEDGE = regex(
    r"^\W*(?:(?:please )?explain )?what (?:is|are) (?:an? [\w -]{1,40}|(?!the\b|in\b|on\b)[a-z-]+(?: [a-z-]+)?)\W*$"
    r"|\bwhat does (?:an? )?[\w -]{1,40} (?:mean|do|stand for|consist of)\b|\bwhat(?:'s| is) the difference\b"
    r"|^\W*how (?:do|can|does|would|should) (?:i|you|we|one)\b|\btranslate ['\"]"
    r"|\bwas (?:ist|sind|bedeutet) eine?\b|\bwas (?:heißt|bedeutet)\b|\bunterschied zwischen\b",
    re.IGNORECASE,
)  # is answered by what a model knows

_WHEN = r"(?:week|month|year|quarter|sprint|night|weekend|spring|summer|autumn|fall|winter|season|christmas|\w+day)\b"
_HABIT = r"(?:usual|normal|regular|standard|default|preferred|favou?rite|typical|customary|go-to)\b"
_PAST_VERB = (
    r"(?:\w{2,}ed|said|told|gave|given|sent|made|wrote|had|bought|chose|went|saw|read|met|spoke|did|was|were|got|took"
    r"|left|built|kept|paid|found|set|put)\b"
)
_NOUN = r"(?:the|that|those) (?:[\w-]+ ){1,3}"
_WE = r"(?:i|we)(?:'d|'ve| had| have)? (?:\w+ )?"
PAST = _phrases(rf"""
    (?:{_NOUN}|(?:that|which|what|where|when|who|how|whom|as|than|like|way) ){_WE}{_PAST_VERB}
    {_NOUN}(?:i|we) (?:like|use|love|prefer|follow)\b
    (?:the [\w-]+|what|how|who) the (?:[\w-]+ ){{1,2}}{_PAST_VERB}(?! (?:to|by)\b)
    (?:the|that) (?:[\w-]+ ){{1,3}}that (?-i:[A-Z]\w+) {_PAST_VERB}
    (?:the way|what|how|which) (?:the )?[\w.]+ (?:\w+ )?(?:wants|likes|prefers|needs|expects|asked)\b
    (?:to|than|like|as|with) what (?:it|they|this|that|\w+) {_PAST_VERB}
    (?:i|we|you) (?:usually|always|normally|typically|generally)\b
    (?:did|have|had) (?:i|we)\b
    we(?:'d|'ve| had| have)? (?:\w+ )?(?:agreed|discussed|decided|talked|settled|chose|picked|spoke)\b
    i(?:'ve| have| had)? (?:already |once )?(?:(?:told|given|gave|sent|showed|shown) you|mentioned)\b
    as (?:agreed|discussed|decided|usual|always|before|planned|promised|arranged|requested|previously|originally)\b
    (?:like|as|than|same|way|from|of|since)\b[^.?!\n]{{0,40}}\b(?:last {_WHEN}|before\b|usual\b|yesterday\b)
    (?:like|as|than|same [\w-]+ (?:as|like)) (?:[\w-]+ ){{0,3}}(?:last|previous|earlier|old|other) \w+
    same [\w-]+ (?:as|that) (?:we|i|you|he|she|they|(?-i:[A-Z]\w+))\b
    (?:last|previous) (?:time|session|conversation|chat|discussion|trip|visit|call|meeting)\b
    last {_WHEN}'s \w+|the other day\b|back then\b
    (?:my|our|their|his|her|\w+'s) {_HABIT}|the usual\b|(?:my|our) preferences?\b
    where (?:did )?(?:we|i) (?:had )?(?:leave off|left off|stop|stopped|were)\b
    you (?:still |even )?(?:remember|recall)\b|you know (?:why|what|which|who|where|how)\b
    (?:know|remembered|learned|saved|stored|noted) about (?:me|us|my|our)\b|who am i\b
    wie (?:(?:bei|beim|das|im|in|am|der|dem|den) ){{0,2}}(?:letzt|vorig|vergangen)\w+|(?:letztes|voriges) (?:mal|jahr)\b
    wie (?:immer|üblich|gewohnt|besprochen|vereinbart|abgemacht|gehabt|zuletzt|sonst|damals)\b
    letzte woche\b|neulich\b|damals\b|erinnerst du dich\b|weißt du (?:noch|schon)\b|du weißt\b
    so wie (?:bei|beim|mit|dem|der|den|im|neulich|gestern)\b|wie (?:beim|bei der|im) (?:anderen|alten)\b
    (?:mein|unser|die|das|der|den)e?[rnms]? (?:übliche|gewohnte|bevorzugte|lieblings)\w*
    (?:vereinbarte|abgesprochene|besprochene|abgemachte)\w*|hab(?:e)? ich (?:dir|ihnen) (?:\w+ )?(?:gesagt|erzählt)
    (?:wieder|gleiche\w*|(?:der|die|das|den|dem)?selbe\w*)\b[^.?!]{{0,40}}\b(?:letzt|vorig|vergangen|früher|wie)\w*
    (?:de[mnr]|die|das|denen) (?:wir|ich)\b[^.?!]{{0,40}}\b(?:hatten?|haben?)\b
""")
SAID = regex(
    r"\b(?:we|you|i)(?:'ve|'d)?(?: \w+){0,2}? (?:f[io]u?nd out|say|said|tell|told|agreed?|discuss(?:ed)?|decided?"
    r"|concluded?|talk(?:ed)?|mention(?:ed)?|learn(?:ed|t)?|settled?|established?|figured? out|worked? out"
    r"|answer(?:ed)?|recommend(?:ed)?|suggest(?:ed)?|came to|come to)\b"
    r"|\b(?:wir|du|ich)\b.*\b(?:herausgefunden|gesagt|besprochen|vereinbart|beschlossen|entschieden|empfohlen)\b",
    re.IGNORECASE,
)  # asks for words and conclusions rather than for material
WHEN = _words("last time previous session conversation chat earlier previously yesterday before again")
IN_RECORDS = regex(r": '(?:(?:did|have|had) (?:i|we)|(?:letztes|voriges) jahr|letzte woche)", re.IGNORECASE)
"""In a reason: "how much did we sell" may ask what is stored."""
OWN_PHRASE = regex(r"'(?:my|our|mein|unser)\w* ", re.IGNORECASE)  # in a reason: something of the user's own
GERMAN_ORDER = regex(
    r"^\W*(?!(?:erklär|beschreib|übersetz|schreib))[^\W\d_]{3,}(?:[- ][^\W\d_]+){0,2} "
    r"(?P<determiner>den|dem|das|die|mein\w*|unser\w*) (?P<noun>[^\W\d_]{3,})",
    re.IGNORECASE,
)
