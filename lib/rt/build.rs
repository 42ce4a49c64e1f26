//! The shared library's name for those that are linked with it: its number changes when a call does.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmillpond_rt.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
