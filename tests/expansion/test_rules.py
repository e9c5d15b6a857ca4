"""What a turn needs, decided by rules."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.foundation.references import QUOTATION
from memory_context.foundation.text.tokenize import folded
from memory_context.recall.expansion.candidates import CandidateReference, ExpansionRequest
from memory_context.recall.expansion.decide import decide_by_rules

from .references import offered

LOGIN = offered("read_file_a2a2a2", "path=src/auth/login.py, 420 lines", source="read_file")
LOGS = offered("run_shell_b3b3b3", "command=docker compose logs api, 2400 lines")
REPORT = offered("read_pdf_c4c4c4", "annual_report_2023.pdf, 88 pages", source="read_pdf")
OFFERS = (LOGIN, LOGS, REPORT)


def expanded(request: str, *references: CandidateReference, **given: object) -> list[str]:
    """Return the keys of what is expanded."""
    turn = ExpansionRequest(request, references=references or OFFERS, **given)  # pyright: ignore
    return [expansion.key for expansion in decide_by_rules(turn).expansions]


def test_named_key_is_expanded_before_matches():
    """However many references share its words."""
    answer = decide_by_rules(ExpansionRequest(f"compare {REPORT.ref.key} with login.py", references=OFFERS))
    assert [(one.key, one.reason) for one in answer.expansions] == [
        (REPORT.ref.key, "named"),
        (LOGIN.ref.key, "matched"),
    ]
    assert answer.expansions[1].why == "rare word 'login.py'"
    assert not answer.is_ambiguous


@pytest.mark.thorough
def test_named_key_in_a_megabyte_is_found_at_both_ends_only():
    """Only the first and last few thousand characters are read, cut between words."""
    filler = "lorem ipsum " * 50_000
    assert expanded(f"{LOGS.ref.key} {filler}") == [LOGS.ref.key]
    assert expanded(f"{filler} {LOGS.ref.key}") == [LOGS.ref.key]
    assert expanded(f"{filler} {LOGS.ref.key} {filler}") == []
    assert expanded(f"{LOGS.ref.key}：{'漢' * 10_000}：{LOGIN.ref.key}") == [LOGS.ref.key, LOGIN.ref.key]
    for shift in range(40):  # a cut inside a word must not leave a key
        words = f"x{LOGS.ref.key}y " * 500
        answer = decide_by_rules(ExpansionRequest(" " * shift + words, references=OFFERS))
        assert all(one.reason == "matched" for one in answer.expansions)


def test_words_of_the_quotation_frame_match_no_request():
    """They stand beside every reference and say nothing of its content."""
    kept = f"read_file succeeded. {LOGIN.ref.render()}\n{QUOTATION}\n> def expire_session():"
    reference = replace(LOGIN, kept_text=kept)
    assert expanded("how long is a user that failed left alone? Quote the line.", reference) == []
    assert expanded("what calls expire_session?", reference) == [LOGIN.ref.key]


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("what does login.py do with expired sessions?", [LOGIN]),
        ("what was the net income in the annual report?", [REPORT]),
        ("were there timeouts in the docker logs?", [LOGS]),
        ("write a haiku about login forms", []),
        ("restart docker compose", []),
        ("create src/auth/logout.py next to login.py", []),
        ("show me the output", []),
        ("thanks", []),
        ("", []),
    ],
)
def test_reference_is_expanded_if_it_shares_rare_words_with_the_request(
    request_text: str, expected: list[CandidateReference]
):
    """By rare terms, and not because something is to be made that has the same name."""
    assert expanded(request_text) == [one.ref.key for one in expected]


@pytest.mark.parametrize(
    ("request_text", "expected", "others"),
    [
        # accents are folded in the request, in what is offered and in what is in sight
        ("Was steht in der Prüfliste?", "Prüfliste für die Abnahme", ("Rechnung März", "Protokoll Sitzung")),
        ("was steht in der pruefung", "", ("Prüfliste für die Abnahme",)),
        # an identifier in snake_case, alone
        ("explain fact_shipments", "schema of fact_shipments", ("schema of dim_customers", "run log")),
        ("what is in dim_customers", "schema of dim_customers", ("schema of fact_shipments", "run log")),
        # the language of a pasted code fence is no word of the request
        ("why does this fail?\n```kotlin\nval x = 1\n```", "", ("kotlin style guide", "annual budget")),
        # two rare words, without an English determiner
        ("Wie hoch war Umsatz Nordregion?", "Umsatz Nordregion 2024", ("Mietvertrag", "Reisekosten Mai")),
        ("compare rainfall harvest", "rainfall and harvest by county", ("payroll", "travel costs")),
        # a definite thing, or a proper name
        ("Was steht im Mietvertrag?", "Mietvertrag Lagerhalle", ("Umsatz Nordregion", "Reisekosten Mai")),
        ("Was hat Kowalski geschrieben?", "Brief von Kowalski", ("Umsatz Nordregion", "Reisekosten Mai")),
        ("Schreibe mir ein Gedicht", "", ("Mietvertrag Lagerhalle", "Umsatz Nordregion")),
        # names count in any language; what only a translation or a count finds opens nothing
        ("¿Qué escribió Ibáñez?", "carta de Ibanez", ("ventas del trimestre", "gastos de viaje")),
        ("How high is the bill?", "", ("Rechnung Stadtwerke", "Mietvertrag Lagerhalle", "Reisekosten Mai")),
        ("Read me the second mail", "", ("mail from Ana", "mail from Ben", "mail from Cleo", "mail from Dov")),
    ],
)
def test_reference_matches_in_any_spelling(request_text: str, expected: str, others: tuple[str, ...]):
    """Accents, identifiers, code fences, and words of English and German with or without a determiner."""
    offers = [offered(f"key_{i}a2", one) for i, one in enumerate((expected, *others) if expected else others)]
    assert expanded(request_text, *offers) == (["key_0a2"] if expected else [])


def test_files_named_exactly_are_all_expanded():
    """However much better one of them matches."""
    files = (
        offered("a_a2a2a2", "path=src/billing/invoice_parser.py, 300 lines"),
        offered("b_b3b3b3", "path=src/tax.py, 80 lines"),
        offered("c_c4c4c4", "path=README.md, 80 lines"),
    )
    request_text = "where do src/billing/invoice_parser.py and tax.py round the billing invoice?"
    assert expanded(request_text, *files) == ["a_a2a2a2", "b_b3b3b3"]


def test_accents_are_folded_in_visible_texts():
    """What is in sight is not opened again, and what is offered is not asked for."""
    listed = offered("read_a2a2a2", "Prüfliste für die Abnahme")
    visible = [folded("Die Prüfliste: 1. Tür, 2. Dach")]
    assert expanded("Was steht in der Prüfliste?", listed, visible_texts=lambda: visible) == []
    assert not decide_by_rules(ExpansionRequest("Schick die Prüfliste", references=(listed,))).is_ambiguous
    assert decide_by_rules(ExpansionRequest("Schick die Prüfliste")).is_ambiguous


def test_word_that_many_references_share_matches_none():
    """A word that half of them have is not rare."""
    many = tuple(offered(f"key_{i}", f"login page {i}") for i in range(8))
    assert expanded("what does the login page say?", *many) == []


def test_visible_content_is_not_expanded():
    """The item itself, the word in a text that the view shows, or an answer that has gone into it."""
    assert expanded("what does login.py do?", offered("k_a2", "path=login.py", is_visible=True)) == []
    assert expanded("what does login.py do?", visible_texts=lambda: [folded("# LOGIN.PY\nimport os")]) == []
    assert expanded("what does login.py do?", visible_texts=lambda: ["# login.py"]) == []
    assert expanded("what does login.py do?", last_answer="This is login.py:\n\ndef login(): ...") == []
    assert expanded("what does login.py do?", last_answer="I have read login.py.") == [LOGIN.ref.key]


@pytest.mark.parametrize(
    ("request_text", "description", "visible"),
    [
        ("explain the queries", "queries of the shop", "The query joins two tables."),
        ("Was steht in den Rechnungen?", "Rechnungen Stadtwerke", "Rechnung 7: 80 EUR"),
        ("Was sagt der Vertrag?", "Vertrag Lagerhalle", "Die Verträge laufen bis Mai."),
        ("what raises StoreUnavailableError?", "class StoreUnavailableError", "the store is unavailable: error"),
        ("what raises store_unavailable_error?", "store_unavailable_error", "raise StoreUnavailableError(text)"),
        ("why is the store unavailable?", "class StoreUnavailableError", "raise StoreUnavailableError(text)"),
    ],
)
def test_word_that_the_view_shows_in_another_form_opens_nothing(request_text: str, description: str, visible: str):
    """Singular and plural, umlauts, and a name in another spelling or in parts."""
    offers = [offered("key_0a2", description), offered("key_1a2", "payroll"), offered("key_2a2", "travel costs")]
    assert expanded(request_text, *offers) == ["key_0a2"]
    assert expanded(request_text, *offers, visible_texts=lambda: [folded(visible)]) == []


def test_file_is_not_opened_again_beside_its_newest_version():
    """The newest read of it is in view."""
    old, new = (offered(f"k_a{n}", "path=src/login.py", is_visible=n == 3) for n in (2, 3))
    assert expanded("what does login.py do?", old, new) == []
    assert expanded("what does login.py do with tokens?", replace(old, kept_text="def tokens"), new) == ["k_a2"]


def test_file_with_a_leading_underscore_is_opened_by_its_name():
    """Also when its class stands in view, which is not its content."""
    offer = offered("read_u2u2u2", "path=core/tools/_static_workbench.py, Python: StaticWorkbench")
    texts = lambda: [folded("from ._static_workbench import StaticWorkbench")]  # noqa: E731
    request_text = "Take _static_workbench.py once more: which methods has a StaticWorkbench?"
    assert expanded(request_text, offer, visible_texts=texts) == ["read_u2u2u2"]


MARCH, APRIL = offered("pdf_m2m2", "report of March"), offered("pdf_a2a2", "report of April")
MÄRZ, JUNI = offered("pdf_r2r2", "Rechnung vom März"), offered("pdf_s2s2", "Rechnung vom Juni")
CONFIG, SETTINGS = offered("read_c2c2c2", "path=config.yaml"), offered("read_d2d2d2", "path=settings.py")


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("do not open config.yaml", []),
        ("Please don’t read config.yaml again, tell me what is in settings.py", [SETTINGS]),
        ("show settings.py, but not config.yaml", [SETTINGS]),
        ("what is in settings.py and not in config.yaml?", [SETTINGS]),
        ("read settings.py instead of config.yaml", [SETTINGS]),
        ("do not open config.yaml, settings.py or login.py", []),
        ("You need not read config.yaml and settings.py. What does login.py do?", [LOGIN]),
        ("I don't need config.yaml; read settings.py", [SETTINGS]),
        ("config.yaml should not be opened", []),
        ("look at settings.py without opening config.yaml", [SETTINGS]),
        ("do not open read_c2c2c2, read read_d2d2d2", [SETTINGS]),
        ("not the report of March, the one of April", [APRIL]),
        ("What does the report say? Not the one of March, the one of April.", [APRIL]),
        ("Summarise the report of April, not that of March", [APRIL]),
        ("nicht die Rechnung vom März, sondern die vom Juni", [JUNI]),
        ("Was steht in der Rechnung vom Juni? Nicht die vom März.", [JUNI]),
        ("Öffne config.yaml nicht, lies settings.py", [SETTINGS]),
        ("Öffne nicht config.yaml", []),
        ("Die Rechnung vom März bitte nicht öffnen", []),
        ("Nimm settings.py statt config.yaml", [SETTINGS]),
        # an obstacle, a double negation, or a question is none
        ("why does config.yaml not load?", [CONFIG]),
        ("config.yaml is not found", [CONFIG]),
        ("don't forget to read config.yaml", [CONFIG]),
        ("I don't understand what config.yaml does", [CONFIG]),
        ("not sure what config.yaml does", [CONFIG]),
        ("not only config.yaml but also settings.py", [CONFIG, SETTINGS]),
        ("Warum lädt config.yaml nicht?", [CONFIG]),
        ("Zeig mir, warum config.yaml nicht lädt", [CONFIG]),
        ("Ich kann config.yaml nicht öffnen, warum?", [CONFIG]),
        ("Vergiss config.yaml nicht", [CONFIG]),
    ],
)
def test_negated_name_opens_nothing(request_text: str, expected: list[CandidateReference]):
    """A file, a key or a description that is not to be opened, in English and German; what is named beside it opens."""
    offers = (MARCH, APRIL, MÄRZ, JUNI, CONFIG, SETTINGS, LOGIN)
    assert expanded(request_text, *offers) == [one.ref.key for one in expected]


def test_at_most_three_references_match():
    """If more are equally likely, none is."""
    for count, expected in ((3, 3), (4, 0)):
        equal = [offered(f"page_{i}", f"invoice E1234 page {i}") for i in range(count)]
        others = [offered(f"other_{i}", f"something else {i}") for i in range(12)]
        assert len(expanded("what is in the invoice E1234?", *equal, *others)) == expected


@pytest.mark.parametrize(
    "request_text",
    [
        "use my usual settings",
        "like last time",
        "deploy",
        "restart the server",
        "fix it",
        "yes",
        "wie üblich",
        "Schick den Bericht an Frau Klein",
    ],
)
def test_request_that_refers_to_something_absent_is_ambiguous_and_searched(request_text: str):
    """The query is made of the request's own words."""
    answer = decide_by_rules(ExpansionRequest(request_text))
    assert answer.is_ambiguous
    assert answer.why
    assert set(answer.search_query.split()) <= set(request_text.split())
    assert answer.decided_by == "rules"


