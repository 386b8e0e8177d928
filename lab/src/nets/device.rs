//! Compute device.

use burn::tensor::Device;

/// The CPU, or the first GPU with the feature `cuda`.
pub(crate) fn device() -> Device {
    #[cfg(feature = "cuda")]
    return Device::cuda(0);
    #[cfg(not(feature = "cuda"))]
    Device::flex()
}
