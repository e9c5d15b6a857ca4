"""The phrases by which people state preferences and facts about themselves, as regular expressions by language.

English, German, French, Spanish, Italian and Portuguese, like the stop words. All are matched at the start of a clause.
"""

import re

__all__ = [
    "ANAPHORA",
    "BARE_HABIT",
    "CLAUSE",
    "FACTS",
    "FRAMES",
    "IT",
    "LASTING_FRAMES",
    "LEAD_INS",
    "OF_USER",
    "PREFERENCES",
    "REMEMBER_THAT",
    "ROLES",
    "TAIL",
    "UNFINISHED",
    "VETOES",
    "WISHES",
    "WITH_SUBJECT",
]


def _pattern(*parts: str) -> "re.Pattern[str]":
    return re.compile("|".join(f"(?:{part})" for part in parts), re.IGNORECASE)


CLAUSE = _pattern(r"^", r"[,;] (?:and |but |so |und |aber |et |y |e )?", r" (?:and|but|und|aber|et|y) ")
"""Where a clause begins."""

LEAD_INS = _pattern(
    r"^(?:ok(?:ay)?|thanks?|thank you|please(?! note)|hi|hello|hey|and|also|but|so|by the way|btw|fyi|oh|well|yes|"
    r"yep|no|just|"
    r"note for later|p\.?s\.?|bitte|übrigens|danke|und|aber|ach|ja|nein|hallo|noch etwas|merci|au fait|gracias|"
    r"por cierto|"
    r"grazie|obrigad[oa])\b[,:!.]?\s+"
)

REMEMBER = (
    r"(?:(?:can|could|would|will) you )?(?:please |bitte )?(?:do |also )?"
    r"(?:remember|don't forget|do not forget|keep in mind|bear in mind|for future reference|note for later|"
    r"merke? dir|merken|vergiss (?:bitte )?nicht|denke? (?:bitte )?daran|souviens-toi|retiens|rappelle-toi|"
    r"n'oublie pas|"
    r"recuerda|ten en cuenta|no olvides|ricorda(?:ti)?|tieni presente|non dimenticare|lembra-te|lembre-se|lembra|"
    r"não (?:te )?esqueças?)(?: bitte| please| noch| auch| also)*"
)
REMEMBER_THAT = re.compile(
    rf"{REMEMBER}(?:(?:,? (?:that|dass|daß|de que|que|che)|\s?[:,]) (?=\S+ \S+)|"
    r" (?=(?:i|i'm|i'd|we|ich) |(?:my|our|mein\w*|unser\w*|mon|ma|mi|il mio|la mia|meu|minha) .*"
    r" (?:is|are|was|has|have|expires?|ist|sind|hat|haben|est|es|se|è|si|é)\b))|"
    r"please note (?:that )?(?=(?:i|i'm|my|our|we) )",
    re.IGNORECASE,
)
IT = re.compile(
    rf"{REMEMBER} (?:it|this|that|das|cela|ça|eso|esto|isso)(?=\W*$|[,;] | (?:please|bitte)\b)", re.IGNORECASE
)
"""Requests to remember the sentence before."""

