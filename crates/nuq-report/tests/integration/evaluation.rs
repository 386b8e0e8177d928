//! Tests of [`Report::from_evaluation`] on two Gaussian classes with a distant out-of-distribution set.

use nuq::calibrate::{Measure, Target, calibrate};
use nuq::{Decision, Embeddings, NuqClassifier};
use nuq_eval::evaluate::{Comparison, Evaluation, Rows};
use nuq_eval::metrics::Resampling;
use nuq_report::{CurveKind, Family, Report, ReportOptions};

use crate::common::Random;

const DIM: usize = 3;

/// Rows around the centers in turn. The label of a row is the index of its center.
fn rows(random: &mut Random, centers: &[f64], n: usize) -> (Embeddings<'static>, Vec<i64>) {
    let labels: Vec<i64> = (0..n).map(|i| (i % centers.len()) as i64).collect();
    let values = labels
        .iter()
        .flat_map(|&label| (0..DIM).map(move |_| centers[label as usize]))
        .map(|center| (center + random.normal()) as f32)
        .collect();
    (Embeddings::new(values, DIM).expect("finite rows"), labels)
}

/// Logits of a linear layer that separates the two classes.
fn logits(rows: &Embeddings<'_>) -> Embeddings<'static> {
    let values = rows.rows().flat_map(|row| [-row.iter().sum::<f32>(), row.iter().sum::<f32>()]).collect();
    Embeddings::new(values, 2).expect("finite logits")
}

/// Columns of an array in reverse order.
fn reversed(rows: &Embeddings<'_>) -> Embeddings<'static> {
    let values = rows.rows().flat_map(|row| row.iter().rev().copied()).collect();
    Embeddings::new(values, rows.dim()).expect("finite rows")
}

struct Data {
    model: NuqClassifier<'static>,
    test: Embeddings<'static>,
    labels: Vec<i64>,
    far: Embeddings<'static>,
}

fn data() -> Data {
    let mut random = Random::new(3);
    let (train, train_labels) = rows(&mut random, &[-1.0, 1.0], 200);
    let (test, labels) = rows(&mut random, &[-1.0, 1.0], 80);
    let (far, _) = rows(&mut random, &[9.0], 40);
    // The rows are leaked, because the model of the returned data borrows them.
    let train: &'static Embeddings<'static> = Box::leak(Box::new(train));
    let model = NuqClassifier::params().fit(train, &train_labels).expect("two classes");
    Data { model, test, labels, far }
}

const RESAMPLING: Resampling = Resampling { resamples: 100, seed: 5 };

#[derive(PartialEq)]
enum Inputs {
    Embeddings,
    EmbeddingsAndLogits,
}

/// Evaluates the test set and the set `far`, and makes the report.
fn evaluate<'d>(data: &'d Data, inputs: Inputs, options: &ReportOptions) -> (Evaluation<'d>, Report) {
    let (test_logits, far_logits) = (logits(&data.test), logits(&data.far));
    let (mut test, mut far) = (Rows::new(&data.test), Rows::new(&data.far));
    if inputs == Inputs::EmbeddingsAndLogits {
        (test, far) = (test.logits(&test_logits), far.logits(&far_logits));
    }
    let comparison = Comparison::new(test, &data.labels).ood("far", far).resampling(RESAMPLING);
    let evaluation = comparison.run(&data.model).expect("the sample data are valid");
    let report = Report::from_evaluation(&data.model, &comparison, &evaluation, options)
        .expect("the sample evaluation has a report");
    (evaluation, report)
}

/// A third of the test rows are training rows. The report counts them, and the page has a warning.
#[test]
fn test_rows_that_are_training_rows_are_reported() {
    let Data { model, test, labels, .. } = data();
    let report = |test: &Embeddings<'_>, labels: &[i64]| {
        let comparison = Comparison::new(Rows::new(test), labels).resampling(RESAMPLING);
        let evaluation = comparison.run(&model).expect("valid rows");
        Report::from_evaluation(&model, &comparison, &evaluation, &ReportOptions::default())
            .expect("a report")
    };
    let clean = report(&test, &labels);
    assert_eq!(clean.test.training_rows, 0);
    assert!(!clean.page().contains("class=\"warning\""));

    // The same seed as in `data`, so these are the training rows of the model.
    let mut random = Random::new(3);
    let (train, train_labels) = rows(&mut random, &[-1.0, 1.0], 200);
    let mixed = [test.as_slice(), &train.as_slice()[..40 * DIM]].concat();
    let mixed_labels = [&labels[..], &train_labels[..40]].concat();
    let mixed = report(&Embeddings::new(mixed, DIM).expect("finite rows"), &mixed_labels);
    assert_eq!(mixed.test.training_rows, 40);
    assert!(mixed.page().contains("40 of 120 test rows equal training rows."));
    assert!(mixed.json().contains("\"training_rows\": 40"));
}

