//! Changes are in the model again after a restart, and the version of a model never decreases.

use nuq::NuqRegressor;

use super::*;

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
    served.state.snapshot(&mut served.state.log(), &served.model.read());
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
