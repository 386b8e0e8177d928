//! A cancelled evaluation ends at a check point. Scorers and the bootstrap have enough check points.

use nuq::{CancelToken, Cancelled, Embeddings, NuqClassifier, Shrinkage};
use nuq_eval::baselines::{
    Batch, Ddu, Duq, DuqParams, Ensemble, Entropy, Head, KnnDistance, LocalOutlierFactor, Mahalanobis,
    Members, NnGuide, Reduction, RelativeMahalanobis, Scorer, Sngp, SngpParams, Vim, temperature,
};
use nuq_eval::evaluate::{Comparison, Rows};
use nuq_eval::metrics::{Detection, Resampling};
use nuq_testkit::cancel::{assert_checks_often, cancel_at_check_points};
use nuq_testkit::data::{clusters, normal};

const ROWS: usize = 1200;
const DIM: usize = 16;
const CLASSES: usize = 4;

/// Logits that are a linear function of the rows.
fn logits(rows: &Embeddings<'_>) -> Embeddings<'static> {
    let values = rows.rows().flat_map(|row| (0..CLASSES).map(|c| row[c] - 0.5 * row[c + CLASSES])).collect();
    Embeddings::new(values, CLASSES).unwrap()
}

#[test]
fn scorers_have_enough_check_points() {
    let (x, y) = clusters(ROWS, DIM, CLASSES, 3.0, 1);
    let (z, queries) = (logits(&x), normal(ROWS, DIM, 2));
    let query_logits = logits(&queries);
    let head = Head::fit(&x, &z).unwrap();
    let members = Members::new(vec![query_logits.clone(); 2]).unwrap();
    let classes: Vec<u32> = y.iter().map(|&class| class as u32).collect();
    let batch = Batch {
        embeddings: Some(&queries),
        logits: Some(&query_logits),
        members: Some(&members),
        ..Batch::default()
    };
    type Fit<'f> = Box<dyn Fn() -> Box<dyn Scorer + 'f> + 'f>;
    let (sngp, duq) = (SngpParams { features: 256, ..SngpParams::default() }, DuqParams::default());
    let shrinkage = Shrinkage::LedoitWolf;
    let (n, d) = (ROWS as u64, DIM as u64);
    // Scorer, number of elementary steps (multiply-adds) of its fit (0: not compared), number of steps of its scores, and the factor by
    // which the largest expected computation has more steps.
    let scorers: Vec<(Fit<'_>, u64, u64, u64)> = vec![
        (Box::new(|| Box::new(Ddu::fit(&x, &y, shrinkage).unwrap())), n * d * d, 4 * n * d * d, 1000),
        (Box::new(|| Box::new(Mahalanobis::fit(&x, &y, shrinkage).unwrap())), n * d * d, n * d * d, 1000),
        (
            Box::new(|| Box::new(RelativeMahalanobis::fit(&x, &y, shrinkage).unwrap())),
            n * d * d,
            n * d * d,
            1000,
        ),
        (Box::new(|| Box::new(KnnDistance::kth(&x, 10).unwrap())), 0, n * n * d, 100),
        (Box::new(|| Box::new(LocalOutlierFactor::fit(&x, 10).unwrap())), n * n * d, n * n * d, 100),
        (Box::new(|| Box::new(Sngp::fit(&x, &y, sngp).unwrap())), 100 * n * 256 * 4, n * 256 * (d + 256), 10),
        (Box::new(|| Box::new(Duq::fit(&x, &y, duq).unwrap())), 0, n * d * 256 * 4, 100),
        (Box::new(|| Box::new(Vim::fit(&x, &head, None).unwrap())), n * d * d, n * d * d, 1000),
        (Box::new(|| Box::new(NnGuide::fit(&x, &z, 10).unwrap())), n * d, n * n * d, 8),
        (Box::new(|| Box::new(Entropy)), 0, n * 4, 1000),
        (Box::new(|| Box::new(Ensemble(Reduction::Entropy))), 0, n * 8, 1000),
    ];
    for (fit, fit_steps, steps, scale) in &scorers {
        let name = fit().name();
        assert_checks_often(&format!("fit of {name}"), *fit_steps, *scale, fit);
        let scorer = fit();
        assert_checks_often(&name, *steps, *scale, || scorer.score(&batch).unwrap());
    }
    assert_checks_often("head", n * d * d, 1000, || Head::fit(&x, &z).unwrap());
    assert_checks_often("temperature", 60 * n * 4, 1000, || temperature(&z, &classes).unwrap());
}

#[test]
fn the_bootstrap_has_enough_check_points() {
    let scores: Vec<f64> = (0..500).map(f64::from).collect();
    let detection = Detection::new(&scores, &scores).unwrap();
    let resampling = Resampling { resamples: 200, seed: 0 };
    // The factor 1000 corresponds to a million rows.
    assert_checks_often("bootstrap", 200 * 1000, 1000, || resampling.roc_auc(&detection));
}

#[test]
fn a_cancelled_evaluation_returns_cancelled_and_leaves_the_model_usable() {
    let (x, y) = clusters(300, 8, 3, 3.0, 1);
    let (test, truth) = clusters(100, 8, 3, 3.0, 2);
    let outliers = normal(60, 8, 3);
    let model = NuqClassifier::params().n_neighbors(5).fit(&x, &y).unwrap();
    let expected = model.predict(&test).unwrap().to_vec();
    let comparison = Comparison::new(Rows::new(&test), &truth)
        .ood("outliers", Rows::new(&outliers))
        .resampling(Resampling { resamples: 20, seed: 0 });
    let token = CancelToken::new();
    token.cancel();
    assert_eq!(token.run(|| comparison.run(&model).map(|_| ())), Err(Cancelled));
    let checks = cancel_at_check_points(
        &mut (),
        |()| comparison.run(&model).unwrap().methods.len(),
        |()| assert_eq!(model.predict(&test).unwrap().to_vec(), expected),
    );
    assert!(checks > 1000, "{checks}");
}
