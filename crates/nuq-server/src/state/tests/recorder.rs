//! Recorded rows after a restart and after a failed write, and rows that exceed the memory of the queue.

use super::*;

#[test]
fn recorded_rows_are_restored() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let observations: Vec<Observation> =
        (0..700).map(|i| observation(now_ms() - 700 + i, (i % 50) as f64, i % 7 > 0)).collect();
    served.record(observations);
    served.state.record_request(0.01);
    served.state.flush();
    let read = |served: &Served| {
        let telemetry = served.state.telemetry();
        let drift = telemetry.drift.as_ref().unwrap();
        let rows = telemetry.activity.minutes(0).map(|minute| minute.rows).sum::<u64>();
        let samples = SampleKind::ALL.map(|which| telemetry.samples.newest(which, usize::MAX));
        (rows, samples, drift.encode())
    };
    let expected = read(&served);
    assert_eq!((expected.0, expected.1[0].len(), expected.1[1].len()), (700, 500, 100));
    let newest = expected.1[0][0].clone();
    assert_eq!(served.state.telemetry().samples.get(newest.id), Some(newest));
    drop(served);
    let served = fixture.load();
    assert!(read(&served) == expected);
    // New rows have new ids.
    served.record(vec![observation(now_ms(), 1.0, true)]);
    served.state.flush();
    assert_eq!(served.state.telemetry().samples.newest(SampleKind::Recent, 1)[0].id, 700);
}

#[test]
fn activity_that_could_not_be_written_is_in_the_next_write() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let execute = |statements: &str| {
        served.state.database.write(|transaction| transaction.execute_batch(statements)).unwrap();
    };
    let stored = |table: &str| -> i64 {
        let query = format!("SELECT count(*) FROM {table}");
        served.state.database.read(|connection| connection.query_row(&query, [], |row| row.get(0))).unwrap()
    };
    // The transaction fails at its first table, so nothing of it is stored.
    execute("CREATE TRIGGER refuse BEFORE INSERT ON minutes BEGIN SELECT RAISE(FAIL, 'refused'); END");
    served.record(vec![observation(60_000, 1.0, true), observation(120_000, 2.0, false)]);
    served.state.flush();
    assert_eq!((stored("minutes"), stored("samples")), (0, 0));
    execute("DROP TRIGGER refuse");
    served.state.flush();
    // Both rows are in the sample of recent rows, and one is also in the sample of rejected rows.
    assert_eq!((stored("minutes"), stored("samples"), stored("drift")), (2, 3, 1));
    let telemetry = served.state.telemetry();
    let drift = telemetry.drift.as_ref().unwrap().encode();
    let written: Vec<u8> = served
        .state
        .database
        .read(|connection| connection.query_row("SELECT data FROM drift", [], |row| row.get(0)))
        .unwrap();
    assert!(written == drift, "the stored drift monitor must contain the rows of the failed write");
}

#[test]
fn rows_that_take_too_much_memory_are_dropped_and_counted() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    // 80 MiB, more than the queue may contain.
    let large = Observation { embedding: vec![0.0; 20 << 20], ..observation(0, 1.0, true) };
    served.record(vec![large]);
    served.record(vec![observation(0, 1.0, true)]);
    served.state.flush();
    assert_eq!(served.state.dropped_rows(), 1);
    assert_eq!(served.state.telemetry().samples.newest(SampleKind::Recent, 10).len(), 1);
}
