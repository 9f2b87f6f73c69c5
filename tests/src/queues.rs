//! Queues as the examples show them, on any plane: who waits, who runs, and what is given back.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use muster_tree::Tree;
use tempfile::TempDir;

use crate::clients::{program, skip};
use crate::differential::Server;
use crate::plane::{self, Plane};
use crate::planes::wait_for_nodes;
use crate::reader;
use crate::real::{self, Gangs, Installed, Real};

/// Looks until something is so, at most.
const LOOKS_MAX: usize = 1800;
/// Looks for as long as something has to stay as it is.
const LOOKS_QUIET: usize = 10;
const PAUSE: Duration = Duration::from_millis(100);
/// The controllers that a real plane has beside ours.
const BESIDE: [&str; 6] = ["gc", "namespace", "job", "podgc", "node", "podgroup"];
/// Simulated nodes.
const NODES: usize = 3;
/// Workloads of queues: schedulers have such, too.
pub const WORKLOADS: &str = "workloads.kueue.x-k8s.io";
/// What stories leave behind, in the order in which it goes.
const LEFT: [&str; 8] = [
    "jobs.batch",
    "jobsets.jobset.x-k8s.io",
    "pods",
    "localqueues.kueue.x-k8s.io",
    "clusterqueues.kueue.x-k8s.io",
    "cohorts.kueue.x-k8s.io",
    "resourceflavors.kueue.x-k8s.io",
    "workloadpriorityclasses.kueue.x-k8s.io",
];

/// A file of the examples.
#[must_use]
pub fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name)
}

/// The text of a file of the examples.
#[must_use]
pub fn read(name: &str) -> String {
    std::fs::read_to_string(example(name)).expect("there is such an example")
}

/// What is behind the stage; it ends with it.
enum Scene {
    /// An embedded plane.
    Ours { _plane: Plane },
    /// A real one, how its operator is started where Muster is installed, and that operator.
    Real { real: Box<Real>, installed: Option<Installed>, operator: Option<u32> },
}

/// A plane with simulated nodes, and kubectl for it.
pub struct Stage {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    /// Talks to it as the administrator.
    server: Server,
    /// What kubectl remembers of this server.
    folder: TempDir,
    scene: Scene,
}

impl Stage {
    /// An embedded plane, with these further words; `None`, and the test noted as skipped, without kubectl.
    #[must_use]
    pub fn embedded(test: &str, more: &[&str]) -> Option<Stage> {
        let kubectl = program("MUSTER_TEST_KUBECTL", test)?;
        let nodes = NODES.to_string();
        let plane = Plane::start(&[&["--ephemeral", "--sim-nodes", &nodes], more].concat());
        let plane = plane.expect("a plane starts");
        let kubeconfig = plane.kubeconfig().to_owned();
        let folder = TempDir::new().expect("a folder can be made");
        let server = plane.server().expect("there is a kubeconfig");
        Some(Stage { kubectl, kubeconfig, server, folder, scene: Scene::Ours { _plane: plane } })
    }

    /// A real plane on which Muster is installed, with its operator in charge.
    #[must_use]
    pub fn real(test: &str) -> Option<Stage> {
        Stage::real_with(test, Gangs::Whole)
    }

    /// The same, with or without the kinds of gangs.
    #[must_use]
    pub fn real_with(test: &str, gangs: Gangs) -> Option<Stage> {
        let kubectl = program("MUSTER_TEST_KUBECTL", test)?;
        if let Some(reason) = real::missing() {
            skip(test, &reason);
            return None;
        }
        let install = |real: &Real, binary: &Path| real.install(binary).map(Some);
        let real = Real::to_install_on(gangs);
        let mut stage = Stage::on_real(kubectl, real, install).expect("a real plane starts");
        stage.operator_starts();
        Some(stage)
    }

