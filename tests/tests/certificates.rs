//! Webhooks behind a Service on a real server, with certificates that are renewed while JobSets are made.
//!
//! Nothing routes to a Service of the test plane: it is an `ExternalName` of this machine, and a door of the test in front of
//! the replicas takes turns, as kube-proxy would.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use muster_tests::clients::{note, skip};
use muster_tests::differential::{ApiClient, HttpAnswer, RequestStep};
use muster_tests::muster_process::{MusterProcess, command, until};
use muster_tests::real::{self, GangSupport, InstalledOperator, RealCluster};
use muster_tests::{embedded_server, ports};
use muster_tree::{Tree, tree};

const SETS: &str = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets";
const SERVICES: &str = "/api/v1/namespaces/muster-system/services";
const SECRETS: &str = "/api/v1/namespaces/muster-system/secrets";
const SECRET: &str = "/api/v1/namespaces/muster-system/secrets/muster-webhook-certs";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1";
const CONFIGURATIONS: [&str; 6] = [
    "mutatingwebhookconfigurations/jobset-mutating-webhook-configuration",
    "validatingwebhookconfigurations/jobset-validating-webhook-configuration",
    "mutatingwebhookconfigurations/kueue-mutating-webhook-configuration",
    "validatingwebhookconfigurations/kueue-validating-webhook-configuration",
    "mutatingwebhookconfigurations/defaulter.trainer.kubeflow.org",
    "validatingwebhookconfigurations/validator.trainer.kubeflow.org",
];
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterqueues.kueue.x-k8s.io";
/// Queues in the version that is converted.
const QUEUES: &str = "/apis/kueue.x-k8s.io/v1beta1/clusterqueues";
/// Certificates that last for moments.
const SHORT: [&str; 6] =
    ["--certificate-lifetime", "30s", "--authority-lifetime", "120s", "--authority-pause", "10s"];

/// Those behind a door.
type Behind = Arc<Mutex<Vec<SocketAddr>>>;

/// Opens one address in front of several, which take turns; one that does not answer is passed over.
fn door(address: &str) -> Behind {
    let (listener, behind) = (TcpListener::bind(address).unwrap(), Behind::default());
    let all = behind.clone();
    std::thread::spawn(move || {
        for (turn, client) in listener.incoming().map_while(Result::ok).enumerate() {
            let all = all.lock().unwrap().clone();
            let mut others = (0..all.len()).map(|at| all[(turn + at) % all.len()]);
            if let Some(server) = others.find_map(|address| TcpStream::connect(address).ok()) {
                join(&client, &server).unwrap();
            }
        }
    });
    behind
}

