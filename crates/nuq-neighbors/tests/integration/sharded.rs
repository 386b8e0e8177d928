//! Search in shards: conformance tests, and equality with one exact index.

use std::sync::Arc;

use nuq_neighbors::{
    AddTable, Device, Embeddings, Error, ExactIndex, HeldShards, IndexKind, IndexRequest, NeighborIndex,
    Neighbors, Precision, Pruning, RowStorage, Shard, ShardMerge, ShardSearch, ShardedIndex, ShardedRows,
    StoredRows,
};
use nuq_testkit::conformance::{self, Subject};
use nuq_testkit::data;

/// Changes the tables that the shards return. Each table is given with the number of its shard.
type Change = fn(Vec<(usize, Neighbors)>) -> Vec<(usize, Neighbors)>;

/// The rows in shards with these numbers of rows.
fn shards_of(x: &Embeddings<'_>, sizes: &[usize]) -> ShardedRows {
    let mut first = 0;
    let shard = |&size: &usize| {
        let ids: Vec<u32> = (first..first + size as u32).collect();
        first += size as u32;
        let rows = StoredRows::new(&x.gather(&ids), Precision::F32).unwrap();
        Shard { name: format!("shard {first}"), rows }
    };
    let shards: Vec<Shard> = sizes.iter().map(shard).collect();
    assert_eq!(first as usize, x.len());
    ShardedRows::new(shards, false).unwrap()
}

/// At most `shards` shards of nearly equal size.
fn split(x: &Embeddings<'_>, shards: usize) -> ShardedRows {
    let size = x.len().div_ceil(shards);
    let sizes: Vec<usize> = (0..x.len()).step_by(size).map(|first| size.min(x.len() - first)).collect();
    shards_of(x, &sizes)
}

#[test]
fn passes_the_conformance_tests_of_searches() {
    for shards in [1, 3, 7] {
        let build: conformance::Build<'_> = &|x| Box::new(ShardedIndex::new(split(x, shards), Device::Cpu));
        conformance::run_searches(&Subject { build, recall: 1.0, stored: Some });
    }
}

#[test]
fn neighbors_equal_those_of_one_index() {
    // Several shards contain duplicates of the same row, and ties are ordered by the ids in the whole model.
    let (x, _) = data::clusters(600, 5, 4, 2.0, 1);
    let repeated: Vec<u32> = (0..600).map(|i| if i % 5 == 0 { 7 } else { i }).collect();
    let x = x.gather(&repeated);
    let queries = data::normal(50, 5, 2);
    let whole = ExactIndex::new(&x).unwrap();
    let ids: Vec<u32> = (0..600).step_by(11).chain([0, 599]).collect();
    for sizes in [&[600][..], &[200, 200, 200], &[1, 3, 2, 590, 4], &[85, 85, 85, 85, 85, 85, 90]] {
        let sharded = ShardedIndex::new(shards_of(&x, sizes), Device::Cpu);
        for k in [1, 20, 599, 600, 1000] {
            assert!(
                sharded.search(&queries, k).unwrap() == whole.search(&queries, k).unwrap(),
                "{sizes:?}, {k}"
            );
            let (left_out, expected) = (sharded.leave_one_out(&ids, k), whole.leave_one_out(&ids, k));
            assert!(left_out.unwrap() == expected.unwrap(), "{sizes:?}, {k}");
        }
    }
}

/// The shards have so many rows that their indexes skip rows.
#[test]
fn neighbors_in_large_shards_equal_those_of_a_search_that_compares_all_rows() {
    for dim in [2, 70] {
        let (x, _) = data::clusters(9000, dim, 20, 0.2, 1);
        let sharded = ShardedIndex::new(split(&x, 3), Device::Cpu);
        let all = ExactIndex::new(&x).unwrap().pruning(Pruning::Off);
        let ids: Vec<u32> = (0..9000).collect();
        let expected = all.leave_one_out(&ids, 5).unwrap();
        for _ in 0..2 {
            assert!(sharded.leave_one_out(&ids, 5).unwrap() == expected, "{dim}");
        }
    }
}

