"""Words and phrases of the rules: properties of a language, never of one request."""

import re

from memory_context.foundation.text.lexicon import ENGLISH_STOP_WORDS
from memory_context.foundation.text.lexicon import FOREIGN_DETERMINERS as DETERMINERS_BY_LANGUAGE
from memory_context.foundation.text.tokenize import terms_of

# fmt: off
__all__ = [
    "ACTIONS", "ADVICE", "APPLIES", "AROUND_US", "BE", "CLAUSES", "COURTESIES", "CREATIONS", "DEMONSTRATIVES",
    "DETERMINERS", "DUMMIES", "ENGLISH", "FOREIGN_DETERMINERS", "FOREIGN_ORDER", "FOREIGN_PAST", "FUNCTION_WORDS",
    "GENERAL_QUESTION", "GENERIC", "INDEFINITE", "IN_RECORDS", "KIN", "KINDS", "KNOWLEDGE", "LEAD_INS", "LINKS",
    "OWN", "OWN_GENERIC", "OWN_PHRASE", "PAST", "PERSONAL", "POINTS_BACK", "PREPOSITIONS", "PRONOUNS",
    "QUESTION_WORDS", "REFERS_BACK", "REPLIES", "REQUESTS", "SAID", "SHORT_FOR", "STATEMENT", "TEXT_ORDER", "USES",
    "VERBS_OF_THOUGHT", "WEAK", "WHEN", "WISHES", "YES_OR_NO",
]
# fmt: on


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _terms(words: str) -> frozenset[str]:
    return frozenset(term for word in words.split() for term in terms_of(word))


def _phrases(phrases: str) -> re.Pattern[str]:
    """Compile phrases, one a line, that begin at a word's start."""
    lines = (line.strip() for line in phrases.splitlines())
    return re.compile("|".join(rf"(?<![\w'])(?:{line})" for line in lines if line), re.IGNORECASE)


DETERMINERS = _words("the teh this that these those my our")
DEMONSTRATIVES = _words("this that these those")
OWN = _words("my our")
INDEFINITE = _words("a an any each every all some two three four five six seven eight nine ten")
DUMMIES = _words("it this that")
PRONOUNS = _words("it them this that these those him her they he she")
KIN = _words("mom mum mommy mummy dad daddy grandma grandpa granny")  # used without "my"
PREPOSITIONS = _words("of in from for on at about by with")
CLAUSES = _words("that which who whom whose where named called between under")

GENERIC = _words("""
    world sun moon earth internet web weather sky sea time day week month year morning evening night weekend future past
    moment present user users public government economy market law brain heart body difference best worst most least
    first second third following next rest whole entire way point fact question answer example case problem end
    beginning start middle top bottom left right basics idea concept meaning reason cause steps latest oldest newest
    current largest smallest biggest highest lowest longest shortest fastest slowest cheapest nearest only main pros
    cons advantage advantages same news president universe planet ocean language terminal command line cloud last
""")
OWN_GENERIC = _words("""
    name question opinion mind understanding goal problem case own apologies mistake bad part turn life knowledge behalf
    code codebase guess thought point view request message first second
""")
KINDS = _words(
    "library module framework algorithm method class keyword operator protocol law word letter variable environment"
)
AROUND_US = _words("machine computer system host directory folder repo repository conversation chat session week month")


LEAD_INS = _words("""
    please pls plz u kindly now then also and so ok okay hey hi hello well just can could would will you i we want need
    like to let lets go ahead try quickly again thanks great first next finally help me
""")
FUNCTION_WORDS = ENGLISH_STOP_WORDS | _words("""
    anything around asap back behind below didn doesn don done down every everything get gets got instead isn let might
    must near nothing now ok one onto per please since someone something soon still thanks till today tomorrow toward us
    via within without won yes yet
""")  # stop words and request fillers
QUESTION_WORDS = _words("what wat whats when where which who whom whose why how")
YES_OR_NO = _words("is are was were does do did has have any")
WISHES = _words("need want like let just can could would")
ADVICE = _words("do does can could should would to")
BE = _words("is are was were am be been has have had does do did will should can must = :")
VERBS_OF_THOUGHT = _words("explain describe define list calculate compute derive prove suggest count teach name")
ACTIONS = _words("""
    deploy connect run restart start stop send email mail share upload publish merge push release book order reserve buy
    schedule call cancel pay reply respond fix continue proceed resume finish complete undo revert rollback retry redo
    update delete remove submit sync import export invite remind notify ping renew switch enable disable install
    configure rename move open close post print rerun repeat clean archive assign approve reject turn transfer
    forward refund commit rebase squash
""")
CREATIONS = _words("""
    write create generate make draft build add design implement compose invent plan play translate
    suggest propose brainstorm imagine
""")
APPLIES = _words("use apply follow reuse adopt")  # something that has to be known
USES = ACTIONS | _words("use query load join mount check")  # of something that has to be there
REQUESTS = (
    USES
    | CREATIONS
    | VERBS_OF_THOUGHT
    | _words("""
    review read find look search show tell give get fetch verify test try ask provide confirm answer summarize summarise
    analyze analyse compare choose decide improve change set run wait consider evaluate investigate recommend report
""")
)  # of one agent to another
REPLIES = _words("""
    the yes yeah yep yup sure ok okay no nope again more next continue proceed go on ahead do it that this so please
    then now just one first second third last former latter both all none same option choice two retry redo done ja
    nein oui non sí si thanks thx
""")
COURTESIES = _words("ok okay please thanks thx so now then")

