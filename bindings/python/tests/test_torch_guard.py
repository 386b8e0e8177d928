"""Guarded PyTorch networks: a call returns the output of the network with uncertainties and decisions (accept or reject).

Tests that need other packages are skipped if these packages are not installed.
"""

from __future__ import annotations

import copy
import gc
import importlib
import json
import logging
import pickle
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import nuq
from nuq import NuqClassifier
from nuq.errors import (
    DimensionMismatchError,
    EmptyError,
    InvalidInputError,
    InvalidParameterError,
    LayerError,
    NetworkMismatchError,
    NotFiniteError,
    NuqError,
    ParameterTypeError,
)
from nuq._torch_tap import Runner
from nuq.torch import GuardedNetwork, embed, guard, load_guard

nn = torch.nn
N = 150
torch.manual_seed(0)
Y = torch.randint(0, 3, (N,))
X = torch.randn(N, 6) + 3 * torch.eye(6)[Y]
IMAGES = torch.randn(N, 3, 16, 16) + Y[:, None, None, None]


def mlp(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3)).eval()


def loader(x=X, y=Y, size=50):
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=size)


def same(left, right):
    assert list(left) == list(right)
    for name in left:
        np.testing.assert_array_equal(left[name], right[name])


# -- answers --------------------------------------------------------------------------------------------------------


def test_answers_equal_the_predictions_of_a_classifier_on_the_same_embeddings():
    network = mlp()
    guarded = guard(network, loader())
    embedded = embed(network, loader(), "2")
    training = guarded.training_rows
    held_out = np.setdiff1d(np.arange(N), training)
    model = NuqClassifier().fit(embedded.embeddings[training], embedded.labels[training])
    threshold = model.calibrate(
        embedded.embeddings[held_out], embedded.labels[held_out], false_alarm=0.05, logits=embedded.logits[held_out]
    )
    assert guarded.threshold == threshold
    for inputs, first in zip(torch.split(X, 50), range(0, N, 50)):
        rows = slice(first, first + 50)
        answer = guarded(inputs)
        expected = model.predict_uncertainty(embedded.embeddings[rows], logits=embedded.logits[rows])
        same(answer.uncertainty, expected)
        np.testing.assert_array_equal(answer.logits.detach(), embedded.logits[rows])
        np.testing.assert_array_equal(answer.label, expected.label)
        np.testing.assert_array_equal(answer.label, embedded.logits[rows].argmax(axis=1))
        np.testing.assert_array_equal(answer.accept, threshold.accept(expected))
        np.testing.assert_array_equal(answer.neighbors(4).rows, training[model.kneighbors(embedded.embeddings[rows], 4)[1]])
        assert answer.output is answer.logits
        assert answer.label.dtype == torch.int64 and answer.accept.dtype == torch.bool
    assert not guarded(X + 1000).accept.any()


def test_predicted_labels_are_a_tensor_of_floats_if_the_training_labels_are_floats():
    assert guard(mlp(), loader(y=Y.double()))(X).label.dtype == torch.float64


def test_a_guarded_network_is_a_module_that_names_its_layer(caplog):
    with caplog.at_level(logging.INFO, logger="nuq"):
        guarded = guard(mlp(), loader())
    assert isinstance(guarded, nn.Module) and isinstance(guarded, GuardedNetwork)
    assert guarded.layer == "input of 3 (Linear 8 → 3)"
    assert "input of 3 (Linear 8 → 3)" in repr(guarded) and "at most 5 %" in repr(guarded)
    assert [record.getMessage() for record in caplog.records] == ["guard: embeddings are the input of 3 (Linear 8 → 3)"]


def test_a_layer_can_be_given_by_name_or_by_module():
    network = mlp()
    by_name, by_module = guard(network, loader(), "0"), guard(network, loader(), network[0])
    assert by_name.layer == by_module.layer == "output of 0 (Linear 6 → 8), pool=auto"
    np.testing.assert_array_equal(by_name(X).embeddings, network[0](X).detach())
    same(by_name(X).uncertainty, by_module(X).uncertainty)


def test_network_and_modes_are_not_changed():
    network = mlp().train()
    network[1].eval()  # a frozen layer
    before = {name: value.clone() for name, value in network.state_dict().items()}
    guarded = guard(network, loader())
    assert network.training and network[0].training and not network[1].training
    assert not any(module._forward_hooks for module in network.modules())
    assert all((value == before[name]).all() for name, value in network.state_dict().items())
    with pytest.raises(NetworkMismatchError, match="training mode.*eval"):
        guarded(X)
    guarded.eval()
    assert not network.training
    guarded(X)
    assert not any(module._forward_hooks for module in network.modules())


