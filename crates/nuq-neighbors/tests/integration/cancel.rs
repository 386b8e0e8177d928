//! Cancelled searches, builds and updates: they end at a check point (a place at which a loop tests whether it was cancelled)
//! and leave the index as it was.

use nuq_neighbors::{
    CancelToken, Cancelled, Embeddings, ExactIndex, HnswIndex, HnswParams, NeighborIndex, Neighbors,
    Precision, Pruning,
};
use nuq_testkit::cancel::{assert_checks_often, cancel_at_check_points, count_checks};
use nuq_testkit::data::normal;

const GRAPH: HnswParams = HnswParams::DEFAULT;

#[test]
fn every_kind_of_search_has_enough_check_points() {
    let (rows, queries) = (normal(20_000, 64, 1), normal(100, 64, 2));
    let index = ExactIndex::new(&rows).unwrap();
    let steps = 20_000 * 100 * 64;
    // The second argument is the number of elementary steps: products of two coordinates.
    // The third argument is the ratio of the size of the largest expected data to the size of this data: a factor of 32 for
    // 2048 instead of 64 columns, and a factor of 10 for blocks of 1024 instead of 100 queries. The ratio is divided by 8 for
    // matrix products, which do at least eight steps per instruction.
    assert_checks_often("products", steps, 320 / 8, || index.search(&queries, 10).unwrap());
    let pruned = ExactIndex::new(&rows).unwrap().pruning(Pruning::On(32));
    assert_checks_often("partition and pruned search", steps, 320 / 8, || {
        pruned.search(&queries, 10).unwrap()
    });
    assert_checks_often("pruned search", steps, 320 / 8, || pruned.search(&queries, 10).unwrap());
    assert_checks_often("direct distances", steps, 32, || index.search(&queries, 10_000).unwrap());
    let few = queries.gather(&[0, 1]);
    assert_checks_often("few queries", steps / 50, 32, || index.search(&few, 10).unwrap());
    let ids: Vec<u32> = (0..2000).collect();
    assert_checks_often("given ids", 2000 * 64, 32, || index.rows().measure(&queries, 20, &ids).unwrap());
    assert_checks_often("norms", 20_000 * 64, 32, || rows.l2_normalized());

    let graph = HnswIndex::new(&rows, GRAPH).unwrap();
    // 100 queries; each visits about 500 nodes with 32 links and 64 columns.
    let steps_of_walk = 100 * 500 * 32 * 64;
    assert_checks_often("walks", steps_of_walk, 32, || graph.search(&queries, 10).unwrap());
}

#[test]
fn the_construction_of_a_graph_has_enough_check_points() {
    let rows = normal(3000, 64, 1);
    // Each of the 3000 rows is compared with about 1000 others in 64 columns.
    let steps = 3000 * 1000 * 64;
    assert_checks_often("construction", steps, 32, || HnswIndex::new(&rows, GRAPH).unwrap());
    let mut index = HnswIndex::new(&rows, GRAPH).unwrap();
    assert_checks_often("tuning", 500 * 3000 * 64, 32, || index.tune(0.99, 10).unwrap());
}

#[test]
fn a_cancelled_search_or_build_returns_cancelled() {
    let (rows, queries) = (normal(3000, 16, 1), normal(40, 16, 2));
    let token = CancelToken::new();
    token.cancel();
    assert_eq!(token.run(|| HnswIndex::new(&rows, GRAPH)).err(), Some(Cancelled));

    let exact = ExactIndex::new(&rows).unwrap();
    let graph = HnswIndex::new(&rows, GRAPH).unwrap();
    let pruned = ExactIndex::new(&rows).unwrap().pruning(Pruning::On(4));
    for index in [&exact as &dyn NeighborIndex, &pruned, &graph] {
        let expected = index.search(&queries, 5).unwrap();
        cancel_at_check_points(
            &mut (),
            |()| index.search(&queries, 5).unwrap(),
            |()| assert_eq!(index.search(&queries, 5).unwrap(), expected),
        );
    }
}

#[test]
fn searches_are_cancelled_inside_and_outside_of_a_pool() {
    let (rows, queries) = (normal(3000, 16, 1), normal(40, 16, 2));
    let index = ExactIndex::new(&rows).unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let token = CancelToken::at_check(3);
    assert_eq!(pool.install(|| token.run(|| index.search(&queries, 5))), Err(Cancelled));
    assert_eq!(CancelToken::at_check(3).run(|| index.search(&queries, 5)), Err(Cancelled));
}

#[derive(PartialEq)]
struct State {
    neighbors_of_queries: Neighbors,
    neighbors_of_rows: Neighbors,
    live: Vec<u32>,
    id_bound: usize,
    /// Of the bottom layer and of the upper layers.
    links: Option<(Vec<u32>, Vec<u32>)>,
    /// The rest of what a model file stores of the index.
    stored: String,
}

