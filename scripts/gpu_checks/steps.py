"""Where a run spends its time: a trace's steps added up by operator."""

import json
from collections import defaultdict

SHOWN = 12


def table(trace):
    """A table of the operators that take most, one step after another and timed by events: what a step
    is launched with counts, which a graph's replay spares."""
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    durations = defaultdict(list)
    for event in events:
        durations[event["args"]["op_type"]].append(event["dur"])
    ordered = sorted(durations.items(), key=lambda item: -sum(item[1]))
    whole = sum(map(sum, durations.values()))
    lines = ["| operator | steps | ms | share | longest, us |", "| --- | --- | --- | --- | --- |"]
    lines += [f"| {name} | {len(each)} | {sum(each) / 1e3:.3f} | {sum(each) / whole:.0%} | "
              f"{max(each):.0f} |" for name, each in ordered[:SHOWN]]
    return "\n".join(["", *lines, f"| all | {len(events)} | {whole / 1e3:.3f} | | |"])
