//! The drift monitor when thresholds change, and the acknowledgement of its alarm.

use super::*;

#[test]
fn the_drift_monitor_continues_after_an_undo() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let record = |time: u64| {
        served.record(vec![observation(time, 10.0, true)]);
        served.state.flush();
        let telemetry = served.state.telemetry();
        (telemetry.source.is_some(), telemetry.drift.as_ref().map_or(0, |drift| drift.monitor.rows()))
    };
    assert_eq!(record(0), (true, 1));
    let inserted = served.insert(100, 1).id;
    // The change has removed the threshold, so there are no held-out scores to compare with.
    assert_eq!(record(1), (false, 1));
    served.undo(inserted).unwrap();
    assert_eq!(record(2), (true, 2));
}

#[test]
fn rows_of_an_earlier_version_are_not_compared_with_the_scores_of_a_threshold() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let before = served.model.read().unwrap().version();
    served.insert(100, 1);
    let threshold = calibrate(Measure::Epistemic, &[1.0, 2.0, 3.0], None, Target::Coverage(0.5)).unwrap();
    let set = served.change(|model| {
        let mut rules = model.rules().clone();
        rules.set_threshold("epistemic", threshold, &[1.0, 2.0, 3.0])?;
        Ok(Change::rules(model, "epistemic", rules))
    });
    let record = |version: u64| {
        served.state.record(vec![observation(version, 10.0, true)], version);
        served.state.flush();
        let telemetry = served.state.telemetry();
        let compared = telemetry.drift.as_ref().map_or(0, |drift| drift.monitor.rows());
        let newest = &telemetry.samples.newest(SampleKind::Recent, 1)[0];
        (compared, newest.observation.p_value.is_some())
    };
    assert_eq!(record(before), (0, false));
    assert_eq!(record(set.unwrap().version), (1, true));
}

#[test]
fn an_acknowledged_alarm_is_stored_and_the_test_starts_again() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    assert_eq!(served.state.acknowledge_drift().unwrap_err().status, StatusCode::CONFLICT);
    let record = |served: &Served, first: u64| {
        served.record((first..first + 40).map(|i| observation(i, 1e9, false)).collect());
        served.state.flush();
    };
    record(&served, 100);
    let alarm = served.state.telemetry().drift.as_ref().unwrap().alarm_ms.unwrap();
    assert_eq!(served.state.acknowledge_drift().unwrap(), alarm);
    drop(served);
    let served = fixture.load();
    let read = |served: &Served| {
        let telemetry = served.state.telemetry();
        let drift = telemetry.drift.as_ref().unwrap();
        (drift.monitor.rows(), drift.alarm_ms.is_some(), drift.ended.iter().cloned().collect::<Vec<_>>())
    };
    let (rows, has_alarm, ended) = read(&served);
    assert_eq!((rows, has_alarm, ended.len(), ended[0].alarm_ms), (0, false, 1, Some(alarm)));
    // The rows still differ: the next test raises its own alarm.
    record(&served, 200);
    assert_eq!((read(&served).0, read(&served).1), (40, true));
    // If the acknowledgement cannot be written, it is refused, and nothing is changed.
    let execute = |statements: &str| {
        served.state.database.write(|transaction| transaction.execute_batch(statements)).unwrap();
    };
    execute("CREATE TRIGGER refuse BEFORE INSERT ON drift BEGIN SELECT RAISE(FAIL, 'refused'); END");
    let error = served.state.acknowledge_drift().unwrap_err();
    assert_eq!((error.status, read(&served).1), (StatusCode::SERVICE_UNAVAILABLE, true));
    execute("DROP TRIGGER refuse");
    // Without held-out scores the test cannot start again; with other scores it does.
    served.insert(100, 1);
    served.state.flush();
    let error = served.state.acknowledge_drift().unwrap_err();
    assert!(error.message.contains("paused"), "{}", error.message);
    served
        .change(|model| {
            let scores: Vec<f64> = (0..80).map(f64::from).collect();
            let threshold = calibrate(Measure::Epistemic, &scores, None, Target::Coverage(0.9)).unwrap();
            let mut rules = model.rules().clone();
            rules.set_threshold("epistemic", threshold, &scores).unwrap();
            Ok(Change::rules(model, "epistemic", rules))
        })
        .unwrap();
    served.state.flush();
    let (rows, has_alarm, ended) = read(&served);
    assert_eq!((rows, has_alarm), (0, false));
    assert_eq!(ended.iter().map(|test| test.ending.name()).collect::<Vec<_>>(), ["acknowledged", "replaced"]);
}
