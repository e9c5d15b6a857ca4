"""The settings of a context: one frozen value, every number with its unit in its name.

`ContextPolicy()` is the recommended default. The defaults were chosen by replaying recorded agent runs (ARCHITECTURE.md
says what was tried), so change one because a measurement says so.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import Self

__all__ = ["ContextPolicy", "ExpansionPolicy", "FirstView", "RecallPolicy"]

FirstView = Literal["full", "excerpt", "placeholder"]

_LEAST_VIEW_TOKENS = 1000


class ExpansionPolicy(BaseModel):
    """What is brought back into the view, and what the decision may take.

    Attributes:
        enabled: Whether the context opens references by itself.
        limit_tokens: The most tokens that the items opened for one message take together.
        timeout_seconds: The longest a step waits for the light model; the rules decide then.
        retry_seconds: After the light model failed, how long it is not asked.
        prompt_limit_tokens: The most tokens the light model is sent.
        answer_limit_tokens: The most tokens its answer takes.
        prompt: What it is asked, with the fields {request}, {last_answer} and {references}; None for the default,
            `memory_context.turn.PROMPT`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    limit_tokens: int = Field(default=2000, ge=100)
    timeout_seconds: float = Field(default=5.0, gt=0)
    retry_seconds: float = Field(default=30.0, ge=0)
    prompt_limit_tokens: int = Field(default=2000, ge=500)
    answer_limit_tokens: int = Field(default=300, ge=50)
    prompt: str | None = None


class RecallPolicy(BaseModel):
    """What an ambiguous request brings from the user's memory.

    Attributes:
        enabled: Whether the user's memory is searched for it.
        limit_tokens: The most tokens that the passages take together.
        passages: How many passages at most.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    limit_tokens: int = Field(default=800, ge=100)
    passages: int = Field(default=5, ge=1, le=20)


class ContextPolicy(BaseModel):
    """When content leaves the view, how it is shown first, and how large the view may grow.

    Attributes:
        offload_threshold_tokens: A part with more tokens than this is stored as an item.
        first_view: How a stored tool result looks until the agent has answered it: `full` (up to
            `first_view_limit_tokens`, beyond that its excerpt), `excerpt` (its excerpt within
            `offload_threshold_tokens`), or `placeholder` (compacted at once).
        first_view_limit_tokens: The most that one tool result takes in its first view; also how much of the current
            user message is always whole. In effect at most a quarter of the budget for a result.
        token_budget: The most tokens `get_messages` returns, all sections included; None is unlimited.
        reserved_tokens: Part of the budget kept free for what the context does not see: system prompt, tool schemas.
        fold_to_ratio: A fold takes the view down to this share of the budget, not just under it, so that folds are
            rare and the prompt cache keeps its prefix between them.
        user_sources: Sources whose `UserMessage` is the user's own word: such a message is the current task.
        image_tokens: What one image counts.
        store_timeout_seconds: The longest a step waits for the store; the content stays inline meanwhile.
        store_retry_seconds: After the store failed, how long no new attempt is made.
        expansion: What is brought back into the view.
        recall: What an ambiguous request brings from the user's memory.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    offload_threshold_tokens: int = Field(default=500, ge=50)
    first_view: FirstView = "full"
    first_view_limit_tokens: int = Field(default=4000, ge=200)
    token_budget: int | None = 100_000
    reserved_tokens: int = Field(default=0, ge=0)
    fold_to_ratio: float = Field(default=0.6, gt=0, lt=1)
    user_sources: tuple[str, ...] = ("user", "user_proxy")
    image_tokens: int = Field(default=1100, ge=0)
    store_timeout_seconds: float = Field(default=1.0, gt=0)
    store_retry_seconds: float = Field(default=30.0, ge=0)
    expansion: ExpansionPolicy = ExpansionPolicy()
    recall: RecallPolicy = RecallPolicy()

    @model_validator(mode="after")
    def _leaves_room_for_a_view(self) -> Self:
        if self.token_budget is None:
            return self
        if self.token_budget < _LEAST_VIEW_TOKENS:
            raise ValueError(
                f"token_budget={self.token_budget!r} is too small: use at least {_LEAST_VIEW_TOKENS}, or None"
            )
        if self.token_budget - self.reserved_tokens < _LEAST_VIEW_TOKENS:
            raise ValueError(
                f"reserved_tokens={self.reserved_tokens!r} leaves less than {_LEAST_VIEW_TOKENS} of "
                f"token_budget={self.token_budget!r}: raise the budget or reserve less"
            )
        return self

    @property
    def view_limit_tokens(self) -> int | None:
        """What the view may take: the budget less what is reserved; None is unlimited."""
        return None if self.token_budget is None else self.token_budget - self.reserved_tokens

    @property
    def result_limit_tokens(self) -> int:
        """What one tool result may take in its first view."""
        limit = self.view_limit_tokens
        return self.first_view_limit_tokens if limit is None else min(self.first_view_limit_tokens, limit // 4)
