//! `docs/benchmarks.md`: one section per table of `cargo xtask bench`. Each section names the machine of its measurement, so it can be
//! measured again without the other sections.

use std::fs;

use crate::steps::{Failed, cargo_output, root};
use crate::{cuda, python};

/// A section of the page.
struct Section {
    /// Arguments of `cargo xtask bench`.
    bench: &'static [&'static str],
    title: &'static str,
    /// Alternative text and file of the figure above the table.
    figure: Option<(&'static str, &'static str)>,
    /// Text below the table.
    note: &'static str,
}

const SECTIONS: [Section; 15] = [
    Section {
        bench: &["search", "exact"],
        title: "Exact search",
        figure: None,
        note: "All columns of a line refer to the same rows and queries. *All rows* is nuq without the projection that skips rows, and *of peak* \
               its share of the multiply-add peak. *First* is the first search of a new index, which includes ordering the rows; the other \
               times are the best of several runs. *Agreement* is the share of neighbors that nuq and the other library have in common. They differ only in rows \
               whose `f32` distances in faiss are equal or lose digits by cancellation. Clusters have a spread of 0.7 around centers with a spread of 1 in each latent dimension. \
               *Estimate* is the time that `index_choice` states for exact search.",
    },
    Section {
        bench: &["cuda"],
        title: "Exact search on a GPU",
        figure: None,
        note: "*Memory* is the largest memory on the GPU during the copy of the rows and the searches, relative to the rows in `f32`. A time is the time of the whole call, including the copy of the neighbors to the memory of the host. *Recall* is the \
               share of the true neighbors that PyTorch returns. nuq returns all true neighbors: its results on the GPU equal its results on the CPU, bit for \
               bit. PyTorch computes products and `topk` in chunks.",
    },
    Section { bench: &["search", "graph"], title: "Graph search", figure: None, note: "" },
    Section {
        bench: &["fit"],
        title: "Fit and predict",
        figure: None,
        note: "*All rows* is the time of a search of the 10,000 queries that compares all rows. Before exact search skipped rows, each fit with \
               leave-one-out on 10,000 rows and each prediction contained such a search. The bound of the memory, in MiB, is 1.25 × the \
               training rows + 200 MiB. The peak also contains the queries, which take 78 MiB with 2048 columns.",
    },
    Section { bench: &["score"], title: "Scoring a large file", figure: None, note: "" },
    Section {
        bench: &["imagenet"],
        title: "The size of ImageNet",
        figure: None,
        note: "Rows are made in blocks in a file, which is mapped and not copied. Fit and prediction run in processes of their own. *Anonymous* \
               memory can be used by one process only; pages of mapped files can be reclaimed by the system. The bound is 1.25 × the embeddings + \
               200 MiB.",
    },
    Section {
        bench: &["commands"],
        title: "Memory of the commands",
        figure: None,
        note: "The largest resident memory of each command, of its anonymous pages, and of its pages of mapped files, in MiB. The bound is \
               1.25 × the embeddings + 200 MiB. `evaluate` exceeds it, because it also fits the methods that it compares with NUQ.",
    },
    Section {
        bench: &["baselines"],
        title: "Baselines",
        figure: None,
        note: "*Speedup* is the time of the peer divided by the time of nuq, for fit and score together; *score speedup* is the same ratio for score \
               alone. *Rank agreement* is Spearman's rank correlation of the scores. The scores of Mahalanobis differ because pytorch-ood does not shrink its covariance. \
               Covariances and projections are `f64` in nuq and `f32` in pytorch-ood: `f64` has half the speed, and the scores of nuq \
               equal the textbook formula in ten digits.",
    },
    Section {
        bench: &["python"],
        title: "Python compared with Rust",
        figure: None,
        note: "Fit to 50,000 rows of 512 columns and prediction of 10,000 queries, from Python and from Rust in alternating runs. The last line is the size of the pickled model, the time to load it, and the time of its first prediction.",
    },
    Section {
        bench: &["sets"],
        title: "Prediction sets and intervals",
        figure: None,
        note: "Both libraries construct sets from the class probabilities of NUQ. Both randomize `aps`; in nuq the random \
               number of a row is a hash of its coordinates. All intervals of MAPIE have the same width; the width of an interval of nuq is \
               proportional to the estimated standard deviation.",
    },
    Section {
        bench: &["guard"],
        title: "A guarded network",
        figure: None,
        note: "A forward pass of a ResNet-50 and the same pass of the guarded network, in alternating runs: medians. The guard adds the search of the neighbors \
               and the uncertainty of each input.",
    },
    Section {
        bench: &["serve"],
        title: "Serving",
        figure: None,
        note: "A model of 50,000 rows of 512 columns, exact search. Clients and server share the processors. FastAPI and uvicorn serve the \
               same model by the Python package. `cargo xtask bench serve memory` prints the memory of the server during a million \
               requests.",
    },
    Section {
        bench: &["cluster"],
        title: "Scoring with Ray and Spark",
        figure: None,
        note: "All three use the same processors of one machine and write the same scores. *Mapped model* is the largest resident memory of \
               the mapped model file: the sum over all processes, and with shared pages counted once.",
    },
    Section {
        bench: &["growth", "models"],
        title: "Growth with the number of rows",
        figure: Some(("Seconds against training rows", "growth.png")),
        note: "Up to 10,000 rows, leave-one-out uses every training row and the time of fit grows at most with the square of the number of \
               rows; in this table nearly linearly, because the search skips most rows. Beyond that it uses a sample of 10,000 rows, and \
               the time grows linearly.",
    },
    Section {
        bench: &["growth", "graph"],
        title: "Growth of a graph",
        figure: Some(("Seconds of building against rows", "graph-growth.png")),
        note: "*s / (N log N)* is relative to the first line. Memory is the peak of the process minus its memory before the data were \
               created. About three megabytes do not depend on the number of rows and are visible below 100,000 rows.",
    },
];

