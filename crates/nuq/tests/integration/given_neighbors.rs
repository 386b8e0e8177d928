//! Predictions from given neighbors, with graph indexes, and with several threads.

use nuq::bandwidth::BandwidthRule;
use nuq::nuq_neighbors::{self, Precision};
use nuq::{
    Embeddings, ExactIndex, FittedModel, HnswParams, IndexKind, IndexSummary, NeighborIndex, Neighbors,
    NuqClassifier, NuqRegressor,
};
use nuq_testkit::data;

fn ids(neighbors: &Neighbors) -> Vec<u32> {
    (0..neighbors.len()).flat_map(|i| neighbors.ids(i).to_vec()).collect()
}

#[test]
fn ids_with_measured_distances_give_the_same_predictions() {
    let (x, y) = data::clusters(200, 4, 3, 2.0, 1);
    let (q, _) = data::clusters(30, 4, 3, 2.0, 2);
    let params = NuqClassifier::params().n_neighbors(9);
    for params in [
        params.clone(),
        params.clone().normalize(true),
        params.clone().bandwidth(BandwidthRule::Scott),
        params.kernel(nuq::Kernel::Sigmoid).normalize(true),
    ] {
        let model = params.fit(&x, &y).unwrap();
        let own = model.predict(&q).unwrap();
        let measured = model.measure(&q, 9, &ids(own.neighbors())).unwrap();
        assert_eq!(&measured, own.neighbors());
        let from_measured = model.predict_from(&q, &measured).unwrap();
        assert_eq!(from_measured.to_vec(), own.to_vec());
        assert_eq!(model.predict_proba_from(&q, &measured).unwrap(), model.predict_proba(&q).unwrap());
    }
    let targets: Vec<f64> = y.iter().map(|&l| l as f64).collect();
    let model = NuqRegressor::params().n_neighbors(9).normalize(true).fit(&x, &targets).unwrap();
    let own = model.predict(&q).unwrap();
    let measured = model.measure(&q, 9, &ids(own.neighbors())).unwrap();
    assert_eq!(model.predict_from(&q, &measured).unwrap().to_vec(), own.to_vec());
}

#[test]
fn the_id_of_a_removed_row_is_unknown() {
    let x = Embeddings::from_rows(&[[0.0], [1.0], [2.0], [3.0]]).unwrap();
    let q = x.gather(&[0, 3]);
    let neighbors = Neighbors::new(2, vec![0, 1, 3, 2], vec![0.0, 1.0, 0.0, 1.0]).unwrap();
    let unknown = nuq::Error::Neighbors(nuq_neighbors::Error::UnknownId { query: 1, id: 3, len: 3 });

    let mut classifier =
        NuqClassifier::params().n_neighbors(2).bandwidth(1.0).fit(&x, &[0, 0, 1, 1]).unwrap();
    classifier.predict_from(&q, &neighbors).unwrap();
    classifier.remove(&[3]).unwrap();
    assert_eq!(classifier.predict_from(&q, &neighbors).err(), Some(unknown.clone()));
    assert_eq!(classifier.predict_proba_from(&q, &neighbors).err(), Some(unknown.clone()));

    let targets = [0.0, 0.0, 1.0, 1.0];
    let mut regressor = NuqRegressor::params().n_neighbors(2).bandwidth(1.0).fit(&x, &targets).unwrap();
    regressor.predict_from(&q, &neighbors).unwrap();
    regressor.remove(&[3]).unwrap();
    assert_eq!(regressor.predict_from(&q, &neighbors).err(), Some(unknown));
}

#[test]
fn merged_neighbors_of_two_shards_give_the_same_predictions() {
    let (x, labels) = data::clusters(300, 6, 3, 2.0, 1);
    let (q, _) = data::clusters(20, 6, 3, 2.0, 2);
    let targets: Vec<f64> = labels.iter().map(|&l| l as f64).collect();
    let (classifier, regressor) = (
        NuqClassifier::params().fit(&x, &labels).unwrap(),
        NuqRegressor::params().fit(&x, &targets).unwrap(),
    );
    let shard = |from: usize, to: usize| {
        let rows = Embeddings::borrowed(&x.as_slice()[from * 6..to * 6], 6).unwrap();
        (from as u32, ExactIndex::new(&rows).unwrap().search(&q, classifier.n_neighbors()).unwrap())
    };
    let merged = Neighbors::merge(&[shard(0, 110), shard(110, 300)], classifier.n_neighbors()).unwrap();
    assert_eq!(
        classifier.predict_from(&q, &merged).unwrap().to_vec(),
        classifier.predict(&q).unwrap().to_vec()
    );
    assert_eq!(
        regressor.predict_from(&q, &merged).unwrap().to_vec(),
        regressor.predict(&q).unwrap().to_vec()
    );
}

