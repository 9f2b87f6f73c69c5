//! From the upstream controller to ours and back: whatever runs goes on, and nothing is made anew.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use muster_tests::clients::{note, program, skip};
use muster_tests::corpus::jobset_crd;
use muster_tests::differential::ApiClient;
use muster_tests::doc_tests;
use muster_tests::jobset_cluster::{
    JOBS, JOBSETS, PODS, SERVICES, items, jobset_cluster_with, jobset_label, name, patch, post,
    replicated_job, terminate_pod, wait_for,
};
use muster_tests::muster_process::MusterProcess;
use muster_tests::ports;
use muster_tests::proxy::{Proxy, RecordedRequest};
use muster_tests::real::{self, RealCluster};
use muster_tests::upstream_jobset::{self, ClientLimits, UpstreamController};
use muster_tree::{Tree, tree};

const NODES: usize = 8;
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobsets.jobset.x-k8s.io";
/// How long all has to be still before it counts as still.
const STILL: Duration = Duration::from_secs(3);
/// Names and what is special about them.
const KINDS: [&str; 10] = [
    "plain",
    "several",
    "ordered",
    "success",
    "restarted",
    "suspended",
    "finished",
    "exclusive",
    "network",
    "coordinator",
];

fn jobset(kind: &str) -> Tree {
    let (a, b) = (replicated_job("a", 1), replicated_job("b", 2));
    let after = b.with(&["dependsOn"], tree!([{"name": "a", "status": "Complete"}]));
    let both = Tree::list(vec![a.clone(), b.clone()]);
    let restarts = tree!({"maxRestarts": 3});
    let mut meta = tree!({"name": kind});
    let spec = match kind {
        "several" => tree!({"replicatedJobs": both}),
        "ordered" => tree!({"replicatedJobs": [a, after]}),
        "success" => {
            tree!({"replicatedJobs": both, "successPolicy": {"operator": "Any", "targetReplicatedJobs": ["b"]}})
        }
        "suspended" => tree!({"replicatedJobs": [b], "suspend": true}),
        "finished" => tree!({"replicatedJobs": [a], "ttlSecondsAfterFinished": 3600}),
        "exclusive" => {
            let topology = tree!({"alpha.jobset.sigs.k8s.io/exclusive-topology": "kubernetes.io/hostname"});
            meta = meta.with(&["annotations"], topology);
            tree!({"replicatedJobs": [b]})
        }
        "network" => {
            tree!({"replicatedJobs": [b], "network": {"enableDNSHostnames": true, "subdomain": "net"}})
        }
        "coordinator" => tree!({"replicatedJobs": both, "coordinator": {"replicatedJob": "a"}}),
        _ => tree!({"replicatedJobs": [b], "failurePolicy": restarts}),
    };
    tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta, "spec": spec})
}

#[test]
fn from_upstream_to_ours_and_back() {
    let test = "from_upstream_to_ours_and_back";
    if let Some(reason) = real::missing().or_else(upstream_jobset::missing) {
        return skip(test, &reason);
    }
    let definition = match jobset_crd() {
        Ok(definition) => definition.to_json_bytes(),
        Err(reason) => return skip(test, &reason),
    };
    let mut real = jobset_cluster_with(
        |real| real.create_crd(definition),
        &["gc", "namespace", "job", "node", "scheduler"],
    )
    .unwrap();
    real.add_simulated_nodes(&muster_tests::embedded_server::binary().unwrap(), NODES).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let upstream = begin(&mut real, folder.path());
    let before = lived_under_upstream(&real.server);

    real.kill(upstream.pid).unwrap();
    let proxy = Proxy::start(real.server.base().trim_start_matches("https://").parse().unwrap()).unwrap();
    let ours = take_over(&real.server, &proxy, folder.path());
    let after = still(&real.server);
    assert_eq!(before.lasting, after.lasting, "what runs goes on as it is");
    tell(&proxy.requests_since(0), &before, &after);
    goes_on(&real.server);

    let before = still(&real.server);
    assert_eq!(ours.terminate(), 0);
    let _upstream = begin(&mut real, folder.path());
    asked(&real.server, "back");
    let after = still(&real.server);
    let kept = |all: &World| -> BTreeMap<String, String> {
        all.lasting
            .iter()
            .filter(|(key, _)| !key.contains(" back"))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    };
    assert_eq!(kept(&before), kept(&after), "and so it does on the way back");
    note("take-over: from upstream's controller to ours and back, no Job, Pod or Service was made anew");
}

