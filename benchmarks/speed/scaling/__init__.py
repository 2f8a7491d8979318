"""How DistGCIVR scales: measured on 1 and 2 processes, predicted for up to 1024 by a cost model with four parts.

    seconds of an epoch on p processes =  refresh(m / p)  +  (tau - 1) step(S / p)  +  rounds  x  exchange(p)

    refresh(r)     = r (a + b d)                      rows times a constant and a part that grows with the dimension
    step(r)        = c + r (e + f d)                  the same at two points on gathered rows, and a fixed part
    exchange(p)    = alpha log2(p) + 2 (p - 1) / p beta n       latency of a tree, bandwidth of a ring, n numbers

`a` to `f` are fitted to one process, `alpha` and `beta` to the all-reduce between two. An epoch has `tau = m / S`
steps, so that its calls, 3 m, do not depend on S.

python -m benchmarks.speed.scaling                       measure, fit, predict: a table
python -m benchmarks.speed.scaling --picture FILE.png    and a picture with the measured points on it
python -m benchmarks.speed.scaling --latency 20 --bandwidth 10      predict for a network of 20 us and 10 GB/s
"""
