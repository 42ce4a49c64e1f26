//! A real headless browser, controlled through two pipes: each message is JSON, terminated by a zero byte.

use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Names of the browser's program.
const PROGRAMS: [&str; 2] = ["chromium", "chromium-browser"];

pub struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    session: Option<String>,
    number: u64,
    _dir: tempfile::TempDir,
}

impl Browser {
    /// Starts the browser. If it is not installed, prints that and returns `None`.
    pub fn start(test: &str) -> Option<Browser> {
        let is_there =
            |name: &&&str| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
        let Some(program) = PROGRAMS.iter().find(is_there) else {
            println!("skipped: {test}: there is no chromium (apt-get install chromium)");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let pipe = |name: &str| {
            let path = dir.path().join(name);
            assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            path
        };
        let (to, from) = (pipe("to"), pipe("from"));
        let script = r#"exec "$0" --headless --no-sandbox --disable-gpu --hide-scrollbars --disable-dev-shm-usage --user-data-dir="$3" --remote-debugging-pipe about:blank 3<"$1" 4>"$2""#;
        let child = Command::new("sh")
            .args(["-c", script, program])
            .args([&to, &from, &dir.path().join("profile")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let to = OpenOptions::new().write(true).open(&to).unwrap();
        let from = BufReader::new(File::open(&from).unwrap());
        let mut browser = Browser { child, to, from, session: None, number: 0, _dir: dir };
        let target = browser.ask("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.ask("Target.attachToTarget", &attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        Some(browser)
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        write!(self.to, "{message}\0").unwrap();
        loop {
            let mut bytes = Vec::new();
            self.from.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "the browser ended");
            let answer: Value = serde_json::from_slice(&bytes).unwrap();
            if answer["id"] == json!(self.number) {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// Opens a page at this window size.
    pub fn open(&mut self, address: &str, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", &size);
        self.ask("Page.navigate", &json!({"url": address}));
    }

    /// The value of an expression on the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let answer = self.ask("Runtime.evaluate", &json!({"expression": expression, "returnByValue": true}));
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn wait(&mut self, expression: &str) {
        let begun = Instant::now();
        while self.value(expression) != json!(true) {
            assert!(begun.elapsed() < Duration::from_secs(60), "never true: {expression}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Presses a named key, such as `ArrowRight`.
    pub fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.ask("Input.dispatchKeyEvent", &json!({"type": kind, "key": key, "code": key}));
        }
    }

    /// Sets the preferred colour scheme of the page.
    pub fn darken(&mut self, scheme: &str) {
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        self.ask("Emulation.setEmulatedMedia", &json!({"features": [feature]}));
    }

    /// Writes a screenshot of the page.
    pub fn picture(&mut self, path: &Path) {
        let answer = self.ask("Page.captureScreenshot", &json!({"format": "png"}));
        let text = answer["data"].as_str().unwrap();
        std::fs::write(path, decoded(text)).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Decodes base64.
fn decoded(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |letter: u8| LETTERS.iter().position(|known| *known == letter);
    let mut bytes = Vec::new();
    for four in text.as_bytes().chunks(4) {
        let digits: Vec<usize> = four.iter().filter_map(|letter| digit(*letter)).collect();
        let number = digits.iter().fold(0, |sum, digit| sum << 6 | digit) << (6 * (4 - digits.len()));
        bytes.extend(number.to_be_bytes()[5..].iter().take(digits.len() - 1));
    }
    bytes
}
