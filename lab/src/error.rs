//! What can go wrong in the laboratory, and what to do about it.

use std::path::PathBuf;

/// A refusal, with the file or option that it is about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A buffer that is not a whole number of pictures.
    #[error("{got} values are no whole number of pictures of {channels} × {height} × {width}")]
    PixelCount {
        /// Colors.
        channels: usize,
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
        /// The values that were given.
        got: usize,
    },
    /// A picture with a value that is not finite.
    #[error("picture {picture} has a value that is not finite")]
    NotFinite {
        /// Which picture.
        picture: usize,
    },
    /// Pictures and labels of different number.
    #[error("{images} pictures have {labels} labels; give one label for each picture")]
    LabelCount {
        /// The number of pictures.
        images: usize,
        /// The number of labels.
        labels: usize,
    },
    /// A label that is no class.
    #[error("label {label} is not below the number of classes, {n_classes}")]
    Label {
        /// The label.
        label: usize,
        /// The number of classes.
        n_classes: usize,
    },
    /// Pictures of another shape than a network takes.
    #[error("the network takes pictures of {expected:?} (channels, rows, columns), these are {got:?}")]
    Shape {
        /// What the network takes.
        expected: [usize; 3],
        /// What it was given.
        got: [usize; 3],
    },
    /// A recipe that cannot be followed.
    #[error("the recipe's {option} {problem}")]
    Recipe {
        /// The field of the recipe.
        option: &'static str,
        /// What is wrong with it, as the rest of a sentence.
        problem: String,
    },
    /// Training that went out of bounds.
    #[error("training gave a loss of {loss} in epoch {epoch}; try a smaller learning rate")]
    Diverged {
        /// The epoch, from 1.
        epoch: usize,
        /// The loss.
        loss: f64,
    },
    /// Training that was told to stop; what is done so far is in the cache.
    #[error("stopped after epoch {epoch}; run the same command again to go on from there")]
    Stopped {
        /// The last epoch that was finished and stored.
        epoch: usize,
    },
    /// A checkpoint that cannot be used.
    #[error("{}: {problem}; delete the file to train again", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Something that a fitted model was to tell and did not.
    #[error(
        "NUQ with {neighbors} neighbors tells no {what}; fit it with a kernel density and leave-one-out selection"
    )]
    Untold {
        /// What was asked.
        what: &'static str,
        /// The model's neighbors.
        neighbors: usize,
    },
    /// A number of a result that is infinite or none.
    #[error(
        "{experiment}: the number of {row}, {column} in the table \"{table}\" is not finite; nothing was written"
    )]
    NotANumber {
        /// The experiment.
        experiment: String,
        /// The table's title.
        table: String,
        /// The row.
        row: String,
        /// The column.
        column: String,
    },
    /// A file or folder that cannot be read or made.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Experiments that failed, of several.
    #[error("these experiments failed, as told above: {names}")]
    Experiments {
        /// Their names.
        names: String,
    },
    /// Threads that the system did not give.
    #[error("no threads to train with: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// Data that cannot be used.
    #[error(transparent)]
    Data(#[from] crate::data::DataError),
    /// A figure that could not be rendered.
    #[error(transparent)]
    Figure(#[from] nuq_report::Error),
    /// What `nuq` refused.
    #[error(transparent)]
    Nuq(#[from] nuq::Error),
    /// What `nuq-neighbors` refused.
    #[error(transparent)]
    Neighbors(#[from] nuq_neighbors::Error),
    /// What `nuq-io` refused.
    #[error(transparent)]
    Io(#[from] nuq_io::Error),
}
