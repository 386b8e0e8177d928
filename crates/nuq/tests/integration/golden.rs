//! Parity with the implementation of the paper's authors on stored neighbors (see golden/README.md).

use std::path::{Path, PathBuf};

use nuq::bandwidth::{improved_sheather_jones, improved_sheather_jones_kdepy, scott, silverman};
use nuq::{
    Bandwidth, Density, DensityBandwidth, Embeddings, FittedModel, Kernel, Neighbors, NuqClassifier,
    NuqRegressor, Scale, Variance,
};
use nuq_testkit::golden::Golden;
use nuq_testkit::oracle::log_sum_exp;

/// The folder in the repository, and the folder with the complete outputs if `NUQ_DATA` names a folder that contains
/// it.
fn folders() -> Vec<PathBuf> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")];
    match std::env::var_os("NUQ_DATA").map(|data| Path::new(&data).join("golden")) {
        Some(whole) if whole.is_dir() => folders.push(whole),
        _ => eprintln!("NUQ_DATA names no folder with `golden`: only the part in the repository is checked"),
    }
    folders
}

const KINDS: [&str; 3] = ["scalar", "perdim", "perpoint"];
const KERNELS: [(&str, Kernel); 2] = [("RBF", Kernel::Gaussian), ("student", Kernel::Student)];
const PRIORS: [(&str, f64); 2] = [("off", 0.0), ("0", 1.0)];

/// One stored data set.
struct Set {
    file: Golden,
    train: Vec<Vec<f64>>,
    queries: Vec<Vec<f64>>,
}

impl Set {
    fn open(path: &Path) -> Self {
        let mut file = Golden::open(path);
        let (train, queries) = (file.rows("X_train"), file.rows("X_query"));
        Self { file, train, queries }
    }

    fn has(&mut self, array: &str) -> bool {
        self.file.names().iter().any(|name| name == array)
    }

    fn bandwidth(&mut self, kind: &str) -> Bandwidth {
        let values = self.file.values(&format!("bandwidth_{kind}"));
        match kind {
            "scalar" => Bandwidth::Scalar(values[0]),
            "perdim" => Bandwidth::PerDimension(values),
            _ => Bandwidth::PerPoint(values),
        }
    }

    /// Stored neighbors with distances in the space of the bandwidth. The distances are computed in f64 from the f64
    /// data, which are more precise than the f32 embeddings.
    fn neighbors(&mut self, array: &str, bandwidth: &Bandwidth) -> Neighbors {
        let ids = self.file.rows(array);
        let k = ids[0].len();
        let mut sq = Vec::new();
        for (q, ids) in self.queries.iter().zip(&ids) {
            for &id in ids {
                let x = &self.train[id as usize];
                let h = |j: usize| match bandwidth {
                    Bandwidth::PerDimension(h) => h[j],
                    _ => 1.0,
                };
                sq.push((0..q.len()).map(|j| ((q[j] - x[j]) / h(j)).powi(2)).sum());
            }
        }
        Neighbors::new(k, ids.iter().flatten().map(|&id| id as u32).collect(), sq).unwrap()
    }
}

fn embeddings(rows: &[Vec<f64>]) -> Embeddings<'static> {
    Embeddings::from_f64(&rows.concat(), rows[0].len()).unwrap()
}

fn relative(got: f64, want: f64) -> f64 {
    (got - want).abs() / want.abs().max(1.0)
}