/// Starts upstream's controller and has the server ask it.
fn begin(real: &mut RealCluster, folder: &Path) -> UpstreamController {
    let upstream = upstream_jobset::start(real, folder, ClientLimits::Stock).unwrap();
    upstream.register(&real.server).unwrap();
    upstream
}

/// Creates a JobSet as soon as a webhook admits it, and waits for its Jobs.
fn asked(server: &ApiClient, kind: &str) {
    wait_for("JobSets are admitted", || {
        let made = post(server, JOBSETS, &jobset(kind))?;
        if matches!(made.code, 201 | 409) { Ok(()) } else { Err(made.body.to_json()) }
    });
    wait_for("its Jobs", || {
        let count = jobs_of(server, kind).len();
        if count > 0 { Ok(()) } else { Err(format!("{kind} has {count}")) }
    });
}

fn jobs_of(server: &ApiClient, set: &str) -> Vec<Tree> {
    items(server, JOBS).into_iter().filter(|job| jobset_label(job, "jobset-name") == set).collect()
}

/// The pod of this Job that runs.
fn pod_of(server: &ApiClient, job: &str) -> Tree {
    let mut found = Tree::Null;
    wait_for("a pod that runs", || {
        let pods = items(server, PODS);
        let is_it = |pod: &&Tree| {
            pod.str_at(&["metadata", "labels", "batch.kubernetes.io/job-name"]) == job
                && pod.str_at(&["status", "phase"]) == "Running"
        };
        found = pods.iter().find(is_it).ok_or_else(|| format!("{job} has none"))?.clone();
        Ok(())
    });
    found
}

fn has_status(server: &ApiClient, set: &str, key: &str, want: &Tree) {
    wait_for(&format!("{set} whose {key} is {want}"), || {
        let set = server.get(&format!("{JOBSETS}/{set}"))?.body;
        let found = set.at(&["status", key]).cloned().unwrap_or_default();
        if found == *want { Ok(()) } else { Err(found.to_json()) }
    });
}

fn lived_under_upstream(server: &ApiClient) -> World {
    for kind in KINDS {
        asked(server, kind);
    }
    terminate_pod(server, &pod_of(server, "finished-a-0"), 0);
    has_status(server, "finished", "terminalState", &"Completed".into());
    terminate_pod(server, &pod_of(server, "restarted-b-1"), 1);
    has_status(server, "restarted", "restarts", &1.into());
    for job in [
        "plain-b-0",
        "plain-b-1",
        "several-b-1",
        "ordered-a-0",
        "restarted-b-0",
        "restarted-b-1",
        "exclusive-b-1",
    ] {
        pod_of(server, job);
    }
    still(server)
}

/// The definition of ours over that of upstream, and our operator.
fn take_over(server: &ApiClient, proxy: &Proxy, folder: &Path) -> MusterProcess {
    let binary = muster_tests::embedded_server::binary().unwrap();
    let definition = real::crd_manifest(&binary, real::JOBSET_CRD).unwrap();
    let path = format!("{DEFINITION}?fieldManager=kubectl&force=true");
    let applied = patch(server, &path, "apply", &definition).unwrap();
    assert_eq!(applied.code, 200, "{}", applied.body.to_json());
    let kubeconfig = folder.join("through-proxy");
    std::fs::create_dir_all(&kubeconfig).unwrap();
    let config = std::fs::read_to_string(folder.join("kubeconfig")).unwrap();
    std::fs::write(kubeconfig.join("kubeconfig"), config.replace(server.base(), &proxy.base())).unwrap();
    let words = ["operator", "--controllers", "jobset"];
    let mut ours = MusterProcess::start(&words, &kubeconfig.join("kubeconfig"));
    ours.wait_for_line("muster is the leader at https://");
    ours
}

struct World {
    /// What must not change: UIDs, whether it goes, and restarts.
    lasting: BTreeMap<String, String>,
    revisions: BTreeMap<String, String>,
}

fn world(server: &ApiClient) -> World {
    let (mut lasting, mut revisions) = (BTreeMap::new(), BTreeMap::new());
    for (path, kind) in [(JOBSETS, "JobSet"), (JOBS, "Job"), (PODS, "Pod"), (SERVICES, "Service")] {
        for object in items(server, path) {
            let key = format!("{kind} {}", name(&object));
            let meta = |key: &str| object.str_at(&["metadata", key]).to_owned();
            let restarts = object.int_at(&["status", "restarts"]).unwrap_or(0);
            lasting.insert(key.clone(), format!("{} {} {restarts}", meta("uid"), meta("deletionTimestamp")));
            revisions.insert(key, meta("resourceVersion"));
        }
    }
    World { lasting, revisions }
}

