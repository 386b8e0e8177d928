//! Compares scores and metrics with stored outputs of pytorch-ood, scikit-learn and scipy for the same arrays.
//! `crates/nuq-testkit/scripts/compare_with_peers.py` writes these outputs and the versions of the packages.

use nuq::{Embeddings, Shrinkage};
use nuq_eval::baselines::{
    Batch, Energy, Ensemble, Entropy, Fdbd, Gen, Head, KnnDistance, LocalOutlierFactor, Mahalanobis,
    MaxLogit, MaxProb, Members, NnGuide, Normalized, React, Reduction, RelativeMahalanobis, Scorer, Vim,
};
use nuq_eval::metrics::{Detection, brier_score, negative_log_likelihood, rcc_auc};
use serde_json::Value;

/// Tolerance of the `float32` arithmetic of torch, relative to `max(|score|, 1)`.
const SINGLE: f64 = 1e-5;
/// Tolerance of the `float32` scores of torch that are computed from an inverted covariance, relative to `max(|score|, 1)`.
const INVERTED: f64 = 1e-4;
/// Tolerance of `float64` arithmetic, relative to `max(|score|, 1)`.
const DOUBLE: f64 = 1e-9;

/// The stored arrays, scores and metrics.
struct Peers(Value);

impl Peers {
    fn read() -> Self {
        Self(serde_json::from_str(include_str!("../data/peers/peers.json")).unwrap())
    }

    fn number(&self, name: &str) -> usize {
        self.0["shape"][name].as_u64().unwrap() as usize
    }

    fn array(&self, name: &str, columns: usize) -> Embeddings<'static> {
        Embeddings::from_f64(&numbers(&self.0["arrays"][name]), columns).unwrap()
    }

    fn labels(&self) -> Vec<i64> {
        self.0["labels"].as_array().unwrap().iter().map(|label| label.as_i64().unwrap()).collect()
    }

    fn head(&self) -> Head {
        Head::new(&self.array("weights", self.number("columns")), &numbers(&self.0["bias"])).unwrap()
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

fn flags(value: &Value) -> Vec<bool> {
    value.as_array().unwrap().iter().map(|v| v.as_bool().unwrap()).collect()
}

fn assert_close(what: &str, ours: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(ours.len(), expected.len(), "{what}");
    for (row, (a, b)) in ours.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{what}, row {row}: {a}, expected {b}");
    }
}

#[test]
fn scores_equal_those_of_pytorch_ood() {
    let peers = Peers::read();
    let (columns, k) = (peers.number("columns"), peers.number("k"));
    let (x, queries) = (peers.array("x", columns), peers.array("queries", columns));
    let (logits, train) = (
        peers.array("logits", peers.number("classes")),
        peers.array("train_logits", peers.number("classes")),
    );
    let batch = Batch { embeddings: Some(&queries), logits: Some(&logits), ..Batch::default() };
    let head = peers.head();
    // The scores of pytorch-ood differ by a factor and a constant.
    let compare = |name: &str, scorer: &dyn Scorer, factor: f64, constant: f64| {
        let expected: Vec<f64> =
            numbers(&peers.0["float32"][name]).iter().map(|v| factor * v + constant).collect();
        assert_close(name, &scorer.score(&batch).unwrap(), &expected, SINGLE);
    };
    // pytorch-ood: −max p instead of 1 − max p.
    compare("MaxProb", &MaxProb, 1.0, 1.0);
    compare("Entropy", &Entropy, 1.0, 0.0);
    compare("MaxLogit", &MaxLogit, 1.0, 0.0);
    compare("Energy", &Energy::default(), 1.0, 0.0);
    compare("Energy, T = 2.5", &Energy::new(2.5).unwrap(), 1.0, 0.0);
    // pytorch-ood: the mean over classes instead of the sum.
    compare("GEN", &Gen::new(0.1, 100).unwrap(), 4.0, 0.0);
    compare("GEN, M = 2", &Gen::new(0.3, 2).unwrap(), 2.0, 0.0);
    compare("kNN distance", &KnnDistance::kth(&x, k).unwrap(), 1.0, 0.0);
    let normalized = KnnDistance::kth(&x.l2_normalized(), k).unwrap();
    compare("kNN distance, L2", &Normalized::new(normalized), 1.0, 0.0);
    compare("ViM", &Vim::fit(&x, &head, Some(peers.number("principal"))).unwrap(), 1.0, 0.0);
    compare("fDBD", &Fdbd::fit(&x, &head).unwrap(), 1.0, 0.0);
    compare("NNGuide", &NnGuide::fit(&x, &train, k).unwrap(), 1.0, 0.0);
    compare("ReAct", &React::fit(&x, &head, 0.9).unwrap(), 1.0, 0.0);
}