_I = r"(?:i|we|ich|wir)"
_DEGREE = r"(?:strongly |really |generally |usually |normally |much |always |personally |also )*"
_NO_REFERENCE = (
    r"(?!(?:this|that(?! (?:all|every|each|no|you|my|our)\b)|these|those|it|them|him|her|his|its|their|you|your|how|"
    r"what|when|where|which|the|something|some|either|both|one|diese[smrn]?|das|es|die "
    r"(?:erste|zweite|dritte|andere|letzte)|ça|ce|cette|esto|esta|ese|questo|questa|isso)\b)"
)
_IN_GENERAL = (
    r"\w+ing\b|.*\b(?:every|everything|all|any|always|usually|in general)\b|"
    r"(?:[\w-]+ ){0,2}[\w-]+(?<!\bit)(?<!\bi)(?<!\bthi)(?<!\bha)(?<!\bwa)(?<!\ba)(?<!s)s\b"
)
"""A gerund, plural or quantifier: "I like this title" judges a proposal."""
_REFUSED = (
    r"(?!(?:not to|ne pas|no|non|não) ?(?:say|answer|share|tell|disclose|comment|discuss|talk|répondre|dire|decir\w*|"
    r"dirlo|dire|dizer|rispondere|responder))"
)
_HABITS = (
    r"(?:use|write|prefer|want|like|run|deploy|commit|push|test|drink|eat|cook|travel|fly|drive|take|work|read|"
    r"buy|order|"
    r"pay|sign|squash|merge|rebase|review|format|indent|document|answer|reply|book|wear|play|speak|start|sleep|keep|"
    r"store|save|name|call|sort|send|choose|pick|go|walk|cycle|train|check)"
)
_STANDING = (
    r"(?:from now on|in (?:the )?future|going forward|ab jetzt|ab sofort|künftig|zukünftig|in zukunft|von nun an|"
    r"à partir de maintenant|dorénavant|a partir de ahora|d'ora in poi|a partir de agora)"
)
_VERB = (
    r"(?!(?:the|a|an|my|your|our|his|her|their|this|that|these|those|there|it|he|she|they|in|on|at|of|to|for|same|been|"
    r"seen|remember|had|has|was|is|were|are|happy|sunny|again|mind|ever|gonna|going|getting|late|good|bad|"
    r"better|"
    r"more|less|enough|nice|great|on|off|true|false|say never|knew|saw|thought|got|went|came|did|worked)\b)"
    r"(?!\w+(?:ing|ed|(?<![s])s|ly)\b(?<!embed)(?<!need)(?<!feed)(?<!focus))[a-z]{2,}\b(?! ?(?:=|\())"
)
_GERMAN_VERB = (
    r"(?:nutze?|verwende|benutze?|nimm|antworte|schreibe?|sprich|formatiere|zeige?|mache?|gib|nenne?|sende|"
    r"schicke?|frage?|"
    r"prüfe|teste|lege?|speichere?|sortiere|erkläre?|rechne|runde|zitiere|lösche|committe|pushe|fass|halte?|duze?|"
    r"sieze)"
)

PREFERENCES = _pattern(
    rf"{_I} {_DEGREE}(?:prefer|bevorzugen?) {_NO_REFERENCE}{_REFUSED}\S+",
    rf"{_I} {_DEGREE}(?:can't stand|avoid|mag|liebe|hasse|mögen) {_NO_REFERENCE}(?!to )\S+",
    rf"{_I} {_DEGREE}(?:like|love|enjoy|hate|dislike|don't like|do not like) {_NO_REFERENCE}(?={_IN_GENERAL})\S+",
    r"i(?:'d| would) rather (?:have|use|take|get|drink|eat|work|travel|read) .+ than ",
    r"i don't want any .+ in ",
    r"i want (?:you to (?:always|never)|all \w+ (?:as|in)) ",
    rf"{_I} (?:always|never|usually|only(?! want)) (?:\w+ly )?{_HABITS} (?!it\b|this\b|that\b)\S+",
    rf"{_I} use (?:(?!the |this |that |it |your |a wrong)\S+ .*\b(?:instead of|rather than|for everything|for all|"
    rf"every day)\b|an? \w+ (?:keyboard|mouse|shell|editor|browser|setup))",
    r"we use (?-i:[A-Z])\w+ (?!to\b)",
    rf"{_STANDING},? (?!(?:the|a|will|is|it|this|that|there|der|die|das|es|le|la|el|il|o|i|we|you|du|tu|my)\b)\S+ \S+",
    rf"(?:please |bitte )?(?:use|write|call|show|answer|reply|respond|keep|give|send|speak|talk|format|stop|add|"
    rf"include|ask|tell|make|avoid|{_GERMAN_VERB}) {_NO_REFERENCE}(?:\S+ ){{1,12}}"
    rf"(?!in (?:the )?future){_STANDING}[.!]?$",
    rf"(?:please |and )?(?:always|never|don't ever|do not ever) {_VERB} \S+",
    rf"when(?:ever)? (?:you|i) [^,]+, (?:please )?(?:always|never) {_VERB}",
    r"address me (?:by|as|with) ",
    r"[a-z]+ me .+, (?:always|immer)[.!]?$",
    rf"(?:bitte )?{_GERMAN_VERB} (?:\S+ ){{0,2}}?(?:immer|nie|niemals|stets|grundsätzlich)\b",
    r"bitte (?:immer|nie|niemals|stets) ",
    r"ich (?:\S+ )?(?:nutze|verwende|benutze|trinke|esse|fahre|nehme|lese|schreibe|reise|arbeite) (?:\S+ )?"
    r"(?:immer|nie|stets|lieber|am liebsten|kein\w*) ",
    r"ich will \w+ immer ",
    r"wir verwenden \S+ (?:statt|anstatt) ",
    rf"je préfère {_NO_REFERENCE}{_REFUSED}\S+",
    rf"(?:prefiero|preferisco|prefiro) {_NO_REFERENCE}{_REFUSED}\S+",
    r"(?:réponds|utilise|écris|responde|usa|escribe|rispondi|scrivi|use|escreva) (?:\S+ )?(?:toujours|jamais|"
    r"siempre|nunca|sempre|mai) ",
)

