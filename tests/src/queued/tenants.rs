//! Somebody who may edit one namespace of a real cluster, and the queue there.
//!
//! # Invariants
//!
//! - The tenant is a ServiceAccount with the role `edit` that every cluster has, and nothing else.
//! - Whatever the tenant did, the queue has given no more than it has, and all pods of the namespace run on no more than
//!   that, whether the queue knows them or not ([`Space::is_kept`]).

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use muster_tree::{Tree, from_tree, tree};

use super::words;
use crate::clients::skip;
use crate::differential::{Answer, Server, Step};
use crate::limits::{REAL, Slot};
use crate::lives::Happening;
use crate::lives::act::Stage;
use crate::played::Playground;
use crate::real;

/// Longer than any test takes.
const TOKEN_SECS: i64 = 24 * 60 * 60;
/// How often one looks whether a role is there, and how long apart.
const LOOKS: u32 = 1800;
const PAUSE: Duration = Duration::from_millis(100);
/// For how many looks all must stay as it should be.
const QUIET_LOOKS: u32 = 10;

/// A namespace with a queue, and somebody who may edit it.
pub struct Space {
    ground: Arc<Playground>,
    /// Given back with the value.
    _slot: Slot<'static>,
    tenant: Server,
    namespace: String,
    quota: i64,
}

impl Space {
    /// A namespace of this name whose queue `q` has so many processors; `None`, and the test noted as skipped, where no real
    /// plane can be had.
    pub fn new(test: &str, quota: i64) -> Option<Space> {
        if let Some(reason) = real::missing() {
            skip(test, &reason);
            return None;
        }
        let namespace = test.replace('_', "-");
        let ground = shared();
        let tenant = Server::new(ground.server.base(), "");
        let space = Space { ground, _slot: REAL.take(), tenant, namespace, quota };
        space.begin().map(Some).unwrap_or_else(|why| panic!("{test}: {why}"))
    }

