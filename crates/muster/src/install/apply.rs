//! Applies the manifests, object by object.

use std::fmt;
use std::time::Duration;

use muster_api::client::{ApiError, ApiObject, Preconditions, RequestVerb};
use muster_api::condition;
use muster_api::kinds;
use muster_install::training::is_runtime;
use muster_install::webhooks::{namespace_scope, replace_webhooks_patch};
use muster_install::{conversion, kind_of, names};
use muster_tree::{Text, Tree, tree};

use super::InstallError;
use super::cluster_client::{InstallClient, find, is_installed, kubectl_name, request, uid_precondition};

/// The polls until a CRD must be established: 300 every 200 ms are 1 minute.
const SERVED_TRIES: u32 = 300;
const SERVED_PAUSE: Duration = Duration::from_millis(200);

/// The result of a training runtime if its validating webhook does not answer; part of the output of `-o`.
pub const NOT_VALIDATED: &str = "unjudged";

/// The fields of a webhook that select which writes it is called for.
const SELECTS: [&str; 4] = ["rules", "matchConditions", "namespaceSelector", "objectSelector"];

/// The path of the conversion webhook in a CRD.
const CONVERSION: [&str; 2] = ["spec", "conversion"];

/// The result of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedObject {
    /// The object as kubectl names it.
    pub object: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// `created`, `configured`, `unchanged`, `removed` and so on.
    pub result: &'static str,
    /// A detail for the user, such as a setting that was overwritten.
    pub note: Option<String>,
}

impl AppliedObject {
    /// This became of an object.
    pub fn of(object: &Tree, became: &'static str) -> AppliedObject {
        let kind = kind_of(object);
        let namespace = object.str_at(&["metadata", "namespace"]).to_owned();
        AppliedObject { object: kubectl_name(kind, object), namespace, result: became, note: None }
    }

    pub fn tree(&self) -> Tree {
        let told = tree!({"object": (self.object.as_str()), "result": self.result});
        let told = match self.namespace.as_str() {
            "" => told,
            namespace => told.with(&["namespace"], namespace),
        };
        self.note.iter().fold(told, |told, note| told.with(&["note"], note.as_str()))
    }
}

impl fmt::Display for AppliedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.object, self.result)?;
        self.note.iter().try_for_each(|note| write!(f, " ({note})"))
    }
}

fn act(object: &Tree) -> RequestVerb {
    RequestVerb::Apply { body: object.clone(), force: true }
}

/// Applies all objects with `dryRun=All`, to find missing permissions before anything is written.
///
/// # Errors
/// The objects that RBAC forbids, or a server that drops `matchConditions`.
pub async fn dry_run_all(plane: &impl InstallClient, all: &[Tree]) -> Result<(), InstallError> {
    let mut forbidden = Vec::new();
    for object in all {
        // Other errors are ignored: a dry run also fails if the namespace or the CRD of an object is not created yet. A
        // real problem shows when the object is written.
        match plane.dry_run(&request(object, Preconditions::default(), act(object))).await {
            Err(ApiError::Forbidden(why)) => {
                forbidden.push(format!("  {}: {why}", kubectl_name(kind_of(object), object)));
            }
            Ok(would_be) if drops_conditions(object, &would_be.tree) => {
                return Err(InstallError::MatchConditionsDropped(kubectl_name(kind_of(object), object)));
            }
            _ => {}
        }
    }
    match forbidden.is_empty() {
        true => Ok(()),
        false => Err(InstallError::Forbidden(forbidden.join("\n"))),
    }
}

/// Whether the server drops `matchConditions`.
fn drops_conditions(object: &Tree, would_be: &Tree) -> bool {
    let has = |of: &Tree| of.items_at(&["webhooks"]).iter().any(|it| it.get("matchConditions").is_some());
    has(object) && !has(would_be)
}