_MY = r"(?:my|our)"
_MEIN = r"(?:meine?|unsere?)"
_PROFILE = (
    r"(?:(?:\w+ )?(?:name|birthday|e-?mail(?: address)?|address|(?:(?:tele)?phone|mobile|employee|customer|"
    r"passport|insurance|member|tax) number|phone|time ?zone|language|locale|editor|"
    r"shell|browser|keyboard|laptop|computer|phone|database|db|default \w+|team|company|employer|department|"
    r"manager|boss|"
    r"doctor|dentist|wife|husband|partner|son|daughter|dog|cat|sister|brother|mother|father|child|car|bike|bank|city|"
    r"country|region|handle|username|account|rate|salary|hobby|working hours|nationality|height|weight|"
    r"diet|allergy|religion|job|profession|title|domain|staging server|test ?server|production \w+|cluster|"
    r"repository|repo|"
    r"default branch|fiscal year|office|school|university|landlord|(?:preferred|favou?rite|usual|"
    r"default) [\w-]+(?: \w+)?))"
)
_STATE = (
    r"(?:not|down|up|broken|slow|stuck|failing|red|green|full|empty|gone|wrong|missing|locked|dead|fine|ok|okay|ready|"
    r"none|called (?:twice|again|with|from|by)|refused|lost|late|working|running|too|very|so|still|now (?:down|broken)|"
    r"been|\w+ing (?:me|us|you|to|for|with|in|on|at|next|this|the|an?)|about to|back|offline|online|unavailable|"
    r"hanging|spelled|misspelled|set|in the|on the|here|there|that|how|what|why|to)\b"
)
_RELATIVES = (
    r"(?:daughters?|sons?|kids?|child(?:ren)?|dogs?|cats?|toddler|baby|brothers?|sisters?|wife|husband|horses?|allergy|"
    r"intolerance|diabetes|asthma|dyslexia|adhd|epilepsy|migraines?)"
)
_ROLES = (
    r"(?:[\w-]+ ){0,2}?(?:\w+(?:er|or|ist|ian|eer|ant|woman|man)|nurse|student|vegan|vegetarian|beginner|novice|expert|"
    r"consultant|clerk|chef|cook|pilot|freelancer|parent|mother|father|widow|celiac|diabetic|native speaker)\b"
)
_NO_ROLES = (
    r"(?!(?:bit|little|lot|big|huge|fan|bit of|after|under|over|either|number|user of|member of the|minor|major|"
    r"poor)\b)"
)
_TRAITS = (
    r"(?:(?:an? )?vegetarian|(?:an? )?vegan|left-handed|right-handed|colou?r-?blind|deaf|blind|diabetic|celiac|"
    r"pregnant|dyslexic|autistic|married|divorced|retired|allergic to|intolerant to|based in(?! an?\b)|"
    r"from(?! (?:the|there|here)\b)|called)\b"
)

