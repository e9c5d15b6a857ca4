"""What a chat is made of, and how that is kept with its thread."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from memory_context import ContextPolicy

from .settings import DEFAULTS, policy_of, values_of

__all__ = ["EXAMPLES", "AgentChoice", "Plan"]

AgentChoice = Literal["reader", "coder", "pasted"]

EXAMPLES: Mapping[str, Any] = json.loads(Path(__file__).with_name("examples.json").read_text(encoding="utf-8"))
"""Components to begin with, by what they are."""


@dataclass(frozen=True)
class Plan:
    """What a chat is to be made of.

    Attributes:
        agent: Who answers.
        component: What was pasted, if it was.
        uses_own_model: Whether what was pasted uses the models it names instead of the application's.
        policy: The settings of its contexts.
    """

    agent: AgentChoice = "reader"
    component: Mapping[str, Any] | None = None
    uses_own_model: bool = False
    policy: ContextPolicy = DEFAULTS

    def kept(self) -> dict[str, Any]:
        """Return what is kept with the thread, JSON-native."""
        return {
            "agent": self.agent,
            "component": self.component,
            "uses_own_model": self.uses_own_model,
            "settings": values_of(self.policy),
        }

    @classmethod
    def of(cls, kept: Any, *, is_operator: bool) -> "Plan":
        """Return the plan that was kept; who may not change the agent now has the reader, whatever was kept.

        Args:
            kept: What `kept` gave, as it came back from the thread; anything else is the default plan.
            is_operator: Whether who asks may have agents that run code.
        """
        found: Mapping[str, Any] = kept if isinstance(kept, dict) else {}
        settings = found.get("settings")
        policy = policy_of(settings if isinstance(settings, dict) else {})
        if is_operator and isinstance(found.get("component"), dict):
            return cls("pasted", found["component"], bool(found.get("uses_own_model")), policy)
        return cls("coder" if is_operator and found.get("agent") == "coder" else "reader", policy=policy)
