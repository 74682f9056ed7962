"""Rows of the matrix: their clauses, how they are run together, and what is printed."""

import json
from dataclasses import dataclass, field

from expect import describe_all

TOKEN = b"EBBC"


@dataclass
class Row:
    """One clause and one test of it.

    `build(fill)` makes the frames: raw bytes or scapy packets for port a, or (port, frame) pairs.
    `fill(n)` is n bytes by which everything that comes of the frames is known again. A row that
    deviates says why, and `instead` is what must happen then.
    """

    clause: str
    rule: str
    sends: str
    build: object
    expects: object
    deviation: str = ""
    instead: object = None
    where: str = "live"
    slow: bool = False
    number: int = 0
    sent: list = field(default_factory=list)
    seen: list = field(default_factory=list)
    observed: str = ""
    verdict: str = ""

    def prepare(self, number):
        """Makes the frames that are sent."""
        self.number = number
        token = self.token()
        made = self.build(lambda count: (token * (count // len(token) + 1))[:count])
        pairs = [item if isinstance(item, tuple) else ("a", item) for item in made]
        self.sent = [(port, bytes(frame)) for port, frame in pairs]
        return self.sent

    def document(self):
        """The document that the clause is from."""
        return " ".join(self.clause.split()[:2])

    def token(self):
        return TOKEN + self.number.to_bytes(4, "big")

    def judge(self, seen):
        """Decides by the frames of a run; only those with the row's token count."""
        token = self.token()
        self.seen = [pair for pair in seen if token in pair[1]]
        self.observed = describe_all(self.seen)
        conforms = self.expects.judge(self.sent, self.seen)
        if self.instead is None:
            self.verdict = "conforms" if conforms else "FAILS"
        elif self.instead.judge(self.sent, self.seen):
            self.verdict = "deviates"
        else:
            self.verdict = "FAILS"
        return self.verdict != "FAILS"

    def fields(self):
        """What is shown of the row."""
        expected = self.expects.says
        if self.instead is not None:
            expected += f"; here {self.instead.says}"
        return {
            "clause": self.clause, "rule": self.rule, "sends": self.sends, "expects": expected,
            "observed": self.observed, "verdict": self.verdict, "reason": self.deviation,
        }


def run_live(rows, send):
    """Runs rows through `send(frames, patient)`; those that fail once more alone and patiently,
    because a busy machine may be late."""
    for slow in (False, True):
        todo = [row for row in rows if row.where == "live" and row.slow == slow]
        seen = send([pair for row in todo for pair in row.sent], slow)
        failed = [row for row in todo if not row.judge(seen)]
        for row in failed:
            row.judge(send(row.sent, True))


def table(rows):
    """The rows for a terminal."""
    lines = []
    for row in rows:
        lines.append(f"{row.verdict:9} {row.clause:24} {row.rule}: {row.sends} -> {row.observed}")
        if row.verdict == "FAILS":
            lines.append(f"{'':9} expected {row.fields()['expects']}")
        if row.verdict == "deviates":
            lines.append(f"{'':9} because {row.deviation}")
    return "\n".join(lines)


def as_json(rows):
    """The rows for programs."""
    return json.dumps([row.fields() for row in rows], indent=1)


HEAD = """# Conformance

**Reference** for router engineers: what the router does with each kind of packet, clause by clause of the standards (RFC
1812, 8200, 4443, 4291), and where it deviates.

Frames built with scapy go in at one
link of a running router and everything that comes out of its three links is compared. `a` is the
sender's link, `b` and `c` lead on; `c` has an MTU of 1300 bytes. Rows marked *replay* run through
`ebb router replay`. Where the router leaves a packet to the kernel, the kernel's answer counts: it
is what a sender sees.

Written by `tests/conformance/run EBB --write-docs`; a test runs the matrix and compares.
"""


def page(rows, observations=True):
    """The matrix as Markdown."""
    def cell(text):
        return text.replace("|", "\\|")

    deviations = [row for row in rows if row.instead is not None]
    lines = [HEAD, f"{len(rows)} rows, {len(deviations)} of them deviations with their reasons.\n"]
    group = None
    for row in rows:
        document = row.document()
        if document != group:
            group = document
            lines += [f"\n## {group}\n", "| clause | rule | sent | expected | observed | verdict |"]
            lines.append("|---|---|---|---|---|---|")
        shown = row.fields()
        where = " (*replay*)" if row.where == "replay" else ""
        observed = shown["observed"] if observations else ""
        verdict = "deviates" if row.instead is not None else "conforms"
        verdict = shown["verdict"] if shown["verdict"] == "FAILS" else verdict
        lines.append("| " + " | ".join(map(cell, [
            row.clause[len(group):].strip(), row.rule + where, row.sends, shown["expects"], observed,
            verdict,
        ])) + " |")
    lines += ["\n## Deviations\n", "| clause | rule | reason |", "|---|---|---|"]
    for row in deviations:
        lines.append(f"| {row.clause} | {cell(row.rule)} | {cell(row.deviation)} |")
    return "\n".join(lines) + "\n"


def without_observations(text):
    """A page's text with the observed column emptied, for comparison."""
    lines = []
    for line in text.splitlines():
        cells = line.split(" | ")
        if len(cells) == 6:
            cells[4] = ""
        lines.append(" | ".join(cells))
    return "\n".join(lines)
