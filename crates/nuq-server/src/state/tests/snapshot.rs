//! Recovery from a snapshot, and changes that are removed because a snapshot contains them.

use super::*;
use crate::state::journal;

#[test]
fn after_a_snapshot_recovery_is_shorter_and_the_list_of_changes_is_still_complete() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let last = (0..20).map(|i| served.insert(100 + i, 1).id).last().unwrap();
    {
        let mut log = served.state.log();
        served.state.snapshot(&mut log, &served.model.read());
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
    std::fs::write(fixture.state().join("m-77.nuq"), "incomplete").unwrap();
    let served = fixture.load();
    assert_eq!((served.bytes(), snapshots()), (expected, 1));
    assert_eq!(served.state.changes(100).unwrap().len(), 21);
    served.undo(last).unwrap();
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