/// The class probabilities of a model with a graph of recall 0.99 differ by less than 0.001 on average from those of a model
/// with exact search, and the means of a regressor by less than 0.02.
#[test]
fn a_graph_of_high_recall_predicts_like_exact_search() {
    // Queries of the same clusters that are not training rows.
    let (rows, mut y) = data::clusters(6500, 40, 8, 0.6, 1);
    let part = |ids: std::ops::Range<u32>| rows.gather(&ids.collect::<Vec<u32>>());
    let (x, q) = (part(0..6000), part(6000..6500));
    y.truncate(6000);
    let graph = IndexKind::Hnsw(HnswParams::default());
    let exact = NuqClassifier::params().fit(&x, &y).unwrap();
    let approximate = NuqClassifier::params().index(graph).recall(0.99).fit(&x, &y).unwrap();
    assert_eq!(exact.index().describe(), IndexSummary::Exact);
    let IndexSummary::Hnsw { recall: Some(recall), params } = approximate.index().describe() else {
        panic!("the recall of the graph was not measured");
    };
    assert!(recall.share >= 0.99 && recall.share < 1.0 && recall.k == 20, "{recall:?}");
    assert!(params.ef_search < 400, "the beam of {} is wider than needed", params.ef_search);
    let (expected, actual) = (exact.predict_proba(&q).unwrap(), approximate.predict_proba(&q).unwrap());
    let changes = expected.as_slice().iter().zip(actual.as_slice()).map(|(a, b)| (a - b).abs());
    let mean = changes.sum::<f64>() / expected.as_slice().len() as f64;
    assert!(mean > 0.0 && mean < 1e-3, "{mean}");

    let targets: Vec<f64> = y.iter().map(|&class| class as f64).collect();
    let exact = NuqRegressor::params().fit(&x, &targets).unwrap();
    let approximate = NuqRegressor::params().index(graph).fit(&x, &targets).unwrap();
    let (expected, actual) = (exact.predict(&q).unwrap(), approximate.predict(&q).unwrap());
    let mean = expected.iter().zip(actual.iter()).map(|(a, b)| (a.mean - b.mean).abs()).sum::<f64>() / 500.0;
    // The targets are between 0 and 7.
    assert!(mean > 0.0 && mean < 0.02, "{mean}");
}

#[test]
fn a_graph_with_a_wide_beam_predicts_like_exact_search_and_a_recall_above_1_is_an_error() {
    let (x, y) = data::clusters(900, 36, 4, 0.6, 3);
    let (q, _) = data::clusters(50, 36, 4, 0.6, 4);
    let wide = HnswParams::default().ef_search(800);
    let plain = NuqClassifier::params().selection_rows(150);
    for params in [
        plain.clone().bandwidth(BandwidthRule::Silverman),
        plain.clone().bandwidth(BandwidthRule::Adaptive { k: Some(5) }),
        plain.clone().normalize(true),
        plain.clone().kernel(nuq::Kernel::Logistic).selection_rows(100),
    ] {
        let exact = params.fit(&x, &y).unwrap().predict_proba(&q).unwrap();
        for precision in [Precision::F32, Precision::F16] {
            let graph = IndexKind::Hnsw(wide.precision(precision));
            let model = params.clone().index(graph).recall(None).fit(&x, &y).unwrap();
            assert!(matches!(model.index().describe(), IndexSummary::Hnsw { recall: Some(_), .. }));
            let actual = model.predict_proba(&q).unwrap();
            let change = exact.as_slice().iter().zip(actual.as_slice()).map(|(a, b)| (a - b).abs());
            let largest = change.fold(0.0, f64::max);
            // Rounded rows may change the selected bandwidth by one grid step.
            let allowed = if precision == Precision::F32 { 1e-12 } else { 0.1 };
            assert!(largest <= allowed, "{params:?} {precision:?}: {largest}");
        }
    }
    let error = plain.index(IndexKind::Hnsw(wide)).recall(1.5).fit(&x, &y).unwrap_err();
    assert_eq!(error.to_string(), "the requested recall is 1.5: it must be above 0 and at most 1");
}

#[test]
fn a_fitted_model_does_not_depend_on_the_number_of_threads() {
    let (x, y) = data::clusters(3000, 12, 5, 1.0, 1);
    let density = nuq::Density::Gmm {
        covariance: nuq::Covariance::Full,
        shrinkage: nuq::Shrinkage::LedoitWolf,
        scale_free: false,
    };
    for params in [NuqClassifier::params(), NuqClassifier::params().density(density)] {
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| params.fit(&x, &y).unwrap().predict(&x).unwrap().to_vec())
        };
        let alone = with(1);
        for threads in [2, 5] {
            assert!(with(threads) == alone, "{threads} threads");
        }
    }
}
