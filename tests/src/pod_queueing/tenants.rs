//! A tenant with the ClusterRole `edit` in one namespace of a real cluster, and the queue there.
//!
//! # Invariants
//!
//! - The tenant is a ServiceAccount with the default ClusterRole `edit` and nothing else.
//! - Whatever the tenant does, reserved quota and the requests of all running pods stay within the ClusterQueue's quota, whether or not
//!   the pods are queued ([`TenantNamespace::assert_quota_is_respected`]).

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use muster_tree::{Tree, from_tree, tree};

use super::shorthand;
use crate::clients::skip;
use crate::differential::{ApiClient, HttpAnswer, RequestStep};
use crate::lifecycle::ScenarioStep;
use crate::lifecycle::scenario_run::ScenarioRun;
use crate::limits::{REAL, ScenarioSlot};
use crate::real;
use crate::scenario_runner::ScenarioEnvironment;

/// Lifetime of the tenant's token, longer than any test.
const TOKEN_SECS: i64 = 24 * 60 * 60;
/// Polls until RBAC is effective, and the interval between them: three minutes in total.
const POLLS_MAX: u32 = 1800;
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Polls for which the quota must hold.
const STABLE_POLLS: u32 = 10;

/// A namespace with a LocalQueue and a tenant.
pub struct TenantNamespace {
    environment: Arc<ScenarioEnvironment>,
    /// Released when the value is dropped.
    _slot: ScenarioSlot<'static>,
    tenant: ApiClient,
    namespace: String,
    quota: i64,
}

impl TenantNamespace {
    /// Creates a namespace with a LocalQueue `q` of this CPU quota; `None`, with the test recorded as skipped, where no real server can run.
    pub fn new(test: &str, quota: i64) -> Option<TenantNamespace> {
        if let Some(reason) = real::missing() {
            skip(test, &reason);
            return None;
        }
        let namespace = test.replace('_', "-");
        let environment = shared();
        let tenant = ApiClient::new(environment.server.base(), "");
        let space = TenantNamespace { environment, _slot: REAL.take(), tenant, namespace, quota };
        space.set_up().map(Some).unwrap_or_else(|why| panic!("{test}: {why}"))
    }

