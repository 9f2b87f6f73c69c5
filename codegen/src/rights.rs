//! Whether the roles that `muster install` ships are exactly what the operator uses.
//!
//! While tests run, real API servers write down what an operator under its own ServiceAccount asks them. Those logs become
//! rights, and so do the roles; each must be among the other.
//!
//! # Invariants
//!
//! - Nothing that was asked can be missing: the server writes, not we.
//! - Rights that are asked for by no request of their own are taken from what was sent: an object that blocks the
//!   deletion of its owner needs the finalizers of the owner, an apply that made an object needs to create it.
//! - A right that no test of the suite can use stands in [`RARE`] with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use muster_tree::Tree;

use xtask::process;

/// A right and the reason: group, resource, verb, reason.
type Rare = (&'static str, &'static str, &'static str, &'static str);
/// Rights that no test can be sure to use: group, resource, verb, reason.
const RARE: [Rare; 33] = [
    ("batch", "jobs", "get", LOST),
    ("", "pods", "get", LOST),
    ("", "services", "get", LOST),
    ("", "persistentvolumes", "get", LOST),
    ("resource.k8s.io", "resourceclaims", "get", LOST),
    ("scheduling.k8s.io", "workloads", "get", LOST),
    ("scheduling.k8s.io", "podgroups", "get", LOST),
    ("scheduling.muster.dev", "workloads", "get", LOST),
    ("scheduling.muster.dev", "podgroups", "get", LOST),
    ("kueue.x-k8s.io", "clusterqueues", "get", LOST),
    ("kueue.x-k8s.io", "cohorts", "get", LOST),
    ("kueue.x-k8s.io", "resourceflavors", "get", LOST),
    ("kueue.x-k8s.io", "workloads", "get", LOST),
    ("", "secrets", "get", LOST),
    ("scheduling.x-k8s.io", "podgroups", "get", LOST),
    ("scheduling.volcano.sh", "podgroups", "get", LOST),
    (
        "kueue.x-k8s.io",
        "cohorts/status",
        "patch",
        "written only where quota is shared fairly, which is configured",
    ),
    ("apps", "deployments", "get", OWNER),
    ("apps", "replicasets", "get", OWNER),
    ("apps", "statefulsets", "get", OWNER),
    ("kubeflow.org", "jaxjobs", "get", OWNER),
    ("kubeflow.org", "mpijobs", "get", OWNER),
    ("kubeflow.org", "paddlejobs", "get", OWNER),
    ("kubeflow.org", "pytorchjobs", "get", OWNER),
    ("kubeflow.org", "tfjobs", "get", OWNER),
    ("kubeflow.org", "xgboostjobs", "get", OWNER),
    ("leaderworkerset.x-k8s.io", "leaderworkersets", "get", OWNER),
    ("ray.io", "rayclusters", "get", OWNER),
    ("ray.io", "rayjobs", "get", OWNER),
    ("ray.io", "rayservices", "get", OWNER),
    ("sparkoperator.k8s.io", "sparkapplications", "get", OWNER),
    ("trainer.kubeflow.org", "trainjobs", "get", OWNER),
    ("workload.codeflare.dev", "appwrappers", "get", OWNER),
];
/// The walk from owner to owner is tested where objects are simulated.
const OWNER: &str = "asked only about pods and jobs that name a queue and belong to one of these";
/// Faults between operator and server are played where calls are simulated, and there it is asked for.
const LOST: &str = "asked only after a reply was lost, to see whether the call was done";
/// What every authenticated user may read.
const FOR_ALL: [&str; 7] = ["/api", "/apis", "/healthz", "/livez", "/openapi", "/readyz", "/version"];
/// The group of paths that are no objects.
const PATHS: &str = "(paths)";
/// The operator's ServiceAccount.
const ACCOUNT: &str = "muster-operator";
/// Where the operator is installed unless told otherwise.
const NAMESPACE: &str = "muster-system";

/// One thing that may be done.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    group: String,
    /// With its part, as in `jobs/status`.
    resource: String,
    verb: String,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = if self.group.is_empty() { "core" } else { &self.group };
        write!(f, "{} {} ({group})", self.verb, self.resource)
    }
}

/// A right that a role gives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Grant {
    /// Kind and name.
    role: String,
    /// In this namespace alone; everywhere when empty.
    namespace: String,
    right: Right,
    /// On the object of this name alone; on all when empty.
    name: String,
}

impl Grant {
    fn covers(&self, used: &Use) -> bool {
        self.right == used.right
            && (self.namespace.is_empty() || self.namespace == used.namespace)
            && (self.name.is_empty() || self.name == used.name)
    }
}

