"""Stop words by language."""

from collections.abc import Mapping

__all__ = [
    "CODE_STOP_WORDS",
    "COURTESIES",
    "ENGLISH_STOP_WORDS",
    "FILLERS",
    "FOREIGN_DETERMINERS",
    "FOREIGN_STOP_WORDS",
    "GREETINGS",
    "HOMOGRAPHS",
    "NEGATIONS",
]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ENGLISH_STOP_WORDS = _words("""
    a about after again all also am an and any are as at be because been before being between both but by can could did
    do does doing during each few for from further had has have having he her here hers herself him himself his how i
    if in into is it its itself just me more most my myself no nor not of off on once only or other our ours ourselves
    out over own same shall she should so some such than that the their theirs them themselves then there these they
    this those through to too under until up very was we were what when where which while who whom whose why will with
    would you your yours yourself yourselves
""")

COURTESIES = _words("""
    absolutely again ahead all alright am and bye certainly course day do done else evening fine for glad going good
    goodbye got great greetings happy have hello help here hey hi how i in is it know later let ll m me mind moment
    morning my need no noted noting now of off oh ok okay on perfect please pleasure remember remembered right see so
    soon stored sure thank thanks that the there this to today understood up ve very welcome well will with yes you your
    alles auch bitte danke dann dir erledigt gern gerne gespeichert gut guten gute habe hallo ich ist ja klar merke mir
    morgen notiert ordnung tag tschüss verstanden vielen wieder das es
    adiós anotado buenas buenos bien claro de días entendido gracias hola listo muchas sí tardes vale
    à au bien bonjour bonsoir d'accord accord entendu merci noté oui revoir salut
""")
"""Words of greetings, thanks and acknowledgements."""

GREETINGS = _words("""
    a absolutely alright and bye cool course day evening excellent fine glad good goodbye great greetings happy hello
    hey hi lot morning much nice noted of oh ok okay perfect please pleasure so super thank thanks thx understood very
    welcome well wonderful you
    abend bitte danke dank dir einen guten gut gute gern gerne hallo ihnen klar morgen prima schön schönen tag tschüss
    verstanden vielen
""")
"""Without words that answer or ask, such as "yes" and "again"; English and German."""

CODE_STOP_WORDS = _words("""
    class code def false file files get import let line lines need new none now null one return see self set true use
    using
""")
"""Words of code and requests that distinguish no tool outputs."""

FOREIGN_DETERMINERS: Mapping[str, frozenset[str]] = {
    "de": _words("""
        der die das den dem des dieser diese dieses diesem diesen mein meine meinem meinen meiner unser unsere unserem
        unseren unserer vom zum zur im am
    """),
    "fr": _words("le la les l du des ce cet cette ces mon ma mes notre nos votre vos au aux"),
    "es": _words("el los la las del al este esta estos estas mi mis nuestro nuestra nuestros nuestras su sus"),
    "pt": _words("o os a as do da dos das no na nos nas ao aos esse essa meu minha nosso nossa pelo pela"),
    "it": _words("""
        il lo la le l i gli del dei degli della delle dell dello nel nella nell sul sulla sull ai al alla alle all dal
        dalla questo questa mio mia nostro nostra
    """),
}
"""Determiners, alone or joined to a preposition; without accents, like folded terms."""

FOREIGN_STOP_WORDS: Mapping[str, frozenset[str]] = {
    "de": FOREIGN_DETERMINERS["de"]
    | _words("""
        aber auch auf aus bei bitte dass ein eine einen einem einer eines er es fur gibt hat ich in ist kann mal mir mit
        nach nicht noch nur oder sie sind steht uber um und von war warum was welche welcher welches wer wie wir wo zeig
        zeige
    """),
    "fr": FOREIGN_DETERMINERS["fr"]
    | _words("""
        avec c comment d dans de donne elle est et il ils j je leur mais me moi montre n nous on ou par pas pour
        pourquoi qu que quel quelle quelles quels qui s sa se ses son sont sur tu un une vous y dit
    """),
    "es": FOREIGN_DETERMINERS["es"]
    | _words("""
        con como cual cuales cuando cuanto dame de donde e ella en es eso hay lo mas me muestra para pero por que quien
        se sin son tu un una unas uno unos y
    """),
    "pt": FOREIGN_DETERMINERS["pt"]
    | _words("""
        aonde com como de e ela ele em era foi isso mais mostre nao nem ou para por qual quais quando quanto quem sao se
        sem seu sua um uma umas uns
    """),
    "it": FOREIGN_DETERMINERS["it"]
    | _words("""
        anche che chi come con cosa cui da di dove e ed era ha ho in ma mi mostra non per perche piu quale quali quando
        quanto se sono su tra un una uno
    """),
}
"""German, French, Spanish, Portuguese and Italian; without accents."""

HOMOGRAPHS = _words("c come comment d dame die dove era fur hat j l mal n s son war")
"""Foreign stop words that are meaningful in English."""

FILLERS = _words("""
    a an the i my user user's please also just really that that's is ich mein meine meinen meinem bitte auch der die das
    den dem ein eine einen einem ist
""")
"""Without these a statement says the same. No negation, preposition or past tense is among them."""

NEGATIONS = _words("""
    no not never none nothing nobody without neither nor cannot hardly except unless
    nicht nie niemals nichts kein keine keinen keinem keiner ohne weder noch ausser
    ne pas jamais sans aucun aucune nunca sin ningun ninguna nada nao nem sem non mai senza nessun nessuna
""")
"""Of all languages here; without accents."""
