//! A connection of a client, and the one to the server that belongs to it.

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

use super::{Desk, Line, Seen, Weather, Which};

type Body = BoxBody<Bytes, hyper::Error>;

/// Both sides of the encryption.
#[derive(Clone)]
pub struct Tls {
    to_client: TlsAcceptor,
    to_server: TlsConnector,
}

impl Tls {
    /// With a certificate that nobody checks, and no eye for that of the server.
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
            .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
            .with_no_client_auth();
        Ok(Tls { to_client: Arc::new(to_client).into(), to_server: Arc::new(to_server).into() })
    }
}

/// Takes every server for the right one: it is on loopback.
#[derive(Debug)]
pub(crate) struct Anybody(pub(crate) Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
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

/// Takes in connections for ever.
pub async fn accept(listener: TcpListener, tls: Tls, desk: Arc<Desk>) {
    for id in 0.. {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let mut state = desk.lock();
        if state.weather == Weather::Cut {
            state.seen.push(seen("", "", false));
            continue;
        }
        let task = tokio::spawn(serve(id, stream, tls.clone(), desk.clone())).abort_handle();
        state.lines.insert(id, Line { task, watches: false });
    }
}

/// Serves one connection to its end.
async fn serve(id: u64, stream: TcpStream, tls: Tls, desk: Arc<Desk>) {
    let Ok(stream) = tls.to_client.accept(stream).await else { return };
    let line = Arc::new(Pair { id, tls, desk: desk.clone(), onward: Mutex::new(None) });
    let each = service_fn(move |request| {
        let line = line.clone();
        async move { line.answer(request).await }
    });
    // However it ends, the client sees that.
    let _ = server::Builder::new().serve_connection(TokioIo::new(stream), each).await;
    desk.lock().lines.remove(&id);
}

/// A connection, and where it leads.
struct Pair {
    id: u64,
    tls: Tls,
    desk: Arc<Desk>,
    onward: Mutex<Option<SendRequest<Incoming>>>,
}

impl Pair {
    async fn answer(&self, request: Request<Incoming>) -> io::Result<Response<Body>> {
        let query = request.uri().query().unwrap_or_default();
        let watch = query.split('&').any(|word| word == "watch=true" || word == "watch=1");
        let seen = seen(request.method().as_str(), request.uri().path(), watch);
        let weather = {
            let mut state = self.desk.lock();
            state.seen.push(seen.clone());
            if let Some(line) = state.lines.get_mut(&self.id) {
                line.watches = watch;
            }
            state.weather
        };
        match weather {
            Weather::Refuses(which, code, again) if seen.is(which) => Ok(refusal(code, again)),
            Weather::BriefWatches if seen.is(Which::Watches) => Ok(empty()),
            Weather::Slow(pause) => {
                tokio::time::sleep(pause).await;
                self.pass(request).await
            }
            _ => self.pass(request).await,
        }
    }

    /// A connection that was fine a moment ago may not be any more: who asked is told by the end of their own.
    async fn pass(&self, request: Request<Incoming>) -> io::Result<Response<Body>> {
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
        let stream = TcpStream::connect(self.desk.server).await?;
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let stream = self.tls.to_server.connect(name, stream).await?;
        let (sender, connection) = client::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

#[expect(clippy::disallowed_methods, reason = "it takes down when something came")]
fn seen(method: &str, path: &str, watch: bool) -> Seen {
    Seen { at: std::time::Instant::now(), method: method.to_owned(), path: path.to_owned(), watch }
}

fn refusal(code: u16, again: Option<u32>) -> Response<Body> {
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
