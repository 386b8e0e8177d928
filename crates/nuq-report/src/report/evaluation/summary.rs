//! Summary of the results: one line per finding.

use nuq::Label;
use nuq_eval::Error;
use nuq_eval::evaluate::{DetectionResult, MethodId, MethodResult, Predictor};
use nuq_eval::metrics::{Interval, Selective};

use super::Source;

/// Coverage at which the summary gives the accuracy.
const COVERAGE: f64 = 0.9;
/// ROC-AUC of random scores.
const CHANCE: f64 = 0.5;
/// ROC-AUC below which a separation is called hardly better than chance.
const WEAK: f64 = 0.6;
/// Difference of the accuracies of model and network above which the order of the logit columns is doubtful.
const DOUBTFUL_DIFFERENCE: f64 = 0.25;

impl Source<'_> {
    pub(super) fn summary(&self) -> Result<String, Error> {
        let lines = [
            Some(self.accuracy_line()?),
            self.ranking_line(),
            detection_line(&self.detections()),
            self.threshold_sentence(),
            self.logit_order_sentence(),
        ];
        Ok(lines.into_iter().flatten().collect::<Vec<_>>().join("\n"))
    }

    /// Accuracy with and without rejection.
    fn accuracy_line(&self) -> Result<String, Error> {
        let evaluation = self.evaluation;
        let predictor = predictor_name(evaluation.predictor);
        let (accuracy, rows) = (percent(evaluation.accuracy.value), evaluation.test.len());
        let mut text = format!("The {predictor} has an accuracy of {accuracy} on {rows} test rows");
        if let Some((total, name)) = self.total() {
            let risk = Selective::new(&total.test, &evaluation.is_error)?.risk_at(COVERAGE);
            let share = 100.0 * COVERAGE;
            text += &format!(", and {} on the {share} % with the lowest {name}", percent(1.0 - risk));
        }
        Ok(text + ".")
    }

    /// The total uncertainty, with logits if all sets have them, and its name.
    fn total(&self) -> Option<(&MethodResult, &'static str)> {
        let method = |id: MethodId, name: &'static str| Some((self.evaluation.method(id)?, name));
        let with_logits = method(MethodId::NuqTotalWithLogits, "total uncertainty with logits");
        with_logits.or_else(|| method(MethodId::NuqTotal, "total uncertainty"))
    }

    /// A sentence on the baselines that rank the errors best, or on the lack of errors; `None` if no baseline ranks them better
    /// than NUQ.
    fn ranking_line(&self) -> Option<String> {
        if !self.evaluation.is_error.contains(&true) {
            let text = "There are no errors among the test rows: the RCC-AUC of every method is 0, so it does not compare the methods.";
            return Some(text.to_owned());
        }
        let (total, name) = self.total()?;
        let area = |method: &MethodResult| method.rcc_auc.interval.value;
        let best = lowest(&self.evaluation.methods, |method| area(method));
        let lowest_area = area(best.first()?);
        let values = format!("RCC-AUC {lowest_area:.4} and {:.4}", area(total));
        let names = quoted(&best.iter().map(|method| &*method.name).collect::<Vec<_>>());
        let verb = if best.len() == 1 { "ranks" } else { "rank" };
        let text = if total.rcc_auc.is_best {
            format!(
                "{names} {verb} the errors slightly better than {name} ({values}); the difference is not significant."
            )
        } else {
            format!("{names} {verb} the errors significantly better than {name} ({values}).")
        };
        (!best.iter().any(|method| method.id.is_nuq()) && lowest_area < area(total)).then_some(text)
    }

    /// For each out-of-distribution set, how well epistemic uncertainty separates it from the test rows.
    fn detections(&self) -> Vec<SetDetection<'_>> {
        let Some(epistemic) = self.evaluation.method(MethodId::NuqEpistemic) else { return vec![] };
        let names = self.comparison.ood_sets().iter().map(|(name, _)| name.as_str());
        let detection = |(i, (set, result)): (usize, (_, &DetectionResult))| {
            let area = |method: &MethodResult| method.ood[i].roc_auc.interval.value;
            let best = lowest(&self.evaluation.methods, |method| -area(method));
            let roc_auc = result.roc_auc;
            let highest = best.first().map(|method| area(method));
            let best =
                highest.filter(|&highest| highest > roc_auc.interval.value).map(|highest| BestMethods {
                    names: best.iter().map(|method| &*method.name).collect(),
                    roc_auc: highest,
                    is_significant: !roc_auc.is_best,
                });
            SetDetection { set, roc_auc: roc_auc.interval, best }
        };
        names.zip(&epistemic.ood).enumerate().map(detection).collect()
    }

    fn threshold_sentence(&self) -> Option<String> {
        let (name, _) = self.options.threshold.as_ref()?;
        let rejected: Vec<String> = self
            .sets()
            .iter()
            .enumerate()
            .map(|(i, set)| {
                let of_set = if i == 0 { "the test rows" } else { set.name };
                Some(format!("{} of {of_set}", percent(self.rejected(set)?)))
            })
            .collect::<Option<_>>()?;
        let mut text = format!("The threshold “{name}” rejects {}", enumeration(&rejected));
        if let Some((predictor, accuracy)) = self.accuracy_of_accepted() {
            let of_predictor = match predictor == self.evaluation.predictor {
                true => String::new(),
                false => format!(" of the {}", predictor_name(predictor)),
            };
            text +=
                &format!("; the accuracy{of_predictor} on the accepted test rows is {}", percent(accuracy));
        }
        Some(text + ".")
    }

    /// Share of correct predictions among the test rows that the threshold accepts, and the predictor that made them: the predictor of
    /// the evaluation, or the predictor of the threshold if the threshold does not apply to the predictor of the evaluation.
    fn accuracy_of_accepted(&self) -> Option<(Predictor, f64)> {
        let (_, threshold) = self.options.threshold.as_ref()?;
        let of_evaluation = self.evaluation.predictor;
        let predictor = if threshold.applies_to(of_evaluation) { of_evaluation } else { threshold.predictor };
        let sets = self.sets();
        let (is_accepted, predictions) = (self.accepted(&sets[0])?, sets[0].by(predictor)?);
        let accepted: Vec<usize> = (0..is_accepted.len()).filter(|&i| is_accepted[i]).collect();
        let labels = self.comparison.labels();
        let correct = accepted.iter().filter(|&&i| predictions.label(i) == &labels[i]).count();
        (!accepted.is_empty()).then(|| (predictor, correct as f64 / accepted.len() as f64))
    }

    /// A warning if the logits give a much lower accuracy than the neighbors.
    fn logit_order_sentence(&self) -> Option<String> {
        let evaluation = self.evaluation;
        let rows = evaluation.test.len();
        let correct = (0..rows).filter(|&i| evaluation.test.label(i) == &self.comparison.labels()[i]).count();
        let of_model = correct as f64 / rows as f64;
        let of_network = evaluation.accuracy.value;
        let is_doubtful =
            evaluation.predictor == Predictor::Network && of_network < of_model - DOUBTFUL_DIFFERENCE;
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

/// Detection of one set by epistemic uncertainty.
struct SetDetection<'a> {
    set: &'a str,
    roc_auc: Interval,
    /// The methods with the highest ROC-AUC; `None` if epistemic uncertainty is one of them.
    best: Option<BestMethods<'a>>,
}

