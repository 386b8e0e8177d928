"""Checks the container file and the KServe runtime of `examples/serving` with the program itself.

Usage: python examples.py NUQ, where NUQ is the binary. Options and variables must exist, the configuration must be valid, and the probes
must answer on a server that is started with these options.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import numpy as np
import yaml

ROOT = Path(__file__).resolve().parents[3]
SERVING = ROOT / "examples/serving"
KEYS = {"NUQ_READ_KEY": "0123456789abcdef-read", "NUQ_WRITE_KEY": "0123456789abcdef-write"}


def instructions(path):
    """The instructions of a container file: name and text."""
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [line.split(maxsplit=1) for line in "\n".join(lines).replace("\\\n", " ").splitlines()]


def check_container(nuq):
    """Checks that the paths and packages of the container file exist. Returns its environment variables."""
    entries = instructions(SERVING / "Containerfile")
    names = {name for name, _ in entries}
    assert names <= {"FROM", "RUN", "WORKDIR", "COPY", "ENV", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT"}, names
    assert sum(name == "FROM" for name, _ in entries) == 2
    [build] = [text for name, text in entries if name == "RUN" and text.startswith("cargo ")]
    words = shlex.split(build)
    package, feature = (words[words.index(name) + 1] for name in ("--package", "--features"))
    assert words[1] == "build" and "--locked" in words and (ROOT / "Cargo.lock").exists()
    manifest = (ROOT / "crates" / package / "Cargo.toml").read_text()
    assert re.search(f"^{feature} = ", manifest.split("[features]")[1], re.MULTILINE)
    binary = re.search('^name = "(.*)"', manifest.split("[[bin]]")[1], re.MULTILINE)[1]
    # The copied path consists of the build folder, `target`, the profile and the name of the binary.
    [folder] = [text for name, text in entries if name == "WORKDIR"]
    [copied] = [text.split() for name, text in entries if name == "COPY" and text.startswith("--from")]
    profile = "release" if "--release" in words else "debug"
    assert copied[1] == f"{folder}/target/{profile}/{binary}", copied
    [entry] = [json.loads(text) for name, text in entries if name == "ENTRYPOINT"]
    assert entry == [copied[2], "serve"], entry
    [port] = [text for name, text in entries if name == "EXPOSE"]
    variables = dict(word.split("=", 1) for name, text in entries if name == "ENV" for word in shlex.split(text))
    assert variables["NUQ_ADDRESS"].endswith(f":{port}"), variables
    # The build does not copy the results of former builds.
    assert "target" in (ROOT / ".dockerignore").read_text().split()
    in_comments = re.findall(r"-e (NUQ_\w+)=", (SERVING / "Containerfile").read_text())
    help_text = subprocess.run([nuq, "serve", "--help"], check=True, capture_output=True, text=True).stdout
    for name in [*variables, *in_comments]:
        assert name in help_text, f"{name} is not a variable of nuq serve"
    return variables


def check_runtime():
    """Checks the fields of the KServe runtime that the server depends on. Returns its container and the name of the service."""
    runtime, service = yaml.safe_load_all((SERVING / "kserve.yaml").read_text())
    assert runtime["kind"] == "ServingRuntime" and runtime["apiVersion"] == "serving.kserve.io/v1alpha1"
    assert service["kind"] == "InferenceService" and service["apiVersion"] == "serving.kserve.io/v1beta1"
    model = service["spec"]["predictor"]["model"]
    formats = runtime["spec"]["supportedModelFormats"]
    assert model["runtime"] == runtime["metadata"]["name"]
    assert model["modelFormat"]["name"] in {entry["name"] for entry in formats}
    assert model["protocolVersion"] in runtime["spec"]["protocolVersions"]
    [container] = runtime["spec"]["containers"]
    assert container["name"] == "kserve-container"
    assert {entry["name"] for entry in container["env"]} == set(KEYS)
    ports = {entry["containerPort"] for entry in container["ports"]}
    address = next(word for word in container["args"] if word.startswith("--address="))
    assert {int(address.rsplit(":", 1)[1])} == ports
    assert all(container[probe]["httpGet"]["port"] in ports for probe in ("readinessProbe", "livenessProbe"))
    return container, service["metadata"]["name"]


def check_server(nuq, folder, container, name, variables):
    """Starts a server with the options of the runtime, on a loopback port, and requests its probes."""
    model = f"{folder}/model.nuq"
    words = [word.replace("{{.Name}}", name).replace("/mnt/models/model.nuq", model) for word in container["args"]]
    assert any(word == f"--model={name}={model}" for word in words), words
    environment = {key: value for key, value in os.environ.items() if not key.startswith("NUQ_")}
    environment |= variables | KEYS
    # An address that other machines can reach requires the read key.
    check = [nuq, "serve", *words, "--check"]
    checked = subprocess.run(check, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert checked.returncode == 0 and "0.0.0.0:8080" in checked.stdout, (checked.stdout, checked.stderr)
    assert not any(key in checked.stdout + checked.stderr for key in KEYS.values())
    environment.pop("NUQ_READ_KEY")
    assert subprocess.run(check, env=environment, capture_output=True, stdin=subprocess.DEVNULL).returncode == 2

    words = ["--address=127.0.0.1:0" if word.startswith("--address=") else word for word in words]
    server = subprocess.Popen(
        [nuq, "serve", *words], env=environment | KEYS, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        address = next(entry["address"] for entry in map(json.loads, server.stderr) if entry.get("message") == "listening")
        paths = [container[probe]["httpGet"]["path"] for probe in ("readinessProbe", "livenessProbe")]
        # `/metrics` needs no key, because the runtime has the option `--metrics=open` for Prometheus.
        for path in [*paths, f"/v2/models/{name}/ready", "/metrics"]:
            assert urllib.request.urlopen(address + path, timeout=60).status == 200, path
        server.send_signal(signal.SIGTERM)
        server.stderr.read()
        assert server.wait(60) == 0, server.returncode
    finally:
        server.kill()


def main(nuq):
    # Ends the test if it hangs. Normally it takes seconds.
    signal.alarm(300)
    folder = tempfile.mkdtemp(prefix="nuq-examples-")
    random = np.random.default_rng(0)
    np.savez(f"{folder}/train.npz", x=random.normal(size=(60, 4)), y=np.repeat(["a", "b"], 30))
    fit = ["fit", "-e", f"{folder}/train.npz:x", "-l", f"{folder}/train.npz:y", "-o", f"{folder}/model.nuq"]
    subprocess.run([nuq, "--quiet", *fit], check=True, stdin=subprocess.DEVNULL)
    variables = check_container(nuq)
    container, name = check_runtime()
    check_server(nuq, folder, container, name, variables)
    print("the examples of serving are valid")


if __name__ == "__main__":
    main(str(Path(sys.argv[1]).resolve()))
