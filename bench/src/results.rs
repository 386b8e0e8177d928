//! Detection metrics of every method on real embeddings. The output is the page docs/results.md.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nuq::calibrate::Measure;
use nuq::{Decision, Density, Embeddings, Label, NuqClassifier, Predictions, RejectRule};
use nuq_eval::baselines::Members;
use nuq_eval::evaluate::{Comparison, Rows};
use nuq_eval::metrics::{Resampling, roc_auc};
use nuq_io::{ArraySpec, EmbeddingsFile, read_labels, read_members};

const HEAD: &str = "\
# Results on real embeddings

Written by `cargo xtask results` from the arrays in the folder that `NUQ_DATA` names: a ResNet-18 with spectral normalization on
CIFAR-10 (25,000 training rows, 10,000 test rows, four outlier sets), and MiniLM fine-tuned on fractions of text sets. All
methods use the same rows and their default parameters; none is fitted to outliers. *NUQ* is the default model (`density = auto`),
*kde* is the same model with `density = kde`. Errors are errors of the network. RCC-AUC is the mean
over all k of the error rate among the k most certain rows ([metrics](method.md#metrics)). The best value of each column, before rounding, is bold, whether
or not the difference is significant; `nuq evaluate` tests significance on your arrays.

The methods *ensemble* use additional predictions: four further networks on CIFAR-10 (four times the training and inference
cost), and ten passes of the same network with dropout on the text sets (ten times the inference cost). They are compared on the
errors of the single network, not on their own errors. CLINC has no such arrays; its cells are empty, and no mean is computed.
";

/// A data set: training rows with labels, test rows with labels, and sets of outliers (out-of-distribution rows).
struct Set {
    name: &'static str,
    train: (Embeddings<'static>, Vec<Label>),
    test: Arrays,
    labels: Vec<Label>,
    ood: Vec<(String, Arrays)>,
}

/// Embeddings with the logits of the network and, if available, of the members of an ensemble (several networks, or several passes of one
/// network with dropout).
struct Arrays {
    rows: Embeddings<'static>,
    logits: Embeddings<'static>,
    members: Option<Members>,
}

impl Arrays {
    fn rows(&self) -> Rows<'_> {
        Rows { members: self.members.as_ref(), ..Rows::new(&self.rows).logits(&self.logits) }
    }
}

fn spec(path: &Path, name: &str) -> ArraySpec {
    ArraySpec { path: path.to_owned(), name: Some(name.to_owned()) }
}

/// Reads an array of an npz file.
pub(crate) fn array(path: &Path, name: &str) -> Result<Embeddings<'static>, String> {
    EmbeddingsFile::open(&spec(path, name)).and_then(EmbeddingsFile::read).map_err(|e| e.to_string())
}

fn labels(path: &Path, name: &str) -> Result<Vec<Label>, String> {
    read_labels(&spec(path, name)).map_err(|e| e.to_string())
}

/// Logits of the members of an ensemble; `None` if the file does not contain them. If `train_labels` are given, columns of classes without
/// training rows are left out.
fn members(path: &Path, name: &str, train_labels: Option<&[Label]>) -> Result<Option<Members>, String> {
    match read_members(&spec(path, name)) {
        Ok(logits) => {
            let known: Vec<Embeddings<'static>> = match train_labels {
                Some(labels) => {
                    logits.iter().map(|logits| known_columns(logits, labels)).collect::<Result<_, _>>()?
                }
                None => logits,
            };
            Members::new(known).map(Some).map_err(|e| e.to_string())
        }
        Err(nuq_io::Error::NoSuchArray { .. }) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// A ResNet-18 on CIFAR-10: one file per set, and one file with the logits of four further networks for all sets.
fn cifar(folder: &Path) -> Result<Set, String> {
    let file = |name: &str| folder.join("cifar10-resnet18").join(format!("{name}.npz"));
    let arrays = |name: &str| {
        let path = file(name);
        let (rows, logits) = (array(&path, "embeddings")?, array(&path, "logits")?);
        Ok::<_, String>(Arrays { rows, logits, members: members(&file("ensemble_logits"), name, None)? })
    };
    let ood = |name: &str| Ok::<_, String>((name.to_owned(), arrays(&format!("ood_{name}"))?));
    Ok(Set {
        name: "CIFAR-10",
        train: (array(&file("train"), "embeddings")?, labels(&file("train"), "labels")?),
        test: arrays("test")?,
        labels: labels(&file("test"), "labels")?,
        ood: ["tiny_imagenet", "svhn", "textures", "smooth"]
            .into_iter()
            .map(ood)
            .collect::<Result<_, _>>()?,
    })
}

/// MiniLM on a text set: all arrays in one file.
fn text(folder: &Path, name: &'static str, file: &str, ood: &[&str]) -> Result<Set, String> {
    let path = folder.join("text").join(format!("{file}.npz"));
    let train_labels = labels(&path, "train_labels")?;
    let arrays = |name: &str| {
        let part = |what: &str| array(&path, &format!("{name}_{what}"));
        let members = members(&path, &format!("{name}_mc_logits"), Some(&train_labels))?;
        let logits = known_columns(&part("logits")?, &train_labels)?;
        Ok::<_, String>(Arrays { rows: part("feat")?, logits, members })
    };
    let set = |name: &&str| Ok::<_, String>(((*name).to_owned(), arrays(&format!("ood_{name}"))?));
    Ok(Set {
        name,
        train: (array(&path, "train_feat")?, train_labels.clone()),
        test: arrays("test")?,
        labels: labels(&path, "test_labels")?,
        ood: ood.iter().map(set).collect::<Result<_, _>>()?,
    })
}

/// The columns of the logits whose class has training rows. Column i belongs to class i. One class of ROSTD has no training rows, and
/// the network never predicts it.
fn known_columns(logits: &Embeddings<'_>, train_labels: &[Label]) -> Result<Embeddings<'static>, String> {
    let is_known = |column: &usize| train_labels.contains(&Label::from(&(*column as i64)));
    let columns: Vec<usize> = (0..logits.dim()).filter(is_known).collect();
    let values = logits.rows().flat_map(|row| columns.iter().map(|&column| row[column])).collect();
    Embeddings::new(values, columns.len()).map_err(|e| e.to_string())
}

/// The results of one data set.
struct Column {
    name: &'static str,
    /// The mean ROC-AUC and the RCC-AUC of each method, in the order of the tables.
    methods: Vec<Method>,
    /// The decisions of the reject rules, in the order of [`RULES`]. Empty for a set without outliers.
    rejections: Vec<Rejections>,
}

/// A reject rule and the density of the model.
struct Rule {
    name: &'static str,
    /// Level of Algorithm 2; `None` for the plug-in rule.
    level: Option<f64>,
    /// Whether the density of the model is `auto`; otherwise it is `kde`.
    is_auto: bool,
}

/// The compared reject rules. The cost of a rejection is [`COST`].
const RULES: [Rule; 3] = [
    Rule { name: "plug-in rule", level: None, is_auto: true },
    Rule { name: "Algorithm 2, kde", level: Some(0.05), is_auto: false },
    Rule { name: "Algorithm 2, auto", level: Some(0.05), is_auto: true },
];
const COST: f64 = 0.1;

/// Decisions of a reject rule.
struct Rejections {
    /// Share of rejected test rows.
    test: f64,
    /// Mean share of rejected rows of the outlier sets.
    outliers: f64,
    /// Share of errors of NUQ's label among accepted test rows.
    risk: f64,
}

fn measure(set: &Set) -> Result<Column, String> {
    let with_name = |e: nuq_eval::Error| format!("{}: {e}", set.name);
    let (x, y) = &set.train;
    let model = NuqClassifier::params().fit(x, y).map_err(|e| with_name(e.into()))?;
    let resampling = Resampling { resamples: 100, seed: 0 };
    let mut comparison = Comparison::new(set.test.rows(), &set.labels).resampling(resampling);
    for (name, arrays) in &set.ood {
        comparison = comparison.ood(name, arrays.rows());
    }
    let evaluation = comparison.run(&model).map_err(with_name)?;
    let mut methods: Vec<Method> = evaluation
        .methods
        .iter()
        .map(|method| (method.name.clone(), method.mean_roc_auc, Some(method.rcc_auc.interval.value)))
        .collect();
    let kde = NuqClassifier::params().density(Density::kde());
    let kde = kde.fit(x, y).map_err(|e| with_name(e.into()))?;
    // They follow the four scores of NUQ with the default density.
    for (place, name, measure) in
        [(4, "NUQ density, kde", Measure::Density), (5, "NUQ epistemic, kde", Measure::Epistemic)]
    {
        methods.insert(place, (name.to_owned(), mean_auc(&kde, set, measure).map_err(with_name)?, None));
    }
    let rejections = if set.ood.is_empty() {
        vec![]
    } else {
        let rejections = |rule: &Rule| reject(rule, if rule.is_auto { &model } else { &kde }, set);
        RULES.iter().map(rejections).collect::<Result<_, _>>().map_err(|e| with_name(e.into()))?
    };
    Ok(Column { name: set.name, methods, rejections })
}

/// The decisions of a rule on the rows of a set.
fn reject(rule: &Rule, model: &NuqClassifier<'_>, set: &Set) -> Result<Rejections, nuq::Error> {
    let decide = match rule.level {
        Some(level) => RejectRule::confident(COST, level)?,
        None => RejectRule::plug_in(COST)?,
    };
    let classes = model.classes().len();
    let is_rejected = |p: &nuq::Prediction| decide.decide(p, classes) != Decision::Accept;
    let share = |predictions: &Predictions<'_>| {
        predictions.iter().filter(|p| is_rejected(p)).count() as f64 / predictions.len() as f64
    };
    let test = model.predict(&set.test.rows)?;
    let outliers = set.ood.iter().map(|(_, arrays)| Ok(share(&model.predict(&arrays.rows)?)));
    let outliers: Vec<f64> = outliers.collect::<Result<_, nuq::Error>>()?;
    let accepted: Vec<usize> = (0..test.len()).filter(|&i| !is_rejected(&test[i])).collect();
    let errors = accepted.iter().filter(|&&i| *test.label(i) != set.labels[i]).count();
    Ok(Rejections {
        test: share(&test),
        outliers: outliers.iter().sum::<f64>() / outliers.len() as f64,
        risk: errors as f64 / accepted.len() as f64,
    })
}

fn mean_auc(model: &NuqClassifier<'_>, set: &Set, measure: Measure) -> Result<Option<f64>, nuq_eval::Error> {
    let scores =
        |predictions: Predictions<'_>| -> Vec<f64> { predictions.iter().map(|p| measure.of(p)).collect() };
    let test = scores(model.predict(&set.test.rows)?);
    let areas = set.ood.iter().map(|(_, arrays)| roc_auc(&test, &scores(model.predict(&arrays.rows)?)));
    let areas: Vec<f64> = areas.collect::<Result<_, _>>()?;
    Ok((!areas.is_empty()).then(|| areas.iter().sum::<f64>() / areas.len() as f64))
}

/// Prints the tables.
pub(crate) fn run() -> Result<(), String> {
    let Some(data) = std::env::var_os("NUQ_DATA") else {
        eprintln!("bench: results need real embeddings: set NUQ_DATA to their folder");
        return Ok(());
    };
    let folder = PathBuf::from(data).join("data");
    let sets = [
        cifar(&folder),
        text(&folder, "ROSTD 1 %", "rostd_0.01", &["ood"]),
        text(&folder, "CLINC 5 %", "clinc_0.05", &["oos"]),
        text(&folder, "SST-2 0.5 %", "sst2_0.005", &["trec", "rte", "20ng", "amazon"]),
        text(&folder, "SST-2 1.5 %", "sst2_0.015", &["trec", "rte", "20ng", "amazon"]),
        text(&folder, "CoLA", "cola_1", &[]),
        text(&folder, "MRPC", "mrpc_1", &[]),
    ];
    let mut columns = vec![];
    for set in sets {
        let set = set?;
        eprintln!("bench: {}", set.name);
        columns.push(measure(&set)?);
    }
    println!("{HEAD}");
    println!("### Rows unlike the training data: mean ROC-AUC\n");
    table(&columns, |(_, roc_auc, _)| *roc_auc, f64::max, 4);
    println!("\n### Errors: RCC-AUC, lower is better\n");
    table(&columns, |(_, _, rcc_auc)| *rcc_auc, f64::min, 0);
    println!("\n### Abstaining: rejected test rows / rejected outliers / errors among accepted test rows\n");
    println!(
        "The plug-in rule and Algorithm 2 of the paper are defined in [the method](method.md#abstaining). The cost of a rejection is \
         {COST}, the level of\nAlgorithm 2 is 0.05. Errors are errors of NUQ's label.\n"
    );
    println!("| set |{}", RULES.map(|rule| format!(" {} |", rule.name)).concat());
    println!("| --- |{}", " --- |".repeat(RULES.len()));
    for column in columns.iter().filter(|column| !column.rejections.is_empty()) {
        let cell = |of: &Rejections| format!(" {:.3} / {:.3} / {:.3} |", of.test, of.outliers, of.risk);
        println!("| {} |{}", column.name, column.rejections.iter().map(cell).collect::<String>());
    }
    print!("\n{}", include_str!("../results-notes.md"));
    Ok(())
}

/// Name, mean ROC-AUC and RCC-AUC.
type Method = (String, Option<f64>, Option<f64>);

/// Prints one row per method, with the best value of each column in bold. The last column is the mean over the first `averaged` columns;
/// there is no such column if `averaged` is 0.
fn table(
    columns: &[Column],
    metric: impl Fn(&Method) -> Option<f64>,
    better: fn(f64, f64) -> f64,
    averaged: usize,
) {
    let columns: Vec<&Column> =
        columns.iter().filter(|column| column.methods.iter().any(|m| metric(m).is_some())).collect();
    let mut order: Vec<&str> = vec![];
    let mut cells: BTreeMap<&str, Vec<Option<f64>>> = BTreeMap::new();
    for (i, column) in columns.iter().enumerate() {
        for method in &column.methods {
            if !order.contains(&&*method.0) {
                order.push(&method.0);
            }
            cells.entry(&method.0).or_insert_with(|| vec![None; columns.len()])[i] = metric(method);
        }
    }
    if averaged > 0 {
        for row in cells.values_mut() {
            let first: Option<Vec<f64>> = row[..averaged].iter().copied().collect();
            row.push(first.map(|values| values.iter().sum::<f64>() / values.len() as f64));
        }
    }
    let width = cells.values().map(Vec::len).max().unwrap_or(0);
    let best: Vec<Option<f64>> =
        (0..width).map(|i| cells.values().filter_map(|row| row[i]).reduce(better)).collect();
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    let mean = if averaged > 0 { format!(" mean of the first {averaged} |") } else { String::new() };
    println!("| method | {} |{mean}", names.join(" | "));
    println!("| --- |{}", " ---: |".repeat(width));
    for name in order {
        let cell = |(i, value): (usize, &Option<f64>)| match value {
            Some(value) if best[i] == Some(*value) => format!(" **{value:.4}** |"),
            Some(value) => format!(" {value:.4} |"),
            None => " |".to_owned(),
        };
        let row = &cells[name];
        if row.iter().any(Option::is_some) {
            println!("| {name} |{}", row.iter().enumerate().map(cell).collect::<String>());
        }
    }
}
