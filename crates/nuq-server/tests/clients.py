"""Checks `nuq serve` with two independent clients, tritonclient and open-inference-openapi, and its route `score` without a client.

Usage: python clients.py NUQ, where NUQ is the binary. All numbers must be equal to the numbers of `nuq score`, bit for bit.
"""

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import tritonclient.http as triton
from open_inference.openapi.client import InferenceRequest, OpenInferenceClient
from tritonclient.utils import InferenceServerException

COLUMNS = 16
NEIGHBORS = 3
NAMES = ["label", "probability", "aleatoric", "epistemic", "total", "log_epistemic", "log_density", "accept"]
NEIGHBOR_NAMES = ["neighbor_ids", "neighbor_distances", "neighbor_labels"]


def equal(name, values, expected):
    values = np.asarray(values)
    if values.dtype == object:
        values = np.array([v.decode() if isinstance(v, bytes) else v for v in values.ravel()]).reshape(values.shape)
    expected = expected[name]
    assert values.shape == expected.shape, (name, values.shape, expected.shape)
    assert (values == expected).all(), (name, values, expected)


def infer_input(x, name="embeddings", binary=True):
    kind = {"float32": "FP32", "float64": "FP64", "float16": "FP16"}[str(x.dtype)]
    tensor = triton.InferInput(name, list(x.shape), kind)
    tensor.set_data_from_numpy(x, binary_data=binary)
    return tensor


def check_triton(address, x, expected):
    client = triton.InferenceServerClient(address)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("m")
    assert client.get_server_metadata()["name"] == "nuq"
    metadata = client.get_model_metadata("m")
    assert metadata["inputs"][0] == {"name": "embeddings", "datatype": "FP32", "shape": [-1, COLUMNS]}
    for binary_input in [True, False]:
        for binary_output in [True, False]:
            names = NAMES + NEIGHBOR_NAMES
            outputs = [triton.InferRequestedOutput(name, binary_data=binary_output) for name in names]
            inputs = [infer_input(x, binary=binary_input)]
            result = client.infer("m", inputs, outputs=outputs, parameters={"threshold": "main", "neighbors": NEIGHBORS})
            for name in names:
                equal(name, result.as_numpy(name), expected)
    # If no outputs are requested, the client requests all outputs as binary tensors.
    result = client.infer("m", [infer_input(x.astype(np.float64))], request_id="42")
    assert result.get_response()["id"] == "42"
    for name in NAMES:
        equal(name, result.as_numpy(name), expected)
    asynchronous = [client.async_infer("m", [infer_input(x[i : i + 1])]) for i in range(20)]
    totals = np.concatenate([request.get_result().as_numpy("total") for request in asynchronous])
    assert (totals == expected["total"][:20]).all()
    try:
        client.infer("m", [infer_input(x[:, :3].copy())])
        raise AssertionError("rows with too few columns were accepted")
    except InferenceServerException as error:
        assert "16" in error.message() and error.status() == "422", error


def check_open_inference(address, x, expected):
    client = OpenInferenceClient(base_url=f"http://{address}")
    client.check_server_liveness()
    client.check_server_readiness()
    client.check_model_readiness("m")
    assert client.read_server_metadata().name == "nuq"
    version = client.read_model_metadata("m").versions[0]
    client.check_model_version_readiness("m", version)
    tensor = {"name": "embeddings", "shape": list(x.shape), "datatype": "FP32", "data": x.tolist()}
    request = InferenceRequest(inputs=[tensor], outputs=[{"name": "label"}, {"name": "total"}])
    for response in [
        client.model_infer("m", request=request),
        client.model_version_infer("m", version, request=request),
    ]:
        assert response.model_name == "m"
        label, total = response.outputs
        equal("label", label.data.__root__, expected)
        equal("total", total.data.__root__, expected)


def check_score(address, x, expected):
    def post(body, accept, path="score?threshold=main"):
        url = f"http://{address}/v1/models/m/{path}"
        return urllib.request.urlopen(urllib.request.Request(url, data=body, headers={"Accept": accept}), timeout=60).read()

    array = io.BytesIO()
    np.save(array, x)
    scores = np.load(io.BytesIO(post(array.getvalue(), "application/x-npz")))
    for name in NAMES:
        equal(name, scores[name], expected)
    rows = json.loads(post(json.dumps({"rows": x.tolist()}).encode(), "application/json"))["rows"]
    equal("total", [row["total"] for row in rows], expected)
    try:
        post(b"[[1, 2]]", "application/json")
        raise AssertionError("rows with too few columns were accepted")
    except urllib.error.HTTPError as error:
        assert error.code == 422 and "16" in json.load(error)["error"]["message"]


def main(nuq):
    # Ends the test if it hangs. Normally it takes seconds.
    signal.alarm(300)
    folder = Path(tempfile.mkdtemp(prefix="nuq-clients-"))
    os.chdir(folder)
    random = np.random.default_rng(0)

    def sample(rows):
        labels = random.integers(0, 4, rows)
        x = random.normal(size=(rows, COLUMNS)) + 3 * np.eye(4, COLUMNS)[labels]
        return x.astype(np.float32), np.array(["ant", "bee", "cat", "dog"])[labels]

    x, y = sample(2000)
    np.savez("train.npz", x=x, y=y)
    np.save("held_out.npy", sample(400)[0])
    queries = sample(300)[0]
    np.save("queries.npy", queries)

    def run(*arguments):
        subprocess.run([nuq, "--quiet", *arguments], check=True, stdin=subprocess.DEVNULL)

    run("fit", "-e", "train.npz:x", "-l", "train.npz:y", "-o", "m.nuq")
    run("calibrate", "-m", "m.nuq", "-e", "held_out.npy", "--target", "coverage=0.9", "--name", "main")
    score = ["score", "-m", "m.nuq", "-e", "queries.npy", "--threshold", "main", "--output-neighbors", str(NEIGHBORS)]
    run(*score, "-o", "scores.npz")
    expected = np.load("scores.npz")
    server = subprocess.Popen(
        [nuq, "serve", "--model", "m.nuq", "--address", "127.0.0.1:0", "--log-format", "json"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in server.stderr:
            entry = json.loads(line)
            if entry.get("message") == "listening":
                break
        else:
            raise AssertionError("the server did not start")
        address = entry["address"].removeprefix("http://")
        check_triton(address, queries, expected)
        check_open_inference(address, queries, expected)
        check_score(address, queries, expected)
        # The model file gets a second threshold, and the server reloads it.
        run("calibrate", "-m", "m.nuq", "-e", "held_out.npy", "--target", "coverage=0.5", "--name", "half")
        server.send_signal(signal.SIGHUP)
        for line in server.stderr:
            if json.loads(line).get("message") == "model reloaded":
                break
        check_open_inference(address, queries, expected)
        check_score(address, queries, expected)
        server.send_signal(signal.SIGTERM)
        server.stderr.read()
        assert server.wait(60) == 0, server.returncode
    finally:
        server.kill()
    print("the clients agree with nuq score")


if __name__ == "__main__":
    main(str(Path(sys.argv[1]).resolve()))