@pytest.mark.parametrize(
    ("request_text", "last_answer"),
    [
        ("Write a haiku about the sea", ""),
        ("yes", "Shall I commit?"),
        ("fix it", "One test fails: test_slug."),
        ("restart the server", "The server `web-1` is down."),
        ("Remember that my dog is called Rex", ""),
        ("Translate 'as usual' into Latin", ""),
        ("What is the usual dosage of ibuprofen for adults?", ""),
        ("hello", ""),
        ("", ""),
    ],
)
def test_request_that_refers_to_visible_things_is_concrete(request_text: str, last_answer: str):
    """Said in the request, in the last answer, quoted, or known to everybody."""
    answer = decide_by_rules(ExpansionRequest(request_text, last_answer))
    assert (answer.is_ambiguous, answer.search_query) == (False, "")


def test_thing_in_a_visible_text_or_reference_makes_request_concrete():
    """In a text shown in full, or in a reference."""
    assert decide_by_rules(ExpansionRequest("send the brochure")).is_ambiguous
    assert not decide_by_rules(
        ExpansionRequest("send the brochure", visible_texts=lambda: [folded("Brochure, page 1")])
    ).is_ambiguous
    brochure = offered("read_pdf_d5d5d5", "brochure_draft.pdf, 4 pages")
    assert not decide_by_rules(ExpansionRequest("send the brochure", references=(brochure,))).is_ambiguous


