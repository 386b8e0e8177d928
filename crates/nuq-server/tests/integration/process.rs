//! A server in another process: this test binary, which runs the ignored test `serve_for_another_process`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nuq_server::{Config, ModelSource, Server};

use super::common::Reply;

/// The environment variable with the folder of the model `m.nuq` and of the state.
const FOLDER: &str = "NUQ_TEST_SERVER_FOLDER";

/// The environment variable with the largest size of files that the server writes, in bytes.
pub(crate) const FILE_LIMIT: &str = "NUQ_TEST_FILE_LIMIT";

#[test]
#[ignore = "it is the server of the other tests"]
fn serve_for_another_process() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    limit_files();
    let config = Config {
        models: vec![ModelSource { name: "m".to_owned(), path: folder.join("m.nuq") }],
        address: SocketAddr::from(([127, 0, 0, 1], 0)).into(),
        state: Some(folder.join("state")),
        ..Config::default()
    };
    let server = Server::start(config).unwrap();
    // The address is on a new line, because the test harness may have printed text to the current line.
    println!("\naddress {}", server.address());
    std::io::stdout().flush().unwrap();
    server.wait();
}

/// Limits the size of files. Writes beyond this size then fail, like writes to a full disk.
#[cfg(unix)]
fn limit_files() {
    let Some(limit) = std::env::var(FILE_LIMIT).ok().and_then(|limit| limit.parse().ok()) else { return };
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: both calls change attributes of this process only; the structure is valid during the call.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
    }
}

#[cfg(not(unix))]
fn limit_files() {}

/// The server in another process.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Process {
    pub(crate) fn start(folder: &Path, variables: &[(&str, &str)]) -> Self {
        let mut child = Self::spawn(folder, variables);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address =
            lines.map_while(Result::ok).find_map(|line| line.strip_prefix("address ")?.parse().ok());
        let address = address.expect("the server prints its address");
        Self { child, address }
    }

    /// Starts a server and kills it after some time, whether it answers already or not.
    pub(crate) fn start_and_kill(folder: &Path, after: Duration) {
        let mut child = Self::spawn(folder, &[]);
        std::thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn spawn(folder: &Path, variables: &[(&str, &str)]) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["process::serve_for_another_process", "--exact", "--ignored", "--nocapture"])
            .env(FOLDER, folder)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    pub(crate) fn kill(mut self) {
        // SIGKILL on unix: the process cannot write anything more.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A test that fails must not leave its server running.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request; `None` if the connection failed or ended before the whole response arrived.
pub(crate) fn request(address: SocketAddr, method: &str, path: &str, body: &str) -> Option<Reply> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()?;
    let mut bytes = vec![];
    stream.read_to_end(&mut bytes).ok()?;
    let has_head = bytes.windows(4).any(|window| window == b"\r\n\r\n");
    has_head.then(|| Reply::parse(&bytes)).filter(|reply| reply.is_complete)
}
