"""All benchmarks in one table. It reports and does not judge: the exit code is 0 whatever was measured."""

from benchmarks import constraints, gcivr_epoch, harness, help, parsing
from benchmarks.side_by_side import REPEATS, machine, one_thread, table


def main() -> None:
    """Measure everything and print the table."""
    one_thread()
    comparisons = [line for program in (gcivr_epoch, harness, help, constraints, parsing) for line in program.measure()]
    print(table(comparisons))
    print(f"least of {REPEATS}, in turn; {machine()}")


if __name__ == "__main__":
    main()