/// The covariances of pytorch-ood are sums over rows instead of means. This divides squared distances by the number of
/// rows. pytorch-ood also halves the score "Mahalanobis", but not the score "relative Mahalanobis". The ridge of 1e-6 that
/// pytorch-ood adds to the diagonal of the sum is negligible.
#[test]
fn mahalanobis_distances_equal_those_of_pytorch_ood_up_to_a_factor() {
    let peers = Peers::read();
    let columns = peers.number("columns");
    let (x, queries) = (peers.array("x", columns), peers.array("queries", columns));
    let batch = Batch { embeddings: Some(&queries), ..Batch::default() };
    let (rows, none) = (x.len() as f64, Shrinkage::Fixed(0.0));
    let compare = |name: &str, scorer: &dyn Scorer, factor: f64| {
        let expected: Vec<f64> = numbers(&peers.0["float32"][name]).iter().map(|v| factor * v).collect();
        assert_close(name, &scorer.score(&batch).unwrap(), &expected, INVERTED);
    };
    compare("Mahalanobis", &Mahalanobis::fit(&x, &peers.labels(), none).unwrap(), 2.0 * rows);
    let relative = RelativeMahalanobis::fit(&x, &peers.labels(), none).unwrap();
    compare("relative Mahalanobis", &relative, rows);
}

#[test]
fn scores_equal_those_of_scikit_learn_and_scipy() {
    let peers = Peers::read();
    let (columns, classes, k) = (peers.number("columns"), peers.number("classes"), peers.number("k"));
    let (x, queries) = (peers.array("x", columns), peers.array("queries", columns));
    let member = |values: &Value| Embeddings::from_f64(&numbers(values), classes).unwrap();
    let members = peers.0["members"].as_array().unwrap().iter().map(member).collect();
    let members = Members::new(members).unwrap();
    let batch = Batch { embeddings: Some(&queries), members: Some(&members), ..Batch::default() };
    let compare = |name: &str, scorer: &dyn Scorer| {
        let expected = numbers(&peers.0["float64"][name]);
        assert_close(name, &scorer.score(&batch).unwrap(), &expected, DOUBLE);
    };
    compare("LOF", &LocalOutlierFactor::fit(&x, k).unwrap());
    compare("mean kNN distance", &KnnDistance::mean(&x, k).unwrap());
    let shrunk = Mahalanobis::fit(&x, &peers.labels(), Shrinkage::LedoitWolf).unwrap();
    compare("Mahalanobis, Ledoit-Wolf", &shrunk);
    compare("ensemble entropy", &Ensemble(Reduction::Entropy));
    compare("ensemble mean entropy", &Ensemble(Reduction::MeanEntropy));
    compare("ensemble mutual information", &Ensemble(Reduction::MutualInformation));
}

