//! `millpond gauge`: its answers to a scraper and to a browser, and its behaviour with clients that do not read.

use crate::browser::Browser;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TREE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A service that answers requests.
struct Service {
    child: Child,
    at: String,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Service {
    fn start(words: &[&str]) -> Service {
        let mut child = Command::new(env!("CARGO_BIN_EXE_millpond"))
            .arg("gauge")
            .args(words)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        let at = line.trim().strip_prefix("gauge: ").unwrap_or_else(|| panic!("{line}")).to_owned();
        Service { child, at }
    }

    /// A service on a simulated machine that stops at a time.
    fn standing(words: &[&str]) -> Service {
        let service = Service::start(&[&["--listen", "127.0.0.1:0"], words].concat());
        let frames = |service: &Service| service.json("/api/v1")["frames"].as_u64().unwrap();
        let begun = Instant::now();
        let mut before = 0;
        loop {
            let now = frames(&service);
            if now == before && now > 1 {
                return service;
            }
            before = now;
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    fn address(&self) -> SocketAddr {
        self.at.strip_prefix("http://").unwrap().parse().unwrap()
    }

    fn ask(&self, path: &str, fields: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        ask(&mut stream, path, fields)
    }

    fn body(&self, path: &str) -> String {
        let (status, _, body) = self.ask(path, "");
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.body(path)).unwrap()
    }

    /// The resident memory of the service in KiB.
    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

/// Status, head and body of an answer.
fn ask(stream: &mut (impl Read + Write), path: &str, fields: &str) -> (u16, String, String) {
    let host = if fields.contains("Host:") { "" } else { "Host: localhost\r\n" };
    write!(stream, "GET {path} HTTP/1.1\r\n{host}{fields}Connection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

/// 32 CPUs, after ten seconds with forty spinning threads.
fn t2000() -> Service {
    Service::standing(&["--machine", "t2000", "--load", "spin -t 40", "--stand", "10s"])
}

/// Pools and a decision of poold, by tests/golden/scripts/grow.sim.
fn pools(dir: &Path) -> Service {
    let state = dir.join("grow.json").display().to_string();
    let script = format!("{TREE}/tests/golden/scripts/grow.sim");
    let made = Command::new(env!("CARGO_BIN_EXE_millpond"))
        .args(["sim", "--state", &state, "x4200", &script])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Service::standing(&["--state", &state, "--interval", "0.25", "--noise", "--stand", "2s"])
}

#[test]
fn metrics_are_those_of_the_machine() {
    let service = t2000();
    let metrics = service.body("/metrics");
    for line in [
        "millpond_machine_cpus{machine=\"t2000\"} 32",
        "# TYPE millpond_set_busy_seconds_total counter",
        "millpond_set_busy_seconds_total{set=\"0\"} 320",
        "millpond_set_runnable{set=\"0\"} 40",
        "millpond_set_waited_seconds_total{set=\"0\"} 80",
        "# TYPE millpond_latency_waits_seconds histogram",
        "millpond_exporter_frames_total 11",
        "millpond_exporter_dropped_frames_total 0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
    }
    assert!(!metrics.contains("millpond_thread"), "threads come and go");
    assert!(
        service.body("/metrics?tables=threads").contains("millpond_thread_latency_seconds_total{pid=\"300\"")
    );
    let (_, head, open) = service.ask("/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n");
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(open.ends_with("# EOF\n") && open.contains("# UNIT millpond_set_busy_seconds seconds\n"));
}

#[test]
fn frames_are_those_of_top() {
    let service = t2000();
    let frame = service.json("/api/v1/frame");
    let schema = fs::read_to_string(format!("{TREE}/docs/reference/json/top.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    jsonschema::validate(&schema, &frame)
        .unwrap_or_else(|error| panic!("{}: {}", error.instance_path(), error.kind().keyword()));
    assert_eq!((&frame["at_s"], &frame["interval_s"]), (&json!(10.0), &json!(1.0)));
    assert_eq!((&frame["sets"][0]["busy_s"], &frame["sets"][0]["waited_s"]), (&json!(32), &json!(8)));
    assert_eq!(service.json("/api/v1/frame?totals")["sets"][0]["busy_s"], json!(320));
    let part = service.json("/api/v1/frame?tables=machine,sets");
    assert_eq!((part["cpus"].as_array().unwrap().len(), part["sets"].as_array().unwrap().len()), (0, 1));
    assert_eq!(service.json("/api/v1/time-line").as_array().unwrap().len(), 11);
    assert_eq!(service.json("/api/v1/fields")["cpus"][5]["name"], json!("user_s"));
    let (status, _, body) = service.ask("/api/v1/frame?tables=cpu", "");
    assert_eq!(status, 400);
    assert!(
        body.starts_with("{\"error\":\"there is no such table\",\"hint\":\"tables=machine,pools,"),
        "{body}"
    );
}

#[test]
fn a_foreign_page_a_wrong_token_and_another_user_are_refused() {
    let open = t2000();
    assert_eq!(open.ask("/", "Host: evil.example\r\n").0, 403);
    assert_eq!(open.ask("/", "Host: 127.0.0.1\r\n").0, 200);
    let (_, head, _) = open.ask("/", "");
    assert!(head.contains("content-security-policy: default-src 'none'; script-src 'self'"), "{head}");

    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    fs::write(&token, "0123456789abcdef\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let words = ["--machine", "t2000", "--listen", "0.0.0.0:0", "--token-file", token.to_str().unwrap()];
    let mut service = Service::start(&words);
    service.at = service.at.replace("0.0.0.0", "127.0.0.1");
    assert_eq!(service.ask("/metrics", "").0, 401);
    assert_eq!(service.ask("/metrics", "Authorization: Bearer 0123456789abcdeF\r\n").0, 401);
    assert_eq!(service.ask("/metrics", "Authorization: Bearer 0123456789abcdef\r\n").0, 200);
    let (status, head, _) = service.ask("/?token=0123456789abcdef", "");
    assert_eq!(status, 303);
    assert!(
        head.contains("set-cookie: millpond_token=0123456789abcdef; httponly; samesite=strict"),
        "{head}"
    );

    let socket = dir.path().join("socket");
    let listen = format!("unix:{}", socket.display());
    let service = Service::start(&["--machine", "t2000", "--listen", &listen]);
    assert_eq!(service.at, listen);
    assert_eq!(ask(&mut UnixStream::connect(&socket).unwrap(), "/api/v1", "").0, 200);
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let ended = Command::new("setpriv")
            .args([
                "--reuid",
                "65534",
                "--clear-groups",
                "curl",
                "-s",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
            ])
            .args(["--unix-socket", socket.to_str().unwrap(), "http://localhost/metrics"])
            .output();
        match ended {
            Ok(ended) if ended.status.success() => assert_eq!(ended.stdout, b"403"),
            _ => println!("skipped: a part of access: there is no setpriv or curl"),
        }
    }
    drop(service);

    let refused = Command::new(env!("CARGO_BIN_EXE_millpond"))
        .args(["gauge", "--machine", "t2000", "--listen", "0.0.0.0:0"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("can be reached from other machines: that needs --token-file"), "{said}");
}

#[test]
fn viewers_that_do_not_read_cost_no_memory_and_what_they_miss_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    // The buffers of a Unix socket do not grow.
    let socket = dir.path().join("socket");
    let listen = format!("unix:{}", socket.display());
    let service = Service::start(&["--machine", "t2000", "--listen", &listen, "--interval", "0.1"]);
    let watch = || {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        stream
    };
    // A hundred viewers that never read, and one that does.
    let silent: Vec<UnixStream> = (0..100).map(|_| watch()).collect();
    let mut reader = BufReader::new(watch());
    let count = |name: &str| {
        let (_, _, metrics) = ask(&mut UnixStream::connect(&socket).unwrap(), "/metrics", "");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("millpond_exporter_{name} ")));
        line.unwrap().parse::<f64>().unwrap()
    };
    assert!(count("viewers") >= 100.0);
    let begun = Instant::now();
    let mut seen = 0;
    let mut line = String::new();
    // Then the buffers of the kernel are full.
    while count("dropped_frames_total") < 300.0 {
        assert!(begun.elapsed() < Duration::from_secs(300), "nothing is dropped");
        line.clear();
        reader.read_line(&mut line).unwrap();
        seen += usize::from(line.starts_with("data: {"));
    }
    let before = service.memory();
    let until = count("dropped_frames_total") + 1000.0;
    // Alternatively, the viewers are closed because they take no byte.
    while count("dropped_frames_total") < until && count("viewers") > 1.0 {
        assert!(begun.elapsed() < Duration::from_secs(300));
        line.clear();
        reader.read_line(&mut line).unwrap();
        seen += usize::from(line.starts_with("data: {"));
    }
    let after = service.memory();
    assert!(after < before + 4096, "from {before} to {after} KiB");
    while seen <= 10 {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "the one that reads gets frames");
        seen += usize::from(line.starts_with("data: {"));
    }
    drop((silent, reader));
    let begun = Instant::now();
    while count("viewers") > 0.0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "viewers that left are still there");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_scrape_is_answered_among_hostile_and_slow_clients() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let listen = format!("unix:{}", socket.display());
    let load = ["--load", "spin -t 300", "--interval", "0.25"];
    let _service = Service::start(&[&["--machine", "t2000", "--listen", &listen][..], &load].concat());
    let connect = |requests: &str| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        // The service may close a connection meanwhile. That is not a failure.
        let _ = stream.write_all(requests.as_bytes());
        stream
    };
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let scrape = || {
        let (status, _, body) = ask(&mut UnixStream::connect(&socket).unwrap(), "/metrics", "");
        assert_eq!(status, 200, "{body}");
        assert!(body.contains("millpond_set_busy_seconds_total"), "{body}");
    };
    // Each requests more than the buffers of the kernel hold, and reads nothing.
    let hostile: Vec<UnixStream> =
        (0..256).map(|_| connect(&get("/metrics?tables=threads").repeat(40))).collect();
    scrape();
    let slow: Vec<UnixStream> = (0..200).map(|_| connect(&get("/events?tables=threads,processes"))).collect();
    (0..3).for_each(|_| scrape());
    drop((hostile, slow));
    scrape();
}

/// Sets the limit of open files of a process.
fn limit_files(pid: u32, most: u64) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let pid = Pid::from_raw(i32::try_from(pid).unwrap());
    prlimit(pid, Resource::Nofile, Rlimit { current: Some(most), maximum: Some(1024) }).unwrap();
}

#[test]
fn a_read_that_fails_ends_no_service() {
    let mut service = Service::start(&["--listen", "127.0.0.1:0", "--interval", "0.1"]);
    let mut said = BufReader::new(service.child.stderr.take().unwrap());
    let mut says = |words: &str| {
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains(words), "{line}");
    };
    // The service cannot open any file.
    limit_files(service.child.id(), 3);
    says("; the latest frame is served on");
    limit_files(service.child.id(), 1024);
    says("the machine can be read again");
    let failures = "millpond_exporter_failed_reads_total ";
    let metrics = service.body("/metrics");
    let count = metrics.lines().find_map(|line| line.strip_prefix(failures)).unwrap();
    assert!(count.parse::<f64>().unwrap() >= 1.0, "{count}");

    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("day");
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_millpond"))
        .args(["record", "--to", place.to_str().unwrap(), "0.05"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The first frame is written.
    let is_begun = || fs::read_dir(&place).is_ok_and(|files| files.count() > 2);
    let begun = Instant::now();
    while !is_begun() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it records nothing");
        std::thread::sleep(Duration::from_millis(10));
    }
    limit_files(recorder.id(), 3);
    let mut line = String::new();
    let mut said = BufReader::new(recorder.stderr.take().unwrap());
    said.read_line(&mut line).unwrap();
    assert!(line.contains("record: frames are missing: "), "{line}");
    limit_files(recorder.id(), 1024);
    let pid = rustix::process::Pid::from_child(&recorder);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(recorder.wait().unwrap().code(), Some(0));
}

/// The texts of all elements that match a selector.
fn text(browser: &mut Browser, selector: &str) -> Vec<String> {
    let found =
        browser.value(&format!("[...document.querySelectorAll({selector:?})].map((e) => e.textContent)"));
    found.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[test]
fn in_a_browser_what_others_named_is_text_in_the_page() {
    let Some(mut browser) = Browser::start("in_a_browser_what_others_named_is_text_in_the_page") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    drop(pools(dir.path()));
    let kept = fs::read_to_string(dir.path().join("grow.json")).unwrap();
    let long = "w".repeat(10_000);
    let markup = "<img src=x onerror=document.title=1>";
    // Control characters and bidirectional overrides are escaped; all other characters are unchanged.
    for (name, shown, file) in [
        (markup, markup, "markup"),
        (
            "\u{1b}]0;taken\u{7}\u{202e}<script>document.title=2</script>&amp;",
            r"\u001b]0;taken\u0007\u202e<script>document.title=2</script>&amp;",
            "escapes",
        ),
        (&long, &long, "long"),
    ] {
        let path = dir.path().join(file);
        fs::write(&path, kept.replace("\"web\"", &json!(name).to_string())).unwrap();
        let service = Service::standing(&[
            "--state",
            path.to_str().unwrap(),
            "--interval",
            "0.25",
            "--noise",
            "--stand",
            "2s",
        ]);
        browser.open(&service.at, 1280, 1320);
        browser.wait("document.body?.dataset.at === '4'");
        let cells = text(&mut browser, "#sets tbody tr:nth-child(2) > *");
        assert!([&cells[1], &cells[4]].iter().all(|cell| *cell == shown), "{file}: {}", cells[1]);
        assert_eq!(text(&mut browser, "#time h3")[1], format!("1 {shown}"), "{file}");
        assert_eq!(browser.value("document.title"), json!("Millpond: x4200"), "{file}");
        let made = browser.value("document.querySelectorAll('img, body script:not([src])').length");
        assert_eq!(made, json!(0), "{file}");
        let wide = browser.value("document.documentElement.scrollWidth - innerWidth");
        assert!(wide.as_i64().unwrap() <= 0, "{file}: the page is {wide} pixels too wide");
    }
}

#[test]
fn in_a_browser_each_panel_shows_the_numbers_of_the_machine() {
    let Some(mut browser) = Browser::start("in_a_browser_each_panel_shows_the_numbers_of_the_machine") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let service = pools(dir.path());
    browser.open(&service.at, 1280, 1320);
    browser.wait("document.body?.dataset.at === '4'");
    assert_eq!(text(&mut browser, "#machine"), ["x4200"]);
    assert_eq!(text(&mut browser, "#figures dd")[..3], ["4", "11", "16"]);
    assert_eq!(
        text(&mut browser, "#sets tbody tr:nth-child(2) > *"),
        ["1", "web", "own", "0-2", "web", "3", "1", "3", "3.00", "3", "0.00", "–"]
    );
    let charts = text(&mut browser, "#time figcaption");
    assert_eq!(charts[1], "CPUs in use 3.00CPUs 3.00threads that wait 0.00");
    assert_eq!(text(&mut browser, "#cpus .group:nth-child(2) .cell"), ["100", "100", "100"]);
    assert_eq!(text(&mut browser, "#cpus .group:nth-child(1) .cell"), ["0"]);
    let decisions = text(&mut browser, "#decisions tbody tr:nth-child(2) > *");
    assert_eq!(decisions[1..3], ["1-2 from pset_default to web", "2 of 2"]);
    assert!(decisions[3].starts_with("web 1 -> 3 (1.0 of 1 used, 2.0 more wanted)"), "{decisions:?}");
    let noise = text(&mut browser, "#noise tbody tr > *");
    assert!(noise.chunks(7).any(|row| row[0] == "1" && row[2] == "tick" && row[3] == "clock"), "{noise:?}");
    assert_eq!(text(&mut browser, "#fences .none"), ["There are no fences."]);
    // Arrow keys go from CPU to CPU, and a screen reader gets the text of the CPU.
    browser.value("document.querySelector('.cell[tabindex=\"0\"]').focus()");
    browser.press("End");
    assert_eq!(browser.value("document.activeElement.dataset.cpu"), json!("2"));
    browser.press("ArrowLeft");
    assert_eq!(
        browser.value("document.activeElement.getAttribute('aria-label')"),
        json!("CPU 1: 100 percent in use")
    );
    assert!(text(&mut browser, "#cpu")[0].starts_with("CPU 1  SET 1  STATE on-line"));
    // The page loads nothing from another host.
    let foreign =
        "performance.getEntriesByType('resource').filter((e) => !e.name.startsWith(location.origin)).length";
    assert_eq!(browser.value(foreign), json!(0));
    for (scheme, name) in [("light", "dashboard.png"), ("dark", "dashboard-dark.png")] {
        browser.darken(scheme);
        let ground = browser.value("getComputedStyle(document.body).backgroundColor");
        assert_eq!(ground, json!(if scheme == "dark" { "rgb(16, 23, 22)" } else { "rgb(247, 248, 248)" }));
        let into =
            std::env::var_os("MILLPOND_WRITE_PICTURES").map(|_| PathBuf::from(TREE).join("docs/pictures"));
        browser.picture(&into.unwrap_or_else(|| dir.path().to_owned()).join(name));
    }
}

#[test]
fn in_a_browser_waits_have_a_histogram() {
    let Some(mut browser) = Browser::start("in_a_browser_waits_have_a_histogram") else { return };
    let service = t2000();
    let frame = service.json("/api/v1/frame?tables=latencies");
    let waits = &frame["latencies"][0]["waits_s"];
    let count = waits["count"].as_u64().unwrap();
    assert!(count > 8, "forty threads take turns on 32 CPUs: {waits}");
    browser.open(&service.at, 800, 600);
    browser.wait("document.body?.dataset.at === '10'");
    let caption = browser.value("document.querySelector('#latency figcaption').textContent");
    assert!(caption.as_str().unwrap().starts_with(&format!("{count} waits")), "{caption}");
    let bars = browser.value("document.querySelectorAll('#latency .bar').length");
    assert_eq!(bars.as_u64().unwrap(), waits["buckets"].as_array().unwrap().len() as u64);
}

/// The output of promtool.
fn checked(words: &[&str], input: &str) -> Option<(bool, String)> {
    let child = Command::new("promtool")
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        println!("skipped: there is no promtool (apt-get install prometheus)");
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    Some((
        ended.status.success(),
        String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned(),
    ))
}

#[test]
fn promtool_finds_nothing_in_metrics_and_rules() {
    let service = t2000();
    let metrics = service
        .body("/metrics?tables=machine,pools,sets,cpus,processes,threads,latencies,noise,interrupts,fences");
    let Some((passed, said)) = checked(&["check", "metrics"], &metrics) else { return };
    assert!(passed && said.is_empty(), "{said}");
    let rules = format!("{TREE}/packages/prometheus/alerts.yml");
    let (passed, said) = checked(&["check", "rules", &rules], "").unwrap();
    assert!(passed, "{said}");
    // Each metric name in the rules and in the panels is served.
    let panels = fs::read_to_string(format!("{TREE}/packages/prometheus/grafana.json")).unwrap();
    let _: Value = serde_json::from_str(&panels).unwrap();
    let catalogue = fs::read_to_string(format!("{TREE}/svc/gauge/src/families.rs")).unwrap();
    let text = fs::read_to_string(&rules).unwrap() + &panels;
    let names = text
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("millpond_"));
    let fields = service.json("/api/v1/fields");
    let known = |name: &str| {
        let rest = name.strip_prefix("millpond_").unwrap();
        if let Some(own) = rest.strip_prefix("exporter_") {
            return catalogue
                .contains(&format!("\"{}\"", own.trim_end_matches("_total").trim_end_matches("_info")));
        }
        fields.as_object().unwrap().iter().any(|(table, fields)| {
            let entity = match table.as_str() {
                "processes" => "process",
                "latencies" => "latency",
                other => other.trim_end_matches('s'),
            };
            let Some(field) = rest.strip_prefix(entity).and_then(|field| field.strip_prefix('_')) else {
                return false;
            };
            let field =
                ["_total", "_bucket", "_sum", "_count"].iter().fold(field, |f, end| f.trim_end_matches(end));
            field == "info"
                || fields.as_array().unwrap().iter().any(|known| {
                    let known = known["name"].as_str().unwrap();
                    known == field
                        || known.strip_suffix("_s").is_some_and(|k| format!("{k}_seconds") == field)
                })
        })
    };
    for name in names {
        assert!(known(name), "nothing serves {name}");
    }
}

#[test]
fn a_real_prometheus_scrapes_it() {
    let test = "a_real_prometheus_scrapes_it";
    if Command::new("prometheus").arg("--version").output().is_err() {
        println!("skipped: {test}: there is no prometheus (apt-get install prometheus)");
        return;
    }
    let service = t2000();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("prometheus.yml");
    let text = format!(
        "global:\n  scrape_interval: 500ms\nscrape_configs:\n  - job_name: millpond\n    static_configs:\n      - targets: ['localhost:{}']\n",
        service.address().port()
    );
    fs::write(&config, text).unwrap();
    // A port that was free a moment before.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let child = Command::new("prometheus")
        .args(["--enable-feature=native-histograms", "--log.level=error"])
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let prometheus = Service { child, at: format!("http://127.0.0.1:{port}") };
    let value = |query: &str| -> Option<String> {
        let mut stream = TcpStream::connect(prometheus.address()).ok()?;
        let (_, _, body) = ask(&mut stream, &format!("/api/v1/query?query={query}"), "");
        let from = body.find('{')?;
        let until = body.rfind('}')?;
        let answer: Value = serde_json::from_str(&body[from..=until]).ok()?;
        Some(answer["data"]["result"][0]["value"][1].as_str()?.to_owned())
    };
    let begun = Instant::now();
    while value("millpond_set_busy_seconds_total").is_none() {
        assert!(begun.elapsed() < Duration::from_secs(90), "nothing was scraped");
        std::thread::sleep(Duration::from_millis(250));
    }
    assert_eq!(value("up").as_deref(), Some("1"));
    assert_eq!(value("millpond_set_busy_seconds_total").as_deref(), Some("320"));
    let totals = service.json("/api/v1/frame?totals&tables=cpus,latencies");
    let used = value(&"millpond_cpu_user_seconds_total{cpu=\"7\"}".replace('"', "%22")).unwrap();
    assert_eq!(used, totals["cpus"][7]["user_s"].to_string());
    let waits = &totals["latencies"][0]["waits_s"];
    let count = value("histogram_count(millpond_latency_waits_seconds)").unwrap();
    assert_eq!(count, waits["count"].to_string());
}
