//! The HTTP handler of admission reviews and conversions.
//!
//! # Guarantees
//!
//! - Every request is answered in time: with a review, or with plain text and a status code that names the party at fault.
//! - Decisions run on blocking threads: they read from the API server and wait for it.
//! - A decision occupies its slot until it ends, even if the client has given up; a request gets a slot only after its
//!   whole body has arrived.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Body;
use muster_api::kinds;
use muster_install::conversion;
use muster_install::webhooks::{TIMEOUT_SECS, WEBHOOKS, Webhook};
use muster_tree::Tree;
use tokio::sync::Semaphore;

use super::admission_review;
use super::conversion as converting;
use super::handlers::AdmissionHandlers;
use super::http_limits::{BodyError, BodyLimits, BodyReader};
use super::live_lister::ListerFactory;
use super::metrics::{ReviewOutcome, WebhookMetrics};
use super::self_test;

/// Concurrent decisions, for JobSets and for everything else; further ones queue.
const REVIEWS_MAX: usize = 32;
/// Limits of reviews. One body: twice the largest object and the envelope. All bodies: several of those, and far below the
/// memory limit of our pod, because a parsed tree takes more than its text.
const REVIEW_LIMITS: BodyLimits =
    BodyLimits { body_bytes: 8 << 20, all_bytes: 64 << 20, timeout: Duration::from_secs(3) };
/// Limits of conversions: a list is converted as a whole, and the API server waits longer for it.
const CONVERSION_LIMITS: BodyLimits =
    BodyLimits { body_bytes: 64 << 20, all_bytes: 128 << 20, timeout: Duration::from_secs(10) };
/// Deadline of a reply: a little less than `timeoutSeconds` of the webhook.
const REVIEW_TIME_MAX: Duration = Duration::from_secs(TIMEOUT_SECS as u64 - 1);
/// Deadline of the last read: time has to be left to decide and reply.
const READ_DEADLINE: Duration = Duration::from_secs(TIMEOUT_SECS as u64 - 3);

pub type ReviewReply = Response<Full<Bytes>>;

/// The state that all requests share.
pub struct ReviewServer {
    live: Box<dyn ListerFactory>,
    handlers: AdmissionHandlers,
    reviews: BodyReader,
    conversions: BodyReader,
    /// Slots for reviews of JobSets, and for all others.
    slots: [Arc<Semaphore>; 2],
    called: [AtomicBool; WEBHOOKS.len()],
    ready: AtomicBool,
    metrics: Arc<WebhookMetrics>,
}

impl ReviewServer {
    /// Decides with these handlers over what this lister reads.
    pub fn new(
        live: Box<dyn ListerFactory>,
        deciders: AdmissionHandlers,
        tally: Arc<WebhookMetrics>,
    ) -> ReviewServer {
        let intake = BodyReader::new(REVIEW_LIMITS);
        let places = std::array::from_fn(|_| Arc::new(Semaphore::new(REVIEWS_MAX)));
        ReviewServer {
            live,
            handlers: deciders,
            reviews: intake,
            conversions: BodyReader::new(CONVERSION_LIMITS),
            slots: places,
            called: Default::default(),
            ready: AtomicBool::new(false),
            metrics: tally,
        }
    }

    /// Sets the reply of `/readyz`.
    pub fn set_ready(&self, is: bool) {
        self.ready.store(is, Ordering::Release);
    }

    /// Whether every webhook path of this kind was called.
    pub fn was_called(&self, word: &str) -> bool {
        let mut places =
            WEBHOOKS.iter().filter(|hook| hook.word == word).map(|hook| webhook_index(hook.path));
        places.all(|at| at.is_some_and(|at| self.called[at].load(Ordering::Acquire)))
    }

