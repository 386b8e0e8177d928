"""Every public function and method rejects wrong types and values out of range with an exception of the package."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, NuqRegressor, baselines, calibrate, metrics, stores
from nuq.errors import InvalidParameterError, LengthMismatchError, NotFittedError, NuqError, OutOfRangeError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)).astype(np.float32)
Y = np.repeat([0, 1, 2], 20)
X += Y[:, None]
SCORES, MORE = RNG.normal(size=30), RNG.normal(size=40) + 1
#: True for the rows of ``SCORES`` whose prediction is wrong.
WRONG = np.arange(30) % 3 == 0
LOGITS = X @ RNG.normal(size=(3, 3))
CLASSIFIER = NuqClassifier(n_neighbors=5).fit(X, Y)
REGRESSOR = NuqRegressor(n_neighbors=5).fit(X, X[:, 0])
THRESHOLD = CLASSIFIER.calibrate(X, coverage=0.9)
SETS = CLASSIFIER.calibrate(X, Y, sets=0.9)
INTERVALS = REGRESSOR.calibrate(X, X[:, 0], intervals=0.9)
EVALUATION = nuq.evaluate(CLASSIFIER, X, Y, resamples=5)

#: Values that no parameter accepts.
WRONG_TYPES = [object(), {}, b"x", 1j, [[]]]
NOT_TEXT = [*WRONG_TYPES, 5, None, ""]
NOT_A_NUMBER = [*WRONG_TYPES, "a", None, True, float("nan"), 10**400]
NOT_A_SHARE = [*NOT_A_NUMBER, -0.1, 1.5, float("inf")]
NOT_A_COUNT = [*WRONG_TYPES, "a", None, True, 0.5, -1, 2**64, float("nan")]
NOT_ROWS = [*WRONG_TYPES, None, 3.0, "rows", np.zeros(3), np.zeros((0, 3)), np.full((60, 3), np.nan), [[1.0], [1.0, 2.0]]]
NOT_SCORES = [*WRONG_TYPES, None, 3.0, "scores", np.zeros((2, 2)), [np.nan], ["a"], []]
NOT_FLAGS = [*NOT_SCORES, np.full(30, 2), np.full(30, 0.5)]
NOT_LABELS = [*WRONG_TYPES, None, 3.0, np.full(60, np.nan), np.full(60, 0.5), Y[:-1]]
NOT_A_CHOICE = [*NOT_TEXT, "nothing"]
NOT_A_PATH = [*WRONG_TYPES, 5, None]


class Lists(stores.Store):
    """A store whose rows are the training rows."""

    metric = "l2"

    def _search(self, queries, k):
        distances = np.linalg.norm(queries[:, None] - X, axis=2)
        return [(near := np.argsort(row)[:k], row[near]) for row in distances]


#: For each case: a function, its keyword arguments, and for each parameter the values that the function must reject. If the name of the
#: case ends with ``[]``, the function is ``__getitem__``, and the argument is positional.
CALLS = {
    "load": (nuq.load, {"path": "missing.nuq"}, {"path": [*NOT_A_PATH, "missing.nuq"], "verify": [None, 1, "yes"]}),
    "load_guard": (
        nuq.load_guard,
        {"folder": "missing", "embed": len},
        {"folder": [*NOT_A_PATH, "missing"], "embed": [*WRONG_TYPES, None, 5, "embed"]},
    ),
    "fit": (NuqClassifier().fit, {"X": X, "y": Y}, {"X": NOT_ROWS, "y": NOT_LABELS}),
    "fit of a regressor": (NuqRegressor().fit, {"X": X, "y": Y}, {"X": NOT_ROWS, "y": [*NOT_SCORES, Y[:-1]]}),
    "partial_fit": (
        CLASSIFIER.partial_fit,
        {"X": X, "y": Y},
        {"X": NOT_ROWS, "y": NOT_LABELS, "classes": [*WRONG_TYPES, 3.0, [], [0, 1], [0.5], ["a"]]},
    ),
    "relabel": (
        NuqClassifier(n_neighbors=5).fit(X, Y).relabel,
        {"ids": [0, 1], "y": [1, 1]},
        {"ids": [*WRONG_TYPES, None, 3.0, [0, 60], [-1, 0], [0], [0, 0]], "y": [*WRONG_TYPES, None, 3.0, [1], ["a", "b"], [0.5, 1.0]]},
    ),
    "remove_threshold": (CLASSIFIER.remove_threshold, {}, {"name": [*WRONG_TYPES, None, 5, "unknown"]}),
    "partial_fit of a regressor": (REGRESSOR.partial_fit, {"X": X, "y": Y}, {"X": NOT_ROWS, "y": [*NOT_SCORES, Y[:-1]]}),
    "set_params": (NuqClassifier().set_params, {}, {"unknown": [1]}),
    "predict": (CLASSIFIER.predict, {"X": X}, {"X": NOT_ROWS, "return_uncertainty": [v for v in NOT_A_CHOICE if v is not None]}),
    "predict of a regressor": (
        REGRESSOR.predict, {"X": X}, {"X": NOT_ROWS, "return_uncertainty": [v for v in NOT_A_CHOICE if v is not None]}
    ),
    "predict_proba": (CLASSIFIER.predict_proba, {"X": X}, {"X": NOT_ROWS}),
    "predict_log_proba": (CLASSIFIER.predict_log_proba, {"X": X}, {"X": NOT_ROWS}),
    "predict_uncertainty": (CLASSIFIER.predict_uncertainty, {"X": X}, {"X": NOT_ROWS}),
    "predict_uncertainty of the network": (
        CLASSIFIER.predict_uncertainty,
        {"X": X, "logits": LOGITS},
        {
            "logits": [*(v for v in NOT_ROWS if v is not None), LOGITS[:5], LOGITS[:, :2]],
            "probabilities": [LOGITS],
            "classes": [*WRONG_TYPES, 3.0, [0, 1], [0, 1, 3], ["0", "1", "2"]],
        },
    ),
    "predict_set": (
        CLASSIFIER.predict_set,
        {"X": X, "sets": SETS},
        {"X": NOT_ROWS, "sets": [*WRONG_TYPES, 5, None, "unknown"], "threshold": [*WRONG_TYPES, 5, "unknown", []], "logits": [LOGITS]},
    ),
    "predict_interval": (
        REGRESSOR.predict_interval, {"X": X, "intervals": INTERVALS}, {"X": NOT_ROWS, "intervals": [*WRONG_TYPES, 5, None, "unknown", SETS]}
    ),
    "fit_temperature": (
        NuqClassifier(n_neighbors=5).fit(X, Y).fit_temperature,
        {"logits": LOGITS, "y": Y},
        {"logits": [*NOT_ROWS, LOGITS[:5]], "y": [*NOT_LABELS, np.full(60, 9)], "classes": [*WRONG_TYPES, 3.0, [0, 1]]},
    ),
    "decision_function": (CLASSIFIER.decision_function, {"X": X}, {"X": NOT_ROWS}),
    "predict_from": (
        CLASSIFIER.predict_from,
        {"X": X, "ids": np.tile(np.arange(5), (60, 1)), "distances": np.ones((60, 5)), "metric": "l2sq"},
        {
            "X": NOT_ROWS,
            "ids": [*WRONG_TYPES, None, 3.0, np.full((60, 5), 7), np.full((60, 5), -1), np.full((60, 5), 2**40), np.zeros((59, 5), int)],
            "distances": [*WRONG_TYPES, None, 3.0, -np.ones((60, 5)), np.full((60, 5), np.nan), np.full((60, 5), "a")],
            "metric": [*WRONG_TYPES, None, "euclidean", "cosine"],
            "rerank": [*WRONG_TYPES, None, 1],
        },
    ),
    "predict_proba_from": (
        CLASSIFIER.predict_proba_from,
        {"X": X, "ids": np.tile(np.arange(5), (60, 1)), "distances": np.ones((60, 5)), "metric": "l2sq"},
        {
            "X": NOT_ROWS,
            "ids": [*WRONG_TYPES, None, 3.0, np.full((60, 5), 7), np.full((60, 5), -1), np.full((60, 5), 2**40), np.zeros((59, 5), int)],
            "distances": [*WRONG_TYPES, None, 3.0, -np.ones((60, 5)), np.full((60, 5), np.nan), np.full((60, 5), "a")],
            "metric": [*WRONG_TYPES, None, "euclidean", "cosine"],
            "rerank": [*WRONG_TYPES, None, 1],
        },
    ),
    "measure": (
        CLASSIFIER.measure,
        {"X": X, "ids": np.tile(np.arange(5), (60, 1))},
        {
            "X": NOT_ROWS,
            "ids": [*WRONG_TYPES, None, 3.0, np.full((60, 5), 60), np.full((60, 5), -1), np.full((60, 5), 2**40), np.zeros((59, 5), int)],
        },
    ),
    "score": (
        CLASSIFIER.score,
        {"X": X, "y": Y},
        {"X": NOT_ROWS, "y": [None, 3.0, Y[:-1]], "sample_weight": [*WRONG_TYPES, "a", np.ones(59), -np.ones(60), np.zeros(60), np.full(60, np.nan)]},
    ),
    "score of a regressor": (
        REGRESSOR.score, {"X": X, "y": Y}, {"X": NOT_ROWS, "y": [*NOT_SCORES, Y[:-1]], "sample_weight": ["a", np.ones(59), -np.ones(60)]}
    ),
    "score_samples": (CLASSIFIER.score_samples, {"X": X}, {"X": NOT_ROWS}),
    "accept": (
        CLASSIFIER.accept, {"X": X, "cost": 0.1}, {"X": NOT_ROWS, "cost": [v for v in NOT_A_SHARE if v is not None], "level": [v for v in NOT_A_SHARE if v is not None]}
    ),
    "accept by a threshold": (
        CLASSIFIER.accept, {"X": X, "threshold": THRESHOLD}, {"threshold": [*WRONG_TYPES, 5, "unknown", None, [], [THRESHOLD, 5]], "level": [0.1]}
    ),
    "accept of a regressor": (REGRESSOR.accept, {"X": X, "threshold": REGRESSOR.calibrate(X, coverage=0.9)}, {"X": NOT_ROWS, "threshold": [*WRONG_TYPES, 5, "unknown", None, []]}),
    "calibrate to a coverage": (
        CLASSIFIER.calibrate,
        {"X": X, "coverage": 0.9},
        {
            "X": NOT_ROWS,
            "y": [*WRONG_TYPES, 3.0, Y[:-1]],
            "coverage": [*NOT_A_SHARE, 0, 1],
            "risk": [0.1],
            "delta": NOT_A_NUMBER[:-2],
            "measure": [v for v in NOT_A_CHOICE if v is not None],
            "name": [v for v in NOT_TEXT if v is not None],
            "logits": [*WRONG_TYPES, 3.0, np.zeros((60, 2)), np.zeros((59, 3)), np.full((60, 3), np.nan)],
        },
    ),
    "calibrate to sets": (
        CLASSIFIER.calibrate,
        {"X": X, "y": Y, "sets": 0.5},
        {
            "X": NOT_ROWS,
            "y": NOT_LABELS,
            "sets": [*NOT_A_SHARE, 0, 1],
            "set_score": NOT_A_CHOICE,
            "by_class": [*WRONG_TYPES, 5, None],
            "measure": ["total"],
            "name": [5, ""],
        },
    ),
    "calibrate to intervals": (
        REGRESSOR.calibrate,
        {"X": X, "y": X[:, 0], "intervals": 0.5},
        {"X": NOT_ROWS, "y": [*NOT_SCORES, Y[:-1]], "intervals": [*NOT_A_SHARE, 0, 1], "measure": ["total"], "name": [5, ""]},
    ),
    "calibrate to a risk": (CLASSIFIER.calibrate, {"X": X, "y": Y, "risk": 0.5}, {"risk": [*NOT_A_SHARE, 0, 1], "delta": [*NOT_A_SHARE, 0, 1], "y": [None]}),
    "calibrate to a false-alarm rate": (
        REGRESSOR.calibrate, {"X": X, "false_alarm": 0.1}, {"false_alarm": [*NOT_A_SHARE, 0, 1], "coverage": [0.1], "measure": [5, "nothing"], "name": [5, ""]}
    ),
    "kneighbors": (
        CLASSIFIER.kneighbors,
        {"X": X},
        {"X": [v for v in NOT_ROWS if v is not None], "n_neighbors": [*(v for v in NOT_A_COUNT if v is not None), 0, 61], "return_distance": ["a", None, 2], "output": NOT_A_CHOICE},
    ),
    "remove": (CLASSIFIER.remove, {"ids": []}, {"ids": [*WRONG_TYPES, "a", None, 0.5, [0.5], [-1], [60], [0, 0], np.ones(59, bool), np.ones((2, 2), int)]}),
    "suggest": (CLASSIFIER.suggest, {"X": X, "n": 3}, {"X": NOT_ROWS, "n": NOT_A_COUNT}),
    "suggest of a regressor": (REGRESSOR.suggest, {"X": X, "n": 3}, {"X": NOT_ROWS, "n": NOT_A_COUNT}),
    "save": (CLASSIFIER.save, {"path": "missing/model.nuq"}, {"path": [*NOT_A_PATH, "missing/model.nuq"]}),
    "final_step": (nuq.final_step, {"estimator": CLASSIFIER, "X": X}, {"estimator": [*WRONG_TYPES, None, NuqClassifier]}),
    "nuq.predict_uncertainty": (nuq.predict_uncertainty, {"estimator": CLASSIFIER, "X": X}, {"estimator": [*WRONG_TYPES, None, NuqClassifier()], "X": NOT_ROWS}),
    "Threshold": (nuq.Threshold, {}, {"inner": [*WRONG_TYPES, None]}),
    "Threshold.accept": (THRESHOLD.accept, {"uncertainty": SCORES}, {"uncertainty": [v for v in NOT_SCORES if not (isinstance(v, list) and v == [])]}),
    "conformal_p_values": (
        calibrate.conformal_p_values, {"calibration": SCORES, "scores": MORE}, {"calibration": NOT_SCORES, "scores": [v for v in NOT_SCORES if not (isinstance(v, list) and v == [])]}
    ),
    "martingale": (
        calibrate.martingale,
        {"held_out": SCORES, "scores": MORE, "alpha": 0.01, "seed": 0},
        {"held_out": NOT_SCORES, "scores": [v for v in NOT_SCORES if not (isinstance(v, list) and v == [])], "alpha": [*NOT_A_SHARE, 0, 1], "seed": NOT_A_COUNT},
    ),
    "benjamini_hochberg": (
        calibrate.benjamini_hochberg,
        {"p_values": [0.1], "level": 0.1},
        {"p_values": [*(v for v in NOT_SCORES if not (isinstance(v, list) and v == [])), [1.5], [-0.1]], "level": [*NOT_A_SHARE, 0, 1]},
    ),
    "evaluate": (
        nuq.evaluate,
        {"model": CLASSIFIER, "X": X, "y": Y, "resamples": 5},
        {
            "model": [*WRONG_TYPES, None, REGRESSOR, NuqClassifier()],
            "X": NOT_ROWS,
            "y": NOT_LABELS,
            "logits": [*WRONG_TYPES, 3.0, np.zeros((60, 2)), np.zeros((59, 3))],
            "members": [object(), 3.0, [np.zeros((59, 3))], [1.0]],
            "classes": [*WRONG_TYPES, 3.0, [], [0, 1], [0, 1, 2]],
            "ood": [object(), 3.0, "far", [X, X], {5: X}, {"": X}, {"far": 3.0}, {"test": X}, X[:, :2]],
            "ood_logits": [LOGITS, {"far": LOGITS}, 5, {5: LOGITS}],
            "ood_members": [{"far": [LOGITS]}, 5],
            "resamples": [*NOT_A_COUNT, 0],
            "seed": NOT_A_COUNT,
            "threshold": [5, "unknown", [THRESHOLD]],
            "device": [*NOT_A_CHOICE, "cuda:99"],
        },
    ),
    "Evaluation.report": (EVALUATION.report, {"path": "missing/page.html"}, {"path": [*NOT_A_PATH, "missing/page.html"]}),
    "Evaluation.figures": (EVALUATION.figures, {"folder": "missing/figures"}, {"folder": [*NOT_A_PATH, "missing/figures"]}),
    "Evaluation[]": (EVALUATION.__getitem__, {}, {"name": ["Magic", 5]}),
    "Uncertainty[]": (CLASSIFIER.predict_uncertainty(X).__getitem__, {}, {"key": ["Magic", 0.5, None, 60, [0.5], np.ones(59, bool), [60], "", object()]}),
    "fpr_at_tpr": (metrics.fpr_at_tpr, {"inliers": SCORES, "outliers": MORE}, {"tpr": NOT_A_SHARE}),
    "scod_risk": (
        metrics.scod_risk,
        {"inliers": SCORES, "is_error": WRONG, "outliers": MORE, "coverage": 0.5},
        {"inliers": NOT_SCORES, "is_error": NOT_FLAGS, "outliers": NOT_SCORES[:-1], "coverage": NOT_A_SHARE},
    ),
    "calibration_error": (
        metrics.calibration_error,
        {"confidence": np.full(30, 0.5), "is_correct": WRONG},
        {"confidence": [*NOT_SCORES, np.full(30, 1.5)], "is_correct": NOT_FLAGS, "bins": [*NOT_A_COUNT, 0]},
    ),
    "interval": (
        metrics.interval,
        {"metric": "roc_auc", "first": SCORES, "second": MORE, "resamples": 5},
        {"metric": NOT_A_CHOICE, "first": NOT_SCORES, "second": NOT_SCORES, "resamples": [*NOT_A_COUNT, 0], "seed": NOT_A_COUNT},
    ),
    "difference": (
        metrics.difference,
        {"metric": "roc_auc", "first": (SCORES, MORE), "second": (SCORES, MORE), "resamples": 5},
        {"metric": NOT_A_CHOICE, "first": [*WRONG_TYPES, None, 5, SCORES, (SCORES,)], "second": [5, (SCORES[1:], MORE)], "resamples": [*NOT_A_COUNT, 0]},
    ),
    "temperature": (baselines.temperature, {"logits": LOGITS, "classes": Y}, {"logits": NOT_ROWS, "classes": [*WRONG_TYPES, None, Y[:-1], np.full(60, 3), np.full(60, -1)]}),
    "Energy": (baselines.Energy, {}, {"temperature": [*NOT_A_NUMBER, 0.0, -1.0]}),
    "Gen": (baselines.Gen, {}, {"gamma": [*NOT_A_NUMBER, 0.0, -1.0], "top": [*NOT_A_COUNT, 0]}),
    "Ensemble": (baselines.Ensemble, {}, {"reduction": NOT_A_CHOICE}),
    "KnnDistance": (baselines.KnnDistance, {}, {"reduction": NOT_A_CHOICE}),
    "set_params of KnnDistance": (
        lambda reduction: baselines.KnnDistance(5).set_params(reduction=reduction).fit(X), {"reduction": "mean"}, {"reduction": NOT_A_CHOICE}
    ),
    "stores.verify": (
        stores.verify,
        {"store": Lists(), "model": CLASSIFIER},
        {
            "store": [*WRONG_TYPES, None],
            "model": [*WRONG_TYPES, None, NuqClassifier()],
            "queries": [v for v in NOT_ROWS if v is not None],
            "n_queries": [*NOT_A_COUNT, 0],
            "rerank": [*WRONG_TYPES, None, 1],
            "random_state": NOT_A_COUNT,
        },
    ),
    "score of a baseline": (
        baselines.MaxProb().score, {"logits": LOGITS}, {"logits": NOT_ROWS, "X": [3.0], "members": [5]}
    ),
    "score of an ensemble": (baselines.Ensemble().score, {"members": [LOGITS]}, {"members": [None, 5, [], [3.0], [LOGITS, LOGITS[:-1]]]}),
    "fit of a Gaussian baseline": (baselines.Ddu().fit, {"X": X, "y": Y}, {"X": NOT_ROWS, "y": NOT_LABELS}),
    "fit of ViM": (baselines.Vim().fit, {"X": X, "logits": LOGITS}, {"X": NOT_ROWS, "logits": NOT_ROWS}),
}
for _name in ("roc_auc", "average_precision", "average_precision_of_inliers", "detection_error", "roc_curve", "count_curve"):
    CALLS[_name] = (getattr(metrics, _name), {"inliers": SCORES, "outliers": MORE}, {"inliers": NOT_SCORES, "outliers": NOT_SCORES})
for _name in ("rcc_auc", "risk_coverage_curve", "prediction_rejection_ratio"):
    CALLS[_name] = (getattr(metrics, _name), {"uncertainty": SCORES, "is_error": WRONG}, {"uncertainty": NOT_SCORES, "is_error": NOT_FLAGS})
for _name in ("negative_log_likelihood", "brier_score"):
    CALLS[_name] = (
        getattr(metrics, _name),
        {"probabilities": np.full((60, 3), 1 / 3), "classes": Y},
        {"probabilities": [*NOT_ROWS, np.full((60, 3), 2.0)], "classes": [*WRONG_TYPES, None, Y[:-1], np.full(60, 3), np.full(60, -1), np.full(60, 0.5)]},
    )

#: Baselines that check their parameters in ``fit``. For each class: the second argument of ``fit``, and invalid parameters.
FITTED_BASELINES = {
    "Ddu": (Y, {"normalize": ["a", None, 2], "shrinkage": [*NOT_A_SHARE]}),
    "Mahalanobis": (Y, {"shrinkage": [*NOT_A_SHARE]}),
    "RelativeMahalanobis": (Y, {"shrinkage": [*NOT_A_SHARE]}),
    "KnnDistance": (Y, {"n_neighbors": [*NOT_A_COUNT, 0], "normalize": ["a"]}),
    "LocalOutlierFactor": (Y, {"n_neighbors": [*NOT_A_COUNT, 0], "normalize": ["a"]}),
    "Sngp": (
        Y,
        {
            "features": [*NOT_A_COUNT, 0],
            "length_scale": [*(v for v in NOT_A_NUMBER if v is not None), 0.0, -1.0],
            "ridge": [*NOT_A_NUMBER, 0.0, -1.0],
            "seed": NOT_A_COUNT,
            "reduction": NOT_A_CHOICE,
        },
    ),
    "Duq": (
        Y,
        {
            "projection": [*NOT_A_COUNT, 0],
            "length_scale": [*NOT_A_NUMBER, 0.0, -1.0],
            "momentum": [*NOT_A_SHARE],
            "steps": [*NOT_A_COUNT, 0],
            "batch": [*NOT_A_COUNT, 0],
            "learning_rate": [*NOT_A_NUMBER, 0.0, -1.0],
            "seed": NOT_A_COUNT,
        },
    ),
    "Vim": (LOGITS, {"principal": [*(v for v in NOT_A_COUNT if v is not None), 0, 3]}),
    "NnGuide": (LOGITS, {"n_neighbors": [*NOT_A_COUNT, 0]}),
    "React": (LOGITS, {"quantile": NOT_A_SHARE}),
}
for _name, (_second, _invalid) in FITTED_BASELINES.items():

    def _fit(_class=getattr(baselines, _name), _second=_second, **params):
        return _class(**params).fit(X, _second)

    CALLS[f"fit of {_name}"] = (_fit, {}, _invalid)


def _huq(aleatoric=SCORES, epistemic=SCORES, **params):
    return baselines.Huq(**params).fit(aleatoric, epistemic)


CALLS["Huq"] = (
    _huq,
    {},
    {
        "alpha": NOT_A_SHARE,
        "epistemic_quantile": NOT_A_SHARE,
        "aleatoric_quantile": NOT_A_SHARE,
        "aleatoric": NOT_SCORES,
        "epistemic": [*NOT_SCORES, SCORES[:-1]],
    },
)
CALLS["n_jobs"] = (lambda n_jobs: NuqClassifier(n_jobs=n_jobs).fit(X, Y), {}, {"n_jobs": ["a", 0, 0.5, True, 2**20, 2**70, [], object()]})

CASES = [(name, parameter, value) for name, (_, _, invalid) in CALLS.items() for parameter, values in invalid.items() for value in values]


#: Parameters whose name need not be in the error message, because the message contains a value of an array or the name of another
#: parameter.
NOT_IN_MESSAGE = {"risk", "coverage", "level", "unknown", "inner", "classes", "confidence", "probabilities"}


def case_id(value) -> str:
    return value if isinstance(value, str) else type(value).__name__


@pytest.mark.parametrize("name, parameter, value", CASES, ids=case_id)
def test_invalid_arguments_raise_an_exception_of_the_package(name, parameter, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function, valid, _ = CALLS[name]
    arguments = {**valid, parameter: value}
    positional = [arguments.pop(parameter)] if name.endswith("[]") else []
    with pytest.raises(NuqError) as caught:
        function(*positional, **arguments)
    assert str(caught.value).strip(), "the message is empty"
    if isinstance(caught.value, InvalidParameterError) and parameter not in NOT_IN_MESSAGE:
        assert parameter in str(caught.value), f"the message does not name {parameter}: {caught.value}"


# Left out are cases with missing arguments or with paths that do not exist, and partial_fit, which would change the models of other cases.
@pytest.mark.parametrize("name", [name for name in CALLS if name not in ("load", "load_guard", "save", "set_params", "Threshold", "Evaluation.report", "Evaluation.figures", "Evaluation[]", "Uncertainty[]", "n_jobs", "partial_fit", "partial_fit of a regressor", "remove_threshold")])
def test_the_valid_arguments_of_the_cases_are_accepted(name):
    function, valid, _ = CALLS[name]
    function(**valid)


def test_all_public_functions_have_cases():
    # The function guard has its own test file.
    tested = {name.split(" ")[0].split(".")[-1] for name in CALLS} | {"guard"}
    for module in (nuq, metrics, calibrate, baselines):
        for name in module.__all__:
            item = getattr(module, name)
            if inspect.isfunction(item):
                assert name in tested, f"{module.__name__}.{name}"
    for estimator in (NuqClassifier, NuqRegressor):
        methods = [name for name, _ in inspect.getmembers(estimator, inspect.isfunction) if not name.startswith("_")]
        without_arguments = {"get_params", "label_issues", "leave_one_out"}
        assert set(methods) - without_arguments <= tested, set(methods) - tested


def test_the_message_for_an_integer_that_is_too_large_states_the_limit():
    with pytest.raises(OutOfRangeError, match=r"^n_neighbors=9223372036854775808: expected an integer below 2\*\*63$"):
        NuqClassifier(n_neighbors=2**63).fit(X, Y)
    with pytest.raises(OutOfRangeError, match="^n_neighbors=0: expected an integer of at least 1$"):
        NuqClassifier(n_neighbors=0).fit(X, Y)


def test_errors_come_before_the_computation(monkeypatch):
    def unexpected(*_):
        raise AssertionError("the rows were searched")

    monkeypatch.setattr(NuqClassifier, "_predict_rows", unexpected)
    for arguments in ({"coverage": 1.5}, {"risk": 0.1}, {"false_alarm": 0.1, "name": 5}, {"coverage": 0.5, "measure": "x"}, {}):
        with pytest.raises(InvalidParameterError):
            CLASSIFIER.calibrate(X, **arguments)
    with pytest.raises(LengthMismatchError):
        CLASSIFIER.calibrate(X, Y[:-1], risk=0.1)
    with pytest.raises(NotFittedError):
        NuqClassifier().calibrate(X, coverage=0.5)