def test_a_dataset_instead_of_a_loader_is_an_error():
    # The label of a row of a dataset is a tensor without axes.
    with pytest.raises(NuqError):
        guard(mlp(), torch.utils.data.TensorDataset(X, Y))


def test_modes_are_restored_after_an_error():
    network = mlp().train()

    def broken():
        yield X, Y
        raise RuntimeError("loader failed")

    with pytest.raises(RuntimeError, match="failed"):
        guard(network, broken())
    assert network.training and not any(module._forward_hooks for module in network.modules())


def test_the_loader_is_read_once():
    passes = []

    def batches():
        passes.append(1)
        yield from loader()

    class Loader:
        def __iter__(self):
            return batches()

    guard(mlp(), Loader())
    assert len(passes) == 1


def test_logits_have_gradients_unless_they_are_disabled():
    guarded = guard(mlp(), loader())
    x = X[:4].clone().requires_grad_()
    guarded(x).logits.sum().backward()
    assert x.grad is not None and x.grad.abs().sum() > 0
    with torch.no_grad():
        assert not guarded(x).logits.requires_grad
    with torch.inference_mode():
        same(guarded(X).uncertainty, guarded(X.clone()).uncertainty)


def test_threads_get_the_answers_of_their_own_inputs():
    guarded = guard(mlp(), loader())
    expected = [guarded(part).uncertainty for part in torch.split(X, 10)]
    results: list = [None] * len(expected)

    def work(first):
        for number in range(first, len(expected), 3):
            results[number] = guarded(X[10 * number : 10 * number + 10]).uncertainty

    threads = [threading.Thread(target=work, args=(first,)) for first in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result, other in zip(results, expected):
        np.testing.assert_allclose(result.log_epistemic, other.log_epistemic, rtol=1e-4)
        np.testing.assert_array_equal(result.label, other.label)
    assert not any(module._forward_hooks for module in guarded.modules())


def test_labels_can_be_names_of_classes():
    names = ["ship", "cat", "dog"]
    labels = np.array(names)[Y]
    batches = [(X[i : i + 50], labels[i : i + 50]) for i in range(0, N, 50)]
    answer = guard(mlp(), batches, classes=names)(X)
    np.testing.assert_array_equal(answer.label, np.array(names)[mlp()(X).argmax(1)])


def test_thresholds_are_chosen_on_the_given_held_out_loader():
    network = mlp()
    held_out = loader(X[100:], Y[100:])
    guarded = guard(network, loader(X[:100], Y[:100]), held_out=held_out, coverage=0.6)
    train, rest = embed(network, loader(X[:100], Y[:100]), "2"), embed(network, held_out, "2")
    model = NuqClassifier().fit(train.embeddings, train.labels)
    assert guarded.threshold == model.calibrate(rest.embeddings, rest.labels, coverage=0.6, logits=rest.logits)
    expected = model.calibrate(rest.embeddings, rest.labels, risk=0.9, logits=rest.logits)
    assert guarded.calibrate(held_out, risk=0.9).threshold == expected


# -- precision, compilation -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_networks_of_half_precision_can_be_guarded(dtype):
    dtype = getattr(torch, dtype)
    network = mlp().to(dtype)
    guarded = guard(network, loader(X.to(dtype)))
    assert guarded.layer == "input of 3 (Linear 8 → 3)"
    answer = guarded(X.to(dtype))
    assert answer.logits.dtype == dtype
    expected = guarded.model.predict_uncertainty(
        network[:3](X.to(dtype)).detach().float().numpy(), logits=network(X.to(dtype)).detach().float().numpy()
    )
    same(answer.uncertainty, expected)


def test_guards_use_the_precision_of_autocast():
    network = mlp()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        guarded = guard(network, loader())
        answer = guarded(X)
        hidden = network[:3](X)
    assert answer.logits.dtype == torch.bfloat16 and hidden.dtype == torch.bfloat16
    np.testing.assert_array_equal(answer.embeddings.float(), hidden.detach().float())
    # The rounding of bfloat16 is small compared with the distances between classes.
    plain = guard(network, loader())(X)
    assert (plain.label == answer.label).float().mean() > 0.95


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("called_before", [False, True])
def test_compiled_networks_give_the_same_answers(backend, called_before):
    torch._dynamo.reset()
    network = mlp()
    compiled = torch.compile(network, backend=backend)
    if called_before:
        with torch.no_grad():
            compiled(X)
    with torch.no_grad():
        guarded, plain = guard(compiled, loader()), guard(network, loader())
        assert guarded.layer == plain.layer
        same(guarded(X).uncertainty, plain(X).uncertainty)
        # Networks of the same class share compiled code, but not layers and weights.
        other, other_compiled = mlp(1), torch.compile(mlp(1), backend=backend)
        same(guard(other_compiled, loader(), "0")(X).uncertainty, guard(other, loader(), "0")(X).uncertainty)
        same(guarded(X).uncertainty, plain(X).uncertainty)
    del guarded, plain
    gc.collect()
    assert not any(module._forward_hooks for module in network.modules())


def test_networks_with_compiled_parts_give_the_same_answers():
    torch._dynamo.reset()
    network = mlp()
    parts = nn.Sequential(torch.compile(network[:3], backend="eager"), network[3]).eval()
    with torch.no_grad():
        guarded = guard(parts, loader())
        assert guarded.layer == "input of 1 (Linear 8 → 3)"
        same(guarded(X).uncertainty, guard(network, loader())(X).uncertainty)


def test_networks_that_are_compiled_in_place_give_the_same_answers():
    torch._dynamo.reset()
    network, plain = (Heads(lambda first, second: first).eval() for _ in range(2))
    network.compile(backend="eager")
    with torch.no_grad():
        network(X)
        same(guard(network, loader())(X).uncertainty, guard(plain, loader())(X).uncertainty)


def test_compiled_code_that_calls_no_hooks_is_not_used():
    torch._dynamo.reset()
    network = Heads(lambda first, second: first).eval()
    network.compile(backend="eager")
    with torch.no_grad():
        network(X)  # compiled without hooks
        runner = Runner(network, [network.first])
        with pytest.warns(UserWarning, match="without torch.compile"):
            output, records = runner.run((X,), {})
        assert records[0].output.equal(output) and records[0].input.equal(torch.relu(network.body(X)))
        assert runner.run((X,), {})[1][0].output.equal(output)  # without a second warning


# -- the layer ------------------------------------------------------------------------------------------------------


class Heads(nn.Module):
    """A network with two classifiers, and a function that combines their outputs."""

    def __init__(self, combine, same_weights=False):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Linear(6, 8)
        self.first, self.second = nn.Linear(8, 3), nn.Linear(8, 3)
        if same_weights:
            self.second.load_state_dict(self.first.state_dict())
        self.combine = combine

    def forward(self, x):
        hidden = torch.relu(self.body(x))
        return self.combine(self.first(hidden), self.second(hidden))


def test_a_network_with_several_equal_classifiers_is_an_error():
    network = Heads(lambda first, second: first / 2 + second / 2, same_weights=True)
    with pytest.raises(LayerError, match=r"several layers equal the logits.*'first' \(Linear 8 → 3\), 'second' \(Linear 8 → 3\).*layer="):
        guard(network, loader())
    assert guard(network, loader(), "body").layer.startswith("output of body")


def test_a_network_without_a_linear_classifier_is_an_error():
    with pytest.raises(LayerError, match=r"no layer has an output that equals the logits.*'first' .*'second'.*layer="):
        guard(Heads(lambda first, second: first * second), loader())
    with pytest.raises(LayerError, match=r"no linear layer has as many outputs.*the last layers are '0', '1'"):
        guard(nn.Sequential(nn.Linear(6, 6), nn.AdaptiveAvgPool1d(3)), loader())


def test_logits_can_be_the_mean_of_several_classifiers():
    network = Heads(lambda first, second: (first + second) / 2).eval()
    guarded = guard(network, loader())
    assert guarded.layer == "input of first (Linear 8 → 3) and second (Linear 8 → 3)"
    hidden = torch.relu(network.body(X)).detach()
    np.testing.assert_array_equal(guarded(X).embeddings, torch.cat([hidden, hidden], 1))


def test_the_logits_of_several_outputs_must_be_selected():
    network = Heads(lambda first, second: (first, second)).eval()
    with pytest.raises(LayerError, match=r"0 \(2, 3\), 1 \(2, 3\).*logits="):
        guard(network, loader())
    guarded = guard(network, loader(), logits=1)
    assert guarded.layer == "input of second (Linear 8 → 3)"
    assert guarded(X).logits.equal(guarded(X).output[1])
    named = Heads(lambda first, second: {"a": first, "scores": second}).eval()
    assert guard(named, loader(), logits="scores").layer == guard(named, loader(), logits=lambda out: out["scores"]).layer
    with pytest.raises(InvalidParameterError, match="logits='other' selects nothing"):
        guard(named, loader(), logits="other")


@pytest.mark.parametrize(("last", "output"), [(nn.Softmax(1), "probabilities"), (nn.LogSoftmax(1), "logits")])
def test_networks_that_end_with_softmax_can_be_guarded(last, output):
    guarded = guard(nn.Sequential(*mlp(), last).eval(), loader(), output=output)
    assert guarded.layer == "input of 3 (Linear 8 → 3)"
    np.testing.assert_allclose(guarded(X).uncertainty.total, guard(mlp(), loader())(X).uncertainty.total, rtol=1e-3)


def test_a_network_with_a_single_logit_can_be_guarded():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1)).eval()
    guarded = guard(network, loader(y=(Y == 1).long()))
    assert guarded.layer == "input of 2 (Linear 8 → 1)"
    np.testing.assert_array_equal(guarded(X).label, network(X)[:, 0] > 0)


