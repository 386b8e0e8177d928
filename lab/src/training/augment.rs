//! Random changes of pictures that leave alone what they show: for training, and for test-time augmentation.

use nuq_neighbors::SeededRng;
use serde::{Deserialize, Serialize};

use crate::Images;

/// Which changes, and how large.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Augment {
    /// Cut out a picture of the same size after adding this many black pixels on all sides.
    pub padding: usize,
    /// Exchange left and right of every second picture. Not for digits.
    pub flip: bool,
    /// Turn by an angle between minus and plus this many degrees.
    pub max_degrees: f64,
}

impl Augment {
    /// Pictures stay as they are.
    pub const NONE: Self = Self { padding: 0, flip: false, max_degrees: 0.0 };
    /// How networks for CIFAR are trained.
    pub const CIFAR_TRAINING: Self = Self { padding: 4, flip: true, max_degrees: 0.0 };
    /// The paper's test-time augmentation for CIFAR: crops of padding 4, flips, rotations to 15°.
    pub const CIFAR_TTA: Self = Self { padding: 4, flip: true, max_degrees: 15.0 };
    /// The same for digits, which a flip would make into something else and a crop of padding 4 cut off.
    pub const DIGITS_TTA: Self = Self { padding: 2, flip: false, max_degrees: 15.0 };

    /// Whether pictures stay as they are.
    fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// Each picture changed by draws of its own: turned, then flipped, then cropped.
    pub fn apply(&self, images: &Images, rng: &mut SeededRng) -> Images {
        let mut changed = images.clone();
        if self.is_none() {
            return changed;
        }
        for picture in changed.pixels.chunks_exact_mut(images.picture_len()) {
            self.apply_to(picture, images.shape(), rng);
        }
        changed
    }

    fn apply_to(&self, picture: &mut [f32], shape: [usize; 3], rng: &mut SeededRng) {
        if self.max_degrees > 0.0 {
            let degrees = (2.0 * rng.uniform() - 1.0) * self.max_degrees;
            rotate(picture, shape, degrees);
        }
        if self.flip && rng.below(2) == 1 {
            flip(picture, shape);
        }
        if self.padding > 0 {
            let offset =
                |rng: &mut SeededRng| rng.below(2 * self.padding + 1) as isize - self.padding as isize;
            let (down, right) = (offset(rng), offset(rng));
            shift(picture, shape, down, right);
        }
    }
}

/// Turns a picture counterclockwise about its center, in place; between pixels by bilinear interpolation, black outside.
pub fn rotate(picture: &mut [f32], [_, height, width]: [usize; 3], degrees: f64) {
    let (sin, cos) = degrees.to_radians().sin_cos();
    let (middle_row, middle_column) = ((height as f64 - 1.0) / 2.0, (width as f64 - 1.0) / 2.0);
    for plane in picture.chunks_exact_mut(height * width) {
        let original = plane.to_vec();
        for (at, value) in plane.iter_mut().enumerate() {
            let (y, x) = ((at / width) as f64 - middle_row, (at % width) as f64 - middle_column);
            // Rows go down: this looks up where the pixel came from.
            let row = cos * y + sin * x + middle_row;
            let column = -sin * y + cos * x + middle_column;
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

/// Exchanges left and right, in place.
fn flip(picture: &mut [f32], [_, _, width]: [usize; 3]) {
    picture.chunks_exact_mut(width).for_each(<[f32]>::reverse);
}

/// Moves a picture, in place, black where it leaves: a crop of the padded picture.
fn shift(picture: &mut [f32], [_, height, width]: [usize; 3], down: isize, right: isize) {
    for plane in picture.chunks_exact_mut(height * width) {
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
    fn a_quarter_turn_moves_the_right_edge_to_the_top() {
        let mut picture = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
        rotate(&mut picture, SQUARE, 90.0);
        let expected = [3.0, 6.0, 9.0, 2.0, 5.0, 8.0, 1.0, 4.0, 7.0];
        assert!(picture.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{picture:?}");
    }

    #[test]
    fn a_small_turn_keeps_the_center_and_mixes_neighbors() {
        let mut picture = vec![0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0];
        rotate(&mut picture, SQUARE, 30.0);
        assert!((picture[4] - 1.0).abs() < 1e-6);
        // The pixel at the right comes from cos 30° to the right and sin 30° below: half of the row's one is left.
        assert!((picture[5] - 0.5).abs() < 1e-6, "{picture:?}");
        assert!(picture[2] > 0.0, "{picture:?}");
    }

    #[test]
    fn a_flip_keeps_rows() {
        let mut picture = vec![1.0, 2.0, 3.0, 4.0];
        flip(&mut picture, [1, 2, 2]);
        assert_eq!(picture, [2.0, 1.0, 4.0, 3.0]);
    }

    #[test]
    fn a_shift_brings_black_in() {
        let mut picture = vec![1.0, 2.0, 3.0, 4.0];
        shift(&mut picture, [1, 2, 2], 1, -1);
        assert_eq!(picture, [0.0, 0.0, 2.0, 0.0]);
    }

    #[test]
    fn changes_follow_from_the_seed_and_differ_between_pictures() {
        let one = Images::new(3, 4, 4, (0..48).map(|i| i as f32 / 48.0).collect()).unwrap();
        let images = one.select(&[0, 0, 0]);
        let changed = Augment::CIFAR_TTA.apply(&images, &mut SeededRng::new(1));
        assert_eq!(changed, Augment::CIFAR_TTA.apply(&images, &mut SeededRng::new(1)));
        assert_ne!(changed, Augment::CIFAR_TTA.apply(&images, &mut SeededRng::new(2)));
        assert_ne!(changed.picture(0), changed.picture(1));
        assert!(changed.pixels.iter().all(|value| (0.0..=1.0).contains(value)));
        assert_eq!(Augment::NONE.apply(&images, &mut SeededRng::new(1)), images);
    }
}
