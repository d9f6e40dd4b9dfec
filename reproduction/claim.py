"""A sentence of the paper with its criterion."""

from dataclasses import dataclass, replace

from reproduction import checks
from reproduction.evidence import MISSING, OPEN, Evidence, Finding, MissingError


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, where it belongs, and its test."""

    name: str
    item: str
    text: str
    """What the paper says, in our words."""
    criterion: str
    """When we say that it holds."""
    test: checks.Test

    def find(self, evidence: Evidence) -> Finding:
        """The test's finding, or which result it lacks; with a seed missing nothing is decided."""
        evidence.asked.clear()
        try:
            found = self.test(evidence)
        except MissingError as missing:
            return Finding("missing", MISSING, f"no result of {missing}")
        if lacking := {key: evidence.lacking(key) for key in sorted(evidence.asked) if evidence.lacking(key)}:
            seeds = ", ".join(f"{count} of {key}" for key, count in lacking.items())
            return replace(found, verdict=OPEN, note=f"seeds missing: {seeds}")
        return found
