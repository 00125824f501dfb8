"""What a run says: pure functions from a Run to findings, caveats and a verdict."""

from harness.analysis.finding import Estimate, Finding, ScopedCaveat
from harness.analysis.pictures import Picture, Trail, pictures
from harness.analysis.summary import Summary, summarise, to_json
from harness.analysis.verdict import Verdict
from harness.model.verdict import Word

__all__ = [
    "Estimate",
    "Finding",
    "Picture",
    "ScopedCaveat",
    "Summary",
    "Trail",
    "Verdict",
    "Word",
    "pictures",
    "summarise",
    "to_json",
]
