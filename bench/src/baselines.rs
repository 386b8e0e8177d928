//! Baselines of nuq compared with the same baselines of pytorch-ood on the CPU: kNN distance, Mahalanobis and ViM.

use std::path::Path;
use std::time::Instant;

use nuq::Shrinkage;
use nuq_eval::baselines::{Batch, Head, KnnDistance, Mahalanobis, Scorer, Vim};
use nuq_neighbors::{Embeddings, SeededRng};

use crate::data::Source;
use crate::peers::{Python, folder, read_raw, write_raw};

const K: usize = 50;
const REPEATS: usize = 3;
const ROWS: usize = 25_000;
const QUERIES: usize = 10_000;
const DIM: usize = 512;
const CLASSES: usize = 10;

/// Rows with classes, queries, and the last layer of a network.
struct Case {
    title: String,
    rows: Embeddings<'static>,
    labels: Vec<i64>,
    queries: Embeddings<'static>,
    head: Head,
}

/// Seconds to fit and to score, and the scores.
struct Measured {
    name: String,
    fit: f64,
    score: f64,
    scores: Vec<f64>,
}

const PYTORCH_OOD: &str = r"
import sys, time, numpy as np, torch, pytorch_ood
from pytorch_ood import detector
folder, dim, classes, k, principal, repeats, threads = sys.argv[1], *map(int, sys.argv[2:8])
torch.set_num_threads(threads)
read = lambda name, columns: torch.from_numpy(np.fromfile(f'{folder}/baselines-{name}.f32', 'f4').reshape(-1, columns))
x, q, w = read('rows', dim), read('queries', dim), read('weights', dim)
y, b = read('labels', 1)[:, 0].long(), read('bias', 1)[:, 0]
factories = [('kNN distance', lambda: detector.KNN(None, k=k, normalize=False)), ('Mahalanobis', lambda: detector.Mahalanobis(None)),
          ('ViM', lambda: detector.ViM(None, d=principal, w=w, b=b))]
print(f'pytorch-ood {pytorch_ood.__version__}, torch ' + torch.__version__.split('+')[0])
for i, (name, make) in enumerate(factories):
    fits, scores = [], []
    with torch.no_grad():
        for _ in range(repeats):
            peer = make(); start = time.perf_counter(); peer.fit_features(x, y); fits.append(time.perf_counter() - start)
            start = time.perf_counter(); result = peer.predict_features(q); scores.append(time.perf_counter() - start)
    result.double().numpy().astype('f4').tofile(f'{folder}/baselines-scores-{i}.f32')
    print(min(fits), min(scores))
";

pub(crate) fn run() -> Result<(), String> {
    let threads = rayon::current_num_threads();
    println!(
        "Baselines: fit, then score {QUERIES} queries; {threads} threads, best of {REPEATS} runs, k = {K}"
    );
    let python = Python::with(&["numpy", "scikit-learn", "torch", "pytorch-ood"]);
    if let Err(error) = &python {
        println!("pytorch-ood: skipped, {}", error.lines().last().unwrap_or("not installed"));
    }
    for case in cases(python.as_ref().ok())? {
        println!("\n{}", case.title);
        let ours = measure_ours(&case)?;
        let peers = match &python {
            Ok(python) => measure_pytorch_ood(python, &case)?,
            Err(_) => vec![],
        };
        println!(
            "{:>14} {:>8} {:>8} {:>12} {:>8} {:>8} {:>13}  rank agreement",
            "", "fit s", "score s", "peer: fit", "score", "speedup", "score speedup"
        );
        for (i, nuq) in ours.iter().enumerate() {
            print!("{:>14} {:>8.3} {:>8.3}", nuq.name, nuq.fit, nuq.score);
            match peers.get(i) {
                Some(peer) => println!(
                    " {:>12.3} {:>8.3} {:>8.2} {:>13.2}  {:.4}",
                    peer.fit,
                    peer.score,
                    (peer.fit + peer.score) / (nuq.fit + nuq.score),
                    peer.score / nuq.score,
                    rank_agreement(&nuq.scores, &peer.scores)
                ),
                None => println!(),
            }
        }
    }
    Ok(())
}

fn cases(python: Option<&Python>) -> Result<Vec<Case>, String> {
    let source = Source::new(DIM, CLASSES, 1);
    let ((rows, labels), (queries, _)) = (source.draw(ROWS, 2), source.draw(QUERIES, 3));
    let mut rng = SeededRng::new(4);
    let weights = (0..CLASSES * DIM).map(|_| 0.1 * rng.normal() as f32).collect();
    let weights = Embeddings::new(weights, DIM).map_err(|e| e.to_string())?;
    let head = Head::new(&weights, &[0.1; CLASSES]).map_err(|e| e.to_string())?;
    let title = format!("{ROWS} × {DIM}, {CLASSES} clusters of 32 dimensions, with noise");
    let mut cases = vec![Case { title, rows, labels, queries, head }];
    match (std::env::var_os("NUQ_DATA"), python) {
        (Some(data), Some(python)) => {
            cases.push(embeddings(python, &Path::new(&data).join("data/cifar10-resnet18"))?);
        }
        (None, _) => println!("real embeddings: skipped, NUQ_DATA is not set"),
        (_, None) => println!("real embeddings: skipped, the Python packages are not installed"),
    }
    Ok(cases)
}

const NPZ_TO_RAW_F32: &str = r"
import sys, numpy as np
npz, name, raw = sys.argv[1:4]
a = np.load(npz)[name].astype('f4'); a.tofile(raw); print(a.shape[1] if a.ndim == 2 else 1)
";

