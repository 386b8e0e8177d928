//! The database: synchronization with the disk, tables of an older version, and folders that are in use, absent, full or read-only.

use super::*;

/// After the first of 16 threads has waited for the disk, the changes of all threads are on the disk.
#[test]
fn changes_that_wait_are_synchronized_together() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let (synced, before) = served.state.database.synced();
    let held = synced.lock().unwrap();
    std::thread::scope(|scope| {
        for i in 0..16 {
            let served = &served;
            scope.spawn(move || {
                let applied = served.insert(100 + i, 1);
                served.state.sync(&applied).unwrap();
                let (synced, commits) = served.state.database.synced();
                assert_eq!(*synced.lock().unwrap(), commits);
            });
        }
        while served.state.database.synced().1 < before + 16 {
            std::thread::yield_now();
        }
        assert!(*held < before + 16);
        drop(held);
    });
}

#[test]
fn tables_of_version_1_are_extended() {
    let fixture = Fixture::new(&classifier());
    let last = {
        let served = fixture.load();
        served.insert(100, 1);
        served.insert(101, 1).id
    };
    let connection = rusqlite::Connection::open(fixture.state().join("state.sqlite")).unwrap();
    connection.execute_batch("ALTER TABLE models DROP COLUMN version; PRAGMA user_version = 1;").unwrap();
    drop(connection);
    let served = fixture.load();
    assert_eq!(served.state.first_version, 1 + last);
    assert_eq!(served.model.read().unwrap().index().len(), 62);
}

#[test]
fn a_folder_is_used_by_one_process_at_a_time() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let error = State::open(&fixture.options()).err().unwrap();
    assert!(error.to_string().contains("in use by another process"), "{error}");
    drop(served);
    fixture.load();
}

#[test]
fn without_a_folder_changes_are_refused_unless_they_may_be_lost() {
    let fixture = Fixture::new(&classifier());
    let options = StateOptions { folder: None, ..fixture.options() };
    let served = Served::load(&options, &fixture.file()).unwrap();
    let error = served.change(|model| Change::remove(model, &[1])).unwrap_err();
    assert_eq!((error.status, error.code), (StatusCode::FORBIDDEN, "no_state"));
    let served = Served::load(&StateOptions { is_ephemeral: true, ..options }, &fixture.file()).unwrap();
    let id = served.insert(100, 1).id;
    served.undo(id).unwrap();
    assert_eq!(served.state.changes(10).unwrap().len(), 2);
    assert!(!fixture.state().exists());
}

#[test]
fn a_full_disk_refuses_changes_and_nothing_else() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    served.insert(100, 1);
    let before = served.bytes();
    served.state.database.limit_pages(1);
    let error =
        served.change(|model| Change::insert(model, &rows(0, 5000), labels(0, 5000), None)).unwrap_err();
    assert_eq!((error.status, error.code), (StatusCode::INSUFFICIENT_STORAGE, "disk_full"));
    assert!(error.message.contains(fixture.state().to_str().unwrap()), "{}", error.message);
    assert_eq!(served.bytes(), before);
    // Reading and recording continue.
    served.record(vec![observation(0, 1.0, true)]);
    served.state.flush();
    assert_eq!(served.state.telemetry().samples.newest(SampleKind::Recent, 10).len(), 1);
    assert_eq!(served.state.changes(10).unwrap().len(), 1);
    served.state.database.limit_pages(1 << 30);
    served.insert(101, 1);
}

#[cfg(unix)]
#[test]
fn a_read_only_folder_is_read_and_changes_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new(&classifier());
    let expected = {
        let served = fixture.load();
        served.insert(100, 1);
        served.bytes()
    };
    let set_mode = |mode: u32| {
        std::fs::set_permissions(fixture.state(), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(0o500);
    // Root may write to every folder.
    if std::fs::write(fixture.state().join("probe"), "").is_err() {
        let served = fixture.load();
        assert_eq!(served.bytes(), expected);
        let error = served.change(|model| Change::remove(model, &[1])).unwrap_err();
        assert_eq!((error.status, error.code), (StatusCode::SERVICE_UNAVAILABLE, "state_not_writable"));
    }
    set_mode(0o700);
}
