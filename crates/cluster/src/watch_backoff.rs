//! Backoff for watches that a server, or a proxy before it, ends again and again without an error: kube's watcher restarts them
//! at once, and this client delays the restart.
//!
//! # Guarantees
//!
//! - After a watch of at least [`HEALTHY_WATCH_MIN`] the next one starts without a delay, and so it does after a first short one.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::ACCEPT;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use kube::runtime::utils::Backoff;
use tokio::time::Instant;
use tower_service::Service;

use crate::projection::Projection;

/// A watch of this duration resets the backoff.
const HEALTHY_WATCH_MIN: Duration = Duration::from_secs(10);
/// The first backoff; it doubles each time.
const BACKOFF_BASE: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// The timeout of response headers: detects a connection that died without a reset.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// This client with watch backoff, for the watch of one kind with this projection.
pub fn with_watch_backoff(client: Client, share: Projection) -> Client {
    let namespace = client.default_namespace().to_owned();
    Client::new(WatchBackoffService { client, share, watches: Arc::default() }, namespace)
}

struct WatchBackoffService {
    client: Client,
    share: Projection,
    watches: Arc<Mutex<WatchHistory>>,
}

/// The watches so far.
#[derive(Default)]
struct WatchHistory {
    began: Option<Instant>,
    short: u32,
}

impl WatchHistory {
    /// The delay of the next watch.
    fn next_delay(&mut self, now: Instant) -> Duration {
        // A watch that failed to start is an error, for which kube's watcher has a backoff of its own.
        let Some(began) = self.began.take() else { return Duration::ZERO };
        self.short = if now.duration_since(began) < HEALTHY_WATCH_MIN { self.short + 1 } else { 0 };
        if self.short < 2 { Duration::ZERO } else { backoff(self.short - 2) }
    }
}

impl Service<Request<Body>> for WatchBackoffService {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, kube::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let client = self.client.clone();
        let is_watch = is_watch(&request);
        if let Some(accept) = self.share.accept(is_watch) {
            request.headers_mut().insert(ACCEPT, accept);
        }
        if !is_watch {
            return send_with_timeout(client, request).boxed();
        }
        let watches = self.watches.clone();
        async move {
            let lock = || watches.lock().unwrap_or_else(PoisonError::into_inner);
            let wait = lock().next_delay(Instant::now());
            tokio::time::sleep(wait).await;
            let answer = send_with_timeout(client, request).await;
            lock().began = answer.as_ref().is_ok_and(|it| it.status().is_success()).then(Instant::now);
            answer
        }
        .boxed()
    }
}

async fn send_with_timeout(client: Client, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
    let late = |_| Err(kube::Error::Service(format!("no answer within {RESPONSE_TIMEOUT:?}").into()));
    tokio::time::timeout(RESPONSE_TIMEOUT, client.send(request)).await.unwrap_or_else(late)
}

fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|word| word == "watch=true"))
}

fn backoff(times: u32) -> Duration {
    BACKOFF_BASE.saturating_mul(1 << times.min(16)).min(BACKOFF_MAX)
}

/// The backoff between failed attempts to list or watch.
#[derive(Default)]
pub struct RetryBackoff(u32);

impl Iterator for RetryBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = backoff(self.0);
        self.0 = self.0.saturating_add(1);
        Some(pause)
    }
}

impl Backoff for RetryBackoff {
    fn reset(&mut self) {
        self.0 = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_watches_are_asked_for_ever_more_slowly() {
        let (mut watches, start) = (WatchHistory::default(), Instant::now());
        for (says, began, ended, want) in [
            ("the first", None, 0, 0),
            ("after a first short one", Some(0), 1, 0),
            ("after the next", Some(1), 2, 500),
            ("and the next", Some(3), 4, 1000),
            ("after one that failed to begin", None, 5, 0),
            ("short ones go on", Some(6), 7, 2000),
            ("after a long one", Some(10), 20, 0),
            ("short again", Some(20), 21, 0),
            ("and again", Some(21), 22, 500),
        ] {
            watches.began = began.map(|at| start + Duration::from_secs(at));
            let wait = watches.next_delay(start + Duration::from_secs(ended));
            assert_eq!(wait, Duration::from_millis(want), "{says}");
        }
    }

    #[test]
    fn patience_has_a_bound_and_begins_anew() {
        let mut patience = RetryBackoff::default();
        let pauses: Vec<Duration> = patience.by_ref().take(40).collect();
        assert_eq!((pauses[0], pauses[1], pauses[39]), (BACKOFF_BASE, BACKOFF_BASE * 2, BACKOFF_MAX));
        patience.reset();
        assert_eq!(patience.next(), Some(BACKOFF_BASE));
    }
}
