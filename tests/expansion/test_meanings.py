"""Concepts join words of ten languages, and numbers count references out."""

from collections import Counter
from importlib.resources import files

import pytest

from memory_context.foundation.text.tokenize import folded
from memory_context.recall.expansion.candidates import ExpansionRequest
from memory_context.recall.expansion.decide import decide_by_rules
from memory_context.recall.expansion.meanings import meanings_in, meanings_of

from .references import offered

TABLE = (files("memory_context.foundation") / "data" / "meanings.txt").read_text(encoding="utf-8").splitlines()
OTHERS = ("kubectl get pods, 38 lines", "path=src/tax.py, 80 lines", "city=Bergen, 14 degrees")


def concepts(word: str, *, is_english: bool | None = None) -> set[str]:
    """Return the names of a word's concepts."""
    return {one.concept.removeprefix("=") for one in meanings_of(folded(word), is_english=is_english)}


def expanded(request: str, *descriptions: str, last_answer: str = "") -> list[str]:
    """Return the descriptions of what is expanded, offered oldest first."""
    offers = [offered(f"key_{i}a2", one, source="read") for i, one in enumerate(descriptions)]
    by_key = {one.ref.key: one.ref.description for one in offers}
    turn = ExpansionRequest(request, last_answer, tuple(reversed(offers)))
    return [by_key[one.key] for one in decide_by_rules(turn).expansions]


def test_table_has_one_concept_a_line_in_folded_words():
    """A word stands once in a line; a head names one concept."""
    heads = Counter(line.split()[0] for line in TABLE)
    assert [head for head, count in heads.items() if count > 1] == []
    for line in TABLE:
        english, _, foreign = line.partition(" | ")
        words = [*english.split(), *foreign.split()]
        assert english
        assert foreign
        assert line == folded(line)
        assert len(words) == len(set(words))
        assert not any("*" in word[:-1] or "~" in word[1:] for word in words)
        assert all(len(word) > 3 for word in words if word.endswith("*"))


@pytest.mark.parametrize(
    "word",
    ["Rechnung", "Rechnungen", "factures", "factura", "fattura", "fatura", "rekening", "rachunek", "账单", "請求"],
)
def test_word_of_each_language_has_the_concept(word: str):
    """Also inflected; "conta" and "rekening" are also accounts."""
    assert "bill" in concepts(word)


def test_compound_has_the_concepts_of_its_head_and_less_of_its_modifier():
    """An insurance contract is a contract and tells of insurance."""
    shares = {one.concept: one.share for one in meanings_of("versicherungsvertrag")}
    assert shares["=agreement"] > shares["=insurance"] > 0


def test_digraphs_of_addresses_are_read_as_umlauts():
    """An address has no umlauts."""
    assert "subsidy" in concepts("foerderung")
    assert concepts("steuer") == {"tax"}


def test_homograph_means_what_it_means_in_the_text_s_language():
    """German "Kind" is a child, English "kind" none; French "note" is a grade, English "note" a note."""
    assert "child" in concepts("kind", is_english=False)
    assert concepts("kind", is_english=True) == set()
    assert "grade" in concepts("note", is_english=False)
    assert concepts("note", is_english=True) == {"note"}
    assert concepts("run", is_english=True) == set()  # no "running"


def test_long_run_of_letters_has_no_meaning():
    """It is no word; its parts are not looked up."""
    assert concepts("versicherung" * 5) == set()
    assert expanded("versicherung" * 400, *OTHERS) == []


def test_run_without_spaces_holds_several_concepts_longest_first():
    """A credit card is no letter, though one character is."""
    assert concepts("信用卡账单") == {"credit-card", "bill"}


def test_phrase_of_several_words_is_one_concept():
    """With hyphens, apostrophes or spaces, in singular or plural."""
    for phrase in ("mot de passe", "mots-de-passe", "sick leave", "chiffre d'affaires"):
        assert list(meanings_in(phrase))


@pytest.mark.parametrize(
    ("request_text", "meant"),
    [
        ("Was kostet die Reparatur?", "repair estimate, from the garage"),
        ("¿Cuándo vence el seguro?", "assurance habitation, 12 pages"),
        ("how much is the rent?", "Mietvertrag Lindenstraße, 14 Seiten"),
        ("冰箱的保修期多长？", "warranty of the refrigerator, 2 pages"),
        ("Wanneer is de vergadering?", "subject=Reunión del consejo"),
        ("Kiedy jest wizyta u dentysty?", "appointment, dental practice Dr. Weiss"),
    ],
)
def test_synonym_and_translation_open_a_reference(request_text: str, meant: str):
    """Words that stand in neither text join them."""
    assert expanded(request_text, meant, *OTHERS) == [meant]


def test_meaning_opens_nothing_without_others_to_tell_it_from():
    """One of one shares a meaning with many requests; its own word still opens it."""
    assert expanded("how high is the bill?", "Rechnung März") == []
    assert expanded("how high is the bill?", "Rechnung März", *OTHERS) == ["Rechnung März"]
    assert expanded("wie hoch ist die Rechnung?", "Rechnung März") == ["Rechnung März"]