FACTS = _pattern(
    r"(?:you can |please )?call me (?!back|later|when|if|crazy|old|an? |the |at |by )\S+",
    rf"{_MY} (?:wife|husband|son|daughter|partner|dog|cat|mother|father|brother|sister)'s \w+ is \S+",
    rf"{_MY} {_PROFILE} (?:is|are|=|runs|starts|has) (?:called |named )?(?!{_STATE})\S+",
    rf"{_MY} [\w -]{{3,40}}? (?:is|are) (?:called|named|stored (?:on|in|at)) (?!(?:twice|again|with|from|by|an?|"
    rf"every)\b)\S+",
    rf"{_MY} (?:\w+ ){{1,3}}(?:expires?|ends?|starts?|begins?) (?:in|on) \S+",
    rf"{_MY} (?:flat|house|garden|home|apartment) has \S+",
    r"i (?:live|grew up|was born) (?:in|on|at|near) (?!(?:hope|fear|the (?:past|future))\b)\S+",
    r"i (?:moved to|come from) (?-i:[A-Z])\w+",
    r"i(?:'m| am) (?:from (?-i:[A-Z])|based in (?-i:[A-Z]))\w+",
    r"i work (?:at|for|as) \S+",
    r"i retired (?:in|on) ",
    r"i speak (?-i:[A-Z])\w+",
    rf"i(?:'m| am) {_TRAITS} ?(?!off|up|by the)",
    rf"i(?:'m| am) an? {_NO_ROLES}{_ROLES}",
    rf"(?:i|we) have (?:an?|one|two|three|four|five|\d) (?:[\w-]+ ){{0,2}}?{_RELATIVES}\b",
    r"i (?:can't|cannot|can not|don't|do not) (?:eat|drink) (?!this|that|it|the|any more)\S+",
    rf"{_MEIN}\w* (?:(?:\w+ )?(?:Name|Geburtstag|E-?Mail(?:-?Adresse)?|Adresse|Telefonnummer|Nummer|Zeitzone|"
    rf"Sprache|Editor|"
    r"Browser|Datenbank|Team|Firma|Chef|Chefin|Arzt|Ärztin|Frau|Mann|Sohn|Tochter|Hund|Katze|Auto|Bank|Büro|Schule|"
    r"Lieblings\w+|bevorzugte\w* \w+|\w*[Ss]erver|Standard\w+|Beruf|Hobby)) (?:ist|sind|heißt|heisst|lautet|läuft) "
    r"(?!(?:kaputt|langsam|rot|weg|leer|voll|nicht|noch|zu|sehr|gerade|falsch|fertig)\b)\S+",
    r"ich heiße \S+",
    r"ich heisse \S+",
    r"nenne? mich (?:bitte )?\S+",
    r"ich (?:wohne|lebe) (?:in|bei|auf|am) \S+",
    r"ich komme aus (?-i:[A-ZÄÖÜ])\w+",
    r"ich arbeite (?:bei|als|für) \S+",
    r"ich spreche (?-i:[A-ZÄÖÜ])\w+",
    r"ich bin (?:allergisch gegen|Vegetarier\w*|Veganer\w*|Linkshänder\w*|Rechtshänder\w*|Diabetiker\w*|verheiratet|"
    r"geboren|(?-i:[A-ZÄÖÜ])\w+(?:er|erin|in|ist|istin|ent|entin|arzt|ärztin) (?:bei|in|von|aus))\b",
    r"ich (?:esse|trinke|vertrage) kein\w* \S+",
    r"je m'appelle \S+",
    r"j'habite (?:à|en|au) \S+",
    r"je suis (?:végétarien\w*|allergique|végan\w*) ?",
    r"(?:mon|ma) [\w é]{2,40}?(?:préférée?) est \S+",
    r"(?:me llamo|mi chiamo|me chamo|meu nome é|mi nombre es|vivo en|vivo a|abito a|moro em) \S+",
    r"mi [\w ]{2,40} (?:se llama|favorit[oa] es) \S+",
    r"soy (?:vegetarian[oa]|vegan[oa]|alérgic[oa]|celíac[oa])",
    r"(?:il mio|la mia) [\w ]{2,40}preferit[oa] è \S+",
    r"sono (?:vegetarian[oa]|vegan[oa]|celiac[oa]|allergic[oa])",
)

