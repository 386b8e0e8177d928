"""Writes the arrays and parquet files of this folder with the reference libraries: pip install numpy safetensors
pandas pyarrow."""
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import save_file

here = Path(__file__).parent
# (10 × row + column) / 2: exact in every float type, and different in every cell.
x = (np.arange(4)[:, None] * 10 + np.arange(3)) / 2
for name, kind in [("f16", "<f2"), ("f32", "<f4"), ("f64", "<f8")]:
    np.save(here / f"rows-{name}.npy", x.astype(kind))
np.save(here / "rows-fortran.npy", np.asfortranarray(x.astype("f4")))
np.save(here / "rows-int16.npy", (2 * x).astype("i2"))
np.save(here / "rows-big-endian.npy", x.astype(">f4"))
np.save(here / "rows-one-dimension.npy", x[0])
np.save(here / "rows-nan.npy", np.where(x == 10.5, np.nan, x).astype("f4"))
np.save(here / "rows-objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
np.save(here / "labels-int.npy", np.array([3, -1, 3, 2**40]))
np.save(here / "labels-bool.npy", np.array([True, False, True, True]))
np.save(here / "labels-float.npy", np.array([1.0, 2.0, 1.0, 0.0]))
np.save(here / "labels-half.npy", np.array([1.0, 2.5, 1.0, 0.0]))
np.save(here / "labels-text.npy", np.array(["cat", "über", "eel", "dog"]))
np.save(here / "labels-bytes.npy", np.array([b"cat", b"dog", b"cat", b"a"]))
np.save(here / "labels-column.npy", np.array([[1], [2], [3], [4]]))
np.savez(here / "stored.npz", x=x.astype("f4"), y=np.array([0, 1, 0, 1]))
np.savez_compressed(here / "packed.npz", x=x.astype("f2"), y=np.array(["a", "b", "a", "b"]))
np.savez(here / "single.npz", x.astype("f8"))
save_file({"x": x.astype("f4"), "half": x.astype("f2"), "y": np.array([0, 1, 0, 1])}, here / "tensors.safetensors")
# Two ensemble members, four rows, three classes: the values above plus 100 × member.
members = np.stack([x, x + 100])
for name, kind in [("f16", "<f2"), ("f32", "<f4"), ("f64", "<f8")]:
    np.save(here / f"members-{name}.npy", members.astype(kind))
np.save(here / "members-fortran.npy", np.asfortranarray(members.astype("f4")))
np.save(here / "members-nan.npy", np.where(members == 110.5, np.nan, members).astype("f4"))
np.savez(here / "members-stored.npz", m=members.astype("f4"), fortran=np.asfortranarray(members))
np.savez_compressed(here / "members-packed.npz", m=members.astype("f2"), fortran=np.asfortranarray(members))
save_file({"m": members.astype("f4"), "half": members.astype("f2"), "x": x.astype("f4")}, here / "members.safetensors")

# The parquet files `list` and `fixed` have row groups of one row each, and page checksums.
rows, flat = [list(row) for row in x], {f"c{j}": x[:, j].astype("f4") for j in range(3)}
labels = {"int": pa.array([3, -1, 3, 2**40]), "text": pa.array(["cat", "über", "eel", "dog"])}
kinds = {
    "list": pa.list_(pa.float32()),
    "large": pa.large_list(pa.float64()),
    "fixed": pa.list_(pa.float16(), 3),
    "integers": pa.list_(pa.int16()),
}
columns = {name: pa.array([np.array(row, kind.value_type.to_pandas_dtype()) for row in rows], kind) for name, kind in kinds.items()}
for name in ["list", "fixed"]:
    table = pa.table({name: columns[name], "weight": pa.array([1.0, 2.5, 1.0, 0.0])} | labels)
    compression = "zstd" if name == "list" else "snappy"
    pq.write_table(table, here / f"{name}.parquet", row_group_size=1, compression=compression, write_page_checksum=True)
several = columns | labels | {
    "dictionary": labels["text"].dictionary_encode(),
    "bool": pa.array([True, False, True, True]),
    "missing": pa.array([1, None, 2, 3]),
    "lists_missing": pa.array([[1.0, 2.0], None, [3.0, None], [4.0, 5.0]], pa.list_(pa.float32())),
    "ragged": pa.array([[1.0], [2.0, 3.0], [], [4.0]], pa.list_(pa.float32())),
    "large_number": pa.array([[1.0], [1e39], [2.0], [3.0]], pa.list_(pa.float64())),
    "float": pa.array([1.0, 2.5, 1.0, 0.0]),
}
pq.write_table(pa.table(several), here / "several.parquet", compression="gzip", row_group_size=3)
frame = pd.DataFrame(flat | {"class": ["a", "b", "a", "b"], "target": [1.0, 2.0, 3.0, 4.0]}, index=[7, 5, 3, 1])
frame["class"] = frame["class"].astype("category")
frame.to_parquet(here / "flat.parquet")
