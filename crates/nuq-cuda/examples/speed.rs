//! Measures the time of searches on the GPU. The results of some queries are compared with the results of the exact index on the CPU.
//!
//! `cargo run --release -p nuq-cuda --example speed -- [noise | clusters | left-out | small | fit]... [--rows N] [--store FOLDER]`
//!
//! The case `left-out` searches the neighbors of each row among the other rows.
//!
//! With `--store`, rows and queries are also written to files as raw `f32`, and the ids of neighbors as raw `u32`. `bench/cuda.py` reads
//! these files, and the lines `title:`, `seconds:` and `memory:` of the standard output.

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use nuq::{Density, Device, FittedModel, NuqClassifier};
use nuq_cuda::{CudaDevice, CudaIndex};
use nuq_neighbors::{Embeddings, ExactIndex, NeighborIndex, Neighbors, SeededRng};

/// The number of training rows of ImageNet, and the number of columns of the embeddings of a ResNet-50.
const ROWS: usize = 1_281_167;
const DIM: usize = 2048;
const QUERIES: usize = 50_000;
const K: usize = 20;
/// Number of queries whose neighbors are compared with the neighbors that the CPU finds.
const COMPARED: u32 = 48;
/// The number of latent dimensions, the number of clusters, and the standard deviation of the noise in each column.
const LATENT: usize = 64;
const CLUSTERS: usize = 1000;
const NOISE: f32 = 0.1;

fn main() -> Result<(), Box<dyn Error>> {
    let mut rows = ROWS;
    let (mut names, mut folder) = (Vec::new(), None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--rows" => rows = arguments.next().ok_or("--rows needs a number")?.parse()?,
            "--store" => folder = Some(PathBuf::from(arguments.next().ok_or("--store needs a folder")?)),
            _ => names.push(argument),
        }
    }
    if names.is_empty() {
        names = ["noise", "clusters", "left-out", "small", "fit"].map(str::to_owned).to_vec();
    }
    let start = Instant::now();
    let device = CudaDevice::open(0)?;
    println!("{}, opened in {:.3} s", device.name(), start.elapsed().as_secs_f64());
    for name in &names {
        match name.as_str() {
            "noise" => {
                time("noise", &device, &noise(rows, DIM, 1), &noise(QUERIES, DIM, 2), folder.as_deref())?
            }
            "clusters" | "left-out" => {
                let x = clusters(rows, DIM, 3);
                if name == "clusters" {
                    time(name, &device, &x, &clusters(QUERIES, DIM, 4), folder.as_deref())?;
                } else {
                    time_leave_one_out(&device, &x)?;
                }
            }
            "small" => small(&device)?,
            "fit" => fit(&clusters(rows, DIM, 3))?,
            _ => return Err(format!("unknown case `{name}`").into()),
        }
    }
    Ok(())
}

fn time(
    name: &str,
    device: &CudaDevice,
    x: &[f32],
    q: &[f32],
    folder: Option<&std::path::Path>,
) -> Result<(), Box<dyn Error>> {
    if let Some(folder) = folder {
        for (part, values) in [("rows", x), ("queries", q)] {
            // SAFETY: any f32 is four valid bytes.
            let bytes =
                unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) };
            std::fs::write(folder.join(format!("{name}-{part}.f32")), bytes)?;
        }
    }
    let (x, q) = (Embeddings::borrowed(x, DIM)?, Embeddings::borrowed(q, DIM)?);
    let index = CudaIndex::new(ExactIndex::new(&x)?, device.clone());
    device.take_peak_memory()?;
    let start = Instant::now();
    index.load()?;
    println!("{name}: {} × {DIM}, upload {:.3} s", x.len(), start.elapsed().as_secs_f64());
    println!("title: {} × {DIM}, {name}, {} queries", x.len(), q.len());
    let mut neighbors = None;
    for _ in 0..3 {
        let start = Instant::now();
        neighbors = Some(index.search(&q, K)?);
        println!("seconds: {:.4}", start.elapsed().as_secs_f64());
    }
    // The largest use of memory during the copy and the searches, relative to the memory of the rows in f32.
    println!("memory: {:.2}", device.take_peak_memory()? as f64 / size_of_val(x.as_slice()) as f64);
    println!("  queries on the CPU: {}", index.queries_on_cpu());
    let neighbors = neighbors.expect("three searches");
    if let Some(folder) = folder {
        let ids: Vec<u8> =
            (0..neighbors.len()).flat_map(|i| neighbors.ids(i)).flat_map(|id| id.to_le_bytes()).collect();
        std::fs::write(folder.join(format!("{name}-ids.u32")), ids)?;
    }
    compare(name, &x, &q, &neighbors)
}

/// Compares some queries with the exact index on the CPU.
fn compare(
    name: &str,
    x: &Embeddings<'_>,
    q: &Embeddings<'_>,
    neighbors: &Neighbors,
) -> Result<(), Box<dyn Error>> {
    let step = (q.len() as u32 / COMPARED).max(1);
    let some: Vec<u32> = (0..q.len() as u32).step_by(step as usize).collect();
    let expected = ExactIndex::new(x)?.search(&q.gather(&some), neighbors.k())?;
    let is_equal = |(i, &query): (usize, &u32)| {
        let query = query as usize;
        let bits = |row: &[f64]| row.iter().map(|d| d.to_bits()).collect::<Vec<_>>();
        neighbors.ids(query) == expected.ids(i)
            && bits(neighbors.sq_distances(query)) == bits(expected.sq_distances(i))
    };
    let equal = some.iter().enumerate().filter(|&pair| is_equal(pair)).count();
    println!("  {name}: {equal} of {} compared queries are equal bit for bit", some.len());
    if equal == some.len() { Ok(()) } else { Err("the neighbors differ".into()) }
}

