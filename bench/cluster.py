"""Scoring of a parquet file with Ray and with Spark, compared with the command line on the same processors.

    cargo xtask bench cluster [ROWS]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

import nuq

#: Training rows, columns, classes, and rows of a row group of the parquet file.
TRAINING, DIM, CLASSES, GROUP = 5000, 512, 10, 8192
CPUS = len(os.sched_getaffinity(0))


def draw(rng, rows, centers, map_):
    """Rows similar to those of `bench/src/data.rs`: clusters in 32 latent dimensions, mapped into `DIM`, with noise. The only difference:
    `bench/src/data.rs` divides the map by √32, and this function does not."""
    y = np.arange(rows) % CLASSES
    latent = centers[y] + 0.7 * rng.normal(size=(rows, 32)).astype(np.float32)
    return (latent @ map_ + 0.3 * (rng.random((rows, DIM), dtype=np.float32) - 0.5)).astype(np.float32), y


def write_queries(path, rows, sample):
    schema = pa.schema([("id", pa.int64()), ("embedding", pa.list_(pa.float32()))])
    with parquet.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for first in range(0, rows, 8 * GROUP):
            count = min(8 * GROUP, rows - first)
            offsets = pa.array(np.arange(count + 1, dtype=np.int32) * DIM)
            vectors = pa.ListArray.from_arrays(offsets, pa.array(sample(count).ravel()))
            writer.write_table(pa.table({"id": np.arange(first, first + count), "embedding": vectors}, schema=schema), row_group_size=GROUP)


class MappedMemory:
    """Measures the resident memory of the mapped model every half second, in MB. `resident` is the largest measured sum over all processes
    except this one. `shared` is the largest such sum if a page that several processes share is counted only once."""

    def __init__(self):
        self.resident, self.shared, self._end = 0.0, 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()

    def _watch(self):
        while not self._end.wait(0.5):
            resident, shared = 0, 0
            for folder in Path("/proc").iterdir():
                if not folder.name.isdecimal() or int(folder.name) == os.getpid():
                    continue
                try:
                    lines = (folder / "smaps").read_text().splitlines()
                except OSError:
                    continue
                is_model = False
                for line in lines:
                    first = line.split(maxsplit=1)[0] if line else ""
                    if not first.endswith(":"):
                        is_model = line.endswith(".nuq")
                    elif is_model and first in ("Rss:", "Pss:"):
                        kilobytes = int(line.split()[1])
                        resident += kilobytes if first == "Rss:" else 0
                        shared += kilobytes if first == "Pss:" else 0
            self.resident, self.shared = max(self.resident, resident / 1000), max(self.shared, shared / 1000)


def timed(name, work):
    start = time.perf_counter()
    with MappedMemory() as memory:
        work()
    return name, time.perf_counter() - start, memory


def totals(path):
    return parquet.read_table(path, columns=["id", "total"]).sort_by("id")["total"].to_numpy()


def main() -> None:
    binary, rows = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    rng = np.random.default_rng(0)
    centers, map_ = rng.normal(size=(CLASSES, 32)).astype(np.float32), rng.normal(size=(32, DIM)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        x, y = draw(rng, TRAINING, centers, map_)
        nuq.NuqClassifier(index="exact").fit(x, y).save("model.nuq")
        write_queries("new.parquet", rows, lambda count: draw(rng, count, centers, map_)[0])
        size = os.path.getsize("model.nuq")
        command = [binary, "score", "--model", "model.nuq", "--embeddings", "new.parquet:embedding", "--id-column", "id"]
        command += ["--out", "cli.parquet", "--threads", str(CPUS)]
        lines = [timed("nuq score", lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))]
        expected = totals("cli.parquet")
        for engine, line in (("Ray", by_ray()), ("Spark", by_spark())):
            if line is not None:
                lines.append(line)
                assert (totals(engine.lower()) == expected).all(), f"the scores of {engine} differ"
        print(f"{rows} rows of {DIM} columns (parquet, {os.path.getsize('new.parquet') / 1e9:.2f} GB), model of {TRAINING} rows ({size / 1e6:.1f} MB), {CPUS} processors")
        print(f"{'':12} {'s':>8} {'rows/s':>9} {'× nuq score':>12} {'mapped model MB, sum':>21} {'counted once':>13}")
        for name, seconds, memory in lines:
            print(f"{name:12} {seconds:8.1f} {rows / seconds:9.0f} {seconds / lines[0][1]:12.2f} {memory.resident:21.1f} {memory.shared:13.1f}")


def by_ray():
    import ray

    # The actors that score reserve all processors. One more processor than the machine has is declared, because the tasks that read and write
    # would otherwise wait forever. These tasks run on the same processors.
    ray.init(num_cpus=CPUS + 1, include_dashboard=False, log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False
    path = str(Path("model.nuq").absolute())

    def work():
        dataset = ray.data.read_parquet(str(Path("new.parquet").absolute()))
        scored = nuq.ray.score(dataset, path, column="embedding", id_column="id", concurrency=CPUS)
        scored.write_parquet(str(Path("ray").absolute()))

    line = timed("Ray", work)
    ray.shutdown()
    return line


def by_spark():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{CPUS}]").config("spark.ui.enabled", "false").config("spark.driver.memory", "3g")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.sql.execution.arrow.maxRecordsPerBatch", str(GROUP))
    try:
        spark = builder.config("spark.sql.files.maxPartitionBytes", "64m").getOrCreate()
    except Exception as error:
        print(f"Spark does not start: {error}", file=sys.stderr)
        return None
    spark.sparkContext.setLogLevel("OFF")

    def work():
        scored = nuq.spark.score(spark.read.parquet("new.parquet"), "model.nuq", column="embedding", id_column="id")
        scored.write.parquet("spark")

    line = timed("Spark", work)
    spark.stop()
    return line


if __name__ == "__main__":
    main()
