//! Encodes values as little-endian bytes for the database. Unlike JSON, this format can represent infinite numbers.

/// Appends values to bytes.
#[derive(Default)]
pub(super) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(super) fn f64(&mut self, value: f64) -> &mut Self {
        self.u64(value.to_bits())
    }

    /// `None` is written as NaN. The values themselves are never NaN.
    pub(super) fn optional(&mut self, value: Option<f64>) -> &mut Self {
        self.f64(value.unwrap_or(f64::NAN))
    }

    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.u64(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
        self
    }

    pub(super) fn f64s(&mut self, values: &[f64]) -> &mut Self {
        self.u64(values.len() as u64);
        for value in values {
            self.f64(*value);
        }
        self
    }

    pub(super) fn f32s(&mut self, values: &[f32]) -> &mut Self {
        self.u64(values.len() as u64);
        self.bytes.extend_from_slice(&f32_bytes(values));
        self
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads values that an [`Encoder`] wrote. Each function returns `None` if the bytes end early or are not valid.
pub(super) struct Decoder<'b> {
    bytes: &'b [u8],
}

impl<'b> Decoder<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes }
    }

    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(super) fn f64(&mut self) -> Option<f64> {
        self.u64().map(f64::from_bits)
    }

    /// Reads a value that [`Encoder::optional`] wrote.
    pub(super) fn optional(&mut self) -> Option<Option<f64>> {
        self.f64().map(|value| Some(value).filter(|value| !value.is_nan()))
    }

    fn length(&mut self, size: usize) -> Option<usize> {
        usize::try_from(self.u64()?).ok()?.checked_mul(size)
    }

    pub(super) fn text(&mut self) -> Option<String> {
        let length = self.length(1)?;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }

    pub(super) fn f64s(&mut self) -> Option<Vec<f64>> {
        let length = self.length(8)?;
        Some(self.take(length)?.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
    }

    pub(super) fn f32s(&mut self) -> Option<Vec<f32>> {
        let length = self.length(4)?;
        Some(f32s(self.take(length)?))
    }
}

pub(super) fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub(super) fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

pub(super) fn u32_bytes(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub(super) fn u32s(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_were_written() {
        let mut encoder = Encoder::default();
        encoder.u64(7).f64(f64::NEG_INFINITY).optional(None).optional(Some(0.5)).text("é");
        encoder.f64s(&[1.0, f64::INFINITY]).f32s(&[1.5]);
        let bytes = encoder.finish();
        let mut decoder = Decoder::new(&bytes);
        assert_eq!((decoder.u64(), decoder.f64()), (Some(7), Some(f64::NEG_INFINITY)));
        assert_eq!((decoder.optional(), decoder.optional()), (Some(None), Some(Some(0.5))));
        assert_eq!(decoder.text().as_deref(), Some("é"));
        assert_eq!(decoder.f64s(), Some(vec![1.0, f64::INFINITY]));
        assert_eq!(decoder.f32s(), Some(vec![1.5]));
        assert_eq!(decoder.u64(), None);
    }

    #[test]
    fn lengths_beyond_the_bytes_are_decoded_as_none() {
        for length in [3, u64::MAX, 1 << 61] {
            let mut encoder = Encoder::default();
            encoder.u64(length);
            let bytes = encoder.finish();
            assert_eq!(Decoder::new(&bytes).f64s(), None);
            assert_eq!(Decoder::new(&bytes).text(), None);
        }
    }
}
