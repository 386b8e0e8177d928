//! Results of experiments. Each experiment has a folder with `results.json`, `table.md` and its figures as SVG and PNG.

mod machine;
mod page;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use nuq_report::Figure;
use serde::{Deserialize, Serialize};

pub use machine::{Machine, Versions};
pub use page::write_page;
#[cfg(test)]
pub(crate) use table::tests::numbers;
pub use table::{Better, Cell, Table, TableRow, Unit};

use crate::LabError;
use crate::experiments::Size;

/// Output of an experiment.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// Tables of measured values.
    pub tables: Vec<Table>,
    /// Claims of the paper or of this project, and whether they hold.
    pub claims: Vec<Claim>,
    /// Notes on data, networks and differences from the paper.
    pub notes: Vec<String>,
    /// Figures with their file names without extension.
    pub figures: Vec<(String, Figure)>,
}

/// A statement that the measured values confirm or refute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Identifier, unique within the experiment.
    pub id: String,
    /// The claim as a sentence.
    pub statement: String,
    /// Whether the claim holds for the measured values.
    pub holds: bool,
    /// The measured values that decide the claim.
    pub evidence: String,
}

impl Claim {
    /// Creates a claim.
    #[must_use]
    pub fn new(id: &str, statement: &str, holds: bool, evidence: String) -> Self {
        Self { id: id.to_owned(), statement: statement.to_owned(), holds, evidence }
    }

    /// `"holds"` or `"does not hold"`.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        if self.holds { "holds" } else { "does not hold" }
    }
}

/// Stored results of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Name of the experiment.
    pub experiment: String,
    /// One-sentence description.
    pub about: String,
    /// Size of the experiment.
    pub size: Size,
    /// Number of seeds. If the experiment averages over seeds, a table cell has one value per seed, except for methods that are evaluated
    /// once (for example the ensemble).
    pub seeds: usize,
    /// Run time in seconds. It does not include the computation of networks and intermediate results that were already available.
    pub seconds: f64,
    /// Machine of the run.
    pub machine: Machine,
    /// Software versions of the run.
    pub versions: Versions,
    /// Tables of measured values.
    pub tables: Vec<Table>,
    /// Claims and their verdicts.
    pub claims: Vec<Claim>,
    /// Notes on data, networks and differences from the paper.
    pub notes: Vec<String>,
    /// File names of the figures without extension.
    pub figures: Vec<String>,
}

/// Name of the result file.
const RESULTS_FILE: &str = "results.json";
/// Pixels of a PNG per unit of the drawing.
const PNG_SCALE: f32 = 2.0;

impl Results {
    /// Reads the results of an experiment from its folder in `out`. Returns `None` if it has no results: it has not been run, or its last
    /// [`write`](Self::write) failed.
    ///
    /// # Errors
    /// If the file cannot be read or parsed.
    pub fn read(out: &Path, experiment: &str) -> Result<Option<Self>, LabError> {
        let path = out.join(experiment).join(RESULTS_FILE);
        if !path.is_file() {
            return Ok(None);
        }
        let failed = |source| LabError::File { path: path.clone(), source };
        let text = fs::read_to_string(&path).map_err(failed)?;
        serde_json::from_str(&text).map(Some).map_err(|error| failed(error.into()))
    }

    /// Writes all files to the folder of the experiment in `out`. An old `results.json` is removed first and the new one is written last, so
    /// that its presence implies that all other files are complete.
    ///
    /// # Errors
    /// If a table contains a value that is not finite (JSON cannot represent it), a figure cannot be drawn, or a file cannot be written.
    pub fn write(&self, out: &Path, figures: &[(String, Figure)]) -> Result<PathBuf, LabError> {
        self.check()?;
        let folder = out.join(&self.experiment);
        fs::create_dir_all(&folder).map_err(|source| LabError::File { path: folder.clone(), source })?;
        let path = folder.join(RESULTS_FILE);
        remove_if_exists(&path)?;
        for (name, figure) in figures {
            write(&folder.join(format!("{name}.svg")), figure.svg().as_bytes())?;
            write(&folder.join(format!("{name}.png")), &figure.png(PNG_SCALE)?)?;
        }
        write(&folder.join("table.md"), self.markdown().as_bytes())?;
        let mut json = serde_json::to_vec_pretty(self)
            .map_err(|error| LabError::File { path: path.clone(), source: error.into() })?;
        json.push(b'\n');
        write(&path, &json)?;
        Ok(folder)
    }

