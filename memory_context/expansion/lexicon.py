"""The word lists behind the rules, each a property of English and not of any one request."""

from .. import text

__all__ = [
    "ACTIONS",
    "AROUND_US",
    "BE",
    "CLAUSES",
    "COURTESIES",
    "DETERMINERS",
    "FOREIGN_DETERMINERS",
    "FOREIGN_LINKS",
    "FOREIGN_WORDS",
    "FUNCTION_WORDS",
    "GENERIC",
    "KIN",
    "KINDS",
    "LEAD_INS",
    "MAKING",
    "NUMERALS",
    "OWN",
    "OWN_GENERIC",
    "POSTMODIFIERS",
    "PRONOUNS",
    "QUESTION_WORDS",
    "REPLIES",
    "THINKING",
    "WEAK",
    "YES_OR_NO",
]


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _terms(words: str) -> frozenset[str]:
    return frozenset(term for word in words.split() for term in text.terms_of(word))


LEAD_INS = _words("""
    please pls plz u kindly now then also and so ok okay hey hi hello well just can could would will you i we want
    need like to let lets go ahead try quickly again thanks great first next finally help me
""")
"""What may stand before the verb of an order."""

FUNCTION_WORDS = text.ENGLISH_STOP_WORDS | _words("""
    anything around asap back behind below didn doesn don done down every everything get gets got instead isn let might
    must near nothing now ok one onto per please since someone something soon still thanks till today tomorrow toward us
    via within without won yes yet
""")
"""Stop words, and words of requests that say as little."""

DETERMINERS = _words("the teh this that these those my our")
FOREIGN_DETERMINERS = frozenset[str]().union(*text.FOREIGN_DETERMINERS.values())
FOREIGN_LINKS = _words("und et y e ed i de di von")
FOREIGN_WORDS = frozenset[str]().union(*text.FOREIGN_STOP_WORDS.values())
OWN = _words("my our")
POSTMODIFIERS = _words("of in from for on at about by with")
"""After one of these a definite phrase says which thing it means, if it goes on with a name or a known thing."""
CLAUSES = _words("that which who whose where named called between under")
"""After one of these a definite phrase says which thing it means."""
PRONOUNS = _words("it them this that these those him her they he she")
QUESTION_WORDS = _words("what wat whats when where which who whom whose why how")
YES_OR_NO = _words("is are was were does do did has have any")
BE = _words("is are was were am be been has have had does do did will should can must = :")

GENERIC = _words("""
    world sun moon earth internet web weather sky sea time day week month year morning evening night weekend future
    past moment present user users public government economy market law brain heart body human difference best worst
    most least first second third following next rest whole entire way point fact question answer example case problem
    end beginning start middle top bottom left right basics idea concept meaning reason reasons cause steps latest
    current largest smallest biggest highest lowest longest shortest fastest only main pros cons advantage advantages
    disadvantages same news president universe planet ocean language terminal command line cloud
""")
"""Things there is one of for everybody, or that a request means in general."""

OWN_GENERIC = _words("""
    name question opinion mind understanding goal problem case own apologies mistake bad part turn life knowledge
    behalf code codebase guess thought thoughts point view request message first second
""")
"""After "my": part of how one speaks."""

ACTIONS = _words("""
    deploy connect run restart start stop send email mail share upload publish merge push release book order reserve
    buy schedule call cancel pay reply respond fix continue proceed resume finish complete undo revert retry redo
    update delete remove submit sync import export invite remind notify ping renew switch enable disable install
    configure rename move open close post print rerun repeat clean archive assign approve reject
""")
"""Verbs whose object has to be a thing that exists."""

THINKING = _words("""
    explain describe define compare list calculate compute derive prove suggest count teach name
""")
"""Verbs whose object may be a thing in general."""

AROUND_US = _words("""
    machine computer system host directory folder repo repository conversation chat session week month year morning
    evening afternoon weekend time way case sentence
""")
"""After "this": what needs no antecedent."""

KINDS = _words("""
    library package module framework algorithm method function class command keyword operator tag attribute protocol
    pattern principle language theorem law formula
""")
"""At the end of a definite phrase of several words: the words before are the name."""

NUMERALS = _words("two three four five six seven eight nine ten dozen hundred thousand million")

KIN = _words("mom mum mommy mummy dad daddy grandma grandpa granny")
"""Persons one speaks of without "my"."""

REPLIES = _words("""
    the yes yeah yep yup sure ok okay no nope again more next continue proceed go on ahead do it that this so please
    then now just one first second third last former latter both all none same option choice two retry redo done ja
    nein oui non sí si please thanks thx
""")
MAKING = ACTIONS | _words(
    "write create generate make draft draw build add design implement compose invent plan play translate"
)
"""Verbs that do or make something, and do not by themselves ask what a stored text says."""

COURTESIES = _words("ok okay please thanks thx so now then")
"""Replies that ask for nothing."""

WEAK = _terms("""
    add answer back big call change check code command complete content copy count create current data describe
    description detail detailed different display document done download earlier empty entry error example exit
    explain fact fail failed file find fine first fix found full function get give go good great help important info
    information input item keep key know large last latest let line list load long look made make mean message method
    more name need new next number ok old open order output page part please point print problem put question quick
    read really reference remember report request response result return review run save say screen script search see
    send set show shown size some start state status step stop store stored string succeed succeeded sum summarise
    summarize summary sure take task tell test text thank thanks thing think time today token tokens tool tool_call
    total try turn type update use used user value want way well what word work write wrong yes yesterday character
    characters kb mb lines rows row json html csv txt md py exact exactly again before which about http https
    www com org net
""")
"""Said of nearly any request or any stored thing, so that they do not tell one from another; as terms."""
