//! Watches over WebSockets, with the handshake of browsers and fabric8's Java client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use muster_schema::proto;
use muster_tree::{Tree, tree};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::client::HttpAnswer;
use crate::proxy::AcceptAnyCertificate;

/// Read timeout; longer than any watch of a scenario.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Sample key and accept value of the handshake, from RFC 6455.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// A client certificate and its key, PEM.
pub(super) type ClientCertPem = (Vec<u8>, Vec<u8>);

/// Opens a watch and reads it to its end: the status code, the subprotocol and all frames. The body of an error response is ignored.
pub(super) fn watch(
    base: &str,
    path: &str,
    headers: &[(String, String)],
    shown: Option<&ClientCertPem>,
) -> Result<HttpAnswer, String> {
    let address = base.strip_prefix("https://").ok_or("the server speaks TLS")?;
    let mut stream = connect(address, shown)?;
    let mut head = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n"
    );
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += "\r\n";
    let io = |e: std::io::Error| format!("SOCKET {path}: {e}");
    stream.write_all(head.as_bytes()).and_then(|()| stream.flush()).map_err(io)?;
    let mut reader = BufReader::new(stream);
    let (code, fields) = read_head(&mut reader).map_err(io)?;
    let mut body = Tree::Null;
    if code == 101 {
        let field = |name: &str| fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
        if field("sec-websocket-accept").as_deref() != Some(ACCEPT) {
            return Err(format!("SOCKET {path}: the handshake was not confirmed: {fields:?}"));
        }
        let frames = read_frames(&mut reader)?;
        body = tree!({"protocol": field("sec-websocket-protocol"), "frames": Tree::list(frames)});
    }
    Ok(HttpAnswer { code, warnings: Vec::new(), media: String::new(), body })
}

fn connect(
    address: &str,
    shown: Option<&ClientCertPem>,
) -> Result<StreamOwned<ClientConnection, TcpStream>, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)));
    let config = match shown {
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate).map_err(|e| e.to_string())?];
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| e.to_string())?;
            builder.with_client_auth_cert(chain, key).map_err(|e| e.to_string())?
        }
        None => builder.with_no_client_auth(),
    };
    let name = ServerName::try_from("localhost").map_err(|e| e.to_string())?;
    let tls = ClientConnection::new(Arc::new(config), name).map_err(|e| e.to_string())?;
    let socket = TcpStream::connect(address).map_err(|e| format!("{address}: {e}"))?;
    socket.set_read_timeout(Some(READ_TIMEOUT)).map_err(|e| e.to_string())?;
    Ok(StreamOwned::new(tls, socket))
}

/// Reads the status code and the headers, names in lower case.
fn read_head(reader: &mut impl BufRead) -> std::io::Result<(u16, Vec<(String, String)>)> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let code = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let mut fields = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            return Ok((code, fields));
        };
        fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// Reads all frames up to the close frame: frame type and decoded event.
fn read_frames(reader: &mut impl Read) -> Result<Vec<Tree>, String> {
    let mut frames = Vec::new();
    loop {
        let (opcode, payload) = read_frame(reader).map_err(|e| format!("reading a frame: {e}"))?;
        frames.push(match opcode {
            0x1 => {
                let event = Tree::parse(&payload).map_err(|e| e.to_string())?;
                tree!({"frame": "text", "event": event})
            }
            0x2 => {
                let (kind, object) = proto::decode_event(&payload).map_err(|e| e.to_string())?;
                tree!({"frame": "binary", "event": {"type": kind, "object": object.tree}})
            }
            0x8 => return Ok(frames),
            other => return Err(format!("a frame of kind {other}")),
        });
    }
}

/// Reads one frame. Server frames are not masked, and watch events are never fragmented.
fn read_frame(reader: &mut impl Read) -> std::io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    reader.read_exact(&mut head)?;
    let length = match head[1] & 0x7f {
        126 => {
            let mut more = [0; 2];
            reader.read_exact(&mut more)?;
            u64::from(u16::from_be_bytes(more))
        }
        127 => {
            let mut more = [0; 8];
            reader.read_exact(&mut more)?;
            u64::from_be_bytes(more)
        }
        short => u64::from(short),
    };
    let mut payload = Vec::new();
    reader.take(length).read_to_end(&mut payload)?;
    Ok((head[0] & 0x0f, payload))
}
