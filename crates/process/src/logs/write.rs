//! Writes a log: splits output into lines, rotates, and survives a full disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::line::{self, LogStream};
use super::{LINE_BYTES_MAX, LogRotation, file_path};

/// Writes the log of one run.
pub struct LogWriter {
    dir: PathBuf,
    bounds: LogRotation,
    number: u64,
    file: Option<File>,
    /// File length up to the last complete write.
    length: u64,
    /// Lines dropped since the last successful write.
    dropped: u64,
    /// Text without a newline, by stream.
    open: [Vec<u8>; 2],
    /// Whether the last line of each stream was partial.
    unfinished: [bool; 2],
    /// Lines ready to be written.
    ready: Vec<u8>,
    ready_lines: u64,
}

impl LogWriter {
    /// Starts a log in `dir`, which is created.
    pub fn open(dir: &Path, bounds: LogRotation) -> io::Result<LogWriter> {
        fs::create_dir_all(dir)?;
        let mut writer = LogWriter {
            dir: dir.to_owned(),
            bounds,
            number: 1,
            file: None,
            length: 0,
            dropped: 0,
            open: [Vec::new(), Vec::new()],
            unfinished: [false; 2],
            ready: Vec::new(),
            ready_lines: 0,
        };
        // A full disk may have space later.
        let _ = writer.open_file();
        Ok(writer)
    }

    /// Adds output; complete lines are written at once.
    pub fn take(&mut self, stream: LogStream, bytes: &[u8], now_nanos: i64) {
        let stamp = line::stamp(now_nanos);
        let mut open = std::mem::take(&mut self.open[stream as usize]);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            open.extend_from_slice(text);
            self.split_long(&mut open, stream, &stamp);
            if ends {
                self.line(&stamp, stream, true, &open);
                open.clear();
            }
        }
        self.open[stream as usize] = open;
        self.flush_lines();
    }

    /// Whether a partial line is buffered.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.iter().any(|open| !open.is_empty())
    }

    /// Whether the last line of this stream is unfinished.
    #[must_use]
    pub fn is_unfinished(&self, stream: LogStream) -> bool {
        self.unfinished[stream as usize] || !self.open[stream as usize].is_empty()
    }

    /// Dropped lines that the log does not mention yet.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.dropped
    }

    /// Writes buffered text as a partial line, so that a prompt is visible.
    pub fn flush(&mut self, now_nanos: i64) {
        let stamp = line::stamp(now_nanos);
        for stream in [LogStream::Stdout, LogStream::Stderr] {
            let open = std::mem::take(&mut self.open[stream as usize]);
            if !open.is_empty() {
                self.line(&stamp, stream, false, &open);
            }
        }
        self.flush_lines();
    }

    /// Splits off text beyond the maximum line.
    fn split_long(&mut self, open: &mut Vec<u8>, stream: LogStream, stamp: &str) {
        while open.len() > LINE_BYTES_MAX {
            let rest = open.split_off(LINE_BYTES_MAX);
            self.line(stamp, stream, false, open);
            *open = rest;
        }
    }

    fn line(&mut self, stamp: &str, stream: LogStream, ends: bool, text: &[u8]) {
        line::write(&mut self.ready, stamp, stream, ends, text);
        self.unfinished[stream as usize] = !ends;
        self.ready_lines += 1;
        // Bounds the overshoot of a log file within one write.
        if self.ready.len() as u64 >= self.bounds.file_bytes_max {
            self.flush_lines();
        }
    }

    /// Writes the ready lines, or drops and counts them.
    fn flush_lines(&mut self) {
        if self.ready.is_empty() {
            return;
        }
        let mut ready = std::mem::take(&mut self.ready);
        let lines = std::mem::take(&mut self.ready_lines);
        if self.dropped > 0 {
            // The note precedes the first line after the gap and has its timestamp.
            let says = format!("[muster: {} lines of output were lost: the disk was full]", self.dropped);
            let stamp = ready
                .iter()
                .take_while(|byte| **byte != b' ')
                .map(|byte| char::from(*byte))
                .collect::<String>();
            let mut all = Vec::new();
            line::write(&mut all, &stamp, LogStream::Stderr, true, says.as_bytes());
            all.append(&mut ready);
            ready = all;
        }
        match self.try_flush(&ready) {
            Ok(()) => self.dropped = 0,
            Err(_) => self.dropped += lines,
        }
        ready.clear();
        self.ready = ready;
    }

    fn try_flush(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            self.open_file()?;
        } else if self.length >= self.bounds.file_bytes_max {
            self.rotate()?;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        if let Err(error) = file.write_all(bytes) {
            // Truncates a partial write, which would be parsed as garbage; this needs no space.
            let _ = file.set_len(self.length);
            return Err(error);
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        // Removing the oldest file first makes space on a full disk.
        if let Some(oldest) = (self.number + 1).checked_sub(self.bounds.files_max.max(1)).filter(|it| *it > 0)
        {
            let _ = fs::remove_file(file_path(&self.dir, oldest));
        }
        self.number += 1;
        self.file = None;
        self.open_file()
    }

    fn open_file(&mut self) -> io::Result<()> {
        let file = File::options().append(true).create(true).open(file_path(&self.dir, self.number))?;
        self.length = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_drops_lines_and_reports_them() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LogWriter::open(dir.path(), LogRotation::DEFAULT).unwrap();
        log.take(LogStream::Stdout, b"before\n", 0);
        log.file = Some(File::options().write(true).open("/dev/full").unwrap());
        log.take(LogStream::Stdout, b"one\ntwo\n", 1);
        log.take(LogStream::Stderr, b"three\n", 2);
        assert_eq!(log.dropped, 3);
        log.file = None;
        log.take(LogStream::Stdout, b"after\n", 3);
        log.take(LogStream::Stdout, b"again\n", 4);
        let text = fs::read_to_string(dir.path().join("00000001.log")).unwrap();
        let texts: Vec<&str> = text.lines().map(|line| line.splitn(4, ' ').nth(3).unwrap()).collect();
        let lost = "[muster: 3 lines of output were lost: the disk was full]";
        assert_eq!(texts, ["before", lost, "after", "again"]);
    }

    #[test]
    fn a_line_is_unfinished_until_its_newline() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LogWriter::open(dir.path(), LogRotation::DEFAULT).unwrap();
        let unfinished =
            |log: &LogWriter| [LogStream::Stdout, LogStream::Stderr].map(|it| log.is_unfinished(it));
        for (text, flush, want) in [
            ("10%", false, true),
            ("", true, true),
            ("20%", true, true),
            ("\n", false, false),
            ("a\n", true, false),
        ] {
            log.take(LogStream::Stderr, text.as_bytes(), 0);
            if flush {
                log.flush(0);
            }
            assert_eq!(unfinished(&log), [false, want], "{text:?}");
        }
    }
}
