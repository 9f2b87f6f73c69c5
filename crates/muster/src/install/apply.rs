//! Writes what is installed, object by object.

use std::fmt;
use std::time::Duration;

use muster_api::condition;
use muster_api::kinds;
use muster_api::port::{Act, Guard, Object, Refusal};
use muster_install::hooks::{everybody, instead};
use muster_install::training::is_runtime;
use muster_install::{conversion, kind_of, names};
use muster_tree::{Text, Tree, tree};

use super::InstallError;
use super::plane::{Plane, call, find, is_installed, itself, named};

/// How often it is looked whether a definition is served, and how long apart.
const SERVED_TRIES: u32 = 300;
const SERVED_PAUSE: Duration = Duration::from_millis(200);

/// What becomes of a runtime that nobody judges now.
pub const UNJUDGED: &str = "unjudged";

/// What says about which writes a hook is asked.
const SELECTS: [&str; 4] = ["rules", "matchConditions", "namespaceSelector", "objectSelector"];

/// Where a definition says who converts.
const CONVERSION: [&str; 2] = ["spec", "conversion"];

/// What became of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The object as kubectl names it.
    pub object: String,
    /// Its namespace, if it has one.
    pub namespace: String,
    /// What became of it, in one word.
    pub became: &'static str,
    /// What there is to know besides.
    pub note: Option<String>,
}

impl Done {
    /// This became of an object.
    pub fn of(object: &Tree, became: &'static str) -> Done {
        let kind = kind_of(object);
        let namespace = object.str_at(&["metadata", "namespace"]).to_owned();
        Done { object: named(kind, object), namespace, became, note: None }
    }

    pub fn tree(&self) -> Tree {
        let told = tree!({"object": (self.object.as_str()), "result": self.became});
        let told = match self.namespace.as_str() {
            "" => told,
            namespace => told.with(&["namespace"], namespace),
        };
        self.note.iter().fold(told, |told, note| told.with(&["note"], note.as_str()))
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.object, self.became)?;
        self.note.iter().try_for_each(|note| write!(f, " ({note})"))
    }
}

fn act(object: &Tree) -> Act {
    Act::Apply { body: object.clone(), force: true }
}

/// Finds out whether all of it may be written.
///
/// # Errors
/// What may not.
pub async fn rehearse(plane: &impl Plane, all: &[Tree]) -> Result<(), InstallError> {
    let mut forbidden = Vec::new();
    for object in all {
        // What else is wrong may be so because the namespace or what was there before is; it shows when it is written.
        match plane.rehearse(&call(object, Guard::default(), act(object))).await {
            Err(Refusal::Forbidden(why)) => {
                forbidden.push(format!("  {}: {why}", named(kind_of(object), object)));
            }
            Ok(would_be) if drops_conditions(object, &would_be.tree) => {
                return Err(InstallError::NoConditions(named(kind_of(object), object)));
            }
            _ => {}
        }
    }
    match forbidden.is_empty() {
        true => Ok(()),
        false => Err(InstallError::Forbidden(forbidden.join("\n"))),
    }
}

/// Whether a server keeps nothing of what says when a hook is asked.
fn drops_conditions(object: &Tree, would_be: &Tree) -> bool {
    let has = |of: &Tree| of.items_at(&["webhooks"]).iter().any(|it| it.get("matchConditions").is_some());
    has(object) && !has(would_be)
}

/// Writes one object, and waits until it is of use.
///
/// # Errors
/// The server refuses.
pub async fn apply(plane: &impl Plane, object: &Tree) -> Result<Done, InstallError> {
    let name = named(kind_of(object), object);
    let refused = |why: Refusal| InstallError::refused(&name, &why);
    let before = find(plane, object).await.map_err(refused)?;
    if let Some(note) = before.as_ref().and_then(|there| is_anothers(object, &there.tree)) {
        return Ok(Done { note: Some(note.to_owned()), ..Done::of(object, "unchanged") });
    }
    if let Some(there) = before.as_ref().filter(|there| has_other_hooks(object, &there.tree)) {
        replace_hooks(plane, object, &there.tree).await.map_err(refused)?;
    }
    if let Some(there) = before.as_ref().filter(|there| converts_by_address(object, &there.tree)) {
        let by = object.at(&CONVERSION).cloned().unwrap_or_default();
        let patch = Act::Merge(conversion::instead(&by));
        plane.perform(&call(object, itself(&there.tree), patch)).await.map_err(refused)?;
    }
    let mut after = match write(plane, object).await {
        // A webhook that is not reached says neither yes nor no.
        Err(why @ (Refusal::Unknown(_) | Refusal::Busy { .. })) if is_runtime(object) => {
            return Ok(Done { note: Some(why.words()), ..Done::of(object, UNJUDGED) });
        }
        written => written.map_err(refused)?,
    };
    if !asks_as_wanted(object, &after.tree) {
        after = replace_hooks(plane, object, &after.tree).await.map_err(refused)?;
    }
    if kind_of(object) == &kinds::CRDS {
        established(plane, object, after.clone()).await?;
    }
    let became = match &before {
        None => "created",
        Some(before) if before.revision == after.revision => "unchanged",
        Some(_) => "configured",
    };
    let note = before.and_then(|before| overwritten(&before, &after));
    Ok(Done { note, ..Done::of(object, became) })
}

