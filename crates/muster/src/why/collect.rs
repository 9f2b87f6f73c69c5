//! Collects the objects that explain why a workload is pending: owners, Workload, explanation, pods, PodGroups, events.

use muster_api::client::{
    ApiError, ApiRequest, Kind, Preconditions, RequestTarget, RequestVerb, Subresource,
};
use muster_api::consts::labels as plain_labels;
use muster_api::environment::Clock;
use muster_api::kinds::{CONFIG_MAPS, JOBSETS, POD_GROUPS, PODS};
use muster_api::meta::{self, OwnerReference};
use muster_api::queue::consts::{EXPLANATION_GROUP, EXPLANATION_VERSION, labels};
use muster_api::queue::kinds::WORKLOADS;
use muster_api::train::{RuntimeKind, RuntimeRef, snapshot_name};
use muster_cluster::KubeApi;
use muster_operator::ports::SystemClock;
use muster_tree::{Text, Tree, literal};

use super::report::WhyReport;
use super::target::{ExplainTarget, ExplainableKind};
use super::train_job::{RuntimePresence, TrainJobContext};

const FIELD_MANAGER: Text = literal!("muster-why");
/// The longest owner chain that is followed; a cycle of owner references would never end.
const OWNERS_MAX: usize = 10;
/// The label by which the pods of a JobSet are found.
const JOBSET_NAME: &str = muster_api::consts::jobset::NAME;