#[test]
fn classifiers_agree_with_the_reference() {
    let mut compared = 0;
    for folder in folders() {
        for (name, tolerance) in [("blobs2d", 1e-12), ("cls20d", 1e-12), ("cls20d_f32in", 1e-6)] {
            let mut set = Set::open(&folder.join(format!("{name}.npz")));
            let labels: Vec<i64> = set.file.values("y_train").iter().map(|&v| v as i64).collect();
            let (x, q) = (embeddings(&set.train), embeddings(&set.queries));
            for kind in KINDS {
                for (kernel_name, kernel) in KERNELS {
                    for (prior_name, weight) in PRIORS {
                        let suffix = format!("{kind}_{kernel_name}_{prior_name}");
                        if !set.has(&format!("pred_{suffix}")) {
                            continue;
                        }
                        let bandwidth = set.bandwidth(kind);
                        let model = NuqClassifier::params()
                            .kernel(kernel)
                            .bandwidth(bandwidth.clone())
                            .prior_weight(weight)
                            .variance(Variance::Max)
                            .scale(Scale::Ambient)
                            .density(Density::Kde { bandwidth: DensityBandwidth::Same })
                            .fit(&x, &labels)
                            .unwrap();
                        let predictions =
                            model.predict_from(&q, &set.neighbors("neighbors_exact", &bandwidth)).unwrap();
                        let pred = set.file.values(&format!("fixed_pred_{suffix}"));
                        let reference_pred = set.file.values(&format!("pred_{suffix}"));
                        let logproba = set.file.values(&format!("fixed_logproba_{suffix}"));
                        let reference_logproba = set.file.values(&format!("logproba_{suffix}"));
                        let logepi = set.file.values(&format!("fixed_logepi_{suffix}"));
                        for i in 0..pred.len() {
                            let place = format!("{name} {suffix} query {i}");
                            assert_eq!(predictions.label(i).to_string(), pred[i].to_string(), "{place}");
                            assert_eq!(pred[i], reference_pred[i], "{place}");
                            let log_top = predictions[i].probability.ln();
                            assert!(relative(log_top, logproba[i]) < tolerance, "{place}: probability");
                            assert!(
                                relative(log_top, reference_logproba[i]) < tolerance,
                                "{place}: reference"
                            );
                            // The intended epistemic value is v / (S + w) with v = p (1 − p). It is computed from the
                            // standard error τ of nuq: with the same bandwidth for posterior and density, τ² = ‖K‖² v / (K(0) S).
                            let d = model.dimension();
                            let log_s = log_kernel_sum(predictions.neighbors(), i, &bandwidth, kernel);
                            let log_v = 2.0 * predictions[i].log_standard_error - kernel.log_sq_norm(d)
                                + kernel.log_peak(d)
                                + log_s;
                            if logepi[i] < -1e8 {
                                assert_eq!(
                                    predictions[i].log_epistemic,
                                    f64::NEG_INFINITY,
                                    "{place}: one class"
                                );
                            } else {
                                let got = log_v - log_sum_exp(&[log_s, weight.ln()]);
                                assert!(relative(got, logepi[i]) < tolerance, "{place}: {got} {}", logepi[i]);
                            }
                            compared += 1;
                        }
                        if set.has(&format!("api_pred_{suffix}")) {
                            compared += check_api(&mut set, &model, &q, &suffix, &bandwidth);
                        }
                    }
                }
            }
        }
    }
    assert!(compared > 1000, "only {compared} rows were compared");
}

/// `ln S`, the log of the sum of the neighbors' kernel values relative to `K(0)`.
fn log_kernel_sum(neighbors: &Neighbors, i: usize, bandwidth: &Bandwidth, kernel: Kernel) -> f64 {
    let log_ratio = |(&id, sq): (&u32, &f64)| {
        let z2 = match bandwidth {
            Bandwidth::Scalar(h) => sq / h.powi(2),
            Bandwidth::PerDimension(_) => *sq,
            Bandwidth::PerPoint(h) => sq / h[id as usize].powi(2),
        };
        if kernel == Kernel::Gaussian { -0.5 * z2 } else { -(0.5 * z2).ln_1p() }
    };
    let neighborhood = neighbors.ids(i).iter().zip(neighbors.sq_distances(i));
    log_sum_exp(&neighborhood.map(log_ratio).collect::<Vec<f64>>())
}

