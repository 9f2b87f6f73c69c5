//! From a request to its answer.
//!
//! # Invariants
//!
//! - Whatever comes in gets an answer in time: a review, or a refusal in plain words with a code that says who is wrong.
//! - Decisions run off the threads of the runtime: they may ask the server, and wait.
//! - A decision keeps its place until it has ended, also when nobody waits for it any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use muster_apiserver::http::body;
use muster_jobset::admission::{Asked, Live, Settings};
use muster_tree::Tree;
use tokio::sync::Semaphore;

use super::hooks::{HOOKS, Hook, TIMEOUT_SECS};
use super::review;

/// Decisions at once; further ones wait their turn.
const REVIEWS_MAX: usize = 32;
/// The largest review: twice the largest object, and what is around them.
const REVIEW_BYTES_MAX: usize = 8 << 20;
/// How long an answer may take: a little less than the server waits for it.
const REVIEW_TIME_MAX: Duration = Duration::from_secs(TIMEOUT_SECS as u64 - 1);

/// An answer on its way out.
pub type Reply = Response<Full<Bytes>>;

/// What all requests share.
pub struct Desk {
    live: Box<dyn Live + Send + Sync>,
    settings: Settings,
    places: Arc<Semaphore>,
    heard: [AtomicBool; HOOKS.len()],
    ready: AtomicBool,
}

impl Desk {
    /// Decides with these settings over what this shows.
    pub fn new(live: Box<dyn Live + Send + Sync>, settings: Settings) -> Desk {
        let places = Arc::new(Semaphore::new(REVIEWS_MAX));
        Desk { live, settings, places, heard: Default::default(), ready: AtomicBool::new(false) }
    }

    /// From now on `/readyz` holds.
    pub fn ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// Whether all hooks of this kind of object have been asked.
    pub fn heard(&self, word: &str) -> bool {
        let mut hooks = HOOKS.iter().zip(&self.heard).filter(|(hook, _)| hook.word == word);
        hooks.all(|(_, heard)| heard.load(Ordering::Acquire))
    }

    /// Answers one request.
    pub async fn serve(self: Arc<Self>, request: Request<Incoming>) -> Reply {
        let path = request.uri().path();
        match (path, HOOKS.iter().position(|hook| hook.path == path)) {
            ("/healthz", _) => text(200, "ok"),
            ("/readyz", _) if self.ready.load(Ordering::Acquire) => text(200, "ok"),
            ("/readyz", _) => text(500, "the webhooks are not registered yet"),
            (path, None) => text(404, format!("nothing is served at {path}")),
            (_, Some(_)) if request.method() != Method::POST => text(405, "reviews are sent with POST"),
            (_, Some(hook)) => {
                let work = self.review(hook, request.into_body());
                let late = |_| text(504, format!("no decision within {REVIEW_TIME_MAX:?}"));
                tokio::time::timeout(REVIEW_TIME_MAX, work).await.unwrap_or_else(late)
            }
        }
    }

    async fn review(self: Arc<Self>, hook: usize, body: Incoming) -> Reply {
        let Ok(place) = self.places.clone().acquire_owned().await else {
            return text(503, "no decisions are made any more");
        };
        let bytes = match body::read_within(body, REVIEW_BYTES_MAX).await {
            Ok(bytes) => bytes,
            Err(status) => return text(status.code, status.message),
        };
        let decided = tokio::task::spawn_blocking(move || {
            let _place = place;
            self.decide(hook, &bytes)
        });
        match decided.await {
            Ok(Ok(review)) => json(&review),
            Ok(Err(wrong)) => text(400, wrong),
            Err(error) => {
                tracing::error!(%error, path = HOOKS[hook].path, "a decision ended by an error of its own");
                text(500, "the decision ended by an error of its own")
            }
        }
    }

    fn decide(&self, hook: usize, bytes: &[u8]) -> Result<Tree, String> {
        let (hook, heard): (&Hook, _) = (&HOOKS[hook], &self.heard[hook]);
        let question = review::read(bytes, hook)?;
        heard.store(true, Ordering::Release);
        let asked = Asked {
            namespace: &question.namespace,
            object: &question.object,
            old: question.old.as_ref(),
            live: self.live.as_ref(),
            settings: &self.settings,
        };
        Ok(review::write(&question, hook, &(hook.decide)(&asked)))
    }
}

fn text(code: u16, words: impl Into<String>) -> Reply {
    reply(code, "text/plain; charset=utf-8", words.into().into())
}

fn json(tree: &Tree) -> Reply {
    reply(200, "application/json", tree.to_json_bytes().into())
}

fn reply(code: u16, media: &'static str, bytes: Bytes) -> Reply {
    let mut reply = Response::new(Full::new(bytes));
    *reply.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    reply
}
