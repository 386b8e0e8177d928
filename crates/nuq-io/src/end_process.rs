//! The end of a process from a signal handler: a message, no partially written files, and an exit code.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::partial_files::abandon_writes;

/// How long a thread waits for another one that is ending the process. Removing the files takes less.
const WAIT: Duration = Duration::from_secs(10);

/// Writes the parts of a message to the standard error, removes every partially written file of this process, and ends the process without
/// running any other code of it.
///
/// A signal handler can call this function: it does not wait for a lock without a limit, and for paths of usual length it does not allocate
/// memory. Several threads can receive a signal at the same time; the first one writes its message and ends the process, the others wait.
pub fn end_process(exit_code: i32, message: &[&[u8]]) -> ! {
    static IS_ENDING: AtomicBool = AtomicBool::new(false);
    if IS_ENDING.swap(true, Ordering::AcqRel) {
        // The limit is for a thread that receives a second signal in this function: it would wait for itself.
        let start = Instant::now();
        while start.elapsed() < WAIT {
            std::thread::sleep(Duration::from_millis(10));
        }
    } else {
        for part in message {
            // SAFETY: the pointer and the length are those of a slice. A message that cannot be written is lost.
            let _ = unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
        }
        abandon_writes();
    }
    // SAFETY: the call ends the process without running any other code of it.
    unsafe { libc::_exit(exit_code) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;
    use std::sync::Barrier;
    use std::{env, fs};

    use super::end_process;
    use crate::partial_files::{PartialPath, partial_files};

    const FOLDER: &str = "NUQ_TEST_FOLDER_OF_ENDED_PROCESS";

    #[test]
    fn several_threads_end_the_process_once_and_leave_no_file() {
        if let Some(folder) = env::var_os(FOLDER) {
            end_by_several_threads(folder.as_ref());
        }
        let folder = tempfile::tempdir().unwrap();
        let name = "end_process::tests::several_threads_end_the_process_once_and_leave_no_file";
        let output = Command::new(env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(FOLDER, folder.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap().matches("the message").count(), 1);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// The code of the process that ends. It has so many files that one thread is removing them while the others end the process too.
    fn end_by_several_threads(folder: &Path) {
        for number in 0..1000 {
            let path = folder.join(number.to_string());
            fs::write(&path, "").unwrap();
            partial_files().push(PartialPath::always(path));
        }
        let barrier = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    barrier.wait();
                    end_process(7, &[b"the ", b"message\n"]);
                });
            }
        });
    }
}
