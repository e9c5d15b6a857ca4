"""The settings of a context: one frozen value, every number with its unit in its name.

`ContextPolicy()` is the recommended default. The defaults were chosen by replaying recorded agent runs
(docs/measurements.md says what was tried), so change one because a measurement says so.
"""

import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import Self

__all__ = [
    "ArchivePolicy",
    "CachePolicy",
    "CompactionMode",
    "CompactionPolicy",
    "ContextPolicy",
    "ExpansionPolicy",
    "FirstView",
    "NamedFirstViews",
    "RecallPolicy",
]

FirstView = Literal["full", "excerpt", "placeholder"]
NamedFirstViews = Literal["auto", "always", "never"]
CompactionMode = Literal["plugin", "model", "auto"]

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
            `memory_context.expansion.PROMPT`.
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


class CompactionPolicy(BaseModel):
    """How an answered tool result becomes shorter.

    Attributes:
        enabled: Whether results are cut and compacted at all; without, they stay whole as long as the budget allows.
        mode: `plugin`: the compactor for its sort of content. `auto`: that at once, and a summary by the light model,
            made in the background, for what is large. `model`: large results wait for that summary.
        facts_limit_tokens: The most that the facts of one result take.
        facts_in_view_tokens: The most that the facts of all results take together; then the oldest lose theirs, and a
            share of 0.4 stays.
        excerpt_limit_tokens: The most that is shown first of a result that is too long to be shown whole.
        summarise_over_tokens: A result with more tokens than this is large.
        summary_limit_tokens: The most that a model's summary takes.
        summary_timeout_seconds: How long a model has for it.
        summary_prompt: What it is asked; None for the default, `memory_context.compaction.PROMPT`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    mode: CompactionMode = "auto"
    facts_limit_tokens: int = Field(default=280, ge=0)
    facts_in_view_tokens: int = Field(default=4000, ge=0)
    excerpt_limit_tokens: int = Field(default=1800, ge=200)
    summarise_over_tokens: int = Field(default=2000, ge=500)
    summary_limit_tokens: int = Field(default=200, ge=50)
    summary_timeout_seconds: float = Field(default=30.0, gt=0)
    summary_prompt: str | None = None


class CachePolicy(BaseModel):
    """What tokens cost with a prompt cache, in prices of an ordinary input token; planned compactions pay by it.

    The defaults are those of Anthropic's models; with automatic caching (OpenAI) writing costs 1.0, and reading 0.1 to
    0.5, depending on the model.

    Attributes:
        cached_price_ratio: A token that is read from the cache.
        write_price_ratio: A token that is not, and is written to it.
        least_prefix_tokens: A common prefix shorter than this, `reserved_tokens` included, is not cached.
        expected_calls: How many model calls are still to come; None to estimate it from the session: as many as there
            have been, and six at least.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cached_price_ratio: float = Field(default=0.1, ge=0)
    write_price_ratio: float = Field(default=1.25, gt=0)
    least_prefix_tokens: int = Field(default=1024, ge=0)
    expected_calls: int | None = Field(default=None, ge=1)


