"""What a run says, alone and beside another: pure functions from a Run to findings, caveats, verdicts and rulings."""

from harness.analysis.compare import Change, Comparison, PassComparison, compare
from harness.analysis.finding import Estimate, Finding, ScopedCaveat
from harness.analysis.frames import Frames, frames_of
from harness.analysis.gate import gate_on_baseline
from harness.analysis.history import gate_on_history, history_lines
from harness.analysis.pairs import METRICS, ArmOf
from harness.analysis.pictures import Picture, Trail, pictures
from harness.analysis.rates import SLO_METRICS, Slo
from harness.analysis.ruling import Check, Gate, Ruling
from harness.analysis.story import Story, tell
from harness.analysis.summary import Summary, summarise, to_json
from harness.analysis.verdict import Verdict
from harness.model.verdict import Word

__all__ = [
    "METRICS",
    "SLO_METRICS",
    "ArmOf",
    "Change",
    "Check",
    "Comparison",
    "Estimate",
    "Finding",
    "Frames",
    "Gate",
    "PassComparison",
    "Picture",
    "Ruling",
    "ScopedCaveat",
    "Slo",
    "Story",
    "Summary",
    "Trail",
    "Verdict",
    "Word",
    "compare",
    "frames_of",
    "gate_on_baseline",
    "gate_on_history",
    "history_lines",
    "pictures",
    "summarise",
    "tell",
    "to_json",
]
