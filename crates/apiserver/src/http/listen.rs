//! Connections: accepted within a bound, wrapped in TLS, served until they end or the server stops.
//!
//! # Invariants
//!
//! - A connection beyond the bound is closed at once, and one that is slow to say hello is given up.
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
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::limits::{HANDSHAKE_MAX, HEADER_BYTES_MAX};
use super::stop::Stop;

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

/// A socket on which connections are taken.
pub struct Listener {
    listener: TcpListener,
    tls: TlsAcceptor,
    connections_max: usize,
    stop: Stop,
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
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        Ok(Listener { listener, tls: TlsAcceptor::from(Arc::new(tls)), connections_max, stop })
    }

    /// Serves the requests of every connection with what `welcome` makes for it.
    pub async fn serve<S, F, B>(mut self, welcome: impl Fn(&Connected) -> S + Clone + Send + 'static)
    where
        S: Fn(Request<Incoming>) -> F + Send + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let places = Arc::new(Semaphore::new(self.connections_max));
        let mut connections = JoinSet::new();
        while let Some(stream) = self.next().await {
            while connections.try_join_next().is_some() {}
            let Ok(place) = places.clone().try_acquire_owned() else {
                tracing::warn!(max = self.connections_max, "too many connections: one was refused");
                continue;
            };
            let work = connection(stream, self.tls.clone(), self.stop.clone(), welcome.clone());
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
                Ok((stream, _)) => return Some(stream),
                Err(error) => {
                    // Out of file descriptors, most likely: those who leave give some back.
                    tracing::warn!(%error, "accepting a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }
}

async fn connection<S, F, B>(
    stream: TcpStream,
    tls: TlsAcceptor,
    mut stop: Stop,
    welcome: impl Fn(&Connected) -> S,
) where
    S: Fn(Request<Incoming>) -> F + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE_MAX, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake"),
        Err(_) => return tracing::debug!("TLS handshake took too long"),
    };
    let answer = welcome(&stream);
    let service = service_fn(move |request| {
        let work = answer(request);
        async move { Ok::<Response<B>, Infallible>(work.await) }
    });
    let builder = builder();
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
