//! The processes of contenders: `worker.py`, with which lines of JSON are exchanged.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde::Deserialize;
use serde_json::Value;

use crate::case::Work;
use crate::clock::Span;
use crate::error::{Context, Error, Result};
use crate::metric::Metric;

const SCRIPT: &str = include_str!("worker.py");

/// An interpreter that has the package.
pub(super) struct Python {
    program: OsString,
}

impl Python {
    /// # Errors
    /// The program does not start, or lacks the package.
    pub(super) fn find(program: OsString) -> Result<Python> {
        let mut command = Command::new(&program);
        command.args(["-c", "import millstream, numpy"]);
        let output = command.stdin(Stdio::null()).output();
        let output = output.on("start", program.as_ref())?;
        if output.status.success() {
            return Ok(Python { program });
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.lines().last().unwrap_or("it failed");
        let program = program.display();
        Err(Error::new(format!(
            "{program} has no package millstream: {last}"
        )))
    }

    /// A process that is ready to run.
    ///
    /// # Errors
    /// What the contender needs is not there.
    pub(super) fn start(&self, task: &str, contender: &str, arguments: &Value) -> Result<Worker> {
        let mut command = Command::new(&self.program);
        command.args(["-c", SCRIPT, task, contender, &arguments.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().on("start", self.program.as_ref())?;
        let answers = process.stdout.take().map(BufReader::new);
        let answers = answers.ok_or_else(|| Error::new("a process without output"))?;
        let mut worker = Worker { process, answers };
        worker.answer().map(|_| worker)
    }
}

/// A line of a worker.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Answer {
    error: Option<String>,
    wall: f64,
    cpu: f64,
    bytes: u64,
    requests: u64,
    digest: Option<u64>,
    peak: Option<f64>,
}

/// A process that runs once.
pub(super) struct Worker {
    process: Child,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    /// Runs, and sums up what was loaded.
    ///
    /// # Errors
    /// What the contender raised, or the process ended.
    pub(super) fn run(&mut self) -> Result<Work> {
        let input = self.process.stdin.as_mut();
        let input = input.ok_or_else(|| Error::new("a process without input"))?;
        input.write_all(b"run\n").what("the worker")?;
        let answer = self.answer()?;
        // It ends before the next contender begins.
        drop(self.process.stdin.take());
        self.process.wait().what("the worker")?;
        let (wall, cpu) = (answer.wall, answer.cpu);
        Ok(Work {
            bytes: answer.bytes,
            requests: answer.requests,
            digest: answer.digest,
            span: Some(Span { wall, cpu }),
            // Resident memory at the peak of a run, less what was resident before.
            extra: answer
                .peak
                .map(|peak| (Metric::of("peak MiB"), peak / 1_048_576.0))
                .into_iter()
                .collect(),
        })
    }

    fn answer(&mut self) -> Result<Answer> {
        let mut line = String::new();
        self.answers.read_line(&mut line).what("the worker")?;
        if line.is_empty() {
            let status = self.process.wait().what("the worker")?;
            return Err(Error::new(format!("the process ended: {status}")));
        }
        let answer: Answer = serde_json::from_str(&line).what("the worker's answer")?;
        match answer.error {
            Some(error) => Err(Error::new(error)),
            None => Ok(answer),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It ends when its input does.
        drop(self.process.stdin.take());
        // How it ended tells nothing that its answers did not.
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// An interpreter that is a script of the shell, which gets `-c`, the code and its arguments.
    fn interpreter(folder: &std::path::Path, script: &str) -> Python {
        let program = folder.join("interpreter");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let program = program.into_os_string();
        Python { program }
    }

    #[test]
    fn a_worker_answers_twice() {
        let folder = tempfile::tempdir().unwrap();
        let script = r#"echo '{}'; read line
            echo '{"wall":2,"cpu":1.5,"bytes":'${#5}',"requests":9,"digest":18446744073709551615}'
        "#;
        let python = interpreter(folder.path(), script);
        let arguments = serde_json::json!({ "a": 1 });
        let mut worker = python.start("task", "contender", &arguments).unwrap();
        let work = worker.run().unwrap();
        assert_eq!((work.bytes, work.requests), (7, 9));
        assert_eq!(work.digest, Some(u64::MAX));
        let span = work.span.unwrap();
        assert_eq!((span.wall, span.cpu), (2.0, 1.5));
    }

    #[test]
    fn what_a_worker_lacks_or_raises_is_an_error_and_so_is_its_end() {
        let folder = tempfile::tempdir().unwrap();
        for (script, cause) in [
            (r#"echo '{"error":"ModuleNotFoundError: h5py"}'"#, "h5py"),
            ("exit 3", "the process ended: exit status: 3"),
            ("echo nonsense", "the worker's answer"),
        ] {
            let python = interpreter(folder.path(), script);
            let error = python.start("task", "contender", &Value::Null).map(drop);
            let error = error.expect_err(script).to_string();
            assert!(error.contains(cause), "{error}");
        }
        let python = interpreter(folder.path(), "echo '{}'; read line");
        let mut worker = python.start("task", "contender", &Value::Null).unwrap();
        assert!(worker.run().is_err());
        let lacks = "echo \"ModuleNotFoundError: No module named 'millstream'\" >&2; exit 1";
        let python = interpreter(folder.path(), lacks);
        let error = Python::find(python.program)
            .map(drop)
            .expect_err("it lacks the package");
        assert!(error.to_string().contains("No module named"), "{error}");
    }
}
