//! What an experiment leaves: `results.json`, `table.md`, and each figure as SVG and PNG, in a folder of its own.

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

/// What an experiment found.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// Numbers.
    pub tables: Vec<Table>,
    /// What the paper says, or the project expects, and whether it is so here.
    pub claims: Vec<Claim>,
    /// What a reader must know to compare: where data or networks differ from the paper's.
    pub notes: Vec<String>,
    /// Pictures, by the names of their files without ending.
    pub figures: Vec<(String, Figure)>,
}

/// A sentence that may turn out to be wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// By which tests and pages know it.
    pub id: String,
    /// What is claimed.
    pub statement: String,
    /// Whether it holds here.
    pub holds: bool,
    /// The numbers that say so.
    pub evidence: String,
}

impl Claim {
    /// A claim with its evidence.
    pub fn new(id: &str, statement: &str, holds: bool, evidence: String) -> Self {
        Self { id: id.to_owned(), statement: statement.to_owned(), holds, evidence }
    }

    /// In a word or three.
    pub fn verdict(&self) -> &'static str {
        if self.holds { "holds" } else { "does not hold" }
    }
}

/// All of it as plain data, with how it came about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The experiment.
    pub experiment: String,
    /// What it shows, in a sentence.
    pub about: String,
    /// How large it was run.
    pub size: Size,
    /// How many seeds were asked for; where a number has several values, one for each.
    pub seeds: usize,
    /// How long it took, without networks that were ready before and without what an earlier experiment of the same run had computed.
    pub seconds: f64,
    /// Where it was run.
    pub machine: Machine,
    /// By which programs.
    pub versions: Versions,
    /// Numbers.
    pub tables: Vec<Table>,
    /// Claims.
    pub claims: Vec<Claim>,
    /// Notes.
    pub notes: Vec<String>,
    /// The names of the figures' files, without ending.
    pub figures: Vec<String>,
}

/// The name of the data file.
const DATA: &str = "results.json";
/// Pixels of a PNG for each unit of a drawing.
const SHARPNESS: f32 = 2.0;

impl Results {
    /// Reads the results of an experiment from its folder in `out`; `None` where it was not run.
    pub fn read(out: &Path, experiment: &str) -> Result<Option<Self>, LabError> {
        let path = out.join(experiment).join(DATA);
        if !path.is_file() {
            return Ok(None);
        }
        let failed = |source| LabError::File { path: path.clone(), source };
        let text = fs::read_to_string(&path).map_err(failed)?;
        serde_json::from_str(&text).map(Some).map_err(|error| failed(error.into()))
    }

    /// Writes everything into the experiment's folder in `out`: an older `results.json` goes first and the new one comes last, so
    /// that where it is, all is. Numbers that are none are refused, for they would not read back.
    pub fn write(&self, out: &Path, figures: &[(String, Figure)]) -> Result<PathBuf, LabError> {
        self.check()?;
        let folder = out.join(&self.experiment);
        fs::create_dir_all(&folder).map_err(|source| LabError::File { path: folder.clone(), source })?;
        let path = folder.join(DATA);
        forget(&path)?;
        for (name, figure) in figures {
            write(&folder.join(format!("{name}.svg")), figure.svg().as_bytes())?;
            write(&folder.join(format!("{name}.png")), &figure.png(SHARPNESS)?)?;
        }
        write(&folder.join("table.md"), self.markdown().as_bytes())?;
        let mut json = serde_json::to_vec_pretty(self)
            .map_err(|error| LabError::File { path: path.clone(), source: error.into() })?;
        json.push(b'\n');
        write(&path, &json)?;
        Ok(folder)
    }

    fn check(&self) -> Result<(), LabError> {
        let found = self.tables.iter().find_map(|table| Some((table, table.not_finite()?)));
        let Some((table, (row, column))) = found else { return Ok(()) };
        Err(LabError::NotANumber {
            experiment: self.experiment.clone(),
            table: table.title.clone(),
            row: row.to_owned(),
            column: column.to_owned(),
        })
    }

    /// Tables, claims and notes to be read.
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
        text.push_str(&format!("\n{}\n", self.how()));
        text
    }

    /// When, where and how long, in a sentence.
    pub fn how(&self) -> String {
        let Self { size, seconds, machine, .. } = self;
        let seconds = if *seconds < 10.0 { format!("{seconds:.1}") } else { format!("{seconds:.0}") };
        format!("Size {size}, {seconds} s on {machine}.")
    }
}

/// Deletes a file, where there is one.
fn forget(path: &Path) -> Result<(), LabError> {
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
            versions: Versions::of_this_build(),
            tables: vec![table::tests::table()],
            claims: vec![Claim::new("c", "One is above two.", false, "1.0 against 2.0".to_owned())],
            notes: vec!["Small.".to_owned()],
            figures: vec!["toy".to_owned()],
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let out = tempfile::tempdir().unwrap();
        let results = results();
        results.write(out.path(), &[]).unwrap();
        assert_eq!(Results::read(out.path(), "toy").unwrap(), Some(results));
        assert_eq!(Results::read(out.path(), "another").unwrap(), None);
        fs::write(out.path().join("toy/results.json"), "{").unwrap();
        assert!(Results::read(out.path(), "toy").unwrap_err().to_string().contains("results.json"));
    }

    #[test]
    fn what_would_not_read_back_is_refused() {
        let out = tempfile::tempdir().unwrap();
        let mut broken = results();
        broken.tables[0].rows[1].cells[0] = Cell::one(f64::NAN);
        let refused = broken.write(out.path(), &[]).unwrap_err().to_string();
        assert!(refused.contains("NUQ") && refused.contains("SVHN"), "{refused}");
        assert_eq!(Results::read(out.path(), "toy").unwrap(), None);
    }

    #[test]
    fn a_write_that_fails_leaves_no_older_results() {
        let out = tempfile::tempdir().unwrap();
        results().write(out.path(), &[]).unwrap();
        // A folder stands where the table is to go.
        let table = out.path().join("toy/table.md");
        fs::remove_file(&table).unwrap();
        fs::create_dir(&table).unwrap();
        fs::write(table.join("full"), "").unwrap();
        assert!(results().write(out.path(), &[]).is_err());
        assert_eq!(Results::read(out.path(), "toy").unwrap(), None);
    }

    #[test]
    fn a_claim_that_fails_says_so() {
        let text = results().markdown();
        assert!(text.contains("- **does not hold**: One is above two. (1.0 against 2.0)"), "{text}");
        assert!(text.contains("Size tiny, 1.2 s on a machine, 2 cores, linux."), "{text}");
    }
}
