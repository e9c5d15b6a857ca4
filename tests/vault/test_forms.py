"""Values are found in the forms that tools give them, and nothing else is changed."""

import base64
import html
import json
import random
import re
import string
from urllib.parse import quote, quote_plus

import pytest
from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage
from hypothesis import given
from hypothesis import strategies as st

from memory_context.memory.vault.entry import hidden_message
from memory_context.memory.vault.forms import SecretFilter, reference
from tests.support.growth import assert_linear

VALUES = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=8, max_size=60).filter(
    lambda value: value == value.strip() and len(value) >= 8
)
PLAIN = st.text(string.ascii_letters + string.digits + "_-+/=.:!$", min_size=8, max_size=60)
FORMS = {
    "as it is": lambda value: value,
    "percent-encoded": lambda value: quote(value, safe=""),
    "percent-encoded in small letters": lambda value: re.sub(
        "%..", lambda code: code[0].lower(), quote(value, safe="")
    ),
    "of a form": quote_plus,
    "JSON": json.dumps,
    "JSON of PHP": lambda value: json.dumps(value).replace("/", "\\/"),
    "JSON of Go": lambda value: (
        json.dumps(value, ensure_ascii=False).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    ),
    "with line ends of Windows": lambda value: value.replace("\n", "\r\n"),
    "JSON in UTF-8": lambda value: json.dumps(value, ensure_ascii=False),
    "JSON in JSON": lambda value: json.dumps(json.dumps(value)),
    "HTML": html.escape,
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64 of URLs": lambda value: base64.urlsafe_b64encode(value.encode()).decode().rstrip("="),
    "in a longer base64": lambda value: base64.b64encode(f"user:{value}\n".encode()).decode(),
}


@given(VALUES)
@pytest.mark.parametrize("form", FORMS)
def test_value_in_any_form_becomes_its_name(form: str, value: str):
    written = f"before {FORMS[form](value)} after"
    hidden = SecretFilter({"TOKEN": value}).hide(written)
    assert reference("TOKEN") in hidden
    assert FORMS[form](value) not in hidden
    assert hidden.startswith("before ")
    assert hidden.endswith(" after")


@given(st.lists(PLAIN, min_size=1, max_size=5, unique=True), st.text(max_size=200))
def test_text_without_values_is_the_same_object(values: list[str], text: str):
    one = SecretFilter({f"N{number}": value for number, value in enumerate(values)})
    if one.hide(text) != text:
        assert one.finds(text)
    else:
        assert one.hide(text) is text


def test_longest_value_wins():
    one = SecretFilter({"SHORT": "abcdefgh", "LONG": "abcdefgh12345"})
    assert one.hide("abcdefgh12345 abcdefgh") == f"{reference('LONG')} {reference('SHORT')}"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"pin": 12345678}', {"pin": "{{secret:PIN}}"}),
        ('{"text": "a\\nnewline99"}', {"text": "a\n{{secret:LINE}}"}),
        ('{"text": "\\newline99"}', {"text": "\newline99"}),
        ('{"12345678": [true, "x12345678"]}', {"{{secret:PIN}}": [True, "x{{secret:PIN}}"]}),
    ],
)
def test_arguments_stay_valid_json(arguments: str, expected: object):
    secrets = SecretFilter({"PIN": "12345678", "LINE": "newline99"})
    message = AssistantMessage(content=[FunctionCall("1", arguments, "f")], source="coder")
    hidden = hidden_message(message, secrets)
    assert json.loads(hidden.content[0].arguments) == expected  # type: ignore[union-attr]


def test_filter_of_many_values_is_linear():
    """10 values, of which none is in the text."""
    chance = random.Random(1)
    values = {f"N{n}": "".join(chance.choices(string.printable[:90], k=40)) for n in range(10)}
    one = SecretFilter(values)
    text = "".join(chance.choices(string.ascii_letters + "\n\\ %", k=20_000))
    assert one.hide(text) is text
    assert_linear(one.hide, text)


def test_reference_that_has_letters_of_another_value_stays_whole() -> None:
    hidden = SecretFilter({"PRODUCTION": "a value of its own", "OTHER": "PRODUCTION"})
    assert hidden.hide("{{secret:PRODUCTION}} PRODUCTION") == "{{secret:PRODUCTION}} {{secret:OTHER}}"
    assert hidden.hide(hidden.hide("a value of its own")) == "{{secret:PRODUCTION}}"