/// Whether every Job that is to run does, and none is left of an attempt before.
fn all_run(server: &ApiClient) -> Result<(), String> {
    let sets = items(server, JOBSETS);
    let restarts = |of: &str| {
        let set = sets.iter().find(|set| name(set) == of);
        set.and_then(|set| set.int_at(&["status", "restarts"])).unwrap_or(0).to_string()
    };
    let settled = |job: &&Tree| {
        let ended = job.items_at(&["status", "conditions"]).iter().any(|it| {
            matches!(it.str_at(&["type"]), "Complete" | "Failed") && it.str_at(&["status"]) == "True"
        });
        let rests = ended || job.bool_at(&["spec", "suspend"]) == Some(true);
        let runs = job.int_at(&["status", "ready"]) == job.int_at(&["spec", "parallelism"]);
        (rests || runs) && jobset_label(job, "restart-attempt") == restarts(jobset_label(job, "jobset-name"))
    };
    match items(server, JOBS).iter().find(|job| !settled(job)) {
        None => Ok(()),
        Some(job) => Err(format!("{}: {}", name(job), job.at(&["status"]).cloned().unwrap_or_default())),
    }
}

/// All, when all run that should and nothing has changed for a while.
fn still(server: &ApiClient) -> World {
    wait_for("all Jobs run", || all_run(server));
    let mut last = world(server);
    wait_for("nothing changes any more", || {
        std::thread::sleep(STILL);
        let now = world(server);
        let same = now.revisions == last.revisions;
        last = now;
        if same { Ok(()) } else { Err("it does".to_owned()) }
    });
    last
}

/// What ours wrote, and what of it changed an object that was there before.
fn tell(seen: &[RecordedRequest], before: &World, after: &World) {
    let mut writes: BTreeMap<String, usize> = BTreeMap::new();
    for write in seen.iter().filter(|it| it.method != "GET" && !it.path.contains("/leases")) {
        let sort = write.path.split('/').find(|word| {
            matches!(*word, "jobsets" | "jobs" | "pods" | "services" | "events")
                || word.ends_with("configurations")
        });
        *writes.entry(format!("{} {}", write.method, sort.unwrap_or(&write.path))).or_default() += 1;
    }
    let rewritten: Vec<&String> = before
        .revisions
        .iter()
        .filter(|(key, at)| after.revisions.get(*key) != Some(at))
        .map(|it| it.0)
        .collect();
    note(&format!(
        "take-over: {} objects of upstream's, ours wrote {writes:?}; rewritten: {rewritten:?}",
        before.lasting.len()
    ));
    let created = seen.iter().any(|it| it.method == "POST" && (it.path == JOBS || it.path == SERVICES));
    assert!(!created, "nothing was to be made");
}

/// A failing one restarts, a dependent one starts, a suspended one resumes, a finished one stays.
fn goes_on(server: &ApiClient) {
    terminate_pod(server, &pod_of(server, "plain-b-0"), 1);
    terminate_pod(server, &pod_of(server, "restarted-b-0"), 1);
    terminate_pod(server, &pod_of(server, "ordered-a-0"), 0);
    let resumed =
        patch(server, &format!("{JOBSETS}/suspended"), "merge", &tree!({"spec": {"suspend": false}}));
    assert_eq!(resumed.unwrap().code, 200);
    has_status(server, "plain", "restarts", &1.into());
    has_status(server, "restarted", "restarts", &2.into());
    for job in ["plain-b-0", "restarted-b-1", "ordered-b-0", "ordered-b-1", "suspended-b-0", "exclusive-b-0"]
    {
        pod_of(server, job);
    }
    terminate_pod(server, &pod_of(server, "success-b-0"), 0);
    has_status(server, "success", "terminalState", &"Completed".into());
    has_status(server, "finished", "terminalState", &"Completed".into());
}

/// Where the chapter about JobSets ends and that about TrainJobs begins.
const CHAPTER: &str = "# From Kubeflow Trainer";
/// Upstream's Deployments, and ours: namespace and name.
const JOBSET_DEPLOYMENT: (&str, &str) = ("jobset-system", "jobset-controller-manager");
const TRAINER_DEPLOYMENT: (&str, &str) = ("kubeflow-system", "kubeflow-trainer-controller-manager");
const OUR_DEPLOYMENT: (&str, &str) = ("muster-system", "muster-operator");

