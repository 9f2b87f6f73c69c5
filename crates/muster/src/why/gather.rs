//! What a server knows of one object and of why it waits.

use muster_api::kinds::{CONFIG_MAPS, JOBSETS, POD_GROUPS, PODS};
use muster_api::meta::{self, Owner};
use muster_api::port::{Act, Call, Guard, Kind, Part, Refusal, Target};
use muster_api::ports::Clock;
use muster_api::queue::kinds::WORKLOADS;
use muster_api::queue::words::{EXPLANATION_GROUP, EXPLANATION_VERSION, labels};
use muster_api::train::{RuntimeKind, RuntimeRef, snapshot_name};
use muster_api::words::labels as plain_labels;
use muster_cluster::KubeApi;
use muster_operator::ports::SystemClock;
use muster_tree::{Text, Tree, literal};

use super::name::{Name, What};
use super::tell::Found;
use super::train::{Runtime, Train};

/// Who asks.
const BY: Text = literal!("muster-why");
/// The longest chain of owners that is followed.
const OWNERS_MAX: usize = 10;
/// The label of JobSets on their pods.
const JOBSET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";

/// Why nothing is known.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// There is no such object.
    #[error("there is no {word} {name} in namespace {namespace}\n\nhint: name another namespace with `-n`")]
    Missing {
        /// What.
        word: &'static str,
        /// Which.
        name: Text,
        /// Where.
        namespace: String,
    },
    /// The server refused.
    #[error("{word} {name}: {refusal}")]
    Refused {
        /// What.
        word: &'static str,
        /// Which.
        name: Text,
        /// Why.
        refusal: Refusal,
    },
}

/// Explanations as a kind.
fn explanations() -> Kind {
    Kind {
        group: EXPLANATION_GROUP.into(),
        version: EXPLANATION_VERSION.into(),
        plural: "explanations".into(),
    }
}

