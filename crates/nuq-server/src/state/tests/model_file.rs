//! The file of a model that has changes: its rows, damage, and its replacement by another file.

use super::*;

/// Removes row 3 of a model with 60 rows and inserts two rows. They get the ids 3 and 60, and neither is a row of the file.
fn replace_row(served: &Served) {
    served.change(|model| Change::remove(model, &[3])).unwrap();
    assert_eq!(served.insert(100, 2).change.ids, [3, 60]);
}

#[test]
fn rows_of_the_file_are_known_after_a_restart_with_changes_or_a_snapshot() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    assert_eq!(served.file_rows(), (0..60).collect::<Vec<u32>>());
    replace_row(&served);
    let expected: Vec<u32> = (0..60).filter(|&id| id != 3).collect();
    assert_eq!(served.file_rows(), expected);
    drop(served);
    let served = fixture.load();
    assert_eq!(served.file_rows(), expected);
    served.state.snapshot(&mut served.state.log(), &served.model.read().unwrap());
    drop(served);
    let served = fixture.load();
    assert!(served.state.log().base.snapshot.is_some());
    assert_eq!(served.file_rows(), expected);
}

/// The model is opened from its snapshot. Only pictures need the rows of the file.
#[test]
fn a_model_with_a_snapshot_is_served_without_pictures_if_the_rows_of_its_file_are_damaged() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    replace_row(&served);
    served.state.snapshot(&mut served.state.log(), &served.model.read().unwrap());
    let expected = served.bytes();
    drop(served);
    let mut contents = std::fs::read(fixture.file()).unwrap();
    let row: Vec<u8> = rows(59, 1).row(0).iter().flat_map(|value| value.to_le_bytes()).collect();
    let at = contents.windows(row.len()).position(|bytes| bytes == row).unwrap();
    contents[at] ^= 1;
    std::fs::write(fixture.file(), contents).unwrap();
    let served = fixture.load();
    assert_eq!((served.bytes(), served.file_rows()), (expected, vec![]));
}

#[test]
fn another_file_is_refused_if_the_state_contains_changes() {
    let fixture = Fixture::new(&classifier());
    drop(fixture.load());
    // Without changes, another file is accepted.
    let mut other = classifier();
    other.remove_threshold("epistemic");
    nuq_io::save(&other, &fixture.file()).unwrap();
    fixture.load().insert(100, 1);
    nuq_io::save(&classifier(), &fixture.file()).unwrap();
    let error = Served::load(&fixture.options(), &fixture.file()).err().unwrap();
    assert!(error.to_string().contains("is not the file to which they were made"), "{error}");
}

#[test]
fn replacing_the_file_discards_changes() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    served.insert(100, 1);
    let mut other = classifier();
    other.remove_threshold("epistemic");
    nuq_io::save(&other, &fixture.file()).unwrap();
    let fingerprint = nuq_io::open(&fixture.file()).unwrap().fingerprint();
    let mut is_replaced = false;
    assert!(served.state.replace(fingerprint, other.rules(), |_| is_replaced = true).unwrap().is_some());
    assert!(is_replaced && served.state.changes(10).unwrap().is_empty());
    drop(served);
    let served = fixture.load();
    assert_eq!(served.model.read().unwrap().index().len(), 60);
    // The same file again discards nothing.
    served.insert(100, 1);
    assert!(
        served
            .state
            .replace(fingerprint, other.rules(), |_| panic!("the file is the same"))
            .unwrap()
            .is_none()
    );
    assert_eq!(served.state.changes(10).unwrap().len(), 1);
}

/// The database of a read-only folder is a copy. The changes are discarded there, and the folder keeps them.
#[test]
fn replacing_the_file_discards_changes_if_the_folder_is_read_only() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    served.insert(100, 1);
    served.insert(101, 1);
    served.state.snapshot(&mut served.state.log(), &served.model.read().unwrap());
    served.insert(102, 1);
    drop(served);
    let database = Arc::new(Database::open_copy(&fixture.state()).unwrap());
    let loaded = State { database, drift_alpha: 0.01 }.load("m", &fixture.file(), Device::default(), false);
    let (_, _, state) = loaded.unwrap();
    assert_eq!(state.replace(0, classifier().rules(), |_| {}).unwrap(), Some(3));
    assert!(state.changes(10).unwrap().is_empty());
    drop(state);
    assert_eq!(fixture.load().state.changes(10).unwrap().len(), 3);
}
