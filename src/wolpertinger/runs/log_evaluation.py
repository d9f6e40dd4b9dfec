"""What an agent's policy is worth by a log: fitted Q evaluation and importance sampling, before it meets anybody."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wolpertinger.agent import Wolpertinger
from wolpertinger.data import Transitions
from wolpertinger.data.clusters import cluster, nearest_centre
from wolpertinger.data.estimators import Episodes, Estimate, direct, mean_return, weighted
from wolpertinger.networks import Critic
from wolpertinger.runs.fitted_q import BATCH, RATE, fit_q
from wolpertinger.settings import check_kind, check_number

MOST_ROWS = 2**17  # that estimates are over: whole episodes, drawn at random
STATES_AT_ONCE = 2**12
UPDATES, CLASSIFIER_UPDATES = 2_000, 1_000
CLUSTERS, HIDDEN = 32, 64
LEAST_CHANCE = 1e-3  # of a cluster: what the classifier says below is noise


@dataclass(frozen=True)
class LogEvaluation:
    """Estimates of a policy's return beside that of the log."""

    estimates: list[Estimate]
    """The logging policy's first."""
    rows: int
    agreement: float
    """Share of rows where the policy takes what was logged."""
    gamma: float

    @property
    def warnings(self) -> list[str]:
        """Why estimates may be wrong."""
        found = [f"{each.name}: only {each.effective:,.1f} of {each.episodes:,} episodes count, do not trust it"
                 for each in self.estimates if not each.is_trusted]  # fmt: skip
        weighted_ones = [each for each in self.estimates if each.effective is not None]
        if not any(each.is_trusted for each in weighted_ones):
            found.append(
                f"fitted Q is all there is: a model, whose errors its interval does not know; the policy takes what "
                f"was logged in {self.agreement:.1%} of the rows"
            )
        return found


@dataclass(frozen=True)
class _Sample:
    """Rows of whole episodes, and what the policy does in them."""

    obs: Tensor
    actions: npt.NDArray[np.int64]
    picked: npt.NDArray[np.int64]
    rewards: npt.NDArray[np.float64]
    propensities: npt.NDArray[np.float64] | None
    episodes: Episodes

    @property
    def agrees(self) -> npt.NDArray[np.bool_]:
        return (self.actions == self.picked).reshape(len(self.actions), -1).all(axis=1)


