//! Networks. The body maps images to features, the head maps features to logits.

mod cnn;
mod device;
mod dropout;
mod duq;
mod layers;
mod mlp;
mod model;
mod resnet;
mod sngp;
mod spectral;
mod weights;

pub(crate) use device::device;
pub(crate) use dropout::dropout;
pub(crate) use model::{Head, Model};
pub(crate) use spectral::SpectralBound;
#[cfg(test)]
pub(crate) use spectral::tests::largest_singular_values;
pub(crate) use weights::{Weight, change_weights, for_each_weight};