/// Compares with the outputs of the public API of the reference, in f32 with approximate neighbors.
fn check_api(
    set: &mut Set,
    model: &NuqClassifier<'_>,
    q: &Embeddings<'_>,
    suffix: &str,
    bandwidth: &Bandwidth,
) -> usize {
    let neighbors = set.neighbors(&format!("api_neighbors_{suffix}"), bandwidth);
    let predictions = model.predict_from(q, &neighbors).unwrap();
    let pred = set.file.values(&format!("api_pred_{suffix}"));
    let logproba = set.file.values(&format!("api_logproba_{suffix}"));
    let logepi = set.file.values(&format!("api_logepi_{suffix}"));
    let kernel = model.kernel();
    let log_constant = kernel.log_sq_norm(model.dimension()) - kernel.log_peak(model.dimension());
    for i in 0..pred.len() {
        // With a prior the reference's epistemic term is wrong (golden/README.md); without a prior it is v / S.
        if suffix.ends_with("_off") && logepi[i] > -1e8 {
            let got = 2.0 * predictions[i].log_standard_error - log_constant;
            assert!(relative(got, logepi[i]) < 1e-5, "api {suffix} query {i}: {got} {}", logepi[i]);
        }
        assert_eq!(predictions.label(i).to_string(), pred[i].to_string(), "api {suffix} query {i}");
        assert!(relative(predictions[i].probability.ln(), logproba[i]) < 1e-5, "api {suffix} query {i}");
    }
    pred.len()
}

#[test]
fn regressors_agree_with_the_reference() {
    let mut compared = 0;
    for folder in folders() {
        let mut set = Set::open(&folder.join("reg50d.npz"));
        let targets = set.file.values("y_train");
        let (x, q) = (embeddings(&set.train), embeddings(&set.queries));
        for kind in KINDS {
            for (kernel_name, kernel) in KERNELS {
                for (prior_name, weight) in PRIORS {
                    let suffix = format!("{kind}_{kernel_name}_{prior_name}");
                    let bandwidth = set.bandwidth(kind);
                    let model = NuqRegressor::params()
                        .kernel(kernel)
                        .bandwidth(bandwidth.clone())
                        .prior_weight(weight)
                        .scale(Scale::Ambient)
                        .density(Density::Kde { bandwidth: DensityBandwidth::Same })
                        .fit(&x, &targets)
                        .unwrap();
                    let mut check = |prefix: &str, array: &str, tolerance: f64, log_tolerance: f64| {
                        let estimates = model.predict_from(&q, &set.neighbors(array, &bandwidth)).unwrap();
                        let mean = set.file.values(&format!("{prefix}ypr_{suffix}"));
                        let logvar = set.file.values(&format!("{prefix}logvar_{suffix}"));
                        let logepi = set.file.values(&format!("{prefix}logepi_{suffix}"));
                        for i in 0..mean.len() {
                            let place = format!("{prefix}{suffix} query {i}");
                            assert!(relative(estimates[i].mean, mean[i]) < tolerance, "{place}: mean");
                            compared += 1;
                            let usable = logvar[i] > -20.0 || !suffix.ends_with("RBF_off");
                            if !usable {
                                continue;
                            }
                            let got = estimates[i].log_aleatoric;
                            assert!(relative(got, logvar[i]) < log_tolerance, "{place}: {got} {}", logvar[i]);
                            // The log epistemic of the reference is log σ² − log(S + w). S is computed from
                            // τ²/σ² = ‖K‖² / (K(0) S).
                            let d = model.dimension();
                            let log_scale = estimates[i].log_epistemic - estimates[i].log_aleatoric;
                            let log_s = kernel.log_sq_norm(d) - kernel.log_peak(d) - log_scale;
                            let got = estimates[i].log_aleatoric - log_sum_exp(&[log_s, weight.ln()]);
                            assert!(relative(got, logepi[i]) < log_tolerance, "{place}: epistemic");
                        }
                    };
                    // Tolerances for the cancellation in the reference's variances; see golden/README.md.
                    let log_tolerance = match (kernel_name, prior_name, kind) {
                        ("RBF", "off", "perdim") => 1e-8,
                        ("RBF", "off", _) => 1e-5,
                        _ => 1e-12,
                    };
                    check("", "neighbors_exact", 1e-12, log_tolerance);
                    if suffix == "scalar_RBF_0" || suffix.contains("student") {
                        let has_api = Golden::open(&folder.join("reg50d.npz"))
                            .names()
                            .contains(&format!("api_ypr_{suffix}"));
                        if has_api {
                            check("api_", &format!("api_neighbors_{suffix}"), 1e-5, 1e-5);
                        }
                    }
                }
            }
        }
    }
    assert!(compared > 300, "only {compared} rows were compared");
}

