//! Changes are in the model again after a restart, and the version of a model never decreases.

use nuq::NuqRegressor;

use super::*;
use crate::state::journal::append;

#[test]
fn acknowledged_changes_are_in_the_model_after_a_restart() {
    let fixture = Fixture::new(&classifier());
    let expected = {
        let served = fixture.load();
        let applied = served.insert(100, 7);
        assert_eq!(applied.change.ids, (60..67).collect::<Vec<u32>>());
        served.change(|model| Change::remove(model, &[61, 3, 10])).unwrap();
        // Free ids are used first.
        assert_eq!(served.insert(200, 4).change.ids, [3, 10, 61, 67]);
        let relabeled = Labels::Classes(vec![Label::from("new")]);
        served.change(|model| Change::relabel(model, &[20], relabeled)).unwrap();
        let scores: Vec<f64> = vec![1.0, f64::NEG_INFINITY, 3.0];
        let threshold = calibrate(Measure::Total, &scores, None, Target::Coverage(0.5)).unwrap();
        let applied = served.change(|model| {
            let mut rules = model.rules().clone();
            rules.set_threshold("t", threshold, &scores)?;
            Ok(Change::rules(model, "t", rules))
        });
        assert_eq!(applied.unwrap().change.kind, Kind::Threshold);
        served.bytes()
        // The changes are not written again when `served` is dropped.
    };
    let served = fixture.load();
    assert_eq!(served.bytes(), expected);
    let kinds: Vec<&str> =
        served.state.changes(10).unwrap().iter().map(|change| change.kind.name()).collect();
    assert_eq!(kinds, ["threshold", "relabel", "insert", "remove", "insert"]);
}

#[test]
fn changes_of_a_regressor_are_restored_except_a_failed_one() {
    let targets: Vec<f64> = (0..30).map(|i| f64::from(i) / 7.0).collect();
    let model = NuqRegressor::params().n_neighbors(5).fit(&rows(0, 30), &targets).unwrap();
    let fixture = Fixture::new(&Model::Regressor(model));
    let served = fixture.load();
    let change =
        served.change(|model| Change::insert(model, &rows(30, 2), Labels::Targets(vec![0.1, -5e77]), None));
    change.unwrap();
    let removed = served.change(|model| Change::remove(model, &[31, 2])).unwrap();
    let (undone, before) = (removed.id, served.bytes());
    served.undo(undone).unwrap();
    let expected = served.bytes();
    assert_ne!(expected, before);
    drop(served);
    assert_eq!(fixture.load().bytes(), expected);
    let served = fixture.load();
    let wrong = served.change(|model| Change::insert(model, &rows(30, 1), labels(0, 1), None)).unwrap_err();
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    // A change that could not be applied is not in the list, and it is not applied after a restart.
    assert_eq!(served.state.changes(10).unwrap().len(), 3);
    drop(served);
    assert_eq!(fixture.load().bytes(), expected);
}

/// An insertion with other ids than the free ones panics after the model has the rows.
#[test]
fn after_a_panic_in_a_change_later_changes_are_refused_and_none_is_lost() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    served.insert(100, 1);
    let expected = served.bytes();
    let insert = |model: &Model<'_>| {
        let change = Change::insert(model, &rows(200, 1), labels(200, 1), None)?;
        Ok(Change { ids: vec![900], ..change })
    };
    assert!(catch_unwind(AssertUnwindSafe(|| served.change(insert))).is_err());
    assert!(served.model.read().is_err());
    let error = served.change(|model| Change::remove(model, &[3])).unwrap_err();
    assert_eq!(error.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(error.message.contains("start the server again"), "{}", error.message);
    drop(served);
    let served = fixture.load();
    assert_eq!(served.bytes(), expected);
    served.insert(101, 1);
}

/// The first change is an insertion of class labels into a regressor, which is not marked as failed.
#[test]
fn a_change_that_cannot_be_applied_again_is_an_error_unless_it_is_the_last_one() {
    let targets: Vec<f64> = (0..30).map(f64::from).collect();
    let model = NuqRegressor::params().n_neighbors(5).fit(&rows(0, 30), &targets).unwrap();
    let fixture = Fixture::new(&Model::Regressor(model));
    let served = fixture.load();
    let before = served.bytes();
    let insert = |labels| Change::insert(&served.model.read().unwrap(), &rows(30, 1), labels, None).unwrap();
    let changes = [insert(labels(0, 1)), insert(Labels::Targets(vec![0.5]))];
    drop(served);
    let append = |change: &Change| {
        let state = State::open(&fixture.options()).unwrap();
        state.database.write(|transaction| append(transaction, "m", 0, change)).unwrap();
    };
    append(&changes[0]);
    assert_eq!(fixture.load().bytes(), before);
    // The change is marked now, so another one may follow.
    append(&changes[0]);
    append(&changes[1]);
    let error = Served::load(&fixture.options(), &fixture.file()).err().unwrap().to_string();
    assert!(
        error.contains("the change 2 of the model m was made, but it cannot be applied again"),
        "{error}"
    );
}

/// The insertion has other ids than the free ones, so its application panics after the model has the rows.
#[test]
fn a_stored_change_that_panics_is_left_out_if_it_is_the_last_one() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let before = served.bytes();
    let change = Change::insert(&served.model.read().unwrap(), &rows(200, 1), labels(200, 1), None).unwrap();
    drop(served);
    let state = State::open(&fixture.options()).unwrap();
    let change = Change { ids: vec![900], ..change };
    state.database.write(|transaction| append(transaction, "m", 0, &change)).unwrap();
    drop(state);
    let served = fixture.load();
    assert_eq!(served.bytes(), before);
    served.insert(100, 1);
}

/// Checks the version after each change, failed change, snapshot, start and replacement of the file.
#[test]
fn versions_never_decrease() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    assert_eq!(served.state.first_version, 1);
    let inserted = served.insert(100, 1);
    assert_eq!(inserted.version, 2);
    assert_eq!(served.undo(inserted.id).unwrap().version, 3);
    assert!(served.change(|model| Change::remove(model, &[99])).is_err());
    assert_eq!(served.insert(100, 1).version, 4);
    served.state.snapshot(&mut served.state.log(), &served.model.read().unwrap());
    drop(served);
    let served = fixture.load();
    assert_eq!((served.state.first_version, served.insert(101, 1).version), (4, 5));
    let mut other = classifier();
    other.remove_threshold("epistemic");
    nuq_io::save(&other, &fixture.file()).unwrap();
    let fingerprint = nuq_io::open(&fixture.file()).unwrap().fingerprint();
    let mut version = 0;
    served.state.replace(fingerprint, other.rules(), |new| version = new).unwrap();
    assert_eq!(version, 6);
    drop(served);
    assert_eq!(fixture.load().state.first_version, 6);
    // Another file is accepted because there are no changes, and it gets another version.
    nuq_io::save(&classifier(), &fixture.file()).unwrap();
    assert_eq!(fixture.load().state.first_version, 7);
    assert_eq!(fixture.load().state.first_version, 7);
}
