//! Upgrades requests to WebSockets.

use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::response::{HttpError, KubeletResponse};
use crate::subprotocol::Subprotocol;

/// Maximum message of a client, in bytes.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// The WebSocket of a client.
pub(crate) type Socket = WebSocketStream<TokioIo<Upgraded>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UpgradeRequest {
    WebSocket {
        key: HeaderValue,
        /// Subprotocols offered by the client, by preference.
        protocols: Vec<String>,
    },
    /// SPDY, which is not supported.
    Spdy,
}

impl UpgradeRequest {
    /// # Errors
    /// 400 without an upgrade header.
    pub fn of(headers: &HeaderMap) -> Result<UpgradeRequest, HttpError> {
        let upgrades = has_word(headers, &CONNECTION, "upgrade");
        if upgrades && has_word(headers, &UPGRADE, "websocket") {
            let key = headers.get(SEC_WEBSOCKET_KEY).cloned();
            let key = key.ok_or_else(|| HttpError::new(400, "the header Sec-WebSocket-Key is missing"))?;
            let protocols = words(headers, &SEC_WEBSOCKET_PROTOCOL).map(str::to_owned).collect();
            return Ok(UpgradeRequest::WebSocket { key, protocols });
        }
        if upgrades && has_word(headers, &UPGRADE, "SPDY/3.1") {
            return Ok(UpgradeRequest::Spdy);
        }
        Err(HttpError::new(400, "Upgrade request required"))
    }
}

fn words<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

fn has_word(headers: &HeaderMap, name: &http::HeaderName, word: &str) -> bool {
    words(headers, name).any(|there| there.eq_ignore_ascii_case(word))
}

/// Whether the client offers one of these subprotocols.
pub(crate) fn offers(headers: &HeaderMap, known: &[Subprotocol]) -> bool {
    words(headers, &SEC_WEBSOCKET_PROTOCOL).any(|word| known.iter().any(|dialect| dialect.name == word))
}

/// The error for a client that only supports SPDY.
pub(crate) fn no_spdy() -> HttpError {
    HttpError::new(
        400,
        "SPDY/3.1 is not spoken here: use a client that speaks WebSockets (kubectl 1.31 or newer)",
    )
}

/// The error for a client without a supported subprotocol.
pub(crate) fn unknown_protocols(offered: &[String], known: &[&str]) -> HttpError {
    let text = format!("requested protocol(s) are not supported: {offered:?}; supports {known:?}");
    HttpError::new(403, text)
}

/// The 101 response and the pending upgrade.
pub(crate) fn accept<B>(
    request: &mut Request<B>,
    key: &HeaderValue,
    protocol: &str,
) -> (KubeletResponse, OnUpgrade) {
    let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    if let Ok(protocol) = HeaderValue::from_str(protocol)
        && !protocol.is_empty()
    {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    (answer, hyper::upgrade::on(request))
}

/// Completes the upgrade.
///
/// # Errors
/// The client has disconnected.
pub(crate) async fn socket(upgrade: OnUpgrade) -> Result<Socket, hyper::Error> {
    let stream = TokioIo::new(upgrade.await?);
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    Ok(WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(lines: &[(&'static str, &'static str)]) -> Result<UpgradeRequest, u16> {
        let headers: HeaderMap =
            lines.iter().map(|(k, v)| (k.parse().unwrap(), HeaderValue::from_static(v))).collect();
        UpgradeRequest::of(&headers).map_err(|refusal| refusal.code)
    }

    #[test]
    fn upgrade_requests() {
        let socket = [
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "WebSocket"),
            ("sec-websocket-key", "k"),
            ("sec-websocket-protocol", "v5.channel.k8s.io, v4.channel.k8s.io"),
        ];
        let protocols = vec!["v5.channel.k8s.io".to_owned(), "v4.channel.k8s.io".to_owned()];
        assert_eq!(
            wish(&socket),
            Ok(UpgradeRequest::WebSocket { key: HeaderValue::from_static("k"), protocols })
        );
        assert_eq!(wish(&socket[..2]), Err(400), "a WebSocket without a key");
        assert_eq!(wish(&socket[1..]), Err(400), "an upgrade that the connection does not speak of");
        assert_eq!(wish(&[("connection", "upgrade"), ("upgrade", "SPDY/3.1")]), Ok(UpgradeRequest::Spdy));
        assert_eq!(wish(&[]), Err(400));
    }
}
