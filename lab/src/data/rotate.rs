//! Rotated MNIST: each digit turned by an angle of its own.

use nuq_neighbors::SeededRng;

use crate::Images;

/// The paper's angles, in degrees.
pub const DEGREES: (f64, f64) = (30.0, 45.0);

/// Every picture turned counterclockwise by an angle drawn between two, in degrees.
pub fn rotated(images: &Images, degrees: (f64, f64), seed: u64) -> Images {
    let mut rng = SeededRng::new(seed);
    let mut turned = images.empty_like(images.len());
    let plane = images.height * images.width;
    for i in 0..images.len() {
        let angle = (degrees.0 + (degrees.1 - degrees.0) * rng.uniform()).to_radians();
        for channel in images.picture(i).chunks(plane) {
            turn(channel, images.height, images.width, angle, &mut turned.pixels);
        }
    }
    turned
}

/// One plane turned around its center, values between pixels bilinear, black beyond the edges.
fn turn(plane: &[f32], height: usize, width: usize, angle: f64, into: &mut Vec<f32>) {
    let (sine, cosine) = angle.sin_cos();
    let middle = |size: usize| 0.5 * (size as f64 - 1.0);
    let (middle_x, middle_y) = (middle(width), middle(height));
    for row in 0..height {
        for column in 0..width {
            let (x, y) = (column as f64 - middle_x, row as f64 - middle_y);
            // Where the pixel came from. Rows count downwards, so that this is the turn back.
            let (from_x, from_y) = (cosine * x - sine * y + middle_x, sine * x + cosine * y + middle_y);
            into.push(bilinear(plane, height, width, from_x, from_y));
        }
    }
}

fn bilinear(plane: &[f32], height: usize, width: usize, x: f64, y: f64) -> f32 {
    let (left, top) = (x.floor(), y.floor());
    let (right_part, bottom_part) = (x - left, y - top);
    let value = |column: f64, row: f64| {
        let inside = (0.0..width as f64).contains(&column) && (0.0..height as f64).contains(&row);
        if inside { f64::from(plane[row as usize * width + column as usize]) } else { 0.0 }
    };
    let upper = (1.0 - right_part) * value(left, top) + right_part * value(left + 1.0, top);
    let lower = (1.0 - right_part) * value(left, top + 1.0) + right_part * value(left + 1.0, top + 1.0);
    ((1.0 - bottom_part) * upper + bottom_part * lower) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plus() -> Images {
        // 3 × 3, lit to the right of the center.
        Images::new(1, 3, 3, vec![0.0, 0.0, 0.0, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0]).unwrap()
    }

    #[test]
    fn a_quarter_turn_moves_right_to_top() {
        let turned = rotated(&plus(), (90.0, 90.0), 0);
        let expected = [0.0, 1.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0];
        turned.pixels.iter().zip(expected).for_each(|(got, expected)| assert!((got - expected).abs() < 1e-6));
    }

    #[test]
    fn no_turn_changes_nothing_and_the_seed_decides() {
        assert_eq!(rotated(&plus(), (0.0, 0.0), 0), plus());
        assert_eq!(rotated(&plus(), DEGREES, 1), rotated(&plus(), DEGREES, 1));
        assert_ne!(rotated(&plus(), DEGREES, 1), rotated(&plus(), DEGREES, 2));
        let bright = rotated(&plus(), DEGREES, 1).pixels;
        assert!(bright.iter().all(|v| (0.0..=1.0).contains(v)));
    }
}
