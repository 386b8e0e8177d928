//! The exact index: conformance tests, and tests of exactness.

use nuq_neighbors::{
    Embeddings, Error, ExactIndex, IndexParts, NeighborIndex, Neighbors, OrderParts, Precision, Pruning,
    SeededRng, StoredRows, Verifier,
};
use nuq_testkit::{conformance, data, oracle};
use proptest::prelude::*;

#[test]
fn passes_the_conformance_tests() {
    conformance::run(&|x| Box::new(ExactIndex::new(x).unwrap()), 1.0);
    conformance::run(&|x| Box::new(ExactIndex::scaled(x, vec![1.0; x.dim()]).unwrap()), 1.0);
    conformance::run(&|x| conformance::updated(&|x| Box::new(ExactIndex::new(x).unwrap()), x), 1.0);
}

/// An index that groups its rows by at most `axes` principal axes and skips groups.
fn pruned<'a>(x: &Embeddings<'a>, axes: usize) -> ExactIndex<'a> {
    ExactIndex::new(x).unwrap().pruning(Pruning::On(axes))
}

fn unpruned<'a>(x: &Embeddings<'a>) -> ExactIndex<'a> {
    ExactIndex::new(x).unwrap().pruning(Pruning::Off)
}

/// Codes (one byte per coordinate) exist only for 64 columns or more. With fewer columns, the search runs without codes.
#[test]
fn search_by_codes_passes_the_conformance_tests() {
    fn coded<'a>(x: &Embeddings<'a>) -> ExactIndex<'a> {
        ExactIndex::new(x).unwrap().pruning(Pruning::Codes)
    }
    conformance::run(&|x| Box::new(coded(x)), 1.0);
    conformance::run(&|x| conformance::updated(&|x| Box::new(coded(x)), x), 1.0);
}

#[test]
fn pruned_search_passes_the_conformance_tests() {
    for axes in [1, 5, usize::MAX] {
        conformance::run(&|x| Box::new(pruned(x, axes)), 1.0);
        conformance::run(&|x| conformance::updated(&|x| Box::new(pruned(x, axes)), x), 1.0);
        conformance::run(
            &|x| Box::new(ExactIndex::scaled(x, vec![1.0; x.dim()]).unwrap().pruning(Pruning::On(axes))),
            1.0,
        );
    }
}

/// Rows in clusters, with noise in all columns, and some far outliers.
fn structured(rows: usize, dim: usize, seed: u64) -> Embeddings<'static> {
    let (x, _) = data::clusters(rows, dim, 5, 3.0, seed);
    let mut rng = SeededRng::new(seed);
    let mut values = x.as_slice().to_vec();
    for row in values.chunks_exact_mut(dim) {
        let size = if rng.uniform() < 0.01 { 1e3 } else { 1.0 };
        row.iter_mut().enumerate().for_each(|(j, v)| *v *= size / (1.0 + j as f32));
    }
    Embeddings::new(values, dim).unwrap()
}

#[test]
fn all_methods_give_the_same_neighbors() {
    for (rows, dim, axes) in [
        (3000, 2, 2),
        (3000, 2, 1),
        (9000, 8, 8),
        (4000, 16, 16),
        (4000, 70, 6),
        (4000, 70, 20),
        (4000, 200, 150),
    ] {
        for (unit, offset) in [(1e-30, 0.0), (1.0, 1000.0), (1e30, 0.0)] {
            let map = |x: Embeddings<'_>| {
                let values = x.as_slice().iter().map(|v| (v + offset) * unit).collect();
                Embeddings::new(values, dim).unwrap()
            };
            let (x, q) = (map(structured(rows, dim, 1)), map(structured(150, dim, 2)));
            let all = unpruned(&x);
            let expected = [1, 20, 150].map(|k| (k, all.search(&q, k).unwrap()));
            let ids: Vec<u32> = (0..rows as u32).step_by(17).collect();
            let expected_of_rows = all.leave_one_out(&ids, 5).unwrap();
            for method in [Pruning::On(axes), Pruning::Codes] {
                let fast = ExactIndex::new(&x).unwrap().pruning(method);
                let name = format!("{rows} × {dim}, {method:?}, unit {unit}, offset {offset}");
                for (k, expected) in &expected {
                    assert!(fast.search(&q, *k).unwrap() == *expected, "{name}, k = {k}");
                }
                assert!(fast.leave_one_out(&ids, 5).unwrap() == expected_of_rows, "{name}");
            }
        }
    }
}