def evaluate_on_log(
    agent: Wolpertinger,
    log: Transitions,
    *,
    gamma: float | None = None,
    updates: int = UPDATES,
    clusters: int = CLUSTERS,
    seed: int = 0,
) -> LogEvaluation:
    """Estimate the return of the agent's policy from a log.

    :param gamma: of the returns; by default the agent's.
    :param updates: of fitted Q evaluation.
    :param clusters: of action vectors, over which importance weights are marginalised.
    """
    check_kind("agent", agent, Wolpertinger, "an agent")
    check_kind("log", log, Transitions, "Transitions(...)")
    check_number("gamma", gamma, most=1, optional=True)
    check_number("updates", updates, least=1, whole=True)
    check_number("clusters", clusters, least=2, whole=True)
    log.check(agent.actions)
    gamma = agent.gamma if gamma is None else float(gamma)
    sample = _draw(agent, log, seed)
    q, v = _values(agent, sample, fit_q(agent, log, gamma, updates, seed))
    episodes, rewards = sample.episodes, sample.rewards
    found = [mean_return("logged", episodes, rewards, gamma), direct("fitted Q", v[episodes.starts])]
    if sample.propensities is not None:
        ratios = sample.agrees / sample.propensities
        found += [
            weighted("importance sampling", episodes, ratios, rewards, gamma),
            weighted("self-normalised", episodes, ratios, rewards, gamma, normalise=True),
            weighted("doubly robust", episodes, ratios, rewards, gamma, model=(q, v), normalise=True),
        ]
    if not agent.actions.is_numbered:
        ratios = _cluster_ratios(agent, sample, min(clusters, max(2, agent.actions.n // 4)), seed)
        found.append(
            weighted("doubly robust, clusters", episodes, ratios, rewards, gamma, model=(q, v), normalise=True)
        )
    return LogEvaluation(found, len(rewards), float(sample.agrees.mean()), gamma)


def _draw(agent: Wolpertinger, log: Transitions, seed: int) -> _Sample:
    """Whole episodes at random, as many as fit."""
    last = np.flatnonzero(log.ends)
    first = np.concatenate([[0], last[:-1] + 1])
    order = np.random.default_rng(seed).permutation(len(last))
    lengths = (last - first + 1)[order]
    chosen = np.sort(order[: max(1, int((np.cumsum(lengths) <= MOST_ROWS).sum()))])
    lengths = (last - first + 1)[chosen]
    rows = np.concatenate([np.arange(first[each], last[each] + 1) for each in chosen])
    obs = agent._to_obs(np.asarray(log["observation"][rows]))
    picked = []
    for start in range(0, len(rows), STATES_AT_ONCE):
        part = rows[start : start + STATES_AT_ONCE]
        allowed = None if log.allowed is None else log.allowed_in(part)
        picked.append(agent.predict(np.asarray(log["observation"][part]), allowed=allowed)[0])
    return _Sample(
        obs=obs,
        actions=np.asarray(log["action"][rows]).astype(np.int64),
        picked=np.concatenate(picked),
        rewards=np.asarray(log["reward"][rows], np.float64),
        propensities=np.asarray(log["propensity"][rows], np.float64) if log.has_propensities else None,
        episodes=Episodes(np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths),
    )


@torch.no_grad()
def _values(agent: Wolpertinger, sample: _Sample, critic: Critic) -> tuple[npt.NDArray[np.float64], ...]:
    """Q of what was logged and V, the Q of what the policy picks, by row."""
    found: list[list[Tensor]] = [[], []]
    for start in range(0, len(sample.obs), STATES_AT_ONCE):
        part = slice(start, start + STATES_AT_ONCE)
        for values, actions in zip(found, (sample.actions, sample.picked), strict=True):
            vectors = agent.policy.behaviour.embed(torch.as_tensor(actions[part], device=agent.device))
            values.append(critic(sample.obs[part], vectors).mean(dim=0))
    return tuple(torch.cat(values).double().numpy(force=True) for values in found)


def _cluster_ratios(agent: Wolpertinger, sample: _Sample, count: int, seed: int) -> npt.NDArray[np.float64]:
    """Ratios of the chances of clusters (Saito and Joachims, 2022; Saito et al., 2023): weights of a policy that takes
    other actions than the log, but of the same kinds. What the logging policy did is learned from the log.
    """
    vectors = [agent.actions.embed(actions) for actions in (sample.actions, sample.picked)]
    centres = cluster(np.unique(np.concatenate(vectors), axis=0), count, seed)
    taken, wanted = (nearest_centre(part, centres) for part in vectors)
    obs = agent.policy.critic.extract_features(sample.obs, agent.policy.critic.features_extractor).detach()
    chances = cluster_chances(obs.float(), torch.as_tensor(taken, device=obs.device), len(centres), seed)
    return (taken == wanted) / np.maximum(chances, LEAST_CHANCE)


def cluster_chances(states: Tensor, clusters: Tensor, count: int, seed: int) -> npt.NDArray[np.float64]:
    """The chance that the logging policy takes the cluster that it took, of each row, by a small classifier."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        states = (states - states.mean(dim=0)) / states.std(dim=0).clamp(min=1e-6)
        layers = torch.nn.Linear(states.shape[1], HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, count)
        network = torch.nn.Sequential(*layers).to(states.device)
        optimizer = torch.optim.Adam(network.parameters(), RATE)
        for update in range(CLASSIFIER_UPDATES):
            optimizer.param_groups[0]["lr"] = 3 * RATE * (1 - update / CLASSIFIER_UPDATES)
            rows = torch.randint(len(states), (BATCH,), device=states.device)
            loss = torch.nn.functional.cross_entropy(network(states[rows]), clusters[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.no_grad():
            chances = network(states).softmax(dim=1).gather(1, clusters[:, None])[:, 0]
    return chances.double().numpy(force=True)
