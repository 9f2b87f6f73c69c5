//! Reads a log: all of it, its tail, or following.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use muster_api::time::Time;

use super::line::{self, LogLine, LogStream};
use super::{file_path, numbers};

const BLOCK_BYTES: usize = 64 * 1024;
/// Longer lines were not written by us and are discarded.
const LINE_ON_DISK_BYTES_MAX: usize = 1024 * 1024;

/// Which lines are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Number of existing lines from the end.
    pub tail_lines: Option<u64>,
    /// Only lines at or after this time.
    pub since: Option<Time>,
    /// Maximum rendered bytes; may cut the last line.
    pub limit_bytes: Option<u64>,
    /// Whether lines are prefixed with their timestamp.
    pub timestamps: bool,
    /// Only lines of this stream.
    pub stream: Option<LogStream>,
}

/// Reads the log of one run, also while it is written. It never blocks.
pub struct LogReader {
    dir: PathBuf,
    options: LogOptions,
    number: u64,
    file: Option<File>,
    /// Bytes read and not yet returned.
    pending: Vec<u8>,
    /// Bytes of `pending` already returned.
    given: usize,
    /// The stream of the last returned line, if that was partial.
    open: Option<LogStream>,
    /// Remaining bytes of `limit_bytes`.
    left: u64,
    /// Whether lines are still compared with `since`: timestamps only grow.
    seeking: bool,
}

impl LogReader {
    /// Opens a log at the first requested line. A missing log is empty.
    pub fn open(dir: &Path, options: LogOptions) -> io::Result<LogReader> {
        let mut reader = LogReader {
            dir: dir.to_owned(),
            number: 0,
            file: None,
            pending: Vec::new(),
            given: 0,
            open: None,
            left: options.limit_bytes.unwrap_or(u64::MAX),
            seeking: options.since.is_some(),
            options,
        };
        if let Some(lines) = reader.options.tail_lines {
            reader.seek_tail(lines)?;
        }
        Ok(reader)
    }

    /// Opens a log at its end.
    pub fn at_end(dir: &Path) -> io::Result<LogReader> {
        LogReader::open(dir, LogOptions { tail_lines: Some(0), ..LogOptions::default() })
    }

    /// Whether `limit_bytes` is exhausted.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    /// The next requested line, rendered; `None` if there is none now.
    pub fn next_bytes(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.is_done() {
            return Ok(None);
        }
        let Some(line) = self.next_line()? else { return Ok(None) };
        let mut bytes = line.render(self.options.timestamps);
        bytes.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= bytes.len() as u64;
        Ok(Some(bytes))
    }

