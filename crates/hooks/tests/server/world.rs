//! A server in memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use muster_api::environment::{Clock, Entropy};
use muster_api::time::Time;
use muster_apiserver::engine::{ApiEngine, EngineOptions};
use muster_apiserver::request::{
    Patch, ReplyObject, RequestBody, ResourcePath, UserInfo, WriteAct, WriteOptions, WriteReply, WriteRequest,
};
use muster_apiserver::status::Status;
use muster_hooks::{JobSetAdmission, QueueAdmission, QueueWebhookConfig, TrainJobAdmission};
use muster_jobset::admission::AdmissionSettings;
use muster_store::{Store, StoreOptions};
use muster_tree::{Text, Tree, tree};

struct Still;

impl Clock for Still {
    fn now(&self) -> Time {
        Time::parse("2026-01-02T03:04:05Z").expect("a time")
    }
}

struct Counting(AtomicU64);

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        let n = self.0.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = n[at % 8];
        }
    }
}

/// Where JobSets are.
pub const SETS: &str = "jobset.x-k8s.io/v1alpha2/default/jobsets";

/// A server.
pub struct World(ApiEngine);

/// The object in a response, and its warnings.
pub type Written = Result<(Tree, Vec<String>), Status>;

impl World {
    pub fn new() -> World {
        World::with(AdmissionSettings::default())
    }

    pub fn with(settings: AdmissionSettings) -> World {
        let world = World::without_admission();
        world.0.add_admission_plugin(Arc::new(JobSetAdmission::new(settings)));
        world
    }

    /// Where there are queues.
    pub fn queueing() -> World {
        let world = World::of(EngineOptions {
            crds: muster_queue::kinds::definitions(),
            conversions: vec![("kueue.x-k8s.io".into(), muster_queue::kinds::convert::convert)],
            ..EngineOptions::default()
        });
        world.0.add_admission_plugin(Arc::new(QueueAdmission::new(QueueWebhookConfig::default())));
        world
    }

    /// Where there are TrainJobs.
    pub fn training() -> World {
        let definitions = muster_trainer::kinds::crds();
        let world = World::of(EngineOptions { crds: definitions, ..EngineOptions::default() });
        world.0.add_admission_plugin(Arc::new(TrainJobAdmission));
        world
    }

    /// A server without the JobSet plugin: JobSets are validated by their schema only.
    pub fn without_admission() -> World {
        let definitions = vec![muster_jobset::crd::manifest()];
        World::of(EngineOptions { crds: definitions, ..EngineOptions::default() })
    }

    fn of(options: EngineOptions) -> World {
        let clock = Arc::new(Still);
        let store = Store::in_memory(StoreOptions::default(), clock.clone());
        let engine = ApiEngine::new(store, clock, Arc::new(Counting(AtomicU64::new(0))), options);
        World(engine)
    }

    pub fn create(&self, path: &str, tree: &Tree) -> Written {
        self.send(path, WriteAct::Create(body(tree)))
    }

    pub fn update(&self, path: &str, tree: &Tree) -> Written {
        self.send(path, WriteAct::Update(body(tree)))
    }

    pub fn merge(&self, path: &str, tree: &Tree) -> Written {
        self.send(path, WriteAct::Patch(Patch::Merge(body(tree))))
    }

    pub fn apply(&self, path: &str, tree: &Tree) -> Written {
        self.send(path, WriteAct::Patch(Patch::Apply { body: body(tree), force: false }))
    }

    /// Binds a pod to a node.
    pub fn bind(&self, path: &str, binding: &Tree) {
        self.answer(path, WriteAct::Create(body(binding)))
            .unwrap_or_else(|status| panic!("{}", status.message));
    }

    fn send(&self, path: &str, act: WriteAct) -> Written {
        let reply = self.answer(path, act)?;
        let ReplyObject::Object(object) = reply.shown else { panic!("{path} shows no object") };
        let (registry, target) = (self.0.registry(), target(path));
        let (resource, version) =
            registry.find(&target.group, &target.version, &target.resource).expect("served");
        Ok((resource.present(&object, version), reply.warnings))
    }

    fn answer(&self, path: &str, act: WriteAct) -> Result<WriteReply, Status> {
        let (tx, rx) = mpsc::channel();
        let options = WriteOptions { field_manager: "test".into(), ..WriteOptions::default() };
        let user = UserInfo { name: "tester".into(), ..UserInfo::default() };
        let request = WriteRequest { target: target(path), act, options, user };
        self.0.write(request, Box::new(move |result| tx.send(result).expect("somebody waits")));
        rx.try_recv().expect("the store in memory answers at once")
    }
}

fn body(tree: &Tree) -> RequestBody {
    RequestBody { tree: tree.clone(), duplicates: Vec::new() }
}

/// `group/version/namespace/plural[/name[/subresource]]`, with `-` for the core group or no namespace.
fn target(path: &str) -> ResourcePath {
    let mut parts = path.split('/').map(|part| if part == "-" { Text::new() } else { Text::from(part) });
    let mut next = || parts.next().unwrap_or_default();
    let (group, version, namespace, resource) = (next(), next(), next(), next());
    ResourcePath { group, version, namespace, resource, name: next(), subresource: next() }
}

/// A set that is right, changed by a merge patch of its spec.
pub fn set(name: &str, spec: &Tree) -> Tree {
    let good = tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name},
        "spec": {"replicatedJobs": [(job("w", &tree!({})))]}});
    good.merge(&tree!({"spec": spec}))
}

/// A replicatedJob that is right, changed by a merge patch.
pub fn job(name: &str, patch: &Tree) -> Tree {
    let pods = tree!({"containers": [{"name": "c", "image": "i"}]});
    tree!({"name": name, "template": {"spec": {"template": {"spec": pods}}}}).merge(patch)
}

/// One that mounts the shared volume `data`.
pub fn mounting(name: &str, patch: &Tree) -> Tree {
    let mounts = tree!([{"name": "data", "mountPath": "/data"}]);
    let pods = tree!({"containers": [{"name": "c", "image": "i", "volumeMounts": mounts}]});
    job(name, &tree!({"template": {"spec": {"template": {"spec": pods}}}})).merge(patch)
}

/// What a claim of this size asks for.
pub fn asks(size: &str) -> Tree {
    tree!({"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": size}}})
}

/// What the webhook refuses: a 422 behind its name, with exactly these causes.
pub fn expect_denied(says: &str, written: &Written, want: &[(&str, &str)]) {
    expect_causes(says, written, "admission webhook \"vjobset.kb.io\" denied the request: ", want);
}

/// What the definition refuses: a 422 with exactly these causes.
pub fn expect_invalid(says: &str, written: &Written, want: &[(&str, &str)]) {
    expect_causes(says, written, "", want);
}

/// A 422 with this start of the message and exactly these causes: the path, and a part of the message.
fn expect_causes(says: &str, written: &Written, before: &str, want: &[(&str, &str)]) {
    let Err(status) = written else { panic!("{says}: accepted, not refused with {want:?}") };
    assert_eq!((status.code, status.reason), (422, "Invalid"), "{says}: {}", status.message);
    let begins = format!("{before}JobSet.jobset.x-k8s.io \"");
    assert!(status.message.starts_with(&begins), "{says}: {}", status.message);
    let causes = &status.details.causes;
    let fits = causes.len() == want.len()
        && causes.iter().zip(want).all(|(cause, (path, words))| cause.2 == *path && cause.1.contains(words));
    assert!(fits, "{says}: want {want:#?}, got {causes:#?}");
}
