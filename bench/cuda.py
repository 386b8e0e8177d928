"""Searches on a GPU, compared with PyTorch on the same arrays.

Usage: bench/cuda.py PROGRAM [ROWS]. PROGRAM is the compiled example `speed` of the crate nuq-cuda.

The example writes its arrays and neighbors to a temporary folder, and PyTorch reads them. Without PyTorch only nuq is measured.
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DIM, K, CHUNK = 2048, 20, 2048


def neighbors(torch, x, norms, queries, tf32):
    """Ids of the K nearest rows of each query, computed by products and topk in chunks, and the seconds of the fastest of three runs."""
    torch.backends.cuda.matmul.allow_tf32 = tf32
    best = float("inf")
    for _ in range(3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        found = []
        for first in range(0, len(queries), CHUNK):
            scores = torch.addmm(norms, queries[first : first + CHUNK].cuda(), x.T, alpha=-2)
            found.append(scores.topk(K, largest=False).indices.cpu())
        best = min(best, time.perf_counter() - start)
    return torch.cat(found).numpy(), best


def torch_times(torch, numpy, folder, name):
    """Seconds and recall of f32 and of TF32."""
    x = torch.from_numpy(numpy.fromfile(folder / f"{name}-rows.f32", dtype=numpy.float32).reshape(-1, DIM)).cuda()
    queries = torch.from_numpy(numpy.fromfile(folder / f"{name}-queries.f32", dtype=numpy.float32).reshape(-1, DIM))
    ids = numpy.fromfile(folder / f"{name}-ids.u32", dtype=numpy.uint32).reshape(-1, K)
    norms = torch.cat([part.square().sum(1) for part in x.split(1 << 16)])
    cells = []
    for tf32 in (False, True):
        found, seconds = neighbors(torch, x, norms, queries, tf32)
        sampled = range(0, len(ids), max(1, len(ids) // 2000))
        recall = numpy.mean([len(numpy.intersect1d(found[i], ids[i])) / K for i in sampled])
        cells += [f"{seconds:.2f}", f"{recall:.4f}"]
    return cells


def main():
    program, rows = sys.argv[1], sys.argv[2:]
    try:
        import numpy
        import torch
    except ImportError:
        torch = numpy = None
    lines = []
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        for case in ("noise", "clusters", "left-out", "small", "fit"):
            store = ["--store", folder] if torch and case in ("noise", "clusters") else []
            size = ["--rows", *rows] if rows else []
            text = subprocess.run([program, case, *store, *size], check=True, capture_output=True, text=True).stdout
            if not lines:
                device = text.splitlines()[0].split(",")[0]
                lines.append(f"Exact search on {device}, k = {K}, best of 3 runs; leave-one-out and fit: one run")
                lines.append(f"{'':62}{'nuq s':>7}{'memory':>8}{'torch f32 s':>13}{'recall':>8}{'torch TF32 s':>14}{'recall':>8}")
            title = re.search(r"^title: (.*)$", text, re.M).group(1)
            seconds = min(float(value) for value in re.findall(r"^seconds: (.*)$", text, re.M))
            peak = re.search(r"^memory: (.*)$", text, re.M)
            cells = torch_times(torch, numpy, Path(folder), case) if store else []
            lines.append(f"{title:62}{seconds:7.2f}{peak.group(1) if peak else '':>8}" + "".join(f"{c:>{w}}" for c, w in zip(cells, (13, 8, 14, 8))))
            for path in Path(folder).iterdir():
                path.unlink()
    print("\n".join(lines))


if __name__ == "__main__":
    main()
