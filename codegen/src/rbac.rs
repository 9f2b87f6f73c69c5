//! `cargo xtask rights`: checks that the RBAC roles of `muster install` grant exactly the permissions that the operator uses.
//!
//! During tests, real API servers write audit logs of the operator's ServiceAccount. The permissions used in those logs and the
//! permissions granted by the roles must be equal.
//!
//! # Invariants
//!
//! - The API server writes the audit log, so no request is missing.
//! - Permissions that the server checks implicitly are derived from the request: `blockOwnerDeletion` needs `update` on the owner's
//!   finalizers, and an apply that creates an object needs `create`.
//! - A permission that no test can be sure to use is listed in [`UNTESTED`] with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use muster_tree::Tree;

use xtask::process;

/// Group, resource, verb, reason.
type UntestedPermission = (&'static str, &'static str, &'static str, &'static str);
/// Permissions that no test can be sure to use.
const UNTESTED: [UntestedPermission; 33] = [
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
    ("kueue.x-k8s.io", "cohorts/status", "patch", "used only with fair sharing, which is off by default"),
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
/// The walk up the owner chain is covered by unit tests.
const OWNER: &str = "used only for pods and jobs in a queue that are owned by one of these";
/// Lost replies are injected in the simulator, which covers these requests.
const LOST: &str = "used only after a lost reply, to check whether the request was executed";
/// Paths that every authenticated user may read.
const DISCOVERY_PATHS: [&str; 7] = ["/api", "/apis", "/healthz", "/livez", "/openapi", "/readyz", "/version"];
/// Pseudo group of non-resource URLs.
const PATHS: &str = "(paths)";
const ACCOUNT: &str = "muster-operator";
/// Default namespace of the operator.
const NAMESPACE: &str = "muster-system";

/// An RBAC permission.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Permission {
    group: String,
    /// With its subresource, as in `jobs/status`.
    resource: String,
    verb: String,
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = if self.group.is_empty() { "core" } else { &self.group };
        write!(f, "{} {} ({group})", self.verb, self.resource)
    }
}

/// A permission that a role grants.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Grant {
    /// Kind and name of the role.
    role: String,
    /// Restriction to a namespace; all when empty.
    namespace: String,
    permission: Permission,
    /// Restriction to an object name; all when empty.
    name: String,
}

impl Grant {
    fn covers(&self, used: &Use) -> bool {
        self.permission == used.permission
            && (self.namespace.is_empty() || self.namespace == used.namespace)
            && (self.name.is_empty() || self.name == used.name)
    }
}

/// A permission that was used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Use {
    permission: Permission,
    namespace: String,
    name: String,
    /// Error message if the server denied it; empty otherwise.
    denied: String,
}

