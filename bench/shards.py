"""The cost of a search that is split over shards: a simulation at sizes that fit one machine, and a calculation for larger sizes.

    cargo xtask docs shards

One thread searches the shards one after the other. The neighbors of each shard are a table (ids and squared distances); the tables are merged
in the tree of `nuq._scatter`. Times are processor seconds, on which other programs of the machine have little effect. The calculation uses the
measured times. The simulation and the calculation each have a table in docs/scale-out.md.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import nuq
from nuq import _scatter, _sharded

ROWS, DIM, QUERIES, K, CLASSES = 64_000, 512, 1024, 20, 10
SHARDS = (1, 4, 16, 64)
#: The cluster of the calculation: rows, workers, threads of a worker, queries of a batch, bytes per second of a network of 10 Gbit/s.
BILLION, WORKERS, THREADS, BATCH, NETWORK = 10**9, 1000, 16, 8192, 1.25e9
#: Bytes of a neighbor in a table: an id of 4 bytes and a squared distance of 8 bytes.
BYTES = 12
PAGE = Path(__file__).resolve().parent.parent / "docs/scale-out.md"


def draw(rng, rows, centers, map_):
    """Rows similar to those of `bench/src/data.rs`: clusters in 32 latent dimensions, mapped into `DIM`, with noise. The only difference:
    `bench/src/data.rs` divides the map by √32, and this function does not."""
    y = np.arange(rows) % CLASSES
    latent = centers[y] + 0.7 * rng.normal(size=(rows, 32)).astype(np.float32)
    return (latent @ map_ + 0.3 * (rng.random((rows, DIM), dtype=np.float32) - 0.5)).astype(np.float32), y


def timed(work):
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def tree(tables):
    """Merges the tables in a tree. Returns the merged table, the seconds of all merges, the bytes that the busiest node receives, and the
    number of levels."""
    seconds, most, levels = 0.0, 0, 0
    while len(tables) > 1:
        groups = [tables[first : first + _scatter.FAN_IN] for first in range(0, len(tables), _scatter.FAN_IN)]
        most = max(most, *(sum(ids.nbytes + sq.nbytes for ids, sq in group) for group in groups))
        results = [timed(lambda group=group: _scatter.merged(group, K, 1)) for group in groups]
        tables, levels = [table for table, _ in results], levels + 1
        seconds += sum(spent for _, spent in results)
    return tables[0], seconds, most, levels


def simulate():
    """One line per number of shards, with the values of a row of the table that `report` writes."""
    rng = np.random.default_rng(0)
    centers, map_ = rng.normal(size=(CLASSES, 32)).astype(np.float32), rng.normal(size=(32, DIM)).astype(np.float32)
    (x, y), (q, _) = draw(rng, ROWS, centers, map_), draw(rng, QUERIES, centers, map_)
    settings = {"n_neighbors": K, "bandwidth": 1.0, "density": "kde", "density_bandwidth": 1.0, "index": "exact"}
    expected, lines = None, []
    for count in SHARDS:
        with tempfile.TemporaryDirectory() as folder:
            size = ROWS // count
            blocks = [slice(i * size, (i + 1) * size) for i in range(count)]
            parts = [_sharded.write(Path(folder), i, x[rows], y[rows], None, False, 1) for i, rows in enumerate(blocks)]
            _sharded.fit(nuq.NuqClassifier(**settings), Path(folder), parts)
            sharded = _scatter.opened(folder)
            tables, seconds = [], []
            for group in sharded.groups(count):
                shards = _scatter.shards(sharded.request, group)
                # The first search prepares the index. It is not timed, because an actor prepares its index once and then answers many searches.
                shards.search(q[:64], K, False, 1)
                table, spent = timed(lambda shards=shards: shards.search(q, K, False, 1))
                tables.append(table)
                seconds.append(spent)
            sent = sum(ids.nbytes + sq.nbytes for ids, sq in tables)
            (ids, sq), merge, most, levels = tree(tables)
            expected = (ids, sq) if expected is None else expected
            assert (ids == expected[0]).all() and (sq == expected[1]).all(), "the merged neighbors differ from the neighbors of one shard"
            assert sent == BYTES * K * count * QUERIES, "a table does not have the size that the calculation assumes"
            lines.append((count, size, sum(seconds), max(seconds), sent // QUERIES, merge, most, levels))
    return lines


def report(lines) -> str:
    text = [
        f"{QUERIES} queries among {ROWS} rows of {DIM} columns, k = {K}; processor seconds of one thread:",
        "",
        "| shards | rows per shard | all searches, s | slowest shard, s | bytes of all tables per query | merge, s | bytes to the busiest merge per query | levels |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for count, size, total, slowest, sent, merge, most, levels in lines:
        text.append(f"| {count} | {size} | {total:.2f} | {slowest:.3f} | {sent} | {merge:.3f} | {most // QUERIES} | {levels} |")
    return "\n".join(text)


def arithmetic(lines) -> str:
    """The same quantities for the larger cluster. The time per query and row was measured with one shard (first line), and the time per merged
    entry with the largest number of shards (last line)."""
    _, size, total, *_ = lines[0]
    per_row = total / (QUERIES * size)
    count, *_, merge, _, _ = lines[-1]
    per_entry = merge / (QUERIES * count * K)
    rows = BILLION / WORKERS
    search = per_row * rows * BATCH / THREADS
    one = BYTES * K * WORKERS * BATCH
    node = BYTES * K * _scatter.FAN_IN * BATCH
    merged = per_entry * K * _scatter.FAN_IN * BATCH / THREADS
    break_even_workers = search * NETWORK / (BYTES * K * BATCH)
    text = [
        f"A batch of {BATCH} queries, {BILLION:.0e} rows of {DIM} columns on {WORKERS} workers with {THREADS} threads, 10 Gbit/s:",
        "",
        "| step | bytes or operations per machine | seconds |",
        "| --- | --- | --- |",
        f"| send the queries to all workers, in a tree of {_scatter.FAN_IN} | {4 * DIM * BATCH / 1e6:.1f} MB received, {4 * DIM * BATCH * _scatter.FAN_IN / 1e6:.0f} MB sent | {4 * DIM * BATCH * _scatter.FAN_IN / NETWORK:.2f} per level |",
        f"| exact search | {2 * DIM * rows * BATCH / 1e12:.1f} TFLOP, fewer where rows are skipped | {search:.1f} |",
        f"| merge of all tables at one machine | {one / 1e9:.1f} GB received | {one / NETWORK:.1f} |",
        f"| merge in a tree, {_scatter.FAN_IN} tables at each node | {node / 1e6:.0f} MB received | {node / NETWORK + merged:.2f} per level |",
        "",
        # The search keeps its duration when there are more workers, because each worker keeps its number of rows.
        f"With {rows:.0e} rows per worker, the merge at one machine takes longer than the exact search from {break_even_workers:.0f} workers on.",
    ]
    return "\n".join(text)


def main() -> None:
    lines = simulate()
    blocks = {"simulation": report(lines), "arithmetic": arithmetic(lines)}
    page = PAGE.read_text() if len(sys.argv) > 1 and sys.argv[1] == "write" else None
    for name, text in blocks.items():
        print(text + "\n")
        if page is not None:
            begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
            before, rest = page.split(begin)
            page = f"{before}{begin}\n{text}\n\n{end}{rest.split(end)[1]}"
    if page is not None:
        PAGE.write_text(page)


if __name__ == "__main__":
    main()
