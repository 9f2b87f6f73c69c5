//! Everything that a server stores, for two embedded servers on which the same was played and that must hold the very
//! same: every kind that the server lists, every field, who owns which.
//!
//! # Invariants
//!
//! - Nothing is left out but what [`left_out`] names with its reason. What chance and the clock made is replaced by what
//!   it is: a uid by the object that has it; a generated end of a name, an address, an instant and a node by the word.
//! - Objects that are alike but for names of chance are sorted by what is left of them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use muster_tree::{Text, Tree};

use crate::differential::{Server, first_uid, is_time};
use crate::lives::view::without_suffixes;
use crate::lives::whole::without_nodes;

/// What a server stores, by namespace; what has none belongs to the namespace that it names, if it names one.
pub type Stores = BTreeMap<String, Tree>;

/// The folder of volumes in that of a plane.
const VOLUMES: &str = "/volumes/";
/// Where a field set names an address.
const ADDRESS: &str = "k:{\"ip\":";
/// The namespace of an operator that stands beside a server.
const OPERATOR_SPACE: &str = "muster-system";
/// Who places pods that name nobody.
const SCHEDULER: &str = "default-scheduler";
/// Who tells of JobSets.
const REPORTER: &str = "jobset";
/// What is told or not, once or twice, depending on who is quicker: the scheduler and the one who makes volumes, or the
/// clock of the one who waits for them; a pod that came before its claim, or after it.
const BY_THE_CLOCK: [&str; 4] =
    ["FailedScheduling", "WaitForPodScheduled", "WaitForFirstConsumer", "ExternalProvisioning"];
/// What is told once or twice: whether the controller of Jobs sees a pause between two changes is a matter of its clock.
const COUNTED_BY_THE_CLOCK: [&str; 2] = ["Suspended", "Resumed"];
/// Lists whose order is that of instants: of writes, or of pods that came for the same devices.
const ORDERED_BY_THE_CLOCK: [&str; 2] = ["managedFields", "reservedFor"];

/// All objects, with how paths spell their kind.
type Objects = Vec<(String, Tree)>;

/// The kinds that a server lists, each once: in the version its group prefers.
pub struct Kinds(Vec<Kind>);

struct Kind {
    plural: String,
    /// The path of its group and version.
    version: String,
    namespaced: bool,
}

impl Kinds {
    /// Reads the discovery of a server.
    pub fn of(server: &Server) -> Result<Kinds, String> {
        let groups = server.get("/apis")?.body;
        let groups = groups.items_at(&["groups"]).iter();
        let versions =
            groups.map(|group| format!("/apis/{}", group.str_at(&["preferredVersion", "groupVersion"])));
        // The same events once more.
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
        Ok(Kinds(all))
    }

    /// Everything a server stores, without what chance and the clock put in.
    pub fn stores(&self, server: &Server) -> Result<Stores, String> {
        Ok(shown(&self.objects(server, "")?))
    }

    /// What a server stores of one namespace, and of the cluster-scoped objects that belong to it.
    pub fn of_namespace(&self, server: &Server, namespace: &str) -> Result<Tree, String> {
        let place = format!("/namespaces/{namespace}");
        Ok(shown(&self.objects(server, &place)?).remove(namespace).unwrap_or_default())
    }

    /// All objects; of namespaced kinds only those at `place`.
    fn objects(&self, server: &Server, place: &str) -> Result<Objects, String> {
        let mut all = Objects::new();
        for kind in &self.0 {
            let place = if kind.namespaced { place } else { "" };
            let list = server.get(&format!("{}{place}/{}", kind.version, kind.plural))?.body;
            all.extend(list.items_at(&["items"]).iter().map(|object| (kind.plural.clone(), object.clone())));
        }
        Ok(all)
    }
}