/// The task: compares the audit logs in the directory of `MUSTER_TEST_AUDIT` with the roles that the binary prints, by default the
/// binary of the dev profile.
#[expect(clippy::print_stdout, reason = "the counts are the result of this task")]
pub fn task(args: &[String]) -> Result<(), String> {
    let built = process::target().join("debug").join("muster");
    let (logs, binary) = match args {
        [logs] => (logs, built.as_path()),
        [logs, binary] => (logs, Path::new(binary)),
        _ => return Err("usage: cargo xtask rights DIRECTORY [BINARY]".to_owned()),
    };
    let uses = read(Path::new(logs))?;
    if uses.is_empty() {
        return Err(format!("{logs}: no audit events of the operator's ServiceAccount"));
    }
    let printed = process::output(Command::new(binary).args(["install", "--dry-run", "-o", "json"]))?;
    let grants = grants(&documents(&printed)?);
    let wrong = compare(&grants, &uses, &UNTESTED);
    let (granted, used): (BTreeSet<&Permission>, BTreeSet<&Permission>) =
        (grants.iter().map(|it| &it.permission).collect(), uses.iter().map(|it| &it.permission).collect());
    println!(
        "permissions: {} used by the operator under its ServiceAccount, {} granted by its roles",
        used.len(),
        granted.len()
    );
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Reads the uses in all logs of a directory.
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

/// Drops the incomplete last line that a killed server may leave.
fn whole_lines(text: &str) -> &str {
    text.rfind('\n').map_or("", |at| &text[..at])
}

/// Parses a stream of JSON documents; Lists are flattened.
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

/// Returns the permissions that an audit event uses.
fn uses(entry: &Tree) -> Vec<Use> {
    let on = |key: &str| entry.str_at(&["objectRef", key]).to_owned();
    let permission =
        |group: String, resource: String, verb: &str| Permission { group, resource, verb: verb.to_owned() };
    let part = on("subresource");
    let resource = if part.is_empty() { on("resource") } else { format!("{}/{part}", on("resource")) };
    let verb = entry.str_at(&["verb"]);
    let one = |permission: Permission, name: String| Use {
        permission,
        namespace: on("namespace"),
        name,
        denied: denial(entry),
    };
    if on("resource").is_empty() {
        let path = entry.str_at(&["requestURI"]).split('?').next().unwrap_or_default();
        let known = |root: &&str| path == *root || path.starts_with(&format!("{root}/"));
        let free = verb == "get" && DISCOVERY_PATHS.iter().any(known);
        let asked = one(permission(PATHS.to_owned(), path.to_owned(), verb), String::new());
        return if free { Vec::new() } else { vec![asked] };
    }
    let mut all = vec![one(permission(on("apiGroup"), resource.clone(), verb), on("name"))];
    if verb == "patch" && entry.int_at(&["responseStatus", "code"]) == Some(201) {
        all.push(one(permission(on("apiGroup"), resource, "create"), String::new()));
    }
    all.extend(implied_uses(entry));
    all
}

/// Returns the permissions that the server checks implicitly: the finalizers of an owner with `blockOwnerDeletion`, and, cluster-wide,
/// `resourceclaims/binding` for an allocation.
fn implied_uses(entry: &Tree) -> Vec<Use> {
    let sent =
        |path: &[&str]| entry.at(&["requestObject"]).and_then(|it| it.at(path)).cloned().unwrap_or_default();
    let blocked = sent(&["metadata", "ownerReferences"]);
    let blocked = blocked
        .items()
        .iter()
        .filter(|it| it.get("blockOwnerDeletion").and_then(Tree::as_bool) == Some(true));
    let finalizers = blocked.map(|owner| Use {
        permission: Permission {
            group: owner.str_at(&["apiVersion"]).split_once('/').map_or("", |(group, _)| group).to_owned(),
            resource: format!("{}s/finalizers", owner.str_at(&["kind"]).to_lowercase()),
            verb: "update".to_owned(),
        },
        namespace: entry.str_at(&["objectRef", "namespace"]).to_owned(),
        name: owner.str_at(&["name"]).to_owned(),
        denied: String::new(),
    });
    let claim = entry.str_at(&["objectRef", "resource"]) == "resourceclaims";
    let given = claim && ["allocation", "reservedFor"].iter().any(|it| !sent(&["status", it]).is_null());
    let binding = given.then(|| Use {
        permission: Permission {
            group: entry.str_at(&["objectRef", "apiGroup"]).to_owned(),
            resource: "resourceclaims/binding".to_owned(),
            verb: entry.str_at(&["verb"]).to_owned(),
        },
        namespace: String::new(),
        name: String::new(),
        denied: String::new(),
    });
    finalizers.chain(binding).collect()
}

/// Substrings of errors about implicitly checked permissions.
const IMPLIED_DENIALS: [&str; 2] = ["blockOwnerDeletion", "requires resource="];

/// Returns the message if RBAC denied the request: quotas and terminating namespaces are rejected with 403 as well.
fn denial(entry: &Tree) -> String {
    let message = entry.str_at(&["responseStatus", "message"]);
    let annotations = entry.at(&["annotations"]).and_then(|it| it.get("authorization.k8s.io/decision"));
    let forbidden = annotations.and_then(Tree::as_str) == Some("forbid");
    let inside = IMPLIED_DENIALS.iter().any(|words| message.contains(words));
    if forbidden || inside { format!("denied: {message}") } else { String::new() }
}

/// Returns the grants of roles that are bound to the operator's ServiceAccount; the manifests also contain roles for users.
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
                let permission = Permission { group: group.clone(), resource: resource.clone(), verb };
                let grant = |name: &String| Grant {
                    role: title.clone(),
                    namespace: namespace.to_owned(),
                    permission: permission.clone(),
                    name: name.clone(),
                };
                all.extend(names.iter().map(grant));
            }
        }
    }
    all
}

/// Compares grants and uses; returns one line per problem.
fn compare(grants: &BTreeSet<Grant>, uses: &BTreeSet<Use>, rare: &[UntestedPermission]) -> Vec<String> {
    let denied = uses.iter().filter(|it| !it.denied.is_empty() && !is_transient(it, uses));
    let mut wrong: BTreeSet<String> =
        denied.map(|it| format!("{} in {:?}: {}", it.permission, it.namespace, it.denied)).collect();
    let missing = uses.iter().filter(|it| !grants.iter().any(|grant| grant.covers(it)));
    // One line per permission, not per object.
    let missing: BTreeMap<&Permission, &Use> = missing.map(|it| (&it.permission, it)).collect();
    wrong.extend(
        missing.values().map(|it| format!("{} is used (on {:?}) and not granted", it.permission, it.name)),
    );
    wrong.extend(grants.iter().filter_map(|grant| unused_grant(grant, uses, rare)));
    wrong.extend(rare.iter().filter_map(|rare| stale(rare, grants)));
    wrong.into_iter().collect()
}

/// Whether a denied request is allowed at other times: a starting server has not loaded the roles yet.
fn is_transient(it: &Use, uses: &BTreeSet<Use>) -> bool {
    let allowed = Use { denied: String::new(), ..it.clone() };
    !IMPLIED_DENIALS.iter().any(|words| it.denied.contains(words)) && uses.contains(&allowed)
}

