//! Rotated MNIST: each digit is rotated by a random angle.

use crate::Images;
use crate::random::random_stream;
use crate::training::rotate;

/// Range of the paper's rotation angles, in degrees.
pub const DEGREES: (f64, f64) = (30.0, 45.0);

/// Rotates every image counterclockwise by an angle drawn uniformly from the range `degrees`.
#[must_use]
pub fn rotated(images: &Images, degrees: (f64, f64), seed: u64) -> Images {
    let mut rng = random_stream("rotations", seed, 0);
    let mut rotated = images.clone();
    for image in rotated.pixels.chunks_exact_mut(images.image_len()) {
        rotate(image, images.shape(), degrees.0 + (degrees.1 - degrees.0) * rng.uniform());
    }
    rotated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_is_counterclockwise_random_and_reproducible() {
        // The pixel to the right of the center is the brightest. A counterclockwise rotation moves it towards the upper right corner,
        // so this corner (pixel 2) becomes brighter, and the lower right corner (pixel 8) stays dark.
        let one = Images::new(1, 3, 3, vec![0.0, 0.0, 0.0, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0]).unwrap();
        let images = one.select(&[0; 20]);
        let result = rotated(&images, DEGREES, 1);
        assert!((0..20).all(|i| result.image(i)[2] > 0.1 && result.image(i)[8] == 0.0));
        assert_ne!(result.image(0), result.image(1));
        assert_eq!(result, rotated(&images, DEGREES, 1));
        assert_eq!(rotated(&images, (0.0, 0.0), 1), images);
    }
}
