//! Queues as they are asked about: who waits in which order (`visibility.kueue.x-k8s.io`), and why somebody waits or
//! what would become of a manifest (`visibility.muster.dev`).
//!
//! # Invariants
//!
//! - The loop is asked for one thing that is short or shared; slices and words are made here.
//! - Whoever may not see a namespace learns nothing of what is in it.

use std::collections::BTreeSet;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

use muster_api::ports::Clock;
use muster_api::queue::words::{EXPLANATION, EXPLANATION_GROUP, EXPLANATION_VERSION, VISIBILITY_GROUP};
use muster_apiserver::http::query::Query;
use muster_apiserver::http::told::{Offered, Question, Teller, Telling};
use muster_apiserver::registry::Resource;
use muster_apiserver::request::{Target, User};
use muster_apiserver::status::{Named, Status};
use muster_control::queueing::desk::{Answer, Closed, Desk, OWNERS_MAX, Question as Asked};
use muster_queue::engine::report::Waiting;
use muster_queue::life::pending::{self, Pending};
use muster_tree::{Text, Tree, tree};
use tokio::sync::oneshot;

/// How many are told unless somebody asks for more, and at most.
const LIMIT: usize = 1_000;
const LIMIT_MAX: usize = 100_000;
const CLUSTER_QUEUES: &str = "clusterqueues";
const LOCAL_QUEUES: &str = "localqueues";
const SUMMARY: &str = "PendingWorkloadsSummary";
const VERSIONS: &[&str] = &["v1beta2", "v1beta1"];
const PARTS: &[(&str, &str)] = &[("pendingworkloads", SUMMARY)];
const WAITING: &[(&str, &str, &str)] = &[
    ("Namespace", "string", ".metadata.namespace"),
    ("Local Queue", "string", ".localQueueName"),
    ("Position In Local Queue", "integer", ".positionInLocalQueue"),
    ("Position In Cluster Queue", "integer", ".positionInClusterQueue"),
    ("Priority", "integer", ".priority"),
];
const EXPLAINED: &[(&str, &str, &str)] = &[
    ("State", "string", ".state"),
    ("Reason", "string", ".reason"),
    ("Local Queue", "string", ".localQueue"),
    ("Message", "string", ".message"),
];

const OFFERED: [Offered; 3] = [
    Offered {
        group: VISIBILITY_GROUP,
        versions: VERSIONS,
        plural: CLUSTER_QUEUES,
        kind: "ClusterQueue",
        namespaced: false,
        verbs: &[],
        parts: PARTS,
        columns: WAITING,
    },
    Offered {
        group: VISIBILITY_GROUP,
        versions: VERSIONS,
        plural: LOCAL_QUEUES,
        kind: "LocalQueue",
        namespaced: true,
        verbs: &[],
        parts: PARTS,
        columns: WAITING,
    },
    Offered {
        group: EXPLANATION_GROUP,
        versions: &[EXPLANATION_VERSION],
        plural: "explanations",
        kind: EXPLANATION,
        namespaced: true,
        verbs: &["create", "get"],
        parts: &[],
        columns: EXPLAINED,
    },
];

/// Namespaces, to come.
pub type Seeing = Pin<Box<dyn Future<Output = Result<BTreeSet<Text>, Status>> + Send>>;

/// Knows who may look where.
pub trait Sight: Send + Sync {
    /// Those of these namespaces whose Workloads somebody may see.
    fn of(&self, user: User, namespaces: BTreeSet<Text>) -> Seeing;
}

/// Everybody who is known may see everything: so it is on the embedded plane.
pub struct Everything;

impl Sight for Everything {
    fn of(&self, _: User, namespaces: BTreeSet<Text>) -> Seeing {
        Box::pin(ready(Ok(namespaces)))
    }
}

/// Answers for both groups.
pub struct Visibility {
    desk: Desk,
    sight: Arc<dyn Sight>,
    clock: Arc<dyn Clock>,
    resources: Vec<Arc<Resource>>,
}

impl Visibility {
    /// At this desk, to whoever sees that much.
    pub fn new(desk: Desk, sight: Arc<dyn Sight>, clock: Arc<dyn Clock>) -> Visibility {
        Visibility { desk, sight, clock, resources: OFFERED.iter().map(Offered::resource).collect() }
    }
}

