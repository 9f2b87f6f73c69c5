//! The node's own door: TLS, open to those whom the cluster's authority has certified.

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

use crate::answer::{Answer, Refusal};
use crate::{Kubelet, STREAMS_MAX, Stop};

/// Connections at once: all streams, and some for short requests.
const CONNECTIONS_MAX: usize = STREAMS_MAX + 128;
/// How long a client may take for its TLS handshake, and for the head of a request.
const HELLO_WAIT_MAX: Duration = Duration::from_secs(10);

/// The names that API servers have towards their nodes, as installers give them.
const SERVERS: [&str; 4] =
    ["kube-apiserver", "kube-apiserver-kubelet-client", "system:kube-apiserver", "apiserver-kubelet-client"];

/// Why a node does not listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The socket.
    #[error("listening for the API server: {0}")]
    Socket(#[from] io::Error),
    /// Its own certificate.
    #[error("certificate of the node: {0}")]
    Certificate(#[from] rcgen::Error),
    /// TLS, or the authority of the cluster.
    #[error("TLS of the node: {0}")]
    Tls(String),
}

/// A node that listens, until this is dropped or the kubelet stops.
pub struct Listening {
    address: SocketAddr,
    accepting: tokio::task::JoinHandle<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Listening {
    /// Where it listens; its port belongs into the node's `status.daemonEndpoints`.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Kubelet {
    /// Answers on this socket, with a certificate of its own for `name`. Only clients with a certificate that the
    /// authority in `client_authority` (PEM, one or several) has signed are let in; others get 401. Must be called
    /// within a tokio runtime.
    ///
    /// # Errors
    /// The socket cannot be used, or the authority cannot be read.
    pub fn listen(
        self: &Arc<Self>,
        listener: StdListener,
        client_authority: &str,
        name: &str,
    ) -> Result<Listening, ListenError> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let tls = TlsAcceptor::from(Arc::new(tls(client_authority, name, address)?));
        let accepting = tokio::spawn(accept_all(self.clone(), listener, tls, self.stopping()));
        Ok(Listening { address, accepting })
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
    // Connections that become WebSockets: HTTP/1.1 and nothing else.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

async fn accept_all(kubelet: Arc<Kubelet>, listener: TcpListener, tls: TlsAcceptor, mut stop: Stop) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            () = stop.stopped() => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, most likely: those who leave give some back.
                tracing::warn!(%error, "accepting a connection of the API server");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            tracing::warn!(max = CONNECTIONS_MAX, "too many connections to the node: one was refused");
            continue;
        };
        let work = connection(kubelet.clone(), stream, tls.clone());
        tokio::spawn(async move {
            work.await;
            drop(place);
        });
    }
}

/// Whether a certificate is that of an API server or of the cluster's masters. The same authority certifies nodes and
/// users of all kinds, who may not run commands here.
fn is_server(certificate: &CertificateDer<'_>) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
    let subject = certificate.subject();
    let named = |name: &str| SERVERS.contains(&name);
    let groups = ["system:masters", "kubeadm:cluster-admins"];
    subject.iter_common_name().filter_map(|it| it.as_str().ok()).any(named)
        || subject.iter_organization().filter_map(|it| it.as_str().ok()).any(|group| groups.contains(&group))
}

async fn connection(kubelet: Arc<Kubelet>, stream: TcpStream, tls: TlsAcceptor) {
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(HELLO_WAIT_MAX, tls.accept(stream)).await else {
        return tracing::debug!("TLS handshake with the node");
    };
    // The verifier has looked at it: one that is there is good.
    let certificate = stream.get_ref().1.peer_certificates().and_then(|all| all.first());
    let caller = certificate.map(|certificate| is_server(certificate));
    let mut stop = kubelet.stopping();
    let service = service_fn(move |request| {
        let kubelet = kubelet.clone();
        async move {
            let answer: Answer = match caller {
                Some(true) => kubelet.serve(request).await,
                Some(false) => Refusal::new(403, "Forbidden: only API servers may ask a node").into(),
                None => Refusal::new(401, "Unauthorized").into(),
            };
            Ok::<Answer, std::convert::Infallible>(answer)
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
        tracing::debug!(%error, "connection to the node");
    }
}
