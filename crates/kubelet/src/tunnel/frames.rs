//! SPDY/3.1 framing as port-forward needs it. No I/O.
//!
//! # Deliberately absent
//!
//! Flow control: the clients of this protocol have none. Compression of sent headers: replies have no headers, which
//! fit into a stored block.

use bytes::{Buf, Bytes, BytesMut};
use flate2::{Decompress, FlushDecompress, Status};

use super::words::dictionary;

/// Maximum frame, in bytes.
const FRAME_BYTES_MAX: usize = 1 << 20;
/// Maximum decompressed headers, in bytes.
const HEADERS_BYTES_MAX: usize = 16 << 10;
/// zlib header with a preset dictionary.
const ZLIB_HEAD: [u8; 2] = [0x78, 0xbb];
/// Adler-32 of the dictionary.
pub(super) const DICTIONARY_ID: [u8; 4] = [0xe3, 0xc6, 0xa7, 0xc2];
/// A header count of zero as a stored block, and an empty block as sync flush.
const NO_HEADERS: [u8; 14] = [0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
const CONTROL: u8 = 0x80;
const VERSION: u8 = 3;
const FIN: u8 = 1;
const HEAD_BYTES: usize = 8;

/// A frame of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    Open {
        stream: u32,
        headers: Vec<(String, String)>,
        is_last: bool,
    },
    /// Data of a stream.
    Data {
        stream: u32,
        bytes: Bytes,
        is_last: bool,
    },
    /// RST_STREAM aborts a stream.
    Reset {
        stream: u32,
    },
    /// PING, to be echoed.
    Ping {
        id: u32,
    },
    /// GOAWAY: no further streams.
    GoAway,
    Other,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct FrameError(&'static str);

pub(super) struct Reader {
    bytes: BytesMut,
    inflate: Decompress,
    /// Whether the zlib header is done.
    begun: bool,
}

impl Reader {
    pub fn new() -> Reader {
        let mut reader = Reader { bytes: BytesMut::new(), inflate: Decompress::new(false), begun: false };
        // flate2 has no preset dictionary for raw streams: decompressing it as a stored block first has the same
        // effect.
        let words = dictionary();
        let length = u16::try_from(words.len()).expect("the dictionary is shorter than a block");
        let mut block = vec![0];
        block.extend_from_slice(&length.to_le_bytes());
        block.extend_from_slice(&(!length).to_le_bytes());
        block.extend_from_slice(&words);
        let unpacked = reader.unpack(&block);
        debug_assert_eq!(unpacked.map(|bytes| bytes.len()), Ok(words.len()));
        reader
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next frame; `None` if it is incomplete.
    pub fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(head) = self.bytes.first_chunk::<HEAD_BYTES>().copied() else {
            return Ok(None);
        };
        let [first, second, _, kind, flags, ..] = head;
        let length =
            usize::try_from(u32::from_be_bytes([0, head[5], head[6], head[7]])).unwrap_or(usize::MAX);
        if length > FRAME_BYTES_MAX {
            return Err(FrameError("a frame is longer than a mebibyte"));
        }
        if self.bytes.len() < HEAD_BYTES + length {
            return Ok(None);
        }
        self.bytes.advance(HEAD_BYTES);
        let body = self.bytes.split_to(length).freeze();
        let is_last = flags & FIN != 0;
        if first & CONTROL == 0 {
            let stream = u32::from_be_bytes([first, second, head[2], kind]);
            return Ok(Some(Frame::Data { stream, bytes: body, is_last }));
        }
        if second != VERSION {
            return Err(FrameError("a frame is of another version than SPDY/3"));
        }
        self.control(kind, is_last, body).map(Some)
    }

    fn control(&mut self, kind: u8, is_last: bool, mut body: Bytes) -> Result<Frame, FrameError> {
        let number = |body: &mut Bytes| body.try_get_u32().map_err(|_| FrameError("a frame is too short"));
        Ok(match kind {
            1 => {
                let stream = number(&mut body)? & 0x7fff_ffff;
                number(&mut body)?;
                body.try_get_u16().map_err(|_| FrameError("a frame is too short"))?;
                Frame::Open { stream, headers: self.headers(&body)?, is_last }
            }
            3 => Frame::Reset { stream: number(&mut body)? & 0x7fff_ffff },
            6 => Frame::Ping { id: number(&mut body)? },
            7 => Frame::GoAway,
            // HEADERS frames share the compression state: they must be decompressed even if ignored.
            8 => {
                number(&mut body)?;
                self.headers(&body)?;
                Frame::Other
            }
            _ => Frame::Other,
        })
    }

    fn headers(&mut self, mut packed: &[u8]) -> Result<Vec<(String, String)>, FrameError> {
        if !std::mem::replace(&mut self.begun, true) {
            let head = [&ZLIB_HEAD[..], &DICTIONARY_ID].concat();
            // Byte 1 has the compression level, which may differ.
            let begins = packed.len() >= head.len() && packed[0] == head[0] && packed[2..6] == head[2..];
            if !begins {
                return Err(FrameError("headers are compressed without the dictionary of SPDY/3"));
            }
            packed = &packed[head.len()..];
        }
        let mut bytes = Bytes::from(self.unpack(packed)?);
        let short = |_| FrameError("headers end too early");
        let count = bytes.try_get_u32().map_err(short)?;
        let mut headers = Vec::new();
        for _ in 0..count {
            headers.push((text(&mut bytes)?, text(&mut bytes)?));
        }
        Ok(headers)
    }

    fn unpack(&mut self, packed: &[u8]) -> Result<Vec<u8>, FrameError> {
        let mut all = Vec::with_capacity(HEADERS_BYTES_MAX);
        let before = self.inflate.total_in();
        let status = self.inflate.decompress_vec(packed, &mut all, FlushDecompress::Sync);
        let taken = self.inflate.total_in() - before;
        match status {
            Ok(Status::Ok | Status::BufError) if taken == packed.len() as u64 => Ok(all),
            Ok(_) => Err(FrameError("headers are longer than 16 KiB")),
            Err(_) => Err(FrameError("headers cannot be decompressed")),
        }
    }
}

fn text(bytes: &mut Bytes) -> Result<String, FrameError> {
    let short = FrameError("headers end too early");
    let length = usize::try_from(bytes.try_get_u32().map_err(|_| FrameError("headers end too early"))?);
    match length {
        Ok(length) if length <= bytes.len() => {
            Ok(String::from_utf8_lossy(&bytes.split_to(length)).into_owned())
        }
        _ => Err(short),
    }
}

#[derive(Debug, Default)]
pub(super) struct Writer {
    /// Whether the zlib header has been written.
    begun: bool,
}

impl Writer {
    /// SYN_REPLY accepts a stream.
    pub fn reply(&mut self, stream: u32) -> Vec<u8> {
        let mut body = stream.to_be_bytes().to_vec();
        if !std::mem::replace(&mut self.begun, true) {
            body.extend_from_slice(&ZLIB_HEAD);
            body.extend_from_slice(&DICTIONARY_ID);
        }
        body.extend_from_slice(&NO_HEADERS);
        control(2, &body)
    }
}

/// Data of a stream.
pub(super) fn data(stream: u32, bytes: &[u8], is_last: bool) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("pieces are short").to_be_bytes();
    let mut frame = stream.to_be_bytes().to_vec();
    frame.extend_from_slice(&[if is_last { FIN } else { 0 }, length[1], length[2], length[3]]);
    frame.extend_from_slice(bytes);
    frame
}

