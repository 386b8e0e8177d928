//! Uncertainty scores of one row of logits. A higher score means less certain: `max_prob` is `1 − max p`, and `max_logit` is `−max z`.

/// `Σ_{j ≠ c} exp(z_j − z_c)`, the odds against class `c`.
fn odds_against(z: &[f64], c: usize) -> f64 {
    let mut odds = 0.0;
    for j in 0..z.len() {
        if j != c {
            odds += (z[j] - z[c]).exp();
        }
    }
    odds
}

/// `p_c = 1 / (1 + odds against c)`.
pub fn softmax(z: &[f64]) -> Vec<f64> {
    (0..z.len()).map(|c| 1.0 / (1.0 + odds_against(z, c))).collect()
}

/// `1 − p_c`, as the sum of the other probabilities.
fn complement(p: &[f64], c: usize) -> f64 {
    (0..p.len()).filter(|&j| j != c).map(|j| p[j]).sum()
}

/// The classes in descending order of probability.
fn by_probability(p: &[f64]) -> Vec<usize> {
    let mut classes: Vec<usize> = (0..p.len()).collect();
    classes.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
    classes
}

/// `1 − max_c p_c`.
pub fn max_prob(z: &[f64]) -> f64 {
    let p = softmax(z);
    complement(&p, by_probability(&p)[0])
}

/// `−Σ_c p_c ln p_c` with `−ln p_c = ln(1 + odds against c)`.
pub fn entropy(z: &[f64]) -> f64 {
    let mut sum = 0.0;
    for (c, p) in softmax(z).into_iter().enumerate() {
        if p > 0.0 {
            sum += p * odds_against(z, c).ln_1p();
        }
    }
    sum
}

/// `1 − (p₁ − p₂)` with the two largest probabilities; `p₂ = 0` for a single class.
pub fn margin(z: &[f64]) -> f64 {
    let p = softmax(z);
    let order = by_probability(&p);
    complement(&p, order[0]) + order.get(1).map_or(0.0, |&second| p[second])
}

/// `−T ln Σ_c exp(z_c / T)`, with the largest term factored out of the sum.
pub fn energy(z: &[f64], temperature: f64) -> f64 {
    let top = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = z.iter().map(|v| ((v - top) / temperature).exp()).sum();
    -(top + temperature * sum.ln())
}

/// `−max_c z_c`.
pub fn max_logit(z: &[f64]) -> f64 {
    z.iter().map(|v| -v).fold(f64::INFINITY, f64::min)
}

/// `Σ_c p_c^γ (1 − p_c)^γ` over the `top` most probable classes.
pub fn generalized_entropy(z: &[f64], gamma: f64, top: usize) -> f64 {
    let p = softmax(z);
    let most_probable = by_probability(&p).into_iter().take(top);
    most_probable.map(|c| p[c].powf(gamma) * complement(&p, c).powf(gamma)).sum()
}
