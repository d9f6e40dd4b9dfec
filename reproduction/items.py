"""The paper's figures and tables: what each shows, and which runs it is made of."""

from dataclasses import dataclass

from reproduction.plan import LOOKUPS, PLANS, SPEED_TABLES, speed_key

SPEED_CAPTION = (
    "Median steps per second of training: plain DDPG with 400 and 300 units, batches of 64, one environment. The "
    "threads are in the last table; the recall of an index was not recorded in these cells, nor whether anything else "
    "ran. A scan goes the same way for vectors of any length: in one dimension a plain loop is faster, and ratios to "
    "the scan are too large."
)


@dataclass(frozen=True)
class Panel:
    """One pair of axes: learning curves by their labels."""

    curves: dict[str, str]
    """Label to the key of a variant."""
    x: str = "steps"
    """Or "seconds"."""
    title: str = ""


@dataclass(frozen=True)
class Figure:
    """Learning curves in the paper's layout."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]

    @property
    def needs(self) -> list[str]:
        return [key for panel in self.panels for key in panel.curves.values()]


@dataclass(frozen=True)
class SpeedCells:
    """A table of median steps per second, ours beside the paper's."""

    name: str
    title: str
    caption: str
    task: str

    @property
    def needs(self) -> list[str]:
        table = SPEED_TABLES[self.task]
        cells = dict.fromkeys(speed_key(self.task, k, lookup) for k in table.ks for lookup in table.lookups)
        return [*cells, *(key for k in table.ks if (key := self.scan_key(k)))]

    def scan_key(self, k: int) -> str | None:
        """The variant that scans a table of all vectors, where our set of actions needs no table."""
        scans = self.task != "recommender" and k < SPEED_TABLES[self.task].n
        return f"{speed_key(self.task, k, 'exact')}-scan" if scans else None


@dataclass(frozen=True)
class LemmaPlot:
    """Lemma 1 by its formula, by chance, and beside the candidates of trained critics."""

    name: str
    title: str
    caption: str
    studies: dict[str, str]
    """Label to the key of a learning variant."""

    @property
    def needs(self) -> list[str]:
        return ["lemma/monte-carlo", *self.studies.values()]


Item = Figure | SpeedCells | LemmaPlot


def _by_k(family: str, percents: dict[str, str]) -> dict[str, str]:
    return {label: f"{family}/k-{name}" for label, name in percents.items()}


_SHARES = {"k = 1": "1", "1 %": "1-percent", "5 %": "5-percent", "10 %": "10-percent", "100 %": "100-percent"}
_CART_POLE = {f"k = 1, {lookup}": f"cart-pole/k-1-{lookup}" for lookup in LOOKUPS[1:]}

