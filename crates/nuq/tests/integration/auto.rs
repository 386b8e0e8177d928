//! The density `auto`: detection of outliers that its parts (a kernel density and Gaussians) miss, and densities of rows far from all data.

use nuq::nuq_neighbors::SeededRng;
use nuq::{Covariance, Density, Embeddings, Error, NuqClassifier, NuqRegressor, Shrinkage};

const DIM: usize = 48;

/// Rows of two classes. Their norm is about 6.6, and eight columns have a large variance. `shape` changes each row.
fn rows(count: usize, seed: u64, shape: impl Fn(&mut SeededRng, &mut [f32])) -> Embeddings<'static> {
    let mut rng = SeededRng::new(seed);
    let mut values = vec![];
    for i in 0..count {
        let mut row: Vec<f32> = (0..DIM)
            .map(|j| {
                let width = if j < 8 { 2.0 } else { 0.5 };
                (width * rng.normal() + if j == 8 + i % 2 { 1.0 } else { 0.0 }) as f32
            })
            .collect();
        shape(&mut rng, &mut row);
        values.extend(row);
    }
    Embeddings::new(values, DIM).unwrap()
}

fn typical(count: usize, seed: u64) -> Embeddings<'static> {
    rows(count, seed, |_, _| {})
}

/// The share of pairs in which the outlier has the higher score; ties count half.
fn roc_auc(inliers: &[f64], outliers: &[f64]) -> f64 {
    let wins = |o: &f64| inliers.iter().map(|i| f64::from(o > i) + 0.5 * f64::from(o == i)).sum::<f64>();
    outliers.iter().map(wins).sum::<f64>() / (inliers.len() * outliers.len()) as f64
}

/// ROC-AUC of minus the log density.
fn auc(density: Density, train: &Embeddings<'_>, outliers: &Embeddings<'_>) -> f64 {
    let labels: Vec<usize> = (0..train.len()).map(|i| i % 2).collect();
    let model = NuqClassifier::params().density(density).fit(train, &labels).unwrap();
    let scores = |x: &Embeddings<'_>| -> Vec<f64> {
        model.predict(x).unwrap().iter().map(|p| -p.log_density).collect()
    };
    roc_auc(&scores(&typical(400, 9)), &scores(outliers))
}

#[test]
fn auto_detects_outliers_that_its_parts_miss() {
    let train = typical(600, 1);
    let gaussians =
        || Density::Gmm { covariance: Covariance::Tied, shrinkage: Shrinkage::LedoitWolf, scale_free: false };
    // Rows shrunk towards the center have a higher density than training rows under both parts. Outliers in columns of
    // small variance hardly change the distances, which depend mostly on the other columns.
    let shrunk = rows(400, 2, |_, row| row.iter_mut().for_each(|v| *v *= 0.45));
    let narrow = rows(400, 3, |_, row| row[40..].iter_mut().for_each(|v| *v *= 2.2));
    let of = |density: fn() -> Density, outliers: &Embeddings<'_>| auc(density(), &train, outliers);
    let parts = [of(Density::kde, &shrunk), auc(gaussians(), &train, &shrunk)];
    assert!(parts.iter().all(|auc| *auc < 0.6), "{parts:?}");
    assert!(of(|| Density::Auto, &shrunk) > 0.85, "{}", of(|| Density::Auto, &shrunk));
    let (auto, kernel) = (of(|| Density::Auto, &narrow), of(Density::kde, &narrow));
    assert!(auto > kernel + 0.03, "{auto} {kernel}");
}

#[test]
fn the_density_decreases_with_distance_and_its_median_is_near_that_of_the_kernel_density() {
    let train = typical(500, 4);
    let labels: Vec<usize> = (0..500).map(|i| i % 2).collect();
    let fit = |density| NuqClassifier::params().density(density).fit(&train, &labels).unwrap();
    let model = fit(Density::Auto);
    let ray: Vec<f32> = (1..12).flat_map(|power| vec![10f32.powi(power) / 7.0; DIM]).collect();
    let predictions = model.predict(&Embeddings::new(ray, DIM).unwrap()).unwrap();
    assert!(predictions.windows(2).all(|pair| pair[1].log_density < pair[0].log_density));
    assert!(predictions.iter().all(|p| p.log_density.is_finite() && p.log_epistemic.is_finite()));
    let median = |model: &NuqClassifier<'_>| {
        let mut all: Vec<f64> =
            model.predict(&typical(401, 5)).unwrap().iter().map(|p| p.log_density).collect();
        all.sort_by(f64::total_cmp);
        all[200]
    };
    let (auto, kernel) = (median(&model), median(&fit(Density::kde())));
    assert!((auto - kernel).abs() < 1.0, "{auto} {kernel}");
}

#[test]
fn one_class_and_one_row_per_class_give_finite_densities_and_equal_rows_an_error() {
    let train = rows(60, 6, |_, row| row[3] = 2.5);
    let queries = typical(5, 7);
    let singletons: Vec<usize> = (0..60).collect();
    for labels in [vec![0; 60], singletons] {
        let model = NuqClassifier::params().density(Density::Auto).fit(&train, &labels).unwrap();
        assert!(model.predict(&queries).unwrap().iter().all(|p| p.log_density.is_finite()));
    }
    let targets: Vec<f64> = (0..60).map(f64::from).collect();
    let regressor = NuqRegressor::params().density(Density::Auto).fit(&train, &targets).unwrap();
    assert!(regressor.predict(&queries).unwrap().iter().all(|e| e.log_density.is_finite()));
    let equal = Embeddings::new(vec![1.0; 20], 2).unwrap();
    let result = NuqClassifier::params().density(Density::Auto).bandwidth(1.0).fit(&equal, &[0; 10]);
    assert!(matches!(result, Err(Error::NoSpread { .. })));
}

/// With few columns, a class around the origin is densest there. The scale-free score of Gaussians would give the
/// origin a low density.
#[test]
fn with_few_columns_the_origin_has_a_high_density() {
    let mut rng = SeededRng::new(7);
    let labels: Vec<i64> = (0..400).map(|i| i % 2).collect();
    let values = labels.iter().flat_map(|&c| [(rng.normal() + 3.0 * c as f64) as f32, rng.normal() as f32]);
    let x = Embeddings::new(values.collect(), 2).unwrap();
    let model = NuqClassifier::params().fit(&x, &labels).unwrap();
    let queries = Embeddings::from_rows(&[[0.0, 0.0], [-2.0, 2.0]]).unwrap();
    let predictions = model.predict(&queries).unwrap();
    assert!(predictions[0].log_density > predictions[1].log_density + 1.0);
}

#[test]
fn a_prediction_does_not_depend_on_the_number_of_queries() {
    let (train, queries) = (typical(400, 1), typical(9, 2));
    let labels: Vec<usize> = (0..train.len()).map(|i| i % 2).collect();
    let full =
        Density::Gmm { covariance: Covariance::Full, shrinkage: Shrinkage::LedoitWolf, scale_free: false };
    for density in [Density::Auto, full] {
        let model = NuqClassifier::params().density(density.clone()).fit(&train, &labels).unwrap();
        let together = model.predict(&queries).unwrap();
        for i in 0..queries.len() {
            let alone = Embeddings::from_rows(&[queries.row(i)]).unwrap();
            assert_eq!(model.predict(&alone).unwrap()[0], together[i], "{density:?}");
        }
    }
}
