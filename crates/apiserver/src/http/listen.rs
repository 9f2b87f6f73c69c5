//! Accepts connections within a limit, performs TLS, and serves HTTP until the connection or the server ends.
//!
//! # Invariants
//!
//! - A connection beyond the limit is closed at once, and a TLS handshake has a timeout.
//! - With [`Listener::with_timeouts`], a connection that sends no request or reads no response is closed, too.
//! - On shutdown no connection is accepted; requests in flight get a short grace period.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::TcpListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub use rustls::ServerConfig;

use super::limits::{HANDSHAKE_MAX, HEADER_BYTES_MAX};
use super::shutdown::StopSignal;
use super::write_timeout::WriteTimeoutStream;

/// Grace period of requests in flight on shutdown.
const STOP_WAIT_MAX: Duration = Duration::from_secs(2);
/// Timeout for reading the head of a request.
const HEAD_WAIT_MAX: Duration = Duration::from_secs(30);
/// Interval of HTTP/2 keep-alive pings.
const PING_EVERY: Duration = Duration::from_secs(30);
/// Maximum number of concurrent requests on one HTTP/2 connection.
const STREAMS_MAX: u32 = 1_000;

pub type TlsConnection = TlsStream<TcpStream>;

/// The client's certificate chain (DER: leaf, then intermediates); empty without one.
#[must_use]
pub fn peer_certificates(by: &TlsConnection) -> Vec<Vec<u8>> {
    let all = by.get_ref().1.peer_certificates().unwrap_or_default();
    all.iter().map(|der| der.to_vec()).collect()
}

/// Timeouts of a connection.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionTimeouts {
    /// From one request to the head of the next.
    pub request: Duration,
    /// For each write that the client must read.
    pub write: Duration,
}

/// A listening socket with TLS.
pub struct Listener {
    socket: Socket,
    tls: TlsAcceptor,
    waits: Option<ConnectionTimeouts>,
}

impl Listener {
    /// Listens until `stop`. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The socket cannot be registered with the runtime.
    pub fn new(
        listener: StdListener,
        tls: rustls::ServerConfig,
        connections_max: usize,
        stop: StopSignal,
    ) -> io::Result<Listener> {
        let socket = Socket::new(listener, connections_max, stop)?;
        Ok(Listener { socket, tls: TlsAcceptor::from(Arc::new(tls)), waits: None })
    }

    /// Adds timeouts. Only HTTP/1 is served then: an HTTP/2 client that only answers pings could keep its connection
    /// forever.
    #[must_use]
    pub fn with_timeouts(self, waits: ConnectionTimeouts) -> Listener {
        Listener { waits: Some(waits), ..self }
    }

    /// Serves every connection with the handler that `welcome` creates for it.
    pub async fn serve<S, F, B>(self, welcome: impl Fn(&TlsConnection) -> S + Clone + Send + 'static)
    where
        S: Fn(Request<Incoming>) -> F + Send + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (tls, waits) = (self.tls, self.waits);
        let each = move |stream, stop| {
            let (tls, welcome) = (tls.clone(), welcome.clone());
            async move {
                let Some(stream) = tls_handshake(stream, &tls).await else { return };
                let answer = welcome(&stream);
                match waits {
                    None => connection(&builder(), stream, stop, answer).await,
                    Some(waits) => {
                        connection(
                            &with_idle_timeout(waits),
                            WriteTimeoutStream::new(stream, waits.write),
                            stop,
                            answer,
                        )
                        .await;
                    }
                }
            }
        };
        self.socket.take(each).await;
    }
}

/// A listening socket without TLS, for probes and metrics.
pub struct PlainListener(Socket);

impl PlainListener {
    /// Listens until `stop`. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The socket cannot be registered with the runtime.
    pub fn new(listener: StdListener, connections_max: usize, stop: StopSignal) -> io::Result<PlainListener> {
        Socket::new(listener, connections_max, stop).map(PlainListener)
    }

    pub async fn serve<F, B>(self, answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static)
    where
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let each = move |stream, stop| {
            let answer = answer.clone();
            async move { connection(&builder(), stream, stop, answer).await }
        };
        self.0.take(each).await;
    }
}

struct Socket {
    listener: TcpListener,
    connections_max: usize,
    stop: StopSignal,
}

impl Socket {
    fn new(listener: StdListener, connections_max: usize, stop: StopSignal) -> io::Result<Socket> {
        listener.set_nonblocking(true)?;
        Ok(Socket { listener: TcpListener::from_std(listener)?, connections_max, stop })
    }

    /// Spawns `each` for every connection, up to the limit.
    async fn take<W>(mut self, each: impl Fn(TcpStream, StopSignal) -> W)
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let places = Arc::new(Semaphore::new(self.connections_max));
        let mut connections = JoinSet::new();
        while let Some(stream) = self.next().await {
            // Reap finished tasks, or the set would grow with every connection ever served.
            while connections.try_join_next().is_some() {}
            let Ok(place) = places.clone().try_acquire_owned() else {
                tracing::warn!(max = self.connections_max, "connection limit reached, connection closed");
                continue;
            };
            let work = each(stream, self.stop.clone());
            connections.spawn(async move {
                work.await;
                drop(place);
            });
        }
        // Close the socket first: new clients get refused at once, while requests in flight finish.
        drop(self.listener);
        let all = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(STOP_WAIT_MAX, all).await;
    }

    /// Accepts the next connection; `None` on shutdown.
    async fn next(&mut self) -> Option<TcpStream> {
        loop {
            let accepted = tokio::select! {
                () = self.stop.stopped() => return None,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let _ = stream.set_nodelay(true);
                    return Some(stream);
                }
                Err(error) => {
                    // Most likely out of file descriptors: pause until other connections close, instead of spinning.
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }
}

async fn tls_handshake(stream: TcpStream, tls: &TlsAcceptor) -> Option<TlsConnection> {
    match tokio::time::timeout(HANDSHAKE_MAX, tls.accept(stream)).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake timed out"),
    }
    None
}

async fn connection<I, S, F, B>(
    builder: &auto::Builder<TokioExecutor>,
    stream: I,
    mut stop: StopSignal,
    answer: S,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Fn(Request<Incoming>) -> F + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let service = service_fn(move |request| {
        let work = answer(request);
        async move { Ok::<Response<B>, Infallible>(work.await) }
    });
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(serving);
    let result = tokio::select! {
        result = serving.as_mut() => result,
        () = stop.stopped() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "connection failed");
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT_MAX)
        .max_buf_size(HEADER_BYTES_MAX as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEADER_BYTES_MAX)
        .max_concurrent_streams(STREAMS_MAX)
        .keep_alive_interval(PING_EVERY);
    builder
}

/// An HTTP/1 builder with an idle timeout.
fn with_idle_timeout(waits: ConnectionTimeouts) -> auto::Builder<TokioExecutor> {
    let mut builder = builder().http1_only();
    builder.http1().header_read_timeout(waits.request);
    builder
}
