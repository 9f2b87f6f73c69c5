//! Fixture with kubectl and simulated nodes, and the queueing stories of the examples, which run on any control plane.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use muster_tree::Tree;
use tempfile::TempDir;

use crate::clients::{program, skip};
use crate::differential::ApiClient;
use crate::embedded_server::{self, EmbeddedServer};
use crate::object_reader;
use crate::real::{self, GangSupport, InstalledOperator, RealCluster};
use crate::server_pair::wait_for_nodes;

/// Polls until a condition holds: three minutes in total.
const POLLS_MAX: usize = 1800;
/// Polls for which a condition must hold.
const STABLE_POLLS: usize = 10;
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Upstream controllers beside our operator.
const CONTROLLERS: [&str; 6] = ["gc", "namespace", "job", "podgc", "node", "podgroup"];
const NODES: usize = 3;
/// Kueue's Workloads, with the group: `scheduling.k8s.io` has a kind of the same name.
pub const WORKLOADS: &str = "workloads.kueue.x-k8s.io";
/// Kinds that stories create, in deletion order.
const CLEARED_KINDS: [&str; 8] = [
    "jobs.batch",
    "jobsets.jobset.x-k8s.io",
    "pods",
    "localqueues.kueue.x-k8s.io",
    "clusterqueues.kueue.x-k8s.io",
    "cohorts.kueue.x-k8s.io",
    "resourceflavors.kueue.x-k8s.io",
    "workloadpriorityclasses.kueue.x-k8s.io",
];

#[must_use]
pub fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name)
}

#[must_use]
pub fn example_text(name: &str) -> String {
    std::fs::read_to_string(example(name)).expect("there is such an example")
}

/// The control plane of a fixture.
enum Backing {
    Ours {
        _plane: EmbeddedServer,
    },
    /// A real server, its installation of Muster if any, and the process id of its operator.
    Real {
        real: Box<RealCluster>,
        installed: Option<InstalledOperator>,
        operator: Option<u32>,
    },
}

/// A control plane with simulated nodes, and kubectl for it.
pub struct QueueFixture {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    server: ApiClient,
    /// Discovery cache of kubectl, and files of the test.
    folder: TempDir,
    scene: Backing,
}

impl QueueFixture {
    /// Starts an embedded server with additional arguments; `None`, with the test recorded as skipped, without kubectl.
    #[must_use]
    pub fn embedded(test: &str, more: &[&str]) -> Option<QueueFixture> {
        let kubectl = program("MUSTER_TEST_KUBECTL", test)?;
        let nodes = NODES.to_string();
        let plane = EmbeddedServer::start(&[&["--ephemeral", "--sim-nodes", &nodes], more].concat());
        let plane = plane.expect("a plane starts");
        let kubeconfig = plane.kubeconfig().to_owned();
        let folder = TempDir::new().expect("a folder can be made");
        let server = plane.server().expect("there is a kubeconfig");
        Some(QueueFixture { kubectl, kubeconfig, server, folder, scene: Backing::Ours { _plane: plane } })
    }

    /// Starts a real server on which Muster is installed, with its operator as leader.
    #[must_use]
    pub fn real(test: &str) -> Option<QueueFixture> {
        QueueFixture::real_with(test, GangSupport::AllFields)
    }

    /// Like [`QueueFixture::real`], with or without the gang scheduling API.
    #[must_use]
    pub fn real_with(test: &str, gangs: GangSupport) -> Option<QueueFixture> {
        let kubectl = program("MUSTER_TEST_KUBECTL", test)?;
        if let Some(reason) = real::missing() {
            skip(test, &reason);
            return None;
        }
        let install = |real: &RealCluster, binary: &Path| real.install(binary).map(Some);
        let real = RealCluster::for_install(gangs);
        let mut fixture = QueueFixture::start_on_real(kubectl, real, install).expect("a real plane starts");
        fixture.start_operator();
        Some(fixture)
    }

