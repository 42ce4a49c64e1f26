//! Sets the shared library's soname. Its number changes when the ABI does.

fn main() {
    // cargo passes `rustc-cdylib-link-arg` also to cdylibs of dependents (`rt/rt-malloc`), so this is `rustc-link-arg`. For executables of
    // this crate the soname has no effect.
    println!("cargo::rustc-link-arg=-Wl,-soname,libmillpond_rt.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
