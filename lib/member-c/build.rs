//! Sets the soname of the shared library. Its number changes with each incompatible change of a call.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmillpond_pool.so.0");
    println!("cargo::rustc-link-arg-examples=-Wl,-soname,libmillpond_pool.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
