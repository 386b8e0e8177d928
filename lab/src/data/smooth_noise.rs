//! Smooth noise (Hein et al. 2019): noise images with the smoothness and contrast of natural images.
//!
//! Uniform noise is blurred by a Gaussian of random width and rescaled to the full range. (Half of the authors' images are permuted
//! natural images instead of noise. Here all images start from noise.)

use crate::random::random_stream;
use crate::{Images, LabError};

/// Range of the standard deviation of the blur, in pixels.
const BLUR: (f64, f64) = (1.0, 2.5);

/// Generates `n` images of a shape (channels, rows, columns).
///
/// # Errors
/// If a dimension of the shape is zero.
pub fn smooth_noise(n: usize, shape: [usize; 3], seed: u64) -> Result<Images, LabError> {
    let [channels, height, width] = shape;
    // The check of the shape, before the blur divides pixels into rows.
    Images::new(channels, height, width, vec![])?;
    let mut rng = random_stream("smooth noise", seed, 0);
    let mut pixels = Vec::with_capacity(n * channels * height * width);
    for _ in 0..n {
        let weights = gaussian_weights(BLUR.0 + (BLUR.1 - BLUR.0) * rng.uniform());
        let start = pixels.len();
        for _ in 0..channels {
            let noise: Vec<f32> = (0..height * width).map(|_| rng.uniform() as f32).collect();
            let blurred_once = blur_rows(&noise, height, width, &weights);
            pixels.extend(blur_rows(&blurred_once, width, height, &weights));
        }
        rescale(&mut pixels[start..]);
    }
    Images::new(channels, height, width, pixels)
}

/// Gaussian weights at offsets 0, 1, …, normalized so that the symmetric filter sums to one.
fn gaussian_weights(deviation: f64) -> Vec<f64> {
    let radius = (4.0 * deviation).ceil() as i32;
    let weights: Vec<f64> = (0..=radius).map(|i| (-0.5 * (f64::from(i) / deviation).powi(2)).exp()).collect();
    let total = 2.0 * weights.iter().sum::<f64>() - weights[0];
    weights.into_iter().map(|weight| weight / total).collect()
}

/// Blurs each row and transposes the result. Two calls blur in both directions.
fn blur_rows(plane: &[f32], height: usize, width: usize, weights: &[f64]) -> Vec<f32> {
    let blur = |row: &[f32], at: usize| {
        let value = |i: isize| f64::from(row[reflected(at as isize + i, width)]);
        let offsets = weights.iter().enumerate().skip(1);
        let sides: f64 = offsets.map(|(i, weight)| weight * (value(i as isize) + value(-(i as isize)))).sum();
        (weights[0] * value(0) + sides) as f32
    };
    let rows: Vec<f32> =
        plane.chunks(width).flat_map(|row| (0..width).map(move |at| blur(row, at))).collect();
    debug_assert_eq!(rows.len(), height * width);
    transposed(&rows, width)
}

/// Reflects an index at the image borders.
fn reflected(at: isize, size: usize) -> usize {
    let (size, period) = (size as isize, 2 * size as isize);
    let at = at.rem_euclid(period);
    (if at < size { at } else { period - 1 - at }) as usize
}

fn transposed(plane: &[f32], width: usize) -> Vec<f32> {
    (0..width).flat_map(|column| plane.iter().skip(column).step_by(width).copied()).collect()
}

/// Rescales values to `[0, 1]`.
fn rescale(pixels: &mut [f32]) {
    let (low, high) =
        pixels.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &v| (low.min(v), high.max(v)));
    let range = if high > low { high - low } else { 1.0 };
    pixels.iter_mut().for_each(|v| *v = (*v - low) / range);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_smooth_with_full_contrast() {
        let images = smooth_noise(4, [1, 28, 28], 2).unwrap();
        for i in 0..4 {
            let image = images.image(i);
            let (low, high) =
                (image.iter().copied().fold(1.0, f32::min), image.iter().copied().fold(0.0, f32::max));
            assert_eq!((low, high), (0.0, 1.0));
            let jumps = image.chunks(28).flat_map(|row| row.windows(2)).map(|pair| (pair[1] - pair[0]).abs());
            // In raw uniform noise, adjacent pixels differ by 1/3 on average.
            assert!(jumps.sum::<f32>() / (28.0 * 27.0) < 0.15);
        }
        assert_eq!(images, smooth_noise(4, [1, 28, 28], 2).unwrap());
    }

    #[test]
    fn a_dimension_of_zero_is_an_error() {
        for shape in [[0, 4, 4], [1, 0, 4], [1, 4, 0]] {
            assert!(matches!(smooth_noise(2, shape, 0), Err(LabError::EmptyShape { .. })), "{shape:?}");
        }
    }

    #[test]
    fn blur_preserves_constants_and_is_symmetric() {
        let weights = gaussian_weights(1.5);
        assert!(blur_rows(&[0.5; 30], 5, 6, &weights).iter().all(|v| (v - 0.5).abs() < 1e-6));
        let mut point = vec![0.0; 21 * 21];
        point[10 * 21 + 10] = 1.0;
        let spread = blur_rows(&blur_rows(&point, 21, 21, &weights), 21, 21, &weights);
        assert!((spread[10 * 21 + 12] - spread[12 * 21 + 10]).abs() < 1e-7);
        assert!((f64::from(spread[10 * 21 + 10]) - weights[0] * weights[0]).abs() < 1e-7);
        assert_eq!([-1, -2, 21, 22].map(|at| reflected(at, 21)), [0, 1, 20, 19]);
    }
}
