"""Advice on k as a table, as sentences and as a plot, from advise.json only."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter
from rich import box
from rich.table import Table

from wolpertinger.runs.advise import MARGIN, SLOWDOWN, WORTH

CLEAR = 0.5  # rank correlation from which on an order is one


def read_advice(folder: Path) -> dict[str, Any]:
    """The advice in a run folder."""
    return json.loads((folder / "advise.json").read_text())


def table(advice: Mapping[str, Any]) -> Table:
    """Every k: the best candidate's value by the lemma and by the critic, what it costs, what it returns."""
    options = ", ".join(f"{name} {value}" for name, value in advice["env"].items())
    shown = Table(title=f"{advice['task']}: {options}", caption=_caption(advice["study"]), box=box.SIMPLE_HEAD)
    for heading in ("k", "of A", "Lemma 1", "critic", "steps/s", "return"):
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    for row in advice["rows"]:
        speed = "" if row["steps_per_second"] is None else f"{row['steps_per_second']:,.0f}"
        values = f"{row['predicted']:.3f}", f"{row['measured']:.3f}"
        cells = f"{row['k']:,}", _share(row["k"], advice["actions"]), *values, speed, _return(row)
        shown.add_row(*cells, _marks(row["k"], advice), style="green" if row["k"] == advice["k"] else None)
    return shown


def _caption(study: Mapping[str, Any]) -> str:
    return (
        "Lemma 1, critic: mean value of the best of the k nearest actions, predicted and as the critic has it, in "
        f"{study['states']} visited states ({study['distinct']} different). steps/s: of training, predicted. return: "
        f"of this agent acting with k. The fit: p {study['p']:.3f}, b {study['b']:.3g}, c {study['c']:.3g}, centre "
        f"{study['centre']:.4g}; the proto-action is worth {study['proto_excess']:+.3g} beside the centre."
    )


def _share(k: int, n: int) -> str:
    share = k / n  # true division of whole numbers: right for 2**100 too
    return f"{share:.1%}" if share >= 0.001 else ""


def _return(row: Mapping[str, Any]) -> str:
    if row["score"] is None:
        return ""
    return f"{row['score']:.3f}" + ("" if row["half_width"] is None else f" ± {row['half_width']:.3f}")


def _marks(k: int, advice: Mapping[str, Any]) -> str:
    marks = {"advised": advice["k"], "own": advice["trained_k"]}
    if advice["check"] is not None:
        marks["best"] = advice["check"]["best_k"]
    return ", ".join(name for name, marked in marks.items() if marked == k)


def sentences(advice: Mapping[str, Any]) -> list[str]:
    """The advice, what the critic's own values say, and whether the returns agree."""
    return [_advice(advice), _by_the_critic(advice), *_checked(advice["check"]), *advice["notes"]]


def _advice(advice: Mapping[str, Any]) -> str:
    rows = advice["rows"]
    ours = next(row for row in rows if row["k"] == advice["k"])
    gain = rows[-1]["predicted"] - rows[0]["predicted"]
    missing = rows[-1]["predicted"] - ours["predicted"]
    what = "choosing" if ours["steps_per_second"] is None else "a training step"
    takes = f"{what} takes {ours['seconds'] / rows[0]['seconds']:.1f} times as long as with k = 1"
    if advice["margin"] >= gain:
        why = f"by Lemma 1 all candidates together gain {gain:.3g}, less than {WORTH:.0%} of the value"
    elif missing <= advice["margin"]:
        why = f"by Lemma 1 the smallest to leave at most {MARGIN:.0%} of what candidates can gain; {takes}"
    else:
        beyond = f"by Lemma 1 {missing / gain:.0%} of the gain lies beyond it"
        why = f"{takes}, and over {SLOWDOWN} times with more; {beyond}"
    return f"Train with k = {ours['k']:,}: {why}."


