//! Whether the first line of a table is a header.

/// Whether the first line of a csv or tsv file holds the names of the columns. This setting has no effect on other
/// formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Header {
    /// Decided from the contents; an error if both readings are plausible.
    #[default]
    Auto,
    /// The first line is a header.
    Yes,
    /// The first line is a row.
    No,
}

nuq::nuq_neighbors::choices!(Header, "header", { Auto => "auto", Yes => "yes", No => "no" });
