//! Reports as an operator hears them: on a port of their own, over TLS, on every replica.
//!
//! # Invariants
//!
//! - Nothing grows with what pods send: connections are bounded, reports too, and both have a time.
//!
//! # Deliberately absent
//!
//! Anything else at this port: whatever is not a report is not found.

use std::io;
use std::net::TcpListener;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use muster_apiserver::http::answer::{self, Reply, Style};
use muster_apiserver::http::aside::{Aside, Asked, Reading};
use muster_apiserver::http::body::read_within;
use muster_apiserver::http::listen::{Connected, Listener, ServerConfig, Waits};
use muster_apiserver::http::stop::{self, Stopper};
use muster_apiserver::status::Status;
use muster_trainer::life::progress::{BYTES_MAX, Refused};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Reports, nowhere};

/// Connections at once: pods report now and then, and clients that keep theirs are idle most of the time.
const CONNECTIONS_MAX: usize = 1_024;
/// How long a report may take to arrive.
const READ_MAX: Duration = Duration::from_secs(10);
/// How long its answer may take, and to be taken.
const WRITE_MAX: Duration = Duration::from_secs(10);
/// How long a connection may be without a request.
const IDLE_MAX: Duration = Duration::from_secs(120);

/// Reports that are heard, until that is stopped.
pub struct Heard {
    stopper: Stopper,
    serving: JoinHandle<()>,
}

impl Heard {
    /// Hears them on this socket. Wants to be called inside a runtime.
    ///
    /// # Errors
    /// The socket cannot be used.
    pub fn start(listener: TcpListener, mut tls: ServerConfig, reports: &Reports) -> io::Result<Heard> {
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let (stopper, stop) = stop::pair();
        let waits = Waits { request: IDLE_MAX, write: WRITE_MAX };
        let listener = Listener::new(listener, tls, CONNECTIONS_MAX, stop)?.waiting(waits);
        let reports = reports.clone();
        let serving = tokio::spawn(listener.serve(move |_: &Connected| {
            let reports = reports.clone();
            move |request: Request<Incoming>| {
                let reports = reports.clone();
                async move { hear(&reports, request).await }
            }
        }));
        Ok(Heard { stopper, serving })
    }

    /// Answers what was sent and nothing more.
    pub async fn stop(self) {
        self.stopper.stop();
        let _ = self.serving.await;
    }
}

async fn hear(reports: &Reports, request: Request<Incoming>) -> Reply {
    let (head, body) = request.into_parts();
    if !reports.takes(&head.method, head.uri.path()) {
        return refused(&nowhere());
    }
    let asked = Asked::of(&head, reading(body));
    match timeout(READ_MAX + WRITE_MAX, Reports::answer(reports, asked)).await {
        Ok((code, tree)) => answer::tree(code, &tree, Style::PLAIN),
        Err(_) => refused(&Refused {
            code: 503,
            reason: "ServiceUnavailable",
            message: "the API server takes too long".to_owned(),
        }),
    }
}

fn reading(body: Incoming) -> Reading {
    Box::pin(async {
        let late = |_| Err(Status::bad_request(format!("the report did not arrive within {READ_MAX:?}")));
        timeout(READ_MAX, read_within(body, BYTES_MAX)).await.unwrap_or_else(late)
    })
}

fn refused(why: &Refused) -> Reply {
    answer::tree(why.code, &why.body(), Style::PLAIN)
}
