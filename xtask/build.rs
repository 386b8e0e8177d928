//! Passes the name of the compiler's target to the code.

fn main() {
    println!("cargo::rustc-env=NUQ_PLATFORM={}", std::env::var("TARGET").expect("cargo sets TARGET"));
    println!("cargo::rerun-if-changed=build.rs");
}
