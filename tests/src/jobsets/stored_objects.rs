//! All objects that an embedded server stores, normalised so that two servers that ran the same scenarios must be equal: every kind in
//! the discovery, every field, and the field managers.
//!
//! # Invariants
//!
//! - Only what [`is_ignored`] lists is ignored. Generated values are replaced: a UID by the object that has it; generated name suffixes,
//!   addresses, timestamps and nodes by placeholders.
//! - Objects that differ only in generated names are sorted by their normalised content.

use std::collections::BTreeMap;
use std::net::IpAddr;

use muster_tree::{Text, Tree};

use crate::differential::{ApiClient, first_uid, is_time};
use crate::lifecycle::job_snapshot::without_suffixes;
use crate::lifecycle::namespace_snapshot::without_nodes;

/// Stored objects by namespace. A cluster-scoped object belongs to the namespace that its name contains, if any.
pub type StoredObjects = BTreeMap<String, Tree>;

/// Directory of local volumes in the data directory.
const VOLUMES: &str = "/volumes/";
/// Key in managedFields that contains an address.
const ADDRESS: &str = "k:{\"ip\":";
/// Namespace of the operator.
const OPERATOR_SPACE: &str = "muster-system";
/// Scheduler of pods without `schedulerName`.
const SCHEDULER: &str = "default-scheduler";
/// Reporting controller of JobSet events.
const REPORTER: &str = "jobset";
/// Events that depend on timing: whether the scheduler or the volume provisioner acts first, when a periodic resync runs, and whether
/// a pod is created before its claim.
const BY_THE_CLOCK: [&str; 4] =
    ["FailedScheduling", "WaitForPodScheduled", "WaitForFirstConsumer", "ExternalProvisioning"];
/// Events whose count depends on timing: whether the Job controller observes a suspension between two updates.
const COUNTED_BY_THE_CLOCK: [&str; 2] = ["Suspended", "Resumed"];
/// Lists ordered by time: of writes, or of pods that reserved the same devices.
const ORDERED_BY_THE_CLOCK: [&str; 2] = ["managedFields", "reservedFor"];

/// Objects with the plural of their kind.
type Objects = Vec<(String, Tree)>;

/// The kinds that a server lists, each in the preferred version of its group.
pub struct ServedKinds(Vec<Kind>);

struct Kind {
    plural: String,
    /// API path of group and version.
    version: String,
    namespaced: bool,
}

impl ServedKinds {
    pub fn of(server: &ApiClient) -> Result<ServedKinds, String> {
        let groups = server.get("/apis")?.body;
        let groups = groups.items_at(&["groups"]).iter();
        let versions =
            groups.map(|group| format!("/apis/{}", group.str_at(&["preferredVersion", "groupVersion"])));
        // The same events as in the core group.
        let versions = versions.filter(|path| !path.contains("/events.k8s.io/"));
        let mut all = Vec::new();
        for version in std::iter::once("/api/v1".to_owned()).chain(versions) {
            let listed = server.get(&version)?.body;
            let can = |it: &&Tree| it.items_at(&["verbs"]).iter().any(|verb| verb.as_str() == Some("list"));
            all.extend(listed.items_at(&["resources"]).iter().filter(can).map(|kind| Kind {
                plural: kind.str_at(&["name"]).to_owned(),
                version: version.clone(),
                namespaced: kind.at(&["namespaced"]) == Some(&Tree::Bool(true)),
            }));
        }
        Ok(ServedKinds(all))
    }

    /// Reads all objects of a server, normalised.
    pub fn stores(&self, server: &ApiClient) -> Result<StoredObjects, String> {
        Ok(normalised(&self.objects(server, "")?))
    }

    /// Reads the objects of one namespace and the cluster-scoped objects that belong to it, normalised.
    pub fn of_namespace(&self, server: &ApiClient, namespace: &str) -> Result<Tree, String> {
        let place = format!("/namespaces/{namespace}");
        Ok(normalised(&self.objects(server, &place)?).remove(namespace).unwrap_or_default())
    }

