//! Prediction sets with a coverage guarantee: split conformal prediction.
//!
//! A set contains each class whose score is at most a limit. With class probabilities `p` of the model or of the
//! network, the score of class `y` is
//!
//! ```text
//! lac   s(x, y) = 1 − p_y                          (Sadinle, Lei and Wasserman 2019)
//! aps   s(x, y) = Σ_{c before y} p_c + u(x) p_y    (Romano, Sesia and Candès 2020)
//! ```
//!
//! Here the classes are ordered by descending probability. The limit is the k-th smallest score of the true classes of
//! `n` held-out rows, `k = ⌈(n+1) coverage⌉`. The set of a new row of the same distribution then contains its class
//! with a probability of at least `coverage`, and below `coverage + 1/(n+1)` if no scores are equal. Limits by class
//! (Mondrian) give this guarantee for the rows of each class.
//!
//! `aps` is randomized, because a set that depends only on `p` cannot have exactly the required coverage for each row. `u(x)` in
//! [0, 1) is a hash of the query: the set of a row is the same in each call, on each machine, and in each order of the rows.
//!
//! A set can be empty. For `lac` with one limit for all classes, a set is empty if all class probabilities of the row are lower
//! than `1 − limit`. The probability of the true class is at least `1 − limit` for about the share `coverage` of the held-out
//! rows. For `aps`, a set is empty only because of the random share `u(x)`.

use std::fmt;

use nuq_neighbors::{Embeddings, choices};

use super::rank::{coverage_interval, coverage_rank, percent, sufficient_rows};
use super::training_rows::{kind_of_rows, write_sentence};
use super::{Predictor, check_share};
use crate::error::check_lengths;
use crate::{Classes, Error, Label, Probabilities};

/// The score of a class. Higher values mean less plausible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetScore {
    /// `1 − p_y`. Its sets are the smallest on average if `p` are the true probabilities.
    #[default]
    Lac,
    /// The probability of the classes that are more probable than `y`, plus a random share of the probability of `y`
    /// itself. Sets are larger for difficult rows.
    Aps,
}

choices!(SetScore, "score", { Lac => "lac", Aps => "aps" });

/// The options of prediction sets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SetTarget {
    /// The probability that a set contains the true class, in (0, 1).
    pub coverage: f64,
    /// The score of a class.
    pub score: SetScore,
    /// Whether the coverage holds for each class separately (Mondrian) instead of for all rows together.
    pub by_class: bool,
}

/// The limits of a rule: a class is in a set if its score is at most its limit. The limit of a class that is in every
/// set is infinite.
#[derive(Debug, Clone, PartialEq)]
pub enum SetLimits {
    /// The limit for all classes.
    All(f64),
    /// One limit for each class.
    ByClass(Vec<f64>),
}

/// A rule for prediction sets, chosen on held-out rows. It is separate from the fitted model: changing it needs no refit.
///
/// ```
/// use nuq::calibrate::{SetRule, SetScore, SetTarget};
/// use nuq::{Embeddings, NuqClassifier};
///
/// let x = Embeddings::from_rows(&[[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]])?;
/// let model = NuqClassifier::params().n_neighbors(3).bandwidth(0.3).fit(&x, &["a", "a", "a", "b", "b", "b"])?;
/// let held_out = Embeddings::from_rows(&[[0.05], [0.4], [0.5], [0.7], [1.15]])?;
/// let target = SetTarget { coverage: 0.8, score: SetScore::Lac, by_class: false };
/// let probabilities = model.predict_proba(&held_out)?;
/// let rule = SetRule::calibrate(target, &held_out, &probabilities, model.classes(), &["a", "a", "b", "b", "b"])?;
///
/// let new = Embeddings::from_rows(&[[0.1], [0.55]])?;
/// let sets = rule.sets(&new, &model.predict_proba(&new)?)?;
/// assert_eq!(sets.row(0), [true, false]); // the set {a}
/// assert_eq!(sets.row(1), [true, true]); // both classes are plausible
/// # Ok::<(), nuq::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SetRule {
    /// The probability that a set contains the true class.
    pub coverage: f64,
    /// The score of a class.
    pub score: SetScore,
    /// The largest score that a class in a set can have.
    pub limits: SetLimits,
    /// The number of rows on which the rule was chosen.
    pub rows: usize,
    /// The predictor from whose probabilities the scores are computed.
    pub predictor: Predictor,
    /// The number of training rows among [`rows`](Self::rows); 0 for held-out rows.
    pub training_rows: usize,
}

