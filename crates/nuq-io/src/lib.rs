//! Reads arrays and tables; reads and writes fitted models and baselines.
//!
//! [`EmbeddingsFile`], [`read_labels`] and [`read_targets`] read npy, npz, safetensors, csv and tsv files, and, with
//! the feature `parquet`, parquet files. [`read_members`] reads the logits of several networks from one array of three
//! dimensions. [`read_images`] reads one image per row.
//!
//! [`save`] writes a fitted model into one file, and [`open`] opens it. Opening takes milliseconds for a model of any size,
//! because rows and links of the graph are mapped and are read from the file only when a search uses them. Every section has a checksum;
//! an error names the damaged section. `docs/model-format.md` describes the format.
//!
//! Rows that exceed the memory are written as shards ([`ShardWriter`], [`write_shard`], [`open_shards`]). The folder
//! of a sharded model is opened and saved like a file.
//!
//! [`save_without_rows`] writes a model whose rows are in a database: its predictions are computed from neighbors
//! that the database finds.
//!
//! [`save_baseline`] and [`open_baseline`] write and open a fitted baseline of the crate `nuq-eval`. [`open_any`]
//! opens the file of a model or of a baseline.

mod arrays;
mod atomic;
mod baseline;
mod container;
#[cfg(unix)]
mod end_process;
mod error;
mod file_bytes;
mod folder;
mod gaussians;
mod index;
mod lock;
#[cfg(unix)]
mod lost_file;
mod manifest_before;
mod mapped_array;
mod meta;
mod model;
mod npz_writer;
mod output_compression;
mod panics;
#[cfg(feature = "parquet")]
mod parquet_writer;
mod partial_files;
mod rules_meta;
mod shards;
mod threshold_meta;
mod word;

pub use arrays::{
    AllValues, ArraySpec, EmbeddingsFile, Format, Header, Images, KeptColumn, MappedInput, NpyHeader,
    ReadOptions, buffer_stdin, cell_separator, join_names, npz_names, read_images, read_labels, read_members,
    read_targets, split_names, unnamed_file,
};
pub use atomic::{check_writable, exchange_paths, is_device, write_atomically};
pub use baseline::{
    BaselineDetails, BaselineFile, TrainingRows, open_baseline, save_baseline, write_baseline,
};
pub use container::{FORMAT_VERSION, SectionInfo};
#[cfg(unix)]
pub use end_process::end_process;
pub use error::{Error, Position};
pub use file_bytes::{continue_after_lost_pages, guard_mapped_files};
pub use folder::create_folder;
pub use lock::ModelLock;
pub use model::{
    Contents, Manifest, ModelFile, Rows, open, open_any, open_in_memory, open_manifest, save,
    save_classifier, save_regressor, save_without_rows, write_model,
};
pub use npz_writer::{NpzArray, write_npz};
pub use output_compression::OutputCompression;
pub use panics::{catch_panic, is_catching_panics};
#[cfg(feature = "parquet")]
pub use parquet_writer::{ParquetColumn, ParquetWriter};
pub use partial_files::stop_writing;
pub use rules_meta::{rules_from_bytes, rules_to_bytes};
pub use shards::{ShardFile, ShardWriter, open_shards, write_shard};