#[test]
fn a_report_has_the_numbers_of_the_evaluation() {
    let data = data();
    let (evaluation, report) = evaluate(&data, Inputs::EmbeddingsAndLogits, &ReportOptions::default());

    assert_eq!((report.test.rows, report.ood[0].rows, &*report.ood[0].name), (80, 40, "far"));
    assert_eq!(report.test.accuracy.value, evaluation.accuracy.value);
    assert_eq!(report.methods.len(), evaluation.methods.len());
    for (shown, result) in report.methods.iter().zip(&evaluation.methods) {
        assert_eq!(shown.name, result.name);
        assert_eq!(shown.rcc_auc.interval.value, result.rcc_auc.interval.value);
        assert_eq!(shown.ood[0].fpr95.interval.low, result.ood[0].fpr95.interval.low);
        assert_eq!(shown.milliseconds, None, "the comparison has no clock");
    }
    let family = |name: &str| report.methods.iter().find(|method| method.name == name).map(|m| m.family);
    assert_eq!(family("NUQ total"), Some(Family::Nuq));
    assert_eq!(family("MaxProb"), Some(Family::Logits));
    assert_eq!(family("Mahalanobis"), Some(Family::Embeddings));
    assert_eq!(family("ReAct"), Some(Family::Both));
    assert_eq!((report.provenance.seed, report.provenance.resamples), (5, 100));
    assert!(report.test.rejected.is_none() && !report.summary.contains("threshold"));
    let lines: Vec<&str> = report.summary.lines().collect();
    assert!(lines[0].starts_with("The network has an accuracy of "), "{}", lines[0]);
    assert!(
        lines.contains(&"Epistemic uncertainty separates far (ROC-AUC 1.000 ± 0.000) from the test rows."),
        "{}",
        report.summary
    );
    let task = report.model.iter().find(|fact| fact.name == "task").map(|fact| fact.value.as_str());
    assert_eq!(task, Some("classification"));
}

#[test]
fn curves_start_with_nuq_then_max_prob_and_end_with_the_optimum() {
    let data = data();
    let (_, report) = evaluate(&data, Inputs::EmbeddingsAndLogits, &ReportOptions::default());
    let names = |curves: &[nuq_report::Curve]| -> Vec<String> {
        curves.iter().take(3).map(|curve| curve.name.clone()).collect()
    };
    assert_eq!(names(&report.risk_coverage), ["NUQ total, with logits", "NUQ total", "MaxProb"]);
    assert_eq!(names(&report.roc[0]), ["NUQ epistemic", "NUQ density", "MaxProb"]);
    assert_eq!((report.roc[0].len(), report.counts[0].len(), report.risk_coverage.len()), (5, 6, 6));
    let last = report.risk_coverage.last().unwrap();
    assert_eq!((last.kind, report.risk_coverage[0].kind), (CurveKind::Reference, CurveKind::Nuq));
    // At the right end all rows are accepted, and the risk equals the error rate.
    let end = report.risk_coverage[0].points.last().unwrap();
    assert!((end.0 - 1.0).abs() < 1e-12 && (end.1 - (1.0 - report.test.accuracy.value)).abs() < 1e-12);
    assert_eq!(report.counts[0][5].points.last(), Some(&(120.0, 40.0)));
}

#[test]
fn map_and_uncertain_rows_cover_all_sets() {
    let data = data();
    let (evaluation, report) = evaluate(&data, Inputs::Embeddings, &ReportOptions::default());
    let map = report.map.as_ref().unwrap();
    let points = |set: usize| map.points.iter().filter(|point| point.set == set).count();
    assert_eq!((points(0), points(1), &map.sets[..]), (80, 40, &["test".to_owned(), "far".to_owned()][..]));
    assert!(map.points.iter().all(|point| point.truth.is_some() == (point.set == 0)));
    let sets: Vec<&str> = report.most_uncertain.iter().map(|row| row.set.as_str()).collect();
    assert_eq!(sets, ["test", "test", "test", "test", "test", "test", "far", "far", "far"]);
    let first = &report.most_uncertain[0];
    let largest = evaluation.test.iter().map(|p| p.log_total).fold(f64::NEG_INFINITY, f64::max);
    assert_eq!(evaluation.test[first.row].log_total, largest);
    assert_eq!(first.neighbors.len(), 5);
    assert!(first.neighbors.windows(2).all(|pair| pair[0].distance <= pair[1].distance));
}

#[test]
fn the_map_of_a_normalized_model_does_not_depend_on_the_lengths_of_rows() {
    let mut random = Random::new(3);
    let (train, train_labels) = rows(&mut random, &[-1.0, 1.0], 200);
    let (test, labels) = rows(&mut random, &[-1.0, 1.0], 80);
    let model = NuqClassifier::params().normalize(true).fit(&train, &train_labels).unwrap();
    let points = |test: &Embeddings<'_>| -> Vec<(f64, f64)> {
        let comparison = Comparison::new(Rows::new(test), &labels).resampling(RESAMPLING);
        let evaluation = comparison.run(&model).unwrap();
        let report =
            Report::from_evaluation(&model, &comparison, &evaluation, &ReportOptions::default()).unwrap();
        report.map.unwrap().points.iter().map(|point| (point.x, point.y)).collect()
    };
    // Products with a power of two are exact, so the normalized rows are equal bit for bit.
    let longer = test.as_slice().iter().map(|value| 64.0 * value).collect();
    assert_eq!(points(&Embeddings::new(longer, DIM).unwrap()), points(&test));
}

