//! Smooth noise (Hein et al. 2019): pictures of nothing, but as smooth and as bright as real ones.
//!
//! Uniform noise, blurred by a Gaussian whose width is drawn for each picture, then stretched to the full range. (Half of the authors'
//! pictures start from real ones with their pixels shuffled; here all start from noise, and need no others.)

use crate::stream::stream;
use crate::{Images, LabError};

/// The standard deviations of the blur, in pixels.
const BLUR: (f64, f64) = (1.0, 2.5);

/// `n` pictures of a shape.
pub fn smooth_noise(n: usize, shape: [usize; 3], seed: u64) -> Result<Images, LabError> {
    let [channels, height, width] = shape;
    let mut rng = stream("smooth noise", seed, 0);
    let mut pixels = Vec::with_capacity(n * channels * height * width);
    for _ in 0..n {
        let weights = weights(BLUR.0 + (BLUR.1 - BLUR.0) * rng.uniform());
        let start = pixels.len();
        for _ in 0..channels {
            let noise: Vec<f32> = (0..height * width).map(|_| rng.uniform() as f32).collect();
            let along_columns = blurred(&noise, height, width, &weights);
            pixels.extend(blurred(&along_columns, width, height, &weights));
        }
        stretch(&mut pixels[start..]);
    }
    Images::new(channels, height, width, pixels)
}

/// A Gaussian's weights from its middle out, such that all of both sides sum to one.
fn weights(deviation: f64) -> Vec<f64> {
    let reach = (4.0 * deviation).ceil() as i32;
    let weights: Vec<f64> = (0..=reach).map(|i| (-0.5 * (f64::from(i) / deviation).powi(2)).exp()).collect();
    let total = 2.0 * weights.iter().sum::<f64>() - weights[0];
    weights.into_iter().map(|weight| weight / total).collect()
}

/// Each row blurred, columns and rows exchanged: twice of it blurs in both directions.
fn blurred(plane: &[f32], height: usize, width: usize, weights: &[f64]) -> Vec<f32> {
    let blur = |row: &[f32], at: usize| {
        let value = |i: isize| f64::from(row[mirrored(at as isize + i, width)]);
        let beside = weights.iter().enumerate().skip(1);
        let sides: f64 = beside.map(|(i, weight)| weight * (value(i as isize) + value(-(i as isize)))).sum();
        (weights[0] * value(0) + sides) as f32
    };
    let rows: Vec<f32> =
        plane.chunks(width).flat_map(|row| (0..width).map(move |at| blur(row, at))).collect();
    debug_assert_eq!(rows.len(), height * width);
    transposed(&rows, width)
}

/// The picture beyond an edge is its own mirror image.
fn mirrored(at: isize, size: usize) -> usize {
    let (size, period) = (size as isize, 2 * size as isize);
    let at = at.rem_euclid(period);
    (if at < size { at } else { period - 1 - at }) as usize
}

fn transposed(plane: &[f32], width: usize) -> Vec<f32> {
    (0..width).flat_map(|column| plane.iter().skip(column).step_by(width).copied()).collect()
}

/// To values from 0 to 1.
fn stretch(pixels: &mut [f32]) {
    let (low, high) =
        pixels.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &v| (low.min(v), high.max(v)));
    let range = if high > low { high - low } else { 1.0 };
    pixels.iter_mut().for_each(|v| *v = (*v - low) / range);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_smooth_and_of_full_contrast() {
        let images = smooth_noise(4, [1, 28, 28], 2).unwrap();
        for i in 0..4 {
            let picture = images.picture(i);
            let (low, high) =
                (picture.iter().copied().fold(1.0, f32::min), picture.iter().copied().fold(0.0, f32::max));
            assert_eq!((low, high), (0.0, 1.0));
            let jumps =
                picture.chunks(28).flat_map(|row| row.windows(2)).map(|pair| (pair[1] - pair[0]).abs());
            // Neighbors of raw noise differ by a third on average.
            assert!(jumps.sum::<f32>() / (28.0 * 27.0) < 0.15);
        }
        assert_eq!(images, smooth_noise(4, [1, 28, 28], 2).unwrap());
    }

    #[test]
    fn a_blur_keeps_what_is_even_and_spreads_a_point_evenly() {
        let weights = weights(1.5);
        assert!(blurred(&[0.5; 30], 5, 6, &weights).iter().all(|v| (v - 0.5).abs() < 1e-6));
        let mut point = vec![0.0; 21 * 21];
        point[10 * 21 + 10] = 1.0;
        let spread = blurred(&blurred(&point, 21, 21, &weights), 21, 21, &weights);
        assert!((spread[10 * 21 + 12] - spread[12 * 21 + 10]).abs() < 1e-7);
        assert!((f64::from(spread[10 * 21 + 10]) - weights[0] * weights[0]).abs() < 1e-7);
        assert_eq!([-1, -2, 21, 22].map(|at| mirrored(at, 21)), [0, 1, 20, 19]);
    }
}