/// The methods with the highest ROC-AUC for a set. Their values are equal.
struct BestMethods<'a> {
    names: Vec<&'a str>,
    roc_auc: f64,
    /// Whether their ROC-AUC is significantly higher than the ROC-AUC of epistemic uncertainty.
    is_significant: bool,
}

/// How well a score separates a set from the test rows.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Separation {
    Separates,
    HardlyBetterThanChance,
    NoBetterThanChance,
    WorseThanChance,
}

impl Separation {
    const ALL: [Self; 4] =
        [Self::Separates, Self::HardlyBetterThanChance, Self::NoBetterThanChance, Self::WorseThanChance];

    /// Compares a ROC-AUC and its interval with the ROC-AUC of random scores.
    fn of(roc_auc: Interval) -> Self {
        match roc_auc {
            Interval { high, .. } if high < CHANCE => Self::WorseThanChance,
            Interval { low, .. } if low <= CHANCE => Self::NoBetterThanChance,
            Interval { value, .. } if value < WEAK => Self::HardlyBetterThanChance,
            _ => Self::Separates,
        }
    }

    fn sentence(self, sets: &str) -> String {
        match self {
            Self::Separates => format!("Epistemic uncertainty separates {sets} from the test rows."),
            Self::HardlyBetterThanChance => {
                format!(
                    "Epistemic uncertainty separates {sets} from the test rows hardly better than chance."
                )
            }
            Self::NoBetterThanChance => {
                format!("Epistemic uncertainty separates {sets} from the test rows no better than chance.")
            }
            Self::WorseThanChance => {
                format!(
                    "Epistemic uncertainty is lower for {sets} than for the test rows: worse than chance."
                )
            }
        }
    }
}