#[test]
fn automatic_bandwidths_agree_with_the_reference() {
    let mut wide = 0;
    for folder in folders() {
        let mut stored = Golden::open(&folder.join("auto_bandwidths.npz"));
        for name in ["blobs2d", "cls20d"] {
            let train = Golden::open(&folder.join(format!("{name}.npz"))).rows("X_train");
            for (j, column) in
                (0..train[0].len()).map(|j| (j, train.iter().map(|r| r[j]).collect::<Vec<f64>>()))
            {
                let mut check = |rule: &str, got: Option<f64>, tolerance: f64| {
                    let want = stored.values(&format!("{name}_{rule}"))[j];
                    let got = got.unwrap();
                    assert!((got / want - 1.0).abs() < tolerance, "{name} {rule} {j}: {got} {want}");
                };
                check("silverman", silverman(&column), 1e-12);
                check("scott", scott(&column), 1e-12);
                // The reference stops its root search at an absolute error of 2e-12 in t ≈ 3e-4.
                check("isj", improved_sheather_jones_kdepy(&column), 1e-8);
                // The grid of the reference extends beyond the data by half of their range, but at least by 6. If the range is at
                // least 12, the grid is the same as in nuq, and the reference differs only by the factor ½.
                let range = column.iter().copied().fold(f64::MIN, f64::max)
                    - column.iter().copied().fold(f64::MAX, f64::min);
                if range >= 12.0 {
                    check("isj", improved_sheather_jones(&column).map(|h| 0.5 * h), 1e-8);
                    wide += 1;
                }
            }
        }
    }
    assert!(wide > 0, "no stored column is wide enough");
}

/// Leave-one-out on exact neighbors differs intentionally from the cross-validation of the reference. Only the order of
/// magnitude of the bandwidth must be the same.
#[test]
fn selected_bandwidths_are_within_a_factor_of_four_of_the_reference() {
    for folder in folders() {
        let mut stored = Golden::open(&folder.join("auto_bandwidths.npz"));
        for name in ["blobs2d", "cls20d"] {
            let mut set = Set::open(&folder.join(format!("{name}.npz")));
            let labels: Vec<i64> = set.file.values("y_train").iter().map(|&v| v as i64).collect();
            let model = NuqClassifier::paper().fit(&embeddings(&set.train), &labels).unwrap();
            let Bandwidth::Scalar(h) = model.bandwidth() else { panic!("a scalar") };
            let want = stored.values(&format!("{name}_classification"))[0];
            assert!((0.25..4.0).contains(&(h / want)), "{name}: {h} {want}");
        }
        let mut set = Set::open(&folder.join("reg50d.npz"));
        let targets = set.file.values("y_train");
        let model = NuqRegressor::params().prior_weight(0.0).fit(&embeddings(&set.train), &targets).unwrap();
        let Bandwidth::Scalar(h) = model.bandwidth() else { panic!("a scalar") };
        let want = stored.values("reg50d_regression")[0];
        assert!((0.25..4.0).contains(&(h / want)), "reg50d: {h} {want}");
    }
}
