//! Logs are read back as written: split, rotated, tailed and followed.

use std::fs;
use std::path::Path;

use muster_api::time::Time;
use muster_process::logs::{LINE_BYTES_MAX, LogRotation, LogStream, LogWriter};
use muster_process::{LogOptions, LogReader};
use proptest::prelude::*;

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_700_000_000 * SECOND;

fn read(dir: &Path, options: LogOptions) -> String {
    String::from_utf8(read_bytes(dir, options)).unwrap()
}

fn read_bytes(dir: &Path, options: LogOptions) -> Vec<u8> {
    let mut reader = LogReader::open(dir, options).unwrap();
    let mut all = Vec::new();
    while let Some(bytes) = reader.next_bytes().unwrap() {
        all.extend(bytes);
    }
    all
}

fn small(file_bytes_max: u64, files_max: u64) -> LogRotation {
    LogRotation { file_bytes_max, files_max }
}

/// Five lines, a second apart; the third goes to stderr.
fn five(dir: &Path) {
    let mut log = LogWriter::open(dir, LogRotation::DEFAULT).unwrap();
    for at in 0..5 {
        let stream = if at == 2 { LogStream::Stderr } else { LogStream::Stdout };
        log.take(stream, format!("line {at}\n").as_bytes(), START + at * SECOND);
    }
}

#[test]
fn options() {
    let dir = tempfile::tempdir().unwrap();
    five(dir.path());
    let none = LogOptions::default();
    let since = Some(Time((START + 3 * SECOND) / 1_000));
    let cases = [
        ("all", none.clone(), "line 0\nline 1\nline 2\nline 3\nline 4\n"),
        ("the end", LogOptions { tail_lines: Some(2), ..none.clone() }, "line 3\nline 4\n"),
        (
            "more than there is",
            LogOptions { tail_lines: Some(9), ..none.clone() },
            "line 0\nline 1\nline 2\nline 3\nline 4\n",
        ),
        ("nothing", LogOptions { tail_lines: Some(0), ..none.clone() }, ""),
        ("since", LogOptions { since, ..none.clone() }, "line 3\nline 4\n"),
        ("since, the end of it", LogOptions { since, tail_lines: Some(1), ..none.clone() }, "line 4\n"),
        (
            "since, and fewer than that",
            LogOptions { since, tail_lines: Some(4), ..none.clone() },
            "line 3\nline 4\n",
        ),
        ("bytes", LogOptions { limit_bytes: Some(9), ..none.clone() }, "line 0\nli"),
        ("no bytes", LogOptions { limit_bytes: Some(0), ..none.clone() }, ""),
        ("one stream", LogOptions { stream: Some(LogStream::Stderr), ..none.clone() }, "line 2\n"),
        (
            "the end of one",
            LogOptions { stream: Some(LogStream::Stdout), tail_lines: Some(3), ..none.clone() },
            "line 1\nline 3\nline 4\n",
        ),
        (
            "stamps",
            LogOptions { timestamps: true, tail_lines: Some(1), ..none },
            "2023-11-14T22:13:24.000000000Z line 4\n",
        ),
    ];
    for (says, options, want) in cases {
        assert_eq!(read(dir.path(), options), want, "{says}");
    }
    assert_eq!(
        read(&dir.path().join("nowhere"), LogOptions { tail_lines: Some(1), ..LogOptions::default() }),
        ""
    );
}

#[test]
fn files_have_the_cri_format() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = LogWriter::open(dir.path(), LogRotation::DEFAULT).unwrap();
    log.take(LogStream::Stdout, b"whole\npart", START);
    log.flush(START + 1);
    log.take(LogStream::Stdout, b" and end\n", START + 2);
    let stamp = "2023-11-14T22:13:20.00000000";
    let want = format!("{stamp}0Z stdout F whole\n{stamp}1Z stdout P part\n{stamp}2Z stdout F  and end\n");
    assert_eq!(fs::read_to_string(dir.path().join("00000001.log")).unwrap(), want);
    assert_eq!(read(dir.path(), LogOptions::default()), "whole\npart and end\n");
    let stamps = LogOptions { timestamps: true, tail_lines: Some(1), ..LogOptions::default() };
    assert_eq!(
        read(dir.path(), stamps),
        format!("{stamp}1Z part and end\n"),
        "one stamp per line, one line per newline"
    );
}

