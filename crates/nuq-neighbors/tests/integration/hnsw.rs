//! The HNSW index: conformance tests, determinism, recall.

use nuq_neighbors::{Embeddings, Error, ExactIndex, HnswIndex, HnswParams, NeighborIndex, Precision};
use nuq_testkit::conformance::{self, Subject};
use nuq_testkit::data;

/// Parameters with more candidates per search than by default, for a high recall.
fn wide() -> HnswParams {
    HnswParams::default().ef_search(400)
}

/// Rounds rows to half precision (`f16`).
fn in_halves(x: Embeddings<'static>) -> Option<Embeddings<'static>> {
    let rounded = x.as_slice().iter().map(|&v| half::f16::from_f32(v).to_f32()).collect();
    Embeddings::new(rounded, x.dim()).ok()
}

#[test]
fn passes_the_conformance_tests_in_f32() {
    conformance::run(&|x| Box::new(HnswIndex::new(x, wide()).unwrap()), 0.99);
}

#[test]
fn passes_the_conformance_tests_in_f16() {
    let build: conformance::Build<'_> =
        &|x| Box::new(HnswIndex::new(x, wide().precision(Precision::F16)).unwrap());
    conformance::run_on(&Subject { build, recall: 0.99, stored: in_halves });
}

#[test]
fn passes_the_conformance_tests_after_updates() {
    conformance::run(&|x| conformance::updated(&|x| Box::new(HnswIndex::new(x, wide()).unwrap()), x), 0.99);
    let build: conformance::Build<'_> = &|x| {
        let build: conformance::Build<'_> =
            &|x| Box::new(HnswIndex::new(x, wide().precision(Precision::F16)).unwrap());
        conformance::updated(build, x)
    };
    conformance::run_on(&Subject { build, recall: 0.99, stored: in_halves });
}

/// Replaces a tenth of the rows in each of three rounds, and compares with a new graph over the same rows.
#[test]
fn updates_reduce_recall_by_less_than_0_01() {
    let (x, _) = data::clusters(10_000, 48, 40, 1.0, 7);
    let (q, _) = data::clusters(500, 48, 40, 1.0, 8);
    for params in
        [HnswParams::default().ef_search(40), HnswParams::default().ef_search(40).precision(Precision::F16)]
    {
        let first: Vec<u32> = (0..7_000).collect();
        let mut index = HnswIndex::new(&x.gather(&first), params).unwrap();
        let mut rows = first;
        for round in 0..3u32 {
            let removed: Vec<u32> = (0..7_000).filter(|id| id % 10 == round).take(700).collect();
            let new: Vec<u32> = (7_000 + 1000 * round..).take(removed.len()).collect();
            index.remove(&removed).unwrap();
            for (&id, &row) in index.insert(&x.gather(&new)).unwrap().iter().zip(&new) {
                rows[id as usize] = row;
            }
        }
        let current = x.gather(&rows);
        let truth = ExactIndex::new(&current).unwrap().search(&q, 20).unwrap();
        let recall = |index: &HnswIndex<'_>| {
            let neighbors = index.search(&q, 20).unwrap();
            let hits = |i: usize| neighbors.ids(i).iter().filter(|id| truth.ids(i).contains(id)).count();
            (0..q.len()).map(hits).sum::<usize>() as f64 / (20 * q.len()) as f64
        };
        let (updated, fresh) = (recall(&index), recall(&HnswIndex::new(&current, params).unwrap()));
        // With a recall of 1, the comparison would be too easy.
        assert!(
            updated > fresh - 0.01 && fresh < 0.9999,
            "recall {updated} after updates, {fresh} of a new graph"
        );
    }
}

