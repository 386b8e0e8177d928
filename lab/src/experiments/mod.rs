//! The paper's experiments, one module per experiment.

mod ablation_density;
mod ablation_ensemble_size;
mod ablation_neighbors;
mod ablation_reduction;
mod ablation_spectral;
mod agreement;
mod context;
mod cost;
mod detection;
mod digits;
mod embeddings;
mod memo;
mod methods;
mod mnist_vs_svhn;
mod network_outputs;
mod networks;
mod ranks;
mod rotated_mnist;
mod text;
mod toy_reject;
mod toy_uncertainty;
mod two_moons;

use std::path::{Path, PathBuf};
use std::time::Instant;

pub use context::{Context, Size};

use self::networks::Needs;
use crate::LabError;
use crate::results::{Findings, Machine, Results, Versions};

/// An experiment of the paper.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// One-sentence description.
    pub about: &'static str,
    needs: Needs,
    run: fn(&Context) -> Result<Findings, LabError>,
}

impl Experiment {
    /// Finds an experiment by name.
    pub fn by_name(name: &str) -> Option<&'static Experiment> {
        ALL.iter().find(|experiment| experiment.name == name)
    }

    /// Whether the experiment reads a folder of embeddings (option `--data`).
    pub fn takes_embeddings(&self) -> bool {
        ["embeddings", "text"].contains(&self.name)
    }

    /// Runs the experiment and writes its results to a folder in `out`. Returns the results and the folder.
    ///
    /// # Errors
    /// If data are missing, training or evaluation fails, or a file cannot be written.
    pub fn run(&self, context: &Context, out: &Path) -> Result<(Results, PathBuf), LabError> {
        let start = Instant::now();
        context.train(&[self])?;
        let Findings { tables, claims, notes, figures } = (self.run)(context)?;
        let results = Results {
            experiment: self.name.to_owned(),
            about: self.about.to_owned(),
            size: context.size,
            seeds: context.seeds,
            seconds: start.elapsed().as_secs_f64(),
            machine: Machine::current(),
            versions: Versions::current(),
            tables,
            claims,
            notes,
            figures: figures.iter().map(|(name, _)| name.clone()).collect(),
        };
        let folder = results.write(out, &figures)?;
        Ok((results, folder))
    }
}

/// All experiments in the order of the paper.
pub const ALL: &[Experiment] = &[
    Experiment {
        name: "two-moons",
        about: "Two Moons: uncertainty maps of MaxProb, DDU and NUQ for 200 and 2000 training points.",
        needs: Needs::Nothing,
        run: two_moons::run,
    },
    Experiment {
        name: "agreement",
        about: "Agreement of the predictions of NUQ and of the network, and the uncertainty of rows where they differ.",
        needs: Needs::Seeds,
        run: agreement::run,
    },
    Experiment {
        name: "embeddings",
        about: "Outlier detection from embeddings and logits, as in Table 1 of the paper.",
        needs: Needs::Nothing,
        run: embeddings::run,
    },
    Experiment {
        name: "text",
        about: "Text classification with few training data: detection of outliers and of misclassified rows.",
        needs: Needs::Nothing,
        run: text::run,
    },
    Experiment {
        name: "ablation-neighbors",
        about: "Number of neighbors: outlier detection and accuracy of NUQ for K from 1 to 200.",
        needs: Needs::Seeds,
        run: ablation_neighbors::run,
    },
    Experiment {
        name: "toy-reject",
        about: "Classification with a reject option in one dimension: excess risk of NUQ's rule and of the plug-in rule for growing training sets.",
        needs: Needs::Nothing,
        run: toy_reject::run,
    },
    Experiment {
        name: "toy-uncertainty",
        about: "One-dimensional mixture with known class probabilities: epistemic uncertainty and estimation error, aleatoric uncertainty and Bayes risk.",
        needs: Needs::Nothing,
        run: toy_uncertainty::run,
    },
    Experiment {
        name: "rotated-mnist",
        about: "Digits rotated by 30 to 45 degrees: accuracy among the most certain digits.",
        needs: Needs::Baselines,
        run: rotated_mnist::run,
    },
    Experiment {
        name: "mnist-vs-svhn",
        about: "Outlier detection: MNIST test digits against images of other data sets.",
        needs: Needs::Baselines,
        run: mnist_vs_svhn::run,
    },
    Experiment {
        name: "rotated-mnist-vs-svhn",
        about: "Outlier detection: rotated MNIST test digits against images of other data sets.",
        needs: Needs::Baselines,
        run: mnist_vs_svhn::run_rotated,
    },
    Experiment {
        name: "ablation-density",
        about: "Density and layer: NUQ with an RBF kernel, a logistic kernel or class Gaussians, and DDU, on features and on logits.",
        needs: Needs::Seeds,
        run: ablation_density::run,
    },
    Experiment {
        name: "ablation-spectral",
        about: "Effect of spectral normalization on DDU and NUQ.",
        needs: Needs::Spectral,
        run: ablation_spectral::run,
    },
    Experiment {
        name: "ablation-ensemble-size",
        about: "Ensemble size: outlier detection with one to five networks.",
        needs: Needs::Ensemble,
        run: ablation_ensemble_size::run,
    },
    Experiment {
        name: "cost",
        about: "Computational cost of NUQ relative to the network: fit and inference time.",
        needs: Needs::Seeds,
        run: cost::run,
    },
    Experiment {
        name: "ablation-reduction",
        about: "Reduction of several predictions to one score, for test-time augmentation and ensembles.",
        needs: Needs::Ensemble,
        run: ablation_reduction::run,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_are_found_by_unique_names_and_have_a_sentence_as_description() {
        for (i, experiment) in ALL.iter().enumerate() {
            assert!(ALL[..i].iter().all(|other| other.name != experiment.name));
            assert!(Experiment::by_name(experiment.name).is_some());
            assert!(experiment.about.ends_with('.'));
        }
        assert!(Experiment::by_name("no-such").is_none());
    }
}
