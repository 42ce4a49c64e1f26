//! Compiles the rules for the host, and passes the header's directory to other build scripts.

fn main() {
    println!("cargo::rerun-if-changed=include");
    println!("cargo::rerun-if-changed=src/host.c");
    println!("cargo::metadata=include={}/include", env!("CARGO_MANIFEST_DIR"));
    #[cfg(feature = "host")]
    cc::Build::new()
        .file("src/host.c")
        .include("include")
        .std("gnu11")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .compile("millpond_rules_host");
}
