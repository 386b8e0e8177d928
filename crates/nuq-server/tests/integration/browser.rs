//! A headless browser, controlled through the DevTools protocol over two pipes.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Path of the browser: the value of the variable `NUQ_CHROMIUM`, otherwise a known name in a folder of `PATH`.
fn chromium() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("NUQ_CHROMIUM") {
        return Some(path.into());
    }
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let paths = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    paths.into_iter().find(|path| path.is_file())
}

/// One page of a browser. It records all requests, and the messages of the console except those of `console.log`.
pub(crate) struct Page {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: String,
    next_id: u64,
    /// Errors and warnings of the console, exceptions, and resources that could not be loaded.
    pub(crate) errors: Vec<String>,
    /// The addresses of all requests.
    pub(crate) requests: Vec<String>,
    _profile: TempDir,
}

impl Page {
    /// Starts a browser. If there is none, prints a notice and returns `None`.
    pub(crate) fn start() -> Option<Self> {
        let Some(browser) = chromium() else {
            eprintln!(
                "no Chromium found (NUQ_CHROMIUM, chromium, chromium-browser, google-chrome): page test skipped"
            );
            return None;
        };
        let profile = tempfile::tempdir().expect("a temporary folder can be created");
        // The protocol uses the descriptors 3 and 4.
        let mut process = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null"])
            .arg(browser)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-extensions", "--remote-debugging-pipe", "--no-proxy-server"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the browser starts");
        let input = process.stdin.take().expect("the input is a pipe");
        let output = BufReader::new(process.stdout.take().expect("the output is a pipe"));
        let mut page = Self {
            process,
            input,
            output,
            session: String::new(),
            next_id: 0,
            errors: vec![],
            requests: vec![],
            _profile: profile,
        };
        let target = page.call("Target.createTarget", json!({ "url": "about:blank" }));
        let parameters = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = page.call("Target.attachToTarget", parameters);
        page.session = attached["sessionId"].as_str().expect("a session has an id").to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        Some(page)
    }

    /// Sends a command and returns its result. Events that arrive before it are recorded.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.as_str().into();
        }
        let bytes = [message.to_string().as_bytes(), b"\0"].concat();
        self.input.write_all(&bytes).and_then(|()| self.input.flush()).expect("the browser reads commands");
        loop {
            let message = self.receive();
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.record(&message);
        }
    }

    fn receive(&mut self) -> Value {
        let mut bytes = vec![];
        self.output.read_until(0, &mut bytes).expect("the browser answers");
        bytes.pop();
        serde_json::from_slice(&bytes).expect("the browser sends JSON")
    }

    fn record(&mut self, event: &Value) {
        let parameters = &event["params"];
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.errors.push(parameters["exceptionDetails"].to_string()),
            Some("Runtime.consoleAPICalled") if parameters["type"] != "log" => {
                self.errors.push(parameters.to_string())
            }
            Some("Log.entryAdded") => self.errors.push(parameters["entry"].to_string()),
            Some("Network.requestWillBeSent") => {
                self.requests.push(parameters["request"]["url"].as_str().unwrap_or_default().to_owned());
            }
            _ => {}
        }
    }

    pub(crate) fn set_size(&mut self, width: u32, height: u32) {
        let parameters = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", parameters);
    }

    pub(crate) fn set_color_scheme(&mut self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    pub(crate) fn open(&mut self, address: &str) {
        self.call("Page.navigate", json!({ "url": address }));
    }

    /// The value of an expression. If this value is a promise, waits until the promise is resolved and returns the result.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let result = self.call("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true. The limit is five minutes or more, for busy machines.
    pub(crate) fn wait_for(&mut self, expression: &str) {
        for _ in 0..6000 {
            if self.evaluate(&format!("Boolean({expression})")) == true {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let text = self.evaluate("document.body.innerText");
        panic!("{expression} does not become true; errors: {:?}; page: {text}", self.errors);
    }

    /// Repeats an action until an expression is true. A single action may have no effect, because a figure loses the focus when it is
    /// drawn again with new data.
    pub(crate) fn repeat_until(&mut self, expression: &str, action: impl Fn(&mut Self)) {
        for _ in 0..1000 {
            action(self);
            if self.evaluate(&format!("Boolean({expression})")) == true {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let text = self.evaluate("document.body.innerText");
        panic!("{expression} does not become true; errors: {:?}; page: {text}", self.errors);
    }

    /// Presses and releases a key, such as `Tab`, `Enter` or `ArrowRight`.
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            _ => 0,
        };
        for kind in ["rawKeyDown", "char", "keyUp"] {
            if kind == "char" && key != "Enter" {
                continue;
            }
            let mut parameters = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "nativeVirtualKeyCode": code });
            if key == "Enter" {
                parameters["text"] = "\r".into();
            }
            self.call("Input.dispatchKeyEvent", parameters);
        }
    }

    /// Types text into the focused element.
    pub(crate) fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// Selects a file in an input element.
    pub(crate) fn choose_file(&mut self, selector: &str, file: &Path) {
        let expression = format!("document.querySelector({selector:?})");
        let element = self.call("Runtime.evaluate", json!({ "expression": expression }));
        let parameters = json!({ "files": [file], "objectId": element["result"]["objectId"] });
        self.call("DOM.setFileInputFiles", parameters);
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
