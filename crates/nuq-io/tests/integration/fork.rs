//! A child process that `fork` creates can write files even while a thread of its parent holds the lock of the list of partial
//! files.

use std::fs;
use std::io::Write;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The status of the child as `waitpid` returns it, 0 for success. If it has not ended after ten seconds, it is killed, and the result is `None`.
fn wait(child: libc::pid_t) -> Option<i32> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(10) {
        let mut status = 0;
        // SAFETY: `status` is a valid place to write to, and `child` is a child of this process.
        if unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // SAFETY: `child` is a child of this process that has not been waited for.
    unsafe { libc::kill(child, libc::SIGKILL) };
    None
}

/// `stop_writing` removes the partial files of all tests of the process, so the scenario runs in a process of its own.
#[test]
fn forked_children_write_files() {
    let name = "fork::a_forked_child_writes_while_a_thread_of_the_parent_holds_the_lock";
    let mut helper = Command::new(std::env::current_exe().unwrap());
    let output = helper.args(["--ignored", "--exact", name]).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
}

#[test]
#[ignore = "started by forked_children_write_files in a process of its own"]
fn a_forked_child_writes_while_a_thread_of_the_parent_holds_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result");
    let (held, is_held) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let holder = std::thread::spawn(move || {
        nuq_io::stop_writing(|| {
            held.send(()).unwrap();
            released.recv().unwrap();
        });
    });
    is_held.recv().unwrap();
    // SAFETY: the child writes a file and ends with `_exit`. It has its own list of partial files with
    // its own lock. The only lock of the parent that it uses is the allocator's, which the C library makes usable in children.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let written = nuq_io::write_atomically(&path, |file| file.write_all(b"child"));
        // SAFETY: ends the child without running the destructors of the test harness.
        unsafe { libc::_exit(i32::from(written.is_err())) };
    }
    let status = wait(child);
    release.send(()).unwrap();
    holder.join().unwrap();
    assert_eq!(status, Some(0), "the child must end by itself and report success");
    assert_eq!(fs::read(&path).unwrap(), b"child");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    nuq_io::write_atomically(&path, |file| file.write_all(b"parent")).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"parent");
}
