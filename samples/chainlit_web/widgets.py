"""The settings as Chainlit shows them."""

from collections.abc import Mapping
from typing import Any

import chainlit as cl
from chainlit.input_widget import Select, Slider, Switch

from memory_context import ContextPolicy

from .settings import NUMBERS, values_of

__all__ = ["send_settings"]


async def send_settings(policy: ContextPolicy) -> None:
    """Show the settings of a chat."""
    values = values_of(policy)
    await cl.ChatSettings(
        [
            Select(
                id="first_view",
                label="A large result is first shown",
                items={"whole": "full", "as an excerpt": "excerpt", "as a reference only": "placeholder"},
                initial_value=values["first_view"],
                description="Until the agent has answered it; then its reference and a few facts stay.",
            ),
            _slider(
                "token_budget",
                "Token budget",
                "The most the model is sent of the conversation; above it, old steps fold.",
                values,
            ),
            _slider(
                "offload_threshold_tokens",
                "Store what has more tokens than",
                "Smaller results stay in the conversation as they are.",
                values,
            ),
            _slider(
                "first_view_limit_tokens",
                "Show at most this much of one result",
                "Longer ones are shown by an excerpt.",
                values,
            ),
            _switch(
                "expansion",
                "Open references and search the memory by itself",
                "What a message needs again is brought back for its turn; “like last time” brings earlier chats.",
                values,
            ),
            _switch(
                "compaction",
                "Compact what was answered",
                "Off, results stay whole as long as the budget allows.",
                values,
            ),
        ]
    ).send()


def _slider(name: str, label: str, description: str, values: Mapping[str, Any]) -> Slider:
    least, most, step = NUMBERS[name]
    return Slider(id=name, label=label, initial=values[name], min=least, max=most, step=step, description=description)


def _switch(name: str, label: str, description: str, values: Mapping[str, Any]) -> Switch:
    return Switch(id=name, label=label, initial=values[name], description=description)
