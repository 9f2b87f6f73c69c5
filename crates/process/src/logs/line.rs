//! One line of a log file: written and read.

use jiff::Timestamp;

/// Where a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStream {
    Stdout,
    Stderr,
}

impl LogStream {
    /// Stream name in the CRI format.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            LogStream::Stdout => "stdout",
            LogStream::Stderr => "stderr",
        }
    }
}

/// One CRI log line, full or partial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Timestamp as in the file: RFC 3339 with nanoseconds.
    pub stamp: String,
    pub stream: LogStream,
    /// Tag `F`: it ends a line. Else `P`: the line continues.
    pub ends: bool,
    /// Whether this is the beginning of a line.
    pub begins: bool,
    /// Whether a line of the other stream is unfinished before it.
    pub interrupts: bool,
    /// Content without the newline.
    pub text: Vec<u8>,
}

impl LogLine {
    /// Rendered for a reader of both streams: a newline where the line ends, and a timestamp, if requested, where it
    /// begins. An unfinished line of the other stream is broken first.
    #[must_use]
    pub fn render(&self, timestamps: bool) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.stamp.len() + self.text.len() + 3);
        if self.interrupts {
            all.push(b'\n');
        }
        if timestamps && self.begins {
            all.extend_from_slice(self.stamp.as_bytes());
            all.push(b' ');
        }
        self.append(&mut all);
        all
    }

    /// Rendered for a reader of this stream: the bytes that the container wrote.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.text.len() + 1);
        self.append(&mut all);
        all
    }

    fn append(&self, all: &mut Vec<u8>) {
        all.extend_from_slice(&self.text);
        if self.ends {
            all.push(b'\n');
        }
    }

    /// Timestamp in nanoseconds since 1970.
    #[must_use]
    pub fn nanos(&self) -> i64 {
        self.stamp
            .parse::<Timestamp>()
            .ok()
            .and_then(|it| i64::try_from(it.as_nanosecond()).ok())
            .unwrap_or(0)
    }
}

/// RFC 3339 in UTC with nine fraction digits.
#[must_use]
pub fn stamp(nanos: i64) -> String {
    let instant = Timestamp::from_nanosecond(i128::from(nanos)).unwrap_or(Timestamp::UNIX_EPOCH);
    instant.strftime("%Y-%m-%dT%H:%M:%S.%9fZ").to_string()
}

/// Appends an encoded line to `all`.
pub fn write(all: &mut Vec<u8>, stamp: &str, stream: LogStream, ends: bool, text: &[u8]) {
    all.extend_from_slice(stamp.as_bytes());
    all.push(b' ');
    all.extend_from_slice(stream.word().as_bytes());
    all.extend_from_slice(if ends { b" F " } else { b" P " });
    all.extend_from_slice(text);
    all.push(b'\n');
}

/// Parses a line without its newline; `None` for other formats.
#[must_use]
pub fn read(line: &[u8]) -> Option<LogLine> {
    let mut words = line.splitn(4, |byte| *byte == b' ');
    let stamp = str::from_utf8(words.next()?).ok()?.to_owned();
    let stream = match words.next()? {
        b"stdout" => LogStream::Stdout,
        b"stderr" => LogStream::Stderr,
        _ => return None,
    };
    let ends = match words.next()? {
        b"F" => true,
        b"P" => false,
        _ => return None,
    };
    Some(LogLine { stamp, stream, ends, begins: true, interrupts: false, text: words.next()?.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_and_read() {
        let cases: [(&str, &[u8], bool); 4] = [
            ("words", b"hello there", true),
            ("nothing", b"", true),
            ("a part", b"50%", false),
            ("not text, with blanks at both ends", b" \xff\x00 ", true),
        ];
        for (says, text, ends) in cases {
            let mut file = Vec::new();
            write(&mut file, &stamp(1_700_000_000_123_456_789), LogStream::Stderr, ends, text);
            assert_eq!(file.pop(), Some(b'\n'), "{says}");
            let line = read(&file).expect(says);
            assert_eq!(
                (line.text.as_slice(), line.ends, line.stream),
                (text, ends, LogStream::Stderr),
                "{says}"
            );
            assert_eq!(line.stamp, "2023-11-14T22:13:20.123456789Z");
            assert_eq!(line.nanos(), 1_700_000_000_123_456_789);
        }
        assert_eq!(read(b"garbage"), None);
    }
}
