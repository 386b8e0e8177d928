"""Opens files of models and baselines."""

from __future__ import annotations

import os

from . import _arrays, _nuq, _remote, baselines
from ._classifier import NuqClassifier
from ._regressor import NuqRegressor


def load(path: str | os.PathLike[str], device: str = "auto", *, verify: bool = False) -> NuqClassifier | NuqRegressor | baselines.Baseline:
    """Open the file of a model or of a baseline that ``save`` or the command line has written, or the folder of a sharded model,
    whose training rows are in several files (``nuq fit --shards``).

    The file is mapped into memory, and rows are read when they are first used. The parameters of the estimator have the values
    of the fitted model: for example, a bandwidth that leave-one-out selected is a number, and the bandwidths of a plug-in rule are an array. Only
    "adaptive" remains the name of the rule. Parameters that the file does not contain, such as
    ``n_jobs`` and ``random_state``, have their default values; ``set_params`` changes them. ``device`` is the device of the neighbor search, as in
    the estimators.

    Labels are strings, integers or booleans: a file does not contain the data type of the labels that were passed to ``fit``, so bytes are loaded as
    strings, and floats that are whole numbers as integers.

    Small parts of the file are always verified by their checksums, and the rows before their first use. With ``verify=True`` the whole file,
    and the shards of a sharded model, are read and verified now; a damaged file is a ``DamagedFileError`` that names the damaged part.

    ``path`` may be an address in an object store that pyarrow or fsspec can read: a file such as ``s3://bucket/model.nuq``, or the prefix
    under which the files of a sharded model are stored. The files are copied once to the temporary folder of this machine.
    """
    model = _nuq.load(_remote.local(path), device, verify=_arrays.boolean(verify, "verify"))
    if isinstance(model, tuple):
        return baselines._loaded(*model, device)
    estimator = (NuqClassifier if isinstance(model, _nuq.Classifier) else NuqRegressor)._loaded(model)
    estimator.device = device
    return estimator