#[test]
fn a_threshold_is_applied_to_every_set() {
    let data = data();
    let predictions = data.model.predict(&data.test).unwrap();
    let scores: Vec<f64> = predictions.iter().map(|p| Measure::Density.of(p)).collect();
    let threshold = calibrate(Measure::Density, &scores, None, Target::FalseAlarm(0.1)).unwrap();
    let options =
        ReportOptions { threshold: Some(("guard".to_owned(), threshold)), ..ReportOptions::default() };
    let (_, report) = evaluate(&data, Inputs::Embeddings, &options);
    assert_eq!(report.ood[0].rejected, Some(1.0));
    assert!(report.test.rejected.is_some_and(|share| share < 0.15));
    assert!(report.summary.contains("The threshold “guard” rejects"), "{}", report.summary);
    // The measure of the threshold is added to the two standard histograms.
    assert_eq!(report.histograms.len(), 3);
    assert_eq!(report.histograms[2].threshold.as_ref().map(|mark| mark.name.as_str()), Some("guard"));
    assert!(report.model.iter().any(|fact| fact.name == "threshold “guard”"));
}

#[test]
fn the_summary_has_the_accuracy_of_the_predictor_to_which_the_threshold_applies() {
    let Data { model, test, labels, .. } = data();
    let predictions = model.predict(&test).unwrap();
    // With these logits, the network is wrong for most rows, and the model is right.
    let logits = reversed(&logits(&test));
    let comparison = Comparison::new(Rows::new(&test).logits(&logits), &labels).resampling(RESAMPLING);
    let evaluation = comparison.run(&model).unwrap();
    // A threshold on the epistemic uncertainty applies to the model only. The density does not depend on the predictor, so a threshold on
    // it also applies to the network.
    for (measure, of_predictor) in [(Measure::Epistemic, " of the model"), (Measure::Density, "")] {
        let scores: Vec<f64> = predictions.iter().map(|p| measure.of(p)).collect();
        let threshold = calibrate(measure, &scores, None, Target::FalseAlarm(0.1)).unwrap();
        let is_accepted = |i: &usize| threshold.decide(&predictions[*i]) == Decision::Accept;
        let accepted: Vec<usize> = (0..test.len()).filter(is_accepted).collect();
        let is_correct = |i: usize| match of_predictor {
            "" => !evaluation.is_error[i],
            _ => *predictions.label(i) == labels[i],
        };
        let correct = accepted.iter().filter(|&&i| is_correct(i)).count();
        let accuracy = 100.0 * (correct as f64 / accepted.len() as f64);
        let options =
            ReportOptions { threshold: Some(("guard".to_owned(), threshold)), ..ReportOptions::default() };
        let report = Report::from_evaluation(&model, &comparison, &evaluation, &options).unwrap();
        let text = format!("; the accuracy{of_predictor} on the accepted test rows is {accuracy:.1} %.");
        assert!(report.summary.contains(&text), "{text}\n{}", report.summary);
    }
}

#[test]
fn logits_with_swapped_columns_are_reported() {
    let Data { model, test, labels, .. } = data();
    let (right, swapped) = (logits(&test), reversed(&logits(&test)));
    let summary = |logits: &Embeddings<'_>| {
        let comparison = Comparison::new(Rows::new(&test).logits(logits), &labels).resampling(RESAMPLING);
        let evaluation = comparison.run(&model).unwrap();
        Report::from_evaluation(&model, &comparison, &evaluation, &ReportOptions::default()).unwrap().summary
    };
    let warning = "check that the columns of the logits are in the order of the sorted labels (0, 1, …)";
    assert!(summary(&swapped).contains(warning));
    assert!(!summary(&right).contains(warning));
}

#[test]
fn a_test_set_without_errors_and_equal_values_of_several_methods_are_reported() {
    let Data { model, test, far, .. } = data();
    // The labels are the predictions, so there are no errors.
    let predictions = model.predict(&test).unwrap();
    let labels: Vec<i64> = (0..test.len()).map(|i| i64::from(*predictions.label(i) == 1)).collect();
    let comparison =
        Comparison::new(Rows::new(&test), &labels).ood("far", Rows::new(&far)).resampling(RESAMPLING);
    let evaluation = comparison.run(&model).unwrap();
    let report =
        Report::from_evaluation(&model, &comparison, &evaluation, &ReportOptions::default()).unwrap();
    let text = "There are no errors among the test rows: the RCC-AUC of every method is 0, so it does not compare the methods.";
    assert!(report.summary.contains(text), "{}", report.summary);
    assert!(report.methods.iter().filter(|method| method.ood[0].roc_auc.interval.value == 1.0).count() > 3);
    assert!(report.page().contains("methods have this value") && !report.page().contains("Best method: "));
}