ITEMS: dict[str, Item] = {
    item.name: item
    for item in (
        Figure(
            "figure-2",
            "Cart-pole with a million actions, against steps",
            "Return for two k with exact lookup. All runs had the same time: fewer steps are slower ones.",
            (Panel({"k = 1": "cart-pole/k-1", "k = 5,000 (0.5 %)": "cart-pole/k-5000"}),),
        ),
        Figure(
            "figure-3",
            "Cart-pole with a million actions, against time",
            "Return for two k and the lookup's settings, on one core each. The table has the recall that each "
            "lookup had.",
            (
                Panel(
                    {"k = 1, exact": "cart-pole/k-1", **_CART_POLE, "k = 5,000, exact": "cart-pole/k-5000"}, "seconds"
                ),
            ),
        ),
        SpeedCells("table-1", "Steps per second, cart-pole", SPEED_CAPTION, "cart-pole"),
        Figure(
            "figure-4",
            "Puddle World by the length of its plans",
            "Return for plans of n moves, 2^n actions, k = 1 and an exact lookup.",
            (Panel({f"n = {n}": f"puddle-world-{n}/k-1" for n in PLANS}),),
        ),
        Figure(
            "figure-5",
            "Puddle World with plans of 20 moves, by k",
            "Return among 2^20 actions with an exact lookup, and what a lookup that promises a recall of 0.7 makes of "
            "k = 1, in three times the seconds.",
            (
                Panel(
                    {
                        "k = 1": "puddle-world-20/k-1",
                        "k = 52,428 (5 %)": "puddle-world-20/k-5-percent",
                        "k = 1, fast": "puddle-world-20/k-1-fast",
                    }
                ),
                Panel(
                    {
                        "k = 1": "puddle-world-20/k-1",
                        "k = 52,428 (5 %)": "puddle-world-20/k-5-percent",
                        "k = 1, fast": "puddle-world-20/k-1-fast",
                    },
                    "seconds",
                ),
            ),
        ),
        SpeedCells("table-2", "Steps per second, Puddle World", SPEED_CAPTION, "puddle-world"),
        Figure(
            "figure-6",
            "Recommender with 835 items, by k",
            "Return for k as a share of the items, exact lookup.",
            (Panel(_by_k("recommender-835", _SHARES)), Panel(_by_k("recommender-835", _SHARES), "seconds")),
        ),
        Figure(
            "figure-7",
            "Recommender with 13,138 items, by k",
            "Return for k as a share of the items, exact lookup. All runs had the same time.",
            (Panel(_by_k("recommender-13138", _SHARES)), Panel(_by_k("recommender-13138", _SHARES), "seconds")),
        ),
        Figure(
            "figure-8",
            "Recommender with 13,138 items, by the lookup's setting",
            "Return at k = 656 (5 %) for an exact lookup and for promised recalls of 0.99, 0.9 and 0.7; those that "
            "the lookups had are in the table.",
            (
                Panel(
                    {
                        "exact": "recommender-13138/k-5-percent",
                        **{lookup: f"recommender-13138/k-5-percent-{lookup}" for lookup in LOOKUPS[1:]},
                    }
                ),
            ),
        ),
        Figure(
            "figure-9",
            "Recommender with 49 items, by the size of their vectors",
            "Return for vectors of 200 and of 20 numbers, exact lookup.",
            tuple(
                Panel(
                    {
                        "k = 1": f"recommender-49/dim-{dim}-k-1",
                        "k = 5 (10 %)": f"recommender-49/dim-{dim}-k-10-percent",
                        "k = 49 (100 %)": f"recommender-49/dim-{dim}-k-100-percent",
                    },
                    title=f"{dim} numbers",
                )
                for dim in (200, 20)
            ),
        ),
        SpeedCells("table-3", "Steps per second, recommender", SPEED_CAPTION, "recommender"),
        Figure(
            "exploration",
            "Guided and uniform exploration",
            "Return at k = 5 % where random actions come mostly from a likely subset, and from all items alike.",
            tuple(
                Panel(
                    {
                        "guided": f"recommender-{items}/k-5-percent",
                        "uniform": f"recommender-{items}/k-5-percent-uniform",
                    },
                    title=f"{items:,} items",
                )
                for items in (835, 13_138)
            ),
        ),
        LemmaPlot(
            "lemma",
            "Lemma 1",
            "Left: the closed form and random draws. The others: its prediction from the distribution of a trained "
            "critic's candidates, and what the best of the k nearest is worth by that critic.",
            {
                "recommender, 835 items": "recommender-835/k-5-percent",
                "recommender, 13,138 items": "recommender-13138/k-5-percent",
                "Puddle World, n = 20": "puddle-world-20/k-1",
            },
        ),
    )
}


def choose_items(names: list[str]) -> list[Item]:
    """Items by name; "all" or no name is all of them."""
    if unknown := [name for name in names if name not in ITEMS and name != "all"]:
        raise ValueError(f"{', '.join(unknown)}: there is no such item; give all, or some of {', '.join(ITEMS)}")
    return list(ITEMS.values()) if not names or "all" in names else [ITEMS[name] for name in ITEMS if name in names]
