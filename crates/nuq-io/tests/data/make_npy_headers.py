"""Writes npy_headers.json: headers of npy files, and what numpy reads from them. Requires numpy.

Each entry has these fields:

- `version`: the npy version;
- `header`: the header;
- `is_variant`: true for a header that a valid file may have. If numpy reads rows from such a file, nuq must read the same rows. If
  `is_variant` is false, nuq may also reject the file;
- `rows`: the values that numpy.load returns for a two-dimensional array of numbers; "other" for an empty array and any other array; null if numpy
  rejects the file.

After the header, every file has the same bytes: the numbers 0 to 11 as f4.
"""
import io
import json
import random
import warnings
from pathlib import Path

import numpy as np

HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), }\n"
VALUES = np.arange(12, dtype="<f4").tobytes()

VARIANTS = [
    HEADER,
    HEADER.replace("'", '"'),
    HEADER.replace(" ", ""),
    HEADER.replace(", }", "}"),
    HEADER.replace("False", "True"),
    HEADER.replace(" ", "\t\n "),
    HEADER.replace("(4, 3)", "(4,3,)"),
    HEADER.replace("(4, 3)", "(4L, 3L)"),
    HEADER.replace("<f4", "=f4"),
    HEADER.replace("<f4", "<i4"),
    "{'shape': (2, 3), 'fortran_order': True, 'descr': '<f8'}" + " " * 40 + "\n",
    HEADER + " " * 9000,
]
#: Values that replace the original value of each key, one at a time.
REPLACEMENTS = {
    "fortran_order": ["1", "0", "'True'", "'False'", "None", "true", "TRUE", "Tru", "Truely", "False_", "()", "(True)", "(True,)", "[True]", "", "not True"],
    "shape": ["[4, 3]", "(4)", "4", "(4, 3", "(4, 3))", "(4.0, 3)", "(4, '3')", "('4', '3')", "(04, 3)", "(4, -3)", "(-1, 3)", "(4,, 3)", "(, 4, 3)", "(4 3)",
              "(4; 3)", "(4, None)", "(4, 3, )", "((4, 3))", "((4, 3),)", "(4, (3))", "{4, 3}", "{4: 3}", "()", "(,)", "(4, 3) 1", "(True, 3)", "(4, 9)", "(0x4, 3)", "(4, 1_0)", "(4, +3)", "(2, 2, 3)", "(12,)"],
    "descr": ["'f4'", "'|f4'", "'xf4'", "'<f+4'", "'<f 4'", "' <f4'", "'<f04'", "'<f3'", "'<f'", "'<'", "''", "'<q4'", "'<i3'", "'<u16'", "'<b2'", "'<O'", "4", "None", "True", "('<f4',)",
              "['<f4']", "[('a', '<f4')]", "('<f4', (3,))", "b'<f4'", "u'<f4'", "'<f4' ''", "'''<f4'''", "'\\x3cf4'", "'<f4", "<f4", "'<M8'", "'<M8[ns]'", "'<c8'", "'<U3'", "'|S3'", "'>f4'", "'<V4'"],
}
ORIGINAL = {"fortran_order": "False", "shape": "(4, 3)", "descr": "'<f4'"}


def mutations():
    for key, values in REPLACEMENTS.items():
        for value in values:
            yield HEADER.replace(ORIGINAL[key], value)
        entry = f"'{key}': {ORIGINAL[key]}, "
        yield HEADER.replace(entry, "")
        yield HEADER.replace(f"'{key}'", f"'{key}s'")
        yield HEADER.replace(f"'{key}'", key)
        yield HEADER.replace(f"'{key}'", f"b'{key}'")
        yield HEADER.replace(entry, entry + entry)
    yield HEADER.replace("}", "'extra': 1}")
    yield HEADER.replace("}", "1: 1}")
    yield HEADER + "x"
    yield "x" + HEADER
    yield HEADER + HEADER
    yield "dict(" + HEADER.strip() + ")"
    yield "[" + HEADER.strip() + "]"
    yield HEADER.replace("{", "").replace("}", "")
    yield "{}"
    yield ""
    yield HEADER + " " * 10000
    yield HEADER.replace("}", "} # comment")
    yield HEADER.replace("descr", "d\u00e9scr")
    rng = random.Random(0)
    characters = "0123459TFLtruefals'\"(){}[],:;.-+_<>=|#\\ \n\0\u00e9xi"
    for at in range(len(HEADER)):
        yield HEADER[:at] + HEADER[at + 1 :]
        yield HEADER[:at] + rng.choice(characters) + HEADER[at:]
        for _ in range(5):
            yield HEADER[:at] + rng.choice(characters) + HEADER[at + 1 :]


def rows_of_numpy(header, version):
    text = header.encode("utf-8")
    length = len(text).to_bytes(2 if version[0] == 1 else 4, "little")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = np.load(io.BytesIO(b"\x93NUMPY" + bytes(version) + length + text + VALUES))
    except Exception:
        return None
    is_numbers = array.ndim == 2 and array.size > 0 and array.dtype.kind in "fiu"
    return [[float(value) for value in row] for row in array] if is_numbers else "other"


cases = [(header, (1, 0), True) for header in VARIANTS] + [(header, (1, 0), False) for header in mutations()]
cases += [(HEADER, (major, 0), True) for major in (2, 3)]
cases += [(HEADER.replace("(4, 3)", "(4L, 3L)"), (2, 0), True), (HEADER.replace("(4, 3)", "(4L, 3L)"), (3, 0), False)]
cases += [(HEADER, version, False) for version in [(0, 0), (1, 1), (2, 1), (4, 0), (147, 0)]]
entries = []
for header, version, is_variant in dict.fromkeys(cases):
    entries.append({"version": version, "header": header, "is_variant": is_variant, "rows": rows_of_numpy(header, version)})
lines = ",\n".join(json.dumps(entry) for entry in entries)
Path(__file__).with_name("npy_headers.json").write_text(f"[\n{lines}\n]\n")
