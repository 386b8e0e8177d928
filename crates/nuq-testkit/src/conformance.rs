//! Conformance tests for every implementation of [`NeighborIndex`].

use nuq_neighbors::{Embeddings, Error, NeighborIndex, Neighbors};

use crate::data;
use crate::oracle::by_distance;

/// Builds the index under test.
pub type Build<'b> = &'b dyn for<'x> Fn(&'x Embeddings<'x>) -> Box<dyn NeighborIndex + 'x>;

/// An index under test and its requirements.
pub struct Subject<'b> {
    /// Builds the index.
    pub build: Build<'b>,
    /// The required recall. With 1 the index must return exactly the ids of the true neighbors, in
    /// order.
    pub recall: f64,
    /// Rounds rows as the index stores them; `None` for rows that it cannot store.
    pub stored: fn(Embeddings<'static>) -> Option<Embeddings<'static>>,
}

/// Runs all tests on an index that stores rows without rounding; panics when one fails.
pub fn run(build: Build<'_>, recall: f64) {
    run_on(&Subject { build, recall, stored: Some });
}

/// Runs all tests; panics when one fails.
pub fn run_on(subject: &Subject<'_>) {
    run_searches(subject);
    removed_rows_are_not_returned_and_inserted_rows_are(subject);
}

/// Runs the tests of searches, for an index whose rows cannot be changed; panics when one fails.
pub fn run_searches(subject: &Subject<'_>) {
    returns_the_nearest_rows(subject);
    returns_all_rows_when_k_is_larger(subject);
    excludes_by_id_and_keeps_duplicates(subject);
    breaks_ties_by_id(subject);
    is_accurate_with_a_common_offset(subject);
    is_accurate_at_any_scale(subject);
    one_query_equals_a_batch(subject);
    invalid_queries_are_errors(subject);
    measures_given_ids(subject);
}

/// Builds an index over the given rows by updates. The index is first built with wrong values in three of ten rows. Then
/// these wrong rows are removed, and the given rows are inserted under the same ids.
pub fn updated<'x>(build: Build<'_>, x: &'x Embeddings<'x>) -> Box<dyn NeighborIndex + 'x> {
    let replaced: Vec<u32> = (0..x.len() as u32).filter(|id| id % 10 < 3).collect();
    let mut values = x.as_slice().to_vec();
    for &id in &replaced {
        let other = x.row((id as usize * 7 + 1) % x.len());
        values[id as usize * x.dim()..][..x.dim()].copy_from_slice(other);
    }
    let before = Box::leak(Box::new(Embeddings::new(values, x.dim()).expect("finite")));
    let mut index = build(before);
    index.remove(&replaced).expect("known ids");
    let added = index.insert(&x.gather(&replaced)).expect("rows of the same dimension");
    assert_eq!(added, replaced, "the ids of removed rows were not reused in ascending order");
    index
}

fn nearest_ids(by_distance: &[(f64, usize)], k: usize) -> Vec<u32> {
    by_distance.iter().take(k).map(|&(_, i)| i as u32).collect()
}

/// Compares the neighbors and distances of a search with brute force.
fn check_against_brute_force(
    subject: &Subject<'_>,
    x: Embeddings<'static>,
    queries: &Embeddings<'_>,
    k: usize,
) {
    let Some(x) = (subject.stored)(x) else { return };
    let neighbors = (subject.build)(&x).search(queries, k).expect("a valid search");
    let (rows, unit) = (data::to_rows(&x), vec![1.0; x.dim()]);
    let mut hits = 0;
    for (i, q) in data::to_rows(queries).iter().enumerate() {
        let truth = by_distance(&rows, q, &unit);
        let expected = nearest_ids(&truth, k);
        if subject.recall == 1.0 {
            assert_eq!(neighbors.ids(i), expected, "query {i}");
        }
        hits += neighbors.ids(i).iter().filter(|id| expected.contains(id)).count();
        for (&id, &sq) in neighbors.ids(i).iter().zip(neighbors.sq_distances(i)) {
            let direct = truth.iter().find(|(_, row)| *row == id as usize).expect("the id names a row").0;
            assert!((sq - direct).abs() <= 1e-12 * direct, "wrong distance of row {id} to query {i}");
        }
        assert!(
            neighbors.sq_distances(i).windows(2).all(|pair| pair[0] <= pair[1]),
            "query {i}: neighbors are not sorted"
        );
    }
    let share = hits as f64 / (queries.len() * k) as f64;
    assert!(share >= subject.recall, "recall {share} is below {}", subject.recall);
}

fn returns_the_nearest_rows(subject: &Subject<'_>) {
    for (rows, dim, queries) in [
        (1, 3, 6),
        (50, 1, 40),
        (700, 2, 300),
        (3000, 17, 600),
        (2500, 70, 200),
        (900, 130, 7),
        (1100, 64, 1),
    ] {
        let (x, _) = data::clusters(rows, dim, 7, 3.0, 11);
        let (q, _) = data::clusters(queries, dim, 7, 3.0, 12);
        check_against_brute_force(subject, x, &q, 20.min(rows));
    }
}