/// The object cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The object does not exist.
    #[error("there is no {word} {name} in namespace {namespace}\n\nhint: name another namespace with `-n`")]
    Missing { word: &'static str, name: Text, namespace: String },
    #[error("{word} {name}: {refusal}")]
    Refused { word: &'static str, name: Text, refusal: ApiError },
}

/// The resource of the explanation API.
fn explanations() -> Kind {
    Kind {
        group: EXPLANATION_GROUP.into(),
        version: EXPLANATION_VERSION.into(),
        plural: "explanations".into(),
    }
}

/// Collects everything about an object.
///
/// # Errors
/// The object does not exist, or may not be read. Everything else is optional: without permission to list Workloads the
/// pods are explained nevertheless.
pub async fn collect(
    api: &KubeApi,
    asked: &ExplainTarget,
    namespace: &str,
) -> Result<WhyReport, CollectError> {
    let object = one(api, asked.what, namespace, &asked.name).await?;
    let (top_what, top) = root_owner(api, asked.what, &object, namespace).await;
    let workload = workload(api, top_what, &top, namespace).await;
    let (explanation, unexplained) = match &workload {
        Some(it) => explanation(api, namespace, &meta::name(it)).await,
        None => (None, String::new()),
    };
    let train = match asked.what {
        ExplainableKind::TrainJob => Some(train(api, &object, namespace).await),
        _ => None,
    };
    let pods = pods(api, asked.what, &object, namespace).await;
    let groups = groups(api, &pods, namespace).await;
    let mut events = events(api, namespace, &object).await;
    let set = train.as_ref().and_then(|it| it.set.as_ref());
    for it in workload.iter().chain(set).filter(|it| meta::uid(it) != meta::uid(&object)) {
        events.extend(self::events(api, namespace, it).await);
    }
    Ok(WhyReport {
        what: asked.what.word(),
        above: (meta::uid(&top) != meta::uid(&object))
            .then(|| format!("{} {}", top_what.word(), meta::name(&top))),
        object,
        workload,
        explanation,
        unexplained,
        train,
        pods,
        groups,
        events,
        now: SystemClock.now(),
    })
}

/// Explains a manifest as if it were submitted now; nothing is stored.
///
/// # Errors
/// The server does not serve explanations, or rejects the manifest.
pub async fn dry_run(api: &KubeApi, manifest: &Tree, namespace: &str) -> Result<WhyReport, CollectError> {
    let call = call(&explanations(), namespace, "", RequestVerb::Create(manifest.clone()));
    let refused = |refusal| CollectError::Refused { word: "manifest", name: meta::name(manifest), refusal };
    let told = api.perform(&call).await.map_err(refused)?.tree;
    Ok(WhyReport {
        what: "Manifest",
        object: manifest.with(&["metadata", "namespace"], namespace),
        explanation: Some(told),
        now: SystemClock.now(),
        ..WhyReport::default()
    })
}

fn call(kind: &Kind, namespace: &str, name: &str, act: RequestVerb) -> ApiRequest {
    let on = RequestTarget {
        kind: kind.clone(),
        namespace: namespace.into(),
        name: name.into(),
        subresource: Subresource::Main,
    };
    ApiRequest {
        field_manager: FIELD_MANAGER,
        target: on,
        preconditions: Preconditions::default(),
        verb: act,
    }
}

async fn get(api: &KubeApi, kind: &Kind, namespace: &str, name: &str) -> Result<Tree, ApiError> {
    api.perform(&call(kind, namespace, name, RequestVerb::Get)).await.map(|it| it.tree)
}

async fn one(
    api: &KubeApi,
    what: ExplainableKind,
    namespace: &str,
    name: &Text,
) -> Result<Tree, CollectError> {
    let (word, name) = (what.word(), name.clone());
    get(api, what.kind(), namespace, &name).await.map_err(|refusal| match refusal {
        ApiError::NotFound(_) => CollectError::Missing { word, name, namespace: namespace.to_owned() },
        refusal => CollectError::Refused { word, name, refusal },
    })
}

/// The topmost owner of a known kind: the object that is queued, if any is.
async fn root_owner(
    api: &KubeApi,
    what: ExplainableKind,
    object: &Tree,
    namespace: &str,
) -> (ExplainableKind, Tree) {
    let (mut what, mut object) = (what, object.clone());
    for _ in 0..OWNERS_MAX {
        let owner = meta::owner_references(&object).find(|it| it.controller);
        let Some((next, owner)) =
            owner.and_then(|it| Some((ExplainableKind::from_owner(it.group(), &it.kind)?, it)))
        else {
            break;
        };
        match get(api, next.kind(), namespace, &owner.name).await {
            Ok(above) if meta::uid(&above) == owner.uid => (what, object) = (next, above),
            _ => break,
        }
    }
    (what, object)
}

/// The Workload of an object; `None` on a cluster without the Workload CRD.
async fn workload(api: &KubeApi, what: ExplainableKind, object: &Tree, namespace: &str) -> Option<Tree> {
    if what == ExplainableKind::Workload {
        return Some(object.clone());
    }
    let named = meta::label(object, labels::PREBUILT_WORKLOAD);
    let group = meta::label(object, labels::POD_GROUP_NAME)
        .or_else(|| meta::annotation(object, labels::POD_GROUP_NAME));
    if let Some(name) = named.or(group.filter(|_| what == ExplainableKind::Pod)) {
        return get(api, &WORKLOADS, namespace, name).await.ok();
    }
    let uid = meta::uid(object);
    let owned = |it: &Tree| meta::owner_references(it).any(|it: OwnerReference| it.uid == uid);
    let all = api.list_by_labels(&WORKLOADS, namespace, &[(labels::JOB_UID, uid.as_str())]).await.ok()?;
    let mut all: Vec<Tree> = all.into_iter().map(|it| it.tree).filter(owned).collect();
    all.sort_by_key(meta::creation_timestamp);
    all.pop()
}

/// The explanation of a Workload, or the reason why there is none.
async fn explanation(api: &KubeApi, namespace: &str, workload: &str) -> (Option<Tree>, String) {
    match get(api, &explanations(), namespace, workload).await {
        Ok(told) => (Some(told), String::new()),
        Err(ApiError::NotFound(_)) => (None, "this server serves no explanations".to_owned()),
        Err(refusal) => (None, format!("the server's explanation is not there: {refusal}")),
    }
}

/// The pods of an object.
async fn pods(api: &KubeApi, what: ExplainableKind, object: &Tree, namespace: &str) -> Vec<Tree> {
    let name = meta::name(object);
    let label = match what {
        ExplainableKind::Pod => return vec![object.clone()],
        ExplainableKind::Job => plain_labels::JOB_NAME,
        // The JobSet of a TrainJob has the name of the TrainJob.
        ExplainableKind::JobSet | ExplainableKind::TrainJob => JOBSET_NAME,
        ExplainableKind::Workload => return Vec::new(),
    };
    let all = api.list_by_labels(&PODS, namespace, &[(label, name.as_str())]).await;
    all.unwrap_or_default().into_iter().map(|it| it.tree).collect()
}

/// The JobSet and the runtime of a TrainJob.
async fn train(api: &KubeApi, job: &Tree, namespace: &str) -> TrainJobContext {
    let (name, uid) = (meta::name(job), meta::uid(job));
    let of_job = |it: &Tree| meta::controller_of(it).is_some_and(|owner| owner.uid == uid);
    let set = get(api, &JOBSETS, namespace, &name).await.ok().filter(of_job);
    if set.is_some() {
        return TrainJobContext { set, runtime: RuntimePresence::Present };
    }
    let kept = get(api, &CONFIG_MAPS, namespace, &snapshot_name(&name)).await;
    let runtime = match RuntimeRef::of(job) {
        _ if kept.is_ok_and(|it| of_job(&it)) => RuntimePresence::Present,
        named => runtime(api, &named, namespace).await,
    };
    TrainJobContext { set, runtime }
}

/// Whether a runtime is missing. A runtime that the user may not read counts as present.
async fn runtime(api: &KubeApi, named: &RuntimeRef, namespace: &str) -> RuntimePresence {
    let Some(kind) = named.runtime_kind() else { return RuntimePresence::Present };
    let space = if kind == RuntimeKind::Namespaced { namespace } else { "" };
    match get(api, kind.kind(), space, &named.name).await {
        Err(ApiError::NotFound(_)) => RuntimePresence::Missing,
        _ => RuntimePresence::Present,
    }
}

/// The PodGroups of the pods that have no node.
async fn groups(api: &KubeApi, pods: &[Tree], namespace: &str) -> Vec<Tree> {
    let waiting = pods.iter().filter(|pod| pod.str_at(&["spec", "nodeName"]).is_empty());
    let named = waiting.map(|pod| match pod.str_at(&["spec", "schedulingGroup", "podGroupName"]) {
        "" => pod.str_at(&["spec", "workloadRef", "podGroupName"]).to_owned(),
        name => name.to_owned(),
    });
    let names: std::collections::BTreeSet<String> = named.filter(|it| !it.is_empty()).collect();
    let mut all = Vec::new();
    for name in names {
        all.extend(get(api, &POD_GROUPS, namespace, &name).await.ok());
    }
    all
}

async fn events(api: &KubeApi, namespace: &str, object: &Tree) -> Vec<Tree> {
    let all = api.events_of(namespace, &meta::uid(object)).await;
    all.unwrap_or_default().into_iter().map(|it| it.tree).collect()
}
