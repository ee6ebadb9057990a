//! What is shown on a terminal while a command works, and what is not. The terminals are those of
//! the tool `script`.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use crate::common::{installed, make_fifo, mixed_bytes, wait};

/// The program on a terminal of its own; `None`, with SKIP said, where there is no `script`.
fn on_terminal(folder: &std::path::Path, call: &str) -> Option<Child> {
    if !installed("script") {
        return None;
    }
    let program = env!("CARGO_BIN_EXE_millstream");
    let child = Command::new("script")
        .args(["-qec", &format!("{program} {call}"), "/dev/null"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    Some(child.expect("it starts"))
}

/// The writing end of a FIFO, once somebody reads it.
fn feed(fifo: &std::path::Path) -> std::fs::File {
    let opened = std::fs::OpenOptions::new().write(true).open(fifo);
    opened.expect("a FIFO")
}

/// Reads from the terminal until it shows `words`; what came until then.
fn shown(terminal: &mut impl std::io::Read, words: &str) -> String {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = terminal.read(&mut piece).expect("the terminal is there");
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&bytes);
        if text.contains(words) {
            return text.into_owned();
        }
        assert!(read > 0, "the terminal shows no '{words}': {text}");
    }
}

#[test]
fn work_that_counts_nothing_yet_is_shown_too() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    make_fifo(&folder.path().join("image"));
    for (call, words) in [
        ("decode - raw < image", "decoding"),
        ("compress --codec gdeflate - raw < image", "compressing"),
    ] {
        let Some(mut child) = on_terminal(folder.path(), call) else {
            return;
        };
        let mut terminal = child.stdout.take().expect("a pipe was asked for");
        let mut feeder = feed(&folder.path().join("image"));
        shown(&mut terminal, words);
        feeder.write_all(b"P5 1 1 255\n\n").expect("it is read");
        drop(feeder);
        let mut rest = String::new();
        terminal.read_to_string(&mut rest).expect("the end");
        assert!(!rest.contains("failure"), "{rest}");
        assert!(wait(&mut child).success(), "{call}");
    }
}

#[test]
fn what_is_printed_to_a_terminal_has_no_bar_in_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    make_fifo(&folder.path().join("raw"));
    // Bytes go to the terminal while the work waits for more.
    let call = "decompress --codec gzip - - < raw";
    let Some(mut child) = on_terminal(folder.path(), call) else {
        return;
    };
    let text: Vec<u8> = mixed_bytes(3, 3_000_000)
        .iter()
        .map(|byte| b'a' + byte % 26)
        .collect();
    let raw = folder.path().join("text");
    std::fs::write(&raw, &text).expect("a file");
    let mut command = crate::common::millstream(&["compress", "--codec", "gzip"]);
    let stored = crate::common::run(command.arg(&raw).arg("-")).stdout;
    let mut terminal = child.stdout.take().expect("a pipe was asked for");
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        terminal
            .read_to_end(&mut all)
            .expect("the terminal is there");
        all
    });
    let mut feeder = feed(&folder.path().join("raw"));
    feeder
        .write_all(&stored[..stored.len() / 2])
        .expect("it is read");
    // Longer than it takes until a bar is shown.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    feeder
        .write_all(&stored[stored.len() / 2..])
        .expect("it is read");
    drop(feeder);
    assert!(wait(&mut child).success());
    assert!(
        reader.join().expect("it reads") == text,
        "more than the text is on the terminal"
    );
}
