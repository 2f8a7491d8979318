"""What a scenario says when it is over."""

from dataclasses import dataclass, field


@dataclass
class Outcome:
    """How many cases were tried, and each one that broke a promise, in words."""

    cases: int = 0
    findings: list[str] = field(default_factory=list)
    note: str = ""
    """What a reader of the table should know, such as why a part was left out."""

    def expect(self, holds: bool, finding: str) -> None:
        """Note a finding unless something holds."""
        if not holds:
            self.findings.append(finding)

    def add(self, other: "Outcome") -> None:
        """Take over the cases and findings of a part."""
        self.cases += other.cases
        self.findings += other.findings
        self.note = "; ".join(note for note in (self.note, other.note) if note)
