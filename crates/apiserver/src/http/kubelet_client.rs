//! The kubelet client: one connection per request, which may be upgraded to a bidirectional stream.
//!
//! The client shows a certificate of the server's CA. It does not verify the kubelet's serving certificate, like
//! kube-apiserver without `--kubelet-certificate-authority`: kubelets mostly serve self-signed certificates.

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

use super::identity::{CertKeyPair, IdentityError};
use super::kubelet_location::{KubeletAddress, KubeletBody};
use super::shutdown::StopSignal;

/// Bounds connecting to a kubelet, and then the wait for the head of its response.
const NODE_WAIT_MAX: Duration = Duration::from_secs(30);
/// Headers of an upgrade request that are forwarded.
const STREAM_HEADERS: [HeaderName; 6] = [
    CONNECTION,
    UPGRADE,
    http::header::SEC_WEBSOCKET_KEY,
    http::header::SEC_WEBSOCKET_VERSION,
    http::header::SEC_WEBSOCKET_PROTOCOL,
    HeaderName::from_static("x-stream-protocol-version"),
];

pub struct KubeletClient(TlsConnector);

/// Keeps the in-flight permit of a stream, and ends the stream on shutdown.
pub(super) struct StreamGuard {
    pub place: OwnedSemaphorePermit,
    pub stop: StopSignal,
}

impl KubeletClient {
    /// Creates a client that authenticates with this certificate.
    ///
    /// # Errors
    /// The certificate or key cannot be parsed.
    pub fn new(client: &CertKeyPair) -> Result<KubeletClient, IdentityError> {
        let tls = |e: &dyn std::fmt::Display| IdentityError::Tls(e.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain = vec![CertificateDer::from_pem_slice(client.certificate.as_bytes()).map_err(|e| tls(&e))?];
        let key = PrivateKeyDer::from_pem_slice(client.key.as_bytes()).map_err(|e| tls(&e))?;
        let mut config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| tls(&e))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAnyServerCert(provider)))
            .with_client_auth_cert(chain, key)
            .map_err(|e| tls(&e))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(KubeletClient(TlsConnector::from(Arc::new(config))))
    }

    /// Sends a request to a kubelet. An upgraded connection is spliced with the client's.
    ///
    /// # Errors
    /// The message of a failed dial, in Go's words.
    pub(super) async fn request(
        &self,
        address: &KubeletAddress,
        mut request: Request<Incoming>,
        stay: StreamGuard,
    ) -> Result<(Response<KubeletBody>, Option<StreamGuard>), String> {
        // Taken before the request is sent: the upgrade future lives in the request's extensions.
        let client = hyper::upgrade::on(&mut request);
        let response = timeout(NODE_WAIT_MAX, self.send(address, &request)).await;
        let mut response =
            response.unwrap_or_else(|_| Err(format!("dial tcp {}: i/o timeout", address.authority())))?;
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
        address: &KubeletAddress,
        request: &Request<Incoming>,
    ) -> Result<Response<Incoming>, String> {
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await;
        let stream = stream.map_err(|error| dial_error(address, &error))?;
        // Interactive streams send small writes.
        let _ = stream.set_nodelay(true);
        let name = ServerName::try_from(address.host.clone()).map_err(|error| error.to_string())?;
        let stream = self.0.connect(name, stream).await.map_err(|error| error.to_string())?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| error.to_string())?;
        // Drives the connection, also after it was upgraded.
        tokio::spawn(connection.with_upgrades());
        sender.send_request(for_node(address, request)).await.map_err(|error| error.to_string())
    }
}

/// Formats a dial error as Go's net package does: clients show the text.
fn dial_error(address: &KubeletAddress, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        _ => error.to_string(),
    };
    format!("dial tcp {}: {why}", address.authority())
}

/// Builds the kubelet request: of the client's headers only those of an upgrade are forwarded, never credentials.
fn for_node(address: &KubeletAddress, request: &Request<Incoming>) -> Request<Empty<Bytes>> {
    let mut forwarded = Request::new(Empty::new());
    *forwarded.uri_mut() = request.uri().path_and_query().cloned().map(Uri::from).unwrap_or_default();
    if let Ok(host) = HeaderValue::from_str(&address.authority()) {
        forwarded.headers_mut().insert(HOST, host);
    }
    if request.headers().contains_key(UPGRADE) {
        *forwarded.method_mut() = request.method().clone();
        for name in &STREAM_HEADERS {
            for value in request.headers().get_all(name) {
                forwarded.headers_mut().append(name, value.clone());
            }
        }
    } else {
        // Logs are plain reads; the client's body is dropped.
        *forwarded.method_mut() = Method::GET;
    }
    forwarded
}

async fn splice(client: OnUpgrade, node: OnUpgrade, mut stay: StreamGuard) {
    let carry = async {
        let (client, node) = tokio::try_join!(client, node).map_err(io::Error::other)?;
        copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(node)).await
    };
    let carried = tokio::select! {
        carried = carry => carried,
        () = stay.stop.stopped() => return,
    };
    if let Err(error) = carried {
        tracing::debug!(%error, "stream to kubelet failed");
    }
    drop(stay.place);
}

/// Accepts any serving certificate; the handshake signature is still verified.
#[derive(Debug)]
struct AcceptAnyServerCert(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyServerCert {
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
