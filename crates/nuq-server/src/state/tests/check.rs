//! The check of a configuration with an existing state folder.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::*;
use crate::ModelSource;

/// The names and contents of the files in the state folder.
fn files(fixture: &Fixture) -> BTreeMap<OsString, Vec<u8>> {
    let entries = std::fs::read_dir(fixture.state()).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap())).collect()
}

fn config(fixture: &Fixture) -> Config {
    let models = vec![ModelSource { name: "m".to_owned(), path: fixture.file() }];
    Config { models, state: Some(fixture.state()), drift_alpha: 0.01, ..Config::default() }
}

#[test]
fn a_check_with_another_alpha_does_not_end_the_drift_test() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    served.record((0..40).map(|i| observation(i, 1e9, false)).collect());
    served.state.flush();
    let alarm = served.state.telemetry().drift.as_ref().unwrap().alarm_ms;
    assert!(alarm.is_some());
    drop(served);
    // A snapshot that a killed process left. Only a server removes it.
    std::fs::write(fixture.state().join("nuq-snapshot-m-77.nuq"), "incomplete").unwrap();
    let before = files(&fixture);
    check(&Config { drift_alpha: 0.05, ..config(&fixture) }).unwrap();
    assert!(files(&fixture) == before);
    assert_eq!(fixture.load().state.telemetry().drift.as_ref().unwrap().alarm_ms, alarm);
}

#[test]
fn a_check_with_another_model_file_does_not_store_its_fingerprint() {
    let fixture = Fixture::new(&classifier());
    let version = fixture.load().state.first_version;
    let mut other = classifier();
    other.remove_threshold("epistemic");
    nuq_io::save(&other, &fixture.file()).unwrap();
    let before = files(&fixture);
    check(&config(&fixture)).unwrap();
    assert!(files(&fixture) == before);
    assert_eq!(fixture.load().state.first_version, version + 1);
    // The folder now contains a change of this file.
    fixture.load().insert(100, 1);
    nuq_io::save(&classifier(), &fixture.file()).unwrap();
    let error = check(&config(&fixture)).unwrap_err();
    assert!(error.to_string().contains("is not the file to which they were made"), "{error}");
}

#[test]
fn a_folder_in_use_is_not_checked() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    check(&config(&fixture)).unwrap();
    served.insert(100, 1);
}
