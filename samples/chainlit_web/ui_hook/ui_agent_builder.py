"""UIAgentBuilder: how a web application gets an agent whose context is the user's own.

Nothing here imports a user interface. `data_layer` is whatever the application keeps its data with; the builder only
asks it for a `memory_store`.
"""

from pathlib import Path

from autogen_core.models import ChatCompletionClient

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from samples.code_agent import CodeAgent

__all__ = ["UIAgentBuilder"]


class UIAgentBuilder:
    """Builds contexts and agents for the users of an application.

    Args:
        agent_id: The agent's name, and whose memory it is beside the user's.
        policy: The settings of every context.
    """

    def __init__(self, agent_id: str = "assistant", policy: ContextPolicy | None = None) -> None:
        self.agent_id = agent_id
        self.policy = policy or ContextPolicy()

    def build_model_context(
        self, user_id: str, data_layer: object = None, *, session_id: str | None = None
    ) -> MemoryContext:
        """Return a context for one conversation of one user, without any I/O.

        Close it when the conversation ends; a store of the data layer stays open for the others.

        Args:
            user_id: The user, as the application has logged them in; no other user's data is ever seen.
            data_layer: A MemoryStore, an object that carries one as `memory_store`, or None for the default store.
            session_id: The conversation's id in the application; None for a new one.

        Raises:
            TypeError: The data layer is none of these.
        """
        return MemoryContext(
            user_id=user_id,
            agent_id=self.agent_id,
            session_id=session_id,
            memory_store=_store_of(data_layer),
            policy=self.policy,
        )

    def build_agent(
        self,
        user_id: str,
        data_layer: object,
        model_client: ChatCompletionClient,
        *,
        session_id: str | None = None,
        code_root: str | Path | None = None,
    ) -> CodeAgent:
        """Return a CodeAgent that holds such a context.

        When the conversation ends, close the agent (`await agent.close()`) and then its context
        (`await agent.model_context.close()`).

        Args:
            user_id: The user.
            data_layer: As for `build_model_context`.
            model_client: The agent's model.
            session_id: The conversation's id in the application; None for a new one.
            code_root: The code it works on; None for the current folder.

        Raises:
            TypeError: The data layer is none that `build_model_context` takes.
        """
        context = self.build_model_context(user_id, data_layer, session_id=session_id)
        return CodeAgent(self.agent_id, model_client, model_context=context, code_root=code_root)


def _store_of(data_layer: object) -> MemoryStore | None:
    if data_layer is None or isinstance(data_layer, MemoryStore):
        return data_layer
    store = getattr(data_layer, "memory_store", None)
    if isinstance(store, MemoryStore):
        return store
    raise TypeError(
        f"data_layer={data_layer!r}: pass a MemoryStore, an object with one as its memory_store, or None for the "
        "default store"
    )
