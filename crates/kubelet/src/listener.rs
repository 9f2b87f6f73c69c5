//! The TLS listener of the kubelet, for API servers with a client certificate of the cluster CA.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::response::{HttpError, KubeletResponse};
use crate::{KubeletServer, STREAMS_MAX, ShutdownSignal};

/// Concurrent connections: all streams, and some for short requests.
const CONNECTIONS_MAX: usize = STREAMS_MAX + 128;
/// Timeout of the TLS handshake and of a request head.
const HELLO_WAIT_MAX: Duration = Duration::from_secs(10);

/// Common names of API server client certificates, as installers issue them.
const SERVERS: [&str; 4] =
    ["kube-apiserver", "kube-apiserver-kubelet-client", "system:kube-apiserver", "apiserver-kubelet-client"];

/// Why the kubelet cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("listening for the API server: {0}")]
    Socket(#[from] io::Error),
    #[error("certificate of the node: {0}")]
    Certificate(#[from] rcgen::Error),
    /// TLS configuration, e.g. an invalid client CA.
    #[error("TLS of the node: {0}")]
    Tls(String),
}

/// A running listener; it stops when dropped or when the server stops.
pub struct KubeletListener {
    address: SocketAddr,
    accepting: tokio::task::JoinHandle<()>,
}

impl Drop for KubeletListener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl KubeletListener {
    /// Its address; the port is reported in `status.daemonEndpoints` of the Node.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl KubeletServer {
    /// Serves on this socket with a self-signed certificate for `name`. Only clients with a certificate of
    /// `client_authority` (PEM, one or more CAs) are accepted; others get 401. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The socket is unusable, or the CA cannot be parsed.
    pub fn listen(
        self: &Arc<Self>,
        listener: StdListener,
        client_authority: &str,
        name: &str,
    ) -> Result<KubeletListener, ListenError> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let tls = TlsAcceptor::from(Arc::new(tls(client_authority, name, address)?));
        let accepting = tokio::spawn(accept_all(self.clone(), listener, tls, self.stopping()));
        Ok(KubeletListener { address, accepting })
    }
}

fn tls(authority: &str, name: &str, address: SocketAddr) -> Result<rustls::ServerConfig, ListenError> {
    let wrong = |e: &dyn std::fmt::Display| ListenError::Tls(e.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        roots.add(certificate.map_err(|e| wrong(&e))?).map_err(|e| wrong(&e))?;
    }
    if roots.is_empty() {
        return Err(ListenError::Tls("there is no certificate in the authority of the cluster".to_owned()));
    }
    // Unauthenticated clients get 401 over HTTP instead of a failed handshake.
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .map_err(|e| wrong(&e))?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec![address.ip().to_string(), "localhost".to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, name);
    let chain = vec![params.self_signed(&key)?.der().clone()];
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| wrong(&e))?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der())))
        .map_err(|e| wrong(&e))?;
    // WebSocket upgrades need HTTP/1.1.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

async fn accept_all(
    kubelet: Arc<KubeletServer>,
    listener: TcpListener,
    tls: TlsAcceptor,
    mut stop: ShutdownSignal,
) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            () = stop.stopped() => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Most likely out of file descriptors: wait for connections to close.
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(place) = permits.clone().try_acquire_owned() else {
            tracing::warn!(max = CONNECTIONS_MAX, "too many kubelet connections; connection rejected");
            continue;
        };
        let work = connection(kubelet.clone(), stream, tls.clone());
        tokio::spawn(async move {
            work.await;
            drop(place);
        });
    }
}

/// Whether a certificate belongs to an API server or cluster admin. The CA also signs certificates of nodes and
/// users; those may not exec here.
fn is_api_server(certificate: &CertificateDer<'_>) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
    let subject = certificate.subject();
    let named = |name: &str| SERVERS.contains(&name);
    let groups = ["system:masters", "kubeadm:cluster-admins"];
    subject.iter_common_name().filter_map(|it| it.as_str().ok()).any(named)
        || subject.iter_organization().filter_map(|it| it.as_str().ok()).any(|group| groups.contains(&group))
}

async fn connection(kubelet: Arc<KubeletServer>, stream: TcpStream, tls: TlsAcceptor) {
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(HELLO_WAIT_MAX, tls.accept(stream)).await else {
        return tracing::debug!("TLS handshake failed");
    };
    // The TLS verifier has validated the chain.
    let certificate = stream.get_ref().1.peer_certificates().and_then(|all| all.first());
    let caller = certificate.map(|certificate| is_api_server(certificate));
    let mut stop = kubelet.stopping();
    let service = service_fn(move |request| {
        let kubelet = kubelet.clone();
        async move {
            let answer: KubeletResponse = match caller {
                Some(true) => kubelet.serve(request).await,
                Some(false) => HttpError::new(403, "Forbidden: only API servers may ask a node").into(),
                None => HttpError::new(401, "Unauthorized").into(),
            };
            Ok::<KubeletResponse, std::convert::Infallible>(answer)
        }
    });
    let serving = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HELLO_WAIT_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(serving);
    let result = tokio::select! {
        result = serving.as_mut() => result,
        () = stop.stopped() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "kubelet connection failed");
    }
}
