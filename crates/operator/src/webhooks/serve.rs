//! From a request to its answer.
//!
//! # Invariants
//!
//! - Whatever comes in gets an answer in time: a review, or a refusal in plain words with a code that says who is wrong.
//! - Decisions run off the threads of the runtime: they may ask the server, and wait.
//! - A decision keeps its place until it has ended, also when nobody waits for it any more; nobody has one before
//!   his question has arrived as a whole.

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
use muster_install::hooks::{HOOKS, Hook, TIMEOUT_SECS};
use muster_tree::Tree;
use tokio::sync::Semaphore;

use super::conversion as converting;
use super::hooks::Deciders;
use super::intake::{Bounds, Intake, Untaken};
use super::live::Source;
use super::rehearsal;
use super::review;
use super::tally::{Outcome, Tally};

/// Decisions at once, about JobSets and about all else; further ones wait their turn.
const REVIEWS_MAX: usize = 32;
/// The largest review: twice the largest object, and what is around them. All together: several of those, and far less
/// than a pod of ours may have, as a tree takes more than its text. And it has to come quickly.
const BOUNDS: Bounds = Bounds { body_bytes: 8 << 20, all_bytes: 64 << 20, time: Duration::from_secs(3) };
/// A list is converted as a whole, and a server waits longer for that.
const LIST_BOUNDS: Bounds =
    Bounds { body_bytes: 64 << 20, all_bytes: 128 << 20, time: Duration::from_secs(10) };
/// How long an answer may take: a little less than the server waits for it.
const REVIEW_TIME_MAX: Duration = Duration::from_secs(TIMEOUT_SECS as u64 - 1);
/// When a review stops to look at other objects: there has to be time left to decide and to answer.
const LOOK_TIME_MAX: Duration = Duration::from_secs(TIMEOUT_SECS as u64 - 3);

/// An answer on its way out.
pub type Reply = Response<Full<Bytes>>;

/// What all requests share.
pub struct Desk {
    live: Box<dyn Source>,
    deciders: Deciders,
    intake: Intake,
    lists: Intake,
    /// For reviews of JobSets, and for all others.
    places: [Arc<Semaphore>; 2],
    heard: [AtomicBool; HOOKS.len()],
    ready: AtomicBool,
    tally: Arc<Tally>,
}

impl Desk {
    /// Has these decide over what this shows.
    pub fn new(live: Box<dyn Source>, deciders: Deciders, tally: Arc<Tally>) -> Desk {
        let intake = Intake::new(BOUNDS);
        let places = std::array::from_fn(|_| Arc::new(Semaphore::new(REVIEWS_MAX)));
        Desk {
            live,
            deciders,
            intake,
            lists: Intake::new(LIST_BOUNDS),
            places,
            heard: Default::default(),
            ready: AtomicBool::new(false),
            tally,
        }
    }

    /// From now on `/readyz` holds, or does not.
    pub fn ready(&self, is: bool) {
        self.ready.store(is, Ordering::Release);
    }

    /// Whether something was asked at all paths of this kind of object.
    pub fn heard(&self, word: &str) -> bool {
        let mut places = HOOKS.iter().filter(|hook| hook.word == word).map(|hook| place(hook.path));
        places.all(|at| at.is_some_and(|at| self.heard[at].load(Ordering::Acquire)))
    }

    /// Answers one request.
    pub async fn serve<B>(self: Arc<Self>, request: Request<B>) -> Reply
    where
        B: Body<Data = Bytes>,
        B::Error: Display,
    {
        let path = request.uri().path();
        match (path, place(path)) {
            ("/healthz", _) => text(200, "ok"),
            (conversion::PATH, _) => self.convert(request.into_body()).await,
            ("/readyz", _) if self.ready.load(Ordering::Acquire) => text(200, "ok"),
            ("/readyz", _) => text(500, "the webhooks cannot be asked yet"),
            (path, None) => text(404, format!("nothing is served at {path}")),
            (_, Some(_)) if request.method() != Method::POST => text(405, "reviews are sent with POST"),
            (_, Some(hook)) => {
                let (tally, began) = (self.tally.clone(), Instant::now());
                let work = self.review(hook, request.into_body());
                let late =
                    |_| (text(504, format!("no decision within {REVIEW_TIME_MAX:?}")), Outcome::Failed);
                let answer = tokio::time::timeout(REVIEW_TIME_MAX, work).await;
                let (reply, outcome) = answer.unwrap_or_else(late);
                tally.answered(HOOKS[hook].path, outcome, began.elapsed());
                reply
            }
        }
    }

