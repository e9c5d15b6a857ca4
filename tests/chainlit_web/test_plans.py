"""Settings, and what is kept of a chat with its thread."""

import json

import pytest

from memory_context import ContextPolicy
from samples.chainlit_web.plans import EXAMPLES, Plan
from samples.chainlit_web.settings import DEFAULTS, NUMBERS, policy_of, values_of
from samples.chainlit_web.ui_hook import check_component

COMPONENT = {"provider": "autogen_agentchat.agents.AssistantAgent", "config": {"name": "x"}}


def test_settings_become_a_policy() -> None:
    policy = policy_of({"first_view": "placeholder", "token_budget": 8000.0, "expansion": False})
    assert (policy.first_view_by_tool, policy.token_budget) == ({"*": "placeholder"}, 8000)
    assert not policy.expansion.enabled
    assert policy.compaction == DEFAULTS.compaction  # what is left out stays


@pytest.mark.parametrize(
    "wrong",
    [
        {"token_budget": 5},
        {"token_budget": 10**12},  # every token is paid for
        {"token_budget": float("nan")},
        {"token_budget": float("inf")},
        {"token_budget": True},
        {"first_view": "nonsense"},
        {"first_view": ["full"]},
        {"expansion": "yes"},
        {"unknown": 1},
        {},
    ],
)
def test_settings_that_do_not_fit_change_nothing(wrong: dict[str, object]) -> None:
    """They come from a browser, and from rows that an older version wrote."""
    assert policy_of(wrong) == DEFAULTS


def test_what_is_shown_is_what_is_set() -> None:
    policy = policy_of({"first_view": "excerpt", "offload_threshold_tokens": 900, "recall": False})
    assert policy_of(values_of(policy)) == policy


@pytest.mark.parametrize("end", ["least", "most"])
def test_whatever_can_be_set_together_is_a_policy(end: str) -> None:
    """So that nothing is said to be applied that is not."""
    wanted = {name: getattr(bounds, end) for name, bounds in NUMBERS.items()}
    assert values_of(policy_of(wanted)).items() >= wanted.items()
    for name in NUMBERS:
        assert NUMBERS[name].least <= values_of(DEFAULTS)[name] <= NUMBERS[name].most


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_that_are_offered_can_be_used_and_run_nothing(name: str) -> None:
    assert check_component(EXAMPLES[name], has_model=True).reach == ()


@pytest.mark.parametrize(
    "plan",
    [
        Plan(),
        Plan("coder", policy=ContextPolicy(token_budget=9000)),
        Plan("pasted", COMPONENT, True, ContextPolicy(first_view_by_tool={"*": "excerpt"})),
    ],
)
def test_a_plan_comes_back_from_its_thread(plan: Plan) -> None:
    assert Plan.of(json.loads(json.dumps(plan.kept())), is_operator=True) == plan


@pytest.mark.parametrize("kept", [Plan("pasted", COMPONENT).kept(), Plan("coder").kept(), None, [], {"agent": 3}])
def test_who_is_no_operator_any_more_has_the_reader(kept: object) -> None:
    """A thread outlives a role; what it kept may run code."""
    assert Plan.of(kept, is_operator=False) == Plan()
