//! The neighbors and distances of the GPU are compared with those of the CPU, bit for bit.

use nuq_cuda::{CudaDevice, CudaIndex};
use nuq_neighbors::{
    CancelToken, Cancelled, Embeddings, ExactIndex, NeighborIndex, Precision, Progress, StoredRows, progress,
};
use nuq_testkit::{conformance, data};

use crate::common::{assert_equal, check, cifar10, device, low_rank};

fn pair<'x>(x: &Embeddings<'x>, device: &CudaDevice) -> (CudaIndex<'x>, ExactIndex<'x>) {
    (CudaIndex::new(ExactIndex::new(x).unwrap(), device.clone()), ExactIndex::new(x).unwrap())
}

#[test]
fn the_conformance_tests_of_all_indexes_pass() {
    let Some(device) = device() else { return };
    conformance::run(&|x| Box::new(CudaIndex::new(ExactIndex::new(x).unwrap(), device.clone())), 1.0);
    conformance::run(
        &|x| {
            conformance::updated(
                &|x| Box::new(CudaIndex::new(ExactIndex::new(x).unwrap(), device.clone())),
                x,
            )
        },
        1.0,
    );
}

#[test]
fn queries_in_random_rows_are_answered_on_the_gpu() {
    let Some(device) = device() else { return };
    for (rows, dim, queries, k) in [
        (1000, 3, 100, 5),
        (30_000, 64, 3000, 20),
        (60_000, 100, 500, 1),
        (20_000, 257, 700, 100),
        (9000, 2048, 300, 20),
    ] {
        let (x, q) = (data::normal(rows, dim, 1), data::normal(queries, dim, 2));
        let (gpu, cpu) = pair(&x, &device);
        let share = check(&format!("normal {rows} × {dim}, k {k}"), &gpu, &cpu, &q, k);
        assert!(share > 0.99, "{share}");
    }
}

#[test]
fn queries_in_clustered_rows_are_answered_on_the_gpu() {
    let Some(device) = device() else { return };
    for (rows, dim, queries, k) in [(40_000, 32, 2000, 20), (20_000, 512, 1000, 50), (100_000, 16, 9000, 20)]
    {
        let (x, _) = data::clusters(rows, dim, 50, 4.0, 3);
        let (q, _) = data::clusters(queries, dim, 50, 4.0, 4);
        let (gpu, cpu) = pair(&x, &device);
        let share = check(&format!("clusters {rows} × {dim}, k {k}"), &gpu, &cpu, &q, k);
        assert!(share > 0.9, "{share}");
    }
}

#[test]
fn neighbors_in_rows_with_few_principal_axes_are_those_of_the_cpu() {
    let Some(device) = device() else { return };
    for offset in [0.0, 1000.0] {
        let (x, q) = (low_rank(40_000, offset, 41), low_rank(1500, offset, 43));
        let (mut gpu, mut cpu) = pair(&x, &device);
        for k in [1, 20, 300] {
            assert!(check(&format!("few axes, offset {offset}, k {k}"), &gpu, &cpu, &q, k) > 0.9);
        }
        let removed: Vec<u32> = (0..40_000).step_by(3).collect();
        gpu.remove(&removed).unwrap();
        cpu.remove(&removed).unwrap();
        check("few axes, removed rows", &gpu, &cpu, &q, 20);
        let ids: Vec<u32> = (0..40_000).filter(|id| id % 3 == 1).step_by(9).collect();
        assert_equal(
            "few axes, left out",
            &gpu.leave_one_out(&ids, 20).unwrap(),
            &cpu.leave_one_out(&ids, 20).unwrap(),
        );
        // Queries are multiplied by powers of ten from 10⁻³ to 10³. With large factors they are far from all rows.
        let far: Vec<f32> =
            q.as_slice().iter().enumerate().map(|(i, v)| v * 10f32.powi((i / 400 % 7) as i32 - 3)).collect();
        check("few axes, distant queries", &gpu, &cpu, &Embeddings::new(far, 400).unwrap(), 20);
    }
    let x = low_rank(20_000, 0.0, 45);
    let doubled = Embeddings::new([x.as_slice(); 2].concat(), 400).unwrap();
    let scale: Vec<f64> = (0..400).map(|j| 0.5 + f64::from(j % 7)).collect();
    let scaled = || ExactIndex::scaled(&doubled, scale.clone()).unwrap();
    let gpu = CudaIndex::new(scaled(), device);
    check(
        "few axes, duplicates, scaled columns",
        &gpu,
        &scaled(),
        &x.gather(&(0..800).collect::<Vec<_>>()),
        20,
    );
}

