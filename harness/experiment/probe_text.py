"""What a probe found, as lines for a terminal."""

from collections.abc import Iterator, Sequence

from harness.analysis.wording import digits, rate
from harness.experiment.probe_findings import ArmFindings, ProbeFindings
from harness.experiment.raw_valkey import RawPoint
from harness.report.forecast import figure_lines, render_forecast


def probe_text(findings: ProbeFindings, folder: str) -> str:
    """Cold prompts, each arm, the word over all, what a tighter interval costs, and where the rows are."""
    lines = [*_cold(findings), ""]
    for arm in findings.arms:
        lines += [f"arm {arm.measured.arm.name}", *(f"  {line}" for line in _arm(arm)), ""]
    if findings.word is not None:
        lines.append(f"verdict: {findings.word.value}")
    lines += [f"caution: {text}" for text in findings.cautions]
    for arm_name, like in findings.like.items():
        lines.append(f"{arm_name} was not measured: it has {like}'s tier (--arm {arm_name} measures it too)")
    return "\n".join([*lines, findings.tighter, folder])


def raw_lines(points: Sequence[RawPoint]) -> Iterator[str]:
    """Bandwidth against clients and instances, and what more clients bring."""
    for point in points:
        spread = point.bytes_per_s
        interval = "" if spread.low is None or spread.high is None else f"  [{rate(spread.low)}, {rate(spread.high)}]"
        each = f"  ({', '.join(rate(one) for one in point.each_bytes_per_s)})" if point.instances > 1 else ""
        clients = f"{_many(point.instances, 'instance')}, {_many(point.clients, 'client')} each"
        yield f"{clients}: {rate(spread.value)}{interval}{each}"
    for instances in dict.fromkeys(point.instances for point in points):
        own = [point for point in points if point.instances == instances]
        if len(own) > 1:
            gain = own[-1].bytes_per_s.value / own[0].bytes_per_s.value - 1
            yield f"{_many(instances, 'instance')}, {own[0].clients} to {own[-1].clients} clients: {gain:+.0%}"


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number > 1)}"


def _cold(findings: ProbeFindings) -> list[str]:
    line = findings.prefill
    lengths = dict.fromkeys(int(tokens) for tokens in line.tokens)
    shown = ", ".join(f"{tokens:,} tokens {digits(line.at(tokens) * 1e3)} ms" for tokens in lengths)
    shape = "with a quadratic term" if line.is_quadratic else "a straight line"
    stored = ", and LMCache stored them, which R has in it" if findings.stores else ""
    return [f"cold prompts: {shown} ({shape}, residuals {line.residual_share:.1%}{stored})"]


def _arm(arm: ArmFindings) -> Iterator[str]:
    shown = ", ".join(f"{tokens:,} tokens {digits(seconds * 1e3)} ms" for tokens, seconds in arm.load_s.items())
    yield f"hits: {shown}"
    if arm.measured.arm.attach is not None and arm.measured.arm.valkey is None:
        yield "of LMCache's host memory or of a remote tier, which nobody tells: no Valkey was named (--valkey-url)"
    if arm.size is not None:
        yield arm.size.text()
    yield from raw_lines(arm.measured.raw)
    if not arm.measured.line.terms[1]:
        yield "longer hits do not take longer here: the tier's bandwidth is not what a hit waits for"
    if arm.verdict is not None:
        yield from render_forecast(arm.verdict, arm.figures).splitlines()
    else:
        yield "s is not known, and no bytes were counted: no verdict (--kv-bytes 48.4KB)"
        yield from figure_lines(arm.figures)
