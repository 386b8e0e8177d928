"""Writes the files of this folder with the libraries whose formats they are: pip install numpy safetensors."""
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

here = Path(__file__).parent
# Numbers that every float type holds, with their place in them: 10 × row + column, halved.
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
np.save(here / "labels-text.npy", np.array(["cat", "über", "", "dog"]))
np.save(here / "labels-bytes.npy", np.array([b"cat", b"dog", b"cat", b"a"]))
np.save(here / "labels-column.npy", np.array([[1], [2], [3], [4]]))
np.savez(here / "stored.npz", x=x.astype("f4"), y=np.array([0, 1, 0, 1]))
np.savez_compressed(here / "packed.npz", x=x.astype("f2"), y=np.array(["a", "b", "a", "b"]))
np.savez(here / "single.npz", x.astype("f8"))
save_file({"x": x.astype("f4"), "half": x.astype("f2"), "y": np.array([0, 1, 0, 1])}, here / "tensors.safetensors")
