//! Options of `nuq score`.

use std::path::PathBuf;

use nuq_io::ArraySpec;

use super::{Names, OnBadRows, RowArgs};

#[derive(Debug, clap::Args)]
pub(crate) struct ScoreArgs {
    /// File of a model or of a baseline, or folder of a sharded model
    #[arg(short, long, value_name = "FILE")]
    pub(crate) model: PathBuf,
    /// Rows to score, one embedding each; required unless a baseline uses logits or members only
    #[arg(short, long, value_name = "FILE")]
    pub(crate) embeddings: Option<ArraySpec>,
    /// Logits of the rows, rows × classes: with a model, label, probability and uncertainties refer to the prediction of the
    /// network; a baseline may require logits
    #[arg(long, value_name = "FILE")]
    pub(crate) logits: Option<ArraySpec>,
    /// Classes of the columns of the logits, as A,B,"C,D" [default: the labels in sorted order]
    #[arg(long, value_name = "LABELS", default_value = "", hide_default_value = true, requires = "logits")]
    pub(crate) classes: Names,
    /// Logits of several members (for example of a deep ensemble), members × rows × classes, for a baseline that uses them
    #[arg(long, value_name = "FILE")]
    pub(crate) members: Option<ArraySpec>,
    #[command(flatten)]
    pub(crate) input: RowArgs,
    /// Column of the table with an id of each row: it is not a coordinate and is copied to the output
    #[arg(long, value_name = "NAME")]
    pub(crate) id_column: Option<String>,
    /// Columns of the table that are not coordinates and are copied to the output, as A,B,"C,D"
    #[arg(long, value_name = "NAMES", default_value = "", hide_default_value = true)]
    pub(crate) keep_columns: Names,
    /// Output file, .csv, .tsv, .jsonl (these also with .gz or .zst), .npz or .parquet; the name - prints csv, or JSON lines with --json,
    /// to standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Cost of an abstention relative to an error, between 0 and 1: accepts a row if the probability of an error is at most the
    /// cost
    #[arg(long, allow_negative_numbers = true, value_name = "COST")]
    pub(crate) reject_cost: Option<f64>,
    /// Significance level of the decision, between 0 and 0.5: accepts a row only if the data show, at this level, that the
    /// probability of an error is at most the cost
    #[arg(long, allow_negative_numbers = true, value_name = "LEVEL", requires = "reject_cost")]
    pub(crate) level: Option<f64>,
    /// Name of a threshold of the model or baseline (see `nuq calibrate`): accepts a row if its uncertainty is at most the threshold
    #[arg(long, value_name = "NAME", conflicts_with = "reject_cost")]
    pub(crate) threshold: Option<String>,
    /// Name of prediction sets of the model (see `nuq calibrate --target sets=0.9`): writes the set of each row; the set is empty if
    /// a --threshold on the measure `epistemic` or `density` rejects the row
    #[arg(long, value_name = "NAME")]
    pub(crate) sets: Option<String>,
    /// Name of prediction intervals of the model (see `nuq calibrate --target intervals=0.9`): writes the ends `low` and `high`
    #[arg(long, value_name = "NAME")]
    pub(crate) intervals: Option<String>,
    /// Number of nearest training rows to write for each row (id, distance, label or target), at most the model's n_neighbors
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) output_neighbors: usize,
    /// What to do with rows that contain a NaN or an infinity
    ///
    /// Skipped rows have empty cells. An .npz file has NaN, 0, false or an empty string instead, and an array `scored` that is
    /// false for skipped rows.
    #[arg(long, alias = "on-nan", value_name = "ACTION", default_value = "error")]
    pub(crate) on_bad_rows: OnBadRows,
}
