//! The graph index: the battery, determinism, recall.

#![allow(clippy::unwrap_used)]

use nuq_neighbors::{Error, ExactIndex, HnswIndex, HnswParams, NeighborIndex};
use nuq_testkit::{battery, data};

#[test]
fn passes_the_battery() {
    let params = HnswParams::default().ef_search(400);
    battery::run(&|x| Box::new(HnswIndex::new(x, params).unwrap()), 0.99);
}

#[test]
fn the_graph_does_not_depend_on_the_number_of_threads() {
    let (x, _) = data::clusters(4000, 12, 10, 1.0, 1);
    let (q, _) = data::clusters(200, 12, 10, 1.0, 2);
    // A narrow beam misses neighbors, and which it misses shows the graph.
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            HnswIndex::new(&x, HnswParams::default().ef_search(10)).unwrap().search(&q, 10).unwrap()
        })
    };
    let alone = with(1);
    assert_eq!(with(2), alone);
    assert_eq!(with(5), alone);
    assert_ne!(
        ExactIndex::new(&x).unwrap().search(&q, 10).unwrap(),
        alone,
        "the beam is narrow enough to tell"
    );
}

#[test]
fn recall_grows_with_ef_and_tuning_reaches_its_target() {
    let (x, _) = data::clusters(6000, 24, 20, 0.5, 3);
    let mut index = HnswIndex::new(&x, HnswParams::default()).unwrap();
    let mut at = |ef: usize| {
        index.set_ef_search(ef);
        index.recall(10).unwrap()
    };
    let recalls = [at(10), at(20), at(40), at(80)];
    assert!(recalls.windows(2).all(|pair| pair[0] < pair[1]), "{recalls:?}");
    let achieved = index.tune(0.99, 10).unwrap();
    assert!(achieved >= 0.99 && achieved == index.recall(10).unwrap());
    let wide = index.params().ef_search;
    index.set_ef_search(wide * 3 / 4);
    assert!(index.recall(10).unwrap() < 0.99, "a smaller beam would do");
}

/// Queries that only direct search, itself parallel, can answer, among others that walk.
#[test]
fn far_and_near_queries_share_the_threads() {
    let x = data::normal(20_000, 4, 1);
    let mut values = data::normal(400, 4, 2).as_slice().to_vec();
    values.chunks_mut(4).step_by(2).for_each(|row| row[0] = 1e20);
    let q = nuq_neighbors::Embeddings::new(values, 4).unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
    let params = HnswParams { m: 4, ef_construction: 20, ..HnswParams::default() };
    let found = pool.install(|| HnswIndex::new(&x, params).unwrap().search(&q, 5).unwrap());
    let exact = ExactIndex::new(&x).unwrap().search(&q, 5).unwrap();
    assert!((0..400).step_by(2).all(|i| found.ids(i) == exact.ids(i)));
}

#[test]
fn rows_sorted_by_class_build_as_good_a_graph() {
    let (x, _) = data::clusters(5000, 16, 50, 4.0, 3);
    let mut order: Vec<u32> = (0..5000).collect();
    order.sort_by_key(|id| id % 50);
    let recall = |x: &nuq_neighbors::Embeddings<'_>| {
        HnswIndex::new(x, HnswParams::default()).unwrap().recall(10).unwrap()
    };
    let (mixed, sorted) = (recall(&x), recall(&x.gather(&order)));
    assert!((mixed - sorted).abs() < 0.02, "{mixed} {sorted}");
}

#[test]
fn parameters_that_make_no_graph_are_refused() {
    let x = data::normal(10, 2, 1);
    for params in [
        HnswParams::default().m(1),
        HnswParams::default().m(usize::MAX),
        HnswParams::default().ef_construction(0),
        HnswParams::default().ef_search(0),
    ] {
        let error = HnswIndex::new(&x, params).err();
        assert!(matches!(error, Some(Error::BadGraphParameter { .. })), "{params:?}");
    }
    let x = data::normal(2000, 2, 1);
    let all = HnswIndex::new(&x, HnswParams::default().ef_search(usize::MAX)).unwrap();
    assert_eq!(
        all.leave_one_out(&[5], 3).unwrap(),
        ExactIndex::new(&x).unwrap().leave_one_out(&[5], 3).unwrap()
    );
}
