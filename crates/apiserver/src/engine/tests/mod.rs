//! The engine through its public API, in memory.

mod addons;
mod custom;
mod gangs;
mod kinds;
mod local;
mod quotas;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use muster_api::environment::{Clock, Entropy};
use muster_api::time::Time;
use muster_store::{Store, StoreOptions};
use muster_tree::{Text, Tree, tree};

use super::{ApiEngine, EngineOptions};
use crate::request::*;
use crate::status::Status;

/// A clock that is advanced by the test.
pub(crate) struct ManualClock(pub Mutex<Time>);

impl Clock for ManualClock {
    fn now(&self) -> Time {
        *self.0.lock().unwrap()
    }
}

/// Entropy that counts up.
pub(crate) struct CountingEntropy(AtomicU64);

impl Entropy for CountingEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let n = self.0.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = n[at % 8];
        }
    }
}

/// An engine under test.
pub(crate) struct TestEngine {
    pub engine: ApiEngine,
    pub clock: Arc<ManualClock>,
}

impl TestEngine {
    pub fn new() -> TestEngine {
        let clock = Arc::new(ManualClock(Mutex::new(Time::parse("2026-01-02T03:04:05Z").unwrap())));
        let store = Store::in_memory(StoreOptions::default(), clock.clone());
        TestEngine::start(store, clock, EngineOptions::default())
    }

    /// Restarts the engine on the same store with other options.
    pub fn restarted(&self, options: EngineOptions) -> TestEngine {
        TestEngine::start(self.engine.store().clone(), self.clock.clone(), options)
    }

    fn start(store: Store, clock: Arc<ManualClock>, options: EngineOptions) -> TestEngine {
        let entropy = Arc::new(CountingEntropy(AtomicU64::new(0)));
        let engine = ApiEngine::new(store, clock.clone(), entropy, options);
        TestEngine { engine, clock }
    }

    pub fn send(&self, target: ResourcePath, act: WriteAct) -> Result<WriteReply, Status> {
        self.send_with(target, act, WriteOptions { field_manager: "test".into(), ..WriteOptions::default() })
    }

    pub fn send_with(
        &self,
        target: ResourcePath,
        act: WriteAct,
        options: WriteOptions,
    ) -> Result<WriteReply, Status> {
        let (tx, rx) = mpsc::channel();
        let user = UserInfo { name: "tester".into(), ..UserInfo::default() };
        let request = WriteRequest { target, act, options, user };
        self.engine.write(request, Box::new(move |result| tx.send(result).unwrap()));
        rx.try_recv().expect("the store in memory answers at once")
    }

    pub fn create(&self, path: &str, tree: Tree) -> Result<Tree, Status> {
        let target = target(path);
        self.send(target.clone(), WriteAct::Create(body(tree))).map(|reply| self.tree(&target, reply.shown))
    }

    pub fn update(&self, path: &str, tree: Tree) -> Result<Tree, Status> {
        let target = target(path);
        self.send(target.clone(), WriteAct::Update(body(tree))).map(|reply| self.tree(&target, reply.shown))
    }

    pub fn merge(&self, path: &str, tree: Tree) -> Result<Tree, Status> {
        let target = target(path);
        let act = WriteAct::Patch(Patch::Merge(body(tree)));
        self.send(target.clone(), act).map(|reply| self.tree(&target, reply.shown))
    }

    pub fn apply(&self, path: &str, manager: &str, tree: Tree) -> Result<Tree, Status> {
        let target = target(path);
        let options = WriteOptions { field_manager: manager.into(), ..WriteOptions::default() };
        let act = WriteAct::Patch(Patch::Apply { body: body(tree), force: false });
        self.send_with(target.clone(), act, options).map(|reply| self.tree(&target, reply.shown))
    }

    pub fn delete(&self, path: &str, options: DeleteOptions) -> Result<Tree, Status> {
        let target = target(path);
        self.send(target.clone(), WriteAct::Delete(options)).map(|reply| self.tree(&target, reply.shown))
    }

    pub fn get(&self, path: &str) -> Result<Tree, Status> {
        let target = target(path);
        self.engine.show(&target, &ListOptions::default()).map(|shown| self.tree(&target, shown))
    }

