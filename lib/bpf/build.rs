//! Builds the BPF programs: each folder of `programs` has one. clang compiles it to an object, which becomes part of the library.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs, io};

/// Compilers to try if `MILLPOND_CLANG` is unset.
const COMPILERS: [&str; 4] = ["clang-19", "clang-16", "clang-15", "clang"];

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=programs");
    println!("cargo::rerun-if-changed=include");
    println!("cargo::rerun-if-changed=../rules/include");
    println!("cargo::rerun-if-env-changed=MILLPOND_CLANG");
    if env::var_os("CARGO_FEATURE_PROGRAMS").is_none() {
        return ExitCode::SUCCESS;
    }
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            for line in what.lines() {
                println!("cargo::error={line}");
            }
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    let compiler = compiler()?;
    let directory = |name: &str| env::var_os(name).map(PathBuf::from).ok_or(format!("{name} is not set"));
    let out = directory("OUT_DIR")?;
    let headers = directory("DEP_BPF_INCLUDE")?;
    let mut folders: Vec<PathBuf> = fs::read_dir("programs")
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>())
        .map_err(|error| format!("programs: {error}"))?;
    folders.sort();
    for folder in folders {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let object = out.join(format!("{name}.o"));
        compile(&compiler, &folder.join(format!("{name}.bpf.c")), &object, &headers)?;
        deflate(&object, &out.join(format!("{name}.o.deflate")))?;
    }
    Ok(())
}

fn compiler() -> Result<String, String> {
    if let Ok(named) = env::var("MILLPOND_CLANG") {
        return Ok(named);
    }
    let answers = |name: &&str| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    COMPILERS.into_iter().find(answers).map(str::to_owned).ok_or_else(|| {
        "the programs that run in the kernel need clang\ninstall the package clang-19, or set MILLPOND_CLANG, or build without them: \
         --no-default-features"
            .to_owned()
    })
}

fn compile(compiler: &str, source: &Path, object: &Path, headers: &Path) -> Result<(), String> {
    let architecture = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") => "arm64",
        Ok("riscv64") => "riscv",
        _ => "x86",
    };
    let endian = if env::var("CARGO_CFG_TARGET_ENDIAN").as_deref() == Ok("big") { "bpfeb" } else { "bpfel" };
    let output = Command::new(compiler)
        .args(["-g", "-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-mcpu=v3"])
        // The tracepoint fixes a program's parameters.
        .arg("-Wno-unused-parameter")
        .args(["-target", endian, "-c"])
        .arg(format!("-D__TARGET_ARCH_{architecture}"))
        .args(["-I", "include", "-I", "../rules/include"])
        .arg("-isystem")
        .arg(headers)
        .arg(source)
        .arg("-o")
        .arg(object)
        .output()
        .map_err(|error| format!("{compiler}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{}: {compiler} refuses it\n{}", source.display(), String::from_utf8_lossy(&output.stderr)))
}

/// Compresses an object. Debug information and repeated code make it four to six times smaller.
fn deflate(object: &Path, packed: &Path) -> Result<(), String> {
    fs::read(object)
        .and_then(|bytes| fs::write(packed, miniz_oxide::deflate::compress_to_vec(&bytes, 10)))
        .map_err(|error| format!("{}: {error}", object.display()))
}