    /// A real plane that knows the definitions, with an operator in charge that nobody installed.
    #[must_use]
    pub fn by_itself(test: &str) -> Option<Stage> {
        let kubectl = program("MUSTER_TEST_KUBECTL", test)?;
        if let Some(reason) = real::missing() {
            skip(test, &reason);
            return None;
        }
        let define = |real: &Real, binary: &Path| {
            let mut definitions = Command::new(binary);
            let mut definitions =
                definitions.arg("crds").stdout(Stdio::piped()).spawn().map_err(|e| e.to_string())?;
            let printed = definitions.stdout.take().ok_or("its output is a pipe")?;
            let mut apply = Command::new(&kubectl);
            apply.arg("--kubeconfig").arg(real.own_kubeconfig()?).args(["apply", "--server-side", "-f", "-"]);
            let done = apply.stdin(printed).stdout(Stdio::null()).status().map_err(|e| e.to_string())?;
            definitions.wait().map_err(|e| e.to_string())?;
            if done.success() { Ok(None) } else { Err("kubectl applies no definitions".to_owned()) }
        };
        let real = Real::with_gangs(Gangs::Whole);
        let mut stage = Stage::on_real(kubectl.clone(), real, define).expect("a real plane starts");
        stage.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]);
        stage.operator_starts();
        Some(stage)
    }

    fn on_real(
        kubectl: PathBuf,
        real: Result<Real, String>,
        define: impl FnOnce(&Real, &Path) -> Result<Option<Installed>, String>,
    ) -> Result<Stage, String> {
        let binary = plane::binary()?;
        // Definitions come before the garbage collector, which looks for new kinds only now and then.
        let mut real = real?;
        let installed = define(&real, &binary)?;
        real.start_controllers(&BESIDE)?;
        real.start_scheduler()?;
        real.join(&binary, NODES)?;
        wait_for_nodes(&real.server, NODES)?;
        let kubeconfig = real.own_kubeconfig()?;
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        let server = Server::new(real.server.base(), real.token());
        let scene = Scene::Real { real: Box::new(real), installed, operator: None };
        Ok(Stage { kubectl, kubeconfig, server, folder, scene })
    }

    /// Installs Muster on a real plane, with these further words.
    pub fn install(&mut self, more: &[&str]) {
        let Scene::Real { real, installed, .. } = &mut self.scene else {
            panic!("nothing is installed on an embedded plane")
        };
        let binary = plane::binary().expect("there is a binary");
        *installed = Some(real.install_with(&binary, more).expect("it is installed"));
    }

    /// Starts the operator of a real plane, and waits until it is in charge.
    pub fn operator_starts(&mut self) {
        self.operator_starts_with(&[]);
    }

    /// The same, with these further words.
    pub fn operator_starts_with(&mut self, more: &[&str]) {
        let Scene::Real { real, installed, operator } = &mut self.scene else {
            panic!("an embedded plane has no operator")
        };
        let binary = plane::binary().expect("there is a binary");
        let words = [&["--log-level", "info"], more].concat();
        let started = match installed {
            Some(installed) => real.operate_as(&binary, installed, &words),
            None => real.operate(&binary, &words),
        };
        *operator = Some(started.expect("the operator is in charge"));
    }

    /// Asks the operator of a real plane to end, so that the next one need not wait for its lease to expire.
    pub fn operator_ends(&mut self) {
        let Scene::Real { real, operator, .. } = &mut self.scene else {
            panic!("an embedded plane has no operator")
        };
        real.terminate(operator.take().expect("it runs")).expect("it ends");
    }

    /// Kills the operator of a real plane.
    pub fn operator_dies(&mut self) {
        let Scene::Real { real, operator, .. } = &mut self.scene else {
            panic!("an embedded plane has no operator")
        };
        real.kill(operator.take().expect("it runs")).expect("it can be killed");
    }

    /// From its next start on, the operator is an administrator who acts as its ServiceAccount: it may do what that may,
    /// and what it does is not written down as done by that.
    pub fn operator_is_played(&mut self) {
        let config = std::fs::read_to_string(&self.kubeconfig).expect("there is a kubeconfig");
        let account = "user: {as: 'system:serviceaccount:muster-system:muster-operator', token:";
        let played = self.file("played.kubeconfig", &config.replace("user: {token:", account));
        let Scene::Real { installed: Some(installed), .. } = &mut self.scene else {
            panic!("there is an installed operator")
        };
        installed.kubeconfig = played.into();
    }

    /// Installs Muster on a real plane again, with these further words; what it says. The Services of a cluster, which this puts
    /// there, lead to this machine afterwards.
    ///
    /// # Errors
    /// What it complains about.
    pub fn installs(&self, more: &[&str]) -> Result<String, String> {
        let Some((real, installed)) = self.behind() else { panic!("there is an installed operator") };
        let port = installed.webhooks.rsplit(':').next().unwrap_or_default();
        let mut command = Command::new(plane::binary().expect("there is a binary"));
        command
            .args(["install", "--webhook-port", port])
            .args(more)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig);
        let output = command.output().expect("the binary starts");
        real.lead_to_this_machine().expect("Services can be made");
        let told = |bytes| String::from_utf8(bytes).expect("it writes text");
        if output.status.success() { Ok(told(output.stdout)) } else { Err(told(output.stderr)) }
    }

    /// Kills the API server of a real plane.
    pub fn server_dies(&mut self) {
        let Scene::Real { real, .. } = &mut self.scene else { panic!("it is our own") };
        real.stop_server().expect("it can be killed");
    }

    /// Starts it again.
    pub fn server_comes_back(&mut self) {
        let Scene::Real { real, .. } = &mut self.scene else { panic!("it is our own") };
        real.start_server_again().expect("it starts");
    }

    /// What the installed operator of a real plane has asked for, in the words of the server.
    #[must_use]
    pub fn audited(&self) -> Vec<Tree> {
        match &self.scene {
            Scene::Real { real, .. } => real.audited(),
            Scene::Ours { .. } => Vec::new(),
        }
    }

    /// What the operator of a real plane has told.
    #[must_use]
    pub fn complaints(&self) -> String {
        match &self.scene {
            Scene::Real { real, .. } => real.complaints(),
            Scene::Ours { .. } => String::new(),
        }
    }

    /// What `muster why` says.
    ///
    /// # Errors
    /// What it complains about.
    pub fn why(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(plane::binary().expect("there is a binary"));
        command.arg("why").args(args).arg("--kubeconfig").arg(&self.kubeconfig);
        let output = command.output().expect("the binary starts");
        let told = |bytes| String::from_utf8(bytes).expect("it writes text");
        if output.status.success() { Ok(told(output.stdout)) } else { Err(told(output.stderr)) }
    }

    /// A file with this text, for whoever wants a path.
    #[must_use]
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("a file can be written");
        path.display().to_string()
    }

    /// What is told at this path to this user; the administrator when it is empty.
    ///
    /// # Errors
    /// What kubectl complains about.
    pub fn raw(&self, user: &str, path: &str) -> Result<Tree, String> {
        let user: &[&str] = if user.is_empty() { &[] } else { &["--as", user] };
        let text = self.run(&[&["get", "--raw", path][..], user].concat())?;
        Tree::parse(text.as_bytes()).map_err(|e| format!("{e}: {text}"))
    }

    /// The real plane behind it, and how its operator is started.
    #[must_use]
    pub fn behind(&self) -> Option<(&Real, &Installed)> {
        match &self.scene {
            Scene::Real { real, installed: Some(installed), .. } => Some((real, installed)),
            _ => None,
        }
    }

    /// Takes away what stories leave behind, and waits until it is gone: nothing holds what nobody uses.
    pub fn clear(&self) {
        for kind in LEFT {
            self.kubectl(&["delete", kind, "--all", "--timeout=120s"]);
        }
        self.until("Workloads go with their owners", |stage| {
            let left = stage.get(&[WORKLOADS, "--all-namespaces"]);
            if left.items_at(&["items"]).is_empty() { Ok(()) } else { Err(left.to_json()) }
        });
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--cache-dir").arg(self.folder.path());
        command.args(args);
        command
    }

    /// What kubectl says.
    ///
    /// # Errors
    /// What it complains about.
    pub fn run(&self, args: &[&str]) -> Result<String, String> {
        let output = self.command(args).output().expect("kubectl starts");
        let told = |bytes| String::from_utf8(bytes).expect("kubectl writes text");
        if output.status.success() { Ok(told(output.stdout)) } else { Err(told(output.stderr)) }
    }

    /// What kubectl says, which does as it is told.
    pub fn kubectl(&self, args: &[&str]) -> String {
        self.run(args).unwrap_or_else(|why| panic!("{args:?}: {why}\n{}", self.complaints()))
    }

    /// What commands of a shell say that use `kubectl`, with these further variables.
    ///
    /// # Errors
    /// What they complain about.
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
        let told = |bytes| String::from_utf8(bytes).expect("they write text");
        if output.status.success() { Ok(told(output.stdout)) } else { Err(told(output.stderr)) }
    }

    /// Applies a file of the examples.
    pub fn apply(&self, name: &str) {
        self.kubectl(&["apply", "-f", &example(name).display().to_string()]);
    }

    /// Applies this text.
    pub fn apply_text(&self, text: &str) {
        self.try_apply(text, &[]).unwrap_or_else(|why| panic!("{why}: {text}"));
    }

    /// Applies this text with these further words.
    ///
    /// # Errors
    /// What kubectl complains about.
    pub fn try_apply(&self, text: &str, more: &[&str]) -> Result<String, String> {
        let mut command = self.command(&[&["apply", "-f", "-"], more].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("kubectl starts");
        let mut input = child.stdin.take().expect("its input is a pipe");
        input.write_all(text.as_bytes()).expect("kubectl reads");
        drop(input);
        let output = child.wait_with_output().expect("kubectl ends");
        let told = |bytes| String::from_utf8(bytes).expect("kubectl writes text");
        if output.status.success() { Ok(told(output.stdout)) } else { Err(told(output.stderr)) }
    }

    /// Objects as they are.
    #[must_use]
    pub fn get(&self, args: &[&str]) -> Tree {
        self.look(args).unwrap_or_else(|why| panic!("{args:?}: {why}\n{}", self.complaints()))
    }

    /// Objects as they are, in the words of `kubectl get`.
    ///
    /// # Errors
    /// What kubectl complains about.
    pub fn look(&self, args: &[&str]) -> Result<Tree, String> {
        if let Some(found) = reader::read(&self.server, args) {
            return found;
        }
        let text = self.run(&[&["get", "--output", "json"][..], args].concat())?;
        Tree::parse(text.as_bytes()).map_err(|e| format!("{e}: {text}"))
    }

    /// Applies the queue of the examples with another quota.
    pub fn quota(&self, cpu: &str) {
        let text = read("queue-quota.yaml");
        assert!(text.contains("nominalQuota: 10m"), "the example has ten");
        self.apply_text(&text.replace("nominalQuota: 10m", &format!("nominalQuota: {cpu}")));
    }

    /// Waits until something is so.
    pub fn until(&self, what: &str, mut is: impl FnMut(&Stage) -> Result<(), String>) {
        let mut last = String::new();
        for _ in 0..LOOKS_MAX {
            match is(self) {
                Ok(()) => return,
                Err(seen) => last = seen,
            }
            std::thread::sleep(PAUSE);
        }
        panic!("{what}: {last}\n{}", self.complaints());
    }

    /// Something stays as it is for a while.
    pub fn stays(&self, what: &str, mut is: impl FnMut(&Stage) -> Result<(), String>) {
        for _ in 0..LOOKS_QUIET {
            is(self).unwrap_or_else(|seen| panic!("{what}: {seen}\n{}", self.complaints()));
            std::thread::sleep(PAUSE);
        }
    }

    /// How many pods have our gate, and how many there are.
    #[must_use]
    pub fn gated(&self) -> (usize, usize) {
        let pods = self.get(&["pods"]);
        let pods = pods.items_at(&["items"]);
        let ours = |gate: &Tree| gate.str_at(&["name"]) == "kueue.x-k8s.io/admission";
        let gated = |pod: &&Tree| pod.items_at(&["spec", "schedulingGates"]).iter().any(ours);
        (pods.iter().filter(gated).count(), pods.len())
    }

    /// Whether there are so many pods, and all have our gate.
    ///
    /// # Errors
    /// How many there are.
    pub fn all_wait(&self, count: usize) -> Result<(), String> {
        let seen = self.gated();
        if seen == (count, count) { Ok(()) } else { Err(format!("{seen:?}")) }
    }

    /// Whether there are so many pods, and none has our gate.
    ///
    /// # Errors
    /// How many there are.
    pub fn none_waits(&self, count: usize) -> Result<(), String> {
        let seen = self.gated();
        if seen == (0, count) { Ok(()) } else { Err(format!("{seen:?}")) }
    }

    /// The reason of a condition of a Workload that is true.
    ///
    /// # Errors
    /// The Workload.
    pub fn has(&self, workload: &str, condition: &str) -> Result<String, String> {
        let seen = self.get(&[WORKLOADS, workload]);
        let is = |it: &&Tree| it.str_at(&["type"]) == condition && it.str_at(&["status"]) == "True";
        let found = seen.items_at(&["status", "conditions"]).iter().find(is);
        found.map(|it| it.str_at(&["reason"]).to_owned()).ok_or_else(|| seen.to_json())
    }

    /// Waits until a Workload has ended well, and nothing of it is held any more.
    pub fn finished(&self, workload: &str) {
        self.until("it ends", |stage| stage.has(workload, "Finished").map(drop));
        assert_eq!(self.has(workload, "Finished").as_deref(), Ok("Succeeded"));
        self.until("pods are let go", |stage| {
            let pods = stage.get(&["pods"]);
            let held = |pod: &Tree| !pod.items_at(&["metadata", "finalizers"]).is_empty();
            if pods.items_at(&["items"]).iter().any(held) { Err(pods.to_json()) } else { Ok(()) }
        });
        self.until("the quota is free", |stage| stage.uses("team", "0"));
    }

    /// Whether a queue has this much of its processors in use.
    ///
    /// # Errors
    /// The queue.
    pub fn uses(&self, queue: &str, cpu: &str) -> Result<(), String> {
        let seen = self.get(&["clusterqueues.kueue.x-k8s.io", queue]);
        let flavors = seen.items_at(&["status", "flavorsUsage"]);
        let total = flavors
            .first()
            .and_then(|it| it.items_at(&["resources"]).first())
            .map(|it| it.str_at(&["total"]));
        if total == Some(cpu) { Ok(()) } else { Err(seen.to_json()) }
    }

    /// The pod sets of a Workload, with their counts.
    #[must_use]
    pub fn sets(&self, workload: &str) -> Vec<(String, i64)> {
        let seen = self.get(&[WORKLOADS, workload]);
        let sets = seen.items_at(&["spec", "podSets"]).iter();
        sets.map(|it| (it.str_at(&["name"]).to_owned(), it.int_at(&["count"]).unwrap_or(0))).collect()
    }
}