def test_word_in_the_description_outdoes_one_in_a_kept_line():
    """The mail is about lamps; the table only has a lamp in one of its rows."""
    mail = offered("mail_a2", "subject=Rupture de stock lampes", source="read_mail")
    table = offered("sql_b3", "SELECT produit FROM ventes", source="sql_query", kept_text="lampes Orion 4 180")
    turn = ExpansionRequest("Quand les lampes seront-elles disponibles ?", references=(mail, table))
    assert [one.key for one in decide_by_rules(turn).expansions] == [mail.ref.key]


MAILS = ("mail from Huber", "mail from Brandl", "mail from Alpin")


@pytest.mark.parametrize(
    ("request_text", "last_answer", "meant"),
    [
        ("read me the first mail", "", "mail from Huber"),
        ("lies mir die zweite Mail vor", "", "mail from Brandl"),
        ("abre el último correo", "", "mail from Alpin"),
        ("riapri la penultima mail", "", "mail from Brandl"),
        ("otwórz drugi mail", "", "mail from Brandl"),
        ("第二封邮件说什么？", "", "mail from Brandl"),
        ("when could the second start?", "Three mails came.", "mail from Brandl"),
    ],
)
def test_ordinal_counts_references_out(request_text: str, last_answer: str, meant: str):
    """From the oldest, or back from the newest; without a noun, of those that the last answer spoke of."""
    assert expanded(request_text, *MAILS, *OTHERS, last_answer=last_answer) == [meant]


@pytest.mark.parametrize("request_text", ["the second cheapest of the mails", "as we wrote since the last mail"])
def test_ordinal_of_a_superlative_or_a_time_counts_nothing_out(request_text: str):
    """It does not say which reference is meant."""
    assert expanded(request_text, *MAILS, *OTHERS) == []


def test_number_of_a_thing_tells_it_from_others():
    """As a numeral or an ordinal, joined to its noun or not."""
    chapters = ("file=thesis_chapter2.docx", "file=thesis_chapter3.docx")
    for request in ("summarise chapter 3", "Fasse das dritte Kapitel zusammen", "que dit le chapitre 3 ?"):
        assert expanded(request, *chapters, *OTHERS) == ["file=thesis_chapter3.docx"]


def test_id_before_a_size_is_part_of_the_description():
    """ "number=412, 2 300 tokens" is about 412."""
    issues = ("number=412, 2 300 tokens", "number=398, 1 800 tokens")
    assert expanded("what does 412 say?", *issues, *OTHERS) == ["number=412, 2 300 tokens"]


@pytest.mark.parametrize(
    "request_text",
    ["C'est quoi le budget ?", "Was ist der Unterschied zwischen Budget und Haushalt?", "suggest a budget for a party"],
)
def test_question_for_knowledge_or_something_new_opens_nothing_by_one_word(request_text: str):
    """A model knows or makes it."""
    assert expanded(request_text, "budget_2026.xlsx, 3 sheets", *OTHERS) == []
    assert expanded("Wie hoch ist das Budget?", "budget_2026.xlsx, 3 sheets", *OTHERS) == ["budget_2026.xlsx, 3 sheets"]


def test_size_of_a_description_is_not_its_content():
    """Each PDF has pages."""
    assert expanded("what does the page say?", "warranty.pdf, 9 pages", *OTHERS) == []


def test_question_that_goes_on_opens_what_the_last_answer_named():
    """Not an order, nor a question with words of its own that match."""
    shops = ("url=https://shop.example/cannondale-treadwell", "url=https://shop.example/orbea-gain")
    answer = "La Cannondale Treadwell cuesta 2 750 EUR."
    assert expanded("¿Y cuánta autonomía tiene?", *shops, *OTHERS, last_answer=answer) == [shops[0]]
    assert expanded("buy it", *shops, *OTHERS, last_answer="The Cannondale Treadwell costs 2,750 EUR.") == []
    assert expanded("and what does the Orbea cost?", *shops, *OTHERS, last_answer=answer) == [shops[1]]


@pytest.mark.parametrize(
    "request_text",
    [
        "use the naming scheme from the ticket",
        "applique la remise convenue hier",
        "nimm wieder den Elektriker vom letzten Umbau",
        "zarezerwuj to samo miejsce co w zeszłym roku",
        "boek dezelfde kamer als toen",
        "name the branch like the last one",
        "envía mi informe mensual",
        "用例の方法",
    ],
)
def test_return_to_the_past_is_ambiguous_beside_references(request_text: str):
    """What it means is in none of them."""
    offers = tuple(offered(f"key_{i}a2", one) for i, one in enumerate(OTHERS))
    assert decide_by_rules(ExpansionRequest(request_text, references=offers)).is_ambiguous


def test_past_of_the_users_records_opens_a_reference():
    """Sales are what a table holds, agreements are not."""
    sales = offered("sql_a2", "sales by region, 12 rows", source="query")
    offers = (sales, *(offered(f"key_{i}a2", one) for i, one in enumerate(OTHERS)))
    answer = decide_by_rules(ExpansionRequest("how many lamps did we sell by region?", references=offers))
    assert ([one.key for one in answer.expansions], answer.is_ambiguous) == ([sales.ref.key], False)
    answer = decide_by_rules(ExpansionRequest("which region did we agree on for sales?", references=offers))
    assert (answer.expansions, answer.is_ambiguous) == ((), True)