def test_the_classifier_can_be_a_convolution_before_or_after_the_pooling():
    torch.manual_seed(0)
    body = [nn.Conv2d(3, 5, 3), nn.ReLU()]
    head = nn.Conv2d(5, 3, 1)
    pooled = nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), head, nn.Flatten()).eval()
    maps = nn.Sequential(*body, head, nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    expected = nn.Sequential(*body)(IMAGES).mean(dim=(2, 3)).detach()
    assert guard(pooled, loader(IMAGES)).layer == "input of 3 (Conv2d 5 → 3)"
    guarded = guard(maps, loader(IMAGES))
    assert guarded.layer == "input of 2 (Conv2d 5 → 3), mean over steps or pixels"
    np.testing.assert_allclose(guarded(IMAGES).embeddings, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(guard(maps, loader(IMAGES), "1")(IMAGES).embeddings, expected, rtol=1e-4, atol=1e-6)
    flat = guard(maps, loader(IMAGES), "1", pool="flatten")
    assert flat(IMAGES).embeddings.shape == (N, 5 * 14 * 14) and "pool=flatten" in flat.layer


class Text(nn.Module):
    """A network for sequences. Its classifier runs at every step, and then the step of the last token that is not padding is selected."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.mix, self.score = nn.Embedding(11, 8), nn.Linear(8, 8), nn.Linear(8, 3, bias=False)

    def forward(self, input_ids, attention_mask=None):
        hidden = torch.tanh(self.mix(self.embed(input_ids))).cumsum(1)
        last = attention_mask.sum(1) - 1
        return {"logits": self.score(hidden)[torch.arange(len(last)), last], "hidden": hidden}


def tokens():
    ids = torch.randint(1, 11, (N, 7), generator=torch.Generator().manual_seed(1))
    lengths = torch.randint(2, 8, (N,), generator=torch.Generator().manual_seed(2))
    mask = (torch.arange(7) < lengths[:, None]).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def token_batches(inputs, labels, size=50):
    return [
        {**{name: value[i : i + size] for name, value in inputs.items()}, "labels": labels[i : i + size]}
        for i in range(0, len(labels), size)
    ]


def test_embeddings_of_sequences_are_taken_at_the_step_of_the_logits():
    network, inputs = Text().eval(), tokens()
    guarded = guard(network, token_batches(inputs, Y))
    assert guarded.layer == "input of score (Linear 8 → 3), at the step whose output is the logits"
    answer = guarded(**inputs)
    last = inputs["attention_mask"].sum(1) - 1
    expected = answer.output["hidden"][torch.arange(N), last].detach()
    np.testing.assert_array_equal(answer.embeddings, expected)


def test_the_mean_over_steps_ignores_padding():
    network, inputs = Text().eval(), tokens()
    guarded = guard(network, token_batches(inputs, Y), "mix", pool="mean")
    with torch.no_grad():
        values, mask = network.mix(network.embed(inputs["input_ids"])), inputs["attention_mask"][:, :, None]
    expected = (values * mask).sum(1) / mask.sum(1)
    np.testing.assert_allclose(guarded(**inputs).embeddings, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        embed(network, token_batches(inputs, Y), "mix", pool="mean").embeddings, expected, rtol=1e-5, atol=1e-6
    )
    with pytest.raises(InvalidParameterError, match="pool="):
        guard(network, token_batches(inputs, Y), "mix")


def test_networks_can_have_several_positional_inputs():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

        def forward(self, left, right):
            return self.head(torch.relu(self.body(left + right)))

    network = Two().eval()
    batches = [((X[i : i + 50] / 2, X[i : i + 50] / 2), Y[i : i + 50]) for i in range(0, N, 50)]
    guarded = guard(network, batches)
    np.testing.assert_array_equal(guarded(X / 2, X / 2).logits.detach(), network(X / 2, X / 2).detach())


# -- state and files ------------------------------------------------------------------------------------------------


def test_the_state_is_the_state_of_the_network():
    network, other = mlp(), mlp(5)
    guarded = guard(network, loader())
    assert list(guarded.state_dict()) == list(network.state_dict())
    guarded.load_state_dict(other.state_dict())
    assert network[0].weight.equal(other[0].weight)
    # This also holds if the guarded network is part of another module.
    outer, again = nn.ModuleDict({"a": guarded}), nn.ModuleDict({"a": guard(mlp(7), loader())})
    assert list(outer.state_dict()) == [f"a.{name}" for name in network.state_dict()]
    again.load_state_dict(outer.state_dict())
    assert again["a"].network[0].weight.equal(other[0].weight)


def test_a_copy_is_independent_of_the_original():
    guarded = guard(mlp(), loader())
    copied = copy.deepcopy(guarded)
    same(copied(X).uncertainty, guarded(X).uncertainty)
    before = guarded.threshold
    copied.calibrate(loader(), coverage=0.5)
    assert guarded.threshold == before and copied.threshold != before
    with torch.no_grad():
        copied.network[0].weight.zero_()
    assert guarded.network[0].weight.abs().sum() > 0
    with pytest.raises(ParameterTypeError, match="save"):
        pickle.dumps(guarded)


def test_a_loaded_guard_gives_the_same_answers(tmp_path):
    network = mlp()
    guarded = guard(network, loader())
    guarded.save(tmp_path / "guard")
    assert sorted(path.name for path in (tmp_path / "guard").iterdir()) == ["guard.json", "model.nuq", "probe.npz"]
    opened = load_guard(tmp_path / "guard", mlp())
    same(opened(X).uncertainty, guarded(X).uncertainty)
    np.testing.assert_array_equal(opened(X).accept, guarded(X).accept)
    np.testing.assert_array_equal(opened(X).neighbors(3).rows, guarded(X).neighbors(3).rows)
    assert opened.layer == guarded.layer and opened.threshold == guarded.threshold
    # A guard that was opened can be saved and opened again.
    opened.save(tmp_path / "guard")
    same(load_guard(tmp_path / "guard", mlp())(X).uncertainty, guarded(X).uncertainty)


def test_another_network_is_recognized(tmp_path):
    guard(mlp(), loader()).save(tmp_path / "guard")
    with pytest.raises(NetworkMismatchError, match=r"differ by \d+.*state_dict"):
        load_guard(tmp_path / "guard", mlp(1))
    assert load_guard(tmp_path / "guard", mlp(1), check=False).layer
    wider = nn.Sequential(nn.Linear(6, 9), nn.Dropout(0.5), nn.ReLU(), nn.Linear(9, 3)).eval()
    with pytest.raises(DimensionMismatchError, match="9 columns.*8"):
        load_guard(tmp_path / "guard", wider)
    with pytest.raises(InvalidParameterError, match="layer='3'"):
        load_guard(tmp_path / "guard", mlp()[:3])
    # The check accepts differences by rounding, and networks in training mode.
    half = load_guard(tmp_path / "guard", mlp().bfloat16().train())
    assert half.network.training
    with pytest.raises(NetworkMismatchError, match="torch.bfloat16, and were torch.float32"):
        load_guard(tmp_path / "guard", mlp(1).bfloat16())


def test_without_stored_inputs_the_network_is_not_checked(tmp_path):
    guard(mlp(), loader()).save(tmp_path / "guard", probe=False)
    assert not (tmp_path / "guard" / "probe.npz").exists()
    assert load_guard(tmp_path / "guard", mlp(1)).layer


@pytest.mark.parametrize("kind", ["named", "tuple", "bfloat16"])
def test_stored_inputs_can_be_mappings_tuples_or_bfloat16(tmp_path, kind):
    if kind == "named":
        network, batches, call = Text().eval(), token_batches(tokens(), Y), lambda module: module(**tokens())
    elif kind == "tuple":
        network = Heads(lambda first, second: first).eval()
        batches, call = [((X,), Y)], lambda module: module(X)
    else:
        network, batches = mlp().bfloat16(), loader(X.bfloat16())
        call = lambda module: module(X.bfloat16())  # noqa: E731
    guarded = guard(network, batches)
    guarded.save(tmp_path / "guard")
    same(call(load_guard(tmp_path / "guard", copy.deepcopy(network))).uncertainty, call(guarded).uncertainty)


def test_functions_are_not_stored_and_must_be_given_again(tmp_path):
    network = Heads(lambda first, second: (first, second)).eval()

    def absolute(values):
        return values.abs()

    guarded = guard(network, loader(), "body", pool=absolute, logits=lambda output: output[1])
    guarded.save(tmp_path / "guard")
    assert "absolute" in guarded.layer
    with pytest.raises(InvalidParameterError, match="pool= was a function"):
        load_guard(tmp_path / "guard", network)
    with pytest.raises(InvalidParameterError, match="logits= was a function"):
        load_guard(tmp_path / "guard", network, pool=absolute)
    opened = load_guard(tmp_path / "guard", network, pool=absolute, logits=lambda output: output[1])
    same(opened(X).uncertainty, guarded(X).uncertainty)


def test_folders_of_other_guards_and_damaged_folders_are_errors(tmp_path):
    arrays = [(X.numpy(), Y.numpy())]
    nuq.guard(lambda x: x, arrays).save(tmp_path / "plain")
    with pytest.raises(InvalidParameterError, match="nuq.load_guard"):
        load_guard(tmp_path / "plain", mlp())
    guard(mlp(), loader()).save(tmp_path / "guard")
    description = json.loads((tmp_path / "guard/guard.json").read_text())
    dtype = description["network"]["probe"].pop("dtype")
    (tmp_path / "guard/guard.json").write_text(json.dumps(description))
    with pytest.raises(nuq.errors.DamagedFileError, match="dtype"):
        load_guard(tmp_path / "guard", mlp())
    description["network"]["probe"]["dtype"] = dtype
    del description["network"]["side"]
    (tmp_path / "guard/guard.json").write_text(json.dumps(description))
    with pytest.raises(nuq.errors.DamagedFileError, match="side"):
        load_guard(tmp_path / "guard", mlp())
    # nuq.load_guard opens the guard of a network too, with a function from inputs to embeddings and logits.
    opened = nuq.load_guard(tmp_path / "guard", lambda x: (mlp()[:3](x).detach(), mlp()(x).detach()))
    assert len(opened(X)) == N


# -- invalid input --------------------------------------------------------------------------------------------------


def test_invalid_arguments_are_errors():
    with pytest.raises(ParameterTypeError, match="torch.nn.Module"):
        guard(lambda x: x, loader())
    with pytest.raises(ParameterTypeError, match="iterable of batches"):
        guard(mlp(), 5)
    with pytest.raises(EmptyError, match="no batches"):
        guard(mlp(), [])
    with pytest.raises(InvalidInputError, match="no labels"):
        guard(mlp(), [(X,)], "2")
    with pytest.raises(InvalidInputError, match="no labels"):
        guard(mlp(), [X])
    with pytest.raises(InvalidParameterError, match="layers are 0, 1, 2, 3"):
        guard(mlp(), loader(), "fc")
    with pytest.raises(InvalidParameterError, match="is not a module of the model"):
        guard(mlp(), loader(), nn.Linear(2, 2))
    with pytest.raises(InvalidParameterError, match="pool='mean'.*layer="):
        guard(mlp(), loader(), pool="mean")
    with pytest.raises(ParameterTypeError, match="logits="):
        guard(mlp(), loader(), logits=2.5)
    with pytest.raises(InvalidParameterError, match="device"):
        guard(mlp(), loader(), device="nothing")
    with pytest.raises(InvalidInputError, match="batch 0 of batches, row 0: the label 9"):
        guard(mlp(), [(X, torch.full((N,), 9))])
    with pytest.raises(ParameterTypeError, match="torch.nn.Module"):
        load_guard("folder", None)


def test_activations_that_are_not_finite_are_errors():
    broken = X.clone()
    broken[70] = torch.nan
    with pytest.raises(NotFiniteError, match="batch 1 of batches, row 20: the embeddings"):
        guard(mlp(), loader(broken))


# -- architectures of other packages --------------------------------------------------------------------------------

#: The layer that is found in each architecture of torchvision, with three classes.
TORCHVISION = {
    "resnet18": "input of fc (Linear 512 → 3)",
    "vgg11": "input of classifier.6 (Linear 4096 → 3)",
    "densenet121": "input of classifier (Linear 1024 → 3)",
    "efficientnet_b0": "input of classifier.1 (Linear 1280 → 3)",
    "mobilenet_v3_small": "input of classifier.3 (Linear 1024 → 3)",
    "convnext_tiny": "input of classifier.2 (Linear 768 → 3)",
    "swin_t": "input of head (Linear 768 → 3)",
    "vit": "input of heads.head (Linear 16 → 3)",
}

TIMM = {
    "resnet10t": "input of fc (Linear 512 → 3)",
    "vit_tiny_patch16_224": "input of head (Linear 192 → 3)",
    "deit_tiny_distilled_patch16_224": "input of head (Linear 192 → 3) and head_dist (Linear 192 → 3)",
    "convnext_atto": "input of head.fc (Linear 320 → 3)",
    "mobilenetv3_small_050": "input of classifier (Linear 1024 → 3)",
    "resnetv2_50": "input of head.fc (Conv2d 2048 → 3)",
}


def random_images(shape, n=100):
    """Random images and a loader of them. A few images are enough, because only the choice of the layer is tested."""
    images = torch.randn(n, *shape, generator=torch.Generator().manual_seed(0))
    return images, loader(images, torch.arange(n) % 3, size=25)


def check_linear(guarded, answer):
    """Check that the classifier computes the logits from the embeddings. The logits are the mean if there are several classifiers."""
    names = guarded._layer.names
    parts = torch.chunk(answer.embeddings, len(names), dim=1)
    modules = dict(guarded.network.named_modules())
    extra = 2 if guarded._layer.is_channels_first else 0
    outputs = [modules[name](part.reshape(*part.shape, *[1] * extra)).reshape(len(part), -1) for name, part in zip(names, parts)]
    torch.testing.assert_close(torch.stack(outputs).mean(0), answer.logits, rtol=1e-3, atol=1e-4)


def check_images(network, layer, shape):
    images, batches = random_images(shape)
    torch.manual_seed(0)
    for name, weight in network.named_parameters():
        # Weights of zero are replaced, because some packages initialize classifiers with zeros and all logits would be equal.
        if weight.dim() == 2 and not weight.any():
            nn.init.normal_(weight)
    with torch.no_grad():
        guarded = guard(network.eval(), batches)
        assert guarded.layer == layer
        answer = guarded(images[:3])
        check_linear(guarded, answer)
    assert answer.uncertainty.label.shape == (3,)


@pytest.mark.parametrize("name", TORCHVISION)
def test_the_layer_of_networks_of_torchvision_is_found(name):
    models = pytest.importorskip("torchvision").models
    torch.manual_seed(0)
    if name == "vit":
        sizes = {"image_size": 16, "patch_size": 8, "num_layers": 2, "num_heads": 2, "hidden_dim": 16, "mlp_dim": 32}
        network = models.VisionTransformer(**sizes, num_classes=3)
    else:
        network = getattr(models, name)(num_classes=3)
    check_images(network, TORCHVISION[name], (3, 16, 16) if name == "vit" else (3, 32, 32))


@pytest.mark.parametrize("name", TIMM)
def test_the_layer_of_networks_of_timm_is_found(name):
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    size = {"img_size": 32} if "patch16" in name else {}
    network = timm.create_model(name, num_classes=3, **size)
    check_images(network, TIMM[name], (3, 32, 32))
    classifier = network.get_classifier()
    heads = classifier if isinstance(classifier, tuple) else (classifier,)
    names = [key for key, module in network.named_modules() for head in heads if module is head]
    assert all(key in TIMM[name] for key in names)


def text_networks():
    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 20,
        "vocab_size": 11,
        "max_position_embeddings": 32,
        "num_labels": 3,
    }
    gpt = {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 11, "num_labels": 3, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1}
    return {
        "Bert": (sizes, "input of classifier (Linear 16 → 3)"),
        "Roberta": (sizes, "input of classifier.out_proj (Linear 16 → 3)"),
        "DistilBert": (
            {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 20, "vocab_size": 11, "num_labels": 3},
            "input of classifier (Linear 16 → 3)",
        ),
        "GPT2": (gpt, "input of score (Linear 16 → 3), at the step whose output is the logits"),
        "Llama": ({**sizes, "pad_token_id": 0}, "input of score (Linear 16 → 3), at the step whose output is the logits"),
    }


@pytest.mark.parametrize("name", ["Bert", "Roberta", "DistilBert", "GPT2", "Llama"])
def test_the_layer_of_text_networks_of_the_transformers_library_is_found(name, tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes, layer = text_networks()[name]
    torch.manual_seed(0)
    network = getattr(transformers, f"{name}ForSequenceClassification")(getattr(transformers, f"{name}Config")(**sizes)).eval()
    inputs = tokens()
    with torch.no_grad():
        guarded = guard(network, token_batches(inputs, Y))
        assert guarded.layer == layer
        answer = guarded(**inputs)
        check_linear(guarded, answer)
        assert answer.output.logits is answer.logits
        guarded.save(tmp_path / "guard")
        same(load_guard(tmp_path / "guard", network)(**inputs).uncertainty, answer.uncertainty)


@pytest.mark.parametrize("name", ["ViT", "ResNet", "ConvNext"])
def test_the_layer_of_image_networks_of_the_transformers_library_is_found(name):
    transformers = pytest.importorskip("transformers")
    sizes, layer = {
        "ViT": (
            {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20, "image_size": 16, "patch_size": 8},
            "input of classifier (Linear 16 → 3)",
        ),
        "ResNet": ({"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}, "input of classifier.1 (Linear 16 → 3)"),
        "ConvNext": ({"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2}, "input of classifier (Linear 16 → 3)"),
    }[name]
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**sizes, num_labels=3)
    network = getattr(transformers, f"{name}ForImageClassification")(config).eval()
    batches = [{"pixel_values": images, "labels": labels} for images, labels in loader(IMAGES)]
    with torch.no_grad():
        guarded = guard(network, batches)
        assert guarded.layer == layer
        check_linear(guarded, guarded(pixel_values=IMAGES))


class WordVectors(nn.Module):
    """A module for sentence-transformers that computes word vectors from token numbers, without a tokenizer."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)

    def forward(self, features, **_):
        features["token_embeddings"] = self.embed(features["input_ids"])
        return features

    def save(self, *_, **__):
        pass


def sentence_modules():
    """The modules of sentence-transformers. Newer versions have them in another package than older versions."""
    pytest.importorskip("sentence_transformers")
    try:
        return importlib.import_module("sentence_transformers.sentence_transformer.modules")
    except ImportError:
        return importlib.import_module("sentence_transformers.models")


def sentence_encoder(*last):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    torch.manual_seed(0)
    pooling = sentence_modules().Pooling(8, pooling_mode="mean")
    return sentence_transformers.SentenceTransformer(modules=[WordVectors(), pooling, *last], device="cpu")


def test_the_layer_of_sentence_transformers_with_a_head_is_found():
    encoder = sentence_encoder()

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.head = encoder, nn.Linear(8, 3)

        def forward(self, features):
            return self.head(self.encoder(dict(features))["sentence_embedding"])

    network, inputs = Classifier().eval(), tokens()
    with torch.no_grad():
        guarded = guard(network, token_batches(inputs, Y))
        assert guarded.layer == "input of head (Linear 8 → 3)"
        answer = guarded(inputs)
        np.testing.assert_array_equal(answer.embeddings, encoder(dict(inputs))["sentence_embedding"])
        check_linear(guarded, answer)


def test_the_layer_of_sentence_transformers_with_a_dense_layer_is_found():
    network, inputs = sentence_encoder(sentence_modules().Dense(8, 3, activation_function=nn.Identity())).eval(), tokens()
    with torch.no_grad():
        guarded = guard(network, token_batches(inputs, Y))
        assert guarded.layer == "input of 2.linear (Linear 8 → 3)"
        check_linear(guarded, guarded(dict(inputs)))