VETOES = _pattern(
    r"\?\s*$",
    r"^(?:what|which|who|whose|whom|when did|where|why|how|is|are|was|were|do|does|did|has|have|should|shall|may|"
    r"was |wie |"
    r"wer |wo |warum |weißt|kennst|welche\w* |quelle?s? |comment |qui |cuál|cómo |quién|qual |come |chi |quem )\b",
    r"\b(?:maybe|perhaps|probably|possibly|not sure|i guess|i think|i suppose|i wonder|vielleicht|ich glaube|ich denke|"
    r"vermutlich|peut-être|quizás|forse|talvez)\b",
    r"\b(?:today|tonight|this time|for now|just this once|just once|right now|at the moment|for this (?:task|file|one)|"
    r"diesmal|heute|gerade|momentan|vorerst|im moment|aujourd'hui|hoy|oggi|hoje)\b",
    r"\b(?:used to|früher|no longer know|misspelled)\b",
    r"\b(?:do not|don't|need not|needn't|don't need to|no need to|can't|cannot|couldn't|i don't|nicht|"
    r"nie) (?:remember|recall|merken|have to remember)\b",
    r"\bmerke? dir (?:das |es )?nicht\b",
    r"\b(?:rather|lieber) not\b|\blieber nicht (?:sagen|antworten|beantworten)\b|\bi forgot\b",
    r"\bforget (?:that|what|about)\b(?<!don't forget that)(?<!not forget that)",
    r"[{}]|\[\w|=>|==|\w\(\)|^\s*[#$/]|</",
)
"""Questions, hedges, passing wishes, the past, negated requests, refusals, code."""

ANAPHORA = re.compile(
    r"^(?:\S+ ){0,3}(?:it|this|that|them|das|es|so)[.!]?$|^(?:i|we) (?:want|need|would like|(?:am|are) trying) |"
    r"^(?:you|your|you're|he|she|they|it|it's|as|once|on|to|if|these|those|this)\b|"
    r"^(?:(?:my|our|the) )?(?:goal|objective|aim|task)\b|"
    r".*\b(?:should|must|needs to|your|(?:the|this) (?:article|conversation|text|essay|story|post|code|project|task|"
    r"prompt))\b",
    re.IGNORECASE,
)
"""Says nothing without the sentence before, or is meant for the task at hand."""

OF_USER = re.compile(
    r"\b(?:i|my|me|mine|our|ich|mein\w*|mir|mich|unser\w*|je|j|mon|ma|mes|notre|nos|yo|mi|mis|soy|tengo|"
    r"nuestr\w+|io|mio|mia|miei|sono|ho|nostr\w|eu|meu|minha|sou|tenho)\b"
    r"(?! (?:want|need|would like|have|try|am trying) to\b)",
    re.IGNORECASE,
)
"""Without such a word a request to remember is a hint for the task."""

ROLES = _pattern(
    r"\b(?:you are|you're|you will be|you'll be) (?:now |no longer |an? |in the |the (?!best\b|most\b|only\b)|"
    r"going to (?:act|play|be)\b|acting\b|playing\b|called |named |(?-i:[A-Z])\w)",
    r"\b(?:du bist|tu es|eres|você é) (?:jetzt |nun |maintenant |ahora |agora )?(?:ein|une?|una?|uma?)\b",
    r"\b(?:act|behave|pose|pretend|answer|respond|reply|speak|talk) (?:only |exactly )?(?:as (?:if|though)|like you)\b",
    r"\b(?:act|behave|pose) (?:only |exactly )?(?:as|like) ",
    r"\b(?:in|of|break(?:ing)?|your) (?:your |the )?(?:character|role|persona|programming)\b",
    r"\b(?:fictional|hypothetical|imaginary) \w+",
    r"\byou (?:must|shall|will|are to|have to) (?:\w+ ){0,2}?(?:act|obey|abide|follow|pretend|comply|adopt|assume|"
    r"play)\b",
)
"""Words of a text that gives the assistant a role: none of it states anything about the user."""

UNFINISHED = re.compile(
    r"\b(?:as|with|by|like|to|of|for|and|or|the|an?|say|saying|called|named|using|is|are|be|als|mit|von|und|oder|wie|comme|avec|"
    r"de|como|con|come)\W*$|[:,]$",
    re.IGNORECASE,
)
"""The end of a sentence whose rest is quoted or follows in a block."""