#[test]
fn neighbors_in_embeddings_of_cifar10_are_those_of_the_cpu() {
    let Some(device) = device() else { return };
    let x = cifar10("train");
    let (gpu, cpu) = pair(&x, &device);
    for k in [1, 20, 200] {
        for set in ["test", "svhn", "textures"] {
            assert!(check(&format!("CIFAR-10, {set}, k {k}"), &gpu, &cpu, &cifar10(set), k) > 0.99);
        }
        let ids: Vec<u32> = (0..x.len() as u32).collect();
        let (found, expected) = (gpu.leave_one_out(&ids, k).unwrap(), cpu.leave_one_out(&ids, k).unwrap());
        assert_equal("CIFAR-10, left out", &found, &expected);
    }
    let normalized = x.l2_normalized();
    let (gpu, cpu) = pair(&normalized, &device);
    check("CIFAR-10, normalized", &gpu, &cpu, &cifar10("test").l2_normalized(), 20);
}

/// Computes the new value from a position in the array and the old value.
type Change<'c> = &'c dyn Fn(usize, f32) -> f32;

#[test]
fn neighbors_in_rows_with_offsets_scales_and_outliers_are_those_of_the_cpu() {
    let Some(device) = device() else { return };
    let (rows, dim) = (20_000, 24);
    let changed = |seed: u64, n: usize, change: Change<'_>| {
        let values = data::normal(n, dim, seed);
        Embeddings::new(values.as_slice().iter().enumerate().map(|(i, &v)| change(i, v)).collect(), dim)
            .unwrap()
    };
    let cases: [(&str, Change<'_>); 7] = [
        ("offset 1e4", &|_, v| v + 1e4),
        ("scale 1e-30", &|_, v| v * 1e-30),
        ("scale 1e30", &|_, v| v * 1e30),
        ("columns of different scales", &|i, v| v * 4f32.powi((i % 24) as i32 - 12)),
        ("one row at 1e30", &|i, v| if i < 24 { 1e30 } else { v }),
        ("rows of sizes from 1e-8 to 1e8", &|i, v| v * 10f32.powi((i / 24 % 17) as i32 - 8)),
        ("few distinct values", &|_, v| v.round()),
    ];
    for (name, change) in cases {
        let (x, q) = (changed(5, rows, change), changed(6, 400, change));
        let (gpu, cpu) = pair(&x, &device);
        check(name, &gpu, &cpu, &q, 20);
    }
}

#[test]
fn neighbors_among_duplicate_rows_are_those_of_the_cpu() {
    let Some(device) = device() else { return };
    let x = data::normal(3000, 20, 7);
    let tripled = Embeddings::new([x.as_slice(); 3].concat(), 20).unwrap();
    let (gpu, cpu) = pair(&tripled, &device);
    let ids: Vec<u32> = (0..9000).rev().collect();
    let found = gpu.leave_one_out(&ids, 10).unwrap();
    assert_equal("triples", &found, &cpu.leave_one_out(&ids, 10).unwrap());
    assert_eq!(gpu.queries_on_cpu(), 0);
    // There are more rows at the same distance than fit into a candidate list.
    let same = Embeddings::new(vec![0.5; 20_000 * 4], 4).unwrap();
    let (gpu, cpu) = pair(&same, &device);
    let share = check("equal rows", &gpu, &cpu, &data::normal(20, 4, 8), 7);
    assert_eq!(share, 0.0);
}

#[test]
fn neighbors_with_scaled_columns_and_half_precision_are_those_of_the_cpu() {
    let Some(device) = device() else { return };
    let (x, q) = (data::normal(20_000, 30, 9), data::normal(300, 30, 10));
    let scale: Vec<f64> = (0..30).map(|j| 0.1 + f64::from(j) * 0.37).collect();
    let scaled = || ExactIndex::scaled(&x, scale.clone()).unwrap();
    check("scaled columns", &CudaIndex::new(scaled(), device.clone()), &scaled(), &q, 20);
    let halves = || ExactIndex::from_rows(StoredRows::new(&x, Precision::F16).unwrap());
    check("rows in f16", &CudaIndex::new(halves(), device.clone()), &halves(), &q, 20);
}

#[test]
fn rows_that_do_not_fit_are_searched_in_shards() {
    let Some(device) = device() else { return };
    let (x, q) = (data::normal(50_000, 64, 11), data::normal(2000, 64, 12));
    let (gpu, mut cpu) = pair(&x, &device);
    // A block of 2000 queries takes 147.4 MiB. The other 2.6 MiB are enough for about 6,900 rows.
    let mut gpu = gpu.max_bytes(150 << 20);
    assert!(check("shards", &gpu, &cpu, &q, 20) > 0.99);
    let removed: Vec<u32> = (0..50_000).step_by(7).collect();
    gpu.remove(&removed).unwrap();
    cpu.remove(&removed).unwrap();
    assert!(check("shards with removed rows", &gpu, &cpu, &q, 20) > 0.99);
    let ids: Vec<u32> = (1..50_000).step_by(7).take(2000).collect();
    assert_equal("left out", &gpu.leave_one_out(&ids, 20).unwrap(), &cpu.leave_one_out(&ids, 20).unwrap());
    let tiny = CudaIndex::new(ExactIndex::new(&x).unwrap(), device).max_bytes(1 << 20);
    assert_eq!(check("no memory", &tiny, &ExactIndex::new(&x).unwrap(), &q, 20), 0.0);
}

