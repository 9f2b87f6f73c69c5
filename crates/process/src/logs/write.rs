//! Writes a log: cuts output into lines, rotates, and lives with a full disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::line::{self, Stream};
use super::{Bounds, LINE_BYTES_MAX, file_path};

/// The log of one run, being written.
pub struct LogWriter {
    dir: PathBuf,
    bounds: Bounds,
    number: u64,
    file: Option<File>,
    /// How much of the file is good.
    length: u64,
    /// Lines that could not be written since one last could.
    dropped: u64,
    /// Text without its newline yet, by stream.
    open: [Vec<u8>; 2],
    /// Whether the last line of each stream was a part.
    unfinished: [bool; 2],
    /// Lines ready to be written.
    ready: Vec<u8>,
    ready_lines: u64,
}

impl LogWriter {
    /// Begins a log in `dir`, which is made.
    ///
    /// # Errors
    /// What the system said.
    pub fn open(dir: &Path, bounds: Bounds) -> io::Result<LogWriter> {
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
        // A disk that is full now may have room later.
        let _ = writer.open_file();
        Ok(writer)
    }

    /// Takes output in as it comes. Whole lines are written at once.
    pub fn take(&mut self, stream: Stream, bytes: &[u8], now_nanos: i64) {
        let stamp = line::stamp(now_nanos);
        let mut open = std::mem::take(&mut self.open[stream as usize]);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            open.extend_from_slice(text);
            self.cut(&mut open, stream, &stamp);
            if ends {
                self.line(&stamp, stream, true, &open);
                open.clear();
            }
        }
        self.open[stream as usize] = open;
        self.put();
    }

    /// Whether there is text that waits for its newline.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.iter().any(|open| !open.is_empty())
    }

    /// Whether a line of this stream has begun and not ended.
    #[must_use]
    pub fn is_unfinished(&self, stream: Stream) -> bool {
        self.unfinished[stream as usize] || !self.open[stream as usize].is_empty()
    }

    /// How many lines could not be written, so far without a word of it in the log.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.dropped
    }

    /// Writes text that waits for its newline, as a part: a prompt must be seen before the answer.
    pub fn flush(&mut self, now_nanos: i64) {
        let stamp = line::stamp(now_nanos);
        for stream in [Stream::Stdout, Stream::Stderr] {
            let open = std::mem::take(&mut self.open[stream as usize]);
            if !open.is_empty() {
                self.line(&stamp, stream, false, &open);
            }
        }
        self.put();
    }

    /// Moves text beyond the bound of a line out of `open`.
    fn cut(&mut self, open: &mut Vec<u8>, stream: Stream, stamp: &str) {
        while open.len() > LINE_BYTES_MAX {
            let rest = open.split_off(LINE_BYTES_MAX);
            self.line(stamp, stream, false, open);
            *open = rest;
        }
    }

    fn line(&mut self, stamp: &str, stream: Stream, ends: bool, text: &[u8]) {
        line::write(&mut self.ready, stamp, stream, ends, text);
        self.unfinished[stream as usize] = !ends;
        self.ready_lines += 1;
        // Reads are bounded, but a file must not grow far beyond its bound in one go.
        if self.ready.len() as u64 >= self.bounds.file_bytes_max {
            self.put();
        }
    }

    /// Writes what is ready, or drops and counts it.
    fn put(&mut self) {
        if self.ready.is_empty() {
            return;
        }
        let mut ready = std::mem::take(&mut self.ready);
        let lines = std::mem::take(&mut self.ready_lines);
        if self.dropped > 0 {
            let says = format!("[muster: {} lines of output were lost: the disk was full]", self.dropped);
            let stamp = ready
                .iter()
                .take_while(|byte| **byte != b' ')
                .map(|byte| char::from(*byte))
                .collect::<String>();
            let mut all = Vec::new();
            line::write(&mut all, &stamp, Stream::Stderr, true, says.as_bytes());
            all.append(&mut ready);
            ready = all;
        }
        match self.try_put(&ready) {
            Ok(()) => self.dropped = 0,
            Err(_) => self.dropped += lines,
        }
        ready.clear();
        self.ready = ready;
    }

    fn try_put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            self.open_file()?;
        } else if self.length >= self.bounds.file_bytes_max {
            self.rotate()?;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        if let Err(error) = file.write_all(bytes) {
            // Half a line would be read as garbage: cut it off again. That needs no room.
            let _ = file.set_len(self.length);
            return Err(error);
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        // The oldest goes first: on a full disk that is what makes room.
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
    fn a_full_disk_costs_lines_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LogWriter::open(dir.path(), Bounds::DEFAULT).unwrap();
        log.take(Stream::Stdout, b"before\n", 0);
        log.file = Some(File::options().write(true).open("/dev/full").unwrap());
        log.take(Stream::Stdout, b"one\ntwo\n", 1);
        log.take(Stream::Stderr, b"three\n", 2);
        assert_eq!(log.dropped, 3);
        log.file = None;
        log.take(Stream::Stdout, b"after\n", 3);
        log.take(Stream::Stdout, b"again\n", 4);
        let text = fs::read_to_string(dir.path().join("00000001.log")).unwrap();
        let texts: Vec<&str> = text.lines().map(|line| line.splitn(4, ' ').nth(3).unwrap()).collect();
        let lost = "[muster: 3 lines of output were lost: the disk was full]";
        assert_eq!(texts, ["before", lost, "after", "again"]);
    }

    #[test]
    fn a_line_is_unfinished_until_its_newline() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LogWriter::open(dir.path(), Bounds::DEFAULT).unwrap();
        let unfinished = |log: &LogWriter| [Stream::Stdout, Stream::Stderr].map(|it| log.is_unfinished(it));
        for (text, flush, want) in [
            ("10%", false, true),
            ("", true, true),
            ("20%", true, true),
            ("\n", false, false),
            ("a\n", true, false),
        ] {
            log.take(Stream::Stderr, text.as_bytes(), 0);
            if flush {
                log.flush(0);
            }
            assert_eq!(unfinished(&log), [false, want], "{text:?}");
        }
    }
}