SHORT_FOR = {
    "db": "database", "repo": "repository", "app": "application", "config": "configuration", "env": "environment",
    "prod": "production", "docs": "documentation", "pw": "password", "acct": "account", "mgr": "manager",
}  # fmt: skip
TEXT_ORDER = (
    r"(?:(?:can|could|would|will) you )?(?:please )?(?:translate|proofread|rewrite|rephrase|paraphrase|correct"
    r"|summari[sz]e|classify|spell|convert|format|sort|parse|anal[yi][sz]e|shorten|improve|polish|explain|count)"
)
STATEMENT = re.compile(
    r"^\W*(?:please )?(?:remember|note|keep in mind|be aware|fyi|for your information|for future reference"
    r"|for the record|from now on|save|store|memori[sz]e)\b(?! (?:when|what|how|where|who|which|me|the|our)\b)"
    r"|\b(?:remember|note|keep in mind|memori[sz]e) (?:that|this|it)\W*$|\bplease (?:note|remember)\b"
    r"|^\W*(?:my|our)\b[^?.]*\b(?:is|are|was|were)\b[^?]*$"
    r"|^\W*i (?:prefer|like|live|work|use|am|always|never|don't)\b[^?]*$",
    re.IGNORECASE,
)  # tells instead of asking
GENERAL_QUESTION = re.compile(
    r"^\W*(?:(?:can|could|would|will) you |please )*(?:wh?at|how|why|who|when|where|which|explain|describe|define)\b",
    re.IGNORECASE,
)
PERSONAL = re.compile(r"\b(?:i|me|my|mine|we|us|our|ours|you|your)\b", re.IGNORECASE)
ENGLISH = re.compile(r"\b(?:the|is|to|of|and|for|you|my|please)\b", re.IGNORECASE)


