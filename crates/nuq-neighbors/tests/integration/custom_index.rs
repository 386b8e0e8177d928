//! A custom index, implemented outside the crate.

use nuq_neighbors::{
    Embeddings, Error, IndexSummary, NeighborIndex, Neighbors, Precision, RowStorage, RowValues, StoredRows,
};
use nuq_testkit::conformance;

/// Brute-force search over stored rows.
struct BruteForce<S> {
    rows: S,
}

impl<S: RowStorage> NeighborIndex for BruteForce<S> {
    fn rows(&self) -> &dyn RowStorage {
        &self.rows
    }

    fn describe(&self) -> IndexSummary {
        IndexSummary::Other { name: "brute force", recall: None }
    }

    fn search_excluding(
        &self,
        queries: &Embeddings<'_>,
        k: usize,
        excluded: Option<&[u32]>,
    ) -> Result<Neighbors, Error> {
        let k = self.rows.check_search(queries, k, excluded)?;
        let live = self.rows.live_ids();
        let (mut ids, mut sq_distances) = (vec![], vec![]);
        for (i, query) in queries.rows().enumerate() {
            let others = live.iter().filter(|&&id| excluded.is_none_or(|excluded| excluded[i] != id));
            let mut nearest: Vec<(f64, u32)> =
                others.map(|&id| (self.rows.sq_distance(query, id), id)).collect();
            nearest.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            ids.extend(nearest[..k].iter().map(|neighbor| neighbor.1));
            sq_distances.extend(nearest[..k].iter().map(|neighbor| neighbor.0));
        }
        Neighbors::new(k, ids, sq_distances)
    }

    fn insert(&mut self, rows: &Embeddings<'_>) -> Result<Vec<u32>, Error> {
        self.rows.insert(rows)
    }

    fn remove(&mut self, ids: &[u32]) -> Result<(), Error> {
        self.rows.remove(ids)
    }
}

fn brute_force<'x>(x: &Embeddings<'x>) -> BruteForce<StoredRows<'x>> {
    BruteForce { rows: StoredRows::new(x, Precision::F32).unwrap() }
}

#[test]
fn passes_the_conformance_tests() {
    conformance::run(&|x| Box::new(brute_force(x)), 1.0);
    conformance::run(&|x| conformance::updated(&|x| Box::new(brute_force(x)), x), 1.0);
}

#[test]
fn is_described_by_its_name() {
    let x = Embeddings::from_rows(&[[0.0]]).unwrap();
    assert_eq!(brute_force(&x).describe().to_string(), "brute force");
}

/// For an index without a graph, a model file stores the rows only, and the index is restored as exact search.
#[test]
fn the_parts_for_a_model_file_are_the_rows_only() {
    let x = Embeddings::from_rows(&[[0.0, 1.0], [2.0, 3.0]]).unwrap();
    let mut index = brute_force(&x);
    index.remove(&[0]).unwrap();
    let parts = index.parts();
    assert!(parts.graph.is_none());
    assert_eq!((parts.rows.dim, &parts.rows.removed[..]), (2, &[0][..]));
    assert!(matches!(&parts.rows.values, RowValues::F32(values) if values[..] == [0.0, 1.0, 2.0, 3.0]));
}