pub(super) fn refuse(stream: u32) -> Vec<u8> {
    const REFUSED: u32 = 3;
    control(3, &[stream.to_be_bytes(), REFUSED.to_be_bytes()].concat())
}

pub(super) fn pong(id: u32) -> Vec<u8> {
    control(6, &id.to_be_bytes())
}

fn control(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("control frames are short").to_be_bytes();
    let mut frame = vec![CONTROL, VERSION, 0, kind, 0, length[1], length[2], length[3]];
    frame.extend_from_slice(body);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A SYN_STREAM frame with headers in a stored block.
    fn open(stream: u32, headers: &[(&str, &str)], first: bool) -> Vec<u8> {
        let mut plain = u32::try_from(headers.len()).unwrap().to_be_bytes().to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            plain.extend_from_slice(&u32::try_from(text.len()).unwrap().to_be_bytes());
            plain.extend_from_slice(text.as_bytes());
        }
        let length = u16::try_from(plain.len()).unwrap();
        let mut body = [stream.to_be_bytes(), [0; 4]].concat();
        body.extend_from_slice(&[0, 0]);
        if first {
            body.extend_from_slice(&[&ZLIB_HEAD[..], &DICTIONARY_ID].concat());
        }
        body.push(0);
        body.extend_from_slice(&length.to_le_bytes());
        body.extend_from_slice(&(!length).to_le_bytes());
        body.extend_from_slice(&plain);
        control(1, &body)
    }

    fn all(reader: &mut Reader, bytes: &[u8]) -> Result<Vec<Frame>, FrameError> {
        let mut frames = Vec::new();
        // Byte by byte, since frames may be split across messages.
        for byte in bytes {
            reader.push(&[*byte]);
            while let Some(frame) = reader.next()? {
                frames.push(frame);
            }
        }
        Ok(frames)
    }

    #[test]
    fn streams_open_carry_data_and_close() {
        let headers = [("streamtype", "data"), ("port", "80"), ("requestid", "0")];
        let owned: Vec<_> = headers.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let bytes =
            [open(1, &headers, true), open(3, &headers, false), data(1, b"hello", true), pong(7)].concat();
        let frames = all(&mut Reader::new(), &bytes).unwrap();
        let want = [
            Frame::Open { stream: 1, headers: owned.clone(), is_last: false },
            Frame::Open { stream: 3, headers: owned, is_last: false },
            Frame::Data { stream: 1, bytes: Bytes::from_static(b"hello"), is_last: true },
            Frame::Ping { id: 7 },
        ];
        assert_eq!(frames, want);
        assert_eq!(all(&mut Reader::new(), &refuse(5)), Ok(vec![Frame::Reset { stream: 5 }]));
    }

    #[test]
    fn headers_that_refer_to_the_dictionary_and_to_headers_before() {
        // `version: HTTP/1.1` and `port: 80`, then `port: 443`, as zlib packs them.
        let first = [
            0x78, 0xf9, 0xe3, 0xc6, 0xa7, 0xc2, 0x02, 0xe5, 0x0e, 0xdc, 0xe9, 0x11, 0x58, 0x2c, 0x17, 0x81,
            0x92, 0x30, 0x93, 0x85, 0x01, 0x00, 0x00, 0x00, 0xff, 0xff,
        ];
        let second =
            [0x02, 0x92, 0x8c, 0x48, 0x22, 0xcc, 0x26, 0x26, 0xc6, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff];
        let open =
            |stream: u32, packed: &[u8]| control(1, &[&stream.to_be_bytes()[..], &[0; 6], packed].concat());
        let frames = all(&mut Reader::new(), &[open(1, &first), open(3, &second)].concat()).unwrap();
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let headers = vec![header("version", "HTTP/1.1"), header("port", "80")];
        let want = [
            Frame::Open { stream: 1, headers, is_last: false },
            Frame::Open { stream: 3, headers: vec![header("port", "443")], is_last: false },
        ];
        assert_eq!(frames, want);
    }

    #[test]
    fn malformed_frames_are_rejected() {
        let long = [0, 0, 0, 1, 0, 0xff, 0xff, 0xff];
        let bomb = open(1, &[("a", &"x".repeat(HEADERS_BYTES_MAX))], true);
        let count = control(
            1,
            &[&[0; 10][..], &ZLIB_HEAD, &DICTIONARY_ID, &[0, 4, 0, 0xfb, 0xff, 0, 0, 0, 9]].concat(),
        );
        for (says, bytes) in [
            ("too long", &long[..]),
            ("another version", &[CONTROL, 2, 0, 6, 0, 0, 0, 0]),
            ("a ping without a number", &[CONTROL, 3, 0, 6, 0, 0, 0, 0]),
            ("no dictionary", &open(1, &[], false)),
            ("headers without end", &bomb),
            ("fewer headers than it says", &count),
        ] {
            assert!(all(&mut Reader::new(), bytes).is_err(), "{says}");
        }
    }

    #[test]
    fn only_the_first_reply_begins_the_compressed_stream() {
        let mut writer = Writer::default();
        assert_eq!(writer.reply(1).len(), HEAD_BYTES + 4 + 6 + NO_HEADERS.len());
        assert_eq!(writer.reply(3).len(), HEAD_BYTES + 4 + NO_HEADERS.len());
    }
}
