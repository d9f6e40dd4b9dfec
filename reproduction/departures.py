"""What of a learning run is not the paper's, read from the settings in its result file."""

from typing import Any

from reproduction.results import Result

STATED = (
    "Algorithm 2 as written: one environment and one update after each of its steps, targets of one step, plain "
    "networks, one critic with the squared error, the actor's gradient at the proto-action itself, and random actions "
    "from the likely subset only"
)


def departures(result: Result) -> list[str]:
    """Settings that Algorithm 2 as written does not have; hyper-parameters that the paper leaves open are none."""
    spec = result["spec"]
    agent: dict[str, Any] = spec["agent"]
    return [*_steps(spec, agent), *_learner(agent), *_networks(agent), *_exploration(agent)]


def _steps(spec: dict[str, Any], agent: dict[str, Any]) -> list[str]:
    found = []
    if spec["n_envs"] != 1:
        found.append(f"{spec['n_envs']} environments step together")
    if (every := agent.get("train_freq", 1), updates := agent.get("gradient_steps", 1)) != (1, 1):
        found.append(f"{updates} updates after every {every} steps")
    if agent.get("n_steps", 1) != 1:
        found.append(f"returns of {agent['n_steps']} steps")
    if agent.get("standardize"):
        found.append("standardized observations and values")
    return found


def _learner(agent: dict[str, Any]) -> list[str]:
    learner = agent.get("learner", {})
    found = []
    if learner.get("kind", "ddpg") != "ddpg":
        found.append(f"learner {learner['kind']}")
    if agent.get("candidates", {}).get("kind", "nearest") != "nearest":
        found.append(f"candidates by {agent['candidates']['kind']}")
    if learner.get("gradient_at", "proto") != "proto":
        found.append(f'gradient_at="{learner["gradient_at"]}"')
    if learner.get("anchor"):
        found.append(f"an anchor of {learner['anchor']:g} to the picked action")
    if learner.get("critic_loss", "mse") != "mse":
        found.append(f"critic_loss={learner['critic_loss']}")
    if learner.get("target_samples"):
        found.append(f"targets from {learner['target_samples']} sampled actions")
    if "final_learning_rate" in agent:
        found.append("a learning rate that falls")
    return found


def _networks(agent: dict[str, Any]) -> list[str]:
    networks, critic = agent.get("policy_kwargs", {}), agent.get("critic", {})
    found = []
    if networks.get("bound", "tanh") != "tanh":
        found.append(str(networks["bound"]))
    if networks.get("layer_norm"):
        found.append("layer norm")
    if networks.get("dropout"):
        found.append(f"dropout of {networks['dropout']:g}")
    if networks.get("n_critics", 1) != 1:
        found.append(f"{networks['n_critics']} critics")
    if critic.get("kind", "mlp") != "mlp":
        found.append(f"a {critic['kind']} critic")
    if critic.get("interaction"):
        found.append("products of state and action in the critic")
    return found


def _exploration(agent: dict[str, Any]) -> list[str]:
    exploration = agent.get("exploration", {})
    found = []
    if exploration.get("ladder"):
        found.append("another noise in each environment")
    if "final_sigma" in exploration:
        found.append("noise that falls")
    if exploration.get("epsilon") and exploration.get("guided", 0.0) != 1.0:
        found.append(f"{exploration.get('guided', 0.0):.0%} of random actions from the likely subset")
    return found
