//! Predicts from neighbors that other programs found, for example a vector database, or two machines that each search a
//! part of the rows.
//!
//! `cargo run --release -p nuq --example external_neighbors`

use nuq::nuq_neighbors::SeededRng;
use nuq::{Embeddings, ExactIndex, FittedModel, NeighborIndex, Neighbors, NuqClassifier};

const DIM: usize = 8;

fn main() -> Result<(), nuq::Error> {
    let x = normal_rows(2000, 1)?;
    let labels: Vec<bool> = x.rows().map(|row| row[0] + row[1] > 0.0).collect();
    let queries = normal_rows(100, 2)?;
    let model = NuqClassifier::params().fit(&x, &labels)?;
    let k = model.n_neighbors();
    let own = model.predict(&queries)?;

    // Two machines search 1200 and 800 rows. `merge` gives exactly the neighbors that one search of all rows would
    // find.
    let shards = x.as_slice().split_at(1200 * DIM);
    let first = ExactIndex::new(&Embeddings::borrowed(shards.0, DIM)?)?.search(&queries, k)?;
    let second = ExactIndex::new(&Embeddings::borrowed(shards.1, DIM)?)?.search(&queries, k)?;
    let merged = Neighbors::merge(&[(0, first), (1200, second)], k)?;
    let from_machines = model.predict_from(&queries, &merged)?;
    println!("two machines: {} of {} predictions are equal", equal(&own, &from_machines), own.len());

    // A vector database returns ids only. `measure` computes the distances to the rows with these ids, in the space of
    // the model.
    let ids: Vec<u32> = (0..merged.len()).flat_map(|i| merged.ids(i).to_vec()).collect();
    let measured = model.measure(&queries, k, &ids)?;
    let from_ids = model.predict_from(&queries, &measured)?;
    println!("ids only:     {} of {} predictions are equal", equal(&own, &from_ids), own.len());
    Ok(())
}

fn equal(a: &[nuq::Prediction], b: &[nuq::Prediction]) -> usize {
    a.iter().zip(b).filter(|(a, b)| a == b).count()
}

fn normal_rows(rows: usize, seed: u64) -> Result<Embeddings<'static>, nuq::Error> {
    let mut rng = SeededRng::new(seed);
    Ok(Embeddings::new((0..rows * DIM).map(|_| rng.normal() as f32).collect(), DIM)?)
}
