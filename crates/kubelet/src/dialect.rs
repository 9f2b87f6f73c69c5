//! How channels are carried in WebSocket messages. Pure.
//!
//! Every message begins with the number of its channel. There are versions of this: some write the number as a digit and
//! the rest in base64, the fifth can say that a channel has ended, and before the fourth the error channel was plain text.
//! A tunnel has no channels: its messages are bytes of another protocol.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::{BufMut, Bytes, BytesMut};
use tokio_tungstenite::tungstenite::Message;

/// Input of a command.
pub const STDIN: u8 = 0;
/// Its output.
pub const STDOUT: u8 = 1;
/// Its errors.
pub const STDERR: u8 = 2;
/// How it ended.
pub const ERROR: u8 = 3;
/// How large its terminal is.
pub const RESIZE: u8 = 4;
/// Begins the message that ends another channel.
const ENDS: u8 = 255;

/// One version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// The WebSocket subprotocol; empty when a client asks for none.
    pub name: &'static str,
    /// Whether messages are text in base64.
    pub base64: bool,
    /// Whether a client can end a channel.
    pub half_close: bool,
    /// Whether the error channel carries a `Status`.
    pub status: bool,
}

const fn dialect(name: &'static str, base64: bool, half_close: bool, status: bool) -> Dialect {
    Dialect { name, base64, half_close, status }
}

/// What is spoken about commands.
pub const COMMANDS: &[Dialect] = &[
    dialect("v5.channel.k8s.io", false, true, true),
    dialect("v4.channel.k8s.io", false, false, true),
    dialect("v4.base64.channel.k8s.io", true, false, true),
    dialect("channel.k8s.io", false, false, false),
    dialect("base64.channel.k8s.io", true, false, false),
    dialect("", false, false, false),
];

/// What kubectl speaks about ports.
pub const TUNNEL: &[Dialect] = &[dialect("SPDY/3.1+portforward.k8s.io", false, false, false)];

/// What other clients speak about ports.
pub const PORTS: &[Dialect] = &[
    dialect("v4.channel.k8s.io", false, false, false),
    dialect("v4.base64.channel.k8s.io", true, false, false),
    dialect("", false, false, false),
];

/// The first of the client's that is known.
#[must_use]
pub fn choose(offered: &[&str], known: &[Dialect]) -> Option<Dialect> {
    let offered = if offered.is_empty() { &[""] } else { offered };
    offered.iter().find_map(|name| known.iter().find(|dialect| dialect.name == *name).copied())
}

/// What came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrived {
    /// Bytes of a channel.
    Data(u8, Bytes),
    /// A channel has ended.
    End(u8),
}

impl Dialect {
    fn is_tunnel(self) -> bool {
        self.name.starts_with("SPDY/")
    }

    /// Bytes of a channel as a message.
    #[must_use]
    pub fn message(self, channel: u8, bytes: &[u8]) -> Message {
        if self.is_tunnel() {
            return Message::binary(bytes.to_vec());
        }
        if self.base64 {
            let mut text = String::from(char::from(b'0' + channel));
            BASE64_STANDARD.encode_string(bytes, &mut text);
            return Message::text(text);
        }
        let mut frame = BytesMut::with_capacity(bytes.len() + 1);
        frame.put_u8(channel);
        frame.extend_from_slice(bytes);
        Message::Binary(frame.freeze())
    }

    /// What a message says; `None` for what carries nothing or makes no sense, which is passed over as real servers do.
    #[must_use]
    pub fn read(self, message: Message) -> Option<Arrived> {
        if !message.is_text() && !message.is_binary() {
            return None;
        }
        let mut bytes = message.into_data();
        if self.is_tunnel() {
            return Some(Arrived::Data(0, bytes));
        }
        match *bytes.first()? {
            ENDS if self.half_close => match *bytes {
                [_, channel] => Some(Arrived::End(channel)),
                _ => None,
            },
            digit if self.base64 => {
                let channel = digit.checked_sub(b'0').filter(|channel| *channel < 10)?;
                let decoded = BASE64_STANDARD.decode(&bytes[1..]).ok()?;
                Some(Arrived::Data(channel, decoded.into()))
            }
            channel => Some(Arrived::Data(channel, bytes.split_off(1))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str) -> Dialect {
        choose(&[name], COMMANDS).unwrap()
    }

    #[test]
    fn the_client_chooses_among_what_is_known() {
        let chosen = |offered: &[&str]| choose(offered, COMMANDS).map(|dialect| dialect.name);
        assert_eq!(chosen(&["v5.channel.k8s.io", "v4.channel.k8s.io"]), Some("v5.channel.k8s.io"));
        assert_eq!(chosen(&["v9.channel.k8s.io", "v4.channel.k8s.io"]), Some("v4.channel.k8s.io"));
        assert_eq!(chosen(&[]), Some(""), "no wish at all is the oldest dialect");
        assert_eq!(chosen(&["SPDY/3.1+portforward.k8s.io"]), None);
    }

    #[test]
    fn what_is_written_can_be_read() {
        for dialect in COMMANDS {
            for bytes in [&b""[..], b"hello", &[255, 0, 48]] {
                let message = dialect.message(STDERR, bytes);
                let want = Arrived::Data(STDERR, Bytes::copy_from_slice(bytes));
                assert_eq!(dialect.read(message), Some(want), "{}", dialect.name);
            }
        }
    }

    #[test]
    fn only_the_fifth_version_ends_channels() {
        let end = Message::binary(vec![255, STDIN]);
        assert_eq!(find("v5.channel.k8s.io").read(end.clone()), Some(Arrived::End(STDIN)));
        let data = Some(Arrived::Data(255, Bytes::from_static(&[STDIN])));
        assert_eq!(find("v4.channel.k8s.io").read(end), data);
    }

    #[test]
    fn text_and_nonsense() {
        let v4 = find("v4.channel.k8s.io");
        let typed = Some(Arrived::Data(0, Bytes::from_static(b"ls\n")));
        assert_eq!(v4.read(Message::text("\0ls\n")), typed, "clients of Python send text");
        assert_eq!(v4.read(Message::binary(Vec::new())), None);
        assert_eq!(v4.read(Message::Ping(Bytes::new())), None);
        let base64 = find("v4.base64.channel.k8s.io");
        assert_eq!(base64.read(Message::text("0bHM=")), Some(Arrived::Data(0, Bytes::from_static(b"ls"))));
        assert_eq!(base64.read(Message::text("0!!")), None);
        assert_eq!(find("v5.channel.k8s.io").read(Message::binary(vec![255, 0, 0])), None);
    }
}