    /// The next requested line; `None` if there is none now.
    pub fn next_line(&mut self) -> io::Result<Option<LogLine>> {
        while let Some(mut line) = self.next_raw()? {
            if self.matches_options(&line) {
                let open = std::mem::replace(&mut self.open, (!line.ends).then_some(line.stream));
                line.begins = open != Some(line.stream);
                line.interrupts = line.begins && open.is_some();
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    fn matches_options(&mut self, line: &LogLine) -> bool {
        if self.options.stream.is_some_and(|stream| stream != line.stream) {
            return false;
        }
        match self.options.since {
            Some(since) if self.seeking && line.nanos() < since.0.saturating_mul(1_000) => false,
            _ => {
                self.seeking = false;
                true
            }
        }
    }

    /// The next line, unfiltered.
    fn next_raw(&mut self) -> io::Result<Option<LogLine>> {
        loop {
            if let Some(length) = self.pending[self.given..].iter().position(|byte| *byte == b'\n') {
                let line = line::read(&self.pending[self.given..self.given + length]);
                self.given += length + 1;
                match line {
                    Some(line) => return Ok(Some(line)),
                    None => continue,
                }
            }
            if !self.fill()? && !self.next_file()? {
                return Ok(None);
            }
        }
    }

    /// Reads from the current file; returns whether there was data.
    fn fill(&mut self) -> io::Result<bool> {
        self.pending.drain(..self.given);
        self.given = 0;
        if self.pending.len() > LINE_ON_DISK_BYTES_MAX {
            self.pending.clear();
        }
        let Some(file) = &mut self.file else { return Ok(false) };
        let before = self.pending.len();
        self.pending.resize(before + BLOCK_BYTES, 0);
        let read = file.read(&mut self.pending[before..]);
        self.pending.truncate(before + *read.as_ref().unwrap_or(&0));
        Ok(read? > 0)
    }

    /// Moves to the next file at the end of this one; returns whether there is more to read.
    fn next_file(&mut self) -> io::Result<bool> {
        let next = match numbers(&self.dir) {
            Ok(all) => all.into_iter().find(|number| *number > self.number),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let Some(next) = next else { return Ok(false) };
        // The writer creates the next file after the last write to this one, so this read sees its end.
        if self.fill()? {
            return Ok(true);
        }
        self.pending.clear();
        self.seek_to(next, 0)?;
        Ok(true)
    }

    /// Seeks in a file; one that was rotated away is skipped.
    fn seek_to(&mut self, number: u64, offset: u64) -> io::Result<()> {
        self.number = number;
        self.file = match File::open(file_path(&self.dir, number)) {
            Ok(mut file) => {
                file.seek(SeekFrom::Start(offset))?;
                Some(file)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(())
    }

    /// Seeks to the start of the last `lines` lines.
    fn seek_tail(&mut self, lines: u64) -> io::Result<()> {
        let all = match numbers(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        let mut count = Tail { wanted: lines, seen: 0, stream: self.options.stream, after: None };
        for number in all.iter().rev() {
            let path = file_path(&self.dir, *number);
            if let Some(offset) = Backwards::open(&path)?.map(|it| it.find(&mut count)).transpose()?.flatten()
            {
                return self.seek_to(*number, offset);
            }
        }
        Ok(())
    }
}

struct Tail {
    wanted: u64,
    seen: u64,
    stream: Option<LogStream>,
    /// The stream of the line that follows, if any.
    after: Option<LogStream>,
}

impl Tail {
    /// Counts the previous line; returns whether it exceeds the limit.
    fn is_beyond(&mut self, raw: &[u8]) -> bool {
        let Some(line) = line::read(raw) else { return false };
        if self.stream.is_some_and(|stream| stream != line.stream) {
            return false;
        }
        // Partial lines count with the line that ends them; at the end of the log, or interrupted by the other
        // stream, they count as a line.
        if line.ends || self.after != Some(line.stream) {
            self.seen += 1;
        }
        self.after = Some(line.stream);
        self.seen > self.wanted
    }
}

/// Reads a file backwards.
struct Backwards {
    file: File,
    start: u64,
    /// Bytes from `start` not yet examined.
    block: VecDeque<u8>,
}

impl Backwards {
    fn open(path: &Path) -> io::Result<Option<Backwards>> {
        match File::open(path) {
            Ok(mut file) => {
                let start = file.seek(SeekFrom::End(0))?;
                Ok(Some(Backwards { file, start, block: VecDeque::new() }))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The offset after the first line, from the end, that exceeds the count.
    fn find(mut self, count: &mut Tail) -> io::Result<Option<u64>> {
        // A line without a newline is still being written: not counted, and read later.
        let mut end = self.newline_before(self.start)?.map_or(0, |at| at + 1);
        while end > 0 {
            let begin = self.newline_before(end - 1)?.map_or(0, |at| at + 1);
            let from = usize::try_from(begin - self.start).unwrap_or(0);
            let to = usize::try_from(end - 1 - self.start).unwrap_or(0);
            let line: Vec<u8> = self.block.range(from..to).copied().collect();
            if count.is_beyond(&line) {
                return Ok(Some(end));
            }
            self.block.truncate(from);
            end = begin;
        }
        Ok(None)
    }

    /// Offset of the last newline before `end`.
    fn newline_before(&mut self, end: u64) -> io::Result<Option<u64>> {
        loop {
            let held = usize::try_from(end - self.start).unwrap_or(0).min(self.block.len());
            if let Some(at) = self.block.range(..held).rposition(|byte| *byte == b'\n') {
                return Ok(Some(self.start + at as u64));
            }
            if self.start == 0 {
                return Ok(None);
            }
            self.read_before()?;
        }
    }

    fn read_before(&mut self) -> io::Result<()> {
        let size = self.start.min(BLOCK_BYTES as u64);
        self.start -= size;
        self.file.seek(SeekFrom::Start(self.start))?;
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        self.file.read_exact(&mut bytes)?;
        for byte in bytes.into_iter().rev() {
            self.block.push_front(byte);
        }
        Ok(())
    }
}