#[test]
fn all_methods_are_exact_after_updates_and_on_any_number_of_threads() {
    let few_axes = Pruning::On(6);
    for (dim, methods) in [(3, vec![few_axes]), (20, vec![few_axes]), (70, vec![few_axes, Pruning::Codes])] {
        let (x, q) = (structured(3000, dim, 1), structured(300, dim, 2));
        for precision in [Precision::F32, Precision::F16] {
            let build = |pruning| {
                let rows = StoredRows::new(&x, precision).unwrap();
                ExactIndex::from_rows(rows).pruning(pruning)
            };
            let mut all = build(Pruning::Off);
            let mut fast: Vec<ExactIndex<'_>> = methods.iter().map(|&method| build(method)).collect();
            for round in 0..6 {
                let expected = all.search(&q, 10).unwrap();
                for (index, threads) in fast.iter().flat_map(|index| [(index, 1), (index, 3)]) {
                    let found = rayon_pool(threads).install(|| index.search(&q, 10).unwrap());
                    assert_eq!(found, expected, "{dim} {round}");
                }
                let removed: Vec<u32> = all.rows().live_ids().into_iter().skip(round).step_by(9).collect();
                let new = structured(500 + 100 * round, dim, 10 + round as u64);
                for index in fast.iter_mut().chain([&mut all]) {
                    index.remove(&removed).unwrap();
                    index.insert(&new).unwrap();
                }
            }
        }
    }
}

/// With so many queries, a sample of them decides whether bounds are used. The distances of far queries exclude few rows.
#[test]
fn many_queries_far_from_all_rows_have_the_same_neighbors() {
    let x = structured(2500, 70, 1);
    // Every row, or every second row, is far away.
    let queries = |step: usize| {
        let mut values = structured(4500, 70, 2).as_slice().to_vec();
        values.chunks_exact_mut(70).step_by(step).flatten().for_each(|v| *v *= 1e3);
        Embeddings::new(values, 70).unwrap()
    };
    for queries in [queries(1), queries(2)] {
        let expected = unpruned(&x).search(&queries, 10).unwrap();
        for method in [Pruning::On(8), Pruning::Codes] {
            let index = ExactIndex::new(&x).unwrap().pruning(method);
            assert!(index.search(&queries, 10).unwrap() == expected, "{method:?}");
        }
    }
}

struct NoFile;

impl Verifier for NoFile {
    fn verify(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// An index with the recorded order of `x`, and its parts with the rows. The search of all rows takes so long that the rows are ordered.
fn ordered<'a>(x: &Embeddings<'a>) -> (ExactIndex<'a>, OrderParts<'static>) {
    let mut index = ExactIndex::new(x).unwrap();
    assert!(index.parts().order.is_none());
    for _ in 0..3 {
        index.search(x, 5).unwrap();
    }
    assert!(index.parts().order.is_none(), "an order is stored only if it is recorded");
    index.record_order();
    let order = index.parts().order.map(|OrderParts { axes, ids, starts }| OrderParts {
        axes: axes.to_vec().into(),
        ids: ids.to_vec().into(),
        starts: starts.to_vec().into(),
    });
    (index, order.unwrap())
}

fn restored<'a>(
    index: &'a ExactIndex<'_>,
    order: OrderParts<'a>,
) -> Result<Box<dyn NeighborIndex + 'a>, Error> {
    IndexParts { order: Some(order), ..index.parts() }.restore(Box::new(NoFile))
}

fn is_equal(a: &OrderParts<'_>, b: &OrderParts<'_>) -> bool {
    *a.axes == *b.axes && *a.ids == *b.ids && *a.starts == *b.starts
}