fn shown(all: &Objects) -> Stores {
    let names = Names::of(all);
    let mut stores: BTreeMap<String, BTreeMap<String, Vec<Tree>>> = BTreeMap::new();
    for (plural, object) in all.iter().filter(|(plural, object)| !left_out(plural, object, &names)) {
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

/// Whether an object is not compared, and why.
fn left_out(plural: &str, object: &Tree, names: &Names) -> bool {
    let (name, space) = (object.str_at(&["metadata", "name"]), object.str_at(&["metadata", "namespace"]));
    match plural {
        // The authority of the server, which is another's.
        "configmaps" => name == "kube-root-ca.crt",
        // The address of the API server itself: two servers on one host listen on different ports.
        "services" | "endpoints" | "endpointslices" => name == "kubernetes" && space == "default",
        // Made by the server itself where it runs JobSets, by a user where it does not.
        "customresourcedefinitions" => true,
        // What an operator keeps for itself.
        "namespaces" => name == OPERATOR_SPACE,
        "leases" => space == OPERATOR_SPACE,
        // How far somebody came who is gone depends on who was quicker; what JobSets tell of themselves does not.
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

/// What chance named, and what it is called instead.
struct Names {
    uids: BTreeMap<Text, String>,
    spaces: Vec<Text>,
}

impl Names {
    fn of(all: &Objects) -> Names {
        // Nobody names an event by its uid, and its own name is an instant.
        let named = all.iter().filter(|(plural, _)| plural != "events").map(|(plural, object)| {
            let name = without_suffixes(object.str_at(&["metadata", "name"]));
            (object.text_at(&["metadata", "uid"]), format!("<uid of {plural} {name}>"))
        });
        let spaces = all.iter().filter(|(plural, _)| plural == "namespaces");
        let mut spaces: Vec<Text> = spaces.map(|(_, object)| object.text_at(&["metadata", "name"])).collect();
        // One name may begin with another.
        spaces.sort_by_key(|name| std::cmp::Reverse(name.len()));
        Names { uids: named.collect(), spaces }
    }

    /// The namespace that an object belongs to.
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

    /// What an object is filed under, and what is left of it.
    fn object(&self, plural: &str, object: &Tree) -> (String, Tree) {
        let shown = self.tree(object, "");
        match plural {
            "events" => {
                let key =
                    [&["involvedObject", "kind"][..], &["involvedObject", "name"], &["reason"], &["message"]];
                let words = key.map(|path| shown.str_at(path).to_owned());
                let shown = shown.without(&["metadata", "name"]);
                // What failed is tried again by the clock: the one who is asked a moment later has told it more often.
                let chance = shown.str_at(&["type"]) == "Warning"
                    || COUNTED_BY_THE_CLOCK.contains(&shown.str_at(&["reason"]));
                let shown = if chance { shown.without(&["count"]).without(&["series"]) } else { shown };
                (format!("events {}", words.join(" | ")), shown)
            }
            "pods" => (format!("pods {}", shown.str_at(&["metadata", "name"])), never_refused(&shown)),
            "endpointslices" => {
                let mut pods = shown.items_at(&["endpoints"]).to_vec();
                pods.sort_by_key(Tree::to_json);
                // How often it was written depends on how many pods were ready at once.
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
            // Which of several equal devices a claim gets.
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

/// A pod without what the scheduler wrote into its status: who was there before its volume or its devices was refused once.
fn never_refused(pod: &Tree) -> Tree {
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
    fn chance_becomes_words() {
        let names = Names::of(&some());
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
    fn what_has_no_namespace_belongs_to_the_one_it_names() {
        let names = Names::of(&some());
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
    fn who_came_first_is_chance() {
        let names = Names::of(&some());
        let claim = |pods: [&str; 2]| tree!({"metadata": {"name": "c"}, "status": {"reservedFor": [{"name": pods[0]}, {"name": pods[1]}]}});
        let shown = |claim: Tree| names.object("resourceclaims", &claim).1;
        assert_eq!(shown(claim(["a", "b"])), shown(claim(["b", "a"])));
        assert_ne!(shown(claim(["a", "b"])), shown(claim(["a", "c"])));
    }

    #[test]
    fn how_often_a_job_was_paused_is_not_counted() {
        let names = Names::of(&some());
        let event = |reason: &str, count: i64| tree!({"type": "Normal", "reason": reason, "count": count});
        let shown = |reason: &str, count: i64| names.object("events", &event(reason, count)).1;
        assert_eq!(shown("Suspended", 1), shown("Suspended", 2));
        assert_ne!(shown("Completed", 1), shown("Completed", 2));
    }

    #[test]
    fn a_pod_that_was_refused_once_is_like_any_other() {
        let owner = |manager: &str, part: &str| tree!({"manager": manager, "subresource": part});
        let pod = |owners: Vec<Tree>| tree!({"metadata": {"name": "p", "managedFields": Tree::list(owners)}});
        let plain = || owner("kubelet", "status");
        let refused = pod(vec![plain(), owner(SCHEDULER, "status")]);
        assert_eq!(never_refused(&refused), pod(vec![plain()]));
    }

    #[test]
    fn of_who_is_gone_only_what_jobsets_tell_is_compared() {
        let names = Names::of(&some());
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
            assert_eq!(left_out("events", &event, &names), out, "{}", event.to_json());
        }
    }
}
