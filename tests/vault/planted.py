"""A value, all its forms, and messages that hold it."""

import base64
import json
import re
from urllib.parse import quote

import psycopg
from autogen_core import FunctionCall, Image
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

VALUE = 'pl4nt3d/S3cret+"quoted" ü value'
NAME = "{{secret:PLANTED}}"
LONG = "\n".join(f"line {n} of a report about harbours" for n in range(400))
FORMS = {
    "plain": VALUE,
    "url": quote(VALUE, safe=""),
    "base64": base64.b64encode(f"user:{VALUE}".encode()).decode(),
    "json": json.dumps({"token": VALUE}),
}


def stands_in(text: str) -> list[str]:
    """Return the pieces of the value that stand in a text, in any form that it was planted in."""
    joined = re.sub(r"[\\\s]", "", text)
    pieces = [VALUE[at : at + 8] for at in range(len(VALUE) - 7)]
    encoded = FORMS["base64"][8:-4]
    forms = [
        *pieces,
        *(quote(one, safe="") for one in pieces),
        *(encoded[at : at + 10] for at in range(len(encoded) - 9)),
    ]
    return [one for one in forms if one in text or one.replace(" ", "") in joined]


def messages() -> list[LLMMessage]:
    """The value in every kind of part, small and large."""
    call = FunctionCall("c1", json.dumps({"token": VALUE, "text": f"{LONG}\n{VALUE}"}), "fetch")
    results = [
        FunctionExecutionResult(content=text, name="fetch", call_id="c1", is_error=number == 1)
        for number, text in enumerate((FORMS["plain"], f"error {FORMS['json']}"))
    ]
    others = [FunctionCall(f"d{n}", "{}", "read") for n in range(len(FORMS))]
    large = [
        FunctionExecutionResult(content=f"{LONG}\n{form}\n{LONG}", name="read", call_id=f"d{n}", is_error=False)
        for n, form in enumerate(FORMS.values())
    ]
    image = Image.from_base64(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    return [
        SystemMessage(content=f"Sign in with {VALUE}."),
        UserMessage(content=f"I sign in with {VALUE}", source="user"),
        AssistantMessage(content=[call], thought=f"I use {VALUE}", source="coder"),
        FunctionExecutionResultMessage(content=results),
        AssistantMessage(content=f"I found {FORMS['url']}", source="coder"),
        UserMessage(content=[f"and {FORMS['url']}", image, FORMS["base64"]], source="user"),
        AssistantMessage(content=others, source="coder"),
        FunctionExecutionResultMessage(content=large),
        AssistantMessage(content="Done.", source="coder"),
        UserMessage(content=f"{LONG}\nremember {VALUE}, open fetch", source="user"),
    ]


def dump(url: str) -> str:
    """Return every row of every table, bytes as text."""
    tables = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'memory_context'::regnamespace"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET bytea_output = 'escape'")
        return "\n".join(
            str(row[0])
            for (table,) in connection.execute(tables).fetchall()
            for row in connection.execute(f"SELECT t::text FROM memory_context.{table} AS t".encode()).fetchall()
        )
