//! The visibility API: pending Workloads in queue order (`visibility.kueue.x-k8s.io`), and explanations of pending
//! Workloads and manifests (`visibility.muster.dev`).
//!
//! # Guarantees
//!
//! - One request costs the controller loop one short or shared query; paging and formatting happen outside the loop.
//! - An explanation names objects of other namespaces only for users that may list Workloads there.

use std::collections::BTreeSet;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

use muster_api::environment::Clock;
use muster_api::queue::consts::{EXPLANATION, EXPLANATION_GROUP, EXPLANATION_VERSION, VISIBILITY_GROUP};
use muster_apiserver::http::query::QueryParams;
use muster_apiserver::http::virtual_api::{ApiProvider, ProviderFuture, ProviderRequest, VirtualResource};
use muster_apiserver::registry::Resource;
use muster_apiserver::request::{ResourcePath, UserInfo};
use muster_apiserver::status::{Status, StatusObject};
use muster_control::queueing::visibility_query::{
    OWNERS_MAX, VisibilityHandle, VisibilityQuery as Asked, VisibilityQueryError, VisibilityResult,
};
use muster_queue::engine::report::PendingWorkload;
use muster_queue::reconcilers::explanation::{self, Explanation};
use muster_tree::{Text, Tree, tree};
use tokio::sync::oneshot;

/// Default and maximum of the `limit` parameter.
const LIMIT: usize = 1_000;
const LIMIT_MAX: usize = 100_000;
const CLUSTER_QUEUES: &str = "clusterqueues";
const LOCAL_QUEUES: &str = "localqueues";
const SUMMARY: &str = "PendingWorkloadsSummary";
const VERSIONS: &[&str] = &["v1beta2", "v1beta1"];
const SUBRESOURCES: &[(&str, &str)] = &[("pendingworkloads", SUMMARY)];
const PENDING_WORKLOAD_COLUMNS: &[(&str, &str, &str)] = &[
    ("Namespace", "string", ".metadata.namespace"),
    ("Local Queue", "string", ".localQueueName"),
    ("Position In Local Queue", "integer", ".positionInLocalQueue"),
    ("Position In Cluster Queue", "integer", ".positionInClusterQueue"),
    ("Priority", "integer", ".priority"),
];
const EXPLANATION_COLUMNS: &[(&str, &str, &str)] = &[
    ("State", "string", ".state"),
    ("Reason", "string", ".reason"),
    ("Local Queue", "string", ".localQueue"),
    ("Message", "string", ".message"),
];

const RESOURCES: [VirtualResource; 3] = [
    VirtualResource {
        group: VISIBILITY_GROUP,
        versions: VERSIONS,
        plural: CLUSTER_QUEUES,
        kind: "ClusterQueue",
        namespaced: false,
        verbs: &[],
        subresources: SUBRESOURCES,
        columns: PENDING_WORKLOAD_COLUMNS,
    },
    VirtualResource {
        group: VISIBILITY_GROUP,
        versions: VERSIONS,
        plural: LOCAL_QUEUES,
        kind: "LocalQueue",
        namespaced: true,
        verbs: &[],
        subresources: SUBRESOURCES,
        columns: PENDING_WORKLOAD_COLUMNS,
    },
    VirtualResource {
        group: EXPLANATION_GROUP,
        versions: &[EXPLANATION_VERSION],
        plural: "explanations",
        kind: EXPLANATION,
        namespaced: true,
        verbs: &["create", "get"],
        subresources: &[],
        columns: EXPLANATION_COLUMNS,
    },
];

pub type VisibleNamespacesFuture = Pin<Box<dyn Future<Output = Result<BTreeSet<Text>, Status>> + Send>>;

/// Authorizes reading Workloads by namespace.
pub trait NamespaceAuthorizer: Send + Sync {
    /// The subset of `namespaces` in which the user may list Workloads.
    fn visible_namespaces(&self, user: UserInfo, namespaces: BTreeSet<Text>) -> VisibleNamespacesFuture;
}

/// Allows every authenticated user to see all namespaces, as on the embedded control plane.
pub struct AllowAllNamespaces;

impl NamespaceAuthorizer for AllowAllNamespaces {
    fn visible_namespaces(&self, _: UserInfo, namespaces: BTreeSet<Text>) -> VisibleNamespacesFuture {
        Box::pin(ready(Ok(namespaces)))
    }
}

/// Serves both API groups.
pub struct VisibilityApi {
    desk: VisibilityHandle,
    sight: Arc<dyn NamespaceAuthorizer>,
    clock: Arc<dyn Clock>,
    resources: Vec<Arc<Resource>>,
}

