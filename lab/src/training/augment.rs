//! Random augmentation of images, for training and test-time augmentation.

use nuq_neighbors::SeededRng;
use serde::{Deserialize, Serialize};

use crate::Images;

/// Type and strength of the augmentation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Augment {
    /// Random crop of the original size after padding with this many black pixels on each side.
    pub padding: usize,
    /// Horizontal flip with probability 1/2. Not suitable for digits.
    pub flip: bool,
    /// Rotation by a random angle in `[−max_degrees, max_degrees]`.
    pub max_degrees: f64,
}

impl Augment {
    /// No augmentation.
    pub const NONE: Self = Self { padding: 0, flip: false, max_degrees: 0.0 };
    /// Augmentation for training on CIFAR.
    pub const CIFAR_TRAINING: Self = Self { padding: 4, flip: true, max_degrees: 0.0 };
    /// The paper's test-time augmentation for CIFAR: crops with padding 4, flips, rotations up to 15°.
    pub const CIFAR_TTA: Self = Self { padding: 4, flip: true, max_degrees: 15.0 };
    /// Test-time augmentation for digits: without flips, and with padding 2, because a larger shift could cut off strokes.
    pub const DIGITS_TTA: Self = Self { padding: 2, flip: false, max_degrees: 15.0 };

    /// Whether images are unchanged.
    fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// Augments each image independently: rotation, then flip, then crop.
    #[must_use]
    pub fn apply(&self, images: &Images, rng: &mut SeededRng) -> Images {
        let mut augmented = images.clone();
        if self.is_none() {
            return augmented;
        }
        for image in augmented.pixels.chunks_exact_mut(images.image_len()) {
            self.apply_to(image, images.shape(), rng);
        }
        augmented
    }

    fn apply_to(&self, image: &mut [f32], shape: [usize; 3], rng: &mut SeededRng) {
        if self.max_degrees > 0.0 {
            let degrees = (2.0 * rng.uniform() - 1.0) * self.max_degrees;
            rotate(image, shape, degrees);
        }
        if self.flip && rng.below(2) == 1 {
            flip(image, shape);
        }
        if self.padding > 0 {
            let offset =
                |rng: &mut SeededRng| rng.below(2 * self.padding + 1) as isize - self.padding as isize;
            let (down, right) = (offset(rng), offset(rng));
            shift(image, shape, down, right);
        }
    }
}

/// Rotates an image counterclockwise about its center, in place, with bilinear interpolation. Pixels outside the image are black.
pub fn rotate(image: &mut [f32], [_, height, width]: [usize; 3], degrees: f64) {
    let (sin, cos) = degrees.to_radians().sin_cos();
    let (center_row, center_column) = ((height as f64 - 1.0) / 2.0, (width as f64 - 1.0) / 2.0);
    for plane in image.chunks_exact_mut(height * width) {
        let original = plane.to_vec();
        for (at, value) in plane.iter_mut().enumerate() {
            let (y, x) = ((at / width) as f64 - center_row, (at % width) as f64 - center_column);
            // Source position of the pixel. Row numbers increase downwards.
            let row = cos * y + sin * x + center_row;
            let column = -sin * y + cos * x + center_column;
            *value = interpolate(&original, height, width, row, column);
        }
    }
}

fn interpolate(plane: &[f32], height: usize, width: usize, row: f64, column: f64) -> f32 {
    let (top, left) = (row.floor(), column.floor());
    let (down, right) = (row - top, column - left);
    let pixel = |row: f64, column: f64| {
        let inside = row >= 0.0 && column >= 0.0 && row < height as f64 && column < width as f64;
        if inside { f64::from(plane[row as usize * width + column as usize]) } else { 0.0 }
    };
    let upper = (1.0 - right) * pixel(top, left) + right * pixel(top, left + 1.0);
    let lower = (1.0 - right) * pixel(top + 1.0, left) + right * pixel(top + 1.0, left + 1.0);
    ((1.0 - down) * upper + down * lower) as f32
}

/// Flips an image horizontally, in place.
fn flip(image: &mut [f32], [_, _, width]: [usize; 3]) {
    image.chunks_exact_mut(width).for_each(<[f32]>::reverse);
}

/// Shifts an image in place and fills with black. This is a crop of the padded image.
fn shift(image: &mut [f32], [_, height, width]: [usize; 3], down: isize, right: isize) {
    for plane in image.chunks_exact_mut(height * width) {
        let original = plane.to_vec();
        for (at, value) in plane.iter_mut().enumerate() {
            let row = (at / width).checked_add_signed(-down).filter(|&row| row < height);
            let column = (at % width).checked_add_signed(-right).filter(|&column| column < width);
            *value = row.zip(column).map_or(0.0, |(row, column)| original[row * width + column]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQUARE: [usize; 3] = [1, 3, 3];

    #[test]
    fn rotation_by_90_degrees_moves_the_right_edge_to_the_top() {
        let mut image = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
        rotate(&mut image, SQUARE, 90.0);
        let expected = [3.0, 6.0, 9.0, 2.0, 5.0, 8.0, 1.0, 4.0, 7.0];
        assert!(image.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{image:?}");
    }

    #[test]
    fn small_rotation_keeps_the_center_and_interpolates() {
        let mut image = vec![0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0];
        rotate(&mut image, SQUARE, 30.0);
        assert!((image[4] - 1.0).abs() < 1e-6);
        // The source of the right pixel is cos 30° to the right of the center and sin 30° below the center, halfway between the middle row
        // and the empty bottom row. The pixel therefore has half of the value of the middle row.
        assert!((image[5] - 0.5).abs() < 1e-6, "{image:?}");
        assert!(image[2] > 0.0, "{image:?}");
    }

    #[test]
    fn flip_reverses_each_row() {
        let mut image = vec![1.0, 2.0, 3.0, 4.0];
        flip(&mut image, [1, 2, 2]);
        assert_eq!(image, [2.0, 1.0, 4.0, 3.0]);
    }

    #[test]
    fn shift_fills_with_black() {
        let mut image = vec![1.0, 2.0, 3.0, 4.0];
        shift(&mut image, [1, 2, 2], 1, -1);
        assert_eq!(image, [0.0, 0.0, 2.0, 0.0]);
    }

    #[test]
    fn augmentation_is_reproducible_and_differs_between_images() {
        let one = Images::new(3, 4, 4, (0..48).map(|i| i as f32 / 48.0).collect()).unwrap();
        let images = one.select(&[0, 0, 0]);
        let augmented = Augment::CIFAR_TTA.apply(&images, &mut SeededRng::new(1));
        assert_eq!(augmented, Augment::CIFAR_TTA.apply(&images, &mut SeededRng::new(1)));
        assert_ne!(augmented, Augment::CIFAR_TTA.apply(&images, &mut SeededRng::new(2)));
        assert_ne!(augmented.image(0), augmented.image(1));
        assert!(augmented.pixels.iter().all(|value| (0.0..=1.0).contains(value)));
        assert_eq!(Augment::NONE.apply(&images, &mut SeededRng::new(1)), images);
    }
}
