//! The errors for each part that may be missing or too old on a machine, where a `Machine` replaces the driver and the libraries; and
//! the choice between CPU and GPU.

use nuq_cuda::platform::{MIN_CAPABILITY, MIN_DRIVER, Platform, check};
use nuq_cuda::{CudaDevice, Error};
use nuq_neighbors::{Device, Embeddings, IndexKind, IndexRequest, Reason, device};

/// A simulated machine: each field is what the driver or the search for a library returns.
struct Machine {
    driver: Result<i32, Error>,
    devices: Result<usize, Error>,
    capability: Result<(i32, i32), Error>,
    nvrtc: Result<(), Error>,
    cublas: Result<(), Error>,
}

impl Machine {
    fn complete() -> Self {
        Self { driver: Ok(13_000), devices: Ok(2), capability: Ok((9, 0)), nvrtc: Ok(()), cublas: Ok(()) }
    }
}

impl Platform for Machine {
    fn load_driver(&self) -> Result<(), Error> {
        match &self.driver {
            Err(Error::NoDriver) => Err(Error::NoDriver),
            _ => Ok(()),
        }
    }

    fn driver_version(&self) -> Result<i32, Error> {
        self.driver.clone()
    }

    fn device_count(&self) -> Result<usize, Error> {
        self.devices.clone()
    }

    fn capability(&self, _: usize) -> Result<(i32, i32), Error> {
        self.capability.clone()
    }

    fn find_nvrtc(&self) -> Result<(), Error> {
        self.nvrtc.clone()
    }

    fn find_cublas(&self) -> Result<(), Error> {
        self.cublas.clone()
    }
}

fn missing(library: &'static str, package: &'static str) -> Error {
    Error::NoLibrary { library, package }
}

#[test]
fn a_complete_machine_passes() {
    assert_eq!(check(&Machine::complete(), 0), Ok(()));
    assert_eq!(check(&Machine::complete(), 1), Ok(()));
    let oldest = Machine { driver: Ok(MIN_DRIVER), capability: Ok(MIN_CAPABILITY), ..Machine::complete() };
    assert_eq!(check(&oldest, 0), Ok(()));
}

#[test]
fn each_missing_or_outdated_part_has_its_own_error_message() {
    let failed = Error::DriverFailed { problem: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH".to_owned() };
    let cases = [
        (Machine { driver: Err(Error::NoDriver), ..Machine::complete() }, Error::NoDriver, "install"),
        (
            Machine { driver: Ok(11_040), ..Machine::complete() },
            Error::DriverTooOld { found: 11_040, needed: 12_000 },
            "supports CUDA 11.4, and 12.0 is needed",
        ),
        (Machine { driver: Err(failed.clone()), ..Machine::complete() }, failed, "MISMATCH"),
        (Machine { devices: Ok(0), ..Machine::complete() }, Error::NoDevice, "CUDA_VISIBLE_DEVICES"),
        (Machine { devices: Err(Error::Forked), ..Machine::complete() }, Error::Forked, "spawn"),
        (
            Machine { capability: Ok((6, 1)), ..Machine::complete() },
            Error::DeviceTooOld { capability: (6, 1) },
            "6.1, and at least 7.0",
        ),
        (
            Machine { nvrtc: Err(missing("NVRTC", "nvidia-cuda-nvrtc")), ..Machine::complete() },
            missing("NVRTC", "nvidia-cuda-nvrtc"),
            "pip install nvidia-cuda-nvrtc",
        ),
        (
            Machine { cublas: Err(missing("cuBLAS", "nvidia-cublas")), ..Machine::complete() },
            missing("cuBLAS", "nvidia-cublas"),
            "pip install nvidia-cublas",
        ),
    ];
    for (machine, expected, text) in cases {
        let error = check(&machine, 0).unwrap_err();
        assert_eq!(error, expected);
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn a_device_number_beyond_the_last_is_an_error() {
    let error = check(&Machine::complete(), 7).unwrap_err();
    assert_eq!(error, Error::NoSuchDevice { requested: 7, count: 2 });
    assert_eq!(
        error.to_string(),
        "device `cuda:7` does not exist: the GPUs of this machine have the numbers 0 to 1"
    );
}

#[test]
fn a_machine_without_the_device_returns_an_error_instead_of_a_panic() {
    assert!(CudaDevice::open(1000).is_err());
}

#[test]
fn exact_search_is_chosen_for_many_rows_if_a_gpu_is_requested() {
    let choice =
        |device, rows, queries| IndexRequest { device, queries, ..IndexRequest::default() }.choose(rows, 64);
    assert_eq!(choice(Device::Cuda(None), 1000, 100), choice(Device::Cpu, 1000, 100));
    let large = choice(Device::Cuda(None), 1_000_000, 1_000_000);
    assert_eq!((large.kind, large.reason), (IndexKind::Exact, Reason::Requested));
    assert!(matches!(choice(Device::Cpu, 1_000_000, 1_000_000).kind, IndexKind::Hnsw(_)));
}

#[test]
fn the_automatic_choice_of_the_cpu_has_a_reason_and_the_results_of_a_requested_cpu() {
    nuq_cuda::register();
    let x = Embeddings::new((0..60).map(|v| v as f32).collect(), 2).unwrap();
    let mut index = device::exact_index(&x).unwrap();
    let expected = Device::Cpu.scope(|| device::exact_index(&x)).unwrap();
    assert_eq!(index.search(&x, 3), expected.search(&x, 3));
    assert_eq!(index.leave_one_out(&[0, 7], 3), expected.leave_one_out(&[0, 7], 3));
    let device = index.device().unwrap();
    assert!(device.starts_with("cpu: "), "{device}");
    assert_eq!(expected.device(), None);
    index.remove(&[3]).unwrap();
    assert_eq!(index.insert(&x.gather(&[4, 5])).unwrap(), [3, 30]);
    assert_eq!(index.search(&x.gather(&[4]), 2).unwrap().ids(0), [3, 4]);
}