_THEN = r"(?:time|session|conversation|chat|discussion|trip|visit|call|meeting)\b"
_WHEN = r"(?:week|month|year|quarter|sprint|night|weekend|spring|summer|autumn|fall|winter|season|christmas|\w+day)\b"
_HABIT = r"(?:usual|normal|regular|standard|default|preferred|favou?rite|typical|customary|go-to)\b"
_HABITUALLY = r"(?:usually|always|normally|typically|generally)"
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
    (?:the way|what|how|which) (?:the )?\w+ (?:wants|likes|prefers|needs|expects|asked)\b
    (?:i|we|you) {_HABITUALLY}\b
    (?:did|have|had) (?:i|we)\b
    do (?:i|we) (?:still )?have (?:any|an?|the|left)\b
    we(?:'d|'ve| had| have)? (?:\w+ )?(?:agreed|discussed|decided|talked|settled|chose|picked|spoke)\b
    i(?:'ve| have| had)? (?:already |once )?(?:(?:told|given|gave|sent|showed|shown) you|mentioned)\b
    as (?:agreed|discussed|decided|usual|always|before|planned|promised|arranged|requested|previously|originally)\b
    (?:like|as|than|same|way|from|of|since)\b[^.?!\n]{{0,40}}\b(?:last {_WHEN}|before\b|usual\b|yesterday\b)
    (?:like|as|than) (?:(?:in|on|for|with|at) )?(?:the|my|our) (?:last|previous|earlier|old|other) \w+
    (?:what|how|than|like) (?:[\w-]+ ){{1,2}}{_PAST_VERB}[^.?!\n]{{0,20}} (?:last {_WHEN}|yesterday\b|before\b)
    same [\w-]+ (?:as|that) (?:we|i|you|he|she|they|(?-i:[A-Z]\w+))\b
    (?:the|that) (?:[\w-]+ ){{1,3}}that (?-i:[A-Z]\w+) {_PAST_VERB}
    same [\w-]+ (?:as|like)\b[^.?!\n]{{0,40}}\b(?:last|previous|earlier|other)\b
    (?:last|previous) {_THEN}|last {_WHEN}'s \w+|the other day\b|back then\b
    (?:my|our|their|his|her|\w+'s) {_HABIT}|the usual\b|(?:my|our) preferences?\b
    (?:to|than|like|as) what (?:it|they|this|that) (?:was|were|had|did|used)\b
    where (?:did )?(?:we|i) (?:had )?(?:leave off|left off|stop|stopped|were)\b
    you (?:still |even )?(?:remember|recall)\b|you know (?:why|what|which|who|where|how)\b
    (?:know|remembered|learned|saved|stored|noted) about (?:me|us|my|our)\b|who am i\b
""")
SAID = re.compile(
    r"\b(?:we|you|i)(?:'ve|'d)?(?: \w+){0,2}? (?:f[io]u?nd out|say|said|tell|told|agreed?|discuss(?:ed)?|decided?"
    r"|concluded?|talk(?:ed)?|mention(?:ed)?|learn(?:ed|t)?|settled?|established?|figured? out|worked? out"
    r"|answer(?:ed)?|recommend(?:ed)?|suggest(?:ed)?|came to|come to)\b"
    r"|\b(?:wir|du|ich)\b.*\b(?:herausgefunden|gesagt|besprochen|vereinbart|beschlossen|entschieden|empfohlen)\b",
    re.IGNORECASE,
)  # asks for words and conclusions rather than for material
IN_RECORDS = re.compile(
    r": '(?:did|have|had) (?:i|we)'|: '(?:letztes|voriges) jahr'|: 'letzte woche'|: 'la semana pasada'|: 'vorige? \w+'",
    re.IGNORECASE,
)  # "how much did we sell" may ask what is stored
WHEN = _words("last time previous session conversation chat earlier previously yesterday before again")
POINTS_BACK = _phrases(rf"""
    (?:earlier|previous(?:ly)?|once more|yesterday)\b|again\W*$
    you(?:'d|'ve| had| have)? (?:\w+ )?{_PAST_VERB}
    any (?:news|updates?|progress|luck)\b(?! (?:about|on|from|in|of)\b)
    the (?:same|other|old|first|second|third|last) (?:one|thing|way|approach|version)s?\b|the same \w+
""")  # perhaps within this conversation

REFERS_BACK = re.compile(
    r"^\W*(?:and|und|et|y|e|ed|en|a)\b|\b(?:it|its|they|them|their|this|that|these|those|he|him|his|she|her|there"
    r"|er|ihn|ihm|ihr|sein\w*|das|dies\w*|davon|darin|dort|ça|cela|ceci|lui|celui|celle|eso|esto|ahí|él|isso|isto|aí"
    r"|questo|quello|lì|ci|ne|dat|dit|daar|hij|haar|zijn|to|tego|tym|tam|jego|jej)\b|那|这|它|それ|これ|そこ|彼",
    re.IGNORECASE,
)  # a pronoun, or a question that goes on


OWN_PHRASE = re.compile(
    r"'(?:(?:il|la|i|le|o|a|os|as) )?(?:my|our|mein|unser|mon|ma|mes|notre|nos|mi|mis|nuestr|mi[oae]|miei|nostr|meus?"
    r"|minha|noss|mijn|onze|ons|m[oó]j|nasz)\w* ",
    re.IGNORECASE,
)  # something of the user's own in a reason
LINKS = _words("and und et y e ed i de di von")  # continue a determiner's scope
FOREIGN_DETERMINERS = frozenset[str]().union(*DETERMINERS_BY_LANGUAGE.values())
FOREIGN_ORDER = re.compile(
    r"^\W*(?!(?:explique|erklär|beschreib|décri|describ|trad[ui]|übersetz|explica|écri|escrib|schreib|compar))"
    r"[^\W\d_]{3,}(?:[- ][^\W\d_]+){0,2} (?P<determiner>le |la |les |l'|den |dem |das |die |el |los |las |il |lo "
    r"|het |de |os |as |mein\w* |unser\w* |mon |ma |mes |notre |nos |mi |mis |nuestr\w+ "
    r"|(?:il |la |i |le )?(?:mi|nostr)[oaie]i? "
    r"|(?:o |a |os |as )?(?:meus?|minhas?|noss[oa]s?) |mijn |onze |ons |m[oó]j\w* |nasz\w* )"
    r"(?P<noun>[^\W\d_]{3,})",
    re.IGNORECASE,
)
FOREIGN_PAST = re.compile(
    # German
    r"\bwie (?:(?:bei|beim|das|im|in|am|der|dem|den) ){0,2}(?:letzt|vorig|vergangen)\w+"
    r"|\b(?:letztes|voriges) (?:mal|jahr)\b"
    r"|^\W*(?:wie (?:heißt|ist|war|lautet)|was (?:ist|war)|wo|wann|wer|welche\w*)\b[^?]{0,30}\b(?:mein|unser)\w{0,2}\b"
    r"|wie (?:immer|üblich|gewohnt|besprochen|vereinbart|abgemacht|gehabt|zuletzt)\b|\bletzte woche|\bneulich\b"
    r"|\b(?:mein|unser|die|das|der|den)e?[rnms]? (?:übliche|gewohnte|bevorzugte|lieblings)\w*"
    r"|habe? ich (?:dir|ihnen) (?:\w+ )?(?:gesagt|erzählt)|erinnerst du dich|weißt du noch"
    r"|\b(?:wieder|gleiche\w*|(?:der|die|das|den|dem)?selbe\w*)\b[^.?!]{0,40}\b(?:letzt|vorig|vergangen|früher)\w+"
    r"|\b(?:vereinbarte|abgesprochene|besprochene|abgemachte)\w*|\bwie (?:beim|bei der|im) (?:anderen|alten)\b"
    r"|\bdamals\b|\bso wie (?:bei|beim|mit|dem|der|den|im|neulich|gestern)\b"
    r"|, (?:mit |nach |in )?(?:de[mnr]|die|das|denen) (?:wir|ich)\b[^.?!]{0,40}\b(?:hatten?|haben?)\b"
    # Dutch
    r"|\bvorige? (?:keer|week|maand|\w*jaar)\b|\bzoals (?:altijd|gewoonlijk|afgesproken|laatst|toen|gebruikelijk)\b"
    r"|\bgebruikelijke?\b|\b(?:die|dat) (?:we|wij|ik)\b[^.?!]{0,40}\b(?:hadden|hebben|had|heb)\b"
    r"|\bdezelfde [^.?!]{0,30}\bals\b|\bafgesproken\b|\blaatst gebruikte?\b"
    # Polish, Russian
    r"|\bt(?:o|en|a|ą|e|ego|ej|ym|ych) sam\w*\b[^.?!]{0,30}\b(?:co|jak)\b|\bzeszł\w+|\b(?:uzgodnion|umówion)\w+"
    r"|\bjak (?:ostatnio|zwykle|zawsze|wtedy|poprzednio|ustalil\w+|się umawia\w+)\b|\b(?:ostatnim|poprzednim) razem\b"
    r"|\bкак (?:в прошлый раз|обычно|всегда|тогда|договаривались|раньше)|\bпрошлый раз\b"
    # French
    r"|comme (?:[\w']+ ){0,4}(?:derni[eè]re?s?|précédente?s?|d'habitude)\b|\bmêmes? [^?.]{0,30}(?:que|qu')"
    r"|comme (?:la dernière fois|d'habitude|convenu|toujours|avant|prévu|on a dit)|\bhabituel(?:le)?s?\b"
    r"|(?:t'ai|vous ai|avais) (?:dit|parlé|montré)|tu te souviens|(?<!est-ce )(?:que|dont) (?:j'ai|on a|nous avons) "
    r"|\bconvenue?s?\b|\b(?:de|à|depuis) la dernière \w+|\ben dernier\b|\bl'(?:an|année) (?:dernier|dernière|passée?)\b"
    r"|\bpréférée?s?\b|^\W*(?:quel\w*|où|quand|qui) (?:est|sont|était)[^?]{0,20} (?:mon|ma|mes|notre|nos)\b"
    # Spanish, Italian, Portuguese
    r"|\b(?:como|donde|onde) (?:siempre|sempre)\b|\bla otra vez\b|\bd?a outra vez\b|\bl'altra volta\b"
    r"|\b(?:mism|mesm|stess)[oaie]s? [^?.]{0,30}(?:que (?:la|el|en|na|no|da|do)|dell?['a-z]* ?(?:ultim|scors)"
    r"|d[ao] (?:últim|outr|ano))"
    r"|como (?:la última vez|siempre|acordamos|quedamos|de costumbre|antes|da última vez|sempre|combinamos|hablamos)"
    r"|\bde (?:siempre|costumbre|sempre|costume)\b|\bsolit[oaie]\b|\bhabitual(?:es)?\b"
    r"|\bte (?:dije|conté|mencioné)|\brecuerdas\b|la semana pasada"
    r"|^\W*(?:cuál\w*|dónde|cuándo|quién) (?:es|son|está|era)[^?]{0,20} (?:mi|mis|nuestr\w+)\b"
    r"|come (?:l'ultima volta|al solito|sempre)|\bche (?:abbiamo|avevamo)\b|\bdi cui (?:ti|vi|abbiamo|parl)"
    r"|\bque (?:acord|combin|decid|fal|habl|quedá|quedam|eleg|ped|us)\w*[aáei]mos\b"
    r"|\bque (?:hicimos|fizemos|habíamos)\b"
    r"|\b(?:la|da|a) última ve[zs]\b|l'autre (?:jour|fois)\b|la dernière fois\b"
    r"|\b(?:acordad|pactad|concordat|pattuit|combinad)[oaie]s?\b"
    r"|\b(?:del|el|no|do|l') ?an[no]o? (?:pasado|passado|scorso)\b"
    r"|\b(?:mism|mesm|stess)[oaie]s? \w+ (?:de|di|do|da|del|della) (?:siempre|sempre|antes|prima|ayer|ieri|ontem)\b"
    # Chinese, Japanese, Korean
    r"|例の|去年的那|那次|跟(?:以前|上回)|商量好|谈好|定好|決めた(?:通り|とおり)|約束した|話した(?:通り|とおり)|使った(?:のと同じ|やつ)"
    r"|像(?:上|去年|之前|以前)|[和跟与](?:上|去年|之前|以前).{0,8}(?:一样|相同)"
    r"|(?:去年|昨年|先月|先週|以前|前)と同じ|(?:去年|先月|先週)の(?:よう|とおり|通り)"
    r"|上次|上回|一直(?:合作|用)|老地方|昨天的|上一次|之前(?:说|提|讨论|聊|用|的)|老样子|照旧|像以前|说好|约定|平时|还记得|我(?:常用|喜欢)的|按(?:惯例|老规矩)"
    r"|昨日の|続き|前回|いつもの|好きな|好みの|いつも(?:通り|どおり)|この前|先日|以前(?:話|言|の)|覚えて"
    r"|지난번|저번|평소(?:처럼|대로)|늘 하던|기억나|전에 (?:말|얘기)",
    re.IGNORECASE,
)


WEAK = _terms("""
    add answer back big call change check code command complete content copy count create current data describe
    description detail different display document done download earlier empty entry error example exit explain fact
    fail failed file find fine first fix found full function get give go good great help important info information
    input item keep key know large last latest let line list load long look made make mean message method more name
    need new next number ok old open order output page part please point print problem put question quick read
    really reference remember report request response result return review run save say screen script search see
    send set show size some start state status step stop store stored string succeed succeeded sum summarise
    summarize summary sure take task tell test text thank thanks thing think time today token tool tool_call total
    try turn type update use used user value want way well what word work write wrong yes yesterday character kb mb
    rows json html csv txt md py exact exactly again before which about http https www com org net
""")


KNOWLEDGE = re.compile(
    r"^\W*(?:(?:please )?explain )?what (?:is|are) (?:an? [\w -]{1,40}|(?!the\b|in\b|on\b)[a-z-]+(?: [a-z-]+)?)\W*$"
    r"|\bwhat does (?:an? )?[\w -]{1,40} (?:mean|do|stand for|consist of)\b|\bwhat(?:'s| is) the difference\b"
    r"|^\W*how (?:do|can|does|would|should) (?:i|you|we|one)\b|\btranslate ['\"]"
    r"|\bwas (?:ist|sind|bedeutet) eine?\b|\bqu'est-ce qu'une?\b|\bqu[eé] (?:es|son|significa)\b"
    r"|\bcos'è\b|\bo que (?:é|são)\b|^\W*c'est quoi\b|\bwat is een\b|\bco to (?:jest|znaczy)\b"
    r"|\b(?:que signifie|was (?:heißt|bedeutet)|(?:cosa|qué|o que) significa|wat betekent)\b"
    r"|\b(?:unterschied zwischen|différence entre|diferencia entre|differenza (?:tra|fra)|diferença entre)\b"
    r"|\bverschil tussen\b|\bróżnica między\b|(?:什么|有何)区别"
    r"|什么是|是什么意思|とは|違いは",
    re.IGNORECASE,
)  # is answered by what a model knows
