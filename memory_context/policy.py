"""The settings of a context. `docs/measurements.md` has the figures behind the defaults."""

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
    """Expansions, and the light model's decisions about them.

    Attributes:
        enabled: Whether the context opens references by itself.
        limit_tokens: The most tokens of the items opened for one message.
        timeout_seconds: The longest a step waits for the light model; the rules decide then.
        retry_seconds: How long the light model is not asked after it failed.
        prompt_limit_tokens: The most tokens of a question to it.
        answer_limit_tokens: The most tokens of its answer.
        prompt: The question, with the fields {request}, {last_answer} and {references}; None for
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
    """Passages of the user's memory for an ambiguous request.

    Attributes:
        limit_tokens: The most tokens of all passages.
        passages: The most passages.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    limit_tokens: int = Field(default=800, ge=100)
    passages: int = Field(default=5, ge=1, le=20)


class CompactionPolicy(BaseModel):
    """Compaction of answered tool results.

    Attributes:
        enabled: Whether results are cut and compacted at all; else they stay whole as long as the budget allows.
        mode: `plugin`: the compactor for the content. `auto`: that at once, and for large results a summary by the
            light model, made in the background. `model`: large results wait for that summary.
        facts_limit_tokens: The most tokens of the facts of one result.
        facts_in_view_tokens: The most of the facts of all results; then the oldest lose theirs, down to a share of 0.4.
        excerpt_limit_tokens: The most tokens of an excerpt, the first view of a result too long to be shown whole.
        summarise_over_tokens: A result with more tokens is large.
        summary_limit_tokens: The most tokens of a summary.
        summary_timeout_seconds: The longest a summary may take.
        summary_prompt: The question; None for `memory_context.compaction.PROMPT`.
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
    """Token prices with a prompt cache, relative to an ordinary input token; planned compactions pay by them.

    The defaults are those of Anthropic's models. With automatic caching (OpenAI) writing costs 1.0, and reading 0.1 to
    0.5, depending on the model.

    Attributes:
        cached_price_ratio: A token read from the cache.
        write_price_ratio: A token written to the cache.
        least_prefix_tokens: A shorter common prefix, `reserved_tokens` included, is not cached.
        expected_calls: Model calls still to come; None to estimate them: as many as there have been, and six at least.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cached_price_ratio: float = Field(default=0.1, ge=0)
    write_price_ratio: float = Field(default=1.25, gt=0)
    least_prefix_tokens: int = Field(default=1024, ge=0)
    expected_calls: int | None = Field(default=None, ge=1)


class ArchivePolicy(BaseModel):
    """Archiving of a session, so that it can be resumed.

    Attributes:
        enabled: Whether it is archived; else it lasts as long as its process or its saved state.
        batch_messages: The most messages that wait to be written.
        batch_seconds: The longest they wait; a killed process loses what waits.
        resume_timeout_seconds: The longest the first use of a known session waits for its history. After that the view
            says that it could not be read yet, and it joins as soon as it can.
        require_history: Whether `add_message` then raises `StoreUnavailableError`.
        titles: Whether the light model names sessions; else the first words of the user do.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    batch_messages: int = Field(default=40, ge=1)
    batch_seconds: float = Field(default=60.0, gt=0)
    resume_timeout_seconds: float = Field(default=5.0, gt=0)
    require_history: bool = False
    titles: bool = True


class ContextPolicy(BaseModel):
    """Settings: when content leaves the view, its first view, and the size of the view.

    Attributes:
        offload_threshold_tokens: A part with more tokens is stored as an item.
        first_view: Form of a stored tool result until the agent has answered it: `full` (up to
            `first_view_limit_tokens`, beyond that its excerpt), `excerpt` (within `offload_threshold_tokens`), or
            `placeholder` (compacted at once).
        first_view_by_tool: The same for single tools, by name or pattern (`fetch_*`), the first that fits. `full` shows
            any result whole up to half of the budget.
        first_view_limit_tokens: The most tokens of a tool result in its first view, at most a quarter of the budget;
            also the part of the current user message that is always whole.
        document_first_view_limit_tokens: The same for a document (prose, a page, a mail), at most half of the budget.
        name_first_views: Whether results shown whole name their key in a line above them: `auto` if results are
            compacted and the agent was given no memory tools to find the key with, `always`, or `never`. The line
            counts towards the limits above; a result keeps its line, or stays without one.
        token_budget: The most tokens of `get_messages`, all sections included; None is unlimited.
        reserved_tokens: Part of the budget for what the context does not see: system prompt, tool schemas.
        fold_to_ratio: Size of the view after a fold, as a share of the budget; folds are rare, and the prompt cache
            keeps its prefix between them.
        user_sources: Sources whose `UserMessage` is the user's own word, and so the current task.
        image_tokens: Tokens of one image.
        mask_credentials: Whether credentials are masked in facts, names, descriptions, titles and summaries; content
            and first view stay as they are.
        store_timeout_seconds: The longest a step waits for the store; the content stays inline meanwhile.
        store_retry_seconds: How long no new attempt is made after the store failed.
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
        """Return the first view of a tool's stored results: whole where nothing is compacted."""
        if not self.compaction.enabled:
            return "full"
        return self._named_for(tool) or self.first_view

    def names_first_view(self, agent_has_tools: bool) -> bool:
        """Return whether a result that is shown whole names its key."""
        is_needed = self.compaction.enabled and not agent_has_tools
        return self.name_first_views == "always" or (self.name_first_views == "auto" and is_needed)

    def whole_limit_tokens(self, tool: str, is_document: Callable[[], bool]) -> int:
        """Return the most tokens with which a tool's result is shown whole; `is_document` is called only if that
        matters."""
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
        """The budget without reserved tokens; None is unlimited."""
        return None if self.token_budget is None else self.token_budget - self.reserved_tokens

    @property
    def result_limit_tokens(self) -> int:
        """The most tokens with which a result that is no document is shown whole."""
        limit = self.view_limit_tokens
        if not self.compaction.enabled:
            return sys.maxsize if limit is None else limit
        return self.first_view_limit_tokens if limit is None else min(self.first_view_limit_tokens, limit // 4)

    @property
    def excerpt_limit_tokens(self) -> int:
        """The most tokens of an excerpt."""
        return min(self.result_limit_tokens, self.compaction.excerpt_limit_tokens)
