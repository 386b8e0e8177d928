//! Options of `nuq calibrate`.

use std::path::PathBuf;

use nuq::calibrate::{Measure, SetScore};
use nuq_io::ArraySpec;

use super::choice::choice;
use super::{Names, RowArgs, TargetSpec};

#[derive(Debug, clap::Args)]
pub(crate) struct CalibrateArgs {
    /// File of a model or of a baseline, or folder of a sharded model
    #[arg(short, long, value_name = "FILE")]
    pub(crate) model: PathBuf,
    /// Held-out rows, one embedding each; required unless a baseline uses logits or members only
    #[arg(
        short, long, value_name = "FILE",
        required_unless_present_any = ["remove", "temperature", "logits", "members"]
    )]
    pub(crate) embeddings: Option<ArraySpec>,
    /// Labels of the held-out rows: required by --target risk and sets, otherwise used to report the accuracy
    #[arg(short, long, value_name = "FILE")]
    pub(crate) labels: Option<ArraySpec>,
    /// Targets of the held-out rows of a regressor, for --target intervals
    #[arg(long, value_name = "FILE")]
    pub(crate) targets: Option<ArraySpec>,
    /// Logits of the held-out rows. For a model, the threshold or the sets are then chosen for the predictions of the network, and
    /// `nuq score` needs the logits of its rows too. Some baselines require logits. With --labels, the errors of the network are
    /// counted
    #[arg(long, value_name = "FILE")]
    pub(crate) logits: Option<ArraySpec>,
    /// Logits of several members (for example of a deep ensemble) for the held-out rows, members × rows × classes, for a baseline
    /// that uses them
    #[arg(long, value_name = "FILE")]
    pub(crate) members: Option<ArraySpec>,
    #[command(flatten)]
    pub(crate) input: RowArgs,
    /// Classes of the columns of the logits, as A,B,"C,D" [default: the labels in sorted order]
    #[arg(long, value_name = "LABELS", default_value = "", hide_default_value = true, requires = "logits")]
    pub(crate) classes: Names,
    /// What is guaranteed: coverage=SHARE, risk=SHARE, false_alarm=SHARE, sets=SHARE or intervals=SHARE, each between 0 and 1
    ///
    /// coverage: at least this share of rows is accepted. risk: at most this share of the accepted rows is wrong.
    /// false_alarm: at most this share of rows is rejected. sets: a set of classes contains the true one with at least this
    /// probability. intervals: an interval contains the target of a regressor with at least this probability.
    #[arg(long, value_name = "TARGET", required_unless_present_any = ["remove", "temperature"])]
    pub(crate) target: Option<TargetSpec>,
    /// Probability that the guarantee of --target risk fails, over draws of held-out rows, between 0 and 1 [default: 0.05]
    #[arg(long, allow_negative_numbers = true, value_name = "PROBABILITY")]
    pub(crate) delta: Option<f64>,
    /// Which uncertainty is compared with the threshold; only for models, not for baselines [default: epistemic for false_alarm,
    /// total otherwise]
    #[arg(long, value_parser = choice::<Measure>())]
    pub(crate) measure: Option<Measure>,
    /// Score of a class for --target sets: lac is 1 - the probability of the class; aps is the sum of the probabilities of all more
    /// probable classes plus a random share of the probability of the class [default: lac]
    #[arg(long, value_parser = choice::<SetScore>(), value_name = "SCORE")]
    pub(crate) set_score: Option<SetScore>,
    /// Guarantee the coverage of the sets for each class separately instead of over all rows
    #[arg(long)]
    pub(crate) by_class: bool,
    /// Fit a temperature to --logits and --labels: all logits are divided by it from now on; thresholds and sets that were chosen
    /// with logits are removed
    #[arg(
        long, requires = "logits", requires = "labels",
        conflicts_with_all = ["embeddings", "targets", "members", "target", "delta", "measure", "name", "set_score", "by_class"]
    )]
    pub(crate) temperature: bool,
    /// Name of the threshold, sets or intervals in the model [default: the target, for example coverage=0.9]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Remove the threshold, sets or intervals of this name from the model instead
    #[arg(
        long, value_name = "NAME",
        conflicts_with_all = [
            "embeddings", "labels", "targets", "logits", "members", "classes", "target", "delta", "measure", "set_score", "by_class",
            "temperature", "name"
        ]
    )]
    pub(crate) remove: Option<String>,
    /// Output file for the changed model; - writes it to standard output, and the result to standard error [default: replace the
    /// model file]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}
