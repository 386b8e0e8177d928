//! The checks before a device is used.

use std::sync::OnceLock;

use cudarc::driver::{result, sys};
use libloading::Library;

use crate::Error;
use crate::libraries::{CUBLAS, NVRTC, Name};

/// The oldest version of CUDA that a driver must support: 1000 × major + 10 × minor.
pub const MIN_DRIVER: i32 = 12_000;
/// The lowest supported compute capability: the first with tensor cores.
pub const MIN_CAPABILITY: (i32, i32) = (7, 0);

/// The driver, devices and libraries of a machine. Tests implement this trait for machines on which one of these parts is missing or fails.
pub trait Platform {
    /// Loads the driver.
    ///
    /// # Errors
    /// [`Error::NoDriver`].
    fn load_driver(&self) -> Result<(), Error>;

    /// The version of CUDA that the driver supports: 1000 × major + 10 × minor.
    ///
    /// # Errors
    /// [`Error::NoDevice`], [`Error::Forked`] in a child of a process that used a device, or [`Error::DriverFailed`].
    fn driver_version(&self) -> Result<i32, Error>;

    /// The number of devices.
    ///
    /// # Errors
    /// [`Error::NoDevice`], [`Error::Forked`] in a child of a process that used a device, or [`Error::DriverFailed`].
    fn device_count(&self) -> Result<usize, Error>;

    /// The compute capability of a device.
    ///
    /// # Errors
    /// [`Error::NoDevice`], [`Error::Forked`] in a child of a process that used a device, or [`Error::DriverFailed`].
    fn capability(&self, device: usize) -> Result<(i32, i32), Error>;

    /// Checks that the run-time compiler NVRTC exists.
    ///
    /// # Errors
    /// [`Error::NoLibrary`].
    fn find_nvrtc(&self) -> Result<(), Error>;

    /// Checks that cuBLAS exists.
    ///
    /// # Errors
    /// [`Error::NoLibrary`].
    fn find_cublas(&self) -> Result<(), Error>;
}

/// Checks everything that a search on a device needs, in the order in which a user can correct the problems.
///
/// # Errors
/// The first requirement that is not met.
pub fn check(platform: &dyn Platform, device: usize) -> Result<(), Error> {
    platform.load_driver()?;
    let found = platform.driver_version()?;
    if found < MIN_DRIVER {
        return Err(Error::DriverTooOld { found, needed: MIN_DRIVER });
    }
    match platform.device_count()? {
        0 => return Err(Error::NoDevice),
        count if device >= count => return Err(Error::NoSuchDevice { requested: device, count }),
        _ => {}
    }
    let capability = platform.capability(device)?;
    if capability < MIN_CAPABILITY {
        return Err(Error::DeviceTooOld { capability });
    }
    platform.find_nvrtc()?;
    platform.find_cublas()
}

/// This machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThisMachine;

impl ThisMachine {
    /// Opens a library at the first call. If the library is missing, the next call looks for it again.
    pub(crate) fn open(self, name: Name) -> Result<&'static Library, Error> {
        static NVRTC_LIBRARY: OnceLock<&'static Library> = OnceLock::new();
        static CUBLAS_LIBRARY: OnceLock<&'static Library> = OnceLock::new();
        let stored = if name == NVRTC { &NVRTC_LIBRARY } else { &CUBLAS_LIBRARY };
        match stored.get() {
            Some(library) => Ok(library),
            None => Ok(stored.get_or_init({
                let library = name.open(&name.folders())?;
                || library
            })),
        }
    }
}

pub(crate) fn driver_failed(error: result::DriverError) -> Error {
    use sys::cudaError_enum::{CUDA_ERROR_NO_DEVICE, CUDA_ERROR_NOT_INITIALIZED};
    match error.0 {
        CUDA_ERROR_NO_DEVICE => Error::NoDevice,
        // The driver returns this in a child of a process that used the device.
        CUDA_ERROR_NOT_INITIALIZED => Error::Forked,
        _ => Error::DriverFailed { problem: format!("{error:?}") },
    }
}

impl Platform for ThisMachine {
    fn load_driver(&self) -> Result<(), Error> {
        // SAFETY: the initialization routines of the driver library have no requirements.
        if unsafe { sys::is_culib_present() } { Ok(()) } else { Err(Error::NoDriver) }
    }

    fn driver_version(&self) -> Result<i32, Error> {
        let mut version = 0;
        // SAFETY: the pointer is valid for writes; the driver library exists.
        unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(driver_failed)?;
        Ok(version)
    }

    fn device_count(&self) -> Result<usize, Error> {
        result::init().map_err(driver_failed)?;
        Ok(result::device::get_count().map_err(driver_failed)?.max(0) as usize)
    }

    fn capability(&self, device: usize) -> Result<(i32, i32), Error> {
        use sys::CUdevice_attribute_enum::{
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
        };
        let device = result::device::get(device as i32).map_err(driver_failed)?;
        // SAFETY: the device exists.
        let attribute =
            |which| unsafe { result::device::get_attribute(device, which) }.map_err(driver_failed);
        Ok((attribute(MAJOR)?, attribute(MINOR)?))
    }

    fn find_nvrtc(&self) -> Result<(), Error> {
        self.open(NVRTC).map(drop)
    }

    fn find_cublas(&self) -> Result<(), Error> {
        self.open(CUBLAS).map(drop)
    }
}