/// A progress bar on stderr, drawn in parts, while stdout has lines.
#[test]
fn a_line_of_one_stream_does_not_begin_inside_one_of_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = LogWriter::open(dir.path(), LogRotation::DEFAULT).unwrap();
    for (at, (stream, text)) in [
        (LogStream::Stderr, "\r 10%"),
        (LogStream::Stderr, "\r 20%"),
        (LogStream::Stdout, "epoch 1\n"),
        (LogStream::Stderr, "\r 30%"),
        (LogStream::Stderr, "\n"),
        (LogStream::Stdout, "done\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let now = START + i64::try_from(at).unwrap();
        log.take(stream, text.as_bytes(), now);
        log.flush(now);
    }
    let none = LogOptions::default();
    let both = "\r 10%\r 20%\nepoch 1\n\r 30%\ndone\n";
    let stamp = "2023-11-14T22:13:20.00000000";
    let stamped = format!("{stamp}0Z \r 10%\r 20%\n{stamp}2Z epoch 1\n{stamp}3Z \r 30%\n{stamp}5Z done\n");
    for (says, options, want) in [
        ("both", none.clone(), both),
        ("with stamps", LogOptions { timestamps: true, ..none.clone() }, stamped.as_str()),
        ("the end", LogOptions { tail_lines: Some(3), ..none.clone() }, "epoch 1\n\r 30%\ndone\n"),
        (
            "stderr as it was written",
            LogOptions { stream: Some(LogStream::Stderr), ..none.clone() },
            "\r 10%\r 20%\r 30%\n",
        ),
        ("stdout", LogOptions { stream: Some(LogStream::Stdout), ..none }, "epoch 1\ndone\n"),
    ] {
        assert_eq!(read(dir.path(), options), want, "{says}");
    }
}

#[test]
fn long_lines_are_whole_again_when_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = LogWriter::open(dir.path(), LogRotation::DEFAULT).unwrap();
    let long = format!("{}\n", "x".repeat(3 * LINE_BYTES_MAX + 5));
    for piece in long.as_bytes().chunks(1000) {
        log.take(LogStream::Stdout, piece, START);
    }
    log.take(LogStream::Stdout, b"next\n", START);
    assert_eq!(read(dir.path(), LogOptions::default()), format!("{long}next\n"));
    let tail = LogOptions { tail_lines: Some(2), ..LogOptions::default() };
    assert_eq!(read(dir.path(), tail), format!("{long}next\n"), "parts are not lines");
    let file = fs::read_to_string(dir.path().join("00000001.log")).unwrap();
    assert!(file.lines().all(|line| line.len() < LINE_BYTES_MAX + 60));
}

#[test]
fn old_files_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = LogWriter::open(dir.path(), small(1000, 3)).unwrap();
    for at in 0..1000 {
        log.take(LogStream::Stdout, format!("line {at}\n").as_bytes(), START + at);
    }
    let sizes: Vec<u64> =
        fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().metadata().unwrap().len()).collect();
    assert_eq!(sizes.len(), 3);
    assert!(sizes.iter().all(|size| *size <= 1100), "{sizes:?}");
    let all = read(dir.path(), LogOptions::default());
    assert!(all.ends_with("line 998\nline 999\n") && !all.contains("line 1\n"), "{all}");
    let tail = LogOptions { tail_lines: Some(30), ..LogOptions::default() };
    assert_eq!(read(dir.path(), tail).lines().next(), Some("line 970"), "over the border of files");
}

