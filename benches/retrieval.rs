//! The search for the nearest of many vectors, beside a plain scan of the same vectors in memory.
//! `cargo bench --bench retrieval`; only ratios mean anything.

#![allow(clippy::print_stdout, clippy::unwrap_used)] // printing figures is what it is for

use std::sync::Arc;
use std::time::{Duration, Instant};
use valvehouse::store::{NewVector, Store, VectorIndex, VectorOwner};

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
const DIMENSIONS: usize = 1_024;
/// The number of vectors that a search returns.
const COUNT: usize = 5;
/// The number of vectors that are stored at once, as scripts may.
const BATCH: usize = 1_000;

fn main() {
    // `cargo test` builds benches and runs them too: there is nothing to measure there.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    println!("the nearest {COUNT} of vectors with {DIMENSIONS} dimensions, in an SQLite file");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for size in SIZES {
        runtime.block_on(measure(size));
    }
}

async fn measure(size: usize) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::sqlite(&folder.path().join("state.db")).await.unwrap();
    let index = VectorIndex::new(Arc::new(store));
    let owner = VectorOwner { plugin: "bench".to_owned(), scope: "own".to_owned() };
    let mut random = fastrand::Rng::with_seed(7);
    let vectors: Vec<Vec<f32>> = (0..size).map(|_| vector(&mut random)).collect();
    for (batch, vectors) in vectors.chunks(BATCH).enumerate() {
        let entry = |(place, vector): (usize, &Vec<f32>)| NewVector {
            id: (batch * BATCH + place).to_string(),
            data: "a passage of a text".into(),
            vector: vector.clone(),
        };
        let entries = vectors.iter().enumerate().map(entry).collect();
        index.put(&owner, "", entries, false, 100_000).await.unwrap();
    }
    let rounds = if size > 10_000 { 5 } else { 31 };
    let (mut searches, mut scans) = (Vec::new(), Vec::new());
    for _ in 0..=rounds {
        let searched = vector(&mut random);
        let began = Instant::now();
        let (found, _) = index.nearest(&owner, searched.clone(), COUNT, -1.0).await.unwrap();
        searches.push(began.elapsed());
        let began = Instant::now();
        let expected = scan(&vectors, &searched);
        scans.push(began.elapsed());
        let found: Vec<String> = found.into_iter().map(|found| found.id).collect();
        assert_eq!(found, expected.map(|place| place.to_string()), "another vector is nearer");
    }
    // The first search reads the vectors from the file.
    let first = searches.remove(0);
    let (search, scan) = (median(&mut searches), median(&mut scans));
    println!(
        "{size:>8} vectors   first search {first:>9.1?}   search {search:>9.1?}   plain scan {scan:>9.1?}   {:.2}x",
        search.as_secs_f64() / scan.as_secs_f64()
    );
}

fn vector(random: &mut fastrand::Rng) -> Vec<f32> {
    let vector: Vec<f32> = (0..DIMENSIONS).map(|_| random.f32() - 0.5).collect();
    let length = vector.iter().map(|one| one * one).sum::<f32>().sqrt();
    vector.into_iter().map(|one| one / length).collect()
}

/// Returns the places of the nearest vectors, as the first program that comes to mind finds them.
fn scan(vectors: &[Vec<f32>], searched: &[f32]) -> [usize; COUNT] {
    let score = |vector: &Vec<f32>| vector.iter().zip(searched).map(|(a, b)| a * b).sum::<f32>();
    let mut scores: Vec<(f32, usize)> = vectors.iter().map(score).zip(0..).collect();
    scores.sort_by(|a, b| b.0.total_cmp(&a.0));
    std::array::from_fn(|place| scores[place].1)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}