def _by_the_critic(advice: Mapping[str, Any]) -> str:
    found = f"By the critic's own values the same rule gives k = {advice['critic_k']:,}"
    if advice["critic_k"] < advice["k"]:
        return (
            f"{found}: the trained actor points at good actions already, while in the lemma the nearest actions are no "
            "better than those further away."
        )
    if advice["critic_k"] > advice["k"]:
        return f"{found}: it values some far actions highly, rightly or not."
    return f"{found}, too."


def _checked(check: Mapping[str, Any] | None) -> list[str]:
    if check is None:
        return ["Returns were not measured: nothing checks the advice."]
    found = f"Check: this agent returns {check['score']:.3f} when it acts with k = {check['k']:,}"
    if check["share"] is None:
        return [f"{found}; at no k is it better than random actions, and the advice means nothing."]
    verdict = "holds" if check["holds"] else "does not hold"
    others = f"It would for {check['holding']} of the {check['tried']} k measured."
    share = f"{check['share']:.1%} of its best ({check['best_score']:.3f}, k = {check['best_k']:,})"
    order = _order(check["rank_correlation"])
    return [f"{found}, {share}, counted from random actions: the advice {verdict}. {others} {order}"]


def _order(correlation: float | None) -> str:
    if correlation is None:
        return "The return is the same at every k."
    agrees = "rises" if correlation > CLEAR else "falls" if correlation < -CLEAR else "neither rises nor falls clearly"
    return f"The return {agrees} with the predicted value (rank correlation {correlation:+.2f})."


def plot_advice(folder: Path) -> Path:
    """Draw the advice in a run folder into advise.png: values and returns against k, and below them what k costs."""
    advice = read_advice(folder)
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(7, 6), layout="constrained", sharex=True, height_ratios=(3, 2))
    handles = [*_draw_values(upper, advice), *_draw_cost(lower, advice)]
    for panel in (upper, lower):
        panel.axvline(advice["k"], color="black", linestyle=":", linewidth=1)
        panel.grid(alpha=0.3)
    upper.set_title(f"{advice['task']}, {advice['actions']:,} actions: k = {advice['k']:,} advised", fontsize=10)
    lower.set(xscale="log", xlabel="k")
    lower.xaxis.set_major_formatter("{x:,.0f}")
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    path = folder / "advise.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def _draw_values(panel: Axes, advice: Mapping[str, Any]) -> list[Line2D]:
    rows = advice["rows"]
    ks = [row["k"] for row in rows]
    lines = panel.plot(ks, [row["predicted"] for row in rows], "C0.--", label="best candidate by Lemma 1")
    lines += panel.plot(ks, [row["measured"] for row in rows], "C0.-", label="best candidate by the critic")
    panel.set_ylabel("value", color="C0")
    scored = [row for row in rows if row["score"] is not None]
    if scored:
        twin = panel.twinx()
        lines += twin.plot(
            [row["k"] for row in scored],
            [row["score"] for row in scored],
            "C1o-",
            label="return (axis from random actions up)",
        )
        bars = [(row["k"], row["score"], row["half_width"]) for row in scored if row["half_width"] is not None]
        for k, score, half_width in bars:
            twin.errorbar(k, score, half_width, color="C1", capsize=2)
        twin.set_ylabel("return of the agent at this k", color="C1")
        low, high = advice["baselines"]["random"], advice["check"]["best_score"]
        if high > low:  # from random actions up, or small differences look large
            top = max(score + half_width for _, score, half_width in bars) if bars else high
            twin.set_ylim(min(low, *(row["score"] for row in scored)), top + (high - low) / 10)
    return lines


def _draw_cost(panel: Axes, advice: Mapping[str, Any]) -> list[Line2D]:
    rows = advice["rows"]
    known = rows[0]["steps_per_second"] is not None
    cost = [row["steps_per_second"] if known else row["seconds"] for row in rows]
    what = "training steps per second" if known else "seconds of choosing"
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter("{x:,g}")
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.set_ylabel(what)
    return panel.plot([row["k"] for row in rows], cost, "C2.-", label=what)
