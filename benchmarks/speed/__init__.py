"""How fast it is: ratios of two things measured side by side in one run, and what grows with the size of a problem.

Seconds depend on the machine, ratios much less. Numbers are the least of five, with one thread, where a program does
not say otherwise; on a busy machine `taskset -c 0 python -m benchmarks` and a second look help more than further
repetitions. Nothing here judges: a goal that is missed is printed as such, and the exit code is 0.
"""