    fn begin(self) -> Result<Space, String> {
        let stage = Stage::new(&self.ground.server, &self.namespace, ("LocalQueue", "q"))?;
        let spec = tree!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "{ns}"}},
            "resourceGroups": words::quota(self.quota)});
        for object in [
            tree!({"kind": "ResourceFlavor", "metadata": {"name": "{ns}"}, "spec": {}}),
            tree!({"kind": "ClusterQueue", "metadata": {"name": "{ns}"}, "spec": spec}),
            tree!({"kind": "LocalQueue", "metadata": {"name": "q"}, "spec": {"clusterQueue": "{ns}"}}),
        ] {
            stage.create(&object)?;
        }
        let token = self.appoint()?;
        let tenant = Server::new(self.ground.server.base(), &token);
        let space = Space { tenant, ..self };
        space.wait_for_rights()?;
        Ok(space)
    }

    /// Gives the tenant its role, and returns by what it is known.
    fn appoint(&self) -> Result<String, String> {
        let ns = &self.namespace;
        let made = |path: &str, body: &Tree| -> Result<Tree, String> {
            let answer = self.ground.server.send("POST", path, &Step::default(), body.to_json_bytes())?;
            if answer.code < 300 { Ok(answer.body) } else { Err(answer.body.to_json()) }
        };
        let accounts = format!("/api/v1/namespaces/{ns}/serviceaccounts");
        made(&accounts, &tree!({"metadata": {"name": "tenant"}}))?;
        let binding = tree!({"metadata": {"name": "tenant"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": ns.as_str()}]});
        made(&format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings"), &binding)?;
        let asked = tree!({"spec": {"expirationSeconds": TOKEN_SECS}});
        let token = made(&format!("{accounts}/tenant/token"), &asked)?;
        Ok(token.str_at(&["status", "token"]).to_owned())
    }

    /// Roles are put together by a controller.
    fn wait_for_rights(&self) -> Result<(), String> {
        let path = format!("/api/v1/namespaces/{}/pods", self.namespace);
        for _ in 0..LOOKS {
            if self.tenant.get(&path)?.code == 200 {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
        Err("the tenant never got its role".to_owned())
    }

    /// From now on whoever names no queue is queued as well.
    pub fn queues_everybody(&self) {
        self.admin("- create: {kind: LocalQueue, metadata: {name: default}, spec: {clusterQueue: '{ns}'}}");
        self.tenant(
            "- answered: {create: {kind: Pod, metadata: {name: early}, spec: {containers: [{name: c, image: i}]}}, query: dryRun=All, \
             has: {spec: {schedulingGates: [{name: kueue.x-k8s.io/admission}]}}}",
        );
    }

    /// The administrator does this, or sees it.
    pub fn admin(&self, steps: &str) {
        self.play(&self.ground.server, steps);
    }

    /// The tenant does this, or sees it.
    pub fn tenant(&self, steps: &str) {
        self.play(&self.tenant, steps);
    }

    /// What the tenant is answered.
    #[must_use]
    pub fn answer(&self, method: &str, path: &str, body: &Tree) -> Answer {
        let kind = if method == "PATCH" { "merge" } else { "" };
        let step = Step { kind: kind.to_owned(), ..Step::default() };
        let path = path.replace("{ns}", &self.namespace);
        self.tenant.send(method, &path, &step, body.to_json_bytes()).expect("the server answers")
    }

    fn play(&self, server: &Server, steps: &str) {
        let all = Tree::parse_yaml(steps).expect("steps are YAML");
        let all = all.items().iter().flat_map(|it| words::step(it).expect("steps are words"));
        let all: Vec<Happening> = all.map(|it| from_tree(&it).expect("a step")).collect();
        let stage = Stage::new(server, &self.namespace, ("LocalQueue", "q")).expect("the server answers");
        if let Err(why) = stage.play(&[], &all) {
            panic!("{}: {why}\n{}", self.namespace, self.ground.complaints());
        }
    }

    /// The queue has given no more than it has, and all that runs here runs on no more than that, now and for a while.
    pub fn is_kept(&self) {
        for _ in 0..QUIET_LOOKS {
            let (given, running) = (self.given(), self.running());
            assert!(given <= self.quota, "{}: {given} of {} are given", self.namespace, self.quota);
            assert!(running <= self.quota, "{}: {running} of {} run", self.namespace, self.quota);
            std::thread::sleep(PAUSE);
        }
    }

    fn read(&self, path: &str) -> Tree {
        self.ground.server.get(&path.replace("{ns}", &self.namespace)).expect("the server answers").body
    }

    /// Processors that the queue has given.
    fn given(&self) -> i64 {
        let queue = self.read("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{ns}");
        let flavors = queue.items_at(&["status", "flavorsReservation"]).iter();
        let all = flavors.flat_map(|it| it.items_at(&["resources"])).map(|it| whole(it.str_at(&["total"])));
        all.sum()
    }

    /// Processors of pods that have a node, whether they were taken in or not.
    fn running(&self) -> i64 {
        let pods = self.read("/api/v1/namespaces/{ns}/pods");
        let counts = |pod: &&Tree| {
            let ended = ["Succeeded", "Failed"].contains(&pod.str_at(&["status", "phase"]));
            !pod.str_at(&["spec", "nodeName"]).is_empty() && !ended
        };
        let containers = |pod: &Tree| pod.items_at(&["spec", "containers"]).to_vec();
        let all = pods.items_at(&["items"]).iter().filter(counts).flat_map(containers);
        all.map(|it| whole(it.str_at(&["resources", "requests", "cpu"]))).sum()
    }
}

/// Whole processors; what is less counts as one.
fn whole(amount: &str) -> i64 {
    amount.parse().unwrap_or_else(|_| i64::from(!amount.is_empty()))
}

/// One plane for all namespaces that are there at the same time: the first of them starts it, and it ends with the last.
fn shared() -> Arc<Playground> {
    static GROUND: Mutex<Weak<Playground>> = Mutex::new(Weak::new());
    let mut ground = GROUND.lock().unwrap_or_else(PoisonError::into_inner);
    ground.upgrade().unwrap_or_else(|| {
        let started = Arc::new(Playground::real().expect("a real plane starts"));
        *ground = Arc::downgrade(&started);
        started
    })
}