/// What is known of an object.
///
/// # Errors
/// It is not there, or may not be seen.
pub async fn about(api: &KubeApi, asked: &Name, namespace: &str) -> Result<Found, GatherError> {
    let object = one(api, asked.what, namespace, &asked.name).await?;
    let (top_what, top) = top(api, asked.what, &object, namespace).await;
    let workload = workload(api, top_what, &top, namespace).await;
    let (explanation, unexplained) = match &workload {
        Some(it) => explanation(api, namespace, &meta::name(it)).await,
        None => (None, String::new()),
    };
    let train = match asked.what {
        What::TrainJob => Some(train(api, &object, namespace).await),
        _ => None,
    };
    let pods = pods(api, asked.what, &object, namespace).await;
    let groups = groups(api, &pods, namespace).await;
    let mut events = events(api, namespace, &object).await;
    let set = train.as_ref().and_then(|it| it.set.as_ref());
    for it in workload.iter().chain(set).filter(|it| meta::uid(it) != meta::uid(&object)) {
        events.extend(self::events(api, namespace, it).await);
    }
    Ok(Found {
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

/// What would become of a manifest.
///
/// # Errors
/// The server does not tell.
pub async fn try_out(api: &KubeApi, manifest: &Tree, namespace: &str) -> Result<Found, GatherError> {
    let call = call(&explanations(), namespace, "", Act::Create(manifest.clone()));
    let refused = |refusal| GatherError::Refused { word: "manifest", name: meta::name(manifest), refusal };
    let told = api.perform(&call).await.map_err(refused)?.tree;
    Ok(Found {
        what: "Manifest",
        object: manifest.with(&["metadata", "namespace"], namespace),
        explanation: Some(told),
        now: SystemClock.now(),
        ..Found::default()
    })
}

fn call(kind: &Kind, namespace: &str, name: &str, act: Act) -> Call {
    let on = Target { kind: kind.clone(), namespace: namespace.into(), name: name.into(), part: Part::Main };
    Call { by: BY, on, guard: Guard::default(), act }
}

async fn get(api: &KubeApi, kind: &Kind, namespace: &str, name: &str) -> Result<Tree, Refusal> {
    api.perform(&call(kind, namespace, name, Act::Get)).await.map(|it| it.tree)
}

async fn one(api: &KubeApi, what: What, namespace: &str, name: &Text) -> Result<Tree, GatherError> {
    let (word, name) = (what.word(), name.clone());
    get(api, what.kind(), namespace, &name).await.map_err(|refusal| match refusal {
        Refusal::NotFound(_) => GatherError::Missing { word, name, namespace: namespace.to_owned() },
        refusal => GatherError::Refused { word, name, refusal },
    })
}

/// The highest owner that is known here: it is what queues, if anything does.
async fn top(api: &KubeApi, what: What, object: &Tree, namespace: &str) -> (What, Tree) {
    let (mut what, mut object) = (what, object.clone());
    for _ in 0..OWNERS_MAX {
        let owner = meta::owners(&object).find(|it| it.controller);
        let Some((next, owner)) = owner.and_then(|it| Some((What::called(it.group(), &it.kind)?, it))) else {
            break;
        };
        match get(api, next.kind(), namespace, &owner.name).await {
            Ok(above) if meta::uid(&above) == owner.uid => (what, object) = (next, above),
            _ => break,
        }
    }
    (what, object)
}

/// The Workload of an object; where queues are not known, nobody has one.
async fn workload(api: &KubeApi, what: What, object: &Tree, namespace: &str) -> Option<Tree> {
    if what == What::Workload {
        return Some(object.clone());
    }
    let named = meta::label(object, labels::PREBUILT_WORKLOAD);
    let group = meta::label(object, labels::POD_GROUP_NAME)
        .or_else(|| meta::annotation(object, labels::POD_GROUP_NAME));
    if let Some(name) = named.or(group.filter(|_| what == What::Pod)) {
        return get(api, &WORKLOADS, namespace, name).await.ok();
    }
    let uid = meta::uid(object);
    let owned = |it: &Tree| meta::owners(it).any(|it: Owner| it.uid == uid);
    let all = api.labelled(&WORKLOADS, namespace, &[(labels::JOB_UID, uid.as_str())]).await.ok()?;
    let mut all: Vec<Tree> = all.into_iter().map(|it| it.tree).filter(owned).collect();
    all.sort_by_key(meta::created);
    all.pop()
}

/// The server's own explanation, or why there is none.
async fn explanation(api: &KubeApi, namespace: &str, workload: &str) -> (Option<Tree>, String) {
    match get(api, &explanations(), namespace, workload).await {
        Ok(told) => (Some(told), String::new()),
        Err(Refusal::NotFound(_)) => (None, "this server serves no explanations".to_owned()),
        Err(refusal) => (None, format!("the server's explanation is not there: {refusal}")),
    }
}

/// The pods behind an object.
async fn pods(api: &KubeApi, what: What, object: &Tree, namespace: &str) -> Vec<Tree> {
    let name = meta::name(object);
    let label = match what {
        What::Pod => return vec![object.clone()],
        What::Job => plain_labels::JOB_NAME,
        // The JobSet of a TrainJob has its name.
        What::JobSet | What::TrainJob => JOBSET_NAME,
        What::Workload => return Vec::new(),
    };
    let all = api.labelled(&PODS, namespace, &[(label, name.as_str())]).await;
    all.unwrap_or_default().into_iter().map(|it| it.tree).collect()
}

/// What is known of a TrainJob beside itself.
async fn train(api: &KubeApi, job: &Tree, namespace: &str) -> Train {
    let (name, uid) = (meta::name(job), meta::uid(job));
    let of_job = |it: &Tree| meta::controller(it).is_some_and(|owner| owner.uid == uid);
    let set = get(api, &JOBSETS, namespace, &name).await.ok().filter(of_job);
    if set.is_some() {
        return Train { set, runtime: Runtime::There };
    }
    let kept = get(api, &CONFIG_MAPS, namespace, &snapshot_name(&name)).await;
    let runtime = match RuntimeRef::of(job) {
        _ if kept.is_ok_and(|it| of_job(&it)) => Runtime::There,
        named => runtime(api, &named, namespace).await,
    };
    Train { set, runtime }
}

/// Whether a runtime is missing; one that may not be read is not.
async fn runtime(api: &KubeApi, named: &RuntimeRef, namespace: &str) -> Runtime {
    let Some(kind) = named.known() else { return Runtime::There };
    let space = if kind == RuntimeKind::Namespaced { namespace } else { "" };
    match get(api, kind.kind(), space, &named.name).await {
        Err(Refusal::NotFound(_)) => Runtime::Missing,
        _ => Runtime::There,
    }
}

/// The gangs that those of them without a node belong to.
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
