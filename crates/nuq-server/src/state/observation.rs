//! The result of one scored row, as the state records it.

use nuq::calibrate::{Measure, Predictor};

use super::codec::{Decoder, Encoder};

/// The result of one scored row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Observation {
    /// Milliseconds since 1970.
    pub(crate) time_ms: u64,
    pub(crate) embedding: Vec<f32>,
    /// The predicted label; for a regressor, the predicted mean.
    pub(crate) label: String,
    /// The probability of the label; `None` for a regressor.
    pub(crate) probability: Option<f64>,
    pub(crate) aleatoric: f64,
    pub(crate) log_epistemic: f64,
    pub(crate) log_total: f64,
    pub(crate) log_density: f64,
    /// The source of the label and the uncertainties: the network if the request has logits, otherwise nuq.
    pub(crate) predictor: Predictor,
    /// The conformal p-value with respect to the held-out scores of the drift monitor; `None` if there are no such scores, or if they
    /// cannot be compared with this row. The recorder computes it.
    pub(crate) p_value: Option<f64>,
    /// The decision of each threshold that applies to this prediction.
    pub(crate) accept: Vec<(String, bool)>,
}

impl Observation {
    /// The value of a measure that thresholds compare. A larger value is less certain.
    pub(crate) fn measure(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Aleatoric => self.aleatoric,
            Measure::Epistemic => self.log_epistemic,
            Measure::Total => self.log_total,
            Measure::Density => -self.log_density,
        }
    }

    /// The memory that the observation takes, approximately.
    pub(super) fn bytes(&self) -> usize {
        256 + 4 * self.embedding.len() + self.label.len() + 64 * self.accept.len()
    }

    /// Whether some threshold rejects the row.
    pub(crate) fn is_rejected(&self) -> bool {
        self.accept.iter().any(|(_, accept)| !accept)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::default();
        encoder.u64(self.time_ms).f32s(&self.embedding).text(&self.label).optional(self.probability);
        encoder.f64(self.aleatoric).f64(self.log_epistemic).f64(self.log_total).f64(self.log_density);
        encoder.text(self.predictor.name()).optional(self.p_value).u64(self.accept.len() as u64);
        for (name, accept) in &self.accept {
            encoder.text(name).u64(u64::from(*accept));
        }
        encoder.finish()
    }

    /// Reads what [`encode`](Self::encode) wrote; `None` for other bytes.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut decoder = Decoder::new(bytes);
        let mut observation = Self {
            time_ms: decoder.u64()?,
            embedding: decoder.f32s()?,
            label: decoder.text()?,
            probability: decoder.optional()?,
            aleatoric: decoder.f64()?,
            log_epistemic: decoder.f64()?,
            log_total: decoder.f64()?,
            log_density: decoder.f64()?,
            predictor: decoder.text()?.parse().ok()?,
            p_value: decoder.optional()?,
            accept: vec![],
        };
        for _ in 0..decoder.u64()? {
            observation.accept.push((decoder.text()?, decoder.u64()? == 1));
        }
        Some(observation)
    }
}
