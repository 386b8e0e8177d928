"""docs/python/migrating-from-others.md states how the numbers of other libraries correspond to the numbers of nuq. These tests check the
statements with the other libraries."""

from __future__ import annotations

import numpy as np
import pytest

from nuq import NuqClassifier, NuqRegressor, baselines


@pytest.fixture(scope="module")
def rows() -> dict[str, np.ndarray]:
    """Embeddings of three classes, and the weights and bias of a linear layer that computes logits from them."""
    rng = np.random.default_rng(5)
    y = np.arange(600) % 3
    x = (3 * rng.normal(size=(3, 12))[y] + rng.normal(size=(600, 12))).astype(np.float32)
    weights, bias = rng.normal(size=(3, 12)).astype(np.float32), rng.normal(size=3).astype(np.float32)
    return {"x": x, "y": y, "new": (x[:50] + rng.normal(size=(50, 12))).astype(np.float32), "weights": weights, "bias": bias}


def logits(rows, name: str) -> np.ndarray:
    return rows[name] @ rows["weights"].T + rows["bias"]


class TestPytorchOod:
    @pytest.fixture(autouse=True)
    def packages(self):
        pytest.importorskip("pytorch_ood")

    def scored(self, detector, rows) -> np.ndarray:
        import torch

        detector.fit_features(torch.from_numpy(rows["x"]), torch.from_numpy(rows["y"]))
        return detector.predict_features(torch.from_numpy(rows["new"])).numpy()

    def test_scores_of_logits_correspond(self, rows):
        import torch
        from pytorch_ood.detector import EnergyBased, MaxLogit, MaxSoftmax

        matrix = logits(rows, "new")
        tensor = torch.from_numpy(matrix)
        np.testing.assert_allclose(baselines.Energy().score(logits=matrix), EnergyBased.score(tensor).numpy(), rtol=1e-5)
        np.testing.assert_allclose(baselines.Energy(2.5).score(logits=matrix), EnergyBased.score(tensor, t=2.5).numpy(), rtol=1e-5)
        np.testing.assert_allclose(baselines.MaxLogit().score(logits=matrix), MaxLogit.score(tensor).numpy(), rtol=1e-6)
        np.testing.assert_allclose(baselines.MaxProb().score(logits=matrix), 1 + MaxSoftmax.score(tensor).numpy(), atol=1e-6)

    @pytest.mark.parametrize("normalize", [True, False])
    def test_knn_scores_correspond(self, rows, normalize):
        from pytorch_ood.detector import KNN

        theirs = self.scored(KNN(None, k=7, normalize=normalize), rows)
        ours = baselines.KnnDistance(7, normalize=normalize).fit(rows["x"]).score(rows["new"])
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)

    def test_mahalanobis_scores_correspond(self, rows):
        from pytorch_ood.detector import Mahalanobis

        theirs = self.scored(Mahalanobis(None), rows)
        ours = baselines.Mahalanobis(shrinkage=0.0).fit(rows["x"], rows["y"]).score(rows["new"])
        # pytorch-ood halves the squared distance and does not divide the covariance by the number of rows.
        np.testing.assert_allclose(ours, 2 * len(rows["x"]) * theirs, rtol=1e-3)

    def test_relative_mahalanobis_scores_correspond(self, rows):
        from pytorch_ood.detector import RMD

        theirs = self.scored(RMD(None), rows)
        ours = baselines.RelativeMahalanobis(shrinkage=0.0).fit(rows["x"], rows["y"]).score(rows["new"])
        # pytorch-ood does not divide the covariance by the number of rows.
        np.testing.assert_allclose(ours, len(rows["x"]) * theirs, rtol=1e-3, atol=1e-3)

    def test_vim_scores_correspond(self, rows):
        import torch
        from pytorch_ood.detector import ViM

        theirs = self.scored(ViM(None, 4, torch.from_numpy(rows["weights"]), torch.from_numpy(rows["bias"])), rows)
        ours = baselines.Vim(principal=4).fit(rows["x"], logits(rows, "x")).score(rows["new"], logits(rows, "new"))
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)


