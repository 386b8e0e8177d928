//! Pictures in memory: what data readers give and networks take.

use std::ops::Range;

use crate::LabError;

/// Pictures of one shape, values between 0 and 1, stored picture after picture, channel after channel, row after row.
///
/// Points in the plane are pictures too: one channel, one row, two columns.
///
/// ```
/// use nuq_lab::Images;
/// let images = Images::new(1, 2, 2, vec![0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])?;
/// assert_eq!(images.len(), 2);
/// assert_eq!(images.picture(1), [0.4, 0.5, 0.6, 0.7]);
/// assert_eq!(images.select(&[1, 1]).len(), 2);
/// # Ok::<(), nuq_lab::LabError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Images {
    /// Colors: 1 for gray, 3 for red, green and blue.
    pub channels: usize,
    /// Rows of a picture.
    pub height: usize,
    /// Columns of a picture.
    pub width: usize,
    /// All values.
    pub pixels: Vec<f32>,
}

impl Images {
    /// Takes a buffer that holds whole pictures of finite values.
    pub fn new(channels: usize, height: usize, width: usize, pixels: Vec<f32>) -> Result<Self, LabError> {
        let size = channels * height * width;
        if size == 0 || !pixels.len().is_multiple_of(size) {
            return Err(LabError::PixelCount { channels, height, width, got: pixels.len() });
        }
        if let Some(at) = pixels.iter().position(|value| !value.is_finite()) {
            return Err(LabError::NotFinite { picture: at / size });
        }
        Ok(Self { channels, height, width, pixels })
    }

    /// No pictures of the same shape, with room for `capacity` of them.
    pub fn empty_like(&self, capacity: usize) -> Self {
        Self { pixels: Vec::with_capacity(capacity * self.picture_len()), ..*self }
    }

    /// The number of pictures.
    pub fn len(&self) -> usize {
        self.pixels.len() / self.picture_len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pixels.is_empty()
    }

    /// Values of one picture.
    pub fn picture_len(&self) -> usize {
        self.channels * self.height * self.width
    }

    /// Channels, rows and columns.
    pub fn shape(&self) -> [usize; 3] {
        [self.channels, self.height, self.width]
    }

    /// Picture `i`.
    ///
    /// # Panics
    /// When `i` is not below [`len`](Self::len).
    pub fn picture(&self, i: usize) -> &[f32] {
        let size = self.picture_len();
        &self.pixels[i * size..(i + 1) * size]
    }

    /// The pictures of a range, copied.
    ///
    /// # Panics
    /// When the range ends beyond [`len`](Self::len).
    pub fn rows(&self, range: Range<usize>) -> Self {
        let size = self.picture_len();
        Self { pixels: self.pixels[range.start * size..range.end * size].to_vec(), ..*self }
    }

    /// The first `most` pictures, or all.
    pub fn first(mut self, most: usize) -> Self {
        self.pixels.truncate(most.saturating_mul(self.picture_len()));
        self
    }

    /// The pictures named, in that order, copied.
    ///
    /// # Panics
    /// When an id is not below [`len`](Self::len).
    pub fn select(&self, ids: &[usize]) -> Self {
        let mut chosen = self.empty_like(ids.len());
        for &id in ids {
            chosen.pixels.extend_from_slice(self.picture(id));
        }
        chosen
    }
}

/// Pictures and what they show.
#[derive(Debug, Clone, PartialEq)]
pub struct Labeled {
    /// The pictures.
    pub images: Images,
    /// A class of `0..n_classes` for each.
    pub labels: Vec<usize>,
    /// The number of classes.
    pub n_classes: usize,
}

impl Labeled {
    /// Joins pictures and labels of equal number.
    pub fn new(images: Images, labels: Vec<usize>, n_classes: usize) -> Result<Self, LabError> {
        if images.len() != labels.len() {
            return Err(LabError::LabelCount { images: images.len(), labels: labels.len() });
        }
        if let Some(&label) = labels.iter().find(|&&label| label >= n_classes) {
            return Err(LabError::Label { label, n_classes });
        }
        Ok(Self { images, labels, n_classes })
    }

    /// The number of pictures.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The first `most` pictures with their labels, or all.
    pub fn first(mut self, most: usize) -> Self {
        self.labels.truncate(most);
        Self { images: self.images.first(most), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_is_no_whole_number_of_pictures_is_refused() {
        let error = Images::new(1, 2, 2, vec![0.0; 7]).unwrap_err();
        assert!(matches!(error, LabError::PixelCount { got: 7, .. }));
        assert!(matches!(Images::new(0, 2, 2, vec![]).unwrap_err(), LabError::PixelCount { .. }));
    }

    #[test]
    fn values_that_are_no_numbers_are_named_by_picture() {
        let error = Images::new(1, 1, 2, vec![0.0, 0.0, 0.0, f32::NAN]).unwrap_err();
        assert!(matches!(error, LabError::NotFinite { picture: 1 }));
    }

    #[test]
    fn labels_beyond_the_classes_are_refused() {
        let images = Images::new(1, 1, 1, vec![0.0, 1.0]).unwrap();
        assert!(matches!(
            Labeled::new(images.clone(), vec![0, 2], 2).unwrap_err(),
            LabError::Label { label: 2, n_classes: 2 }
        ));
        assert!(matches!(Labeled::new(images, vec![0], 2).unwrap_err(), LabError::LabelCount { .. }));
    }

    #[test]
    fn labels_follow_their_pictures() {
        let images = Images::new(1, 1, 1, vec![0.0, 0.1, 0.2]).unwrap();
        let all = Labeled::new(images, vec![5, 6, 7], 8).unwrap();
        let two = all.clone().first(2);
        assert_eq!((two.images.pixels, two.labels), (vec![0.0, 0.1], vec![5, 6]));
        assert_eq!(all.clone().first(4), all);
    }
}