    fn set_up(self) -> Result<TenantNamespace, String> {
        let stage = ScenarioRun::new(&self.environment.server, &self.namespace, ("LocalQueue", "q"))?;
        let spec = tree!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "{ns}"}},
            "resourceGroups": shorthand::quota(self.quota)});
        for object in [
            tree!({"kind": "ResourceFlavor", "metadata": {"name": "{ns}"}, "spec": {}}),
            tree!({"kind": "ClusterQueue", "metadata": {"name": "{ns}"}, "spec": spec}),
            tree!({"kind": "LocalQueue", "metadata": {"name": "q"}, "spec": {"clusterQueue": "{ns}"}}),
        ] {
            stage.create(&object)?;
        }
        let token = self.create_tenant()?;
        let tenant = ApiClient::new(self.environment.server.base(), &token);
        let space = TenantNamespace { tenant, ..self };
        space.wait_for_rbac()?;
        Ok(space)
    }

    /// Creates the ServiceAccount and its RoleBinding, and returns a token.
    fn create_tenant(&self) -> Result<String, String> {
        let ns = &self.namespace;
        let made = |path: &str, body: &Tree| -> Result<Tree, String> {
            let answer =
                self.environment.server.send("POST", path, &RequestStep::default(), body.to_json_bytes())?;
            if answer.code < 300 { Ok(answer.body) } else { Err(answer.body.to_json()) }
        };
        let accounts = format!("/api/v1/namespaces/{ns}/serviceaccounts");
        made(&accounts, &tree!({"metadata": {"name": "tenant"}}))?;
        let binding = tree!({"metadata": {"name": "tenant"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": ns.as_str()}]});
        made(&format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings"), &binding)?;
        let request = tree!({"spec": {"expirationSeconds": TOKEN_SECS}});
        let token = made(&format!("{accounts}/tenant/token"), &request)?;
        Ok(token.str_at(&["status", "token"]).to_owned())
    }

    /// The aggregated ClusterRole `edit` is filled by a controller.
    fn wait_for_rbac(&self) -> Result<(), String> {
        let path = format!("/api/v1/namespaces/{}/pods", self.namespace);
        for _ in 0..POLLS_MAX {
            if self.tenant.get(&path)?.code == 200 {
                return Ok(());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Err("the tenant's RBAC never became effective".to_owned())
    }

    /// Creates a LocalQueue `default`, so that pods without a queue name are queued as well.
    pub fn create_default_queue(&self) {
        self.admin("- create: {kind: LocalQueue, metadata: {name: default}, spec: {clusterQueue: '{ns}'}}");
        self.tenant(
            "- answered: {create: {kind: Pod, metadata: {name: early}, spec: {containers: [{name: c, image: i}]}}, query: dryRun=All, \
             has: {spec: {schedulingGates: [{name: kueue.x-k8s.io/admission}]}}}",
        );
    }

    /// Runs steps as the administrator.
    pub fn admin(&self, steps: &str) {
        self.run(&self.environment.server, steps);
    }

    /// Runs steps as the tenant.
    pub fn tenant(&self, steps: &str) {
        self.run(&self.tenant, steps);
    }

    /// Sends a request as the tenant and returns the answer.
    #[must_use]
    pub fn answer(&self, method: &str, path: &str, body: &Tree) -> HttpAnswer {
        let kind = if method == "PATCH" { "merge" } else { "" };
        let step = RequestStep { kind: kind.to_owned(), ..RequestStep::default() };
        let path = path.replace("{ns}", &self.namespace);
        self.tenant.send(method, &path, &step, body.to_json_bytes()).expect("the server answers")
    }

    fn run(&self, server: &ApiClient, steps: &str) {
        let all = Tree::parse_yaml(steps).expect("steps are YAML");
        let all = all.items().iter().flat_map(|it| shorthand::step(it).expect("steps are words"));
        let all: Vec<ScenarioStep> = all.map(|it| from_tree(&it).expect("a step")).collect();
        let stage =
            ScenarioRun::new(server, &self.namespace, ("LocalQueue", "q")).expect("the server answers");
        if let Err(why) = stage.run(&[], &all) {
            panic!("{}: {why}\n{}", self.namespace, self.environment.operator_log());
        }
    }

    /// Asserts for a while that reserved quota and running requests stay within the quota.
    pub fn assert_quota_is_respected(&self) {
        for _ in 0..STABLE_POLLS {
            let (reserved, running) = (self.reserved_cpus(), self.running_cpus());
            assert!(
                reserved <= self.quota,
                "{}: {reserved} of {} CPUs are reserved",
                self.namespace,
                self.quota
            );
            assert!(running <= self.quota, "{}: {running} of {} CPUs are in use", self.namespace, self.quota);
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn read(&self, path: &str) -> Tree {
        self.environment.server.get(&path.replace("{ns}", &self.namespace)).expect("the server answers").body
    }

    /// Returns the CPUs that the ClusterQueue has reserved.
    fn reserved_cpus(&self) -> i64 {
        let queue = self.read("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{ns}");
        let flavors = queue.items_at(&["status", "flavorsReservation"]).iter();
        let all = flavors.flat_map(|it| it.items_at(&["resources"])).map(|it| whole(it.str_at(&["total"])));
        all.sum()
    }

    /// Returns the CPU requests of all bound, active pods, queued or not.
    fn running_cpus(&self) -> i64 {
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

/// Parses whole CPUs; a fraction counts as one.
fn whole(amount: &str) -> i64 {
    amount.parse().unwrap_or_else(|_| i64::from(!amount.is_empty()))
}

/// Returns the environment that all tenants share: the first starts it, and it stops with the last.
fn shared() -> Arc<ScenarioEnvironment> {
    static GROUND: Mutex<Weak<ScenarioEnvironment>> = Mutex::new(Weak::new());
    let mut environment = GROUND.lock().unwrap_or_else(PoisonError::into_inner);
    environment.upgrade().unwrap_or_else(|| {
        let started = Arc::new(ScenarioEnvironment::real().expect("a real plane starts"));
        *environment = Arc::downgrade(&started);
        started
    })
}