#[test]
fn an_index_with_a_recorded_order_has_the_same_neighbors_also_after_changes() {
    let (x, q) = (structured(6000, 70, 1), structured(300, 70, 2));
    let (index, order) = ordered(&x);
    let mut all = unpruned(&x);
    let mut restored = restored(&index, order.clone()).unwrap();
    for round in 0..5 {
        for _ in 0..3 {
            assert_eq!(restored.search(&q, 10).unwrap(), all.search(&q, 10).unwrap(), "{round}");
        }
        let rows = restored.rows().live_ids();
        assert!(restored.leave_one_out(&rows, 5).unwrap() == all.leave_one_out(&rows, 5).unwrap());
        // The order of a model changes only by rows that are removed or replaced.
        let ids = restored.parts().order.unwrap().ids.to_vec();
        let rest: Vec<u32> = order.ids.iter().copied().filter(|id| ids.contains(id)).collect();
        assert!(ids == rest && (ids.len() == 6000) == (round == 0));
        let removed: Vec<u32> = rows.into_iter().skip(round).step_by(4).collect();
        let new = structured(2000, 70, 10 + round as u64);
        for index in [&mut *restored, &mut all] {
            index.remove(&removed).unwrap();
            index.insert(&new).unwrap();
        }
        // An index that is saved after the changes and opened again.
        let reopened = restored.parts().restore(Box::new(NoFile)).unwrap();
        let rows = reopened.rows().live_ids();
        assert!(reopened.leave_one_out(&rows, 5).unwrap() == all.leave_one_out(&rows, 5).unwrap());
    }
}

#[test]
fn an_order_does_not_depend_on_the_number_of_threads() {
    let x = structured(6000, 200, 1);
    let order = |threads| rayon_pool(threads).install(|| ordered(&x).1);
    let one = order(1);
    for threads in [2, 5] {
        let other = order(threads);
        assert!(is_equal(&one, &other));
    }
}

/// Changes the axes, the ids and the starts of an order.
type Change = dyn Fn(&mut Vec<f64>, &mut Vec<u32>, &mut Vec<u32>);

#[test]
fn wrong_values_of_an_order_do_not_change_the_neighbors_and_wrong_lengths_are_errors() {
    let x = structured(6000, 70, 1);
    let (index, order) = ordered(&x);
    let expected = unpruned(&x).search(&x, 5).unwrap();
    let changed = |change: &Change| {
        let (mut axes, mut ids, mut starts) =
            (order.axes.to_vec(), order.ids.to_vec(), order.starts.to_vec());
        change(&mut axes, &mut ids, &mut starts);
        restored(&index, OrderParts { axes: axes.into(), ids: ids.into(), starts: starts.into() })
    };
    let values: [(&str, &Change); 7] = [
        ("a repeated id", &|_, ids, _| ids[0] = ids[1]),
        ("an id without a row", &|_, ids, _| ids[0] = 6000),
        ("another order", &|_, ids, _| ids.reverse()),
        ("few ids", &|_, ids, starts| (ids.truncate(10), starts.truncate(1)).1),
        ("NaN", &|axes, _, _| axes[3] = f64::NAN),
        ("axes that are not orthonormal", &|axes, _, _| axes.iter_mut().for_each(|v| *v *= 2.0)),
        ("starts in any order", &|_, _, starts| starts.iter_mut().for_each(|start| *start = !*start)),
    ];
    for (name, change) in values {
        let index = changed(change).unwrap();
        for _ in 0..3 {
            assert!(index.search(&x, 5).unwrap() == expected, "{name}");
        }
    }
    let lengths: [&Change; 4] = [
        &|axes, _, _| axes.truncate(69),
        &|axes, _, _| axes.clear(),
        &|_, ids, _| ids.extend_from_within(..),
        &|_, _, starts| starts.resize(6001, 0),
    ];
    for change in lengths {
        assert!(matches!(changed(change), Err(Error::Damaged { .. })));
    }
}

