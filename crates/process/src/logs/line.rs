//! One line of a log file: written and read.

use jiff::Timestamp;

/// Where a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Output.
    Stdout,
    /// Errors.
    Stderr,
}

impl Stream {
    /// As it stands in the file.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }
}

/// One line, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// When it was read from the container, as in the file: RFC 3339 with nanoseconds.
    pub stamp: String,
    /// Where it came from.
    pub stream: Stream,
    /// Whether this is the end of a line; else it goes on.
    pub ends: bool,
    /// Whether this is the beginning of a line.
    pub begins: bool,
    /// Whether it comes while a line of the other stream has no end yet.
    pub interrupts: bool,
    /// What was written, without the newline.
    pub text: Vec<u8>,
}

impl Line {
    /// What a reader of both streams is sent: the newline where the line ends, the stamp where it begins if that was
    /// asked for. A line of one stream never begins in the middle of a line of the other: the open line is broken.
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

    /// What a reader of this stream alone is sent: the bytes that the container wrote.
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

    /// The instant of the stamp in nanoseconds since 1970.
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

/// Adds a line of the file to `all`.
pub fn write(all: &mut Vec<u8>, stamp: &str, stream: Stream, ends: bool, text: &[u8]) {
    all.extend_from_slice(stamp.as_bytes());
    all.push(b' ');
    all.extend_from_slice(stream.word().as_bytes());
    all.extend_from_slice(if ends { b" F " } else { b" P " });
    all.extend_from_slice(text);
    all.push(b'\n');
}

/// Reads a line of the file, its newline taken off. `None` for what this crate never wrote.
#[must_use]
pub fn read(line: &[u8]) -> Option<Line> {
    let mut words = line.splitn(4, |byte| *byte == b' ');
    let stamp = str::from_utf8(words.next()?).ok()?.to_owned();
    let stream = match words.next()? {
        b"stdout" => Stream::Stdout,
        b"stderr" => Stream::Stderr,
        _ => return None,
    };
    let ends = match words.next()? {
        b"F" => true,
        b"P" => false,
        _ => return None,
    };
    Some(Line { stamp, stream, ends, begins: true, interrupts: false, text: words.next()?.to_vec() })
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
            write(&mut file, &stamp(1_700_000_000_123_456_789), Stream::Stderr, ends, text);
            assert_eq!(file.pop(), Some(b'\n'), "{says}");
            let line = read(&file).expect(says);
            assert_eq!(
                (line.text.as_slice(), line.ends, line.stream),
                (text, ends, Stream::Stderr),
                "{says}"
            );
            assert_eq!(line.stamp, "2023-11-14T22:13:20.123456789Z");
            assert_eq!(line.nanos(), 1_700_000_000_123_456_789);
        }
        assert_eq!(read(b"garbage"), None);
    }
}
