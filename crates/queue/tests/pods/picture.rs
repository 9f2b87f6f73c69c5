//! Short notation of pods and Workloads, and actions as lines.

use std::time::Duration;

use muster_api::client::ApiObject;
use muster_api::event::EventType;
use muster_api::queue::FlavorFacts;
use muster_api::time::Time;
use muster_queue::jobs::priority::{PodPriorityClass, PriorityClassLister};
use muster_queue::jobs::requests::{NamespaceLimits, PodEnvironment};
use muster_queue::pods::expectations::{CleanupExpectations, PodExpectations, UngateExpectations};
use muster_queue::pods::queued_pod::{PodAncestry, PodReference, QueuedPod};
use muster_queue::pods::reconciler::{
    ObservedWorkload, PodAction, PodEvent, PodEventObject, PodReconcileKey, PodReconcilerSettings,
    PodRequeueability, PodSnapshot, reconcile,
};
use muster_tree::{Text, Tree, tree};

/// The namespace of all objects.
pub const NAMESPACE: &str = "n";

pub fn at(secs: i64) -> Time {
    Time(secs * 1_000_000)
}

pub fn stamp(secs: i64) -> String {
    at(secs).to_seconds_text()
}

/// Short names of labels and annotations.
const KEYS: [(&str, &str, &str); 22] = [
    ("queue", "labels", "kueue.x-k8s.io/queue-name"),
    ("managed", "labels", "kueue.x-k8s.io/managed"),
    ("group", "labels", "kueue.x-k8s.io/pod-group-name"),
    ("annotatedGroup", "annotations", "kueue.x-k8s.io/pod-group-name"),
    ("role", "labels", "kueue.x-k8s.io/pod-group-role"),
    ("annotatedRole", "annotations", "kueue.x-k8s.io/pod-group-role"),
    ("index", "labels", "kueue.x-k8s.io/pod-group-pod-index"),
    ("priority", "labels", "kueue.x-k8s.io/priority-class"),
    ("maxExec", "labels", "kueue.x-k8s.io/max-exec-time-seconds"),
    ("prebuilt", "labels", "kueue.x-k8s.io/prebuilt-workload-name"),
    ("annotatedPrebuilt", "annotations", "kueue.x-k8s.io/prebuilt-workload-name"),
    ("total", "annotations", "kueue.x-k8s.io/pod-group-total-count"),
    ("labelledTotal", "labels", "kueue.x-k8s.io/pod-group-total-count"),
    ("count", "annotations", "kueue.x-k8s.io/pod-group-count"),
    ("roles", "annotations", "kueue.x-k8s.io/pod-group-roles"),
    ("roleCount", "annotations", "kueue.x-k8s.io/pod-group-role-count"),
    ("roleCountAlias", "annotations", "kueue.k8s.io/pod-group-role-count"),
    ("sets", "annotations", "kueue.x-k8s.io/pod-group-sets"),
    ("hash", "annotations", "kueue.x-k8s.io/role-hash"),
    ("fast", "annotations", "kueue.x-k8s.io/pod-group-fast-admission"),
    ("serving", "annotations", "kueue.x-k8s.io/pod-group-serving"),
    ("retriable", "annotations", "kueue.x-k8s.io/retriable-in-group"),
];

