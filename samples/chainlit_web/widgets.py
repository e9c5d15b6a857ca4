"""The settings as Chainlit shows them."""

import chainlit as cl
from chainlit.input_widget import Select, Slider, Switch

from memory_context import ContextPolicy

from .settings import values_of

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
            Slider(
                id="token_budget",
                label="Token budget",
                initial=values["token_budget"],
                min=2000,
                max=200_000,
                step=1000,
                description="The most the model is sent of the conversation; above it, old steps fold.",
            ),
            Slider(
                id="offload_threshold_tokens",
                label="Store what has more tokens than",
                initial=values["offload_threshold_tokens"],
                min=100,
                max=5000,
                step=100,
                description="Smaller results stay in the conversation as they are.",
            ),
            Slider(
                id="first_view_limit_tokens",
                label="Show at most this much of one result",
                initial=values["first_view_limit_tokens"],
                min=500,
                max=20_000,
                step=500,
                description="Longer ones are shown by an excerpt.",
            ),
            Switch(
                id="expansion",
                label="Open references by itself",
                initial=values["expansion"],
                description="What a message needs again is brought back for its turn.",
            ),
            Switch(
                id="recall",
                label="Search the memory when a message leans on it",
                initial=values["recall"],
                description="“Like last time” brings passages of earlier chats.",
            ),
            Switch(
                id="compaction",
                label="Compact what was answered",
                initial=values["compaction"],
                description="Off, results stay whole as long as the budget allows.",
            ),
        ]
    ).send()
