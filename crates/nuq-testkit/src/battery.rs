//! The battery: what every neighbor index must do, whatever it is made of.

use nuq_neighbors::{Embeddings, Error, NeighborIndex, Neighbors};

use crate::data;
use crate::oracle::by_distance;

/// Builds the index under test.
pub type Build<'b> = &'b dyn for<'x> Fn(&'x Embeddings<'x>) -> Box<dyn NeighborIndex + 'x>;

/// Runs all checks; panics with the one that fails. `recall` is the share of true neighbors that the index must
/// find on clustered data: 1 for an exact index, which must then find them in order, bit for bit.
pub fn run(build: Build<'_>, recall: f64) {
    finds_the_nearest(build, recall);
    gives_all_rows_when_asked_for_more(build);
    excludes_by_id_and_keeps_duplicates(build);
    breaks_ties_by_id(build);
    ignores_a_common_offset(build, recall);
    answers_queries_of_any_scale(build, recall);
    answers_alone_as_in_a_batch(build);
    refuses_bad_queries(build);
    measures_given_ids(build);
}

fn table(found: &[(f64, usize)], k: usize) -> Vec<u32> {
    found.iter().take(k).map(|&(_, i)| i as u32).collect()
}

/// The share of true neighbors found; an exact index must also return them in order.
fn check_against_brute_force(
    index: &dyn NeighborIndex,
    x: &Embeddings<'_>,
    queries: &Embeddings<'_>,
    k: usize,
    recall: f64,
) {
    let found = index.search(queries, k).expect("a valid search");
    let (rows, unit) = (data::to_rows(x), vec![1.0; x.dim()]);
    let mut hits = 0;
    for (i, q) in data::to_rows(queries).iter().enumerate() {
        let truth = by_distance(&rows, q, &unit);
        let expected = table(&truth, k);
        if recall == 1.0 {
            assert_eq!(found.ids(i), expected, "query {i}");
        }
        hits += found.ids(i).iter().filter(|id| expected.contains(id)).count();
        for (&id, &sq) in found.ids(i).iter().zip(found.sq_distances(i)) {
            let direct = truth.iter().find(|(_, row)| *row == id as usize).expect("a known row").0;
            assert!((sq - direct).abs() <= 1e-12 * direct, "distance of row {id} to query {i}");
        }
        assert!(found.sq_distances(i).windows(2).all(|pair| pair[0] <= pair[1]), "query {i}: nearest first");
    }
    let share = hits as f64 / (queries.len() * k) as f64;
    assert!(share >= recall, "recall {share} is below {recall}");
}

fn finds_the_nearest(build: Build<'_>, recall: f64) {
    for (rows, dim, queries) in
        [(1, 3, 6), (50, 1, 40), (700, 2, 300), (3000, 17, 600), (900, 130, 7), (1100, 64, 1)]
    {
        let (x, _) = data::clusters(rows, dim, 7, 3.0, 11);
        let (q, _) = data::clusters(queries, dim, 7, 3.0, 12);
        check_against_brute_force(&*build(&x), &x, &q, 20.min(rows), recall);
    }
}

fn gives_all_rows_when_asked_for_more(build: Build<'_>) {
    let x = data::normal(9, 4, 1);
    let found = build(&x).search(&data::normal(30, 4, 2), 50).expect("a valid search");
    assert_eq!((found.k(), found.len()), (9, 30));
    let mut ids = found.ids(3).to_vec();
    ids.sort_unstable();
    assert_eq!(ids, (0..9).collect::<Vec<u32>>());
}

fn excludes_by_id_and_keeps_duplicates(build: Build<'_>) {
    let (x, _) = data::clusters(60, 3, 3, 2.0, 5);
    // Every row twice: row i and row i + 60.
    let doubled = Embeddings::new([x.as_slice(), x.as_slice()].concat(), 3).expect("finite");
    let ids: Vec<u32> = (0..120).collect();
    let found = build(&doubled).leave_one_out(&ids, 5).expect("a valid search");
    for i in 0..120u32 {
        assert_eq!(found.ids(i as usize)[0], (i + 60) % 120, "the duplicate of row {i} is its nearest other");
        assert!(!found.ids(i as usize).contains(&i), "row {i} is not its own neighbor");
    }
}

fn breaks_ties_by_id(build: Build<'_>) {
    let x = Embeddings::new(vec![2.5; 400], 2).expect("finite");
    let index = build(&x);
    for queries in [1, 40] {
        let found =
            index.search(&Embeddings::new(vec![1.0; 2 * queries], 2).expect("finite"), 4).expect("valid");
        for i in 0..queries {
            assert_eq!(found.ids(i), [0, 1, 2, 3]);
        }
    }
    let found = index.leave_one_out(&[0, 2, 7, 199, 5], 3).expect("a valid search");
    assert_eq!((found.ids(0), found.ids(1), found.ids(3)), (&[1, 2, 3][..], &[0, 1, 3][..], &[0, 1, 2][..]));
}

