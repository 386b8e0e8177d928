"""Makes system calls of a program fail: compiles the library `inject.c`, sets its environment variables and reads its report."""

import ctypes
import errno
import mmap
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

# The kinds of calls, in the order of `inject.c`.
KINDS = ("open", "read", "write", "sync", "rename", "map", "truncate", "unlink", "mkdir", "stat", "lock", "list", "chmod")

# The errors with which a call of a kind can fail. With `short`, the call reads or writes only half of the bytes. With `EINTR`, the program
# must repeat the call. After `short` and after `EINTR`, the program must continue without an error.
ERRORS = {
    "open": ("EMFILE", "EIO", "EACCES", "EINTR"),
    "read": ("EIO", "EINTR", "short"),
    "write": ("ENOSPC", "EIO", "EINTR", "short"),
    "sync": ("EIO", "ENOSPC"),
    "rename": ("EIO", "ENOSPC", "EACCES"),
    "map": ("ENOMEM", "EACCES"),
    "truncate": ("ENOSPC", "EIO"),
    "unlink": ("EIO",),
    "mkdir": ("ENOSPC", "EACCES"),
    "stat": ("EIO", "EACCES"),
    "lock": ("ENOLCK", "EIO"),
    "list": ("EMFILE", "EIO"),
    "chmod": ("EPERM", "EIO"),
}

# Kinds and errors that are also injected as lasting faults, such as those of a full or failing disk: every later call of the kind fails too.
LASTING = {("open", "EMFILE"), ("read", "EIO"), ("write", "ENOSPC"), ("sync", "EIO"), ("stat", "EIO"), ("unlink", "EIO")}

# Errors after which a program must repeat the call, so that its result is the same as without the error.
REPEATED = {"EINTR", "short"}


class Report(ctypes.Structure):
    """`struct report` of inject.c."""

    _fields_ = [
        ("calls", ctypes.c_uint64 * len(KINDS)),
        ("faults", ctypes.c_uint64),
        ("clock_offset", ctypes.c_int64),
        ("path", ctypes.c_char * 4096),
    ]


@dataclass(frozen=True)
class Fault:
    """The call number `number` of a kind fails; with `lasts`, all later ones too. `error` is one of `ERRORS`, or `shrink`: the call
    succeeds, and the file is cut to half of its length."""

    kind: str
    number: int
    error: str
    lasts: bool = False

    def __str__(self):
        return f"{self.kind} {self.number} {self.error}{' and later' if self.lasts else ''}"

    @property
    def is_repeated(self):
        """Whether a program must repeat the call, so that its result is the same as without the fault."""
        return self.error in REPEATED


def faults(calls, quick=False, kinds=KINDS):
    """The faults to inject into a program that makes `calls[kind]` calls of each kind. With `quick`, only a few calls of each kind fail."""
    for kind in kinds:
        count = calls[kind]
        numbers = range(1, count + 1)
        if quick:
            # The first and last calls, and some in between.
            numbers = sorted({n for n in (1, count // 3, count // 2, count - 1, count) if n >= 1})
        for i, number in enumerate(numbers):
            errors = ERRORS[kind]
            for error in errors[i % len(errors) :][:1] if quick else errors:
                yield Fault(kind, number, error)
                if (kind, error) in LASTING:
                    yield Fault(kind, number, error, lasts=True)


class Injector:
    """The compiled library, and the report of the last program that was started with it."""

    def __init__(self, folder: Path):
        self.library = folder / "libinject.so"
        self.report_path = folder / "report"
        source = Path(__file__).parent / "inject.c"
        compiler = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
        if compiler is None:
            raise SystemExit("a C compiler is required: install gcc or clang")
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", self.library, source, "-ldl"], check=True)
        self.report_path.write_bytes(bytes(ctypes.sizeof(Report)))
        with open(self.report_path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 0)
        self.report = Report.from_buffer(self.map)

    def environment(self, below, fault=None, match=""):
        """The environment variables of a program. Its calls on files below the folders `below` whose paths contain `match` are counted, and
        the calls of `fault` fail. The report is reset."""
        ctypes.memset(ctypes.byref(self.report), 0, ctypes.sizeof(Report))
        variables = {
            "LD_PRELOAD": str(self.library),
            "FAULT_BELOW": ":".join(str(folder) for folder in below),
            "FAULT_MATCH": match,
            "FAULT_REPORT": str(self.report_path),
        }
        if fault is not None:
            code = fault.error if fault.error in ("short", "shrink") else str(getattr(errno, fault.error))
            variables |= {"FAULT_KIND": fault.kind, "FAULT_NUMBER": str(fault.number), "FAULT_ERROR": code}
            if fault.lasts:
                variables["FAULT_REPEAT"] = "1"
        return os.environ | variables

    @property
    def calls(self):
        """The numbers of counted calls, by kind."""
        return dict(zip(KINDS, self.report.calls))

    @property
    def has_injected(self):
        """Whether the program made the call into which the fault is injected. The call may have succeeded (`short`, `shrink`)."""
        return self.report.faults > 0

    @property
    def path(self):
        """The path of the first call into which the fault was injected."""
        return self.report.path.decode(errors="replace")
