//! Nodes over the network: one connection per request, which may become a stream both ways.
//!
//! We show a certificate of our own authority; the node's is not looked at, as real API servers do unless they are told
//! who signs it: kubelets mostly make their own.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderName, HeaderValue, UPGRADE};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::identity::{Certified, IdentityError};
use super::nodes::{Address, NodeBody};
use super::stop::Stop;

/// How long a node may take to take up a connection, and to begin its answer.
const NODE_WAIT_MAX: Duration = Duration::from_secs(30);
/// What a request for a stream carries besides its path.
const STREAM_HEADERS: [HeaderName; 6] = [
    CONNECTION,
    UPGRADE,
    http::header::SEC_WEBSOCKET_KEY,
    http::header::SEC_WEBSOCKET_VERSION,
    http::header::SEC_WEBSOCKET_PROTOCOL,
    HeaderName::from_static("x-stream-protocol-version"),
];

/// Calls nodes.
pub struct Dialer(TlsConnector);

/// A stream that has a place and ends with the server.
pub(super) struct Stay {
    pub place: OwnedSemaphorePermit,
    pub stop: Stop,
}

impl Dialer {
    /// Shows this certificate.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn new(client: &Certified) -> Result<Dialer, IdentityError> {
        let tls = |e: &dyn std::fmt::Display| IdentityError::Tls(e.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain = vec![CertificateDer::from_pem_slice(client.certificate.as_bytes()).map_err(|e| tls(&e))?];
        let key = PrivateKeyDer::from_pem_slice(client.key.as_bytes()).map_err(|e| tls(&e))?;
        let mut config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| tls(&e))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
            .with_client_auth_cert(chain, key)
            .map_err(|e| tls(&e))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Dialer(TlsConnector::from(Arc::new(config))))
    }

    /// Asks a node; a connection that changes its protocol is spliced with the client's.
    ///
    /// # Errors
    /// In words: the node cannot be reached.
    pub(super) async fn ask(
        &self,
        address: &Address,
        mut request: Request<Incoming>,
        stay: Stay,
    ) -> Result<(Response<NodeBody>, Option<Stay>), String> {
        let client = hyper::upgrade::on(&mut request);
        let asked = timeout(NODE_WAIT_MAX, self.send(address, &request)).await;
        let mut response =
            asked.unwrap_or_else(|_| Err(format!("dial tcp {}: i/o timeout", address.authority())))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok((response.map(|body| body.map_err(io::Error::other).boxed_unsync()), Some(stay)));
        }
        let node = hyper::upgrade::on(&mut response);
        tokio::spawn(splice(client, node, stay));
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        Ok((response.map(|_| body), None))
    }

    async fn send(
        &self,
        address: &Address,
        request: &Request<Incoming>,
    ) -> Result<Response<Incoming>, String> {
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await;
        let stream = stream.map_err(|error| unreachable(address, &error))?;
        let _ = stream.set_nodelay(true);
        let name = ServerName::try_from(address.host.clone()).map_err(|error| error.to_string())?;
        let stream = self.0.connect(name, stream).await.map_err(|error| error.to_string())?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| error.to_string())?;
        tokio::spawn(connection.with_upgrades());
        sender.send_request(for_node(address, request)).await.map_err(|error| error.to_string())
    }
}

/// As a real server says it.
fn unreachable(address: &Address, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        _ => error.to_string(),
    };
    format!("dial tcp {}: {why}", address.authority())
}

/// Nothing of the client goes to the node but what it wishes to stream.
fn for_node(address: &Address, request: &Request<Incoming>) -> Request<Empty<Bytes>> {
    let mut asked = Request::new(Empty::new());
    *asked.uri_mut() = request.uri().path_and_query().cloned().map(Uri::from).unwrap_or_default();
    if let Ok(host) = HeaderValue::from_str(&address.authority()) {
        asked.headers_mut().insert(HOST, host);
    }
    if request.headers().contains_key(UPGRADE) {
        *asked.method_mut() = request.method().clone();
        for name in &STREAM_HEADERS {
            for value in request.headers().get_all(name) {
                asked.headers_mut().append(name, value.clone());
            }
        }
    } else {
        *asked.method_mut() = Method::GET;
    }
    asked
}

async fn splice(client: OnUpgrade, node: OnUpgrade, mut stay: Stay) {
    let carry = async {
        let (client, node) = tokio::try_join!(client, node).map_err(io::Error::other)?;
        copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(node)).await
    };
    let carried = tokio::select! {
        carried = carry => carried,
        () = stay.stop.stopped() => return,
    };
    if let Err(error) = carried {
        tracing::debug!(%error, "a stream to a node broke off");
    }
    drop(stay.place);
}

/// Takes any certificate, but only from somebody who has its key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
