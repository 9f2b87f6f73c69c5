//! Watches over WebSockets: one frame per event.
//!
//! # Guarantees
//!
//! - A JSON event is a text frame, line end included; a protobuf event is a binary frame without its length.
//! - Frames of the client are read and dropped; its close frame, or the loss of the connection, ends the watch.
//! - As with kube-apiserver, the client names its origin and at most one subprotocol, which is confirmed.

use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use http::header::{
    CONNECTION, HeaderName, HeaderValue, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::Utf8Bytes;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::kubelet_proxy::upgrades;
use super::negotiation::Encoding;
use super::response::{HttpResponse, ResponseBody};
use super::server_state::RequestHead;
use crate::status::Status;

/// Maximum size of a client's message; clients of watches send none.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// How long a client may take to answer the close frame.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(5);
/// Length prefix of a protobuf event.
const LENGTH_BYTES: usize = 4;

type Connection = WebSocketStream<TokioIo<Upgraded>>;

/// A validated WebSocket handshake.
pub(super) struct WatchWebSocket {
    accept: HeaderValue,
    protocol: Option<HeaderValue>,
    upgrade: OnUpgrade,
}

impl WatchWebSocket {
    /// Validates the handshake; `None` when the request is none.
    ///
    /// # Errors
    /// 400 for an incomplete handshake, 403 without an origin.
    pub(super) fn of(
        request: &RequestHead,
        mut carrier: hyper::Request<Incoming>,
    ) -> Result<Option<WatchWebSocket>, Status> {
        let header = |name: &HeaderName| request.headers.get(name).and_then(|value| value.to_str().ok());
        if !upgrades(request) || !header(&UPGRADE).is_some_and(|it| it.eq_ignore_ascii_case("websocket")) {
            return Ok(None);
        }
        let Some(key) = header(&SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty()) else {
            return Err(Status::bad_request("the header Sec-WebSocket-Key is missing"));
        };
        if header(&SEC_WEBSOCKET_VERSION) != Some("13") {
            return Err(Status::bad_request("the header Sec-WebSocket-Version must be 13"));
        }
        if !header(&ORIGIN).is_some_and(is_origin) {
            let message = "a watch over a WebSocket must name the URL of its origin in the header Origin";
            return Err(Status::new(403, "Forbidden", message));
        }
        let protocol = request.headers.get(SEC_WEBSOCKET_PROTOCOL).filter(|value| !value.is_empty());
        if protocol.is_some_and(|value| value.as_bytes().contains(&b',')) {
            let message =
                "a watch over a WebSocket may name at most one subprotocol in Sec-WebSocket-Protocol";
            return Err(Status::bad_request(message));
        }
        let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes()));
        let accept = accept.expect("base64 is a legal header value");
        let upgrade = hyper::upgrade::on(&mut carrier);
        Ok(Some(WatchWebSocket { accept, protocol: protocol.cloned(), upgrade }))
    }

    /// Accepts the handshake; events follow once the connection is upgraded.
    pub(super) fn open(self, encoding: Encoding, events: mpsc::Receiver<Bytes>) -> HttpResponse {
        let mut reply = Response::new(ResponseBody::Full(None));
        *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = reply.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, self.accept);
        if let Some(protocol) = self.protocol {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        tokio::spawn(carry(self.upgrade, encoding, events));
        reply
    }
}

/// Whether an `Origin` header is a URL or a path. Sandboxed pages send `null`, which is neither.
fn is_origin(text: &str) -> bool {
    text.parse::<Uri>().is_ok_and(|uri| uri.scheme().is_some() || text.starts_with('/'))
}

/// Forwards events until the watch ends or the client disconnects. Dropping the receiver ends the watch.
async fn carry(upgrade: OnUpgrade, encoding: Encoding, mut events: mpsc::Receiver<Bytes>) {
    let Ok(upgraded) = upgrade.await else { return };
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    let stream = TokioIo::new(upgraded);
    let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    // Frames of the client must be read for pings and the close frame, though their content is ignored.
    let (mut sink, mut source) = socket.split();
    let is_over = tokio::select! {
        sent = send_all(&mut sink, encoding, &mut events) => sent.is_ok(),
        () = drain(&mut source) => false,
    };
    if is_over {
        let close = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        let _ = timeout(CLOSE_WAIT_MAX, async {
            if sink.send(Message::Close(Some(close))).await.is_ok() {
                drain(&mut source).await;
            }
        })
        .await;
    }
    // A client that does not answer must not hold the connection.
    let _ = timeout(CLOSE_WAIT_MAX, sink.close()).await;
}

async fn send_all(
    sink: &mut SplitSink<Connection, Message>,
    encoding: Encoding,
    events: &mut mpsc::Receiver<Bytes>,
) -> Result<(), Error> {
    while let Some(piece) = events.recv().await {
        for message in messages(piece, encoding) {
            sink.feed(message).await?;
        }
        sink.flush().await?;
    }
    Ok(())
}

async fn drain(source: &mut SplitStream<Connection>) {
    while let Some(Ok(message)) = source.next().await {
        if message.is_close() {
            return;
        }
    }
}

/// The frames of one chunk, which holds whole events.
fn messages(mut piece: Bytes, encoding: Encoding) -> Vec<Message> {
    let mut found = Vec::new();
    while !piece.is_empty() {
        found.push(match encoding {
            Encoding::Protobuf => {
                let length = piece.split_to(LENGTH_BYTES).get_u32();
                Message::Binary(piece.split_to(usize::try_from(length).unwrap_or(usize::MAX)))
            }
            Encoding::Json | Encoding::Yaml => {
                let end = piece.iter().position(|byte| *byte == b'\n').map_or(piece.len(), |at| at + 1);
                let line = Utf8Bytes::try_from(piece.split_to(end));
                Message::Text(line.expect("events are written as UTF-8"))
            }
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_a_frame_of_its_own() {
        let lines = messages(Bytes::from_static(b"{\"a\":1}\n{\"b\":2}\n"), Encoding::Json);
        assert_eq!(lines, [Message::text("{\"a\":1}\n"), Message::text("{\"b\":2}\n")]);
        let events = messages(Bytes::from_static(b"\0\0\0\x02ab\0\0\0\x01c"), Encoding::Protobuf);
        assert_eq!(events, [Message::binary(&b"ab"[..]), Message::binary(&b"c"[..])]);
    }
}