/// A namespace with a Deployment in it, as a release of upstream has them.
fn release((space, name): (&str, &str), labels: &[(&'static str, &str)]) -> [Tree; 2] {
    let selector = tree!({"control-plane": "controller-manager", "of": name});
    let container = tree!({"name": "manager", "image": "i"});
    let pod = tree!({"metadata": {"labels": selector.clone()}, "spec": {"containers": [container]}});
    let meta = tree!({"name": name, "namespace": space, "labels": Tree::map(labels.iter().copied())});
    [
        tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}),
        tree!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta,
            "spec": {"replicas": 1, "selector": {"matchLabels": selector}, "template": pod}}),
    ]
}

fn yaml(documents: &[Tree]) -> String {
    documents.iter().map(|it| format!("---\n{}", it.to_yaml())).collect()
}

/// A cluster whose Deployments have simulated pods. The programs that these pods stand for are processes beside it: they are
/// started and ended as the Deployments say.
struct Cluster {
    real: RealCluster,
    folder: tempfile::TempDir,
    kubeconfig: PathBuf,
    /// Where the API server asks the webhooks of the installed operator.
    port: u16,
    upstream: Option<UpstreamController>,
    installed: Option<u32>,
    /// An operator that is not installed.
    outside: Option<MusterProcess>,
}

impl Cluster {
    /// With upstream's release of JobSets, and `manifests.yaml` of that release in the reader's folder.
    fn start(kubectl: &Path, definition: Tree) -> Cluster {
        let bytes = definition.to_json_bytes();
        let controllers = ["gc", "namespace", "job", "node", "deployment", "scheduler"];
        let mut real = jobset_cluster_with(|real| real.create_crd(bytes), &controllers).unwrap();
        let binary = muster_tests::embedded_server::binary().unwrap();
        real.add_simulated_nodes(&binary, NODES).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for (program, name) in [(binary.as_path(), "muster"), (kubectl, "kubectl")] {
            std::os::unix::fs::symlink(program, folder.path().join(name)).unwrap();
        }
        let [space, deployment] = release(JOBSET_DEPLOYMENT, &[("app.kubernetes.io/part-of", "jobset")]);
        let manifests = yaml(&[space, definition, deployment]);
        std::fs::write(folder.path().join("manifests.yaml"), manifests).unwrap();
        let kubeconfig = real.kubeconfig(folder.path(), real.server.base()).unwrap();
        let port = ports::free();
        let mut cluster =
            Cluster { real, folder, kubeconfig, port, upstream: None, installed: None, outside: None };
        cluster.run("kubectl apply --server-side --force-conflicts -f manifests.yaml");
        assert!(cluster.upstream.is_some(), "upstream's controller runs");
        cluster
    }

    fn server(&self) -> &ApiClient {
        &self.real.server
    }

    fn shell(&self, line: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("sh");
        command.args(["-e", "-c", line]).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("PATH", format!("{}:{path}", self.folder.path().display()));
        command.env("KUBECONFIG", &self.kubeconfig).env("LISTEN", format!("127.0.0.1:{}", ports::free()));
        command
    }

    /// Runs a line of the page, and has the nodes do what it asks for.
    fn run(&mut self, line: &str) {
        if line.starts_with("muster operator") {
            let mut outside = MusterProcess::spawn(&mut self.shell(&format!("exec {line}")));
            outside.wait_for_line("muster is the leader at https://");
            self.outside = Some(outside);
            return;
        }
        // No network of a cluster leads to the Service of the webhooks: it leads to a port of this machine.
        let port = format!("muster install --webhook-port {}", self.port);
        let output = self.shell(&line.replacen("muster install", &port, 1)).output().unwrap();
        let said = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
        assert!(output.status.success(), "`{line}` failed: {said}");
        self.reconcile();
    }

    /// How many replicas a Deployment is to have.
    fn replicas(&self, (space, name): (&str, &str)) -> i64 {
        let path = format!("/apis/apps/v1/namespaces/{space}/deployments/{name}");
        let found = self.server().get(&path).unwrap();
        if found.code == 404 { 0 } else { found.body.int_at(&["spec", "replicas"]).unwrap_or(1) }
    }

    fn reconcile(&mut self) {
        if self.replicas(JOBSET_DEPLOYMENT) == 0
            && let Some(upstream) = self.upstream.take()
        {
            self.real.kill(upstream.pid).unwrap();
        }
        if self.replicas(OUR_DEPLOYMENT) == 0 {
            if let Some(operator) = self.installed.take() {
                self.real.kill(operator).unwrap();
            }
        } else if self.installed.is_none() {
            let installed = self.real.installed(self.port).unwrap();
            let binary = muster_tests::embedded_server::binary().unwrap();
            self.installed = Some(self.real.start_installed_operator(&binary, &installed, &[]).unwrap());
        }
        if self.upstream.is_none() && self.replicas(JOBSET_DEPLOYMENT) > 0 {
            self.upstream = Some(begin(&mut self.real, self.folder.path()));
        }
    }

