//! Passes the name of the target platform to the code, as the variable `NUQ_PLATFORM`.

fn main() {
    println!("cargo::rustc-env=NUQ_PLATFORM={}", std::env::var("TARGET").expect("cargo sets TARGET"));
    println!("cargo::rerun-if-changed=build.rs");
}
