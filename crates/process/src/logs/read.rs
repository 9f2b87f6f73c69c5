//! Reads a log: all of it, its end, or on and on.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use muster_api::time::Time;

use super::line::{self, Line, Stream};
use super::{file_path, numbers};

/// How much is read at once.
const BLOCK_BYTES: usize = 64 * 1024;
/// A line longer than this is not ours; it is taken as it is.
const LINE_ON_DISK_BYTES_MAX: usize = 1024 * 1024;

/// Which lines are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Only so many of the lines that are there.
    pub tail_lines: Option<u64>,
    /// Only lines that are not older.
    pub since: Option<Time>,
    /// Only so many bytes, as rendered; the last line may be cut.
    pub limit_bytes: Option<u64>,
    /// Whether each line begins with its stamp.
    pub timestamps: bool,
    /// Only lines of this stream.
    pub stream: Option<Stream>,
}

/// Reads the log of one run, also while it is written. It never waits: "nothing more now" is an answer.
pub struct LogReader {
    dir: PathBuf,
    options: LogOptions,
    number: u64,
    file: Option<File>,
    /// Read and not yet given.
    pending: Vec<u8>,
    /// How much of `pending` was given.
    given: usize,
    /// The stream of the last line that was given, if that was a part.
    open: Option<Stream>,
    /// Bytes that may still be sent.
    left: u64,
    /// Whether lines are still compared with `since`: stamps only grow.
    seeking: bool,
}

impl LogReader {
    /// At the first wanted line. A log that is not there yet is empty.
    ///
    /// # Errors
    /// What the system said.
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

    /// At the end: only what is written from now on.
    ///
    /// # Errors
    /// What the system said.
    pub fn at_end(dir: &Path) -> io::Result<LogReader> {
        LogReader::open(dir, LogOptions { tail_lines: Some(0), ..LogOptions::default() })
    }

    /// Whether all bytes that were asked for have been given.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    /// The next wanted line, rendered; `None` when there is nothing more now.
    ///
    /// # Errors
    /// What the system said.
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

    /// The next wanted line; `None` when there is nothing more now.
    ///
    /// # Errors
    /// What the system said.
    pub fn next_line(&mut self) -> io::Result<Option<Line>> {
        while let Some(mut line) = self.next_raw()? {
            if self.wants(&line) {
                let open = std::mem::replace(&mut self.open, (!line.ends).then_some(line.stream));
                line.begins = open != Some(line.stream);
                line.interrupts = line.begins && open.is_some();
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    fn wants(&mut self, line: &Line) -> bool {
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

    /// The next line of the files.
    fn next_raw(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(length) = self.pending[self.given..].iter().position(|byte| *byte == b'\n') {
                let line = line::read(&self.pending[self.given..self.given + length]);
                self.given += length + 1;
                match line {
                    Some(line) => return Ok(Some(line)),
                    None => continue,
                }
            }
            if !self.fill()? && !self.turn_over()? {
                return Ok(None);
            }
        }
    }

    /// Reads more of the present file; whether there was more.
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

    /// Goes on to the next file, if there is one and this one is read to its end; whether there is more to read.
    fn turn_over(&mut self) -> io::Result<bool> {
        let next = match numbers(&self.dir) {
            Ok(all) => all.into_iter().find(|number| *number > self.number),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let Some(next) = next else { return Ok(false) };
        // The next file is begun after the last line of this one: what is there now is all there will be.
        if self.fill()? {
            return Ok(true);
        }
        self.pending.clear();
        self.go_to(next, 0)?;
        Ok(true)
    }

    /// To a place of a file; one that was rotated away meanwhile is skipped.
    fn go_to(&mut self, number: u64, offset: u64) -> io::Result<()> {
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

    /// To where only the last `lines` wanted lines follow.
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
                return self.go_to(*number, offset);
            }
        }
        Ok(())
    }
}

/// Counts lines from the end.
struct Tail {
    wanted: u64,
    seen: u64,
    stream: Option<Stream>,
    /// The stream of what follows, if anything does.
    after: Option<Stream>,
}

impl Tail {
    /// Takes the next line towards the beginning; whether it is one too many.
    fn is_beyond(&mut self, raw: &[u8]) -> bool {
        let Some(line) = line::read(raw) else { return false };
        if self.stream.is_some_and(|stream| stream != line.stream) {
            return false;
        }
        // A part belongs to the line that ends it. At the very end, or when the other stream interrupts it, it is a
        // line of its own.
        if line.ends || self.after != Some(line.stream) {
            self.seen += 1;
        }
        self.after = Some(line.stream);
        self.seen > self.wanted
    }
}

/// A file read from its end.
struct Backwards {
    file: File,
    /// Where `block` begins.
    start: u64,
    /// Pieces of the file from `start` on that were not looked at yet.
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

    /// The offset after the first line, counted from the end, that is beyond the count.
    fn find(mut self, count: &mut Tail) -> io::Result<Option<u64>> {
        // Half a line at the end is being written now: it is not counted, and read later.
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

    /// Where the last newline before `end` is; reads backwards until it is found.
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
