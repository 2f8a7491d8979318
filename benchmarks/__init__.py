"""What shows how fast it is, and what makes the tables and pictures of docs/ again.

`python -m benchmarks` measures the first five programs in one table, and `python -m benchmarks --list` names them all.
Run a program with `python -m benchmarks.` and its name, from the root of the repository; `--help` says what it takes.
With `--small` a program ends within seconds, on sizes that show that it runs and nothing else; what only reads the
results of a sweep does so if these are few.

| program | what it shows | where its output is, below docs/ |
|---|---|---|
| speed.gcivr_epoch | an epoch of GCIVR against the matrix products it cannot avoid | speed.md |
| speed.harness | the Lightning loop against a bare loop over the same steps | speed.md |
| speed.help | `drobench --help` against `import hydra` | speed.md |
| speed.constraints | all groups at once against a loop; a step with sampled constraints | speed.md |
| speed.parsing | reading learning-to-rank data against scikit-learn | speed.md |
| speed.startup | commands that need names alone, and whole runs, beside what they must import | speed.md |
| speed.wasserstein | GCIVR against an interior-point method and other packages | speed.md |
| speed.estimators | robust estimators against scikit-learn's plain one | estimators.md |
| speed.leaderboard | comparing 10,000 runs against reading their files | - |
| speed.memory | memory of a run on 20 million mapped rows | scaling.md |
| speed.scaling | DistGCIVR on 1 and 2 processes, a cost model up to 1024 | scaling.md, pictures/scaling.png |
| studies.convergence | passes to an accuracy, from `drobench sweep convergence` | convergence.md |
| studies.second_order | passes and seconds with and without curvature, also on real data | convergence.md |
| studies.never_worse | cases in which a monotone method ends above its start | - |
| studies.table1 | growth of the work, from `drobench sweep table1` | table1.md, pictures/table1.png |
| studies.tuning | the settings chosen by the sweeps tune_noisy_groups and tune_intersectional | reproduction.md |
| studies.figure1 | Figure 1, from `drobench sweep paper_figure1` | reproduction.md, pictures/figure1.png |
| studies.pareto | error against violation by methods' dials, from `drobench sweep pareto` | reproduction.md |
| studies.constrained_quadratic | projection, penalty and sampling of constraints | constrained-quadratic.md |
| studies.published | the leaderboard of `drobench sweep showcase` | leaderboard/leaderboard.md |
| faults | what is promised when something goes wrong, by making it go wrong | reliability.md |
| twins.closeness | how close the twins are to the real data | twins.md |
| twins.fit | the tables behind the twins, fitted to the real data | - |
"""
