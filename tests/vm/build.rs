//! Passes the target platform of this build to the tests. Its directory may be between the target directory and that of the
//! profile.

fn main() {
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=MILLPOND_TARGET={target}");
    println!("cargo::rerun-if-changed=build.rs");
}