fn time_leave_one_out(device: &CudaDevice, x: &[f32]) -> Result<(), Box<dyn Error>> {
    let x = Embeddings::borrowed(x, DIM)?;
    let index = CudaIndex::new(ExactIndex::new(&x)?, device.clone());
    index.load()?;
    let ids: Vec<u32> = (0..x.len() as u32).collect();
    let start = Instant::now();
    let neighbors = index.leave_one_out(&ids, K)?;
    println!("title: {} × {DIM}, clusters, leave-one-out of all rows", x.len());
    println!("seconds: {:.4}", start.elapsed().as_secs_f64());
    println!("  queries on the CPU: {}", index.queries_on_cpu());
    let some: Vec<u32> = (0..COMPARED).map(|i| i * (x.len() as u32 / COMPARED)).collect();
    let expected = ExactIndex::new(&x)?.leave_one_out(&some, K)?;
    let equal = (0..some.len()).filter(|&i| neighbors.ids(some[i] as usize) == expected.ids(i)).count();
    println!("  left-out: {equal} of {} compared rows are equal", some.len());
    if equal == some.len() { Ok(()) } else { Err("the neighbors differ".into()) }
}

/// Rows of the size of CIFAR-10. The time includes the copy of the rows.
fn small(device: &CudaDevice) -> Result<(), Box<dyn Error>> {
    let (x, q) = (noise(50_000, 512, 5), noise(10_000, 512, 6));
    let (x, q) = (Embeddings::borrowed(&x, 512)?, Embeddings::borrowed(&q, 512)?);
    println!("title: 50000 × 512, noise, 10000 queries, with the copy of the rows");
    for _ in 0..3 {
        let start = Instant::now();
        let index = CudaIndex::new(ExactIndex::new(&x)?, device.clone());
        let neighbors = index.search(&q, K)?;
        println!("seconds: {:.4}", start.elapsed().as_secs_f64());
        compare("small", &x, &q, &neighbors)?;
    }
    Ok(())
}

/// A fit, including the copy of the rows to the device. The density is `kde`, because the Gaussians of `gmm` are computed on
/// the CPU.
fn fit(x: &[f32]) -> Result<(), Box<dyn Error>> {
    nuq_cuda::register();
    let x = Embeddings::borrowed(x, DIM)?;
    let labels: Vec<u32> = (0..x.len() as u32).map(|i| i % CLUSTERS as u32).collect();
    let start = Instant::now();
    let params = NuqClassifier::params().density(Density::kde()).device(Device::Cuda(None));
    let model = params.fit(&x, &labels)?;
    println!("title: {} × {DIM}, clusters, fit with the copy of the rows", x.len());
    println!("seconds: {:.4}", start.elapsed().as_secs_f64());
    println!("  {}", model.index().device().unwrap_or_default());
    Ok(())
}

/// Number of rows that one independent sequence of random numbers fills.
const BLOCK: usize = 1024;

/// Normally distributed values.
fn noise(rows: usize, dim: usize, seed: u64) -> Vec<f32> {
    fill(rows, dim, seed, &|random, block| block.iter_mut().for_each(|v| *v = random.normal()))
}

/// Clusters in a space of [`LATENT`] dimensions, embedded in `dim` columns, with noise.
fn clusters(rows: usize, dim: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(100);
    let basis: Vec<f32> = (0..LATENT * dim).map(|_| random.normal() / 8.0).collect();
    let centers: Vec<f32> = (0..CLUSTERS * LATENT).map(|_| 2.0 * random.normal()).collect();
    fill(rows, dim, seed, &|random, block| {
        for row in block.chunks_exact_mut(dim) {
            let cluster = (random.next() % CLUSTERS as u64) as usize;
            row.iter_mut().for_each(|v| *v = NOISE * random.normal());
            for (latent, axis) in basis.chunks_exact(dim).enumerate() {
                let z = centers[cluster * LATENT + latent] + random.normal();
                row.iter_mut().zip(axis).for_each(|(v, a)| *v += z * a);
            }
        }
    })
}

fn fill(rows: usize, dim: usize, seed: u64, write: &(dyn Fn(&mut Random, &mut [f32]) + Sync)) -> Vec<f32> {
    let mut values = vec![0f32; rows * dim];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let blocks: Vec<(usize, &mut [f32])> = values.chunks_mut(BLOCK * dim).enumerate().collect();
    let queue = std::sync::Mutex::new(blocks.into_iter());
    let next = || queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((i, block)) = next() {
                    write(&mut Random::new(seed << 32 | i as u64), block);
                }
            });
        }
    });
    values
}

/// A fast generator for gigabytes of values: xorshift64* and the method of Box and Muller.
struct Random {
    state: u64,
    spare: Option<f32>,
}

impl Random {
    fn new(seed: u64) -> Self {
        let state = SeededRng::new(seed).normal().to_bits() | 1;
        Self { state, spare: None }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn normal(&mut self) -> f32 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let bits = self.next();
        let uniform = |bits: u64| ((bits & 0xff_ffff) as f32 + 0.5) / 16_777_216.0;
        let (length, angle) =
            ((-2.0 * uniform(bits).ln()).sqrt(), std::f32::consts::TAU * uniform(bits >> 24));
        self.spare = Some(length * angle.sin());
        length * angle.cos()
    }
}
