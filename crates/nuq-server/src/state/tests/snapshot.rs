//! Recovery from a snapshot, and changes that are removed because a snapshot contains them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::state::journal;

#[test]
fn after_a_snapshot_recovery_is_shorter_and_the_list_of_changes_is_still_complete() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let last = (0..20).map(|i| served.insert(100 + i, 1).id).last().unwrap();
    {
        let mut log = served.state.log();
        served.state.snapshot(&mut log, &served.model.read().unwrap());
        assert_eq!((log.changes, log.base.change), (0, last));
    }
    let snapshots = || {
        let names = std::fs::read_dir(fixture.state()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".nuq")).count()
    };
    assert_eq!(snapshots(), 1);
    served.insert(500, 2);
    let expected = served.bytes();
    drop(served);
    // A snapshot that a killed process left. The database does not refer to it.
    std::fs::write(fixture.state().join("nuq-snapshot-m-77.nuq"), "incomplete").unwrap();
    let served = fixture.load();
    assert_eq!((served.bytes(), snapshots()), (expected, 1));
    assert_eq!(served.state.changes(100).unwrap().len(), 21);
    served.undo(last).unwrap();
}

#[test]
fn a_snapshot_is_written_when_the_journal_is_long_but_not_of_a_sharded_model() {
    let folder = tempfile::tempdir().unwrap();
    let parts = [rows(0, 30), rows(30, 30)];
    let files = [0, 1]
        .map(|number| nuq_io::write_shard(folder.path(), number, &parts[number as usize], false).unwrap());
    let shards = nuq_io::open_shards(folder.path(), &files).unwrap();
    let Labels::Classes(labels) = labels(0, 60) else { unreachable!("labels are classes") };
    let sharded = NuqClassifier::params().n_neighbors(5).fit_shards(&shards, &labels, None).unwrap();
    nuq_io::save(&Model::Classifier(sharded), folder.path()).unwrap();
    let fixture = Fixture::new(&classifier());
    for (path, has_snapshot) in [(fixture.file(), true), (folder.path().to_owned(), false)] {
        let options = StateOptions { folder: Some(path.with_extension("state")), ..fixture.options() };
        let served = Served::load(&options, &path).unwrap();
        let id = served.relabel(3);
        served.state.log().next_changes = 2;
        served.state.shorten_journal(|| served.model.clone());
        assert_eq!(served.state.log().base.snapshot, None, "the journal is short");
        served.relabel(4);
        served.state.shorten_journal(|| served.model.clone());
        assert_eq!(served.state.log().base.snapshot.is_some(), has_snapshot);
        drop(served);
        let served = Served::load(&options, &path).unwrap();
        assert!(served.state.changes(10).unwrap().iter().any(|change| change.id == id));
    }
}

#[test]
fn snapshots_are_written_after_a_panic_before_a_change() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    assert!(catch_unwind(AssertUnwindSafe(|| served.change(|_| panic!("a change is prepared")))).is_err());
    served.relabel(3);
    served.state.log().next_changes = 1;
    served.state.shorten_journal(|| served.model.clone());
    assert!(served.state.log().base.snapshot.is_some());
}

#[test]
fn old_changes_that_a_snapshot_contains_are_removed() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let last = (0..10).map(|i| served.insert(100 + i, 1).id).last().unwrap();
    let prune = |snapshot: u64| {
        let limits = (snapshot, 3, u64::MAX);
        served.state.database.write(|transaction| journal::prune(transaction, "m", limits)).unwrap();
        served.state.changes(100).unwrap().len()
    };
    // Changes after the snapshot stay.
    assert_eq!(prune(last - 6), 6);
    assert_eq!(prune(last), 3);
}
