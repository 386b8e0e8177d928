"""Requests per second and latencies of `nuq serve`, and of the same model in the Python package behind FastAPI and uvicorn.

    cargo xtask bench serve
    cargo xtask bench serve memory    the memory of `nuq serve` during a million requests
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np

import nuq

ROWS, DIM, CLASSES, SECONDS = 50_000, 512, 10, 10
REQUESTS = 1_000_000

PEER = """
import os
import numpy as np
import nuq
from fastapi import FastAPI

app = FastAPI()
model = nuq.load(os.environ["MODEL"])

@app.post("/score")
def score(body: dict):
    result = model.predict_uncertainty(np.asarray(body["rows"], dtype=np.float32))
    columns = {name: getattr(result, name).tolist() for name in ("label", "probability", "aleatoric", "epistemic", "total")}
    return columns
"""


def draw(rng, rows, centers, map_):
    """The generator of `bench/src/data.rs`: clusters in 32 latent dimensions, mapped into `DIM`, with noise."""
    y = np.arange(rows) % CLASSES
    latent = centers[y] + 0.7 * rng.normal(size=(rows, 32))
    return (latent @ map_ + 0.3 * (rng.random((rows, DIM)) - 0.5)).astype(np.float32), y


def wait(url):
    for _ in range(300):
        try:
            return urllib.request.urlopen(url, timeout=5).read()
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"{url} does not answer")


def resident(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def rows_per_second(model, queries):
    """Prints and returns the rows per second of the library without a server, with all queries in one call."""
    start, calls = time.perf_counter(), 0
    while time.perf_counter() < start + SECONDS:
        model.predict_uncertainty(queries)
        calls += 1
    rate = len(queries) * calls / (time.perf_counter() - start)
    print(f"library, {len(queries)} rows at a time: {rate:.0f} rows/s")
    return rate


def memory(server, load, address):
    """Prints the memory of the server after each tenth of `REQUESTS` requests, which 64 clients send."""
    print("requests  memory")
    for tenth in range(11):
        if tenth:
            words = [load, "load", address, "/v2/models/m/infer", "64", f"{REQUESTS // 10}x", "infer.json"]
            subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
        print(f"{REQUESTS // 10 * tenth:8}  {resident(server):.1f} MiB", flush=True)


def main(binary, load, part=None):
    """`binary` is the path of the program `nuq`, and `load` the path of `nuq-bench`, which contains the load generator. `part` is "memory", or
    None for the comparison with FastAPI and uvicorn."""
    rng = np.random.default_rng(1)
    centers, map_ = rng.normal(size=(CLASSES, 32)), rng.normal(size=(32, DIM)) / 32**0.5
    x, y = draw(rng, ROWS, centers, map_)
    queries, _ = draw(rng, 256, centers, map_)
    model = nuq.NuqClassifier(index="exact").fit(x, y)
    model.save("model.nuq")
    tensor = {"name": "embeddings", "shape": [256, DIM], "datatype": "FP32", "parameters": {"binary_data_size": queries.nbytes}}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    Path("binary.body").write_bytes(head + queries.tobytes())
    Path("one.json").write_text(json.dumps({"rows": queries[:1].tolist()}))
    one = {"name": "embeddings", "shape": [1, DIM], "datatype": "FP32", "data": queries[0].tolist()}
    Path("infer.json").write_text(json.dumps({"inputs": [one]}))

    library_rate = rows_per_second(model, queries) if part is None else None

    def requests(address, path, clients, body_file, *headers):
        words = [load, "load", address, path, str(clients), str(SECONDS), body_file, "content-type: application/json", *headers]
        printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
        return [float(word) for word in printed]

    def report(name, numbers):
        rate, _mean, median, p99 = numbers
        print(f"{name}: {rate:.0f} requests/s, p50 {median:.1f} ms, p99 {p99:.1f} ms")
        return rate, p99

    server = subprocess.Popen([binary, "serve", "--model", "m=model.nuq", "--address", "127.0.0.1:18080", "--log-level", "warn"])
    try:
        wait("http://127.0.0.1:18080/v2/health/ready")
        infer, address = "/v2/models/m/infer", "127.0.0.1:18080"
        if part == "memory":
            return memory(server, load, address)
        length = f"inference-header-content-length: {len(head)}"
        rate, _ = report("nuq serve, 4 clients, 256 rows, binary", requests(address, infer, 4, "binary.body", length))
        print(f"  {256 * rate:.0f} rows/s, {256 * rate / library_rate:.2f} of the library")
        before = resident(server)
        ours, our_p99 = report("nuq serve, 64 clients, 1 row, JSON", requests(address, infer, 64, "infer.json"))
        report("nuq serve, 1 client, 1 row, JSON", requests(address, infer, 1, "infer.json"))
        print(f"  memory {before:.0f} MiB before, {resident(server):.0f} MiB after")
    finally:
        server.terminate()
        server.wait()

    Path("peer.py").write_text(PEER)
    words = [sys.executable, "-m", "uvicorn", "peer:app", "--port", "18081", "--log-level", "warning"]
    peer = subprocess.Popen(words, env={**os.environ, "MODEL": "model.nuq"})
    try:
        wait("http://127.0.0.1:18081/openapi.json")
        theirs, their_p99 = report("FastAPI + uvicorn, 64 clients, 1 row, JSON", requests("127.0.0.1:18081", "/score", 64, "one.json"))
    finally:
        peer.terminate()
        peer.wait()
    print(f"nuq serve answers {ours / theirs:.1f} times as many requests; its p99 is {our_p99 / their_p99:.2f} times the p99 of FastAPI + uvicorn")


if __name__ == "__main__":
    programs = [str(Path(path).resolve()) for path in sys.argv[1:3]]
    with tempfile.TemporaryDirectory(prefix="nuq-serve-") as folder:
        os.chdir(folder)
        main(*programs, *sys.argv[3:])
