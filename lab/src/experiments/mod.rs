//! The paper's experiments, one file each.

mod ablation_density;
mod ablation_ensemble_size;
mod ablation_neighbors;
mod ablation_reduction;
mod ablation_spectral;
mod agreement;
mod cost;
mod detection;
mod digits;
mod embeddings;
mod lab;
mod memo;
mod methods;
mod mnist_vs_svhn;
mod networks;
mod ranks;
mod rotated_mnist;
mod seen;
mod text;
mod toy_reject;
mod toy_uncertainty;
mod two_moons;

use std::path::{Path, PathBuf};
use std::time::Instant;

pub use lab::{Lab, Size};

use self::networks::Needs;
use crate::LabError;
use crate::results::{Findings, Machine, Results, Versions};

/// An experiment.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// As the command line calls it.
    pub name: &'static str,
    /// What it shows, in a sentence.
    pub about: &'static str,
    needs: Needs,
    run: fn(&Lab) -> Result<Findings, LabError>,
}

impl Experiment {
    /// The experiment of a name.
    pub fn named(name: &str) -> Option<&'static Experiment> {
        ALL.iter().find(|experiment| experiment.name == name)
    }

    /// Whether it looks at a folder of embeddings that the user names.
    pub fn takes_embeddings(&self) -> bool {
        ["embeddings", "text"].contains(&self.name)
    }

    /// Runs it and writes what it finds into its folder in `out`, which is returned.
    pub fn run(&self, lab: &Lab, out: &Path) -> Result<(Results, PathBuf), LabError> {
        let start = Instant::now();
        lab.train(&[self])?;
        let Findings { tables, claims, notes, figures } = (self.run)(lab)?;
        let results = Results {
            experiment: self.name.to_owned(),
            about: self.about.to_owned(),
            size: lab.size,
            seeds: lab.seeds,
            seconds: start.elapsed().as_secs_f64(),
            machine: Machine::of_this_run(),
            versions: Versions::of_this_build(),
            tables,
            claims,
            notes,
            figures: figures.iter().map(|(name, _)| name.clone()).collect(),
        };
        let folder = results.write(out, &figures)?;
        Ok((results, folder))
    }
}

/// All experiments, in the paper's order.
pub const ALL: &[Experiment] = &[
    Experiment {
        name: "two-moons",
        about: "Two Moons: what MaxProb, DDU and NUQ say about the plane after 200 and after 2000 points.",
        needs: Needs::Nothing,
        run: two_moons::run,
    },
    Experiment {
        name: "agreement",
        about: "How often NUQ and the network it looks at give the same answer, and how uncertain they are where not.",
        needs: Needs::Seeds,
        run: agreement::run,
    },
    Experiment {
        name: "embeddings",
        about: "Telling outliers from test data by the embeddings and logits of a network, after the paper's Table 1.",
        needs: Needs::Nothing,
        run: embeddings::run,
    },
    Experiment {
        name: "text",
        about: "Text classification with few training data: finding outliers, and knowing one's own errors.",
        needs: Needs::Nothing,
        run: text::run,
    },
    Experiment {
        name: "ablation-neighbors",
        about: "How many neighbors NUQ needs: detection and accuracy for K from 1 to 200.",
        needs: Needs::Seeds,
        run: ablation_neighbors::run,
    },
    Experiment {
        name: "toy-reject",
        about: "Classification with a reject option on a line: excess risk of NUQ's rule and of the plug-in rule as data grow.",
        needs: Needs::Nothing,
        run: toy_reject::run,
    },
    Experiment {
        name: "toy-uncertainty",
        about: "A mixture on a line whose truth is known: the error of the estimate against epistemic uncertainty, the true chance against aleatoric.",
        needs: Needs::Nothing,
        run: toy_uncertainty::run,
    },
    Experiment {
        name: "rotated-mnist",
        about: "Digits turned by 30 to 45 degrees: accuracy among the most certain.",
        needs: Needs::Rivals,
        run: rotated_mnist::run,
    },
    Experiment {
        name: "mnist-vs-svhn",
        about: "Telling MNIST's test digits from pictures of other sets.",
        needs: Needs::Rivals,
        run: mnist_vs_svhn::run,
    },
    Experiment {
        name: "rotated-mnist-vs-svhn",
        about: "Telling rotated digits from pictures of other sets.",
        needs: Needs::Rivals,
        run: mnist_vs_svhn::run_rotated,
    },
    Experiment {
        name: "ablation-density",
        about: "NUQ's density by an RBF kernel, a logistic kernel or one Gaussian per class, and DDU beside it, of features and of logits.",
        needs: Needs::Seeds,
        run: ablation_density::run,
    },
    Experiment {
        name: "ablation-spectral",
        about: "What spectral normalization of the network does for DDU and NUQ.",
        needs: Needs::Spectral,
        run: ablation_spectral::run,
    },
    Experiment {
        name: "ablation-ensemble-size",
        about: "How many networks an ensemble needs.",
        needs: Needs::Ensemble,
        run: ablation_ensemble_size::run,
    },
    Experiment {
        name: "cost",
        about: "What NUQ costs beside the network: time to fit and to ask.",
        needs: Needs::Seeds,
        run: cost::run,
    },
    Experiment {
        name: "ablation-reduction",
        about: "How several predictions of a row become one number, for test-time augmentation and ensembles.",
        needs: Needs::Ensemble,
        run: ablation_reduction::run,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unlike_and_found() {
        for (i, experiment) in ALL.iter().enumerate() {
            assert!(ALL[..i].iter().all(|other| other.name != experiment.name));
            assert!(Experiment::named(experiment.name).is_some());
            assert!(experiment.about.ends_with('.'));
        }
        assert!(Experiment::named("no-such").is_none());
    }
}