    pub async fn serve<B>(self: Arc<Self>, request: Request<B>) -> ReviewReply
    where
        B: Body<Data = Bytes>,
        B::Error: Display,
    {
        let path = request.uri().path();
        match (path, webhook_index(path)) {
            ("/healthz", _) => text(200, "ok"),
            (conversion::PATH, _) => self.convert(request.into_body()).await,
            ("/readyz", _) if self.ready.load(Ordering::Acquire) => text(200, "ok"),
            ("/readyz", _) => text(500, "the webhooks are not ready"),
            (path, None) => text(404, format!("nothing is served at {path}")),
            (_, Some(_)) if request.method() != Method::POST => text(405, "reviews are sent with POST"),
            (_, Some(hook)) => {
                let (tally, began) = (self.metrics.clone(), Instant::now());
                let work = self.review(hook, request.into_body());
                let late =
                    |_| (text(504, format!("no decision within {REVIEW_TIME_MAX:?}")), ReviewOutcome::Failed);
                let answer = tokio::time::timeout(REVIEW_TIME_MAX, work).await;
                let (reply, outcome) = answer.unwrap_or_else(late);
                tally.observe(WEBHOOKS[hook].path, outcome, began.elapsed());
                reply
            }
        }
    }

    async fn convert<B>(self: Arc<Self>, body: B) -> ReviewReply
    where
        B: Body<Data = Bytes>,
        B::Error: Display,
    {
        let (tally, began) = (self.metrics.clone(), Instant::now());
        let question = match self.conversions.read(body).await {
            Ok(question) => question,
            Err(BodyError(code, why)) => return text(code, why),
        };
        let [_, places] = &self.slots;
        let Ok(place) = places.clone().acquire_owned().await else {
            return text(503, "the server is stopping");
        };
        let converted = tokio::task::spawn_blocking(move || {
            let _place = place;
            converting::answer(&question.bytes)
        });
        let (reply, outcome) = match converted.await {
            Ok(Ok(review)) => (json(&review), ReviewOutcome::Allowed),
            Ok(Err(wrong)) => (text(400, wrong), ReviewOutcome::Failed),
            Err(error) => {
                tracing::error!(%error, "conversion webhook panicked");
                (text(500, "internal error: the conversion panicked"), ReviewOutcome::Failed)
            }
        };
        tally.observe(conversion::PATH, outcome, began.elapsed());
        reply
    }

    async fn review<B>(self: Arc<Self>, hook: usize, body: B) -> (ReviewReply, ReviewOutcome)
    where
        B: Body<Data = Bytes>,
        B::Error: Display,
    {
        let deadline = Instant::now() + READ_DEADLINE;
        let question = match self.reviews.read(body).await {
            Ok(question) => question,
            Err(BodyError(code, why)) => return (text(code, why), ReviewOutcome::Failed),
        };
        let Ok(place) = self.slots_for(&WEBHOOKS[hook]).clone().acquire_owned().await else {
            return (text(503, "the server is stopping"), ReviewOutcome::Failed);
        };
        let decided = tokio::task::spawn_blocking(move || {
            let (_place, question) = (place, question);
            self.decide(hook, &question.bytes, deadline)
        });
        match decided.await {
            Ok(Ok(review)) => {
                let allowed = review.bool_at(&["response", "allowed"]) == Some(true);
                (json(&review), if allowed { ReviewOutcome::Allowed } else { ReviewOutcome::Refused })
            }
            Ok(Err(wrong)) => (text(400, wrong), ReviewOutcome::Failed),
            Err(error) => {
                tracing::error!(%error, path = WEBHOOKS[hook].path, "webhook handler panicked");
                (text(500, "internal error: the webhook handler panicked"), ReviewOutcome::Failed)
            }
        }
    }

    /// JobSet reviews have slots of their own: they wait for dry runs of Jobs, which this server reviews, too. In one pool they
    /// could deadlock.
    fn slots_for(&self, hook: &Webhook) -> &Arc<Semaphore> {
        let [jobsets, others] = &self.slots;
        if *hook.kind == kinds::JOBSETS { jobsets } else { others }
    }

    fn decide(&self, hook: usize, bytes: &[u8], deadline: Instant) -> Result<Tree, String> {
        let (hook, heard) = (&WEBHOOKS[hook], &self.called[hook]);
        let question = admission_review::decode(bytes, hook)?;
        heard.store(true, Ordering::Release);
        if let Some(answer) = self_test::respond(&question, hook.say) {
            return Ok(admission_review::encode(&question, hook, &answer));
        }
        let look = self.live.lister(deadline);
        Ok(admission_review::encode(&question, hook, &self.handlers.handle(hook, &question, look.as_ref())))
    }
}