    async fn convert<B>(self: Arc<Self>, body: B) -> Reply
    where
        B: Body<Data = Bytes>,
        B::Error: Display,
    {
        let (tally, began) = (self.tally.clone(), Instant::now());
        let question = match self.lists.take(body).await {
            Ok(question) => question,
            Err(Untaken(code, why)) => return text(code, why),
        };
        let [_, places] = &self.places;
        let Ok(place) = places.clone().acquire_owned().await else {
            return text(503, "nothing is converted any more");
        };
        let converted = tokio::task::spawn_blocking(move || {
            let _place = place;
            converting::answer(&question.bytes)
        });
        let (reply, outcome) = match converted.await {
            Ok(Ok(review)) => (json(&review), Outcome::Allowed),
            Ok(Err(wrong)) => (text(400, wrong), Outcome::Failed),
            Err(error) => {
                tracing::error!(%error, "a conversion ended by an error of its own");
                (text(500, "the conversion ended by an error of its own"), Outcome::Failed)
            }
        };
        tally.answered(conversion::PATH, outcome, began.elapsed());
        reply
    }

    async fn review<B>(self: Arc<Self>, hook: usize, body: B) -> (Reply, Outcome)
    where
        B: Body<Data = Bytes>,
        B::Error: Display,
    {
        let deadline = Instant::now() + LOOK_TIME_MAX;
        let question = match self.intake.take(body).await {
            Ok(question) => question,
            Err(Untaken(code, why)) => return (text(code, why), Outcome::Failed),
        };
        let Ok(place) = self.places(&HOOKS[hook]).clone().acquire_owned().await else {
            return (text(503, "no decisions are made any more"), Outcome::Failed);
        };
        let decided = tokio::task::spawn_blocking(move || {
            let (_place, question) = (place, question);
            self.decide(hook, &question.bytes, deadline)
        });
        match decided.await {
            Ok(Ok(review)) => {
                let allowed = review.bool_at(&["response", "allowed"]) == Some(true);
                (json(&review), if allowed { Outcome::Allowed } else { Outcome::Refused })
            }
            Ok(Err(wrong)) => (text(400, wrong), Outcome::Failed),
            Err(error) => {
                tracing::error!(%error, path = HOOKS[hook].path, "a decision ended by an error of its own");
                (text(500, "the decision ended by an error of its own"), Outcome::Failed)
            }
        }
    }

    /// Reviews of JobSets have places of their own: they wait for dry runs of Jobs, which are reviewed here, too.
    fn places(&self, hook: &Hook) -> &Arc<Semaphore> {
        let [jobsets, others] = &self.places;
        if *hook.kind == kinds::JOBSETS { jobsets } else { others }
    }

    fn decide(&self, hook: usize, bytes: &[u8], deadline: Instant) -> Result<Tree, String> {
        let (hook, heard) = (&HOOKS[hook], &self.heard[hook]);
        let question = review::read(bytes, hook)?;
        heard.store(true, Ordering::Release);
        if let Some(answer) = rehearsal::answer(&question, hook.say) {
            return Ok(review::write(&question, hook, &answer));
        }
        let look = self.live.until(deadline);
        Ok(review::write(&question, hook, &self.deciders.decide(hook, &question, look.as_ref())))
    }
}

/// The first hook that is asked at this path: what is asked is the same for all of them.
fn place(path: &str) -> Option<usize> {
    HOOKS.iter().position(|hook| hook.path == path)
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http_body_util::{BodyExt, StreamBody};
    use hyper::body::Frame;
    use muster_api::port::Kind;
    use muster_jobset::admission::{DryRun, Live, Settings};
    use muster_tree::tree;

    use super::super::live::Look;
    use super::*;

    /// A cluster that nobody can look at.
    struct Dark;

    impl Source for Dark {
        fn until(&self, _: Instant) -> Box<dyn Look + '_> {
            Box::new(Dark)
        }
    }

    impl Look for Dark {
        fn one(&self, _: &Kind, _: &str, _: &str) -> Result<Option<Tree>, String> {
            Err("dark".to_owned())
        }

        fn decides_about(&self, _: &Tree, _: &str, _: (&str, &str)) -> Result<bool, String> {
            Err("dark".to_owned())
        }

        fn gangs(&self) -> Result<Option<muster_api::gang::Gangs>, String> {
            Err("dark".to_owned())
        }

        fn for_jobsets(&self) -> &dyn Live {
            self
        }

        fn for_training(&self) -> &dyn muster_trainer::kinds::admission::Live {
            unreachable!("nobody asks about TrainJobs")
        }
    }

    impl Live for Dark {
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
        Request::post(HOOKS[0].path).body(body).unwrap()
    }

    fn question() -> Full<Bytes> {
        let request = tree!({"uid": "u", "namespace": "n", "object": {"metadata": {"name": "a"}, "spec": {}},
            "resource": {"group": "jobset.x-k8s.io", "version": "v1alpha2", "resource": "jobsets"}});
        let review =
            tree!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        Full::new(review.to_json_bytes().into())
    }

    #[tokio::test]
    async fn who_sends_slowly_holds_up_nobody() {
        let deciders = Deciders { jobsets: Some(Settings::default()), ..Deciders::default() };
        let desk = Arc::new(Desk::new(Box::new(Dark), deciders, Arc::default()));
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