class TestPyod:
    @pytest.fixture(autouse=True)
    def packages(self):
        pytest.importorskip("pyod")

    @pytest.mark.parametrize(("method", "reduction"), [("largest", "kth"), ("mean", "mean")])
    def test_knn_scores_correspond(self, rows, method, reduction):
        from pyod.models.knn import KNN

        theirs = KNN(n_neighbors=9, method=method).fit(rows["x"]).decision_function(rows["new"])
        ours = baselines.KnnDistance(9, reduction=reduction).fit(rows["x"]).score(rows["new"])
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)

    def test_lof_scores_correspond(self, rows):
        from pyod.models.lof import LOF

        theirs = LOF(n_neighbors=9).fit(rows["x"]).decision_function(rows["new"])
        ours = baselines.LocalOutlierFactor(9).fit(rows["x"]).score(rows["new"])
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


class TestCleanlab:
    @pytest.fixture(autouse=True)
    def packages(self):
        pytest.importorskip("cleanlab")

    def test_issues_equal_those_of_cleanlab_for_leave_one_out_probabilities(self, rows):
        """The probabilities of each row come from a model that is fitted to all other rows."""
        from cleanlab.filter import find_label_issues
        from cleanlab.rank import get_self_confidence_for_each_label

        rng = np.random.default_rng(0)
        x, labels = rows["x"][:150], rows["y"][:150].copy()
        wrong = rng.choice(150, 12, replace=False)
        labels[wrong] = (labels[wrong] + 1) % 3
        model = NuqClassifier(bandwidth=1.5, prior_weight=0.0).fit(x, labels)
        left_out = np.concatenate(
            [
                NuqClassifier(bandwidth=1.5, prior_weight=0.0).fit(np.delete(x, i, axis=0), np.delete(labels, i)).predict_proba(x[i : i + 1])
                for i in range(150)
            ]
        )
        theirs = find_label_issues(
            labels, left_out, filter_by="predicted_neq_given", return_indices_ranked_by="self_confidence", n_jobs=1
        )
        issues = model.label_issues()
        assert set(issues.row) == set(theirs) and set(wrong) <= set(theirs)
        confidence = get_self_confidence_for_each_label(labels, left_out)
        np.testing.assert_allclose(issues.probability, confidence[issues.row], atol=1e-6)


class TestMapie:
    @pytest.fixture(autouse=True)
    def packages(self):
        pytest.importorskip("mapie")

    @pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
    def test_sets_are_equal(self, cifar10, level):
        from mapie.classification import SplitConformalClassifier

        train, held_out, test = (cifar10[name] for name in ("train", "held_out", "test"))
        model = NuqClassifier().fit(train["embeddings"], train["labels"])
        theirs = SplitConformalClassifier(model, confidence_level=level, conformity_score="lac", prefit=True)
        theirs.conformalize(held_out["embeddings"], held_out["labels"])
        _, sets = theirs.predict_set(test["embeddings"])
        rule = model.calibrate(held_out["embeddings"], held_out["labels"], sets=level)
        np.testing.assert_array_equal(model.predict_set(test["embeddings"], rule), sets[:, :, 0])

    def test_intervals_cover_the_same_share_and_only_those_of_nuq_have_different_widths(self):
        from mapie.regression import SplitConformalRegressor

        rng = np.random.default_rng(0)
        x = rng.uniform(0, 4, size=(3000, 1))
        y = np.sin(3 * x[:, 0]) + rng.normal(size=3000) * (0.05 + 0.2 * x[:, 0])
        model = NuqRegressor().fit(x[:1000], y[:1000])
        theirs = SplitConformalRegressor(model, confidence_level=0.9, prefit=True)
        theirs.conformalize(x[1000:2000], y[1000:2000])
        _, bands = theirs.predict_interval(x[2000:])
        ours = model.predict_interval(x[2000:], model.calibrate(x[1000:2000], y[1000:2000], intervals=0.9))

        def covered(band: np.ndarray) -> float:
            return float(((band[:, 0] <= y[2000:]) & (y[2000:] <= band[:, 1])).mean())

        # The intervals of both libraries have a coverage of 90 %. The tolerance is six standard deviations of the measured share, for 1000
        # held-out and 1000 new rows.
        for band in (ours, bands[:, :, 0]):
            assert abs(covered(band) - 0.9) < 6 * np.sqrt(2 * 0.9 * 0.1 / 1000)
        assert np.ptp(bands[:, 1, 0] - bands[:, 0, 0]) < 1e-9
        widths = ours[:, 1] - ours[:, 0]
        assert widths[x[2000:, 0] > 3].mean() > 2 * widths[x[2000:, 0] < 1].mean()
