//! Makes a used API server as new: deletes every object that did not come with it.
//!
//! No controller runs meanwhile, so that nothing comes back, and no finalizer is waited for: they are removed.
//!
//! # Guarantees
//!
//! - Afterwards the server has its own namespaces, roles, priorities and Services and nothing else: no webhook, no APIService of
//!   another server, no node, and no object of a CRD. The CRDs themselves go as well unless they may be left.

use std::time::Duration;

use muster_tree::{Tree, tree};

use super::Definitions;
use crate::differential::{Answer, Server, Step};

/// The groups that tests write, each in a version that every server has or answers with 404.
const GROUPS: [&str; 15] = [
    "/apis/admissionregistration.k8s.io/v1",
    "/api/v1",
    "/apis/apps/v1",
    "/apis/autoscaling/v2",
    "/apis/batch/v1",
    "/apis/certificates.k8s.io/v1",
    "/apis/coordination.k8s.io/v1",
    "/apis/discovery.k8s.io/v1",
    "/apis/networking.k8s.io/v1",
    "/apis/policy/v1",
    "/apis/rbac.authorization.k8s.io/v1",
    "/apis/resource.k8s.io/v1",
    "/apis/scheduling.k8s.io/v1",
    "/apis/scheduling.k8s.io/v1beta1",
    "/apis/storage.k8s.io/v1",
];
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const NAMESPACES: &str = "/api/v1/namespaces";
/// The namespaces of every server, and those of them that hold what the server itself writes.
const OWN_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
const SYSTEM_NAMESPACES: [&str; 2] = ["kube-public", "kube-system"];
/// Kinds that the server keeps by itself.
const KEPT_KINDS: [&str; 2] = ["ipaddresses", "servicecidrs"];
/// Kinds of which tests make some in the namespaces of the system.
const MADE_IN_SYSTEM: [&str; 4] = ["events", "pods", "rolebindings", "roles"];
/// Looks until nothing is left, at most: a server believes for a moment in webhooks that are gone, and lists nothing of a kind
/// whose watch cache it fills.
const PASSES_MAX: u32 = 300;
const PAUSE: Duration = Duration::from_millis(100);

