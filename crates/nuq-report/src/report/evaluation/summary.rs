//! Summary of the results in a few sentences.

use nuq::Label;
use nuq_eval::Error;
use nuq_eval::evaluate::{MethodId, Predictor};
use nuq_eval::metrics::Selective;

use super::Source;

/// Coverage at which the summary gives the accuracy.
const COVERAGE: f64 = 0.9;
/// Difference of the accuracies of model and network above which the order of the logit columns is doubtful.
const DOUBTFUL_DIFFERENCE: f64 = 0.25;

impl Source<'_> {
    pub(super) fn summary(&self) -> Result<String, Error> {
        let sentences = [
            Some(self.accuracy_sentence()?),
            self.detection_sentence(),
            self.threshold_sentence(),
            self.logit_order_sentence(),
        ];
        Ok(sentences.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }

    fn accuracy_sentence(&self) -> Result<String, Error> {
        let evaluation = self.evaluation;
        let predictor = match evaluation.errors_of {
            Predictor::Network => "network",
            Predictor::Nuq => "model",
        };
        let (accuracy, rows) = (percent(evaluation.accuracy.value), evaluation.test.len());
        let mut text = format!("The {predictor} has an accuracy of {accuracy} on {rows} test rows");
        if let Some(total) = evaluation.method(MethodId::NuqTotal) {
            let risk = Selective::new(&total.test, &evaluation.is_error)?.risk_at(COVERAGE);
            let share = 100.0 * COVERAGE;
            text +=
                &format!(", and {} on the {share} % with the lowest total uncertainty", percent(1.0 - risk));
        }
        Ok(text + ".")
    }

    fn detection_sentence(&self) -> Option<String> {
        let epistemic = self.evaluation.method(MethodId::NuqEpistemic)?;
        let names = self.comparison.ood_sets().iter().map(|(name, _)| name);
        let areas: Vec<String> = names
            .zip(&epistemic.ood)
            .map(|(name, result)| format!("{:.3} for {name}", result.roc_auc.interval.value))
            .collect();
        (!areas.is_empty()).then(|| {
            format!(
                "Epistemic uncertainty detects out-of-distribution rows with a ROC-AUC of {}.",
                enumeration(&areas)
            )
        })
    }

    fn threshold_sentence(&self) -> Option<String> {
        let (name, _) = self.options.threshold.as_ref()?;
        let rejected: Vec<String> = self
            .sets()
            .iter()
            .enumerate()
            .map(|(i, set)| {
                let of_set = if i == 0 { "the test rows" } else { set.name };
                Some(format!("{} of {of_set}", percent(self.rejected(set.predictions)?)))
            })
            .collect::<Option<_>>()?;
        let mut text = format!("The threshold “{name}” rejects {}", enumeration(&rejected));
        if let Some(accuracy) = self.accuracy_of_accepted() {
            text += &format!("; the accuracy on the accepted test rows is {}", percent(accuracy));
        }
        Some(text + ".")
    }

    /// Share of correct predictions among the test rows that the threshold accepts.
    fn accuracy_of_accepted(&self) -> Option<f64> {
        let evaluation = self.evaluation;
        let is_accepted = |i: &usize| self.is_accepted(&evaluation.test[*i]).unwrap_or(false);
        let accepted: Vec<usize> = (0..evaluation.test.len()).filter(is_accepted).collect();
        let correct = accepted.iter().filter(|&&i| !evaluation.is_error[i]).count();
        (!accepted.is_empty()).then(|| correct as f64 / accepted.len() as f64)
    }

    /// A warning if the logits give a much lower accuracy than the neighbors.
    fn logit_order_sentence(&self) -> Option<String> {
        let evaluation = self.evaluation;
        let rows = evaluation.test.len();
        let correct = (0..rows).filter(|&i| evaluation.test.label(i) == &self.comparison.labels()[i]).count();
        let of_model = correct as f64 / rows as f64;
        let of_network = evaluation.accuracy.value;
        let is_doubtful =
            evaluation.errors_of == Predictor::Network && of_network < of_model - DOUBTFUL_DIFFERENCE;
        let labels: Vec<String> =
            self.model.classes().labels().iter().take(3).map(Label::to_string).collect();
        is_doubtful.then(|| {
            format!(
                "The logits give an accuracy of {:.0} %, the labels of the neighbors {:.0} %: check that the columns of the \
                 logits are in the order of the sorted labels ({}, …). The command-line option --classes sets another order.",
                100.0 * of_network,
                100.0 * of_model,
                labels.join(", ")
            )
        })
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// "a, b and c".
fn enumeration(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enumerations_have_commas_and_a_final_and() {
        let items = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(
            [&items[..0], &items[..1], &items[..2], &items].map(enumeration),
            ["", "a", "a and b", "a, b and c"]
        );
    }
}