#[test]
fn a_search_in_shards_counts_each_query_as_one_step() {
    let Some(device) = device() else { return };
    let (x, q) = (data::normal(50_000, 64, 11), data::normal(2000, 64, 12));
    let (gpu, cpu) = pair(&x, &device);
    // Blocks of 2000 queries take 147 MiB. The rows take 19 MiB, so there are two shards.
    let gpu = gpu.max_bytes(160 << 20);
    let observer = Progress::new();
    let found = observer.observe(|| {
        progress::start("searching neighbors", 10 * q.len());
        gpu.search(&q, 20).unwrap()
    });
    assert_equal("shards", &found, &cpu.search(&q, 20).unwrap());
    // Queries that the device does not answer are counted again on the CPU.
    assert_eq!(observer.stage().done as usize, q.len() + gpu.queries_on_cpu());
}

#[test]
fn updates_change_the_rows_on_the_device() {
    let Some(device) = device() else { return };
    let (x, q) = (data::normal(30_000, 40, 13), data::normal(500, 40, 14));
    let (mut gpu, mut cpu) = pair(&x, &device);
    for step in 0..3u64 {
        let removed: Vec<u32> = (0..1000).map(|i| i * 17 + step as u32).collect();
        let new = data::normal(1500, 40, 20 + step);
        gpu.remove(&removed).unwrap();
        cpu.remove(&removed).unwrap();
        assert!(check(&format!("step {step}, removed"), &gpu, &cpu, &q, 20) > 0.99);
        assert_eq!(gpu.insert(&new).unwrap(), cpu.insert(&new).unwrap());
        assert!(check(&format!("step {step}, inserted"), &gpu, &cpu, &q, 20) > 0.99);
        // Rows with reused ids and rows with new ids are also queries.
        let ids: Vec<u32> = (0..cpu.len() as u32).step_by(13).collect();
        let (found, expected) = (gpu.leave_one_out(&ids, 20).unwrap(), cpu.leave_one_out(&ids, 20).unwrap());
        assert_equal(&format!("step {step}, left out"), &found, &expected);
    }
    // The inserted rows need more memory than is reserved, and they are far from the other rows.
    let far: Vec<f32> = data::normal(9000, 40, 30).as_slice().iter().map(|v| 1e4 * v + 3e6).collect();
    let far = Embeddings::new(far, 40).unwrap();
    assert_eq!(gpu.insert(&far).unwrap(), cpu.insert(&far).unwrap());
    check("grown", &gpu, &cpu, &q, 20);
    check("far rows", &gpu, &cpu, &far.gather(&(0..300).collect::<Vec<_>>()), 20);
}

#[test]
fn large_k_is_answered_on_the_cpu() {
    let Some(device) = device() else { return };
    let (x, q) = (data::normal(5000, 8, 15), data::normal(20, 8, 16));
    let (gpu, cpu) = pair(&x, &device);
    assert_eq!(check("k 1025", &gpu, &cpu, &q, 1025), 0.0);
    assert!(check("k 1024", &gpu, &cpu, &q, 1024) > 0.0);
}

#[test]
fn searches_of_several_threads_share_a_device() {
    let Some(device) = device() else { return };
    let x = data::normal(40_000, 32, 17);
    let (gpu, cpu) = pair(&x, &device);
    std::thread::scope(|scope| {
        for seed in 0..6 {
            let (gpu, cpu) = (&gpu, &cpu);
            scope.spawn(move || {
                check(&format!("thread {seed}"), gpu, cpu, &data::normal(700, 32, 30 + seed), 20)
            });
        }
    });
}

#[test]
fn a_cancelled_search_ends_and_the_next_one_is_correct() {
    let Some(device) = device() else { return };
    let (x, q) = (data::normal(200_000, 32, 18), data::normal(20_000, 32, 19));
    let (gpu, cpu) = pair(&x, &device);
    for limit in [2, 3, 4] {
        let token = CancelToken::at_check(limit);
        assert_eq!(token.run(|| gpu.search(&q, 5).map(|neighbors| neighbors.len())), Err(Cancelled));
    }
    check("after cancellation", &gpu, &cpu, &q.gather(&(0..200).collect::<Vec<_>>()), 5);
}