impl Teller for Visibility {
    fn resources(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    fn answer(&self, question: Question) -> Telling {
        let (desk, sight, now) = (self.desk.clone(), self.sight.clone(), self.clock.now());
        Box::pin(async move {
            let Question { target, query, body, user } = question;
            let (asked, window) = (asked(&target, body)?, Window::of(&query)?);
            match ask(&desk, asked).await? {
                Answer::Waiting(all) => told_in_order(&desk, &target, &all, window).await,
                Answer::Why(pending) => {
                    let seen = seen(sight.as_ref(), user, &pending).await?;
                    Ok(explanation(&target, &pending, &seen, now))
                }
                Answer::NotFound | Answer::Owners(_) => Err(missing(&target)),
                Answer::Wrong(words) => Err(Status::new(422, "Invalid", words)),
            }
        })
    }
}

async fn ask(desk: &Desk, question: Asked) -> Result<Answer, Status> {
    let (tell, told) = oneshot::channel();
    let reply = Box::new(move |answer| {
        // Whoever has gone meanwhile needs no answer.
        let _ = tell.send(answer);
    });
    desk.ask(question, reply).map_err(closed)?;
    told.await.map_err(|_| closed(Closed::Nobody))
}

async fn told_in_order(
    desk: &Desk,
    target: &Target,
    all: &[Waiting],
    window: Window,
) -> Result<Tree, Status> {
    let told = window.cut(target, all);
    let mut owners = Vec::with_capacity(told.len());
    for some in told.chunks(OWNERS_MAX) {
        match ask(desk, Asked::Owners(some.iter().map(|it| it.key.clone()).collect())).await? {
            Answer::Owners(more) => owners.extend(more),
            _ => return Err(missing(target)),
        }
    }
    Ok(summary(target, &told, &owners))
}

/// The namespaces of an explanation that somebody may know of: whoever may have it explained sees its own.
async fn seen(sight: &dyn Sight, user: User, of: &Pending) -> Result<BTreeSet<Text>, Status> {
    let holders = of.holders.iter().map(|it| &it.workload.0);
    let named = holders.chain(of.departs.iter().map(|it| &it.workload.0));
    let others: BTreeSet<Text> = named.filter(|it| **it != of.workload.0).cloned().collect();
    let mut seen = if others.is_empty() { others } else { sight.of(user, others).await? };
    seen.insert(of.workload.0.clone());
    Ok(seen)
}

fn asked(target: &Target, body: Option<Tree>) -> Result<Asked, Status> {
    let (namespace, name) = (target.namespace.clone(), target.name.clone());
    match (target.resource.as_str(), body) {
        (CLUSTER_QUEUES, _) => Ok(Asked::InClusterQueue(name)),
        (LOCAL_QUEUES, _) => Ok(Asked::InLocalQueue(namespace, name)),
        (_, Some(manifest)) => Ok(Asked::Try(namespace, manifest)),
        (_, None) if !name.is_empty() => Ok(Asked::Why(namespace, name)),
        (_, None) => Err(Status::method_not_allowed()),
    }
}

fn closed(why: Closed) -> Status {
    match why {
        Closed::Nobody => {
            soon(503, "ServiceUnavailable", "queues are not run here, now: ask again in a second")
        }
        Closed::Full => soon(429, "TooManyRequests", "too many ask about queues: try again in a second"),
    }
}

fn soon(code: u16, reason: &'static str, words: &str) -> Status {
    let mut status = Status::new(code, reason, words);
    status.details.retry_after_seconds = Some(1);
    status
}

/// The names are those of what is stored: that is what is not there.
fn missing(target: &Target) -> Status {
    let resource = match target.resource.as_str() {
        it @ (CLUSTER_QUEUES | LOCAL_QUEUES) => it,
        _ => "workloads",
    };
    Status::not_found(Named { group: muster_api::queue::words::GROUP, resource, name: &target.name })
}

/// Which part of a list is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    offset: usize,
    limit: usize,
}

impl Window {
    fn of(query: &Query) -> Result<Window, Status> {
        let number = |key: &str| match query.number(key)? {
            None => Ok(None),
            Some(n) => usize::try_from(n)
                .map(Some)
                .map_err(|_| Status::bad_request(format!("{key}: Invalid value: {n}: must not be negative"))),
        };
        let limit = number("limit")?.filter(|it| *it > 0).unwrap_or(LIMIT).min(LIMIT_MAX);
        Ok(Window { offset: number("offset")?.unwrap_or(0), limit })
    }

