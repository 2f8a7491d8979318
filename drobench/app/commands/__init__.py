"""The commands of `drobench`, one file per family, each with its part of the parser and what its commands do.

    run         run, rerun
    sweep       sweep
    comparison  leaderboard, report, plot
    runs        show, runs, diff, remove
    export      export
    settings    help
    bundles     pack, verify, merge
    plugins     plugins, new, check
    data        data
    doctor      doctor
    completion  completion

Importing a family must cost nothing, since `drobench --help` imports them all: what a command needs is imported when
it runs.
"""