#[test]
fn a_scale_applies_to_all_shards() {
    let x = data::normal(100, 3, 5);
    let scale = vec![0.5, 3.0, 1e-3];
    let request = IndexRequest { kind: IndexKind::Exact, device: Device::Cpu, ..IndexRequest::default() };
    let (sharded, _) = request.build_sharded(split(&x, 3), Some(scale.clone())).unwrap();
    let (whole, _) = request.build(&x, Some(scale)).unwrap();
    assert_eq!(sharded.rows().scale(), whole.rows().scale());
    assert!(sharded.search(&x, 9).unwrap() == whole.search(&x, 9).unwrap());
    assert!(split(&x, 3).scaled(vec![1.0, 0.0, 1.0]).is_err());
}

#[test]
fn tables_of_shards_are_merged_in_any_order() {
    let (x, queries) = (data::normal(90, 2, 3), data::normal(10, 2, 4));
    let (rows, k) = (split(&x, 7), 30);
    let mut tables: Vec<_> = rows
        .shards()
        .map(|(first, shard)| (first, ExactIndex::from_rows(shard.rows.clone()).search(&queries, k).unwrap()))
        .collect();
    tables.rotate_left(3);
    tables.swap(0, 5);
    let mut merge = ShardMerge::new(queries.len(), k);
    tables.iter().for_each(|(first, table)| merge.add(*first, table, None));
    assert!(merge.finish() == ExactIndex::new(&x).unwrap().search(&queries, k).unwrap());
}

#[test]
fn rows_are_those_of_the_shards() {
    let x = data::normal(20, 3, 6);
    let rows = shards_of(&x, &[7, 1, 12]);
    let ids: Vec<u32> = (0..20).rev().collect();
    assert_eq!(rows.gather(&ids).unwrap().as_slice(), x.gather(&ids).as_slice());
    let restored = StoredRows::new(&x, Precision::F32).unwrap();
    match (rows.parts().values, restored.parts().values) {
        (nuq_neighbors::RowValues::F32(a), nuq_neighbors::RowValues::F32(b)) => assert!(a[..] == b[..]),
        _ => panic!("rows are stored in f32"),
    }
}

#[test]
fn invalid_shards_and_updates_and_graphs_over_shards_are_errors() {
    let x = data::normal(20, 3, 7);
    let shard = |rows| Shard { name: "s".to_owned(), rows };
    let of = |x: &Embeddings<'static>| StoredRows::new(x, Precision::F32).unwrap();
    assert_eq!(ShardedRows::new(vec![], false).err(), Some(Error::Empty));
    let mismatch = ShardedRows::new(vec![shard(of(&x)), shard(of(&data::normal(2, 4, 1)))], false).err();
    assert_eq!(mismatch, Some(Error::DimensionMismatch { got: 4, expected: 3 }));
    let halves = StoredRows::new(&x, Precision::F16).unwrap();
    assert!(matches!(ShardedRows::new(vec![shard(halves)], false), Err(Error::Damaged { .. })));
    let mut index = ShardedIndex::new(split(&x, 3), Device::Cpu);
    assert_eq!(index.insert(&x).err(), Some(Error::FixedShards));
    assert_eq!(index.remove(&[1]).err(), Some(Error::FixedShards));
    let graph = IndexRequest { kind: IndexKind::ALL[2], ..IndexRequest::default() };
    assert_eq!(graph.build_sharded(split(&x, 3), None).err(), Some(Error::GraphOverShards));
}

#[test]
fn a_table_that_is_merged_twice_is_an_error() {
    let x = Embeddings::from_rows(&[[0.0], [5.0], [1.0]]).unwrap();
    let table = HeldShards::new(&split(&x, 1), &[0], Device::Cpu).unwrap().search(&x, 2).unwrap();
    let error = HeldShards::merge(&[table.clone(), table], 3).err().unwrap();
    assert_eq!(error, Error::RepeatedId { query: 0, id: 0 });
}