/// The sentences on all sets: how well epistemic uncertainty separates them, and which methods are better; `None` without sets.
fn detection_line(sets: &[SetDetection<'_>]) -> Option<String> {
    let mut sentences = vec![];
    for separation in Separation::ALL {
        let with_area = |set: &SetDetection<'_>| {
            let Interval { value, low, high } = set.roc_auc;
            format!("{} (ROC-AUC {value:.3} ± {:.3})", set.set, 0.5 * (high - low))
        };
        let of_kind = sets.iter().filter(|set| Separation::of(set.roc_auc) == separation);
        let names: Vec<String> = of_kind.map(with_area).collect();
        if !names.is_empty() {
            sentences.push(separation.sentence(&enumeration(&names)));
        }
    }
    sentences.extend(better_methods(sets));
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// One sentence for each group of best methods that is better than epistemic uncertainty for some sets. Significant differences come
/// first.
fn better_methods(sets: &[SetDetection<'_>]) -> Vec<String> {
    let better = || sets.iter().filter_map(|set| set.best.as_ref().map(|best| (set.set, best)));
    let mut sentences = vec![];
    for is_significant in [true, false] {
        let mut all: Vec<&[&str]> = vec![];
        for (_, best) in better().filter(|(_, best)| best.is_significant == is_significant) {
            if !all.contains(&&*best.names) {
                all.push(&best.names);
            }
        }
        for names in all {
            let of_names =
                better().filter(|(_, best)| best.names == names && best.is_significant == is_significant);
            let areas: Vec<String> =
                of_names.map(|(set, best)| format!("{set} ({:.3})", best.roc_auc)).collect();
            let (areas, verb) = (enumeration(&areas), if names.len() == 1 { "is" } else { "are" });
            let names = quoted(names);
            sentences.push(if is_significant {
                format!("{names} {verb} significantly better for {areas}.")
            } else {
                format!("{names} {verb} slightly better for {areas}; the difference is not significant.")
            });
        }
    }
    sentences
}

fn predictor_name(predictor: Predictor) -> &'static str {
    match predictor {
        Predictor::Network => "network",
        Predictor::Nuq => "model",
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// All methods with the lowest value.
fn lowest(methods: &[MethodResult], value: impl Fn(&MethodResult) -> f64) -> Vec<&MethodResult> {
    let least = methods.iter().map(&value).min_by(f64::total_cmp);
    methods.iter().filter(|method| Some(value(method)) == least).collect()
}

/// The names of methods with equal values: up to three names, or the first two and the number of the other methods.
fn quoted(names: &[&str]) -> String {
    let shown = if names.len() > 3 { 2 } else { names.len() };
    let mut listed: Vec<String> = names[..shown].iter().map(|name| format!("“{name}”")).collect();
    listed.extend((shown < names.len()).then(|| format!("{} other methods", names.len() - shown)));
    enumeration(&listed)
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

    fn detection(set: &str, value: f64, half: f64) -> SetDetection<'_> {
        SetDetection { set, roc_auc: Interval { value, low: value - half, high: value + half }, best: None }
    }

    #[test]
    fn the_wording_depends_on_the_interval_of_the_roc_auc() {
        let line = |value, half| detection_line(&[detection("svhn", value, half)]).expect("one set");
        assert_eq!(
            line(0.934, 0.014),
            "Epistemic uncertainty separates svhn (ROC-AUC 0.934 ± 0.014) from the test rows."
        );
        assert!(line(0.56, 0.02).ends_with("from the test rows hardly better than chance."));
        assert!(line(0.5, 0.02).ends_with("from the test rows no better than chance."));
        assert!(line(0.7, 0.25).ends_with("from the test rows no better than chance."));
        assert_eq!(
            line(0.31, 0.02),
            "Epistemic uncertainty is lower for svhn (ROC-AUC 0.310 ± 0.020) than for the test rows: worse than chance."
        );
        assert_eq!(detection_line(&[]), None);
    }

    #[test]
    fn sets_of_one_kind_share_a_sentence_and_better_methods_are_named() {
        let best = |names: &[&'static str], is_significant| {
            Some(BestMethods { names: names.to_vec(), roc_auc: 0.95, is_significant })
        };
        let sets = [
            SetDetection { best: best(&["ViM"], true), ..detection("svhn", 0.9, 0.01) },
            SetDetection { best: best(&["ViM"], true), ..detection("noise", 0.5, 0.01) },
            SetDetection { best: best(&["LOF"], false), ..detection("textures", 0.94, 0.02) },
        ];
        assert_eq!(
            detection_line(&sets).expect("three sets"),
            "Epistemic uncertainty separates svhn (ROC-AUC 0.900 ± 0.010) and textures (ROC-AUC 0.940 ± 0.020) from the \
             test rows. Epistemic uncertainty separates noise (ROC-AUC 0.500 ± 0.010) from the test rows no better than \
             chance. “ViM” is significantly better for svhn (0.950) and noise (0.950). “LOF” is slightly better for textures \
             (0.950); the difference is not significant."
        );
    }

    #[test]
    fn methods_with_equal_values_are_named_together() {
        let names = ["ViM", "LOF", "DDU", "Energy"];
        let line = |count: usize| {
            let best = BestMethods { names: names[..count].to_vec(), roc_auc: 1.0, is_significant: true };
            let set = SetDetection { best: Some(best), ..detection("svhn", 0.9, 0.01) };
            better_methods(&[set]).join(" ")
        };
        assert_eq!(line(1), "“ViM” is significantly better for svhn (1.000).");
        assert_eq!(line(2), "“ViM” and “LOF” are significantly better for svhn (1.000).");
        assert_eq!(line(4), "“ViM”, “LOF” and 2 other methods are significantly better for svhn (1.000).");
    }

    #[test]
    fn enumerations_have_commas_and_a_final_and() {
        let items = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(
            [&items[..0], &items[..1], &items[..2], &items].map(enumeration),
            ["", "a", "a and b", "a, b and c"]
        );
    }
}