impl SetRule {
    /// Chooses the limits on held-out rows: their embeddings, class probabilities and true labels. A label that is not
    /// a class of the model is in no set; limits by class ignore such rows.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::OutOfRange`] for a coverage outside (0, 1), [`Error::LabelKind`] for labels
    /// of another kind than the classes, [`Error::FewHeldOutRows`] or [`Error::UnknownLabels`] if no finite limit has
    /// the coverage. With limits by class, [`Error::FewHeldOutRowsOfClass`] if every class has too few rows. If only
    /// some classes have too few rows, each set contains these classes.
    pub fn calibrate<'l, L>(
        target: SetTarget,
        held_out: &Embeddings<'_>,
        probabilities: &Probabilities,
        classes: &Classes,
        labels: &'l [L],
    ) -> Result<Self, Error>
    where
        Label: From<&'l L>,
    {
        let SetTarget { coverage, score, by_class } = target;
        check_share("sets", coverage)?;
        check_lengths(("labels", labels.len()), ("held-out rows", held_out.len()))?;
        check_lengths(("rows of probabilities", probabilities.len()), ("held-out rows", held_out.len()))?;
        check_lengths(("columns of probabilities", probabilities.classes()), ("classes", classes.len()))?;
        let labels: Vec<Label> = labels.iter().map(|label| classes.convert(label.into())).collect();
        classes.check_kind(&labels)?;
        let class_of = |label: &Label| classes.labels().binary_search(label).ok();
        let mut of_class: Vec<Vec<f64>> = vec![vec![]; classes.len()];
        let mut all = vec![];
        for (i, label) in labels.iter().enumerate() {
            let Some(class) = class_of(label) else {
                all.push(f64::INFINITY);
                continue;
            };
            let value = class_scores(score, probabilities.row(i), uniform_of(held_out.row(i)))[class];
            of_class[class].push(value);
            all.push(value);
        }
        let limits = match by_class {
            false => {
                let limit = limit(&mut all, coverage)?;
                if limit == f64::INFINITY {
                    let unknown = all.iter().filter(|score| **score == f64::INFINITY).count();
                    return Err(Error::UnknownLabels { unknown, rows: all.len(), coverage });
                }
                SetLimits::All(limit)
            }
            true => {
                let limits: Vec<Result<f64, Error>> =
                    of_class.iter_mut().map(|scores| limit(scores, coverage)).collect();
                if limits.iter().all(Result::is_err) {
                    let rows = of_class.iter().map(Vec::len).max().unwrap_or(0);
                    return Err(Error::FewHeldOutRowsOfClass {
                        rows,
                        coverage,
                        needed: sufficient_rows(coverage),
                    });
                }
                SetLimits::ByClass(limits.into_iter().map(|limit| limit.unwrap_or(f64::INFINITY)).collect())
            }
        };
        let predictor = Predictor::default();
        Ok(Self { coverage, score, limits, rows: labels.len(), predictor, training_rows: 0 })
    }

    /// Records that the rule was chosen on the probabilities of `predictor`. The limits do not change. Without this
    /// call, the rule records the NUQ model.
    #[must_use]
    pub fn of_predictor(self, predictor: Predictor) -> Self {
        Self { predictor, ..self }
    }

    /// Records that `training_rows` of the rows were training rows. The limits do not change. The text that
    /// [`Display`](fmt::Display) writes mentions these rows.
    #[must_use]
    pub fn on_training_rows(self, training_rows: usize) -> Self {
        Self { training_rows, ..self }
    }

    /// The set of each query, from its class probabilities by the predictor of this rule. A set is empty if the score of every
    /// class exceeds its limit. Rows of known classes can have empty sets too.
    ///
    /// If the sets of rows that a threshold rejects are replaced by empty sets, and the threshold rejects a row of the same
    /// distribution with a probability of at most `a`, the coverage decreases by at most `a`.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] for another number of rows, or of classes if there are limits by class.
    pub fn sets(
        &self,
        queries: &Embeddings<'_>,
        probabilities: &Probabilities,
    ) -> Result<PredictionSets, Error> {
        check_lengths(("rows of probabilities", probabilities.len()), ("queries", queries.len()))?;
        let classes = probabilities.classes();
        if let SetLimits::ByClass(limits) = &self.limits {
            check_lengths(("limits", limits.len()), ("classes", classes))?;
        }
        let limit = |class: usize| match &self.limits {
            SetLimits::All(limit) => *limit,
            SetLimits::ByClass(limits) => limits[class],
        };
        let mut included = Vec::with_capacity(queries.len() * classes);
        for i in 0..queries.len() {
            let scores = class_scores(self.score, probabilities.row(i), uniform_of(queries.row(i)));
            included.extend(scores.iter().enumerate().map(|(class, &score)| score <= limit(class)));
        }
        Ok(PredictionSets { included, classes })
    }

    /// The number of classes that are in every set because they have too few held-out rows.
    #[must_use]
    pub fn unlimited_classes(&self) -> usize {
        match &self.limits {
            SetLimits::All(_) => 0,
            SetLimits::ByClass(limits) => limits.iter().filter(|limit| **limit == f64::INFINITY).count(),
        }
    }
}

