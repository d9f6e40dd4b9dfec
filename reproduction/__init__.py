"""The paper's tables, figures and claims, from runs to a report: `python -m reproduction`."""
