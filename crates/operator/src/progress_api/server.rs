//! The operator's listener for the progress endpoint: its own port, over TLS, on every replica.
//!
//! # Guarantees
//!
//! - Bounded memory and time: connections, bodies and every phase of a request are limited.
//!
//! # Deliberately absent
//!
//! Other routes on this port: anything else is 404.

use std::io;
use std::net::TcpListener;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use muster_apiserver::http::extension_route::{BodyFuture, ExtensionRequest, ExtensionRoute};
use muster_apiserver::http::listen::{ConnectionTimeouts, Listener, ServerConfig, TlsConnection};
use muster_apiserver::http::request_body::read_within;
use muster_apiserver::http::response::{self, HttpResponse, SerializerOptions};
use muster_apiserver::http::shutdown::{self, StopHandle};
use muster_apiserver::status::Status;
use muster_trainer::controller::progress::{BYTES_MAX, ProgressError};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{ProgressApi, not_found};

/// Concurrent connections: pods report now and then, and kept-alive connections are idle most of the time.
const CONNECTIONS_MAX: usize = 1_024;
/// Deadline for receiving a report.
const READ_MAX: Duration = Duration::from_secs(10);
/// Deadline for the reply, and for the client to take it.
const WRITE_MAX: Duration = Duration::from_secs(10);
/// Idle timeout of a connection.
const IDLE_MAX: Duration = Duration::from_secs(120);

pub struct ProgressServer {
    stopper: StopHandle,
    serving: JoinHandle<()>,
}

impl ProgressServer {
    /// Serves on this socket. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// The socket cannot be used.
    pub fn start(
        listener: TcpListener,
        mut tls: ServerConfig,
        reports: &ProgressApi,
    ) -> io::Result<ProgressServer> {
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let (stopper, stop) = shutdown::pair();
        let waits = ConnectionTimeouts { request: IDLE_MAX, write: WRITE_MAX };
        let listener = Listener::new(listener, tls, CONNECTIONS_MAX, stop)?.with_timeouts(waits);
        let reports = reports.clone();
        let serving = tokio::spawn(listener.serve(move |_: &TlsConnection| {
            let reports = reports.clone();
            move |request: Request<Incoming>| {
                let reports = reports.clone();
                async move { serve(&reports, request).await }
            }
        }));
        Ok(ProgressServer { stopper, serving })
    }

    /// Stops accepting, and completes requests in flight.
    pub async fn stop(self) {
        self.stopper.stop();
        let _ = self.serving.await;
    }
}

async fn serve(reports: &ProgressApi, request: Request<Incoming>) -> HttpResponse {
    let (head, body) = request.into_parts();
    if !reports.matches(&head.method, head.uri.path()) {
        return error_reply(&not_found());
    }
    let asked = ExtensionRequest::of(&head, read_body(body));
    match timeout(READ_MAX + WRITE_MAX, ProgressApi::answer(reports, asked)).await {
        Ok((code, tree)) => response::tree(code, &tree, SerializerOptions::PLAIN),
        Err(_) => error_reply(&ProgressError {
            code: 503,
            reason: "ServiceUnavailable",
            message: "the API server takes too long".to_owned(),
        }),
    }
}

fn read_body(body: Incoming) -> BodyFuture {
    Box::pin(async {
        let late = |_| Err(Status::bad_request(format!("the report did not arrive within {READ_MAX:?}")));
        timeout(READ_MAX, read_within(body, BYTES_MAX)).await.unwrap_or_else(late)
    })
}

fn error_reply(why: &ProgressError) -> HttpResponse {
    response::tree(why.code, &why.body(), SerializerOptions::PLAIN)
}