/// Applies an object. Of a kind that was just defined nothing may be known yet.
async fn write(plane: &impl Plane, object: &Tree) -> Result<Object, Refusal> {
    let mut tries = 0;
    loop {
        match plane.perform(&call(object, Guard::default(), act(object))).await {
            Err(Refusal::NotFound(_)) if is_runtime(object) && tries < SERVED_TRIES => tries += 1,
            written => return written,
        }
        tokio::time::sleep(SERVED_PAUSE).await;
    }
}

/// What is another's, and why it is left alone. A namespace of somebody's own choosing may hold other pods: what they are
/// held to is not ours to say. TrainJobs of a runtime want what its owner wrote.
fn is_anothers(object: &Tree, there: &Tree) -> Option<&'static str> {
    let is_space = kind_of(object) == &kinds::NAMESPACES;
    match object.str_at(&["metadata", "name"]) {
        _ if is_installed(there) => None,
        names::NAMESPACE if is_space => None,
        _ if is_space => Some("it was there before, and its labels are left to its owner"),
        _ if is_runtime(object) => Some("it was there before, and is left to its owner"),
        _ => None,
    }
}

/// Versions are asked for at an operator that was not installed: nobody can be reached in both ways.
fn converts_by_address(object: &Tree, there: &Tree) -> bool {
    let by_address = there.at(&["spec", "conversion", "webhook", "clientConfig", "url"]).is_some();
    by_address && object.at(&CONVERSION).is_some()
}

/// Hooks of another controller, of an operator that was not installed, or of a former version: applied fields would be
/// mixed with theirs.
fn has_other_hooks(object: &Tree, there: &Tree) -> bool {
    let names = |it: &Tree| -> Vec<Text> {
        it.items_at(&["webhooks"]).iter().map(|hook| hook.text_at(&["name"])).collect()
    };
    let ours = names(object);
    let is_other = |name: &Text| !ours.contains(name) && !everybody::is_one(name);
    !ours.is_empty() && (!is_installed(there) || names(there).iter().any(is_other))
}

/// Puts our hooks in place of all that are there. Those of a former version of ours trust an authority that is still in
/// use: without it every JobSet would be refused until somebody leads.
async fn replace_hooks(plane: &impl Plane, object: &Tree, there: &Tree) -> Result<Object, Refusal> {
    let hooks = with_trust(object, there);
    plane.perform(&call(object, itself(there), Act::Merge(instead(hooks, &Tree::Null)))).await
}

/// Our hooks, trusting whom their namesakes trust, if those are ours.
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

/// Whether the hooks are asked about what they should be, but for those that the operator keeps itself, and nothing narrows that which a former version, or a take-over,
/// left behind and owns.
fn asks_as_wanted(object: &Tree, there: &Tree) -> bool {
    let wanted = object.items_at(&["webhooks"]);
    let found = there.items_at(&["webhooks"]).iter().filter(|it| !everybody::is_one(it.str_at(&["name"])));
    let found: Vec<&Tree> = found.collect();
    let same = |hook: &Tree, it: &Tree| {
        let part = |of: &Tree, key| of.get(key).filter(|part| **part != tree!({})).cloned();
        let name = hook.str_at(&["name"]) == it.str_at(&["name"]);
        name && SELECTS.iter().all(|key| part(hook, key) == part(it, key))
    };
    wanted.len() == found.len() && wanted.iter().all(|hook| found.iter().any(|it| same(hook, it)))
}

/// What somebody had set and is not so any more.
fn overwritten(before: &Object, after: &Object) -> Option<String> {
    let image = |it: &Object| {
        let containers = it.tree.items_at(&["spec", "template", "spec", "containers"]);
        containers.first().map(|one| one.text_at(&["image"]))
    };
    let replicas = |it: &Object| it.tree.int_at(&["spec", "replicas"]);
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

async fn established(plane: &impl Plane, object: &Tree, mut seen: Object) -> Result<(), InstallError> {
    let name = named(kind_of(object), object);
    for _ in 0..SERVED_TRIES {
        if condition::holds(seen.tree.items_at(&["status", "conditions"]), "Established") {
            return Ok(());
        }
        tokio::time::sleep(SERVED_PAUSE).await;
        let look = plane.perform(&call(object, Guard::default(), Act::Get)).await;
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
        let (key, value) = muster_install::INSTALLED_BY;
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
            assert_eq!(asks_as_wanted(&wanted, &of(&found)), want, "{says}");
        }
        assert!(asks_as_wanted(&tree!({"kind": "Service"}), &tree!({"kind": "Service"})), "no hooks at all");
    }
}