#[test]
fn the_graph_does_not_depend_on_the_number_of_threads() {
    let (x, _) = data::clusters(4000, 12, 10, 1.0, 1);
    let (q, _) = data::clusters(200, 12, 10, 1.0, 2);
    // With a small ef_search some neighbors are missing; which ones depends on the graph.
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            HnswIndex::new(&x, HnswParams::default().ef_search(10)).unwrap().search(&q, 10).unwrap()
        })
    };
    let single = with(1);
    assert_eq!(with(2), single);
    assert_eq!(with(5), single);
    assert_ne!(
        ExactIndex::new(&x).unwrap().search(&q, 10).unwrap(),
        single,
        "no neighbor is missing, so that the graphs are not compared"
    );
}

#[test]
fn recall_increases_with_ef_and_tuning_reaches_its_target() {
    let (x, _) = data::clusters(6000, 24, 20, 0.5, 3);
    let mut index = HnswIndex::new(&x, HnswParams::default()).unwrap();
    let mut recall_at = |ef: usize| {
        index.set_ef_search(ef);
        index.recall(10).unwrap().share
    };
    let recalls = [recall_at(10), recall_at(20), recall_at(40), recall_at(80)];
    assert!(recalls.windows(2).all(|pair| pair[0] < pair[1]), "{recalls:?}");
    let achieved = index.tune(0.99, 10).unwrap();
    assert!(achieved.share >= 0.99 && achieved == index.recall(10).unwrap());
    let tuned = index.params().ef_search;
    index.set_ef_search(tuned * 3 / 4);
    assert!(index.recall(10).unwrap().share < 0.99, "a smaller ef_search is also sufficient");
}

/// Half of the queries have a coordinate whose square is outside the range of `f32`. They need direct (exact) search, which
/// is parallel itself; the others walk the graph on the same threads.
#[test]
fn direct_searches_are_exact_while_walks_use_the_same_threads() {
    let x = data::normal(20_000, 4, 1);
    let mut values = data::normal(400, 4, 2).as_slice().to_vec();
    values.chunks_mut(4).step_by(2).for_each(|row| row[0] = 1e20);
    let q = Embeddings::new(values, 4).unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
    let params = HnswParams { m: 4, ef_construction: 20, ..HnswParams::default() };
    let neighbors = pool.install(|| HnswIndex::new(&x, params).unwrap().search(&q, 5).unwrap());
    let exact = ExactIndex::new(&x).unwrap().search(&q, 5).unwrap();
    assert!((0..400).step_by(2).all(|i| neighbors.ids(i) == exact.ids(i)));
}

#[test]
fn a_graph_is_rebuilt_when_rows_suffice_again_and_after_removal_of_most_rows() {
    let (x, _) = data::clusters(6000, 64, 5, 1.0, 31);
    for seed in 0..4 {
        let first: Vec<u32> = (0..1100).collect();
        let mut index = HnswIndex::new(&x.gather(&first), wide().seed(seed)).unwrap();
        index.remove(&(0..100).collect::<Vec<u32>>()).unwrap();
        assert_eq!(index.bytes().links, 0, "too few rows for a graph");
        index.insert(&x.gather(&(2000..2097).collect::<Vec<u32>>())).unwrap();
        assert!(index.bytes().links > 0 && index.bytes().codes > 0, "{:?}", index.bytes());
        assert!(index.recall(10).unwrap().share > 0.99);
    }
    // Most rows are removed at once: the graph over the remaining rows is rebuilt and connected.
    let mut index = HnswIndex::new(&x, wide()).unwrap();
    index.remove(&(0..6000).filter(|id| id % 5 != 2).collect::<Vec<u32>>()).unwrap();
    assert!(index.len() == 1200 && index.recall(10).unwrap().share > 0.99);
}

/// Codes (one byte per coordinate) have one step size for all coordinates, and are kept only if they preserve the neighbors. If codes were also learned from the removed rows, their step would be
/// larger than the differences of the other rows.
#[test]
fn codes_are_learned_from_the_rows_that_remain() {
    let near = data::normal(1200, 40, 1);
    let far: Vec<f32> = data::normal(1800, 40, 2).as_slice().iter().map(|v| 1e6 * v).collect();
    let x = Embeddings::new([near.as_slice(), far.as_slice()].concat(), 40).unwrap();
    let mut index = HnswIndex::new(&x, wide()).unwrap();
    index.remove(&(1200..3000).collect::<Vec<u32>>()).unwrap();
    assert!(index.bytes().links > 0 && index.bytes().codes > 0, "{:?}", index.bytes());
}