    pub fn tree(&self, target: &ResourcePath, shown: ReplyObject) -> Tree {
        let found = self.engine.registry().find(&target.group, &target.version, &target.resource);
        let Some((resource, version)) = found else {
            return Tree::Null; // the write itself ended its kind
        };
        match shown {
            ReplyObject::Object(object) => resource.present(&object, version),
            ReplyObject::Objects(objects, _) => {
                Tree::list(objects.iter().map(|o| resource.present(o, version)))
            }
            ReplyObject::Tree(tree) => tree,
            ReplyObject::Status(status) => status.to_tree(),
        }
    }
}

pub(crate) fn body(tree: Tree) -> RequestBody {
    RequestBody { tree, duplicates: Vec::new() }
}

/// `group/version/namespace/plural[/name[/subresource]]`, with `-` for the core group or no namespace.
pub(crate) fn target(path: &str) -> ResourcePath {
    let mut parts = path.split('/').map(|part| if part == "-" { Text::new() } else { Text::from(part) });
    let mut next = || parts.next().unwrap_or_default();
    let (group, version, namespace, resource) = (next(), next(), next(), next());
    ResourcePath { group, version, namespace, resource, name: next(), subresource: next() }
}

fn config(name: &str, value: &str) -> Tree {
    tree!({"metadata": {"name": name}, "data": {"a": value}})
}

#[test]
fn an_object_is_created_updated_and_deleted() {
    let world = TestEngine::new();
    let made = world.create("-/v1/default/configmaps", config("c", "1")).unwrap();
    assert_eq!(made.str_at(&["metadata", "namespace"]), "default");
    assert_eq!(made.str_at(&["metadata", "creationTimestamp"]), "2026-01-02T03:04:05Z");
    assert_eq!(made.str_at(&["kind"]), "ConfigMap");
    assert_eq!(
        world.create("-/v1/default/configmaps", config("c", "1")).unwrap_err().reason,
        "AlreadyExists"
    );
    let changed = world.merge("-/v1/default/configmaps/c", tree!({"data": {"a": "2"}})).unwrap();
    assert_eq!(changed.str_at(&["data", "a"]), "2");
    assert_eq!(world.get("-/v1/default/configmaps/c").unwrap(), changed);
    let again = world.merge("-/v1/default/configmaps/c", tree!({"data": {"a": "2"}})).unwrap();
    assert_eq!(again, changed, "a write that changes nothing consumes no revision");
    let status = world.delete("-/v1/default/configmaps/c", DeleteOptions::default()).unwrap();
    assert_eq!(status.str_at(&["status"]), "Success");
    assert_eq!(world.get("-/v1/default/configmaps/c").unwrap_err().code, 404);
}

#[test]
fn stale_resource_versions_conflict() {
    let world = TestEngine::new();
    let first = world.create("-/v1/default/configmaps", config("c", "1")).unwrap();
    world.merge("-/v1/default/configmaps/c", tree!({"data": {"a": "2"}})).unwrap();
    let late = world.update("-/v1/default/configmaps/c", first.with(&["data", "a"], "3")).unwrap_err();
    assert_eq!((late.code, late.reason), (409, "Conflict"));
    let other = tree!({"metadata": {"name": "c", "uid": "someone-else"}, "data": {}});
    assert!(
        world.update("-/v1/default/configmaps/c", other).unwrap_err().message.contains("UID in precondition")
    );
    let last = world.update("-/v1/default/configmaps/c", config("c", "3")).unwrap();
    assert_eq!(last.str_at(&["metadata", "uid"]), first.str_at(&["metadata", "uid"]));
}

/// `creationTimestamp` has whole seconds: within one, the UID gives the creation order.
#[test]
fn uids_are_ordered_by_creation_time() {
    let world = TestEngine::new();
    let mut uids = Vec::new();
    for n in 0..600_i64 {
        *world.clock.0.lock().unwrap() = Time(Time::parse("2026-01-02T03:04:05Z").unwrap().0 + n * 997);
        let made = world.create("-/v1/default/configmaps", config(&format!("c{n}"), "1")).unwrap();
        assert_eq!(made.str_at(&["metadata", "creationTimestamp"]), "2026-01-02T03:04:05Z");
        uids.push(made.text_at(&["metadata", "uid"]));
    }
    assert!(uids.is_sorted(), "{uids:#?}");
    let parts: Vec<usize> = uids[0].split('-').map(str::len).collect();
    assert_eq!(parts, [8, 4, 4, 4, 12]);
    assert!(uids.iter().all(|uid| &uid[14..15] == "7" && "89ab".contains(&uid[19..20])), "{}", uids[0]);
    // UIDs of one instant are ascending, too.
    let made = (0..300).map(|n| {
        let made = world.create("-/v1/default/configmaps", config(&format!("d{n}"), "1")).unwrap();
        made.text_at(&["metadata", "uid"])
    });
    let now: Vec<Text> = made.collect();
    assert!(now.is_sorted_by(|one, next| one < next), "{now:#?}");
}