/// The k-th smallest score, `k = ⌈(n+1) coverage⌉`.
pub(super) fn limit(scores: &mut [f64], coverage: f64) -> Result<f64, Error> {
    scores.sort_by(f64::total_cmp);
    let rank = coverage_rank(scores.len(), coverage);
    scores.get(rank - 1).copied().ok_or_else(|| Error::FewHeldOutRows {
        rows: scores.len(),
        coverage,
        needed: sufficient_rows(coverage),
    })
}

/// The score of each class.
fn class_scores(score: SetScore, probabilities: &[f64], u: f64) -> Vec<f64> {
    let p = probabilities;
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[b].total_cmp(&p[a]).then(a.cmp(&b)));
    let mut scores = vec![0.0; p.len()];
    match score {
        SetScore::Lac => {
            (0..p.len()).for_each(|class| scores[class] = 1.0 - p[class]);
            // The score of the most probable class is the sum of the other probabilities: `1 − p` would lose digits
            // near one.
            if p.len() > 1 {
                scores[order[0]] = order[1..].iter().rev().map(|&class| p[class]).sum();
            }
        }
        SetScore::Aps => {
            let mut before = 0.0;
            for class in order {
                scores[class] = before + u * p[class];
                before += p[class];
            }
        }
    }
    scores
}

/// A number in [0, 1) that depends on the values of a row only.
fn uniform_of(row: &[f32]) -> f64 {
    // SplitMix64 over the bits of the values. Adding zero turns −0 into 0, so that both give the same number.
    let mix = |state: u64| {
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let add = |state: u64, value: &f32| {
        mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ u64::from((value + 0.0).to_bits()))
    };
    (row.iter().fold(0, add) >> 11) as f64 / (1u64 << 53) as f64
}

/// The set of each query: a row-major matrix of flags, one for each class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PredictionSets {
    included: Vec<bool>,
    classes: usize,
}