/// The first webhook of this path: the request has the same form for all of them.
fn webhook_index(path: &str) -> Option<usize> {
    WEBHOOKS.iter().position(|hook| hook.path == path)
}

fn text(code: u16, words: impl Into<String>) -> ReviewReply {
    reply(code, "text/plain; charset=utf-8", words.into().into())
}

fn json(tree: &Tree) -> ReviewReply {
    reply(200, "application/json", tree.to_json_bytes().into())
}

fn reply(code: u16, media: &'static str, bytes: Bytes) -> ReviewReply {
    let mut reply = Response::new(Full::new(bytes));
    *reply.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    reply
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http_body_util::{BodyExt, StreamBody};
    use hyper::body::Frame;
    use muster_api::client::Kind;
    use muster_jobset::admission::{AdmissionSettings, DryRun, LiveLister};
    use muster_tree::tree;

    use super::super::live_lister::AdmissionLister;
    use super::*;

    /// A cluster whose reads fail.
    struct Dark;

    impl ListerFactory for Dark {
        fn lister(&self, _: Instant) -> Box<dyn AdmissionLister + '_> {
            Box::new(Dark)
        }
    }

    impl AdmissionLister for Dark {
        fn one(&self, _: &Kind, _: &str, _: &str) -> Result<Option<Tree>, String> {
            Err("dark".to_owned())
        }

        fn is_controller_of(&self, _: &Tree, _: &str, _: (&str, &str)) -> Result<bool, String> {
            Err("dark".to_owned())
        }

        fn gangs(&self) -> Result<Option<muster_api::gang::GangSupport>, String> {
            Err("dark".to_owned())
        }

        fn for_jobsets(&self) -> &dyn LiveLister {
            self
        }

        fn for_training(&self) -> &dyn muster_trainer::kinds::admission::TrainingLister {
            unreachable!("no TrainJob is reviewed")
        }
    }

    impl LiveLister for Dark {
        fn volume_claim(&self, _: &str, _: &str) -> Result<Option<Tree>, String> {
            Err("dark".to_owned())
        }

        fn device_claims(&self, _: &str, _: &str) -> Result<Vec<Tree>, String> {
            Err("dark".to_owned())
        }

        fn node(&self, _: &str) -> Result<Option<Tree>, String> {
            Err("dark".to_owned())
        }

        fn first_pods(&self, _: &str, _: &str, _: &str) -> Result<Vec<Tree>, String> {
            Err("dark".to_owned())
        }

        fn dry_run(&self, _: &Kind, _: &Tree) -> DryRun {
            DryRun::Unknown("dark".to_owned())
        }
    }

    fn request<B>(body: B) -> Request<B> {
        Request::post(WEBHOOKS[0].path).body(body).unwrap()
    }

    fn question() -> Full<Bytes> {
        let request = tree!({"uid": "u", "namespace": "n", "object": {"metadata": {"name": "a"}, "spec": {}},
            "resource": {"group": "jobset.x-k8s.io", "version": "v1alpha2", "resource": "jobsets"}});
        let review =
            tree!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        Full::new(review.to_json_bytes().into())
    }

    #[tokio::test]
    async fn slow_clients_do_not_delay_other_reviews() {
        let deciders =
            AdmissionHandlers { jobsets: Some(AdmissionSettings::default()), ..AdmissionHandlers::default() };
        let desk = Arc::new(ReviewServer::new(Box::new(Dark), deciders, Arc::default()));
        let mut slow = tokio::task::JoinSet::new();
        for _ in 0..10 * REVIEWS_MAX {
            let body = StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>());
            slow.spawn(desk.clone().serve(request(body)));
        }
        tokio::task::yield_now().await;
        let reply = desk.clone().serve(request(question())).await;
        assert_eq!(reply.status(), 200);
        let told = Tree::parse(&reply.into_body().collect().await.unwrap().to_bytes()).unwrap();
        assert_eq!(told.bool_at(&["response", "allowed"]), Some(true));
        assert!(slow.try_join_next().is_none(), "the slow ones still send");
    }
}