WISHES = _pattern(
    r"\binstead\b(?! of)",
    r"\b(?:within|in|on|at|for|with|to|from|of|about|by|like) (?:this|that|these|those|there)\b",
    r"\b(?:always|never) \w+ (?:it|again)\b",
    r"\bfor the \w+(?: \w+)?\W*$",
    r"^\w+ (?:\w+ly )?prefer to ",
    r"^\w+ (?:\w+ly )?prefer an? ",
    r"\b(?:prefer|like|love|enjoy|hate|dislike|avoid)\b.* it\b",
    r"\bif (?:it|it's|they|they're|there|that|that's|not|no|possible|available)\b",
    r"\bmy (?:original|return|current|existing|new|next|previous) \w+",
    r"\bthe (?:above|following|attached|outgoing|return|new|previous|next|same|current|remaining|earlier|later|"
    r"cheap\w+|former|latter|first|second|third|last) \w+",
    r"\b(?:first|second|third|last) (?:option|one|version|idea)s?\b",
    r", so (?:i'd|i would|i'll|i will|let's|let me|go (?:with|for)|book|choose)\b",
)
"""A preference that chooses for the task at hand."""

TAIL = re.compile(
    r"(?:,? (?:so please|but (?:i|we|is|how|what|can|could)|and (?:i|we) (?:want|need|would|wish|wonder))|"
    r", (?:so (?:i|we|it|there|can|could|what|how|please)|which (?:is why|means)|(?:and |but )?(?:can|could|what|how|"
    r"please)|(?:and|but) (?:i|we))|"
    r" (?:give|write|create|generate|tell|help|suggest|explain) (?:me|an?|the|\d+))\b.*$",
    re.IGNORECASE | re.DOTALL,
)
"""What follows a statement in its sentence: a conclusion or request."""

BARE_HABIT = re.compile(r"(?:and |please )*(?:always|never|don't ever|do not ever) ", re.IGNORECASE)
WITH_SUBJECT = re.compile(
    r"\b(?:should|must|shall|will|would|can|could|may|might|needs?|needed|has|have|had|ought|to|they|he|she|it|who|which|"
    r"that|you|i|we|wants?)\b",
    re.IGNORECASE,
)
"""Before a bare "always …": it continues a sentence with a subject, and asks for nothing."""

LASTING_FRAMES = _pattern(
    r"\b(?:imagine|pretend|suppose|let's say|act as|role-?play|stell dir vor|angenommen|nehmen wir an|imagina|"
    r"imaginons|"
    r"suppongo|translate|übersetze?|traduis|traduce|traduci|traduza|rewrite|paraphrase|proofread)\b",
    r"\b(?:write|draft|compose|schreibe?|verfasse|écris|escribe|scrivi|escreva) (?:me )?"
    r"(?:an? |einen? |eine |un[ea]? )?(?:\w+ )?(?:story|e-?mail|mail|letter|poem|song|novel|post|tweet|brief|gedicht|"
    r"lettre|carta|lettera|text|sentence|message)\b",
)
"""Phrases after which the message states nothing about the user: hypotheses, and texts to be translated or written."""

FRAMES = _pattern(
    LASTING_FRAMES.pattern,
    r"\b(?:assume|summari[sz]e|correct|search for|find|compare|how do you say)\b.*",
    r"\b(?:in|im) (?:the|my|einem?|dem) (?:novel|story|book|game|film|movie|roman|spiel|lyrics)\b",
    r"\b(?:said|says?|saying|wrote|writes|states?|told|tells|claims?|according to|mentioned|replied|asked|sagte?|sagen|"
    r"schrieb|schreibt|steht|laut|meinte?|behauptet|il a dit|elle dit|dijo|dice que|ella dice|ha detto|disse|diz que)"
    r"\b",
    r"\bif\b|\bunless\b|\bin case\b|\bfalls\b|\bwenn\b|^si\b|\bse \w+o\b",
)
"""What follows in the sentence is another's, or is not so."""
