//! Queues as they are asked about: who waits in which order (`visibility.kueue.x-k8s.io`), and why somebody waits or
//! what would become of a manifest (`visibility.muster.dev`).
//!
//! # Invariants
//!
//! - The loop is asked for one thing that is short or shared; slices and words are made here.
//! - Whoever may not see a namespace learns nothing of what is in it.

use std::sync::Arc;

use muster_api::ports::Clock;
use muster_api::queue::words::{EXPLANATION, EXPLANATION_GROUP, EXPLANATION_VERSION, VISIBILITY_GROUP};
use muster_apiserver::http::query::Query;
use muster_apiserver::http::told::{Offered, Question, Teller, Telling};
use muster_apiserver::registry::Resource;
use muster_apiserver::request::Target;
use muster_apiserver::status::{Named, Status};
use muster_control::queueing::desk::{Answer, Closed, Desk, Question as Asked};
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

const OFFERED: [Offered; 3] = [
    Offered {
        group: VISIBILITY_GROUP,
        versions: VERSIONS,
        plural: CLUSTER_QUEUES,
        kind: "ClusterQueue",
        namespaced: false,
        verbs: &[],
        parts: PARTS,
    },
    Offered {
        group: VISIBILITY_GROUP,
        versions: VERSIONS,
        plural: LOCAL_QUEUES,
        kind: "LocalQueue",
        namespaced: true,
        verbs: &[],
        parts: PARTS,
    },
    Offered {
        group: EXPLANATION_GROUP,
        versions: &[EXPLANATION_VERSION],
        plural: "explanations",
        kind: EXPLANATION,
        namespaced: true,
        verbs: &["create", "get"],
        parts: &[],
    },
];

/// Owners of a Workload, as its metadata has them, for whoever can look them up.
pub type Owners = Arc<dyn Fn(&Text, &Text) -> Option<Tree> + Send + Sync>;

/// Answers for both groups.
pub struct Visibility {
    desk: Desk,
    owners: Owners,
    clock: Arc<dyn Clock>,
    resources: Vec<Arc<Resource>>,
}

impl Visibility {
    /// At this desk.
    pub fn new(desk: Desk, owners: Owners, clock: Arc<dyn Clock>) -> Visibility {
        Visibility { desk, owners, clock, resources: OFFERED.iter().map(Offered::resource).collect() }
    }
}

impl Teller for Visibility {
    fn resources(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    fn answer(&self, question: Question) -> Telling {
        let Question { target, query, body, .. } = question;
        let (tell, told) = oneshot::channel();
        let asked = asked(&target, body).and_then(|asked| {
            let window = Window::of(&query)?;
            let reply = Box::new(move |answer| {
                // Whoever has gone meanwhile needs no answer.
                let _ = tell.send(answer);
            });
            self.desk.ask(asked, reply).map_err(closed)?;
            Ok(window)
        });
        let (owners, now) = (self.owners.clone(), self.clock.now());
        Box::pin(async move {
            let window = asked?;
            match told.await.map_err(|_| closed(Closed::Nobody))? {
                Answer::Waiting(all) => Ok(summary(&target, &all, window, &owners)),
                Answer::Why(pending) => Ok(explanation(&target, &pending, now)),
                Answer::NotFound => Err(missing(&target)),
                Answer::Wrong(words) => Err(Status::new(422, "Invalid", words)),
            }
        })
    }
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
        Closed::Nobody => Status::new(503, "ServiceUnavailable", "queues are not run here, now"),
        Closed::Full => {
            Status::new(429, "TooManyRequests", "too many ask about queues: try again in a second")
        }
    }
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
}

fn summary(target: &Target, all: &[Waiting], window: Window, owners: &Owners) -> Tree {
    let is_local = target.resource == LOCAL_QUEUES;
    let asked =
        |it: &&Waiting| !is_local || (it.key.namespace == target.namespace && it.local_queue == target.name);
    let items = all.iter().filter(asked).skip(window.offset).take(window.limit);
    tree!({
        "apiVersion": format!("{}/{}", target.group, target.version), "kind": SUMMARY, "metadata": {},
        "items": Tree::list(items.map(|it| item(it, owners))),
    })
}

fn item(it: &Waiting, owners: &Owners) -> Tree {
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let mut meta = tree!({"name": &it.key.name, "namespace": &it.key.namespace,
        "creationTimestamp": it.created.to_seconds_text()});
    if let Some(owners) = owners(&it.key.namespace, &it.key.name) {
        meta = meta.with(&["ownerReferences"], owners);
    }
    tree!({"metadata": meta, "priority": it.priority, "localQueueName": &it.local_queue,
        "positionInClusterQueue": number(it.position_in_cluster_queue),
        "positionInLocalQueue": number(it.position_in_local_queue)})
}

fn explanation(target: &Target, of: &Pending, now: muster_api::time::Time) -> Tree {
    // Everybody who is known may see everything of the embedded plane.
    let may_see = |_: &str| true;
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
        let owners: Owners = Arc::new(|_, _| None);
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
            let told = summary(&target(resource, name), &all, window, &owners);
            let names = told.items_at(&["items"]).iter().map(|it| it.str_at(&["metadata", "name"]));
            assert_eq!(names.collect::<Vec<_>>().join(" "), want, "{resource} {name} {query}");
        }
        assert_eq!(Window::of(&Query::parse("limit=200000")).unwrap().limit, LIMIT_MAX);
        assert!(Window::of(&Query::parse("offset=-1")).is_err());
        assert!(Window::of(&Query::parse("limit=many")).is_err());
    }
}