fn ignores_a_common_offset(build: Build<'_>, recall: f64) {
    let (mut x, mut q) = (data::clusters(2000, 32, 5, 1.0, 8).0, data::clusters(100, 32, 5, 1.0, 9).0);
    for set in [&mut x, &mut q] {
        let moved = set.as_slice().iter().map(|v| v + 1000.0).collect();
        *set = Embeddings::new(moved, 32).expect("finite");
    }
    check_against_brute_force(&*build(&x), &x, &q, 20, recall);
}

fn answers_queries_of_any_scale(build: Build<'_>, recall: f64) {
    for unit in [1e-38f32, 1e-30, 1.0, 1e30] {
        let scaled = |rows, seed| {
            let values = data::normal(rows, 8, seed).as_slice().iter().map(|v| v * unit).collect();
            Embeddings::new(values, 8).expect("finite")
        };
        let x = scaled(500, 3);
        check_against_brute_force(&*build(&x), &x, &scaled(20, 4), 10, recall);
    }
    // Queries farther away than the data are wide, and one beyond f32 products.
    let x = data::normal(500, 8, 3);
    let mut far: Vec<f32> = data::normal(20, 8, 4).as_slice().iter().map(|v| v * 1e6).collect();
    far[0] = 3e38;
    check_against_brute_force(&*build(&x), &x, &Embeddings::new(far, 8).expect("finite"), 10, recall);
}

/// Where rounding leaves distances tied or nearly so, the answer is still one: the same for a query alone and in
/// company.
fn answers_alone_as_in_a_batch(build: Build<'_>) {
    let normal = data::normal(2000, 8, 3);
    // Rows of size 1e-20 in a block of their own, and two at ±1.
    let mut tiny: Vec<f32> = data::normal(4096, 4, 5).as_slice().iter().map(|v| v * 1e-20).collect();
    tiny.extend([1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0]);
    let tiny = Embeddings::new(tiny, 4).expect("finite");
    // Differences that overflow f32 though no coordinate does.
    let diagonal = (0..200).flat_map(|i| {
        let t = 3e35 * (i as f32 - 99.5);
        [-4.5e37 + t, -4.5e37 - t]
    });
    let diagonal = Embeddings::new(diagonal.collect(), 2).expect("finite");
    for (x, sizes) in [(&normal, &[1e9, 1e13, 1e20][..]), (&tiny, &[1.0, 1e-20]), (&diagonal, &[1.0, 3e37])] {
        let index = build(x);
        for size in sizes {
            let values = data::normal(12, x.dim(), 6).as_slice().iter().map(|v| v * size).collect();
            let mut queries = Embeddings::new(values, x.dim()).expect("finite");
            if x.dim() == 2 {
                let values = [queries.as_slice(), &[3.4e38, 3.4e38]].concat();
                queries = Embeddings::new(values, 2).expect("finite");
            }
            let together = index.search(&queries, 10).expect("a valid search");
            for i in 0..queries.len() {
                let alone = index.search(&queries.gather(&[i as u32]), 10).expect("a valid search");
                assert_eq!(alone.ids(0), together.ids(i), "query {i} of size {size}");
                assert_eq!(alone.sq_distances(0), together.sq_distances(i), "query {i} of size {size}");
            }
        }
    }
}

fn refuses_bad_queries(build: Build<'_>) {
    let x = data::normal(10, 5, 1);
    let index = build(&x);
    let one_column = Embeddings::new(vec![0.0; 7], 1).expect("finite");
    assert_eq!(index.search(&one_column, 3), Err(Error::DimensionMismatch { got: 1, expected: 5 }));
    assert_eq!(index.search(&x, 0), Err(Error::ZeroNeighbors));
    let outside = index.leave_one_out(&[3, 999], 2);
    assert_eq!(outside, Err(Error::UnknownId { query: 1, id: 999, len: 10 }));
    assert!(matches!(index.find(&x, 1, Some(&[0])), Err(Error::LengthMismatch { .. })));
    let unknown = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10];
    assert_eq!(index.find(&x, 1, Some(&unknown)), Err(Error::UnknownId { query: 9, id: 10, len: 10 }));
    assert!(index.search(&Embeddings::new(vec![], 5).expect("an empty batch"), 3).expect("valid").is_empty());
}

fn measures_given_ids(build: Build<'_>) {
    let x = data::normal(40, 6, 2);
    let index = build(&x);
    let found = index.search(&x, 4).expect("a valid search");
    let ids: Vec<u32> = (0..40).flat_map(|i| found.ids(i).to_vec()).collect();
    let measured: Neighbors = index.measure(&x, 4, &ids).expect("known ids");
    assert_eq!(measured, found);
    for (k, ids) in [(4, &ids[1..]), (usize::MAX, &ids)] {
        assert!(matches!(index.measure(&x, k, ids), Err(Error::LengthMismatch { .. })));
    }
}