    /// Reads all objects; of namespaced kinds only those at `place`.
    fn objects(&self, server: &ApiClient, place: &str) -> Result<Objects, String> {
        let mut all = Objects::new();
        for kind in &self.0 {
            let place = if kind.namespaced { place } else { "" };
            let list = server.get(&format!("{}{place}/{}", kind.version, kind.plural))?.body;
            all.extend(list.items_at(&["items"]).iter().map(|object| (kind.plural.clone(), object.clone())));
        }
        Ok(all)
    }
}

fn normalised(all: &Objects) -> StoredObjects {
    let names = GeneratedNames::of(all);
    let mut stores: BTreeMap<String, BTreeMap<String, Vec<Tree>>> = BTreeMap::new();
    for (plural, object) in all.iter().filter(|(plural, object)| !is_ignored(plural, object, &names)) {
        let space = stores.entry(names.space(object)).or_default();
        let (key, shown) = names.object(plural, object);
        space.entry(key).or_default().push(shown);
    }
    stores.into_iter().map(|(space, objects)| (space, sorted(objects))).collect()
}

fn sorted(objects: BTreeMap<String, Vec<Tree>>) -> Tree {
    let lists = objects.into_iter().map(|(key, mut alike)| {
        alike.sort_by_key(Tree::to_json);
        (key, Tree::list(alike))
    });
    Tree::map(lists.collect::<Vec<_>>())
}

/// Whether an object is not compared.
fn is_ignored(plural: &str, object: &Tree, names: &GeneratedNames) -> bool {
    let (name, space) = (object.str_at(&["metadata", "name"]), object.str_at(&["metadata", "namespace"]));
    match plural {
        // The CA of the server, which differs.
        "configmaps" => name == "kube-root-ca.crt",
        // The address of the API server itself: two servers on one host listen on different ports.
        "services" | "endpoints" | "endpointslices" => name == "kubernetes" && space == "default",
        // Created by the server where it runs JobSets, by the test where it does not.
        "customresourcedefinitions" => true,
        // The operator's own namespace.
        "namespaces" => name == OPERATOR_SPACE,
        "leases" => space == OPERATOR_SPACE,
        // How many events an already deleted object got depends on timing, except for those of the JobSet controller.
        "events" => {
            let about = object.text_at(&["involvedObject", "uid"]);
            let gone = !names.uids.contains_key(&about);
            let message = object.str_at(&["message"]);
            BY_THE_CLOCK.contains(&object.str_at(&["reason"]))
                || gone && object.str_at(&["reportingComponent"]) != REPORTER
                || first_uid(message).is_some_and(|uid| !names.uids.contains_key(&uid))
        }
        _ => false,
    }
}

/// Placeholders for generated names.
struct GeneratedNames {
    uids: BTreeMap<Text, String>,
    spaces: Vec<Text>,
}

impl GeneratedNames {
    fn of(all: &Objects) -> GeneratedNames {
        // No object references an event by its UID, and event names contain a timestamp.
        let named = all.iter().filter(|(plural, _)| plural != "events").map(|(plural, object)| {
            let name = without_suffixes(object.str_at(&["metadata", "name"]));
            (object.text_at(&["metadata", "uid"]), format!("<uid of {plural} {name}>"))
        });
        let spaces = all.iter().filter(|(plural, _)| plural == "namespaces");
        let mut spaces: Vec<Text> = spaces.map(|(_, object)| object.text_at(&["metadata", "name"])).collect();
        // Longest first: one name may be a prefix of another.
        spaces.sort_by_key(|name| std::cmp::Reverse(name.len()));
        GeneratedNames { uids: named.collect(), spaces }
    }

    fn space(&self, object: &Tree) -> String {
        let own = object.str_at(&["metadata", "namespace"]);
        let claim = object.str_at(&["spec", "claimRef", "namespace"]);
        let named =
            || self.spaces.iter().find(|space| object.str_at(&["metadata", "name"]).contains(space.as_str()));
        match [own, claim].into_iter().find(|space| !space.is_empty()) {
            Some(space) => space.to_owned(),
            None => named().map(Text::to_string).unwrap_or_default(),
        }
    }