/// Applies one object; of a CRD, waits until it is established.
///
/// # Errors
/// The server rejects the object.
pub async fn apply(plane: &impl InstallClient, object: &Tree) -> Result<AppliedObject, InstallError> {
    let name = kubectl_name(kind_of(object), object);
    let refused = |why: ApiError| InstallError::refused(&name, &why);
    let before = find(plane, object).await.map_err(refused)?;
    if let Some(note) = before.as_ref().and_then(|there| foreign_owner_note(object, &there.tree)) {
        return Ok(AppliedObject { note: Some(note.to_owned()), ..AppliedObject::of(object, "unchanged") });
    }
    if let Some(there) = before.as_ref().filter(|there| has_other_hooks(object, &there.tree)) {
        replace_hooks(plane, object, &there.tree).await.map_err(refused)?;
    }
    if let Some(there) = before.as_ref().filter(|there| converts_by_address(object, &there.tree)) {
        let by = object.at(&CONVERSION).cloned().unwrap_or_default();
        let patch = RequestVerb::MergePatch(conversion::conversion_patch(&by));
        plane.perform(&request(object, uid_precondition(&there.tree), patch)).await.map_err(refused)?;
    }
    // A webhook configuration or conversion that cannot be merged is replaced above; the apply then takes ownership of
    // its fields.
    let mut after = match write(plane, object).await {
        // On a first install the validating webhook of runtimes is registered before its pods are ready. The runtime is
        // reported and the installation goes on, so that the rest does not depend on the order of the start.
        Err(why @ (ApiError::Indeterminate(_) | ApiError::TooManyRequests { .. })) if is_runtime(object) => {
            return Ok(AppliedObject {
                note: Some(why.message()),
                ..AppliedObject::of(object, NOT_VALIDATED)
            });
        }
        written => written.map_err(refused)?,
    };
    if !has_wanted_scope(object, &after.tree) {
        after = replace_hooks(plane, object, &after.tree).await.map_err(refused)?;
    }
    if kind_of(object) == &kinds::CRDS {
        wait_until_established(plane, object, after.clone()).await?;
    }
    let became = match &before {
        None => "created",
        Some(before) if before.revision == after.revision => "unchanged",
        Some(_) => "configured",
    };
    let note = before.and_then(|before| overwritten_note(&before, &after));
    Ok(AppliedObject { note, ..AppliedObject::of(object, became) })
}

/// Applies an object. A training runtime is retried on 404: its CRD may have been created just before and not be served
/// yet.
async fn write(plane: &impl InstallClient, object: &Tree) -> Result<ApiObject, ApiError> {
    let mut tries = 0;
    loop {
        match plane.perform(&request(object, Preconditions::default(), act(object))).await {
            Err(ApiError::NotFound(_)) if is_runtime(object) && tries < SERVED_TRIES => tries += 1,
            written => return written,
        }
        tokio::time::sleep(SERVED_PAUSE).await;
    }
}

/// The reason why an existing object that we did not install is not changed. A user's namespace may contain other pods,
/// to which the pod security labels of ours must not apply. A user's runtime is what the user's TrainJobs rely on.
fn foreign_owner_note(object: &Tree, there: &Tree) -> Option<&'static str> {
    let is_space = kind_of(object) == &kinds::NAMESPACES;
    match object.str_at(&["metadata", "name"]) {
        _ if is_installed(there) => None,
        names::NAMESPACE if is_space => None,
        _ if is_space => Some("it was there before, and its labels are left to its owner"),
        _ if is_runtime(object) => Some("it was there before, and is left to its owner"),
        _ => None,
    }
}

/// Whether the stored CRD has a conversion webhook with a URL, of an operator outside the cluster. Our Service reference
/// cannot be merged into it: a client config has either a URL or a Service.
fn converts_by_address(object: &Tree, there: &Tree) -> bool {
    let by_address = there.at(&["spec", "conversion", "webhook", "clientConfig", "url"]).is_some();
    by_address && object.at(&CONVERSION).is_some()
}

/// Whether the stored configuration has webhooks of another controller, of an operator outside the cluster, or of an
/// earlier version. Server-side apply would merge ours with them, so they are replaced instead.
fn has_other_hooks(object: &Tree, there: &Tree) -> bool {
    let names = |it: &Tree| -> Vec<Text> {
        it.items_at(&["webhooks"]).iter().map(|hook| hook.text_at(&["name"])).collect()
    };
    let ours = names(object);
    let is_other = |name: &Text| !ours.contains(name) && !namespace_scope::is_scoped(name);
    !ours.is_empty() && (!is_installed(there) || names(there).iter().any(is_other))
}

/// Replaces all webhooks of the stored configuration with ours. The `caBundle` of an earlier version of ours is kept:
/// without it the API server would reject every JobSet until a leader is elected and writes the bundle again.
async fn replace_hooks(
    plane: &impl InstallClient,
    object: &Tree,
    there: &Tree,
) -> Result<ApiObject, ApiError> {
    let hooks = with_trust(object, there);
    plane
        .perform(&request(
            object,
            uid_precondition(there),
            RequestVerb::MergePatch(replace_webhooks_patch(hooks, &Tree::Null)),
        ))
        .await
}

/// Our webhooks, each with the `caBundle` of the stored one of the same name, if we installed that one.
fn with_trust(object: &Tree, there: &Tree) -> Tree {
    let trust = ["clientConfig", "caBundle"];
    let former = if is_installed(there) { there.items_at(&["webhooks"]) } else { &[] };
    let trusted = |hook: &Tree| {
        let same = former.iter().find(|it| it.str_at(&["name"]) == hook.str_at(&["name"]));
        same.and_then(|it| it.at(&trust)).cloned()
    };
    let keep = |hook: &Tree| match trusted(hook) {
        Some(bundle) => hook.with(&trust, bundle),
        None => hook.clone(),
    };
    object.get("webhooks").map(|all| all.map_items(|_, hook| keep(hook))).unwrap_or_default()
}