/// A pod by itself waits for quota.
pub fn a_pod_by_itself_waits_for_quota(stage: &Stage) {
    stage.quota("0");
    stage.apply("queue-pod.yaml");
    stage.until("it asks for quota", |stage| {
        let list = stage.get(&[WORKLOADS]);
        if list.items_at(&["items"]).is_empty() { Err(list.to_json()) } else { Ok(()) }
    });
    stage.stays("it waits", |stage| stage.all_wait(1));
    let list = stage.get(&[WORKLOADS]);
    let name = list.items_at(&["items"])[0].str_at(&["metadata", "name"]).to_owned();
    assert!(name.starts_with("pod-foo-"), "{name}");
    assert_eq!(stage.sets(&name), [("main".to_owned(), 1)]);
    stage.quota("10m");
    stage.until("it starts", |stage| stage.none_waits(1));
    stage.finished(&name);
    let pod = stage.get(&["pod", "foo"]);
    assert_eq!(pod.str_at(&["metadata", "labels", "kueue.x-k8s.io/managed"]), "true", "for good");
}

/// A group starts as a whole, and with no more than it said.
pub fn a_group_starts_as_a_whole(stage: &Stage) {
    stage.quota("9m");
    stage.apply("queue-group.yaml");
    stage.until("they wait", |stage| stage.all_wait(10));
    stage.stays("nine are not enough", |stage| stage.all_wait(10));
    assert_eq!(stage.sets("equal-group"), [("main".to_owned(), 10)]);
    let text = read("queue-group.yaml");
    let (one, _) = text.split_once("---\n").expect("there are several");
    stage.quota("10m");
    stage.until("all start", |stage| stage.none_waits(10));
    stage.apply_text(&one.replace("pod-index-0", "too-many"));
    stage.until("one too many goes", |stage| match stage.look(&["pod", "too-many"]) {
        Err(why) if why.contains("NotFound") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    stage.finished("equal-group");
}

/// A group whose pods have roles waits until there is one of each.
pub fn roles_are_waited_for(stage: &Stage) {
    stage.quota("10m");
    let text = read("queue-roles.yaml");
    let (driver, workers) = text.split_once("---\n").expect("there are several");
    stage.apply_text(driver);
    stage.stays("it waits for workers", |stage| stage.all_wait(1));
    assert!(stage.get(&[WORKLOADS]).items_at(&["items"]).is_empty(), "nothing is asked for yet");
    stage.apply_text(workers);
    stage.until("all start", |stage| stage.none_waits(10));
    assert_eq!(stage.sets("roles-group"), [("driver".to_owned(), 1), ("worker".to_owned(), 9)]);
    stage.finished("roles-group");
}

/// The driver in this file of the examples starts only when its workers would fit.
pub fn a_driver_has_room_for_its_workers(stage: &Stage, file: &str) {
    let group = if file.contains("printed") { "printed-group" } else { "driver-group" };
    stage.quota("9m");
    stage.apply(file);
    stage.stays("its workers would not fit", |stage| stage.all_wait(1));
    stage.quota("10m");
    stage.until("it starts", |stage| stage.none_waits(1));
    assert_eq!(stage.sets(group), [("driver".to_owned(), 1), ("workers".to_owned(), 9)], "{file}");
    let worker = |n: usize| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: job-worker-{n}\n  labels:\n    \
             kueue.x-k8s.io/queue-name: user-queue\n    kueue.x-k8s.io/pod-group-name: {group}\n    \
             kueue.x-k8s.io/pod-group-role: worker\nspec:\n  restartPolicy: Never\n  containers:\n  - name: job\n    \
             image: hello-world\n    resources: {{requests: {{cpu: 1m}}}}\n---\n"
        )
    };
    stage.apply_text(&(0..9).map(worker).collect::<String>());
    stage.until("workers start at once", |stage| stage.none_waits(10));
    stage.finished(group);
}

