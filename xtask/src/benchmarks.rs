//! `docs/benchmarks.md`: one section for each table of `cargo xtask bench`, each with the machine it was measured on, so that one
//! can be measured again without the others.

use std::fs;

use crate::python;
use crate::steps::{Failed, cargo_output, root};

/// A part of the page: what `cargo xtask bench` is asked, its heading, the figure above the table, and what is said below it.
struct Section {
    bench: &'static [&'static str],
    title: &'static str,
    figure: Option<(&'static str, &'static str)>,
    note: &'static str,
}

const SECTIONS: [Section; 8] = [
    Section {
        bench: &["search", "exact"],
        title: "Exact search",
        figure: None,
        note: "*Agreement* is the share of neighbors that both found; they differ only where faiss's `f32` distances tie or cancel.",
    },
    Section { bench: &["search", "graph"], title: "Graph search", figure: None, note: "" },
    Section { bench: &["fit"], title: "Fit and predict", figure: None, note: "" },
    Section { bench: &["score"], title: "Scoring a large file", figure: None, note: "" },
    Section {
        bench: &["rivals"],
        title: "Other methods",
        figure: None,
        note: "*×* compares fitting and scoring together, *× score* scoring alone. Scores agree in their order where *rank agreement* \
               is 1; pytorch-ood's covariance is not shrunk. Both search for neighbors as fast as the machine multiplies, up to \
               what choosing the nearest costs. Covariances and projections are `f64` here and `f32` there: half the speed, and \
               scores that equal the textbook's in ten digits.",
    },
    Section {
        bench: &["python"],
        title: "From Python",
        figure: None,
        note: "50,000 rows of 512 columns, 10,000 queries; runs of both in turns.",
    },
    Section {
        bench: &["growth", "models"],
        title: "Growth with the number of rows",
        figure: Some(("Seconds against training rows", "growth.png")),
        note: "Up to 10,000 rows every training point is left out in turn, and fitting grows with the square of the rows; beyond \
               that a sample of 10,000 is, and it grows in proportion.",
    },
    Section {
        bench: &["growth", "graph"],
        title: "Growth of a graph",
        figure: Some(("Seconds of building against rows", "graph-growth.png")),
        note: "Memory is the largest that the process took beyond what it took before it had data. Some three megabytes of it do \
               not depend on the rows, and show below a hundred thousand of them.",
    },
];

const HEAD: &str = "# Benchmarks\n\n\
    Written by `cargo xtask docs`, each table in one run on the machine that it names; `cargo xtask bench` prints the same tables \
    on yours. Ratios above 1 mean that nuq is faster.\n";

/// Measures the sections whose benchmark is named, or all, and leaves the rest of the page as it is.
pub(crate) fn write(names: &[&str]) -> Result<(), Failed> {
    let path = root().join("docs/benchmarks.md");
    let before = fs::read_to_string(&path).unwrap_or_default();
    if let Some(unknown) = names.iter().find(|name| SECTIONS.iter().all(|section| section.bench[0] != **name))
    {
        let known: Vec<&str> = SECTIONS.iter().map(|section| section.bench[0]).collect();
        return Err(Failed(format!("docs {unknown}: there are {}", known.join(", "))));
    }
    let mut page = HEAD.to_owned();
    for section in &SECTIONS {
        let asked = names.is_empty() || names.contains(&section.bench[0]);
        match section.written_in(&before).filter(|_| !asked) {
            Some(text) => page.push_str(&text),
            None if asked => page.push_str(&section.measured()?),
            None => {}
        }
    }
    fs::write(&path, page).map_err(|error| Failed(format!("writing {}: {error}", path.display())))
}

impl Section {
    /// What the page says now.
    fn written_in(&self, page: &str) -> Option<String> {
        let heading = format!("\n## {}\n", self.title);
        let start = page.find(&heading)?;
        let rest = &page[start + heading.len()..];
        let end = rest.find("\n## ").unwrap_or(rest.len());
        Some(format!("{heading}{}\n", rest[..end].trim_end_matches('\n')))
    }

    fn measured(&self) -> Result<String, Failed> {
        let table = match self.bench {
            ["python"] => python::bench()?,
            words => bench(words)?,
        };
        let figure = self
            .figure
            .map_or_else(String::new, |(meaning, file)| format!("![{meaning}](figures/{file})\n\n"));
        let note = if self.note.is_empty() { String::new() } else { format!("\n{}\n", self.note) };
        let (title, table) = (self.title, table.trim_matches('\n'));
        Ok(format!("\n## {title}\n\n{figure}```text\n{table}\n```\n\nMeasured on: {}.\n{note}", machine()))
    }
}

fn bench(words: &[&str]) -> Result<String, Failed> {
    let run = ["run", "--quiet", "--release", "--package", "nuq-bench", "--features", "peers", "--"];
    cargo_output(&[&run[..], words].concat())
}

/// The processor, as the system names it.
fn machine() -> String {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        info.lines()
            .find(|line| line.starts_with(name))
            .and_then(|line| line.split(": ").nth(1))
            .unwrap_or("")
    };
    let model = field("model name");
    let flags = field("flags");
    let wide = ["avx512f", "avx2"].into_iter().find(|name| flags.contains(name));
    let wide = wide.map_or("", |name| if name == "avx2" { ", AVX2" } else { ", AVX-512" });
    format!("{}{wide}, {threads} threads", if model.is_empty() { std::env::consts::ARCH } else { model })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_found_where_it_stands() {
        let page = "# Benchmarks\n\nintro\n\n## Exact search\n\nfirst\n\n## Graph search\n\nsecond\n";
        let of = |place: usize| SECTIONS[place].written_in(page);
        assert_eq!(of(0).as_deref(), Some("\n## Exact search\n\nfirst\n"));
        assert_eq!(of(1).as_deref(), Some("\n## Graph search\n\nsecond\n"));
        assert_eq!(of(2), None);
    }
}
