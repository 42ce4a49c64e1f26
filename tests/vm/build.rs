//! Tells the tests for which platform cargo compiles them: its directory may stand between the target directory and the profile's.

fn main() {
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=MILLPOND_TARGET={target}");
    println!("cargo::rerun-if-changed=build.rs");
}