fn returns_all_rows_when_k_is_larger(subject: &Subject<'_>) {
    let Some(x) = (subject.stored)(data::normal(9, 4, 1)) else { return };
    let neighbors = (subject.build)(&x).search(&data::normal(30, 4, 2), 50).expect("a valid search");
    assert_eq!((neighbors.k(), neighbors.len()), (9, 30));
    let mut ids = neighbors.ids(3).to_vec();
    ids.sort_unstable();
    assert_eq!(ids, (0..9).collect::<Vec<u32>>());
}

fn excludes_by_id_and_keeps_duplicates(subject: &Subject<'_>) {
    for rows in [60, 1500] {
        let (x, _) = data::clusters(rows, 3, 3, 2.0, 5);
        let Some(x) = (subject.stored)(x) else { return };
        // Row i and row i + rows are equal.
        let doubled = Embeddings::new([x.as_slice(), x.as_slice()].concat(), 3).expect("finite");
        let ids: Vec<u32> = (0..2 * rows as u32).collect();
        let neighbors = (subject.build)(&doubled).leave_one_out(&ids, 5).expect("a valid search");
        for (i, id) in ids.iter().enumerate() {
            assert!(!neighbors.ids(i).contains(id), "row {i} is its own neighbor");
        }
        let share =
            (0..ids.len()).filter(|&i| neighbors.sq_distances(i)[0] == 0.0).count() as f64 / ids.len() as f64;
        assert!(share >= subject.recall, "too few rows have their duplicate as nearest neighbor: {share}");
    }
}

fn breaks_ties_by_id(subject: &Subject<'_>) {
    let Some(x) = (subject.stored)(Embeddings::new(vec![2.5; 400], 2).expect("finite")) else { return };
    let index = (subject.build)(&x);
    for queries in [1, 40] {
        let neighbors =
            index.search(&Embeddings::new(vec![1.0; 2 * queries], 2).expect("finite"), 4).expect("valid");
        for i in 0..queries {
            assert_eq!(neighbors.ids(i), [0, 1, 2, 3]);
        }
    }
    let neighbors = index.leave_one_out(&[0, 2, 7, 199, 5], 3).expect("a valid search");
    assert_eq!(
        (neighbors.ids(0), neighbors.ids(1), neighbors.ids(3)),
        (&[1, 2, 3][..], &[0, 1, 3][..], &[0, 1, 2][..])
    );
}

fn is_accurate_with_a_common_offset(subject: &Subject<'_>) {
    let moved = |rows, seed| {
        let (set, _) = data::clusters(rows, 32, 5, 1.0, seed);
        let values = set.as_slice().iter().map(|v| v + 1000.0).collect();
        Embeddings::new(values, 32).expect("finite")
    };
    check_against_brute_force(subject, moved(2000, 8), &moved(100, 9), 20);
}

fn is_accurate_at_any_scale(subject: &Subject<'_>) {
    for unit in [1e-38f32, 1e-30, 1.0, 1e30] {
        let scaled = |rows, seed| {
            let values = data::normal(rows, 8, seed).as_slice().iter().map(|v| v * unit).collect();
            Embeddings::new(values, 8).expect("finite")
        };
        check_against_brute_force(subject, scaled(500, 3), &scaled(20, 4), 10);
    }
    // Queries far from the data. The products of one query are outside the range of f32.
    for (rows, dim) in [(500, 8), (2000, 40)] {
        let values = data::normal(20, dim, 4);
        let mut far: Vec<f32> = values.as_slice().iter().map(|v| v * 1e6).collect();
        far[0] = 3e38;
        let far = Embeddings::new(far, dim).expect("finite");
        check_against_brute_force(subject, data::normal(rows, dim, 3), &far, 10);
    }
}

/// The result of a query does not depend on the other queries of the batch, even if distances are nearly equal.
fn one_query_equals_a_batch(subject: &Subject<'_>) {
    let (build, stored) = (subject.build, subject.stored);
    let normal = data::normal(2000, 8, 3);
    // Rows of magnitude 1e-20 that fill whole blocks of the exact search, and two rows at ±1.
    let mut tiny: Vec<f32> = data::normal(4096, 4, 5).as_slice().iter().map(|v| v * 1e-20).collect();
    tiny.extend([1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0]);
    let tiny = Embeddings::new(tiny, 4).expect("finite");
    // Finite coordinates whose differences to the query at 3.4e38 (below) overflow f32.
    let diagonal = (0..200).flat_map(|i| {
        let t = 3e35 * (i as f32 - 99.5);
        [-4.5e37 + t, -4.5e37 - t]
    });
    let diagonal = Embeddings::new(diagonal.collect(), 2).expect("finite");
    for (x, scales) in [(normal, &[1e9, 1e13, 1e20][..]), (tiny, &[1.0, 1e-20]), (diagonal, &[1.0, 3e37])] {
        let Some(x) = stored(x) else { continue };
        let index = build(&x);
        for scale in scales {
            let values = data::normal(12, x.dim(), 6).as_slice().iter().map(|v| v * scale).collect();
            let mut queries = Embeddings::new(values, x.dim()).expect("finite");
            if x.dim() == 2 {
                let values = [queries.as_slice(), &[3.4e38, 3.4e38]].concat();
                queries = Embeddings::new(values, 2).expect("finite");
            }
            let together = index.search(&queries, 10).expect("a valid search");
            for i in 0..queries.len() {
                let alone = index.search(&queries.gather(&[i as u32]), 10).expect("a valid search");
                assert_eq!(alone.ids(0), together.ids(i), "query {i} of scale {scale}");
                assert_eq!(alone.sq_distances(0), together.sq_distances(i), "query {i} of scale {scale}");
            }
        }
    }
}