    /// Waits while the API server takes in a definition that has changed.
    fn jobsets_are_served(&self) {
        wait_for("JobSets are served", || {
            let answer = self.server().get(JOBSETS)?;
            if answer.code == 200 { Ok(()) } else { Err(answer.body.to_json()) }
        });
    }

    /// Plays blocks of the page. No object changes beside what a block is about.
    fn play(&mut self, blocks: &[String]) {
        for block in blocks {
            if let Some(outside) = self.outside.take() {
                assert_eq!(outside.terminate(), 0);
            }
            let before = world(self.server()).lasting;
            for line in doc_tests::lines(block) {
                self.run(&line);
                self.jobsets_are_served();
                assert_eq!(before, world(self.server()).lasting, "after `{line}`");
            }
        }
    }
}

#[test]
fn the_page_can_be_followed() {
    let test = "the_page_can_be_followed";
    let Some(kubectl) = program("MUSTER_TEST_KUBECTL", test) else { return };
    if let Some(reason) = real::missing().or_else(upstream_jobset::missing) {
        return skip(test, &reason);
    }
    let definition = match jobset_crd() {
        Ok(definition) => definition,
        Err(reason) => return skip(test, &reason),
    };
    let page = std::fs::read_to_string(doc_tests::page("guides/take-over.md")).unwrap();
    let (jobsets, trainjobs) = page.split_once(CHAPTER).expect("there are two chapters");
    let jobsets: Vec<&str> = jobsets.split("\n## ").skip(1).collect();
    let trainjobs: Vec<&str> = trainjobs.split("\n## ").skip(1).collect();
    let blocks = |section: &str| doc_tests::blocks(section).unwrap();
    let [there, back, outside] = jobsets[..] else { panic!("sections of JobSets: {}", jobsets.len()) };
    let [train_there, train_back] = trainjobs[..] else {
        panic!("sections of TrainJobs: {}", trainjobs.len())
    };

    let mut cluster = Cluster::start(&kubectl, definition);
    ["plain", "several"].iter().for_each(|kind| asked(cluster.server(), kind));
    still(cluster.server());

    cluster.play(&blocks(there));
    assert!(cluster.installed.is_some() && cluster.upstream.is_none(), "ours is in charge");
    asked(cluster.server(), "there");
    still(cluster.server());

    cluster.play(&blocks(back));
    assert!(cluster.installed.is_none() && cluster.upstream.is_some(), "upstream is in charge");
    asked(cluster.server(), "back");
    still(cluster.server());
    let ours = "-l app.kubernetes.io/managed-by=muster-install";
    let left = format!(
        "kubectl get apiservices,clusterroles,clusterrolebindings,mutatingwebhookconfigurations,\
         validatingwebhookconfigurations -o name {ours}; kubectl get roles,rolebindings -A -o name {ours}; \
         kubectl get namespace muster-system --ignore-not-found -o name"
    );
    let left = cluster.shell(&left).output().unwrap();
    assert!(left.status.success(), "{}", String::from_utf8_lossy(&left.stderr));
    assert_eq!(String::from_utf8_lossy(&left.stdout), "", "nothing of ours is left");

    let outside = blocks(outside);
    let [by_hand, back] = &outside[..] else { panic!("blocks without installing: {}", outside.len()) };
    cluster.play(std::slice::from_ref(by_hand));
    assert!(cluster.outside.is_some() && cluster.upstream.is_none(), "ours is in charge");
    asked(cluster.server(), "by-hand");
    still(cluster.server());
    cluster.play(std::slice::from_ref(back));
    assert!(cluster.upstream.is_some(), "upstream is in charge");
    asked(cluster.server(), "again");
    still(cluster.server());

    let labels = [("app.kubernetes.io/part-of", "kubeflow"), ("app.kubernetes.io/name", "trainer")];
    let trainer = yaml(&release(TRAINER_DEPLOYMENT, &labels));
    std::fs::write(cluster.folder.path().join("trainer.yaml"), trainer).unwrap();
    cluster.run("kubectl apply -f trainer.yaml");
    cluster.play(&blocks(train_there));
    assert_eq!((cluster.replicas(TRAINER_DEPLOYMENT), cluster.replicas(JOBSET_DEPLOYMENT)), (0, 0));
    assert!(cluster.installed.is_some(), "ours is in charge");
    cluster.play(&blocks(train_back));
    assert_eq!(cluster.replicas(TRAINER_DEPLOYMENT), 1);
    note("take-over: the commands of the page, on a real server with upstream's controller");
}