    /// This part of those who are asked about.
    fn cut<'a>(self, target: &Target, all: &'a [Waiting]) -> Vec<&'a Waiting> {
        let is_local = target.resource == LOCAL_QUEUES;
        let asked = |it: &&Waiting| {
            !is_local || (it.key.namespace == target.namespace && it.local_queue == target.name)
        };
        all.iter().filter(asked).skip(self.offset).take(self.limit).collect()
    }
}

fn summary(target: &Target, told: &[&Waiting], owners: &[Tree]) -> Tree {
    tree!({
        "apiVersion": format!("{}/{}", target.group, target.version), "kind": SUMMARY, "metadata": {},
        "items": Tree::list(told.iter().zip(owners).map(|(it, owners)| item(it, owners))),
    })
}

fn item(it: &Waiting, owners: &Tree) -> Tree {
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let meta = tree!({"name": &it.key.name, "namespace": &it.key.namespace,
        "creationTimestamp": it.created.to_seconds_text()});
    let owners = (!owners.is_null()).then(|| owners.clone());
    tree!({"metadata": meta.with_option(&["ownerReferences"], owners), "priority": it.priority,
        "localQueueName": &it.local_queue,
        "positionInClusterQueue": number(it.position_in_cluster_queue),
        "positionInLocalQueue": number(it.position_in_local_queue)})
}

fn explanation(target: &Target, of: &Pending, seen: &BTreeSet<Text>, now: muster_api::time::Time) -> Tree {
    let may_see = |namespace: &str| seen.contains(namespace);
    let lines = pending::lines(of, &may_see, now);
    pending::data(of, &may_see)
        .with(&["apiVersion"], format!("{}/{}", target.group, target.version))
        .with(&["kind"], EXPLANATION)
        .with(&["metadata"], tree!({"name": &of.workload.1, "namespace": &of.workload.0}))
        .with(&["text"], Tree::list(lines.iter().map(|it| Tree::from(it.as_str()))))
}

#[cfg(test)]
mod tests {
    use muster_queue::engine::workload::Key;

    use super::*;

    fn waiting(n: usize, local: &str) -> Waiting {
        Waiting {
            key: Key::new("ns", &format!("w{n}")),
            priority: 5,
            local_queue: local.into(),
            position_in_cluster_queue: n,
            position_in_local_queue: n / 2,
            created: Default::default(),
        }
    }

    #[test]
    fn a_part_of_a_queue_is_told() {
        let all: Vec<Waiting> =
            (0..10).map(|n| waiting(n, if n % 2 == 0 { "even" } else { "odd" })).collect();
        let target = |resource: &str, name: &str| Target {
            group: VISIBILITY_GROUP.into(),
            version: "v1beta2".into(),
            resource: resource.into(),
            namespace: if resource == LOCAL_QUEUES { "ns".into() } else { Text::new() },
            name: name.into(),
            subresource: "pendingworkloads".into(),
        };
        for (resource, name, query, want) in [
            (CLUSTER_QUEUES, "cq", "", "w0 w1 w2 w3 w4 w5 w6 w7 w8 w9"),
            (CLUSTER_QUEUES, "cq", "offset=7&limit=2", "w7 w8"),
            (CLUSTER_QUEUES, "cq", "offset=70", ""),
            (LOCAL_QUEUES, "odd", "", "w1 w3 w5 w7 w9"),
            (LOCAL_QUEUES, "odd", "offset=1&limit=2", "w3 w5"),
            (LOCAL_QUEUES, "other", "", ""),
        ] {
            let window = Window::of(&Query::parse(query)).unwrap();
            let told = window.cut(&target(resource, name), &all);
            let owners = vec![Tree::Null; told.len()];
            let told = summary(&target(resource, name), &told, &owners);
            let names = told.items_at(&["items"]).iter().map(|it| it.str_at(&["metadata", "name"]));
            assert_eq!(names.collect::<Vec<_>>().join(" "), want, "{resource} {name} {query}");
        }
        assert_eq!(Window::of(&Query::parse("limit=200000")).unwrap().limit, LIMIT_MAX);
        assert!(Window::of(&Query::parse("offset=-1")).is_err());
        assert!(Window::of(&Query::parse("limit=many")).is_err());
    }
}