    /// Starts a real server with the CRDs, and an operator as administrator without an installation.
    #[must_use]
    pub fn real_without_install(test: &str) -> Option<QueueFixture> {
        let kubectl = program("MUSTER_TEST_KUBECTL", test)?;
        if let Some(reason) = real::missing() {
            skip(test, &reason);
            return None;
        }
        let define = |real: &RealCluster, binary: &Path| {
            let mut definitions = Command::new(binary);
            let mut definitions =
                definitions.arg("crds").stdout(Stdio::piped()).spawn().map_err(|e| e.to_string())?;
            let printed = definitions.stdout.take().ok_or("its output is a pipe")?;
            let mut apply = Command::new(&kubectl);
            apply.arg("--kubeconfig").arg(real.admin_kubeconfig()?).args([
                "apply",
                "--server-side",
                "-f",
                "-",
            ]);
            let done = apply.stdin(printed).stdout(Stdio::null()).status().map_err(|e| e.to_string())?;
            definitions.wait().map_err(|e| e.to_string())?;
            if done.success() { Ok(None) } else { Err("kubectl does not apply the CRDs".to_owned()) }
        };
        let real = RealCluster::with_gang_support(GangSupport::AllFields);
        let mut fixture =
            QueueFixture::start_on_real(kubectl.clone(), real, define).expect("a real plane starts");
        fixture.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]);
        fixture.start_operator();
        Some(fixture)
    }

    fn start_on_real(
        kubectl: PathBuf,
        real: Result<RealCluster, String>,
        define: impl FnOnce(&RealCluster, &Path) -> Result<Option<InstalledOperator>, String>,
    ) -> Result<QueueFixture, String> {
        let binary = embedded_server::binary()?;
        // CRDs are created before the garbage collector starts, which refreshes discovery rarely.
        let mut real = real?;
        let installed = define(&real, &binary)?;
        real.start_controllers(&CONTROLLERS)?;
        real.start_scheduler()?;
        real.add_simulated_nodes(&binary, NODES)?;
        wait_for_nodes(&real.server, NODES)?;
        let kubeconfig = real.admin_kubeconfig()?;
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        let server = ApiClient::new(real.server.base(), real.token());
        let scene = Backing::Real { real: Box::new(real), installed, operator: None };
        Ok(QueueFixture { kubectl, kubeconfig, server, folder, scene })
    }

    /// Installs Muster on a real server, with additional arguments.
    pub fn install(&mut self, more: &[&str]) {
        let Backing::Real { real, installed, .. } = &mut self.scene else {
            panic!("nothing is installed on an embedded plane")
        };
        let binary = embedded_server::binary().expect("there is a binary");
        *installed = Some(real.install_with(&binary, more).expect("it is installed"));
    }

    /// Starts the operator of a real server and waits until it is leader.
    pub fn start_operator(&mut self) {
        self.start_operator_with(&[]);
    }

    /// Like [`QueueFixture::start_operator`], with additional arguments.
    pub fn start_operator_with(&mut self, more: &[&str]) {
        let Backing::Real { real, installed, operator } = &mut self.scene else {
            panic!("an embedded plane has no operator")
        };
        let binary = embedded_server::binary().expect("there is a binary");
        let words = [&["--log-level", "info"], more].concat();
        let started = match installed {
            Some(installed) => real.start_installed_operator(&binary, installed, &words),
            None => real.start_operator_as_admin(&binary, &words),
        };
        *operator = Some(started.expect("the operator becomes leader"));
    }

    /// Terminates the operator, which releases its Lease, so that the next one need not wait for it to expire.
    pub fn stop_operator(&mut self) {
        let Backing::Real { real, operator, .. } = &mut self.scene else {
            panic!("an embedded plane has no operator")
        };
        real.terminate(operator.take().expect("it runs")).expect("it ends");
    }

    /// Kills the operator, which keeps its Lease until it expires.
    pub fn kill_operator(&mut self) {
        let Backing::Real { real, operator, .. } = &mut self.scene else {
            panic!("an embedded plane has no operator")
        };
        real.kill(operator.take().expect("it runs")).expect("it can be killed");
    }

    /// From its next start on, the operator runs as an administrator who impersonates its ServiceAccount: it has the same permissions, but
    /// the audit log does not attribute its requests to the account.
    pub fn impersonate_operator(&mut self) {
        let config = std::fs::read_to_string(&self.kubeconfig).expect("there is a kubeconfig");
        let account = "user: {as: 'system:serviceaccount:muster-system:muster-operator', token:";
        let played = self.write_file("played.kubeconfig", &config.replace("user: {token:", account));
        let Backing::Real { installed: Some(installed), .. } = &mut self.scene else {
            panic!("there is an installed operator")
        };
        installed.kubeconfig = played.into();
    }

    /// Installs Muster again, with additional arguments, and returns the output. The recreated Services then point at localhost.
    ///
    /// # Errors
    /// The stderr of the command.
    pub fn reinstall(&self, more: &[&str]) -> Result<String, String> {
        let Some((real, installed)) = self.installation() else { panic!("there is an installed operator") };
        let port = installed.webhooks.rsplit(':').next().unwrap_or_default();
        let mut command = Command::new(embedded_server::binary().expect("there is a binary"));
        command
            .args(["install", "--webhook-port", port])
            .args(more)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig);
        let output = command.output().expect("the binary starts");
        real.point_services_at_localhost().expect("Services can be made");
        let text = |bytes| String::from_utf8(bytes).expect("it writes text");
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// Kills the API server of a real control plane.
    pub fn kill_api_server(&mut self) {
        let Backing::Real { real, .. } = &mut self.scene else { panic!("it is our own") };
        real.stop_server().expect("it can be killed");
    }

    /// Starts the API server again.
    pub fn start_api_server(&mut self) {
        let Backing::Real { real, .. } = &mut self.scene else { panic!("it is our own") };
        real.start_server().expect("it starts");
    }

    /// Returns the audit events of the installed operator.
    #[must_use]
    pub fn audit_events(&self) -> Vec<Tree> {
        match &self.scene {
            Backing::Real { real, .. } => real.audit_events(),
            Backing::Ours { .. } => Vec::new(),
        }
    }

    /// Log of the operator; empty for the embedded server.
    #[must_use]
    pub fn operator_log(&self) -> String {
        match &self.scene {
            Backing::Real { real, .. } => real.operator_log(),
            Backing::Ours { .. } => String::new(),
        }
    }

    /// Runs `muster why`.
    ///
    /// # Errors
    /// The stderr of the command.
    pub fn why(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(embedded_server::binary().expect("there is a binary"));
        command.arg("why").args(args).arg("--kubeconfig").arg(&self.kubeconfig);
        let output = command.output().expect("the binary starts");
        let text = |bytes| String::from_utf8(bytes).expect("it writes text");
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// Writes a file and returns its path.
    #[must_use]
    pub fn write_file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("a file can be written");
        path.display().to_string()
    }

    /// Reads a path as this user; as the administrator when empty.
    ///
    /// # Errors
    /// The stderr of kubectl.
    pub fn get_raw(&self, user: &str, path: &str) -> Result<Tree, String> {
        let user: &[&str] = if user.is_empty() { &[] } else { &["--as", user] };
        let text = self.run(&[&["get", "--raw", path][..], user].concat())?;
        Tree::parse(text.as_bytes()).map_err(|e| format!("{e}: {text}"))
    }

    /// Returns the real cluster and the installed operator.
    #[must_use]
    pub fn installation(&self) -> Option<(&RealCluster, &InstalledOperator)> {
        match &self.scene {
            Backing::Real { real, installed: Some(installed), .. } => Some((real, installed)),
            _ => None,
        }
    }

    /// Deletes the objects of stories and waits until the Workloads are gone, too.
    pub fn clear(&self) {
        for kind in CLEARED_KINDS {
            self.kubectl(&["delete", kind, "--all", "--timeout=120s"]);
        }
        self.until("Workloads are deleted with their owners", |fixture| {
            let left = fixture.get(&[WORKLOADS, "--all-namespaces"]);
            if left.items_at(&["items"]).is_empty() { Ok(()) } else { Err(left.to_json()) }
        });
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--cache-dir").arg(self.folder.path());
        command.args(args);
        command
    }

    /// Runs kubectl and returns stdout.
    ///
    /// # Errors
    /// The stderr of kubectl.
    pub fn run(&self, args: &[&str]) -> Result<String, String> {
        let output = self.command(args).output().expect("kubectl starts");
        let text = |bytes| String::from_utf8(bytes).expect("kubectl writes text");
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// Runs kubectl, asserts success and returns stdout.
    pub fn kubectl(&self, args: &[&str]) -> String {
        self.run(args).unwrap_or_else(|why| panic!("{args:?}: {why}\n{}", self.operator_log()))
    }

    /// Runs shell commands with `kubectl` in the path and these environment variables.
    ///
    /// # Errors
    /// The stderr of the commands.
    pub fn shell(&self, commands: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        let folder = self.folder.path();
        let link = folder.join("kubectl");
        if !link.exists() {
            std::os::unix::fs::symlink(&self.kubectl, &link).map_err(|e| e.to_string())?;
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", commands]).current_dir(folder).stdin(Stdio::null());
        shell.env("PATH", format!("{}:{path}", folder.display())).env("KUBECONFIG", &self.kubeconfig);
        let output = shell.envs(variables.iter().copied()).output().map_err(|e| format!("sh: {e}"))?;
        let text = |bytes| String::from_utf8(bytes).expect("they write text");
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    pub fn apply(&self, name: &str) {
        self.kubectl(&["apply", "-f", &example(name).display().to_string()]);
    }

    pub fn apply_text(&self, text: &str) {
        self.try_apply(text, &[]).unwrap_or_else(|why| panic!("{why}: {text}"));
    }

    /// Applies a manifest with additional arguments.
    ///
    /// # Errors
    /// The stderr of kubectl.
    pub fn try_apply(&self, text: &str, more: &[&str]) -> Result<String, String> {
        let mut command = self.command(&[&["apply", "-f", "-"], more].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("kubectl starts");
        let mut input = child.stdin.take().expect("its input is a pipe");
        input.write_all(text.as_bytes()).expect("kubectl reads");
        drop(input);
        let output = child.wait_with_output().expect("kubectl ends");
        let text = |bytes| String::from_utf8(bytes).expect("kubectl writes text");
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// Reads objects; panics if that fails.
    #[must_use]
    pub fn get(&self, args: &[&str]) -> Tree {
        self.try_get(args).unwrap_or_else(|why| panic!("{args:?}: {why}\n{}", self.operator_log()))
    }

    /// Reads objects by the arguments of `kubectl get`.
    ///
    /// # Errors
    /// The stderr of kubectl.
    pub fn try_get(&self, args: &[&str]) -> Result<Tree, String> {
        if let Some(found) = object_reader::get(&self.server, args) {
            return found;
        }
        let text = self.run(&[&["get", "--output", "json"][..], args].concat())?;
        Tree::parse(text.as_bytes()).map_err(|e| format!("{e}: {text}"))
    }

    /// Applies the example queue with this CPU quota.
    pub fn set_quota(&self, cpu: &str) {
        let text = example_text("queue-quota.yaml");
        assert!(text.contains("nominalQuota: 10m"), "the example has ten");
        self.apply_text(&text.replace("nominalQuota: 10m", &format!("nominalQuota: {cpu}")));
    }

    /// Polls until the condition holds.
    pub fn until(&self, what: &str, mut is: impl FnMut(&QueueFixture) -> Result<(), String>) {
        let mut last = String::new();
        for _ in 0..POLLS_MAX {
            match is(self) {
                Ok(()) => return,
                Err(seen) => last = seen,
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        panic!("{what}: {last}\n{}", self.operator_log());
    }

    /// Asserts that the condition holds for a while.
    pub fn stays(&self, what: &str, mut is: impl FnMut(&QueueFixture) -> Result<(), String>) {
        for _ in 0..STABLE_POLLS {
            is(self).unwrap_or_else(|seen| panic!("{what}: {seen}\n{}", self.operator_log()));
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns the number of gated pods and of all pods.
    #[must_use]
    pub fn gated(&self) -> (usize, usize) {
        let pods = self.get(&["pods"]);
        let pods = pods.items_at(&["items"]);
        let ours = |gate: &Tree| gate.str_at(&["name"]) == "kueue.x-k8s.io/admission";
        let gated = |pod: &&Tree| pod.items_at(&["spec", "schedulingGates"]).iter().any(ours);
        (pods.iter().filter(gated).count(), pods.len())
    }

    /// Whether exactly `count` pods exist and all are gated.
    ///
    /// # Errors
    /// The actual counts.
    pub fn all_gated(&self, count: usize) -> Result<(), String> {
        let seen = self.gated();
        if seen == (count, count) { Ok(()) } else { Err(format!("{seen:?}")) }
    }

    /// Whether exactly `count` pods exist and none is gated.
    ///
    /// # Errors
    /// The actual counts.
    pub fn none_gated(&self, count: usize) -> Result<(), String> {
        let seen = self.gated();
        if seen == (0, count) { Ok(()) } else { Err(format!("{seen:?}")) }
    }

    /// Returns the reason of a true condition of a Workload.
    ///
    /// # Errors
    /// The Workload.
    pub fn true_condition(&self, workload: &str, condition: &str) -> Result<String, String> {
        let seen = self.get(&[WORKLOADS, workload]);
        let is = |it: &&Tree| it.str_at(&["type"]) == condition && it.str_at(&["status"]) == "True";
        let found = seen.items_at(&["status", "conditions"]).iter().find(is);
        found.map(|it| it.str_at(&["reason"]).to_owned()).ok_or_else(|| seen.to_json())
    }

    /// Waits until a Workload has succeeded, its pods have no finalizers and its quota is released.
    pub fn wait_for_finished(&self, workload: &str) {
        self.until("it ends", |fixture| fixture.true_condition(workload, "Finished").map(drop));
        assert_eq!(self.true_condition(workload, "Finished").as_deref(), Ok("Succeeded"));
        self.until("pods have no finalizers", |fixture| {
            let pods = fixture.get(&["pods"]);
            let held = |pod: &Tree| !pod.items_at(&["metadata", "finalizers"]).is_empty();
            if pods.items_at(&["items"]).iter().any(held) { Err(pods.to_json()) } else { Ok(()) }
        });
        self.until("the quota is released", |fixture| fixture.usage_is("team", "0"));
    }

    /// Whether a ClusterQueue has this CPU usage.
    ///
    /// # Errors
    /// The queue.
    pub fn usage_is(&self, queue: &str, cpu: &str) -> Result<(), String> {
        let seen = self.get(&["clusterqueues.kueue.x-k8s.io", queue]);
        let flavors = seen.items_at(&["status", "flavorsUsage"]);
        let total = flavors
            .first()
            .and_then(|it| it.items_at(&["resources"]).first())
            .map(|it| it.str_at(&["total"]));
        if total == Some(cpu) { Ok(()) } else { Err(seen.to_json()) }
    }

    /// Returns the pod sets of a Workload with their counts.
    #[must_use]
    pub fn pod_sets(&self, workload: &str) -> Vec<(String, i64)> {
        let seen = self.get(&[WORKLOADS, workload]);
        let sets = seen.items_at(&["spec", "podSets"]).iter();
        sets.map(|it| (it.str_at(&["name"]).to_owned(), it.int_at(&["count"]).unwrap_or(0))).collect()
    }
}

/// A plain pod is gated until its quota is reserved.
pub fn a_plain_pod_is_gated_until_quota(fixture: &QueueFixture) {
    fixture.set_quota("0");
    fixture.apply("queue-pod.yaml");
    fixture.until("its Workload exists", |fixture| {
        let list = fixture.get(&[WORKLOADS]);
        if list.items_at(&["items"]).is_empty() { Err(list.to_json()) } else { Ok(()) }
    });
    fixture.stays("it stays gated", |fixture| fixture.all_gated(1));
    let list = fixture.get(&[WORKLOADS]);
    let name = list.items_at(&["items"])[0].str_at(&["metadata", "name"]).to_owned();
    assert!(name.starts_with("pod-foo-"), "{name}");
    assert_eq!(fixture.pod_sets(&name), [("main".to_owned(), 1)]);
    fixture.set_quota("10m");
    fixture.until("it starts", |fixture| fixture.none_gated(1));
    fixture.wait_for_finished(&name);
    let pod = fixture.get(&["pod", "foo"]);
    assert_eq!(pod.str_at(&["metadata", "labels", "kueue.x-k8s.io/managed"]), "true", "for good");
}

/// A pod group is admitted all or nothing; excess pods are deleted.
pub fn a_group_is_admitted_all_or_nothing(fixture: &QueueFixture) {
    fixture.set_quota("9m");
    fixture.apply("queue-group.yaml");
    fixture.until("all are gated", |fixture| fixture.all_gated(10));
    fixture.stays("nine are not enough", |fixture| fixture.all_gated(10));
    assert_eq!(fixture.pod_sets("equal-group"), [("main".to_owned(), 10)]);
    let text = example_text("queue-group.yaml");
    let (one, _) = text.split_once("---\n").expect("there are several");
    fixture.set_quota("10m");
    fixture.until("all start", |fixture| fixture.none_gated(10));
    fixture.apply_text(&one.replace("pod-index-0", "too-many"));
    fixture.until("an excess pod is deleted", |fixture| match fixture.try_get(&["pod", "too-many"]) {
        Err(why) if why.contains("NotFound") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    fixture.wait_for_finished("equal-group");
}

/// A pod group with roles gets a Workload only when a pod of every role exists.
pub fn a_group_waits_for_a_pod_of_every_role(fixture: &QueueFixture) {
    fixture.set_quota("10m");
    let text = example_text("queue-roles.yaml");
    let (driver, workers) = text.split_once("---\n").expect("there are several");
    fixture.apply_text(driver);
    fixture.stays("it stays gated without workers", |fixture| fixture.all_gated(1));
    assert!(fixture.get(&[WORKLOADS]).items_at(&["items"]).is_empty(), "there is no Workload yet");
    fixture.apply_text(workers);
    fixture.until("all start", |fixture| fixture.none_gated(10));
    assert_eq!(fixture.pod_sets("roles-group"), [("driver".to_owned(), 1), ("worker".to_owned(), 9)]);
    fixture.wait_for_finished("roles-group");
}

/// A driver is admitted only if there is quota for its workers as well.
pub fn a_driver_is_admitted_with_quota_for_its_workers(fixture: &QueueFixture, file: &str) {
    let group = if file.contains("printed") { "printed-group" } else { "driver-group" };
    fixture.set_quota("9m");
    fixture.apply(file);
    fixture.stays("its workers would not fit", |fixture| fixture.all_gated(1));
    fixture.set_quota("10m");
    fixture.until("it starts", |fixture| fixture.none_gated(1));
    assert_eq!(fixture.pod_sets(group), [("driver".to_owned(), 1), ("workers".to_owned(), 9)], "{file}");
    let worker = |n: usize| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: job-worker-{n}\n  labels:\n    \
             kueue.x-k8s.io/queue-name: user-queue\n    kueue.x-k8s.io/pod-group-name: {group}\n    \
             kueue.x-k8s.io/pod-group-role: worker\nspec:\n  restartPolicy: Never\n  containers:\n  - name: job\n    \
             image: hello-world\n    resources: {{requests: {{cpu: 1m}}}}\n---\n"
        )
    };
    fixture.apply_text(&(0..9).map(worker).collect::<String>());
    fixture.until("workers start at once", |fixture| fixture.none_gated(10));
    fixture.wait_for_finished(group);
}

/// A pod group with the gang annotation is scheduled all or nothing: its PodGroup exists before it is ungated and is deleted with its
/// last pod. Pods name this scheduler, or the default one when empty.
pub fn a_group_is_scheduled_as_a_gang(fixture: &QueueFixture, api_group: &str, scheduler: &str) {
    let [workload, group] = ["workloads", "podgroups"].map(|plural| format!("{plural}.{api_group}"));
    fixture.set_quota("10m");
    fixture.apply_text(&scheduled_by(scheduler, &example_text("queue-gang.yaml")));
    fixture.until("all start", |fixture| fixture.none_gated(3));
    let made = fixture.get(&[&workload, "ring"]);
    let template = made.items_at(&["spec", "podGroupTemplates"])[0].clone();
    let policy = template.get("policy").or_else(|| template.get("schedulingPolicy"));
    let least = policy.and_then(|it| it.int_at(&["gang", "minCount"]));
    assert_eq!(least, Some(3), "{template}");
    fixture.wait_for_finished("ring");
    let made = fixture.get(&[&group, "ring"]);
    let owners = made.items_at(&["metadata", "ownerReferences"]).iter();
    assert_eq!(owners.filter(|it| it.str_at(&["kind"]) == "Pod").count(), 3, "{made}");
    fixture.kubectl(&["delete", "pods", "--all"]);
    fixture.until("the PodGroup is deleted with its pods", |fixture| {
        match fixture.run(&["get", &group, "ring"]) {
            Err(why) if why.contains("NotFound") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}

/// Sets the scheduler name of the pods in a manifest; an empty name changes nothing.
fn scheduled_by(scheduler: &str, text: &str) -> String {
    match scheduler {
        "" => text.to_owned(),
        name => {
            text.replace("restartPolicy: Never", &format!("restartPolicy: Never\n  schedulerName: {name}"))
        }
    }
}

/// A gang with quota, but node capacity for all pods except one, is not scheduled at all.
pub fn a_gang_without_capacity_is_not_scheduled(fixture: &QueueFixture, scheduler: &str) {
    fixture.set_quota("10k");
    let text = scheduled_by(scheduler, &example_text("queue-gang.yaml"));
    let (small, big) = text.rsplit_once("cpu: 1m").expect("it asks for processors");
    fixture.apply_text(&format!("{small}cpu: 9k{big}"));
    fixture.until("all are ungated", |fixture| fixture.none_gated(3));
    fixture.stays("none is bound without the others", |fixture| {
        let pods = fixture.get(&["pods"]);
        let placed = |pod: &&Tree| !pod.str_at(&["spec", "nodeName"]).is_empty();
        if pods.items_at(&["items"]).iter().any(|pod| placed(&pod)) { Err(pods.to_json()) } else { Ok(()) }
    });
}

/// A gang with quota but without node capacity is not scheduled, and is evicted after the pods-ready timeout.
pub fn a_gang_without_capacity_is_evicted(fixture: &QueueFixture) {
    fixture.set_quota("10k");
    let text = example_text("queue-gang.yaml");
    let (small, big) = text.rsplit_once("cpu: 1m").expect("it asks for processors");
    fixture.apply_text(&format!("{small}cpu: 9k{big}"));
    let event_count = |fixture: &QueueFixture, reason: &str| {
        let events = fixture.get(&["events"]);
        events.items_at(&["items"]).iter().filter(|it| it.str_at(&["reason"]) == reason).count()
    };
    fixture.until("it has quota, and gives it back", |fixture| {
        let count = event_count(fixture, "EvictedDueToPodsReadyTimeout");
        if count > 0 { Ok(()) } else { Err(fixture.get(&["pods"]).to_json()) }
    });
    assert_eq!(event_count(fixture, "Started"), 3, "all were ungated");
    assert_eq!(event_count(fixture, "Scheduled"), 0, "none was bound without the others");
    fixture.until("the quota is released", |fixture| fixture.usage_is("team", "0"));
}

/// Borrowed quota is reclaimed by preemption when its owner needs it.
pub fn borrowed_quota_is_reclaimed_by_preemption(fixture: &QueueFixture) {
    let running = |fixture: &QueueFixture, job: &str, want: &str| {
        let seen = fixture.get(&["job", job]);
        let suspended = seen.bool_at(&["spec", "suspend"]) == Some(true);
        let is = if suspended { "waits" } else { "runs" };
        if is == want { Ok(()) } else { Err(seen.to_json()) }
    };
    fixture.apply("queue-cohort.yaml");
    fixture.until("the borrower runs", |fixture| running(fixture, "borrower", "runs"));
    fixture.until("and uses all", |fixture| fixture.usage_is("blue", "800m"));
    fixture.apply("queue-reclaim.yaml");
    fixture.until("the owner runs", |fixture| running(fixture, "owner", "runs"));
    fixture.until("the borrower waits", |fixture| running(fixture, "borrower", "waits"));
    fixture.until("nothing is borrowed", |fixture| {
        fixture.usage_is("blue", "0").and(fixture.usage_is("green", "400m"))
    });
    let borrower = fixture.get(&[WORKLOADS, "-l", "kueue.x-k8s.io/job-uid"]);
    let evicted = borrower.items_at(&["items"]).iter().flat_map(|it| it.items_at(&["status", "conditions"]));
    let mut evicted = evicted.filter(|it| it.str_at(&["type"]) == "Preempted");
    assert_eq!(evicted.next().map(|it| it.str_at(&["reason"])), Some("InCohortReclamation"));
}
