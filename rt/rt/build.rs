//! The shared library's name for those that are linked with it: its number changes when a call does.

fn main() {
    // What is said for shared libraries alone, cargo says to those of dependents, too (`rt/rt-malloc`). To executables of this crate it means nothing.
    println!("cargo::rustc-link-arg=-Wl,-soname,libmillpond_rt.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
