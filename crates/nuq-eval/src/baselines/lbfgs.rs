//! L-BFGS (Nocedal 1980) for smooth convex functions: Newton's method with a curvature that is learned from the last steps, on
//! top of one that is given.
//!
//! A step goes against the gradient, multiplied by what the last pairs of steps $s$ and changes of the gradient $y$ say of the
//! inverse Hessian; where they say nothing, by a given inverse $B^{-1}$ with the factor $s^\top y / y^\top B^{-1} y$. It is
//! halved until the function falls as much as its slope promises (Armijo 1966).

use faer::Mat;

/// A function to be minimized over matrices.
pub(super) trait Objective {
    /// The value, and the gradient.
    fn at(&self, point: &Mat<f64>) -> (f64, Mat<f64>);

    /// $B^{-1} g$ with a positive definite $B$ that is like the Hessian.
    fn precondition(&self, gradient: &Mat<f64>) -> Mat<f64>;
}

/// Steps that are remembered.
const MEMORY: usize = 10;
/// Steps at most; a strongly convex function with a fair $B$ takes some dozens.
const MOST_STEPS: usize = 500;
/// Halvings of one step at most: beyond them rounding is all that is left to win.
const MOST_HALVINGS: usize = 40;
/// The share of the slope's promise that a step must keep.
const ARMIJO: f64 = 1e-4;

/// One step and what it did to the gradient.
struct Pair {
    step: Mat<f64>,
    change: Mat<f64>,
    /// $s^\top y$.
    curvature: f64,
}

/// Goes down from `point` until the gradient is no longer than `tolerance`, or nothing is left to win.
pub(super) fn minimize(objective: &impl Objective, mut point: Mat<f64>, tolerance: f64) -> Mat<f64> {
    let (mut value, mut gradient) = objective.at(&point);
    let mut pairs: Vec<Pair> = Vec::new();
    for _ in 0..MOST_STEPS {
        if gradient.norm_l2() <= tolerance {
            break;
        }
        let direction = descent(objective, &gradient, &pairs);
        let Some((step, next, changed)) = search(objective, &point, value, &gradient, direction) else {
            break;
        };
        point += &step;
        let change = &changed - &gradient;
        (value, gradient) = (next, changed);
        let curvature = dot(&step, &change);
        // Rounding may take what little curvature is left at the bottom.
        if curvature > 0.0 {
            pairs.truncate(MEMORY - 1);
            pairs.insert(0, Pair { step, change, curvature });
        }
    }
    point
}

/// The way down, by the two loops over the remembered pairs, of which the last comes first.
fn descent(objective: &impl Objective, gradient: &Mat<f64>, pairs: &[Pair]) -> Mat<f64> {
    let mut rest = gradient.clone();
    let mut shares = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let share = dot(&pair.step, &rest) / pair.curvature;
        rest -= faer::Scale(share) * &pair.change;
        shares.push(share);
    }
    let mut way = objective.precondition(&rest);
    if let Some(last) = pairs.first() {
        way *= faer::Scale(last.curvature / dot(&last.change, &objective.precondition(&last.change)));
    }
    for (pair, share) in pairs.iter().zip(shares).rev() {
        let again = dot(&pair.change, &way) / pair.curvature;
        way += faer::Scale(share - again) * &pair.step;
    }
    way *= faer::Scale(-1.0);
    way
}

/// The longest of the direction's halvings that goes down far enough, with value and gradient there.
fn search(
    objective: &impl Objective,
    point: &Mat<f64>,
    value: f64,
    gradient: &Mat<f64>,
    mut step: Mat<f64>,
) -> Option<(Mat<f64>, f64, Mat<f64>)> {
    for _ in 0..MOST_HALVINGS {
        let promised = dot(gradient, &step);
        let (next, changed) = objective.at(&(point + &step));
        if next <= value + ARMIJO * promised {
            return Some((step, next, changed));
        }
        step *= faer::Scale(0.5);
    }
    None
}

/// $\sum_{ij} a_{ij} b_{ij}$.
fn dot(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
    a.col_iter().zip(b.col_iter()).map(|(a, b)| a.iter().zip(b.iter()).map(|(a, b)| a * b).sum::<f64>()).sum()
}
