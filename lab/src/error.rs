//! Error type of the crate.

use std::path::PathBuf;

/// An error of training, experiments or their results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A dimension of the image shape is zero.
    #[error(
        "images of shape {channels} × {height} × {width} (channels, rows, columns) are empty; every dimension must be at least 1"
    )]
    EmptyShape {
        /// Number of color channels.
        channels: usize,
        /// Number of image rows.
        height: usize,
        /// Number of image columns.
        width: usize,
    },
    /// The pixel buffer does not hold a whole number of images.
    #[error("{got} pixel values are not a multiple of the image size {channels} × {height} × {width}")]
    PixelCount {
        /// Number of color channels.
        channels: usize,
        /// Number of image rows.
        height: usize,
        /// Number of image columns.
        width: usize,
        /// Number of values in the buffer.
        got: usize,
    },
    /// A pixel value is NaN or infinite.
    #[error("image {image} contains a NaN or infinite value")]
    NotFinite {
        /// Index of the image, from 0.
        image: usize,
    },
    /// The numbers of images and labels differ.
    #[error("got {images} images and {labels} labels; provide one label per image")]
    LabelCount {
        /// The number of images.
        images: usize,
        /// The number of labels.
        labels: usize,
    },
    /// The data have too few images for training.
    #[error("training requires at least 2 images, got {images}")]
    TooFewImages {
        /// The number of images.
        images: usize,
    },
    /// A label is out of range.
    #[error("label {label} is not below the number of classes {n_classes}")]
    Label {
        /// Value of the label.
        label: usize,
        /// The number of classes.
        n_classes: usize,
    },
    /// The images do not have the network's input shape.
    #[error("the network expects images of shape {expected:?} (channels, rows, columns), got {got:?}")]
    Shape {
        /// Input shape of the network.
        expected: [usize; 3],
        /// Shape of the images.
        got: [usize; 3],
    },
    /// A recipe option is invalid.
    #[error("recipe option {option} {problem}")]
    Recipe {
        /// Name of the recipe field.
        option: &'static str,
        /// Description of the problem, starting with a verb.
        problem: String,
    },
    /// The training loss became NaN or infinite.
    #[error("the training loss is {loss} in epoch {epoch}; use a smaller learning rate")]
    Diverged {
        /// Epoch number, from 1.
        epoch: usize,
        /// Loss of the step.
        loss: f64,
    },
    /// Training was stopped on request. The cache holds a checkpoint.
    #[error("stopped after epoch {epoch}; run the same command again to resume")]
    Stopped {
        /// Last completed epoch, which the checkpoint contains.
        epoch: usize,
    },
    /// A checkpoint is damaged or belongs to another training.
    #[error("{}: {problem}; delete the file to train again", path.display())]
    Checkpoint {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        problem: String,
    },
    /// A fitted NUQ model does not provide a value that the experiment needs.
    #[error(
        "NUQ with {n_neighbors} neighbors has no {what}; fit it with a kernel density and leave-one-out selection of the bandwidth"
    )]
    NotAvailable {
        /// Name of the missing value.
        what: &'static str,
        /// Number of neighbors of the model.
        n_neighbors: usize,
    },
    /// A value in a result table is NaN or infinite.
    #[error(
        "{experiment}: the value in row {row}, column {column} of the table \"{table}\" is not finite; no results were written"
    )]
    ResultNotFinite {
        /// Name of the experiment.
        experiment: String,
        /// Title of the table.
        table: String,
        /// Name of the row.
        row: String,
        /// Name of the column.
        column: String,
    },
    /// A file cannot be read or deleted, a folder cannot be created, results cannot be converted from or to JSON, or a checkpoint cannot be
    /// stored.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the file or folder.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// Some experiments of `lab run --all` failed.
    #[error("these experiments failed (see the messages above): {names}")]
    Experiments {
        /// Names of the failed experiments.
        names: String,
    },
    /// The thread pool for training could not be created.
    #[error("cannot create the thread pool for training: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// A data set cannot be read or used.
    #[error(transparent)]
    Data(#[from] crate::data::DataError),
    /// A figure cannot be rendered.
    #[error(transparent)]
    Figure(#[from] nuq_report::Error),
    /// Error of `nuq`.
    #[error(transparent)]
    Nuq(#[from] nuq::Error),
    /// Error of `nuq-eval`.
    #[error(transparent)]
    Eval(#[from] nuq_eval::Error),
    /// Error of `nuq-neighbors`.
    #[error(transparent)]
    Neighbors(#[from] nuq_neighbors::Error),
    /// Error of `nuq-io`.
    #[error(transparent)]
    Io(#[from] nuq_io::Error),
}