    /// Returns the key of an object and its normalised content.
    fn object(&self, plural: &str, object: &Tree) -> (String, Tree) {
        let shown = self.tree(object, "");
        match plural {
            "events" => {
                let key =
                    [&["involvedObject", "kind"][..], &["involvedObject", "name"], &["reason"], &["message"]];
                let words = key.map(|path| shown.str_at(path).to_owned());
                let shown = shown.without(&["metadata", "name"]);
                // Retries depend on timing, so the counts of warnings differ.
                let chance = shown.str_at(&["type"]) == "Warning"
                    || COUNTED_BY_THE_CLOCK.contains(&shown.str_at(&["reason"]));
                let shown = if chance { shown.without(&["count"]).without(&["series"]) } else { shown };
                (format!("events {}", words.join(" | ")), shown)
            }
            "pods" => {
                (format!("pods {}", shown.str_at(&["metadata", "name"])), without_scheduler_status(&shown))
            }
            "endpointslices" => {
                let mut pods = shown.items_at(&["endpoints"]).to_vec();
                pods.sort_by_key(Tree::to_json);
                // The generation depends on how many pods became ready at once.
                let shown = shown.with(&["endpoints"], Tree::list(pods)).without(&["metadata", "generation"]);
                (format!("{plural} {}", shown.str_at(&["metadata", "name"])), shown)
            }
            _ => (format!("{plural} {}", shown.str_at(&["metadata", "name"])), shown),
        }
    }

    fn tree(&self, tree: &Tree, key: &str) -> Tree {
        match tree {
            Tree::Map(_) => {
                let all = tree.entries().iter().map(|(key, value)| (self.words(key), self.tree(value, key)));
                Tree::map(all.collect::<Vec<_>>())
            }
            Tree::List(_) => {
                let mut items: Vec<Tree> = tree.items().iter().map(|item| self.tree(item, "")).collect();
                if ORDERED_BY_THE_CLOCK.contains(&key) {
                    items.sort_by_key(Tree::to_json);
                }
                Tree::list(items)
            }
            Tree::Text(_) if key == "resourceVersion" => Tree::from("<revision>"),
            // Any of several equal devices may be allocated.
            Tree::Text(_) if key == "device" => Tree::from("<device>"),
            Tree::Text(text) if is_time(text) => Tree::from("<time>"),
            Tree::Text(text) if text.parse::<IpAddr>().is_ok() => Tree::from("<address>"),
            Tree::Text(text) => Tree::from(self.words(text)),
            other => other.clone(),
        }
    }

    fn words(&self, text: &str) -> String {
        if text.starts_with(ADDRESS) {
            return format!("{ADDRESS}<address>}}");
        }
        let mut text = text.to_owned();
        while let Some(uid) = first_uid(&text) {
            text = text.replace(uid.as_str(), self.uids.get(&uid).map_or("<uid>", String::as_str));
        }
        if let Some(at) = text.find(VOLUMES).filter(|_| text.starts_with('/')) {
            text = format!("<data>{}", &text[at..]);
        }
        without_suffixes(&without_nodes(&text))
    }
}

