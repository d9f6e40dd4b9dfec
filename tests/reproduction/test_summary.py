import pytest

from reproduction.claims import CLAIMS
from reproduction.plan import variants
from reproduction.summary import SPEEDS, as_written, is_learned, summarize
from tests.reproduction.given import CLAIM, Given

RATES = {f"speed-cart-pole/k-1-{lookup}": 2.0 for lookup in ("slow", "medium", "fast")} | {
    "speed-cart-pole/k-1-scan": 1.0
}


def test_a_claim_is_under_what_its_verdict_and_its_evidence_make_of_it(tmp_path):
    shares = {"cart-pole/k-1": 0.9, "puddle-world-20/k-1": 0.8}
    given = Given(tmp_path, shares, {**RATES, "speed-recommender/k-131": 15.0, "speed-recommender/k-13138": 1.0})
    names = (
        "cart-pole k = 1",
        "cart-pole optimal",
        "15 times slower",
        "best score 150",
        "compact vectors",
        "only fast helps",
    )
    true, depends, wrong = summarize(tuple(CLAIM[name] for name in names), given, {})
    assert true[2] == ["All 13,138 candidates train about 15 times slower than 1 %. (15 times)"]
    assert [line.rpartition(" - ")[2] for line in depends[2][:3]] == ["holds", "does not hold", SPEEDS]
    assert depends[2][3] == "1 sentences are not decided: compact vectors"
    assert wrong[2] == ["Without puddles the best score on the 50 x 50 map is 150. (153)"]


@pytest.mark.parametrize(
    ("name", "learned"),
    [("lemma", False), ("linear in k", False), ("cart-pole few steps", False), ("progression with k", True)],
)
def test_what_is_learned_is_told_from_speed_and_arithmetic(name, learned):
    assert is_learned(CLAIM[name]) == learned


def test_every_claim_is_in_one_place(tmp_path):
    parts = summarize(CLAIMS, Given(tmp_path), variants())
    assert parts[1][2][-1].startswith(f"{len(CLAIMS) - 1} sentences are not decided")
    assert len(parts[0][2]) + len(parts[2][2]) == 1


def test_runs_as_written_are_counted(tmp_path):
    given = Given(tmp_path, {"cart-pole/k-1": [0.5, 0.5]}, results={"cart-pole/k-5000": []})
    given._found["cart-pole/k-1"][0]["spec"] = {"n_envs": 16, "agent": {}}
    assert as_written(given, variants()).startswith("1 of 2 learning runs are Algorithm 2 as written")