impl PredictionSets {
    /// The number of queries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.included.len() / self.classes
    }

    /// Whether there are no queries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.included.is_empty()
    }

    /// For each class, whether it is in the set of query `i`.
    ///
    /// # Panics
    /// If there is no query `i`.
    #[must_use]
    pub fn row(&self, i: usize) -> &[bool] {
        &self.included[i * self.classes..][..self.classes]
    }

    /// All flags, row after row.
    #[must_use]
    pub fn as_slice(&self) -> &[bool] {
        &self.included
    }
}

/// Writes the guarantee in words.
impl fmt::Display for SetRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (n, share) = (self.rows, percent(self.coverage));
        let kind = kind_of_rows(self.training_rows, n);
        write_sentence(f, self.training_rows, n)?;
        match &self.limits {
            SetLimits::All(_) => {
                let (low, high) = coverage_interval(n, self.coverage);
                write!(
                    f,
                    "The set of a new row of the same distribution as the {n} {kind} contains its class with a probability of at \
                     least {share}. With 95 % confidence, {} to {} of such sets contain the class of their row (more if several \
                     calibration scores are equal).",
                    percent(low),
                    percent(high)
                )
            }
            SetLimits::ByClass(limits) => {
                write!(
                    f,
                    "For each class, the set of a new row of this class and of the same distribution as the {n} {kind} contains \
                     the class with a probability of at least {share}."
                )?;
                match (self.unlimited_classes(), sufficient_rows(self.coverage)) {
                    (0, _) | (_, None) => Ok(()),
                    (unlimited, Some(needed)) => write!(
                        f,
                        " {unlimited} of {} classes are in every set: at least {needed} held-out rows of a class are needed.",
                        limits.len()
                    ),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_match_manual_calculations() {
        let p = [0.2, 0.5, 0.3];
        let close = |got: &[f64], expected: [f64; 3]| {
            assert!(got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15), "{got:?}");
        };
        close(&class_scores(SetScore::Lac, &p, 0.7), [0.8, 0.5, 0.7]);
        close(&class_scores(SetScore::Aps, &p, 0.0), [0.8, 0.0, 0.5]);
        close(&class_scores(SetScore::Aps, &p, 0.5), [0.9, 0.25, 0.65]);
        // Equal probabilities are ordered by class.
        close(&class_scores(SetScore::Aps, &[0.25, 0.5, 0.25], 0.0), [0.5, 0.0, 0.75]);
    }

    #[test]
    fn small_error_probabilities_are_not_lost() {
        let scores = class_scores(SetScore::Lac, &[1e-30, 1.0, 1e-31], 0.0);
        assert!((scores[1] - 1.1e-30).abs() < 1e-45);
        assert_eq!(class_scores(SetScore::Lac, &[0.75], 0.0), [0.25]);
    }

    #[test]
    fn the_text_states_that_the_upper_limit_does_not_hold_for_equal_scores() {
        let (limits, predictor) = (SetLimits::All(0.5), Predictor::Nuq);
        let rule =
            SetRule { coverage: 0.9, score: SetScore::Lac, limits, rows: 99, predictor, training_rows: 0 };
        let end =
            "of such sets contain the class of their row (more if several calibration scores are equal).";
        assert!(rule.to_string().ends_with(end), "{rule}");
    }

    #[test]
    fn hashed_numbers_are_uniform_and_do_not_depend_on_the_sign_of_zero() {
        let mut values: Vec<f64> = (0..4000).map(|i| uniform_of(&[i as f32, 1.5])).collect();
        values.sort_by(f64::total_cmp);
        let distance = (0..4000).map(|i| (values[i] - (i as f64 + 0.5) / 4000.0).abs()).fold(0.0, f64::max);
        assert!(distance < 1.63 / 4000f64.sqrt(), "Kolmogorov distance {distance}");
        assert_eq!(uniform_of(&[0.0, 1.0]), uniform_of(&[-0.0, 1.0]));
        assert_ne!(uniform_of(&[0.0, 1.0]), uniform_of(&[1.0, 0.0]));
    }
}
