//! GPUs as a backend of all exact indexes of a program.

use nuq_neighbors::device::{Backend, Device, register as register_backend};
use nuq_neighbors::{Error, ExactIndex, NeighborIndex};

use crate::platform::{Platform, ThisMachine};
use crate::{CudaDevice, CudaIndex};

struct Cuda;

impl Backend for Cuda {
    fn place<'a>(&self, index: ExactIndex<'a>, device: Device) -> Result<Box<dyn NeighborIndex + 'a>, Error> {
        match device {
            Device::Cpu => Ok(Box::new(index)),
            Device::Auto => Ok(Box::new(match ThisMachine.load_driver() {
                Err(problem) => CudaIndex::without_device(index, problem),
                // The other requirements are checked at the first search that is expected to be faster on the GPU.
                Ok(()) => CudaIndex::auto(index),
            })),
            Device::Cuda(number) => {
                let device = CudaDevice::open(number.unwrap_or(0) as usize)?;
                Ok(Box::new(CudaIndex::new(index, device)))
            }
        }
    }
}

/// Registers GPUs as a backend of all exact indexes of this program, including the indexes of models, baselines and evaluations. Each index
/// is then searched on its [`Device`](nuq_neighbors::Device).
pub fn register() {
    register_backend(&Cuda);
}
