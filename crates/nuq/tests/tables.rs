//! Neighbor tables found elsewhere give what the model's own search gives.

#![allow(clippy::unwrap_used)]

use nuq::bandwidth::BandwidthRule;
use nuq::{
    Embeddings, ExactIndex, HnswIndex, HnswParams, NeighborIndex, Neighbors, NuqClassifier, NuqRegressor,
};
use nuq_testkit::data;

fn ids(table: &Neighbors) -> Vec<u32> {
    (0..table.len()).flat_map(|i| table.ids(i).to_vec()).collect()
}

#[test]
fn ids_alone_are_enough_in_any_space() {
    let (x, y) = data::clusters(200, 4, 3, 2.0, 1);
    let (q, _) = data::clusters(30, 4, 3, 2.0, 2);
    let params = NuqClassifier::params().neighbors(9);
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
        let from_table = model.predict_from(&q, &measured).unwrap();
        assert_eq!(from_table.to_vec(), own.to_vec());
        assert_eq!(model.predict_proba_from(&q, &measured).unwrap(), model.predict_proba(&q).unwrap());
    }
    let targets: Vec<f64> = y.iter().map(|&l| l as f64).collect();
    let model = NuqRegressor::params().neighbors(9).normalize(true).fit(&x, &targets).unwrap();
    let own = model.predict(&q).unwrap();
    let measured = model.measure(&q, 9, &ids(own.neighbors())).unwrap();
    assert_eq!(model.predict_from(&q, &measured).unwrap().to_vec(), own.to_vec());
}

#[test]
fn two_machines_predict_like_one() {
    let (x, labels) = data::clusters(300, 6, 3, 2.0, 1);
    let (q, _) = data::clusters(20, 6, 3, 2.0, 2);
    let targets: Vec<f64> = labels.iter().map(|&l| l as f64).collect();
    let (classifier, regressor) = (
        NuqClassifier::params().fit(&x, &labels).unwrap(),
        NuqRegressor::params().fit(&x, &targets).unwrap(),
    );
    let shard = |from: usize, to: usize| {
        let rows = Embeddings::borrowed(&x.as_slice()[from * 6..to * 6], 6).unwrap();
        (from as u32, ExactIndex::new(&rows).unwrap().search(&q, classifier.neighbors()).unwrap())
    };
    let merged = Neighbors::merge(&[shard(0, 110), shard(110, 300)], classifier.neighbors()).unwrap();
    assert_eq!(
        classifier.predict_from(&q, &merged).unwrap().to_vec(),
        classifier.predict(&q).unwrap().to_vec()
    );
    assert_eq!(
        regressor.predict_from(&q, &merged).unwrap().to_vec(),
        regressor.predict(&q).unwrap().to_vec()
    );
}

/// What an approximate search misses hardly matters, and no more than it misses.
#[test]
fn a_graph_of_high_recall_predicts_like_exact_search() {
    let (x, y) = data::clusters(6000, 24, 8, 0.6, 1);
    let (q, _) = data::clusters(500, 24, 8, 0.6, 1);
    let model = NuqClassifier::params().fit(&x, &y).unwrap();
    let mut index = HnswIndex::new(&x, HnswParams::default()).unwrap();
    assert!(index.tune(0.995, model.neighbors()).unwrap() >= 0.995);
    let table = index.search(&q, model.neighbors()).unwrap();
    let (exact, graph) = (model.predict_proba(&q).unwrap(), model.predict_proba_from(&q, &table).unwrap());
    let changes = exact.as_slice().iter().zip(graph.as_slice()).map(|(a, b)| (a - b).abs());
    let mean = changes.sum::<f64>() / exact.as_slice().len() as f64;
    assert!(mean < 1e-3, "{mean}");
}

#[test]
fn a_fitted_model_does_not_depend_on_the_number_of_threads() {
    let (x, y) = data::clusters(3000, 12, 5, 1.0, 1);
    let density =
        nuq::Density::Gaussians { covariance: nuq::Covariance::Full, shrinkage: nuq::Shrinkage::LedoitWolf };
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
