"""For tests of applications: a store on the embedded server, a scripted model, and checks for your own plug-ins.

`memory_context.testing.fixtures` has the pytest fixtures; nothing else here needs pytest.
"""

from .conformance import CLAIMS_CHECKS, COMPACTOR_CHECKS, EMBEDDER_CHECKS
from .models import Call, Decision, ScriptedModel, ScriptedModelConfig, call, tool_calls
from .stores import temporary_database, temporary_store

__all__ = [
    "CLAIMS_CHECKS",
    "COMPACTOR_CHECKS",
    "EMBEDDER_CHECKS",
    "Call",
    "Decision",
    "ScriptedModel",
    "ScriptedModelConfig",
    "call",
    "temporary_database",
    "temporary_store",
    "tool_calls",
]