#[test]
fn held_shards_with_ids_above_the_limit_are_errors() {
    let x = data::normal(5, 3, 9);
    let held = |first: u32| HeldShards::new(&split(&x, 1), &[first], Device::Cpu);
    let error = held(u32::MAX - 4).err().unwrap();
    assert_eq!(error, Error::TooManyRows { rows: 1 << 32 });
    // The number is that of the model, not that of the shard.
    assert!(error.to_string().ends_with("rows per index or sharded model"), "{error}");
    let ids = |first: u32| held(first).unwrap().search(&x.gather(&[4]), 1).unwrap().ids(0).to_vec();
    assert_eq!(ids(u32::MAX - 5), [u32::MAX - 1]);
}

#[test]
#[should_panic(expected = "every id of a shard fits into 32 bits")]
fn a_merge_with_ids_above_32_bits_panics() {
    let x = data::normal(5, 3, 9);
    let table = ExactIndex::new(&x).unwrap().search(&x, 5).unwrap();
    ShardMerge::new(5, 5).add(u32::MAX - 1, &table, None);
}

/// Searches each shard with an index of its own, as workers do, and applies `change` to the numbers of the shards and
/// their results.
struct Workers {
    rows: ShardedRows,
    change: Change,
}

impl ShardSearch for Workers {
    fn search(
        &self,
        queries: &Embeddings<'_>,
        k: usize,
        scale: Option<&[f64]>,
        add: &mut AddTable<'_>,
    ) -> Result<(), Error> {
        let search = |(_, shard): (u32, &Shard)| {
            let rows = match scale {
                Some(scale) => shard.rows.clone().scaled(scale.to_vec())?,
                None => shard.rows.clone(),
            };
            ExactIndex::from_rows(rows).search(queries, k)
        };
        let tables: Vec<Neighbors> = self.rows.shards().map(search).collect::<Result<_, Error>>()?;
        let tables = (self.change)(tables.into_iter().enumerate().collect());
        tables.iter().try_for_each(|(i, table)| add(*i, table))
    }
}

#[test]
fn a_shard_search_gives_the_same_neighbors_and_invalid_results_are_errors() {
    let x = data::normal(50, 3, 8);
    let rows = shards_of(&x, &[4, 30, 16]);
    let with = |change| rows.clone().searched_by(Arc::new(Workers { rows: rows.clone(), change }));
    let (whole, ids) = (ExactIndex::new(&x).unwrap(), [3, 4, 49]);
    // The results arrive in another order.
    let reversed = || with(|tables| tables.into_iter().rev().collect());
    let sharded = ShardedIndex::new(reversed(), Device::Cpu);
    assert!(sharded.search(&x, 10).unwrap() == whole.search(&x, 10).unwrap());
    assert!(sharded.leave_one_out(&ids, 49).unwrap() == whole.leave_one_out(&ids, 49).unwrap());
    let scale = vec![1.0, 2.0, 0.1];
    let scaled = ShardedIndex::new(reversed().scaled(scale.clone()).unwrap(), Device::Cpu);
    assert!(scaled.search(&x, 10).unwrap() == ExactIndex::scaled(&x, scale).unwrap().search(&x, 10).unwrap());
    let wrong: [Change; 5] = [
        // One shard has no result.
        |tables| tables[..2].to_vec(),
        // There are too few neighbors.
        |tables| tables.into_iter().map(|(i, table)| (i, table.nearest(1).unwrap())).collect(),
        // Each result is given for another shard.
        |tables| tables.into_iter().map(|(i, table)| ((i + 1) % 3, table)).collect(),
        // All results are given for the first shard.
        |tables| tables.into_iter().map(|(_, table)| (0, table)).collect(),
        // One result is given for a shard that does not exist.
        |tables| tables.into_iter().map(|(i, table)| (i + 1, table)).collect(),
    ];
    for change in wrong {
        let result = ShardedIndex::new(with(change), Device::Cpu).search(&x, 20);
        assert!(matches!(result, Err(Error::ShardSearch { .. })));
    }
}