/// Hands bytes to and fro, until either side ends.
fn join(one: &TcpStream, other: &TcpStream) -> io::Result<()> {
    for (from, to) in [(one.try_clone()?, other.try_clone()?), (other.try_clone()?, one.try_clone()?)] {
        std::thread::spawn(move || {
            let (mut reader, mut writer) = (&from, &to);
            let _ = io::copy(&mut reader, &mut writer);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
    Ok(())
}

/// A real server on which Muster is installed; replicas of the operator come later, under its own account.
struct Stage {
    real: RealCluster,
    installed: InstalledOperator,
    behind: Behind,
    folder: tempfile::TempDir,
}

impl Stage {
    fn new(test: &str) -> Option<Stage> {
        if let Some(reason) = real::missing() {
            skip(test, &reason);
            return None;
        }
        let real = RealCluster::for_install(GangSupport::AllFields).unwrap();
        let installed = real.install(&embedded_server::binary().unwrap()).unwrap();
        let (behind, folder) = (door(&installed.webhooks), tempfile::tempdir().unwrap());
        Some(Stage { real, installed, behind, folder })
    }

    fn server(&self) -> &ApiClient {
        &self.real.server
    }

    /// Installs it once more at the same port, and leads the Service here again.
    fn install_again(&self) {
        let (_, port) = self.installed.webhooks.rsplit_once(':').unwrap();
        let kubeconfig = self.real.kubeconfig(self.folder.path(), self.real.server.base()).unwrap();
        let done = command(&["install", "--webhook-port", port], &kubeconfig).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let path = format!("{SERVICES}/muster-webhook");
        assert_eq!(
            self.server().send("DELETE", &path, &RequestStep::default(), Vec::new()).unwrap().code,
            200
        );
        let local = tree!({"metadata": {"name": "muster-webhook"},
            "spec": {"type": "ExternalName", "externalName": "localhost"}});
        assert_eq!(post(self.server(), SERVICES, &local).code, 201);
    }

    /// Another replica behind the door, which leads to it once it has a certificate: before, it would not be ready.
    fn second_replica(&self, name: &str) -> MusterProcess {
        let (replica, address) = self.started(name);
        self.hears(name, "serving certificate loaded");
        self.behind.lock().unwrap().push(address);
        replica
    }

    /// The first replica; the rotator uses the same API server.
    fn replica(&self, name: &str) -> MusterProcess {
        let (replica, address) = self.started(name);
        self.behind.lock().unwrap().push(address);
        replica
    }

    fn started(&self, name: &str) -> (MusterProcess, SocketAddr) {
        let free = SocketAddr::from(([127, 0, 0, 1], ports::free()));
        let complaints = std::fs::File::create(self.folder.path().join(name)).unwrap();
        let listen = free.to_string();
        let words = ["operator", "--webhook-service", "muster-webhook", "--webhook-listen", &listen];
        let words = [&words[..], &SHORT, &["--log-level", "info"]].concat();
        (MusterProcess::start_with_stderr(&words, &self.installed.kubeconfig, Stdio::from(complaints)), free)
    }

    fn said(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    /// Waits until a replica has said this; all that it said.
    fn hears(&self, name: &str, words: &str) -> String {
        for _ in 0..600 {
            if self.said(name).contains(words) {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let said = self.said(name);
        assert!(said.contains(words), "never said {words:?}: {said}");
        said
    }

    fn configuration(&self, at: usize) -> Tree {
        self.server().get(&format!("{HOOKS}/{}", CONFIGURATIONS[at])).unwrap().body
    }
}

fn post(server: &ApiClient, path: &str, object: &Tree) -> HttpAnswer {
    server.send("POST", path, &RequestStep::default(), object.to_json_bytes()).expect("the server answers")
}

fn patch(server: &ApiClient, path: &str, change: &Tree) {
    let step = RequestStep { kind: "merge".into(), ..RequestStep::default() };
    let done = server.send("PATCH", path, &step, change.to_json_bytes()).unwrap();
    assert_eq!(done.code, 200, "{}", done.body.to_json());
}

fn set(name: &str) -> Tree {
    let pod = tree!({"containers": [{"name": "c", "image": "i"}]});
    let job = tree!({"name": "w", "template": {"spec": {"template": {"spec": pod}}}});
    tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name},
        "spec": {"suspend": true, "replicatedJobs": [job]}})
}

/// Makes JobSets all the time, until it is stopped; all that were refused.
struct Writer {
    stop: Arc<AtomicBool>,
    work: JoinHandle<(usize, Vec<String>)>,
}

impl Writer {
    fn start(real: &RealCluster) -> Writer {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, server) = (stop.clone(), ApiClient::new(real.server.base(), real.token()));
        let work = std::thread::spawn(move || {
            let (mut made, mut refused) = (0, Vec::new());
            while !stopped.load(Ordering::Acquire) {
                let answer = post(&server, SETS, &set(&format!("s{made}")));
                made += 1;
                if answer.code != 201 {
                    refused.push(answer.body.str_at(&["message"]).to_owned());
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            (made, refused)
        });
        Writer { stop, work }
    }

    fn end(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::Release);
        self.work.join().unwrap()
    }
}

fn bundle(configuration: &Tree) -> String {
    let hooks = configuration.items_at(&["webhooks"]);
    let first = hooks[0].str_at(&["clientConfig", "caBundle"]).to_owned();
    assert!(hooks.iter().all(|hook| hook.str_at(&["clientConfig", "caBundle"]) == first));
    first
}

/// Waits until the Secret has what `found` wants.
fn seen<T>(server: &ApiClient, what: &str, found: impl Fn(&Tree) -> Option<T>) -> T {
    until(server, SECRET, what, |secret| secret.get("data").and_then(&found))
}

/// Waits until all webhook configurations and conversion webhooks trust the CA in the Secret.
fn trusted(stage: &Stage) {
    let is_now = |bundle: &str| {
        let secret = stage.server().get(SECRET).unwrap().body;
        let now = secret.str_at(&["data", "ca.crt"]);
        (!now.is_empty() && bundle == now).then_some(())
    };
    for name in CONFIGURATIONS {
        let path = format!("{HOOKS}/{name}");
        until(stage.server(), &path, "an authority that is trusted", |it| is_now(&bundle(it)));
    }
    let client = ["spec", "conversion", "webhook", "clientConfig", "caBundle"];
    until(stage.server(), DEFINITION, "an authority that is trusted", |it| is_now(it.str_at(&client)));
}

/// Waits until a queue is shown in the older version.
fn converted(stage: &Stage) {
    until(stage.server(), &format!("{QUEUES}/q"), "a queue in the older version", |it| {
        (it.str_at(&["spec", "cohort"]) == "c").then_some(())
    });
}

#[test]
fn certificates_are_renewed_while_jobsets_are_made() {
    let Some(stage) = Stage::new("certificates_are_renewed_while_jobsets_are_made") else { return };
    let server = stage.server();
    let mut first = stage.replica("first");
    first.wait_for_line("muster is the leader at https://");
    let _second = stage.second_replica("second");
    until(server, SECRET, "a Secret", |secret| {
        (secret.str_at(&["type"]) == "kubernetes.io/tls").then_some(())
    });

    let queue = tree!({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": "q"},
        "spec": {"cohort": "c"}});
    let made = post(server, QUEUES, &queue);
    assert_eq!(made.code, 201, "{}", made.body.to_json());
    let writer = Writer::start(&stage.real);
    let text = |data: &Tree, key: &str| data.str_at(&[key]).to_owned();
    let begun = seen(server, "certificates", |data| Some(data.clone()));
    let mut shown = vec![text(&begun, "tls.crt")];
    for _ in 0..3 {
        let next = seen(server, "a renewed certificate", |data| {
            let now = text(data, "tls.crt");
            (!shown.contains(&now)).then_some(now)
        });
        shown.push(next);
    }
    let authority = text(&begun, "authority.crt");
    seen(server, "another authority", |data| (text(data, "authority.crt") != authority).then_some(()));
    seen(server, "an authority that is alone", |data| {
        let only = text(data, "ca.crt") == text(data, "authority.crt");
        (only && text(data, "authority.crt") != authority).then_some(())
    });
    trusted(&stage);
    converted(&stage);

    mends_itself(&stage, &begun);
    let (made, refused) = writer.end();
    assert!(
        refused.is_empty(),
        "{} of {made} refused: {:?}\n{}",
        refused.len(),
        refused.first(),
        stage.said("first")
    );
    assert!(made > 100, "{made}");
    note(&format!(
        "muster operator: {made} JobSets made through rotations of certificates and authority, none refused"
    ));
}

/// The Secret is deleted, the trusted authority overwritten, a hook pointed elsewhere: all come back.
fn mends_itself(stage: &Stage, begun: &Tree) {
    let server = stage.server();
    let uid = server.get(SECRET).unwrap().body.text_at(&["metadata", "uid"]);
    assert_eq!(server.send("DELETE", SECRET, &RequestStep::default(), Vec::new()).unwrap().code, 200);
    until(server, SECRET, "the Secret again", |it| {
        let other = it.text_at(&["metadata", "uid"]);
        (!other.is_empty() && other != uid).then_some(())
    });
    trusted(stage);
    // Adds a foreign CA to the bundle: without ours, JobSets would be rejected until the bundle is repaired.
    let old = BASE64_STANDARD.decode(begun.str_at(&["authority.crt"])).unwrap();
    let now = BASE64_STANDARD.decode(bundle(&stage.configuration(0))).unwrap();
    let both = BASE64_STANDARD.encode([now, old].concat());
    let hooks = stage
        .configuration(0)
        .get("webhooks")
        .unwrap()
        .map_items(|_, hook| hook.with(&["clientConfig", "caBundle"], both.as_str()));
    patch(server, &format!("{HOOKS}/{}", CONFIGURATIONS[0]), &tree!({"webhooks": hooks}));
    trusted(stage);
}

/// Makes a JobSet of this name, again and again until it is accepted.
fn accepted(stage: &Stage, name: &str) {
    let mut last = Tree::Null;
    for _ in 0..300 {
        let answer = post(stage.server(), SETS, &set(name));
        if answer.code == 201 {
            return;
        }
        last = answer.body;
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{name} is never accepted: {}", last.to_json());
}

/// The API server's error when no webhook answers; it picks up new configurations after a moment.
fn refused_early(server: &ApiClient) -> String {
    let mut last = Tree::Null;
    for _ in 0..300 {
        let answer = post(server, &format!("{SETS}?dryRun=All"), &set("early"));
        if answer.code == 500 {
            return answer.body.str_at(&["message"]).to_owned();
        }
        last = answer.body;
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("never refused: {}", last.to_json());
}

#[test]
fn behind_a_service_nothing_passes_unseen_and_nobody_else_suffers() {
    let Some(stage) = Stage::new("behind_a_service_nothing_passes_unseen_and_nobody_else_suffers") else {
        return;
    };
    let server = stage.server();
    let message = refused_early(server);
    assert!(message.contains("failed calling webhook \"mjobset.kb.io\""), "{message}");
    let pod = tree!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let job = tree!({"metadata": {"name": "j"}, "spec": {"template": {"spec": pod.clone()}}});
    assert_eq!(post(server, "/apis/batch/v1/namespaces/default/jobs", &job).code, 201);
    let pod = tree!({"metadata": {"name": "p"}, "spec": pod});
    assert_eq!(post(server, "/api/v1/namespaces/default/pods", &pod).code, 201);

    let mut operator = stage.replica("only");
    operator.wait_for_line("muster is the leader at https://");
    accepted(&stage, "first");

    let everything = |at: usize, client: &Tree| {
        let hooks = stage
            .configuration(at)
            .get("webhooks")
            .unwrap()
            .map_items(|_, hook| hook.with(&["clientConfig"], client.clone()));
        tree!({"webhooks": hooks})
    };
    let stranger = BASE64_STANDARD.encode(rcgen_authority());
    let service =
        tree!({"name": "jobset-webhook-service", "namespace": "jobset-system", "path": "/p", "port": 443});
    for (at, client) in [
        (0, tree!({"service": service.clone(), "caBundle": stranger.as_str()})),
        (1, tree!({"url": "https://127.0.0.1:1", "caBundle": stranger.as_str()})),
    ] {
        patch(server, &format!("{HOOKS}/{}", CONFIGURATIONS[at]), &everything(at, &client));
    }
    trusted(&stage);
    accepted(&stage, "second");
    for name in CONFIGURATIONS {
        let gone =
            server.send("DELETE", &format!("{HOOKS}/{name}"), &RequestStep::default(), Vec::new()).unwrap();
        assert_eq!(gone.code, 200);
    }
    stage.install_again();
    trusted(&stage);
    accepted(&stage, "third");

    let mine = tree!({"data": {"authority.key": "AAAA", "tls.crt": "AAAA"}});
    patch(server, SECRET, &mine);
    seen(server, "certificates that are whole", |data| {
        (data.str_at(&["tls.crt"]) != "AAAA" && data.str_at(&["authority.key"]) != "AAAA").then_some(())
    });
    trusted(&stage);
    accepted(&stage, "fourth");
    assert_eq!(operator.terminate(), 0);
    assert_eq!(post(server, SETS, &set("late")).code, 500, "with nobody there, nothing is accepted");
}

fn rcgen_authority() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    rcgen::CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap().pem()
}

#[test]
fn a_secret_of_another_is_left_alone() {
    let Some(stage) = Stage::new("a_secret_of_another_is_left_alone") else { return };
    let server = stage.server();
    let theirs = tree!({"metadata": {"name": "muster-webhook-certs"}, "stringData": {"tls.crt": "theirs"}});
    assert_eq!(post(server, SECRETS, &theirs).code, 201);
    let mut operator = stage.replica("only");
    let said = stage.hears("only", "muster-system/muster-webhook-certs is not managed by Muster");
    assert!(said.contains("is not managed by Muster: it holds \"tls.crt\""), "{said}");
    let pod = tree!({"schedulerName": "muster-scheduler", "containers": [{"name": "c", "image": "i"}]});
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(post(server, pods, &tree!({"metadata": {"name": "p"}, "spec": pod})).code, 201);
    until(server, &format!("{pods}/p"), "a pod that our scheduler looked at", |pod| {
        let mut conditions = pod.items_at(&["status", "conditions"]).iter();
        conditions.any(|it| it.str_at(&["reason"]) == "Unschedulable").then_some(())
    });
    let said =
        stage.hears("only", "does not reach the webhooks through the Service muster-system/muster-webhook");
    assert!(said.contains("it says: Internal error occurred: failed calling webhook"), "{said}");
    let kept = server.get(SECRET).unwrap().body;
    assert_eq!(kept.at(&["data"]), Some(&tree!({"tls.crt": (BASE64_STANDARD.encode("theirs"))})));
    assert_eq!(server.send("DELETE", SECRET, &RequestStep::default(), Vec::new()).unwrap().code, 200);
    operator.wait_for_line("muster is the leader at https://");
    accepted(&stage, "first");
}
