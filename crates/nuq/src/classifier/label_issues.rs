//! Training rows whose label has a low probability given the other rows.

use nuq_neighbors::cancel::ParallelCheckpoints;
use rayon::prelude::*;

use super::NuqClassifier;
use crate::Error;
use crate::posterior::Scratch;

/// A training row whose label is not the most probable one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LabelIssue {
    /// The id of the row.
    pub row: u32,
    /// The class number of its label.
    pub given: u32,
    /// The number of the most probable class, computed without this row.
    pub predicted_label: u32,
    /// The probability of its label, computed without this row.
    pub probability_given: f64,
    /// The probability of the most probable class, computed without this row.
    pub predicted_probability: f64,
}

impl NuqClassifier<'_> {
    /// The training rows whose label differs from the most probable class, by ascending probability of their label. Each row
    /// is left out in turn.
    ///
    /// ```
    /// use nuq::{Embeddings, NuqClassifier};
    /// let x = Embeddings::from_rows(&[[0.0], [0.1], [0.2], [0.3], [5.0], [5.1], [5.2], [5.3]])?;
    /// let labels = ["a", "a", "b", "a", "b", "b", "b", "b"];
    /// let model = NuqClassifier::params().n_neighbors(3).bandwidth(0.2).fit(&x, &labels)?;
    /// let issues = model.label_issues()?;
    /// assert_eq!((issues[0].row, issues.len()), (2, 1));
    /// assert!(issues[0].probability_given < 0.01);
    /// # Ok::<(), nuq::Error>(())
    /// ```
    ///
    /// # Errors
    /// A model with a single row, a model that was saved without its rows, or an index that comes from a damaged file.
    pub fn label_issues(&self) -> Result<Vec<LabelIssue>, Error> {
        let mut issues = Vec::new();
        self.smoother.for_left_out_blocks(|ids, batch, neighbors| {
            let issue = |(probabilities, scratch): &mut (Vec<f64>, Scratch), i: usize| {
                let classes = self.classes_of(neighbors, i);
                self.prior.probabilities(classes, &batch.weights(i), scratch, probabilities);
                let mut predicted = 0;
                for (class, &p) in probabilities.iter().enumerate() {
                    if p > probabilities[predicted] {
                        predicted = class;
                    }
                }
                let given = self.class_of_row[ids[i] as usize];
                // A label that is as probable as the predicted one is not an issue.
                (probabilities[given as usize] < probabilities[predicted]).then(|| LabelIssue {
                    row: ids[i],
                    given,
                    predicted_label: predicted as u32,
                    probability_given: probabilities[given as usize],
                    predicted_probability: probabilities[predicted],
                })
            };
            let buffers = || (vec![0.0; self.classes.len()], Scratch::default());
            let block_issues: Vec<Option<LabelIssue>> =
                (0..ids.len()).into_par_iter().with_checkpoints().map_init(buffers, issue).collect();
            issues.extend(block_issues.into_iter().flatten());
            Ok(())
        })?;
        issues.sort_by(|a, b| a.probability_given.total_cmp(&b.probability_given).then(a.row.cmp(&b.row)));
        Ok(issues)
    }
}