fn invalid_queries_are_errors(subject: &Subject<'_>) {
    let x = data::normal(10, 5, 1);
    let index = (subject.build)(&x);
    let one_column = Embeddings::new(vec![0.0; 7], 1).expect("finite");
    assert_eq!(index.search(&one_column, 3), Err(Error::DimensionMismatch { got: 1, expected: 5 }));
    assert_eq!(index.search(&x, 0), Err(Error::ZeroNeighbors));
    let unknown_row = index.leave_one_out(&[3, 999], 2);
    assert_eq!(unknown_row, Err(Error::UnknownId { query: 1, id: 999, len: 10 }));
    assert!(matches!(index.search_excluding(&x, 1, Some(&[0])), Err(Error::LengthMismatch { .. })));
    let unknown = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10];
    assert_eq!(
        index.search_excluding(&x, 1, Some(&unknown)),
        Err(Error::UnknownId { query: 9, id: 10, len: 10 })
    );
    assert!(
        index
            .search(&Embeddings::new(vec![], 5).expect("an empty batch is valid"), 3)
            .expect("valid")
            .is_empty()
    );
}

fn measures_given_ids(subject: &Subject<'_>) {
    let Some(x) = (subject.stored)(data::normal(40, 6, 2)) else { return };
    let index = (subject.build)(&x);
    let neighbors = index.search(&x, 4).expect("a valid search");
    let ids: Vec<u32> = (0..40).flat_map(|i| neighbors.ids(i).to_vec()).collect();
    let measured: Neighbors = index.rows().measure(&x, 4, &ids).expect("known ids");
    assert_eq!(measured, neighbors);
    for (k, ids) in [(4, &ids[1..]), (usize::MAX, &ids)] {
        assert!(matches!(index.rows().measure(&x, k, ids), Err(Error::LengthMismatch { .. })));
    }
}

fn removed_rows_are_not_returned_and_inserted_rows_are(subject: &Subject<'_>) {
    for rows in [60, 2600] {
        let (x, _) = data::clusters(rows, 33, 5, 2.0, 21);
        let Some(x) = (subject.stored)(x) else { return };
        let mut index = (subject.build)(&x);
        let removed: Vec<u32> = (0..rows as u32).step_by(3).collect();
        index.remove(&removed).expect("known ids");
        assert_eq!((index.len(), index.rows().id_bound()), (rows - removed.len(), rows));
        let neighbors = index.search(&x, 5).expect("a valid search");
        for i in 0..rows {
            assert!(neighbors.ids(i).iter().all(|id| id % 3 != 0), "query {i} returned a removed row");
        }
        assert_eq!(
            index.leave_one_out(&[1, 3], 2),
            Err(Error::UnknownId { query: 1, id: 3, len: rows - removed.len() })
        );
        for (ids, expected) in [(&[1, 1][..], 1), (&[2, 0], 1), (&[u32::MAX], 0)] {
            let result = index.remove(ids);
            assert!(
                matches!(result, Err(Error::CannotRemove { position, .. }) if position == expected),
                "{result:?}"
            );
        }
        assert!(index.rows().contains(1) && index.rows().contains(2), "an invalid list removed a row");

        // Insert more rows than were removed. They are far from all other rows.
        let (new, _) = data::clusters(removed.len() + 7, 33, 1, 50.0, 22);
        let Some(new) = (subject.stored)(new) else { return };
        let ids = index.insert(&new).expect("rows of the same dimension");
        assert_eq!(&ids[..removed.len()], removed, "ids of removed rows were not reused");
        assert_eq!(&ids[removed.len()..], (rows as u32..rows as u32 + 7).collect::<Vec<u32>>());
        let neighbors = index.search(&new, 1).expect("a valid search");
        let itself =
            (0..new.len()).filter(|&i| neighbors.ids(i)[0] == ids[i]).count() as f64 / new.len() as f64;
        assert!(itself >= subject.recall, "too few inserted rows are their own nearest neighbor: {itself}");
        let narrow = Embeddings::new(vec![0.0; 5], 5).expect("finite");
        assert_eq!(index.insert(&narrow), Err(Error::DimensionMismatch { got: 5, expected: 33 }));
    }
}
