"""The parts of messages: found, replaced, copied, paired."""

import json

import pytest
from autogen_core import FunctionCall, Image
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    SystemMessage,
    UserMessage,
)
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as PILImage

from memory_context.foundation.messages import (
    Address,
    Pairing,
    copy_message,
    long_strings,
    message_from_json,
    message_to_json,
    replace_strings,
    texts_of,
    with_texts,
)

IMAGE = Image(PILImage.new("RGB", (2, 2), "red"))
any_text = st.text(st.characters(exclude_categories=()))
calls = st.lists(st.builds(FunctionCall, id=any_text, name=any_text, arguments=any_text), min_size=1, max_size=3)
messages = st.one_of(
    st.builds(SystemMessage, content=any_text),
    st.builds(UserMessage, content=any_text | st.lists(any_text, min_size=1, max_size=3), source=st.just("user")),
    st.builds(AssistantMessage, content=any_text | calls, thought=st.none() | any_text, source=st.just("coder")),
    st.builds(
        FunctionExecutionResultMessage,
        content=st.lists(
            st.builds(
                FunctionExecutionResult,
                content=any_text,
                name=any_text,
                call_id=any_text,
                is_error=st.none() | st.booleans(),
            ),
            min_size=1,
            max_size=3,
        ),
    ),
)


@given(messages)
def test_a_copy_is_equal_and_shares_nothing(message):
    """Changing every text of the copy changes nothing in the original."""
    before = message.model_copy(deep=True)
    copy = copy_message(message)
    assert copy == message == message.model_copy()
    assert copy.model_dump() == message.model_dump()
    assert copy.model_fields_set >= message.model_fields_set
    assert type(copy) is type(message)
    if isinstance(copy.content, list):
        copy.content.clear()
    assert message == before


@given(messages)
def test_json_takes_any_message_and_gives_it_back(message):
    """Also with NUL and lone surrogates, which UTF-8 and jsonb refuse."""
    data = message_to_json(message)
    written = json.dumps(data, ensure_ascii=False)
    written.encode("utf-8")
    assert "\\u0000" not in written
    assert message_from_json(json.loads(written)) == message


def test_an_image_goes_through_json():
    """As PNG, without loss."""
    message = message_from_json(message_to_json(UserMessage(content=["look", IMAGE], source="user")))
    assert isinstance(message.content, list)
    assert isinstance(message.content[1], Image)
    assert message.content[1].image.getpixel((0, 0)) == (255, 0, 0)


@given(messages)
def test_every_text_can_be_replaced_by_its_address(message):
    """And only that one."""
    texts = texts_of(message)
    for address, _ in texts:
        changed = dict(texts_of(with_texts(message, {address: "new"})))
        assert changed == {**dict(texts), address: "new"}


def test_an_image_can_be_replaced_by_words():
    """It is the only part without a text."""
    message = with_texts(UserMessage(content=["look", IMAGE], source="user"), {Address("image", 1): "[gone]"})
    assert message.content == ["look", "[gone]"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.text(), json_values), st.integers(1, 5))
@pytest.mark.thorough
def test_long_strings_in_arguments_are_found_and_replaced_anywhere(arguments, least: int):
    """By JSON pointer, whatever the keys look like; the arguments stay a JSON object."""
    found = long_strings(json.dumps(arguments), least)
    replaced = replace_strings(json.dumps(arguments), {pointer: "X" * least for pointer, _ in found})
    assert [value for _, value in long_strings(replaced, least)] == ["X" * least] * len(found)
    assert isinstance(json.loads(replaced), dict)
    back = replace_strings(replaced, dict(found))
    assert json.loads(back) == json.loads(json.dumps(arguments))


@pytest.mark.parametrize("arguments", ["", "not json", "[1]", '"text"', "[" * 100_000])
def test_arguments_that_are_no_object_have_no_strings(arguments: str):
    """They are shown as they came."""
    assert long_strings(arguments, 1) == []


def call(id: str, name: str = "f") -> FunctionCall:
    return FunctionCall(id=id, name=name, arguments="{}")


def result(id: str, name: str = "f") -> FunctionExecutionResult:
    return FunctionExecutionResult(content="", call_id=id, name=name)


def test_ids_that_are_empty_or_used_again_still_pair():
    """A result belongs to the newest open call with its id; of one message, to the first of its name."""
    pairing = Pairing()
    pairing.add(0, AssistantMessage(content=[call("1")], source="a"))
    pairing.add(1, AssistantMessage(content=[call("1"), call("", "g"), call("", "h")], source="a"))
    pairing.add(2, FunctionExecutionResultMessage(content=[result("", "h"), result("1"), result("", "g")]))
    assert pairing.answers == {0: [None], 1: [(2, 1), (2, 2), (2, 0)]}
    pairing.add(3, FunctionExecutionResultMessage(content=[result("1"), result("1")]))
    assert pairing.answers[0] == [(3, 0)]
    assert pairing.orphans == {3: [1]}