class ArchivePolicy(BaseModel):
    """How a session is archived, so that it can be taken up again.

    Attributes:
        enabled: Whether it is; without, a session lasts as long as its process or its saved state.
        batch_messages: How many messages wait at most before they are written.
        batch_seconds: How long they wait at most. What a process that is killed has not written is lost with it.
        resume_timeout_seconds: The longest the first use of a known session waits for its history. After that the view
            says that earlier messages could not be read yet, and they join as soon as they can.
        require_history: Whether `add_message` then raises `StoreUnavailableError` instead of going on without them.
        titles: Whether the light model names sessions; without, or without one, the first words of the user do.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    batch_messages: int = Field(default=40, ge=1)
    batch_seconds: float = Field(default=60.0, gt=0)
    resume_timeout_seconds: float = Field(default=5.0, gt=0)
    require_history: bool = False
    titles: bool = True


class ContextPolicy(BaseModel):
    """When content leaves the view, how it is shown first, and how large the view may grow.

    Attributes:
        offload_threshold_tokens: A part with more tokens than this is stored as an item.
        first_view: How a stored tool result looks until the agent has answered it: `full` (up to
            `first_view_limit_tokens`, beyond that its excerpt), `excerpt` (its excerpt within
            `offload_threshold_tokens`), or `placeholder` (compacted at once).
        first_view_by_tool: The same for single tools, by name or pattern (`fetch_*`), the first that fits. `full` shows
            a result of such a tool whole up to half of the budget, whatever it is.
        first_view_limit_tokens: The most that one tool result takes in its first view; also how much of the current
            user message is always whole. In effect at most a quarter of the budget for a result.
        document_first_view_limit_tokens: The same for a document (prose, a page, a mail), which is meant to be read. In
            effect at most half of the budget.
        name_first_views: Results that name their memory key in a line above them when they are shown whole: `auto` if
            results are compacted and the agent was given no memory tools to find the key with, `always`, or `never`.
            The line counts towards the limits above. A result that was shown keeps its line, or stays without one.
        token_budget: The most tokens `get_messages` returns, all sections included; None is unlimited.
        reserved_tokens: Part of the budget kept free for what the context does not see: system prompt, tool schemas.
        fold_to_ratio: A fold takes the view down to this share of the budget, not just under it, so that folds are
            rare and the prompt cache keeps its prefix between them.
        user_sources: Sources whose `UserMessage` is the user's own word: such a message is the current task.
        image_tokens: What one image counts.
        mask_credentials: Whether credentials are masked in what is made of a content: facts, names, descriptions,
            titles, summaries. The content itself and its first view stay as they are.
        store_timeout_seconds: The longest a step waits for the store; the content stays inline meanwhile.
        store_retry_seconds: After the store failed, how long no new attempt is made.
        expansion: What is brought back into the view.
        recall: What an ambiguous request brings from the user's memory.
        compaction: How an answered result becomes shorter.
        cache: What tokens cost, which decides when that pays.
        archive: How the session is archived.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    offload_threshold_tokens: int = Field(default=500, ge=50)
    first_view: FirstView = "full"
    first_view_by_tool: dict[str, FirstView] = {}
    first_view_limit_tokens: int = Field(default=4000, ge=200)
    document_first_view_limit_tokens: int = Field(default=12_000, ge=200)
    name_first_views: NamedFirstViews = "auto"
    token_budget: int | None = 100_000
    reserved_tokens: int = Field(default=0, ge=0)
    fold_to_ratio: float = Field(default=0.6, gt=0, lt=1)
    user_sources: tuple[str, ...] = ("user", "user_proxy")
    image_tokens: int = Field(default=1100, ge=0)
    mask_credentials: bool = True
    store_timeout_seconds: float = Field(default=1.0, gt=0)
    store_retry_seconds: float = Field(default=30.0, ge=0)
    expansion: ExpansionPolicy = ExpansionPolicy()
    recall: RecallPolicy = RecallPolicy()
    compaction: CompactionPolicy = CompactionPolicy()
    cache: CachePolicy = CachePolicy()
    archive: ArchivePolicy = ArchivePolicy()

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

    def __hash__(self) -> int:  # a frozen model's own cannot take a dict
        return hash(self.model_dump_json())

    def first_view_of(self, tool: str) -> FirstView:
        """Return how a stored result of a tool looks until it is answered: whole where nothing is compacted."""
        if not self.compaction.enabled:
            return "full"
        return self._named_for(tool) or self.first_view

    def names_first_view(self, agent_has_tools: bool) -> bool:
        """Return whether a result that is shown whole names its memory key."""
        is_needed = self.compaction.enabled and not agent_has_tools
        return self.name_first_views == "always" or (self.name_first_views == "auto" and is_needed)

    def whole_limit_tokens(self, tool: str, is_document: Callable[[], bool]) -> int:
        """Return what one result of a tool may take in its first view and be shown whole.

        Args:
            tool: The tool's name.
            is_document: Tells whether the result is a document; asked only if that matters.
        """
        view, limit = self.view_limit_tokens, self.result_limit_tokens
        if not self.compaction.enabled:
            return limit
        half = sys.maxsize if view is None else view // 2
        if self._named_for(tool) == "full":
            return half
        document_limit = min(self.document_first_view_limit_tokens, half)
        return document_limit if document_limit > limit and is_document() else limit

    def _named_for(self, tool: str) -> FirstView | None:
        return next((view for name, view in self.first_view_by_tool.items() if fnmatchcase(tool, name)), None)

    @property
    def view_limit_tokens(self) -> int | None:
        """What the view may take: the budget less what is reserved; None is unlimited."""
        return None if self.token_budget is None else self.token_budget - self.reserved_tokens

    @property
    def result_limit_tokens(self) -> int:
        """What one tool result may take in its first view and be shown whole, if it is no document."""
        limit = self.view_limit_tokens
        if not self.compaction.enabled:
            return sys.maxsize if limit is None else limit
        return self.first_view_limit_tokens if limit is None else min(self.first_view_limit_tokens, limit // 4)

    @property
    def excerpt_limit_tokens(self) -> int:
        """What an excerpt of a longer one may take."""
        return min(self.result_limit_tokens, self.compaction.excerpt_limit_tokens)