#[test]
fn metrics_equal_those_of_scikit_learn_and_pytorch_ood() {
    let peers = Peers::read();
    for kind in ["untied", "tied"] {
        let stored = &peers.0["detection"][kind];
        let close = |name: &str, ours: f64, expected: &Value| {
            assert_close(&format!("{kind} {name}"), &[ours], &[expected.as_f64().unwrap()], DOUBLE);
        };
        let (inliers, outliers) = (numbers(&stored["inliers"]), numbers(&stored["outliers"]));
        let detection = Detection::new(&inliers, &outliers).unwrap();
        close("ROC-AUC", detection.roc_auc(), &stored["roc_auc"]);
        close("ROC-AUC of pytorch-ood", detection.roc_auc(), &stored["torch"]["AUROC"]);
        close("average precision", detection.average_precision(), &stored["average_precision"]);
        let of_inliers = detection.average_precision_of_inliers();
        close("average precision of inliers", of_inliers, &stored["average_precision_of_inliers"]);
        close("FPR at 95", detection.fpr_at_tpr(0.95), &stored["torch"]["FPR95TPR"]);
        close("FPR at 80", detection.fpr_at_tpr(0.8), &stored["torch_fpr_at_80"]);
        let curve: (Vec<f64>, Vec<f64>) = detection.curve().into_iter().unzip();
        assert_close("false positive rates", &curve.0, &numbers(&stored["fpr"]), DOUBLE);
        assert_close("true positive rates", &curve.1, &numbers(&stored["tpr"]), DOUBLE);
        // pytorch-ood interpolates the precision-recall curve linearly, average precision uses steps: the two differ.
        let area = trapezoids(&inliers, &outliers);
        close("area under precision and recall", area, &stored["torch"]["AUPR-OUT"]);
        assert!((area - detection.average_precision()).abs() > 1e-4);
        // The mean accuracy of accepted rows is one minus the mean risk. pytorch-ood orders tied rows arbitrarily, so
        // only untied scores are compared.
        if kind == "untied" {
            let expected = 1.0 - stored["torch_aurra"].as_f64().unwrap();
            assert_close(
                "RCC-AUC",
                &[rcc_auc(&inliers, &flags(&stored["errors"])).unwrap()],
                &[expected],
                DOUBLE,
            );
        }
    }
}

/// The area under a precision-recall curve of straight lines, which starts at recall 0 and precision 1 and has one
/// point per threshold.
fn trapezoids(inliers: &[f64], outliers: &[f64]) -> f64 {
    let above = |scores: &[f64], t: f64| scores.iter().filter(|s| **s >= t).count() as f64;
    let mut thresholds = [inliers, outliers].concat();
    thresholds.sort_by(|a, b| b.total_cmp(a));
    thresholds.dedup();
    let (mut area, mut before) = (0.0, (0.0, 1.0));
    for t in thresholds {
        let true_positives = above(outliers, t);
        let precision = true_positives / (true_positives + above(inliers, t));
        let point = (true_positives / outliers.len() as f64, precision);
        area += (point.0 - before.0) * (point.1 + before.1) / 2.0;
        before = point;
    }
    area
}

#[test]
fn losses_equal_those_of_scikit_learn() {
    let peers = Peers::read();
    let stored = &peers.0["probabilities"];
    let close =
        |name: &str, ours: f64| assert_close(name, &[ours], &[stored[name].as_f64().unwrap()], DOUBLE);
    let truth: Vec<u32> = numbers(&stored["truth"]).iter().map(|class| *class as u32).collect();
    let p = numbers(&stored["p"]);
    close("log_loss", negative_log_likelihood(&p, 3, &truth).unwrap());
    close("brier", brier_score(&p, 3, &truth).unwrap());
    // For two classes, the Brier score of scikit-learn has the term of one class only. nuq adds the terms of both classes.
    let both: Vec<f64> = numbers(&stored["two_p"]).iter().flat_map(|p| [1.0 - p, *p]).collect();
    let truth: Vec<u32> = flags(&stored["two_truth"]).iter().map(|is| u32::from(*is)).collect();
    close("two_brier", brier_score(&both, 2, &truth).unwrap() / 2.0);
}
