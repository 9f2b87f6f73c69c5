//! Wipes a used API server: deletes every object that the server does not create itself.
//!
//! No controller runs meanwhile, so nothing is recreated. Finalizers are removed, because their controllers do not run.
//!
//! # Guarantees
//!
//! - Afterwards the server has only its own namespaces, roles, PriorityClasses and Services: no webhook, no aggregated APIService, no
//!   node and no custom object. CRDs are deleted as well unless they may stay.

use std::time::Duration;

use muster_tree::{Tree, tree};

use super::ExistingCrds;
use crate::differential::{ApiClient, HttpAnswer, RequestStep};

/// API groups that tests write. A version that the server does not serve returns 404.
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
/// The server's own namespaces, and those of them to which the server writes.
const OWN_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
const SYSTEM_NAMESPACES: [&str; 2] = ["kube-public", "kube-system"];
/// Kinds that only the server writes.
const SERVER_KINDS: [&str; 2] = ["ipaddresses", "servicecidrs"];
/// Kinds that tests create in the system namespaces.
const MADE_IN_SYSTEM: [&str; 4] = ["events", "pods", "rolebindings", "roles"];
/// Maximum number of passes: the server calls deleted webhooks for a moment, and lists nothing of a kind while its watch cache is being
/// filled.
const PASSES_MAX: u32 = 300;
const PAUSE: Duration = Duration::from_millis(100);