/// Deletes what an earlier plane has left, its CRDs too unless they may stay.
pub(super) fn wipe(server: &Server, definitions: Definitions) -> Result<(), String> {
    let kinds = kinds(server)?;
    let mut left = Vec::new();
    for _ in 0..PASSES_MAX {
        left = pass(server, &kinds, definitions)?;
        if left.is_empty() {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    Err(format!("{} are still there", left.join(", ")))
}

/// What is at a path: the objects, or that the server cannot tell yet.
enum Found {
    Objects(Vec<Tree>),
    NotYet(String),
}

/// A kind of objects that can be deleted together.
struct Kind {
    group: &'static str,
    plural: String,
    namespaced: bool,
}

/// The kinds of the server's own groups.
fn kinds(server: &Server) -> Result<Vec<Kind>, String> {
    let mut all = Vec::new();
    for group in GROUPS {
        let answer = server.get(group)?;
        if answer.code == 404 {
            continue;
        }
        let resources = done(answer)?.body;
        let deletable = |it: &&Tree| it.items_at(&["verbs"]).contains(&Tree::from("deletecollection"));
        all.extend(resources.items_at(&["resources"]).iter().filter(deletable).map(|it| Kind {
            group,
            plural: it.str_at(&["name"]).to_owned(),
            namespaced: it.bool_at(&["namespaced"]) == Some(true),
        }));
    }
    Ok(all)
}

/// Deletes what is there; the paths of what was.
fn pass(server: &Server, kinds: &[Kind], definitions: Definitions) -> Result<Vec<String>, String> {
    let mut left = aggregated(server)?;
    // Webhooks come first of all: they would be called for the others.
    for kind in kinds {
        left.extend(objects(server, kind)?);
    }
    left.extend(custom(server, definitions)?);
    if left.is_empty() {
        left.extend(namespaces(server)?);
    }
    Ok(left)
}

/// Groups that another server answers for.
fn aggregated(server: &Server) -> Result<Vec<String>, String> {
    let mut left = Vec::new();
    let services = match list(server, API_SERVICES)? {
        Found::Objects(services) => services,
        Found::NotYet(path) => return Ok(vec![path]),
    };
    for service in services {
        if service.at(&["spec", "service"]).is_some_and(Tree::is_map) {
            let path = format!("{API_SERVICES}/{}", name(&service));
            delete(server, &path)?;
            left.push(path);
        }
    }
    Ok(left)
}

/// The objects of a kind.
fn objects(server: &Server, kind: &Kind) -> Result<Vec<String>, String> {
    let Kind { group, plural, namespaced } = kind;
    if KEPT_KINDS.contains(&plural.as_str()) {
        return Ok(Vec::new());
    }
    let all = match list(server, &format!("{group}/{plural}"))? {
        Found::Objects(all) => all,
        Found::NotYet(path) => return Ok(vec![path]),
    };
    if plural == "clusterroles" {
        empty_aggregated(server, &all)?;
    }
    let (kept, others): (Vec<Tree>, Vec<Tree>) = all.into_iter().partition(|it| is_kept(plural, it));
    let folder = |object: &Tree| match object.str_at(&["metadata", "namespace"]) {
        space if *namespaced => format!("{group}/namespaces/{space}/{plural}"),
        _ => format!("{group}/{plural}"),
    };
    let mut folders: Vec<String> = others.iter().map(folder).collect();
    folders.dedup();
    let mut left = Vec::new();
    for object in &others {
        let path = format!("{}/{}", folder(object), name(object));
        release(server, &path, object)?;
        left.push(path);
    }
    for (at, object) in left.iter().zip(&others) {
        if kept.iter().any(|it| folder(it) == folder(object)) {
            delete(server, at)?;
        }
    }
    for folder in folders.iter().filter(|it| !kept.iter().any(|kept| folder(kept) == **it)) {
        delete(server, folder)?;
    }
    Ok(left)
}

/// Whether an object came with the server.
fn is_kept(plural: &str, object: &Tree) -> bool {
    let space = object.str_at(&["metadata", "namespace"]);
    let (name, labels) = (name(object), object.at(&["metadata", "labels"]));
    let bootstrapped = labels.is_some_and(|it| it.get("kubernetes.io/bootstrapping").is_some());
    if SYSTEM_NAMESPACES.contains(&space) {
        return bootstrapped || !MADE_IN_SYSTEM.contains(&plural);
    }
    let of_the_server = matches!(plural, "services" | "endpoints" | "endpointslices") && name == "kubernetes";
    let of_the_system = matches!(plural, "clusterroles" | "clusterrolebindings" | "priorityclasses")
        && (name.starts_with("system:") || name.starts_with("system-"));
    bootstrapped || (of_the_server && space == "default") || of_the_system
}

/// Roles that are put together of others are empty until a controller does so.
fn empty_aggregated(server: &Server, roles: &[Tree]) -> Result<(), String> {
    let is_filled = |it: &&Tree| it.get("aggregationRule").is_some() && !it.items_at(&["rules"]).is_empty();
    for role in roles.iter().filter(is_filled) {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{}", name(role));
        patch(server, &path, &tree!({"rules": null}))?;
    }
    Ok(())
}

/// Objects of CRDs, and the CRDs.
fn custom(server: &Server, definitions: Definitions) -> Result<Vec<String>, String> {
    let mut left = Vec::new();
    let all = match list(server, DEFINITIONS)? {
        Found::Objects(all) => all,
        Found::NotYet(path) => return Ok(vec![path]),
    };
    for definition in all {
        let path = format!("{DEFINITIONS}/{}", name(&definition));
        if definition.str_at(&["spec", "conversion", "strategy"]) == "Webhook" {
            patch(server, &path, &tree!({"spec": {"conversion": {"strategy": "None", "webhook": null}}}))?;
            left.push(path.clone());
        }
        left.extend(instances(server, &definition)?);
        if definitions == Definitions::Absent {
            delete(server, &path)?;
            left.push(path);
        }
    }
    Ok(left)
}

/// The objects of a CRD.
fn instances(server: &Server, definition: &Tree) -> Result<Vec<String>, String> {
    let versions = definition.items_at(&["spec", "versions"]);
    let stored = versions.iter().find(|it| it.bool_at(&["storage"]) == Some(true));
    let version = stored.map(|it| it.str_at(&["name"])).unwrap_or_default();
    let plural = definition.str_at(&["spec", "names", "plural"]);
    let group = format!("/apis/{}/{version}", definition.str_at(&["spec", "group"]));
    let all = match list(server, &format!("{group}/{plural}"))? {
        Found::Objects(all) => all,
        Found::NotYet(path) => return Ok(vec![path]),
    };
    let mut left = Vec::new();
    for object in all {
        let path = match object.str_at(&["metadata", "namespace"]) {
            "" => format!("{group}/{plural}/{}", name(&object)),
            space => format!("{group}/namespaces/{space}/{plural}/{}", name(&object)),
        };
        release(server, &path, &object)?;
        delete(server, &path)?;
        left.push(path);
    }
    Ok(left)
}

/// Namespaces, which are empty by now: what their controller would look at has been looked at.
fn namespaces(server: &Server) -> Result<Vec<String>, String> {
    let mut left = Vec::new();
    let all = match list(server, NAMESPACES)? {
        Found::Objects(all) => all,
        Found::NotYet(path) => return Ok(vec![path]),
    };
    for namespace in all {
        if OWN_NAMESPACES.contains(&name(&namespace)) {
            continue;
        }
        let path = format!("{NAMESPACES}/{}", name(&namespace));
        delete(server, &path)?;
        let finalized =
            namespace.with(&["spec"], tree!({"finalizers": []})).without(&["metadata", "resourceVersion"]);
        let answer =
            server.send("PUT", &format!("{path}/finalize"), &Step::default(), finalized.to_json_bytes())?;
        if answer.code != 404 {
            tolerated(answer)?;
        }
        left.push(path);
    }
    Ok(left)
}

/// Removes the finalizers of an object: what they wait for does not run.
fn release(server: &Server, path: &str, object: &Tree) -> Result<(), String> {
    if object.items_at(&["metadata", "finalizers"]).is_empty() {
        return Ok(());
    }
    patch(server, path, &tree!({"metadata": {"finalizers": null}}))
}

fn patch(server: &Server, path: &str, change: &Tree) -> Result<(), String> {
    let step = Step { kind: "merge".into(), ..Step::default() };
    tolerated(server.send("PATCH", path, &step, change.to_json_bytes())?)
}

/// Deletes an object, or all of a folder, at once and without waiting for what it owns.
fn delete(server: &Server, path: &str) -> Result<(), String> {
    let path = format!("{path}?gracePeriodSeconds=0&propagationPolicy=Background");
    tolerated(server.send("DELETE", &path, &Step::default(), Vec::new())?)
}

/// Lists what is at a path. A CRD that is being deleted is not served any more.
fn list(server: &Server, path: &str) -> Result<Found, String> {
    let answer = server.get(path)?;
    match answer.code {
        404 => Ok(Found::Objects(Vec::new())),
        429 | 500 | 503 => Ok(Found::NotYet(path.to_owned())),
        _ => Ok(Found::Objects(done(answer)?.body.items_at(&["items"]).to_vec())),
    }
}

fn name(object: &Tree) -> &str {
    object.str_at(&["metadata", "name"])
}

fn done(answer: Answer) -> Result<Answer, String> {
    if answer.code < 300 { Ok(answer) } else { Err(answer.body.to_json()) }
}

/// What fails is tried again by the next pass: the object is gone, has changed, or a webhook that is gone was called.
fn tolerated(answer: Answer) -> Result<(), String> {
    if matches!(answer.code, 404 | 409 | 429 | 500 | 503) { Ok(()) } else { done(answer).map(drop) }
}