#[test]
fn a_follower_misses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut reader = LogReader::at_end(dir.path()).unwrap();
    assert_eq!(reader.next_bytes().unwrap(), None, "there is no log yet");
    let mut log = LogWriter::open(dir.path(), small(500, 3)).unwrap();
    let mut got = Vec::new();
    let mut want = Vec::new();
    for at in 0..500 {
        let line = format!("line {at}\n");
        want.extend_from_slice(line.as_bytes());
        log.take(LogStream::Stdout, line.as_bytes(), START + at);
        if at % 7 == 0 {
            while let Some(bytes) = reader.next_bytes().unwrap() {
                got.extend(bytes);
            }
        }
    }
    while let Some(bytes) = reader.next_bytes().unwrap() {
        got.extend(bytes);
    }
    assert_eq!(String::from_utf8(got), String::from_utf8(want));
}

#[test]
fn a_slow_follower_continues_with_the_oldest_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = LogWriter::open(dir.path(), small(500, 2)).unwrap();
    log.take(LogStream::Stdout, b"first\n", START);
    let mut reader = LogReader::open(dir.path(), LogOptions::default()).unwrap();
    assert_eq!(reader.next_bytes().unwrap().as_deref(), Some(b"first\n".as_slice()));
    for at in 0..200 {
        log.take(LogStream::Stdout, format!("line {at}\n").as_bytes(), START + at);
    }
    let mut last = Vec::new();
    while let Some(bytes) = reader.next_bytes().unwrap() {
        last = bytes;
    }
    assert_eq!(last, b"line 199\n");
}

proptest! {
    /// However the output is split into writes, all of it is read, and a tail is the end of the whole log.
    #[test]
    fn a_tail_is_the_end_of_the_log(
        pieces in proptest::collection::vec((any::<bool>(), "[a\n]{0,40}"), 0..40),
        file_bytes in 60_u64..2000,
        tail in 0_u64..30,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LogWriter::open(dir.path(), small(file_bytes, 1000)).unwrap();
        let mut all = String::new();
        for (at, (flush, text)) in pieces.iter().enumerate() {
            log.take(LogStream::Stdout, text.as_bytes(), START + i64::try_from(at).unwrap());
            if *flush {
                log.flush(START);
            }
            all.push_str(text);
        }
        log.flush(START);
        prop_assert_eq!(read(dir.path(), LogOptions::default()), all.clone());
        let lines: Vec<&str> = all.split_inclusive('\n').collect();
        let want = lines[lines.len().saturating_sub(usize::try_from(tail).unwrap())..].concat();
        prop_assert_eq!(read(dir.path(), LogOptions { tail_lines: Some(tail), ..LogOptions::default() }), want);
    }

    /// However two streams are interleaved, each alone is read as written, and a tail is the end of both.
    #[test]
    fn two_streams_are_kept_apart(
        pieces in proptest::collection::vec((any::<bool>(), any::<bool>(), "[a\n]{0,9}"), 0..30),
        tail in 0_u64..20,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LogWriter::open(dir.path(), LogRotation::DEFAULT).unwrap();
        let mut written = [String::new(), String::new()];
        for (at, (stderr, flush, text)) in pieces.iter().enumerate() {
            let now = START + i64::try_from(at).unwrap();
            let stream = if *stderr { LogStream::Stderr } else { LogStream::Stdout };
            log.take(stream, text.as_bytes(), now);
            if *flush {
                log.flush(now);
            }
            written[stream as usize].push_str(text);
        }
        log.flush(START);
        for stream in [LogStream::Stdout, LogStream::Stderr] {
            let options = LogOptions { stream: Some(stream), ..LogOptions::default() };
            prop_assert_eq!(&read(dir.path(), options), &written[stream as usize]);
        }
        let all = read(dir.path(), LogOptions::default());
        let lines: Vec<&str> = all.split_inclusive('\n').collect();
        let want = lines[lines.len().saturating_sub(usize::try_from(tail).unwrap())..].concat();
        prop_assert_eq!(read(dir.path(), LogOptions { tail_lines: Some(tail), ..LogOptions::default() }), want);
        let stamped = read(dir.path(), LogOptions { timestamps: true, ..LogOptions::default() });
        for line in stamped.lines() {
            prop_assert!(line.starts_with("2023-") && line.matches("2023-").count() == 1, "{line}");
        }
    }
}
