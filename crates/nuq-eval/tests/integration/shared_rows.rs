//! The methods of a comparison share rows and neighbors. Their scores equal those of methods that are fitted alone, bit for bit.

use nuq::{Bandwidth, Embeddings, FittedModel, Label, NuqClassifier};
use nuq_eval::baselines::{Batch, FitInputs, fit};
use nuq_eval::evaluate::{Comparison, MethodId, Rows};
use nuq_eval::metrics::Resampling;
use nuq_testkit::data::{clusters, normal};

fn bits(scores: &[f64]) -> Vec<u64> {
    scores.iter().map(|score| score.to_bits()).collect()
}

fn compare(name: &str, model: &NuqClassifier<'_>, rows: &Embeddings<'_>, labels: &[Label]) {
    let (test, far) = (normal(40, rows.dim(), 7), normal(15, rows.dim(), 8));
    let comparison = Comparison::new(Rows::new(&test), &vec![0; test.len()]).ood("far", Rows::new(&far));
    let evaluation = comparison.resampling(Resampling { resamples: 20, seed: 0 }).run(model).unwrap();
    let plain = [MethodId::Ddu, MethodId::Mahalanobis, MethodId::RelativeMahalanobis, MethodId::KnnDistance];
    let plain = plain.into_iter().chain([MethodId::Lof]);
    for id in plain.flat_map(|id| [id, id.normalized().unwrap()]) {
        // With a normalized model, only the methods of normalized rows are compared.
        let Some(method) = evaluation.method(id) else { continue };
        let (n_neighbors, embeddings, labels) = (Some(model.n_neighbors()), Some(rows), Some(labels));
        let inputs = FitInputs { embeddings, labels, n_neighbors, ..FitInputs::default() };
        let alone = fit(id, &inputs).unwrap();
        let scores = |rows| alone.score(&Batch { embeddings: Some(rows), ..Batch::default() }).unwrap();
        assert_eq!(bits(&method.test), bits(&scores(&test)), "{name}: {id:?}");
        assert_eq!(bits(&method.ood_scores[0]), bits(&scores(&far)), "{name}: {id:?}");
        assert_eq!(method.bytes, alone.bytes(), "{name}: {id:?}");
    }
    assert!(evaluation.method(MethodId::LofL2).is_some() && evaluation.method(MethodId::DduL2).is_some());
}

#[test]
fn methods_of_a_comparison_equal_methods_that_are_fitted_alone() {
    let params = || NuqClassifier::params().n_neighbors(5).bandwidth(1.0);
    // Each class has more rows than columns, or fewer rows than columns.
    for columns in [6, 20] {
        let (x, y) = clusters(120, columns, 8, 1.0, 1);
        let labels: Vec<Label> = y.iter().map(Label::from).collect();
        compare("plain", &params().fit(&x, &y).unwrap(), &x, &labels);
        let scales = Bandwidth::PerDimension(vec![1.5; columns]);
        compare("scaled", &params().bandwidth(scales).fit(&x, &y).unwrap(), &x, &labels);
        compare("normalized", &params().normalize(true).fit(&x, &y).unwrap(), &x, &labels);
        let mut removed = params().fit(&x, &y).unwrap();
        removed.remove(&[0, 41, 119]).unwrap();
        let kept: Vec<u32> = (0..120).filter(|id| ![0, 41, 119].contains(id)).collect();
        let labels: Vec<Label> = kept.iter().map(|&id| labels[id as usize].clone()).collect();
        compare("removed", &removed, &x.gather(&kept), &labels);
    }
}
