//! From class probabilities and density to the three uncertainties of one prediction.
//!
//! $$U_a = 1 - \max_c \eta_c, \qquad \tau^2 = \frac{\|K\|_2^2\, v(\eta)}{N h^d \hat p(x)}, \qquad
//! U_e = 2\sqrt{2/\pi}\,\tau, \qquad U_t = U_a + U_e$$
//!
//! Higher is less certain, always.

use crate::log_space::log_add;
use crate::params::Variance;
use crate::posterior::Summary;
use crate::smoother::Local;

/// What is said of one query. Logarithms are natural, and finite wherever the value is positive, even where the
/// value itself overflows or underflows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// The number of the predicted class (its label: [`Predictions::label`](crate::Predictions::label)).
    pub class: usize,
    /// $\max_c \eta_c$, the probability of that class.
    pub probability: f64,
    /// $U_a$: the chance of error that more data would not remove.
    pub aleatoric: f64,
    /// $\ln U_e$; `-inf` when the estimate has no variance (only possible with a prior weight of 0 or a single
    /// class).
    pub log_epistemic: f64,
    /// $\ln U_t$.
    pub log_total: f64,
    /// $\ln \hat p(x)$.
    pub log_density: f64,
    /// $\ln \tau$ of the most variable class: what the reject rule needs, whatever the variance term of $U_e$.
    pub log_standard_error: f64,
}

/// $\ln 2\sqrt{2/\pi}$: an absolute normal deviation is $\sqrt{2/\pi}$ standard deviations on average, and the
/// excess risk is at most twice the error of $\eta$.
fn log_excess() -> f64 {
    1.5 * std::f64::consts::LN_2 - 0.5 * std::f64::consts::PI.ln()
}

impl Prediction {
    pub(crate) fn new(summary: &Summary, local: &Local, variance: Variance) -> Self {
        let log_variance = match variance {
            Variance::Sum => summary.log_variance_sum,
            Variance::Max => summary.log_variance_max,
        };
        let log_epistemic = log_excess() + 0.5 * (log_variance + local.log_variance_scale);
        Self {
            class: summary.class as usize,
            probability: summary.log_top.exp(),
            aleatoric: summary.log_error.exp(),
            log_epistemic,
            log_total: log_add(summary.log_error, log_epistemic),
            log_density: local.log_density,
            log_standard_error: 0.5 * (summary.log_variance_max + local.log_variance_scale),
        }
    }

    /// $U_e$: what is not known for lack of training data near the query. Infinite where it exceeds `f64`.
    pub fn epistemic(&self) -> f64 {
        self.log_epistemic.exp()
    }

    /// $U_t = U_a + U_e$, a bound on the expected risk of this prediction.
    pub fn total(&self) -> f64 {
        self.log_total.exp()
    }
}
