"""What the paper says of cart-pole and Puddle World."""

from reproduction import checks
from reproduction.claim import Claim
from reproduction.evidence import HOLDS
from reproduction.guards import good, only_if, recalled

CONTROL_CLAIMS = (
    Claim(
        "cart-pole k = 1",
        "figure-2",
        "On cart-pole with a million actions the agent converges to a good policy at k = 1.",
        "at least 80 % of the reference controller's return",
        checks.share("cart-pole/k-1", checks.GOOD),
    ),
    Claim(
        "cart-pole optimal",
        "figure-2",
        "On cart-pole the agent finds optimal policies.",
        "at least 95 % of the reference controller's return",
        checks.share("cart-pole/k-1", checks.NEAR_OPTIMAL),
    ),
    Claim(
        "cart-pole few steps",
        "figure-2",
        "In the time of k = 1, k = 0.5 % makes only a small part of its steps.",
        "at most a tenth of the steps",
        checks.few_steps,
    ),
    Claim(
        "cart-pole slow",
        "figure-3",
        "k = 1 converges with the slow lookup too.",
        "at least 80 % of the reference controller's return, at the recall it promises",
        only_if(checks.share("cart-pole/k-1-slow", checks.GOOD), recalled("cart-pole/k-1-slow")),
    ),
    Claim(
        "cart-pole medium",
        "figure-3",
        "k = 1 converges with the medium lookup too.",
        "at least 80 % of the reference controller's return, at the recall it promises",
        only_if(checks.share("cart-pole/k-1-medium", checks.GOOD), recalled("cart-pole/k-1-medium")),
    ),
    Claim(
        "cart-pole k = 0.5 %",
        "figure-3",
        "In the same time 0.5 % of the actions as candidates does not get far.",
        "at most half of the return of k = 1 after the same seconds",
        checks.slow_at_5000,
    ),
    Claim(
        "cart-pole fast",
        "figure-3",
        "The film's policy: k = 1 with the fastest lookup is good too.",
        "at least 80 % of the reference controller's return, at the recall it promises",
        only_if(checks.share("cart-pole/k-1-fast", checks.GOOD), recalled("cart-pole/k-1-fast")),
    ),
    Claim(
        "lookup at k = 5,000",
        "table-1",
        "At k = 5,000 the lookup's setting makes no difference to the speed.",
        "each setting within 1.25 times of a scan",
        checks.lookup_matters("cart-pole", 5_000, ("slow", "medium", "fast")),
    ),
    Claim(
        "all time into Q",
        "table-1",
        "At k = 5,000 the time goes into evaluating Q.",
        "at least 90 % of lookup and re-ranking",
        checks.time_goes_into_q,
    ),
    Claim(
        "only fast helps",
        "table-1",
        "In one dimension an approximate lookup is slower than a scan, unless it is the fast one.",
        "slow and medium below a scan at k = 1, fast above",
        checks.only_fast_helps,
    ),
    Claim(
        "n = 1 is unstable",
        "figure-4",
        "With single moves (n = 1) a stable policy is hard to find in Puddle World.",
        "standard deviation over the second half of a run at least 10 points of the optimum, while "
        "n = 20 reaches 80 % of it",
        only_if(checks.unstable_at_1, good("puddle-world-20/k-1", checks.GOOD), verdicts=(HOLDS,)),
    ),
    Claim(
        "longer plans are better",
        "figure-4",
        "Policies get significantly better as plans get longer.",
        "n = 20 above n = 1",
        checks.longer_is_better,
    ),
    Claim(
        "longer plans are faster",
        "figure-4",
        "The agent learns faster with longer plans.",
        "steps until three evaluations in a row reach 80 % of the optimum: more at n = 1 than at n = 20",
        checks.longer_is_faster,
    ),
    Claim(
        "best score 150",
        "figure-4",
        "Without puddles the best score on the 50 x 50 map is 150.",
        "by dynamic programming",
        checks.best_score,
    ),
    Claim(
        "near optimal at k = 1",
        "figure-5",
        "Among 2^20 plans k = 1 finds a near-optimal policy: no re-ranking.",
        "at least 95 % of the exact optimum",
        checks.share("puddle-world-20/k-1", checks.NEAR_OPTIMAL),
    ),
    Claim(
        "the lossiest lookup",
        "figure-5",
        "Even the lossiest lookup without re-ranking converges to an optimal policy there.",
        "at least 95 % of the exact optimum at a recall of 0.7",
        only_if(checks.share("puddle-world-20/k-1-fast", checks.NEAR_OPTIMAL), recalled("puddle-world-20/k-1-fast")),
    ),
    Claim(
        "all plans too slow",
        "figure-5",
        "With all 2^20 plans as candidates training does not reach its first evaluation.",
        "at most ten updates in the time of a run, at the speed of plain DDPG",
        checks.all_too_slow,
    ),
    Claim(
        "1,250 times",
        "table-2",
        "Equal performance up to 1,250 times as fast, k = 1 against all plans.",
        "at least 1,250 times the steps per second, and k = 1 near optimal",
        checks.speed_up,
    ),
    Claim(
        "lookup in more dimensions",
        "table-2",
        "With more dimensions than one, approximate lookups do pay at k = 1.",
        "medium and fast more than 1.25 times as fast as a scan among 2^20 plans",
        checks.helps_in_more_dimensions,
    ),
)