/// Duplicates and rows at distances that differ by less than the error of their codes.
#[test]
fn near_ties_are_ranked_by_their_distances() {
    let dim = 128;
    let center = data::normal(1, dim, 3);
    let mut rng = SeededRng::new(4);
    let mut values = data::normal(500, dim, 1).as_slice().to_vec();
    for _ in 0..2000 {
        values.extend(center.as_slice().iter().map(|v| v + 1e-4 * rng.normal() as f32));
    }
    values.extend_from_within(500 * dim..700 * dim);
    let x = Embeddings::new(values, dim).unwrap();
    for method in [Pruning::Codes, Pruning::On(16)] {
        let fast = ExactIndex::new(&x).unwrap().pruning(method);
        assert_eq!(fast.search(&center, 300).unwrap(), unpruned(&x).search(&center, 300).unwrap());
        assert_eq!(fast.search(&x, 7).unwrap(), unpruned(&x).search(&x, 7).unwrap());
    }
}

/// Most distances are tied, and one row has more copies than a list of candidates can contain.
#[test]
fn ties_in_few_columns_are_ordered_by_id() {
    let mut values: Vec<f32> =
        data::normal(6000, 2, 1).as_slice().iter().map(|v| (4.0 * v).round()).collect();
    values.extend([1.0, -2.0].repeat(900));
    let x = Embeddings::new(values, 2).unwrap();
    let queries = x.gather(&(0..6900).step_by(13).collect::<Vec<u32>>());
    let (fast, all) = (pruned(&x, 2), unpruned(&x));
    for k in [1, 20, 300] {
        assert!(fast.search(&queries, k).unwrap() == all.search(&queries, k).unwrap(), "k = {k}");
    }
    let ids: Vec<u32> = (0..6900).step_by(17).collect();
    assert!(fast.leave_one_out(&ids, 20).unwrap() == all.leave_one_out(&ids, 20).unwrap());
}

/// Whether a partition (groups of rows that a search can skip) is used is decided on a sample of the rows that still exist.
#[test]
fn search_is_exact_when_most_rows_are_removed() {
    let (x, q) = (data::normal(60_000, 2, 1), data::normal(20_000, 2, 2));
    let removed: Vec<u32> = (0..60_000).filter(|id| id % 29 != 0).collect();
    let (mut fast, mut all) = (ExactIndex::new(&x).unwrap(), unpruned(&x));
    fast.remove(&removed).unwrap();
    all.remove(&removed).unwrap();
    assert_eq!(fast.search(&q, 5).unwrap(), all.search(&q, 5).unwrap());
}

/// For many rows with few columns, the index builds a partition without a request.
#[test]
fn the_automatic_choice_does_not_change_results() {
    let (x, q) = (data::normal(40_000, 3, 1), data::normal(3000, 3, 2));
    assert_eq!(ExactIndex::new(&x).unwrap().search(&q, 10).unwrap(), unpruned(&x).search(&q, 10).unwrap());
}

/// The rescaler shifts and scales rows before they are multiplied in `f32`. It was fitted to the first rows, and the
/// inserted rows are outside its range.
#[test]
fn rows_inserted_far_away_are_returned() {
    let x = data::normal(1000, 2, 1);
    let mut index = ExactIndex::new(&x).unwrap();
    index.search(&x, 5).unwrap();
    let far = Embeddings::new(vec![7e19; 8000], 2).unwrap();
    index.insert(&far).unwrap();
    let queries = Embeddings::new([1e24, -1e24].repeat(6), 2).unwrap();
    let all = Embeddings::new([x.as_slice(), far.as_slice()].concat(), 2).unwrap();
    let expected = ExactIndex::new(&all).unwrap().search(&queries, 1200).unwrap();
    assert_eq!(index.search(&queries, 1200).unwrap(), expected);
}

#[test]
fn a_search_without_available_rows_is_an_error() {
    let none = Embeddings::new(vec![], 3).unwrap();
    assert_eq!(ExactIndex::new(&none).err(), Some(Error::Empty));
    let one = data::normal(1, 3, 0);
    assert_eq!(ExactIndex::new(&one).unwrap().leave_one_out(&[0], 1).err(), Some(Error::Empty));
}

