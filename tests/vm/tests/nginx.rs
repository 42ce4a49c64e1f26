//! `millpond diagnose` on a worker of nginx on this machine: the installed nginx, or Debian's, unpacked in the cache.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use std::path::Path;
use std::process::{Child, Command, Stdio};

use millpond_vm::{Cache, cargo_binary, is_required, obtain_nginx};
use serde_json::Value;

const TEST: &str = "a_worker_of_nginx_is_idle";

/// All temporary files are in its directory, and it listens on a socket there and on no port.
const CONFIGURATION: &str = "daemon off; worker_processes 1; error_log stderr; pid pid; events {}\n\
    http { access_log off; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;\n\
    server { listen unix:socket; } }\n";

/// A server that is ended on drop.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // After SIGTERM the master process ends its worker.
        let told = Command::new("kill").arg(self.0.id().to_string()).status();
        if !told.is_ok_and(|status| status.success()) {
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}

/// `None`, with a message, if it cannot be obtained. The package is not installed, because that would start a server.
fn nginx() -> Option<Command> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
    let installed = std::env::split_paths(&path).map(|dir| dir.join("nginx")).find(|file| file.is_file());
    if let Some(program) = installed {
        return Some(Command::new(program));
    }
    let note = |note: &str| println!("{note}");
    match Cache::from_environment().and_then(|cache| obtain_nginx(&cache, &note)) {
        Ok(command) => Some(command),
        Err(why) if is_required() => panic!("{why}"),
        Err(why) => {
            println!("skipped: {TEST}: {why}");
            None
        }
    }
}

/// The worker process, after it has set its name.
fn worker(server: &mut Server) -> u32 {
    let children = format!("/proc/{0}/task/{0}/children", server.0.id());
    loop {
        let found = std::fs::read_to_string(&children).unwrap_or_default();
        let pid = found.split_whitespace().next().and_then(|pid| pid.parse().ok());
        let name = pid.and_then(|pid: u32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok());
        if name.is_some_and(|name| name.contains("nginx: worker")) {
            return pid.unwrap();
        }
        assert_eq!(server.0.try_wait().unwrap(), None, "nginx does not start");
        std::thread::yield_now();
    }
}

#[test]
fn a_worker_of_nginx_is_idle() {
    let Some(mut nginx) = nginx() else { return };
    let dir = tempfile::tempdir().unwrap();
    let configuration = dir.path().join("conf");
    std::fs::write(&configuration, CONFIGURATION).unwrap();
    nginx.arg("-p").arg(dir.path()).arg("-c").arg(&configuration).arg("-e").arg("stderr");
    let mut server = Server(nginx.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let worker = worker(&mut server).to_string();
    let mut diagnose = Command::new(cargo_binary("millpond").unwrap());
    diagnose
        .args(["diagnose", "--for", "1s", "--json", &worker])
        .env("MILLPOND_STATE", dir.path().join("state"));
    let done = diagnose.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let said: Value = serde_json::from_slice(&done.stdout).unwrap();
    if said["lck"].is_null() && !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return println!("skipped: {TEST}: {}", said["missing"]);
    }
    let kinds: Vec<&Value> =
        said["findings"].as_array().unwrap().iter().map(|found| &found["kind"]).collect();
    assert_eq!(kinds, ["idle"], "{said}");
}
