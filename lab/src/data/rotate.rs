//! Rotated MNIST: each digit turned by an angle of its own.

use crate::Images;
use crate::stream::stream;
use crate::training::rotate;

/// The paper's angles, in degrees.
pub const DEGREES: (f64, f64) = (30.0, 45.0);

/// Every picture turned counterclockwise by an angle drawn between two, in degrees.
pub fn rotated(images: &Images, degrees: (f64, f64), seed: u64) -> Images {
    let mut rng = stream("rotations", seed, 0);
    let mut turned = images.clone();
    for picture in turned.pixels.chunks_exact_mut(images.picture_len()) {
        rotate(picture, images.shape(), degrees.0 + (degrees.1 - degrees.0) * rng.uniform());
    }
    turned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn angles_lie_between_the_two_and_follow_from_the_seed() {
        // Lit to the right of the center: the upper right corner gets light, the lower right none.
        let one = Images::new(1, 3, 3, vec![0.0, 0.0, 0.0, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0]).unwrap();
        let images = one.select(&[0; 20]);
        let turned = rotated(&images, DEGREES, 1);
        assert!((0..20).all(|i| turned.picture(i)[2] > 0.1 && turned.picture(i)[8] == 0.0));
        assert_ne!(turned.picture(0), turned.picture(1));
        assert_eq!(turned, rotated(&images, DEGREES, 1));
        assert_eq!(rotated(&images, (0.0, 0.0), 1), images);
    }
}
