//! Images in memory: the output of data readers and the input of networks.

use std::ops::Range;

use crate::LabError;

/// Images of one shape with values in `[0, 1]`, stored in the order image, channel, row, column.
///
/// Points in the plane are stored as images with one channel, one row and two columns. Their coordinates can have any finite value.
///
/// ```
/// use nuq_lab::Images;
/// let images = Images::new(1, 2, 2, vec![0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])?;
/// assert_eq!(images.len(), 2);
/// assert_eq!(images.image(1), [0.4, 0.5, 0.6, 0.7]);
/// assert_eq!(images.select(&[1, 1]).len(), 2);
/// # Ok::<(), nuq_lab::LabError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Images {
    /// Number of color channels: 1 for gray, 3 for red, green and blue.
    pub channels: usize,
    /// Number of rows of an image.
    pub height: usize,
    /// Number of columns of an image.
    pub width: usize,
    /// Pixel values of all images.
    pub pixels: Vec<f32>,
}

impl Images {
    /// Wraps a buffer of pixel values.
    ///
    /// # Errors
    /// If a dimension is zero, the buffer does not hold a whole number of images, or a value is not finite.
    pub fn new(channels: usize, height: usize, width: usize, pixels: Vec<f32>) -> Result<Self, LabError> {
        let size = channels * height * width;
        if size == 0 {
            return Err(LabError::EmptyShape { channels, height, width });
        }
        if !pixels.len().is_multiple_of(size) {
            return Err(LabError::PixelCount { channels, height, width, got: pixels.len() });
        }
        if let Some(at) = pixels.iter().position(|value| !value.is_finite()) {
            return Err(LabError::NotFinite { image: at / size });
        }
        Ok(Self { channels, height, width, pixels })
    }

    /// Returns an empty buffer for images of the same shape, with capacity for `capacity` images.
    #[must_use]
    pub fn empty_like(&self, capacity: usize) -> Self {
        Self { pixels: Vec::with_capacity(capacity * self.image_len()), ..*self }
    }

    /// The number of images.
    pub fn len(&self) -> usize {
        self.pixels.len() / self.image_len()
    }

    /// Whether there are no images.
    pub fn is_empty(&self) -> bool {
        self.pixels.is_empty()
    }

    /// The number of values of one image.
    pub fn image_len(&self) -> usize {
        self.channels * self.height * self.width
    }

    /// The shape of one image: channels, rows, columns.
    pub fn shape(&self) -> [usize; 3] {
        [self.channels, self.height, self.width]
    }

    /// The values of image `i`.
    ///
    /// # Panics
    /// If `i` is not below [`len`](Self::len).
    pub fn image(&self, i: usize) -> &[f32] {
        let size = self.image_len();
        &self.pixels[i * size..(i + 1) * size]
    }

    /// Copies a range of images.
    ///
    /// # Panics
    /// If the range starts after its end or ends beyond [`len`](Self::len).
    #[must_use]
    pub fn rows(&self, range: Range<usize>) -> Self {
        let size = self.image_len();
        Self { pixels: self.pixels[range.start * size..range.end * size].to_vec(), ..*self }
    }

    /// Keeps at most the first `limit` images.
    #[must_use]
    pub fn first(mut self, limit: usize) -> Self {
        self.pixels.truncate(limit.saturating_mul(self.image_len()));
        self
    }

    /// Copies the images with the given indices, in that order.
    ///
    /// # Panics
    /// If an index is not below [`len`](Self::len).
    #[must_use]
    pub fn select(&self, ids: &[usize]) -> Self {
        let mut selected = self.empty_like(ids.len());
        for &id in ids {
            selected.pixels.extend_from_slice(self.image(id));
        }
        selected
    }
}

/// Images with class labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Labeled {
    /// The images.
    pub images: Images,
    /// Class of each image, in `0..n_classes`.
    pub labels: Vec<usize>,
    /// The number of classes.
    pub n_classes: usize,
}

impl Labeled {
    /// Combines images and labels.
    ///
    /// # Errors
    /// If the numbers of images and labels differ, or a label is not below `n_classes`.
    pub fn new(images: Images, labels: Vec<usize>, n_classes: usize) -> Result<Self, LabError> {
        if images.len() != labels.len() {
            return Err(LabError::LabelCount { images: images.len(), labels: labels.len() });
        }
        if let Some(&label) = labels.iter().find(|&&label| label >= n_classes) {
            return Err(LabError::Label { label, n_classes });
        }
        Ok(Self { images, labels, n_classes })
    }

    /// The number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no images.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Keeps at most the first `limit` images and labels.
    #[must_use]
    pub fn first(mut self, limit: usize) -> Self {
        self.labels.truncate(limit);
        Self { images: self.images.first(limit), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_image_is_an_error() {
        let error = Images::new(1, 2, 2, vec![0.0; 7]).unwrap_err();
        assert!(matches!(error, LabError::PixelCount { got: 7, .. }));
    }

    #[test]
    fn a_dimension_of_zero_is_an_error() {
        for (channels, height, width) in [(0, 4, 4), (1, 0, 4), (1, 4, 0)] {
            let error = Images::new(channels, height, width, vec![]).unwrap_err();
            assert!(matches!(error, LabError::EmptyShape { .. }), "{error}");
            assert!(error.to_string().ends_with("every dimension must be at least 1"), "{error}");
        }
    }

    #[test]
    fn non_finite_value_error_names_the_image() {
        let error = Images::new(1, 1, 2, vec![0.0, 0.0, 0.0, f32::NAN]).unwrap_err();
        assert!(matches!(error, LabError::NotFinite { image: 1 }));
    }

    #[test]
    fn invalid_labels_are_errors() {
        let images = Images::new(1, 1, 1, vec![0.0, 1.0]).unwrap();
        assert!(matches!(
            Labeled::new(images.clone(), vec![0, 2], 2).unwrap_err(),
            LabError::Label { label: 2, n_classes: 2 }
        ));
        assert!(matches!(Labeled::new(images, vec![0], 2).unwrap_err(), LabError::LabelCount { .. }));
    }

    #[test]
    fn first_truncates_images_and_labels() {
        let images = Images::new(1, 1, 1, vec![0.0, 0.1, 0.2]).unwrap();
        let all = Labeled::new(images, vec![5, 6, 7], 8).unwrap();
        let two = all.clone().first(2);
        assert_eq!((two.images.pixels, two.labels), (vec![0.0, 0.1], vec![5, 6]));
        assert_eq!(all.clone().first(4), all);
    }
}