impl VisibilityApi {
    /// Queries the loop behind `desk`, and authorizes with `sight`.
    pub fn new(
        desk: VisibilityHandle,
        sight: Arc<dyn NamespaceAuthorizer>,
        clock: Arc<dyn Clock>,
    ) -> VisibilityApi {
        VisibilityApi {
            desk,
            sight,
            clock,
            resources: RESOURCES.iter().map(VirtualResource::resource).collect(),
        }
    }
}

impl ApiProvider for VisibilityApi {
    fn resources(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    fn answer(&self, question: ProviderRequest) -> ProviderFuture {
        let (desk, sight, now) = (self.desk.clone(), self.sight.clone(), self.clock.now());
        Box::pin(async move {
            let ProviderRequest { target, query, body, user } = question;
            let (asked, window) = (visibility_query(&target, body)?, Page::of(&query)?);
            match query_loop(&desk, asked).await? {
                VisibilityResult::Pending(all) => list_pending(&desk, &target, &all, window).await,
                VisibilityResult::Explanation(pending) => {
                    let seen = readable_namespaces(sight.as_ref(), user, &pending).await?;
                    Ok(explanation(&target, &pending, &seen, now))
                }
                VisibilityResult::NotFound | VisibilityResult::Owners(_) => Err(not_found(&target)),
                VisibilityResult::Invalid(words) => Err(Status::new(422, "Invalid", words)),
            }
        })
    }
}

async fn query_loop(desk: &VisibilityHandle, question: Asked) -> Result<VisibilityResult, Status> {
    let (tell, told) = oneshot::channel();
    let reply = Box::new(move |answer| {
        // The client may have disconnected meanwhile.
        let _ = tell.send(answer);
    });
    desk.query(question, reply).map_err(unavailable)?;
    told.await.map_err(|_| unavailable(VisibilityQueryError::NotRunning))
}

async fn list_pending(
    desk: &VisibilityHandle,
    target: &ResourcePath,
    all: &[PendingWorkload],
    window: Page,
) -> Result<Tree, Status> {
    let told = window.select(target, all);
    let mut owners = Vec::with_capacity(told.len());
    for some in told.chunks(OWNERS_MAX) {
        match query_loop(desk, Asked::Owners(some.iter().map(|it| it.key.clone()).collect())).await? {
            VisibilityResult::Owners(more) => owners.extend(more),
            _ => return Err(not_found(target)),
        }
    }
    Ok(summary(target, &told, &owners))
}

/// The namespaces that the user may read about in an explanation: its own is authorized by the request itself.
async fn readable_namespaces(
    sight: &dyn NamespaceAuthorizer,
    user: UserInfo,
    of: &Explanation,
) -> Result<BTreeSet<Text>, Status> {
    let holders = of.holders.iter().map(|it| &it.workload.0);
    let named = holders.chain(of.potential_victims.iter().map(|it| &it.workload.0));
    let others: BTreeSet<Text> = named.filter(|it| **it != of.workload.0).cloned().collect();
    let mut seen = if others.is_empty() { others } else { sight.visible_namespaces(user, others).await? };
    seen.insert(of.workload.0.clone());
    Ok(seen)
}

fn visibility_query(target: &ResourcePath, body: Option<Tree>) -> Result<Asked, Status> {
    let (namespace, name) = (target.namespace.clone(), target.name.clone());
    match (target.resource.as_str(), body) {
        (CLUSTER_QUEUES, _) => Ok(Asked::ClusterQueuePending(name)),
        (LOCAL_QUEUES, _) => Ok(Asked::LocalQueuePending(namespace, name)),
        (_, Some(manifest)) => Ok(Asked::DryRun(namespace, manifest)),
        (_, None) if !name.is_empty() => Ok(Asked::Explain(namespace, name)),
        (_, None) => Err(Status::method_not_allowed()),
    }
}

fn unavailable(why: VisibilityQueryError) -> Status {
    match why {
        VisibilityQueryError::NotRunning => retryable(
            503,
            "ServiceUnavailable",
            "this replica does not run the queue controller now: retry in a second",
        ),
        VisibilityQueryError::TooManyQueries => {
            retryable(429, "TooManyRequests", "too many visibility requests: retry in a second")
        }
    }
}

fn retryable(code: u16, reason: &'static str, words: &str) -> Status {
    let mut status = Status::new(code, reason, words);
    status.details.retry_after_seconds = Some(1);
    status
}

/// 404 for the stored object behind a query: a queue, or the Workload of an explanation.
fn not_found(target: &ResourcePath) -> Status {
    let resource = match target.resource.as_str() {
        it @ (CLUSTER_QUEUES | LOCAL_QUEUES) => it,
        _ => "workloads",
    };
    Status::not_found(StatusObject { group: muster_api::queue::consts::GROUP, resource, name: &target.name })
}

/// The `offset` and `limit` parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Page {
    offset: usize,
    limit: usize,
}

