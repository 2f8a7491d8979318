"""Speed, as ratios of two things measured side by side in one run.

python -m benchmarks                  all of them, one table
python -m benchmarks.gcivr_epoch      one epoch of GCIVR against the matrix products it cannot avoid
python -m benchmarks.harness          the Lightning loop against a bare loop over the same solver steps
python -m benchmarks.help             `drobench --help` against `import hydra`
python -m benchmarks.constraints      all groups against a loop over groups; a step with sampled constraints
python -m benchmarks.parsing          reading learning-to-rank data against scikit-learn
python -m benchmarks.scaling          DistGCIVR on 1 and 2 processes, and a cost model up to 1024
python -m benchmarks.memory           anonymous memory of a run on 20 million mapped rows
python -m benchmarks.leaderboard      10,000 runs compared against reading their files

Seconds depend on the machine, ratios much less. Every number is the least of five, with one thread; on a busy machine
`taskset -c 0 python -m benchmarks` and a second look help more than further repetitions.
"""
