//! A headless Chromium, spoken to in the DevTools protocol over two pipes.
//!
//! Chromium reads commands from its descriptor 3 and writes answers and events to its descriptor 4, JSON texts that
//! end with a zero byte. A shell moves our pipes there. No port is opened.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine;
use serde_json::{Value, json};

/// Longest that anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page.
pub struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    last_id: u64,
    session: String,
    /// Events of the browser, without replies to commands.
    pub events: Vec<Value>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts Chromium with an empty profile and an empty page.
    pub fn start() -> Browser {
        let program = ["chromium", "chromium-browser"]
            .into_iter()
            .find(|program| {
                Command::new("sh").args(["-c", "command -v \"$0\" >/dev/null", program]).status().unwrap().success()
            })
            .expect("chromium is not installed: apt-get install chromium (or run `cargo xtask test`)");
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh", program])
            .args(["--headless", "--disable-gpu", "--no-sandbox", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio"])
            .args(["--hide-scrollbars", "--remote-debugging-pipe", "--disable-extensions", "--disable-default-apps"])
            .args(["--disable-breakpad", "--disable-domain-reliability", "--metrics-recording-only"])
            .args(["--password-store=basic", "--disable-client-side-phishing-detection"])
            // No process in reserve, and nothing else that no test asks for.
            .arg("--disable-features=Translate,OptimizationHints,MediaRouter,SpareRendererForSitePerProcess")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let mut answers = child.stdout.take().unwrap();
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut rest = Vec::new();
            let mut piece = [0; 65_536];
            while let Ok(n @ 1..) = answers.read(&mut piece) {
                rest.extend_from_slice(&piece[..n]);
                while let Some(end) = rest.iter().position(|byte| *byte == 0) {
                    let message: Vec<u8> = rest.drain(..=end).collect();
                    let message = serde_json::from_slice(&message[..end]).unwrap();
                    if sender.send(message).is_err() {
                        return;
                    }
                }
            }
        });
        let mut browser = Browser {
            child,
            commands,
            messages,
            last_id: 0,
            session: String::new(),
            events: Vec::new(),
            _profile: profile,
        };
        let target = browser.first_page();
        let attached = browser.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        browser.session = attached["sessionId"].as_str().unwrap().to_string();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Waits for the page with which Chromium starts, and returns its id. Another page would be another process.
    fn first_page(&mut self) -> Value {
        let start = Instant::now();
        loop {
            let targets = self.call("Target.getTargets", json!({}));
            let targets = targets["targetInfos"].as_array().unwrap();
            if let Some(page) = targets.iter().find(|target| target["type"] == "page") {
                return page["targetId"].clone();
            }
            assert!(start.elapsed() < PATIENCE, "chromium has no page: {targets:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Calls a method of the protocol and returns its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.commands.write_all(format!("{message}\0").as_bytes()).unwrap();
        let start = Instant::now();
        loop {
            let message = self
                .messages
                .recv_timeout(PATIENCE.saturating_sub(start.elapsed()))
                .unwrap_or_else(|error| panic!("chromium did not answer {method}: {error}"));
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    /// The value of a JavaScript expression, promises awaited.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Waits until a JavaScript expression is true.
    pub fn wait_for(&mut self, expression: &str) {
        let start = Instant::now();
        while self.eval(expression) != json!(true) {
            assert!(start.elapsed() < PATIENCE, "never true: {expression}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sets the size of the window and the colour scheme.
    pub fn look(&mut self, width: u32, height: u32, scheme: &str) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Opens a page in a window of this size and colour scheme, and waits until `ready` is true.
    pub fn show(&mut self, path: &Path, width: u32, height: u32, scheme: &str, ready: &str) {
        self.look(width, height, scheme);
        self.open(path);
        self.wait_for(ready);
    }

    /// Opens a file and waits until it is loaded.
    pub fn open(&mut self, path: &Path) {
        let url = format!("file://{}", path.canonicalize().unwrap().display());
        // The page before may be of the same address, and stands until the new one comes.
        self.eval("window.stale = true");
        self.call("Page.navigate", json!({ "url": url }));
        let wanted = json!(url);
        let start = Instant::now();
        loop {
            let state = self.call(
                "Runtime.evaluate",
                json!({ "expression": "[location.href.split('#')[0], window.stale ? 'stale' : document.readyState]", "returnByValue": true }),
            );
            let value = &state["result"]["value"];
            if value[0] == wanted && value[1] == "complete" {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "{url} does not load: {value}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses a key, as a keyboard would.
    pub fn press(&mut self, key: &str, code: u32, text: &str) {
        let mut down = json!({ "type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code });
        if !text.is_empty() {
            down["text"] = json!(text);
        }
        self.call("Input.dispatchKeyEvent", down);
        self.call(
            "Input.dispatchKeyEvent",
            json!({ "type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code }),
        );
    }

    /// Moves, presses or releases the mouse.
    pub fn mouse(&mut self, kind: &str, x: f64, y: f64) {
        let pressed = u8::from(kind != "mouseReleased");
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        self.call(
            "Input.dispatchMouseEvent",
            json!({ "type": kind, "x": x, "y": y, "button": button, "buttons": pressed, "clickCount": 1 }),
        );
    }

    /// Saves a picture of the whole page for inspection, in a heavy run. A picture costs as much as a load of the page.
    pub fn picture(&mut self, path: &Path) {
        if std::env::var_os("PLIMSOLL_HEAVY").is_none() {
            return;
        }
        let png = self.call("Page.captureScreenshot", json!({ "format": "png", "captureBeyondViewport": true }));
        let png = base64::engine::general_purpose::STANDARD.decode(png["data"].as_str().unwrap()).unwrap();
        std::fs::write(path, png).unwrap();
    }

    /// Returns the problems that the page reported: errors and warnings on the console, exceptions, refused policies.
    pub fn complaints(&self) -> Vec<String> {
        let wanted = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => {
                matches!(event["params"]["type"].as_str(), Some("error" | "warning" | "assert"))
            }
            // Reading the canvases back is what the tests do, not the page.
            Some("Log.entryAdded") => {
                let entry = &event["params"]["entry"];
                entry["level"] != "verbose" && !entry["text"].as_str().unwrap_or("").contains("readback")
            }
            _ => false,
        };
        self.events.iter().filter(wanted).map(ToString::to_string).collect()
    }

    /// Addresses of everything that was asked for, except what is in the page itself (`data:`, `blob:`).
    pub fn requests(&self) -> Vec<String> {
        self.events
            .iter()
            .filter(|event| {
                matches!(event["method"].as_str(), Some("Network.requestWillBeSent" | "Network.webSocketCreated"))
            })
            .map(|event| {
                let params = &event["params"];
                params["request"]["url"].as_str().or(params["url"].as_str()).unwrap_or("?").to_string()
            })
            .filter(|url| !url.starts_with("data:") && !url.starts_with("blob:"))
            .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Asked to close it takes its children with it; killed it might leave some.
        let _ = self.commands.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
