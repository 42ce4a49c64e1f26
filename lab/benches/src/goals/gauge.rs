//! Cost of `millpond gauge` with two thousand additional threads and one request for its metrics per second, compared with a process exporter and a
//! machine exporter.
//!
//! Own CPU time per second, as the mean of five seconds, because threads and their placement are only read every few seconds.
//! The exporters read the machine on request, gauge each second.

use super::prstat::Crowd;
use super::sample::{ROUND, each};
use crate::line::{Goal, Line, Pairs};
use crate::trial::{Bench, Beside, Trouble, find_program, told};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

/// Number of sleeping threads.
const THREADS: usize = 2_000;

/// Half a percent of a CPU is 5 ms per second.
const GOAL: Goal = Goal::OursAtMost(5_000.0);

const NAME: &str = "gauge: a second with 2,000 threads, scraped";

const OURS: &str = "127.0.0.1:19187";
const THEIRS: &str = "127.0.0.1:19188";

/// Timeout of an exporter's start, in tenths of a second.
const PATIENCE: u32 = 100;

/// All processes by name, with their threads.
const ALL: &str = "process_names:\n  - name: \"{{.Comm}}\"\n    cmdline: ['.+']\n";

/// Measures these goals.
pub fn measure(bench: &Bench) -> Vec<Line> {
    let processes = ("prometheus-process-exporter", "-web.listen-address");
    let machine = ("prometheus-node-exporter", "--web.listen-address");
    let lines = [(processes, GOAL), (processes, Goal::RatioAtMost(1.0)), (machine, Goal::None)];
    let crowd = Crowd::gather(THREADS);
    let line = |((program, option), goal): ((&str, &str), Goal)| match &crowd {
        Ok(_) => Line::found(NAME, program, "us", scraped(bench, program, option), goal),
        Err(why) => Line::unresolvable(NAME, program, goal, why),
    };
    lines.map(line).to_vec()
}

/// Runs both for one second per pair, with one request to each per second.
fn scraped(bench: &Bench, program: &str, option: &str) -> Result<Pairs, Trouble> {
    let config = bench.scratch.join("exporter.yml");
    told("write a file", fs::write(&config, ALL))?;
    let mut peer = Command::new(find_program(program)?);
    peer.arg(format!("{option}={THEIRS}"));
    if program.contains("process") {
        peer.arg("-config.path").arg(&config);
    }
    let ours = Beside::start(&mut bench.command(&["gauge", "--listen", OURS]))?;
    let peer = Beside::start(&mut peer)?;
    let scraper = Scraper::start(&[OURS, THEIRS])?;
    sleep(Duration::from_millis(1500));
    let pairs = each(ROUND, bench.pairs, &ours, || peer.cpu_time().map(|time| time.0));
    scraper.end()?;
    pairs
}

/// Requests metrics once a second.
struct Scraper {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), Trouble>>,
}

impl Scraper {
    /// Fails if an exporter does not answer within some seconds.
    fn start(addresses: &'static [&'static str]) -> Result<Scraper, Trouble> {
        for address in addresses {
            let mut left = PATIENCE;
            while let Err(why) = ask(address) {
                left = left.checked_sub(1).ok_or(why)?;
                sleep(Duration::from_millis(100));
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        let its = Arc::clone(&stop);
        let thread = spawn(move || {
            while !its.load(Ordering::Relaxed) {
                addresses.iter().try_for_each(|address| ask(address))?;
                sleep(Duration::from_secs(1));
            }
            Ok(())
        });
        Ok(Scraper { stop, thread })
    }

    fn end(self) -> Result<(), Trouble> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the scraper panicked".to_owned())?
    }
}

fn ask(address: &str) -> Result<(), Trouble> {
    let what = format!("scrape {address}");
    let mut stream = told(&what, TcpStream::connect(address))?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    told(&what, stream.write_all(request.as_bytes()))?;
    let mut answer = Vec::new();
    told(&what, stream.read_to_end(&mut answer))?;
    match answer.starts_with(b"HTTP/1.1 200") {
        true => Ok(()),
        false => Err(format!(
            "cannot {what}: it answers {}",
            String::from_utf8_lossy(&answer[..answer.len().min(60)])
        )),
    }
}