/// A pod in short notation; defaults are those of a pod that was just admitted by the webhook.
pub fn pod(short: &Tree) -> Tree {
    let name = short.str_at(&["name"]);
    let yes = |key: &str| short.bool_at(&[key]) == Some(true);
    let mut made = tree!({"metadata": {"name": name, "namespace": NAMESPACE, "uid": (format!("{name}-uid")),
            "creationTimestamp": (stamp(short.int_at(&["at"]).unwrap_or(0)))},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {
            "cpu": (short.get("cpu").cloned().unwrap_or(Tree::from("1")))}}}]}});
    for (word, side, key) in KEYS {
        let value = match (word, short.get(word)) {
            ("managed", None) if !yes("bare") => Tree::from("true"),
            (_, None) => continue,
            (_, Some(Tree::Text(text))) => Tree::from(text),
            (_, Some(other)) => Tree::from(other.to_json()),
        };
        made = made.with(&["metadata", side, key], value);
    }
    if yes("parented") {
        made = made.with(&["metadata", "annotations", "kueue.x-k8s.io/pod-suspending-parent"], "x");
    }
    let open = yes("open") || short.get("phase").is_some();
    let mut gates: Vec<Tree> =
        super::texts(short, "gates").into_iter().map(|it| tree!({"name": it})).collect();
    if !open && !yes("bare") {
        gates.push(tree!({"name": "kueue.x-k8s.io/admission"}));
    }
    if !gates.is_empty() {
        made = made.with(&["spec", "schedulingGates"], Tree::list(gates));
    }
    if !yes("freed") && !yes("bare") {
        made = made.with(&["metadata", "finalizers"], tree!(["kueue.x-k8s.io/managed"]));
    }
    let phase = short.str_at(&["phase"]);
    if !phase.is_empty() {
        made = made.with(&["status", "phase"], phase);
    }
    if short.get("bound").map_or(!matches!(phase, "" | "Pending"), |it| it.as_bool() == Some(true)) {
        made = made.with(&["spec", "nodeName"], "node");
    }
    if let Some(deleted) = short.int_at(&["deleted"]) {
        made = made.with(&["metadata", "deletionTimestamp"], stamp(deleted));
        made = made.with(&["metadata", "deletionGracePeriodSeconds"], short.int_at(&["grace"]).unwrap_or(30));
    }
    let mut conditions = Vec::new();
    if yes("ready") {
        conditions.push(tree!({"type": "Ready", "status": "True"}));
    }
    if yes("stopped") {
        conditions.push(tree!({"type": "TerminationTarget", "status": "True", "reason": "NotAdmitted"}));
    }
    if let Some(failed) = short.int_at(&["failedAt"]) {
        conditions.push(tree!({"type": "ContainersReady", "status": "False", "reason": "PodFailed",
            "lastTransitionTime": (stamp(failed))}));
    }
    if !conditions.is_empty() {
        made = made.with(&["status", "conditions"], Tree::list(conditions));
    }
    match short.get("more") {
        Some(more) => made.merge(more),
        None => made,
    }
}

