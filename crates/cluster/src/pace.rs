//! A client for watches that a server, or somebody before it, ends again and again without an error: kube asks at once
//! for the next, and this one waits.
//!
//! # Invariants
//!
//! - A watch that lived for [`LIVED_WELL`] is followed by the next without a pause, and so is a first short one.

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

use crate::share::Share;

/// A watch that lived so long was a good one.
const LIVED_WELL: Duration = Duration::from_secs(10);
/// The first pause; it doubles each time.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long a server may take to begin an answer: a connection that died without a word is given up then.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// The same client, for one who follows one kind and takes this much of it.
pub fn paced(client: Client, share: Share) -> Client {
    let namespace = client.default_namespace().to_owned();
    Client::new(Paced { client, share, watches: Arc::default() }, namespace)
}

struct Paced {
    client: Client,
    share: Share,
    watches: Arc<Mutex<Watches>>,
}

/// What is known of the watches so far.
#[derive(Default)]
struct Watches {
    began: Option<Instant>,
    short: u32,
}

impl Watches {
    /// How long the next one has to wait.
    fn wait(&mut self, now: Instant) -> Duration {
        // One that never began is an error, after which the stream pauses by itself.
        let Some(began) = self.began.take() else { return Duration::ZERO };
        self.short = if now.duration_since(began) < LIVED_WELL { self.short + 1 } else { 0 };
        if self.short < 2 { Duration::ZERO } else { doubled(self.short - 2) }
    }
}

impl Service<Request<Body>> for Paced {
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
            return in_time(client, request).boxed();
        }
        let watches = self.watches.clone();
        async move {
            let lock = || watches.lock().unwrap_or_else(PoisonError::into_inner);
            let wait = lock().wait(Instant::now());
            tokio::time::sleep(wait).await;
            let answer = in_time(client, request).await;
            lock().began = answer.as_ref().is_ok_and(|it| it.status().is_success()).then(Instant::now);
            answer
        }
        .boxed()
    }
}

async fn in_time(client: Client, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
    let late = |_| Err(kube::Error::Service(format!("no answer within {ANSWER_MAX:?}").into()));
    tokio::time::timeout(ANSWER_MAX, client.send(request)).await.unwrap_or_else(late)
}

fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|word| word == "watch=true"))
}

fn doubled(times: u32) -> Duration {
    PAUSE_FIRST.saturating_mul(1 << times.min(16)).min(PAUSE_MAX)
}

/// The pauses between tries to list and to watch that fail.
#[derive(Default)]
pub struct Patience(u32);

impl Iterator for Patience {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = doubled(self.0);
        self.0 = self.0.saturating_add(1);
        Some(pause)
    }
}

impl Backoff for Patience {
    fn reset(&mut self) {
        self.0 = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_watches_are_asked_for_ever_more_slowly() {
        let (mut watches, start) = (Watches::default(), Instant::now());
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
            let wait = watches.wait(start + Duration::from_secs(ended));
            assert_eq!(wait, Duration::from_millis(want), "{says}");
        }
    }

    #[test]
    fn patience_has_a_bound_and_begins_anew() {
        let mut patience = Patience::default();
        let pauses: Vec<Duration> = patience.by_ref().take(40).collect();
        assert_eq!((pauses[0], pauses[1], pauses[39]), (PAUSE_FIRST, PAUSE_FIRST * 2, PAUSE_MAX));
        patience.reset();
        assert_eq!(patience.next(), Some(PAUSE_FIRST));
    }
}
