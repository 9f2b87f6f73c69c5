//! WebSocket subprotocols of exec, attach and port-forward: channels within messages. Pure.
//!
//! Each message starts with its channel number. The base64 subprotocols write it as a digit and encode the rest; v5
//! can close a channel; before v4 the error channel is plain text. A port-forward tunnel has no channels: its
//! messages are SPDY bytes.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::{BufMut, Bytes, BytesMut};
use tokio_tungstenite::tungstenite::Message;

pub const STDIN: u8 = 0;
pub const STDOUT: u8 = 1;
pub const STDERR: u8 = 2;
pub const ERROR: u8 = 3;
pub const RESIZE: u8 = 4;
/// First byte of the v5 message that closes a channel.
const CLOSE: u8 = 255;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subprotocol {
    /// Name of the subprotocol; empty if the client requests none.
    pub name: &'static str,
    /// Whether messages are base64 text.
    pub base64: bool,
    /// Whether a client can close a channel.
    pub half_close: bool,
    /// Whether the error channel carries a `Status`.
    pub status: bool,
}

const fn subprotocol(name: &'static str, base64: bool, half_close: bool, status: bool) -> Subprotocol {
    Subprotocol { name, base64, half_close, status }
}

/// Subprotocols of exec and attach.
pub const REMOTE_COMMAND: &[Subprotocol] = &[
    subprotocol("v5.channel.k8s.io", false, true, true),
    subprotocol("v4.channel.k8s.io", false, false, true),
    subprotocol("v4.base64.channel.k8s.io", true, false, true),
    subprotocol("channel.k8s.io", false, false, false),
    subprotocol("base64.channel.k8s.io", true, false, false),
    subprotocol("", false, false, false),
];

/// Subprotocol of port-forward in kubectl 1.31 and later.
pub const PORT_FORWARD_TUNNEL: &[Subprotocol] =
    &[subprotocol("SPDY/3.1+portforward.k8s.io", false, false, false)];

/// Subprotocols of port-forward in other clients.
pub const PORT_FORWARD: &[Subprotocol] = &[
    subprotocol("v4.channel.k8s.io", false, false, false),
    subprotocol("v4.base64.channel.k8s.io", true, false, false),
    subprotocol("", false, false, false),
];

/// Selects the first supported subprotocol that the client offers.
#[must_use]
pub fn negotiate(offered: &[&str], known: &[Subprotocol]) -> Option<Subprotocol> {
    let offered = if offered.is_empty() { &[""] } else { offered };
    offered.iter().find_map(|name| known.iter().find(|dialect| dialect.name == *name).copied())
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelMessage {
    /// Bytes of a channel.
    Data(u8, Bytes),
    /// A channel is closed.
    Close(u8),
}

impl Subprotocol {
    fn is_tunnel(self) -> bool {
        self.name.starts_with("SPDY/")
    }

    /// Encodes bytes of a channel.
    #[must_use]
    pub fn encode(self, channel: u8, bytes: &[u8]) -> Message {
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

    /// Decodes a message; `None` for empty and malformed ones, which are ignored, as kube-apiserver does.
    #[must_use]
    pub fn decode(self, message: Message) -> Option<ChannelMessage> {
        if !message.is_text() && !message.is_binary() {
            return None;
        }
        let mut bytes = message.into_data();
        if self.is_tunnel() {
            return Some(ChannelMessage::Data(0, bytes));
        }
        match *bytes.first()? {
            CLOSE if self.half_close => match *bytes {
                [_, channel] => Some(ChannelMessage::Close(channel)),
                _ => None,
            },
            digit if self.base64 => {
                let channel = digit.checked_sub(b'0').filter(|channel| *channel < 10)?;
                let decoded = BASE64_STANDARD.decode(&bytes[1..]).ok()?;
                Some(ChannelMessage::Data(channel, decoded.into()))
            }
            channel => Some(ChannelMessage::Data(channel, bytes.split_off(1))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str) -> Subprotocol {
        negotiate(&[name], REMOTE_COMMAND).unwrap()
    }

    #[test]
    fn the_first_supported_offer_is_selected() {
        let chosen = |offered: &[&str]| negotiate(offered, REMOTE_COMMAND).map(|dialect| dialect.name);
        assert_eq!(chosen(&["v5.channel.k8s.io", "v4.channel.k8s.io"]), Some("v5.channel.k8s.io"));
        assert_eq!(chosen(&["v9.channel.k8s.io", "v4.channel.k8s.io"]), Some("v4.channel.k8s.io"));
        assert_eq!(chosen(&[]), Some(""), "no wish at all is the oldest dialect");
        assert_eq!(chosen(&["SPDY/3.1+portforward.k8s.io"]), None);
    }

    #[test]
    fn encoded_messages_can_be_decoded() {
        for dialect in REMOTE_COMMAND {
            for bytes in [&b""[..], b"hello", &[255, 0, 48]] {
                let message = dialect.encode(STDERR, bytes);
                let want = ChannelMessage::Data(STDERR, Bytes::copy_from_slice(bytes));
                assert_eq!(dialect.decode(message), Some(want), "{}", dialect.name);
            }
        }
    }

    #[test]
    fn only_v5_closes_channels() {
        let end = Message::binary(vec![255, STDIN]);
        assert_eq!(find("v5.channel.k8s.io").decode(end.clone()), Some(ChannelMessage::Close(STDIN)));
        let data = Some(ChannelMessage::Data(255, Bytes::from_static(&[STDIN])));
        assert_eq!(find("v4.channel.k8s.io").decode(end), data);
    }

    #[test]
    fn text_and_malformed_messages() {
        let v4 = find("v4.channel.k8s.io");
        let typed = Some(ChannelMessage::Data(0, Bytes::from_static(b"ls\n")));
        assert_eq!(v4.decode(Message::text("\0ls\n")), typed, "clients of Python send text");
        assert_eq!(v4.decode(Message::binary(Vec::new())), None);
        assert_eq!(v4.decode(Message::Ping(Bytes::new())), None);
        let base64 = find("v4.base64.channel.k8s.io");
        assert_eq!(
            base64.decode(Message::text("0bHM=")),
            Some(ChannelMessage::Data(0, Bytes::from_static(b"ls")))
        );
        assert_eq!(base64.decode(Message::text("0!!")), None);
        assert_eq!(find("v5.channel.k8s.io").decode(Message::binary(vec![255, 0, 0])), None);
    }
}
