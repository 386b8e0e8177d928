//! Rows and queries in the memory of a GPU, as another library shares them.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DeviceRepr};
use nuq_cuda::{ArrayElement, CudaDevice, CudaIndex, DeviceArray, Pending, device_of, slice_rows};
use nuq_neighbors::{Embeddings, Error, ExactIndex, NeighborIndex};
use nuq_testkit::data;

use crate::common::{assert_equal, check, device, low_rank};

/// Represents another library, which allocates and copies on its own stream.
struct Library {
    stream: Arc<CudaStream>,
}

impl Library {
    fn new() -> Self {
        Self { stream: CudaContext::new(0).unwrap().new_stream().unwrap() }
    }

    fn copy<T: DeviceRepr>(&self, values: &[T]) -> CudaSlice<T> {
        self.stream.clone_htod(values).unwrap()
    }

    fn address<T>(&self, values: &CudaSlice<T>) -> u64 {
        values.device_ptr(&self.stream).0
    }

    fn pending(&self) -> Pending {
        Pending::Stream(self.stream.cu_stream() as u64)
    }

    /// Imports a matrix without gaps.
    fn import<T: DeviceRepr>(
        &self,
        device: &CudaDevice,
        element: ArrayElement,
        values: &[T],
        columns: usize,
    ) -> Result<Embeddings<'static>, Error> {
        let copied = self.copy(values);
        let array = DeviceArray {
            address: self.address(&copied),
            element,
            rows: values.len() / columns,
            columns,
            row_stride: columns as i64,
            column_stride: 1,
        };
        // SAFETY: the array exists until the end of this function, and has the described layout.
        unsafe { device.import(&array, self.pending()) }
    }

    fn rows(&self, device: &CudaDevice, rows: &Embeddings<'_>) -> Embeddings<'static> {
        let imported = self.import(device, ArrayElement::F32, rows.as_slice(), rows.dim()).unwrap();
        assert!(imported.values().device_slice().is_some());
        imported
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn values_of_every_type_are_rounded_as_on_the_host() {
    let Some(device) = device() else { return };
    let library = Library::new();
    let doubles =
        [0.1, -0.0, 1e-40, 1e-46, -3.4e38, 1.0 + 2f64.powi(-24), 1.0 + 3.0 * 2f64.powi(-24), 5e-324];
    let imported = library.import(&device, ArrayElement::F64, &doubles, 4).unwrap();
    assert_eq!(bits(imported.as_slice()), bits(&doubles.map(|v| v as f32)));
    // One, the largest half, the smallest positive half, the largest subnormal half, minus zero, and −3.
    let halves: [u16; 6] = [0x3c00, 0x7bff, 0x0001, 0x03ff, 0x8000, 0xc200];
    let expected = [1.0, 65504.0, 2f32.powi(-24), 1023.0 * 2f32.powi(-24), -0.0, -3.0];
    let imported = library.import(&device, ArrayElement::F16, &halves, 3).unwrap();
    assert_eq!(bits(imported.as_slice()), bits(&expected));
    let floats = [1.5f32, -2.0, 1e-38, 3e38];
    let upper: Vec<u16> = floats.iter().map(|v| (v.to_bits() >> 16) as u16).collect();
    let imported = library.import(&device, ArrayElement::Bf16, &upper, 2).unwrap();
    let expected: Vec<u32> = floats.iter().map(|v| v.to_bits() & 0xffff_0000).collect();
    assert_eq!(bits(imported.as_slice()), expected);
    assert_eq!((imported.len(), imported.dim()), (2, 2));
}

#[test]
fn strided_arrays_are_copied_in_the_order_of_their_rows() {
    let Some(device) = device() else { return };
    let library = Library::new();
    let x = data::normal(50, 12, 1);
    let copied = library.copy(x.as_slice());
    let view = |offset: usize, rows: usize, columns: usize, row_stride: i64, column_stride: i64| {
        let address = library.address(&copied) + 4 * offset as u64;
        let element = ArrayElement::F32;
        let array = DeviceArray { address, element, rows, columns, row_stride, column_stride };
        // SAFETY: all views are inside the array of 50 × 12 values.
        let imported = unsafe { device.import(&array, library.pending()) }.unwrap();
        let expected: Vec<f32> = (0..rows as i64)
            .flat_map(|i| (0..columns as i64).map(move |j| i * row_stride + j * column_stride))
            .map(|at| x.as_slice()[(offset as i64 + at) as usize])
            .collect();
        assert_eq!(bits(imported.as_slice()), bits(&expected));
    };
    // The transpose, some columns, every third row in reverse order, and one row repeated.
    view(0, 12, 50, 1, 12);
    view(3, 50, 4, 12, 2);
    view(48 * 12, 17, 12, -36, 1);
    view(24, 5, 12, 0, 1);
}

#[test]
fn errors_of_invalid_values_contain_row_and_column() {
    let Some(device) = device() else { return };
    let library = Library::new();
    let mut values = vec![0.5f32; 300];
    values[217] = f32::NEG_INFINITY;
    values[250] = f32::NAN;
    let error = library.import(&device, ArrayElement::F32, &values, 10).unwrap_err();
    assert_eq!(error, Error::NotFinite { row: 21, column: 7, value: f64::NEG_INFINITY });
    let mut doubles = vec![0.5f64; 300];
    doubles[40] = 1e39;
    let error = library.import(&device, ArrayElement::F64, &doubles, 10).unwrap_err();
    assert_eq!(error, Error::OutOfRange { row: 4, column: 0, value: 1e39 });
    let error = library.import(&device, ArrayElement::F16, &[0x3c00u16, 0x7c00], 1).unwrap_err();
    assert_eq!(error, Error::NotFinite { row: 1, column: 0, value: f64::INFINITY });
}

#[test]
fn the_device_of_an_address_is_found() {
    let Some(device) = device() else { return };
    let library = Library::new();
    let copied = library.copy(&[1f32; 8]);
    assert_eq!(device_of(library.address(&copied)), Ok(device.ordinal()));
}

#[test]
fn rows_and_queries_on_the_device_give_the_neighbors_of_the_cpu() {
    let Some(device) = device() else { return };
    let library = Library::new();
    for (rows, dim, queries, k) in [(30_000, 64, 9000, 20), (1500, 7, 300, 5), (20_000, 257, 700, 100)] {
        let (x, q) = (data::normal(rows, dim, 1), data::normal(queries, dim, 2));
        let (on_device, q_on_device) = (library.rows(&device, &x), library.rows(&device, &q));
        let cpu = ExactIndex::new(&x).unwrap();
        let gpu = CudaIndex::new(ExactIndex::new(&on_device).unwrap(), device.clone());
        check("rows and queries on the device", &gpu, &cpu, &q_on_device, k);
        check("rows on the device", &gpu, &cpu, &q, k);
        let ids: Vec<u32> = (0..rows as u32).step_by(7).collect();
        assert_equal("left out", &gpu.leave_one_out(&ids, k).unwrap(), &cpu.leave_one_out(&ids, k).unwrap());
        let part = slice_rows(&q_on_device, 100..250);
        assert_eq!(part.as_slice(), &q.as_slice()[100 * dim..250 * dim]);
        check("consecutive queries", &gpu, &cpu, &part, k);
        let auto = CudaIndex::auto(ExactIndex::new(&on_device).unwrap());
        assert_equal("auto", &auto.search(&q_on_device, k).unwrap(), &cpu.search(&q, k).unwrap());
    }
}

#[test]
fn rows_on_the_device_with_few_principal_axes_are_searched_and_updated() {
    let Some(device) = device() else { return };
    let library = Library::new();
    let (x, q) = (low_rank(40_000, 10.0, 41), low_rank(1500, 10.0, 43));
    let (on_device, q_on_device) = (library.rows(&device, &x), library.rows(&device, &q));
    let (mut gpu, mut cpu) =
        (CudaIndex::new(ExactIndex::new(&on_device).unwrap(), device.clone()), ExactIndex::new(&x).unwrap());
    assert!(check("few axes", &gpu, &cpu, &q_on_device, 20) > 0.9);
    // Updates must not change the rows of the caller.
    for index in [&mut gpu as &mut dyn NeighborIndex, &mut cpu] {
        index.remove(&(0..40_000).step_by(5).collect::<Vec<_>>()).unwrap();
        index.insert(&low_rank(3000, 10.0, 47)).unwrap();
    }
    check("few axes, updated", &gpu, &cpu, &q_on_device, 20);
    on_device.values().device_slice().unwrap().release().unwrap();
    assert_eq!(on_device.as_slice(), x.as_slice());
    for index in [&mut gpu as &mut dyn NeighborIndex, &mut cpu] {
        index.insert(&low_rank(7000, 10.0, 49)).unwrap();
    }
    check("few axes, grown", &gpu, &cpu, &q_on_device, 20);
}

#[test]
fn queries_on_the_device_that_fail_are_answered_on_the_cpu_and_large_arrays_are_searched_in_shards() {
    let Some(device) = device() else { return };
    let library = Library::new();
    // Half of the rows are equal. These are more rows at the same distance than fit into a candidate list.
    let mut values = vec![0.5f32; 20_000 * 4];
    values[..40_000].copy_from_slice(data::normal(10_000, 4, 3).as_slice());
    let x = Embeddings::new(values, 4).unwrap();
    let mut values = data::normal(200, 4, 5).as_slice().to_vec();
    values[..4].fill(0.5);
    let q = Embeddings::new(values, 4).unwrap();
    let (cpu, gpu) =
        (ExactIndex::new(&x).unwrap(), CudaIndex::new(ExactIndex::new(&x).unwrap(), device.clone()));
    assert!(check("ties", &gpu, &cpu, &library.rows(&device, &q), 7) < 1.0);
    // A block of 2000 queries takes 147.4 MiB. The other 2.6 MiB are too few for all rows, so the rows are searched in several shards.
    let x = data::normal(50_000, 64, 11);
    let (cpu, q) = (ExactIndex::new(&x).unwrap(), data::normal(2000, 64, 12));
    let q_on_device = library.rows(&device, &q);
    for rows in [x.clone(), library.rows(&device, &x)] {
        let gpu = CudaIndex::new(ExactIndex::new(&rows).unwrap(), device.clone()).max_bytes(150 << 20);
        assert!(check("shards", &gpu, &cpu, &q_on_device, 20) > 0.99);
    }
    let tiny = CudaIndex::new(ExactIndex::new(&x).unwrap(), device.clone()).max_bytes(1 << 20);
    assert_eq!(check("no memory", &tiny, &cpu, &q_on_device, 20), 0.0);
}
