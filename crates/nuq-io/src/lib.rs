//! Arrays in, models in and out: the files that nuq reads and writes.
//!
//! [`save`] writes a fitted model into one file, and [`open`] maps it back: in milliseconds, whatever its size, because
//! rows and links stay in the file until a search reads them. Every byte is under a checksum; what is damaged is said
//! by name. The format is told in `docs/model-format.md`.

mod atomic;
mod container;
mod error;
mod index;
mod meta;
mod model;

pub use atomic::write_atomically;
pub use container::{FORMAT_VERSION, SectionInfo};
pub use error::Error;
pub use model::{ModelFile, open, save};