const HEAD: &str = "# Benchmarks\n\n\
    Written by `cargo xtask docs`. Each table is one run on the machine named below it; `cargo xtask bench` runs the same \
    measurements on your machine. In comparisons with other libraries, ratios of times above 1 mean that nuq is faster.\n";

/// Measures the sections whose arguments contain one of `names`. Without names, all sections are measured except the GPU and ImageNet.
/// The other sections of the page are kept.
pub(crate) fn write(names: &[&str]) -> Result<(), Failed> {
    let path = root().join("docs/benchmarks.md");
    let before = fs::read_to_string(&path).unwrap_or_default();
    if let Some(unknown) =
        names.iter().find(|name| !SECTIONS.iter().any(|section| section.bench.contains(name)))
    {
        let known: Vec<&str> = SECTIONS.iter().flat_map(|section| section.bench).copied().collect();
        return Err(Failed(format!("docs {unknown}: unknown benchmark, choose one of {}", known.join(", "))));
    }
    let mut texts: Vec<String> =
        SECTIONS.iter().map(|section| section.text_in(&before).unwrap_or_default()).collect();
    for (number, section) in SECTIONS.iter().enumerate() {
        // Most machines have no GPU, and some have less disk space than ImageNet needs: these tables are measured only if they are named.
        let is_selected = match names {
            [] => !matches!(section.bench, ["cuda" | "imagenet"]),
            _ => names.iter().any(|name| section.bench.contains(name)),
        };
        if is_selected {
            texts[number] = section.measure()?;
            // The page is written after each table, so that a later failure does not lose the tables measured before it.
            let page = format!("{HEAD}{}", texts.concat());
            fs::write(&path, page).map_err(|error| Failed(format!("writing {}: {error}", path.display())))?;
        }
    }
    Ok(())
}

impl Section {
    /// The text of the section in a page.
    fn text_in(&self, page: &str) -> Option<String> {
        let heading = format!("\n## {}\n", self.title);
        let start = page.find(&heading)?;
        let rest = &page[start + heading.len()..];
        let end = rest.find("\n## ").unwrap_or(rest.len());
        Some(format!("{heading}{}\n", rest[..end].trim_end_matches('\n')))
    }

    /// Runs the benchmark and formats the section.
    fn measure(&self) -> Result<String, Failed> {
        let table = match self.bench {
            ["python"] => python::bench()?,
            ["sets"] => python::bench_sets()?,
            ["guard"] => python::bench_guard()?,
            ["serve"] => python::bench_serve(&[])?,
            ["cluster"] => python::bench_cluster(&[])?,
            ["cuda"] => cuda::bench()?,
            words => bench(words)?,
        };
        let figure =
            self.figure.map_or_else(String::new, |(text, file)| format!("![{text}](figures/{file})\n\n"));
        let note = if self.note.is_empty() { String::new() } else { format!("\n{}\n", self.note) };
        let (title, table) = (self.title, table.trim_matches('\n'));
        Ok(format!("\n## {title}\n\n{figure}```text\n{table}\n```\n\nMeasured on: {}.\n{note}", machine()))
    }
}

fn bench(words: &[&str]) -> Result<String, Failed> {
    let run = ["run", "--quiet", "--release", "--package", "nuq-bench", "--features", "peers", "--"];
    cargo_output(&[&run[..], words].concat())
}

/// Model, vector instructions and number of threads of the processor.
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
    let simd = ["avx512f", "avx2"].into_iter().find(|name| flags.contains(name));
    let simd = simd.map_or("", |name| if name == "avx2" { ", AVX2" } else { ", AVX-512" });
    format!("{}{simd}, {threads} threads", if model.is_empty() { std::env::consts::ARCH } else { model })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_extracts_one_section() {
        let page = "# Benchmarks\n\nintro\n\n## Exact search\n\nfirst\n\n## Graph search\n\nsecond\n";
        let text = |place: usize| SECTIONS[place].text_in(page);
        assert_eq!(text(0).as_deref(), Some("\n## Exact search\n\nfirst\n"));
        assert_eq!(text(1), None);
        assert_eq!(text(2).as_deref(), Some("\n## Graph search\n\nsecond\n"));
    }
}
