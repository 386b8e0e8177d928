//! L-BFGS (Nocedal 1980) with a preconditioner, for smooth convex functions of a matrix.
//!
//! The search direction is the negative gradient, multiplied by an approximation of the inverse Hessian. The
//! approximation is computed from the last pairs of steps `s` and gradient changes `y`. It starts from a given matrix
//! `B⁻¹`, scaled by `sᵀ y / yᵀ B⁻¹ y`. A step is halved until the function decreases sufficiently (Armijo 1966).

use faer::Mat;

/// A function to be minimized.
pub(super) trait Objective {
    /// The value and the gradient at a point.
    fn at(&self, point: &Mat<f64>) -> (f64, Mat<f64>);

    /// `B⁻¹ g` with a positive definite approximation `B` of the Hessian.
    fn precondition(&self, gradient: &Mat<f64>) -> Mat<f64>;
}

/// Number of stored pairs.
const MEMORY: usize = 10;
/// Largest number of steps. A strongly convex function with a good `B` needs a few dozen.
const MAX_STEPS: usize = 500;
/// Largest number of halvings of a step. After so many halvings, any decrease would be a rounding error.
const MAX_HALVINGS: usize = 40;
/// Required decrease of the function, relative to the decrease of its linear approximation.
const ARMIJO: f64 = 1e-4;

/// A step with the change of the gradient.
struct Pair {
    step: Mat<f64>,
    change: Mat<f64>,
    /// `sᵀ y`.
    curvature: f64,
}

/// Minimizes from `point` until the norm of the gradient is at most `tolerance`, no step decreases the function, or
/// [`MAX_STEPS`] steps were made.
pub(super) fn minimize(objective: &impl Objective, mut point: Mat<f64>, tolerance: f64) -> Mat<f64> {
    let (mut value, mut gradient) = objective.at(&point);
    let mut pairs: Vec<Pair> = Vec::new();
    for _ in 0..MAX_STEPS {
        if gradient.norm_l2() <= tolerance {
            break;
        }
        let direction = descent(objective, &gradient, &pairs);
        let Some((step, next_value, next_gradient)) =
            line_search(objective, &point, value, &gradient, direction)
        else {
            break;
        };
        point += &step;
        let change = &next_gradient - &gradient;
        (value, gradient) = (next_value, next_gradient);
        let curvature = dot(&step, &change);
        // Near the minimum, rounding errors may make the curvature negative. Such pairs are not used.
        if curvature > 0.0 {
            pairs.truncate(MEMORY - 1);
            pairs.insert(0, Pair { step, change, curvature });
        }
    }
    point
}

/// The search direction, by the two-loop recursion over the stored pairs, latest first.
fn descent(objective: &impl Objective, gradient: &Mat<f64>, pairs: &[Pair]) -> Mat<f64> {
    let mut rest = gradient.clone();
    let mut coefficients = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let coefficient = dot(&pair.step, &rest) / pair.curvature;
        rest -= faer::Scale(coefficient) * &pair.change;
        coefficients.push(coefficient);
    }
    let mut direction = objective.precondition(&rest);
    if let Some(last) = pairs.first() {
        direction *= faer::Scale(last.curvature / dot(&last.change, &objective.precondition(&last.change)));
    }
    for (pair, coefficient) in pairs.iter().zip(coefficients).rev() {
        let correction = dot(&pair.change, &direction) / pair.curvature;
        direction += faer::Scale(coefficient - correction) * &pair.step;
    }
    direction *= faer::Scale(-1.0);
    direction
}

/// Backtracking line search: halves `step` until the function decreases sufficiently. Returns the step, and the value
/// and the gradient after it. `None` if no step decreases the function sufficiently.
fn line_search(
    objective: &impl Objective,
    point: &Mat<f64>,
    value: f64,
    gradient: &Mat<f64>,
    mut step: Mat<f64>,
) -> Option<(Mat<f64>, f64, Mat<f64>)> {
    for _ in 0..MAX_HALVINGS {
        let linear_change = dot(gradient, &step);
        let (next_value, next_gradient) = objective.at(&(point + &step));
        if next_value <= value + ARMIJO * linear_change {
            return Some((step, next_value, next_gradient));
        }
        step *= faer::Scale(0.5);
    }
    None
}

/// `Σ_ij a_ij b_ij`.
fn dot(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
    a.col_iter().zip(b.col_iter()).map(|(a, b)| a.iter().zip(b.iter()).map(|(a, b)| a * b).sum::<f64>()).sum()
}