fn state_of(index: &HnswIndex<'_>, queries: &Embeddings<'_>) -> State {
    let live = index.rows().live_ids();
    let parts = index.parts();
    let graph = parts.graph.unwrap();
    let entry = graph.links.as_ref().map(|links| links.entry);
    let codes = graph.codes.map(|codes| (codes.step, codes.out_of_range, codes.blocks.len()));
    State {
        neighbors_of_queries: index.search(queries, 5).unwrap(),
        neighbors_of_rows: index.leave_one_out(&live[..20], 5).unwrap(),
        live,
        id_bound: index.rows().id_bound(),
        links: graph.links.map(|links| (links.bottom.to_vec(), links.upper.to_vec())),
        stored: format!("{:?} {entry:?} {codes:?} {:?}", parts.rows.removed, graph.recall),
    }
}

fn assert_all_or_nothing(
    name: &str,
    index: &mut HnswIndex<'_>,
    queries: &Embeddings<'_>,
    change: impl Fn(&mut HnswIndex<'_>),
) {
    let before = state_of(index, queries);
    let checks = cancel_at_check_points(index, &change, |index| {
        assert!(state_of(index, queries) == before, "{name}: a cancelled change has an effect");
    });
    assert!(checks > 5, "{name}: {checks} check points");
    assert!(state_of(index, queries) != before, "{name}: the change has no effect");
}

#[test]
fn a_cancelled_update_of_a_graph_changes_nothing() {
    let queries = normal(30, 40, 9);
    for precision in [Precision::F32, Precision::F16] {
        let rows = normal(2200, 40, 1);
        let mut index = HnswIndex::new(&rows, GRAPH.precision(precision)).unwrap();
        index.recall(5).unwrap();
        let few: Vec<u32> = (0..2200).step_by(20).collect();
        assert_all_or_nothing("remove few", &mut index, &queries, |index| index.remove(&few).unwrap());
        let new = normal(300, 40, 2);
        assert_all_or_nothing("insert, some into free ids", &mut index, &queries, |index| {
            index.insert(&new).unwrap();
        });
        // The codes of the rows (one byte per coordinate) are dropped when more than one in a hundred rows were inserted
        // outside their range.
        let far =
            Embeddings::new(normal(100, 40, 3).as_slice().iter().map(|v| 300.0 * v).collect(), 40).unwrap();
        assert_all_or_nothing("insert far rows", &mut index, &queries, |index| {
            index.insert(&far).unwrap();
        });
        let many: Vec<u32> = index.rows().live_ids().into_iter().take(1400).collect();
        assert_all_or_nothing("remove most", &mut index, &queries, |index| index.remove(&many).unwrap());
    }
    let scale: Vec<f64> = (0..40).map(|j| 1.0 + f64::from(j)).collect();
    let mut index = HnswIndex::scaled(&normal(1500, 40, 1), scale, GRAPH).unwrap();
    let new = normal(100, 40, 2);
    assert_all_or_nothing("insert into a scaled index", &mut index, &queries, |index| {
        index.insert(&new).unwrap();
    });
}

#[test]
fn a_cancelled_insertion_that_creates_or_drops_the_graph_changes_nothing() {
    let queries = normal(30, 8, 9);
    let mut index = HnswIndex::new(&normal(1000, 8, 1), GRAPH).unwrap();
    let new = normal(100, 8, 2);
    assert_all_or_nothing("graph is created", &mut index, &queries, |index| {
        index.insert(&new).unwrap();
    });
    let mut huge = normal(100, 8, 2).as_slice().to_vec();
    // The square of this value is outside the range of `f32`, so the graph is dropped.
    huge[0] = 1e20;
    let huge = Embeddings::new(huge, 8).unwrap();
    assert_all_or_nothing("graph is dropped", &mut index, &queries, |index| {
        index.insert(&huge).unwrap();
    });
}

#[test]
fn the_insertion_of_few_rows_has_no_check_point_after_its_first_change() {
    let mut index = HnswIndex::new(&normal(5000, 4, 1), GRAPH).unwrap();
    let row = normal(1, 4, 2);
    let mut inserted = vec![];
    // One check point is at the start of the computation, the other is before the first change.
    assert_eq!(count_checks(|| inserted = index.insert(&row).unwrap()), 2);
    assert_eq!(index.search(&row, 1).unwrap().ids(0), inserted);
}

#[test]
fn cancelled_tuning_keeps_ef_search() {
    let mut index = HnswIndex::new(&normal(1500, 8, 1), GRAPH.ef_search(77)).unwrap();
    cancel_at_check_points(
        &mut index,
        |index| index.tune(0.9, 5).unwrap(),
        |index| assert_eq!(index.params().ef_search, 77),
    );
    assert_ne!(index.params().ef_search, 77);
}
