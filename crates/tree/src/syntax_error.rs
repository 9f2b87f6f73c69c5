//! The first syntax error of a JSON document, in the wording of Go's `encoding/json`, which clients show.
//!
//! The fast parser's messages differ from those of other API servers. A rejected document is therefore scanned again by
//! this small state machine, which only checks the syntax.
//!
//! # Guarantees
//!
//! - Runs only on rejected documents. Nesting is a stack on the heap, never recursion.

/// The tokens that may come next.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    After,
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    open: Vec<u8>,
}

const END: &str = "unexpected end of JSON input";

/// The first syntax error; `None` if the document is well-formed.
pub(crate) fn find(bytes: &[u8]) -> Option<String> {
    let mut scanner = Scanner { bytes, at: 0, open: Vec::new() };
    let mut next = Next::Value;
    loop {
        scanner.skip_space();
        if scanner.at == bytes.len() {
            let done = next == Next::After && scanner.open.is_empty();
            return (!done).then(|| END.to_owned());
        }
        next = match scanner.step(next) {
            Ok(next) => next,
            Err(why) => return Some(why),
        };
    }
}

impl Scanner<'_> {
    fn skip_space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn byte(&mut self) -> Result<u8, String> {
        let byte = self.bytes.get(self.at).copied().ok_or(END)?;
        self.at += 1;
        Ok(byte)
    }

    fn step(&mut self, next: Next) -> Result<Next, String> {
        let byte = self.byte()?;
        match (next, byte) {
            (Next::ValueOrEnd, b']') | (Next::KeyOrEnd, b'}') => Ok(self.close()),
            (Next::Value | Next::ValueOrEnd, _) => self.value(byte),
            (Next::Key | Next::KeyOrEnd, b'"') => self.text().map(|()| Next::Colon),
            (Next::Key | Next::KeyOrEnd, _) => bad(byte, "looking for beginning of object key string"),
            (Next::Colon, b':') => Ok(Next::Value),
            (Next::Colon, _) => bad(byte, "after object key"),
            (Next::After, _) => self.after(byte),
        }
    }

    fn close(&mut self) -> Next {
        self.open.pop();
        Next::After
    }

    fn after(&mut self, byte: u8) -> Result<Next, String> {
        match (self.open.last(), byte) {
            (Some(b'{'), b',') => Ok(Next::Key),
            (Some(b'['), b',') => Ok(Next::Value),
            (Some(b'{'), b'}') | (Some(b'['), b']') => Ok(self.close()),
            (Some(b'{'), _) => bad(byte, "after object key:value pair"),
            (Some(_), _) => bad(byte, "after array element"),
            (None, _) => bad(byte, "after top-level value"),
        }
    }

    fn value(&mut self, byte: u8) -> Result<Next, String> {
        match byte {
            b'{' | b'[' => {
                self.open.push(byte);
                return Ok(if byte == b'{' { Next::KeyOrEnd } else { Next::ValueOrEnd });
            }
            b'"' => self.text()?,
            b't' => self.literal("true")?,
            b'f' => self.literal("false")?,
            b'n' => self.literal("null")?,
            b'-' | b'0'..=b'9' => self.number(byte)?,
            _ => return bad(byte, "looking for beginning of value"),
        }
        Ok(Next::After)
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for want in word.bytes().skip(1) {
            let byte = self.byte()?;
            if byte != want {
                return bad(byte, &format!("in literal {word} (expecting '{}')", char::from(want)));
            }
        }
        Ok(())
    }

    fn text(&mut self) -> Result<(), String> {
        loop {
            match self.byte()? {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                byte @ 0..=0x1f => return bad(byte, "in string literal"),
                _ => {}
            }
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        match self.byte()? {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => Ok(()),
            b'u' => (0..4).try_for_each(|_| match self.byte()? {
                byte if byte.is_ascii_hexdigit() => Ok(()),
                byte => bad(byte, "in \\u hexadecimal character escape"),
            }),
            byte => bad(byte, "in string escape code"),
        }
    }

    fn number(&mut self, first: u8) -> Result<(), String> {
        let first = if first == b'-' { self.digit("in numeric literal")? } else { first };
        if first != b'0' {
            self.digits();
        }
        if self.take(b".") {
            self.digit("after decimal point in numeric literal")?;
            self.digits();
        }
        if self.take(b"eE") {
            self.take(b"+-");
            self.digit("in exponent of numeric literal")?;
            self.digits();
        }
        Ok(())
    }

    fn digit(&mut self, place: &str) -> Result<u8, String> {
        match self.byte()? {
            byte if byte.is_ascii_digit() => Ok(byte),
            byte => bad(byte, place),
        }
    }

    fn digits(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }

    fn take(&mut self, any: &[u8]) -> bool {
        let found = self.bytes.get(self.at).is_some_and(|byte| any.contains(byte));
        self.at += usize::from(found);
        found
    }
}

fn bad<T>(byte: u8, place: &str) -> Result<T, String> {
    Err(format!("invalid character {} {place}", quoted(byte)))
}

/// A byte as Go quotes it in messages: as the character with that code.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        0x07 => r"'\a'".to_owned(),
        0x08 => r"'\b'".to_owned(),
        0x0b => r"'\v'".to_owned(),
        0x0c => r"'\f'".to_owned(),
        0..=0x1f | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!("'\\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_have_the_words_that_clients_know() {
        for (text, want) in [
            (&b""[..], END),
            (b" ", END),
            (b"{\"a\":", END),
            (b"[1,", END),
            (b"\"abc", END),
            (b"-", END),
            (b"just", "invalid character 'j' looking for beginning of value"),
            (b"{a:1}", "invalid character 'a' looking for beginning of object key string"),
            (b"{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            (b"{\"a\" 1}", "invalid character '1' after object key"),
            (b"{\"a\":1 2}", "invalid character '2' after object key:value pair"),
            (b"[1 2]", "invalid character '2' after array element"),
            (b"[1,]", "invalid character ']' looking for beginning of value"),
            (b"{} {}", "invalid character '{' after top-level value"),
            (b"01", "invalid character '1' after top-level value"),
            (b"trux", "invalid character 'x' in literal true (expecting 'e')"),
            (b"\"\n\"", "invalid character '\\n' in string literal"),
            (b"\"\\x\"", "invalid character 'x' in string escape code"),
            (b"\"\\u00g0\"", "invalid character 'g' in \\u hexadecimal character escape"),
            (b"-x", "invalid character 'x' in numeric literal"),
            (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
            (b"1ex", "invalid character 'x' in exponent of numeric literal"),
            (b"'", "invalid character '\\'' looking for beginning of value"),
            (b"\x9e", "invalid character '\\u009e' looking for beginning of value"),
            (b"\xe9", "invalid character '\u{e9}' looking for beginning of value"),
        ] {
            assert_eq!(find(text).as_deref(), Some(want), "{}", text.escape_ascii());
        }
        assert_eq!(find(br#" {"a":[1,-2.5e+3,"x\u0041",null,true,{}],"b":{}} "#), None);
        assert_eq!(find("[".repeat(100_000).as_bytes()).as_deref(), Some(END));
    }
}