/// Removes the scheduler's status entry from managedFields: it exists only on pods that were unschedulable once.
fn without_scheduler_status(pod: &Tree) -> Tree {
    let owners = pod.items_at(&["metadata", "managedFields"]).iter();
    let refusal =
        |it: &&Tree| it.str_at(&["manager"]) == SCHEDULER && it.str_at(&["subresource"]) == "status";
    let kept: Vec<Tree> = owners.filter(|it| !refusal(it)).cloned().collect();
    pod.with(&["metadata", "managedFields"], Tree::list(kept))
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    const UID: &str = "0b7e6a4c-8e55-4f6b-9a0e-0f0b7e6a4c8e";

    fn some() -> Objects {
        let job = tree!({"metadata": {"name": "js-w-0", "namespace": "set-1", "uid": UID}});
        let space = |name: &str| ("namespaces".to_owned(), tree!({"metadata": {"name": name, "uid": name}}));
        vec![("jobs".to_owned(), job), space("set-1"), space("set-1-again")]
    }

    #[test]
    fn generated_values_become_placeholders() {
        let names = GeneratedNames::of(&some());
        for (text, want) in [
            (UID, "<uid of jobs js-w-0>"),
            ("js-w-0-0-bcdfg on sim-17 and sim-3", "js-w-0-0-<chance> on <node> and <node>"),
            ("f:k:{\"uid\":\"00000000-0000-4000-8000-000000000000\"}", "f:k:{\"uid\":\"<uid>\"}"),
            ("k:{\"ip\":\"10.1.2.3\"}", "k:{\"ip\":<address>}"),
            ("/tmp/x/volumes/v", "<data>/volumes/v"),
            ("sim-ulated", "sim-ulated"),
        ] {
            assert_eq!(names.words(text), want);
        }
    }

    #[test]
    fn cluster_scoped_objects_belong_to_the_namespace_in_their_name() {
        let names = GeneratedNames::of(&some());
        for (object, want) in [
            (tree!({"metadata": {"name": "a", "namespace": "set-1"}}), "set-1"),
            (tree!({"metadata": {"name": "gpu-set-1"}}), "set-1"),
            (tree!({"metadata": {"name": "gpu-set-1-again"}}), "set-1-again"),
            (tree!({"metadata": {"name": "v"}, "spec": {"claimRef": {"namespace": "set-1"}}}), "set-1"),
            (tree!({"metadata": {"name": "sim-1"}}), ""),
        ] {
            assert_eq!(names.space(&object), want);
        }
    }

    #[test]
    fn the_order_of_reservations_is_ignored() {
        let names = GeneratedNames::of(&some());
        let claim = |pods: [&str; 2]| tree!({"metadata": {"name": "c"}, "status": {"reservedFor": [{"name": pods[0]}, {"name": pods[1]}]}});
        let shown = |claim: Tree| names.object("resourceclaims", &claim).1;
        assert_eq!(shown(claim(["a", "b"])), shown(claim(["b", "a"])));
        assert_ne!(shown(claim(["a", "b"])), shown(claim(["a", "c"])));
    }

    #[test]
    fn the_count_of_suspensions_is_ignored() {
        let names = GeneratedNames::of(&some());
        let event = |reason: &str, count: i64| tree!({"type": "Normal", "reason": reason, "count": count});
        let shown = |reason: &str, count: i64| names.object("events", &event(reason, count)).1;
        assert_eq!(shown("Suspended", 1), shown("Suspended", 2));
        assert_ne!(shown("Completed", 1), shown("Completed", 2));
    }

    #[test]
    fn a_pod_that_was_unschedulable_once_is_equal_to_others() {
        let owner = |manager: &str, part: &str| tree!({"manager": manager, "subresource": part});
        let pod = |owners: Vec<Tree>| tree!({"metadata": {"name": "p", "managedFields": Tree::list(owners)}});
        let plain = || owner("kubelet", "status");
        let refused = pod(vec![plain(), owner(SCHEDULER, "status")]);
        assert_eq!(without_scheduler_status(&refused), pod(vec![plain()]));
    }

    #[test]
    fn of_deleted_objects_only_jobset_events_are_compared() {
        let names = GeneratedNames::of(&some());
        let event = |uid: &str, by: &str, reason: &str| tree!({"involvedObject": {"uid": uid}, "reportingComponent": by, "reason": reason});
        let held = "the Job is that of 00000000-0000-4000-8000-000000000000";
        let held = event(UID, "jobset", "JobCreationFailed").with(&["message"], held);
        for (event, out) in [
            (event(UID, "job-controller", "SuccessfulCreate"), false),
            (event(UID, "scheduler", "FailedScheduling"), true),
            (event("gone", "job-controller", "SuccessfulCreate"), true),
            (event("gone", "jobset", "AllJobsCompleted"), false),
            (held, true),
        ] {
            assert_eq!(is_ignored("events", &event, &names), out, "{}", event.to_json());
        }
    }
}