/// Returns the problem if a grant is unused or too broad.
fn unused_grant(grant: &Grant, uses: &BTreeSet<Use>, rare: &[UntestedPermission]) -> Option<String> {
    let mut of = uses.iter().filter(|it| grant.covers(it)).peekable();
    let on = if grant.name.is_empty() { String::new() } else { format!(" on {:?}", grant.name) };
    let title = format!("{}: {}{on}", grant.role, grant.permission);
    if of.peek().is_none() {
        let known = rare.iter().any(|rare| is(rare, &grant.permission));
        return (!known).then(|| format!("{title} is granted and never used"));
    }
    let at_home = grant.namespace.is_empty() && of.all(|it| it.namespace == NAMESPACE);
    at_home.then(|| format!("{title} is granted cluster-wide and used only in {NAMESPACE}"))
}

fn is((group, resource, verb, _): &UntestedPermission, permission: &Permission) -> bool {
    permission.group == *group && permission.resource == *resource && permission.verb == *verb
}

/// Returns the problem if an entry of [`UNTESTED`] is not granted any more. An entry may be used after all: replies are lost at random.
fn stale(rare: &UntestedPermission, grants: &BTreeSet<Grant>) -> Option<String> {
    let given = grants.iter().any(|it| is(rare, &it.permission));
    (!given).then(|| format!("{} {} ({}) is listed as untested and is not granted", rare.2, rare.1, rare.0))
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

    fn describe(uses: &[Use]) -> Vec<String> {
        uses.iter()
            .map(|it| format!("{}{}", it.permission, if it.denied.is_empty() { "" } else { " denied" }))
            .collect()
    }

    #[test]
    fn audit_events_become_permissions() {
        let owner = tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "blockOwnerDeletion": true});
        let owned = tree!({"requestObject": {"metadata": {"ownerReferences": [owner]}}});
        let path = |uri: &str| tree!({"verb": "get", "requestURI": uri});
        let forbid = tree!({"annotations": {"authorization.k8s.io/decision": "forbid"}, "responseStatus": {"code": 403}});
        let given = tree!({"requestObject": {"status": {"reservedFor": []}}});
        let quota = tree!({"responseStatus": {"code": 403, "message": "exceeded quota"}});
        let finalizers = tree!({"responseStatus": {"code": 403, "message": "cannot set blockOwnerDeletion"}});
        for (case, entry, want) in [
            ("a read", entry("list", "jobs", &tree!({})), vec!["list jobs (batch)"]),
            ("a part", entry("patch", "jobs/status", &tree!({})), vec!["patch jobs/status (batch)"]),
            (
                "an apply that creates an object",
                entry("patch", "jobs", &tree!({"responseStatus": {"code": 201}})),
                vec!["patch jobs (batch)", "create jobs (batch)"],
            ),
            (
                "blockOwnerDeletion needs the owner's finalizers",
                entry("create", "jobs", &owned),
                vec!["create jobs (batch)", "update jobsets/finalizers (jobset.x-k8s.io)"],
            ),
            (
                "allocating devices needs resourceclaims/binding",
                entry("patch", "resourceclaims/status", &given),
                vec!["patch resourceclaims/status (batch)", "patch resourceclaims/binding (batch)"],
            ),
            ("a denied request", entry("get", "jobs", &forbid), vec!["get jobs (batch) denied"]),
            (
                "a denied blockOwnerDeletion",
                entry("create", "jobs", &finalizers),
                vec!["create jobs (batch) denied"],
            ),
            (
                "an exceeded quota is not an RBAC denial",
                entry("create", "jobs", &quota),
                vec!["create jobs (batch)"],
            ),
            ("every user may read the discovery", path("/apis/batch/v1?timeout=30s"), vec![]),
            ("other paths need a permission", path("/metrics"), vec!["get /metrics ((paths))"]),
        ] {
            assert_eq!(describe(&uses(&entry)), want, "{case}");
        }
    }

    #[test]
    fn grants_and_uses_are_compared_in_both_directions() {
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
                "ClusterRole r: watch jobs (batch) is granted cluster-wide and used only in muster-system",
                "delete jobs (batch) is used (on \"a\") and not granted",
                "get jobs (batch) is listed as untested and is not granted",
            ]
        );
    }

    #[test]
    fn transient_denials_of_a_starting_server_are_ignored() {
        let denied = |words: &str| tree!({"annotations": {"authorization.k8s.io/decision": "forbid"}, "responseStatus": {"code": 403, "message": words}});
        let (allowed, rejected) = (entry("get", "jobs", &tree!({})), entry("get", "jobs", &denied("no")));
        let blocked = entry("get", "jobs", &denied("blockOwnerDeletion"));
        for (case, entries, want) in [
            ("denied and allowed", vec![allowed.clone(), rejected.clone()], 0),
            ("always denied", vec![rejected], 1),
            ("an implicit permission is denied", vec![allowed, blocked], 1),
        ] {
            let uses: BTreeSet<Use> = entries.iter().flat_map(uses).collect();
            let wrong = compare(&BTreeSet::new(), &uses, &[]);
            assert_eq!(wrong.iter().filter(|it| it.contains("denied")).count(), want, "{case}: {wrong:?}");
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
