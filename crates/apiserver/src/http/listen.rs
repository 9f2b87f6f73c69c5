//! Connections: accepted within a bound, wrapped in TLS or plain, served until they end or the server stops.
//!
//! # Invariants
//!
//! - A connection beyond the bound is closed at once, and one that is slow to say hello is given up.
//! - Where that is asked for ([`Listener::waiting`]), one that sends nothing or takes nothing is given up, too.
//! - After the stop requests under way may finish for a moment; nothing new is taken.

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

/// The TLS side of a server.
pub use rustls::ServerConfig;

use super::limits::{HANDSHAKE_MAX, HEADER_BYTES_MAX};
use super::stop::Stop;
use super::timely::Timely;

/// How long requests under way may take to finish when the server stops.
const STOP_WAIT_MAX: Duration = Duration::from_secs(2);
/// How long a client may take to send the head of a request.
const HEAD_WAIT_MAX: Duration = Duration::from_secs(30);
/// How often an idle HTTP/2 connection is asked whether it is still there.
const PING_EVERY: Duration = Duration::from_secs(30);
/// Requests at once on one HTTP/2 connection.
const STREAMS_MAX: u32 = 1_000;

/// A connection after its handshake.
pub type Connected = TlsStream<TcpStream>;

/// The certificates that a client has shown (DER: his own, then those between); none, when he has not.
#[must_use]
pub fn shown(by: &Connected) -> Vec<Vec<u8>> {
    let all = by.get_ref().1.peer_certificates().unwrap_or_default();
    all.iter().map(|der| der.to_vec()).collect()
}

/// How long a connection may keep a server waiting.
#[derive(Debug, Clone, Copy)]
pub struct Waits {
    /// For its next request: until then it is idle, or dawdles with the head.
    pub request: Duration,
    /// For taking what it is sent.
    pub write: Duration,
}

/// A socket on which connections are taken.
pub struct Listener {
    socket: Socket,
    tls: TlsAcceptor,
    waits: Option<Waits>,
}

impl Listener {
    /// Takes connections on this socket until `stop`. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The socket cannot be used.
    pub fn new(
        listener: StdListener,
        tls: rustls::ServerConfig,
        connections_max: usize,
        stop: Stop,
    ) -> io::Result<Listener> {
        let socket = Socket::new(listener, connections_max, stop)?;
        Ok(Listener { socket, tls: TlsAcceptor::from(Arc::new(tls)), waits: None })
    }

    /// The same, which waits no longer than this for anybody. HTTP/1 alone is spoken then: over HTTP/2 a client that does
    /// nothing but answer pings would stay for ever.
    #[must_use]
    pub fn waiting(self, waits: Waits) -> Listener {
        Listener { waits: Some(waits), ..self }
    }

    /// Serves the requests of every connection with what `welcome` makes for it.
    pub async fn serve<S, F, B>(self, welcome: impl Fn(&Connected) -> S + Clone + Send + 'static)
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
                let Some(stream) = shake_hands(stream, &tls).await else { return };
                let answer = welcome(&stream);
                match waits {
                    None => connection(&builder(), stream, stop, answer).await,
                    Some(waits) => {
                        connection(&brief(waits), Timely::new(stream, waits.write), stop, answer).await;
                    }
                }
            }
        };
        self.socket.take(each).await;
    }
}

/// A socket on which connections without TLS are taken: probes and metrics.
pub struct PlainListener(Socket);

impl PlainListener {
    /// Takes connections on this socket until `stop`. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The socket cannot be used.
    pub fn new(listener: StdListener, connections_max: usize, stop: Stop) -> io::Result<PlainListener> {
        Socket::new(listener, connections_max, stop).map(PlainListener)
    }

    /// Serves all requests with `answer`.
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
    stop: Stop,
}

impl Socket {
    fn new(listener: StdListener, connections_max: usize, stop: Stop) -> io::Result<Socket> {
        listener.set_nonblocking(true)?;
        Ok(Socket { listener: TcpListener::from_std(listener)?, connections_max, stop })
    }

    /// Does `each` with every connection, so many at once.
    async fn take<W>(mut self, each: impl Fn(TcpStream, Stop) -> W)
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let places = Arc::new(Semaphore::new(self.connections_max));
        let mut connections = JoinSet::new();
        while let Some(stream) = self.next().await {
            while connections.try_join_next().is_some() {}
            let Ok(place) = places.clone().try_acquire_owned() else {
                tracing::warn!(max = self.connections_max, "too many connections: one was refused");
                continue;
            };
            let work = each(stream, self.stop.clone());
            connections.spawn(async move {
                work.await;
                drop(place);
            });
        }
        drop(self.listener);
        let all = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(STOP_WAIT_MAX, all).await;
    }

    /// The next connection; `None` when the server stops.
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
                    // Out of file descriptors, most likely: those who leave give some back.
                    tracing::warn!(%error, "accepting a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }
}

async fn shake_hands(stream: TcpStream, tls: &TlsAcceptor) -> Option<Connected> {
    match tokio::time::timeout(HANDSHAKE_MAX, tls.accept(stream)).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake"),
        Err(_) => tracing::debug!("TLS handshake took too long"),
    }
    None
}

async fn connection<I, S, F, B>(builder: &auto::Builder<TokioExecutor>, stream: I, mut stop: Stop, answer: S)
where
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
        tracing::debug!(%error, "connection");
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

/// One whose connections end when nothing comes.
fn brief(waits: Waits) -> auto::Builder<TokioExecutor> {
    let mut builder = builder().http1_only();
    builder.http1().header_read_timeout(waits.request);
    builder
}