/// A Workload in short notation: `sets: [main x2]`, and `is`: pending, reserved, admitted, evicted, finished.
pub fn workload(short: &Tree) -> Tree {
    let name = short.str_at(&["name"]);
    let set = |text: String| {
        let (name, rest) = text.split_once(" x").expect("a set is `name xCount`");
        let (count, cpu) = rest.split_once(" of ").unwrap_or((rest, "1"));
        (Text::from(name), count.parse::<i64>().expect("a count"), Text::from(cpu))
    };
    let sets: Vec<(Text, i64, Text)> = super::texts(short, "sets").into_iter().map(set).collect();
    let spec = |(name, count, cpu): &(Text, i64, Text)| {
        tree!({"name": name, "count": *count, "template": {"spec": {"containers": [
            {"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}})
    };
    let mut made = tree!({"metadata": {"name": name, "namespace": NAMESPACE, "uid": (format!("{name}-wid")),
            "finalizers": ["kueue.x-k8s.io/resource-in-use"]},
        "spec": {"queueName": "q", "podSets": Tree::list(sets.iter().map(spec))}});
    if short.bool_at(&["stranger"]) != Some(true) && short.get("of").is_none() {
        made = made.with(&["metadata", "annotations", "kueue.x-k8s.io/is-group-workload"], "true");
    }
    let owner = |name: &str, controls: bool| {
        let bare = tree!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": (format!("{name}-uid"))});
        if controls { bare.with_key("controller", true.into()) } else { bare }
    };
    let mut owners: Vec<Tree> = super::texts(short, "owners").iter().map(|it| owner(it, false)).collect();
    owners.extend(short.get("of").and_then(Tree::as_str).map(|it| owner(it, true)));
    if !owners.is_empty() {
        made = made.with(&["metadata", "ownerReferences"], Tree::list(owners));
    }
    let is = short.str_at(&["is"]);
    let mut conditions = Vec::new();
    let mut add = |kind: &str, holds: bool, reason: &str, message: &str| {
        let status = if holds { "True" } else { "False" };
        conditions.push(tree!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": (stamp(0))}));
    };
    let given = matches!(is, "reserved" | "admitted" | "evicted");
    if given {
        add("QuotaReserved", true, "QuotaReserved", "");
    }
    if matches!(is, "admitted" | "evicted") {
        add("Admitted", true, "Admitted", "");
    }
    if is.starts_with("evicted") || is == "released" {
        add("Evicted", true, "Preempted", "Preempted by somebody");
    }
    if is == "finished" {
        add("Finished", true, "Succeeded", "");
    }
    let leaves = is.starts_with("evicted") || is == "released";
    match short.str_at(&["waiting"]) {
        "" => {}
        "yes" if leaves => add("WaitingForReplacementPods", true, "Preempted", "Preempted by somebody"),
        status => add("WaitingForReplacementPods", matches!(status, "yes" | "failed"), "PodsFailed", ""),
    }
    match short.str_at(&["ready"]) {
        "" => {}
        status => add("PodsReady", status == "yes", "WaitForStart", ""),
    }
    if !conditions.is_empty() {
        made = made.with(&["status", "conditions"], Tree::list(conditions));
    }
    if given {
        let one = |(name, count, _): &(Text, i64, Text)| tree!({"name": name, "count": *count, "flavors": {"cpu": "f"}});
        let admission = tree!({"clusterQueue": "cq", "podSetAssignments": Tree::list(sets.iter().map(one))});
        made = made.with(&["status", "admission"], admission);
    }
    if short.bool_at(&["deleting"]) == Some(true) {
        made = made.with(&["metadata", "deletionTimestamp"], stamp(0));
    }
    match short.get("more") {
        Some(more) => made.merge(more),
        None => made,
    }
}

pub struct Known;

impl PriorityClassLister for Known {
    fn workload_priority_class(&self, name: &str) -> Option<i64> {
        (name == "gold").then_some(100)
    }

    fn priority_class(&self, _: &str) -> Option<i64> {
        None
    }

    fn default_priority_class(&self) -> Option<PodPriorityClass> {
        None
    }
}

/// The flavor `f` with nodes labeled `big`.
pub fn flavor(name: &str) -> Option<FlavorFacts> {
    let tree = tree!({"metadata": {"name": name}, "spec": {"nodeLabels": {"size": "big"},
        "tolerations": [{"key": "big", "operator": "Exists"}]}});
    (name == "f").then(|| FlavorFacts::of(&tree))
}

/// One reconciliation with expectations.
pub fn look(
    key: &PodReconcileKey,
    pods: &[QueuedPod],
    workloads: &[ObservedWorkload],
    memory: (&UngateExpectations, &CleanupExpectations),
    settings: &PodReconcilerSettings,
    (retire_at, now): (Option<Time>, Time),
) -> Vec<PodAction> {
    let limits = NamespaceLimits::default();
    let around = PodEnvironment { limits: &limits, runtime_class: &|_| None };
    reconcile(&PodSnapshot {
        key,
        pods,
        workloads,
        flavor: &flavor,
        ungates: memory.0,
        cleanups: memory.1,
        classes: &Known,
        environment: &around,
        delete_deactivated_at: retire_at,
        settings,
        now,
    })
}

pub struct Case {
    pub says: String,
    pub want: Vec<String>,
    key: PodReconcileKey,
    pods: Vec<QueuedPod>,
    workloads: Vec<ObservedWorkload>,
    memory: PodExpectations,
    settings: PodReconcilerSettings,
    retire_at: Option<Time>,
    now: Time,
}

impl Case {
    pub fn of(case: &Tree) -> Case {
        let defaults = case.get("each").cloned().unwrap_or_else(Tree::empty_map);
        let member = |short: &Tree| {
            let short = defaults.merge(short);
            let above = if short.bool_at(&["below"]) == Some(true) {
                PodAncestry::Managed
            } else {
                PodAncestry::Unmanaged
            };
            QueuedPod::of(&ApiObject { tree: pod(&short), revision: 1 }, above)
        };
        let seen = |short: &Tree| ObservedWorkload::of(&ApiObject { tree: workload(short), revision: 1 });
        let (kind, name) = case.str_at(&["key"]).split_once(' ').expect("a key is `group g` or `pod p`");
        let (namespace, name) = (Text::from(NAMESPACE), Text::from(name));
        let key = match kind {
            "group" => PodReconcileKey::Group { namespace, name: name.clone() },
            _ => PodReconcileKey::Pod { namespace, name: name.clone() },
        };
        let this = |name: &str| PodReference {
            name: Text::from(name),
            uid: Text::from(format!("{name}-uid")),
            revision: 1,
        };
        let mut memory = PodExpectations::default();
        for (set, pods) in case.entries_at(&["openings"]) {
            for pod in pods.items().iter().filter_map(Tree::as_str) {
                memory.ungates.sending(&Text::from(format!("{name}-wid")), set, &this(pod));
            }
        }
        let gone: Vec<PodReference> = super::texts(case, "cleanups").iter().map(|it| this(it)).collect();
        memory.cleanups.sending(&(Text::from(NAMESPACE), name), &gone);
        super::texts(case, "unheard").iter().for_each(|it| memory.unheard(&this(it).uid));
        Case {
            says: case.str_at(&["says"]).to_owned(),
            want: super::texts(case, "want"),
            key,
            pods: case.items_at(&["pods"]).iter().map(member).collect(),
            workloads: case.items_at(&["workloads"]).iter().map(seen).collect(),
            memory,
            settings: PodReconcilerSettings {
                label_keys: super::texts(case, "labelKeys").into_iter().map(Text::from).collect(),
                reports_pods_ready: case.bool_at(&["tellsReady"]) == Some(true),
                only_suspended_by_parent: case.bool_at(&["onlyParented"]) == Some(true),
                ..PodReconcilerSettings::default()
            },
            retire_at: case.int_at(&["retireAt"]).map(at),
            now: at(case.int_at(&["now"]).unwrap_or(100)),
        }
    }

    pub fn lines(&mut self) -> Vec<String> {
        let memory = (&self.memory.ungates, &self.memory.cleanups);
        let when = (self.retire_at, self.now);
        let steps = look(&self.key, &self.pods, &self.workloads, memory, &self.settings, when);
        steps.iter().map(|step| line(step, self.now)).collect()
    }
}

fn names(pods: &[PodReference]) -> String {
    pods.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn sets(spec: &Tree) -> String {
    let one = |set: &Tree| {
        let cpu = set.items_at(&["template", "spec", "containers"]).first().and_then(|it| {
            it.at(&["resources", "requests", "cpu"])
                .map(|cpu| cpu.as_str().map_or_else(|| cpu.to_json(), str::to_owned))
        });
        let of = cpu.filter(|cpu| cpu != "1").map(|cpu| format!(" of {cpu}")).unwrap_or_default();
        format!("{} x{}{of}", set.str_at(&["name"]), set.int_at(&["count"]).unwrap_or(0))
    };
    spec.items_at(&["podSets"]).iter().map(one).collect::<Vec<_>>().join(", ")
}

fn note(note: &PodEvent) -> String {
    let (what, name) = match &note.object {
        PodEventObject::Pod(pod) => ("pod", &pod.name),
        PodEventObject::Workload(workload) => ("workload", &workload.name),
    };
    let how = match note.severity {
        EventType::Normal => "tell",
        EventType::Warning => "warn",
    };
    format!("{how} {what} {name}: {}: {}", note.reason, note.message)
}

pub fn line(step: &PodAction, now: Time) -> String {
    match step {
        PodAction::CreateWorkload(tree, told) => {
            let spec = tree.get("spec").unwrap();
            format!(
                "create {} in {}: {}; {}",
                tree.str_at(&["metadata", "name"]),
                spec.str_at(&["queueName"]),
                sets(spec),
                note(told)
            )
        }
        PodAction::UpdateWorkloadSpec(this, spec) => {
            format!("rewrite {} in {}: {}", this.name, spec.str_at(&["queueName"]), sets(spec))
        }
        PodAction::DeleteWorkload(this) => format!("delete workload {}", this.name),
        PodAction::RemoveWorkloadFinalizer(this) => format!("let workload {} go", this.name),
        PodAction::AddOwnerReferences(this, owners) => {
            let owners: Vec<&str> = owners.iter().map(|it| it.str_at(&["name"])).collect();
            format!("owners of {}: {}", this.name, owners.join(", "))
        }
        PodAction::ChangeQueue(this, queue) => format!("queue of {}: {queue}", this.name),
        PodAction::ChangePriority(this, to) => format!("priority of {}: {}", this.name, to.priority),
        PodAction::Finish { workload, reason, message } => {
            format!("finish {} {reason}: {message}", workload.name)
        }
        PodAction::SetWaitingForReplacementPods { workload, holds, reason, message } => {
            format!("waiting {} {holds} {reason}: {message}", workload.name)
        }
        PodAction::SetReclaimablePods(this, all) => {
            let all: Vec<String> = all.iter().map(|(set, count)| format!("{set}={count}")).collect();
            format!("reclaimable of {}: {}", this.name, all.join(", "))
        }
        PodAction::SetPodsReady(this, ready) => format!("ready {} {ready}", this.name),
        PodAction::ReleaseQuota(this, PodRequeueability::Possible) => format!("release {}", this.name),
        PodAction::ReleaseQuota(this, PodRequeueability::Never) => format!("release {} for good", this.name),
        PodAction::Ungate(all) => {
            let all: Vec<String> = all.iter().map(|it| format!("{} in {}", it.pod.name, it.set)).collect();
            format!("open {}", all.join(", "))
        }
        PodAction::RemoveFinalizer(pods) => format!("let go {}", names(pods)),
        PodAction::DeleteExcess(pods) => format!("excess {}", names(pods)),
        PodAction::DeletePods(pods) => format!("delete {}", names(pods)),
        PodAction::Stop { pods, reason, message } => format!("stop {}: {reason}: {message}", names(pods)),
        PodAction::Note(told) => note(told),
        PodAction::NoteOnce(told) => format!("once {}", note(told)),
        PodAction::RequeueAt(at) => format!("again in {:?}", at.since(now).max(Duration::ZERO)),
        PodAction::Wait(why) => format!("hold: {why}"),
    }
}