#[test]
fn the_memory_of_the_rows_includes_their_scaled_copy() {
    let x = data::normal(1500, 40, 1);
    assert_eq!(HnswIndex::new(&x, wide()).unwrap().bytes().rows, 1500 * 40 * 4);
    assert_eq!(HnswIndex::scaled(&x, vec![2.0; 40], wide()).unwrap().bytes().rows, 2 * 1500 * 40 * 4);
}

#[test]
fn exact_search_over_rows_in_f16_is_exact_after_insertion() {
    let near_100 = |rows, seed| {
        let values = data::normal(rows, 16, seed).as_slice().iter().map(|v| v + 100.0).collect();
        Embeddings::new(values, 16).unwrap()
    };
    let mut index = HnswIndex::new(&near_100(1200, 1), wide().precision(Precision::F16)).unwrap();
    // Recall is measured against exact search, which prepares data that must be updated by the insertion.
    index.recall(10).unwrap();
    index.insert(&near_100(300, 2)).unwrap();
    let queries = near_100(40, 3);
    let k = 250; // More than an eighth of the rows: exact search is used.
    let neighbors = index.search(&queries, k).unwrap();
    let stored: Vec<f32> = (0..1500).flat_map(|id| index.rows().row(id).into_owned()).collect();
    let stored = Embeddings::new(stored, 16).unwrap();
    assert_eq!(neighbors, ExactIndex::new(&stored).unwrap().search(&queries, k).unwrap());
}

#[test]
fn the_order_of_rows_changes_recall_by_less_than_0_02() {
    let (x, _) = data::clusters(5000, 16, 50, 4.0, 3);
    let mut order: Vec<u32> = (0..5000).collect();
    order.sort_by_key(|id| id % 50);
    let recall =
        |x: &Embeddings<'_>| HnswIndex::new(x, HnswParams::default()).unwrap().recall(10).unwrap().share;
    let (mixed, sorted) = (recall(&x), recall(&x.gather(&order)));
    assert!((mixed - sorted).abs() < 0.02, "{mixed} {sorted}");
}

#[test]
fn invalid_parameters_are_errors() {
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
    // The largest `ef_search` is valid: the search then visits all rows.
    let x = data::normal(2000, 2, 1);
    let all = HnswIndex::new(&x, HnswParams::default().ef_search(usize::MAX)).unwrap();
    assert_eq!(
        all.leave_one_out(&[5], 3).unwrap(),
        ExactIndex::new(&x).unwrap().leave_one_out(&[5], 3).unwrap()
    );
}

/// Rows far from all others are found after further far rows were inserted.
#[test]
fn far_rows_are_found_after_further_insertions() {
    for columns in [2, 16, 96] {
        let x = data::normal(1500, columns, 3);
        let mut index = HnswIndex::new(&x, HnswParams::default()).unwrap();
        let mut far: Vec<(u32, Embeddings<'static>)> = Vec::new();
        for offset in [1000.0f32, 2000.0, -500.0, 1500.0, 1e6, 300.0] {
            let row = Embeddings::new(vec![offset; columns], columns).unwrap();
            far.push((index.insert(&row).unwrap()[0], row));
            for (id, row) in &far {
                assert_eq!(index.search(row, 1).unwrap().ids(0), [*id], "{columns} columns, after {offset}");
                assert_ne!(index.leave_one_out(&[*id], 1).unwrap().ids(0), [*id]);
            }
        }
        let (removed, row) = far.pop().unwrap();
        index.remove(&[removed]).unwrap();
        assert_ne!(index.search(&row, 1).unwrap().ids(0), [removed], "{columns} columns");
    }
}