/// Embeddings of a network on CIFAR-10, from npz files, with the last layer estimated from its logits.
fn embeddings(python: &Python, from: &Path) -> Result<Case, String> {
    let read = |file: &str, array: &str| {
        let (npz, raw) = (from.join(file), folder()?.join("real.f32"));
        let printed =
            python.script(NPZ_TO_RAW_F32, &[&npz.to_string_lossy(), array, &raw.to_string_lossy()])?;
        let dim = printed.trim().parse::<usize>();
        let dim = dim.map_err(|_| format!("cannot read the number of columns of {}", npz.display()))?;
        Embeddings::new(read_raw(&raw)?, dim).map_err(|e| e.to_string())
    };
    let (rows, queries) = (read("train.npz", "embeddings")?, read("test.npz", "embeddings")?);
    let labels = read("train.npz", "labels")?.as_slice().iter().map(|label| *label as i64).collect();
    let head = Head::fit(&rows, &read("train.npz", "logits")?).map_err(|e| e.to_string())?;
    let title = format!("{} × {}, CIFAR-10 by a ResNet-18", rows.len(), rows.dim());
    Ok(Case { title, rows, labels, queries, head })
}

fn measure_ours(case: &Case) -> Result<Vec<Measured>, String> {
    let logits = case.head.logits(&case.queries).map_err(|e| e.to_string())?;
    let batch = Batch { embeddings: Some(&case.queries), logits: Some(&logits), ..Batch::default() };
    let principal = Some(case.rows.dim() / 2);
    Ok(vec![
        measure(&batch, || KnnDistance::kth(&case.rows, K))?,
        measure(&batch, || Mahalanobis::fit(&case.rows, &case.labels, Shrinkage::LedoitWolf))?,
        measure(&batch, || Vim::fit(&case.rows, &case.head, principal))?,
    ])
}

fn measure<S: Scorer>(
    batch: &Batch<'_>,
    fit: impl Fn() -> Result<S, nuq_eval::Error>,
) -> Result<Measured, String> {
    let mut best = Measured { name: String::new(), fit: f64::INFINITY, score: f64::INFINITY, scores: vec![] };
    for _ in 0..REPEATS {
        let start = Instant::now();
        let scorer = fit().map_err(|e| e.to_string())?;
        best.fit = best.fit.min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        best.scores = scorer.score(batch).map_err(|e| e.to_string())?;
        best.score = best.score.min(start.elapsed().as_secs_f64());
        best.name = scorer.name();
    }
    Ok(best)
}

fn measure_pytorch_ood(python: &Python, case: &Case) -> Result<Vec<Measured>, String> {
    let (weights, bias) = weights(case)?;
    let labels: Vec<f32> = case.labels.iter().map(|label| *label as f32).collect();
    for (name, values) in [
        ("rows", case.rows.as_slice()),
        ("queries", case.queries.as_slice()),
        ("weights", &weights),
        ("bias", &bias),
        ("labels", &labels),
    ] {
        write_raw(&format!("baselines-{name}.f32"), values)?;
    }
    let dim = case.rows.dim();
    let numbers = [dim, bias.len(), K, dim / 2, REPEATS, rayon::current_num_threads()].map(|n| n.to_string());
    let folder = folder()?;
    let mut arguments = vec![folder.to_string_lossy().into_owned()];
    arguments.extend(numbers);
    let printed = python.script(PYTORCH_OOD, &arguments.iter().map(String::as_str).collect::<Vec<&str>>())?;
    let mut lines = printed.lines();
    println!("peer: {}", lines.next().unwrap_or("unknown"));
    lines
        .enumerate()
        .map(|(i, line)| {
            let times: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            let [fit, score] = times[..] else { return Err(format!("pytorch-ood printed {line:?}")) };
            let scores = read_raw(&folder.join(format!("baselines-scores-{i}.f32")))?;
            let scores = scores.into_iter().map(f64::from).collect();
            Ok(Measured { name: String::new(), fit, score, scores })
        })
        .collect()
}

/// Weights and biases of the head, computed from its logits for the zero vector and for each unit vector.
fn weights(case: &Case) -> Result<(Vec<f32>, Vec<f32>), String> {
    let dim = case.rows.dim();
    let mut units = vec![0f32; (dim + 1) * dim];
    (0..dim).for_each(|j| units[j * dim + j] = 1.0);
    let units = Embeddings::new(units, dim).map_err(|e| e.to_string())?;
    let logits = case.head.logits(&units).map_err(|e| e.to_string())?;
    let bias = logits.row(dim).to_vec();
    let weight = |at: usize| logits.row(at % dim)[at / dim] - bias[at / dim];
    Ok(((0..bias.len() * dim).map(weight).collect(), bias))
}

/// Spearman's rank correlation of two scores.
fn rank_agreement(a: &[f64], b: &[f64]) -> f64 {
    let ranks = |scores: &[f64]| {
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|&i, &j| scores[i].total_cmp(&scores[j]));
        let mut ranks = vec![0.0; scores.len()];
        order.iter().enumerate().for_each(|(rank, &i)| ranks[i] = rank as f64);
        ranks
    };
    let count = a.len() as f64;
    let sq_differences: f64 = ranks(a).iter().zip(ranks(b)).map(|(a, b)| (a - b).powi(2)).sum();
    1.0 - 6.0 * sq_differences / (count * (count * count - 1.0))
}
