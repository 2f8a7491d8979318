"""The comparisons of docs/speed.md in one table, or the list of all programs.

    python -m benchmarks [--small]
    python -m benchmarks --list

It reports and does not judge: the exit code is 0 whatever was measured.
"""

import argparse

from benchmarks.programs import programs


def main() -> None:
    """Measure and print the table, or name the programs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="name every program in a line, and measure nothing")
    parser.add_argument("--small", action="store_true", help="sizes for seconds: shows that it runs, not how fast")
    options = parser.parse_args()
    if options.list:
        print(listing())
    else:
        compare(options.small)


def listing() -> str:
    """Return one line for each program."""
    found = programs()
    width = max(len(program.name) for program in found)
    return "\n".join(f"python -m {program.name.ljust(width)}  {program.summary}" for program in found)


def compare(small: bool) -> None:
    """Measure the programs that compare two times and take no settings of their own, and print one table."""
    from benchmarks.speed import constraints, gcivr_epoch, harness, help, parsing
    from benchmarks.speed.side_by_side import machine, one_thread, repeats, table

    one_thread()
    together = (gcivr_epoch, harness, help, constraints, parsing)
    print(table([line for program in together for line in program.measure(small)]))
    print(f"least of {repeats(small)}, in turn; {machine()}")
    print(
        "Measured by themselves: startup, wasserstein, scaling, memory, leaderboard; see `python -m benchmarks --list`."
    )


if __name__ == "__main__":
    main()
