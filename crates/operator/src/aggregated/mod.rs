//! Queues as a cluster is asked about them: the API server hands on what it is asked ([`crate::visibility`] answers).
//!
//! # Invariants
//!
//! - Nobody but the API server is heard: whoever asks shows the certificate that it publishes for that, and only then
//!   count the names it puts into headers. So there are no tokens to review.
//! - Whoever is named there gets an answer only if the API server says that he may.
//! - Of several operators the one in charge answers; the others say 503 and when to ask again.

mod front;
mod may;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use muster_api::kinds;
use muster_api::ports::Clock;
use muster_apiserver::http::answer::{self, Reply, Style};
use muster_apiserver::http::context::Request as Head;
use muster_apiserver::http::handed::{Handed, Wish};
use muster_apiserver::http::limits::Bounds;
use muster_apiserver::http::query::Query;
use muster_apiserver::request::User;
use muster_apiserver::status::Status;
use muster_cluster::KubeApi;
use muster_control::queueing::desk::Desk;
use muster_install::aggregated::{PUBLISHED, PUBLISHED_IN};

use self::front::FrontProxy;
use self::may::May;
use crate::certificates::Followed;
use crate::ports::SystemClock;
use crate::visibility::Visibility;

/// Questions at once: an API server passes them on one by one.
const READS_MAX: usize = 64;
const TRIALS_MAX: usize = 16;
/// How long one may take.
const DEADLINE: Duration = Duration::from_secs(20);

/// Answers what the API server hands on.
pub struct Aggregated {
    handed: Handed,
    front: RwLock<Option<FrontProxy>>,
    may: May,
    clock: Arc<dyn Clock>,
}

impl Aggregated {
    /// At this desk; who may ask is for the server of this connection to say.
    pub fn new(api: &KubeApi, desk: &Desk) -> Aggregated {
        let (clock, may): (Arc<dyn Clock>, _) = (Arc::new(SystemClock), May::new(api));
        let visibility = Visibility::new(desk.clone(), Arc::new(may.clone()), clock.clone());
        let bounds = Bounds { reads: READS_MAX, writes: TRIALS_MAX, deadline: DEADLINE, ..Bounds::default() };
        let handed = Handed::new(Arc::new(visibility), bounds, clock.clone());
        Aggregated { handed, front: RwLock::default(), may, clock }
    }

    /// Whether this path is for us.
    pub fn serves(path: &str) -> bool {
        path == "/apis" || path.starts_with("/apis/")
    }

    /// Answers one request over a connection on which these certificates were shown.
    pub async fn serve(&self, shown: &[Vec<u8>], request: Request<Incoming>) -> Reply {
        let (parts, body) = request.into_parts();
        let Some(user) = self.user(shown, &parts.headers) else {
            return answer::status(&Status::unauthorized(), Style::PLAIN);
        };
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let head = Head { method: parts.method, query, headers: parts.headers, user };
        let answered = self.answer(&head, parts.uri.path(), body).await;
        answered.unwrap_or_else(|status| answer::status(&status, head.plain_style()))
    }

    async fn answer(&self, head: &Head, path: &str, body: Incoming) -> Result<Reply, Status> {
        let asked = match self.handed.wish(head, path)? {
            Wish::Document(reply) => return Ok(reply),
            Wish::Answer(asked) => asked,
        };
        self.may.check(&head.user, &asked.target, asked.verb.word()).await?;
        self.handed.answer(head, asked, body).await
    }

    fn user(&self, shown: &[Vec<u8>], headers: &http::HeaderMap) -> Option<User> {
        let front = self.front.read().unwrap_or_else(PoisonError::into_inner);
        front.as_ref()?.user(shown, headers, self.clock.now())
    }

    /// Follows whom the API server asks as, for ever.
    pub async fn follow(&self, api: &KubeApi) {
        let mut published = Followed::start(api, &kinds::CONFIG_MAPS, PUBLISHED_IN, PUBLISHED);
        let mut told = None;
        loop {
            published.hear().await;
            let front = FrontProxy::of(published.tree());
            if let Err(why) = &front
                && told.as_ref() != Some(why)
            {
                tracing::warn!("nobody can ask about queues through the API server: {why}");
            }
            told = front.as_ref().err().cloned();
            *self.front.write().unwrap_or_else(PoisonError::into_inner) = front.ok();
        }
    }
}