WORDS = """the it my our usual last time . , ? : \n ' " ` ``` ' login.py key_1 [MemoryRef: ] E1234 this that send deploy
wie letztes 漢 \ud800 \x00 é - _ / yes DB you I we did told what how is"""
TEXTS = st.text(max_size=200) | st.lists(st.sampled_from(WORDS.split(" ")), max_size=40).map(" ".join)


@given(TEXTS, TEXTS, st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=8), st.lists(TEXTS, max_size=3))
def test_rules_take_any_input(
    request_text: str, last_answer: str, offers: list[tuple[str, str, str]], visible: list[str]
):
    """Whatever was said: only offered keys, at most three of them unnamed, and the same answer again."""
    references = tuple(
        offered(f"key_{i}", description, source=source, kept_text=kept, is_visible=i == 3)
        for i, (description, source, kept) in enumerate(offers)
    )
    turn = ExpansionRequest(request_text, last_answer, references, lambda: visible)
    answer = decide_by_rules(turn)
    keys = [expansion.key for expansion in answer.expansions]
    assert len(keys) == len(set(keys))
    assert set(keys) <= {one.ref.key for one in references if not one.is_visible}
    assert sum(one.reason == "matched" for one in answer.expansions) <= 3
    assert bool(answer.search_query) <= answer.is_ambiguous
    assert len(answer.search_query) <= 300
    assert "\n" not in answer.search_query
    assert decide_by_rules(turn) == answer