/// A right that was used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Use {
    right: Right,
    namespace: String,
    name: String,
    /// What the server said to it, if it refused for want of a right.
    refused: String,
}

/// The task: compares the logs in a folder that `MUSTER_TEST_AUDIT` named while tests ran with the roles that the binary
/// prints, by default the one of the dev profile.
#[expect(clippy::print_stdout, reason = "the counts are the result of this task")]
pub fn task(args: &[String]) -> Result<(), String> {
    let built = process::target().join("debug").join("muster");
    let (logs, binary) = match args {
        [logs] => (logs, built.as_path()),
        [logs, binary] => (logs, Path::new(binary)),
        _ => return Err("usage: cargo xtask rights FOLDER [BINARY]".to_owned()),
    };
    let uses = read(Path::new(logs))?;
    if uses.is_empty() {
        return Err(format!(
            "{logs}: no operator ran under its own ServiceAccount, or nothing was logged of it"
        ));
    }
    let printed = process::output(Command::new(binary).args(["install", "--dry-run", "-o", "json"]))?;
    let grants = grants(&documents(&printed)?);
    let wrong = compare(&grants, &uses, &RARE);
    let (granted, used): (BTreeSet<&Right>, BTreeSet<&Right>) =
        (grants.iter().map(|it| &it.right).collect(), uses.iter().map(|it| &it.right).collect());
    println!(
        "rights: {} used by the operator under its ServiceAccount, {} granted by its roles",
        used.len(),
        granted.len()
    );
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// All uses in all logs of a folder.
fn read(logs: &Path) -> Result<BTreeSet<Use>, String> {
    let mut all = BTreeSet::new();
    let Ok(folder) = fs::read_dir(logs) else { return Ok(all) };
    for file in folder {
        let path = file.map_err(|e| e.to_string())?.path();
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let whole = if text.ends_with('\n') { text.as_str() } else { whole_lines(&text) };
        for line in whole.lines() {
            let entry = Tree::parse(line.as_bytes()).map_err(|e| format!("{}: {e}", path.display()))?;
            all.extend(uses(&entry));
        }
    }
    Ok(all)
}

/// A server that was killed may have left half a line.
fn whole_lines(text: &str) -> &str {
    text.rfind('\n').map_or("", |at| &text[..at])
}

/// The documents of a stream of JSON, those in lists included.
fn documents(text: &str) -> Result<Vec<Tree>, String> {
    let stream = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
    let mut all = Vec::new();
    for document in stream {
        let document = document.map_err(|e| format!("the manifests cannot be read: {e}"))?.to_string();
        let document = Tree::parse(document.as_bytes()).map_err(|e| e.to_string())?;
        match document.get("items") {
            Some(items) => all.extend(items.items().iter().cloned()),
            None => all.push(document),
        }
    }
    Ok(all)
}

/// The rights that an entry of a log tells of.
fn uses(entry: &Tree) -> Vec<Use> {
    let on = |key: &str| entry.str_at(&["objectRef", key]).to_owned();
    let right =
        |group: String, resource: String, verb: &str| Right { group, resource, verb: verb.to_owned() };
    let part = on("subresource");
    let resource = if part.is_empty() { on("resource") } else { format!("{}/{part}", on("resource")) };
    let verb = entry.str_at(&["verb"]);
    let one =
        |right: Right, name: String| Use { right, namespace: on("namespace"), name, refused: refusal(entry) };
    if on("resource").is_empty() {
        let path = entry.str_at(&["requestURI"]).split('?').next().unwrap_or_default();
        let known = |root: &&str| path == *root || path.starts_with(&format!("{root}/"));
        let free = verb == "get" && FOR_ALL.iter().any(known);
        let asked = one(right(PATHS.to_owned(), path.to_owned(), verb), String::new());
        return if free { Vec::new() } else { vec![asked] };
    }
    let mut all = vec![one(right(on("apiGroup"), resource.clone(), verb), on("name"))];
    if verb == "patch" && entry.int_at(&["responseStatus", "code"]) == Some(201) {
        all.push(one(right(on("apiGroup"), resource, "create"), String::new()));
    }
    all.extend(asked_inside(entry));
    all
}

/// Rights that the server asks about by itself: the finalizers of an owner whose deletion is blocked, and, all over the
/// cluster, the binding of a claim that is given devices.
fn asked_inside(entry: &Tree) -> Vec<Use> {
    let sent =
        |path: &[&str]| entry.at(&["requestObject"]).and_then(|it| it.at(path)).cloned().unwrap_or_default();
    let blocked = sent(&["metadata", "ownerReferences"]);
    let blocked = blocked
        .items()
        .iter()
        .filter(|it| it.get("blockOwnerDeletion").and_then(Tree::as_bool) == Some(true));
    let finalizers = blocked.map(|owner| Use {
        right: Right {
            group: owner.str_at(&["apiVersion"]).split_once('/').map_or("", |(group, _)| group).to_owned(),
            resource: format!("{}s/finalizers", owner.str_at(&["kind"]).to_lowercase()),
            verb: "update".to_owned(),
        },
        namespace: entry.str_at(&["objectRef", "namespace"]).to_owned(),
        name: owner.str_at(&["name"]).to_owned(),
        refused: String::new(),
    });
    let claim = entry.str_at(&["objectRef", "resource"]) == "resourceclaims";
    let given = claim && ["allocation", "reservedFor"].iter().any(|it| !sent(&["status", it]).is_null());
    let binding = given.then(|| Use {
        right: Right {
            group: entry.str_at(&["objectRef", "apiGroup"]).to_owned(),
            resource: "resourceclaims/binding".to_owned(),
            verb: entry.str_at(&["verb"]).to_owned(),
        },
        namespace: String::new(),
        name: String::new(),
        refused: String::new(),
    });
    finalizers.chain(binding).collect()
}

/// Words of refusals for want of a right that is asked about beside the one that was used.
const INSIDE: [&str; 2] = ["blockOwnerDeletion", "requires resource="];

/// What the server said, if it refused for want of a right: quotas and namespaces that end are refused by the same code.
fn refusal(entry: &Tree) -> String {
    let message = entry.str_at(&["responseStatus", "message"]);
    let annotations = entry.at(&["annotations"]).and_then(|it| it.get("authorization.k8s.io/decision"));
    let forbidden = annotations.and_then(Tree::as_str) == Some("forbid");
    let inside = INSIDE.iter().any(|words| message.contains(words));
    if forbidden || inside { format!("refused: {message}") } else { String::new() }
}

/// What the roles give that some manifests bind to the operator's account; users have roles of their own among them.
fn grants(manifests: &[Tree]) -> BTreeSet<Grant> {
    let kind = |it: &Tree, kinds: [&str; 2]| kinds.contains(&it.str_at(&["kind"]));
    let to_operator = |binding: &&Tree| {
        let mut subjects = binding.items_at(&["subjects"]).iter();
        subjects.any(|it| it.str_at(&["kind"]) == "ServiceAccount" && it.str_at(&["name"]) == ACCOUNT)
    };
    let bindings =
        manifests.iter().filter(|it| kind(it, ["RoleBinding", "ClusterRoleBinding"])).filter(to_operator);
    let bound: Vec<(&str, &str)> =
        bindings.map(|it| (it.str_at(&["roleRef", "kind"]), it.str_at(&["roleRef", "name"]))).collect();
    let given = |it: &&Tree| bound.contains(&(it.str_at(&["kind"]), it.str_at(&["metadata", "name"])));
    manifests.iter().filter(|it| kind(it, ["Role", "ClusterRole"])).filter(given).flat_map(role).collect()
}

fn role(role: &Tree) -> Vec<Grant> {
    let title = format!("{} {}", role.str_at(&["kind"]), role.str_at(&["metadata", "name"]));
    let namespace = role.str_at(&["metadata", "namespace"]);
    let mut all = Vec::new();
    for rule in role.items_at(&["rules"]) {
        let list = |key: &str| -> Vec<String> {
            rule.items_at(&[key]).iter().filter_map(Tree::as_str).map(str::to_owned).collect()
        };
        let names =
            if list("resourceNames").is_empty() { vec![String::new()] } else { list("resourceNames") };
        let paths = list("nonResourceURLs").into_iter().map(|path| (PATHS.to_owned(), path));
        let groups = list("apiGroups").into_iter();
        let things =
            groups.flat_map(|group| list("resources").into_iter().map(move |it| (group.clone(), it)));
        for (group, resource) in things.chain(paths) {
            for verb in list("verbs") {
                let right = Right { group: group.clone(), resource: resource.clone(), verb };
                let grant = |name: &String| Grant {
                    role: title.clone(),
                    namespace: namespace.to_owned(),
                    right: right.clone(),
                    name: name.clone(),
                };
                all.extend(names.iter().map(grant));
            }
        }
    }
    all
}

/// What is wrong, line by line.
fn compare(grants: &BTreeSet<Grant>, uses: &BTreeSet<Use>, rare: &[Rare]) -> Vec<String> {
    let refused = uses.iter().filter(|it| !it.refused.is_empty() && !is_passing(it, uses));
    let mut wrong: BTreeSet<String> =
        refused.map(|it| format!("{} in {:?}: {}", it.right, it.namespace, it.refused)).collect();
    let missing = uses.iter().filter(|it| !grants.iter().any(|grant| grant.covers(it)));
    // One line for each, not one for each object.
    let missing: BTreeMap<&Right, &Use> = missing.map(|it| (&it.right, it)).collect();
    wrong.extend(
        missing.values().map(|it| format!("{} is used (on {:?}) and not granted", it.right, it.name)),
    );
    wrong.extend(grants.iter().filter_map(|grant| too_much(grant, uses, rare)));
    wrong.extend(rare.iter().filter_map(|rare| stale(rare, grants)));
    wrong.into_iter().collect()
}

/// Whether a server refused what it allows at other times: one that has just been started knows no roles yet.
fn is_passing(it: &Use, uses: &BTreeSet<Use>) -> bool {
    let allowed = Use { refused: String::new(), ..it.clone() };
    !INSIDE.iter().any(|words| it.refused.contains(words)) && uses.contains(&allowed)
}

/// What a grant gives that nobody needs.
fn too_much(grant: &Grant, uses: &BTreeSet<Use>, rare: &[Rare]) -> Option<String> {
    let mut of = uses.iter().filter(|it| grant.covers(it)).peekable();
    let on = if grant.name.is_empty() { String::new() } else { format!(" on {:?}", grant.name) };
    let title = format!("{}: {}{on}", grant.role, grant.right);
    if of.peek().is_none() {
        let known = rare.iter().any(|rare| is(rare, &grant.right));
        return (!known).then(|| format!("{title} is granted and never used"));
    }
    let at_home = grant.namespace.is_empty() && of.all(|it| it.namespace == NAMESPACE);
    at_home.then(|| format!("{title} is granted everywhere and used in {NAMESPACE} alone"))
}

fn is((group, resource, verb, _): &Rare, right: &Right) -> bool {
    right.group == *group && right.resource == *resource && right.verb == *verb
}

/// An entry of the list of rare rights that speaks of no grant any more. One that was used after all is fine: replies are
/// lost by chance.
fn stale(rare: &Rare, grants: &BTreeSet<Grant>) -> Option<String> {
    let given = grants.iter().any(|it| is(rare, &it.right));
    (!given).then(|| {
        format!("{} {} ({}) stands among the rare rights and is not granted", rare.2, rare.1, rare.0)
    })
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    fn entry(verb: &str, resource: &str, more: &Tree) -> Tree {
        let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
        tree!({"verb": verb, "objectRef": {"apiGroup": "batch", "resource": resource, "subresource": part,
            "namespace": "n", "name": "a"}, "responseStatus": {"code": 200},
            "annotations": {"authorization.k8s.io/decision": "allow"}})
        .merge(more)
    }

    fn told(uses: &[Use]) -> Vec<String> {
        uses.iter()
            .map(|it| format!("{}{}", it.right, if it.refused.is_empty() { "" } else { " refused" }))
            .collect()
    }

    #[test]
    fn entries_become_rights() {
        let owner = tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "blockOwnerDeletion": true});
        let owned = tree!({"requestObject": {"metadata": {"ownerReferences": [owner]}}});
        let path = |uri: &str| tree!({"verb": "get", "requestURI": uri});
        let forbid = tree!({"annotations": {"authorization.k8s.io/decision": "forbid"}, "responseStatus": {"code": 403}});
        let given = tree!({"requestObject": {"status": {"reservedFor": []}}});
        let quota = tree!({"responseStatus": {"code": 403, "message": "exceeded quota"}});
        let finalizers = tree!({"responseStatus": {"code": 403, "message": "cannot set blockOwnerDeletion"}});
        for (says, entry, want) in [
            ("a read", entry("list", "jobs", &tree!({})), vec!["list jobs (batch)"]),
            ("a part", entry("patch", "jobs/status", &tree!({})), vec!["patch jobs/status (batch)"]),
            (
                "an apply that made something",
                entry("patch", "jobs", &tree!({"responseStatus": {"code": 201}})),
                vec!["patch jobs (batch)", "create jobs (batch)"],
            ),
            (
                "blocking an owner takes its finalizers",
                entry("create", "jobs", &owned),
                vec!["create jobs (batch)", "update jobsets/finalizers (jobset.x-k8s.io)"],
            ),
            (
                "devices are given by a right of their own",
                entry("patch", "resourceclaims/status", &given),
                vec!["patch resourceclaims/status (batch)", "patch resourceclaims/binding (batch)"],
            ),
            ("no right", entry("get", "jobs", &forbid), vec!["get jobs (batch) refused"]),
            ("no right to block", entry("create", "jobs", &finalizers), vec!["create jobs (batch) refused"]),
            ("a quota is no want of a right", entry("create", "jobs", &quota), vec!["create jobs (batch)"]),
            ("anybody may discover", path("/apis/batch/v1?timeout=30s"), vec![]),
            ("but not all paths", path("/metrics"), vec!["get /metrics ((paths))"]),
        ] {
            assert_eq!(told(&uses(&entry)), want, "{says}");
        }
    }

    #[test]
    fn both_ways() {
        let rule = |resource: &str, verb: &str, names: &Tree| tree!({"apiGroups": ["batch"], "resources": [resource], "verbs": [verb], "resourceNames": names.clone()});
        let role = |kind: &str, name: &str, space: &str, rules: Vec<Tree>| tree!({"kind": kind, "metadata": {"name": name, "namespace": space}, "rules": Tree::list(rules)});
        let anywhere = vec![
            rule("jobs", "list", &tree!([])),
            rule("jobs", "watch", &tree!([])),
            rule("cronjobs", "get", &tree!(["a", "b"])),
        ];
        let cluster = role("ClusterRole", "r", "", anywhere);
        let own = role("Role", "r", NAMESPACE, vec![rule("jobs", "delete", &tree!([]))]);
        let bound = |kind: &str, role: &str, name: &str| tree!({"kind": kind, "roleRef": {"kind": role, "name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": name}]});
        let users = role("ClusterRole", "u", "", vec![rule("jobs", "deletecollection", &tree!([]))]);
        let bindings =
            [bound("ClusterRoleBinding", "ClusterRole", ACCOUNT), bound("RoleBinding", "Role", ACCOUNT)];
        let grants = grants(&[&bindings[..], &[cluster, own, users]].concat());
        let home = tree!({"objectRef": {"namespace": NAMESPACE}});
        let entries = [
            entry("list", "jobs", &tree!({})),
            entry("get", "cronjobs", &tree!({})),
            entry("watch", "jobs", &home),
            entry("delete", "jobs", &tree!({})),
        ];
        let uses = entries.iter().flat_map(uses).collect();
        assert_eq!(
            compare(
                &grants,
                &uses,
                &[("batch", "jobs", "delete", "seldom"), ("batch", "jobs", "get", "gone")]
            ),
            [
                "ClusterRole r: get cronjobs (batch) on \"b\" is granted and never used",
                "ClusterRole r: watch jobs (batch) is granted everywhere and used in muster-system alone",
                "delete jobs (batch) is used (on \"a\") and not granted",
                "get jobs (batch) stands among the rare rights and is not granted",
            ]
        );
    }

    #[test]
    fn a_server_that_knows_no_roles_yet_is_not_told_of() {
        let said = |words: &str| tree!({"annotations": {"authorization.k8s.io/decision": "forbid"}, "responseStatus": {"code": 403, "message": words}});
        let (allowed, refused) = (entry("get", "jobs", &tree!({})), entry("get", "jobs", &said("no")));
        let blocked = entry("get", "jobs", &said("blockOwnerDeletion"));
        for (says, entries, want) in [
            ("refused and allowed", vec![allowed.clone(), refused.clone()], 0),
            ("refused for good", vec![refused], 1),
            ("refused for want of another right", vec![allowed, blocked], 1),
        ] {
            let uses: BTreeSet<Use> = entries.iter().flat_map(uses).collect();
            let wrong = compare(&BTreeSet::new(), &uses, &[]);
            assert_eq!(wrong.iter().filter(|it| it.contains("refused")).count(), want, "{says}: {wrong:?}");
        }
    }

    #[test]
    fn manifests_come_one_by_one_or_as_a_list() {
        for text in [
            "{\"kind\":\"A\"}\n{\"kind\":\"B\"}",
            "{\"kind\":\"List\",\"items\":[{\"kind\":\"A\"},{\"kind\":\"B\"}]}",
        ] {
            let kinds: Vec<String> =
                documents(text).unwrap().iter().map(|it| it.str_at(&["kind"]).to_owned()).collect();
            assert_eq!(kinds, ["A", "B"]);
        }
    }
}
