//! Where networks run.

use burn::tensor::Device;

/// The processor, or with the feature `cuda` the first GPU.
pub(crate) fn device() -> Device {
    #[cfg(feature = "cuda")]
    return Device::cuda(0);
    #[cfg(not(feature = "cuda"))]
    Device::flex()
}