    fn check(&self) -> Result<(), LabError> {
        let invalid = self.tables.iter().find_map(|table| Some((table, table.not_finite()?)));
        let Some((table, (row, column))) = invalid else { return Ok(()) };
        Err(LabError::ResultNotFinite {
            experiment: self.experiment.clone(),
            table: table.title.clone(),
            row: row.to_owned(),
            column: column.to_owned(),
        })
    }

    /// Tables, claims and notes as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n{}\n", self.experiment, self.about);
        for table in &self.tables {
            text.push_str(&format!("\n{}", table.markdown()));
        }
        if !self.claims.is_empty() {
            text.push('\n');
        }
        for claim in &self.claims {
            text.push_str(&format!("- **{}**: {} ({})\n", claim.verdict(), claim.statement, claim.evidence));
        }
        if !self.notes.is_empty() {
            text.push_str(&format!("\n{}\n", self.notes.join(" ")));
        }
        text.push_str(&format!("\n{}\n", self.run_summary()));
        text
    }

    /// A sentence with size, run time and machine.
    #[must_use]
    pub fn run_summary(&self) -> String {
        let Self { size, seconds, machine, .. } = self;
        let seconds = if *seconds < 10.0 { format!("{seconds:.1}") } else { format!("{seconds:.0}") };
        format!("Size {size}, {seconds} s on {machine}.")
    }
}

/// Deletes a file if it exists.
fn remove_if_exists(path: &Path) -> Result<(), LabError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(LabError::File { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), LabError> {
    use std::io::Write;
    Ok(nuq_io::write_atomically(path, |file| file.write_all(bytes))?)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn results() -> Results {
        Results {
            experiment: "toy".to_owned(),
            about: "A toy.".to_owned(),
            size: Size::Tiny,
            seeds: 2,
            seconds: 1.25,
            machine: Machine { processor: "a machine".to_owned(), cores: 2, system: "linux".to_owned() },
            versions: Versions::current(),
            tables: vec![table::tests::table()],
            claims: vec![Claim::new("c", "One is above two.", false, "1.0 against 2.0".to_owned())],
            notes: vec!["Small.".to_owned()],
            figures: vec!["toy".to_owned()],
        }
    }

    #[test]
    fn results_round_trip_and_a_damaged_file_is_an_error() {
        let out = tempfile::tempdir().unwrap();
        let results = results();
        results.write(out.path(), &[]).unwrap();
        assert_eq!(Results::read(out.path(), "toy").unwrap(), Some(results));
        assert_eq!(Results::read(out.path(), "another").unwrap(), None);
        fs::write(out.path().join("toy/results.json"), "{").unwrap();
        assert!(Results::read(out.path(), "toy").unwrap_err().to_string().contains("results.json"));
    }

    #[test]
    fn non_finite_values_are_an_error() {
        let out = tempfile::tempdir().unwrap();
        let mut broken = results();
        broken.tables[0].rows[1].cells[0] = Cell::single(f64::NAN);
        let error = broken.write(out.path(), &[]).unwrap_err().to_string();
        assert!(error.contains("NUQ") && error.contains("SVHN"), "{error}");
        assert_eq!(Results::read(out.path(), "toy").unwrap(), None);
    }

    #[test]
    fn failed_write_removes_old_results() {
        let out = tempfile::tempdir().unwrap();
        results().write(out.path(), &[]).unwrap();
        // A folder with the name of the table file makes the write fail.
        let table = out.path().join("toy/table.md");
        fs::remove_file(&table).unwrap();
        fs::create_dir(&table).unwrap();
        fs::write(table.join("full"), "").unwrap();
        assert!(results().write(out.path(), &[]).is_err());
        assert_eq!(Results::read(out.path(), "toy").unwrap(), None);
    }

    #[test]
    fn markdown_contains_failed_claims_and_the_run_summary() {
        let text = results().markdown();
        assert!(text.contains("- **does not hold**: One is above two. (1.0 against 2.0)"), "{text}");
        assert!(text.contains("Size tiny, 1.2 s on a machine, 2 cores, linux."), "{text}");
    }
}
