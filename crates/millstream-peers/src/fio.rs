//! fio, a program that measures devices, with its io_uring engine: registered files and buffers,
//! memory of its own. It delivers no bytes, so they cannot be checked.

use std::io;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Access;

/// Longest that a run may take.
const RUN_MAX: Duration = Duration::from_secs(30);
/// Between two looks at whether it has ended.
const LOOK_AFTER: Duration = Duration::from_millis(2);

/// What it is to read.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// The file.
    pub file: &'a Path,
    /// Bytes of a request.
    pub request_bytes: u64,
    /// Requests.
    pub requests: u64,
    /// Requests in flight.
    pub depth: usize,
    /// How the file is opened.
    pub access: Access,
    /// In random order, else from the start on.
    pub random: bool,
}

/// What it says of a run, of its reading alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Bytes read.
    pub bytes: u64,
    /// Requests served.
    pub requests: u64,
    /// Seconds by the wall.
    pub seconds: f64,
    /// Seconds of processor time.
    pub cpu_seconds: f64,
}

/// Its version, as it prints it.
///
/// # Errors
/// It is not installed.
pub fn version() -> io::Result<String> {
    let output = Command::new("fio").arg("--version").output();
    let output = output.map_err(|error| io::Error::new(error.kind(), format!("fio: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.trim().trim_start_matches("fio-").to_owned())
}

/// Runs it.
///
/// # Errors
/// It is not installed, fails, takes too long, or says what this does not understand.
pub fn run(job: &Job<'_>) -> io::Result<Figures> {
    let rw = if job.random { "randread" } else { "read" };
    let direct = u8::from(job.access == Access::Direct);
    let words = format!(
        "--name=job --readonly --thread --output-format=json --ioengine=io_uring --fixedbufs \
         --registerfiles --invalidate=0 --rw={rw} --direct={direct} --bs={} --iodepth={} \
         --io_size={} --filename",
        job.request_bytes,
        job.depth,
        job.requests * job.request_bytes
    );
    let child = Command::new("fio")
        .args(words.split_whitespace())
        .arg(job.file)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("fio: {error}")))?;
    let figures = figures_of(&output_of(child)?);
    figures.ok_or_else(|| io::Error::other("fio's output is not as expected"))
}

/// What it printed; what it prints is far less than a pipe holds.
fn output_of(mut child: Child) -> io::Result<Vec<u8>> {
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > RUN_MAX {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::other(format!(
                "fio took longer than {RUN_MAX:?}"
            )));
        }
        std::thread::sleep(LOOK_AFTER);
    };
    let mut text = Vec::new();
    if let Some(mut output) = child.stdout.take() {
        output.read_to_end(&mut text)?;
    }
    if status.success() {
        Ok(text)
    } else {
        Err(io::Error::other(format!("fio ended with {status}")))
    }
}

fn figures_of(text: &[u8]) -> Option<Figures> {
    let json: serde_json::Value = serde_json::from_slice(text).ok()?;
    let job = json.get("jobs")?.get(0)?;
    let read = job.get("read")?;
    let requests = read.get("total_ios")?.as_u64()?;
    // The rate is finer than the run time, which is in whole milliseconds.
    let seconds = requests as f64 / read.get("iops")?.as_f64()?;
    let percent = job.get("usr_cpu")?.as_f64()? + job.get("sys_cpu")?.as_f64()?;
    Some(Figures {
        bytes: read.get("io_bytes")?.as_u64()?,
        requests,
        seconds,
        cpu_seconds: job.get("job_runtime")?.as_f64()? / 1e3 * percent / 100.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_output_is_understood() {
        let text = br#"{"jobs":[{"read":{"io_bytes":8192,"total_ios":2,"iops":1000.0},
            "usr_cpu":25.0,"sys_cpu":50.0,"job_runtime":4}]}"#;
        let figures = figures_of(text).unwrap();
        assert_eq!((figures.bytes, figures.requests), (8192, 2));
        assert!((figures.seconds - 0.002).abs() < 1e-9);
        assert!((figures.cpu_seconds - 0.003).abs() < 1e-9);
        assert_eq!(figures_of(b"{}"), None);
    }

    #[test]
    fn it_reads_a_file_where_it_is_installed() {
        if let Err(error) = version() {
            println!("SKIP: {error}");
            return;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![1; 1 << 20]).unwrap();
        let job = Job {
            file: file.path(),
            request_bytes: 4096,
            requests: 100,
            depth: 4,
            access: Access::Buffered,
            random: true,
        };
        match run(&job) {
            Ok(figures) => assert_eq!(figures.requests, 100),
            Err(error) => println!("SKIP: {error} (io_uring may be refused)"),
        }
    }
}