#[test]
fn an_empty_batch_can_be_inserted_after_all_rows_were_removed() {
    let mut index = ExactIndex::new(&data::normal(3, 2, 1)).unwrap();
    index.remove(&[0, 1, 2]).unwrap();
    assert!(index.insert(&Embeddings::new(vec![], 2).unwrap()).unwrap().is_empty());
    assert_eq!(index.insert(&data::normal(2, 2, 2)).unwrap(), [0, 1]);
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let (x, q) = (data::normal(5000, 24, 1), data::normal(777, 24, 2));
    let index = ExactIndex::new(&x).unwrap();
    let with = |threads| {
        let pool = rayon_pool(threads);
        pool.install(|| index.search(&q, 20).unwrap())
    };
    let single = with(1);
    for threads in [2, 3, 8] {
        assert_eq!(with(threads), single, "{threads} threads");
    }
}

fn rayon_pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

#[test]
fn a_scaled_index_searches_the_scaled_space_and_rejects_invalid_scales() {
    let (x, q) = (data::normal(400, 5, 1), data::normal(50, 5, 2));
    let scale = vec![1e-6, 1.0, 1e6, 3.0, 0.7];
    let neighbors = ExactIndex::scaled(&x, scale.clone()).unwrap().search(&q, 15).unwrap();
    let rows = data::to_rows(&x);
    for (i, query) in data::to_rows(&q).iter().enumerate() {
        let truth = oracle::by_distance(&rows, query, &scale);
        let expected: Vec<u32> = truth.iter().take(15).map(|&(_, id)| id as u32).collect();
        assert_eq!(neighbors.ids(i), expected);
        assert!((neighbors.sq_distances(i)[14] / truth[14].0 - 1.0).abs() < 1e-14);
    }
    for (column, value) in [(0, 0.0), (3, -1.0), (4, f64::NAN)] {
        let mut bad = scale.clone();
        bad[column] = value;
        assert!(matches!(ExactIndex::scaled(&x, bad), Err(Error::BadScale { column: c, .. }) if c == column));
    }
}

#[test]
fn search_is_exact_with_many_duplicates_and_an_outlier() {
    // Half of the rows are equal, and one is a million times longer than the others.
    let mut values = data::normal(3000, 12, 6).as_slice().to_vec();
    values[..1500 * 12].fill(0.25);
    values[2999 * 12] = 1e6;
    let x = Embeddings::new(values, 12).unwrap();
    let queries = x.gather(&[0, 700, 1600, 2000, 2999, 5, 6, 7]);
    let neighbors = ExactIndex::new(&x).unwrap().search(&queries, 20).unwrap();
    let rows = data::to_rows(&x);
    for (i, query) in data::to_rows(&queries).iter().enumerate() {
        let truth = oracle::by_distance(&rows, query, &[1.0; 12]);
        let expected: Vec<u32> = truth.iter().take(20).map(|&(_, id)| id as u32).collect();
        assert_eq!(neighbors.ids(i), expected, "query {i}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn merged_shards_equal_one_search(
        rows in 3usize..400, dim in 1usize..20, cut in 1usize..100, k in 1usize..30, seed in 0u64..1000,
        grid in prop::bool::ANY,
    ) {
        let (x, q) = (data::normal(rows, dim, seed), data::normal(9, dim, seed + 1));
        // On a coarse grid, ties and duplicates are frequent.
        let coarse = |e: &Embeddings<'_>| {
            let values = e.as_slice().iter().map(|v| if grid { v.round() } else { *v }).collect();
            Embeddings::new(values, dim).unwrap()
        };
        let (x, q) = (coarse(&x), coarse(&q));
        let cut = (cut * rows / 100).clamp(1, rows - 1);
        let whole = ExactIndex::new(&x).unwrap().search(&q, k).unwrap();
        let shard = |from: usize, to: usize| {
            let part = Embeddings::borrowed(&x.as_slice()[from * dim..to * dim], dim).unwrap();
            (from as u32, ExactIndex::new(&part).unwrap().search(&q, k).unwrap())
        };
        let merged = Neighbors::merge(&[shard(cut, rows), shard(0, cut)], k).unwrap();
        prop_assert_eq!(merged, whole);
    }
}
