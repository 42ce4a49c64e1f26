//! The shared library's own name. Without one it would get that of the library that it is made of, and a program that needs that one would get this.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmillpond_malloc.so");
    println!("cargo::rerun-if-changed=build.rs");
}
