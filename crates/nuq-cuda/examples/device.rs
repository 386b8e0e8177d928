//! Prints the name of the first GPU, or the reason why it cannot be used.

fn main() {
    match nuq_cuda::CudaDevice::open(0) {
        Ok(device) => println!("device: {}", device.name()),
        Err(problem) => println!("{problem}"),
    }
}
