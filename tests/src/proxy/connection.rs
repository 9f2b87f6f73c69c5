//! A client connection and its upstream connection.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self as client, SendRequest};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use muster_tree::tree;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{ClientConnection, ProxyMode, RecordedRequest, RequestFilter, SharedState};

type Body = BoxBody<Bytes, hyper::Error>;

/// TLS configurations for clients and for the server.
#[derive(Clone)]
pub struct Tls {
    to_client: TlsAcceptor,
    to_server: TlsConnector,
}

impl Tls {
    /// Creates a self-signed serving certificate; the server's certificate is not verified.
    pub fn new() -> Result<Tls, String> {
        let key = rcgen::KeyPair::generate().map_err(|e| e.to_string())?;
        let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()])
            .and_then(|it| it.self_signed(&key))
            .map_err(|e| e.to_string())?;
        let key = PrivateKeyDer::try_from(key.serialize_der())?;
        let provider = Arc::new(ring::default_provider());
        let wrong = |e: Error| e.to_string();
        let to_client = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .map_err(wrong)?;
        let to_server = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
            .with_no_client_auth();
        Ok(Tls { to_client: Arc::new(to_client).into(), to_server: Arc::new(to_server).into() })
    }
}

/// Accepts every server certificate: servers are on loopback.
#[derive(Debug)]
pub(crate) struct AcceptAnyCertificate(pub(crate) Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Accepts connections until the runtime shuts down.
pub async fn accept(listener: TcpListener, tls: Tls, shared: Arc<SharedState>) {
    for id in 0.. {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let mut state = shared.lock();
        if state.mode == ProxyMode::Disconnected {
            state.requests.push(seen("", "", false));
            continue;
        }
        let task = tokio::spawn(serve(id, stream, tls.clone(), shared.clone())).abort_handle();
        state.connections.insert(id, ClientConnection { task, watches: false });
    }
}

async fn serve(id: u64, stream: TcpStream, tls: Tls, shared: Arc<SharedState>) {
    let Ok(stream) = tls.to_client.accept(stream).await else { return };
    let line = Arc::new(ProxiedConnection { id, tls, shared: shared.clone(), onward: Mutex::new(None) });
    let each = service_fn(move |request| {
        let line = line.clone();
        async move { line.answer(request).await }
    });
    // The client observes an error on its own connection.
    let _ = server::Builder::new().serve_connection(TokioIo::new(stream), each).await;
    shared.lock().connections.remove(&id);
}

/// A client connection with its upstream connection.
struct ProxiedConnection {
    id: u64,
    tls: Tls,
    shared: Arc<SharedState>,
    onward: Mutex<Option<SendRequest<Incoming>>>,
}

impl ProxiedConnection {
    async fn answer(&self, request: Request<Incoming>) -> io::Result<Response<Body>> {
        let query = request.uri().query().unwrap_or_default();
        let watch = query.split('&').any(|word| word == "watch=true" || word == "watch=1");
        let seen = seen(request.method().as_str(), request.uri().path(), watch);
        let mode = {
            let mut state = self.shared.lock();
            state.requests.push(seen.clone());
            if let Some(line) = state.connections.get_mut(&self.id) {
                line.watches = watch;
            }
            state.mode
        };
        match mode {
            ProxyMode::Rejecting(which, code, again) if seen.matches(which) => {
                Ok(error_response(code, again))
            }
            ProxyMode::ShortWatches if seen.matches(RequestFilter::Watches) => Ok(empty()),
            ProxyMode::Slow(pause) => {
                tokio::time::sleep(pause).await;
                self.forward(request).await
            }
            _ => self.forward(request).await,
        }
    }

    /// Forwards a request. An error of the upstream connection closes the client's connection, which the client observes.
    async fn forward(&self, request: Request<Incoming>) -> io::Result<Response<Body>> {
        let mut onward = self.onward.lock().await;
        let mut sender = match onward.take().filter(|it| !it.is_closed()) {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        sender.ready().await.map_err(io::Error::other)?;
        let answer = sender.send_request(request).await.map_err(io::Error::other)?;
        *onward = Some(sender);
        Ok(answer.map(BodyExt::boxed))
    }

    async fn connect(&self) -> io::Result<SendRequest<Incoming>> {
        let stream = TcpStream::connect(self.shared.server).await?;
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let stream = self.tls.to_server.connect(name, stream).await?;
        let (sender, connection) = client::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

#[expect(clippy::disallowed_methods, reason = "requests are recorded with the real time")]
fn seen(method: &str, path: &str, watch: bool) -> RecordedRequest {
    RecordedRequest { at: std::time::Instant::now(), method: method.to_owned(), path: path.to_owned(), watch }
}

fn error_response(code: u16, again: Option<u32>) -> Response<Body> {
    let reason = if code == 429 { "TooManyRequests" } else { "InternalError" };
    let mut status = tree!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
        "message": "the weather is bad", "code": i64::from(code)});
    let mut response = Response::builder().status(code).header("Content-Type", "application/json");
    if let Some(seconds) = again {
        status = status.with(&["details", "retryAfterSeconds"], i64::from(seconds));
        response = response.header("Retry-After", seconds);
    }
    let body = Full::new(Bytes::from(status.to_json_bytes()));
    response.body(never_fails(body)).expect("a code and headers that never change")
}

fn empty() -> Response<Body> {
    let response = Response::builder().header("Content-Type", "application/json");
    response.body(never_fails(Empty::new())).expect("a header that never changes")
}

fn never_fails(
    body: impl hyper::body::Body<Data = Bytes, Error = Infallible> + Send + Sync + 'static,
) -> Body {
    body.map_err(|never| match never {}).boxed()
}