/// Deletes the objects of an earlier control plane; its CRDs, too, unless they may stay.
pub(super) fn wipe(server: &ApiClient, definitions: ExistingCrds) -> Result<(), String> {
    let kinds = kinds(server)?;
    let mut left = Vec::new();
    for _ in 0..PASSES_MAX {
        left = pass(server, &kinds, definitions)?;
        if left.is_empty() {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    Err(format!("{} still exist", left.join(", ")))
}

/// Result of a list: the objects, or the path if the server cannot serve it yet.
enum ListResult {
    Objects(Vec<Tree>),
    NotYet(String),
}

/// A kind that supports `deletecollection`.
struct Kind {
    group: &'static str,
    plural: String,
    namespaced: bool,
}

/// Reads the built-in kinds.
fn kinds(server: &ApiClient) -> Result<Vec<Kind>, String> {
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

/// Deletes everything once; returns the paths of the deleted objects.
fn pass(server: &ApiClient, kinds: &[Kind], definitions: ExistingCrds) -> Result<Vec<String>, String> {
    let mut left = aggregated(server)?;
    // Webhooks first: the server would call them for the other deletions.
    for kind in kinds {
        left.extend(objects(server, kind)?);
    }
    left.extend(custom(server, definitions)?);
    if left.is_empty() {
        left.extend(namespaces(server)?);
    }
    Ok(left)
}

/// Deletes APIServices of aggregated servers.
fn aggregated(server: &ApiClient) -> Result<Vec<String>, String> {
    let mut left = Vec::new();
    let services = match list(server, API_SERVICES)? {
        ListResult::Objects(services) => services,
        ListResult::NotYet(path) => return Ok(vec![path]),
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

/// Deletes the objects of a kind.
fn objects(server: &ApiClient, kind: &Kind) -> Result<Vec<String>, String> {
    let Kind { group, plural, namespaced } = kind;
    if SERVER_KINDS.contains(&plural.as_str()) {
        return Ok(Vec::new());
    }
    let all = match list(server, &format!("{group}/{plural}"))? {
        ListResult::Objects(all) => all,
        ListResult::NotYet(path) => return Ok(vec![path]),
    };
    if plural == "clusterroles" {
        empty_aggregated(server, &all)?;
    }
    let (kept, others): (Vec<Tree>, Vec<Tree>) = all.into_iter().partition(|it| is_server_owned(plural, it));
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

/// Whether the server created an object itself.
fn is_server_owned(plural: &str, object: &Tree) -> bool {
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

/// Empties aggregated ClusterRoles, as they are on a new server before a controller fills them.
fn empty_aggregated(server: &ApiClient, roles: &[Tree]) -> Result<(), String> {
    let is_filled = |it: &&Tree| it.get("aggregationRule").is_some() && !it.items_at(&["rules"]).is_empty();
    for role in roles.iter().filter(is_filled) {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{}", name(role));
        patch(server, &path, &tree!({"rules": null}))?;
    }
    Ok(())
}

/// Deletes custom objects, and the CRDs.
fn custom(server: &ApiClient, definitions: ExistingCrds) -> Result<Vec<String>, String> {
    let mut left = Vec::new();
    let all = match list(server, DEFINITIONS)? {
        ListResult::Objects(all) => all,
        ListResult::NotYet(path) => return Ok(vec![path]),
    };
    for definition in all {
        let path = format!("{DEFINITIONS}/{}", name(&definition));
        if definition.str_at(&["spec", "conversion", "strategy"]) == "Webhook" {
            patch(server, &path, &tree!({"spec": {"conversion": {"strategy": "None", "webhook": null}}}))?;
            left.push(path.clone());
        }
        left.extend(instances(server, &definition)?);
        if definitions == ExistingCrds::Absent {
            delete(server, &path)?;
            left.push(path);
        }
    }
    Ok(left)
}

/// Deletes the objects of a CRD.
fn instances(server: &ApiClient, definition: &Tree) -> Result<Vec<String>, String> {
    let versions = definition.items_at(&["spec", "versions"]);
    let stored = versions.iter().find(|it| it.bool_at(&["storage"]) == Some(true));
    let version = stored.map(|it| it.str_at(&["name"])).unwrap_or_default();
    let plural = definition.str_at(&["spec", "names", "plural"]);
    let group = format!("/apis/{}/{version}", definition.str_at(&["spec", "group"]));
    let all = match list(server, &format!("{group}/{plural}"))? {
        ListResult::Objects(all) => all,
        ListResult::NotYet(path) => return Ok(vec![path]),
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

/// Deletes and finalizes namespaces, which are empty by now.
fn namespaces(server: &ApiClient) -> Result<Vec<String>, String> {
    let mut left = Vec::new();
    let all = match list(server, NAMESPACES)? {
        ListResult::Objects(all) => all,
        ListResult::NotYet(path) => return Ok(vec![path]),
    };
    for namespace in all {
        if OWN_NAMESPACES.contains(&name(&namespace)) {
            continue;
        }
        let path = format!("{NAMESPACES}/{}", name(&namespace));
        delete(server, &path)?;
        let finalized =
            namespace.with(&["spec"], tree!({"finalizers": []})).without(&["metadata", "resourceVersion"]);
        let answer = server.send(
            "PUT",
            &format!("{path}/finalize"),
            &RequestStep::default(),
            finalized.to_json_bytes(),
        )?;
        if answer.code != 404 {
            tolerated(answer)?;
        }
        left.push(path);
    }
    Ok(left)
}

/// Removes the finalizers of an object: their controllers do not run.
fn release(server: &ApiClient, path: &str, object: &Tree) -> Result<(), String> {
    if object.items_at(&["metadata", "finalizers"]).is_empty() {
        return Ok(());
    }
    patch(server, path, &tree!({"metadata": {"finalizers": null}}))
}

fn patch(server: &ApiClient, path: &str, change: &Tree) -> Result<(), String> {
    let step = RequestStep { kind: "merge".into(), ..RequestStep::default() };
    tolerated(server.send("PATCH", path, &step, change.to_json_bytes())?)
}

/// Deletes an object or a collection without grace period and without waiting for dependents.
fn delete(server: &ApiClient, path: &str) -> Result<(), String> {
    let path = format!("{path}?gracePeriodSeconds=0&propagationPolicy=Background");
    tolerated(server.send("DELETE", &path, &RequestStep::default(), Vec::new())?)
}

/// Lists the objects at a path. A terminating CRD is not served any more.
fn list(server: &ApiClient, path: &str) -> Result<ListResult, String> {
    let answer = server.get(path)?;
    match answer.code {
        404 => Ok(ListResult::Objects(Vec::new())),
        429 | 500 | 503 => Ok(ListResult::NotYet(path.to_owned())),
        _ => Ok(ListResult::Objects(done(answer)?.body.items_at(&["items"]).to_vec())),
    }
}

fn name(object: &Tree) -> &str {
    object.str_at(&["metadata", "name"])
}

fn done(answer: HttpAnswer) -> Result<HttpAnswer, String> {
    if answer.code < 300 { Ok(answer) } else { Err(answer.body.to_json()) }
}

/// Ignores errors that the next pass resolves: the object is gone or has changed, or a deleted webhook was called.
fn tolerated(answer: HttpAnswer) -> Result<(), String> {
    if matches!(answer.code, 404 | 409 | 429 | 500 | 503) { Ok(()) } else { done(answer).map(drop) }
}