#[test]
fn invalid_bodies_get_upstream_messages() {
    let world = TestEngine::new();
    for (says, path, tree, code, words) in [
        ("no name", "-/v1/default/configmaps", tree!({"data": {}}), 422, "name or generateName is required"),
        ("a bad name", "-/v1/default/configmaps", config("A_b", ""), 422, "a lowercase RFC 1123 subdomain"),
        (
            "another kind",
            "-/v1/default/configmaps",
            tree!({"kind": "Secret", "apiVersion": "v1"}),
            400,
            "cannot be handled as a ConfigMap",
        ),
        (
            "another version",
            "-/v1/default/configmaps",
            tree!({"apiVersion": "v2"}),
            400,
            "no kind \"ConfigMap\" is registered for version \"v2\"",
        ),
        (
            "another namespace",
            "-/v1/default/configmaps",
            tree!({"metadata": {"name": "a", "namespace": "b"}}),
            400,
            "does not match the namespace",
        ),
        (
            "a revision",
            "-/v1/default/configmaps",
            tree!({"metadata": {"name": "a", "resourceVersion": "1"}}),
            500,
            "resourceVersion should not be set",
        ),
        (
            "no such namespace",
            "-/v1/nowhere/configmaps",
            config("a", ""),
            404,
            "namespaces \"nowhere\" not found",
        ),
        ("not an object", "-/v1/default/configmaps", tree!([]), 422, "name or generateName is required"),
        (
            "a bad label",
            "-/v1/default/configmaps",
            tree!({"metadata": {"name": "a", "labels": {"a b": "c"}}}),
            422,
            "metadata.labels",
        ),
        (
            "a bad finalizer",
            "-/v1/default/configmaps",
            tree!({"metadata": {"name": "a", "finalizers": ["x"]}}),
            422,
            "fully qualified",
        ),
        (
            "two controllers",
            "-/v1/default/configmaps",
            tree!({"metadata": {"name": "a", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1", "controller": true},
            {"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "2", "controller": true}]}}),
            422,
            "Only one reference",
        ),
    ] {
        let refused = world.create(path, tree).unwrap_err();
        assert_eq!(refused.code, code, "{says}: {}", refused.message);
        assert!(refused.message.contains(words), "{says}: {}", refused.message);
    }
}

#[test]
fn finalizers_hold_a_deleting_object() {
    let world = TestEngine::new();
    let held = tree!({"metadata": {"name": "c", "finalizers": ["example.com/hold"]}});
    world.create("-/v1/default/configmaps", held).unwrap();
    let doomed = world.delete("-/v1/default/configmaps/c", DeleteOptions::default()).unwrap();
    assert_eq!(doomed.str_at(&["metadata", "deletionTimestamp"]), "2026-01-02T03:04:05Z");
    let more = tree!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}});
    let refused = world.merge("-/v1/default/configmaps/c", more).unwrap_err();
    assert!(refused.message.contains("no new finalizers can be added"), "{}", refused.message);
    world.merge("-/v1/default/configmaps/c", tree!({"metadata": {"finalizers": null}})).unwrap();
    assert_eq!(world.get("-/v1/default/configmaps/c").unwrap_err().code, 404);
}

#[test]
fn propagation_policies_become_finalizers() {
    let world = TestEngine::new();
    for (policy, want) in [("Orphan", "orphan"), ("Foreground", "foregroundDeletion")] {
        world.create("-/v1/default/configmaps", config(&policy.to_lowercase(), "")).unwrap();
        let options = DeleteOptions { propagation: policy.into(), ..DeleteOptions::default() };
        let path = format!("-/v1/default/configmaps/{}", policy.to_lowercase());
        let left = world.delete(&path, options).unwrap();
        assert_eq!(left.at(&["metadata", "finalizers"]), Some(&tree!([want])));
    }
}

#[test]
fn appliers_own_what_they_apply() {
    let world = TestEngine::new();
    let body = |value: &str| config("c", value).with(&["apiVersion"], "v1").with(&["kind"], "ConfigMap");
    let made = world.apply("-/v1/default/configmaps/c", "one", body("1")).unwrap();
    assert_eq!(made.items_at(&["metadata", "managedFields"])[0].str_at(&["operation"]), "Apply");
    *world.clock.0.lock().unwrap() = Time::parse("2026-01-02T03:05:00Z").unwrap();
    assert_eq!(world.apply("-/v1/default/configmaps/c", "one", body("1")).unwrap(), made, "nothing changed");
    let refused = world.apply("-/v1/default/configmaps/c", "two", body("2")).unwrap_err();
    assert_eq!((refused.code, &*refused.details.causes[0].0), (409, "FieldManagerConflict"));
    assert!(refused.message.starts_with("Apply failed with 1 conflict"), "{}", refused.message);
    let gone = body("1").without(&["data"]);
    let left = world.apply("-/v1/default/configmaps/c", "one", gone).unwrap();
    assert_eq!(left.get("data"), None, "a field without an owner is removed");
}

#[test]
fn field_validation_has_three_modes() {
    let world = TestEngine::new();
    let send = |name: &str, mode: FieldValidation| {
        let tree = config(name, "1").with(&["odd"], 1);
        let options = WriteOptions { field_manager: "t".into(), field_validation: mode, dry_run: false };
        world.send_with(target("-/v1/default/configmaps"), WriteAct::Create(body(tree)), options)
    };
    let refused = send("a", FieldValidation::Strict).unwrap_err();
    assert!(refused.message.ends_with("strict decoding error: unknown field \"odd\""), "{}", refused.message);
    assert_eq!(send("b", FieldValidation::Warn).unwrap().warnings, ["unknown field \"odd\""]);
    assert!(send("c", FieldValidation::Ignore).unwrap().warnings.is_empty());
    assert_eq!(world.get("-/v1/default/configmaps/b").unwrap().get("odd"), None);
}

#[test]
fn a_dry_run_writes_nothing() {
    let world = TestEngine::new();
    let before = world.engine.revision();
    let options = WriteOptions { dry_run: true, ..WriteOptions::default() };
    let act = WriteAct::Create(body(config("c", "1")));
    let reply = world.send_with(target("-/v1/default/configmaps"), act, options).unwrap();
    assert_eq!(reply.code, 201);
    assert_eq!(world.engine.revision(), before);
    assert_eq!(world.get("-/v1/default/configmaps/c").unwrap_err().code, 404);
}

#[test]
fn a_collection_is_deleted_by_selector() {
    let world = TestEngine::new();
    for (name, app) in [("a", "x"), ("b", "x"), ("c", "y")] {
        let tree = config(name, "").with(&["metadata", "labels", "app"], app);
        world.create("-/v1/default/configmaps", tree).unwrap();
    }
    let options = ListOptions { label_selector: "app=x".into(), ..ListOptions::default() };
    let act = WriteAct::DeleteCollection(DeleteOptions::default(), options);
    let ReplyObject::Objects(gone, _) = world.send(target("-/v1/default/configmaps"), act).unwrap().shown
    else {
        panic!("a list of what is gone")
    };
    assert_eq!(gone.len(), 2);
    assert!(world.get("-/v1/default/configmaps/c").is_ok());
}

#[test]
fn generated_names_are_unique() {
    let world = TestEngine::new();
    let tree = tree!({"metadata": {"generateName": "c-"}});
    let names: Vec<String> = (0..3)
        .map(|_| world.create("-/v1/default/configmaps", tree.clone()).unwrap())
        .map(|made| made.str_at(&["metadata", "name"]).to_owned())
        .collect();
    assert!(names.iter().all(|name| name.starts_with("c-") && name.len() == 7), "{names:?}");
    assert!(names[0] != names[1] && names[1] != names[2]);
}

#[test]
fn reviews_are_answered() {
    let world = TestEngine::new();
    let ask = tree!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let answer = world.create("authorization.k8s.io/v1/-/selfsubjectaccessreviews", ask).unwrap();
    assert_eq!(answer.bool_at(&["status", "allowed"]), Some(true));
    let me = world.create("authentication.k8s.io/v1/-/selfsubjectreviews", tree!({})).unwrap();
    assert_eq!(me.str_at(&["status", "userInfo", "username"]), "tester");
}

/// Prints the cost of preparing a pod. Run with `--ignored --nocapture` in a release build.
#[test]
#[ignore = "a measurement"]
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn print_the_cost_of_preparing_a_pod() {
    let world = TestEngine::new();
    let pod = tree!({"metadata": {"generateName": "p-", "labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", "containers": [
        {"name": "c", "image": "busybox:1", "command": ["sleep", "1"], "env": [{"name": "A", "value": "b"}],
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}});
    const N: u32 = 20_000;
    let began = std::time::Instant::now();
    for _ in 0..N {
        let user = UserInfo::default();
        let options = WriteOptions { field_manager: "t".into(), ..WriteOptions::default() };
        let act = WriteAct::Create(body(pod.clone()));
        let request = WriteRequest { target: target("-/v1/default/pods"), act, options, user };
        world.engine.prepare(&request, &super::StoragePreconditions::default()).unwrap();
    }
    eprintln!("prepare a pod: {:?} each", began.elapsed() / N);
}

#[test]
fn pages_of_a_list_read_one_snapshot() {
    let world = TestEngine::new();
    for n in 0..5 {
        world.create("-/v1/default/configmaps", config(&format!("c{n}"), "")).unwrap();
    }
    let target = target("-/v1/default/configmaps");
    let mut options = ListOptions { limit: 2, ..ListOptions::default() };
    let first = world.engine.list(&target, &options).unwrap();
    // Plus `kube-root-ca.crt` of the namespace.
    assert_eq!((first.objects.len(), first.remaining), (2, Some(4)));
    world.delete("-/v1/default/configmaps/c4", DeleteOptions::default()).unwrap();
    let mut names = Vec::new();
    let mut page = first;
    loop {
        names.extend(page.objects.iter().map(|o| o.tree.text_at(&["metadata", "name"])));
        if page.continue_token.is_empty() {
            break;
        }
        options.continue_token = page.continue_token.clone();
        page = world.engine.list(&target, &options).unwrap();
    }
    assert_eq!(names, ["c0", "c1", "c2", "c3", "c4", "kube-root-ca.crt"]);
}

#[test]
fn watches_see_selector_transitions() {
    let world = TestEngine::new();
    let target = target("-/v1/default/configmaps");
    let options = ListOptions {
        label_selector: "app=a".into(),
        resource_version: world.engine.revision().to_string().into(),
        ..ListOptions::default()
    };
    let mut watch = world.engine.watch(&target, &options).unwrap();
    world.create("-/v1/default/configmaps", config("c", "1")).unwrap();
    world.merge("-/v1/default/configmaps/c", tree!({"metadata": {"labels": {"app": "a"}}})).unwrap();
    world.merge("-/v1/default/configmaps/c", tree!({"data": {"a": "2"}})).unwrap();
    world
        .merge("-/v1/default/configmaps/c", tree!({"metadata": {"labels": {"app": "b"}}, "data": {"a": "3"}}))
        .unwrap();
    world.delete("-/v1/default/configmaps/c", DeleteOptions::default()).unwrap();
    let events = watch.next(10).unwrap();
    let kinds: Vec<EventType> = events.iter().map(|e| e.kind).collect();
    assert_eq!(kinds, [EventType::Added, EventType::Modified, EventType::Deleted]);
    assert_eq!(events[2].object.tree.str_at(&["data", "a"]), "2", "a leaver is shown as it was");
    assert!(watch.next(10).unwrap().is_empty());
}

#[test]
fn contradictory_list_options_are_rejected() {
    let world = TestEngine::new();
    let target = target("-/v1/default/configmaps");
    let exact0 = ListOptions {
        resource_version: "0".into(),
        resource_version_match: "Exact".into(),
        ..ListOptions::default()
    };
    let lone = ListOptions { resource_version_match: "Exact".into(), ..ListOptions::default() };
    let future = ListOptions { resource_version: "99999".into(), ..ListOptions::default() };
    let token = ListOptions { continue_token: "x".into(), ..ListOptions::default() };
    let field = ListOptions { field_selector: "spec.x=1".into(), ..ListOptions::default() };
    for (options, code) in [(exact0, 422), (lone, 422), (future, 504), (token, 400), (field, 400)] {
        assert_eq!(world.engine.list(&target, &options).unwrap_err().code, code, "{options:?}");
    }
}
