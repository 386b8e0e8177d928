//! Rows sorted by score once, for all metrics and resamples.

use nuq::calibrate::check_scores;

use crate::Error;

/// Rows in ascending order of score, in groups of equal scores.
#[derive(Debug, Clone)]
pub(super) struct Ranked {
    order: Vec<u32>,
    /// The end of each group in `order`.
    ends: Vec<u32>,
}

impl Ranked {
    /// Sorts scores; `what` names them in error messages.
    pub(super) fn new(scores: &[f64], what: &'static str) -> Result<Self, Error> {
        check_scores(scores, what)?;
        let mut order: Vec<u32> = (0..scores.len() as u32).collect();
        order.sort_by(|&a, &b| {
            scores[a as usize]
                .partial_cmp(&scores[b as usize])
                .expect("scores were checked for NaN")
                .then(a.cmp(&b))
        });
        let is_end =
            |i: usize| i + 1 == order.len() || scores[order[i] as usize] != scores[order[i + 1] as usize];
        let ends = (0..order.len()).filter(|&i| is_end(i)).map(|i| i as u32 + 1).collect();
        Ok(Self { order, ends })
    }

    /// Groups of rows with equal scores, in ascending order.
    pub(super) fn groups(&self) -> impl DoubleEndedIterator<Item = &[u32]> {
        let start = |group: usize| if group == 0 { 0 } else { self.ends[group - 1] as usize };
        (0..self.ends.len()).map(move |group| &self.order[start(group)..self.ends[group] as usize])
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_scores_are_one_group_and_zero_equals_negative_zero() {
        let scores = [3.0, 0.0, f64::INFINITY, -0.0, 3.0, f64::NEG_INFINITY];
        let ranked = Ranked::new(&scores, "scores").unwrap();
        let groups: Vec<&[u32]> = ranked.groups().collect();
        assert_eq!(groups, [&[5][..], &[1, 3], &[0, 4], &[2]]);
        assert_eq!(ranked.groups().next_back(), Some(&[2][..]));
    }

    #[test]
    fn nan_and_empty_scores_are_rejected() {
        let error = |scores: &[f64]| Ranked::new(scores, "scores").unwrap_err();
        assert_eq!(error(&[]), nuq::Error::NoRows { what: "scores" }.into());
        assert_eq!(error(&[0.0, f64::NAN]), nuq::Error::NanScore { what: "scores", row: 1 }.into());
    }
}