/// A group that asks for it is placed as a whole: its gang, of this API group, is there before it starts, and goes with
/// its last pod. Pods ask this scheduler, or whoever is asked by those who name none.
pub fn a_group_is_placed_together(stage: &Stage, api_group: &str, scheduler: &str) {
    let [workload, group] = ["workloads", "podgroups"].map(|plural| format!("{plural}.{api_group}"));
    stage.quota("10m");
    stage.apply_text(&scheduled_by(scheduler, &read("queue-gang.yaml")));
    stage.until("all start", |stage| stage.none_waits(3));
    let made = stage.get(&[&workload, "ring"]);
    let template = made.items_at(&["spec", "podGroupTemplates"])[0].clone();
    let policy = template.get("policy").or_else(|| template.get("schedulingPolicy"));
    let least = policy.and_then(|it| it.int_at(&["gang", "minCount"]));
    assert_eq!(least, Some(3), "{template}");
    stage.finished("ring");
    let made = stage.get(&[&group, "ring"]);
    let owners = made.items_at(&["metadata", "ownerReferences"]).iter();
    assert_eq!(owners.filter(|it| it.str_at(&["kind"]) == "Pod").count(), 3, "{made}");
    stage.kubectl(&["delete", "pods", "--all"]);
    stage.until("the gang goes with its pods", |stage| match stage.run(&["get", &group, "ring"]) {
        Err(why) if why.contains("NotFound") => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

/// Pods of this text that ask this scheduler; an empty word is nobody's.
fn scheduled_by(scheduler: &str, text: &str) -> String {
    match scheduler {
        "" => text.to_owned(),
        name => {
            text.replace("restartPolicy: Never", &format!("restartPolicy: Never\n  schedulerName: {name}"))
        }
    }
}

/// A gang that has quota and room for all pods but one is not placed at all.
pub fn a_gang_without_room_is_not_begun(stage: &Stage, scheduler: &str) {
    stage.quota("10k");
    let text = scheduled_by(scheduler, &read("queue-gang.yaml"));
    let (small, big) = text.rsplit_once("cpu: 1m").expect("it asks for processors");
    stage.apply_text(&format!("{small}cpu: 9k{big}"));
    stage.until("all are let go", |stage| stage.none_waits(3));
    stage.stays("none is placed without the others", |stage| {
        let pods = stage.get(&["pods"]);
        let placed = |pod: &&Tree| !pod.str_at(&["spec", "nodeName"]).is_empty();
        if pods.items_at(&["items"]).iter().any(|pod| placed(&pod)) { Err(pods.to_json()) } else { Ok(()) }
    });
}

/// A gang that has quota and no room on nodes starts with none of its pods, and gives its quota back after a while.
pub fn a_gang_without_room_is_evicted(stage: &Stage) {
    stage.quota("10k");
    let text = read("queue-gang.yaml");
    let (small, big) = text.rsplit_once("cpu: 1m").expect("it asks for processors");
    stage.apply_text(&format!("{small}cpu: 9k{big}"));
    let told = |stage: &Stage, reason: &str| {
        let events = stage.get(&["events"]);
        events.items_at(&["items"]).iter().filter(|it| it.str_at(&["reason"]) == reason).count()
    };
    stage.until("it has quota, and gives it back", |stage| {
        let count = told(stage, "EvictedDueToPodsReadyTimeout");
        if count > 0 { Ok(()) } else { Err(stage.get(&["pods"]).to_json()) }
    });
    assert_eq!(told(stage, "Started"), 3, "all were let go");
    assert_eq!(told(stage, "Scheduled"), 0, "and none was placed without the others");
    stage.until("nothing is held", |stage| stage.uses("team", "0"));
}

/// Quota that is lent goes back to whom it belongs.
pub fn a_team_borrows_until_the_other_wants_its_own_back(stage: &Stage) {
    let running = |stage: &Stage, job: &str, want: &str| {
        let seen = stage.get(&["job", job]);
        let suspended = seen.bool_at(&["spec", "suspend"]) == Some(true);
        let is = if suspended { "waits" } else { "runs" };
        if is == want { Ok(()) } else { Err(seen.to_json()) }
    };
    stage.apply("queue-cohort.yaml");
    stage.until("the borrower runs", |stage| running(stage, "borrower", "runs"));
    stage.until("and uses all", |stage| stage.uses("blue", "800m"));
    stage.apply("queue-reclaim.yaml");
    stage.until("the owner runs", |stage| running(stage, "owner", "runs"));
    stage.until("the borrower waits", |stage| running(stage, "borrower", "waits"));
    stage.until("nothing is borrowed", |stage| stage.uses("blue", "0").and(stage.uses("green", "400m")));
    let borrower = stage.get(&[WORKLOADS, "-l", "kueue.x-k8s.io/job-uid"]);
    let evicted = borrower.items_at(&["items"]).iter().flat_map(|it| it.items_at(&["status", "conditions"]));
    let mut evicted = evicted.filter(|it| it.str_at(&["type"]) == "Preempted");
    assert_eq!(evicted.next().map(|it| it.str_at(&["reason"])), Some("InCohortReclamation"));
}