impl Page {
    fn of(query: &QueryParams) -> Result<Page, Status> {
        let number = |key: &str| match query.number(key)? {
            None => Ok(None),
            Some(n) => usize::try_from(n)
                .map(Some)
                .map_err(|_| Status::bad_request(format!("{key}: Invalid value: {n}: must not be negative"))),
        };
        let limit = number("limit")?.filter(|it| *it > 0).unwrap_or(LIMIT).min(LIMIT_MAX);
        Ok(Page { offset: number("offset")?.unwrap_or(0), limit })
    }

    /// The requested page; for a LocalQueue, of its own Workloads only.
    fn select<'a>(self, target: &ResourcePath, all: &'a [PendingWorkload]) -> Vec<&'a PendingWorkload> {
        let is_local = target.resource == LOCAL_QUEUES;
        let asked = |it: &&PendingWorkload| {
            !is_local || (it.key.namespace == target.namespace && it.local_queue == target.name)
        };
        all.iter().filter(asked).skip(self.offset).take(self.limit).collect()
    }
}

fn summary(target: &ResourcePath, told: &[&PendingWorkload], owners: &[Tree]) -> Tree {
    tree!({
        "apiVersion": format!("{}/{}", target.group, target.version), "kind": SUMMARY, "metadata": {},
        "items": Tree::list(told.iter().zip(owners).map(|(it, owners)| item(it, owners))),
    })
}

fn item(it: &PendingWorkload, owners: &Tree) -> Tree {
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let meta = tree!({"name": &it.key.name, "namespace": &it.key.namespace,
        "creationTimestamp": it.created.to_seconds_text()});
    let owners = (!owners.is_null()).then(|| owners.clone());
    tree!({"metadata": meta.with_option(&["ownerReferences"], owners), "priority": it.priority,
        "localQueueName": &it.local_queue,
        "positionInClusterQueue": number(it.position_in_cluster_queue),
        "positionInLocalQueue": number(it.position_in_local_queue)})
}

fn explanation(
    target: &ResourcePath,
    of: &Explanation,
    seen: &BTreeSet<Text>,
    now: muster_api::time::Time,
) -> Tree {
    let may_see = |namespace: &str| seen.contains(namespace);
    let lines = explanation::to_lines(of, &may_see, now);
    explanation::to_tree(of, &may_see)
        .with(&["apiVersion"], format!("{}/{}", target.group, target.version))
        .with(&["kind"], EXPLANATION)
        .with(&["metadata"], tree!({"name": &of.workload.1, "namespace": &of.workload.0}))
        .with(&["text"], Tree::list(lines.iter().map(|it| Tree::from(it.as_str()))))
}

#[cfg(test)]
mod tests {
    use muster_queue::engine::workload::NamespacedName;

    use super::*;

    fn waiting(n: usize, local: &str) -> PendingWorkload {
        PendingWorkload {
            key: NamespacedName::new("ns", &format!("w{n}")),
            priority: 5,
            local_queue: local.into(),
            position_in_cluster_queue: n,
            position_in_local_queue: n / 2,
            created: Default::default(),
        }
    }

    #[test]
    fn a_page_of_a_queue_is_listed() {
        let all: Vec<PendingWorkload> =
            (0..10).map(|n| waiting(n, if n % 2 == 0 { "even" } else { "odd" })).collect();
        let target = |resource: &str, name: &str| ResourcePath {
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
            let window = Page::of(&QueryParams::parse(query)).unwrap();
            let told = window.select(&target(resource, name), &all);
            let owners = vec![Tree::Null; told.len()];
            let told = summary(&target(resource, name), &told, &owners);
            let names = told.items_at(&["items"]).iter().map(|it| it.str_at(&["metadata", "name"]));
            assert_eq!(names.collect::<Vec<_>>().join(" "), want, "{resource} {name} {query}");
        }
        assert_eq!(Page::of(&QueryParams::parse("limit=200000")).unwrap().limit, LIMIT_MAX);
        assert!(Page::of(&QueryParams::parse("offset=-1")).is_err());
        assert!(Page::of(&QueryParams::parse("limit=many")).is_err());
    }
}
