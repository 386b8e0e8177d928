//! Compute device.

use burn::tensor::Device;

/// The CPU. If the feature `cuda` is enabled: the first GPU.
pub(crate) fn device() -> Device {
    #[cfg(feature = "cuda")]
    return Device::cuda(0);
    #[cfg(not(feature = "cuda"))]
    Device::flex()
}