/// Whether the stored webhooks are called for exactly the writes that ours should be. Server-side apply keeps a
/// condition or selector that another field manager owns, left over from an earlier version or a take-over; it would
/// exempt writes from validation. Webhooks that the operator itself maintains are ignored.
fn has_wanted_scope(object: &Tree, there: &Tree) -> bool {
    let wanted = object.items_at(&["webhooks"]);
    let found =
        there.items_at(&["webhooks"]).iter().filter(|it| !namespace_scope::is_scoped(it.str_at(&["name"])));
    let found: Vec<&Tree> = found.collect();
    let same = |hook: &Tree, it: &Tree| {
        let part = |of: &Tree, key| of.get(key).filter(|part| **part != tree!({})).cloned();
        let name = hook.str_at(&["name"]) == it.str_at(&["name"]);
        name && SELECTS.iter().all(|key| part(hook, key) == part(it, key))
    };
    wanted.len() == found.len() && wanted.iter().all(|hook| found.iter().any(|it| same(hook, it)))
}

/// A note about an image or replica count that a user had changed and this apply overwrote.
fn overwritten_note(before: &ApiObject, after: &ApiObject) -> Option<String> {
    let image = |it: &ApiObject| {
        let containers = it.tree.items_at(&["spec", "template", "spec", "containers"]);
        containers.first().map(|one| one.text_at(&["image"]))
    };
    let replicas = |it: &ApiObject| it.tree.int_at(&["spec", "replicas"]);
    let (old, new) = ((image(before), replicas(before)), (image(after), replicas(after)));
    let mut notes = Vec::new();
    if let ((Some(old), _), (Some(new), _)) = (&old, &new)
        && old != new
    {
        notes.push(format!("image was {old}, and is {new}"));
    }
    if let ((_, Some(old)), (_, Some(new))) = (&old, &new)
        && old != new
    {
        notes.push(format!("replicas were {old}, and are {new}: `--replicas` keeps them"));
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

async fn wait_until_established(
    plane: &impl InstallClient,
    object: &Tree,
    mut seen: ApiObject,
) -> Result<(), InstallError> {
    let name = kubectl_name(kind_of(object), object);
    for _ in 0..SERVED_TRIES {
        if condition::is_true(seen.tree.items_at(&["status", "conditions"]), "Established") {
            return Ok(());
        }
        tokio::time::sleep(SERVED_PAUSE).await;
        let look = plane.perform(&request(object, Preconditions::default(), RequestVerb::Get)).await;
        seen = look.map_err(|why| InstallError::refused(&name, &why))?;
    }
    let told = seen.tree.at(&["status", "conditions"]).map_or_else(|| "nothing".to_owned(), Tree::to_json);
    Err(InstallError::NotServed(name, told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_of_a_former_version_keep_whom_they_trust() {
        let ours = tree!({"webhooks": [{"name": "a", "rules": []}, {"name": "b"}]});
        let theirs =
            tree!({"webhooks": [{"name": "a", "clientConfig": {"caBundle": "x"}, "rules": ["old"]}]});
        let (key, value) = muster_install::MANAGED_BY_LABEL;
        let former = theirs.with(&["metadata", "labels", key], value);
        let kept = tree!([{"name": "a", "rules": [], "clientConfig": {"caBundle": "x"}}, {"name": "b"}]);
        assert_eq!(with_trust(&ours, &former), kept);
        assert_eq!(
            Some(&with_trust(&ours, &theirs)),
            ours.get("webhooks"),
            "a stranger's authority is no use"
        );
    }

    #[test]
    fn what_narrows_a_hook_and_is_not_wanted_is_seen() {
        let hook = |more: Tree| tree!({"name": "a", "rules": [{"operations": ["CREATE"]}]}).merge(&more);
        let of = |hooks: &[Tree]| tree!({"webhooks": Tree::list(hooks.to_vec())});
        let wanted = of(&[hook(tree!({}))]);
        let filled =
            tree!({"namespaceSelector": {}, "objectSelector": {}, "clientConfig": {"caBundle": "x"}});
        for (says, found, want) in [
            ("as the server fills it in", vec![hook(filled)], true),
            ("a condition", vec![hook(tree!({"matchConditions": [{"name": "old"}]}))], false),
            ("a selector", vec![hook(tree!({"objectSelector": {"matchLabels": {"a": "b"}}}))], false),
            ("other rules", vec![hook(tree!({"rules": []}))], false),
            ("one more", vec![hook(tree!({})), hook(tree!({"name": "b"}))], false),
            ("none", vec![], false),
        ] {
            assert_eq!(has_wanted_scope(&wanted, &of(&found)), want, "{says}");
        }
        assert!(
            has_wanted_scope(&tree!({"kind": "Service"}), &tree!({"kind": "Service"})),
            "no hooks at all"
        );
    }
}
