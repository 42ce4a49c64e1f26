//! Sets the soname of the shared library. Otherwise it gets that of `millpond-rt`, and programs that need that library would get this one.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmillpond_malloc.so");
    println!("cargo::rerun-if-changed=build.rs");
}
